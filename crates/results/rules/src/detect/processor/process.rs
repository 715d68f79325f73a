//! Settings of the kernel for the server's processes.

/// A value of a fact's lines `NAME VALUE`.
pub fn value<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let mut lines = text.lines();
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
}
/// A machine is busy from this share of its CPUs on.
pub const BUSY: f64 = 0.8;

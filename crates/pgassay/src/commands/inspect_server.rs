//! What inspect sees in the executable of the server under measurement.

use pgassay_inspect::{Binary, Options, inspect_elf};
use pgassay_sys::map::Mapped;

use super::subject::Subject;

/// Inspects the very file that the server's process runs.
///
/// # Errors
/// Why it can't be seen or read, in words for the report.
pub fn inspect(subject: &Subject) -> Result<Binary, String> {
    let path = subject.executable()?;
    let shown = std::fs::read_link(&path).unwrap_or_else(|_| path.clone());
    let bytes = Mapped::open(&path).map_err(|e| format!("{}: {e}", shown.display()))?;
    let name = shown.display().to_string();
    let mut binary = inspect_elf(&name, &bytes, &Options::default())
        .map_err(|e| format!("{}: {e}", shown.display()))?;
    // Addresses fill pages and say no more than the functions do: `inspect --addresses` has them.
    binary.atomics.instructions.clear();
    binary.atomics.outside.clear();
    if let Some(outline) = &mut binary.atomics.outline {
        outline.calls.clear();
    }
    Ok(binary)
}

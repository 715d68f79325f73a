//! What inspect sees in the executable of the server under measurement.

use std::path::Path;

use pgassay_inspect::{Binary, Options, inspect_elf};
use pgassay_sys::map::Mapped;

use super::subject::Subject;
use pgassay_server::inspection::gather;

/// Inspects the very file that the server's process runs, with the process's own word on the path
/// that its atomics take: the same account as `pgassay inspect PID` gives of it.
///
/// # Errors
/// Why it can't be seen or read, in words for the report.
pub fn inspect(subject: &Subject) -> Result<Binary, String> {
    let mut binary = gather::program_of(subject.scene.postmaster.clone()?)?;
    // Addresses fill pages and say no more than the functions do: `inspect --addresses` has them.
    binary.atomics.forget_addresses();
    Ok(binary)
}

/// The library with the functions inside the server, by itself.
///
/// # Errors
/// Why it can't be read, in words for the report.
pub fn inspect_library(path: &Path) -> Result<Binary, String> {
    let shown = path.display();
    let bytes = Mapped::open(path).map_err(|e| format!("{shown}: {e}"))?;
    let mut binary = inspect_elf(&shown.to_string(), &bytes, &Options::default())
        .map_err(|e| format!("{shown}: {e}"))?;
    binary.atomics.forget_addresses();
    Ok(binary)
}

//! What inspect sees in the executable of the server under measurement.

use pgassay_inspect::Binary;

use super::subject::Subject;
use crate::inspection::gather;

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

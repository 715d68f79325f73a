//! Files that a command writes for its user, and what a failure to write one means.

use std::path::{Path, PathBuf};

use pgassay_sys::output;

use crate::terminal::ClosedPipe;
use pgassay_model::{Failure, FailureKind};

/// Writes the file that a user named with `flag`.
///
/// # Errors
/// Where it can't be written, naming the path and the remedy.
pub(super) fn to_file(path: &Path, flag: &str, text: &str) -> anyhow::Result<()> {
    output::write(path, text.as_bytes()).map_err(|error| match error.closed_pipe() {
        true => ClosedPipe.into(),
        false => Failure::usage(error.to_string())
            .with_remedy(format!("{} with {flag}", error.remedy()))
            .into(),
    })
}

/// Writes `report.html` into a run's directory and says where it is.
///
/// # Errors
/// Where it can't be written; what was measured is kept, and none but a whole page is left.
pub(super) fn page_of_run(dir: &Path, page: &str) -> anyhow::Result<PathBuf> {
    let path = dir.join("report.html");
    match output::replace(&path, page.as_bytes()) {
        Ok(()) => Ok(path),
        Err(error) => Err(Failure {
            kind: FailureKind::Partial,
            message: format!("the run is recorded, but its report is not: {error}"),
            remedy: Some(format!(
                "free some space and call pgassay report {} --format html --output FILE",
                dir.display()
            )),
        }
        .into()),
    }
}

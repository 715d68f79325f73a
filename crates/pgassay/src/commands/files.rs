//! Files that a command writes for its user, and what a failure to write one means.

use std::path::{Path, PathBuf};

use pgassay_sys::output;

use crate::session::Session;
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

/// Writes `report.html` into a run's directory and says where it is. Where the command was typed on another machine,
/// that one renders it from what was recorded.
///
/// # Errors
/// Where it can't be written; what was measured is kept, and none but a whole page is left.
pub(super) fn page_of_run(dir: &Path, page: &str) -> anyhow::Result<PathBuf> {
    let path = dir.join("report.html");
    if Session::of_this().is_some() {
        return Ok(path);
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Attack D19: with a full disk under the report a cut one stayed, and the exit code was 0.
    #[test]
    fn a_report_that_is_not_written_makes_a_run_partial() {
        let dir = std::env::temp_dir().join(format!("pgassay-test-page-{}", std::process::id()));
        // It can't be put in a directory's place.
        let page = dir.join("report.html");
        std::fs::create_dir_all(page.join("full")).unwrap();
        let error = page_of_run(&dir, "<html>").unwrap_err();
        let failure = error.downcast_ref::<Failure>().unwrap();
        assert_eq!(failure.kind, FailureKind::Partial);
        assert!(
            failure.message.contains("the run is recorded"),
            "{failure:?}"
        );
        assert!(failure.remedy.as_ref().unwrap().contains("pgassay report"));
        let left: Vec<_> = std::fs::read_dir(&dir).unwrap().flatten().collect();
        assert!(left.len() == 1 && left[0].path() == page, "{left:?}");
        std::fs::remove_dir(page.join("full")).unwrap();
        std::fs::remove_dir(&page).unwrap();

        assert_eq!(page_of_run(&dir, "<html>").unwrap(), page);
        assert_eq!(std::fs::read(&page).unwrap(), b"<html>");
        std::fs::remove_dir_all(&dir).unwrap();
    }
}

//! Programs by their names.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program that needs no password of a server: the one in the environment is not passed on.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env_remove("PGPASSWORD");
    command
}

/// The first file of that name in PATH that may be executed.
pub fn in_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|dir| dir.join(program))
        .find(|path| may_run(path))
}

/// Whether it is a file that somebody may execute.
pub fn may_run(path: &Path) -> bool {
    let meta = path.metadata();
    meta.is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_a_file_that_may_be_executed() {
        assert!(in_path("sh").is_some_and(|sh| sh.ends_with("sh")));
        assert!(in_path("no-such-program-here").is_none());
        assert!(!may_run(Path::new("/etc/passwd")) && !may_run(Path::new("/usr/bin")));
    }
}

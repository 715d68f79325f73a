//! git, which runs what a repository's configuration names.
//!
//! A `.git` that somebody else has put above a source is not looked for, one
//! that others can change is not read, and no hook or monitor is run. Settings
//! of the user's own and of the machine hold: proxies, credentials, rewritten
//! URLs and what is ignored are theirs to decide.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};
use pgassay_sys::trust;

use super::builder::tool;

/// Variables that would have git look at another repository than the one named.
const ELSEWHERE: &[&str] = &[
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_NAMESPACE",
    "GIT_DISCOVERY_ACROSS_FILESYSTEM",
];

/// What git prints in the directory `dir`, without blanks around it.
///
/// # Errors
/// What it complains of.
pub(super) fn git(dir: &Path, arguments: &[&str]) -> anyhow::Result<String> {
    let bytes = git_bytes(dir, arguments)?;
    Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
}

/// The same as it is printed.
///
/// # Errors
/// Likewise.
pub(super) fn git_bytes(dir: &Path, arguments: &[&str]) -> anyhow::Result<Vec<u8>> {
    let output = command(dir)?
        .args(arguments)
        .output()
        .context("git can't be run (apt-get install git)")?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    bail!("{}", String::from_utf8_lossy(&output.stderr).trim())
}

/// git in the directory `dir`, without its arguments.
///
/// # Errors
/// Where there is no such directory.
pub(super) fn command(dir: &Path) -> anyhow::Result<Command> {
    let dir = fs::canonicalize(dir).with_context(|| format!("{} can't be read", dir.display()))?;
    let mut command = tool("git");
    for name in ELSEWHERE {
        command.env_remove(name);
    }
    for setting in [
        "core.fsmonitor=false",
        "core.hooksPath=/dev/null",
        "protocol.ext.allow=never",
    ] {
        command.args(["-c", setting]);
    }
    // git itself refuses what belongs to another user. Root's is no stranger's, but git
    // may run as the server's user here.
    if trusted(&dir) {
        command
            .arg("-c")
            .arg(format!("safe.directory={}", dir.display()));
    }
    command
        .arg("-C")
        .arg(&dir)
        .env("GIT_CEILING_DIRECTORIES", dir.parent().unwrap_or(&dir))
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_OPTIONAL_LOCKS", "0");
    Ok(command)
}

/// Whether only root and we can change the repository whose top directory this is. A `.git`
/// that is a file leads elsewhere: there git looks itself.
fn trusted(dir: &Path) -> bool {
    let inner = dir.join(".git");
    let config = if inner.is_dir() {
        inner.join("config")
    } else {
        dir.join("config")
    };
    !inner.is_file() && config.is_file() && trust::check(&config).is_ok()
}

/// Whether a complaint is that a repository is another user's.
pub(super) fn is_foreign(complaint: &anyhow::Error) -> bool {
    let text = complaint.to_string();
    text.contains("dubious ownership") || text.contains("unsafe repository")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown};
    use std::path::PathBuf;

    use pgassay_sys::private::Directory;

    /// A repository in `dir` whose monitor and hooks leave a mark, and that mark.
    fn trapped(dir: &Path) -> PathBuf {
        fs::create_dir_all(dir).unwrap();
        git(dir, &["init", "--quiet"]).unwrap();
        let mark = dir.join("mark");
        let hook = dir.join("hook.sh");
        fs::write(&hook, format!("#!/bin/sh\nid -u >{}\n", mark.display())).unwrap();
        fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
        for setting in ["core.fsmonitor", "core.hooksPath"] {
            let value = if setting == "core.fsmonitor" {
                &hook
            } else {
                dir
            };
            git(dir, &["config", setting, value.to_str().unwrap()]).unwrap();
        }
        fs::rename(&hook, dir.join("post-index-change")).unwrap();
        fs::copy(dir.join("post-index-change"), &hook).unwrap();
        mark
    }

    /// Attack D4: `git -c safe.directory=*` ran the monitor that the repository of another
    /// user named, found in a directory above the source, as root.
    #[test]
    fn nothing_that_a_repository_names_is_run() {
        let base = Directory::make(&std::env::temp_dir(), "pgassay-git").unwrap();
        let above = base.path().join("above");
        let source = above.join("source");
        let mark = trapped(&above);
        fs::create_dir(&source).unwrap();
        fs::write(source.join("x.c"), "int x;\n").unwrap();
        let listing = [
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ];

        // Above the source none is looked for.
        assert!(git(&source, &listing).is_err());
        assert!(!mark.exists());
        // In the source itself it is read, and neither monitor nor hook is run.
        assert!(git(&above, &listing).unwrap().contains("source/x.c"));
        git(&above, &["add", "source/x.c"]).unwrap();
        git(&above, &["status"]).unwrap();
        assert!(!mark.exists());

        if rustix::process::geteuid().is_root() {
            let stranger = |path: &Path| chown(path, Some(4_000_000), Some(4_000_000)).unwrap();
            stranger(&above.join(".git/config"));
            assert!(!trusted(&above));
            stranger(&above);
            stranger(&above.join(".git"));
            let why = git(&above, &listing).unwrap_err();
            assert!(is_foreign(&why), "{why}");
            assert!(!mark.exists());
        }
    }

    /// Settings of the environment do not lead elsewhere, either.
    #[test]
    fn a_place_that_others_can_change_is_not_trusted() {
        let base = Directory::make(&std::env::temp_dir(), "pgassay-git").unwrap();
        let dir = base.path().join("open");
        trapped(&dir);
        assert!(trusted(&dir));
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(!trusted(&dir));
    }
}

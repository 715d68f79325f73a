//! git, without what a repository's configuration names.
//!
//! A configuration can name programs for almost anything that git does: filters, drivers of diffs, monitors, hooks, ways
//! to fetch an object that is missing. So the one of a repository that was given is never read for work on it: that is
//! done by [`View`], a repository of our own whose objects and refs are those of the other. A `.git` that somebody else
//! has put above a source is not looked for. Settings of the user's own and of the machine hold: proxies, credentials,
//! rewritten URLs and what is ignored are theirs to decide.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use pgassay_sys::private::Directory;
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

/// What a repository of our own configuration is made of, as far as it is another's.
const SHARED: &[&str] = &[
    "info",
    "objects",
    "packed-refs",
    "refs",
    "reftable",
    "shallow",
];

/// A repository that was given, to read: its configuration and its hooks are not part of it.
pub(super) struct View {
    /// The directory that was given.
    dir: PathBuf,
    /// Our repository, which links to the other's objects and refs.
    git_dir: Directory,
    /// Whether the other has a working tree.
    tree: bool,
}

impl View {
    /// A view of the repository in `dir`.
    ///
    /// # Errors
    /// Where git finds none there, or does not permit to read it.
    pub fn of(dir: &Path) -> anyhow::Result<Self> {
        // Where it is. This runs nothing, and refuses the repositories of other users.
        let asked = |flag: &str| git(dir, &["rev-parse", flag]);
        let own = PathBuf::from(asked("--absolute-git-dir")?);
        let common = fs::canonicalize(dir.join(asked("--git-common-dir")?))?;
        let view = Self {
            tree: asked("--is-bare-repository")? == "false",
            git_dir: Directory::make(&std::env::temp_dir(), "pgassay-git")
                .or_else(|_| Directory::make(Path::new("/tmp"), "pgassay-git"))?,
            dir: dir.to_owned(),
        };
        let ours = view.git_dir.path();
        fs::copy(own.join("HEAD"), ours.join("HEAD"))?;
        for name in SHARED.iter().filter(|name| common.join(name).exists()) {
            symlink(common.join(name), ours.join(name))?;
        }
        for entry in fs::read_dir(&own)? {
            let name = entry?.file_name();
            if name == "index" || name.as_encoded_bytes().starts_with(b"sharedindex.") {
                symlink(own.join(&name), ours.join(&name))?;
            }
        }
        fs::write(ours.join("config"), configuration(&common))?;
        Ok(view)
    }

    /// git on it, without its arguments.
    ///
    /// # Errors
    /// Where the directory is gone.
    pub fn command(&self) -> anyhow::Result<Command> {
        let mut command = command(&self.dir)?;
        command.arg("--git-dir").arg(self.git_dir.path());
        if self.tree {
            command.arg("--work-tree=.");
        }
        Ok(command)
    }
}

/// The configuration of a view: the formats in which the other repository is kept.
fn configuration(common: &Path) -> String {
    let config = common.join("config").display().to_string();
    // A file that is named is read without the others that it includes.
    let format = [
        "config",
        "--file",
        &config,
        "--get",
        "extensions.objectformat",
    ];
    let mut extensions = String::new();
    if git(common, &format).is_ok_and(|format| format == "sha256") {
        extensions += "\tobjectFormat = sha256\n";
    }
    if common.join("reftable").is_dir() {
        extensions += "\trefStorage = reftable\n";
    }
    format!(
        "[core]\n\trepositoryFormatVersion = 1\n\tlogAllRefUpdates = false\n[extensions]\n{extensions}"
    )
}

/// What git prints of a repository that was given, without blanks around it.
///
/// # Errors
/// What it complains of.
pub(super) fn read(dir: &Path, arguments: &[&str]) -> anyhow::Result<String> {
    let bytes = read_bytes(dir, arguments)?;
    Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
}

/// The same as it is printed.
///
/// # Errors
/// Likewise.
pub(super) fn read_bytes(dir: &Path, arguments: &[&str]) -> anyhow::Result<Vec<u8>> {
    let view = View::of(dir)?;
    printed(view.command()?, arguments)
}

/// What git prints in the directory `dir` of a repository of our own, without blanks around it.
///
/// # Errors
/// What it complains of.
pub(super) fn git(dir: &Path, arguments: &[&str]) -> anyhow::Result<String> {
    let bytes = printed(command(dir)?, arguments)?;
    Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
}

fn printed(mut command: Command, arguments: &[&str]) -> anyhow::Result<Vec<u8>> {
    let output = command
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
        .env("GIT_NO_LAZY_FETCH", "1")
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
pub(super) mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown};
    /// A repository in `dir` whose configuration names programs that leave a mark, and that mark.
    pub(in crate::pgbuild) fn trapped(dir: &Path) -> PathBuf {
        fs::create_dir_all(dir).unwrap();
        git(dir, &["init", "--quiet"]).unwrap();
        let mark = dir.join("mark");
        let hook = dir.join("hook.sh");
        fs::write(&hook, format!("#!/bin/sh\nid -u >{}\n", mark.display())).unwrap();
        fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
        git(dir, &["config", "core.hooksPath", dir.to_str().unwrap()]).unwrap();
        let included = dir.join("included");
        git(dir, &["config", "include.path", included.to_str().unwrap()]).unwrap();
        let included = included.display().to_string();
        for setting in [
            "core.fsmonitor",
            "core.pager",
            "core.sshCommand",
            "core.alternateRefsCommand",
            "uploadpack.packObjectsHook",
            "gpg.program",
            "diff.external",
            "diff.evil.command",
            "diff.evil.textconv",
            "merge.evil.driver",
            "filter.evil.clean",
            "filter.evil.smudge",
            "filter.evil.process",
            "tar.tar.command",
        ] {
            let value = hook.to_str().unwrap();
            git(dir, &["config", "--file", &included, setting, value]).unwrap();
        }
        fs::write(
            dir.join(".gitattributes"),
            "* filter=evil diff=evil merge=evil\n",
        )
        .unwrap();
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
        assert!(read(&source, &listing).is_err());
        assert!(!mark.exists());
        // In the source itself it is read, and neither monitor nor hook is run.
        assert!(read(&above, &listing).unwrap().contains("source/x.c"));
        read(&above, &["status"]).unwrap();
        assert!(!mark.exists());

        if rustix::process::geteuid().is_root() {
            let stranger = |path: &Path| chown(path, Some(4_000_000), Some(4_000_000)).unwrap();
            stranger(&above.join(".git/config"));
            assert!(!trusted(&above));
            stranger(&above);
            stranger(&above.join(".git"));
            let why = read(&above, &listing).unwrap_err();
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

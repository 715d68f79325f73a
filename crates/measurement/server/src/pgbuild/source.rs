//! SOURCE as typed: a directory, a tarball, or a git repository at a ref; what
//! it holds, by a hash; and a copy of it to build in.
//!
//! The copy is what makes a build depend on the hash alone: a working tree goes
//! on changing, and one that was configured in place would give its own
//! `pg_config.h` to every variant.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

use super::builder::tool;
use super::files::{copy, hash_files, hash_of, walk};
use super::git::{read, read_bytes};
use super::place::{Place, make_dir, remove};
use super::repository::{no_repository, refuse_url, repository_of, without_password};
use pgassay_model::{Failure, FailureKind};

/// Where the files come from.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    /// A directory, its files listed.
    Directory { dir: PathBuf, files: Vec<PathBuf> },
    /// A tar archive, compressed in whatever way tar knows.
    Tarball(PathBuf),
    /// A commit of a repository.
    Commit { repository: PathBuf, commit: String },
}

/// A source, found and hashed.
#[derive(Debug, Clone)]
pub struct Source {
    kind: Kind,
    /// What is recorded of it.
    pub facts: SourceFacts,
}

/// What a build's record says of its source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SourceFacts {
    /// As named on the command line; no password is left in a URL.
    pub given: String,
    /// `directory`, `tarball` or `git`.
    pub kind: String,
    /// SHA-256 of the tarball; of the files' names, modes and contents; or the tree's id in git.
    pub hash: String,
    /// The ref asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_ref: Option<String>,
    /// The commit, where it comes from git; for a directory the one checked out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
}

/// What marks a tree in which configure has run, with the most telling first.
const CONFIGURED: &[&str] = &[
    "src/include/pg_config.h",
    "src/Makefile.global",
    "config.status",
    "GNUmakefile",
];

impl Source {
    /// Finds and hashes what was typed.
    ///
    /// # Errors
    /// Where it is none of the kinds, or is a tree configured in place, with the remedy.
    pub fn find(given: &str, git_ref: Option<&str>, place: &Place) -> anyhow::Result<Self> {
        let remote = given.contains("://") || given.starts_with("git@");
        if remote {
            refuse_url(given)?;
        }
        let path = PathBuf::from(given);
        if !remote
            && let Err(error) = fs::metadata(std::path::absolute(&path)?)
            && error.kind() == ErrorKind::PermissionDenied
        {
            return Err(unreadable(given, &error.into()));
        }
        if remote || git_ref.is_some() {
            let repository = repository_of(given, place)?;
            return Self::commit(given, repository, git_ref.unwrap_or("HEAD"));
        }
        if path.is_dir() {
            return Self::directory(given, path);
        }
        if path.is_file() {
            let hash = File::open(&path)
                .and_then(hash_of)
                .map_err(|error| unreadable(given, &error.into()))?;
            let path = fs::canonicalize(&path)?;
            return Ok(Self {
                kind: Kind::Tarball(path),
                facts: SourceFacts {
                    given: given.to_owned(),
                    kind: "tarball".into(),
                    hash,
                    git_ref: None,
                    commit: None,
                },
            });
        }
        bail!(
            Failure::usage(format!("{given}: no such directory, tarball or repository"))
                .with_remedy(
                    "PostgreSQL's sources come from postgresql.org, by git, \
                     or by `apt-get source --download-only postgresql-15`"
                )
        );
    }

    /// A commit of a repository that is there.
    pub(super) fn commit(given: &str, repository: PathBuf, git_ref: &str) -> anyhow::Result<Self> {
        if let Err(complaint) = read(&repository, &["rev-parse", "--git-dir"]) {
            return Err(no_repository(given, &complaint));
        }
        let id = |what: &str| read(&repository, &["rev-parse", "--verify", "--quiet", what]);
        // A branch of a clone is only known by its remote's name.
        let commit = [git_ref.to_owned(), format!("origin/{git_ref}")]
            .iter()
            .find_map(|name| id(&format!("{name}^{{commit}}")).ok())
            .ok_or_else(|| {
                Failure::usage(format!("--ref {git_ref}: {given} has no such commit"))
                    .with_remedy("a branch, a tag such as REL_17_5, or a commit id")
            })?;
        let hash = id(&format!("{commit}^{{tree}}")).context("git knows no tree of the commit")?;
        Ok(Self {
            kind: Kind::Commit {
                repository,
                commit: commit.clone(),
            },
            facts: SourceFacts {
                given: without_password(given),
                kind: "git".into(),
                hash,
                git_ref: Some(git_ref.to_owned()),
                commit: Some(commit),
            },
        })
    }

    /// The repository and the commit, where it is one.
    pub(super) fn in_repository(&self) -> Option<(&Path, &str)> {
        match &self.kind {
            Kind::Commit { repository, commit } => Some((repository, commit)),
            _ => None,
        }
    }

    fn directory(given: &str, dir: PathBuf) -> anyhow::Result<Self> {
        // In a working tree git knows what is source and what was made.
        let listed = read_bytes(
            &dir,
            &[
                "ls-files",
                "-z",
                "--cached",
                "--others",
                "--exclude-standard",
            ],
        );
        let top = read(&dir, &["rev-parse", "--show-prefix"]);
        let (files, commit) = match (listed, top) {
            (Ok(listed), Ok(top)) if top.is_empty() && !listed.is_empty() => {
                let files = listed
                    .split(|byte| *byte == 0)
                    .filter(|name| !name.is_empty())
                    .map(|name| PathBuf::from(String::from_utf8_lossy(name).into_owned()))
                    // Deleted in the working tree, not yet in the index.
                    .filter(|name| dir.join(name).symlink_metadata().is_ok())
                    .collect();
                (files, read(&dir, &["rev-parse", "HEAD"]).ok())
            }
            _ => {
                if let Some(mark) = CONFIGURED.iter().find(|mark| dir.join(mark).exists()) {
                    bail!(
                        Failure::usage(format!(
                            "{given} was configured in place ({mark} is there): every variant \
                             would be built with that configuration"
                        ))
                        .with_remedy(
                            "run `make distclean` there, or name a tarball or a git checkout"
                        )
                    );
                }
                let mut files = Vec::new();
                walk(&dir, Path::new(""), &mut files)
                    .map_err(|error| unreadable(given, &error.into()))?;
                (files, None)
            }
        };
        let mut files: Vec<PathBuf> = files;
        files.sort();
        files.dedup();
        let hash = hash_files(&dir, &files).map_err(|error| unreadable(given, &error.into()))?;
        Ok(Self {
            kind: Kind::Directory {
                dir: fs::canonicalize(&dir)?,
                files,
            },
            facts: SourceFacts {
                given: given.to_owned(),
                kind: "directory".into(),
                hash,
                git_ref: None,
                commit,
            },
        })
    }

    /// Copies the source into an empty directory, and gives the directory in it
    /// where PostgreSQL's top level is.
    ///
    /// # Errors
    /// Where it can't be unpacked, or does not hold PostgreSQL.
    pub fn unpack(&self, to: &Path) -> anyhow::Result<PathBuf> {
        match &self.kind {
            Kind::Directory { dir, files } => {
                for file in files {
                    copy(&dir.join(file), &to.join(file))
                        .with_context(|| format!("{} can't be copied", file.display()))?;
                }
            }
            Kind::Tarball(path) => {
                let mut tar = tool("tar");
                tar.arg("-x").arg("-f").arg(path).arg("-C").arg(to);
                tar.arg("--no-same-owner");
                run_quietly(tar, &self.facts.given)?;
            }
            Kind::Commit { repository, commit } => {
                let archive = to.with_extension("tar");
                let made = read(
                    repository,
                    &[
                        "archive",
                        "--format=tar",
                        "-o",
                        &archive.display().to_string(),
                        commit,
                    ],
                );
                let unpacked = made.and_then(|_| {
                    let mut tar = tool("tar");
                    tar.arg("-x").arg("-f").arg(&archive).arg("-C").arg(to);
                    run_quietly(tar, &self.facts.given)
                });
                fs::remove_file(&archive).ok();
                unpacked?;
            }
        }
        top_level(to).ok_or_else(|| {
            Failure::usage(format!(
                "{}: holds no PostgreSQL (looked for src/backend with configure or meson.build \
                 at the top)",
                self.facts.given
            ))
            .with_remedy(
                "the source is the top directory of PostgreSQL's, a tarball of it, or its git \
                 repository; pgassay patch takes it with --source",
            )
            .into()
        })
    }
}

/// PostgreSQL's top directory: the one given, or the only one in it.
pub(super) fn top_level(dir: &Path) -> Option<PathBuf> {
    let is_top = |dir: &Path| {
        dir.join("src/backend").is_dir()
            && (dir.join("configure").is_file() || dir.join("meson.build").is_file())
    };
    if is_top(dir) {
        return Some(dir.to_path_buf());
    }
    let mut inner = fs::read_dir(dir)
        .ok()?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_dir());
    match (inner.next(), inner.next()) {
        (Some(only), None) if is_top(&only) => Some(only),
        _ => None,
    }
}

/// The version that a source tree gives itself: PACKAGE_VERSION of configure,
/// or that of meson's project.
pub fn version_of(top: &Path) -> Option<String> {
    let after = |text: &str, mark: &str| {
        let rest = &text[text.find(mark)? + mark.len()..];
        Some(rest[..rest.find('\'')?].to_owned())
    };
    let read = |name: &str| fs::read_to_string(top.join(name)).ok();
    read("configure")
        .and_then(|text| after(&text, "\nPACKAGE_VERSION='"))
        .or_else(|| read("meson.build").and_then(|text| after(&text, "version: '")))
}

/// A source that the builder can't read.
fn unreadable(given: &str, error: &anyhow::Error) -> anyhow::Error {
    let failure = Failure::usage(format!("{given} can't be read: {error:#}"));
    let denied = error
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == ErrorKind::PermissionDenied);
    if denied {
        return failure
            .with_remedy(
                "root builds as the user that its servers run as (postgres, or nobody): put the \
                 source where everybody may read it, or build as an ordinary user",
            )
            .into();
    }
    failure.into()
}

pub(super) fn run_quietly(mut command: Command, given: &str) -> anyhow::Result<()> {
    let output = command
        .output()
        .context("tar can't be run (apt-get install tar)")?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let mut failure = Failure::usage(format!(
        "{given} can't be unpacked: {}",
        said.lines().next().unwrap_or("tar failed")
    ));
    if said.contains("No space left") {
        failure.kind = FailureKind::Target;
    } else if said.contains("Cannot exec") {
        failure = failure.with_remedy("install what unpacks it: apt-get install bzip2 xz-utils");
    }
    bail!(failure)
}

/// Makes `dir` hold what `fill` puts there, once: aside, then renamed.
pub(super) fn once(
    dir: &Path,
    fill: impl FnOnce(&Path) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    let aside = dir.with_extension(format!("part{}", std::process::id()));
    remove(&aside)?;
    make_dir(&aside)?;
    let filled = fill(&aside).and_then(|()| match fs::rename(&aside, dir) {
        // Another pgassay was faster with the same.
        Err(_) if dir.is_dir() => Ok(()),
        other => other.with_context(|| format!("{} can't be made", dir.display())),
    });
    remove(&aside)?;
    filled
}

#[cfg(test)]
mod tests {
    use super::super::git::git;
    use super::*;

    fn temporary(name: &str) -> PathBuf {
        let dir =
            std::env::temp_dir().join(format!("pgassay-source-{name}-{}", std::process::id()));
        fs::remove_dir_all(&dir).ok();
        fs::create_dir_all(dir.join("tree/src/backend")).unwrap();
        fs::write(
            dir.join("tree/configure"),
            "#!/bin/sh\nPACKAGE_VERSION='15.99'\n",
        )
        .unwrap();
        fs::write(dir.join("tree/src/backend/main.c"), "int main;\n").unwrap();
        dir
    }

    #[test]
    fn a_directory_and_its_commit_give_the_same_files() {
        let dir = temporary("same");
        let place = Place::of(dir.join("place")).unwrap();
        let tree = dir.join("tree");
        let text = tree.display().to_string();
        let plain = Source::find(&text, None, &place).unwrap();
        assert_eq!(plain.facts.kind, "directory");

        for line in [
            &["init", "--quiet", "-b", "trunk"][..],
            &["add", "."],
            &[
                "-c",
                "user.name=x",
                "-c",
                "user.email=x@x",
                "commit",
                "-qm",
                "x",
            ],
        ] {
            git(&tree, line).unwrap();
        }
        let known = Source::find(&text, None, &place).unwrap();
        assert_eq!(known.facts.hash, plain.facts.hash);
        assert!(known.facts.commit.is_some());
        // Configured in place and ignored by git: left out, and so no hindrance.
        fs::write(tree.join(".git/info/exclude"), "GNUmakefile\n").unwrap();
        fs::write(tree.join("GNUmakefile"), "").unwrap();
        assert_eq!(
            Source::find(&text, None, &place).unwrap().facts.hash,
            plain.facts.hash
        );

        let at = Source::find(&text, Some("trunk"), &place).unwrap();
        let out = dir.join("out");
        fs::create_dir(&out).unwrap();
        let top = at.unpack(&out).unwrap();
        assert_eq!(version_of(&top).as_deref(), Some("15.99"));
        assert!(!top.join("GNUmakefile").exists());
        let error = Source::find(&text, Some("nope"), &place).unwrap_err();
        assert!(error.to_string().contains("no such commit"), "{error}");

        // By a URL, as a remote one is.
        let url = format!("file://{text}");
        let remote = Source::find(&url, Some("trunk"), &place).unwrap();
        assert_eq!(remote.facts.hash, at.facts.hash);
        assert!(Source::find(&url, Some("trunk"), &place).is_ok());
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn what_can_not_be_built_is_refused() {
        let dir = temporary("refused");
        let place = Place::of(dir.join("place")).unwrap();
        let tree = dir.join("tree");
        fs::write(tree.join("config.status"), "").unwrap();
        let error = Source::find(&tree.display().to_string(), None, &place).unwrap_err();
        let failure = error.downcast_ref::<Failure>().unwrap();
        assert!(
            failure
                .message
                .contains("configured in place (config.status")
        );
        assert!(failure.remedy.as_ref().unwrap().contains("make distclean"));
        let error = Source::find("/no/such", None, &place).unwrap_err();
        assert!(error.to_string().contains("no such directory"));

        let text = dir.join("x.tar");
        fs::write(&text, "not a tar").unwrap();
        let source = Source::find(&text.display().to_string(), None, &place).unwrap();
        let out = dir.join("out");
        fs::create_dir(&out).unwrap();
        let error = source.unpack(&out).unwrap_err().to_string();
        assert!(error.contains("can't be unpacked"), "{error}");
        fs::remove_dir_all(&dir).unwrap();
    }
}

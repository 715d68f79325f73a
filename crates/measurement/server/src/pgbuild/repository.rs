//! The git repository that a source is named by: a directory, or a clone of a remote one.

use std::path::{Path, PathBuf};

use anyhow::bail;
use pgassay_model::Failure;

use super::files::hash_of;
use super::git::{git, is_foreign};
use super::place::Place;

/// The repository that was named: a directory, or the clone of a remote one.
pub(super) fn repository_of(given: &str, place: &Place) -> anyhow::Result<PathBuf> {
    if given.contains("://") || given.starts_with("git@") {
        refuse_url(given)?;
        return clone(given, place);
    }
    let path = PathBuf::from(given);
    if !path.is_dir() {
        bail!(Failure::usage(format!(
            "{given}: --ref is for a git repository, and this is none"
        )));
    }
    Ok(path)
}

/// A bare clone of a remote repository, fetched again where it is there.
fn clone(url: &str, place: &Place) -> anyhow::Result<PathBuf> {
    let name = &hash_of(url.as_bytes())?[..16];
    let dir = place.repos().join(name);
    let made = if dir.is_dir() {
        git(&dir, &["fetch", "--quiet", "--prune", "--tags", "origin"])
    } else {
        let dir = dir.display().to_string();
        // Without checking certificates or keys off: git's own configuration holds.
        git(
            &place.repos(),
            &["clone", "--quiet", "--bare", "--", url, &dir],
        )
        .and_then(|_| {
            git(
                Path::new(&dir),
                &[
                    "config",
                    "remote.origin.fetch",
                    "+refs/heads/*:refs/heads/*",
                ],
            )
        })
    };
    made.map_err(|error| {
        Failure::target(format!(
            "{} can't be fetched: {error:#}",
            without_password(url)
        ))
    })?;
    Ok(dir)
}

/// Refuses what git would show to all users of the machine in the arguments of its processes.
pub(super) fn refuse_url(url: &str) -> anyhow::Result<()> {
    let named = without_password(url);
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    if matches!(scheme, "postgres" | "postgresql") {
        bail!(
            Failure::usage("a connection string names a server, and no sources").with_remedy(
                "name a directory, a tarball or a git repository with PostgreSQL's sources"
            )
        );
    }
    let host_end = rest.find('/').unwrap_or(rest.len());
    let user = rest[..host_end].rfind('@').map_or("", |at| &rest[..at]);
    if !scheme.is_empty() && user.contains(':') {
        bail!(
            Failure::usage(format!(
                "{named}: with the password in its URL, all users of this machine could read it \
                 while git runs"
            ))
            .with_remedy(
                "leave the password to git's credential helper (git help credentials), or clone \
                 the repository and name the directory"
            )
        );
    }
    Ok(())
}

/// A URL without the user and password in it, for records and messages.
pub(super) fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    let host_end = rest.find('/').unwrap_or(rest.len());
    match rest[..host_end].rfind('@') {
        Some(at) => format!("{scheme}://{}", &rest[at + 1..]),
        None => url.to_owned(),
    }
}

/// A directory named with --ref in which git finds no repository that it may read.
pub(super) fn no_repository(given: &str, complaint: &anyhow::Error) -> anyhow::Error {
    let given = without_password(given);
    if is_foreign(complaint) {
        return Failure::usage(format!(
            "{given} is another user's repository: git would run what its settings name"
        ))
        .with_remedy(
            "build as its owner, or name a tarball of it (git archive --output FILE.tar REF)",
        )
        .into();
    }
    Failure::usage(format!("{given} is no git repository: {complaint:#}"))
        .with_remedy("--ref takes the top directory of a repository, or a URL")
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_keeps_no_password() {
        assert_eq!(
            without_password("https://me:secret@host/x.git"),
            "https://host/x.git"
        );
        for refused in [
            "https://me:geheim@host/x.git",
            "postgres://u:geheim@127.0.0.1:5432/d",
            "postgresql://127.0.0.1/d?user=u&password=geheim",
        ] {
            let error = refuse_url(refused).unwrap_err().to_string();
            assert!(!error.contains("geheim"), "{error}");
        }
        for taken in [
            "https://me@host/x.git",
            "https://host/x.git",
            "git@host:x",
            "file:///a:b@c/d",
        ] {
            refuse_url(taken).unwrap();
        }
        assert_eq!(without_password("git@host:x"), "git@host:x");
        assert_eq!(without_password("file:///a@b/c"), "file:///a@b/c");
    }
}

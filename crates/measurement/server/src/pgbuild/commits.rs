//! The commits between a good and a bad one, and a patch series as commits.
//!
//! A range is a chain of first parents, so that every position holds all steps before it. What a merge
//! brought is a range of its own: [`merged`].

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, bail};
use pgassay_model::Failure;

use super::files::hash_of;
use super::git::{command, git, read};
use super::place::{Place, make_dir, remove};
use super::repository::{repository_of, without_password};
use super::source::Source;

/// A commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// Its full id.
    pub id: String,
    /// The first line of its message.
    pub subject: String,
    /// Whether it merges another branch.
    pub merge: bool,
}

/// A chain of commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    /// The repository.
    pub repository: PathBuf,
    /// As named, without a password.
    pub given: String,
    /// The commit before the first.
    pub good: Commit,
    /// The others, the first after `good` first, the bad one last.
    pub commits: Vec<Commit>,
    /// What a user should know of the range.
    pub notes: Vec<String>,
}

impl History {
    /// The commit at a position: 0 is the good one.
    pub fn at(&self, position: usize) -> &Commit {
        match position {
            0 => &self.good,
            n => self.commits.get(n - 1).unwrap_or(&self.good),
        }
    }
}

/// Two commits of a repository, whatever lies between them.
///
/// # Errors
/// Where git finds no repository or no such commits.
pub fn pair(given: &str, base: &str, head: &str, place: &Place) -> anyhow::Result<History> {
    let repository = repository_of(given, place)?;
    let commit = |flag: &str, name: &str| -> anyhow::Result<Commit> {
        let id = id_of(given, &repository, flag, name)?;
        let subject = read(&repository, &["log", "-1", "--format=%s", &id, "--"])?;
        Ok(Commit {
            id,
            subject,
            merge: false,
        })
    };
    Ok(History {
        given: without_password(given),
        good: commit("BASE", base)?,
        commits: vec![commit("HEAD", head)?],
        notes: Vec::new(),
        repository: repository.clone(),
    })
}

/// The id of the commit that was named with a flag.
fn id_of(given: &str, repository: &Path, flag: &str, name: &str) -> anyhow::Result<String> {
    let source = Source::commit(given, repository.to_path_buf(), name).map_err(|error| {
        match error.downcast_ref::<Failure>() {
            Some(failure) => Failure {
                message: failure.message.replace("--ref", flag),
                ..failure.clone()
            }
            .into(),
            None => error,
        }
    })?;
    source.facts.commit.context("git knows no such commit")
}

/// The commits that lead from `good` to `bad`, along first parents. Where `good` is not on that chain, it
/// begins with the commit where the chain leaves what `good` holds, as `git bisect` does with the merge
/// base.
///
/// # Errors
/// Where git finds no repository, no such commits, or nothing between them.
pub fn history(given: &str, good: &str, bad: &str, place: &Place) -> anyhow::Result<History> {
    let repository = repository_of(given, place)?;
    let (good_id, bad_id) = (
        id_of(given, &repository, "--good", good)?,
        id_of(given, &repository, "--bad", bad)?,
    );
    if good_id == bad_id {
        bail!(
            Failure::usage(format!(
                "--good {good} and --bad {bad} are the same commit {}",
                &good_id[..9]
            ))
            .with_remedy("name the last commit known to be good, and one known to be bad")
        );
    }
    let mut found = chain(&repository, &good_id, &bad_id)?;
    let Some(found_good) = found.good.take() else {
        let swapped = read(
            &repository,
            &["merge-base", "--is-ancestor", &bad_id, &good_id],
        )
        .is_ok();
        let failure = match swapped {
            true => Failure::usage(format!("--bad {bad} is an ancestor of --good {good}"))
                .with_remedy(
                    "swap them: --good is the older one; a speed-up is searched for alike",
                ),
            false => Failure::usage(format!("--good {good} and --bad {bad} share no history")),
        };
        bail!(failure);
    };
    let mut notes = Vec::new();
    if found_good.id != good_id {
        let between = read(&repository, &["merge-base", &good_id, &bad_id]).unwrap_or_default();
        let what = match between == good_id {
            true => "was merged from another branch",
            false => "is no ancestor of --bad",
        };
        notes.push(format!(
            "--good {good} {what}: the search begins with {}, where their histories meet",
            &found_good.id[..9]
        ));
    }
    let status = [
        "status",
        "--porcelain",
        "--untracked-files=no",
        "--ignore-submodules=all",
    ];
    if read(&repository, &status).is_ok_and(|changed| !changed.is_empty()) {
        notes.push(format!(
            "{}: uncommitted changes are not in the search",
            without_password(given)
        ));
    }
    Ok(History {
        given: without_password(given),
        good: found_good,
        commits: found.commits,
        notes,
        repository,
    })
}

/// The commits that a merge brought from its other branch; `None` where it brought none.
///
/// # Errors
/// Where git does not know it.
pub fn merged(history: &History, merge: &str) -> anyhow::Result<Option<History>> {
    let repository = &history.repository;
    let side = read(repository, &["rev-parse", &format!("{merge}^2")])?;
    let Ok(base) = read(repository, &["merge-base", &format!("{merge}^1"), &side]) else {
        return Ok(None);
    };
    if base == side {
        return Ok(None);
    }
    let found = chain(repository, &base, &side)?;
    Ok(found.good.map(|good| History {
        good,
        commits: found.commits,
        notes: Vec::new(),
        ..history.clone()
    }))
}

struct Chain {
    good: Option<Commit>,
    commits: Vec<Commit>,
}

/// First parents from what `good` holds, exclusively, to `bad`.
fn chain(repository: &Path, good: &str, bad: &str) -> anyhow::Result<Chain> {
    let range = format!("{good}..{bad}");
    let format = "--format=%H%x00%P%x00%s";
    let listed = read(
        repository,
        &["log", "--first-parent", "--reverse", format, &range, "--"],
    )?;
    let mut before = None;
    let mut commits = Vec::new();
    for line in listed.lines() {
        let mut parts = line.splitn(3, '\0');
        let (id, parents, subject) = (parts.next(), parts.next(), parts.next());
        let (Some(id), Some(parents), Some(subject)) = (id, parents, subject) else {
            bail!("git log printed a line that is none of its format");
        };
        if commits.is_empty() {
            before = parents
                .split(' ')
                .next()
                .filter(|p| !p.is_empty())
                .map(str::to_owned);
        }
        commits.push(Commit {
            id: id.to_owned(),
            subject: subject.to_owned(),
            merge: parents.contains(' '),
        });
    }
    let good = before
        .map(|id| -> anyhow::Result<Commit> {
            let subject = read(repository, &["log", "-1", "--format=%s", &id, "--"])?;
            Ok(Commit {
                id,
                subject,
                merge: false,
            })
        })
        .transpose()?;
    Ok(Chain { good, commits })
}

/// A patch series on top of a source, as commits in a repository of our own.
///
/// # Errors
/// Where the source can't be had, or a patch does not apply on those before it.
pub fn series(
    given: &str,
    git_ref: Option<&str>,
    patches: &[PathBuf],
    place: &Place,
) -> anyhow::Result<History> {
    let source = Source::find(given, git_ref, place)?;
    let mut texts = Vec::new();
    for path in patches {
        let text = fs::read(path)
            .map_err(|error| Failure::usage(format!("patch {}: {error}", path.display())))?;
        texts.push((path, text));
    }
    let mut identity = source.facts.hash.clone().into_bytes();
    for (_, text) in &texts {
        identity.extend(hash_of(text.as_slice())?.bytes());
    }
    let repository = place
        .repos()
        .join(format!("series-{}", &hash_of(identity.as_slice())?[..16]));
    remove(&repository)?;
    make_dir(&repository)?;
    let tree = repository.join("tree");
    make_dir(&tree)?;
    let top = source.unpack(&tree)?;
    git(&repository, &["init", "--quiet"])?;
    let git_dir = repository.join(".git");
    // Another top directory than the repository's: a tarball has one of its own.
    let run = |words: &[&str], input: Option<&Path>| -> anyhow::Result<String> {
        let mut command = command(&repository)?;
        command
            .arg(format!("--work-tree={}", top.display()))
            .arg(format!("--git-dir={}", git_dir.display()))
            .args([
                "-c",
                "user.name=pgassay",
                "-c",
                "user.email=pgassay@localhost",
            ])
            .args(words);
        if let Some(path) = input {
            command.stdin(Stdio::from(fs::File::open(path)?));
        }
        let output = command
            .output()
            .context("git can't be run (apt-get install git)")?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
            false => bail!("{}", String::from_utf8_lossy(&output.stderr).trim()),
        }
    };
    let commit = |subject: &str| -> anyhow::Result<Commit> {
        run(
            &[
                "commit",
                "--quiet",
                "--allow-empty",
                "--no-verify",
                "-m",
                subject,
            ],
            None,
        )?;
        Ok(Commit {
            id: run(&["rev-parse", "HEAD"], None)?,
            subject: subject.to_owned(),
            merge: false,
        })
    };
    run(&["add", "--all", "--force", "."], None)?;
    let good = commit(&format!("base: {}", source.facts.given))?;
    let mut commits = Vec::new();
    for (path, text) in &texts {
        run(
            &["apply", "--index", "--whitespace=nowarn", "-"],
            Some(path),
        )
        .map_err(|error| {
            Failure::usage(format!(
                "patch {} does not apply: {error:#}",
                path.display()
            ))
            .with_remedy("the patches apply in the order given; --ref names what they are for")
        })?;
        commits.push(commit(&subject_of(path, &String::from_utf8_lossy(text)))?);
    }
    remove(&tree)?;
    Ok(History {
        repository,
        given: source.facts.given.clone(),
        good,
        commits,
        notes: Vec::new(),
    })
}

/// The subject of a patch as mailed, without its `[PATCH …]`; else the file's name.
fn subject_of(path: &Path, text: &str) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let subject = text
        .lines()
        .take(50)
        .find_map(|line| line.strip_prefix("Subject: "))
        .map(|line| line.split_once("] ").map_or(line, |(_, rest)| rest));
    match subject {
        Some(subject) => format!("{name}: {subject}"),
        None => name.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgassay_sys::private::Directory;

    /// A repository; each word makes a commit, `*NAME` a merge of a branch.
    fn repository(dir: &Path) {
        let run = |words: &[&str]| {
            let identity = ["-c", "user.name=x", "-c", "user.email=x@x"];
            git(dir, &[&identity, words].concat()).unwrap();
        };
        let commit = |name: &str| {
            fs::write(dir.join(name), name).unwrap();
            run(&["add", "."]);
            run(&["commit", "-qm", name]);
            run(&["tag", name]);
        };
        run(&["init", "-q", "-b", "trunk"]);
        commit("a");
        commit("b");
        run(&["checkout", "-qb", "side", "a"]);
        commit("s1");
        commit("s2");
        run(&["checkout", "-q", "trunk"]);
        run(&["merge", "-q", "--no-ff", "-m", "m", "side"]);
        run(&["tag", "m"]);
        commit("c");
    }

    #[test]
    fn a_range_is_a_chain_and_a_merge_a_range_of_its_own() {
        let base = Directory::make(&std::env::temp_dir(), "pgassay-commits").unwrap();
        let dir = base.path().join("repo");
        fs::create_dir(&dir).unwrap();
        repository(&dir);
        let place = Place::of(base.path().join("place")).unwrap();
        let given = dir.display().to_string();
        let subjects = |history: &History| {
            let all = std::iter::once(&history.good).chain(&history.commits);
            all.map(|c| c.subject.clone()).collect::<Vec<_>>().join(" ")
        };
        let whole = history(&given, "a", "trunk", &place).unwrap();
        assert_eq!(subjects(&whole), "a b m c");
        assert!(whole.commits[1].merge && whole.notes.is_empty());
        let inner = merged(&whole, &whole.commits[1].id).unwrap().unwrap();
        assert_eq!(subjects(&inner), "a s1 s2");
        // From within the side branch: where the chain leaves what is known to be good.
        let from_side = history(&given, "s1", "trunk", &place).unwrap();
        assert_eq!(subjects(&from_side), "a b m c");
        assert!(from_side.notes[0].contains("merged from another branch"));
        let across = history(&given, "s2", "b", &place).unwrap();
        assert_eq!(subjects(&across), "a b");
        assert!(across.notes[0].contains("no ancestor"));
        fs::write(dir.join("b"), "changed").unwrap();
        let dirty = history(&given, "b", "c", &place).unwrap();
        assert!(dirty.notes[0].contains("uncommitted"), "{:?}", dirty.notes);
        for (good, bad, words) in [
            ("c", "c", "same commit"),
            ("c", "a", "swap them"),
            ("nope", "c", "--good nope"),
            ("a", "nope", "--bad nope"),
        ] {
            let error = history(&given, good, bad, &place).unwrap_err();
            let failure = error.downcast_ref::<Failure>().unwrap();
            let said = format!("{} {:?}", failure.message, failure.remedy);
            assert!(said.contains(words), "{said}");
        }
    }

    /// Attack A8: filters that .git/config named ran in checkouts.
    #[test]
    fn no_program_that_a_repository_names_runs_in_a_build() {
        let base = Directory::make(&std::env::temp_dir(), "pgassay-filters").unwrap();
        let dir = base.path().join("repo");
        fs::create_dir(&dir).unwrap();
        repository(&dir);
        fs::write(dir.join(".gitattributes"), "* filter=evil diff=evil\n").unwrap();
        let identity = ["-c", "user.name=x", "-c", "user.email=x@x"];
        git(&dir, &["add", "."]).unwrap();
        git(&dir, &[&identity[..], &["commit", "-qm", "d"]].concat()).unwrap();
        let mark = super::super::git::tests::trapped(&dir);
        // What may have changed is read again.
        fs::write(dir.join("b"), "b").unwrap();
        let place = Place::of(base.path().join("place")).unwrap();
        let given = dir.display().to_string();

        let whole = history(&given, "a", "trunk", &place).unwrap();
        merged(&whole, &whole.commits[1].id).unwrap();
        pair(&given, "b", "trunk", &place).unwrap();
        let source = Source::find(&given, Some("trunk"), &place).unwrap();
        let out = base.path().join("tree");
        fs::create_dir(&out).unwrap();
        // It is not PostgreSQL, which is found when all is unpacked.
        let error = source.unpack(&out).unwrap_err().to_string();
        assert!(error.contains("holds no PostgreSQL"), "{error}");
        assert_eq!(fs::read_to_string(out.join("c")).unwrap(), "c");
        Source::find(&given, None, &place).unwrap();
        assert!(!mark.exists());

        // With the repository's own configuration they run.
        git(
            &dir,
            &["archive", "--format=tar", "-o", "/dev/null", "trunk"],
        )
        .ok();
        assert!(mark.exists());
    }

    #[test]
    fn a_worktree_and_a_bare_repository_are_read() {
        let base = Directory::make(&std::env::temp_dir(), "pgassay-views").unwrap();
        let dir = base.path().join("repo");
        fs::create_dir(&dir).unwrap();
        repository(&dir);
        let place = Place::of(base.path().join("place")).unwrap();
        let (other, bare) = (base.path().join("other"), base.path().join("bare"));
        let (other, bare) = (other.display().to_string(), bare.display().to_string());
        git(&dir, &["worktree", "add", "-q", "--detach", &other, "b"]).unwrap();
        git(&dir, &["clone", "-q", "--bare", ".", &bare]).unwrap();
        for (given, head) in [(&other, "b"), (&bare, "c")] {
            let here = pair(given, "a", "HEAD", &place).unwrap();
            assert_eq!(here.commits[0].subject, head);
        }
    }

    #[test]
    fn a_series_becomes_commits() {
        let base = Directory::make(&std::env::temp_dir(), "pgassay-series").unwrap();
        let dir = base.path().join("pg");
        fs::create_dir_all(dir.join("src/backend")).unwrap();
        fs::write(dir.join("configure"), "PACKAGE_VERSION='15.99'\n").unwrap();
        fs::write(dir.join("src/backend/x.c"), "one\n").unwrap();
        let patch = |name: &str, from: &str, to: &str| {
            let text = format!(
                "From: x\nSubject: [PATCH v1 1/2] {name} it\n\n---\n--- a/src/backend/x.c\n\
                 +++ b/src/backend/x.c\n@@ -1 +1 @@\n-{from}\n+{to}\n"
            );
            let path = base.path().join(format!("{name}.patch"));
            fs::write(&path, text).unwrap();
            path
        };
        let patches = [patch("change", "one", "two"), patch("more", "two", "three")];
        let place = Place::of(base.path().join("place")).unwrap();
        let given = dir.display().to_string();
        let made = series(&given, None, &patches, &place).unwrap();
        assert_eq!(made.commits.len(), 2);
        assert_eq!(made.commits[0].subject, "change.patch: change it");
        let show = |commit: &str| {
            git(
                &made.repository,
                &["show", &format!("{commit}:src/backend/x.c")],
            )
            .unwrap()
        };
        assert_eq!(show(&made.good.id), "one");
        assert_eq!(show(&made.commits[1].id), "three");
        let error = series(&given, None, &patches[1..], &place).unwrap_err();
        assert!(
            error.to_string().contains("more.patch does not apply"),
            "{error}"
        );
    }
}

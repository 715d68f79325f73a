//! The near side's end of a run that is recorded elsewhere. What comes is somebody else's: a name is one
//! below a new directory of a run, and size and number are bounded.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use pgassay_engine::rundir;
use pgassay_model::Failure;
use pgassay_sys::input;
use rustix::fs::{FlockOperation, OFlags, flock};

use super::files::{DEEPEST, Piece, is_data};
use crate::commands::recorded_lab;
use crate::session::MARK;

/// Limits of what one command may record.
const MOST_RUNS: usize = 1_000;
const MOST_FILES: usize = 100_000;
const MOST_BYTES: u64 = 16 << 30;
const LARGEST: u64 = 2 << 30;

/// The longest name of a file or directory.
const LONGEST: usize = 128;

/// The directory of labs among the runs.
const LABS: &str = "labs";

/// Writes what a far side records below the directory of runs.
#[derive(Debug)]
pub struct Keeper {
    root: PathBuf,
    place: String,
    /// Those that came, with the locks by which they are seen to be measured.
    runs: BTreeMap<String, File>,
    directories: BTreeSet<PathBuf>,
    files: BTreeSet<PathBuf>,
    /// What is not whole yet.
    parts: BTreeSet<PathBuf>,
    bytes: u64,
}

impl Keeper {
    /// Keeps runs of a place in `root`, which is made with the first.
    pub fn new(root: PathBuf, place: &str) -> Self {
        Self {
            root,
            place: place.to_owned(),
            runs: BTreeMap::new(),
            directories: BTreeSet::new(),
            files: BTreeSet::new(),
            parts: BTreeSet::new(),
            bytes: 0,
        }
    }

    /// Where they lie.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// How many bytes came.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The directories of what was recorded: labs first, then runs, each by its name.
    pub fn recorded(&self) -> Vec<PathBuf> {
        let named = |name: &'static str| {
            let files = self.files.iter().filter(move |file| file.ends_with(name));
            files.filter_map(|file| Some(file.parent()?.to_owned()))
        };
        named(recorded_lab::RECORD)
            .chain(named("run.json"))
            .collect()
    }

    /// The runs that came, and how many of their trials.
    pub fn runs(&self) -> Vec<(&str, usize)> {
        let lines = |file: &PathBuf| {
            let text = input::read(file, LARGEST).unwrap_or_default();
            text.iter().filter(|byte| **byte == b'\n').count()
        };
        let trials = |run: &str| {
            let below = self.root.join(run);
            let files = self.files.iter().filter(|file| file.starts_with(&below));
            let trials = files.filter(|file| file.ends_with("trials.jsonl"));
            trials.map(lines).sum()
        };
        let runs = self.runs.keys().map(String::as_str);
        runs.map(|run| (run, trials(run))).collect()
    }

    /// Writes a piece.
    ///
    /// # Errors
    /// Where its name leads elsewhere, there is too much, or the disk takes no more.
    pub fn take(&mut self, piece: &Piece, bytes: &[u8]) -> anyhow::Result<()> {
        let names = names(&piece.path)?;
        self.bytes += bytes.len() as u64;
        let end = piece.at.checked_add(bytes.len() as u64);
        if self.bytes > MOST_BYTES || end.is_none_or(|end| end > LARGEST) {
            bail!(refused("it sends more than any run holds"));
        }
        // Labs have a directory of their own, in which each is what a run is elsewhere.
        let own = match names[0] {
            LABS => 2,
            _ => 1,
        };
        if names.len() <= own {
            bail!(refused("it sends a file of a name that no run has"));
        }
        let run = names[..own].join("/");
        self.enter(&run)?;
        let mut at = self.root.join(run);
        for name in &names[own..names.len() - 1] {
            at.push(name);
            if self.directories.insert(at.clone()) {
                match fs::create_dir(&at) {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                        bail!(refused("it sends a file and a directory of one name"))
                    }
                    made => made.with_context(|| format!("cannot make {}", at.display()))?,
                }
            }
        }
        let name = names[names.len() - 1];
        let path = at.join(name);
        if self.files.insert(path.clone()) && self.files.len() > MOST_FILES {
            bail!(refused("it sends more files than any run holds"));
        }
        let written = match piece.appends {
            true => append(&path, piece.at, bytes),
            false => self.part(&at.join(format!(".{name}.part")), &path, piece, bytes),
        };
        written.map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput => refused("a file of it comes in the wrong order").into(),
            io::ErrorKind::IsADirectory => {
                refused("it sends a file and a directory of one name").into()
            }
            _ => {
                let message = format!("cannot write {}: {error}", path.display());
                let remedy = "make room, or put the runs elsewhere with --runs DIR";
                anyhow::Error::from(Failure::usage(message).with_remedy(remedy))
            }
        })
    }

    /// Makes a run's directory, new, and locks it.
    fn enter(&mut self, run: &str) -> anyhow::Result<()> {
        if self.runs.contains_key(run) {
            return Ok(());
        }
        if self.runs.len() >= MOST_RUNS {
            bail!(refused("it sends more runs than any command makes"));
        }
        fs::create_dir_all(&self.root)
            .with_context(|| format!("cannot make {}", self.root.display()))?;
        let dir = self.root.join(run);
        if let Some(parent) = dir.parent() {
            fs::create_dir_all(parent)?;
        }
        match fs::create_dir(&dir) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                bail!(refused("it names a run that is here already"))
            }
            made => made.with_context(|| format!("cannot make {}", dir.display()))?,
        }
        let lock = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(dir.join("lock"))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        let mark = serde_json::json!({"schema": "pgassay/elsewhere/1", "place": self.place});
        rundir::replace_file(&dir.join(MARK), format!("{mark}\n").as_bytes())?;
        self.runs.insert(run.to_owned(), lock);
        Ok(())
    }

    /// Writes a piece of a whole file, which takes its name when the last has come.
    fn part(&mut self, part: &Path, path: &Path, piece: &Piece, bytes: &[u8]) -> io::Result<()> {
        let first = piece.at == 0;
        if !first && !self.parts.contains(part) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let file = OpenOptions::new()
            .write(true)
            .create(first)
            .truncate(first)
            .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
            .open(part)?;
        self.parts.insert(part.to_owned());
        if file.metadata()?.len() != piece.at {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        file.write_all_at(bytes, piece.at)?;
        if piece.last {
            file.sync_all()?;
            fs::rename(part, path)?;
            self.parts.remove(part);
        }
        Ok(())
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        for part in &self.parts {
            let _ = fs::remove_file(part);
        }
    }
}

/// Appends lines where they belong.
fn append(path: &Path, at: u64, bytes: &[u8]) -> io::Result<()> {
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
        .open(path)?;
    if file.metadata()?.len() != at {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    file.write_all_at(bytes, at)
}

/// The names of a path: a run's, and at least one below it.
fn names(path: &str) -> anyhow::Result<Vec<&str>> {
    let names: Vec<&str> = path.split('/').collect();
    let sound = |name: &&str| {
        let kept = |b: u8| b.is_ascii_alphanumeric() || b"._-+:".contains(&b);
        (1..=LONGEST).contains(&name.len()) && name.bytes().all(kept) && !name.starts_with('.')
    };
    let own = |name: &&str| ["lock", "pause.json", "live.jsonl", MARK].contains(name);
    if !names.last().is_some_and(|name| is_data(name)) {
        bail!(refused("it sends a file that is no data of a run"));
    }
    if !(2..=DEEPEST).contains(&names.len()) || !names.iter().all(sound) || names.iter().any(own) {
        bail!(refused("it sends a file of a name that no run has"));
    }
    Ok(names)
}

fn refused(what: &str) -> Failure {
    Failure::target(format!("the far side is not to be trusted: {what}"))
        .with_remedy("nothing was written outside of its own run; look who answers there")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::refuse_from_elsewhere;
    use pgassay_sys::private::Directory;

    fn piece(path: &str, at: u64, appends: bool, last: bool) -> Piece {
        Piece {
            path: path.into(),
            at,
            appends,
            last,
        }
    }

    fn place() -> Directory {
        Directory::make(&std::env::temp_dir(), "pgassay-keep").unwrap()
    }

    #[test]
    fn what_comes_in_pieces_is_whole_in_the_end() {
        let place = place();
        let mut keeper = Keeper::new(place.path().join("runs"), "ssh://db1");
        keeper
            .take(&piece("r-1/run.json", 0, false, false), b"{\"a\"")
            .unwrap();
        let run = keeper.root().join("r-1");
        assert!(!run.join("run.json").exists());
        keeper
            .take(&piece("r-1/run.json", 4, false, true), b": 1}")
            .unwrap();
        assert_eq!(fs::read(run.join("run.json")).unwrap(), b"{\"a\": 1}");
        keeper
            .take(&piece("r-1/trials.jsonl", 0, true, true), b"1\n")
            .unwrap();
        keeper
            .take(&piece("r-1/trials.jsonl", 2, true, true), b"2\n")
            .unwrap();
        keeper
            .take(&piece("r-1/facts/host.json", 0, false, true), b"{}")
            .unwrap();
        // It may be written anew, as a header is; and one that was begun is not left behind.
        keeper
            .take(&piece("r-1/run.json", 0, false, true), b"{}")
            .unwrap();
        keeper
            .take(&piece("r-1/end.json", 0, false, false), b"{")
            .unwrap();
        assert_eq!(keeper.runs(), [("r-1", 2)]);
        assert!(pgassay_engine::rundir::is_running(&run));
        drop(keeper);
        let mut left: Vec<_> = fs::read_dir(&run)
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        left.sort();
        assert_eq!(
            left,
            [
                "elsewhere.json",
                "facts",
                "lock",
                "run.json",
                "trials.jsonl"
            ]
        );
        assert!(!pgassay_engine::rundir::is_running(&run));
        let refused = refuse_from_elsewhere(&run).unwrap_err().message;
        assert!(refused.contains("measured on ssh://db1"), "{refused}");
        fs::remove_file(run.join(MARK)).unwrap();
        assert!(refuse_from_elsewhere(&run).is_ok());
    }

    #[test]
    fn a_file_and_a_directory_of_one_name_are_refused() {
        let place = place();
        for names in [
            ["r/x.json", "r/x.json/y.json"],
            ["q/x.json/y.json", "q/x.json"],
        ] {
            let mut keeper = Keeper::new(place.path().join("runs"), "ssh://db1");
            let [first, second] = names.map(|name| piece(name, 0, false, true));
            keeper.take(&first, b"{}").unwrap();
            let error = keeper.take(&second, b"{}").unwrap_err();
            let failure = error.downcast_ref::<Failure>().expect("a failure");
            assert_eq!(failure.kind, pgassay_model::FailureKind::Target);
        }
    }

    #[test]
    fn nothing_is_written_outside_of_a_new_run() {
        let place = place();
        let root = place.path().join("runs");
        fs::create_dir_all(root.join("mine")).unwrap();
        let long = format!("r/{}", "x".repeat(200));
        let deep = "r/a/b/c/d/e/f";
        for path in [
            "../x",
            "r/../../x",
            "/etc/x",
            "r//x",
            "r/./x",
            "x",
            "",
            "r/.x",
            "r/a b",
            "r/\u{1b}[2J",
            "mine/run.json",
            "r/lock",
            "r/pause.json",
            "r/elsewhere.json",
            "r/a\0b",
            &long,
            deep,
        ] {
            let mut keeper = Keeper::new(root.clone(), "ssh://db1");
            let refused = keeper.take(&piece(path, 0, false, true), b"x");
            let refused = refused.unwrap_err().to_string();
            assert!(refused.contains("not to be trusted"), "{path:?}: {refused}");
        }
        let mut keeper = Keeper::new(root.clone(), "ssh://db1");
        for (n, odd) in [
            piece("r/a.jsonl", 7, true, true),
            piece("r/b.json", 7, false, true),
            piece("r/c.json", u64::MAX, false, true),
            piece("r/d.jsonl", LARGEST, true, true),
        ]
        .iter()
        .enumerate()
        {
            assert!(keeper.take(odd, b"x").is_err(), "{n}");
        }
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
        assert_eq!(fs::read_dir(root.join("mine")).unwrap().count(), 0);
    }

    #[test]
    fn labs_lie_side_by_side_and_each_is_marked() {
        let place = place();
        for lab in ["one", "two"] {
            let mut keeper = Keeper::new(place.path().join("runs"), "ssh://db1");
            let run = format!("labs/{lab}/01-load/r-1");
            let trials = piece(&format!("{run}/trials.jsonl"), 0, true, true);
            keeper.take(&trials, b"1\n").unwrap();
            assert_eq!(keeper.runs(), [(format!("labs/{lab}").as_str(), 1)]);
            assert!(refuse_from_elsewhere(&keeper.root().join(run)).is_err());
        }
        assert!(refuse_from_elsewhere(&place.path().join("runs/labs")).is_ok());
        let mut again = Keeper::new(place.path().join("runs"), "ssh://db1");
        for path in ["labs/one/lab.json", "labs/lab.json"] {
            assert!(again.take(&piece(path, 0, false, true), b"{}").is_err());
        }
    }

    #[test]
    fn a_link_that_somebody_puts_there_is_not_followed() {
        let place = place();
        let outside = place.path().join("outside");
        fs::write(&outside, "mine").unwrap();
        let mut keeper = Keeper::new(place.path().join("runs"), "ssh://db1");
        keeper
            .take(&piece("r/run.json", 0, false, true), b"{}")
            .unwrap();
        let link = keeper.root().join("r/trials.jsonl");
        std::os::unix::fs::symlink(&outside, link).unwrap();
        assert!(
            keeper
                .take(&piece("r/trials.jsonl", 4, true, true), b"x\n")
                .is_err()
        );
        assert_eq!(fs::read(&outside).unwrap(), b"mine");
    }
}

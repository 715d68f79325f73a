//! Which runs there are, and each in a line.
//!
//! The directory is listed when somebody asks, at most once a second. A run is read once and again when
//! its files have changed; those that nobody has asked for yet are read by a thread of the lowest
//! priority, the newest first, while nothing is measured. Nothing runs while nobody asks.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, thread};

use pgassay_analysis::summary::Summary;
use pgassay_engine::rundir;
use pgassay_model::run::RunState;

use super::kept::{self, Line, Stamp};
use crate::commands::concluded::Concluded;

/// How long a listing holds.
const FRESH: Duration = Duration::from_secs(1);
/// Runs that are known at most: the newest, by their names.
const MOST: usize = 50_000;
/// How often what was read is kept while more is read.
const KEEP_EVERY: Duration = Duration::from_secs(20);

/// The runs of a directory.
pub(in crate::commands) struct Index {
    dir: PathBuf,
    kept: Option<PathBuf>,
    state: Mutex<State>,
    /// Told when a run was read.
    was_read: Condvar,
    reader: Reader,
}

/// Reads the run in a directory.
type Reader = fn(&Path) -> anyhow::Result<Summary>;

#[derive(Default)]
struct State {
    listed: Option<Instant>,
    runs: BTreeMap<String, Known>,
    /// Whether all that are not read are being read.
    reading: bool,
    /// Whether those of a page are.
    hurrying: bool,
    /// Runs that are being read.
    at_work: BTreeSet<String>,
}

/// What is known of a run.
#[derive(Clone)]
struct Known {
    stamp: Stamp,
    is: Is,
}

/// How far a run is known.
#[derive(Clone)]
pub(in crate::commands) enum Is {
    /// Not at all yet.
    Unread,
    /// It is measured now.
    Running,
    /// It was read.
    Read(Arc<Summary>),
    /// It can't be read: why.
    Unreadable(Arc<str>),
}

impl Index {
    /// Of a directory, with what was kept of it.
    pub(in crate::commands) fn of(dir: PathBuf) -> Arc<Self> {
        Self::read_by(dir, |dir| Ok(Concluded::at(dir)?.summary()))
    }

    fn read_by(dir: PathBuf, reader: Reader) -> Arc<Self> {
        let kept = kept::file(&dir);
        let lines = kept.as_ref().map(|file| kept::load(file, &dir));
        let known = |line: Line| {
            let is = match line.read {
                Ok(summary) => Is::Read(Arc::new(summary)),
                Err(why) => Is::Unreadable(why.into()),
            };
            let stamp = line.stamp;
            (line.run, Known { stamp, is })
        };
        let state = State {
            runs: lines.into_iter().flatten().map(known).collect(),
            ..State::default()
        };
        Arc::new(Self {
            dir,
            kept,
            state: Mutex::new(state),
            was_read: Condvar::new(),
            reader,
        })
    }

    /// The directory.
    pub(in crate::commands) fn dir(&self) -> &Path {
        &self.dir
    }

    /// All runs, newest first, as they are on disk now. Those that are not read yet are read from now on
    /// in the background.
    pub(in crate::commands) fn runs(self: &Arc<Self>) -> Vec<(String, Is)> {
        let mut state = self.lock();
        self.list(&mut state);
        let unread = |known: &Known| matches!(known.is, Is::Unread);
        if !state.reading && state.runs.values().any(unread) {
            state.reading = true;
            let index = Arc::clone(self);
            let started = thread::Builder::new()
                .name("reading runs".to_owned())
                .spawn(move || index.read_all());
            state.reading = started.is_ok();
        }
        let runs = state.runs.iter().rev();
        runs.map(|(run, known)| (run.clone(), known.is.clone()))
            .collect()
    }

    /// Whether a run is measured at this moment: what was listed may be a second old, and who stopped one
    /// to start the next is not told that it still runs.
    pub(in crate::commands) fn measures(self: &Arc<Self>) -> bool {
        self.lock().listed = None;
        self.runs().iter().any(|(_, is)| matches!(is, Is::Running))
    }

    /// The directory of a run of that name, and how far it is known; `None` where there is none. What is
    /// not in the listing is not there: no name leads out of the directory.
    pub(in crate::commands) fn find(&self, run: &str) -> Option<(PathBuf, Is, Stamp)> {
        let mut state = self.lock();
        self.list(&mut state);
        let known = state.runs.get(run)?;
        Some((self.dir.join(run), known.is.clone(), known.stamp))
    }

    /// Has these runs read first, and waits for them for so long at most. One that takes longer, as a
    /// large one does, is read on in the background.
    pub(in crate::commands) fn hurry(self: &Arc<Self>, runs: Vec<String>, wait: Duration) {
        let until = Instant::now() + wait;
        let mut state = self.lock();
        if !state.hurrying && !runs.is_empty() {
            state.hurrying = true;
            let index = Arc::clone(self);
            let started = thread::Builder::new()
                .name("reading a page".to_owned())
                .spawn(move || {
                    for run in runs {
                        if Instant::now() < until {
                            index.read(&run);
                        }
                    }
                    index.lock().hurrying = false;
                    index.was_read.notify_all();
                });
            state.hurrying = started.is_ok();
        }
        while state.hurrying {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let woken = self.was_read.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Reads a run now unless it was read or is being read; what is known then.
    pub(in crate::commands) fn read(&self, run: &str) -> Option<Is> {
        let (dir, is, stamp) = self.find(run)?;
        if !matches!(is, Is::Unread) || !self.lock().at_work.insert(run.to_owned()) {
            return Some(is);
        }
        let is = match (self.reader)(&dir) {
            Ok(mut summary) => {
                // By what it is called here, also if it was renamed.
                run.clone_into(&mut summary.run);
                Is::Read(Arc::new(summary))
            }
            Err(error) => Is::Unreadable(format!("{error:#}").into()),
        };
        let mut state = self.lock();
        state.at_work.remove(run);
        if let Some(known) = state.runs.get_mut(run)
            && known.stamp == stamp
        {
            known.is = is.clone();
        }
        Some(is)
    }

    /// Lists the directory, unless it was just done.
    fn list(&self, state: &mut State) {
        if state.listed.is_some_and(|at| at.elapsed() < FRESH) {
            return;
        }
        let mut found: Vec<(String, Stamp)> = fs::read_dir(&self.dir)
            .into_iter()
            .flatten()
            .flatten()
            // Links are not followed, and no run is called what an address can't say.
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                let stamp = stamp(&entry.path())?;
                (!name.contains(pgassay_text::is_unsafe)).then_some((name, stamp))
            })
            .collect();
        if found.len() > MOST {
            found.sort_unstable_by(|a, b| b.0.cmp(&a.0));
            found.truncate(MOST);
        }
        let mut before = std::mem::take(&mut state.runs);
        for (name, stamp) in found {
            let known = before.remove(&name).filter(|known| known.stamp == stamp);
            let is = match known.map(|known| known.is) {
                Some(Is::Read(summary)) if is_final(&summary) => Is::Read(summary),
                Some(Is::Unreadable(why)) => Is::Unreadable(why),
                // It may have begun, or ended, without a file telling.
                other => match (rundir::is_running(&self.dir.join(&name)), other) {
                    (true, _) => Is::Running,
                    (false, Some(Is::Read(summary))) => Is::Read(summary),
                    (false, _) => Is::Unread,
                },
            };
            state.runs.insert(name, Known { stamp, is });
        }
        state.listed = Some(Instant::now());
    }

    /// Reads what is not read yet, until there is nothing left.
    fn read_all(self: Arc<Self>) {
        // Of this thread alone.
        let _ = rustix::process::nice(19);
        let mut kept = Instant::now();
        loop {
            let next = {
                let mut state = self.lock();
                self.list(&mut state);
                let measured = state
                    .runs
                    .values()
                    .any(|known| matches!(known.is, Is::Running));
                let mut unread = state.runs.iter().rev();
                let unread = unread.find(|(run, known)| {
                    matches!(known.is, Is::Unread) && !state.at_work.contains(*run)
                });
                match (measured, unread.map(|(run, _)| run.clone())) {
                    // It would disturb what is measured; the next who asks goes on.
                    (true, _) | (false, None) => {
                        state.reading = false;
                        break;
                    }
                    (false, Some(run)) => run,
                }
            };
            self.read(&next);
            if kept.elapsed() > KEEP_EVERY {
                self.keep();
                kept = Instant::now();
            }
        }
        self.keep();
    }

    /// Keeps what was read for the next time.
    pub(in crate::commands) fn keep(&self) {
        let Some(file) = &self.kept else {
            return;
        };
        let lines: Vec<Line> = {
            let state = self.lock();
            let runs = state.runs.iter();
            runs.filter_map(|(run, known)| {
                let read = match &known.is {
                    Is::Read(summary) => Ok((**summary).clone()),
                    Is::Unreadable(why) => Err(why.to_string()),
                    Is::Unread | Is::Running => return None,
                };
                Some(Line {
                    run: run.clone(),
                    stamp: known.stamp,
                    read,
                })
            })
            .collect()
        };
        kept::save(file, &self.dir, lines.into_iter());
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a run is no more measured, unless its files change.
fn is_final(summary: &Summary) -> bool {
    summary.state == RunState::Complete
}

/// Of a directory that may be a run: with a header, or a lock of one that has none yet.
fn stamp(dir: &Path) -> Option<Stamp> {
    let own = fs::symlink_metadata(dir).ok()?;
    let time = |meta: &fs::Metadata| {
        meta.mtime()
            .wrapping_mul(1_000_000_000)
            .wrapping_add(meta.mtime_nsec())
    };
    match fs::symlink_metadata(dir.join("trials.jsonl")) {
        Ok(trials) => Some(Stamp {
            dir: time(&own),
            trials: time(&trials),
            length: trials.len(),
        }),
        Err(_) => {
            fs::symlink_metadata(dir.join("run.json")).ok()?;
            Some(Stamp {
                dir: time(&own),
                ..Stamp::default()
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use pgassay_sys::private::Directory;

    /// Reading a run called `large` waits as long as the test holds this.
    static GATE: Mutex<()> = Mutex::new(());

    fn slow(dir: &Path) -> anyhow::Result<Summary> {
        if dir.ends_with("large") {
            drop(GATE.lock().unwrap());
        }
        anyhow::bail!("read")
    }

    #[test]
    fn a_list_does_not_wait_for_a_run_that_takes_long() {
        let place = Directory::make(&std::env::temp_dir(), "pgassay-index").unwrap();
        for run in ["large", "small"] {
            fs::create_dir(place.path().join(run)).unwrap();
            fs::write(place.path().join(run).join("run.json"), "{}").unwrap();
        }
        let held = GATE.lock().unwrap();
        let index = Index {
            kept: None,
            ..Arc::into_inner(Index::read_by(place.path().to_owned(), slow)).unwrap()
        };
        let index = Arc::new(index);
        let known = |run: &str| index.find(run).unwrap().1;
        // It comes back although the large one is not read, and the one behind it neither: this would
        // never end if it waited.
        index.hurry(
            vec!["large".to_owned(), "small".to_owned()],
            Duration::from_millis(50),
        );
        assert!(matches!(known("large"), Is::Unread));
        // Who comes meanwhile does not read it a second time, nor waits longer.
        index.hurry(vec!["large".to_owned()], Duration::from_millis(10));
        index.read("small");
        assert!(matches!(known("small"), Is::Unreadable(_)));
        index.read("large");
        assert!(matches!(known("large"), Is::Unread));
        drop(held);
        let until = Instant::now() + Duration::from_secs(60);
        while matches!(known("large"), Is::Unread) {
            assert!(Instant::now() < until, "it was not read on");
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_run_that_has_just_ended_is_not_measured_any_more() {
        let place = Directory::make(&std::env::temp_dir(), "pgassay-index").unwrap();
        let run = place.path().join("run");
        fs::create_dir(&run).unwrap();
        fs::write(run.join("run.json"), "{}").unwrap();
        let index = Arc::new(Index {
            kept: None,
            ..Arc::into_inner(Index::read_by(place.path().to_owned(), slow)).unwrap()
        });
        let lock = fs::File::create(run.join("lock")).unwrap();
        lock.lock().unwrap();
        assert!(index.measures());
        // Within the second that a listing holds.
        lock.unlock().unwrap();
        assert!(!index.measures());
        lock.lock().unwrap();
        assert!(index.measures());
    }
}

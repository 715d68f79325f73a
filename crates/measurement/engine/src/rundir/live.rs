//! What the process that measures tells of the trial that runs: lines that are written only while
//! somebody follows, and go with the measurement.
//!
//! Who follows holds a shared lock on the file, which ends with its process. So the one that measures
//! knows whether anybody looks, and writes nothing for nobody; and who follows writes nothing at all.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pgassay_model::live::Moment;
use pgassay_sys::input;
use rustix::fs::{FlockOperation, OFlags, flock};

/// The least time between two lines.
const EACH: Duration = Duration::from_millis(900);
/// Length from which on the file begins anew.
const LONG: u64 = 64 << 10;

fn file(dir: &Path) -> PathBuf {
    dir.join("live.jsonl")
}

/// Removes what was told of a run that is over.
pub(super) fn remove(dir: &Path) {
    let _ = fs::remove_file(file(dir));
}

/// The side that measures.
#[derive(Debug)]
pub struct Teller {
    file: File,
    last: Option<Instant>,
}

impl Teller {
    /// For the run in `dir`; none where nothing can be written there, which is no reason not to measure.
    pub fn open(dir: &Path) -> Option<Self> {
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
            .open(file(dir))
            .ok()?;
        Some(Self { file, last: None })
    }

    /// Whether anybody follows.
    pub fn is_followed(&self) -> bool {
        match flock(&self.file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                let _ = flock(&self.file, FlockOperation::Unlock);
                false
            }
            Err(error) => error == rustix::io::Errno::WOULDBLOCK,
        }
    }

    /// Tells this, unless something was told less than a second ago.
    pub fn tell(&mut self, moment: &Moment) {
        if self.last.is_some_and(|last| last.elapsed() < EACH) {
            return;
        }
        self.last = Some(Instant::now());
        if self.file.metadata().is_ok_and(|meta| meta.len() > LONG) {
            let _ = self.file.set_len(0);
        }
        if let Ok(mut line) = serde_json::to_vec(moment) {
            line.push(b'\n');
            let _ = self.file.write_all(&line);
        }
    }
}

/// The side that follows.
#[derive(Debug)]
pub struct Follower {
    file: File,
    rest: Vec<u8>,
}

impl Drop for Follower {
    /// A process that is being started meanwhile has the file, too, until it is executed; closing would leave the lock
    /// to it.
    fn drop(&mut self) {
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

impl Follower {
    /// What is told of the run in `dir` from now on; none where nothing is yet.
    pub fn open(dir: &Path) -> Option<Self> {
        let path = file(dir);
        // A link could lead elsewhere.
        if !fs::symlink_metadata(&path).ok()?.is_file() {
            return None;
        }
        let mut file = input::open(&path).ok()?;
        flock(&file, FlockOperation::NonBlockingLockShared).ok()?;
        file.seek(SeekFrom::End(0)).ok()?;
        Some(Self {
            file,
            rest: Vec::new(),
        })
    }

    /// What was told since the last time.
    pub fn read(&mut self) -> Vec<Moment> {
        let length = self.file.metadata().map_or(0, |meta| meta.len());
        if self.file.stream_position().is_ok_and(|at| at > length) {
            // It began anew.
            let _ = self.file.seek(SeekFrom::Start(0));
            self.rest.clear();
        }
        let _ = Read::take(&mut self.file, 2 * LONG).read_to_end(&mut self.rest);
        let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n') else {
            if self.rest.len() as u64 > LONG {
                self.rest.clear();
            }
            return Vec::new();
        };
        let whole: Vec<u8> = self.rest.drain(..=end).collect();
        let lines = whole.split(|byte| *byte == b'\n');
        lines
            .filter_map(|line| serde_json::from_slice(line).ok())
            .collect()
    }
}

//! A run that is measured, followed by reading what it writes down: by the page and by the terminal.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use pgassay_analysis::underway::{SoFar, Underway};
use pgassay_engine::rundir::live::Follower;
use pgassay_engine::rundir::{self, pause};
use pgassay_model::Trial;
use pgassay_model::run::Event;
use pgassay_sys::input;
use serde::de::DeserializeOwned;

/// Bytes that are read at a time.
const AT_A_TIME: usize = 8 << 20;
/// The longest line that is waited for.
const LONGEST: usize = 64 << 20;

/// What was read of a run so far.
pub(super) struct Following {
    dir: PathBuf,
    underway: Underway,
    planned: Option<SystemTime>,
    trials: Tail,
    events: Tail,
    live: Option<Follower>,
    asked: bool,
}

impl Following {
    /// From its beginning; `None` where it is not measured. While this is held, the run tells of the trial
    /// that runs.
    pub(super) fn of(dir: &Path) -> Option<Self> {
        if rundir::irregular(dir).ok()?.is_some() || !rundir::is_running(dir) {
            return None;
        }
        let header = rundir::read_header(dir).ok()?;
        Some(Self {
            dir: dir.to_owned(),
            underway: Underway::new(header),
            planned: None,
            trials: Tail::default(),
            events: Tail::default(),
            live: None,
            asked: false,
        })
    }

    /// Whether it is measured still. To be asked before the last reading: what was written before it
    /// ended is then told.
    pub(super) fn is_running(&self) -> bool {
        rundir::is_running(&self.dir)
    }

    /// Reads what is new; whether anything is.
    pub(super) fn read(&mut self) -> bool {
        let written = fs::metadata(self.dir.join("run.json")).and_then(|meta| meta.modified());
        let written = written.ok();
        let mut new = false;
        if written != self.planned
            && let Ok(header) = rundir::read_header(&self.dir)
        {
            self.underway.plan(header);
            self.planned = written;
            new = true;
        }
        for trial in self.trials.lines::<Trial>(&self.dir.join("trials.jsonl")) {
            self.underway.add(&trial);
            new = true;
        }
        for event in self.events.lines::<Event>(&self.dir.join("events.jsonl")) {
            self.underway.happened(&event);
            new = true;
        }
        let asked = pause::asked(&self.dir).is_some();
        new |= std::mem::replace(&mut self.asked, asked) != asked;
        self.underway.asked_to_pause(asked);
        if self.live.is_none() {
            self.live = Follower::open(&self.dir);
        }
        for moment in self.live.iter_mut().flat_map(Follower::read) {
            self.underway.told(moment);
            new = true;
        }
        new
    }

    /// What is known now.
    pub(super) fn so_far(&self) -> SoFar<'_> {
        self.underway.so_far()
    }
}

/// A file of lines that grows.
#[derive(Default)]
struct Tail {
    file: Option<File>,
    /// What follows the last newline.
    rest: Vec<u8>,
}

impl Tail {
    /// The whole lines that are new and can be understood.
    fn lines<T: DeserializeOwned>(&mut self, path: &Path) -> Vec<T> {
        if self.file.is_none() {
            self.file = input::open(path).ok();
        }
        let Some(file) = &mut self.file else {
            return Vec::new();
        };
        // A run that is resumed drops a line that was cut short.
        let read_to = file.stream_position().unwrap_or(0);
        let length = file.metadata().map_or(0, |meta| meta.len());
        if length < read_to {
            let _ = file.seek(SeekFrom::Start(length));
            self.rest.clear();
        }
        let mut limited = Read::take(&mut *file, AT_A_TIME as u64);
        if limited.read_to_end(&mut self.rest).is_err() {
            return Vec::new();
        }
        let end = self.rest.iter().rposition(|byte| *byte == b'\n');
        let whole: Vec<u8> = end.map_or_else(Vec::new, |end| self.rest.drain(..=end).collect());
        if self.rest.len() > LONGEST {
            self.rest.clear();
        }
        let lines = whole.split(|byte| *byte == b'\n');
        lines
            .filter_map(|line| serde_json::from_slice(line).ok())
            .collect()
    }
}

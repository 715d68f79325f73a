//! A run that is measured, followed by reading what it writes down.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use pgassay_analysis::Trial;
use pgassay_analysis::underway::Underway;
use pgassay_engine::rundir;
use pgassay_http::{Feed, Next};
use pgassay_report::{Document, Report, site};
use pgassay_sys::input;

/// Bytes that are read at a time.
const AT_A_TIME: usize = 8 << 20;
/// The longest line that is waited for.
const LONGEST: usize = 64 << 20;

/// What was read of a run so far.
pub(super) struct Follow {
    dir: PathBuf,
    underway: Underway,
    planned: Option<SystemTime>,
    trials: Option<File>,
    /// What follows the last newline.
    rest: Vec<u8>,
    told: bool,
}

impl Follow {
    /// From its beginning; `None` where it is not measured.
    pub(super) fn new(dir: &Path) -> Option<Self> {
        if rundir::irregular(dir).ok()?.is_some() || !rundir::is_running(dir) {
            return None;
        }
        let header = rundir::read_header(dir).ok()?;
        Some(Self {
            dir: dir.to_owned(),
            underway: Underway::new(header),
            planned: None,
            trials: None,
            rest: Vec::new(),
            told: false,
        })
    }

    /// Reads what is new; whether anything is.
    fn read(&mut self) -> bool {
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
        if self.trials.is_none() {
            self.trials = input::open(&self.dir.join("trials.jsonl")).ok();
        }
        let Some(file) = &mut self.trials else {
            return new;
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
            return new;
        }
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            if let Ok(trial) = serde_json::from_slice::<Trial>(&line) {
                self.underway.add(&trial);
                new = true;
            }
        }
        if self.rest.len() > LONGEST {
            self.rest.clear();
        }
        new
    }

    /// All that is known now.
    pub(super) fn document(&mut self) -> Document {
        self.read();
        self.underway.so_far().document()
    }
}

impl Feed for Follow {
    fn next(&mut self) -> Next {
        // Asked before the reading: what was written before it ended is told.
        let running = rundir::is_running(&self.dir);
        let new = self.read();
        if !running {
            return Next::Last(String::new());
        }
        if !new && self.told {
            return Next::Same;
        }
        self.told = true;
        Next::Event(site::live_part_of(&self.underway.so_far().document()))
    }
}

//! Writing a run directory, so that whatever happens the lines before stay whole.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use pgassay_model::Failure;
use pgassay_model::run::{Event, EventKind, FORMAT, RunEnd, RunHeader};
use pgassay_model::trial::Trial;
use pgassay_server::clock;
use rustix::fs::{FlockOperation, OFlags, flock};
use serde::Serialize;

use super::{cannot_write, irregular, now, replace_file};

/// A run being measured. The lock on its directory is held until this is dropped.
#[derive(Debug)]
pub struct RunWriter {
    dir: PathBuf,
    trials: Lines,
    events: Lines,
    _lock: File,
}

impl RunWriter {
    /// Makes a new run directory and writes its header; fills in the header's `id`.
    ///
    /// # Errors
    /// Where the directory can't be made or written, naming it.
    pub fn create(root: &Path, header: &mut RunHeader) -> anyhow::Result<Self> {
        fs::create_dir_all(root).map_err(|e| cannot_write(root, &e))?;
        let dir = loop {
            header.id = fresh_name(&header.experiment.plan().workload.name)?;
            let dir = root.join(&header.id);
            match fs::create_dir(&dir) {
                Ok(()) => break dir,
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(cannot_write(root, &e)),
            }
        };
        let writer = Self::open(dir)?;
        fs::create_dir(writer.dir.join("facts")).map_err(|e| cannot_write(&writer.dir, &e))?;
        writer.write_json("run.json", header)?;
        Ok(writer)
    }

    /// Opens an interrupted run to go on with it; a line cut short by a crash is dropped.
    ///
    /// # Errors
    /// Where another process measures it, or it was written by a newer format.
    pub fn reopen(dir: &Path, header: &RunHeader) -> anyhow::Result<Self> {
        if header.format > FORMAT {
            bail!(Failure::usage(format!(
                "{} was written by a newer pgassay",
                header.id
            )));
        }
        // Links in a directory that came from somebody else would have us write elsewhere.
        if let Some(link) = irregular(dir).map_err(|e| cannot_write(dir, &e))? {
            bail!(
                Failure::usage(format!(
                    "{} cannot be resumed: {} is neither a file nor a directory",
                    dir.display(),
                    link.display()
                ))
                .with_remedy("move that away")
            );
        }
        let writer = Self::open(dir.to_owned())?;
        match fs::remove_file(dir.join("end.json")) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(cannot_write(dir, &e)),
            _ => Ok(writer),
        }
    }

    fn open(dir: PathBuf) -> anyhow::Result<Self> {
        let open_lock = || {
            OpenOptions::new()
                .create(true)
                .append(true)
                .open(dir.join("lock"))
        };
        let lock = open_lock().map_err(|e| cannot_write(&dir, &e))?;
        if !held(&lock) {
            bail!(
                Failure::usage(format!(
                    "{} is being measured by another process",
                    dir.display()
                ))
                .with_remedy("wait for it, or stop it with Ctrl-C there")
            );
        }
        // Asked of the process that measured it before.
        let _ = super::pause::unpause(&dir);
        super::live::remove(&dir);
        Ok(Self {
            trials: Lines::open(&dir.join("trials.jsonl"))?,
            events: Lines::open(&dir.join("events.jsonl"))?,
            _lock: lock,
            dir,
        })
    }

    /// Writes down what a run is to measure when more of it is known; other parts of its header
    /// never change.
    ///
    /// # Errors
    /// Where it can't be written.
    pub fn write_header(&self, header: &RunHeader) -> anyhow::Result<()> {
        self.write_json("run.json", header)
    }

    /// Where the run lies.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Writes one of the facts, such as `host`.
    ///
    /// # Errors
    /// Where it can't be written.
    pub fn write_fact(&self, name: &str, fact: &impl Serialize) -> anyhow::Result<()> {
        self.write_json(&format!("facts/{name}.json"), fact)
    }

    /// Appends a trial.
    ///
    /// # Errors
    /// Where it can't be written, as on a full disk; the lines before stay whole.
    pub fn append_trial(&mut self, trial: &Trial) -> anyhow::Result<()> {
        self.trials.append(trial)
    }

    /// Appends an event with the time of now.
    ///
    /// # Errors
    /// Like [`Self::append_trial`].
    pub fn append_event(&mut self, what: EventKind) -> anyhow::Result<()> {
        self.events.append(&Event { at: now(), what })
    }

    /// Syncs all lines and writes how the run ended.
    ///
    /// # Errors
    /// Where it can't be written.
    pub fn finish(&mut self, end: &RunEnd) -> anyhow::Result<()> {
        self.trials.sync()?;
        self.events.sync()?;
        let _ = super::pause::unpause(&self.dir);
        super::live::remove(&self.dir);
        self.write_json("end.json", end)
    }

    fn write_json(&self, name: &str, value: &impl Serialize) -> anyhow::Result<()> {
        let mut text = serde_json::to_vec_pretty(value).context("cannot serialize")?;
        text.push(b'\n');
        replace_file(&self.dir.join(name), &text)
    }
}

/// A link, a FIFO or a device in a directory, or the directory itself if it is a link.
pub(super) fn irregular_in(dir: &Path) -> io::Result<Option<PathBuf>> {
    if fs::symlink_metadata(dir).is_ok_and(|meta| meta.is_symlink()) {
        return Ok(Some(dir.to_owned()));
    }
    let entries = match fs::read_dir(dir) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let kind = entry.file_type()?;
        if !kind.is_file() && !kind.is_dir() {
            return Ok(Some(entry.path()));
        }
    }
    Ok(None)
}

/// Takes the lock of a run directory; whether that is ours now. Whoever only asks whether it is held
/// ([`super::is_running`]) holds it for a moment itself, so that one refusal means nothing.
fn held(lock: &File) -> bool {
    let until = Instant::now() + Duration::from_millis(500);
    loop {
        if flock(lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            return true;
        }
        if Instant::now() >= until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The length of a file without what follows its last newline.
fn end_of_last_line(file: &File) -> io::Result<u64> {
    const BLOCK: u64 = 1 << 16;
    let mut end = file.metadata()?.len();
    let mut block = Vec::new();
    while end > 0 {
        let start = end.saturating_sub(BLOCK);
        block.resize((end - start) as usize, 0);
        file.read_exact_at(&mut block, start)?;
        if let Some(at) = block.iter().rposition(|byte| *byte == b'\n') {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

/// A file of JSON lines that only grows by whole lines.
#[derive(Debug)]
struct Lines {
    file: File,
    path: PathBuf,
    length: u64,
    synced: Instant,
}

impl Lines {
    fn open(path: &Path) -> anyhow::Result<Self> {
        let open = || -> io::Result<(File, u64)> {
            let mut file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
                .open(path)?;
            let whole = end_of_last_line(&file)?;
            file.set_len(whole)?;
            file.seek(SeekFrom::Start(whole))?;
            Ok((file, whole))
        };
        let (file, length) = open().map_err(|e| cannot_write(path, &e))?;
        Ok(Self {
            file,
            path: path.to_owned(),
            length,
            synced: Instant::now(),
        })
    }

    fn append(&mut self, value: &impl Serialize) -> anyhow::Result<()> {
        let mut line = serde_json::to_vec(value).context("cannot serialize")?;
        line.push(b'\n');
        if let Err(e) = self.file.write_all(&line) {
            // Leave no half line behind, whatever part of it went in.
            let _ = self.file.set_len(self.length);
            let _ = self.file.seek(SeekFrom::Start(self.length));
            return Err(cannot_write(&self.path, &e));
        }
        self.length += line.len() as u64;
        if self.synced.elapsed() > Duration::from_secs(1) {
            self.sync()
        } else {
            Ok(())
        }
    }

    fn sync(&mut self) -> anyhow::Result<()> {
        self.file
            .sync_data()
            .map_err(|e| cannot_write(&self.path, &e))?;
        self.synced = Instant::now();
        Ok(())
    }
}

/// `20261121T031500Z-select-only-k3f9`.
fn fresh_name(workload: &str) -> anyhow::Result<String> {
    let mut random = [0u8; 4];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())
        .context("no random bytes")?;
    let letters = b"abcdefghijkmnpqrstuvwxyz23456789";
    let tail: String = random
        .iter()
        .map(|b| char::from(letters[usize::from(b % 32)]))
        .collect();
    let time = clock::now().strftime("%Y%m%dT%H%M%SZ").to_string();
    let workload: String = workload
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .take(40)
        .collect();
    Ok(format!("{time}-{workload}-{tail}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_looks_whether_a_run_is_measured_keeps_nobody_from_measuring_it() {
        let place = std::env::temp_dir().join(format!("pgassay-lock-{}", std::process::id()));
        let asked = File::create(&place).unwrap();
        flock(&asked, FlockOperation::NonBlockingLockShared).unwrap();
        let lock = File::open(&place).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(20));
                flock(&asked, FlockOperation::Unlock).unwrap();
            });
            assert!(held(&lock));
        });
        // Who holds it longer measures.
        assert!(!held(&asked));
        fs::remove_file(&place).unwrap();
    }
}

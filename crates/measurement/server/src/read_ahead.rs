//! The read-ahead of a block device: set for a measurement, and given back after it.
//!
//! The value belongs to the machine and not to us. It is noted before it is changed, so that the
//! next run gives it back if this one is killed.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::TargetError;
use super::scratch::{Scratch, make_dir, open_lock};

/// Where the kernel has the devices' settings.
const SYSFS: &str = "/sys";

/// A device's read-ahead; given back when this is dropped.
#[derive(Debug)]
pub struct ReadAhead {
    file: PathBuf,
    before: String,
    note: PathBuf,
    scratch: Scratch,
    /// Its flock says that the owner of the note lives.
    _held: File,
}

impl ReadAhead {
    /// Takes the file `…/queue/read_ahead_kb` over.
    ///
    /// # Errors
    /// If it can't be read, noted or written, or another pgassay has it.
    pub fn take(file: PathBuf) -> Result<Self, TargetError> {
        // The device is the machine's, so its note is where every run looks.
        Self::take_under(Scratch::open(None)?, Path::new(SYSFS), file)
    }

    fn take_under(scratch: Scratch, sysfs: &Path, file: PathBuf) -> Result<Self, TargetError> {
        let locked = scratch.lock()?;
        let place = |doing: &str, error: io::Error| TargetError::place(&file, doing, &error);
        let notes = notes(&scratch);
        make_dir(&notes, 0o755)?;
        let note = notes.join(file_name_of(&file));
        let mut held =
            open_lock(&note).map_err(|e| TargetError::place(&note, "can't be written", &e))?;
        if flock(&held, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(TargetError::Usage(format!(
                "another pgassay has set {}; wait until it has ended",
                file.display()
            )));
        }
        // What a killed run left is not what was there before.
        give_back(&note, sysfs);
        let before = fs::read_to_string(&file).map_err(|e| place("can't be read", e))?;
        let before = before.trim().to_owned();
        held.set_len(0)
            .and_then(|()| writeln!(held, "{before} {}", file.display()))
            .and_then(|()| held.sync_all())
            .map_err(|e| TargetError::place(&note, "can't be written", &e))?;
        drop(locked);
        let taken = Self {
            file,
            before,
            note,
            scratch,
            _held: held,
        };
        // Written before anything is measured: whoever may not write is told now.
        taken.set(&taken.before)?;
        Ok(taken)
    }

    /// Sets the read-ahead, in kB.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn set(&self, kb: &str) -> Result<(), TargetError> {
        fs::write(&self.file, kb)
            .map_err(|e| TargetError::place(&self.file, "can't be written", &e))
    }

    /// What it was, in kB.
    pub fn before(&self) -> &str {
        &self.before
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        // Nobody is left to tell; the value is in the run's host facts. The note goes only with
        // the value back in force.
        let _locked = self.scratch.lock();
        if self.set(&self.before).is_ok() {
            drop(fs::remove_file(&self.note));
        }
    }
}

fn notes(scratch: &Scratch) -> PathBuf {
    scratch.root().join("read-ahead")
}

/// A path as the name of a file: one note for each device.
fn file_name_of(path: &Path) -> String {
    path.display().to_string().replace('/', "-")
}

/// Gives back what killed runs noted; living runs hold the lock of their notes.
pub(super) fn sweep(scratch: &Scratch) {
    sweep_under(scratch, Path::new(SYSFS));
}

fn sweep_under(scratch: &Scratch, sysfs: &Path) {
    for entry in fs::read_dir(notes(scratch)).into_iter().flatten().flatten() {
        let note = entry.path();
        let Ok(held) = File::open(&note) else {
            continue;
        };
        if flock(&held, FlockOperation::NonBlockingLockExclusive).is_ok() && give_back(&note, sysfs)
        {
            drop(fs::remove_file(&note));
        }
    }
}

/// Writes a noted value back; whether there is nothing more to do.
fn give_back(note: &Path, sysfs: &Path) -> bool {
    let Ok(text) = fs::read_to_string(note) else {
        return false;
    };
    let Some((kb, path)) = text.trim_end().split_once(' ') else {
        return true;
    };
    let file = Path::new(path);
    let known = kb.parse::<u64>().is_ok()
        && file.starts_with(sysfs)
        && file.ends_with("queue/read_ahead_kb");
    // A device that has gone needs nothing back.
    !known || !file.exists() || fs::write(file, kb).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Attack D15: after kill -9 the device's read-ahead stayed what the run had set.
    #[test]
    fn a_killed_run_s_read_ahead_is_given_back() {
        let base = PathBuf::from(format!(
            "/var/tmp/pgassay-test-read-ahead-{}",
            std::process::id()
        ));
        drop(fs::remove_dir_all(&base));
        fs::create_dir(&base).unwrap();
        let scratch = Scratch::open(Some(&base)).unwrap();
        let queue = base.join("sys/devices/vda/queue");
        fs::create_dir_all(&queue).unwrap();
        let file = queue.join("read_ahead_kb");
        fs::write(&file, "128\n").unwrap();
        let now = || fs::read_to_string(&file).unwrap().trim().to_owned();
        let take = || ReadAhead::take_under(scratch.clone(), &base, file.clone());
        let notes_left = || fs::read_dir(notes(&scratch)).unwrap().count();

        // Dropped: given back, and no note is left.
        let taken = take().unwrap();
        taken.set("16").unwrap();
        assert_eq!(now(), "16");
        sweep_under(&scratch, &base);
        assert_eq!(now(), "16", "the owner lives");
        let second = take().unwrap_err().to_string();
        assert!(second.contains("another pgassay"), "{second}");
        drop(taken);
        assert_eq!((now().as_str(), notes_left()), ("128", 0));

        // Killed: the note stays, its lock does not.
        let killed = |kb: &str| {
            let taken = take().unwrap();
            taken.set(kb).unwrap();
            let note = fs::read(&taken.note).unwrap();
            let path = taken.note.clone();
            drop(taken);
            fs::write(path, note).unwrap();
            fs::write(&file, kb).unwrap();
        };
        killed("16");
        sweep_under(&scratch, &base);
        assert_eq!((now().as_str(), notes_left()), ("128", 0));
        // The next run that sets it does not take the wrong value for the old one.
        killed("32");
        drop(take().unwrap());
        assert_eq!((now().as_str(), notes_left()), ("128", 0));

        // A note that names another file is not followed.
        let other = base.join("precious");
        fs::write(&other, "text").unwrap();
        fs::write(
            notes(&scratch).join("x"),
            format!("1 {}\n", other.display()),
        )
        .unwrap();
        sweep_under(&scratch, &base);
        assert_eq!(fs::read_to_string(&other).unwrap(), "text");
        fs::remove_dir_all(&base).unwrap();
    }
}

//! The file by which the emulator's plugin is told what to record. It maps it; so no more is needed
//! here than to write.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Stretches of shared memory that the plugin takes.
const MOST: usize = 32;
/// struct control of plugin.c: process, whether, how many stretches, padding; the stretches.
const LENGTH: usize = 16 + MOST * 16;
/// Where it stands whether the process is recorded.
const ON: u64 = 4;

/// The file.
#[derive(Debug)]
pub struct Control {
    file: File,
    path: PathBuf,
}

/// Recording goes on until this is dropped.
#[derive(Debug)]
pub struct On<'a>(&'a Control);

impl Drop for On<'_> {
    fn drop(&mut self) {
        // The process ends soon, whatever it still records.
        self.0.file.write_all_at(&0_u32.to_ne_bytes(), ON).ok();
    }
}

impl Control {
    /// Makes the file; nothing is recorded yet.
    ///
    /// # Errors
    /// Where it can't be made.
    pub fn make(path: &Path) -> io::Result<Self> {
        let file = File::create(path)?;
        file.write_all_at(&[0; LENGTH], 0)?;
        Ok(Self {
            file,
            path: path.to_path_buf(),
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the plugin writes what it records.
    pub fn events(&self) -> PathBuf {
        let mut path = self.path.clone().into_os_string();
        path.push(".events");
        path.into()
    }

    /// Has a process recorded from the end of its next wait, with these stretches of shared memory.
    ///
    /// # Errors
    /// Where the file can't be written, or there are too many stretches.
    pub fn on(&self, pid: u32, shared: &[Range<u64>]) -> io::Result<On<'_>> {
        if shared.len() > MOST {
            return Err(io::Error::other(format!(
                "{} shared mappings are more than {MOST}",
                shared.len()
            )));
        }
        match std::fs::remove_file(self.events()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut bytes = Vec::with_capacity(LENGTH);
        for word in [pid, 0, shared.len() as u32, 0] {
            bytes.extend(word.to_ne_bytes());
        }
        for address in shared.iter().flat_map(|range| [range.start, range.end]) {
            bytes.extend(address.to_ne_bytes());
        }
        self.file.write_all_at(&bytes, 0)?;
        self.file.write_all_at(&1_u32.to_ne_bytes(), ON)?;
        Ok(On(self))
    }
}

//! Files mapped into memory, read-only: a binary is inspected in place, not copied.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::path::Path;

/// A file's bytes, mapped read-only and private.
///
/// An empty file maps to an empty slice. The kernel reads pages as they are
/// touched, so that looking at the headers of a large file costs little.
#[derive(Debug)]
pub struct Mapped {
    /// `None` for an empty file, which Linux refuses to map.
    map: Option<memmap2::Mmap>,
}

impl Mapped {
    /// Maps the regular file at `path`.
    ///
    /// # Errors
    /// What opening or mapping gave, with the kind `InvalidInput` where `path`
    /// is not a regular file (a FIFO would block, a device never end).
    pub fn open(path: &Path) -> io::Result<Self> {
        // The kind is looked at before the open too: opening a FIFO blocks.
        refuse_special(&std::fs::metadata(path)?)?;
        Self::of(&File::open(path)?)
    }

    /// Maps an open file.
    ///
    /// # Errors
    /// As for [`Mapped::open`].
    pub fn of(file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        refuse_special(&metadata)?;
        if metadata.len() == 0 {
            return Ok(Self { map: None });
        }
        // SAFETY: the map is read-only and private, and what it points to is
        // only ever read as bytes. Another process can still write to the file
        // or truncate it: a write may show other bytes to a parser, which takes
        // any bytes; a truncation raises SIGBUS and ends the program, with a word
        // (see `shrunk`). No memory is corrupted by either.
        let map = unsafe { memmap2::Mmap::map(file)? };
        Ok(Self { map: Some(map) })
    }

    /// Lets go of the memory of whole pages within `part`, a part of this map; what lies elsewhere
    /// is left alone. They are read from the file again if they are touched again.
    pub fn let_go(&self, part: &[u8]) {
        let Some(map) = &self.map else { return };
        let whole = map.as_ptr_range();
        let range = part.as_ptr_range();
        if range.start < whole.start || range.end > whole.end {
            return;
        }
        let page = rustix::param::page_size();
        let (start, end) = (range.start as usize, range.end as usize);
        let (first, last) = (start.next_multiple_of(page), end / page * page);
        if first >= last {
            return;
        }
        // SAFETY: the range lies within this read-only map of a file (checked above), whose pages
        // hold nothing that the file does not: DONTNEED changes no byte that can be read there.
        let advised = unsafe {
            map.unchecked_advise_range(
                memmap2::UncheckedAdvice::DontNeed,
                first - whole.start as usize,
                last - first,
            )
        };
        // Advice: where the kernel does not take it, memory stays taken.
        let _ = advised;
    }
}

impl Deref for Mapped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.map.as_deref().unwrap_or(&[])
    }
}

/// Refuses what is not a regular file.
fn refuse_special(metadata: &std::fs::Metadata) -> io::Result<()> {
    if metadata.is_file() {
        Ok(())
    } else {
        Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not a regular file",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_what_is_there_and_refuses_what_is_not_a_file() {
        let own = std::env::current_exe().unwrap();
        let mapped = Mapped::open(&own).unwrap();
        assert_eq!(&mapped[..4], b"\x7fELF");
        assert_eq!(mapped.len() as u64, std::fs::metadata(&own).unwrap().len());

        // What was let go of reads the same; what is not of the map is not touched.
        let (copy, own_stack) = (mapped.to_vec(), [7; 16_384]);
        mapped.let_go(&mapped[100..]);
        mapped.let_go(&own_stack);
        assert!(copy == mapped[..] && own_stack == [7; 16_384]);

        assert!(Mapped::open(Path::new("/proc/self/environ")).is_ok());
        let directory = Mapped::open(Path::new("/")).unwrap_err();
        assert_eq!(directory.kind(), io::ErrorKind::InvalidInput);
        let missing = Mapped::open(Path::new("/no/such/file")).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }
}

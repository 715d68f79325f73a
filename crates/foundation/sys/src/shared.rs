//! Memory that another process shares with others, mapped here, too: atomics on it are atomics for them.

use std::fs::OpenOptions;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};

/// A shared mapping of another process.
#[derive(Debug)]
pub struct Shared {
    map: MmapRaw,
}

impl Shared {
    /// Maps what a process has mapped at `range`, from `offset` of its file on, as /proc/PID/maps shows both.
    ///
    /// # Errors
    /// EPERM without CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN (proc_pid_map_files(5)); ENOENT where there is no such
    /// mapping.
    pub fn of(pid: u32, range: &Range<u64>, offset: u64) -> io::Result<Self> {
        let path = format!("/proc/{pid}/map_files/{:x}-{:x}", range.start, range.end);
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let length = (range.end - range.start) as usize;
        let map = MmapOptions::new()
            .offset(offset)
            .len(length)
            .map_raw(&file)?;
        Ok(Self { map })
    }

    /// The word of `size` bytes at `offset`; none where it is not aligned, not of 1, 2, 4 or 8 bytes, or not within.
    pub fn load(&self, offset: u64, size: u32) -> Option<u64> {
        let at = self.place(offset, size)?;
        // SAFETY: `place` gave an address within the map, aligned for `size`. Whoever else uses this memory does so
        // by atomics or as PostgreSQL's locks order it; it is never borrowed here as anything but these atomics.
        unsafe {
            Some(match size {
                1 => AtomicU8::from_ptr(at).load(Ordering::SeqCst).into(),
                2 => AtomicU16::from_ptr(at.cast()).load(Ordering::SeqCst).into(),
                4 => AtomicU32::from_ptr(at.cast()).load(Ordering::SeqCst).into(),
                _ => AtomicU64::from_ptr(at.cast()).load(Ordering::SeqCst),
            })
        }
    }

    /// Writes `new` if `expected` stands there still, at once; whether it did. None as for [`Self::load`].
    pub fn exchange(&self, offset: u64, size: u32, expected: u64, new: u64) -> Option<bool> {
        const ORDER: (Ordering, Ordering) = (Ordering::SeqCst, Ordering::SeqCst);
        let at = self.place(offset, size)?;
        let (expected, new) = (expected.to_ne_bytes(), new.to_ne_bytes());
        macro_rules! by {
            ($atomic:ty, $word:ty) => {{
                const BYTES: usize = size_of::<$word>();
                let part = |bytes: [u8; 8]| match cfg!(target_endian = "little") {
                    true => <$word>::from_ne_bytes(std::array::from_fn(|n| bytes[n])),
                    false => <$word>::from_ne_bytes(std::array::from_fn(|n| bytes[8 - BYTES + n])),
                };
                // SAFETY: as in `load`.
                let word = unsafe { <$atomic>::from_ptr(at.cast()) };
                let done = word.compare_exchange(part(expected), part(new), ORDER.0, ORDER.1);
                done.is_ok()
            }};
        }
        Some(match size {
            1 => by!(AtomicU8, u8),
            2 => by!(AtomicU16, u16),
            4 => by!(AtomicU32, u32),
            _ => by!(AtomicU64, u64),
        })
    }

    fn place(&self, offset: u64, size: u32) -> Option<*mut u8> {
        let fits = matches!(size, 1 | 2 | 4 | 8) && offset.is_multiple_of(u64::from(size));
        let end = offset.checked_add(u64::from(size))?;
        if !fits || end > self.map.len() as u64 {
            return None;
        }
        // The map is aligned to a page, so that the address is aligned as the offset is.
        Some(self.map.as_mut_ptr().wrapping_add(offset as usize))
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{MemfdFlags, memfd_create};

    use super::*;

    #[test]
    fn what_is_written_here_is_seen_there() {
        let name = "pgassay-shared";
        let file = memfd_create(name, MemfdFlags::CLOEXEC).unwrap();
        let file = std::fs::File::from(file);
        file.set_len(1 << 16).unwrap();
        let theirs = MmapOptions::new().map_raw(&file).unwrap();
        let start = theirs.as_ptr() as u64;
        let range = start..start + (1 << 16);
        let ours = match Shared::of(std::process::id(), &range, 0) {
            // What the capability is asked for.
            Err(error) if !rustix::process::geteuid().is_root() => {
                assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
                return;
            }
            other => other.unwrap(),
        };
        for size in [1, 2, 4, 8] {
            let at = 64 * u64::from(size);
            assert_eq!(ours.load(at, size), Some(0));
            assert_eq!(ours.exchange(at, size, 0, 7), Some(true));
            assert_eq!(ours.exchange(at, size, 0, 9), Some(false));
            assert_eq!(ours.load(at, size), Some(7));
        }
        // SAFETY: the byte lies within the map that this test has made, and nobody else writes there now.
        assert_eq!(unsafe { *theirs.as_ptr().add(64) }, 7);
        assert_eq!(ours.load(3, 4), None);
        assert_eq!(ours.load(1 << 16, 8), None);
        assert_eq!(ours.load(u64::MAX - 7, 8), None);
        assert_eq!(ours.load(0, 16), None);
        let nowhere = Shared::of(std::process::id(), &(0x1000..0x2000), 0);
        assert!(nowhere.is_err());
    }
}

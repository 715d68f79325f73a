//! Instructions of one process by the processor's own counter (perf_event_open(2)).
//!
//! Most virtual machines have none; then opening fails with `NotFound`.

use std::ffi::c_int;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{FromRawFd, OwnedFd};

use perf::bindings as abi;
use perf_event_open_sys as perf;

/// A counter of the instructions that a process executes in user mode.
#[derive(Debug)]
pub struct Instructions {
    event: File,
}

impl Instructions {
    /// Counts a process's instructions from now on, on whatever CPU it runs.
    ///
    /// # Errors
    /// What the kernel says: `NotFound` (or `Unsupported`) where there is no such counter,
    /// `PermissionDenied` where perf_event_paranoid forbids it.
    pub fn of(pid: u32) -> io::Result<Self> {
        let pid = c_int::try_from(pid).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        let mut attr = abi::perf_event_attr {
            size: size_of::<abi::perf_event_attr>() as u32,
            type_: abi::PERF_TYPE_HARDWARE,
            config: abi::PERF_COUNT_HW_INSTRUCTIONS.into(),
            read_format: u64::from(
                abi::PERF_FORMAT_TOTAL_TIME_ENABLED | abi::PERF_FORMAT_TOTAL_TIME_RUNNING,
            ),
            ..Default::default()
        };
        attr.set_exclude_kernel(1);
        attr.set_exclude_hv(1);
        // SAFETY: `attr` is a whole structure of the size that it names, alive for the call; the
        // result is a new descriptor or -1.
        let fd = unsafe {
            perf::perf_event_open(&mut attr, pid, -1, -1, abi::PERF_FLAG_FD_CLOEXEC.into())
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just given us this descriptor, and nobody else has it.
        let event = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self {
            event: event.into(),
        })
    }

    /// How many so far.
    ///
    /// # Errors
    /// Where the counter was shared with others and so did not count all the time.
    pub fn so_far(&mut self) -> io::Result<u64> {
        let mut words = [0; 24];
        self.event.read_exact(&mut words)?;
        let word = |n: usize| {
            let bytes = words[8 * n..].first_chunk().copied();
            u64::from_ne_bytes(bytes.unwrap_or_default())
        };
        let (count, enabled, running) = (word(0), word(1), word(2));
        if running < enabled {
            return Err(io::Error::other(
                "the processor's counter was shared with another program and did not count all the time",
            ));
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_counted_or_it_is_told_that_there_is_no_counter() {
        let thread = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        match Instructions::of(thread) {
            Ok(mut counter) => {
                let before = counter.so_far().unwrap();
                let mut x = 1u64;
                for _ in 0..1_000_000 {
                    x = std::hint::black_box(x.wrapping_mul(3).wrapping_add(1));
                }
                assert!(counter.so_far().unwrap() - before >= 2_000_000);
            }
            Err(error) => assert!(
                matches!(
                    error.kind(),
                    io::ErrorKind::NotFound
                        | io::ErrorKind::Unsupported
                        | io::ErrorKind::PermissionDenied
                ),
                "{error:?}"
            ),
        }
        assert!(Instructions::of(u32::MAX).is_err());
    }
}

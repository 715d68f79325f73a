//! Instructions of one process by the processor's own counter.
//!
//! Most virtual machines have none; then opening fails with `NotFound`.

use std::io;

use crate::perf::{Counted, Counter, Event};

/// A counter of the instructions that a process executes in user mode.
#[derive(Debug)]
pub struct Instructions {
    counter: Counter,
}

impl Instructions {
    /// Counts a process's instructions from now on, on whatever CPU it runs.
    ///
    /// # Errors
    /// What the kernel says: `NotFound` (or `Unsupported`) where there is no such counter,
    /// `PermissionDenied` where perf_event_paranoid forbids it.
    pub fn of(pid: u32) -> io::Result<Self> {
        let counter = Counter::open(Event::INSTRUCTIONS, pid, Counted::default(), None)?;
        Ok(Self { counter })
    }

    /// How many so far.
    ///
    /// # Errors
    /// Where the counter was shared with others and so did not count all the time.
    pub fn so_far(&mut self) -> io::Result<u64> {
        let count = self.counter.so_far()?;
        if count.running_ns < count.enabled_ns {
            return Err(io::Error::other(
                "the processor's counter was shared with another program and did not count all the time",
            ));
        }
        Ok(count.value)
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

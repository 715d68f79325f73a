//! CPU time of another process, exact as of now.

use std::io;

/// The CPU clock of a process: what all of its threads have used. The time of one that runs counts up to the
/// moment of asking, which /proc/PID/schedstat leaves out until the scheduler next looks at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessClock(libc::clockid_t);

impl ProcessClock {
    /// The clock of a process; any process may read it.
    ///
    /// # Errors
    /// Where there is no such process, or the kernel has no clocks of other processes.
    pub fn of(pid: u32) -> io::Result<Self> {
        let pid = libc::pid_t::try_from(pid).map_err(io::Error::other)?;
        let mut clock = 0;
        // SAFETY: the pointer is to a clock id of ours, which outlives the call.
        match unsafe { libc::clock_getcpuclockid(pid, &raw mut clock) } {
            0 => Ok(Self(clock)),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }

    /// CPU time in nanoseconds.
    ///
    /// # Errors
    /// Where the process has ended.
    pub fn now_ns(self) -> io::Result<u64> {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: the pointer is to a timespec of ours, which outlives the call.
        match unsafe { libc::clock_gettime(self.0, &raw mut time) } {
            0 => Ok(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_works_uses_time_and_one_that_sleeps_does_not() {
        let own = ProcessClock::of(std::process::id()).unwrap();
        let before = own.now_ns().unwrap();
        let mut n = 0_u64;
        while own.now_ns().unwrap() < before + 1_000_000 {
            n += 1;
        }
        assert!(n > 0);
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let clock = ProcessClock::of(child.id()).unwrap();
        // Once it sleeps its clock stands still.
        let asleep = (0..1000).any(|_| {
            let before = clock.now_ns().unwrap();
            std::thread::sleep(std::time::Duration::from_millis(10));
            before > 0 && clock.now_ns().unwrap() == before
        });
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(asleep);
        assert!(clock.now_ns().is_err());
        assert!(ProcessClock::of(u32::MAX).is_err());
    }
}

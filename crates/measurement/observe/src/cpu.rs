//! CPU time, in nanoseconds.

use rustix::time::{ClockId, clock_gettime};

/// CPU time of the calling thread.
pub fn thread_ns() -> u64 {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64
}

/// CPU time of a process of one thread, by /proc/PID/schedstat; none where it can't be seen.
pub fn process_ns(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
    text.split_ascii_whitespace().next()?.parse().ok()
}

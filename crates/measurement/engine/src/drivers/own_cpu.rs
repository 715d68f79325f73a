//! CPU time of this process, for loads whose threads only wait for the server.

use rustix::time::{ClockId, clock_gettime};

/// A reading of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct OwnCpu {
    /// Exact, from the scheduler.
    total_ns: u64,
    /// By the kernel's accounting, in clock ticks; only their ratio is used.
    ticks: (u64, u64),
}

impl OwnCpu {
    pub(super) fn now() -> Self {
        let used = clock_gettime(ClockId::ProcessCPUTime);
        // Fields 14 and 15 of /proc/self/stat (proc(5)), counted after the command's name, which may
        // hold anything.
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let mut fields = after_name.split_ascii_whitespace().skip(11);
        let mut tick = || fields.next().and_then(|f| f.parse().ok()).unwrap_or(0);
        Self {
            total_ns: used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64,
            ticks: (tick(), tick()),
        }
    }

    /// User and system time since then, in nanoseconds: the exact sum, divided as the ticks of the
    /// whole process are, which are too coarse for one trial.
    pub(super) fn since(self) -> (u64, u64) {
        Self::split(self, Self::now())
    }

    fn split(earlier: Self, now: Self) -> (u64, u64) {
        let total = now.total_ns.saturating_sub(earlier.total_ns);
        let (user, system) = now.ticks;
        if user + system == 0 {
            return (0, total);
        }
        let user_ns = (total as f64 * user as f64 / (user + system) as f64) as u64;
        (user_ns, total - user_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_system_time_are_told_apart_and_add_up() {
        let reading = |total_ns, ticks| OwnCpu { total_ns, ticks };
        let before = reading(1_000, (10, 0));
        assert_eq!(
            OwnCpu::split(before, reading(5_000, (30, 10))),
            (3_000, 1_000)
        );
        assert_eq!(OwnCpu::split(before, reading(5_000, (0, 0))), (0, 4_000));
        let (user, system) = OwnCpu::now().since();
        assert!(user + system < 60_000_000_000);
    }
}

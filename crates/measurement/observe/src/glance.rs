//! A glance at the CPUs within a window, for who looks on: cheap enough for once a second.

use std::time::Instant;

use pgassay_model::live::Disturbed;
use pgassay_model::reading::{Reading, Sample};
use pgassay_readings::samples;
use rustix::time::{ClockId, clock_gettime};

use super::{cpu_accounts, cpu_times, processes};

/// Processes of a server beyond which they are not read one by one: that would cost a share of a CPU
/// that can be seen (8 microseconds each on Linux 6.18).
const MOST: usize = 200;

/// What the CPUs had done at some moment.
#[derive(Debug)]
pub struct Glance {
    host: Reading,
    /// A line for each of the server's processes.
    server: Reading,
    /// CPU time of this process, in seconds.
    own: f64,
    at: Instant,
}

impl Glance {
    /// Now, with a server by its first process, where that can be seen.
    pub fn at(postmaster: &Result<u32, String>) -> Self {
        let (host, server) = match postmaster {
            Ok(first) if processes(*first).len() <= MOST => cpu_accounts(*first),
            Ok(_) => (
                cpu_times(),
                Reading::Unavailable(format!("the server has more than {MOST} processes")),
            ),
            Err(why) => (cpu_times(), Reading::Unavailable(why.clone())),
        };
        let used = clock_gettime(ClockId::ProcessCPUTime);
        Self {
            host,
            server,
            own: used.tv_sec as f64 + used.tv_nsec as f64 / 1e9,
            at: Instant::now(),
        }
    }

    /// What disturbed the time since another glance. What others took is not known where a process of the
    /// server has ended since: what that used is in no account.
    pub fn since(&self, before: &Self) -> Disturbed {
        let elapsed = self.at.duration_since(before.at);
        let sample = |before: &Reading, after: &Reading| Sample {
            before: before.clone(),
            after: after.clone(),
            elapsed_ns: elapsed.as_nanos() as u64,
        };
        let Some(host) = samples::host_cpu(&sample(&before.host, &self.host)) else {
            return Disturbed::default();
        };
        let server = sample(&before.server, &self.server);
        let ours = samples::server_cpu_ns(&server)
            .filter(|_| !has_ended(&before.server, &self.server))
            .map(|server| server as f64 / 1e9 + self.own - before.own)
            .map(|seconds| seconds / elapsed.as_secs_f64().max(1e-9));
        host.disturbance(ours)
    }
}

/// Whether a process of the first account is not in the second.
fn has_ended(before: &Reading, after: &Reading) -> bool {
    let of = |reading: &'_ Reading| -> Vec<String> {
        let lines = reading.text().unwrap_or_default().lines();
        let first = lines.filter_map(|line| line.split_ascii_whitespace().next());
        first.map(str::to_owned).collect()
    };
    let after = of(after);
    of(before).iter().any(|pid| !after.contains(pid))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn glance(at: Instant, busy: u64, idle: u64, server: &str, own: f64) -> Glance {
        Glance {
            host: Reading::Text(format!("cpu  {busy} 0 0 {idle} 0 0 0 10")),
            server: match server {
                "" => Reading::Unavailable("over TCP".to_owned()),
                text => Reading::Text(text.to_owned()),
            },
            own,
            at,
        }
    }

    #[test]
    fn others_are_what_neither_server_nor_load_used() {
        let begun = Instant::now();
        let later = begun + std::time::Duration::from_secs(1);
        let before = glance(begun, 100, 100, "7 1000000000 0 1\n8 0 0 1\n", 0.5);
        // 1.5 s busy, 0.5 s idle; the server used 0.8 s in a process that is new too, the load 0.3 s.
        let after = glance(
            later,
            250,
            150,
            "7 1500000000 0 2\n8 0 0 1\n9 300000000 0 1\n",
            0.8,
        );
        let told = after.since(&before);
        assert!((told.others.unwrap() - 0.2).abs() < 1e-9, "{told:?}");
        assert_eq!(told.steal, Some(0.0));
        // One has ended, or none can be seen.
        let ended = glance(later, 250, 150, "7 1500000000 0 2\n", 0.8);
        assert_eq!(ended.since(&before).others, None);
        let hidden = glance(later, 250, 150, "", 0.8);
        assert_eq!(hidden.since(&before).others, None);
        assert_eq!(hidden.since(&before).steal, Some(0.0));
    }

    #[test]
    fn this_machine_is_seen() {
        let own = Glance::at(&Ok(std::process::id()));
        assert!(own.host.text().is_some_and(|text| text.starts_with("cpu ")));
        assert!(own.server.text().is_some());
        assert!(
            Glance::at(&Err("over TCP".to_owned()))
                .server
                .text()
                .is_none()
        );
    }
}

//! What the raw readings around a trial say, as differences over its window.
//!
//! A reading that is missing or not understood gives `None`, never a zero.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use pgassay_model::live::Disturbed;
use pgassay_model::reading::{Reading, Sample};
use pgassay_model::trial::Trial;
use serde_json::Value;

/// Ticks a second in /proc/stat: fixed at 100 for user space on every architecture of Linux.
pub const TICKS_PER_SECOND: f64 = 100.0;

/// The least share of its trial's window that a sample covers. One that covers less says more of another time.
const LEAST_COVERED: f64 = 0.5;

/// Returns the samples of a trial. One that covers less than half of the window, as where its sampler was stopped,
/// is unavailable with that reason.
pub fn of_trial(trial: &Trial) -> Cow<'_, BTreeMap<String, Sample>> {
    let least = (LEAST_COVERED * trial.window_ns as f64) as u64;
    let is_short = |sample: &Sample| sample.elapsed_ns < least;
    if !trial.samples.values().any(is_short) {
        return Cow::Borrowed(&trial.samples);
    }
    let mut samples = trial.samples.clone();
    for sample in samples.values_mut().filter(|sample| is_short(sample)) {
        let seconds = |ns: u64| ns as f64 / 1e9;
        sample.after = Reading::Unavailable(format!(
            "the readings cover {:.2} s of a window of {:.2} s",
            seconds(sample.elapsed_ns),
            seconds(trial.window_ns)
        ));
    }
    Cow::Owned(samples)
}

/// CPU time of all the server's processes, nanoseconds.
///
/// A process that started in the window counts from its start; of one that
/// ended in it the last part is not seen.
pub fn server_cpu_ns(sample: &Sample) -> Option<u64> {
    let before = run_times(sample.before.text()?)?;
    let after = run_times(sample.after.text()?)?;
    let grown = after
        .iter()
        .map(|(pid, run)| run.saturating_sub(before.get(pid).copied().unwrap_or(0)))
        .sum();
    // No process in common: the server was restarted in between.
    after
        .keys()
        .any(|pid| before.contains_key(pid))
        .then_some(grown)
}

/// Whether a process of the window's beginning had gone by its end, from
/// [`pgassay_model::samplers::SERVER_SCHEDSTAT`].
pub fn has_ended(times: &Sample) -> bool {
    let of = |reading: &Reading| fields(reading.text().unwrap_or_default());
    let (before, after) = (of(&times.before), of(&times.after));
    before.keys().any(|pid| !after.contains_key(pid))
}

/// CPU time of processes that ended within a window, nanoseconds, from [`pgassay_model::samplers::SERVER_ENDED`] and
/// [`pgassay_model::samplers::SERVER_SCHEDSTAT`]: what the first process' children had used when they ended, less what those
/// that were there before had used by then. To 10 ms.
pub fn ended_cpu_ns(ended: &Sample, times: &Sample) -> Option<u64> {
    let ticks = |reading: &Reading| reading.text()?.trim().parse::<u64>().ok();
    let grown = ticks(&ended.after)?.checked_sub(ticks(&ended.before)?)?;
    let before = run_times(times.before.text()?)?;
    let after = run_times(times.after.text()?)?;
    let gone = before.iter().filter(|(pid, _)| !after.contains_key(pid));
    let known: u64 = gone.map(|(_, run)| run).sum();
    Some((grown * (1_000_000_000 / TICKS_PER_SECOND as u64)).saturating_sub(known))
}

/// Memory of the page tables of all the server's processes at the window's end,
/// in bytes. Of a server of many processes some are read, and stand for all: `times` are those of all of them
/// ([`pgassay_model::samplers::SERVER_SCHEDSTAT`]).
pub fn page_table_bytes(sample: &Sample, times: Option<&Sample>) -> Option<u64> {
    let sizes = sample.after.text()?.lines().map(|line| {
        let kilobytes = line.split_ascii_whitespace().nth(1)?;
        kilobytes.parse::<u64>().ok()
    });
    let read = sizes.clone().count();
    let all = times.and_then(|times| Some(times.after.text()?.lines().count()));
    let sum: Option<u64> = sizes.sum();
    sum.filter(|kilobytes| *kilobytes > 0)
        .map(|kb| kb * 1024 * all.unwrap_or(read).max(read) as u64 / read as u64)
}

fn run_times(text: &str) -> Option<HashMap<u32, u64>> {
    let times: HashMap<u32, u64> = text
        .lines()
        .filter_map(|line| {
            let mut fields = line.split_ascii_whitespace();
            Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
        })
        .collect();
    (!times.is_empty()).then_some(times)
}

/// Time that the server's processes were ready to run and waited for a CPU, nanoseconds: the
/// second figure of schedstat.
pub fn run_queue_ns(sample: &Sample) -> Option<u64> {
    let before = fields(sample.before.text()?);
    let after = fields(sample.after.text()?);
    grown(&before, &after, 1)
}

/// Context switches of the server's processes: by will, by force. Of a server of many processes some are read, and
/// stand for all by how often each of these was on a CPU (the third figure of `times`,
/// [`pgassay_model::samplers::SERVER_SCHEDSTAT`]).
pub fn switches(sample: &Sample, times: Option<&Sample>) -> Option<(f64, f64)> {
    let before = fields(sample.before.text()?);
    let after = fields(sample.after.text()?);
    let turns = times.and_then(|times| {
        let (before, after) = (fields(times.before.text()?), fields(times.after.text()?));
        Some((grown(&before, &after, 2)?, before, after))
    });
    let factor = turns.map_or(1.0, |(all, before, mut turns)| {
        turns.retain(|pid, _| after.contains_key(pid));
        match grown(&before, &turns, 2) {
            Some(read @ 1..) => all as f64 / read as f64,
            _ => 1.0,
        }
    });
    let of = |field| Some(grown(&before, &after, field)? as f64 * factor);
    Some((of(0)?, of(1)?))
}

/// `PID number number …` by PID.
pub fn fields(text: &str) -> HashMap<u32, Vec<u64>> {
    text.lines()
        .filter_map(|line| {
            let mut fields = line.split_ascii_whitespace();
            let pid = fields.next()?.parse().ok()?;
            Some((pid, fields.filter_map(|f| f.parse().ok()).collect()))
        })
        .collect()
}

/// Growth of a field over all processes; none where no process is in both.
fn grown(
    before: &HashMap<u32, Vec<u64>>,
    after: &HashMap<u32, Vec<u64>>,
    field: usize,
) -> Option<u64> {
    after.keys().any(|pid| before.contains_key(pid)).then(|| {
        after
            .iter()
            .filter_map(|(pid, now)| {
                let then = before.get(pid).and_then(|f| f.get(field)).copied();
                Some(now.get(field)?.saturating_sub(then.unwrap_or(0)))
            })
            .sum()
    })
}

/// Time in which some task was stalled, microseconds, of a file of /proc/pressure.
pub fn stalled_us(sample: &Sample) -> Option<f64> {
    let total = |reading: &Reading| -> Option<u64> {
        let line = reading.text()?.lines().find(|l| l.starts_with("some "))?;
        let total = line
            .split_ascii_whitespace()
            .find_map(|f| f.strip_prefix("total="))?;
        total.parse().ok()
    };
    let grown = total(&sample.after)?.checked_sub(total(&sample.before)?)?;
    Some(grown as f64)
}

/// Time for which a control group or one above it was held back by its quota, microseconds, summed
/// over CPUs, of a reading of [`pgassay_model::samplers::CGROUP_CPU`]: that of the group that was held back most.
pub fn throttled_us(text: &str) -> Option<u64> {
    let of_line = |line: &str| -> Option<u64> {
        match line.split_once(' ')? {
            ("throttled_usec", us) => us.trim().parse().ok(),
            // Version 1 counts nanoseconds.
            ("throttled_time", ns) => Some(ns.trim().parse::<u64>().ok()? / 1000),
            _ => None,
        }
    };
    text.lines().filter_map(of_line).max()
}

/// A control group's memory limit that was reached.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MemoryLimit {
    /// What the group may use, page cache included, in bytes.
    pub bytes: u64,
    /// Pages of files that were read again after they had been thrown out.
    pub refaults: u64,
}

/// The limit that was reached between two readings of [`pgassay_model::samplers::CGROUP_MEMORY`], of several levels
/// the one with the least bytes; none where none was reached.
pub fn memory_limit(sample: &Sample) -> Option<MemoryLimit> {
    let (before, after) = (sample.before.text()?, sample.after.text()?);
    let before: Vec<Level> = groups(before).collect();
    let reached = groups(after).filter_map(|now| {
        let then = before.iter().find(|then| then.path == now.path)?;
        (now.reached? > then.reached?).then_some(MemoryLimit {
            bytes: now.limit?,
            refaults: now.refaults?.checked_sub(then.refaults?)?,
        })
    });
    reached.min_by_key(|limit| limit.bytes)
}

/// One control group's part of a reading.
struct Level<'a> {
    path: &'a str,
    limit: Option<u64>,
    reached: Option<u64>,
    refaults: Option<u64>,
}

fn groups(text: &str) -> impl Iterator<Item = Level<'_>> {
    let parts = text.split("= ").skip(1);
    parts.map(|part| {
        let figure = |names: &[&str]| {
            let of = |name: &&str| {
                let mut lines = part.lines();
                lines.find_map(|line| {
                    line.strip_prefix(name)?
                        .strip_prefix(' ')?
                        .trim()
                        .parse()
                        .ok()
                })
            };
            names.iter().find_map(of)
        };
        Level {
            path: part.lines().next().unwrap_or_default(),
            // `max` is none.
            limit: figure(&["limit"]),
            reached: figure(&["reached"]),
            // Version 1 has a group's own beside its children's; kernels before 5.9 told no files from others.
            refaults: figure(&[
                "total_workingset_refault_file",
                "total_workingset_refault",
                "workingset_refault_file",
                "workingset_refault",
            ]),
        }
    })
}

/// Growth of a counter of /proc/vmstat.
pub fn vmstat(sample: &Sample, name: &str) -> Option<u64> {
    let value = |reading: &Reading| -> Option<u64> {
        let mut lines = reading.text()?.lines();
        lines.find_map(|line| {
            line.strip_prefix(name)?
                .strip_prefix(' ')?
                .trim()
                .parse()
                .ok()
        })
    };
    value(&sample.after)?.checked_sub(value(&sample.before)?)
}

/// What the machine's CPUs did over a window, in CPU-seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HostCpu {
    /// Working: user, nice, system and interrupts.
    pub busy: f64,
    /// Given to other guests by the hypervisor.
    pub steal: f64,
    /// All, idle and steal included.
    pub total: f64,
    /// Time between the two readings.
    seconds: f64,
}

impl HostCpu {
    /// CPUs that were busy, on average.
    pub fn busy_cpus(self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.busy / self.seconds)
    }

    /// What disturbed a load, `ours` being the CPUs that server and load kept busy meanwhile.
    pub fn disturbance(self, ours: Option<f64>) -> Disturbed {
        if self.total <= 0.0 {
            return Disturbed::default();
        }
        Disturbed {
            others: ours
                .map(|ours| ((self.busy - ours * self.seconds) / self.total).clamp(0.0, 1.0)),
            steal: Some(self.steal / self.total),
        }
    }
}

/// The machine's CPU time over the window.
pub fn host_cpu(sample: &Sample) -> Option<HostCpu> {
    let before = cpu_line(sample.before.text()?)?;
    let after = cpu_line(sample.after.text()?)?;
    let grown = |i: usize| after[i].saturating_sub(before[i]) as f64 / TICKS_PER_SECOND;
    // user nice system idle iowait irq softirq steal; guest time is part of user
    let busy = grown(0) + grown(1) + grown(2) + grown(5) + grown(6);
    let steal = grown(7);
    Some(HostCpu {
        busy,
        steal,
        total: busy + steal + grown(3) + grown(4),
        seconds: sample.elapsed_ns as f64 / 1e9,
    })
}

fn cpu_line(text: &str) -> Option<[u64; 8]> {
    let line = text.lines().find(|line| line.starts_with("cpu "))?;
    let mut fields = line.split_ascii_whitespace().skip(1).map(str::parse::<u64>);
    let mut values = [0; 8];
    for value in &mut values {
        *value = fields.next()?.ok()?;
    }
    Some(values)
}

/// Growth of a counter of `pg_stat_database` over the window, without what our own observers did.
pub fn database_counter(sample: &Sample, name: &str) -> Option<u64> {
    database_growth(&sample.before, &sample.after, name)
}

/// The same between two readings. Before version 15 a server counts transactions up to a second late, so that a few of
/// ours may be subtracted in a window next to theirs.
pub fn database_growth(before: &Reading, after: &Reading, name: &str) -> Option<u64> {
    let grown = counter(after, name)?.checked_sub(counter(before, name)?)?;
    let own = |row| own_counter(row, name).unwrap_or(0);
    Some(grown.saturating_sub(own(after).saturating_sub(own(before))))
}

/// What our observers had added to a counter of the row of `pg_stat_database`.
fn own_counter(row: &Reading, name: &str) -> Option<u64> {
    let row: Value = serde_json::from_str(row.text()?).ok()?;
    row.get("pgassay")?.get(name)?.as_u64()
}

/// Growth of a counter of a recorded row over the window, of the first of these names that the
/// row has: versions differ in them.
pub fn grown_counter(sample: &Sample, names: &[&str]) -> Option<u64> {
    let both = |name: &&str| {
        let before = counter(&sample.before, name)?;
        Some((before, counter(&sample.after, name)?))
    };
    let (before, after) = names.iter().find_map(both)?;
    after.checked_sub(before)
}

/// One counter of a recorded row of a view of statistics.
pub fn counter(row: &Reading, name: &str) -> Option<u64> {
    let row: Value = serde_json::from_str(row.text()?).ok()?;
    let value = row.get(name)?;
    // Times are double precision, `1e+06` of milliseconds among them.
    let rounded = |v: f64| (v.is_finite() && v >= 0.0).then_some(v.round() as u64);
    value
        .as_u64()
        .or_else(|| rounded(value.as_f64()?))
        .or_else(|| value.as_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(before: &str, after: &str) -> Sample {
        Sample {
            before: Reading::Text(before.into()),
            after: Reading::Text(after.into()),
            elapsed_ns: 1_000_000_000,
        }
    }

    #[test]
    fn processes_that_come_and_go() {
        let cpu = server_cpu_ns(&sample(
            "10 100 5 1\n11 50 5 1\n",
            "10 300 6 2\n12 40 0 1\n",
        ));
        assert_eq!(cpu, Some(240));
        assert_eq!(server_cpu_ns(&sample("10 100 5 1\n", "20 300 6 2\n")), None);
        assert_eq!(server_cpu_ns(&sample("", "")), None);
        assert_eq!(server_cpu_ns(&sample("garbage\n", "more garbage")), None);
    }

    #[test]
    fn what_ended_in_between_is_counted_from_the_windows_beginning() {
        let times = sample("10 100 5 1\n11 30000000 5 1\n", "10 300 6 2\n");
        assert_eq!(ended_cpu_ns(&sample("7", "30"), &times), Some(200_000_000));
        // The ticks are coarser than the account of what ended.
        assert_eq!(ended_cpu_ns(&sample("7", "8"), &times), Some(0));
        assert_eq!(ended_cpu_ns(&sample("7", "x"), &times), None);
    }

    #[test]
    fn what_a_quota_held_back_in_both_versions() {
        let version_1 = "= /a/\nnr_periods 149\nnr_throttled 129\nthrottled_time 10061650571\n= /\nthrottled_time 0\n";
        assert_eq!(throttled_us(version_1), Some(10_061_650));
        let version_2 = "= /a/\nusage_usec 5\nthrottled_usec 12\n= /\nusage_usec 9\n";
        assert_eq!(throttled_us(version_2), Some(12));
        assert_eq!(throttled_us("= /\nusage_usec 9\n"), None);
        assert_eq!(throttled_us("throttled_usec many\n"), None);
    }

    #[test]
    fn a_memory_limit_counts_once_it_is_reached() {
        let version_1 = |reached: u64, refaults: u64| {
            format!(
                "= /a/\nlimit 50331648\nreached {reached}\nworkingset_refault_file 1\n\
                 total_workingset_refault_file {refaults}\n= /\nlimit 9223372036854771712\nreached 0\n\
                 total_workingset_refault_file 900000\n"
            )
        };
        let of = |before: &str, after: &str| memory_limit(&sample(before, after));
        let limit = MemoryLimit {
            bytes: 50_331_648,
            refaults: 800,
        };
        assert_eq!(of(&version_1(7, 200), &version_1(90, 1000)), Some(limit));
        assert_eq!(of(&version_1(7, 200), &version_1(7, 1000)), None);
        let version_2 = "= /a/\nlimit max\nreached 0\nworkingset_refault_file 5\n";
        assert_eq!(
            of(version_2, &version_2.replace("reached 0", "reached 4")),
            None
        );
        assert_eq!(of("", ""), None);
    }

    #[test]
    fn queues_switches_pressure_and_faults() {
        let s = sample("10 100 5 1\n11 50 7 1\n", "10 300 9 2\n12 40 3 1\n");
        assert_eq!(run_queue_ns(&s), Some(7));
        assert_eq!(run_queue_ns(&sample("1 1 1 1", "2 2 2 2")), None);
        let s = sample("10 4 1\n", "10 9 2\n11 1 1\n");
        assert_eq!(switches(&s, None), Some((6.0, 2.0)));
        let psi = |n: u32| {
            format!("some avg10=0.00 avg60=0.00 avg300=0.00 total={n}\nfull avg10=0.00 total=1\n")
        };
        assert_eq!(stalled_us(&sample(&psi(5), &psi(12))), Some(7.0));
        assert_eq!(stalled_us(&sample("", "")), None);
        assert_eq!(
            vmstat(&sample("pgfault 5\npgfaultx 7", "pgfault 9"), "pgfault"),
            Some(4)
        );
        assert_eq!(vmstat(&sample("", "pgfault 9"), "pgfault"), None);
    }

    #[test]
    fn page_tables_are_summed() {
        let bytes = |text| page_table_bytes(&sample("", text), None);
        assert_eq!(bytes("10 100\n11 50\n"), Some(150 * 1024));
        assert_eq!(bytes(""), None);
        assert_eq!(bytes("10 x\n"), None);
    }

    /// One of four processes stands for all of them.
    #[test]
    fn some_processes_stand_for_all() {
        let times = sample(
            "4 1 1 10\n5 1 1 0\n6 1 1 0\n8 1 1 0\n",
            "4 9 9 30\n5 1 1 60\n6 1 1 0\n8 1 1 20\n",
        );
        let tables = sample("4 100\n8 120\n", "4 100\n8 140\n");
        assert_eq!(page_table_bytes(&tables, Some(&times)), Some(480 * 1024));
        let read = sample("4 5 1\n8 0 0\n", "4 21 5\n8 14 6\n");
        assert_eq!(switches(&read, None), Some((30.0, 10.0)));
        // 40 of 100 turns were theirs.
        assert_eq!(switches(&read, Some(&times)), Some((75.0, 25.0)));
    }

    #[test]
    fn steal_is_told_from_work() {
        let cpu = host_cpu(&sample(
            "cpu  100 0 50 1000 0 0 0 10 0 0\n",
            "cpu  200 10 90 1040 5 2 3 30 0 0\n",
        ));
        let cpu = cpu.unwrap();
        assert!((cpu.busy - 1.55).abs() < 1e-9);
        assert!((cpu.steal - 0.2).abs() < 1e-9);
        assert!((cpu.total - 2.2).abs() < 1e-9);
        assert_eq!(host_cpu(&sample("cpu 1 2 3\n", "cpu 1 2 3\n")), None);
    }

    #[test]
    fn counters_that_went_back_are_not_negative() {
        let row = |n: u64| format!("{{\"blks_hit\": {n}, \"xact_commit\": \"{n}\"}}");
        assert_eq!(
            database_counter(&sample(&row(5), &row(9)), "blks_hit"),
            Some(4)
        );
        assert_eq!(
            database_counter(&sample(&row(5), &row(9)), "xact_commit"),
            Some(4)
        );
        let ours = |n: u64, own: u64| {
            format!("{{\"xact_commit\": {n}, \"pgassay\": {{\"xact_commit\": {own}}}}}")
        };
        assert_eq!(
            database_counter(&sample(&ours(5, 2), &ours(9, 5)), "xact_commit"),
            Some(1)
        );
        // Ours that the server has not counted yet.
        assert_eq!(
            database_counter(&sample(&ours(5, 2), &ours(9, 12)), "xact_commit"),
            Some(0)
        );
        assert_eq!(
            database_counter(&sample(&row(9), &row(5)), "blks_hit"),
            None
        );
        assert_eq!(
            database_counter(&sample(&row(9), "not json"), "blks_hit"),
            None
        );
        let times = sample(r#"{"write_time": 5.4}"#, r#"{"write_time": 1e+06}"#);
        let names = ["checkpoint_write_time", "write_time"];
        assert_eq!(grown_counter(&times, &names), Some(999_995));
        assert_eq!(grown_counter(&times, &["sync_time"]), None);
    }

    #[test]
    fn what_can_not_be_told_apart_is_not_told() {
        let host = HostCpu {
            busy: 1.5,
            steal: 0.2,
            total: 2.0,
            seconds: 1.0,
        };
        let told = host.disturbance(Some(1.1));
        assert!((told.others.unwrap() - 0.2).abs() < 1e-9);
        assert_eq!(told.steal, Some(0.1));
        assert_eq!(host.disturbance(None).others, None);
        assert_eq!(host.disturbance(Some(9.0)).others, Some(0.0));
        let nothing = HostCpu {
            busy: 0.0,
            steal: 0.0,
            total: 0.0,
            seconds: 0.0,
        };
        assert_eq!(nothing.disturbance(Some(0.0)), Disturbed::default());
    }
}

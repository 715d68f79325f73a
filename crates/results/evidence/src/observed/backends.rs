//! What each process of the server got of the CPUs: time, waiting for it, switches.
//!
//! From the raw readings at the borders of the windows. Processes are told by their
//! role and a number within it, the busiest first: process ids and names of users
//! mean nothing on another day. However many sessions there are, a role is one row
//! and the busiest processes are a few.

use std::collections::{BTreeMap, HashMap};

use pgassay_model::reading::Sample;
use pgassay_model::samplers;
use pgassay_readings::samples;
use serde::{Deserialize, Serialize};

use pgassay_stats::median_of_sorted;

/// How many of the busiest processes are told one by one.
pub const TOP: usize = 6;

/// A process whose role the server does not tell: the logger, the archiver of old versions.
const OTHER: &str = "other process";
/// The first process, which stands in no view.
const POSTMASTER: &str = "postmaster";

/// The processes of one server at one client count.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Backends {
    /// By role, the most CPU time first.
    pub roles: Vec<Role>,
    /// The busiest processes, at most [`TOP`].
    pub busiest: Vec<Process>,
}

/// All processes of one role.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Role {
    /// `client backend`, `pgassay load`, `checkpointer` …
    pub role: String,
    /// How many processes of it there were at a time, on average.
    pub processes: u64,
    /// CPUs that all of them kept busy on average.
    pub cpus: f64,
    /// CPUs that one of them kept busy: least, median, most.
    pub cpus_each: (f64, f64, f64),
    /// Share of its time that one of them was ready and waited for a CPU: least, median,
    /// most; none where the kernel does not tell.
    pub waiting_each: Option<(f64, f64, f64)>,
    /// Times a second that the median process gave its CPU up by itself.
    pub voluntary_switches_per_second: Option<f64>,
    /// Times a second that it was taken from it.
    pub involuntary_switches_per_second: Option<f64>,
}

/// One process.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Process {
    /// Its role.
    pub role: String,
    /// Its number within the role, from 1, the busiest first.
    pub number: u64,
    /// CPUs that it kept busy on average, at most 1.
    pub cpus: f64,
    /// Share of its time that it was ready and waited for a CPU.
    pub waiting: Option<f64>,
    /// Times a second that it gave the CPU up by itself.
    pub voluntary_switches_per_second: Option<f64>,
    /// Times a second that the CPU was taken from it.
    pub involuntary_switches_per_second: Option<f64>,
}

/// What one process did over the windows in which it was there from border to border.
#[derive(Debug, Clone, Default)]
struct Sum {
    role: Option<String>,
    run_ns: u64,
    wait_ns: u64,
    seconds: f64,
    voluntary: u64,
    involuntary: u64,
    /// Seconds over which switches were counted; they are read by another sampler.
    switch_seconds: f64,
}

impl Sum {
    fn cpus(&self) -> f64 {
        self.run_ns as f64 / 1e9 / self.seconds
    }

    fn waiting(&self) -> f64 {
        self.wait_ns as f64 / 1e9 / self.seconds
    }

    fn switches(&self) -> Option<(f64, f64)> {
        let a_second = |count: u64| count as f64 / self.switch_seconds;
        (self.switch_seconds > 0.0).then(|| (a_second(self.voluntary), a_second(self.involuntary)))
    }
}

/// Adds up the windows of a point; none where no process' time could be seen.
pub fn analyse<'r>(
    windows: impl Iterator<Item = &'r BTreeMap<String, Sample>>,
) -> Option<Backends> {
    let mut sums: HashMap<u32, Sum> = HashMap::new();
    let mut roles_seen = false;
    let mut seconds = 0.0;
    for window in windows {
        let Some(times) = window.get(samplers::SERVER_SCHEDSTAT) else {
            continue;
        };
        // Without this observer the processes are not told apart.
        let Some(roles) = window.get(samplers::SERVER_ROLES) else {
            continue;
        };
        roles_seen = true;
        seconds += times.elapsed_ns as f64 / 1e9;
        let grown = grown(times);
        let postmaster = times.after.text().and_then(first_pid);
        let roles = roles_of(roles);
        for (pid, fields) in grown {
            let [run, wait, ..] = fields.as_slice() else {
                continue;
            };
            let sum = sums.entry(pid).or_default();
            sum.run_ns += run;
            sum.wait_ns += wait;
            sum.seconds += times.elapsed_ns as f64 / 1e9;
            sum.role = roles
                .get(&pid)
                .cloned()
                .or_else(|| (postmaster == Some(pid)).then(|| POSTMASTER.to_owned()))
                .or(sum.role.take());
        }
        let Some(switches) = window.get(samplers::SERVER_SWITCHES) else {
            continue;
        };
        for (pid, fields) in self::grown(switches) {
            if let ([by_will, by_force], Some(sum)) = (fields.as_slice(), sums.get_mut(&pid)) {
                sum.voluntary += by_will;
                sum.involuntary += by_force;
                sum.switch_seconds += switches.elapsed_ns as f64 / 1e9;
            }
        }
    }
    let sums: Vec<Sum> = sums.into_values().filter(|s| s.seconds > 0.0).collect();
    (roles_seen && !sums.is_empty()).then(|| summarise(sums, seconds))
}

/// `seconds` is how long all windows were together: a session that was opened for one of
/// them kept its CPU busy for that one only.
fn summarise(mut sums: Vec<Sum>, seconds: f64) -> Backends {
    sums.sort_by(|a, b| b.cpus().total_cmp(&a.cpus()));
    let mut numbers: HashMap<&str, u64> = HashMap::new();
    let mut by_role: BTreeMap<&str, Vec<&Sum>> = BTreeMap::new();
    let mut busiest = Vec::new();
    for sum in &sums {
        let role = sum.role.as_deref().unwrap_or(OTHER);
        by_role.entry(role).or_default().push(sum);
        let number = numbers.entry(role).or_default();
        *number += 1;
        if busiest.len() < TOP && sum.run_ns > 0 {
            busiest.push(Process {
                role: role.to_owned(),
                number: *number,
                cpus: sum.cpus(),
                waiting: Some(sum.waiting()),
                voluntary_switches_per_second: sum.switches().map(|s| s.0),
                involuntary_switches_per_second: sum.switches().map(|s| s.1),
            });
        }
    }
    let mut roles: Vec<Role> = by_role
        .into_iter()
        .map(|(role, of)| {
            let spread = |value: &dyn Fn(&Sum) -> f64| {
                let mut values: Vec<f64> = of.iter().map(|s| value(s)).collect();
                values.sort_by(f64::total_cmp);
                least_median_most(&values)
            };
            let switches: Vec<(f64, f64)> = of.iter().filter_map(|s| s.switches()).collect();
            let median = |pick: &dyn Fn(&(f64, f64)) -> f64| {
                let mut values: Vec<f64> = switches.iter().map(pick).collect();
                values.sort_by(f64::total_cmp);
                least_median_most(&values).map(|(_, median, _)| median)
            };
            Role {
                role: role.to_owned(),
                processes: at_a_time(&of, seconds),
                cpus: of.iter().map(|s| s.run_ns as f64 / 1e9).sum::<f64>() / seconds,
                cpus_each: spread(&Sum::cpus).unwrap_or_default(),
                waiting_each: spread(&Sum::waiting),
                voluntary_switches_per_second: median(&|s| s.0),
                involuntary_switches_per_second: median(&|s| s.1),
            }
        })
        .collect();
    roles.sort_by(|a, b| b.cpus.total_cmp(&a.cpus));
    Backends { roles, busiest }
}

/// How many processes there were on average while there was any, in whole ones.
fn at_a_time(of: &[&Sum], seconds: f64) -> u64 {
    let all: f64 = of.iter().map(|s| s.seconds).sum();
    ((all / seconds).round() as u64).max(1)
}

fn least_median_most(sorted: &[f64]) -> Option<(f64, f64, f64)> {
    Some((*sorted.first()?, median_of_sorted(sorted)?, *sorted.last()?))
}

/// Growth of each field, of the processes that were there at both borders.
fn grown(sample: &Sample) -> HashMap<u32, Vec<u64>> {
    let (Some(before), Some(after)) = (sample.before.text(), sample.after.text()) else {
        return HashMap::new();
    };
    let before = samples::fields(before);
    samples::fields(after)
        .into_iter()
        .filter_map(|(pid, now)| {
            let then = before.get(&pid)?;
            let grown = now
                .iter()
                .zip(then)
                .map(|(now, then)| now.checked_sub(*then));
            Some((pid, grown.collect::<Option<Vec<u64>>>()?))
        })
        .collect()
}

fn first_pid(text: &str) -> Option<u32> {
    text.split_ascii_whitespace().next()?.parse().ok()
}

/// Roles by process, as the server told them last.
pub(super) fn roles_of(sample: &Sample) -> HashMap<u32, String> {
    let mut roles = HashMap::new();
    for text in [sample.before.text(), sample.after.text()]
        .into_iter()
        .flatten()
    {
        for line in text.lines() {
            let Some((role, pids)) = line.split_once('\t') else {
                continue;
            };
            for pid in pids.split_ascii_whitespace().filter_map(|p| p.parse().ok()) {
                roles.insert(pid, role.to_owned());
            }
        }
    }
    roles
}

#[cfg(test)]
mod tests {
    use pgassay_model::reading::Reading;

    use super::*;

    fn sample(before: &str, after: &str) -> Sample {
        Sample {
            before: Reading::Text(before.into()),
            after: Reading::Text(after.into()),
            elapsed_ns: 2_000_000_000,
        }
    }

    fn window(times: Sample, switches: Sample, roles: &str) -> BTreeMap<String, Sample> {
        BTreeMap::from([
            (samplers::SERVER_SCHEDSTAT.to_owned(), times),
            (samplers::SERVER_SWITCHES.to_owned(), switches),
            (samplers::SERVER_ROLES.to_owned(), sample("", roles)),
        ])
    }

    #[test]
    fn processes_are_added_up_by_role() {
        let one = window(
            sample(
                "1 0 0 1\n10 0 0 1\n11 0 0 1\n12 5 0 1\n20 0 0 0\n",
                "1 0 0 1\n10 1000000000 500000000 9\n11 200000000 0 1\n12 5 0 1\n20 9 9 9\n30 5 5 5\n",
            ),
            sample("10 4 1\n11 0 0\n", "10 14 5\n11 2 0\n"),
            "pgassay load\t10 11 12\ncheckpointer\t20\n",
        );
        let seen = analyse([&one].into_iter()).unwrap();
        let load = &seen.roles[0];
        assert_eq!((load.role.as_str(), load.processes), ("pgassay load", 3));
        assert!((load.cpus - 0.6).abs() < 1e-9);
        assert_eq!(load.cpus_each, (0.0, 0.1, 0.5));
        assert_eq!(load.waiting_each, Some((0.0, 0.0, 0.25)));
        assert_eq!(load.voluntary_switches_per_second, Some(3.0));
        let busiest = &seen.busiest[0];
        assert_eq!((busiest.role.as_str(), busiest.number), ("pgassay load", 1));
        assert_eq!(busiest.voluntary_switches_per_second, Some(5.0));
        assert_eq!(busiest.involuntary_switches_per_second, Some(2.0));
        // 30 came within the window, and the postmaster stands in no view.
        let roles: Vec<&str> = seen.roles.iter().map(|r| r.role.as_str()).collect();
        assert_eq!(roles, ["pgassay load", "checkpointer", POSTMASTER]);
        // The same again: twice the time, the same share.
        let twice = analyse([&one, &one].into_iter()).unwrap();
        assert_eq!(twice, seen);
    }

    #[test]
    fn sessions_that_are_opened_anew_for_each_window_do_not_add_up() {
        let window_of = |pid: u32| {
            let text = |ns: u64| format!("1 0 0 1\n{pid} {ns} 0 1\n");
            window(
                sample(&text(0), &text(1_000_000_000)),
                sample("", ""),
                &format!("pgassay load\t{pid}\n"),
            )
        };
        let windows = [window_of(10), window_of(11), window_of(12)];
        let seen = analyse(windows.iter()).unwrap();
        let load = &seen.roles[0];
        assert_eq!((load.processes, load.cpus), (1, 0.5));
        assert_eq!(load.cpus_each, (0.5, 0.5, 0.5));
    }

    #[test]
    fn two_thousand_sessions_are_few_rows() {
        let lines = |n: u64| -> String {
            (0..2000)
                .map(|pid| format!("{} {} 0 1\n", pid + 1, pid * n))
                .collect()
        };
        let pids: Vec<String> = (2..=2000).map(|pid: u32| pid.to_string()).collect();
        let one = window(
            sample(&lines(0), &lines(1000)),
            sample("", ""),
            &format!("client backend\t{}\n", pids.join(" ")),
        );
        let seen = analyse([&one].into_iter()).unwrap();
        assert_eq!((seen.roles.len(), seen.busiest.len()), (2, TOP));
        assert_eq!(seen.roles[0].processes, 1999);
        assert_eq!(seen.roles[0].voluntary_switches_per_second, None);
    }

    #[test]
    fn what_is_hidden_or_damaged_is_nothing() {
        assert_eq!(analyse([].into_iter()), None);
        assert_eq!(analyse([&BTreeMap::new()].into_iter()), None);
        let hidden = Sample {
            before: Reading::Unavailable("over TCP".into()),
            ..sample("", "")
        };
        let one = window(hidden, sample("x", "y z"), "\t\n\t1 x\nclient backend");
        assert_eq!(analyse([&one].into_iter()), None);
        // A process id used again: its counters went back.
        let one = window(sample("5 9 9 9\n", "5 1 1 1\n"), sample("", ""), "");
        assert_eq!(analyse([&one].into_iter()), None);
    }
}

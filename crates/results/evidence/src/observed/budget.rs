//! The time budget: where every second of every session went, over the windows of a point.
//!
//! The kernel accounts for each process in nanoseconds: how long it ran, and how long it was
//! ready and waited for a CPU (/proc/PID/schedstat). What is left of the wall clock it was off
//! the CPU. These three are exact and add up to the sessions. Samples only divide them further:
//! wait events divide the time off the CPU, CPU samples the time on it.
//!
//! Samples of wait events can't tell a session that waits from one that has been woken and waits
//! for a CPU: its old event, or `idle`, stands in the view until it runs again. Where they claim
//! more time off the CPU than there was, what they claim is scaled down to it, and each wait has
//! bounds: all of the excess could be its own, or none; and beyond that what samples of so many looks
//! can miss by in either direction. What was taken off belongs to the wait all the same: without it nobody
//! would be woken from it, nor be on a CPU within it. [`Wait::woken`] keeps it, and gains count it.
//!
//! Of processes that came and went within the windows (parallel workers, short sessions) the kernel
//! leaves their CPU time alone. Where that is most of it, samples tell how many sessions there were,
//! and those at no wait event that were not on a CPU count as ready; [`Budget::by_samples`] says so.
//!
//! All times are in sessions: seconds of session time for each second of the windows.

use std::collections::BTreeMap;

use pgassay_model::reading::{Reading, Sample};
use pgassay_model::samplers::{self, OBSERVER};
use pgassay_readings::samples;
use serde::{Deserialize, Serialize};

use super::backends;
use super::waits::WaitAnalysis;

/// Kinds of processes that work for clients, as the sampler of roles names them.
const SESSIONS: &[&str] = &[CLIENT, "parallel worker", LOAD, "pgassay idle"];
/// Sessions of a load of ours over the wire; sessions of other programs beside them are not its own.
const LOAD: &str = "pgassay load";
/// Sessions of any program.
const CLIENT: &str = "client backend";
/// Sessions of ours without a name of their own: loads inside the server.
const OURS: &str = "pgassay";

/// Where the time of a server's sessions went, on average over the windows of a point.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Budget {
    /// Sessions that there were. The next three add up to it.
    pub sessions: f64,
    /// Of them on a CPU: exact.
    pub on_cpu: f64,
    /// Ready, and waiting for a CPU: exact.
    pub ready: f64,
    /// Neither: exact.
    pub off_cpu: f64,
    /// What they did off the CPU, by samples of wait events; none where none were taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off: Option<OffCpu>,
    /// CPUs that the server's other processes kept busy: exact.
    pub others_on_cpu: f64,
    /// CPUs that processes kept busy which ended within the windows: parallel workers, short
    /// sessions. Of these only CPU time is known; none where it was not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_on_cpu: Option<f64>,
    /// Whether most sessions came and went within the windows: then only the time on a CPU is exact,
    /// theirs included, and samples tell the rest.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_samples: bool,
}

/// Time off the CPU by what it was spent on; the parts add up to [`Budget::off_cpu`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OffCpu {
    /// Waits within a statement, the longest first; those for the client are not among them.
    pub waits: Vec<Wait>,
    /// Waiting for the client within a transaction: between its statements, or for its data.
    pub client: f64,
    /// Between transactions: nothing to do.
    pub idle: f64,
    /// In a statement, off the CPU, and at no wait event: a page fault, a file that the server
    /// reads without saying so, a sleep.
    pub unnamed: f64,
    /// Sessions whose state the server does not show to us.
    pub hidden: f64,
    /// What samples claimed beyond the time off the CPU: sessions that were woken already and
    /// waited for a CPU.
    pub excess: f64,
}

/// Time at one wait event.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Wait {
    /// `wait_event_type`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `wait_event`.
    pub event: String,
    /// Sessions there.
    pub sessions: f64,
    /// At least, if all of the excess is its own, less the 95 % error of sampling.
    pub least: f64,
    /// At most, if none is, with the 95 % error of sampling.
    pub most: f64,
    /// Sessions that samples saw at it beyond [`Wait::sessions`]: woken and waiting for a CPU, or on one in
    /// the system call that the event stands for.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub woken: f64,
}

fn is_nothing(sessions: &f64) -> bool {
    *sessions == 0.0
}

impl Wait {
    /// `LWLock:WALWrite`, as PostgreSQL's documentation writes it.
    pub fn name(&self) -> String {
        format!("{}:{}", self.kind, self.event)
    }
}

impl Budget {
    /// Sessions between start and end of their transactions: what shares are shares of.
    pub fn in_transactions(&self) -> f64 {
        let idle = self.off.as_ref().map_or(0.0, |off| off.idle + off.hidden);
        (self.sessions - idle).max(0.0)
    }

    /// A part of the budget as its share, 0 to 1; 0 where there was no transaction.
    pub fn share(&self, sessions: f64) -> f64 {
        let all = self.in_transactions();
        if all > 0.0 {
            (sessions / all).clamp(0.0, 1.0)
        } else {
            0.0
        }
    }

    /// The share in which sessions ran or were ready to.
    pub fn running(&self) -> f64 {
        self.share(self.on_cpu + self.ready)
    }

    /// Sessions at the events that `pick` picks by type and name; none without samples.
    pub fn at(&self, pick: impl Fn(&str, &str) -> bool) -> Option<f64> {
        let waits = self.off.as_ref()?.waits.iter();
        Some(
            waits
                .filter(|w| pick(&w.kind, &w.event))
                .map(|w| w.sessions)
                .sum(),
        )
    }

    /// The share that would be gone with the waits that `pick` picks: theirs, and that of the sessions that
    /// were woken from them.
    pub fn share_with_woken(&self, pick: impl Fn(&str, &str) -> bool) -> Option<f64> {
        let waits = self.off.as_ref()?.waits.iter();
        let picked = waits.filter(|w| pick(&w.kind, &w.event));
        Some(self.share(picked.map(|w| w.sessions + w.woken).sum()))
    }
}

/// What the kernel accounted for in the windows of a point, summed up.
#[derive(Debug, Default)]
struct Sums {
    seconds: f64,
    session_seconds: f64,
    /// Sessions that were there from border to border, summed over the windows.
    stayed: u64,
    run_ns: u64,
    ready_ns: u64,
    others_run_ns: u64,
    ended_ns: Option<u64>,
}

/// The budget of a point, from the readings at the borders of its windows and its wait samples. With
/// `apart` sessions of other programs beside a load of ours count with the server's other processes.
///
/// # Errors
/// Why there is none: what is lacking, and what would supply it.
pub fn analyse<'r>(
    windows: impl Iterator<Item = &'r BTreeMap<String, Sample>>,
    waits: Option<&WaitAnalysis>,
    apart: bool,
) -> Result<Budget, String> {
    let mut sums = Sums::default();
    let mut lacking = None;
    for window in windows {
        if let Err(why) = sums.add(window, apart) {
            lacking = Some(why);
        }
    }
    if sums.seconds <= 0.0 {
        return Err(lacking.unwrap_or_else(|| "nothing was read".to_owned()));
    }
    let ended = sums.ended_ns.unwrap_or(0);
    if (sums.stayed == 0 || ended > sums.run_ns)
        && let Some(budget) = waits.and_then(|waits| sums.with_samples(waits))
    {
        return Ok(budget);
    }
    if sums.stayed == 0 {
        return Err(
            "no session was there from beginning to end of a window: each was opened anew, and no \
             samples of wait events tell how many there were (--observe waits)"
                .to_owned(),
        );
    }
    if ended > sums.run_ns {
        return Err(
            "most of the CPU time was used by processes that came and went within the windows \
             (parallel workers, short sessions), and no samples of wait events tell what else those \
             did (--observe waits)"
                .to_owned(),
        );
    }
    let each_second = |seconds: f64| seconds / sums.seconds;
    let seconds = |ns: u64| ns as f64 / 1e9;
    let sessions = each_second(sums.session_seconds);
    let on_cpu = each_second(seconds(sums.run_ns));
    let ready = each_second(seconds(sums.ready_ns));
    let off_cpu = (sessions - on_cpu - ready).max(0.0);
    Ok(Budget {
        sessions,
        on_cpu,
        ready,
        off_cpu,
        off: waits.and_then(|waits| divide(waits, sessions, off_cpu)),
        others_on_cpu: each_second(seconds(sums.others_run_ns)),
        ended_on_cpu: sums.ended_ns.map(|ns| each_second(seconds(ns))),
        by_samples: false,
    })
}

impl Sums {
    /// The budget where most sessions came and went: CPU time by the kernel, the rest by samples; none
    /// where these show no session.
    fn with_samples(&self, waits: &WaitAnalysis) -> Option<Budget> {
        let each_second = |ns: u64| ns as f64 / 1e9 / self.seconds;
        let ended = each_second(self.ended_ns.unwrap_or(0));
        let on_cpu = each_second(self.run_ns) + ended;
        let seen = waits.active_sessions + waits.idle_sessions + waits.hidden_sessions;
        if seen <= 0.0 {
            return None;
        }
        let ready = each_second(self.ready_ns).max(waits.running_sessions - on_cpu);
        let sessions = seen.max(on_cpu + ready);
        let off_cpu = (sessions - on_cpu - ready).max(0.0);
        Some(Budget {
            sessions,
            on_cpu,
            ready,
            off_cpu,
            off: divide(waits, sessions, off_cpu),
            others_on_cpu: each_second(self.others_run_ns),
            ended_on_cpu: self.ended_ns.map(each_second),
            by_samples: true,
        })
    }

    fn add(&mut self, window: &BTreeMap<String, Sample>, apart: bool) -> Result<(), String> {
        let times = window
            .get(samplers::SERVER_SCHEDSTAT)
            .ok_or("the CPU time of the server's processes was not read")?;
        for reading in [&times.before, &times.after] {
            if let Reading::Unavailable(why) = reading {
                return Err(why.clone());
            }
        }
        let roles = window.get(samplers::SERVER_ROLES).ok_or(
            "the server's processes were not told apart, which the observer sched does \
             (--observe sched)",
        )?;
        if let Reading::Unavailable(why) = &roles.after {
            return Err(why.clone());
        }
        let roles = backends::roles_of(roles);
        let told = roles.values().any(|role| role == OBSERVER);
        let apart = apart && roles.values().any(|role| role == LOAD);
        let is_session = |pid: &u32| {
            roles.get(pid).is_some_and(|role| match role.as_str() {
                CLIENT => !apart,
                OURS => told,
                role => SESSIONS.contains(&role),
            })
        };
        let read = |reading: &Reading| samples::fields(reading.text().unwrap_or_default());
        let (before, after) = (read(&times.before), read(&times.after));
        if after.values().all(|fields| fields.iter().all(|n| *n == 0)) {
            return Err(
                "the kernel keeps no account of the time that processes run and wait \
                 (/proc/PID/schedstat is all 0; CONFIG_SCHED_INFO)"
                    .to_owned(),
            );
        }
        let elapsed = times.elapsed_ns as f64 / 1e9;
        self.seconds += elapsed;
        for (pid, now) in &after {
            let [run, ready, ..] = now.as_slice() else {
                continue;
            };
            let then = before.get(pid).map(Vec::as_slice);
            let grown = |at: usize, now: u64| {
                let then = then.and_then(|then| then.get(at)).copied();
                now.saturating_sub(then.unwrap_or(0))
            };
            let (run, ready) = (grown(0, *run), grown(1, *ready));
            if !is_session(pid) {
                self.others_run_ns += run;
                continue;
            }
            self.run_ns += run;
            self.ready_ns += ready;
            // One that came within the window was there at least while it ran and was ready to.
            self.session_seconds += match then {
                Some(_) => {
                    self.stayed += 1;
                    elapsed
                }
                None => (run + ready) as f64 / 1e9,
            };
        }
        let ended = window.get(samplers::SERVER_ENDED);
        if let Some(ended) = ended.and_then(|ended| samples::ended_cpu_ns(ended, times)) {
            *self.ended_ns.get_or_insert(0) += ended;
        }
        Ok(())
    }
}

/// By how much a share of all sessions, 0 to 1, may be off after so many looks: half the width of
/// Wilson's interval at 95 % (E. B. Wilson, JASA 22, 1927). It takes all sessions to do the same at
/// each look, as those do that wait for one lock; where they don't the error is smaller.
fn sampling_error(share: f64, looks: u64) -> f64 {
    const Z: f64 = 1.96;
    if looks == 0 {
        return 1.0;
    }
    let (p, n) = (share.clamp(0.0, 1.0), looks as f64);
    Z / (1.0 + Z * Z / n) * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt()
}

/// Divides the time off the CPU by what samples show of it.
fn divide(waits: &WaitAnalysis, sessions: f64, off_cpu: f64) -> Option<OffCpu> {
    let idle_in_transaction = waits.idle_in_transaction_sessions;
    let idle = (waits.idle_sessions - idle_in_transaction).max(0.0);
    let seen = waits.active_sessions + waits.idle_sessions + waits.hidden_sessions;
    if seen <= 0.0 {
        return None;
    }
    // Sessions that came and went are in one and not in the other.
    let whole = sessions / seen;
    let claimed = whole * (seen - waits.running_sessions);
    let scale = if claimed > off_cpu {
        off_cpu / claimed
    } else {
        1.0
    };
    let excess = (claimed - off_cpu).max(0.0);
    let part = |sampled: f64| whole * sampled * scale;
    let of_client = |kind: &str| kind == "Client";
    let mut parts: Vec<Wait> = waits
        .events
        .iter()
        .filter(|e| !of_client(&e.kind))
        .map(|e| {
            let error = sessions * sampling_error(e.sessions / seen, waits.samples);
            Wait {
                kind: e.kind.clone(),
                event: e.event.clone(),
                sessions: part(e.sessions),
                least: (whole * e.sessions - excess - error).max(0.0),
                most: (whole * e.sessions + error).min(off_cpu),
                woken: (whole * e.sessions - part(e.sessions)).max(0.0),
            }
        })
        .collect();
    parts.sort_by(|a, b| b.sessions.total_cmp(&a.sessions));
    Some(OffCpu {
        waits: parts,
        client: part(idle_in_transaction + waits.at(|e| of_client(&e.kind))),
        idle: part(idle),
        unnamed: (off_cpu - claimed).max(0.0),
        hidden: part(waits.hidden_sessions),
        excess,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account<'r>(
        windows: impl Iterator<Item = &'r BTreeMap<String, Sample>>,
        waits: Option<&WaitAnalysis>,
    ) -> Result<Budget, String> {
        analyse(windows, waits, true)
    }
    use crate::observed::waits::WaitEvent;

    fn sample(before: &str, after: &str, seconds: u64) -> Sample {
        Sample {
            before: Reading::Text(before.into()),
            after: Reading::Text(after.into()),
            elapsed_ns: seconds * 1_000_000_000,
        }
    }

    const ROLES: &str = "pgassay load\t10 11\npgassay observer\t12\ncheckpointer\t13\n";

    fn window(before: &str, after: &str) -> BTreeMap<String, Sample> {
        BTreeMap::from([
            (
                samplers::SERVER_SCHEDSTAT.to_owned(),
                sample(before, after, 2),
            ),
            (samplers::SERVER_ROLES.to_owned(), sample("", ROLES, 2)),
        ])
    }

    fn two_sessions() -> BTreeMap<String, Sample> {
        window(
            "1 0 0 1\n10 5 5 1\n11 0 0 1\n12 0 0 1\n13 0 0 1\n",
            "1 0 0 1\n10 1000000005 500000005 9\n11 600000000 1400000000 1\n\
             12 700000000 0 1\n13 200000000 0 1\n",
        )
    }

    fn seen(idle: f64, running: f64, events: &[(&str, &str, f64)]) -> WaitAnalysis {
        let waiting: f64 = events.iter().map(|e| e.2).sum();
        WaitAnalysis {
            samples: 50,
            active_sessions: running + waiting,
            running_sessions: running,
            idle_sessions: idle,
            events: events
                .iter()
                .map(|(kind, event, sessions)| WaitEvent {
                    backend: String::new(),
                    kind: (*kind).into(),
                    event: (*event).into(),
                    sessions: *sessions,
                })
                .collect(),
            ..WaitAnalysis::default()
        }
    }

    #[test]
    fn the_three_parts_add_up_to_the_sessions() {
        let one = two_sessions();
        let budget = account([&one, &one].into_iter(), None).unwrap();
        assert_eq!(budget.sessions, 2.0);
        assert!((budget.on_cpu - 0.8).abs() < 1e-9);
        assert!((budget.ready - 0.95).abs() < 1e-9);
        assert!((budget.off_cpu - 0.25).abs() < 1e-9);
        // Our own session is none of the load's, nor is the checkpointer.
        assert!((budget.others_on_cpu - 0.45).abs() < 1e-9);
        assert_eq!(budget.off, None);
        assert_eq!(budget.ended_on_cpu, None);
    }

    #[test]
    fn samples_divide_the_time_off_the_cpu_and_nothing_else() {
        // Samples have three quarters of the time at a lock, of which a session that was woken
        // and waits for a CPU is a part: there was a quarter session off the CPU, not 1.5.
        let one = two_sessions();
        let waits = seen(0.4, 0.1, &[("LWLock", "WALWrite", 1.5)]);
        let budget = account([&one].into_iter(), Some(&waits)).unwrap();
        let off = budget.off.as_ref().unwrap();
        let sum = off.idle + off.client + off.unnamed + off.hidden + off.waits[0].sessions;
        assert!((sum - budget.off_cpu).abs() < 1e-9, "{off:?}");
        assert!((off.waits[0].sessions - 0.25 * 1.5 / 1.9).abs() < 1e-9);
        assert_eq!(off.waits[0].least, 0.0);
        assert_eq!(off.waits[0].most, 0.25);
        assert!((off.excess - 1.65).abs() < 1e-9);
        assert!(budget.running() > 0.87, "{}", budget.running());
        // Without the wait none of that would be: neither the sleep nor the queue for a CPU after it.
        let woken = off.waits[0].woken;
        assert!((off.waits[0].sessions + woken - 1.5).abs() < 1e-9);
        let gone = budget.share_with_woken(|_, event| event == "WALWrite");
        assert!((gone.unwrap() - 1.5 / budget.in_transactions()).abs() < 1e-9);
        assert_eq!(budget.share_with_woken(|_, _| false), Some(0.0));
    }

    #[test]
    fn off_the_cpu_at_no_event_is_a_part_of_its_own() {
        let idle = window(
            "10 0 0 1\n11 0 0 1\n",
            "10 100000000 0 2\n11 100000000 0 2\n",
        );
        let waits = seen(
            0.5,
            0.6,
            &[("IO", "DataFileRead", 0.7), ("Client", "ClientRead", 0.2)],
        );
        let budget = account([&idle].into_iter(), Some(&waits)).unwrap();
        let off = budget.off.as_ref().unwrap();
        assert!((off.unnamed - 0.5).abs() < 1e-9, "{off:?}");
        assert!((off.client - 0.2).abs() < 1e-9);
        assert_eq!(off.waits.len(), 1);
        // All that samples claim fits into the time off the CPU.
        assert_eq!(off.waits[0].woken, 0.0);
        // 50 looks at 2 sessions tell a share of 0.35 to within 0.128.
        let error = 2.0 * sampling_error(0.35, 50);
        assert!((error - 0.2557).abs() < 1e-4, "{error}");
        assert!((off.waits[0].least - (0.7 - error)).abs() < 1e-9);
        assert!((off.waits[0].most - (0.7 + error)).abs() < 1e-9);
        assert!((budget.in_transactions() - 1.5).abs() < 1e-9);
        assert!((budget.share(0.75) - 0.5).abs() < 1e-9);
        assert_eq!(budget.at(|kind, _| kind == "IO"), Some(0.7));
    }

    #[test]
    fn processes_that_come_and_go_count_with_what_is_known_of_them() {
        let mut one = window(
            "10 0 0 1\n20 30000000 0 1\n",
            "10 1000000000 0 2\n11 300000000 100000000 1\n",
        );
        one.insert(samplers::SERVER_ENDED.to_owned(), sample("7\n", "30\n", 2));
        let budget = account([&one].into_iter(), None).unwrap();
        assert!((budget.sessions - 1.2).abs() < 1e-9);
        assert!((budget.on_cpu - 0.65).abs() < 1e-9);
        // 230 ms of those that ended, 30 of them before the window.
        assert_eq!(budget.ended_on_cpu, Some(0.1));
    }

    #[test]
    fn sessions_of_other_programs_are_none_of_a_load_of_ours() {
        let roles =
            |load: &str| format!("{load}\t10 11\npgassay observer\t12\nclient backend\t13\n");
        let of = |load: &str| {
            let mut one = two_sessions();
            let roles = sample("", &roles(load), 2);
            one.insert(samplers::SERVER_ROLES.to_owned(), roles);
            account([&one].into_iter(), None).unwrap()
        };
        let beside = of(LOAD);
        assert_eq!(beside.sessions, 2.0);
        // Process 13 had 200 ms of CPU in 2 s, the observer 700 ms.
        assert!((beside.others_on_cpu - 0.45).abs() < 1e-9, "{beside:?}");
        // A server's own load is all of them.
        let mut all = two_sessions();
        all.insert(
            samplers::SERVER_ROLES.to_owned(),
            sample("", &roles(LOAD), 2),
        );
        assert_eq!(
            analyse([&all].into_iter(), None, false).unwrap().sessions,
            3.0
        );
        // Without a load of ours they are what the server works for.
        assert_eq!(of(CLIENT).sessions, 3.0);
    }

    #[test]
    fn sessions_that_come_and_go_are_told_by_samples() {
        // Two leaders wait for their workers, which have 2.5 s of CPU time in 2 s, and have ended.
        let mut one = window(
            "10 0 0 1\n11 0 0 1\n",
            "10 100000000 0 2\n11 100000000 0 2\n",
        );
        one.insert(samplers::SERVER_ENDED.to_owned(), sample("0", "250", 2));
        let waits = seen(0.1, 3.0, &[("IPC", "ExecuteGather", 1.9)]);
        let budget = account([&one].into_iter(), Some(&waits)).unwrap();
        assert!(budget.by_samples);
        assert!((budget.on_cpu - 1.35).abs() < 1e-9, "{budget:?}");
        assert!((budget.ready - 1.65).abs() < 1e-9, "{budget:?}");
        assert!((budget.sessions - 5.0).abs() < 1e-9, "{budget:?}");
        let off = budget.off.as_ref().unwrap();
        assert!((off.waits[0].sessions - 1.9).abs() < 1e-9, "{off:?}");
        assert!((budget.share(1.9) - 1.9 / 4.9).abs() < 1e-9);
        // Sessions opened for each transaction, none of which stays.
        let mut opened = window("1 5 5 5\n", "1 5 5 5\n");
        opened.insert(samplers::SERVER_ENDED.to_owned(), sample("0", "100", 2));
        let budget = account([&opened].into_iter(), Some(&seen(0.0, 0.9, &[]))).unwrap();
        assert!((budget.on_cpu - 0.5).abs() < 1e-9, "{budget:?}");
        assert!((budget.ready - 0.4).abs() < 1e-9, "{budget:?}");
        // Samples that miss what the kernel counted do not take it back.
        let budget = account([&opened].into_iter(), Some(&seen(0.0, 0.2, &[]))).unwrap();
        assert!((budget.sessions - 0.5).abs() < 1e-9, "{budget:?}");
        assert_eq!((budget.ready, budget.off_cpu), (0.0, 0.0));
    }

    #[test]
    fn what_is_lacking_is_said() {
        let whole = two_sessions();
        let without = |id: &str, reading: Option<&str>| {
            let mut window = whole.clone();
            match reading {
                None => drop(window.remove(id)),
                Some(why) => {
                    window.get_mut(id).unwrap().after = Reading::Unavailable(why.to_owned());
                }
            }
            account([&window].into_iter(), None).unwrap_err()
        };
        let why = without(
            samplers::SERVER_SCHEDSTAT,
            Some("the server is reached over TCP"),
        );
        assert_eq!(why, "the server is reached over TCP");
        assert!(without(samplers::SERVER_ROLES, None).contains("--observe sched"));
        assert_eq!(
            without(samplers::SERVER_ROLES, Some("no session")),
            "no session"
        );
        let none = window("10 0 0 0\n", "10 0 0 0\n");
        let why = account([&none].into_iter(), None).unwrap_err();
        assert!(why.contains("CONFIG_SCHED_INFO"), "{why}");
        let strangers = window("20 1 1 1\n", "20 9 9 9\n");
        assert!(account([&strangers].into_iter(), None).is_err());
        assert!(account([].into_iter(), None).is_err());
        let came = window("1 5 5 5\n", "1 5 5 5\n10 9 9 9\n");
        let why = account([&came].into_iter(), None).unwrap_err();
        assert!(why.contains("from beginning to end"), "{why}");
        let mut workers = whole.clone();
        workers.insert(samplers::SERVER_ENDED.to_owned(), sample("0", "500", 2));
        let why = account([&workers].into_iter(), None).unwrap_err();
        assert!(why.contains("came and went"), "{why}");
        // One window that can be read is enough.
        let mut tcp = whole.clone();
        tcp.remove(samplers::SERVER_ROLES);
        assert!(account([&tcp, &whole].into_iter(), None).is_ok());
    }
}

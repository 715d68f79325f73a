//! Log and checkpoints within a run's own windows: how many began, what asked for them, how
//! much log was written, and what a checkpoint under way took from throughput.
//!
//! The server's counters since its start say what others did to it; these are what the load
//! itself met. Counters are read at the borders of each window and only their growth is used.

use std::collections::BTreeMap;

use pgassay_model::observed::waits::WaitRecord;
use pgassay_model::reading::Sample;
use pgassay_model::samplers;
use pgassay_model::server::ServerFacts;
use pgassay_model::trial::Trial;
use pgassay_readings::growth::Growth as Grown;
use pgassay_readings::samples;
use serde::{Deserialize, Serialize};

use crate::server;
use pgassay_stats::{Direction, Estimate, Rule, Verdict, compare_runs, median_of_sorted};

/// A window counts as one with a checkpoint under way where at least this share of the looks at
/// the checkpointer found it at work; where at most [`AT_REST`] did, as one without.
const AT_WORK: f64 = 0.5;
/// See [`AT_WORK`].
const AT_REST: f64 = 0.1;

/// What the server's counters and its checkpointer showed over the windows of one server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Checkpoints {
    /// Windows that the counters stand for.
    pub windows: u32,
    /// Their length in all.
    pub seconds: f64,
    /// Checkpoints that began in them because it was time.
    pub timed: u64,
    /// Those that began because they were asked for: by the volume of log, or by a command.
    pub requested: u64,
    /// Seconds in which checkpoints wrote and synced, of those that ended in the windows.
    pub writing_seconds: Option<f64>,
    /// Bytes of log that were inserted in the windows.
    pub wal_bytes: Option<u64>,
    /// The same a second, over the time between the readings of their own counter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wal_bytes_per_second: Option<f64>,
    /// The same for each transaction of the load.
    pub wal_bytes_per_transaction: Option<f64>,
    /// The part of the log that is whole pages, at most, 0 to 1: written where a page is changed
    /// for the first time after a checkpoint began.
    pub full_page_share: Option<f64>,
    /// Bytes of log since the last checkpoint after which the next is asked for.
    pub forced_after_bytes: Option<u64>,
    /// The share of the looks that found the checkpointer at work, 0 to 1; none where it can't
    /// be seen.
    pub at_work_share: Option<f64>,
    /// Throughput with a checkpoint under way, as a ratio to that without; none where there are
    /// too few windows of either kind.
    pub throughput_ratio: Option<Estimate>,
}

/// What the windows of a server's trials under one load show; none where the counters could not be
/// read at both borders of any.
pub fn analyse(trials: &[&Trial], facts: Option<&ServerFacts>) -> Option<Checkpoints> {
    // Up to 14 a collector counts late: the checkpoint that we wrote before a trial may be among
    // those of its window, and is not counted as one of the load's.
    let late = facts
        .and_then(|f| f.version_num)
        .is_some_and(|v| v < 150_000);
    let counted: Vec<(&Trial, &Sample, Growth)> = trials
        .iter()
        .filter_map(|trial| {
            let sample = trial.samples.get(samplers::PG_STAT_CHECKPOINTER)?;
            let mut growth = Growth::of(sample)?;
            if late && trial.settled_ms.is_some() {
                growth.requested = growth.requested.saturating_sub(1);
            }
            Some((*trial, sample, growth))
        })
        .collect();
    if counted.is_empty() {
        return None;
    }
    let sum =
        |of: fn(&Growth) -> u64| -> u64 { counted.iter().map(|(_, _, growth)| of(growth)).sum() };
    let seconds: f64 = counted
        .iter()
        .map(|(_, sample, _)| sample.elapsed_ns as f64 / 1e9)
        .sum();
    let log = Log::of(trials, facts);
    let looks = looks(trials);
    let throughput_ratio = looks.as_ref().and_then(|looks| ratio(trials, looks));
    Some(Checkpoints {
        windows: counted.len() as u32,
        seconds,
        timed: sum(|g| g.timed),
        requested: sum(|g| g.requested),
        writing_seconds: counted
            .iter()
            .map(|(_, _, growth)| growth.writing_ms)
            .sum::<Option<u64>>()
            .map(|ms| ms as f64 / 1e3),
        wal_bytes: log
            .as_ref()
            .and_then(|l| Some(l.inserted.over(seconds)?.round() as u64)),
        wal_bytes_per_second: log.as_ref().and_then(|l| l.inserted.per_second()),
        wal_bytes_per_transaction: log.as_ref().and_then(|l| l.per_transaction),
        full_page_share: log.as_ref().and_then(|l| l.full_page_share),
        forced_after_bytes: facts.and_then(forced_after_bytes),
        at_work_share: looks.map(|looks| {
            let (work, all) = looks
                .values()
                .fold((0u64, 0u64), |sum, l| (sum.0 + l.0, sum.1 + l.1));
            work as f64 / all.max(1) as f64
        }),
        throughput_ratio,
    })
}

/// Growth of the checkpoint counters over a window. Names are those of 17 on, then the older.
struct Growth {
    timed: u64,
    requested: u64,
    writing_ms: Option<u64>,
}

impl Growth {
    fn of(sample: &Sample) -> Option<Self> {
        let grown = |names: &[&str]| samples::grown_counter(sample, names);
        let write = grown(&["write_time", "checkpoint_write_time"]);
        let sync = grown(&["sync_time", "checkpoint_sync_time"]);
        Some(Self {
            timed: grown(&["num_timed", "checkpoints_timed"])?,
            requested: grown(&["num_requested", "checkpoints_req"])?,
            writing_ms: write.zip(sync).map(|(write, sync)| write + sync),
        })
    }
}

/// The log of the windows.
struct Log {
    inserted: Grown,
    per_transaction: Option<f64>,
    full_page_share: Option<f64>,
}

impl Log {
    fn of(trials: &[&Trial], facts: Option<&ServerFacts>) -> Option<Self> {
        let block = facts.and_then(server::block_size).unwrap_or(8192);
        let (mut inserted, mut written, mut transactions) = (None, 0.0, 0);
        // Backends report these late, but all of a backend's together.
        let (mut images, mut counted) = (0, 0);
        for trial in trials {
            let Some(sample) = trial.samples.get(samplers::PG_STAT_WAL) else {
                continue;
            };
            let grown = |name: &str| samples::grown_counter(sample, &[name]);
            if let Some(bytes) = grown("lsn") {
                let bytes = Grown::of(sample, bytes as f64);
                *inserted.get_or_insert(Grown::default()) += bytes;
                written += bytes.over(trial.window_ns as f64 / 1e9).unwrap_or(0.0);
                transactions += trial.transactions;
            }
            if let Some((pages, all)) = grown("wal_fpi").zip(grown("wal_bytes")) {
                images += pages * block;
                counted += all;
            }
        }
        Some(Self {
            inserted: inserted?,
            per_transaction: (transactions > 0).then(|| written / transactions as f64),
            full_page_share: (counted > 0).then(|| (images as f64 / counted as f64).min(1.0)),
        })
    }
}

fn forced_after_bytes(facts: &ServerFacts) -> Option<u64> {
    let size = server::setting_bytes(facts, "max_wal_size")?;
    let settings = server::settings(facts);
    let target = settings
        .iter()
        .find(|s| s.name == "checkpoint_completion_target")
        .and_then(|s| s.value.parse::<f64>().ok())?;
    forced_after(size, target, facts.version_num)
}

/// Bytes of WAL after which a checkpoint is requested: room for that of two (up to 10 of three)
/// must lie within max_wal_size (PostgreSQL's source, xlog.c: CalculateCheckpointSegments).
pub fn forced_after(max_wal_size: u64, target: f64, version: Option<u32>) -> Option<u64> {
    let kept = match version {
        Some(..110_000) => 2.0,
        _ => 1.0,
    };
    (target >= 0.0).then(|| (max_wal_size as f64 / (kept + target)) as u64)
}

/// By the trial's index in the schedule: looks that found the checkpointer at work, and all.
/// None where it was never seen at rest nor at a wait, as for a role that is not shown it.
fn looks(trials: &[&Trial]) -> Option<BTreeMap<u32, (u64, u64)>> {
    let mut seen = false;
    let mut looks = BTreeMap::new();
    for trial in trials {
        let Some(record) = trial.observed.as_ref().and_then(|o| o.waits.as_ref()) else {
            continue;
        };
        let (at_rest, waiting, all) = checkpointer(record);
        seen |= at_rest + waiting > 0;
        if all > 0 {
            looks.insert(trial.slice.index, (all - at_rest, all));
        }
    }
    (seen && !looks.is_empty()).then_some(looks)
}

/// Looks at the checkpointer: at rest in its main loop, at another wait, and in all.
fn checkpointer(record: &WaitRecord) -> (u64, u64, u64) {
    let (mut at_rest, mut waiting, mut all) = (0, 0, 0);
    for (index, count) in record.seconds.iter().flat_map(|s| &s.counts) {
        let Some(key) = record.keys.get(*index as usize) else {
            continue;
        };
        if key.backend != "checkpointer" {
            continue;
        }
        let count = u64::from(*count);
        all += count;
        match key.kind.as_str() {
            "Activity" => at_rest += count,
            "" => {}
            _ => waiting += count,
        }
    }
    (at_rest, waiting, all)
}

/// Throughput of windows with a checkpoint under way against those without, each as a ratio to
/// the median of its own client count; none where one of the two kinds has too few.
fn ratio(trials: &[&Trial], looks: &BTreeMap<u32, (u64, u64)>) -> Option<Estimate> {
    let rate = |t: &Trial| t.transactions as f64 / t.window_ns as f64;
    let mut by_point: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for trial in trials {
        by_point
            .entry(trial.slice.point)
            .or_default()
            .push(rate(trial));
    }
    let medians: BTreeMap<u32, f64> = by_point
        .into_iter()
        .filter_map(|(point, mut rates)| {
            rates.sort_by(f64::total_cmp);
            Some((point, median_of_sorted(&rates)?))
        })
        .collect();
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for trial in trials {
        let Some((work, all)) = looks.get(&trial.slice.index) else {
            continue;
        };
        let share = *work as f64 / *all as f64;
        let relative = rate(trial) / medians.get(&trial.slice.point)?;
        if share >= AT_WORK {
            with.push(relative);
        } else if share <= AT_REST {
            without.push(relative);
        }
    }
    let rule = Rule::new(0.0, Direction::HigherIsBetter).ok()?;
    // Windows of one run in random order: no luck of a launch lies between them.
    let compared = compare_runs(&[without], &[with], Some(0.0), rule).ok()?;
    let shown = matches!(compared.verdict, Verdict::Faster | Verdict::Slower);
    shown.then_some(compared.ratio)
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::fixtures::{server, trial};

    fn of(trials: &[Trial], facts: &ServerFacts) -> Option<Checkpoints> {
        analyse(&trials.iter().collect::<Vec<_>>(), Some(facts))
    }

    fn seen(trials: &[Trial]) -> Option<Checkpoints> {
        of(trials, &server("32"))
    }

    #[test]
    fn counters_are_added_up_over_the_windows_alone() {
        let found = seen(&[trial(0, 1000, 2, 20), trial(1, 3000, 0, 20)]).unwrap();
        assert_eq!((found.windows, found.timed, found.requested), (2, 0, 2));
        assert!((found.seconds - 2.0).abs() < 1e-9);
        assert_eq!(found.wal_bytes, Some(80 << 20));
        let each = found.wal_bytes_per_transaction.unwrap();
        assert!((each - (80 << 20) as f64 / 4000.0).abs() < 1e-6);
        // 4,096 pages of 8 KiB in 40 MiB.
        assert!((found.full_page_share.unwrap() - 0.8).abs() < 1e-9);
        assert_eq!(
            found.forced_after_bytes,
            Some((32.0 * 1048576.0 / 1.9) as u64)
        );
        assert_eq!(found.at_work_share, Some(1.0));
        assert_eq!(found.throughput_ratio, None);
        assert_eq!(seen(&[]), None);
    }

    #[test]
    fn our_own_checkpoint_is_not_the_loads_where_counters_come_late() {
        let mut trials = [trial(0, 1000, 1, 20), trial(1, 1000, 3, 20)];
        for trial in &mut trials {
            trial.settled_ms = Some(12.0);
        }
        assert_eq!(seen(&trials).unwrap().requested, 4);
        let old = ServerFacts {
            version_num: Some(140_012),
            pooler: None,
            ..server("32")
        };
        assert_eq!(of(&trials, &old).unwrap().requested, 2);
    }

    #[test]
    fn a_counter_that_went_back_is_left_out() {
        let mut restarted = trial(0, 1000, 2, 20);
        for sample in restarted.samples.values_mut() {
            std::mem::swap(&mut sample.before, &mut sample.after);
        }
        assert_eq!(seen(&[restarted]), None);
    }

    #[test]
    fn throughput_with_and_without_a_checkpoint_is_told_apart() {
        let windows = |of: fn(u32) -> u64| -> Vec<Trial> {
            (0..16)
                .map(|i| trial(i, of(i), 0, if i % 2 == 0 { 20 } else { 0 }))
                .collect()
        };
        let slower = windows(|i| {
            if i % 2 == 0 {
                600 + u64::from(i)
            } else {
                1000 + u64::from(i)
            }
        });
        let found = seen(&slower).unwrap();
        let ratio = found.throughput_ratio.unwrap();
        assert!((0.55..0.65).contains(&ratio.estimate), "{ratio:?}");
        assert_eq!(found.at_work_share, Some(0.5));
        let alike = windows(|i| 1000 + u64::from((i * 7) % 16));
        assert_eq!(seen(&alike).unwrap().throughput_ratio, None);
    }

    #[test]
    fn a_checkpointer_that_is_hidden_is_not_at_work() {
        let mut hidden = trial(0, 1000, 1, 20);
        let waits = hidden.observed.as_mut().unwrap().waits.as_mut().unwrap();
        for key in &mut waits.keys {
            key.kind.clear();
            key.event.clear();
        }
        let seen = seen(&[hidden]).unwrap();
        assert_eq!((seen.requested, seen.at_work_share), (1, None));
    }
}

//! Latency as it was: percentiles as far as they can be told, by script and by statement, from the
//! intended and from the actual start, and over time.
//!
//! Percentiles of several trials are read from their merged histograms, so that the far ones rest
//! on all transactions; how much a percentile varies from trial to trial is told by the estimates of
//! [`crate::metrics`].

use hdrhistogram::Histogram;
use pgassay_model::point::Slice;
use pgassay_model::trial::Trial;
use pgassay_model::workload::WorkloadPlan;
use serde::{Deserialize, Serialize};

use crate::trial_view::decode;

/// Transactions that must lie beyond a percentile for it to be given.
const BEYOND: f64 = 5.0;
/// Columns of a heat map at most: more can't be told apart on a page.
const MOST_COLUMNS: usize = 240;
/// Steps of a changing rate at most.
const RAMP_STEPS: usize = 10;
/// Rows of a heat map for each tenfold latency.
pub const ROWS_PER_DECADE: f64 = 12.0;

/// What the histograms of one point hold.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LatencyDetail {
    /// Length of the windows of all trials together.
    #[serde(skip)]
    pub seconds: f64,
    /// All scripts, from the intended start, microseconds.
    pub all: Percentiles,
    /// The same from the actual start, where a rate makes the two differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_actual_start: Option<Percentiles>,
    /// The first transaction of each new connection; it is in none of the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<Percentiles>,
    /// Time to connect, where each transaction has a connection of its own; it is part of the latency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connect: Option<Percentiles>,
    /// By script, where there are several or statements were measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scripts: Vec<ScriptLatency>,
    /// The slowest one in so many: pairs of that number and of microseconds.
    pub curve: Vec<(f64, f64)>,
    /// The same from the actual start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub curve_from_actual_start: Vec<(f64, f64)>,
    /// How latencies lie over time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub over_time: Vec<Moment>,
    /// The steps of a rate that changes over the window, where it does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ramp: Vec<RampStep>,
    /// Repetitions after serialization failures and deadlocks.
    pub retries: u64,
    /// Starts left out for being later than the latency limit.
    pub skipped: u64,
    /// Transactions that took longer than the limit.
    pub late: u64,
    /// Starts that had not begun when their window ended.
    pub behind: u64,
}

/// Percentiles in microseconds; none where too few transactions lie beyond.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Percentiles {
    /// How many they are read from.
    pub count: u64,
    /// Half are faster.
    pub p50: Option<f64>,
    /// Nine of ten are.
    pub p90: Option<f64>,
    /// 99 %.
    pub p99: Option<f64>,
    /// 99.9 %.
    pub p99_9: Option<f64>,
    /// 99.99 %.
    pub p99_99: Option<f64>,
    /// The longest of all.
    pub max: Option<f64>,
}

/// One script's latencies.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ScriptLatency {
    /// Its name in the plan.
    pub name: String,
    /// Transactions that ended well.
    pub transactions: u64,
    /// Transactions that failed.
    pub failures: u64,
    /// Transactions that ended well, a second; 0 in older documents.
    #[serde(default)]
    pub throughput_tps: f64,
    /// Clients that run it and no other, where it has some; the figures of the point do not include it then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_clients: Option<u32>,
    /// From the intended start.
    pub latency: Percentiles,
    /// By command that ran, in the script's order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub statements: Vec<StatementLatency>,
}

/// One command's latencies.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StatementLatency {
    /// Which command of the script, from 0.
    pub command: u32,
    /// How often it failed.
    pub failures: u64,
    /// From its beginning to its end.
    pub latency: Percentiles,
}

/// A part of the windows in which a changing rate was about the same.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RampStep {
    /// Transactions meant to start a second, in its middle.
    pub rate_tps: f64,
    /// Transactions that ended well in it, a second.
    pub throughput_tps: f64,
    /// Of those, from the intended start.
    pub latency: Percentiles,
}

/// A stretch of time in a trial.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Moment {
    /// The trial, by its position in the schedule.
    pub trial: u32,
    /// Where it begins within the trial's window, in seconds.
    pub start: f64,
    /// How long it is, in seconds.
    pub length: f64,
    /// Median, microseconds; none without a transaction.
    pub p50: Option<f64>,
    /// 99th percentile, or the longest where fewer than a hundred ended.
    pub p99: Option<f64>,
    /// The longest.
    pub max: Option<f64>,
    /// How many transactions took about how long: the row of the heat map, which is
    /// [`ROWS_PER_DECADE`] times the decimal logarithm of the microseconds, and their number.
    pub rows: Vec<(i32, u64)>,
}

/// What the trials of one point hold.
pub fn analyse(trials: &[&Trial], workload: &WorkloadPlan) -> Option<LatencyDetail> {
    let all = merged(trials.iter().map(|t| Some(t.latency.as_str())))?;
    let actual = merged(
        trials
            .iter()
            .map(|t| t.latency_from_actual_start.as_deref()),
    );
    let sum = |of: fn(&Trial) -> u64| trials.iter().map(|t| of(t)).sum();
    Some(LatencyDetail {
        seconds: trials.iter().map(|t| t.window_ns as f64 / 1e9).sum(),
        curve: curve(&all),
        curve_from_actual_start: actual.as_ref().map(curve).unwrap_or_default(),
        from_actual_start: actual.as_ref().map(Percentiles::of),
        first: merged(trials.iter().map(|t| t.first.as_deref())).map(|h| Percentiles::of(&h)),
        connect: merged(trials.iter().map(|t| t.connects.as_deref())).map(|h| Percentiles::of(&h)),
        scripts: scripts(trials, workload),
        over_time: over_time(trials),
        ramp: ramp(trials, workload),
        all: Percentiles::of(&all),
        retries: sum(|t| t.retries),
        skipped: sum(|t| t.skipped),
        late: sum(|t| t.late),
        behind: sum(|t| t.behind),
    })
}

/// The sum of those histograms that there are; none where there is none.
fn merged<'a>(texts: impl Iterator<Item = Option<&'a str>>) -> Option<Histogram<u64>> {
    let mut sum: Option<Histogram<u64>> = None;
    for histogram in texts.flatten().filter_map(decode) {
        match &mut sum {
            None => sum = Some(histogram),
            // Histograms of another program's bounds are left out rather than cut.
            Some(sum) => drop(sum.add(&histogram)),
        }
    }
    sum.filter(|histogram| !histogram.is_empty())
}

impl Percentiles {
    fn of(histogram: &Histogram<u64>) -> Self {
        let count = histogram.len();
        let at = |percentile: f64| {
            let beyond = count as f64 * (100.0 - percentile) / 100.0;
            (beyond >= BEYOND).then(|| histogram.value_at_percentile(percentile) as f64 / 1000.0)
        };
        Self {
            count,
            p50: at(50.0),
            p90: at(90.0),
            p99: at(99.0),
            p99_9: at(99.9),
            p99_99: at(99.99),
            max: (count > 0).then(|| histogram.max() as f64 / 1000.0),
        }
    }
}

/// The value that one in n exceeds, for n from 1.1 to as many as there are, ten to a decade.
fn curve(histogram: &Histogram<u64>) -> Vec<(f64, f64)> {
    let count = histogram.len() as f64;
    (0..)
        .map(|step| 1.1 * 10_f64.powf(f64::from(step) / 10.0))
        .take_while(|n| *n <= count)
        .map(|n| {
            let value = histogram.value_at_quantile(1.0 - 1.0 / n);
            (n, value as f64 / 1000.0)
        })
        .collect()
}

fn scripts(trials: &[&Trial], workload: &WorkloadPlan) -> Vec<ScriptLatency> {
    let most = trials.iter().map(|t| t.scripts.len()).max().unwrap_or(0);
    let seconds: f64 = trials.iter().map(|t| t.window_ns as f64 / 1e9).sum();
    (0..most)
        .map(|at| {
            let records = || trials.iter().filter_map(move |t| t.scripts.get(at));
            let commands = records().map(|s| s.statements.len()).max().unwrap_or(0);
            let statements = (0..commands).filter_map(|command| {
                let of = || records().filter_map(move |s| s.statements.get(command));
                let latency = merged(of().map(|s| s.latency.as_deref()));
                let failures = of().map(|s| s.failures).sum();
                (latency.is_some() || failures > 0).then(|| StatementLatency {
                    command: command as u32,
                    failures,
                    latency: latency.as_ref().map(Percentiles::of).unwrap_or_default(),
                })
            });
            ScriptLatency {
                name: match workload.scripts.get(at) {
                    Some(script) => script.name.clone(),
                    None => format!("script {at}"),
                },
                transactions: records().map(|s| s.transactions).sum(),
                failures: records().map(|s| s.failures).sum(),
                throughput_tps: match records().map(|s| s.transactions).sum::<u64>() as f64
                    / seconds
                {
                    rate if rate.is_finite() => rate,
                    _ => 0.0,
                },
                own_clients: workload.scripts.get(at).and_then(|script| script.clients),
                latency: merged(records().map(|s| s.latency.as_deref()))
                    .as_ref()
                    .map(Percentiles::of)
                    .unwrap_or_default(),
                statements: statements.collect(),
            }
        })
        .collect()
}

/// The intervals of all trials by the rate that was to be kept in them.
fn ramp(trials: &[&Trial], workload: &WorkloadPlan) -> Vec<RampStep> {
    let dials = &workload.dials;
    let (Some(from), Some(to)) = (dials.rate_tps, dials.rate_end_tps) else {
        return Vec::new();
    };
    let shortest = trials.iter().map(|t| t.intervals.len()).min().unwrap_or(0);
    let steps = shortest.min(RAMP_STEPS);
    (0..steps)
        .map(|step| {
            let (mut seconds, mut done) = (0.0, 0);
            let mut latencies = Vec::new();
            for trial in trials {
                let place = |step: usize| step * trial.intervals.len() / steps;
                let within = place(step)..place(step + 1);
                // The last interval ends with the window.
                let length = |n: usize| {
                    let begin = n as u64 * trial.interval_ns;
                    trial.window_ns.saturating_sub(begin).min(trial.interval_ns)
                };
                seconds += within.clone().map(length).sum::<u64>() as f64 / 1e9;
                done += trial.intervals[within.clone()].iter().sum::<u64>();
                let kept = trial.interval_latency.get(within).unwrap_or_default();
                latencies.extend(kept.iter().map(|text| Some(text.as_str())));
            }
            let middle = (step as f64 + 0.5) / steps as f64;
            RampStep {
                rate_tps: from + (to - from) * middle,
                throughput_tps: if seconds > 0.0 {
                    done as f64 / seconds
                } else {
                    0.0
                },
                latency: merged(latencies.into_iter())
                    .as_ref()
                    .map(Percentiles::of)
                    .unwrap_or_default(),
            }
        })
        .collect()
}

/// The intervals of all trials in the order in which they ran, neighbours put together where there
/// are too many.
fn over_time(trials: &[&Trial]) -> Vec<Moment> {
    let mut ordered: Vec<&&Trial> = trials.iter().collect();
    ordered.sort_by_key(|t| t.slice.index);
    let intervals: usize = ordered.iter().map(|t| t.interval_latency.len()).sum();
    let together = intervals.div_ceil(MOST_COLUMNS).max(1);
    let mut moments = Vec::new();
    for trial in ordered {
        let length = trial.interval_ns as f64 / 1e9;
        for (at, chunk) in trial.interval_latency.chunks(together).enumerate() {
            let histogram = merged(chunk.iter().map(|text| Some(text.as_str())));
            moments.push(moment(
                trial.slice,
                (at * together) as f64 * length,
                chunk.len() as f64 * length,
                histogram.as_ref(),
            ));
        }
    }
    moments
}

fn moment(slice: Slice, start: f64, length: f64, histogram: Option<&Histogram<u64>>) -> Moment {
    let mut rows: Vec<(i32, u64)> = Vec::new();
    for step in histogram.into_iter().flat_map(Histogram::iter_recorded) {
        let micros = (step.value_iterated_to() as f64 / 1000.0).max(0.1);
        let row = (micros.log10() * ROWS_PER_DECADE).floor() as i32;
        let count = step.count_since_last_iteration();
        match rows.last_mut() {
            Some((last, sum)) if *last == row => *sum += count,
            _ => rows.push((row, count)),
        }
    }
    let micros = |ns: u64| ns as f64 / 1000.0;
    Moment {
        trial: slice.index,
        start,
        length,
        p50: histogram.map(|h| micros(h.value_at_percentile(50.0))),
        p99: histogram.map(|h| micros(h.value_at_percentile(99.0))),
        max: histogram.map(|h| micros(h.max())),
        rows,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;
    use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};

    fn recorded(values: impl IntoIterator<Item = u64>) -> String {
        let mut histogram = Histogram::<u64>::new_with_bounds(128, 120_000_000_000, 3).unwrap();
        for value in values {
            histogram.record(value).unwrap();
        }
        let mut bytes = Vec::new();
        V2DeflateSerializer::new()
            .serialize(&histogram, &mut bytes)
            .unwrap();
        BASE64_STANDARD.encode(bytes)
    }

    /// One transaction a millisecond, of 200 µs, and one of 200 ms in the middle of the second
    /// interval.
    fn stalled(index: u32) -> Trial {
        let usual = std::iter::repeat_n(200_000, 1000);
        Trial {
            slice: Slice {
                index,
                ..Slice::default()
            },
            latency: recorded(usual.clone().chain([200_000_000])),
            latency_from_actual_start: Some(recorded(usual)),
            interval_ns: 100_000_000,
            interval_latency: vec![
                recorded(std::iter::repeat_n(200_000, 500)),
                recorded([200_000_000]),
                String::new(),
                recorded(std::iter::repeat_n(200_000, 500)),
            ],
            retries: 2,
            ..Trial::default()
        }
    }

    #[test]
    fn a_changing_rate_is_told_by_its_steps() {
        // Keeps up until 300 a second; from there on latency grows, and no more than that is done.
        let trial = |slow: u64| {
            let intervals: Vec<u64> = (0..20u64).map(|n| (2 + n).min(12)).collect();
            let of = |(n, count): (usize, &u64)| {
                let value = if n < 10 { 1_000_000 } else { slow };
                recorded(std::iter::repeat_n(value, *count as usize))
            };
            Trial {
                window_ns: 2_000_000_000,
                interval_ns: 100_000_000,
                latency: recorded([1_000_000]),
                interval_latency: intervals.iter().enumerate().map(of).collect(),
                intervals,
                ..Trial::default()
            }
        };
        let trials = [trial(50_000_000), trial(70_000_000)];
        let trials: Vec<&Trial> = trials.iter().collect();
        let mut workload = WorkloadPlan::default();
        workload.dials.rate_tps = Some(20.0);
        assert!(analyse(&trials, &workload).unwrap().ramp.is_empty());
        workload.dials.rate_end_tps = Some(220.0);
        let ramp = analyse(&trials, &workload).unwrap().ramp;
        assert_eq!(ramp.len(), 10);
        let rates: Vec<f64> = ramp.iter().map(|step| step.rate_tps.round()).collect();
        assert_eq!((rates[0], rates[4], rates[9]), (30.0, 110.0, 210.0));
        assert_eq!(ramp[0].throughput_tps, 25.0);
        assert_eq!(ramp[9].throughput_tps, 120.0);
        assert_eq!(ramp[0].latency.count, 10);
        let p50 = |step: &RampStep| (step.latency.p50.unwrap() / 1000.0).round();
        assert_eq!((p50(&ramp[4]), p50(&ramp[5])), (1.0, 50.0));
    }

    #[test]
    fn a_stall_is_seen_at_its_size_and_in_its_place() {
        let trials = [stalled(3), stalled(1)];
        let trials: Vec<&Trial> = trials.iter().collect();
        let detail = analyse(&trials, &WorkloadPlan::default()).unwrap();
        assert_eq!((detail.all.count, detail.retries), (2002, 4));
        let near = |value: Option<f64>, expected: f64| {
            let value = value.unwrap();
            assert!((value / expected - 1.0).abs() < 0.002, "{value}");
        };
        near(detail.all.p50, 200.0);
        near(detail.all.max, 200_000.0);
        assert_eq!(detail.all.p99_9, None, "two transactions are no percentile");
        near(detail.from_actual_start.unwrap().max, 200.0);
        let last = detail.curve.last().unwrap();
        assert!(last.0 > 1000.0 && last.1 > 199_000.0, "{last:?}");
        // In the order in which they ran.
        let order: Vec<u32> = detail.over_time.iter().map(|m| m.trial).collect();
        assert_eq!(order, [1, 1, 1, 1, 3, 3, 3, 3]);
        near(detail.over_time[1].max, 200_000.0);
        assert_eq!(detail.over_time[2].rows, [], "a gap stays a gap");
        assert_eq!(detail.over_time[0].rows, [(27, 500)]);
        assert_eq!(detail.over_time[0].start, 0.0);
        assert!((detail.over_time[3].start - 0.3).abs() < 1e-9);
    }

    #[test]
    fn a_long_run_is_drawn_in_few_columns() {
        let mut trial = stalled(0);
        trial.interval_latency = vec![recorded([1_000_000]); 1000];
        let detail = analyse(&[&trial], &WorkloadPlan::default()).unwrap();
        assert!(detail.over_time.len() <= MOST_COLUMNS);
        let counted: u64 = detail
            .over_time
            .iter()
            .flat_map(|m| &m.rows)
            .map(|r| r.1)
            .sum();
        assert_eq!(counted, 1000);
        assert!((detail.over_time.iter().map(|m| m.length).sum::<f64>() - 100.0).abs() < 1e-6);
    }
}

//! The trials of one arm at one client count, reduced to estimates over trials.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;

use crate::analysis::{LatencyEstimates, PointAnalysis, TrialAnalysis};
use crate::ceiling::Ceiling;
use crate::latency;
use crate::observed::Observed;
use crate::plan::{Dials, Plan, Point};
use crate::record::{ClientCalls, Trial};
use crate::samples;
use crate::stats::estimate::{summarize, summarize_positive};
use crate::stats::{Caveat, Estimate};
use crate::warning::Warning;

/// CPUs' worth of others' work, as a share of all CPUs, that bends the figures.
const OTHERS: f64 = 0.1;

/// The share of the client's own ceiling from which on a figure is bent by it.
const NEAR_CEILING: f64 = 0.7;

/// A load thread busier than this leaves no doubt that the client bends the curve.
const BUSY_THREAD: f64 = 0.9;

/// All points of a server's trials under one load that have at least one, by ascending clients.
/// `alone` are the trials of the client without a server.
pub fn analyse(
    plan: &Plan,
    trials: &[&Trial],
    alone: &[&Trial],
    skipped: &BTreeMap<u32, String>,
) -> Vec<PointAnalysis> {
    let mut points: Vec<PointAnalysis> = (0u32..)
        .zip(&plan.points)
        .filter_map(|(index, point)| {
            let here = |t: &&&Trial| t.slice.point == index;
            let trials: Vec<ReadTrial> = trials
                .iter()
                .filter(here)
                .filter_map(|t| ReadTrial::read(t))
                .collect();
            let mut analysis = analyse_point(*point, &trials, plan.trials, skipped.get(&index))?;
            let records: Vec<&Trial> = trials.iter().map(|t| t.record).collect();
            analysis.detail = latency::analyse(&records, &plan.workload);
            let alone = alone.iter().filter(here).copied();
            note_ceiling(&mut analysis, Ceiling::of(point, alone));
            note_schedule(&mut analysis, &plan.workload.dials);
            Some(analysis)
        })
        .collect();
    points.sort_by_key(|p| p.point.clients);
    points
}

/// A trial with its histogram and samples interpreted.
struct ReadTrial<'a> {
    record: &'a Trial,
    latency: Histogram<u64>,
    seconds: f64,
    server_cpus: Option<f64>,
    host: Option<samples::HostCpu>,
}

impl<'a> ReadTrial<'a> {
    fn read(record: &'a Trial) -> Option<Self> {
        let sample = |id: &str| record.samples.get(id);
        Some(Self {
            latency: decode(&record.latency)?,
            seconds: record.window_ns as f64 / 1e9,
            server_cpus: sample(samples::SERVER_SCHEDSTAT).and_then(|s| {
                // The backend that answers our observers is no part of the load.
                let ours = record.observed.as_ref().map_or(0, Observed::server_ns);
                // Parallel workers and short sessions end within a window.
                let ended = sample(samples::SERVER_ENDED);
                let ended = ended.and_then(|ended| samples::ended_cpu_ns(ended, s));
                let ns = samples::server_cpu_ns(s)? + ended.unwrap_or(0);
                let ns = ns.saturating_sub(ours);
                Some(ns as f64 / s.elapsed_ns.max(1) as f64)
            }),
            host: sample(samples::HOST_STAT).and_then(samples::host_cpu),
            record,
        })
    }

    fn tps(&self) -> f64 {
        self.record.transactions as f64 / self.seconds
    }

    fn percentile_us(&self, percentile: f64) -> f64 {
        self.latency.value_at_percentile(percentile) as f64 / 1000.0
    }

    fn client_cpus(&self) -> f64 {
        self.record.client_ns() as f64 / 1e9 / self.seconds
    }

    /// Microseconds of CPU for each transaction, from CPUs kept busy.
    fn per_transaction_us(&self, cpus: f64) -> Option<f64> {
        (self.record.transactions > 0).then(|| cpus * 1e6 / self.tps())
    }

    /// What `pg_stat_database` counted for each commit that it counted; its
    /// counters arrive late, but all of a backend's together.
    fn per_commit(&self, counter: &str) -> Option<f64> {
        let sample = self.record.samples.get(samples::PG_STAT_DATABASE)?;
        let commits = samples::database_counter(sample, "xact_commit")?;
        let count = samples::database_counter(sample, counter)?;
        (commits > 100).then(|| count as f64 / commits as f64)
    }
}

/// A latency histogram as recorded: V2, deflate, base64. None where it is damaged.
pub fn decode(text: &str) -> Option<Histogram<u64>> {
    let bytes = BASE64_STANDARD.decode(text).ok()?;
    Deserializer::new().deserialize(&mut bytes.as_slice()).ok()
}

/// A figure of one trial.
type Figure<'f> = &'f dyn Fn(&ReadTrial) -> f64;

fn analyse_point(
    point: Point,
    trials: &[ReadTrial],
    planned: u32,
    skipped: Option<&String>,
) -> Option<PointAnalysis> {
    let over = |value: Figure| -> Option<Estimate> {
        summarize_positive(&trials.iter().map(value).collect::<Vec<_>>())
    };
    // An estimate over the trials that have the value; none where half of them lack it.
    let where_seen = |value: &dyn Fn(&ReadTrial) -> Option<f64>| -> Option<Estimate> {
        let seen: Vec<f64> = trials.iter().filter_map(value).collect();
        if seen.len() * 2 <= trials.len() {
            return None;
        }
        let mut estimate = summarize(&seen)?;
        // Nothing stolen and nothing read is what one hopes for, not a lack of resolution.
        if seen.iter().all(|value| *value == 0.0) {
            estimate.warnings.clear();
        }
        Some(estimate)
    };
    // Counts are exact: where each trial has the same, nothing is left unresolved.
    let counted = |counter: &str| -> Option<Estimate> {
        let mut estimate = where_seen(&|t| t.per_commit(counter))?;
        estimate
            .warnings
            .retain(|caveat| *caveat != Caveat::IdenticalValues);
        Some(estimate)
    };
    let user_cpus = |t: &ReadTrial| t.record.client_user_ns as f64 / 1e9 / t.seconds;
    let latency = estimates(trials, &over)?;
    let mut failures: BTreeMap<String, u64> = BTreeMap::new();
    for (state, count) in trials.iter().flat_map(|t| &t.record.failures) {
        *failures.entry(state.clone()).or_default() += count;
    }
    let calls = calls(trials);
    Some(PointAnalysis {
        point,
        throughput_tps: over(&|t| t.tps())?,
        latency_us: latency,
        client_cpu_us_per_transaction: where_seen(&|t| t.per_transaction_us(t.client_cpus()))?,
        client_user_us_per_transaction: where_seen(&|t| t.per_transaction_us(user_cpus(t)))?,
        server_cpu_us_per_transaction: where_seen(&|t| t.per_transaction_us(t.server_cpus?)),
        client_calls_per_transaction: calls.map(|(calls, done)| calls.sum() as f64 / done),
        client_gathered_share: calls.and_then(|(calls, _)| calls.gathered_share()),
        client_cpus: summarize(
            &trials
                .iter()
                .map(ReadTrial::client_cpus)
                .collect::<Vec<_>>(),
        )?,
        server_cpus: where_seen(&|t| t.server_cpus),
        machine_cpus: where_seen(&|t| Some(t.host?.busy / t.seconds)),
        steal_share: where_seen(&|t| {
            t.host
                .filter(|host| host.total > 0.0)
                .map(|host| host.steal / host.total)
        }),
        others_share: others_share(trials),
        buffer_hits_per_transaction: counted("blks_hit"),
        buffer_reads_per_transaction: counted("blks_read"),
        failures: failures.into_iter().collect(),
        ceiling_tps: None,
        detail: None,
        warnings: warnings(trials, planned, skipped),
        trials: trials.iter().map(reduce).collect(),
    })
}

/// Compares a point with what the client can do at most.
fn note_ceiling(point: &mut PointAnalysis, ceiling: Option<Ceiling>) {
    let Some(most) = ceiling.map(|ceiling| ceiling.most_tps()) else {
        return;
    };
    point.ceiling_tps = Some(most);
    let share = point.throughput_tps.estimate / most;
    if share > NEAR_CEILING {
        point.warnings.push(
            Warning::new(
                "near-ceiling",
                format!(
                    "this is {:.0} % of what the client itself can do at most ({most:.0} \
                     transactions a second): the figure says as much about it as about the server",
                    share * 100.0
                ),
            )
            .with_remedy("give the client more threads with --threads, or CPUs of its own"),
        );
    }
}

/// Says where a rate was not kept, and what was left out for a latency limit.
fn note_schedule(point: &mut PointAnalysis, dials: &Dials) {
    let Some(detail) = &point.detail else {
        return;
    };
    let (behind, skipped, late) = (detail.behind, detail.skipped, detail.late);
    let all = detail.all.count + skipped + behind;
    if let Some(rate) = dials.rate_tps
        && behind > all / 100
    {
        point.warnings.push(Warning::new(
            "behind-schedule",
            format!(
                "the rate of {rate} a second was not kept: {behind} transactions that were due had \
                 not begun"
            ),
        ));
    }
    if let Some(limit) = dials.latency_limit_ms
        && skipped + late > 0
    {
        point.warnings.push(Warning::new(
            "latency-limit",
            format!(
                "{skipped} starts were left out and {late} transactions took longer than {limit} ms"
            ),
        ));
    }
}

fn estimates(
    trials: &[ReadTrial],
    over: &dyn Fn(Figure) -> Option<Estimate>,
) -> Option<LatencyEstimates> {
    let count: u64 = trials.iter().map(|t| t.latency.len()).sum();
    let sum: f64 = trials
        .iter()
        .map(|t| t.latency.mean() * t.latency.len() as f64)
        .sum();
    let max = trials.iter().map(|t| t.latency.max()).max()?;
    Some(LatencyEstimates {
        count,
        mean: sum / count.max(1) as f64 / 1000.0,
        p50: over(&|t| t.percentile_us(50.0))?,
        p90: over(&|t| t.percentile_us(90.0))?,
        p99: over(&|t| t.percentile_us(99.0))?,
        p99_9: over(&|t| t.percentile_us(99.9))?,
        max: max as f64 / 1000.0,
    })
}

fn reduce(trial: &ReadTrial) -> TrialAnalysis {
    TrialAnalysis {
        index: trial.record.slice.index,
        throughput_tps: trial.tps(),
        p50_us: trial.percentile_us(50.0),
        p99_us: trial.percentile_us(99.0),
        server_cpu_us_per_transaction: trial
            .server_cpus
            .and_then(|cpus| trial.per_transaction_us(cpus)),
        client_cpu_us_per_transaction: trial
            .per_transaction_us(trial.client_cpus())
            .unwrap_or_default(),
    }
}

/// The share of all CPU time that neither server nor client used; the median of the trials.
fn others_share(trials: &[ReadTrial]) -> Option<f64> {
    let mut shares: Vec<f64> = trials
        .iter()
        .filter_map(|t| {
            let host = t.host.filter(|host| host.total > 0.0)?;
            let ours = (t.server_cpus? + t.client_cpus()) * t.seconds;
            Some((host.busy - ours).max(0.0) / host.total)
        })
        .collect();
    shares.sort_by(f64::total_cmp);
    shares.get(shares.len() / 2).copied()
}

/// The load threads' system calls of all trials, and the transactions that they were for.
fn calls(trials: &[ReadTrial]) -> Option<(ClientCalls, f64)> {
    let mut sum = ClientCalls::default();
    let mut done = 0;
    for record in trials.iter().map(|t| t.record) {
        let calls = record.client_calls?;
        sum.receive += calls.receive;
        sum.send += calls.send;
        sum.wait += calls.wait;
        sum.enter += calls.enter;
        sum.gathered += calls.gathered;
        done += record.transactions;
    }
    (done > 0).then_some((sum, done as f64))
}

fn warnings(trials: &[ReadTrial], planned: u32, skipped: Option<&String>) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if let Some(reason) = skipped {
        warnings.push(Warning::new(
            "point-skipped",
            format!("left out from here on: {reason}"),
        ));
    }
    if trials.len() < planned as usize {
        warnings.push(Warning::new(
            "trials-missing",
            format!("{} of {planned} trials were measured", trials.len()),
        ));
    }
    let busiest = trials
        .iter()
        .filter_map(|t| t.record.busiest_thread_share)
        .fold(0.0, f64::max);
    if busiest > BUSY_THREAD {
        warnings.push(
            Warning::new(
                "client-bound",
                format!(
                    "a load thread was busy {:.0} % of the time: the server could go faster",
                    busiest * 100.0
                ),
            )
            .with_remedy("give the client more threads with --threads"),
        );
    }
    if let Some(share) = others_share(trials).filter(|share| *share > OTHERS) {
        warnings.push(
            Warning::new(
                "others-busy",
                format!(
                    "other work took {:.0} % of the machine's CPU time: the figures are too low",
                    share * 100.0
                ),
            )
            .with_remedy("measure again when the machine is quiet"),
        );
    }
    let failed: u64 = trials.iter().flat_map(|t| t.record.failures.values()).sum();
    if failed > 0 {
        warnings.push(Warning::new(
            "failures",
            format!("{failed} transactions failed"),
        ));
    }
    warnings
}

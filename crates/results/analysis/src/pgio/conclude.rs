//! Logical reads a second, what they cost, and whether the counters agree.

use std::collections::BTreeMap;

use pgassay_model::pgio::{PgioCounters, PgioPlan, PgioSession};
use pgassay_model::point::Point;
use pgassay_model::storage::Storage;
use pgassay_model::trial::{Raw, Trial};
use pgassay_model::warning::Warning;
use pgassay_readings::samples;
use serde::{Deserialize, Serialize};

use crate::number;
use crate::stats::history::{ChangeRule, change_points};
use crate::stats::{Estimate, summarize, summarize_positive};
use crate::storage::credits::{Read, burst};
use crate::storage::volume::lasting;
use crate::trial_view::{Server, TrialView, median_share, others_busy};

/// The counters of server and sessions may differ by this share unexplained.
const AGREE: f64 = 0.005;
/// A device's rate that changes by less is no step.
const STEP: f64 = 0.2;
/// Below this many bytes a second a device is idle.
const IDLE: f64 = 1e6;
/// Trials at one level from which on a device counts as steady.
const STEADY: usize = 6;

/// What a PGIO run says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PgioAnalysis {
    /// What was run.
    pub plan: PgioPlan,
    /// One entry a session count, ascending.
    pub points: Vec<PgioPoint>,
    /// Whether the server's counters and the sessions' agree.
    pub agreement: Option<Agreement>,
    /// What lies under the data directory.
    pub storage: Option<Storage>,
    /// The server's counters around all trials: `pg_stat_database`.
    pub counters: Option<PgioCounters>,
    /// Every session of every trial, as PGIO lists them.
    pub sessions: Vec<PgioSession>,
}

/// One session count.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PgioPoint {
    /// Sessions in all.
    pub sessions: u32,
    /// Blocks looked at a second, all sessions together.
    pub logical_reads_per_second: Estimate,
    /// The same for each session, on average.
    pub logical_reads_per_second_per_session: Estimate,
    /// Slowest session as a share of the fastest; none for one session.
    pub fairness: Option<Estimate>,
    /// Blocks looked at for each second of the server's CPU time.
    pub logical_reads_per_cpu_second: Option<Estimate>,
    /// Blocks a second that were not in shared buffers.
    pub misses_per_second: Estimate,
    /// Blocks of the tables that the ranges hold, a second.
    pub touched_blocks_per_second: Estimate,
    /// SELECTs a second.
    pub selects_per_second: Estimate,
    /// UPDATEs a second; none without any.
    pub updates_per_second: Option<Estimate>,
    /// The longest SELECT of any trial, milliseconds.
    pub longest_select_ms: f64,
    /// The longest UPDATE likewise.
    pub longest_update_ms: Option<f64>,
    /// Bytes a second that the devices read, others' reads included.
    pub device_bytes_per_second: Option<Estimate>,
    /// Device requests a second.
    pub device_requests_per_second: Option<Estimate>,
    /// Bytes of a device request on average.
    pub device_request_bytes: Option<f64>,
    /// Device requests under way on average, reads and writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_requests_in_flight: Option<f64>,
    /// Bytes a second read from devices for the server's processes.
    pub processes_bytes_per_second: Option<Estimate>,
    /// Memory of the page tables of the server's processes.
    pub page_table_bytes: Option<Estimate>,
    /// CPUs that pgassay itself kept busy.
    pub client_cpus: Estimate,
    /// The share of the machine's CPU time that neither server nor client used, 0 to 1; the median of the trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others_share: Option<f64>,
    /// That which the hypervisor gave to other guests likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steal_share: Option<f64>,
    /// Logical reads a second of each trial, in the order in which they ran.
    pub trials: Vec<f64>,
    /// Failed calls by SQLSTATE.
    pub failures: BTreeMap<String, u64>,
    /// Changes of the device's rate during the run.
    pub steps: Vec<Step>,
    /// What qualifies it.
    pub warnings: Vec<Warning>,
}

/// A change of a device's rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Step {
    /// The first trial at the new rate, from 0.
    pub trial: usize,
    /// Bytes a second before.
    pub before: f64,
    /// Bytes a second from there on.
    pub after: f64,
}

/// The blocks by two accounts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Agreement {
    /// Blocks of tables and indexes that the sessions say they looked at.
    pub sessions_blocks: u64,
    /// Blocks among them of the tables.
    pub heap_blocks: u64,
    /// Blocks of the tables that the ranges hold.
    pub touched_blocks: u64,
    /// Blocks that `pg_stat_database` counted over the same trials.
    pub server_blocks: Option<u64>,
    /// Server's over sessions', less 1; what is beyond is the catalogue and
    /// pgassay's own questions.
    pub difference: Option<f64>,
}

/// The figures of one trial.
struct ReadTrial<'a> {
    trial: &'a Trial,
    sessions: &'a [PgioSession],
    view: TrialView<'a>,
    seconds: f64,
}

impl ReadTrial<'_> {
    fn sum(&self, value: fn(&PgioSession) -> u64) -> f64 {
        self.sessions.iter().map(value).sum::<u64>() as f64
    }

    /// The sessions' own rates added: each has its own start and end.
    fn rate(&self, value: impl Fn(&PgioSession) -> u64) -> f64 {
        self.sessions
            .iter()
            .filter(|s| s.elapsed_us > 0)
            .map(|s| value(s) as f64 * 1e6 / s.elapsed_us as f64)
            .sum()
    }
}

fn logical(session: &PgioSession) -> u64 {
    session.heap_blocks + session.index_blocks
}

/// What the trials say.
pub fn analyse<'a>(
    plan: &PgioPlan,
    points: &[Point],
    trials: impl IntoIterator<Item = &'a Trial>,
    counters: Option<&PgioCounters>,
    storage: Option<&Storage>,
) -> PgioAnalysis {
    let server = Server {
        storage,
        block_size: plan.block_size_bytes,
    };
    let read: Vec<ReadTrial> = trials
        .into_iter()
        .filter_map(|trial| match &trial.raw {
            Raw::Pgio(sessions) => Some(ReadTrial {
                view: TrialView::of(trial, server),
                seconds: trial.window_ns.max(1) as f64 / 1e9,
                trial,
                sessions,
            }),
            _ => None,
        })
        .collect();
    PgioAnalysis {
        points: (0u32..)
            .zip(points)
            .filter_map(|(index, at)| {
                let of = read.iter().filter(|t| t.trial.slice.point == index);
                point(plan, at.clients, &of.collect::<Vec<_>>())
            })
            .collect(),
        agreement: agreement(plan, &read, counters),
        storage: storage.cloned(),
        counters: counters.cloned(),
        sessions: read.iter().flat_map(|t| t.sessions.to_vec()).collect(),
        plan: plan.clone(),
    }
}

fn point(plan: &PgioPlan, sessions: u32, trials: &[&ReadTrial]) -> Option<PgioPoint> {
    if trials.is_empty() {
        return None;
    }
    let over = |value: &dyn Fn(&ReadTrial) -> Option<f64>| -> Option<Estimate> {
        let values: Vec<f64> = trials.iter().filter_map(|t| value(t)).collect();
        let mut estimate = summarize(&values)?;
        // Nothing read is what one hopes for, not a lack of resolution.
        if values.iter().all(|value| *value == 0.0) {
            estimate.warnings.clear();
        }
        Some(estimate)
    };
    let positive = |value: &dyn Fn(&ReadTrial) -> f64| -> Option<Estimate> {
        summarize_positive(&trials.iter().map(|t| value(t)).collect::<Vec<_>>())
    };
    let touched = move |s: &PgioSession| {
        s.selects * (plan.work_unit + 1) + s.updates * (plan.update_work_unit + 1)
    };
    let mut failures: BTreeMap<String, u64> = BTreeMap::new();
    for (state, count) in trials
        .iter()
        .flat_map(|t| t.sessions)
        .flat_map(|s| &s.failures)
    {
        *failures.entry(state.clone()).or_default() += count;
    }
    let (mut bytes, mut requests) = (0, 0);
    for device in trials.iter().filter_map(|t| t.view.reads.device.seen()) {
        bytes += device.bytes;
        requests += device.requests;
    }
    let longest = |value: fn(&PgioSession) -> u64| {
        let all = trials.iter().flat_map(|t| t.sessions).map(value);
        all.max().unwrap_or(0) as f64 / 1000.0
    };
    let updates = trials.iter().any(|t| t.sum(|s| s.updates) > 0.0);
    let rates: Vec<f64> = trials
        .iter()
        .filter_map(|t| t.view.device()?.per_second(|reads| reads.bytes))
        .collect();
    let steps = steps(&rates);
    let views = || trials.iter().map(|t| &t.view);
    let others_share = median_share(views(), TrialView::others_share);
    let mut warnings = warnings(trials, &failures, &steps);
    warnings.extend(others_busy(others_share));
    Some(PgioPoint {
        sessions,
        logical_reads_per_second: positive(&|t| t.rate(logical))?,
        logical_reads_per_second_per_session: positive(&|t| t.rate(logical) / f64::from(sessions))?,
        fairness: (sessions > 1).then(|| over(&|t| fairness(t))).flatten(),
        logical_reads_per_cpu_second: over(&|t| {
            let cpus = t.view.server_cpus.filter(|cpus| *cpus > 0.0)?;
            Some(t.rate(logical) / cpus)
        }),
        misses_per_second: over(&|t| Some(t.rate(|s| logical(s).saturating_sub(s.blocks_hit))))?,
        touched_blocks_per_second: positive(&|t| t.rate(touched))?,
        selects_per_second: over(&|t| Some(t.rate(|s| s.selects)))?,
        updates_per_second: updates
            .then(|| over(&|t| Some(t.rate(|s| s.updates))))
            .flatten(),
        longest_select_ms: longest(|s| s.longest_select_us),
        longest_update_ms: updates.then(|| longest(|s| s.longest_update_us)),
        device_bytes_per_second: over(&|t| t.view.device()?.per_second(|reads| reads.bytes)),
        device_requests_per_second: over(&|t| t.view.device()?.per_second(|reads| reads.requests)),
        device_request_bytes: (requests > 0).then(|| bytes as f64 / requests as f64),
        device_requests_in_flight: over(&|t| t.view.device()?.in_flight())
            .map(|waited| waited.estimate),
        processes_bytes_per_second: over(&|t| t.view.reads.processes_bytes.seen()?.per_second()),
        page_table_bytes: over(&|t| t.view.page_tables()),
        client_cpus: over(&|t| Some(t.trial.client_ns() as f64 / 1e9 / t.seconds))?,
        others_share,
        steal_share: median_share(views(), |view| {
            let host = view.host.filter(|host| host.total > 0.0)?;
            Some(host.steal / host.total)
        }),
        trials: trials.iter().map(|t| t.rate(logical)).collect(),
        warnings,
        failures,
        steps,
    })
}

fn fairness(trial: &ReadTrial) -> Option<f64> {
    let rates = trial.sessions.iter().map(|s| logical(s) as f64);
    let (slowest, fastest) = rates.fold((f64::MAX, 0.0_f64), |(low, high), rate| {
        (low.min(rate), high.max(rate))
    });
    (fastest > 0.0).then(|| slowest / fastest)
}

/// Where a device's rate, in bytes a second, changed during the trials.
pub fn steps(rates: &[f64]) -> Vec<Step> {
    if rates.len() < 2 * STEADY || rates.iter().any(|rate| *rate < IDLE) {
        return Vec::new();
    }
    let rule = ChangeRule {
        magnitude: STEP,
        ..ChangeRule::default()
    };
    let history = change_points(rates, rule);
    history
        .changes
        .iter()
        .zip(history.levels.windows(2))
        .map(|(change, levels)| Step {
            trial: change.index,
            before: levels[0].value.estimate,
            after: levels[1].value.estimate,
        })
        .collect()
}

/// Whether the newest rates have been at one level for long enough; what reads
/// nothing is steady from the start.
pub fn is_stable(rates: &[f64]) -> bool {
    if rates.len() < 2 * STEADY {
        return rates.iter().all(|rate| *rate < IDLE) && rates.len() >= STEADY;
    }
    steps(rates)
        .last()
        .is_none_or(|step| step.trial + STEADY <= rates.len())
}

fn warnings(
    trials: &[&ReadTrial],
    failures: &BTreeMap<String, u64>,
    steps: &[Step],
) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let reads: Vec<Read> = trials
        .iter()
        .filter_map(|t| {
            Some(Read {
                seconds: t.seconds,
                count: t.view.device()?.per_second(|reads| reads.bytes)? * t.seconds,
            })
        })
        .collect();
    for (at, step) in steps.iter().enumerate() {
        // Up to the next step the rate stood.
        let until = steps.get(at + 1).map_or(reads.len(), |next| next.trial);
        let burst = reads
            .get(..until)
            .and_then(|reads| burst(reads, step.trial));
        let behind = burst.map_or(String::new(), |burst| {
            format!(
                " Until then {:.0} MB were read beyond {:.0} MB/s: if that is the base, credits had allowed so much at \
                 least, and take {} without load to fill again.",
                burst.credits / 1e6,
                burst.base / 1e6,
                lasting(burst.refill_seconds)
            )
        });
        warnings.push(
            Warning::new(
                "device-stepped",
                format!(
                    "The device's rate changed at trial {} from {:.0} to {:.0} MB/s, as that of a volume \
                     with burst credits does: the figures mix two states.{behind}",
                    step.trial + 1,
                    step.before / 1e6,
                    step.after / 1e6
                ),
            )
            .with_remedy("measure with --until-stable"),
        );
    }
    let failed: u64 = failures.values().sum();
    if failed > 0 {
        let by: Vec<String> = failures.iter().map(|(s, n)| format!("{s}: {n}")).collect();
        warnings.push(Warning::new(
            "failures",
            format!(
                "{failed} calls failed ({}) and were repeated",
                by.join(", ")
            ),
        ));
    }
    if let Some(crate::storage::Seen::Unavailable(why)) = trials
        .iter()
        .map(|t| &t.view.reads.device)
        .find(|d| d.seen().is_none())
    {
        warnings.push(Warning::new(
            "device-not-visible",
            format!("Device reads are not visible: {why}"),
        ));
    }
    warnings
}

fn agreement(
    plan: &PgioPlan,
    trials: &[ReadTrial],
    counters: Option<&PgioCounters>,
) -> Option<Agreement> {
    let sessions = || trials.iter().flat_map(|t| t.sessions);
    let sessions_blocks: u64 = sessions().map(logical).sum();
    if sessions_blocks == 0 {
        return None;
    }
    let server_blocks = counters.and_then(|counters| {
        let grown = |name| {
            let of = |row| samples::counter(row, name);
            of(&counters.after)?.checked_sub(of(&counters.before)?)
        };
        Some(grown("blks_hit")? + grown("blks_read")?)
    });
    Some(Agreement {
        sessions_blocks,
        heap_blocks: sessions().map(|s| s.heap_blocks).sum(),
        touched_blocks: sessions()
            .map(|s| s.selects * (plan.work_unit + 1) + s.updates * (plan.update_work_unit + 1))
            .sum(),
        server_blocks,
        difference: server_blocks.map(|blocks| blocks as f64 / sessions_blocks as f64 - 1.0),
    })
}

impl Agreement {
    /// Whether the two accounts are the same but for what is named.
    pub fn holds(&self) -> Option<bool> {
        Some(self.difference?.abs() <= AGREE)
    }
}

/// What the run says in a sentence or two.
pub fn headline(pgio: &PgioAnalysis) -> Vec<String> {
    let peak = pgio.points.iter().max_by(|a, b| {
        let rate = |p: &PgioPoint| p.logical_reads_per_second.estimate;
        rate(a).total_cmp(&rate(b))
    });
    let Some(peak) = peak else {
        return Vec::new();
    };
    let rate = &peak.logical_reads_per_second;
    let way = if pgio.plan.classic {
        " (PGIO's own way)"
    } else {
        ""
    };
    let mut sentences = vec![format!(
        "{:.0} thousand logical reads a second in {}{way}: {:.0} thousand each, {:.0} to {:.0} thousand \
         in all over {}.",
        rate.estimate / 1e3,
        number::counted(peak.sessions, "session"),
        peak.logical_reads_per_second_per_session.estimate / 1e3,
        rate.low / 1e3,
        rate.high / 1e3,
        number::counted(rate.n as u32, "trial")
    )];
    sentences.push(match (&peak.device_bytes_per_second, peak.device_request_bytes) {
        (Some(device), Some(request)) => format!(
            "{:.0} reads/s missed shared buffers; the device read {:.1} MB/s in requests of {:.1} KiB.",
            peak.misses_per_second.estimate,
            device.estimate / 1e6,
            request / 1024.0
        ),
        (Some(_), None) if peak.misses_per_second.estimate < 0.5 => {
            "Every read hit shared buffers; nothing came from disk.".to_owned()
        }
        (Some(_), None) => format!(
            "{:.0} reads/s missed shared buffers; the device read nothing.",
            peak.misses_per_second.estimate
        ),
        (None, _) => format!(
            "{:.0} reads/s missed shared buffers; device reads are not visible from here.",
            peak.misses_per_second.estimate
        ),
    });
    if let Some(agreement) = &pgio.agreement
        && let Some(difference) = agreement.difference
        && difference.abs() > AGREE
    {
        sentences.push(format!(
            "The server counts {:.2} % other blocks than the sessions: see the counters below.",
            100.0 * difference
        ));
    }
    sentences
}

#[cfg(test)]
mod tests {
    use pgassay_model::reading::{Reading, Sample};

    use super::*;

    const TWO: Point = Point {
        clients: 2,
        threads: 2,
        variant: 0,
    };

    fn plan() -> PgioPlan {
        PgioPlan {
            tables: 1,
            rows: 32_768,
            scale: "256M".into(),
            work_unit: 255,
            update_work_unit: 8,
            update_pct: 10,
            classic: false,
            block_size_bytes: 8192,
            plans: ("Bitmap Heap Scan".into(), "Bitmap Heap Scan".into()),
            config: None,
            connect_string: "pgio".into(),
            shared_buffers: "512MB".into(),
            setup_seconds: 1.0,
            until_stable: false,
            keep_tables: false,
        }
    }

    fn trial() -> Trial {
        let session = |factor: u64| PgioSession {
            table: 1,
            selects: 90 * factor,
            updates: 10 * factor,
            heap_blocks: 23_130 * factor,
            index_blocks: 300 * factor,
            blocks_hit: 23_000 * factor,
            elapsed_us: 500_000,
            ..PgioSession::default()
        };
        Trial {
            window_ns: 1_000_000_000,
            raw: Raw::Pgio(vec![session(1), session(2)]),
            client_user_ns: 1_000_000,
            ..Trial::default()
        }
    }

    #[test]
    fn rates_are_those_of_the_sessions_own_time() {
        let trials = vec![trial(); 6];
        let row = |n: u64| Reading::Text(format!("{{\"blks_hit\": {n}, \"blks_read\": 100}}"));
        let blocks = 6 * 3 * 23_430;
        let counters = PgioCounters {
            before: row(1000),
            after: row(1000 + blocks + blocks / 1000),
        };
        let found = analyse(&plan(), &[TWO], &trials, Some(&counters), None);
        let point = &found.points[0];
        let near = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 1e-6, "{a}, not {b}");
        near(
            point.logical_reads_per_second.estimate,
            3.0 * 23_430.0 * 2.0,
        );
        near(point.misses_per_second.estimate, 3.0 * 430.0 * 2.0);
        near(point.fairness.as_ref().unwrap().estimate, 0.5);
        near(
            point.touched_blocks_per_second.estimate,
            3.0 * 2.0 * (90.0 * 256.0 + 10.0 * 9.0),
        );
        let agreement = found.agreement.as_ref().unwrap();
        assert_eq!(agreement.holds(), Some(true));
        assert_eq!(agreement.touched_blocks, agreement.heap_blocks);
        assert!(headline(&found)[1].contains("not visible"));
    }

    #[test]
    fn others_work_is_noticed() {
        let text = |busy: u32, idle: u32| Reading::Text(format!("cpu {busy} 0 0 {idle} 0 0 0 0"));
        let trials: Vec<Trial> = (0..6)
            .map(|_| {
                let mut trial = trial();
                // Two CPUs, in ticks of 10 ms: of 150 that were busy the server has 100, the client next to none.
                trial.server_cpu_ns = Some(1_000_000_000);
                let sample = Sample {
                    before: text(0, 0),
                    after: text(150, 50),
                    elapsed_ns: 1_000_000_000,
                };
                trial
                    .samples
                    .insert(pgassay_model::samplers::HOST_STAT.to_owned(), sample);
                trial
            })
            .collect();
        let found = analyse(&plan(), &[TWO], &trials, None, None);
        let share = found.points[0].others_share.unwrap();
        assert!((share - 0.25).abs() < 0.01, "{share}");
        assert!(
            found.points[0]
                .warnings
                .iter()
                .any(|w| w.id == "others-busy")
        );
        assert_eq!(found.points[0].steal_share, Some(0.0));
        let found = analyse(&plan(), &[TWO], &[trial()], None, None);
        assert_eq!(found.points[0].others_share, None, "not recorded");
    }

    #[test]
    fn a_burst_that_ends_is_noticed() {
        let rates: Vec<f64> = (0..24)
            .map(|i| if i < 10 { 200e6 } else { 25e6 } * (1.0 + 0.02 * f64::from(i % 3)))
            .collect();
        let found = steps(&rates);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].trial, 10);
        assert!(found[0].after < 30e6 && found[0].before > 190e6);
        assert!(is_stable(&rates));
        assert!(!is_stable(&rates[..14]));
        // Steady, and idle.
        assert!(steps(&rates[..10]).is_empty());
        assert!(is_stable(&[0.0; 6]));
        assert!(!is_stable(&[5e6; 6]));
        assert!(is_stable(&[5e6; 12]));
    }
}

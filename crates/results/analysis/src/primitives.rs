//! Primitives inside the server: what their trials say.
//!
//! A trial is one call in each session, all released together; a call returns
//! what it did and what it cost ([`SessionOutcome`]). From these come the
//! operations a second of all sessions, how evenly they share, and what an
//! operation costs, each as an estimate over trials.

pub mod code;
pub mod kernels;

use std::collections::BTreeMap;
use std::ops::Deref;

use pgassay_model::plan::Plan;
use pgassay_model::point::Point;
use pgassay_model::primitives::{InServerTrial, SessionOutcome, Variant};
use pgassay_model::trial::{Raw, Trial};
use pgassay_model::warning::Warning;
use serde::{Deserialize, Serialize};

use crate::host::HostSummary;
use crate::number;
use crate::stats::{Estimate, summarize, summarize_positive};

/// The warning of an estimate from values that are all the same.
const IDENTICAL: &str = "identical-values";

/// One variant over session counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PrimitiveAnalysis {
    /// Which.
    #[serde(flatten)]
    pub variant: Variant,
    /// One entry a session count, ascending.
    pub points: Vec<PrimitivePoint>,
}

/// One variant at one session count.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PrimitivePoint {
    /// Sessions at once.
    pub sessions: u32,
    /// Operations a second of all sessions together.
    pub operations_per_second: Estimate,
    /// The same for each session, on average.
    pub operations_per_second_per_session: Estimate,
    /// Operations of the slowest session as a share of the fastest's, 0 to 1;
    /// none for one session.
    pub fairness: Option<Estimate>,
    /// CPU time of the server for each operation, nanoseconds.
    pub server_cpu_ns_per_operation: Estimate,
    /// Share of operations that met another session; none where it isn't counted,
    /// and for one session.
    pub contended_share: Option<Estimate>,
    /// Sleeps in the spinlock's back-off for each thousand operations.
    pub delays_per_thousand: Option<Estimate>,
    /// Share of operations that found what they needed as it was.
    pub reused_share: Option<Estimate>,
    /// What the sessions waited for, as shares of the looks at them, the largest
    /// first; the event is empty for those that did not wait. Empty where nobody looked.
    pub waits: Vec<WaitShare>,
    /// Transactions a second that the committing sessions beside it committed.
    pub commits_per_second: Option<Estimate>,
    /// Operations a second in each tenth of a call's time, the mean over trials;
    /// empty where it was not recorded.
    pub over_time: Vec<f64>,
    /// CPUs that pgassay itself kept busy meanwhile.
    pub client_cpus: Estimate,
    /// Operations a second as a share of what the first count gives when every
    /// further session adds as much, as long as there are CPUs for them.
    pub share_of_ideal: f64,
    /// Operations a second of each trial, in the order in which they ran.
    pub trials: Vec<f64>,
    /// What qualifies this point.
    pub warnings: Vec<Warning>,
}

/// One kind of wait, or none, at one point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WaitShare {
    /// `LWLock:pgassay`; empty: running, or ready to run.
    pub event: String,
    /// Of all looks at all sessions, 0 to 1.
    pub share: f64,
}

/// A trial inside the server.
struct Called<'a> {
    trial: &'a Trial,
    raw: &'a InServerTrial,
}

impl Deref for Called<'_> {
    type Target = InServerTrial;

    fn deref(&self) -> &InServerTrial {
        self.raw
    }
}

/// What the primitives of a run say; variants without a trial are left out.
pub fn analyse<'a>(
    variants: &[Variant],
    plan: &Plan,
    trials: impl IntoIterator<Item = &'a Trial>,
    host: &HostSummary,
) -> Vec<PrimitiveAnalysis> {
    let at = &plan.points;
    let mut sessions: Vec<u32> = at.iter().map(|point| point.clients).collect();
    sessions.sort_unstable();
    sessions.dedup();
    let trials: Vec<(Point, Called)> = trials
        .into_iter()
        .filter_map(|trial| match &trial.raw {
            Raw::InServer(raw) => {
                let point = at.get(trial.slice.point as usize)?;
                Some((*point, Called { trial, raw }))
            }
            _ => None,
        })
        .collect();
    (0u32..)
        .zip(variants)
        .filter_map(|(index, variant)| {
            let mut points: Vec<PrimitivePoint> = sessions
                .iter()
                .filter_map(|&sessions| {
                    let of_point: Vec<&Called> = trials
                        .iter()
                        .filter(|(at, _)| at.variant == index && at.clients == sessions)
                        .map(|(_, trial)| trial)
                        .collect();
                    point(sessions, &of_point, host)
                })
                .collect();
            let first = points.first()?;
            let first_sessions = first.sessions;
            let each = first.operations_per_second.estimate / f64::from(first_sessions);
            for point in &mut points {
                let at_once = f64::from(at_once(point.sessions, first_sessions, host.cpus));
                point.share_of_ideal = point.operations_per_second.estimate / (each * at_once);
            }
            Some(PrimitiveAnalysis {
                variant: variant.clone(),
                points,
            })
        })
        .collect()
}

/// How many sessions ideal scaling counts: beyond the CPUs none adds anything. The
/// count that it starts from is taken as it is.
pub fn at_once(sessions: u32, first: u32, cpus: Option<u32>) -> u32 {
    cpus.map_or(sessions, |cpus| sessions.min(cpus.max(first)))
}

fn point(sessions: u32, trials: &[&Called], host: &HostSummary) -> Option<PrimitivePoint> {
    let over = |value: fn(&Called) -> f64| -> Vec<f64> {
        trials.iter().map(|trial| value(trial)).collect()
    };
    let share = |part: fn(&SessionOutcome) -> Option<u64>, per: f64| -> Option<Estimate> {
        let shares: Option<Vec<f64>> = trials
            .iter()
            .map(|trial| {
                let parts: Option<u64> = trial.sessions.iter().map(part).sum();
                Some(per * parts? as f64 / operations(trial))
            })
            .collect();
        let mut estimate = summarize(&shares?)?;
        // A share can well be 0 or 1 in every trial.
        estimate.warnings.retain(|w| w.id != IDENTICAL);
        Some(estimate)
    };
    let among_several = sessions > 1;
    Some(PrimitivePoint {
        sessions,
        operations_per_second: summarize_positive(&over(rate))?,
        operations_per_second_per_session: summarize_positive(&over(|trial| {
            rate(trial) / trial.sessions.len() as f64
        }))?,
        fairness: among_several.then(|| summarize(&over(fairness))).flatten(),
        server_cpu_ns_per_operation: summarize_positive(&over(|trial| {
            trial.cpu_ns() as f64 / operations(trial)
        }))?,
        contended_share: among_several.then(|| share(|s| s.contended, 1.0)).flatten(),
        delays_per_thousand: among_several.then(|| share(|s| s.delays, 1000.0)).flatten(),
        reused_share: share(|s| s.reused, 1.0),
        waits: waits(trials),
        commits_per_second: trials
            .iter()
            .map(|trial| Some(trial.commits? as f64 / (window_ns(trial) / 1e9)))
            .collect::<Option<Vec<f64>>>()
            .and_then(|rates| summarize(&rates)),
        over_time: over_time(trials),
        client_cpus: summarize(&over(|trial| {
            trial.trial.client_ns() as f64 / window_ns(trial)
        }))?,
        share_of_ideal: 1.0,
        trials: over(rate),
        warnings: warnings(sessions, trials, host),
    })
}

/// From the release of all sessions to the end of the last.
fn window_ns(trial: &Called) -> f64 {
    trial.raw.window_ns().max(1) as f64
}

/// All looks of all trials together: a single trial has too few for shares.
fn waits(trials: &[&Called]) -> Vec<WaitShare> {
    let mut seen: BTreeMap<&str, u64> = BTreeMap::new();
    for wait in trials.iter().flat_map(|trial| &trial.waits) {
        *seen.entry(&wait.event).or_default() += wait.seen;
    }
    let all: u64 = seen.values().sum();
    let mut shares: Vec<WaitShare> = seen
        .into_iter()
        .map(|(event, seen)| WaitShare {
            event: event.to_owned(),
            share: seen as f64 / all.max(1) as f64,
        })
        .collect();
    shares.sort_by(|a, b| b.share.total_cmp(&a.share));
    shares
}

/// The mean over trials of what all sessions did in each part of the time.
fn over_time(trials: &[&Called]) -> Vec<f64> {
    let parts = |s: &SessionOutcome| s.over_time.len();
    let all = || trials.iter().flat_map(|trial| &trial.sessions);
    let count = all().map(parts).min().unwrap_or(0);
    let part_seconds = |trial: &&Called| window_ns(trial) / 1e9 / count as f64;
    let seconds: f64 = trials.iter().map(part_seconds).sum();
    (0..count)
        .map(|part| all().map(|s| s.over_time[part]).sum::<u64>() as f64 / seconds)
        .collect()
}

/// Never 0, to be divided by.
fn operations(trial: &Called) -> f64 {
    trial.raw.operations().max(1) as f64
}

fn rate(trial: &Called) -> f64 {
    trial.raw.operations() as f64 / (window_ns(trial) / 1e9)
}

/// How far the slowest session got as a share of the fastest's way: all end at
/// one instant, so one that got a CPU late has had less time.
fn fairness(trial: &Called) -> f64 {
    let done = || trial.sessions.iter().map(|s| s.operations);
    match (done().min(), done().max()) {
        (Some(slowest), Some(fastest)) if fastest > 0 => slowest as f64 / fastest as f64,
        _ => f64::NAN,
    }
}

fn warnings(sessions: u32, trials: &[&Called], host: &HostSummary) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if let Some(cpus) = host.cpus.filter(|cpus| sessions > *cpus) {
        warnings.push(Warning::new(
            "more-sessions-than-cpus",
            format!(
                "more at once than the {cpus} CPUs: beyond that count the figures are of \
                 taking turns, and of locks whose holder has no CPU"
            ),
        ));
    }
    let all = || trials.iter().flat_map(|trial| &trial.sessions);
    let read: u64 = all().map(|s| s.blocks_read).sum();
    let hit: u64 = all().map(|s| s.blocks_hit).sum();
    if read > hit / 1000 && read > 0 {
        warnings.push(
            Warning::new(
                "not-all-hits",
                format!("{read} blocks were not in shared buffers and had to be read"),
            )
            .with_remedy("raise shared_buffers"),
        );
    }
    let late = all().map(|s| s.late_ns).max().unwrap_or(0) as f64;
    let window = trials.iter().map(|t| window_ns(t)).fold(f64::MAX, f64::min);
    if late > window / 10.0 {
        warnings.push(Warning::new(
            "late-start",
            format!(
                "one of them started {:.0} ms after the others: it had to wait for a CPU",
                late / 1e6
            ),
        ));
    }
    warnings
}

/// What the primitives say in a sentence each, the most important first.
pub fn headline(primitives: &[PrimitiveAnalysis]) -> Vec<String> {
    primitives
        .iter()
        .filter_map(|primitive| {
            let (first, last) = (primitive.points.first()?, primitive.points.last()?);
            let millions = |point: &PrimitivePoint| millions(point.operations_per_second.estimate);
            let mut sentence = format!(
                "{}: {}/s with {}",
                primitive.variant.title(),
                millions(first),
                count(first.sessions)
            );
            if last.sessions > first.sessions {
                sentence.push_str(&format!(
                    ", {}/s with {} ({:.0} % of ideal)",
                    millions(last),
                    last.sessions,
                    100.0 * last.share_of_ideal
                ));
            }
            sentence.push_str(&format!(
                "; {:.0} ns of CPU per operation",
                first.server_cpu_ns_per_operation.estimate
            ));
            if last.sessions > first.sessions {
                sentence.push_str(&format!(
                    ", then {:.0} ns",
                    last.server_cpu_ns_per_operation.estimate
                ));
            }
            sentence.push('.');
            Some(sentence)
        })
        .collect()
}

fn count(sessions: u32) -> String {
    number::counted(sessions, "session")
}

/// `3.24 million`, `512 thousand`.
fn millions(value: f64) -> String {
    match value {
        v if v >= 1e8 => format!("{:.0} million", v / 1e6),
        v if v >= 9_995_000.0 => format!("{:.1} million", v / 1e6),
        v if v >= 999_500.0 => format!("{:.2} million", v / 1e6),
        v if v >= 1e3 => format!("{:.0} thousand", v / 1e3),
        v => format!("{v:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::RunInfo;
    use crate::quality::{Grade, Quality};
    use pgassay_model::point::Slice;
    use pgassay_model::primitives::Company;
    use pgassay_model::primitives::PrimitivesPlan;
    use pgassay_model::primitives::WaitSeen;
    use pgassay_model::run::RunState;

    fn analysed(sessions: &[u32], trials: &[Trial], host: &HostSummary) -> Vec<PrimitiveAnalysis> {
        let primitives = primitives();
        let plan = Plan {
            points: primitives.points(sessions),
            ..Plan::default()
        };
        analyse(&primitives.variants, &plan, trials, host)
    }

    fn primitives() -> PrimitivesPlan {
        PrimitivesPlan {
            variants: vec![Variant {
                primitive: "lwlock".into(),
                variant: "exclusive".into(),
                company: Company::default(),
                operation: "one lock".into(),
            }],
            knobs: serde_json::Value::Null,
            compiled: None,
        }
    }

    /// `rates`: operations of each session in a window of a second.
    fn trial(point: u32, rates: &[u64]) -> Trial {
        let sessions = rates.iter().map(|&operations| SessionOutcome {
            operations,
            elapsed_ns: 1_000_000_000,
            cpu_ns: 500_000_000,
            contended: Some(operations / 4),
            over_time: vec![operations / 4, operations / 4 * 3],
            ..SessionOutcome::default()
        });
        Trial {
            slice: Slice {
                point,
                ..Slice::default()
            },
            client_user_ns: 5_000_000,
            raw: Raw::InServer(InServerTrial {
                sessions: sessions.collect(),
                waits: vec![
                    WaitSeen {
                        event: String::new(),
                        seen: 30,
                    },
                    WaitSeen {
                        event: "LWLock:pgassay".into(),
                        seen: 90,
                    },
                ],
                commits: None,
            }),
            ..Trial::default()
        }
    }

    fn sessions(trial: &mut Trial) -> &mut [SessionOutcome] {
        match &mut trial.raw {
            Raw::InServer(raw) => &mut raw.sessions,
            other => panic!("{other:?}"),
        }
    }

    /// Of six trials of one session, with so much of its second on a CPU, at these rates.
    fn grade(trials: usize, cpu_ns: u64, rate: impl Fn(u64) -> u64) -> (Grade, String) {
        let trials: Vec<Trial> = (0..trials as u64)
            .map(|n| {
                let mut trial = trial(0, &[rate(n)]);
                sessions(&mut trial)[0].cpu_ns = cpu_ns;
                trial
            })
            .collect();
        let run = RunInfo {
            id: String::new(),
            command: "run".to_owned(),
            command_line: Vec::new(),
            pgassay_version: String::new(),
            started: String::new(),
            from: Vec::new(),
            round_trips: Vec::new(),
            state: RunState::Complete,
            reason: None,
            elapsed_seconds: None,
            trials_measured: 6,
            trials_planned: 6,
            max_rss_bytes: None,
        };
        let analysed = analysed(&[1], &trials, &HostSummary::default());
        let quality = Quality::of_primitives(&analysed, &run, &[]).expect("points");
        (quality.grade, quality.why())
    }

    #[test]
    fn what_ran_inside_the_server_is_graded() {
        let steady = |n| 1_000_000 + n;
        assert_eq!(grade(6, 999_000_000, steady), (Grade::Good, String::new()));
        let (fair, why) = grade(6, 900_000_000, steady);
        assert!(fair == Grade::Fair && why.contains("10 %"), "{why}");
        assert_eq!(grade(6, 500_000_000, steady).0, Grade::Poor);
        let (few, why) = grade(3, 999_000_000, steady);
        assert!(few == Grade::Fair && why.contains("3 trials"), "{why}");
        let (wide, why) = grade(6, 999_000_000, |n| 1_000_000 << n);
        assert!(wide == Grade::Poor && why.contains('±'), "{why}");
    }

    /// Estimates come from logarithms, so they are exact to rounding only.
    #[track_caller]
    fn near(value: f64, expected: f64) {
        assert!(
            (value / expected - 1.0).abs() < 1e-9,
            "{value}, not {expected}"
        );
    }

    #[test]
    fn rates_fairness_and_cost() {
        let trials: Vec<Trial> = (0..6)
            .flat_map(|_| [trial(0, &[1_000_000]), trial(1, &[900_000, 300_000])])
            .collect();
        let found = analysed(&[1, 2, 4], &trials, &HostSummary::default());
        let [one, two] = found[0].points.as_slice() else {
            panic!("two counts have trials: {found:?}");
        };
        near(one.operations_per_second.estimate, 1_000_000.0);
        assert!(one.fairness.is_none());
        near(one.server_cpu_ns_per_operation.estimate, 500.0);
        near(two.operations_per_second.estimate, 1_200_000.0);
        near(two.operations_per_second_per_session.estimate, 600_000.0);
        assert!((two.fairness.as_ref().unwrap().estimate - 1.0 / 3.0).abs() < 1e-12);
        assert!((two.share_of_ideal - 0.6).abs() < 1e-12);
        near(two.contended_share.as_ref().unwrap().estimate, 0.25);
        assert!(two.delays_per_thousand.is_none());
        near(two.client_cpus.estimate, 0.005);
        assert_eq!(two.waits[0].event, "LWLock:pgassay");
        near(two.waits[0].share, 0.75);
        near(two.over_time[0], 600_000.0);
        near(two.over_time[1], 1_800_000.0);
        let said = headline(&found);
        assert_eq!(
            said,
            [
                "lwlock, exclusive: 1.00 million/s with 1 session, 1.20 million/s with 2 (60 % of \
                 ideal); 500 ns of CPU per operation, then 833 ns."
            ]
        );
    }

    #[test]
    fn a_late_session_shortens_nothing_but_its_own_time() {
        let mut late = trial(0, &[1_000_000, 500_000]);
        sessions(&mut late)[1].late_ns = 500_000_000;
        sessions(&mut late)[1].elapsed_ns = 500_000_000;
        let found = analysed(&[2], &[late], &HostSummary::default());
        let point = &found[0].points[0];
        near(point.operations_per_second.estimate, 1_500_000.0);
        near(point.fairness.as_ref().unwrap().estimate, 0.5);
        assert!(point.warnings.iter().any(|w| w.id == "late-start"));
    }

    #[test]
    fn ideal_scaling_ends_with_the_cpus() {
        assert_eq!(at_once(8, 1, None), 8);
        assert_eq!(at_once(8, 1, Some(2)), 2);
        assert_eq!(at_once(1, 1, Some(2)), 1);
        assert_eq!(at_once(8, 4, Some(2)), 4);
    }

    #[test]
    fn misses_and_too_few_cpus_are_said() {
        let mut missed = trial(0, &[1000, 1000]);
        sessions(&mut missed)[0].blocks_hit = 900;
        sessions(&mut missed)[0].blocks_read = 100;
        let host = HostSummary {
            cpus: Some(1),
            ..HostSummary::default()
        };
        let found = analysed(&[2], &[missed], &host);
        let ids: Vec<&str> = found[0].points[0]
            .warnings
            .iter()
            .map(|w| w.id.as_str())
            .collect();
        assert_eq!(ids, ["more-sessions-than-cpus", "not-all-hits"]);
    }
}

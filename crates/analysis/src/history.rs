//! Many recorded runs of one plan over time: when did the level change?
//! What `pgassay history` answers.

use pgassay_model::stage::StageId;
use pgassay_model::warning::Warning;
use pgassay_model::workload::WorkloadPlan;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::analysis::Analysis;
use crate::metrics::MetricId;
use crate::stats::history::{ChangePoint, ChangeRule, History, change_points};
use crate::stats::{Direction, Estimate};
use crate::wire::Curve;
use crate::{curves, number};

/// Name and version of the serialized form.
pub const SCHEMA: &str = "pgassay/history/1";

/// The history of one plan.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct RunHistory {
    /// [`SCHEMA`].
    pub schema: String,
    /// What all runs did, in words.
    pub work: String,
    /// The rule that was set.
    pub rule: ChangeRule,
    /// The runs, oldest first.
    pub runs: Vec<Entry>,
    /// Runs that were given and did other work, or measured nothing.
    pub left_out: Vec<LeftOut>,
    /// One entry for each metric and client count.
    pub series: Vec<Series>,
    /// The latest change of any metric was for the worse.
    pub worse: bool,
    /// The same in plain sentences.
    pub headline: Vec<String>,
    /// What qualifies the history as a whole.
    pub warnings: Vec<Warning>,
}

/// One run of the history.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Entry {
    /// Name of its directory.
    pub run: String,
    /// Start, UTC.
    pub started: String,
    /// Version of the server.
    pub server: String,
}

/// A run that is not part of it.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct LeftOut {
    /// Name of its directory.
    pub run: String,
    /// Why.
    pub why: String,
}

/// One metric at one client count, over the runs.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Series {
    /// Which metric.
    pub metric: MetricId,
    /// Which variant of the load; none where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<String>,
    /// Clients, or sessions.
    pub clients: u32,
    /// The runs' values, in their order; none where a run lacks it.
    pub values: Vec<Option<Estimate>>,
    /// Its levels and changes; indices are those of `values`.
    pub history: History,
}

impl Series {
    /// The latest change, where it was for the worse.
    pub fn latest_worse(&self) -> Option<&ChangePoint> {
        let last = self.history.changes.last()?;
        let worse = match self.metric.better {
            Direction::HigherIsBetter => last.change < 0.0,
            Direction::LowerIsBetter => last.change > 0.0,
        };
        worse.then_some(last)
    }
}

/// Follows metrics over the runs that did the same work as the latest of them. The first
/// arm of each is taken.
pub fn history(mut runs: Vec<Analysis>, metrics: &[MetricId], rule: ChangeRule) -> RunHistory {
    runs.sort_by(|a, b| {
        a.run
            .started
            .cmp(&b.run.started)
            .then(a.run.id.cmp(&b.run.id))
    });
    let wanted = runs.last().map(work).unwrap_or_default();
    let mut left_out = Vec::new();
    let mut kept = Vec::new();
    for run in runs {
        let measured = !curves::of(&run).is_empty();
        let why = if work(&run) != wanted {
            Some(format!("it ran {}", work(&run)))
        } else if !measured {
            Some("it measured nothing".to_owned())
        } else {
            None
        };
        match why {
            Some(why) => left_out.push(LeftOut {
                run: run.run.id,
                why,
            }),
            None => kept.push(run),
        }
    }
    let mut series = Vec::new();
    let curves: Vec<Vec<Curve>> = kept.iter().map(curves::of).collect();
    for (load, clients) in places(&curves) {
        for metric in metrics {
            series.extend(follow(&curves, *metric, (load.clone(), clients), rule));
        }
    }
    drop(curves);
    let mut warnings = Vec::new();
    let hosts = kept
        .windows(2)
        .any(|w| w[0].host.cpu_model != w[1].host.cpu_model);
    if hosts {
        warnings.push(Warning::new(
            "other-machine",
            "Not all runs are of the same processor: a change may be the machine's.",
        ));
    }
    if kept.len() < 2 * rule.shortest {
        warnings.push(Warning::new(
            "too-few-runs",
            format!(
                "{}: a change needs {} or more on either side.",
                number::counted(kept.len() as u64, "run"),
                rule.shortest
            ),
        ));
    }
    let worse = series.iter().any(|s| s.latest_worse().is_some());
    let entries: Vec<Entry> = kept.iter().map(entry).collect();
    RunHistory {
        schema: SCHEMA.to_owned(),
        headline: headline(&wanted, &entries, &series, rule),
        work: wanted,
        rule,
        runs: entries,
        left_out,
        series,
        worse,
        warnings,
    }
}

fn entry(run: &Analysis) -> Entry {
    let server = run.arms.first().and_then(|arm| arm.server.as_ref());
    let words = server.map(|s| s.version.split_whitespace().take(2).collect::<Vec<_>>());
    Entry {
        run: run.run.id.clone(),
        started: run.run.started.clone(),
        server: words.unwrap_or_default().join(" "),
    }
}

/// What a run did, in words: runs of the same have a history.
pub(crate) fn work(run: &Analysis) -> String {
    let load = run.main();
    let workload = &load.plan.workload;
    if load.id != StageId::Load {
        return workload.name.clone();
    }
    done(workload)
}

/// What clients did, in words: how they went through a recording is a part of it.
pub(crate) fn done(workload: &WorkloadPlan) -> String {
    let replayed = workload.replay.as_ref();
    let replayed = replayed.map_or_else(String::new, |replay| format!(", {replay}"));
    format!(
        "{} at scale {}, {} protocol{replayed}",
        workload.name, workload.scale, workload.protocol
    )
}

/// The curves of the first arm of each run: which loads, at which counts.
fn places(runs: &[Vec<Curve>]) -> Vec<(Option<String>, u32)> {
    let curves = runs.iter().flatten().filter(|curve| curve.arm == 0);
    let mut places: Vec<(Option<String>, u32)> = curves
        .flat_map(|curve| curve.points.iter().map(|p| (curve.load.clone(), p.clients)))
        .collect();
    places.sort_unstable();
    places.dedup();
    places
}

fn follow(
    runs: &[Vec<Curve>],
    metric: MetricId,
    (load, clients): (Option<String>, u32),
    rule: ChangeRule,
) -> Option<Series> {
    let at = |curves: &Vec<Curve>| {
        let mut curves = curves.iter();
        let curve = curves.find(|curve| curve.arm == 0 && curve.load == load)?;
        let point = curve.points.iter().find(|point| point.clients == clients)?;
        point.metric(metric)
    };
    let values: Vec<Option<Estimate>> = runs.iter().map(at).collect();
    let numbers: Vec<f64> = values
        .iter()
        .map(|v| v.as_ref().map_or(f64::NAN, |e| e.estimate))
        .collect();
    if numbers.iter().all(|v| v.is_nan()) {
        return None;
    }
    let mut history = change_points(&numbers, rule);
    // A run that lacks this client count is no odd value.
    if values.iter().any(Option::is_none) && numbers.iter().all(|v| v.is_nan() || *v > 0.0) {
        history.warnings.retain(|w| w.id != "non-positive-values");
    }
    Some(Series {
        metric,
        load,
        clients,
        values,
        history,
    })
}

fn headline(work: &str, runs: &[Entry], series: &[Series], rule: ChangeRule) -> Vec<String> {
    let mut sentences = Vec::new();
    for s in series {
        let Some(change) = s.history.changes.last() else {
            continue;
        };
        let at = number::counted(s.clients, "client");
        let direction = if s.latest_worse().is_some() {
            "worse"
        } else {
            "better"
        };
        let since = runs.get(change.index).map_or("?", |r| r.run.as_str());
        sentences.push(format!(
            "{}{} at {at} changed for the {direction}, by {} %, with run {since} (p {}).",
            s.load
                .as_ref()
                .map_or_else(String::new, |load| format!("{load}: ")),
            s.metric.label(),
            number::signed(100.0 * change.change, 1),
            change.p
        ));
    }
    if sentences.is_empty() {
        sentences.push(format!(
            "No change of {:.1} % or more is seen in {} of {work}.",
            100.0 * rule.magnitude,
            number::counted(runs.len() as u64, "run")
        ));
    }
    sentences
}

#[cfg(test)]
mod tests {
    use pgassay_model::workload::{Pace, ReplayPlan};

    use super::*;

    #[test]
    fn the_pace_and_the_speed_of_a_replay_are_part_of_the_work() {
        let at = |pace, speed| {
            done(&WorkloadPlan {
                replay: Some(ReplayPlan {
                    pace,
                    speed,
                    ..ReplayPlan::default()
                }),
                ..WorkloadPlan::default()
            })
        };
        let all = [
            done(&WorkloadPlan::default()),
            at(Pace::Original, 1.0),
            at(Pace::Original, 2.0),
            at(Pace::ThinkTimes, 1.0),
            at(Pace::ThinkTimes, 2.0),
            at(Pace::Closed, 1.0),
        ];
        for (n, one) in all.iter().enumerate() {
            assert!(!all[..n].contains(one), "{one}");
        }
    }
}

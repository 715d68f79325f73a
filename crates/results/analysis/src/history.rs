//! Many recorded runs of one plan over time: when did the level change?
//! What `pgassay history` answers.

use std::collections::BTreeMap;

use pgassay_model::stage::StageId;
use pgassay_model::warning::Warning;
use pgassay_model::workload::WorkloadPlan;
use serde::{Deserialize, Serialize};

use crate::analysis::Analysis;
use crate::measured::ArmAnalysis;
use crate::metrics::{METRICS, MetricId};
use crate::stats::history::{ChangePoint, ChangeRule, History, change_points};
use crate::stats::{Direction, Estimate};
use crate::{axes, curves, number};

/// Name and version of the serialized form.
pub const SCHEMA: &str = "pgassay/history/1";

/// The history of one plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunHistory {
    /// [`SCHEMA`].
    pub schema: String,
    /// What all runs did, in words.
    pub work: String,
    /// The rule that was set.
    pub rule: ChangeRule,
    /// The runs, oldest first.
    pub runs: Vec<Entry>,
    /// Runs that were given and did other work, varied more than clients, or measured nothing.
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Entry {
    /// Name of its directory.
    pub run: String,
    /// Start, UTC.
    pub started: String,
    /// Version of the server.
    pub server: String,
}

/// A run that is not part of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeftOut {
    /// Name of its directory.
    pub run: String,
    /// Why.
    pub why: String,
}

/// One metric at one client count, over the runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

/// A run as a history sees it: what the first server did at each number of clients.
#[derive(Debug, Clone, PartialEq)]
pub struct Past {
    /// Which run.
    pub entry: Entry,
    /// What it did, in words: runs of the same have a history.
    pub work: String,
    /// The processor's name.
    pub cpu_model: Option<String>,
    /// It has several servers, one for each value of what was varied beside clients: the first of them
    /// is not the run.
    pub varied: bool,
    /// Each variant of the load at each number of clients.
    pub places: Vec<Place>,
}

/// One number of clients of one variant.
#[derive(Debug, Clone, PartialEq)]
pub struct Place {
    /// Which variant of the load; none where it has one.
    pub load: Option<String>,
    /// Clients, or sessions.
    pub clients: u32,
    /// The metrics that were seen.
    pub metrics: BTreeMap<MetricId, Estimate>,
}

impl Past {
    /// What a history sees of an analysed run.
    pub fn of(run: &Analysis) -> Self {
        let curves = curves::of(run);
        let first = curves.iter().filter(|curve| curve.arm == 0);
        let places = first.flat_map(|curve| {
            curve.points.iter().map(|point| Place {
                load: curve.load.clone(),
                clients: point.clients,
                metrics: METRICS
                    .iter()
                    .filter_map(|metric| Some((*metric, point.metric(*metric)?)))
                    .collect(),
            })
        });
        let server = run.arms.first().and_then(|arm| arm.server.as_ref());
        Self {
            entry: Entry {
                run: run.run.id.clone(),
                started: run.run.started.clone(),
                server: server.map_or_else(String::new, |s| short_version(&s.version)),
            },
            work: work(run),
            cpu_model: run.host.cpu_model.clone(),
            varied: axes::has_several_servers(&run.arms),
            places: places.collect(),
        }
    }

    fn at(&self, load: Option<&String>, clients: u32) -> Option<&Place> {
        let mut places = self.places.iter();
        places.find(|place| place.load.as_ref() == load && place.clients == clients)
    }
}

/// The name and the number of what `version()` says.
pub fn short_version(version: &str) -> String {
    let words: Vec<&str> = version.split_whitespace().take(2).collect();
    words.join(" ")
}

/// Follows metrics over the runs that did the same work as the latest of them. The first
/// arm of each is taken; runs whose arms are the values of what was varied are left out.
pub fn history(mut runs: Vec<Past>, metrics: &[MetricId], rule: ChangeRule) -> RunHistory {
    runs.sort_by(|a, b| {
        let (a, b) = (&a.entry, &b.entry);
        a.started.cmp(&b.started).then(a.run.cmp(&b.run))
    });
    let latest = runs.iter().rev().find(|run| !run.varied).or(runs.last());
    let wanted = latest.map(|run| run.work.clone()).unwrap_or_default();
    let mut left_out = Vec::new();
    let mut kept = Vec::new();
    for run in runs {
        let why = if run.varied {
            Some(format!("its servers differ: it ran {}", run.work))
        } else if run.work != wanted {
            Some(format!("it ran {}", run.work))
        } else if run.places.is_empty() {
            Some("it measured nothing".to_owned())
        } else {
            None
        };
        match why {
            Some(why) => left_out.push(LeftOut {
                run: run.entry.run,
                why,
            }),
            None => kept.push(run),
        }
    }
    let mut series = Vec::new();
    for (load, clients) in places(&kept) {
        for metric in metrics {
            series.extend(follow(&kept, *metric, (load.clone(), clients), rule));
        }
    }
    let mut warnings = Vec::new();
    let hosts = kept.windows(2).any(|w| w[0].cpu_model != w[1].cpu_model);
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
    let entries: Vec<Entry> = kept.into_iter().map(|run| run.entry).collect();
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

/// What a run did, in words: runs of the same have a history.
pub(crate) fn work(run: &Analysis) -> String {
    let load = run.main();
    let workload = &load.plan.workload;
    if load.id != StageId::Load {
        return workload.name.clone();
    }
    done(workload, &run.arms)
}

/// What clients did, in words: how they went through a recording is a part of it, and so is what their
/// servers were given of each axis.
pub(crate) fn done(workload: &WorkloadPlan, arms: &[ArmAnalysis]) -> String {
    let replayed = workload.replay.as_ref();
    let replayed = replayed.map_or_else(String::new, |replay| format!(", {replay}"));
    let over = axes::values(arms).map_or_else(String::new, |values| format!(", with {values}"));
    let each_its_own = arms
        .iter()
        .any(|arm| arm.axes.iter().any(|value| value.axis == "scale"));
    let scale = match each_its_own {
        true => String::new(),
        false => format!(" at scale {}", workload.scale),
    };
    format!(
        "{}{scale}, {} protocol{replayed}{over}",
        workload.name, workload.protocol
    )
}

/// Which loads, at which counts.
fn places(runs: &[Past]) -> Vec<(Option<String>, u32)> {
    let places = runs.iter().flat_map(|run| &run.places);
    let mut places: Vec<(Option<String>, u32)> = places
        .map(|place| (place.load.clone(), place.clients))
        .collect();
    places.sort_unstable();
    places.dedup();
    places
}

fn follow(
    runs: &[Past],
    metric: MetricId,
    (load, clients): (Option<String>, u32),
    rule: ChangeRule,
) -> Option<Series> {
    let at = |run: &Past| {
        let place = run.at(load.as_ref(), clients)?;
        place.metrics.get(&metric).cloned()
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
    if runs.is_empty() {
        return vec!["There is no run to follow: the reason stands beside each.".to_owned()];
    }
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
            let workload = WorkloadPlan {
                replay: Some(ReplayPlan {
                    pace,
                    speed,
                    ..ReplayPlan::default()
                }),
                ..WorkloadPlan::default()
            };
            done(&workload, &[])
        };
        let all = [
            done(&WorkloadPlan::default(), &[]),
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

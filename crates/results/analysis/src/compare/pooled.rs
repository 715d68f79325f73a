//! The same comparison measured several times, on one machine or on many, taken together.
//!
//! What a run is pooled with must have asked the same question: the same targets, settings, workload,
//! lengths and δ. Serialized it is the document `pgassay/pool/1`.

use std::collections::BTreeMap;

use pgassay_model::comparison::{ComparisonPlan, Typed};
use pgassay_model::warning::Warning;
use serde::{Deserialize, Serialize};

use super::model::{Compare, Pair, PointResult};
use super::pairs::{self, by_launch};
use super::words::{as_good, signed, word};
use super::worst;
use crate::metrics::MetricId;
use crate::number;
use crate::stats::family::judge_family;
use crate::stats::paired::{Comparison, Unit, compare};
use crate::stats::pooled::{Pooled, Run, pool};
use crate::stats::{FEWEST, Verdict};

/// Name and version of the serialized form.
pub const SCHEMA: &str = "pgassay/pool/1";

/// Runs of one plan, pooled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PooledCompare {
    /// [`SCHEMA`].
    pub schema: String,
    /// Over all arms and points: the worst that was shown, else the least sure.
    pub verdict: Verdict,
    /// What was shown, in plain sentences.
    pub headline: Vec<String>,
    /// The workload.
    pub workload: String,
    /// What was typed for each arm.
    pub targets: Vec<Typed>,
    /// What the verdict is about.
    pub metric: MetricId,
    /// The smallest difference of it that matters.
    pub delta: f64,
    /// The runs, in the order named.
    pub runs: Vec<PooledRun>,
    /// One entry for each other arm and client count, against A.
    pub points: Vec<PooledPoint>,
    /// What qualifies the whole.
    pub warnings: Vec<Warning>,
}

/// One of the runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PooledRun {
    /// Its name.
    pub id: String,
    /// When it began.
    pub started: String,
    /// The processor, and how many CPUs of it.
    pub machine: String,
}

/// One arm against A at one client count.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PooledPoint {
    /// Index of the arm that is held against A.
    pub arm: u32,
    /// Its label.
    pub label: String,
    /// Clients.
    pub clients: u32,
    /// The compared metric, the other against A: the verdict.
    pub compared: Pooled,
    /// All other metrics that all runs show. They are not in the verdict's family.
    pub others: BTreeMap<MetricId, Pooled>,
}

/// Why runs can't be pooled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Fewer than two runs.
    #[error("pooling takes two runs or more")]
    TooFew,
    /// The same run twice.
    #[error("{0} is named twice: its pairs would count twice")]
    Twice(String),
    /// No interleaved comparison.
    #[error("{0} is no interleaved comparison: it has no pairs to pool")]
    NoPairs(String),
    /// Stopped at a look.
    #[error(
        "{0} was stopped by the sequential rule: how many pairs it has depends on what they showed"
    )]
    Sequential(String),
    /// Not comparable by itself.
    #[error("{id} is not comparable by itself: {why}")]
    NotComparable {
        /// The run.
        id: String,
        /// What voids it.
        why: String,
    },
    /// They asked different questions.
    #[error("{what} differs: {a} in {of_a} and {b} in {of_b}")]
    OtherPlan {
        /// What.
        what: &'static str,
        /// In the first run.
        a: String,
        /// The first run.
        of_a: String,
        /// In the other.
        b: String,
        /// The other.
        of_b: String,
    },
    /// No client count in common.
    #[error("the runs have no client count in common")]
    NoCommonPoint,
}

/// Pools concluded comparisons of one plan.
///
/// # Errors
/// Where they are not of one plan, or one of them has nothing to pool.
pub fn pool_runs(runs: &[Compare]) -> Result<PooledCompare, Refusal> {
    let [first, others @ ..] = runs else {
        return Err(Refusal::TooFew);
    };
    if others.is_empty() {
        return Err(Refusal::TooFew);
    }
    for (at, run) in runs.iter().enumerate() {
        usable(run)?;
        if runs[..at]
            .iter()
            .any(|earlier| earlier.analysis.run.id == run.analysis.run.id)
        {
            return Err(Refusal::Twice(run.analysis.run.id.clone()));
        }
    }
    for other in others {
        same_question(first, other)?;
    }
    let plan = first
        .plan
        .as_ref()
        .ok_or_else(|| Refusal::NoPairs(first.analysis.run.id.clone()))?;
    let mut points: Vec<PooledPoint> = first
        .results
        .iter()
        .filter_map(|result| point(runs, result, plan))
        .collect();
    if points.is_empty() {
        return Err(Refusal::NoCommonPoint);
    }
    if points.len() > 1 {
        let mut family: Vec<Comparison> =
            points.iter().map(|p| p.compared.together.clone()).collect();
        judge_family(&mut family);
        for (point, judged) in points.iter_mut().zip(family) {
            point.compared.together = judged;
        }
    }
    let mut pooled = PooledCompare {
        schema: SCHEMA.to_owned(),
        verdict: worst(points.iter().map(|p| p.compared.together.verdict)),
        headline: Vec::new(),
        workload: first.analysis.main().plan.workload.name.clone(),
        targets: plan.typed.clone(),
        metric: first.metric,
        delta: plan.delta,
        runs: runs.iter().map(described).collect(),
        warnings: warnings(runs, &points),
        points,
    };
    pooled.headline = headline(&pooled);
    Ok(pooled)
}

fn described(run: &Compare) -> PooledRun {
    let host = &run.analysis.host;
    let model = host.cpu_model.as_deref().unwrap_or("unknown processor");
    PooledRun {
        id: run.analysis.run.id.clone(),
        started: run.analysis.run.started.clone(),
        machine: match host.cpus {
            Some(cpus) => format!("{model}, {cpus} CPUs"),
            None => model.to_owned(),
        },
    }
}

fn usable(run: &Compare) -> Result<(), Refusal> {
    let id = || run.analysis.run.id.clone();
    let Some(plan) = &run.plan else {
        return Err(Refusal::NoPairs(id()));
    };
    if !plan.looks.is_empty() {
        return Err(Refusal::Sequential(id()));
    }
    let void = run
        .results
        .iter()
        .find(|r| r.compared.verdict == Verdict::NotComparable);
    if let Some(result) = void {
        let mut said = result.compared.ratio.warnings.iter().rev();
        let why = said.find(|w| w.id == "beyond-the-plan" || w.id == "setting-not-in-force");
        return Err(Refusal::NotComparable {
            id: id(),
            why: why.map_or("the arms differ beyond the plan".to_owned(), |w| {
                w.text.clone()
            }),
        });
    }
    Ok(())
}

/// Everything that the question consists of, each with its name.
fn question(run: &Compare) -> Vec<(&'static str, String)> {
    let plan = &run.analysis.main().plan;
    let work = &plan.workload;
    let comparison = run.plan.as_ref();
    let typed = comparison.map_or(Vec::new(), |plan| {
        let arms = plan.typed.iter();
        arms.map(|arm| {
            format!("{} {}", arm.target, arm.settings.join(" "))
                .trim_end()
                .to_owned()
        })
        .collect()
    });
    let versions: Vec<&str> = run
        .analysis
        .arms
        .iter()
        .map(|arm| {
            arm.server
                .as_ref()
                .map_or("unknown", |server| server.version.as_str())
        })
        .collect();
    vec![
        ("the targets and their settings", typed.join(" against ")),
        ("the server's version", versions.join(" against ")),
        (
            "the workload",
            format!("{} over the {} protocol", work.name, work.protocol),
        ),
        ("the scale", work.scale.to_string()),
        (
            "the workload's text or settings",
            serde_json::to_string(work).unwrap_or_default(),
        ),
        (
            "the slice",
            format!("{} ms after {} ms", plan.window_ms, plan.warmup_ms),
        ),
        (
            "the metric",
            comparison.map_or_else(String::new, |plan| plan.metric.clone()),
        ),
        (
            "δ",
            format!("{} %", 100.0 * comparison.map_or(0.0, |plan| plan.delta)),
        ),
        (
            "the unit",
            match comparison.map_or(1, |plan| plan.launches) {
                1 => "one launch".to_owned(),
                _ => "launches".to_owned(),
            },
        ),
    ]
}

fn same_question(first: &Compare, other: &Compare) -> Result<(), Refusal> {
    let differing = question(first)
        .into_iter()
        .zip(question(other))
        .find(|(a, b)| a != b);
    match differing {
        None => Ok(()),
        Some(((what, a), (_, b))) => Err(Refusal::OtherPlan {
            what,
            a,
            of_a: first.analysis.run.id.clone(),
            b,
            of_b: other.analysis.run.id.clone(),
        }),
    }
}

/// The point of every run that `like` is of the first; none where a run lacks it.
fn point(runs: &[Compare], like: &PointResult, plan: &ComparisonPlan) -> Option<PooledPoint> {
    let of_runs: Vec<&PointResult> = runs
        .iter()
        .map(|run| {
            let mut results = run.results.iter();
            results.find(|r| r.arm == like.arm && r.clients == like.clients)
        })
        .collect::<Option<_>>()?;
    let pooled = |metric: MetricId, noise: bool| {
        let runs: Vec<Run> = of_runs
            .iter()
            .map(|result| Run {
                pairs: units(&result.pairs, plan.launches, metric),
                noise: result
                    .noise_floor()
                    .filter(|_| noise)
                    .map(|floor| floor.pair_spread),
            })
            .collect();
        pool(&runs, pairs::rule(metric, plan.delta)).ok()
    };
    let mut compared = pooled(MetricId::find(&plan.metric).ok()?, true)?;
    if plan.launches > 1 {
        let all = compared.runs.iter_mut().chain([&mut compared.together]);
        all.filter(|c| c.unit == Unit::Pair)
            .for_each(|c| c.unit = Unit::Launch);
    }
    let others = like.others.keys();
    Some(PooledPoint {
        arm: like.arm,
        label: like.label.clone(),
        clients: like.clients,
        compared,
        others: others
            .filter_map(|metric| Some((*metric, pooled(*metric, false)?)))
            .collect(),
    })
}

/// What is ranked: the pairs, or where there were several launches one figure for each.
fn units(pairs: &[Pair], launches: u32, metric: MetricId) -> Vec<(f64, f64)> {
    let by_launch = by_launch(pairs, metric);
    if launches == 1 {
        return by_launch.concat();
    }
    let rule = pairs::rule(metric, 0.0);
    let centres = by_launch
        .iter()
        .filter_map(|pairs| compare(pairs, rule).ok());
    centres.map(|launch| (1.0, launch.ratio.estimate)).collect()
}

fn warnings(runs: &[Compare], points: &[PooledPoint]) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let few = runs.len() < FEWEST;
    if few {
        warnings.push(Warning::new(
            "few-runs",
            format!(
                "{}: this speaks of these machines and occasions, ranked within each run. From \
                 {FEWEST} runs on the run is the unit, and it speaks of others like them.",
                number::counted(runs.len() as u64, "run")
            ),
        ));
    }
    let left: Vec<String> = runs
        .iter()
        .flat_map(|run| &run.results)
        .filter(|r| {
            !points
                .iter()
                .any(|p| (p.arm, p.clients) == (r.arm, r.clients))
        })
        .map(|r| r.clients.to_string())
        .collect();
    if !left.is_empty() {
        let mut counts = left;
        counts.sort();
        counts.dedup();
        warnings.push(Warning::new(
            "points-left-out",
            format!(
                "client counts that not all runs have were left out: {}.",
                counts.join(", ")
            ),
        ));
    }
    for run in runs {
        let told = [
            "incomplete",
            "steal",
            "others-busy",
            "throttled",
            "on-battery",
            "not-alone",
        ];
        for warning in run
            .warnings
            .iter()
            .filter(|w| told.contains(&w.id.as_str()))
        {
            let text = format!("{}: {}", run.analysis.run.id, warning.text);
            warnings.push(Warning::new(&warning.id, text));
        }
    }
    warnings
}

fn headline(pooled: &PooledCompare) -> Vec<String> {
    let runs = pooled.runs.len();
    pooled
        .points
        .iter()
        .map(|point| {
            let together = &point.compared.together;
            let ratio = &together.ratio;
            let clients = number::counted(point.clients, "client");
            let b = &point.label;
            let said = match together.verdict {
                Verdict::Faster | Verdict::Slower => {
                    format!("{b} is {} than A", word(pooled.metric, together.verdict))
                }
                Verdict::Equivalent => format!(
                    "{b} is {} A within {} %",
                    as_good(pooled.metric),
                    100.0 * pooled.delta
                ),
                _ if point.compared.agreement.is_some_and(|a| a.disagree()) => {
                    format!("The runs disagree on {b} and A")
                }
                _ => format!("Inconclusive on {b} and A"),
            };
            let what = match pooled.metric == MetricId::default() {
                true => String::new(),
                false => format!("{} ", pooled.metric.heading),
            };
            format!(
                "{said} at {clients}: {what}{} ({} to {}; {runs} runs, {} pairs).",
                signed(ratio.estimate),
                signed(ratio.low),
                signed(ratio.high),
                together.pairs
            )
        })
        .collect()
}

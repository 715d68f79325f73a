//! Comparing: from a recorded run of several arms to a verdict.
//!
//! [`pgassay_model::comparison`] says what a comparison measures, [`conclude`] what it showed
//! ([`model`]). Two runs that were not interleaved go through [`recorded`].

pub mod model;
pub mod pooled;
pub mod recorded;

mod beyond;
mod pairs;
mod plans;
mod statements;
mod words;

use std::collections::{BTreeMap, BTreeSet};

use pgassay_model::comparison::{ComparisonPlan, Phase};
use pgassay_model::record::RecordedRun;
use pgassay_model::run::{EndState, EventKind};
use pgassay_model::warning::Warning;

use crate::analyse::{Scope, analyse_within};
use crate::analysis::Analysis;
use crate::fit;
use crate::metrics::{METRICS, MetricId};
use crate::stats::family::judge_family;
use crate::stats::scaling_change::ScalingChange;
use crate::stats::sequential::{Decision, Sequential};
use crate::stats::{
    Caveat, Comparison, Forecast, StatsError, Verdict, forecast, paired, summarize_positive,
};

pub use model::Compare;
pub use words::{companion, in_short, signed, word};

/// Concludes what a comparison showed; none where the run is no comparison or no
/// pair was measured.
pub fn conclude(run: &RecordedRun) -> Option<Compare> {
    let comparison = run.comparison.as_ref()?;
    let analysis = of_pairs(run, comparison);
    let plan = run.plan();
    let metric = metric_of(comparison)?;
    let mut results = Vec::new();
    for arm in comparison.others() {
        // A's like stands at the first place only.
        let has_floor = comparison.against(arm) == 0;
        for (point, at) in (0u32..).zip(&plan.points) {
            let pairs = pairs::pairs(run, comparison, Phase::Pairs, arm, point);
            let noise = match has_floor {
                true => pairs::pairs(run, comparison, Phase::Noise, comparison.like_a(), point),
                false => Vec::new(),
            };
            let Ok(compared) = compared(run, comparison, metric, &pairs) else {
                continue;
            };
            let floor = pairs::noise_floor(&noise, metric);
            let forecast = pairs::floor_of_pairs(&noise, metric)
                .and_then(|floor| forecast(&floor, comparison.delta, comparison.power));
            let (a, b): (Vec<f64>, Vec<f64>) = pairs.iter().filter_map(|p| p.both(metric)).unzip();
            let statements = statements::of_pairs(run, comparison, arm, point);
            results.push(model::PointResult {
                arm,
                label: run.header.experiment.arms[arm as usize].label.clone(),
                clients: at.clients,
                axes: comparison.typed[arm as usize].axes.clone(),
                compared: compared.with_noise_floor(floor),
                others: others(&pairs, comparison),
                a: summarize_positive(&a),
                b: summarize_positive(&b),
                forecast,
                statements_cpu: statements::held(run, comparison, (arm, point), &statements),
                statements,
                pairs,
                noise,
            });
        }
    }
    if results.is_empty() {
        return None;
    }
    results.sort_by_key(|r| (r.arm, r.clients));
    judge(&mut results);
    statements::judge(&mut results);
    let differences: Vec<model::Difference> = comparison
        .others()
        .flat_map(|arm| beyond::differences(run, comparison, &analysis, arm))
        .collect();
    void(run, &differences, &mut results);
    let mut compare = Compare {
        schema: model::SCHEMA.to_owned(),
        metric,
        verdict: worst(results.iter().map(|r| r.compared.verdict)),
        headline: Vec::new(),
        plan: Some(comparison.clone()),
        scaling: match comparison.places {
            1 => scaling(&analysis),
            // `fit` has each server's law over CPUs.
            _ => Vec::new(),
        },
        warnings: warnings(comparison, &results, &analysis),
        results,
        differences,
        analysis,
    };
    compare.headline = words::headline(&compare);
    Some(compare)
}

/// Pairs measured so far and whether a sequential comparison may stop.
///
/// # Errors
/// Where the looks make no sense.
pub fn may_stop(run: &RecordedRun) -> Result<bool, StatsError> {
    let Some(comparison) = run.comparison.as_ref().filter(|c| !c.looks.is_empty()) else {
        return Ok(false);
    };
    let Some(metric) = metric_of(comparison) else {
        return Ok(false);
    };
    let pairs = pairs::pairs(run, comparison, Phase::Pairs, 1, 0);
    let plain = pairs::by_launch(&pairs, metric).concat();
    let rule = sequential(run, comparison, metric)?;
    Ok(matches!(rule.decide(&plain)?, Decision::Stop { .. }))
}

/// How long it takes to show δ, by the noise floor measured so far: the most
/// demanding point's.
pub fn forecast_so_far(run: &RecordedRun) -> Option<Forecast> {
    let comparison = run.comparison.as_ref()?;
    let plan = run.plan();
    let (like, metric) = (comparison.like_a(), metric_of(comparison)?);
    (0..plan.points.len() as u32)
        .filter_map(|point| {
            let noise = pairs::pairs(run, comparison, Phase::Noise, like, point);
            let floor = pairs::floor_of_pairs(&noise, metric)?;
            forecast(&floor, comparison.delta, comparison.power)
        })
        .max_by_key(|f| f.pairs_promised)
}

/// The spread of a pair of equal servers, by the noise floor measured so far: the
/// largest of the points'.
pub fn spread_so_far(run: &RecordedRun) -> Option<f64> {
    let comparison = run.comparison.as_ref()?;
    let plan = run.plan();
    let (like, metric) = (comparison.like_a(), metric_of(comparison)?);
    (0..plan.points.len() as u32)
        .filter_map(|point| {
            let noise = pairs::pairs(run, comparison, Phase::Noise, like, point);
            Some(pairs::floor_of_pairs(&noise, metric)?.pair_spread)
        })
        .max_by(f64::total_cmp)
}

/// What the verdict is about; none where this program has no such metric.
fn metric_of(comparison: &ComparisonPlan) -> Option<MetricId> {
    MetricId::find(&comparison.metric).ok()
}

fn sequential(
    run: &RecordedRun,
    comparison: &ComparisonPlan,
    metric: MetricId,
) -> Result<Sequential, StatsError> {
    let looks = comparison.looks.iter().map(|n| *n as usize).collect();
    Sequential::new(
        pairs::rule(metric, comparison.delta),
        looks,
        run.plan().seed,
    )
}

fn compared(
    run: &RecordedRun,
    comparison: &ComparisonPlan,
    metric: MetricId,
    pairs: &[model::Pair],
) -> Result<Comparison, StatsError> {
    let rule = pairs::rule(metric, comparison.delta);
    if comparison.looks.is_empty() {
        return pairs::compare(pairs, comparison.launches, metric, comparison.delta);
    }
    let plain = pairs::by_launch(pairs, metric).concat();
    // The look at which it was stopped is the last that there are pairs for.
    let look = comparison
        .looks
        .iter()
        .rev()
        .find(|n| **n as usize <= plain.len());
    if let Some(look) = look
        && let Decision::Stop { comparison, .. } =
            sequential(run, comparison, metric)?.decide(&plain[..*look as usize])?
    {
        return Ok(*comparison);
    }
    let mut so_far = paired::compare(&plain, rule)?;
    so_far.verdict = Verdict::Inconclusive;
    so_far.warn(Warning::new(
        "stopped-between-looks",
        "stopped before one of the looks that were planned: nothing is decided",
    ));
    Ok(so_far)
}

/// Every other metric, compared likewise; one that is zero throughout says nothing.
fn others(pairs: &[model::Pair], comparison: &ComparisonPlan) -> BTreeMap<MetricId, Comparison> {
    let shown = METRICS.iter().filter(|metric| {
        let mut values = pairs.iter().filter_map(|pair| pair.both(**metric));
        metric.id != comparison.metric && values.any(|(a, b)| a > 0.0 || b > 0.0)
    });
    shown
        .filter_map(|metric| {
            let (launches, delta) = (comparison.launches, comparison.delta);
            let compared = pairs::compare(pairs, launches, *metric, delta).ok()?;
            Some((*metric, compared))
        })
        .collect()
}

/// Whether the noise pairs so far show the metric that is to be compared; `None` before there are any.
pub fn shows_metric(run: &RecordedRun) -> Option<bool> {
    let comparison = run.comparison.as_ref()?;
    let points = 0..run.plan().points.len() as u32;
    let like = comparison.like_a();
    let mut noise =
        points.flat_map(|point| pairs::pairs(run, comparison, Phase::Noise, like, point));
    let first = noise.next()?;
    let mut all = std::iter::once(first).chain(noise);
    let metric = metric_of(comparison)?;
    Some(all.any(|pair| pair.both(metric).is_some()))
}

/// What the pairs of the compared arms say by themselves.
fn of_pairs(run: &RecordedRun, comparison: &ComparisonPlan) -> Analysis {
    let each = comparison.pairs.unwrap_or(comparison.most_pairs);
    let mut trials = each.saturating_mul(comparison.launches);
    // A sequential comparison that stopped at a look is whole.
    let complete = run
        .end
        .as_ref()
        .is_some_and(|e| e.state == EndState::Complete);
    if complete && !comparison.looks.is_empty() {
        let measured = run.trials.iter().map(|t| t.slice.round);
        let rounds = measured
            .filter(|round| comparison.phase_of(*round) == Phase::Pairs)
            .collect::<BTreeSet<u32>>();
        trials = rounds.len() as u32;
    }
    analyse_within(&Scope {
        run,
        arms: comparison.compared() as usize,
        keeps: &|round| comparison.phase_of(round) == Phase::Pairs,
        trials: Some(trials),
        // The noise's transactions are in the server's counters and not in these trials.
        counters: false,
    })
}

/// Holm's correction over all arms and points.
fn judge(results: &mut [model::PointResult]) {
    let mut family: Vec<Comparison> = results.iter().map(|r| r.compared.clone()).collect();
    if family.len() > 1 {
        judge_family(&mut family);
    }
    for (result, judged) in results.iter_mut().zip(family) {
        result.compared = judged;
    }
}

/// Takes the verdict away where an arm differs beyond the plan.
fn void(run: &RecordedRun, differences: &[model::Difference], results: &mut [model::PointResult]) {
    let mismatched = run.events.iter().find_map(|event| match &event.what {
        EventKind::Warned { warning } if warning.id == "setting-not-in-force" => Some(warning),
        _ => None,
    });
    for result in results {
        let beyond = differences
            .iter()
            .find(|d| d.arm == result.arm && !d.planned);
        let why = match (beyond, mismatched) {
            (Some(d), _) => Warning::new("beyond-the-plan", words::beyond(d)),
            (None, Some(warning)) => warning.clone(),
            (None, None) => continue,
        };
        for statement in &mut result.statements {
            let compared = statement.compared.take();
            statement.compared = compared.map(|compared| compared.not_comparable(why.clone()));
        }
        let comparison = result.compared.clone().not_comparable(why);
        result.compared = comparison;
    }
}

/// The verdict over several: what must not be missed comes first.
pub(crate) fn worst(verdicts: impl Iterator<Item = Verdict>) -> Verdict {
    let rank = |v: &Verdict| match v {
        Verdict::NotComparable => 0,
        Verdict::Slower => 1,
        Verdict::Inconclusive => 2,
        Verdict::Faster => 3,
        Verdict::Equivalent => 4,
    };
    verdicts.min_by_key(rank).unwrap_or(Verdict::Inconclusive)
}

fn warnings(
    comparison: &ComparisonPlan,
    results: &[model::PointResult],
    analysis: &Analysis,
) -> Vec<Warning> {
    let mut warnings: Vec<Warning> = analysis.warnings.clone();
    if comparison.same {
        warnings.push(Warning::new(
            "same-target",
            "Both targets are the same: an A/A run. Any difference would be a false alarm.",
        ));
    }
    if comparison.launches == 1 && !comparison.same {
        warnings.push(Warning::new(
            "one-launch",
            "One launch each: it holds for these processes (--launches 6).",
        ));
    }
    let others = analysis.main().arms.iter().flat_map(|arm| &arm.points);
    let busy = others
        .filter(|point| point.warnings.iter().any(|w| w.id == "others-busy"))
        .count();
    if busy > 0 {
        warnings.push(
            Warning::new(
                "others-busy",
                "Other processes used much CPU: intervals are wide, absolute figures too low.",
            )
            .with_remedy("measure again when the machine is quiet"),
        );
    }
    // the spread while the arms were compared, against that before
    let grown = results.iter().filter_map(|result| {
        let before = result.noise_floor()?.pair_spread;
        let meanwhile = result.compared.spread?;
        let (n, m) = (result.noise.len(), result.pairs.len());
        (comparison.launches == 1 && n >= 10 && m >= 10 && meanwhile > 1.6 * before)
            .then_some((before, meanwhile))
    });
    if let Some((before, meanwhile)) = grown.max_by(|x, y| x.1.total_cmp(&y.1)) {
        warnings.push(Warning::new(
            "noise-grew",
            format!(
                "The machine was less steady than when the noise floor was measured: pairs spread \
                 by {:.1} % instead of {:.1} %, so the forecast of the time needed was too short.",
                100.0 * meanwhile,
                100.0 * before
            ),
        ));
    }
    if comparison.launches == 1
        && results.iter().any(|r| {
            r.compared
                .ratio
                .warnings
                .iter()
                .any(|w| *w == Caveat::NoiseFloorShifted)
        })
    {
        warnings.push(Warning::new(
            "equal-servers-differ",
            "Two servers started from the same target differed from each other: what a start is \
             lucky with is in the difference, too.",
        )
        .with_remedy("for a claim about builds or settings: --launches 6 or more"));
    }
    warnings
}

/// Whether the scaling law's coefficients changed, for each other arm.
fn scaling(analysis: &Analysis) -> Vec<model::ArmScaling> {
    let swept = analysis.main().arms.iter().any(|arm| arm.points.len() > 1);
    if !swept {
        return Vec::new();
    }
    let fits = fit::fit(analysis).arms;
    let Some((a, others)) = fits.split_first() else {
        return Vec::new();
    };
    let labelled = (1u32..).zip(others);
    labelled
        .map(|(arm, b)| {
            let change = match (&a.scaling, &b.scaling) {
                (Some(a), Some(b)) => Some(ScalingChange::between(a, b)),
                _ => None,
            };
            let refused = a
                .refused
                .as_ref()
                .map(|why| format!("{}: {why}", a.label))
                .or_else(|| b.refused.as_ref().map(|why| format!("{}: {why}", b.label)));
            model::ArmScaling {
                arm,
                label: b.label.clone(),
                words: change
                    .as_ref()
                    .map(|c| words::scaling(c, &b.label))
                    .unwrap_or_default(),
                change,
                refused,
            }
        })
        .collect()
}

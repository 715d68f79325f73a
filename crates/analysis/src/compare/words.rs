//! The verdict in plain sentences: what anyone can read first.

use super::model::{Compare, Difference, Kind, PointResult};
use crate::stats::paired::Unit;
use crate::stats::scaling_change::ScalingChange;
use crate::stats::{Comparison, Estimate, Verdict};

/// Warnings that the verdict itself must carry: they say that the machine, not the
/// arms, may be what was measured.
const IN_THE_VERDICT: &[&str] = &[
    "steal",
    "not-alone",
    "throttled",
    "on-battery",
    "equal-servers-differ",
    "noise-grew",
    "incomplete",
];

/// The most important sentences.
pub fn headline(compare: &Compare) -> Vec<String> {
    let mut sentences: Vec<String> = Vec::new();
    let workload = &compare.analysis.plan.workload.name;
    // The result that decided comes first.
    let mut results: Vec<&PointResult> = compare.results.iter().collect();
    results.sort_by_key(|r| r.throughput.verdict != compare.verdict);
    for result in results {
        sentences.push(sentence(result, workload));
    }
    sentences.truncate(6);
    if let Some(plan) = &compare.plan {
        sentences.push(match (plan.same, plan.launches) {
            (true, _) => "Both targets are the same: this is an A/A run, which shows what this \
                          machine calls different by itself."
                .to_owned(),
            (false, 1) => "One launch of each: this speaks of these two servers, not yet of the \
                           builds or settings (--launches 6 does)."
                .to_owned(),
            (false, n) => format!(
                "Each was made and started {n} times, initdb apart: the interval is over launches."
            ),
        });
    }
    sentences.extend(compare.results.first().and_then(cpu_sentence));
    for warning in &compare.warnings {
        if IN_THE_VERDICT.contains(&warning.id.as_str()) {
            sentences.push(warning.text.clone());
        }
    }
    sentences
}

fn sentence(result: &PointResult, workload: &str) -> String {
    let comparison = &result.throughput;
    let (b, at) = (&result.label, clients(result.clients));
    let delta = percent(comparison.rule.delta);
    let interval = format!(
        "{} to {}, {:.0} % interval",
        signed(comparison.ratio.low),
        signed(comparison.ratio.high),
        100.0 * comparison.ratio.level
    );
    let basis = basis(comparison);
    let by = percent((comparison.ratio.estimate - 1.0).abs());
    match comparison.verdict {
        Verdict::Faster => format!(
            "{b} is faster than A: {by} more {workload} transactions a second at {at} ({interval}; {basis})."
        ),
        Verdict::Slower => format!(
            "{b} is slower than A: {by} fewer {workload} transactions a second at {at} ({interval}; {basis})."
        ),
        Verdict::Equivalent => format!(
            "{b} is as fast as A within {delta} at {at}: {workload} throughput differs by {} ({interval}; {basis}).",
            signed(comparison.ratio.estimate)
        ),
        Verdict::Inconclusive => format!(
            "Inconclusive at {at}: neither a difference between {b} and A nor their being equal \
             within {delta} was shown; {workload} throughput of {b} is {} ({interval}; {basis}).{}",
            signed(comparison.ratio.estimate),
            why_not(result)
        ),
        Verdict::NotComparable => {
            let why = comparison
                .ratio
                .warnings
                .iter()
                .rev()
                .find(|w| w.id == "beyond-the-plan" || w.id == "setting-not-in-force");
            format!(
                "{b} and A can't be compared at {at}: {}",
                why.map_or("they differ beyond the plan.", |w| w.text.as_str())
            )
        }
    }
}

/// What an inconclusive comparison would have needed.
fn why_not(result: &PointResult) -> String {
    let comparison = &result.throughput;
    if comparison.unit == Unit::Pair && comparison.pairs < 6 {
        return format!(
            " {} pairs can't show anything at 95 %, whatever they say: 6 or more are needed.",
            comparison.pairs
        );
    }
    if comparison.unit == Unit::Launch && comparison.ratio.n < 6 {
        return format!(
            " {} launches can't show anything at 95 %: 6 or more are needed.",
            comparison.ratio.n
        );
    }
    match &result.forecast {
        Some(forecast) if forecast.pairs_promised > comparison.pairs as u64 => format!(
            " By the noise floor {} pairs would show {}.",
            forecast.pairs_promised,
            percent(forecast.delta)
        ),
        _ => String::new(),
    }
}

fn basis(comparison: &Comparison) -> String {
    match comparison.unit {
        Unit::Pair => format!("{} pairs", comparison.pairs),
        Unit::Launch => format!(
            "{} launches, {} pairs",
            comparison.ratio.n, comparison.pairs
        ),
        Unit::Run => format!("{} runs a side", comparison.ratio.n),
        Unit::Trial => format!("{} trials a side, not interleaved", comparison.ratio.n),
    }
}

/// What a transaction costs the server: a figure that others' work bends less.
fn cpu_sentence(result: &PointResult) -> Option<String> {
    let cpu = result.server_cpu.as_ref()?;
    let shown = match cpu.verdict {
        Verdict::Faster | Verdict::Slower => "",
        Verdict::Equivalent => ", which is the same within the difference that matters",
        _ => ", which is not told apart from no difference",
    };
    Some(format!(
        "Server CPU time for each transaction at {}: {} in {} against A ({} to {}){shown}.",
        clients(result.clients),
        signed(cpu.ratio.estimate),
        result.label,
        signed(cpu.ratio.low),
        signed(cpu.ratio.high),
    ))
}

/// Why a difference voids the comparison.
pub fn beyond(difference: &Difference) -> String {
    let Difference { name, a, b, .. } = difference;
    let what = match difference.kind {
        Kind::Plan => format!("the plan of `{name}` is {a} in one and {b} in the other"),
        Kind::Misses => format!("{name}: {a} in A and {b} in the other"),
        Kind::Data => format!("the table {name} has {a} in A and {b} in the other"),
        _ => format!("{name} is {a} in A and {b} in the other"),
    };
    format!("they differ beyond what was asked for: {what}.")
}

/// Whether contention and coherence changed.
pub fn scaling(change: &ScalingChange, label: &str) -> Vec<String> {
    let say = |name: &str, e: &Estimate, changed: bool| {
        let ends = format!("{:+.4} ({:+.4} to {:+.4})", e.estimate, e.low, e.high);
        match changed {
            true if e.estimate > 0.0 => format!("{name} is higher in {label}: by {ends}."),
            true => format!("{name} is lower in {label}: by {ends}."),
            false => format!("{name} was not shown to differ: {ends}."),
        }
    };
    vec![
        say("Contention (σ)", &change.sigma, change.sigma_changed()),
        say("Coherence (κ)", &change.kappa, change.kappa_changed()),
    ]
}

pub(super) fn clients(n: u32) -> String {
    match n {
        1 => "1 client".to_owned(),
        n => format!("{n} clients"),
    }
}

/// `+1.2 %` of a ratio of 1.012.
pub fn signed(ratio: f64) -> String {
    let percent = 100.0 * (ratio - 1.0);
    match percent.abs() {
        p if !p.is_finite() => "without bound".to_owned(),
        p if p < 0.005 => "0.00 %".to_owned(),
        p if p < 1.0 => format!("{percent:+.2} %"),
        p if p < 100.0 => format!("{percent:+.1} %"),
        _ => format!("{percent:+.0} %"),
    }
}

fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    match percent {
        p if p < 1.0 => format!("{p:.2} %").replace(".00 %", " %"),
        p if p < 100.0 => format!("{p:.1} %").replace(".0 %", " %"),
        p => format!("{p:.0} %"),
    }
}

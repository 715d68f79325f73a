//! The verdict in plain sentences: what anyone can read first.

use pgassay_model::stage::Work;

use super::model::{Compare, Difference, Kind, PointResult, StatementResult};
use crate::metrics::{MetricId, SERVER_CPU, THROUGHPUT};
use crate::number;
use crate::stats::forecast::more_in_launches;
use crate::stats::paired::Unit;
use crate::stats::scaling_change::ScalingChange;
use crate::stats::{Estimate, Verdict};

/// Warnings that the verdict itself must carry: they say that the machine, not the
/// arms, may be what was measured.
const IN_THE_VERDICT: &[&str] = &[
    "same-target",
    "one-launch",
    "steal",
    "others-busy",
    "not-alone",
    "throttled",
    "on-battery",
    "equal-servers-differ",
    "noise-grew",
    "incomplete",
];

/// What was counted, and who did it.
#[derive(Clone, Copy)]
struct Names {
    work: Work,
    metric: MetricId,
}

impl Names {
    /// `p99 latency −3.0 %`, `throughput 5.1×`.
    fn differs(self, ratio: f64) -> String {
        match ratio >= 2.0 {
            true => format!("{} {ratio:.1}×", self.metric.heading),
            false => format!("{} {}", self.metric.heading, signed(ratio)),
        }
    }

    fn clients(self, n: u32) -> String {
        number::counted(n, self.work.who)
    }
}

/// The most important sentences, the verdict first.
pub fn headline(compare: &Compare) -> Vec<String> {
    let workload = Names {
        work: compare.analysis.main().id.work(),
        metric: compare.metric,
    };
    let mut sentences = match compare.results.as_slice() {
        [one] => vec![sentence(one, workload)],
        several => by_verdict(compare, several, workload),
    };
    match &compare.plan {
        Some(plan) if plan.launches > 1 => {
            sentences.push(format!("{} launches of each.", plan.launches))
        }
        _ => {}
    }
    let decisive = compare
        .results
        .iter()
        .find(|r| r.compared.verdict == compare.verdict);
    sentences.extend(decisive.and_then(|r| companion_sentence(r, workload)));
    sentences.extend(statements(compare));
    for warning in &compare.warnings {
        if IN_THE_VERDICT.contains(&warning.id.as_str()) {
            sentences.push(warning.text.clone());
        }
    }
    sentences
}

/// Statements that changed are named up to so many.
const NAMED: usize = 3;
/// Characters of a statement in a sentence.
const OF_A_STATEMENT: usize = 80;

/// Which statements changed, where they were measured one by one.
fn statements(compare: &Compare) -> Option<String> {
    let mut all: Vec<(&PointResult, &StatementResult)> = Vec::new();
    for result in &compare.results {
        all.extend(
            result
                .statements
                .iter()
                .map(|statement| (result, statement)),
        );
    }
    if all.is_empty() || compare.verdict == Verdict::NotComparable {
        return None;
    }
    let several = compare.results.len() > 1;
    let (n, of) = (
        all.len(),
        if several {
            "points of statements"
        } else {
            "statements"
        },
    );
    all.retain(|(_, statement)| statement.changed());
    if all.is_empty() {
        return Some(format!(
            "None of {n} {of} was shown to take more or less time, and none is planned otherwise."
        ));
    }
    let named = all.iter().take(NAMED).map(|(result, statement)| {
        let at = match several {
            true => format!(" ({}, {} clients)", result.label, result.clients),
            false => String::new(),
        };
        format!(
            "{}{at} {}",
            in_short(&statement.text),
            what_changed(statement)
        )
    });
    let named = named.collect::<Vec<_>>().join("; ");
    let more = match all.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    Some(format!("{} of {n} {of} changed: {named}{more}.", all.len()))
}

/// The beginning of a statement in quotes.
pub fn in_short(text: &str) -> String {
    match text.char_indices().nth(OF_A_STATEMENT) {
        Some((end, _)) => format!("`{}…`", text[..end].trim_end()),
        None => format!("`{text}`"),
    }
}

/// `takes 35.2 times as long (34.1 to 36.0), by Seq Scan on t instead of Index Scan on t using i`.
fn what_changed(statement: &StatementResult) -> String {
    let took = statement.compared.as_ref().map(|compared| {
        let ratio = &compared.ratio;
        let ends = format!("{} to {}", signed(ratio.low), signed(ratio.high));
        match (compared.verdict, ratio.estimate) {
            (Verdict::Slower, r) if r >= 2.0 => {
                format!(
                    "takes {r:.1} times as long ({:.1} to {:.1})",
                    ratio.low, ratio.high
                )
            }
            (Verdict::Slower, r) => format!("takes {} longer ({ends})", percent(r - 1.0)),
            (Verdict::Faster, r) => format!("takes {} less time ({ends})", percent(1.0 - r)),
            _ if ratio.low > 1.0 => format!("seems to take longer ({ends}; more pairs would tell)"),
            _ if ratio.high < 1.0 => {
                format!("seems to take less time ({ends}; more pairs would tell)")
            }
            _ => format!("was not shown to take longer or less ({ends})"),
        }
    });
    let took = took.unwrap_or_else(|| "did not run on both".to_owned());
    let took = match cpu_changed(statement) {
        Some(cpu) if matches!(statement.verdict(), Some(Verdict::Slower | Verdict::Faster)) => {
            format!("{took} and {cpu}")
        }
        Some(cpu) => format!("{took}, but takes {cpu}"),
        None => took,
    };
    match statement.plan.as_ref().filter(|plan| plan.changed()) {
        Some(plan) => format!("{took}, by {} instead of {}", plan.b, plan.a),
        None => took,
    }
}

/// `takes 12% more CPU time (+9% to +15%)`, where that was shown.
fn cpu_changed(statement: &StatementResult) -> Option<String> {
    let ratio = &statement.cpu_compared()?.ratio;
    let ends = format!("{} to {}", signed(ratio.low), signed(ratio.high));
    match statement.cpu_verdict()? {
        Verdict::Slower if ratio.estimate >= 2.0 => Some(format!(
            "{:.1} times the CPU time ({:.1} to {:.1})",
            ratio.estimate, ratio.low, ratio.high
        )),
        Verdict::Slower => Some(format!(
            "{} more CPU time ({ends})",
            percent(ratio.estimate - 1.0)
        )),
        Verdict::Faster => Some(format!(
            "{} less CPU time ({ends})",
            percent(1.0 - ratio.estimate)
        )),
        _ => None,
    }
}

/// One sentence for each verdict that was reached, that of the whole first.
fn by_verdict(compare: &Compare, results: &[PointResult], names: Names) -> Vec<String> {
    let order = [
        compare.verdict,
        Verdict::NotComparable,
        Verdict::Slower,
        Verdict::Inconclusive,
        Verdict::Faster,
        Verdict::Equivalent,
    ];
    let mut sentences = Vec::new();
    for (i, verdict) in order.iter().enumerate() {
        if order[..i].contains(verdict) {
            continue;
        }
        let mut labels: Vec<&str> = Vec::new();
        for result in results.iter().filter(|r| r.compared.verdict == *verdict) {
            if !labels.contains(&result.label.as_str()) {
                labels.push(&result.label);
            }
        }
        for label in labels {
            let of_arm: Vec<&PointResult> = results
                .iter()
                .filter(|r| r.compared.verdict == *verdict && r.label == label)
                .collect();
            sentences.push(match of_arm.as_slice() {
                [one] => sentence(one, names),
                several => together(several, label, names, *verdict),
            });
        }
    }
    sentences
}

/// Several points of one arm that share a verdict.
fn together(results: &[&PointResult], b: &str, names: Names, verdict: Verdict) -> String {
    let points: Vec<String> = results
        .iter()
        .map(|r| {
            let ratio = &r.compared.ratio;
            format!(
                "{} at {} ({} to {})",
                signed(ratio.estimate),
                names.clients(r.clients),
                signed(ratio.low),
                signed(ratio.high)
            )
        })
        .collect();
    let points = points.join(", ");
    let delta = results.first().map_or(0.0, |r| r.compared.rule.delta);
    let (delta, heading) = (percent(delta), names.metric.heading);
    match verdict {
        Verdict::Faster | Verdict::Slower => {
            let is = word(names.metric, verdict);
            format!("{b} is {is}: {heading} {points} (as one family).")
        }
        Verdict::Equivalent => {
            format!("{b} equals A within {delta}: {heading} {points} (as one family).")
        }
        Verdict::Inconclusive => {
            format!("Inconclusive: {heading} of {b} {points} (as one family).")
        }
        Verdict::NotComparable => results
            .first()
            .map(|r| sentence(r, names))
            .unwrap_or_default(),
    }
}

fn sentence(result: &PointResult, names: Names) -> String {
    let comparison = &result.compared;
    let (b, at) = (&result.label, names.clients(result.clients));
    let ratio = &comparison.ratio;
    let differs = names.differs(ratio.estimate);
    let interval = format!("{} to {}", signed(ratio.low), signed(ratio.high));
    match comparison.verdict {
        Verdict::Faster | Verdict::Slower => {
            let is = word(names.metric, comparison.verdict);
            format!("{b} is {is}: {differs}, {at} ({interval}).")
        }
        Verdict::Equivalent => format!(
            "{b} equals A within {}: {differs}, {at} ({interval}).",
            percent(comparison.rule.delta)
        ),
        Verdict::Inconclusive => format!(
            "Inconclusive: {differs} in {b}, {at} ({interval}).{}",
            why_not(result)
        ),
        Verdict::NotComparable => {
            let why = ratio
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
    let comparison = &result.compared;
    if comparison.unit == Unit::Pair && comparison.pairs < 6 {
        return format!(
            " {} can't show anything: 6 or more are needed.",
            number::counted(comparison.pairs as u64, "pair")
        );
    }
    if comparison.unit == Unit::Launch && comparison.ratio.n < 6 {
        return format!(
            " {} launches can't show anything: 6 or more are needed.",
            comparison.ratio.n
        );
    }
    let Some(forecast) = &result.forecast else {
        return String::new();
    };
    // As it was said before the first pair.
    let (more, within) = match comparison.unit {
        Unit::Launch => (
            more_in_launches(comparison.ratio.n as u32),
            format!(" in {} launches", comparison.ratio.n),
        ),
        _ => (1.0, String::new()),
    };
    let needed = (forecast.pairs_promised as f64 * more).ceil() as u64;
    if needed <= comparison.pairs as u64 {
        return String::new();
    }
    format!(
        " About {} pairs{within} to detect {}.",
        number::count(needed),
        percent(forecast.delta)
    )
}

/// The metric that is told beside the compared one: what a transaction costs the server, a figure
/// that others' work bends less; or throughput, where the verdict is about something else.
pub fn companion(compared: MetricId) -> MetricId {
    match compared == THROUGHPUT {
        true => SERVER_CPU,
        false => THROUGHPUT,
    }
}

fn companion_sentence(result: &PointResult, names: Names) -> Option<String> {
    let metric = companion(names.metric);
    let beside = result.others.get(&metric)?;
    let ratio = &beside.ratio;
    let what = match metric == SERVER_CPU {
        true => format!("server CPU per {}", names.work.unit),
        false => metric.heading.to_owned(),
    };
    let shown = match beside.verdict {
        Verdict::Faster | Verdict::Slower => "",
        Verdict::Equivalent => ", too small to matter",
        _ => ", indistinguishable from zero",
    };
    Some(format!(
        "{}'s {what}: {} ({} to {}){shown}.",
        result.label,
        signed(ratio.estimate),
        signed(ratio.low),
        signed(ratio.high),
    ))
}

/// A verdict in a word, by what it is about.
pub fn word(metric: MetricId, verdict: Verdict) -> String {
    match verdict {
        Verdict::Faster if metric != THROUGHPUT => "better".to_owned(),
        Verdict::Slower if metric != THROUGHPUT => "worse".to_owned(),
        verdict => verdict.to_string(),
    }
}

/// What equivalent servers are.
pub fn as_good(metric: MetricId) -> &'static str {
    match metric == THROUGHPUT {
        true => "as fast as",
        false => "as good as",
    }
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
        let [estimate, low, high] = [e.estimate, e.low, e.high].map(|v| number::signed(v, 4));
        let ends = format!("{estimate} ({low} to {high})");
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

/// `+1.2 %` of a ratio of 1.012.
pub fn signed(ratio: f64) -> String {
    let percent = 100.0 * (ratio - 1.0);
    match percent.abs() {
        p if !p.is_finite() => "without bound".to_owned(),
        p if p >= 1e6 => "over +1,000,000 %".to_owned(),
        p if p < 0.005 => "0.00 %".to_owned(),
        p if p < 1.0 => format!("{} %", number::signed(percent, 2)),
        p if p < 100.0 => format!("{} %", number::signed(percent, 1)),
        _ => format!("{} %", number::signed(percent, 0)),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_measurement_can_show_is_no_figure() {
        assert_eq!(signed(1.012), "+1.2 %");
        assert_eq!(signed(0.5), "−50.0 %");
        assert_eq!(signed(4.852e8), "over +1,000,000 %");
        assert_eq!(signed(f64::INFINITY), "without bound");
    }
}

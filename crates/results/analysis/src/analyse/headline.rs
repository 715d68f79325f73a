//! The result in plain sentences: what anyone can read first.

use pgassay_model::run::RunState;
use pgassay_model::stage::StageId;

use crate::analysis::{Analysis, StageAnalysis};
use crate::causes::finding_of;
use crate::diagnose::{Cause, SeenBy};
use crate::measured::{ArmAnalysis, PointAnalysis, StageArm};
use crate::stats::Estimate;
use crate::{axes, metrics, number, primitives};

/// Growth below this share counts as none when the end of scaling is named.
const GROWTH: f64 = 1.05;

/// The most important sentences of an analysis.
pub fn write(analysis: &Analysis) -> Vec<String> {
    sentences(analysis, true)
}

/// The same without the figures at the peaks and what holds the server back, for reports that show
/// these by themselves.
pub fn remarks(analysis: &Analysis) -> Vec<String> {
    sentences(analysis, false)
}

fn sentences(analysis: &Analysis, whole: bool) -> Vec<String> {
    let mut sentences = Vec::new();
    for warning in &analysis.warnings {
        // These head the page: it is not your build, it is not the whole run, somebody else's code
        // runs with every change, and nothing succeeded.
        const FIRST: &[&str] = &[
            "not-your-build",
            "incomplete",
            "foreign-triggers",
            super::ALL_FAILED,
        ];
        if FIRST.contains(&warning.id.as_str()) {
            sentences.push(warning.text.clone());
        }
    }
    let load = analysis.main();
    sentences.extend(axes::sentences(&analysis.axes));
    let varied = !analysis.axes.is_empty();
    let best = |did: &StageArm| did.peak().map_or(f64::NEG_INFINITY, rate);
    let highest = load.arms.iter().map(best).fold(f64::NEG_INFINITY, f64::max);
    for (arm, did) in analysis.arms.iter().zip(&load.arms) {
        // Of many servers that differ by a value, the table tells the others.
        if varied && best(did) < highest {
            continue;
        }
        let peak = peak_sentence(analysis, arm, did);
        sentences.extend(peak.filter(|_| whole));
        sentences.extend(growth_sentence(did).filter(|_| !varied));
    }
    if whole {
        for further in analysis.further_loads() {
            sentences.extend(further_sentences(further));
        }
    }
    // Beside a load they are a section of their own, and the load is the result.
    if load.id != StageId::Load || load.plan.points.is_empty() {
        sentences.extend(match load.id {
            StageId::Kernels => {
                primitives::kernels::headline(&analysis.primitives, analysis.host.cpus)
            }
            _ => primitives::headline(&analysis.primitives),
        });
        if let Some(pgio) = &analysis.pgio {
            sentences.extend(crate::pgio::headline(pgio));
        }
        if let Some(scattered) = &analysis.scattered_read {
            sentences.extend(crate::scattered::headline(
                &scattered.plan,
                &scattered.variants,
            ));
        }
    }
    let nothing_measured = whole && sentences.is_empty();
    if whole {
        sentences.extend(held_back(analysis));
    }
    if nothing_measured {
        sentences.insert(
            0,
            match analysis.run.state {
                RunState::Running => "Nothing is measured yet.".to_owned(),
                _ if analysis.kernel_counts.is_some() => {
                    "Kernels were counted under an emulator; nothing was timed.".to_owned()
                }
                _ if load.plan.points.is_empty() => {
                    "No load was put on the server; this is what could be seen.".to_owned()
                }
                _ => "Nothing was measured.".to_owned(),
            },
        );
    }
    sentences
}

/// The one sentence about a further load.
fn further_sentences(load: &StageAnalysis) -> Vec<String> {
    let peaks = load.arms.iter().filter_map(|arm| {
        let peak = arm.peak()?;
        let within = peak
            .estimate(metrics::P99)
            .map(|p99| format!("; p99 {}", duration(p99.estimate)));
        Some(format!(
            "{} {}{}.",
            load.plan.workload.name,
            at_peak(arm, peak),
            within.unwrap_or_default(),
        ))
    });
    peaks.collect()
}

/// Causes that the page names before it only counts.
const NAMED: usize = 2;

/// What holds the server back most, in the order of the causes.
fn held_back(analysis: &Analysis) -> Vec<String> {
    let first = analysis.causes.iter().take(NAMED);
    let mut sentences: Vec<String> = first.map(|cause| named(analysis, cause)).collect();
    let more = match analysis.causes.len().saturating_sub(NAMED) {
        0 => return sentences,
        1 => "One more finding stands below.".to_owned(),
        n => format!("{n} more findings stand below."),
    };
    if let Some(last) = sentences.last_mut() {
        *last = format!("{last} {more}");
    }
    sentences
}

fn named(analysis: &Analysis, cause: &Cause) -> String {
    let what = finding_of(analysis, cause).map_or(cause.what.as_str(), |f| f.title.as_str());
    let what = what.trim_end_matches('.');
    match (&cause.seen_by, &cause.workload) {
        (SeenBy::Load | SeenBy::SecondLoad, Some(workload)) => format!(
            "Bottleneck under {workload}: {what} ({} confidence).",
            cause.confidence.name()
        ),
        _ => format!("Bottleneck, by the audit: {what}."),
    }
}

/// The peak of the first load; of several servers each with its name.
fn peak_sentence(analysis: &Analysis, arm: &ArmAnalysis, did: &StageArm) -> Option<String> {
    let peak = did.peak()?;
    let of = match analysis.arms.len() {
        0 | 1 => String::new(),
        _ => format!("{}: ", arm.label),
    };
    let workload = &analysis.main().plan.workload.name;
    Some(format!("{of}{workload} {}.", at_peak(did, peak)))
}

/// Throughput at the peak, with its interval or its levels: `peaks at 41,000 tps, 8 clients (95 % CI 40,000–42,000)`.
fn at_peak(did: &StageArm, peak: &PointAnalysis) -> String {
    match &peak.levels {
        Some(levels) => format!(
            "runs at {} levels: {} tps, {}",
            levels.levels.len(),
            levels.in_words(),
            clients(peak)
        ),
        None => format!(
            "{} {} tps, {}{}",
            peaks_at(did),
            resolved(rate(peak), &peak.throughput_tps),
            clients(peak),
            interval(&peak.throughput_tps),
        ),
    }
}

/// How far throughput grows with the number of clients, where there are several.
fn growth_sentence(did: &StageArm) -> Option<String> {
    let points = &did.points;
    let peak = did.peak()?;
    if let (Some(first), true) = (points.first(), points.len() > 1) {
        // The smallest count from which on more clients bring nothing that matters.
        let knee = points
            .iter()
            .find(|p| rate(peak) <= GROWTH * rate(p))
            .unwrap_or(peak);
        // Nothing was measured between levels, so there is no ratio.
        let between = [first, knee]
            .into_iter()
            .find(|point| point.levels.is_some());
        if let Some(point) = between {
            return Some(format!(
                "How throughput scales is not known: with {} it lies at several levels.",
                clients(point)
            ));
        }
        if knee.point.clients > first.point.clients && rate(first) > 0.0 {
            let from = match first.point.clients {
                1 => String::new(),
                n => format!("from {n} "),
            };
            return Some(format!(
                "Scales {:.1}× {from}to {}{}.",
                rate(knee) / rate(first),
                clients(knee),
                match points.last() {
                    Some(last) if last.point.clients > knee.point.clients => beyond(
                        last.point.clients,
                        &last.throughput_tps,
                        &peak.throughput_tps
                    ),
                    _ => String::new(),
                }
            ));
        }
    }
    None
}

/// What becomes of throughput after it has stopped growing, told by the last point.
fn beyond(clients: u32, last: &Estimate, peak: &Estimate) -> String {
    let lost = 1.0 - last.estimate / peak.estimate;
    if last.high < peak.low && GROWTH * last.estimate < peak.estimate {
        return format!("; {clients} do {:.0} % less", 100.0 * lost);
    }
    ", then flat".to_owned()
}

/// A single point is no peak.
fn peaks_at(did: &StageArm) -> &'static str {
    match did.points.len() {
        0 | 1 => "does",
        _ => "peaks at",
    }
}

fn rate(point: &PointAnalysis) -> f64 {
    point.throughput_tps.estimate
}

fn clients(point: &PointAnalysis) -> String {
    number::counted(point.point.clients, "client")
}

fn interval(estimate: &Estimate) -> String {
    if estimate.n < 2 {
        return " (one trial: spread unknown)".to_owned();
    }
    let level = 100.0 * estimate.level;
    format!(
        " ({level:.0} % CI {}–{})",
        resolved(estimate.low, estimate),
        resolved(estimate.high, estimate)
    )
}

/// A value in the digits that the interval leaves standing, as the tables print it.
fn resolved(value: f64, estimate: &Estimate) -> String {
    let half_width = estimate.half_width();
    if half_width < 1.0 || !half_width.is_finite() {
        return group(value);
    }
    let step = 10f64.powf(half_width.log10().floor());
    group((value / step).round() * step)
}

/// `41234.5` becomes `41,235`.
fn group(value: f64) -> String {
    let digits = format!("{:.0}", value.max(0.0));
    let mut grouped = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

fn duration(us: f64) -> String {
    match us {
        us if us < 10.0 => format!("{us:.1} µs"),
        us if us < 1_000.0 => format!("{us:.0} µs"),
        us if us < 10_000.0 => format!("{:.1} ms", us / 1e3),
        us if us < 1e6 => format!("{:.0} ms", us / 1e3),
        us => format!("{:.1} s", us / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use pgassay_model::observed::waits::SharedCpu;

    use super::*;

    #[test]
    fn what_falls_beyond_the_peak_is_not_flat() {
        let tps = |estimate: f64, half: f64| Estimate {
            estimate,
            low: estimate - half,
            high: estimate + half,
            level: 0.95,
            n: 8,
            warnings: Vec::new(),
        };
        let peak = tps(111_000.0, 4_000.0);
        let told = |last: &Estimate| beyond(128, last, &peak);
        assert_eq!(told(&tps(82_000.0, 2_000.0)), "; 128 do 26 % less");
        // Too little to matter, and too uncertain to be told.
        assert_eq!(told(&tps(106_500.0, 100.0)), ", then flat");
        assert_eq!(told(&tps(82_000.0, 30_000.0)), ", then flat");
    }

    /// A sweep with one point of two levels: in every other trial client and session share a CPU, and throughput is three
    /// times as high.
    fn at_two_levels(point: u32) -> pgassay_model::record::RecordedRun {
        let mut run = pgassay_evidence::fixtures::run(0.05, |_| 0.0);
        let more = run.trials.clone();
        run.trials.extend(more);
        run.header.experiment.stages[0].plan.trials = 12;
        let mut here = 0;
        for (index, trial) in (0u32..).zip(&mut run.trials) {
            trial.slice.index = index;
            if trial.slice.point == point {
                here += 1;
                let shares = here % 2 == 0;
                trial.transactions *= if shares { 3 } else { 1 };
                let waits = trial.observed.as_mut().unwrap().waits.as_mut().unwrap();
                waits.shared_cpu = Some(SharedCpu {
                    ran: 50,
                    shared: if shares { 49 } else { 1 },
                });
            }
        }
        run
    }

    #[test]
    fn nothing_is_derived_from_a_point_at_several_levels() {
        let analysis = crate::analyse(&at_two_levels(0));
        let point = &analysis.main().arms[0].points[0];
        let warning = point
            .warnings
            .iter()
            .find(|w| w.id == "several-levels")
            .unwrap();
        assert_eq!(
            warning.text,
            "throughput lies at 2 levels: 30,060 (6 trials) and 9,980 (6 trials) transactions a second; nothing was \
             measured between them; CPU shared with the client: 2 % in trials of the lower level, 98 % in those of the \
             higher"
        );
        assert!(
            analysis.headline.iter().any(|s| s
                == "How throughput scales is not known: with 1 client it lies at several levels."),
            "{:?}",
            analysis.headline
        );
        assert!(!analysis.headline.iter().any(|s| s.starts_with("Scales")));
        let fitted = crate::fit::fit(&analysis).arms.remove(0).scaling.unwrap();
        assert!(!fitted.fitted.contains(&1), "{:?}", fitted.fitted);
        // The same sweep without levels scales.
        let plain = crate::analyse(&pgassay_evidence::fixtures::run(0.05, |_| 0.0));
        assert!(plain.headline.iter().any(|s| s.starts_with("Scales")));
    }

    #[test]
    fn a_peak_at_several_levels_names_them() {
        let plain = crate::analyse(&pgassay_evidence::fixtures::run(0.05, |_| 0.0));
        let peak = plain.main().arms[0].points.len() as u32 - 1;
        let analysis = crate::analyse(&at_two_levels(peak));
        let named = |s: &String| s.contains(" runs at 2 levels: ") && s.contains("(6 trials) and ");
        assert!(
            analysis.headline.iter().any(named),
            "{:?}",
            analysis.headline
        );
    }
}

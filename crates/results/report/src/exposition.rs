//! Figures as text that Prometheus reads: findings of an audit for node_exporter's textfile collector, and what is
//! measured now for a scrape.
//!
//! Sources: "Exposition formats" of the Prometheus documentation (text format 0.0.4), and the OpenMetrics
//! specification 1.0. All are gauges, whose form is the same in both but for the unit and the end.

use std::fmt::Write as _;

use pgassay_analysis::Analysis;
use pgassay_analysis::check::CheckReport;
use pgassay_analysis::diagnose::Finding;
use pgassay_analysis::observed::budget::Budget;
use pgassay_analysis::underway::{Pause, SoFar};
use serde::Serialize;

/// The media type of what [`live`] gives.
pub const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Longer texts are cut in labels: each is kept as long as its series.
const LONGEST: usize = 200;

type Labels<'a> = Vec<(&'static str, String)>;

/// Gauges of one name.
struct Family {
    name: &'static str,
    help: &'static str,
    samples: Vec<(Labels<'static>, f64)>,
}

impl Family {
    fn new(name: &'static str, help: &'static str) -> Self {
        Self {
            name,
            help,
            samples: Vec::new(),
        }
    }

    fn add(&mut self, labels: impl IntoIterator<Item = (&'static str, String)>, value: f64) {
        // What is no number is missing.
        if value.is_finite() {
            self.samples.push((labels.into_iter().collect(), value));
        }
    }
}

/// The text of some gauges; those of which there is none are left out.
fn text(families: &[Family]) -> String {
    let mut text = String::new();
    for family in families.iter().filter(|family| !family.samples.is_empty()) {
        let Family { name, help, .. } = family;
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge");
        for (labels, value) in &family.samples {
            let labels = labels
                .iter()
                .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)));
            let labels: Vec<String> = labels.collect();
            let _ = match labels.is_empty() {
                true => writeln!(text, "{name} {value}"),
                false => writeln!(text, "{name}{{{}}} {value}", labels.join(",")),
            };
        }
    }
    text
}

/// A label's value: on one line, with what the format escapes.
fn escaped(value: &str) -> String {
    let cut: String = pgassay_text::line(value).chars().take(LONGEST).collect();
    cut.replace('\\', "\\\\").replace('"', "\\\"")
}

/// The word that JSON has for a value of an enum.
fn word(of: impl Serialize) -> String {
    match serde_json::to_value(of) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}

fn about(finding: &Finding) -> Labels<'static> {
    vec![
        ("id", finding.id.clone()),
        ("title", finding.title.clone()),
        ("family", word(finding.family)),
        ("severity", word(finding.severity)),
        ("confidence", word(finding.confidence)),
    ]
}

/// The findings of an audit, in Prometheus's text format.
pub fn check(report: &CheckReport) -> String {
    let target = || ("target", report.target.clone());
    let mut finding = Family::new("pgassay_check_finding", "A finding of pgassay check: 1.");
    for found in report.findings() {
        finding.add([target()].into_iter().chain(about(found)), 1.0);
    }
    let mut results = Family::new(
        "pgassay_check_results",
        "Bottlenecks that pgassay check looked for, by what came of it.",
    );
    let counts = &report.counts;
    for (outcome, count) in [
        ("finding", counts.findings),
        ("passed", counts.passed),
        ("not-applicable", counts.not_applicable),
        ("could-not-see", counts.could_not_see),
    ] {
        results.add(
            [target(), ("outcome", outcome.to_owned())],
            f64::from(count),
        );
    }
    let mut whole = Family::new(
        "pgassay_check_complete",
        "Whether the session with the server held: 1, or 0.",
    );
    whole.add(
        [target()],
        f64::from(u8::from(report.session_lost.is_none())),
    );
    text(&[finding, results, whole])
}

/// A run that is measured now.
pub struct Live<'a> {
    /// What is known of its trials.
    pub so_far: SoFar<'a>,
    /// The analysis of what was measured so far, where there is one.
    pub analysis: Option<&'a Analysis>,
}

/// What is measured now, in OpenMetrics.
pub fn live(runs: &[Live<'_>]) -> String {
    let mut measured = Family::new("pgassay_runs_measured", "Runs that are measured now.");
    measured.add([], runs.len() as f64);
    let mut families = vec![measured];
    families.extend(progress(runs));
    families.extend(throughput(runs));
    families.extend(seen(runs));
    text(&families) + "# EOF\n"
}

fn run(live: &Live<'_>) -> (&'static str, String) {
    ("run", live.so_far.run.id.clone())
}

/// How far they are.
fn progress(runs: &[Live<'_>]) -> [Family; 4] {
    let mut trials = Family::new(
        "pgassay_run_trials",
        "Trials of a run, measured and planned.",
    );
    let mut left = Family::new(
        "pgassay_run_left_seconds",
        "Seconds that the planned trials still take.",
    );
    let mut paused = Family::new(
        "pgassay_run_paused",
        "Whether a run waits between two trials: 1, or 0.",
    );
    let mut disturbed = Family::new(
        "pgassay_run_disturbance_ratio",
        "Share of the machine's CPU time that others took in the newest trial.",
    );
    for live in runs {
        let (measured, planned) = live.so_far.trials;
        for (state, count) in [("measured", measured), ("planned", planned)] {
            trials.add([run(live), ("state", state.to_owned())], count as f64);
        }
        left.add([run(live)], live.so_far.left_seconds);
        let waits = matches!(live.so_far.pause, Pause::Since { .. });
        paused.add([run(live)], f64::from(u8::from(waits)));
        let newest = live.so_far.recent.last();
        for (by, share) in newest
            .into_iter()
            .flat_map(|seen| [("programs", seen.others), ("hypervisor", seen.steal)])
        {
            if let Some(share) = share {
                disturbed.add([run(live), ("by", by.to_owned())], share);
            }
        }
    }
    [trials, left, paused, disturbed]
}

/// What they reached.
fn throughput(runs: &[Live<'_>]) -> [Family; 4] {
    let mut rate = Family::new(
        "pgassay_throughput",
        "Units of work a second, over the trials so far.",
    );
    let mut low = Family::new("pgassay_throughput_low", "Low end of its interval.");
    let mut high = Family::new("pgassay_throughput_high", "High end of its interval.");
    let mut now = Family::new(
        "pgassay_throughput_now",
        "Units of work in the newest second that was told, of whichever server was measured then.",
    );
    for live in runs {
        for stage in &live.so_far.stages {
            let unit = stage.stage.id.work().rate;
            for (server, points) in &stage.arms {
                for point in points {
                    let labels = [
                        run(live),
                        ("stage", word(stage.stage.id)),
                        ("server", (*server).to_owned()),
                        ("clients", point.point.clients.to_string()),
                        ("threads", point.point.threads.to_string()),
                        ("variant", point.point.variant.to_string()),
                        ("unit", unit.to_owned()),
                    ];
                    rate.add(labels.clone(), point.rate.estimate);
                    if point.rate.n > 1 {
                        low.add(labels.clone(), point.rate.low);
                        high.add(labels, point.rate.high);
                    }
                }
            }
        }
        let within = live.so_far.within;
        if let Some((name, second)) = within.seconds().last() {
            let unit = ("unit", within.unit().to_owned());
            now.add([run(live), ("trial", name.to_owned()), unit], second.rate);
        }
    }
    [rate, low, high, now]
}

/// What was found, and where sessions' time went.
fn seen(runs: &[Live<'_>]) -> [Family; 2] {
    let mut finding = Family::new("pgassay_finding", "A finding of a run that is measured: 1.");
    let mut budget = Family::new(
        "pgassay_budget_sessions",
        "Sessions, on average, by what they spent their time on.",
    );
    for live in runs {
        let Some(analysis) = live.analysis else {
            continue;
        };
        let audit = analysis.check.iter().flat_map(|check| check.findings());
        let mut found: Vec<(String, &Finding)> =
            audit.map(|found| ("audit".to_owned(), found)).collect();
        for stage in &analysis.stages {
            let diagnosed = stage
                .diagnosis
                .iter()
                .flat_map(|diagnosis| &diagnosis.findings);
            found.extend(diagnosed.map(|found| (word(stage.id), found)));
            for (arm, did) in analysis.arms.iter().zip(&stage.arms) {
                for point in did.observed.iter().flat_map(|observed| &observed.points) {
                    let Some(of) = &point.budget else { continue };
                    let place = [
                        run(live),
                        ("stage", word(stage.id)),
                        ("server", arm.label.clone()),
                        ("load", point.load.clone().unwrap_or_default()),
                        ("clients", point.clients.to_string()),
                    ];
                    for (state, event, sessions) in spent(of) {
                        let on = [("state", state.to_owned()), ("event", event)];
                        budget.add(place.iter().cloned().chain(on), sessions);
                    }
                }
            }
        }
        for (seen_by, found) in found {
            let labels = [run(live), ("seen_by", seen_by)];
            finding.add(labels.into_iter().chain(about(found)), 1.0);
        }
    }
    [finding, budget]
}

/// The parts of a budget: state, wait event, sessions.
fn spent(budget: &Budget) -> Vec<(&'static str, String, f64)> {
    let plain = |state: &'static str, sessions: f64| (state, String::new(), sessions);
    let mut parts = vec![plain("on-cpu", budget.on_cpu), plain("ready", budget.ready)];
    let Some(off) = &budget.off else {
        parts.push(plain("off-cpu", budget.off_cpu));
        return parts;
    };
    parts.extend(off.waits.iter().map(|wait| {
        (
            "wait",
            format!("{}:{}", wait.kind, wait.event),
            wait.sessions,
        )
    }));
    parts.extend([
        plain("client", off.client),
        plain("idle", off.idle),
        plain("unnamed", off.unnamed),
        plain("hidden", off.hidden),
    ]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_can_not_end_early_and_what_is_no_number_is_missing() {
        let mut family = Family::new("a", "What.");
        family.add([("b", "x\"} 7\n\\y".to_owned())], 1.5);
        family.add([("b", "none".to_owned())], f64::NAN);
        assert_eq!(
            text(&[family, Family::new("c", "Nothing.")]),
            "# HELP a What.\n# TYPE a gauge\na{b=\"x\\\"} 7 \\\\y\"} 1.5\n"
        );
    }

    #[test]
    fn nothing_that_is_measured_is_said_too() {
        assert_eq!(
            live(&[]),
            "# HELP pgassay_runs_measured Runs that are measured now.\n# TYPE pgassay_runs_measured gauge\n\
             pgassay_runs_measured 0\n# EOF\n"
        );
    }
}

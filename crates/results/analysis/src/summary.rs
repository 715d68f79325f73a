//! A run in a line: what a list of runs says of each.

use pgassay_model::run::RunState;
use serde::{Deserialize, Serialize};

use crate::analysis::Analysis;
use crate::causes::finding_of;
use crate::compare::Compare;
use crate::quality::Quality;
use crate::stats::{Estimate, Verdict};
use crate::{axes, bottlenecks, curves, history, number};

/// Points of a curve that a line keeps.
const MOST_POINTS: usize = 24;
/// Characters of any text that a line keeps.
const LONGEST: usize = 240;

/// What a list says of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Summary {
    /// Name of the run directory.
    pub run: String,
    /// `assay`, `run`, `compare` …
    pub command: String,
    /// What was measured: the workload's name, and a second one after a comma.
    pub workload: String,
    /// The same with scale and protocol, and what its servers were given of each axis: runs of the same
    /// work have a history.
    pub work: String,
    /// Start, UTC, RFC 3339.
    pub started: String,
    /// How it stands.
    pub state: RunState,
    /// Trials that count, and planned.
    pub trials: (u32, u32),
    /// The servers: version, and the settings that were asked for.
    pub servers: Vec<String>,
    /// The targets in words.
    pub targets: Vec<String>,
    /// The machine: its CPUs.
    pub machine: String,
    /// The result in a few words.
    pub result: String,
    /// The verdict of a comparison.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// The highest throughput of the first server under the first load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak: Option<Peak>,
    /// Throughput of the first server over clients: count and rate, ascending by count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub curve: Vec<(u32, f64)>,
    /// What limits it most, by its title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// How far it was disturbed; none where no load had points.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quality: Option<Quality>,
}

/// The highest throughput.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Peak {
    /// How much, with its interval.
    pub rate: Estimate,
    /// Its unit, such as `tps`.
    pub unit: String,
    /// Clients, or sessions, at which it was reached.
    pub clients: u32,
}

impl Summary {
    /// Of a run that is no comparison.
    pub fn of(analysis: &Analysis) -> Self {
        let curves = curves::of(analysis);
        // Where servers differ by what was varied, the first is not the run.
        let first = curves
            .first()
            .filter(|_| !axes::has_several_servers(&analysis.arms));
        let unit = analysis.main().id.work().rate;
        let peak = first.and_then(|curve| {
            let points = curve.points.iter();
            let finite = points.filter(|point| point.throughput.estimate.is_finite());
            let by_rate = |a: &f64, b: &f64| a.total_cmp(b);
            finite.max_by(|a, b| by_rate(&a.throughput.estimate, &b.throughput.estimate))
        });
        let mut curve: Vec<(u32, f64)> = first
            .into_iter()
            .flat_map(|curve| &curve.points)
            .map(|point| (point.clients, point.throughput.estimate))
            .filter(|(_, rate)| rate.is_finite())
            .collect();
        curve.truncate(MOST_POINTS);
        let peak = peak.map(|point| Peak {
            rate: Estimate {
                warnings: Vec::new(),
                ..point.throughput.clone()
            },
            unit: unit.to_owned(),
            clients: point.clients,
        });
        let result = match &peak {
            Some(peak) if curves.len() == 1 => peak.in_words(),
            _ => analysis.headline.first().cloned().unwrap_or_default(),
        };
        let mut workload = analysis.main().plan.workload.name.clone();
        for further in analysis.further_loads() {
            workload = format!("{workload}, {}", further.plan.workload.name);
        }
        let servers = analysis.arms.iter().map(|arm| {
            let server = arm.server.as_ref();
            let version = server.map(|server| {
                let words = server.version.split_whitespace().take(2);
                words.collect::<Vec<_>>().join(" ")
            });
            let version = version.unwrap_or_else(|| arm.label.clone());
            let settings = arm
                .settings
                .iter()
                .map(|(name, value)| format!("{name}={value}"));
            let all: Vec<String> = [version].into_iter().chain(settings).collect();
            cut(&all.join(" "))
        });
        let limit = analysis.causes.first().map(|cause| {
            let title = finding_of(analysis, cause).map(|finding| finding.title.clone());
            let known = || Some(bottlenecks::find(&cause.id)?.title.to_owned());
            title.or_else(known).unwrap_or_else(|| cause.id.clone())
        });
        Self {
            run: analysis.run.id.clone(),
            command: cut(&analysis.run.command),
            workload: cut(&workload),
            work: cut(&history::work(analysis)),
            started: cut(&analysis.run.started),
            state: analysis.run.state,
            trials: (analysis.run.trials_measured, analysis.run.trials_planned),
            servers: servers.collect(),
            targets: analysis.arms.iter().map(|arm| cut(&arm.target)).collect(),
            machine: cut(&analysis.host.processors().unwrap_or_default()),
            result: cut(&result),
            verdict: None,
            peak,
            curve,
            limit: limit.map(|limit| cut(&limit)),
            quality: analysis.quality.clone(),
        }
    }

    /// Of a comparison.
    pub fn of_compare(compare: &Compare) -> Self {
        let headline = compare.headline.first().cloned().unwrap_or_default();
        Self {
            result: cut(&headline),
            verdict: Some(compare.verdict),
            ..Self::of(&compare.analysis)
        }
    }

    /// Everything that a search looks through, in lower case.
    pub fn searched(&self) -> String {
        let quality = self
            .quality
            .as_ref()
            .map_or("", |quality| quality.grade.name());
        let parts = [
            &*self.run,
            &self.command,
            &self.work,
            &self.workload,
            &self.machine,
            &self.result,
            self.limit.as_deref().unwrap_or(""),
            quality,
        ];
        let lists = self.servers.iter().chain(&self.targets);
        let all: Vec<&str> = parts.into_iter().chain(lists.map(|s| s.as_str())).collect();
        all.join("\n").to_lowercase()
    }
}

impl Peak {
    /// `43,400 tps (40,800–46,100) with 4 clients`.
    pub fn in_words(&self) -> String {
        let shown = number::shown(&self.rate);
        let interval = shown.interval.map(|i| format!(" ({})", i.ends));
        let who = match self.unit.as_str() {
            "tps" => "client",
            _ => "session",
        };
        let clients = number::counted(self.clients, who);
        let (value, unit) = (shown.value, &self.unit);
        format!(
            "{value} {unit}{} with {clients}",
            interval.unwrap_or_default()
        )
    }
}

/// As much of a text as a line keeps.
fn cut(text: &str) -> String {
    pgassay_text::cut(text, LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peak_is_told_with_its_interval() {
        let peak = Peak {
            rate: Estimate {
                estimate: 43_400.0,
                low: 40_800.0,
                high: 46_100.0,
                level: 0.95,
                n: 8,
                warnings: Vec::new(),
            },
            unit: "tps".to_owned(),
            clients: 4,
        };
        let said = peak.in_words();
        assert!(said.starts_with("43,"), "{said}");
        assert!(
            said.contains(" tps (") && said.ends_with(" with 4 clients"),
            "{said}"
        );
    }

    #[test]
    fn no_text_is_longer_than_a_line() {
        assert_eq!(cut("é"), "é");
        let long = cut(&"é".repeat(10_000));
        assert_eq!(long.chars().count(), LONGEST);
    }
}

//! Runs that were recorded apart, side by side: what each showed, and in what they differ.

use pgassay_analysis::Analysis;
use pgassay_analysis::analysis::StageAnalysis;
use pgassay_analysis::compare::recorded::compare_recorded;
use pgassay_analysis::hosts;
use pgassay_analysis::measured::{ArmAnalysis, StageArm};
use pgassay_analysis::metrics::THROUGHPUT;

use super::document::{Block, Cell, Column, Depth, Document, Fact, Notes, Section, Table};
use super::sections::{of_arms, results};
use super::{Report, plain};

/// The relative difference of throughput that matters, 0.01 for 1 %.
const DELTA: f64 = 0.01;

/// Runs side by side, each by its first server.
#[derive(Debug)]
pub struct Beside {
    /// All in one form, an arm each.
    merged: Analysis,
    /// Each run with its letter.
    runs: Vec<(String, Analysis)>,
    /// Of each but the first what a comparison with the first says.
    said: Vec<String>,
}

impl Beside {
    /// At most this many are told apart.
    pub const MOST: usize = 8;

    /// Puts runs side by side; those beyond [`Self::MOST`] are left out. `None` without two of them.
    pub fn of(mut runs: Vec<Analysis>) -> Option<Self> {
        runs.truncate(Self::MOST);
        if runs.len() < 2 {
            return None;
        }
        let letters = ('A'..).map(String::from);
        let runs: Vec<(String, Analysis)> = letters.zip(runs).collect();
        let (_, first) = runs.first()?;
        let said = runs.iter().skip(1).map(|(letter, run)| {
            let one = std::slice::from_ref;
            match compare_recorded(one(first), one(run), THROUGHPUT, DELTA, None) {
                Ok(compare) => match compare.headline.first() {
                    Some(sentence) => {
                        format!("{letter} against A: {}", of_letter(sentence, letter))
                    }
                    None => format!("{letter} against A: nothing was compared."),
                },
                Err(refusal) => format!("{letter} against A: {refusal}."),
            }
        });
        let said = said.collect();
        Some(Self {
            merged: merged(&runs)?,
            said,
            runs,
        })
    }
}

/// A sentence about A and B with another letter in place of B.
fn of_letter(sentence: &str, letter: &str) -> String {
    let words = sentence.split_inclusive(|c: char| !c.is_alphanumeric());
    words
        .map(|word| match word.strip_prefix('B') {
            Some(rest) if !rest.starts_with(char::is_alphanumeric) => format!("{letter}{rest}"),
            _ => word.to_owned(),
        })
        .collect()
}

/// One analysis with an arm for each run, by the loads of the first.
fn merged(runs: &[(String, Analysis)]) -> Option<Analysis> {
    let (_, first) = runs.first()?;
    let mut merged = first.clone();
    merged.causes.clear();
    merged.quality = None;
    merged.warnings.clear();
    merged.arms = runs
        .iter()
        .filter_map(|(letter, run)| {
            Some(ArmAnalysis {
                label: letter.clone(),
                ..run.arms.first()?.clone()
            })
        })
        .collect();
    let of_load = |load: &StageAnalysis| StageAnalysis {
        arms: runs
            .iter()
            .filter_map(|(letter, run)| {
                let same = |other: &&StageAnalysis| {
                    other.id == load.id && other.plan.workload.name == load.plan.workload.name
                };
                let load = run.stages.iter().find(same)?;
                Some(StageArm {
                    label: letter.clone(),
                    ..load.arms.first()?.clone()
                })
            })
            .collect(),
        diagnosis: None,
        ..load.clone()
    };
    merged.stages = first.stages.iter().map(of_load).collect();
    Some(merged)
}

impl Report for Beside {
    fn document(&self) -> Document {
        let mut notes = Notes::default();
        let mut sections = vec![differences(self)];
        sections.extend(of_arms(&self.merged, &mut notes));
        let mut glance = Vec::new();
        glance
            .extend(results::chart(self.merged.main()).map(|chart| Block::Chart(Box::new(chart))));
        // It stands on the first screen.
        if !glance.is_empty() {
            for section in &mut sections {
                let other = |block: &Block| match block {
                    Block::Chart(chart) => chart.id != "throughput",
                    _ => true,
                };
                section.blocks.retain(other);
            }
        }
        sections.retain(|section| !section.blocks.is_empty());
        for block in sections.iter_mut().flat_map(|s| &mut s.blocks) {
            if let Block::Table(table) = block {
                table.gather_marks();
            }
        }
        let named = self
            .runs
            .iter()
            .map(|(letter, run)| format!("{letter} is {}", who(run)));
        let mut headline = vec![format!("{}.", named.collect::<Vec<_>>().join("; "))];
        headline.extend(self.said.iter().cloned());
        headline.push(
            "They were recorded apart: what changed on the machine in between is in the difference. \
             pgassay compare measures both together."
                .to_owned(),
        );
        Document {
            title: format!("{} runs side by side", self.runs.len()),
            provenance: format!("Held side by side by pgassay {}", env!("CARGO_PKG_VERSION")),
            glance,
            headline,
            sections,
            notes: notes.into_notes(),
            ..Document::default()
        }
    }
}

/// A run by its time, command and server, and what was set.
fn who(run: &Analysis) -> String {
    let started = run.run.started.get(..16).unwrap_or(&run.run.started);
    let arm = run.arms.first();
    let server = arm.and_then(|arm| arm.server.as_ref());
    let version = server.map(|server| server.version.split_whitespace().take(2));
    let version = version.map(|words| words.collect::<Vec<_>>().join(" "));
    let set = arm.into_iter().flat_map(|arm| &arm.settings);
    let set: Vec<String> = set
        .map(|(name, value)| format!(" {name}={value}"))
        .collect();
    format!(
        "the {} of {} on {}{}",
        run.run.command,
        started.replace('T', " "),
        version.unwrap_or_else(|| "a server".to_owned()),
        set.concat()
    )
}

/// Which run each letter is, and in what they differ.
fn differences(beside: &Beside) -> Section {
    let runs = &beside.runs;
    let facts = runs.iter().map(|(letter, run)| {
        let arm = run.arms.first();
        let target = arm.map_or_else(String::new, |arm| arm.target.clone());
        let quality = run
            .quality
            .as_ref()
            .map(|q| format!(", measurement {}", q.grade.name()));
        Fact::new(letter, &run.run.id).remark(format!("{target}{}", quality.unwrap_or_default()))
    });
    let each = |of: &dyn Fn(&Analysis) -> String| {
        let values: Vec<Option<String>> = runs.iter().map(|(_, run)| Some(of(run))).collect();
        values
    };
    let mut rows = vec![
        ("started".to_owned(), each(&|run| run.run.started.clone())),
        (
            "command".to_owned(),
            each(&|run| plain::shell(&run.run.command_line)),
        ),
    ];
    rows.retain(|(_, values)| values.iter().any(|value| *value != values[0]));
    let analyses: Vec<&Analysis> = runs.iter().map(|(_, run)| run).collect();
    rows.extend(
        hosts::differences(&analyses)
            .into_iter()
            .map(|difference| (difference.what, difference.values)),
    );
    let mut blocks = vec![Block::Facts(facts.collect())];
    if rows.is_empty() {
        blocks.push(Block::Text(
            "They differ in nothing that a run records: server, settings, machine, command."
                .to_owned(),
        ));
    } else {
        let mut columns = vec![Column::words("what", 0)];
        columns.extend(runs.iter().map(|(letter, _)| Column::words(letter, 0)));
        let row = |(name, values): (String, Vec<Option<String>>)| {
            let values = values.into_iter().map(Cell::plain_or_missing);
            [Cell::plain(name)].into_iter().chain(values).collect()
        };
        blocks.push(Block::Table(Table {
            caption: "In what they differ.".to_owned(),
            columns,
            rows: rows.into_iter().map(row).collect(),
            folded: false,
            marks: vec![],
        }));
    }
    Section {
        id: "differences",
        title: "What differs",
        depth: Depth::Titled,
        blocks,
    }
}

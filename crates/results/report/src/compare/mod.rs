//! Reports of a comparison: one [`Compare`] in, one string out, in every format.
//!
//! The sections of its own stand first; those of an ordinary analysis follow, with
//! all arms side by side.

mod differences;
mod method;
mod metrics;
mod noise;
mod observed;
mod pairs;
mod statements;
mod verdict;

pub use verdict::{change, ends, p_value, percent};

use pgassay_analysis::Analysis;
use pgassay_analysis::compare::Compare;
use pgassay_analysis::compare::model::{Kind, PointResult};
use pgassay_analysis::metrics::METRICS;
use pgassay_analysis::profile::tree::CallTree;
use pgassay_model::comparison::ComparisonPlan;
use pgassay_model::run::RunState;
use pgassay_model::warning::Warning;
use pgassay_text::cell;

use super::csv::figure;
use super::document::{Block, Document, Notes, Section};
use super::{Report, Rows, number, profiles, sections};

impl Report for Compare {
    fn document(&self) -> Document {
        document(self)
    }

    fn profiles(&self) -> Option<CallTree> {
        profiles::of_run(&self.analysis)
    }

    /// One row a pair with every metric of both sides, those of the noise floor among them.
    fn rows(&self) -> Option<Rows> {
        let before = ["arm", "clients", "kind", "launch", "round", "a_first"];
        let sides = METRICS
            .iter()
            .flat_map(|metric| [format!("a_{metric}"), format!("b_{metric}")]);
        let mut rows = Rows::new(before.map(str::to_owned).into_iter().chain(sides));
        for result in &self.results {
            for (kind, pairs) in [("noise", &result.noise), ("pair", &result.pairs)] {
                for pair in pairs {
                    let mut row = vec![
                        cell(&result.label),
                        result.clients.to_string(),
                        kind.to_owned(),
                        pair.launch.to_string(),
                        pair.round.to_string(),
                        pair.a_first.to_string(),
                    ];
                    for metric in METRICS {
                        let (a, b) = pair.both(*metric).unzip();
                        row.extend([figure(a), figure(b)]);
                    }
                    rows.push(row);
                }
            }
        }
        Some(rows)
    }
}

pub(super) fn document(compare: &Compare) -> Document {
    let mut notes = Notes::default();
    // What the headline says already is not said again beneath it.
    let unsaid = compare.warnings.iter();
    let unsaid: Vec<Warning> = unsaid
        .filter(|w| !compare.headline.contains(&w.text) && w.id != "not-your-build")
        .cloned()
        .collect();
    notes.marks(&unsaid, "");
    let analysis = &compare.analysis;
    let own = [
        verdict::section(compare, &mut notes),
        statements::section(compare, &mut notes),
        statements::all(compare),
        metrics::section(compare),
        differences::section(compare),
        pairs::section(compare),
        noise::section(compare),
        observed::section(compare),
    ];
    let mut sections: Vec<Section> = own.into_iter().flatten().collect();
    sections.extend(sections::of_arms(analysis, &mut notes));
    sections.push(method::section(compare));
    for block in sections.iter_mut().flat_map(|s| &mut s.blocks) {
        if let Block::Table(table) = block {
            table.gather_marks();
        }
    }
    Document {
        title: title(compare),
        provenance: sections::provenance(analysis),
        alarms: alarms(compare),
        badges: vec![verdict::badge(compare)],
        glance: verdict::forest(compare)
            .map(|forest| Block::Forest(Box::new(forest)))
            .into_iter()
            .collect(),
        headline: compare.headline.clone(),
        sections,
        notes: notes.into_notes(),
        profiles: compare.profiles(),
        ..Document::default()
    }
}

/// `select-only: PostgreSQL 15.20 against PostgreSQL 18.1`, the settings that were
/// asked to differ named.
fn title(compare: &Compare) -> String {
    let analysis = &compare.analysis;
    let workload = &analysis.main().plan.workload.name;
    if compare.plan.as_ref().is_some_and(|plan| plan.same) {
        let server = analysis.arms.first().map(sections::short_version);
        return format!(
            "{workload}: {} against itself{}",
            server.unwrap_or_default(),
            over(analysis)
        );
    }
    // Of several places, the targets at the first stand for all.
    let targets = compare
        .plan
        .as_ref()
        .map_or(u32::MAX, ComparisonPlan::targets);
    let arms = analysis.arms.iter().enumerate().take(targets as usize);
    let over = over(analysis);
    let names: Vec<String> = arms
        .map(|(index, arm)| {
            let typed = compare.plan.as_ref().map_or(&[][..], |p| &p.typed);
            let own = typed.get(index).into_iter().flat_map(|t| &t.settings);
            // what all have says nothing of the difference
            let first = &typed[..typed.len().min(targets as usize)];
            let own = own.filter(|s| first.iter().any(|t| !t.settings.contains(s)));
            let settings = own.cloned().collect::<Vec<_>>().join(" ");
            let mut name = sections::short_version(arm);
            // Builds of one version are told apart by what was typed.
            if let Some(typed) = typed.get(index)
                && typed.target.starts_with(['/', '.', 'b'])
            {
                name = format!("{name}, {}", typed.target);
            }
            if !settings.is_empty() {
                name = format!("{name} with {settings}");
            }
            name
        })
        .collect();
    // What was typed tells them apart, or the versions; of recorded runs the settings may.
    let alike = names.windows(2).all(|two| two[0] == two[1]);
    let named = analysis.arms.iter().zip(names).enumerate();
    let names: Vec<String> = named
        .map(|(index, (arm, name))| {
            let label = arm.label.split(',').next().unwrap_or_default();
            match setting(compare, index).filter(|_| alike) {
                Some(setting) => format!("{label} ({name} with {setting})"),
                None => format!("{label} ({name})"),
            }
        })
        .collect();
    format!("{workload}: {}{over}", names.join(" against "))
}

/// What was varied beside clients: `, over CPUs of the server`.
fn over(analysis: &Analysis) -> String {
    let mut names: Vec<&str> = analysis.axes.iter().map(|c| c.name.as_str()).collect();
    names.dedup();
    match names.as_slice() {
        [] => String::new(),
        names => format!(", over {}", names.join(" and ")),
    }
}

fn alarms(compare: &Compare) -> Vec<String> {
    let not_yours = compare.warnings.iter().find(|w| w.id == "not-your-build");
    let mut alarms: Vec<String> = not_yours.map(Warning::in_words).into_iter().collect();
    if compare.plan.is_some() && compare.analysis.run.state != RunState::Complete {
        let told = compare.warnings.iter().find(|w| w.id == "incomplete");
        alarms.extend(told.map(Warning::in_words));
    }
    alarms
}

/// The first setting in which an arm differs from the others: `shared_buffers=1GB`.
fn setting(compare: &Compare, arm: usize) -> Option<String> {
    let mut differences = compare.differences.iter();
    let first = differences.find(|d| d.kind == Kind::Setting && d.arm as usize == arm.max(1))?;
    let value = if arm == 0 { &first.a } else { &first.b };
    Some(format!("{}={value}", first.name))
}

/// `B, 4 clients`; without the arm where there is one other only.
fn place(compare: &Compare, result: &PointResult) -> String {
    let clients = number::counted(result.clients, "client");
    match others(&compare.analysis) {
        0 | 1 => clients,
        _ => format!("{}, {clients}", result.label),
    }
}

/// How many arms are held against A.
fn others(analysis: &Analysis) -> usize {
    analysis.arms.len().saturating_sub(1)
}

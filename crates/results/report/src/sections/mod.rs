//! The parts of a report, one file each.
//!
//! [`SECTIONS`] is the registry: a section is a function from the analysis to
//! its blocks, or to nothing where the run holds nothing of its kind.

mod axes;
mod backends;
mod binary;
mod budget;
mod by_script;
mod checkpoints;
mod cpu;
pub mod diagnosis;
mod drift;
mod evidence;
pub(super) mod findings;
mod glance;
mod host;
mod kernel_counts;
mod latency;
pub mod method;
mod metric_table;
pub(super) mod observed;
mod percentiles;
mod pgio;
mod pmu;
mod primitives;
mod query_cost;
mod ramp;
mod reads;
mod reference;
pub mod results;
pub(super) mod scattered;
mod server;
pub(crate) mod statements;
mod summary;
mod tails;
mod trials;
mod watched;

pub(crate) use method::has_seed;
pub(super) use summary::machine;

use pgassay_analysis::Analysis;
use pgassay_analysis::analyse::remarks;
use pgassay_analysis::analysis::StageAnalysis;
use pgassay_analysis::measured::{ArmAnalysis, PointAnalysis, RunInfo, StageArm};
use pgassay_analysis::profile::tree::CallTree;
use pgassay_analysis::stats::Estimate;
use pgassay_model::run::RunState;
use pgassay_model::warning::Warning;

use pgassay_model::stage::StageId;

use super::document::{Block, Chapter, Depth, Document, Interval, Notes, Question, Section};
use super::{Report, Rows, csv, number, profiles};

/// A section: what it says of an analysis, where it has something to say.
type Make = fn(&Analysis, &mut Notes) -> Option<Section>;

/// All sections in the order of the report, by the question that they answer.
const SECTIONS: &[(Question, &[Make])] = &[
    (
        Question::Speed,
        &[
            results::section,
            axes::section,
            results::further,
            by_script::section,
            ramp::section,
            primitives::section,
            kernel_counts::section,
            query_cost::section,
            pgio::section,
            scattered::section,
            latency::section,
            tails::section,
        ],
    ),
    (
        Question::Limit,
        &[
            diagnosis::section,
            observed::section,
            cpu::section,
            statements::section,
            reads::section,
            checkpoints::section,
        ],
    ),
    (Question::Remedy, &[findings::section]),
    (
        Question::Certainty,
        &[
            drift::section,
            primitives::steadiness,
            method::section,
            evidence::section,
            trials::section,
        ],
    ),
    (
        Question::Subject,
        &[
            summary::section,
            server::section,
            binary::section,
            host::section,
        ],
    ),
];

impl Report for Analysis {
    fn document(&self) -> Document {
        document(self)
    }

    fn rows(&self) -> Option<Rows> {
        Some(csv::trials(self))
    }

    fn profiles(&self) -> Option<CallTree> {
        profiles::of_run(self)
    }
}

/// The report on an analysis, ready for any format.
fn document(analysis: &Analysis) -> Document {
    let mut notes = Notes::default();
    notes.marks(&analysis.warnings, "");
    let (mut sections, mut chapters): (Vec<Section>, _) = (Vec::new(), Vec::new());
    for (question, makes) in SECTIONS {
        let before = sections.len();
        sections.extend(makes.iter().filter_map(|make| make(analysis, &mut notes)));
        chapters.push(Chapter {
            question: *question,
            sections: sections.len() - before,
        });
    }
    for block in sections.iter_mut().flat_map(|s| &mut s.blocks) {
        if let Block::Table(table) = block {
            table.gather_marks();
        }
    }
    let alarms = alarms(analysis);
    let (mut glance, mut first_steps, mut further_findings) = (Vec::new(), Vec::new(), 0);
    let mut of_steps = String::new();
    let mut headline = analysis.headline.clone();
    if has_first_screen(analysis) {
        glance = glance::pictures(analysis);
        (first_steps, further_findings) = glance::first_steps(analysis);
        of_steps = glance::of_steps(analysis, &first_steps).to_owned();
        headline = remarks(analysis);
    }
    Document {
        title: title(analysis),
        provenance: provenance(analysis),
        headline: headline
            .into_iter()
            .filter(|sentence| !alarms.iter().any(|alarm| alarm.starts_with(sentence)))
            .collect(),
        alarms,
        badges: glance::badges(analysis),
        tiles: glance::tiles(analysis),
        glance,
        first_steps,
        further_findings,
        of_steps,
        limit: glance::limit(analysis),
        sections,
        chapters,
        notes: notes.into_notes(),
        profiles: profiles::of_run(analysis),
    }
}

/// What a report of a comparison shows of its arms, beside what it says itself.
pub fn of_arms(analysis: &Analysis, notes: &mut Notes) -> Vec<Section> {
    let sections: [Make; 10] = [
        axes::section,
        results::section,
        summary::section,
        latency::section,
        cpu::section,
        server::section,
        binary::section,
        host::section,
        evidence::section,
        trials::section,
    ];
    let mut made: Vec<Section> = sections
        .iter()
        .filter_map(|make| make(analysis, notes))
        .collect();
    // Comparing is the result there; the arms by themselves are its evidence.
    for section in made.iter_mut().filter(|s| s.id == "results") {
        section.title = "The arms by themselves";
        section.depth = Depth::Evidence;
    }
    made
}

/// Whether there is a first screen: one server was measured, and not several held against each
/// other.
fn has_first_screen(analysis: &Analysis) -> bool {
    peak(analysis).is_some()
}

fn peak(analysis: &Analysis) -> Option<&PointAnalysis> {
    match analysis.main().arms.as_slice() {
        [arm] => arm.peak(),
        _ => None,
    }
}

fn title(analysis: &Analysis) -> String {
    let servers: Vec<String> = analysis.arms.iter().map(short_version).collect();
    let workload = &analysis.main().plan.workload.name;
    match (analysis.run.command.as_str(), servers.as_slice()) {
        (_, []) if analysis.main().id == StageId::Kernels => {
            format!("{workload}, without a server{}", glance::machine(analysis))
        }
        (_, []) => format!("{workload}: nothing was measured"),
        ("assay", [server]) => format!("Assay of {server}{}", glance::machine(analysis)),
        (_, [server]) => format!("{workload} on {server}{}", glance::machine(analysis)),
        (_, [server, ..]) if !analysis.axes.is_empty() => {
            let mut over: Vec<&str> = analysis.axes.iter().map(|c| c.name.as_str()).collect();
            over.dedup();
            format!(
                "{workload} over {} on {server}{}",
                over.join(" and "),
                glance::machine(analysis)
            )
        }
        (_, several) => format!("{workload}: {}", several.join(" against ")),
    }
}

/// `PostgreSQL 15.18`, or the target where the server did not say.
pub fn short_version(arm: &ArmAnalysis) -> String {
    let Some(server) = &arm.server else {
        return arm.target.clone();
    };
    let words: Vec<&str> = server.version.split_whitespace().take(2).collect();
    words.join(" ")
}

/// Which run it was, when, and with which program.
pub fn provenance(analysis: &Analysis) -> String {
    let run = &analysis.run;
    format!(
        "Run {}, {} UTC, measured by pgassay {}",
        run.id,
        readable_time(&run.started),
        run.pgassay_version
    )
}

/// `2026-11-21T03:04:05.678Z` as `2026-11-21 03:04:05`; other text as it is.
fn readable_time(rfc3339: &str) -> String {
    match (rfc3339.get(..10), rfc3339.get(11..19)) {
        (Some(day), Some(time)) if rfc3339.ends_with('Z') => format!("{day} {time}"),
        _ => rfc3339.to_owned(),
    }
}

/// Warnings that head the result, and a run that is not whole.
fn alarms(analysis: &Analysis) -> Vec<String> {
    let heads = analysis.warnings.iter();
    let mut alarms: Vec<String> = heads
        .filter(|warning| analysis.headline.contains(&warning.text))
        .map(Warning::in_words)
        .collect();
    let told = analysis.warnings.iter().any(|w| w.id == "incomplete");
    if !told && let Some(standing) = standing(&analysis.run) {
        alarms.push(standing);
    }
    alarms
}

fn standing(run: &RunInfo) -> Option<String> {
    let what = match run.state {
        RunState::Complete => return None,
        RunState::Interrupted => "This run was interrupted",
        RunState::ServerDied => "The server died or was lost during this run",
        RunState::Failed => "This run failed before its end",
        RunState::Running => "This run is still being measured",
    };
    let reason = match &run.reason {
        Some(reason) => format!(" ({reason})"),
        None => String::new(),
    };
    Some(format!(
        "{what}{reason}: {} of {} trials were measured. What follows rests on these alone.",
        run.trials_measured, run.trials_planned
    ))
}

/// Microseconds, from 10,000 on as milliseconds.
fn legible(us: &Estimate) -> (Estimate, &'static str) {
    let (factor, unit) = match us.estimate {
        us if us < 1e4 => (1.0, "µs"),
        _ => (1e-3, "ms"),
    };
    let estimate = Estimate {
        estimate: us.estimate * factor,
        low: us.low * factor,
        high: us.high * factor,
        ..us.clone()
    };
    (estimate, unit)
}

/// Every point with its arm, by client count and then in the order of the arms.
fn points(load: &StageAnalysis) -> Vec<(&StageArm, &PointAnalysis)> {
    let mut points: Vec<_> = load
        .arms
        .iter()
        .flat_map(|arm| arm.points.iter().map(move |point| (arm, point)))
        .collect();
    points.sort_by_key(|(_, point)| point.point.clients);
    points
}

/// `8 clients`, with the arm before it where there are several.
fn place(load: &StageAnalysis, arm: &StageArm, clients: u32) -> String {
    let clients = number::counted(clients, "client");
    match load.arms.len() {
        0 | 1 => clients,
        _ => format!("{}, {clients}", arm.label),
    }
}

/// Whether a server was measured at more than one client count, so that there is
/// a course to draw.
fn has_course(arm: &StageArm) -> bool {
    arm.points.len() > 1
}

/// The client counts measured, ascending: the labels of a clients axis.
fn client_ticks(load: &StageAnalysis) -> Vec<f64> {
    let mut clients: Vec<u32> = points(load).iter().map(|(_, p)| p.point.clients).collect();
    clients.dedup();
    clients.into_iter().map(f64::from).collect()
}

/// The charts' form of an estimate; `unit` goes into what a pointer reads.
fn interval(x: f64, estimate: &Estimate, what: &str, unit: &str) -> Interval {
    let shown = number::shown(estimate);
    let (low, high, spread) = match shown.interval {
        Some(interval) => (estimate.low, estimate.high, format!(" ({})", interval.ends)),
        None => (f64::NAN, f64::NAN, String::new()),
    };
    Interval {
        x,
        y: estimate.estimate,
        low,
        high,
        tip: format!("{what}: {}{spread} {unit}", shown.value),
    }
}

/// More trials of a point than this are thinned out in charts, evenly.
const MOST_DOTS: usize = 120;

/// Every how many-th of so many trials is drawn.
fn thinning(trials: usize, most: usize) -> usize {
    trials.div_ceil(most).max(1)
}

/// Says that a chart does not show every trial, where it does not.
fn thinned(trials: usize, most: usize) -> String {
    match thinning(trials, most) {
        1 => String::new(),
        2 => " Every second trial is drawn.".to_owned(),
        n => format!(" One trial in {n} is drawn."),
    }
}

/// The same for charts that show the trials of each point.
fn thinned_at_points(load: &StageAnalysis) -> String {
    let all = points(load);
    let most = all.iter().map(|(_, p)| p.trials.len()).max();
    thinned(most.unwrap_or(0), MOST_DOTS)
}

/// How wide the intervals of a table claim to be, in words.
fn levels<'a>(estimates: impl Iterator<Item = &'a Estimate>) -> String {
    let (mut level, mut n, mut any) = ((f64::MAX, f64::MIN), (usize::MAX, 0), false);
    for e in estimates.inspect(|_| any = true).filter(|e| e.n > 1) {
        level = (level.0.min(e.level), level.1.max(e.level));
        n = (n.0.min(e.n), n.1.max(e.n));
    }
    if !any {
        return String::new();
    }
    if n.1 == 0 {
        return "One trial each: no spread can be given.".to_owned();
    }
    let level = match (number::share(level.0), number::share(level.1)) {
        (low, high) if low == high => low,
        (low, high) => format!("{low} to {high}"),
    };
    let n = match n {
        (low, high) if low == high => format!("{low} trials"),
        (low, high) => format!("{low} to {high} trials"),
    };
    format!("Spreads are {level} intervals over {n}.")
}

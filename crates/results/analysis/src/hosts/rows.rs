//! Any number of machines in one table: a row a run or lab, with what it was measured on and its figures in some
//! scenarios.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::scenario::{Family, Seen};
use super::{Recorded, common, other_question, value};
use crate::stats::Direction::{self, HigherIsBetter};
use crate::stats::Estimate;

/// Name and version of the serialized form.
pub const MACHINES_SCHEMA: &str = "pgassay/machines/1";

/// Many machines in one table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Machines {
    /// [`MACHINES_SCHEMA`].
    pub schema: String,
    /// The scenarios whose figures stand in the rows.
    pub scenarios: Vec<Asked>,
    /// The other scenarios that were measured, by name.
    pub further: Vec<String>,
    /// One a run or lab that has a figure: by the first scenario, the best first, those without that one last.
    pub rows: Vec<Row>,
    /// The runs that measured none of these scenarios, by name.
    pub without: Vec<String>,
}

/// A scenario that was asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Asked {
    /// Its name.
    pub name: String,
    /// What part of a machine it asks.
    pub family: Family,
    /// The unit of its values.
    pub unit: String,
    /// Whether more is better.
    pub better: Direction,
}

/// A machine, by what was recorded on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Row {
    /// The run, or the lab, by name.
    pub run: String,
    /// Its directory.
    pub directory: String,
    /// When it began, UTC.
    pub started: String,
    /// The pgassay that measured it.
    pub pgassay_version: String,
    /// Its processor.
    pub processor: Option<String>,
    /// Physical cores; logical CPUs where these are not known.
    pub cores: Option<u32>,
    /// The clock of its cores in GHz, as the kernel says it.
    pub ghz: Option<f64>,
    /// The kernel.
    pub kernel: Option<String>,
    /// The server's version; none of a lab of several.
    pub server: Option<String>,
    /// How it was compiled, as far as it bears on its atomics, likewise.
    pub build: Option<String>,
    /// How far the measurement was disturbed: the worst grade.
    pub quality: Option<String>,
    /// One a scenario; none where that was not measured.
    pub figures: Vec<Option<Figure>>,
}

/// What a machine did in a scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Figure {
    /// The value, with the interval over trials.
    pub value: Estimate,
    /// Clients or sessions.
    pub sessions: Option<u32>,
    /// Why it tells of something else than the server, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited: Option<String>,
    /// In what it answers another question than most rows do, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_question: Option<String>,
}

type Key = (Family, String);

/// Puts recorded runs into rows, with the scenarios of these names; without any name, that of the whole machine which most of them have.
///
/// # Errors
/// Where one of them was not measured anywhere, with those that were.
pub fn in_rows(recorded: &[Recorded], named: &[String]) -> Result<Machines, String> {
    let machines = machines(recorded);
    let mut known: BTreeMap<&Key, Vec<&Seen>> = BTreeMap::new();
    let seen: Vec<BTreeMap<Key, Vec<Seen>>> = machines.iter().map(|of| by_key(of)).collect();
    for (key, seen) in seen.iter().flatten() {
        known.entry(key).or_default().extend(seen.first());
    }
    let mut asked: Vec<&Key> = Vec::new();
    for name in named {
        let found = known.keys().find(|key| key.1.eq_ignore_ascii_case(name));
        let Some(found) = found else {
            let names: Vec<&str> = known.keys().map(|key| key.1.as_str()).collect();
            return Err(format!(
                "no run measured {name:?}; there are: {}",
                names.join(" | ")
            ));
        };
        if !asked.contains(found) {
            asked.push(found);
        }
    }
    if asked.is_empty() {
        // One that uses the whole machine, where there is one.
        let all = known.iter();
        let most = all.max_by(|(a, of_a), (b, of_b)| {
            let whole = |key: &Key| key.0.takes_all_cores();
            let whole = whole(a).cmp(&whole(b));
            whole
                .then(of_a.len().cmp(&of_b.len()))
                .then_with(|| b.cmp(a))
        });
        asked.extend(most.map(|(key, _)| key));
    }
    let usual: Vec<Option<Seen>> = asked.iter().map(|key| usual(&known[*key])).collect();
    let rows = machines.iter().zip(&seen).map(|(runs, seen)| {
        let figures = asked.iter().zip(&usual);
        let figures = figures.map(|(key, usual)| Some(figure(seen.get(*key)?, usual.as_ref())));
        row(runs, figures.collect())
    });
    let (mut rows, without): (Vec<Row>, Vec<Row>) =
        rows.partition(|row| row.figures.iter().any(Option::is_some));
    let scenarios: Vec<Asked> = asked
        .iter()
        .filter_map(|key| {
            let of = known[*key].first()?;
            Some(Asked {
                name: key.1.clone(),
                family: key.0,
                unit: of.unit.to_owned(),
                better: of.better,
            })
        })
        .collect();
    if let Some(first) = scenarios.first() {
        rows.sort_by(|a, b| by_first(a, b, first.better));
    }
    let further = known.keys().filter(|key| !asked.contains(key));
    Ok(Machines {
        schema: MACHINES_SCHEMA.to_owned(),
        scenarios,
        further: further.map(|key| key.1.clone()).collect(),
        rows,
        without: without.into_iter().map(|row| row.run).collect(),
    })
}

/// The runs of each row: one, or all of a lab.
fn machines(recorded: &[Recorded]) -> Vec<Vec<&Recorded>> {
    let mut machines: Vec<Vec<&Recorded>> = Vec::new();
    for run in recorded {
        let lab = |other: &Recorded| other.lab.as_ref().map(|lab| lab.dir.clone());
        // A lab may have had arms on several machines.
        let host = |other: &Recorded| {
            let host = &other.analysis.host;
            (host.cpu_model.clone(), host.cpus, host.kernel.clone())
        };
        let same = |row: &&mut Vec<&Recorded>| {
            lab(run).is_some() && lab(row[0]) == lab(run) && host(row[0]) == host(run)
        };
        match machines.iter_mut().find(same) {
            Some(row) => row.push(run),
            None => machines.push(vec![run]),
        }
    }
    machines
}

fn by_key(runs: &[&Recorded]) -> BTreeMap<Key, Vec<Seen>> {
    let mut all: BTreeMap<Key, Vec<Seen>> = BTreeMap::new();
    for one in runs.iter().flat_map(|run| &run.seen) {
        let key = (one.family, one.name.clone());
        all.entry(key).or_default().push(one.clone());
    }
    all
}

/// One that asks what most of them ask.
fn usual(seen: &[&Seen]) -> Option<Seen> {
    let alike = |one: &Seen| {
        let same = seen.iter().filter(|other| other.question == one.question);
        same.count()
    };
    // The first of those that are equally many.
    let most = seen.iter().rev().max_by_key(|one| alike(one));
    most.map(|one| (*one).clone())
}

fn figure(seen: &[Seen], usual: Option<&Seen>) -> Figure {
    let of = value(seen);
    Figure {
        value: of.value,
        sessions: of.sessions,
        limited: of.limited,
        other_question: usual.and_then(|usual| other_question(std::slice::from_ref(usual), seen)),
    }
}

fn row(runs: &[&Recorded], figures: Vec<Option<Figure>>) -> Row {
    let first = runs[0];
    let (of, host) = (&first.analysis.run, &first.analysis.host);
    let arms = || {
        let analyses = runs.iter().map(|run| &run.analysis);
        analyses.flat_map(|analysis| match first.lab {
            Some(_) => analysis.arms.as_slice(),
            // Its figures are those of its first server.
            None => analysis.arms.get(..1).unwrap_or_default(),
        })
    };
    let versions = arms().filter_map(|arm| Some(arm.server.as_ref()?.version.clone()));
    let builds = arms().filter_map(|arm| Some(arm.verdict.as_ref()?.runs.clone()));
    let grades = runs.iter().filter_map(|run| run.analysis.quality.as_ref());
    Row {
        run: first.lab.as_ref().map_or(&of.id, |lab| &lab.id).clone(),
        directory: first
            .lab
            .as_ref()
            .map_or(&first.dir, |lab| &lab.dir)
            .clone(),
        started: of.started.clone(),
        pgassay_version: of.pgassay_version.clone(),
        processor: host.cpu_model.clone().or_else(|| host.processors()),
        cores: host.cores.or(host.cpus),
        ghz: host.cpu_hz.map(|hz| hz as f64 / 1e9),
        kernel: host.kernel.clone(),
        server: common(versions),
        build: common(builds),
        quality: grades
            .map(|quality| quality.grade)
            .max()
            .map(|grade| grade.name().to_owned()),
        figures,
    }
}

fn by_first(a: &Row, b: &Row, better: Direction) -> Ordering {
    let of = |row: &Row| {
        let first = row.figures.first()?.as_ref()?;
        Some(first.value.estimate)
    };
    match (of(a), of(b)) {
        (Some(a), Some(b)) if better == HigherIsBetter => b.total_cmp(&a),
        (Some(a), Some(b)) => a.total_cmp(&b),
        (a, b) => b.is_some().cmp(&a.is_some()),
    }
}

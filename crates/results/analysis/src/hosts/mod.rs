//! Machines side by side: what each did in every scenario that both were measured in, by itself, for each
//! core, for each GHz and for its price; and the pattern over the scenarios.
//!
//! The runs were recorded apart, most often on different machines, so nothing here is a verdict as a
//! comparison gives one: a ratio has the interval that the trials give, and is called a difference only
//! beyond what two runs of the same server are taken to differ by ([`Hosts::apart`]).

mod differences;
mod pattern;
mod rows;
mod scenario;

use std::collections::BTreeMap;

use pgassay_model::axis;
use pgassay_model::query_cost::Way;
use serde::{Deserialize, Serialize};

pub use differences::{Difference, differences};
pub use rows::{Asked, Figure, MACHINES_SCHEMA, Machines, Row, in_rows};
pub use scenario::Family;

use crate::analysis::Analysis;
use crate::lab::LabPlan;
use crate::lab::evidence::Part;
use crate::profile::stage::Stage;
use crate::stats::Direction::{self, HigherIsBetter};
use crate::stats::{Estimate, Rule, compare_runs, summarize_positive};
use scenario::{Seen, seen, seen_in_lab};

/// Name and version of the serialized form.
pub const SCHEMA: &str = "pgassay/hosts/1";

/// Two runs of the same server, recorded apart, are taken to differ by so much, 0.1 for 10 %: of eight
/// comparisons of a server with itself on a shared machine the largest showed 6 %.
pub const APART: f64 = 0.10;

/// A recorded run, by itself or of a lab.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// The directory that it lies in.
    dir: String,
    /// What it is, and what its first server did.
    analysis: Analysis,
    /// What it is a part of.
    lab: Option<OfLab>,
    /// Every scenario in it.
    seen: Vec<Seen>,
}

/// What a run is of a lab.
#[derive(Debug, Clone)]
struct OfLab {
    /// The lab's name.
    id: String,
    /// Its directory.
    dir: String,
    /// Which part of it.
    part: String,
}

impl Recorded {
    /// A run by itself.
    pub fn run(dir: String, analysis: Analysis) -> Self {
        Self {
            dir,
            seen: seen(&analysis),
            analysis,
            lab: None,
        }
    }

    /// A part of a lab, of which name and directory are given, whose run lies in `dir`; none where it is no run.
    pub fn of_lab(lab: (&str, &str), plan: &LabPlan, part: &Part, dir: String) -> Option<Self> {
        let name = part_name(plan, part);
        Some(Self {
            dir,
            analysis: part.analysis()?.clone(),
            seen: seen_in_lab(part, &name),
            lab: Some(OfLab {
                id: lab.0.to_owned(),
                dir: lab.1.to_owned(),
                part: name,
            }),
        })
    }

    /// The directory that it lies in.
    pub fn dir(&self) -> &str {
        &self.dir
    }

    /// Which part of a lab it is; empty of a run by itself.
    fn part(&self) -> &str {
        self.lab.as_ref().map_or("", |lab| &lab.part)
    }
}

/// A part by its stage and what is its own of the stage's axes: a scale that a stage has alone may be another one on
/// a machine of another size.
fn part_name(plan: &LabPlan, part: &Part) -> String {
    let several = |axis: &str| {
        let Some(stage) = plan.stage(&part.stage) else {
            return true;
        };
        1 < match axis {
            "scale" => stage.scale.len(),
            "shared-buffers" => stage.shared_buffers.len(),
            "cpus" => stage.cpus.len(),
            "smt" => stage.smt.len(),
            _ => stage.numa.len(),
        }
    };
    let mut own = part.leg.values();
    own.retain(|value| several(&value.axis));
    match own.is_empty() {
        true => part.stage.clone(),
        false => format!("{}, {}", part.stage, axis::in_words(&own)),
    }
}

/// One side: runs of one server on one machine, or of a group of hosts, or a lab's.
#[derive(Debug, Clone)]
pub struct Given {
    /// Its runs, at least one.
    pub runs: Vec<Recorded>,
    /// The clock of its cores in GHz, where the user says it.
    pub ghz: Option<f64>,
    /// What the machine costs.
    pub price: Option<Price>,
}

/// What a machine costs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Price {
    /// The amount.
    pub amount: f64,
    /// Of what and for what time, such as `USD/h`.
    pub unit: String,
}

/// Machines side by side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Hosts {
    /// [`SCHEMA`].
    pub schema: String,
    /// The sides, the first is what the others are held against.
    pub sides: Vec<Side>,
    /// What was measured on the first and on at least one other, by family.
    pub scenarios: Vec<Scenario>,
    /// Scenarios that only some sides have, or that ask another question on each: name and why.
    pub left_out: Vec<LeftOut>,
    /// The pattern over the scenarios, in sentences.
    pub pattern: Vec<String>,
    /// Where plpgsql-loop's CPU time goes on each side, microseconds a query by stage of a statement; empty
    /// where it was not measured on both.
    pub plpgsql: Vec<StageOf>,
    /// In what the machines, servers and runs differ, as far as runs record it; of each side's first run.
    pub differences: Vec<Difference>,
    /// Ratios within this of 1 are no difference, 0.1 for 10 %.
    pub apart: f64,
}

/// A side and its machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Side {
    /// `A`, `B` …
    pub label: String,
    /// The lab that its runs are of, where they are of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lab: Option<String>,
    /// Its runs, by name.
    pub runs: Vec<String>,
    /// When the first of them began, UTC.
    pub started: String,
    /// Processors and their number, of each kind among its hosts.
    pub processors: Option<String>,
    /// Physical cores; logical CPUs where these are not known. None where hosts differ.
    pub cores: Option<u32>,
    /// The clock of its cores in GHz: as given, else what the kernel says. None where hosts differ.
    pub ghz: Option<f64>,
    /// What it costs.
    pub price: Option<Price>,
    /// The server's version.
    pub server: Option<String>,
    /// How the server was compiled, as far as it bears on its atomics.
    pub build: Option<String>,
    /// How far the runs were disturbed: the worst grade.
    pub quality: Option<String>,
}

/// A scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Scenario {
    /// What part of a machine it asks.
    pub family: Family,
    /// Its name.
    pub name: String,
    /// The unit of its values.
    pub unit: String,
    /// Whether more is better.
    pub better: Direction,
    /// One a side; none where that was not measured there.
    pub values: Vec<Option<Value>>,
    /// One a side but the first: how much better than the first it is.
    pub gains: Vec<Option<Gain>>,
}

/// What a side did in a scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Value {
    /// The value; of several runs that over the runs' medians.
    pub value: Estimate,
    /// Clients or sessions.
    pub sessions: Option<u32>,
    /// Why it tells of something else than the server, if it does.
    pub limited: Option<String>,
    /// What disturbed its run too much for a judgement, if that was so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disturbed: Option<String>,
}

/// How much better a side is than the first: above 1 it is, whichever way the figure points.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Gain {
    /// As measured.
    pub ratio: Estimate,
    /// Divided by the ratio of cores; none where the scenario does not use all, or these are not known.
    pub per_core: Option<f64>,
    /// Divided by the ratio of clocks, and of cores where all are used.
    pub per_ghz: Option<f64>,
    /// Divided by the ratio of prices.
    pub per_price: Option<f64>,
    /// Whether the whole interval lies beyond what two runs of one server differ by, of two figures that tell of
    /// the servers: neither limited by the client nor of a run graded as poor.
    pub clear: bool,
}

/// A scenario without ratio.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeftOut {
    /// Its name.
    pub scenario: String,
    /// The side.
    pub side: String,
    /// Why.
    pub why: String,
}

/// CPU time of a stage of a statement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StageOf {
    /// The stage.
    pub stage: String,
    /// Microseconds a query, one a side; none where that was not measured.
    pub us_per_query: Vec<Option<f64>>,
}

/// Puts sides next to each other; `None` without two of them.
///
/// `run_spread` is how far equal runs are known to lie apart, as a standard deviation, where it is known
/// (0.03 for 3 %): it then takes the place of [`APART`], at two standard deviations of a difference.
pub fn side_by_side(given: &[Given], run_spread: Option<f64>) -> Option<Hosts> {
    if given.len() < 2 || given.iter().any(|side| side.runs.is_empty()) {
        return None;
    }
    let labels: Vec<String> = ('A'..).take(given.len()).map(String::from).collect();
    let sides: Vec<Side> = given.iter().zip(&labels).map(side).collect();
    let apart = run_spread.map_or(APART, |s| 2.0 * std::f64::consts::SQRT_2 * s);
    let seen: Vec<BTreeMap<(Family, String), Vec<Seen>>> = given.iter().map(by_name).collect();
    let (first, others) = seen.split_first()?;
    let mut left_out = Vec::new();
    let mut scenarios = Vec::new();
    for (key, of_a) in first {
        let mut values = vec![Some(value(of_a))];
        let mut gains = Vec::new();
        for (n, side) in others.iter().enumerate() {
            let Some(of_b) = side.get(key) else {
                values.push(None);
                gains.push(None);
                left_out.push(LeftOut {
                    scenario: key.1.clone(),
                    side: labels[n + 1].clone(),
                    why: "was not measured there".to_owned(),
                });
                continue;
            };
            values.push(Some(value(of_b)));
            match other_question(of_a, of_b) {
                Some(why) => {
                    gains.push(None);
                    left_out.push(LeftOut {
                        scenario: key.1.clone(),
                        side: labels[n + 1].clone(),
                        why,
                    });
                }
                None => gains.push(gain(of_a, of_b, (&sides[0], &sides[n + 1]), apart)),
            }
        }
        let one = of_a.first()?;
        scenarios.push(Scenario {
            family: key.0,
            name: key.1.clone(),
            unit: one.unit.to_owned(),
            better: one.better,
            values,
            gains,
        });
    }
    for (n, side) in others.iter().enumerate() {
        for key in side.keys().filter(|key| !first.contains_key(*key)) {
            left_out.push(LeftOut {
                scenario: key.1.clone(),
                side: labels[n + 1].clone(),
                why: "was measured there alone".to_owned(),
            });
        }
    }
    let pattern = pattern::pattern(&sides, &scenarios);
    Some(Hosts {
        schema: SCHEMA.to_owned(),
        plpgsql: plpgsql(given),
        differences: differences(&alike(given)),
        sides,
        scenarios,
        left_out,
        pattern,
        apart,
    })
}

/// Of each side the first run, of labs that of the first part that all have.
fn alike(given: &[Given]) -> Vec<&Analysis> {
    let of = |side: &'_ Given, part: &str| side.runs.iter().position(|run| run.part() == part);
    let mut parts = given.iter().take(1).flat_map(|first| &first.runs);
    let common = parts.find(|run| given.iter().all(|side| of(side, run.part()).is_some()));
    let each = given.iter().filter_map(|side| {
        let at = common.and_then(|run| of(side, run.part())).unwrap_or(0);
        Some(&side.runs.get(at)?.analysis)
    });
    each.collect()
}

fn side((given, label): (&Given, &String)) -> Side {
    let first = given.runs.first().map(|run| &run.analysis);
    let runs = || given.runs.iter().map(|run| &run.analysis);
    let arm = first.and_then(|run| run.arms.first());
    let hosts = || runs().map(|run| &run.host);
    let mut processors: Vec<String> = hosts().filter_map(|host| host.processors()).collect();
    processors.sort();
    processors.dedup();
    let grades = runs().filter_map(|run| run.quality.as_ref());
    let build = arm.and_then(|arm| arm.verdict.as_ref());
    Side {
        label: label.clone(),
        lab: given
            .runs
            .first()
            .and_then(|run| Some(run.lab.as_ref()?.id.clone())),
        runs: runs().map(|run| run.run.id.clone()).collect(),
        started: first.map_or_else(String::new, |run| run.run.started.clone()),
        processors: (!processors.is_empty()).then(|| processors.join("; ")),
        cores: common(hosts().filter_map(|host| host.cores.or(host.cpus))),
        ghz: given
            .ghz
            .or_else(|| common(hosts().filter_map(|host| host.cpu_hz)).map(|hz| hz as f64 / 1e9)),
        price: given.price.clone(),
        server: arm
            .and_then(|arm| arm.server.as_ref())
            .map(|server| server.version.clone()),
        build: build.map(|verdict| verdict.runs.clone()),
        quality: grades
            .map(|quality| quality.grade)
            .max()
            .map(|grade| grade.name().to_owned()),
    }
}

/// What all have; none where they differ, or there is none.
fn common<T: PartialEq>(mut values: impl Iterator<Item = T>) -> Option<T> {
    let first = values.next()?;
    values.all(|value| value == first).then_some(first)
}

/// The scenarios of a side, each with what every run of it showed.
fn by_name(given: &Given) -> BTreeMap<(Family, String), Vec<Seen>> {
    let mut all: BTreeMap<(Family, String), Vec<Seen>> = BTreeMap::new();
    for run in &given.runs {
        for one in &run.seen {
            all.entry((one.family, one.name.clone()))
                .or_default()
                .push(one.clone());
        }
    }
    all
}

fn value(of: &[Seen]) -> Value {
    let one = of.iter().max_by_key(|seen| seen.sessions);
    let centres: Vec<f64> = of.iter().map(|seen| seen.value.estimate).collect();
    let alone = of.first().map(|seen| seen.value.clone());
    Value {
        value: match centres.len() {
            1 => alone,
            _ => summarize_positive(&centres).or(alone),
        }
        .unwrap_or_else(|| of[0].value.clone()),
        sessions: one.and_then(|seen| seen.sessions),
        limited: of.iter().find_map(|seen| seen.limited).map(str::to_owned),
        disturbed: of.iter().find_map(|seen| seen.disturbed.clone()),
    }
}

/// Why two sides' figures of one name answer different questions, if they do.
fn other_question(a: &[Seen], b: &[Seen]) -> Option<String> {
    let reference = &a.first()?.question;
    for other in a.iter().chain(b) {
        let (mut here, mut there) = (reference.iter(), other.question.iter());
        loop {
            match (here.next(), there.next()) {
                (None, None) => break,
                (Some((what, of_a)), Some((_, of_b))) if of_a != of_b => {
                    let shown = |value: &str| match value {
                        "" => "not recorded".to_owned(),
                        value => value.to_owned(),
                    };
                    return Some(match of_a.len() + of_b.len() < 60 {
                        true => format!(
                            "asks another question: {what} is {} and {}",
                            shown(of_a),
                            shown(of_b)
                        ),
                        false => format!("asks another question: other {what}"),
                    });
                }
                (Some(_), Some(_)) => {}
                (Some((what, _)), None) | (None, Some((what, _))) => {
                    return Some(format!("{what} is known of one side only"));
                }
            }
        }
    }
    None
}

fn gain(a: &[Seen], b: &[Seen], sides: (&Side, &Side), apart: f64) -> Option<Gain> {
    let one = a.first()?;
    let trials = |side: &[Seen]| {
        let runs = side.iter().map(|seen| seen.trials.clone());
        runs.collect::<Vec<_>>()
    };
    let recorded = |side: &[Seen]| side.iter().all(|seen| !seen.trials.is_empty());
    let ratio = match recorded(a) && recorded(b) {
        true => {
            let rule = Rule::new(0.0, one.better).ok()?;
            compare_runs(&trials(a), &trials(b), None, rule).ok()?.ratio
        }
        false => quotient(&value(a).value, &value(b).value)?,
    };
    let ratio = match one.better == HigherIsBetter {
        true => ratio,
        false => inverse(ratio),
    };
    if !(ratio.estimate.is_finite() && ratio.estimate > 0.0) {
        return None;
    }
    let told = |seen: &Seen| seen.limited.is_none() && seen.disturbed.is_none();
    let told = a.iter().chain(b).all(told);
    let (of_a, of_b) = sides;
    let all_cores = one.family.takes_all_cores();
    let cores = ratio_of(of_a.cores.map(f64::from), of_b.cores.map(f64::from));
    let clock = ratio_of(of_a.ghz, of_b.ghz);
    let price = of_a.price.as_ref().zip(of_b.price.as_ref());
    let price = price
        .filter(|(a, b)| a.unit == b.unit)
        .and_then(|(a, b)| ratio_of(Some(a.amount), Some(b.amount)));
    let by = |divisor: Option<f64>| divisor.map(|divisor| ratio.estimate / divisor);
    Some(Gain {
        per_core: by(cores.filter(|_| all_cores)),
        per_ghz: by(match (all_cores, one.family.follows_the_clock()) {
            (_, false) => None,
            (true, true) => clock.zip(cores).map(|(clock, cores)| clock * cores),
            (false, true) => clock,
        }),
        per_price: by(price.filter(|_| all_cores)),
        clear: told && (ratio.low > 1.0 + apart || ratio.high < 1.0 / (1.0 + apart)),
        ratio,
    })
}

/// B's over A's.
fn ratio_of(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    let ratio = b? / a?;
    (ratio.is_finite() && ratio > 0.0).then_some(ratio)
}

/// B's estimate over A's, their intervals taken together as independent ones on the logarithms.
fn quotient(a: &Estimate, b: &Estimate) -> Option<Estimate> {
    let usable = |e: &Estimate| e.low > 0.0 && e.high.is_finite() && e.low <= e.estimate;
    if !usable(a) || !usable(b) {
        return None;
    }
    let centre = (b.estimate / a.estimate).ln();
    let below = (b.estimate / b.low).ln().hypot((a.high / a.estimate).ln());
    let above = (b.high / b.estimate).ln().hypot((a.estimate / a.low).ln());
    Some(Estimate {
        estimate: centre.exp(),
        low: (centre - below).exp(),
        high: (centre + above).exp(),
        level: a.level.min(b.level),
        n: a.n.min(b.n),
        warnings: Vec::new(),
    })
}

fn inverse(ratio: Estimate) -> Estimate {
    Estimate {
        estimate: 1.0 / ratio.estimate,
        low: 1.0 / ratio.high,
        high: 1.0 / ratio.low,
        ..ratio
    }
}

/// plpgsql-loop's CPU time by stage of a statement, where two sides at least have it.
fn plpgsql(given: &[Given]) -> Vec<StageOf> {
    let ways: Vec<_> = given
        .iter()
        .map(|side| {
            let costs = side
                .runs
                .iter()
                .filter_map(|run| run.analysis.query_cost.as_ref());
            costs.filter_map(|cost| cost.way(Way::PlpgsqlLoop)).next()
        })
        .collect();
    if ways.iter().flatten().count() < 2 {
        return Vec::new();
    }
    let mut stages: Vec<Stage> = Vec::new();
    for stage in ways.iter().flatten().flat_map(|way| &way.stages) {
        if !stages.contains(&stage.stage) {
            stages.push(stage.stage);
        }
    }
    let row = |stage: Stage| StageOf {
        stage: stage.title().to_owned(),
        us_per_query: ways
            .iter()
            .map(|way| {
                let of = way.as_ref()?.stages.iter().find(|s| s.stage == stage);
                of.map(|of| of.us_per_query)
            })
            .collect(),
    };
    stages.into_iter().map(row).collect()
}

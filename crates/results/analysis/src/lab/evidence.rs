//! What a lab's stages showed, and the figures in it that statements ask for.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::legs::Leg;
use super::plan::{Clients, Named, Operand};
use crate::analysis::Analysis;
use crate::compare::Compare;
use crate::compare::model::PointResult;
use crate::counts::Counts;
use crate::host::HostSummary;
use crate::measured::{PointAnalysis, StageArm};
use crate::metrics::{MetricId, THROUGHPUT};
use crate::observed::{ArmObserved, PointObserved};
use crate::quality::Grade;
use crate::stats::{Estimate, Rule, compare_in_order, compare_launches, summarize_positive};
use pgassay_model::query_cost::Way;
use pgassay_model::stage::StageId;

/// The unit of a metric in a load of this kind: throughput is counted in what the load does.
fn unit_of(metric: MetricId, load: StageId) -> &'static str {
    match metric == THROUGHPUT {
        true => load.work().rate,
        false => metric.unit,
    }
}

/// All that was measured.
#[derive(Debug, Clone, Default)]
pub struct Evidence {
    /// The machine.
    pub host: HostSummary,
    /// Each part of each stage.
    pub parts: Vec<Part>,
}

/// A part of a stage: one combination of its axes.
#[derive(Debug, Clone)]
pub struct Part {
    /// The stage's id.
    pub stage: String,
    /// The combination.
    pub leg: Leg,
    /// The arms, in the order in which they were measured.
    pub arms: Vec<String>,
    /// What it showed.
    pub shown: Shown,
}

/// What a part of a stage showed.
#[derive(Debug, Clone)]
pub enum Shown {
    /// Arms held against each other.
    Compared(Box<Compare>),
    /// One arm.
    Run(Box<Analysis>),
    /// Instructions of two arms.
    Counted(Box<Counts>),
    /// What is in the executables, one an arm; the text says why not.
    Inspected(Vec<Result<CodeCounts, String>>),
    /// Nothing, and why.
    Missing(String),
}

/// Atomic instructions of an executable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeCounts {
    /// LSE atomics outside of the outline helpers.
    pub lse: u64,
    /// Exclusive loads and stores, likewise.
    pub exclusive: u64,
    /// Calls of outline helpers.
    pub outline_calls: u64,
}

/// A figure that was found.
#[derive(Debug, Clone)]
pub struct Found {
    /// The figure, with its interval.
    pub estimate: Estimate,
    /// Its unit.
    pub unit: String,
    /// Of how many clients, where it is of a number of clients.
    pub clients: Option<u32>,
    /// Round by round, by launch and round, where it was measured in rounds with others.
    pub rounds: BTreeMap<(u32, u32), f64>,
    /// It rests on counting, not on time, so that a disturbed machine leaves it as it is.
    pub counted: bool,
}

impl Evidence {
    /// The part of a stage that an operand speaks of.
    ///
    /// # Errors
    /// Why nothing was measured in it.
    pub fn part(&self, operand: &Operand) -> Result<&Part, String> {
        let mut of = self.parts.iter().filter(|p| p.stage == operand.stage);
        let part = of
            .find(|part| part.leg.is_of(operand))
            .ok_or_else(|| format!("{} was not measured", operand.stage))?;
        match &part.shown {
            Shown::Missing(why) => Err(why.clone()),
            _ => Ok(part),
        }
    }

    /// The machines on which these stages were measured; where nothing tells, that of the lab.
    pub fn hosts(&self, stages: &[&str]) -> Vec<&HostSummary> {
        let of = self
            .parts
            .iter()
            .filter(|part| stages.contains(&part.stage.as_str()));
        let hosts: Vec<&HostSummary> = of.filter_map(|part| Some(&part.analysis()?.host)).collect();
        match hosts.is_empty() {
            true => vec![&self.host],
            false => hosts,
        }
    }

    /// A figure.
    ///
    /// # Errors
    /// Why there is none.
    pub fn figure(&self, operand: &Operand) -> Result<Found, String> {
        self.part(operand)?.figure(operand)
    }

    /// The ratio of two figures, with its interval. What was measured in the same rounds is compared
    /// round by round; else the interval is what both intervals leave open together.
    ///
    /// # Errors
    /// Why there is none.
    pub fn ratio(&self, of: &Operand, over: &Operand) -> Result<Estimate, String> {
        let (part, other) = (self.part(of)?, self.part(over)?);
        let (above, below) = (part.figure(of)?, other.figure(over)?);
        if std::ptr::eq(part, other) {
            let alike = of.arm == over.arm && of.quantity == over.quantity;
            if alike && above.clients == below.clients {
                return Err(match above.clients {
                    Some(n) => format!("both figures are of the same point here, {n} clients"),
                    None => "both figures are the same".to_owned(),
                });
            }
            if let Some(estimate) = part.compared(of, over, &above, &below) {
                return estimate;
            }
            if let Some(estimate) = round_by_round(&above, &below) {
                return Ok(estimate);
            }
        }
        if let Some(why) = part.disturbed().or_else(|| other.disturbed())
            && !(above.counted && below.counted)
        {
            return Err(why);
        }
        unpaired(&above.estimate, &below.estimate)
    }
}

/// What two intervals leave open together: wider than the interval of the ratio itself would be, unless
/// one figure is high when the other is low.
fn unpaired(above: &Estimate, below: &Estimate) -> Result<Estimate, String> {
    if below.low <= 0.0 || !below.low.is_finite() {
        return Err("it may be zero what is divided by".to_owned());
    }
    Ok(Estimate {
        estimate: above.estimate / below.estimate,
        low: above.low / below.high,
        high: above.high / below.low,
        level: above.level.min(below.level),
        n: above.n.min(below.n),
        warnings: Vec::new(),
    })
}

/// The ratio in each round that has both.
fn round_by_round(above: &Found, below: &Found) -> Option<Estimate> {
    let mut launches: BTreeMap<u32, Vec<(f64, f64)>> = BTreeMap::new();
    for ((launch, round), value) in &above.rounds {
        if let Some(other) = below.rounds.get(&(*launch, *round)) {
            launches.entry(*launch).or_default().push((*other, *value));
        }
    }
    let rule = Rule {
        delta: 0.0,
        direction: THROUGHPUT.better,
    };
    let launches: Vec<Vec<(f64, f64)>> = launches.into_values().collect();
    let compared = match launches.len() {
        0 => return None,
        1 => compare_in_order(&launches[0], rule),
        _ => compare_launches(&launches, rule),
    };
    Some(compared.ok()?.ratio)
}

impl Part {
    /// Position of an arm.
    fn arm(&self, name: &str) -> Result<usize, String> {
        let place = self.arms.iter().position(|arm| arm == name);
        place.ok_or_else(|| format!("{name} was not measured"))
    }

    /// The recorded run that it is of, concluded.
    pub fn analysis(&self) -> Option<&Analysis> {
        match &self.shown {
            Shown::Compared(compare) => Some(&compare.analysis),
            Shown::Run(analysis) => Some(analysis),
            _ => None,
        }
    }

    /// Why figures that were not measured side by side can't be held against each other.
    pub fn disturbed(&self) -> Option<String> {
        let quality = self.analysis()?.quality.as_ref()?;
        if quality.grade != Grade::Poor {
            return None;
        }
        let reasons: Vec<&str> = quality.reasons.iter().map(|r| r.text.as_str()).collect();
        Some(format!(
            "the machine was too disturbed for figures that were not measured side by side: {}",
            reasons.join("; ")
        ))
    }

    /// The client counts that were measured, ascending.
    pub fn counts(&self) -> Vec<u32> {
        let mut counts: Vec<u32> = match &self.shown {
            Shown::Compared(compare) => compare.results.iter().map(|r| r.clients).collect(),
            Shown::Run(analysis) => match &analysis.pgio {
                Some(pgio) => pgio.points.iter().map(|p| p.sessions).collect(),
                None => points(analysis, 0).map(|p| p.point.clients).collect(),
            },
            _ => Vec::new(),
        };
        counts.sort_unstable();
        counts.dedup();
        counts
    }

    /// The number of clients that is meant.
    fn clients(&self, arm: usize, clients: Clients) -> Result<u32, String> {
        let counts = self.counts();
        let measured = || {
            let list: Vec<String> = counts.iter().map(u32::to_string).collect();
            format!("measured here: {}", list.join(", "))
        };
        let (Some(first), Some(last)) = (counts.first(), counts.last()) else {
            return Err("no client count was measured".to_owned());
        };
        match clients {
            Clients::Exactly(n) if counts.contains(&n) => Ok(n),
            Clients::Exactly(n) => Err(format!("{n} clients were not measured; {}", measured())),
            Clients::Named(Named::Fewest) => Ok(*first),
            Clients::Named(Named::Most) => Ok(*last),
            Clients::Named(Named::Peak) => self
                .course(arm)
                .into_iter()
                .max_by(|a, b| a.1.estimate.total_cmp(&b.1.estimate))
                .map(|(clients, _)| clients)
                .ok_or_else(|| "no throughput was measured".to_owned()),
            Clients::Only if counts.len() == 1 => Ok(*first),
            Clients::Only => Err(format!(
                "which number of clients is not said; {}",
                measured()
            )),
        }
    }

    /// Throughput of an arm at each client count.
    pub fn course(&self, arm: usize) -> Vec<(u32, Estimate)> {
        let at = |clients: u32| {
            let values: Vec<f64> = match &self.shown {
                Shown::Compared(compare) => rounds(compare, arm, clients, THROUGHPUT)
                    .into_values()
                    .collect(),
                Shown::Run(analysis) => points(analysis, arm)
                    .find(|p| p.point.clients == clients)?
                    .values(THROUGHPUT)
                    .collect(),
                _ => return None,
            };
            Some((clients, summarize_positive(&values)?))
        };
        self.counts().into_iter().filter_map(at).collect()
    }

    /// See [`Self::course`], by the arm's name.
    ///
    /// # Errors
    /// Where it was not measured.
    pub fn course_of(&self, arm: &str) -> Result<Vec<(u32, Estimate)>, String> {
        Ok(self.course(self.arm(arm)?))
    }

    fn figure(&self, operand: &Operand) -> Result<Found, String> {
        let arm = self.arm(&operand.arm)?;
        let quantity = operand.quantity.as_str();
        match &self.shown {
            Shown::Compared(compare) => {
                let metric = MetricId::find(quantity).map_err(|error| error.to_string())?;
                let clients = self.clients(arm, operand.clients)?;
                let rounds = rounds(compare, arm, clients, metric);
                let values: Vec<f64> = rounds.values().copied().collect();
                let estimate = summarize_positive(&values)
                    .ok_or_else(|| format!("{quantity} was not seen at {clients} clients"))?;
                Ok(Found {
                    estimate,
                    unit: unit_of(metric, compare.analysis.main().id).to_owned(),
                    clients: Some(clients),
                    rounds,
                    counted: false,
                })
            }
            Shown::Run(analysis) => self.of_run(analysis, arm, operand),
            Shown::Counted(counts) => of_counts(counts, arm, quantity),
            Shown::Inspected(builds) => of_build(builds, arm, quantity),
            Shown::Missing(why) => Err(why.clone()),
        }
    }

    fn of_run(&self, analysis: &Analysis, arm: usize, operand: &Operand) -> Result<Found, String> {
        let quantity = operand.quantity.as_str();
        let not_seen = || format!("{quantity} was not seen");
        let found = |estimate: Estimate, unit: &str, counted: bool| Found {
            estimate,
            unit: unit.to_owned(),
            clients: None,
            rounds: BTreeMap::new(),
            counted,
        };
        if let Some((name, way)) = quantity.split_once(':') {
            if name == "query-cpu" {
                let cost = analysis.query_cost.as_ref().ok_or_else(not_seen)?;
                let way = way_of(way)?;
                let way = cost.way(way).ok_or_else(not_seen)?;
                return Ok(found(way.cpu_us_per_query.clone(), "µs", false));
            }
            let read = analysis.scattered_read.as_ref().ok_or_else(not_seen)?;
            let variant = read.variants.iter().find(|v| v.id == way);
            let variant = variant.ok_or_else(|| format!("{way} was not measured"))?;
            return match name {
                // What the server's processes had read, not what others did meanwhile.
                "amplification" => variant
                    .processes_amplification
                    .clone()
                    .or_else(|| variant.amplification.clone())
                    .map(|e| found(e, "", true)),
                "execution" => {
                    let cold = variant.cold.as_ref();
                    cold.map(|cost| found(cost.execution_ms.clone(), "ms", false))
                }
                "request-bytes" => variant
                    .request_bytes
                    .map(|b| found(exact(b), "bytes", true)),
                _ => None,
            }
            .ok_or_else(not_seen);
        }
        let clients = self.clients(arm, operand.clients)?;
        if quantity == "pgio-reads-per-session" {
            let pgio = analysis.pgio.as_ref().ok_or_else(not_seen)?;
            let point = pgio.points.iter().find(|p| p.sessions == clients);
            let reads = &point
                .ok_or_else(not_seen)?
                .logical_reads_per_second_per_session;
            return Ok(Found {
                clients: Some(clients),
                ..found(reads.clone(), "reads/s", false)
            });
        }
        let metric = MetricId::find(quantity).map_err(|error| error.to_string())?;
        let mut points = points(analysis, arm);
        let point = points.find(|p| p.point.clients == clients);
        let point = point.ok_or_else(not_seen)?;
        let estimate = point.estimate(metric).ok_or_else(not_seen)?;
        // Two quantities of the same trials are held against each other trial by trial.
        let trials = point.trials.iter();
        let rounds = trials.filter_map(|t| Some(((0, t.index), t.value(metric)?)));
        Ok(Found {
            clients: Some(clients),
            rounds: rounds.collect(),
            ..found(estimate.clone(), unit_of(metric, analysis.main().id), false)
        })
    }

    /// The comparison with the first arm, which has a noise floor and is judged with its family; none
    /// where something else is asked for.
    fn compared(
        &self,
        of: &Operand,
        over: &Operand,
        above: &Found,
        below: &Found,
    ) -> Option<Result<Estimate, String>> {
        let Shown::Compared(compare) = &self.shown else {
            return None;
        };
        if of.quantity != over.quantity || above.clients != below.clients {
            return None;
        }
        let metric = MetricId::find(&of.quantity).ok()?;
        let (above_arm, below_arm) = (self.arm(&of.arm).ok()?, self.arm(&over.arm).ok()?);
        let result = |arm: usize| at(compare, arm, above.clients?);
        if let Some(why) = [above_arm, below_arm]
            .into_iter()
            .filter_map(result)
            .find_map(not_comparable)
        {
            return Some(Err(why));
        }
        let ratio = |arm: usize| {
            Some(
                result(arm)?
                    .comparison(compare.metric, metric)?
                    .ratio
                    .clone(),
            )
        };
        match (above_arm, below_arm) {
            (arm, 0) => ratio(arm).map(Ok),
            (0, arm) => ratio(arm).map(|e| Ok(inverse(e))),
            _ => None,
        }
    }

    /// What observers saw of an arm at a number of clients.
    ///
    /// # Errors
    /// Why nothing was seen.
    pub fn observed(
        &self,
        arm: &str,
        clients: Clients,
    ) -> Result<(&ArmObserved, &PointObserved), String> {
        let index = self.arm(arm)?;
        let clients = self.clients(index, clients)?;
        let nothing = || format!("nothing looked on at {clients} clients of {arm}");
        let analysis = self.analysis().ok_or_else(nothing)?;
        let stage = analysis.main().arms.get(index).ok_or_else(nothing)?;
        let observed = stage.observed.as_ref().ok_or_else(nothing)?;
        let mut points = observed.points.iter();
        let point = points.find(|p| p.clients == clients).ok_or_else(nothing)?;
        Ok((observed, point))
    }
}

/// Why an arm can't be held against the first; none where it can.
fn not_comparable(result: &PointResult) -> Option<String> {
    use crate::stats::Verdict::NotComparable;
    let compared = &result.compared;
    let last = compared.ratio.warnings.last();
    (compared.verdict == NotComparable).then(|| {
        last.map_or_else(
            || "the servers differ in more than was planned".to_owned(),
            |warning| warning.text.clone(),
        )
    })
}

fn points(analysis: &Analysis, arm: usize) -> impl Iterator<Item = &PointAnalysis> {
    let arms: &[StageArm] = &analysis.main().arms;
    arms.get(arm).into_iter().flat_map(|arm| &arm.points)
}

fn at(compare: &Compare, arm: usize, clients: u32) -> Option<&PointResult> {
    let mut results = compare.results.iter();
    results.find(|r| r.arm as usize == arm && r.clients == clients)
}

/// A metric of an arm in each round, by launch and round. The first arm stands in every pair.
pub(crate) fn rounds(
    compare: &Compare,
    arm: usize,
    clients: u32,
    metric: MetricId,
) -> BTreeMap<(u32, u32), f64> {
    let mut rounds = BTreeMap::new();
    let of = |r: &&PointResult| r.clients == clients && (arm == 0 || r.arm as usize == arm);
    for pair in compare.results.iter().filter(of).flat_map(|r| &r.pairs) {
        if let Some((a, b)) = pair.both(metric) {
            let value = if arm == 0 { a } else { b };
            rounds.insert((pair.launch, pair.round), value);
        }
    }
    rounds
}

fn inverse(e: Estimate) -> Estimate {
    Estimate {
        estimate: 1.0 / e.estimate,
        low: 1.0 / e.high,
        high: 1.0 / e.low,
        ..e
    }
}

/// A figure without an interval.
fn exact(value: f64) -> Estimate {
    Estimate {
        estimate: value,
        low: value,
        high: value,
        level: 1.0,
        n: 1,
        warnings: Vec::new(),
    }
}

fn of_counts(counts: &Counts, arm: usize, quantity: &str) -> Result<Found, String> {
    let counted = &counts.counted;
    let pick = |(a, b): (f64, f64)| if arm == 0 { a } else { b };
    let value = match quantity {
        "instructions" => pick(counted.instructions),
        "locked" => counted
            .locked
            .map(pick)
            .ok_or("what was counted does not tell locked instructions")?,
        "exclusive" | "lse" => match quantity {
            "lse" => counted.single,
            _ => counted.exclusive,
        }
        .map(pick)
        .ok_or("atomics are told apart under emulation only")?,
        other => return Err(format!("{other} was not counted")),
    };
    // As far as the first arm differed from itself.
    let noise = value * counted.noise;
    Ok(Found {
        estimate: Estimate {
            low: value - noise,
            high: value + noise,
            n: counts.rounds.len(),
            ..exact(value)
        },
        unit: "per transaction".to_owned(),
        clients: None,
        rounds: BTreeMap::new(),
        counted: true,
    })
}

fn of_build(
    builds: &[Result<CodeCounts, String>],
    arm: usize,
    quantity: &str,
) -> Result<Found, String> {
    let build = builds.get(arm).ok_or("it was not inspected")?;
    let build = build.as_ref().map_err(Clone::clone)?;
    let value = match quantity {
        "lse" => build.lse,
        "exclusive" => build.exclusive,
        "outline-calls" => build.outline_calls,
        other => return Err(format!("{other} is nothing that inspecting tells")),
    };
    Ok(Found {
        estimate: exact(value as f64),
        unit: String::new(),
        clients: None,
        rounds: BTreeMap::new(),
        counted: true,
    })
}

/// `query-loop` and the other ways, by name.
fn way_of(name: &str) -> Result<Way, String> {
    serde_json::from_value(name.into()).map_err(|error| error.to_string())
}

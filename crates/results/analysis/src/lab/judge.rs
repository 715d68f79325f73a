//! Holds statements against what was measured: the same here, different, or not to be told, and why.

use serde::{Deserialize, Serialize};

use super::evidence::{Evidence, Found};
use super::plan::{Clients, LabPlan, Operand, Range, ShareOf, Statement, Test};
use crate::metrics::MetricId;
use crate::number;
use crate::observed::{ArmObserved, PointObserved};
use crate::profile::Summary;
use crate::profile::lock::Lock;
use crate::stats::verdict::Direction;
use crate::stats::{Estimate, LEVEL};

/// What became of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It holds here, too.
    Same,
    /// It does not hold here.
    Differs,
    /// It can't be told here.
    CannotBeTold,
}

impl Outcome {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Differs => "differs",
            Self::CannotBeTold => "cannot be told here",
        }
    }
}

/// A statement and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Checked {
    /// Its name within the lab.
    pub id: String,
    /// The statement in words.
    pub says: String,
    /// The published figures that it rests on, by id.
    pub figures: Vec<String>,
    /// It bears on the question that the sources left open.
    pub open: bool,
    /// What a measurement must show so that it holds: `at least 1.02`.
    pub wanted: String,
    /// What was measured.
    pub measured: Vec<Measured>,
    /// What became of it.
    pub outcome: Outcome,
    /// Why.
    pub why: String,
}

/// A figure that a statement was held against.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Measured {
    /// What it is of.
    pub what: String,
    /// The figure, with its interval.
    pub value: Estimate,
    /// Its unit; empty for ratios.
    pub unit: String,
}

/// What a test came to.
struct Tested {
    measured: Vec<Measured>,
    outcome: Outcome,
    why: String,
}

/// Every statement of a plan.
pub fn judge(plan: &LabPlan, evidence: &Evidence) -> Vec<Checked> {
    let each = plan.statements.iter();
    each.map(|statement| check(statement, evidence)).collect()
}

fn check(statement: &Statement, evidence: &Evidence) -> Checked {
    let mut tested = test(&statement.test, evidence).unwrap_or_else(|why| Tested {
        measured: Vec::new(),
        outcome: Outcome::CannotBeTold,
        why,
    });
    // What was measured is shown all the same.
    let mut hosts = evidence.hosts(&statement.test.stages()).into_iter();
    if let Some(lacks) = hosts.find_map(|host| statement.needs.lacking(host)) {
        tested.why = format!("it needs {lacks}");
        tested.outcome = Outcome::CannotBeTold;
    }
    Checked {
        id: statement.id.clone(),
        says: statement.says.clone(),
        figures: statement.figures.clone(),
        open: statement.open,
        wanted: wanted(&statement.test),
        measured: tested.measured,
        outcome: tested.outcome,
        why: tested.why,
    }
}

fn wanted(test: &Test) -> String {
    match test {
        Test::Ratio { range, .. } | Test::Value { range, .. } => range.words(),
        Test::Share { range, .. } => format!("{} %", in_percent(*range).words()),
        Test::Peak { range, .. } => format!("the peak in clients: {}", range.words()),
        Test::Order { arms, .. } => arms.join(", then "),
        Test::Untested { .. } => String::new(),
    }
}

fn test(test: &Test, evidence: &Evidence) -> Result<Tested, String> {
    match test {
        Test::Ratio { of, over, range } => {
            let ratio = evidence.ratio(of, over)?;
            let what = format!("{} / {}", name(of, over), name(over, of));
            Ok(within(what, ratio, "", *range))
        }
        Test::Value { of, range } => {
            let found = evidence.figure(of)?;
            if let (Some(why), false) = (evidence.part(of)?.disturbed(), found.counted) {
                return Err(why);
            }
            let Found { estimate, unit, .. } = found;
            let what = match of.quantity.as_str() {
                "throughput" => name(of, of),
                quantity => format!("{} of {}", quantity.replacen(':', ", ", 1), name(of, of)),
            };
            Ok(within(what, estimate, &unit, *range))
        }
        Test::Order {
            stage,
            arms,
            clients,
            quantity,
        } => order(evidence, stage, arms, *clients, quantity),
        Test::Peak { stage, arm, range } => peak(evidence, stage, arm, *range),
        Test::Share {
            stage,
            arm,
            of,
            name,
            clients,
            range,
        } => {
            let operand = operand(stage, arm, *clients, "throughput");
            let (arm_seen, point) = evidence.part(&operand)?.observed(arm, *clients)?;
            let share = match of {
                ShareOf::Function => in_function(arm_seen, point, name)?,
                ShareOf::Wait => at_event(point, name)?,
                ShareOf::Lock => for_lock(arm_seen, point, name)?,
            };
            let what = format!("{name}, {arm}");
            Ok(within(what, percent(share), "%", in_percent(*range)))
        }
        Test::Untested { why } => Err(why.clone()),
    }
}

fn in_percent(range: Range) -> Range {
    Range {
        at_least: range.at_least.map(|share| 100.0 * share),
        at_most: range.at_most.map(|share| 100.0 * share),
    }
}

/// A share of 0 to 1 as a figure in per cent.
pub(super) fn percent(share: Estimate) -> Estimate {
    Estimate {
        estimate: 100.0 * share.estimate,
        low: 100.0 * share.low,
        high: 100.0 * share.high,
        ..share
    }
}

fn operand(stage: &str, arm: &str, clients: Clients, quantity: &str) -> Operand {
    Operand {
        stage: stage.to_owned(),
        arm: arm.to_owned(),
        quantity: quantity.to_owned(),
        clients,
        scale: None,
        shared_buffers: None,
        cpus: None,
        smt: None,
        numa: None,
    }
}

/// What tells an operand from another in a few words.
fn name(of: &Operand, other: &Operand) -> String {
    let mut words = vec![of.arm.clone()];
    if of.stage != other.stage {
        words.push(of.stage.clone());
    }
    if of.quantity != other.quantity {
        words.push(of.quantity.clone());
    }
    if of.clients != other.clients {
        words.push(match of.clients {
            Clients::Exactly(n) => number::counted(n, "client"),
            Clients::Named(named) => format!("{named:?}").to_lowercase(),
            Clients::Only => String::new(),
        });
    }
    words.extend(of.scale.map(|scale| format!("scale {scale}")));
    words.extend(of.shared_buffers.clone());
    words.retain(|word| !word.is_empty());
    words.join(" ")
}

/// Whether a figure lies in the range: for sure, for sure not, or neither.
fn within(what: String, value: Estimate, unit: &str, range: Range) -> Tested {
    let low = range.at_least.unwrap_or(f64::NEG_INFINITY);
    let high = range.at_most.unwrap_or(f64::INFINITY);
    let sure = value.level >= LEVEL;
    let inside = low <= value.low && value.high <= high;
    let outside = value.high < low || high < value.low;
    let (outcome, why) = match (inside, outside) {
        _ if !sure => (
            Outcome::CannotBeTold,
            "too few trials for an interval".to_owned(),
        ),
        (true, _) => (Outcome::Same, "the whole interval agrees".to_owned()),
        (_, true) => (Outcome::Differs, "the whole interval disagrees".to_owned()),
        _ => (
            Outcome::CannotBeTold,
            "the interval leaves both open: more time, or a quieter machine".to_owned(),
        ),
    };
    Tested {
        measured: vec![Measured {
            what,
            value,
            unit: unit.to_owned(),
        }],
        outcome,
        why,
    }
}

fn order(
    evidence: &Evidence,
    stage: &str,
    arms: &[String],
    clients: Clients,
    quantity: &str,
) -> Result<Tested, String> {
    let metric = MetricId::find(quantity).map_err(|error| error.to_string())?;
    let better = |e: &Estimate| match metric.better {
        Direction::HigherIsBetter => (e.low > 1.0, e.high < 1.0),
        Direction::LowerIsBetter => (e.high < 1.0, e.low > 1.0),
    };
    let mut measured = Vec::new();
    let (mut all, mut against) = (true, None);
    for pair in arms.windows(2) {
        let [of, over] = [&pair[0], &pair[1]].map(|arm| operand(stage, arm, clients, quantity));
        let ratio = evidence.ratio(&of, &over)?;
        let (shown, refuted) = better(&ratio);
        all &= shown && ratio.level >= LEVEL;
        if refuted && ratio.level >= LEVEL {
            against = Some(format!("{} is better than {}", pair[1], pair[0]));
        }
        measured.push(Measured {
            what: format!("{} / {}", pair[0], pair[1]),
            value: ratio,
            unit: String::new(),
        });
    }
    let (outcome, why) = match (all, against) {
        (_, Some(why)) => (Outcome::Differs, why),
        (true, None) => (
            Outcome::Same,
            "each is shown to be better than the next".to_owned(),
        ),
        (false, None) => (
            Outcome::CannotBeTold,
            "not every step is shown: more time, or a quieter machine".to_owned(),
        ),
    };
    Ok(Tested {
        measured,
        outcome,
        why,
    })
}

/// Where throughput is highest. Every count whose interval reaches that of the highest may be it; if the
/// largest count may, the peak may lie beyond.
fn peak(evidence: &Evidence, stage: &str, arm: &str, range: Range) -> Result<Tested, String> {
    let operand = operand(stage, arm, Clients::Only, "throughput");
    let part = evidence.part(&operand)?;
    peak_of(arm, &part.course_of(arm)?, range)
}

fn peak_of(arm: &str, course: &[(u32, Estimate)], range: Range) -> Result<Tested, String> {
    let (Some((most, _)), Some((at, highest))) = (
        course.last(),
        course
            .iter()
            .max_by(|a, b| a.1.estimate.total_cmp(&b.1.estimate)),
    ) else {
        return Err("no throughput was measured".to_owned());
    };
    if course.len() < 3 {
        return Err("a peak needs three client counts or more".to_owned());
    }
    let may_be = course.iter().filter(|(_, e)| e.high >= highest.low);
    let counts: Vec<u32> = may_be.map(|(clients, _)| *clients).collect();
    let first = counts.first().copied().unwrap_or(*at);
    let last = counts.last().copied().unwrap_or(*at);
    let beyond = last == *most;
    let value = Estimate {
        estimate: f64::from(*at),
        low: f64::from(first),
        high: if beyond {
            f64::INFINITY
        } else {
            f64::from(last)
        },
        level: highest.level,
        n: highest.n,
        warnings: Vec::new(),
    };
    let mut tested = within(format!("peak of {arm}"), value, "clients", range);
    if beyond && tested.outcome == Outcome::CannotBeTold {
        tested.why = format!(
            "throughput is not shown to fall up to {most} clients, the most that were measured"
        );
    }
    // For readers, and JSON has no infinity.
    for measured in &mut tested.measured {
        measured.value.high = measured.value.high.min(f64::from(*most));
    }
    Ok(tested)
}

/// Wilson's interval at 95 % of a share that was seen among so many samples.
pub(super) fn wilson(share: f64, samples: u64) -> Estimate {
    const Z: f64 = 1.959_964;
    let n = samples.max(1) as f64;
    let centre = share + Z * Z / (2.0 * n);
    let half = Z
        * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n))
            .max(0.0)
            .sqrt();
    Estimate {
        estimate: share,
        low: ((centre - half) / (1.0 + Z * Z / n)).max(0.0),
        high: ((centre + half) / (1.0 + Z * Z / n)).min(1.0),
        level: if samples == 0 { 0.0 } else { LEVEL },
        n: usize::try_from(samples).unwrap_or(usize::MAX),
        warnings: Vec::new(),
    }
}

/// The CPU samples of a point, or why there are none.
fn profile<'a>(arm: &ArmObserved, point: &'a PointObserved) -> Result<&'a Summary, String> {
    point.profile.as_ref().ok_or_else(|| {
        let mut why = arm.unavailable.iter().filter(|u| u.observer == "perf");
        match why.next() {
            Some(unavailable) => format!("there are no CPU samples: {}", unavailable.why),
            None => "there are no CPU samples".to_owned(),
        }
    })
}

fn for_lock(arm: &ArmObserved, point: &PointObserved, name: &str) -> Result<Estimate, String> {
    let profile = profile(arm, point)?;
    let lock = Lock::parse(name).ok_or_else(|| format!("{name} is no lock"))?;
    let share = profile.lock(lock).min(1.0);
    Ok(wilson(share, profile.samples.unwrap_or(0)))
}

fn in_function(arm: &ArmObserved, point: &PointObserved, name: &str) -> Result<Estimate, String> {
    let profile = profile(arm, point)?;
    let samples = profile.samples.unwrap_or(0);
    Ok(match profile.function(name) {
        Some(function) => wilson(function.own_share, samples),
        // Not among those listed: at most as much as the least of them.
        None => {
            let least = profile.functions.iter().map(|f| f.own_share);
            let least = least.fold(1.0, f64::min);
            let none = wilson(0.0, samples);
            Estimate {
                high: none.high.max(wilson(least, samples).high),
                ..none
            }
        }
    })
}

fn at_event(point: &PointObserved, name: &str) -> Result<Estimate, String> {
    let waits = point.waits.as_ref();
    let waits = waits.ok_or_else(|| "wait events were not sampled".to_owned())?;
    let share = waits.share(|event| event.name() == name);
    Ok(wilson(share.min(1.0), waits.samples))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::HostSummary;
    use crate::lab::evidence::{CodeCounts, Part, Shown};
    use crate::lab::{legs::Leg, parse};

    fn estimate(low: f64, estimate: f64, high: f64) -> Estimate {
        Estimate {
            estimate,
            low,
            high,
            level: 0.95,
            n: 10,
            warnings: Vec::new(),
        }
    }

    #[test]
    fn only_a_whole_interval_decides() {
        let range = Range {
            at_least: Some(1.02),
            at_most: None,
        };
        let outcome = |e: Estimate| within(String::new(), e, "", range).outcome;
        assert_eq!(outcome(estimate(1.03, 1.1, 1.2)), Outcome::Same);
        assert_eq!(outcome(estimate(0.9, 0.95, 1.01)), Outcome::Differs);
        assert_eq!(outcome(estimate(0.9, 1.1, 1.2)), Outcome::CannotBeTold);
        let few = Estimate {
            level: 0.5,
            ..estimate(1.03, 1.1, 1.2)
        };
        assert_eq!(outcome(few), Outcome::CannotBeTold);
    }

    #[test]
    fn locks_have_the_ids_of_the_profile() {
        let id = serde_json::to_value(Lock::BufferHeader).unwrap();
        assert_eq!(id, "buffer-header");
        assert_eq!(Lock::parse("buffer-header"), Some(Lock::BufferHeader));
        assert_eq!(Lock::parse("buffer header"), None);
    }

    #[test]
    fn shares_are_shown_and_wanted_in_per_cent() {
        let range = Range {
            at_least: None,
            at_most: Some(0.05),
        };
        let test = Test::Share {
            stage: "s".to_owned(),
            arm: "a".to_owned(),
            of: ShareOf::Function,
            name: "f".to_owned(),
            clients: Clients::Only,
            range,
        };
        assert_eq!(wanted(&test), "at most 5 %");
        let shown = |share: f64| {
            within(
                String::new(),
                percent(wilson(share, 10_000)),
                "%",
                in_percent(range),
            )
        };
        let few = shown(0.0042);
        assert_eq!(few.outcome, Outcome::Same);
        assert!((few.measured[0].value.estimate - 0.42).abs() < 1e-9);
        assert_eq!(shown(0.5).outcome, Outcome::Differs);
    }

    #[test]
    fn a_peak_at_the_most_that_was_measured_may_lie_beyond() {
        let course = |levels: &[f64]| -> Vec<(u32, Estimate)> {
            let at =
                |(n, level): (usize, &f64)| (1 << n, estimate(level * 0.99, *level, level * 1.01));
            levels.iter().enumerate().map(at).collect()
        };
        let peak = |levels: &[f64], low: f64, high: f64| {
            let range = Range {
                at_least: Some(low),
                at_most: Some(high),
            };
            peak_of("a", &course(levels), range)
        };
        let falling = [1.0, 2.0, 3.0, 2.5];
        assert_eq!(peak(&falling, 4.0, 4.0).unwrap().outcome, Outcome::Same);
        assert_eq!(peak(&falling, 8.0, 99.0).unwrap().outcome, Outcome::Differs);
        let growing = [1.0, 2.0, 3.0, 4.0];
        let beyond = peak(&growing, 8.0, 64.0).unwrap();
        assert_eq!(beyond.outcome, Outcome::CannotBeTold);
        assert!(beyond.why.contains("8 clients"), "{}", beyond.why);
        assert_eq!(peak(&growing, 1.0, 4.0).unwrap().outcome, Outcome::Differs);
        assert!(peak(&[1.0, 2.0], 1.0, 2.0).is_err());
    }

    #[test]
    fn what_the_machine_lacks_is_said_and_what_was_measured_shown() {
        let plan = parse(
            r#"
name = "code"
title = "t"
question = "q"
[[arm]]
name = "a"
target = "temp"
[[stage]]
id = "code"
measure = "inspect"
[[statement]]
id = "here"
says = "no exclusive pairs"
test = { kind = "value", of = { stage = "code", arm = "a", quantity = "exclusive" }, range = { at-most = 0 } }
[[statement]]
id = "elsewhere"
says = "LSE"
test = { kind = "value", of = { stage = "code", arm = "a", quantity = "lse" }, range = { at-least = 1 } }
needs = { architecture = "aarch64", cpus = 64, besides = "a Kunpeng" }
[[statement]]
id = "never"
says = "no program knows"
test = { kind = "untested", why = "nobody knows" }
"#,
        )
        .unwrap();
        let code = CodeCounts {
            lse: 7,
            exclusive: 3,
            outline_calls: 0,
        };
        let evidence = Evidence {
            host: HostSummary {
                architecture: Some("x86_64".to_owned()),
                cpus: Some(2),
                ..HostSummary::default()
            },
            parts: vec![Part {
                stage: "code".to_owned(),
                leg: Leg::default(),
                arms: vec!["a".to_owned()],
                shown: Shown::Inspected(vec![Ok(code)]),
            }],
        };
        let judged = judge(&plan, &evidence);
        assert_eq!(judged[0].outcome, Outcome::Differs);
        assert_eq!(judged[1].outcome, Outcome::CannotBeTold);
        assert_eq!(judged[1].measured[0].value.estimate, 7.0);
        assert_eq!(
            judged[1].why,
            "it needs aarch64 (x86_64 here), 64 CPUs (2 here), a Kunpeng"
        );
        assert_eq!(judged[2].why, "nobody knows");
        let nothing = Evidence::default();
        assert_eq!(judge(&plan, &nothing)[0].why, "code was not measured");
    }
}

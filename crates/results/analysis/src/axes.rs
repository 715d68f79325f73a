//! Throughput over what a run varied beside clients.

use pgassay_model::axis::{AXES, Axis, AxisValue};
use serde::{Deserialize, Serialize};

use crate::measured::{ArmAnalysis, StageArm};
use crate::number;
use crate::stats::Estimate;

/// One axis at one number of clients, all others held.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Course {
    /// The axis: `cpus`, `smt`, `numa`, `scale` or `shared-buffers`.
    pub axis: String,
    /// What it is, in words.
    pub name: String,
    /// Clients.
    pub clients: u32,
    /// The values of the other axes that were varied, in words; empty where there is none.
    pub with: String,
    /// One entry a value: by number, ascending, or as typed where values are names.
    pub points: Vec<CoursePoint>,
}

/// A value of an axis.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CoursePoint {
    /// The value as typed.
    pub value: String,
    /// Where it stands on the axis; none where values are names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<f64>,
    /// Its server: its index among the arms.
    pub arm: usize,
    /// Transactions a second, with the interval over trials.
    pub throughput_tps: Estimate,
}

impl Course {
    /// `8 clients, scale 10`.
    pub fn at(&self) -> String {
        let clients = number::counted(self.clients, "client");
        match self.with.as_str() {
            "" => clients,
            with => format!("{clients}, {with}"),
        }
    }

    /// What the axis is.
    pub fn known(&self) -> Option<&'static Axis> {
        pgassay_model::axis::find(&self.axis)
    }

    /// The highest throughput on it.
    fn best(&self) -> f64 {
        let rates = self.points.iter().map(|p| p.throughput_tps.estimate);
        rates.fold(f64::NEG_INFINITY, f64::max)
    }
}

/// Whether a run has several servers that differ by what was varied: no one of them is the run.
pub fn has_several_servers(arms: &[ArmAnalysis]) -> bool {
    arms.len() > 1 && arms.iter().any(|arm| !arm.axes.is_empty())
}

/// Each axis with the values that the servers have: `cpus 1, 4 and scale 10, 100`; none where nothing
/// beside clients was chosen by an axis.
pub(crate) fn values(arms: &[ArmAnalysis]) -> Option<String> {
    let each = AXES.iter().filter_map(|axis| {
        let of = arms.iter().flat_map(|arm| &arm.axes);
        let mut values: Vec<&str> = Vec::new();
        for value in of.filter(|value| value.axis == axis.id) {
            if !values.contains(&value.value.as_str()) {
                values.push(&value.value);
            }
        }
        (!values.is_empty()).then(|| format!("{} {}", axis.id, values.join(", ")))
    });
    let each: Vec<String> = each.collect();
    (!each.is_empty()).then(|| each.join(" and "))
}

/// All courses of a load: of each axis with several values, for each number of clients and each
/// combination of the others.
pub(crate) fn courses(arms: &[ArmAnalysis], did: &[StageArm]) -> Vec<Course> {
    let of_axis = |axis: &'static Axis| of_axis(axis, arms, did);
    let mut all: Vec<Course> = AXES.iter().flat_map(of_axis).collect();
    all.retain(|course| course.points.len() > 1);
    all
}

fn of_axis(axis: &Axis, arms: &[ArmAnalysis], did: &[StageArm]) -> Vec<Course> {
    let mut courses: Vec<Course> = Vec::new();
    for (index, (arm, did)) in arms.iter().zip(did).enumerate() {
        let Some(value) = arm.axes.iter().find(|value| value.axis == axis.id) else {
            continue;
        };
        let others = arm.axes.iter().filter(|other| other.axis != axis.id);
        let with: Vec<String> = others.map(AxisValue::words).collect();
        let with = with.join(", ");
        for point in &did.points {
            let clients = point.point.clients;
            let there = courses
                .iter()
                .position(|course| course.clients == clients && course.with == with);
            let at = there.unwrap_or_else(|| {
                courses.push(Course {
                    axis: axis.id.to_owned(),
                    name: axis.name.to_owned(),
                    clients,
                    with: with.clone(),
                    points: Vec::new(),
                });
                courses.len() - 1
            });
            courses[at].points.push(CoursePoint {
                value: value.value.clone(),
                number: value.number,
                arm: index,
                throughput_tps: point.throughput_tps.clone(),
            });
        }
    }
    for course in &mut courses {
        // Names keep the order in which they were typed.
        if course.points.iter().all(|point| point.number.is_some()) {
            course.points.sort_by(|a, b| {
                let number = |point: &CoursePoint| point.number.unwrap_or_default();
                number(a).total_cmp(&number(b))
            });
        }
    }
    courses.sort_by_key(|course| course.clients);
    courses
}

/// What each axis does to throughput, in a sentence: where it was highest, from the first value to the
/// last, or of names from the lowest to the highest.
pub(crate) fn sentences(courses: &[Course]) -> Vec<String> {
    let each = AXES.iter().filter_map(|axis| {
        let of = courses.iter().filter(|course| course.axis == axis.id);
        let highest = of.max_by(|a, b| a.best().total_cmp(&b.best()))?;
        sentence(highest)
    });
    each.collect()
}

fn sentence(course: &Course) -> Option<String> {
    let by_number = course.points.iter().all(|point| point.number.is_some());
    let rate = |point: &&CoursePoint| point.throughput_tps.estimate;
    let (from, to) = match by_number {
        true => (course.points.first()?, course.points.last()?),
        false => {
            let lowest = course
                .points
                .iter()
                .min_by(|a, b| rate(a).total_cmp(&rate(b)))?;
            let highest = course
                .points
                .iter()
                .max_by(|a, b| rate(a).total_cmp(&rate(b)))?;
            (lowest, highest)
        }
    };
    let (a, b) = (&from.throughput_tps, &to.throughput_tps);
    if a.estimate <= 0.0 || a.low <= 0.0 || from.value == to.value {
        return None;
    }
    let words = |point: &CoursePoint| {
        AxisValue {
            axis: course.axis.clone(),
            value: point.value.clone(),
            number: point.number,
        }
        .words()
    };
    let (from, to, at) = (words(from), words(to), course.at());
    let ratio = b.estimate / a.estimate;
    // From the ends of both intervals: wider than the interval of the ratio.
    let (low, high) = (b.low / a.high, b.high / a.low);
    Some(match a.n.min(b.n) {
        0 | 1 => format!(
            "Throughput with {to} is {ratio:.2} times that with {from}, at {at} (one trial: spread unknown)."
        ),
        _ if low <= 1.0 && high >= 1.0 => format!(
            "Throughput with {to} and with {from} can't be told apart, at {at} ({low:.2} to {high:.2} times by the \
             intervals)."
        ),
        _ => format!(
            "Throughput with {to} is {ratio:.2} times that with {from}, at {at} ({low:.2} to {high:.2} by the \
             intervals)."
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(value: f64) -> Estimate {
        Estimate {
            estimate: value,
            low: value * 0.9,
            high: value * 1.1,
            level: 0.95,
            n: 6,
            warnings: Vec::new(),
        }
    }

    fn course(axis: &str, points: &[(&str, f64)]) -> Course {
        let point = |(value, rate): &(&str, f64)| CoursePoint {
            value: (*value).to_owned(),
            number: value.parse().ok(),
            arm: 0,
            throughput_tps: estimate(*rate),
        };
        Course {
            axis: axis.to_owned(),
            name: String::new(),
            clients: 8,
            with: String::new(),
            points: points.iter().map(point).collect(),
        }
    }

    #[test]
    fn numbers_are_told_from_first_to_last_and_names_from_lowest_to_highest() {
        let told = |axis, points: &[(&str, f64)]| sentence(&course(axis, points)).unwrap();
        assert_eq!(
            told("cpus", &[("1", 1000.0), ("2", 2500.0), ("4", 2000.0)]),
            "Throughput with 4 CPUs is 2.00 times that with 1 CPU, at 8 clients (1.64 to 2.44 by the intervals)."
        );
        let names = told("smt", &[("on", 1300.0), ("off", 1000.0)]);
        assert!(
            names.starts_with("Throughput with SMT on is 1.30 times that with SMT off"),
            "{names}"
        );
        assert_eq!(
            told("smt", &[("on", 1100.0), ("off", 1000.0)]),
            "Throughput with SMT on and with SMT off can't be told apart, at 8 clients (0.90 to 1.34 times by the intervals)."
        );
        assert!(sentence(&course("cpus", &[("1", 0.0), ("2", 10.0)])).is_none());
    }

    #[test]
    fn one_sentence_an_axis_at_its_highest() {
        let mut low = course("cpus", &[("1", 10.0), ("2", 11.0)]);
        low.clients = 1;
        let high = course("cpus", &[("1", 1000.0), ("2", 2000.0)]);
        let said = sentences(&[low, high]);
        assert_eq!(said.len(), 1);
        assert!(said[0].contains("at 8 clients"), "{said:?}");
    }
}

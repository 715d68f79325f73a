//! What a run varies beside its clients. An axis is an entry of [`AXES`]; each server of the run has a
//! value of every axis that is varied.

use serde::{Deserialize, Serialize};

/// Something that a launched server can be given more or less of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Axis {
    /// Stable id, that of the flag: `cpus`.
    pub id: &'static str,
    /// What it is, as a heading and a chart's axis have it.
    pub name: &'static str,
    /// Its values are numbers of CPUs, over which the scaling law can be fitted.
    pub counts_cpus: bool,
}

/// All axes. With several, the last varies fastest.
pub const AXES: &[Axis] = &[
    Axis {
        id: "numa",
        name: "memory nodes",
        counts_cpus: false,
    },
    Axis {
        id: "smt",
        name: "threads of a core",
        counts_cpus: false,
    },
    Axis {
        id: "shared-buffers",
        name: "shared_buffers, MB",
        counts_cpus: false,
    },
    Axis {
        id: "scale",
        name: "scale of the tables",
        counts_cpus: false,
    },
    Axis {
        id: "cpus",
        name: "CPUs of the server",
        counts_cpus: true,
    },
];

/// The axis of that id.
pub fn find(id: &str) -> Option<&'static Axis> {
    AXES.iter().find(|axis| axis.id == id)
}

/// What tells the servers of a comparison apart that have the same of everything that is varied: the target, by its
/// letter. It stands among their values, and is no axis.
pub const SERVER: &str = "server";

/// The value of an axis that a server has.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AxisValue {
    /// The axis: the id of one of [`AXES`].
    pub axis: String,
    /// The value as typed.
    pub value: String,
    /// Where it stands on the axis; none where values are names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<f64>,
}

impl AxisValue {
    /// `2 CPUs`, `scale 10`, `shared_buffers 1GB`: a server's name by what it has.
    pub fn words(&self) -> String {
        let value = &self.value;
        match self.axis.as_str() {
            "cpus" if value == "1" => "1 CPU".to_owned(),
            "cpus" => format!("{value} CPUs"),
            "shared-buffers" => format!("shared_buffers {value}"),
            "numa" if self.number.is_some() => format!("node {value}"),
            "numa" => format!("memory {value}"),
            "smt" => format!("SMT {value}"),
            SERVER => value.clone(),
            axis => format!("{axis} {value}"),
        }
    }
}

/// All of a server's values in words: `scale 10, 2 CPUs`.
pub fn in_words(values: &[AxisValue]) -> String {
    let words: Vec<String> = values.iter().map(AxisValue::words).collect();
    words.join(", ")
}

/// All combinations, in the order in which the axes are given; the last varies fastest.
pub fn product(axes: &[Vec<AxisValue>]) -> Vec<Vec<AxisValue>> {
    let mut all = vec![Vec::new()];
    for values in axes {
        let with = |before: &Vec<AxisValue>| {
            let each = values.iter().map(|value| {
                let mut with = before.clone();
                with.push(value.clone());
                with
            });
            each.collect::<Vec<_>>()
        };
        all = all.iter().flat_map(with).collect();
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_are_combined_and_the_last_varies_fastest() {
        let value = |axis: &str, value: &str| AxisValue {
            axis: axis.into(),
            value: value.into(),
            number: value.parse().ok(),
        };
        let axes = [
            vec![value("scale", "1"), value("scale", "10")],
            vec![value("cpus", "1"), value("cpus", "2"), value("cpus", "4")],
        ];
        let all: Vec<String> = product(&axes)
            .iter()
            .map(|values| in_words(values))
            .collect();
        assert_eq!(all.len(), 6);
        assert_eq!(all[..2], ["scale 1, 1 CPU", "scale 1, 2 CPUs"]);
        assert_eq!(all[5], "scale 10, 4 CPUs");
        assert_eq!(product(&[]), [vec![]]);
    }

    #[test]
    fn each_axis_has_one_entry() {
        for axis in AXES {
            assert_eq!(find(axis.id), Some(axis));
        }
    }
}

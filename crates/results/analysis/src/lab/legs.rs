//! The combinations of a stage's axes, each of which is measured by itself.

use pgassay_model::axis::{self, AXES, AxisValue};
use serde::{Deserialize, Serialize};

use super::plan::{Operand, StagePlan};

/// The axes of a stage beside its clients: each combination is measured by itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Leg {
    /// pgbench's scale, where it is an axis or set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<u32>,
    /// shared_buffers, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_buffers: Option<String>,
    /// The number of CPUs that its servers are kept on, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u32>,
    /// Which threads of the cores they get, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smt: Option<String>,
    /// Which memory nodes they have, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numa: Option<String>,
}

impl Leg {
    /// Its value of each axis that it has one of, in the order of the axes.
    pub fn values(&self) -> Vec<AxisValue> {
        let scale = self.scale.map(|scale| scale.to_string());
        let cpus = self.cpus.map(|cpus| cpus.to_string());
        let each = AXES.iter().filter_map(|axis| {
            let value = match axis.id {
                "numa" => self.numa.clone(),
                "smt" => self.smt.clone(),
                "shared-buffers" => self.shared_buffers.clone(),
                "scale" => scale.clone(),
                _ => cpus.clone(),
            }?;
            Some(AxisValue {
                axis: axis.id.to_owned(),
                number: value.parse().ok(),
                value,
            })
        });
        each.collect()
    }

    /// `shared_buffers 1GB, scale 10`; empty where the stage has no axis.
    pub fn words(&self) -> String {
        axis::in_words(&self.values())
    }

    /// Whether an operand speaks of it.
    pub fn is_of(&self, operand: &Operand) -> bool {
        fn fits<T: PartialEq>(wanted: &Option<T>, is: &Option<T>) -> bool {
            wanted.is_none() || wanted == is
        }
        fits(&operand.scale, &self.scale)
            && fits(&operand.shared_buffers, &self.shared_buffers)
            && fits(&operand.cpus, &self.cpus)
            && fits(&operand.smt, &self.smt)
            && fits(&operand.numa, &self.numa)
    }
}

/// Every combination of a stage's axes.
pub fn legs(stage: &StagePlan) -> Vec<Leg> {
    let mut legs = vec![Leg::default()];
    vary(&mut legs, &stage.numa, |leg, numa| leg.numa = numa);
    vary(&mut legs, &stage.smt, |leg, smt| leg.smt = smt);
    vary(&mut legs, &stage.scale, |leg, scale| leg.scale = scale);
    vary(&mut legs, &stage.shared_buffers, |leg, size| {
        leg.shared_buffers = size
    });
    vary(&mut legs, &stage.cpus, |leg, cpus| leg.cpus = cpus);
    legs
}

/// Each leg once for each value, where there are values.
fn vary<T: Clone>(legs: &mut Vec<Leg>, values: &[T], set: impl Fn(&mut Leg, Option<T>)) {
    if values.is_empty() {
        return;
    }
    let each = legs.iter().flat_map(|leg| {
        values.iter().map(|value| {
            let mut leg = leg.clone();
            set(&mut leg, Some(value.clone()));
            leg
        })
    });
    *legs = each.collect();
}

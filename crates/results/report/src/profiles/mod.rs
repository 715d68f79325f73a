//! CPU samples for programs that show profiles: speedscope and the Firefox Profiler.
//!
//! Both take every sample of a run, one profile for each server, load and number of clients. Reports
//! hold the same tree with rare functions gathered.

mod firefox;
mod speedscope;

use pgassay_analysis::Analysis;
use pgassay_analysis::analysis::StageAnalysis;
use pgassay_analysis::measured::StageArm;
use pgassay_analysis::observed::ArmObserved;
use pgassay_analysis::profile::Class;
use pgassay_analysis::profile::tree::CallTree;

pub use firefox::firefox;
pub use speedscope::speedscope;

/// The samples of every server and load; none where there are no samples.
pub fn of_run(analysis: &Analysis) -> Option<CallTree> {
    let mut tree = CallTree::default();
    for stage in &analysis.stages {
        for arm in &stage.arms {
            let group = group(analysis, stage, arm);
            if let Some(observed) = &arm.observed {
                add(&mut tree, &group, observed);
            }
        }
    }
    (!tree.views.is_empty()).then_some(tree)
}

/// Those of one server.
pub fn of_server(group: &str, observed: &ArmObserved) -> Option<CallTree> {
    let mut tree = CallTree::default();
    add(&mut tree, group, observed);
    (!tree.views.is_empty()).then_some(tree)
}

fn add(tree: &mut CallTree, group: &str, observed: &ArmObserved) {
    for point in &observed.points {
        let at = match &point.load {
            Some(load) => format!("{load}, {}", point.how_many()),
            None => point.how_many(),
        };
        if let Some(stacks) = &point.stacks {
            tree.add(group, &at, stacks);
        }
    }
}

/// What the profiles of a server under a load are called: the load, the server, or both, as far as
/// there are several.
pub fn group(analysis: &Analysis, stage: &StageAnalysis, arm: &StageArm) -> String {
    let load = &stage.plan.workload.name;
    match (analysis.stages.len() > 1, stage.arms.len() > 1) {
        (_, false) => load.clone(),
        (false, true) => arm.label.clone(),
        (true, true) => format!("{}, {load}", arm.label),
    }
}

/// The look of what samples were spent on.
pub fn family(class: Class) -> &'static str {
    match class {
        Class::Spinlock
        | Class::Lwlock
        | Class::HeavyLock
        | Class::BufferMapping
        | Class::Pin
        | Class::ContentLock => "look-1",
        Class::Executor | Class::ParseAndPlan | Class::Snapshot | Class::Jit => "look-0",
        Class::Protocol | Class::Transaction | Class::Wal | Class::Memory => "look-2",
        Class::KernelNetwork
        | Class::KernelWakeUp
        | Class::PageFaults
        | Class::Compaction
        | Class::Io
        | Class::KernelOther => "look-3",
        Class::Other => "look-none",
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use pgassay_readings::profile::{Frame, Profile, Unit};

    use super::*;

    /// Two profiles with names that would do harm where they are not escaped.
    pub fn hostile() -> CallTree {
        let mut tree = CallTree::default();
        for (at, weight) in [("1 client", 3.0), ("8 clients", 5.0)] {
            let mut profile = Profile::new(Unit::Samples);
            let chain = ["main", "</script><b>\"evil\\", "a;b"];
            profile.add(chain.map(|name| Frame::new(name, "postgres")), weight);
            profile.add(["main"].map(|name| Frame::new(name, "[kernel]")), 2.0);
            tree.add("select-only", at, &profile);
        }
        tree
    }
}

//! The server gives way to other programs.

use crate::detect::prelude::*;
use crate::detect::processor::process::{BUSY, value};

/// Scheduling policies in which a process gives way to all others (sched(7)).
const GIVE_WAY: &[(&str, &str)] = &[("3", "SCHED_BATCH"), ("5", "SCHED_IDLE")];

pub fn audit(seen: &FactView) -> Judged {
    let text = seen.process("scheduling")?;
    seen.runs_by_itself()?;
    let number = |name: &str| value(text, name).and_then(|n| n.parse::<i32>().ok());
    let (nice, group) = (
        number("nice").unwrap_or(0),
        number("autogroup").unwrap_or(0),
    );
    // Nice values are compared within an autogroup only, and it has one of its own.
    let grouped = value(text, "autogroup").is_some()
        && seen
            .text("/proc/sys/kernel/sched_autogroup_enabled")
            .unwrap_or("0")
            == "1";
    let policy = GIVE_WAY
        .iter()
        .find(|(number, _)| value(text, "policy") == Some(*number));
    let mut said = Vec::new();
    if let Some((_, policy)) = policy {
        said.push(format!("the scheduling policy {policy}"));
    }
    if nice > 0 {
        said.push(format!("nice {nice}"));
    }
    if grouped && group > 0 {
        said.push(format!("nice {group} for its autogroup"));
    }
    if said.is_empty() {
        return passed(format!("nice {nice}, an ordinary scheduling policy"));
    }
    let busy = seen.moment().is_ok_and(|moment| moment.busy >= BUSY);
    let saw = format!(
        "The server runs with {}: on busy CPUs it gives way to every other program.",
        said.join(", ")
    );
    let mut found = Observation::new(medium_if(busy), Confidence::High, saw);
    if nice > 0 {
        found = found.shell(
            "renice -n 0 -p $(pgrep -x postgres)   # now; and without nice, or with Nice=0, in the unit or script that starts it",
        );
    }
    if policy.is_some() {
        found = found.shell("for pid in $(pgrep -x postgres); do chrt -o -p 0 $pid; done   # CPUSchedulingPolicy= of its unit");
    }
    if grouped && group > 0 {
        found = found.shell("echo 0 > /proc/$(pgrep -xo postgres)/autogroup");
    }
    found.found()
}

//! Fits a plan into a machine, and says what that leaves out.

use super::plan::{LabPlan, Measure, StagePlan};
use crate::host::HostSummary;
use crate::number;

/// Clients for each CPU beyond which a small machine shows nothing new.
const CLIENTS_PER_CPU: u32 = 8;
/// Client counts of a stage that ten minutes have time for.
const MOST_COUNTS: usize = 6;
/// Bytes of a row of pgbench_accounts with its index, times the rows of a scale.
pub const BYTES_PER_SCALE: u64 = 15_500_000;
/// The part of the memory that the tables of all servers may fill.
const PART_OF_MEMORY: u64 = 4;

/// The plan as it fits into the machine, and what was left out, in words.
pub fn fit(plan: &LabPlan, host: &HostSummary) -> (LabPlan, Vec<String>) {
    let mut fitted = plan.clone();
    let mut left_out = Vec::new();
    for stage in &mut fitted.stages {
        let arms = match stage.arms.len() {
            0 => plan.arms.len(),
            named => named,
        };
        let elsewhere = |name: &&str| plan.arm(name).is_some_and(|arm| arm.machine().is_some());
        if plan.arms_of(stage).iter().any(elsewhere) {
            // Its machine is not known before it is measured.
            continue;
        }
        clients(stage, host, &mut left_out);
        cpus(stage, host, &mut left_out);
        scales(stage, arms, host, &mut left_out);
    }
    (fitted, left_out)
}

/// Leaves out client counts that the machine is too small for; the statements' own stay where they fit.
fn clients(stage: &mut StagePlan, host: &HostSummary, left_out: &mut Vec<String>) {
    let most = host.cpus.unwrap_or(1).saturating_mul(CLIENTS_PER_CPU);
    let before = stage.clients.clone();
    if before.len() < 2 {
        return;
    }
    stage.clients.retain(|clients| *clients <= most);
    if stage.clients.is_empty() {
        stage.clients = before.iter().copied().min().into_iter().collect();
    }
    let fitting = stage.clients.clone();
    while stage.clients.len() > MOST_COUNTS {
        // Every other one in the middle; both ends stay.
        let last = stage.clients.len() - 1;
        let mut index = 0;
        stage.clients.retain(|_| {
            index += 1;
            index % 2 == 1 || index - 1 == last
        });
    }
    let without = |counts: &[u32], kept: &[u32]| {
        let dropped = counts.iter().filter(|clients| !kept.contains(clients));
        let dropped: Vec<String> = dropped.map(u32::to_string).collect();
        (!dropped.is_empty()).then(|| dropped.join(", "))
    };
    if let Some(dropped) = without(&before, &fitting) {
        let cpus = match host.cpus {
            Some(cpus) => number::counted(cpus, "CPU"),
            None => "an unknown number of CPUs".to_owned(),
        };
        left_out.push(format!(
            "{}: {dropped} clients; this machine has {cpus}",
            stage.id
        ));
    }
    if let Some(dropped) = without(&fitting, &stage.clients) {
        left_out.push(format!(
            "{}: {dropped} clients, for time; those around them are measured",
            stage.id
        ));
    }
}

/// Leaves out numbers of CPUs that the machine does not have.
fn cpus(stage: &mut StagePlan, host: &HostSummary, left_out: &mut Vec<String>) {
    let here = host.cpus.unwrap_or(1);
    let beyond: Vec<String> = stage
        .cpus
        .iter()
        .filter(|cpus| **cpus > here)
        .map(u32::to_string)
        .collect();
    if beyond.is_empty() {
        return;
    }
    stage.cpus.retain(|cpus| *cpus <= here);
    if stage.cpus.is_empty() {
        stage.cpus.push(here);
    }
    left_out.push(format!(
        "{}: {} CPUs; this machine has {}",
        stage.id,
        beyond.join(", "),
        number::counted(here, "CPU")
    ));
}

/// Takes scales down to what fits into memory beside each other.
fn scales(stage: &mut StagePlan, arms: usize, host: &HostSummary, left_out: &mut Vec<String>) {
    let Some(memory) = host.usable_memory_bytes() else {
        return;
    };
    let servers = match stage.measure {
        Measure::Compare => arms as u64 + 1,
        _ => 1,
    };
    let most = (memory / PART_OF_MEMORY / servers / BYTES_PER_SCALE).max(1);
    let most = u32::try_from(most).unwrap_or(u32::MAX);
    let before = stage.scale.clone();
    for scale in &mut stage.scale {
        *scale = (*scale).min(most);
    }
    stage.scale.dedup();
    if stage.scale != before {
        let list = |scales: &[u32]| {
            let words: Vec<String> = scales.iter().map(u32::to_string).collect();
            words.join(", ")
        };
        left_out.push(format!(
            "{}: scale {} became {}, so that the tables of {} fit into memory",
            stage.id,
            list(&before),
            list(&stage.scale),
            number::counted(servers, "server")
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    #[test]
    fn counts_left_out_for_time_are_not_laid_to_the_machine() {
        let plan = r#"
name = "mine"
title = "t"
question = "q"
[[arm]]
name = "a"
target = "temp"
[[stage]]
id = "reads"
measure = "run"
clients = [1, 2, 3, 4, 5, 6, 7, 8, 400]
[[statement]]
id = "x"
says = "it peaks"
test = { kind = "peak", stage = "reads", arm = "a", range = { at-least = 4 } }
"#;
        let host = HostSummary {
            cpus: Some(2),
            ..HostSummary::default()
        };
        let (fitted, left_out) = fit(&parse(plan).unwrap(), &host);
        assert_eq!(fitted.stages[0].clients, [1, 3, 5, 7, 8]);
        assert_eq!(
            left_out,
            [
                "reads: 400 clients; this machine has 2 CPUs",
                "reads: 2, 4, 6 clients, for time; those around them are measured",
            ]
        );
    }
}

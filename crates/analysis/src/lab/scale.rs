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
        clients(stage, host, &mut left_out);
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
    while stage.clients.len() > MOST_COUNTS {
        // Every other one in the middle; both ends stay.
        let last = stage.clients.len() - 1;
        let mut index = 0;
        stage.clients.retain(|_| {
            index += 1;
            index % 2 == 1 || index - 1 == last
        });
    }
    let dropped: Vec<String> = before
        .iter()
        .filter(|clients| !stage.clients.contains(clients))
        .map(u32::to_string)
        .collect();
    if !dropped.is_empty() {
        left_out.push(format!(
            "{}: {} clients; this machine has {}",
            stage.id,
            dropped.join(", "),
            match host.cpus {
                Some(cpus) => number::counted(cpus, "CPU"),
                None => "an unknown number of CPUs".to_owned(),
            }
        ));
    }
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

//! The hypervisor gives CPU time to other guests.

use crate::detect::prelude::*;
use pgassay_evidence::metrics;

pub fn in_run(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let share = run.point.estimate(metrics::STEAL)?.estimate;
    (share >= 0.05).then(|| {
        let saw = format!(
            "The hypervisor gave {} of the machine's time to other guests.",
            tenths(share)
        );
        Observation::measured(Basis::MachineTime, Some(share), saw).seen(format!(
            "steal in /proc/stat: {} with {}",
            tenths(share),
            run.clients()
        ))
    })
}

pub fn audit(seen: &FactView) -> Judged {
    let line = seen.text("/proc/stat")?;
    let ticks: Vec<u64> = line
        .lines()
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .skip(1)
        .filter_map(|n| n.parse().ok())
        .collect();
    // user nice system idle iowait irq softirq steal guest guest_nice; guest is in user.
    let Some(&steal) = ticks.get(7) else {
        return could_not_see("/proc/stat has no column of stolen time");
    };
    let total: u64 = ticks.iter().take(8).sum();
    let busy = total.saturating_sub(ticks[3] + ticks[4]).max(1);
    // Stolen time can only come while there is something to run.
    let share = steal as f64 / busy as f64;
    let saw = format!("{} of the busy time since boot was stolen", percent(share));
    if share < 0.02 {
        return passed(saw);
    }
    Observation::new(
        high_if(share > 0.1),
        Confidence::Medium,
        format!("{saw} by the hypervisor."),
    )
    .advice("ask for dedicated CPUs, or move to another host; measure when it is quiet")
    .found()
}

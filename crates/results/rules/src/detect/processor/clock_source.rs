//! Reading the clock is expensive.

use crate::detect::prelude::*;

/// Clock sources read in user space.
const FAST: &[&str] = &[
    "tsc",
    "arch_sys_counter",
    "kvm-clock",
    "timebase",
    "tod",
    "riscv_clocksource",
    "hyperv_clocksource_tsc_page",
];

pub fn audit(seen: &FactView) -> Judged {
    let source = seen.of_host("the clock source", |h| h.clock_source.clone())?;
    let cost: Option<f64> = seen
        .text("clock_gettime ns")
        .ok()
        .and_then(|t| t.parse().ok());
    let shown = cost.map_or(String::new(), |ns| format!(", {ns:.0} ns a reading"));
    let slow = cost.is_some_and(|ns| ns > 200.0);
    let known = FAST.contains(&source.as_str());
    match (slow, known, cost) {
        (false, true, _) | (false, false, Some(_)) => passed(format!("{source}{shown}")),
        _ => {
            let available = seen
                .text("/sys/devices/system/clocksource/clocksource0/available_clocksource")
                .unwrap_or_default();
            let better = FAST
                .iter()
                .find(|f| **f != source && available.split_whitespace().any(|a| a == **f));
            let sure = if slow {
                Confidence::High
            } else {
                Confidence::Medium
            };
            let severity = medium_if(cost.is_none_or(|ns| ns > 400.0));
            let finding = Observation::new(
                severity,
                sure,
                format!("The kernel's clock source is {source}{shown}."),
            );
            match better {
                Some(better) => finding.shell(format!(
                    "echo {better} > /sys/devices/system/clocksource/clocksource0/current_clocksource"
                )),
                None => finding.advice("the kernel's log shows why tsc was rejected; in a virtual machine ask for the hypervisor's clock"),
            }
            .shell("pg_test_timing")
            .found()
        }
    }
}

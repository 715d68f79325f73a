//! A fast device with a scheduler for slow ones.

use crate::detect::io::queue::queue;
use crate::detect::prelude::*;

pub fn audit(seen: &FactView) -> Judged {
    let text = queue(seen, "scheduler")?;
    let chosen = text
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'))
        .map_or(text, |(chosen, _)| chosen);
    let device = seen.text("device of the data")?;
    let saw = format!("scheduler of {device}: {chosen}");
    if queue(seen, "rotational")? == "1" && !device.starts_with("nvme") {
        return passed(format!("{saw}; it claims to rotate"));
    }
    if !matches!(chosen, "bfq" | "cfq") {
        return passed(saw);
    }
    Observation::new(
        Severity::Low,
        Confidence::Medium,
        format!("The scheduler of {device} is {chosen}, and nothing in it rotates."),
    )
    .shell(format!(
        "echo none > /sys/block/{device}/queue/scheduler   # keep it by a udev rule"
    ))
    .found()
}

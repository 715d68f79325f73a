//! Read-ahead off or too large.

use crate::detect::io::queue::queue;
use crate::detect::prelude::*;

pub fn audit(seen: &FactView) -> Judged {
    let kilobytes: u64 = match queue(seen, "read_ahead_kb")?.parse() {
        Ok(kilobytes) => kilobytes,
        Err(_) => return could_not_see("read_ahead_kb is no number"),
    };
    let device = seen.text("device of the data")?;
    let saw = format!("read-ahead of {device} is {kilobytes} KiB");
    let found = |what: &str| {
        Observation::new(Severity::Low, Confidence::Low, format!("{saw}: {what}"))
            .shell(format!(
                "echo 128 > /sys/block/{device}/queue/read_ahead_kb   # keep it by a udev rule"
            ))
            .shell("pgassay run scattered-read")
            .found()
    };
    match kilobytes {
        0..16 => found("sequential scans wait for each read."),
        4097.. => found("clustered random reads fetch mostly unused data."),
        _ => passed(saw),
    }
}

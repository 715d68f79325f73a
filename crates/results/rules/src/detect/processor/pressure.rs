//! Tasks wait for CPU, memory or I/O.

use crate::detect::prelude::*;

pub fn audit(seen: &FactView) -> Judged {
    let mut high = Vec::new();
    let mut said = Vec::new();
    let mut why = None;
    for (resource, limit) in [("cpu", 40.0), ("memory", 5.0), ("io", 40.0)] {
        let text = match seen.text(&format!("/proc/pressure/{resource}")) {
            Ok(text) => text,
            Err(aside) => {
                why = Some(aside);
                continue;
            }
        };
        let share = text
            .lines()
            .find(|line| line.starts_with("some"))
            .and_then(|line| {
                line.split_once("avg300=")?
                    .1
                    .split(' ')
                    .next()?
                    .parse::<f64>()
                    .ok()
            });
        if let Some(share) = share {
            said.push(format!("{resource} {share:.0} %"));
            if share > limit {
                high.push(format!("{resource} {share:.0} %"));
            }
        }
    }
    match (high.is_empty(), said.is_empty(), why) {
        (_, true, Some(aside)) => Err(aside),
        (_, true, None) => could_not_see("the kernel counts no pressure (CONFIG_PSI)"),
        (true, _, _) => passed(format!(
            "stalled in the last five minutes: {}",
            said.join(", ")
        )),
        (false, _, _) => Observation::new(
            Severity::Low,
            Confidence::High,
            format!(
                "Tasks were stalled in the last five minutes: {}.",
                high.join(", ")
            ),
        )
        .shell("cat /proc/pressure/*; top")
        .found(),
    }
}

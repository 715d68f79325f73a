//! shared_buffers leave too little memory for everything else.

use crate::detect::memory::sizes::quarter_of_memory;
use crate::detect::prelude::*;

pub fn audit(seen: &FactView) -> Judged {
    let buffers = seen.bytes("shared_buffers")?;
    let memory = seen.memory()?;
    let share = buffers as f64 / memory.max(1) as f64;
    let limit = seen
        .of_host("a limit", |h| h.memory_limit_bytes)
        .is_ok_and(|limit| limit == memory);
    let saw = format!(
        "shared_buffers is {}, {} of the {} that {}",
        shown(buffers),
        percent(share),
        shown(memory),
        if limit {
            "its control group may use"
        } else {
            "the machine has"
        }
    );
    if share <= 0.5 {
        return passed(saw);
    }
    let found = Observation::new(
        high_if(share > 0.75),
        if share > 0.75 {
            Confidence::Medium
        } else {
            Confidence::Low
        },
        format!("{saw}."),
    );
    quarter_of_memory(seen, found).found()
}

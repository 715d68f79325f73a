//! random_page_cost does not match the device.

use crate::detect::io::queue::queue;
use crate::detect::prelude::*;

pub fn audit(seen: &FactView) -> Judged {
    let cost = seen.decimal("random_page_cost")?;
    let sequential = seen.decimal("seq_page_cost").unwrap_or(1.0).max(0.01);
    if queue(seen, "rotational")? == "1" {
        if cost / sequential > 6.0 {
            return Observation::new(
                Severity::Low,
                Confidence::Low,
                format!(
                    "random_page_cost = {cost}, seq_page_cost = {sequential}: more than 4, which \
                     stands for a disk with moving heads."
                ),
            )
            .sql("ALTER SYSTEM RESET random_page_cost; SELECT pg_reload_conf();")
            .found();
        }
        return not_applicable(
            "the device claims to rotate (virtual disks often do): 4 is meant for that",
        );
    }
    let saw = format!(
        "random_page_cost = {cost}, seq_page_cost = {sequential}, on a device that does not rotate"
    );
    if cost / sequential < 3.0 {
        return passed(saw);
    }
    Observation::new(Severity::Low, Confidence::Low, format!("{saw}."))
        .sql("ALTER SYSTEM SET random_page_cost = 1.1; SELECT pg_reload_conf();")
        .found()
}

//! I/O timing with an expensive clock.

use crate::detect::prelude::*;

pub fn audit(seen: &FactView) -> Judged {
    let mut on = Vec::new();
    for name in ["track_io_timing", "track_wal_io_timing"] {
        if seen.on(name).unwrap_or(false) {
            on.push(name);
        }
    }
    // Without the settings there is no answer at all.
    seen.value("track_io_timing")?;
    if on.is_empty() {
        return passed("track_io_timing is off");
    }
    let cost: f64 = match seen.text("clock_gettime ns")?.parse() {
        Ok(cost) => cost,
        Err(_) => return could_not_see("the cost of reading the clock is no number"),
    };
    let saw = format!("{} on, {cost:.0} ns a reading of the clock", on.join(", "));
    if cost <= 150.0 {
        return passed(saw);
    }
    Observation::new(medium_if(cost > 500.0), Confidence::High, format!("{saw}."))
        .shell("pgassay check --explain clock-source")
        .sql("ALTER SYSTEM SET track_io_timing = off; SELECT pg_reload_conf();")
        .found()
}

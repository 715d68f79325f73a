//! work_mem times max_connections exceeds memory.

use crate::detect::prelude::*;

pub fn audit(seen: &FactView) -> Judged {
    let buffers = seen.bytes("shared_buffers")?;
    let each = seen.bytes("work_mem")?;
    let connections = seen.number("max_connections")?.max(0).unsigned_abs();
    let memory = seen.memory()?;
    let promised = buffers.saturating_add(each.saturating_mul(connections));
    let saw = format!(
        "shared_buffers {} and {connections} times work_mem {} come to {}; the server may use {}",
        shown(buffers),
        shown(each),
        shown(promised),
        shown(memory)
    );
    if promised as f64 <= memory as f64 * 1.5 {
        return passed(saw);
    }
    Observation::new(
        medium_if(promised > memory.saturating_mul(4)),
        Confidence::Low,
        format!("{saw}."),
    )
    .advice("lower max_connections, with a connection pooler, or work_mem; raise work_mem only for roles that need it: ALTER ROLE … SET work_mem")
    .found()
}

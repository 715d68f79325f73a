//! effective_cache_size does not match the cache.

use crate::detect::prelude::*;

pub fn audit(seen: &FactView) -> Judged {
    let cache = seen.bytes("effective_cache_size")?;
    let buffers = seen.bytes("shared_buffers")?;
    let memory = seen.memory()?;
    let saw = format!(
        "effective_cache_size is {}, shared_buffers {}, memory {}",
        shown(cache),
        shown(buffers),
        shown(memory)
    );
    let finding = |saw: String| {
        Observation::new(Severity::Low, Confidence::Low, saw)
            .sql(format!(
                "ALTER SYSTEM SET effective_cache_size = '{}MB'; SELECT pg_reload_conf();",
                (memory / 3 * 2) >> 20
            ))
            .found()
    };
    if cache > memory {
        finding(format!("{saw}: more memory than there is."))
    } else if cache < buffers || (cache as f64) < memory as f64 * 0.1 {
        finding(format!("{saw}: the planner assumes a small cache."))
    } else {
        passed(saw)
    }
}

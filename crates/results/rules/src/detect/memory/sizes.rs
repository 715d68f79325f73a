//! Sizes of memory that rules recommend.

use crate::detect::prelude::*;

/// The recommended shared_buffers: a quarter of the memory that the server may use; no size where that is not known.
pub fn quarter_of_memory(seen: &FactView, found: Observation) -> Observation {
    let Ok(memory) = seen.memory() else {
        return found.advice(
            "set shared_buffers to a quarter of the server's memory, which is not seen from here; then restart",
        );
    };
    let found = match seen.value("huge_pages") {
        Ok("on") => found.advice(
            "huge_pages = on: first reserve huge pages for the larger shared memory (postgres -C \
             shared_memory_size_in_huge_pages, from 15 on), without which the server does not start",
        ),
        _ => found,
    };
    found.sql(format!(
        "ALTER SYSTEM SET shared_buffers = '{}MB';   -- then restart",
        (memory / 4) >> 20
    ))
}

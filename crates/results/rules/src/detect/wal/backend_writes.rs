//! Backends write dirty pages themselves.

use crate::detect::prelude::*;

pub fn audit(seen: &FactView) -> Judged {
    let (own, others) = written(seen)?;
    let total = own + others;
    let saw = format!(
        "backends wrote {own:.0} of {total:.0} blocks themselves ({})",
        percent(own / total.max(1.0))
    );
    if total < 100_000.0 || own / total < 0.5 {
        return passed(saw);
    }
    Observation::new(Severity::Low, Confidence::Medium, format!("{saw}."))
        .sql("ALTER SYSTEM SET bgwriter_lru_maxpages = 1000; ALTER SYSTEM SET bgwriter_delay = '50ms'; SELECT pg_reload_conf();")
        .shell("pgassay check --explain shared-buffers-small")
        .found()
}

/// Blocks that backends wrote, and those that the checkpointer and the background
/// writer did. Bulk writes through rings are left out where they are told apart.
fn written(seen: &FactView) -> Result<(f64, f64), NotJudged> {
    if let Ok(rows) = seen.rows("io") {
        let sum = |pick: &dyn Fn(&Row) -> bool| -> f64 {
            rows.iter()
                .filter(|r| {
                    word(r, "object") == Some("relation") && word(r, "context") == Some("normal")
                })
                .filter(|r| pick(r))
                .filter_map(|r| number(r, "writes"))
                .sum()
        };
        let clients = |r: &Row| {
            matches!(
                word(r, "backend_type"),
                Some("client backend" | "background worker")
            )
        };
        let writers = |r: &Row| {
            matches!(
                word(r, "backend_type"),
                Some("checkpointer" | "background writer")
            )
        };
        return Ok((sum(&clients), sum(&writers)));
    }
    let row = seen.row("bgwriter")?;
    let get = |key| number(&row, key);
    match (
        get("buffers_backend"),
        get("buffers_checkpoint"),
        get("buffers_clean"),
    ) {
        (Some(backend), Some(checkpoint), Some(clean)) => Ok((backend, checkpoint + clean)),
        _ => could_not_see("the server does not report who wrote its blocks"),
    }
}

//! Dead rows that autovacuum should have removed.

use crate::detect::common::horizon::horizon;
use crate::detect::prelude::*;
use crate::detect::statements::catalog_rows::{is, listed, name};

/// Dead rows below this are nothing to speak of.
const FEW_DEAD: f64 = 10_000.0;

pub fn audit(seen: &FactView) -> Judged {
    let rows = seen.rows("dead_rows")?;
    let (Ok(base), Ok(scale)) = (
        seen.decimal("autovacuum_vacuum_threshold"),
        seen.decimal("autovacuum_vacuum_scale_factor"),
    ) else {
        return could_not_see("autovacuum's thresholds are unavailable");
    };
    let live = |row: &Row| number(row, "live").unwrap_or(0.0);
    let dead = |row: &Row| number(row, "dead").unwrap_or(0.0);
    let behind: Vec<&Row> = rows
        .iter()
        .filter(|row| {
            let due = if is(row, "switched_off") {
                0.0
            } else {
                2.0 * (base + scale * live(row))
            };
            dead(row) >= FEW_DEAD && dead(row) > due && dead(row) >= 0.2 * live(row)
        })
        .collect();
    let Some(first) = behind.first() else {
        return passed("no table has many dead rows that autovacuum should have removed");
    };
    let names = behind.iter().map(|row| {
        format!(
            "{} ({:.0} dead of {:.0}{})",
            name(row, "table"),
            dead(row),
            dead(row) + live(row),
            if is(row, "switched_off") {
                ", autovacuum switched off"
            } else {
                ""
            }
        )
    });
    let saw = format!(
        "Tables with dead rows that autovacuum should have removed: {}.",
        listed(names.collect())
    );
    let mostly = behind.iter().any(|row| dead(row) >= live(row));
    let severity = if mostly {
        Severity::High
    } else {
        Severity::Medium
    };
    let found = Observation::new(severity, Confidence::Medium, saw);
    // No vacuum removes what is held.
    if let Ok(Verdict::Found(held)) = horizon(seen) {
        return found
            .symptom_of("something old that holds dead rows (horizon-held)")
            .seen(held.saw)
            .advice(format!(
                "end what holds them first, see horizon-held: VACUUM removes nothing before; then VACUUM (ANALYZE) {}",
                name(first, "table")
            ))
            .found();
    }
    let mut found = found.sql(format!(
        "VACUUM (ANALYZE, VERBOSE) {};",
        name(first, "table")
    ));
    if is(first, "switched_off") {
        found = found.sql(format!(
            "ALTER TABLE {} RESET (autovacuum_enabled);",
            name(first, "table")
        ));
    }
    found
        .advice(
            "if the rows stay, something holds them back: see horizon-held; if vacuum does not keep up, \
             raise autovacuum_vacuum_cost_limit and autovacuum_max_workers",
        )
        .found()
}

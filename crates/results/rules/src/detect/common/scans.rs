//! Scans of tables: when they matter, and what remains of one with an index.

use crate::detect::common::hits::Left;
use crate::evidence::RunEvidence;

/// A scan's part of its plan's cost below which it does not matter.
pub const MINOR: f64 = 0.3;

/// A table of fewer rows is read whole in no time.
pub const FEW_ROWS: f64 = 10_000.0;

/// The part of a table's rows that a selective condition leaves at most.
pub const SELECTIVE: f64 = 0.01;

/// What is left of a scan that reads all rows, where an index leads to those that match: a descent of a
/// few pages, and a row of its own page for each.
pub fn by_index(rows: f64, matching: f64) -> Option<Left> {
    let read = rows.max(1.0).log2() + ROW_BY_INDEX * matching.max(1.0);
    Left::new(
        read / rows.max(1.0),
        format!("{rows:.0} rows are read for about {matching:.0}, which an index would lead to"),
    )
}

/// A row that is read by an index costs as much as so many that a scan of the table passes over: a page
/// is found and pinned for each.
const ROW_BY_INDEX: f64 = 10.0;

/// The step that lets the planner evaluate a function once.
pub fn stable(name: &str, signature: &str) -> String {
    format!(
        "ALTER FUNCTION {signature} STABLE;   -- if it changes nothing: {name} is VOLATILE, so it is called for each row"
    )
}

/// Sequential scans of a table over the windows, and rows of each.
pub fn read_by_scans(run: &RunEvidence, table: &str) -> Option<(f64, f64)> {
    let grown = run.table(table)?;
    let scans = grown.by("seq_scan");
    (scans > 0.0).then(|| (scans, grown.by("seq_tup_read") / scans))
}

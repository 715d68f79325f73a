//! A table whose pages are mostly empty.

use crate::detect::prelude::*;
use crate::detect::statements::catalog_rows::{listed, name};

/// Bytes of a row's header and its line pointer (PostgreSQL manual, "Database Page Layout").
const OF_A_ROW: f64 = 28.0;

/// Of a page's header.
const OF_A_PAGE: f64 = 24.0;

/// So many times the pages that its rows need make a table swollen.
const SWOLLEN: f64 = 5.0;

/// Reads of the whole table, since counters began, from which on that matters.
const READ_OFTEN: f64 = 100.0;

/// Pages that a table's rows need, by their average width.
fn needed(row: &Row) -> f64 {
    let get = |key| number(row, key).unwrap_or(0.0);
    let filled = get("fillfactor").clamp(10.0, 100.0) / 100.0;
    let each = get("width") + OF_A_ROW;
    get("rows") * each / ((get("block_size") - OF_A_PAGE).max(1.0) * filled)
}

pub fn audit(seen: &FactView) -> Judged {
    let rows = seen.rows("empty_pages")?;
    let get = |row: &Row, key| number(row, key).unwrap_or(0.0);
    // Where vacuum has not been, dead rows may fill the pages.
    let swollen: Vec<&Row> = rows
        .iter()
        .filter(|row| {
            let pages = get(row, "pages");
            pages >= SWOLLEN * needed(row).max(1.0) && get(row, "all_visible") >= 0.9 * pages
        })
        .collect();
    let Some(first) = swollen.first() else {
        return passed("no table has many more pages than its rows need");
    };
    let names = swollen.iter().map(|row| {
        format!(
            "{} ({:.0} pages, where its {:.0} rows need about {:.0})",
            name(row, "table"),
            get(row, "pages"),
            get(row, "rows"),
            needed(row).ceil()
        )
    });
    let saw = format!(
        "Tables whose pages are mostly empty: {}.",
        listed(names.collect())
    );
    let read = swollen.iter().any(|row| get(row, "scans") >= READ_OFTEN);
    Observation::new(medium_if(read), Confidence::Medium, saw)
        .seen(format!(
            "{} was read whole {:.0} times since its counters began",
            name(first, "table"),
            get(first, "scans")
        ))
        .sql(format!(
            "VACUUM (FULL, ANALYZE) {};   -- locks it until it is rewritten; pg_repack rewrites it beside its readers and \
             writers",
            name(first, "table")
        ))
        .found()
}

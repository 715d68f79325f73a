//! Foreign key without an index.

use crate::detect::prelude::*;
use crate::detect::statements::catalog_rows::{SMALL, listed, name};

pub fn audit(seen: &FactView) -> Judged {
    let rows = seen.rows("unindexed_foreign_keys")?;
    let large: Vec<&Row> = rows
        .iter()
        .filter(|row| number(row, "bytes").unwrap_or(0.0) >= SMALL)
        .collect();
    let Some(first) = large.first() else {
        return passed(match rows.len() {
            0 => "every foreign key has an index".to_owned(),
            n => format!("{n} foreign keys without an index, all of small tables"),
        });
    };
    // A change of the referenced table looks through the whole table that refers to it.
    let changes = |row: &Row| number(row, "referenced_deletes").unwrap_or(0.0);
    let names = large.iter().map(|row| {
        format!(
            "{} ({}) to {}",
            name(row, "table"),
            name(row, "columns"),
            name(row, "referenced")
        )
    });
    let saw = format!(
        "Foreign keys of large tables without an index: {}.",
        listed(names.collect())
    );
    let deleted = large.iter().any(|row| changes(row) > 0.0);
    Observation::new(medium_if(deleted), Confidence::Medium, saw)
        .seen(format!(
            "{:.0} rows were deleted from {} since its counters began",
            changes(first),
            name(first, "referenced")
        ))
        .sql(format!(
            "CREATE INDEX CONCURRENTLY ON {} ({});",
            name(first, "table"),
            name(first, "columns")
        ))
        .found()
}

//! Invalid index.

use crate::detect::prelude::*;
use crate::detect::statements::catalog_rows::{SMALL, is, listed, name};

pub fn audit(seen: &FactView) -> Judged {
    let rows = seen.rows("invalid_indexes")?;
    // CREATE INDEX CONCURRENTLY holds such a lock while it works; so does vacuum.
    let left: Vec<&Row> = rows.iter().filter(|row| !is(row, "table_locked")).collect();
    let Some(first) = left.first() else {
        return passed(match rows.len() {
            0 => "all indexes are valid".to_owned(),
            n => format!("{n} invalid indexes, which may be being built at this moment"),
        });
    };
    let names = left
        .iter()
        .map(|row| format!("{} on {}", name(row, "index"), name(row, "table")));
    let saw = format!(
        "Indexes that are invalid, which no query uses: {}.",
        listed(names.collect())
    );
    let large = left
        .iter()
        .any(|row| number(row, "table_bytes").unwrap_or(0.0) >= SMALL);
    Observation::new(medium_if(large), Confidence::High, saw)
        .sql(format!(
            "REINDEX INDEX CONCURRENTLY {index};   -- from 12 on; or DROP INDEX CONCURRENTLY {index}, \
             and create it again",
            index = name(first, "index")
        ))
        .found()
}

//! What the catalogues of the database say of its tables and indexes.

use crate::detect::common::horizon::horizon;
use crate::detect::{Detector, facts, medium_if};
use crate::fact_view::{FactView, Row, number, word};
use crate::finding::{Confidence, Judged, Observation, Severity, Verdict, could_not_see, passed};

pub const DETECTORS: &[Detector] = &[
    facts("invalid-index", invalid_indexes),
    facts("foreign-key-unindexed", unindexed_foreign_keys),
    facts("autovacuum-behind", autovacuum_behind),
    facts("swollen-table", swollen),
];

/// Tables smaller than this are read whole in no time, in bytes.
const SMALL: f64 = 8.0 * 1024.0 * 1024.0;
/// Dead rows below this are nothing to speak of.
const FEW_DEAD: f64 = 10_000.0;
/// Findings that are named one by one.
const NAMED: usize = 5;

fn name<'r>(row: &'r Row, key: &str) -> &'r str {
    word(row, key).unwrap_or("?")
}

fn is(row: &Row, key: &str) -> bool {
    row.get(key).and_then(serde_json::Value::as_bool) == Some(true)
}

/// `two of them, and 3 more`.
fn listed(mut names: Vec<String>) -> String {
    let more = names.len().saturating_sub(NAMED);
    names.truncate(NAMED);
    match more {
        0 => names.join(", "),
        more => format!("{}, and {more} more", names.join(", ")),
    }
}

fn invalid_indexes(seen: &FactView) -> Judged {
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

fn unindexed_foreign_keys(seen: &FactView) -> Judged {
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

fn swollen(seen: &FactView) -> Judged {
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

fn autovacuum_behind(seen: &FactView) -> Judged {
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

#[cfg(test)]
mod tests {
    use pgassay_model::facts::Facts;
    use pgassay_model::reading::Reading;

    use pgassay_analysis::check::check;

    const RECORDED: &str =
        include_str!("../../../../analysis/tests/check/recorded/debian12-pg15.json");

    /// It advised VACUUM below a finding that says why VACUUM removes nothing.
    #[test]
    fn dead_rows_that_something_holds_are_told_no_vacuum_before_it_is_gone() {
        let of = |seconds: u64| {
            let mut facts: Facts = serde_json::from_str(RECORDED).unwrap();
            let dead =
                r#"[{"table": "public.jobs", "live": 10, "dead": 90000, "switched_off": false}]"#;
            let old = format!(
                r#"[{{"kind": "session", "name": "41", "transactions": 900000, "seconds": {seconds}}}]"#
            );
            let mut answer = |name: &str, text: String| {
                facts.server.insert(name.into(), Reading::Text(text));
            };
            answer("dead_rows", dead.to_owned());
            answer("horizon", old);
            let report = check(&facts);
            let mut findings = report.findings();
            findings
                .find(|f| f.id == "autovacuum-behind")
                .unwrap()
                .clone()
        };
        let held = of(7200);
        assert!(
            held.remedy[0].text.starts_with("end what holds them"),
            "{held:#?}"
        );
        assert!(held.symptom_of.is_some());
        let behind = of(1);
        assert!(behind.remedy[0].text.starts_with("VACUUM"), "{behind:#?}");
        assert!(behind.symptom_of.is_none());
    }
}

//! What a table holds: its size, its columns' statistics, some rows.

use std::collections::{BTreeMap, BTreeSet};

use pgassay_pgwire::{QueryError, Session};
use pgassay_statements::draw::{Column, Table};
use pgassay_text::quote::{quote_literal, quoted_ident};

/// A table's schema and name.
pub(super) type Name = (String, String);
/// The columns whose values are needed, by table.
pub(super) type Wanted = BTreeMap<Name, BTreeSet<String>>;

/// Rows that are looked for, over those that are kept: a sample by blocks has neighbours.
const MORE: f64 = 5.0;
/// The longest value that is taken, in characters.
const LONGEST: usize = 2000;

/// Of each partition that has rows of its own, the partitioned table to which it belongs.
pub(super) fn roots(session: &mut Session) -> Result<BTreeMap<Name, Name>, QueryError> {
    let rows = session.catalog_rows(
        "SELECT m.nspname, l.relname, n.nspname, r.relname FROM pg_class l JOIN pg_namespace m ON m.oid = l.relnamespace \
         JOIN pg_class r ON r.oid = pg_partition_root(l.oid)::oid JOIN pg_namespace n ON n.oid = r.relnamespace \
         WHERE l.relispartition AND l.relkind = 'r'",
    )?;
    let roots = rows.rows.into_iter().filter_map(|row| {
        let mut row = row.into_iter();
        let mut next = || row.next().flatten();
        Some(((next()?, next()?), (next()?, next()?)))
    });
    Ok(roots.collect())
}

/// A column as text by the output function of its type: a cast to text may be a function that the type's owner wrote, and would
/// run with our privileges.
fn as_text(column: &str) -> String {
    format!("CASE WHEN num_nulls({column}) = 0 THEN left(format('%s', {column}), {LONGEST}) END")
}

/// Reads what is needed of a table's columns.
///
/// # Errors
/// Where the server refuses, in its words.
pub(super) fn read(
    session: &mut Session,
    (schema, table): &(String, String),
    columns: &BTreeSet<String>,
    samples: u32,
    seed: u64,
) -> Result<Table, String> {
    let name = format!("{}.{}", quoted_ident(schema), quoted_ident(table));
    let read = asked(session, &name, (schema, table), columns, samples, seed);
    if read.is_err() {
        let _ = session.execute("ROLLBACK");
    }
    read.map_err(|error| match error {
        QueryError::Server(error) => error.message,
        error => error.to_string(),
    })
}

fn asked(
    session: &mut Session,
    name: &str,
    (schema, table): (&str, &str),
    columns: &BTreeSet<String>,
    samples: u32,
    seed: u64,
) -> Result<Table, QueryError> {
    session.execute(
        "BEGIN READ ONLY; SET LOCAL search_path = pg_catalog; SET LOCAL statement_timeout = '60s'; \
         SET LOCAL lock_timeout = '1s'",
    )?;
    let rows = session.value(&format!(
        "SELECT sum(greatest(reltuples, 0)) FROM pg_class WHERE oid = {0}::regclass AND relkind <> 'p' \
         OR oid IN (SELECT relid FROM pg_partition_tree({0}::regclass) WHERE isleaf)",
        quote_literal(name)
    ))?;
    let rows: f64 = rows.and_then(|rows| rows.parse().ok()).unwrap_or(0.0);
    let about = session.rows(&format!(
        "SELECT a.attname, format_type(a.atttypid, NULL), to_json(s.histogram_bounds::text::text[]), \
         s.most_common_vals IS NOT NULL \
         FROM pg_attribute a LEFT JOIN pg_stats s ON s.schemaname = {} AND s.tablename = {} AND s.attname = a.attname \
         AND s.inherited = (SELECT relkind = 'p' FROM pg_class c WHERE c.oid = a.attrelid) \
         WHERE a.attrelid = {}::regclass AND a.attnum > 0 AND NOT a.attisdropped",
        quote_literal(schema),
        quote_literal(table),
        quote_literal(name)
    ))?;
    let mut found: BTreeMap<String, Column> = BTreeMap::new();
    for row in about.rows {
        let mut row = row.into_iter();
        let mut next = || row.next().flatten();
        let (Some(column), Some(type_name)) = (next(), next()) else {
            continue;
        };
        let bounds = next()
            .and_then(|json| serde_json::from_str(&json).ok())
            .unwrap_or_default();
        let has_common = next().as_deref() == Some("t");
        if columns.contains(&column) {
            found.insert(
                column,
                Column {
                    type_name,
                    bounds,
                    has_common,
                },
            );
        }
    }
    let unique = session.rows(&format!(
        "SELECT to_json(array_agg(a.attname)) FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid \
         AND a.attnum = ANY (i.indkey) WHERE i.indrelid = {}::regclass AND i.indisunique GROUP BY i.indexrelid",
        quote_literal(name)
    ))?;
    let unique = unique.rows.into_iter().flatten().flatten();
    let unique = unique
        .filter_map(|json| serde_json::from_str(&json).ok())
        .collect();
    let sample = match found.is_empty() {
        true => Vec::new(),
        false => {
            let texts: Vec<String> = found
                .keys()
                .map(|column| as_text(&quoted_ident(column)))
                .collect();
            let percent = (100.0 * MORE * f64::from(samples) / rows.max(1.0)).clamp(0.0001, 100.0);
            let seeded = seed % 1_000_000;
            let sampled = session.rows(&format!(
                "SELECT setseed({seeded} / 1000000.0::float8); \
                 SELECT {} FROM {name} TABLESAMPLE SYSTEM ({percent}) REPEATABLE ({seeded}) ORDER BY random() LIMIT {samples}",
                texts.join(", ")
            ))?;
            sampled.rows
        }
    };
    session.execute("ROLLBACK")?;
    Ok(Table {
        rows,
        columns: found,
        unique,
        sample,
    })
}

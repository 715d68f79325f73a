//! What a server's catalog and pg_stats say of a database.

use std::collections::{BTreeMap, BTreeSet};

use pgassay_model::Failure;
use pgassay_pgwire::{QueryError, Session};
use pgassay_synthetic::described::{Column, Described, Foreign, Partitioned, Point, SCHEMA, Table};
use pgassay_sys::stop::Stop;
use pgassay_text::quote::quote_literal;

/// Bytes out of line beyond which it is said that they are not made.
const OUT_OF_LINE: u64 = 1 << 20;

/// The first OID of what is not part of PostgreSQL itself (access/transam.h, `FirstNormalObjectId`).
const FIRST_USER_OID: u32 = 16_384;

/// A column, and what is needed to read its values.
struct Read {
    column: Column,
    /// The type for casts.
    cast: String,
    /// Its collation, where it is not the database's.
    collation: Option<String>,
    /// Its values are known. Of types without an order none is.
    has_values: bool,
    /// By what its values, as texts `v`, are put in the type's order; none where that could run code of the type's owner, who may
    /// have written the cast or the check of a domain.
    order: Option<String>,
}

type At = (usize, usize);

/// Reads it in one transaction.
///
/// # Errors
/// Where the server refuses, or Ctrl-C.
pub(super) fn describe(session: &mut Session, stop: &Stop) -> anyhow::Result<Described> {
    session.execute(
        "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL datestyle = 'ISO, YMD'; SET LOCAL timezone = 'UTC'; \
         SET LOCAL intervalstyle = 'postgres'; SET LOCAL bytea_output = 'hex'; SET LOCAL extra_float_digits = 1; \
         SET LOCAL search_path = pg_catalog; SET LOCAL standard_conforming_strings = on; SET LOCAL lock_timeout = '1s'",
    )?;
    let number = session.value("SHOW server_version_num")?;
    let mut described = Described {
        schema: SCHEMA.to_owned(),
        version_num: number.and_then(|n| n.parse().ok()).unwrap_or(0),
        ..Described::default()
    };
    let mut reads: Vec<Vec<Read>> = Vec::new();
    for (oid, table) in tables(session, &mut described.lacks)? {
        if stop.asked() {
            return Err(Failure::interrupted().into());
        }
        reads.push(columns(session, &oid)?);
        described.tables.push(Table {
            keys: keys(session, &oid)?,
            foreign: foreign(session, &oid)?,
            ..table
        });
    }
    described.partitioned = partitioned(session)?;
    let referring = referring(&described, &reads);
    for at in 0..reads.len() {
        for place in 0..reads[at].len() {
            if stop.asked() {
                return Err(Failure::interrupted().into());
            }
            let others = referring.get(&(at, place)).cloned().unwrap_or_default();
            let of = |(at, place): &At| {
                let table = &described.tables[*at];
                (
                    table.schema.clone(),
                    table.name.clone(),
                    reads[*at][*place].column.name.clone(),
                )
            };
            let own = of(&(at, place));
            let others: Vec<_> = others.iter().map(of).collect();
            let read = &reads[at][place];
            let found = match (read.has_values || !others.is_empty(), &read.order) {
                (true, Some(order)) => points(session, read, order, &own, &others),
                (true, None) => {
                    described.lacks.push(format!(
                        "{}.{}.{}: its values are not read: a cast to {} could run code of the role that owns the type",
                        own.0, own.1, own.2, read.column.type_name
                    ));
                    Ok(Vec::new())
                }
                (false, _) => Ok(Vec::new()),
            };
            let points = match found {
                Ok(points) => points,
                Err(QueryError::Server(error)) => {
                    session.execute("ROLLBACK TO pgassay_points")?;
                    let lack = format!(
                        "{}.{}.{}: its values can't be read: {}",
                        own.0, own.1, own.2, error.message
                    );
                    described.lacks.push(lack);
                    Vec::new()
                }
                Err(error) => return Err(error.into()),
            };
            let alphabet = alphabet(session, read, &points)?;
            let column = &mut reads[at][place].column;
            (column.points, column.alphabet) = (points, alphabet);
        }
    }
    for (table, reads) in described.tables.iter_mut().zip(reads) {
        table.columns = reads.into_iter().map(|read| read.column).collect();
        if table.columns.iter().all(|column| column.width == 0.0) && table.rows > 0 {
            described.lacks.push(format!(
                "{}.{}: no statistics of its columns, whose values are made up; ANALYZE it, or let this role SELECT from it",
                table.schema, table.name
            ));
        }
    }
    let extended = session.value("SELECT count(*) FROM pg_statistic_ext")?;
    if extended.is_some_and(|count| count != "0") {
        described
            .lacks
            .push("extended statistics: columns depend on each other by keys only".to_owned());
    }
    session.execute("ROLLBACK")?;
    Ok(described)
}

/// The tables that have rows of their own, by their OIDs. Of one that is partitioned by a hash, which no row made for
/// a partition would fit, the whole is meant.
fn tables(
    session: &mut Session,
    lacks: &mut Vec<String>,
) -> Result<Vec<(String, Table)>, QueryError> {
    let rows = session.rows(
        "WITH hashed AS (SELECT DISTINCT pg_partition_root(partrelid)::oid AS root FROM pg_partitioned_table WHERE partstrat = 'h') \
         SELECT c.oid, n.nspname, c.relname, \
         CASE c.relkind WHEN 'p' THEN s.rows ELSE c.reltuples END, CASE c.relkind WHEN 'p' THEN s.bytes ELSE pg_total_relation_size(c.oid) END, \
         CASE WHEN c.reltoastrelid <> 0 THEN pg_relation_size(c.reltoastrelid) ELSE 0 END \
         FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
         LEFT JOIN LATERAL (SELECT sum(greatest(l.reltuples, 0)) AS rows, sum(pg_total_relation_size(l.oid)) AS bytes \
           FROM pg_partition_tree(c.oid) t JOIN pg_class l ON l.oid = t.relid WHERE c.relkind = 'p' AND t.isleaf) s ON true \
         WHERE (c.relkind = 'r' AND NOT (c.relispartition AND pg_partition_root(c.oid)::oid IN (SELECT root FROM hashed)) \
           OR c.relkind = 'p' AND c.oid IN (SELECT root FROM hashed)) \
         AND c.relpersistence <> 't' AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' \
         AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e') \
         ORDER BY n.nspname, c.relname",
    )?;
    let mut tables = Vec::new();
    for row in rows.rows {
        let mut row = row.into_iter();
        let mut next = || row.next().flatten();
        let (Some(oid), Some(schema), Some(name)) = (next(), next(), next()) else {
            continue;
        };
        let mut number = || {
            next()
                .and_then(|text| text.parse::<f64>().ok())
                .unwrap_or(0.0)
        };
        let (rows, bytes, out_of_line) = (number(), number() as u64, number() as u64);
        if rows < 0.0 {
            lacks.push(format!("{schema}.{name}: never analysed, and left empty"));
            continue;
        }
        if out_of_line > OUT_OF_LINE {
            lacks.push(format!(
                "{schema}.{name}: {} MB of long values out of line may be shorter",
                out_of_line / 1_000_000
            ));
        }
        tables.push((
            oid,
            Table {
                schema,
                name,
                rows: rows as u64,
                bytes,
                ..Table::default()
            },
        ));
    }
    Ok(tables)
}

/// The tables whose rows are those of their partitions, without those partitioned by a hash, which [`tables`] has whole.
fn partitioned(session: &mut Session) -> Result<Vec<Partitioned>, QueryError> {
    let rows = session.rows(
        "SELECT n.nspname, c.relname, to_json(ARRAY(SELECT ARRAY[m.nspname, l.relname] FROM pg_partition_tree(c.oid) t \
           JOIN pg_class l ON l.oid = t.relid JOIN pg_namespace m ON m.oid = l.relnamespace WHERE t.isleaf AND l.relkind = 'r' \
           ORDER BY l.oid)) \
         FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'p' \
         AND pg_partition_root(c.oid)::oid NOT IN (SELECT pg_partition_root(partrelid)::oid FROM pg_partitioned_table WHERE partstrat = 'h') \
         AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' ORDER BY 1, 2",
    )?;
    let partitioned = rows.rows.into_iter().filter_map(|row| {
        let mut row = row.into_iter();
        let mut next = || row.next().flatten();
        Some(Partitioned {
            schema: next()?,
            name: next()?,
            leaves: serde_json::from_str(&next()?).ok()?,
        })
    });
    Ok(partitioned.collect())
}

fn columns(session: &mut Session, oid: &str) -> Result<Vec<Read>, QueryError> {
    let rows = session.rows(&format!(
        "SELECT a.attname, format_type(b.type, b.mod), format_type(b.type, -1), a.attnotnull OR t.typnotnull, \
         (SELECT typtype = 'e' FROM pg_type WHERE oid = b.type), s.null_frac, s.n_distinct, s.avg_width, s.correlation, \
         s.most_common_vals IS NOT NULL OR s.histogram_bounds IS NOT NULL, \
         (SELECT CASE WHEN y.typtype = 'e' THEN format('(SELECT e.enumsortorder FROM pg_enum e WHERE e.enumtypid = %s AND e.enumlabel = v)', y.oid) \
           WHEN y.oid < {FIRST_USER_OID} OR y.typtype = 'b' AND y.typelem = 0 AND o.rolsuper THEN 'v::' || format_type(y.oid, -1) END \
           FROM pg_type y JOIN pg_roles o ON o.oid = y.typowner WHERE y.oid = b.type), \
         CASE WHEN a.attcollation NOT IN (0, 'pg_catalog.default'::regcollation) THEN \
           (SELECT quote_ident(cn.nspname) || '.' || quote_ident(o.collname) FROM pg_collation o \
            JOIN pg_namespace cn ON cn.oid = o.collnamespace WHERE o.oid = a.attcollation) END \
         FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace \
         JOIN pg_type t ON t.oid = a.atttypid \
         CROSS JOIN LATERAL (SELECT CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE t.oid END AS type, \
           CASE t.typtype WHEN 'd' THEN t.typtypmod ELSE a.atttypmod END AS mod) b \
         LEFT JOIN pg_stats s ON s.schemaname = n.nspname AND s.tablename = c.relname AND s.attname = a.attname AND s.inherited = (c.relkind = 'p') \
         WHERE a.attrelid = {oid} AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' ORDER BY a.attnum"
    ))?;
    let mut reads = Vec::new();
    for row in rows.rows {
        let mut row = row.into_iter();
        let mut next = || row.next().flatten();
        let (Some(name), Some(type_name), Some(cast)) = (next(), next(), next()) else {
            continue;
        };
        let (not_null, enumerated) = (
            next().as_deref() == Some("t"),
            next().as_deref() == Some("t"),
        );
        let mut number = || next().and_then(|text| text.parse::<f64>().ok());
        let column = Column {
            name,
            type_name,
            enumerated,
            not_null,
            null_fraction: number().unwrap_or(0.0),
            distinct: number().unwrap_or(0.0),
            width: number().unwrap_or(0.0),
            correlation: number(),
            ..Column::default()
        };
        let has_values = next().as_deref() == Some("t");
        reads.push(Read {
            column,
            cast,
            has_values,
            order: next(),
            collation: next(),
        });
    }
    Ok(reads)
}

fn keys(session: &mut Session, oid: &str) -> Result<Vec<Vec<String>>, QueryError> {
    let rows = session.rows(&format!(
        "SELECT to_json(ARRAY(SELECT a.attname FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS k (n, at) \
         JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.n WHERE k.at <= i.indnkeyatts ORDER BY k.at)) \
         FROM pg_index i WHERE i.indrelid = {oid} AND i.indisunique AND i.indpred IS NULL AND i.indexprs IS NULL \
         ORDER BY i.indisprimary DESC, i.indexrelid"
    ))?;
    let keys = rows.rows.into_iter().flatten().flatten();
    Ok(keys
        .filter_map(|json| serde_json::from_str(&json).ok())
        .collect())
}

fn foreign(session: &mut Session, oid: &str) -> Result<Vec<Foreign>, QueryError> {
    let names = |columns: &str, of: &str| {
        format!(
            "to_json(ARRAY(SELECT a.attname FROM unnest(k.{columns}) WITH ORDINALITY AS u (n, at) \
             JOIN pg_attribute a ON a.attrelid = k.{of} AND a.attnum = u.n ORDER BY u.at))"
        )
    };
    // Of a key to a partitioned table there is one more for each partition of it.
    let rows = session.rows(&format!(
        "SELECT {}, n.nspname, c.relname, {} FROM pg_constraint k JOIN pg_class c ON c.oid = k.confrelid \
         JOIN pg_namespace n ON n.oid = c.relnamespace WHERE k.contype = 'f' AND k.conrelid = {oid} \
         AND NOT EXISTS (SELECT FROM pg_constraint p WHERE p.oid = k.conparentid AND p.confrelid <> k.confrelid) ORDER BY k.oid",
        names("conkey", "conrelid"),
        names("confkey", "confrelid")
    ))?;
    let foreign = rows.rows.into_iter().filter_map(|row| {
        let mut row = row.into_iter();
        let mut next = || row.next().flatten();
        Some(Foreign {
            columns: serde_json::from_str(&next()?).ok()?,
            schema: next()?,
            table: next()?,
            referenced: serde_json::from_str(&next()?).ok()?,
        })
    });
    Ok(foreign.collect())
}

/// For each column those that refer to it, directly or by others: its values have to have theirs.
fn referring(described: &Described, reads: &[Vec<Read>]) -> BTreeMap<At, BTreeSet<At>> {
    let place = |table: usize, name: &str| {
        reads[table]
            .iter()
            .position(|read| read.column.name == name)
    };
    let mut direct: BTreeMap<At, BTreeSet<At>> = BTreeMap::new();
    for (at, table) in described.tables.iter().enumerate() {
        for foreign in &table.foreign {
            let there = described
                .tables
                .iter()
                .position(|t| t.schema == foreign.schema && t.name == foreign.table);
            let ([own], Some(there)) = (foreign.columns.as_slice(), there) else {
                continue;
            };
            if let (Some(own), Some(other)) = (place(at, own), place(there, &foreign.referenced[0]))
            {
                direct.entry((there, other)).or_default().insert((at, own));
            }
        }
    }
    let mut all = direct.clone();
    for (at, referring) in &mut all {
        let mut open: Vec<At> = referring.iter().copied().collect();
        while let Some(next) = open.pop() {
            for further in direct.get(&next).into_iter().flatten() {
                if further != at && referring.insert(*further) {
                    open.push(*further);
                }
            }
        }
    }
    all
}

type Name = (String, String, String);

/// The known values of a column, with those that others which refer to it know, in the order of its type.
fn points(
    session: &mut Session,
    read: &Read,
    order: &str,
    own: &Name,
    others: &[Name],
) -> Result<Vec<Point>, QueryError> {
    session.execute("SAVEPOINT pgassay_points")?;
    let of = |(schema, table, column): &Name| {
        let at = [schema, table, column].map(|name| quote_literal(name));
        format!(
            "FROM pg_stats WHERE schemaname = {} AND tablename = {} AND attname = {} AND inherited = EXISTS \
             (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
              WHERE n.nspname = schemaname AND c.relname = tablename AND c.relkind = 'p')",
            at[0], at[1], at[2]
        )
    };
    let common = "most_common_vals::text::text[]";
    let mut parts = vec![
        format!(
            "SELECT unnest({common}) AS v, unnest(most_common_freqs) AS f, 0 AS b {}",
            of(own)
        ),
        format!(
            "SELECT unnest(histogram_bounds::text::text[]), NULL, 1 {}",
            of(own)
        ),
    ];
    for other in others {
        for values in [common, "histogram_bounds::text::text[]"] {
            parts.push(format!("SELECT unnest({values}), NULL, 0 {}", of(other)));
        }
    }
    let collate = read
        .collation
        .as_ref()
        .map_or_else(String::new, |collation| format!(" COLLATE {collation}"));
    let rows = session.rows(&format!(
        "SELECT v, max(f), sum(b) FROM ({}) AS x WHERE v IS NOT NULL GROUP BY v ORDER BY {order}{collate}, v",
        parts.join(" UNION ALL ")
    ))?;
    let point = |row: Vec<Option<String>>| {
        let mut row = row.into_iter();
        let value = row.next()??;
        let share = row.next()?.and_then(|share| share.parse().ok());
        let bounds = row
            .next()?
            .and_then(|bounds| bounds.parse().ok())
            .unwrap_or(0);
        Some(Point {
            value,
            share,
            bounds: if share.is_some() { 0 } else { bounds },
        })
    };
    Ok(rows.rows.into_iter().filter_map(point).collect())
}

/// The characters of a text's values, in the order of its collation.
fn alphabet(session: &mut Session, read: &Read, points: &[Point]) -> Result<String, QueryError> {
    if !matches!(
        read.cast.as_str(),
        "text" | "character varying" | "bpchar" | "character" | "name"
    ) {
        return Ok(String::new());
    }
    let letters: BTreeSet<char> = points
        .iter()
        .flat_map(|point| point.value.chars())
        .collect();
    if letters.is_empty() {
        return Ok(String::new());
    }
    let letters: String = letters.into_iter().collect();
    let collate = read
        .collation
        .as_ref()
        .map_or_else(String::new, |collation| format!(" COLLATE {collation}"));
    let sorted = session.value(&format!(
        "SELECT string_agg(c, '' ORDER BY c{collate}) FROM pg_catalog.unnest(string_to_array({}, NULL)) AS c",
        quote_literal(&letters)
    ))?;
    Ok(sorted.unwrap_or(letters))
}

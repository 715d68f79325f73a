//! Reads of somebody's own database: what may be read, in which ways, and which blocks that is. Nothing
//! here writes; what is asked of the catalogs names its schema.

use pgassay_model::Failure;
use pgassay_model::scattered::OwnReads;
use pgassay_pgwire::{QueryError, Session};
use pgassay_text::quote::{quote_literal, quoted_ident};
use serde_json::Value;

use super::super::setup;
use super::{calls, ways};

/// The smallest relation of which a tenth shows anything, in blocks.
const FEWEST_BLOCKS: u64 = 100;
/// How long we wait for a lock that somebody else holds.
const LOCK_MS: u32 = 2000;
/// The SQLSTATE of a lock that was not had in time.
const LOCKED: &str = "55P03";
/// A query that takes longer than this is not for repeating.
const STATEMENT_MS: u32 = 600_000;
/// What is to be read: checked, with the files that it lies in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// What is recorded of it.
    pub own: OwnReads,
    /// Blocks of the relations' main forks.
    pub blocks: u64,
    /// Their files below the data directory, those of the relations first, then indexes and TOAST.
    pub paths: Vec<String>,
    /// Bytes of all these files.
    pub bytes: u64,
}

/// Finds a relation, which must be one whose blocks can be read by their numbers.
///
/// # Errors
/// Where there is none, or it is of another kind, with what to do instead.
pub fn relation(session: &mut Session, name: &str) -> anyhow::Result<Found> {
    let literal = quote_literal(name);
    // A name that is no name at all is an error of to_regclass before version 16, and a null from then on.
    let oid = match session.value(&format!(
        "SELECT pg_catalog.to_regclass({literal})::pg_catalog.oid"
    )) {
        Ok(Some(oid)) => oid,
        Ok(None) => return Err(missing(session, name)?.into()),
        Err(QueryError::Server(error)) => {
            return Err(
                Failure::usage(format!("--relation {name}: {}", error.message))
                    .with_remedy("write SCHEMA.TABLE, as SQL does")
                    .into(),
            );
        }
        Err(error) => return Err(error.into()),
    };
    let row = session.rows(&format!(
        "SELECT pg_catalog.format('%I.%I', n.nspname, c.relname), c.relkind, c.relpersistence, \
           COALESCE((SELECT amname FROM pg_catalog.pg_am WHERE oid = c.relam), ''), \
           pg_catalog.has_table_privilege(c.oid, 'SELECT'), \
           n.nspname LIKE 'pg\\_temp\\_%' AND n.oid <> pg_catalog.pg_my_temp_schema() \
         FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         WHERE c.oid = {oid}"
    ))?;
    let row = row.rows.first().map(Vec::as_slice);
    let Some(
        [
            Some(full),
            Some(kind),
            Some(_),
            access,
            readable,
            foreign_temp,
        ],
    ) = row
    else {
        return Err(missing(session, name)?.into());
    };
    let yes = |value: &Option<String>| value.as_deref() == Some("t");
    let refused = |why: &str, remedy: &str| {
        Err(anyhow::Error::from(
            Failure::usage(format!("--relation: {full} {why}")).with_remedy(remedy),
        ))
    };
    match kind.as_str() {
        "r" | "m" | "t" => {}
        "p" => {
            let largest = session.rows(&format!(
                "SELECT p.relid::pg_catalog.regclass::pg_catalog.text \
                 FROM pg_catalog.pg_partition_tree({oid}) p WHERE p.isleaf \
                 ORDER BY pg_catalog.pg_relation_size(p.relid) DESC LIMIT 3"
            ))?;
            let names: Vec<&str> = largest
                .rows
                .iter()
                .filter_map(|row| row.first()?.as_deref())
                .collect();
            return match names.as_slice() {
                [] => refused(
                    "is a partitioned table without partitions: it holds no rows",
                    "name another",
                ),
                names => refused(
                    "is a partitioned table: its partitions hold the rows",
                    &format!(
                        "name one, such as {}, or measure a query with --query",
                        names.join(", ")
                    ),
                ),
            };
        }
        "v" => {
            return refused(
                "is a view: it has no blocks of its own",
                &format!("name a table that it reads, or --query 'SELECT count(*) FROM {full}'"),
            );
        }
        "f" => {
            return refused(
                "is a foreign table: another server, or a file, holds its rows",
                "measure on the server that has them",
            );
        }
        "i" | "I" => {
            return refused(
                "is an index",
                "name its table, or measure a query with --query",
            );
        }
        "S" => return refused("is a sequence: it has one block", "name a table"),
        _ => return refused("holds no rows", "name a table"),
    }
    if yes(foreign_temp) {
        return refused(
            "is a temporary table of another session",
            "measure a query in a table that all sessions see",
        );
    }
    if !yes(readable) {
        return Err(
            Failure::target(format!("--relation: this role may not read {full}"))
                .with_remedy(format!(
                    "GRANT SELECT ON {full} TO the role, or connect as another"
                ))
                .into(),
        );
    }
    if access
        .as_deref()
        .is_some_and(|access| !access.is_empty() && access != "heap")
    {
        return refused(
            &format!(
                "is stored by the access method {}: its blocks are not read by their numbers",
                access.as_deref().unwrap_or_default()
            ),
            "measure a query with --query",
        );
    }
    // Waits for who holds it, and no longer.
    let count = session.value(&format!(
        "SELECT pg_catalog.count(*) FROM (SELECT FROM {full} LIMIT 1) s"
    ));
    count.map_err(|error| locked(full, error))?;
    let blocks = blocks_of(session, std::slice::from_ref(&oid))?;
    if blocks < FEWEST_BLOCKS {
        return refused(
            &format!("has {blocks} blocks: a tenth of them shows nothing"),
            &format!("name a table of {FEWEST_BLOCKS} blocks or more"),
        );
    }
    let (paths, bytes) = files_of(session, std::slice::from_ref(&oid), false)?;
    Ok(Found {
        own: OwnReads {
            relation: Some(name.to_owned()),
            query: None,
            relations: vec![full.clone()],
            evicted: false,
            sample: ways::sample(blocks),
        },
        blocks,
        paths,
        bytes,
    })
}

/// Finds what a query reads. It is planned, not executed.
///
/// # Errors
/// Where it is no single query, writes, or calls what may change something.
pub fn query(session: &mut Session, text: &str) -> anyhow::Result<Found> {
    let text = text.trim().trim_end_matches(';').trim_end();
    let refused = |why: String, remedy: &str| {
        anyhow::Error::from(Failure::usage(format!("--query: {why}")).with_remedy(remedy))
    };
    // A form in which the server takes one statement, and only one that has a plan.
    match session.execute_single(&format!("PREPARE pgassay_query AS {text}")) {
        Ok(()) => session.execute("DEALLOCATE pgassay_query")?,
        Err(QueryError::Server(error)) if error.sqlstate == "42601" => {
            return Err(refused(
                format!("the server takes no such statement: {}", error.message),
                "write one SELECT, without parameters; SET and several statements are not measured",
            ));
        }
        Err(QueryError::Server(error)) if error.sqlstate != LOCKED => {
            return Err(refused(
                error.message.clone(),
                "write names with their schemas",
            ));
        }
        Err(error) => return Err(locked("a table of the query", error)),
    }
    session.execute("BEGIN READ ONLY")?;
    let plan = match session.value(&format!("EXPLAIN (VERBOSE, COSTS OFF, FORMAT JSON) {text}")) {
        Ok(plan) => plan,
        Err(QueryError::Server(error)) if error.sqlstate != LOCKED => {
            return Err(refused(
                error.message.clone(),
                "write a SELECT without parameters",
            ));
        }
        Err(error) => return Err(locked("a table of the query", error)),
    };
    let views = views(session)?;
    session.execute("COMMIT")?;
    let plan: Value = serde_json::from_str(&plan.unwrap_or_default())?;
    let mut seen = Seen::default();
    seen.visit(&plan, 0);
    if let Some(writes) = &seen.writes {
        return Err(refused(
            format!("it writes ({writes}), and only what reads is run here"),
            "measure its SELECT, or a copy: pgassay run SCRIPT.sql with --is-copy",
        ));
    }
    let texts = [text].into_iter();
    let texts = texts.chain(views.iter().chain(&seen.expressions).map(String::as_str));
    if let Some(volatile) = calls::volatile(session, texts)? {
        return Err(refused(
            format!(
                "it calls {volatile}, which is VOLATILE: it may change something, and the query is run several \
                 times"
            ),
            "leave the call out; or, where the function only reads, declare it STABLE",
        ));
    }
    if seen.foreign {
        return Err(refused(
            "it reads a foreign table, whose rows another server or a file holds".to_owned(),
            "measure on the server that has them",
        ));
    }
    if seen.relations.is_empty() {
        return Err(refused(
            "it reads no table".to_owned(),
            "name a query that reads one",
        ));
    }
    let mut oids = Vec::new();
    for name in &seen.relations {
        let oid = session.value(&format!(
            "SELECT pg_catalog.to_regclass({})::pg_catalog.oid",
            quote_literal(name)
        ))?;
        oids.extend(oid);
    }
    let blocks = blocks_of(session, &oids)?;
    let (paths, bytes) = files_of(session, &oids, true)?;
    Ok(Found {
        own: OwnReads {
            relation: None,
            query: Some(text.to_owned()),
            relations: seen.relations,
            evicted: false,
            sample: None,
        },
        blocks,
        paths,
        bytes,
    })
}

/// The options with which sessions begin that read somebody's own database: nothing that they send changes
/// anything, waits long for a lock, or goes on for ever. Where the role has shorter limits, these hold.
///
/// # Errors
/// Where the session broke.
pub fn options(session: &mut Session) -> anyhow::Result<String> {
    let rows = session.catalog_rows(
        "SELECT name, setting FROM pg_settings WHERE name IN ('lock_timeout', 'statement_timeout')",
    )?;
    let mut options = setup::READ_ONLY.to_owned();
    for (name, most_ms) in [
        ("lock_timeout", LOCK_MS),
        ("statement_timeout", STATEMENT_MS),
    ] {
        let found = rows.rows.iter().find_map(|row| match row.as_slice() {
            [Some(found), Some(ms)] if found == name => ms.parse().ok(),
            _ => None,
        });
        let ms = shorter(found, most_ms);
        options.push_str(&format!(" -c {name}={ms}"));
    }
    Ok(options)
}

/// The shorter of two limits, of which the first may be none: 0 is no limit.
fn shorter(found_ms: Option<u32>, most_ms: u32) -> u32 {
    found_ms
        .filter(|ms| *ms > 0)
        .map_or(most_ms, |ms| ms.min(most_ms))
}

fn missing(session: &mut Session, name: &str) -> anyhow::Result<Failure> {
    let database = session.value("SELECT pg_catalog.current_database()")?;
    Ok(Failure::usage(format!(
        "--relation: there is no relation {name} in the database {}",
        database.unwrap_or_default()
    ))
    .with_remedy("write SCHEMA.TABLE, and name the database in the target; psql's \\dt lists them"))
}

/// A lock that somebody holds, said as such.
fn locked(what: &str, error: QueryError) -> anyhow::Error {
    match error.sqlstate() {
        Some(LOCKED) => Failure::target(format!(
            "{what} is locked by another session, for more than {} s",
            LOCK_MS / 1000
        ))
        .with_remedy("wait until it is done (pg_locks and pg_blocking_pids say who holds it), and run it again")
        .into(),
        _ => error.into(),
    }
}

fn blocks_of(session: &mut Session, oids: &[String]) -> anyhow::Result<u64> {
    let each = oids
        .iter()
        .map(|oid| format!("pg_catalog.pg_relation_size({oid})"));
    let sum: Vec<String> = each.collect();
    let blocks = session.value(&format!(
        "SELECT (({}) / pg_catalog.current_setting('block_size')::pg_catalog.int8)::pg_catalog.int8",
        sum.join(" + ")
    ))?;
    Ok(blocks.and_then(|blocks| blocks.parse().ok()).unwrap_or(0))
}

/// The first file of each relation; with their indexes and TOAST tables where a query may read these.
fn files_of(
    session: &mut Session,
    oids: &[String],
    further: bool,
) -> anyhow::Result<(Vec<String>, u64)> {
    let tables = oids.join(", ");
    let beside = match further {
        true => format!(
            " UNION ALL SELECT indexrelid, 1 FROM pg_catalog.pg_index WHERE indrelid IN ({tables}) \
             UNION ALL SELECT reltoastrelid, 2 FROM pg_catalog.pg_class \
               WHERE oid IN ({tables}) AND reltoastrelid <> 0 \
             UNION ALL SELECT i.indexrelid, 3 FROM pg_catalog.pg_class c \
               JOIN pg_catalog.pg_index i ON i.indrelid = c.reltoastrelid \
               WHERE c.oid IN ({tables})"
        ),
        false => String::new(),
    };
    let rows = session.rows(&format!(
        "SELECT pg_catalog.pg_relation_filepath(r.oid), pg_catalog.pg_relation_size(r.oid) \
         FROM (SELECT oid, 0 AS place FROM pg_catalog.pg_class WHERE oid IN ({tables}){beside}) r \
         WHERE pg_catalog.pg_relation_filepath(r.oid) IS NOT NULL ORDER BY r.place, r.oid"
    ))?;
    let mut paths = Vec::new();
    let mut bytes = 0u64;
    for row in &rows.rows {
        if let [Some(path), size] = row.as_slice() {
            paths.push(path.clone());
            bytes += size
                .as_deref()
                .and_then(|size| size.parse().ok())
                .unwrap_or(0);
        }
    }
    Ok((paths, bytes))
}

/// The definitions of the views that a query reads, which this transaction has planned: a plan does not show
/// every expression of theirs. To plan it, they were locked. Their functions have their schemas.
fn views(session: &mut Session) -> anyhow::Result<Vec<String>> {
    let rows = session.catalog_rows(
        "SELECT pg_get_viewdef(c.oid) FROM pg_locks l JOIN pg_class c ON c.oid = l.relation \
         WHERE l.pid = pg_backend_pid() AND l.locktype = 'relation' AND c.relkind = 'v' \
           AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) \
           AND c.relnamespace <> (SELECT oid FROM pg_namespace WHERE nspname = 'pg_catalog')",
    )?;
    let first = rows.rows.into_iter().filter_map(|mut row| row.pop()?);
    Ok(first.collect())
}

/// What a plan says of a query.
#[derive(Debug, Default)]
struct Seen {
    /// Relations with their schemas, quoted as SQL does.
    relations: Vec<String>,
    /// Texts in which functions are called.
    expressions: Vec<String>,
    foreign: bool,
    writes: Option<String>,
}

impl Seen {
    fn visit(&mut self, node: &Value, depth: usize) {
        if depth > 200 {
            return;
        }
        match node {
            Value::Array(each) => each.iter().for_each(|node| self.visit(node, depth + 1)),
            Value::Object(fields) => {
                let text = |name: &str| fields.get(name).and_then(Value::as_str);
                if let (Some(schema), Some(name)) = (text("Schema"), text("Relation Name")) {
                    let full = format!("{}.{}", quoted_ident(schema), quoted_ident(name));
                    if !self.relations.contains(&full) {
                        self.relations.push(full);
                    }
                }
                match text("Node Type") {
                    Some("Foreign Scan") => self.foreign = true,
                    Some("ModifyTable") => {
                        self.writes = Some(text("Operation").unwrap_or("a change").to_owned());
                    }
                    Some("LockRows") => {
                        self.writes = Some("row locks, as FOR UPDATE takes".to_owned())
                    }
                    _ => {}
                }
                fields
                    .values()
                    .for_each(|value| self.visit(value, depth + 1));
            }
            Value::String(text) => self.expressions.push(text.clone()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_says_what_is_read_and_whether_it_writes() {
        let plan: Value = serde_json::from_str(
            r#"[{"Plan": {"Node Type": "Hash Join", "Output": ["public.f(o.a)"], "Plans": [
                {"Node Type": "Seq Scan", "Relation Name": "orders", "Schema": "public"},
                {"Node Type": "Index Scan", "Relation Name": "odd\"name", "Schema": "s", "Index Name": "i"},
                {"Node Type": "Seq Scan", "Relation Name": "orders", "Schema": "public"}]}}]"#,
        )
        .unwrap();
        let mut seen = Seen::default();
        seen.visit(&plan, 0);
        assert_eq!(
            seen.relations,
            ["\"public\".\"orders\"", "\"s\".\"odd\"\"name\""]
        );
        assert!(seen.expressions.contains(&"public.f(o.a)".to_owned()));
        assert!(!seen.foreign && seen.writes.is_none());
        let plan: Value = serde_json::from_str(
            r#"[{"Plan": {"Node Type": "ModifyTable", "Operation": "Delete"}}]"#,
        )
        .unwrap();
        seen.visit(&plan, 0);
        assert_eq!(seen.writes.as_deref(), Some("Delete"));
    }

    #[test]
    fn no_limit_is_longer_than_that_found() {
        assert_eq!(shorter(Some(0), 2000), 2000);
        assert_eq!(shorter(None, 2000), 2000);
        assert_eq!(shorter(Some(500), 2000), 500);
        assert_eq!(shorter(Some(5000), 2000), 2000);
    }
}

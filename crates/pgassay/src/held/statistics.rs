//! Launched servers with data that is made from a database's statistics, which `pgassay workload statistics` wrote.

use std::io;
use std::path::Path;
use std::sync::Mutex;

use anyhow::Context;
use pgassay_engine::workload::parallel::{Underway, Work, workers};
use pgassay_model::Failure;
use pgassay_pgwire::{Connector, Conninfo, QueryError, Session};
use pgassay_server::Cluster;
use pgassay_server::copies::refuse_full_disk;
use pgassay_server::database::{Database, Restored};
use pgassay_server::schema::objects;
use pgassay_server::scratch::Scratch;
use pgassay_synthetic::described::{Described, SCHEMA, Table};
use pgassay_synthetic::tables::SyntheticData;
use pgassay_sys::input;
use pgassay_sys::stop::Stop;
use pgassay_text::number::{count, counted};
use pgassay_text::quote::quoted_ident;

use crate::exit::explain;

/// The schema before data.
pub const BEFORE: &str = "before.sql";
/// The schema after data.
pub const AFTER: &str = "after.sql";
/// What is known of the data.
pub const STATISTICS: &str = "statistics.json";
/// What the database is made with.
pub const DATABASE: &str = "database.json";
/// Bytes that are sent at once.
const CHUNK: usize = 64 * 1024;
/// Sentences of one kind that are said.
const SAID: usize = 5;

/// A directory that was read.
#[derive(Debug)]
pub struct Statistics {
    before: String,
    after: String,
    database: Database,
    described: Described,
}

/// A CHECK constraint, which made-up values need not meet.
struct Check {
    table: String,
    name: String,
    definition: String,
}

impl Statistics {
    /// Whether a text names such a directory, and not a database.
    pub fn is_one(text: &str) -> bool {
        Path::new(text).join(STATISTICS).is_file()
    }

    /// Reads it.
    ///
    /// # Errors
    /// Naming the file that is not what it should be.
    pub fn read(dir: &Path) -> anyhow::Result<Self> {
        let text = |name: &str| {
            let path = dir.join(name);
            input::open(&path)
                .and_then(io::read_to_string)
                .map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
        };
        let unfit = |name: &str, error: serde_json::Error| {
            Failure::usage(format!("{}: {error}", dir.join(name).display()))
                .with_remedy("write it anew: pgassay workload statistics")
        };
        let described: Described =
            serde_json::from_str(&text(STATISTICS)?).map_err(|error| unfit(STATISTICS, error))?;
        if described.schema != SCHEMA {
            return Err(Failure::usage(format!(
                "{} is {}, not {SCHEMA}",
                dir.join(STATISTICS).display(),
                described.schema
            ))
            .into());
        }
        Ok(Self {
            before: text(BEFORE)?,
            after: text(AFTER)?,
            database: serde_json::from_str(&text(DATABASE)?)
                .map_err(|error| unfit(DATABASE, error))?,
            described,
        })
    }

    /// What is known of the data.
    pub fn described(&self) -> &Described {
        &self.described
    }

    /// The database that they are of.
    pub fn original(&self) -> &str {
        &self.described.original
    }

    /// What is made, in words.
    pub fn words(&self) -> String {
        let tables = &self.described.tables;
        let rows: u64 = tables
            .iter()
            .map(|table| table.scaled(self.described.share))
            .sum();
        format!(
            "data made from the statistics of {}: {} rows in {}",
            self.original(),
            count(rows),
            counted(tables.len() as u64, "table")
        )
    }

    /// Refuses a disk that has no room for it in so many servers.
    ///
    /// # Errors
    /// Naming the place.
    pub fn refuse_full_disk(&self, servers: usize, scratch: Option<&Path>) -> anyhow::Result<()> {
        let bytes = |table: &Table| {
            table.bytes as f64 * table.scaled(self.described.share) as f64
                / table.rows.max(1) as f64
        };
        let bytes: f64 = self.described.tables.iter().map(bytes).sum();
        let scratch = Scratch::open(scratch).map_err(explain)?;
        // Its WAL, too.
        refuse_full_disk(scratch.root(), (bytes * 2.0 * servers as f64) as u64).map_err(explain)
    }

    /// Makes it in a launched server.
    ///
    /// # Errors
    /// Where the database can't be made or the server is lost. What it could not be given is in [`Restored::differs`].
    pub fn lay(&self, cluster: &Cluster, stop: &Stop) -> anyhow::Result<Restored> {
        let socket = cluster.socket_dir().display().to_string();
        let at =
            |database: &str| Conninfo::on_socket(&socket, cluster.port(), "postgres", database);
        let connect = |database: &str| {
            pgassay_pgwire::connect(&at(database))
                .map_err(|error| Failure::target(format!("the launched server: {error}")))
        };
        let mut restored = Restored {
            database: self.database.name.clone(),
            ..Restored::default()
        };
        if self.database.name != "postgres" {
            let mut session = connect("postgres")?;
            let made = self.database.create(&mut session, &mut restored);
            made.map_err(|error| {
                Failure::target(format!(
                    "the database {} can't be made: {error}",
                    self.database.name
                ))
            })?;
        }
        let mut session = connect(&self.database.name)?;
        run(
            &mut session,
            &self.before,
            "not made",
            &mut restored.differs,
        )?;
        let checks = take_checks(&mut session)?;
        let synthetic = SyntheticData::new(&self.described);
        restored.differs.extend(synthetic.lacks.iter().cloned());
        self.fill(
            &synthetic,
            &Connector::new(&at(&self.database.name)),
            &mut restored,
            stop,
        )?;
        give_checks(&mut session, &checks, &mut restored.differs)?;
        run(&mut session, &self.after, "not made", &mut restored.differs)?;
        set_sequences(&mut session)?;
        self.database.set(&mut session, &mut restored);
        for statement in ["VACUUM (ANALYZE)", "CHECKPOINT"] {
            session
                .execute(statement)
                .with_context(|| format!("{statement} in the launched server"))?;
        }
        restored
            .differs
            .extend(self.described.lacks.iter().cloned());
        Ok(restored)
    }

    fn fill(
        &self,
        synthetic: &SyntheticData<'_>,
        connector: &Connector,
        restored: &mut Restored,
        stop: &Stop,
    ) -> anyhow::Result<()> {
        let differs = Mutex::new(Vec::new());
        let mut jobs: Vec<usize> = (0..synthetic.tables().len()).collect();
        jobs.sort_by_key(|at| std::cmp::Reverse(synthetic.count(*at)));
        let work = Work {
            connector,
            workers: workers(
                jobs.len(),
                std::thread::available_parallelism().map_or(1, usize::from),
            ),
            jobs: &jobs,
            job: &|session, at, underway| {
                let table = &synthetic.tables()[*at];
                let (rows, left_out) =
                    copy(session, synthetic, *at, underway).or_else(|error| {
                        // Where the server refuses the rows, the others are made all the same.
                        let refused = error
                            .downcast_ref::<QueryError>()
                            .is_some_and(|error| !error.is_fatal());
                        if !refused || underway.must_end() {
                            return Err(error);
                        }
                        add(
                            &differs,
                            format!("{}.{} is empty: {error}", table.schema, table.name),
                        );
                        Ok((0, 0))
                    })?;
                if left_out > 0 {
                    add(
                        &differs,
                        format!(
                            "{}.{} has {} rows fewer: no combination of its keys was left",
                            table.schema,
                            table.name,
                            count(left_out)
                        ),
                    );
                }
                Ok(rows)
            },
            last: &|_| Ok(()),
            rows: jobs.iter().map(|at| synthetic.count(*at)).sum(),
        };
        work.run(&mut |_| {}, stop)?;
        restored
            .differs
            .extend(differs.into_inner().unwrap_or_default());
        Ok(())
    }
}

fn add(differs: &Mutex<Vec<String>>, sentence: String) {
    if let Ok(mut differs) = differs.lock() {
        differs.push(sentence);
    }
}

/// Copies a table's rows; says how many, and how many were left out.
fn copy(
    session: &mut Session,
    synthetic: &SyntheticData<'_>,
    at: usize,
    underway: &Underway<'_>,
) -> anyhow::Result<(u64, u64)> {
    let table = &synthetic.tables()[at];
    let columns: Vec<String> = table
        .columns
        .iter()
        .map(|column| quoted_ident(&column.name))
        .collect();
    let mut copy = session.copy_in(&format!(
        "COPY {}.{} ({}) FROM STDIN",
        quoted_ident(&table.schema),
        quoted_ident(&table.name),
        columns.join(", ")
    ))?;
    let mut rows = synthetic.rows(at);
    let (mut text, mut pending, mut all) = (String::with_capacity(2 * CHUNK), 0, 0);
    for row in rows.by_ref() {
        for (n, value) in row.iter().enumerate() {
            if n > 0 {
                text.push('\t');
            }
            match value {
                Some(value) => escape(value, &mut text),
                None => text.push_str("\\N"),
            }
        }
        text.push('\n');
        pending += 1;
        if text.len() >= CHUNK {
            copy.put(text.as_bytes())?;
            text.clear();
            underway.sent(pending);
            (all, pending) = (all + pending, 0);
            if underway.must_end() {
                return Err(Failure::interrupted().into());
            }
        }
    }
    copy.put(text.as_bytes())?;
    copy.finish()?;
    underway.sent(pending);
    Ok((all + pending, rows.left_out))
}

fn escape(value: &str, text: &mut String) {
    for c in value.chars() {
        match c {
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            c => text.push(c),
        }
    }
}

/// Runs a schema object by object; what the server refuses is said.
fn run(
    session: &mut Session,
    text: &str,
    what: &str,
    differs: &mut Vec<String>,
) -> anyhow::Result<()> {
    let mut refused = 0;
    for (name, statements) in objects(text) {
        match session.execute(&statements) {
            Ok(()) => {}
            Err(QueryError::Server(error)) if !is_fatal(&error.severity) => {
                // The schema public is there.
                if error.message == "schema \"public\" already exists" {
                    continue;
                }
                refused += 1;
                if refused <= SAID {
                    differs.push(format!("{what}: {name}: {}", error.message));
                }
            }
            Err(error) => return Err(error).context("the schema"),
        }
    }
    if refused > SAID {
        differs.push(format!("{what}: {} more objects", refused - SAID));
    }
    Ok(())
}

fn is_fatal(severity: &str) -> bool {
    severity != "ERROR"
}

/// Takes CHECK constraints away while rows come that know nothing of them.
fn take_checks(session: &mut Session) -> anyhow::Result<Vec<Check>> {
    let rows = session.catalog_rows(
        "SELECT k.conrelid::regclass, quote_ident(k.conname), pg_get_constraintdef(k.oid) FROM pg_constraint k \
         JOIN pg_class c ON c.oid = k.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace \
         WHERE k.contype = 'c' AND k.conislocal AND k.coninhcount = 0 AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'",
    )?;
    let mut checks = Vec::new();
    for row in rows.rows {
        let [Some(table), Some(name), Some(definition)] = row.as_slice() else {
            continue;
        };
        session.execute(&format!("ALTER TABLE {table} DROP CONSTRAINT {name}"))?;
        checks.push(Check {
            table: table.clone(),
            name: name.clone(),
            definition: definition.clone(),
        });
    }
    Ok(checks)
}

fn give_checks(
    session: &mut Session,
    checks: &[Check],
    differs: &mut Vec<String>,
) -> anyhow::Result<()> {
    for Check {
        table,
        name,
        definition,
    } in checks
    {
        let add = format!("ALTER TABLE {table} ADD CONSTRAINT {name} {definition}");
        let later = if definition.ends_with("NOT VALID") {
            ""
        } else {
            " NOT VALID"
        };
        match session.execute(&add) {
            Ok(()) => {}
            Err(QueryError::Server(error)) if !is_fatal(&error.severity) => {
                differs.push(format!("{table}: rows do not meet {definition}"));
                session
                    .execute(&format!("{add}{later}"))
                    .context("a constraint")?;
            }
            Err(error) => return Err(error).context("a constraint"),
        }
    }
    Ok(())
}

/// New rows get numbers beyond those that are there.
fn set_sequences(session: &mut Session) -> anyhow::Result<()> {
    let rows = session.catalog_rows(
        "SELECT format('SELECT pg_catalog.setval(%L, greatest(max(%I), 1)) FROM %I.%I', s.name, a.attname, n.nspname, c.relname) \
         FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace \
         CROSS JOIN LATERAL (SELECT pg_get_serial_sequence(format('%I.%I', n.nspname, c.relname), a.attname) AS name) s \
         WHERE c.relkind IN ('r', 'p') AND a.attnum > 0 AND NOT a.attisdropped AND s.name IS NOT NULL \
         AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'",
    )?;
    for statement in rows.rows.into_iter().flatten().flatten() {
        session.execute(&statement).context("a sequence")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_escaped_for_copy() {
        let mut text = String::new();
        escape("a\\b\tc\nd\re", &mut text);
        assert_eq!(text, "a\\\\b\\tc\\nd\\re");
    }
}

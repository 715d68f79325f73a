//! PGIO's tables: made in parallel by COPY, each whole or not at all, so that
//! what a killed set-up left can be completed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;

use pgassay_model::Failure;
use pgassay_pgwire::{Connector, Session};
use pgassay_sys::stop::Stop;

/// The schema that holds the tables and the loops. It is not the one of other
/// workloads, since it may stay.
pub const SCHEMA: &str = "pgassay_pgio";
/// What we write into the comments of what is ours.
const MARK: &str = "pgassay pgio";

/// What set-up found and did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Tables that were there already, with the right size.
    pub kept: u32,
    /// Tables that were made.
    pub made: u32,
    /// Tables of another scale that were replaced.
    pub replaced: u32,
}

/// Name of a table, from 1.
pub fn table(number: u32) -> String {
    format!("{SCHEMA}.pgio{number}")
}

/// Makes the tables that are missing, `loaders` at once; `progress` is told the
/// share of rows loaded.
///
/// # Errors
/// Where a table of that name is not ours, or the server refuses.
pub fn create(
    connector: &Connector,
    tables: u32,
    rows: u64,
    loaders: u32,
    seed: u64,
    progress: &mut dyn FnMut(f64),
    stop: &Stop,
) -> anyhow::Result<Outcome> {
    let mut control = connector.connect().context("a session for the set-up")?;
    make_schema(&mut control)?;
    let mut outcome = Outcome::default();
    let mut missing = Vec::new();
    for number in 1..=tables {
        match state(&mut control, number)? {
            State::Ours(found) if found == rows => outcome.kept += 1,
            State::Ours(_) => {
                control.execute(&format!("DROP TABLE {}", table(number)))?;
                outcome.replaced += 1;
                missing.push(number);
            }
            State::Missing => missing.push(number),
            State::Foreign => bail!(
                Failure::target(format!("{} is there and not ours", table(number)))
                    .with_remedy("use another database, or remove it if nobody needs it")
            ),
        }
    }
    outcome.made = missing.len() as u32 - outcome.replaced;
    load(connector, &missing, rows, loaders, seed, progress, stop)?;
    Ok(outcome)
}

/// What there is under a table's name.
enum State {
    Missing,
    /// Ours, whole, with so many rows.
    Ours(u64),
    Foreign,
}

fn state(session: &mut Session, number: u32) -> anyhow::Result<State> {
    let found = session.catalog_rows(&format!(
        "SELECT pg_catalog.obj_description(c.oid, 'pg_class') AS comment \
         FROM pg_catalog.pg_class c WHERE c.oid = pg_catalog.to_regclass('{}')",
        table(number)
    ))?;
    if found.rows.is_empty() {
        return Ok(State::Missing);
    }
    let rows = found
        .first("comment")
        .and_then(|comment| comment.strip_prefix(MARK)?.strip_prefix(" rows="))
        .and_then(|rows| rows.parse().ok());
    Ok(rows.map_or(State::Foreign, State::Ours))
}

fn make_schema(session: &mut Session) -> anyhow::Result<()> {
    let found = session.catalog_rows(&format!(
        "SELECT pg_catalog.obj_description(oid, 'pg_namespace') AS comment \
         FROM pg_catalog.pg_namespace WHERE nspname = '{SCHEMA}'"
    ))?;
    match (found.rows.is_empty(), found.first("comment")) {
        (false, Some(MARK)) => Ok(()),
        (false, _) => bail!(
            Failure::target(format!("the schema {SCHEMA} is there and not ours"))
                .with_remedy("use another database, or remove it if nobody needs it")
        ),
        (true, _) => session
            .execute(&format!(
                "BEGIN; CREATE SCHEMA {SCHEMA}; COMMENT ON SCHEMA {SCHEMA} IS '{MARK}'; COMMIT"
            ))
            .map_err(|e| {
                anyhow::Error::from(e).context(
                    Failure::target(format!("the schema {SCHEMA} could not be made")).with_remedy(
                        "the role needs CREATE on the database: GRANT CREATE ON DATABASE … TO …",
                    ),
                )
            }),
    }
}

fn load(
    connector: &Connector,
    missing: &[u32],
    rows: u64,
    loaders: u32,
    seed: u64,
    progress: &mut dyn FnMut(f64),
    stop: &Stop,
) -> anyhow::Result<()> {
    let next = AtomicU64::new(0);
    let done = AtomicU64::new(0);
    let all = (missing.len() as u64 * rows).max(1);
    std::thread::scope(|scope| {
        let load = || -> anyhow::Result<()> {
            let mut session = connector.connect().context("a loader's session")?;
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed) as usize;
                let Some(number) = missing.get(index) else {
                    return Ok(());
                };
                make_table(&mut session, *number, rows, seed, &done, stop)
                    .with_context(|| format!("cannot make {}", table(*number)))?;
            }
        };
        let wanted = loaders.clamp(1, missing.len().max(1) as u32);
        let mut loaders = Vec::new();
        for _ in 0..wanted {
            match std::thread::Builder::new().spawn_scoped(scope, load) {
                Ok(loader) => loaders.push(loader),
                // Where no more threads can be had, those that are there do it all.
                Err(_) if !loaders.is_empty() => break,
                Err(error) => return Err(error).context("cannot start a loader"),
            }
        }
        while loaders.iter().any(|loader| !loader.is_finished()) {
            progress(done.load(Ordering::Relaxed) as f64 / all as f64);
            std::thread::sleep(Duration::from_millis(20));
        }
        loaders.into_iter().try_for_each(|loader| {
            loader
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    })
}

/// One table in one transaction, analysed: killed at any time it is whole or not
/// there.
fn make_table(
    session: &mut Session,
    number: u32,
    rows: u64,
    seed: u64,
    done: &AtomicU64,
    stop: &Stop,
) -> anyhow::Result<()> {
    let name = table(number);
    session.execute("BEGIN")?;
    session.execute(&format!(
        "CREATE TABLE {name} (mykey bigint, scratch bigint, filler char(1024)) WITH (fillfactor = 10)"
    ))?;
    // Physical order is a random one, so that neighbouring keys are far apart.
    let mut keys: Vec<u32> = (1..=u32::try_from(rows)?).collect();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed ^ u64::from(number) << 32);
    keys.shuffle(&mut rng);
    // FREEZE leaves nothing for a later VACUUM or hint bits to write.
    let mut copy = session.copy_in(&format!(
        "COPY {name} FROM STDIN WITH (FORMAT binary, FREEZE)"
    ))?;
    // The signature, no flags, no extension (PostgreSQL manual, "COPY").
    copy.put(b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0")?;
    let mut row = Vec::with_capacity(2 + 12 + 12 + 4 + 1024);
    for chunk in keys.chunks(1024) {
        if stop.asked() {
            bail!(Failure::interrupted());
        }
        for key in chunk {
            row.clear();
            row.extend_from_slice(&3_i16.to_be_bytes());
            for value in [
                i64::from(*key),
                i64::from(*key).wrapping_mul(7919) % 1_000_000_000,
            ] {
                row.extend_from_slice(&8_i32.to_be_bytes());
                row.extend_from_slice(&value.to_be_bytes());
            }
            row.extend_from_slice(&1024_i32.to_be_bytes());
            row.resize(row.len() + 1024, b'X');
            copy.put(&row)?;
        }
        done.fetch_add(chunk.len() as u64, Ordering::Relaxed);
    }
    copy.put(&(-1_i16).to_be_bytes())?;
    copy.finish()?;
    session.execute(&format!(
        "CREATE INDEX pgio{number}_idx ON {name} (mykey); \
         COMMENT ON TABLE {name} IS '{MARK} rows={rows}'; COMMIT"
    ))?;
    session.execute(&format!("VACUUM (ANALYZE) {name}"))?;
    Ok(())
}

/// Tables of ours beyond those of this run, with their bytes.
///
/// # Errors
/// Where the session broke.
pub fn others(session: &mut Session, tables: u32) -> anyhow::Result<u32> {
    let names: Vec<String> = (1..=tables).map(|n| format!("'pgio{n}'")).collect();
    let count = session.catalog_value(&format!(
        "SELECT count(*) FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n \
         ON n.oid = c.relnamespace WHERE n.nspname = '{SCHEMA}' AND c.relkind = 'r' \
         AND c.relname NOT IN ({})",
        names.join(", ")
    ))?;
    Ok(count.and_then(|n| n.parse().ok()).unwrap_or(0))
}

/// Removes everything that bears our mark, and the schema when it is empty then.
///
/// # Errors
/// Where the session broke, or something of somebody else lies in the schema.
pub fn remove(session: &mut Session) -> anyhow::Result<()> {
    let found = session.catalog_rows(&format!(
        "SELECT c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n \
         ON n.oid = c.relnamespace WHERE n.nspname = '{SCHEMA}' AND c.relkind = 'r' \
         AND pg_catalog.obj_description(c.oid, 'pg_class') LIKE '{MARK} rows=%'"
    ))?;
    let routines = session.catalog_rows(&format!(
        "SELECT p.oid::pg_catalog.regprocedure::pg_catalog.text FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n \
         ON n.oid = p.pronamespace WHERE n.nspname = '{SCHEMA}' \
         AND pg_catalog.obj_description(p.oid, 'pg_proc') = '{MARK}'"
    ))?;
    let version = session.value("SHOW server_version_num")?;
    let old = version.and_then(|v| v.parse::<u32>().ok()).unwrap_or(0) < 110_000;
    for row in &routines.rows {
        if let Some(Some(name)) = row.first() {
            let kind = if old { "FUNCTION" } else { "ROUTINE" };
            session.execute(&format!("DROP {kind} {name}"))?;
        }
    }
    for row in &found.rows {
        if let Some(Some(name)) = row.first() {
            session.execute(&format!("DROP TABLE {SCHEMA}.{name}"))?;
        }
    }
    // Without CASCADE: what somebody put here stays, and this says so.
    session.execute(&format!("DROP SCHEMA {SCHEMA}"))?;
    Ok(())
}

/// The comment that marks a routine as ours.
pub(super) fn mark() -> &'static str {
    MARK
}

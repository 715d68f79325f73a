//! The pgbench tables: what they cost, made in pgassay's own schema, and removed.
//!
//! They are pgbench's (pgbench -i, PostgreSQL's documentation), so that its
//! scripts run on them. The accounts are filled over several connections and
//! vacuumed: no hint bits are left to be set while something is measured.

use std::fmt::Write as _;

use anyhow::{Context, bail};
use pgassay_model::workload::WorkloadPlan;
use pgassay_pgwire::Session;
use pgassay_sys::stop::Stop;

use super::bulk::{self, Filling};
use super::parallel::{self, Loaded};
use super::pgbench_ddl::{Ddl, KEYS};
use super::schema::{SCHEMA, note};

/// Bytes of heap and index for each unit of scale: 1,640 blocks of accounts and
/// 276 of their index, seen on PostgreSQL 15 with blocks of 8 KiB.
pub const BYTES_PER_SCALE: u64 = (1640 + 276) * 8192;

/// Rows sent in one piece.
const BATCH: u64 = 2_000;

/// Makes and fills the tables in our schema; `progress` is told the share done, 0 to 1.
///
/// # Errors
/// Where the server refuses, naming what.
pub(super) fn fill(
    session: &mut Session,
    plan: &WorkloadPlan,
    progress: &mut dyn FnMut(f64),
    stop: &Stop,
) -> anyhow::Result<()> {
    let scale = plan.scale;
    let version = session.value("SHOW server_version_num")?;
    let schema = format!("{SCHEMA}.");
    let ddl = Ddl {
        tables: &plan.tables,
        scale,
        schema: &schema,
        version: version.and_then(|v| v.parse().ok()).unwrap_or(0),
    };
    session.execute("BEGIN")?;
    for statement in ddl.create() {
        session
            .execute(&statement)
            .with_context(|| format!("cannot make the tables: {statement}"))?;
    }
    note(session)?;
    let branches = u64::from(scale);
    copy(session, "pgbench_branches", branches, &mut |n, row| {
        writeln!(row, "{n}\t0\t")
    })?;
    copy(session, "pgbench_tellers", branches * 10, &mut |n, row| {
        writeln!(row, "{n}\t{}\t0\t", (n - 1) / 10 + 1)
    })?;
    session.execute("COMMIT")?;
    let connector = session
        .connector()
        .cloned()
        .context("how this session was connected")?;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let table = "pgassay.pgbench_accounts";
    let missing: Vec<u64> = (1..=branches).collect();
    let filling = Filling {
        connector: &connector,
        table,
        large: scale >= bulk::LARGE_SCALE,
        branches: &missing,
        workers: parallel::workers(scale as usize, processors),
    };
    let mut said = |loaded: Loaded| progress(0.7 * loaded.rows as f64 / loaded.all as f64);
    bulk::fill_accounts(filling, &mut said, stop)?;
    for (share, (table, key)) in [0.70, 0.71, 0.72].into_iter().zip(KEYS) {
        progress(share);
        session.execute(&ddl.primary_key(table, key))?;
    }
    if plan.tables.foreign_keys {
        for statement in ddl.foreign_keys() {
            session.execute(&statement)?;
        }
    }
    for (share, table) in [
        (0.9, "branches"),
        (0.91, "tellers"),
        (0.92, "accounts"),
        (0.99, "history"),
    ] {
        progress(share);
        session.execute(&format!("VACUUM (ANALYZE) pgassay.pgbench_{table}"))?;
    }
    bulk::check_accounts(session, table, scale)?;
    Ok(())
}

fn copy(
    session: &mut Session,
    table: &str,
    rows: u64,
    write: &mut dyn FnMut(u64, &mut String) -> std::fmt::Result,
) -> anyhow::Result<()> {
    let sql = format!("COPY pgassay.{table} FROM STDIN WITH (FREEZE)");
    let mut copy = session
        .copy_in(&sql)
        .with_context(|| format!("cannot fill {table}"))?;
    let mut text = String::new();
    for n in 1..=rows {
        write(n, &mut text).context("filling was stopped")?;
        if n % BATCH == 0 || n == rows {
            copy.put(text.as_bytes())
                .with_context(|| format!("cannot fill {table}"))?;
            text.clear();
        }
    }
    let filled = copy
        .finish()
        .with_context(|| format!("cannot fill {table}"))?;
    if filled != rows {
        bail!("{table} has {filled} rows after filling, not {rows}");
    }
    Ok(())
}

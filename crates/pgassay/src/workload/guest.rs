//! What a server that we did not start must allow before it is loaded.
//!
//! A guest says beforehand what it will do, leaves room for others, and takes
//! away what it brought, also what a killed run of ours left.

use anyhow::{Context, bail};

use pgassay_analysis::plan::WorkloadPlan;

use super::pgbench_tables::{BYTES_PER_SCALE, Made, SCHEMA};
use super::setup;
use crate::exit::Failure;
use crate::pg::Session;

/// What the server allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admission {
    /// Half of the connections that are free now.
    pub most_clients: u32,
}

/// Checks that load is harmless here, and takes the lock that keeps a second
/// pgassay out until the session ends.
///
/// # Errors
/// Why there can be no load, with what can be done about it.
pub fn admit(session: &mut Session) -> anyhow::Result<Admission> {
    let yes = |value: Option<String>| value.as_deref() == Some("t");
    if yes(session.value("SELECT pg_catalog.pg_is_in_recovery()")?) {
        bail!(
            Failure::target("the server is a standby, which takes no tables of ours")
                .with_remedy("point pgassay at the primary, or leave out --load")
        );
    }
    // Publications came with version 10.
    let publications = "SELECT pg_catalog.to_regclass('pg_catalog.pg_publication') IS NOT NULL";
    if yes(session.value(publications)?)
        && let Some(name) = session
            .value("SELECT pubname FROM pg_catalog.pg_publication WHERE puballtables LIMIT 1")?
    {
        bail!(
            Failure::target(format!(
                "the publication {name} is FOR ALL TABLES: our tables would be replicated"
            ))
            .with_remedy("use a database without such a publication")
        );
    }
    // The key is "pgassay" in ASCII, cut to 8 bytes.
    let lock = "SELECT pg_catalog.pg_try_advisory_lock(31638865638023545)";
    if !yes(session.value(lock)?) {
        bail!(
            Failure::target("another pgassay measures in this database")
                .with_remedy("wait for it, or stop it with Ctrl-C there")
        );
    }
    Ok(Admission {
        most_clients: free_connections(session)? / 2,
    })
}

/// Asks the server to end a long statement of ours, such as building an index, within a
/// second of our being killed. Servers before 14 can't.
pub fn end_with_us(session: &mut Session) {
    let asked = session.execute("SET client_connection_check_interval = '1s'");
    drop(asked);
}

/// Connections that an ordinary role could still open.
fn free_connections(session: &mut Session) -> anyhow::Result<u32> {
    let free = session.value(
        "SELECT pg_catalog.current_setting('max_connections')::int \
           - pg_catalog.current_setting('superuser_reserved_connections')::int \
           - (SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE datname IS NOT NULL)",
    )?;
    let free: i64 = free
        .and_then(|n| n.parse().ok())
        .context("the free connections")?;
    if free < 2 {
        bail!(
            Failure::target("the server has no free connections to spare")
                .with_remedy("try again when it is less busy, or raise max_connections")
        );
    }
    Ok(u32::try_from(free).unwrap_or(u32::MAX))
}

/// Removes what a killed run of ours left in this database; false where there was nothing.
///
/// # Errors
/// Where a schema of our name was made by somebody else.
pub fn remove_leftover(session: &mut Session) -> anyhow::Result<bool> {
    let found = session.rows(
        "SELECT n.oid, pg_catalog.obj_description(n.oid, 'pg_namespace') AS comment \
         FROM pg_catalog.pg_namespace n WHERE n.nspname = 'pgassay'",
    )?;
    if found.rows.is_empty() {
        return Ok(false);
    }
    let made = match found.first("comment").and_then(Made::from_comment) {
        Some(made) if found.first("oid") == Some(&made.schema.to_string()) => made,
        // Killed between CREATE SCHEMA and its comment: empty, or it is not ours.
        _ => {
            bail!(
                Failure::target("the database has a schema `pgassay` that pgassay did not make")
                    .with_remedy("use another database, or remove the schema if nobody needs it")
            )
        }
    };
    setup::remove(session, &made)?;
    Ok(true)
}

/// What the load will cost, for the announcement.
pub fn announcement(server: &str, plan: &WorkloadPlan, clients: u32, seconds: f64) -> String {
    let bytes = u64::from(plan.scale) * BYTES_PER_SCALE;
    let size = bytes.div_ceil(1_000_000);
    let scale = plan.scale;
    let tables = match (plan.without_pgbench_tables, plan.setup.is_empty()) {
        (true, true) => "with nothing in it".to_owned(),
        (true, false) => {
            format!("with the workload's tables (at most {size} MB of disk, about as much WAL)")
        }
        (false, _) => {
            format!("with pgbench's tables at scale {scale} ({size} MB of disk, about as much WAL)")
        }
    };
    let writes = match plan.writes {
        true => ", writes into them",
        false => "",
    };
    format!(
        "load on {server}: makes the schema {SCHEMA} {tables}{writes}, up to {} connections \
         for {seconds:.0} seconds, and removes them afterwards",
        clients + plan.idle,
    )
}

//! What a server that we did not start must allow before it is loaded.
//!
//! A guest says beforehand what it will do, leaves room for others, and takes
//! away what it brought, also what a killed run of ours left.

use anyhow::{Context, bail};
use pgassay_model::Failure;
use pgassay_model::server::STANDBY_ABSENT;
use pgassay_model::workload::WorkloadPlan;
use pgassay_pgwire::Session;

use super::schema::SCHEMA;
use super::setup;

/// What the server allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admission {
    /// Half of the connections that are free now.
    pub most_clients: u32,
}

/// What is wrong where the server itself is not at the other end.
pub const POOLER: &str = "there is a connection pooler between pgassay and the server, whose other \
     clients load would disturb: the process that answers is not the one that the session was opened with";

/// Checks that the server itself is at the other end, as nothing else keeps what a session sets and
/// locks to that session: a pooler hands its connections from one client to the next.
///
/// # Errors
/// Where the backend that answers is not the one that let us in.
pub fn check_direct(session: &mut Session) -> anyhow::Result<()> {
    if !session.is_direct()? {
        bail!(Failure::target(POOLER).with_remedy(
            "connect to the server itself: its own host and port, not the pooler's; or leave out --load"
        ));
    }
    Ok(())
}

/// Command line options for the backends that serve us, from release 14 on. The server ends a long
/// statement of ours, such as building an index, within a second of our being killed. And it lets
/// the control session be idle for as long as a trial takes.
pub fn options(session: &mut Session) -> anyhow::Result<Option<&'static str>> {
    let version = session.value("SHOW server_version_num")?;
    let version: u32 = version.and_then(|v| v.parse().ok()).unwrap_or(0);
    Ok((version >= 140_000)
        .then_some("-c client_connection_check_interval=1s -c idle_session_timeout=0"))
}

/// Whether commits wait for a standby that is not there: fewer are connected than the names ask for (`FIRST 2 (a, b)`,
/// `ANY 2 (a, b)`, else one). Roles without the right to see how a standby takes part see that there is one.
const NO_SYNCHRONOUS_STANDBY: &str = "SELECT \
     pg_catalog.current_setting('synchronous_standby_names') <> '' \
     AND pg_catalog.current_setting('synchronous_commit') NOT IN ('off', 'local') \
     AND (SELECT pg_catalog.count(*) FROM pg_catalog.pg_stat_replication \
         WHERE sync_state IS NULL OR sync_state IN ('sync', 'quorum')) \
     < coalesce(pg_catalog.substring(pg_catalog.current_setting('synchronous_standby_names'), \
         '([0-9]+)\\s*\\(')::int, 1)";

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
    check_synchronous(session)?;
    if !yes(session.value(setup::TAKE_LOCK)?) {
        bail!(
            Failure::target("another pgassay measures in this database")
                .with_remedy("wait for it, or stop it with Ctrl-C there")
        );
    }
    Ok(Admission {
        most_clients: free_connections(session)? / 2,
    })
}

/// Checks that commits do not wait for a standby that is not there.
///
/// # Errors
/// Where they do.
pub fn check_synchronous(session: &mut Session) -> anyhow::Result<()> {
    let waits = session.catalog_value(NO_SYNCHRONOUS_STANDBY)?;
    if waits.as_deref() == Some("t") {
        bail!(
            Failure::target(
                "every commit waits for synchronous standbys, and fewer are connected than \
                 synchronous_standby_names asks for: commits of the load would not end"
            )
            .with_remedy(format!("{STANDBY_ABSENT}; or leave out --load"))
        );
    }
    Ok(())
}

/// Connections that an ordinary role could still open.
fn free_connections(session: &mut Session) -> anyhow::Result<u32> {
    let free = session.catalog_value(
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

/// What the load will cost, for the announcement.
pub fn announcement(server: &str, plan: &WorkloadPlan, clients: u32, seconds: f64) -> String {
    let size = super::bytes(plan).div_ceil(1_000_000);
    let scale = plan.scale;
    let tables = match (plan.without_pgbench_tables, plan.setup.is_empty()) {
        _ if plan.data.is_some() => format!(
            "with the tables of {} ({size} MB of disk, about as much WAL)",
            super::scale_in_words(plan)
        ),
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
    // The user's statements find the user's tables, too.
    let stays = match plan.writes && !super::is_registered(plan) {
        true => format!("; what {} changes in other tables stays changed", plan.name),
        false => String::new(),
    };
    format!(
        "load on {server}: makes the schema {SCHEMA} {tables}{writes}, up to {} connections \
         for {seconds:.0} seconds, and removes them afterwards{stays}",
        clients.saturating_add(plan.further_connections()),
    )
}

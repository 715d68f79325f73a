//! Workloads inside the server: which calls they are, and what they need there.
//!
//! A client of these workloads is a session that calls one of the extension's
//! functions again and again; the loop is in the server. A call lasts less than
//! a second, and all sessions of a trial are released together by a gate in
//! shared memory, which one more session, the keeper, holds open.

use anyhow::{Context, bail};
use pgassay_model::Failure;
use pgassay_model::primitives::{SessionOutcome, WaitSeen};
use pgassay_pgwire::{ResultSet, Session};

mod call;
mod calls;
mod knobs;

pub use call::Call;
pub use calls::{Until, alone, calls, find, most_company, names, read_accounts, select_only};
pub use knobs::{Knobs, Parameter, Pattern, Statement};

/// The schema of the functions and of what they read.
pub const SCHEMA: &str = "pgassay_inside";

/// So that a user's statement can name the tables without it.
pub const SEARCH_PATH: &str = "SET search_path = pgassay_inside, public";

/// Most blocks of the table for buffer-hit: 256 MiB, PGIO's size in the issue
/// that asked for it.
const HIT_BLOCKS: u64 = 32_768;

/// Rows of the table that the query loops read.
const ROWS: u64 = 100_000;

/// The name that stands for the page of primitives.
pub const ALL: &str = "primitives";

/// What to do about the server's refusal, where that is known.
fn not_created(said: &str) -> Option<Failure> {
    // The C library's words where the kernel maps no code from a file system.
    said.contains("failed to map segment").then(|| {
        Failure::target(format!(
            "the functions inside the server can't be created: {said}"
        ))
        .with_remedy(
            "the library's directory is mounted noexec: name one that is not with --scratch DIR",
        )
    })
}

/// Makes the functions and the tables that these calls need.
///
/// # Errors
/// Where the server refuses.
pub fn create(
    session: &mut Session,
    definitions: &str,
    calls: &[Call],
    knobs: &Knobs,
    shared_buffers: u64,
) -> anyhow::Result<()> {
    let needs = |name: &str| calls.iter().any(|call| call.primitive == name);
    session
        .execute(&format!("CREATE SCHEMA {SCHEMA}"))
        .and_then(|()| session.execute(definitions))
        .map_err(|error| match not_created(&error.to_string()) {
            Some(failure) => failure.into(),
            None => anyhow::Error::new(error)
                .context("the functions inside the server can't be created"),
        })?;
    if needs("buffer-hit") {
        let blocks = HIT_BLOCKS.min(shared_buffers / 8192 / 2).max(1);
        // One row to a block; no vacuum is left to come.
        session
            .execute(&format!(
                "CREATE TABLE {SCHEMA}.hits (n int, filler char(1024)) \
                   WITH (fillfactor = 10, autovacuum_enabled = off); \
                 INSERT INTO {SCHEMA}.hits SELECT g, 'x' FROM generate_series(1, {blocks}) g"
            ))
            .and_then(|()| session.execute(&format!("VACUUM (FREEZE) {SCHEMA}.hits")))
            .context("the table for buffer-hit can't be made")?;
        warm(session)?;
    }
    if needs("query-loop") || needs("plpgsql-loop") {
        session
            .execute(&format!(
                "CREATE TABLE {SCHEMA}.accounts \
                   (aid int PRIMARY KEY, bid int, abalance int, filler char(84)) \
                   WITH (autovacuum_enabled = off); \
                 INSERT INTO {SCHEMA}.accounts \
                   SELECT g, 1, 0, '' FROM generate_series(1, {ROWS}) g"
            ))
            .and_then(|()| session.execute(&format!("VACUUM (FREEZE, ANALYZE) {SCHEMA}.accounts")))
            .context("the table for the query loops can't be made")?;
        match &knobs.statement {
            Some(statement) => create_statement(session, statement)?,
            None => session.execute(&format!(
                "SELECT {SCHEMA}.plpgsql_loop_create(\
                   'SELECT abalance FROM {SCHEMA}.accounts WHERE aid = $1', '{{int}}')"
            ))?,
        }
    }
    Ok(())
}

/// What a user's statement needs; one that the server can't prepare is told of
/// here, in its own words, before anything is measured.
fn create_statement(session: &mut Session, statement: &Statement) -> anyhow::Result<()> {
    let wrong =
        |flag: &str, error: pgassay_pgwire::QueryError| Failure::usage(format!("{flag}: {error}"));
    session.execute(SEARCH_PATH)?;
    if let Some(setup) = &statement.setup {
        session
            .execute(setup)
            .map_err(|error| wrong("--sql-setup", error))?;
    }
    let remedy = "one statement that can be prepared, with $1, $2 … declared by --param; \
                  the table accounts (aid int, bid int, abalance int, filler char) has \
                  100,000 rows, others are made by --sql-setup FILE";
    session
        .execute(&statement.trial_preparation())
        .map_err(|error| wrong("--sql", error).with_remedy(remedy))?;
    // The server makes up types for parameters that were not declared.
    let used = session.value(
        "SELECT cardinality(parameter_types) FROM pg_prepared_statements \
         WHERE name = 'pgassay_trial'",
    )?;
    session.execute("DEALLOCATE pgassay_trial")?;
    let declared = statement.parameters.len();
    if used.as_deref() != Some(declared.to_string().as_str()) {
        let used = used.unwrap_or_default();
        return Err(Failure::usage(format!(
            "--sql: the statement has {used} parameters, and {declared} are declared"
        ))
        .with_remedy(remedy)
        .into());
    }
    session.execute(&statement.creation())?;
    Ok(())
}

/// Brings the table into shared buffers, half a second at a time, until a pass
/// reads nothing or it turns out not to fit.
fn warm(session: &mut Session) -> anyhow::Result<()> {
    for _pass in 0..3 {
        let mut next = Some("0".to_owned());
        let mut read = 0_u64;
        while let Some(block) = next {
            let row = session.rows(&format!(
                "SELECT * FROM {SCHEMA}.warm('{SCHEMA}.hits', {block})"
            ))?;
            read += number(&row, "blocks_read")?;
            next = row.first("next_block").map(str::to_owned);
        }
        if read == 0 {
            break;
        }
    }
    Ok(())
}

/// The shared memory of a number of sessions, kept by the session that made it.
#[derive(Debug)]
pub struct Arena {
    /// Its handle, for [`Call::statement`].
    pub handle: i64,
    sessions: usize,
}

impl Arena {
    /// Makes one.
    ///
    /// # Errors
    /// Where so many sessions don't fit into the server.
    pub fn create(keeper: &mut Session, sessions: usize, locks: u32) -> anyhow::Result<Self> {
        let row = keeper.rows(&format!(
            "SELECT {SCHEMA}.arena_create({sessions}, {locks}) AS handle"
        ))?;
        let handle = row.first("handle").and_then(|text| text.parse().ok());
        Ok(Self {
            handle: handle.context("the server returned no handle of shared memory")?,
            sessions,
        })
    }

    /// For how many sessions it is.
    pub fn sessions(&self) -> usize {
        self.sessions
    }

    /// Gives it back; nobody may wait in it or hold one of its locks.
    ///
    /// # Errors
    /// Where something is left.
    pub fn drop_in(self, keeper: &mut Session) -> anyhow::Result<()> {
        let state = keeper.rows(&format!(
            "SELECT waiting, locks_held, spinlock_held FROM {SCHEMA}.arena_state({})",
            self.handle
        ))?;
        let clean = ["0", "0", "f"].map(|text| Some(text.to_owned()));
        if state.rows.first().map(Vec::as_slice) != Some(&clean) {
            bail!("locks of the measurement are still held: {:?}", state.rows);
        }
        keeper.execute(&format!("SELECT {SCHEMA}.arena_drop({})", self.handle))?;
        Ok(())
    }
}

/// Reads what a call returned.
///
/// # Errors
/// Where it is not the type `outcome`.
pub fn outcome(row: &ResultSet) -> anyhow::Result<SessionOutcome> {
    Ok(SessionOutcome {
        operations: number(row, "operations")?,
        elapsed_ns: number(row, "elapsed_ns")?,
        cpu_ns: number(row, "cpu_ns")?,
        late_ns: number(row, "late_ns")?,
        contended: maybe(row, "contended")?,
        delays: maybe(row, "delays")?,
        reused: maybe(row, "reused")?,
        blocks_hit: number(row, "blocks_hit")?,
        blocks_read: number(row, "blocks_read")?,
        wal_bytes: number(row, "wal_bytes")?,
        voluntary_switches: number(row, "voluntary_switches")?,
        involuntary_switches: number(row, "involuntary_switches")?,
        over_time: counts(row.first("over_time").unwrap_or_default())?,
    })
}

/// An array of numbers as the server writes it.
fn counts(text: &str) -> anyhow::Result<Vec<u64>> {
    let inside = text.trim_start_matches('{').trim_end_matches('}');
    inside
        .split(',')
        .filter(|count| !count.is_empty())
        .map(|count| {
            count
                .parse()
                .with_context(|| format!("over_time is {text}"))
        })
        .collect()
}

/// The statement that looks at what the sessions of a trial wait for.
pub fn look_at(arena: i64) -> String {
    format!(
        "SELECT u.event, u.seen FROM {SCHEMA}.waits({arena}) AS w, \
         LATERAL unnest(w.events, w.seen) AS u (event, seen)"
    )
}

/// Reads what it returned.
///
/// # Errors
/// Where it is not that.
pub fn waits(rows: &ResultSet) -> anyhow::Result<Vec<WaitSeen>> {
    let one = |row: &Vec<Option<String>>| match row.as_slice() {
        [Some(event), Some(seen)] => Ok(WaitSeen {
            event: event.clone(),
            seen: seen.parse().with_context(|| format!("seen is {seen}"))?,
        }),
        other => bail!("a look at the sessions returned {other:?}"),
    };
    rows.rows.iter().map(one).collect()
}

/// The statement of a session that commits beside a measurement.
pub fn commit_beside(arena: i64) -> String {
    format!("CALL {SCHEMA}.commit_loop({arena})")
}

/// Reads what it returned.
///
/// # Errors
/// Where it is not that.
pub fn commits(row: &ResultSet) -> anyhow::Result<u64> {
    number(row, "commits")
}

/// What makes a session idle in a transaction that has a number.
pub const BE_IN_TRANSACTION: &str = "BEGIN; SELECT pg_current_xact_id()";

/// How many of these processes the server still has. Those of others, a launcher's among them, are no matter.
pub fn sessions_left(pids: &[i32]) -> String {
    let pids: Vec<String> = pids.iter().map(i32::to_string).collect();
    format!(
        "SELECT count(*) FROM pg_stat_activity WHERE pid = ANY ('{{{}}}')",
        pids.join(",")
    )
}

fn number(row: &ResultSet, column: &str) -> anyhow::Result<u64> {
    maybe(row, column)?.with_context(|| format!("a call returned no {column}"))
}

fn maybe(row: &ResultSet, column: &str) -> anyhow::Result<Option<u64>> {
    if !row.columns.iter().any(|name| name == column) {
        bail!("a call returned no column {column}");
    }
    row.first(column)
        .map(|text| text.parse().with_context(|| format!("{column} is {text}")))
        .transpose()
}

/// Settings of a launched server that keep other work out of what is measured:
/// WAL buffers that take more than a call inserts between two rounds of the WAL
/// writer, and no checkpoint by WAL volume.
pub fn settings() -> [(&'static str, &'static str); 3] {
    [
        ("wal_buffers", "64MB"),
        ("wal_writer_delay", "10ms"),
        ("max_wal_size", "8GB"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_may_not_be_executed_is_put_elsewhere() {
        let noexec = "ERROR: could not load library \"/x/pgassay.so\": /x/pgassay.so: failed to \
                      map segment from shared object";
        let failure = not_created(noexec).expect("known");
        assert!(
            failure
                .remedy
                .is_some_and(|remedy| remedy.contains("--scratch"))
        );
        assert_eq!(
            not_created("ERROR: permission denied to create \"c\""),
            None
        );
    }
}

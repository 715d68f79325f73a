//! Workloads inside the server: which calls they are, and what they need there.
//!
//! A client of these workloads is a session that calls one of the extension's
//! functions again and again; the loop is in the server. A call lasts less than
//! a second, and all sessions of a trial are released together by a gate in
//! shared memory, which one more session, the keeper, holds open.

use anyhow::{Context, bail};
use pgassay_analysis::primitives::{SessionOutcome, Variant};

use crate::pg::{ResultSet, Session};

/// The schema of the functions and of what they read.
pub const SCHEMA: &str = "pgassay_inside";

/// Most blocks of the table for buffer-hit: 256 MiB, PGIO's size in the issue
/// that asked for it.
const HIT_BLOCKS: u64 = 32_768;

/// Rows of the table that the query loops read.
const ROWS: u64 = 100_000;

/// The name that stands for the page of primitives.
pub const ALL: &str = "primitives";

/// One way of calling a primitive.
#[derive(Debug, Clone, Copy)]
pub struct Call {
    /// The workload's name on the command line.
    pub primitive: &'static str,
    /// Which way; empty where there is one.
    pub variant: &'static str,
    /// What an operation is, one sentence for the report.
    pub operation: &'static str,
    /// The call, after its first five arguments: further ones by name.
    arguments: &'static str,
    /// Sessions that are connected beside it and do nothing.
    pub idle: u32,
    /// The first server_version_num that has it.
    since: u32,
}

impl Call {
    /// As it is recorded.
    pub fn variant(&self) -> Variant {
        Variant {
            primitive: self.primitive.to_owned(),
            variant: self.variant.to_owned(),
            idle: self.idle,
            operation: self.operation.to_owned(),
        }
    }

    /// What is done before each trial, outside of it: WAL that an earlier trial
    /// left to be written is no part of this one.
    pub fn beforehand(&self) -> Option<String> {
        (self.primitive == "wal-insert")
            .then(|| format!("SELECT {SCHEMA}.wal_insert(count => 1, flush => true)"))
    }

    /// The statement that a session sends.
    pub fn statement(&self, arena: i64, slot: usize, seed: u64, call_us: u32) -> String {
        let function = self.primitive.replace('-', "_");
        // The server's seed is signed.
        let seed = seed as i64;
        let common = format!("{arena}, {slot}, {seed}, NULL, {call_us}");
        match self.primitive {
            "plpgsql-loop" => format!(
                "SELECT * FROM {SCHEMA}.plpgsql_loop(1, {common}, {})",
                self.arguments
            ),
            _ => format!(
                "SELECT * FROM {SCHEMA}.{function}({common}{})",
                self.arguments
            ),
        }
    }
}

macro_rules! call {
    ($primitive:literal, $variant:literal, $arguments:expr, $operation:literal) => {
        Call {
            primitive: $primitive,
            variant: $variant,
            operation: $operation,
            arguments: $arguments,
            idle: 0,
            since: 130_000,
        }
    };
}

/// All calls; those of one name are measured together.
const CALLS: &[Call] = &[
    call!(
        "spinlock",
        "",
        "",
        "One spinlock taken and given back by all sessions: the server's test-and-set, s_lock and its back-off."
    ),
    call!(
        "lwlock",
        "exclusive",
        "",
        "One lightweight lock taken alone and released by all sessions."
    ),
    call!(
        "lwlock",
        "shared",
        ", exclusive_percent => 0",
        "One lightweight lock taken together and released: nobody waits, and yet all change one word."
    ),
    call!(
        "buffer-hit",
        "uniform",
        ", rel => 'pgassay_inside.hits', pattern => 'uniform'",
        "One block found in the mapping table, pinned and unpinned, at random in the whole table."
    ),
    call!(
        "buffer-hit",
        "hot block",
        ", rel => 'pgassay_inside.hits', pattern => 'hot'",
        "The same block found, pinned and unpinned by all sessions, as an index's root is."
    ),
    Call {
        since: 140_000,
        ..call!(
            "buffer-hit",
            "hot block, pin alone",
            ", rel => 'pgassay_inside.hits', pattern => 'hot', recent => true",
            "The same block pinned and unpinned by its known number, without looking it up."
        )
    },
    call!(
        "snapshot",
        "usual",
        "",
        "One snapshot taken; from PostgreSQL 14 on the last one serves again while nothing has committed."
    ),
    Call {
        since: 140_000,
        ..call!(
            "snapshot",
            "rebuilt",
            ", rebuild => true",
            "One snapshot built anew, as after every commit of another session."
        )
    },
    Call {
        idle: 500,
        ..call!(
            "snapshot",
            "usual",
            "",
            "One snapshot taken while other sessions are connected and idle."
        )
    },
    Call {
        idle: 500,
        since: 140_000,
        ..call!(
            "snapshot",
            "rebuilt",
            ", rebuild => true",
            "One snapshot built anew while other sessions are connected and idle."
        )
    },
    call!(
        "wal-insert",
        "unflushed",
        "",
        "One record of 64 bytes inserted into the WAL buffers through the insertion locks; written out as they fill, never flushed."
    ),
    call!(
        "wal-insert",
        "flushed",
        ", flush => true",
        "One record of 64 bytes inserted and flushed to disk, as a commit does."
    ),
    call!(
        "atomics",
        "swap, one word",
        "",
        "One word that all sessions share, read and changed by compare-and-swap."
    ),
    call!(
        "atomics",
        "add, one word",
        ", operation => 'add32'",
        "One word that all sessions share, changed by fetch-and-add."
    ),
    call!(
        "atomics",
        "swap, own words",
        ", placement => 'padded'",
        "A word of each session's own, on a cache line of its own: what the instruction costs without contention."
    ),
    call!(
        "query-loop",
        "",
        ", query => 'SELECT abalance FROM pgassay_inside.accounts WHERE aid = $1', \
           types => '{int}', lows => '{1}', highs => '{100000}'",
        "One account read by its key, prepared, by SPI: what select-only asks, without a client."
    ),
    call!(
        "plpgsql-loop",
        "",
        "'{1}', '{100000}'",
        "The same statement in a loop of PL/pgSQL."
    ),
];

/// What `primitives` measures, by workload and variant: the four that decide scaling.
const PAGE: &[(&str, &str)] = &[
    ("spinlock", ""),
    ("lwlock", "exclusive"),
    ("lwlock", "shared"),
    ("buffer-hit", "uniform"),
    ("buffer-hit", "hot block"),
    ("snapshot", "usual"),
    ("snapshot", "rebuilt"),
];

/// The names of all workloads inside the server.
pub fn names() -> Vec<&'static str> {
    let mut names = vec![ALL];
    for call in CALLS {
        if !names.contains(&call.primitive) {
            names.push(call.primitive);
        }
    }
    names
}

/// The calls of a workload on a server of that version; none where the name is
/// no workload inside the server.
pub fn calls(name: &str, version_num: u32) -> Vec<Call> {
    let wanted = |call: &&Call| match name {
        ALL => call.idle == 0 && PAGE.contains(&(call.primitive, call.variant)),
        name => call.primitive == name,
    };
    CALLS
        .iter()
        .filter(wanted)
        .filter(|call| version_num >= call.since)
        .copied()
        .collect()
}

/// The most sessions beside the load that any call of a workload wants.
pub fn most_idle(name: &str) -> u32 {
    calls(name, u32::MAX)
        .iter()
        .map(|call| call.idle)
        .max()
        .unwrap_or(0)
}

/// Makes the functions and the tables that these calls need.
///
/// # Errors
/// Where the server refuses.
pub fn create(
    session: &mut Session,
    definitions: &str,
    calls: &[Call],
    shared_buffers: u64,
) -> anyhow::Result<()> {
    let needs = |name: &str| calls.iter().any(|call| call.primitive == name);
    session
        .execute(&format!("CREATE SCHEMA {SCHEMA}"))
        .and_then(|()| session.execute(definitions))
        .context("the functions inside the server can't be created")?;
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
        session.execute(&format!(
            "SELECT {SCHEMA}.plpgsql_loop_create(\
               'SELECT abalance FROM {SCHEMA}.accounts WHERE aid = $1', '{{int}}')"
        ))?;
    }
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
    pub fn create(keeper: &mut Session, sessions: usize) -> anyhow::Result<Self> {
        let row = keeper.rows(&format!(
            "SELECT {SCHEMA}.arena_create({sessions}) AS handle"
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
    })
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
    fn the_page_is_made_of_calls_that_exist() {
        for wanted in PAGE {
            assert!(
                CALLS
                    .iter()
                    .any(|call| (call.primitive, call.variant) == *wanted),
                "{wanted:?}"
            );
        }
        assert_eq!(calls(ALL, 150_000).len(), PAGE.len());
        // Up to 13 every snapshot is built anew, so there is nothing to compare.
        assert_eq!(calls(ALL, 130_023).len(), PAGE.len() - 1);
        assert!(calls("select-only", 150_000).is_empty());
        assert_eq!(most_idle("snapshot"), 500);
    }

    #[test]
    fn statements_name_the_session() {
        let calls = calls("plpgsql-loop", 150_000);
        assert_eq!(
            calls[0].statement(77, 3, u64::MAX, 250_000),
            "SELECT * FROM pgassay_inside.plpgsql_loop(1, 77, 3, -1, NULL, 250000, '{1}', '{100000}')"
        );
        let calls = super::calls("lwlock", 150_000);
        assert_eq!(
            calls[1].statement(77, 0, 5, 1000),
            "SELECT * FROM pgassay_inside.lwlock(77, 0, 5, NULL, 1000, exclusive_percent => 0)"
        );
    }
}

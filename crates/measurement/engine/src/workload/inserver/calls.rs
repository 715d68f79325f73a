//! The calls by which each primitive is measured, and the page of those that
//! decide scaling.

use pgassay_model::Failure;
use pgassay_model::primitives::{Company, Variant};

use super::call::Call;
use super::knobs::Knobs;
use super::{ALL, ROWS, SCHEMA};

/// When a call ends.
#[derive(Debug, Clone, Copy)]
pub enum Until {
    /// After so long.
    Microseconds(u32),
    /// After so many operations, or a second.
    Count(u64),
}

impl Call {
    /// As it is recorded.
    pub fn variant(&self) -> Variant {
        Variant {
            primitive: self.primitive.to_owned(),
            variant: self.variant.clone(),
            company: self.company,
            operation: self.operation.clone(),
        }
    }

    /// How it is named on the command line: `lwlock:shared`.
    pub fn name(&self) -> String {
        match self.way().as_str() {
            "" => self.primitive.to_owned(),
            way => format!("{}:{way}", self.primitive),
        }
    }

    /// The variant without blanks.
    fn way(&self) -> String {
        self.variant.replace(' ', "-")
    }

    /// What is done before each trial, outside of it: WAL that an earlier trial
    /// left to be written is no part of this one.
    pub fn beforehand(&self) -> Option<String> {
        (self.primitive == "wal-insert")
            .then(|| format!("SELECT {SCHEMA}.wal_insert(count => 1, flush => true)"))
    }

    /// The statement that a session sends.
    pub fn statement(&self, arena: i64, slot: usize, seed: u64, call_us: u32) -> String {
        self.say(&arena.to_string(), slot, seed, Until::Microseconds(call_us))
    }

    /// The statement of a session that goes through the gate alone, for so many operations.
    pub fn counted(&self, arena: i64, seed: u64, operations: u64) -> String {
        self.say(&arena.to_string(), 0, seed, Until::Count(operations))
    }

    fn say(&self, arena: &str, slot: usize, seed: u64, until: Until) -> String {
        let function = self.primitive.replace('-', "_");
        // The server's seed is signed.
        let seed = seed as i64;
        let common = match until {
            Until::Microseconds(call_us) => format!("{arena}, {slot}, {seed}, NULL, {call_us}"),
            Until::Count(count) => format!("{arena}, {slot}, {seed}, {count}, NULL"),
        };
        match self.primitive {
            "plpgsql-loop" => format!(
                "SELECT * FROM {SCHEMA}.plpgsql_loop({}{common}, {})",
                self.leading, self.arguments
            ),
            _ => format!(
                "SELECT * FROM {SCHEMA}.{function}({common}{})",
                self.arguments
            ),
        }
    }
}

/// A call that needs nothing said on the command line.
struct Known {
    primitive: &'static str,
    variant: &'static str,
    operation: &'static str,
    arguments: &'static str,
    idle: u32,
    /// The first server_version_num that has it.
    since: u32,
}

impl Known {
    fn call(&self) -> Call {
        Call {
            primitive: self.primitive,
            variant: self.variant.to_owned(),
            operation: self.operation.to_owned(),
            arguments: self.arguments.to_owned(),
            leading: if self.primitive == "plpgsql-loop" {
                "1, ".to_owned()
            } else {
                String::new()
            },
            company: Company {
                idle: self.idle,
                ..Company::default()
            },
        }
    }
}

macro_rules! call {
    ($primitive:literal, $variant:literal, $arguments:expr, $operation:literal) => {
        Known {
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
const CALLS: &[Known] = &[
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
    Known {
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
    Known {
        since: 140_000,
        ..call!(
            "snapshot",
            "rebuilt",
            ", rebuild => true",
            "One snapshot built anew, as after every commit of another session."
        )
    },
    Known {
        idle: 500,
        ..call!(
            "snapshot",
            "usual",
            "",
            "One snapshot taken while other sessions are connected and idle."
        )
    },
    Known {
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
        "relation-lock",
        "one relation",
        "",
        "One relation locked for reading and unlocked, in the session's own entry (fast path)."
    ),
    call!(
        "relation-lock",
        "32 relations",
        ", relations => 32",
        "One of 32 relations that are locked at once, the same by all sessions; a session's own entry has room for 16 up to PostgreSQL 17."
    ),
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

/// A call of the default statement's loop by one session that nobody waits for.
pub fn alone(name: &str, seed: u64, until: Until) -> Option<String> {
    let known = CALLS.iter().find(|call| call.primitive == name)?;
    Some(known.call().say("NULL", 0, seed, until))
}

/// What the loops execute as a script of pgbench's language, to be run over the wire with so
/// many queries sent before the first answer is waited for.
pub fn select_only(in_flight: u64) -> String {
    let one = format!(
        "\\set aid random(1, {ROWS})\nSELECT abalance FROM {SCHEMA}.accounts WHERE aid = :aid;\n"
    );
    match in_flight {
        1 => one,
        n => format!("\\startpipeline\n{}\\endpipeline\n", one.repeat(n as usize)),
    }
}

/// Statements that read the loops' table and its key once.
pub fn read_accounts() -> [String; 3] {
    [
        format!("SELECT count(filler) FROM {SCHEMA}.accounts"),
        "SET enable_seqscan = off".to_owned(),
        format!("SELECT count(aid) FROM {SCHEMA}.accounts WHERE aid > 0"),
    ]
}

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

/// The calls of a workload on a server of that version, as the knobs change
/// them; none where the name is no workload inside the server.
pub fn calls(name: &str, version_num: u32, knobs: &Knobs) -> Vec<Call> {
    let wanted = |call: &&Known| match name {
        ALL => call.idle == 0 && PAGE.contains(&(call.primitive, call.variant)),
        name => call.primitive == name,
    };
    let known: Vec<Call> = CALLS
        .iter()
        .filter(wanted)
        .filter(|call| version_num >= call.since)
        .map(Known::call)
        .collect();
    knobs.turn(known)
}

/// The call that a workload's name means: `lwlock`, or `lwlock:shared` where a primitive can be used
/// in several ways; none where it is no workload inside the server.
///
/// # Errors
/// Where the primitive has no such way on that version, naming those that it has, or where the name
/// stands for all of them.
pub fn find(name: &str, version_num: u32) -> Result<Option<Call>, Failure> {
    let (primitive, variant) = name.split_once(':').unwrap_or((name, ""));
    if primitive == ALL {
        return Err(
            Failure::usage("primitives are not measured here all at once")
                .with_remedy("name one, such as --workload lwlock:shared or --workload spinlock"),
        );
    }
    let mut calls = calls(primitive, version_num, &Knobs::default());
    if variant.is_empty() {
        return Ok((!calls.is_empty()).then(|| calls.swap_remove(0)));
    }
    if calls.is_empty() {
        return Ok(None);
    }
    calls.retain(|call| call.company == Company::default());
    let known: Vec<String> = calls
        .iter()
        .filter(|call| !call.variant.is_empty())
        .map(Call::name)
        .collect();
    match calls.into_iter().find(|call| call.way() == variant) {
        Some(call) => Ok(Some(call)),
        None => Err(
            Failure::usage(format!("{primitive} can't be used in the way `{variant}`"))
                .with_remedy(match known.as_slice() {
                    [] => format!("there is one way: {primitive}"),
                    known => format!("there are {}", known.join(", ")),
                }),
        ),
    }
}

/// The most sessions beside the load that any call of a workload wants.
pub fn most_company(name: &str, knobs: &Knobs) -> u32 {
    calls(name, u32::MAX, knobs)
        .iter()
        .map(|call| call.company.sessions())
        .max()
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_made_of_calls_that_exist() {
        let none = Knobs::default();
        for wanted in PAGE {
            assert!(
                CALLS
                    .iter()
                    .any(|call| (call.primitive, call.variant) == *wanted),
                "{wanted:?}"
            );
        }
        assert_eq!(calls(ALL, 150_000, &none).len(), PAGE.len());
        // Up to 13 every snapshot is built anew, so there is nothing to compare.
        assert_eq!(calls(ALL, 130_023, &none).len(), PAGE.len() - 1);
        assert!(calls("select-only", 150_000, &none).is_empty());
        assert_eq!(most_company("snapshot", &none), 500);
    }

    #[test]
    fn statements_name_the_session() {
        let calls = calls("plpgsql-loop", 150_000, &Knobs::default());
        assert_eq!(
            calls[0].statement(77, 3, u64::MAX, 250_000),
            "SELECT * FROM pgassay_inside.plpgsql_loop(1, 77, 3, -1, NULL, 250000, '{1}', '{100000}')"
        );
        let calls = super::calls("lwlock", 150_000, &Knobs::default());
        assert_eq!(
            calls[1].statement(77, 0, 5, 1000),
            "SELECT * FROM pgassay_inside.lwlock(77, 0, 5, NULL, 1000, exclusive_percent => 0)"
        );
    }
}

//! What the command line may change about a call inside the server.
//!
//! A knob that belongs to a primitive replaces its usual variants by the one
//! that was asked for; sessions beside the load apply to every call.

use std::fmt::Write as _;
use std::str::FromStr;

use pgassay_model::Failure;
use pgassay_model::primitives::Company;
use pgassay_text::quote::quote_literal;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::SCHEMA;
use super::call::Call;

/// Longest hold of a spinlock, nanoseconds: the extension's limit.
const SPINLOCK_HOLD_NS: u32 = 1_000;
/// Longest hold of a lightweight lock, and of all sessions together.
const LWLOCK_HOLD_NS: u32 = 1_000_000;
const LWLOCK_WAIT_NS: u64 = 10_000_000;
/// Most locks of an arena.
const LOCKS: u32 = 65_536;

/// Everything that can be turned; the default turns nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Knobs {
    /// The statement of the query loops.
    pub statement: Option<Statement>,
    /// Nanoseconds that a lock is held.
    pub hold_ns: Option<u32>,
    /// Lightweight locks among which each operation chooses.
    pub locks: Option<u32>,
    /// Share of operations that take the lock alone, percent.
    pub exclusive_percent: Option<u32>,
    /// Which blocks, in which order.
    pub pattern: Option<Pattern>,
    /// How many blocks of the table.
    pub blocks: Option<u64>,
    /// Take the content lock, shared, of each block.
    pub content_lock: bool,
    /// Read the whole page.
    pub read_page: bool,
    /// Sessions beside the load, each to be measured with; empty: as usual.
    pub companies: Vec<Company>,
}

/// A statement with parameters drawn anew for each execution.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statement {
    /// Its text, with $1, $2 … for the parameters.
    pub sql: String,
    /// Statements executed once before, such as making tables.
    pub setup: Option<String>,
    /// In order.
    pub parameters: Vec<Parameter>,
}

/// A parameter: uniform over whole numbers, both ends included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    kind: &'static str,
    low: i64,
    high: i64,
}

impl FromStr for Parameter {
    type Err = String;

    /// `int:1:100000`, `bigint:1:5000000000`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!("`{text}` is not TYPE:LOW:HIGH, such as int:1:100000; types are int and bigint")
        };
        let parts: Vec<&str> = text.split(':').collect();
        let [kind, low, high] = parts.as_slice() else {
            return Err(wrong());
        };
        let kind = match *kind {
            "int" | "integer" => "int",
            "bigint" => "bigint",
            _ => return Err(wrong()),
        };
        let number = |text: &str| text.parse::<i64>().map_err(|_| wrong());
        let (low, high) = (number(low)?, number(high)?);
        let fits = kind == "bigint" || (i32::try_from(low).is_ok() && i32::try_from(high).is_ok());
        if low > high || !fits {
            return Err(format!("`{text}` has no {kind} from {low} to {high}"));
        }
        Ok(Self { kind, low, high })
    }
}

impl Serialize for Parameter {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Parameter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

impl std::fmt::Display for Parameter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}:{}", self.kind, self.low, self.high)
    }
}

/// Which blocks buffer-hit visits, in which order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// The first one or few, by all sessions.
    Hot,
    /// All, at random.
    Uniform,
    /// All, one after the other.
    Sequential,
    /// Each session its own share, at random.
    PerSession,
}

impl Pattern {
    fn argument(self) -> &'static str {
        match self {
            Self::Hot => "hot",
            Self::Uniform => "uniform",
            Self::Sequential => "sequential",
            Self::PerSession => "partition",
        }
    }
}

impl Statement {
    fn array(&self, of: impl Fn(&Parameter) -> String) -> String {
        let values: Vec<String> = self.parameters.iter().map(of).collect();
        format!("'{{{}}}'", values.join(","))
    }

    fn types(&self) -> String {
        self.array(|p| p.kind.to_owned())
    }

    fn lows(&self) -> String {
        self.array(|p| p.low.to_string())
    }

    fn highs(&self) -> String {
        self.array(|p| p.high.to_string())
    }

    /// What fails where the server can't prepare it.
    pub(super) fn trial_preparation(&self) -> String {
        let types: Vec<&str> = self.parameters.iter().map(|p| p.kind).collect();
        let types = match types.is_empty() {
            true => String::new(),
            false => format!("({})", types.join(", ")),
        };
        format!(
            "PREPARE pgassay_trial{types} AS {}",
            self.sql.trim_end().trim_end_matches(';')
        )
    }

    /// Makes the function of the loop in PL/pgSQL.
    pub(super) fn creation(&self) -> String {
        format!(
            "SELECT {SCHEMA}.plpgsql_loop_create({}, {})",
            quote_literal(&self.sql),
            self.types()
        )
    }

    /// The call's arguments, in SPI's loop and in PL/pgSQL's.
    fn put_into(&self, call: &mut Call) {
        call.variant = "own statement".to_owned();
        call.operation = format!("One execution of {}", self.sql.trim());
        if call.primitive == "plpgsql-loop" {
            call.leading = "1, ".repeat(self.parameters.len());
            call.arguments = format!("{}, {}", self.lows(), self.highs());
        } else {
            call.arguments = format!(
                ", query => {}, types => {}, lows => {}, highs => {}",
                quote_literal(&self.sql),
                self.types(),
                self.lows(),
                self.highs()
            );
        }
    }
}

impl Knobs {
    /// Whether one of them belongs to this primitive.
    fn replaces(&self, primitive: &str) -> bool {
        match primitive {
            "query-loop" | "plpgsql-loop" => self.statement.is_some(),
            "spinlock" => self.hold_ns.is_some(),
            "lwlock" => {
                self.hold_ns.is_some() || self.locks.is_some() || self.exclusive_percent.is_some()
            }
            "buffer-hit" => {
                self.pattern.is_some()
                    || self.blocks.is_some()
                    || self.content_lock
                    || self.read_page
            }
            _ => false,
        }
    }

    /// Whether the knobs of a workload in so many sessions are within the extension's limits.
    ///
    /// # Errors
    /// Naming the flag.
    pub fn check(&self, workload: &str, sessions: u32) -> Result<(), Failure> {
        let hold = self.hold_ns.unwrap_or(0);
        let longest = match workload {
            "spinlock" => SPINLOCK_HOLD_NS,
            _ => LWLOCK_HOLD_NS,
        };
        if hold > longest {
            return Err(Failure::usage(format!(
                "--hold-ns {hold}: a {workload} is held for at most {longest} ns"
            )));
        }
        if workload == "lwlock" && u64::from(hold) * u64::from(sessions) > LWLOCK_WAIT_NS {
            return Err(Failure::usage(format!(
                "--hold-ns {hold}: {sessions} sessions would make one wait longer than 10 ms, \
                 and a wait for a lightweight lock can't be cancelled"
            ))
            .with_remedy("hold it for a shorter time, or use fewer sessions"));
        }
        if self.locks.is_some_and(|locks| locks > LOCKS) {
            return Err(Failure::usage(format!("--locks: at most {LOCKS}")));
        }
        Ok(())
    }

    /// Locks that the shared memory must hold.
    pub fn arena_locks(&self) -> u32 {
        self.locks.unwrap_or(1)
    }

    /// The calls as they are after turning: for each primitive with a knob
    /// turned one call in place of the usual variants, and each call once for
    /// every company.
    pub(super) fn turn(&self, known: Vec<Call>) -> Vec<Call> {
        let mut calls: Vec<Call> = Vec::new();
        for mut call in known {
            if self.replaces(call.primitive) {
                if calls.iter().any(|c| c.primitive == call.primitive) {
                    continue;
                }
                self.apply(&mut call);
            }
            if !self.companies.is_empty() {
                call.company = Company::default();
                let same = |c: &Call| c.primitive == call.primitive && c.variant == call.variant;
                if calls.iter().any(same) {
                    continue;
                }
            }
            calls.push(call);
        }
        if self.companies.is_empty() {
            return calls;
        }
        let with = |call: &Call| {
            let call = call.clone();
            self.companies.iter().map(move |company| Call {
                company: *company,
                ..call.clone()
            })
        };
        calls.iter().flat_map(with).collect()
    }

    fn apply(&self, call: &mut Call) {
        let mut arguments = String::new();
        let mut words: Vec<String> = Vec::new();
        match call.primitive {
            "query-loop" | "plpgsql-loop" => {
                if let Some(statement) = &self.statement {
                    statement.put_into(call);
                }
                return;
            }
            "lwlock" => {
                let exclusive = self.exclusive_percent.unwrap_or(100);
                let _ = write!(
                    arguments,
                    ", locks => {}, exclusive_percent => {exclusive}",
                    self.arena_locks()
                );
                words.push(match exclusive {
                    0 => "shared".to_owned(),
                    100 => "exclusive".to_owned(),
                    mixed => format!("{mixed} % exclusive"),
                });
                words.extend(self.locks.filter(|n| *n > 1).map(|n| format!("{n} locks")));
                call.operation = "One lightweight lock acquired and released.".to_owned();
            }
            "buffer-hit" => {
                let pattern = self.pattern.unwrap_or(Pattern::Uniform);
                let _ = write!(
                    arguments,
                    ", rel => '{SCHEMA}.hits', pattern => '{}'",
                    pattern.argument()
                );
                words.push(match pattern {
                    Pattern::PerSession => "per session".to_owned(),
                    pattern => pattern.argument().to_owned(),
                });
                if let Some(blocks) = self.blocks {
                    let _ = write!(arguments, ", blocks => {blocks}");
                    words.push(format!("{blocks} blocks"));
                }
                if self.content_lock {
                    arguments.push_str(", content_lock => true");
                    words.push("content lock".to_owned());
                }
                if self.read_page {
                    arguments.push_str(", read_page => true");
                    words.push("page read".to_owned());
                }
                call.operation =
                    "One block found in the mapping table, pinned and unpinned.".to_owned();
            }
            _ => {}
        }
        if let Some(hold) = self.hold_ns {
            let _ = write!(arguments, ", hold_ns => {hold}");
            words.push(format!("held {hold} ns"));
        }
        call.arguments = arguments;
        call.variant = words.join(", ");
    }
}

#[cfg(test)]
mod tests {
    use super::super::calls;
    use super::*;

    fn company(idle: u32) -> Company {
        Company {
            idle,
            ..Company::default()
        }
    }

    #[test]
    fn a_knob_replaces_the_usual_variants() {
        let knobs = Knobs {
            locks: Some(4),
            exclusive_percent: Some(25),
            hold_ns: Some(100),
            ..Knobs::default()
        };
        let calls = calls("lwlock", 150_000, &knobs);
        assert_eq!(calls.len(), 1);
        assert_eq!(calls[0].variant, "25 % exclusive, 4 locks, held 100 ns");
        assert_eq!(
            calls[0].statement(7, 1, 2, 1000),
            "SELECT * FROM pgassay_inside.lwlock(7, 1, 2, NULL, 1000, locks => 4, \
             exclusive_percent => 25, hold_ns => 100)"
        );
        assert!(knobs.check("lwlock", 8).is_ok());
        let long = Knobs {
            hold_ns: Some(1_000_000),
            ..Knobs::default()
        };
        assert!(long.check("lwlock", 10).is_ok());
        assert!(long.check("lwlock", 11).is_err());
        assert!(long.check("spinlock", 1).is_err());
    }

    #[test]
    fn blocks_and_their_order() {
        let knobs = Knobs {
            pattern: Some(Pattern::Hot),
            blocks: Some(16),
            content_lock: true,
            read_page: true,
            ..Knobs::default()
        };
        let calls = calls("buffer-hit", 150_000, &knobs);
        assert_eq!(calls.len(), 1);
        assert_eq!(calls[0].variant, "hot, 16 blocks, content lock, page read");
        let statement = calls[0].statement(7, 0, 0, 1000);
        assert!(statement.ends_with(
            "rel => 'pgassay_inside.hits', pattern => 'hot', blocks => 16, \
             content_lock => true, read_page => true)"
        ));
    }

    #[test]
    fn any_statement_with_its_parameters() {
        let statement = Statement {
            sql: r"SELECT 'it''s \', $1, $2;".to_owned(),
            setup: None,
            parameters: vec!["int:1:9".parse().unwrap(), "bigint:-5:5".parse().unwrap()],
        };
        assert!(
            statement
                .trial_preparation()
                .starts_with("PREPARE pgassay_trial(int, bigint) AS SELECT")
        );
        let knobs = Knobs {
            statement: Some(statement),
            ..Knobs::default()
        };
        let spi = calls("query-loop", 150_000, &knobs);
        assert!(spi[0].statement(7, 0, 0, 1).contains(
            r"query => E'SELECT ''it''''s \\'', $1, $2;', types => '{int,bigint}', lows => '{1,-5}', highs => '{9,5}'"
        ));
        let plpgsql = calls("plpgsql-loop", 150_000, &knobs);
        assert!(
            plpgsql[0]
                .statement(7, 0, 0, 1)
                .starts_with("SELECT * FROM pgassay_inside.plpgsql_loop(1, 1, 7, 0, 0, NULL, 1, ")
        );
        for wrong in [
            "int",
            "int:1",
            "text:1:2",
            "int:2:1",
            "int:1:3000000000",
            "int:a:b",
        ] {
            assert!(wrong.parse::<Parameter>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn company_replaces_the_usual_one() {
        let knobs = Knobs {
            companies: vec![company(0), company(2000)],
            ..Knobs::default()
        };
        let titles: Vec<String> = calls("snapshot", 150_000, &knobs)
            .iter()
            .map(|call| call.variant().title())
            .collect();
        assert_eq!(
            titles,
            [
                "snapshot, usual",
                "snapshot, usual, 2000 idle",
                "snapshot, rebuilt",
                "snapshot, rebuilt, 2000 idle"
            ]
        );
    }
}

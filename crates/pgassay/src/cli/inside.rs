//! Flags of the workloads inside the server.

use std::path::PathBuf;

use clap::{ArgGroup, Args as ClapArgs, ValueEnum};
use pgassay_engine::workload::inserver::{Knobs, Parameter, Pattern, Statement};
use pgassay_model::Failure;
use pgassay_model::primitives::Company;

use super::kinds::{OF_BUFFER_HIT, OF_COMPANY, OF_LOCKS, OF_LOOPS, OF_LWLOCK};

/// What can be changed about a call inside the server.
#[derive(Debug, Clone, Default, ClapArgs)]
#[command(next_help_heading = "Inside the server")]
#[command(
    group = ArgGroup::new(OF_LOOPS).multiple(true),
    group = ArgGroup::new(OF_LOCKS).multiple(true),
    group = ArgGroup::new(OF_LWLOCK).multiple(true),
    group = ArgGroup::new(OF_BUFFER_HIT).multiple(true),
    group = ArgGroup::new(OF_COMPANY).multiple(true)
)]
pub struct InsideArgs {
    /// Statement of query-loop and plpgsql-loop, with $1, $2 … for its parameters
    #[arg(group = OF_LOOPS, long, value_name = "SQL")]
    pub sql: Option<String>,
    /// A parameter of --sql, drawn anew each time (repeatable): int:1:100000
    #[arg(
        group = OF_LOOPS,
        long,
        value_name = "TYPE:LOW:HIGH",
        requires = "sql",
        allow_hyphen_values = true
    )]
    pub param: Vec<Parameter>,
    /// Statements executed once before --sql, such as making its tables
    #[arg(group = OF_LOOPS, long, value_name = "FILE", requires = "sql")]
    pub sql_setup: Option<PathBuf>,
    /// Hold the lock for so long: spinlock, at most 1000; lwlock, at most 1000000
    #[arg(group = OF_LOCKS, long, value_name = "NS")]
    pub hold_ns: Option<u32>,
    /// Lightweight locks among which each operation chooses [default: 1]
    #[arg(group = OF_LWLOCK, long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub locks: Option<u32>,
    /// Share of operations that take the lock alone [default: 100]
    #[arg(group = OF_LWLOCK, long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(0..=100))]
    pub exclusive_percent: Option<u32>,
    /// Which blocks buffer-hit visits
    #[arg(group = OF_BUFFER_HIT, long, value_enum, value_name = "PATTERN")]
    pub pattern: Option<PatternName>,
    /// How many blocks of the table [default: all 32768, or 1 hot one]
    #[arg(group = OF_BUFFER_HIT, long, value_name = "K", value_parser = clap::value_parser!(u64).range(1..))]
    pub blocks: Option<u64>,
    /// Take the content lock, shared, of each block
    #[arg(group = OF_BUFFER_HIT, long)]
    pub content_lock: bool,
    /// Read the whole page of each block
    #[arg(group = OF_BUFFER_HIT, long)]
    pub read_page: bool,
    /// Idle sessions beside the load, one or several numbers: 0,500,2000
    #[arg(group = OF_COMPANY, long, value_name = "LIST", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(0..=100_000))]
    pub idle_sessions: Vec<u32>,
    /// Sessions beside the load that are idle in a transaction with a number
    #[arg(group = OF_COMPANY, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub idle_in_transaction: Option<u32>,
    /// Sessions beside the load that commit one transaction after the other
    #[arg(group = OF_COMPANY, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub committing: Option<u32>,
    /// Count the instructions of a query too, in the loops and over the wire (needs valgrind)
    #[arg(group = OF_LOOPS, long)]
    pub instructions: bool,
}

/// Patterns by their names on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PatternName {
    /// The first block, or the first --blocks, by all sessions
    Hot,
    /// All, at random
    Uniform,
    /// All, one after the other
    Sequential,
    /// Each session its own share of all, at random
    PerSession,
}

impl InsideArgs {
    /// What the flags mean.
    ///
    /// # Errors
    /// Where the set-up's file can't be read.
    pub fn knobs(&self) -> Result<Knobs, Failure> {
        let setup = match &self.sql_setup {
            None => None,
            Some(path) => Some(std::fs::read_to_string(path).map_err(|error| {
                Failure::usage(format!("--sql-setup {}: {error}", path.display()))
            })?),
        };
        Ok(Knobs {
            statement: self.sql.as_ref().map(|sql| Statement {
                sql: sql.clone(),
                setup,
                parameters: self.param.clone(),
            }),
            hold_ns: self.hold_ns,
            locks: self.locks,
            exclusive_percent: self.exclusive_percent,
            pattern: self.pattern.map(|name| match name {
                PatternName::Hot => Pattern::Hot,
                PatternName::Uniform => Pattern::Uniform,
                PatternName::Sequential => Pattern::Sequential,
                PatternName::PerSession => Pattern::PerSession,
            }),
            blocks: self.blocks,
            content_lock: self.content_lock,
            read_page: self.read_page,
            companies: self.companies(),
        })
    }

    fn companies(&self) -> Vec<Company> {
        let others = self.idle_in_transaction.is_some() || self.committing.is_some();
        let idle = match self.idle_sessions.as_slice() {
            [] if others => &[0],
            idle => idle,
        };
        let mut companies: Vec<Company> = idle
            .iter()
            .map(|&idle| Company {
                idle,
                idle_in_transaction: self.idle_in_transaction.unwrap_or(0),
                committing: self.committing.unwrap_or(0),
            })
            .collect();
        companies.sort_unstable();
        companies.dedup();
        companies
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(flags: &[&str]) -> Result<InsideArgs, clap::Error> {
        crate::cli::parsed(flags)
    }

    #[test]
    fn the_flags_reach_the_knobs() {
        let flags = [
            "--sql",
            "SELECT $1",
            "--param",
            "int:-3:9",
            "--hold-ns",
            "5",
            "--locks",
            "2",
            "--exclusive-percent",
            "0",
            "--idle-in-transaction",
            "7",
            "--committing",
            "3",
            "--pattern",
            "per-session",
            "--blocks",
            "9",
            "--idle-sessions",
            "0,500",
            "--content-lock",
            "--read-page",
            "--instructions",
        ];
        let args = parsed(&flags).unwrap();
        let knobs = args.knobs().unwrap();
        assert_eq!(
            (knobs.hold_ns, knobs.locks, knobs.blocks),
            (Some(5), Some(2), Some(9))
        );
        assert!(knobs.content_lock && knobs.read_page && args.instructions);
        assert_eq!(knobs.companies.len(), 2);
        assert_eq!(knobs.companies[1].sessions(), 510);
    }

    #[test]
    fn wrong_values_are_refused() {
        for wrong in [
            &["--param", "int:1:2"][..],
            &["--sql", "SELECT 1", "--param", "int:2:1"],
            &["--locks", "0"],
            &["--exclusive-percent", "101"],
            &["--pattern", "zigzag"],
            &["--blocks", "0"],
            &["--idle-sessions", "-1"],
            &["--committing", "0"],
            &["--hold-ns", "-1"],
        ] {
            assert!(parsed(wrong).is_err(), "{wrong:?}");
        }
        let args = parsed(&["--sql", "SELECT 1", "--sql-setup", "/nowhere/x.sql"]).unwrap();
        assert!(
            args.knobs()
                .unwrap_err()
                .to_string()
                .contains("--sql-setup")
        );
    }
}

//! The flags of `pgassay workload`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand, ValueEnum};

use super::show::ShowArgs;

/// Arguments of `pgassay workload`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  pgassay workload from-log /var/log/postgresql/postgresql-17-main.log
  pgassay workload from-log log/*.csv --database shop --to shop.sql
  pgassay workload from-statements 'service=shop' --to shop.sql
  pgassay workload statistics 'service=shop' --to shop.statistics --anonymise
  pgassay workload from-log log/*.csv --database shop --to shop.sql --sessions
  pgassay run shop.sql 'host=copy dbname=shop' --load
  pgassay run shop.sql 'host=copy dbname=shop' --load --is-copy --replay --speed 2
  pgassay compare 'host=old dbname=shop' 'host=new dbname=shop' --workload shop.sql --load

The workload is a file of scripts for run, compare and diagnose: read it, edit it, keep it. It holds values of
your data unless --anonymise replaces them. Nothing leaves this machine.")]
pub struct WorkloadArgs {
    /// What it is made from, or made into.
    #[command(subcommand)]
    pub from: From,
}

/// What a workload is made from, or made into.
#[derive(Debug, Subcommand)]
pub enum From {
    /// From logs with durations: sessions, transactions and values as they were
    FromLog(FromLogArgs),
    /// From pg_stat_statements: the mix as counted, values drawn from tables and statistics
    FromStatements(FromStatementsArgs),
    /// A database's schema and statistics, without a row of it: launched servers hold data that is made from them
    Statistics(StatisticsArgs),
    /// A workload file in the form of another program: pgbench's scripts, or what pgreplay-go replays
    Export(ExportArgs),
}

/// Where the workload goes.
#[derive(Debug, ClapArgs)]
pub struct IntoArgs {
    /// The workload file that is written
    #[arg(long, value_name = "FILE", default_value = "workload.sql")]
    pub to: PathBuf,
    /// Overwrite it if it exists
    #[arg(long)]
    pub force: bool,
    /// Rows of values that are kept for each script
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub samples: u32,
    /// Replace each text by a hash of the same length: equal texts stay equal. Numbers and dates stay
    #[arg(long)]
    pub anonymise: bool,
    /// Seed of what is drawn
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// How the account of it is shown.
    #[command(flatten)]
    pub show: ShowArgs,
}

/// Arguments of `pgassay workload from-log`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
The log needs each statement with its duration, and its messages in English or another language that is read:
  ALTER SYSTEM SET log_min_duration_statement = 0;   -- or log_statement = 'all' with log_duration = on
  ALTER SYSTEM SET lc_messages = 'C';
  SELECT pg_reload_conf();
csvlog, jsonlog (15 and later), stderr, syslog, journald, Logplex, and the JSON of operators, clouds and collectors are
read, of any size, compressed by gzip or zstd or not. For transactions that are whole,
log for some minutes at least, and name rotated files in their order.")]
pub struct FromLogArgs {
    /// The log's files, the oldest first; - is standard input
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// How the log is written [default: by its first lines]
    #[arg(long = "log-format", value_enum, value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,
    /// log_line_prefix of a log to stderr or syslog [default: by its first lines]
    #[arg(long, value_name = "PREFIX")]
    pub prefix: Option<String>,
    /// Statements of this database only
    #[arg(long, value_name = "NAME")]
    pub database: Option<String>,
    /// Statements of this user only
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// Statements of this application_name only
    #[arg(long, value_name = "NAME")]
    pub application: Option<String>,
    /// Write each session's transactions, too, with their times and values, to FILE.sessions.jsonl beside the workload
    /// file: for run --replay
    #[arg(long)]
    pub sessions: bool,
    /// Where it goes.
    #[command(flatten)]
    pub into: IntoArgs,
}

/// Arguments of `pgassay workload export`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  pgassay workload export shop.sql --format pgbench --to shop-pgbench
  pgassay workload export shop.sql --format pgreplay --user app --database shop --to shop.pgreplay.json

pgbench: a directory with a script for each of the workload's, and the command that runs them. pgbench knows no rows
of values: each becomes a branch of the script, at most as many as --rows. pgreplay: sessions that from-log
--sessions recorded, for pgreplay run --json-input.")]
pub struct ExportArgs {
    /// The workload file
    #[arg(value_name = "FILE")]
    pub workload: PathBuf,
    /// For which program
    #[arg(long, value_enum, value_name = "PROGRAM")]
    pub format: ExportFormat,
    /// The directory of pgbench's scripts, which is made, or the file for pgreplay-go
    #[arg(long, value_name = "PATH")]
    pub to: PathBuf,
    /// Overwrite what is there
    #[arg(long)]
    pub force: bool,
    /// Rows of values that each of pgbench's scripts has
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub rows: u32,
    /// The user that pgreplay-go's sessions connect as
    #[arg(long, value_name = "NAME", default_value = "postgres")]
    pub user: String,
    /// The database that they connect to
    #[arg(long, value_name = "NAME", default_value = "postgres")]
    pub database: String,
}

/// A program that runs loads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// PostgreSQL's pgbench
    Pgbench,
    /// pgreplay-go
    Pgreplay,
}

/// How a log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// log_destination = csvlog
    Csv,
    /// log_destination = jsonlog
    Json,
    /// log_destination = stderr
    Stderr,
}

/// Arguments of `pgassay workload from-statements`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
pg_stat_statements has no values. Keys are drawn as the tables hold them: rows of each table are read, at
most as many as --samples, and the planner's statistics. Nothing is written on the server. The role
needs pg_read_all_stats and SELECT on the tables.")]
pub struct FromStatementsArgs {
    /// The URI or conninfo of a running server; the database that it names is the one whose statements are taken
    #[arg(value_name = "TARGET")]
    pub target: String,
    /// Count for so many seconds, instead of since the last reset
    #[arg(long = "for", value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub seconds: Option<u32>,
    /// Draw values from the data that is made from these statistics, and read no row of the server: what
    /// `workload statistics` wrote
    #[arg(long, value_name = "DIR")]
    pub statistics: Option<PathBuf>,
    /// Where it goes.
    #[command(flatten)]
    pub into: IntoArgs,
}

/// Arguments of `pgassay workload statistics`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  pgassay workload statistics 'service=shop' --to shop.statistics --anonymise
  pgassay workload from-statements 'service=shop' --to shop.sql --statistics shop.statistics
  pgassay compare temp:15 temp:18 --workload shop.sql --from-database shop.statistics

No row is read: the directory has the schema (before.sql, after.sql) and what pg_stats says of each column
(statistics.json). That holds values of your data, the most common ones and bounds of histograms: texts among them
are replaced with --anonymise. Names, defaults, views and functions are in the schema as they are.")]
pub struct StatisticsArgs {
    /// The URI or conninfo of a running server; the database that it names is described
    #[arg(value_name = "TARGET")]
    pub target: String,
    /// The directory that is made
    #[arg(long, value_name = "DIR", default_value = "statistics")]
    pub to: PathBuf,
    /// Overwrite what is there
    #[arg(long)]
    pub force: bool,
    /// Make so large a share of each table's rows; tables of 1,000 rows or fewer keep theirs
    #[arg(long, value_name = "SHARE", default_value_t = 1.0, value_parser = share)]
    pub share: f64,
    /// Replace each text by another of the same length, in the same order. Numbers and dates stay
    #[arg(long)]
    pub anonymise: bool,
    /// Seed of what is made
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if share > 0.0 && share <= 100.0 => Ok(share),
        _ => Err(format!(
            "`{text}` is no share of the rows; write 0.1 for a tenth"
        )),
    }
}

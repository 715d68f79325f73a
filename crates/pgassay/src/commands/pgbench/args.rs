//! pgbench's own command line.

use std::ffi::OsString;

use clap::{Arg, ArgAction, CommandFactory, FromArgMatches, Parser};
use pgassay_analysis::plan::Tables;

/// What was typed, by pgbench's names (PostgreSQL 18).
#[derive(Debug, Parser)]
#[command(
    name = "pgassay pgbench",
    about = "pgbench's command line, scripts and summary, driven by pgassay's load engine",
    disable_help_flag = true,
    disable_version_flag = true,
    // As getopt_long has it: the last of several holds, and a beginning that is one option's alone
    // names it.
    args_override_self = true,
    infer_long_args = true,
    max_term_width = 100,
    after_help = "As pgbench does, -i drops existing pgbench_ tables before it makes new ones."
)]
#[allow(missing_docs)] // the help texts say it
pub struct PgbenchArgs {
    /// Make and fill the tables; DROPS existing pgbench_ tables
    #[arg(
        short = 'i',
        long = "initialize",
        help_heading = "Initialization options"
    )]
    pub initialize: bool,
    /// Steps: d drop, t tables, g data from here, G data in the server, v vacuum, p primary keys,
    /// f foreign keys
    #[arg(
        short = 'I',
        long = "init-steps",
        value_name = "[dtgGvpf]+",
        help_heading = "Initialization options"
    )]
    pub init_steps: Option<String>,
    /// Fill factor of the tables
    #[arg(short = 'F', long, value_name = "NUM", value_parser = clap::value_parser!(u32).range(10..=100), help_heading = "Initialization options")]
    pub fillfactor: Option<u32>,
    /// Scaling factor
    #[arg(short = 's', long, value_name = "NUM", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Initialization options")]
    pub scale: Option<u32>,
    /// Say less while filling
    #[arg(short = 'q', long, help_heading = "Initialization options")]
    pub quiet: bool,
    /// Make foreign keys between the tables
    #[arg(long, help_heading = "Initialization options")]
    pub foreign_keys: bool,
    /// Tablespace of the indexes
    #[arg(
        long,
        value_name = "TABLESPACE",
        help_heading = "Initialization options"
    )]
    pub index_tablespace: Option<String>,
    /// Tablespace of the tables
    #[arg(
        long,
        value_name = "TABLESPACE",
        help_heading = "Initialization options"
    )]
    pub tablespace: Option<String>,
    /// Partition pgbench_accounts: range or hash
    #[arg(long, value_name = "METHOD", value_parser = ["range", "hash"], help_heading = "Initialization options")]
    pub partition_method: Option<String>,
    /// Into so many partitions
    #[arg(
        long,
        value_name = "NUM",
        default_value_t = 0,
        help_heading = "Initialization options"
    )]
    pub partitions: u32,
    /// Make the tables unlogged
    #[arg(long, help_heading = "Initialization options")]
    pub unlogged_tables: bool,
    /// Go on with an -i that was stopped while it filled the tables: drops nothing (not pgbench's)
    #[arg(long, requires = "initialize", help_heading = "Initialization options")]
    pub resume: bool,

    /// Add a built-in script, with a weight (default 1); "list" lists them
    #[arg(short = 'b', long = "builtin", value_name = "NAME[@W]")]
    pub builtins: Vec<String>,
    /// Add a script, with a weight (default 1); - is standard input
    #[arg(short = 'f', long = "file", value_name = "FILE[@W]")]
    pub files: Vec<String>,
    /// As -b simple-update
    #[arg(short = 'N', long, action = ArgAction::Count)]
    pub skip_some_updates: u8,
    /// As -b select-only
    #[arg(short = 'S', long, action = ArgAction::Count)]
    pub select_only: u8,
    /// Show a built-in script
    #[arg(long, value_name = "NAME")]
    pub show_script: Option<String>,

    /// Clients
    #[arg(short = 'c', long = "client", value_name = "NUM", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub clients: u32,
    /// A connection for each transaction
    #[arg(short = 'C', long)]
    pub connect: bool,
    /// Define a variable
    #[arg(short = 'D', long = "define", value_name = "NAME=VALUE")]
    pub defines: Vec<String>,
    /// Load threads
    #[arg(short = 'j', long, value_name = "NUM", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub jobs: u32,
    /// Write each transaction to a log
    #[arg(short = 'l', long)]
    pub log: bool,
    /// Count transactions that take more than NUM ms as late
    #[arg(short = 'L', long, value_name = "NUM")]
    pub latency_limit: Option<f64>,
    /// simple, extended or prepared
    #[arg(short = 'M', long, value_name = "PROTOCOL", default_value = "simple", value_parser = ["simple", "extended", "prepared"])]
    pub protocol: String,
    /// No VACUUM beforehand
    #[arg(short = 'n', long)]
    pub no_vacuum: bool,
    /// Report progress every NUM seconds
    #[arg(short = 'P', long, value_name = "NUM", value_parser = clap::value_parser!(u32).range(1..))]
    pub progress: Option<u32>,
    /// Report latencies by command
    #[arg(short = 'r', long = "report-per-command", alias = "report-latencies")]
    pub per_command: bool,
    /// Transactions a second
    #[arg(short = 'R', long, value_name = "NUM")]
    pub rate: Option<f64>,
    /// Transactions of each client (default 10)
    #[arg(short = 't', long, value_name = "NUM", value_parser = clap::value_parser!(u64).range(1..))]
    pub transactions: Option<u64>,
    /// Seconds to run
    #[arg(short = 'T', long, value_name = "NUM", value_parser = clap::value_parser!(u64).range(1..))]
    pub time: Option<u64>,
    /// VACUUM all tables beforehand
    #[arg(short = 'v', long)]
    pub vacuum_all: bool,
    /// Aggregate the log over NUM seconds
    #[arg(long, value_name = "NUM", value_parser = clap::value_parser!(u64).range(1..))]
    pub aggregate_interval: Option<u64>,
    /// Clients go on after an SQL error
    #[arg(long)]
    pub continue_on_error: bool,
    /// End the run when a client stops
    #[arg(long)]
    pub exit_on_abort: bool,
    /// Report failures by their kind
    #[arg(long)]
    pub failures_detailed: bool,
    /// Prefix of the log's files
    #[arg(long, value_name = "PREFIX")]
    pub log_prefix: Option<String>,
    /// How often a transaction is tried; 0 is without limit
    #[arg(long, value_name = "NUM", default_value_t = 1)]
    pub max_tries: u32,
    /// Show progress with Unix time
    #[arg(long)]
    pub progress_timestamp: bool,
    /// Seed: time, rand or a number
    #[arg(long, value_name = "SEED")]
    pub random_seed: Option<String>,
    /// Share of the transactions that are logged
    #[arg(long, value_name = "NUM")]
    pub sampling_rate: Option<f64>,
    /// Print the messages of all errors
    #[arg(long)]
    pub verbose_errors: bool,

    /// Print debugging output
    #[arg(long)]
    pub debug: bool,
    /// Database
    #[arg(short = 'd', long, value_name = "DBNAME")]
    pub dbname: Option<String>,
    /// Server's host or socket directory
    #[arg(short = 'h', long, value_name = "HOST")]
    pub host: Option<String>,
    /// Server's port
    #[arg(short = 'p', long, value_name = "PORT")]
    pub port: Option<String>,
    /// User
    #[arg(short = 'U', long, value_name = "NAME")]
    pub username: Option<String>,
    /// Database
    #[arg(value_name = "DBNAME")]
    pub database: Option<String>,
    /// The scripts in the order in which they were typed
    #[arg(skip)]
    pub scripts: Vec<Source>,
    /// Whether an option was typed that only a run has
    #[arg(skip)]
    pub for_runs: bool,
    /// Whether one was typed that only -i has
    #[arg(skip)]
    pub for_tables: bool,
}

/// The options that only a run has.
const FOR_RUNS: [&str; 27] = [
    "builtins",
    "files",
    "skip_some_updates",
    "select_only",
    "clients",
    "connect",
    "defines",
    "jobs",
    "log",
    "latency_limit",
    "protocol",
    "progress",
    "per_command",
    "rate",
    "transactions",
    "time",
    "vacuum_all",
    "aggregate_interval",
    "continue_on_error",
    "exit_on_abort",
    "failures_detailed",
    "log_prefix",
    "max_tries",
    "progress_timestamp",
    "random_seed",
    "sampling_rate",
    "verbose_errors",
];
/// The options that only -i has; -s and -n mean something to both.
const FOR_TABLES: [&str; 9] = [
    "init_steps",
    "fillfactor",
    "quiet",
    "foreign_keys",
    "index_tablespace",
    "tablespace",
    "partition_method",
    "partitions",
    "unlogged_tables",
];

/// Where a script comes from; with its weight where one was typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A built-in one.
    Builtin(String),
    /// A file.
    File(String),
}

impl PgbenchArgs {
    /// Parses what stands after `pgassay pgbench`.
    ///
    /// # Errors
    /// clap's answer: a mistake, or the text of `--help` and `--version`.
    pub fn parse_words(words: &[OsString]) -> Result<Self, clap::Error> {
        let command = Self::command()
            .version(concat!(
                env!("CARGO_PKG_VERSION"),
                " (command line of pgbench 18)"
            ))
            .arg(
                Arg::new("help")
                    .short('?')
                    .long("help")
                    .action(ArgAction::Help)
                    .help("Show this help"),
            )
            .arg(
                Arg::new("version")
                    .short('V')
                    .long("version")
                    .action(ArgAction::Version)
                    .help("Show the version"),
            );
        let name = OsString::from("pgassay pgbench");
        let matches = command.try_get_matches_from(std::iter::once(&name).chain(words))?;
        let mut args = Self::from_arg_matches(&matches)?;
        let was_typed =
            |id: &&str| matches.value_source(id) == Some(clap::parser::ValueSource::CommandLine);
        args.for_runs = FOR_RUNS.iter().any(&was_typed);
        args.for_tables = FOR_TABLES.iter().any(was_typed);
        let mut typed: Vec<(usize, Source)> = Vec::new();
        let places = |id: &str| matches.indices_of(id).into_iter().flatten();
        for (place, name) in places("builtins").zip(&args.builtins) {
            typed.push((place, Source::Builtin(name.clone())));
        }
        for (place, name) in places("files").zip(&args.files) {
            typed.push((place, Source::File(name.clone())));
        }
        for (id, count, name) in [
            ("select_only", args.select_only, "select-only"),
            ("skip_some_updates", args.skip_some_updates, "simple-update"),
        ] {
            let place = places(id).next().unwrap_or(0);
            let source = Source::Builtin(name.to_owned());
            typed.extend((0..count).map(|_| (place, source.clone())));
        }
        typed.sort_by_key(|(place, _)| *place);
        args.scripts = typed.into_iter().map(|(_, source)| source).collect();
        Ok(args)
    }

    /// How the tables are to be made.
    pub fn tables(&self) -> Tables {
        Tables {
            fillfactor: self.fillfactor,
            partitions: self.partitions,
            partition_method: self.partition_method.clone(),
            unlogged: self.unlogged_tables,
            foreign_keys: self.foreign_keys,
            tablespace: self.tablespace.clone(),
            index_tablespace: self.index_tablespace.clone(),
        }
    }

    /// The connection string that the connection's options mean together.
    pub fn conninfo(&self) -> String {
        let database = self.database.as_deref().or(self.dbname.as_deref());
        if let Some(uri) =
            database.filter(|d| d.starts_with("postgres://") || d.starts_with("postgresql://"))
        {
            return uri.to_owned();
        }
        let quoted =
            |value: &str| format!("'{}'", value.replace('\\', "\\\\").replace('\'', "\\'"));
        let mut text = String::from("fallback_application_name='pgassay pgbench'");
        for (name, value) in [
            ("host", &self.host),
            ("port", &self.port),
            ("user", &self.username),
        ] {
            if let Some(value) = value {
                text += &format!(" {name}={}", quoted(value));
            }
        }
        match database {
            Some(conninfo) if conninfo.contains('=') => text += &format!(" {conninfo}"),
            Some(name) => text += &format!(" dbname={}", quoted(name)),
            None => {}
        }
        text
    }

    /// Combinations that mean nothing, as pgbench refuses them.
    pub fn contradiction(&self) -> Option<String> {
        if let (Some(time), Some(interval)) = (self.time, self.aggregate_interval) {
            if interval > time {
                return Some(format!(
                    "number of seconds for aggregation ({interval}) must not be higher than test duration ({time})"
                ));
            }
            if time % interval != 0 {
                return Some(format!(
                    "duration ({time}) must be a multiple of aggregation interval ({interval})"
                ));
            }
        }
        let text = if self.initialize && self.for_runs {
            "some of the specified options cannot be used in initialization (-i) mode"
        } else if !self.initialize && self.for_tables {
            "some of the specified options cannot be used in benchmarking mode"
        } else if self.transactions.is_some() && self.time.is_some() {
            "specify either a number of transactions (-t) or a duration (-T), not both"
        } else if self.sampling_rate.is_some() && !self.log {
            "log sampling (--sampling-rate) is allowed only when logging transactions (-l)"
        } else if self.sampling_rate.is_some() && self.aggregate_interval.is_some() {
            "log sampling (--sampling-rate) and aggregation (--aggregate-interval) cannot be used at the same time"
        } else if self.aggregate_interval.is_some() && !self.log {
            "log aggregation is allowed only when actually logging transactions"
        } else if self.log_prefix.is_some() && !self.log {
            "log file prefix (--log-prefix) is allowed only when logging transactions (-l)"
        } else if self.max_tries == 0 && self.time.is_none() && self.latency_limit.is_none() {
            "an unlimited number of transaction tries can only be used with --latency-limit or a duration (-T)"
        } else if self.rate.is_some_and(|rate| rate.is_nan() || rate <= 0.0) {
            "invalid rate limit: -R takes a number greater than zero"
        } else if self
            .latency_limit
            .is_some_and(|limit| limit.is_nan() || limit <= 0.0)
        {
            "invalid latency limit: -L takes milliseconds greater than zero"
        } else if self
            .sampling_rate
            .is_some_and(|rate| !(rate > 0.0 && rate <= 1.0))
        {
            "invalid sampling rate: --sampling-rate takes a number above 0 and up to 1"
        } else if self.progress_timestamp && self.progress.is_none() {
            "--progress-timestamp is allowed only under --progress"
        } else if self.partition_method.is_some() && self.partitions == 0 {
            "--partition-method requires greater than zero --partitions"
        } else {
            return None;
        };
        Some(text.to_owned())
    }
}

//! pgbench's own command line: what was typed, checked in pgbench's order and refused in its words.

use std::ffi::OsString;
use std::str::FromStr;

use pgassay_load::Protocol;
use pgassay_load::script::valid_name;
use pgassay_model::workload::Tables;

use super::options::{For, Line, Typed, take_apart};
use super::words::Refusal;

/// What was typed, by pgbench's names (PostgreSQL 18).
#[derive(Debug, Clone)]
#[allow(missing_docs)] // the names are those of the options
pub struct PgbenchArgs {
    pub initialize: bool,
    pub init_steps: Option<String>,
    pub fillfactor: Option<u32>,
    pub scale: Option<u32>,
    pub quiet: bool,
    pub foreign_keys: bool,
    pub index_tablespace: Option<String>,
    pub tablespace: Option<String>,
    pub partition_method: Option<String>,
    pub partitions: u32,
    pub unlogged_tables: bool,
    pub resume: bool,
    /// The scripts in the order in which they were typed.
    pub scripts: Vec<Source>,
    pub show_script: Option<String>,
    pub clients: u32,
    pub connect: bool,
    pub defines: Vec<(String, String)>,
    pub jobs: u32,
    pub log: bool,
    pub latency_limit: Option<f64>,
    pub protocol: Protocol,
    pub no_vacuum: bool,
    pub progress: Option<u32>,
    pub per_command: bool,
    pub rate: Option<f64>,
    pub transactions: Option<u64>,
    pub time: Option<u64>,
    pub vacuum_all: bool,
    pub aggregate_interval: Option<u64>,
    pub continue_on_error: bool,
    pub exit_on_abort: bool,
    pub failures_detailed: bool,
    pub log_prefix: Option<String>,
    pub max_tries: u32,
    pub progress_timestamp: bool,
    pub random_seed: Option<String>,
    pub sampling_rate: Option<f64>,
    pub verbose_errors: bool,
    pub debug: bool,
    pub dbname: Option<String>,
    pub host: Option<String>,
    pub port: Option<String>,
    pub username: Option<String>,
    /// What was asked for besides a run.
    pub asks: Option<Asks>,
    /// Whether an option was typed that only a run has.
    for_runs: bool,
    /// Whether one was typed that only -i has.
    for_tables: bool,
}

/// A question that is answered without a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asks {
    /// `--help`
    Help,
    /// `--version`
    Version,
    /// `-b list`
    Builtins,
    /// `--show-script`
    Script,
}

/// Where a script comes from; with its weight where one was typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A built-in one.
    Builtin(String),
    /// A file.
    File(String),
}

impl Default for PgbenchArgs {
    fn default() -> Self {
        PgbenchArgs {
            initialize: false,
            init_steps: None,
            fillfactor: None,
            scale: None,
            quiet: false,
            foreign_keys: false,
            index_tablespace: None,
            tablespace: None,
            partition_method: None,
            partitions: 0,
            unlogged_tables: false,
            resume: false,
            scripts: Vec::new(),
            show_script: None,
            clients: 1,
            connect: false,
            defines: Vec::new(),
            jobs: 1,
            log: false,
            latency_limit: None,
            protocol: Protocol::Simple,
            no_vacuum: false,
            progress: None,
            per_command: false,
            rate: None,
            transactions: None,
            time: None,
            vacuum_all: false,
            aggregate_interval: None,
            continue_on_error: false,
            exit_on_abort: false,
            failures_detailed: false,
            log_prefix: None,
            max_tries: 1,
            progress_timestamp: false,
            random_seed: None,
            sampling_rate: None,
            verbose_errors: false,
            debug: false,
            dbname: None,
            host: None,
            port: None,
            username: None,
            asks: None,
            for_runs: false,
            for_tables: false,
        }
    }
}

/// Steps of `-i`.
const STEPS: &str = "dtgGvpf";

impl PgbenchArgs {
    /// Parses what stands after `pgassay pgbench`.
    ///
    /// # Errors
    /// The first mistake, in pgbench's words.
    pub fn parse_words(words: &[OsString]) -> Result<Self, Refusal> {
        let Line { options, operands } = take_apart(words)?;
        let mut args = PgbenchArgs::default();
        for typed in options {
            args.for_runs |= typed.option.used_for == For::Runs;
            args.for_tables |= typed.option.used_for == For::Tables;
            args.take(typed)?;
            if args.asks.is_some() {
                return Ok(args);
            }
        }
        let mut operands = operands.into_iter();
        if let Some(database) = operands.next() {
            match args.dbname {
                None => args.dbname = Some(database),
                Some(_) => return Err(too_many(&database)),
            }
        }
        if let Some(extra) = operands.next() {
            return Err(too_many(&extra));
        }
        Ok(args)
    }

    fn take(&mut self, typed: Typed) -> Result<(), Refusal> {
        let Typed { option, value } = typed;
        match option.long {
            "initialize" => self.initialize = true,
            "init-steps" => self.init_steps = Some(steps(value)?),
            "fillfactor" => {
                self.fillfactor = Some(number(&value, "-F/--fillfactor", 10, 100)?);
            }
            "scale" => self.scale = Some(number(&value, "-s/--scale", 1, MOST)?),
            "quiet" => self.quiet = true,
            "foreign-keys" => self.foreign_keys = true,
            "index-tablespace" => self.index_tablespace = Some(value),
            "tablespace" => self.tablespace = Some(value),
            "partition-method" => self.partition_method = Some(method(value)?),
            "partitions" => self.partitions = number(&value, "--partitions", 0, MOST)?,
            "unlogged-tables" => self.unlogged_tables = true,
            "resume" => self.resume = true,
            "builtin" if value == "list" => self.asks = Some(Asks::Builtins),
            "builtin" => self.scripts.push(Source::Builtin(value)),
            "file" => self.scripts.push(Source::File(value)),
            "skip-some-updates" => {
                let source = Source::Builtin("simple-update".to_owned());
                self.scripts.push(source);
            }
            "select-only" => {
                let source = Source::Builtin("select-only".to_owned());
                self.scripts.push(source);
            }
            "show-script" => {
                self.show_script = Some(value);
                self.asks = Some(Asks::Script);
            }
            // By its name in releases 15 and 16, of which that of the others is a beginning.
            "client" => self.clients = number(&value, "-c/--clients", 1, MOST)?,
            "connect" => self.connect = true,
            "define" => self.defines.push(definition(&value)?),
            "jobs" => self.jobs = number(&value, "-j/--jobs", 1, MOST)?,
            "log" => self.log = true,
            "latency-limit" => {
                self.latency_limit = Some(positive(&value, "latency limit", f64::MAX)?)
            }
            "protocol" => self.protocol = protocol(&value)?,
            "no-vacuum" => self.no_vacuum = true,
            "progress" => self.progress = Some(number(&value, "-P/--progress", 1, MOST)?),
            "report-per-command" | "report-latencies" => self.per_command = true,
            "rate" => self.rate = Some(positive(&value, "rate limit", f64::MAX)?),
            "transactions" => {
                self.transactions = Some(number(&value, "-t/--transactions", 1, MOST)?.into());
            }
            "time" => self.time = Some(number(&value, "-T/--time", 1, MOST)?.into()),
            "vacuum-all" => self.vacuum_all = true,
            "aggregate-interval" => {
                let seconds = number(&value, "--aggregate-interval", 1, MOST)?;
                self.aggregate_interval = Some(seconds.into());
            }
            "continue-on-error" => self.continue_on_error = true,
            "exit-on-abort" => self.exit_on_abort = true,
            "failures-detailed" => self.failures_detailed = true,
            "log-prefix" => self.log_prefix = Some(value),
            "max-tries" => {
                self.max_tries = value.parse().map_err(|_| {
                    Refusal::error(format!("invalid number of maximum tries: \"{value}\""))
                })?;
            }
            "progress-timestamp" => self.progress_timestamp = true,
            "random-seed" => self.random_seed = Some(value),
            "sampling-rate" => self.sampling_rate = Some(positive(&value, "sampling rate", 1.0)?),
            "verbose-errors" => self.verbose_errors = true,
            "debug" => self.debug = true,
            "dbname" => self.dbname = Some(value),
            "host" => self.host = Some(value),
            "port" => self.port = Some(value),
            "username" => self.username = Some(value),
            "help" => self.asks = Some(Asks::Help),
            _ => self.asks = Some(Asks::Version),
        }
        Ok(())
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
        let database = self.dbname.as_deref();
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
        let text = if self.initialize && self.for_runs {
            "some of the specified options cannot be used in initialization (-i) mode"
        } else if self.partition_method.is_some() && self.partitions == 0 {
            "--partition-method requires greater than zero --partitions"
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
        } else if let Some(mismatch) = self.interval_mismatch() {
            return Some(mismatch);
        } else if self.progress_timestamp && self.progress.is_none() {
            "--progress-timestamp is allowed only under --progress"
        } else if self.max_tries == 0 && self.time.is_none() && self.latency_limit.is_none() {
            "an unlimited number of transaction tries can only be used with --latency-limit or a duration (-T)"
        } else {
            return None;
        };
        Some(text.to_owned())
    }

    fn interval_mismatch(&self) -> Option<String> {
        let (time, interval) = self.time.zip(self.aggregate_interval)?;
        if interval > time {
            return Some(format!(
                "number of seconds for aggregation ({interval}) must not be higher than test duration ({time})"
            ));
        }
        (time % interval != 0).then(|| {
            format!("duration ({time}) must be a multiple of aggregation interval ({interval})")
        })
    }
}

/// The largest number that pgbench takes.
const MOST: u32 = i32::MAX as u32;

fn too_many(first: &str) -> Refusal {
    Refusal::error(format!(
        "too many command-line arguments (first is \"{first}\")"
    ))
    .hint("Try \"pgbench --help\" for more information.")
}

fn number(text: &str, option: &str, least: u32, most: u32) -> Result<u32, Refusal> {
    let digits = text.trim();
    let digits = digits.strip_prefix(['-', '+']).unwrap_or(digits);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Refusal::error(format!(
            "invalid value \"{text}\" for option {option}"
        )));
    }
    let value = i64::from_str(text.trim()).ok();
    value
        .and_then(|value| u32::try_from(value).ok())
        .filter(|value| (least..=most).contains(value))
        .ok_or_else(|| Refusal::error(format!("{option} must be in range {least}..{most}")))
}

fn positive(text: &str, what: &str, most: f64) -> Result<f64, Refusal> {
    text.trim()
        .parse()
        .ok()
        .filter(|value: &f64| *value > 0.0 && *value <= most)
        .ok_or_else(|| Refusal::error(format!("invalid {what}: \"{text}\"")))
}

fn steps(text: String) -> Result<String, Refusal> {
    if text.trim().is_empty() {
        return Err(Refusal::error("no initialization steps specified"));
    }
    match text.chars().find(|c| *c != ' ' && !STEPS.contains(*c)) {
        Some(odd) => Err(
            Refusal::error(format!("unrecognized initialization step \"{odd}\""))
                .detail(format!("Allowed step characters are: \"{STEPS}\".")),
        ),
        None => Ok(text),
    }
}

fn method(text: String) -> Result<String, Refusal> {
    let known = ["range", "hash"]
        .iter()
        .find(|known| known.eq_ignore_ascii_case(&text));
    match known {
        Some(known) => Ok((*known).to_owned()),
        None => Err(Refusal::error(format!(
            "invalid partition method, expecting \"range\" or \"hash\", got: \"{text}\""
        ))),
    }
}

fn protocol(text: &str) -> Result<Protocol, Refusal> {
    match text {
        "simple" => Ok(Protocol::Simple),
        "extended" => Ok(Protocol::Extended),
        "prepared" => Ok(Protocol::Prepared),
        _ => Err(Refusal::error(format!(
            "invalid query mode (-M): \"{text}\""
        ))),
    }
}

fn definition(text: &str) -> Result<(String, String), Refusal> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => {
            if !valid_name(name) {
                return Err(Refusal::error(format!(
                    "option: invalid variable name: \"{name}\""
                )));
            }
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err(Refusal::error(format!(
            "invalid variable definition: \"{text}\""
        ))),
    }
}

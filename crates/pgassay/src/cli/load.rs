//! The dials of a load, under the names that pgbench's users know.

use clap::{ArgGroup, Args as ClapArgs, ValueEnum};
use pgassay_engine::workload;
use pgassay_engine::workload::sessions;
use pgassay_model::Failure;
use pgassay_model::workload::{self as plan, WorkloadPlan};

use super::kinds::OF_SCRIPTS;
use super::order_entry::OrderEntryArgs;
use super::tables::TablesArgs;

/// What a client does and how, shared by the commands that load a server.
#[derive(Debug, Clone, Default, ClapArgs)]
#[command(group = ArgGroup::new(OF_SCRIPTS).multiple(true))]
pub struct LoadArgs {
    /// Mix in a further script, FILE.sql or a registered workload, by weight (repeatable)
    #[arg(group = OF_SCRIPTS, long = "file", short = 'f', value_name = "SCRIPT[@WEIGHT]")]
    pub files: Vec<String>,
    /// Run a further script by clients of its own, concurrently with the others (repeatable), such as
    /// --concurrent report.sql@2: its throughput and latency are reported by themselves
    #[arg(group = OF_SCRIPTS, long, value_name = "SCRIPT@CLIENTS", conflicts_with = "replay")]
    pub concurrent: Vec<String>,
    /// How statements travel [default: as the workload says, else prepared]
    #[arg(group = OF_SCRIPTS, long, short = 'M', value_enum)]
    pub protocol: Option<Protocol>,
    /// Transactions meant to start a second, over all clients; latency then counts from the intended
    /// start. A rate such as 1000..5000 changes evenly over the window of each trial
    #[arg(group = OF_SCRIPTS, long, short = 'R', value_name = "TPS[..TPS]", value_parser = rate)]
    pub rate: Option<Rate>,
    /// Leave out starts that are later than this, count transactions that take longer as late
    #[arg(group = OF_SCRIPTS, long, short = 'L', value_name = "MS", value_parser = milliseconds)]
    pub latency_limit: Option<f64>,
    /// Tries of a transaction after serialization failures and deadlocks; 0 is without limit
    #[arg(group = OF_SCRIPTS, long, value_name = "N")]
    pub max_tries: Option<u32>,
    /// A new connection for each transaction; its latency includes connecting
    #[arg(group = OF_SCRIPTS, long, short = 'C')]
    pub connect: bool,
    /// Measure each statement
    #[arg(group = OF_SCRIPTS, long, short = 'r')]
    pub per_statement: bool,
    /// Set a variable for the scripts (repeatable)
    #[arg(group = OF_SCRIPTS, long = "define", short = 'D', value_name = "NAME=VALUE", value_parser = definition)]
    pub define: Vec<(String, String)>,
    /// Connections that are open beside the load and do nothing
    #[arg(group = OF_SCRIPTS, long, value_name = "N")]
    pub idle: Option<u32>,
    /// Keep the load threads on CPUs of their own, and a launched server off them: a list such as
    /// 0,4-7, or as many of the last CPUs as there are threads
    #[arg(group = OF_SCRIPTS, long, value_name = "CPUS", num_args = 0..=1, require_equals = true, default_missing_value = "auto")]
    pub pin: Option<Pin>,
    /// Measure also how fast this client is against a peer that answers at once, and mark points
    /// that come near it
    #[arg(group = OF_SCRIPTS, long)]
    pub ceiling: bool,
    /// Wait around each transaction as a person would who types and thinks: of workloads that say how
    /// long, such as order-entry
    #[arg(group = OF_SCRIPTS, long, conflicts_with_all = ["rate", "ceiling"])]
    pub think_times: bool,
    /// Go through the sessions that the workload was made of (from-log --sessions), in place of scripts drawn by weight:
    /// each session's transactions in their order, with their own values
    #[arg(group = OF_SCRIPTS, long, value_enum, value_name = "PACE", num_args = 0..=1, require_equals = true,
          default_missing_value = "original",
          conflicts_with_all = ["files", "rate", "latency_limit", "connect", "ceiling", "think_times"])]
    pub replay: Option<Pace>,
    /// Divide all times of --replay by this: 2 is twice as fast
    #[arg(group = OF_SCRIPTS, long, value_name = "FACTOR", default_value_t = 1.0, value_parser = factor, requires = "replay")]
    pub speed: f64,
    /// Order entry.
    #[command(flatten)]
    pub order_entry: OrderEntryArgs,
    /// The tables.
    #[command(flatten)]
    pub tables: Box<TablesArgs>,
}

/// When recorded transactions begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Pace {
    /// When they began, whatever the server does; latency counts from then
    Original,
    /// When the one before in their session is done and its client has waited as long as it did
    ThinkTimes,
    /// When the one before in their session is done
    Closed,
}

impl Pace {
    fn planned(self) -> plan::Pace {
        match self {
            Self::Original => plan::Pace::Original,
            Self::ThinkTimes => plan::Pace::ThinkTimes,
            Self::Closed => plan::Pace::Closed,
        }
    }
}

/// Which CPUs the load threads get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pin {
    /// As many of the last ones as there are threads.
    Auto,
    /// These.
    Cpus(Vec<usize>),
}

impl Pin {
    /// The CPUs of the client, of those that this process may run on.
    ///
    /// # Errors
    /// Where none are left for the server, or some are not ours.
    pub fn client_cpus(&self, allowed: &[usize], threads: usize) -> Result<Vec<usize>, Failure> {
        let chosen = match self {
            Self::Auto => {
                let count = threads.clamp(1, allowed.len().saturating_sub(1).max(1));
                allowed[allowed.len().saturating_sub(count)..].to_vec()
            }
            Self::Cpus(cpus) => cpus.clone(),
        };
        if let Some(cpu) = chosen.iter().find(|cpu| !allowed.contains(cpu)) {
            return Err(
                Failure::usage(format!("--pin: CPU {cpu} is not one we may use"))
                    .with_remedy(format!("those are: {allowed:?}")),
            );
        }
        if chosen.len() >= allowed.len() {
            return Err(Failure::usage("--pin leaves no CPU for the server")
                .with_remedy("it needs at least two CPUs; leave it out"));
        }
        Ok(chosen)
    }
}

impl std::str::FromStr for Pin {
    type Err = String;

    /// `auto`, or a list of CPU numbers and ranges.
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        let wrong = || format!("`{text}` is no list of CPUs; write 0,4-7");
        let mut cpus = Vec::new();
        for part in text.split(',') {
            let (from, to) = part.split_once('-').unwrap_or((part, part));
            let from: usize = from.trim().parse().map_err(|_| wrong())?;
            let to: usize = to.trim().parse().map_err(|_| wrong())?;
            if from > to || to >= 65_536 {
                return Err(wrong());
            }
            cpus.extend(from..=to);
        }
        cpus.sort_unstable();
        cpus.dedup();
        Ok(Self::Cpus(cpus))
    }
}

/// How statements travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Protocol {
    /// One message with the text
    Simple,
    /// Parse, bind and execute each time
    Extended,
    /// Parse once, then bind and execute
    Prepared,
}

impl Protocol {
    fn name(self) -> &'static str {
        match self {
            Self::Simple => "simple",
            Self::Extended => "extended",
            Self::Prepared => "prepared",
        }
    }
}

impl LoadArgs {
    /// The workload of that name, mixed and turned as these flags say. Its scale is not yet known.
    ///
    /// # Errors
    /// A script that there is not or that has a mistake, or flags that contradict each other.
    pub fn workload(&self, name: &str) -> Result<WorkloadPlan, Failure> {
        let name = self.order_entry.named(name);
        let mut words = vec![name];
        words.extend(self.files.iter().map(String::as_str));
        let concurrent: Vec<&str> = self.concurrent.iter().map(String::as_str).collect();
        let mut plan = workload::find_with(&words, &concurrent)?;
        if let Some(protocol) = self.protocol {
            plan.protocol = protocol.name().to_owned();
        }
        plan.idle = self.idle.unwrap_or(plan.idle);
        plan.dials.rate_tps = self.rate.map(|rate| rate.begin);
        plan.dials.rate_end_tps = self.rate.and_then(|rate| rate.end);
        plan.dials.latency_limit_ms = self.latency_limit;
        plan.dials.max_tries = self.max_tries.or(plan.dials.max_tries);
        plan.dials.think_times = self.think_times;
        if self.think_times && plan.scripts.iter().all(|script| script.pause.is_none()) {
            return Err(Failure::usage(format!(
                "--think-times waits as long as a workload's scripts say, and {name} says nothing of it"
            ))
            .with_remedy("-- @pause SCRIPT KEYING-MS THINKING-MS in its first lines, or \\sleep in a script"));
        }
        if let Some(pace) = self.replay {
            if pace == Pace::Closed && self.speed != 1.0 {
                return Err(Failure::usage(
                    "--speed divides times, and --replay=closed waits for none",
                )
                .with_remedy("leave --speed out, or ask for --replay or --replay=think-times"));
            }
            if plan.own_clients() > 0 {
                return Err(Failure::usage(format!(
                    "{name} gives a script clients of its own (@clients), but --replay replays sessions"
                ))
                .with_remedy("leave --replay out"));
            }
            plan.replay = Some(sessions::plan(&plan, pace.planned(), self.speed)?);
        }
        if plan.data.is_none()
            && let Some(flag) = self.order_entry.first_given()
        {
            return Err(Failure::usage(format!(
                "{flag} is for order-entry, and {name} is another load"
            )));
        }
        // 0 is not known yet.
        plan.scale = self.order_entry.warehouses.unwrap_or(0);
        plan.dials.reconnect = self.connect;
        plan.dials.define.clone_from(&self.define);
        plan.tables = self.tables.tables()?;
        if plan.without_pgbench_tables
            && let Some(flag) = self.tables.first_given()
        {
            return Err(Failure::usage(format!(
                "{name} runs without pgbench's tables, and {flag} says how those are made"
            )));
        }
        if self.max_tries == Some(0) && self.latency_limit.is_none() {
            return Err(
                Failure::usage("--max-tries 0 tries without end where a conflict stays")
                    .with_remedy("add --latency-limit, or give a number of tries"),
            );
        }
        // Once more with the protocol: not every script goes with every one.
        let program = workload::program(&plan)?;
        if self.ceiling && program.has_capture() {
            return Err(Failure::usage(format!(
                "--ceiling runs the scripts against a peer that answers without rows, and {name} goes on from \
                 what it reads (\\gset)"
            ))
            .with_remedy("leave it out"));
        }
        if self.per_statement {
            workload::tell_statements_apart(&mut plan)?;
        }
        Ok(plan)
    }

    /// Refuses what says when and how clients send, for a command that looks at one transaction after the other.
    ///
    /// # Errors
    /// Naming the flag.
    pub fn refuse_behaviour(&self) -> Result<(), Failure> {
        let given = [
            ("--replay", self.replay.is_some()),
            ("--concurrent", !self.concurrent.is_empty()),
            ("--protocol", self.protocol.is_some()),
            ("--idle", self.idle.is_some()),
            ("--rate", self.rate.is_some()),
            ("--latency-limit", self.latency_limit.is_some()),
            ("--max-tries", self.max_tries.is_some()),
            ("--think-times", self.think_times),
            ("--connect", self.connect),
            ("--per-statement", self.per_statement),
            ("--ceiling", self.ceiling),
        ];
        match given.iter().find(|(_, given)| *given) {
            Some((flag, _)) => Err(Failure::usage(format!(
                "{flag} says how clients behave over time, and nothing is timed here"
            ))
            .with_remedy("leave it out")),
            None => Ok(()),
        }
    }

    /// Refuses `--replay`, for a command that goes by something else than recorded sessions.
    ///
    /// # Errors
    /// Where it was given.
    pub fn refuse_replay(&self) -> Result<(), Failure> {
        match self.replay {
            Some(_) => Err(Failure::usage(
                "--replay is for run, and for compare and guard by time",
            )
            .with_remedy("leave it out: the scripts are drawn by their weights then")),
            None => Ok(()),
        }
    }
}

/// Transactions a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// When the window begins, and before.
    pub begin: f64,
    /// When it ends, where the rate changes.
    pub end: Option<f64>,
}

fn rate(text: &str) -> Result<Rate, String> {
    let number = |text: &str| match text.trim().parse::<f64>() {
        Ok(n) if n > 0.0 && n <= 1e9 => Ok(n),
        _ => Err(format!(
            "`{text}` is not a number of transactions a second above 0, or two of them such as 1000..5000"
        )),
    };
    match text.split_once("..") {
        None => Ok(Rate {
            begin: number(text)?,
            end: None,
        }),
        Some((begin, end)) => Ok(Rate {
            begin: number(begin)?,
            end: Some(number(end)?),
        }),
    }
}

fn factor(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(n) if (0.001..=1000.0).contains(&n) => Ok(n),
        _ => Err(format!("`{text}` is not a factor from 0.001 to 1000")),
    }
}

fn milliseconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(n) if n > 0.0 && n <= 86_400_000.0 => Ok(n),
        _ => Err(format!("`{text}` is not a number of milliseconds above 0")),
    }
}

fn definition(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if pgassay_engine::workload::is_variable(name) => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err(format!("`{text}` is not NAME=VALUE")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(flags: &[&str]) -> Result<LoadArgs, clap::Error> {
        crate::cli::parsed(flags)
    }

    #[test]
    fn the_flags_reach_the_plan() {
        let flags = [
            "--file",
            "simple-update@2",
            "--protocol",
            "simple",
            "--rate",
            "250.5",
            "--latency-limit",
            "20",
            "--max-tries",
            "3",
            "--idle",
            "9",
            "--define",
            "a=b=c",
            "--pin=0,1",
            "--ceiling",
            "--connect",
            "--per-statement",
        ];
        let load = parsed(&flags).unwrap();
        let plan = load.workload("select-only").unwrap();
        assert_eq!((plan.protocol.as_str(), plan.idle), ("simple", 9));
        assert_eq!(plan.dials.rate_tps, Some(250.5));
        assert_eq!(plan.dials.rate_end_tps, None);
        let ramp = parsed(&["--rate", "1e3..250.5"]).unwrap();
        let ramp = ramp.workload("select-only").unwrap().dials;
        assert_eq!(
            (ramp.rate_tps, ramp.rate_end_tps),
            (Some(1000.0), Some(250.5))
        );
        assert_eq!(plan.dials.define, [("a".to_owned(), "b=c".to_owned())]);
        assert!(plan.dials.reconnect && plan.dials.per_statement);
        assert_eq!(plan.scripts.len(), 2);
    }

    #[test]
    fn client_and_server_share_no_cpu() {
        let pin = |text: &str| text.parse::<Pin>().unwrap();
        let cpus = |pin: &Pin, threads| pin.client_cpus(&[0, 1, 2, 5], threads).ok();
        assert_eq!(cpus(&pin("auto"), 1), Some(vec![5]));
        assert_eq!(cpus(&pin("auto"), 9), Some(vec![1, 2, 5]));
        assert_eq!(cpus(&pin("0,1-2"), 1), Some(vec![0, 1, 2]));
        assert_eq!(cpus(&pin("0-2,5"), 1), None, "nothing is left");
        assert_eq!(cpus(&pin("7"), 1), None);
        assert!(pin("auto").client_cpus(&[0], 1).is_err());
        for wrong in ["", "x", "3-1", "1-", "0-99999999"] {
            assert!(wrong.parse::<Pin>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn impossible_values_are_refused() {
        for flags in [
            &["--rate", "0"][..],
            &["--rate", "-3"],
            &["--rate", "nan"],
            &["--rate", "5..0"],
            &["--rate", "..5"],
            &["--rate", "5.."],
            &["--rate", "1..2..3"],
            &["--latency-limit", "0"],
            &["--define", "novalue"],
            &["--define", "1x=3"],
            &["--protocol", "copy"],
            &["--speed", "2"],
            &["--replay", "--speed", "0"],
            &["--replay=faster"],
            &["--replay", "--rate", "9"],
        ] {
            assert!(parsed(flags).is_err(), "{flags:?}");
        }
        let endless = parsed(&["--max-tries", "0"]).unwrap();
        assert!(endless.workload("select-only").is_err());
        let unrecorded = parsed(&["--replay"]).unwrap();
        let failure = unrecorded.workload("select-only").unwrap_err();
        assert!(failure.remedy.unwrap().contains("from-log"));
        let closed = parsed(&["--replay=closed", "--speed", "2"]).unwrap();
        let failure = closed.workload("select-only").unwrap_err();
        assert!(failure.remedy.unwrap().contains("leave --speed out"));
    }
}

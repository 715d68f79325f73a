//! Which flags a kind of load takes. Every flag of `run` and `compare` that is not for all of them
//! stands in a group of clap's that says whose it is; `Kind::refuse_others` is the one check, and
//! the help of a kind shows only its own.

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Command};

use pgassay_engine::drivers::kernels;
use pgassay_engine::workload::{self, inserver, order_entry, pgio, scattered_read};

/// What clients run over the wire, and how they behave.
pub const OF_SCRIPTS: &str = "of-scripts";
/// Flags of pgbench's clients: threads, tables, warm-up.
pub const OF_CLIENTS: &str = "of-clients";
/// The scale of tables that are not order entry's.
pub const OF_SCALE: &str = "of-scale";
/// What is varied beside clients.
pub const OF_AXES: &str = "of-axes";
/// Order entry's own.
pub const OF_ORDER_ENTRY: &str = "of-order-entry";
/// How many clients or sessions, and for how long.
pub const OF_SESSIONS: &str = "of-sessions";
/// What lies in tables that pgassay makes to be read.
pub const OF_DATA: &str = "of-data";
/// PGIO's own.
pub const OF_PGIO: &str = "of-pgio";
/// Those of scattered reads.
pub const OF_SCATTERED_READ: &str = "of-scattered-read";
/// A statement in a loop.
pub const OF_LOOPS: &str = "of-loops";
/// How long a lock is held.
pub const OF_LOCKS: &str = "of-locks";
/// Which lightweight locks, and how they are taken.
pub const OF_LWLOCK: &str = "of-lwlock";
/// Which blocks are pinned.
pub const OF_BUFFER_HIT: &str = "of-buffer-hit";
/// Which kernels, and where.
pub const OF_KERNELS: &str = "of-kernels";
/// Which server, and what it is given.
pub const OF_SERVER: &str = "of-server";
/// Sessions beside those inside the server.
pub const OF_COMPANY: &str = "of-company";

/// A kind of load, as far as flags go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Scripts of clients over the wire.
    Clients,
    /// The same, on the tables of order entry.
    OrderEntry,
    /// Sessions that call a primitive inside the server.
    InServer(&'static str),
    /// PGIO's sessions.
    Pgio,
    /// Reads of scattered blocks.
    ScatteredRead,
    /// Threads on kernels, without a server.
    Kernels,
}

/// A group of flags: its name, those who take it, and them in words.
type Group = (&'static str, fn(Kind) -> bool, &'static str);

const GROUPS: &[Group] = &[
    (OF_SCRIPTS, is_clients, WIRE),
    ("TablesArgs", |kind| kind == Kind::Clients, WIRE),
    (
        OF_SCALE,
        |kind| kind == Kind::Clients,
        "clients over the wire, such as select-only; order-entry has --warehouses",
    ),
    (
        OF_ORDER_ENTRY,
        |kind| kind == Kind::OrderEntry,
        "order-entry",
    ),
    (OF_CLIENTS, is_clients, WIRE),
    (OF_AXES, is_clients, WIRE),
    (
        OF_SESSIONS,
        |kind| kind != Kind::ScatteredRead,
        "all workloads but scattered-read, which runs one query at a time",
    ),
    (
        OF_DATA,
        |kind| matches!(kind, Kind::Pgio | Kind::ScatteredRead),
        "pgio and scattered-read",
    ),
    (OF_PGIO, |kind| kind == Kind::Pgio, "pgio"),
    (
        OF_SCATTERED_READ,
        |kind| kind == Kind::ScatteredRead,
        "scattered-read",
    ),
    (
        OF_LOOPS,
        |kind| is_one_of(kind, &["query-loop", "plpgsql-loop"]),
        "query-loop and plpgsql-loop",
    ),
    (
        OF_LOCKS,
        |kind| is_one_of(kind, &["spinlock", "lwlock"]),
        "spinlock and lwlock",
    ),
    (OF_LWLOCK, |kind| is_one_of(kind, &["lwlock"]), "lwlock"),
    (
        OF_BUFFER_HIT,
        |kind| is_one_of(kind, &["buffer-hit"]),
        "buffer-hit",
    ),
    (OF_KERNELS, |kind| kind == Kind::Kernels, "kernels"),
    (OF_SERVER, has_server, SERVER),
    ("ObserveArgs", has_server, SERVER),
    (
        OF_COMPANY,
        |kind| matches!(kind, Kind::InServer(_)),
        "the workloads inside the server",
    ),
];

const OF_RUN_CLIENTS: &str = "\
Examples:
  pgassay run select-only --clients 1..16*2 --time 2 --trials 12
  pgassay run tpcb-like temp:15 --clients 1..64*2 --set huge_pages=on
  pgassay run select-only --env LD_PRELOAD=libjemalloc.so.2 --wrap 'chrt --batch 0'
  pgassay run mine.sql@9 --file other.sql@1 --protocol extended --per-statement
  pgassay run select-only --rate 5000 --latency-limit 20
  pgassay run select-only --rate 1000..9000 --time 60
  pgassay run select-only --concurrent aggregate@1 --clients 1..16*2
  pgassay run select-only --cpus 1..16*2 --clients 32 a server on so many CPUs; then pgassay fit last
  pgassay run tpcb-like --scale 10,100 --shared-buffers 256MB,4GB --clients 8
  pgassay run tpcb-like 'service=staging' --load      in a schema of its own
  pgassay run select-only host=db1 --load --clients 64 --from ssh://c1,ssh://c2,local
  pgassay run select-only ssh://db1/temp:17 --from here    the server there, the load from this machine";
const OF_RUN_ORDER_ENTRY: &str = "\
Examples:
  pgassay run order-entry --warehouses 10 --clients 1..16*2
  pgassay run order-entry --warehouses 10 --procedures
  pgassay run order-entry --warehouses 4 --clients 40 --think-times --time 120 --trials 3
  pgassay compare temp:15 temp:17 --workload order-entry --warehouses 4
  pgassay history --metric new-orders";
const OF_RUN_IN_SERVER: &str = "\
Examples:
  pgassay run primitives               spinlock, LWLock, buffer pin and snapshot over sessions
  pgassay run lwlock --clients 1..64*2 --locks 16 --exclusive-percent 10
  pgassay run buffer-hit --pattern hot --blocks 8 --content-lock
  pgassay run snapshot --idle-sessions 0,500,2000 --committing 1
  pgassay run query-loop --sql 'SELECT abalance FROM accounts WHERE aid = $1' --param int:1:100000";
const OF_RUN_PGIO: &str = "\
Examples:
  pgassay run pgio                                    4 tables of 256 MiB, 4 sessions
  pgassay run pgio --config pgio.conf --clients 4,8,16
  pgassay run pgio --tables 8 --size 1GB --update-pct 60
  pgassay run pgio 'host=db1' --load --setup-only     keep the tables; a later run completes them";
const OF_RUN_SCATTERED_READ: &str = "\
Examples:
  pgassay run scattered-read
  pgassay run scattered-read --size 4GB --only sequential,bitmap
  pgassay run scattered-read --volume iops=3000,mbps=125      what of its volume's limits that uses
  pgassay run scattered-read 'service=shop' --load --relation public.orders
  pgassay run scattered-read temp:17 --from-database 'service=shop' --query 'SELECT …'
  sudo pgassay run scattered-read --read-ahead 0,128,4096";

const OF_RUN_KERNELS: &str = "\
Examples:
  pgassay run kernels                                 all forms of all families
  pgassay run kernels --form lwlock --form spinlock:MCS --clients 1..64*2
  pgassay run kernels --form word --placement siblings --think 200";

const WIRE: &str = "clients over the wire, such as select-only";

const SERVER: &str = "all workloads but kernels, which run without a server";

fn has_server(kind: Kind) -> bool {
    kind != Kind::Kernels
}

fn is_clients(kind: Kind) -> bool {
    matches!(kind, Kind::Clients | Kind::OrderEntry)
}

fn is_one_of(kind: Kind, primitives: &[&str]) -> bool {
    matches!(kind, Kind::InServer(primitive) if primitives.contains(&primitive))
}

/// The registered workloads, for the help of commands that take one.
pub fn workloads() -> String {
    let (pgbench, ours): (Vec<&str>, Vec<&str>) = workload::names()
        .into_iter()
        .partition(|name| workload::is_pgbench(name));
    format!(
        "The workload. pgbench's: {}, or FILE.sql, FILE.sql@weight. Ours: {}. Inside the server, each over \
         sessions: {}. Where bytes come from: {}, {}. On this processor, without a server: {}",
        pgbench.join(", "),
        ours.join(", "),
        inserver::names().join(", "),
        pgio::NAME,
        scattered_read::NAME,
        kernels::NAME,
    )
}

impl Kind {
    /// The kind of the workload of that name: a registered one, `lwlock:shared`, or a script.
    pub fn of(workload: &str) -> Self {
        let name = workload.split_once(':').map_or(workload, |(name, _)| name);
        match name {
            pgio::NAME => Self::Pgio,
            scattered_read::NAME => Self::ScatteredRead,
            kernels::NAME => Self::Kernels,
            order_entry::NAME | order_entry::PROCEDURES => Self::OrderEntry,
            _ => {
                let mut known = inserver::names().into_iter();
                known
                    .find(|known| *known == name)
                    .map_or(Self::Clients, Self::InServer)
            }
        }
    }

    /// How `pgassay run` is told of it.
    fn examples(self) -> &'static str {
        match self {
            Self::Clients => OF_RUN_CLIENTS,
            Self::OrderEntry => OF_RUN_ORDER_ENTRY,
            Self::InServer(_) => OF_RUN_IN_SERVER,
            Self::Pgio => OF_RUN_PGIO,
            Self::ScatteredRead => OF_RUN_SCATTERED_READ,
            Self::Kernels => OF_RUN_KERNELS,
        }
    }

    /// The flags that are not its own, each with those who take it.
    fn others(self, command: &Command) -> Vec<(clap::Id, &'static str)> {
        let others = GROUPS.iter().filter(|(_, takes, _)| !takes(self));
        let flags = |(name, _, whose): &Group| {
            let found = command.get_groups().find(|group| group.get_id() == *name);
            let flags: Vec<_> = found
                .into_iter()
                .flat_map(|group| group.get_args())
                .collect();
            flags
                .into_iter()
                .map(|flag| (flag.clone(), *whose))
                .collect::<Vec<_>>()
        };
        others.flat_map(flags).collect()
    }

    /// Refuses flags that say nothing about this load.
    ///
    /// # Errors
    /// Naming the first of them, and whose it is.
    fn refuse_others(
        self,
        workload: &str,
        command: &Command,
        matches: &ArgMatches,
    ) -> Result<(), clap::Error> {
        for (flag, whose) in self.others(command) {
            if matches.value_source(flag.as_str()) != Some(ValueSource::CommandLine) {
                continue;
            }
            let typed = command.get_arguments().find(|arg| *arg.get_id() == flag);
            return Err(command.clone().error(
                ErrorKind::UnknownArgument,
                format!(
                    "{} does not apply to {workload}: leave it out; it is for {whose}",
                    typed.map(as_typed).unwrap_or_default()
                ),
            ));
        }
        Ok(())
    }
}

/// What stands beside a flag that names recorded runs: their plan is recorded, and any other flag would
/// say something that is not heard.
const RECORDED: [(&str, &[&str]); 4] = [
    ("resume", AGAIN),
    ("repeat", AGAIN),
    ("recorded", &["targets", "metric", "delta", "run_spread"]),
    ("pool", &["targets"]),
];

/// Where and how the recorded plan is measured, which is no part of it.
const AGAIN: &[&str] = &[
    "load",
    "is_copy",
    "scratch",
    "stand_in",
    "observe",
    "allow_shell",
    "from",
    "listen",
    "load_conninfo",
    "volume",
];

/// How a result is shown, and what the program says: of no plan.
const SHOWN: [&str; 8] = [
    "format",
    "output",
    "json",
    "html",
    "pgio_output",
    "quiet",
    "verbose",
    "runs",
];

/// `--clients`, or `TARGET`.
fn as_typed(arg: &clap::Arg) -> String {
    match arg.get_long() {
        Some(long) => format!("--{long}"),
        None => arg.get_id().as_str().to_uppercase(),
    }
}

fn is_typed(matches: &ArgMatches, id: &str) -> bool {
    matches.try_contains_id(id).unwrap_or(false)
        && matches.value_source(id) == Some(ValueSource::CommandLine)
}

/// Refuses flags that a recorded plan would overrule.
///
/// # Errors
/// Naming the first of them.
fn refuse_beside_recorded(command: &Command, matches: &ArgMatches) -> Result<(), clap::Error> {
    let Some((flag, allowed)) = RECORDED.iter().find(|(flag, _)| is_typed(matches, flag)) else {
        return Ok(());
    };
    // A comparison that goes on may take longer than was planned.
    let longer = *flag == "resume";
    let ignored = command.get_arguments().find(|arg| {
        let id = arg.get_id().as_str();
        let heard = id == *flag
            || (longer && id == "minutes")
            || allowed.contains(&id)
            || SHOWN.contains(&id);
        !heard && is_typed(matches, id)
    });
    let Some(ignored) = ignored else {
        return Ok(());
    };
    let typed = as_typed(ignored);
    Err(command.clone().error(
        ErrorKind::ArgumentConflict,
        format!("{typed} does not apply to --{flag}: the recorded plan decides; leave it out"),
    ))
}

/// Commands whose flags depend on the workload, and how that is typed.
const BY_WORKLOAD: [&str; 2] = ["run", "compare"];

/// Refuses flags of another kind of load than the one that was named, and those that a recorded plan
/// would overrule.
///
/// # Errors
/// Naming the first of them, and whose it is.
pub fn refuse_others(program: &mut Command, matches: &ArgMatches) -> Result<(), clap::Error> {
    let Some((name, matches)) = matches.subcommand() else {
        return Ok(());
    };
    if let Some(command) = program.find_subcommand(name) {
        refuse_beside_recorded(command, matches)?;
    }
    if !BY_WORKLOAD.contains(&name) {
        return Ok(());
    }
    // What a recorded run was is not known yet.
    if RECORDED.iter().any(|(flag, _)| is_typed(matches, flag)) {
        return Ok(());
    }
    let workload = matches
        .get_one::<String>("workload")
        .map_or("", String::as_str);
    match program.find_subcommand(name) {
        Some(command) => Kind::of(workload).refuse_others(workload, command, matches),
        None => Ok(()),
    }
}

/// The program as its help describes it: of a command and a workload that were typed, only the flags
/// that go together.
pub fn narrowed(program: Command, typed: &[OsString]) -> Command {
    let words: Vec<&str> = typed
        .iter()
        .skip(1)
        .filter_map(|word| word.to_str())
        .collect();
    let Some((name, rest)) = words.split_first() else {
        return program;
    };
    if !BY_WORKLOAD.contains(name) || !rest.iter().any(|word| ["-h", "--help"].contains(word)) {
        return program;
    }
    let kind = match *name {
        "run" => {
            let mut free = rest
                .iter()
                .filter(|word| !word.starts_with('-'))
                .map(|word| Kind::of(word));
            let first = free.next();
            // A word may be a flag's value.
            first
                .into_iter()
                .chain(free)
                .find(|kind| *kind != Kind::Clients)
                .or(first)
        }
        _ => after_flag(rest).map(Kind::of),
    };
    let Some(kind) = kind else {
        return program;
    };
    // Which flags are in a group is known of a program that was built, and such a one no longer changes.
    let mut built = program.clone();
    built.build();
    let others = built
        .find_subcommand(name)
        .map(|command| kind.others(command));
    program.mut_subcommand(*name, |command| {
        let hide = |command: Command, (flag, _)| command.mut_arg(flag, |arg| arg.hide(true));
        let command = others.into_iter().flatten().fold(command, hide);
        match *name {
            "run" => command.after_help(kind.examples()),
            _ => command,
        }
    })
}

/// What `--workload` or `-w` says.
fn after_flag<'a>(words: &[&'a str]) -> Option<&'a str> {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if let Some(value) = word.strip_prefix("--workload=") {
            return Some(value);
        }
        if ["--workload", "-w"].contains(word) {
            return words.next().copied();
        }
    }
    None
}

//! What was typed: the flags of every command, with their help.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand};

use super::axes::AxesArgs;
use super::build::BuildArgs;
use super::compare_runs::CompareRunsArgs;
use super::diagnose::DiagnoseArgs;
use super::inside::InsideArgs;
use super::io::IoArgs;
use super::kernels::KernelsArgs;
use super::kinds;
use super::load::LoadArgs;
use super::measure::MeasureArgs;
use super::page::PageArgs;
use super::show::ShowArgs;
use super::target::TargetArgs;
use crate::terminal::Verbosity;

const EXAMPLES: &str = "\
Examples:
  pgassay assay                        assay the newest PostgreSQL on this machine
  pgassay assay temp:15 --quick        PostgreSQL 15, in 45 seconds
  pgassay assay 'host=db1 dbname=app'  look at a running server; changes nothing
  pgassay report last                  render the newest run again

Exit codes:
  0 done   1 what was guarded against was found   2 wrong command line or file
  3 the target can't be had   4 measured in part; what there is was kept
  5 comparison inconclusive   6 not comparable   70 a fault of pgassay
  130 Ctrl-C before anything was measured";

/// The performance laboratory for PostgreSQL on every processor.
#[derive(Debug, Parser)]
#[command(name = "pgassay", version, after_help = EXAMPLES, max_term_width = 100)]
pub struct Args {
    /// Flags that every command takes.
    #[command(flatten)]
    pub global: GlobalArgs,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Flags that every command takes.
#[derive(Debug, Clone, ClapArgs)]
pub struct GlobalArgs {
    /// Say nothing but errors and warnings on standard error
    #[arg(long, short, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Show progress even when output is not a terminal, in more detail; assay and run print the whole report, not only
    /// its answer
    #[arg(long, short, global = true)]
    pub verbose: bool,
    /// Directory of recorded runs [default: $PGASSAY_RUNS, or the XDG state directory]
    #[arg(long, global = true, value_name = "DIR")]
    pub runs: Option<PathBuf>,
    /// Carry the command out on another machine: ssh://HOST, or exec:COMMAND (kubectl exec -i …,
    /// docker exec -i …, srun --unbuffered …)
    #[arg(long, global = true, value_name = "PLACE")]
    pub on: Option<String>,
    /// The program to copy to the other machine, if that is of another architecture
    #[arg(long, global = true, value_name = "FILE", hide_short_help = true)]
    pub far_program: Option<PathBuf>,
    /// The whole command line as typed, without passwords, for the record.
    #[arg(skip)]
    pub typed: Vec<String>,
}

impl GlobalArgs {
    /// What the two flags mean together.
    pub fn verbosity(&self) -> Verbosity {
        match (self.quiet, self.verbose) {
            (true, _) => Verbosity::Quiet,
            (_, true) => Verbosity::Verbose,
            _ => Verbosity::Normal,
        }
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Everything about one server, in one report (the main job)
    Assay(Box<AssayArgs>),
    /// What a build is: its compiler, flags, and how its locks, CRC and spin delays are compiled
    Inspect(InspectArgs),
    /// What keeps C and C++ sources, or binaries, from another processor
    Port(super::port::PortArgs),
    /// Audit host and server for what bears on processor, memory and I/O
    Check(super::check::CheckArgs),
    /// Write what check would look at into one file, for others to check
    Collect(super::check::CollectArgs),
    /// Measure one workload over client counts
    Run(Box<RunArgs>),
    /// Which shared cache lines a transaction takes, by name; and with more sessions
    #[command(after_help = super::lines::EXAMPLES)]
    Lines(super::lines::LinesArgs),
    /// Which cache line stops a workload on more processors: bounds, and a prediction
    Walls(super::walls::WallsArgs),
    /// What a cache line takes from each CPU of this machine to each other
    CoreToCore(super::core_to_core::CoreToCoreArgs),
    /// A workload from what your server runs: its logs, or pg_stat_statements
    Workload(super::workload::WorkloadArgs),
    /// Compare servers side by side; verdict and exit code
    Compare(Box<super::compare::CompareArgs>),
    /// What makes a difference: which commit, patch or setting, found by experiment
    Bisect(Box<super::bisect::BisectArgs>),
    /// Build PostgreSQL variants from source: flags, compilers, patches
    Build(BuildArgs),
    /// For CI: two servers compared within minutes, thresholds, JUnit XML and a markdown summary
    Guard(Box<super::guard::GuardArgs>),
    /// A published experiment, or your own from a file: measured here, each statement checked
    Lab(super::lab::LabArgs),
    /// Many hosts: what is wrong on how many, and who differs from its kind
    Fleet(super::fleet::FleetArgs),
    /// A plan for Kubernetes, Slurm or Ansible to run: files with the command line inside
    Deploy(super::deploy::DeployArgs),
    /// Recorded runs as tables in Parquet files, for DuckDB, Spark and others
    Export(super::export::ExportArgs),
    /// Ask the tables that export wrote, in SQL
    Query(super::query::QueryArgs),
    /// When results of the same work changed over many runs
    History(super::history::HistoryArgs),
    /// A patch against its base: built alike, compared over a sweep, a table for a mailing list
    Patch(super::patch::PatchArgs),
    /// List the PostgreSQL installations that a temporary server can be launched from
    Targets(TargetsArgs),
    /// What works on this machine and what not, with the line that mends it
    Doctor(super::doctor::DoctorArgs),
    /// Render recorded runs: text, html, json, markdown, csv
    Report(ReportArgs),
    /// Recorded runs of several machines side by side, scenario by scenario: per core, GHz and price
    CompareRuns(CompareRunsArgs),
    /// Fit the scaling law to a recorded sweep over clients, or over CPUs (run --cpus)
    Fit(FitArgs),
    /// Which known bottleneck it is, and what to do: from a recorded run, or a profile of perf
    Diagnose(DiagnoseArgs),
    /// A running server under its own load: where its time goes, and what holds it back
    Watch(super::watch::WatchArgs),
    /// The far side of a command on another machine
    #[command(hide = true)]
    Far(super::far::FarArgs),
    /// A measurement that runs, in the terminal: what it shows so far, what disturbs it; p pauses it
    Follow(super::follow::FollowArgs),
    /// List, show, pause and remove recorded runs
    Runs(RunsArgs),
    /// The recorded runs in a browser: list, reports, comparisons, history, and what runs now
    Serve(super::serve::ServeArgs),
    /// The recorded runs for assistants, by the Model Context Protocol over standard input
    Mcp(super::mcp::McpArgs),
    /// pgbench's own command line, driven by this load engine; see `pgassay pgbench --help`
    #[command(disable_help_flag = true)]
    Pgbench {
        /// What pgbench would be given
        #[arg(
            trailing_var_arg = true,
            allow_hyphen_values = true,
            value_name = "PGBENCH-OPTIONS"
        )]
        words: Vec<std::ffi::OsString>,
    },
    /// Print the completion script for a shell
    Completions(CompletionsArgs),
    /// Print the manual page (roff)
    #[command(hide = true)]
    Man,
}

/// Arguments of `pgassay assay`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  pgassay assay
  pgassay assay temp:15 --set shared_buffers=1GB --quick
  pgassay assay /usr/local/pgsql --clients 1..64*2
  pgassay assay 'service=staging' --load
  pgassay assay ssh://db1/temp:17      the same on another machine
  pgassay assay --resume last")]
pub struct AssayArgs {
    /// The server.
    #[command(flatten)]
    pub target: TargetArgs,
    /// The trials.
    #[command(flatten)]
    pub measure: MeasureArgs,
    /// Fewer and shorter trials: 45 seconds instead of 3 minutes
    #[arg(long)]
    pub quick: bool,
    /// Go on with an interrupted run: its plan, the trials that are missing
    #[arg(long, value_name = "RUN", conflicts_with_all = ["target", "clients", "time", "trials", "seed", "scale", "quick"])]
    pub resume: Option<String>,
    /// Print the analysis as JSON instead of text
    #[arg(long)]
    pub json: bool,
    /// What is shown in a browser.
    #[command(flatten)]
    pub page: PageArgs,
}

/// Arguments of `pgassay run`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  pgassay run select-only --clients 1..16*2 --time 2 --trials 12
  pgassay run tpcb-like temp:15 --clients 1..64*2 --set huge_pages=on
  pgassay run select-only --env LD_PRELOAD=libjemalloc.so.2 --wrap 'chrt --batch 0'
  pgassay run mine.sql@9 --file other.sql@1 --protocol extended --per-statement
  pgassay run select-only --rate 5000 --latency-limit 20
  pgassay run select-only --rate 1000..9000 --time 60
  pgassay run select-only --concurrent aggregate@1 --clients 1..16*2
  pgassay run select-only --cpus 1..16*2 --clients 32 a server on so many CPUs; then pgassay fit last
  pgassay run tpcb-like 'service=staging' --load      in a schema of its own
  pgassay run select-only ssh://db1/temp:17           on another machine, recorded here
  pgassay run select-only ssh://db1/temp:17 --from here    the server there, the load from this machine
  pgassay run select-only 'exec:kubectl exec -i pg-0 -- // temp'
  pgassay run select-only host=db1 --load --clients 64 --from ssh://c1,ssh://c2,local
  pgassay run primitives               spinlock, LWLock, buffer pin and snapshot over sessions
  pgassay run lwlock --clients 1..64*2 one of them, inside the server
  pgassay run snapshot --idle-sessions 0,500,2000 --committing 1
  pgassay run query-loop --sql 'SELECT abalance FROM accounts WHERE aid = $1' --param int:1:100000
  pgassay run scattered-read           what the kernel reads for scattered blocks
  pgassay run kernels --form spinlock  locks on this processor, without a server
  pgassay run --resume last            the trials that are missing
  pgassay run --repeat last            the same plan again, also where its files are gone")]
pub struct RunArgs {
    /// The registered name of the workload, or its scripts.
    #[arg(
        help = kinds::workloads(),
        value_name = "WORKLOAD",
        default_value = "",
        hide_default_value = true,
        required_unless_present_any = ["resume", "repeat"]
    )]
    pub workload: String,
    /// The server.
    #[command(flatten)]
    pub target: TargetArgs,
    /// The load.
    #[command(flatten)]
    pub load: LoadArgs,
    /// The trials.
    #[command(flatten)]
    pub measure: MeasureArgs,
    /// Axes other than clients.
    #[command(flatten)]
    pub axes: AxesArgs,
    /// Where the bytes come from.
    #[command(flatten)]
    pub io: IoArgs,
    /// Go on with an interrupted run: its plan, the trials that are missing
    #[arg(long, value_name = "RUN", conflicts_with_all = ["workload", "target", "clients", "time", "trials", "seed", "scale"])]
    pub resume: Option<String>,
    /// Run the plan of a recorded run again, on its target, as a new run
    #[arg(long, value_name = "RUN", conflicts_with_all = ["resume", "workload", "target", "clients", "time", "trials", "seed", "scale"])]
    pub repeat: Option<String>,
    /// Let \shell and \setshell in the scripts of the recorded run start programs
    #[arg(long)]
    pub allow_shell: bool,
    /// Print the analysis as JSON instead of text
    #[arg(long)]
    pub json: bool,
    /// What is shown in a browser.
    #[command(flatten)]
    pub page: PageArgs,
    /// What is done inside the server.
    #[command(flatten)]
    pub inside: InsideArgs,
    /// Which kernels.
    #[command(flatten)]
    pub kernels: KernelsArgs,
}

/// Arguments of `pgassay inspect`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  pgassay inspect temp                             the newest PostgreSQL installed here
  pgassay inspect postgresql-17_*_arm64.deb        every program in a package
  pgassay inspect --cpu graviton2 postgres         what it does on Neoverse N1
  pgassay inspect --diff old/postgres new/postgres what changed between two builds
  pgassay inspect --require lse-or-outline,crc32c PACKAGE
  sudo pgassay inspect $(head -1 /var/lib/postgresql/15/main/postmaster.pid)")]
pub struct InspectArgs {
    /// Files, packages (.deb .rpm .whl .jar .zip .tar.*), directories, process ids, targets
    #[arg(value_name = "FILE|PACKAGE|DIR|TARGET|PID")]
    pub inputs: Vec<String>,
    /// Say what runs on this CPU (repeatable); `host` is this machine's
    #[arg(long, value_name = "CPU")]
    pub cpu: Vec<String>,
    /// List the CPUs that --cpu knows
    #[arg(long)]
    pub list_cpus: bool,
    /// What changed from the first of two builds to the second
    #[arg(long)]
    pub diff: bool,
    /// List every atomic instruction with its address, to hold against a disassembler
    #[arg(long)]
    pub addresses: bool,
    /// End with code 1 unless met: lse, outline, lse-or-outline, no-llsc, runs-on-CPU (such as
    /// runs-on-armv8.0), loads-16k, loads-64k, crc32c, spin-delay, bti, pac, full-relro, pie (comma-separated)
    #[arg(long, value_name = "WHAT")]
    pub require: Vec<String>,
    /// How it is shown.
    #[command(flatten)]
    pub show: ShowArgs,
}

/// Arguments of `pgassay targets`.
#[derive(Debug, ClapArgs)]
pub struct TargetsArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `pgassay report`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  pgassay report last
  pgassay report 20261121T03 --format html --output assay.html
  pgassay report last --format csv > trials.csv
  pgassay report RUN RUN --format html --output both.html
Several runs are reported one after the other, in HTML on one page. Runs of scattered-read on several
kernels are held side by side instead.")]
pub struct ReportArgs {
    /// Runs by name, unique prefix, path, `last`, `previous` or `last~2`
    #[arg(value_name = "RUN", required = true)]
    pub run: Vec<String>,
    /// How it is shown.
    #[command(flatten)]
    pub show: ShowArgs,
}

/// Arguments of `pgassay fit`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  pgassay fit last
  pgassay fit 20261121T03 --json
  pgassay run select-only --cpus 1..16*2 --clients 64; pgassay fit last    over CPUs of the server")]
pub struct FitArgs {
    /// A run by name, unique prefix, path, `last`, `previous` or `last~2`
    #[arg(value_name = "RUN")]
    pub run: String,
    /// How it is shown.
    #[command(flatten)]
    pub show: ShowArgs,
}

/// Arguments of `pgassay runs`.
#[derive(Debug, ClapArgs)]
pub struct RunsArgs {
    /// What to do; lists without one
    #[command(subcommand)]
    pub action: Option<RunsAction>,
    /// Print JSON
    #[arg(long, global = true)]
    pub json: bool,
}

/// What `pgassay runs` can do.
#[derive(Debug, Subcommand)]
pub enum RunsAction {
    /// List the recorded runs with their results, newest last
    List,
    /// Show where a run lies and what is in it
    Show {
        /// Name, unique prefix, path, `last`, `previous` or `last~2`
        run: String,
    },
    /// Have a running measurement wait before its next trial
    #[command(after_help = "\
It goes on by itself when the time is up, with `pgassay runs unpause`, or ends with Ctrl-C where it runs. The
time is recorded, and no part of the measurement's own. Two servers that are compared wait together: a pair is
not torn apart.")]
    Pause {
        /// Name, unique prefix, path or `last`
        #[arg(default_value = "last")]
        run: String,
        /// Minutes after which it goes on by itself
        #[arg(long = "for", value_name = "MINUTES", default_value_t = 60.0, value_parser = pause_minutes)]
        at_most: f64,
    },
    /// Have a paused measurement go on
    Unpause {
        /// Name, unique prefix, path or `last`
        #[arg(default_value = "last")]
        run: String,
    },
    /// Remove runs; asks first on a terminal
    Remove {
        /// Names, unique prefixes, `last`, `previous` or `last~2`
        #[arg(required = true)]
        run: Vec<String>,
        /// Do not ask
        #[arg(long, short = 'y')]
        yes: bool,
    },
}

/// Arguments of `pgassay completions`.
#[derive(Debug, ClapArgs)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

fn pause_minutes(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(minutes) if (1.0 / 60.0..=1440.0).contains(&minutes) => Ok(minutes),
        Ok(_) => Err("between a second (0.017) and a day (1440)".to_owned()),
        Err(_) => Err(format!("`{text}` is not a number of minutes")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_sound() {
        Args::command().debug_assert();
    }

    #[test]
    fn absurd_values_are_refused() {
        let wrong: &[&[&str]] = &[
            &["--time", "nan"],
            &["--time", "-1"],
            &["--time", "1e9"],
            &["--trials", "0"],
            &["--clients", "0"],
            &["--scale", "0"],
            &["--threads", "0"],
            &["--seed", "-1"],
        ];
        for flags in wrong {
            let line = ["pgassay", "assay"].iter().chain(flags.iter());
            assert!(Args::try_parse_from(line).is_err(), "{flags:?}");
        }
    }
}

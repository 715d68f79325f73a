//! The flags of `pgassay bisect`.

use std::path::PathBuf;

use clap::{ArgGroup, Args as ClapArgs};
use pgassay_analysis::metrics::MetricId;

use super::kinds::{OF_CLIENTS, OF_SESSIONS};
use super::load::LoadArgs;
use super::metric::metric;
use super::show::ShowArgs;

/// Arguments of `pgassay bisect`.
#[derive(Debug, Clone, ClapArgs)]
#[command(
    group = ArgGroup::new(OF_SESSIONS).multiple(true),
    group = ArgGroup::new(OF_CLIENTS).multiple(true)
)]
#[command(after_help = "\
Examples:
  pgassay bisect old/postgresql.conf new/postgresql.conf
  pgassay bisect default /etc/postgresql/15/main/postgresql.conf --workload tpcb-like
  pgassay bisect 'host=db1' 'host=db2' --ignore ssl --set ssl=off
  pgassay bisect default default --set-b jit=off --set-b work_mem=64kB --set-b enable_indexscan=off
  pgassay bisect a.conf b.conf --server temp:15 --workload mine.sql --metric p99 --minutes 20
  pgassay bisect --resume last

Exit codes: 0 no difference, or B is better; 1 B is worse; 5 not found out; 4 interrupted; 3 a server can't be had")]
pub struct BisectArgs {
    /// Two configurations, each a postgresql.conf file, a running server whose settings are read (it is
    /// not loaded), or `default`
    #[arg(
        value_name = "CONFIG",
        num_args = 2,
        required_unless_present = "resume"
    )]
    pub configs: Vec<String>,
    /// What is launched with them: temp, temp:17, build:NAME, an installation
    #[arg(long, value_name = "TARGET", default_value = "temp")]
    pub server: String,
    /// A setting for both, whatever they say (repeatable)
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub settings: Vec<String>,
    /// A setting for A (repeatable)
    #[arg(long = "set-a", value_name = "NAME=VALUE")]
    pub set_a: Vec<String>,
    /// A setting for B (repeatable)
    #[arg(long = "set-b", value_name = "NAME=VALUE")]
    pub set_b: Vec<String>,
    /// Leave a setting out, such as one that the launched server can't have (repeatable)
    #[arg(long, value_name = "NAME")]
    pub ignore: Vec<String>,
    /// What the clients do: select-only, tpcb-like, aggregate, FILE.sql and others of pgassay run
    #[arg(
        long,
        short = 'w',
        value_name = "WORKLOAD",
        default_value = "select-only"
    )]
    pub workload: String,
    /// How the clients behave.
    #[command(flatten)]
    pub dials: LoadArgs,
    /// What is compared [default: throughput]
    #[arg(long, value_name = "METRIC", value_parser = metric())]
    pub metric: Option<MetricId>,
    /// The smallest effect that matters
    #[arg(long, value_name = "PERCENT", default_value = "2%", value_parser = super::compare::percent)]
    pub delta: f64,
    /// The time that the search may take
    #[arg(long, value_name = "MINUTES", default_value_t = 30.0, value_parser = super::compare::minutes)]
    pub minutes: f64,
    /// Pairs of a block: two servers started together
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(10..=10_000))]
    pub pairs: u32,
    /// Clients [default: twice the CPUs]
    #[arg(group = OF_SESSIONS, long, short = 'c', value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub clients: Option<u32>,
    /// Counted seconds of a slice [default: 0.2; 0.5 for workloads that write]
    #[arg(group = OF_SESSIONS, long, short = 'T', value_name = "SECONDS", value_parser = super::args::seconds)]
    pub time: Option<f64>,
    /// Uncounted seconds before each slice [default: 0.05]
    #[arg(group = OF_CLIENTS, long, value_name = "SECONDS", value_parser = super::args::seconds_or_zero)]
    pub warmup: Option<f64>,
    /// Threads that drive the clients [default: a quarter of the CPUs]
    #[arg(group = OF_CLIENTS, long, short = 'j', value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: Option<u32>,
    /// Scale of the pgbench tables, 100,000 rows each [default: by memory and cache]
    #[arg(group = OF_CLIENTS, long, short = 's', value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub scale: Option<u32>,
    /// Seed of the order and of the clients' random numbers [default: drawn and recorded]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Directory for temporary clusters; not on tmpfs [default: below /var/tmp]
    #[arg(long, value_name = "DIR")]
    pub scratch: Option<PathBuf>,
    /// Use the archived PostgreSQL from Maven Central where a version is not installed
    #[arg(long)]
    pub stand_in: bool,
    /// Go on with an interrupted search
    #[arg(long, value_name = "RUN", conflicts_with = "configs")]
    pub resume: Option<String>,
    /// How it is shown.
    #[command(flatten)]
    pub show: ShowArgs,
}

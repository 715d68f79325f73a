//! The flags of `pgassay bisect`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};
use pgassay_analysis::metrics::MetricId;

use super::metric::metric;
use super::show::ShowArgs;
use super::sides::SidesArgs;

/// Arguments of `pgassay bisect`.
#[derive(Debug, Clone, Default, ClapArgs)]
#[command(after_help = "\
Examples:
  pgassay bisect --good REL_17_4 --bad REL_17_STABLE           which commit, in a checkout of PostgreSQL
  pgassay bisect --good v1 --bad HEAD ~/src/postgresql --workload mine.sql --by time --minutes 120
  pgassay bisect ~/src/postgresql v7-000*.patch                 what each patch of a series brings
  pgassay bisect old/postgresql.conf new/postgresql.conf        which setting
  pgassay bisect default /etc/postgresql/15/main/postgresql.conf --workload tpcb-like
  pgassay bisect 'host=db1' 'host=db2' --ignore ssl --set ssl=off
  pgassay bisect default default --set-b jit=off --set-b work_mem=64kB --set-b enable_indexscan=off
  pgassay bisect temp:15 temp:17 --set-b jit=off --env-b GLIBC_TUNABLES=glibc.malloc.hugetlb=1
  pgassay bisect old-host.json /etc/postgresql/17/main/postgresql.conf   facts of pgassay collect
  pgassay bisect a.conf b.conf --server temp:15 --workload mine.sql --metric p99 --minutes 20
  pgassay bisect --resume last

Exit codes: 0 no difference, or B is better; 1 B is worse; 5 not found out; 4 interrupted; 3 a server can't be had")]
#[command(mut_args = super::sides::of_two)]
#[command(mut_arg("clients", |arg| arg.value_name("N").help("Clients [default: twice the CPUs]")))]
pub struct BisectArgs {
    /// A and B, each a postgresql.conf file, a file of pgassay collect, a running server whose settings are
    /// read (it is not loaded), what is launched (temp:17, build:NAME, an installation), or `default`. With --good and --bad: the git repository [default: .]. With patches: the
    /// source that they are for, and the patches in order
    #[arg(value_name = "CONFIG|TARGET|SOURCE|PATCH")]
    pub subjects: Vec<String>,
    /// The commit before the change
    #[arg(long, value_name = "REF", requires = "bad")]
    pub good: Option<String>,
    /// A commit with the change
    #[arg(long, value_name = "REF", requires = "good")]
    pub bad: Option<String>,
    /// Name a merge as one step; do not search in the branch that it brought
    #[arg(long, requires = "good")]
    pub first_parent: bool,
    /// The patches of a directory, in the order of their names
    #[arg(long, value_name = "DIR", conflicts_with = "good")]
    pub series: Option<PathBuf>,
    /// The commit, tag or branch that the patches are for
    #[arg(long = "ref", value_name = "REF", conflicts_with = "good")]
    pub git_ref: Option<String>,
    /// Measure what every step brings, instead of searching [default with patches]
    #[arg(long)]
    pub each: bool,
    /// What steps are compared by
    #[arg(long, value_enum, default_value_t = ByArg::Auto)]
    pub by: ByArg,
    /// How all commits are built: presets, cc=, cflags=, options= as in pgassay build --variant
    #[arg(long, value_name = "'[PRESET…] [KEY=VALUE…]'", default_value = "")]
    pub variant: String,
    /// Compile this many files at a time [default: the CPUs that may be used]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub jobs: Option<u32>,
    /// What is launched where a side names only settings: temp, temp:17, build:NAME, an installation
    #[arg(long, value_name = "TARGET", default_value = "temp")]
    pub server: String,
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
    /// What is compared by time [default: throughput]
    #[arg(long, value_name = "METRIC", value_parser = metric())]
    pub metric: Option<MetricId>,
    /// The smallest effect that matters [default: 2%; 0.5% of counted instructions]
    #[arg(long, value_name = "PERCENT", value_parser = super::values::percent)]
    pub delta: Option<f64>,
    /// The time that the search may take
    #[arg(long, value_name = "MINUTES", default_value_t = 30.0, value_parser = super::values::minutes)]
    pub minutes: f64,
    /// Pairs of a block: two servers started together
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(10..=10_000))]
    pub pairs: u32,
    /// Go on with an interrupted search
    #[arg(long, value_name = "RUN", conflicts_with_all = ["subjects", "good", "series"])]
    pub resume: Option<String>,
    /// The servers and their load.
    #[command(flatten)]
    pub sides: SidesArgs,
    /// How it is shown.
    #[command(flatten)]
    pub show: ShowArgs,
}

/// What steps are compared by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum ByArg {
    /// Counted instructions where the workload only reads and they show a difference, else time
    #[default]
    Auto,
    /// Instructions per transaction
    Instructions,
    /// --metric, in interleaved pairs
    Time,
}

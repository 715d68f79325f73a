//! The flags of `pgassay compare`.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use pgassay_analysis::metrics::MetricId;
use pgassay_model::Failure;
use pgassay_model::workload::WorkloadPlan;

use super::axes::AxesArgs;
use super::from::{FromList, WayArgs};
use super::io::DataArgs;
use super::kinds::OF_CLIENTS;
use super::metric::metric;
use super::observe::ObserveArgs;
use super::show::ShowArgs;
use super::sides::{PairsArgs, SidesArgs};

/// Arguments of `pgassay compare`.
#[derive(Debug, Clone, Default, ClapArgs)]
#[command(after_help = "\
Examples:
  pgassay compare temp:15 temp:17
  pgassay compare temp temp --set-a huge_pages=on --set-b huge_pages=off
  pgassay compare /opt/pg-O0 /opt/pg-O2 --launches 20 --delta 2%
  pgassay compare temp:15 temp:17 --clients 1,2,4,8 --minutes 20
  pgassay compare temp temp --env-b GLIBC_TUNABLES=glibc.malloc.hugetlb=1
  pgassay compare temp temp temp --cpus-a 0 --cpus-b 0-1 --cpus-c 0-3
  pgassay compare temp:15 temp:17 --cpus 1..16*2 --clients 32     over CPUs of the servers; then pgassay fit last
  pgassay compare temp:15 temp:17 --scale 10,100 --shared-buffers 256MB,4GB
  pgassay compare temp:15 temp:17 --metric p99 --delta 5%
  pgassay compare temp:15 temp:17 --workload lwlock:shared --clients 2,8
  pgassay compare temp:15 temp:17 --workload pgio --size 1GB --clients 8
  pgassay compare temp:15 build:mine --by instructions --delta 0.1%
  pgassay compare build:llsc-aarch64 build:lse-aarch64 --by instructions --host aarch64     emulated, counted
  pgassay compare temp:15 build:mine --by lines     which shared cache lines a transaction takes in each
  pgassay compare temp temp                 an A/A run: what this machine calls different by itself
  pgassay compare last previous             two recorded runs, which were not interleaved
  pgassay compare --pool RUN RUN FILE.json  one comparison measured several times, on any machines
  pgassay compare --resume last

Exit codes: 0 answered, no slowdown; 1 slower, or worse; 5 inconclusive; 6 not comparable; 4 measured in part")]
pub struct CompareArgs {
    /// What to compare, A first, in any form that other commands take for a target. With --recorded:
    /// two runs, each a name, or several separated by commas; two names of runs are taken as such
    /// without it. With --pool: two runs or more
    #[arg(value_name = "TARGET")]
    pub targets: Vec<String>,
    /// What the clients do; or a primitive inside launched servers, such as spinlock, lwlock:shared,
    /// buffer-hit:uniform, snapshot; or pgio, scattered-read, scattered-read:sequential: then --clients
    /// are sessions
    #[arg(
        long,
        short = 'w',
        value_name = "WORKLOAD",
        default_value = "select-only"
    )]
    pub workload: String,
    /// What pgio and scattered-read read.
    #[command(flatten)]
    pub data: DataArgs,
    /// What is compared: time, counted instructions (one client, read-only; by the processor's
    /// counter where there is one, else under valgrind), or the shared cache lines that a transaction takes
    #[arg(long, value_enum, default_value_t = By::Time, conflicts_with_all = ["resume", "recorded"])]
    pub by: By,
    /// With --by instructions: the processor that the servers are of, one for both or A's and B's, each with a model
    /// if need be: aarch64, ppc64le, aarch64:cortex-a53,aarch64:max. They run in qemu's user emulator
    #[arg(long, value_name = "LIST", conflicts_with_all = ["resume", "recorded", "pool"])]
    pub host: Option<String>,
    /// With --host: the root of a system for that processor, where the servers' libraries are [default: the
    /// cross-compilers' C library]
    #[arg(long, value_name = "DIR", requires = "host")]
    pub sysroot: Option<PathBuf>,
    /// Axes other than clients.
    #[command(flatten)]
    pub axes: AxesArgs,
    /// What the verdict, the exit code, --delta and the number of pairs are about [default:
    /// throughput; with --replay at the original pace p99]
    #[arg(long, value_name = "METRIC", value_parser = metric(), conflicts_with_all = ["by", "resume", "pool"])]
    pub metric: Option<MetricId>,
    /// The smallest difference that matters; 0 leaves only faster, slower and inconclusive
    #[arg(long, value_name = "PERCENT", default_value = "1%", value_parser = super::values::percent, allow_hyphen_values = true)]
    pub delta: f64,
    /// The time that the whole may take, whatever else is given; fewer pairs are taken where the noise
    /// floor allows [default: 10; with --pairs as long as these take]
    #[arg(long, value_name = "MINUTES", value_parser = super::values::minutes)]
    pub minutes: Option<f64>,
    /// Stop as soon as planned looks allow, at the same rate of false alarms
    #[arg(long, conflicts_with_all = ["launches", "pairs"])]
    pub sequential: bool,
    /// Machines that the load comes from, each with an equal share of the clients, separated by commas: local
    /// (the servers'), here (where this is typed), ssh://user@host, exec:COMMAND [default: the measuring process]
    #[arg(group = OF_CLIENTS, long, value_name = "LIST")]
    pub from: Option<FromList>,
    /// How they reach the servers.
    #[command(flatten)]
    pub ways: WayArgs,
    /// Go on with an interrupted comparison
    #[arg(long, value_name = "RUN", conflicts_with_all = ["targets", "recorded", "pool"])]
    pub resume: Option<String>,
    /// Hold recorded runs against each other, and say what that is worth
    #[arg(long, conflicts_with = "from_database")]
    pub recorded: bool,
    /// With --recorded: how far equal runs are known to lie apart (a standard deviation)
    #[arg(long, value_name = "PERCENT", value_parser = super::values::percent, requires = "recorded")]
    pub run_spread: Option<f64>,
    /// Take the pairs of recorded comparisons of one plan together; each is a run, its directory, or
    /// what compare --json printed elsewhere
    #[arg(long, conflicts_with_all = ["recorded", "resume", "by", "from_database"])]
    pub pool: bool,
    /// What is shown in a browser.
    #[command(flatten)]
    pub page: super::page::PageArgs,
    /// What looks at the servers beside the load.
    #[command(flatten)]
    pub observe: ObserveArgs,
    /// The servers and their load.
    #[command(flatten)]
    pub sides: SidesArgs,
    /// The pairs.
    #[command(flatten)]
    pub paired: PairsArgs,
    /// How it is shown.
    #[command(flatten)]
    pub show: ShowArgs,
    /// The load of a recorded run, instead of the workload of that name.
    #[arg(skip)]
    pub recorded_load: Option<Box<WorkloadPlan>>,
    /// Settings for each target, beside those of the flags.
    #[arg(skip)]
    pub set_each: Vec<Vec<String>>,
}

impl CompareArgs {
    /// The time that the whole may take.
    pub fn minutes(&self) -> f64 {
        self.minutes.unwrap_or(10.0)
    }

    /// Refuses what is varied beside clients, where `why` it is not.
    ///
    /// # Errors
    /// Where any of it was typed.
    pub fn refuse_axes(&self, why: &str) -> Result<(), Failure> {
        let AxesArgs {
            cpus,
            smt,
            numa,
            shared_buffers,
        } = &self.axes;
        let one = self
            .sides
            .slices
            .scale
            .as_ref()
            .is_none_or(|list| list.0.len() < 2);
        match one && cpus.is_none() && smt.is_empty() && numa.is_empty() && shared_buffers.is_empty() {
            true => Ok(()),
            false => Err(Failure::usage(format!(
                "--cpus, --smt, --numa, --shared-buffers and several scales are for comparisons by time: {why}"
            ))
            .with_remedy("leave them out; --set gives all servers a setting")),
        }
    }
}

/// What a comparison goes by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum By {
    /// Throughput and CPU time
    #[default]
    Time,
    /// Instructions per transaction: where time is too noisy
    Instructions,
    /// The same under valgrind, with locked instructions and functions
    EmulatedInstructions,
    /// Shared cache lines that a transaction takes, as `pgassay lines A B` counts them
    Lines,
}

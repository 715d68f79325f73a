//! The flags of `pgassay guard`.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use pgassay_analysis::metrics::MetricId;

use super::show::ShowArgs;
use super::sides::{PairsArgs, SidesArgs};

/// Arguments of `pgassay guard`.
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
Examples:
  pgassay guard temp:15 build:mine --minutes 5 --junit guard.xml --markdown summary.md
  pgassay guard origin/master HEAD --source . --instructions 0.5% --bisect commit.md
  pgassay guard build:base build:head -w select-only -w tpcb-like --threshold throughput=3%
  pgassay guard build:base build:head --threshold throughput=3%,p99=10% --instructions 0.5%
  pgassay guard temp:15 temp:17 -w mine.sql --from-database 'host=db1 dbname=app'
  pgassay guard temp temp --set-b shared_buffers=1GB --clients 4

A check fails if HEAD is shown to be worse, and by more than its threshold; it passes if HEAD is shown not to be
worse by more than that.
In the flags, A is BASE and B is HEAD.
Exit codes: 0 all passed; 1 one failed; 5 one unclear; 6 not comparable; 4 measured in part")]
#[command(mut_args = super::sides::of_two)]
pub struct GuardArgs {
    /// What HEAD is held against: build:NAME, temp:17, an installation, a running server (with --load); with
    /// --source a commit, tag or branch
    #[arg(value_name = "BASE")]
    pub base: String,
    /// What is guarded
    #[arg(value_name = "HEAD")]
    pub head: String,
    /// BASE and HEAD are refs of this git repository (directory or URL), which are built
    #[arg(long, value_name = "SOURCE")]
    pub source: Option<String>,
    /// How refs are built: presets, cc=, cflags=, options= as in pgassay build --variant
    #[arg(
        long,
        value_name = "'[PRESET…] [KEY=VALUE…]'",
        default_value = "",
        requires = "source"
    )]
    pub variant: String,
    /// Compile this many files at a time [default: the CPUs that may be used]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub jobs: Option<u32>,
    /// Where a check fails, search for the commit, and write what is found as markdown
    #[arg(
        long,
        value_name = "FILE",
        requires = "source",
        conflicts_with = "from_database"
    )]
    pub bisect: Option<PathBuf>,
    /// The time that this search may take, beyond --minutes
    #[arg(long, value_name = "MINUTES", default_value_t = 60.0, value_parser = super::values::minutes, requires = "bisect")]
    pub bisect_minutes: f64,
    /// A workload (repeatable) [default: select-only]
    #[arg(long = "workload", short = 'w', value_name = "WORKLOAD")]
    pub workloads: Vec<String>,
    /// How much worse a metric may become (repeatable, comma-separated) [default: throughput=3%; with --replay at the
    /// original pace p99=10%]
    #[arg(long = "threshold", value_name = "METRIC=PERCENT", value_delimiter = ',', value_parser = threshold)]
    pub thresholds: Vec<(MetricId, f64)>,
    /// Count instructions, too, of workloads that only read, and allow so many more
    #[arg(long, value_name = "PERCENT", value_parser = super::values::percent)]
    pub instructions: Option<f64>,
    /// The time that everything may take together: builds, starts, counting, measuring
    #[arg(long, value_name = "MINUTES", default_value_t = 10.0, value_parser = super::values::minutes)]
    pub minutes: f64,
    /// Write the checks as JUnit XML
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Write the summary as markdown, such as for a pull request
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
    /// Write HEAD's figures in Bencher's metric format (JSON)
    #[arg(long, value_name = "FILE")]
    pub bencher: Option<PathBuf>,
    /// Add HEAD's figures as a line to CSV files in this directory, and describe them for Apache Otava in
    /// otava.yaml
    #[arg(long, value_name = "DIR")]
    pub otava: Option<PathBuf>,
    /// The servers and their load.
    #[command(flatten)]
    pub sides: SidesArgs,
    /// The pairs.
    #[command(flatten)]
    pub paired: PairsArgs,
    /// How it is shown.
    #[command(flatten)]
    pub show: ShowArgs,
}

/// `throughput=3%`.
fn threshold(text: &str) -> Result<(MetricId, f64), String> {
    let (metric, percent) = text
        .split_once('=')
        .ok_or_else(|| format!("`{text}` is no threshold, such as throughput=3%"))?;
    let metric = MetricId::find(metric.trim()).map_err(|error| error.to_string())?;
    Ok((metric, super::values::percent(percent)?))
}

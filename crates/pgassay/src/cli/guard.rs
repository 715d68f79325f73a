//! The flags of `pgassay guard`.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use pgassay_analysis::metrics::MetricId;

use super::show::ShowArgs;

/// Arguments of `pgassay guard`.
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
Examples:
  pgassay guard temp:15 build:mine --minutes 5 --junit guard.xml --markdown summary.md
  pgassay guard build:base build:head -w select-only -w tpcb-like --threshold throughput=3%
  pgassay guard build:base build:head --threshold throughput=3%,p99=10% --instructions 0.5%
  pgassay guard temp temp -- --set-b shared_buffers=1GB --clients 4

A check fails if HEAD is shown to be worse, and by more than its threshold; it passes if HEAD is shown not to be
worse by more than that. What follows -- is for pgassay compare.
Exit codes: 0 all passed; 1 one failed; 5 one unclear; 6 not comparable; 4 measured in part")]
pub struct GuardArgs {
    /// What HEAD is held against: build:NAME, temp:17, an installation, a running server (with -- --load)
    #[arg(value_name = "BASE")]
    pub base: String,
    /// What is guarded
    #[arg(value_name = "HEAD")]
    pub head: String,
    /// A workload (repeatable) [default: select-only]
    #[arg(long = "workload", short = 'w', value_name = "WORKLOAD")]
    pub workloads: Vec<String>,
    /// How much worse a metric may become (repeatable, comma-separated) [default: throughput=3%]
    #[arg(long = "threshold", value_name = "METRIC=PERCENT", value_delimiter = ',', value_parser = threshold)]
    pub thresholds: Vec<(MetricId, f64)>,
    /// Count instructions, too, of workloads that only read, and allow so many more
    #[arg(long, value_name = "PERCENT", value_parser = super::compare::percent)]
    pub instructions: Option<f64>,
    /// The time that all workloads may take together, without counting instructions
    #[arg(long, value_name = "MINUTES", default_value_t = 10.0, value_parser = super::compare::minutes)]
    pub minutes: f64,
    /// Write the checks as JUnit XML
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Write the summary as markdown, such as for a pull request
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
    /// How it is shown.
    #[command(flatten)]
    pub show: ShowArgs,
    /// Flags of pgassay compare
    #[arg(last = true, value_name = "COMPARE-FLAGS")]
    pub compare: Vec<String>,
}

/// `throughput=3%`.
fn threshold(text: &str) -> Result<(MetricId, f64), String> {
    let (metric, percent) = text
        .split_once('=')
        .ok_or_else(|| format!("`{text}` is no threshold, such as throughput=3%"))?;
    let metric = MetricId::find(metric.trim()).map_err(|error| error.to_string())?;
    Ok((metric, super::compare::percent(percent)?))
}

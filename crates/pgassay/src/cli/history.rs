//! The flags of `pgassay history`.

use clap::Args as ClapArgs;
use pgassay_analysis::metrics::MetricId;

use super::metric::metric;
use super::show::ShowArgs;

/// Arguments of `pgassay history`.
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
Examples:
  pgassay history ~/.local/state/pgassay/runs
  pgassay history ci-runs/ --magnitude 3% --format html --output history.html
  pgassay history ci-runs/ --metric p99 --magnitude 10%
  pgassay history years/                          tables that pgassay export wrote
  pgassay history run-1 run-2 run-3 run-4 run-5 run-6 --json

Exit codes: 0 no change, or the latest was for the better; 1 the latest change was for the worse")]
pub struct HistoryArgs {
    /// Directories of runs or of exported tables, or runs by name, unique prefix or path. Those that did other work than
    /// the latest are left out and named
    #[arg(value_name = "DIR|RUN", required = true)]
    pub named: Vec<String>,
    /// The smallest change that is reported
    #[arg(long, value_name = "PERCENT", default_value = "2%", value_parser = super::values::percent)]
    pub magnitude: f64,
    /// Metrics to follow (repeatable, comma-separated) [default: throughput,server-cpu]
    #[arg(long = "metric", value_name = "METRIC", value_delimiter = ',', value_parser = metric())]
    pub metrics: Vec<MetricId>,
    /// How it is shown.
    #[command(flatten)]
    pub show: ShowArgs,
}

//! The flags of `pgassay compare-runs`.

use clap::Args as ClapArgs;

use super::show::ShowArgs;
use super::values::percent;

/// Arguments of `pgassay compare-runs`.
#[derive(Debug, Clone, Default, ClapArgs)]
#[command(after_help = "\
Examples:
  pgassay compare-runs graviton-runs epyc-runs          two directories of runs, one a machine
  pgassay compare-runs fetched/graviton fetched/epyc    two directories of hosts: HOST/runs/RUN
  pgassay compare-runs RUN-A RUN-B --html machines.html
  pgassay compare-runs RUN-A1,RUN-A2 RUN-B1,RUN-B2      several runs a side
  pgassay compare-runs RUN-A RUN-B --price-a '0.154 USD/h' --price-b '0.192 USD/h'
  pgassay compare-runs RUN-A RUN-B --ghz-b 3.0          where the kernel does not say it
  pgassay compare-runs here/labs/LAB there/labs/LAB     two labs of one plan, stage by stage
  pgassay compare-runs --table fleet/*/runs             any number of machines, a row each
  pgassay compare-runs --table DIR DIR --scenario 'tpcb-like, most' --html machines.html

To measure servers against each other on one machine, interleaved and with a verdict: pgassay compare.")]
pub struct CompareRunsArgs {
    /// A machine's runs, A first, two to eight: a run, several with commas between, a directory of runs, or one
    /// of hosts; or of labs the directory of each
    #[arg(value_name = "RUNS", required = true)]
    pub sides: Vec<String>,
    /// Any number of runs and labs in one table instead, a row each: processor, build, figure with interval, where
    /// it is from
    #[arg(long, conflicts_with_all = ["price_a", "price_b", "price_c", "price_d", "ghz_a", "ghz_b", "ghz_c", "ghz_d", "run_spread"])]
    pub table: bool,
    /// A scenario whose figures stand in the table, by its name in a report (repeatable) [default: that of
    /// the whole machine which most runs have]
    #[arg(long, value_name = "NAME", requires = "table")]
    pub scenario: Vec<String>,
    /// What the machine of A costs, such as '0.154 USD/h'
    #[arg(long, value_name = "PRICE")]
    pub price_a: Option<String>,
    /// What the machine of B costs
    #[arg(long, value_name = "PRICE")]
    pub price_b: Option<String>,
    /// What the machine of C costs
    #[arg(long, value_name = "PRICE")]
    pub price_c: Option<String>,
    /// What the machine of D costs
    #[arg(long, value_name = "PRICE")]
    pub price_d: Option<String>,
    /// The clock of A's cores in GHz, in place of what its kernel said
    #[arg(long, value_name = "GHZ", value_parser = ghz)]
    pub ghz_a: Option<f64>,
    /// The clock of B's cores in GHz
    #[arg(long, value_name = "GHZ", value_parser = ghz)]
    pub ghz_b: Option<f64>,
    /// The clock of C's cores in GHz
    #[arg(long, value_name = "GHZ", value_parser = ghz)]
    pub ghz_c: Option<f64>,
    /// The clock of D's cores in GHz
    #[arg(long, value_name = "GHZ", value_parser = ghz)]
    pub ghz_d: Option<f64>,
    /// How far equal runs are known to lie apart (a standard deviation); without it 10 % count as
    /// no difference
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub run_spread: Option<f64>,
    /// How it is shown.
    #[command(flatten)]
    pub show: ShowArgs,
}

fn ghz(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(ghz) if (0.1..=20.0).contains(&ghz) => Ok(ghz),
        _ => Err("a clock from 0.1 to 20 GHz".to_owned()),
    }
}

//! The flags of `pgassay core-to-core`.

use clap::Args as ClapArgs;

use super::show::ShowArgs;

/// Arguments of `pgassay core-to-core`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  pgassay core-to-core                        every pair of this machine's CPUs
  pgassay core-to-core --cpus 0,1,64          these three
  pgassay core-to-core --json -o here.json    for pgassay walls --map here.json

Two threads, each on its CPU, hand one word to and fro. It takes about 20 ms a pair:
a second on 10 CPUs, six minutes on 192.")]
pub struct CoreToCoreArgs {
    /// Between which CPUs [default: all that this program may use]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub cpus: Vec<usize>,
    /// How it is shown.
    #[command(flatten)]
    pub show: ShowArgs,
}

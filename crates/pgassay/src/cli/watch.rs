//! The flags of `pgassay watch`.

use clap::Args as ClapArgs;

use super::observe::ObserveArgs;
use super::show::ShowArgs;

/// Arguments of `pgassay watch`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Nothing is written on the server, and no load is added. Run it on the server's machine, over its Unix
socket, as root or as the server's user, so that the kernel's account of its processes can be read.

Examples:
  pgassay watch 'host=/var/run/postgresql dbname=app'      a minute, again and again until Ctrl-C
  pgassay watch 'service=app' --time 10 --count 1          ten seconds, once
  pgassay watch 'service=app' --html now.html              a page, written anew after each window
  pgassay watch 'service=app' --count 1 --json | jq '.observed.points[0].statements'")]
pub struct WatchArgs {
    /// The URI or conninfo of a running server; the database that it names is the one whose
    /// statements and tables are looked at
    #[arg(value_name = "TARGET")]
    pub target: String,
    /// Seconds of a window
    #[arg(long, short = 'T', value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub time: u32,
    /// Windows [default: until Ctrl-C]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub count: Option<u32>,
    /// What is looked at: waits, sched, perf, pmu, all (comma-separated) [default: waits,sched]
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',')]
    pub observe: Vec<super::observe::Observer>,
    /// How it is shown.
    #[command(flatten)]
    pub show: ShowArgs,
}

impl WatchArgs {
    /// The observers that were typed.
    pub fn observe(&self) -> ObserveArgs {
        ObserveArgs {
            observe: self.observe.clone(),
        }
    }
}

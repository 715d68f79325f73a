//! The flags of `pgassay walls`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use super::lines::LinesArgs;

/// Arguments of `pgassay walls`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  pgassay walls --cpu graviton2
  pgassay walls temp:18 --stand-in --cpu epyc7r13 --at 64,128,192
  pgassay walls --workload tpcb-like --transfer-ns 60
  pgassay walls --map there.json --cpu-us 12 --slower 8:1.1,16:1.5 --at 1,2,4,8,16
  pgassay walls --map there.json       measured there: pgassay core-to-core --json -o there.json
  pgassay walls --list-cpus

A session is stepped as by `pgassay lines`; the flags are the same.")]
pub struct WallsArgs {
    /// The processor whose published times of a transfer are used; see --list-cpus
    #[arg(long, value_name = "CPU", required_unless_present_any = ["map", "transfer_ns", "list_cpus"])]
    pub cpu: Option<String>,
    /// The times of a machine, as pgassay core-to-core --json wrote them there
    #[arg(long, value_name = "FILE", conflicts_with_all = ["cpu", "transfer_ns"])]
    pub map: Option<PathBuf>,
    /// Nanoseconds that a cache line takes from one processor to another, as measured there
    #[arg(long, value_name = "NS", conflicts_with = "cpu", value_parser = nanoseconds)]
    pub transfer_ns: Option<f64>,
    /// Microseconds of CPU time of a transaction on that processor [default: as measured here]
    #[arg(long, value_name = "US", value_parser = nanoseconds)]
    pub cpu_us: Option<f64>,
    /// How many times longer that is where so many sessions run at once, as siblings of a core and a
    /// clock that falls make it: 8:1.1,16:1.6
    #[arg(long, value_name = "N:TIMES,…", value_delimiter = ',', value_parser = slowdown)]
    pub slower: Vec<(usize, f64)>,
    /// List the processors that --cpu knows, with the sources
    #[arg(long)]
    pub list_cpus: bool,
    /// What is recorded.
    #[command(flatten)]
    pub lines: LinesArgs,
}

fn slowdown(text: &str) -> Result<(usize, f64), String> {
    let read = text
        .split_once(':')
        .and_then(|(sessions, times)| Some((sessions.parse().ok()?, times.parse().ok()?)));
    match read {
        Some((sessions @ 1.., times)) if (1.0..=100.0).contains(&times) => Ok((sessions, times)),
        _ => Err("SESSIONS:TIMES, as 16:1.6".to_owned()),
    }
}

fn nanoseconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && value > 0.0 && value < 1e9 => Ok(value),
        _ => Err("a number above 0".to_owned()),
    }
}

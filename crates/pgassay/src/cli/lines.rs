//! The flags of `pgassay lines`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use super::compare::CompareArgs;
use super::show::ShowArgs;
use pgassay_model::Failure;

/// What stands below the help of `pgassay lines`, not below that of commands with its flags.
pub const EXAMPLES: &str = "\
Examples:
  pgassay lines                                 a select of PostgreSQL's own benchmark
  pgassay lines temp:17 --workload tpcb-like
  pgassay lines -w buffer-hit:hot-block         a loop inside the server, an operation
  pgassay lines temp:15 temp:18 --stand-in      what a version adds and takes off
  pgassay lines --workload mine.sql --html lines.html
  pgassay lines /srv/arm64/usr/lib/postgresql/15   a server of another processor, emulated
  pgassay lines 'host=/run/postgresql dbname=app' --load
  pgassay lines 'host=/run/postgresql dbname=app' --sample 10 --json > big.json   perf's samples, by name
  pgassay lines --sampled big.json              counted here, beside what was sampled there

A session of the server is stepped, instruction by instruction: it is some 100,000 times slower
meanwhile, and holds the locks that it takes for as long. Needs root, or to be the server's user. On arm64
and POWER only servers that lines launches are stepped.";

/// Sessions that are recorded.
const SESSIONS: u32 = 2;
/// Sessions at which transfers are computed.
const AT: &str = "1,2,4,8,16,32,64,128,256,384";

/// Arguments of `pgassay lines`.
#[derive(Debug, ClapArgs)]
pub struct LinesArgs {
    /// The server, or two to compare: temp (default), temp:17, an installation, build:NAME, or the
    /// conninfo of a running server on this machine
    #[arg(value_name = "TARGET", num_args = 0..=2)]
    pub targets: Vec<String>,
    /// What the session executes: select-only, tpcb-like …, FILE.sql; or a loop inside the server:
    /// query-loop, buffer-hit:hot-block, lwlock:shared …
    #[arg(
        long,
        short = 'w',
        value_name = "WORKLOAD",
        default_value = "select-only"
    )]
    pub workload: String,
    /// Transactions of each recorded session; operations of a loop [default: 20; 200 of a loop]
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub transactions: Option<u32>,
    /// Sessions that are recorded, one after the other: two show what is shared falsely
    #[arg(long, value_name = "N", default_value_t = SESSIONS, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub sessions: u32,
    /// Sessions at which transfers are computed: 1,2,8 or 1..64*2
    #[arg(
        long,
        value_name = "LIST",
        default_value = AT
    )]
    pub at: super::clients::ClientList,
    /// Bytes of a cache line [default: this machine's, or that of the server's processor]
    #[arg(long, value_name = "BYTES", value_parser = line)]
    pub line_size: Option<u64>,
    /// The processor that the emulator is to be for a server of another one: cortex-a72 has no LSE,
    /// power8 … [default: max for arm64, power9 for ppc64le]
    #[arg(long, value_name = "NAME")]
    pub emulated_cpu: Option<String>,
    /// Scale of the pgbench tables, 100,000 rows each; warehouses of order-entry
    #[arg(long, short = 's', value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub scale: u32,
    /// Seed of random numbers and of interleavings [default: drawn and reported]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// A setting for a launched server (repeatable)
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub settings: Vec<String>,
    /// A setting for the first of two servers (repeatable)
    #[arg(long, value_name = "NAME=VALUE")]
    pub set_a: Vec<String>,
    /// A setting for the second of two servers (repeatable)
    #[arg(long, value_name = "NAME=VALUE")]
    pub set_b: Vec<String>,
    /// Sample accesses to memory for so many seconds by perf, where the processor can, and show them by the
    /// same names: beside the counted ones while clients of ours load the server; alone for a running
    /// server without --load
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub sample: Option<u32>,
    /// Clients that load the server while it is sampled [default: as many as CPUs]
    #[arg(long, value_name = "N", requires = "sample", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub sample_clients: Option<u32>,
    /// Samples that are there: what --sample wrote with --json on another machine, or the text of
    /// perf script about this running server
    #[arg(long, value_name = "FILE", conflicts_with = "sample")]
    pub sampled: Option<PathBuf>,
    /// Allow load on a running server: says what it will create, and removes it afterwards
    #[arg(long)]
    pub load: bool,
    /// Directory for temporary clusters; not on tmpfs [default: below /var/tmp]
    #[arg(long, value_name = "DIR")]
    pub scratch: Option<PathBuf>,
    /// Use the archived PostgreSQL from Maven Central where none is installed
    #[arg(long)]
    pub stand_in: bool,
    /// How it is shown.
    #[command(flatten)]
    pub show: ShowArgs,
}

impl LinesArgs {
    /// What `compare --by lines` asks for.
    ///
    /// # Errors
    /// Naming a flag that is not for lines.
    pub fn of_compare(args: &CompareArgs) -> Result<Self, Failure> {
        let not_for_lines = [
            ("--clients", args.sides.slices.client_counts.is_some()),
            ("--minutes", args.minutes.is_some()),
            ("--pairs", args.paired.pairs.is_some()),
            ("--launches", args.paired.launches.is_some()),
            ("--noise-pairs", args.paired.noise_pairs.is_some()),
            ("--set-c", !args.sides.given.set_c.is_empty()),
            ("--sequential", args.sequential),
            ("--from-database", args.sides.from_database.is_some()),
        ];
        if let Some((flag, _)) = not_for_lines.iter().find(|(_, typed)| *typed) {
            return Err(Failure::usage(format!(
                "{flag} is for comparisons by time: --by lines counts, so that once is enough"
            ))
            .with_remedy("leave it out"));
        }
        args.sides.dials.refuse_behaviour()?;
        args.sides.given.refuse_counted()?;
        args.refuse_axes("--by lines counts")?;
        if args.targets.len() != 2 {
            return Err(Failure::usage(
                "--by lines compares two targets, no more and no fewer",
            ));
        }
        Ok(Self {
            targets: args.targets.clone(),
            workload: args.workload.clone(),
            transactions: None,
            sessions: SESSIONS,
            at: AT.parse().map_err(|why: String| Failure::usage(why))?,
            line_size: None,
            emulated_cpu: None,
            scale: args.sides.slices.one_scale()?.unwrap_or(1),
            seed: args.sides.slices.seed,
            settings: args.sides.given.settings.clone(),
            set_a: args.sides.given.set_a.clone(),
            set_b: args.sides.given.set_b.clone(),
            sample: None,
            sample_clients: None,
            sampled: None,
            load: args.paired.load,
            scratch: args.sides.scratch.clone(),
            stand_in: args.sides.stand_in,
            show: args.show.clone(),
        })
    }
}

fn line(text: &str) -> Result<u64, String> {
    match text.parse::<u64>() {
        Ok(bytes) if bytes.is_power_of_two() && (16..=256).contains(&bytes) => Ok(bytes),
        _ => Err("16, 32, 64, 128 or 256 bytes".to_owned()),
    }
}

//! Flags shared by compare, guard and bisect, which measure servers side by side.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use super::given::GivenArgs;
use super::load::LoadArgs;
use super::slices::SliceArgs;

/// Hides the flags of a third target, for commands that have two.
pub(super) fn of_two(arg: clap::Arg) -> clap::Arg {
    let third = ["set_c", "env_c", "cpus_c", "wrap_c"].contains(&arg.get_id().as_str());
    if third { arg.hide(true) } else { arg }
}

/// What the servers are, and how they are loaded.
#[derive(Debug, Clone, Default, ClapArgs)]
pub struct SidesArgs {
    /// How the clients behave.
    #[command(flatten)]
    pub dials: LoadArgs,
    /// Settings, environment, CPUs and wrapping command.
    #[command(flatten)]
    pub given: GivenArgs,
    /// The slices.
    #[command(flatten)]
    pub slices: SliceArgs,
    /// Directory for temporary clusters; not on tmpfs [default: below /var/tmp]
    #[arg(long, value_name = "DIR")]
    pub scratch: Option<PathBuf>,
    /// Use the archived PostgreSQL from Maven Central where a version is not installed
    #[arg(long)]
    pub stand_in: bool,
    /// Have launched servers hold a copy of this database, for a workload on your own tables: pg_dump reads it
    /// once (guard: once for each workload), and nothing in it is changed. Or data made from a directory of `workload statistics`
    #[arg(long, value_name = "CONNINFO|DIR")]
    pub from_database: Option<String>,
}

/// How many pairs are measured, and whether running servers may be loaded for them: of compare and guard.
#[derive(Debug, Clone, Default, ClapArgs)]
pub struct PairsArgs {
    /// Pairs at each client count in each launch [default: as many as --delta, or guard's --threshold, needs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub pairs: Option<u32>,
    /// Make and start the servers this often; 6 or more for claims about builds or settings
    /// [default: 12 where they fit into the time, at least 6, else 1; 1 also with --pairs,
    /// compare --sequential or a running server]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub launches: Option<u32>,
    /// Pairs of A vs. A, two servers of the same target, in each launch, for the noise floor [default: 20
    /// in the first]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=10_000))]
    pub noise_pairs: Option<u32>,
    /// Allow load on running servers: says what it will create, and removes it afterwards
    #[arg(long)]
    pub load: bool,
    /// The running servers are copies: a workload on your own tables may change them, and they stay changed
    #[arg(long)]
    pub is_copy: bool,
}

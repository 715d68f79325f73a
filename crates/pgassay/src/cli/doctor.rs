//! The arguments of `pgassay doctor`.

use clap::Args as ClapArgs;

/// Arguments of `pgassay doctor`.
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
Examples:
  pgassay doctor              what works on this machine, and what an assay would lack
  pgassay doctor --fix        run the lines that mend it, after asking
  pgassay doctor --fix --yes  without asking, as in a container's build
  pgassay doctor --json       for programs
  pgassay doctor --on ssh://db1   what works there

Nothing is changed without --fix. Exit code 3 if no server can be launched here, else 0.")]
pub struct DoctorArgs {
    /// Run the commands that install or set what is missing, after asking
    #[arg(long, conflicts_with = "json")]
    pub fix: bool,
    /// With --fix: do not ask
    #[arg(long, short = 'y', requires = "fix")]
    pub yes: bool,
    /// Print one JSON document, described by docs/schema/doctor-1.json
    #[arg(long)]
    pub json: bool,
}

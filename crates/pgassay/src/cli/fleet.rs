//! The flags of `pgassay fleet`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use super::check::Level;
use super::show::ShowArgs;

/// Arguments of `pgassay fleet`.
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
Examples:
  pgassay fleet facts/                             what hosts collected: one file or directory each
  pgassay fleet facts/ --html fleet.html           the same as a page
  pgassay fleet eu/ us/ --fail-on high             for CI: exit code 1 at a grave finding
  pgassay fleet facts/ --json | jq '.findings[] | {id, hosts}'
  pgassay fleet facts/ --format csv                a row for each host
  pgassay fleet years/                             hosts of the tables that pgassay export wrote

On each host: sudo pgassay collect 'host=/var/run/postgresql' --output HOST.json. Files are named after
hosts, or lie in directories that are: db1.json, db1/facts.json, db1/runs/RUN. pgassay deploy ansible
writes a playbook that collects and fetches them.

Exit codes: 0 done; 1 a finding of --fail-on or above; 2 no host was found; 4 a file that may be a
host's could not be read; with --fail-on also if a host was not examined in full")]
pub struct FleetArgs {
    /// Directories of collected facts, recorded runs and exported tables, at any depth; or single ones
    #[arg(value_name = "DIR|FILE", required = true)]
    pub paths: Vec<PathBuf>,
    /// End with code 1 if there is a finding of this severity or above
    #[arg(long, value_name = "SEVERITY", value_enum)]
    pub fail_on: Option<Level>,
    /// How it is shown.
    #[command(flatten)]
    pub show: ShowArgs,
}

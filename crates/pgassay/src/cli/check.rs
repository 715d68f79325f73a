//! Flags of `pgassay check` and `pgassay collect`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};
use pgassay_analysis::check::Severity;

use super::target::TargetArgs;

/// Which server, for commands that only look.
#[derive(Debug, Clone, ClapArgs)]
pub struct LookArgs {
    /// The URI or conninfo of a running server; temp, temp:17, or an installation's directory to
    /// launch one from; a file of `pgassay collect`, or a directory of such [default: the server
    /// that runs here; if there are several, this host; if there is none, temp]
    #[arg(value_name = "TARGET|FILE|DIR")]
    pub target: Option<String>,
    /// Look at this host only, at no server
    #[arg(long, conflicts_with = "target")]
    pub host: bool,
    /// A setting for a launched server (repeatable)
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub settings: Vec<String>,
    /// Directory for temporary clusters; not on tmpfs [default: below /var/tmp]
    #[arg(long, value_name = "DIR")]
    pub scratch: Option<PathBuf>,
    /// Use the archived PostgreSQL from Maven Central where none is installed
    #[arg(long)]
    pub stand_in: bool,
}

impl LookArgs {
    /// The same as a target to open; it is never loaded.
    pub fn target_args(&self) -> TargetArgs {
        TargetArgs {
            target: self.target.clone(),
            settings: self.settings.clone(),
            load: false,
            scratch: self.scratch.clone(),
            stand_in: self.stand_in,
            ..TargetArgs::default()
        }
    }
}

/// Arguments of `pgassay check`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  sudo pgassay check 'host=/var/run/postgresql'   the server on this machine, all of it
  pgassay check 'host=db1 dbname=app'             a remote one: what SQL can see
  pgassay check --host                            this host, no server
  pgassay check facts.json                        what somebody collected elsewhere
  pgassay check service=prod --fail-on high       for CI: exit code 1 at a grave finding
  pgassay check service=prod --quiet --prometheus /var/lib/node_exporter/pgassay.prom
  pgassay check --explain huge-pages")]
pub struct CheckArgs {
    /// What to look at.
    #[command(flatten)]
    pub look: LookArgs,
    /// End with code 1 if there is a finding of this severity or above
    #[arg(long, value_name = "SEVERITY", value_enum)]
    pub fail_on: Option<Level>,
    /// Only these entries of the catalogue (repeatable, comma-separated)
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Show also what passed, what does not apply, and what could not be seen
    #[arg(long, short)]
    pub all: bool,
    /// Print what is known of a bottleneck
    #[arg(long, value_name = "ID", conflicts_with_all = ["target", "host", "list"])]
    pub explain: Option<String>,
    /// List the bottlenecks that check looks for
    #[arg(long, conflicts_with_all = ["target", "host"])]
    pub list: bool,
    /// Print JSON (pgassay/check/1); of several files one document a line
    #[arg(long)]
    pub json: bool,
    /// Write the report as one HTML file, too
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write what the report is made of, too: a near side renders its page from that
    #[arg(long, value_name = "FILE", hide = true)]
    pub facts: Option<PathBuf>,
    /// Write the findings in Prometheus's text format, too, such as for node_exporter's textfile
    /// collector; a file that is there is replaced as a whole
    #[arg(long, value_name = "FILE")]
    pub prometheus: Option<PathBuf>,
}

/// Arguments of `pgassay collect`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  sudo pgassay collect 'host=/var/run/postgresql' --output facts.json
  pgassay check facts.json

The file holds texts of /proc and /sys, settings, counters, and an account of the server's
executable. It holds no data, no statements, no names of tables, and no value of a setting, mount
option or kernel argument whose name speaks of a password, key, token, secret, command or conninfo.
By a number derived from the machine's id and name, pgassay fleet tells two hosts from one that was
collected twice; neither can be had back from it. It is text: read it before you give it away.")]
pub struct CollectArgs {
    /// What to look at.
    #[command(flatten)]
    pub look: LookArgs,
    /// The file [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// A severity as typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Level {
    /// Any finding
    Info,
    /// Low or above
    Low,
    /// Medium or above
    Medium,
    /// High only
    High,
}

impl From<Level> for Severity {
    fn from(level: Level) -> Self {
        match level {
            Level::Info => Self::Info,
            Level::Low => Self::Low,
            Level::Medium => Self::Medium,
            Level::High => Self::High,
        }
    }
}

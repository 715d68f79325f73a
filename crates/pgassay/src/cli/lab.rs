//! The flags of `pgassay lab`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use super::from::{FromList, ListenAt};
use super::show::ShowArgs;

/// Arguments of `pgassay lab`.
#[derive(Debug, Clone, Default, ClapArgs)]
#[command(after_help = "\
Examples:
  pgassay lab --list
  pgassay lab power8 --dry-run        what it would measure, how long, how much disk
  pgassay lab power8 --stand-in       about ten minutes, fitted into this machine
  pgassay lab lse --source postgresql-17.6.tar.bz2 --minutes 30
  pgassay lab power8 --from ssh://c1,ssh://c2     the clients on machines of their own
  pgassay lab mine.toml --check
  pgassay lab --resume last
  pgassay lab --report last --html lab.html

Exit codes: 0 done, whatever the statements came to; 2 the plan is wrong; 4 measured in part")]
pub struct LabArgs {
    /// A built-in lab, or a plan in TOML
    #[arg(value_name = "NAME|PLAN.toml", required_unless_present_any = ["list", "resume", "report"])]
    pub plan: Option<String>,
    /// List the built-in labs
    #[arg(long, conflicts_with_all = ["plan", "resume", "report"])]
    pub list: bool,
    /// Only say whether the plan is right
    #[arg(long, conflicts_with_all = ["resume", "report"])]
    pub check: bool,
    /// Print the plan as TOML, to be changed
    #[arg(long, conflicts_with_all = ["resume", "report", "check"])]
    pub show: bool,
    /// Only say what would be measured, how long that takes and how much disk
    #[arg(long, conflicts_with = "report")]
    pub dry_run: bool,
    /// Go on with an interrupted lab: its plan, the stages that are missing
    #[arg(long, value_name = "LAB", conflicts_with = "plan")]
    pub resume: Option<String>,
    /// Render what a lab recorded; measures nothing
    #[arg(long, value_name = "LAB", conflicts_with_all = ["plan", "resume"])]
    pub report: Option<String>,
    /// The time that the whole may take, builds not counted
    #[arg(long, value_name = "MINUTES", default_value_t = 10.0, value_parser = super::values::minutes)]
    pub minutes: f64,
    /// Leave out what is too large for this machine, and say what that leaves open (the default)
    #[arg(long, conflicts_with = "as_published")]
    pub scale_to_machine: bool,
    /// Measure the plan as it is, however large
    #[arg(long)]
    pub as_published: bool,
    /// What variants are built from: a source directory, a tarball or a git repository of PostgreSQL
    #[arg(long, value_name = "SOURCE")]
    pub source: Option<String>,
    /// Use the archived PostgreSQL from Maven Central where a version is not installed
    #[arg(long)]
    pub stand_in: bool,
    /// Machines that the load of clients comes from, as `pgassay run` takes them: local (the servers'),
    /// ssh://user@host, exec:COMMAND, separated by commas; what runs inside the servers has no clients
    #[arg(long, value_name = "LIST", conflicts_with_all = ["list", "check", "show", "report"])]
    pub from: Option<FromList>,
    /// Where the servers listen for the load of other machines [default: the address by which ssh came, a free
    /// port]
    #[arg(long, value_name = "ADDRESS[:PORT]", conflicts_with_all = ["list", "check", "show", "report"])]
    pub listen: Option<ListenAt>,
    /// Let a plan from a file run scripts of its own, or set what makes the server run programs
    #[arg(long)]
    pub allow_commands: bool,
    /// Directory for temporary clusters; not on tmpfs [default: below /var/tmp]
    #[arg(long, value_name = "DIR")]
    pub scratch: Option<PathBuf>,
    /// How it is shown.
    #[command(flatten)]
    pub output: ShowArgs,
}

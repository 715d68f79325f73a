//! The flags of `pgassay diagnose`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use super::show::ShowArgs;

/// Arguments of `pgassay diagnose`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  pgassay diagnose last
  pgassay diagnose last --reference
  pgassay diagnose last --against 20261121T03 --format html --output what-changed.html
  perf record -g -F 99 -p PID -- sleep 10; perf script > profile.txt
  pgassay diagnose --perf profile.txt --server-version 13
  perf report --stdio | pgassay diagnose --perf -")]
pub struct DiagnoseArgs {
    /// A recorded run by name, unique prefix, path, `last`, `previous` or `last~2`
    #[arg(
        value_name = "RUN",
        required_unless_present = "perf",
        conflicts_with = "perf"
    )]
    pub run: Option<String>,
    /// The text of `perf script`, `perf report` or `perf top`, or folded stacks, from any machine; - reads standard input
    #[arg(long, value_name = "FILE")]
    pub perf: Option<PathBuf>,
    /// The version of the server that was sampled, such as 9.4 or 15.18
    #[arg(long, value_name = "VERSION", value_parser = version, requires = "perf")]
    pub server_version: Option<u32>,
    /// Another run, or with --perf another file, to compare the CPU samples with
    #[arg(long, value_name = "RUN|FILE")]
    pub against: Option<String>,
    /// Measure the run's server once more, beside a throw-away one of the same version with ordinary
    /// settings, under the run's load: names what differs most, whether or not a rule knows it, and tries
    /// the settings that differ. Takes minutes
    #[arg(long, requires = "run", conflicts_with_all = ["perf", "against"])]
    pub reference: bool,
    /// With --reference: allow load on a running server, as the run itself had it
    #[arg(long, requires = "reference")]
    pub load: bool,
    /// With --reference: run the programs that the recorded scripts name
    #[arg(long, requires = "reference")]
    pub allow_shell: bool,
    /// With --reference: directory for temporary clusters; not on tmpfs [default: below /var/tmp]
    #[arg(long, value_name = "DIR", requires = "reference")]
    pub scratch: Option<PathBuf>,
    /// With --reference: use the archived PostgreSQL from Maven Central where the version is not installed
    #[arg(long, requires = "reference")]
    pub stand_in: bool,
    /// How it is shown.
    #[command(flatten)]
    pub show: ShowArgs,
}

fn version(text: &str) -> Result<u32, String> {
    pgassay_analysis::diagnose::version_number(text)
        .ok_or_else(|| format!("`{text}` is no version of PostgreSQL; 9.4 and 15.18 are"))
}

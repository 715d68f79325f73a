//! The flags of `pgassay serve`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

/// Arguments of `pgassay serve`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Only this machine reaches it, only with the key in the printed address, and it only reads unless --allow-run
is given. From your own computer: ssh -L 7654:127.0.0.1:7654 HOST, then open the same address there.

Examples:
  pgassay serve                        the recorded runs
  pgassay serve results/ --open        those of another directory, in the browser at once
  pgassay serve --port 8000")]
pub struct ServeArgs {
    /// Directory of runs [default: where pgassay records them]
    #[arg(value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Port on 127.0.0.1 and ::1 [default: 7654, or a free one where that is taken]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,
    /// Let the pages start measurements: a recorded run again, the rest of one, the targets of two against
    /// each other; and pause what runs
    #[arg(long)]
    pub allow_run: bool,
    /// Open the page in the browser
    #[arg(long)]
    pub open: bool,
}

//! The flags of `pgassay follow`.

use clap::Args as ClapArgs;

/// Arguments of `pgassay follow`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Keys: p pauses the measurement before its next trial and has it go on; q leaves, and it goes on.
The same in a browser: pgassay serve.

Examples:
  pgassay follow                       the measurement that runs now
  pgassay follow last --lines >log     in lines, as where there is no terminal")]
pub struct FollowArgs {
    /// A running measurement by name, unique prefix, path or `last` [default: the newest that runs]
    #[arg(value_name = "RUN")]
    pub run: Option<String>,
    /// Print a line when there is news, also on a terminal
    #[arg(long)]
    pub lines: bool,
}

//! The commands, one file each. They may join modules that otherwise keep apart.

pub mod runs;
pub mod shell;

use crate::cli::Args;
use crate::cli::args::Command;
use crate::exit::Exit;
use crate::stop::Stop;
use crate::terminal::Terminal;

/// Carries out the command that was typed.
///
/// # Errors
/// What went wrong; a [`crate::exit::Failure`] inside says with which exit code.
pub fn dispatch(args: Args, terminal: &mut Terminal, stop: &Stop) -> anyhow::Result<Exit> {
    let global = args.global;
    let _ = stop;
    match args.command {
        Command::Runs(args) => runs::runs(&args, &global, terminal),
        Command::Completions(args) => shell::completions(&args, terminal),
        Command::Man => shell::manual(terminal),
        _ => unreachable!(),
    }
}

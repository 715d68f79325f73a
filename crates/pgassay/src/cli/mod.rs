//! The command line: what was typed, apart from what it means on this machine.

pub mod args;
pub mod axes;
pub mod bisect;
pub mod build;
pub mod check;
pub mod clients;
pub mod compare;
pub mod compare_runs;
pub mod core_to_core;
pub mod deploy;
pub mod diagnose;
pub mod doctor;
pub mod export;
pub mod far;
pub mod fleet;
pub mod follow;
pub mod from;
pub mod given;
pub mod guard;
pub mod history;
pub mod inside;
pub mod io;
pub mod kernels;
pub mod kinds;
pub mod lab;
pub mod lines;
pub mod load;
pub mod mcp;
pub mod measure;
mod metric;
pub mod observe;
pub mod order_entry;
pub mod page;
pub mod patch;
pub mod port;
pub mod query;
pub mod serve;
pub mod show;
pub mod sides;
pub mod slices;
pub mod tables;
pub mod target;
mod values;
pub mod walls;
pub mod watch;
pub mod workload;

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches};

pub use args::Args;

use crate::exit::Exit;
use crate::terminal::Terminal;

/// Parses what was typed.
///
/// # Errors
/// What clap has to say: a mistake, or the text of `--help` and `--version`.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Args, clap::Error> {
    let mut args: Vec<OsString> = args.into_iter().collect();
    // pgbench's words are its own: -q and -v mean something else there than here.
    if args.get(1).is_some_and(|word| word == "pgbench") {
        args.insert(2, OsString::from("--"));
    }
    let mut program = kinds::narrowed(Args::command(), &args);
    let matches = program.try_get_matches_from_mut(args)?;
    kinds::refuse_others(&mut program, &matches)?;
    Args::from_arg_matches(&matches).map_err(|error| error.format(&mut program))
}

/// Flags that commands name differently, by what they mean: the one that was typed, and the one that the command may have.
const EQUIVALENT: &[(&[&str], &str)] = &[
    (&["--time", "--duration", "--seconds", "-T"], "--minutes"),
    (&["--minutes", "--duration", "--seconds", "-T"], "--time"),
    (&["--client", "--connections"], "--clients"),
    (&["--workload", "--script"], "--file"),
];

/// Names the flag of the command that means what an unknown one means elsewhere.
fn equivalent(answer: &clap::Error) -> Option<String> {
    if answer.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let ContextValue::String(typed) = answer.get(ContextKind::InvalidArg)? else {
        return None;
    };
    let ContextValue::StyledStr(usage) = answer.get(ContextKind::Usage)? else {
        return None;
    };
    let usage = usage.to_string();
    let program = Args::command();
    let words = usage
        .split_whitespace()
        .skip_while(|word| *word != "pgassay")
        .skip(1);
    let command = words
        .take_while(|word| word.starts_with(|c: char| c.is_ascii_lowercase()))
        .try_fold(&program, |at, word| at.find_subcommand(word))?;
    let typed = typed.split(['=', ' ']).next().unwrap_or_default();
    let has = |flag: &str| {
        command
            .get_arguments()
            .any(|known| known.get_long() == flag.strip_prefix("--"))
    };
    let (_, flag) = EQUIVALENT
        .iter()
        .find(|(names, flag)| names.contains(&typed) && has(flag))?;
    Some(format!("the flag of this command is {flag}"))
}

/// Shows clap's answer on the right side and gives the exit code.
pub fn show(answer: &clap::Error, terminal: &mut Terminal) -> Exit {
    let text = answer.render();
    let text = if terminal.colour {
        text.ansi().to_string()
    } else {
        text.to_string()
    };
    match answer.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // A closed pipe after --help is no error; a full disk is.
            match terminal.print(&text) {
                Ok(()) => Exit::Done,
                Err(error) => crate::exit::report(&error, terminal),
            }
        }
        // Nothing was typed that could be wrong.
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            terminal.verbatim(answer.render().to_string().trim_end());
            Exit::Usage
        }
        _ => {
            terminal.styled(text.trim_end());
            if let Some(equivalent) = equivalent(answer) {
                terminal.note(&equivalent);
            }
            Exit::Usage
        }
    }
}

/// A group of flags as a command would have it, parsed alone.
#[cfg(test)]
fn parsed<T: clap::Args>(flags: &[&str]) -> Result<T, clap::Error> {
    let command = T::augment_args(clap::Command::new("x"));
    let matches = command.try_get_matches_from(["x"].iter().chain(flags))?;
    T::from_arg_matches(&matches)
}

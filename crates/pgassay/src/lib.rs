//! pgassay: the performance laboratory for PostgreSQL on every processor.
//!
//! ```text
//! argv -> Args -> Experiment -> runner(driver, watcher) -> trials -> run directory
//! run directory -> analyse -> Analysis -> text | html | json | markdown
//! ```
//! [`run`] is the whole program; ARCHITECTURE.md is the map of its modules.

pub mod cli;
pub mod commands;
pub mod exit;
pub mod held;
#[cfg(feature = "schema")]
pub mod schemas;
pub mod screen;
pub mod secrets;
pub mod session;
pub mod terminal;

use std::ffi::OsString;

pub use exit::Exit;
pub use pgassay_sys::stop::Stop;
use secrets::Secrets;
pub use terminal::Terminal;

/// Runs the program: parses `args`, carries out the command, and says how it ended.
///
/// Results go to the terminal's output, progress and complaints to its error side.
pub fn run(args: impl IntoIterator<Item = OsString>, terminal: &mut Terminal, stop: &Stop) -> Exit {
    let args: Vec<OsString> = args.into_iter().collect();
    terminal.conceal(Secrets::of(args.iter().map(|arg| arg.as_encoded_bytes())));
    let typed = secrets::recorded(&args);
    let words = args.clone();
    let mut args = match cli::parse(args) {
        Ok(args) => args,
        Err(answer) => return cli::show(&answer, terminal),
    };
    let session = session::Session::of_this();
    if let Some(Err(error)) = session.as_ref().map(commands::far::keep_near_side) {
        return exit::report(&error.into(), terminal);
    }
    args.global.typed = session.map_or(typed, |session| session.typed);
    terminal.set_verbosity(args.global.verbosity());
    let done = match commands::far::sought(&args, &words) {
        Ok(Some(there)) => commands::far::there(&there, &args.global, terminal, stop),
        Ok(None) => commands::dispatch(args, terminal, stop),
        Err(error) => Err(error),
    };
    match done {
        Ok(exit) => exit,
        Err(error) => exit::report(&error, terminal),
    }
}

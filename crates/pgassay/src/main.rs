//! The program: arguments in, an exit code out. Everything else is in the library.

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;
use std::thread;

use pgassay::{Exit, Stop, Terminal};
use rustix::process::{Resource, getrlimit};

fn main() -> ExitCode {
    // Before anything else: until then everybody on this machine can read passwords in them.
    let arguments: Vec<_> = std::env::args_os().collect();
    let hidden = pgassay_sys::arguments::rewrite(&mut pgassay::secrets::overwrite);
    with_enough_stack(|| run(&arguments, &hidden)).into()
}

fn run(arguments: &[OsString], hidden: &io::Result<()>) -> Exit {
    let mut terminal = Terminal::of_process();
    let watched = match pgassay::session::Session::of_this() {
        Some(_) => Stop::on_repeated_signals(),
        None => Stop::on_signals(),
    };
    let stop = match watched {
        Ok(stop) => stop,
        Err(error) => {
            terminal.complain(&format!("cannot watch for signals: {error}"));
            return Exit::Fault;
        }
    };
    if let Err(error) = hidden {
        terminal.detail(&format!(
            "a password in the arguments stays visible: {error}"
        ));
    }
    // Where they can't be watched for, the program still ends there, without a word.
    let _ = pgassay_sys::shrunk::explain_truncated_files();
    let _ = pgassay_sys::output::report_file_size_limit();
    pgassay_pgwire::end_waits_by(stop.flag().clone());
    pgassay::run(arguments.iter().cloned(), &mut terminal, &stop)
}

/// Bytes of stack that are enough for every command.
const STACK: usize = 8 << 20;

/// Runs it on a stack of its own if the limit (`ulimit -s`) is low: parsing the command line alone
/// takes more than 96 KiB.
fn with_enough_stack(run: impl Fn() -> Exit + Sync) -> Exit {
    let limit = getrlimit(Resource::Stack).current;
    if limit.is_some_and(|limit| limit < STACK as u64 / 2) {
        let ended = thread::scope(|scope| {
            let thread = thread::Builder::new().stack_size(STACK);
            // A panic was reported where it happened.
            let ended = |thread: thread::ScopedJoinHandle<_>| thread.join().unwrap_or(Exit::Fault);
            thread.spawn_scoped(scope, &run).map(ended)
        });
        if let Ok(exit) = ended {
            return exit;
        }
    }
    run()
}

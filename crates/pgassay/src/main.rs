//! The program: arguments in, an exit code out. Everything else is in the library.

use std::process::ExitCode;

use pgassay::{Stop, Terminal};

fn main() -> ExitCode {
    let mut terminal = Terminal::of_process();
    let stop = match Stop::on_signals() {
        Ok(stop) => stop,
        Err(error) => {
            terminal.complain(&format!("cannot watch for signals: {error}"));
            return ExitCode::from(70);
        }
    };
    pgassay::run(std::env::args_os(), &mut terminal, &stop).into()
}

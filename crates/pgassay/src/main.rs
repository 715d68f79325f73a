//! The program: arguments in, an exit code out. Everything else is in the library.

use std::process::ExitCode;

use pgassay::{Stop, Terminal};

fn main() -> ExitCode {
    // Before anything else: until then everybody on this machine can read passwords in them.
    let arguments: Vec<_> = std::env::args_os().collect();
    let hidden = pgassay_sys::arguments::rewrite(&mut pgassay::secrets::overwrite);
    let mut terminal = Terminal::of_process();
    let stop = match Stop::on_signals() {
        Ok(stop) => stop,
        Err(error) => {
            terminal.complain(&format!("cannot watch for signals: {error}"));
            return ExitCode::from(70);
        }
    };
    if let Err(error) = hidden {
        terminal.detail(&format!(
            "a password in the arguments stays visible: {error}"
        ));
    }
    // Where it can't be watched for, the program still ends there, without a word.
    let _ = pgassay_sys::shrunk::explain_truncated_files();
    pgassay_pgwire::end_waits_by(stop.flag().clone());
    pgassay::run(arguments, &mut terminal, &stop).into()
}

//! `pgassay lines` where instructions can't be stepped and decoded.

use pgassay_model::Failure;
use pgassay_sys::stop::Stop;

use crate::cli::lines::LinesArgs;
use crate::exit::Exit;
use crate::terminal::Terminal;

/// Says that it is for x86-64.
///
/// # Errors
/// Always.
pub fn lines(_: &LinesArgs, _: &mut Terminal, _: &Stop) -> anyhow::Result<Exit> {
    let failure = Failure::target("lines steps servers on x86-64, and no others so far");
    Err(failure.with_remedy("run it on an x86-64 machine").into())
}

/// Says the same.
///
/// # Errors
/// Always.
pub fn one(
    args: &LinesArgs,
    _: Option<u64>,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<pgassay_lines::account::Account> {
    match lines(args, terminal, stop) {
        Err(error) => Err(error),
        Ok(_) => Err(Failure::target("lines did not record").into()),
    }
}

//! A far side that gives load: it is told when and how much by the near side, and ends with it.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use pgassay_engine::drivers::wire;
use pgassay_far::{Link, Place};
use pgassay_sys::stop::Stop;

use super::reach::{Options, Side, reach};
use super::say::{Order, WORDS};
use crate::cli::args::GlobalArgs;
use crate::terminal::Terminal;

/// What the near side says to the load, and hears of it.
pub const LOAD: u16 = 3;

/// How often it is looked whether the link stands.
const LOOKS: Duration = Duration::from_millis(100);

/// How long connections may take to be closed when it does not any more: with the seconds of silence before
/// it, nothing runs on after ten.
const CLOSING: Duration = Duration::from_secs(3);

/// Reaches a machine and has it listen on [`LOAD`].
///
/// # Errors
/// Where it can't be reached, and what to do.
pub fn give_load(
    place: &Place,
    global: &GlobalArgs,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Side> {
    let options = Options {
        program: global.far_program.clone(),
    };
    let side = reach(place, &options, terminal, stop)?;
    side.link()?.channel(WORDS).send(&Order::Load)?;
    Ok(side)
}

/// Gives load as long as the link stands. Whatever the load still does then ends with this process.
///
/// # Errors
/// Where no thread can be had.
pub(super) fn serve(link: &Link, stop: &Stop) -> anyhow::Result<()> {
    let channel = link.channel(LOAD);
    let _kept = stop.defer();
    let asked = stop.clone();
    let load = thread::Builder::new()
        .name("load".to_owned())
        .spawn(move || drop(wire::serve(&channel, &asked)))
        .context("a thread for the load")?;
    while !load.is_finished() && link.check().is_ok() {
        thread::sleep(LOOKS);
    }
    let until = Instant::now() + CLOSING;
    while !load.is_finished() && Instant::now() < until {
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

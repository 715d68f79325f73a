//! What commands that measure share of observing: which observers run, and where the
//! names of functions go.

use pgassay_engine::drivers::Watched;
use pgassay_engine::rundir::RunWriter;
use pgassay_engine::runner::Driver;
use pgassay_model::observed::stacks::SymbolTable;
use pgassay_observe::{Choice, Scene};
use pgassay_sys::input;

use super::subject::Subject;
use crate::cli::observe::{ObserveArgs, Observer};

/// The observers that were typed, or these.
pub fn choice(flags: &ObserveArgs, default: Choice) -> Choice {
    Choice {
        waits: flags.wants(Observer::Waits, default.waits),
        sched: flags.wants(Observer::Sched, default.sched),
        perf: flags.wants(Observer::Perf, default.perf),
        pmu: flags.wants(Observer::Pmu, default.pmu),
        apart: default.apart,
    }
}

/// The server with those that were typed beside a load of its own kind, whose figures nothing may
/// touch unasked: none by default. Its scene is the load's until it is given back.
pub fn typed(flags: &ObserveArgs, subject: &mut Subject) -> Watched {
    let scene = std::mem::replace(&mut subject.scene, Scene::unseen("the load has it"));
    Watched::start(scene, choice(flags, Choice::default()), &subject.conninfo)
}

/// Writes down the names of the functions that the CPU samples of a driver hit. Ends sampling.
///
/// # Errors
/// Where the run can't be written.
pub fn write_all_symbols(writer: &mut RunWriter, driver: &mut dyn Driver) -> anyhow::Result<()> {
    for (arm, symbols) in (0u32..).zip(driver.symbols()) {
        if let Some(symbols) = symbols {
            write_symbols(writer, arm, &symbols)?;
        }
    }
    Ok(())
}

/// Writes down the names of the functions that CPU samples hit; a run that went on, or a
/// comparison of several launches, has those of its earlier parts.
///
/// # Errors
/// Where the run can't be written.
pub fn write_symbols(
    writer: &mut RunWriter,
    arm: u32,
    symbols: &SymbolTable,
) -> anyhow::Result<()> {
    let name = format!("symbols-{arm}");
    let path = writer.dir().join(format!("facts/{name}.json"));
    let mut all: SymbolTable = input::open(&path)
        .and_then(std::io::read_to_string)
        .ok()
        .and_then(|text| serde_json::from_str(&text).ok())
        .unwrap_or_default();
    all.merge(symbols);
    writer.write_fact(&name, &all)
}

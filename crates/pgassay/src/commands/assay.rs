//! `pgassay assay` and `pgassay run`: requests to measure.

use std::time::Instant;

use pgassay_engine::drivers;
use pgassay_engine::workload::{self, inserver, pgio, scattered_read};
use pgassay_model::stage::StageId;
use pgassay_model::{Failure, Plan};
use pgassay_sys::stop::Stop;

use super::again::Again;
use super::measure::measure;
use super::request::Request;
use super::{axes, bytes, inside, kernels, recorded_scripts};
use crate::cli::args::{AssayArgs, GlobalArgs, RunArgs};
use crate::cli::measure::Budget;
use crate::cli::target::TargetArgs;
use crate::exit::Exit;
use crate::terminal::Terminal;

/// Everything about one server.
///
/// # Errors
/// What kept it from being measured.
pub fn assay(
    args: &AssayArgs,
    global: &GlobalArgs,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Exit> {
    let again = Again::find(args.resume.as_deref(), None, global)?;
    allow(&again, false, terminal, stop)?;
    if args
        .measure
        .scale
        .as_ref()
        .is_some_and(|list| list.0.len() > 1)
    {
        return Err(
            Failure::usage("--scale: an assay is of one server with one scale")
                .with_remedy("name one, or vary it: pgassay run select-only --scale 1,10")
                .into(),
        );
    }
    let workload = match again.experiment() {
        Some(experiment) => experiment.plan().workload.clone(),
        None => workload::find(&["select-only"])?,
    };
    let request = Request {
        command: "assay",
        workload,
        target: &again.target(&args.target),
        measure: &args.measure,
        budget: if args.quick {
            Budget::QUICK
        } else {
            Budget::ASSAY
        },
        // A quick assay has no time for more.
        primitives: !args.quick,
        second: !args.quick,
        protocol_asked: false,
        again: &again,
        pin: None,
        ceiling: false,
        may_only_look: true,
        json: args.json,
        open: args.page.open,
        started: Instant::now(),
    };
    measure(&request, global, terminal, stop)
}

/// One workload.
///
/// # Errors
/// What kept it from being measured.
pub fn run(
    args: &RunArgs,
    global: &GlobalArgs,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Exit> {
    let again = Again::find(args.resume.as_deref(), args.repeat.as_deref(), global)?;
    if let Some(recorded) = again.recorded() {
        let target = again.target(&args.target);
        return match recorded.main_stage() {
            StageId::Primitives => inside::run(args, &target, &again, global, terminal, stop),
            StageId::Kernels => kernels::run(args, &again, global, terminal, stop),
            StageId::Pgio => bytes::pgio::run(args, &target, &again, global, terminal, stop),
            StageId::ScatteredRead => {
                bytes::scattered_read::run(args, &target, &again, global, terminal, stop)
            }
            _ => load(args, &target, again, global, terminal, stop),
        };
    }
    if inserver::names().contains(&args.workload.as_str()) {
        return inside::run(args, &args.target, &again, global, terminal, stop);
    }
    match args.workload.as_str() {
        drivers::kernels::NAME => kernels::run(args, &again, global, terminal, stop),
        pgio::NAME => bytes::pgio::run(args, &args.target, &again, global, terminal, stop),
        scattered_read::NAME => {
            bytes::scattered_read::run(args, &args.target, &again, global, terminal, stop)
        }
        _ => load(args, &args.target, again, global, terminal, stop),
    }
}

/// What clients do over the wire.
fn load(
    args: &RunArgs,
    target: &TargetArgs,
    mut again: Again,
    global: &GlobalArgs,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Exit> {
    allow(&again, args.allow_shell, terminal, stop)?;
    if let Again::Repeat(run) = &mut again
        && let Some(plan) = run.header.experiment.plan_mut()
    {
        recorded_scripts::name_honestly(plan);
    }
    let workload = match again.experiment() {
        None => args.load.workload(&args.workload)?,
        Some(experiment) => experiment.plan().workload.clone(),
    };
    if args.load.pin.is_some() && target.confined.wrap.is_some() {
        return Err(Failure::usage(
            "--pin gives the server the CPUs that the clients leave, and --wrap may choose them, too",
        )
        .with_remedy("leave out the one or the other")
        .into());
    }
    let request = Request {
        command: "run",
        workload,
        target,
        measure: &args.measure,
        budget: Budget::RUN,
        primitives: false,
        second: false,
        again: &again,
        pin: args.load.pin.clone(),
        ceiling: args.load.ceiling,
        may_only_look: false,
        protocol_asked: args.load.protocol.is_some(),
        json: args.json,
        open: args.page.open,
        started: Instant::now(),
    };
    match axes::are_asked(args, request.again.experiment()) {
        true => axes::run(args, &request, global, terminal, stop),
        false => measure(&request, global, terminal, stop),
    }
}

/// Looks at the scripts of a recorded run before they run again.
fn allow(
    again: &Again,
    allow_shell: bool,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<()> {
    let Some(run) = again.recorded() else {
        return Ok(());
    };
    let stages = run.header.experiment.stages.iter();
    let plans: Vec<&Plan> = stages.map(|stage| &stage.plan).collect();
    recorded_scripts::confirm(&run.header.id, &plans, allow_shell, terminal, stop)
}

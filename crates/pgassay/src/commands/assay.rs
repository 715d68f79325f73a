//! `pgassay assay` and `pgassay run`: requests to measure.

use std::path::PathBuf;

use anyhow::bail;
use pgassay_analysis::Plan;
use pgassay_analysis::record::{RunHeader, StageId};

use super::measure::{Again, Request, measure};
use super::{bytes, inside, recorded_scripts};
use crate::cli::args::{AssayArgs, GlobalArgs, RunArgs, TargetArgs};
use crate::cli::measure::Budget;
use crate::exit::Exit;
use crate::terminal::Terminal;
use pgassay_engine::rundir::{self, catalogue};
use pgassay_engine::workload::{self, inserver, pgio, scattered_read};
use pgassay_model::Failure;
use pgassay_sys::stop::Stop;

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
    let mut target = args.target.clone();
    let recorded = match &args.resume {
        None => None,
        Some(name) => {
            let recorded = recorded(name, true, &mut target, global)?;
            Some(allowed(name, recorded, false, terminal, stop)?)
        }
    };
    let workload = match &recorded {
        Some((_, header)) => header.plan.workload.clone(),
        None => workload::find(&["select-only"])?,
    };
    // A quick assay has no time for more, also when it is gone on with later.
    let quick = args.quick
        || recorded
            .as_ref()
            .is_some_and(|(_, header)| header.command_line.iter().any(|word| word == "--quick"));
    let request = Request {
        command: "assay",
        workload,
        target: &target,
        measure: &args.measure,
        budget: if args.quick {
            Budget::QUICK
        } else {
            Budget::ASSAY
        },
        primitives: !quick,
        second: !quick,
        again: recorded.map_or(Again::New, |(dir, header)| Again::Resume(dir, header)),
        typed: (String::new(), Vec::new()),
        pin: None,
        ceiling: false,
        may_only_look: true,
        json: args.json,
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
    if let Some(interrupted) = bytes::Interrupted::find(args, global)? {
        let again = &interrupted.args;
        return match again.workload == pgio::NAME {
            true => bytes::pgio::run(again, Some(&interrupted), global, terminal, stop),
            false => bytes::scattered_read::run(again, Some(&interrupted), global, terminal, stop),
        };
    }
    if inserver::names().contains(&args.workload.as_str()) {
        return inside::run(args, global, terminal, stop);
    }
    let counting = args.inside.instructions.then_some("--instructions");
    if let Some(flag) = args.inside.knobs()?.first_turned().or(counting) {
        return Err(Failure::usage(format!(
            "{flag} has no meaning for {}, which loops in no server",
            args.workload
        ))
        .with_remedy(format!(
            "the workloads inside the server are: {}",
            inserver::names().join(", ")
        ))
        .into());
    }
    if args.workload == pgio::NAME {
        return bytes::pgio::run(args, None, global, terminal, stop);
    }
    if args.workload == scattered_read::NAME {
        return bytes::scattered_read::run(args, None, global, terminal, stop);
    }
    args.io.check(&args.workload)?;
    let mut target = args.target.clone();
    let again = match (&args.resume, &args.repeat) {
        (Some(name), _) => {
            let recorded = recorded(name, true, &mut target, global)?;
            let (dir, header) = allowed(name, recorded, args.allow_shell, terminal, stop)?;
            Again::Resume(dir, header)
        }
        (None, Some(name)) => {
            let recorded = recorded(name, false, &mut target, global)?;
            let (_, mut header) = allowed(name, recorded, args.allow_shell, terminal, stop)?;
            recorded_scripts::name_honestly(&mut header.plan);
            Again::Repeat(header)
        }
        (None, None) => Again::New,
    };
    let workload = match &again {
        Again::New => args.load.workload(&args.workload)?,
        Again::Resume(_, header) | Again::Repeat(header) => header.plan.workload.clone(),
    };
    let request = Request {
        command: "run",
        workload,
        target: &target,
        measure: &args.measure,
        budget: Budget::RUN,
        primitives: false,
        second: false,
        again,
        typed: (args.workload.clone(), args.load.words()),
        pin: args.load.pin.clone(),
        ceiling: args.load.ceiling,
        may_only_look: false,
        json: args.json,
    };
    measure(&request, global, terminal, stop)
}

/// A recorded run, after its scripts were looked at.
fn allowed(
    name: &str,
    (dir, header): (PathBuf, RunHeader),
    allow_shell: bool,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<(PathBuf, RunHeader)> {
    let second = rundir::read(&dir)?.second_plan;
    let plans: Vec<&Plan> = std::iter::once(&header.plan).chain(&second).collect();
    recorded_scripts::confirm(name, &plans, allow_shell, terminal, stop)?;
    Ok((dir, header))
}

/// A recorded run that is gone on with, or repeated; its target is put where none was typed.
fn recorded(
    name: &str,
    to_resume: bool,
    target: &mut TargetArgs,
    global: &GlobalArgs,
) -> anyhow::Result<(PathBuf, RunHeader)> {
    let dir = catalogue::find(&rundir::root(global.runs.as_deref())?, name)?;
    let run = rundir::read(&dir)?;
    let lacks = |plan: &Plan, trials: usize| trials < plan.schedule().len();
    let unfinished = lacks(&run.header.plan, run.measured(StageId::Load).len())
        || run
            .second_plan
            .as_ref()
            .is_some_and(|plan| lacks(plan, run.measured(StageId::WriteLoad).len()));
    let header = run.header;
    if to_resume && !unfinished {
        bail!(
            Failure::usage(format!("{} is complete; nothing is left to do", header.id))
                .with_remedy("pgassay report renders it")
        );
    }
    if header.plan.points.is_empty() {
        bail!(
            Failure::usage(format!("{} has no load by clients", header.id))
                .with_remedy("start it anew: pgassay run")
        );
    }
    if let Some(typed) = target_of(&header.command_line) {
        target.target = Some(typed);
    }
    if target.settings.is_empty() {
        target.settings = settings_of(&header.command_line);
    }
    target.load |= header.command_line.iter().any(|word| word == "--load");
    Ok((dir, header))
}

/// The target in a recorded command line: the word after the command that is no flag.
fn target_of(line: &[String]) -> Option<String> {
    let skip = if line.get(1).is_some_and(|word| word == "run") {
        3
    } else {
        2
    };
    line.get(skip)
        .filter(|word| !word.starts_with("--"))
        .cloned()
}

fn settings_of(line: &[String]) -> Vec<String> {
    line.windows(2)
        .filter(|pair| pair[0] == "--set")
        .map(|pair| pair[1].clone())
        .collect()
}

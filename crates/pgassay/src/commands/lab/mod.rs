//! `pgassay lab`: a published experiment, measured here, each of its statements checked.
//!
//! A stage is lowered to the command that one could type, and measured by it, with its recorded run
//! below the lab's directory. What follows from the runs is `pgassay_analysis::lab`'s.

mod arms;
mod lower;
pub mod outline;
mod plans;
mod trust;

use std::cell::RefCell;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::rc::Rc;
use std::time::Instant;

use anyhow::bail;
use pgassay_analysis::lab::legs::{Leg, legs};
use pgassay_analysis::lab::plan::{ArmPlan, Measure, StagePlan};
use pgassay_analysis::lab::{LabPlan, scale};
use pgassay_engine::rundir;
use pgassay_far::Place;
use pgassay_model::run::RunState;
use pgassay_model::{Failure, FailureKind};
use pgassay_sys::stop::Stop;

use self::arms::Arms;
use self::lower::{Lowered, machines};
use self::outline::{Labs, Outline};
use super::far;
use super::files::page_of_run;
use super::recorded_lab::{self, PartRecord, Record, State};
use super::show::{next, show};
use crate::cli;
use crate::cli::args::GlobalArgs;
use crate::cli::from::{FromList, Source};
use crate::cli::lab::LabArgs;
use crate::exit::Exit;
use crate::session;
use crate::terminal::Terminal;

/// Does what was asked of labs.
///
/// # Errors
/// Where the plan is wrong, or nothing could be measured.
pub fn lab(
    args: &LabArgs,
    global: &GlobalArgs,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Exit> {
    if args.list {
        let labs = Labs::of(&plans::all()?);
        show(&labs, &args.output, terminal)?;
        let first = labs.labs.first();
        let step = first.map(|lab| format!("pgassay lab {} --dry-run", lab.name));
        next(&args.output, step.as_slice(), terminal);
        return Ok(Exit::Done);
    }
    refuse_machines(args)?;
    let root = rundir::root(global.runs.as_deref())?;
    if let Some(name) = &args.report {
        let (dir, record) = recorded_lab::find(&root, name)?;
        show(&record.conclude(&dir)?, &args.output, terminal)?;
        next(&args.output, &next_of(&record), terminal);
        return Ok(Exit::Done);
    }
    if let Some(name) = &args.resume {
        let (dir, mut record) = recorded_lab::find(&root, name)?;
        session::refuse_from_elsewhere(&dir)?;
        trust::refuse(
            &record.plan,
            record.from != recorded_lab::BUILT_IN_WORDS,
            args.allow_commands,
        )?;
        if record.is_complete() {
            bail!(
                Failure::usage(format!("{} is complete; nothing is left to do", record.id))
                    .with_remedy("pgassay lab --report renders it")
            );
        }
        let args = with_machines(args, &record)?;
        return measure(&mut record, &dir, &args, global, terminal, stop);
    }
    let Some(given) = &args.plan else {
        bail!(Failure::usage("no lab is named").with_remedy("pgassay lab --list lists them"));
    };
    let named = plans::find(given)?;
    if args.show {
        terminal.show(&named.text)?;
        return Ok(Exit::Done);
    }
    if args.check {
        let (arms, stages) = (named.plan.arms.len(), named.plan.stages.len());
        let statements = named.plan.statements.len();
        terminal.show(&format!(
            "{}: right: arms {arms}, stages {stages}, statements {statements}\n",
            named.plan.name
        ))?;
        let given = pgassay_text::shell_word(given);
        next(
            &args.output,
            &[format!("pgassay lab {given} --dry-run")],
            terminal,
        );
        return Ok(Exit::Done);
    }
    trust::refuse(&named.plan, named.file.is_some(), args.allow_commands)?;
    refuse_machines_from_afar(&named.plan)?;
    let host = recorded_lab::this_machine();
    let (plan, left_out) = match args.as_published {
        true => (named.plan.clone(), Vec::new()),
        false => scale::fit(&named.plan, &host),
    };
    let mut arms = Arms::new(args);
    if !args.dry_run {
        arms.build(&plan, args, global, terminal, stop)?;
    }
    let mut record = Record {
        id: String::new(),
        from: named.from.clone(),
        started: rundir::now(),
        seconds: 0.0,
        pgassay_version: env!("CARGO_PKG_VERSION").to_owned(),
        load_from: args.from.as_ref().map(FromList::names).unwrap_or_default(),
        parts: Vec::new(),
        plan,
        left_out,
        host,
    };
    let (minutes, disk) = lower(&mut record, &arms, args);
    let outline = Outline::of(&record, minutes, disk);
    if args.dry_run {
        show(&outline, &args.output, terminal)?;
        let given = pgassay_text::shell_word(given);
        next(&args.output, &[format!("pgassay lab {given}")], terminal);
        return Ok(Exit::Done);
    }
    for line in outline.lines() {
        terminal.announce(&line);
    }
    let (id, dir) = recorded_lab::create(&root, &record.plan.name)?;
    record.id = id;
    rundir::replace_file(&dir.join("plan.toml"), named.text.as_bytes())?;
    record.write(&dir)?;
    measure(&mut record, &dir, args, global, terminal, stop)
}

/// Refuses arms on machines of their own where the lab itself is carried out for another machine: from there none is
/// led on.
fn refuse_machines_from_afar(plan: &LabPlan) -> anyhow::Result<()> {
    let arm = plan.arms.iter().find(|arm| arm.machine().is_some());
    match (arm, session::Session::of_this()) {
        (Some(arm), Some(_)) => bail!(
            Failure::usage(format!(
                "--on carries the whole lab out on one machine, and arm `{}` names one of its own",
                arm.name
            ))
            .with_remedy("leave --on out, or the machines in the arms' targets")
        ),
        _ => Ok(()),
    }
}

/// Refuses machines of the load that a lab can't have.
fn refuse_machines(args: &LabArgs) -> anyhow::Result<()> {
    let mut sources = args.from.iter().flat_map(|list| &list.0);
    if sources.any(|source| *source == Source::Here) {
        bail!(
            Failure::usage("the stream to `here` serves one measurement, and a lab has several")
                .with_remedy(
                    "--from ssh://HOST, exec:COMMAND or local; or run the stages that --dry-run shows, one by one"
                )
        );
    }
    if args.listen.is_some() && args.from.is_none() && args.resume.is_none() {
        bail!(
            Failure::usage("--listen is for load that comes from other machines")
                .with_remedy("name them with --from LIST")
        );
    }
    Ok(())
}

/// The arguments with the machines that the lab was begun with: its stages are of one kind.
fn with_machines(args: &LabArgs, record: &Record) -> anyhow::Result<LabArgs> {
    let mut args = args.clone();
    match &args.from {
        Some(list) if list.names() != record.load_from => {
            let began = match record.load_from.is_empty() {
                true => "the measuring process".to_owned(),
                false => record.load_from.join(","),
            };
            bail!(
                Failure::usage(format!("{} began with the load from {began}", record.id))
                    .with_remedy("go on with the same, or begin the lab anew")
            );
        }
        None if !record.load_from.is_empty() => {
            args.from = Some(FromList::recorded(&record.load_from)?);
        }
        _ => {}
    }
    Ok(args)
}

/// Lowers each part of each stage; the minutes that all may take, and the most bytes on disk at once.
fn lower(record: &mut Record, arms: &Arms, args: &LabArgs) -> (f64, u64) {
    let plan = record.plan.clone();
    let all = plan.stages.iter();
    let all = all.flat_map(|stage| legs(stage).into_iter().map(move |leg| (stage, leg)));
    for (number, (stage, leg)) in all.enumerate() {
        let (part, lacking) = at_hand(&plan, stage, leg, number + 1, arms);
        if part.state == State::Pending {
            let without = lacking.iter();
            let without = without.map(|why| format!("{}: without {why}", stage.id));
            record.left_out.extend(without);
        }
        record.parts.push(part);
    }
    let (mut minutes, mut disk) = (0.0, 0);
    for number in 0..record.parts.len() {
        let share = share(record, &record.parts, number, args.minutes);
        let Some(lowered) = lowered(record, number, share) else {
            continue;
        };
        let (command, takes, bytes) =
            (lowered.command(args), lowered.takes(), lowered.disk_bytes());
        let part = &mut record.parts[number];
        part.command = command;
        if part.state == State::Pending {
            minutes += takes;
            disk = disk.max(bytes);
        }
    }
    (minutes, disk)
}

/// A part with what it has of its arms, not lowered yet, and what it lacks.
fn at_hand(
    plan: &LabPlan,
    stage: &StagePlan,
    leg: Leg,
    number: usize,
    arms: &Arms,
) -> (PartRecord, Vec<String>) {
    let mut had = Vec::new();
    let mut lacking = Vec::new();
    for arm in plan
        .arms_of(stage)
        .into_iter()
        .filter_map(|name| plan.arm(name))
    {
        match arms.target(arm, stage.measure) {
            Ok(target) => had.push((arm.name.clone(), target)),
            Err(why) => lack(&mut lacking, &arm.name, why),
        }
    }
    let enough = match stage.measure {
        Measure::Compare => had.len() >= 2,
        Measure::Inspect => !had.is_empty(),
        Measure::Run | Measure::Count => lacking.is_empty(),
    };
    let lacking: Vec<String> = lacking
        .into_iter()
        .map(|(arms, why)| format!("{}: {why}", arms.join(", ")))
        .collect();
    let (arms, targets) = had.into_iter().unzip();
    let part = PartRecord {
        stage: stage.id.clone(),
        leg,
        place: format!("{number:02}-{}", stage.id),
        arms,
        targets,
        command: Vec::new(),
        state: match enough {
            true => State::Pending,
            false => State::Impossible(lacking.join("; ")),
        },
    };
    (part, lacking)
}

/// The minutes of a part, of those that `waiting` share by their weights.
fn share(record: &Record, waiting: &[PartRecord], number: usize, minutes: f64) -> f64 {
    let weight = |part: &PartRecord| match record.plan.stage(&part.stage) {
        Some(stage) if stage.measure != Measure::Inspect => stage.weight,
        _ => 0.0,
    };
    let waits = |part: &&PartRecord| matches!(part.state, State::Pending | State::Failed(_));
    let all: f64 = waiting.iter().filter(waits).map(weight).sum();
    minutes * weight(&record.parts[number]) / all.max(f64::MIN_POSITIVE)
}

/// What a part is lowered from.
fn lowered(record: &Record, number: usize, minutes: f64) -> Option<Lowered<'_>> {
    let part = record.parts.get(number)?;
    let arms = part.arms.iter().filter_map(|arm| record.plan.arm(arm));
    Some(Lowered {
        stage: record.plan.stage(&part.stage)?,
        leg: &part.leg,
        arms: arms.collect(),
        targets: &part.targets,
        minutes,
        beside: record.beside(),
    })
}

/// Notes that an arm can't be had; those with the same reason stand together.
fn lack(lacking: &mut Vec<(Vec<String>, String)>, arm: &str, why: String) {
    match lacking.iter_mut().find(|(_, known)| *known == why) {
        Some((arms, _)) => arms.push(arm.to_owned()),
        None => lacking.push((vec![arm.to_owned()], why)),
    }
}

/// Measures what is left, and shows what follows from all of it.
fn measure(
    record: &mut Record,
    dir: &Path,
    args: &LabArgs,
    global: &GlobalArgs,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Exit> {
    let before = record.seconds;
    let started = Instant::now();
    let kept = stop.defer();
    // How the stages ended that were begun here and failed.
    let mut failed = Vec::new();
    for number in 0..record.parts.len() {
        let part = &record.parts[number];
        if matches!(part.state, State::Done | State::Impossible(_)) || stop.asked() {
            continue;
        }
        terminal.announce(&format!(
            "stage {} of {}: {} {}",
            number + 1,
            record.parts.len(),
            part.stage,
            part.leg.words()
        ));
        // Its share of the time that the parts before it have left.
        let spent = before + started.elapsed().as_secs_f64();
        let left = (args.minutes - spent / 60.0).max(0.0);
        let share = share(record, &record.parts[number..], number, left);
        if let Some(lowered) = lowered(record, number, share) {
            record.parts[number].command = lowered.command(args);
        }
        let part = &record.parts[number];
        let place = dir.join(&part.place);
        let (state, exit) = one(part, record, &place, args, global, terminal, stop)?;
        if let State::Failed(why) | State::Impossible(why) = &state {
            terminal.complain(&format!("{}: {why}", record.parts[number].stage));
            failed.push(exit);
        }
        record.parts[number].state = state;
        record.seconds = before + started.elapsed().as_secs_f64();
        record.write(dir)?;
    }
    drop(kept);
    let measured = |part: &PartRecord| part.state != State::Pending;
    if stop.asked() && !record.parts.iter().any(measured) && !has_runs(record, dir)? {
        bail!(Failure::interrupted());
    }
    let lab = record.conclude(dir)?;
    let page = page_of_run(dir, &pgassay_report::html(&lab));
    show(&lab, &args.output, terminal)?;
    terminal.place("report:", &page?);
    next(&args.output, &next_of(record), terminal);
    Ok(ended(record, &failed))
}

/// How a lab ends whose stages ended so: in part where some failed, or are left, and others were measured, else as
/// the first that failed. A stage whose servers are not on this machine was not begun: it is no failure beside others.
fn ended(record: &Record, failed: &[Exit]) -> Exit {
    let has = |wanted: State| record.parts.iter().any(|part| part.state == wanted);
    match failed.first() {
        _ if has(State::Pending) => Exit::Partial,
        Some(_) if has(State::Done) => Exit::Partial,
        Some(first) => *first,
        None if has(State::Done) => Exit::Done,
        None => Exit::Target,
    }
}

/// What is missing is measured; else the whole is shown again, as a page to pass on.
fn next_of(record: &Record) -> Vec<String> {
    vec![match record.is_complete() {
        false => format!("pgassay lab --resume {}", record.id),
        true => format!("pgassay lab --report {} --html lab.html", record.id),
    }]
}

/// Whether anything was recorded.
fn has_runs(record: &Record, dir: &Path) -> anyhow::Result<bool> {
    for part in &record.parts {
        if recorded_lab::run_in(&dir.join(&part.place))?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Measures a part, or goes on with it.
fn one(
    part: &PartRecord,
    record: &Record,
    place: &Path,
    args: &LabArgs,
    global: &GlobalArgs,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<(State, Exit)> {
    let stage = record.plan.stage(&part.stage);
    let measure = stage.map_or(Measure::Run, |stage| stage.measure);
    if measure == Measure::Inspect {
        std::fs::create_dir_all(place)?;
        let code = arms::code(&part.targets);
        rundir::replace_file(
            &place.join(recorded_lab::CODE),
            pgassay_report::json(&code).as_bytes(),
        )?;
        return Ok((State::Done, Exit::Done));
    }
    let machines = machines(args);
    trust::refuse_command(&part.command, &record.plan, &machines)?;
    let mut command = part.command.clone();
    if measure == Measure::Count {
        command.push("--json".to_owned());
    }
    if let Some(run) = recorded_lab::run_in(place)? {
        let name = run.file_name().unwrap_or_default().to_string_lossy();
        let whole = rundir::read(&run)?.end.map(|end| RunState::from(end.state));
        if whole == Some(RunState::Complete) {
            return Ok((State::Done, Exit::Done));
        }
        // What another machine recorded is measured anew.
        let elsewhere = part.targets.iter().any(|target| Place::is_meant(target));
        // Nothing but how the server is had, and where its load is from, is typed again.
        let stand_in = command.iter().filter(|word| *word == "--stand-in").cloned();
        let resumed = [&command[0], "--resume", &name].map(str::to_owned);
        let from = machines
            .into_iter()
            .filter(|(name, _)| command.iter().any(|word| word == name));
        let from = from.flat_map(|(name, value)| [name.to_owned(), value]);
        if !elsewhere {
            command = resumed.into_iter().chain(stand_in).chain(from).collect();
        }
    }
    let (exit, said) = match carry_out(&command, place, global, terminal, stop) {
        Ok(done) => done,
        Err(_) if stop.asked() => return Ok((State::Pending, Exit::Interrupted)),
        Err(error) => {
            let why = format!("{error:#}");
            let kind = Failure::of(&error).map(|failure| failure.kind);
            let exit = kind.map_or(Exit::Fault, Exit::from);
            return Ok(match kind {
                Some(FailureKind::Target | FailureKind::Usage) => (State::Impossible(why), exit),
                _ => (State::Failed(why), exit),
            });
        }
    };
    if measure == Measure::Count {
        std::fs::create_dir_all(place)?;
        rundir::replace_file(&place.join(recorded_lab::COUNTS), &said)?;
    }
    let state = match exit {
        Exit::Partial if stop.asked() => State::Pending,
        Exit::Partial => State::Failed("it was measured in part".to_owned()),
        // Of another machine, which has said why.
        Exit::Usage | Exit::Target => State::Impossible(format!(
            "the command ended with code {} there: {}",
            exit as u8,
            outline::typed(&part.command)
        )),
        Exit::Fault | Exit::Interrupted if stop.asked() => State::Pending,
        Exit::Fault | Exit::Interrupted => State::Failed("it was broken off there".to_owned()),
        _ => State::Done,
    };
    Ok((state, exit))
}

/// Carries a command out as if it had been typed, its run recorded in `place`; what it would have
/// printed.
fn carry_out(
    command: &[String],
    place: &Path,
    global: &GlobalArgs,
    terminal: &Terminal,
    stop: &Stop,
) -> anyhow::Result<(Exit, Vec<u8>)> {
    let words = std::iter::once("pgassay").chain(command.iter().map(String::as_str));
    let typed: Vec<String> = words.map(str::to_owned).collect();
    let mut args = cli::parse(typed.iter().map(OsString::from)).map_err(|error| {
        Failure::usage(format!(
            "{}: {}",
            outline::typed(command),
            error.to_string().trim_start_matches("error: ").trim_end()
        ))
    })?;
    args.global = GlobalArgs {
        runs: Some(place.to_owned()),
        typed,
        ..global.clone()
    };
    let said = Said::default();
    let mut muted = terminal.with_results(Box::new(said.clone()));
    let words: Vec<OsString> = args.global.typed.iter().map(OsString::from).collect();
    let exit = match far::sought(&args, &words)? {
        Some(there) => far::there(&there, &args.global, &mut muted, stop)?,
        None => super::dispatch(args, &mut muted, stop)?,
    };
    Ok((exit, said.0.take()))
}

/// What a command prints, kept.
#[derive(Clone, Default)]
struct Said(Rc<RefCell<Vec<u8>>>);

impl Write for Said {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Builds a variant of PostgreSQL by `pgassay build`; its target.
fn build(
    arm: &ArmPlan,
    source: &str,
    global: &GlobalArgs,
    terminal: &Terminal,
    stop: &Stop,
) -> anyhow::Result<String> {
    let mut command = vec!["build".to_owned(), source.to_owned()];
    command.extend([
        "--variant".to_owned(),
        arm.variant.clone().unwrap_or_default(),
    ]);
    command.extend(
        arm.host
            .iter()
            .flat_map(|host| ["--host".to_owned(), host.clone()]),
    );
    command.push("--json".to_owned());
    let (_, said) = carry_out(&command, Path::new(""), global, terminal, stop)?;
    let built: serde_json::Value = serde_json::from_slice(&said)?;
    match built["builds"][0]["name"].as_str() {
        Some(name) => Ok(format!("build:{name}")),
        None => bail!("pgassay build did not say what it built"),
    }
}

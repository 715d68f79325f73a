//! Which commit of a range, or which patches of a series, make the difference.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::bail;
use pgassay_analysis::search::steps::{SCHEMA, Searched, Step, Traced};
use pgassay_engine::rundir::{self, RunWriter};
use pgassay_model::plan::{Arm, Experiment, Stage};
use pgassay_model::record::RecordedRun;
use pgassay_model::run::EventKind;
use pgassay_model::stage::StageId;
use pgassay_model::{Failure, Plan};
use pgassay_observe::host;
use pgassay_server::pgbuild::commits::{self, Commit, History};
use pgassay_server::pgbuild::maker::native_machine;
use pgassay_server::pgbuild::{Builder, Place, Variant};
use pgassay_sys::stop::Stop;

use super::measure::Bench;
use super::positions::Positions;
use super::setup::{clients, plan, surroundings};
use super::tracer::{Asked, Tracer, brief, searched};
use crate::cli::args::GlobalArgs;
use crate::cli::bisect::{BisectArgs, ByArg};
use crate::commands::again::refuse_whole;
use crate::commands::progress::minutes;
use crate::commands::search::STEPS;
use crate::commands::{build, record};
use crate::exit::Exit;
use crate::terminal::Terminal;

/// Bytes of shared buffers that servers have by default.
const SHARED_BUFFERS: u64 = 128 << 20;

/// Searches for the commit, or measures the patches.
///
/// # Errors
/// What kept it from measuring; what was measured before is kept.
pub fn bisect(
    args: &BisectArgs,
    global: &GlobalArgs,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Exit> {
    args.sides.dials.refuse_replay()?;
    let workload = args.sides.dials.workload(&args.workload)?;
    if workload.writes && args.by == ByArg::Instructions {
        bail!(
            Failure::usage(format!(
                "--by instructions needs a workload that only reads, and {} writes",
                workload.name
            ))
            .with_remedy("leave --by out, or name select-only or a script without writes")
        );
    }
    let variant = variant(&args.variant)?;
    let builder = Builder::find()?;
    build::announce(&builder, terminal);
    let place = builder.run(Place::open)?;
    let (history, kind) = builder.run(|| range(args, &place))?;
    for note in &history.notes {
        terminal.announce(note);
    }
    let root = rundir::root(global.runs.as_deref())?;
    let clients = clients(args)?;
    let seed = record::seed(None, args.sides.slices.seed)?;
    let search = searched(&history);
    let traced = Traced {
        schema: SCHEMA.to_owned(),
        source: history.given.clone(),
        kind: kind.to_owned(),
        repository: history.repository.display().to_string(),
        variant: args.variant.clone(),
        settings: args.sides.given.settings.clone(),
        first_parent: args.first_parent,
        each: args.each || kind == PATCHES,
        workload: workload.name.clone(),
        clients,
        metric: args.metric.unwrap_or_default(),
        pairs: args.pairs,
        seed,
        notes: history.notes.clone(),
        searches: vec![search],
    };
    let plan = plan(args, workload, clients, SHARED_BUFFERS, seed)?;
    let steps = history.commits.len();
    let arms = [("A", 0), ("B", steps)].map(|(label, position)| Arm {
        label: label.to_owned(),
        target: history.at(position).id.clone(),
        typed: history.given.clone(),
        load: false,
        settings: record::pairs(&args.sides.given.settings),
        ..Arm::default()
    });
    let experiment = Experiment::single(arms.into(), Stage::wire(StageId::Load, plan.clone()));
    let kept = stop.defer();
    let mut header = record::header(STEPS, global, experiment);
    let writer = RunWriter::create(&root, &mut header)?;
    writer.write_fact("host", &host::facts(None))?;
    writer.write_fact(STEPS, &traced)?;
    let to_build = match traced.each {
        true => steps + 1,
        false => (steps + 1).min(3 + (steps as f64).log2().ceil() as usize),
    };
    terminal.announce(&format!(
        "{steps} {kind} from {} to {}; about {to_build} have to be built, of which the first compiles \
         everything; the search ends after {} at the latest",
        brief(&history.good),
        brief(history.at(steps)),
        minutes(Duration::from_secs_f64(args.minutes * 60.0)),
    ));
    let tracer = Tracer {
        positions: positions(args, builder, place, variant, &plan, &traced, stop),
        bench: bench(args, &plan, &traced, stop),
        asked: Asked::of(args),
        histories: vec![history],
        traced,
        plan,
        writer,
        started: Instant::now(),
        before: 0.0,
        built: BTreeMap::new(),
    };
    let exit = tracer.finish(args, terminal);
    drop(kept);
    exit
}

/// Goes on with a search.
///
/// # Errors
/// Like [`bisect`]; where nothing is left to do.
pub fn resume(
    args: &BisectArgs,
    dir: PathBuf,
    run: RecordedRun,
    traced: Traced,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Exit> {
    let whole = traced.searches.iter().all(|search| search.complete);
    refuse_whole(&run.header.id, run.end.as_ref(), whole)?;
    let builder = Builder::find()?;
    build::announce(&builder, terminal);
    let place = builder.run(Place::open)?;
    let histories = traced
        .searches
        .iter()
        .map(|search| history(&traced, search));
    let histories: Vec<History> = histories.collect();
    let kept = stop.defer();
    let mut writer = RunWriter::reopen(&dir, &run.header)?;
    writer.append_event(EventKind::Resumed)?;
    let plan = run.header.experiment.plan().clone();
    let variant = variant(&traced.variant)?;
    let tracer = Tracer {
        positions: positions(args, builder, place, variant, &plan, &traced, stop),
        bench: bench(args, &plan, &traced, stop),
        asked: Asked::of(args),
        before: traced.searches.iter().map(|search| search.seconds).sum(),
        histories,
        traced,
        plan,
        writer,
        started: Instant::now(),
        built: BTreeMap::new(),
    };
    let exit = tracer.finish(args, terminal);
    drop(kept);
    exit
}

/// The kinds of steps.
const COMMITS: &str = "commits";
const PATCHES: &str = "patches";

/// The range that was asked for.
fn range(args: &BisectArgs, place: &Place) -> anyhow::Result<(History, &'static str)> {
    let is_patch = |path: &Path| {
        path.extension()
            .is_some_and(|e| e == "patch" || e == "diff")
    };
    let (mut patches, mut others): (Vec<PathBuf>, Vec<PathBuf>) = args
        .subjects
        .iter()
        .map(PathBuf::from)
        .partition(|path| is_patch(path) && args.good.is_none());
    if let Some(dir) = &args.series {
        let entries = std::fs::read_dir(dir)
            .map_err(|error| Failure::usage(format!("--series {}: {error}", dir.display())))?;
        let mut found: Vec<PathBuf> = entries
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| is_patch(path))
            .collect();
        found.sort();
        if found.is_empty() {
            bail!(
                Failure::usage(format!("--series {}: holds no patch", dir.display()))
                    .with_remedy("patches are its files that end in .patch or .diff")
            );
        }
        patches.extend(found);
    }
    let source = match others.len() {
        0 => ".".to_owned(),
        1 => others.remove(0).display().to_string(),
        _ => bail!(
            Failure::usage("one source is searched, and several were named")
                .with_remedy("pgassay bisect --good REF --bad REF SOURCE")
        ),
    };
    match (&args.good, &args.bad) {
        (Some(good), Some(bad)) => Ok((commits::history(&source, good, bad, place)?, COMMITS)),
        _ => {
            let git_ref = args.git_ref.as_deref();
            Ok((commits::series(&source, git_ref, &patches, place)?, PATCHES))
        }
    }
}

/// How all are built; where nothing is asked for, as usual.
fn variant(spec: &str) -> anyhow::Result<Variant> {
    let spec = match spec.trim() {
        "" => "plain",
        spec => spec,
    };
    Ok(Variant::parse(
        &format!("bisect {spec}"),
        &native_machine(),
        false,
    )?)
}

fn positions(
    args: &BisectArgs,
    builder: Builder,
    place: Place,
    variant: Variant,
    plan: &Plan,
    traced: &Traced,
    stop: &Stop,
) -> Positions {
    Positions {
        builder,
        place,
        variant,
        jobs: args.jobs,
        settings: traced.settings.clone(),
        workload: pgassay_model::workload::WorkloadPlan {
            scale: args.sides.slices.one_scale().ok().flatten().unwrap_or(1),
            ..plan.workload.clone()
        },
        scratch: args.sides.scratch.clone(),
        seed: traced.seed,
        stop: stop.clone(),
        build_seconds: 0.0,
        count_seconds: 0.0,
    }
}

fn bench(args: &BisectArgs, plan: &Plan, traced: &Traced, stop: &Stop) -> Bench {
    Bench {
        around: surroundings(
            args,
            traced
                .clients
                .saturating_add(plan.workload.further_connections()),
            None,
        ),
        metric: traced.metric,
        pairs: traced.pairs,
        stop: stop.clone(),
    }
}

/// The history that a recorded search went along.
fn history(traced: &Traced, search: &Searched) -> History {
    let commit = |step: &Step| Commit {
        id: step.id.clone(),
        subject: step.title.clone(),
        merge: step.merge,
    };
    History {
        repository: PathBuf::from(&traced.repository),
        given: traced.source.clone(),
        good: commit(&search.good),
        commits: search.steps.iter().map(commit).collect(),
        notes: Vec::new(),
    }
}

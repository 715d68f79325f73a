//! `pgassay compare`: is B really different from A, by how much, how sure?
//!
//! The servers of all arms are up at once and loaded in turn, slice by slice; the
//! idle ones' connections stay open and silent. First A is measured beside another
//! server like it: that is the noise floor, and from it follows how many pairs it
//! takes. Then come the pairs.

mod budget;
mod facts;
mod io;
mod load;
mod machine;
mod places;
mod pooled;
mod recorded;
mod rounds;
pub mod servers;
mod typed;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::bail;
use pgassay_analysis::compare::{self, Compare};
use pgassay_analysis::host::HostSummary;
use pgassay_analysis::{analyse, number};
use pgassay_engine::rundir::{self, RunWriter};
use pgassay_engine::runner::Ended;
use pgassay_engine::workload::sessions::Recordings;
use pgassay_model::comparison::{ComparisonPlan, Typed, launch_order};
use pgassay_model::plan::{Arm, DriverConfig, Experiment, Stage};
use pgassay_model::record::RecordedRun;
use pgassay_model::run::{EventKind, RunEnd, RunHeader};
use pgassay_model::stage::StageId;
use pgassay_model::warning::Warning;
use pgassay_model::{Failure, FailureKind, Plan};
use pgassay_observe::host;
use pgassay_server::TargetSpec;
use pgassay_sys::stop::Stop;

pub use self::load::metric;
use self::load::{Load, add_settings};
use self::machine::Watch;
use self::places::Placed;
use self::rounds::Measuring;
use self::servers::{Servers, Surroundings};
use self::typed::{refuse_guests, refuse_load, refuse_writes, typed};
use super::again::{observe_as, refuse_whole, resumed_from, to_resume};
use super::files::page_of_run;
use super::pooler::{self, Passage};
use super::progress::minutes;
use super::record::{self, shown};
use super::show::{refuse_page, show};
use super::{alone, copies, from, observing, opened, ordinary, quiet};
use crate::cli::args::GlobalArgs;
use crate::cli::compare::CompareArgs;
use crate::cli::measure::MeasureArgs;
use crate::cli::measure::{self, Budget, Concurrency, Machine};
use crate::cli::target::TargetArgs;
use crate::exit::{Exit, explain};
use crate::session;
use crate::terminal::Terminal;

/// Connections beside the load: two control sessions and a few to spare.
pub const BESIDE: u32 = 6;
/// Seconds that a slice takes beside its load.
const BETWEEN: f64 = 0.06;
/// Chance of showing δ that forecasts are made for.
const POWER: f64 = 0.9;
/// Counted seconds of a slice of a replay.
const REPLAY_SLICE: f64 = 2.0;
/// Looks of a sequential comparison.
const LOOKS: usize = 6;
/// Names of the arms.
const LABELS: [&str; 8] = ["A", "B", "C", "D", "E", "F", "G", "H"];

/// Compares what was named.
///
/// # Errors
/// What kept it from measuring; what was measured before is kept.
pub fn compare(
    args: &CompareArgs,
    global: &GlobalArgs,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Exit> {
    refuse_page(&args.show, terminal)?;
    if args.recorded {
        return recorded::recorded(args, global, terminal);
    }
    if args.pool {
        return pooled::pool(args, global, terminal);
    }
    args.sides.given.refuse_beyond(args.targets.len())?;
    if args.by != crate::cli::compare::By::Time {
        if args.from.is_some() {
            bail!(
                Failure::usage("only a comparison by time has clients on several machines")
                    .with_remedy("leave out --from, or --by")
            );
        }
        return super::counts::by(args, terminal, stop);
    }
    if recorded::are_runs(args, global) {
        terminal.announce("both are recorded runs: they are compared as by --recorded");
        return recorded::recorded(args, global, terminal);
    }
    let measured = match measured(args, global, true, terminal, stop)? {
        Ok(measured) => measured,
        Err(part) => {
            let analysis = analyse(&part.run);
            let written = page_of_run(&part.dir, &pgassay_report::html(&analysis));
            let printed = show(&analysis, &args.show, terminal);
            opened::announce(&written?, args.page.open, terminal);
            printed?;
            return Err(part.error);
        }
    };
    conclude(args, &measured.concluded, &measured.dir, terminal)?;
    let ended = measured
        .ended
        .map_err(|error| ordinary::in_part(error, "compare", &measured.run))?;
    measured.finished?;
    Ok(match ended {
        Ended::Complete => measured.concluded.verdict.into(),
        Ended::Interrupted | Ended::ServerDied(_) => Exit::Partial,
    })
}

/// A comparison that was measured, whole or in part.
pub struct Measured {
    /// What follows.
    pub concluded: Compare,
    /// The run's name.
    pub run: String,
    /// Its directory.
    pub dir: PathBuf,
    /// How measuring ended.
    pub ended: anyhow::Result<Ended>,
    /// Whether the run's end could be written down.
    pub finished: anyhow::Result<()>,
}

/// A comparison that ended before its first pair.
struct Part {
    run: RecordedRun,
    dir: PathBuf,
    error: anyhow::Error,
}

/// Measures by time what was named, or goes on with it; shows nothing.
///
/// # Errors
/// What kept it from measuring a pair.
pub fn measure(
    args: &CompareArgs,
    global: &GlobalArgs,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Measured> {
    measured(args, global, false, terminal, stop)?.map_err(|part| part.error)
}

/// The same, with what there is where no pair was measured. `kept` refuses what takes longer than
/// `--minutes`.
fn measured(
    args: &CompareArgs,
    global: &GlobalArgs,
    kept: bool,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Result<Measured, Part>> {
    let started = Instant::now();
    let root = rundir::root(global.runs.as_deref())?;
    let resume = args
        .resume
        .as_deref()
        .map(|name| Resumed::find(&root, name))
        .transpose()?;
    let machine = pgassay_analysis::host::summarise(&host::facts(None));
    let load = match &resume {
        Some(resumed) => Load::recorded(&resumed.header.experiment)?,
        None => Load::new(args, &machine, terminal)?,
    };
    metric(args.metric, load.replay())?;
    let Placed { mut typed, places } = match &resume {
        Some(resumed) => Placed {
            typed: resumed.comparison.typed.clone(),
            places: resumed.comparison.places,
        },
        None => places::place(args, &load, typed(args)?, &machine)?,
    };
    if let Load::InServer(call) = &load {
        refuse_guests(&typed, call.primitive)?;
    }
    add_settings(&mut typed, &load.settings(&machine));
    let targets = places::targets(&typed, places);
    let same = typed[..targets].windows(2).all(|pair| pair[0] == pair[1]);
    let mut arms: Vec<(String, Typed)> = places::labels(&typed, places)
        .into_iter()
        .zip(typed.iter().cloned())
        .collect();
    if !same {
        arms.push(("A again".to_owned(), typed[0].clone()));
    }
    refuse_load(args, &arms)?;
    if let Load::Wire(workload) = &load {
        refuse_writes(workload, &arms, args.paired.is_copy)?;
    }
    let recorded = resume.as_ref().map(|resumed| &resumed.header.experiment);
    let machines = match recorded {
        Some(experiment) => resumed_from(experiment, args.from.as_ref())?,
        None => args.from.clone(),
    };
    let mut args = args.clone();
    let agents = match (&machines, &load) {
        (Some(list), Load::Wire(workload)) => {
            from::refuse(
                workload,
                args.sides.dials.pin.is_some(),
                args.sides.dials.ceiling,
            )?;
            let agents = from::open(list, &args.ways, global, terminal, stop)?;
            let threads = agents.cpus().div_ceil(4).max(1);
            args.sides.slices.threads.get_or_insert(threads);
            Some(agents)
        }
        _ => None,
    };
    let args = &args;
    let outside = from::ways(
        machines.as_ref().zip(agents.as_ref()),
        &args.ways,
        kinds_of(&arms)?,
        terminal,
    )?;
    quiet::look(None, terminal, stop)?;
    let held = arms.iter().find_map(|(_, typed)| typed.copy_of.as_deref());
    let named = arms.iter().map(|(_, typed)| &typed.target);
    let dump = copies::dump_of(&args.sides, held, named, terminal, stop)?;
    if let Some(dump) = &dump {
        terminal.announce(&dump.words());
    }

    let counts = match (&resume, &args.sides.slices.client_counts) {
        (Some(resumed), _) => resumed
            .header
            .experiment
            .plan()
            .points
            .iter()
            .map(|p| p.clients)
            .collect(),
        (None, asked) => {
            let asked = asked.as_ref().map(|list| list.0.as_slice());
            match (load.replay(), asked) {
                (Some(replay), asked) => measure::replay_clients(replay, asked)?,
                (None, Some(list)) => list.to_vec(),
                (None, None) => load.usual_counts(machine.cpus.unwrap_or(1)),
            }
        }
    };
    if args.sequential && (counts.len() > 1 || targets > 2) {
        bail!(
            Failure::usage("--sequential decides one question: two targets at one client count")
                .with_remedy("name one number with --clients, or leave --sequential out")
        );
    }
    let around = Surroundings {
        common: TargetArgs {
            load: args.paired.load,
            is_copy: args.paired.is_copy,
            scratch: args.sides.scratch.clone(),
            stand_in: args.sides.stand_in,
            dump,
            outside,
            ..TargetArgs::default()
        },
        passage: Passage {
            workload: match &load {
                Load::Wire(workload) => Some((**workload).clone()),
                _ => None,
            },
            protocol_asked: args.sides.dials.protocol.is_some() || resume.is_some(),
            observers_asked: !args.observe.names().is_empty(),
            is_copy: args.paired.is_copy,
        },
        memory_bytes: machine.usable_memory_bytes().unwrap_or(1 << 30),
        connections: counts
            .iter()
            .max()
            .copied()
            .unwrap_or(1)
            .saturating_add(load.idle())
            .saturating_add(BESIDE),
    };
    let seed = record::seed(recorded.map(Experiment::plan), args.sides.slices.seed)?;
    terminal.progress("making and starting the servers");
    let order = launch_order(seed, 0, arms.len());
    let mut servers = Servers::open(&arms, &order, &around, stop)?;
    for (index, (label, _)) in arms.iter().enumerate() {
        let shown = servers.subject(index).shown.clone();
        terminal.announce(&format!("{label}: {shown}"));
        for differs in &servers.subject(index).copy_differs {
            terminal.warn(&format!("{label}: {differs}"));
        }
    }
    places::announce(&arms, terminal);

    let (experiment, comparison) = match &resume {
        Some(resumed) => (
            resumed.header.experiment.clone(),
            resumed.comparison.clone(),
        ),
        None => {
            // What takes long to make is made once.
            let guests = args.sides.from_database.is_some()
                || (0..arms.len()).any(|arm| servers.subject(arm).cluster.is_none());
            let stage = match load.stage(args, &counts, seed) {
                Some(stage) => stage,
                None => {
                    let arms = arms.len();
                    let plan = plan(args, seed, &load, arms, &counts, &machine, &mut servers)?;
                    Stage::wire(StageId::Load, plan)
                }
            };
            let bytes = match &stage.driver {
                DriverConfig::Pgio(pgio) => {
                    vec![u64::from(pgio.tables) * pgio.rows * 8192; servers.launched()]
                }
                _ => places::bytes(&stage.plan, &arms[..servers.launched().min(arms.len())]),
            };
            servers.refuse_full_disk(&bytes)?;
            let of = (&stage.plan, arms.as_slice());
            let comparison =
                budget::comparison_plan(args, of, (&typed, places), same, guests, kept)?;
            let experiment = Experiment {
                observe: args.observe.names(),
                from: machines.as_ref().map(from::names).unwrap_or_default(),
                ..Experiment::single(described(&arms, &mut servers, args.paired.load), stage)
            };
            (experiment, comparison)
        }
    };
    // Servers come and go; what was measured is kept in between, too.
    let deferred = stop.defer();
    let writer = open_run(global, &root, &experiment, &comparison, resume.as_ref())?;
    let dir = writer.dir().to_owned();
    let company = alone::look();
    let observers = observing::choice(
        &observe_as(Some(&experiment), &args.observe),
        load.observed(),
    );
    let mut measuring = Measuring {
        writer,
        stage: experiment
            .stages
            .first()
            .map(|stage| stage.id)
            .unwrap_or_default(),
        plan: experiment.plan().clone(),
        comparison,
        load,
        arms,
        around,
        started,
        budget: Duration::from_secs_f64(args.minutes() * 60.0),
        observers,
        agents,
        recordings: Recordings::default(),
        stop: stop.clone(),
    };
    measuring.note_first(&mut servers, &company, terminal)?;
    let watch = Watch::begin();
    if watch.on_battery() {
        terminal.warn("the machine runs on its battery: its processor's speed is saved on");
    }
    for (index, (label, _)) in measuring.arms.iter().enumerate() {
        if let Some(facts) = &servers.subject(index).pooler
            && label != "A again"
        {
            let warning = pooler::warning(facts, Some(label));
            let what = EventKind::Warned { warning };
            measuring.writer.append_event(what)?;
        }
    }
    let ended = measuring.run(servers, terminal);
    for warning in watch.end(started.elapsed().as_secs_f64()) {
        measuring
            .writer
            .append_event(EventKind::Warned { warning })?;
    }
    let mut end = record::end_of(&ended, started);
    if let Ok(Ended::ServerDied(which)) = &ended {
        // Of several servers the reason names the one.
        end.reason = Some(which.clone());
    }
    let finished = measuring.writer.finish(&end);
    // The lock is given up first, so that the run does not count as running.
    drop(measuring);
    drop(deferred);
    drop(company);
    let run = rundir::read(&dir)?;
    let Some(concluded) = compare::conclude(&run) else {
        if run.trials.is_empty() {
            return Err(nothing_measured(ended, &end));
        }
        let error = before_pairs(ended, &run);
        return Ok(Err(Part { run, dir, error }));
    };
    Ok(Ok(Measured {
        concluded,
        run: run.header.id,
        dir,
        ended,
        finished,
    }))
}

fn plan(
    args: &CompareArgs,
    seed: u64,
    load: &Load,
    arms: usize,
    counts: &[u32],
    machine: &HostSummary,
    servers: &mut Servers,
) -> anyhow::Result<Plan> {
    let Load::Wire(workload) = load else {
        bail!("the plan of another load than clients over the wire");
    };
    let workload = (**workload).clone();
    let mut flags = MeasureArgs {
        seed: Some(seed),
        ..args.sides.slices.measured(counts, workload.writes)
    };
    if workload.replay.is_some() {
        // A recording has quiet moments.
        flags.time = args.sides.slices.slice.or(Some(REPLAY_SLICE));
    }
    let cpus = machine.cpus.unwrap_or(1);
    let machine = Machine {
        cache_bytes: machine.last_level_cache_total_bytes.unwrap_or(0),
        shared_buffers: servers.shared_buffers()?,
    };
    Ok(measure::plan(
        workload,
        &flags,
        &Concurrency::of(&flags, cpus),
        arms,
        &machine,
        Budget::RUN,
        seed,
    )?)
}

/// The arms as they are recorded.
/// What the servers of a comparison are.
fn kinds_of(arms: &[(String, Typed)]) -> anyhow::Result<from::Servers> {
    let mut servers = from::Servers {
        launched: false,
        running: false,
    };
    for (_, typed) in arms {
        let spec: TargetSpec = typed.target.parse().map_err(explain)?;
        servers.launched |= spec.is_launched();
        servers.running |= !spec.is_launched();
    }
    Ok(servers)
}

fn described(arms: &[(String, Typed)], servers: &mut Servers, load: bool) -> Vec<Arm> {
    let each = arms.iter().enumerate().map(|(index, (label, typed))| {
        let subject = servers.subject(index);
        Arm {
            label: label.clone(),
            target: subject.shown.clone(),
            typed: shown(&typed.target),
            load,
            settings: record::pairs(&typed.settings),
            confinement: typed.confinement.clone(),
            axes: places::values(typed, label),
        }
    });
    each.collect()
}

/// An interrupted comparison.
struct Resumed {
    dir: PathBuf,
    header: RunHeader,
    comparison: ComparisonPlan,
}

impl Resumed {
    fn find(root: &std::path::Path, name: &str) -> anyhow::Result<Self> {
        let (dir, run) = to_resume(root, name)?;
        let id = &run.header.id;
        let Some(comparison) = run.comparison else {
            bail!(
                Failure::usage(format!("{id} is no comparison"))
                    .with_remedy("pgassay assay --resume goes on with an assay")
            );
        };
        refuse_whole(id, run.end.as_ref(), true)?;
        Ok(Self {
            dir,
            header: run.header,
            comparison,
        })
    }
}

fn open_run(
    global: &GlobalArgs,
    root: &std::path::Path,
    experiment: &Experiment,
    comparison: &ComparisonPlan,
    resume: Option<&Resumed>,
) -> anyhow::Result<RunWriter> {
    if let Some(resumed) = resume {
        let mut writer = RunWriter::reopen(&resumed.dir, &resumed.header)?;
        writer.append_event(EventKind::Resumed)?;
        if resumed.comparison.launches == 1 {
            let warning = Warning::new(
                "started-anew",
                "The comparison was interrupted and gone on with: the servers were started anew \
                 in between, so the pairs are of two launches.",
            );
            writer.append_event(EventKind::Warned { warning })?;
        }
        return Ok(writer);
    }
    let mut experiment = experiment.clone();
    if let Some(plan) = experiment.plan_mut() {
        plan.trials = comparison.most_pairs.saturating_mul(comparison.launches);
    }
    let mut header = record::header("compare", global, experiment);
    let writer = RunWriter::create(root, &mut header)?;
    writer.write_fact("comparison", comparison)?;
    Ok(writer)
}

fn nothing_measured(ended: anyhow::Result<Ended>, end: &RunEnd) -> anyhow::Error {
    match ended {
        Ok(Ended::Interrupted) => Failure::interrupted().into(),
        Ok(_) => Failure::target(format!(
            "no pair was measured: {}",
            end.reason.as_deref().unwrap_or("no point could be reached")
        ))
        .into(),
        Err(error) => error,
    }
}

/// What ended a comparison in which only the noise floor was measured.
fn before_pairs(ended: anyhow::Result<Ended>, run: &RecordedRun) -> anyhow::Error {
    let why = match ended {
        Ok(Ended::Interrupted) => "stopped by Ctrl-C".to_owned(),
        Ok(Ended::ServerDied(why)) => why,
        Ok(Ended::Complete) => "no point could be reached".to_owned(),
        // What can't be compared as asked for can't be gone on with either.
        Err(error) => {
            let usage = Failure::of(&error).is_some_and(|f| f.kind == FailureKind::Usage);
            return match usage {
                true => error,
                false => ordinary::in_part(error, "compare", &run.header.id),
            };
        }
    };
    Failure::partial(format!(
        "{why} before the first pair: {} of the noise floor were measured and kept",
        number::counted(run.trials.len() as u64, "slice")
    ))
    .with_remedy(session::to_go_on(format!(
        "pgassay compare --resume {} goes on",
        run.header.id
    )))
    .into()
}

/// Writes the report into the run and prints it.
fn conclude(
    args: &CompareArgs,
    compare: &Compare,
    dir: &std::path::Path,
    terminal: &mut Terminal,
) -> anyhow::Result<()> {
    let written = page_of_run(dir, &pgassay_report::html(compare));
    let printed = show(compare, &args.show, terminal);
    opened::announce(&written?, args.page.open, terminal);
    printed
}

/// How long, for an announcement.
fn about(seconds: f64) -> String {
    minutes(Duration::from_secs_f64(seconds.max(0.0)))
}

//! `pgassay run` of a workload inside the server: the extension compiled,
//! loaded into a launched server, and swept over session counts.

use std::time::{Duration, Instant};

use pgassay_engine::drivers::in_server::{InServer, InServerArm, Sessions};
use pgassay_engine::drivers::query_ways;
use pgassay_engine::rundir::{self, RunWriter};
use pgassay_engine::runner::Ended;
use pgassay_engine::workload::inserver::{self, Call, Knobs};
use pgassay_engine::workload::setup;
use pgassay_model::plan::{DriverConfig, Experiment, Stage};
use pgassay_model::primitives::{Compiled, PrimitivesPlan};
use pgassay_model::run::EventKind;
use pgassay_model::stage::StageId;
use pgassay_model::warning::Warning;
use pgassay_model::{Failure, Plan};
use pgassay_observe::host;
use pgassay_pgwire::{ConnectError, Connector, QueryError, Session};
use pgassay_server::extension::Extension;
use pgassay_sys::stop::Stop;

use super::again::Again;
use super::ending::end;
use super::progress::{Progress, minutes};
use super::recorder::Recorder;
use super::request::Request;
use super::subject::Subject;
use super::{inspect_server, observing, query_cost, quiet, record};
use crate::cli::args::{GlobalArgs, RunArgs};
use crate::cli::measure::Concurrency;
use crate::cli::observe::ObserveArgs;
use crate::cli::target::TargetArgs;
use crate::exit::{Exit, explain};
use crate::terminal::Terminal;

/// Seconds for all calls together where nothing was asked for.
const BUDGET: f64 = 75.0;
/// Seconds that a trial takes beside its call: statement, gate, connections.
const BETWEEN: f64 = 0.04;
/// The longest call: with the wait at the gate a statement stays below a second.
const LONGEST_CALL: f64 = 0.9;
/// In an assay, after its load: seven loops at three counts in 15 seconds.
const BESIDE_TRIALS: u32 = 6;
const BESIDE_CALL_MS: u64 = 80;
/// Connections beside the sessions: the control session, the keeper, a few to spare.
const BESIDE: u32 = 6;

/// Measures one workload inside the server, or what an interrupted run of it has not measured.
///
/// # Errors
/// What kept it from measuring; what was measured before is kept.
pub fn run(
    args: &RunArgs,
    target: &TargetArgs,
    again: &Again,
    global: &GlobalArgs,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Exit> {
    let started = Instant::now();
    let asked = Asked::of(args, again)?;
    let (workload, knobs) = (asked.workload.as_str(), &asked.knobs);
    let spec = target.spec()?;
    if !spec.is_launched() {
        return Err(Failure::usage(format!(
            "{workload} loads a library into the server, which pgassay does only in a server of its own"
        ))
        .with_remedy("name temp or an installation; on this server run select-only --load")
        .into());
    }
    let root = rundir::root(global.runs.as_deref())?;
    quiet::look(args.measure.wait_quiet, terminal, stop)?;
    let machine = pgassay_analysis::host::summarise(&host::facts(None));
    let counts = match again.experiment() {
        None => Concurrency::of(&args.measure, machine.cpus.unwrap_or(1)).clients,
        Some(experiment) => sessions(experiment.plan()),
    };
    let most = counts.iter().max().copied().unwrap_or(1);
    knobs.check(workload, most)?;

    let progress = Progress::new(terminal, 100);
    progress.say("making and starting a throw-away PostgreSQL");
    let memory = machine.usable_memory_bytes();
    let opened = Subject::open(
        &spec,
        &target.with_defaults(&inserver::settings()),
        memory.unwrap_or(1 << 30),
        most.saturating_add(inserver::most_company(workload, knobs))
            .saturating_add(BESIDE),
        stop,
    );
    progress.clear();
    let mut subject = opened?;
    terminal.announce(&format!("server: {}", subject.shown));
    let Some(cluster) = &subject.cluster else {
        anyhow::bail!("a launched target has a cluster");
    };
    progress.say("compiling the functions for this server");
    let installation = cluster.installation().clone();
    let extension = Extension::compiled_for(&installation, target.scratch.as_deref());
    progress.clear();
    let extension = extension.map_err(explain)?;
    let calls = inserver::calls(workload, installation.version.num(), knobs);
    let experiment = match again.experiment() {
        Some(experiment) => experiment.clone(),
        None => {
            let stage = stage(args, &asked, &calls, &counts, &extension)?;
            let seed = stage.plan.seed;
            let mut stages = vec![stage];
            stages.extend(
                asked
                    .beside_a_wire
                    .then(|| query_ways::stage(seed, args.inside.instructions)),
            );
            Experiment {
                arms: vec![record::arm(target, &subject)],
                stages,
                observe: args.measure.observe.names(),
                from: Vec::new(),
            }
        }
    };
    let plan = experiment.plan();
    let mut header = record::header("run", global, experiment.clone());
    let mut writer = again.open(&root, &mut header)?;
    record::write_facts(&mut writer, &mut subject)?;
    terminal.announce(&format!(
        "{workload}: {} trials of {:.2} s of {} at each of {} sessions: about {}",
        plan.trials,
        plan.window_ms as f64 / 1e3,
        match calls.len() {
            1 => "one loop".to_owned(),
            n => format!("{n} loops"),
        },
        shown(&counts),
        minutes(Duration::from_secs_f64(4.0 + seconds(plan)))
    ));
    let query_ways = experiment.stage(StageId::QueryCost);
    if let Some(stage) = query_ways {
        terminal.announce(&format!(
            "then the same statement over the wire and in the loops, sampled: about {}",
            minutes(Duration::from_secs_f64(stage.plan.load_seconds()))
        ));
    }

    let loops = Loops {
        calls: &calls,
        knobs,
        extension: &extension,
    };
    let observe = again.observe(&args.measure.observe);
    let first = &experiment.stages[0];
    let ended = sweep(
        first,
        &observe,
        &loops,
        &mut subject,
        &mut writer,
        terminal,
        stop,
    );
    let ended = match (ended, query_ways) {
        (Ok(Ended::Complete), Some(stage)) => {
            let prepare = |session: &mut Session| {
                let definitions = extension.definitions(inserver::SCHEMA);
                inserver::create(session, &definitions, &calls, knobs, 0)
            };
            let counting = query_cost::Counting {
                installation: &installation,
                scratch: target.scratch.as_deref(),
                prepare: &prepare,
            };
            query_cost::measure(stage, &counting, &mut subject, &mut writer, terminal, stop)
        }
        (ended, _) => ended,
    };
    end(
        args,
        (started, ended),
        writer,
        subject,
        terminal,
        |analysis| !analysis.primitives.is_empty(),
    )
}

/// What is to be called.
struct Asked {
    workload: String,
    knobs: Knobs,
    /// Whether a query's way is looked at afterwards.
    beside_a_wire: bool,
}

impl Asked {
    fn of(args: &RunArgs, again: &Again) -> anyhow::Result<Self> {
        if let Some(experiment) = again.experiment() {
            let plan = experiment.stages.first().map(|stage| &stage.driver);
            let Some(DriverConfig::InServer(plan)) = plan else {
                anyhow::bail!("the recorded run is of another kind");
            };
            return Ok(Self {
                workload: experiment.plan().workload.name.clone(),
                knobs: serde_json::from_value(plan.knobs.clone()).unwrap_or_default(),
                beside_a_wire: experiment.stage(StageId::QueryCost).is_some(),
            });
        }
        let knobs = args.inside.knobs()?;
        check_time(args.measure.time)?;
        let counts = args.inside.instructions;
        Ok(Self {
            workload: args.workload.clone(),
            beside_a_wire: query_cost::wanted(&args.workload, &knobs, counts)?,
            knobs,
        })
    }
}

/// The session counts of a plan.
fn sessions(plan: &Plan) -> Vec<u32> {
    let mut counts: Vec<u32> = plan.points.iter().map(|point| point.clients).collect();
    counts.sort_unstable();
    counts.dedup();
    counts
}

/// Where something was asked for that the server refuses, such as more blocks
/// than the table has or a statement that divides by zero, that is the asker's
/// to mend.
fn of_the_asker(error: anyhow::Error, knobs: &Knobs) -> anyhow::Error {
    let connecting = |cause: &(dyn std::error::Error + 'static)| cause.is::<ConnectError>();
    if error.chain().any(connecting) {
        return Failure::target(format!("{error:#}"))
            .with_remedy(
                "fewer sessions (--clients, --idle-sessions), or a larger --set max_connections",
            )
            .into();
    }
    let refused = error.chain().any(|cause| {
        let query = cause.downcast_ref::<QueryError>();
        query.is_some_and(|query| matches!(query, QueryError::Server(_)))
    });
    if refused && *knobs != Knobs::default() {
        return Failure::usage(format!("{error:#}"))
            .with_remedy("change the flags of the workload: pgassay run WORKLOAD --help lists them")
            .into();
    }
    error
}

/// Refuses a call that would last too long.
///
/// # Errors
/// Saying how long it may last.
pub fn check_time(time: Option<f64>) -> Result<(), Failure> {
    match time {
        Some(time) if time > LONGEST_CALL => Err(Failure::usage(format!(
            "{time} s are too long: a call inside the server lasts at most {LONGEST_CALL} s, so that a \
             killed client leaves nothing running"
        ))
        .with_remedy("measure more often instead: --trials, or --pairs of compare")),
        _ => Ok(()),
    }
}

fn stage(
    args: &RunArgs,
    asked: &Asked,
    calls: &[Call],
    sessions: &[u32],
    extension: &Extension,
) -> anyhow::Result<Stage> {
    let points = (calls.len() * sessions.len()) as f64;
    let call = args.measure.time.unwrap_or(0.25);
    let affordable = BUDGET / points / (call + BETWEEN);
    let trials = (affordable as u32).clamp(6, 20);
    let seed = record::seed(None, args.measure.seed)?;
    let plan = record::without_clients(
        &asked.workload,
        args.measure.trials.unwrap_or(trials),
        (call * 1e3).round() as u64,
        seed,
    );
    in_server(plan, calls, sessions, &asked.knobs, extension)
}

/// The stage of a plan in which these are called.
fn in_server(
    plan: Plan,
    calls: &[Call],
    sessions: &[u32],
    knobs: &Knobs,
    extension: &Extension,
) -> anyhow::Result<Stage> {
    let primitives = PrimitivesPlan {
        variants: calls.iter().map(Call::variant).collect(),
        knobs: serde_json::to_value(knobs)?,
        compiled: Some(compiled(extension)),
    };
    Ok(Stage {
        id: StageId::Primitives,
        plan: Plan {
            points: primitives.points(sessions),
            ..plan
        },
        driver: DriverConfig::InServer(Box::new(primitives)),
    })
}

fn compiled(extension: &Extension) -> Compiled {
    Compiled {
        library: extension.library.display().to_string(),
        compiler: extension.compiler.clone(),
        flags: extension.flags.clone(),
        deviations: extension.deviations.clone(),
        binary: inspect_server::inspect_library(&extension.library).ok(),
    }
}

/// The functions for the primitives after the load of an assay, with the server's version, or why they
/// can't be had; none where no primitives are measured.
pub(super) fn extension_beside_a_load(
    request: &Request,
    subject: &Subject,
) -> Option<Result<(Extension, u32), String>> {
    let wanted = match request.again.experiment() {
        Some(experiment) => experiment.stage(StageId::Primitives).is_some(),
        None => request.primitives,
    };
    let cluster = subject.cluster.as_ref().filter(|_| wanted)?;
    let scratch = request.target.scratch.as_deref();
    let installation = cluster.installation();
    let compiled = Extension::compiled_for(installation, scratch);
    let compiled = compiled.map(|extension| (extension, installation.version.num()));
    Some(compiled.map_err(|error| error.to_string()))
}

/// The stage of the primitives that decide scaling, in short, after the load of an assay.
///
/// # Errors
/// Where what is recorded can't be written down.
pub(super) fn stage_beside_a_load(
    (extension, version): &(Extension, u32),
    cpus: u32,
    seed: u64,
) -> anyhow::Result<Stage> {
    let knobs = Knobs::default();
    let calls = inserver::calls(inserver::ALL, *version, &knobs);
    let mut sessions = vec![1, cpus, cpus.saturating_mul(2)];
    sessions.dedup();
    let plan = record::without_clients(inserver::ALL, BESIDE_TRIALS, BESIDE_CALL_MS, seed);
    in_server(plan, &calls, &sessions, &knobs, extension)
}

/// Runs that stage: where the extension can't be had the run says why and is whole without it.
///
/// # Errors
/// Where the run directory can't be written, or the server is lost.
pub(super) fn beside_a_load(
    extension: Option<Result<(Extension, u32), String>>,
    experiment: &Experiment,
    subject: &mut Subject,
    writer: &mut RunWriter,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Ended> {
    let (extension, version) = match extension {
        None => return Ok(Ended::Complete),
        Some(Ok(made)) => made,
        Some(Err(error)) => {
            let warning = Warning::new(
                "primitives-not-measured",
                format!("The primitives inside the server were not measured: {error}."),
            );
            writer.append_event(EventKind::Warned { warning })?;
            return Ok(Ended::Complete);
        }
    };
    let Some(stage) = experiment.stage(StageId::Primitives) else {
        return Ok(Ended::Complete);
    };
    let knobs = Knobs::default();
    let loops = Loops {
        calls: &inserver::calls(inserver::ALL, version, &knobs),
        knobs: &knobs,
        extension: &extension,
    };
    let nobody = ObserveArgs::default();
    sweep(stage, &nobody, &loops, subject, writer, terminal, stop)
}

/// What all calls together take.
fn seconds(plan: &Plan) -> f64 {
    let trials = plan.points.len() * plan.trials as usize;
    plan.load_seconds() + trials as f64 * BETWEEN
}

/// What is called in the server, from which library.
struct Loops<'a> {
    calls: &'a [Call],
    knobs: &'a Knobs,
    extension: &'a Extension,
}

fn sweep(
    stage: &Stage,
    observe: &ObserveArgs,
    loops: &Loops<'_>,
    subject: &mut Subject,
    writer: &mut RunWriter,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Ended> {
    record::warn_of_settings(writer, subject)?;
    let mut progress = Progress::new(terminal, 100);
    progress.say("making functions and tables");
    let session = subject.session()?;
    let shared_buffers = session.value(setup::SHARED_BUFFERS)?;
    inserver::create(
        session,
        &loops.extension.definitions(inserver::SCHEMA),
        loops.calls,
        loops.knobs,
        shared_buffers
            .and_then(|bytes| bytes.parse().ok())
            .unwrap_or(128 << 20),
    )?;
    session.execute("CHECKPOINT")?;
    let sessions = Sessions::new(Connector::new(&subject.conninfo), loops.knobs.arena_locks())?;
    let mut driver = InServer {
        calls: loops.calls.to_vec(),
        points: stage.plan.points.clone(),
        call_us: u32::try_from(stage.plan.window_ms * 1000).unwrap_or(u32::MAX),
        seed: stage.plan.seed,
        arms: vec![InServerArm {
            label: None,
            sessions,
            watched: observing::typed(observe, subject),
        }],
        stop: stop.clone(),
    };
    let ended = Recorder::new(writer).run(stage, 1, &mut driver, &mut progress, stop);
    let ended = match ended {
        Ok(Ended::Complete) => driver.give_back().map(|()| Ended::Complete),
        ended => ended,
    };
    let written = observing::write_all_symbols(writer, &mut driver);
    for arm in driver.arms {
        subject.scene = arm.watched.scene;
    }
    written?;
    ended.map_err(|error| of_the_asker(error, loops.knobs))
}

fn shown(counts: &[u32]) -> String {
    let counts: Vec<String> = counts.iter().map(u32::to_string).collect();
    counts.join(", ")
}

//! `pgassay run` of a workload inside the server: the extension compiled,
//! loaded into a launched server, and swept over session counts.

use std::time::{Duration, Instant};

use pgassay_analysis::analyse;
use pgassay_analysis::primitives::{Compiled, PrimitivesPlan};
use pgassay_analysis::record::{EventKind, StageId};
use pgassay_analysis::warning::Warning;

use super::inspect_server;
use super::measure::conclude;
use super::observing;
use super::progress::{Progress, minutes};
use super::query_cost;
use super::record;
use super::recorder::Recorder;
use super::subject::{Subject, explain};
use crate::cli::args::{GlobalArgs, RunArgs, TargetArgs};
use crate::cli::measure;
use crate::cli::observe::ObserveArgs;
use crate::exit::Exit;
use crate::terminal::Terminal;
use pgassay_engine::drivers::in_server::{InServer, InServerArm, Sessions};
use pgassay_engine::rundir::{self, RunWriter};
use pgassay_engine::runner::{self, Ended, Schedule};
use pgassay_engine::workload::inserver::{self, Call, Knobs};
use pgassay_model::Failure;
use pgassay_observe::host;
use pgassay_pgwire::{ConnectError, Connector, QueryError, Session};
use pgassay_server::TargetSpec;
use pgassay_server::extension::Extension;
use pgassay_sys::stop::Stop;

/// Seconds for all calls together where nothing was asked for.
const BUDGET: f64 = 75.0;
/// Seconds that a trial takes beside its call: statement, gate, connections.
const BETWEEN: f64 = 0.04;
/// The longest call: with the wait at the gate a statement stays below a second.
const LONGEST_CALL: f64 = 0.9;
/// In an assay, after its load: seven loops at three counts in 15 seconds.
const BESIDE_TRIALS: u32 = 6;
const BESIDE_CALL_US: u32 = 80_000;
/// Connections beside the sessions: the control session, the keeper, a few to spare.
const BESIDE: u32 = 6;

/// Measures one workload inside the server.
///
/// # Errors
/// What kept it from measuring; what was measured before is kept.
pub fn run(
    args: &RunArgs,
    global: &GlobalArgs,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Exit> {
    let started = Instant::now();
    let knobs = args.inside.knobs()?;
    refuse_flags(args)?;
    let beside_a_wire = query_cost::wanted(&args.workload, &knobs, args.inside.instructions)?;
    let target = args.target.target.as_deref();
    let spec: TargetSpec = target.unwrap_or("temp").parse().map_err(explain)?;
    if !spec.is_launched() {
        return Err(Failure::usage(format!(
            "{} loads a library into the server, which pgassay does only in a server of its own",
            args.workload
        ))
        .with_remedy("name temp or an installation; on this server run select-only --load")
        .into());
    }
    let root = rundir::root(global.runs.as_deref())?;
    let machine = pgassay_analysis::host::summarise(&host::facts(None));
    let counts = measure::client_counts(&args.measure, machine.cpus.unwrap_or(1), u32::MAX);
    let most = counts.iter().max().copied().unwrap_or(1);
    knobs.check(&args.workload, most)?;

    let progress = Progress::new(terminal, 100);
    progress.say("making and starting a throw-away PostgreSQL");
    let memory = machine.memory_limit_bytes.or(machine.memory_bytes);
    let opened = Subject::open(
        &spec,
        &args.target.with_defaults(&inserver::settings()),
        memory.unwrap_or(1 << 30),
        most.saturating_add(inserver::most_company(&args.workload, &knobs))
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
    let extension = Extension::compiled_for(&installation, args.target.scratch.as_deref());
    progress.clear();
    let extension = extension.map_err(explain)?;
    let calls = inserver::calls(&args.workload, installation.version.num(), &knobs);
    let plan = plan(args, &calls, counts, &extension)?;

    let mut line = record::command_line(&["run", &args.workload], &args.target);
    line.extend(args.inside.words());
    let window_ms = u64::from(plan.call_us) / 1000;
    let arm = record::arm(&args.target, &subject);
    let whole = record::without_clients(&args.workload, arm, plan.trials, window_ms, plan.seed);
    let mut writer = RunWriter::create(&root, &mut record::header("run", line, whole))?;
    record::write_facts(&mut writer, &mut subject)?;
    writer.write_fact("primitives", &plan)?;
    terminal.announce(&format!(
        "{}: {} trials of {:.2} s of {} at each of {} sessions: about {}",
        args.workload,
        plan.trials,
        f64::from(plan.call_us) / 1e6,
        match calls.len() {
            1 => "one loop".to_owned(),
            n => format!("{n} loops"),
        },
        shown(&plan.sessions),
        minutes(Duration::from_secs_f64(4.0 + seconds(&plan)))
    ));
    if beside_a_wire {
        terminal.announce(&format!(
            "then the same statement over the wire and in the loops, sampled: about {}",
            minutes(query_cost::time())
        ));
    }

    let loops = Loops {
        calls: &calls,
        knobs: &knobs,
        extension: &extension,
    };
    let ended = sweep(
        &plan,
        &args.measure.observe,
        &loops,
        &mut subject,
        &mut writer,
        terminal,
        stop,
    );
    let ended = match ended {
        Ok(Ended::Complete) if beside_a_wire => {
            let prepare = |session: &mut Session| {
                let definitions = extension.definitions(inserver::SCHEMA);
                inserver::create(session, &definitions, &calls, &knobs, 0)
            };
            let count = query_cost::Counting {
                installation: &installation,
                scratch: args.target.scratch.as_deref(),
                prepare: &prepare,
            };
            let count = args.inside.instructions.then_some(count);
            query_cost::measure(&plan, count, &mut subject, &mut writer, terminal, stop)
        }
        ended => ended,
    };
    writer.finish(&record::end_of(&ended, started))?;
    let dir = writer.dir().to_owned();
    // The lock is given up first, so that the run does not count as running.
    drop(writer);
    drop(subject);
    let analysis = analyse(&rundir::read(&dir)?);
    if analysis.primitives.is_empty() {
        return Err(match ended {
            Ok(Ended::ServerDied(why)) => Failure::target(format!(
                "the server died before anything was measured: {why}"
            ))
            .into(),
            Ok(_) => Failure::interrupted().into(),
            Err(error) => error,
        });
    }
    conclude(&analysis, args.json, &dir, terminal)?;
    match ended {
        Ok(Ended::Complete) => Ok(Exit::Done),
        Ok(_) => Ok(Exit::Partial),
        Err(error) => Err(error),
    }
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
    match knobs.first_turned() {
        Some(flag) if refused => Failure::usage(format!("{error:#}"))
            .with_remedy(format!("change {flag}, or the flags beside it"))
            .into(),
        _ => error,
    }
}

/// Flags that say nothing about a loop inside the server.
fn refuse_flags(args: &RunArgs) -> Result<(), Failure> {
    let measure = &args.measure;
    let given = [
        ("--threads", measure.threads.is_some()),
        ("--scale", measure.scale.is_some()),
        ("--warmup", measure.warmup.is_some()),
    ];
    if let Some((flag, _)) = given.iter().find(|(_, given)| *given) {
        return Err(Failure::usage(format!(
            "{flag} has no meaning for {}, which loops inside the server",
            args.workload
        ))
        .with_remedy("leave it out"));
    }
    match measure.time {
        Some(time) if time > LONGEST_CALL => Err(Failure::usage(format!(
            "--time {time}: a call inside the server lasts at most {LONGEST_CALL} s, so that a \
             killed client leaves nothing running"
        ))
        .with_remedy("take more trials with --trials instead")),
        _ => Ok(()),
    }
}

fn plan(
    args: &RunArgs,
    calls: &[Call],
    sessions: Vec<u32>,
    extension: &Extension,
) -> anyhow::Result<PrimitivesPlan> {
    let points = (calls.len() * sessions.len()) as f64;
    let call = args.measure.time.unwrap_or(0.25);
    let affordable = BUDGET / points / (call + BETWEEN);
    Ok(PrimitivesPlan {
        variants: calls.iter().map(Call::variant).collect(),
        sessions,
        trials: args
            .measure
            .trials
            .unwrap_or((affordable as u32).clamp(6, 20)),
        call_us: (call * 1e6).round() as u32,
        seed: match args.measure.seed {
            Some(seed) => seed,
            None => rundir::random_seed()?,
        },
        compiled: compiled(extension),
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

/// The four primitives in short, after the load of an assay: where the
/// extension can't be had the run says why and is whole without it.
///
/// # Errors
/// Where the run directory can't be written, or the server is lost.
pub(super) fn beside_a_load(
    target: &TargetArgs,
    cpus: u32,
    subject: &mut Subject,
    writer: &mut RunWriter,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Ended> {
    let Some(cluster) = &subject.cluster else {
        return Ok(Ended::Complete);
    };
    // A run that is gone on with may have them already.
    if writer.dir().join("facts/primitives.json").exists() {
        return Ok(Ended::Complete);
    }
    let version = cluster.installation().version;
    let extension = match Extension::compiled_for(cluster.installation(), target.scratch.as_deref())
    {
        Ok(extension) => extension,
        Err(error) => {
            let warning = Warning::new(
                "primitives-not-measured",
                format!("The primitives inside the server were not measured: {error}."),
            );
            writer.append_event(EventKind::Warned { warning })?;
            return Ok(Ended::Complete);
        }
    };
    let knobs = Knobs::default();
    let calls = inserver::calls(inserver::ALL, version.num(), &knobs);
    let mut sessions = vec![1, cpus, cpus.saturating_mul(2)];
    sessions.dedup();
    let plan = PrimitivesPlan {
        variants: calls.iter().map(Call::variant).collect(),
        sessions,
        trials: BESIDE_TRIALS,
        call_us: BESIDE_CALL_US,
        seed: rundir::random_seed()?,
        compiled: compiled(&extension),
    };
    writer.write_fact("primitives", &plan)?;
    let loops = Loops {
        calls: &calls,
        knobs: &knobs,
        extension: &extension,
    };
    let nobody = ObserveArgs::default();
    sweep(&plan, &nobody, &loops, subject, writer, terminal, stop)
}

/// What all calls together take.
fn seconds(plan: &PrimitivesPlan) -> f64 {
    let trials = plan.variants.len() * plan.sessions.len() * plan.trials as usize;
    trials as f64 * (f64::from(plan.call_us) / 1e6 + BETWEEN)
}

/// What is called in the server, from which library.
struct Loops<'a> {
    calls: &'a [Call],
    knobs: &'a Knobs,
    extension: &'a Extension,
}

fn sweep(
    plan: &PrimitivesPlan,
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
    let shared_buffers = session.value(
        "SELECT setting::bigint * current_setting('block_size')::bigint \
         FROM pg_catalog.pg_settings WHERE name = 'shared_buffers'",
    )?;
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
        calls: loops.calls,
        points: plan.points(),
        call_us: plan.call_us,
        seed: plan.seed,
        arms: vec![InServerArm {
            label: None,
            sessions,
            watched: observing::typed(observe, subject),
        }],
        stop: stop.clone(),
    };
    let measured = rundir::read(writer.dir())?.measured(StageId::Primitives);
    let schedule = Schedule {
        stage: StageId::Primitives,
        slices: &plan.schedule(),
        measured: &measured,
    };
    let ended = runner::run(
        &schedule,
        &mut driver,
        &mut Recorder::new(writer),
        &mut progress,
        stop,
    );
    let ended = match ended {
        Ok(Ended::Complete) => driver.give_back().map(|()| Ended::Complete),
        ended => ended,
    };
    observing::write_all_symbols(writer, &mut driver)?;
    for arm in driver.arms {
        subject.scene = arm.watched.scene;
    }
    ended.map_err(|error| of_the_asker(error, loops.knobs))
}

fn shown(counts: &[u32]) -> String {
    let counts: Vec<String> = counts.iter().map(u32::to_string).collect();
    counts.join(", ")
}

//! `pgassay watch`: a live server under its own load, window by window; nothing is added to it.

use std::time::{Duration, Instant};

use pgassay_analysis::observed::waits;
use pgassay_analysis::watched;
use pgassay_engine::drivers::Watched;
use pgassay_engine::rundir;
use pgassay_load::Latency;
use pgassay_model::plan::{Arm, DriverConfig, Experiment, Stage};
use pgassay_model::point::Point;
use pgassay_model::record::RecordedRun;
use pgassay_model::run::{EndState, RunEnd};
use pgassay_model::server::Origin;
use pgassay_model::stage::StageId;
use pgassay_model::{Failure, Plan, Trial, samplers};
use pgassay_observe::{Choice, Scene, host};
use pgassay_readings::samples;
use pgassay_server::TargetSpec;
use pgassay_sys::stop::Stop;

use super::progress::Progress;
use super::show::{next, show};
use super::subject::Subject;
use super::{observing, record};
use crate::cli::args::GlobalArgs;
use crate::cli::target::TargetArgs;
use crate::cli::watch::WatchArgs;
use crate::exit::{Exit, explain};
use crate::secrets;
use crate::terminal::Terminal;

/// What a window that Ctrl-C cut short must have had, to be shown.
const LEAST: Duration = Duration::from_secs(2);
/// How often Ctrl-C is looked for.
const LOOK: Duration = Duration::from_millis(100);

/// Watches a server.
///
/// # Errors
/// Where the server can't be had, or was lost.
pub fn watch(
    args: &WatchArgs,
    global: &GlobalArgs,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Exit> {
    windows(args, global, terminal, stop, |run, terminal| {
        let Some(seen) = watched::of(run) else {
            return Err(
                Failure::target("nothing could be seen of the server's sessions")
                    .with_remedy("pgassay doctor says what is lacking")
                    .into(),
            );
        };
        show(&seen, &args.show, terminal)
    })?;
    let target = pgassay_text::shell_word(&secrets::shown(&args.target));
    let steps = [
        format!("pgassay check {target}"),
        format!("pgassay workload from-statements {target}"),
    ];
    next(&args.show, &steps, terminal);
    Ok(Exit::Done)
}

/// Observes a server window by window, and hands over each window as a run with one trial.
///
/// # Errors
/// Like [`watch`], and where `each` fails.
pub fn windows(
    args: &WatchArgs,
    global: &GlobalArgs,
    terminal: &mut Terminal,
    stop: &Stop,
    mut each: impl FnMut(&RecordedRun, &mut Terminal) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let spec: TargetSpec = args.target.parse().map_err(explain)?;
    if !matches!(spec, TargetSpec::Server(_)) {
        return Err(Failure::usage("watch looks at a running server")
            .with_remedy(
                "name its URI or conninfo: pgassay watch 'host=/var/run/postgresql dbname=app'",
            )
            .into());
    }
    let flags = TargetArgs {
        target: Some(args.target.clone()),
        ..TargetArgs::default()
    };
    let mut subject = Subject::open(&spec, &flags, 0, 0, stop)?;
    let _kept = stop.defer();
    let mut run = facts(&mut subject, global)?;
    terminal.announce(&format!("server: {}", subject.shown));
    let default = Choice {
        waits: true,
        sched: true,
        perf: false,
        pmu: false,
        apart: false,
    };
    let choice = observing::choice(&args.observe(), default);
    let mut scene = std::mem::replace(&mut subject.scene, Scene::unseen("the window has it"));
    let mut shown = 0;
    while !stop.asked() && args.count.is_none_or(|count| shown < count) {
        // Each window stands for itself, its plans and its names of functions, too.
        let mut server = Watched::start(scene, choice, &subject.conninfo);
        server.observers.acquaint(&mut server.scene);
        let progress = Progress::new(terminal, 100);
        let length = Duration::from_secs(u64::from(args.time));
        let trial = window(&mut server, length, &progress, stop);
        progress.clear();
        if Duration::from_nanos(trial.window_ns) < length.min(LEAST) {
            break;
        }
        if server.scene.session.is_none() {
            return Err(Failure::target("the server was lost").into());
        }
        let symbols = server.observers.symbols();
        scene = server.scene;
        run.symbols = symbols.into_iter().map(|symbols| (0, symbols)).collect();
        run.trials = vec![trial];
        set_clients(&mut run);
        each(&run, terminal)?;
        shown += 1;
    }
    if shown == 0 {
        return Err(Failure::interrupted().into());
    }
    Ok(())
}

/// What is known of the server and the machine before the first window, as of a run.
fn facts(subject: &mut Subject, global: &GlobalArgs) -> anyhow::Result<RecordedRun> {
    let arm = Arm {
        label: "target".to_owned(),
        target: subject.shown.clone(),
        ..Arm::default()
    };
    let stage = Stage {
        id: StageId::Load,
        driver: DriverConfig::OwnLoad,
        plan: record::without_clients(watched::OWN_LOAD, 1, 0, 0),
    };
    let mut run = RecordedRun {
        header: record::header("watch", global, Experiment::single(vec![arm], stage)),
        host: host::facts(None),
        ..RecordedRun::default()
    };
    debug_assert_eq!(subject.origin, Origin::Running);
    run.servers.insert(0, subject.facts()?);
    run.storage.insert(0, subject.scene.storage.clone());
    let unread = "the executable is not inspected while the server is watched";
    run.binaries.insert(0, Err(unread.to_owned()));
    run.end = Some(RunEnd {
        state: EndState::Complete,
        reason: None,
        at: rundir::now(),
        elapsed_seconds: 0.0,
        max_rss_bytes: 0,
    });
    Ok(run)
}

/// Looks for so long, or until somebody asks for a stop, and gives what was seen as a trial.
fn window(server: &mut Watched, length: Duration, progress: &Progress, stop: &Stop) -> Trial {
    let Watched { scene, observers } = server;
    let started = rundir::now();
    observers.begin(scene);
    let begun = Instant::now();
    progress.say("watching");
    while begun.elapsed() < length && !stop.asked() {
        progress.share(begun.elapsed().as_secs_f64() / length.as_secs_f64());
        std::thread::sleep(LOOK.min(length.saturating_sub(begun.elapsed())));
    }
    let window_ns = begun.elapsed().as_nanos() as u64;
    let (samples, observed) = observers.end(scene);
    let ended = |name: &str| {
        let sample = samples.get(samplers::PG_STAT_DATABASE)?;
        samples::database_counter(sample, name)
    };
    Trial {
        stage: StageId::Load,
        started,
        window_ns,
        transactions: ended("xact_commit").unwrap_or(0) + ended("xact_rollback").unwrap_or(0),
        // Of other people's transactions the server tells no latencies.
        latency: Latency::default().to_base64(),
        samples,
        observed,
        ..Trial::default()
    }
}

/// As many clients as there were sessions on average.
fn set_clients(run: &mut RecordedRun) {
    let records = run
        .trials
        .iter()
        .filter_map(|t| t.observed.as_ref()?.waits.as_ref());
    let seconds = run.trials.iter().map(|t| t.window_ns as f64 / 1e9).sum();
    let seen = waits::analyse(records, seconds).unwrap_or_default();
    let sessions = seen.active_sessions + seen.idle_sessions + seen.hidden_sessions;
    let clients = sessions.round().max(1.0) as u32;
    let window_ms = (1e3 * seconds) as u64;
    for stage in &mut run.header.experiment.stages {
        stage.plan = Plan {
            points: vec![Point {
                clients,
                threads: 1,
                variant: 0,
            }],
            window_ms,
            ..stage.plan.clone()
        };
    }
}

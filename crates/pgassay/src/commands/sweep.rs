//! The part of a measurement in which the server is under load: the tables are made, the plan's
//! slices run, the tables removed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use pgassay_analysis::analyse;
use pgassay_engine::agents::Agents;
use pgassay_engine::drivers::Watched;
use pgassay_engine::drivers::ceiling::Ceiling;
use pgassay_engine::drivers::wire::{Wire, WireArm};
use pgassay_engine::rundir::{self, RunWriter};
use pgassay_engine::runner::Ended;
use pgassay_engine::workload::schema::Made;
use pgassay_engine::workload::sessions::Recordings;
use pgassay_engine::workload::{self, setup};
use pgassay_model::Plan;
use pgassay_model::plan::{DriverConfig, Experiment, Stage};
use pgassay_model::reading::Reading;
use pgassay_model::run::EventKind;
use pgassay_model::server::Origin;
use pgassay_model::stage::StageId;
use pgassay_model::warning::Warning;
use pgassay_observe::{Choice, Scene};
use pgassay_pgwire::Connector;
use pgassay_readings::samples;
use pgassay_sys::stop::Stop;

use super::files::page_of_run;
use super::progress::{Progress, minutes};
use super::recorder::Recorder;
use super::request::Request;
use super::subject::Subject;
use super::{conditions, from, observing, record};
use crate::terminal::Terminal;

/// Makes the tables, runs the schedule, removes the tables.
pub(super) fn load(
    request: &Request,
    experiment: &Experiment,
    subject: &mut Subject,
    writer: &mut RunWriter,
    agents: Option<&Agents>,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Ended> {
    let plan = experiment.plan();
    record::warn_of_settings(writer, subject)?;
    let mut progress = Progress::new(terminal, 100);
    if request.command == "run" {
        progress = progress.in_lines(terminal);
    }
    // Through a pooler nothing is made.
    let made = match subject.pooler {
        Some(_) => None,
        None => {
            progress.say(format!(
                "filling the tables, {}",
                workload::scale_in_words(&plan.workload)
            ));
            let mut share = |done: f64| progress.share(done);
            Some(subject.make_tables(&plan.workload, &mut share, stop)?)
        }
    };
    let ended = loaded(
        request,
        experiment,
        subject,
        writer,
        agents,
        &mut progress,
        stop,
    );
    let ended = match (ended, experiment.stage(StageId::Ceiling)) {
        (Ok(Ended::Complete), Some(stage)) => measure_ceiling(stage, writer, &mut progress, stop),
        (ended, _) => ended,
    };
    progress.clear();
    if let (Ok(Ended::Complete), Some(held)) = (&ended, conditions::held(&plan.workload)) {
        terminal.announce(&held);
    }
    let Some(made) = made else {
        return ended;
    };
    let removed = clean_up(subject, &made);
    if subject.origin == Origin::Running {
        match &removed {
            Ok(()) => terminal.announce("removed the schema pgassay and its tables"),
            Err(e) => terminal.warn(&setup::still_there(e)),
        }
    }
    ended
}

/// What is done between making the tables and removing them, however it ends.
fn loaded(
    request: &Request,
    experiment: &Experiment,
    subject: &mut Subject,
    writer: &mut RunWriter,
    agents: Option<&Agents>,
    progress: &mut Progress,
    stop: &Stop,
) -> anyhow::Result<Ended> {
    let plan = experiment.plan();
    if let Some(triggers) = setup::foreign_triggers(subject.session()?, &plan.workload)? {
        let warning = Warning::new(
            "foreign-triggers",
            format!(
                "Something in this database, such as an event trigger, gave the tables of this load \
                 triggers of its own, for which every change pays: {triggers}."
            ),
        )
        .with_remedy(
            "look at pg_event_trigger; ALTER EVENT TRIGGER … DISABLE, and measure again to see \
             what they cost",
        );
        writer.append_event(EventKind::Warned { warning })?;
    }
    for stage in &experiment.stages {
        if stage.driver != DriverConfig::Wire {
            continue;
        }
        match sweep(request, stage, subject, writer, agents, progress, stop)? {
            Ended::Complete => {
                if request.command == "assay" {
                    // Only the final report must be written.
                    report_so_far(writer.dir()).ok();
                }
                verify(subject, &stage.plan, None, writer)?;
                if !stage.plan.workload.conditions.is_empty() {
                    progress.say("checking the tables");
                    conditions::check(subject, &stage.plan.workload)?;
                }
            }
            ended => return Ok(ended),
        }
    }
    Ok(Ended::Complete)
}

/// Measures the client alone. The peer's socket is below /tmp, as its path must be short.
fn measure_ceiling(
    stage: &Stage,
    writer: &mut RunWriter,
    progress: &mut Progress,
    stop: &Stop,
) -> anyhow::Result<Ended> {
    let directory = Path::new("/tmp").join(format!("pga-peer-{}", std::process::id()));
    std::fs::create_dir_all(&directory)
        .with_context(|| format!("cannot make the directory {}", directory.display()))?;
    let ended = Ceiling::open(&stage.plan, &directory, stop)
        .and_then(|mut client| Recorder::new(writer).run(stage, 1, &mut client, progress, stop));
    // Whatever came of it, the socket's directory goes.
    let _ = std::fs::remove_dir_all(&directory);
    ended
}

/// A launched cluster goes as a whole; from a guest's host we take our tables away.
pub(super) fn clean_up(subject: &mut Subject, made: &Made) -> anyhow::Result<()> {
    if subject.cluster.is_some() {
        return Ok(());
    }
    match setup::remove(subject.session()?, made) {
        Ok(()) => Ok(()),
        // The control session may have died with a restart: once more on a new one.
        Err(_) => setup::remove(&mut setup::again(&Connector::new(&subject.conninfo))?, made),
    }
}

/// Asks whether the workload left what it should have left; `server` names it where there are several.
pub(super) fn verify(
    subject: &mut Subject,
    plan: &Plan,
    server: Option<&str>,
    writer: &mut RunWriter,
) -> anyhow::Result<()> {
    let Some(text) = setup::verify(subject.session()?, &plan.workload)? else {
        return Ok(());
    };
    let of = server.map_or_else(String::new, |server| format!(", {server}"));
    let warning = Warning::new("not-verified", format!("Not as it should be{of}: {text}."));
    writer.append_event(EventKind::Warned { warning })
}

/// Runs the slices of a stage that are not yet measured.
fn sweep(
    request: &Request,
    stage: &Stage,
    subject: &mut Subject,
    writer: &mut RunWriter,
    agents: Option<&Agents>,
    progress: &mut Progress,
    stop: &Stop,
) -> anyhow::Result<Ended> {
    let plan = &stage.plan;
    if stage.id == StageId::Load {
        writer.append_event(EventKind::Launched { arm: 0 })?;
    }
    if subject.cluster.is_some() {
        progress.say("writing a checkpoint");
        subject.session()?.execute("CHECKPOINT")?;
    }
    // The scene goes with the load and comes back after it.
    let scene = std::mem::replace(&mut subject.scene, Scene::unseen("the load has it"));
    let owned = subject.cluster.is_some();
    let observers = match subject.pooler {
        Some(_) => Choice::default(),
        None => observers(request, owned),
    };
    let watched = Watched::start(scene, observers, &subject.conninfo);
    let mut driver = Wire {
        arms: vec![WireArm::new(
            plan,
            &subject.conninfo_of_load(&plan.workload),
            watched,
            owned,
            from::source(agents, subject.outside.as_ref(), &Recordings::default()),
            stop,
        )?],
        plan: plan.clone(),
        checkpoints: false,
        launches: Default::default(),
        stop: stop.clone(),
    };
    let mut recorder = Recorder::new(writer);
    if request.command == "assay" && stage.id == StageId::Load {
        let announce = progress.announcer();
        recorder.first_round = Some(Box::new(move |dir| {
            if let Ok((report, left)) = report_so_far(dir) {
                announce(&format!(
                    "first result after {}, about {} to go: {}",
                    minutes(request.started.elapsed()),
                    minutes(left),
                    report.display()
                ));
            }
        }));
    }
    let ended = recorder.run(stage, 1, &mut driver, progress, stop);
    let written = observing::write_all_symbols(writer, &mut driver);
    // Before any error: what is ours in the server is removed by the session in it.
    for scene in driver.close() {
        subject.scene = scene;
    }
    written?;
    if stage.id == StageId::Load {
        // The comparison of commits is of the first load alone.
        let row = settled_counters(&mut subject.scene);
        writer.append_event(EventKind::DatabaseAfter { arm: 0, row })?;
    }
    ended
}

/// Writes the report of what is measured so far into the run's directory. Returns its path, and how long the load of
/// the trials that are missing takes.
fn report_so_far(dir: &Path) -> anyhow::Result<(PathBuf, Duration)> {
    let run = rundir::read(dir)?;
    let report = page_of_run(dir, &pgassay_report::html(&analyse(&run)))?;
    let experiment = &run.header.experiment;
    let left = experiment.stages.iter().map(|stage| {
        let measured = run.measured(stage.id).len() as f64;
        let all = stage.trials(experiment.arms.len()).max(1) as f64;
        stage.plan.load_seconds() * (1.0 - measured / all).max(0.0)
    });
    Ok((report, Duration::from_secs_f64(left.sum())))
}

/// What is observed during the load. CPU samples of a server that is not ours need the flag.
fn observers(request: &Request, owned: bool) -> Choice {
    let default = Choice {
        waits: true,
        sched: true,
        perf: owned && request.command == "assay",
        pmu: false,
        apart: true,
    };
    observing::choice(&request.again.observe(&request.measure.observe), default)
}

/// `pg_stat_database` once it stands still: backends that ended report their last
/// counters, up to 14 by way of a collector that takes its time.
pub(super) fn settled_counters(scene: &mut Scene) -> Reading {
    let commits = |row: &Reading| samples::counter(row, "xact_commit");
    let mut row = pgassay_observe::stat_database(scene);
    for _ in 0..10 {
        std::thread::sleep(Duration::from_millis(600));
        let later = pgassay_observe::stat_database(scene);
        // The question itself is a commit or two.
        let still = commits(&later)
            .zip(commits(&row))
            .is_none_or(|(b, a)| b <= a + 4);
        row = later;
        if still {
            break;
        }
    }
    row
}

//! The part of a measurement in which the server is under load: the tables are made, the plan's
//! slices run, the tables removed.

use super::measure::{Again, Request};
use super::progress::Progress;
use super::subject::Subject;
use super::{observing, record, second};
use crate::terminal::Terminal;
use anyhow::Context;
use pgassay_analysis::observed::SymbolTable;
use pgassay_analysis::record::{EventKind, Origin, Reading, TrialRecord};
use pgassay_analysis::warning::Warning;
use pgassay_analysis::{Plan, samples};
use pgassay_engine::bench::arena::{LiveArena, LiveArm};
use pgassay_engine::bench::{self, Ended, Journal};
use pgassay_engine::rundir::{self, RunWriter};
use pgassay_engine::workload::pgbench_tables::Made;
use pgassay_engine::workload::setup;
use pgassay_observe::{Choice, Scene};
use pgassay_pgwire::Connector;
use pgassay_sys::stop::Stop;
use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

/// Makes the tables, runs the schedule, removes the tables.
pub(super) fn load(
    request: &Request,
    (plan, second): (&Plan, Option<&Plan>),
    subject: &mut Subject,
    writer: &mut RunWriter,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Ended> {
    record::warn_of_settings(writer, subject)?;
    let mut progress = Progress::new(terminal, 100);
    if request.command == "run" {
        progress = progress.in_lines(terminal);
    }
    progress.say(format!("filling the tables, scale {}", plan.workload.scale));
    let made = subject.make_tables(&plan.workload, &mut |share| progress.share(share), stop)?;
    let ended = loaded(
        request,
        (plan, second),
        subject,
        writer,
        &mut progress,
        stop,
    );
    let ceiling = match &ended {
        Ok(Ended::Complete) if request.ceiling => {
            progress.say("measuring the client alone, against a peer that answers at once");
            measure_ceiling(plan, writer, stop)
        }
        _ => Ok(()),
    };
    progress.clear();
    let removed = clean_up(subject, &made);
    if subject.origin == Origin::Running {
        match &removed {
            Ok(()) => terminal.announce("removed the schema pgassay and its tables"),
            Err(e) => terminal.warn(&setup::still_there(e)),
        }
    }
    ceiling.and(ended)
}

/// What is done between making the tables and removing them, however it ends.
fn loaded(
    request: &Request,
    (plan, second): (&Plan, Option<&Plan>),
    subject: &mut Subject,
    writer: &mut RunWriter,
    progress: &mut Progress,
    stop: &Stop,
) -> anyhow::Result<Ended> {
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
    let mut ended = first_sweep(request, plan, subject, writer, progress, stop);
    if let Ok(Ended::Complete) = &ended {
        verify(subject, plan, writer)?;
        if let Some(second) = second {
            let measured = second::measured(writer)?;
            let mut journal = second::Recorder {
                writer,
                plan: second,
            };
            ended = sweep(
                request,
                second,
                &measured,
                subject,
                &mut journal,
                progress,
                stop,
            );
            if let Ok(Ended::Complete) = &ended {
                verify(subject, second, writer)?;
            }
        }
    }
    ended
}

/// Measures the client alone. The peer's socket is below /tmp, as its path must be short.
fn measure_ceiling(plan: &Plan, writer: &RunWriter, stop: &Stop) -> anyhow::Result<()> {
    let directory = Path::new("/tmp").join(format!("pga-peer-{}", std::process::id()));
    std::fs::create_dir_all(&directory)
        .with_context(|| format!("cannot make the directory {}", directory.display()))?;
    let measured = bench::ceiling::measure(plan, &directory, stop);
    // Whatever came of it, the socket's directory goes.
    let _ = std::fs::remove_dir_all(&directory);
    writer.write_fact("ceiling", &measured?)
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

/// Asks whether the workload left what it should have left.
fn verify(subject: &mut Subject, plan: &Plan, writer: &mut RunWriter) -> anyhow::Result<()> {
    let Some(text) = setup::verify(subject.session()?, &plan.workload)? else {
        return Ok(());
    };
    let warning = Warning::new("not-verified", format!("Not as it should be: {text}."));
    writer.append_event(EventKind::Warned { warning })
}

/// The sweep of the run's own plan, or what is left of it.
fn first_sweep(
    request: &Request,
    plan: &Plan,
    subject: &mut Subject,
    writer: &mut RunWriter,
    progress: &mut Progress,
    stop: &Stop,
) -> anyhow::Result<Ended> {
    writer.append_event(EventKind::Launched { arm: 0 })?;
    let measured = match &request.again {
        Again::New | Again::Repeat(_) => HashSet::new(),
        Again::Resume(dir, _) => rundir::read(dir)?
            .trials
            .iter()
            .filter(|t| t.cut_short.is_none())
            .map(|t| t.slice.index)
            .collect(),
    };
    sweep(
        request,
        plan,
        &measured,
        subject,
        &mut Recorder(writer),
        progress,
        stop,
    )
}

/// Runs the slices of a plan that are not yet measured.
fn sweep(
    request: &Request,
    plan: &Plan,
    measured: &HashSet<u32>,
    subject: &mut Subject,
    journal: &mut dyn Journal,
    progress: &mut Progress,
    stop: &Stop,
) -> anyhow::Result<Ended> {
    if subject.cluster.is_some() {
        progress.say("writing a checkpoint");
        subject.session()?.execute("CHECKPOINT")?;
    }
    // The scene goes with the load and comes back after it.
    let scene = std::mem::replace(&mut subject.scene, Scene::unseen("the load has it"));
    let owned = subject.cluster.is_some();
    let arm = LiveArm::new(plan, &subject.conninfo, scene, owned, stop)?
        .observed_by(observers(request, owned), &subject.conninfo);
    let mut arena = LiveArena {
        arms: vec![arm],
        stop: stop.clone(),
    };
    let ended = bench::run(plan, measured, &mut arena, journal, progress, stop);
    for (arm, symbols) in (0u32..).zip(arena.symbols()) {
        if let Some(symbols) = symbols {
            journal.symbols(arm, &symbols)?;
        }
    }
    let arms = arena.close();
    for (index, scene) in (0u32..).zip(arms) {
        subject.scene = scene;
        let row = settled_counters(&mut subject.scene);
        journal.event(EventKind::DatabaseAfter { arm: index, row })?;
    }
    ended
}

/// What is looked at beside the load. CPU samples of a server that is not ours need the flag.
fn observers(request: &Request, owned: bool) -> Choice {
    let default = Choice {
        waits: true,
        sched: true,
        perf: owned && request.command == "assay",
    };
    observing::choice(&request.measure.observe, default)
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

/// The run directory as the bench sees it.
struct Recorder<'a>(&'a mut RunWriter);

impl Journal for Recorder<'_> {
    fn trial(&mut self, trial: &TrialRecord) -> anyhow::Result<()> {
        self.0.append_trial(trial)
    }

    fn event(&mut self, event: EventKind) -> anyhow::Result<()> {
        self.0.append_event(event)
    }

    fn symbols(&mut self, arm: u32, symbols: &SymbolTable) -> anyhow::Result<()> {
        observing::write_symbols(self.0, arm, symbols)
    }
}

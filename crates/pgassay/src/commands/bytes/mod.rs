//! `pgassay run pgio` and `pgassay run scattered-read`: where the bytes come
//! from. What the two share: the server, the run directory, the end.

pub mod executions;
mod own;
pub mod pgio;
pub mod scattered_read;

use std::path::Path;

use pgassay_engine::rundir::RunWriter;
use pgassay_engine::workload::setup;
use pgassay_model::Failure;
use pgassay_model::plan::{Experiment, Stage};
use pgassay_model::run::RunHeader;
use pgassay_model::server::Origin;
use pgassay_sys::stop::Stop;

use super::again::Again;
use super::progress::Progress;
use super::record;
use super::subject::Subject;
use crate::cli::args::{GlobalArgs, RunArgs};
use crate::cli::target::TargetArgs;
use crate::terminal::Terminal;

/// Launches or visits the server; on one that was there `--load` is needed, and
/// what a killed run of ours left is removed.
fn open(
    asked: &TargetArgs,
    defaults: &[(&str, String)],
    connections: u32,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Subject> {
    let spec = asked.spec()?;
    if !spec.is_launched() && !asked.load {
        return Err(
            Failure::usage("a running server is not loaded without --load")
                .with_remedy("add --load, or measure a temp target")
                .into(),
        );
    }
    let progress = Progress::new(terminal, 100);
    progress.say(match spec.is_launched() {
        true => "making and starting a throw-away PostgreSQL",
        false => "connecting",
    });
    let target = match spec.is_launched() {
        true => asked.with_defaults(defaults),
        false => asked.clone(),
    };
    let opened = Subject::open(&spec, &target, 1 << 30, connections, stop);
    progress.clear();
    let mut subject = opened?;
    terminal.announce(&format!("server: {}", subject.shown));
    if subject.origin == Origin::Running {
        subject.keep(stop);
        let admitted = subject.admit(Some(setup::FIND_CATALOGS))?;
        if connections > admitted.most_clients {
            return Err(Failure::target(format!(
                "{connections} connections are needed, and half of the server's free ones are {}",
                admitted.most_clients
            ))
            .with_remedy("take fewer sessions with --clients")
            .into());
        }
    }
    Ok(subject)
}

/// Refuses what does not fit on the file system of the data directory, with the
/// figure. A server elsewhere can't be asked.
fn check_room(data_dir: Option<&Path>, bytes: u64, flag: &str) -> anyhow::Result<()> {
    let Some(dir) = data_dir else { return Ok(()) };
    let Ok(stat) = rustix::fs::statvfs(dir) else {
        return Ok(());
    };
    let free = stat.f_bavail * stat.f_frsize;
    // WAL, indexes and others' work need room beside the tables.
    let needed = bytes + bytes / 4;
    if needed > free {
        let gb = |bytes: u64| bytes as f64 / 1e9;
        return Err(Failure::usage(format!(
            "the tables take {:.1} GB and their making about {:.1} GB; {} has {:.1} GB free",
            gb(bytes),
            gb(needed),
            dir.display(),
            gb(free)
        ))
        .with_remedy(format!(
            "ask for less with {flag}, or for another place with --scratch"
        ))
        .into());
    }
    Ok(())
}

/// Makes the run directory, or takes up that of a run that was interrupted, and writes
/// down what is measured.
fn begin(
    (args, global): (&RunArgs, &GlobalArgs),
    (target, again): (&TargetArgs, &Again),
    root: &Path,
    subject: &mut Subject,
    stage: Stage,
) -> anyhow::Result<(RunWriter, RunHeader)> {
    let experiment = match again.experiment() {
        Some(experiment) => Experiment {
            stages: vec![stage],
            ..experiment.clone()
        },
        None => Experiment {
            arms: vec![record::arm(target, subject)],
            stages: vec![stage],
            observe: args.measure.observe.names(),
            from: Vec::new(),
        },
    };
    let mut header = record::header("run", global, experiment);
    let mut writer = again.open(root, &mut header)?;
    record::write_facts(&mut writer, subject)?;
    record::warn_of_settings(&mut writer, subject)?;
    Ok((writer, header))
}

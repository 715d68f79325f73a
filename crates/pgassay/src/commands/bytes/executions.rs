//! Runs a plan of scattered reads, over pgassay's own table or a user's.

use std::collections::HashMap;
use std::path::PathBuf;

use pgassay_analysis::Analysis;
use pgassay_analysis::scattered::bursts;
use pgassay_engine::drivers::scattered_read::{DROP_CACHES, ScatteredArm, ScatteredRead};
use pgassay_engine::rundir::RunWriter;
use pgassay_engine::runner::Ended;
use pgassay_model::Failure;
use pgassay_model::plan::DriverConfig;
use pgassay_model::run::RunHeader;
use pgassay_model::scattered::ScatteredPlan;
use pgassay_model::storage::Storage;
use pgassay_model::trial::Trial;
use pgassay_observe::cache::TableFiles;
use pgassay_pgwire::{Connector, Session};
use pgassay_server::ReadAhead;
use pgassay_sys::stop::Stop;

use crate::cli::io::IoArgs;
use crate::cli::observe::ObserveArgs;
use crate::commands::observing;
use crate::commands::progress::Progress;
use crate::commands::recorder::{Recorder, Steady};
use crate::commands::subject::Subject;

/// What is to be measured.
pub(super) struct Asked<'a> {
    pub io: &'a IoArgs,
    pub observe: ObserveArgs,
    pub rows: u64,
    pub drop_caches: bool,
    /// What a recorded run planned.
    pub planned: Option<&'a ScatteredPlan>,
    pub header: RunHeader,
}

/// A plan, and how its table is reached.
pub(super) struct Prepared {
    pub plan: ScatteredPlan,
    /// Opens the sessions of executions.
    pub connector: Connector,
    /// The table's files, or why they can't be seen.
    pub files: Result<TableFiles, String>,
    /// In the first round each execution is followed by warm ones.
    pub warm: bool,
}

/// Whether we may drop the page cache, before anything is made for it.
pub(super) fn may_drop_caches() -> Result<(), Failure> {
    match std::fs::OpenOptions::new().write(true).open(DROP_CACHES) {
        Ok(_) => Ok(()),
        Err(e) => Err(
            Failure::usage(format!("--drop-caches: {DROP_CACHES}: {e}")).with_remedy(
                "run pgassay as root, or leave it out: the table's file is then taken out of the page \
                 cache by file advice, which needs no right",
            ),
        ),
    }
}

/// Refuses a server that lacks settings which the reads are varied by, or kept alike by.
///
/// # Errors
/// Where it is one, or does not say its version.
pub fn refuse_old(session: &mut Session) -> anyhow::Result<()> {
    let version = session.value("SHOW server_version_num")?;
    Ok(serves(version.and_then(|version| version.parse().ok()))?)
}

/// The same by `server_version_num`, where it is known.
pub(super) fn serves(version: Option<u32>) -> Result<(), Failure> {
    match version {
        // min_parallel_table_scan_size came with 10, jit with 11.
        Some(..110_000) => Err(Failure::target(
            "scattered-read is for PostgreSQL 11 and later",
        )),
        _ => Ok(()),
    }
}

/// Writes the plan down, and runs the executions that are not yet measured.
pub(super) fn run_plan(
    prepared: Prepared,
    asked: &Asked,
    subject: &mut Subject,
    writer: &mut RunWriter,
    progress: &mut Progress,
    stop: &Stop,
) -> anyhow::Result<Ended> {
    let Prepared {
        plan,
        connector,
        files,
        warm,
    } = prepared;
    let mut header = asked.header.clone();
    let stages = &mut header.experiment.stages;
    let Some(stage) = stages.first_mut() else {
        anyhow::bail!("the run has no stage");
    };
    stage.plan.points = plan.points();
    stage.driver = DriverConfig::ScatteredRead(plan.clone());
    let stage = stage.clone();
    writer.write_header(&header)?;
    let read_ahead = match plan.variants.iter().any(|v| v.read_ahead_kb.is_some()) {
        false => None,
        true => {
            let taken = ReadAhead::take(read_ahead_file(&subject.scene.storage)?);
            Some(taken.map_err(|e| {
                Failure::usage(format!("--read-ahead: {e}"))
                    .with_remedy("run pgassay as root, or leave it out")
            })?)
        }
    };
    let storage = subject.scene.storage.clone();
    let device_rate = |trial: &Trial| {
        let rate = bursts::rate(trial, Some(&storage), plan.block_size_bytes)?;
        Some((trial.slice.point, rate))
    };
    let mut driver = ScatteredRead {
        plan: plan.clone(),
        arms: vec![ScatteredArm {
            label: None,
            connector,
            watched: observing::typed(&asked.observe, subject),
            cluster: subject.cluster.take(),
            files,
            wanted: HashMap::new(),
        }],
        read_ahead,
        drop_caches: asked.drop_caches,
        last: None,
        warm,
        stop: stop.clone(),
    };
    let recorder = Recorder {
        steady: plan
            .until_stable
            .then(|| Steady::new(device_rate, bursts::is_stable)),
        ..Recorder::new(writer)
    };
    let ended = recorder.run(&stage, 1, &mut driver, progress, stop);
    let ended = match ended {
        Ok(Ended::Complete) => driver.give_back().map(|()| Ended::Complete),
        ended => ended,
    };
    let symbols = observing::write_all_symbols(writer, &mut driver);
    for arm in driver.arms {
        subject.scene = arm.watched.scene;
        subject.cluster = arm.cluster;
    }
    symbols?;
    ended
}

/// Where the read-ahead of the device under the file system is set.
fn read_ahead_file(storage: &Storage) -> anyhow::Result<PathBuf> {
    let top = storage.layers.iter().find(|layer| {
        let device = PathBuf::from(format!("/sys/class/block/{}", layer.name));
        device.exists()
    });
    let Some(top) = top else {
        return Err(Failure::usage(
            "--read-ahead: the device under the data directory is not visible",
        )
        .with_remedy("leave the flag out")
        .into());
    };
    let device = std::fs::canonicalize(format!("/sys/class/block/{}", top.name))?;
    // A partition's queue is its disk's, one directory up.
    let file = [device.join("queue"), device.join("../queue")]
        .into_iter()
        .map(|queue| queue.join("read_ahead_kb"))
        .find(|file| file.exists());
    file.ok_or_else(|| {
        Failure::usage(format!(
            "--read-ahead: {} has no read-ahead to set",
            top.name
        ))
        .with_remedy("leave the flag out")
        .into()
    })
}

/// Whether any execution was measured.
pub fn was_measured(analysis: &Analysis) -> bool {
    let scattered = analysis.scattered_read.as_ref();
    scattered.is_some_and(|scattered| !scattered.variants.is_empty())
}

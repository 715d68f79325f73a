//! How a run is written down: its header, its facts, its end. What all commands that measure share.

use std::time::Instant;

use pgassay_engine::rundir::{self, RunWriter};
use pgassay_engine::runner::Ended;
use pgassay_model::Plan;
use pgassay_model::plan::{Arm, Experiment};
use pgassay_model::run::{EndState, EventKind, FORMAT, RunEnd, RunHeader};
use pgassay_model::warning::Warning;
use pgassay_model::workload::WorkloadPlan;
use pgassay_observe::host;
use pgassay_pgwire::Conninfo;

use super::inspect_server;
use super::subject::Subject;
use crate::cli::args::GlobalArgs;
use crate::cli::target::TargetArgs;

/// The header of a new run; its name is given when its directory is made.
pub fn header(command: &str, global: &GlobalArgs, experiment: Experiment) -> RunHeader {
    RunHeader {
        schema: "pgassay/run/1".to_owned(),
        format: FORMAT,
        id: String::new(),
        command: command.to_owned(),
        command_line: global.typed.clone(),
        pgassay_version: env!("CARGO_PKG_VERSION").to_owned(),
        started: rundir::now(),
        experiment,
    }
}

/// A target for messages and records, without its password.
pub fn shown(target: &str) -> String {
    match Conninfo::parse(target) {
        Ok(conninfo) if Conninfo::looks_like(target) => conninfo.redacted(),
        _ => target.to_owned(),
    }
}

/// The one arm of a run that compares nothing.
pub fn arm(target: &TargetArgs, subject: &Subject) -> Arm {
    Arm {
        label: target
            .target
            .as_ref()
            .map_or("temp", |_| "target")
            .to_owned(),
        target: subject.shown.clone(),
        typed: target.target.as_deref().map(shown).unwrap_or_default(),
        load: target.load,
        settings: pairs(&target.settings),
        confinement: target.confined.plan(),
        axes: Vec::new(),
    }
}

/// Settings as typed, by name and value.
pub fn pairs(settings: &[String]) -> Vec<(String, String)> {
    let pair = |setting: &String| {
        let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
        (name.trim().to_owned(), value.to_owned())
    };
    settings.iter().map(pair).collect()
}

/// The seed of a recorded plan, or the one that was asked for, or one that is drawn.
///
/// # Errors
/// Where the system gives no random numbers.
pub fn seed(planned: Option<&Plan>, asked: Option<u64>) -> anyhow::Result<u64> {
    match planned.map(|plan| plan.seed).or(asked) {
        Some(seed) => Ok(seed),
        None => rundir::random_seed(),
    }
}

/// The plan of a load that is no transactions of clients: its points are the workload's own.
pub fn without_clients(workload: &str, trials: u32, window_ms: u64, seed: u64) -> Plan {
    Plan {
        workload: WorkloadPlan {
            name: workload.to_owned(),
            scale: 1,
            protocol: "simple".to_owned(),
            ..WorkloadPlan::default()
        },
        trials,
        window_ms,
        seed,
        ..Plan::default()
    }
}

/// Writes down the machine, the server, what lies under its data, and its executable.
///
/// # Errors
/// Where the server is lost or the run can't be written.
pub fn write_facts(writer: &mut RunWriter, subject: &mut Subject) -> anyhow::Result<()> {
    let data_dir = subject.data_dir();
    writer.write_fact("host", &host::facts(data_dir.as_deref()))?;
    writer.write_fact("server-0", &subject.facts()?)?;
    writer.write_fact("storage-0", &subject.scene.storage)?;
    writer.write_fact("binary-0", &inspect_server::inspect(subject))
}

/// Writes down which settings are not in force as they were asked for.
///
/// # Errors
/// Like [`write_facts`].
pub fn warn_of_settings(writer: &mut RunWriter, subject: &mut Subject) -> anyhow::Result<()> {
    for mismatch in subject.settings_not_in_force()? {
        let warning = Warning::new(
            "setting-not-in-force",
            format!("A setting is not in force as asked for: {mismatch}."),
        );
        writer.append_event(EventKind::Warned { warning })?;
    }
    Ok(())
}

/// What is written down when a run is over, however it ended.
pub fn end_of(ended: &anyhow::Result<Ended>, started: Instant) -> RunEnd {
    let (state, reason) = match ended {
        Ok(Ended::Complete) => (EndState::Complete, None),
        Ok(Ended::Interrupted) => (EndState::Interrupted, Some("stopped by Ctrl-C".to_owned())),
        Ok(Ended::ServerDied(why)) => (
            EndState::ServerDied,
            Some(format!("the server died: {why}")),
        ),
        Err(error) => (EndState::Failed, Some(format!("{error:#}"))),
    };
    RunEnd {
        state,
        reason,
        at: rundir::now(),
        elapsed_seconds: started.elapsed().as_secs_f64(),
        max_rss_bytes: max_rss_bytes(),
    }
}

/// The most memory that this process ever had resident, in bytes.
fn max_rss_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.split_ascii_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

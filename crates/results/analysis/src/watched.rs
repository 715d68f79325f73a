//! A live server under its own load, over a window: what `pgassay watch` shows.

use pgassay_model::record::RecordedRun;
use serde::{Deserialize, Serialize};

use crate::analyse;
use crate::diagnose::Diagnosis;
use crate::observed::ArmObserved;

/// Name and version of the serialized form.
pub const SCHEMA: &str = "pgassay/watch/1";

/// What stands for a workload's name where a server is watched under its own load.
pub const OWN_LOAD: &str = "the server's own load";

/// One window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Watched {
    /// [`SCHEMA`].
    pub schema: String,
    /// The server, without passwords.
    pub target: String,
    /// `version()`.
    pub version: Option<String>,
    /// Start of the window, UTC, RFC 3339.
    pub started: String,
    /// Length of the window, seconds.
    pub seconds: f64,
    /// Transactions that the watched database committed or rolled back, a second, without those of pgassay's observers;
    /// none where there were none.
    pub transactions_per_second: Option<f64>,
    /// Where the time went, and what was found.
    pub diagnosis: Diagnosis,
    /// What was seen: the time budget, statements, objects, waits, and what looking cost.
    pub observed: ArmObserved,
}

/// A window that is written down as the one trial of a run, as what it shows; none where nothing
/// could be seen.
pub fn of(run: &RecordedRun) -> Option<Watched> {
    let analysis = analyse(run);
    let trial = run.trials.first()?;
    let arm = analysis.arms.first()?;
    let stage = analysis.main();
    let observed = stage.arms.first()?.observed.clone()?;
    let seconds = trial.window_ns as f64 / 1e9;
    Some(Watched {
        schema: SCHEMA.to_owned(),
        target: arm.target.clone(),
        version: arm.server.as_ref().map(|server| server.version.clone()),
        started: trial.started.clone(),
        seconds,
        transactions_per_second: (trial.transactions > 0 && seconds > 0.0)
            .then(|| trial.transactions as f64 / seconds),
        diagnosis: stage.diagnosis.clone()?,
        observed,
    })
}

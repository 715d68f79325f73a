//! What a run or a profile shows, as detectors look at it.

use crate::analysis::{ArmAnalysis, PointAnalysis};
use crate::host::HostSummary;
use crate::observed::{Budget, PointObserved, WaitAnalysis};
use crate::profile::Summary;
use crate::stats::scaling::Scaling;

/// What is known of a server under load.
#[derive(Debug, Clone, Copy, Default)]
pub struct Evidence<'a> {
    /// `server_version_num`, 150018 for 15.18 and 90404 for 9.4.4.
    pub version: Option<u32>,
    /// CPU samples.
    pub profile: Option<&'a Summary>,
    /// A recorded run.
    pub run: Option<RunEvidence<'a>>,
}

impl Evidence<'_> {
    /// The part of the sessions' time in which they ran, or were ready to: of the budget. Without
    /// one, of the time of sessions in a statement by samples, which see too few of them.
    pub fn running(&self) -> Option<f64> {
        if let Some(budget) = self.run?.budget() {
            return Some(budget.running());
        }
        let waits = self.run?.waits()?;
        (waits.active_sessions > 0.0).then(|| waits.running_sessions / waits.active_sessions)
    }

    /// Whether the server's version is known to be older than this.
    pub(super) fn is_before(&self, version: u32) -> bool {
        self.version.is_some_and(|v| v < version)
    }
}

/// What a run shows of one server, at its largest client count.
#[derive(Debug, Clone, Copy)]
pub struct RunEvidence<'a> {
    /// The load's name.
    pub workload: &'a str,
    /// The machine.
    pub host: &'a HostSummary,
    /// The server.
    pub arm: &'a ArmAnalysis,
    /// The largest client count that was measured.
    pub point: &'a PointAnalysis,
    /// What observers saw there.
    pub observed: Option<&'a PointObserved>,
    /// The scaling law over all client counts, if it holds.
    pub scaling: Option<&'a Scaling>,
}

impl<'a> RunEvidence<'a> {
    /// The wait samples.
    pub fn waits(&self) -> Option<&'a WaitAnalysis> {
        self.observed?.waits.as_ref()
    }

    /// Where the sessions' time went.
    pub fn budget(&self) -> Option<&'a Budget> {
        self.observed?.budget.as_ref()
    }

    /// The value of one of the server's settings.
    pub(super) fn setting(&self, name: &str) -> Option<&'a str> {
        let settings = &self.arm.server.as_ref()?.settings;
        let found = settings.iter().find(|s| s.name == name)?;
        Some(&found.value)
    }

    /// `8 clients`: how many there were.
    pub(crate) fn clients(&self) -> String {
        clients(self.point.point.clients)
    }
}

/// `1 client`, `8 clients`.
pub(super) fn clients(n: u32) -> String {
    match n {
        1 => "1 client".to_owned(),
        n => format!("{n} clients"),
    }
}

//! What `assay` and `run` ask for.

use std::time::Instant;

use pgassay_engine::agents::Agents;
use pgassay_model::workload::WorkloadPlan;
use pgassay_sys::stop::Stop;

use super::again::Again;
use super::from;
use crate::cli::args::GlobalArgs;
use crate::cli::from::FromList;
use crate::cli::load::Pin;
use crate::cli::measure::{Budget, MeasureArgs};
use crate::cli::target::TargetArgs;
use crate::terminal::Terminal;

/// What a command asks for.
#[derive(Debug)]
pub struct Request<'a> {
    /// The command's name, for the record.
    pub command: &'static str,
    /// What the clients do.
    pub workload: WorkloadPlan,
    /// The server.
    pub target: &'a TargetArgs,
    /// The trials.
    pub measure: &'a MeasureArgs,
    /// What the defaults add up to.
    pub budget: Budget,
    /// The recorded run that is resumed or repeated, if any.
    pub again: &'a Again,
    /// Whether client and server get CPUs of their own.
    pub pin: Option<Pin>,
    /// Whether the client is measured alone as well.
    pub ceiling: bool,
    /// The primitives inside the server are measured after the load.
    pub primitives: bool,
    /// The server is loaded a second time, by transactions that write.
    pub second: bool,
    /// A server that we may not load is looked at all the same.
    pub may_only_look: bool,
    /// Results as JSON.
    pub json: bool,
    /// The finished report is opened in the browser.
    pub open: bool,
    /// Whether the user said how statements travel.
    pub protocol_asked: bool,
    /// When the command began.
    pub started: Instant,
}

impl Request<'_> {
    /// The machines that the load comes from, reached; none where none are named.
    ///
    /// # Errors
    /// Where one can't be reached, or the load can't be given from several.
    pub fn agents(
        &self,
        machines: Option<&FromList>,
        global: &GlobalArgs,
        terminal: &mut Terminal,
        stop: &Stop,
    ) -> anyhow::Result<Option<Agents>> {
        let Some(list) = machines else {
            return Ok(None);
        };
        from::refuse(&self.workload, self.pin.is_some(), self.ceiling)?;
        from::open(list, &self.measure.ways, global, terminal, stop).map(Some)
    }
}

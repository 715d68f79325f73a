//! What `assay` and `run` ask for.

use std::time::Instant;

use pgassay_model::workload::WorkloadPlan;

use super::again::Again;
use crate::cli::load::Pin;
use crate::cli::measure::{Budget, MeasureArgs};
use crate::cli::target::TargetArgs;

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
    /// Whether a recorded run is gone on with, or repeated.
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

//! What gives a server its load.

use pgassay_load::{Edge, Engine, ResizeError, SliceResult, SliceSpec};
use pgassay_model::machines::MachineRecord;
use pgassay_pgwire::ConnectError;

use crate::agents::{Several, Trouble};
use crate::runner::TrialFailure;

/// What gives a server its load. Which it is, is asked once a slice.
pub(super) enum Giver {
    /// The load engine in this process.
    Here(Box<Engine>),
    /// Agents, on several machines.
    Several(Several),
}

impl Giver {
    /// Opens or closes connections until there are so many clients.
    pub(super) fn resize(&mut self, clients: u32) -> Result<(), TrialFailure> {
        match self {
            Self::Here(engine) => engine.resize(clients as usize).map_err(no_connection),
            Self::Several(several) => several.resize(clients).map_err(failure),
        }
    }

    /// Runs a slice with all clients; with what each machine had of it, where they are several.
    pub(super) fn run_slice(
        &mut self,
        spec: &SliceSpec,
        at_edge: &mut dyn FnMut(Edge),
    ) -> Result<(SliceResult, Vec<MachineRecord>), TrialFailure> {
        match self {
            Self::Here(engine) => Ok((engine.run_slice(spec, at_edge), Vec::new())),
            Self::Several(several) => several.run_slice(spec, at_edge).map_err(failure),
        }
    }
}

/// What agents that give no load mean for the run.
fn failure(trouble: Trouble) -> TrialFailure {
    match trouble {
        Trouble::OutOfReach(why) => TrialFailure::PointOutOfReach(why),
        Trouble::Interrupted => TrialFailure::Interrupted,
        Trouble::ServerDied(why) => TrialFailure::ServerDied(why),
        Trouble::Failure(failure) => TrialFailure::Other(failure.into()),
    }
}

/// What connections that can't be had mean for the run.
pub(super) fn no_connection(error: ResizeError) -> TrialFailure {
    match &error {
        ResizeError::Stopped { .. } => TrialFailure::Interrupted,
        ResizeError::Descriptors { .. } => TrialFailure::PointOutOfReach(error.to_string()),
        ResizeError::Connect { cause, .. }
            if matches!(**cause, ConnectError::TooManyConnections { .. }) =>
        {
            TrialFailure::PointOutOfReach(error.to_string())
        }
        ResizeError::Connect { .. } | ResizeError::Broken { .. } => {
            TrialFailure::ServerDied(error.to_string())
        }
    }
}

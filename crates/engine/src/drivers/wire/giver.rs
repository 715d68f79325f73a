//! What gives a server its load.

use pgassay_load::{Edge, Engine, ResizeError, SliceResult, SliceSpec};
use pgassay_pgwire::ConnectError;

use crate::runner::TrialFailure;

/// What gives a server its load. Which it is, is asked once a slice.
pub(super) enum Giver {
    /// The load engine in this process.
    Here(Box<Engine>),
}

impl Giver {
    /// Opens or closes connections until there are so many clients.
    pub(super) fn resize(&mut self, clients: u32) -> Result<(), TrialFailure> {
        match self {
            Self::Here(engine) => engine.resize(clients as usize).map_err(no_connection),
        }
    }

    /// Runs a slice with all clients.
    pub(super) fn run_slice(
        &mut self,
        spec: &SliceSpec,
        at_edge: &mut dyn FnMut(Edge),
    ) -> SliceResult {
        match self {
            Self::Here(engine) => engine.run_slice(spec, at_edge),
        }
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

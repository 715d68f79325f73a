//! Why a target can't be had, kept typed because the exit code depends on it.

use std::path::PathBuf;

use pgassay_model::FailureKind;

/// Why a target can't be had. Each message names the remedy.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// What was typed is no target or no setting: exit code 2.
    #[error("{0}")]
    Usage(String),
    /// The target is understood but not at hand: exit code 3.
    #[error("{0}")]
    NotFound(String),
    /// The server did not come up; its own words are in the message: exit code 3.
    #[error("{message}")]
    NotStarted {
        /// What was tried and what the server said.
        message: String,
    },
    /// The place for the cluster can't be used: exit code 3.
    #[error("{}: {reason}", path.display())]
    Place {
        /// The directory or file concerned.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        reason: String,
    },
    /// Ctrl-C while the server was coming up: exit code 130.
    #[error("interrupted while the server was starting")]
    Interrupted,
}

impl TargetError {
    /// What kind of failure this is.
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::Usage(_) => FailureKind::Usage,
            Self::NotFound(_) | Self::NotStarted { .. } | Self::Place { .. } => FailureKind::Target,
            Self::Interrupted => FailureKind::Interrupted,
        }
    }

    /// A place's error from the system's one.
    pub(crate) fn place(path: impl Into<PathBuf>, doing: &str, error: &std::io::Error) -> Self {
        Self::Place {
            path: path.into(),
            reason: format!("{doing}: {error}"),
        }
    }
}

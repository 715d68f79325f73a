//! Errors whose cause is known to be outside pgassay, with what the user can do about it.
//!
//! Libraries say what kind of failure it is; only the program knows which exit code that means.

use std::error::Error;
use std::fmt;

/// What went wrong, as far as the caller has to tell failures apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// The request, or a file that it names, is wrong.
    Usage,
    /// The server, or what is needed to reach or make it, is unavailable.
    Target,
    /// Measured in part; what there is was kept.
    Partial,
    /// Stopped by the user before anything was measured.
    Interrupted,
}

/// An error of a known kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Which kind.
    pub kind: FailureKind,
    /// What is wrong, one sentence.
    pub message: String,
    /// What to do about it.
    pub remedy: Option<String>,
}

impl Failure {
    fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            remedy: None,
        }
    }

    /// The request, or a file that it names, is wrong.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Usage, message)
    }

    /// The server is unavailable.
    pub fn target(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Target, message)
    }

    /// Measured in part.
    pub fn partial(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Partial, message)
    }

    /// Stopped by the user before anything was measured.
    pub fn interrupted() -> Self {
        Self::new(
            FailureKind::Interrupted,
            "interrupted before anything was measured",
        )
    }

    /// The failure that an error is, or stems from; `None` if its kind is not known.
    pub fn of(error: &anyhow::Error) -> Option<&Self> {
        // One that was added as context is found by the error only, not in its chain.
        let in_chain = || error.chain().find_map(|cause| cause.downcast_ref());
        error.downcast_ref().or_else(in_chain)
    }

    /// The same, naming the remedy.
    pub fn with_remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for Failure {}

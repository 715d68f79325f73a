//! Exit codes, and errors that carry one.
//!
//! The codes are part of what users' scripts rely on; `--help` lists them.

use std::fmt;
use std::process::ExitCode;

use crate::terminal::{ClosedPipe, NotPrinted, Terminal};

/// How the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done; nothing that was asked to be guarded against was found.
    Done = 0,
    /// What was guarded against was found.
    Found = 1,
    /// The command line or a file given on it is wrong.
    Usage = 2,
    /// The target can't be had: not found, not started, refused, wrong password.
    Target = 3,
    /// Measured in part: interrupted, or the server died; what there is was kept.
    Partial = 4,
    /// A comparison is inconclusive.
    Inconclusive = 5,
    /// The arms of a comparison can't be compared.
    NotComparable = 6,
    /// A fault of pgassay itself.
    Fault = 70,
    /// Ctrl-C before anything was measured.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// An error whose exit code is known, with what the user can do about it.
#[derive(Debug)]
pub struct Failure {
    /// The code that the program ends with.
    pub exit: Exit,
    /// What is wrong, one sentence.
    pub message: String,
    /// What to do about it.
    pub remedy: Option<String>,
}

impl Failure {
    /// The command line, or a file named on it, is wrong.
    pub fn usage(message: impl Into<String>) -> Self {
        Self {
            exit: Exit::Usage,
            message: message.into(),
            remedy: None,
        }
    }

    /// The target can't be had.
    pub fn target(message: impl Into<String>) -> Self {
        Self {
            exit: Exit::Target,
            message: message.into(),
            remedy: None,
        }
    }

    /// Stopped by the user before anything was measured.
    pub fn interrupted() -> Self {
        Self {
            exit: Exit::Interrupted,
            message: "interrupted before anything was measured".to_owned(),
            remedy: None,
        }
    }

    /// The failure that an error is, or stems from; `None` where the code is not known.
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

impl std::error::Error for Failure {}

/// Says what went wrong on the terminal's error side and gives the exit code.
pub fn report(error: &anyhow::Error, terminal: &mut Terminal) -> Exit {
    // Somebody piped us into `head`: that is no error.
    if error.chain().any(|cause| cause.is::<ClosedPipe>()) {
        return Exit::Done;
    }
    terminal.complain(&format!("{error:#}"));
    if error.chain().any(|cause| cause.is::<NotPrinted>()) {
        terminal.note("make room there or write elsewhere; pgassay report prints a recorded run");
        return Exit::Usage;
    }
    let Some(failure) = Failure::of(error) else {
        terminal.note(
            "this is not a mistake of yours that pgassay knows of; if it persists, \
             report it with the command and the output of pgassay --version",
        );
        return Exit::Fault;
    };
    if let Some(remedy) = &failure.remedy {
        terminal.note(remedy);
    }
    failure.exit
}

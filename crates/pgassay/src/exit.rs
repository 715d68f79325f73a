//! Exit codes, and which kind of failure means which.
//!
//! The codes are part of what users' scripts rely on; `--help` lists them.

use std::process::ExitCode;

use pgassay_analysis::stats::Verdict;
use pgassay_model::{Failure, FailureKind};
use pgassay_server::TargetError;

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

impl Exit {
    /// What a code of another pgassay means; one that none has is a fault.
    pub fn from_code(code: i32) -> Self {
        let all = [
            Self::Done,
            Self::Found,
            Self::Usage,
            Self::Target,
            Self::Partial,
            Self::Inconclusive,
            Self::NotComparable,
            Self::Interrupted,
        ];
        let known = all.into_iter().find(|exit| *exit as i32 == code);
        known.unwrap_or(Self::Fault)
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

impl From<Verdict> for Exit {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Faster | Verdict::Equivalent => Self::Done,
            Verdict::Slower => Self::Found,
            Verdict::Inconclusive => Self::Inconclusive,
            Verdict::NotComparable => Self::NotComparable,
        }
    }
}

impl From<FailureKind> for Exit {
    fn from(kind: FailureKind) -> Self {
        match kind {
            FailureKind::Usage => Self::Usage,
            FailureKind::Target => Self::Target,
            FailureKind::Partial => Self::Partial,
            FailureKind::Interrupted => Self::Interrupted,
        }
    }
}

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
    failure.kind.into()
}

/// The exit code that a target's error carries.
pub fn explain(error: TargetError) -> anyhow::Error {
    let kind = error.kind();
    let message = error.to_string();
    // In the server's or the system's words, whichever of them met it.
    let full = message.contains("No space left on device");
    Failure {
        kind,
        message,
        remedy: full.then(|| "make room, or choose another place with --scratch DIR".to_owned()),
    }
    .into()
}

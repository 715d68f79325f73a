//! What the near side and an agent say to each other.

use std::fmt;

use pgassay_load::{Passed, SliceResult, SliceSpec};
use pgassay_model::Plan;
use serde::{Deserialize, Serialize};

/// What an agent is asked. It answers each of them once, but for [`Ask::Cancel`] and [`Ask::Forget`].
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Ask {
    /// Which machine it is on: [`Answer::Machine`].
    Machine,
    /// What its clock shows: [`Answer::Time`].
    Time,
    /// Which server it finds there: [`Answer::Server`].
    Reach(Server),
    /// To make clients: [`Answer::Done`].
    Prepare {
        /// Their number from now on.
        load: u32,
        /// What they do.
        preparation: Box<Preparation>,
    },
    /// To have so many of them: [`Answer::Done`].
    Resize {
        /// Which clients.
        load: u32,
        /// How many.
        clients: u32,
    },
    /// To run a slice: [`Answer::Passed`] as it goes on, then [`Answer::Slice`].
    Slice {
        /// Which clients.
        load: u32,
        /// When it begins, on the agent's clock.
        begin_ns: u64,
        /// The slice.
        spec: Box<SliceSpec>,
    },
    /// To end the slice that runs.
    Cancel,
    /// To let clients go.
    Forget {
        /// Which.
        load: u32,
    },
}

/// How a server is reached.
#[derive(Clone, Serialize, Deserialize)]
pub struct Server {
    /// A connection string without a password: the agent completes it from its own files and environment.
    pub conninfo: String,
    /// The password of a server that we launched, made for it.
    pub password: Option<String>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("conninfo", &self.conninfo)
            .finish_non_exhaustive()
    }
}

/// What clients do.
#[derive(Debug, Serialize, Deserialize)]
pub struct Preparation {
    /// The plan with its scripts.
    pub plan: Plan,
    /// The server.
    pub server: Server,
}

/// What an agent answers.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    /// Which machine it is on.
    Machine(Machine),
    /// What its clock shows, in nanoseconds.
    Time(u64),
    /// When the server that it found was started, in the server's words.
    Server(String),
    /// It is done.
    Done,
    /// It can't be done.
    Refused(Refusal),
    /// A part of the window has passed.
    Passed(Passed),
    /// The slice is over.
    Slice(Box<Given>),
}

/// The machine that an agent is on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The kernel's id of this boot: whoever has the same shares the processors.
    pub boot: String,
    /// CPUs that the agent may use.
    pub cpus: u32,
}

/// What a slice came to.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Given {
    /// When its window began, on the agent's clock.
    pub begin_ns: u64,
    /// What was counted.
    pub result: SliceResult,
}

/// Why something can't be done there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Which kind.
    pub kind: RefusalKind,
    /// In words.
    pub text: String,
}

impl Refusal {
    /// One of no kind of its own.
    pub(super) fn other(text: impl fmt::Display) -> Self {
        Self {
            kind: RefusalKind::Other,
            text: text.to_string(),
        }
    }
}

/// Kinds of refusals, as far as they mean different things for a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RefusalKind {
    /// The server, or the machine, has no room for so many connections.
    TooMany,
    /// The server can't be reached from there.
    Unreachable,
    /// It was stopped.
    Stopped,
    /// Anything else.
    Other,
}

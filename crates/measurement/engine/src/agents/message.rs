//! What the near side and an agent say to each other.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

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
    /// By which of its addresses it would go there: [`Answer::Address`].
    Address(SocketAddr),
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
    /// One of its addresses; none where no way leads there.
    Address(Option<IpAddr>),
    /// The server that it found.
    Server(Found),
    /// It is done.
    Done,
    /// It can't be done.
    Refused(Refusal),
    /// A part of the window has passed.
    Passed(Passed),
    /// The slice is over.
    Slice(Box<Given>),
}

/// A server that an agent found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// Which one it is.
    pub identity: Identity,
    /// The shortest time in which it answered an empty query, in nanoseconds: the network's round trip, and what
    /// both ends take to wake up.
    pub round_trip_ns: u64,
}

/// Which server a session is of, and what it may do there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// When the server was started, in its own words: a name of it that no other has.
    pub started: String,
    /// The session's database.
    pub database: String,
    /// Whether the session's transactions only read.
    pub read_only: bool,
}

/// The machine that an agent is on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The kernel's id of this boot: whoever has the same shares the processors.
    pub boot: String,
    /// CPUs that the agent may use.
    pub cpus: u32,
    /// The addresses of the ssh session in which it runs.
    #[serde(default)]
    pub session: Option<SshSession>,
}

/// The two addresses of an ssh session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SshSession {
    /// Of who came.
    pub client: IpAddr,
    /// Of the machine where the session is.
    pub server: IpAddr,
}

impl SshSession {
    /// That of this process.
    pub fn of_this() -> Option<Self> {
        Self::parse(&std::env::var("SSH_CONNECTION").ok()?)
    }

    /// What `SSH_CONNECTION` says: client, its port, server, its port.
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_ascii_whitespace();
        let client = words.next()?.parse().ok()?;
        let server = words.nth(1)?.parse().ok()?;
        Some(Self { client, server })
    }
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
    /// A connection pooler answers in the server's place.
    Pooler,
    /// It was stopped.
    Stopped,
    /// Anything else.
    Other,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_addresses_of_an_ssh_session_are_read() {
        let session = SshSession::parse("10.0.0.7 51022 fd00::2 22").unwrap();
        assert_eq!(session.client.to_string(), "10.0.0.7");
        assert_eq!(session.server.to_string(), "fd00::2");
        // One of a link alone means nothing without the interface's name.
        for other in ["", "10.0.0.7 51022", "fe80::1%eth0 51022 fe80::2%eth0 22"] {
            assert_eq!(SshSession::parse(other), None, "{other}");
        }
    }
}

//! Why a link is lost.

use std::fmt;

use super::{SILENCE, STOPPING};

/// Why nothing more can be said or heard on a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lost {
    /// It was closed on this side.
    Closed,
    /// The other side ended, or what carried the link did.
    Ended,
    /// No sign of life came for too long.
    Silent,
    /// The other side was asked to stop and went on.
    Unstopped,
    /// The system says why it can't be read or written.
    Broken(String),
    /// What came is no message of ours.
    Nonsense(String),
    /// The stream ended, or went on, without its beginning; with what stood there instead.
    NoGreeting(String),
    /// A message of ours can't be sent. The link stands.
    Unsayable(String),
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("the link was closed"),
            Self::Ended => f.write_str("the other side ended"),
            Self::Silent => write!(f, "no sign of life for {SILENCE} seconds"),
            Self::Unstopped => write!(f, "the other side did not end within {STOPPING} seconds"),
            Self::Broken(why) => f.write_str(why),
            Self::Nonsense(why) => write!(f, "the other side does not make sense: {why}"),
            Self::NoGreeting(said) if said.is_empty() => {
                f.write_str("the other side ended without a word")
            }
            Self::NoGreeting(said) => write!(f, "the other side is not pgassay; it said: {said}"),
            Self::Unsayable(why) => write!(f, "a message can't be sent: {why}"),
        }
    }
}

impl std::error::Error for Lost {}

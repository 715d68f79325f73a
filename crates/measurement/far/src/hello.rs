//! What each side says first: which program it is. Its form only ever grows, so that programs of
//! all versions can tell each other why they don't work together.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::link::{Channel, Link, Lost, OWN};

/// The version of what is said after the hello. In 1 the sender of files waited for no receipts; in 2 the far
/// side sent reports as HTML.
pub const PROTOCOL: u32 = 3;

/// The oldest that this program speaks, too.
pub const OLDEST: u32 = 3;

/// Who speaks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The newest protocol that it speaks.
    pub protocol: u32,
    /// The oldest.
    pub oldest: u32,
    /// The program's version.
    pub version: String,
    /// SHA-256 of the program's file; empty where it can't be read.
    #[serde(default)]
    pub hash: String,
    /// What it was compiled for, as `uname -m` says it.
    #[serde(default)]
    pub architecture: String,
}

impl Hello {
    /// This program's.
    pub fn of_this(version: &str, hash: &str) -> Self {
        Self {
            protocol: PROTOCOL,
            oldest: OLDEST,
            version: version.to_owned(),
            hash: hash.to_owned(),
            architecture: std::env::consts::ARCH.to_owned(),
        }
    }
}

/// Why the two don't work together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// The other side speaks only what is older than we do.
    TooOld {
        /// This program.
        ours: Box<Hello>,
        /// The other.
        theirs: Box<Hello>,
    },
    /// The other side speaks only what is newer.
    TooNew {
        /// This program.
        ours: Box<Hello>,
        /// The other.
        theirs: Box<Hello>,
    },
    /// Nobody said hello in time.
    Late,
    /// The link is lost.
    Lost(Lost),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let both = |ours: &Hello, theirs: &Hello| {
            format!(
                "pgassay {} there (protocol {}), {} here (protocol {})",
                theirs.version, theirs.protocol, ours.version, ours.protocol
            )
        };
        match self {
            Self::TooOld { ours, theirs } => {
                write!(f, "the far side is too old: {}", both(ours, theirs))
            }
            Self::TooNew { ours, theirs } => {
                write!(f, "the far side is too new: {}", both(ours, theirs))
            }
            Self::Late => f.write_str("the far side did not answer in time"),
            Self::Lost(lost) => lost.fmt(f),
        }
    }
}

impl std::error::Error for Refused {}

/// Says hello and hears the other's. Both sides judge alike, so that neither waits for the other.
///
/// # Errors
/// Why the two can't work together.
pub fn exchange(link: &Link, ours: &Hello, timeout: Duration) -> Result<Hello, Refused> {
    let channel: Channel = link.channel(OWN);
    channel.send(ours).map_err(Refused::Lost)?;
    let theirs: Hello = channel
        .recv(timeout)
        .map_err(Refused::Lost)?
        .ok_or(Refused::Late)?;
    if theirs.protocol < ours.oldest {
        return Err(Refused::TooOld {
            ours: Box::new(ours.clone()),
            theirs: Box::new(theirs),
        });
    }
    if theirs.oldest > ours.protocol {
        return Err(Refused::TooNew {
            ours: Box::new(ours.clone()),
            theirs: Box::new(theirs),
        });
    }
    Ok(theirs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn speaks(oldest: u32, protocol: u32) -> Hello {
        Hello {
            protocol,
            oldest,
            ..Hello::of_this(&format!("{protocol}.0"), "")
        }
    }

    fn meet(ours: &Hello, theirs: &Hello) -> Result<Hello, Refused> {
        let (a, b) = Link::pair();
        let soon = Duration::from_secs(20);
        std::thread::scope(|scope| {
            scope.spawn(move || exchange(&b, theirs, soon).is_ok());
            exchange(&a, ours, soon)
        })
    }

    #[test]
    fn versions_that_share_a_protocol_work_together() {
        assert!(meet(&speaks(1, 1), &speaks(1, 1)).is_ok());
        assert!(meet(&speaks(2, 3), &speaks(1, 2)).is_ok());
        let old = meet(&speaks(3, 4), &speaks(1, 2)).unwrap_err();
        assert_eq!(
            old.to_string(),
            "the far side is too old: pgassay 2.0 there (protocol 2), 4.0 here (protocol 4)"
        );
        let new = meet(&speaks(1, 1), &speaks(2, 3)).unwrap_err();
        assert!(matches!(new, Refused::TooNew { .. }));
    }

    /// One would wait for what the other never sends.
    #[test]
    fn a_program_that_sends_no_receipts_is_too_old() {
        let this = Hello::of_this("", "");
        let old = meet(&this, &speaks(1, 1)).unwrap_err();
        assert!(matches!(old, Refused::TooOld { .. }));
        let new = meet(&speaks(1, 1), &this).unwrap_err();
        assert!(matches!(new, Refused::TooNew { .. }));
        assert!(meet(&this, &this).is_ok());
    }

    #[test]
    fn a_later_hello_with_more_in_it_is_understood() {
        let (a, b) = Link::pair();
        let later = r#"{"protocol": 9, "oldest": 1, "version": "3.0", "moods": ["good"]}"#;
        b.channel(OWN).send_bytes(later.into()).unwrap();
        let theirs = exchange(&a, &speaks(1, 1), Duration::from_secs(20)).unwrap();
        assert_eq!(theirs.version, "3.0");
        drop(b);
        let (a, _b) = Link::pair();
        let late = exchange(&a, &speaks(1, 1), Duration::from_millis(1));
        assert_eq!(late, Err(Refused::Late));
    }
}

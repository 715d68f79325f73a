//! What the two sides say to each other about a command.

use serde::{Deserialize, Serialize};

use crate::session::Session;

/// What is said of the command, both ways.
pub const WORDS: u16 = 1;

/// Contents of files: those that the command needs there, those that it makes here.
pub const FILES: u16 = 2;

/// From the near side.
#[derive(Debug, Serialize, Deserialize)]
pub enum Order {
    /// Carry this out.
    Start(Start),
    /// Give load, as is said on the load's channel.
    Load,
    /// Ctrl-C was pressed.
    Stop,
    /// Everything has arrived here.
    Received,
}

/// A command.
#[derive(Debug, Serialize, Deserialize)]
pub struct Start {
    /// Its words, without the program's name.
    pub words: Vec<String>,
    /// For whom.
    pub session: Session,
    /// Columns of the terminal.
    pub columns: usize,
    /// How many files come first on the channel of files.
    pub given: usize,
    /// How many files the command is to write for the near side, named by [`output`].
    pub outputs: usize,
    /// Where the command has its temporary servers, if somewhere of its own.
    pub scratch: Option<String>,
}

/// From the far side.
#[derive(Debug, Serialize, Deserialize)]
pub enum Word {
    /// It runs, with its runs in this directory.
    Started {
        /// As it may be named in what the command says.
        runs: String,
    },
    /// A result.
    Out(String),
    /// A line of what is going on, or of complaint.
    Said(String),
    /// The command has ended, and all its files were sent.
    Ended {
        /// None where a signal ended it.
        code: Option<i32>,
    },
    /// It could not be started.
    Refused(String),
}

/// Where the session's directory is made, and how its name begins.
pub const SESSIONS: (&str, &str) = ("/var/tmp", "pgassay-far");

/// The longest path of a directory of runs that is taken from the far side.
const LONGEST: usize = 256;

/// Whether a far side may call its directory of runs so: what it says is searched for that.
pub fn is_of_session(runs: &str) -> bool {
    let (parent, begin) = SESSIONS;
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"._-/".contains(&b);
    let begin = format!("{parent}/{begin}-");
    runs.starts_with(&begin) && runs.len() <= LONGEST && runs.bytes().all(plain)
}

/// The file, in the command's directory there, for the near side's output of that number.
pub fn output(number: usize) -> String {
    format!("out-{number}")
}

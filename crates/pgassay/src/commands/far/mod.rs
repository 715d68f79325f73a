//! A command on another machine: this program there carries it out as if it were typed there, and this
//! one shows what it says and keeps what it records.
//!
//! ```text
//! near  words -> reach ------ carrier ------ agent -> child (the command itself)
//!       terminal, keep <---- words, files ----/   \-> warden (tidies when the agent is gone)
//! ```

mod agent;
mod files;
mod given;
mod keep;
mod load;
mod near;
mod pace;
mod page;
mod reach;
mod rules;
mod say;
mod tidy;
mod within;
mod words;

use pgassay_sys::stop::Stop;

use crate::cli::far::FarArgs;
use crate::exit::Exit;
use crate::terminal::Terminal;

pub use keep::refuse_from_elsewhere;
pub use load::{LOAD, give_load};
pub use near::there;
pub use say::Session;
pub use within::near_side;
pub use words::{There, sought};

/// Whether this command was started by ssh from where it was typed.
pub fn came_by_ssh() -> bool {
    Session::of_this().is_some_and(|session| session.place.starts_with("ssh://"))
}

/// How a run that was broken off is gone on with: by this, or where it is kept by another machine, which executes
/// nothing that was recorded here, by its command.
pub fn to_go_on(by: String) -> String {
    match Session::of_this() {
        Some(_) => "type the command again: it measures anew".to_owned(),
        None => by,
    }
}

/// Whether the machine where this command was typed gives load, and is another than this one.
pub fn gives_near_load() -> bool {
    Session::of_this().is_some_and(|session| session.load)
}

/// Whether this command was typed elsewhere, and its load comes from there, too: then its standard input leads there
/// and is put away.
///
/// # Errors
/// Where the system refuses that.
pub fn keep_near_side(session: &Session) -> std::io::Result<()> {
    match session.load {
        true => within::keep(),
        false => Ok(()),
    }
}

/// What is said of a server that is measured for a near side: where it is, and that its load is, too.
pub fn on_this() -> String {
    match Session::of_this() {
        Some(session) if Session::has_own_load(&session.typed) => {
            format!(", on {}, with its load", session.place)
        }
        Some(session) => format!(", on {}", session.place),
        None => String::new(),
    }
}

/// `pgassay far`, which another pgassay starts: speaks frames on standard input and output.
///
/// # Errors
/// Where the near side is lost or makes no sense.
pub fn far(args: &FarArgs, terminal: &mut Terminal, stop: &Stop) -> anyhow::Result<Exit> {
    match args.warden {
        true => tidy::warden(stop),
        false => agent::serve(terminal, stop),
    }
}

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
use crate::session::Session;
use crate::terminal::Terminal;

pub use load::{LOAD, give_load};
pub use near::there;
pub use within::near_side;
pub use words::{There, sought};

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

//! Run directories: the seam between measuring and concluding.
//!
//! ```text
//! RUN/run.json            the plan and how it was asked for; written first
//! RUN/facts/*.json        host, servers, binaries
//! RUN/trials.jsonl        one line a trial of whichever stage, appended
//! RUN/events.jsonl        what happened beside the trials
//! RUN/pause.json          asks the process that measures to wait; gone when it goes on
//! RUN/live.jsonl          what the trial does that runs; while somebody follows
//! RUN/end.json            how it ended; absent from a killed run
//! RUN/lock                held by the process that measures
//! RUN/report.html
//! ```
//! Whole files are written under another name, synced and renamed; lines are
//! appended between trials and synced at most once a second. A crash loses at
//! most the trial in flight.

pub mod catalogue;
pub mod live;
pub mod pause;
mod read;
mod write;

pub use read::read;
pub use read::{is_running, read_header};
pub use write::RunWriter;

use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context;
use pgassay_sys::output::{self, WriteCause};

use pgassay_model::Failure;
use pgassay_server::clock;

/// The directory that holds all runs.
///
/// The `--runs` flag, else `$PGASSAY_RUNS`, else `$XDG_STATE_HOME/pgassay/runs`,
/// else `~/.local/state/pgassay/runs`.
///
/// # Errors
/// Where none of them is set.
pub fn root(flag: Option<&Path>) -> anyhow::Result<PathBuf> {
    let variable = |name| {
        std::env::var_os(name)
            .filter(|v| !v.is_empty())
            .map(PathBuf::from)
    };
    flag.map(Path::to_owned)
        .or_else(|| variable("PGASSAY_RUNS"))
        .or_else(|| variable("XDG_STATE_HOME").map(|d| d.join("pgassay/runs")))
        .or_else(|| variable("HOME").map(|d| d.join(".local/state/pgassay/runs")))
        .ok_or_else(|| {
            Failure::usage("there is no place for recorded runs: HOME is not set")
                .with_remedy("name a directory with --runs DIR or $PGASSAY_RUNS")
                .into()
        })
}

/// Writes a whole file of a run under another name, syncs it, and renames it into place.
///
/// # Errors
/// Where it can't be written, as on a full disk; what was there is unchanged.
pub fn replace_file(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    output::replace(path, content).map_err(|error| match error.cause {
        WriteCause::Io(e) => cannot_write(path, &e),
        _ => Failure::usage(error.to_string())
            .with_remedy("name another directory with --runs DIR or $PGASSAY_RUNS")
            .into(),
    })
}

/// What a failed write means to the user.
fn cannot_write(path: &Path, error: &io::Error) -> anyhow::Error {
    let remedy = match error.kind() {
        io::ErrorKind::FileTooLarge => "raise the limit",
        _ => "make room, or put the runs elsewhere with --runs DIR",
    };
    let failure = match output::no_room(error) {
        Some(why) => Failure::partial(format!("{why}: cannot write {}", path.display()))
            .with_remedy(format!(
                "{remedy}; what was measured before is whole: pgassay runs"
            )),
        None => Failure::usage(format!("cannot write {}: {error}", path.display()))
            .with_remedy("name another directory with --runs DIR or $PGASSAY_RUNS"),
    };
    failure.into()
}

/// The time now, UTC, RFC 3339 with milliseconds.
pub fn now() -> String {
    let now = clock::now();
    format!("{now:.3}")
}

/// A link, a FIFO or a device among the files of a run, or its directory if it is a link: what came
/// from elsewhere could lead elsewhere.
///
/// # Errors
/// Where it can't be looked at.
pub fn irregular(dir: &Path) -> io::Result<Option<PathBuf>> {
    for inner in [dir.to_owned(), dir.join("facts")] {
        if let Some(found) = write::irregular_in(&inner)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// A seed from the operating system, for a plan that was given none.
///
/// # Errors
/// Where the kernel gives no random bytes.
pub fn random_seed() -> anyhow::Result<u64> {
    let mut bytes = [0u8; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .context("no random bytes")?;
    // Short enough to be typed again.
    Ok(u64::from_le_bytes(bytes) % 1_000_000_000)
}

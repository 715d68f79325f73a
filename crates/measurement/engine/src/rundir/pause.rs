//! A run that is held between two trials, by a file in its directory.
//!
//! Whoever may write into the directory makes and removes it, from any process. The runner looks for it
//! before each trial. It says for how long at most, and the runner counts that time itself: a run goes on
//! although whoever paused it has gone.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::bail;
use pgassay_model::Failure;
use pgassay_sys::input;
use serde::{Deserialize, Serialize};

use super::{cannot_write, is_running, replace_file};

/// How long a run is held at most where nothing else is said.
pub const USUAL: Duration = Duration::from_secs(3600);
/// The longest that can be asked for.
pub const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// What somebody asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// For how many seconds at most.
    seconds: u64,
    /// When it was asked for: one who asks anew begins anew.
    at: String,
}

impl Asked {
    /// For how long at most.
    pub fn at_most(&self) -> Duration {
        Duration::from_secs(self.seconds).min(LONGEST)
    }
}

/// Has the run in `dir` stop before its next trial, for so long at most.
///
/// # Errors
/// Where it is not measured now, or its directory can't be written.
pub fn pause(dir: &Path, at_most: Duration) -> anyhow::Result<()> {
    if !is_running(dir) {
        bail!(
            Failure::usage(format!("{} is not being measured", dir.display()))
                .with_remedy("only a running measurement can be paused: pgassay runs")
        );
    }
    let asked = Asked {
        seconds: at_most.min(LONGEST).as_secs(),
        at: super::now(),
    };
    let mut text = serde_json::to_vec(&asked)?;
    text.push(b'\n');
    replace_file(&file(dir), &text)
}

/// Has the run in `dir` go on; whether it was asked to stop.
///
/// # Errors
/// Where its directory can't be written.
pub fn unpause(dir: &Path) -> anyhow::Result<bool> {
    match fs::remove_file(file(dir)) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(cannot_write(&file(dir), &e)),
    }
}

/// Whether the run in `dir` is to be held, and how; a file that says nothing understandable asks for
/// [`USUAL`].
pub fn asked(dir: &Path) -> Option<Asked> {
    let path = file(dir);
    // Nothing else is done before each trial of a run that nobody pauses.
    if !fs::symlink_metadata(&path).ok()?.is_file() {
        return None;
    }
    let said = input::read(&path, 4096).ok();
    let said = said.and_then(|text| serde_json::from_slice(&text).ok());
    Some(said.unwrap_or(Asked {
        seconds: USUAL.as_secs(),
        at: String::new(),
    }))
}

fn file(dir: &Path) -> PathBuf {
    dir.join("pause.json")
}

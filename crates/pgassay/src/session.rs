//! For whom this process works: a command that was typed on another machine is carried out here for a near side.

use std::fs;
use std::path::Path;

use pgassay_model::Failure;
use pgassay_sys::input;
use serde::{Deserialize, Serialize};

/// The variable by which the command over there learns for whom it works.
pub const VARIABLE: &str = "PGASSAY_NEAR";

/// The file of ours by which a run from elsewhere is known.
pub const MARK: &str = "elsewhere.json";

/// For whom a command on a far side works.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// The machine, as the near side calls it.
    pub place: String,
    /// What was typed there.
    pub typed: Vec<String>,
    /// Load comes from there, too: standard input is the way to its engine.
    #[serde(default)]
    pub load: bool,
}

impl Session {
    /// Whether nobody named machines that the load comes from.
    pub fn has_own_load(typed: &[String]) -> bool {
        let named = |word: &String| word == "--from" || word.starts_with("--from=");
        !typed.iter().any(named)
    }

    /// That of this process, if it is the command of a far side.
    pub fn of_this() -> Option<Self> {
        let text = std::env::var(VARIABLE).ok()?;
        serde_json::from_str(&text).ok()
    }
}

/// Whether this command was started by ssh from where it was typed.
pub fn came_by_ssh() -> bool {
    Session::of_this().is_some_and(|session| session.place.starts_with("ssh://"))
}

/// How to continue an interrupted run: `by`, or, for a run kept by another machine (which executes nothing recorded
/// here), by typing the command again.
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

/// Refuses to execute what another machine recorded: its scripts, targets and settings are that machine's.
///
/// # Errors
/// Where the run in this directory came from elsewhere, naming the place.
pub fn refuse_from_elsewhere(dir: &Path) -> Result<(), Failure> {
    // A run of a lab lies below the lab that is marked.
    let whole = fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
    let marks = whole.ancestors().take(3).map(|dir| dir.join(MARK));
    let Some(mark) = marks
        .into_iter()
        .find(|mark| fs::symlink_metadata(mark).is_ok())
    else {
        return Ok(());
    };
    let text = input::read(&mark, 1 << 16).unwrap_or_default();
    let place = serde_json::from_slice::<serde_json::Value>(&text).ok();
    let place = place.and_then(|mark| Some(mark.get("place")?.as_str()?.to_owned()));
    let place = place.unwrap_or_else(|| "another machine".to_owned());
    Err(Failure::usage(format!(
        "{} was measured on {place}: what it recorded is not executed here",
        dir.display()
    ))
    .with_remedy("type its command again; pgassay report shows it"))
}

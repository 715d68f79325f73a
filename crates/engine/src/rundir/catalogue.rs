//! The runs that there are: listed, found by name, removed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use pgassay_analysis::analysis::RunState;
use pgassay_analysis::record::RunEnd;
use serde::Serialize;

use super::read::{is_running, read_header};
use pgassay_model::Failure;

/// One run in the list.
#[derive(Debug, Clone, Serialize)]
pub struct Entry {
    /// Name of its directory.
    pub id: String,
    /// `assay`, `run` …
    pub command: String,
    /// What was measured.
    pub workload: String,
    /// The targets as typed.
    pub targets: Vec<String>,
    /// Start, UTC.
    pub started: String,
    /// How it stands.
    pub state: RunState,
    /// Trials on disk, and planned.
    pub trials: (usize, usize),
    /// Size on disk in bytes.
    pub size_bytes: u64,
    /// Where it lies.
    #[serde(rename = "path")]
    pub dir: PathBuf,
}

/// All runs below `root`, oldest first; what is no run is passed over.
///
/// # Errors
/// Where the directory exists and can't be read.
pub fn list(root: &Path) -> anyhow::Result<Vec<Entry>> {
    let entries = match fs::read_dir(root) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => {
            return Err(e).with_context(|| format!("cannot list runs in {}", root.display()));
        }
    };
    let mut runs: Vec<Entry> = entries
        .flatten()
        .filter_map(|entry| describe(&entry.path()).ok())
        .collect();
    runs.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(runs)
}

/// What the list says of one run.
///
/// # Errors
/// Where the directory is no run.
pub fn describe(dir: &Path) -> anyhow::Result<Entry> {
    let header = read_header(dir)?;
    let end: Option<RunEnd> = fs::read(dir.join("end.json"))
        .ok()
        .and_then(|text| serde_json::from_slice(&text).ok());
    let state = match end {
        _ if is_running(dir) => RunState::Running,
        Some(end) => end.state.into(),
        // No end and nobody at it: it was killed.
        None => RunState::Interrupted,
    };
    let trials = fs::read(dir.join("trials.jsonl"))
        .map_or(0, |text| text.iter().filter(|byte| **byte == b'\n').count());
    let plan = &header.plan;
    Ok(Entry {
        trials: (
            trials,
            plan.arms.len() * plan.points.len() * plan.trials as usize,
        ),
        size_bytes: size_of(dir),
        state,
        command: header.command,
        workload: header.plan.workload.name,
        targets: header.plan.arms.into_iter().map(|arm| arm.target).collect(),
        started: header.started,
        id: header.id,
        dir: dir.to_owned(),
    })
}

/// The directory of the run that `name` means: a path, a name, a unique prefix, or `last`.
///
/// # Errors
/// Where there is none, or several, naming them.
pub fn find(root: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let path = Path::new(name);
    if path.join("run.json").is_file() {
        return Ok(path.to_owned());
    }
    let runs = list(root)?;
    let remedy = "pgassay runs lists what there is";
    if name == "last" {
        let Some(last) = runs.last() else {
            bail!(
                Failure::usage(format!("no run is recorded in {}", root.display()))
                    .with_remedy("pgassay assay makes one")
            );
        };
        return Ok(last.dir.clone());
    }
    let matching: Vec<&Entry> = runs.iter().filter(|run| run.id.starts_with(name)).collect();
    match matching.as_slice() {
        _ if name.is_empty() => bail!(Failure::usage("a run needs a name").with_remedy(remedy)),
        [one] => Ok(one.dir.clone()),
        [] => bail!(Failure::usage(format!("no run is named {name}")).with_remedy(remedy)),
        several => match several.iter().find(|run| run.id == name) {
            Some(exact) => Ok(exact.dir.clone()),
            None => bail!(
                Failure::usage(format!(
                    "{name} may be {} or {}{}",
                    several[0].id,
                    several[1].id,
                    if several.len() > 2 { " or others" } else { "" }
                ))
                .with_remedy("give more of the name")
            ),
        },
    }
}

/// Removes a run that nobody measures.
///
/// # Errors
/// Where it is being measured, or can't be removed.
pub fn remove(dir: &Path) -> anyhow::Result<()> {
    if is_running(dir) {
        bail!(
            Failure::usage(format!("{} is being measured", dir.display()))
                .with_remedy("stop it first, with Ctrl-C where it runs")
        );
    }
    fs::remove_dir_all(dir).with_context(|| format!("cannot remove {}", dir.display()))
}

fn size_of(dir: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(dir) else {
        return 0;
    };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(meta) if meta.is_dir() => size_of(&entry.path()),
            Ok(meta) => meta.len(),
            Err(_) => 0,
        })
        .sum()
}

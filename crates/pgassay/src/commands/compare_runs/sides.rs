//! What a side of `pgassay compare-runs` names: runs, directories of runs or of hosts, a lab.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::bail;
use pgassay_analysis::axes::has_several_servers;
use pgassay_analysis::history::Past;
use pgassay_analysis::hosts::Recorded;
use pgassay_analysis::lab::same;
use pgassay_analysis::{Analysis, analyse};
use pgassay_engine::rundir::{self, catalogue};
use pgassay_model::Failure;

use crate::commands::recorded_lab::{self, Record};
use crate::terminal::Terminal;

/// Runs of a directory that are taken at most: the newest.
const MOST: usize = 64;
/// Hosts of a directory that are taken at most.
const MOST_HOSTS: usize = 256;

/// Why a run over axes is not held against other machines.
const VARIED: &str =
    "its servers differ by what was varied, so that no one of them can stand for the machine";

/// The lab that a side names: its directory, or its name below the runs where no run has it.
///
/// # Errors
/// Where it can't be read.
pub fn lab_of(root: &Path, side: &str) -> anyhow::Result<Option<(PathBuf, Record)>> {
    let is_lab = Path::new(side).join(recorded_lab::RECORD).is_file();
    let may_be =
        !Path::new(side).exists() && side != "last" && catalogue::find(root, side).is_err();
    match (is_lab, may_be) {
        (true, _) => recorded_lab::find(root, side).map(Some),
        (false, true) => Ok(recorded_lab::find(root, side).ok()),
        (false, false) => Ok(None),
    }
}

/// Refuses labs whose plans do not measure the same.
///
/// # Errors
/// With everything in which one differs from the first.
pub fn refuse_other_plans(labs: &[(PathBuf, Record)]) -> anyhow::Result<()> {
    let Some(((_, first), others)) = labs.split_first() else {
        return Ok(());
    };
    for (_, other) in others {
        let differences = same::differences(&first.plan, &other.plan);
        if !differences.is_empty() {
            let list: String = differences
                .iter()
                .map(|line| format!("\n  {line}"))
                .collect();
            bail!(
                Failure::usage(format!(
                    "{} and {} did not measure the same:{list}",
                    first.id, other.id
                ))
                .with_remedy("measure both by one plan: pgassay lab PLAN.toml, and with --on ssh://HOST on the other machine")
            );
        }
    }
    Ok(())
}

/// The recorded runs of a lab, part by part.
///
/// # Errors
/// Where one can't be read, or nothing was measured in time.
pub fn runs_of_lab(
    dir: &Path,
    lab: &Record,
    terminal: &mut Terminal,
) -> anyhow::Result<Vec<Recorded>> {
    let place = dir.display().to_string();
    let mut found = Vec::new();
    let mut without = Vec::new();
    for (part, run) in lab.shown(dir)? {
        let recorded =
            run.and_then(|run| Recorded::of_lab((&lab.id, &place), &lab.plan, &part, run));
        match recorded {
            Some(recorded) => found.push(recorded),
            None => without.push(part.stage),
        }
    }
    if !without.is_empty() {
        without.dedup();
        terminal.announce(&format!(
            "{}: without {}: nothing was measured there in time",
            lab.id,
            without.join(", ")
        ));
    }
    if found.is_empty() {
        bail!(
            Failure::usage(format!("{} holds no run", lab.id)).with_remedy(
                "go on with it: pgassay lab --resume, or name a lab with measured stages"
            )
        );
    }
    Ok(found)
}

/// The runs that a side names.
pub fn runs_of(root: &Path, side: &str, terminal: &mut Terminal) -> anyhow::Result<Vec<Recorded>> {
    let dir = Path::new(side);
    if dir.is_dir() && !dir.join("run.json").is_file() {
        let found = match hosts_of(dir) {
            hosts if hosts.is_empty() => of_directory(dir, terminal)?,
            hosts => of_hosts(dir, &hosts, terminal)?,
        };
        if found.is_empty() {
            bail!(
                Failure::usage(format!("{side} holds no run"))
                    .with_remedy("name a directory that was given with --runs, or a run")
            );
        }
        return Ok(found);
    }
    let mut found = Vec::new();
    for name in side.split(',').filter(|name| !name.is_empty()) {
        let dir = catalogue::find(root, name)?;
        let run = analyse(&rundir::read(&dir)?);
        if has_several_servers(&run.arms) {
            bail!(
                Failure::usage(format!("{}: {VARIED}", run.run.id))
                    .with_remedy("name runs that vary clients alone")
            );
        }
        found.push(Recorded::run(dir.display().to_string(), run));
    }
    if found.is_empty() {
        bail!(Failure::usage(format!("{side:?} names no run")));
    }
    Ok(found)
}

/// A run of a directory; one that can't be read, is measured now, or has no one server is said and left out.
fn read(run: &Path, terminal: &mut Terminal) -> Option<Analysis> {
    let name = run.file_name().unwrap_or_default().display();
    match rundir::read(run) {
        Ok(recorded) => match analyse(&recorded) {
            varied if has_several_servers(&varied.arms) => {
                terminal.warn(&format!("{name} is left out: {VARIED}"));
                None
            }
            one => Some(one),
        },
        Err(error) => {
            terminal.warn(&format!("{name} is left out: {error:#}"));
            None
        }
    }
}

/// The newest runs of a directory.
fn of_directory(dir: &Path, terminal: &mut Terminal) -> anyhow::Result<Vec<Recorded>> {
    let listed = catalogue::list(dir)?;
    let newest = listed.iter().rev().take(MOST);
    let found = newest.filter_map(|run| {
        let dir = dir.join(&run.id);
        Some(Recorded::run(
            dir.display().to_string(),
            read(&dir, terminal)?,
        ))
    });
    let found = found.collect();
    if listed.len() > MOST {
        terminal.warn(&format!(
            "{} holds {} runs: the newest {MOST} are taken",
            dir.display(),
            listed.len()
        ));
    }
    Ok(found)
}

/// The directories of hosts in one, each with runs of its own in `runs`, by name. No link is followed.
fn hosts_of(dir: &Path) -> Vec<PathBuf> {
    let is_directory = |path: &Path| fs::symlink_metadata(path).is_ok_and(|of| of.is_dir());
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let runs = entries
        .map(|entry| entry.path())
        .filter(|host| is_directory(host));
    let runs = runs
        .map(|host| host.join("runs"))
        .filter(|runs| is_directory(runs));
    let mut runs: Vec<PathBuf> = runs.collect();
    runs.sort();
    runs
}

/// Of each host the newest run of every work, so that none weighs more than another.
fn of_hosts(
    dir: &Path,
    hosts: &[PathBuf],
    terminal: &mut Terminal,
) -> anyhow::Result<Vec<Recorded>> {
    let mut found = Vec::new();
    for runs in hosts.iter().take(MOST_HOSTS) {
        let mut works = BTreeSet::new();
        for run in catalogue::list(runs)?.iter().rev().take(MOST) {
            let dir = runs.join(&run.id);
            let Some(run) = read(&dir, terminal) else {
                continue;
            };
            if works.insert((run.run.command.clone(), Past::of(&run).work)) {
                found.push(Recorded::run(dir.display().to_string(), run));
            }
        }
    }
    if hosts.len() > MOST_HOSTS {
        terminal.warn(&format!(
            "{} holds {} hosts: the first {MOST_HOSTS} are taken",
            dir.display(),
            hosts.len()
        ));
    }
    Ok(found)
}

//! Reading a run directory, whole or as a crash left it.

use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use anyhow::bail;
use pgassay_model::Failure;
use pgassay_model::point::Slice;
use pgassay_model::record::RecordedRun;
use pgassay_model::run::{FORMAT, RunHeader};
use pgassay_model::stage::StageId;
use pgassay_sys::input;
use rustix::fs::{FlockOperation, flock};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

/// Longest line that is taken for a trial: readings of 100,000 processes fit.
const LONGEST_LINE: usize = 64 << 20;

/// Damaged lines of a file that are named one by one; more are counted.
const NAMED_LINES: usize = 20;

/// Largest document that is taken for a part of a run: a binary's with all its call sites fits.
const LARGEST_DOCUMENT: u64 = 256 << 20;

/// Reads a run. What a crash cut short is left out and named in `damage`.
///
/// # Errors
/// Where the directory is no run, its header is damaged, or a newer pgassay wrote it.
pub fn read(dir: &Path) -> anyhow::Result<RecordedRun> {
    let header = read_header(dir)?;
    let mut damage = Vec::new();
    let mut run = RecordedRun {
        host: optional(dir, "facts/host.json", &mut damage).unwrap_or_default(),
        servers: Default::default(),
        storage: Default::default(),
        binaries: Default::default(),
        check: optional(dir, "facts/check.json", &mut damage),
        symbols: Default::default(),
        trials: lines(&dir.join("trials.jsonl"), &mut damage)?,
        events: lines(&dir.join("events.jsonl"), &mut damage)?,
        comparison: optional(dir, "facts/comparison.json", &mut damage),
        arm_facts: Default::default(),
        query_cost: optional(dir, "facts/query-cost.json", &mut damage),
        kernel_counts: optional(dir, "facts/kernel-counts.json", &mut damage),
        pgio_counters: optional(dir, "facts/pgio-counters.json", &mut damage),
        end: optional(dir, "end.json", &mut damage),
        running: is_running(dir),
        damage: Vec::new(),
        header,
    };
    for arm in 0..run.header.experiment.arms.len() as u32 {
        if let Some(facts) = optional(dir, &format!("facts/server-{arm}.json"), &mut damage) {
            run.servers.insert(arm, facts);
        }
        if let Some(storage) = optional(dir, &format!("facts/storage-{arm}.json"), &mut damage) {
            run.storage.insert(arm, storage);
        }
        if let Some(binary) = optional(dir, &format!("facts/binary-{arm}.json"), &mut damage) {
            run.binaries.insert(arm, binary);
        }
        if let Some(facts) = optional(dir, &format!("facts/arm-{arm}.json"), &mut damage) {
            run.arm_facts.insert(arm, facts);
        }
        if let Some(symbols) = optional(dir, &format!("facts/symbols-{arm}.json"), &mut damage) {
            run.symbols.insert(arm, symbols);
        }
    }
    run.damage = damage;
    Ok(run)
}

/// Reads only `run.json`.
///
/// # Errors
/// Like [`read`].
pub fn read_header(dir: &Path) -> anyhow::Result<RunHeader> {
    let path = dir.join("run.json");
    let text = document(&path).map_err(|e| {
        Failure::usage(format!("{} is not a recorded run: {e}", dir.display()))
            .with_remedy("pgassay runs lists what there is")
    })?;
    // The version is looked at before the rest, which may have changed its form.
    #[derive(serde::Deserialize)]
    struct Version {
        format: u32,
    }
    let damaged =
        |e: serde_json::Error| Failure::usage(format!("{} is damaged: {e}", path.display()));
    let version: Version = serde_json::from_slice(&text).map_err(damaged)?;
    if version.format > FORMAT {
        bail!(
            Failure::usage(format!(
                "{} has format {}; this pgassay reads up to {FORMAT}",
                dir.display(),
                version.format
            ))
            .with_remedy("use the pgassay that recorded it, or a newer one")
        );
    }
    Ok(serde_json::from_slice(&text).map_err(damaged)?)
}

/// Whether another process measures this run now.
pub fn is_running(dir: &Path) -> bool {
    let Ok(lock) = input::open(&dir.join("lock")) else {
        return false;
    };
    flock(&lock, FlockOperation::NonBlockingLockShared).is_err()
}

/// Reads a whole document of a run.
pub(super) fn document(path: &Path) -> io::Result<Vec<u8>> {
    input::read(path, LARGEST_DOCUMENT)
}

/// How many slices a run's file of trials holds, each once however often it was tried; 0 if it cannot
/// be read. Trials that were cut short, or were not promised, don't count.
pub(super) fn count_trials(path: &Path) -> usize {
    /// What says which trial a line is.
    #[derive(Deserialize)]
    struct Key {
        #[serde(default)]
        stage: StageId,
        #[serde(default)]
        slice: Slice,
        #[serde(default)]
        cut_short: Option<IgnoredAny>,
    }
    let Ok(file) = input::open(path) else {
        return 0;
    };
    let mut reader = BufReader::with_capacity(1 << 16, file);
    let mut slices = BTreeSet::new();
    let mut line = Vec::new();
    // The file may be as large as its maker liked: it is never held as a whole.
    loop {
        line.clear();
        let limited = &mut io::Read::take(&mut reader, LONGEST_LINE as u64);
        if !matches!(limited.read_until(b'\n', &mut line), Ok(1..)) {
            return slices.len();
        }
        if let Ok(key) = serde_json::from_slice::<Key>(&line)
            && key.cut_short.is_none()
            && key.stage.is_promised()
        {
            slices.insert((key.stage, key.slice.arm, key.slice.point, key.slice.round));
        }
    }
}

fn optional<T: DeserializeOwned>(dir: &Path, name: &str, damage: &mut Vec<String>) -> Option<T> {
    let text = match document(&dir.join(name)) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return None,
        Err(e) => {
            damage.push(format!("{name} cannot be read: {e}"));
            return None;
        }
    };
    serde_json::from_slice(&text)
        .map_err(|e| damage.push(format!("{name} is damaged: {e}")))
        .ok()
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    Failure::usage(format!("cannot read {}: {error}", path.display()))
        .with_remedy("it is a file of the run, which its owner can read; see its permissions")
}

fn lines<T: DeserializeOwned>(path: &Path, damage: &mut Vec<String>) -> anyhow::Result<Vec<T>> {
    let file = match input::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => bail!(unreadable(path, &e)),
    };
    let name = path
        .file_name()
        .map(|n| n.to_string_lossy().into_owned())
        .unwrap_or_default();
    let mut reader = BufReader::new(file);
    let mut values = Vec::new();
    let mut line = Vec::new();
    let mut damaged = 0;
    for number in 1.. {
        line.clear();
        let limited = &mut io::Read::take(&mut reader, LONGEST_LINE as u64);
        let read = limited
            .read_until(b'\n', &mut line)
            .map_err(|e| unreadable(path, &e))?;
        if read == 0 {
            break;
        }
        match serde_json::from_slice(&line) {
            Ok(value) => values.push(value),
            Err(_) if line.last() != Some(&b'\n') => {
                damage.push(format!(
                    "the last line of {name} was cut short and is left out"
                ));
            }
            Err(e) => {
                damaged += 1;
                if damaged <= NAMED_LINES {
                    damage.push(format!("line {number} of {name} is damaged: {e}"));
                }
            }
        }
    }
    match damaged.saturating_sub(NAMED_LINES) {
        0 => {}
        1 => damage.push(format!("1 more line of {name} is damaged")),
        more => damage.push(format!("{more} more lines of {name} are damaged")),
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a stranger's file is full of is not kept as often as it is there.
    #[test]
    fn many_damaged_lines_are_counted() {
        let name = format!("pgassay-test-lines-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, "\n".repeat(1000) + "7\n").unwrap();
        let mut damage = Vec::new();
        let values: Vec<u32> = lines(&path, &mut damage).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(values, [7]);
        assert_eq!(damage.len(), NAMED_LINES + 1);
        assert!(damage[0].starts_with("line 1 of "), "{}", damage[0]);
        let last = &damage[NAMED_LINES];
        assert!(last.starts_with("980 more lines of "), "{last}");
    }
}

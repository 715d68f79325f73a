//! The runs that there are: listed, found by name, removed.

use pgassay_text::suggestion::did_you_mean;
use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::bail;
use pgassay_model::Failure;
use pgassay_model::run::{RunEnd, RunState};
use serde::Serialize;

use super::read::{count_trials, document, is_running, read_header};

/// One run in the list.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// Trials that were measured, each once, and planned.
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
        Err(e) => bail!(
            Failure::usage(format!("cannot list runs in {}: {e}", root.display()))
                .with_remedy("name a directory that you may read with --runs, or set PGASSAY_RUNS")
        ),
    };
    let mut runs: Vec<Entry> = entries
        .flatten()
        .filter_map(|entry| describe(&entry.path()).ok())
        .collect();
    runs.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(runs)
}

/// The directories below `root` that hold a run, by name; nothing of them is read.
///
/// # Errors
/// Where `root` can't be read.
pub fn directories(root: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(root)?.flatten().map(|entry| entry.path());
    let mut runs: Vec<PathBuf> = entries
        .filter(|dir| dir.join("run.json").is_file())
        .collect();
    runs.sort();
    Ok(runs)
}

/// What the list says of one run.
///
/// # Errors
/// Where the directory is no run.
pub fn describe(dir: &Path) -> anyhow::Result<Entry> {
    let header = match read_header(dir) {
        Ok(header) => header,
        Err(error) => return unwritten(dir).ok_or(error),
    };
    let end: Option<RunEnd> = document(&dir.join("end.json"))
        .ok()
        .and_then(|text| serde_json::from_slice(&text).ok());
    let state = match end {
        _ if is_running(dir) => RunState::Running,
        Some(end) => end.state.into(),
        // No end and nobody at it: it was killed.
        None => RunState::Interrupted,
    };
    let trials = count_trials(&dir.join("trials.jsonl"));
    Ok(Entry {
        trials: (trials, header.experiment.trials()),
        size_bytes: size_of(dir),
        state,
        command: header.command,
        workload: header.experiment.plan().workload.name.clone(),
        targets: header
            .experiment
            .arms
            .into_iter()
            .map(|arm| arm.target)
            .collect(),
        started: header.started,
        id: header.id,
        dir: dir.to_owned(),
    })
}

/// A run that was killed before it wrote what it is: its name says when it began and what it
/// was to measure.
fn unwritten(dir: &Path) -> Option<Entry> {
    if fs::symlink_metadata(dir.join("run.json")).is_ok() || !holds_a_run_only(dir) {
        return None;
    }
    let id = dir.file_name()?.to_str()?;
    let (started, workload) = run_name(id)?;
    Some(Entry {
        id: id.to_owned(),
        command: String::new(),
        workload,
        targets: Vec::new(),
        started,
        state: match is_running(dir) {
            true => RunState::Running,
            false => RunState::Interrupted,
        },
        trials: (0, 0),
        size_bytes: size_of(dir),
        dir: dir.to_owned(),
    })
}

/// Time and workload of a run's name, `20261121T031500Z-select-only-k3f9`.
fn run_name(id: &str) -> Option<(String, String)> {
    let (time, rest) = id.split_once('-')?;
    let (workload, tail) = rest.rsplit_once('-')?;
    let time = jiff::civil::DateTime::strptime("%Y%m%dT%H%M%SZ", time).ok()?;
    (tail.len() == 4 && tail.bytes().all(|b| b.is_ascii_alphanumeric())).then(|| {
        (
            time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            workload.to_owned(),
        )
    })
}

/// Whether a directory holds nothing but what runs consist of: documents, lines, the page, the
/// lock, and the facts.
fn holds_a_run_only(dir: &Path) -> bool {
    foreign_in(dir, true).is_none()
}

/// A name in a run's directory that no run has; one that can't be read is foreign, too.
fn foreign_in(dir: &Path, top: bool) -> Option<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else {
        return Some(dir.to_owned());
    };
    entries.flatten().find_map(|entry| {
        let path = entry.path();
        let name = entry.file_name();
        let ending = path.extension().and_then(|e| e.to_str()).unwrap_or("");
        let kind = entry.file_type().ok();
        let ours = match kind {
            Some(kind) if kind.is_dir() => {
                return match top && name == "facts" {
                    true => foreign_in(&path, false),
                    false => Some(path),
                };
            }
            Some(kind) if kind.is_file() => match top {
                true => {
                    name == "lock"
                        || name == "report.html"
                        || matches!(ending, "json" | "jsonl" | "tmp")
                }
                false => matches!(ending, "json" | "tmp"),
            },
            _ => false,
        };
        (!ours).then_some(path)
    })
}

/// How many runs before the last one a name means: `last`, `previous`, `last~2`.
fn before_last(name: &str) -> Option<usize> {
    match name {
        "last" => Some(0),
        "previous" => Some(1),
        _ => name.strip_prefix("last~")?.parse().ok(),
    }
}

/// The directory of the run that `name` means: a path, a name, a unique prefix, `last`, `previous` or
/// `last~N`.
///
/// # Errors
/// Where there is none, or several, naming them.
pub fn find(root: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let path = Path::new(name);
    if path.join("run.json").is_file() || (path.is_dir() && unwritten(path).is_some()) {
        return Ok(path.to_owned());
    }
    let runs = list(root)?;
    let remedy = "pgassay runs lists what there is";
    if let Some(back) = before_last(name) {
        // One that was killed before it wrote anything is nothing to report.
        let mut known = runs.iter().rev().filter(|run| !run.command.is_empty());
        let Some(found) = known.nth(back) else {
            let recorded = match back {
                0 => "no run is".to_owned(),
                _ => format!("not as many as {} runs are", back + 1),
            };
            bail!(
                Failure::usage(format!("{recorded} recorded in {}", root.display()))
                    .with_remedy("pgassay assay makes one")
            );
        };
        return Ok(found.dir.clone());
    }
    let matching: Vec<&Entry> = runs.iter().filter(|run| run.id.starts_with(name)).collect();
    match matching.as_slice() {
        _ if name.is_empty() => bail!(Failure::usage("a run needs a name").with_remedy(remedy)),
        [one] => Ok(one.dir.clone()),
        [] if name.contains('/') && path.exists() => bail!(
            Failure::usage(format!("{name} is not a run: it has no run.json")).with_remedy(remedy)
        ),
        [] => bail!(
            Failure::usage(format!(
                "no run is named {name}{}",
                did_you_mean(name, runs.iter().map(|run| run.id.as_str()))
            ))
            .with_remedy(remedy)
        ),
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
/// Where it is no run, holds something else, is being measured, or can't be removed.
pub fn remove(dir: &Path) -> anyhow::Result<()> {
    // A damaged header must not keep a run for ever, nor a file of its name condemn a tree.
    let named = dir.file_name().and_then(|name| name.to_str());
    if let Err(error) = read_header(dir)
        && named.and_then(run_name).is_none()
    {
        return Err(error);
    }
    if let Some(foreign) = foreign_in(dir, true) {
        bail!(
            Failure::usage(format!(
                "{} is not removed: {} is not part of a run",
                dir.display(),
                foreign.display()
            ))
            .with_remedy("move it away first, or remove the directory yourself")
        );
    }
    if is_running(dir) {
        bail!(
            Failure::usage(format!("{} is being measured", dir.display()))
                .with_remedy("stop it first, with Ctrl-C where it runs")
        );
    }
    fs::remove_dir_all(dir).map_err(|e| {
        Failure::usage(format!("cannot remove {}: {e}", dir.display()))
            .with_remedy("remove it as the user who owns it")
            .into()
    })
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

#[cfg(test)]
mod tests {
    use super::super::RunWriter;
    use super::*;
    use pgassay_model::FailureKind;
    use pgassay_model::run::{FORMAT, RunHeader};

    struct Dir(PathBuf);

    impl Dir {
        fn new(name: &str) -> Self {
            let name = format!("pgassay-test-catalogue-{name}-{}", std::process::id());
            let dir = std::env::temp_dir().join(name);
            drop(fs::remove_dir_all(&dir));
            fs::create_dir(&dir).unwrap();
            Self(dir)
        }
    }

    impl Drop for Dir {
        fn drop(&mut self) {
            drop(fs::remove_dir_all(&self.0));
        }
    }

    /// Attack, places: a directory of runs that may not be read was called a fault of pgassay (70).
    #[test]
    fn runs_that_cannot_be_listed_are_the_users_to_mend() {
        let root = Dir::new("unreadable");
        let file = root.0.join("file");
        fs::write(&file, "").unwrap();
        for error in [list(&file).map(drop), find(&file, "last").map(drop)] {
            let error = error.unwrap_err();
            let failure: &Failure = error.downcast_ref().expect("a failure with a remedy");
            assert_eq!(failure.kind, FailureKind::Usage);
        }
    }

    /// Attack, run-directories: a FIFO or a device among the files of a run was read without end.
    #[test]
    fn what_is_no_file_is_not_read() {
        let root = Dir::new("device");
        let header = RunHeader {
            format: FORMAT,
            ..RunHeader::default()
        };
        let text = serde_json::to_vec(&header).unwrap();
        fs::write(root.0.join("run.json"), text).unwrap();
        std::os::unix::fs::symlink("/dev/null", root.0.join("end.json")).unwrap();
        let run = crate::rundir::read(&root.0).unwrap();
        assert_eq!(run.damage, ["end.json cannot be read: it is not a file"]);
        std::os::unix::fs::symlink("/dev/null", root.0.join("trials.jsonl")).unwrap();
        let error = crate::rundir::read(&root.0).unwrap_err().to_string();
        assert!(error.contains("it is not a file"), "{error}");
    }

    /// Attack, run-directories: the list of runs read a link to /dev/zero until memory was full.
    #[test]
    fn the_list_reads_files_only() {
        let root = Dir::new("endless");
        let dir = root.0.join("20261121T031500Z-select-only-k3f9");
        fs::create_dir(&dir).unwrap();
        let header = RunHeader {
            format: FORMAT,
            ..RunHeader::default()
        };
        fs::write(dir.join("run.json"), serde_json::to_vec(&header).unwrap()).unwrap();
        let slice = |point: u32, rest: &str| {
            let slice = format!("{{\"index\":0,\"round\":0,\"arm\":0,\"point\":{point}}}");
            format!("{{\"slice\":{slice}{rest}}}\n")
        };
        // One that was tried twice is one, what was cut short, for its own reasons or by a crash, none.
        let cut = slice(2, ",\"cut_short\":\"stopped\"");
        let lines = [
            slice(0, ""),
            slice(1, ""),
            slice(1, ""),
            cut,
            "{".to_owned(),
        ];
        fs::write(dir.join("trials.jsonl"), lines.concat()).unwrap();
        assert_eq!(list(&root.0).unwrap()[0].trials.0, 2);
        for name in ["trials.jsonl", "end.json", "lock"] {
            drop(fs::remove_file(dir.join(name)));
            std::os::unix::fs::symlink("/dev/zero", dir.join(name)).unwrap();
        }
        assert_eq!(list(&root.0).unwrap()[0].trials.0, 0);
    }

    #[test]
    fn runs_are_counted_back_from_the_last() {
        let root = Dir::new("back");
        for minute in 10..13 {
            let dir = root
                .0
                .join(format!("20261121T03{minute}00Z-select-only-k3f9"));
            fs::create_dir(&dir).unwrap();
            let header = RunHeader {
                format: FORMAT,
                id: dir.file_name().unwrap().to_string_lossy().into_owned(),
                command: "run".to_owned(),
                ..RunHeader::default()
            };
            fs::write(dir.join("run.json"), serde_json::to_vec(&header).unwrap()).unwrap();
        }
        let minute = |name: &str| {
            let found = find(&root.0, name).map_err(|error| error.to_string())?;
            Ok::<_, String>(found.file_name().unwrap().to_string_lossy()[11..13].to_owned())
        };
        assert_eq!(minute("last").unwrap(), "12");
        assert_eq!(minute("previous").unwrap(), "11");
        assert_eq!(minute("last~2").unwrap(), "10");
        assert!(
            minute("last~3")
                .unwrap_err()
                .contains("not as many as 4 runs")
        );
        assert!(minute("last~").unwrap_err().contains("no run is named"));
    }

    /// A run directory of somebody else may lead to files of ours.
    #[test]
    fn a_run_with_links_is_not_written() {
        let root = Dir::new("links");
        let header = RunHeader {
            format: FORMAT,
            ..RunHeader::default()
        };
        let precious = root.0.join("precious");
        fs::write(&precious, "precious").unwrap();
        for name in ["trials.jsonl", "run.json", "lock", "report.html", "facts"] {
            let dir = root.0.join(format!("run-{name}"));
            fs::create_dir(&dir).unwrap();
            std::os::unix::fs::symlink(&precious, dir.join(name)).unwrap();
            let error = RunWriter::reopen(&dir, &header).unwrap_err().to_string();
            assert!(
                error.contains("is neither a file nor a directory"),
                "{error}"
            );
        }
        assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
    }

    /// Attack D16: any tree with a file run.json was removed.
    #[test]
    fn what_is_no_run_is_not_removed() {
        let root = Dir::new("foreign");
        let tree = root.0.join("rmx");
        fs::create_dir_all(tree.join("sub")).unwrap();
        fs::write(tree.join("run.json"), "{}").unwrap();
        fs::write(tree.join("sub/precious"), "").unwrap();
        let found = find(&root.0, tree.to_str().unwrap()).unwrap();
        let error = remove(&found).unwrap_err().to_string();
        assert!(error.contains("damaged"), "{error}");
        assert!(tree.join("sub/precious").exists());

        // Nor a run's directory with something in it that is no part of a run.
        let id = "20261121T031500Z-select-only-k3f9";
        let run = root.0.join(id);
        fs::create_dir_all(run.join("facts")).unwrap();
        for file in ["run.json", "lock", "trials.jsonl", "facts/host.json"] {
            fs::write(run.join(file), "{}").unwrap();
        }
        fs::write(run.join("thesis.odt"), "").unwrap();
        let error = remove(&run).unwrap_err().to_string();
        assert!(error.contains("thesis.odt"), "{error}");
        std::os::unix::fs::symlink("/etc", run.join("link.json")).unwrap();
        fs::remove_file(run.join("thesis.odt")).unwrap();
        assert!(remove(&run).is_err());
        fs::remove_file(run.join("link.json")).unwrap();
        // Its header is damaged, but its name and all that it holds are a run's.
        remove(&run).unwrap();
        assert!(!run.exists());
    }

    /// Attack D19: a run that was killed before it wrote run.json was neither listed nor removed.
    #[test]
    fn a_run_that_wrote_nothing_is_listed_and_removed() {
        let root = Dir::new("unwritten");
        let id = "20261121T031500Z-select-only-k3f9";
        let run = root.0.join(id);
        fs::create_dir_all(run.join("facts")).unwrap();
        fs::write(run.join("lock"), "").unwrap();
        fs::write(run.join("trials.jsonl"), "").unwrap();
        // Others' directories are none.
        fs::create_dir(root.0.join("20261121T031500Z-notes")).unwrap();
        fs::create_dir(root.0.join("notes")).unwrap();
        let runs = list(&root.0).unwrap();
        assert_eq!(runs.len(), 1);
        assert_eq!(runs[0].id, id);
        assert_eq!(runs[0].workload, "select-only");
        assert_eq!(runs[0].started, "2026-11-21T03:15:00Z");
        assert_eq!(runs[0].state, RunState::Interrupted);
        assert!(find(&root.0, "last").is_err(), "there is nothing to report");
        let path = run.to_str().unwrap();
        assert_eq!(find(&root.0, path).unwrap(), run);
        remove(&find(&root.0, "20261121T0315").unwrap()).unwrap();
        assert!(!run.exists());
        assert!(root.0.join("notes").exists());
    }
}

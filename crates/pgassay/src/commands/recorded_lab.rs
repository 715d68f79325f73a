//! A lab's directory: what it was to measure, and each stage's recorded run below it.

use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, bail};
use pgassay_analysis::compare;
use pgassay_analysis::counts::Counts;
use pgassay_analysis::host::HostSummary;
use pgassay_analysis::lab::evidence::{CodeCounts, Part};
use pgassay_analysis::lab::legs::Leg;
use pgassay_analysis::lab::plan::Measure;
use pgassay_analysis::lab::report::{Conduct, Made};
use pgassay_analysis::lab::{Evidence, Lab, LabPlan, Shown};
use pgassay_analysis::{analyse, host};
use pgassay_engine::rundir::{self, catalogue};
use pgassay_model::Failure;
use pgassay_sys::input;
use serde::{Deserialize, Serialize};

/// Where a built-in plan is from, in words.
pub const BUILT_IN_WORDS: &str = "built in";
/// Where labs are, below the recorded runs.
const LABS: &str = "labs";
/// What a lab is and how far, in its directory.
pub const RECORD: &str = "lab.json";
/// Larger files are none that a lab writes.
const LARGEST: u64 = 64 << 20;
/// What counting found, in a stage's directory.
pub const COUNTS: &str = "counts.json";
/// What inspecting found, likewise.
pub const CODE: &str = "code.json";

/// A lab as it was begun.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    /// Its directory's name.
    pub id: String,
    /// `built in`, or the plan's file.
    pub from: String,
    /// Start, UTC.
    pub started: String,
    /// Seconds over all calls so far.
    pub seconds: f64,
    /// Which pgassay.
    pub pgassay_version: String,
    /// The plan as it is measured, fitted into the machine.
    pub plan: LabPlan,
    /// What that left out.
    pub left_out: Vec<String>,
    /// The machine.
    pub host: HostSummary,
    /// The machines that the load of clients comes from; none where it is the measuring process.
    #[serde(default)]
    pub load_from: Vec<String>,
    /// What is measured, in this order.
    pub parts: Vec<PartRecord>,
}

/// A part of a stage.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PartRecord {
    /// The stage's id.
    pub stage: String,
    /// The combination of its axes.
    pub leg: Leg,
    /// Its directory below the lab's.
    pub place: String,
    /// The arms that it has.
    pub arms: Vec<String>,
    /// What is launched for each.
    pub targets: Vec<String>,
    /// The command that measures the same by itself.
    pub command: Vec<String>,
    /// How it went.
    pub state: State,
}

/// How a part went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Not yet begun, or interrupted.
    Pending,
    /// Measured.
    Done,
    /// It can't be measured here, and why.
    Impossible(String),
    /// It failed, and why; `--resume` tries again.
    Failed(String),
}

impl Record {
    /// Whether nothing is left to do.
    pub fn is_complete(&self) -> bool {
        let done = |part: &PartRecord| matches!(part.state, State::Done | State::Impossible(_));
        self.parts.iter().all(done)
    }

    /// Where scripts of the plan are: beside its file; none of a built-in one.
    pub fn beside(&self) -> Option<&Path> {
        match self.from.as_str() {
            BUILT_IN_WORDS => None,
            file => Path::new(file).parent(),
        }
    }

    /// Writes it into its directory.
    ///
    /// # Errors
    /// Where it can't be written.
    pub fn write(&self, dir: &Path) -> anyhow::Result<()> {
        let text = pgassay_report::json(self);
        rundir::replace_file(&dir.join(RECORD), text.as_bytes())
    }

    /// What each part showed so far, and the directory of its recorded run.
    ///
    /// # Errors
    /// Where a recorded run can't be read.
    pub fn shown(&self, dir: &Path) -> anyhow::Result<Vec<(Part, Option<String>)>> {
        let each = self.parts.iter().map(|part| {
            let of = self.plan.stage(&part.stage);
            let measure = of.map_or(Measure::Run, |stage| stage.measure);
            let (shown, run) = shown(measure, part, &dir.join(&part.place))?;
            let part = Part {
                stage: part.stage.clone(),
                leg: part.leg.clone(),
                arms: part.arms.clone(),
                shown,
            };
            Ok((part, run))
        });
        each.collect()
    }

    /// What was measured so far, concluded.
    ///
    /// # Errors
    /// Where a recorded run can't be read.
    pub fn conclude(&self, dir: &Path) -> anyhow::Result<Lab> {
        let mut evidence = Evidence {
            host: self.host.clone(),
            parts: Vec::new(),
        };
        let mut made = Vec::new();
        for (part, (shown, run)) in self.parts.iter().zip(self.shown(dir)?) {
            evidence.parts.push(shown);
            made.push(Made {
                command: part.command.clone(),
                run,
            });
        }
        let conduct = Conduct {
            id: self.id.clone(),
            plan: self.from.clone(),
            started: self.started.clone(),
            pgassay_version: self.pgassay_version.clone(),
            seconds: Some(self.seconds),
            complete: self.is_complete(),
        };
        let left_out = self.left_out.clone();
        Ok(Lab::conclude(
            &self.plan, &evidence, &made, left_out, conduct,
        ))
    }
}

/// What a part showed, and the directory of its recorded run.
fn shown(
    measure: Measure,
    part: &PartRecord,
    place: &Path,
) -> anyhow::Result<(Shown, Option<String>)> {
    let why = match &part.state {
        State::Impossible(why) | State::Failed(why) => why.clone(),
        State::Pending => "it was interrupted before anything was measured".to_owned(),
        State::Done => "nothing was recorded".to_owned(),
    };
    let missing = || (Shown::Missing(why.clone()), None);
    Ok(match measure {
        Measure::Compare | Measure::Run => {
            let Some(dir) = run_in(place)? else {
                return Ok(missing());
            };
            let run = rundir::read(&dir)?;
            let place = Some(dir.display().to_string());
            let shown = match measure {
                Measure::Compare => match compare::conclude(&run) {
                    Some(compared) => Shown::Compared(Box::new(compared)),
                    None => Shown::Missing(why),
                },
                _ => Shown::Run(Box::new(analyse(&run))),
            };
            (shown, place)
        }
        Measure::Count => match document::<Counts>(&place.join(COUNTS))? {
            Some(counts) => (Shown::Counted(Box::new(counts)), None),
            None => missing(),
        },
        Measure::Inspect => match document::<Vec<Result<CodeCounts, String>>>(&place.join(CODE))? {
            Some(code) => (Shown::Inspected(code), None),
            None => missing(),
        },
    })
}

/// The newest run in a stage's directory.
///
/// # Errors
/// Where the directory can't be read.
pub fn run_in(place: &Path) -> anyhow::Result<Option<PathBuf>> {
    let runs = catalogue::list(place)?;
    let last = runs.into_iter().rev().find(|run| !run.command.is_empty());
    Ok(last.map(|run| run.dir))
}

fn document<T: for<'de> Deserialize<'de>>(path: &Path) -> anyhow::Result<Option<T>> {
    let text = match input::read(path, LARGEST) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        read => read.with_context(|| path.display().to_string())?,
    };
    let read = serde_json::from_slice(&text);
    Ok(Some(read.with_context(|| path.display().to_string())?))
}

/// A directory for a new lab, and its name.
///
/// # Errors
/// Where it can't be made.
pub fn create(root: &Path, name: &str) -> anyhow::Result<(String, PathBuf)> {
    let labs = root.join(LABS);
    let failed = |error: std::io::Error| {
        Failure::usage(format!("cannot write {}: {error}", labs.display()))
            .with_remedy("name another directory with --runs DIR or $PGASSAY_RUNS")
    };
    fs::create_dir_all(&labs).map_err(failed)?;
    let time: String = rundir::now()
        .chars()
        .filter(|c| c.is_ascii_alphanumeric())
        .take(15)
        .collect();
    for number in 0..1000 {
        let id = match number {
            0 => format!("{time}-{name}"),
            n => format!("{time}-{name}-{n}"),
        };
        let dir = labs.join(&id);
        match fs::create_dir(&dir) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            made => {
                made.map_err(failed)?;
                return Ok((id, dir));
            }
        }
    }
    bail!("a thousand labs were begun in this second");
}

/// The lab that is meant: its directory, name, unique prefix, or `last`.
///
/// # Errors
/// Where there is none, or several.
pub fn find(root: &Path, name: &str) -> anyhow::Result<(PathBuf, Record)> {
    let labs = root.join(LABS);
    let given = Path::new(name);
    let dir = if given.join(RECORD).is_file() {
        given.to_owned()
    } else {
        let mut ids: Vec<String> = fs::read_dir(&labs)
            .into_iter()
            .flatten()
            .flatten()
            .filter(|entry| entry.path().join(RECORD).is_file())
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        ids.sort();
        let remedy = format!("labs are recorded in {}", labs.display());
        if name == "last" {
            match ids.last() {
                Some(id) => labs.join(id),
                None => bail!(Failure::usage("no lab is recorded").with_remedy(remedy)),
            }
        } else {
            ids.retain(|id| !name.is_empty() && id.starts_with(name));
            match ids.as_slice() {
                [one] => labs.join(one),
                [] => bail!(Failure::usage(format!("there is no lab {name}")).with_remedy(remedy)),
                several => bail!(
                    Failure::usage(format!("{name} may be {}", several.join(", ")))
                        .with_remedy("name more of it")
                ),
            }
        }
    };
    let record = read(&dir)?;
    Ok((dir, record))
}

/// The lab in a directory.
///
/// # Errors
/// Where it can't be read, or says that its parts are elsewhere.
pub fn read(dir: &Path) -> anyhow::Result<Record> {
    let path = dir.join(RECORD);
    let none = |why: &str| Failure::usage(format!("{} is no recorded lab: {why}", path.display()));
    let text = input::read(&path, LARGEST).with_context(|| path.display().to_string())?;
    let record: Record = serde_json::from_slice(&text).map_err(|e| none(&e.to_string()))?;
    let is_below = |part: &PartRecord| {
        let names = Path::new(&part.place).components();
        names.into_iter().all(|c| matches!(c, Component::Normal(_)))
    };
    match record.parts.iter().all(is_below) {
        true => Ok(record),
        false => bail!(none("a part lies outside of it")),
    }
}

/// The machine that this is.
pub fn this_machine() -> HostSummary {
    host::summarise(&pgassay_observe::host::facts(None))
}

/// The page of the lab that was recorded in this directory.
///
/// # Errors
/// Where what was recorded can't be read.
pub fn page(dir: &Path) -> anyhow::Result<String> {
    Ok(pgassay_report::html(&read(dir)?.conclude(dir)?))
}

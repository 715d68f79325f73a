//! Going on with a recorded run, and running its plan once more: from what it recorded as its
//! experiment, whatever the load was.

use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::ValueEnum;
use pgassay_engine::rundir::{self, RunWriter, catalogue};
use pgassay_engine::workload;
use pgassay_model::Failure;
use pgassay_model::plan::{Experiment, Stage};
use pgassay_model::record::RecordedRun;
use pgassay_model::run::{EndState, EventKind, RunEnd, RunHeader};

use super::from;
use crate::cli::args::GlobalArgs;
use crate::cli::from::FromList;
use crate::cli::observe::{ObserveArgs, Observer};
use crate::cli::target::TargetArgs;
use crate::session;

/// Whether the run is a new one.
#[derive(Debug)]
pub enum Again {
    /// A new experiment.
    New,
    /// The run in this directory goes on.
    Resume(PathBuf, Box<RecordedRun>),
    /// The experiment of a recorded run is run once more.
    Repeat(Box<RecordedRun>),
}

/// The run that `--resume` names, with its directory.
///
/// # Errors
/// Where there is none, or it can't be read.
pub fn to_resume(root: &Path, name: &str) -> anyhow::Result<(PathBuf, RecordedRun)> {
    let dir = catalogue::find(root, name)?;
    session::refuse_from_elsewhere(&dir)?;
    let run = rundir::read(&dir)?;
    Ok((dir, run))
}

/// Refuses to go on with a run that has ended, and of which nothing is left.
///
/// # Errors
/// That of the refusal.
pub fn refuse_whole(id: &str, end: Option<&RunEnd>, whole: bool) -> anyhow::Result<()> {
    if whole && end.map(|end| end.state) == Some(EndState::Complete) {
        bail!(
            Failure::usage(format!("{id} is complete; nothing is left to do"))
                .with_remedy("pgassay report renders it")
        );
    }
    Ok(())
}

impl Again {
    /// What `--resume` or `--repeat` names.
    ///
    /// # Errors
    /// Where there is no such run, nothing is left of it to do, or it was killed before anything was
    /// planned.
    pub fn find(
        resume: Option<&str>,
        repeat: Option<&str>,
        global: &GlobalArgs,
    ) -> anyhow::Result<Self> {
        let Some(name) = resume.or(repeat) else {
            return Ok(Self::New);
        };
        let dir = catalogue::find(&rundir::root(global.runs.as_deref())?, name)?;
        session::refuse_from_elsewhere(&dir)?;
        let mut run = Box::new(rundir::read(&dir)?);
        for stage in &mut run.header.experiment.stages {
            workload::read_anew(&mut stage.plan.workload);
        }
        let id = &run.header.id;
        if run.plan().points.is_empty() {
            bail!(
                Failure::usage(format!("nothing was planned to be measured in {id}"))
                    .with_remedy("start it anew: pgassay run")
            );
        }
        if resume.is_none() {
            return Ok(Self::Repeat(run));
        }
        refuse_whole(id, run.end.as_ref(), is_whole(&run))?;
        Ok(Self::Resume(dir, run))
    }

    /// What was recorded, where the run is no new one.
    pub fn recorded(&self) -> Option<&RecordedRun> {
        match self {
            Self::New => None,
            Self::Resume(_, run) | Self::Repeat(run) => Some(run),
        }
    }

    /// The experiment that was recorded.
    pub fn experiment(&self) -> Option<&Experiment> {
        self.recorded().map(|run| &run.header.experiment)
    }

    /// The target that was recorded, with what is typed now.
    pub fn target(&self, typed: &TargetArgs) -> TargetArgs {
        let mut target = typed.clone();
        let arms = self.experiment().map(|experiment| &experiment.arms);
        if let Some(arm) = arms.and_then(|arms| arms.first()) {
            target.target = Some(arm.typed.clone()).filter(|typed| !typed.is_empty());
            if target.settings.is_empty() {
                let set = |(name, value): &(String, String)| format!("{name}={value}");
                target.settings = arm.settings.iter().map(set).collect();
            }
            target.confined = arm.confinement.clone().into();
            target.load |= arm.load;
        }
        if target.volume.is_none() {
            let storage = self.recorded().and_then(|run| run.storage.get(&0));
            let named = storage.and_then(|storage| storage.volume.clone());
            // What was found of a control group then is looked for again.
            target.volume = named.filter(|limits| limits.found_in.is_none());
        }
        target
    }

    /// The observers that were asked for then, unless others are now.
    pub fn observe(&self, typed: &ObserveArgs) -> ObserveArgs {
        observe_as(self.experiment(), typed)
    }

    /// The machines that the load came from then, unless others are typed.
    ///
    /// # Errors
    /// Where what was recorded is not to be started by itself.
    pub fn from(&self, typed: Option<&FromList>) -> Result<Option<FromList>, Failure> {
        match self {
            Self::Resume(_, run) => resumed_from(&run.header.experiment, typed),
            _ => from_as(self.experiment(), typed),
        }
    }

    /// The directory of the run: a new one with this header, or the one that goes on, whose header
    /// is then its own.
    ///
    /// # Errors
    /// Where it can't be made, or another process measures it.
    pub fn open(&self, root: &Path, header: &mut RunHeader) -> anyhow::Result<RunWriter> {
        match self {
            Self::New => {}
            // What is repeated is the experiment, and so is the command that repeats it.
            Self::Repeat(run) => header.command_line.clone_from(&run.header.command_line),
            Self::Resume(dir, run) => {
                *header = run.header.clone();
                let mut writer = RunWriter::reopen(dir, header)?;
                writer.append_event(EventKind::Resumed)?;
                return Ok(writer);
            }
        }
        RunWriter::create(root, header)
    }
}

/// The observers that an experiment was to have, unless others are typed.
pub fn observe_as(recorded: Option<&Experiment>, typed: &ObserveArgs) -> ObserveArgs {
    match recorded {
        Some(experiment) if typed.observe.is_empty() => {
            let names = experiment.observe.iter();
            ObserveArgs {
                observe: names
                    .filter_map(|name| Observer::from_str(name, false).ok())
                    .collect(),
            }
        }
        _ => typed.clone(),
    }
}

/// The machines that the load of an experiment goes on from: what one machine does and what several do are two loads,
/// and a run has one of them.
///
/// # Errors
/// Where others are typed, or what was recorded is not to be started by itself.
pub fn resumed_from(
    experiment: &Experiment,
    typed: Option<&FromList>,
) -> Result<Option<FromList>, Failure> {
    if let Some(typed) = typed
        && from::names(typed) != experiment.from
    {
        let before = match experiment.from.as_slice() {
            [] => "this machine alone".to_owned(),
            names => names.join(","),
        };
        return Err(Failure::usage(format!(
            "the load of this run came from {before}, and goes on from there"
        ))
        .with_remedy("name the same machines with --from, or begin a new run"));
    }
    from_as(Some(experiment), typed)
}

/// The machines that the load of an experiment came from, unless others are typed; none where it was the
/// measuring process alone.
///
/// # Errors
/// Where what was recorded is not to be started by itself.
pub fn from_as(
    recorded: Option<&Experiment>,
    typed: Option<&FromList>,
) -> Result<Option<FromList>, Failure> {
    match (typed, recorded) {
        (Some(typed), _) => Ok(Some(typed.clone())),
        (None, Some(experiment)) if !experiment.from.is_empty() => {
            FromList::recorded(&experiment.from).map(Some)
        }
        (None, _) => Ok(None),
    }
}

/// Whether all that was promised was measured.
fn is_whole(run: &RecordedRun) -> bool {
    let arms = run.header.experiment.arms.len();
    let stages = run.header.experiment.stages.iter();
    let whole = |stage: &Stage| {
        let measured = run.measured(stage.id);
        let mut slices = stage.schedule(arms).into_iter();
        slices.all(|slice| measured.contains(&slice.index))
    };
    stages.filter(|stage| stage.id.is_promised()).all(whole)
}

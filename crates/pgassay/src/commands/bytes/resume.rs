//! `pgassay run --resume` of pgio and scattered-read: the plan as recorded, the trials that are
//! missing, on a server made anew.

use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Parser;
use pgassay_analysis::record::{EndState, EventKind, RecordedRun};

use crate::cli::Args;
use crate::cli::args::{Command, GlobalArgs, RunArgs};
use pgassay_engine::rundir::{self, RunWriter, catalogue};
use pgassay_engine::workload::{pgio, scattered_read};
use pgassay_model::Failure;

/// A run that was interrupted or killed.
pub struct Interrupted {
    dir: PathBuf,
    /// What it recorded.
    pub run: RecordedRun,
    /// What was typed when it began, but for what says how its results are shown.
    pub args: RunArgs,
}

impl Interrupted {
    /// The run that `--resume` names; none where it is one of another kind.
    ///
    /// # Errors
    /// Where there is no such run, it is complete, or it was killed before its plan was written.
    pub fn find(args: &RunArgs, global: &GlobalArgs) -> anyhow::Result<Option<Self>> {
        let Some(name) = &args.resume else {
            return Ok(None);
        };
        let dir = catalogue::find(&rundir::root(global.runs.as_deref())?, name)?;
        let run = rundir::read(&dir)?;
        let header = &run.header;
        let planned = match header.plan.workload.name.as_str() {
            pgio::NAME => run.pgio_plan.is_some(),
            scattered_read::NAME => run.scattered_plan.is_some(),
            _ => return Ok(None),
        };
        if run
            .end
            .as_ref()
            .is_some_and(|end| end.state == EndState::Complete)
        {
            bail!(
                Failure::usage(format!("{} is complete; nothing is left to do", header.id))
                    .with_remedy("pgassay report renders it")
            );
        }
        if !planned {
            bail!(
                Failure::usage(format!(
                    "{} was killed before anything was planned",
                    header.id
                ))
                .with_remedy("start it anew: pgassay run")
            );
        }
        let typed = Args::try_parse_from(&header.command_line)
            .with_context(|| format!("the command line that {} recorded", header.id))?;
        let Command::Run(mut typed) = typed.command else {
            bail!("{} was not recorded by pgassay run", header.id);
        };
        typed.json = args.json;
        typed.target.scratch.clone_from(&args.target.scratch);
        typed.target.stand_in |= args.target.stand_in;
        Ok(Some(Self {
            dir,
            run,
            args: *typed,
        }))
    }

    /// The run directory, to be gone on with.
    pub fn reopen(&self) -> anyhow::Result<RunWriter> {
        let mut writer = RunWriter::reopen(&self.dir, &self.run.header)?;
        writer.append_event(EventKind::Resumed)?;
        Ok(writer)
    }
}

//! Which part of a recorded run is analysed.

use pgassay_model::plan::{Arm, Plan, Stage};
use pgassay_model::stage::StageId;
use pgassay_model::trial::Trial;

use pgassay_model::record::RecordedRun;

/// A run, or of a comparison the rounds and servers that were compared.
pub(crate) struct Scope<'r> {
    /// What was recorded.
    pub run: &'r RecordedRun,
    /// How many of its servers, the first ones.
    pub arms: usize,
    /// Whether a trial of this round belongs to it.
    pub keeps: &'r dyn Fn(u32) -> bool,
    /// Trials of each point of the run's own load that belong to it; `None` for those of its plan.
    pub trials: Option<u32>,
    /// Whether the servers' counters over the whole run are those of these trials.
    pub counters: bool,
}

impl<'r> Scope<'r> {
    /// All of a run.
    pub fn whole(run: &'r RecordedRun) -> Self {
        Self {
            run,
            arms: run.header.experiment.arms.len(),
            keeps: &|_| true,
            trials: None,
            counters: true,
        }
    }

    /// The servers, with their index.
    pub fn arms(&self) -> impl Iterator<Item = (u32, &'r Arm)> + use<'r> {
        (0u32..).zip(self.run.header.experiment.arms.iter().take(self.arms))
    }

    /// The plan of a stage, with the trials that belong to this part.
    pub fn plan(&self, stage: &Stage) -> Plan {
        let mut plan = stage.plan.clone();
        if let (Some(trials), true) = (self.trials, stage.id == self.run.main_stage()) {
            plan.trials = trials;
        }
        plan
    }

    /// All trials, in the order in which they ran.
    pub fn trials(&self) -> impl Iterator<Item = &'r Trial> {
        let trials = self.run.trials.iter();
        trials.filter(|t| (t.slice.arm as usize) < self.arms && (self.keeps)(t.slice.round))
    }

    /// Those of a stage.
    pub fn trials_of(&self, stage: StageId) -> impl Iterator<Item = &'r Trial> {
        self.trials().filter(move |trial| trial.stage == stage)
    }

    /// Those of a stage on one server.
    pub fn trials_on(&self, stage: StageId, arm: u32) -> impl Iterator<Item = &'r Trial> {
        let of_stage = self.trials_of(stage);
        of_stage.filter(move |trial| trial.slice.arm == arm)
    }

    /// How many trials were promised in all.
    pub fn planned(&self) -> usize {
        let stages = self.run.header.experiment.stages.iter();
        let promised = stages.filter(|stage| stage.id.is_promised());
        let each = |stage: &Stage| {
            let trials = self.trials.filter(|_| stage.id == self.run.main_stage());
            self.arms * stage.plan.points.len() * trials.unwrap_or(stage.plan.trials) as usize
        };
        promised.map(each).sum()
    }
}

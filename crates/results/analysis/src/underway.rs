//! A run while it is measured: what its trials so far show, each added as it comes.
//!
//! It is for looking on. What a run shows when it is complete is its [`crate::analyse()`]: this takes
//! throughput and disturbance alone, at a cost that does not grow with the trials before.

use std::collections::BTreeMap;

use pgassay_model::live::Moment;
use pgassay_model::plan::Stage;
use pgassay_model::point::Point;
use pgassay_model::run::{Event, EventKind, RunHeader};
use pgassay_model::stage::StageId;
use pgassay_model::trial::Trial;

use crate::stats::{Estimate, estimate};
use crate::trial_view::{Server, TrialView};
use crate::within::Within;

/// Trials of which the disturbance is kept.
const RECENT: usize = 60;
/// Steps of a narrowing estimate.
const MOST_STEPS: usize = 40;
/// What passes between two trials beside their load, in seconds.
const BETWEEN: f64 = 0.06;

/// The trials so far of a run.
#[derive(Debug)]
pub struct Underway {
    run: RunHeader,
    values: BTreeMap<Place, Vec<f64>>,
    recent: Vec<Seen>,
    last: Option<(Place, f64)>,
    cut_short: usize,
    within: Within,
    pause: Pause,
}

/// Whether a run waits between two trials.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Pause {
    /// It does not.
    #[default]
    No,
    /// It will when its trial is over.
    Asked,
    /// It does.
    Since {
        /// UTC, RFC 3339.
        at: String,
        /// When it goes on by itself, in seconds from then.
        at_most_seconds: u64,
    },
}

/// Where a trial belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Which of the run's stages.
    pub stage: StageId,
    /// Index of its server.
    pub arm: u32,
    /// Index of its point.
    pub point: u32,
}

/// What disturbed a trial, as shares of the machine's CPU time, 0 to 1; `None` where it was not seen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Seen {
    /// Its number, from 1.
    pub trial: usize,
    /// What neither server nor load used, and was busy.
    pub others: Option<f64>,
    /// What the hypervisor gave to others.
    pub steal: Option<f64>,
}

/// What is known of a run that is measured.
#[derive(Debug)]
pub struct SoFar<'u> {
    /// Which run it is, and what it is to measure.
    pub run: &'u RunHeader,
    /// Trials that were measured, and planned, beside those that are not promised.
    pub trials: (usize, usize),
    /// Seconds that the planned trials still take by their plan.
    pub left_seconds: f64,
    /// The stages that have a trial, in the run's order, with the servers of each.
    pub stages: Vec<StageSoFar<'u>>,
    /// The newest trial: where, and its units of work a second.
    pub last: Option<(Place, f64)>,
    /// How the newest trials were disturbed, oldest first.
    pub recent: &'u [Seen],
    /// Trials that ended before their time.
    pub cut_short: usize,
    /// The trial that runs, and the last seconds.
    pub within: &'u Within,
    /// Whether it waits.
    pub pause: &'u Pause,
}

/// A stage so far.
#[derive(Debug)]
pub struct StageSoFar<'u> {
    /// Its plan.
    pub stage: &'u Stage,
    /// For each server its label and its points.
    pub arms: Vec<(&'u str, Vec<PointSoFar<'u>>)>,
}

/// A point so far.
#[derive(Debug)]
pub struct PointSoFar<'u> {
    /// Clients and threads.
    pub point: Point,
    /// Units of work a second over its trials.
    pub rate: Estimate,
    /// The same of each trial, in the order in which they ran.
    pub trials: &'u [f64],
}

impl Underway {
    /// No trial yet.
    pub fn new(run: RunHeader) -> Self {
        Self {
            run,
            values: BTreeMap::new(),
            recent: Vec::new(),
            last: None,
            cut_short: 0,
            within: Within::default(),
            pause: Pause::No,
        }
    }

    /// What it is to measure was decided on later.
    pub fn plan(&mut self, run: RunHeader) {
        self.run = run;
    }

    /// What is told of the trial that runs.
    pub fn told(&mut self, moment: Moment) {
        self.within.add(moment);
    }

    /// What happened beside the trials.
    pub fn happened(&mut self, event: &Event) {
        match event.what {
            EventKind::Paused { at_most_seconds } => {
                self.pause = Pause::Since {
                    at: event.at.clone(),
                    at_most_seconds,
                }
            }
            EventKind::Unpaused { .. } | EventKind::Resumed => self.pause = Pause::No,
            _ => {}
        }
    }

    /// Whether a pause is asked for that has not begun.
    pub fn asked_to_pause(&mut self, asked: bool) {
        self.pause = match (asked, std::mem::take(&mut self.pause)) {
            (true, Pause::No) => Pause::Asked,
            (false, Pause::Asked) => Pause::No,
            (_, pause) => pause,
        };
    }

    /// A further trial.
    pub fn add(&mut self, trial: &Trial) {
        if !trial.counts() {
            self.cut_short += 1;
            return;
        }
        let view = TrialView::of(trial, Server::default());
        let place = Place {
            stage: trial.stage,
            arm: trial.slice.arm,
            point: trial.slice.point,
        };
        let rate = view.rate();
        self.values.entry(place).or_default().push(rate);
        self.last = Some((place, rate));
        let disturbed = view.disturbed();
        if self.recent.len() == RECENT {
            self.recent.remove(0);
        }
        self.recent.push(Seen {
            trial: self.recent.last().map_or(1, |seen| seen.trial + 1),
            others: disturbed.and_then(|disturbed| disturbed.others),
            steal: disturbed.and_then(|disturbed| disturbed.steal),
        });
    }

    /// What they show.
    pub fn so_far(&self) -> SoFar<'_> {
        let experiment = &self.run.experiment;
        let arms = experiment.arms.len();
        let done = |stage: &Stage| -> usize {
            let of_stage = self
                .values
                .iter()
                .filter(|(place, _)| place.stage == stage.id);
            let measured: usize = of_stage.map(|(_, values)| values.len()).sum();
            measured.min(stage.trials(arms))
        };
        let promised = experiment.stages.iter().filter(|s| s.id.is_promised());
        let left_seconds = promised.clone().map(|stage| {
            let left = stage.trials(arms) - done(stage);
            let plan = &stage.plan;
            left as f64 * ((plan.warmup_ms + plan.window_ms) as f64 / 1000.0 + BETWEEN)
        });
        SoFar {
            run: &self.run,
            trials: (promised.clone().map(done).sum(), experiment.trials()),
            left_seconds: left_seconds.sum(),
            stages: experiment
                .stages
                .iter()
                .filter_map(|s| self.stage(s))
                .collect(),
            last: self.last,
            recent: &self.recent,
            cut_short: self.cut_short,
            within: &self.within,
            pause: &self.pause,
        }
    }

    fn stage<'u>(&'u self, stage: &'u Stage) -> Option<StageSoFar<'u>> {
        let arms = self.run.experiment.arms.iter().enumerate();
        let arms = arms.filter_map(|(index, arm)| {
            let points = stage.plan.points.iter().enumerate();
            let points = points.filter_map(|(at, point)| {
                let place = Place {
                    stage: stage.id,
                    arm: index as u32,
                    point: at as u32,
                };
                let trials = self.values.get(&place)?;
                Some(PointSoFar {
                    point: *point,
                    rate: estimate::summarize_positive(trials)?,
                    trials,
                })
            });
            let points: Vec<PointSoFar> = points.collect();
            (!points.is_empty()).then_some((arm.label.as_str(), points))
        });
        let arms: Vec<_> = arms.collect();
        (!arms.is_empty()).then_some(StageSoFar { stage, arms })
    }
}

impl SoFar<'_> {
    /// The newest trial's stage and point, where they are of the plan.
    pub fn newest(&self) -> Option<(&StageSoFar<'_>, &PointSoFar<'_>)> {
        let (place, _) = self.last?;
        let stage = self.stages.iter().find(|s| s.stage.id == place.stage)?;
        let label = &self.run.experiment.arms.get(place.arm as usize)?.label;
        let (_, points) = stage.arms.iter().find(|(of, _)| of == label)?;
        let wanted = stage.stage.plan.points.get(place.point as usize)?;
        let point = points.iter().find(|point| point.point == *wanted)?;
        Some((stage, point))
    }
}

impl PointSoFar<'_> {
    /// The estimate after 1, 2, 3 … trials; of many, evenly thinned out, with the newest.
    pub fn narrowing(&self) -> Vec<Estimate> {
        let all = self.trials.len();
        let each = all.div_ceil(MOST_STEPS).max(1);
        let steps = (1..=all).filter(|n| (all - n).is_multiple_of(each));
        let parts = steps.map(|n| &self.trials[..n]);
        parts.filter_map(estimate::summarize_positive).collect()
    }
}

#[cfg(test)]
mod tests {
    use pgassay_model::plan::{Arm, Experiment, Plan};
    use pgassay_model::point::Slice;
    use pgassay_model::workload::WorkloadPlan;

    use super::*;

    fn header() -> RunHeader {
        let point = |clients| Point {
            clients,
            threads: 1,
            variant: 0,
        };
        let plan = Plan {
            workload: WorkloadPlan {
                name: "select-only".to_owned(),
                ..WorkloadPlan::default()
            },
            points: vec![point(1), point(4)],
            trials: 3,
            warmup_ms: 440,
            window_ms: 500,
            seed: 1,
            disturbed_above: None,
        };
        let arm = Arm {
            label: "temp".to_owned(),
            ..Arm::default()
        };
        RunHeader {
            experiment: Experiment::single(vec![arm], Stage::wire(StageId::Load, plan)),
            ..RunHeader::default()
        }
    }

    fn trial(point: u32, round: u32, transactions: u64) -> Trial {
        Trial {
            slice: Slice {
                index: round * 2 + point,
                round,
                point,
                arm: 0,
            },
            window_ns: 500_000_000,
            transactions,
            ..Trial::default()
        }
    }

    #[test]
    fn estimates_narrow_trial_by_trial() {
        let mut underway = Underway::new(header());
        let empty = underway.so_far();
        assert_eq!(empty.trials, (0, 6));
        assert!((empty.left_seconds - 6.0).abs() < 1e-9);
        assert!(empty.stages.is_empty() && empty.newest().is_none());
        for (round, count) in [1000, 1100, 1050].into_iter().enumerate() {
            underway.add(&trial(1, round as u32, count));
        }
        // One that ended before its time is counted apart.
        underway.add(&Trial {
            cut_short: Some("Ctrl-C".to_owned()),
            ..trial(0, 0, 10)
        });
        // A place that no plan has, as in a damaged file, is no reason to fail.
        underway.add(&trial(77, 0, 5));
        let so_far = underway.so_far();
        assert_eq!((so_far.trials, so_far.cut_short), ((4, 6), 1));
        let [stage] = so_far.stages.as_slice() else {
            panic!("{:?}", so_far.stages);
        };
        let [(label, points)] = stage.arms.as_slice() else {
            panic!("{stage:?}");
        };
        assert_eq!(*label, "temp");
        let [point] = points.as_slice() else {
            panic!("{points:?}");
        };
        assert_eq!(
            (point.point.clients, point.trials),
            (4, &[2000.0, 2200.0, 2100.0][..])
        );
        assert!(point.rate.holds(2100.0));
        let ns: Vec<usize> = point.narrowing().iter().map(|e| e.n).collect();
        assert_eq!(ns, [1, 2, 3]);
        assert!(so_far.newest().is_none(), "the newest is of no plan");
        assert_eq!(so_far.recent.len(), 4);
        assert!(so_far.recent.iter().all(|seen| seen.others.is_none()));
    }

    #[test]
    fn a_pause_is_asked_for_begins_and_ends() {
        let mut underway = Underway::new(header());
        let event = |what| Event {
            at: "2026-11-23T05:00:00.000Z".to_owned(),
            what,
        };
        underway.asked_to_pause(true);
        assert_eq!(*underway.so_far().pause, Pause::Asked);
        underway.happened(&event(EventKind::Paused {
            at_most_seconds: 60,
        }));
        underway.asked_to_pause(true);
        let since = Pause::Since {
            at: "2026-11-23T05:00:00.000Z".to_owned(),
            at_most_seconds: 60,
        };
        assert_eq!(*underway.so_far().pause, since);
        // The file goes first, and the event tells that it goes on.
        underway.asked_to_pause(false);
        assert_eq!(*underway.so_far().pause, since);
        underway.happened(&event(EventKind::Unpaused { seconds: 3.0 }));
        assert_eq!(*underway.so_far().pause, Pause::No);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut underway = Underway::new(header());
        for round in 0..500 {
            underway.add(&trial(0, round, 100));
        }
        let so_far = underway.so_far();
        assert_eq!(so_far.recent.len(), RECENT);
        let steps = so_far.stages[0].arms[0].1[0].narrowing();
        assert!(steps.len() <= MOST_STEPS && steps.last().is_some_and(|e| e.n == 500));
        assert_eq!(so_far.recent.last().map(|seen| seen.trial), Some(500));
        assert_eq!(so_far.trials, (6, 6), "no more than were planned");
        let (stage, point) = so_far.newest().unwrap();
        assert_eq!((stage.stage.id, point.point.clients), (StageId::Load, 1));
    }
}

//! What is to be measured: arms × points × trials, and in which order.
//!
//! The plan is decided before the first measurement and recorded with the run.
//! An assay has one arm; a comparison has two or more. Every trial is a short
//! slice of load on one arm at one point, and the order of the slices is drawn
//! from the recorded seed, so that drift of the machine falls on all alike
//! (rules 1 and 2 of the project's statistics).

use std::sync::LazyLock;

use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::pgio::PgioPlan;
use crate::primitives::PrimitivesPlan;
use crate::scattered::ScatteredPlan;
use crate::trial::StageId;

/// A whole experiment: servers, and the stages in which each of them is measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Experiment {
    /// What is measured: one server for an assay, several for a comparison.
    pub arms: Vec<Arm>,
    /// In which stages, the run's own load first; none until it is known what there is to measure.
    pub stages: Vec<Stage>,
    /// The observers that were asked for by name; empty for the usual ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub observe: Vec<String>,
}

/// One kind of load, over its points.
#[derive(Debug, Clone, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Stage {
    /// By which its trials know it.
    pub id: StageId,
    /// What runs its trials.
    #[serde(default)]
    pub driver: DriverConfig,
    /// Its points, trials and windows.
    #[serde(flatten)]
    pub plan: Plan,
}

/// What runs the trials of a stage, and what it is to do beyond its plan.
#[derive(Debug, Clone, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DriverConfig {
    /// Scripts over the wire, by the load engine.
    #[default]
    Wire,
    /// Nothing: the server is watched under its own load.
    OwnLoad,
    /// The same scripts against a peer that answers at once.
    Ceiling,
    /// Sessions that call primitives inside the server.
    InServer(Box<PrimitivesPlan>),
    /// One statement in several ways.
    QueryWays {
        /// Whether instructions are counted as well.
        instructions: bool,
    },
    /// PGIO's workload.
    Pgio(PgioPlan),
    /// Reads of scattered blocks.
    ScatteredRead(ScatteredPlan),
}

/// The points of a stage, how often and how long each is measured.
#[derive(Debug, Clone, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Plan {
    /// What the clients do; of other loads its name alone.
    pub workload: WorkloadPlan,
    /// Under which concurrency.
    pub points: Vec<Point>,
    /// Trials of each arm at each point.
    pub trials: u32,
    /// Load before the window of a trial that is not counted, in milliseconds.
    pub warmup_ms: u64,
    /// The counted window of a trial, in milliseconds.
    pub window_ms: u64,
    /// Seed of the schedule and of the clients' random numbers.
    pub seed: u64,
    /// Trials in which programs other than server and client, and the hypervisor's other guests, took more
    /// than this share of all CPU time do not count; none where all do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disturbed_above: Option<f64>,
}

/// The workload of a plan, enough to run it again without the files that it came from.
#[derive(Debug, Clone, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct WorkloadPlan {
    /// Its registered name, such as `select-only`, or the scripts' names joined.
    pub name: String,
    /// pgbench's scale: 100,000 accounts each.
    pub scale: u32,
    /// pgbench's protocol mode: `simple`, `extended` or `prepared`.
    pub protocol: String,
    /// What the clients run; empty in old runs, where the name says it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scripts: Vec<ScriptPlan>,
    /// Whether it changes the tables.
    #[serde(default)]
    pub writes: bool,
    /// Whether it runs without pgbench's tables.
    #[serde(default)]
    pub without_pgbench_tables: bool,
    /// Statements that make what it needs besides, in our schema; `:scale` stands for the scale.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub setup: Vec<String>,
    /// Statements before each trial of a writing workload, on servers that we launched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settle: Vec<String>,
    /// A question whose answer is true as long as no transaction was lost or half done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<String>,
    /// Connections that are open beside the load and do nothing.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub idle: u32,
    /// How the clients behave.
    #[serde(default, skip_serializing_if = "Dials::are_default")]
    pub dials: Dials,
    /// How pgbench's tables are made.
    #[serde(default, skip_serializing_if = "Tables::are_default")]
    pub tables: Tables,
}

/// One script of a workload.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct ScriptPlan {
    /// Its name: the file's, or the built-in's.
    pub name: String,
    /// Its share among the workload's scripts.
    pub weight: u32,
    /// Its text, as it was when the run began.
    pub text: String,
}

/// How clients behave, where it is not the default.
#[derive(Debug, Clone, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(default)]
pub struct Dials {
    /// Transactions meant to start a second over all clients; `None` is a closed loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_tps: Option<f64>,
    /// Starts that are later than this are left out, transactions that take longer are late.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_limit_ms: Option<f64>,
    /// How often a transaction is tried after serialization failures and deadlocks; 0 is without
    /// limit, `None` once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tries: Option<u32>,
    /// A connection for each transaction.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub reconnect: bool,
    /// Latency of each statement.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub per_statement: bool,
    /// Variables that scripts find set, as texts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub define: Vec<(String, String)>,
    /// CPUs that the load threads are kept on; the launched server has the others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub client_cpus: Vec<usize>,
}

/// How pgbench's tables are made, where it is not the default: what `pgbench -i` has options for.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(default)]
pub struct Tables {
    /// Percent; `None` is 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fillfactor: Option<u32>,
    /// Partitions of pgbench_accounts; 0 is an ordinary table.
    #[serde(skip_serializing_if = "is_zero")]
    pub partitions: u32,
    /// `range`, as is `None`, or `hash`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition_method: Option<String>,
    /// Without WAL.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unlogged: bool,
    /// With foreign keys between them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub foreign_keys: bool,
    /// Of the tables.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tablespace: Option<String>,
    /// Of the primary keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index_tablespace: Option<String>,
}

impl Tables {
    fn are_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Dials {
    fn are_default(&self) -> bool {
        *self == Self::default()
    }
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// One server under measurement.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Arm {
    /// Short name in tables: `A`, `B`, or the target itself.
    pub label: String,
    /// The server in words.
    pub target: String,
    /// The target as typed, without passwords; empty where none was.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub typed: String,
    /// Load on this running server was allowed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub load: bool,
    /// Settings asked for by `--set`, in the order given.
    pub settings: Vec<(String, String)>,
}

/// One concurrency at which every arm is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
pub struct Point {
    /// Connections that carry load at once.
    pub clients: u32,
    /// Threads of pgassay that drive them.
    pub threads: u32,
    /// Which of the load's variants, where it has several: a way of using a primitive, or of reading.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub variant: u32,
}

/// One trial of the schedule.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    JsonSchema,
    Serialize,
    Deserialize,
)]
pub struct Slice {
    /// Position in the schedule, from 0.
    pub index: u32,
    /// Which trial of its arm and point this is, from 0.
    pub round: u32,
    /// Index into [`Experiment::arms`].
    pub arm: u32,
    /// Index into [`Plan::points`].
    pub point: u32,
}

impl Experiment {
    /// Of one stage.
    pub fn single(arms: Vec<Arm>, stage: Stage) -> Self {
        Self {
            arms,
            stages: vec![stage],
            observe: Vec::new(),
        }
    }

    /// A stage, where the experiment has it.
    pub fn stage(&self, id: StageId) -> Option<&Stage> {
        self.stages.iter().find(|stage| stage.id == id)
    }

    /// The plan of the first stage, the run's own load; an empty one until it is known.
    pub fn plan(&self) -> &Plan {
        static UNKNOWN: LazyLock<Plan> = LazyLock::new(Plan::default);
        self.stages.first().map_or(&UNKNOWN, |stage| &stage.plan)
    }

    /// The same, to be changed.
    pub fn plan_mut(&mut self) -> Option<&mut Plan> {
        self.stages.first_mut().map(|stage| &mut stage.plan)
    }

    /// The trials that are planned in all, but for those beside the load that are not sure to be had.
    pub fn trials(&self) -> usize {
        let planned = self.stages.iter().filter(|stage| stage.id.is_promised());
        planned.map(|stage| stage.trials(self.arms.len())).sum()
    }
}

impl Stage {
    /// Scripts over the wire.
    pub fn wire(id: StageId, plan: Plan) -> Self {
        Self {
            id,
            driver: DriverConfig::Wire,
            plan,
        }
    }

    /// The slices in the order in which they run.
    pub fn schedule(&self, arms: usize) -> Vec<Slice> {
        let (groups, order) = self.groups();
        schedule(self.plan.seed, arms, &groups, self.plan.trials, order)
    }

    /// A round beyond the planned ones, from 0.
    pub fn further_round(&self, arms: usize, further: u32) -> Vec<Slice> {
        let (groups, _) = self.groups();
        further_round(self.plan.seed, arms, &groups, self.plan.trials, further)
    }

    /// How many trials there are in all.
    pub fn trials(&self, arms: usize) -> usize {
        arms * self.plan.points.len() * self.plan.trials as usize
    }

    /// Each point's group, and how groups follow each other.
    fn groups(&self) -> (Vec<u32>, Order) {
        let points = &self.plan.points;
        let each = || (0..points.len() as u32).collect();
        let by = |groups: Vec<u32>| {
            let group = |point: &Point| groups.get(point.variant as usize).copied().unwrap_or(0);
            points.iter().map(group).collect()
        };
        match &self.driver {
            DriverConfig::Wire | DriverConfig::OwnLoad | DriverConfig::Pgio(_) => {
                (vec![0; points.len()], Order::Rounds)
            }
            DriverConfig::Ceiling => (each(), Order::GroupByGroup),
            DriverConfig::QueryWays { .. } => (each(), Order::BackAndForth),
            DriverConfig::InServer(plan) => (by(plan.groups()), Order::BackAndForth),
            DriverConfig::ScatteredRead(plan) => (by(plan.groups()), Order::GroupByGroup),
        }
    }
}

impl Plan {
    /// Seconds that the load of all slices takes on one server, without what lies between.
    pub fn load_seconds(&self) -> f64 {
        let slices = self.points.len() * self.trials as usize;
        slices as f64 * (self.warmup_ms + self.window_ms) as f64 / 1000.0
    }

    /// The largest number of clients of any point; 0 without points.
    pub fn max_clients(&self) -> u32 {
        self.points.iter().map(|p| p.clients).max().unwrap_or(0)
    }
}

/// How the points of a schedule follow each other. Points of one group are such as are better
/// measured together, as they need the same server or the same sessions beside them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// Each round visits every point once, in random order, at each point every arm once in random
    /// order: the trials that are compared with each other lie next to each other in time.
    Rounds,
    /// Within a round group by group; every other round from the last to the first, so that a group
    /// is prepared half as often, and drift falls on all alike.
    BackAndForth,
    /// All rounds of a group before those of the next.
    GroupByGroup,
}

/// The slices of a stage in the order in which they run; `groups` has a point's group each.
fn schedule(seed: u64, arms: usize, groups: &[u32], trials: u32, order: Order) -> Vec<Slice> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let all: Vec<u32> = (0..groups.len() as u32).collect();
    let mut arms: Vec<u32> = (0..arms as u32).collect();
    let mut slices = Vec::new();
    match order {
        Order::GroupByGroup => {
            let mut seen = Vec::new();
            for group in groups {
                if seen.contains(group) {
                    continue;
                }
                seen.push(*group);
                let of_group = |point: &u32| groups[*point as usize] == *group;
                let mut points: Vec<u32> = all.iter().copied().filter(of_group).collect();
                for round in 0..trials {
                    points.shuffle(&mut rng);
                    add_round(&mut slices, round, &points, &mut arms, &mut rng);
                }
            }
        }
        Order::Rounds | Order::BackAndForth => {
            let mut points = all;
            for round in 0..trials {
                points.shuffle(&mut rng);
                let mut now = points.clone();
                if order == Order::BackAndForth {
                    now.sort_by_key(|point| groups[*point as usize]);
                    if round % 2 == 1 {
                        now.reverse();
                    }
                }
                add_round(&mut slices, round, &now, &mut arms, &mut rng);
            }
        }
    }
    slices
}

/// A round beyond those of a schedule, from 0, with every point once, group by group.
fn further_round(seed: u64, arms: usize, groups: &[u32], trials: u32, further: u32) -> Vec<Slice> {
    let stream = (u64::from(further) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed ^ stream);
    let mut points: Vec<u32> = (0..groups.len() as u32).collect();
    points.shuffle(&mut rng);
    points.sort_by_key(|point| groups[*point as usize]);
    let round = trials.saturating_add(further);
    let before = (groups.len() * arms) as u32 * round;
    let mut arms: Vec<u32> = (0..arms as u32).collect();
    let mut slices = Vec::new();
    add_round(&mut slices, round, &points, &mut arms, &mut rng);
    for slice in &mut slices {
        slice.index += before;
    }
    slices
}

fn add_round(
    slices: &mut Vec<Slice>,
    round: u32,
    points: &[u32],
    arms: &mut [u32],
    rng: &mut Xoshiro256PlusPlus,
) {
    for &point in points {
        arms.shuffle(rng);
        for &arm in &*arms {
            let index = slices.len() as u32;
            slices.push(Slice {
                index,
                round,
                arm,
                point,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn stage(points: usize, trials: u32, seed: u64) -> Stage {
        let plan = Plan {
            points: (0..points)
                .map(|i| Point {
                    clients: 1 << i,
                    threads: 1,
                    variant: 0,
                })
                .collect(),
            trials,
            warmup_ms: 100,
            window_ms: 900,
            seed,
            ..Plan::default()
        };
        Stage::wire(StageId::Load, plan)
    }

    #[test]
    fn every_arm_meets_every_point_in_every_round() {
        let stage = stage(3, 5, 7);
        let slices = stage.schedule(2);
        assert_eq!((slices.len(), stage.trials(2)), (30, 30));
        let distinct: HashSet<_> = slices.iter().map(|s| (s.round, s.arm, s.point)).collect();
        assert_eq!(distinct.len(), 30);
        assert!(slices.iter().enumerate().all(|(i, s)| s.index == i as u32));
        assert_eq!(stage.plan.load_seconds(), 15.0);
        // the arms of a pair are neighbours
        assert!(
            slices
                .chunks(2)
                .all(|c| c[0].point == c[1].point && c[0].arm != c[1].arm)
        );
    }

    #[test]
    fn the_seed_decides_the_order() {
        assert_eq!(stage(4, 6, 1).schedule(1), stage(4, 6, 1).schedule(1));
        assert_ne!(stage(4, 6, 1).schedule(1), stage(4, 6, 2).schedule(1));
    }

    #[test]
    fn groups_stay_together_and_every_point_has_all_its_rounds() {
        let groups = [1, 0, 1, 2];
        for order in [Order::Rounds, Order::BackAndForth, Order::GroupByGroup] {
            let slices = schedule(3, 1, &groups, 4, order);
            let distinct: HashSet<_> = slices.iter().map(|s| (s.round, s.point)).collect();
            assert_eq!((slices.len(), distinct.len()), (16, 16), "{order:?}");
            assert!(slices.iter().enumerate().all(|(i, s)| s.index == i as u32));
            let of_group = slices.iter().map(|s| groups[s.point as usize]);
            let mut changes: Vec<u32> = of_group.collect();
            changes.dedup();
            match order {
                Order::Rounds => {}
                Order::BackAndForth => assert_eq!(changes, [0, 1, 2, 1, 0, 1, 2, 1, 0]),
                Order::GroupByGroup => assert_eq!(changes, [1, 0, 2]),
            }
        }
        let further = further_round(3, 1, &groups, 4, 1);
        let points: HashSet<u32> = further.iter().map(|s| s.point).collect();
        assert_eq!(
            (points.len(), further[0].round, further[0].index),
            (4, 5, 20)
        );
    }
}

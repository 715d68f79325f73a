//! What a comparison measures beyond an ordinary plan: launches, pairs, and the
//! pairs of equal servers that show the noise floor; and in which order.
//!
//! A launch is a set of servers, each of its own initdb. The first begins with rounds
//! of A beside another server like A, the others where that was asked for; then come
//! the rounds in which the arms are compared. Each round visits every point, and at a point its arms in an order
//! drawn for it: the sign flips of the test rest on that draw.
//!
//! Where more than clients is varied (CPUs, scale, shared_buffers, memory nodes), each combination of values is a
//! place, and there is a server for each target at each place. The servers of one place are held against each other.

use crate::axis::AxisValue;
use crate::confinement::ConfinementPlan;
use crate::plan::Plan;
use crate::point::Slice;
use crate::reading::Reading;
use crate::workload::Launches;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use serde::{Deserialize, Serialize};

/// `facts/comparison.json`: written before the first slice; `pairs` is filled in
/// when the noise floor is known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComparisonPlan {
    /// What the verdict is about: the id of a metric.
    pub metric: String,
    /// The smallest relative difference of it that matters, 0.01 for 1 %.
    pub delta: f64,
    /// The chance of showing it that forecasts are made for.
    pub power: f64,
    /// How often all servers are made and started anew.
    pub launches: u32,
    /// Rounds of A beside its like at the begin of the first launch.
    pub noise_rounds: u32,
    /// Whether every other launch begins with as many.
    #[serde(default = "each")]
    pub noise_each_launch: bool,
    /// Rounds of each launch in which the arms are compared; none until decided.
    pub pairs: Option<u32>,
    /// The most such rounds that the time allows.
    pub most_pairs: u32,
    /// Numbers of pairs after which it may be stopped; empty for a fixed number.
    #[serde(default)]
    pub looks: Vec<u32>,
    /// The targets are equal: B is A's like, and the run shows the noise floor.
    pub same: bool,
    /// Combinations of values of what was varied beside clients; the arms of one stand side by side,
    /// A's first.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub places: u32,
    /// What was typed for each arm, without passwords, in the plan's order.
    pub typed: Vec<Typed>,
}

fn one() -> u32 {
    1
}

fn is_one(places: &u32) -> bool {
    *places == 1
}

/// What comparisons did before it was recorded.
fn each() -> bool {
    true
}

/// A target as typed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Typed {
    /// The target, without a password.
    pub target: String,
    /// Its settings, `--set` and its own, as `name=value`.
    pub settings: Vec<String>,
    /// What it is given of the machine, for all targets and its own.
    #[serde(flatten)]
    pub confinement: ConfinementPlan,
    /// The database of which a launched server holds a copy, without a password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy_of: Option<String>,
    /// Its value of each axis that was varied beside clients; empty where none was.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub axes: Vec<AxisValue>,
    /// The scale of its tables, where that was varied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<u32>,
    /// The CPUs of the load threads while they load it; all where none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub client_cpus: Vec<usize>,
}

/// `facts/arm-N.json`: what must not differ between arms beyond the plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmFacts {
    /// The workload's statements and how the server would run each: a JSON array of
    /// `{statement, script, command, plan}` with `EXPLAIN (FORMAT JSON)`, or `why` there is none; several
    /// of a statement that was explained with several rows of values.
    pub plans: Reading,
    /// The tables: a JSON array of `{table, bytes, rows}`.
    pub data: Reading,
}

/// What a round is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// A beside its like.
    Noise,
    /// The arms beside each other.
    Pairs,
}

/// In which order the servers of a launch are made, started and filled: the arms, drawn from the
/// run's seed for each launch. What the first of them has over the next (fresh memory, an earlier
/// autovacuum, the place of its files) then falls to either arm by a coin, as the test on launches
/// takes for granted.
pub fn launch_order(seed: u64, launch: u32, arms: usize) -> Vec<usize> {
    let stream = u64::from(launch) + 1;
    let mut rng =
        Xoshiro256PlusPlus::seed_from_u64(seed ^ stream.wrapping_mul(0xD1B5_4A32_D192_ED03));
    let mut order: Vec<usize> = (0..arms).collect();
    order.shuffle(&mut rng);
    order
}

impl ComparisonPlan {
    /// The arm that is A's like: the last one, or B where the targets are equal.
    pub fn like_a(&self) -> u32 {
        if self.same {
            self.targets().saturating_sub(1)
        } else {
            self.compared()
        }
    }

    /// The targets, each of which has an arm at every place.
    pub fn targets(&self) -> u32 {
        self.compared() / self.places.max(1)
    }

    /// The arm that an arm is held against: A of its place.
    pub fn against(&self, arm: u32) -> u32 {
        match arm < self.compared() {
            true => arm - arm % self.targets().max(1),
            // A's like.
            false => 0,
        }
    }

    /// The arms that are held against another, in order.
    pub fn others(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.compared()).filter(|arm| self.against(*arm) != *arm)
    }

    /// The arms that are compared, A first.
    pub fn compared(&self) -> u32 {
        self.typed.len() as u32
    }

    /// Rounds of A beside its like in a launch.
    pub fn noise_rounds_of(&self, launch: u32) -> u32 {
        match launch == 0 || self.noise_each_launch {
            true => self.noise_rounds,
            false => 0,
        }
    }

    /// How its rounds are shared out over its launches.
    pub fn rounds(&self) -> Launches {
        Launches {
            count: self.launches,
            rounds: self.rounds_of_launch(),
        }
    }

    fn rounds_of_launch(&self) -> u32 {
        self.noise_rounds.saturating_add(self.most_pairs).max(1)
    }

    /// Which launch a round belongs to, from 0.
    pub fn launch_of(&self, round: u32) -> u32 {
        round / self.rounds_of_launch()
    }

    /// What a round is for.
    pub fn phase_of(&self, round: u32) -> Phase {
        if round % self.rounds_of_launch() < self.noise_rounds {
            Phase::Noise
        } else {
            Phase::Pairs
        }
    }

    /// The slices of one phase of one launch, in order. `pairs` rounds of pairs are
    /// the first of those that more would have.
    pub fn slices(&self, plan: &Plan, launch: u32, phase: Phase, pairs: u32) -> Vec<Slice> {
        let targets = self.targets();
        let of_place = |place: u32| (place * targets..(place + 1) * targets).collect();
        let (mut places, rounds, first_round): (Vec<Vec<u32>>, _, _) = match phase {
            Phase::Noise => (
                vec![vec![0, self.like_a()]],
                self.noise_rounds_of(launch),
                0,
            ),
            Phase::Pairs => (
                (0..self.places.max(1)).map(of_place).collect(),
                pairs.min(self.most_pairs),
                self.noise_rounds,
            ),
        };
        let points = plan.points.len();
        let mut visits: Vec<usize> = (0..points * places.len()).collect();
        let of_noise = 2 * self.noise_rounds;
        let of_pairs = self.compared().saturating_mul(self.most_pairs);
        let of_launch = of_noise
            .saturating_add(of_pairs)
            .saturating_mul(points as u32);
        let mut index = launch.saturating_mul(of_launch);
        if phase == Phase::Pairs {
            index = index.saturating_add(of_noise * points as u32);
        }
        let stream = u64::from(launch) * 2 + u64::from(phase == Phase::Pairs) + 1;
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(
            plan.seed ^ stream.wrapping_mul(0x9E37_79B9_7F4A_7C15),
        );
        let mut slices = Vec::new();
        for round in 0..rounds {
            visits.shuffle(&mut rng);
            for &visit in &visits {
                let arms = &mut places[visit / points];
                arms.shuffle(&mut rng);
                for &arm in arms.iter() {
                    slices.push(Slice {
                        index,
                        round: launch * self.rounds_of_launch() + first_round + round,
                        arm,
                        point: (visit % points) as u32,
                    });
                    index = index.saturating_add(1);
                }
            }
        }
        slices
    }

    /// Seconds that a round of pairs takes, with what lies between slices.
    pub fn round_seconds(&self, plan: &Plan, between: f64) -> f64 {
        let slice = (plan.warmup_ms + plan.window_ms) as f64 / 1000.0 + between;
        plan.points.len() as f64 * f64::from(self.compared()) * slice
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::point::Point;
    use crate::workload::WorkloadPlan;
    use std::collections::HashSet;

    fn plans(arms: usize, same: bool) -> (Plan, ComparisonPlan) {
        let plan = Plan {
            workload: WorkloadPlan {
                name: "select-only".into(),
                scale: 1,
                protocol: "prepared".into(),
                ..WorkloadPlan::default()
            },
            points: [1, 4]
                .map(|clients| Point {
                    clients,
                    threads: 1,
                    variant: 0,
                })
                .to_vec(),
            trials: 1,
            warmup_ms: 50,
            window_ms: 200,
            seed: 11,
            disturbed_above: None,
        };
        let comparison = ComparisonPlan {
            metric: "throughput".into(),
            delta: 0.01,
            power: 0.9,
            launches: 2,
            noise_rounds: 3,
            noise_each_launch: true,
            pairs: None,
            most_pairs: 10,
            looks: vec![],
            same,
            places: 1,
            typed: vec![
                Typed {
                    target: "temp".into(),
                    ..Typed::default()
                };
                if same { arms } else { arms - 1 }
            ],
        };
        (plan, comparison)
    }

    #[test]
    fn slices_are_unique_and_know_their_launch_and_phase() {
        for (arms, same, compared) in [(3, false, 2), (4, false, 3), (2, true, 2)] {
            let (plan, comparison) = plans(arms, same);
            let mut all = Vec::new();
            for launch in 0..2 {
                for (phase, width) in [(Phase::Noise, 2), (Phase::Pairs, compared)] {
                    let slices = comparison.slices(&plan, launch, phase, 10);
                    let rounds = if phase == Phase::Noise { 3 } else { 10 };
                    assert_eq!(slices.len(), rounds * 2 * width);
                    // the arms of a pair are neighbours, each once
                    for chunk in slices.chunks(width) {
                        let arms: HashSet<u32> = chunk.iter().map(|s| s.arm).collect();
                        assert_eq!(arms.len(), width);
                        assert!(chunk.iter().all(|s| s.point == chunk[0].point));
                    }
                    for slice in &slices {
                        assert_eq!(comparison.launch_of(slice.round), launch);
                        assert_eq!(comparison.phase_of(slice.round), phase);
                    }
                    all.extend(slices);
                }
            }
            let indexes: HashSet<u32> = all.iter().map(|s| s.index).collect();
            assert_eq!(indexes.len(), all.len());
        }
    }

    #[test]
    fn the_servers_of_a_place_are_held_against_each_other() {
        let (plan, mut comparison) = plans(3, false);
        comparison.places = 3;
        comparison.typed = vec![Typed::default(); 6];
        assert_eq!((comparison.targets(), comparison.like_a()), (2, 6));
        assert_eq!(comparison.others().collect::<Vec<_>>(), [1, 3, 5]);
        let against: Vec<u32> = (0..7).map(|arm| comparison.against(arm)).collect();
        assert_eq!(against, [0, 0, 2, 2, 4, 4, 0]);
        let slices = comparison.slices(&plan, 1, Phase::Pairs, 5);
        // Rounds, points, places and targets.
        assert_eq!(slices.len(), 5 * 2 * 3 * 2);
        for pair in slices.chunks(2) {
            assert_eq!(
                comparison.against(pair[0].arm),
                comparison.against(pair[1].arm)
            );
            assert_eq!(pair[0].point, pair[1].point);
            assert_ne!(pair[0].arm, pair[1].arm);
        }
        let visited: HashSet<(u32, u32, u32)> =
            slices.iter().map(|s| (s.round, s.arm, s.point)).collect();
        assert_eq!(visited.len(), slices.len());
        let noise = comparison.slices(&plan, 0, Phase::Noise, 0);
        assert!(noise.iter().all(|slice| [0, 6].contains(&slice.arm)));
        comparison.same = true;
        assert_eq!(comparison.like_a(), 1);
    }

    #[test]
    fn the_noise_floor_may_be_the_first_launchs() {
        let (plan, mut comparison) = plans(3, false);
        let before = comparison.slices(&plan, 1, Phase::Pairs, 10);
        comparison.noise_each_launch = false;
        assert_eq!(
            comparison.slices(&plan, 0, Phase::Noise, 0).len(),
            3 * 2 * 2
        );
        assert!(comparison.slices(&plan, 1, Phase::Noise, 0).is_empty());
        assert_eq!(comparison.slices(&plan, 1, Phase::Pairs, 10), before);
    }

    #[test]
    fn more_pairs_go_on_where_fewer_ended() {
        let (plan, comparison) = plans(3, false);
        let few = comparison.slices(&plan, 1, Phase::Pairs, 4);
        let many = comparison.slices(&plan, 1, Phase::Pairs, 9);
        assert_eq!(few[..], many[..few.len()]);
        assert!((comparison.round_seconds(&plan, 0.05) - 1.2).abs() < 1e-9);
    }

    #[test]
    fn the_order_in_which_servers_are_made_is_drawn_for_each_launch() {
        let launches = 400;
        let mut first = [0; 3];
        for launch in 0..launches {
            let order = launch_order(7, launch, 3);
            assert_eq!(order, launch_order(7, launch, 3));
            assert_eq!(order.iter().collect::<HashSet<_>>().len(), 3);
            first[order[0]] += 1;
        }
        // a third each, within five standard deviations
        assert!(first.iter().all(|n| (86..=181).contains(n)), "{first:?}");
        assert!((0..20).any(|seed| launch_order(seed, 0, 2) != launch_order(seed, 1, 2)));
    }

    #[test]
    fn the_order_within_pairs_is_drawn() {
        let (plan, comparison) = plans(3, false);
        let slices = comparison.slices(&plan, 0, Phase::Pairs, 10);
        let first: Vec<u32> = slices.chunks(2).map(|c| c[0].arm).collect();
        assert!(first.contains(&0) && first.contains(&1), "{first:?}");
    }
}

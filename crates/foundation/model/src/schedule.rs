//! In which order the slices of a stage run: drawn from the recorded seed, so that drift of the machine
//! falls on all arms alike (rules 1 and 2 of the project's statistics), and the same on any machine.

use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

use crate::plan::{DriverConfig, Stage};
use crate::point::{Point, Slice};

impl Stage {
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
            DriverConfig::Kernels(_) => (vec![0; points.len()], Order::BackAndForth),
            DriverConfig::QueryWays { .. } => (each(), Order::BackAndForth),
            DriverConfig::InServer(plan) => (by(plan.groups()), Order::BackAndForth),
            DriverConfig::ScatteredRead(plan) => (by(plan.groups()), Order::GroupByGroup),
        }
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
    use crate::plan::Plan;
    use crate::stage::StageId;
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

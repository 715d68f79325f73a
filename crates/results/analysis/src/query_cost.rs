//! Where the CPU time of one query goes: over the wire, and in a loop inside the server.
//!
//! The same statement is executed by one session in several [`Way`]s, one after the other in
//! each round, while the server's processes are sampled. A way's CPU time for a query is what
//! the kernel accounts; samples divide it among the stages of a statement. Where instructions
//! were counted as well, they tell how much of a difference is other work and how much is the
//! same work on colder caches.

use std::collections::BTreeMap;

use pgassay_model::observed::stacks::{StackRecord, SymbolTable};
use pgassay_model::query_cost::{QueryCostRecord, WAYS, Way};
use pgassay_model::trial::{Raw, Trial};
use serde::{Deserialize, Serialize};

use crate::observed::stacks;
use crate::profile::stage::{self, STAGES, Stage};
use crate::stats::{Estimate, summarize_positive};

/// Executors within this share of one another agree.
pub const AGREEMENT: f64 = 0.1;

/// One way for one stretch of time.
struct WayTrial<'a> {
    way: Way,
    round: u32,
    queries: u64,
    cpu_ns: u64,
    stacks: &'a StackRecord,
}

impl<'a> WayTrial<'a> {
    fn of(trial: &'a Trial) -> Option<Self> {
        let Raw::QueryWay(stacks) = &trial.raw else {
            return None;
        };
        Some(Self {
            way: *WAYS.get(trial.slice.point as usize)?,
            round: trial.slice.round,
            queries: trial.transactions,
            cpu_ns: trial.server_cpu_ns?,
            stacks,
        })
    }
}

/// Where the CPU time of a query goes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueryCost {
    /// The ways that were measured, in the order of [`WAYS`].
    pub ways: Vec<WayCost>,
    /// query-loop's executor against that of each way over the wire that is prepared.
    pub agreements: Vec<Agreement>,
    /// Why nothing was counted, where it was to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_counted: Option<String>,
    /// Why there are no samples, where there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavailable: Option<String>,
}

/// What a query costs in one way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WayCost {
    /// Which way.
    pub way: Way,
    /// Queries executed in all.
    pub queries: u64,
    /// CPU samples in all.
    pub samples: u64,
    /// CPU time of the server for a query, microseconds.
    pub cpu_us_per_query: Estimate,
    /// Of it, in the executor and what it called.
    pub executor_us_per_query: Option<Estimate>,
    /// By stage, all rounds together; those without samples are left out.
    pub stages: Vec<StageCost>,
    /// Instructions for a query, where they were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions_per_query: Option<f64>,
    /// Of these, in the executor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executor_instructions_per_query: Option<f64>,
}

/// What a stage costs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StageCost {
    /// The stage.
    pub stage: Stage,
    /// Microseconds of CPU time for a query.
    pub us_per_query: f64,
    /// Its share of the samples, 0 to 1.
    pub share: f64,
}

/// query-loop's executor against select-only's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Agreement {
    /// The way over the wire.
    pub with: Way,
    /// query-loop's CPU time in the executor as a share of that way's, round by round.
    pub cpu: Option<Estimate>,
    /// The same of instructions, where they were counted.
    pub instructions: Option<f64>,
    /// Whether the whole interval of CPU time lies within [`AGREEMENT`].
    pub agrees: bool,
}

impl QueryCost {
    /// A way's cost.
    pub fn way(&self, way: Way) -> Option<&WayCost> {
        self.ways.iter().find(|cost| cost.way == way)
    }
}

/// One trial in figures.
struct Seen {
    cpu_us: f64,
    samples: f64,
    stages: BTreeMap<Stage, f64>,
}

impl Seen {
    fn executor_us(&self) -> Option<f64> {
        let executor = self.stages.get(&Stage::Executor).copied().unwrap_or(0.0);
        (executor > 0.0).then(|| self.cpu_us * executor / self.samples)
    }
}

/// What the trials and the record say.
pub fn analyse<'a>(
    trials: impl IntoIterator<Item = &'a Trial>,
    record: &QueryCostRecord,
) -> QueryCost {
    let seen: Vec<(WayTrial, Seen)> = trials
        .into_iter()
        .filter_map(WayTrial::of)
        .filter(|trial| trial.queries > 0)
        .map(|trial| {
            let seen = look(&trial, &record.symbols);
            (trial, seen)
        })
        .collect();
    let ways: Vec<WayCost> = WAYS
        .iter()
        .filter_map(|way| {
            let of_way: Vec<&(WayTrial, Seen)> =
                seen.iter().filter(|(trial, _)| trial.way == *way).collect();
            cost(*way, &of_way, record)
        })
        .collect();
    let by_round = |way: Way| -> BTreeMap<u32, f64> {
        seen.iter()
            .filter(|(trial, _)| trial.way == way)
            .filter_map(|(trial, seen)| Some((trial.round, seen.executor_us()?)))
            .collect()
    };
    let executor_instructions = |way: Way| {
        let found = ways.iter().find(|cost| cost.way == way)?;
        found.executor_instructions_per_query
    };
    let own = by_round(Way::QueryLoop);
    let agreements = [Way::Pipelined, Way::Prepared]
        .into_iter()
        .filter_map(|with| {
            let ratios: Vec<f64> = by_round(with)
                .iter()
                .filter_map(|(round, wire)| Some(own.get(round)? / wire))
                .collect();
            let cpu = summarize_positive(&ratios);
            let instructions = executor_instructions(Way::QueryLoop)
                .zip(executor_instructions(with))
                .map(|(inside, wire)| inside / wire);
            if cpu.is_none() && instructions.is_none() {
                return None;
            }
            let agrees = cpu
                .as_ref()
                .is_some_and(|cpu| cpu.low > 1.0 - AGREEMENT && cpu.high < 1.0 + AGREEMENT);
            Some(Agreement {
                with,
                cpu,
                instructions,
                agrees,
            })
        })
        .collect();
    QueryCost {
        ways,
        agreements,
        not_counted: record.not_counted.clone(),
        unavailable: record.unavailable.clone(),
    }
}

fn look(trial: &WayTrial, symbols: &SymbolTable) -> Seen {
    let mut by_stage: BTreeMap<Stage, f64> = BTreeMap::new();
    let profile = stacks::profile(std::iter::once(trial.stacks), symbols);
    for (chain, weight) in profile.iter().flat_map(|profile| profile.stacks()) {
        *by_stage.entry(stage::of(&chain)).or_default() += weight;
    }
    Seen {
        cpu_us: trial.cpu_ns as f64 / 1e3 / trial.queries as f64,
        samples: by_stage.values().sum(),
        stages: by_stage,
    }
}

fn cost(way: Way, trials: &[&(WayTrial, Seen)], record: &QueryCostRecord) -> Option<WayCost> {
    let cpu: Vec<f64> = trials.iter().map(|(_, seen)| seen.cpu_us).collect();
    let executor: Vec<f64> = trials.iter().filter_map(|(_, s)| s.executor_us()).collect();
    let queries: u64 = trials.iter().map(|(trial, _)| trial.queries).sum();
    let cpu_ns: u64 = trials.iter().map(|(trial, _)| trial.cpu_ns).sum();
    let samples: f64 = trials.iter().map(|(_, seen)| seen.samples).sum();
    let stages = STAGES
        .iter()
        .filter_map(|stage| {
            let hits = trials.iter().filter_map(|(_, seen)| seen.stages.get(stage));
            let share = hits.sum::<f64>() / samples.max(1.0);
            (share > 0.0).then(|| StageCost {
                stage: *stage,
                us_per_query: share * cpu_ns as f64 / 1e3 / queries.max(1) as f64,
                share,
            })
        })
        .collect();
    let counted = record.counted.iter().find(|counted| counted.way == way);
    let each = |instructions: u64, queries: u64| instructions as f64 / queries.max(1) as f64;
    Some(WayCost {
        way,
        queries,
        samples: samples as u64,
        cpu_us_per_query: summarize_positive(&cpu)?,
        executor_us_per_query: summarize_positive(&executor),
        stages,
        instructions_per_query: counted.map(|c| each(c.instructions, c.queries)),
        executor_instructions_per_query: counted.map(|c| each(c.executor, c.queries)),
    })
}

#[cfg(test)]
mod tests {
    use pgassay_model::observed::stacks::ObjectSymbols;
    use pgassay_model::point::Slice;
    use pgassay_model::query_cost::CountedWay;

    use super::*;

    /// Functions at 0x100, 0x200, 0x300 of a server.
    fn symbols() -> SymbolTable {
        let functions = ["ExecutorRun", "secure_read", "PostgresMain"];
        let functions = (1u64..)
            .zip(functions)
            .map(|(n, name)| (n * 0x100, n * 0x100 + 0x80, name.to_owned()))
            .collect();
        let mut table = SymbolTable::default();
        table.objects.insert(
            "id".into(),
            ObjectSymbols {
                path: "/bin/postgres".into(),
                functions,
            },
        );
        table
    }

    fn trial(way: Way, round: u32, cpu_us: u64, executor: u32, protocol: u32) -> Trial {
        let place = WAYS.iter().position(|known| *known == way).unwrap();
        Trial {
            slice: Slice {
                round,
                point: place as u32,
                ..Slice::default()
            },
            transactions: 1000,
            server_cpu_ns: Some(cpu_us * 1_000_000),
            raw: Raw::QueryWay(StackRecord {
                frequency_hz: 499,
                objects: vec!["id".into()],
                frames: vec![(0, 0x110), (0, 0x210), (0, 0x310)],
                chains: vec![vec![0, 2], vec![1, 2]],
                seconds: vec![vec![(0, executor), (1, protocol)]],
                ..StackRecord::default()
            }),
            ..Trial::default()
        }
    }

    fn counted(way: Way, executor: u64) -> CountedWay {
        CountedWay {
            way,
            queries: 1000,
            instructions: 43_000_000,
            executor,
        }
    }

    #[test]
    fn time_is_divided_among_stages_and_executors_are_compared_by_round() {
        let trials: Vec<Trial> = (0..6)
            .flat_map(|round| {
                [
                    trial(Way::Prepared, round, 20, 100, 300),
                    trial(Way::Pipelined, round, 8, 150, 50),
                    trial(Way::QueryLoop, round, 6, 190, 10),
                    // One that did nothing says nothing.
                    Trial {
                        transactions: 0,
                        ..trial(Way::PlpgsqlLoop, round, 6, 190, 10)
                    },
                ]
            })
            .collect();
        let record = QueryCostRecord {
            symbols: symbols(),
            counted: vec![
                counted(Way::Pipelined, 18_000_000),
                counted(Way::QueryLoop, 18_360_000),
            ],
            ..QueryCostRecord::default()
        };
        let cost = analyse(&trials, &record);
        let ways: Vec<Way> = cost.ways.iter().map(|cost| cost.way).collect();
        assert_eq!(ways, [Way::Prepared, Way::Pipelined, Way::QueryLoop]);
        let wire = cost.way(Way::Prepared).unwrap();
        assert_eq!((wire.queries, wire.samples), (6000, 2400));
        let near = |value: f64, expected: f64| assert!((value / expected - 1.0).abs() < 1e-9);
        near(wire.cpu_us_per_query.estimate, 20.0);
        near(wire.executor_us_per_query.as_ref().unwrap().estimate, 5.0);
        let stages: Vec<(Stage, f64)> = wire.stages.iter().map(|s| (s.stage, s.share)).collect();
        assert_eq!(stages, [(Stage::Protocol, 0.75), (Stage::Executor, 0.25)]);
        near(wire.stages[0].us_per_query, 15.0);
        assert_eq!(wire.instructions_per_query, None);
        let [loaded, alone] = cost.agreements.as_slice() else {
            panic!("{:?}", cost.agreements);
        };
        assert_eq!((loaded.with, alone.with), (Way::Pipelined, Way::Prepared));
        near(loaded.cpu.as_ref().unwrap().estimate, 0.95);
        near(loaded.instructions.unwrap(), 1.02);
        near(alone.cpu.as_ref().unwrap().estimate, 1.14);
        assert!(loaded.agrees && !alone.agrees && alone.instructions.is_none());
    }

    #[test]
    fn nothing_measured_says_why() {
        let record = QueryCostRecord {
            unavailable: Some("perf_event_open: no".into()),
            ..QueryCostRecord::default()
        };
        let cost = analyse(&[], &record);
        assert!(cost.ways.is_empty() && cost.agreements.is_empty());
        assert_eq!(cost.unavailable.as_deref(), Some("perf_event_open: no"));
    }
}

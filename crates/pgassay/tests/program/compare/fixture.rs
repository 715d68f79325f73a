//! Made-up recorded comparisons with a known difference.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use pgassay_analysis::metrics::MetricId;
use pgassay_analysis::stats::simulate::{self, normal};
use pgassay_model::comparison::{ArmFacts, ComparisonPlan, Phase, Typed};
use pgassay_model::plan::{Arm, Experiment, Plan, Stage};
use pgassay_model::point::{Point, Slice};
use pgassay_model::reading::{Reading, Sample};
use pgassay_model::record::RecordedRun;
use pgassay_model::run::{EndState, RunEnd, RunHeader};
use pgassay_model::server::{Origin, ServerFacts};
use pgassay_model::stage::StageId;
use pgassay_model::trial::Trial;
use pgassay_model::workload::WorkloadPlan;

/// What a made-up comparison is like.
#[derive(Clone)]
pub struct Made {
    /// How much more than A each other arm does: -0.05 for 5 % less.
    pub effects: Vec<f64>,
    /// What the verdict is about.
    pub metric: MetricId,
    /// How much longer than A's each other arm's latencies are: 0.1 for 10 %.
    pub latency: f64,
    /// Client counts.
    pub clients: Vec<u32>,
    /// Standard deviation of a slice's logarithm.
    pub noise: f64,
    /// Pairs of each launch.
    pub pairs: u32,
    pub launches: u32,
    /// Luck of a launch, as a standard deviation.
    pub luck: f64,
    /// Blocks read for each transaction by each arm.
    pub reads: Vec<f64>,
    pub settings: Vec<Vec<String>>,
    pub same: bool,
    pub seed: u64,
}

impl Default for Made {
    fn default() -> Self {
        Self {
            effects: vec![0.0],
            metric: MetricId::default(),
            latency: 0.0,
            clients: vec![4],
            noise: 0.02,
            pairs: 60,
            launches: 1,
            luck: 0.0,
            reads: vec![0.0; 4],
            settings: vec![vec![]; 4],
            same: false,
            seed: 3,
        }
    }
}

impl Made {
    pub fn run(&self) -> RecordedRun {
        let compared = 1 + self.effects.len();
        let arms = if self.same { compared } else { compared + 1 };
        let label = |i: usize| match i {
            i if i >= compared => "A again".to_owned(),
            i => ["A", "B", "C", "D"][i].to_owned(),
        };
        let plan = Plan {
            workload: WorkloadPlan {
                name: "select-only".into(),
                scale: 10,
                protocol: "prepared".into(),
                ..WorkloadPlan::default()
            },
            points: self
                .clients
                .iter()
                .map(|clients| Point {
                    clients: *clients,
                    threads: 1,
                    variant: 0,
                })
                .collect(),
            trials: self.pairs * self.launches,
            warmup_ms: 50,
            window_ms: 200,
            seed: self.seed,
            disturbed_above: None,
        };
        let arms: Vec<Arm> = (0..arms)
            .map(|i| Arm {
                label: label(i),
                target: "PostgreSQL 15".into(),
                ..Arm::default()
            })
            .collect();
        let comparison = ComparisonPlan {
            metric: self.metric.to_string(),
            delta: 0.01,
            power: 0.9,
            launches: self.launches,
            noise_rounds: 12,
            noise_each_launch: true,
            pairs: Some(self.pairs),
            most_pairs: self.pairs,
            looks: vec![],
            same: self.same,
            places: 1,
            typed: (0..compared)
                .map(|i| Typed {
                    target: "temp".into(),
                    settings: self.settings[i].clone(),
                    ..Typed::default()
                })
                .collect(),
        };
        let trials = self.trials(&plan, &comparison);
        let indexes = 0..arms.len() as u32;
        RecordedRun {
            servers: indexes
                .clone()
                .map(|arm| (arm, server(&self.settings, arm)))
                .collect(),
            arm_facts: indexes
                .clone()
                .map(|arm| {
                    let facts = ArmFacts {
                        plans: Reading::Text("[]".into()),
                        data: Reading::Text("[]".into()),
                    };
                    (arm, facts)
                })
                .collect(),
            binaries: indexes
                .map(|arm| (arm, Err("made up".to_owned())))
                .collect(),
            header: RunHeader {
                schema: "pgassay/run/1".into(),
                format: 1,
                id: "20261121T030000Z-select-only-test".into(),
                command: "compare".into(),
                command_line: vec!["pgassay".into(), "compare".into()],
                pgassay_version: "0.0.0".into(),
                started: "2026-11-21T03:00:00Z".into(),
                experiment: Experiment::single(arms, Stage::wire(StageId::Load, plan)),
            },
            trials,
            comparison: Some(comparison),
            end: Some(RunEnd {
                state: EndState::Complete,
                reason: None,
                at: "2026-11-21T03:10:00Z".into(),
                elapsed_seconds: 600.0,
                max_rss_bytes: 1 << 20,
            }),
            ..RecordedRun::default()
        }
    }

    fn trials(&self, plan: &Plan, comparison: &ComparisonPlan) -> Vec<Trial> {
        let mut rng = simulate::rng(self.seed);
        let mut tails = simulate::rng(self.seed + 1);
        let mut trials = Vec::new();
        for launch in 0..self.launches {
            let arms = comparison.like_a() + 1;
            let luck: Vec<f64> = (0..arms).map(|_| self.luck * normal(&mut rng)).collect();
            for phase in [Phase::Noise, Phase::Pairs] {
                for slice in comparison.slices(plan, launch, phase, self.pairs) {
                    let arm = slice.arm as usize;
                    let effect = arm.checked_sub(1).and_then(|i| self.effects.get(i));
                    let log = luck[arm] + self.noise * normal(&mut rng);
                    let clients = f64::from(plan.points[slice.point as usize].clients);
                    let tps = 10_000.0 * clients * log.exp() * (1.0 + effect.unwrap_or(&0.0));
                    let longer = if effect.is_some() { self.latency } else { 0.0 };
                    let latency = (1.0 + longer) * (self.noise * normal(&mut tails)).exp();
                    let reads = self.reads.get(arm).copied().unwrap_or(0.0);
                    trials.push(trial(
                        slice,
                        tps,
                        40.0 / (1.0 + effect.unwrap_or(&0.0)),
                        reads,
                        &histogram(latency),
                    ));
                }
            }
        }
        trials
    }
}

/// Latencies so many times as long as usual.
pub fn histogram(factor: f64) -> String {
    let mut histogram = Histogram::<u64>::new(3).expect("three digits");
    for us in [80u64, 90, 100, 110, 400] {
        let ns = (us as f64 * 1000.0 * factor) as u64;
        histogram.record(ns).expect("within range");
    }
    let mut bytes = Vec::new();
    V2DeflateSerializer::new()
        .serialize(&histogram, &mut bytes)
        .expect("memory");
    BASE64_STANDARD.encode(bytes)
}

fn trial(slice: Slice, tps: f64, cpu_us: f64, reads: f64, latency: &str) -> Trial {
    let window_ns = 200_000_000u64;
    let transactions = (tps * 0.2).round() as u64;
    let sample = |before: String, after: String| Sample {
        before: Reading::Text(before),
        after: Reading::Text(after),
        elapsed_ns: window_ns,
    };
    let used = (transactions as f64 * cpu_us * 1000.0) as u64;
    let row = |commits: u64, read: f64| {
        format!(
            "{{\"xact_commit\": {commits}, \"blks_hit\": {}, \"blks_read\": {read:.0}}}",
            commits * 4
        )
    };
    Trial {
        slice,
        started: "2026-11-21T03:00:01Z".into(),
        window_ns,
        transactions,
        latency: latency.to_owned(),
        client_user_ns: transactions * 2_000,
        client_system_ns: transactions * 3_000,
        busiest_thread_share: Some(0.3),
        transactions_sent: transactions,
        samples: BTreeMap::from([
            (
                "server.schedstat".to_owned(),
                sample("10 1000 0 1\n".into(), format!("10 {} 0 2\n", 1000 + used)),
            ),
            (
                "pg_stat_database".to_owned(),
                sample(
                    row(1000, 1000.0),
                    row(1000 + transactions, 1000.0 + reads * transactions as f64),
                ),
            ),
        ]),
        ..Trial::default()
    }
}

fn server(settings: &[Vec<String>], arm: u32) -> ServerFacts {
    let asked = settings.get(arm as usize).cloned().unwrap_or_default();
    let rows: Vec<String> = asked
        .iter()
        .filter_map(|s| s.split_once('='))
        .map(|(name, value)| {
            format!("{{\"name\": \"{name}\", \"setting\": \"{value}\", \"unit\": null, \"source\": \"command line\"}}")
        })
        .chain(["{\"name\": \"jit\", \"setting\": \"on\", \"unit\": null, \"source\": \"default\"}".to_owned()])
        .collect();
    ServerFacts {
        origin: Origin::Launched {
            bin_dir: "/usr/lib/postgresql/15/bin".into(),
            stand_in: false,
            prepared: false,
        },
        version: Reading::Text("PostgreSQL 15.20 on x86_64".into()),
        version_num: Some(150_020),
        pooler: None,
        settings: Reading::Text(format!("[{}]", rows.join(", "))),
        executable: Reading::Text("/usr/lib/postgresql/15/bin/postgres".into()),
        database_before: None,
        role: None,
        database: None,
    }
}

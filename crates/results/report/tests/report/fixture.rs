//! Analyses made by hand: invented figures of an invented machine, for the look
//! and the completeness of reports only.

use std::collections::BTreeMap;

use pgassay_analysis::analysis::{SCHEMA, StageAnalysis};
use pgassay_analysis::causes::causes;
use pgassay_analysis::checkpoints::Checkpoints;
use pgassay_analysis::host::HostSummary;
use pgassay_analysis::measured::{
    ArmAnalysis, CommitCheck, LatencyRange, PointAnalysis, RunInfo, StageArm, TrialAnalysis,
};
use pgassay_analysis::metrics::{self, MetricId};
use pgassay_analysis::primitives::{analyse, headline as headline_of_primitives};
use pgassay_analysis::quality::Quality;
use pgassay_analysis::query_cost::{self, QueryCost};
use pgassay_analysis::server::Setting;
use pgassay_analysis::stats::{Estimate, summarize_positive};
use pgassay_analysis::{Analysis, check};
use pgassay_inspect::cpu::{self, verdict};
use pgassay_model::confinement::ConfinementPlan;
use pgassay_model::facts::{Facts, Place};
use pgassay_model::observed::stacks::{ObjectSymbols, StackRecord};
use pgassay_model::plan::{Plan, Stage};
use pgassay_model::point::{Point, Slice};
use pgassay_model::primitives::{
    Company, Compiled, InServerTrial, PrimitivesPlan, SessionOutcome, Variant, WaitSeen,
};
use pgassay_model::query_cost::{CountedWay, QueryCostRecord, WAYS, Way};
use pgassay_model::reading::Reading;
use pgassay_model::run::RunState;
use pgassay_model::stage::StageId;
use pgassay_model::trial::{Raw, Trial};
use pgassay_model::warning::Warning;
use pgassay_model::workload::WorkloadPlan;

use crate::machine::{binary, host, server};

/// A whole assay: eight CPUs, eight client counts, eight trials each.
pub fn complete() -> Analysis {
    assay(&[1, 2, 4, 8, 16, 32, 64, 128], 8)
}

/// An assay with its second load.
pub fn second() -> Analysis {
    let mut analysis = assay(&[1, 2, 4, 8], 8);
    let mut second = assay(&[1, 2, 4, 8], 6).stages.remove(0);
    second.id = StageId::WriteLoad;
    second.plan.workload.name = "tpcb-like".to_owned();
    second.arms[0].checkpoints = Some(checkpoints());
    analysis.stages.push(second);
    analysis
}

/// Forced ones, under way in a third of the windows.
fn checkpoints() -> Checkpoints {
    Checkpoints {
        windows: 24,
        seconds: 48.2,
        timed: 1,
        requested: 9,
        writing_seconds: Some(17.4),
        wal_bytes: Some(2_310_000_000),
        wal_bytes_per_second: Some(47_900_000.0),
        wal_bytes_per_transaction: Some(6_470.0),
        full_page_share: Some(0.71),
        forced_after_bytes: Some(134_000_000),
        at_work_share: Some(0.34),
        throughput_ratio: summarize_positive(&[0.62, 0.66, 0.7, 0.64, 0.68, 0.65]),
    }
}

/// A run of primitives inside the server: no transactions at all.
pub fn primitives() -> Analysis {
    let mut analysis = assay(&[], 0);
    analysis.run.command = "run".to_owned();
    let primitives = PrimitivesPlan {
        variants: [
            ("spinlock", ""),
            ("lwlock", "shared"),
            ("snapshot", "rebuilt"),
        ]
        .map(|(primitive, variant)| Variant {
            primitive: primitive.to_owned(),
            variant: variant.to_owned(),
            company: Company::default(),
            operation: format!("One {primitive}, invented."),
        })
        .to_vec(),
        knobs: serde_json::Value::Null,
        compiled: Some(Compiled {
            library: "/var/tmp/pgassay-1000/extensions/15.18-0/pgassay.so".to_owned(),
            compiler: "gcc (Debian 12.2.0-14) 12.2.0".to_owned(),
            flags: vec!["-O2".to_owned(), "-fno-omit-frame-pointer".to_owned()],
            deviations: vec!["compiled by clang, as the server's own gcc is not here".to_owned()],
            binary: None,
        }),
    };
    let mut noise = Noise(3);
    let mut trials = Vec::new();
    let plan = Plan {
        workload: WorkloadPlan {
            name: "primitives".to_owned(),
            ..analysis.main().plan.workload.clone()
        },
        points: primitives.points(&[1, 2, 16]),
        trials: 6,
        window_ms: 250,
        seed: 7,
        ..Plan::default()
    };
    for _round in 0..plan.trials {
        for (point, at) in (0u32..).zip(&plan.points) {
            let (variant, sessions) = (at.variant, at.clients);
            let each = 2e6 / f64::from(sessions) * f64::from(variant + 1);
            let outcomes = (0..sessions).map(|_| SessionOutcome {
                operations: (each * noise.around(0.02)) as u64,
                elapsed_ns: 250_000_000,
                cpu_ns: 240_000_000,
                contended: (variant < 2).then_some(1000),
                delays: (variant == 0).then_some(3),
                over_time: (0..10).map(|tenth| (each / 10.0) as u64 + tenth).collect(),
                ..SessionOutcome::default()
            });
            trials.push(Trial {
                slice: Slice {
                    point,
                    ..Slice::default()
                },
                client_user_ns: 400_000,
                raw: Raw::InServer(InServerTrial {
                    sessions: outcomes.collect(),
                    waits: [("", 90), ("LWLock:pgassay", 30 * u64::from(variant == 1))]
                        .into_iter()
                        .filter(|(_, seen)| *seen > 0)
                        .map(|(event, seen)| WaitSeen {
                            event: event.to_owned(),
                            seen,
                        })
                        .collect(),
                    commits: None,
                }),
                ..Trial::default()
            });
        }
    }
    analysis.run.trials_measured = trials.len() as u32;
    analysis.run.trials_planned = trials.len() as u32;
    analysis.primitives = analyse(&primitives.variants, &plan, &trials, &analysis.host);
    analysis.headline = headline_of_primitives(&analysis.primitives);
    analysis.primitives_compiled = primitives.compiled;
    analysis.stages[0].plan = plan;
    analysis.stages[0].id = StageId::Primitives;
    analysis.query_cost = Some(query_cost());
    analysis
}

/// A query's way: prepared, with 50 in flight, and in the loop; the executor alike in the latter.
fn query_cost() -> QueryCost {
    let functions = [(0x100, 0x180, "ExecutorRun"), (0x200, 0x280, "secure_read")];
    let functions = functions.map(|(start, end, name)| (start, end, name.to_owned()));
    let mut record = QueryCostRecord::default();
    let mut trials = Vec::new();
    record.symbols.objects.insert(
        "9d3a".to_owned(),
        ObjectSymbols {
            path: "/usr/lib/postgresql/15/bin/postgres".to_owned(),
            functions: functions.to_vec(),
        },
    );
    for round in 0..8 {
        for (way, cpu_us, executor, protocol) in [
            (Way::Prepared, 21, 100, 350),
            (Way::Pipelined, 8, 270, 180),
            (Way::QueryLoop, 5, 440, 10),
        ] {
            let place = WAYS.iter().position(|known| *known == way).expect("a way");
            trials.push(Trial {
                slice: Slice {
                    round,
                    point: place as u32,
                    ..Slice::default()
                },
                transactions: 100_000,
                server_cpu_ns: Some(100_000 * (1000 * cpu_us + 10 * u64::from(round))),
                raw: Raw::QueryWay(StackRecord {
                    frequency_hz: 499,
                    objects: vec!["9d3a".to_owned()],
                    frames: vec![(0, 0x110), (0, 0x210)],
                    chains: vec![vec![0], vec![1]],
                    seconds: vec![vec![(0, executor + round), (1, protocol)]],
                    ..StackRecord::default()
                }),
                ..Trial::default()
            });
        }
    }
    record.counted = [(Way::Pipelined, 19_400_000), (Way::QueryLoop, 19_200_000)]
        .map(|(way, executor)| CountedWay {
            way,
            queries: 1000,
            instructions: 2 * executor,
            executor,
        })
        .to_vec();
    query_cost::analyse(&trials, &record)
}

/// An interrupted assay with an audit: two findings of weight, one of none, and
/// rules of the other outcomes.
pub fn checked() -> Analysis {
    let mut facts = Facts::empty("host=/run/postgresql");
    facts.place = Place::Here("its process 1 is seen here".into());
    facts.collected = "2026-11-21T03:00:00.000Z".into();
    facts.pgassay_version = "0.1.0".into();
    let rows = serde_json::json!([
        {"name": "fsync", "setting": "off"},
        {"name": "autovacuum", "setting": "off"},
        {"name": "synchronous_commit", "setting": "off"},
        {"name": "full_page_writes", "setting": "on"},
        {"name": "server_version_num", "setting": "150020"},
    ]);
    facts
        .server
        .insert("settings".into(), Reading::Text(rows.to_string()));
    let mut analysis = interrupted();
    analysis.check = Some(check::check(&facts));
    analysis.causes = causes(&analysis);
    analysis
}

/// The same assay stopped after its first trial.
pub fn interrupted() -> Analysis {
    let mut analysis = assay(&[1, 2, 4], 8);
    let load = &mut analysis.stages[0].arms[0];
    let mut point = load.points.remove(1);
    point.trials.truncate(1);
    for estimate in estimates(&mut point) {
        estimate.low = estimate.estimate;
        estimate.high = estimate.estimate;
        estimate.level = 0.0;
        estimate.n = 1;
        estimate.warnings = vec![few()];
    }
    load.points = vec![point];
    analysis.arms[0].commit_check = None;
    let incomplete = Warning::new(
        "incomplete",
        "1 of 24 trials were measured: Ctrl-C was pressed.",
    )
    .with_remedy("go on with: pgassay assay --resume 20261121T031500-assay-7f3a");
    analysis.headline = vec![
        incomplete.text.clone(),
        "PostgreSQL 15.18 does 21,000 select-only transactions a second with 2 clients (one \
         trial, so nothing is known of its spread)."
            .to_owned(),
    ];
    analysis.warnings = vec![incomplete];
    analysis.run.state = RunState::Interrupted;
    analysis.run.reason = Some("Ctrl-C was pressed".to_owned());
    analysis.run.trials_measured = 1;
    analysis.quality = Quality::of(&analysis.main().arms[0].points, &analysis.run, &[]);
    analysis.run.max_rss_bytes = None;
    analysis
}

/// Stopped before anything was measured, of a server that said nothing.
pub fn empty() -> Analysis {
    let mut analysis = interrupted();
    analysis.stages[0].arms[0].points.clear();
    analysis.arms[0].server = None;
    analysis.arms[0].binary = Err("permission denied".to_owned());
    analysis.host = HostSummary::default();
    analysis.headline = vec!["Nothing was measured.".to_owned()];
    analysis.warnings.clear();
    analysis.run.trials_measured = 0;
    analysis
}

/// Two servers in one run, with failed transactions at one point.
pub fn two_arms() -> Analysis {
    let mut analysis = assay(&[1, 8, 64], 6);
    let mut other = analysis.arms[0].clone();
    other.label = "B".to_owned();
    other.target = "temp:18".to_owned();
    let mut did = analysis.stages[0].arms[0].clone();
    did.label = "B".to_owned();
    for (i, point) in did.points.iter_mut().enumerate() {
        let factor = 1.0 + 0.06 * i as f64;
        let tps = point.trials.iter_mut();
        let tps: Vec<f64> = tps
            .map(|t| {
                t.throughput_tps *= factor;
                t.index += 1;
                t.throughput_tps
            })
            .collect();
        point.throughput_tps = over(&tps);
    }
    did.points[2].failures = vec![("40001".to_owned(), 1234), ("connection".to_owned(), 2)];
    analysis.arms[0].label = "A".to_owned();
    analysis.stages[0].arms[0].label = "A".to_owned();
    analysis.arms.push(other);
    analysis.stages[0].arms.push(did);
    analysis.arms[1].settings = vec![("io_method".to_owned(), "io_uring".to_owned())];
    analysis.run.command = "compare".to_owned();
    analysis
}

/// A server whose processes can't be seen, on a host that tells little, in trouble everywhere.
pub fn warned() -> Analysis {
    let mut analysis = assay(&[1, 4, 16, 64], 5);
    analysis.host = HostSummary {
        architecture: Some("aarch64".to_owned()),
        cpus: Some(4),
        cpu_quota: Some(1.5),
        memory_limit_bytes: Some(2 << 30),
        container: Some("docker".to_owned()),
        ..HostSummary::default()
    };
    analysis.arms[0].binary =
        Err("the server's executable could not be read: permission denied".to_owned());
    for point in &mut analysis.stages[0].arms[0].points {
        // Neither the server's processes nor its counters are visible.
        for metric in [
            metrics::SERVER_CPU,
            metrics::SERVER_CPUS,
            metrics::MACHINE_CPUS,
            metrics::STEAL,
            metrics::BUFFER_HITS,
            metrics::BUFFER_MISSES,
        ] {
            point.metrics.remove(&metric);
            for trial in &mut point.trials {
                trial.metrics.remove(&metric);
            }
        }
        for estimate in estimates(point) {
            estimate.warnings = vec![few()];
        }
        if point.point.clients >= 16 {
            point.warnings.push(client_bound());
            point.throughput_tps.warnings.push(Warning::new(
                "drift",
                "The trials rise or fall from first to last more than chance would have it.",
            ));
        }
    }
    analysis.warnings = vec![
        Warning::new(
            "no-server-cpu",
            "The server's processes belong to another user, so its CPU time is not known.",
        )
        .with_remedy("run pgassay as the server's user or as root"),
        Warning::new(
            "steal",
            "The hypervisor gave up to 7 % of the machine's time to other guests: absolute \
             figures are too low, and the spread is theirs too.",
        ),
    ];
    analysis
}

/// Names that try to be markup, terminal control or a formula, and are too long.
pub fn hostile() -> Analysis {
    let mut analysis = assay(&[1, 2], 6);
    let bad = "<script>alert('x')</script>";
    let long = "a_very_long_name_".repeat(30);
    analysis.stages[0].plan.workload.name = format!("{bad}|`x`*_#");
    analysis
        .headline
        .push(format!("{bad} & \"quotes\" | pipes"));
    analysis.host.cpu_model = Some(format!("CPU \u{1b}[31mred\u{7} \u{202e}reversed {bad}"));
    analysis.host.cpu_features = vec![long.clone()];
    let arm = &mut analysis.arms[0];
    arm.label = format!("=cmd(),\"{bad}\"\nsecond line");
    arm.target = "postgres://user:***@host/db?options='--x'".to_owned();
    if let Some(server) = &mut arm.server {
        server.version = format!("PostgreSQL {bad}");
        server.settings.push(Setting {
            name: long.clone(),
            value: format!("</style>{bad}| cell"),
            source: "file\nwith lines".to_owned(),
        });
    }
    let text = format!("{bad} [link](javascript:alert(1)) {long}");
    let warning = Warning::new(bad, text).with_remedy("rm -rf `x`; ```");
    let load = &mut analysis.stages[0].arms[0];
    load.label.clone_from(&arm.label);
    load.points[0].warnings.push(warning.clone());
    load.points[0].throughput_tps.warnings.push(warning.clone());
    load.points[1].failures.push((bad.to_owned(), u64::MAX));
    analysis.warnings.push(warning);
    analysis.run.command_line = vec!["pgassay".to_owned(), format!("it's ``` {bad}\nnext")];
    analysis
}

/// Figures that are no numbers, zero, tiny and huge.
pub fn absurd() -> Analysis {
    let mut analysis = assay(&[1, 100_000], 6);
    let points = &mut analysis.stages[0].arms[0].points;
    for estimate in estimates(&mut points[0]) {
        estimate.estimate = f64::NAN;
        estimate.low = f64::NEG_INFINITY;
        estimate.high = f64::INFINITY;
    }
    for trial in &mut points[0].trials {
        trial.throughput_tps = 0.0;
        trial.metrics.insert(metrics::P50, f64::NAN);
        trial.metrics.insert(metrics::P99, -1.0);
    }
    for estimate in estimates(&mut points[1]) {
        estimate.estimate = 1e15;
        estimate.low = 0.0;
        estimate.high = 1e18;
    }
    points[1].latency_us.max = f64::INFINITY;
    analysis.host.cpus = Some(0);
    analysis
}

fn few() -> Warning {
    Warning::new(
        "too-few-trials",
        "Fewer than 6 trials can't give a 95 % interval; the range of what was seen stands there.",
    )
    .with_remedy("measure at least 6 trials: --trials 6")
}

fn client_bound() -> Warning {
    Warning::new(
        "client-bound",
        "The load threads were busy more than 90 % of the time: the client holds the server back.",
    )
    .with_remedy("give the client more threads: --threads")
}

pub fn assay(clients: &[u32], rounds: u32) -> Analysis {
    let plan = Plan {
        workload: WorkloadPlan {
            name: "select-only".to_owned(),
            scale: 50,
            protocol: "prepared".to_owned(),
            ..WorkloadPlan::default()
        },
        points: clients
            .iter()
            .map(|&clients| Point {
                clients,
                threads: clients.min(2),
                variant: 0,
            })
            .collect(),
        trials: rounds,
        warmup_ms: 500,
        window_ms: 2000,
        seed: 42,
        disturbed_above: None,
    };
    let stage = Stage::wire(StageId::Load, plan.clone());
    let mut indices: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for slice in stage.schedule(1) {
        indices.entry(slice.point).or_default().push(slice.index);
    }
    let mut noise = Noise(7);
    let points = (0..).zip(&plan.points);
    let points: Vec<PointAnalysis> = points
        .map(|(i, point)| point_analysis(*point, &indices[&i], &mut noise))
        .collect();
    let trials = rounds * clients.len() as u32;
    let mut analysis = Analysis {
        schema: SCHEMA.to_owned(),
        run: RunInfo {
            id: "20261121T031500-assay-7f3a".to_owned(),
            command: "assay".to_owned(),
            command_line: ["pgassay", "assay", "temp:15", "--set", "shared_buffers=8GB"]
                .map(str::to_owned)
                .to_vec(),
            pgassay_version: "0.1.0".to_owned(),
            started: "2026-11-21T03:15:00.250Z".to_owned(),
            from: Vec::new(),
            round_trips: Vec::new(),
            state: RunState::Complete,
            reason: None,
            elapsed_seconds: Some(184.2),
            trials_measured: trials,
            trials_planned: trials,
            max_rss_bytes: Some(41 << 20),
        },
        axes: Vec::new(),
        headline: headline(&points),
        host: host(),
        arms: vec![ArmAnalysis {
            label: "temp:15".to_owned(),
            target: "temp:15".to_owned(),
            typed: "temp:15".to_owned(),
            settings: vec![("shared_buffers".to_owned(), "8GB".to_owned())],
            confinement: ConfinementPlan {
                launch_environment: vec!["LD_PRELOAD=libjemalloc.so.2".to_owned()],
                wrap: "numactl --interleave=all".to_owned(),
                ..ConfinementPlan::default()
            },
            axes: Vec::new(),
            server: Some(server()),
            binary: Ok(binary()),
            verdict: Some(verdict(
                &binary(),
                &cpu::find("graviton2").unwrap().into(),
                Some(1),
            )),
            commit_check: Some(CommitCheck {
                client_transactions: 9_876_543,
                server_commits: 9_877_001,
            }),
        }],
        pgio: None,
        scattered_read: None,
        primitives: vec![],
        primitives_compiled: None,
        query_cost: None,
        kernel_counts: None,
        check: None,
        causes: vec![],
        warnings: vec![],
        quality: None,
        stages: vec![StageAnalysis {
            id: StageId::Load,
            plan,
            arms: vec![StageArm {
                label: "temp:15".to_owned(),
                points,
                ..StageArm::default()
            }],
            diagnosis: None,
        }],
    };
    analysis.quality = Quality::of(&analysis.main().arms[0].points, &analysis.run, &[]);
    analysis
}

fn headline(points: &[PointAnalysis]) -> Vec<String> {
    let peak = points
        .iter()
        .map(|p| &p.throughput_tps)
        .max_by(|a, b| a.estimate.total_cmp(&b.estimate));
    let peak = peak.map_or(0.0, |e| e.estimate);
    vec![
        format!(
            "PostgreSQL 15.18 on 8 CPUs (Neoverse-N1) does about {peak:.0} select-only \
             transactions a second at its best, with 32 clients."
        ),
        "From 1 client to 16 it grows 9.4-fold, and no further up to 128.".to_owned(),
    ]
}

/// Saturating growth with a slow decline, noisy, slower towards the end of the run.
fn point_analysis(point: Point, indices: &[u32], noise: &mut Noise) -> PointAnalysis {
    let n = f64::from(point.clients);
    let capacity = 11_800.0 * n / (1.0 + 0.055 * (n - 1.0) + 0.0006 * n * (n - 1.0));
    let latency = n * 1e6 / capacity;
    let trials: Vec<TrialAnalysis> = indices
        .iter()
        .map(|&index| {
            let drift = 1.0 - 0.0006 * f64::from(index);
            let tps = capacity * drift * noise.around(0.025);
            let (p50, p99) = (
                latency * 0.93 * noise.around(0.02),
                latency * (1.9 + n.ln() / 3.0) * noise.around(0.08),
            );
            let server = (48.0 + n / 8.0) * noise.around(0.02);
            let client = (8.0 + 6.0 / n) * noise.around(0.02);
            let busy = |us: f64| us * tps / 1e6;
            TrialAnalysis {
                index,
                throughput_tps: tps,
                metrics: BTreeMap::from([
                    (metrics::P50, p50),
                    (metrics::P90, p50 * 1.5),
                    (metrics::P99, p99),
                    (metrics::P99_9, p99 * 2.6),
                    (metrics::SERVER_CPU, server),
                    (metrics::CLIENT_CPU, client),
                    (metrics::CLIENT_USER_CPU, client * 0.35),
                    (metrics::CLIENT_CPUS, busy(client)),
                    (metrics::SERVER_CPUS, busy(server)),
                    (metrics::MACHINE_CPUS, busy(server + client) + 0.3),
                    (metrics::STEAL, 0.002 * p99 / p50),
                    (metrics::BUFFER_HITS, 3.98 + p50 / 1e4),
                    (metrics::BUFFER_MISSES, 0.0021 + p50 / 1e7),
                ]),
            }
        })
        .collect();
    let each = |metric: MetricId| {
        let values = trials.iter().filter_map(|t| t.value(metric));
        over(&values.collect::<Vec<f64>>())
    };
    PointAnalysis {
        levels: None,
        point,
        throughput_tps: each(metrics::THROUGHPUT),
        metrics: trials[0]
            .metrics
            .keys()
            .map(|metric| (*metric, each(*metric)))
            .collect(),
        latency_us: LatencyRange {
            count: (capacity * 2.0) as u64 * trials.len() as u64,
            mean: latency,
            max: latency * 40.0,
        },
        others_share: Some(0.08),
        other_cpus: None,
        failures: vec![],
        client_calls_per_transaction: Some(1.28),
        client_gathered_share: Some(0.84),
        ceiling_tps: None,
        detail: None,
        trials,
        warnings: match point.clients {
            c if c >= 64 => vec![client_bound()],
            _ => vec![],
        },
    }
}

fn over(values: &[f64]) -> Estimate {
    summarize_positive(values).expect("the fixture has finite values")
}

fn estimates(p: &mut PointAnalysis) -> Vec<&mut Estimate> {
    let mut all = vec![&mut p.throughput_tps];
    all.extend(p.metrics.values_mut());
    all
}

/// A linear congruential generator: the same figures on every machine.
struct Noise(u64);

impl Noise {
    /// A factor around 1 with about this relative spread.
    fn around(&mut self, spread: f64) -> f64 {
        let mut sum = 0.0;
        for _ in 0..4 {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            sum += (self.0 >> 33) as f64 / f64::from(1u32 << 31) - 0.5;
        }
        1.0 + sum * spread * 1.7
    }
}

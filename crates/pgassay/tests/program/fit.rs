//! `pgassay fit` over recorded runs that were played, so that what it says can be
//! held against the law that made them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::captured::pgassay;
use crate::schema::assert_schema;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use pgassay::Exit;
use pgassay_engine::rundir::RunWriter;
use pgassay_model::Plan;
use pgassay_model::axis::AxisValue;
use pgassay_model::plan::{Arm, Experiment, Stage};
use pgassay_model::point::Point;
use pgassay_model::run::{EndState, FORMAT, RunEnd, RunHeader};
use pgassay_model::stage::StageId;
use pgassay_model::trial::Trial;
use pgassay_model::workload::WorkloadPlan;
use serde_json::Value;

/// A directory that goes with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let name = format!("pgassay-test-fit-{name}-{}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&dir);
        Self(dir)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn law(n: f64) -> f64 {
    10_000.0 * n / (1.0 + 0.05 * (n - 1.0) + 0.001 * n * (n - 1.0))
}

/// Records a run over these client counts into `root`.
fn record(root: &Path, clients: &[u32]) {
    let arm = Arm {
        label: "temp".into(),
        target: "temp".into(),
        ..Arm::default()
    };
    record_arms(root, clients, vec![arm], |_, clients| law(clients));
}

/// Records a run of these servers, which do so much by their index and number of clients.
fn record_arms(root: &Path, clients: &[u32], arms: Vec<Arm>, does: impl Fn(u32, f64) -> f64) {
    let plan = Plan {
        workload: WorkloadPlan {
            name: "select-only".into(),
            scale: 1,
            protocol: "prepared".into(),
            ..WorkloadPlan::default()
        },
        points: clients
            .iter()
            .map(|n| Point {
                clients: *n,
                threads: 1,
                variant: 0,
            })
            .collect(),
        trials: 6,
        warmup_ms: 100,
        window_ms: 1000,
        seed: 3,
        disturbed_above: None,
    };
    let stage = Stage::wire(StageId::Load, plan.clone());
    let servers = arms.len();
    let mut header = RunHeader {
        schema: "pgassay/run/1".into(),
        format: FORMAT,
        id: String::new(),
        command: "run".into(),
        command_line: vec!["pgassay".into(), "run".into()],
        pgassay_version: "0.0.0".into(),
        started: "2026-11-21T03:00:00Z".into(),
        experiment: Experiment::single(arms, stage.clone()),
    };
    let mut writer = RunWriter::create(root, &mut header).unwrap();
    for slice in stage.schedule(servers) {
        let n = f64::from(plan.points[slice.point as usize].clients);
        // 1 % to both sides, another pattern at each point
        let wobble = 1.0 + f64::from((slice.round + slice.point) % 3) / 100.0 - 0.01;
        let transactions = (does(slice.arm, n) * wobble) as u64;
        let mut latency = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3).unwrap();
        latency.record_n(100_000, transactions).unwrap();
        let mut bytes = Vec::new();
        V2DeflateSerializer::new()
            .serialize(&latency, &mut bytes)
            .unwrap();
        let trial = Trial {
            slice,
            started: "2026-11-21T03:00:00Z".into(),
            window_ns: 1_000_000_000,
            transactions,
            failures: BTreeMap::new(),
            latency: BASE64_STANDARD.encode(bytes),
            latency_from_actual_start: None,
            intervals: vec![],
            client_user_ns: 1,
            client_system_ns: 1,
            busiest_thread_share: Some(0.1),
            transactions_sent: transactions,
            samples: BTreeMap::new(),
            cut_short: None,
            ..Trial::default()
        };
        writer.append_trial(&trial).unwrap();
    }
    let end = RunEnd {
        state: EndState::Complete,
        reason: None,
        at: String::new(),
        elapsed_seconds: 1.0,
        max_rss_bytes: 1,
    };
    writer.finish(&end).unwrap();
}

fn fit(root: &Path, more: &[&str]) -> String {
    let line = ["fit", "last", "--runs", root.to_str().unwrap()];
    let (exit, text, said) = pgassay(&[&line, more].concat());
    assert_eq!(exit, Exit::Done, "{said}");
    text
}

fn document(root: &Path) -> Value {
    let document: Value = serde_json::from_str(&fit(root, &["--json"])).unwrap();
    assert_schema(&document, "fit-1.json");
    document
}

#[test]
fn a_sweep_is_fitted_and_projected_to_twice_its_end() {
    let root = Scratch::new("sweep");
    record(&root.0, &[1, 2, 4, 8, 16, 32]);
    let arm = document(&root.0)["arms"][0].clone();
    for (name, truth) in [("lambda", 10_000.0), ("sigma", 0.05), ("kappa", 0.001)] {
        let value = &arm["scaling"][name]["value"];
        let (low, high) = (
            value["low"].as_f64().unwrap(),
            value["high"].as_f64().unwrap(),
        );
        assert!(low <= truth && truth <= high, "{name}: {low} to {high}");
        assert!(arm["scaling"][name]["by_trials"].is_array(), "{name}");
    }
    let last = arm["points"].as_array().unwrap().last().unwrap();
    assert_eq!(
        (last["clients"].as_u64(), &last["measured_tps"]),
        (Some(64), &Value::Null)
    );
    let fitted = &last["fitted_tps"];
    assert!(fitted["low"].as_f64().unwrap() <= law(64.0));
    assert!(law(64.0) <= fitted["high"].as_f64().unwrap());
    assert_eq!(fitted["warnings"][0]["id"], "extrapolated");

    let text = fit(&root.0, &[]);
    assert!(
        text.contains("Contention: ") && text.contains("Throughput is highest near "),
        "{text}"
    );
    assert_eq!(
        text.matches("nothing was measured there").count(),
        1,
        "{text}"
    );
}

#[test]
fn three_counts_are_refused_with_the_remedy() {
    let root = Scratch::new("three");
    record(&root.0, &[1, 2, 4]);
    let arm = document(&root.0)["arms"][0].clone();
    assert_eq!(arm["scaling"], Value::Null);
    assert!(arm["refused"].as_str().unwrap().contains("--clients"));
    assert!(fit(&root.0, &[]).contains("no fit: 3 different counts"));
}

#[test]
fn cpus_of_the_server_are_fitted_where_they_were_varied() {
    let root = Scratch::new("cpus");
    let counts: [u32; 6] = [1, 2, 4, 8, 16, 32];
    let arms = counts.map(|cpus| Arm {
        label: format!("{cpus} CPUs"),
        axes: vec![AxisValue {
            axis: "cpus".into(),
            value: cpus.to_string(),
            number: Some(f64::from(cpus)),
        }],
        ..Arm::default()
    });
    // Few clients can't use many CPUs.
    let does = |arm: u32, clients: f64| law(f64::from(counts[arm as usize]).min(clients));
    record_arms(&root.0, &[8, 64], arms.to_vec(), does);
    let document = document(&root.0);
    let labels: Vec<&str> = document["arms"]
        .as_array()
        .unwrap()
        .iter()
        .map(|arm| arm["label"].as_str().unwrap())
        .collect();
    assert_eq!(
        labels,
        [
            "over CPUs, at the best number of clients",
            "over CPUs, at 64 clients"
        ]
    );
    for arm in document["arms"].as_array().unwrap() {
        assert_eq!(arm["over"], "cpus");
        let sigma = &arm["scaling"]["sigma"]["value"];
        assert!(sigma["low"].as_f64().unwrap() <= 0.05, "{sigma}");
        assert!(sigma["high"].as_f64().unwrap() >= 0.05, "{sigma}");
        let points = arm["points"].as_array().unwrap();
        let last = points.last().unwrap();
        assert_eq!(
            (&last["cpus"], &last["measured_tps"]),
            (&64.into(), &Value::Null)
        );
    }
    let text = fit(&root.0, &[]);
    assert!(text.contains("select-only over CPUs"), "{text}");
    assert!(text.contains("so that more CPUs"), "{text}");
}

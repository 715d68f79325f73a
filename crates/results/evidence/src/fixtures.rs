//! Synthetic runs for tests of what is concluded from runs.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use pgassay_model::observed::Observed;
use pgassay_model::observed::waits::{WaitKey, WaitRecord};
use pgassay_model::plan::{Arm, Experiment, Plan, Stage};
use pgassay_model::point::{Point, Slice};
use pgassay_model::reading::{Reading, Sample};
use pgassay_model::record::RecordedRun;
use pgassay_model::samplers;
use pgassay_model::server::{Origin, ServerFacts};
use pgassay_model::stage::StageId;
use pgassay_model::trial::Trial;
use pgassay_model::workload::WorkloadPlan;

const COUNTS: [u32; 5] = [1, 2, 4, 8, 16];

/// A latency histogram of one value, as recorded.
pub fn latency() -> String {
    let mut histogram = Histogram::<u64>::new_with_bounds(128, 120_000_000_000, 3).unwrap();
    histogram.record(200_000).unwrap();
    let mut bytes = Vec::new();
    V2DeflateSerializer::new()
        .serialize(&histogram, &mut bytes)
        .unwrap();
    BASE64_STANDARD.encode(bytes)
}

/// Of `clients` sessions in a statement this share waits at WALInsert.
fn waiting(clients: u32, share: f64) -> Observed {
    let key = |kind: &str, event: &str| WaitKey {
        backend: "client backend".into(),
        state: "active".into(),
        kind: kind.into(),
        event: event.into(),
    };
    let mut record = WaitRecord::default();
    let all = clients * 100;
    let waiting = (f64::from(all) * share).round() as u32;
    record.add(
        0,
        [
            (key("LWLock", "WALInsert"), waiting),
            (key("", ""), all - waiting),
        ],
    );
    // As many looks as it takes to divide by.
    record.seconds[0].samples = 100;
    Observed {
        waits: Some(record),
        ..Observed::default()
    }
}

/// A load of one server at these client counts, in trials of a second.
pub fn experiment(clients: &[u32], trials: u32) -> Experiment {
    let points = clients.iter().map(|&clients| Point {
        clients,
        threads: 1,
        variant: 0,
    });
    let plan = Plan {
        workload: WorkloadPlan::default(),
        points: points.collect(),
        trials,
        warmup_ms: 0,
        window_ms: 1000,
        seed: 7,
        disturbed_above: None,
    };
    let arm = Arm {
        label: "A".into(),
        target: "temp".into(),
        ..Arm::default()
    };
    Experiment::single(vec![arm], Stage::wire(StageId::Load, plan))
}

/// A sweep that follows the law with this sigma; `share` is the wait's at a client count.
pub fn run(sigma: f64, share: fn(u32) -> f64) -> RecordedRun {
    let mut run = RecordedRun::default();
    run.header.experiment = experiment(&COUNTS, 6);
    for (point, clients) in (0u32..).zip(COUNTS) {
        let n = f64::from(clients);
        let tps = 10_000.0 * n / (1.0 + sigma * (n - 1.0));
        for round in 0..6 {
            // One per cent of noise.
            let noise = 1.0 + 0.01 * (f64::from(round) - 2.5) / 2.5;
            run.trials.push(Trial {
                slice: Slice {
                    index: point * 6 + round,
                    round,
                    arm: 0,
                    point,
                },
                window_ns: 1_000_000_000,
                transactions: (tps * noise) as u64,
                latency: latency(),
                observed: Some(waiting(clients, share(clients))),
                ..Trial::default()
            });
        }
    }
    run
}

/// A trial of a second; `forced` checkpoints began in it and the checkpointer was at work in
/// so many of its twenty looks.
pub fn trial(index: u32, transactions: u64, forced: u64, at_work: u32) -> Trial {
    let sample = |before: String, after: String| Sample {
        before: Reading::Text(before),
        after: Reading::Text(after),
        elapsed_ns: 1_000_000_000,
    };
    let counters = |requested: u64| {
        format!(
            r#"{{"checkpoints_timed": 3, "checkpoints_req": {requested},
                "checkpoint_write_time": 100.5, "checkpoint_sync_time": 1e+03}}"#
        )
    };
    let log = |n: u64| {
        format!(
            r#"{{"lsn": {}, "wal_bytes": {}, "wal_fpi": {}}}"#,
            (100 + 40 * n) << 20,
            (10 + 40 * n) << 20,
            (3 + 4 * n) << 10
        )
    };
    let mut record = WaitRecord::default();
    let key = |kind: &str, event: &str| WaitKey {
        backend: "checkpointer".into(),
        state: String::new(),
        kind: kind.into(),
        event: event.into(),
    };
    record.add(
        0,
        [
            (key("Activity", "CheckpointerMain"), 20 - at_work),
            (key("Timeout", "CheckpointWriteDelay"), at_work),
        ]
        .into_iter()
        .filter(|(_, n)| *n > 0),
    );
    Trial {
        slice: Slice {
            index,
            ..Slice::default()
        },
        window_ns: 1_000_000_000,
        transactions,
        samples: BTreeMap::from([
            (
                samplers::PG_STAT_CHECKPOINTER.to_owned(),
                sample(counters(7), counters(7 + forced)),
            ),
            (samplers::PG_STAT_WAL.to_owned(), sample(log(0), log(1))),
        ]),
        observed: Some(Observed {
            waits: Some(record),
            ..Observed::default()
        }),
        ..Trial::default()
    }
}

/// A server of version 15 with this max_wal_size, in MB.
pub fn server(max_wal_size: &str) -> ServerFacts {
    let rows = serde_json::json!([
        {"name": "max_wal_size", "setting": max_wal_size, "unit": "MB"},
        {"name": "checkpoint_completion_target", "setting": "0.9"},
    ]);
    ServerFacts {
        origin: Origin::Running,
        version: Reading::Unavailable(String::new()),
        version_num: Some(150_020),
        pooler: None,
        settings: Reading::Text(rows.to_string()),
        executable: Reading::Unavailable(String::new()),
        database_before: None,
        role: None,
        database: None,
    }
}

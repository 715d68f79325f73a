//! Runs made by the scaling law, and whether the contention in them is named.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use pgassay_model::observed::Observed;
use pgassay_model::observed::waits::{WaitKey, WaitRecord};
use pgassay_model::plan::{Arm, Experiment, Plan, Stage};
use pgassay_model::point::{Point, Slice};
use pgassay_model::record::RecordedRun;
use pgassay_model::stage::StageId;
use pgassay_model::trial::Trial;
use pgassay_model::workload::WorkloadPlan;

use crate::analyse;
use crate::bottlenecks::Finding;

const COUNTS: [u32; 5] = [1, 2, 4, 8, 16];

/// A latency histogram of one value, as recorded.
pub(in crate::bottlenecks) fn latency() -> String {
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

/// A sweep that follows the law with this sigma; `share` is the wait's at a client count.
pub(crate) fn run(sigma: f64, share: fn(u32) -> f64) -> RecordedRun {
    let mut run = RecordedRun::default();
    let plan = Plan {
        workload: WorkloadPlan::default(),
        points: COUNTS
            .map(|clients| Point {
                clients,
                threads: 1,
                variant: 0,
            })
            .to_vec(),
        trials: 6,
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
    run.header.experiment = Experiment::single(vec![arm], Stage::wire(StageId::Load, plan));
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

fn found(run: &RecordedRun) -> Option<Finding> {
    let diagnosis = analyse(run).stages.remove(0).diagnosis.unwrap();
    let mut findings = diagnosis.findings.into_iter();
    findings.find(|f| f.id == "scaling-contention")
}

#[test]
fn the_lock_that_grows_as_the_curve_bends_is_named() {
    let finding = found(&run(0.2, |clients| 0.03 * f64::from(clients))).unwrap();
    assert!(finding.saw.contains("LWLock:WALInsert"), "{finding:#?}");
    let evidence = finding.evidence.join("\n");
    for said in [
        "sigma, contention: 0.2",
        "at 1 client",
        "48.0 %",
        "at 16 clients",
    ] {
        assert!(evidence.contains(said), "{said}: {evidence}");
    }
}

#[test]
fn without_a_bend_or_without_a_lock_nothing_is_named() {
    // It scales: the wait is there all the same.
    assert_eq!(found(&run(0.0, |clients| 0.03 * f64::from(clients))), None);
    // It bends, and the wait is as large with one client: it is not that.
    assert_eq!(found(&run(0.2, |_| 0.3)), None);
    // It bends, and nobody waits.
    assert_eq!(found(&run(0.2, |_| 0.0)), None);
    // The law does not hold: throughput falls off a cliff.
    let mut cliff = run(0.05, |clients| 0.03 * f64::from(clients));
    for trial in cliff.trials.iter_mut().filter(|t| t.slice.point == 4) {
        trial.transactions /= 3;
    }
    assert_eq!(found(&cliff), None);
}

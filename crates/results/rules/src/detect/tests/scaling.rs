//! Whether the contention in runs made by the scaling law is named.

use pgassay_analysis::analyse;
use pgassay_analysis::bottlenecks::Finding;
use pgassay_evidence::fixtures::run;
use pgassay_model::record::RecordedRun;

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

//! A sweep with a step that no lock makes.

use pgassay_analysis::analyse;
use pgassay_analysis::bottlenecks::Finding;

fn found(before: f64) -> Option<Finding> {
    let mut run = pgassay_evidence::fixtures::run(0.01, |_| 0.0);
    // Its points are 1, 2, 4, 8 and 16 clients.
    for trial in run.trials.iter_mut().filter(|trial| trial.slice.point < 3) {
        trial.transactions = (trial.transactions as f64 * before) as u64;
    }
    let diagnosis = analyse(&run).stages.remove(0).diagnosis.unwrap();
    let mut findings = diagnosis.findings.into_iter();
    findings.find(|finding| finding.id == "client-placement")
}

#[test]
fn a_step_larger_than_that_of_the_clients_is_named() {
    let finding = found(0.8).unwrap();
    assert!(
        finding
            .saw
            .starts_with("From 4 clients to 8 throughput grows 2.4"),
        "{}",
        finding.saw
    );
    // Up to 4 clients it grows as they do.
    assert!(found(1.0).is_none());
    assert!(found(0.97).is_none());
}

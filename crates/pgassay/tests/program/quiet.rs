//! The look at the machine before a measurement, and the rule that leaves disturbed trials out.

use serde_json::Value;

use super::runs::{Runs, text};
use crate::budget::Spinners;

#[test]
fn a_busy_machine_is_said_to_be_and_waited_for() {
    // As many as there can be CPUs, so that each half second finds some of them at work.
    let _spinners = Spinners::start(4);
    let runs = Runs::new("quiet");
    let words = "run select-only --clients 1 --time 0.1 --warmup 0 --trials 2 --scale 1";
    let words: Vec<&str> = words.split(' ').collect();

    let told = runs.run(&words);
    let said = text(&told.stderr);
    assert!(said.contains("other programs keep"), "{said}");
    assert!(said.contains("--wait-quiet"), "{said}");

    let waited = runs.run(&[&words[..], &["--wait-quiet", "1", "--drop-disturbed=15"]].concat());
    let said = text(&waited.stderr);
    assert!(
        said.contains("waiting until the machine is quiet, 1 s at most"),
        "{said}"
    );
    assert!(said.contains("not quiet after 1 s"), "{said}");
    let newest = runs.run(&["report", "last", "--format", "json"]);
    let analysis: Value = serde_json::from_slice(&newest.stdout).unwrap();
    let plan = &analysis["stages"][0]["plan"];
    assert_eq!(plan["disturbed_above"], 0.15, "{plan}");
}

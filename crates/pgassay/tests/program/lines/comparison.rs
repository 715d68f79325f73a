//! Comparisons by lines.

use std::fs;

use serde_json::Value;

use crate::runs::{Runs, text};
use crate::schema::assert_schema;

/// What a comparison by lines begins with.
const BY_LINES: [&str; 5] = ["compare", "temp", "temp", "--by", "lines"];

#[test]
fn what_is_no_comparison_by_lines_is_refused() {
    let runs = Runs::new("lines-compare-refused");
    let refused = runs.run(&[&BY_LINES[..], &["--minutes", "3"]].concat());
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(
        said.contains("--minutes is for comparisons by time"),
        "{said}"
    );
    for flags in [
        &["--rate", "10"][..],
        &["--env-b", "X=1"],
        &["--set-c", "jit=off"],
    ] {
        let refused = runs.run(&[&BY_LINES[..], flags].concat());
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{flags:?}: {said}");
    }
    fs::create_dir_all(&runs.0).unwrap();
    let script = runs.0.join("broken.sql");
    fs::write(&script, "\\set i random(\n").unwrap();
    let file = ["--file", script.to_str().unwrap()];
    let refused = runs.run(&[&BY_LINES[..], &file].concat());
    let said = text(&refused.stderr);
    assert!(said.contains("broken.sql"), "{said}");
}

/// A comparison by lines is that of `lines A B`: what a setting takes off is named.
#[test]
#[ignore = "long: make test-all"]
fn a_comparison_goes_by_lines() {
    let runs = Runs::new("lines-compare");
    let args = ["--set-b", "track_activities=off", "--seed", "1", "--json"];
    let output = runs.run(&[&BY_LINES[..], &args].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let difference: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_schema(&difference, "lines-difference-1.json");
    let all = difference.to_string();
    assert!(
        all.contains("PgBackendStatus") || all.contains("Backend Status Array"),
        "{all}"
    );
}

//! `pgassay guard` from outside, against a real PostgreSQL.

use std::fs;

use serde_json::Value;

use crate::runs::{Runs, text};
use crate::schema::assert_schema;

#[test]
fn a_slower_head_fails_and_ci_gets_its_files() {
    let runs = Runs::new("guard");
    fs::create_dir_all(&runs.0).unwrap();
    let file = |name: &str| runs.0.join(name).to_str().unwrap().to_owned();
    let (junit, summary) = (file("guard.xml"), file("summary.md"));
    let (bencher, otava) = (file("bencher.json"), file("otava"));
    let args = [
        "guard",
        "temp",
        "temp",
        "--threshold",
        "throughput=20%,p50=5000%",
        "--junit",
        &junit,
        "--markdown",
        &summary,
        "--bencher",
        &bencher,
        "--otava",
        &otava,
        "--json",
        "--clients",
        "1",
        "--scale",
        "1",
        "--slice",
        "0.1",
        "--pairs",
        "8",
        "--noise-pairs",
        "2",
        "--seed",
        "4",
        "--set",
        "enable_bitmapscan=off",
        "--set-b",
        "enable_indexscan=off",
    ];
    // A threshold is a share: 5000 % is none.
    let output = runs.run(&args);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    let args = args.map(|word| word.replace("5000%", "100%"));
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let output = runs.run(&args);
    let said = text(&output.stderr);
    let json: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {said}"));
    assert_schema(&json, "guard-1.json");
    let checks = json["checks"].as_array().unwrap();
    let of = |metric: &str| checks.iter().find(|c| c["metric"] == metric).unwrap();
    assert!(of("p50")["change"].is_object());
    // A hundred times slower it is everywhere; how certain that is hangs on the machine, and every file says the same of it.
    let judged = |what: &str| checks.iter().any(|check| check["judged"] == what);
    assert!(!judged("passed"), "{checks:?}");
    let failed = judged("failed");
    let code = if failed { 1 } else { 5 };
    assert_eq!(output.status.code(), Some(code), "{said}");
    let xml = fs::read_to_string(&junit).unwrap();
    assert_eq!(xml.contains("<failure"), failed, "{xml}");
    assert!(xml.contains("throughput at 1 client"), "{xml}");
    let summary = fs::read_to_string(&summary).unwrap();
    assert_eq!(summary.contains("FAILED"), failed, "{summary}");
    let bencher: Value = serde_json::from_slice(&fs::read(&bencher).unwrap()).unwrap();
    let published = include_str!("published/bencher-bmf.json");
    let published: Value = serde_json::from_str(published).unwrap();
    let schema = jsonschema::draft7::new(&published).unwrap();
    assert!(schema.is_valid(&bencher), "{bencher}");
    let broken = serde_json::json!({"a": {"b": {"lower_value": 1.0}}});
    assert!(!schema.is_valid(&broken), "the schema asks for a value");
    let names = bencher.as_object().unwrap();
    assert!(names.keys().all(|name| name.chars().count() <= 1024));
    let measures = names
        .values()
        .flat_map(|measures| measures.as_object().unwrap().keys());
    assert!(measures.clone().count() > 1);
    assert!(measures.into_iter().all(|name| name.chars().count() <= 64));
    let measures = &bencher["select-only at 1 client"];
    assert!(
        measures["throughput"]["value"].as_f64().unwrap() > 0.0,
        "{bencher}"
    );
    assert!(
        measures["throughput-change"]["upper_value"]
            .as_f64()
            .unwrap()
            < -20.0,
        "{bencher}"
    );
    let csv = || fs::read_to_string(runs.0.join("otava/select-only-1.csv")).unwrap();
    assert!(
        csv().starts_with("time,commit,throughput,p50\n"),
        "{}",
        csv()
    );
    assert_eq!(csv().lines().count(), 2);
    assert!(runs.0.join("otava/otava.yaml").is_file());
}

#[test]
fn a_head_that_does_not_start_is_told_to_ci_as_well() {
    let runs = Runs::new("guard-no-start");
    fs::create_dir_all(&runs.0).unwrap();
    let file = |name: &str| runs.0.join(name).to_str().unwrap().to_owned();
    let (junit, summary) = (file("guard.xml"), file("summary.md"));
    let output = runs.run(&[
        "guard",
        "temp",
        "temp",
        "--set-b",
        "shared_preload_libraries=there_is_no_such_library",
        "--scale",
        "1",
        "--junit",
        &junit,
        "--markdown",
        &summary,
        "--json",
    ]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    let json: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {said}"));
    assert_schema(&json, "guard-1.json");
    let stopped = json["stopped"].as_str().unwrap();
    assert!(stopped.contains("there_is_no_such_library"), "{stopped}");
    let xml = fs::read_to_string(&junit).unwrap();
    assert!(
        xml.contains("errors=\"1\"") && xml.contains("there_is_no_such_library"),
        "{xml}"
    );
    let summary = fs::read_to_string(&summary).unwrap();
    assert!(
        summary.contains("Nothing was measured") && summary.contains("could not access file"),
        "{summary}"
    );
}

#[test]
fn what_is_no_guard_is_refused() {
    let runs = Runs::new("guard-refused");
    for (args, words) in [
        (&["temp"][..], "HEAD"),
        (&["temp", "temp", "--threshold", "p42=1%"], "p42"),
        (&["temp", "temp", "--no-such"], "--no-such"),
        (&["temp", "temp", "--bisect", "x.md"], "--source"),
        (&["a", "b", "--source", "/nowhere/at-all"], "git repository"),
    ] {
        let output = runs.run(&[&["guard"], args].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(words), "{args:?}: {said}");
    }
}

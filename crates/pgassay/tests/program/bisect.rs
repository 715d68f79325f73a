//! `pgassay bisect` from outside, against a real PostgreSQL.

use std::fs;

use serde_json::Value;

use crate::compare::assert_schema;
use crate::runs::{Runs, text};

/// An index that may not be used costs the most of a select-only transaction, so that few pairs show it.
const SHORT: &[&str] = &[
    "--scale",
    "1",
    "--clients",
    "1",
    "--time",
    "0.1",
    "--pairs",
    "10",
    "--seed",
    "3",
    "--set",
    "enable_bitmapscan=off",
    "--delta",
    "20%",
];

#[test]
fn the_setting_is_found_also_after_an_interruption() {
    let runs = Runs::new("bisect");
    fs::create_dir_all(&runs.0).unwrap();
    let conf = runs.0.join("b.conf");
    let b = "enable_indexscan = off\nenable_indexonlyscan = 'off' # and so on\ngeqo = off\n\
        deadlock_timeout 2s\nport = 7777\n";
    fs::write(&conf, b).unwrap();
    let conf = conf.to_str().unwrap();
    let typed = ["bisect", "default", conf, "--minutes", "0.1"];
    let first = runs.run(&[&typed[..], SHORT].concat());
    let said = text(&first.stderr);
    assert!(said.contains("4 settings differ"), "{said}");
    assert!(
        said.contains("a launched server has its own: port"),
        "{said}"
    );
    assert_eq!(first.status.code(), Some(5), "{said}");
    let output = runs.run(&["bisect", "--resume", "last", "--minutes", "30", "--json"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_schema(&json, "bisect-1.json");
    assert_eq!(json["conclusion"]["outcome"], "found");
    let causes = json["causes"].as_array().unwrap();
    let found: Vec<&str> = causes
        .iter()
        .map(|cause| {
            let number = cause["differences"][0].as_u64().unwrap() as usize;
            json["differences"][number]["name"].as_str().unwrap()
        })
        .collect();
    assert_eq!(found, ["enable_indexscan"]);
    assert!(json["conclusion"]["total"]["high"].as_f64().unwrap() < -0.3);
    assert!(said.contains("with one cause about"), "{said}");

    let report = runs.run(&["report", "last"]);
    let report = text(&report.stdout);
    assert!(report.contains("enable_indexscan"), "{report}");
    let again = runs.run(&["bisect", "--resume", "last"]);
    assert_eq!(again.status.code(), Some(2), "{}", text(&again.stderr));
}

#[test]
fn what_can_t_be_searched_is_refused_with_the_remedy() {
    let runs = Runs::new("bisect-refused");
    fs::create_dir_all(&runs.0).unwrap();
    let conf = runs.0.join("broken.conf");
    fs::write(&conf, "work_mem = 4MB\nwork_mem == 8MB nonsense\n").unwrap();
    let conf = conf.to_str().unwrap();
    let nonsense = ["--set-b", "no_such_setting=1"];
    for (args, code, words) in [
        (&["default", "default"][..], 2, "pgassay compare"),
        (&["default", "nowhere.conf"], 2, "postgresql.conf"),
        (&["default", conf], 2, "line 2"),
        (&["default"], 2, "2 values"),
        (&["default", conf, "--server", "host=db1"], 2, "build:NAME"),
        (
            &["default", "default", nonsense[0], nonsense[1]],
            3,
            "no_such_setting",
        ),
    ] {
        let output = runs.run(&[&["bisect"], args].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains(words), "{args:?}: {said}");
    }
}

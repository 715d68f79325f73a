//! What a launched server of `pgassay run` is given beside settings: an environment, a command around it.

use std::fs;

use serde_json::Value;

use crate::runs::{Runs, text};

/// One client for one short trial.
const SHORT: [&str; 12] = [
    "--clients",
    "1",
    "--trials",
    "1",
    "--time",
    "0.2",
    "--warmup",
    "0",
    "--scale",
    "1",
    "--observe",
    "none",
];

/// Statements of a server that has both variables: without them `printenv` fails, and so does the run.
const SCRIPT: &str = "\
-- @setup CREATE TABLE held (value text)
-- @setup COPY held FROM PROGRAM 'printenv PGASSAY_TRIED PGASSAY_WRAPPED'
-- @verify SELECT string_agg(value, ' ' ORDER BY value) = '1 2' FROM held
SELECT 1;
";

fn document(runs: &Runs, words: &[&str]) -> Value {
    let output = runs.run(words);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_server_is_started_with_variables_through_a_command() {
    let runs = Runs::new("given");
    fs::create_dir_all(&runs.0).unwrap();
    let script = runs.0.join("held.sql");
    fs::write(&script, SCRIPT).unwrap();
    let path = script.to_str().unwrap();
    let given = [
        "--env",
        "PGASSAY_TRIED=1",
        "--wrap",
        "env PGASSAY_WRAPPED=2",
    ];
    let words = [&["run", path, "--json"], &SHORT[..], &given].concat();
    let first = document(&runs, &words);
    let name = first["run"]["id"].as_str().unwrap();
    let again = document(&runs, &["run", "--repeat", name, "--json"]);
    for run in [&first, &again] {
        let arm = &run["arms"][0];
        assert_eq!(arm["environment"], serde_json::json!(["PGASSAY_TRIED=1"]));
        assert_eq!(arm["wrap"], "env PGASSAY_WRAPPED=2");
        let target = arm["target"].as_str().unwrap();
        assert!(
            target.ends_with(", with PGASSAY_TRIED=1, through env 'PGASSAY_WRAPPED=2'"),
            "{target}"
        );
        let warnings = run["warnings"].as_array().unwrap();
        assert!(
            warnings
                .iter()
                .all(|warning| warning["id"] != "not-verified"),
            "{warnings:?}"
        );
    }
    let report = text(&runs.run(&["report", name, "--format", "markdown"]).stdout);
    for words in ["environment asked for", "starting command asked for"] {
        assert!(report.contains(words), "{words}: {report}");
    }
}

#[test]
fn a_server_is_given_nothing_where_it_runs_already_or_two_would_choose() {
    let runs = Runs::new("given-refused");
    let refused = |words: &[&str]| {
        let output = runs.run(words);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
        assert!(!said.contains("server: "), "{said}");
        said
    };
    let running = ["run", "select-only", "host=nowhere", "--load"];
    for given in [["--env", "A=1"], ["--wrap", "env"]] {
        for words in [&running[..], &["assay", "host=nowhere"]] {
            let said = refused(&[words, &given].concat());
            assert!(
                said.contains("this one runs already") && said.contains("use a temp target"),
                "{said}"
            );
        }
    }
    let load = |given: &[&'static str]| refused(&[&["run", "select-only"], given].concat());
    assert!(load(&["--env", "A"]).contains("a variable is NAME=VALUE"));
    assert!(load(&["--wrap", "no-such-program x"]).contains("there is no program"));
    assert!(load(&["--pin", "--wrap", "env"]).contains("leave out the one or the other"));
    let nodes = load(&["--numa", "0,1", "--wrap", "env"]);
    assert!(nodes.contains("through another command"), "{nodes}");
    let kernels = refused(&["run", "kernels", "--wrap", "env"]);
    assert!(
        kernels.contains("--wrap does not apply to kernels"),
        "{kernels}"
    );
}

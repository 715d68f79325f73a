//! `pgassay diagnose --reference`: something planted in a server that no rule knows, named and proved by
//! a throw-away server beside it.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::runs::{Runs, text};

/// Spends CPU time at the start of each statement.
const PLANTED: &str = r#"
#include "postgres.h"
#include "executor/executor.h"
#include "fmgr.h"

PG_MODULE_MAGIC;

void _PG_init(void);

static void
spend(QueryDesc *query, int flags)
{
    volatile double x = 1.0;

    for (int i = 0; i < 1000000; i++)
        x = x * 1.0000001;
    standard_ExecutorStart(query, flags);
}

void
_PG_init(void)
{
    ExecutorStart_hook = spend;
}
"#;

/// Compiles it; the library's path.
fn planted(dir: &Path) -> String {
    let source = dir.join("planted.c");
    let library = dir.join("planted.so");
    fs::write(&source, PLANTED).unwrap();
    let headers = Command::new("pg_config")
        .arg("--includedir-server")
        .output();
    let headers = headers.expect("pg_config");
    let output = Command::new("cc")
        .args([
            "-shared",
            "-fPIC",
            "-O1",
            "-I",
            text(&headers.stdout).trim(),
            "-o",
        ])
        .args([&library, &source])
        .output()
        .expect("cc");
    assert!(output.status.success(), "{}", text(&output.stderr));
    library.display().to_string()
}

fn json(runs: &Runs, words: &[&str]) -> Value {
    let output = runs.run(words);
    assert!(
        output.status.success(),
        "{words:?}: {}",
        text(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

fn ids(diagnosis: &Value) -> Vec<&str> {
    let findings = diagnosis["findings"].as_array().unwrap();
    findings.iter().filter_map(|f| f["id"].as_str()).collect()
}

#[test]
fn a_library_that_no_rule_knows_is_named_and_proved() {
    let runs = Runs::new("reference");
    // Before the program makes it for its own eyes: the server's account reads the library.
    fs::create_dir(&runs.0).unwrap();
    let library = planted(&runs.0);
    let preload = format!("shared_preload_libraries={library}");
    let measured = runs.run(&[
        "run",
        "select-only",
        "temp",
        "--set",
        &preload,
        "--set",
        "work_mem=5MB",
        "--clients",
        "2",
        "--trials",
        "2",
        "--time",
        "0.5",
        "--warmup",
        "0.1",
        "--scale",
        "1",
        "--observe",
        "all",
    ]);
    assert!(measured.status.success(), "{}", text(&measured.stderr));
    let plain = json(&runs, &["diagnose", "last", "--json"]);
    assert!(
        !ids(&plain)
            .iter()
            .any(|id| id.contains("shared_preload_libraries")),
        "{:?}",
        ids(&plain)
    );

    let diagnosis = json(&runs, &["diagnose", "last", "--reference", "--json"]);
    let reference = &diagnosis["reference"];
    assert!(
        reference["faster"]["low"].as_f64().unwrap() > 1.0,
        "{reference:#}"
    );
    assert_eq!(
        ids(&diagnosis)[0],
        "differs-from-reference/shared_preload_libraries",
        "{reference:#}"
    );
    assert!(
        !ids(&diagnosis).contains(&"differs-from-reference/work_mem"),
        "{reference:#}"
    );
    let proved = &diagnosis["findings"][0];
    let remedy = proved["remedy"][0]["text"].as_str().unwrap();
    assert!(
        remedy.contains("take -c shared_preload_libraries")
            || remedy.contains("shared_preload_libraries="),
        "{remedy}"
    );
    // Together, then each alone.
    assert_eq!(
        reference["tried"].as_array().unwrap().len(),
        3,
        "{reference:#}"
    );
    let sampled = !diagnosis["not_seen"].to_string().contains("no CPU samples");
    if sampled {
        let named = &reference["named"][0];
        assert_eq!(
            (named["kind"].as_str(), named["name"].as_str()),
            (Some("library"), Some("planted.so"))
        );
        let words = named["words"].as_str().unwrap();
        assert!(
            words.ends_with("lies in planted.so, of which no sample lies at the reference."),
            "{words}"
        );
    }
}

//! `pgassay diagnose --perf`: the program from outside over profiles of other machines.

use std::fs;
use std::path::{Path, PathBuf};

use crate::schema::assert_schema;
use assert_cmd::Command;
use serde_json::Value;

fn profile(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../results/analysis/tests/profiles")
        .join(name)
}

fn pgassay(args: &[&str]) -> Command {
    let mut command = Command::cargo_bin("pgassay").unwrap();
    command.arg("diagnose").args(args).env("COLUMNS", "100");
    command
}

fn document(args: &[&str]) -> Value {
    let output = pgassay(args)
        .arg("--json")
        .assert()
        .success()
        .get_output()
        .stdout
        .clone();
    let document: Value = serde_json::from_slice(&output).unwrap();
    assert_schema(&document, "diagnosis-1.json");
    document
}

#[test]
fn the_published_listings_lead_to_their_causes() {
    let before = profile("power8-before.txt");
    let after = profile("power8-after.txt");
    let before = before.to_str().unwrap();
    let diagnosis = document(&["--perf", before, "--server-version", "9.4"]);
    assert_eq!(diagnosis["findings"][0]["id"], "buffer-header-spinlock");
    assert_eq!(diagnosis["findings"][1]["id"], "snapshot-scalability");
    let diagnosis = document(&["--perf", after.to_str().unwrap(), "--server-version", "9.4"]);
    assert_eq!(diagnosis["findings"][0]["id"], "snapshot-scalability");
    assert_eq!(diagnosis["version_num"], 90_400);

    let compared = document(&["--perf", after.to_str().unwrap(), "--against", before]);
    assert_eq!(compared["difference"]["functions"][0]["of"], "s_lock");
    assert!(compared["flame"]["roots"].as_array().unwrap().len() > 5);

    let text = pgassay(&["--perf", before, "--server-version", "9.4"])
        .assert()
        .success();
    let text = String::from_utf8(text.get_output().stdout.clone()).unwrap();
    for expected in [
        "buffer header spinlock",
        "lock-free",
        "9.6",
        "48354581a4",
        "32.1%",
        "1.47 times",
    ] {
        assert!(
            text.replace('\n', " ").contains(expected),
            "{expected}\n{text}"
        );
    }
    for format in ["html", "markdown"] {
        let page = pgassay(&["--perf", before, "--format", format])
            .assert()
            .success();
        let page = String::from_utf8(page.get_output().stdout.clone()).unwrap();
        assert!(page.contains("buffer header spinlock"), "{page}");
    }
}

#[test]
fn what_is_no_profile_is_said_to_be_none() {
    for (name, bytes, said) in [
        ("empty", &b""[..], "neither the output of `perf script`"),
        ("binary", b"PERFILE2\0\0\xff", "perf script -i"),
        ("noise", b"\xff\xfe\x00garbage\nmore", "neither the output"),
        ("zero", b" 0.00% postgres [.] s_lock\n", "no sample"),
    ] {
        let path =
            std::env::temp_dir().join(format!("pgassay-profile-{name}-{}", std::process::id()));
        fs::write(&path, bytes).unwrap();
        let assert = pgassay(&["--perf", path.to_str().unwrap()])
            .assert()
            .code(2);
        let error = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
        assert!(error.contains(said), "{name}: {error}");
        fs::remove_file(path).unwrap();
    }
    pgassay(&["--perf", "/no/such/file"]).assert().code(2);
    pgassay(&["--perf", "x", "--server-version", "new"])
        .assert()
        .code(2);
    pgassay(&["--perf", "-"])
        .write_stdin(" 12.5% postgres [.] GetSnapshotData\n")
        .assert()
        .success();
}

//! `pgassay doctor` from outside. Its `--fix` meets a planted `sh` that only writes down what it
//! would have run.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use crate::schema::assert_schema;
use serde_json::Value;

struct Room(PathBuf);

impl Room {
    /// A place with a directory `bin` that holds nothing but a `sh` that notes its arguments.
    fn new(name: &str) -> Self {
        let dir =
            std::env::temp_dir().join(format!("pgassay-doctor-{name}-{}", std::process::id()));
        fs::remove_dir_all(&dir).ok();
        fs::create_dir_all(dir.join("bin")).unwrap();
        for program in ["sh", "sudo"] {
            let path = dir.join("bin").join(program);
            let noted = dir.join("noted");
            let script = format!("#!/bin/sh\necho \"$@\" >> {}\n", noted.display());
            fs::write(&path, script).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        Self(dir)
    }

    fn doctor(&self, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_pgassay"))
            .arg("doctor")
            .args(args)
            .env("PATH", self.0.join("bin"))
            .env("PGASSAY_RUNS", self.0.join("runs"))
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    fn json(&self, args: &[&str]) -> Value {
        let output = self.doctor(&[&["--json"], args].concat());
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn noted(&self) -> String {
        fs::read_to_string(self.0.join("noted")).unwrap_or_default()
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

fn finding<'d>(document: &'d Value, id: &str) -> &'d Value {
    let findings = document["findings"].as_array().unwrap();
    findings
        .iter()
        .find(|finding| finding["id"] == id)
        .unwrap_or_else(|| panic!("{id}: {document}"))
}

#[test]
fn every_part_is_judged_as_the_schema_says() {
    let room = Room::new("json");
    let document = room.json(&[]);
    assert_schema(&document, "doctor-1.json");
    // The tests' own PostgreSQL is found without PATH, and with its headers.
    assert_eq!(document["can_launch"], true, "{document}");
    assert_eq!(finding(&document, "postgresql")["state"], "ok");
    for id in [
        "user",
        "extension",
        "scratch",
        "runs",
        "perf",
        "io_uring",
        "huge_pages",
        "ptrace",
    ] {
        assert!(finding(&document, id)["found"].as_str().unwrap().len() > 1);
    }
    // Not in this PATH: with what needs it, and the line that installs it.
    let valgrind = finding(&document, "valgrind");
    assert_eq!(valgrind["state"], "optional");
    assert!(valgrind["affects"].as_str().unwrap().contains("compare"));
    assert!(valgrind["fix"].as_str().unwrap().contains("valgrind"));
}

#[test]
fn where_runs_cannot_be_kept_it_says_so_and_ends_with_3() {
    let room = Room::new("runs");
    let output = room.doctor(&["--json", "--runs", "/proc/sys/no-such"]);
    assert_eq!(output.status.code(), Some(3));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let runs = finding(&document, "runs");
    assert_eq!(runs["state"], "broken");
    assert!(runs["advice"].as_str().unwrap().contains("--runs"));
}

#[test]
fn text_shows_the_same_and_how_to_mend_it() {
    let room = Room::new("text");
    let output = room.doctor(&[]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("optional  valgrind    not installed"),
        "{text}"
    );
    assert!(text.contains("mend: "), "{text}");
    assert!(text.contains("pgassay doctor --fix"), "{text}");
    assert_eq!(room.noted(), "");
}

#[test]
fn nothing_is_run_without_consent() {
    let room = Room::new("asks");
    let output = room.doctor(&["--fix"]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("--yes"), "{stderr}");
    assert_eq!(room.noted(), "");
    for args in [&["--yes"][..], &["--fix", "--json"]] {
        assert_eq!(room.doctor(args).status.code(), Some(2), "{args:?}");
    }
    assert_eq!(room.noted(), "");
}

#[test]
fn with_consent_each_line_is_run_once() {
    let room = Room::new("fixes");
    let fixes: Vec<String> = room.json(&[])["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|finding| finding["id"] != "quiet")
        .filter_map(|finding| finding["fix"].as_str().map(str::to_owned))
        .collect();
    assert!(!fixes.is_empty());
    let output = room.doctor(&["--fix", "--yes"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    for fix in fixes {
        let noted = room.noted();
        assert_eq!(noted.matches(&fix).count(), 1, "{fix}: {noted}");
    }
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("Afterwards:"), "{text}");
}

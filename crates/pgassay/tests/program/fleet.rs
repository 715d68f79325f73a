//! `pgassay fleet` over files that servers' facts are in, and over what strangers put beside them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::schema::assert_schema;
use assert_cmd::Command;
use serde_json::{Value, json};

use crate::lying_pages::{LIES, lying};
use crate::runs::Runs;
use crate::serve;

/// A directory that goes with the test.
struct Fleet(PathBuf);

impl Fleet {
    fn new(name: &str) -> Self {
        let name = format!("pgassay-test-fleet-{name}-{}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir(&dir).unwrap();
        Self(dir)
    }

    fn put(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Puts a host of the recorded server.
    fn host(&self, name: &str, change: impl FnOnce(&mut Value)) {
        self.put(name, facts(change).to_string());
    }

    fn run(&self, words: &[&str]) -> (i32, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pgassay"));
        let output = command
            .arg("fleet")
            .arg(&self.0)
            .args(words)
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let code = output.status.code().unwrap();
        (code, text(output.stdout), text(output.stderr))
    }

    fn json(&self) -> (i32, Value) {
        let (code, out, err) = self.run(&["--json"]);
        let document = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {err}"));
        (code, document)
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn facts(change: impl FnOnce(&mut Value)) -> Value {
    let path = "../results/analysis/tests/check/recorded/arm64-llsc.json";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let mut facts = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    change(&mut facts);
    facts
}

fn set(facts: &mut Value, name: &str, value: &str) {
    let answer = &mut facts["server"]["settings"]["text"];
    let mut rows: Vec<Value> = serde_json::from_str(answer.as_str().unwrap()).unwrap();
    let row = rows.iter_mut().find(|row| row["name"] == name).unwrap();
    row["setting"] = value.into();
    *answer = serde_json::to_string(&rows).unwrap().into();
}

fn is_machine(facts: &mut Value, identity: &str) {
    facts["host"]["identity of the machine"] = json!({ "text": identity });
}

fn strings(list: &Value) -> Vec<&str> {
    let list = list.as_array().unwrap();
    list.iter().map(|item| item.as_str().unwrap()).collect()
}

/// Eight hosts of one kind: what was planted is found on the hosts on which it was, and nowhere else.
#[test]
fn planted_findings_and_odd_hosts_are_found() {
    let fleet = Fleet::new("planted");
    for n in 0..8 {
        fleet.host(&format!("db{n}.json"), |facts| {
            is_machine(facts, &format!("{n}"));
            if n == 3 || n == 5 {
                set(facts, "fsync", "off");
            }
            if n == 6 {
                facts["host"]["/proc/sys/kernel/osrelease"] = json!({ "text": "5.4.0-odd" });
            }
        });
    }
    let (code, document) = fleet.json();
    assert_eq!(code, 0);
    let findings = document["findings"].as_array().unwrap();
    let fsync = findings
        .iter()
        .find(|finding| finding["id"] == "fsync-off")
        .unwrap();
    assert_eq!(strings(&fsync["on"]), ["db3", "db5"]);
    assert_eq!(fsync["hosts"], json!({ "n": 2, "of": 8 }));
    let kinds = document["kinds"].as_array().unwrap();
    assert_eq!(kinds.len(), 1);
    let odd = kinds[0]["odd"].as_array().unwrap();
    assert_eq!(odd.len(), 1, "{odd:?}");
    assert_eq!(odd[0]["name"], "kernel");
    assert_eq!(odd[0]["value"], "5.4.0-odd");
    assert_eq!(strings(&odd[0]["on"]), ["db6"]);

    assert_schema(&document, "fleet-1.json");

    let (_, text, err) = fleet.run(&["-v"]);
    assert!(
        text.contains("5.4.0-odd") && text.contains("fsync-off"),
        "{text}"
    );
    assert!(err.contains("next: pgassay check"), "{err}");
    let (code, page, _) = fleet.run(&["--format", "html"]);
    assert!(code == 0 && page.contains("id=\"finding-fsync-off\""));
    let (_, rows, _) = fleet.run(&["--format", "csv"]);
    assert_eq!(rows.lines().count(), 9);
    assert_eq!(fleet.run(&["--fail-on", "high"]).0, 1);
}

/// However the directories of hosts are named that record no identity, each host is one.
#[test]
fn hosts_without_an_identity_stay_as_many_as_they_are() {
    let fleet = Fleet::new("roots");
    for name in ["eu/db1", "us/db1", "fetched/n1/facts", "fetched/n2/facts"] {
        fleet.host(&format!("{name}.json"), |facts| {
            let host = facts["host"].as_object_mut().unwrap();
            host.remove("identity of the machine");
        });
    }
    let names = |dir: &str, paths: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_pgassay"))
            .current_dir(fleet.0.join(dir))
            .arg("fleet")
            .args(paths)
            .arg("--json")
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(document["superseded"], json!([]), "{dir}: {paths:?}");
        let hosts = document["hosts"].as_array().unwrap();
        let names = hosts.iter().map(|host| host["name"].as_str().unwrap());
        names.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(
        names("", &["eu/", "us"]),
        ["db1 (eu/db1.json)", "db1 (us/db1.json)"]
    );
    let files = ["fetched/n1/facts.json", "fetched/n2/facts.json"];
    assert_eq!(names("", &files), ["n1", "n2"]);
    assert_eq!(names("", &["fetched/n1", "./fetched/n2/"]), ["n1", "n2"]);
    assert_eq!(names("", &["fetched"]), ["n1", "n2"]);
    assert_eq!(names("fetched/n1", &[".", "../n2"]), ["n1", "n2"]);
    assert_eq!(names("fetched/n1", &["facts.json"]), ["n1"]);
}

/// A host's newest collection counts, whatever the files are called.
#[test]
fn of_two_collections_of_a_host_the_newest_counts() {
    let fleet = Fleet::new("newest");
    for (file, day, fsync) in [("db1.json", "02", "on"), ("again/x.json", "01", "off")] {
        fleet.host(file, |facts| {
            is_machine(facts, "the same");
            facts["collected"] = format!("2026-11-{day}T00:00:00.000Z").into();
            set(facts, "fsync", fsync);
        });
    }
    let (code, document) = fleet.json();
    assert_eq!(code, 0);
    assert_eq!(document["hosts"].as_array().unwrap().len(), 1);
    assert_eq!(document["hosts"][0]["name"], "db1");
    assert!(!document["findings"].to_string().contains("fsync-off"));
    let superseded = document["superseded"].as_array().unwrap();
    assert_eq!(superseded.len(), 1);
    assert!(
        superseded[0]["place"]
            .as_str()
            .unwrap()
            .ends_with("again/x.json")
    );
    let (_, _, err) = fleet.run(&[]);
    assert!(err.contains("1 collection does not count"), "{err}");
}

/// Whatever lies beside hosts is named and left out, and nothing of it reaches the terminal as it is.
#[test]
fn files_of_strangers_end_nothing_and_are_named() {
    let fleet = Fleet::new("strangers");
    fleet.host("db1.json", |_| {});
    let whole = facts(|_| {}).to_string();
    fleet.put("cut.json", &whole[..whole.len() / 2]);
    fleet.put("empty.json", "");
    fleet.put("nested.json", "[".repeat(100_000));
    fleet.put("binary.json", [0xff; 64]);
    fleet.put(
        "newer.json",
        whole.replace("pgassay/facts/1", "pgassay/facts/9"),
    );
    fleet.put("report.html", "<html>");
    fleet.put("check.json", "{\"schema\": \"pgassay/check/1\"}");
    fleet.put("\u{1b}[31m\u{202e}.json", "{");
    fleet.put("packed.json.gz", "");
    fleet.put("run/run.json", "{\"format\": 99}");
    fleet.put(".hidden/db2.json", &whole);
    fleet.host("wild.json", |facts| {
        is_machine(facts, "\u{1b}]0;x\u{7}");
        facts["target"] = "\u{1b}[2J".into();
        facts["collected"] = "\u{1b}[2J".into();
        facts["host"]["/proc/sys/kernel/osrelease"] = json!({ "text": "\u{1b}[31m<script>" });
    });
    symlink("db1.json", fleet.0.join("link.json")).unwrap();
    symlink("/", fleet.0.join("root")).unwrap();
    let mode = rustix::fs::Mode::RUSR;
    let fifo = fleet.0.join("fifo.json");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();

    let (code, document) = fleet.json();
    assert_eq!(code, 4, "files that may be hosts' are missing");
    let hosts = document["hosts"].as_array().unwrap();
    let names: Vec<&Value> = hosts.iter().map(|host| &host["name"]).collect();
    assert_eq!(names, ["db1", "wild"]);
    let counts = document["left_out_counts"].as_array().unwrap();
    let counted = |of: &str| {
        let of = counts.iter().find(|count| count[0] == of);
        of.map_or(0, |count| count[1].as_u64().unwrap())
    };
    let seen = ["foreign", "damaged", "newer", "no-file", "unreadable"].map(counted);
    // A run of a newer pgassay can't be told from a damaged one by what reading it says.
    assert_eq!(seen, [2, 6, 1, 3, 1], "{counts:?}");

    for format in ["text", "json", "html", "markdown", "csv"] {
        let (_, out, err) = fleet.run(&["--format", format]);
        for bad in ['\u{1b}', '\u{7}', '\u{202e}'] {
            assert!(
                !out.contains(bad) && !err.contains(bad),
                "{format}: {bad:?}"
            );
        }
        assert!(format != "html" || !out.contains("31m<script>"));
    }
}

/// A run is as large as all that is read of it: no part may be, and not all together.
#[test]
fn runs_that_are_too_large_are_left_out() {
    let fleet = Fleet::new("large");
    fleet.host("db1.json", |_| {});
    // With holes: they take no room on the disk.
    let grow = |name: &str, mib: u64| {
        fleet.put(name, "");
        let file = fs::OpenOptions::new().write(true).open(fleet.0.join(name));
        file.unwrap().set_len(mib << 20).unwrap();
    };
    for run in ["events", "facts", "page"] {
        fleet.put(&format!("{run}/run.json"), "{}");
    }
    grow("events/events.jsonl", 129);
    for n in 0..4 {
        grow(&format!("facts/facts/binary-{n}.json"), 33);
    }
    // It is not read.
    grow("page/report.html", 129);
    let (code, document) = fleet.json();
    assert_eq!(code, 4);
    let left_out = document["left_out"].as_array().unwrap();
    let mut why: Vec<(String, &str)> = left_out
        .iter()
        .map(|out| {
            let place = Path::new(out["place"].as_str().unwrap());
            let run = place.file_name().unwrap().to_str().unwrap();
            (run.to_owned(), out["because"].as_str().unwrap())
        })
        .collect();
    why.sort();
    let expected = [
        ("events", "too-large"),
        ("facts", "too-large"),
        ("page", "damaged"),
    ];
    assert_eq!(
        why,
        expected.map(|(run, because)| (run.to_owned(), because))
    );
    let because = left_out[1]["why"].as_str().unwrap();
    assert_eq!(because, "its files have 132 MiB; up to 128 are read");
}

#[test]
fn a_directory_without_hosts_is_the_users_to_mend() {
    let fleet = Fleet::new("none");
    fleet.put("notes.txt", "hello");
    let (code, _, err) = fleet.run(&[]);
    assert_eq!(code, 2, "{err}");
    assert!(
        err.contains("notes.txt") && err.contains("pgassay collect"),
        "{err}"
    );
    let output = Command::new(env!("CARGO_BIN_EXE_pgassay"))
        .args(["fleet", "/nonexistent"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
}

/// What of a document says where it was read from.
fn without_source(mut document: Value) -> Value {
    for host in document["hosts"].as_array_mut().unwrap() {
        for key in ["place", "source"] {
            host[key].take();
        }
    }
    for old in document["superseded"].as_array_mut().unwrap() {
        for key in ["place", "by"] {
            old[key].take();
        }
    }
    document
}

/// Eight hosts with two runs each, real ones with an audit beside them: from the runs' directories and from
/// the tables that `export` made of them the answer is the same.
#[test]
fn hosts_in_tables_are_those_of_the_runs() {
    let recorded = Runs::new("fleet-tables");
    let run = serve::measured(&recorded);
    let fleet = Fleet::new("of-runs");
    let tables = Fleet::new("of-tables");
    let place = tables.0.join("years");
    for n in 0..8 {
        for (day, fsync) in [(20, "off"), (21, if n == 3 { "off" } else { "on" })] {
            let id = format!("202611{day}T00000{n}Z-select-only-aaaa");
            let to = fleet.0.join(format!("db{n}/runs/{id}"));
            serve::copy(&run, &to);
            let header = fs::read(to.join("run.json")).unwrap();
            let mut header: Value = serde_json::from_slice(&header).unwrap();
            header["id"] = id.into();
            header["started"] = format!("2026-11-{day}T00:00:0{n}.000Z").into();
            fs::write(to.join("run.json"), header.to_string()).unwrap();
            let audit = facts(|facts| {
                // One in two says which machine it is, and the others are known by their names.
                match n % 2 {
                    0 => is_machine(facts, &format!("{n}")),
                    _ => drop(
                        facts["host"]
                            .as_object_mut()
                            .unwrap()
                            .remove("identity of the machine"),
                    ),
                }
                set(facts, "fsync", fsync);
                if n == 6 {
                    facts["host"]["/proc/sys/kernel/osrelease"] = json!({ "text": "5.4.0-odd" });
                }
            });
            fs::write(to.join("facts/check.json"), audit.to_string()).unwrap();
        }
        let of_host = fleet.0.join(format!("db{n}"));
        let words = [
            "export",
            of_host.join("runs").to_str().unwrap(),
            "--parquet",
            place.to_str().unwrap(),
            "--host",
        ]
        .map(str::to_owned);
        let output = Command::new(env!("CARGO_BIN_EXE_pgassay"))
            .args(words)
            .arg(format!("db{n}"))
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
    }
    let (code, of_runs) = fleet.json();
    assert_eq!(code, 0);
    let (code, of_tables) = tables.json();
    assert_eq!(code, 0);
    let findings = of_tables["findings"].as_array().unwrap();
    let fsync = findings.iter().find(|finding| finding["id"] == "fsync-off");
    let fsync = fsync.expect("it was planted");
    assert_eq!(strings(&fsync["on"]), ["db3"]);
    assert_eq!(fsync["hosts"], json!({ "n": 1, "of": 8 }));
    let odd = of_tables["kinds"][0]["odd"].as_array().unwrap();
    assert!(odd.iter().any(|odd| odd["value"] == "5.4.0-odd"), "{odd:?}");
    assert_eq!(of_tables["hosts"][0]["source"], "tables");
    assert_eq!(of_tables["superseded"].as_array().unwrap().len(), 8);
    assert_eq!(without_source(of_runs), without_source(of_tables.clone()));

    // Beside a newer collection of a host its run in the tables is the older one.
    tables.host("db0.json", |facts| {
        is_machine(facts, "0");
        facts["collected"] = "2026-11-22T00:00:00.000Z".into();
    });
    let (_, both) = tables.json();
    let hosts = both["hosts"].as_array().unwrap();
    let db0 = hosts.iter().find(|host| host["name"] == "db0").unwrap();
    assert_eq!((hosts.len(), &db0["source"]), (8, &json!("facts")));
    fs::remove_file(tables.0.join("db0.json")).unwrap();

    // Strangers' tables are whole and in bounds, or none of them counts.
    let file = |table: &str| place.join(format!("{table}/date=2026-11-21/{table}.parquet"));
    let refused = |because: &str| {
        let (code, _, err) = tables.run(&[]);
        assert_eq!(code, 2, "{err}");
        assert!(err.contains(because), "{because}: {err}");
        assert!(!err.contains("panicked"), "{err}");
    };
    for table in ["runs", "hosts", "audits", "findings", "traits"] {
        let whole = fs::read(file(table)).unwrap();
        for bad in [&b""[..], &whole[..whole.len() / 2], &[0; 4096]] {
            fs::write(file(table), bad).unwrap();
            refused(&format!("{table}.parquet"));
        }
        // Headers and pages that lie.
        for n in 0..40 {
            let mut lying = whole.clone();
            let at = match n % 2 {
                0 => 4 + n * 7,
                _ => whole.len() - 9 - n * 13,
            };
            lying[at.min(whole.len() - 5)] ^= 0xff;
            fs::write(file(table), lying).unwrap();
            let (code, _, err) = tables.run(&["--json"]);
            assert!(matches!(code, 0 | 2), "{table} {n}: {code} {err}");
            assert!(!err.contains("panicked"), "{table} {n}: {err}");
        }
        for (size, values, said) in LIES {
            fs::write(file(table), lying(&whole, size, values)).unwrap();
            refused(said);
        }
        fs::write(file(table), &whole).unwrap();
    }
    let elsewhere = fleet.0.join("hosts.parquet");
    fs::rename(file("hosts"), &elsewhere).unwrap();
    symlink(&elsewhere, file("hosts")).unwrap();
    refused("a link");
    fs::remove_file(file("hosts")).unwrap();
    // As if an older pgassay had exported that day.
    let (code, _, err) = tables.run(&[]);
    assert_eq!(code, 4, "{err}");
    let (_, document) = tables.json();
    let why = document["left_out"][0]["why"].as_str().unwrap();
    assert!(
        why.contains("exported 8 runs") && why.contains("export them again"),
        "{why}"
    );
}

//! `pgassay check` and `pgassay collect` against a real server and against files.

use std::fs;
use std::path::PathBuf;

use crate::captured::pgassay;
use crate::runs::Reachable;
use crate::schema::assert_schema;
use pgassay::Exit;
use pgassay_pgwire::fake::{FakeServer, Step, say};
use serde_json::Value;

/// A directory that goes with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let name = format!("pgassay-test-check-{name}-{}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir(&dir).unwrap();
        Self(dir)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What a rule said in a document.
fn outcome<'v>(document: &'v Value, rule: &str) -> &'v str {
    let results = document["results"].as_array().unwrap();
    let found = results.iter().find(|r| r["id"] == rule);
    found.unwrap_or_else(|| panic!("{rule} is missing"))["outcome"]
        .as_str()
        .unwrap()
}

/// A server set badly on purpose, collected, and checked from the file alone.
#[test]
fn a_badly_set_server_is_seen_through_its_file() {
    let scratch = Scratch::new("real");
    let file = scratch.file("facts.json");
    let settings = [
        "fsync=off",
        "jit_above_cost=0",
        "log_min_duration_statement=0",
        "max_connections=600",
        "shared_buffers=64MB",
        "wal_buffers=64kB",
        "primary_conninfo=host=nowhere password=hunter2",
    ];
    let mut line = vec!["collect", "--output", &file];
    for setting in &settings {
        line.extend(["--set", setting]);
    }
    let (exit, out, err) = pgassay(&line);
    assert_eq!(exit, Exit::Done, "{err}");
    assert_eq!(out, "");
    let text = fs::read_to_string(&file).unwrap();
    assert!(!text.contains("hunter2"), "a secret is in the file");
    let facts: Value = serde_json::from_str(&text).unwrap();
    assert_schema(&facts, "facts-1.json");

    let (exit, out, err) = pgassay(&["check", &file, "--json"]);
    assert_eq!(exit, Exit::Done, "{err}");
    let document: Value = serde_json::from_str(&out).unwrap();
    assert_schema(&document, "check-1.json");
    for rule in [
        "fsync-off",
        "jit-small-queries",
        "statement-logging",
        "max-connections-unused",
        "wal-buffers-full",
    ] {
        assert_eq!(outcome(&document, rule), "finding", "{rule}");
    }
    for rule in [
        "assertions",
        "full-page-writes-off",
        "snapshot-scalability",
        "executable-replaced",
        "traced",
        "replica-identity-full",
        "swollen-table",
    ] {
        assert_eq!(outcome(&document, rule), "passed", "{rule}");
    }
    // The gravest comes first.
    assert_eq!(document["results"][0]["finding"]["severity"], "high");

    let (exit, out, _) = pgassay(&["check", &file, "--fail-on", "high"]);
    assert_eq!(exit, Exit::Found);
    assert!(out.contains("fsync = off"), "{out}");
    // A server that pgassay launches gets its settings on the command line, which overrules files.
    assert!(
        out.contains("-c fsync=on") && !out.contains("SYSTEM SET fsync"),
        "{out}"
    );
    let (exit, out, _) = pgassay(&["check", &file, "--fail-on", "info", "--only", "assertions"]);
    assert_eq!(exit, Exit::Done, "only what is asked for counts: {out}");

    let html = scratch.file("check.html");
    let (exit, _, err) = pgassay(&["check", &file, "--html", &html]);
    assert_eq!(exit, Exit::Done, "{err}");
    let page = fs::read_to_string(&html).unwrap();
    assert!(page.contains("fsync = off") && !page.contains("<script>"));

    // A directory of files is checked file by file.
    fs::copy(&file, scratch.file("other.json")).unwrap();
    fs::write(scratch.file("unrelated.json"), "{}").unwrap();
    let (exit, out, err) = pgassay(&["check", scratch.0.to_str().unwrap(), "--json"]);
    assert_eq!(exit, Exit::Done, "{err}");
    assert_eq!(out.lines().count(), 2, "one document a line");
}

/// Without a server its rules could not see, and the host's rules judge.
#[test]
fn the_host_alone_is_checked_without_a_server() {
    let (exit, out, err) = pgassay(&["check", "--host", "--json"]);
    assert_eq!(exit, Exit::Done, "{err}");
    let document: Value = serde_json::from_str(&out).unwrap();
    assert_schema(&document, "check-1.json");
    assert_eq!(document["place"]["server"], "no_server");
    assert_eq!(outcome(&document, "assertions"), "could-not-see");
    assert_ne!(
        outcome(&document, "transparent-huge-pages"),
        "could-not-see"
    );
    let (_, out, _) = pgassay(&["check", "--host", "--all"]);
    assert!(out.starts_with("Check of this host"), "{out}");
    assert!(out.contains("What could not be seen"), "{out}");
}

#[test]
fn bottlenecks_are_listed_and_explained() {
    let (exit, list, _) = pgassay(&["check", "--list"]);
    assert_eq!(exit, Exit::Done);
    for entry in pgassay_analysis::check::audited() {
        assert!(list.contains(entry.id), "{}", entry.id);
    }
    for entry in pgassay_analysis::bottlenecks::ENTRIES {
        let (exit, page, _) = pgassay(&["check", "--explain", entry.id]);
        assert_eq!(exit, Exit::Done);
        assert!(page.contains(entry.why) && page.contains("## References"));
    }
    let (exit, _, err) = pgassay(&["check", "--host", "--only", "hot-row"]);
    assert_eq!(exit, Exit::Usage);
    assert!(err.contains("pgassay diagnose"), "{err}");
    let (exit, _, err) = pgassay(&["check", "--explain", "huge-pags"]);
    assert_eq!(exit, Exit::Usage);
    assert!(err.contains("--list"), "{err}");
    let (exit, _, _) = pgassay(&["check", "--host", "--only", "nonsense"]);
    assert_eq!(exit, Exit::Usage);
}

/// A page that sends its reader to a workload names one that there is.
#[test]
fn bottlenecks_are_measured_by_workloads_that_exist() {
    let inside = pgassay_engine::workload::inserver::names();
    for entry in pgassay_analysis::bottlenecks::ENTRIES {
        for workload in entry.measured_by {
            let known = inside.contains(workload) || ["pgio", "scattered-read"].contains(workload);
            assert!(known, "{}: {workload}", entry.id);
        }
        let loads = entry.expected_under.iter().chain(entry.caused_by_workload);
        for workload in loads {
            let found = pgassay_engine::workload::find(&[workload]);
            assert!(found.is_ok(), "{}: {workload}", entry.id);
        }
    }
}

#[test]
fn files_that_are_no_facts_are_named() {
    let scratch = Scratch::new("bad");
    let cases: &[(&str, &[u8], &str)] = &[
        ("empty.json", b"", "is no file of collected facts"),
        ("elf.json", b"\x7fELF\x02\x01", "is no file of collected facts"),
        ("array.json", b"[1,2]", "is no file of collected facts"),
        (
            "future.json",
            br#"{"schema":"pgassay/facts/9","pgassay_version":"","collected":"","target":"","place":{"server":"no_server"}}"#,
            "pgassay/facts/9",
        ),
    ];
    for (name, bytes, says) in cases {
        let path = scratch.file(name);
        fs::write(&path, bytes).unwrap();
        let (exit, out, err) = pgassay(&["check", &path]);
        assert_eq!(exit, Exit::Usage, "{name}: {out}{err}");
        assert!(err.contains(says) && err.contains(name), "{name}: {err}");
    }
    let (exit, _, err) = pgassay(&["check", "no-such-target"]);
    assert_eq!(exit, Exit::Usage, "{err}");
}

/// Attack D1: `collect -o` and `check --html` put a regular file in place of a FIFO, and removed
/// FILE.tmp. As root, and as an ordinary user from a directory that takes no new file.
#[test]
fn output_is_written_through_what_is_no_file() {
    use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
    let place = Scratch::new("through");
    fs::write(place.file("notes.tmp"), "precious").unwrap();
    let (exit, _, said) = pgassay(&["check", "--host", "--html", &place.file("notes.html")]);
    assert_eq!(exit, Exit::Done, "{said}");
    assert_eq!(fs::read(place.file("notes.tmp")).unwrap(), b"precious");

    let fifo = place.file("fifo");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let reader = {
        let fifo = fifo.clone();
        std::thread::spawn(move || fs::read_to_string(fifo).unwrap())
    };
    let (exit, _, said) = pgassay(&["collect", "--host", "-o", &fifo]);
    // A reader that would wait for ever is let go before anything is asserted.
    if !fs::symlink_metadata(&fifo).unwrap().file_type().is_fifo() {
        panic!("the FIFO was replaced");
    }
    assert_eq!(exit, Exit::Done, "{said}");
    assert!(reader.join().unwrap().contains("\"pgassay/facts/"));

    fs::write(place.file("target"), "old").unwrap();
    symlink("target", place.file("link")).unwrap();
    let (exit, _, said) = pgassay(&["collect", "--host", "-o", &place.file("link")]);
    assert_eq!(exit, Exit::Done, "{said}");
    assert!(
        fs::symlink_metadata(place.file("link"))
            .unwrap()
            .is_symlink()
    );
    assert!(
        fs::read_to_string(place.file("target"))
            .unwrap()
            .contains("pgassay/facts")
    );

    let (exit, _, said) = pgassay(&["collect", "--host", "-o", "/dev/full"]);
    assert_eq!(exit, Exit::Usage);
    assert!(
        said.contains("/dev/full: the disk is full") && said.contains("--output"),
        "{said}"
    );

    // The file is the user's, the directory is not.
    let closed = place.file("closed");
    fs::create_dir(&closed).unwrap();
    let file = format!("{closed}/facts.json");
    let read_only = format!("{closed}/read-only.json");
    fs::write(&file, "old").unwrap();
    fs::write(&read_only, "old").unwrap();
    let mode = |path: &str, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
    mode(&read_only, 0o444).unwrap();
    let root = rustix::process::geteuid().is_root();
    if root {
        for path in [&file, &read_only] {
            std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        mode(&closed, 0o755).unwrap();
    } else {
        mode(&closed, 0o555).unwrap();
    }
    let run = |path: &str| as_nobody(&["collect", "--host", "-o", path]);
    let written = run(&file);
    let refused = run(&read_only);
    mode(&closed, 0o755).unwrap();
    let said = String::from_utf8_lossy(&written.stderr);
    assert!(written.status.success(), "{said}");
    assert!(fs::read_to_string(&file).unwrap().contains("pgassay/facts"));
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("read-only.json: Permission denied"), "{said}");
    assert_eq!(fs::read(&read_only).unwrap(), b"old");
}

/// Debian's `nobody`; any number without rights would do.
const NOBODY: u32 = 65534;

/// The program as an ordinary user: root becomes one.
fn as_nobody(words: &[&str]) -> std::process::Output {
    use std::os::unix::process::CommandExt;
    let place = Reachable::new("as-nobody");
    let mut command = std::process::Command::new(place.copy(env!("CARGO_BIN_EXE_pgassay")));
    if rustix::process::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command.args(words).output().unwrap()
}

/// Attack D10: a check that saw nothing, as the connection was lost after the log-in, passed.
#[test]
fn a_check_whose_connection_is_lost_does_not_pass() {
    let target = |server: &FakeServer| {
        let port = server.port();
        format!("host=127.0.0.1 port={port} user=u dbname=d sslmode=disable")
    };
    let left = [
        Step::ReadStartup,
        Step::Send(say::welcome()),
        Step::ReadUntil(b'Q'),
        Step::HangUp,
    ];
    let ended = [
        Step::ReadStartup,
        Step::Send(say::welcome()),
        Step::ReadUntil(b'Q'),
        Step::Send(say::error("FATAL", "57P01", "terminating connection")),
        Step::HangUp,
    ];
    for (script, reason) in [
        (left.to_vec(), "the server closed the connection"),
        (ended.to_vec(), "terminating connection"),
    ] {
        let server = FakeServer::listen(vec![script.clone()]).unwrap();
        let words = ["check", &target(&server), "--fail-on", "medium", "--only"];
        let (exit, out, err) = pgassay(&[&words[..], &["fsync-off"]].concat());
        assert_eq!(exit, Exit::Partial, "{out}{err}");
        assert!(err.contains(reason), "{err}");
        assert!(out.contains("The connection was lost"), "{out}");
        assert!(!out.contains("Nothing was found that holds"), "{out}");

        let scratch = Scratch::new("lost");
        let file = scratch.file("facts.json");
        let server = FakeServer::listen(vec![script]).unwrap();
        let (exit, _, err) = pgassay(&["collect", &target(&server), "--output", &file]);
        assert_eq!(exit, Exit::Partial, "{err}");
        assert!(err.contains(reason), "{err}");
        let facts: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        assert_schema(&facts, "facts-1.json");
        // The file says it too, wherever it is checked.
        let (exit, out, err) = pgassay(&["check", &file, "--json"]);
        assert_eq!(exit, Exit::Partial, "{err}");
        let document: Value = serde_json::from_str(&out).unwrap();
        assert_schema(&document, "check-1.json");
        assert!(document["session_lost"].as_str().unwrap().contains(reason));
    }
    // Nor does one of which nothing could be seen.
    let words = ["check", "--host", "--only", "fsync-off"];
    let (exit, _, err) = pgassay(&[&words[..], &["--fail-on", "high"]].concat());
    assert_eq!(exit, Exit::Partial, "{err}");
    assert!(err.contains("nothing could be seen"), "{err}");
    assert_eq!(pgassay(&words).0, Exit::Done, "no pass was asked for");
}

/// Attack, run-directories: a FIFO among the files of a directory was waited for without end.
#[test]
fn a_directory_is_searched_for_files_only() {
    let dir = std::env::temp_dir().join(format!("pgassay-test-fifo-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir(&dir).unwrap();
    let made = std::process::Command::new("mkfifo")
        .arg(dir.join("run.json"))
        .status();
    assert!(made.unwrap().success());
    let output = std::process::Command::new("timeout")
        .args(["30", env!("CARGO_BIN_EXE_pgassay"), "check"])
        .arg(&dir)
        .output()
        .unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
}

/// Tried: `pgassay check` judged the settings of a server that it had made itself, with the user's own
/// server running beside it and never mentioned.
#[test]
fn a_server_that_runs_here_is_found_and_one_made_for_the_check_is_nobodys() {
    // Its directory is not called like one of pgassay's.
    let dir = std::env::temp_dir().join(format!("runs-here-{}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    let listener = std::os::unix::net::UnixListener::bind(dir.join(".s.PGSQL.54399")).unwrap();
    let hangs_up = std::thread::spawn(move || drop(listener.accept()));
    let (_, out, err) = pgassay(&["check"]);
    // Another test's server may run at the same time: then all are named.
    let named = format!("host={} port=54399", dir.display());
    assert!(err.contains(&named), "{err}");
    assert!(out.contains("Check of this host"), "{out}");
    assert!(!out.contains("shared_buffers"), "{out}");
    let _ = std::os::unix::net::UnixStream::connect(dir.join(".s.PGSQL.54399"));
    hangs_up.join().unwrap();
    fs::remove_dir_all(&dir).unwrap();

    let (exit, out, err) = pgassay(&["check", "temp", "--json"]);
    assert_eq!(exit, Exit::Done, "{err}");
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_schema(&report, "check-1.json");
    assert_eq!(report["throw_away"], true);
    for rule in ["huge-pages", "effective-cache-size", "jit-small-queries"] {
        let results = report["results"].as_array().unwrap();
        if results.iter().any(|r| r["id"] == rule) {
            assert_eq!(outcome(&report, rule), "not-applicable", "{rule}");
        }
    }
    assert_ne!(outcome(&report, "read-ahead"), "not-applicable");
    let (_, out, _) = pgassay(&["check", "temp"]);
    assert!(out.contains("not yours"), "{out}");
    // Settings that were asked for are the user's.
    let (_, out, _) = pgassay(&["check", "--set", "fsync=off", "--json"]);
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(outcome(&report, "fsync-off"), "finding");
}

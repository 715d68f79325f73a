//! `pgassay inspect` from outside: what it prints, and how it ends.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::schema::assert_schema;
use serde_json::Value;

use crate::runs::Reachable;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../foundation/inspect/tests/fixtures")
        .join(name)
}

fn inspect(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pgassay"))
        .arg("inspect")
        .args(arguments)
        .env("COLUMNS", "100")
        .output()
        .expect("the program starts")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn path(name: &str) -> String {
    fixture(name).to_str().expect("a plain path").to_string()
}

fn json(arguments: &[&str]) -> Value {
    let output = inspect(arguments);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"))
}

#[test]
fn json_follows_its_schema() {
    let pid = std::process::id().to_string();
    let (outline, llsc) = (path("a64-gcc-outline.so"), path("a64-gcc-llsc.so"));
    let lines: [&[&str]; 5] = [
        &["--json", &outline],
        &[
            "--json",
            "--addresses",
            "--cpu",
            "graviton2",
            "--cpu",
            "host",
            &outline,
            &path("x86-gcc.so"),
        ],
        &["--json", "--diff", &outline, &llsc],
        &["--json", "--require", "lse,pie", &outline, "/nonexistent"],
        &["--json", &pid],
    ];
    for line in lines {
        assert_schema(&json(line), "inspect-1.json");
    }
}

#[test]
fn addresses_come_on_demand_with_the_names_of_functions() {
    let file = path("a64-gcc-outline.so");
    let without = json(&["--json", &file]);
    assert!(without["files"][0]["atomics"].get("instructions").is_none());
    let with = json(&["--json", "--addresses", &file]);
    let atomics = &with["files"][0]["atomics"];
    assert_eq!(atomics["instructions"].as_array().map(Vec::len), Some(87));
    let calls = atomics["outline"]["calls"].as_array().expect("call sites");
    assert_eq!(calls.len(), 30);
    assert!(calls.iter().any(|c| c["function"] == "pin"), "{calls:?}");
}

#[test]
fn a_verdict_names_the_path_and_claims_no_gain_where_none_was_measured() {
    let file = path("a64-gcc-llsc.so");
    let document = json(&[
        "--json",
        "--cpu",
        "graviton2",
        "--cpu",
        "kunpeng920",
        "--cpu",
        "cortex-a72",
        &file,
    ]);
    let verdicts = document["files"][0]["verdicts"]
        .as_array()
        .expect("verdicts");
    assert_eq!(verdicts.len(), 3);
    assert!(
        verdicts
            .iter()
            .all(|v| v["path"] == "inline-llsc" && v["evidence"] == "inferred")
    );
    let advice = |i: usize| verdicts[i]["advice"].to_string();
    assert!(advice(0).contains("outline atomics"), "{}", advice(0));
    assert!(advice(1).contains("no gain"), "{}", advice(1));
    assert_eq!(advice(2), "[]", "nothing to be had on a core without LSE");
    let document = json(&["--json", "--cpu", "graviton1", &path("a64-gcc-armv8.1.so")]);
    assert_eq!(document["files"][0]["verdicts"][0]["path"], "illegal");
}

/// Inline LSE beside outline helpers, as of a Rust program with parts in C.
#[test]
fn a_file_that_ends_with_sigill_is_named_so_by_the_verdict_and_the_requirement() {
    let mixed = path("a64-nobti.so");
    for (cpu, illegal) in [
        ("raspberry-pi-4", true),
        ("armv8.0", true),
        ("graviton2", false),
    ] {
        let require = format!("runs-on-{cpu}");
        let words = ["--cpu", cpu, "--require", &require, &mixed];
        let output = inspect(&words);
        let shown = text(&output);
        assert_eq!(output.status.code(), Some(i32::from(illegal)), "{shown}");
        assert_eq!(shown.contains("SIGILL on "), illegal, "{shown}");
        let document = json(&[&words[..], &["--json"]].concat());
        let verdict = &document["files"][0]["verdicts"][0];
        assert_eq!(verdict["path"] == "illegal", illegal, "{verdict}");
        if illegal {
            let runs = verdict["runs"].as_str().unwrap_or_default();
            let says =
                "1 inline LSE instruction runs without a check; 2 call sites use outline helpers";
            assert!(runs.contains(says), "{runs}");
            assert_eq!(
                document["requirements"][0]["unmet"][0][1],
                "1 inline LSE instruction runs without a check"
            );
        }
    }
}

#[test]
fn demands_end_with_their_codes() {
    let outline = path("a64-gcc-outline.so");
    assert_eq!(
        inspect(&["--require", "outline,lse-or-outline,no-llsc", &outline])
            .status
            .code(),
        Some(0)
    );
    let unmet = inspect(&["--require", "lse", &outline]);
    assert_eq!(unmet.status.code(), Some(1));
    // The line ends where the path's length lets it.
    let shown = text(&unmet);
    let words: Vec<&str> = shown.split_whitespace().collect();
    assert!(
        words.join(" ").contains("no inline LSE instruction"),
        "{shown}"
    );
    // Not a server: nothing that the demand is about.
    assert_eq!(
        inspect(&["--require", "crc32c", &outline]).status.code(),
        Some(1)
    );
    let wrong = inspect(&["--require", "lsd", &outline]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("lse-or-outline"));
    assert_eq!(inspect(&["--cpu", "z80", &outline]).status.code(), Some(2));
    assert_eq!(inspect(&[]).status.code(), Some(2));
}

/// Attack D10: a demand was met though a file among those named could not be read.
#[test]
fn a_demand_is_not_met_where_a_file_could_not_be_read() {
    let directory = std::env::temp_dir().join(format!("pgassay-unread-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    let whole = std::fs::read(fixture("x86-gcc.so")).expect("a fixture");
    std::fs::write(directory.join("good.so"), &whole).expect("a file");
    std::fs::write(directory.join("cut.so"), &whole[..40]).expect("a file");
    let named = directory.to_str().expect("plain");
    let plain = inspect(&["--require", "pie", named]);
    let document = json(&["--json", "--require", "pie", named]);
    std::fs::remove_file(directory.join("cut.so")).expect("our own file");
    let whole = inspect(&["--require", "pie", named]);
    std::fs::remove_dir_all(&directory).expect("our own directory");
    assert_eq!(plain.status.code(), Some(1), "{}", text(&plain));
    let shown = text(&plain);
    assert!(shown.contains("unmet: 1 file could not be read"), "{shown}");
    assert!(shown.contains("cut.so: could not be read"), "{shown}");
    let demand = &document["requirements"][0];
    assert_eq!(demand["met"], false);
    assert_eq!(demand["unread"], 1);
    assert_eq!(whole.status.code(), Some(0), "{}", text(&whole));
}

#[test]
fn what_cannot_be_read_is_named_and_the_rest_done() {
    let directory = std::env::temp_dir().join(format!("pgassay-inspect-{}", std::process::id()));
    std::fs::create_dir_all(directory.join("deep")).expect("a directory");
    std::fs::copy(fixture("x86-gcc.so"), directory.join("deep/good.so")).expect("a copy");
    std::fs::write(directory.join("text"), "text").expect("a file");
    std::fs::write(directory.join("empty"), "").expect("a file");
    let whole = std::fs::read(fixture("x86-gcc.so")).expect("a fixture");
    std::fs::write(directory.join("cut.so"), &whole[..40]).expect("a file");
    let named = directory.join("text");
    let (named, all) = (
        named.to_str().expect("plain"),
        directory.to_str().expect("plain"),
    );
    let document = json(&["--json", all, named, "/nonexistent"]);
    std::fs::remove_dir_all(&directory).expect("our own directory");
    let files = document["files"].as_array().expect("files");
    assert_eq!(files.len(), 1);
    assert!(
        files[0]["path"]
            .as_str()
            .is_some_and(|p| p.ends_with("deep/good.so"))
    );
    let problems = document["problems"].as_array().expect("problems");
    let of = |end: &str| {
        problems
            .iter()
            .find(|p| p["path"].as_str().is_some_and(|x| x.ends_with(end)))
            .map(|p| p["named"].clone())
    };
    assert_eq!(of("/text"), Some(true.into()), "{problems:?}");
    assert_eq!(of("/nonexistent"), Some(true.into()));
    assert_eq!(of("/cut.so"), Some(false.into()));
    assert_eq!(
        of("/empty"),
        None,
        "an empty file in a directory is no news"
    );
}

#[test]
fn text_markdown_and_html_tell_the_same() {
    let file = path("a64-gcc-outline.so");
    let plain = text(&inspect(&[&file]));
    let markdown = text(&inspect(&["--format", "markdown", &file])).replace('\\', "");
    let page = text(&inspect(&["--format", "html", &file]));
    for word in [
        "__aarch64_cas4_acq_rel",
        "outline: 30 calls",
        "lse-ldadd",
        "armv8.0-a",
    ] {
        assert!(plain.contains(word), "{word} in {plain}");
        assert!(markdown.contains(word), "{word} in {markdown}");
        assert!(page.contains(word), "{word} in {page}");
    }
    let narrow = Command::new(env!("CARGO_BIN_EXE_pgassay"))
        .args(["inspect", &file])
        .env("COLUMNS", "40")
        .output()
        .expect("the program starts");
    assert!(narrow.status.success());
    assert!(text(&inspect(&["--list-cpus"])).contains("neoverse-n1"));
}

#[test]
fn a_process_is_inspected_by_its_number() {
    let own = std::process::id();
    let document = json(&["--json", &own.to_string()]);
    let files = document["files"].as_array().expect("files");
    let exe = std::env::current_exe().expect("our path");
    assert_eq!(files[0]["path"].as_str(), exe.to_str());
    assert_eq!(files[0]["process"]["pid"], own);
    assert!(
        files
            .iter()
            .any(|f| f["path"].as_str().is_some_and(|p| p.contains("libc")))
    );
    assert_eq!(inspect(&["4194303"]).status.code(), Some(3));
}

#[test]
fn a_target_has_the_modules_of_its_library_directory() {
    let document = json(&["--json", "temp"]);
    let modules = document["modules"].as_array().expect("modules");
    let plpgsql = modules
        .iter()
        .find(|m| {
            m["path"]
                .as_str()
                .is_some_and(|p| p.ends_with("/plpgsql.so"))
        })
        .expect("PL/pgSQL");
    assert!(plpgsql["choice"].is_string() && plpgsql["uses"].is_array());
    assert!(text(&inspect(&["temp"])).contains("Modules of the server"));
    assert!(json(&["--json", &path("x86-gcc.so")])["modules"].is_null());
}

#[test]
fn a_file_that_larger_pages_do_not_load_is_named_so() {
    let small = path("a64-pages-4k.so");
    let shown = text(&inspect(&[&small, "--cpu", "raspberry-pi-5"]));
    assert!(
        shown.contains("Does not load on kernels with pages of 16 and 64 KiB"),
        "{shown}"
    );
    let document = json(&["--json", "--cpu", "raspberry-pi-5", &small]);
    let loads = &document["files"][0]["verdicts"][0]["loads"];
    assert_eq!(loads[0]["loads"], "yes");
    assert_eq!(loads[2]["page_bytes"], 65536);
    assert_eq!(loads[2]["loads"], "no");
    assert_eq!(
        inspect(&["--require", "loads-64k", &small]).status.code(),
        Some(1)
    );
    let large = path("a64-pages-64k.so");
    assert_eq!(
        inspect(&["--require", "loads-16k,loads-64k", &large])
            .status
            .code(),
        Some(0)
    );
    assert!(!text(&inspect(&[&large])).contains("Does not load"));
}

/// Attack D17: a file's name reached the terminal and markdown with ESC and markup in it.
#[test]
fn a_file_name_is_only_text() {
    let dir = std::env::temp_dir().join(format!("pgassay-test-inspect-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let odd = dir.join("<script>[x](javascript:1)|\u{1b}[2J\u{9b}\u{202e}.so");
    let whole = std::fs::read(path("a64-gcc-outline.so")).unwrap();
    std::fs::write(&odd, &whole).unwrap();
    // One that is named because it can't be read, and one that is read in part.
    let damaged = dir.join("<img onerror=1>[y](javascript:2)\u{1b}\u{9b}\u{202e}.so");
    std::fs::write(&damaged, &whole[..20]).unwrap();
    let part = dir.join("<b>[z](javascript:3)\u{1b}\u{9b}\u{202e}.so");
    std::fs::write(&part, &whole[..whole.len() / 2]).unwrap();
    let all = [&odd, &damaged, &part].map(|path| path.to_str().unwrap());
    for format in ["text", "markdown", "json", "html"] {
        let output = inspect(&[&["--format", format][..], &all].concat());
        let shown = String::from_utf8(output.stdout).unwrap();
        for name in ["javascript:1", "javascript:2"] {
            assert!(shown.contains(name), "{format}: {shown}");
        }
        let said = String::from_utf8(output.stderr).unwrap();
        for text in [&shown, &said] {
            let odd = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
            assert!(!text.contains(odd), "{format}: {text:?}");
        }
        if format == "markdown" || format == "html" {
            for markup in ["<script>[", "<img", "<b>[", "[x](", "[y](", "[z]("] {
                let found =
                    shown.contains(markup) && !(format == "html" && markup.starts_with('['));
                assert!(!found, "{format}: {markup} in {shown}");
            }
        }
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

/// Attack D19: where no thread could be had the program panicked. The system refuses threads to
/// ordinary users only, and counts all that a user has; root becomes one who has none.
/// Attack, limits: the command line alone overflowed a small stack.
#[test]
fn a_small_stack_is_enough() {
    let file = path("x86-gcc.so");
    let limited = Command::new("prlimit")
        .args(["--stack=65536", "--"])
        .arg(env!("CARGO_BIN_EXE_pgassay"))
        .args(["inspect", "--json", &file])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&limited.stderr);
    assert!(limited.status.success(), "{said}");
    assert_eq!(text(&limited), text(&inspect(&["--json", &file])));
}

#[test]
fn without_threads_it_is_slower_only() {
    use std::os::unix::process::CommandExt;
    let place = Reachable::new("without-threads");
    let names = ["a64-gcc-outline.so", "x86-gcc.so", "s390x-gcc.so"];
    let files = names.map(|name| place.copy(&path(name)));
    let words = [
        &["inspect", "--json"][..],
        &files.each_ref().map(String::as_str),
    ]
    .concat();
    let mut limited = Command::new("prlimit");
    limited
        .args(["--nproc=1", "--"])
        .arg(place.copy(env!("CARGO_BIN_EXE_pgassay")));
    if rustix::process::geteuid().is_root() {
        limited.uid(65533).gid(65533);
    }
    let limited = limited.args(&words).output().unwrap();
    let said = String::from_utf8_lossy(&limited.stderr);
    assert!(limited.status.success(), "{said}");
    assert!(!said.contains("panicked"), "{said}");
    assert_eq!(text(&limited), text(&inspect(&words[1..])));
}

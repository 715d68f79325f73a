//! `pgassay run` over more than clients, on real servers: each value of an axis is a server that has it.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::runs::{Runs, Signal, gone, signal, text};

const SHORT: [&str; 8] = [
    "--time",
    "0.1",
    "--warmup",
    "0",
    "--trials",
    "2",
    "--observe",
    "none",
];

fn document(runs: &Runs, words: &[&str]) -> (Value, String) {
    let line: Vec<&str> = words.iter().copied().chain(["--json"]).collect();
    let output = runs.run(&line);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    (serde_json::from_slice(&output.stdout).unwrap(), said)
}

fn header(run: &Path) -> Value {
    serde_json::from_slice(&fs::read(run.join("run.json")).unwrap()).unwrap()
}

fn cpus() -> usize {
    std::thread::available_parallelism().unwrap().get()
}

#[test]
fn a_server_for_each_number_of_cpus_and_each_scale() {
    let most = cpus().min(2).to_string();
    let counts = match most.as_str() {
        "1" => "1".to_owned(),
        most => format!("1,{most}"),
    };
    let runs = Runs::new("axes-cpus");
    let mut words = vec![
        "run",
        "select-only",
        "--cpus",
        &counts,
        "--scale",
        "1,2",
        "--clients",
        "1,2",
        "--env",
        "PGASSAY_TRIED=1",
        "--wrap",
        "env",
    ];
    words.extend(SHORT);
    let (document, said) = document(&runs, &words);
    let values = counts.split(',').count();
    assert!(
        said.contains(&format!("{} servers, all up at once", 2 * values)),
        "{said}"
    );
    assert!(
        said.contains(&format!("{} points, 2 trials", 4 * values)),
        "{said}"
    );
    let arms = document["arms"].as_array().unwrap();
    assert_eq!(arms.len(), 2 * values);
    let first = serde_json::json!([
        {"axis": "scale", "value": "1", "number": 1.0},
        {"axis": "cpus", "value": "1", "number": 1.0}
    ]);
    assert_eq!(
        (&arms[0]["axes"], &arms[0]["label"]),
        (&first, &"scale 1, 1 CPU".into())
    );
    // It is on one CPU, and says so.
    let target = arms[0]["target"].as_str().unwrap();
    assert!(target.contains("on CPU "), "{target}");
    assert!(
        target.ends_with("with PGASSAY_TRIED=1, through env"),
        "{target}"
    );
    assert_eq!(document["run"]["trials_measured"], 2 * values * 2 * 2);
    let courses = document["axes"].as_array().unwrap();
    let of = |axis: &str| courses.iter().filter(|c| c["axis"] == axis).count();
    // Over scale at each number of clients and CPUs; over CPUs at each number of clients and scale.
    assert_eq!(of("scale"), 2 * values);
    assert_eq!(of("cpus"), if values > 1 { 4 } else { 0 });
    // Each server has the rows of its scale, and its own count agrees with the client's.
    for arm in arms {
        let check = &arm["commit_check"];
        let (client, server) = (
            check["client_transactions"].as_u64().unwrap(),
            check["server_commits"].as_u64().unwrap(),
        );
        assert!(client > 0 && server >= client, "{check}");
    }
    let report = text(&runs.run(&["report", "last"]).stdout);
    assert!(report.contains("Over scale of the tables"), "{report}");
    assert!(report.contains("Throughput with scale 2 "), "{report}");
    assert!(
        report.contains("select-only over scale of the tables"),
        "{report}"
    );
    // No one of them can stand for the run.
    for words in [
        &["compare", "--recorded", "last", "last"][..],
        &["compare-runs", "last", "last"],
    ] {
        let output = runs.run(words);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("its servers differ"), "{said}");
    }
    let followed = text(&runs.run(&["history", "last"]).stdout);
    assert!(followed.contains("no run to follow"), "{followed}");
    let fitted = text(&runs.run(&["fit", "last"]).stdout);
    if values > 1 {
        assert!(
            fitted.contains("over CPUs") && fitted.contains("--cpus"),
            "{fitted}"
        );
    }
}

#[test]
fn a_comparison_has_a_server_of_each_target_at_each_place() {
    let runs = Runs::new("axes-compare");
    let most = cpus().min(2).to_string();
    let line = [
        "compare",
        "temp",
        "temp",
        "--set-b",
        "work_mem=8MB",
        "--wrap-b",
        "env PGASSAY_TRIED=1",
        "--cpus",
        &format!("1,{most}"),
        "--scale",
        "1,2",
        "--clients",
        "1,2",
        "--pairs",
        "2",
        "--noise-pairs",
        "2",
        "--slice",
        "0.1",
        "--warmup",
        "0",
        "--json",
    ];
    let output = runs.run(&line);
    let said = text(&output.stderr);
    // Two pairs can show nothing.
    assert_eq!(output.status.code(), Some(5), "{said}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let places = if most == "1" { 2 } else { 4 };
    assert_eq!(document["plan"]["places"], places);
    let results = document["results"].as_array().unwrap();
    // B against A at each place and number of clients, and against nothing else.
    assert_eq!(results.len(), 2 * places);
    for result in results {
        assert_eq!(result["pairs"].as_array().unwrap().len(), 2, "{result}");
        let arm = result["arm"].as_u64().unwrap() as usize;
        assert_eq!(arm % 2, 1);
        let (a, b) = (
            &document["analysis"]["arms"][arm - 1],
            &document["analysis"]["arms"][arm],
        );
        let values = |arm: &Value| arm["axes"].as_array().unwrap()[1..].to_vec();
        assert_eq!(values(a), values(b));
        assert_eq!(
            (&a["axes"][0]["value"], &b["axes"][0]["value"]),
            (&"A".into(), &"B".into())
        );
        assert_eq!(result["axes"].as_array().unwrap(), &values(b));
        let target = b["target"].as_str().unwrap();
        assert!(target.contains("on CPU"), "{b}");
        assert!(target.contains("through env"), "{b}");
    }
    // Tables of two scales are no difference between two servers of one scale.
    let differences = document["differences"].as_array().unwrap();
    assert!(
        differences
            .iter()
            .all(|d| d["planned"] == true && d["kind"] != "data"),
        "{differences:?}"
    );
    let report = text(&runs.run(&["report", "last"]).stdout);
    for words in [
        "Over scale of the tables",
        "B, scale 2, 1 CPU",
        "A (PostgreSQL",
    ] {
        assert!(report.contains(words), "{words}: {report}");
    }
    if places == 4 {
        let fitted = text(&runs.run(&["fit", "last"]).stdout);
        assert!(
            fitted.contains("over CPUs") && fitted.contains("2 clients, B"),
            "{fitted}"
        );
    }
}

#[test]
fn a_comparison_over_axes_is_refused_where_it_makes_no_sense() {
    let runs = Runs::new("axes-refused");
    let refused = |words: &[&str]| {
        let line: Vec<&str> = ["compare"].iter().chain(words).copied().collect();
        let output = runs.run(&line);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
        said
    };
    let on_cpus = ["temp", "temp", "--cpus", "1"];
    let with = |more: &[&'static str]| [&on_cpus[..], more].concat();
    assert!(refused(&["host=nowhere", "temp", "--load", "--cpus", "1"]).contains("launches"));
    assert!(refused(&with(&["--cpus-a", "0"])).contains("leave out the one or the other"));
    let nodes = ["temp", "temp", "--numa", "0,1", "--wrap", "env"];
    assert!(refused(&nodes).contains("through another command"));
    assert!(refused(&with(&["--sequential", "--clients", "1"])).contains("--sequential"));
    assert!(refused(&with(&["--by", "instructions"])).contains("by time"));
    assert!(refused(&with(&["--workload", "lwlock:shared"])).contains("--cpus"));
    // A processor that is not emulated, and one of which there is no server.
    let counted = |host: &str| {
        let words = [
            "compare",
            "temp:9.6",
            "temp:9.6",
            "--by",
            "instructions",
            "--host",
            host,
        ];
        let output = runs.run(&words);
        (output.status.code(), text(&output.stderr))
    };
    let (code, said) = counted("mips");
    assert!(
        code == Some(2) && said.contains("aarch64 and ppc64le"),
        "{said}"
    );
    let (code, said) = counted("aarch64:cortex-a53,aarch64:max");
    assert!(
        code == Some(3) && said.contains("pgassay build SOURCE --host"),
        "{said}"
    );
    let many = refused(&["temp", "temp", "temp", "--scale", "1..20"]);
    assert!(many.contains("60 servers"), "{many}");
    let guarded = runs.run(&["guard", "temp", "temp", "--scale", "1,2"]);
    assert!(
        text(&guarded.stderr).contains("here it is one scale"),
        "{}",
        text(&guarded.stderr)
    );
}

#[test]
fn an_interrupted_run_goes_on_with_its_servers() {
    let runs = Runs::new("axes-resume");
    let words = [
        "run",
        "select-only",
        "--shared-buffers",
        "16MB,32MB",
        "--scale",
        "1",
        "--clients",
        "1",
        "--time",
        "0.5",
        "--warmup",
        "0",
        "--trials",
        "4",
        "--observe",
        "none",
    ];
    let mut child = runs.start(&words);
    let dir = runs.await_trials(2);
    signal(child.id(), Signal::KILL);
    child.wait().unwrap();
    assert!(gone(child.id()));
    let before = header(&dir)["experiment"].clone();
    let (resumed, _) = document(&runs, &["run", "--resume", dir.to_str().unwrap()]);
    assert_eq!(resumed["run"]["state"], "complete");
    assert_eq!(resumed["run"]["trials_measured"], 8);
    assert_eq!(header(&dir)["experiment"], before);
    for (arm, buffers) in (0..).zip(["2048", "4096"]) {
        let facts = fs::read_to_string(dir.join(format!("facts/server-{arm}.json"))).unwrap();
        assert!(
            facts.contains(&format!(
                "\\\"name\\\":\\\"shared_buffers\\\",\\\"setting\\\":\\\"{buffers}\\\""
            )),
            "{facts}"
        );
    }
    let (repeated, _) = document(&runs, &["run", "--repeat", dir.to_str().unwrap()]);
    assert_ne!(repeated["run"]["id"], resumed["run"]["id"]);
    assert_eq!(repeated["arms"][1]["axes"], resumed["arms"][1]["axes"]);
}

/// As of one server: what the load left is verified, and failures are in the exit code.
#[test]
fn what_the_load_left_is_verified_on_each_server() {
    let runs = Runs::new("axes-verified");
    fs::create_dir_all(&runs.0).unwrap();
    let script = runs.0.join("script.sql");
    let path = script.to_str().unwrap();
    let mut words = vec![
        "run",
        path,
        "--shared-buffers",
        "16MB,32MB",
        "--scale",
        "1",
        "--clients",
        "1",
    ];
    words.extend(SHORT);
    fs::write(&script, "-- @verify SELECT false\nSELECT 1;\n").unwrap();
    let (document, _) = document(&runs, &words);
    let warnings = document["warnings"].as_array().unwrap();
    let unverified: Vec<&str> = warnings
        .iter()
        .filter(|warning| warning["id"] == "not-verified")
        .filter_map(|warning| warning["text"].as_str())
        .collect();
    assert_eq!(unverified.len(), 2, "{warnings:?}");
    assert!(
        unverified[1].contains("shared_buffers 32MB"),
        "{unverified:?}"
    );
    fs::write(&script, "SELECT 1/0;\n").unwrap();
    let output = runs.run(&words);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("Every transaction"), "{said}");
}

#[test]
fn what_this_machine_does_not_have_is_refused_before_a_server_is_made() {
    let runs = Runs::new("axes-refused");
    let many = (cpus() + 1).to_string();
    let refused = |words: &[&str]| {
        let output = runs.run(&[&["run", "select-only"], words].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(!said.contains("making and starting"), "{said}");
        said
    };
    assert!(refused(&["--cpus", &many]).contains(&format!("ask for at most {}", cpus())));
    assert!(refused(&["--cpus", "0"]).contains("1 CPU or more"));
    assert!(refused(&["--scale", "1..33"]).contains("at most 32 are up at once"));
    assert!(
        refused(&["host=nowhere", "--load", "--cpus", "1"])
            .contains("servers that pgassay launches")
    );
    assert!(refused(&["--cpus", "1", "--ceiling"]).contains("--ceiling"));
    assert!(refused(&["--shared-buffers", "12"]).contains("128MB"));
    // No machine has as much for each.
    let sizes = "4TB,8TB,16TB,32TB,64TB,128TB";
    assert!(refused(&["--shared-buffers", sizes]).contains("up at once, come to"));
    assert!(refused(&["--numa", "both"]).contains("interleave"));
    if !Path::new("/sys/devices/system/node/node1").exists() {
        assert!(refused(&["--numa", "0"]).contains("one memory node"));
    }
    let output = runs.run(&["run", "spinlock", "--cpus", "1"]);
    assert!(text(&output.stderr).contains("--cpus does not apply to spinlock"));
    let output = runs.run(&["assay", "--scale", "1,2"]);
    assert_eq!(output.status.code(), Some(2));
}

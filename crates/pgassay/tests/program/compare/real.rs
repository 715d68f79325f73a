//! The program from outside, against a real PostgreSQL.

use std::fs;
use std::process::Stdio;

use pgassay_server::Installations;
use pgassay_sys::affinity::allowed_cpus;
use serde_json::Value;

use crate::runs::{Runs, Signal, gone, postmasters_of, signal, text};
use crate::schema::assert_schema;

const SHORT: &[&str] = &[
    "--slice",
    "0.1",
    "--warmup",
    "0.05",
    "--scale",
    "1",
    "--noise-pairs",
    "4",
    "--clients",
    "2",
];

fn with<'a>(args: &[&'a str]) -> Vec<&'a str> {
    args.iter().chain(SHORT).copied().collect()
}

#[test]
fn settings_are_compared_and_the_exit_code_is_the_verdict() {
    let runs = Runs::new("settings");
    let args = [
        "compare",
        "temp",
        "temp",
        "--set-b",
        "work_mem=8MB",
        "--pairs",
        "8",
        "--json",
        "--seed",
        "7",
    ];
    // The load apart from the servers, where that is possible.
    let cpus = allowed_cpus().unwrap();
    let mut args = args.to_vec();
    if cpus.len() > 1 {
        args.push("--pin");
    }
    let output = runs.run(&with(&args));
    let said = text(&output.stderr);
    let json: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {said}"));
    assert_schema(&json, "compare-1.json");
    if let [others @ .., last] = cpus.as_slice()
        && !others.is_empty()
    {
        assert!(
            said.contains(&format!("load threads on CPUs [{last}]")),
            "{said}"
        );
        let list: Vec<String> = others.iter().map(usize::to_string).collect();
        assert!(said.contains(&format!("{}\n", list.join(","))), "{said}");
    }
    let expected = match json["verdict"].as_str().expect("a verdict") {
        "faster" | "equivalent" => 0,
        "slower" => 1,
        "inconclusive" => 5,
        other => panic!("{other}: {:?}", json["headline"]),
    };
    assert_eq!(output.status.code(), Some(expected), "{said}");
    assert_eq!(
        json["results"][0]["pairs"].as_array().map(Vec::len),
        Some(8)
    );
    assert_eq!(
        json["results"][0]["noise"].as_array().map(Vec::len),
        Some(4)
    );
    assert!(
        json["results"][0]["others"]["server-cpu"].is_object(),
        "CPU time was seen"
    );
    let differences = json["differences"].as_array().expect("a list");
    let found = differences
        .iter()
        .find(|d| d["name"] == "work_mem")
        .expect("it differs");
    assert_eq!(
        (found["planned"].as_bool(), found["b"].as_str()),
        (Some(true), Some("8MB"))
    );
    // three servers: A, B and A's like; the time is said before the pairs
    assert!(
        said.contains("A again:") && said.contains("8 pairs follow"),
        "{said}"
    );
    let run = fs::read_dir(&runs.0)
        .expect("runs")
        .flatten()
        .next()
        .expect("one run");
    assert!(run.path().join("report.html").exists());
    // one run has no history, and that is no error
    let dir = runs.0.display().to_string();
    let history = runs.run(&["history", &dir, "--json"]);
    assert_eq!(history.status.code(), Some(0), "{}", text(&history.stderr));
    let history: Value = serde_json::from_slice(&history.stdout).expect("JSON");
    assert_schema(&history, "history-1.json");
    assert_eq!(history["runs"].as_array().map(Vec::len), Some(1));
    let again = runs.run(&["report", "last"]);
    assert!(
        text(&again.stdout).contains("against"),
        "{}",
        text(&again.stdout)
    );
}

#[test]
fn a_comparison_goes_by_the_metric_that_is_named() {
    let runs = Runs::new("metric");
    let args = [
        "compare", "temp", "temp", "--metric", "p99", "--delta", "20%", "--pairs", "6", "--json",
    ];
    let output = runs.run(&with(&args));
    let said = text(&output.stderr);
    let json: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {said}"));
    assert_schema(&json, "compare-1.json");
    assert_eq!(json["metric"], "p99");
    assert!(said.contains("in p99 latency here"), "{said}");
    let result = &json["results"][0];
    assert_eq!(result["compared"]["rule"]["direction"], "lower-is-better");
    assert!(result["others"]["throughput"].is_object(), "{result}");
    let pair = &result["pairs"][0]["metrics"]["p99"];
    assert!(pair[0].as_f64().is_some_and(|us| us > 1.0), "{pair}");
    // What no trial shows is refused as soon as that is seen, and not called equal.
    let args = [
        "compare",
        "temp",
        "temp",
        "--metric",
        "p99",
        "--workload",
        "spinlock",
        "--pairs",
        "6",
        "--noise-pairs",
        "2",
        "--clients",
        "2",
        "--slice",
        "0.1",
    ];
    let output = runs.run(&args);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("can't be compared by p99"), "{said}");
}

#[test]
fn launches_are_made_anew_and_a_primitive_is_compared_inside() {
    let runs = Runs::new("launches");
    let args = [
        "compare",
        "temp",
        "temp",
        "--set-b",
        "jit=off",
        "--workload",
        "spinlock",
        "--slice",
        "0.1",
        "--launches",
        "2",
        "--pairs",
        "4",
        "--noise-pairs",
        "2",
        "--clients",
        "2",
        "--json",
    ];
    let output = runs.run(&args);
    let said = text(&output.stderr);
    // two launches show nothing, whatever they say
    assert_eq!(output.status.code(), Some(5), "{said}");
    assert!(said.contains("2 launches can't show anything"), "{said}");
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_schema(&json, "compare-1.json");
    assert_eq!(json["analysis"]["stages"][0]["id"], "primitives");
    let pairs = json["results"][0]["pairs"].as_array().expect("pairs");
    let launches: Vec<u64> = pairs.iter().filter_map(|p| p["launch"].as_u64()).collect();
    assert_eq!(launches, [0, 0, 0, 0, 1, 1, 1, 1]);
    // a contended spinlock does some hundred thousand operations a second at least
    assert!(
        pairs.iter().all(|p| p["metrics"]["throughput"][0]
            .as_f64()
            .is_some_and(|tps| tps > 1e4)),
        "{pairs:?}"
    );
    assert!(json["results"][0]["others"]["server-cpu"].is_object());
    let headline = json["headline"][0].as_str().expect("a sentence");
    assert!(headline.contains("2 sessions"), "{headline}");
    // What waiting for the sessions takes is mostly the kernel's, and no user time.
    let dir = runs.await_trials(1);
    let trials = fs::read_to_string(dir.join("trials.jsonl")).expect("trials");
    let system = trials.lines().map(|line| {
        let trial: Value = serde_json::from_str(line).expect("JSON");
        trial["client_system_ns"].as_u64().expect("a number")
    });
    assert!(system.sum::<u64>() > 0, "{trials}");
}

/// Without clients and scale, which not every load has.
fn compared(workload: &[&str], pairs: &str) -> Vec<String> {
    let common = "compare temp temp --set-b work_mem=8MB --launches 1 --noise-pairs 2 --size 8MB";
    let words = common.split(' ').chain(["--pairs", pairs, "--workload"]);
    words
        .chain(workload.iter().copied())
        .map(str::to_owned)
        .collect()
}

#[test]
fn pgio_and_scattered_reads_get_verdicts() {
    for (workload, stage, work) in [
        (
            &["pgio", "--clients", "2", "--slice", "0.1"][..],
            "pgio",
            "operation",
        ),
        (&["scattered-read:sequential"], "scattered-read", "query"),
    ] {
        let runs = Runs::new(stage);
        let mut args = compared(workload, "6");
        args.extend(["--observe", "sched", "--json"].map(str::to_owned));
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let output = runs.run(&args);
        let said = text(&output.stderr);
        // Whichever it is: two equal servers may well differ over six pairs.
        assert!(matches!(output.status.code(), Some(0 | 1 | 5)), "{said}");
        let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_schema(&json, "compare-1.json");
        let result = &json["results"][0];
        let verdict = result["compared"]["verdict"].as_str().expect("a word");
        assert!(["faster", "slower", "equivalent", "inconclusive"].contains(&verdict));
        assert_eq!(result["pairs"].as_array().map(Vec::len), Some(6));
        assert_eq!(result["noise"].as_array().map(Vec::len), Some(2));
        assert_eq!(json["analysis"]["stages"][0]["id"], stage);
        let headline = json["headline"].to_string();
        assert!(
            headline.contains(work) || headline.contains("throughput"),
            "{headline}"
        );
        for arm in json["analysis"]["stages"][0]["arms"]
            .as_array()
            .expect("arms")
        {
            assert!(
                arm["observed"]["points"][0]["scheduling"].is_object(),
                "{arm}"
            );
        }
    }
    let runs = Runs::new("no-way");
    for (wrong, says) in [
        (&["scattered-read:zigzag"][..], "scattered-read:sequential"),
        (
            &["scattered-read", "--clients", "4"],
            "--clients does not apply",
        ),
        (&["pgio", "--scale", "4"], "--scale does not apply"),
        (&["select-only"], "--size does not apply to select-only"),
    ] {
        let args = compared(wrong, "6");
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let output = runs.run(&args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {said}");
        assert!(said.contains(says), "{wrong:?}: {said}");
    }
}

#[test]
fn a_killed_comparison_of_pgio_is_gone_on_with() {
    let runs = Runs::new("killed-pgio");
    let args = compared(&["pgio", "--clients", "2", "--slice", "0.1"], "20");
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let mut child = runs.start(&args);
    let dir = runs.await_trials(4 + 6);
    signal(child.id(), Signal::KILL);
    child.wait().expect("it ended");
    let output = runs.run(&["compare", "--resume", "last", "--json"]);
    let json: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", text(&output.stderr)));
    assert_eq!(
        json["results"][0]["pairs"].as_array().map(Vec::len),
        Some(20)
    );
    let trials = fs::read_to_string(dir.join("trials.jsonl")).expect("trials");
    assert_eq!(trials.lines().count(), 4 + 40);
}

#[test]
fn equal_targets_and_five_pairs_are_announced() {
    let runs = Runs::new("same");
    let output = runs.run(&with(&[
        "compare", "temp", "temp", "--pairs", "5", "--delta", "0", "--load",
    ]));
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(5), "{err}");
    assert!(
        err.contains("A/A run") && err.contains("5 pairs can't show anything"),
        "{err}"
    );
    assert!(err.contains("delta is 0"), "{err}");
    let flat = out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("5 pairs can't show anything"), "{out}");
}

#[test]
fn a_killed_comparison_leaves_no_server_and_is_gone_on_with() {
    let runs = Runs::new("killed");
    let args = with(&[
        "compare", "temp", "temp", "--set-b", "jit=off", "--pairs", "10",
    ]);
    let mut child = runs
        .command(&args)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    let dir = runs.await_trials(8 + 4);
    let servers = postmasters_of(child.id());
    assert!(!servers.is_empty());
    signal(child.id(), Signal::KILL);
    child.wait().expect("it ended");
    for server in servers {
        assert!(gone(server), "the server {server} outlived its parent");
    }
    let output = runs.run(&["compare", "--resume", "last", "--json"]);
    let json: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", text(&output.stderr)));
    assert_eq!(
        json["results"][0]["pairs"].as_array().map(Vec::len),
        Some(10)
    );
    let warned = json["warnings"].as_array().expect("a list");
    assert!(
        warned.iter().any(|w| w["id"] == "started-anew"),
        "{warned:?}"
    );
    // the slices are those of the plan, each once
    let trials = fs::read_to_string(dir.join("trials.jsonl")).expect("trials");
    assert_eq!(trials.lines().count(), 8 + 20);
    let complete = runs.run(&["compare", "--resume", "last"]);
    assert_eq!(
        complete.status.code(),
        Some(2),
        "{}",
        text(&complete.stderr)
    );
}

#[test]
fn a_server_that_dies_is_named_and_the_pairs_before_are_kept() {
    let runs = Runs::new("died");
    let args = with(&[
        "compare", "temp", "temp", "--set-b", "jit=off", "--pairs", "200", "--json",
    ]);
    let child = runs
        .command(&args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    runs.await_trials(8 + 6);
    // A and B: A's like is gone by now
    let servers = postmasters_of(child.id());
    signal(*servers.iter().max().expect("servers"), Signal::KILL);
    let output = child.wait_with_output().expect("it ended");
    assert_eq!(output.status.code(), Some(4), "{}", text(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(
        json["results"][0]["pairs"]
            .as_array()
            .is_some_and(|p| p.len() >= 2)
    );
    let reason = json["analysis"]["run"]["reason"]
        .as_str()
        .expect("a reason");
    assert!(
        reason.starts_with("the server of ") && reason.contains(" died"),
        "{reason}"
    );
}

#[test]
fn a_server_that_does_not_start_again_leaves_a_part() {
    let runs = Runs::new("gone");
    let bin_dir = Installations::search()
        .newest()
        .expect("a PostgreSQL")
        .bin_dir
        .clone();
    let link = std::env::temp_dir().join(format!("pgassay-test-link-{}", std::process::id()));
    std::os::unix::fs::symlink(bin_dir, &link).expect("a link");
    let b = link.display().to_string();
    // so many launches that one comes after the link is gone, however slow this test is
    let args = with(&[
        "compare",
        "temp",
        &b,
        "--launches",
        "500",
        "--pairs",
        "2",
        "--json",
    ]);
    let child = runs.start(&args);
    runs.await_trials(8 + 4);
    fs::remove_file(&link).expect("the link goes");
    let output = child.wait_with_output().expect("it ended");
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{err}");
    assert!(err.contains(&format!("B ({b})")), "{err}");
    assert!(err.contains("--resume"), "{err}");
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(json["analysis"]["run"]["state"], "failed");
}

#[test]
fn mistakes_name_the_arm_the_flag_and_the_remedy() {
    let runs = Runs::new("wrong");
    for (args, code, said) in [
        (vec!["compare", "temp"], 2, "two targets"),
        (
            vec!["compare", "temp", "temp", "--set-c", "jit=off"],
            2,
            "no third target",
        ),
        (
            vec!["compare", "temp", "temp", "--set-b", "port=99"],
            2,
            "--set-b",
        ),
        (
            vec!["compare", "temp", "host=/nowhere dbname=x"],
            2,
            "--load",
        ),
        (
            vec!["compare", "temp", "temp", "--delta", "-1%"],
            2,
            "between 0 and 100",
        ),
        (
            vec![
                "compare",
                "temp",
                "temp",
                "--sequential",
                "--clients",
                "1,2",
            ],
            2,
            "one client count",
        ),
        (
            vec!["compare", "temp", "temp", "--workload", "lwlock:nosuch"],
            2,
            "lwlock:shared",
        ),
        (
            vec!["compare", "temp", "temp", "--workload", "nosuch"],
            2,
            "nosuch",
        ),
        (
            vec!["compare", "--recorded", "nosuch", "nosuch"],
            2,
            "nosuch",
        ),
        (vec!["history", "nosuch"], 2, "nosuch"),
        (
            vec!["compare", "temp", "/nowhere/at/all"],
            3,
            "B (/nowhere/at/all)",
        ),
        // B starts and ends at once, in PostgreSQL's own words
        (
            vec![
                "compare",
                "temp",
                "temp",
                "--set-b",
                "shared_buffers=nonsense",
            ],
            3,
            "shared_buffers",
        ),
    ] {
        let output = runs.run(&args);
        let err = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {err}");
        assert!(err.contains(said), "{args:?}: {err}");
    }
    assert!(!runs.0.exists() || fs::read_dir(&runs.0).expect("a directory").next().is_none());
}

/// Tried: Ctrl-C while the noise floor was measured ended with 130 and "interrupted before anything was
/// measured", although slices were recorded.
#[test]
fn what_an_interrupted_noise_floor_holds_is_reported() {
    let runs = Runs::new("noise-stopped");
    let args = [
        "compare",
        "temp",
        "temp",
        "--set-b",
        "jit=off",
        "--clients",
        "2",
        "--scale",
        "1",
        "--slice",
        "0.2",
        "--noise-pairs",
        "200",
        "--pairs",
        "6",
    ];
    let child = runs.start(&args);
    runs.await_trials(4);
    signal(child.id(), Signal::INT);
    let output = child.wait_with_output().expect("it ends");
    let (out, said) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("before the first pair"), "{said}");
    assert!(said.contains("pgassay compare --resume"), "{said}");
    assert!(out.contains("incomplete"), "{out}");
    assert!(!out.contains("work was lost"), "{out}");
    let dir = runs.await_trials(4);
    assert!(dir.join("report.html").is_file());
}

/// Tried: slices of 20 s with --minutes 10 began a comparison of 2.4 hours.
#[test]
fn minutes_that_do_not_suffice_are_refused_before_anything_is_measured() {
    let runs = Runs::new("minutes");
    let args = [
        "compare",
        "temp",
        "temp",
        "--clients",
        "1,2",
        "--slice",
        "20",
        "--minutes",
        "5",
    ];
    let output = runs.run(&args);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("--minutes 5 is too short"), "{said}");
    assert!(said.contains("--slice"), "{said}");
    // A trial is not a slice.
    let output = runs.run(&["compare", "temp", "temp", "--time", "1"]);
    assert_eq!(output.status.code(), Some(2));
}

/// Two names of runs need no --recorded.
#[test]
fn the_last_two_runs_are_compared_by_their_names() {
    let runs = Runs::new("last-two");
    for seed in ["1", "2"] {
        let args = [
            "run",
            "select-only",
            "--clients",
            "2",
            "--scale",
            "1",
            "--trials",
            "6",
            "--time",
            "0.1",
            "--warmup",
            "0",
            "--observe",
            "none",
            "--seed",
            seed,
        ];
        let output = runs.run(&args);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    }
    let short = runs.run(&["compare", "last", "previous", "--json"]);
    let long = runs.run(&["compare", "--recorded", "last", "previous", "--json"]);
    let said = text(&short.stderr);
    assert!(said.contains("both are recorded runs"), "{said}");
    assert_eq!(text(&short.stdout), text(&long.stdout));
    assert_eq!(short.status.code(), long.status.code());
    let json: Value = serde_json::from_slice(&short.stdout).expect("JSON");
    assert_schema(&json, "compare-1.json");
}

//! `pgassay compare-runs`: machines side by side, by recorded runs.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::runs::{Runs, text};
use crate::schema::assert_schema;
use crate::serve::{copy, name};

/// A short real run.
fn measured(runs: &Runs, scale: &str) -> std::path::PathBuf {
    let output = runs.run(&[
        "run",
        "select-only",
        "--clients",
        "1,2",
        "--time",
        "0.1",
        "--warmup",
        "0",
        "--trials",
        "6",
        "--scale",
        scale,
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let dirs = fs::read_dir(&runs.0).unwrap().flatten();
    dirs.map(|entry| entry.path()).max().unwrap()
}

/// The same run as if another machine had done it, all of its transactions `times` over.
fn elsewhere(run: &Path, to: &Path, times: u64) {
    copy(run, to);
    let header = fs::read_to_string(run.join("run.json")).unwrap();
    fs::write(to.join("run.json"), header.replace(name(run), name(to))).unwrap();
    on_another_machine(to, times);
}

/// Makes a recorded run one of another machine, all of its transactions `times` over.
fn on_another_machine(to: &Path, times: u64) {
    let file = to.join("facts/host.json");
    let host = fs::read_to_string(&file).unwrap();
    let mut host: Value = serde_json::from_str(&host).unwrap();
    let facts = match host.get_mut("host").is_some() {
        true => host.get_mut("host").unwrap(),
        false => &mut host,
    };
    facts["/proc/cpuinfo"]["text"] =
        "processor\t: 0\nmodel name\t: Other <b>CPU</b>\ncpu MHz\t\t: 1300.0\n".into();
    facts["/sys/devices/system/cpu/cpu*/cpufreq/cpuinfo_max_freq"] =
        serde_json::json!({"text": "0-7: 1300000"});
    facts["sched_getaffinity"]["text"] = "0-7".into();
    for list in ["core_cpus_list", "thread_siblings_list"] {
        let cpus: Vec<String> = (0..8).map(|cpu| format!("{cpu}: {cpu}")).collect();
        let key = format!("/sys/devices/system/cpu/cpu*/topology/{list}");
        facts[key.as_str()] = serde_json::json!({"text": cpus.join("\n")});
    }
    fs::write(&file, host.to_string()).unwrap();
    let file = to.join("trials.jsonl");
    let lines = fs::read_to_string(&file).unwrap();
    let lines = lines.lines().map(|line| {
        let mut trial: Value = serde_json::from_str(line).unwrap();
        let transactions = trial["transactions"].as_u64().unwrap();
        trial["transactions"] = (transactions * times).into();
        trial.to_string() + "\n"
    });
    let lines: String = lines.collect();
    fs::write(&file, lines).unwrap();
}

fn compared(runs: &Runs, words: &[&str]) -> Value {
    let mut all = vec!["compare-runs", "--json"];
    all.extend(words);
    let output = runs.run(&all);
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn scenario<'a>(hosts: &'a Value, named: &str) -> &'a Value {
    let all = hosts["scenarios"].as_array().unwrap();
    let found = all.iter().find(|scenario| scenario["name"] == named);
    found.unwrap_or_else(|| panic!("{named} in {hosts:#}"))
}

#[test]
fn machines_are_held_side_by_side_by_core_clock_and_price() {
    let runs = Runs::new("compare-runs");
    let run = measured(&runs, "1");
    let other = runs.0.join("20300101T000000Z-select-only-aaaa");
    elsewhere(&run, &other, 4);
    let prices = [
        "--price-a",
        "0.1 USD/h",
        "--price-b",
        "0.2 USD/h",
        "--ghz-a",
        "2.6",
    ];
    let words = [&[name(&run), name(&other)], &prices[..]].concat();
    let hosts = compared(&runs, &words);

    // Four times the transactions on four times the cores of half the clock and twice the price.
    let most = &scenario(&hosts, "select-only, most")["gains"][0];
    let near = |value: &Value, to: f64| (value.as_f64().unwrap() / to - 1.0).abs() < 0.01;
    assert!(near(&most["ratio"]["estimate"], 4.0), "{most:#}");
    let cores = f64::from(std::thread::available_parallelism().unwrap().get() as u32);
    let core_ratio = hosts["sides"][0]["cores"]
        .as_f64()
        .map(|a| 8.0 / a)
        .unwrap();
    assert!(hosts["sides"][0]["cores"].as_f64().unwrap() <= cores);
    assert!(near(&most["per_core"], 4.0 / core_ratio), "{most:#}");
    assert!(near(&most["per_ghz"], 4.0 / core_ratio / 0.5), "{most:#}");
    assert!(near(&most["per_price"], 2.0), "{most:#}");
    let one = &scenario(&hosts, "select-only, 1 client")["gains"][0];
    assert!(
        one["per_core"].is_null() && one["per_price"].is_null(),
        "{one:#}"
    );
    assert!(near(&one["per_ghz"], 8.0), "{one:#}");
    // Less CPU time is better.
    let cpu = &scenario(&hosts, "select-only, 1 client: server CPU")["gains"][0];
    assert!(near(&cpu["ratio"]["estimate"], 4.0), "{cpu:#}");
    let differs = |what: &str| {
        let all = hosts["differences"].as_array().unwrap();
        all.iter().any(|difference| difference["what"] == what)
    };
    assert!(differs("processors") && differs("clock of the cores") && !differs("server"));

    // As text and as a page, with nothing of the other machine's name let through.
    let output = runs.run(&[&["compare-runs"], &words[..]].concat());
    let shown = text(&output.stdout);
    assert!(
        shown.contains("Scenario by scenario") && shown.contains("per price"),
        "{shown}"
    );
    let output = runs.run(&[&["compare-runs", "--format", "html"], &words[..]].concat());
    let page = text(&output.stdout);
    assert!(page.contains("Other &lt;b&gt;CPU") && !page.contains("Other <b>CPU"));

    // A side may have several runs, or be a directory.
    let several = format!("{},{}", name(&run), name(&other));
    let hosts = compared(&runs, &[name(&run), &several]);
    assert_eq!(hosts["sides"][1]["runs"].as_array().unwrap().len(), 2);
    let all = runs.0.to_str().unwrap();
    let hosts = compared(&runs, &[name(&run), all]);
    assert_eq!(hosts["sides"][1]["runs"].as_array().unwrap().len(), 2);

    // Or a group of hosts, of each of which its newest run counts.
    let group = runs.0.join("group");
    for (host, day, times) in [(1, 1, 40), (1, 2, 4), (2, 1, 4), (3, 1, 4), (4, 1, 4)] {
        let id = format!("203001{day:02}T000000Z-select-only-{host:04}");
        elsewhere(&run, &group.join(format!("db{host}/runs")).join(id), times);
    }
    fs::write(group.join("facts.json"), "{}").unwrap();
    let group = group.to_str().unwrap();
    let hosts = compared(&runs, &[name(&run), group]);
    let side = &hosts["sides"][1];
    assert_eq!(side["runs"].as_array().unwrap().len(), 4, "{side:#}");
    assert_eq!(side["cores"], 8);
    let most = &scenario(&hosts, "select-only, most")["gains"][0];
    assert!(near(&most["ratio"]["estimate"], 4.0), "{most:#}");
    // One that is another machine leaves no number of cores.
    let id = "20300103T000000Z-select-only-0005";
    let odd = Path::new(group).join("db5/runs").join(id);
    copy(&run, &odd);
    let header = fs::read_to_string(run.join("run.json")).unwrap();
    fs::write(odd.join("run.json"), header.replace(name(&run), id)).unwrap();
    let side = &compared(&runs, &[name(&run), group])["sides"][1];
    assert_eq!(side["runs"].as_array().unwrap().len(), 5);
    let alike = hosts["sides"][0]["cores"] == 8;
    assert!(alike || side["cores"].is_null(), "{side:#}");
    assert!(
        side["processors"].as_str().unwrap().contains("; "),
        "{side:#}"
    );
}

#[test]
fn what_asks_another_question_has_no_ratio() {
    let runs = Runs::new("compare-runs-other");
    let small = measured(&runs, "1");
    let large = measured(&runs, "2");
    let hosts = compared(&runs, &[name(&small), name(&large)]);
    assert!(scenario(&hosts, "select-only, most")["gains"][0].is_null());
    let why = hosts["left_out"][0]["why"].as_str().unwrap();
    assert!(why.contains("scale is 1 and 2"), "{why}");

    for (words, says) in [
        (&["last"][..], "two sides or more"),
        (&["last"; 9], "at most 8 are held"),
        (&["last", "--scenario", "x"], "--table"),
        (&["last", "--table", "--price-a", "1"], "--price-a"),
        (
            &["last", "--table", "--scenario", "no-such"],
            "no run measured \"no-such\"",
        ),
        (&["last", "nothing-like-it"], "nothing-like-it"),
        (&["last", ","], "names no run"),
        (&["last", "/"], "holds no run"),
        (&["last", "previous", "--price-a", "cheap"], "is no price"),
        (
            &[
                "last",
                "previous",
                "--price-a",
                "1 USD/h",
                "--price-b",
                "1 EUR/h",
            ],
            "can't be held against each other",
        ),
        (&["last", "previous", "--ghz-a", "0"], "0.1 to 20"),
    ] {
        let output = runs.run(&[&["compare-runs"], words].concat());
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        let said = text(&output.stderr);
        assert!(said.contains(says), "{words:?}: {said}");
    }
}

/// A row each, the best first, with where it is from; what answers another question is said to.
#[test]
fn any_number_of_machines_stands_in_one_table() {
    let runs = Runs::new("compare-runs-table");
    let one = measured(&runs, "1");
    let two = measured(&runs, "2");
    let mut words = vec!["--table".to_owned(), name(&two).to_owned()];
    for n in 0..10 {
        let place = runs.0.join(format!("db{n}"));
        let id = format!("203001{:02}T000000Z-select-only-aaaa", n + 1);
        elsewhere(&one, &place.join(id), n + 2);
        words.push(place.to_str().unwrap().to_owned());
    }
    // A run that is named twice counts once.
    words.extend([words[2].clone(), name(&one).to_owned()]);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let table = compared(&runs, &words);
    assert_schema(&table, "machines-1.json");
    assert_eq!(table["scenarios"][0]["name"], "select-only, most");
    let rows = table["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 12);
    let figure = |row: &Value| row["figures"][0]["value"]["estimate"].as_f64().unwrap();
    assert!(
        rows.windows(2)
            .all(|pair| figure(&pair[0]) >= figure(&pair[1]))
    );
    let best = &rows[0];
    assert_eq!(best["run"], "20300110T000000Z-select-only-aaaa");
    assert_eq!(
        (&best["processor"], &best["cores"]),
        (&"Other <b>CPU</b>".into(), &8.into())
    );
    assert_eq!(best["pgassay_version"], env!("CARGO_PKG_VERSION"));
    assert!(best["server"].as_str().unwrap().starts_with("PostgreSQL "));
    assert!(
        best["directory"]
            .as_str()
            .unwrap()
            .ends_with("db9/20300110T000000Z-select-only-aaaa")
    );
    let value = &best["figures"][0]["value"];
    assert!(
        value["low"].as_f64() <= value["estimate"].as_f64() && value["n"] == 6,
        "{value}"
    );
    let others: Vec<&Value> = rows
        .iter()
        .filter(|row| !row["figures"][0]["other_question"].is_null())
        .collect();
    assert_eq!(others.len(), 1);
    assert_eq!(others[0]["run"], name(&two));
    let why = others[0]["figures"][0]["other_question"].as_str().unwrap();
    assert!(why.contains("scale is 1 and 2"), "{why}");

    // Less CPU time is better, and so comes first.
    let cpu = [
        &words[..],
        &["--scenario", "select-only, 1 client: server CPU"],
    ]
    .concat();
    let table = compared(&runs, &cpu);
    assert_eq!(table["rows"][0]["run"], best["run"]);
    let shown = |format: &str| {
        let line = [&["compare-runs", "--format", format], &words[..]].concat();
        let output = runs.run(&line);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    for format in ["text", "markdown"] {
        let said = shown(format);
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains("scale is 1 and 2"), "{said}");
        assert!(said.contains("select-only, most"), "{said}");
    }
    let page = shown("html");
    assert!(page.contains("Other &lt;b&gt;CPU") && !page.contains("Other <b>CPU"));
    assert_eq!(page.matches("<tr>").count(), 13);
    let csv = shown("csv");
    assert_eq!(csv.lines().count(), 13);
    assert!(csv.contains("select-only, most (tps) low"), "{csv}");
}

const PLAN: &str = r#"
name = "mine"
title = "JIT, and writes"
question = "What does it cost?"
[[arm]]
name = "with"
target = "temp"
[[arm]]
name = "without"
target = "temp"
settings = ["jit=off"]
[[stage]]
id = "reads"
measure = "compare"
clients = [1, 2]
scale = [1]
seconds = 0.1
[[stage]]
id = "writes"
measure = "run"
arms = ["with"]
workload = "simple-update"
clients = [1, 2]
scale = [1]
seconds = 0.1
trials = 6
[[statement]]
id = "same"
says = "Nothing."
test = { kind = "untested", why = "it is the machines that are compared" }
"#;

/// Labs of two machines: each stage's arms against the same on the other, and none where the plans differ.
#[test]
fn labs_of_one_plan_are_held_side_by_side_stage_by_stage() {
    let runs = Runs::new("compare-runs-labs");
    fs::create_dir_all(&runs.0).unwrap();
    let plan = runs.0.join("plan.toml");
    fs::write(&plan, PLAN).unwrap();
    let output = runs.run(&["lab", plan.to_str().unwrap(), "--minutes", "0.1"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let labs = fs::read_dir(runs.0.join("labs")).unwrap().flatten();
    let lab = labs.map(|entry| entry.path()).next().unwrap();
    let other = runs.0.join("labs/20300101T000000-mine");
    copy(&lab, &other);
    let record = fs::read_to_string(lab.join("lab.json")).unwrap();
    let record = record.replace(name(&lab), name(&other));
    fs::write(other.join("lab.json"), &record).unwrap();
    for stage in ["01-reads", "02-writes"] {
        let runs = fs::read_dir(other.join(stage)).unwrap().flatten();
        let run = runs
            .map(|entry| entry.path())
            .find(|run| run.join("run.json").is_file());
        on_another_machine(&run.unwrap(), 4);
    }
    // By name as well as by directory.
    let words = [name(&lab), other.to_str().unwrap()];
    let hosts = compared(&runs, &words);
    assert_schema(&hosts, "hosts-1.json");
    assert_eq!(hosts["sides"][1]["lab"], name(&other));
    for (scenario_name, family) in [
        ("reads, with: select-only, 1 client", "one-client"),
        ("reads, without: select-only, most", "many-clients"),
        ("writes, with: simple-update, most", "writes"),
    ] {
        let scenario = scenario(&hosts, scenario_name);
        assert_eq!(scenario["family"], family);
        let ratio = scenario["gains"][0]["ratio"]["estimate"].as_f64().unwrap();
        assert!((ratio / 4.0 - 1.0).abs() < 0.01, "{scenario:#}");
    }
    assert_eq!(hosts["left_out"], serde_json::json!([]));
    let table = compared(&runs, &["--table", words[0], words[1]]);
    assert_eq!(table["rows"].as_array().unwrap().len(), 2);
    assert_eq!(table["rows"][0]["run"], name(&other));

    let refused = |words: &[&str], says: &str| {
        let output = runs.run(&[&["compare-runs"], words].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(says), "{says}: {said}");
    };
    let run = other.join("02-writes");
    refused(&[words[0], run.to_str().unwrap()], "is a lab and");
    fs::write(other.join("lab.json"), record.replace("jit=off", "jit=on")).unwrap();
    refused(&words, "arm `without`: settings is jit=off and jit=on");
    fs::write(
        other.join("lab.json"),
        record.replace("\"mine\"", "\"yours\""),
    )
    .unwrap();
    refused(&words, "the plans are mine and yours");
}

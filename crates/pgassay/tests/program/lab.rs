//! `pgassay lab` from outside: plans, refusals, and one measured to its end.

use std::fs;

use serde_json::Value;

use crate::runs::{Runs, text};
use crate::schema::assert_schema;

const PLAN: &str = r#"
name = "mine"
title = "An index that may not be used"
question = "What does an index bring?"
[[source]]
id = "me"
title = "<b>somebody</b>"
hardware = "none"
[[figure]]
id = "f"
source = "me"
what = "without"
value = "half"
[[arm]]
name = "with"
target = "temp"
[[arm]]
name = "without"
target = "temp"
settings = ["enable_indexscan=off", "enable_bitmapscan=off", "enable_indexonlyscan=off"]
[[stage]]
id = "reads"
measure = "compare"
workload = "select-only"
clients = [1]
scale = [1]
seconds = 0.1
[[stage]]
id = "elsewhere"
measure = "run"
arms = ["with"]
workload = "no-such-workload"
[[statement]]
id = "slower"
says = "Without it point selects are less than half as fast."
figures = ["f"]
test = { kind = "ratio", of = { stage = "reads", arm = "without", clients = 1 }, over = { stage = "reads", arm = "with", clients = 1 }, range = { at-most = 0.5 } }
[[statement]]
id = "faster"
says = "Without it they are faster."
test = { kind = "ratio", of = { stage = "reads", arm = "without", clients = 1 }, over = { stage = "reads", arm = "with", clients = 1 }, range = { at-least = 1 } }
[[statement]]
id = "large"
says = "So they are on a large machine."
test = { kind = "order", stage = "reads", arms = ["with", "without"], clients = "most" }
needs = { cpus = 100000 }
[[statement]]
id = "missing"
says = "What was not measured can't be told."
test = { kind = "value", of = { stage = "elsewhere", arm = "with", clients = "most" }, range = { at-least = 1 } }
"#;

fn plan(runs: &Runs, text: &str) -> String {
    fs::create_dir_all(&runs.0).unwrap();
    let path = runs.0.join("plan.toml");
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn the_built_in_labs_are_listed_right_and_outlined() {
    let runs = Runs::new("lab-list");
    let output = runs.run(&["lab", "--list", "--json"]);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_schema(&json, "labs-1.json");
    let labs = json["labs"].as_array().unwrap();
    assert_eq!(labs.len(), 6);
    for lab in labs {
        let name = lab["name"].as_str().unwrap();
        let checked = runs.run(&["lab", name, "--check"]);
        assert_eq!(checked.status.code(), Some(0), "{name}");
        let output = runs.run(&["lab", name, "--dry-run", "--json"]);
        let outline: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_schema(&outline, "lab-outline-1.json");
        assert!(!outline["parts"].as_array().unwrap().is_empty(), "{name}");
        let shown = runs.run(&["lab", name, "--show"]);
        assert!(text(&shown.stdout).contains(&format!("name = \"{name}\"")));
    }
    assert!(!runs.0.join("labs").exists(), "nothing is begun by looking");
}

#[test]
fn a_wrong_plan_is_refused_with_its_line_before_anything_is_launched() {
    let runs = Runs::new("lab-wrong");
    let refused = |plan_text: &str, says: &str, extra: &[&str]| {
        let path = plan(&runs, plan_text);
        let mut args = vec!["lab", path.as_str()];
        args.extend(extra);
        let output = runs.run(&args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(says), "{says}: {said}");
    };
    refused(&PLAN.replace("title", "titel"), "titel", &["--check"]);
    refused(
        &PLAN.replace("arm = \"without\"", "arm = \"c\""),
        "there is no arm `c`",
        &[],
    );
    refused("name = ", "line 1", &[]);
    refused("\u{1b}[2J", "TOML", &[]);
    let running = PLAN.replacen("target = \"temp\"", "target = \"host=/nowhere\"", 1);
    refused(&running, "one that runs already", &["--dry-run"]);
    let library = PLAN.replace(
        "enable_bitmapscan=off",
        "Shared_Preload_Libraries=/tmp/x.so",
    );
    refused(&library, "programs of its own", &["--dry-run"]);
    let script = PLAN.replacen("workload = \"select-only\"", "workload = \"theirs.sql\"", 1);
    refused(&script, "theirs.sql, as the server's superuser", &[]);
    let path = plan(&runs, &library);
    let allowed = runs.run(&["lab", &path, "--dry-run", "--allow-commands"]);
    assert_eq!(allowed.status.code(), Some(0), "{}", text(&allowed.stderr));
    // What an arm is given stands in the command of either kind of stage, once it is allowed.
    let given = PLAN.replacen(
        "target = \"temp\"",
        "target = \"temp\"\nenvironment = [\"A=1\"]\nwrap = \"env B=2\"",
        1,
    );
    refused(&given, "a server through env B=2", &["--dry-run"]);
    let kept = given.replacen("wrap", "cpus = [0]\nwrap", 1);
    refused(
        &kept,
        "`with` has CPUs of its own, which only compare gives",
        &["--check"],
    );
    let path = plan(&runs, &given.replace("no-such-workload", "select-only"));
    let outlined = text(
        &runs
            .run(&["lab", &path, "--dry-run", "--allow-commands"])
            .stdout,
    );
    for words in [
        "--env-a A=1 --wrap-a 'env B=2'",
        "--env A=1 --wrap 'env B=2'",
    ] {
        assert!(outlined.contains(words), "{words}: {outlined}");
    }
    let output = runs.run(&["lab", "no-such-lab"]);
    assert!(text(&output.stderr).contains("power8"));
    let missing = runs.run(&["lab", "--report", "last"]);
    assert_eq!(missing.status.code(), Some(2));
}

#[test]
fn a_lab_is_measured_and_each_statement_judged() {
    let runs = Runs::new("lab");
    let path = plan(&runs, PLAN);
    let page = runs.0.join("lab.html");
    let page = page.to_str().unwrap();
    let output = runs.run(&["lab", &path, "--minutes", "0.15", "--json", "--html", page]);
    let said = text(&output.stderr);
    // One of its two stages failed.
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("pgassay compare temp temp"), "{said}");
    let json: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {said}"));
    assert_schema(&json, "lab-1.json");
    let outcomes: Vec<&str> = json["statements"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| s["outcome"].as_str().unwrap())
        .collect();
    let cannot = "cannot-be-told";
    assert_eq!(outcomes, ["same", "differs", cannot, cannot], "{json:#}");
    let measured = &json["statements"][2]["measured"][0]["value"];
    assert!(measured["low"].as_f64().unwrap() > 1.0, "{measured}");
    let why = json["statements"][3]["why"].as_str().unwrap();
    assert!(why.contains("no-such-workload"), "{why}");
    let html = fs::read_to_string(page).unwrap();
    assert!(html.contains("&lt;b&gt;somebody"), "names are text");

    let again = runs.run(&["lab", "--report", "last", "--format", "markdown"]);
    assert!(text(&again.stdout).contains("cannot be told here"));
    let whole = runs.run(&["lab", "--resume", "last"]);
    assert_eq!(whole.status.code(), Some(2), "{}", text(&whole.stderr));

    // As it stands where it was killed before the first stage ended.
    let labs = runs.0.join("labs");
    let dir = fs::read_dir(&labs).unwrap().next().unwrap().unwrap().path();
    let file = dir.join("lab.json");
    let record = fs::read_to_string(&file).unwrap();
    fs::write(&file, record.replacen("\"done\"", "\"pending\"", 1)).unwrap();
    let resumed = runs.run(&["lab", "--resume", "last", "--json"]);
    let said = text(&resumed.stderr);
    assert_eq!(resumed.status.code(), Some(0), "{said}");
    assert!(
        !said.contains("making and starting"),
        "its run is whole: {said}"
    );
}

/// It ended with 0.
#[test]
fn a_lab_whose_only_stage_failed_ends_as_that_stage() {
    let runs = Runs::new("lab-failed");
    for (broken, code) in [
        ("workload = \"no-such-workload\"", 2),
        ("workload = \"select-only\"", 3),
    ] {
        let arm = match code {
            3 => "target = \"/no/such/installation\"",
            _ => "target = \"temp\"",
        };
        let path = plan(
            &runs,
            &format!(
                "name = \"mine\"\ntitle = \"t\"\nquestion = \"q\"\n\
                 [[arm]]\nname = \"with\"\n{arm}\n\
                 [[stage]]\nid = \"elsewhere\"\nmeasure = \"run\"\n{broken}\nclients = [1]\nscale = [1]\nseconds = 0.1\n\
                 [[statement]]\nid = \"missing\"\nsays = \"x\"\ntest = {{ kind = \"value\", of = {{ stage = \
                 \"elsewhere\", arm = \"with\", clients = \"most\" }}, range = {{ at-least = 1 }} }}\n"
            ),
        );
        let output = runs.run(&["lab", &path, "--minutes", "0.1", "--allow-commands"]);
        assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
    }
}

#[test]
fn the_clients_of_a_lab_are_where_they_are_named_also_after_an_interruption() {
    let runs = Runs::new("lab-from");
    let path = plan(&runs, PLAN);
    let refused = |words: &[&str], says: &str| {
        let output = runs.run(words);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(says), "{says}: {said}");
    };
    refused(&["lab", &path, "--from", "here"], "ssh://HOST");
    refused(&["lab", &path, "--listen", "127.0.0.1"], "--from LIST");
    let outline = runs.run(&["lab", &path, "--from", "local", "--dry-run"]);
    let outline = text(&outline.stdout);
    let from: Vec<&str> = outline
        .lines()
        .filter(|line| line.contains("--from local"))
        .collect();
    assert!(
        from.iter().any(|line| line.contains("select-only")),
        "{outline}"
    );

    let words = [
        "lab",
        &path,
        "--from",
        "local",
        "--minutes",
        "0.1",
        "--json",
    ];
    let output = runs.run(&words);
    let said = text(&output.stderr);
    // One of its two stages fails.
    assert_eq!(output.status.code(), Some(4), "{said}");
    let labs = runs.0.join("labs");
    let dir = fs::read_dir(&labs).unwrap().next().unwrap().unwrap().path();
    let run = fs::read_dir(dir.join("01-reads"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let header: Value = serde_json::from_slice(&fs::read(run.join("run.json")).unwrap()).unwrap();
    assert!(
        header.to_string().contains("\"from\":[\"local\"]"),
        "{header:#}"
    );

    let file = dir.join("lab.json");
    let record = fs::read_to_string(&file).unwrap();
    fs::write(&file, record.replacen("\"done\"", "\"pending\"", 1)).unwrap();
    fs::remove_dir_all(&run).unwrap();
    refused(
        &["lab", "--resume", "last", "--from", "ssh://c1"],
        "the load from local",
    );
    let words = ["lab", "--resume", "last", "--minutes", "0.1"];
    let resumed = runs.run(&words);
    let said = text(&resumed.stderr);
    assert_eq!(resumed.status.code(), Some(0), "{said}");
    assert!(said.contains("load from local"), "{said}");
}

/// The same plan with two arms, the second of which is on a machine of its own.
const MACHINES: &str = r#"
name = "machines"
title = "Two machines"
question = "Which is faster?"
[[arm]]
name = "here"
target = "temp"
[[arm]]
name = "there"
target = "exec:env MACHINE=b // temp"
[[stage]]
id = "here"
measure = "run"
arms = ["here"]
clients = [1]
scale = [1]
seconds = 0.1
trials = 6
[[stage]]
id = "there"
measure = "run"
arms = ["there"]
clients = [1]
scale = [1]
seconds = 0.1
trials = 6
[[statement]]
id = "equal"
says = "They are within a factor of a hundred."
test = { kind = "ratio", of = { stage = "there", arm = "there", clients = 1 }, over = { stage = "here", arm = "here", clients = 1 }, range = { at-least = 0.01, at-most = 100 } }
needs = { cpus = 1 }
"#;

#[test]
fn an_arm_may_be_on_a_machine_of_its_own() {
    let runs = Runs::far("lab-machines");
    let refused = |plan_text: &str, says: &str, extra: &[&str]| {
        let path = plan(&runs, plan_text);
        let output = runs.run(&[&["lab", path.as_str()], extra].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(says), "{says}: {said}");
    };
    let there = "a server on exec:env MACHINE=b";
    refused(MACHINES, there, &["--dry-run"]);
    let running = MACHINES.replace("b // temp", "b // host=/nowhere");
    refused(
        &running,
        "one that runs already",
        &["--dry-run", "--allow-commands"],
    );
    let together = MACHINES.replacen(
        "measure = \"run\"\narms = [\"here\"]",
        "measure = \"compare\"",
        1,
    );
    let one_machine = "the servers of one comparison are on one machine. Give each a stage";
    refused(&together, one_machine, &["--check"]);
    let counted = MACHINES.replacen(
        "measure = \"run\"\narms = [\"here\"]",
        "measure = \"inspect\"",
        1,
    );
    refused(&counted, "and inspect is done here", &["--check"]);

    let path = plan(&runs, MACHINES);
    let words = [
        "lab",
        &path,
        "--allow-commands",
        "--minutes",
        "0.1",
        "--json",
    ];
    let output = runs.run(&words);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_schema(&json, "lab-1.json");
    let server = |stage: usize| json["stages"][stage]["arms"][0]["server"].as_str().unwrap();
    assert!(
        server(1).ends_with(", on exec:env MACHINE=b, with its load"),
        "{}",
        server(1)
    );
    assert!(!server(0).contains("MACHINE"), "{}", server(0));
    let command = json["stages"][1]["command"].to_string();
    assert!(command.contains("exec:env MACHINE=b // temp"), "{command}");
    // Held against each other, unless the machine was too busy for that.
    let equal = &json["statements"][0];
    let why = equal["why"].as_str().unwrap_or_default();
    assert!(
        equal["outcome"] == "same" || why.contains("too disturbed"),
        "{equal:#}"
    );
    let labs = fs::read_dir(runs.0.join("labs")).unwrap().flatten();
    let lab = labs.map(|entry| entry.path()).next().unwrap();
    let kept = fs::read_dir(lab.join("02-there")).unwrap().flatten();
    let marked = kept.filter(|run| run.path().join("elsewhere.json").is_file());
    assert_eq!(marked.count(), 1);
    refused(
        MACHINES,
        "names one of its own",
        &["--dry-run", "--allow-commands", "--on", "exec:env M=c"],
    );
}

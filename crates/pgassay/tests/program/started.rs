//! What `pgassay serve --allow-run` starts from its pages, and what nobody gets it to start.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::runs::{Runs, Signal, signal};
use crate::serve::{Served, copy, measured, name};

fn runs_in(runs: &Runs) -> usize {
    fs::read_dir(&runs.0).unwrap().count()
}

/// Waits until the page of what was started says so.
fn await_state(served: &Served, state: &str) -> String {
    let until = Instant::now() + Duration::from_secs(180);
    loop {
        let page = served.page("/started");
        if page.contains(state) {
            return page;
        }
        assert!(Instant::now() < until, "never {state}: {page}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn children(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let all: String = lists.collect();
    all.split_ascii_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .collect()
}

#[test]
fn nothing_is_started_without_the_flag() {
    let runs = Runs::new("started-not");
    let run = measured(&runs);
    let served = Served::start(&runs, &[]);
    let ask = format!("/start?what=repeat&run={}", name(&run));
    assert_eq!(served.get(&ask).0, 403);
    assert_eq!(served.get("/started").0, 404);
    let form = format!("what=repeat&run={}", name(&run));
    assert_eq!(served.post("/start", &served.origin(), &form).0, 405);
    let page = served.page(&format!("/run/{}", name(&run)));
    assert!(!page.contains("/start?"), "{page}");
}

#[test]
fn a_run_is_measured_again_one_at_a_time_and_its_output_followed() {
    let runs = Runs::new("started");
    let run = measured(&runs);
    let served = Served::start(&runs, &["--allow-run"]);
    served.list();
    let page = served.page(&format!("/run/{}", name(&run)));
    let ask = format!("/start?what=repeat&amp;run={}", name(&run));
    assert!(page.contains(&format!("{}{ask}", served.root())), "{page}");
    assert!(!page.contains("what=resume"), "it is complete: {page}");
    let asked = served.page(&ask.replace("&amp;", "&"));
    assert!(
        asked.contains(&format!("pgassay run --repeat {}", name(&run))),
        "{asked}"
    );
    assert_eq!(runs_in(&runs), 1, "a question starts nothing");
    let form = served.form_of(&asked, "/start");
    assert_eq!(served.post("/start", "", &form).0, 403);
    assert_eq!(
        served
            .post("/start", "Origin: http://evil.example\r\n", &form)
            .0,
        403
    );

    let (status, head) = served.post("/start", &served.origin(), &form);
    assert_eq!(status, 303, "{head}");
    assert!(
        head.contains(&format!("location: {}/started", served.root())),
        "{head}"
    );
    let (status, said) = served.post("/start", &served.origin(), &form);
    assert!(
        status == 409 && said.contains("Another measurement runs"),
        "{status} {said}"
    );
    // What it says comes as events, until its end.
    let mut events = BufReader::new(served.open("/started", "text/event-stream"));
    let mut told = String::new();
    while !told.contains("event: end") || !told.ends_with("\n\n") {
        assert!(events.read_line(&mut told).unwrap() > 0, "{told}");
    }
    assert!(
        told.contains("It ended with exit code 0.") && told.contains("report:"),
        "{told}"
    );
    assert_eq!(runs_in(&runs), 2);
    assert!(await_state(&served, "exit code 0").contains("select-only"));
}

#[test]
fn what_runs_is_stopped_with_the_page_or_the_server_and_keeps_what_it_has() {
    let runs = Runs::new("started-stopped");
    let run = measured(&runs);
    // The same plan with very many trials.
    let long = runs.0.join("20300101T000000Z-select-only-aaaa");
    copy(&run, &long);
    let header = fs::read_to_string(run.join("run.json")).unwrap();
    let header = header
        .replace("\"trials\": 3", "\"trials\": 5000")
        .replace(name(&run), name(&long));
    assert!(header.contains("5000"), "{header}");
    fs::write(long.join("run.json"), header).unwrap();
    fs::remove_file(long.join("end.json")).unwrap();
    let before = fs::read_to_string(long.join("trials.jsonl"))
        .unwrap()
        .lines()
        .count();

    let mut served = Served::start(&runs, &["--allow-run"]);
    served.list();
    let question = served.page(&format!("/start?what=resume&run={}", name(&long)));
    let form = served.form_of(&question, "/start");
    let (status, said) = served.post("/start", &served.origin(), &form);
    assert_eq!(status, 303, "{said}");
    let trials = || {
        fs::read_to_string(long.join("trials.jsonl"))
            .unwrap()
            .lines()
            .count()
    };
    let until = Instant::now() + Duration::from_secs(180);
    while trials() <= before {
        assert!(Instant::now() < until, "{}", served.page("/started"));
        std::thread::sleep(Duration::from_millis(50));
    }
    let stop = served.form_of(&served.page("/started"), "/stop");
    assert_eq!(served.post("/stop", &served.origin(), &stop).0, 303);
    await_state(&served, "exit code 4");
    assert!(long.join("end.json").exists());

    // Once more, and the server is told to end.
    let (status, said) = served.post("/start", &served.origin(), &form);
    assert_eq!(status, 303, "{said}");
    let measuring = children(served.child.id());
    assert_eq!(measuring.len(), 1, "{measuring:?}");
    signal(served.child.id(), Signal::INT);
    assert_eq!(served.child.wait().unwrap().code(), Some(0));
    assert!(
        !Path::new(&format!("/proc/{}", measuring[0])).exists(),
        "it outlives the server"
    );
}

#[test]
fn what_a_run_says_starts_nothing_but_what_is_offered() {
    let runs = Runs::new("started-hostile");
    let run = measured(&runs);
    let header = fs::read_to_string(run.join("run.json")).unwrap();
    let changed = |to: &str, change: &dyn Fn(&str) -> String| {
        let dir = runs.0.join(to);
        copy(&run, &dir);
        fs::write(dir.join("run.json"), change(&header)).unwrap();
        dir
    };
    changed("20250101T000000Z-command-aaaa", &|h| {
        h.replace("\"command\": \"run\"", "\"command\": \"--allow-shell\"")
    });
    changed("20250102T000000Z-target-aaaa", &|h| {
        h.replace(
            "\"typed\": \"temp\"",
            "\"typed\": \"--html=/tmp/pgassay-never\"",
        )
    });
    changed("20250103T000000Z-script-aaaa", &|h| {
        h.replace(
            "SELECT abalance",
            "<script>alert(1)</script> SELECT abalance",
        )
    });
    changed("--allow-shell", &str::to_owned);
    let open = changed("20250104T000000Z-open-aaaa", &str::to_owned);
    fs::set_permissions(open.join("run.json"), fs::Permissions::from_mode(0o666)).unwrap();
    let served = Served::start(&runs, &["--allow-run"]);
    served.list();
    for (question, status) in [
        ("what=repeat&run=20250101T000000Z-command-aaaa", 409),
        ("what=repeat&run=--allow-shell", 409),
        ("what=repeat&run=20250104T000000Z-open-aaaa", 409),
        ("what=resume&run=20250102T000000Z-target-aaaa", 409),
        ("what=compare&run=20250102T000000Z-target-aaaa", 409),
        ("what=repeat&run=..%2F..%2Fetc", 404),
        ("what=repeat&run=nothing", 404),
        ("what=shell&run=20250102T000000Z-target-aaaa", 404),
        ("what=repeat", 409),
        ("", 404),
    ] {
        // No page asks that, so that there is no token for it, either.
        let asked = format!("/start?{question}");
        assert_eq!(served.get(&asked).0, status, "{question}");
        assert_eq!(served.post("/start", &served.origin(), question).0, 403);
    }
    // What was offered may be different when it is asked for.
    let offered = format!("/start?what=repeat&run={}", name(&run));
    let form = served.form_of(&served.page(&offered), "/start");
    fs::set_permissions(run.join("run.json"), fs::Permissions::from_mode(0o666)).unwrap();
    assert_eq!(served.post("/start", &served.origin(), &form).0, 409);
    fs::set_permissions(run.join("run.json"), fs::Permissions::from_mode(0o644)).unwrap();
    let script = served.page("/start?what=repeat&run=20250103T000000Z-script-aaaa");
    assert!(
        script.contains("script select-only") || script.contains("&lt;script"),
        "{script}"
    );
    assert!(!script.contains("<script>alert"), "{script}");
    // A target that looks like a flag is a target, behind `--`.
    let both = format!("run=20250102T000000Z-target-aaaa&run={}", name(&run));
    let page = served.page(&format!("/start?what=compare&{both}"));
    assert!(page.contains("-- --html=/tmp/pgassay-never temp"), "{page}");
    assert_eq!(served.get("/started").0, 404, "nothing was started");
}

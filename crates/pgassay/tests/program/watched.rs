//! The page of a measurement that shows it while it runs: second by second, paused and let go.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::runs::{Runs, Signal, signal};
use crate::serve::Served;

/// A measurement of its own page, long enough for every test.
fn watched(runs: &Runs, more: &str) -> Served {
    let words = format!(
        "run select-only temp --watch --clients 1,2 --trials 2000 --warmup 0 --scale 1 {more}"
    );
    let mut child = runs.start(&words.split(' ').collect::<Vec<_>>());
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("watch it: ") {
        line.clear();
        assert!(
            said.read_line(&mut line).unwrap() > 0,
            "it ended without an address"
        );
    }
    // What it says further on has a reader.
    std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
    Served::of(child, &line)
}

/// Reads events until one says so.
fn until(feed: TcpStream, what: &str) -> String {
    let mut events = BufReader::new(feed);
    let mut event = String::new();
    let begun = Instant::now();
    loop {
        let mut line = String::new();
        assert!(
            events.read_line(&mut line).unwrap() > 0,
            "the feed ended before {what}"
        );
        match line.trim().is_empty() {
            true => {
                if event.contains(what) {
                    return event;
                }
                event.clear();
            }
            false => event += &line,
        }
        assert!(
            begun.elapsed() < Duration::from_secs(180),
            "never {what}: {event}"
        );
    }
}

#[test]
fn a_page_that_only_reads_pauses_nothing() {
    let runs = Runs::new("watched-read");
    let words = "run select-only temp --clients 1,2 --trials 2000 --time 0.1 --warmup 0 --scale 1";
    let measuring = runs.start(&words.split(' ').collect::<Vec<_>>());
    let dir = runs.await_trials(1);
    let run = dir.file_name().unwrap().to_str().unwrap().to_owned();
    let served = Served::start(&runs, &[]);
    assert!(
        !served
            .page(&format!("/run/{run}"))
            .contains("method=\"post\"")
    );
    let (status, _) = served.post(&format!("/pause/{run}"), &served.origin(), "");
    assert_eq!(status, 405);
    assert!(!dir.join("pause.json").exists());
    signal(measuring.id(), Signal::INT);
    measuring.wait_with_output().unwrap();
}

#[test]
fn a_measurement_is_paused_from_its_own_page_and_by_no_other() {
    let runs = Runs::new("watched-pause");
    let mut served = watched(&runs, "--time 0.1");
    let dir = runs.await_trials(1);
    let run = dir.file_name().unwrap().to_str().unwrap().to_owned();
    let (pause, unpause) = (format!("/pause/{run}"), format!("/unpause/{run}"));
    let page = served.page("/now");
    let form = served.form_of(&page, &pause);
    for origin in ["", "Origin: null\r\n", "Origin: http://evil.example\r\n"] {
        assert_eq!(served.post(&pause, origin, &form).0, 403, "{origin}");
    }
    let own = served.origin();
    assert_eq!(served.post(&pause, &own, "").0, 403);
    // The token of one form sends no other.
    for path in [
        "/pause/..",
        "/pause/nothing",
        "/pause",
        "/remove/x",
        "/",
        &unpause,
    ] {
        assert_eq!(served.post(path, &own, &form).0, 403, "{path}");
    }
    assert!(!dir.join("pause.json").exists());

    let feed = served.open(&format!("/live/{run}"), "text/event-stream");
    let (status, head) = served.post(&pause, &own, &form);
    assert_eq!(status, 303, "{head}");
    let page = format!("location: {}/run/{}", served.root(), run.to_lowercase());
    assert!(head.contains(&page), "{head}");
    let held = until(feed, "Paused since");
    let form = served.form_of(&held, &unpause);
    assert!(held.contains("goes on by itself after"), "{held}");
    assert_eq!(served.post(&unpause, &own, &form).0, 303);
    let feed = served.open(&format!("/live/{run}"), "text/event-stream");
    until(feed, &format!("action=\"{}{pause}\"", served.root()));
    let trials = || {
        fs::read_to_string(dir.join("trials.jsonl"))
            .unwrap()
            .lines()
            .count()
    };
    let (before, begun) = (trials(), Instant::now());
    while trials() == before {
        assert!(
            begun.elapsed() < Duration::from_secs(180),
            "it does not go on"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    signal(served.child.id(), Signal::INT);
    assert_eq!(served.child.wait().unwrap().code(), Some(4));
}

#[test]
fn seconds_are_told_while_somebody_follows_and_to_nobody_else() {
    let runs = Runs::new("watched-seconds");
    let mut served = watched(&runs, "--time 3");
    let dir = runs.await_trials(1);
    let live = dir.join("live.jsonl");
    // Nobody has asked for a page.
    assert_eq!(fs::metadata(&live).unwrap().len(), 0);
    let run = dir.file_name().unwrap().to_str().unwrap().to_owned();
    let feed = served.open(&format!("/live/{run}"), "text/event-stream");
    let event = until(feed, "Throughput, second by second");
    for what in [
        "The last minute",
        "p99 now",
        "measured; it takes 3 s",
        "other work now",
    ] {
        assert!(event.contains(what), "{what}: {event}");
    }
    let told = fs::read_to_string(&live).unwrap();
    assert!(told.lines().count() >= 2, "{told}");
    let first: serde_json::Value = serde_json::from_str(told.lines().next().unwrap()).unwrap();
    assert_eq!(first["unit"], "tps");
    signal(served.child.id(), Signal::INT);
    assert_eq!(served.child.wait().unwrap().code(), Some(4));
    assert!(!live.exists(), "it goes with the measurement");
}

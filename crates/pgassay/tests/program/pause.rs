//! A measurement that is paused from another process.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::runs::{Runs, Signal, signal, text};

fn trials(dir: &Path) -> usize {
    let text = fs::read_to_string(dir.join("trials.jsonl")).unwrap_or_default();
    text.lines().count()
}

/// Waits until the run's events say so.
fn await_event(dir: &Path, what: &str) -> String {
    let until = Instant::now() + Duration::from_secs(180);
    loop {
        let events = fs::read_to_string(dir.join("events.jsonl")).unwrap_or_default();
        if events.contains(what) {
            return events;
        }
        assert!(Instant::now() < until, "never {what}: {events}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_measurement_is_paused_goes_on_and_ends_by_ctrl_c_while_it_waits() {
    let runs = Runs::new("pause");
    let words = "run select-only temp --clients 1,2 --trials 2000 --time 0.1 --warmup 0 --scale 1";
    let measuring = runs.start(&words.split(' ').collect::<Vec<_>>());
    let dir = runs.await_trials(3);
    let paused = runs.run(&["runs", "pause", "--for", "30"]);
    assert!(paused.status.success(), "{}", text(&paused.stderr));
    assert!(text(&paused.stderr).contains("waits when its trial is over, for 30 min"));
    await_event(&dir, "\"paused\"");
    let before = trials(&dir);
    let on = runs.run(&["runs", "unpause"]);
    assert!(text(&on.stderr).contains("goes on"), "{}", text(&on.stderr));
    await_event(&dir, "\"unpaused\"");
    let until = Instant::now() + Duration::from_secs(180);
    while trials(&dir) == before {
        assert!(Instant::now() < until, "it did not go on");
        std::thread::sleep(Duration::from_millis(20));
    }
    let again = runs.run(&["runs", "unpause", "last"]);
    assert!(
        text(&again.stderr).contains("is not paused"),
        "{}",
        text(&again.stderr)
    );

    // The one who paused is gone for good, and Ctrl-C still ends it with all that was measured.
    assert!(runs.run(&["runs", "pause"]).status.success());
    let until = Instant::now() + Duration::from_secs(180);
    while await_event(&dir, "\"paused\"")
        .matches("\"paused\"")
        .count()
        < 2
    {
        assert!(Instant::now() < until, "it was not paused again");
        std::thread::sleep(Duration::from_millis(20));
    }
    let before = trials(&dir);
    signal(measuring.id(), Signal::INT);
    let ended = measuring.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(4), "{}", text(&ended.stderr));
    assert_eq!(trials(&dir), before, "no trial ran while it was paused");
    let said = text(&ended.stderr);
    assert!(said.contains("progress: paused for 30 min"), "{said}");
    let report = text(&runs.run(&["report", "last"]).stdout);
    assert!(report.contains("Measuring was paused 2 times"), "{report}");
    let late = runs.run(&["runs", "pause"]);
    assert_eq!(late.status.code(), Some(2), "{}", text(&late.stderr));
    assert!(text(&late.stderr).contains("is not being measured"));
}

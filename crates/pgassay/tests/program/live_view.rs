//! What somebody sees while `pgassay run` runs: two lines on a terminal, a line now and then in a
//! pipe.

use std::process::{Command, Output};

fn run(name: &str, command: &mut Command) -> Output {
    let runs = std::env::temp_dir().join(format!("pga-live-{name}-{}", std::process::id()));
    let output = command.env("PGASSAY_RUNS", &runs).output().unwrap();
    let _ = std::fs::remove_dir_all(&runs);
    assert!(output.status.success(), "{output:?}");
    output
}

#[test]
fn forty_columns_hold_throughput_latency_and_failures() {
    let words = "run select-only --clients 1 --trials 1 --warmup 0.1 --time 4 --scale 1";
    let inside = format!(
        "stty cols 40 rows 24 && exec {} {words}",
        env!("CARGO_BIN_EXE_pgassay")
    );
    // script(1), of util-linux, gives the program a terminal and prints what it writes there.
    let output = run(
        "terminal",
        Command::new("script")
            .args(["-q", "-e", "-c", &inside, "/dev/null"])
            .stdin(std::process::Stdio::null())
            .env("TERM", "xterm"),
    );
    let shown = String::from_utf8_lossy(&output.stdout);
    // A drawing is the trial's line, filled up to the edge, and the figures' line behind it.
    let drawings = shown.split(['\r', '\n', '\x1b']);
    let figures: Vec<&str> = drawings
        .filter(|d| d.contains(" tps ") && d.contains(" failed"))
        .map(|d| d.rsplit_once(" left").map_or(d, |(_, behind)| behind))
        .collect();
    assert!(!figures.is_empty(), "{shown}");
    for seen in figures {
        assert!(seen.contains(" p99 ") && seen.contains(" ms "), "{seen}");
        assert!(seen.trim().chars().count() <= 40, "{seen}");
    }
    assert!(shown.contains("trial 1 of 1, 1 client,"), "{shown}");
}

#[test]
fn a_pipe_gets_lines_and_quiet_is_quiet() {
    let words = "run select-only --clients 2 --trials 1 --warmup 0.1 --scale 1";
    let ours = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pgassay"));
        command.args(words.split(' '));
        command
    };
    let output = run("pipe", ours().args(["--time", "6"]));
    let said = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = said
        .lines()
        .filter(|l| l.starts_with("progress:"))
        .collect();
    assert!((1..=2).contains(&lines.len()), "{said}");
    for part in ["trial 1 of 1", "tps, lat ", "p99 ", "0 failed", " left"] {
        assert!(lines[0].contains(part), "{said}");
    }
    assert!(!said.contains('\x1b'), "{said}");
    let output = run("quiet", ours().args(["--time", "6", "--quiet"]));
    // Warnings come all the same: other tests measure beside this one.
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!said.contains("progress"), "{said}");
}

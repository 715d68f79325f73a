//! `pgassay follow`: a measurement seen in a terminal, in lines, and not at all.

use std::fs;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::runs::{Runs, Signal, signal, text};

/// A terminal of its own (script(1), of util-linux), in which a shell runs.
struct Terminal {
    child: Child,
    shown: Arc<Mutex<String>>,
}

impl Terminal {
    fn run(runs: &Runs, shell: &str, environment: &[(&str, &str)]) -> Self {
        let mut child = Command::new("script")
            .args(["-q", "-e", "-c", shell, "/dev/null"])
            .env("PGASSAY_RUNS", &runs.0)
            .env("TERM", "xterm")
            .env_remove("COLUMNS")
            .env_remove("NO_COLOR")
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let shown = Arc::new(Mutex::new(String::new()));
        let (kept, mut output) = (Arc::clone(&shown), child.stdout.take().unwrap());
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(read @ 1..) = output.read(&mut bytes) {
                kept.lock()
                    .unwrap()
                    .push_str(&String::from_utf8_lossy(&bytes[..read]));
            }
        });
        Self { child, shown }
    }

    /// Waits until that is shown, after what was shown before `from`; where it ends.
    fn await_shown(&self, what: &str, from: usize) -> usize {
        let until = Instant::now() + Duration::from_secs(120);
        loop {
            let shown = self.shown.lock().unwrap().clone();
            if let Some(at) = shown.get(from..).and_then(|rest| rest.find(what)) {
                return from + at + what.len();
            }
            assert!(
                Instant::now() < until,
                "never {what}: {}",
                shown.escape_debug()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn key(&mut self, key: &[u8]) {
        let keys = self.child.stdin.as_mut().unwrap();
        keys.write_all(key).and_then(|()| keys.flush()).unwrap();
    }

    /// What was shown until the shell had no more to do.
    fn end(mut self) -> String {
        self.await_shown("ended-here", 0);
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
        self.shown.lock().unwrap().clone()
    }

    /// The program that runs in it.
    fn program(&self) -> u32 {
        let mut looked_at = vec![self.child.id()];
        while let Some(pid) = looked_at.pop() {
            let comm = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            if comm.trim() == "pgassay" {
                return pid;
            }
            let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
            let children = children.unwrap_or_default();
            looked_at.extend(
                children
                    .split_ascii_whitespace()
                    .flat_map(str::parse::<u32>),
            );
        }
        panic!("no pgassay runs in the terminal");
    }
}

/// The shell's line: a terminal of that size, the program, and whether the terminal is as it was.
fn inside(size: &str, program: &str) -> String {
    let own = env!("CARGO_BIN_EXE_pgassay");
    let program = program.replace("pgassay", own);
    format!(
        "stty {size}; b=$(stty -g); {program}; echo \"code $?\"; [ \"$b\" = \"$(stty -g)\" ] && echo restored; \
         echo ended-here"
    )
}

fn measuring(runs: &Runs) -> Child {
    let words = "run select-only temp --clients 1,2 --trials 2000 --time 1.2 --warmup 0 --scale 1";
    let child = runs.start(&words.split(' ').collect::<Vec<_>>());
    runs.await_trials(2);
    child
}

#[test]
fn a_measurement_is_seen_paused_and_left_and_the_terminal_is_as_before() {
    let runs = Runs::new("follow");
    let measuring = measuring(&runs);
    let mut terminal = Terminal::run(&runs, &inside("cols 72 rows 20", "pgassay follow"), &[]);
    let at = terminal.await_shown("p pause   q leave", 0);
    // Within a trial, and what it came to so far.
    let at = terminal.await_shown("tps, latency", at);
    terminal.await_shown("1 client ", 0);
    terminal.key(b"p");
    let at = terminal.await_shown("Paused since", at);
    let at = terminal.await_shown("p go on   q leave", at);
    terminal.key(b"p");
    let at = terminal.await_shown("p pause   q leave", at);
    // A key that means nothing, an arrow, then Ctrl-C: it is left, and the measurement goes on.
    terminal.key(b"x\x1b[A");
    terminal.await_shown("tps", at);
    terminal.key(b"\x03");
    let shown = terminal.end();
    let (before, after) = shown.split_once("\x1b[?1049l").expect(&shown);
    assert!(
        before.contains("\x1b[?1049h") && before.contains("\x1b[1m"),
        "{shown}"
    );
    assert!(
        after.contains("code 0") && after.contains("restored"),
        "{after}"
    );
    assert!(after.contains("goes on"), "{after}");
    // The longest escape sequence in front of a text is [33m.
    let wide = before
        .split(['\r', '\n', '\x1b'])
        .map(|line| line.chars().count());
    assert!(
        wide.max() <= Some(72 + 4),
        "a line is wider than the terminal: {shown}"
    );

    // Small, without colour, ended by a signal.
    let shell = inside("cols 18 rows 3", "pgassay follow");
    let terminal = Terminal::run(&runs, &shell, &[("NO_COLOR", "1")]);
    terminal.await_shown("p pause", 0);
    signal(terminal.program(), Signal::TERM);
    let shown = terminal.end();
    let (before, after) = shown.split_once("\x1b[?1049l").expect(&shown);
    assert!(
        !before.contains("\x1b[1m") && !before.contains("\x1b[2m"),
        "{before}"
    );
    assert!(
        after.contains("code 0") && after.contains("restored"),
        "{after}"
    );

    // It ends while it is seen.
    let terminal = Terminal::run(
        &runs,
        &inside("cols 80 rows 24", "pgassay follow last"),
        &[],
    );
    terminal.await_shown("p pause", 0);
    signal(measuring.id(), Signal::INT);
    assert_eq!(measuring.wait_with_output().unwrap().status.code(), Some(4));
    let shown = terminal.end();
    assert!(
        shown.contains("has ended: pgassay report") && shown.contains("restored"),
        "{shown}"
    );
}

#[test]
fn without_a_terminal_there_are_lines_and_without_a_measurement_a_word() {
    let runs = Runs::new("follow-lines");
    let nothing = runs.run(&["follow"]);
    assert_eq!(nothing.status.code(), Some(2));
    assert!(
        text(&nothing.stderr).contains("nothing is being measured"),
        "{nothing:?}"
    );
    let measuring = measuring(&runs);
    let following = runs.start(&["follow"]);
    // Until both have told something, as trials go on.
    runs.await_trials(6);
    signal(measuring.id(), Signal::INT);
    measuring.wait_with_output().unwrap();
    let output = following.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let said = text(&output.stdout);
    assert!(
        said.contains("of 4,000 trials measured") && said.contains("client"),
        "{said}"
    );
    assert!(!said.contains('\u{1b}'), "{said}");
    assert!(text(&output.stderr).contains("has ended"), "{output:?}");
    let late = runs.run(&["follow", "last"]);
    assert!(
        text(&late.stderr).contains("is not being measured"),
        "{late:?}"
    );
}

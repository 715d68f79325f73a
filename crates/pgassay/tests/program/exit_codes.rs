//! Exit codes of ordinary failures: a server that refuses each question, and limits of the process. None is 70.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::thread;

use pgassay_pgwire::fake::say;

use crate::own_workload::Folder;
use crate::runs::{Runs, text};

/// The program under a limit, as a shell's `ulimit` sets it.
pub fn limited(runs: &Runs, limit: &str) -> Command {
    let program = runs.command(&[]);
    let mut command = Command::new("sh");
    command
        .arg("-c")
        .arg(format!("ulimit {limit}; exec \"$0\" \"$@\""))
        .arg(program.get_program());
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

/// Lets the client in and refuses each question.
fn refuse(mut client: TcpStream) -> io::Result<()> {
    let mut length = [0; 4];
    client.read_exact(&mut length)?;
    let mut body = vec![0; u32::from_be_bytes(length) as usize - 4];
    client.read_exact(&mut body)?;
    client.write_all(&say::welcome())?;
    loop {
        let mut head = [0; 5];
        client.read_exact(&mut head)?;
        let [tag, length @ ..] = head;
        let mut body = vec![0; u32::from_be_bytes(length) as usize - 4];
        client.read_exact(&mut body)?;
        if matches!(tag, b'Q' | b'S') {
            let refusal = say::error("ERROR", "XX000", "no answer");
            client.write_all(&[refusal, say::ready(b'I')].concat())?;
        }
    }
}

/// A server that refuses each question, and how to name it; it serves as long as the tests run.
fn refusing() -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            thread::spawn(move || drop(refuse(client)));
        }
    });
    format!("host=127.0.0.1 port={port} user=u dbname=d sslmode=disable")
}

/// Attack A7: all of them ended with 70.
#[test]
fn a_server_that_refuses_each_question_is_unavailable() {
    let runs = Runs::new("refusing");
    let folder = Folder::new("refusing");
    let to = folder.0.join("made.sql");
    let (target, to) = (refusing(), to.to_str().unwrap());
    for words in [
        &["watch", &target, "-T", "1", "--count", "1"][..],
        &["run", "select-only", &target, "--load", "--trials", "1"],
        &["workload", "statistics", &target, "--to", to],
        &["workload", "from-statements", &target, "--to", to],
        &["guard", &target, &target, "--load"],
        &["inspect", &target],
        &["compare", &target, &target, "--load", "-w", "select-only"],
    ] {
        let output = runs.run(words);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{words:?}: {said}");
        assert!(said.contains("no answer (SQLSTATE XX000)"), "{said}");
    }
}

/// Attack A7: the message was right, the code 70.
#[test]
fn a_limit_on_open_files_is_no_internal_error() {
    let runs = Runs::new("few-files");
    let mut command = limited(&runs, "-n 64");
    let output = command.args(["lines", "temp", "-n", "1"]).output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("(ulimit -n"), "{said}");
}

/// Attack A6: SIGXFSZ ended the program without a word.
#[test]
fn a_file_beyond_the_limit_on_its_size_is_named() {
    let runs = Runs::new("small-files");
    let folder = Folder::new("small-files");
    let log = folder.0.join("log");
    let line = |n: usize| {
        format!(
            "2026-11-23 09:22:06.{n:03} UTC [7] a@b LOG:  duration: 1 ms  statement: SELECT {n}\n"
        )
    };
    fs::write(&log, (0..900).map(line).collect::<String>()).unwrap();
    let log = log.to_str().unwrap();
    let to = |name: &str| folder.0.join(name).to_str().unwrap().to_owned();
    let prefix = "%m [%p] %q%u@%d ";
    // Not of this machine: whether a server listens here, or is to be launched, is not to matter.
    let recorded = "../results/analysis/tests/check/recorded/debian12-pg15.json";
    let (made, listed, page, facts) = (to("made.sql"), to("s.sql"), to("p.html"), to("f.json"));
    for (words, named) in [
        (
            &[
                "workload", "from-log", log, "--prefix", prefix, "--to", &made,
            ][..],
            "made.sql",
        ),
        (
            &[
                "workload",
                "from-log",
                log,
                "--prefix",
                prefix,
                "--sessions",
                "--to",
                &listed,
            ],
            "s.sessions.jsonl",
        ),
        (&["check", recorded, "--html", &page], "p.html"),
        (&["collect", "--host", "--output", &facts], "f.json"),
    ] {
        let output = limited(&runs, "-f 0").args(words).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
        assert!(said.contains("(ulimit -f) is reached"), "{said}");
        assert!(said.contains(named) && said.contains("help:"), "{said}");
        let left = fs::read_dir(&folder.0).unwrap().count();
        assert_eq!(left, 1, "{words:?} left a file");
    }
}

/// What is started from here is ended by the signal again, as programs are that do not expect EFBIG.
#[test]
fn children_have_the_default_action_for_the_signal() {
    let runs = Runs::new("limit-children");
    let output = limited(&runs, "-f 0")
        .args(["run", "select-only", "temp"])
        .output()
        .unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("SIGXFSZ"), "{said}");
}

/// A terminal that util-linux's `script` makes shows the colours of a mistake as colours, and nothing else of what was typed.
#[test]
fn a_wrong_flag_is_shown_in_colour_on_a_terminal_and_plainly_elsewhere() {
    let runs = Runs::new("colours");
    let wrong = ["run", "--blocsk\u{1b}[2J"];
    let program = runs.command(&[]);
    let mut terminal = Command::new("script");
    terminal
        .args(["-qefc", "\"$PROGRAM\" \"$FIRST\" \"$SECOND\"", "/dev/null"])
        .env("PROGRAM", program.get_program())
        .env("FIRST", wrong[0])
        .env("SECOND", wrong[1])
        .env("TERM", "xterm")
        .env_remove("NO_COLOR");
    let shown = text(&terminal.output().expect("script, of util-linux").stdout);
    assert!(shown.contains("\u{1b}[31merror:\u{1b}[0m"), "{shown:?}");
    assert!(
        shown.contains("\u{fffd}[2J") && !shown.contains("\u{1b}[2J"),
        "{shown:?}"
    );
    let output = runs.run(&wrong);
    let plain = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        plain.starts_with("error: unexpected argument") && !plain.contains('\u{1b}'),
        "{plain:?}"
    );
}

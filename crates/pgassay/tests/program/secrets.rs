//! Passwords on the command line: not in the process list, not in messages, whatever the command
//! and however they are spelled.

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::runs::{Runs, text};

const SECRET: &str = "geheim123";

/// Each place in a command line where a connection string can be typed, or be put by mistake; `@`
/// stands for it.
const COMMANDS: &[&[&str]] = &[
    &["assay", "@"],
    &["assay", "@", "--load", "--quick"],
    &["run", "select-only", "@", "--load"],
    &["run", "pgio", "@", "--load"],
    &["run", "scattered-read", "@", "--load"],
    &["run", "lwlock", "@"],
    &["run", "@"],
    &["compare", "temp", "@", "--load"],
    &["compare", "@", "@", "--load"],
    &["check", "@"],
    &["check", "--baseline", "@"],
    &["collect", "@"],
    &["inspect", "@"],
    &["inspect", "/no/such/file", "@"],
    &["pgbench", "@"],
    &["pgbench", "-i", "@"],
    &["pgbench", "-d", "@"],
    &["pgbench", "-d@"],
    &["pgbench", "-i", "-d@"],
    &["pgbench", "--dbname=@"],
    &["pgbench", "--dbname", "@"],
    &["build", "@"],
    &["patch", "@"],
    &["targets", "@"],
    &["report", "@"],
    &["fit", "@"],
    &["diagnose", "@"],
    &["history", "@"],
    &["runs", "show", "@"],
    &["completions", "@"],
    &["man", "@"],
    &["@"],
];

/// The ways to spell a server with a password; `PORT` stands for its port.
const SPELLINGS: &[&str] = &[
    "postgres://u:geheim123@127.0.0.1:PORT/d",
    "postgresql://u:geheim123@127.0.0.1:PORT/d?sslmode=disable",
    "postgresql://127.0.0.1:PORT/d?user=u&password=geheim123&sslmode=disable",
    "postgresql://127.0.0.1:PORT/d?user=u&p%61ssword=geheim123",
    "host=127.0.0.1 port=PORT user=u password=geheim123 dbname=d",
    "host=127.0.0.1 port=PORT password = 'x geheim123' user=u",
    "host=127.0.0.1 port=PORT password=x geheim123 user=u",
    "postgress://u:geheim123@127.0.0.1:PORT/d",
    "postgresql:/u:geheim123@127.0.0.1:PORT/d",
    "u:geheim123@127.0.0.1:PORT/d",
];

fn words(command: &[&str], spelling: &str, port: u16) -> Vec<String> {
    let target = spelling.replace("PORT", &port.to_string());
    command
        .iter()
        .map(|word| word.replace('@', &target))
        .collect()
}

/// Attack D6: `inspect` and `pgbench` never overwrote a password, and `compare temp URI` did so only
/// when the first server was up. Here the program can say nothing, as the pipe it would say it to is
/// full, and hears nothing from the server: the password is gone all the same.
#[test]
fn the_process_list_shows_no_password() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = silent.local_addr().expect("its number").port();
    let runs = Runs::new("secrets-listed");
    for command in COMMANDS {
        for spelling in SPELLINGS {
            let words = words(command, spelling, port);
            let (_reader, mut full) = std::io::pipe().expect("a pipe");
            // What a pipe holds on Linux.
            full.write_all(&[b'.'; 65536]).expect("the pipe is filled");
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let mut child = runs
                .command(&words)
                .stdin(Stdio::null())
                .stdout(full.try_clone().expect("the pipe again"))
                .stderr(full)
                .spawn()
                .expect("the program starts");
            let list = format!("/proc/{}/cmdline", child.id());
            let give_up = Instant::now() + Duration::from_secs(30);
            let shown = loop {
                let ended = child.try_wait().expect("its state");
                assert!(ended.is_none(), "{words:?} ended before they were seen");
                let shown = text(&fs::read(&list).expect("the process is there"));
                // The list is empty for a moment while the program is started, and a look may fall
                // between two bytes that are overwritten.
                let hidden = shown.contains("***") && !shown.contains(SECRET);
                if hidden || Instant::now() > give_up {
                    break shown;
                }
                sleep(Duration::from_millis(1));
            };
            child.kill().expect("killed");
            child.wait().expect("reaped");
            assert!(!shown.contains(SECRET), "{words:?} are listed as {shown:?}");
            assert!(shown.contains("***"), "{words:?} are listed as {shown:?}");
        }
    }
}

/// Attack D6 and D19: the messages for a mistyped scheme held the password.
#[test]
fn no_message_shows_a_password() {
    let nobody = {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.local_addr().expect("its number").port()
    };
    let runs = Runs::new("secrets-said");
    for command in COMMANDS
        .iter()
        .filter(|command| command[1..] != ["temp", "@", "--load"])
    {
        for spelling in SPELLINGS {
            let words = words(command, spelling, nobody);
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let output = runs.run(&words);
            let said = text(&output.stdout) + &text(&output.stderr);
            assert!(!output.status.success(), "{words:?}: {said}");
            assert!(!said.is_empty(), "{words:?} say nothing");
            assert!(!said.contains(SECRET), "{words:?}: {said}");
        }
    }
}

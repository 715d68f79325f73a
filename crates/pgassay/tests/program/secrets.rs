//! Passwords on the command line: not in the process list, not in messages, whatever the command
//! and however they are spelled.

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::own_workload::Folder;
use crate::pg_support::{OWNER, Server, bin_dir};
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

/// Attack A11: pg_dump had the password in its environment.
#[test]
fn a_password_reaches_pg_dump_by_a_private_file() {
    const HARD: &str = r"geheim:12\3";
    let server = Server::start(
        "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n",
        &[],
        |_| {},
    );
    server.run("CREATE TABLE t AS SELECT generate_series(1, 100) AS a");
    server.run("ANALYZE t");
    server.run(&format!("ALTER ROLE {OWNER} PASSWORD '{HARD}'"));
    let folder = Folder::new("passfile");
    let seen = folder.0.join("seen");
    let bin = folder.0.join("bin");
    fs::create_dir(&bin).unwrap();
    // The oldest that can read the server is taken.
    let script = format!(
        "#!/bin/sh\nif [ \"$1\" = --version ]; then echo 'pg_dump (PostgreSQL) 15.0'; exit; fi\n\
         {{ env; stat -c %a \"$PGPASSFILE\" \"$(dirname \"$PGPASSFILE\")\"; }} >>{}\n\
         exec {}/pg_dump \"$@\"\n",
        seen.display(),
        bin_dir().display()
    );
    for name in ["pg_dump", "pg_restore"] {
        fs::write(bin.join(name), &script).unwrap();
        fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let plain = format!(
        "host=127.0.0.1 port={} user={OWNER} dbname=postgres",
        server.port
    );
    let typed = format!(r"{plain} password='geheim:12\\3'");
    let runs = Runs::new("passfile");
    for (target, variable) in [(&typed, None), (&plain, Some(HARD))] {
        let to = folder.0.join("made.statistics");
        let mut command = runs.command(&["workload", "statistics", target, "--force", "--to"]);
        command.arg(&to).env("PATH", &path);
        command.envs(variable.map(|secret| ("PGPASSWORD", secret)));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        let told = fs::read_to_string(&seen).unwrap();
        fs::remove_file(&seen).unwrap();
        assert!(
            !told.contains("geheim") && !told.contains("PGPASSWORD"),
            "{told}"
        );
        assert!(told.contains("\n600\n700\n"), "{told}");
        let file = told
            .lines()
            .find_map(|line| line.strip_prefix("PGPASSFILE="));
        assert!(!std::path::Path::new(file.unwrap()).exists(), "{told}");
    }
}

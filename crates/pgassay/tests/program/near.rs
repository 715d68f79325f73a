//! The server there, the load from here: a launched server that listens as long as it runs, a running one
//! that is reached by what was typed here, and either side lost.

use std::fs;
use std::io::Read;
use std::net::Ipv4Addr;
use std::path::Path;

use pgassay_pgwire::{Conninfo, connect};
use serde_json::Value;

use crate::far::{
    CARRIED, Measuring, Part, SHORT, Sshd, at, carrier_of, lines, measuring, nothing_is_left,
    refused,
};
use crate::pg_support::Server;
use crate::pg_support::pooler::{self, Pooler};
use crate::runs::{Runs, Signal, gone, signal, text};

/// Load from here on a server that listens on this machine's own address.
const FROM_HERE: [&str; 4] = ["--from", "here", "--listen", "127.0.0.1"];

fn trials(run: &Path) -> Vec<Value> {
    let text = fs::read_to_string(run.join("trials.jsonl")).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    lines.collect()
}

/// What the launched server was told about who may come in.
fn hba(scratch: &Path) -> String {
    let ours = fs::read_dir(scratch).unwrap().flatten();
    let clusters = ours.filter_map(|ours| fs::read_dir(ours.path().join("clusters")).ok());
    let mut files = clusters.flat_map(|clusters| clusters.flatten());
    let cluster = files.next().expect("a cluster");
    fs::read_to_string(cluster.path().join("hba")).expect("who may come in")
}

/// A server's process and its port, as its postmaster has written them down.
fn postmaster(scratch: &Path) -> (u32, u16) {
    let ours = fs::read_dir(scratch).unwrap().flatten();
    let clusters = ours.filter_map(|ours| fs::read_dir(ours.path().join("clusters")).ok());
    let cluster = clusters.flat_map(|clusters| clusters.flatten()).next();
    let file = cluster
        .expect("a cluster")
        .path()
        .join("data/postmaster.pid");
    let text = fs::read_to_string(file).unwrap();
    let line = |number| text.lines().nth(number).unwrap();
    (line(0).parse().unwrap(), line(3).parse().unwrap())
}

/// Whether a file below holds a password as they are drawn, or a verifier of one.
fn holds_a_password(dir: &Path) -> Option<String> {
    for entry in fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            if let Some(found) = holds_a_password(&path) {
                return Some(found);
            }
            continue;
        }
        let content = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
        let drawn = |word: &str| word.len() == 48 && word.bytes().all(|b| b.is_ascii_hexdigit());
        let words = content.split(|c: char| !c.is_ascii_alphanumeric());
        if content.contains("SCRAM-SHA-256$") || words.into_iter().any(drawn) {
            return Some(path.display().to_string());
        }
    }
    None
}

#[test]
fn the_load_comes_from_where_the_command_was_typed() {
    let runs = Runs::far("near-run");
    let target = at(CARRIED, "temp");
    let mut args = vec!["run", "tpcb-like", target.as_str(), "--json"];
    args.extend(["--from", "here,local", "--listen", "127.0.0.1"]);
    args.extend([
        "-c", "3", "-T", "0.3", "--warmup", "0", "-s", "1", "--trials", "2",
    ]);
    // What this machine's user has set for other servers.
    let mut command = runs.command(&args);
    command.env("PGSSLROOTCERT", "system");
    command.env("PGSSLNEGOTIATION", "direct");
    let output = command.output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(
        said.contains("listens at 127.0.0.1 for 127.0.0.1"),
        "{said}"
    );
    let run = runs.only();
    for trial in trials(&run) {
        let machines = trial["machines"].as_array().unwrap();
        let of = |key: &str| -> Vec<Value> { machines.iter().map(|m| m[key].clone()).collect() };
        assert_eq!(of("name"), ["here", "local"]);
        assert_eq!(of("clients"), [2, 1]);
        assert!(
            machines
                .iter()
                .all(|m| m["transactions"].as_u64() > Some(0))
        );
        // Both are asked how far it is: over TCP from here, over the socket there.
        assert!(
            machines
                .iter()
                .all(|m| m["round_trip_ns"].as_u64() > Some(0))
        );
    }
    let analysis: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(analysis["run"]["from"][0], "here");
    assert_eq!(analysis["run"]["round_trips"][0]["name"], "here");
    let target = analysis["arms"][0]["target"].as_str().unwrap();
    assert!(
        target.contains(", on exec:sh") && !target.contains("with its load"),
        "{target}"
    );
    assert!(!text(&output.stdout).contains("setting-not-in-force"));
    let page = fs::read_to_string(run.join("report.html")).unwrap();
    assert!(page.contains("an empty query and its answer took at least: here"));
    assert_eq!(holds_a_password(&run), None);
    assert!(runs.far_processes().is_empty());
}

#[test]
fn a_launched_server_lets_nobody_else_in_and_is_gone_with_the_run() {
    let runs = Runs::far("near-alone");
    let (mut measuring, run) = measuring(&runs, &at(CARRIED, "temp"), &FROM_HERE, None);
    let hosts = hba(&measuring.scratch);
    let hosts: Vec<&str> = hosts
        .lines()
        .filter(|line| !line.starts_with("local"))
        .collect();
    assert_eq!(hosts, ["host all pgassay_load 127.0.0.1/32 scram-sha-256"]);
    let (pid, port) = postmaster(&measuring.scratch);
    let of = |user: &str, password: &str| {
        let at = format!("host=127.0.0.1 port={port} dbname=postgres connect_timeout=5");
        connect(&Conninfo::parse(&format!("{at} user={user} password={password}")).unwrap())
    };
    let refusal = of("postgres", "x").unwrap_err().to_string();
    assert!(refusal.contains("pg_hba.conf"), "{refusal}");
    let refusal = of("pgassay_load", "guessed").unwrap_err().to_string();
    assert!(refusal.contains("password"), "{refusal}");
    // No word of a command line is one.
    for (pid, line) in runs.far_processes() {
        let drawn = |word: &&str| word.len() == 48 && word.bytes().all(|b| b.is_ascii_hexdigit());
        assert_eq!(line.split(' ').find(drawn), None, "{pid}");
    }
    // The first Ctrl-C ends it in order there.
    signal(measuring.near.id(), Signal::INT);
    assert!(gone(measuring.near.id()));
    assert_eq!(measuring.near.wait().unwrap().code(), Some(4));
    nothing_is_left(&runs, measuring.agent);
    // The port may be another server's by now.
    assert!(gone(pid));
    let end: Value = serde_json::from_slice(&fs::read(run.join("end.json")).unwrap()).unwrap();
    assert_eq!(end["state"], "interrupted");
    assert_eq!(holds_a_password(&run), None);
}

#[test]
fn whoever_is_killed_nothing_runs_on_and_trials_are_kept() {
    type Victims = dyn Fn(&Runs, &Measuring) -> Vec<u32>;
    let victims: [&Victims; 5] = [
        &|_, measuring| vec![measuring.near.id()],
        &|_, measuring| vec![carrier_of(measuring.near.id())],
        &|runs, _| vec![runs.far_process(Part::Agent)],
        &|runs, _| vec![runs.far_process(Part::Command)],
        &|runs, _| {
            vec![
                runs.far_process(Part::Agent),
                runs.far_process(Part::Command),
            ]
        },
    ];
    for (n, victims) in victims.iter().enumerate() {
        let runs = Runs::far("near-killed");
        let (mut measuring, run) = measuring(&runs, &at(CARRIED, "temp"), &FROM_HERE, None);
        let kept = lines(&run.join("trials.jsonl"));
        for pid in victims(&runs, &measuring) {
            signal(pid, Signal::KILL);
        }
        assert!(gone(measuring.near.id()), "{n}");
        let mut said = String::new();
        let errors = measuring.near.stderr.take();
        errors.unwrap().read_to_string(&mut said).unwrap();
        let code = measuring.near.wait().unwrap().code();
        assert_eq!(code, (n > 0).then_some(4), "{n}: {said}");
        nothing_is_left(&runs, measuring.agent);
        assert!(lines(&run.join("trials.jsonl")) >= kept, "{n}");
    }
}

/// A near side that does not run, but is there still: its connections stand, and nobody hears of it.
#[test]
fn a_near_side_that_is_stopped_is_lost_after_its_silence() {
    let runs = Runs::far("near-stopped");
    let (mut measuring, _) = measuring(&runs, &at(CARRIED, "temp"), &FROM_HERE, None);
    signal(measuring.near.id(), Signal::STOP);
    nothing_is_left(&runs, measuring.agent);
    signal(measuring.near.id(), Signal::CONT);
    assert!(gone(measuring.near.id()));
    assert_eq!(measuring.near.wait().unwrap().code(), Some(4));
}

#[test]
fn a_running_server_is_reached_with_what_this_machine_has() {
    let hba = "local all all trust\nhost all me 127.0.0.1/32 scram-sha-256\n";
    let server = Server::start(hba, &[("listen_addresses", "127.0.0.1")], |_| {});
    server.run("CREATE ROLE me LOGIN SUPERUSER PASSWORD 'secret'");
    let runs = Runs::far("near-running");
    // The password is here only, and there the socket needs none.
    let carried = "exec:env -u PGPASSWORD MACHINE=there";
    let target = format!(
        "{carried} // host={} port={} user=me dbname=postgres",
        server.socket_dir.display(),
        server.port
    );
    let run = |more: &[&str], password: &str| {
        let mut args = vec!["run", "select-only", &target, "--load", "--from", "here"];
        args.extend(SHORT);
        args.push("1");
        args.extend(more);
        let mut command = runs.command(&args);
        command.env("PGPASSWORD", password).output().unwrap()
    };
    let output = run(&["--load-conninfo", "host=127.0.0.1"], "secret");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(trials(&runs.only())[0]["machines"][0]["name"], "here");
    refused(&run(&[], "secret"), 2, "--load-conninfo");
    let wrong = run(&["--load-conninfo", "host=127.0.0.1"], "wrong");
    refused(&wrong, 3, "here could not connect");
    refused(&wrong, 3, "~/.pgpass");
    assert!(!text(&wrong.stderr).contains("secret"));
    // The same name for another server.
    let other = Server::start(hba, &[("listen_addresses", "127.0.0.1")], |_| {});
    other.run("CREATE ROLE me LOGIN SUPERUSER PASSWORD 'secret'");
    let elsewhere = format!("host=127.0.0.1 port={}", other.port);
    refused(
        &run(&["--load-conninfo", &elsewhere], "secret"),
        2,
        "another server",
    );
    let words = ["--load-conninfo", "host=127.0.0.1 password=secret"];
    let typed = run(&words, "secret");
    assert_eq!(typed.status.code(), Some(2));
    assert!(!text(&typed.stderr).contains("secret"));
}

/// Its sessions are of the right server, started when it was; but not of our own.
#[test]
fn a_pooler_or_another_database_is_no_way_to_a_running_server() {
    let server = pooler::server();
    server.run("CREATE DATABASE other");
    server.run("CREATE TABLE theirs AS SELECT 1 AS id");
    server.run("GRANT SELECT ON theirs TO alice");
    server.run("GRANT CREATE ON DATABASE postgres TO alice");
    let runs = Runs::far("near-pooler");
    let script = runs.0.with_extension("sql");
    fs::write(
        &script,
        "-- @without-pgbench-tables\nSELECT id FROM theirs;\n",
    )
    .unwrap();
    let target = format!(
        "exec:env MACHINE=there // host={} port={} user=alice dbname=postgres",
        server.socket_dir.display(),
        server.port
    );
    let run = |workload: &str, way: &str| {
        let mut args = vec!["run", workload, &target, "--load", "--from", "here"];
        args.extend(SHORT);
        args.extend(["1", "--load-conninfo", way]);
        let mut command = runs.command(&args);
        command.env("PGPASSWORD", "geheim").output().unwrap()
    };
    for mode in ["session", "transaction"] {
        let pooler = Pooler::start(
            &server,
            mode,
            "ignore_startup_parameters = options,extra_float_digits",
        );
        let way = format!("host=127.0.0.1 port={}", pooler.port);
        let output = run("select-only", &way);
        refused(&output, 3, "pooler between");
        refused(&output, 3, "own host and port");
    }
    let own = format!("host=127.0.0.1 port={}", server.port);
    let output = run("select-only", &format!("{own} dbname=other"));
    refused(&output, 2, "database other");
    // Statements on somebody's tables are kept from writing, whatever options are typed beside them.
    let file = script.display().to_string();
    let output = run(&file, &format!("{own} options='-c work_mem=8MB'"));
    refused(&output, 2, "default_transaction_read_only");
    let output = run(&file, &own);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    fs::remove_file(script).unwrap();
}

#[test]
fn what_can_t_be_known_or_is_not_done_for_a_far_side_is_refused() {
    let runs = Runs::far("near-refused");
    let target = at(CARRIED, "temp");
    let run = |more: &[&str]| {
        let mut args = vec!["run", "select-only", target.as_str()];
        args.extend(SHORT);
        args.push("1");
        args.extend(more);
        runs.run(&args)
    };
    refused(&run(&["--from", "here"]), 2, "--listen ADDRESS");
    refused(&run(&["--listen", "127.0.0.1"]), 2, "--from LIST");
    refused(
        &run(&["--from", "local", "--listen", "127.0.0.1"]),
        2,
        "none does",
    );
    let twice = ["--from", "here,here", "--listen", "127.0.0.1"];
    refused(&run(&twice), 2, "more than once");
    let other = ["--from", "here", "--load-conninfo", "host=127.0.0.1"];
    refused(&run(&other), 2, "is for a running server");
    // Programs run where the user runs them, not where a far side wants them to.
    let script = runs.0.with_extension("sql");
    fs::write(&script, "\\shell true\nSELECT 1;\n").unwrap();
    let file = script.display().to_string();
    let mut args = vec!["run", file.as_str(), target.as_str()];
    args.extend(FROM_HERE);
    args.extend(SHORT);
    args.push("1");
    refused(&runs.run(&args), 3, "not run here for another machine");
    fs::remove_file(script).unwrap();
}

/// Without anything else typed, the address is the one by which ssh came.
#[test]
fn over_ssh_load_comes_from_either_end() {
    let runs = Runs::far("near-ssh");
    let sshd = Sshd::start(&runs, Ipv4Addr::LOCALHOST, None);
    let run = |args: &[&str]| {
        let mut words = args.to_vec();
        words.extend(SHORT);
        words.push("1");
        let output = runs
            .command(&words)
            .env("PGASSAY_SSH", &sshd.ssh)
            .output()
            .unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {said}");
        let run = runs.only();
        let machines = trials(&run)[0]["machines"].clone();
        fs::remove_dir_all(run).unwrap();
        (said, machines)
    };
    let (said, machines) = run(&["run", "select-only", "ssh://there/temp", "--from", "here"]);
    assert!(
        said.contains("listens at 127.0.0.1 for 127.0.0.1"),
        "{said}"
    );
    assert_eq!(machines[0]["name"], "here");
    // The other way round: the server here, the load from there, over the socket or by an address.
    for more in [&[][..], &["--listen", "127.0.0.1"]] {
        let words = ["run", "select-only", "temp", "--from", "ssh://there"];
        let (said, machines) = run(&[&words, more].concat());
        assert_eq!(said.contains("listens at"), !more.is_empty(), "{said}");
        assert_eq!(machines[0]["name"], "ssh://there");
        assert!(machines[0]["transactions"].as_u64() > Some(0));
    }
    // A comparison has two servers, each with a port of its own.
    let mut command = runs.command(&["compare", "ssh://there/temp", "ssh://there/temp"]);
    command.args([
        "--set-b",
        "work_mem=8MB",
        "--from",
        "here",
        "--clients",
        "1",
    ]);
    command.args([
        "--launches",
        "1",
        "--pairs",
        "3",
        "--noise-pairs",
        "3",
        "--slice",
        "0.1",
    ]);
    command.args(["--scale", "1"]);
    let output = command.env("PGASSAY_SSH", &sshd.ssh).output().unwrap();
    let said = text(&output.stderr);
    // Whatever three pairs show: equal, different or nothing.
    assert!(
        [0, 1, 5].contains(&output.status.code().unwrap()),
        "{:?}: {said}",
        output.status
    );
    assert_eq!(trials(&runs.only())[0]["machines"][0]["name"], "here");
}

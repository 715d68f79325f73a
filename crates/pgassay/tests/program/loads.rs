//! Load from several machines, which are processes here, on a real server: what they do is what one
//! machine does, and who is lost or can't connect is named.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Output;
use std::time::{Duration, Instant};

use pgassay_pgwire::connect;
use serde_json::Value;

use crate::pg_support::Server;
use crate::runs::{Runs, Signal, gone, signal, text};

/// A command that carries standard input and output to a process of its own.
const CARRIED: &str = "exec:env MACHINE=";

fn machines(names: &[&str]) -> String {
    let each: Vec<String> = names
        .iter()
        .map(|name| format!("{CARRIED}{name}"))
        .collect();
    each.join(",")
}

/// The far sides of a test's runs.
fn far_sides(runs: &Runs) -> Vec<u32> {
    let cache = runs.0.with_extension("cache");
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let of_far = processes.filter_map(|process| {
        let pid = process.file_name().to_str()?.parse().ok()?;
        let exe = fs::read_link(process.path().join("exe")).ok()?;
        exe.starts_with(&cache).then_some(pid)
    });
    of_far.collect()
}

fn trials(run: &std::path::Path) -> Vec<Value> {
    let lines = fs::read_to_string(run.join("trials.jsonl")).unwrap_or_default();
    lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn only(runs: &Runs) -> PathBuf {
    let mut dirs = fs::read_dir(&runs.0).unwrap().flatten();
    dirs.next().expect("a run").path()
}

#[track_caller]
fn ended(output: &Output, code: i32) -> String {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    said
}

/// What each client drew, in its order.
type Drawn = BTreeMap<i32, Vec<String>>;

/// Has clients on these machines, or in the measuring process alone, write down what they draw.
fn drawn(server: &Server, from: Option<&str>) -> (Drawn, Value) {
    server.run("DROP TABLE IF EXISTS drawn");
    server.run("CREATE TABLE drawn (at bigserial, client int, kind text, n int)");
    let runs = Runs::far("loads-drawn");
    let dir = runs.0.with_extension("scripts");
    fs::create_dir_all(&dir).unwrap();
    let script = |kind: &str| {
        let file = dir.join(format!("{kind}.sql"));
        let text = format!(
            "\\set n random(1, 1000000)\n\
             INSERT INTO public.drawn (client, kind, n) VALUES (:client_id, '{kind}', :n);\n"
        );
        fs::write(&file, text).unwrap();
        file.display().to_string()
    };
    let (often, seldom) = (format!("{}@3", script("often")), script("seldom"));
    let target = server.owner().redacted();
    let mut args = vec![
        "run",
        &often,
        &target,
        "--file",
        &seldom,
        "--load",
        "--is-copy",
    ];
    args.extend([
        "--clients",
        "5",
        "--trials",
        "1",
        "--time",
        "0.4",
        "--warmup",
        "0",
    ]);
    args.extend(["--seed", "11", "--threads", "2", "--json"]);
    args.extend(from.iter().flat_map(|from| ["--from", from]));
    ended(&runs.run(&args), 0);
    fs::remove_dir_all(&dir).unwrap();
    let mut session = connect(&server.owner()).unwrap();
    let rows = session
        .rows("SELECT client, kind || n FROM drawn ORDER BY client, at")
        .unwrap();
    let mut drawn = Drawn::new();
    for row in rows.rows {
        let [Some(client), Some(what)] = row.as_slice() else {
            panic!("{row:?}");
        };
        drawn
            .entry(client.parse().unwrap())
            .or_default()
            .push(what.clone());
    }
    assert!(far_sides(&runs).is_empty());
    (drawn, trials(&only(&runs)).remove(0))
}

#[test]
fn a_client_draws_the_same_wherever_it_runs() {
    let server = Server::start("local all all trust\n", &[], |_| {});
    let (here, trial) = drawn(&server, None);
    assert!(trial.get("machines").is_none());
    let from = machines(&["one", "two"]) + ",local";
    let (there, trial) = drawn(&server, Some(&from));
    assert_eq!(here.keys().collect::<Vec<_>>(), [&0, &1, &2, &3, &4]);
    assert_eq!(here.len(), there.len());
    for (client, draws) in &here {
        let both = draws.len().min(there[client].len());
        assert!(both >= 10, "client {client} did {both}");
        assert_eq!(draws[..both], there[client][..both], "client {client}");
    }
    // Each has its share, and the whole is their sum.
    let parts = trial["machines"].as_array().unwrap();
    let of = |key: &str| -> Vec<u64> { parts.iter().map(|p| p[key].as_u64().unwrap()).collect() };
    assert_eq!(of("clients"), [2, 2, 1]);
    let sum: u64 = of("transactions").iter().sum();
    assert_eq!(trial["transactions"].as_u64(), Some(sum));
    let cpu: u64 = of("user_ns").iter().chain(&of("system_ns")).sum();
    let whole =
        trial["client_user_ns"].as_u64().unwrap() + trial["client_system_ns"].as_u64().unwrap();
    assert_eq!(whole, cpu);
    assert!(parts.iter().all(|part| part["beside_server"] == true));
}

#[test]
fn a_machine_that_is_killed_is_named_and_finished_trials_are_kept() {
    let runs = Runs::far("loads-killed");
    let from = machines(&["one", "two"]);
    let mut args = vec![
        "run",
        "select-only",
        "--scale",
        "1",
        "--clients",
        "4",
        "--from",
        &from,
    ];
    args.extend(["--trials", "60", "--time", "1", "--warmup", "0.1"]);
    let child = runs.start(&args);
    let run = runs.await_trials(2);
    let victim = *far_sides(&runs).first().expect("a far side");
    signal(victim, Signal::KILL);
    let killed = Instant::now();
    let output = child.wait_with_output().unwrap();
    let said = ended(&output, 4);
    assert!(
        said.contains("the load machine exec:env MACHINE="),
        "{said}"
    );
    assert!(
        said.contains("was lost") && said.contains("--resume"),
        "{said}"
    );
    let kept = trials(&run).len();
    assert!((2..60).contains(&kept));
    let end: Value = serde_json::from_slice(&fs::read(run.join("end.json")).unwrap()).unwrap();
    assert_eq!(end["state"], "failed");
    assert!(end["reason"].as_str().unwrap().contains("was lost"));
    while !far_sides(&runs).is_empty() {
        assert!(
            killed.elapsed() < Duration::from_secs(60),
            "{:?}",
            far_sides(&runs)
        );
        std::thread::sleep(Duration::from_millis(50));
    }

    // It goes on when its machines are named again: a record starts no command.
    let refused = runs.run(&["run", "--resume", "last"]);
    assert!(ended(&refused, 2).contains("not started from a record"));
    let others = runs.run(&["run", "--resume", "last", "--from", "local"]);
    assert!(ended(&others, 2).contains("goes on from there"));
    let child = runs.start(&["run", "--resume", "last", "--from", &from, "--verbose"]);
    runs.await_trials(kept + 1);
    signal(child.id(), Signal::INT);
    let resumed = child.wait_with_output().unwrap();
    ended(&resumed, 4);
    let shown = text(&resumed.stdout);
    assert!(shown.contains("load from exec:env"), "{shown}");
}

#[test]
fn the_near_side_killed_leaves_nothing_running() {
    let runs = Runs::far("loads-near");
    let from = machines(&["one", "two"]);
    let mut args = vec![
        "run",
        "select-only",
        "--scale",
        "1",
        "--clients",
        "4",
        "--from",
        &from,
    ];
    args.extend(["--trials", "60", "--time", "1", "--warmup", "0.1"]);
    let mut child = runs.start(&args);
    runs.await_trials(1);
    let sides = far_sides(&runs);
    assert_eq!(sides.len(), 2);
    signal(child.id(), Signal::KILL);
    child.wait().unwrap();
    let killed = Instant::now();
    while !sides.iter().all(|pid| gone(*pid)) {
        assert!(killed.elapsed() < Duration::from_secs(10), "{sides:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_machine_that_can_t_connect_is_named_with_a_remedy() {
    let hba = "local all all trust\nhost all me 127.0.0.1/32 scram-sha-256\n";
    let server = Server::start(hba, &[("listen_addresses", "127.0.0.1")], |_| {});
    server.run("CREATE ROLE me LOGIN SUPERUSER PASSWORD 'secret'");
    let runs = Runs::far("loads-password");
    let target = format!(
        "host=127.0.0.1 port={} user=me dbname=postgres",
        server.port
    );
    let run = |from: &str| {
        let mut args = vec!["run", "select-only", &target, "--load", "--scale", "1"];
        args.extend([
            "--clients",
            "2",
            "--trials",
            "1",
            "--time",
            "0.1",
            "--from",
            from,
        ]);
        runs.command(&args)
            .env("PGPASSWORD", "secret")
            .output()
            .unwrap()
    };
    // The password of this side goes nowhere.
    let without = "local,exec:env -u PGPASSWORD MACHINE=alone";
    let said = ended(&run(without), 3);
    assert!(said.contains("exec:env -u PGPASSWORD"), "{said}");
    assert!(
        said.contains("could not connect") && said.contains("pg_hba.conf"),
        "{said}"
    );
    assert!(!said.contains("secret"), "{said}");
    let own = "exec:env PGPASSWORD=secret MACHINE=alone,local";
    ended(&run(own), 0);
    let mut session = connect(&server.owner()).unwrap();
    let left = session.value("SELECT count(*) FROM pg_namespace WHERE nspname = 'pgassay'");
    assert_eq!(left.unwrap().as_deref(), Some("0"));
}

#[test]
fn what_several_machines_can_t_do_is_refused_before_anything_is_reached() {
    let runs = Runs::far("loads-refused");
    let run = |more: &[&str]| {
        let args = [
            &["run", "select-only", "--from", "exec:/no/such/carrier"],
            more,
        ]
        .concat();
        runs.run(&args)
    };
    assert!(ended(&run(&["--ceiling"]), 2).contains("--ceiling"));
    assert!(ended(&run(&["--pin"]), 2).contains("--pin"));
    assert!(ended(&run(&[]), 2).contains("can't be started"));
    let words = ["run", "pgio", "--from", "local"];
    assert!(ended(&runs.run(&words), 2).contains("--from does not apply to pgio"));
    let words = ["run", "select-only", "--from", "c1"];
    assert!(ended(&runs.run(&words), 2).contains("ssh://[user@]host"));
}

//! Ten thousand clients against a peer that answers at once.

use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use pgassay_load::script::Program;
use pgassay_load::{Engine, Options, Peer, Protocol, Serving};
use pgassay_pgwire::Conninfo;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::support::{run, seconds, transactions};

/// Resident memory of this process, in MiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    line.split_ascii_whitespace()
        .nth(1)
        .unwrap()
        .parse::<u64>()
        .unwrap()
        / 1024
}

const PEER_DIRECTORY: &str = "PGASSAY_TEST_PEER";
const CLIENT_DIRECTORY: &str = "PGASSAY_TEST_CLIENT";

/// Not a test by itself: what the test below starts as a process of its own, so that the client's
/// memory and descriptors are the client's alone. It serves until its input ends.
#[test]
fn peer_process() {
    let Some(directory) = std::env::var_os(PEER_DIRECTORY) else {
        return;
    };
    raise_limit();
    let _peer = Peer::listen(Path::new(&directory)).unwrap();
    let mut rest = String::new();
    std::io::stdin().read_to_string(&mut rest).unwrap();
}

fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, raised).unwrap();
}

/// Not a test by itself: the clients of the test below, in a process of their own, since tests
/// that end next to them give memory back.
#[test]
fn client_process() {
    let Some(directory) = std::env::var_os(CLIENT_DIRECTORY) else {
        return;
    };
    raise_limit();
    let conninfo = Conninfo::on_socket(&directory.to_string_lossy(), 5432, "load", "load");
    let program = Program::builtin("select-only").unwrap();
    let mut engine = Engine::new(conninfo, program, Options::default());
    // Where the hard limit is lower and we may not raise it, as many as there is room for.
    let most = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX) as usize;
    let clients = 10_000.min(most - 300);
    let before = resident();
    engine
        .resize(clients)
        .unwrap_or_else(|error| panic!("{error}"));
    let result = run(&mut engine, &transactions(5));
    assert_eq!(result.transactions, 5 * clients as u64);
    assert_eq!(result.lost_count, 0, "{:?}", result.lost);
    // A busy machine may bring none to its end in that time, but none may be lost.
    let result = run(&mut engine, &seconds(0.5));
    assert_eq!(result.lost_count, 0, "{:?}", result.lost);
    let grown = resident() - before;
    assert!(grown < 300, "{clients} clients take {grown} MiB");
}

#[test]
fn ten_thousand_clients_fit() {
    let directory = std::env::temp_dir().join(format!("pga-many-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let program = std::env::current_exe().unwrap();
    let mut peer = Command::new(&program)
        .args(["--exact", "many::peer_process", "--nocapture"])
        .env(PEER_DIRECTORY, &directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    while !directory.join(".s.PGSQL.5432").exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
    let clients = Command::new(&program)
        .args(["--exact", "many::client_process", "--nocapture"])
        .env(CLIENT_DIRECTORY, &directory)
        .output()
        .unwrap();
    drop(peer.stdin.take());
    peer.wait().unwrap();
    std::fs::remove_dir_all(&directory).unwrap();
    assert!(
        clients.status.success(),
        "{}",
        String::from_utf8_lossy(&clients.stderr)
    );
    assert!(String::from_utf8_lossy(&clients.stdout).contains("1 passed"));
}

#[test]
fn the_peer_speaks_every_protocol() {
    let directory = std::env::temp_dir().join(format!("pga-peer-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let peer = Peer::listen(&directory).unwrap();
    for protocol in [Protocol::Simple, Protocol::Extended, Protocol::Prepared] {
        let mut program = Program::new();
        program
            .add(
                "t",
                "SELECT 1 AS a \\gset\n\\if :a = 1\nSELECT 2;\n\\endif\n",
                1,
            )
            .unwrap();
        let options = Options {
            protocol,
            threads: Some(1),
            ..Options::default()
        };
        let mut engine = Engine::new(peer.conninfo(), program, options);
        engine.resize(3).unwrap();
        let result = run(&mut engine, &transactions(100));
        assert_eq!(
            (result.transactions, result.lost_count),
            (300, 0),
            "{:?}",
            result.scripts
        );
        // Two statements a transaction, each one send; the receives may find several answers.
        // What is sent before a thread sees the window open is not counted: the first of each client.
        let calls = result.system_calls();
        let sends = calls.send + calls.gathered;
        assert!((570..=600).contains(&sends), "{calls:?}");
    }
    drop(peer);
    std::fs::remove_dir_all(&directory).unwrap();
}

/// Clients whose answers came together send together, unless that is not wanted or not to be had;
/// the transactions are the same.
#[test]
fn statements_go_out_together() {
    let directory = std::env::temp_dir().join(format!("pga-gather-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let peer = Peer::listen(&directory).unwrap();
    for serving in [Serving::Calls, Serving::Together, Serving::Ring] {
        let options = Options {
            threads: Some(1),
            serving,
            ..Options::default()
        };
        let program = Program::builtin("select-only").unwrap();
        let mut engine = Engine::new(peer.conninfo(), program, options);
        engine.resize(64).unwrap();
        let result = run(&mut engine, &transactions(200));
        assert_eq!((result.transactions, result.lost_count), (12_800, 0));
        let calls = result.system_calls();
        let rings = serving != Serving::Calls && pgassay_sys::gather::Gathered::new().is_ok();
        assert_eq!(calls.gathered > 0, rings, "{calls:?}");
        assert!(calls.enter <= calls.gathered / 2, "{calls:?}");
        if serving == Serving::Ring && pgassay_sys::streams::Streams::new().is_ok() {
            // The ring receives without being asked.
            assert_eq!(calls.receive, 0, "{calls:?}");
        }
    }
    drop(peer);
    std::fs::remove_dir_all(&directory).unwrap();
}

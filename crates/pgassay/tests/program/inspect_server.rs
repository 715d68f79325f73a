//! `pgassay inspect` of a live server: its executable, its libc, and what its sessions have loaded.

use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Output};

use pgassay_pgwire::{Conninfo, connect};
use pgassay_server::settings::Settings;
use pgassay_server::{Cluster, Installations, LaunchOptions};
use serde_json::Value;

fn inspect(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pgassay"))
        .arg("inspect")
        .args(arguments)
        .output()
        .expect("the program starts")
}

fn files(arguments: &[&str]) -> Vec<Value> {
    let output = inspect(arguments);
    let document: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"));
    document["files"].as_array().expect("files").clone()
}

/// The file whose path ends so.
fn of<'f>(files: &'f [Value], end: &str) -> Option<&'f Value> {
    files
        .iter()
        .find(|f| f["path"].as_str().is_some_and(|p| p.ends_with(end)))
}

/// A private place for one test's server.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let path = PathBuf::from(format!(
            "/var/tmp/pgassay-test-{name}-{}",
            std::process::id()
        ));
        std::fs::create_dir_all(&path).expect("a directory");
        Self(path)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_live_server_is_its_program_its_libc_and_what_sessions_loaded() {
    let place = Place::new("inspect");
    let installation = Installations::search()
        .newest()
        .expect("the tests need an installed PostgreSQL")
        .clone();
    let options = LaunchOptions {
        settings: Settings::parse("--set", &["shared_preload_libraries=auto_explain"])
            .expect("a setting"),
        scratch: Some(place.0.clone()),
        ..LaunchOptions::default()
    };
    let cluster = Cluster::launch(&installation, &options).expect("a server");
    let conninfo = cluster.conninfo();
    let mut session = connect(&Conninfo::parse(&conninfo).expect("valid")).expect("a session");
    session
        .execute("LOAD 'passwordcheck'")
        .expect("a contrib module");

    let all = files(&["--json", &conninfo]);
    let program = of(&all, "/bin/postgres").expect("the program");
    assert_eq!(all[0]["path"], program["path"], "the program comes first");
    assert_eq!(program["process"]["pid"], cluster.pid());
    assert!(program["process"]["hwcap"].is_string(), "{program}");
    assert_eq!(
        program["postgres"]["version"]
            .as_str()
            .map(|v| v.split('.').next()),
        Some(installation.version.to_string().split('.').next()),
    );
    assert!(of(&all, "/libc.so.6").is_some());
    let preloaded = of(&all, "/auto_explain.so").expect("what the postmaster preloaded");
    assert_eq!(preloaded["process"]["pid"], cluster.pid());
    let loaded = of(&all, "/passwordcheck.so").expect("what one session loaded");
    assert_eq!(loaded["process"]["pid"], session.backend_pid());
    // By the postmaster's number alone: what it maps itself.
    let own = files(&["--json", &cluster.pid().to_string()]);
    assert!(of(&own, "/auto_explain.so").is_some() && of(&own, "/passwordcheck.so").is_none());

    // Through a tunnel the server could be anywhere: process numbers mean nothing.
    let port = tunnel(cluster.socket_dir().join(".s.PGSQL.5432"));
    let output = inspect(&[&format!(
        "host=127.0.0.1 port={port} user=postgres sslmode=disable"
    )]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("not seen on this machine"), "{said}");
}

/// A port of this machine behind which the server's socket is; serves one connection.
fn tunnel(socket: PathBuf) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its number").port();
    std::thread::spawn(move || {
        let (tcp, _) = listener.accept().expect("a client");
        let unix = UnixStream::connect(socket).expect("the server");
        let (mut from_tcp, mut to_tcp) = (tcp.try_clone().expect("a second handle"), tcp);
        let (mut to_unix, mut from_unix) = (unix.try_clone().expect("a second handle"), unix);
        std::thread::spawn(move || std::io::copy(&mut from_tcp, &mut to_unix));
        let _ = std::io::copy(&mut from_unix, &mut to_tcp);
    });
    port
}

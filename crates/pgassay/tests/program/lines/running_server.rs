//! Sessions stepped on a server that others use.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use pgassay_pgwire::{Session, connect};

use super::traced;
use crate::pg_support::{OWNER, Server};
use crate::runs::{Runs, Signal, signal, text};

/// A server of somebody else, with a session that goes on beside.
struct Visit {
    server: Server,
    runs: Runs,
}

impl Visit {
    fn to(name: &str) -> Self {
        Self {
            server: Server::start("local all all trust\n", &[], |_| {}),
            runs: Runs::new(name),
        }
    }

    /// Steps transactions of one statement.
    fn args(&self, statement: &str) -> Vec<String> {
        let dir = self.server.socket_dir.display();
        let uri = format!(
            "host={dir} port={} user={OWNER} dbname=postgres",
            self.server.port
        );
        fs::create_dir_all(&self.runs.0).unwrap();
        let script = self.runs.0.join("statement.sql");
        fs::write(&script, statement).unwrap();
        let script = script.to_str().unwrap();
        let args = ["lines", &uri, "--load", "-n", "1000", "-w", script];
        args.map(str::to_owned).to_vec()
    }

    fn start(&self) -> std::process::Child {
        let args = self.args("SELECT 1;\n");
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        self.runs.start(&args)
    }

    /// The process of the session that is stepped, once it is.
    fn stepped(&self, session: &mut Session, child: &mut std::process::Child) -> u32 {
        let until = Instant::now() + Duration::from_secs(120);
        let question =
            "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'pgassay lines%'";
        loop {
            let pid = session
                .value(question)
                .unwrap()
                .and_then(|pid| pid.parse().ok());
            if let Some(pid) = pid.filter(|pid| traced(*pid)) {
                return pid;
            }
            if let Some(status) = child.try_wait().unwrap() {
                let mut said = String::new();
                child
                    .stderr
                    .take()
                    .unwrap()
                    .read_to_string(&mut said)
                    .unwrap();
                panic!("it ended ({status}): {said}");
            }
            assert!(Instant::now() < until, "nothing was stepped");
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn assert_unharmed(&self, session: &mut Session) {
        // A session that dies of a signal takes all others with it.
        assert_eq!(session.value("SELECT 1").unwrap().as_deref(), Some("1"));
        let log = self.server.log();
        assert!(!log.contains("terminated by signal"), "{log}");
    }
}

/// Killed or interrupted while it steps, pgassay leaves a server that goes on.
#[test]
fn a_server_outlives_what_ends_pgassay() {
    let visit = Visit::to("lines-killed");
    let mut session = connect(&visit.server.owner()).unwrap();
    for kind in [Signal::KILL, Signal::INT] {
        let mut child = visit.start();
        let pid = visit.stepped(&mut session, &mut child);
        thread::sleep(Duration::from_millis(100));
        signal(child.id(), kind);
        let status = child.wait().unwrap();
        if kind == Signal::INT {
            assert_eq!(status.code(), Some(130));
        }
        visit.assert_unharmed(&mut session);
        // The session notices that its client is gone, and ends by itself.
        let until = Instant::now() + Duration::from_secs(60);
        while Path::new(&format!("/proc/{pid}")).exists() {
            assert!(Instant::now() < until, "{kind:?}: the session stays");
            thread::sleep(Duration::from_millis(20));
        }
        visit.assert_unharmed(&mut session);
    }
    // After Ctrl-C, nothing of ours is left.
    let schemas = session.value("SELECT count(*) FROM pg_namespace WHERE nspname = 'pgassay'");
    assert_eq!(schemas.unwrap().as_deref(), Some("0"));
}

/// Of transactions that take minutes while they are stepped, none is recorded whole: pgassay reports what else can be done.
#[test]
fn transactions_too_long_for_a_running_server() {
    let visit = Visit::to("lines-long");
    let mut session = connect(&visit.server.owner()).unwrap();
    let args = visit.args("SELECT count(*) FROM generate_series(1, 20000);\n");
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let output = visit.runs.run(&args);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    for part in [
        "probably too long",
        "no transaction was recorded whole",
        "--sample SECONDS",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    visit.assert_unharmed(&mut session);
    let schemas = session.value("SELECT count(*) FROM pg_namespace WHERE nspname = 'pgassay'");
    assert_eq!(schemas.unwrap().as_deref(), Some("0"));
}

/// The session is ended by somebody else while it is stepped: pgassay says so.
#[test]
fn a_session_that_ends_while_stepped() {
    let visit = Visit::to("lines-ended");
    let mut session = connect(&visit.server.owner()).unwrap();
    let mut child = visit.start();
    let pid = visit.stepped(&mut session, &mut child);
    session
        .execute(&format!("SELECT pg_terminate_backend({pid})"))
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    // Stepped to its end, or let go while it was ending.
    let reported = ["ended while it was stepped", "terminating connection"];
    assert!(reported.iter().any(|part| said.contains(part)), "{said}");
    visit.assert_unharmed(&mut session);
}

/// What can't be stepped is refused with the remedy, before anything is made.
#[test]
fn what_can_not_be_stepped_is_refused() {
    let runs = Runs::new("lines-refused");
    let refused = |args: &[&str], code: i32, says: &str| {
        let output = runs.run(args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains(says), "{args:?}: {said}");
    };
    let server = Server::start(
        "local all all trust\nhost all all 127.0.0.1/32 trust\n",
        &[],
        |_| {},
    );
    let socket = format!(
        "host={} port={} user={OWNER} dbname=postgres",
        server.socket_dir.display(),
        server.port
    );
    refused(&["lines", &socket], 2, "--load");
    let tcp = format!(
        "host=127.0.0.1 port={} user={OWNER} dbname=postgres",
        server.port
    );
    refused(&["lines", &tcp, "--load"], 3, "Unix socket");
    refused(&["lines", "--line-size", "100"], 2, "128");
    refused(&["lines", "--set-a", "a=b"], 2, "two targets");
    refused(&["lines", "-w", "no-such"], 2, "no workload");
}

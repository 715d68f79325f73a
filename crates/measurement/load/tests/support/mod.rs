//! Clusters that the tests of a binary use one after another, and short ways to run a script on it.

#![allow(dead_code, reason = "each test binary uses its own part")]

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pgassay_load::script::Program;
use pgassay_load::{Edge, Engine, Length, Options, SliceResult, SliceSpec};
use pgassay_pgwire::{Conninfo, connect};
use pgassay_server::settings::Settings;
use pgassay_server::{Cluster, Installations, LaunchOptions};

/// A running cluster with the pgbench tables at scale 1 in database `postgres`.
pub struct Bench {
    // Dropped first: the cluster removes its own files.
    pub cluster: Cluster,
    _place: Place,
}

/// A directory that is removed again.
struct Place(PathBuf);

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Bench {
    pub fn launch(place: &str, set: &[&str]) -> Bench {
        let installations = Installations::search();
        let installation = installations
            .newest()
            .expect("these tests need an installed PostgreSQL");
        // Each has its own: a shared cluster's successor may start while the last one's
        // directory is being removed.
        static LAUNCHED: AtomicU32 = AtomicU32::new(0);
        let scratch = PathBuf::from(format!(
            "/var/tmp/pgassay-test-{place}-{}-{}",
            std::process::id(),
            LAUNCHED.fetch_add(1, Ordering::Relaxed)
        ));
        std::fs::create_dir_all(&scratch).expect("/var/tmp can be written");
        let options = LaunchOptions {
            settings: Settings::parse("--set", set).expect("settings"),
            scratch: Some(scratch.clone()),
            ..LaunchOptions::default()
        };
        let cluster = Cluster::launch(installation, &options).expect("a cluster");
        let bench = Bench {
            cluster,
            _place: Place(scratch),
        };
        bench.pgbench(&["-i", "-q", "-s", "1"]);
        bench
    }

    pub fn conninfo(&self) -> Conninfo {
        Conninfo::parse(&self.cluster.conninfo()).expect("conninfo")
    }

    /// Runs the installation's pgbench; what it printed on stderr.
    pub fn pgbench(&self, args: &[&str]) -> String {
        let tool = self.cluster.installation().tool("pgbench");
        let output = Command::new(tool)
            .args(args)
            .arg("-d")
            .arg(self.cluster.conninfo())
            .env("PGOPTIONS", "-c client_min_messages=warning")
            .output()
            .expect("pgbench runs");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "pgbench {args:?}: {stderr}");
        stderr
    }

    pub fn ask(&self, sql: &str) -> String {
        let mut session = connect(&self.conninfo()).expect("a session");
        session.value(sql).expect("a value").unwrap_or_default()
    }

    pub fn execute(&self, sql: &str) {
        connect(&self.conninfo())
            .expect("a session")
            .execute(sql)
            .expect("executed");
    }
}

/// A cluster for one test at a time: several count what the server did. It goes to the next test, and is removed
/// once no test has one.
pub struct Turn(Option<Bench>);

struct Pool {
    idle: Vec<Bench>,
    lent: usize,
}

static POOL: Mutex<Pool> = Mutex::new(Pool {
    idle: Vec::new(),
    lent: 0,
});

fn pool() -> MutexGuard<'static, Pool> {
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

impl std::ops::Deref for Turn {
    type Target = Bench;

    fn deref(&self) -> &Bench {
        self.0.as_ref().expect("present until dropped")
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut pool = pool();
        pool.lent -= 1;
        // What a test that failed has left would make others fail.
        if !std::thread::panicking() {
            pool.idle.extend(self.0.take());
        }
        let last = match pool.lent {
            0 => std::mem::take(&mut pool.idle),
            _ => Vec::new(),
        };
        // Stopping servers holds nobody up.
        drop(pool);
        drop(last);
    }
}

/// Returns an idle cluster, or a new one where each is in use.
pub fn bench() -> Turn {
    let mut pool = pool();
    pool.lent += 1;
    let idle = pool.idle.pop();
    drop(pool);
    // Holds the place in `lent` should the launch fail.
    let mut turn = Turn(idle);
    turn.0.get_or_insert_with(|| {
        Bench::launch(
            "load",
            &["max_connections=40", "fsync=off", "autovacuum=off"],
        )
    });
    turn
}

pub fn program(text: &str) -> Program {
    let mut program = Program::new();
    program
        .add("test.sql", text, 1)
        .unwrap_or_else(|error| panic!("{error}"));
    program
}

pub fn transactions(n: u64) -> SliceSpec {
    SliceSpec {
        length: Length::Transactions(n),
        ..SliceSpec::default()
    }
}

pub fn seconds(seconds: f64) -> SliceSpec {
    SliceSpec {
        length: Length::Time(Duration::from_secs_f64(seconds)),
        ..SliceSpec::default()
    }
}

pub fn run(engine: &mut Engine, spec: &SliceSpec) -> SliceResult {
    engine.run_slice(spec, &mut |_: Edge| {})
}

/// Runs a script so many times in so many clients.
pub fn run_script(
    conninfo: Conninfo,
    text: &str,
    options: Options,
    clients: usize,
    spec: &SliceSpec,
) -> SliceResult {
    let mut engine = Engine::new(conninfo, program(text), options);
    engine
        .resize(clients)
        .unwrap_or_else(|error| panic!("{error}"));
    run(&mut engine, spec)
}

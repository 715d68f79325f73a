//! Time by statement, and what the server's own counters say of statements and tables, on a real
//! server.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::pg_support::Server;
use pgassay_analysis::observed::Observed;
use pgassay_analysis::observed::growth::Grown;
use pgassay_analysis::observed::statements::SeenStatement;
use pgassay_observe::{Choice, Known, Observers, Scene};
use pgassay_pgwire::connect;

const HBA: &str = "local all all trust\nhost all all 127.0.0.1/32 trust\n";

/// A session that sends the same statement, with another number each time, until it is told to stop.
struct Worker {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<u64>>,
}

impl Worker {
    fn start(server: &Server, sql: &str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (asked, sql) = (Arc::clone(&stop), sql.to_owned());
        let mut session = connect(&server.owner().with_application_name("app")).unwrap();
        let thread = thread::spawn(move || {
            let mut done = 0;
            while !asked.load(Ordering::Relaxed) {
                done += 1;
                // A lock that times out is an error, and no other is expected.
                let _ = session.execute(&sql.replace("N", &done.to_string()));
            }
            done
        });
        Self {
            stop,
            thread: Some(thread),
        }
    }

    /// How many statements it sent.
    fn end(mut self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn scene(server: &Server) -> Scene {
    let pid = fs::read_to_string(server.dir.join("data/postmaster.pid")).unwrap();
    Scene {
        postmaster: Ok(pid.lines().next().unwrap().parse().unwrap()),
        session: Some(connect(&server.owner().with_application_name("pgassay")).unwrap()),
        known: Known::default(),
        ..Scene::unseen("not looked at")
    }
}

/// What is seen of a window in which these statements run, each in a session of its own.
fn observed(server: &Server, statements: &[&str], window: Duration) -> (Observed, Vec<u64>) {
    let mut scene = scene(server);
    let choice = Choice {
        waits: true,
        sched: true,
        perf: false,
    };
    let mut observers = Observers::start(choice, &server.owner(), &scene);
    let workers: Vec<Worker> = statements
        .iter()
        .map(|sql| Worker::start(server, sql))
        .collect();
    thread::sleep(Duration::from_millis(200));
    observers.begin(&mut scene);
    thread::sleep(window);
    let (_, observed) = observers.end(&mut scene);
    let sent = workers.into_iter().map(Worker::end).collect();
    (observed.unwrap(), sent)
}

fn with<'o>(observed: &'o Observed, words: &str) -> &'o SeenStatement {
    let statements = &observed.statements.as_ref().unwrap().statements;
    let found = statements.iter().find(|s| s.text.contains(words));
    found.unwrap_or_else(|| panic!("{words}: {statements:#?}"))
}

/// By its text, and by the number that the server gives it.
#[test]
fn a_statement_is_told_from_others_with_and_without_its_number() {
    for computed in ["off", "on"] {
        let server = Server::start(HBA, &[("compute_query_id", computed)], |_| {});
        let mut holder = connect(&server.owner()).unwrap();
        holder.execute("SELECT pg_advisory_lock(7)").unwrap();
        let (observed, _) = observed(
            &server,
            &[
                "SET lock_timeout = 80; /* secret */ SELECT pg_advisory_lock(7), 'secretN'",
                "SELECT sum(i) FROM generate_series(1, 200000 + N) i",
            ],
            Duration::from_secs(2),
        );
        let locked = with(&observed, "pg_advisory_lock");
        let at = |of: &SeenStatement, kind: &str| -> u64 {
            let at = of.at.iter().filter(|at| at.kind == kind);
            at.map(|at| at.count).sum()
        };
        assert!(at(locked, "Lock") > 0, "{locked:?}");
        assert!(
            at(locked, "Lock") * 10 > locked.sightings() * 8,
            "{locked:?}"
        );
        let working = with(&observed, "generate_series");
        assert!(
            at(working, "") > 0 && at(working, "Lock") == 0,
            "{working:?}"
        );
        assert_eq!(
            working.query_ids.is_empty(),
            computed == "off",
            "{working:?}"
        );
        // Whatever was in them as a literal or a comment is in no record.
        assert!(!format!("{observed:?}").contains("secret"), "{observed:?}");
    }
}

#[test]
fn what_counters_grew_by_is_what_the_sessions_did() {
    let server = Server::start(
        HBA,
        &[("shared_preload_libraries", "pg_stat_statements")],
        |_| {},
    );
    server.run("CREATE EXTENSION pg_stat_statements");
    server.run("CREATE TABLE counted AS SELECT i FROM generate_series(1, 1000) i");
    server.run("CREATE TABLE idle AS SELECT 1");
    let mut scene = scene(&server);
    let choice = Choice {
        waits: true,
        ..Choice::default()
    };
    let mut observers = Observers::start(choice, &server.owner(), &scene);
    observers.begin(&mut scene);
    let mut session = connect(&server.owner()).unwrap();
    for i in 0..20 {
        let sql = format!("SELECT count(*) FROM counted WHERE i <> {i}");
        session.execute(&sql).unwrap();
    }
    // What a session counted is certain to be told once it has ended.
    session.close();
    thread::sleep(Duration::from_millis(1500));
    let growth = observers.end(&mut scene).1.unwrap().growth.unwrap();
    assert_eq!(growth.unread, Vec::<String>::new());
    let table = growth.tables.iter().find(|t| t.name == "public.counted");
    let table = table.unwrap_or_else(|| panic!("{growth:#?}"));
    assert_eq!(
        (table.by("seq_scan"), table.by("seq_tup_read")),
        (20.0, 20_000.0)
    );
    assert!(!growth.tables.iter().any(|t| t.name == "public.idle"));
    let ours = |s: &&Grown| (s.by("calls"), s.by("rows")) == (20.0, 20.0);
    assert_eq!(
        growth.statements.iter().filter(ours).count(),
        1,
        "{growth:#?}"
    );
}

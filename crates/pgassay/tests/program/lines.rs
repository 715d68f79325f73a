//! `pgassay lines`: counts held against code whose accesses are known, and servers that must not
//! notice more than a slow session.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use pgassay_lines::account::{Account, Subject, account};
use pgassay_lines::record::{Bound, Limit};
use pgassay_lines::sequence::Sequence;
use pgassay_lines::session::{Process, Server as Said, step};
use pgassay_model::{Failure, FailureKind};
use pgassay_pgwire::{Conninfo, Session, connect};
use pgassay_server::extension::Extension;
use pgassay_server::{Cluster, Installations, LaunchOptions};
use serde_json::Value;

use crate::compare::assert_schema;
use crate::pg_support::{OWNER, Server};
use crate::runs::{Runs, Signal, signal, text};

const SCHEMA: &str = "inside";

/// A cluster with the extension's functions, and a session that keeps what they share.
struct Inside {
    cluster: Cluster,
    keeper: Session,
}

impl Inside {
    fn new() -> Self {
        let installation = Installations::search().newest().unwrap().clone();
        let mut options = LaunchOptions::default();
        options.settings.set("autovacuum", "off");
        let cluster = Cluster::launch(&installation, &options).unwrap();
        let extension = Extension::compiled_for(&installation, None).unwrap();
        let mut keeper = connect(&Conninfo::parse(&cluster.conninfo()).unwrap()).unwrap();
        keeper.execute(&format!("CREATE SCHEMA {SCHEMA}")).unwrap();
        keeper.execute(&extension.definitions(SCHEMA)).unwrap();
        keeper
            .execute(&format!("CREATE TABLE {SCHEMA}.t AS SELECT 1 AS a"))
            .unwrap();
        keeper
            .execute(&format!("VACUUM (FREEZE) {SCHEMA}.t"))
            .unwrap();
        Self { cluster, keeper }
    }

    fn session(&self) -> Session {
        connect(&Conninfo::parse(&self.cluster.conninfo()).unwrap()).unwrap()
    }

    fn arena(&mut self, sessions: u32) -> String {
        let arena = format!("SELECT {SCHEMA}.arena_create({sessions}, 1)");
        self.keeper.value(&arena).unwrap().unwrap()
    }

    /// A statement, recorded as one transaction after it was executed once.
    fn record(&mut self, statement: &str) -> Sequence {
        let mut session = self.session();
        session.rows(statement).unwrap();
        self.stepped(&mut session, statement)
    }

    fn stepped(&mut self, session: &mut Session, statement: &str) -> Sequence {
        let said = Said::ask(&mut self.keeper).unwrap();
        let own = session.backend_pid().unsigned_abs();
        let process = Process::find(self.cluster.pid(), own).unwrap();
        let stop = AtomicBool::new(false);
        let (sequence, doubts) = step(process, &said, 1, None, &stop, &mut || {
            session.rows(statement).unwrap();
            Ok(())
        })
        .unwrap();
        assert!(doubts.is_empty(), "{doubts:?}");
        sequence
    }

    /// Transactions of one statement each, as on a server that pgassay did not launch, with a limit of instructions.
    fn bounded(
        &mut self,
        session: &mut Session,
        statements: &[&str],
        instructions: u64,
    ) -> Result<(Sequence, Vec<String>), Failure> {
        let said = Said::ask(&mut self.keeper).unwrap();
        let own = session.backend_pid().unsigned_abs();
        let process = Process::find(self.cluster.pid(), own).unwrap();
        let bound = Bound::new(Limit::Instructions(instructions));
        let stop = AtomicBool::new(false);
        let transactions = statements.len() as u64;
        let recorded = step(
            process,
            &said,
            transactions,
            Some(&bound),
            &stop,
            &mut || {
                bound.run(transactions, &mut |number| {
                    session.rows(statements[number as usize]).unwrap();
                    Ok(())
                })
            },
        );
        assert!(!traced(process.pid));
        recorded
    }
}

fn accounted(sequences: &[Sequence]) -> Account {
    let subject = Subject {
        line_bytes: 64,
        ..Subject::default()
    };
    account(sequences, subject, Vec::new())
}

/// Loops of the extension, whose accesses are known from their sources.
#[test]
fn primitives_are_counted_exactly() {
    let mut inside = Inside::new();
    let arena = inside.arena(1);

    let call = |function: &str, more: &str| {
        format!("SELECT operations FROM {SCHEMA}.{function}({arena}, count => 100{more})")
    };
    // A shared lock: taken by one atomic, given back by another.
    let shared = accounted(&[inside.record(&call("lwlock", ", exclusive_percent => 0"))]);
    let lock = &shared.lines[0];
    assert_eq!(
        (lock.counts.atomics, lock.counts.stores),
        (200.0, 0.0),
        "{lock:?}"
    );
    assert_eq!(lock.takers.len(), 2, "{:?}", lock.takers);

    // A spinlock: taken by an atomic, given back by a store.
    let spin = accounted(&[inside.record(&call("spinlock", ""))]);
    let lock = &spin.lines[0];
    assert_eq!(
        (lock.counts.atomics, lock.counts.stores),
        (100.0, 100.0),
        "{lock:?}"
    );

    // A pin and an unpin of one block, which has a name.
    let hit = format!(
        "SELECT operations FROM {SCHEMA}.buffer_hit({arena}, count => 100, rel => '{SCHEMA}.t', \
         blocks => 1)"
    );
    let hit = accounted(&[inside.record(&hit)]);
    let named = |what: &str| {
        let line = hit.lines.iter().find(|line| line.name.contains(what));
        line.unwrap_or_else(|| panic!("{what}: {:?}", hit.lines))
    };
    let descriptor = named("(inside.t, block 0)");
    assert_eq!(descriptor.counts.atomics, 200.0, "{descriptor:?}");
    assert_eq!(descriptor.counts.stores, 0.0);
    assert_eq!(descriptor.takers.len(), 2, "{:?}", descriptor.takers);
    // Each finds the block under the lock of its partition.
    assert_eq!(named("LWLock BufferMapping").counts.atomics, 200.0);
    assert!(hit.named_share > 0.5, "{:?}", hit.unnamed);
}

/// On a server that others use, stepping stops inside a transaction that is too long: what is counted are the whole ones
/// before it, and it runs to its end.
#[test]
fn stepping_is_bounded_inside_a_transaction() {
    const SHORT: &str = "SELECT count(*) FROM inside.t";
    let mut inside = Inside::new();
    let mut session = inside.session();
    let long = format!(
        "INSERT INTO {SCHEMA}.t SELECT count(*) FROM generate_series(1, 100000) g RETURNING a"
    );
    // Statistics are sent by real time: as few as possible.
    session.execute("SET track_counts = off").unwrap();
    for statement in [SHORT, &long, SHORT] {
        session.rows(statement).unwrap();
    }
    let unbounded = u64::MAX;
    let (whole, doubts) = inside
        .bounded(&mut session, &[SHORT, SHORT, SHORT], unbounded)
        .unwrap();
    assert!(doubts.is_empty(), "{doubts:?}");
    assert_eq!((whole.transactions, whole.boundaries.len()), (3, 4));
    let twice = whole.instructions * 2 / 3;

    let (cut, doubts) = inside
        .bounded(&mut session, &[SHORT, SHORT, SHORT, &long, SHORT], twice)
        .unwrap();
    assert!(
        doubts[0].contains("3 of 5 transactions were recorded whole"),
        "{doubts:?}"
    );
    assert_eq!(cut.transactions, 3);
    assert_eq!(cut.boundaries.len(), 4);
    assert_eq!(cut.boundaries.last(), Some(&cut.uses.len()));
    // The transaction that was cut off has executed as many instructions as two whole ones.
    let spread = cut.instructions.abs_diff(whole.instructions);
    assert!(spread < twice / 4, "{spread} of {twice}");
    // The first one may send statistics by real time, and what others do meanwhile may cost a load.
    let of = |sequence: &Sequence| sequence.boundaries[3] - sequence.boundaries[1];
    let (a, b) = (of(&cut), of(&whole));
    assert!(a.abs_diff(b) <= b / 50, "{a} and {b}");

    // No transaction is within the limit.
    let none = inside
        .bounded(&mut session, &[&long, SHORT], twice)
        .unwrap_err();
    assert_eq!(none.kind, FailureKind::Target, "{none:?}");
    let remedy = none.remedy.unwrap();
    assert!(
        remedy.contains("temp") && remedy.contains("--sample SECONDS"),
        "{remedy}"
    );
    // Both long transactions came to their end, and the session goes on.
    let rows = format!("SELECT count(*) FROM {SCHEMA}.t WHERE a > 1");
    assert_eq!(session.value(&rows).unwrap().as_deref(), Some("3"));
}

/// The same loops by name: an operation without the statement around it.
#[test]
fn a_loop_is_counted_by_the_operation() {
    let runs = Runs::new("lines");
    let args = ["lines", "--sessions", "1", "-n", "50", "--at", "1,2", "-w"];
    for (wrong, known) in [
        ("lwlock:often", "lwlock:shared"),
        ("primitives", "spinlock"),
    ] {
        let output = runs.run(&[&args[..], &[wrong]].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(known), "{said}");
    }
    let few = ["lines", "-n", "2", "-w", "spinlock"];
    assert_eq!(runs.run(&few).status.code(), Some(2));

    let output = runs.run(&[&args[..], &["lwlock:shared", "--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_schema(&json, "lines-1.json");
    // As compare and run call it.
    assert_eq!(json["workload"], "lwlock:shared");
    assert_eq!(json["transactions"], 50);
    // Nothing but the lock: taken by one atomic, given back by another.
    assert_eq!(json["total"]["atomics"], 2.0, "{json}");
    assert_eq!(json["lines_taken"], 1.0);
    assert_eq!(json["lines"][0]["counts"]["atomics"], 2.0);
    // Under a microsecond, alone.
    assert!(
        json["cpu_us"]
            .as_f64()
            .is_some_and(|us| us > 0.0 && us < 1.0)
    );
}

/// The last release whose pins take the spinlock in the header: each pin and unpin is an atomic and two stores, and the
/// content is locked elsewhere.
#[cfg(target_arch = "x86_64")]
#[test]
fn pins_of_9_5_take_the_header_s_spinlock() {
    let runs = Runs::new("lines-95");
    let args = [
        "lines",
        "temp:9.5",
        "--stand-in",
        "--sessions",
        "1",
        "-n",
        "2",
        "--scale",
        "1",
        "--at",
        "1,2",
        "--json",
    ];
    let output = runs.run(&args);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_schema(&json, "lines-1.json");
    assert!(json["named_share"].as_f64().unwrap() > 0.95, "{json}");
    assert_eq!(json["doubts"], serde_json::json!([]));
    let lines = json["lines"].as_array().unwrap();
    let root = |of: &str| {
        let starts = |line: &&Value| {
            let name = line["name"].as_str().unwrap();
            name.starts_with(of) && name.contains("(root of pgbench_accounts_pkey")
        };
        lines
            .iter()
            .find(starts)
            .unwrap_or_else(|| panic!("{of}: {json}"))
    };
    let counts = |line: &Value| {
        let of = |kind: &str| line["counts"][kind].as_f64().unwrap();
        (of("atomics"), of("stores"))
    };
    let descriptor = root("descriptor of buffer");
    assert_eq!(counts(descriptor), (2.0, 4.0), "{descriptor}");
    let takers: Vec<&str> = descriptor["takers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|taker| taker["function"].as_str().unwrap())
        .collect();
    assert!(
        takers.contains(&"PinBuffer") && takers.contains(&"UnpinBuffer"),
        "{takers:?}"
    );
    assert_eq!(counts(root("content lock of buffer")), (2.0, 0.0));
}

/// Words of two sessions on one line are told, words on lines of their own are not.
#[test]
fn false_sharing_is_told_and_padding_is_not() {
    let mut inside = Inside::new();
    let arena = inside.arena(2);
    let meets = |inside: &mut Inside, placement: &str| {
        let call = |slot: u32, count: u32| {
            format!(
                "SELECT operations FROM {SCHEMA}.atomics({arena}, {slot}, count => {count}, \
                 operation => 'add64', placement => '{placement}')"
            )
        };
        let record = |slot: u32, inside: &mut Inside| {
            let mut session = inside.session();
            // The gate opens for two: the other one comes again and again.
            let done = AtomicBool::new(false);
            let mut other = inside.session();
            thread::scope(|scope| {
                scope.spawn(|| {
                    while !done.load(Ordering::Acquire) {
                        other.rows(&call(1 - slot, 1)).ok();
                    }
                });
                session.rows(&call(slot, 100)).ok();
                let sequence = inside.stepped(&mut session, &call(slot, 100));
                done.store(true, Ordering::Release);
                sequence
            })
        };
        let sequences = [record(0, inside), record(1, inside)];
        let account = accounted(&sequences);
        // The words are where each session makes all of its atomics.
        let words = account
            .lines
            .iter()
            .filter(|line| line.counts.atomics >= 50.0);
        let words: Vec<String> = words.map(|line| line.address.clone()).collect();
        assert!(!words.is_empty(), "{:?}", account.lines);
        let falsely: Vec<&str> = account
            .meetings
            .iter()
            .filter(|meeting| meeting.kind == "false-sharing")
            .map(|meeting| meeting.address.as_str())
            .collect();
        words.iter().any(|word| falsely.contains(&word.as_str()))
    };
    assert!(meets(&mut inside, "packed"));
    assert!(!meets(&mut inside, "padded"));
}

/// The account of a select: everything has a name, and the root of the key has its four atomics.
#[test]
fn a_select_is_accounted_for_and_the_same_twice() {
    let runs = Runs::new("lines");
    let args = ["lines", "-n", "4", "--seed", "7", "--json", "--at", "1,64"];
    let account = || {
        let output = runs.run(&args);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).expect("JSON")
    };
    let (first, second) = (account(), account());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema/lines-1.json");
    let schema: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let errors: Vec<String> = validator
        .iter_errors(&first)
        .map(|e| e.to_string())
        .collect();
    assert!(errors.is_empty(), "{errors:?}");

    assert!(
        first["named_share"].as_f64().unwrap() >= 0.95,
        "{}",
        first["unnamed"]
    );
    let lines = first["lines"].as_array().unwrap();
    let root = lines.iter().find(|line| {
        let name = line["name"].as_str().unwrap();
        name.starts_with("descriptor") && name.contains("(root of pgbench_accounts_pkey, block 3)")
    });
    let root = root.unwrap_or_else(|| panic!("{lines:?}"));
    assert_eq!(root["counts"]["atomics"], 4.0, "{root}");
    // How far a look-up goes along a chain of the buffers' table hangs on which block was read in first, which differs from
    // server to server.
    let total = |account: &Value, what: &str| {
        let lines = account["lines"].as_array().unwrap().iter();
        let of_chains = lines.filter(|line| {
            let name = line["name"].as_str().unwrap();
            name.starts_with("Shared Buffer Lookup Table entry")
        });
        let of_chains: f64 = of_chains
            .filter_map(|line| line["counts"][what].as_f64())
            .sum();
        account["total"][what].as_f64().unwrap() - of_chains
    };
    assert!(total(&first, "loads") > 300.0, "{}", first["total"]);
    for what in ["loads", "stores", "atomics"] {
        let (a, b) = (total(&first, what), total(&second, what));
        assert!((a - b).abs() <= a * 0.001, "{what}: {a} and {b}");
    }
    // Alone, a session asks nobody; sixty-four ask each other.
    let transfers = first["transfers"].as_array().unwrap();
    assert_eq!(transfers[0]["per_transaction"]["estimate"], 0.0);
    assert!(transfers[1]["per_transaction"]["low"].as_f64().unwrap() > 5.0);
}

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

fn traced(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().any(|line| {
        line.strip_prefix("TracerPid:")
            .is_some_and(|tracer| tracer.trim() != "0")
    })
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

/// What a comparison by lines begins with.
const BY_LINES: [&str; 5] = ["compare", "temp", "temp", "--by", "lines"];

#[test]
fn what_is_no_comparison_by_lines_is_refused() {
    let runs = Runs::new("lines-compare-refused");
    let refused = runs.run(&[&BY_LINES[..], &["--minutes", "3"]].concat());
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(
        said.contains("--minutes is for comparisons by time"),
        "{said}"
    );
    for flags in [
        &["--rate", "10"][..],
        &["--env-b", "X=1"],
        &["--set-c", "jit=off"],
    ] {
        let refused = runs.run(&[&BY_LINES[..], flags].concat());
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{flags:?}: {said}");
    }
    fs::create_dir_all(&runs.0).unwrap();
    let script = runs.0.join("broken.sql");
    fs::write(&script, "\\set i random(\n").unwrap();
    let file = ["--file", script.to_str().unwrap()];
    let refused = runs.run(&[&BY_LINES[..], &file].concat());
    let said = text(&refused.stderr);
    assert!(said.contains("broken.sql"), "{said}");
}

/// A comparison by lines is that of `lines A B`: what a setting takes off is named.
#[test]
#[ignore = "long: make test-all"]
fn a_comparison_goes_by_lines() {
    let runs = Runs::new("lines-compare");
    let args = ["--set-b", "track_activities=off", "--seed", "1", "--json"];
    let output = runs.run(&[&BY_LINES[..], &args].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let difference: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_schema(&difference, "lines-difference-1.json");
    let all = difference.to_string();
    assert!(
        all.contains("PgBackendStatus") || all.contains("Backend Status Array"),
        "{all}"
    );
}

/// Bounds by the lines: the root of the key allows less the more sessions there are.
#[test]
#[ignore = "long: make test-all"]
fn walls_are_bounds_by_lines() {
    let runs = Runs::new("walls");
    let args = [
        "walls",
        "--cpu",
        "graviton2",
        "-n",
        "2",
        "--at",
        "1,64,192",
        "--json",
    ];
    let output = runs.run(&args);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let walls: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema/walls-1.json");
    let schema: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let errors: Vec<String> = validator
        .iter_errors(&walls)
        .map(|e| e.to_string())
        .collect();
    assert!(errors.is_empty(), "{errors:?}");
    assert!(
        walls["cpu_us"].as_f64().unwrap() > 1.0,
        "{}",
        walls["cpu_us"]
    );
    let bounds = walls["bounds"].as_array().unwrap();
    assert!(
        bounds[0]["lines"].as_array().unwrap().is_empty(),
        "{}",
        bounds[0]
    );
    // Alone, a session takes its CPU time; replayed, 192 go through no more than processors and lines allow.
    let timed = |at: usize| bounds[at]["timed"]["tps"]["estimate"].as_f64().unwrap();
    let allowed = |at: usize| bounds[at]["processors_tps"].as_f64().unwrap();
    assert!((timed(0) / allowed(0) - 1.0).abs() < 0.3, "{}", bounds[0]);
    assert!(timed(2) > 10.0 * timed(0), "{}", bounds[2]);
    assert!(timed(2) <= 1.3 * allowed(2), "{}", bounds[2]);
    let lines = bounds[2]["lines"].as_array().unwrap();
    let root = lines.iter().find(|line| {
        let name = line["name"].as_str().unwrap();
        name.contains("root of pgbench_accounts_pkey")
    });
    let root = root.unwrap_or_else(|| panic!("{lines:?}"));
    // Four atomics in two visits, 47 ns each.
    let count = |what: &str| root[what]["estimate"].as_f64().unwrap();
    assert!((2.0..=4.0).contains(&count("owned")), "{root}");
    assert!((0.9..=2.1).contains(&count("visits")), "{root}");
    for (times, tps) in [("owned", "tps"), ("visits", "at_most_tps")] {
        let of = 1e9 / (count(times) * 47.0);
        assert!((count(tps) - of).abs() < 1.0, "{root}");
    }
    // One processor takes the lock again before another one's request is there: no bound.
    let alone = [
        "walls",
        "-w",
        "spinlock",
        "-n",
        "50",
        "--transfer-ns",
        "200",
    ];
    let output = runs.run(&[&alone[..], &["--at", "1,16", "--json"]].concat());
    let loops: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let lines = loops["bounds"][1]["lines"].as_array().unwrap();
    assert!(lines.is_empty(), "{loops}");

    let listed = runs.run(&["walls", "--list-cpus"]);
    assert!(
        text(&listed.stdout).contains("graviton2"),
        "{}",
        text(&listed.stderr)
    );
    for wrong in [
        &["walls"][..],
        &["walls", "--cpu", "z80"],
        &["walls", "--transfer-ns", "-1"],
    ] {
        assert_eq!(runs.run(wrong).status.code(), Some(2), "{wrong:?}");
    }
}

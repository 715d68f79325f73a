//! Sessions stepped through functions of the extension, whose accesses are known from their sources.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use pgassay_lines::account::{Account, Subject, account};
use pgassay_lines::record::{Bound, Limit};
use pgassay_lines::sequence::Sequence;
use pgassay_lines::session::{Process, Server as Said, step};
use pgassay_model::{Failure, FailureKind};
use pgassay_pgwire::{Conninfo, Session, connect};
use pgassay_server::extension::Extension;
use pgassay_server::{Cluster, Installations, LaunchOptions};

use super::traced;

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

    /// A prepared statement, recorded as one transaction after it was executed once.
    fn record(&mut self, statement: &str) -> Sequence {
        let mut session = self.session();
        prepare(&mut session, statement);
        self.stepped(&mut session)
    }

    fn stepped(&mut self, session: &mut Session) -> Sequence {
        let said = Said::ask(&mut self.keeper).unwrap();
        let own = session.backend_pid().unsigned_abs();
        let process = Process::find(self.cluster.pid(), own).unwrap();
        let stop = AtomicBool::new(false);
        let (sequence, doubts) = step(process, &said, 1, None, &stop, &mut || {
            session.rows(PREPARED).unwrap();
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

/// Executes the statement that a session has prepared: stepping takes 25 µs an instruction, and planning most of them.
const PREPARED: &str = "EXECUTE stepped";

/// Prepares a statement and executes it once.
fn prepare(session: &mut Session, statement: &str) {
    let prepared = format!("PREPARE stepped AS {statement}");
    session.execute(&prepared).unwrap();
    session.rows(PREPARED).unwrap();
}

fn accounted(sequences: &[Sequence]) -> Account {
    let subject = Subject {
        line_bytes: 64,
        ..Subject::default()
    };
    account(sequences, subject, Vec::new())
}

/// Operations of each loop: each instruction is stepped.
const COUNT: u32 = 20;

/// Loops of the extension, whose accesses are known from their sources.
#[test]
fn primitives_are_counted_exactly() {
    let mut inside = Inside::new();
    let arena = inside.arena(1);
    let (once, twice) = (f64::from(COUNT), f64::from(2 * COUNT));

    let call = |function: &str, more: &str| {
        format!("SELECT operations FROM {SCHEMA}.{function}({arena}, count => {COUNT}{more})")
    };
    // A shared lock: taken by one atomic, given back by another.
    let shared = accounted(&[inside.record(&call("lwlock", ", exclusive_percent => 0"))]);
    let lock = &shared.lines[0];
    assert_eq!(
        (lock.counts.atomics, lock.counts.stores),
        (twice, 0.0),
        "{lock:?}"
    );
    assert_eq!(lock.takers.len(), 2, "{:?}", lock.takers);

    // A spinlock: taken by an atomic, given back by a store.
    let spin = accounted(&[inside.record(&call("spinlock", ""))]);
    let lock = &spin.lines[0];
    assert_eq!(
        (lock.counts.atomics, lock.counts.stores),
        (once, once),
        "{lock:?}"
    );

    // A pin and an unpin of one block, which has a name.
    let hit = format!(
        "SELECT operations FROM {SCHEMA}.buffer_hit({arena}, count => {COUNT}, rel => '{SCHEMA}.t', \
         blocks => 1)"
    );
    let hit = accounted(&[inside.record(&hit)]);
    let named = |what: &str| {
        let line = hit.lines.iter().find(|line| line.name.contains(what));
        line.unwrap_or_else(|| panic!("{what}: {:?}", hit.lines))
    };
    let descriptor = named("(inside.t, block 0)");
    assert_eq!(descriptor.counts.atomics, twice, "{descriptor:?}");
    assert_eq!(descriptor.counts.stores, 0.0);
    assert_eq!(descriptor.takers.len(), 2, "{:?}", descriptor.takers);
    // Each finds the block under the lock of its partition.
    assert_eq!(named("LWLock BufferMapping").counts.atomics, twice);
    assert!(hit.named_share > 0.5, "{:?}", hit.unnamed);
}

/// Words of two sessions on one line are reported, words on lines of their own are not.
#[test]
fn false_sharing_is_reported_and_padding_is_not() {
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
                prepare(&mut session, &call(slot, 2 * COUNT));
                let sequence = inside.stepped(&mut session);
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
            .filter(|line| line.counts.atomics >= f64::from(COUNT));
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

/// On a server that others use, stepping stops inside a transaction that is too long: what is counted are the whole ones
/// before it, and it runs to its end.
#[test]
fn stepping_is_bounded_inside_a_transaction() {
    const SHORT: &str = PREPARED;
    let mut inside = Inside::new();
    let mut session = inside.session();
    let long = format!(
        "INSERT INTO {SCHEMA}.t SELECT count(*) FROM generate_series(1, 100000) g RETURNING a"
    );
    // Statistics are sent by real time: as few as possible.
    session.execute("SET track_counts = off").unwrap();
    prepare(&mut session, "SELECT count(*) FROM inside.t");
    session.rows(&long).unwrap();
    session.rows(SHORT).unwrap();
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

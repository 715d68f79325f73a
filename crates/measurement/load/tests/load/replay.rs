//! Recorded sessions, replayed on a real server.

use std::sync::Arc;
use std::time::Duration;

use pgassay_load::script::{Drawn, Program};
use pgassay_load::{Engine, Execution, Length, Options, Pace, Protocol, Replay, SliceSpec};
use pgassay_pgwire::connect;

use crate::support::{bench, run};

const MS: u64 = 1_000_000;

/// Single inserts, and a transaction of two.
fn program(table: &str) -> Program {
    let mut program = Program::new();
    let insert = format!("INSERT INTO {table} VALUES (:n, pg_backend_pid(), clock_timestamp())");
    let one = format!("\\draw n from 0\n{insert};\n");
    let two = format!("\\draw n from 0\nBEGIN;\n{insert};\n{insert};\nCOMMIT;\n");
    program.add("one", &one, 1).unwrap();
    program.add("two", &two, 1).unwrap();
    program
}

fn execution(at_ms: u64, script: usize, value: u64, pauses_ms: &[u64]) -> Execution {
    Execution {
        at_ns: at_ms * MS,
        took_ns: MS,
        script,
        row: [Drawn::read(&value.to_string()).unwrap()].into(),
        pauses_ns: pauses_ms.iter().map(|ms| ms * MS).collect(),
    }
}

/// Two sessions at once, and two after them.
fn sessions() -> Vec<Vec<Execution>> {
    vec![
        vec![
            execution(0, 0, 1, &[]),
            execution(1000, 1, 2, &[0, 0, 100, 0]),
            execution(1300, 0, 3, &[]),
        ],
        vec![execution(100, 0, 10, &[]), execution(200, 0, 11, &[])],
        vec![execution(1400, 0, 20, &[])],
        // Later than any slice is long, so that the recording does not begin anew.
        vec![execution(60_000, 0, 99, &[])],
    ]
}

/// Value, milliseconds since the first, and which of the connections.
fn seen(bench: &crate::support::Bench, table: &str) -> Vec<(u64, u64, u64)> {
    let mut session = connect(&bench.conninfo()).unwrap();
    let question = format!(
        "SELECT n, 1000 * extract(epoch FROM at - min(at) OVER ()), dense_rank() OVER (ORDER BY pid) \
         FROM {table} ORDER BY at"
    );
    let rows = session.rows(&question).unwrap().rows;
    let number = |value: &Option<String>| value.as_ref().unwrap().parse::<f64>().unwrap() as u64;
    rows.iter()
        .map(|row| (number(&row[0]), number(&row[1]), number(&row[2])))
        .collect()
}

fn make(bench: &crate::support::Bench, table: &str) {
    let mut session = connect(&bench.conninfo()).unwrap();
    let create = format!("CREATE TABLE {table} (n bigint, pid int, at timestamptz)");
    session.execute(&create).unwrap();
}

fn spec(seconds: f64) -> SliceSpec {
    SliceSpec {
        length: Length::Time(Duration::from_secs_f64(seconds)),
        ..SliceSpec::default()
    }
}

#[test]
fn sessions_are_replayed_when_they_were_and_in_their_order() {
    let bench = bench();
    for (protocol, table) in [
        (Protocol::Simple, "replay_simple"),
        (Protocol::Prepared, "replay_prepared"),
    ] {
        make(&bench, table);
        let replay = Replay::new(sessions(), Pace::Original, 2.0);
        assert_eq!((replay.connections(), replay.sessions()), (2, 4));
        let options = Options {
            protocol,
            replay: Some(Arc::new(replay)),
            ..Options::default()
        };
        let mut engine = Engine::new(bench.conninfo(), program(table), options);
        engine.resize(2).unwrap();
        // The second slice goes on where the first one ends, after 700 ms of the recording.
        let first = run(&mut engine, &spec(0.35));
        let on = SliceSpec {
            replay_from: Duration::from_millis(700),
            ..spec(1.5)
        };
        let second = run(&mut engine, &on);
        assert_eq!(
            (first.transactions_sent, second.transactions_sent),
            (3, 3),
            "{second:?}"
        );
        assert_eq!(
            (first.failures.len(), second.failures.len()),
            (0, 0),
            "{second:?}"
        );
        let values: Vec<u64> = seen(&bench, table)
            .iter()
            .map(|(value, ..)| *value)
            .collect();
        assert_eq!(values, [1, 10, 11, 2, 2, 3, 20]);
        let scheduled = second.latency_from_actual.expect("there is a schedule");
        assert!(scheduled.count() + second.first.count() == 3 && second.lag_max_ns > 0);
        // Half of the 100 ms between its inserts, which are no part of its latency.
        let at: Vec<u64> = seen(&bench, table).iter().map(|(_, at, _)| *at).collect();
        assert!(at[4] - at[3] >= 50, "{at:?}");
        assert!(at.is_sorted(), "{at:?}");
    }
}

#[test]
fn what_does_not_begin_in_time_is_counted() {
    let bench = bench();
    let mut program = Program::new();
    program.add("slow", "SELECT pg_sleep(0.1);\n", 1).unwrap();
    let at = |ms: u64| Execution {
        at_ns: ms * MS,
        took_ns: MS,
        ..Execution::default()
    };
    let session = (0..8).map(|n| at(n * 10)).collect();
    let other = vec![at(60_000)];
    let options = Options {
        replay: Some(Arc::new(Replay::new(
            vec![session, other],
            Pace::Original,
            1.0,
        ))),
        ..Options::default()
    };
    let mut engine = Engine::new(bench.conninfo(), program, options);
    engine.resize(1).unwrap();
    let result = run(&mut engine, &spec(0.4));
    let (ended, behind) = (result.transactions_sent, result.behind);
    assert_eq!(ended + behind, 8, "{result:?}");
    assert!(behind >= 3 && result.lag_max_ns > 80 * MS, "{result:?}");
    // They are not made up for.
    let on = SliceSpec {
        replay_from: Duration::from_millis(400),
        ..spec(0.1)
    };
    let next = run(&mut engine, &on);
    assert!(next.window_ns >= 100 * MS, "{next:?}");
    // Who has nothing to begin sleeps.
    assert!(next.system_calls().wait < 100);
    assert_eq!((next.transactions_sent, next.behind), (0, 0), "{next:?}");
}

#[test]
fn a_closed_loop_takes_session_after_session() {
    let bench = bench();
    make(&bench, "replay_closed");
    let options = Options {
        replay: Some(Arc::new(Replay::new(sessions(), Pace::Closed, 1.0))),
        ..Options::default()
    };
    let mut engine = Engine::new(bench.conninfo(), program("replay_closed"), options);
    engine.resize(1).unwrap();
    let thrice = SliceSpec {
        length: Length::Transactions(9),
        ..SliceSpec::default()
    };
    let result = run(&mut engine, &thrice);
    assert!(
        result.failures.is_empty() && result.latency_from_actual.is_none(),
        "{result:?}"
    );
    let values: Vec<u64> = seen(&bench, "replay_closed")
        .iter()
        .map(|(value, ..)| *value)
        .collect();
    assert_eq!(values, [1, 2, 2, 3, 10, 11, 20, 99, 1, 2, 2]);
}

#[test]
fn a_pause_beyond_the_drain_holds_no_slice() {
    let bench = bench();
    make(&bench, "replay_paused");
    // Longer than the slice waits for answers.
    let paused = execution(0, 1, 1, &[0, 0, 600_000, 0]);
    let after = execution(300, 0, 2, &[]);
    let later = execution(60_000, 0, 3, &[]);
    let options = Options {
        replay: Some(Arc::new(Replay::new(
            vec![vec![paused], vec![after], vec![later]],
            Pace::Original,
            1.0,
        ))),
        ..Options::default()
    };
    let mut engine = Engine::new(bench.conninfo(), program("replay_paused"), options);
    engine.resize(2).unwrap();
    let begun = std::time::Instant::now();
    let result = run(&mut engine, &spec(0.2));
    assert!(begun.elapsed() < Duration::from_secs(10));
    assert_eq!((result.transactions_sent, result.unfinished), (0, 1));
    // What it had done is rolled back, and its connection goes on.
    let on = SliceSpec {
        replay_from: Duration::from_millis(200),
        ..spec(0.3)
    };
    let next = run(&mut engine, &on);
    assert_eq!(
        (next.transactions_sent, next.unfinished),
        (1, 0),
        "{next:?}"
    );
    let values = seen(&bench, "replay_paused");
    assert_eq!(values.len(), 1, "{values:?}");
    assert_eq!(values[0].0, 2);
}

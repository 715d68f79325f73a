//! What clients take in turn, and what is due before a window.

use std::time::Duration;

use pgassay_load::script::Program;
use pgassay_load::{Engine, Gaps, Options, Schedule, SliceSpec};

use crate::support::{bench, run, run_script, seconds, transactions};

/// The n-th of three clients takes rows n, n + 3, n + 6 … of the five, however they overtake each other and on
/// whichever thread they are.
#[test]
fn rows_in_order_are_taken_in_turn() {
    let bench = bench();
    bench.execute("DROP TABLE IF EXISTS turns; CREATE TABLE turns (client int, row int)");
    let script =
        "\\draw row from 0 1 2 3 4 in order\nINSERT INTO turns VALUES (:client_id, :row);\n";
    for threads in [1, 3] {
        bench.execute("TRUNCATE turns");
        let options = Options {
            threads: Some(threads),
            ..Options::default()
        };
        let result = run_script(bench.conninfo(), script, options, 3, &transactions(7));
        assert_eq!(result.transactions, 21);
        let expected = "SELECT count(*) = 0 FROM (SELECT client, row, count(*) FROM turns GROUP BY 1, 2 EXCEPT \
            SELECT c, (c + 3 * k) % 5, count(*) FROM generate_series(0, 2) c, generate_series(0, 6) k GROUP BY 1, 2) x";
        assert_eq!(bench.ask(expected), "t", "{threads} threads");
    }
    bench.execute("DROP TABLE turns");
}

/// One client at 20 ms each can do 50 a second of 200. What it owes when the window begins is dropped: what was due
/// in the window is done, under way or behind, and nothing else is.
#[test]
fn what_was_due_in_the_warm_up_is_no_part_of_the_window() {
    let bench = bench();
    let text = "\\sleep 20 ms\nSELECT 1;\n";
    let paced = |gaps| Schedule::Paced {
        per_second: 200.0,
        gaps,
    };
    let ramp = Schedule::Ramp {
        from: 200.0,
        to: 200.0,
        after: Duration::from_secs(1),
        over: Duration::from_secs(1),
    };
    for (schedule, slack) in [
        (paced(Gaps::Fixed), 5),
        // Four standard deviations of a Poisson count.
        (paced(Gaps::Exponential), 57),
        (ramp, 57),
    ] {
        let spec = SliceSpec {
            warmup: Duration::from_secs(1),
            schedule,
            ..seconds(1.0)
        };
        let result = run_script(bench.conninfo(), text, Options::default(), 1, &spec);
        assert!(result.transactions <= 51, "{result:?}");
        let all = result.transactions + result.behind + u64::from(result.unfinished);
        assert!(all.abs_diff(200) <= slack, "{schedule:?}: {all}");
    }
}

/// Two of five clients run the second script and no other, on whichever thread they are. The sums are those of the
/// others, who alone keep to a rate.
#[test]
fn a_script_with_clients_of_its_own_counts_by_itself() {
    let bench = bench();
    bench.execute("DROP TABLE IF EXISTS own; CREATE TABLE own (client int, script int)");
    for (threads, schedule) in [
        (1, Schedule::Closed),
        (5, Schedule::Closed),
        (
            4,
            Schedule::Paced {
                per_second: 1_000.0,
                gaps: Gaps::Fixed,
            },
        ),
    ] {
        bench.execute("TRUNCATE own");
        let mut program = Program::new();
        let insert = |n: u32| format!("INSERT INTO own VALUES (:client_id, {n});\n");
        program.add("one", &insert(1), 3).unwrap();
        program.add("own", &insert(2), 0).unwrap();
        let options = Options {
            threads: Some(threads),
            own_clients: vec![0, 2],
            ..Options::default()
        };
        let mut engine = Engine::new(bench.conninfo(), program, options);
        engine.resize(5).unwrap();
        let spec = SliceSpec {
            schedule,
            ..transactions(4)
        };
        let result = run(&mut engine, &spec);
        assert_eq!((result.transactions, result.transactions_sent), (12, 20));
        let of = |n: usize| {
            let script = &result.scripts[n];
            (
                script.transactions,
                script.latency.as_ref().unwrap().count(),
            )
        };
        // The first of each connection is apart.
        assert_eq!((of(0), of(1)), ((12, 9), (8, 6)));
        assert_eq!(result.latency.count() + result.first.count(), 12);
        let clients = "SELECT string_agg(n::text, ' ' ORDER BY n) FROM \
            (SELECT count(DISTINCT client) * 10 + script AS n FROM own GROUP BY script) x";
        assert_eq!(bench.ask(clients), "22 31", "{threads} threads");
    }
    // By time, with a rate that nobody can keep: only those who keep to it are behind.
    let mut program = Program::new();
    program.add("one", "\\sleep 20 ms\nSELECT 1;\n", 1).unwrap();
    program.add("own", "SELECT 2;\n", 0).unwrap();
    let options = Options {
        threads: Some(2),
        own_clients: vec![0, 2],
        ..Options::default()
    };
    let mut engine = Engine::new(bench.conninfo(), program, options);
    engine.resize(3).unwrap();
    let spec = SliceSpec {
        schedule: Schedule::Paced {
            per_second: 200.0,
            gaps: Gaps::Fixed,
        },
        ..seconds(1.0)
    };
    let result = run(&mut engine, &spec);
    assert!(result.transactions <= 51, "{result:?}");
    assert!(result.scripts[1].transactions > 0);
    let all = result.transactions + result.behind + u64::from(result.unfinished);
    // Up to two of the others are under way at the end.
    assert!(all.abs_diff(200) <= 7, "{all}");
    bench.execute("DROP TABLE own");
}

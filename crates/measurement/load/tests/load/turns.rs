//! What clients take in turn, and what is due before a window.

use std::time::Duration;

use pgassay_load::{Gaps, Options, Schedule, SliceSpec};

use crate::support::{bench, run_script, seconds, transactions};

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

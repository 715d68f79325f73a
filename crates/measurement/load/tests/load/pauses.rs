//! Clients that wait around each transaction as people do.

use std::time::Duration;

use pgassay_load::{Engine, Options, Pause};

use crate::support::{bench, program, run, seconds};

#[test]
fn a_client_types_before_each_transaction() {
    let bench = bench();
    let options = Options {
        pauses: vec![Pause {
            keying: Duration::from_millis(100),
            thinking: Duration::ZERO,
        }],
        ..Options::default()
    };
    let mut engine = Engine::new(bench.conninfo(), program("SELECT 1"), options);
    engine.resize(3).unwrap();
    let result = run(&mut engine, &seconds(1.0));
    // Without pauses it would be thousands; the first of each client is typed in part already.
    assert!((1..=3 * 11).contains(&result.transactions), "{result:?}");
    assert!(result.failures.is_empty() && result.lost.is_empty());
    assert_eq!((result.behind, result.unfinished), (0, 0));
}

#[test]
fn a_client_that_thinks_for_longer_than_the_slice_holds_nobody_up() {
    let bench = bench();
    let options = Options {
        pauses: vec![Pause {
            keying: Duration::ZERO,
            thinking: Duration::from_secs(1_000_000),
        }],
        ..Options::default()
    };
    let mut engine = Engine::new(bench.conninfo(), program("SELECT 1"), options);
    engine.resize(2).unwrap();
    for _ in 0..2 {
        let result = run(&mut engine, &seconds(0.1));
        assert_eq!((result.unfinished, result.lost_count), (0, 0), "{result:?}");
    }
}

//! Peers that misbehave: each costs its client, with a reason that says what happened, and nothing
//! else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pgassay_load::{CONNECTION, Gaps, Options, Protocol, Schedule, SliceResult, SliceSpec};
use pgassay_pgwire::fake::{FakeServer, Step, say};

use crate::support::{run_script, seconds, transactions};

fn simple() -> Options {
    Options {
        protocol: Protocol::Simple,
        ..Options::default()
    }
}

fn answer() -> Vec<u8> {
    [
        say::columns(&["a"]),
        say::row(&[Some("1")]),
        say::complete("SELECT 1"),
        say::ready(b'I'),
    ]
    .concat()
}

fn play(steps: Vec<Step>, options: Options, spec: &SliceSpec) -> SliceResult {
    let mut script = vec![Step::ReadStartup, Step::Send(say::welcome())];
    script.extend(steps);
    let server = FakeServer::listen(vec![script]).expect("listen");
    run_script(server.conninfo(), "SELECT 1;\n", options, 1, spec)
}

/// Whoever connects for each transaction waits for that as for the rest of it.
#[test]
fn latency_includes_connecting_unless_it_is_timed_as_pgbench_does() {
    const HELD: Duration = Duration::from_millis(200);
    for timed_once_connected in [false, true] {
        let slow = vec![
            Step::ReadStartup,
            Step::Sleep(HELD),
            Step::Send(say::welcome()),
            Step::ReadUntil(b'Q'),
            Step::Send(answer()),
            Step::Freeze,
        ];
        let server = FakeServer::listen(vec![slow; 4]).expect("listen");
        let options = Options {
            reconnect: true,
            timed_once_connected,
            ..simple()
        };
        let begun = Instant::now();
        let conninfo = server.conninfo();
        let result = run_script(conninfo, "SELECT 1;\n", options, 1, &transactions(2));
        let elapsed = begun.elapsed().as_nanos() as f64;
        assert_eq!(
            (result.transactions, result.connects.count()),
            (2, 2),
            "{result:?}"
        );
        let (latency, connecting) = (2.0 * result.latency.mean(), 2.0 * result.connects.mean());
        // Histograms round to a thousandth.
        assert!(
            connecting >= 0.99 * 2.0 * HELD.as_nanos() as f64,
            "{result:?}"
        );
        match timed_once_connected {
            false => assert!(latency >= 0.99 * connecting, "{result:?}"),
            true => assert!(latency + connecting <= 1.01 * elapsed, "{result:?}"),
        }
    }
}

#[test]
fn bad_answers_cost_the_client_and_say_why() {
    let ask = || Step::ReadUntil(b'Q');
    for (answer, reason) in [
        (vec![Step::HangUp], "closed the connection"),
        (vec![Step::Reset], "connection"),
        (
            vec![Step::Send(say::columns(&["a"])[..7].to_vec()), Step::HangUp],
            "closed",
        ),
        (
            vec![
                Step::Send(b"HTTP/1.1 400 Bad Request".to_vec()),
                Step::HangUp,
            ],
            "COPY",
        ),
        (
            vec![Step::Send(b"\0\0\0\0\0\0\0".to_vec()), Step::HangUp],
            "unexpected message",
        ),
        (
            vec![Step::Send(say::header(b'D', u32::MAX)), Step::HangUp],
            "length",
        ),
        (
            vec![Step::Send(say::header(b'C', 0x3fff_0000)), Step::HangUp],
            "length",
        ),
        (
            vec![Step::Send(say::message(b'Z', b"?")), Step::HangUp],
            "malformed",
        ),
        (
            vec![Step::Send([answer(), answer()].concat()), Step::HangUp],
            "unexpected message",
        ),
        (
            vec![
                Step::Send(say::error("FATAL", "57P01", "terminating connection")),
                Step::HangUp,
            ],
            "57P01",
        ),
        (
            vec![Step::Send(say::message(b'G', &[0, 0, 0])), Step::HangUp],
            "COPY",
        ),
    ] {
        let mut steps = vec![ask()];
        steps.extend(answer.clone());
        let result = play(steps, simple(), &transactions(3));
        assert_eq!(result.lost_count, 1, "{answer:?}: {result:?}");
        assert!(result.lost[0].reason.contains(reason), "{:?}", result.lost);
        let died = result.died.as_deref().unwrap_or_default();
        assert!(died.contains(reason), "{died}");
        assert!(result.transactions <= 1);
        if result.transactions == 0 {
            assert_eq!(result.failures.get(CONNECTION), Some(&1), "{result:?}");
        }
    }
}

#[test]
fn answers_in_drops_are_answers() {
    let one = || {
        [
            Step::ReadUntil(b'Q'),
            Step::Drip(answer(), Duration::from_micros(200)),
        ]
    };
    let notice = say::notice("by the way");
    let steps = [
        one().to_vec(),
        one().to_vec(),
        vec![Step::Send(notice)],
        one().to_vec(),
    ]
    .concat();
    let result = play(
        [steps, vec![Step::Freeze]].concat(),
        simple(),
        &transactions(3),
    );
    assert_eq!(
        (result.transactions, result.lost_count),
        (3, 0),
        "{result:?}"
    );
}

#[test]
fn a_failed_transaction_block_is_left() {
    let steps = vec![
        Step::ReadUntil(b'Q'),
        Step::Send(
            [
                say::error("ERROR", "22012", "division by zero"),
                say::ready(b'E'),
            ]
            .concat(),
        ),
        Step::ReadUntil(b'Q'), // ROLLBACK
        Step::Send([say::complete("ROLLBACK"), say::ready(b'I')].concat()),
        Step::ReadUntil(b'Q'),
        Step::Send(answer()),
        Step::Freeze,
    ];
    let result = play(steps, simple(), &transactions(2));
    assert_eq!(result.transactions, 1);
    assert_eq!(result.failures.get("22012"), Some(&1));
}

#[test]
fn a_frozen_server_can_be_left() {
    let stop = Arc::new(AtomicBool::new(false));
    let options = Options {
        stop: stop.clone(),
        ..simple()
    };
    let asked = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(400));
        stop.store(true, Ordering::Relaxed);
        Instant::now()
    });
    let steps = vec![
        Step::ReadUntil(b'Q'),
        Step::Send(answer()),
        Step::ReadUntil(b'Q'),
        Step::Freeze,
    ];
    let result = play(steps, options, &seconds(60.0));
    assert!(asked.join().unwrap().elapsed() < Duration::from_millis(500));
    assert_eq!((result.transactions, result.unfinished), (1, 1));
    assert!(result.interrupted);
    // Without a stop the slice ends when the time for answers is up.
    let options = Options {
        drain: Duration::from_millis(200),
        ..simple()
    };
    let began = Instant::now();
    let result = play(vec![Step::Freeze], options, &seconds(0.2));
    assert!(began.elapsed() < Duration::from_secs(2));
    assert_eq!((result.transactions, result.unfinished), (0, 1));
}

/// A stall of the server delays the starts meant to lie in it, and their latency says so: of 100 a
/// second over 2 s, a stall of 400 ms holds 40 back. A closed loop would see one slow answer.
#[test]
fn a_stall_shows_at_its_true_size() {
    let mut steps = Vec::new();
    for n in 0..400 {
        steps.push(Step::ReadUntil(b'Q'));
        if n == 50 {
            steps.push(Step::Sleep(Duration::from_millis(400)));
        }
        steps.push(Step::Send(answer()));
    }
    let spec = SliceSpec {
        schedule: Schedule::Paced {
            per_second: 100.0,
            gaps: Gaps::Fixed,
        },
        ..seconds(2.0)
    };
    let result = play(steps, simple(), &spec);
    assert!(
        (195..=201).contains(&result.transactions),
        "{}",
        result.transactions
    );
    let intended = &result.latency;
    assert!(intended.longest() > 380_000_000, "{}", intended.longest());
    // A fifth of the starts lay in the stall or in its making up, evenly from 0 to 400 ms.
    assert!(
        intended.percentile(90.0) > 120_000_000,
        "{}",
        intended.percentile(90.0)
    );
    let actual = result.latency_from_actual.as_ref().unwrap();
    assert!(
        actual.percentile(90.0) < 100_000_000,
        "{}",
        actual.percentile(90.0)
    );
}

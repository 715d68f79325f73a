//! However a thread's sockets are served, its clients do the same: by calls, by sends in one call, or by a
//! ring. Where the kernel refuses a ring, these hold the calls against themselves.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use pgassay_load::{Engine, Gaps, Options, Protocol, Schedule, Serving, SliceSpec};
use pgassay_pgwire::fake::{FakeServer, Step, say};

use crate::support::{Bench, bench, program, run, run_script, seconds, transactions};

const ALL: [Serving; 3] = [Serving::Calls, Serving::Together, Serving::Ring];

fn with(serving: Serving) -> Options {
    Options {
        serving,
        threads: Some(1),
        ..Options::default()
    }
}

#[test]
fn the_same_seed_gives_the_same_work() {
    let bench = bench();
    let script = "\\set x random(1, 1000000)\nINSERT INTO served VALUES (:client_id, :x);\n\\if :x % 2\nSELECT 1;\n\\endif\n";
    let mut seen = Vec::new();
    for clients in [1, 7] {
        for serving in ALL {
            bench.execute("DROP TABLE IF EXISTS served; CREATE TABLE served (client int, x int)");
            let result = run_script(
                bench.conninfo(),
                script,
                with(serving),
                clients,
                &transactions(60),
            );
            assert_eq!(result.transactions, 60 * clients as u64, "{result:?}");
            assert_eq!(result.lost_count, 0, "{result:?}");
            let rows = "SELECT count(*), md5(string_agg(client || ' ' || x, ',' ORDER BY client, x)) FROM served";
            seen.push(bench.ask(rows));
        }
        assert!(seen.iter().all(|one| *one == seen[0]), "{seen:?}");
        seen.clear();
    }
}

/// Slices end while answers are under way, some of them taken out of their sockets already. The next
/// slice reads on where the last one stopped, so every row is accounted for.
#[test]
fn what_a_slice_leaves_is_taken_up_by_the_next() {
    let bench = bench();
    // An answer of several pieces, most of which come while others are read.
    let script = "WITH one AS (INSERT INTO left_over VALUES (:client_id) RETURNING 1) SELECT n, repeat('x', 500) FROM one, generate_series(1, 100) n;\n";
    for serving in ALL {
        for clients in [1, 24] {
            bench.execute("DROP TABLE IF EXISTS left_over; CREATE TABLE left_over (client int)");
            let options = Options {
                drain: Duration::ZERO,
                ..with(serving)
            };
            let mut engine = Engine::new(bench.conninfo(), program(script), options);
            engine.resize(clients).unwrap();
            let (mut sent, mut left) = (0, 0);
            for _ in 0..25 {
                let result = run(&mut engine, &seconds(0.012));
                assert_eq!(result.lost_count, 0, "{:?}", result.lost);
                assert!(result.failures.is_empty(), "{:?}", result.failure_examples);
                sent += result.transactions_sent;
                left += u64::from(result.unfinished);
            }
            assert!(left > 0, "no slice ended with anything under way");
            // Fewer clients read on, too.
            engine.resize(clients.div_ceil(12)).unwrap();
            let result = run(&mut engine, &transactions(3));
            assert_eq!(result.lost_count, 0, "{:?}", result.lost);
            sent += result.transactions_sent;
            drop(engine);
            let rows: u64 = bench.ask("SELECT count(*) FROM left_over").parse().unwrap();
            // One that began after its client's last answer was read is not among those that are left.
            assert!(
                (sent..=sent + left).contains(&rows),
                "{serving:?}: {rows} rows, {sent} ended, {left} left"
            );
        }
    }
}

#[test]
fn one_that_dies_costs_no_other() {
    let bench = bench();
    let script = "\\if :client_id = 3\nSELECT pg_terminate_backend(pg_backend_pid());\n\\else\nSELECT 1;\n\\endif\n";
    for serving in ALL {
        let mut engine = Engine::new(bench.conninfo(), program(script), with(serving));
        engine.resize(9).unwrap();
        for round in 0..2 {
            let result = run(&mut engine, &transactions(20));
            assert_eq!(result.transactions, 8 * 20, "{serving:?} {round}");
            assert_eq!(result.lost_count, 1, "{:?}", result.lost);
            assert_eq!(result.lost[0].client, 3);
            let reason = &result.lost[0].reason;
            assert!(reason.contains("terminating connection"), "{reason}");
            assert_eq!(engine.clients(), 8);
            engine.resize(9).unwrap();
        }
    }
}

#[test]
fn a_server_that_is_killed_ends_the_slice() {
    for serving in ALL {
        let bench = Bench::launch("load-killed", &["fsync=off"]);
        let mut engine = Engine::new(bench.conninfo(), program("SELECT 1;\n"), with(serving));
        engine.resize(12).unwrap();
        let result = engine.run_slice(&seconds(30.0), &mut |edge| {
            if edge == pgassay_load::Edge::Start {
                let pids = bench.ask("SELECT string_agg(pid::text, ' ') FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()");
                for pid in pids.split(' ').filter_map(|pid| pid.parse().ok()) {
                    let pid = rustix::process::Pid::from_raw(pid).unwrap();
                    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
                }
            }
        });
        assert_eq!(result.lost_count, 12, "{serving:?} {:?}", result.lost);
        assert!(result.died.is_some());
    }
}

#[test]
fn resets_and_silence_are_told_apart() {
    let answer = [
        say::columns(&["a"]),
        say::row(&[Some("1")]),
        say::complete("SELECT 1"),
        say::ready(b'I'),
    ]
    .concat();
    let welcome = || vec![Step::ReadStartup, Step::Send(say::welcome())];
    let answers = |n: usize| {
        let one = [Step::ReadUntil(b'Q'), Step::Send(answer.clone())];
        one.iter().cloned().cycle().take(2 * n).collect::<Vec<_>>()
    };
    for serving in ALL {
        let scripts = vec![
            [welcome(), answers(5), vec![Step::Freeze]].concat(),
            [
                welcome(),
                answers(2),
                vec![Step::ReadUntil(b'Q'), Step::Reset],
            ]
            .concat(),
            [welcome(), answers(1), vec![Step::HangUp]].concat(),
            [
                welcome(),
                answers(4),
                vec![
                    Step::ReadUntil(b'Q'),
                    Step::Drip(answer.clone(), Duration::from_micros(200)),
                    Step::Freeze,
                ],
            ]
            .concat(),
        ];
        let server = FakeServer::crowd(scripts).expect("listen");
        let options = Options {
            protocol: Protocol::Simple,
            ..with(serving)
        };
        let result = run_script(
            server.conninfo(),
            "SELECT 1;\n",
            options,
            4,
            &transactions(5),
        );
        assert_eq!(result.transactions, 5 + 2 + 1 + 5, "{serving:?} {result:?}");
        assert_eq!(result.lost_count, 2, "{serving:?} {:?}", result.lost);
    }
}

/// Intended starts come on time, and a stop is heard while the ring waits.
#[test]
fn schedules_and_stops_hold() {
    let bench = bench();
    for serving in ALL {
        let mut engine = Engine::new(bench.conninfo(), program("SELECT 1;\n"), with(serving));
        engine.resize(6).unwrap();
        let spec = SliceSpec {
            schedule: Schedule::Paced {
                per_second: 400.0,
                gaps: Gaps::Fixed,
            },
            ..seconds(0.5)
        };
        let result = run(&mut engine, &spec);
        let all = result.transactions_sent + result.behind + u64::from(result.unfinished);
        assert!((198..=202).contains(&all), "{serving:?} {result:?}");

        let stop = Arc::new(AtomicBool::new(false));
        let options = Options {
            stop: stop.clone(),
            ..with(serving)
        };
        let mut engine = Engine::new(bench.conninfo(), program("SELECT pg_sleep(20);\n"), options);
        engine.resize(3).unwrap();
        let began = Instant::now();
        let result = engine.run_slice(&seconds(20.0), &mut |edge| {
            if edge == pgassay_load::Edge::Start {
                stop.store(true, std::sync::atomic::Ordering::Relaxed);
            }
        });
        assert!(result.interrupted);
        assert_eq!(result.lost_count, 0);
        assert!(began.elapsed() < Duration::from_secs(10));
    }
}

//! The engine against a real server: what it does to the database, and what it counts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pgassay_load::script::{Program, Value};
use pgassay_load::{
    Edge, Engine, Gaps, OnError, Options, Passed, Protocol, ResizeError, Schedule, SliceSpec,
};

use crate::support::{Bench, bench, program, run, run_script, seconds, transactions};

const PROTOCOLS: [Protocol; 3] = [Protocol::Simple, Protocol::Extended, Protocol::Prepared];

fn with(protocol: Protocol) -> Options {
    Options {
        protocol,
        ..Options::default()
    }
}

#[test]
fn every_transaction_that_is_counted_is_in_the_database() {
    let bench = bench();
    for protocol in PROTOCOLS {
        for (clients, threads) in [(1, 1), (5, 2)] {
            bench.execute("TRUNCATE pgbench_history");
            let before = bench.ask("SELECT sum(abalance) FROM pgbench_accounts");
            let options = Options {
                threads: Some(threads),
                ..with(protocol)
            };
            let program = Program::builtin("tpcb-like").unwrap();
            let mut engine = Engine::new(bench.conninfo(), program, options);
            engine.resize(clients).unwrap();
            let result = run(&mut engine, &transactions(40));
            let n = 40 * clients as u64;
            assert_eq!(
                (result.transactions, result.transactions_sent),
                (n, n),
                "{result:?}"
            );
            assert!(result.failures.is_empty());
            assert_eq!(
                bench.ask("SELECT count(*) FROM pgbench_history"),
                n.to_string()
            );
            let sum = format!(
                "SELECT sum(abalance) - {before} = (SELECT sum(delta) FROM pgbench_history) FROM pgbench_accounts"
            );
            assert_eq!(bench.ask(&sum), "t");
            // The first transaction of each connection is counted, and its latency kept apart.
            assert_eq!(result.first.count(), clients as u64);
            assert_eq!(result.latency.count() + result.first.count(), n);
            let calls = result.system_calls();
            // Seven statements each; those before the window is opened are not counted. A ring receives
            // without being asked.
            assert!(calls.send + calls.gathered >= 6 * n, "{calls:?}");
            assert!(
                calls.receive >= 6 * n || calls.send + calls.enter >= 6 * 40,
                "{calls:?}"
            );
        }
    }
}

#[test]
fn the_language_runs_by_every_protocol() {
    let bench = bench();
    bench.execute("DROP TABLE IF EXISTS seen; CREATE TABLE seen (what text, value text)");
    let script = r"
SELECT 7 AS a, 'it''s' AS b, NULL AS c \gset
SELECT 1 AS x UNION ALL SELECT 2 \aset last_
SELECT 5 AS gone WHERE false \aset
\set sum :a + :last_x
\if :sum = 9
  \if false
    \set branch 1
  \elif :a > 100
    \set branch 2
  \elif :a = 7
    \set branch 3
  \else
    \set branch 4
  \endif
\else
  \set branch 5
\endif
\setshell shell echo :a
\shell test :shell = 7
\sleep 2 ms
\set nothing null
\set flag :a = 7
\set third 1.0 / 3
INSERT INTO seen VALUES ('sum', :sum), ('branch', :branch), ('shell', :shell), ('b', :b),
  ('nothing', :nothing), ('flag', :flag), ('third', :third);
";
    let quoted = "INSERT INTO seen VALUES ('sum', :sum), ('branch', :branch), ('shell', :shell), ('b', :b),\n  ('nothing', :nothing), ('flag', :flag), ('third', :third);";
    for protocol in PROTOCOLS {
        bench.execute("TRUNCATE seen");
        // The simple protocol writes the text itself, the others bind texts.
        let script = if protocol == Protocol::Simple {
            script.replace(
                quoted,
                "INSERT INTO seen VALUES ('sum', :sum), ('branch', :branch), ('shell', :shell), ('b', $$:b$$), ('nothing', ':nothing'), ('flag', ':flag'), ('third', ':third')",
            )
        } else {
            script
                .replace(":nothing", ":nothing::text")
                .replace(":flag)", ":flag::text)")
        };
        let result = run_script(
            bench.conninfo(),
            &script,
            with(protocol),
            1,
            &transactions(2),
        );
        assert_eq!(result.transactions, 2, "{protocol:?} {result:?}");
        let seen = bench.ask(
            "SELECT string_agg(what || '=' || value, ' ' ORDER BY what) FROM (SELECT DISTINCT * FROM seen) s",
        );
        assert_eq!(
            seen,
            "b=it's branch=3 flag=true nothing=NULL shell=7 sum=9 third=0.333333333333333"
        );
    }
}

#[test]
fn pipelines_run_and_end_with_their_failures() {
    let bench = bench();
    bench.execute("DROP TABLE IF EXISTS piped; CREATE TABLE piped (n int)");
    let good = "\\startpipeline\nINSERT INTO piped VALUES (1);\nINSERT INTO piped VALUES (2);\n\\syncpipeline\nSELECT count(*) FROM piped;\n\\endpipeline\nINSERT INTO piped VALUES (3);\n";
    for protocol in [Protocol::Extended, Protocol::Prepared] {
        bench.execute("TRUNCATE piped");
        let result = run_script(bench.conninfo(), good, with(protocol), 3, &transactions(5));
        assert_eq!(result.transactions, 15, "{result:?}");
        assert_eq!(bench.ask("SELECT count(*) FROM piped"), "45");
    }
    let bad = "\\startpipeline\nINSERT INTO piped VALUES (1);\nSELECT 1/0;\nINSERT INTO piped VALUES (2);\n\\endpipeline\n";
    for protocol in [Protocol::Extended, Protocol::Prepared] {
        bench.execute("TRUNCATE piped");
        let result = run_script(bench.conninfo(), bad, with(protocol), 2, &transactions(3));
        assert_eq!(result.transactions, 0);
        assert_eq!(result.failures.get("22012"), Some(&6), "{result:?}");
        assert_eq!(bench.ask("SELECT count(*) FROM piped"), "0");
        assert_eq!(result.lost_count, 0);
    }
    for (text, reason) in [
        ("\\startpipeline\nSELECT 1;\n", "pipeline open"),
        ("\\endpipeline\n", "not in pipeline mode"),
        (
            "\\startpipeline\n\\startpipeline\n",
            "already in pipeline mode",
        ),
    ] {
        let result = run_script(
            bench.conninfo(),
            text,
            Options::default(),
            1,
            &transactions(1),
        );
        assert!(result.lost[0].reason.contains(reason), "{:?}", result.lost);
    }
    let result = run_script(
        bench.conninfo(),
        good,
        with(Protocol::Simple),
        1,
        &transactions(1),
    );
    assert!(
        result.lost[0].reason.contains("simple query protocol"),
        "{:?}",
        result.lost
    );
}

#[test]
fn a_failing_statement_is_counted_and_the_others_go_on() {
    let bench = bench();
    let text = "BEGIN;\nSELECT 1 / (:client_id - 1);\nEND;\n";
    for protocol in PROTOCOLS {
        let result = run_script(bench.conninfo(), text, with(protocol), 3, &transactions(10));
        assert_eq!(result.transactions, 20);
        assert_eq!(result.failures, BTreeMap::from([("22012".to_owned(), 10)]));
        assert!(result.failure_examples["22012"].contains("division by zero"));
        assert_eq!(result.lost_count, 0);
    }
    let options = Options {
        on_error: OnError::Abort,
        ..Options::default()
    };
    let result = run_script(bench.conninfo(), text, options, 3, &transactions(10));
    assert_eq!((result.transactions, result.lost_count), (20, 1));
    assert_eq!(result.failures.get("22012"), Some(&1));
    // A client whose expression has no value stops.
    let text = "\\set a 1 / (:client_id - 1)\nSELECT 1;\n";
    let result = run_script(
        bench.conninfo(),
        text,
        Options::default(),
        3,
        &transactions(10),
    );
    assert_eq!((result.transactions, result.lost_count), (20, 1));
    assert!(result.lost[0].reason.contains("division by zero"));
}

#[test]
fn conflicts_are_repeated_with_the_same_numbers() {
    let bench = bench();
    bench.execute(
        "DROP TABLE IF EXISTS counter; CREATE TABLE counter (n int); INSERT INTO counter VALUES (0)",
    );
    let text = "\\set r random(1, 1000000)\nBEGIN ISOLATION LEVEL REPEATABLE READ;\nSELECT n FROM counter \\gset\n\\sleep 1 ms\nUPDATE counter SET n = n + 1;\nEND;\n";
    let options = Options {
        max_tries: 0,
        threads: Some(2),
        ..Options::default()
    };
    let result = run_script(bench.conninfo(), text, options, 4, &transactions(20));
    assert_eq!(result.transactions, 80, "{result:?}");
    assert!(result.retries > 0 && result.retried > 0);
    assert!(result.failures.is_empty());
    assert_eq!(bench.ask("SELECT n FROM counter"), "80");
    let result = run_script(
        bench.conninfo(),
        text,
        Options::default(),
        4,
        &transactions(20),
    );
    let failed = result.failures.get("40001").copied().unwrap_or(0);
    assert!(failed > 0);
    assert_eq!(result.transactions + failed, 80);
    assert_eq!(result.lost_count, 0);
}

#[test]
fn deadlocks_are_counted_or_repeated() {
    let bench = bench();
    bench.execute(
        "DROP TABLE IF EXISTS pair; CREATE TABLE pair (k int, n int); INSERT INTO pair VALUES (1, 0), (2, 0)",
    );
    let mut conninfo = bench.conninfo();
    conninfo.options = Some("-c deadlock_timeout=10ms".to_owned());
    let update = |k: u32| format!("UPDATE pair SET n = n + 1 WHERE k = {k};\n");
    let run_opposed = |max_tries: u32| {
        let mut program = Program::new();
        for (name, first, second) in [("there", 1, 2), ("back", 2, 1)] {
            let text = format!(
                "BEGIN;\n{}\\sleep 20 ms\n{}END;\n",
                update(first),
                update(second)
            );
            program.add(name, &text, 1).unwrap();
        }
        let options = Options {
            max_tries,
            ..Options::default()
        };
        let mut engine = Engine::new(conninfo.clone(), program, options);
        engine.resize(4).unwrap();
        run(&mut engine, &transactions(10))
    };
    let result = run_opposed(1);
    let failed = result.failures.get("40P01").copied().unwrap_or(0);
    assert!(failed > 0, "{result:?}");
    assert_eq!((result.transactions + failed, result.lost_count), (40, 0));
    let result = run_opposed(0);
    assert_eq!(result.transactions, 40, "{:?}", result.failures);
    assert!(result.retries > 0 && result.failures.is_empty());
}

#[test]
fn a_window_is_bounded_by_its_edges_and_summed_by_its_intervals() {
    let bench = bench();
    let program = Program::builtin("select-only").unwrap();
    let mut engine = Engine::new(bench.conninfo(), program, Options::default());
    engine.resize(4).unwrap();
    let spec = SliceSpec {
        warmup: Duration::from_millis(100),
        interval: Some(Duration::from_millis(100)),
        tick: Some(Duration::from_millis(150)),
        follow: Some(Duration::from_millis(250)),
        ..seconds(0.6)
    };
    for keep in [1, 3] {
        let mut edges = Vec::new();
        let spec = SliceSpec { keep, ..spec };
        let result = engine.run_slice(&spec, &mut |edge| edges.push((Instant::now(), edge)));
        let start = edges.iter().find(|(_, e)| *e == Edge::Start).unwrap().0;
        let end = edges.iter().find(|(_, e)| *e == Edge::End).unwrap().0;
        let between = (end - start).as_nanos() as u64;
        assert!(
            between.abs_diff(result.window_ns) < 1_000_000_000,
            "{between} {}",
            result.window_ns
        );
        assert!(
            edges
                .iter()
                .any(|(_, e)| matches!(e, Edge::Tick(p) if p.transactions > 0))
        );
        assert!(result.transactions > 0 && result.transactions_sent > result.transactions);
        let by_interval: u64 = result.intervals.iter().map(|i| i.transactions).sum();
        assert_eq!(by_interval, result.transactions);
        let kept_ns = 100_000_000 * u64::from(keep);
        let wanted = result.window_ns.div_ceil(kept_ns);
        assert!(
            (wanted..=wanted + 1).contains(&(result.intervals.len() as u64)),
            "{} for {wanted}",
            result.intervals.len()
        );
        assert!(result.intervals.iter().all(|i| i.start_ns % kept_ns == 0));
        let latencies: u64 = result.intervals.iter().map(|i| i.latency().count()).sum();
        assert_eq!(latencies, result.latency.count());
        // Who looks on is told all of it, and how much of the window each part was.
        let passed = |of: fn(&Passed) -> u64| -> u64 {
            let parts = edges.iter().filter_map(|(_, edge)| match edge {
                Edge::Passed(passed) => Some(of(passed)),
                _ => None,
            });
            parts.sum()
        };
        assert_eq!(passed(|p| p.transactions), result.transactions);
        assert_eq!(passed(|p| p.latency.count()), result.latency.count());
        assert_eq!(passed(|p| p.covered_ns), result.window_ns);
        assert!(result.client_user_ns() + result.client_system_ns() > 0);
        assert!(result.busiest_thread_share() <= 1.1);
    }
}

#[test]
fn clients_come_and_go_between_slices() {
    let bench = bench();
    let here = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'resized'";
    let conninfo = bench.conninfo().with_application_name("resized");
    let program = Program::builtin("select-only").unwrap();
    let mut engine = Engine::new(conninfo, program, Options::default());
    for clients in [3, 8, 1, 5] {
        engine.resize(clients).unwrap();
        assert_eq!(engine.clients(), clients);
        let result = run(&mut engine, &transactions(20));
        assert_eq!(result.transactions, 20 * clients as u64);
        assert_eq!(result.lost_count, 0);
    }
    assert_eq!(engine.connects().count(), 3 + 5 + 4);
    assert_eq!(bench.ask(here), "5");
    drop(engine);
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(bench.ask(here), "0");
}

#[test]
fn a_server_that_is_full_says_how_many_got_in() {
    let bench = bench();
    let program = Program::builtin("select-only").unwrap();
    let mut engine = Engine::new(bench.conninfo(), program, Options::default());
    let error = engine.resize(100).unwrap_err();
    let ResizeError::Connect {
        reached, wanted, ..
    } = &error
    else {
        panic!("{error}")
    };
    assert_eq!(*wanted, 100);
    assert!((30..=40).contains(reached), "{reached}");
    assert!(
        error.to_string().contains("of 100 clients could connect"),
        "{error}"
    );
    // Those that are connected can be run.
    assert_eq!(engine.clients(), *reached);
    let result = run(&mut engine, &transactions(2));
    assert_eq!(result.transactions, 2 * *reached as u64);
}

#[test]
fn a_paced_load_keeps_its_rate_and_counts_from_the_intended_start() {
    let bench = bench();
    for (gaps, clients) in [(Gaps::Exponential, 4), (Gaps::Fixed, 1)] {
        let program = Program::builtin("select-only").unwrap();
        let mut engine = Engine::new(bench.conninfo(), program, Options::default());
        engine.resize(clients).unwrap();
        let spec = SliceSpec {
            schedule: Schedule::Paced {
                per_second: 300.0,
                gaps,
            },
            seed: 3,
            ..seconds(2.0)
        };
        let result = run(&mut engine, &spec);
        let rate = result.throughput();
        // 600 arrivals: four standard deviations of a Poisson count are 98.
        let slack = if gaps == Gaps::Fixed { 10.0 } else { 49.0 };
        assert!((rate - 300.0).abs() < slack, "{rate}");
        let actual = result.latency_from_actual.as_ref().unwrap();
        assert_eq!(actual.count(), result.latency.count());
        assert!(actual.percentile(50.0) <= result.latency.percentile(50.0));
    }
    // One client at 20 ms each can do 50 a second: of 200 a second most are behind.
    let text = "\\sleep 20 ms\nSELECT 1;\n";
    let spec = SliceSpec {
        schedule: Schedule::Paced {
            per_second: 200.0,
            gaps: Gaps::Fixed,
        },
        ..seconds(1.0)
    };
    let result = run_script(bench.conninfo(), text, Options::default(), 1, &spec);
    assert!(result.transactions <= 50);
    let all = result.transactions + result.behind + u64::from(result.unfinished);
    assert!((195..=205).contains(&all), "{all} {result:?}");
    assert!(result.latency.longest() > 500_000_000);
    assert!(
        result
            .latency_from_actual
            .as_ref()
            .unwrap()
            .percentile(90.0)
            < 100_000_000
    );
    // With a limit, starts that are too late are left out and counted.
    let options = Options {
        latency_limit: Some(Duration::from_millis(50)),
        ..Options::default()
    };
    let result = run_script(bench.conninfo(), text, options, 1, &spec);
    assert!(result.skipped > 100, "{}", result.skipped);
    assert!(result.latency.longest() < 200_000_000);
}

#[test]
fn a_connection_for_each_transaction() {
    let bench = bench();
    let options = Options {
        reconnect: true,
        ..Options::default()
    };
    let text = "SELECT pg_backend_pid() AS pid \\gset\nSELECT :pid + 0;\n";
    let result = run_script(bench.conninfo(), text, options, 2, &transactions(5));
    assert_eq!(result.transactions, 10, "{result:?}");
    assert_eq!(result.connects.count(), 10);
    // Histograms round to a thousandth.
    assert!(
        result.latency.mean() >= 0.99 * result.connects.mean(),
        "{result:?}"
    );
}

#[test]
fn a_stop_is_heard_within_a_tenth_of_a_second() {
    let bench = bench();
    for clients in [1, 3] {
        let stop = Arc::new(AtomicBool::new(false));
        let options = Options {
            stop: stop.clone(),
            ..Options::default()
        };
        let mut engine = Engine::new(bench.conninfo(), program("SELECT pg_sleep(3);"), options);
        engine.resize(clients).unwrap();
        let asked = std::thread::spawn({
            let stop = stop.clone();
            move || {
                std::thread::sleep(Duration::from_millis(300));
                stop.store(true, Ordering::Relaxed);
                Instant::now()
            }
        });
        let result = run(&mut engine, &seconds(20.0));
        let heard = Instant::now();
        let late = heard - asked.join().unwrap();
        assert!(late < Duration::from_millis(100), "{late:?}");
        assert!(result.interrupted);
        assert_eq!(result.unfinished, clients as u32);
        // What was left unread is read before the next slice begins.
        stop.store(false, Ordering::Relaxed);
        let result = run(&mut engine, &transactions(1));
        assert_eq!(result.transactions, clients as u64);
    }
}

#[test]
fn a_server_that_dies_leaves_what_was_measured() {
    let bench = Bench::launch("load-dies", &["fsync=off"]);
    for clients in [1, 6] {
        let program = Program::builtin("select-only").unwrap();
        let mut engine = Engine::new(bench.conninfo(), program, Options::default());
        engine.resize(clients).unwrap();
        let began = Instant::now();
        let result = engine.run_slice(&seconds(30.0), &mut |edge| {
            if edge == Edge::Start {
                std::thread::sleep(Duration::from_millis(300));
                let kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'";
                bench.execute(kill);
            }
        });
        assert!(began.elapsed() < Duration::from_secs(10));
        assert!(result.transactions > 0);
        assert!(result.window_ns > 250_000_000);
        assert_eq!(result.lost_count, clients as u32);
        let died = result.died.unwrap();
        assert!(died.contains("terminating connection"), "{died}");
        assert_eq!(engine.clients(), 0);
        // Lost clients are replaced.
        engine.resize(clients).unwrap();
        assert_eq!(
            run(&mut engine, &transactions(3)).transactions,
            3 * clients as u64
        );
    }
}

#[test]
fn statements_are_measured_one_by_one() {
    let bench = bench();
    let options = Options {
        per_statement: true,
        variables: vec![("scale".to_owned(), Value::Int(1))],
        ..Options::default()
    };
    let mut program = Program::new();
    program.add("fast", "SELECT 1;\n", 3).unwrap();
    program
        .add("slow", "\\set a 1\nSELECT pg_sleep(0.02);\nSELECT 2;\n", 1)
        .unwrap();
    let mut engine = Engine::new(bench.conninfo(), program, options);
    engine.resize(2).unwrap();
    let result = run(&mut engine, &transactions(40));
    let [fast, slow] = result.scripts.as_slice() else {
        panic!()
    };
    assert_eq!(fast.transactions + slow.transactions, 80);
    assert!(slow.transactions > 5 && fast.transactions > slow.transactions);
    assert_eq!(slow.commands.len(), 3);
    let sleep = slow.commands[1].latency.as_ref().unwrap();
    assert_eq!(sleep.count(), slow.transactions);
    assert!(sleep.percentile(50.0) >= 20_000_000);
    assert!(slow.latency.as_ref().unwrap().percentile(50.0) >= 20_000_000);
}

#[test]
fn large_replies_and_large_requests_pass() {
    let bench = bench();
    let text = "SELECT repeat('x', 3000000), generate_series(1, 3);\nSELECT length(:big) \\gset\n";
    let options = Options {
        texts: vec![("big".to_owned(), "y".repeat(2_000_000))],
        threads: Some(1),
        ..Options::default()
    };
    for clients in [1, 3] {
        let result = run_script(
            bench.conninfo(),
            text,
            options.clone(),
            clients,
            &transactions(2),
        );
        assert_eq!(result.transactions, 2 * clients as u64, "{result:?}");
    }
}

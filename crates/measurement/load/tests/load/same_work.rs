//! That the server does the same for us as for pgbench: transactions, rows and WAL per transaction,
//! for each protocol. What differs is then the client's cost and nothing else.

use std::fs;
use std::time::Duration;

use pgassay_load::script::Program;
use pgassay_load::{Engine, Options, Protocol};

use crate::support::{Bench, bench, run, transactions};

/// What the server counted: commits, rows returned, fetched, inserted, updated, and WAL records.
type Work = [i64; 6];

fn work(bench: &Bench) -> Work {
    // A session's counts are added when it ends.
    while sessions(bench.cluster.pid()) > 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    let text = bench.ask(
        "SELECT concat_ws(' ', xact_commit, tup_returned, tup_fetched, tup_inserted, tup_updated, wal_records)
         FROM pg_stat_database, pg_stat_wal WHERE datname = current_database()",
    );
    let mut numbers = text.split(' ').map(|n| n.parse().unwrap());
    std::array::from_fn(|_| numbers.next().unwrap())
}

/// The processes of a server that serve a client.
fn sessions(postmaster: u32) -> usize {
    let children = fs::read_to_string(format!("/proc/{postmaster}/task/{postmaster}/children"));
    let children = children.expect("the server runs");
    let serves = |pid: &&str| {
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline"));
        line.is_ok_and(|line| line.contains("[local]"))
    };
    children.split_whitespace().filter(serves).count()
}

fn minus(a: Work, b: Work) -> Work {
    std::array::from_fn(|i| a[i] - b[i])
}

/// The work of 300 transactions: that of 400 less that of 100, so that what a run does once falls
/// out.
fn of_300(bench: &Bench, mut drive: impl FnMut(u64)) -> Work {
    let mut sizes = [100, 400].map(|n| {
        // Index entries and dead rows are as at the beginning.
        bench.execute("TRUNCATE pgbench_history");
        bench.execute("UPDATE pgbench_branches SET bbalance = 0");
        bench.execute("VACUUM FULL pgbench_accounts");
        bench.execute("VACUUM FULL pgbench_tellers");
        bench.execute("VACUUM FULL pgbench_branches");
        bench.execute("CHECKPOINT");
        let before = work(bench);
        drive(n);
        minus(work(bench), before)
    });
    sizes.reverse();
    minus(sizes[0], sizes[1])
}

#[test]
fn the_server_does_the_same_work() {
    let bench = bench();
    let dir = std::env::temp_dir().join(format!("pga-work-{}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    for (protocol, name, builtin) in [
        (Protocol::Simple, "simple", "tpcb-like"),
        (Protocol::Extended, "extended", "tpcb-like"),
        (Protocol::Prepared, "prepared", "tpcb-like"),
        (Protocol::Prepared, "prepared", "select-only"),
    ] {
        let text = pgassay_load::script::find_builtin(builtin).unwrap().text;
        let file = dir.join("script.sql");
        fs::write(&file, text).unwrap();
        let file = file.to_str().unwrap();
        let theirs = of_300(&bench, |n| {
            bench.pgbench(&[
                "-n",
                "-f",
                file,
                "-M",
                name,
                "-t",
                &n.to_string(),
                "--random-seed=5",
            ]);
        });
        let ours = of_300(&bench, |n| {
            let mut program = Program::new();
            program.add("script", text, 1).unwrap();
            let options = Options {
                protocol,
                ..Options::default()
            };
            let mut engine = Engine::new(bench.conninfo(), program, options);
            engine.resize(1).unwrap();
            let mut spec = transactions(n);
            spec.seed = 5;
            assert_eq!(run(&mut engine, &spec).transactions, n);
        });
        let chance = if builtin == "tpcb-like" { 2 } else { 20 };
        // Asking for the counts is a little work as well, the same for both.
        let near = |a: i64, b: i64, slack: i64| a.abs_diff(b) <= slack as u64;
        for (what, i, slack) in [
            ("transactions", 0, 3),
            ("rows inserted", 3, 0),
            ("rows updated", 4, 0),
            ("rows fetched", 2, theirs[2] / 100 + 30),
            // When old versions of the few branches are pruned is a matter of chance and of what
            // else the machine does; where nothing is written nothing is left to chance.
            ("rows returned", 1, theirs[1] / chance + 30),
            ("WAL records", 5, theirs[5] / chance + 30),
        ] {
            assert!(
                near(ours[i], theirs[i], slack),
                "{what}, {name} {builtin}: ours {ours:?} theirs {theirs:?}"
            );
        }
        if builtin == "tpcb-like" {
            assert_eq!((ours[3], ours[4]), (300, 900));
        }
        assert!(ours[0] >= 300);
    }
    fs::remove_dir_all(&dir).unwrap();
}

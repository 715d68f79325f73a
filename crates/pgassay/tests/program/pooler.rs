//! Commands that write refuse a pooler; those that may use one leave nothing in its connections.

use pgassay_pgwire::Session;

use crate::pg_support::pooler::{Pooler, server};
use crate::runs::{Runs, text};

/// Attack D3: `--load` through a pooler in transaction mode left its search_path, its lock and other
/// settings in the connections that other clients were given next.
#[test]
fn load_through_a_pooler_is_refused_and_leaves_nothing() {
    let server = server();
    server.run("grant create on database postgres to alice");
    for mode in ["transaction", "session"] {
        let pooler = Pooler::start(&server, mode, "");
        let runs = Runs::new(&format!("pgbouncer-{mode}"));
        let uri = format!(
            "postgres://alice:geheim@127.0.0.1:{}/postgres?connect_timeout=8",
            pooler.port
        );
        let commands: &[&[&str]] = &[
            &["assay", &uri, "--load", "--quick"],
            &["run", "select-only", &uri, "--load"],
            &["run", "pgio", &uri, "--load"],
            &["run", "scattered-read", &uri, "--load"],
            &["compare", &uri, &uri, "--load"],
        ];
        for args in commands {
            let output = runs.run(args);
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(3), "{mode} {args:?}: {said}");
            assert!(said.contains("pooler"), "{mode} {args:?}: {said}");
            assert!(said.contains("server itself"), "{mode} {args:?}: {said}");
        }
        let mut next = pooler
            .connect("alice", "geheim", "postgres")
            .expect("connect");
        let left = next.rows(
            "select current_setting('search_path') as path, \
                    current_setting('client_connection_check_interval') as watch, \
                    (select count(*) from pg_locks where locktype = 'advisory') as locks, \
                    (select count(*) from pg_namespace where nspname = 'pgassay') as schemas",
        );
        let left = left.expect("query").rows;
        let as_before = ["\"$user\", public", "0", "0", "0"].map(|v| Some(v.to_owned()));
        assert_eq!(left, [as_before], "{mode}");
    }
}

/// Attack D3: `pgbench -i`, too, set synchronous_commit for whoever came next.
#[test]
fn filling_tables_through_a_pooler_leaves_no_setting() {
    let server = server();
    server.run("grant create on schema public to alice");
    let pooler = Pooler::start(&server, "transaction", "");
    let runs = Runs::new("pgbouncer-init");
    let uri = format!("postgres://alice:geheim@127.0.0.1:{}/postgres", pooler.port);
    let output = runs.run(&["pgbench", "-i", "-q", &uri]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    // Both connections of the pool, held by a transaction each.
    let mut clients: Vec<Session> = (0..2)
        .map(|_| {
            pooler
                .connect("alice", "geheim", "postgres")
                .expect("connect")
        })
        .collect();
    for client in &mut clients {
        client.execute("begin").expect("begin");
        let set = client.value("show synchronous_commit").expect("query");
        assert_eq!(set.as_deref(), Some("on"));
    }
}

/// Questions that are asked again are prepared where that is the session's own; a pool's connections are others'.
#[test]
fn watching_through_a_pooler_leaves_nothing_prepared() {
    let server = server();
    let pooler = Pooler::start(&server, "transaction", "");
    let runs = Runs::new("pgbouncer-watch");
    let uri = format!("postgres://alice:geheim@127.0.0.1:{}/postgres", pooler.port);
    let output = runs.run(&["watch", &uri, "--time", "1", "--count", "1"]);
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    // Both connections of the pool, held by a transaction each.
    let mut clients = [(); 2].map(|()| {
        let connected = pooler.connect("alice", "geheim", "postgres");
        connected.expect("connect")
    });
    for client in &mut clients {
        client.execute("begin").expect("begin");
        let kept = client
            .value("select coalesce(string_agg(name, chr(10)), $$$$) from pg_prepared_statements");
        assert_eq!(kept.expect("query").as_deref(), Some(""));
    }
}

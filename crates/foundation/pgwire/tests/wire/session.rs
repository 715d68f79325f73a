//! Sessions with a real server: queries, errors, COPY, cancelling, the bare
//! transport.

use crate::support::Server;
use pgassay_pgwire::{Connector, QueryError, Session, TransactionStatus, connect};
use std::io::Write;
use std::time::{Duration, Instant};

const TRUST: &str = "local all all trust\nhost all all 127.0.0.1/32 trust\n";

fn start() -> Server {
    Server::start(TRUST, &[("max_connections", "60")], |_| {})
}

fn session(server: &Server) -> Session {
    connect(&server.owner()).expect("connect")
}

#[test]
fn queries_return_what_the_server_says() {
    let server = start();
    let mut session = session(&server);
    let results = session
        .query(
            "select 1 as a, null as b, 'ü' as c; create temp table t (i int); \
             insert into t values (1),(2); ;",
        )
        .expect("query");
    assert_eq!(results[0].columns, ["a", "b", "c"]);
    assert_eq!(
        results[0].rows,
        [[Some("1".to_owned()), None, Some("ü".to_owned())]]
    );
    assert_eq!(results[0].first("c"), Some("ü"));
    assert_eq!(results[0].first("b"), None);
    let tags: Vec<&str> = results.iter().map(|result| result.tag.as_str()).collect();
    assert_eq!(tags, ["SELECT 1", "CREATE TABLE", "INSERT 0 2"]);
    assert_eq!(results[2].affected(), Some(2));
    assert_eq!(session.query("").expect("empty").len(), 1);
    assert!(
        session
            .parameter("server_version")
            .expect("version")
            .starts_with(char::is_numeric)
    );
    let pid = session.value("select pg_backend_pid()").expect("pid");
    assert_eq!(pid, Some(session.backend_pid().to_string()));
    assert_eq!(session.peer_pid(), Some(server.pid()));
    assert_eq!(session.tls(), None);
    session
        .execute("set application_name = 'renamed'")
        .expect("set");
    assert_eq!(session.parameter("application_name"), Some("renamed"));
    session
        .execute("do $$ begin raise notice 'hello'; end $$")
        .expect("do");
    assert_eq!(session.take_notices()[0].message, "hello");
    assert!(session.take_notices().is_empty());
}

#[test]
fn errors_carry_the_servers_fields_and_leave_the_session_usable() {
    let server = start();
    let mut session = session(&server);
    let error = session.query("select 1; selec 2").expect_err("syntax");
    let QueryError::Server(fields) = &error else {
        panic!("{error:?}")
    };
    assert_eq!(
        (fields.severity.as_str(), fields.sqlstate.as_str()),
        ("ERROR", "42601")
    );
    assert_eq!(fields.position, Some(11));
    assert!(!error.is_fatal());

    let raise = "do $$ begin raise exception 'm' using errcode = 'P0042', detail = 'd', \
                 hint = 'h'; end $$";
    let error = session.query(raise).expect_err("raised");
    let fields = error.server().expect("fields");
    assert_eq!(fields.detail.as_deref(), Some("d"));
    assert_eq!(fields.hint.as_deref(), Some("h"));
    assert_eq!(error.sqlstate(), Some("P0042"));
    assert!(
        fields
            .context
            .as_deref()
            .expect("context")
            .contains("RAISE")
    );

    session.execute("begin").expect("begin");
    assert_eq!(session.transaction_status(), TransactionStatus::Open);
    session.query("select 1/0").expect_err("division");
    assert_eq!(session.transaction_status(), TransactionStatus::Failed);
    session.execute("rollback").expect("rollback");
    assert_eq!(session.transaction_status(), TransactionStatus::Idle);

    for copy in ["copy (select 1) to stdout", "copy pg_class from stdin"] {
        session.query(copy).expect_err(copy);
        assert_eq!(
            session.value("select 1").expect("still usable").as_deref(),
            Some("1")
        );
    }
    assert!(matches!(
        session.query("select '\0'"),
        Err(QueryError::Misused(_))
    ));
    assert_eq!(
        session.value("select 2").expect("still usable").as_deref(),
        Some("2")
    );
}

#[test]
fn copy_takes_rows_in_and_says_early_what_is_wrong() {
    let server = start();
    let mut session = session(&server);
    session
        .execute("create table t (i int primary key, x text)")
        .expect("create");
    let mut copy = session.copy_in("copy t from stdin").expect("copy");
    for i in 0..100_000 {
        writeln!(copy, "{i}\tabc").expect("write");
    }
    assert_eq!(copy.finish().expect("finish"), 100_000);
    let count = session.value("select count(*) from t").expect("count");
    assert_eq!(count.as_deref(), Some("100000"));

    // Dropped before its end, a copy leaves nothing.
    let mut copy = session.copy_in("copy t from stdin").expect("copy");
    copy.put(b"-1\tabc\n").expect("put");
    drop(copy);
    let count = session.value("select count(*) from t").expect("count");
    assert_eq!(count.as_deref(), Some("100000"));

    // A bad first row stops a long copy long before its end.
    let mut copy = session.copy_in("copy t from stdin").expect("copy");
    let mut sent = 0;
    let error = loop {
        match copy.put(&b"no number\tabc\n".repeat(1000)) {
            Ok(()) => sent += 1,
            Err(error) => break error,
        }
        assert!(sent < 100_000, "nobody said that the first row is bad");
    };
    assert_eq!(error.sqlstate(), Some("22P02"));
    drop(copy);
    let error = session
        .copy_in("copy nowhere from stdin")
        .map(drop)
        .expect_err("no table");
    assert_eq!(error.sqlstate(), Some("42P01"));
    let error = session.copy_in("select 1").map(drop).expect_err("no copy");
    assert!(matches!(error, QueryError::Misused(_)), "{error:?}");
    assert_eq!(
        session.value("select 1").expect("still usable").as_deref(),
        Some("1")
    );
}

#[test]
fn a_statement_is_cancelled_from_another_thread() {
    let server = start();
    for mut session in [session(&server), server.try_tcp("").expect("tcp")] {
        let key = session.cancel_key();
        let canceller = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(200));
            key.cancel(Duration::from_secs(5))
        });
        let began = Instant::now();
        let error = session.query("select pg_sleep(30)").expect_err("cancelled");
        assert_eq!(error.sqlstate(), Some("57014"));
        assert!(began.elapsed() < Duration::from_secs(20));
        canceller.join().expect("thread").expect("cancel");
        assert_eq!(
            session.value("select 1").expect("still usable").as_deref(),
            Some("1")
        );
    }
}

#[test]
fn the_bare_transport_serves_an_edge_triggered_loop() {
    let server = start();
    for session in [session(&server), server.try_tcp("").expect("tcp")] {
        let pid = session.backend_pid();
        let raw = session.into_transport().expect("transport");
        assert_eq!(raw.backend_pid, pid);
        crate::raw::ping_pong(raw);
    }
}

#[test]
fn dropped_sessions_leave_no_backend_and_no_descriptor() {
    let server = start();
    let open = || std::fs::read_dir("/proc/self/fd").expect("fds").count();
    let mut watcher = session(&server);
    let count = "select count(*) from pg_stat_activity where backend_type = 'client backend'";
    let connector = Connector::new(&server.owner());
    let before = open();
    for _ in 0..20 {
        let sessions: Vec<_> = (0..20)
            .map(|_| connector.connect().expect("connect"))
            .collect();
        drop(sessions);
        let give_up = Instant::now() + Duration::from_secs(10);
        while watcher.value(count).expect("count").as_deref() != Some("1") {
            assert!(Instant::now() < give_up, "backends stay");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    // Other tests of this process open and close too; 400 leaks would show.
    assert!(open() < before + 100);
}

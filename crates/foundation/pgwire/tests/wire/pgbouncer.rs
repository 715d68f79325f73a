//! PgBouncer (the distribution's package) in front of a real server.

use crate::support::pooler::{Pooler, server};
use pgassay_pgwire::{ConnectError, Session};
use std::time::Duration;

fn backend(session: &mut Session) -> String {
    session
        .value("select pg_backend_pid()")
        .expect("query")
        .expect("a pid")
}

#[test]
fn in_session_mode_a_session_keeps_its_backend() {
    let server = server();
    let pooler = Pooler::start(&server, "session", "");
    let mut session = pooler
        .connect("alice", "geheim", "postgres")
        .expect("connect");
    assert!(session.parameter("server_version").is_some());
    session
        .execute("create temp table t (i int)")
        .expect("create");
    let mut copy = session.copy_in("copy t from stdin").expect("copy");
    copy.put(&b"1\n".repeat(50_000)).expect("put");
    assert_eq!(copy.finish().expect("finish"), 50_000);
    let mut other = pooler
        .connect("alice", "geheim", "postgres")
        .expect("connect");
    assert_ne!(backend(&mut session), backend(&mut other));

    let key = session.cancel_key();
    let canceller = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        key.cancel(Duration::from_secs(5))
    });
    let error = session.query("select pg_sleep(20)").expect_err("cancelled");
    assert_eq!(error.sqlstate(), Some("57014"), "{error}");
    canceller.join().expect("thread").expect("cancel");
    crate::raw::ping_pong(session.into_transport().expect("transport"));
}

#[test]
fn in_transaction_mode_many_sessions_share_few_backends() {
    let server = server();
    let pooler = Pooler::start(&server, "transaction", "");
    let mut sessions: Vec<Session> = (0..10)
        .map(|_| {
            pooler
                .connect("alice", "geheim", "postgres")
                .expect("connect")
        })
        .collect();
    let mut backends: Vec<String> = sessions.iter_mut().map(backend).collect();
    backends.sort();
    backends.dedup();
    assert!(backends.len() <= 2, "{backends:?}");
    for session in &mut sessions {
        let results = session
            .query("begin; select 1; commit")
            .expect("transaction");
        assert_eq!(results.len(), 3);
    }
}

#[test]
fn what_a_pooler_refuses_has_its_own_kind() {
    let server = server();
    let pooler = Pooler::start(&server, "session", "max_client_conn = 3");
    let wrong = pooler.connect("alice", "wrong", "postgres");
    assert!(matches!(wrong, Err(ConnectError::Auth { .. })), "{wrong:?}");
    let stranger = pooler.connect("bob", "geheim", "postgres");
    assert!(
        matches!(stranger, Err(ConnectError::Auth { .. })),
        "{stranger:?}"
    );
    let nowhere = pooler.connect("alice", "geheim", "nowhere");
    assert!(
        matches!(nowhere, Err(ConnectError::NoDatabase { .. })),
        "{nowhere:?}"
    );
    let dead = pooler.connect("alice", "geheim", "dead");
    assert!(dead.is_err(), "{dead:?}");
    let mut held = Vec::new();
    let error = loop {
        match pooler.connect("alice", "geheim", "postgres") {
            Ok(session) => held.push(session),
            Err(error) => break error,
        }
        assert!(held.len() < 10);
    };
    assert!(
        matches!(error, ConnectError::TooManyConnections { .. }),
        "{error:?}"
    );
}

//! Sessions with a real server: queries, errors, COPY, cancelling, the bare
//! transport.

mod pg_support;

use pg_support::{OWNER, Server};
use pgassay::pg::{ConnectError, QueryError, Session, TransactionStatus, connect};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

const TRUST: &str = "local all all trust\nhost all all 127.0.0.1/32 trust\n";

fn with_server(body: impl FnOnce(&Server)) {
    let server = Server::start(TRUST, &[("max_connections", "20")], |_| {});
    body(&server);
}

fn session(server: &Server) -> Session {
    connect(&server.owner()).expect("connect")
}

#[test]
fn queries_return_what_the_server_says() {
    with_server(|server| {
        let mut session = session(server);
        let results = session
            .query("select 1 as a, null as b, 'ü' as c; create temp table t (i int); insert into t values (1),(2); ;")
            .expect("query");
        assert_eq!(results[0].columns, ["a", "b", "c"]);
        assert_eq!(
            results[0].rows,
            [[Some("1".to_owned()), None, Some("ü".to_owned())]]
        );
        assert_eq!(results[0].first("c"), Some("ü"));
        let tags: Vec<&str> = results.iter().map(|result| result.tag.as_str()).collect();
        assert_eq!(tags[..3], ["SELECT 1", "CREATE TABLE", "INSERT 0 2"]);
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
        session
            .execute("set application_name = 'renamed'")
            .expect("set");
        assert_eq!(session.parameter("application_name"), Some("renamed"));
        session
            .execute("do $$ begin raise notice 'hello'; end $$")
            .expect("do");
        assert_eq!(session.take_notices()[0].message, "hello");
    });
}

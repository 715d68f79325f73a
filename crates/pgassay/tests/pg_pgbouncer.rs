//! PgBouncer (the distribution's package) in front of a real server.

mod pg_support;

use pg_support::{Pretend, Server, command, free_port, give};
use pgassay::pg::{ConnectError, Conninfo, Session, connect};
use std::fs;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

const HBA: &str = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n";

/// PgBouncer on a free port, in one pool mode.
struct Pooler {
    port: u16,
    child: Child,
}

impl Pooler {
    fn start(server: &Server, mode: &str, more: &str) -> Pooler {
        let port = free_port();
        let dir = server.dir.join(format!("pgbouncer-{mode}-{port}"));
        fs::create_dir(&dir).expect("directory");
        give(&dir);
        let users = dir.join("users.txt");
        fs::write(&users, "\"alice\" \"geheim\"\n").expect("users");
        give(&users);
        let ini = dir.join("pgbouncer.ini");
        let text = format!(
            "[databases]\npostgres = host=127.0.0.1 port={} dbname=postgres\n\
             dead = host=127.0.0.1 port=1 dbname=postgres\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
             auth_type = scram-sha-256\nauth_file = {}\npool_mode = {mode}\n\
             default_pool_size = 2\nserver_login_retry = 1\nquery_wait_timeout = 3\n{more}\n",
            server.port,
            users.display(),
        );
        fs::write(&ini, text).expect("ini");
        give(&ini);
        let log = fs::File::create(dir.join("log")).expect("log");
        let child = command("/usr/sbin/pgbouncer")
            .arg(&ini)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("PgBouncer is not installed: apt-get install pgbouncer");
        let pooler = Pooler { port, child };
        let give_up = Instant::now() + Duration::from_secs(20);
        while matches!(
            pooler.connect("alice", "geheim", "postgres"),
            Err(ConnectError::Refused { .. })
        ) {
            let log = fs::read_to_string(dir.join("log")).unwrap_or_default();
            assert!(Instant::now() < give_up, "PgBouncer does not start: {log}");
            std::thread::sleep(Duration::from_millis(20));
        }
        pooler
    }

    fn connect(&self, user: &str, password: &str, dbname: &str) -> Result<Session, ConnectError> {
        let text = format!(
            "postgres://{user}:{password}@127.0.0.1:{}/{dbname}?connect_timeout=8",
            self.port
        );
        connect(&Conninfo::parse_in(&text, &Pretend::default()).expect("parse"))
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn server() -> Server {
    let server = Server::start(HBA, &[], |_| {});
    server.run("create role alice login password 'geheim'");
    server
}

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
    pg_support::raw::ping_pong(session.into_transport().expect("transport"));
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

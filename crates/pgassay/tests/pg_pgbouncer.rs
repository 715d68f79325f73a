//! PgBouncer (the distribution's package) in front of a real server.

mod pg_support;
mod program;

use pg_support::{Pretend, Server, command, free_port, give};
use pgassay_pgwire::{ConnectError, Conninfo, Session, connect};
use program::{Runs, text};
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

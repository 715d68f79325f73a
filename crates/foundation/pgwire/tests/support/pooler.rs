//! PgBouncer (the distribution's package) in front of a server.

use super::{Pretend, Server, command, free_port, give};
use pgassay_pgwire::{ConnectError, Conninfo, Session, connect};
use std::fs;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

const HBA: &str = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n";

/// PgBouncer on a free port, in one pool mode.
pub struct Pooler {
    pub port: u16,
    child: Child,
}

impl Pooler {
    pub fn start(server: &Server, mode: &str, more: &str) -> Pooler {
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

    pub fn connect(
        &self,
        user: &str,
        password: &str,
        dbname: &str,
    ) -> Result<Session, ConnectError> {
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

/// A server with a role that has a password.
pub fn server() -> Server {
    let server = Server::start(HBA, &[], |_| {});
    server.run("create role alice login password 'geheim'");
    server
}

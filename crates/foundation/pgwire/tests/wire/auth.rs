//! Every way by which a real server asks who we are, and what it says when the
//! answer is wrong.

use crate::support::{OWNER, Pretend, Server, private_dir};
use pgassay_pgwire::{ConnectError, Conninfo, QueryError, connect};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

/// The role decides the method.
const HBA: &str = "\
local all all trust
host all trusted 127.0.0.1/32 trust
host all md5er 127.0.0.1/32 md5
host all plain 127.0.0.1/32 password
host all scrammer 127.0.0.1/32 scram-sha-256
host all rejected 127.0.0.1/32 reject
host all kerberos 127.0.0.1/32 gss include_realm=0
";

const ROLES: &str = "\
create role trusted login;
set password_encryption = 'md5'; create role md5er login password 'geheim';
set password_encryption = 'scram-sha-256';
create role plain login password 'geheim';
create role scrammer login password 'gehéim ''quote';
create role rejected login; create role kerberos login; create role stranger login;";

fn start() -> Server {
    let server = Server::start(
        HBA,
        &[
            ("max_connections", "6"),
            ("superuser_reserved_connections", "1"),
        ],
        |_| {},
    );
    server.run(ROLES);
    server
}

fn auth_error(server: &Server, text: &str) -> String {
    match server.try_tcp(text) {
        Err(error @ ConnectError::Auth { .. }) => error.to_string(),
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn each_method_lets_the_right_password_in_and_the_wrong_one_out() {
    let server = start();
    let scram_password = r"password='gehéim \'quote'";
    for (user, password) in [
        ("trusted", ""),
        ("md5er", "password=geheim"),
        ("plain", "password=geheim"),
        ("scrammer", scram_password),
    ] {
        let text = format!("user={user} {password} sslmode=disable");
        let mut session = server.try_tcp(&text).expect(user);
        assert_eq!(
            session
                .value("select current_user")
                .expect("query")
                .as_deref(),
            Some(user)
        );
        if user != "trusted" {
            let wrong = auth_error(&server, &format!("user={user} password=wr0ng"));
            assert!(wrong.contains("password authentication failed"), "{wrong}");
            assert!(!wrong.contains("wr0ng"), "{wrong}");
            let none = auth_error(&server, &format!("user={user}"));
            assert!(none.contains("PGPASSWORD"), "{none}");
        }
    }

    for (user, part) in [
        ("rejected", "pg_hba.conf"),
        ("stranger", "pg_hba.conf"),
        ("kerberos", "Kerberos"),
    ] {
        let message = auth_error(&server, &format!("user={user} password=x"));
        assert!(message.contains(part), "{message}");
    }

    // require_auth and channel_binding hold where the server would be content with less.
    let message = auth_error(&server, "user=trusted require_auth=scram-sha-256");
    assert!(message.contains("no authentication at all"), "{message}");
    let message = auth_error(&server, "user=plain password=geheim require_auth=!password");
    assert!(message.contains("clear text"), "{message}");
    let message = auth_error(
        &server,
        "user=md5er password=geheim require_auth=scram-sha-256",
    );
    assert!(message.contains("MD5"), "{message}");
    server
        .try_tcp("user=trusted require_auth=none")
        .expect("none");
    server
        .try_tcp("user=md5er password=geheim require_auth=md5,password")
        .expect("md5");
    let message = auth_error(
        &server,
        &format!("user=scrammer {scram_password} channel_binding=require"),
    );
    assert!(message.contains("channel_binding=require"), "{message}");

    // The password file stands in for a password, if nobody else can read it.
    let home = private_dir("/tmp/pga-testhome");
    let pgpass = home.join(".pgpass");
    fs::write(
        &pgpass,
        format!("# a comment\n127.0.0.1:{}:*:md5er:geheim\n", server.port),
    )
    .expect("pgpass");
    let mut around = Pretend {
        real_dirs: vec![home.clone()],
        ..Pretend::default()
    };
    around
        .vars
        .insert("HOME".into(), home.to_str().expect("UTF-8").into());
    let text = format!("postgres://md5er@127.0.0.1:{}/postgres", server.port);
    fs::set_permissions(&pgpass, fs::Permissions::from_mode(0o600)).expect("chmod");
    connect(&Conninfo::parse_in(&text, &around).expect("parse")).expect("pgpass");
    fs::set_permissions(&pgpass, fs::Permissions::from_mode(0o640)).expect("chmod");
    let conninfo = Conninfo::parse_in(&text, &around).expect("parse");
    assert!(
        conninfo.warnings[0].contains("chmod 600"),
        "{:?}",
        conninfo.warnings
    );
    assert!(matches!(connect(&conninfo), Err(ConnectError::Auth { .. })));
    fs::remove_dir_all(&home).expect("cleanup");
}

#[test]
fn what_a_server_refuses_has_its_own_kind() {
    let server = start();
    match server.try_tcp("user=trusted dbname=nowhere") {
        Err(error @ ConnectError::NoDatabase { .. }) => {
            assert!(error.to_string().contains("nowhere"), "{error}");
        }
        other => panic!("{other:?}"),
    }
    let mut sessions = Vec::new();
    let error = loop {
        match server.try_tcp("user=trusted") {
            Ok(session) => sessions.push(session),
            Err(error) => break error,
        }
        assert!(sessions.len() < 20, "max_connections does not hold");
    };
    assert!(
        matches!(error, ConnectError::TooManyConnections { .. }),
        "{error:?}"
    );
    assert!(
        error.is_transient() && error.to_string().contains("max_connections"),
        "{error}"
    );
    drop(sessions);

    // Nobody there, no such socket, a path that is too long, a wrong name.
    let port = crate::support::free_port();
    let nobody = Conninfo::parse_in(&format!("host=127.0.0.1 port={port}"), &Pretend::default());
    assert!(matches!(
        connect(&nobody.expect("parse")),
        Err(ConnectError::Refused { .. })
    ));
    let dir = server.socket_dir.to_str().expect("UTF-8");
    let missing = Conninfo::on_socket(dir, 1, OWNER, "postgres");
    assert!(matches!(
        connect(&missing),
        Err(ConnectError::NotFound { .. })
    ));
    let long = Conninfo::on_socket(&format!("/{}", "x".repeat(120)), 5432, OWNER, "postgres");
    let message = connect(&long).expect_err("too long").to_string();
    assert!(message.contains("107"), "{message}");
    let unknown = Conninfo::parse_in("host=no-such-host.invalid", &Pretend::default());
    assert!(matches!(
        connect(&unknown.expect("parse")),
        Err(ConnectError::NotFound { .. })
    ));
}

#[test]
fn several_hosts_and_what_they_are() {
    let server = start();
    let dead = crate::support::free_port();
    let list = |ports: &str, more: &str| {
        let text =
            format!("host=127.0.0.1,127.0.0.1 port={ports} user=trusted dbname=postgres {more}");
        connect(&Conninfo::parse_in(&text, &Pretend::default()).expect("parse"))
    };
    let live = server.port;
    let session = list(&format!("{dead},{live}"), "").expect("the second answers");
    assert_eq!(session.server(), format!("127.0.0.1 port {live}"));
    list(&format!("{dead},{live}"), "load_balance_hosts=random").expect("in any order");
    match list(&format!("{dead},{dead}"), "") {
        Err(ConnectError::All(errors)) => assert_eq!(errors.len(), 2),
        other => panic!("{other:?}"),
    }
    for (attrs, fits) in [
        ("any", true),
        ("read-write", true),
        ("primary", true),
        ("read-only", false),
        ("standby", false),
        ("prefer-standby", true),
    ] {
        match list(
            &format!("{live},{live}"),
            &format!("target_session_attrs={attrs}"),
        ) {
            Ok(_) => assert!(fits, "{attrs}"),
            Err(ConnectError::All(errors)) => {
                assert!(!fits, "{attrs}");
                assert!(
                    errors
                        .iter()
                        .all(|e| matches!(e, ConnectError::WrongSessionAttrs { .. }))
                );
            }
            Err(error) => panic!("{attrs}: {error:?}"),
        }
    }
    server.run("alter database postgres set default_transaction_read_only = on");
    list(&format!("{live},{live}"), "target_session_attrs=read-only").expect("now read-only");
    // A wrong answer to the password ends the search.
    let text = format!(
        "host=127.0.0.1,127.0.0.1 port={live},{live} user=md5er password=wrong dbname=postgres"
    );
    let refused = connect(&Conninfo::parse_in(&text, &Pretend::default()).expect("parse"));
    assert!(
        matches!(refused, Err(ConnectError::Auth { .. })),
        "{refused:?}"
    );
}

#[test]
fn a_frozen_server_is_a_timeout_and_a_stopped_one_says_why() {
    let server = start();
    let mut session = server.try_tcp("user=trusted").expect("connect");
    server.signal(rustix::process::Signal::STOP);
    let frozen = server.try_tcp("user=trusted connect_timeout=1");
    server.signal(rustix::process::Signal::CONT);
    assert!(
        matches!(frozen, Err(ConnectError::Timeout { .. })),
        "{frozen:?}"
    );

    session.set_read_timeout(Some(Duration::from_millis(100)));
    let late = session.query("select pg_sleep(5)");
    assert!(matches!(late, Err(QueryError::Timeout(_))), "{late:?}");
    assert!(matches!(
        session.query("select 1"),
        Err(QueryError::Lost { .. })
    ));

    let mut idle = server.try_tcp("user=trusted").expect("connect");
    server.signal(rustix::process::Signal::INT);
    std::thread::sleep(Duration::from_millis(500));
    match idle.query("select 1") {
        Err(QueryError::Closed(Some(error))) => assert_eq!(error.sqlstate, "57P01"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_standby_and_its_primary_are_told_apart() {
    let hba = format!("{HBA}local replication all trust\n");
    let primary = Server::start(
        &hba,
        &[("max_wal_senders", "2"), ("wal_level", "replica")],
        |_| {},
    );
    primary.run(ROLES);
    let standby = primary.standby();
    let mut wal = connect(&primary.owner()).expect("primary");
    let flushed = wal
        .value("select pg_current_wal_flush_lsn()")
        .expect("lsn")
        .expect("lsn");
    let arrived = format!("select pg_last_wal_replay_lsn() >= '{flushed}'");
    let give_up = Instant::now() + Duration::from_secs(30);
    while connect(&standby.owner())
        .expect("standby")
        .value(&arrived)
        .expect("lsn")
        .as_deref()
        != Some("t")
    {
        assert!(Instant::now() < give_up, "the standby does not follow");
        std::thread::sleep(Duration::from_millis(20));
    }
    let (p, s) = (primary.port, standby.port);
    for (attrs, found) in [
        ("primary", p),
        ("read-write", p),
        ("standby", s),
        ("read-only", s),
        ("prefer-standby", s),
    ] {
        for ports in [format!("{p},{s}"), format!("{s},{p}")] {
            let text = format!(
                "host=127.0.0.1,127.0.0.1 port={ports} user=trusted dbname=postgres \
                 target_session_attrs={attrs}"
            );
            let conninfo = Conninfo::parse_in(&text, &Pretend::default()).expect("parse");
            let session = connect(&conninfo).expect(attrs);
            assert_eq!(session.server(), format!("127.0.0.1 port {}", found));
        }
    }
}

#[test]
fn an_iteration_count_that_the_library_refuses_is_said() {
    let server = start();
    server.run("set password_encryption = 'scram-sha-256'; alter role plain password 'geheim'");
    let mut owner = connect(&server.owner()).expect("owner");
    let verifier = owner.value("select rolpassword from pg_authid where rolname = 'plain'");
    let verifier = verifier.expect("query").expect("a verifier");
    let slower = verifier.replacen("$4096:", "$100001:", 1);
    assert_ne!(slower, verifier);
    owner
        .execute(&format!("alter role scrammer password '{slower}'"))
        .expect("alter");
    let message = auth_error(&server, "user=scrammer password=geheim");
    assert!(message.contains("iteration count"), "{message}");
}

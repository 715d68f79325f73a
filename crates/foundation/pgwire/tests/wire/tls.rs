//! TLS with a real server, held against psql: for each kind of certificate,
//! sslmode and root file both must come to the same end.

use crate::support::certificates::{Certificates, EC, RSA, Signed};
use crate::support::{Server, private_dir};
use pgassay_pgwire::{ConnectError, connect};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{Duration, Instant};

const HBA: &str = "\
local all all trust
hostssl all with_cert 127.0.0.1/32 cert
hostssl all scrammer 127.0.0.1/32 scram-sha-256
hostnossl all without 127.0.0.1/32 trust
hostssl all only_with 127.0.0.1/32 trust
host all trusted 127.0.0.1/32 trust
";

const ROLES: &str = "\
create role with_cert login; create role scrammer login password 'geheim';
create role without login; create role only_with login; create role trusted login;";

/// Certificates that the server shows in turn: those with what is common to
/// them are told apart by name.
const SERVER_CERTIFICATES: &[&str] = &[
    "ordinary",
    "version1",
    "selfsigned",
    "wildcard",
    "common_name",
    "address",
    "rsa512",
    "expired",
    "for_clients",
    "by_other",
    "deep",
    "deep_without_chain",
];

fn certificates() -> Certificates {
    let uid = rustix::process::geteuid().as_raw();
    std::fs::create_dir_all(format!("/var/tmp/pgassay-{uid}")).expect("/var/tmp");
    let dir = private_dir(&format!("/var/tmp/pgassay-{uid}/test-certs-"));
    let all = Certificates::in_dir(&dir);
    all.authority("root", "A root", EC);
    all.authority("rsa_root", "A root with RSA", RSA);
    all.authority("other", "Another root", EC);
    all.authority("selfsigned", "localhost", EC);
    let usual = Signed::default();
    let server = "subjectAltName=DNS:localhost,DNS:db.example.test\n";
    all.signed("ordinary", "root", "ordinary", server, &usual);
    all.signed("version1", "root", "localhost", "", &usual);
    all.signed(
        "wildcard",
        "root",
        "w",
        "subjectAltName=DNS:*.example.test\n",
        &usual,
    );
    all.signed(
        "common_name",
        "root",
        "localhost",
        "basicConstraints=CA:FALSE\n",
        &usual,
    );
    all.signed(
        "address",
        "root",
        "a",
        "subjectAltName=IP:127.0.0.1\n",
        &usual,
    );
    all.signed(
        "rsa512",
        "rsa_root",
        "r",
        server,
        &Signed {
            key: RSA,
            hash: "-sha512",
            ..usual
        },
    );
    all.signed(
        "expired",
        "root",
        "e",
        server,
        &Signed {
            // Over within the second: from 3.5 on OpenSSL makes none that ends before it starts.
            days: "0",
            ..Signed::default()
        },
    );
    std::thread::sleep(std::time::Duration::from_millis(1100));
    all.signed(
        "for_clients",
        "root",
        "c",
        &format!("{server}extendedKeyUsage=clientAuth\n"),
        &Signed::default(),
    );
    all.signed("by_other", "other", "o", server, &Signed::default());
    all.signed(
        "middle",
        "root",
        "An intermediate",
        "basicConstraints=critical,CA:TRUE\n",
        &Signed::default(),
    );
    all.signed("deep", "middle", "d", server, &Signed::default());
    all.signed(
        "deep_without_chain",
        "middle",
        "d",
        server,
        &Signed::default(),
    );
    let chain = std::fs::read_to_string(all.path("deep.crt")).expect("deep")
        + &std::fs::read_to_string(all.path("middle.crt")).expect("middle");
    std::fs::write(all.path("deep.crt"), chain).expect("chain");
    all.signed("client", "root", "with_cert", "", &Signed::default());
    all.signed(
        "client_rsa",
        "root",
        "with_cert",
        "basicConstraints=CA:FALSE\n",
        &Signed {
            key: RSA,
            ..Signed::default()
        },
    );
    all.signed(
        "client_other_name",
        "root",
        "somebody",
        "",
        &Signed::default(),
    );
    all.signed(
        "client_by_other",
        "other",
        "with_cert",
        "",
        &Signed::default(),
    );
    all.revoke("revoked.crl", "root", "ordinary");
    for name in SERVER_CERTIFICATES {
        all.give_to_server(name);
    }
    std::fs::write(all.path("garbage.crt"), "no certificate\n").expect("garbage");
    all
}

struct Lab {
    server: Server,
    certificates: Certificates,
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.certificates.dir);
    }
}

impl Lab {
    fn start() -> Lab {
        let certificates = certificates();
        let file = |name: &str| certificates.path(name);
        let settings = [
            ("ssl", "on".to_owned()),
            ("ssl_ca_file", file("root.crt")),
            ("ssl_cert_file", file("ordinary.crt")),
            ("ssl_key_file", file("ordinary.key")),
        ];
        // As settings of the file, so that a reload may change them.
        let server = Server::start(HBA, &[], |data| {
            let lines: String = settings
                .iter()
                .map(|(name, value)| format!("{name} = '{value}'\n"))
                .collect();
            let conf = data.join("postgresql.conf");
            let old = std::fs::read_to_string(&conf).expect("postgresql.conf");
            std::fs::write(conf, old + &lines).expect("postgresql.conf");
        });
        server.run(ROLES);
        Lab {
            server,
            certificates,
        }
    }

    /// Makes the server show another certificate to connections to come.
    fn show(&self, name: &str) {
        let mut owner = connect(&self.server.owner()).expect("owner");
        for (setting, ending) in [("ssl_cert_file", "crt"), ("ssl_key_file", "key")] {
            let path = self.certificates.path(&format!("{name}.{ending}"));
            owner
                .execute(&format!("alter system set {setting} = '{path}'"))
                .expect("alter system");
        }
        self.reload();
        let path = self.certificates.path(&format!("{name}.crt"));
        let wait =
            format!("select setting = '{path}' from pg_settings where name = 'ssl_cert_file'");
        let give_up = Instant::now() + Duration::from_secs(10);
        while connect(&self.server.owner())
            .expect("owner")
            .value(&wait)
            .expect("settings")
            .as_deref()
            != Some("t")
        {
            assert!(
                Instant::now() < give_up,
                "{name} is not taken: {}",
                self.server.log()
            );
        }
    }

    fn reload(&self) {
        self.server.run("select pg_reload_conf()");
    }

    fn conninfo(&self, more: &str) -> String {
        format!(
            "hostaddr=127.0.0.1 port={} dbname=postgres {more}",
            self.server.port
        )
    }

    /// What psql comes to: whether TLS was on, or `None` where it gets nowhere.
    fn psql(&self, conninfo: &str) -> Option<bool> {
        let output = Command::new(crate::support::bin_dir().join("psql"))
            .env_clear()
            .env("HOME", &self.server.dir)
            .args([
                "-XAtc",
                "select ssl from pg_stat_ssl where pid = pg_backend_pid()",
                conninfo,
            ])
            .output()
            .expect("psql");
        match String::from_utf8_lossy(&output.stdout).trim() {
            "t" => Some(true),
            "f" => Some(false),
            _ => None,
        }
    }

    /// What we come to.
    fn ours(&self, conninfo: &str) -> Result<bool, ConnectError> {
        let around = crate::support::Pretend::default();
        let conninfo = pgassay_pgwire::Conninfo::parse_in(conninfo, &around)?;
        let mut session = connect(&conninfo)?;
        let seen = session
            .value("select ssl from pg_stat_ssl where pid = pg_backend_pid()")
            .expect("pg_stat_ssl");
        assert_eq!(session.tls().is_some(), seen.as_deref() == Some("t"));
        Ok(session.tls().is_some())
    }
}

#[test]
fn each_mode_and_certificate_ends_as_with_psql() {
    let lab = Lab::start();
    let roots = [
        "root.crt",
        "rsa_root.crt",
        "other.crt",
        "selfsigned.crt",
        "absent.crt",
        "garbage.crt",
    ];
    let mut compared = 0;
    let mut differing = Vec::new();
    let mut compare = |text: String| {
        let theirs = lab.psql(&text);
        let ours = lab.ours(&text);
        compared += 1;
        if ours.as_ref().ok() != theirs.as_ref() {
            differing.push(format!("{text}: ours {ours:?}, psql {theirs:?}"));
        }
    };
    for certificate in SERVER_CERTIFICATES {
        lab.show(certificate);
        for mode in [
            "disable",
            "allow",
            "prefer",
            "require",
            "verify-ca",
            "verify-full",
        ] {
            for root in roots {
                // What does not depend on the certificate is tried with one.
                let weak = matches!(mode, "disable" | "allow" | "prefer");
                if weak && !matches!(*certificate, "ordinary" | "expired") {
                    continue;
                }
                let root = lab.certificates.path(root);
                let text = format!("host=localhost user=trusted sslmode={mode} sslrootcert={root}");
                compare(lab.conninfo(&text));
            }
        }
        let root = lab.certificates.path("root.crt");
        for host in [
            "db.example.test",
            "a.db.example.test",
            "127.0.0.1",
            "LOCALHOST",
            "",
        ] {
            let text = format!("host='{host}' user=trusted sslmode=verify-full sslrootcert={root}");
            compare(lab.conninfo(&text));
        }
    }
    lab.show("ordinary");
    let absent = lab.certificates.path("absent.crt");
    for user in ["without", "only_with", "trusted", "scrammer"] {
        for mode in ["disable", "allow", "prefer", "require"] {
            let text = format!(
                "host=localhost user={user} password=geheim sslmode={mode} sslrootcert={absent}"
            );
            compare(lab.conninfo(&text));
        }
    }
    for client in [
        "client",
        "client_rsa",
        "client_other_name",
        "client_by_other",
        "absent",
        "garbage",
    ] {
        for mode in ["prefer", "require"] {
            let (cert, key) = (
                lab.certificates.path(&format!("{client}.crt")),
                lab.certificates.path(&format!("{client}.key")),
            );
            let text = format!(
                "host=localhost user=with_cert sslmode={mode} sslrootcert={absent} sslcert={cert} sslkey={key}"
            );
            compare(lab.conninfo(&text));
        }
    }
    for version in ["TLSv1.2", "TLSv1.3"] {
        for (certificate, root) in [("version1", "root"), ("rsa512", "rsa_root")] {
            lab.show(certificate);
            let root = lab.certificates.path(&format!("{root}.crt"));
            let bounds =
                format!("ssl_min_protocol_version={version} ssl_max_protocol_version={version}");
            let text = format!(
                "host=localhost user=scrammer password=geheim channel_binding=require \
                 sslmode=verify-ca sslrootcert={root} {bounds}"
            );
            compare(lab.conninfo(&text));
        }
    }
    let (root, crl) = (
        lab.certificates.path("root.crt"),
        lab.certificates.path("revoked.crl"),
    );
    for certificate in ["ordinary", "wildcard", "deep"] {
        lab.show(certificate);
        let text = format!(
            "host=localhost user=trusted sslmode=verify-ca sslrootcert={root} sslcrl={crl}"
        );
        compare(lab.conninfo(&text));
    }
    assert!(compared > 300, "only {compared} combinations were tried");
    let count = differing.len();
    assert!(
        differing.is_empty(),
        "{count} of {compared} differ:\n{}",
        differing.join("\n")
    );
}

#[test]
fn a_refusal_says_what_is_wrong_and_what_helps() {
    let lab = Lab::start();
    let root = lab.certificates.path("root.crt");
    let crl = lab.certificates.path("revoked.crl");
    for (certificate, more, part) in [
        ("expired", "sslmode=verify-ca", "has expired"),
        ("by_other", "sslmode=verify-ca", "sslrootcert="),
        (
            "wildcard",
            "sslmode=verify-full",
            "is for *.example.test, not for \"localhost\"",
        ),
        (
            "ordinary",
            &format!("sslmode=verify-ca sslcrl={crl}"),
            "is revoked",
        ),
        (
            "ordinary",
            "sslmode=verify-full sslrootcert=/nowhere/root.crt",
            "does not exist",
        ),
        (
            "ordinary",
            "sslmode=require ssl_max_protocol_version=TLSv1.2 sslcert=/nowhere",
            "/nowhere",
        ),
        ("ordinary", "sslmode=require sslnegotiation=direct", "TLS"),
    ] {
        lab.show(certificate);
        let text = lab.conninfo(&format!(
            "host=localhost user=trusted sslrootcert={root} {more}"
        ));
        match lab.ours(&text) {
            Err(error @ (ConnectError::Tls { .. } | ConnectError::Io { .. })) => {
                assert!(error.to_string().contains(part), "{text}: {error}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
    lab.show("ordinary");
    let client = |name: &str, key: &str| {
        let path = |file: String| lab.certificates.path(&file);
        lab.conninfo(&format!(
            "host=localhost user=with_cert sslmode=require sslcert={} sslkey={}",
            path(format!("{name}.crt")),
            path(format!("{key}.key")),
        ))
    };
    let mismatch = lab
        .ours(&client("client_rsa", "client"))
        .expect_err("mismatch")
        .to_string();
    assert!(mismatch.contains("do not belong together"), "{mismatch}");
    let key = lab.certificates.dir.join("client.key");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).expect("chmod");
    let open = lab
        .ours(&client("client", "client"))
        .expect_err("readable")
        .to_string();
    assert!(open.contains("chmod 600"), "{open}");
    let unknown = lab.ours(&client("client_by_other", "client_by_other"));
    assert!(
        matches!(unknown, Err(ConnectError::Tls { .. })),
        "{unknown:?}"
    );

    lab.server.run("alter system set ssl = off");
    lab.reload();
    let give_up = Instant::now() + Duration::from_secs(10);
    loop {
        match lab.ours(&lab.conninfo("host=localhost user=trusted sslmode=require")) {
            Err(ConnectError::TlsRequired { .. }) => break,
            other => assert!(Instant::now() < give_up, "{other:?}"),
        }
    }
    assert_eq!(
        lab.ours(&lab.conninfo("host=localhost user=trusted")).ok(),
        Some(false)
    );
}

#[test]
fn a_session_over_tls_does_all_that_a_plain_one_does() {
    let lab = Lab::start();
    let root = lab.certificates.path("root.crt");
    let text = lab.conninfo(&format!(
        "host=localhost user=scrammer password=geheim sslmode=verify-full sslrootcert={root} \
         channel_binding=require require_auth=scram-sha-256"
    ));
    let around = crate::support::Pretend::default();
    let conninfo = pgassay_pgwire::Conninfo::parse_in(&text, &around).expect("parse");
    let mut session = connect(&conninfo).expect("connect");
    assert!(
        session.tls().expect("TLS").starts_with("TLSv1.3, TLS13_"),
        "{:?}",
        session.tls()
    );

    let long = session
        .value("select repeat('x', 3000000)")
        .expect("long")
        .expect("a value");
    assert_eq!(long.len(), 3_000_000);
    let echoed = session
        .value(&format!("select length('{long}')"))
        .expect("sent");
    assert_eq!(echoed.as_deref(), Some("3000000"));

    session
        .execute("create temp table t (i int)")
        .expect("create");
    let mut copy = session.copy_in("copy t from stdin").expect("copy");
    for i in 0..200_000 {
        copy.put(format!("{i}\n").as_bytes()).expect("put");
    }
    assert_eq!(copy.finish().expect("finish"), 200_000);

    let key = session.cancel_key();
    let canceller = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        key.cancel(Duration::from_secs(5))
    });
    let cancelled = session.query("select pg_sleep(30)").expect_err("cancelled");
    assert_eq!(cancelled.sqlstate(), Some("57014"));
    canceller.join().expect("thread").expect("cancel");

    crate::raw::ping_pong(session.into_transport().expect("transport"));
}

#[test]
fn direct_negotiation_insists_on_the_protocol_name() {
    // PostgreSQL 15 does not have it; openssl's server stands in, and sends
    // what it is given as the server's greeting.
    let certificates = certificates();
    let attempt = |alpn: &[&str]| {
        let port = crate::support::free_port();
        let mut peer = Command::new("openssl")
            .args([
                "s_server",
                "-quiet",
                "-accept",
                &format!("127.0.0.1:{port}"),
            ])
            .args(["-cert", &certificates.path("ordinary.crt")])
            .args(["-key", &certificates.path("ordinary.key")])
            .args(alpn)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .expect("openssl");
        let mut stdin = peer.stdin.take().expect("stdin");
        std::io::Write::write_all(&mut stdin, &pgassay_pgwire::fake::say::welcome())
            .expect("write");
        let text = format!(
            "host=localhost hostaddr=127.0.0.1 port={port} sslmode=verify-full connect_timeout=5 \
             sslrootcert={} sslnegotiation=direct",
            certificates.path("root.crt")
        );
        let around = crate::support::Pretend::default();
        let conninfo = pgassay_pgwire::Conninfo::parse_in(&text, &around).expect("parse");
        let give_up = Instant::now() + Duration::from_secs(20);
        let outcome = loop {
            match connect(&conninfo) {
                Err(ConnectError::Refused { .. }) if Instant::now() < give_up => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                other => break other.map(|session| session.backend_pid()),
            }
        };
        peer.kill().expect("kill");
        peer.wait().expect("wait");
        outcome
    };
    assert_eq!(attempt(&["-alpn", "postgresql"]).expect("a session"), 4711);
    let message = attempt(&[]).expect_err("no ALPN").to_string();
    assert!(message.contains("ALPN"), "{message}");
    std::fs::remove_dir_all(&certificates.dir).expect("cleanup");
}

//! Completion of connection strings in made-up surroundings.

use super::*;
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

/// A world with only what a test puts into it.
#[derive(Default)]
struct World {
    vars: HashMap<&'static str, &'static str>,
    files: HashMap<PathBuf, FileSeen>,
    nameless: bool,
}

impl World {
    fn new(vars: &[(&'static str, &'static str)]) -> World {
        let mut world = World {
            vars: vars.iter().copied().collect(),
            ..World::default()
        };
        world.vars.entry("HOME").or_insert("/home/u");
        world
    }

    fn file(mut self, path: &str, mode: u32, text: &str) -> World {
        let seen = FileSeen {
            text: text.to_owned(),
            mode,
            is_file: !path.ends_with('/'),
        };
        self.files.insert(PathBuf::from(path), seen);
        self
    }

    fn parse(&self, text: &str) -> Result<Conninfo, ConninfoError> {
        Conninfo::parse_in(text, self)
    }

    fn good(&self, text: &str) -> Conninfo {
        self.parse(text)
            .unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn error(&self, text: &str) -> String {
        match self.parse(text) {
            Err(error) => error.to_string(),
            Ok(conninfo) => panic!("{text} is accepted: {conninfo:?}"),
        }
    }
}

impl Surroundings for World {
    fn var(&self, name: &str) -> Option<String> {
        self.vars.get(name).map(|value| (*value).to_owned())
    }

    fn read(&self, path: &Path) -> io::Result<FileSeen> {
        self.files
            .get(path)
            .cloned()
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn exists(&self, path: &Path) -> bool {
        self.files.keys().any(|file| file.starts_with(path))
    }

    fn user_name(&self) -> Option<String> {
        (!self.nameless).then(|| "osuser".to_owned())
    }
}

fn password(conninfo: &Conninfo, host: usize) -> Option<&[u8]> {
    conninfo.hosts[host].password.as_ref().map(Secret::reveal)
}

#[test]
fn an_empty_string_has_libpqs_defaults() {
    let conninfo = World::new(&[]).good("");
    assert_eq!(conninfo.user, "osuser");
    assert_eq!(conninfo.dbname, "osuser");
    assert_eq!(conninfo.hosts[0].place, Place::Socket("/tmp".to_owned()));
    assert_eq!(conninfo.hosts[0].port, 5432);
    assert_eq!(conninfo.tls.mode, SslMode::Prefer);
    assert_eq!(conninfo.connect_timeout, None);
    assert_eq!(conninfo.client_encoding, "UTF8");
    assert_eq!(conninfo.application_name, "pgassay");
    assert!(conninfo.keepalives.on);
    let given = RootCert::File {
        path: "/home/u/.postgresql/root.crt".into(),
        given: false,
    };
    assert_eq!(conninfo.tls.root, Some(given));

    // The directory that holds a server's socket wins over the first that exists.
    let debian = World::new(&[]).file("/var/run/postgresql/.s.PGSQL.5433", 0o777, "");
    assert_eq!(
        debian.good("port=5433").hosts[0].place,
        Place::Socket("/var/run/postgresql".to_owned())
    );
    let both = debian.file("/tmp/.s.PGSQL.5432", 0o777, "");
    assert_eq!(
        both.good("").hosts[0].place,
        Place::Socket("/tmp".to_owned())
    );

    let nameless = World {
        nameless: true,
        ..World::new(&[])
    };
    assert_eq!(
        nameless.parse("host=a").map(drop),
        Err(ConninfoError::NoUser)
    );
    assert_eq!(nameless.good("user=a").dbname, "a");
}

#[test]
fn what_is_written_beats_the_service_and_the_service_the_environment() {
    let services = "# comment\n[other]\nhost=wrong\n\n[mine]\nhost=from-service\nport=1111\n\
                    dbname=from service\n[mine]\nhost=second\n";
    let world = World::new(&[
        ("PGHOST", "from-env"),
        ("PGPORT", "2222"),
        ("PGUSER", "env-user"),
        ("PGOPTIONS", "-c jit=off"),
        ("PGTZ", "UTC"),
    ])
    .file("/home/u/.pg_service.conf", 0o644, services);
    let conninfo = world.good("service=mine port=3333");
    assert_eq!(conninfo.hosts[0].to_string(), "from-service port 3333");
    assert_eq!(conninfo.dbname, "from service");
    assert_eq!(conninfo.user, "env-user");
    assert_eq!(conninfo.options.as_deref(), Some("-c jit=off"));
    assert_eq!(conninfo.session_settings, [("timezone", "UTC".to_owned())]);
    assert_eq!(world.good("").hosts[0].to_string(), "from-env port 2222");
    // The later spelling of one string wins.
    assert_eq!(
        world.good("host=a host=b").hosts[0].to_string(),
        "b port 2222"
    );
    assert_eq!(
        world.good("postgres://x@h:1/d?host=i").hosts[0].to_string(),
        "i port 1"
    );

    let missing = world.error("service=nobody");
    assert!(
        missing.contains("[nobody]") && missing.contains(".pg_service.conf"),
        "{missing}"
    );
    let system = World::new(&[("PGSERVICE", "s"), ("PGSYSCONFDIR", "/etc/x")]).file(
        "/etc/x/pg_service.conf",
        0o644,
        "[s]\nhost=system\n",
    );
    assert_eq!(system.good("").hosts[0].to_string(), "system port 5432");
    for (text, part) in [
        ("[s]\nhots=a\n", "did you mean \"host\""),
        ("[s]\nhost\n", "keyword=value"),
        ("[s]\nservice=t\n", "another service"),
        ("[s]\nldap://x\n", "LDAP"),
    ] {
        let world = World::new(&[("PGSERVICEFILE", "/s")]).file("/s", 0o644, text);
        let message = world.error("service=s");
        assert!(
            message.contains(part) && message.contains("/s"),
            "{message}"
        );
    }
}

#[test]
fn hosts_addresses_and_ports_are_lists() {
    let world = World::new(&[]);
    let places = |text: &str| -> Vec<String> {
        world
            .good(text)
            .hosts
            .iter()
            .map(ToString::to_string)
            .collect()
    };
    assert_eq!(places("host=a,b port=1,2"), ["a port 1", "b port 2"]);
    assert_eq!(places("host=a,b port=7"), ["a port 7", "b port 7"]);
    assert_eq!(places("host=a,b port=,2"), ["a port 5432", "b port 2"]);
    assert_eq!(
        places("host=/run/x,@abstract"),
        ["/run/x/.s.PGSQL.5432", "@abstract/.s.PGSQL.5432"]
    );
    assert_eq!(
        places("hostaddr=::1,10.0.0.1"),
        ["::1 port 5432", "10.0.0.1 port 5432"]
    );
    assert_eq!(
        places("host=n hostaddr=10.0.0.1"),
        ["n (10.0.0.1) port 5432"]
    );
    assert_eq!(places("host=a,"), ["a port 5432", "/tmp/.s.PGSQL.5432"]);
    assert!(
        world
            .error("host=a,b hostaddr=10.0.0.1")
            .contains("2 host names but 1")
    );
    assert!(
        world
            .error("host=a port=1,2")
            .contains("2 ports are given for 1 hosts")
    );
    for port in ["0", "65536", "-1", "x", "5432x"] {
        assert!(
            world.error(&format!("port={port}")).contains("1 to 65535"),
            "{port}"
        );
    }
    assert!(world.error("hostaddr=name").contains("numeric"));
}

#[test]
fn the_password_file_is_read_as_libpq_reads_it() {
    let lines = "# host:port:database:user:password\n\
                 h1:5432:db:me:first\n\
                 h1:*:*:me:second\n\
                 localhost:*:*:*:sock\\:et\\\\\n\
                 /run/x:*:*:*:directory\n\
                 10.0.0.1:*:*:*:address:ignored\n\
                 \\*:*:*:*:star\n\
                 short:line\n\
                 *:*:*:late:last\r\n";
    let world = World::new(&[]).file("/home/u/.pgpass", 0o600, lines);
    let of = |text: &str| -> Option<Vec<u8>> { password(&world.good(text), 0).map(<[u8]>::to_vec) };
    assert_eq!(
        of("host=h1 dbname=db user=me").as_deref(),
        Some(&b"first"[..])
    );
    assert_eq!(
        of("host=h1 dbname=other user=me").as_deref(),
        Some(&b"second"[..])
    );
    assert_eq!(of("host=h1 dbname=db user=other"), None);
    assert_eq!(of("").as_deref(), Some(&b"sock:et\\"[..]));
    assert_eq!(of("host=/run/x").as_deref(), Some(&b"directory"[..]));
    assert_eq!(of("hostaddr=10.0.0.1").as_deref(), Some(&b"address"[..]));
    assert_eq!(of("host=* user=x").as_deref(), Some(&b"star"[..]));
    assert_eq!(of("host=anything user=late").as_deref(), Some(&b"last"[..]));
    let two = world.good("host=h1,h2 user=me dbname=db");
    assert_eq!(
        (password(&two, 0), password(&two, 1)),
        (Some(&b"first"[..]), None)
    );
    // A password that was given is used for all hosts, the file not looked at.
    assert_eq!(
        password(&world.good("host=h1 user=me password=x"), 0),
        Some(&b"x"[..])
    );

    for (mode, used) in [(0o600, true), (0o400, true), (0o640, false), (0o604, false)] {
        let world = World::new(&[("PGPASSFILE", "/p")]).file("/p", mode, "*:*:*:*:secret\n");
        let conninfo = world.good("host=h");
        assert_eq!(password(&conninfo, 0).is_some(), used, "{mode:o}");
        assert_eq!(conninfo.warnings.is_empty(), used, "{mode:o}");
    }
    let directory = World::new(&[]).file("/d/", 0o700, "").good("passfile=/d/");
    assert!(
        directory.warnings[0].contains("not a plain file"),
        "{:?}",
        directory.warnings
    );
}

#[test]
fn a_wrong_word_is_named_with_what_would_be_right() {
    let world = World::new(&[]);
    for (text, parts) in [
        ("hots=a", &["\"hots\"", "did you mean \"host\""][..]),
        (
            "postgres://h/d?sslmod=require",
            &["\"sslmod\"", "\"sslmode\""],
        ),
        ("zebra=1", &["unknown keyword \"zebra\""]),
        ("sslmode=on", &["sslmode", "\"on\"", "verify-full"]),
        ("channel_binding=yes", &["disable, prefer, require"]),
        ("target_session_attrs=master", &["primary"]),
        ("load_balance_hosts=yes", &["random"]),
        ("connect_timeout=soon", &["whole number"]),
        ("connect_timeout=99999999999", &["whole number"]),
        ("require_auth=md5,!password", &["either all"]),
        ("require_auth=magic", &["scram-sha-256"]),
        ("sslnegotiation=direct", &["require, verify-ca"]),
        ("sslrootcert=system sslmode=require", &["verify-full"]),
        (
            "ssl_min_protocol_version=TLSv1.3 ssl_max_protocol_version=TLSv1.2",
            &["above"],
        ),
        (
            "gssencmode=require",
            &["not supported", "disable or prefer"],
        ),
        ("requirepeer=postgres", &["not supported", "remove it"]),
        ("replication=database", &["not supported"]),
    ] {
        let message = world.error(text);
        for part in parts {
            assert!(message.contains(part), "{text}: {message}");
        }
    }
    let from_env = World::new(&[("PGSSLMODE", "always")]).error("host=a");
    assert!(from_env.starts_with("PGSSLMODE:"), "{from_env}");
    // Harmless or meaningless to us: accepted.
    world.good("gssencmode=prefer krbsrvname=x sslcompression=0 replication=false");
}

#[test]
fn every_parameter_arrives_where_it_belongs() {
    let conninfo = World::new(&[]).good(
        "postgresql://me@h/d?connect_timeout=7&application_name=x&options=-c%20a%3Db\
         &client_encoding=LATIN1&keepalives=0&keepalives_idle=1&keepalives_interval=2\
         &keepalives_count=3&tcp_user_timeout=4000&sslmode=verify-ca&sslrootcert=/r&sslcert=/c\
         &sslkey=/k&sslcrl=/l&sslsni=0&channel_binding=require&require_auth=scram-sha-256,none\
         &target_session_attrs=prefer-standby&load_balance_hosts=random\
         &ssl_min_protocol_version=TLSv1.3",
    );
    assert_eq!(conninfo.connect_timeout, Some(Duration::from_secs(7)));
    assert_eq!(conninfo.application_name, "x");
    assert_eq!(conninfo.options.as_deref(), Some("-c a=b"));
    assert_eq!(conninfo.client_encoding, "LATIN1");
    let expected = Keepalives {
        on: false,
        idle_s: Some(1),
        interval_s: Some(2),
        count: Some(3),
    };
    assert_eq!(conninfo.keepalives, expected);
    assert_eq!(conninfo.tcp_user_timeout, Some(Duration::from_secs(4)));
    let tls = &conninfo.tls;
    assert_eq!(tls.mode, SslMode::VerifyCa);
    assert_eq!(
        tls.root,
        Some(RootCert::File {
            path: "/r".into(),
            given: true
        })
    );
    assert_eq!(tls.certificate, Some(("/c".into(), true)));
    assert_eq!(tls.key, Some("/k".into()));
    assert_eq!(tls.crl, Some(("/l".into(), true)));
    assert_eq!((tls.sni, tls.min_version, tls.max_version), (false, 13, 13));
    assert_eq!(conninfo.channel_binding, ChannelBinding::Require);
    assert_eq!(conninfo.session_attrs, SessionAttrs::PreferStandby);
    assert!(conninfo.load_balance);
    let required = conninfo.require_auth.expect("given");
    assert!(required.permits(AuthMethod::Scram) && required.permits(AuthMethod::None));
    assert!(!required.permits(AuthMethod::Md5));
    let system = World::new(&[]).good("sslrootcert=system");
    assert_eq!(
        (system.tls.mode, system.tls.root),
        (SslMode::VerifyFull, Some(RootCert::System))
    );
}

#[test]
fn no_password_is_ever_shown() {
    let world = World::new(&[("PGPASSWORD", "hunter2")]);
    for text in [
        "postgres://me:hunter2@h1,h2:6000/my%20db?sslmode=require",
        "host=h1 password=hunter2 sslmode=require",
        "host=h1 sslmode=require",
        "host=/s password='hunter2'",
    ] {
        let conninfo = world.good(text);
        assert_eq!(password(&conninfo, 0), Some(&b"hunter2"[..]));
        let shown = format!("{conninfo:?} {} {:#?}", conninfo.redacted(), conninfo);
        assert!(!shown.contains("hunter2"), "{shown}");
        // What is stored leads to the same servers.
        let again = World::new(&[]).good(&conninfo.redacted());
        assert_eq!(again.redacted(), conninfo.redacted());
        assert_eq!(
            (&again.user, &again.dbname),
            (&conninfo.user, &conninfo.dbname)
        );
        let places = |c: &Conninfo| c.hosts.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(places(&again), places(&conninfo));
        assert!(!conninfo.without_secrets().contains("hunter2"));
    }
    for text in [
        "host=a password='hunter2",
        "host=a pasword=hunter2",
        "password hunter2",
        "password=my hunter2",
        "host=a password=my hunter2=b",
        "postgres://u:a@hunter2@h/d",
        "postgres://u:hunter2/b@h/d",
    ] {
        assert!(!world.error(text).contains("hunter2"));
    }
    let refused = world.error("host=a sslpassword=hunter2");
    assert!(
        !refused.contains("hunter2") && refused.contains("passphrase"),
        "{refused}"
    );
}

#[test]
fn another_machine_reaches_the_same_server() {
    let text = "host=h1,h2 port=1,2 user='me too' dbname=d options='-c search_path=\\'\"a b\"\\'' \
                application_name=x channel_binding=require require_auth=scram-sha-256 sslrootcert=system \
                target_session_attrs=standby load_balance_hosts=random connect_timeout=7 password=p";
    let conninfo = World::new(&[]).good(text);
    let there = World::new(&[("PGPASSWORD", "theirs"), ("PGOPTIONS", "-c a=b")]);
    let again = there.good(&conninfo.without_secrets());
    assert_eq!(password(&again, 0), Some(&b"theirs"[..]));
    assert_eq!(again.options, conninfo.options);
    assert_eq!(again.connect_timeout, conninfo.connect_timeout);
    assert_eq!(again.session_attrs, conninfo.session_attrs);
    assert_eq!(
        (again.load_balance, again.tls.mode),
        (true, SslMode::VerifyFull)
    );
    assert_eq!(again.without_secrets(), conninfo.without_secrets());
}

#[test]
fn what_looks_like_a_connection_string() {
    for text in [
        "postgres://",
        "postgresql://h",
        "service=a",
        "host=/tmp dbname=x",
    ] {
        assert!(Conninfo::looks_like(text), "{text}");
    }
    for text in ["temp", "temp:17", "/usr/lib/postgresql/15", "build:x"] {
        assert!(!Conninfo::looks_like(text), "{text}");
    }
}

//! The engine over TLS and TCP: a client alone, several on one thread, and replies larger than any
//! TLS record.

use std::process::Command;

use pgassay_load::{Engine, Gaps, Options, Protocol, Schedule, Serving, SliceSpec};

use crate::pg_support::{Server, give, succeed};
use crate::support::{program, run, run_script, seconds, transactions};

fn server() -> Server {
    let hba = "local all all trust\nhost all all 127.0.0.1/32 trust\n";
    Server::start(hba, &[("ssl", "on")], |data| {
        let (key, certificate) = (data.join("server.key"), data.join("server.crt"));
        let mut openssl = Command::new("openssl");
        openssl
            .args([
                "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
            ])
            .args(["-subj", "/CN=localhost", "-keyout"])
            .arg(&key)
            .arg("-out")
            .arg(&certificate);
        succeed(&mut openssl);
        give(&key);
        give(&certificate);
    })
}

/// Several clients' records go out in one system call, where the kernel has that.
#[test]
fn records_go_out_together() {
    let server = server();
    let mut transactions_of = Vec::new();
    for serving in [Serving::Ring, Serving::Calls] {
        let options = Options {
            threads: Some(1),
            serving,
            ..Options::default()
        };
        let conninfo = server.tcp("user=owner sslmode=require");
        let result = run_script(conninfo, "SELECT 1;\n", options, 24, &transactions(200));
        assert_eq!(result.lost_count, 0, "{result:?}");
        let calls = result.system_calls();
        let rings = serving == Serving::Ring && pgassay_sys::gather::Gathered::new().is_ok();
        assert_eq!(calls.gathered > 0, rings, "{calls:?}");
        transactions_of.push(result.transactions);
    }
    assert_eq!(transactions_of, [4800, 4800]);
}

#[test]
fn load_runs_over_tls_and_tcp() {
    let server = server();
    for mode in ["require", "disable"] {
        let conninfo = server.tcp(&format!("user=owner sslmode={mode}"));
        for (clients, threads) in [(1, 1), (5, 1), (6, 2)] {
            for protocol in [Protocol::Simple, Protocol::Prepared] {
                let options = Options {
                    protocol,
                    threads: Some(threads),
                    ..Options::default()
                };
                let text = "SELECT ssl::int AS tls FROM pg_stat_ssl WHERE pid = pg_backend_pid() \\gset\n\\set check 1 / (1 - abs(:tls - :wanted))\nSELECT 1;\n";
                let wanted = i64::from(mode == "require");
                let options = Options {
                    variables: vec![(
                        "wanted".to_owned(),
                        pgassay_load::script::Value::Int(wanted),
                    )],
                    ..options
                };
                let result =
                    run_script(conninfo.clone(), text, options, clients, &transactions(30));
                assert_eq!(result.transactions, 30 * clients as u64, "{result:?}");
                assert_eq!(result.lost_count, 0);
            }
        }
        let big = "SELECT repeat('x', 1000000), n FROM generate_series(1, 3) n;\nSELECT length(:big) AS l \\gset\n\\set check 1 / (:l - 1999999)\n";
        let options = Options {
            texts: vec![("big".to_owned(), "y".repeat(2_000_000))],
            threads: Some(1),
            ..Options::default()
        };
        for clients in [1, 3] {
            let result = run_script(
                conninfo.clone(),
                big,
                options.clone(),
                clients,
                &transactions(3),
            );
            assert_eq!(result.transactions, 3 * clients as u64, "{result:?}");
        }
        let mut engine = Engine::new(conninfo, program("SELECT 1;"), Options::default());
        engine.resize(2).unwrap();
        let spec = SliceSpec {
            schedule: Schedule::Paced {
                per_second: 200.0,
                gaps: Gaps::Fixed,
            },
            ..seconds(1.0)
        };
        let result = run(&mut engine, &spec);
        let all = result.transactions_sent + result.behind + u64::from(result.unfinished);
        assert!((198..=202).contains(&all), "{all}");
    }
}

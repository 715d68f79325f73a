//! Commands that write refuse a pooler; those that may use one leave nothing in its connections.

use pgassay_pgwire::Session;

use crate::pg_support::pooler::{Pooler, server};
use crate::runs::{Runs, text};

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

/// Questions that are asked again are prepared where that is the session's own; a pool's connections are others'.
#[test]
fn watching_through_a_pooler_leaves_nothing_prepared() {
    let server = server();
    let pooler = Pooler::start(&server, "transaction", "");
    let runs = Runs::new("pgbouncer-watch");
    let uri = format!("postgres://alice:geheim@127.0.0.1:{}/postgres", pooler.port);
    let output = runs.run(&["watch", &uri, "--time", "1", "--count", "1"]);
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    // Both connections of the pool, held by a transaction each.
    let mut clients = [(); 2].map(|()| {
        let connected = pooler.connect("alice", "geheim", "postgres");
        connected.expect("connect")
    });
    for client in &mut clients {
        client.execute("begin").expect("begin");
        let kept = client
            .value("select coalesce(string_agg(name, chr(10)), $$$$) from pg_prepared_statements");
        assert_eq!(kept.expect("query").as_deref(), Some(""));
    }
}

/// Scripts on tables that are there go through a pooler; what its other clients would notice does not.
#[test]
fn scripts_are_measured_through_a_pooler_and_the_server_behind_it_is_named() {
    let server = server();
    server.run("create table if not exists public.shop (id int primary key, n int)");
    server.run(
        "insert into public.shop select i, 0 from generate_series(1, 100) i on conflict do nothing",
    );
    server.run("grant select, update on public.shop to alice");
    let pooler = Pooler::start(&server, "transaction", "");
    let runs = Runs::new("pgbouncer-load");
    let uri = format!(
        "postgres://alice:geheim@127.0.0.1:{}/postgres?connect_timeout=8",
        pooler.port
    );
    let file = |name: &str, script: &str| {
        let path = runs.0.join(name);
        std::fs::create_dir_all(&runs.0).expect("directory");
        std::fs::write(&path, script).expect("script");
        path.display().to_string()
    };
    let ask = |sql: &str| {
        let mut owner = pgassay_pgwire::connect(&server.owner()).expect("connect");
        owner.value(sql).expect("query").expect("a value")
    };
    let reads = file(
        "reads.sql",
        "\\set id random(1, 100)\nSELECT n FROM shop WHERE id = :id;\n",
    );
    let writes = file(
        "writes.sql",
        "-- @writes\n\\set id random(1, 100)\nUPDATE shop SET n = n + 1 WHERE id = :id;\n",
    );
    let keeps = file("keeps.sql", "SET work_mem = '1MB';\nSELECT 1;\n");
    // Six clients on the two connections of the pool.
    let short = [
        "--load",
        "--clients",
        "6",
        "--time",
        "0.4",
        "--warmup",
        "0.1",
        "--trials",
        "2",
    ];
    let run = |script: &str, more: &[&str]| {
        let args = [&["run", script, uri.as_str()][..], &short, more].concat();
        runs.run(&args)
    };
    for (script, more, said) in [
        (&reads, &["--is-copy"][..], "--protocol extended"),
        (&reads, &["-M", "extended"], "default_transaction_read_only"),
        (&keeps, &["-M", "extended", "--is-copy"], "SET work_mem"),
        (&writes, &["-M", "extended"], "--is-copy"),
        (
            &reads,
            &["-M", "extended", "--is-copy", "--observe", "waits"],
            "--observe",
        ),
    ] {
        let output = run(script, more);
        let told = text(&output.stderr);
        assert!(
            [Some(2), Some(3)].contains(&output.status.code()),
            "{more:?}: {told}"
        );
        assert!(told.contains(said), "{more:?}: {said} in {told}");
    }
    let identifier = ask("select system_identifier from pg_control_system()");
    let measured = |output: std::process::Output| {
        let told = text(&output.stderr);
        assert!(output.status.success(), "{told}");
        let analysis: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        analysis
    };
    let said = |analysis: &serde_json::Value| {
        let warnings = analysis["warnings"].as_array().expect("warnings");
        let of = warnings.iter().find(|w| w["id"] == "through-a-pooler");
        of.expect("it is said")["text"]
            .as_str()
            .expect("text")
            .to_owned()
    };
    let analysis = measured(run(&writes, &["-M", "extended", "--is-copy", "--json"]));
    let warning = said(&analysis);
    assert!(warning.contains(&identifier), "{warning}");
    assert!(warning.contains("runs on this machine"), "{warning}");
    let point = &analysis["stages"][0]["arms"][0]["points"][0];
    assert_eq!(point["failures"], serde_json::json!([]));
    // The process behind the pooler is the server's: its CPU time is measured.
    assert!(
        point["metrics"]["server-cpu"]["estimate"].as_f64() > Some(0.0),
        "{}",
        point["metrics"]
    );
    let done: u64 = ask("select sum(n) from public.shop")
        .parse()
        .expect("a number");
    assert!(done >= point["detail"]["all"]["count"].as_u64().expect("count"));

    server.run("alter role alice in database postgres set default_transaction_read_only = on");
    // Connections that were made before have not heard of it.
    drop(pooler);
    let pooler = Pooler::start(&server, "transaction", "");
    let uri = format!(
        "postgres://alice:geheim@127.0.0.1:{}/postgres?connect_timeout=8",
        pooler.port
    );
    let args = [
        &["run", &reads, uri.as_str()][..],
        &short,
        &["-M", "simple", "--json"],
    ]
    .concat();
    let analysis = measured(runs.run(&args));
    assert!(said(&analysis).contains("throughput and latency are those of pooler and server"));
    let report = text(&runs.run(&["report", "last"]).stdout);
    assert!(report.contains("through a connection pooler"), "{report}");

    let other = Pooler::start(&server, "transaction", "");
    let second = uri.replace(&pooler.port.to_string(), &other.port.to_string());
    let compared = runs.run(&[
        "compare",
        &uri,
        &second,
        "--workload",
        &reads,
        "--load",
        "--clients",
        "2",
        "-M",
        "extended",
        "--minutes",
        "0.2",
        "--json",
    ]);
    let told = text(&compared.stderr);
    assert!(
        [Some(0), Some(1), Some(5)].contains(&compared.status.code()),
        "{told}"
    );
    let compared: serde_json::Value = serde_json::from_slice(&compared.stdout).expect("JSON");
    let of = compared["warnings"].to_string();
    assert!(
        of.contains("A: This is load through") && of.contains("B: This is load through"),
        "{of}"
    );
    server.run("alter role alice in database postgres reset default_transaction_read_only");

    let left = "select count(*) from pg_namespace where nspname = 'pgassay'";
    assert_eq!(ask(left), "0");
}

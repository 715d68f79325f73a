//! What pgassay itself sends to a server is not taken for the application's.

use pgassay_pgwire::connect;
use serde_json::Value;

use crate::own_workload::{Folder, HBA, made, pgassay};
use crate::pg_support::{OWNER, Server};

/// A server that counts and logs statements, and nobody's but those of the test.
fn server() -> (Server, String) {
    let settings = [
        ("shared_preload_libraries", "pg_stat_statements"),
        ("log_min_duration_statement", "0"),
        ("log_line_prefix", "%m [%p] %q%u@%d "),
        ("lc_messages", "C"),
        // Its workers have transactions, too.
        ("autovacuum", "off"),
    ];
    let server = Server::start(HBA, &settings, |_| {});
    server.run("CREATE EXTENSION pg_stat_statements");
    server.run(
        "CREATE TABLE things AS SELECT i AS id, 'x' || i AS name FROM generate_series(1, 1000) i",
    );
    server.run("ANALYZE things");
    let target = format!(
        "host={} port={} user={OWNER} dbname=postgres",
        server.socket_dir.display(),
        server.port
    );
    (server, target)
}

fn watched(target: &str, folder: &Folder) -> Value {
    let words = ["watch", target, "--time", "3", "--count", "1", "--json"];
    made(&words, &folder.0)
}

#[test]
fn a_server_that_only_pgassay_visits_is_idle() {
    let (server, target) = server();
    let folder = Folder::new("idle");
    // Of nobody else's statements is any left.
    server.run("SELECT pg_stat_statements_reset()");
    for _ in 0..2 {
        let seen = watched(&target, &folder);
        let said = seen.to_string();
        for ours in [
            "/* pgassay */",
            "pg_stat_get_activity",
            "client backend",
            "transactions-failed",
        ] {
            assert!(!said.contains(ours), "{ours}: {seen:#}");
        }
        let counted = &seen["observed"]["points"][0]["counters"]["database"];
        assert!(counted.is_object(), "{seen:#}");
        assert!(counted.get("xact_rollback").is_none(), "{counted}");
        assert!(counted.get("sessions").is_none(), "{counted}");
        let transactions = counted
            .get("xact_commit")
            .map_or(0.0, |n| n.as_f64().unwrap());
        assert!(transactions < 5.0, "{counted}");
    }
    server.run("SELECT pg_stat_statements_reset()");
    let _ = watched(&target, &folder);
    let words = ["workload", "from-statements", &target, "--to", "none.sql"];
    let output = pgassay(&words, &folder.0);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(
        said.contains("no statement of the server can be made a script"),
        "{said}"
    );
    // Nothing but that of the test, which reset the counters, and what has no tag because servers count it with others'.
    let mut session = connect(&server.owner().with_application_name("shop")).unwrap();
    let others = session.value(
        "SELECT string_agg(query, '; ') FROM pg_stat_statements WHERE query NOT LIKE '%/* pgassay */%' \
         AND query NOT LIKE '%pg_stat_statements_reset%' AND query !~ '^(BEGIN|COMMIT|ROLLBACK|SET LOCAL|DEALLOCATE)'",
    );
    assert_eq!(others.unwrap(), None);
}

#[test]
fn of_a_server_that_pgassay_visits_only_the_applications_statements_are_taken() {
    let (server, target) = server();
    let folder = Folder::new("beside");
    let mut shop = connect(&server.owner().with_application_name("shop")).unwrap();
    shop.execute("SELECT pg_stat_statements_reset()").unwrap();
    for n in 1..=20 {
        shop.execute(&format!("SELECT name FROM things WHERE id = {n}"))
            .unwrap();
    }
    let _ = watched(&target, &folder);
    let words = [
        "workload",
        "from-statements",
        &target,
        "--to",
        "app.sql",
        "--json",
    ];
    let counted = made(&words, &folder.0);
    let scripts = counted["scripts"].as_array().unwrap();
    assert_eq!(scripts.len(), 1, "{counted:#}");
    assert!(!counted.to_string().contains("SET LOCAL"), "{counted:#}");
    // The server's log has ours, too, each with its tag.
    let log = server.log();
    assert!(log.contains("/* pgassay */"), "{log}");
    let untagged =
        |line: &&str| line.contains("pg_stat_get_activity") && !line.contains("/* pgassay */");
    assert_eq!(log.lines().find(untagged), None);
    std::fs::write(folder.0.join("server.log"), &log).unwrap();
    let words = [
        "workload",
        "from-log",
        "server.log",
        "--prefix",
        "%m [%p] %q%u@%d ",
        "--to",
        "log.sql",
        "--json",
    ];
    let counted = made(&words, &folder.0);
    let text = std::fs::read_to_string(folder.0.join("log.sql")).unwrap();
    assert!(text.contains("SELECT name FROM things"), "{text}");
    assert!(
        !text.contains("pgassay_kept") && !text.contains("READ ONLY"),
        "{counted:#}\n{text}"
    );
}

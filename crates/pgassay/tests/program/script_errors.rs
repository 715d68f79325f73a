//! Scripts that fail: `run` says where and why, before it makes tables where that is possible.

use std::fs;

use pgassay_pgwire::connect;

use crate::own_workload::{Folder, HBA, pgassay, runs};
use crate::pg_support::{OWNER, Server};

fn target(server: &Server) -> String {
    format!(
        "host={} port={} user={OWNER} dbname=postgres",
        server.socket_dir.display(),
        server.port
    )
}

/// Runs a script for a moment on that server; the exit code and what is said.
fn run(script: &str, flags: &[&str], server: &Server, folder: &Folder) -> (Option<i32>, String) {
    fs::write(folder.0.join("a.sql"), script).unwrap();
    let target = target(server);
    let words = [
        "run", "a.sql", &target, "--load", "-T", "1", "--trials", "1", "--warmup", "0", "-c", "1",
    ];
    let words = [&words[..], &["--runs", "runs", "--is-copy"], flags].concat();
    let output = pgassay(&words, &folder.0);
    let said = String::from_utf8_lossy(&output.stderr).replace('\n', " ");
    (output.status.code(), said)
}

#[test]
fn a_script_that_fails_is_named_with_its_line_and_what_was_said() {
    let server = Server::start(HBA, &[], |_| {});
    let folder = Folder::new("script-errors");
    for (script, flags, code, says) in [
        // Before tables are made.
        (
            "SELECT 1;\n\\set a random(1, :wanted)\nSELECT :a;",
            &[][..],
            2,
            "a.sql:2: \\set a random(1, :wanted): undefined variable \"wanted\"",
        ),
        (
            "\\set a random_zipfian(1, 10, 0.99)\nSELECT :a;",
            &[],
            2,
            "a.sql:1: \\set a random_zipfian(1, 10, 0.99): zipfian",
        ),
        (
            "\\set a 1 / 0\nSELECT :a;",
            &[],
            2,
            "a.sql:1: \\set a 1 / 0: division by zero",
        ),
        (
            "SELECT 1;\n\nSELEC 2;",
            &[],
            2,
            "a.sql:3: SELEC 2: ERROR: syntax error at or near \"SELEC\" (SQLSTATE 42601)",
        ),
        // With them.
        (
            "\\set a 1\nSELECT :b;",
            &["-M", "simple"],
            4,
            "a.sql:2: SELECT :b: ERROR: syntax error",
        ),
        (
            "SELECT relname FROM pg_class LIMIT 2 \\gset\nSELECT 1;",
            &[],
            2,
            "a.sql:1: SELECT relname FROM pg_class LIMIT 2: \\gset: expected one row, got 2",
        ),
        (
            "SELECT 1 AS a WHERE false \\gset\nSELECT 1;",
            &[],
            2,
            "\\gset: expected one row, got 0",
        ),
        (
            "\\setshell a echo no\nSELECT 1;",
            &[],
            2,
            "a.sql:1: \\setshell a echo no: echo: shell command must return an integer",
        ),
        (
            "BEGIN;\nSELECT 1;",
            &[],
            2,
            "end of script reached without completing the last transaction",
        ),
        (
            "SELECT 1;\nSELECT * FROM nowhere;",
            &[],
            4,
            "a.sql:2: SELECT * FROM nowhere: ERROR: relation \"nowhere\" does not exist (SQLSTATE 42P01)",
        ),
        (
            "SELECT 1 / (SELECT 0);",
            &[],
            4,
            "division by zero (SQLSTATE 22012)",
        ),
        (
            "SET statement_timeout = 5;\nSELECT pg_sleep(1);",
            &[],
            4,
            "a.sql:2: SELECT pg_sleep(1): ERROR: canceling statement due to statement timeout",
        ),
    ] {
        let (found, said) = run(script, flags, &server, &folder);
        assert_eq!(found, Some(code), "{script}: {said}");
        assert!(said.contains(says), "{script}: {said}");
        assert!(
            !said.contains("was lost") && !said.contains("psql"),
            "{script}: {said}"
        );
        let mut session = connect(&server.owner()).unwrap();
        let left = session.value("SELECT to_regnamespace('pgassay')").unwrap();
        assert_eq!(left, None, "{script}");
    }
}

#[test]
fn of_several_scripts_the_one_that_fails_is_named() {
    let server = Server::start(HBA, &[], |_| {});
    let folder = Folder::new("script-of-several");
    fs::write(
        folder.0.join("b.sql"),
        "SELECT 1;\nSELECT 1 / (SELECT 0);\n",
    )
    .unwrap();
    fs::write(folder.0.join("c.sql"), "\\set a 5 / 0\nSELECT :a;\n").unwrap();
    let more = |file: &str| {
        let target = target(&server);
        fs::write(folder.0.join("a.sql"), "SELECT 1;\n").unwrap();
        let words = [
            "run",
            "a.sql@1",
            &target,
            "-f",
            file,
            "--load",
            "--is-copy",
            "-T",
            "1",
            "--trials",
            "1",
        ];
        let words = [
            &words[..],
            &["--warmup", "0", "-c", "1", "--runs", "runs", "--verbose"],
        ]
        .concat();
        let output = pgassay(&words, &folder.0);
        let all = [output.stdout, output.stderr].concat();
        String::from_utf8_lossy(&all)
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    };
    let said = more("c.sql@2");
    assert!(
        said.contains("c.sql:1: \\set a 5 / 0: division by zero"),
        "{said}"
    );
    let said = more("b.sql@2");
    assert!(
        said.contains("b.sql:2: SELECT 1 / (SELECT 0): ERROR: division by zero (SQLSTATE 22012)"),
        "{said}"
    );
}

/// A statement of a client that declares the types of its parameters, and the values of each execution.
type Typed<'a> = (&'a str, [&'a [&'a str]; 2]);

#[test]
fn a_load_of_a_client_that_declares_types_runs_prepared() {
    let server = Server::start(HBA, &[], |_| {});
    let folder = Folder::new("declared-types");
    server.run("CREATE TABLE item (id int PRIMARY KEY, name varchar, since date, price numeric)");
    server
        .run("INSERT INTO item SELECT g, 'n' || g, '2026-01-01', g FROM generate_series(1, 50) g");
    let all: &[Typed<'_>] = &[
        (
            "SELECT id FROM item WHERE id > $1 AND id <= $2 + $3",
            [&["0", "0", "29"], &["10", "5", "20"]],
        ),
        (
            "SELECT now() - $1, name FROM item WHERE id = $2",
            [&["1 day", "3"], &["01:30:00", "4"]],
        ),
        (
            "SELECT $1 IS NULL, id FROM item WHERE id = $2",
            [&["3", "1"], &["4", "2"]],
        ),
        (
            "SELECT id FROM item WHERE ($1 IS NULL OR id = $2)",
            [&["3", "1"], &["4", "2"]],
        ),
        (
            "SELECT count(*) FROM generate_series($1, $2)",
            [&["1", "9"], &["2", "7"]],
        ),
        (
            "SELECT since + $1, to_char($2, 'YYYY') FROM item WHERE id = 1",
            [
                &["1", "2026-01-01 10:00:00+00"],
                &["2", "2026-01-02 10:00:00+00"],
            ],
        ),
        (
            "SELECT jsonb_build_object('k', $1), id FROM item WHERE id = $2",
            [&["it's", "1"], &["a\\b", "2"]],
        ),
        (
            "SELECT $1 - $2 FROM item WHERE id = 1",
            [&["2026-01-03", "1"], &["2026-01-04", "2"]],
        ),
        (
            "SELECT unnest($1) FROM item WHERE id = 1",
            [&["{1,2}"], &["{3}"]],
        ),
        (
            "UPDATE item SET price = price * ($1 + $2), name = $3 WHERE id = $4",
            [&["1.5", "2", "12", "7"], &["1", "2", "x", "8"]],
        ),
        ("SELECT id FROM item WHERE name = $1", [&["12"], &["13"]]),
        (
            "SELECT id FROM item WHERE id = ANY($1) LIMIT $2",
            [&["{1,2}", "3"], &["{4}", "1"]],
        ),
    ];
    let mut log = String::new();
    for (n, (text, executions)) in all.iter().enumerate() {
        for (m, values) in executions.iter().enumerate() {
            let values: Vec<String> = (1..)
                .zip(*values)
                .map(|(k, value)| format!("${k} = '{}'", value.replace('\'', "''")))
                .collect();
            let head = format!("2026-05-01 03:{n:02}:{m:02}.100 UTC [71] app@shop");
            log += &format!("{head} LOG:  duration: 0.4 ms  execute <unnamed>: {text}\n");
            log += &format!("{head} DETAIL:  parameters: {}\n", values.join(", "));
        }
    }
    log += "2026-05-01 04:00:00.100 UTC [71] app@shop LOG:  checkpoint complete\n";
    fs::write(folder.0.join("a.log"), log).unwrap();
    let made = pgassay(
        &["workload", "from-log", "a.log", "--to", "a.sql"],
        &folder.0,
    );
    assert_eq!(made.status.code(), Some(0), "{made:?}");
    let script = fs::read_to_string(folder.0.join("a.sql")).unwrap();
    assert!(script.contains("@protocol prepared"), "{script}");
    assert!(
        script.contains(":p2 + :p3") && !script.contains("::integer"),
        "{script}"
    );
    let (failed, all) = runs("a.sql", &server, &folder.0);
    assert!(failed == 0.0 && all > 0.0, "{failed} of {all}");
}

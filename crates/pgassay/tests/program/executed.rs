//! Statements of a load of ours that are executed once more, to see what their plans do: with the load's values, within
//! functions too, and nothing of it stays.

use std::fs;

use pgassay_pgwire::connect;
use serde_json::Value;

use crate::pg_support::{OWNER, Server};
use crate::runs::{Runs, text};

const TABLES: &str = "
CREATE TABLE part AS SELECT g AS id, g % 400 AS grp, g % 7 AS n FROM generate_series(1, 40000) g;
CREATE INDEX ON part (grp);
CREATE TABLE tally (program text, which int);
CREATE FUNCTION total(which int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE t bigint := 0;
BEGIN
  FOR i IN 1 .. 150 LOOP t := t + (SELECT sum(n) FROM public.part WHERE grp = which + i); END LOOP;
  INSERT INTO public.tally VALUES (current_setting('application_name'), which);
  RAISE LOG 'total for %', current_setting('application_name');
  RETURN t;
END $$;
CREATE TABLE skew AS SELECT CASE WHEN g <= 36000 THEN 0 ELSE g END AS v FROM generate_series(1, 40000) g;
CREATE INDEX ON skew (v);
ANALYZE";

/// Ten rows of a table joined with all of it by a column of seven values.
const JOINED: &str = "SELECT count(*) FROM public.part a JOIN public.part b ON a.n + 0 = b.n WHERE a.grp = :g AND a.id <= 4000";
const CALLED: &str = "SELECT public.total(:g)";
const SLEPT: &str = "SELECT count(pg_sleep(0.005)) FROM public.skew WHERE v = :v";

/// Runs a load of one statement, and gives what was seen of it and found.
fn observed(server: &Server, runs: &Runs, statement: &str, more: &[&str]) -> Value {
    fs::create_dir_all(&runs.0).unwrap();
    let script = runs.0.join("inside.sql");
    let draws = "\\set g random(1, 200)\n\\set v random(36001, 40000)\n";
    fs::write(&script, format!("{draws}{statement};\n")).unwrap();
    let uri = format!(
        "host={} port={} user={OWNER} dbname=postgres",
        server.socket_dir.display(),
        server.port
    );
    let words = [
        "run",
        script.to_str().unwrap(),
        &uri,
        "--load",
        "--is-copy",
        "--json",
        "--clients",
        "2",
        "--trials",
        "2",
        "--time",
        "1",
        "--warmup",
        "0.3",
        "--observe",
        "waits",
    ];
    let output = runs.run(&[&words[..], more].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    serde_json::from_slice::<Value>(&output.stdout).unwrap()["stages"][0].take()
}

/// The plan of the statement that was seen most.
fn plan(stage: &Value) -> &Value {
    let point = &stage["arms"][0]["observed"]["points"][0];
    let first = &point["statements"]["statements"][0];
    assert!(first["plan"].is_object(), "{first:#}");
    &first["plan"]
}

/// What was found, by its id.
fn found<'a>(stage: &'a Value, id: &str) -> &'a str {
    let findings = stage["diagnosis"]["findings"].as_array().unwrap();
    let found = findings.iter().find(|f| f["id"] == id);
    let found = found.unwrap_or_else(|| panic!("{findings:#?}"));
    found["saw"].as_str().unwrap()
}

#[test]
fn what_plans_do_is_counted_within_functions_too_and_nothing_stays() {
    let server = Server::start("local all all trust\n", &[], |_| {});
    server.run(TABLES);
    let runs = Runs::new("executed");

    let stage = observed(&server, &runs, JOINED, &[]);
    let joined = plan(&stage);
    assert_eq!(joined["root"]["actual_rows"], 1.0, "{joined:#}");
    assert!(joined["executed"]["ms"].as_f64().unwrap() > 0.0);
    // Of either side what it gave: ten rows of the one, all of the other.
    let text = joined.to_string();
    assert!(text.contains("\"actual_rows\":10.0"), "{joined:#}");
    assert!(text.contains("\"actual_rows\":40000.0"), "{joined:#}");

    let stage = observed(&server, &runs, CALLED, &[]);
    let called = plan(&stage);
    let inner = &called["executed"]["inner"][0];
    assert_eq!(inner["calls"], 150, "{called:#}");
    assert!(
        inner["text"].as_str().unwrap().contains("sum(n)"),
        "{inner:#}"
    );
    assert!(inner["root"]["work"]["ms"].is_number(), "{inner:#}");
    assert!(found(&stage, "plan-node/within-functions").contains("150 calls"));

    // It ran for us, and what it wrote was taken back.
    let log = server.log();
    assert!(log.contains("total for pgassay observer\n"), "{log}");
    let mut session = connect(&server.owner()).unwrap();
    let stayed =
        "SELECT count(*) FILTER (WHERE program = 'pgassay observer'), count(*) > 0 FROM tally";
    let rows = session.rows(stayed).unwrap().rows;
    assert_eq!(rows, [[Some("0".to_owned()), Some("t".to_owned())]]);
}

/// Most rows have one value, the others a value each: a generic plan expects ten, a custom one a single row.
#[test]
fn the_plan_is_the_one_that_the_loads_sessions_get() {
    let server = Server::start("local all all trust\n", &[], |_| {});
    server.run(TABLES);
    server.run("ALTER DATABASE postgres SET plan_cache_mode = force_generic_plan");
    let runs = Runs::new("executed-generic");
    let expected = |protocol: &str| {
        let stage = observed(&server, &runs, SLEPT, &["--protocol", protocol]);
        let scan = &plan(&stage)["root"]["nodes"][0];
        assert_eq!(scan["actual_rows"], 1.0, "{scan:#}");
        scan["rows"].as_f64().unwrap()
    };
    assert!(expected("prepared") >= 5.0);
    assert!(expected("simple") <= 2.0);
}

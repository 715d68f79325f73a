//! `pgassay query` without an engine, and with one that is made up: what is asked, shown and said. Real engines are
//! asked by scripts/test-records.sh.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use pgassay_records::{Archive, Of, QUERIES, Rows};
use serde_json::Value;

use crate::compare::fixture::Made;
use crate::runs::{Runs, text};

/// The program in a directory of its own, where no engine is beside it, and tables.
struct Place {
    runs: Runs,
    own: PathBuf,
}

impl Place {
    fn new(name: &str) -> Self {
        let runs = Runs::new(name);
        let tables = runs.0.join("tables");
        let mut run = Made {
            pairs: 8,
            ..Made::default()
        }
        .run();
        run.header.id = "20261121T030000Z-a".to_owned();
        run.header.started = "2026-11-21T03:00:00.000Z".to_owned();
        let of = Of {
            analysed_by: "0.0.0",
            host: None,
        };
        let mut archive = Archive::open(&tables).unwrap().expect("nobody else writes");
        archive.add(&Rows::of(&run, of).unwrap()).unwrap();
        archive.finish().unwrap();
        let own = Path::new(env!("CARGO_TARGET_TMPDIR")).join(runs.0.file_name().unwrap());
        fs::create_dir_all(own.join("path")).unwrap();
        fs::hard_link(env!("CARGO_BIN_EXE_pgassay"), own.join("pgassay")).unwrap();
        Self { runs, own }
    }

    /// An engine that answers with these lines.
    fn engine(&self, lines: &str) {
        self.script(&format!(
            "cat > \"$0.asked\"\necho \"$@\" > \"$0.told\"\ncat <<'END'\n{lines}\nEND\n"
        ));
    }

    fn script(&self, text: &str) {
        let path = self.own.join("path/pgassay-query");
        fs::write(&path, format!("#!/bin/sh\nPATH=/bin:/usr/bin\n{text}")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn ask(&self, words: &[&str]) -> Output {
        let mut command = Command::new(self.own.join("pgassay"));
        let dir = self.runs.0.join("tables");
        command.arg("query").args(words).current_dir(dir);
        command
            .env("PATH", self.own.join("path"))
            .env("COLUMNS", "100");
        command.output().expect("the program starts")
    }

    fn shown(&self, words: &[&str]) -> String {
        let output = self.ask(words);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    }

    fn refused(&self, words: &[&str]) -> (i32, String) {
        let output = self.ask(words);
        (output.status.code().unwrap(), text(&output.stderr))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.own);
    }
}

const LINES: &str = r#"{"engine":"x","columns":[{"name":"work","type":"text"},{"name":"n","type":"int"},{"name":"rate","type":"float"},{"name":"at","type":"time"}]}
["select-only, scale 1",12,1234.56789,1704240000000000]
["=1+1\u001b[2J",null,null,null]
{"rows":2}"#;

#[test]
fn an_answer_is_shown_in_each_form() {
    let place = Place::new("query-shown");
    place.engine(LINES);
    let table = place.shown(&["SELECT 1"]);
    assert!(
        table.contains("1234.57") && table.contains("2024-01-03T00:00:00Z"),
        "{table}"
    );
    assert!(!table.contains('\u{1b}') && table.contains('–'), "{table}");
    let csv = place.shown(&["SELECT 1", "--format", "csv"]);
    assert_eq!(
        csv,
        "work,n,rate,at\n\"select-only, scale 1\",12,1234.56789,2024-01-03T00:00:00Z\n\
         '=1+1\u{fffd}[2J,,,\n"
    );
    let json = place.shown(&["SELECT 1", "--format", "json"]);
    let rows: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(rows[0]["rate"], 1234.56789);
    assert_eq!(rows[0]["at"], "2024-01-03T00:00:00Z");
    assert_eq!(rows[1]["work"], "=1+1\u{1b}[2J");
    assert!(rows[1]["n"].is_null() && rows.as_array().unwrap().len() == 2);
}

#[test]
fn the_engine_is_told_what_was_asked() {
    let place = Place::new("query-told");
    place.engine(LINES);
    let told = |name: &str| fs::read_to_string(place.own.join("path").join(name)).unwrap();
    place.shown(&["SELECT 'ö' AS a; -- done", "--memory", "512MB"]);
    assert_eq!(told("pgassay-query.asked"), "SELECT 'ö' AS a");
    let dir = fs::canonicalize(place.runs.0.join("tables")).unwrap();
    assert_eq!(
        told("pgassay-query.told"),
        format!("{} --memory 512\n", dir.display())
    );
    for query in QUERIES {
        place.shown(&["--name", query.name, "."]);
        assert_eq!(told("pgassay-query.asked"), query.sql.trim_end());
    }
    fs::write(place.runs.0.join("mine.sql"), "select 7\n").unwrap();
    place.shown(&["-f", "../mine.sql", dir.to_str().unwrap()]);
    assert_eq!(told("pgassay-query.asked"), "select 7");
}

#[test]
fn questions_that_come_with_it_are_listed() {
    let place = Place::new("query-list");
    let list = place.shown(&["--list"]);
    assert_eq!(list.lines().count(), QUERIES.len());
    assert!(
        list.contains("lost-trials  How many trials are lost"),
        "{list}"
    );
}

#[test]
fn what_is_wrong_is_said_with_its_remedy() {
    let place = Place::new("query-wrong");
    // Without an engine: all ways to have one.
    let (code, said) = place.refused(&["SELECT 1"]);
    assert_eq!(code, 3, "{said}");
    for remedy in ["make query-engine", "pip install duckdb"] {
        assert!(said.contains(remedy), "{said}");
    }
    for (engine, remedy) in [
        ("datafusion", "make query-engine"),
        ("duckdb", "pip install duckdb"),
    ] {
        let (code, said) = place.refused(&["SELECT 1", "--engine", engine]);
        assert!(code == 3 && said.contains(remedy), "{engine}: {said}");
    }
    place.engine(LINES);
    for (words, said_of) in [
        (&[][..], "no question was given"),
        (&["--name", "nothing"], "versions"),
        (&["SELECT 1", "/no/such"], "no tables are in /no/such"),
        (&["SELECT 1", "/"], "pgassay export"),
        (&["DELETE FROM runs"], "begins with SELECT"),
        (&["SELECT 1; SELECT 2"], "several statements"),
        (&["--name", "versions", "SELECT 1", "."], "one too many"),
        (&["-f", "/no/such", "."], "--file /no/such"),
        (&["SELECT 1", "--memory", "much"], "no size"),
    ] {
        let (code, said) = place.refused(words);
        assert!(code == 2 && said.contains(said_of), "{words:?}: {said}");
    }
    for (line, code, words) in [
        (
            r#"{"error":"nothing","kind":"table"}"#,
            2,
            "there is no table nothing",
        ),
        (r#"{"error":"syntax","kind":"sql"}"#, 2, "docs/records.md"),
        (
            r#"{"error":"points/date=2026-11-21/points.parquet: bad","kind":"damaged"}"#,
            2,
            "export the runs of that day",
        ),
        (r#"{"error":"much","kind":"memory"}"#, 2, "--memory 8GB"),
        (r#"{"error":"oh","kind":"fault"}"#, 70, "oh"),
        // A table without files, and an answer that is cut short, or is none.
        (r#"{"error":"x","kind":"none"}"#, 2, "has no files"),
        (
            "{\"columns\":[{\"name\":\"a\",\"type\":\"int\"}]}\n[1]",
            70,
            "the engine failed",
        ),
        ("hello", 70, "does not know"),
    ] {
        place.engine(line);
        let (ended, said) = place.refused(&["SELECT 1"]);
        assert!(
            ended == code && said.contains(words),
            "{line}: {ended} {said}"
        );
    }
    let twice = "{\"columns\":[{\"name\":\"a\",\"type\":\"int\"},{\"name\":\"a\",\"type\":\"int\"}]}\n\
        [1,2]\n{\"rows\":1}";
    place.engine(twice);
    let (code, said) = place.refused(&["SELECT 1", "--format", "json"]);
    assert!(
        code == 2 && said.contains("two columns are named a"),
        "{said}"
    );
    assert_eq!(place.shown(&["SELECT 1", "--format", "csv"]), "a,a\n1,2\n");
    place.script("cat > /dev/null\necho 'memory allocation of 9 bytes failed' >&2\nkill -ABRT $$");
    let (code, said) = place.refused(&["SELECT 1"]);
    assert!(code == 2 && said.contains("--memory"), "{said}");
}

#[test]
fn tables_of_a_newer_program_and_damaged_ones_are_refused() {
    let place = Place::new("query-damaged");
    place.engine(LINES);
    let file = place
        .runs
        .0
        .join("tables/runs/date=2026-11-21/runs.parquet");
    let whole = fs::read(&file).unwrap();
    fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    let (code, said) = place.refused(&["SELECT 1"]);
    assert!(
        code == 2 && said.contains("date=2026-11-21/runs.parquet"),
        "{said}"
    );
}

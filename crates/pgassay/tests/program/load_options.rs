//! Rows of a file, a rate that changes, and percentiles by statement, on a real server and in what is recorded.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

use crate::support::bench;

struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("pga-options-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pgassay"));
        command.args(args).args(["--runs", "runs"]);
        command.current_dir(&self.0).output().unwrap()
    }

    fn done(&self, args: &[&str]) -> String {
        let output = self.run(args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?}: {said}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Every value arrives as it stands in the file, and every row does.
const SCRIPT: &str = "\
-- @setup CREATE TABLE got (id int, note text, code text)
-- @condition values: SELECT bool_and((note IS NULL) = (id = 4) AND note IS DISTINCT FROM '' \
AND code = '00' || id) FROM got
-- @condition all rows: SELECT count(DISTINCT id) = 4 FROM got
\\draw id code note from file rows.csv header in order
INSERT INTO got VALUES (:id, :note, :code);
SELECT 1 / (:id % 4);
";
const ROWS: &str =
    "note,id,code\n\"it's\na \"\"note\"\"\",1,001\n\\x,2,002\nupdate,3,003\n,4,004\n";

#[test]
fn values_of_a_file_at_a_rate_that_changes_are_told_by_statement() {
    let bench = bench();
    let place = Place::new("rows");
    let server = bench.cluster.conninfo();
    fs::write(place.0.join("mine.sql"), SCRIPT).unwrap();
    fs::write(place.0.join("rows.csv"), ROWS).unwrap();
    let load = [
        "run",
        "mine.sql",
        &server,
        "--load",
        "--clients",
        "2",
        "--time",
        "1",
        "--warmup",
        "0.2",
        "--trials",
        "2",
        "--rate",
        "40..400",
        "-r",
        "--json",
    ];
    for protocol in ["simple", "prepared"] {
        let mut args = load.to_vec();
        args.extend(["--protocol", protocol]);
        let analysis: Value = serde_json::from_str(&place.done(&args)).unwrap();
        let stage = &analysis["stages"][0];
        let dials = &stage["plan"]["workload"]["dials"];
        assert_eq!(
            (&dials["rate_tps"], &dials["rate_end_tps"]),
            (&40.0.into(), &400.0.into())
        );
        let point = &stage["arms"][0]["points"][0];
        // The row with 4 fails, and no other.
        assert_eq!(point["failures"][0][0], "22012");
        assert_eq!(point["failures"].as_array().unwrap().len(), 1);
        let ramp = point["detail"]["ramp"].as_array().unwrap();
        assert_eq!(ramp.len(), 10);
        assert_eq!(ramp[0]["rate_tps"], 58.0);
        assert_eq!(ramp[9]["rate_tps"], 382.0);
        let statements = &point["detail"]["scripts"][0]["statements"];
        assert_eq!(statements.as_array().unwrap().len(), 3);
    }
    let text = place.done(&["report", "last"]);
    for said in [
        "Throughput and latency by rate",
        "Latency by statement",
        "… 2: INSERT INTO got",
        "INSERT INTO got VALUES (:id, :note, :code)",
    ] {
        assert!(text.contains(said), "{said} in {text}");
    }
    // The run holds its rows.
    fs::remove_file(place.0.join("rows.csv")).unwrap();
    fs::remove_file(place.0.join("mine.sql")).unwrap();
    let again = place.done(&["run", "--repeat", "last", "--json"]);
    let again: Value = serde_json::from_str(&again).unwrap();
    assert!(again["stages"][0]["arms"][0]["points"][0]["detail"]["ramp"][9].is_object());
}

#[test]
fn rows_that_do_not_fit_are_refused_before_anything_runs() {
    let place = Place::new("unfit");
    fs::write(place.0.join("mine.sql"), SCRIPT).unwrap();
    for (rows, said) in [
        (None, "line 4: rows.csv: can't be read"),
        (Some("id,note\n1,a\n"), "no column `code`"),
        (Some("id,note,code\n"), "no rows"),
    ] {
        if let Some(rows) = rows {
            fs::write(place.0.join("rows.csv"), rows).unwrap();
        }
        for args in [
            &["run", "mine.sql"][..],
            &["pgbench", "-n", "-f", "mine.sql"],
        ] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_pgassay"));
            let output = command.args(args).current_dir(&place.0).output().unwrap();
            let told = String::from_utf8_lossy(&output.stderr);
            assert!(!output.status.success(), "{args:?}");
            assert!(told.contains(said), "{args:?}: {said} in {told}");
        }
    }
}

#[test]
fn scripts_with_clients_of_their_own_are_reported_by_themselves() {
    let bench = bench();
    let place = Place::new("own-clients");
    let server = bench.cluster.conninfo();
    let report = "SELECT count(*), sum(abalance) FROM pgbench_accounts;\n";
    fs::write(place.0.join("report.sql"), report).unwrap();
    let args = [
        "run",
        "select-only",
        &server,
        "--load",
        "--clients",
        "1,3",
        "--time",
        "0.5",
        "--trials",
        "2",
        "--scale",
        "1",
        "--concurrent",
        "report.sql@2",
        "--json",
    ];
    let analysis: Value = serde_json::from_str(&place.done(&args)).unwrap();
    let stage = &analysis["stages"][0];
    assert_eq!(stage["plan"]["workload"]["scripts"][1]["clients"], 2);
    let points = stage["arms"][0]["points"].as_array().unwrap();
    for (point, clients) in points.iter().zip([1, 3]) {
        assert_eq!(point["point"]["clients"], clients);
        let scripts = &point["detail"]["scripts"];
        assert_eq!(scripts[1]["own_clients"], 2);
        assert!(scripts[1]["throughput_tps"].as_f64() > Some(0.0));
        // What all clients of the point did is the other script's.
        let main = scripts[0]["transactions"].as_u64().unwrap();
        let count = point["detail"]["all"]["count"].as_u64().unwrap();
        let first = point["detail"]["first"]["count"].as_u64().unwrap_or(0);
        assert!(
            count <= main && main <= count + first + clients,
            "{main} {count} {first}"
        );
    }
    // Sent by all is committed by all.
    let warnings = analysis["warnings"].to_string();
    assert!(!warnings.contains("commits"), "{warnings}");
    let text = place.done(&["report", "last"]);
    assert!(text.contains("1 client + 2: report"), "{text}");
    let again = place.done(&["run", "--repeat", "last", "--json"]);
    let again: Value = serde_json::from_str(&again).unwrap();
    assert_eq!(again["stages"][0]["plan"], stage["plan"].clone());
    let refused = place.run(&[
        "run",
        "select-only",
        &server,
        "--load",
        "--concurrent",
        "report.sql",
    ]);
    assert_eq!(refused.status.code(), Some(2));
}

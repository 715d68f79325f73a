//! Runs as tables: what `pgassay export` writes, keeps and refuses, and what docs/records.md says of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use pgassay_analysis::history::Past;
use pgassay_model::axis::AxisValue;
use pgassay_model::record::RecordedRun;
use pgassay_model::run::{EndState, EventKind};
use pgassay_model::stage::StageId;
use pgassay_records::{Added, Archive, Error, Of, QUERIES, Rows, TABLES, markdown, past, trino};

use crate::compare::fixture::Made;
use crate::runs::Runs;
use crate::serve;

const OF: Of = Of {
    analysed_by: "0.0.0",
    host: Some("here"),
};

fn compared(id: &str, started: &str) -> RecordedRun {
    let mut run = Made {
        pairs: 8,
        ..Made::default()
    }
    .run();
    run.header.id = id.to_owned();
    run.header.started = started.to_owned();
    run
}

pub fn rows(id: &str, started: &str) -> Rows {
    Rows::of(&compared(id, started), OF).unwrap()
}

pub fn write(dir: &Path, all: &[&Rows]) -> Vec<Added> {
    // A process that another test has just forked holds the lock, too, until it executes its program.
    let until = Instant::now() + Duration::from_secs(20);
    let mut archive = loop {
        if let Some(archive) = Archive::open(dir).unwrap() {
            break archive;
        }
        assert!(Instant::now() < until, "somebody else writes");
        sleep(Duration::from_millis(1));
    };
    let added = all.iter().map(|rows| archive.add(rows).unwrap()).collect();
    archive.finish().unwrap();
    added
}

/// All files below a directory, with their inodes.
pub fn files(dir: &Path) -> BTreeMap<PathBuf, u64> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap().flatten() {
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(files(&entry.path())),
            false => {
                found.insert(entry.path(), entry.metadata().unwrap().ino());
            }
        }
    }
    found
}

pub fn at(dir: &Path, table: &str, date: &str) -> PathBuf {
    dir.join(format!("{table}/date={date}/{table}.parquet"))
}

/// The names of the runs that the tables have.
fn named(dir: &Path) -> Vec<String> {
    let runs = past(dir).unwrap();
    runs.into_iter().map(|run| run.entry.run).collect()
}

#[test]
fn the_documentation_is_made_from_the_tables_and_the_queries() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/records.md");
    let text = fs::read_to_string(&path).unwrap();
    let mut whole = text.clone();
    let queries: String = QUERIES
        .iter()
        .map(|query| {
            let sql: Vec<&str> = query.sql.lines().skip(1).collect();
            let (name, question) = (query.name, query.question());
            format!(
                "### {name}\n\n{question}\n\n```sql\n{}\n```\n\n",
                sql.join("\n")
            )
        })
        .collect();
    for (part, made) in [("tables", markdown()), ("queries", queries)] {
        let (begin, end) = (format!("<!-- {part} -->\n"), format!("<!-- /{part} -->\n"));
        let (before, rest) = whole.split_once(&begin).expect("its beginning is marked");
        let (_, after) = rest.split_once(&end).expect("its end is marked");
        whole = format!("{before}{begin}\n{made}{end}{after}");
    }
    let statements = path.with_file_name("trino.sql");
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, &whole).unwrap();
        fs::write(&statements, trino()).unwrap();
    } else {
        let anew = "write it anew: BLESS=1, and read the difference";
        assert_eq!(text, whole, "{anew}");
        assert_eq!(
            fs::read_to_string(&statements).unwrap_or_default(),
            trino(),
            "{anew}"
        );
    }
}

#[test]
fn tables_and_queries_are_well_made() {
    let names: BTreeSet<&str> = TABLES.iter().map(|table| table.name).collect();
    assert_eq!(names.len(), TABLES.len());
    for table in TABLES {
        let columns: BTreeSet<&str> = table.columns.iter().map(|c| c.name).collect();
        assert_eq!(columns.len(), table.columns.len(), "{}", table.name);
        assert_eq!(table.columns.iter().filter(|c| c.name == "run").count(), 1);
        for column in table.columns {
            assert!(
                column.about.trim().ends_with('.') || column.about.contains('`'),
                "{column:?}"
            );
        }
    }
    // What has a list of its own, being no part of this workspace.
    for other in ["engines/query/src/tables.rs", "bench/records_engines.py"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../..")
            .join(other);
        let text = fs::read_to_string(path).unwrap();
        let missing = names
            .iter()
            .find(|name| !text.contains(&format!("\"{name}\"")));
        assert_eq!(missing, None, "{other}");
    }
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../results/records/queries");
    assert_eq!(fs::read_dir(dir).unwrap().count(), QUERIES.len());
    for query in QUERIES {
        assert!(
            query.sql.starts_with("-- ") && query.question().ends_with(['?', '.']),
            "{query:?}"
        );
    }
}

#[test]
fn a_comparison_comes_out_whole() {
    let run = compared("20261121T030000Z-a", "2026-11-21T03:00:00.000Z");
    let rows = Rows::of(&run, OF).unwrap();
    assert_eq!(rows.run.state, "complete");
    assert_eq!(rows.run.stage, "load");
    assert!(rows.run.verdict.is_some());
    assert_eq!(rows.servers.len(), 2);
    let throughput = rows.pairs.iter().filter(|pair| pair.metric == "throughput");
    assert_eq!(throughput.clone().filter(|p| p.phase == "pairs").count(), 8);
    assert_eq!(throughput.filter(|p| p.phase == "noise").count(), 12);
    assert_eq!(rows.trials.len(), run.trials.len());
    assert!(rows.trials.iter().all(|trial| trial.counted));
    assert!(
        rows.metrics
            .iter()
            .any(|m| m.trial.is_none() && m.metric == "p99")
    );
    // What is followed of the tables is what is followed of the run.
    let dir = Runs::new("export-past");
    write(&dir.0, &[&rows]);
    let mut read = past(&dir.0).unwrap().remove(0);
    let mut wanted = Past::of(&pgassay_analysis::compare::conclude(&run).unwrap().analysis);
    for place in read.places.iter_mut().chain(&mut wanted.places) {
        for estimate in place.metrics.values_mut() {
            estimate.warnings.clear();
        }
    }
    assert_eq!(read, wanted);
}

#[test]
fn a_run_over_axes_is_known_again_as_one() {
    let dir = Runs::new("export-axes");
    let mut run = compared("20261121T030000Z-axes", "2026-11-21T03:00:00Z");
    run.comparison = None;
    run.header.command = "run".to_owned();
    for (arm, scale) in run.header.experiment.arms.iter_mut().zip(["1", "10"]) {
        arm.axes = vec![AxisValue {
            axis: "scale".to_owned(),
            value: scale.to_owned(),
            number: scale.parse().ok(),
        }];
    }
    let rows = Rows::of(&run, OF).unwrap();
    assert!(
        rows.run.work.ends_with("with scale 1, 10") && !rows.run.work.contains("at scale"),
        "{}",
        rows.run.work
    );
    write(&dir.0, &[&rows]);
    let read = past(&dir.0).unwrap().remove(0);
    let wanted = Past::of(&pgassay_analysis::analyse(&run));
    assert!(read.varied && wanted.varied);
    assert_eq!(read.work, wanted.work);
}

#[test]
fn every_lost_trial_says_why() {
    let mut run = compared("20261121T030000Z-lost", "2026-11-21T03:00:00Z");
    run.comparison = None;
    run.header.command = "run".to_owned();
    run.header.experiment.arms.truncate(1);
    run.trials.retain(|trial| trial.slice.arm == 0);
    let stage = &mut run.header.experiment.stages[0];
    let planned = run.trials.len() as u32 + 5;
    stage.plan.trials = planned;
    run.trials[0].cut_short = Some("the server went away".to_owned());
    if let Some(end) = &mut run.end {
        end.state = EndState::ServerDied;
        end.reason = Some("it crashed".to_owned());
    }
    let rows = Rows::of(&run, OF).unwrap();
    assert_eq!(rows.trials.len() as u32, planned);
    let lost = |kind: &str| {
        let of_kind = rows
            .trials
            .iter()
            .filter(|t| t.lost.as_deref() == Some(kind));
        of_kind.collect::<Vec<_>>()
    };
    assert_eq!(lost("cut-short").len(), 1);
    assert_eq!(
        lost("cut-short")[0].why.as_deref(),
        Some("the server went away")
    );
    assert_eq!(lost("server-died").len(), 5);
    assert!(
        lost("server-died")
            .iter()
            .all(|t| t.trial.is_none() && t.throughput.is_none())
    );
    // A point that could not be reached has its own reason.
    run.events.push(pgassay_model::run::Event {
        at: String::new(),
        what: EventKind::PointSkipped {
            stage: StageId::Load,
            point: 0,
            reason: "too many clients".to_owned(),
        },
    });
    let rows = Rows::of(&run, OF).unwrap();
    let skipped = rows
        .trials
        .iter()
        .filter(|t| t.lost.as_deref() == Some("point-skipped"));
    assert_eq!(skipped.count(), 5);
}

#[test]
fn a_run_that_was_killed_at_once_is_a_row() {
    let mut run = compared("20261121T030000Z-killed", "2026-11-21T03:00:00Z");
    run.comparison = None;
    run.trials.clear();
    run.servers.clear();
    run.end = None;
    run.damage = vec!["facts/host.json is cut short".to_owned()];
    let rows = Rows::of(&run, OF).unwrap();
    assert_eq!(rows.run.state, "interrupted");
    assert!(rows.run.reason.as_ref().unwrap().contains("cut short"));
    assert!(rows.points.is_empty() && !rows.trials.is_empty());
    run.header.started = "yesterday".to_owned();
    assert!(Rows::of(&run, OF).is_none());
}

#[test]
fn appending_again_changes_nothing_and_another_result_replaces_the_rows() {
    let dir = Runs::new("export-again");
    let dir = &dir.0;
    let a = rows("20261121T030000Z-a", "2026-11-21T03:00:00Z");
    let b = rows("20261121T040000Z-b", "2026-11-21T04:00:00Z");
    let c = rows("20261122T040000Z-c", "2026-11-22T04:00:00Z");
    assert_eq!(write(dir, &[&a, &b, &c]), [Added::New; 3]);
    let before = files(dir);
    let tables = TABLES.len();
    assert_eq!(
        before.len(),
        1 + tables + 8,
        "all of one day, 8 with rows of another, the lock: {before:?}"
    );
    assert_eq!(write(dir, &[&a, &c]), [Added::Unchanged; 2]);
    assert_eq!(files(dir), before);
    let mut other = a.clone();
    other.run.work = "other work".to_owned();
    other.metrics.truncate(3);
    other.seal();
    assert_eq!(
        write(dir, &[&other, &other]),
        [Added::Replaced, Added::Twice]
    );
    let after = files(dir);
    assert_eq!(
        before.keys().collect::<Vec<_>>(),
        after.keys().collect::<Vec<_>>()
    );
    let day = |date: &str, files: &BTreeMap<PathBuf, u64>| files[&at(dir, "runs", date)];
    assert_ne!(day("2026-11-21", &before), day("2026-11-21", &after));
    assert_eq!(
        day("2026-11-22", &before),
        day("2026-11-22", &after),
        "another day is left alone"
    );
    let runs = past(dir).unwrap();
    let work: Vec<&str> = runs.iter().map(|run| run.work.as_str()).collect();
    assert_eq!(work[0], "other work");
    assert_eq!(work[1..], [&*b.run.work, &*c.run.work]);
    assert_eq!(
        write(dir, &[&a, &b, &other]),
        [Added::Replaced, Added::Unchanged, Added::Twice]
    );
    assert_eq!(past(dir).unwrap()[0].work, a.run.work);
}

#[test]
fn exporters_wait_for_each_other_and_leftovers_of_a_killed_one_go() {
    let dir = Runs::new("export-killed");
    let dir = &dir.0;
    let a = rows("20261121T030000Z-a", "2026-11-21T03:00:00Z");
    let b = rows("20261121T040000Z-b", "2026-11-21T04:00:00Z");
    let mut first = Archive::open(dir).unwrap().unwrap();
    assert!(Archive::open(dir).unwrap().is_none());
    first.add(&a).unwrap();
    // What is not finished is not there, as if it had been killed.
    drop(first);
    assert_eq!(files(dir).len(), 1, "the lock: {:?}", files(dir));
    write(dir, &[&a]);
    // Killed between two tables: one has rows of a run that the table runs does not name.
    let whole = Runs::new("export-killed-whole");
    write(&whole.0, &[&a, &b]);
    fs::copy(
        at(&whole.0, "points", "2026-11-21"),
        at(dir, "points", "2026-11-21"),
    )
    .unwrap();
    fs::write(dir.join(".pgassay-0123456789abcdef.tmp"), "PAR1").unwrap();
    fs::write(dir.join(".mine.tmp"), "a file of somebody's").unwrap();
    assert_eq!(named(dir), [&*a.run.run]);
    let c = rows("20261121T050000Z-c", "2026-11-21T05:00:00Z");
    write(dir, &[&c]);
    assert_eq!(named(dir), [&*a.run.run, &*c.run.run]);
    let size = |dir: &Path| fs::metadata(at(dir, "points", "2026-11-21")).unwrap().len();
    let two = Runs::new("export-killed-two");
    write(&two.0, &[&c, &a]);
    assert_eq!(size(dir), size(&two.0), "the rows of b are gone");
    assert!(!dir.join(".pgassay-0123456789abcdef.tmp").exists());
    assert!(dir.join(".mine.tmp").exists());
}

#[test]
fn what_can_not_be_read_is_not_replaced() {
    let dir = Runs::new("export-damaged");
    let dir = &dir.0;
    let a = rows("20261121T030000Z-a", "2026-11-21T03:00:00Z");
    let b = rows("20261121T040000Z-b", "2026-11-21T04:00:00Z");
    write(dir, &[&a]);
    let place = at(dir, "metrics", "2026-11-21");
    let bytes = fs::read(&place).unwrap();
    fs::write(&place, &bytes[..bytes.len() / 2]).unwrap();
    let before = files(dir);
    let mut archive = Archive::open(dir).unwrap().unwrap();
    archive.add(&b).unwrap();
    let error = archive.finish().unwrap_err();
    assert!(
        matches!(&error, Error::Damaged { path, .. } if *path == place),
        "{error}"
    );
    assert_eq!(files(dir), before);
}

/// Opening one waited for whoever would write into it.
#[test]
fn a_fifo_in_place_of_a_table_is_damaged() {
    let dir = Runs::new("export-fifo");
    let dir = &dir.0;
    let a = rows("20261121T030000Z-a", "2026-11-21T03:00:00Z");
    let b = rows("20261121T040000Z-b", "2026-11-21T04:00:00Z");
    write(dir, &[&a]);
    for table in ["metrics", "runs"] {
        let place = at(dir, table, "2026-11-21");
        fs::remove_file(&place).unwrap();
        let made = std::process::Command::new("mkfifo").arg(&place).status();
        assert!(made.unwrap().success());
    }
    let mut archive = Archive::open(dir).unwrap().unwrap();
    let added = archive.add(&b).and_then(|_| archive.finish().map(drop));
    assert!(matches!(added, Err(Error::Damaged { .. })), "{added:?}");
    // Whatever it makes of the others, it does not wait.
    drop(past(dir));
}

#[test]
fn the_program_exports_and_follows_what_it_exported() {
    let runs = Runs::new("export");
    let run = serve::measured(&runs);
    let again = runs.0.join("20200101T000000Z-select-only-copy");
    serve::copy(&run, &again);
    let header = fs::read_to_string(again.join("run.json")).unwrap();
    let id = serve::name(&run);
    fs::write(
        again.join("run.json"),
        header.replace(id, "20200101T000000Z-select-only-copy"),
    )
    .unwrap();
    fs::create_dir(runs.0.join("damaged")).unwrap();
    fs::write(runs.0.join("damaged/run.json"), "{").unwrap();
    let tables = runs.0.with_extension("cache").join("tables");
    let (all, tables) = (runs.0.to_str().unwrap(), tables.to_str().unwrap());
    let said = |args: &[&str], code: i32| {
        let output = runs.run(args);
        let text = String::from_utf8(output.stdout).unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{text}{errors}");
        (text, errors)
    };
    let (text, errors) = said(&["export", all, "--parquet", tables], 4);
    assert!(
        text.contains("3 runs (2 new, 1 not readable and left out)"),
        "{text}"
    );
    assert!(errors.contains("damaged"), "{errors}");
    fs::remove_dir_all(runs.0.join("damaged")).unwrap();
    let (text, _) = said(&["export", all, "--parquet", tables], 0);
    assert!(text.contains("2 runs (2 unchanged)"), "{text}");
    let (text, _) = said(&["export", "last", "--new", "--parquet", tables], 0);
    assert!(text.contains("1 run (1 unchanged)"), "{text}");
    let (text, _) = said(&["export", all, "--host", "x", "--parquet", tables], 0);
    assert!(text.contains("2 replaced"), "{text}");
    let (of_runs, _) = said(&["history", all, "--json"], 0);
    let (of_tables, _) = said(&["history", tables, "--json"], 0);
    let [mut a, mut b] = [of_runs, of_tables].map(|text| {
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        json
    });
    assert_eq!(a["runs"].as_array().unwrap().len(), 2);
    for json in [&mut a, &mut b] {
        for series in json["series"].as_array_mut().unwrap() {
            for value in series["values"].as_array_mut().unwrap() {
                value["warnings"].take();
            }
        }
    }
    assert_eq!(a, b);
    let (_, errors) = said(&["export", "last", "--parquet", "/dev/null/x"], 2);
    assert!(errors.contains("--parquet"), "{errors}");
    let (_, errors) = said(&["export", tables, "--parquet", tables], 2);
    assert!(errors.contains("no run is in"), "{errors}");
}

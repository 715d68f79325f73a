//! Every entry that an audit judges against recorded facts in which it must be found, and in
//! which it must not.
//!
//! `tests/check/recorded/` holds whole files of `pgassay collect`, from real
//! servers; `tests/check/cases/ENTRY.json` names one of them and what is changed in
//! it, with the origin of the change.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use pgassay_analysis::bottlenecks::{self, Compared, Confidence};
use pgassay_analysis::check::{self, Outcome, Severity, audited};
use pgassay_model::facts::{Facts, Library, Place};
use pgassay_model::reading::Reading;
use pgassay_model::server::Origin;
use pgassay_model::storage::{Directory, Holds};
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};

/// An entry's file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cases {
    entry: String,
    cases: Vec<Case>,
}

/// One case: recorded facts, what is changed in them, what must come of it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    /// Where the changed texts are from.
    from: String,
    base: String,
    #[serde(default)]
    host: BTreeMap<String, Option<String>>,
    #[serde(default)]
    directories: Option<Vec<Directory>>,
    #[serde(default)]
    settings: BTreeMap<String, Option<String>>,
    /// Rows of `pg_settings` with units of their own.
    #[serde(default)]
    rows: Vec<Value>,
    #[serde(default)]
    answers: BTreeMap<String, Option<Value>>,
    #[serde(default)]
    process: BTreeMap<String, Option<String>>,
    #[serde(default)]
    binary: Value,
    #[serde(default)]
    libraries: Option<Vec<Library>>,
    #[serde(default)]
    place: Option<Place>,
    #[serde(default)]
    origin: Option<Origin>,
    #[serde(default)]
    collected: Option<String>,
    expect: Outcome,
    #[serde(default)]
    severity: Option<Severity>,
    /// Something that its words must hold.
    #[serde(default)]
    says: String,
}

fn directory(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/check")
        .join(name)
}

fn recorded(name: &str) -> Facts {
    // Parsed once: each case and each damaged variant starts from a copy.
    static READ: Mutex<BTreeMap<String, Facts>> = Mutex::new(BTreeMap::new());
    let mut read = READ.lock().unwrap();
    if let Some(facts) = read.get(name) {
        return facts.clone();
    }
    let path = directory("recorded").join(format!("{name}.json"));
    let text = fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let facts: Facts =
        serde_json::from_slice(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    read.insert(name.to_owned(), facts.clone());
    facts
}

fn all_recorded() -> Vec<(String, Facts)> {
    let mut names: Vec<String> = fs::read_dir(directory("recorded"))
        .unwrap()
        .map(|e| {
            e.unwrap()
                .path()
                .file_stem()
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    names.sort();
    names
        .into_iter()
        .map(|n| (n.clone(), recorded(&n)))
        .collect()
}

fn all_cases() -> Vec<Cases> {
    let mut files: Vec<PathBuf> = fs::read_dir(directory("cases"))
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    files.sort();
    files
        .iter()
        .map(|path| {
            let cases: Cases = serde_json::from_slice(&fs::read(path).unwrap())
                .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            assert_eq!(
                path.file_stem().unwrap().to_str(),
                Some(cases.entry.as_str()),
                "the file is named by its entry"
            );
            cases
        })
        .collect()
}

fn put(texts: &mut BTreeMap<String, Reading>, changes: &BTreeMap<String, Option<String>>) {
    for (key, text) in changes {
        match text {
            Some(text) => texts.insert(key.clone(), Reading::Text(text.clone())),
            None => texts.insert(key.clone(), Reading::Unavailable("not seen".into())),
        };
    }
}

/// A JSON merge patch (RFC 7396), for the parts of a binary that a case is about.
fn merge(into: &mut Value, patch: &Value) {
    match (into, patch) {
        (Value::Object(into), Value::Object(patch)) => {
            for (key, value) in patch {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, patch) => *into = patch.clone(),
    }
}

fn facts(case: &Case) -> Facts {
    let mut facts = recorded(&case.base);
    put(&mut facts.host, &case.host);
    put(&mut facts.process, &case.process);
    let text = facts.server["settings"].text().unwrap();
    let mut rows: Vec<Value> = serde_json::from_str(text).unwrap();
    for (name, value) in &case.settings {
        rows.retain(|row| value.is_some() || row["name"] != name.as_str());
        let Some(value) = value else { continue };
        match rows.iter_mut().find(|row| row["name"] == name.as_str()) {
            Some(row) => row["setting"] = json!(value),
            None => {
                rows.push(json!({"name": name, "setting": value, "unit": null, "source": "made"}))
            }
        }
    }
    for row in &case.rows {
        rows.retain(|r| r["name"] != row["name"]);
        rows.push(row.clone());
    }
    facts
        .server
        .insert("settings".into(), Reading::Text(json!(rows).to_string()));
    for (question, answer) in &case.answers {
        let reading = match answer {
            Some(Value::String(text)) => Reading::Text(text.clone()),
            Some(rows) => Reading::Text(rows.to_string()),
            None => Reading::Unavailable("permission denied".into()),
        };
        facts.server.insert(question.clone(), reading);
    }
    if !case.binary.is_null() {
        let mut binary = serde_json::to_value(facts.binary.unwrap().unwrap()).unwrap();
        merge(&mut binary, &case.binary);
        facts.binary = Some(Ok(serde_json::from_value(binary).unwrap()));
    }
    if let Some(libraries) = &case.libraries {
        facts.libraries = Some(Ok(libraries.clone()));
    }
    if let Some(directories) = &case.directories {
        facts.directories.clone_from(directories);
    }
    if let Some(place) = &case.place {
        facts.place = place.clone();
    }
    if case.origin.is_some() {
        facts.origin.clone_from(&case.origin);
    }
    if let Some(collected) = &case.collected {
        facts.collected.clone_from(collected);
    }
    facts
}

fn result(facts: &Facts, entry: &str) -> check::EntryResult {
    let report = check::check(facts);
    let found = report.results.into_iter().find(|r| r.id == entry);
    found.unwrap_or_else(|| panic!("there is no entry {entry} that an audit judges"))
}

fn severity(result: &check::EntryResult) -> Option<Severity> {
    Some(result.finding.as_ref()?.severity)
}

#[test]
fn every_case_comes_out_as_it_says() {
    let mut wrong = Vec::new();
    for cases in all_cases() {
        for case in &cases.cases {
            assert!(!case.from.is_empty(), "{}: where is it from?", case.name);
            let result = result(&facts(case), &cases.entry);
            let fits = result.outcome == case.expect
                && (case.severity.is_none() || severity(&result) == case.severity)
                && result.saw.contains(&case.says);
            if !fits {
                wrong.push(format!(
                    "{}: {}: {:?} {:?}, expected {:?} {:?}: {}",
                    cases.entry,
                    case.name,
                    result.outcome,
                    severity(&result),
                    case.expect,
                    case.severity,
                    result.saw
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_entry_has_a_case_that_fires_and_one_that_does_not() {
    let cases: BTreeMap<String, Cases> = all_cases()
        .into_iter()
        .map(|c| (c.entry.clone(), c))
        .collect();
    for entry in audited() {
        let id = entry.id;
        let of_entry = cases
            .get(id)
            .unwrap_or_else(|| panic!("{id}: tests/check/cases/{id}.json is missing"));
        let has = |outcome| of_entry.cases.iter().any(|c| c.expect == outcome);
        assert!(has(Outcome::Finding), "{id}: no case in which it is found");
        assert!(has(Outcome::Passed), "{id}: no case in which it passes");
    }
    for id in cases.keys() {
        assert!(
            audited().iter().any(|entry| entry.id == id),
            "{id}: cases without an entry"
        );
    }
}

/// The tests, and texts that are recorded for them, below a folder: each with the name of its file.
fn tests_below(folder: &Path, found: &mut Vec<(String, String)>) {
    for path in fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()) {
        if path.is_dir() {
            tests_below(&path, found);
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let text = text.split("#[cfg(test)]").last().unwrap_or_default();
        let recorded = path.extension().is_some_and(|e| e == "txt");
        if recorded || text.contains("#[test]") {
            let stem = path.file_stem().unwrap().to_str().unwrap();
            found.push((stem.replace('_', "-"), text.to_owned()));
        }
    }
}

#[test]
fn every_entry_that_only_a_load_shows_has_a_test() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut tests = Vec::new();
    for folder in [
        "results/rules/src",
        "pgassay/tests/weighed",
        "results/analysis/tests/profiles",
    ] {
        tests_below(&crates.join(folder), &mut tests);
    }
    for entry in bottlenecks::ENTRIES {
        // `"hot-row"`, or `Expected: cpu-function/hash_search`.
        let forms = ["\"ID\"", "\"ID/", " ID\n", " ID/"].map(|form| form.replace("ID", entry.id));
        let named = |(file, text): &(String, String)| {
            file == entry.id || forms.iter().any(|form| text.contains(form))
        };
        let audited = audited().iter().any(|audited| audited.id == entry.id);
        assert!(audited || tests.iter().any(named), "{}: no test", entry.id);
    }
}

#[test]
fn findings_name_a_remedy() {
    for cases in all_cases() {
        for case in cases.cases.iter().filter(|c| c.expect == Outcome::Finding) {
            let result = result(&facts(case), &cases.entry);
            let finding = result.finding.expect("a finding");
            assert!(!finding.remedy.is_empty(), "{}: {}", cases.entry, case.name);
        }
    }
}

/// From these the command is made that would measure it.
#[test]
fn findings_that_settings_measure_name_the_settings() {
    for cases in all_cases() {
        let entry = bottlenecks::find(&cases.entry).expect("an entry");
        if entry.compare != [Compared::Settings] {
            continue;
        }
        for case in cases.cases.iter().filter(|c| c.expect == Outcome::Finding) {
            let finding = result(&facts(case), &cases.entry).finding;
            let counterpart = finding.and_then(|finding| finding.counterpart);
            assert!(counterpart.is_some(), "{}: {}", cases.entry, case.name);
        }
    }
}

#[test]
fn nothing_is_concluded_from_nothing() {
    let nowhere = [
        Place::NoServer,
        Place::Here("x".into()),
        Place::Elsewhere("far".into()),
    ];
    for place in nowhere {
        let facts = Facts {
            place,
            ..Facts::empty("nothing")
        };
        for result in check::check(&facts).results {
            assert!(
                matches!(
                    result.outcome,
                    Outcome::CouldNotSee | Outcome::NotApplicable
                ),
                "{}: {:?} {}",
                result.id,
                result.outcome,
                result.saw
            );
            assert!(!result.saw.is_empty(), "{}: no reason", result.id);
        }
    }
}

/// A remote server: whatever this machine is like must not be held against it.
#[test]
fn the_host_is_not_held_against_a_server_elsewhere() {
    for (name, facts) in all_recorded() {
        let remote = Facts {
            place: Place::Elsewhere("it is on another machine".into()),
            ..facts.clone()
        };
        let without_host = Facts {
            host: BTreeMap::new(),
            process: BTreeMap::new(),
            ..remote.clone()
        };
        assert_eq!(
            check::check(&remote),
            check::check(&without_host),
            "{name}: something was read of the host"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Foreign and damaged facts are judged or set aside; nothing panics.
    #[test]
    fn damaged_facts_are_survived(
        picks in prop::collection::vec((0usize..400, "(\\PC{0,40}|[0-9]{1,25}|-?[0-9]+ [0-9]+|\\[\\{\"sessions\":null,\"n\":-1e308\\}\\])"), 1..12)
    ) {
        let mut facts = recorded("debian12-pg15");
        for (pick, text) in picks {
            let readings: Vec<&mut Reading> = facts
                .host
                .values_mut()
                .chain(facts.server.values_mut())
                .chain(facts.process.values_mut())
                .collect();
            let count = readings.len();
            if let Some(reading) = readings.into_iter().nth(pick % count) {
                *reading = Reading::Text(text);
            }
        }
        prop_assert_eq!(check::check(&facts).results.len(), audited().len());
    }
}

/// The lists in docs/ are the catalogue's; `make docs` writes them.
#[test]
fn the_pages_in_docs_are_up_to_date() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs");
    for (path, text) in check::docs::files() {
        let found = fs::read_to_string(docs.join(&path)).unwrap_or_default();
        assert!(
            found == text,
            "docs/{path} is not what the catalogue says: make docs"
        );
    }
}

/// The commands and statements of all findings that cases provoke, and the ids of entries that
/// they send a reader to.
#[test]
fn steps_name_entries_that_exist() {
    for cases in all_cases() {
        for case in cases.cases.iter().filter(|c| c.expect == Outcome::Finding) {
            let Some(finding) = result(&facts(case), &cases.entry).finding else {
                continue;
            };
            for step in finding.remedy {
                if let Some((_, id)) = step.text.split_once("pgassay check --explain ") {
                    assert!(check::find(id).is_some(), "{}: {}", cases.entry, step.text);
                }
            }
        }
    }
}

/// What the audit says of a server of 15 whose checkpoints the WAL forced 4000 times: the sentence, and the first step.
fn forced_checkpoints(
    counted_s: Option<f64>,
    wal_counted_s: Option<f64>,
    free_bytes: Option<u64>,
) -> (check::EntryResult, String) {
    let mut facts = recorded("debian12-pg15");
    let bgwriter = json!([{
        "checkpoints_timed": 20, "checkpoints_req": 4000, "since_reset_s": counted_s,
    }]);
    let wal = json!([{"wal_bytes": 3_000_000_000_000u64, "since_reset_s": wal_counted_s}]);
    // Of older files of facts: the server was started a quarter of an hour ago.
    let role = json!([{"superuser": true, "uptime_s": 900.0}]);
    for (question, rows) in [("bgwriter", bgwriter), ("wal", wal), ("role", role)] {
        facts
            .server
            .insert(question.into(), Reading::Text(rows.to_string()));
    }
    facts.directories = vec![Directory {
        holds: Holds::Wal,
        path: "/srv/pg/pg_wal".into(),
        free_bytes,
        ..Directory::default()
    }];
    let result = result(&facts, "forced-checkpoints");
    let finding = result.finding.clone().expect("a finding");
    (result, finding.remedy[0].text.clone())
}

/// A restart alone raised the advice to max_wal_size = 223 GB with 72 GB free: the WAL of a day was divided by the
/// seconds since the start.
#[test]
fn the_rate_of_wal_is_that_of_its_own_counter_and_its_size_fits_the_disk() {
    let day = Some(86_400.0);
    let (gib, free) = (1u64 << 30, Some(72u64 << 30));
    // 33 MiB a second: 20 GiB in ten minutes.
    let (result, step) = forced_checkpoints(day, day, free);
    assert!(result.saw.contains("in the 24 h"), "{}", result.saw);
    assert!(
        step.contains("'16GB'") && step.contains("is 20 GiB"),
        "{step}"
    );
    let (_, step) = forced_checkpoints(day, day, Some(6 * gib));
    assert!(step.contains("'3GB'"), "{step}");
    let (_, step) = forced_checkpoints(day, day, Some(gib));
    assert!(step.starts_with("do not raise max_wal_size"), "{step}");
    let (_, step) = forced_checkpoints(day, day, None);
    assert!(
        step.contains("'4GB'") && step.contains("not known") && !step.contains("ALTER SYSTEM"),
        "{step}"
    );
    // Reset just now, and not known: then no rate is claimed.
    for counted in [Some(2.0), None] {
        let (result, step) = forced_checkpoints(counted, counted, free);
        let finding = result.finding.expect("a finding");
        assert_eq!(finding.severity, Severity::Low, "{}", finding.saw);
        assert_eq!(finding.confidence, Confidence::Low, "{}", finding.saw);
        assert!(
            finding.saw.contains("less than a minute ago, or not known"),
            "{}",
            finding.saw
        );
        assert!(step.contains("the rate of WAL is not known"), "{step}");
        assert!(step.contains("'4GB'"), "{step}");
    }
}

/// With an absent synchronous standby the first command was SET synchronous_commit = 'on', which leaves commits hanging.
#[test]
fn no_advice_makes_commits_wait_for_a_standby_that_is_absent() {
    let seen_with = |level: &str, names: &str, standbys: Reading| {
        let mut facts = recorded("debian12-pg15");
        let text = facts.server["settings"].text().unwrap();
        let mut rows: Vec<Value> = serde_json::from_str(text).unwrap();
        for (name, value) in [
            ("synchronous_commit", level),
            ("synchronous_standby_names", names),
        ] {
            let row = rows.iter_mut().find(|row| row["name"] == name).unwrap();
            (row["setting"], row["source"]) = (json!(value), json!("configuration file"));
        }
        let settings = Reading::Text(json!(rows).to_string());
        facts.server.insert("settings".into(), settings);
        facts.server.insert("standbys".into(), standbys);
        let report = check::check(&facts);
        let findings = report
            .findings()
            .filter(|f| f.id.starts_with("synchronous-"));
        let steps: Vec<String> = findings
            .flat_map(|f| f.remedy.iter().map(|step| step.text.clone()))
            .collect();
        assert!(!steps.is_empty(), "{level} {names}");
        steps
    };
    let standby = |sync_state: Value| json!({"application_name": "a", "sync_state": sync_state});
    let of = |level: &str, names: &str, connected: usize| {
        let rows = json!(vec![standby(json!("sync")); connected]);
        seen_with(level, names, Reading::Text(rows.to_string()))
    };
    let waits = |steps: &[String]| {
        let text = steps.join("\n");
        text.contains("SET synchronous_commit")
    };
    // Where the standbys can't be seen they may be absent.
    let unseen = [
        Reading::Unavailable("permission denied".into()),
        Reading::Text(json!([standby(Value::Null)]).to_string()),
    ];
    for level in ["remote_apply", "on", "remote_write", "off"] {
        for standbys in &unseen {
            let steps = seen_with(level, "a", standbys.clone());
            assert!(!waits(&steps), "{level}: {steps:#?}");
            assert!(steps[0].contains("FROM pg_stat_replication"), "{steps:#?}");
        }
        assert!(level != "off" || waits(&seen_with(level, "", unseen[0].clone())));
    }
    for level in ["remote_apply", "on", "remote_write", "off"] {
        for (names, connected) in [("a", 0), ("FIRST 2 (a, b)", 1), ("ANY 2 (a, b, c)", 1)] {
            let steps = of(level, names, connected);
            assert!(!waits(&steps), "{level} {names}: {steps:#?}");
            assert!(steps[0].contains("FROM pg_stat_replication"), "{steps:#?}");
            assert!(steps[1].starts_with("start the standby"), "{steps:#?}");
        }
        assert!(waits(&of(level, "FIRST 1 (a, b)", 1)));
    }
}

/// What ends or drops something comes after a look at it, and nothing turns durability off.
#[test]
fn remedies_look_before_they_end_anything_and_keep_durability() {
    const ENDS: &[&str] = &[
        "pg_terminate_backend",
        "pg_cancel_backend",
        "pg_drop_replication_slot",
        "PREPARED '",
        "DROP INDEX",
        "kill ",
    ];
    for cases in all_cases() {
        for case in cases.cases.iter().filter(|c| c.expect == Outcome::Finding) {
            let finding = result(&facts(case), &cases.entry).finding.unwrap();
            let first = &finding.remedy[0].text;
            // An invalid index is known to serve no query.
            let rebuilt = first.starts_with("REINDEX");
            assert!(
                rebuilt || !ENDS.iter().any(|ends| first.contains(ends)),
                "{}: {first}",
                cases.entry
            );
            for step in &finding.remedy {
                for off in [
                    "SET fsync = off",
                    "SET fsync = 'off'",
                    "full_page_writes = off",
                    "full_page_writes = 'off'",
                ] {
                    assert!(!step.text.contains(off), "{}: {}", cases.entry, step.text);
                }
            }
        }
    }
}

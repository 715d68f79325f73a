//! Observers beside real loads: situations made on purpose, and whether they are found.
//!
//! What is held against the truth are counts of samples, never how fast anything was.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};
use std::{fs, thread};

use pgassay::Exit;
use pgassay_analysis::observed::waits;
use pgassay_model::observed::statements::Sighting;
use pgassay_observe::WaitSampler;
use pgassay_pgwire::connect;
use serde_json::Value;

use crate::captured;
use crate::pg_support::Server;
use crate::schema::assert_schema;

/// A directory that goes with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let name = format!("pgassay-test-observers-{name}-{}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir(&dir).unwrap();
        Self(dir)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn pgassay(words: &[&str]) -> (Exit, String) {
    let (exit, text, said) = captured::pgassay(words);
    assert_eq!(exit, Exit::Done, "{words:?}: {said}");
    (exit, text)
}

/// Runs a workload on a throw-away server and returns the analysis.
fn measured(runs: &Scratch, workload: &str, more: &[&str]) -> Value {
    measured_for("1", runs, workload, more)
}

/// A trial lasts so many seconds.
fn measured_for(seconds: &str, runs: &Scratch, workload: &str, more: &[&str]) -> Value {
    let mut words = vec![
        "run",
        workload,
        "--runs",
        runs.path(),
        "--json",
        "--trials",
        "2",
        "--time",
        seconds,
        "--warmup",
        "0.3",
        "--scale",
        "1",
    ];
    words.extend(more);
    let analysis: Value = serde_json::from_str(&pgassay(&words).1).unwrap();
    assert_schema(&analysis, "analysis-1.json");
    analysis
}

/// The findings in their order, apart from those of CPU time: other work on the machine may fill
/// its CPUs, too, and no test provokes that.
fn findings(analysis: &Value) -> Vec<&Value> {
    let findings = analysis["stages"][0]["diagnosis"]["findings"]
        .as_array()
        .unwrap();
    let of_cpus = |f: &&Value| f["id"].as_str().unwrap().starts_with("cpu-");
    findings.iter().filter(|f| !of_cpus(f)).collect()
}

fn found(analysis: &Value) -> Vec<&str> {
    let findings = findings(analysis).into_iter();
    findings.map(|f| f["id"].as_str().unwrap()).collect()
}

/// On a server that compiles whatever it is asked our own questions would take seconds.
#[test]
fn what_we_ask_of_the_catalogs_is_not_compiled() {
    let server = Server::start(
        "local all all trust\n",
        &[("jit", "on"), ("jit_above_cost", "0")],
        |_| {},
    );
    let mut session = connect(&server.owner()).unwrap();
    let asked = session.catalog_value("SHOW jit").unwrap();
    assert_eq!(asked.as_deref(), Some("off"));
    let after = session.value("SHOW jit").unwrap();
    assert_eq!(after.as_deref(), Some("on"));
}

#[test]
fn a_hot_row_is_found() {
    let runs = Scratch::new("hot-row");
    let analysis = measured(&runs, "hot-row", &["--clients", "8"]);
    assert_eq!(
        found(&analysis).first(),
        Some(&"hot-row"),
        "{}",
        analysis["stages"][0]["diagnosis"]
    );
    let finding = findings(&analysis)[0];
    assert!(
        finding["evidence"].to_string().contains("waited at Lock:t"),
        "{finding}"
    );
    // What the report says, diagnose says again from the recorded run.
    let (_, text) = pgassay(&["diagnose", "last", "--runs", runs.path(), "--json"]);
    let again: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        again["findings"],
        analysis["stages"][0]["diagnosis"]["findings"]
    );
    // Its own cost is on record.
    let cost = &analysis["stages"][0]["arms"][0]["observed"]["cost"];
    assert!(cost["machine_share"].as_f64().unwrap() > 0.0, "{cost}");
    let names: Vec<&str> = cost["observers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|o| o["observer"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["counters", "samplers", "waits"]);
}

#[test]
fn a_queue_for_a_table_and_slow_flushes_are_told_apart() {
    let runs = Scratch::new("queues");
    let script = runs.0.join("table.sql");
    fs::write(
        &script,
        "-- @writes\n-- @without-pgbench-tables\n-- @setup CREATE TABLE queue_here (i int)\n\
         BEGIN;\nLOCK TABLE queue_here IN ACCESS EXCLUSIVE MODE;\nSELECT pg_sleep(0.01);\nCOMMIT;\n",
    )
    .unwrap();
    let analysis = measured(&runs, script.to_str().unwrap(), &["--clients", "6"]);
    assert_eq!(
        found(&analysis).first(),
        Some(&"relation-lock-queue"),
        "{}",
        analysis["stages"][0]["diagnosis"]
    );
    assert!(!found(&analysis).contains(&"hot-row"));

    // commit_delay makes every flush take 20 ms, under the lock for writing the log.
    let slow = [
        "--clients",
        "8",
        "--set",
        "commit_delay=20000",
        "--set",
        "commit_siblings=1",
    ];
    let analysis = measured(&runs, "insert-queue", &slow);
    assert_eq!(
        found(&analysis).first(),
        Some(&"commit-delay"),
        "{}",
        analysis["stages"][0]["diagnosis"]
    );
    // It is the setting, not the device, and that is what is to be changed.
    let first = findings(&analysis)[0].to_string();
    assert!(first.contains("RESET commit_delay"), "{first}");
}

#[test]
fn checkpoints_forced_in_the_windows_are_found() {
    let runs = Scratch::new("forced");
    let script = runs.0.join("log.sql");
    // Two megabytes of log a transaction, so that a busy machine's few are enough, too.
    fs::write(
        &script,
        "-- @writes\n-- @without-pgbench-tables\n\
         SELECT pg_logical_emit_message(false, 'test', repeat('x', 2000000));\n",
    )
    .unwrap();
    let words = [
        &["run", script.to_str().unwrap(), "--runs", runs.path()][..],
        &["--clients", "2", "--trials", "2", "--time", "3", "--json"],
        &[
            "--warmup",
            "0.1",
            "--set",
            "max_wal_size=32MB",
            "--observe",
            "waits",
        ],
    ];
    let (_, text) = pgassay(&words.concat());
    let analysis: Value = serde_json::from_str(&text).unwrap();
    let seen = &analysis["stages"][0]["arms"][0]["checkpoints"];
    assert_eq!(seen["windows"], 2, "{seen}");
    assert_eq!(
        seen["forced_after_bytes"],
        (f64::from(32 << 20) / 1.9) as u64
    );
    let each = seen["wal_bytes_per_transaction"].as_f64().unwrap();
    assert!((1.9e6..2.6e6).contains(&each), "{seen}");
    assert!(found(&analysis).contains(&"forced-checkpoints"), "{seen}");
    let causes = analysis["causes"].as_array().unwrap();
    let cause = causes.iter().find(|c| c["id"] == "forced-checkpoints");
    let what = cause.unwrap()["what"].as_str().unwrap();
    let requested = seen["requested"].as_u64().unwrap();
    assert!(
        what.contains(&format!("{requested} of them forced")),
        "{what}"
    );
}

#[test]
fn a_plain_server_has_no_finding_and_cpu_samples_have_names_and_callers() {
    let runs = Scratch::new("plain");
    // Long enough to see the statement at work: most looks find sessions that wait for their client.
    let analysis = measured_for(
        "4",
        &runs,
        "select-only",
        &["--clients", "4", "--observe", "all"],
    );
    // Reading one row a statement is mostly the way there and back: here about as much as is told.
    let mut found = found(&analysis);
    found.retain(|id| *id != "round-trips");
    assert_eq!(
        found,
        Vec::<&str>::new(),
        "{}",
        analysis["stages"][0]["diagnosis"]
    );
    let observed = &analysis["stages"][0]["arms"][0]["observed"];
    // The sentence and the findings rest on one account, in which every session is.
    let budget = &observed["points"][0]["budget"];
    let part = |name: &str| budget[name].as_f64().unwrap();
    assert!((part("sessions") - 4.0).abs() < 1e-6, "{budget}");
    let parts = part("on_cpu") + part("ready") + part("off_cpu");
    assert!((parts - 4.0).abs() < 1e-6, "{budget}");
    let said = analysis["stages"][0]["diagnosis"]["time"][0]
        .as_str()
        .unwrap();
    let ran = format!(
        "of 4.00 sessions on average {:.2} ran on a CPU",
        part("on_cpu")
    );
    assert!(said.contains(&ran), "{said}");
    let explained = analysis["stages"][0]["diagnosis"]["explained"]
        .as_f64()
        .unwrap();
    assert!((0.0..=1.0).contains(&explained), "{explained}");
    // But for a kernel without PSI, and a machine without counters.
    let unavailable = observed.get("unavailable").and_then(Value::as_array);
    let missing = unavailable.into_iter().flatten();
    let missing: Vec<&Value> = missing
        .filter(|m| {
            let why = m["why"].as_str().unwrap();
            !why.starts_with("/proc/pressure") && !why.starts_with("no hardware counters")
        })
        .collect();
    assert_eq!(missing, Vec::<&Value>::new(), "{observed}");
    // Each session's share of the CPUs, without its process id.
    let roles = observed["points"][0]["backends"]["roles"]
        .as_array()
        .unwrap();
    let load = roles.iter().find(|r| r["role"] == "pgassay load").unwrap();
    assert_eq!(load["processes"], 4, "{roles:?}");
    assert!(load["cpus"].as_f64().unwrap() > 0.0, "{load}");
    assert!(
        load["voluntary_switches_per_second"].as_f64().is_some(),
        "{load}"
    );
    assert!(
        roles.iter().any(|r| r["role"] == "checkpointer"),
        "{roles:?}"
    );
    let profile = &observed["profile"];
    assert!(profile["samples"].as_u64().unwrap() > 0, "{profile}");
    assert_eq!(profile["call_chains"], true, "{profile}");
    assert!(
        profile["unnamed_share"].as_f64().unwrap() < 0.3,
        "{profile}"
    );
    // Every backend's chain begins in the server's main loop, whose name any build shows.
    let text = observed["flame"].to_string();
    assert!(text.contains("\"PostgresMain\""), "{text}");
    // Nobody else's samples are among them.
    assert!(!text.contains("pgassay"), "{text}");
    // The terminal says which statement the time went to.
    let told = pgassay(&["report", "last", "--runs", runs.path()]).1;
    let (_, statements) = told
        .split_once("Which statements take the time\n")
        .expect(&told);
    assert!(
        statements.contains("SELECT abalance FROM pgbench_accounts WHERE aid = $1"),
        "{told}"
    );
    // Viewers of profiles get each of them.
    let all = profile["samples"].as_u64().unwrap();
    let exported = |format: &str| -> Value {
        let words = ["report", "last", "--runs", runs.path(), "--format", format];
        serde_json::from_str(&pgassay(&words).1).unwrap()
    };
    let speedscope = exported("speedscope");
    let weights = speedscope["profiles"][0]["weights"].as_array().unwrap();
    let sum: f64 = weights.iter().map(|w| w.as_f64().unwrap()).sum();
    assert_eq!(sum, all as f64, "{speedscope}");
    let firefox = exported("firefox");
    let weights = firefox["threads"][0]["samples"]["weight"]
        .as_array()
        .unwrap();
    let sum: u64 = weights.iter().map(|w| w.as_u64().unwrap()).sum();
    assert_eq!(sum, all, "{firefox}");

    let analysis = measured(
        &runs,
        "select-only",
        &["--clients", "1", "--observe", "none"],
    );
    assert_eq!(analysis["stages"][0]["arms"][0].get("observed"), None);
    let not_seen = analysis["stages"][0]["diagnosis"]["not_seen"].to_string();
    assert!(
        not_seen.contains("--observe waits") && not_seen.contains("--observe perf"),
        "{not_seen}"
    );
}

/// The CPU time of processes that ended within a window was left out: a load of parallel plans or
/// short sessions seemed to cost the server next to nothing.
#[test]
fn cpu_time_of_processes_that_ended_is_the_servers_too() {
    let runs = Scratch::new("ended");
    let words = [
        &["run", "select-only", "--runs", runs.path(), "--json"][..],
        &[
            "--clients",
            "2",
            "--trials",
            "2",
            "--time",
            "1",
            "--connect",
            "--scale",
            "1",
        ],
    ];
    let analysis: Value = serde_json::from_str(&pgassay(&words.concat()).1).unwrap();
    let run = fs::read_dir(&runs.0)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let trials = fs::read_to_string(run.join("trials.jsonl")).unwrap();
    // Ticks of the postmaster's children that ended, each 10 ms, over the windows.
    let (mut ended, mut seconds) = (0.0, 0.0);
    for line in trials.lines() {
        let trial: Value = serde_json::from_str(line).unwrap();
        let sample = &trial["samples"]["server.ended"];
        let ticks =
            |border: &str| -> f64 { sample[border]["text"].as_str().unwrap().parse().unwrap() };
        ended += (ticks("after") - ticks("before")) / 100.0;
        seconds += sample["elapsed_ns"].as_f64().unwrap() / 1e9;
    }
    assert!(ended > 0.0, "no session ended within a window");
    let point = &analysis["stages"][0]["arms"][0]["points"][0];
    let cpus = point["metrics"]["server-cpus"]["estimate"]
        .as_f64()
        .unwrap();
    assert!(
        cpus >= 0.8 * ended / seconds,
        "the server kept {cpus} CPUs busy, sessions that ended {}",
        ended / seconds
    );
    // Of sessions that come and go no budget can be made, and that is said.
    let not_seen = analysis["stages"][0]["diagnosis"]["not_seen"].to_string();
    assert!(not_seen.contains("waited for a CPU"), "{not_seen}");
}

/// Whether it is told why the processor's cycles are not counted.
fn not_counted(observed: &Value) -> bool {
    let mut unavailable = observed["unavailable"].as_array().unwrap().iter();
    unavailable.any(|u| {
        let why = u["why"].as_str().unwrap();
        u["observer"] == "pmu" && why.contains("perf_event_open")
    })
}

/// Switches are counted by /proc, too, and CPU time by the scheduler: two accounts of the same processes.
#[test]
fn what_the_kernel_counts_of_a_server_agrees_with_its_other_accounts() {
    let runs = Scratch::new("events");
    let analysis = measured(
        &runs,
        "select-only",
        &["--clients", "2", "--observe", "pmu,sched"],
    );
    let arm = &analysis["stages"][0]["arms"][0];
    let observed = &arm["observed"];
    let point = &observed["points"][0];
    let counted = |id: &str| point["counted"][id]["estimate"].as_f64();
    assert!(
        counted("ipc").is_some() || not_counted(observed),
        "{observed}"
    );
    let switches = counted("context-switches").unwrap_or_else(|| panic!("{observed}"));
    let scheduling = &point["scheduling"];
    let by_proc = scheduling["voluntary_switches_per_transaction"]
        .as_f64()
        .unwrap()
        + scheduling["involuntary_switches_per_transaction"]
            .as_f64()
            .unwrap();
    // Their windows begin and end one after the other, on a busy machine tenths of a second apart.
    assert!(
        switches < 3.0 * by_proc && by_proc < 3.0 * switches,
        "{switches} by events, {by_proc} by /proc"
    );
    let on_cpu = counted("task-clock").unwrap();
    let by_scheduler = arm["points"][0]["metrics"]["server-cpu"]["estimate"]
        .as_f64()
        .unwrap();
    assert!(
        on_cpu < 3.0 * by_scheduler && by_scheduler < 3.0 * on_cpu,
        "{on_cpu} µs by events, {by_scheduler} µs by the scheduler"
    );
    // They are metrics like any other.
    assert_eq!(
        arm["points"][0]["metrics"]["context-switches"]["estimate"].as_f64(),
        Some(switches)
    );
    // Where processes switch is where they sleep and wake up.
    let events = point["events"].as_array().unwrap();
    let of_switches = events
        .iter()
        .find(|e| e["event"] == "software/context-switches");
    let classes = of_switches.unwrap_or_else(|| panic!("{events:?}"))["classes"]
        .as_array()
        .unwrap();
    assert_eq!(classes[0]["class"], "kernel-wake-up", "{classes:?}");
}

#[test]
fn observers_run_beside_loads_of_other_kinds_where_asked_for() {
    let runs = Scratch::new("kinds");
    let observed = |words: &[&str]| -> Value {
        let mut all = vec!["run"];
        all.extend(words);
        all.extend(["--runs", runs.path(), "--json"]);
        let mut analysis: Value = serde_json::from_str(&pgassay(&all).1).unwrap();
        analysis["stages"][0]["arms"][0]["observed"].take()
    };
    let short = ["--clients", "2", "--trials", "1", "--time", "0.5"];
    let pgio = |observe: &'static str| {
        let mut words = vec![
            "pgio",
            "--tables",
            "2",
            "--size",
            "8MB",
            "--observe",
            observe,
        ];
        words.extend(short);
        observed(&words)
    };
    let seen = pgio("all");
    let point = &seen["points"][0];
    assert_eq!(point["clients"], 2, "{seen}");
    assert!(point["waits"]["samples"].as_u64().unwrap() > 0, "{seen}");
    assert!(point["backends"]["roles"].is_array(), "{seen}");
    let costs = seen["cost"]["observers"].as_array().unwrap();
    let names: Vec<&str> = costs
        .iter()
        .map(|o| o["observer"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["counters", "perf", "pmu", "samplers", "waits"]);
    assert!(
        point["counted"]["ipc"].is_object() || not_counted(&seen),
        "{seen}"
    );
    assert_eq!(pgio("none"), Value::Null);

    let mut words = vec!["spinlock", "--observe", "sched"];
    words.extend(short);
    let seen = observed(&words);
    let point = &seen["points"][0];
    assert!(
        point["load"].as_str().unwrap().starts_with("spinlock"),
        "{seen}"
    );
    let roles = point["backends"]["roles"].as_array().unwrap();
    assert!(
        roles.iter().any(|r| r["cpus"].as_f64().unwrap() > 0.0),
        "{seen}"
    );

    let words = [
        "scattered-read",
        "--size",
        "8MB",
        "--trials",
        "1",
        "--only",
        "bitmap",
        "--observe",
        "sched",
    ];
    let seen = observed(&words);
    assert!(
        seen["points"][0]["load"]
            .as_str()
            .unwrap()
            .ends_with("cold"),
        "{seen}"
    );
}

/// Sessions of which some sleep and the others wait for a lock, for as long as the samples are taken: every look sees
/// every one of them, however few looks a busy machine leaves time for.
/// The share of the server's running processes that were on the load's CPU, in each trial of the program as a process of
/// its own: other tests have load threads in this one.
fn shared_cpu(bound_to: &[usize], more: &[&str]) -> Vec<f64> {
    let runs = Scratch::new(&format!("shared{}", more.len()));
    let mut program = Command::new(env!("CARGO_BIN_EXE_pgassay"));
    program.args([
        "run",
        "select-only",
        "-c",
        "1",
        "--trials",
        "2",
        "--time",
        "1",
        "--json",
        "--runs",
    ]);
    program.arg(runs.path()).args(more);
    pgassay_sys::affinity::pin_command(&mut program, bound_to).unwrap();
    let output = program.output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let analysis: Value = serde_json::from_slice(&output.stdout).unwrap();
    let trials = analysis["stages"][0]["arms"][0]["points"][0]["trials"]
        .as_array()
        .unwrap();
    trials
        .iter()
        .map(|trial| trial["metrics"]["shared-cpu"].as_f64().unwrap())
        .collect()
}

#[test]
fn sessions_on_the_cpu_of_their_client_are_seen() {
    let allowed = pgassay_sys::affinity::allowed_cpus().unwrap();
    assert_eq!(shared_cpu(&allowed[..1], &[]), [1.0, 1.0]);
    if allowed.len() > 1 {
        assert_eq!(shared_cpu(&allowed, &["--pin"]), [0.0, 0.0]);
    }
}

#[test]
fn known_waits_are_reproduced() {
    const SLEEPING: usize = 15;
    const LOCKED: usize = 9;
    let server = Server::start(
        "local all all trust\nhost all all 127.0.0.1/32 trust\n",
        &[("max_connections", "60")],
        |_| {},
    );
    let mut control = connect(&server.owner()).unwrap();
    // Holds the lock that the others wait for until the server stops.
    let mut holder = connect(&server.owner()).unwrap();
    holder.execute("SELECT pg_advisory_lock(7)").unwrap();
    let sessions: Vec<_> = (0..SLEEPING + LOCKED)
        .map(|i| {
            let mut session = connect(&server.owner()).unwrap();
            let statement = match i < SLEEPING {
                true => "SELECT pg_sleep(3600)",
                false => "SELECT pg_advisory_lock(7)",
            };
            thread::spawn(move || session.execute(statement).is_err())
        })
        .collect();
    let waiting =
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event IN ('PgSleep', 'advisory')";
    let all = (SLEEPING + LOCKED).to_string();
    while control.value(waiting).unwrap().as_deref() != Some(&all) {
        thread::sleep(Duration::from_millis(10));
    }

    let except = vec![control.backend_pid()];
    let sampler =
        WaitSampler::start(&server.owner(), 25.0, except, Some(server.pid()), false).unwrap();
    let begun = Instant::now();
    sampler.begin();
    thread::sleep(Duration::from_secs(1));
    let seconds = begun.elapsed().as_secs_f64();
    let seen = sampler.end().unwrap();
    control
        .execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event IN ('PgSleep', 'advisory')")
        .unwrap();
    for session in sessions {
        assert!(session.join().unwrap(), "it was ended");
    }

    let (record, statements, cost) = (seen.waits, seen.statements, seen.cost);
    let seen = waits::analyse([&record].into_iter(), seconds).unwrap();
    // Who holds up whom is asked, too, as some wait for a lock.
    assert!(
        seen.samples > 0 && cost.statements >= seen.samples,
        "{seen:?}"
    );
    for (event, sessions) in [("Timeout:PgSleep", SLEEPING), ("Lock:advisory", LOCKED)] {
        let sampled = seen.at(|e| e.name() == event);
        assert!(
            (sampled - sessions as f64).abs() < 1e-6,
            "{event}: {sampled} sessions at a time of {sessions}: {seen:?}"
        );
        // All of them are one statement's.
        let of_event = |at: &&Sighting| format!("{}:{}", at.kind, at.event) == event;
        let sightings: Vec<u64> = statements
            .statements
            .iter()
            .map(|s| s.at.iter().filter(of_event).map(|at| at.count).sum())
            .filter(|count| *count > 0)
            .collect();
        assert_eq!(
            sightings,
            [sessions as u64 * statements.looks],
            "{event}: {statements:?}"
        );
    }
}

//! `pgassay run pgio` and `pgassay run scattered-read` from outside, on a real
//! server: counts, documents, and what bad input gets.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::schema::assert_schema;
use pgassay_engine::workload::pgio::tables;
use pgassay_pgwire::{Connector, Conninfo};
use pgassay_server::{Cluster, Installations, LaunchOptions};
use pgassay_sys::stop::Stop;
use serde_json::Value;

use crate::runs::{Runs, Signal, gone, signal, text};

/// A place for clusters, removed at the end, and the runs.
struct Place(PathBuf, Runs);

impl Place {
    fn new(name: &str) -> Self {
        let path = PathBuf::from(format!(
            "/var/tmp/pgassay-test-{name}-{}",
            std::process::id()
        ));
        fs::remove_dir_all(&path).ok();
        fs::create_dir(&path).unwrap();
        Self(path, Runs::new(name))
    }

    fn line<'a>(&'a self, words: &[&'a str]) -> Vec<&'a str> {
        let mut line = vec!["run"];
        line.extend(words);
        line.extend(["--scratch", self.0.to_str().unwrap()]);
        line
    }

    fn run(&self, words: &[&str]) -> Output {
        self.1.run(&self.line(words))
    }

    /// Kills a run when its file has a line, and goes on with it.
    #[track_caller]
    fn killed_and_resumed(&self, words: &[&str]) -> Value {
        let mut child = self.1.start(&self.line(words));
        let dir = self.1.await_trials(1);
        signal(child.id(), Signal::KILL);
        child.wait().unwrap();
        assert!(gone(child.id()));
        assert!(
            !dir.join("end.json").exists(),
            "it was done too soon to be killed"
        );
        let document = self.document(&["--resume", dir.to_str().unwrap()]);
        assert_eq!(document["run"]["state"], "complete");
        let again = self.run(&["--resume", dir.to_str().unwrap()]);
        assert_eq!(again.status.code(), Some(2));
        assert!(text(&again.stderr).contains("is complete"));
        document
    }

    #[track_caller]
    fn followed(&self, runs: &[&str]) -> Value {
        let mut words = vec!["history", "--json"];
        words.extend(runs);
        let output = self.1.run(&words);
        let history = serde_json::from_slice(&output.stdout);
        history.unwrap_or_else(|e| panic!("{e}: {}", text(&output.stderr)))
    }

    #[track_caller]
    fn document(&self, words: &[&str]) -> Value {
        let mut all = words.to_vec();
        all.push("--json");
        let output = self.run(&all);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_schema(&document, "analysis-1.json");
        document
    }

    #[track_caller]
    fn refused(&self, words: &[&str], code: i32, says: &[&str]) {
        let output = self.run(words);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {text}");
        for word in says {
            assert!(text.contains(word), "{words:?}: {text}");
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

#[test]
fn pgio_counts_what_the_server_counts() {
    let place = Place::new("pgio");
    let config = place.0.join("pgio.conf");
    fs::write(
        &config,
        "UPDATE_PCT=0\nRUN_TIME=$(( 2 * 1 ))\nNUM_SCHEMAS=2\nNUM_THREADS=1\nSCALE=16M # small\n",
    )
    .unwrap();
    let config = config.to_str().unwrap();
    let document = place.document(&["pgio", "--config", config, "--trials", "2"]);
    let pgio = &document["pgio"];
    assert_eq!(pgio["plan"]["rows"], 2048);
    assert_eq!(pgio["points"][0]["sessions"], 2);
    let agreement = &pgio["agreement"];
    // One row a block: what the ranges hold is what the sessions looked at, and for a
    // range at an end of the index the block by which the planner sees how far the
    // keys go (get_actual_variable_range), until the plan is generic.
    let count = |name: &str| agreement[name].as_u64().unwrap();
    let looks = count("heap_blocks").checked_sub(count("touched_blocks"));
    assert!(
        looks.is_some_and(|looks| looks <= 2 * 2 * 5 * 2),
        "{agreement}"
    );
    assert!(agreement["touched_blocks"].as_u64().unwrap() > 256);
    let difference = agreement["difference"].as_f64().unwrap();
    // The catalogue's blocks are a fixed number, which weighs more on a busy machine.
    assert!((-0.0001..0.2).contains(&difference), "{agreement}");
    // All in shared buffers, or read once.
    let blocks = 2 * 2048 + 2 * 16;
    let misses = pgio["sessions"].as_array().unwrap().iter().map(|s| {
        let of = |name: &str| s[name].as_u64().unwrap();
        of("heap_blocks") + of("index_blocks") - of("blocks_hit")
    });
    assert!(misses.sum::<u64>() <= blocks);
}

#[test]
fn pgio_updates_commit_and_its_own_lines_are_there() {
    let place = Place::new("pgio-updates");
    let words = [
        "pgio",
        "--tables",
        "1",
        "--size",
        "16MB",
        "--clients",
        "2",
        "--time",
        "0.4",
    ];
    let mut updates = words.to_vec();
    updates.extend(["--trials", "2", "--update-pct", "60"]);
    let document = place.document(&updates);
    let sessions = document["pgio"]["sessions"].as_array().unwrap();
    let sum = |name: &str| -> u64 { sessions.iter().map(|s| s[name].as_u64().unwrap()).sum() };
    let (selects, updates) = (sum("selects"), sum("updates"));
    assert!(updates > 0);
    // Of each hundred operations sixty: exact over whole hundreds.
    let share = updates as f64 / (selects + updates) as f64;
    assert!(
        (share - 0.6).abs() < 0.1 + 60.0 / (selects + updates) as f64,
        "{selects} {updates}"
    );
    let mut classic = words.to_vec();
    classic.extend(["--trials", "1", "--classic", "--pgio-output"]);
    let output = place.run(&classic);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let line = text
        .lines()
        .find(|line| line.starts_with("DBNAME:  "))
        .unwrap();
    assert!(
        line.starts_with(
            "DBNAME:  postgres. 1 schemas, 2 threads(each). Run time: 0 seconds. RIOPS >"
        ) && line.contains("< CACHE_HITS/s >")
            && line.ends_with('<'),
        "{line}"
    );
    assert!(text.contains("Testing 1 schemas with 2 thread(s) accessing 2048 (2048 blocks)"));
    assert!(text.contains("loop_iterations"));
}

#[test]
fn set_up_completes_what_a_killed_one_left() {
    let place = Place::new("pgio-setup");
    let installation = Installations::search().newest().unwrap().clone();
    let options = LaunchOptions {
        scratch: Some(place.0.clone()),
        ..LaunchOptions::default()
    };
    let cluster = Cluster::launch(&installation, &options).unwrap();
    let conninfo = Conninfo::parse(&cluster.conninfo()).unwrap();
    let connector = Connector::new(&conninfo);
    let make = |tables, rows| {
        tables::create(&connector, tables, rows, 2, 7, &mut |_| {}, &Stop::new()).unwrap()
    };
    let first = make(3, 1024);
    assert_eq!((first.made, first.kept, first.replaced), (3, 0, 0));
    let mut session = connector.connect().unwrap();
    // As if the second had not been made when it was killed.
    session
        .execute(&format!("DROP TABLE {}", tables::table(2)))
        .unwrap();
    let second = make(3, 1024);
    assert_eq!((second.made, second.kept, second.replaced), (1, 2, 0));
    // Another scale, and tables beyond those asked for.
    let third = make(2, 2048);
    assert_eq!((third.made, third.kept, third.replaced), (0, 0, 2));
    assert_eq!(tables::others(&mut session, 2).unwrap(), 1);
    let pages = session
        .value(&format!(
            "SELECT pg_relation_size('{}') / 8192",
            tables::table(1)
        ))
        .unwrap();
    assert_eq!(pages.as_deref(), Some("2048"));
    // Neighbouring keys lie apart, and the planner knows the table.
    let correlation = session
        .value("SELECT abs(correlation) < 0.2 FROM pg_stats WHERE tablename = 'pgio1' AND attname = 'mykey'")
        .unwrap();
    assert_eq!(correlation.as_deref(), Some("t"));
    // Somebody else's table is not touched.
    session
        .execute(&format!(
            "DROP TABLE {0}; CREATE TABLE {0} (x int)",
            tables::table(1)
        ))
        .unwrap();
    let refused = tables::create(&connector, 1, 1024, 1, 7, &mut |_| {}, &Stop::new()).unwrap_err();
    assert!(refused.to_string().contains("not ours"), "{refused}");
    assert!(tables::remove(&mut session).is_err());
    session
        .execute(&format!("DROP TABLE {}", tables::table(1)))
        .unwrap();
    tables::remove(&mut session).unwrap();
    drop(session);
    cluster.stop().unwrap();
}

#[test]
fn scattered_reads_are_taken_apart() {
    let place = Place::new("scattered");
    let document = place.document(&[
        "scattered-read",
        "--size",
        "32MB",
        "--trials",
        "2",
        "--only",
        "bitmap,bitmap-no-prefetch,sequential",
    ]);
    let scattered = &document["scattered_read"];
    let variants = scattered["variants"].as_array().unwrap();
    assert_eq!(variants.len(), 3);
    let bitmap = &variants[0];
    assert_eq!(bitmap["plan_as_expected"], true);
    assert_eq!(bitmap["scan"], "Bitmap Heap Scan");
    // A tenth of 4,096 blocks, which shared buffers of 2 MiB don't hold.
    let blocks = bitmap["blocks_read"].as_u64().unwrap();
    assert!((400..=420).contains(&blocks), "{blocks}");
    let page = scattered["plan"]["page_size_bytes"].as_u64().unwrap();
    assert_eq!(
        bitmap["predicted"].as_f64().unwrap(),
        (page as f64 / 8192.0).max(1.0)
    );
    // What the processes read of devices is at least what was asked for.
    if let Some(read) = bitmap["processes_amplification"]["estimate"].as_f64() {
        assert!(
            read > 0.95 * bitmap["predicted"].as_f64().unwrap(),
            "{bitmap}"
        );
    }
    if let Some(shares) = bitmap["shares"].as_object() {
        let sum: f64 = shares.values().map(|v| v.as_f64().unwrap()).sum();
        let of = |name: &str| bitmap["amplification"][name].as_f64().unwrap();
        assert!(
            sum >= of("low") - 1e-6 && sum <= of("high") + 1e-6,
            "{bitmap}"
        );
    }
    assert!(variants[2]["scan"] == "Seq Scan" && variants[2]["predicted"] == 1.0);
}

#[test]
fn killed_runs_go_on_where_they_were() {
    let place = Place::new("bytes-killed");
    let words = "pgio --tables 1 --size 8MB --clients 1,2 --time 0.1 --trials 40 --update-pct 10";
    let words: Vec<&str> = words.split(' ').collect();
    let pgio = &place.killed_and_resumed(&words)["pgio"];
    for point in pgio["points"].as_array().unwrap() {
        assert_eq!(point["trials"].as_array().unwrap().len(), 40, "{point}");
    }
    assert_eq!(pgio["plan"]["update_pct"], 10);
    let history = place.followed(&["last"]);
    assert_eq!(history["series"].as_array().unwrap().len(), 4, "{history}");
    // The counters are of two servers.
    assert!(pgio["agreement"]["server_blocks"].is_null());
    let words = "scattered-read --size 8MB --trials 30 --only bitmap,sequential";
    let words: Vec<&str> = words.split(' ').collect();
    let place = Place::new("scattered-killed");
    let document = place.killed_and_resumed(&words);
    let scattered = &document["scattered_read"];
    assert_eq!(scattered["variants"].as_array().unwrap().len(), 2);
    for variant in scattered["variants"].as_array().unwrap() {
        assert_eq!(variant["cold"]["execution_ms"]["n"], 30, "{variant}");
    }
    let history = place.followed(&["last"]);
    assert_eq!(history["series"].as_array().unwrap().len(), 2, "{history}");
}

#[test]
fn a_primitive_goes_on_where_it_was_killed_and_is_run_again() {
    let place = Place::new("primitive-killed");
    let words = "lwlock --hold-ns 100 --clients 1,2 --time 0.05 --trials 60 --observe sched";
    let words: Vec<&str> = words.split(' ').collect();
    let document = place.killed_and_resumed(&words);
    assert_eq!(document["stages"][0]["id"], "primitives");
    assert_eq!(document["run"]["trials_measured"], 120);
    // With the flags of then.
    let primitives = document["primitives"].as_array().unwrap();
    assert_eq!(primitives.len(), 1, "{primitives:?}");
    for point in primitives[0]["points"].as_array().unwrap() {
        assert_eq!(point["trials"].as_array().unwrap().len(), 60, "{point}");
    }
    assert!(document["stages"][0]["arms"][0]["observed"]["points"][0]["scheduling"].is_object());
    let again = place.document(&["--repeat", document["run"]["id"].as_str().unwrap()]);
    assert_ne!(again["run"]["id"], document["run"]["id"]);
    assert_eq!(again["stages"][0]["plan"], document["stages"][0]["plan"]);
    assert_eq!(again["run"]["trials_measured"], 120);

    let ids = [&document, &again].map(|run| run["run"]["id"].as_str().unwrap());
    let history = place.followed(&ids);
    let series = history["series"].as_array().unwrap();
    // Throughput and server CPU time at each of two counts.
    assert_eq!(
        (history["runs"].as_array().unwrap().len(), series.len()),
        (2, 4)
    );
    assert!(
        series
            .iter()
            .all(|s| s["load"].as_str().unwrap().starts_with("lwlock"))
    );
    let fit = place.1.run(&["fit", ids[0], "--json"]);
    let fit: Value = serde_json::from_slice(&fit.stdout).unwrap();
    let measured = fit["arms"][0]["points"].as_array().unwrap();
    assert!(
        measured.len() == 2 && measured[1]["measured_tps"].is_object(),
        "{fit}"
    );
}

#[test]
fn runs_on_several_kernels_are_one_report() {
    let place = Place::new("kernels");
    let words = [
        "scattered-read",
        "--size",
        "8MB",
        "--trials",
        "1",
        "--only",
        "bitmap",
    ];
    let ids: Vec<String> = (0..2)
        .map(|_| {
            place.document(&words)["run"]["id"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    let output = place
        .1
        .run(&["report", &ids[0], &ids[1], "--format", "html"]);
    let page = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(page.contains("Scattered reads on 2 kernels"));
    assert!(page.contains("Read amplification by page size") && page.contains("<svg"));
    for id in &ids {
        assert!(page.contains(id.as_str()));
    }
}

#[test]
fn bad_input_names_the_line_and_the_remedy() {
    let place = Place::new("bytes-bad");
    let config = place.0.join("pgio.conf");
    let with = |text: &str| {
        fs::write(&config, text).unwrap();
        config.to_str().unwrap().to_owned()
    };
    let path = with("RUN_TIME=1\nwhile true; do\n");
    place.refused(&["pgio", "--config", &path], 2, &["line 2", "KEY=value"]);
    let path = with("UPDATE_PCT=101\n");
    place.refused(
        &["pgio", "--config", &path],
        2,
        &["line 1", "between 0 and 100"],
    );
    place.refused(&["pgio", "--config", "/no/such"], 2, &["/no/such"]);
    place.refused(
        &["pgio", "--only", "bitmap"],
        2,
        &["--only", "scattered-read"],
    );
    place.refused(&["select-only", "--classic"], 2, &["--classic", "pgio"]);
    place.refused(&["scattered-read", "--clients", "2"], 2, &["--clients"]);
    place.refused(
        &["scattered-read", "--only", "x"],
        2,
        &["--only", "bitmap-random"],
    );
    place.refused(&["scattered-read", "host=/no/such"], 2, &["--load"]);
    // On tmpfs no disk would be measured.
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        let scratch = memory.join(format!("pgassay-test-{}", std::process::id()));
        fs::create_dir(&scratch).unwrap();
        let line = [
            "run",
            "scattered-read",
            "--scratch",
            scratch.to_str().unwrap(),
        ];
        let output = place.1.run(&line);
        fs::remove_dir_all(&scratch).unwrap();
        assert_eq!(output.status.code(), Some(3));
        assert!(
            text(&output.stderr).contains("tmpfs"),
            "{}",
            text(&output.stderr)
        );
    }
    // Beyond the disk: refused before anything is made, with the figures.
    let path = with("SCALE=31T\nNUM_SCHEMAS=100\n");
    place.refused(&["pgio", "--config", &path], 2, &["GB free", "SCALE"]);
}

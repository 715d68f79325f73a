//! Windows of `pgassay watch` on real servers, recorded once as run directories, and the conclusions from them. The
//! tests read the recorded ones, so what they judge is the same on every machine, however busy. `make record-cases`
//! records them again: it starts the servers, carries out the remedies, and holds the new records against the tests.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread::{self, JoinHandle};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use jsonschema::Validator;
use pgassay::cli::args::Command;
use pgassay::commands::watch;
use pgassay::{Stop, Terminal};
use pgassay_analysis::watched;
use pgassay_engine::rundir::{self, RunWriter};
use pgassay_model::record::RecordedRun;
use pgassay_pgwire::{Session, connect};
use serde_json::{Value, json};

use crate::pg_support::{OWNER, Server};

pub(crate) const HBA: &str = "local all all trust\nhost all all 127.0.0.1/32 trust\n";

/// Where it is set, scenarios are recorded.
const RECORD: &str = "RECORD";
/// Seconds of a recorded window.
const WINDOW: &str = "10";

/// What `pgassay watch` concludes from each window of a scenario.
pub(crate) fn windows<const N: usize>(
    name: &str,
    scenario: impl FnOnce(&mut Recorder),
) -> [Value; N] {
    windows_of(name, scenario).try_into().unwrap()
}

fn windows_of(name: &str, scenario: impl FnOnce(&mut Recorder)) -> Vec<Value> {
    let archive = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/recorded")
        .join(format!("{name}.tar.gz"));
    if std::env::var_os(RECORD).is_some() {
        let mut recorder = Recorder::default();
        scenario(&mut recorder);
        fs::write(&archive, recorder.archive()).unwrap();
    }
    let file = fs::File::open(&archive).unwrap_or_else(|e| panic!("{}: {e}", archive.display()));
    let dir = Temporary::new(name);
    tar::Archive::new(GzDecoder::new(file))
        .unpack(&dir.0)
        .unwrap();
    (0..fs::read_dir(&dir.0).unwrap().count())
        .map(|n| conclusions(&rundir::read(&dir.0.join(n.to_string())).unwrap()))
        .collect()
}

/// A spoilt statement: its [`causes`], words of the one in question, the statement, and a form of it for which that
/// one does not weigh. `#` is another number each time.
pub(crate) type Case = (
    &'static [&'static str],
    &'static str,
    &'static str,
    &'static str,
);

/// Holds a diagnosis against spoilt statements, each in a window of its own, and against their better forms in a
/// common one, which it returns.
pub(crate) fn holds(name: &str, cases: &[Case], server: impl FnOnce() -> Server) -> Value {
    let mut windows = windows_of(name, |record| {
        let server = server();
        for (_, _, spoilt, _) in cases {
            record.window(&server, &[spoilt]);
        }
        let better: Vec<&str> = cases.iter().map(|case| case.3).collect();
        record.window(&server, &better);
    });
    let better = windows.pop().unwrap();
    assert_eq!(windows.len(), cases.len());
    for ((expected, words, _, _), seen) in cases.iter().zip(&windows) {
        if *expected == GENERAL {
            general(seen, words);
            continue;
        }
        assert_eq!(causes(seen), *expected, "{:#}", seen["diagnosis"]);
        let mut found = expected.iter().map(|id| the(seen, id));
        let found = found.find(|found| found.to_string().contains(words));
        let found = found.unwrap_or_else(|| panic!("{words}: {:#}", seen["diagnosis"]));
        assert_ne!(found["confidence"], "low", "{found:#}");
        assert!(is_about_most_seen(found, seen), "{found:#}");
        let weighs = finding(&better, found["id"].as_str().unwrap()).is_some_and(weighs);
        assert!(!weighs, "{:#}", better["diagnosis"]);
    }
    better
}

/// The causes of a [`Case`] for which no specific rule exists.
pub(crate) const GENERAL: &[&str] = &[];

/// Holds that one of the first three findings names the statement that takes most of the time, with its share and these
/// words.
pub(crate) fn general(seen: &Value, words: &str) {
    let findings = seen["diagnosis"]["findings"].as_array().unwrap();
    let mut first = findings.iter().take(3);
    let names = first.any(|found| {
        let share = found["budget_share"].as_f64();
        is_about_most_seen(found, seen)
            && share.is_some_and(|share| share > 0.1)
            && found.to_string().contains(words)
    });
    assert!(names, "{words}: {:#}", seen["diagnosis"]);
}

/// Whether a finding is about the statement that was seen most.
fn is_about_most_seen(found: &Value, seen: &Value) -> bool {
    let most_seen = &seen["observed"]["points"][0]["statements"]["statements"][0];
    found["subjects"]["statements"] == json!([most_seen["id"]])
}

fn conclusions(run: &RecordedRun) -> Value {
    assert_eq!(run.damage, Vec::<String>::new());
    let seen = serde_json::to_value(watched::of(run).unwrap()).unwrap();
    validate(&seen);
    seen
}

/// Holds what `pgassay watch --json` writes against its schema.
pub(crate) fn validate(seen: &Value) {
    static SCHEMA: LazyLock<Validator> = LazyLock::new(|| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema/watch-1.json");
        let schema = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        jsonschema::validator_for(&schema).unwrap()
    });
    let errors = SCHEMA.iter_errors(seen);
    let errors: Vec<String> = errors
        .map(|e| format!("{}: {e}", e.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{errors:#?}");
}

/// A directory that is removed in the end.
pub(crate) struct Temporary(pub(crate) PathBuf);

impl Temporary {
    pub(crate) fn new(name: &str) -> Self {
        let name = format!("pgassay-recorded-{}-{name}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Records the windows of a scenario.
#[derive(Default)]
pub(crate) struct Recorder {
    /// The files of each window, by name.
    windows: Vec<BTreeMap<String, String>>,
}

impl Recorder {
    /// Watches a server while four sessions send each of these statements, and returns what is concluded.
    pub(crate) fn window(&mut self, server: &Server, statements: &[&str]) -> Value {
        let each = statements.iter().flat_map(|sql| [sql; 4]);
        let app = server.owner().with_application_name("app");
        let workers: Vec<Worker> = each
            .map(|sql| Worker::start(connect(&app).unwrap(), sql))
            .collect();
        let socket = server.socket_dir.display();
        let uri = format!(
            "host={socket} port={} user={OWNER} dbname=postgres",
            server.port
        );
        let words = ["pgassay", "watch", &uri, "--time", WINDOW, "--count", "1"];
        let args = pgassay::cli::parse(words.map(OsString::from)).unwrap();
        let Command::Watch(watch) = args.command else {
            unreachable!()
        };
        let mut terminal = Terminal::plain(Box::new(Vec::new()), Box::new(Vec::new()), 100);
        let mut seen = Value::Null;
        let record = |run: &RecordedRun, _: &mut Terminal| {
            let run = reduced(run);
            seen = conclusions(&run);
            self.windows.push(files(&run, server)?);
            Ok(())
        };
        watch::windows(&watch, &args.global, &mut terminal, &Stop::new(), record).unwrap();
        for worker in workers {
            worker.end();
        }
        seen
    }

    fn archive(self) -> Vec<u8> {
        let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::best()));
        let windows = self.windows.iter().enumerate();
        let mut files: Vec<(&str, usize, &str)> = windows
            .flat_map(|(n, files)| files.iter().map(move |(name, text)| (&**name, n, &**text)))
            .collect();
        // The same file of another window compresses well next to it.
        files.sort();
        for (name, n, text) in files {
            let mut header = tar::Header::new_ustar();
            header.set_size(text.len() as u64);
            header.set_mode(0o644);
            archive
                .append_data(&mut header, format!("{n}/{name}"), text.as_bytes())
                .unwrap();
        }
        archive.into_inner().unwrap().finish().unwrap()
    }
}

/// What of the machine a diagnosis of the load needs. The rest would identify it, and give findings of its own.
const MACHINE: &[&str] = &[
    "/proc/cpuinfo",
    "getconf PAGESIZE",
    "sched_getaffinity",
    "uname machine",
];

fn reduced(run: &RecordedRun) -> RecordedRun {
    let mut run = run.clone();
    run.host.retain(|name, _| MACHINE.contains(&&**name));
    for trial in &mut run.trials {
        let of_the_group = |name: &str| name.starts_with("cgroup.") || name == "host.diskstats";
        trial.samples.retain(|name, _| !of_the_group(name));
    }
    run
}

/// The files of a run, without this machine's paths.
fn files(run: &RecordedRun, server: &Server) -> anyhow::Result<BTreeMap<String, String>> {
    let root = Temporary::new("written");
    let mut writer = RunWriter::create(&root.0, &mut run.header.clone())?;
    writer.write_fact("host", &run.host)?;
    writer.write_fact("server-0", &run.servers[&0])?;
    writer.write_fact("storage-0", &run.storage[&0])?;
    writer.write_fact("binary-0", &run.binaries[&0])?;
    if let Some(symbols) = run.symbols.get(&0) {
        writer.write_fact("symbols-0", symbols)?;
    }
    writer.append_trial(&run.trials[0])?;
    writer.finish(run.end.as_ref().unwrap())?;
    let mut files = BTreeMap::new();
    for dir in [writer.dir().to_owned(), writer.dir().join("facts")] {
        for entry in fs::read_dir(&dir)? {
            let path = entry?.path();
            if path.extension().is_some() {
                let name = path.strip_prefix(writer.dir())?.display().to_string();
                let text = compact(&fs::read_to_string(&path)?)?
                    .replace(&*server.socket_dir.to_string_lossy(), "/run/postgresql")
                    .replace(&*server.dir.to_string_lossy(), "/var/lib/postgresql");
                files.insert(name, text);
            }
        }
    }
    Ok(files)
}

/// A document, or lines of them, without the spaces that make it readable.
fn compact(text: &str) -> anyhow::Result<String> {
    let values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let lines: Result<Vec<String>, _> = values.map(|v| v.map(|v| format!("{v}\n"))).collect();
    Ok(lines?.concat())
}

/// A session that sends the same statement, with another number each time, until it is told to stop.
pub(crate) struct Worker {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    pub(crate) fn start(mut session: Session, sql: &str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (asked, sql) = (Arc::clone(&stop), sql.to_owned());
        let thread = thread::spawn(move || {
            let mut done = 0;
            while !asked.load(Ordering::Relaxed) {
                done += 1;
                // A lock that times out is an error, and no other is expected.
                let _ = session.execute(&sql.replace('#', &done.to_string()));
            }
        });
        Self {
            stop,
            thread: Some(thread),
        }
    }

    pub(crate) fn end(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

pub(crate) fn finding<'v>(seen: &'v Value, id: &str) -> Option<&'v Value> {
    let findings = seen["diagnosis"]["findings"].as_array().unwrap();
    findings.iter().find(|f| f["id"] == id)
}

pub(crate) fn the<'v>(seen: &'v Value, id: &str) -> &'v Value {
    finding(seen, id).unwrap_or_else(|| {
        let point = &seen["observed"]["points"][0];
        let (statements, tables) = (&point["statements"], &point["growth"]["tables"]);
        panic!(
            "{id} is not among {:#}\n{statements:#}\n{tables:#}",
            seen["diagnosis"]
        )
    })
}

pub(crate) fn sql_of(finding: &Value) -> &str {
    let steps = finding["remedy"].as_array().unwrap();
    let sql = steps.iter().find(|step| step["kind"] == "sql");
    sql.unwrap_or_else(|| panic!("{finding:#}"))["text"]
        .as_str()
        .unwrap()
}

fn weighs(finding: &Value) -> bool {
    finding["severity"] != "low" && finding["severity"] != "info"
}

/// The findings that weigh and are no symptoms of others, in their order; how busy the CPUs were as it was recorded
/// aside.
pub(crate) fn causes(seen: &Value) -> Vec<&str> {
    let findings = seen["diagnosis"]["findings"].as_array().unwrap().iter();
    let causes = findings.filter(|f| weighs(f) && f["symptom_of"].is_null());
    let ids = causes.map(|f| f["id"].as_str().unwrap());
    ids.filter(|id| !id.starts_with("cpu-")).collect()
}

//! Commands on another machine: carried by a plain command and by a real sshd, a far side that means
//! harm, and either side killed.

mod ended;
mod hostile;
mod ssh;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::LazyLock;

use ring::digest::{SHA256, digest};
use serde_json::Value;

pub use self::ended::{Measuring, carrier_of, measuring, nothing_is_left};
pub use self::ssh::Sshd;
use crate::runs::{Runs, text};

/// The command that stands for one that carries standard input and output to another machine, and that is
/// a process of its own.
pub const CARRIED: &str = "exec:sh -c '\"$@\"; exit $?' carrier";

const PROGRAM: &str = env!("CARGO_BIN_EXE_pgassay");

/// A short measurement.
pub const SHORT: [&str; 9] = [
    "-c", "1", "-T", "0.1", "--warmup", "0", "-s", "1", "--trials",
];

impl Runs {
    /// Runs with a far side that has the program already: hundreds of megabytes are not copied for each test.
    pub fn far(name: &str) -> Self {
        static HASH: LazyLock<String> = LazyLock::new(|| {
            let program = fs::read(PROGRAM).unwrap();
            let hash = digest(&SHA256, &program);
            hash.as_ref().iter().map(|b| format!("{b:02x}")).collect()
        });
        let runs = Self::new(name);
        let cache = runs.cache();
        fs::create_dir_all(&cache).unwrap();
        let place = cache.join(&*HASH);
        // Another file system takes a copy.
        fs::hard_link(PROGRAM, &place)
            .or_else(|_| fs::copy(PROGRAM, &place).map(drop))
            .unwrap();
        runs
    }

    /// Where the far side, which is this machine, has the program.
    fn cache(&self) -> PathBuf {
        self.0.with_extension("cache").join("pgassay/far")
    }

    /// The only run that there is.
    pub fn only(&self) -> PathBuf {
        let mut runs = fs::read_dir(&self.0).unwrap().flatten();
        let run = runs.next().expect("a run was kept").path();
        assert!(runs.next().is_none());
        run
    }

    /// Processes of the far side, each with its command line.
    pub fn far_processes(&self) -> Vec<(u32, String)> {
        let cache = self.cache();
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let of_far = processes.filter_map(|process| {
            let pid: u32 = process.file_name().to_str()?.parse().ok()?;
            let exe = fs::read_link(process.path().join("exe")).ok()?;
            let line = fs::read(process.path().join("cmdline")).ok()?;
            exe.starts_with(&cache).then(|| {
                let words: Vec<_> = line
                    .split(|b| *b == 0)
                    .map(String::from_utf8_lossy)
                    .collect();
                (pid, words.join(" ").trim().to_owned())
            })
        });
        of_far.collect()
    }

    /// The process of the far side that has this part.
    pub fn far_process(&self, part: Part) -> u32 {
        let mut processes = self.far_processes();
        // A child of the eldest is the same program until it executes another.
        processes.sort();
        let found = processes.iter().find(|(_, line)| match part {
            Part::Agent => line.ends_with(" far"),
            Part::Warden => line.ends_with(" --warden"),
            Part::Command => line.contains(" run "),
        });
        found
            .unwrap_or_else(|| panic!("{part:?} in {processes:?}"))
            .0
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Part {
    Agent,
    Warden,
    Command,
}

pub fn at(place: &str, target: &str) -> String {
    format!("{place} // {target}")
}

pub fn lines(file: &Path) -> usize {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines()
        .filter(|line| serde_json::from_str::<Value>(line).is_ok())
        .count()
}

/// The directories of a session, by its agent's process.
fn sessions(agent: u32) -> Vec<PathBuf> {
    let all = fs::read_dir("/var/tmp").unwrap().flatten();
    let own = format!("pgassay-far-{agent}-");
    let named = |path: &PathBuf| {
        path.file_name()
            .unwrap()
            .to_string_lossy()
            .starts_with(&own)
    };
    all.map(|entry| entry.path()).filter(named).collect()
}

#[track_caller]
pub fn refused(output: &Output, code: i32, why: &str) {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert!(said.contains(why), "{said}");
}

#[test]
fn a_run_elsewhere_is_measured_there_and_kept_here() {
    let runs = Runs::new("far-run");
    let target = at(CARRIED, "temp");
    let mut args = vec!["run", "select-only", target.as_str(), "--json"];
    args.extend(SHORT);
    args.push("2");
    let output = runs.run(&args);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("the load runs there, too"), "{said}");
    let analysis: Value = serde_json::from_slice(&output.stdout).unwrap();
    let shown = analysis["arms"][0]["target"].as_str().unwrap();
    assert!(
        shown.contains(", on exec:sh") && shown.ends_with("with its load"),
        "{shown}"
    );
    // What was typed here, by which it is done again.
    assert_eq!(analysis["run"]["command_line"][3], target.as_str());
    let run = runs.only();
    assert_eq!(lines(&run.join("trials.jsonl")), 2);
    assert!(fs::metadata(run.join("report.html")).unwrap().len() > 10_000);
    // It is named by where it is now, and that place is no link of another session.
    assert!(
        said.contains(&run.join("report.html").display().to_string()),
        "{said}"
    );
    assert!(
        runs.far_processes().is_empty(),
        "{:?}",
        runs.far_processes()
    );

    // It is a run like any other, but for executing what another machine wrote.
    let again = runs.run(&["report", "last", "--json"]);
    let again: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(again["run"]["id"], analysis["run"]["id"]);
    refused(
        &runs.run(&["run", "--repeat", "last"]),
        2,
        "not executed here",
    );
    refused(
        &runs.run(&["run", "--resume", "last"]),
        2,
        "not executed here",
    );

    // The program was copied there once, for the user alone.
    let copies: Vec<_> = fs::read_dir(runs.cache()).unwrap().flatten().collect();
    assert_eq!(copies.len(), 1);
    let before = copies[0].metadata().unwrap().modified().unwrap();
    let check = runs.run(&["check", &target, "--json"]);
    let check: Value = serde_json::from_slice(&check.stdout).unwrap();
    assert_eq!(check["schema"], "pgassay/check/1");
    assert_eq!(copies[0].metadata().unwrap().modified().unwrap(), before);
}

#[test]
fn files_go_there_and_come_back_and_exit_codes_pass() {
    let runs = Runs::far("far-files");
    let dir = runs.0.with_extension("files");
    fs::create_dir_all(&dir).unwrap();
    let script = dir.join("mine.sql");
    fs::write(&script, "SELECT 42;\n").unwrap();
    let (script, page) = (script.display().to_string(), dir.join("page.html"));
    let target = at(CARRIED, "");
    let mut args = vec!["run", script.as_str(), target.as_str()];
    args.extend(SHORT);
    args.push("1");
    let output = runs.run(&args);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(lines(&runs.only().join("trials.jsonl")), 1);

    let html = format!("--html={}", page.display());
    let output = runs.run(&["check", &target, &html]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(fs::read_to_string(&page).unwrap().contains("</html>"));

    let missing = runs.run(&["assay", &at(CARRIED, "temp:77")]);
    refused(&missing, 3, "no PostgreSQL 77 server is installed here");
    let unmet = runs.run(&["inspect", &at(CARRIED, "temp"), "--require", "lse"]);
    assert_eq!(
        unmet.status.code(),
        Some(i32::from(cfg!(target_arch = "x86_64")))
    );
    let doctor = runs.run(&["doctor", "--on", CARRIED, "--json"]);
    let doctor: Value = serde_json::from_slice(&doctor.stdout).unwrap();
    assert_eq!(doctor["schema"], "pgassay/doctor/1");
    fs::remove_dir_all(dir).unwrap();
}

/// No page comes from there: these are rendered here, from the run.
#[test]
fn the_pages_of_a_comparison_elsewhere_are_rendered_here() {
    let runs = Runs::far("far-compared");
    let page = runs.0.with_extension("html");
    let target = at(CARRIED, "temp");
    let words = "--workload select-only --scale 1 --clients 1 --slice 0.1 --launches 1 --noise-pairs 2 \
                 --pairs 4 --json --html";
    let mut args = vec!["compare", target.as_str(), target.as_str()];
    args.extend(words.split_whitespace());
    args.push(page.to_str().unwrap());
    let output = runs.run(&args);
    let said = text(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 1 | 5)), "{said}");
    let recorded = runs.only().join("report.html");
    assert!(said.contains(&recorded.display().to_string()), "{said}");
    let report = fs::read_to_string(&recorded).unwrap();
    assert!(report.contains("B against A"), "{report}");
    assert!(report == fs::read_to_string(&page).unwrap());
    fs::remove_file(page).unwrap();
}

#[test]
fn who_is_not_there_is_named_with_a_remedy() {
    let runs = Runs::new("far-nobody");
    let absent = runs.run(&["check", "exec:/no/such/carrier // temp"]);
    refused(&absent, 2, "can't be started");
    let silent = runs.run(&["check", "exec:true // temp"]);
    refused(&silent, 3, "ended without a word");
    let talks = runs.run(&["check", "exec:sh -c 'echo no such pod >&2; exit 1' // temp"]);
    refused(&talks, 3, "no such pod");
    let other = runs.run(&[
        "check",
        "exec:sh -c 'echo pgassay-far-absent s390x -' // temp",
    ]);
    refused(&other, 3, "another architecture: s390x");
    refused(&other, 3, "--far-program");
    // Typed by a person, or by a program that has something else to say.
    let by_hand = runs.run(&["far"]);
    assert_eq!(by_hand.status.code(), Some(3), "{}", text(&by_hand.stderr));
}

//! Commands on another machine: carried by a plain command and by a real sshd, a far side that means
//! harm, and either side killed.

use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use pgassay_far::frame;
use pgassay_far::hello::{OLDEST, PROTOCOL};
use serde_json::{Value, json};

use crate::runs::{Runs, Signal, gone, signal, text};

/// The command that stands for one that carries standard input and output to another machine, and that is
/// a process of its own.
pub const CARRIED: &str = "exec:sh -c '\"$@\"; exit $?' carrier";

/// A short measurement.
pub const SHORT: [&str; 9] = [
    "-c", "1", "-T", "0.1", "--warmup", "0", "-s", "1", "--trials",
];

impl Runs {
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
    let runs = Runs::new("far-files");
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

/// A far side that says these frames, after a proper beginning, and then waits.
struct Hostile {
    dir: PathBuf,
}

impl Hostile {
    fn new(name: &str) -> Self {
        let dir =
            std::env::temp_dir().join(format!("pgassay-hostile-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        Self { dir }
    }

    /// The place at which it answers with this.
    fn place(&self, bytes: &[u8]) -> String {
        let file = self.dir.join("says");
        fs::write(&file, bytes).unwrap();
        // It goes when nobody listens any more.
        format!(
            "exec:sh -c 'cat {}; cat >/dev/null' // temp",
            file.display()
        )
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

fn hello(protocol: u32, oldest: u32) -> Vec<u8> {
    let mut bytes = b"Welcome!\n\x01pgassay-far\x01\n".to_vec();
    let hello = json!({"protocol": protocol, "oldest": oldest, "version": "9.9\u{1b}[2J"});
    frame::write(&mut bytes, 0, hello.to_string().as_bytes()).unwrap();
    bytes
}

fn says(bytes: &mut Vec<u8>, word: &Value) {
    frame::write(bytes, 1, word.to_string().as_bytes()).unwrap();
}

fn file(bytes: &mut Vec<u8>, path: &str, content: &[u8]) {
    let head = json!({"path": path, "at": 0, "appends": false, "last": true});
    let mut body = format!("{head}\n").into_bytes();
    body.extend_from_slice(content);
    frame::write(bytes, 2, &body).unwrap();
}

#[test]
fn a_hostile_far_side_steers_no_terminal_and_writes_nothing_outside_of_its_run() {
    let runs = Runs::new("far-hostile");
    let hostile = Hostile::new("far");
    let run = |bytes: &[u8]| {
        let output = runs.run(&["check", &hostile.place(bytes)]);
        let shown = [text(&output.stdout), text(&output.stderr)].concat();
        let odd = |c: char| pgassay_text::is_unsafe(c) && c != '\n';
        assert!(!shown.contains(odd), "{shown:?}");
        output
    };
    refused(
        &run(&hello(9, 8)),
        3,
        "the far side is too new: pgassay 9.9",
    );
    refused(&run(&hello(0, 0)), 3, "the far side is too old");
    refused(
        &run(b"\x01pgassay-far\x01\n\xff\xff\xff\xff\x00\x01"),
        3,
        "does not make sense",
    );
    refused(&run(&b"\x1b[2J noise ".repeat(10_000)), 3, "is not pgassay");

    let mut escapes = hello(PROTOCOL, OLDEST);
    says(&mut escapes, &json!({"Out": "a\u{1b}[31mred\u{9b}2J\n"}));
    says(
        &mut escapes,
        &json!({"Said": "warning: b\u{1b}]0;title\u{7}\n"}),
    );
    says(&mut escapes, &json!({"Ended": {"code": 0}}));
    let shown = run(&escapes);
    assert_eq!(shown.status.code(), Some(0), "{}", text(&shown.stderr));
    assert!(text(&shown.stdout).starts_with("a\u{fffd}[31mred"));
    // Nor does it choose how this program ends beyond the codes that there are.
    let mut odd = hello(PROTOCOL, OLDEST);
    says(&mut odd, &json!({"Ended": {"code": 139}}));
    assert_eq!(run(&odd).status.code(), Some(70));

    let outside = hostile.dir.join("outside");
    fs::create_dir_all(runs.0.join("mine")).unwrap();
    for path in [
        format!("r/../../{}", outside.file_name().unwrap().display()),
        outside.display().to_string(),
        "../outside".into(),
        "mine/run.json".into(),
        "r/elsewhere.json".into(),
        "r/a\u{1b}[2J".into(),
    ] {
        let mut bytes = hello(PROTOCOL, OLDEST);
        file(&mut bytes, &path, b"{}");
        says(&mut bytes, &json!({"Ended": {"code": 0}}));
        refused(&run(&bytes), 3, "not to be trusted");
    }
    assert_eq!(fs::read_dir(runs.0.join("mine")).unwrap().count(), 0);
    assert!(!outside.exists() && !runs.0.with_file_name("outside").exists());

    // What is no message, and one that ends in the middle.
    let mut nonsense = hello(PROTOCOL, OLDEST);
    frame::write(&mut nonsense, 1, b"{\"Dance\": 1}").unwrap();
    refused(&run(&nonsense), 3, "does not make sense");
    let mut cut = hello(PROTOCOL, OLDEST);
    cut.extend([0, 0, 1, 0, 0, 1, b'{']);
    let place = hostile.place(&cut).replace("; cat >/dev/null", "");
    refused(&runs.run(&["check", &place]), 3, "the other side ended");
}

/// Waits until nothing of the far side runs and nothing of it lies around.
pub fn nothing_is_left(runs: &Runs, agent: u32) {
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        let processes = runs.far_processes();
        let lying = sessions(agent);
        let clusters: Vec<_> = fs::read_dir(scratch(runs))
            .into_iter()
            .flatten()
            .flatten()
            .flat_map(|ours| {
                fs::read_dir(ours.path().join("clusters"))
                    .into_iter()
                    .flatten()
            })
            .flatten()
            .collect();
        if processes.is_empty() && lying.is_empty() && clusters.is_empty() {
            return;
        }
        assert!(
            Instant::now() < until,
            "left: {processes:?} {lying:?} {clusters:?}"
        );
        sleep(Duration::from_millis(50));
    }
}

/// A scratch directory of this test alone.
fn scratch(runs: &Runs) -> PathBuf {
    let name = runs.0.file_name().unwrap().to_string_lossy().into_owned();
    PathBuf::from("/var/tmp").join(format!("{name}-scratch"))
}

/// Ends whatever a test started, and removes what it made.
pub struct Measuring {
    pub near: Child,
    /// The far side's process that answers it.
    pub agent: u32,
    pub scratch: PathBuf,
}

impl Drop for Measuring {
    fn drop(&mut self) {
        let _ = self.near.kill();
        let _ = self.near.wait();
        let _ = fs::remove_dir_all(&self.scratch);
    }
}

/// A long measurement elsewhere, two trials of which are here.
pub fn measuring(
    runs: &Runs,
    target: &str,
    more: &[&str],
    ssh: Option<&str>,
) -> (Measuring, PathBuf) {
    let scratch = scratch(runs);
    fs::create_dir_all(&scratch).unwrap();
    let place = scratch.display().to_string();
    let mut args = vec!["run", "select-only", target, "--scratch", &place];
    args.extend(more);
    args.extend(SHORT);
    args.push("2000");
    let mut command = runs.by_default(&args);
    if let Some(ssh) = ssh {
        command.env("PGASSAY_SSH", ssh);
    }
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let near = command.spawn().unwrap();
    let mut measuring = Measuring {
        near,
        agent: 0,
        scratch,
    };
    let run = runs.await_trials(2);
    measuring.agent = runs.far_process(Part::Agent);
    (measuring, run)
}

/// Whoever is killed: what was measured is kept, and nothing goes on.
#[test]
fn nothing_runs_on_when_a_part_is_killed() {
    enum Victim {
        Near,
        Carrier,
        Far(&'static [Part]),
    }
    use Part::{Agent, Command, Warden};
    for (n, victim) in [
        Victim::Near,
        Victim::Carrier,
        Victim::Far(&[Agent]),
        Victim::Far(&[Command]),
        Victim::Far(&[Warden]),
        Victim::Far(&[Agent, Command]),
    ]
    .into_iter()
    .enumerate()
    {
        let runs = Runs::new("far-killed");
        let (mut measuring, run) = measuring(&runs, &at(CARRIED, "temp"), &[], None);
        let near = measuring.near.id();
        let trials = lines(&run.join("trials.jsonl"));
        let pids = match &victim {
            Victim::Near => vec![near],
            Victim::Carrier => vec![carrier_of(near)],
            Victim::Far(parts) => parts.iter().map(|part| runs.far_process(*part)).collect(),
        };
        for pid in pids {
            signal(pid, Signal::KILL);
        }
        if let Victim::Far(&[Warden]) = victim {
            // Nothing is measured by it: only now there is nobody to tidy up, should the agent be killed, too.
            signal(near, Signal::INT);
        }
        assert!(gone(near), "{n}");
        let mut said = String::new();
        use std::io::Read;
        measuring
            .near
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut said)
            .unwrap();
        let code = measuring.near.wait().unwrap().code();
        match victim {
            Victim::Near => assert_eq!(code, None),
            // Ended there in order, or here with what was kept.
            _ => assert_eq!(code, Some(4), "{n}: {said}"),
        }
        if !matches!(victim, Victim::Near | Victim::Far(&[Warden])) {
            assert!(said.contains("finished trials were kept"), "{n}: {said}");
        }
        nothing_is_left(&runs, measuring.agent);
        assert!(lines(&run.join("trials.jsonl")) >= trials, "{n}");
        assert!(!pgassay_engine::rundir::is_running(&run));
        // It is told as an interrupted run.
        let list = runs.run(&["runs", "--json"]);
        assert!(
            text(&list.stdout).contains("interrupted"),
            "{}",
            text(&list.stdout)
        );
    }
}

/// A command that is stopped hears of nothing, and is ended all the same.
#[test]
fn a_command_that_is_stopped_does_not_stay() {
    let runs = Runs::new("far-stopped");
    let (measuring, _) = measuring(&runs, &at(CARRIED, "temp"), &[], None);
    signal(runs.far_process(Part::Command), Signal::STOP);
    // What it is asked waits for as long as it is stopped.
    signal(measuring.near.id(), Signal::INT);
    signal(measuring.near.id(), Signal::KILL);
    assert!(gone(measuring.near.id()));
    nothing_is_left(&runs, measuring.agent);
}

/// The carrier: the first child of the near side.
pub fn carrier_of(pid: u32) -> u32 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let all: String = lists.collect();
    all.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn ctrl_c_here_is_ctrl_c_there() {
    let runs = Runs::new("far-interrupted");
    let (mut measuring, run) = measuring(&runs, &at(CARRIED, "temp"), &[], None);
    signal(measuring.near.id(), Signal::INT);
    assert!(gone(measuring.near.id()));
    assert_eq!(measuring.near.wait().unwrap().code(), Some(4));
    nothing_is_left(&runs, measuring.agent);
    // The run was ended in order.
    let end: Value = serde_json::from_slice(&fs::read(run.join("end.json")).unwrap()).unwrap();
    assert_eq!(end["state"], "interrupted");
}

/// An sshd of this test's own.
pub struct Sshd {
    dir: PathBuf,
    child: Child,
    pub ssh: String,
}

impl Sshd {
    /// Starts one that listens at an address, if need be in a network namespace.
    pub fn start(runs: &Runs, address: Ipv4Addr, namespace: Option<&str>) -> Self {
        let mut log = String::new();
        // A port that was free may be somebody else's when it is wanted.
        for _ in 0..10 {
            match Self::try_start(runs, address, namespace) {
                Ok(sshd) => return sshd,
                Err(said) => log = said,
            }
        }
        panic!("{log}");
    }

    /// The same once; where it ended, with what it said.
    fn try_start(runs: &Runs, address: Ipv4Addr, namespace: Option<&str>) -> Result<Self, String> {
        let dir = runs.0.with_extension("sshd");
        fs::create_dir(&dir).unwrap();
        for key in ["host", "user"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(dir.join(key))
                .status();
            assert!(made.unwrap().success());
        }
        let port = match namespace {
            Some(_) => 2222,
            None => {
                let free = TcpListener::bind((address, 0)).unwrap();
                free.local_addr().unwrap().port()
            }
        };
        let shown = dir.display();
        let cache = runs.0.with_extension("cache");
        let config = format!(
            "Port {port}\nListenAddress {address}\nHostKey {shown}/host\nAuthorizedKeysFile {shown}/user.pub\n\
             PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\n\
             SetEnv XDG_CACHE_HOME={}\n",
            cache.display()
        );
        fs::write(dir.join("sshd_config"), config).unwrap();
        let client = format!(
            "Host there\n HostName {address}\n Port {port}\n IdentityFile {shown}/user\n \
             UserKnownHostsFile {shown}/known\n StrictHostKeyChecking accept-new\n BatchMode yes\n"
        );
        fs::write(dir.join("ssh_config"), client).unwrap();
        if rustix::process::geteuid().is_root() {
            // Where it gives up its rights; a package of a distribution makes it when the service starts.
            fs::create_dir_all("/run/sshd").unwrap();
        }
        let mut command = match namespace {
            Some(name) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", name, "/usr/sbin/sshd"]);
                command
            }
            None => Command::new("/usr/sbin/sshd"),
        };
        let child = command
            .args(["-D", "-e", "-f"])
            .arg(dir.join("sshd_config"))
            .stderr(fs::File::create(dir.join("log")).unwrap())
            .spawn()
            .expect("sshd is installed: scripts/bootstrap.sh test");
        let mut sshd = Self {
            ssh: format!("ssh -F {shown}/ssh_config"),
            dir: dir.clone(),
            child,
        };
        let until = Instant::now() + Duration::from_secs(20);
        let log = || fs::read_to_string(dir.join("log")).unwrap();
        // Whoever answers at the port may be somebody else.
        while !log().contains("Server listening on") || TcpStream::connect((address, port)).is_err()
        {
            if sshd.child.try_wait().unwrap().is_some() {
                return Err(log());
            }
            assert!(Instant::now() < until, "{}", log());
            sleep(Duration::from_millis(20));
        }
        Ok(sshd)
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.dir);
    }
}

#[test]
fn a_comparison_over_ssh_and_a_connection_that_is_cut() {
    let runs = Runs::new("far-ssh");
    let sshd = Sshd::start(&runs, Ipv4Addr::LOCALHOST, None);
    let mut command = runs.command(&[
        "compare",
        "ssh://there/temp",
        "ssh://there/temp",
        "--set-b",
        "work_mem=8MB",
        "--clients",
        "1",
        "--launches",
        "1",
        "--pairs",
        "3",
        "--noise-pairs",
        "3",
        "--slice",
        "0.1",
        "--scale",
        "1",
        "--json",
    ]);
    let output = command.env("PGASSAY_SSH", &sshd.ssh).output().unwrap();
    let code = output.status.code().unwrap();
    let said = text(&output.stderr);
    assert!([0, 1, 5].contains(&code), "{code}: {said}");
    let comparison: Value = serde_json::from_slice(&output.stdout).unwrap();
    let shown = comparison["analysis"]["arms"][1]["target"]
        .as_str()
        .unwrap();
    assert!(shown.contains("on ssh://there"), "{shown}");
    fs::remove_dir_all(runs.only()).unwrap();

    let (mut measuring, run) = measuring(&runs, "ssh://there/temp", &[], Some(&sshd.ssh));
    let trials = lines(&run.join("trials.jsonl"));
    // ssh itself is killed; the far side learns of it from its sshd.
    signal(carrier_of(measuring.near.id()), Signal::KILL);
    assert!(gone(measuring.near.id()));
    assert_eq!(measuring.near.wait().unwrap().code(), Some(4));
    nothing_is_left(&runs, measuring.agent);
    assert!(lines(&run.join("trials.jsonl")) >= trials);
}

/// A network namespace of this test, reached over a pair of interfaces.
struct Namespace(String);

impl Namespace {
    fn new() -> Self {
        let id = std::process::id() % 10_000;
        let name = format!("pgafar{id}");
        let space = Self(name.clone());
        let (a, b) = (format!("pfa{id}"), format!("pfb{id}"));
        for line in [
            format!("netns add {name}"),
            format!("link add {a} type veth peer name {b}"),
            format!("link set {b} netns {name}"),
            format!("addr add 198.18.77.1/30 dev {a}"),
            format!("link set {a} up"),
            format!("-n {name} addr add 198.18.77.2/30 dev {b}"),
            format!("-n {name} link set {b} up"),
            format!("-n {name} link set lo up"),
        ] {
            let done = Command::new("ip").args(line.split(' ')).status();
            assert!(done.unwrap().success(), "ip {line}");
        }
        space
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

/// A network that is cut closes no connection: both sides notice by themselves.
#[test]
fn a_network_that_is_cut_ends_both_sides() {
    let may = Command::new("unshare").args(["-n", "true"]).status();
    if !may.is_ok_and(|status| status.success()) {
        // Only root may make networks, and not in every container.
        return;
    }
    let space = Namespace::new();
    let runs = Runs::new("far-network");
    let sshd = Sshd::start(&runs, Ipv4Addr::new(198, 18, 77, 2), Some(&space.0));
    let (mut measuring, run) = measuring(&runs, "ssh://there/temp", &[], Some(&sshd.ssh));
    let trials = lines(&run.join("trials.jsonl"));
    let interface = space.0.replace("pgafar", "pfa");
    let cut = Command::new("ip")
        .args(["link", "set", &interface, "down"])
        .status();
    assert!(cut.unwrap().success());
    nothing_is_left(&runs, measuring.agent);
    assert!(gone(measuring.near.id()));
    let mut said = String::new();
    use std::io::Read;
    measuring
        .near
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert!(said.contains("no sign of life for 5 seconds"), "{said}");
    assert!(lines(&run.join("trials.jsonl")) >= trials);
}

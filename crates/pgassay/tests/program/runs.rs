//! The program from outside: started with runs of its own, watched, and sent signals.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::Pid;
pub use rustix::process::Signal;

/// A directory for runs that goes with the test.
pub struct Runs(pub PathBuf);

impl Runs {
    pub fn new(name: &str) -> Self {
        // Tests of different files may use the same name at the same time.
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let own = format!("pgassay-test-{name}-{}-{count}", std::process::id());
        let dir = std::env::temp_dir().join(own);
        let _ = fs::remove_dir_all(&dir);
        Self(dir)
    }

    /// The program with this directory for its runs and a scratch directory of its own,
    /// so that what it leaves behind can be told from what others do.
    pub fn command(&self, args: &[&str]) -> Command {
        self.command_by(env!("CARGO_BIN_EXE_pgassay"), &[], args)
    }

    fn command_by(&self, program: &str, before: &[&str], args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(before)
            .args(args)
            .env("PGASSAY_RUNS", &self.0)
            .env("XDG_CACHE_HOME", self.0.with_extension("cache"))
            .env("COLUMNS", "100");
        for name in [
            "PGHOST",
            "PGPORT",
            "PGUSER",
            "PGDATABASE",
            "PGSERVICE",
            "PGOPTIONS",
        ] {
            command.env_remove(name);
        }
        command
    }

    pub fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("the program starts")
    }

    /// Starts the program with the default action for signals: one that is ignored at its start
    /// stays ignored, and whoever runs the tests in the background may ignore some.
    pub fn start(&self, args: &[&str]) -> Child {
        self.by_default(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts")
    }

    /// The command that starts it so.
    pub fn by_default(&self, args: &[&str]) -> Command {
        let defaults = [
            "--default-signal=HUP,INT,TERM",
            env!("CARGO_BIN_EXE_pgassay"),
        ];
        self.command_by("env", &defaults, args)
    }

    /// Waits until the newest run has this many trials.
    pub fn await_trials(&self, trials: usize) -> PathBuf {
        let until = Instant::now() + Duration::from_secs(180);
        while Instant::now() < until {
            for dir in fs::read_dir(&self.0).into_iter().flatten().flatten() {
                let text = fs::read_to_string(dir.path().join("trials.jsonl")).unwrap_or_default();
                if text.lines().count() >= trials {
                    return dir.path();
                }
            }
            sleep(Duration::from_millis(20));
        }
        panic!("no run got to {trials} trials");
    }
}

impl Drop for Runs {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
        let _ = fs::remove_dir_all(self.0.with_extension("cache"));
    }
}

/// Copies of files where every user reaches them: the project itself may lie in root's home.
pub struct Reachable(pub PathBuf);

impl Reachable {
    pub fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("pgassay-test-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
        Self(dir)
    }

    /// Where the copy is.
    pub fn copy(&self, file: &str) -> String {
        let name = Path::new(file).file_name().unwrap();
        let copy = self.0.join(name);
        fs::copy(file, &copy).unwrap();
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
        copy.to_str().unwrap().to_owned()
    }
}

impl Drop for Reachable {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Output as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The children of `pid` that are PostgreSQL servers.
pub fn postmasters_of(pid: u32) -> Vec<u32> {
    // Children are listed by the thread that started them.
    let tasks = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    lists
        .collect::<String>()
        .split_ascii_whitespace()
        .filter_map(|child| child.parse().ok())
        .filter(|child: &u32| {
            fs::read_to_string(format!("/proc/{child}/comm")).is_ok_and(|c| c.trim() == "postgres")
        })
        .collect()
}

/// Whether a process ends within 20 seconds.
pub fn gone(pid: u32) -> bool {
    let until = Instant::now() + Duration::from_secs(20);
    while Instant::now() < until {
        match fs::read_to_string(format!("/proc/{pid}/stat")) {
            Err(_) => return true,
            // A zombie that nobody reaps has ended as well.
            Ok(stat) if stat.contains(") Z ") => return true,
            Ok(_) => sleep(Duration::from_millis(50)),
        }
    }
    false
}

/// Sends a signal; fresh machines have no `kill` program.
pub fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(pid as i32).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

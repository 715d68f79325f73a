//! A real PostgreSQL for the tests of `pg`: a cluster of its own, with its own
//! pg_hba.conf, on a private socket and a free TCP port, run by an
//! unprivileged user and removed afterwards. Where PostgreSQL is missing the
//! tests fail; they never skip.

#![allow(dead_code, reason = "each test binary uses its own part")]

pub mod certificates;
pub mod pooler;

use pgassay_pgwire::{ConnectError, Conninfo, FileSeen, Session, Surroundings, connect};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The role that owns a test cluster.
pub const OWNER: &str = "owner";

/// A running server.
pub struct Server {
    pub dir: PathBuf,
    pub socket_dir: PathBuf,
    pub port: u16,
    /// `None` before the start; the directories are removed even then.
    child: Option<Child>,
    /// gettext's LANGUAGE, which counts in every locale but C.
    language: String,
}

/// The directory with initdb and postgres, the newest that is installed.
pub fn bin_dir() -> PathBuf {
    let mut majors: Vec<(u32, PathBuf)> = fs::read_dir("/usr/lib/postgresql")
        .expect("PostgreSQL is not installed: apt-get install postgresql")
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let major = path.file_name()?.to_str()?.parse().ok()?;
            path.join("bin/postgres")
                .exists()
                .then(|| (major, path.join("bin")))
        })
        .collect();
    majors.sort();
    majors
        .pop()
        .expect("no PostgreSQL server under /usr/lib/postgresql")
        .1
}

/// The user and group that servers run as when we are root.
fn unprivileged() -> Option<(u32, u32)> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let passwd = fs::read_to_string("/etc/passwd").expect("/etc/passwd");
    let line = passwd.lines().find(|line| line.starts_with("postgres:"));
    let line = line.expect("as root a user named postgres is needed");
    let mut ids = line
        .split(':')
        .skip(2)
        .map(|id| id.parse().expect("a number"));
    ids.next().zip(ids.next())
}

/// A command run as the unprivileged user.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    use std::os::unix::process::CommandExt;
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("LC_ALL", "C")
        .current_dir("/");
    if let Some((uid, gid)) = unprivileged() {
        command.uid(uid).gid(gid);
    }
    command
}

/// Gives a file or directory to the unprivileged user.
pub fn give(path: &Path) {
    if let Some((uid, gid)) = unprivileged() {
        chown(path, Some(uid), Some(gid)).expect("chown");
    }
}

/// A new private directory under `base`.
pub fn private_dir(base: &str) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let path = PathBuf::from(format!(
        "{base}{}-{}",
        std::process::id(),
        COUNT.fetch_add(1, Ordering::Relaxed)
    ));
    fs::create_dir_all(&path).expect("a private directory");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("chmod");
    give(&path);
    path
}

/// A TCP port that nobody uses at this moment.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    listener.local_addr().expect("address").port()
}

/// A data directory that initdb has made, for the installed server as it is now: each cluster is a copy of it.
fn template() -> PathBuf {
    let server = fs::metadata(bin_dir().join("postgres")).expect("postgres");
    let uid = rustix::process::geteuid().as_raw();
    let name = format!(
        "/var/tmp/pgassay-{uid}/test-template-{}-{}",
        server.ino(),
        server.ctime()
    );
    let template = PathBuf::from(name);
    if !template.exists() {
        let dir = private_dir(&format!("/var/tmp/pgassay-{uid}/test-initdb-"));
        let data = dir.join("data");
        succeed(
            command(bin_dir().join("initdb"))
                .args([
                    "--no-sync",
                    "--locale=C",
                    "--encoding=UTF8",
                    "-A",
                    "trust",
                    "-U",
                ])
                .args([OWNER.as_ref(), "-D".as_ref(), data.as_os_str()]),
        );
        // Another process may have been sooner.
        if fs::rename(&data, &template).is_err() {
            assert!(template.exists(), "{} can't be made", template.display());
        }
        fs::remove_dir_all(dir).expect("what is left is removed");
    }
    template
}

/// Runs a command that must succeed.
pub fn succeed(command: &mut Command) {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

impl Server {
    /// A new cluster with these lines of pg_hba.conf and these settings.
    /// `prepare` may put files into the data directory before the start.
    pub fn start(hba: &str, settings: &[(&str, &str)], prepare: impl FnOnce(&Path)) -> Server {
        Server::start_in("", hba, settings, prepare)
    }

    /// The same, with a language for its messages wherever lc_messages is not C.
    pub fn start_in(
        language: &str,
        hba: &str,
        settings: &[(&str, &str)],
        prepare: impl FnOnce(&Path),
    ) -> Server {
        let mut server = Server::in_new_dirs();
        server.language = language.to_owned();
        let data = server.dir.join("data");
        succeed(command("cp").args(["-a".as_ref(), template().as_os_str(), data.as_os_str()]));
        fs::write(data.join("pg_hba.conf"), hba).expect("pg_hba.conf");
        prepare(&data);
        server.launch(settings);
        server
    }

    /// A hot standby of this server, which needs WAL senders.
    pub fn standby(&self) -> Server {
        let mut standby = Server::in_new_dirs();
        succeed(
            command(bin_dir().join("pg_basebackup"))
                .args([
                    "-R",
                    "-X",
                    "stream",
                    "-c",
                    "fast",
                    "--no-sync",
                    "-U",
                    OWNER,
                    "-h",
                ])
                .arg(&self.socket_dir)
                .args(["-p", &self.port.to_string(), "-D"])
                .arg(standby.dir.join("data")),
        );
        standby.launch(&[("max_wal_senders", "2")]);
        standby
    }

    fn in_new_dirs() -> Server {
        let uid = rustix::process::geteuid().as_raw();
        fs::create_dir_all(format!("/var/tmp/pgassay-{uid}")).expect("/var/tmp");
        Server {
            dir: private_dir(&format!("/var/tmp/pgassay-{uid}/test-pg-")),
            socket_dir: private_dir("/tmp/pga-test"),
            port: free_port(),
            child: None,
            language: String::new(),
        }
    }

    fn launch(&mut self, settings: &[(&str, &str)]) {
        let log = fs::File::create(self.dir.join("log")).expect("log");
        let mut postgres = command(bin_dir().join("postgres"));
        postgres.env("LANGUAGE", &self.language);
        postgres
            .arg("-D")
            .arg(self.dir.join("data"))
            .arg("-p")
            .arg(self.port.to_string());
        postgres.arg("-k").arg(&self.socket_dir);
        for setting in [
            "listen_addresses=127.0.0.1",
            "fsync=off",
            "shared_buffers=16MB",
            "max_wal_senders=0",
        ] {
            postgres.args(["-c", setting]);
        }
        for (name, value) in settings {
            postgres.arg("-c").arg(format!("{name}={value}"));
        }
        postgres
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("log"))
            .stderr(log);
        self.child = Some(postgres.spawn().expect("postgres"));
        self.wait_until_ready();
    }

    fn wait_until_ready(&mut self) {
        let give_up = Instant::now() + Duration::from_secs(60);
        loop {
            match connect(&self.owner()) {
                Ok(_) => return,
                Err(error) if self.has_ended() || Instant::now() > give_up => {
                    panic!("the server does not start: {error}\n{}", self.log())
                }
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    fn has_ended(&mut self) -> bool {
        !matches!(self.child.as_mut().map(Child::try_wait), Some(Ok(None)))
    }

    /// What the server logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.join("log")).unwrap_or_default()
    }

    /// The owner over the Unix socket; pg_hba.conf must trust it there.
    pub fn owner(&self) -> Conninfo {
        let dir = self.socket_dir.to_str().expect("UTF-8");
        Conninfo::on_socket(dir, self.port, OWNER, "postgres")
    }

    /// Runs statements as the owner.
    pub fn run(&self, sql: &str) {
        connect(&self.owner())
            .expect("connect")
            .execute(sql)
            .expect(sql);
    }

    /// A connection string for TCP, in surroundings without any environment.
    pub fn tcp(&self, more: &str) -> Conninfo {
        let text = format!("host=127.0.0.1 port={} dbname=postgres {more}", self.port);
        Conninfo::parse_in(&text, &Pretend::default()).expect(&text)
    }

    /// Connects over TCP.
    pub fn try_tcp(&self, more: &str) -> Result<Session, ConnectError> {
        connect(&self.tcp(more))
    }

    /// The process id of the postmaster.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("a running server").id()
    }

    /// Sends the postmaster a signal.
    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = i32::try_from(self.pid())
            .ok()
            .and_then(rustix::process::Pid::from_raw);
        rustix::process::kill_process(pid.expect("a pid"), signal).expect("kill");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // SIGINT is a fast shutdown; where that takes too long, SIGKILL.
        let give_up = Instant::now() + Duration::from_secs(20);
        if !self.has_ended() {
            self.signal(rustix::process::Signal::INT);
        }
        while !self.has_ended() {
            if Instant::now() > give_up {
                let _ = self.child.as_mut().map(Child::kill);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = fs::remove_dir_all(&self.dir);
        let _ = fs::remove_dir_all(&self.socket_dir);
    }
}

/// Surroundings that a test makes up: no variable of the real environment and
/// no file outside what is named.
#[derive(Default)]
pub struct Pretend {
    pub vars: HashMap<String, String>,
    /// Files under these directories are the real ones.
    pub real_dirs: Vec<PathBuf>,
}

impl Surroundings for Pretend {
    fn var(&self, name: &str) -> Option<String> {
        self.vars.get(name).cloned()
    }

    fn read(&self, path: &Path) -> io::Result<FileSeen> {
        if !self.real_dirs.iter().any(|dir| path.starts_with(dir)) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let metadata = fs::metadata(path)?;
        Ok(FileSeen {
            text: fs::read_to_string(path)?,
            mode: metadata.mode() & 0o7777,
            is_file: metadata.is_file(),
        })
    }

    fn exists(&self, _: &Path) -> bool {
        false
    }

    fn user_name(&self) -> Option<String> {
        Some(OWNER.to_owned())
    }
}

//! Launching a throw-away cluster, and ending it in every case.
//!
//! The server is a direct child: its process is the one that is measured, it is
//! reaped here, and it can't outlive pgassay ([`pgassay_sys::bound`]).

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use process::Server;

use super::account::Account;
use super::confinement::Confinement;
use super::find::Installation;
use super::huge_pages::{self, Reservation};
use super::leftover::{self, Leftover};
use super::listen::{Listen, Listening};
use super::prepared::Prepared;
use super::scratch::{Home, Scratch};
use super::settings::Settings;
use super::{TargetError, leftover::start_ticks};
use pgassay_pgwire::{ConnectError, Conninfo};

mod process;

/// The number in the socket's name of a server that no other machine reaches.
const PORT: u16 = 5432;
/// How often a state is looked at while waiting for it.
const POLL: Duration = Duration::from_millis(10);
/// How long initdb, or a copy of what it made, may take: some 40 MB.
const INITDB: Duration = Duration::from_secs(600);
/// What initdb is run with, beside the place.
const INITDB_ARGUMENTS: &[&str] = &[
    "--username=postgres",
    "--auth=trust",
    "--encoding=UTF8",
    "--locale=C",
    // --no-sync, which 9.6 spells otherwise: it is thrown away after a crash; the server's own fsync is untouched.
    "-N",
];

/// How a cluster is launched.
#[derive(Debug, Clone)]
pub struct LaunchOptions {
    /// What the user set; it wins over the options below.
    pub settings: Settings,
    /// The directory under which the cluster is made; `None` is /var/tmp.
    pub scratch: Option<PathBuf>,
    /// shared_buffers in bytes; `None` is the server's own default. See
    /// [`super::settings::default_shared_buffers`].
    pub shared_buffers_bytes: Option<u64>,
    /// max_connections; `None` is the server's own default.
    pub max_connections: Option<u32>,
    /// How long the server may take until it accepts connections.
    pub start_timeout: Duration,
    /// Where other machines reach it; nobody else does where none is named.
    pub listen: Option<Listen>,
    /// Its environment and CPUs.
    pub confinement: Confinement,
    /// Raised by Ctrl-C: launching stops and cleans up.
    pub stop: Option<Arc<AtomicBool>>,
}

impl Default for LaunchOptions {
    fn default() -> Self {
        Self {
            settings: Settings::default(),
            scratch: None,
            shared_buffers_bytes: None,
            max_connections: None,
            start_timeout: Duration::from_secs(120),
            listen: None,
            confinement: Confinement::default(),
            stop: None,
        }
    }
}

/// A launched cluster. Dropping it stops the server and removes its files.
#[derive(Debug)]
pub struct Cluster {
    // Dropped in this order: first the server, then what it has open.
    server: Server,
    home: Home,
    prepared: bool,
    installation: Installation,
    settings: Settings,
    account: Option<Account>,
    options: LaunchOptions,
    port: u16,
    listening: Option<Listening>,
    extra: Settings,
    leftovers: Vec<Leftover>,
}

impl Cluster {
    /// Makes and starts a cluster of `installation`.
    ///
    /// First removes what killed earlier runs left in the same place
    /// ([`Cluster::leftovers`] tells).
    ///
    /// # Errors
    /// Where the place can't be used, or initdb or the server fails: their own
    /// words are part of the message. Nothing is left behind.
    pub fn launch(
        installation: &Installation,
        options: &LaunchOptions,
    ) -> Result<Self, TargetError> {
        if options.listen.is_some() {
            Listen::refuse_old(installation)?;
        }
        let account = Account::for_servers()?;
        let scratch = Scratch::open(options.scratch.as_deref())?;
        scratch.refuse_memory()?;
        if let Some(account) = &account {
            refuse_barriers(account, installation, &scratch)?;
        }
        let leftovers = leftover::sweep(&scratch)?;
        let home = Home::make(&scratch, account.as_ref())?;
        let launcher = Launcher {
            installation,
            account: account.as_ref(),
            home: &home,
            options,
        };
        let prepared = launcher.init(&scratch)?;
        let port = match &options.listen {
            Some(listen) => listen.free_port()?,
            None => PORT,
        };
        let settings = launcher.settings(port)?;
        let server = launcher.start(&settings)?;
        let listening = match &options.listen {
            Some(listen) => {
                let at = (listen.address, port).into();
                Some(Listening::begin(&launcher.us(&settings), at)?)
            }
            None => None,
        };
        Ok(Self {
            port,
            listening,
            server,
            home,
            prepared,
            installation: installation.clone(),
            settings,
            account,
            options: options.clone(),
            extra: Settings::default(),
            leftovers,
        })
    }

    /// Stops the server and starts it on the same data with `extra` settings
    /// beside those that it was launched with; they replace earlier extra ones.
    ///
    /// # Errors
    /// Where it does not end, or does not start with them: then no server runs
    /// until a restart with others.
    pub fn restart(&mut self, extra: &Settings) -> Result<(), TargetError> {
        self.server.stop().map_err(|error| {
            TargetError::place(self.home.data(), "the server does not end", &error)
        })?;
        let launcher = Launcher {
            installation: &self.installation,
            account: self.account.as_ref(),
            home: &self.home,
            options: &self.options,
        };
        let mut settings = self.settings.clone();
        for (name, value) in extra.iter() {
            settings.set(name, value);
        }
        self.server = launcher.start(&settings)?;
        self.extra = extra.clone();
        Ok(())
    }

    /// The settings of the last restart.
    pub fn extra(&self) -> &Settings {
        &self.extra
    }

    /// How to connect, as a conninfo; it holds no secret.
    pub fn conninfo(&self) -> String {
        format!(
            "host={} port={} user=postgres dbname=postgres",
            self.home.socket_dir.display(),
            self.port
        )
    }

    /// The port that is part of its socket's name, and the one on which it listens for other machines.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// How other machines reach it, where they do.
    pub fn listening(&self) -> Option<&Listening> {
        self.listening.as_ref()
    }

    /// The process id of the server's first process, the postmaster.
    pub fn pid(&self) -> u32 {
        self.server.child.id()
    }

    /// The data directory.
    pub fn data_dir(&self) -> PathBuf {
        self.home.data()
    }

    /// The directory of the server's socket.
    pub fn socket_dir(&self) -> &Path {
        &self.home.socket_dir
    }

    /// What it was launched from.
    pub fn installation(&self) -> &Installation {
        &self.installation
    }

    /// The settings that it was launched with, pgassay's own among them.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The user that the server runs as; `None` for oneself.
    pub fn account(&self) -> Option<&Account> {
        self.account.as_ref()
    }

    /// What killed earlier runs had left and was removed before the launch.
    pub fn leftovers(&self) -> &[Leftover] {
        &self.leftovers
    }

    /// Whether the data directory is a copy of one that initdb made for an earlier launch of the same build.
    pub fn prepared(&self) -> bool {
        self.prepared
    }

    /// The end of the server's log, at most `lines` lines.
    pub fn log_tail(&self, lines: usize) -> String {
        tail(&self.home.log(), 0, lines)
    }

    /// How the server ended, where it has; `None` while it runs.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.server.child.try_wait().ok().flatten()
    }

    /// Stops the server and removes everything; as dropping does, but it tells
    /// what went wrong.
    ///
    /// # Errors
    /// Where the server did not end or files could not be removed.
    pub fn stop(mut self) -> Result<(), TargetError> {
        self.server.stop().map_err(|error| {
            TargetError::place(self.home.data(), "the server does not end", &error)
        })?;
        self.home
            .remove()
            .map_err(|error| TargetError::place(&self.home.dir, "can't be removed", &error))
    }
}

/// What the steps of a launch share.
struct Launcher<'a> {
    installation: &'a Installation,
    account: Option<&'a Account>,
    home: &'a Home,
    options: &'a LaunchOptions,
}

impl Launcher<'_> {
    /// A command of the installation, as the server's user, in a plain
    /// environment: PGDATA, PGPORT, LANG and their like would change what is run.
    fn command(&self, tool: &str) -> Command {
        self.plain(Command::new(self.installation.tool(tool)))
    }

    /// The same of any command.
    fn plain(&self, mut command: Command) -> Command {
        command.env_clear();
        for name in ["PATH", "LD_LIBRARY_PATH"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        // initdb reads TZ and else searches the whole time zone database.
        command
            .env("LC_ALL", "C")
            .env("TZ", "UTC")
            .current_dir("/")
            .stdin(Stdio::null());
        if let Some(account) = self.account {
            account.apply(&mut command);
        }
        command
    }

    /// Makes the data directory's contents: true for a copy of a prepared one, false where initdb was run.
    fn init(&self, scratch: &Scratch) -> Result<bool, TargetError> {
        let place = self.prepared(scratch).ok();
        if let Some(place) = place.as_ref().filter(|place| place.usable()) {
            place.used();
            match self.copy(&place.dir, &self.home.data()) {
                Ok(()) => return Ok(true),
                Err(TargetError::Interrupted) => return Err(TargetError::Interrupted),
                // Of no use any more, or gone meanwhile: initdb needs an empty directory.
                Err(_) => {
                    fs::remove_dir_all(&place.dir).ok();
                    self.home.empty(self.account)?;
                }
            }
        }
        let mut command = self.command("initdb");
        command
            .arg("--pgdata")
            .arg(self.home.data())
            .args(INITDB_ARGUMENTS);
        self.run(command, "initdb")?;
        if let Some(place) = place {
            // One less to copy from is no reason to fail.
            let kept = place.keep(self.account, |new| self.copy(&self.home.data(), new));
            self.check_interrupt()
                .and(kept)
                .or_else(|error| match error {
                    TargetError::Interrupted => Err(error),
                    _ => Ok(()),
                })?;
        }
        Ok(false)
    }

    /// Where the prepared data directory of this build is, or would be.
    fn prepared(&self, scratch: &Scratch) -> io::Result<Prepared> {
        let mut show = self.command("initdb");
        show.args(["--show", "--pgdata"])
            .arg(self.home.data())
            .args(INITDB_ARGUMENTS);
        Prepared::at(
            scratch,
            self.installation,
            INITDB_ARGUMENTS,
            show,
            self.account,
        )
    }

    /// Copies a data directory's contents, as the server's user.
    fn copy(&self, from: &Path, to: &Path) -> Result<(), TargetError> {
        let mut command = self.plain(Command::new("cp"));
        command
            .args(["--archive", "--reflink=never", "--"])
            .arg(from.join("."))
            .arg(to);
        self.run(command, "cp")
    }

    /// Runs a command that makes files, and can be interrupted.
    fn run(&self, mut command: Command, name: &str) -> Result<(), TargetError> {
        // Into a file: nobody reads a pipe meanwhile, and whoever fills it waits for ever.
        let (_, log) = self.open_log()?;
        command.stdout(Stdio::null()).stderr(log);
        let not_run =
            |error: io::Error| self.failed(&format!("{name} can't be run"), &error.to_string());
        let mut child = pgassay_sys::bound::spawn(command, Signal::KILL).map_err(not_run)?;
        let until = Instant::now() + INITDB;
        let status = loop {
            let ended = match Instant::now() < until {
                true => self.check_interrupt(),
                false => {
                    let what = format!("{name} did not end within {} s", INITDB.as_secs());
                    Err(self.failed(&what, &tail(&self.home.log(), 0, 20)))
                }
            };
            if let Err(ended) = ended {
                // The servers that it runs are of its group; they would go on to write where we
                // are about to remove.
                kill_process_group(Pid::from_child(&child), Signal::KILL).ok();
                child.wait().ok();
                return Err(ended);
            }
            match child.try_wait().map_err(not_run)? {
                Some(status) => break status,
                None => std::thread::sleep(POLL),
            }
        };
        if status.success() {
            return Ok(());
        }
        let said = tail(&self.home.log(), 0, 20);
        Err(self.failed(&format!("{name} failed ({status})"), said.trim()))
    }

    /// The user's settings over ours.
    fn settings(&self, port: u16) -> Result<Settings, TargetError> {
        let mut settings = self.options.settings.clone();
        if let Some(bytes) = self.options.shared_buffers_bytes {
            settings.set_default("shared_buffers", format!("{}kB", bytes / 1024));
        }
        if let Some(count) = self.options.max_connections {
            settings.set_default("max_connections", count.to_string());
        }
        let listen = self.options.listen.as_ref();
        let address = listen.map_or_else(String::new, |listen| listen.address.to_string());
        settings.set("listen_addresses", address);
        if let Some(listen) = listen {
            // Ours, not the server's user's; who may come is settled before it listens.
            let hba = self.home.dir.join("hba");
            listen.write_hba(&hba)?;
            settings.set("hba_file", hba.display().to_string());
        }
        settings.set(
            "unix_socket_directories",
            self.home.socket_dir.display().to_string(),
        );
        settings.set("unix_socket_permissions", "0700");
        settings.set("port", port.to_string());
        settings.set("logging_collector", "off");
        settings.set("log_destination", "stderr");
        Ok(settings)
    }

    /// How we connect ourselves.
    fn us(&self, settings: &Settings) -> Conninfo {
        let port = settings.get("port").and_then(|port| port.parse().ok());
        let socket_dir = self.home.socket_dir.to_string_lossy();
        Conninfo::on_socket(&socket_dir, port.unwrap_or(PORT), "postgres", "postgres")
    }

    /// Starts the server and waits until it takes a connection.
    fn start(&self, settings: &Settings) -> Result<Server, TargetError> {
        let (log_from, log) = self.open_log()?;
        let copy = log.try_clone().map_err(|error| self.no_log(&error))?;
        let huge_pages = self.huge_pages(settings)?;
        let mut command = self.server(settings);
        let kept = self.options.confinement.apply(&mut command);
        kept.map_err(|error| self.failed("can't be kept on its CPUs", &error.to_string()))?;
        command.stdout(copy).stderr(log);
        // On our death an immediate shutdown: nobody will want the data.
        let child = pgassay_sys::bound::spawn(command, Signal::QUIT)
            .map_err(|error| self.failed("the server can't be run", &error.to_string()))?;
        let mut server = Server {
            child,
            _huge_pages: huge_pages,
        };
        self.note_postmaster(&server)?;
        self.wait_until_ready(&mut server, &self.us(settings), log_from)?;
        self.refuse_wrapper(&server)?;
        Ok(server)
    }

    /// The log, and its length so far.
    fn open_log(&self) -> Result<(u64, File), TargetError> {
        OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.home.log())
            .and_then(|log| Ok((log.metadata()?.len(), log)))
            .map_err(|error| self.no_log(&error))
    }

    fn no_log(&self, error: &io::Error) -> TargetError {
        TargetError::place(self.home.log(), "can't be opened", error)
    }

    /// The server's command line.
    fn server(&self, settings: &Settings) -> Command {
        let program = self.installation.tool("postgres");
        let mut command = self.plain(self.options.confinement.wrapped(&program));
        command.arg("-D").arg(self.home.data());
        for (name, value) in settings.iter() {
            command.arg("-c").arg(format!("{name}={value}"));
        }
        command
    }

    /// With huge_pages=on, reserves what the server's shared memory needs.
    fn huge_pages(&self, settings: &Settings) -> Result<Option<Reservation>, TargetError> {
        let wanted = settings
            .get("huge_pages")
            .is_some_and(|value| value.eq_ignore_ascii_case("on"));
        if !wanted {
            return Ok(None);
        }
        let size_kb = settings.get("huge_page_size").and_then(huge_pages::size_kb);
        // From version 15 the server says it itself, as long as it does not run.
        let mut command = self.server(settings);
        command
            .args(["-C", "shared_memory_size_in_huge_pages"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let confined = self.options.confinement.apply(&mut command);
        let said = confined
            .and_then(|()| command.output())
            .ok()
            .filter(|output| output.status.success());
        let pages =
            said.and_then(|output| String::from_utf8_lossy(&output.stdout).trim().parse().ok());
        let pages = match pages {
            Some(pages) => pages,
            None => {
                let buffers = self.options.shared_buffers_bytes.unwrap_or(128 << 20);
                let set = settings.get("shared_buffers").and_then(huge_pages::size_kb);
                let bytes = set.map_or(buffers, |kb| kb * 1024);
                huge_pages::estimated_pages(bytes, huge_pages::page_kb(size_kb)?)
            }
        };
        let node = self.options.confinement.memory_node();
        Reservation::make(pages, size_kb, node, &self.home.dir.join("huge_pages"))
    }

    /// Writes down who the server is, for a sweep after our death.
    fn note_postmaster(&self, server: &Server) -> Result<(), TargetError> {
        let pid = server.child.id();
        let path = self.home.dir.join("postmaster");
        let ticks = start_ticks(pid).unwrap_or(0);
        fs::write(&path, format!("{pid} {ticks}\n"))
            .map_err(|error| TargetError::place(path, "can't be written", &error))
    }

    /// Refuses a wrapping command that stays in front of the server: what is looked at, sampled and stopped
    /// would be the command.
    fn refuse_wrapper(&self, server: &Server) -> Result<(), TargetError> {
        let Some(wrapping) = self.options.confinement.wrapping() else {
            return Ok(());
        };
        let pid_file = self.home.data().join("postmaster.pid");
        let text = fs::read_to_string(pid_file).unwrap_or_default();
        let postmaster = text
            .lines()
            .next()
            .and_then(|line| line.trim().parse().ok());
        let Some(postmaster) = postmaster.filter(|pid: &i32| *pid > 0) else {
            return Ok(());
        };
        if u32::try_from(postmaster) == Ok(server.child.id()) {
            return Ok(());
        }
        if let Some(pid) = Pid::from_raw(postmaster) {
            kill_process(pid, Signal::QUIT).ok();
        }
        Err(TargetError::Usage(format!(
            "{wrapping} does not execute the server in its own place, but starts it as a child: only \
             commands that end in exec can wrap a server, such as numactl, setarch, taskset or env"
        )))
    }

    /// Waits until a session can be opened: the pid file's status line would say
    /// it too, but versions before 10 do not write it.
    fn wait_until_ready(
        &self,
        server: &mut Server,
        us: &Conninfo,
        log_from: u64,
    ) -> Result<(), TargetError> {
        // What an earlier start had said is no reason for this one's end.
        let log = || tail(&self.home.log(), log_from, 20);
        let until = Instant::now() + self.options.start_timeout;
        loop {
            self.check_interrupt()?;
            match server.child.try_wait() {
                Ok(None) => {}
                Ok(Some(status)) => {
                    let what = format!("the server ended while starting ({status})");
                    return Err(self.failed(&what, &log()));
                }
                Err(error) => return Err(self.failed("the server is lost", &error.to_string())),
            }
            match pgassay_pgwire::connect(us) {
                Ok(session) => {
                    session.close();
                    return Ok(());
                }
                // No socket yet, not listening yet, or it says itself that it starts.
                Err(
                    ConnectError::NotFound { .. }
                    | ConnectError::Refused { .. }
                    | ConnectError::ServerStarting { .. }
                    | ConnectError::Io { .. },
                ) => {}
                Err(refused) => {
                    let what = format!("the server refuses its first session: {refused}");
                    return Err(self.failed(&what, &log()));
                }
            }
            if Instant::now() >= until {
                let seconds = self.options.start_timeout.as_secs();
                let what = format!("the server took no connection within {seconds} s");
                return Err(self.failed(&what, &log()));
            }
            std::thread::sleep(POLL);
        }
    }

    fn check_interrupt(&self) -> Result<(), TargetError> {
        match &self.options.stop {
            Some(stop) if stop.load(Ordering::Relaxed) => Err(TargetError::Interrupted),
            _ => Ok(()),
        }
    }

    /// A failure with the installation's name and the program's own words.
    fn failed(&self, what: &str, said: &str) -> TargetError {
        let mut message = format!(
            "PostgreSQL {} ({}): {what}",
            self.installation.version,
            self.installation.bin_dir.display()
        );
        for line in said.lines() {
            message.push_str("\n  ");
            message.push_str(line);
        }
        TargetError::NotStarted { message }
    }
}

/// Refuses what the server's user may not reach, before anything is made.
fn refuse_barriers(
    account: &Account,
    installation: &Installation,
    scratch: &Scratch,
) -> Result<(), TargetError> {
    let ways = [
        (
            installation.tool("postgres"),
            "install it where everybody may read, or run pgassay as the owner",
        ),
        (
            scratch.clusters(),
            "choose another place with --scratch DIR",
        ),
    ];
    for (way, remedy) in ways {
        if let Some(barrier) = account.barrier(&way) {
            return Err(TargetError::Place {
                path: way,
                reason: format!(
                    "the server runs as the user {}, who may not enter {}; {remedy}",
                    account.name,
                    barrier.display()
                ),
            });
        }
    }
    Ok(())
}

/// The last lines of a log from byte `from` on, which can be long: only its end is read.
fn tail(path: &Path, from: u64, lines: usize) -> String {
    const ENOUGH: u64 = 64 * 1024;
    let read = || -> io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(ENOUGH).max(from)))?;
        let mut bytes = Vec::new();
        file.take(ENOUGH).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    match read() {
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes);
            let all: Vec<&str> = text.lines().collect();
            all[all.len().saturating_sub(lines)..].join("\n")
        }
        Err(error) => format!("(its log can't be read: {error})"),
    }
}

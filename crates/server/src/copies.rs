//! A copy of somebody's database for launched servers: dumped once by pg_dump, restored in each of them.
//!
//! The original is only read. The dump lies beside the clusters and goes with the [`Dump`]; a copy goes with its
//! cluster. Statistics are carried over where all of the servers can take them (18 on), so that they plan with
//! what the original knows; otherwise each copy is analysed anew.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pgassay_pgwire::{Conninfo, Session};
use rustix::process::{Pid, Signal, kill_process_group};

use super::find::Installation;
use super::scratch::{Home, Scratch};
use super::{Installations, TargetError, Version};

/// How often a tool is looked at while it runs.
const POLL: Duration = Duration::from_millis(50);
/// The first version whose pg_dump and server carry statistics, as `server_version_num`.
const CARRIES_STATISTICS: u32 = 180_000;
/// Connections of pg_dump and pg_restore at most.
const JOBS: usize = 4;
/// Lines of a tool's complaints that are kept.
const COMPLAINTS: usize = 5;

/// pg_dump and pg_restore of one version.
#[derive(Debug, Clone)]
struct Tools {
    dir: PathBuf,
    version: Version,
}

/// A dumped database; its files are removed on drop.
#[derive(Debug)]
pub struct Dump {
    home: Home,
    tools: Tools,
    /// Of the original, without a password.
    shown: String,
    database: Database,
    /// What carries the statistics, where they go with the copies.
    statistics: Option<Tools>,
}

/// What a copy's database is made with.
#[derive(Debug, Clone, Default)]
struct Database {
    name: String,
    encoding: String,
    collate: String,
    ctype: String,
    /// Settings of the database and of the role that was named: `search_path` and the like.
    settings: Vec<(String, String)>,
}

/// What came of restoring.
#[derive(Debug, Clone, Default)]
pub struct Restored {
    /// The database.
    pub database: String,
    /// What is not as in the original, in sentences.
    pub differs: Vec<String>,
}

/// What a dump is for.
#[derive(Debug)]
pub struct Wanted<'a> {
    /// The database, as a connection string; it may hold a password.
    pub original: &'a str,
    /// The versions of the servers that are to hold a copy, as `server_version_num`, where they are known.
    pub servers: &'a [u32],
    /// The installations that these are launched from.
    pub installations: &'a [Installation],
    /// The directory under which the dump is made; `None` is /var/tmp.
    pub scratch: Option<&'a Path>,
    /// Raised by Ctrl-C.
    pub stop: &'a AtomicBool,
}

impl Dump {
    /// Dumps the database.
    ///
    /// # Errors
    /// Where it can't be reached or read, there is no pg_dump that is new enough, or no space.
    pub fn take(wanted: &Wanted<'_>) -> Result<Self, TargetError> {
        let conninfo = Conninfo::parse(wanted.original)
            .map_err(|error| TargetError::Usage(error.to_string()))?;
        let conninfo = conninfo.with_application_name("pgassay");
        let shown = conninfo.redacted();
        let unreachable =
            |what: String| TargetError::NotFound(format!("the original ({shown}): {what}"));
        let mut session =
            pgassay_pgwire::connect(&conninfo).map_err(|error| unreachable(error.to_string()))?;
        let asked = |error: pgassay_pgwire::QueryError| unreachable(error.to_string());
        let number = session.value("SHOW server_version_num").map_err(asked)?;
        let source: u32 = number.and_then(|n| n.parse().ok()).unwrap_or(0);
        let all = Tools::all(wanted);
        let tools = Tools::for_server(&all, source)?;
        let database = Database::of(&mut session).map_err(asked)?;
        let bytes = session
            .catalog_value("SELECT pg_catalog.pg_database_size(pg_catalog.current_database())")
            .map_err(asked)?;
        drop(session);
        let scratch = Scratch::open(wanted.scratch)?;
        scratch.refuse_memory()?;
        let copies = wanted.servers.len().max(1) as u64;
        let bytes: u64 = bytes.and_then(|bytes| bytes.parse().ok()).unwrap_or(0);
        refuse_full_disk(scratch.root(), bytes.saturating_mul(copies + 1))?;
        let carries = |version: &u32| *version >= CARRIES_STATISTICS;
        let wanted_there = !wanted.servers.is_empty() && wanted.servers.iter().all(carries);
        let newest = all.last().filter(|newest| carries(&newest.version.num()));
        let statistics = newest.filter(|_| wanted_there).cloned();
        let dump = Self {
            home: Home::make(&scratch, None)?,
            tools,
            database,
            statistics,
            shown,
        };
        let mut command = dump.tools.command("pg_dump");
        command
            .args(["--no-owner", "--no-privileges", "--no-publications"])
            .args([
                "--no-subscriptions",
                "--no-security-labels",
                "--no-tablespaces",
            ])
            .arg("--compress=1");
        dump.read(command, &dump.files(), &conninfo, wanted)?;
        if let Some(tools) = &dump.statistics {
            // By tools of their own: those of the original's version know best what its catalog holds, and what
            // newer ones read there need not be what newer servers take.
            let mut command = tools.command("pg_dump");
            command.arg("--statistics-only");
            dump.read(command, &dump.statistics_files(), &conninfo, wanted)?;
        }
        Ok(dump)
    }

    /// Runs a pg_dump of the original into a directory.
    fn read(
        &self,
        mut command: Command,
        into: &Path,
        conninfo: &Conninfo,
        wanted: &Wanted<'_>,
    ) -> Result<(), TargetError> {
        command
            .args(["--format=directory", "--no-sync"])
            .arg(format!("--jobs={}", jobs()))
            .arg(format!("--file={}", into.display()));
        name_original(&mut command, wanted.original, conninfo);
        let (ended_well, said) = self.run(command, wanted.stop)?;
        if ended_well {
            return Ok(());
        }
        Err(TargetError::NotFound(format!(
            "pg_dump can't copy {}: {}",
            self.shown,
            said.join("; ")
        )))
    }

    /// Whether the original's statistics go with the copies.
    pub fn with_statistics(&self) -> bool {
        self.statistics.is_some()
    }

    /// The original, in words, without a password.
    pub fn original(&self) -> &str {
        &self.shown
    }

    /// The version of pg_dump.
    pub fn tool_version(&self) -> Version {
        self.tools.version
    }

    /// Makes a copy in the server that listens there, whose superuser is `postgres`.
    ///
    /// # Errors
    /// Where the database can't be made, or nothing could be restored.
    pub fn restore(
        &self,
        socket_dir: &Path,
        port: u16,
        stop: &AtomicBool,
    ) -> Result<Restored, TargetError> {
        let socket = socket_dir.display().to_string();
        let failed = |what: &str, error: &dyn std::fmt::Display| {
            TargetError::NotFound(format!("the copy of {}: {what}: {error}", self.shown))
        };
        let mut restored = Restored {
            database: self.database.name.clone(),
            ..Restored::default()
        };
        let at = |database: &str| Conninfo::on_socket(&socket, port, "postgres", database);
        let connect = |database: &str| {
            pgassay_pgwire::connect(&at(database))
                .map_err(|error| failed("the launched server", &error))
        };
        if self.database.name != "postgres" {
            self.database
                .create(&mut connect("postgres")?, &mut restored)
                .map_err(|error| failed("its database can't be made", &error))?;
        }
        let into = |tools: &Tools| {
            let mut command = tools.command("pg_restore");
            command
                .args(["--no-owner", "--no-privileges"])
                .arg(format!("--jobs={}", jobs()))
                .arg(format!("--dbname={}", at(&self.database.name).redacted()));
            command
        };
        let mut command = into(&self.tools);
        command.arg(self.files());
        let (ended_well, said) = self.run(command, stop)?;
        let mut session = connect(&self.database.name)?;
        if !ended_well {
            let tables = session.catalog_value(
                "SELECT pg_catalog.count(*) FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n \
                 ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p') \
                 AND n.nspname NOT IN ('pg_catalog', 'information_schema')",
            );
            if tables.is_ok_and(|count| count.as_deref() == Some("0")) {
                return Err(failed("pg_restore restored no table", &said.join("; ")));
            }
            restored.differs.push(format!(
                "pg_restore did not restore everything: {}",
                said.join("; ")
            ));
        }
        self.database.set(&mut session, &mut restored);
        // Visibility maps, for index-only scans, and what the planner knows.
        let mut vacuum = "VACUUM (ANALYZE)";
        if let Some(tools) = &self.statistics {
            let mut command = into(tools);
            command
                .arg("--statistics-only")
                .arg(self.statistics_files());
            let (ended_well, said) = self.run(command, stop)?;
            match ended_well {
                true => vacuum = "VACUUM",
                false => restored.differs.push(format!(
                    "the statistics were not restored, and the copy was analysed: {}",
                    said.join("; ")
                )),
            }
        }
        for statement in [vacuum, "CHECKPOINT"] {
            session
                .execute(statement)
                .map_err(|error| failed(statement, &error))?;
        }
        Ok(restored)
    }

    fn files(&self) -> PathBuf {
        self.home.data().join("dump")
    }

    fn statistics_files(&self) -> PathBuf {
        self.home.data().join("statistics")
    }

    /// Whether a tool ended well, and the first lines that it complained with.
    fn run(
        &self,
        mut command: Command,
        stop: &AtomicBool,
    ) -> Result<(bool, Vec<String>), TargetError> {
        let log = self.home.log();
        let tool = command.get_program().to_string_lossy().into_owned();
        let place = |error: std::io::Error| TargetError::place(&tool, "can't be run", &error);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).map_err(place)?);
        let mut child = pgassay_sys::bound::spawn(command, Signal::TERM).map_err(place)?;
        let status = loop {
            if stop.load(Ordering::Relaxed) {
                kill_process_group(Pid::from_child(&child), Signal::TERM).ok();
                child.wait().ok();
                return Err(TargetError::Interrupted);
            }
            match child.try_wait().map_err(place)? {
                Some(status) => break status,
                None => std::thread::sleep(POLL),
            }
        };
        let said = fs::read(&log).unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        Ok((status.success(), complaints(&said)))
    }
}

/// The lines of a tool's messages that say what is wrong, without its name.
fn complaints(said: &str) -> Vec<String> {
    let lines = said.lines().map(|line| {
        let line = line.trim();
        let told = ["pg_dump: ", "pg_restore: "]
            .iter()
            .find_map(|tool| line.strip_prefix(tool));
        let line = told.unwrap_or(line);
        line.strip_prefix("error: ").unwrap_or(line).to_owned()
    });
    let noise = |line: &String| {
        line.is_empty()
            || [
                "while PROCESSING TOC",
                "from TOC entry",
                "Command was",
                "warning:",
            ]
            .iter()
            .any(|beginning| line.starts_with(beginning))
    };
    let lines: Vec<String> = lines.filter(|line| !noise(line)).collect();
    let more = lines.len().saturating_sub(COMPLAINTS);
    let mut kept: Vec<String> = lines.into_iter().take(COMPLAINTS).collect();
    if more > 0 {
        kept.push(format!("and {more} more lines"));
    }
    kept
}

impl Tools {
    /// All that are at hand, the oldest first.
    fn all(wanted: &Wanted<'_>) -> Vec<Self> {
        let found = Installations::search().found;
        let dirs = wanted.installations.iter().chain(&found);
        let dirs = dirs.map(|installation| installation.bin_dir.clone());
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut all: Vec<Self> = dirs
            .chain(std::env::split_paths(&path))
            .filter_map(Self::at)
            .collect();
        all.sort_by_key(|tools| tools.version);
        all
    }

    /// Tools that can read a server of that version: a pg_dump refuses servers newer than itself. The oldest
    /// ones that can: they know best what its catalog holds, and old servers understand their dumps best.
    fn for_server(all: &[Self], source: u32) -> Result<Self, TargetError> {
        let chosen = Self::choose(all, source);
        chosen.cloned().ok_or_else(|| {
            let at_hand = match all.last() {
                None => "there is no pg_dump with a pg_restore".to_owned(),
                Some(newest) => format!("the newest pg_dump here is {}", newest.version),
            };
            let major = Version::parse(&(source / 10_000).to_string());
            let major = major.map_or_else(|| "its".to_owned(), |major| major.major());
            TargetError::NotFound(format!(
                "a copy of a database of PostgreSQL {major} needs pg_dump and pg_restore {major} or newer, and \
                 {at_hand}; install them (on Debian and Ubuntu: apt-get install postgresql-client-{major}), or \
                 put them into PATH"
            ))
        })
    }

    /// Of those sorted by version, the one to use.
    fn choose(all: &[Self], source: u32) -> Option<&Self> {
        let major = source / 100;
        all.iter().find(|tools| tools.version.num() / 100 >= major)
    }

    fn command(&self, tool: &str) -> Command {
        let mut command = Command::new(self.dir.join(tool));
        command.env("LC_MESSAGES", "C").arg("--no-password");
        command
    }

    fn at(dir: PathBuf) -> Option<Self> {
        if !dir.join("pg_restore").is_file() {
            return None;
        }
        let output = Command::new(dir.join("pg_dump"))
            .arg("--version")
            .output()
            .ok()?;
        let version = Version::in_banner(&String::from_utf8_lossy(&output.stdout))?;
        Some(Self { dir, version })
    }
}

impl Database {
    fn of(session: &mut Session) -> Result<Self, pgassay_pgwire::QueryError> {
        let rows = session.catalog_rows(
            "SELECT datname, pg_catalog.pg_encoding_to_char(encoding), datcollate, datctype \
             FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()",
        )?;
        let of = |column: &str| rows.first(column).unwrap_or_default().to_owned();
        let mut database = Self {
            name: of("datname"),
            encoding: of("pg_encoding_to_char"),
            collate: of("datcollate"),
            ctype: of("datctype"),
            settings: Vec::new(),
        };
        // Every name in it is PostgreSQL's; a question that sets search_path for itself would not see what
        // the database sets.
        let settings = session.rows(
            "SELECT name, setting FROM pg_catalog.pg_settings WHERE source OPERATOR(pg_catalog.=) \
             ANY (ARRAY['database', 'user', 'database user']::pg_catalog.text[])",
        )?;
        for row in &settings.rows {
            if let [Some(name), Some(value)] = row.as_slice() {
                database.settings.push((name.clone(), value.clone()));
            }
        }
        Ok(database)
    }

    /// Makes it empty. A locale that this machine lacks becomes C, which is said.
    fn create(
        &self,
        session: &mut Session,
        restored: &mut Restored,
    ) -> Result<(), pgassay_pgwire::QueryError> {
        let statement = |collate: &str, ctype: &str| {
            format!(
                "CREATE DATABASE {} TEMPLATE template0 ENCODING {} LC_COLLATE {} LC_CTYPE {}",
                quoted(&self.name),
                literal(&self.encoding),
                literal(collate),
                literal(ctype)
            )
        };
        if let Err(error) = session.execute(&statement(&self.collate, &self.ctype)) {
            if error.is_fatal() {
                return Err(error);
            }
            session.execute(&statement("C", "C"))?;
            restored.differs.push(format!(
                "the copy sorts and compares texts by C: {} is not on this machine",
                self.collate
            ));
        }
        Ok(())
    }

    /// Gives its sessions the settings of the original's.
    fn set(&self, session: &mut Session, restored: &mut Restored) {
        for (name, value) in &self.settings {
            // As a value: what a list's names are stays the server's to say.
            let (name_text, value_text) = (literal(name), literal(value));
            let set = format!("SELECT pg_catalog.set_config({name_text}, {value_text}, false)");
            let keep = format!(
                "ALTER DATABASE {} SET {} FROM CURRENT",
                quoted(&self.name),
                name.split('.').map(quoted).collect::<Vec<_>>().join(".")
            );
            let done = session.execute(&set).and_then(|()| session.execute(&keep));
            if let Err(error) = done {
                restored
                    .differs
                    .push(format!("{name} is not {value} in the copy: {error}"));
            }
        }
        session.execute("RESET ALL").ok();
    }
}

/// Names the original to a tool: what `ps` shows has no password in it.
fn name_original(command: &mut Command, typed: &str, conninfo: &Conninfo) {
    let secret = conninfo
        .hosts
        .iter()
        .find_map(|host| host.password.as_ref());
    let is_typed = typed.contains("password") || typed.contains("://");
    let Some(secret) = secret.filter(|_| is_typed) else {
        command.arg(format!("--dbname={typed}"));
        return;
    };
    command.arg(format!("--dbname={}", conninfo.redacted()));
    command.env(
        "PGPASSWORD",
        String::from_utf8_lossy(secret.reveal()).as_ref(),
    );
    let files = [
        (
            "PGSSLCERT",
            conninfo.tls.certificate.as_ref().map(|(path, _)| path),
        ),
        ("PGSSLKEY", conninfo.tls.key.as_ref()),
    ];
    for (variable, path) in files {
        if let Some(path) = path {
            command.env(variable, path);
        }
    }
    match &conninfo.tls.root {
        Some(pgassay_pgwire::RootCert::File { path, .. }) => {
            command.env("PGSSLROOTCERT", path);
        }
        Some(pgassay_pgwire::RootCert::System) => {
            command.env("PGSSLROOTCERT", "system");
        }
        None => {}
    }
}

fn refuse_full_disk(dir: &Path, needed: u64) -> Result<(), TargetError> {
    let Ok(disk) = rustix::fs::statvfs(dir) else {
        return Ok(());
    };
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    if free >= needed {
        return Ok(());
    }
    Err(TargetError::Place {
        path: dir.to_path_buf(),
        reason: format!(
            "the dump and the copies need about {} MB, and {} MB are free; choose another place with --scratch DIR",
            needed / 1_000_000,
            free / 1_000_000
        ),
    })
}

fn jobs() -> usize {
    std::thread::available_parallelism().map_or(1, |cpus| cpus.get().min(JOBS))
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text as a literal, whatever standard_conforming_strings is.
fn literal(text: &str) -> String {
    let text = text.replace('\'', "''");
    match text.contains('\\') {
        true => format!("E'{}'", text.replace('\\', "\\\\")),
        false => format!("'{text}'"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tools(version: &str) -> Tools {
        Tools {
            dir: PathBuf::from("/usr/bin"),
            version: Version::parse(version).unwrap(),
        }
    }

    #[test]
    fn a_dump_is_made_by_tools_that_can_read_the_server() {
        let all = [
            tools("9.6.24"),
            tools("15.18"),
            tools("17.2"),
            tools("18.1"),
        ];
        let chosen = |source| Tools::choose(&all, source).map(|tools| tools.version.to_string());
        // A minor release that is older reads it all the same.
        assert_eq!(chosen(150_020).as_deref(), Some("15.18"));
        assert_eq!(chosen(160_003).as_deref(), Some("17.2"));
        assert_eq!(chosen(90_623).as_deref(), Some("9.6.24"));
        assert_eq!(chosen(190_000), None);
    }

    #[test]
    fn of_what_tools_say_the_errors_are_kept() {
        let said = "pg_restore: error: could not execute query: ERROR:  extension \"postgis\" is not available\n\
                    Command was: CREATE EXTENSION IF NOT EXISTS postgis;\n\n\
                    pg_restore: from TOC entry 217; 1259 16391 TABLE t\n\
                    pg_restore: warning: errors ignored on restore: 1\n";
        assert_eq!(
            complaints(said),
            ["could not execute query: ERROR:  extension \"postgis\" is not available"]
        );
        assert_eq!(complaints(&"x\n".repeat(9)).len(), COMPLAINTS + 1);
    }

    #[test]
    fn a_password_is_not_among_the_arguments() {
        let typed = "host=127.0.0.1 user=me dbname=shop password=hush sslmode=require";
        let conninfo = Conninfo::parse(typed).unwrap();
        let mut command = Command::new("pg_dump");
        name_original(&mut command, typed, &conninfo);
        let arguments: Vec<_> = command.get_args().map(|a| a.to_string_lossy()).collect();
        assert!(
            !arguments.iter().any(|argument| argument.contains("hush")),
            "{arguments:?}"
        );
        let secret = command.get_envs().find(|(name, _)| *name == "PGPASSWORD");
        assert_eq!(secret.and_then(|(_, value)| value), Some("hush".as_ref()));
    }
}

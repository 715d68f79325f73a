//! A copy of somebody's database for launched servers: dumped once by pg_dump, restored in each of them.
//!
//! The original is only read. The dump lies beside the clusters and goes with the [`Dump`]; a copy goes with its
//! cluster. Statistics are carried over where all of the servers can take them (18 on), so that they plan with
//! what the original knows; otherwise each copy is analysed anew.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use pgassay_pgwire::Conninfo;

use super::database::{Database, Restored};
use super::find::Installation;
use super::original::{Original, unreachable, without};
use super::scratch::{Home, Scratch};
use super::tools::{self, Tools, name_original};
use super::{TargetError, Version};

/// The first version whose pg_dump and server carry statistics, as `server_version_num`.
const CARRIES_STATISTICS: u32 = 180_000;
/// Connections of pg_dump and pg_restore at most.
const JOBS: usize = 4;

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
        let Original {
            conninfo,
            shown,
            version,
            database,
            mut session,
        } = Original::open(wanted.original)?;
        let all = Tools::all(wanted.installations);
        let tools = Tools::for_server(&all, version)?;
        let bytes = session
            .catalog_value("SELECT pg_catalog.pg_database_size(pg_catalog.current_database())")
            .map_err(|error| unreachable(&shown, &error.to_string()))?;
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
        let mut command = without(dump.tools.command("pg_dump"));
        command.arg("--compress=1");
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
        let _passfile = name_original(&mut command, wanted.original, conninfo, &self.home.data())?;
        let (ended_well, said) = tools::run(command, &self.home.log(), wanted.stop)?;
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
        let (ended_well, said) = tools::run(command, &self.home.log(), stop)?;
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
            let (ended_well, said) = tools::run(command, &self.home.log(), stop)?;
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
}

/// Refuses a place without so much room.
///
/// # Errors
/// Naming the place and another.
pub fn refuse_full_disk(dir: &Path, needed: u64) -> Result<(), TargetError> {
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
            "dump and copies need about {} MB, and {} MB are free; choose another place with --scratch DIR",
            needed / 1_000_000,
            free / 1_000_000
        ),
    })
}

fn jobs() -> usize {
    std::thread::available_parallelism().map_or(1, |cpus| cpus.get().min(JOBS))
}

//! Observers: what is read beside the load, raw, at the borders of each window.
//!
//! A sampler is an entry of [`SAMPLERS`]; adding one is a function and a line,
//! and its reading is interpreted by `pgassay_readings::samples`.

mod blockers;
pub mod cache;
mod catalogues;
pub mod cgroup;
mod cpu;
mod executed;
pub mod follow;
pub mod glance;
mod growth;
pub mod host;
mod images;
mod io;
mod log_size;
mod logged;
mod own_role;
pub mod perf;
mod perf_program;
mod plans;
mod pmu;
mod relations;
mod sched;
mod server;
mod shared_cpu;
mod statements;
mod unwind;
mod waits;
mod wal;
mod watch;
mod what_if;

use std::collections::BTreeMap;
use std::fs;
use std::time::Instant;

use pgassay_model::reading::{Reading, Sample};
use pgassay_model::samplers;
use pgassay_model::storage::Storage;
use pgassay_pgwire::Session;

pub use executed::Sent;
pub use log_size::log_bytes;
pub use own_role::may_plan;
pub use pmu::Events;
pub use sched::ended_ticks;
pub use server::{Known, childrens_ticks, field as status_field, processes};
pub use waits::WaitSampler;
pub use watch::{Choice, Observers};

/// What there is to look at.
#[derive(Debug)]
pub struct Scene {
    /// The server's first process, where it runs on this machine and can be seen.
    pub postmaster: Result<u32, String>,
    /// A session of our own in the measured database.
    pub session: Option<Session>,
    /// What lies under the data directory.
    pub storage: Storage,
    /// The server's processes as they were last looked at.
    pub known: Known,
    /// What processor and kernel count of them, once it was asked for.
    pub events: Events,
}

impl Scene {
    /// One in which nothing can be looked at, for this reason.
    pub fn unseen(why: &str) -> Self {
        Self {
            postmaster: Err(why.to_owned()),
            session: None,
            storage: Storage::hidden(why),
            known: Known::default(),
            events: Events::default(),
        }
    }
}

/// One thing that is read.
pub struct Sampler {
    /// Its stable name in the run directory.
    pub id: &'static str,
    /// The unit of what it reads.
    pub unit: &'static str,
    /// What it is for.
    pub explanation: &'static str,
    read: fn(&mut Scene) -> Reading,
}

/// All samplers. The last stands nearest to the window: it is read last before
/// and first after it.
pub const SAMPLERS: &[Sampler] = &[
    Sampler {
        id: samplers::PG_STAT_DATABASE,
        unit: "counters",
        explanation: "buffer hits and reads for each transaction, as the server counts them",
        read: stat_database,
    },
    Sampler {
        id: samplers::PG_STAT_CHECKPOINTER,
        unit: "counters",
        explanation: "checkpoints that began, by time and by request, and what they wrote",
        read: wal::checkpoints,
    },
    Sampler {
        id: samplers::PG_STAT_WAL,
        unit: "bytes and counters",
        explanation: "how much log was written, and how much of it whole pages",
        read: wal::wal,
    },
    Sampler {
        id: samplers::SERVER_LOG,
        unit: "bytes",
        explanation: "how much the server wrote into its own log",
        read: log_size::of_server,
    },
    Sampler {
        id: samplers::SERVER_PAGE_TABLES,
        unit: "kilobytes",
        explanation: "memory of the page tables of each of the server's processes, or of a sample where they are many",
        read: io::page_tables,
    },
    Sampler {
        id: samplers::PG_STAT_IO,
        unit: "counters",
        explanation: "reads into shared buffers by kind of backend, from version 16",
        read: io::pg_stat_io,
    },
    Sampler {
        id: samplers::CGROUP_IO,
        unit: "bytes and requests",
        explanation: "what the server's container or slice read from devices",
        read: cgroup::io,
    },
    Sampler {
        id: samplers::SERVER_IO,
        unit: "bytes",
        explanation: "what devices read for each of the server's processes",
        read: io::processes,
    },
    Sampler {
        id: samplers::HOST_DISKSTATS,
        unit: "sectors and requests",
        explanation: "what the devices under the data directory read",
        read: io::diskstats,
    },
    cgroup::CPU,
    cgroup::MEMORY,
    Sampler {
        id: samplers::HOST_PRESSURE_CPU,
        unit: "microseconds",
        explanation: "how long tasks waited for a CPU",
        read: |_| file("/proc/pressure/cpu"),
    },
    Sampler {
        id: samplers::HOST_STAT,
        unit: "ticks",
        explanation: "what the machine's CPUs did, steal included",
        read: |_| cpu_times(),
    },
    Sampler {
        id: samplers::SERVER_SCHEDSTAT,
        unit: "nanoseconds",
        explanation: "CPU time of each of the server's processes",
        read: schedstat,
    },
];

/// The readings at one border of a window.
#[derive(Debug, Default)]
pub struct Readings(Vec<(&'static str, Instant, Reading)>);

impl Readings {
    /// Reads all samplers just before a window starts; the server's processes were looked at.
    pub fn before(scene: &mut Scene) -> Self {
        Self::before_by(SAMPLERS, scene)
    }

    /// The same by other samplers.
    fn before_by(samplers: &[Sampler], scene: &mut Scene) -> Self {
        Self(samplers.iter().map(|s| take(s, scene)).collect())
    }

    /// Reads all samplers just after a window ended, the nearest first.
    pub fn after(scene: &mut Scene) -> Self {
        Self::after_by(SAMPLERS, scene)
    }

    /// The same by other samplers.
    fn after_by(samplers: &[Sampler], scene: &mut Scene) -> Self {
        Self(samplers.iter().rev().map(|s| take(s, scene)).collect())
    }

    /// Joins the two borders of a window.
    pub fn until(self, after: Self) -> BTreeMap<String, Sample> {
        let mut after: BTreeMap<_, _> = after
            .0
            .into_iter()
            .map(|(id, at, reading)| (id, (at, reading)))
            .collect();
        self.0
            .into_iter()
            .filter_map(|(id, start, before)| {
                let (end, after) = after.remove(id)?;
                let elapsed_ns = end.duration_since(start).as_nanos() as u64;
                Some((
                    id.to_owned(),
                    Sample {
                        before,
                        after,
                        elapsed_ns,
                    },
                ))
            })
            .collect()
    }
}

fn take(sampler: &Sampler, scene: &mut Scene) -> (&'static str, Instant, Reading) {
    let reading = (sampler.read)(scene);
    (sampler.id, Instant::now(), reading)
}

fn file(path: &str) -> Reading {
    match fs::read_to_string(path) {
        Ok(text) => Reading::Text(text),
        Err(e) => Reading::Unavailable(format!("{path}: {e}")),
    }
}

/// What the machine's CPUs have done so far: the first line of /proc/stat.
pub fn cpu_times() -> Reading {
    first_line("/proc/stat")
}

fn first_line(path: &str) -> Reading {
    match file(path) {
        Reading::Text(text) => Reading::Text(text.lines().next().unwrap_or_default().to_owned()),
        unavailable => unavailable,
    }
}

/// The server's major version, 9 for all that begin so.
fn major_version(session: &Session) -> Option<u32> {
    let version = session.parameter("server_version")?;
    let major = version.split(|c: char| !c.is_ascii_digit()).next()?;
    major.parse().ok()
}

/// The row of the session's database in `pg_stat_database`, as JSON, and in it as `pgassay` what our own sessions that
/// observe have done there: it is part of what the row counts.
pub fn stat_database(scene: &mut Scene) -> Reading {
    let Some(session) = &mut scene.session else {
        return Reading::Unavailable("no session to ask".to_owned());
    };
    // stats_reset and the like differ by version: the whole row is kept.
    let sql = "SELECT pg_catalog.row_to_json(d) FROM pg_catalog.pg_stat_database d \
               WHERE datname = pg_catalog.current_database()";
    // Where it fails the row counts a little less.
    let _ = session.execute(session.count_at_once());
    let own = session.own_traffic();
    match session.catalog_value(sql) {
        Ok(Some(row)) => Reading::Text(match row.strip_suffix('}') {
            Some(columns) => format!(
                "{columns},\"pgassay\":{{\"sessions\":{},\"xact_commit\":{},\"xact_rollback\":{}}}}}",
                own.sessions, own.commits, own.rollbacks
            ),
            None => row,
        }),
        Ok(None) => Reading::Unavailable("pg_stat_database has no row".to_owned()),
        Err(e) => Reading::Unavailable(e.to_string()),
    }
}

/// `PID run_ns wait_ns timeslices` for the postmaster and all its children. It stands nearest
/// to the window: after one it is read first, and what follows need not ask again who ran.
fn schedstat(scene: &mut Scene) -> Reading {
    scene.known.look(&scene.postmaster);
    scene.known.schedstat()
}

/// What the machine's CPUs and the server's processes have used so far: the first line of
/// /proc/stat, and a line `PID run_ns wait_ns timeslices` for each process.
pub fn cpu_accounts(postmaster: u32) -> (Reading, Reading) {
    let whole = |text: &str| Some(text.trim_end().to_owned());
    let processes = server::all(postmaster).and_then(|all| server::text(&all, "schedstat", whole));
    let processes = match processes {
        Ok(text) => Reading::Text(text),
        Err(why) => Reading::Unavailable(why),
    };
    (first_line("/proc/stat"), processes)
}

/// CPU time of the postmaster and its children so far, in nanoseconds.
///
/// # Errors
/// Why it can't be read.
pub fn cpu_ns(postmaster: u32) -> Result<u64, String> {
    let whole = |text: &str| Some(text.trim_end().to_owned());
    let text = server::text(&server::all(postmaster)?, "schedstat", whole)?;
    let run = |line: &str| line.split_ascii_whitespace().nth(1)?.parse::<u64>().ok();
    Ok(text.lines().filter_map(run).sum())
}

//! How the kernel schedules the server: switches by process, pressure, memory's traffic.
//!
//! Read at the borders of a window, where `sched` is observed. Only the lines that
//! are interpreted are kept: /proc/vmstat has 150 more, and a run reads it often.

use pgassay_model::reading::Reading;
use pgassay_model::samplers::{self, OBSERVER};

use super::{Sampler, Scene, file, server};

/// The samplers of this observer.
pub const SAMPLERS: &[Sampler] = &[
    Sampler {
        id: samplers::SERVER_ROLES,
        unit: "processes",
        explanation: "what each of the server's processes is, without names of users",
        read: roles,
    },
    Sampler {
        id: samplers::SERVER_ENDED,
        unit: "ticks",
        explanation: "CPU time of processes of the server that have ended",
        read: ended,
    },
    Sampler {
        id: samplers::SERVER_SWITCHES,
        unit: "switches",
        explanation: "context switches of each of the server's processes, or of a sample where they are many, by will and by force",
        read: switches,
    },
    Sampler {
        id: samplers::HOST_PRESSURE_IO,
        unit: "microseconds",
        explanation: "how long tasks waited for I/O",
        read: |_| file("/proc/pressure/io"),
    },
    Sampler {
        id: samplers::HOST_PRESSURE_MEMORY,
        unit: "microseconds",
        explanation: "how long tasks waited for memory",
        read: |_| file("/proc/pressure/memory"),
    },
    Sampler {
        id: samplers::HOST_VMSTAT,
        unit: "pages and events",
        explanation: "page faults, reclaim, swap and write-back of the machine",
        read: vmstat,
    },
];

/// `PID voluntary nonvoluntary` for the postmaster and all its children.
fn switches(scene: &mut Scene) -> Reading {
    scene.known.status(&[server::BY_WILL, server::BY_FORCE])
}

/// What the first process' children had used of the CPUs when they ended, in ticks.
fn ended(scene: &mut Scene) -> Reading {
    match &scene.postmaster {
        Ok(postmaster) => ended_ticks(*postmaster),
        Err(why) => Reading::Unavailable(why.clone()),
    }
}

/// The same of a server by its first process.
pub fn ended_ticks(postmaster: u32) -> Reading {
    let path = format!("/proc/{postmaster}/stat");
    let stat = std::fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"));
    let ticks = stat.and_then(|stat| {
        server::childrens_ticks(&stat).ok_or_else(|| format!("{path} does not hold cutime, cstime"))
    });
    match ticks {
        Ok(ticks) => Reading::Text(ticks.to_string()),
        Err(why) => Reading::Unavailable(why),
    }
}

/// What each process of the server is, by its own account: `ROLE\tPID PID …`, a line a
/// role. Sessions of ours go by what they are for, everybody else's by kind: no user's,
/// database's or application's name is kept.
fn roles(scene: &mut Scene) -> Reading {
    let Some(session) = &mut scene.session else {
        return Reading::Unavailable("no session to ask".to_owned());
    };
    // backend_type came with 10; before, background processes stood in no view.
    let kind = match super::major_version(session) {
        Some(..10) => "'client backend'",
        _ => "coalesce(backend_type, 'other')",
    };
    let before = format!(
        "{}SET LOCAL search_path = pg_catalog; ",
        session.uncompiled()
    );
    let sql = format!(
        "SELECT pg_catalog.string_agg(role || E'\\t' || pids, E'\\n') FROM (\
         SELECT role, pg_catalog.string_agg(pid::text, ' ') AS pids FROM (\
         SELECT pid, CASE WHEN pid = pg_catalog.pg_backend_pid() THEN '{OBSERVER}' \
         WHEN application_name LIKE 'pgassay%' THEN application_name ELSE {kind} END AS role \
         FROM pg_catalog.pg_stat_get_activity(NULL)) a GROUP BY role) r"
    );
    let results = match session.read_only(&before, &sql) {
        Ok(results) => results,
        Err(e) => return Reading::Unavailable(e.to_string()),
    };
    let row = results.iter().find_map(|r| r.rows.first());
    match row.and_then(|row| row.first().cloned().flatten()) {
        Some(rows) => Reading::Text(rows),
        None => Reading::Unavailable("pg_stat_activity has no rows".to_owned()),
    }
}

fn vmstat(_: &mut Scene) -> Reading {
    let wanted = |line: &&str| {
        let name = line.split(' ').next().unwrap_or_default();
        samplers::VMSTAT_NAMES.contains(&name)
    };
    match file("/proc/vmstat") {
        Reading::Text(text) => {
            let lines: Vec<&str> = text.lines().filter(wanted).collect();
            Reading::Text(lines.join("\n"))
        }
        unavailable => unavailable,
    }
}

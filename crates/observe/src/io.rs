//! Readings of I/O: the devices, the cgroup, the server's processes, `pg_stat_io`.

use std::fmt::Write as _;
use std::fs;

use pgassay_analysis::record::Reading;

use super::{Scene, file, server};

/// The lines of /proc/diskstats of the devices that are counted.
pub(super) fn diskstats(scene: &mut Scene) -> Reading {
    if scene.storage.counted.is_empty() {
        let why = scene.storage.hidden.clone();
        return Reading::Unavailable(why.unwrap_or_else(|| "no device is known".to_owned()));
    }
    match file("/proc/diskstats") {
        Reading::Text(text) => Reading::Text(
            text.lines()
                .filter(|line| {
                    let name = line.split_ascii_whitespace().nth(2);
                    name.is_some_and(|name| scene.storage.counted.iter().any(|c| c == name))
                })
                .fold(String::new(), |kept, line| kept + line.trim_start() + "\n"),
        ),
        unavailable => unavailable,
    }
}

/// io.stat of the server's cgroup, or version 1's two files.
pub(super) fn cgroup(scene: &mut Scene) -> Reading {
    let pid = match &scene.postmaster {
        Ok(pid) => *pid,
        Err(why) => return Reading::Unavailable(why.clone()),
    };
    let groups = match fs::read_to_string(format!("/proc/{pid}/cgroup")) {
        Ok(text) => text,
        Err(e) => return Reading::Unavailable(format!("/proc/{pid}/cgroup: {e}")),
    };
    let path_of = |wanted: &dyn Fn(&str, &str) -> bool| {
        groups.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':');
            let (hierarchy, controllers) = (fields.next()?, fields.next()?);
            let path = fields.next()?;
            wanted(hierarchy, controllers).then(|| path.trim_end_matches('/').to_owned())
        })
    };
    if let Some(path) = path_of(&|hierarchy, _| hierarchy == "0") {
        for mount in ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"] {
            if let text @ Reading::Text(_) = file(&format!("{mount}{path}/io.stat")) {
                return text;
            }
        }
    }
    if let Some(path) = path_of(&|_, controllers| controllers.split(',').any(|c| c == "blkio")) {
        let mut both = String::new();
        for name in [
            "blkio.throttle.io_service_bytes",
            "blkio.throttle.io_serviced",
        ] {
            match file(&format!("/sys/fs/cgroup/blkio{path}/{name}")) {
                Reading::Text(text) => {
                    let _ = write!(both, "= {name}\n{text}");
                }
                unavailable => return unavailable,
            }
        }
        return Reading::Text(both);
    }
    Reading::Unavailable(
        "the server's cgroup counts no I/O, or its files are not visible".to_owned(),
    )
}

/// `PID name value name value …` for the postmaster and all its children.
pub(super) fn processes(scene: &mut Scene) -> Reading {
    scene.known.lines("io", "io", counters)
}

/// The counters of one process' `io` file on a line.
pub(super) fn counters(text: &str) -> Option<String> {
    Some(text.trim_end().replace('\n', " "))
}

/// `PID kB` of VmPTE for the postmaster and all its children.
pub(super) fn page_tables(scene: &mut Scene) -> Reading {
    scene.known.lines("page tables", "status", |status| {
        server::field(status, "VmPTE").map(str::to_owned)
    })
}

/// The rows of `pg_stat_io` that read anything, as a JSON array.
pub(super) fn pg_stat_io(scene: &mut Scene) -> Reading {
    let Some(session) = &mut scene.session else {
        return Reading::Unavailable("no session to ask".to_owned());
    };
    if super::major_version(session).is_none_or(|major| major < 16) {
        return Reading::Unavailable("pg_stat_io came with version 16".to_owned());
    }
    let sql = "SELECT coalesce(pg_catalog.json_agg(s), '[]') FROM pg_catalog.pg_stat_io s \
               WHERE reads > 0 OR hits > 0";
    match session.catalog_value(sql) {
        Ok(Some(rows)) => Reading::Text(rows),
        Ok(None) => Reading::Unavailable("pg_stat_io has no rows".to_owned()),
        Err(e) => Reading::Unavailable(e.to_string()),
    }
}

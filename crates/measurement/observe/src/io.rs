//! Readings of I/O: the devices, the cgroup, the server's processes, `pg_stat_io`.

use pgassay_model::reading::Reading;

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
    scene.known.status(&[server::PAGE_TABLES])
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

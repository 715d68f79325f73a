//! Commits wait for a standby.

use crate::detect::prelude::*;
use crate::detect::wal::standby_state::{
    LOOK_FIRST, NOT_SEEN, Standing, standby_first, standing, takes_part,
};

pub fn audit(seen: &FactView) -> Judged {
    let names = seen.value("synchronous_standby_names")?.trim();
    if names.is_empty() {
        return passed("synchronous_standby_names is empty");
    }
    let level = seen.value("synchronous_commit")?;
    let saw = format!("synchronous_standby_names = '{names}', synchronous_commit = {level}");
    let waits_for = match level {
        "off" | "local" => return passed(saw),
        "remote_write" => "has received its WAL",
        "remote_apply" => "has replayed its WAL",
        _ => "has flushed its WAL",
    };
    let standing = standing(seen)?;
    if let Standing::Absent(absent) = &standing {
        let saw = format!("{saw}: each commit waits until a standby {waits_for}, and {absent}.");
        return standby_first(Observation::new(Severity::High, Confidence::High, saw)).found();
    }
    let standbys = seen.rows("standbys").ok();
    let rows = standbys.iter().flatten();
    let synchronous: Vec<&str> = rows
        .filter(|row| takes_part(row))
        .filter_map(|row| word(row, "application_name"))
        .collect();
    let who = match synchronous.as_slice() {
        [] => "a standby".to_owned(),
        names => format!("the standby {}", names.join(", ")),
    };
    let found = Observation::new(
        high_if(level == "remote_apply"),
        Confidence::Medium,
        format!("{saw}: each commit waits until {who} {waits_for}."),
    )
    .sql("SELECT application_name, sync_state, write_lag, flush_lag, replay_lag FROM pg_stat_replication;   -- one must be sync or quorum");
    if standing == Standing::NotKnown {
        return found.seen(NOT_SEEN).advice(LOOK_FIRST).found();
    }
    match level {
        "remote_apply" => found.sql(
            "ALTER SYSTEM SET synchronous_commit = 'on'; SELECT pg_reload_conf();   \
             -- on: flushed there, not yet visible there",
        ),
        _ => found.sql(
            "SET synchronous_commit = 'local';   -- in transactions that may be lost with this server",
        ),
    }
    .found()
}

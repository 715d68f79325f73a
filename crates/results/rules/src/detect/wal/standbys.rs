//! Who else wants the WAL: standbys that commits wait for, the archive, decoders.

use crate::detect::wal::standby_state::{
    LOOK_FIRST, NOT_SEEN, Standing, standby_first, standing, takes_part,
};
use crate::detect::{Detector, facts, high_if};
use crate::fact_view::{FactView, number, word};
use crate::finding::{Confidence, Judged, Observation, Severity, not_applicable, passed};

pub const DETECTORS: &[Detector] = &[
    facts("synchronous-standbys", synchronous),
    facts("archiving-behind", archiving),
    facts("logical-decoding", decoding),
];

fn synchronous(seen: &FactView) -> Judged {
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

fn archiving(seen: &FactView) -> Judged {
    if seen.value("archive_mode")? == "off" {
        return not_applicable("archive_mode is off");
    }
    let archiver = seen.row("archiver")?;
    let compressor = word(&archiver, "compressor");
    let with = compressor.map_or_else(String::new, |c| format!(", archive_command runs {c}"));
    let failed_last = archiver
        .get("failed_last")
        .and_then(serde_json::Value::as_bool);
    if failed_last == Some(true) {
        return Observation::new(
            Severity::High,
            Confidence::High,
            format!(
                "The archiver's last attempt failed ({} failures){with}: WAL accumulates in pg_wal.",
                number(&archiver, "failed_count").unwrap_or(0.0)
            ),
        )
        .advice("the server's log has the output of archive_command")
        .found();
    }
    let waiting = number(&seen.row("archive backlog")?, "waiting").unwrap_or(0.0);
    let saw = format!("{waiting} finished WAL segments wait for the archiver{with}");
    if waiting < 5.0 {
        return passed(saw);
    }
    let slow = matches!(compressor, Some("xz" | "lzma" | "bzip2" | "7z" | "brotli"));
    Observation::new(
        high_if(slow || waiting >= 100.0),
        if slow { Confidence::Medium } else { Confidence::Low },
        match compressor {
            Some(_) => format!(
                "{saw}: until they are done, a CPU works for the archive instead of the load."
            ),
            None => format!("{saw}."),
        },
    )
    .advice("let archive_command use zstd or lz4 instead of slower compression, or compress at the archive's end")
    .sql("SELECT last_archived_wal, last_archived_time, failed_count FROM pg_stat_archiver;")
    .found()
}

fn decoding(seen: &FactView) -> Judged {
    let decoders = number(&seen.row("decoders")?, "active").unwrap_or(0.0);
    let saw = format!("{decoders} logical replication slots are being read");
    if decoders < 3.0 {
        return passed(saw);
    }
    let many = match seen.cpus() {
        Ok(cpus) => decoders >= f64::from(cpus),
        Err(_) => decoders >= 8.0,
    };
    Observation::new(
        high_if(many),
        Confidence::Medium,
        format!("{saw}: for each a walsender, or the session that reads it, decodes all WAL, which takes CPU time from the load."),
    )
    .sql("SELECT slot_name, plugin, database, active_pid FROM pg_replication_slots WHERE slot_type = 'logical';")
    .advice("have one consumer read a slot and hand the changes on to the others (a message broker), with a publication of the tables that are needed; drop a slot (pg_drop_replication_slot) only when its consumer reads another way; or decode on a standby (from 16 on)")
    .found()
}

//! Who else wants the WAL: standbys that commits wait for, the archive, decoders.

use pgassay_model::server::STANDBY_ABSENT;

use super::{Detector, facts, high_if};
use crate::fact_view::{FactView, Row, number, word};
use crate::finding::{
    Confidence, Judged, NotJudged, Observation, Severity, not_applicable, passed,
};

pub(super) const DETECTORS: &[Detector] = &[
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

/// Whether a standby is one that commits wait for.
fn takes_part(row: &Row) -> bool {
    matches!(word(row, "sync_state"), Some("sync" | "quorum"))
}

/// How many standbys the names ask for: 1, or the number of `FIRST 2 (a, b)`, `ANY 2 (a, b)` and `2 (a, b)`.
fn asked_for(names: &str) -> usize {
    let number = names.split_once('(').map(|(method, _)| {
        let word = method.split_whitespace().last();
        word.and_then(|word| word.parse().ok())
    });
    number.flatten().unwrap_or(1)
}

/// Whether commits that wait for standbys end.
#[derive(PartialEq)]
enum Standing {
    /// No name is given, or enough are connected.
    Enough,
    /// They do not, for this reason: fewer are connected than the names ask for.
    Absent(String),
    /// Which standbys are connected, or how they take part, can't be seen.
    NotKnown,
}

const NOT_SEEN: &str =
    "whether the standbys that synchronous_standby_names asks for are connected could not be seen";
const LOOK_FIRST: &str = "leave synchronous_commit as it is until pg_stat_replication shows, to a role with \
     pg_read_all_stats, as many standbys with sync or quorum as synchronous_standby_names asks for: without them commits \
     at each level above local would not end";

fn standing(seen: &FactView) -> Result<Standing, NotJudged> {
    let names = seen.value("synchronous_standby_names")?.trim();
    if names.is_empty() {
        return Ok(Standing::Enough);
    }
    let Ok(standbys) = seen.rows("standbys") else {
        return Ok(Standing::NotKnown);
    };
    // Who may not see how a standby takes part sees that there is one.
    if standbys.iter().any(|row| word(row, "sync_state").is_none()) {
        return Ok(Standing::NotKnown);
    }
    let connected = standbys.iter().filter(|row| takes_part(row)).count();
    let wanted = asked_for(names);
    Ok(match connected < wanted {
        true => Standing::Absent(format!(
            "{connected} of {wanted} that synchronous_standby_names asks for are connected: commits do not end"
        )),
        false => Standing::Enough,
    })
}

/// The steps where a synchronous standby is missing. No level of synchronous_commit is among them: those above local would
/// wait, too.
fn standby_first(found: Observation) -> Observation {
    found
        .sql("SELECT application_name, state, sync_state FROM pg_stat_replication;")
        .advice(format!(
            "{STANDBY_ABSENT}. Commits that wait then return, and what they wrote is on this server only until a standby is back"
        ))
}

/// The steps of `found` where synchronous_commit is off and commits would wait for a standby that is not there, or may not
/// be, if it were not.
pub(super) fn instead_of_waiting(seen: &FactView, found: Observation) -> Option<Observation> {
    match standing(seen).ok()? {
        Standing::Enough => None,
        Standing::Absent(absent) => Some(standby_first(found.seen(absent)).advice(
            "leave synchronous_commit as it is until then: each level above local would make commits wait",
        )),
        Standing::NotKnown => Some(
            found
                .seen(NOT_SEEN)
                .sql("SELECT application_name, state, sync_state FROM pg_stat_replication;")
                .advice(LOOK_FIRST),
        ),
    }
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

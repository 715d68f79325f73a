//! Who else wants the WAL: standbys that commits wait for, the archive, decoders.

use crate::check::rule::{
    Family, Finding, Judged, Need, Rule, Severity, Sure, not_applicable, passed,
};
use crate::check::seen::{Seen, number, word};

/// Commits that cross the network.
pub static SYNCHRONOUS: Rule = Rule {
    id: "synchronous-standbys",
    title: "A commit does not wait for another server",
    family: Family::Wal,
    needs: &[Need::Sql],
    why: "With synchronous_standby_names set, each commit waits until a standby has received the WAL (remote_write), flushed it (on) or replayed it (remote_apply). That is what these settings are for; what a transaction that writes costs is then the network's and the standby's matter.",
    effect: "A round trip to the standby and its flush for each commit; with remote_apply also its replay, which stands behind that standby's own queries.",
    remedy: "synchronous_commit = local for transactions that may be lost with this server; remote_apply only where reads on the standby must see the commit.",
    sources: &[
        "PostgreSQL manual, \"Synchronous Replication\"; \"Write Ahead Log\": synchronous_commit",
    ],
    judge: synchronous,
};

fn synchronous(seen: &Seen) -> Judged {
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
    let standbys = seen.rows("standbys").unwrap_or_default();
    let synchronous: Vec<&str> = standbys
        .iter()
        .filter(|row| matches!(word(row, "sync_state"), Some("sync" | "quorum")))
        .filter_map(|row| word(row, "application_name"))
        .collect();
    let who = match synchronous.as_slice() {
        [] => "a standby, and none is connected that it names,".to_owned(),
        names => format!("the standby {}", names.join(", ")),
    };
    Finding::new(
        if level == "remote_apply" || synchronous.is_empty() {
            Severity::High
        } else {
            Severity::Medium
        },
        Sure::Likely,
        format!("{saw}: each commit waits until {who} {waits_for}."),
    )
    .sql(match level {
        "remote_apply" => format!(
            "{}   -- on: flushed there, not yet to be seen there",
            seen.change("synchronous_commit", "on")
        ),
        _ => "SET synchronous_commit = 'local';   -- in transactions that may be lost with this server".to_owned(),
    })
    .sql("SELECT application_name, sync_state, write_lag, flush_lag, replay_lag FROM pg_stat_replication;")
    .found()
}

/// Finished WAL that is not archived.
pub static ARCHIVING: Rule = Rule {
    id: "archiving-behind",
    title: "Finished WAL is archived as fast as it is written",
    family: Family::Wal,
    needs: &[Need::SqlAsMonitor],
    why: "One process hands over one segment after the other and waits for the command each time. A command that compresses hard keeps a CPU busy beside the load for as long as there is a backlog; one that fails lets pg_wal grow until the disk is full.",
    effect: "A CPU of the server's machine while there is a backlog: on two CPUs tpcb-like lost 29 % in a trial. Segments that wait cannot be recycled: new ones are made instead.",
    remedy: "A faster or parallel compression (zstd, lz4), compression where the archive lies, or an archiver with a queue of its own (pgBackRest's archive-async).",
    sources: &[
        "PostgreSQL manual, \"Continuous Archiving and Point-in-Time Recovery\"",
        "pgBackRest user guide, \"Asynchronous Archiving\"",
    ],
    judge: archiving,
};

fn archiving(seen: &Seen) -> Judged {
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
        return Finding::new(
            Severity::High,
            Sure::Certain,
            format!(
                "The archiver's last attempt failed ({} failures){with}: WAL stays where it is.",
                number(&archiver, "failed_count").unwrap_or(0.0)
            ),
        )
        .advice("read the server's log for what archive_command said")
        .found();
    }
    let waiting = number(&seen.row("archive backlog")?, "waiting").unwrap_or(0.0);
    let saw = format!("{waiting} finished WAL segments wait for the archiver{with}");
    if waiting < 5.0 {
        return passed(saw);
    }
    let slow = matches!(compressor, Some("xz" | "lzma" | "bzip2" | "7z" | "brotli"));
    Finding::new(
        if slow || waiting >= 100.0 { Severity::High } else { Severity::Medium },
        if slow { Sure::Likely } else { Sure::Possible },
        match compressor {
            Some(_) => format!(
                "{saw}: until they are done, a CPU works for the archive and not for the load."
            ),
            None => format!("{saw}."),
        },
    )
    .advice("let archive_command use zstd or lz4 instead of what takes longer, or compress where the archive lies")
    .sql("SELECT last_archived_wal, last_archived_time, failed_count FROM pg_stat_archiver;")
    .found()
}

/// WAL that is decoded again and again.
pub static DECODING: Rule = Rule {
    id: "logical-decoding",
    title: "WAL is decoded by few",
    family: Family::Wal,
    needs: &[Need::Sql],
    why: "Each logical replication slot has a walsender that reads and decodes all WAL of the server, also what its subscriber does not want; nothing is shared between them.",
    effect: "In a trial nine doubled the server's CPU time for each tpcb-like transaction.",
    remedy: "One slot for several consumers, behind a broker, or a standby that decodes (from 16 on).",
    sources: &["PostgreSQL manual, \"Logical Decoding Concepts\""],
    judge: decoding,
};

fn decoding(seen: &Seen) -> Judged {
    let decoders = number(&seen.row("decoders")?, "active").unwrap_or(0.0);
    let saw = format!("{decoders} logical replication slots are being read");
    if decoders < 3.0 {
        return passed(saw);
    }
    let many = match seen.cpus() {
        Ok(cpus) => decoders >= f64::from(cpus),
        Err(_) => decoders >= 8.0,
    };
    Finding::new(
        if many { Severity::High } else { Severity::Medium },
        Sure::Likely,
        format!("{saw}: for each a walsender decodes all WAL, which takes CPU time from the load."),
    )
    .sql("SELECT slot_name, plugin, database, active_pid FROM pg_replication_slots WHERE slot_type = 'logical';")
    .advice("let several consumers share a slot, or decode on a standby (from 16 on)")
    .found()
}

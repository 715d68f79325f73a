//! WAL archiving falls behind.

use crate::detect::prelude::*;

pub fn audit(seen: &FactView) -> Judged {
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

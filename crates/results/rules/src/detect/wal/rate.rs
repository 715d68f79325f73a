//! The rate at which WAL is written, by the server's counters.

use crate::detect::prelude::*;
use crate::detect::wal::max_wal_size::Needs;

/// Counters that cover less time say nothing of a rate.
const SHORTEST_SECONDS: f64 = 60.0;

/// Seconds that the counters of a row cover, by the server's clock; none where the server does not say since when it
/// counts, or counts for too short a time.
pub fn covered_seconds(row: &Row) -> Option<f64> {
    number(row, "since_reset_s").filter(|seconds| *seconds >= SHORTEST_SECONDS)
}

/// Bytes of WAL a second, over the time that their own counter covers.
pub fn wal_rate(seen: &FactView) -> Option<f64> {
    let row = seen.row("wal").ok()?;
    Some(number(&row, "wal_bytes")? / covered_seconds(&row)?)
}

/// What bears on the size of the WAL.
pub fn needs<'a>(seen: &FactView<'a>) -> Result<Needs<'a>, NotJudged> {
    Ok(Needs {
        now: Some(seen.bytes("max_wal_size")?),
        rate: wal_rate(seen),
        directories: seen.directories().unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crate::Finding;
    use crate::detect::tests::made::{found_with, one};
    use pgassay_evidence::observed::counters::ServerCounters;

    /// 4 sessions at the log, of which this many pages of 1000 were written for want of room.
    fn found(full: f64, at: (&'static str, &'static str)) -> Vec<Finding> {
        found_with(vec![(at.0, at.1, 4.0)], move |observed| {
            observed.counters = Some(ServerCounters {
                seconds: 4.0,
                wal: [("lsn", 8192e3), ("wal_buffers_full", full)]
                    .map(|(name, by)| (name.to_owned(), by))
                    .into_iter()
                    .collect::<BTreeMap<_, _>>(),
                ..ServerCounters::default()
            });
        })
    }

    #[test]
    fn buffers_that_run_full_are_the_cause_of_the_queue_for_the_log() {
        let findings = found(900.0, ("LWLock", "WALWrite"));
        let full = one(&findings, "wal-buffers-full");
        assert!(
            full.saw.contains("90.0 % of the log's pages"),
            "{}",
            full.saw
        );
        assert!(full.gain_expected.unwrap() > 0.85 * full.gain_at_most.unwrap());
        let flush = one(&findings, "wal-flush");
        assert_eq!(flush.cause.as_deref(), Some("wal-buffers-full"));
    }

    #[test]
    fn commits_that_wait_for_their_flush_do_not_want_room() {
        for findings in [
            found(3.0, ("LWLock", "WALWrite")),
            found(900.0, ("IO", "DataFileRead")),
        ] {
            assert!(
                findings.iter().all(|f| f.id != "wal-buffers-full"),
                "{findings:#?}"
            );
        }
    }
}

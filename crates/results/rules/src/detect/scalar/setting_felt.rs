//! Settings away from what the server comes with, by what they have it do: a table. A row is a finding only where its
//! sign is in the load, so that a setting that costs nothing here is none.

use crate::detect::common::hits::{Named, weighty};
use crate::detect::common::wait_shares;
use crate::detect::common::waiting::waiting;
use crate::detect::tenths;
use crate::evidence::{Evidence, RunEvidence};
use crate::finding::{Basis, Confidence, Observation, Severity};
use Instead::Default;
use Sign::{At, Spilling, Within};
use Value::{AtLeast, Below, Is, IsNot};
use pgassay_evidence::observed::statements::StatementTime;
use pgassay_text::number::memory_bytes;

/// The entry.
pub const FELT: &str = "setting-felt";

/// Which values have the server do it.
enum Value {
    Is(&'static [&'static str]),
    IsNot(&'static [&'static str]),
    /// Bytes, milliseconds or a number, without those that are 0 or less where these switch it off.
    Below(f64),
    AtLeast(f64),
}

/// What shows that it is done.
enum Sign {
    /// The share of the CPU samples within one of these functions.
    Within(&'static [&'static str]),
    /// The share of the sessions' time at these waits.
    At(&'static [(&'static str, &'static [&'static str])]),
    /// The share of the sessions' time in statements that begin with one of these words, where it has them spill.
    Spilling(&'static [&'static str]),
}

/// What is put in its place.
enum Instead {
    Default,
    Value(&'static str),
}

/// A setting that may be felt.
struct Row {
    setting: &'static str,
    value: Value,
    signs: &'static [Sign],
    /// The share from which on it is worth a finding.
    least: f64,
    /// What it has the server do.
    does: &'static str,
    instead: Instead,
    /// Whether it takes a restart, or new sessions; or a word of advice.
    more: &'static str,
}

const fn row(
    setting: &'static str,
    value: Value,
    (signs, least): (&'static [Sign], f64),
    does: &'static str,
    instead: Instead,
    more: &'static str,
) -> Row {
    Row {
        setting,
        value,
        signs,
        least,
        does,
        instead,
        more,
    }
}

/// Statements that build an index by sorting.
const BUILDS: &[&str] = &[
    "CREATE INDEX",
    "CREATE UNIQUE INDEX",
    "REINDEX",
    "CLUSTER",
    "ALTER TABLE",
];
const RESTART: &str = "it is in force after a restart of the server";
/// Waits for the log, of whatever kind.
const LOG: Sign = At(&[
    (
        "IO",
        &["WALWrite", "WALSync", "WALInitWrite", "WALInitSync"],
    ),
    ("LWLock", &["WALWrite", "WALInsert", "WALBufMapping"]),
]);

#[rustfmt::skip]
const ROWS: &[Row] = &[
    row("wal_consistency_checking", IsNot(&[""]), (&[LOG, Within(&["XLogInsert", "XLogInsertRecord", "XLogRecordAssemble"])], 0.1),
        "each record of the log carries whole images of the pages that it changes, so that a standby can compare them: a developer's check",
        Default, ""),
    row("temp_buffers", Below(4.0 * 1024.0 * 1024.0), (&[Within(&["LocalBufferAlloc", "GetLocalVictimBuffer", "FlushLocalBuffer"])], 0.15),
        "a temporary table has so little memory in its session, and its pages go to files and come back", Instead::Value("32MB"), "sessions that have used temporary tables keep the old value"),
    row("maintenance_work_mem", Below(16.0 * 1024.0 * 1024.0), (&[Spilling(BUILDS)], 0.1),
        "indexes are built, and tables are rewritten in order, by a sort in so little memory, in many runs on disk", Instead::Value("256MB"),
        "or SET maintenance_work_mem in the session that builds"),
    row("bytea_output", Is(&["escape"]), (&[Within(&["byteaout"])], 0.05),
        "each byte of a bytea value is written as text in the old escape form, three or four characters for many of them", Default,
        "and have the driver ask for binary results"),
    row("track_functions", IsNot(&["none"]), (&[Within(&["pgstat_init_function_usage", "pgstat_end_function_usage"])], 0.05),
        "each call of a function is timed by two looks at the clock", Default, ""),
    row("track_commit_timestamp", Is(&["on"]), (&[At(&[("LWLock", &["CommitTsSLRU", "CommitTsBuffer", "CommitTs", "CommitTsControl"])]), Within(&["TransactionTreeSetCommitTsData"])], 0.05),
        "each commit writes its time, too", Default, RESTART),
    row("old_snapshot_threshold", AtLeast(0.0), (&[At(&[("LWLock", &["OldSnapshotTimeMap"])]), Within(&["TransactionIdLimitedForOldSnapshots", "GetOldSnapshotThresholdTimestamp", "MaintainOldSnapshotTimeMapping", "TestForOldSnapshot_impl"])], 0.05),
        "each snapshot and each page that is pruned goes by a table of times under a lock", Default, RESTART),
    row("wal_compression", Is(&["on", "pglz"]), (&[Within(&["XLogCompressBackupBlock", "pglz_compress"])], 0.1),
        "each whole page that goes into the log is compressed by pglz, which is slow", Instead::Value("off"),
        "or, from 15 on and where the server is built with it, lz4, which is several times as fast; fewer checkpoints (max_wal_size, checkpoint_timeout) mean fewer whole pages"),
    row("backend_flush_after", AtLeast(1.0), (&[At(&[("IO", &["DataFileFlush"])]), Within(&["IssuePendingWritebacks", "ScheduleBufferTagForWriteback"])], 0.05),
        "a session that writes pages has the kernel write them out at once, and waits for it", Default, ""),
    row("wal_recycle", Is(&["off"]), (&[At(&[("IO", &["WALInitWrite", "WALInitSync"])]), Within(&["XLogFileInitInternal", "XLogFileInit"])], 0.05),
        "each new file of the log is made and filled anew instead of an old one being used again", Default, ""),
    row("min_wal_size", Below(80.0 * 1024.0 * 1024.0), (&[At(&[("IO", &["WALInitWrite", "WALInitSync"])])], 0.1),
        "files of the log are removed, and each new one is made and filled anew", Instead::Value("1GB"), ""),
    row("pg_stat_statements.max", Below(2000.0), (&[At(&[("LWLock", &["pg_stat_statements"])]), Within(&["entry_dealloc", "gc_qtexts", "need_gc_qtexts", "qtext_load_file", "qtext_store"])], 0.05),
        "pg_stat_statements forgets statements all the time to make room for others, under a lock that all sessions need, and rewrites its file of texts",
        Instead::Value("5000"), "it is in force after a restart of the server; and have the application send parameters, so that its statements are fewer"),
    row("logical_decoding_work_mem", Below(32.0 * 1024.0 * 1024.0), (&[At(&[("IO", &["ReorderBufferWrite", "ReorderBufferRead"])]), Within(&["ReorderBufferCheckMemoryLimit", "ReorderBufferSerializeTXN", "ReorderBufferRestoreChanges"])], 0.05),
        "a transaction that is decoded goes to files and comes back from them once its changes take more than that", Default,
        "smaller transactions need less of it; a subscription with streaming = on sends them while they run"),
    row("wal_sync_method", IsNot(&["fdatasync", "fsync_writethrough"]), (&[At(&[("IO", &["WALWrite", "WALSync"]), ("LWLock", &["WALWrite"])])], 0.2),
        "the log is written in that way in the place of fdatasync, the default on Linux", Default, "pg_test_fsync times each of them on this device"),
];

/// All of them, each under the setting's name.
pub fn look(evidence: &Evidence) -> Vec<Named> {
    let Some(run) = evidence.run else {
        return Vec::new();
    };
    let felt = ROWS.iter().filter_map(|row| row.look(evidence, &run));
    felt.collect()
}

/// A value as a number: bytes, milliseconds, or as it stands.
fn number(value: &str) -> Option<f64> {
    if let Some(bytes) = memory_bytes(value) {
        return Some(bytes as f64);
    }
    let digits = value.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match value[digits.len()..].trim() {
        "" | "ms" => 1.0,
        "us" => 1e-3,
        "s" => 1e3,
        "min" => 60e3,
        "h" => 3600e3,
        "d" => 86_400e3,
        _ => return None,
    };
    Some(digits.trim().parse::<f64>().ok()? * unit)
}

impl Value {
    fn has(&self, value: &str) -> bool {
        match self {
            Is(values) => values.contains(&value),
            IsNot(values) => !values.contains(&value),
            Below(limit) => number(value).is_some_and(|n| n > 0.0 && n < *limit),
            AtLeast(limit) => number(value).is_some_and(|n| n >= *limit),
        }
    }
}

/// Whether a statement is of these, and writes what it sorts into files.
fn spills(statement: &StatementTime, begins: &[&str]) -> bool {
    let text = statement.text.trim_start().to_ascii_uppercase();
    let wrote = statement.counters.as_ref().and_then(|c| c.temp_blocks);
    let waits = statement
        .waits
        .iter()
        .any(|w| w.name.starts_with("IO:BufFile"));
    begins.iter().any(|words| text.starts_with(words))
        && (waits || wrote.is_some_and(|b| b >= 16.0))
}

/// How much of a load a sign is.
enum Seen {
    Samples(f64),
    Waits(f64),
    Statements(f64),
}

impl Sign {
    fn look(&self, evidence: &Evidence, run: &RunEvidence) -> Option<Seen> {
        match self {
            Within(names) => {
                let profile = evidence.profile?;
                let shares = names.iter().filter_map(|name| profile.function(name));
                let most = shares.map(|f| f.total_share).fold(0.0, f64::max);
                profile.shows(most, 0.0).then_some(Seen::Samples(most))
            }
            At(events) => {
                let share =
                    run.wait_share(|kind, event| wait_shares::is_of(kind, event, events))?;
                let sampled = run.waits()?;
                let sightings = sampled.share(|e| wait_shares::is_of(&e.kind, &e.event, events));
                sampled.shows(sightings, 0.0).then_some(Seen::Waits(share))
            }
            Spilling(verbs) => {
                let spills = weighty(run).filter(|s| spills(s, verbs));
                Some(Seen::Statements(
                    spills.map(|s| s.share).sum::<f64>().min(1.0),
                ))
            }
        }
    }
}

impl Row {
    fn look(&self, evidence: &Evidence, run: &RunEvidence) -> Option<Named> {
        let (value, source) = evidence.value_and_source(self.setting)?;
        if matches!(source, "default" | "override") || !self.value.has(value) {
            return None;
        }
        let saw = format!("{} = {value}: {}.", self.setting, self.does);
        let running = evidence.running().unwrap_or(1.0);
        // The largest part of the time, whatever it is a part of.
        let seen = self.signs.iter().filter_map(|sign| {
            let seen = sign.look(evidence, run)?;
            let (share, of_time) = match seen {
                Seen::Samples(share) => (share, share * running),
                Seen::Waits(share) | Seen::Statements(share) => (share, share),
            };
            (share >= self.least).then_some((of_time, sign, seen))
        });
        let (_, sign, seen) = seen.max_by(|a, b| a.0.total_cmp(&b.0))?;
        let seen = match (seen, sign) {
            (Seen::Samples(share), _) => Observation::of_samples(share, saw)
                .seen(format!("{} of the CPU samples show it", tenths(share))),
            (Seen::Waits(share), sign) => {
                let is = |kind: &str, event: &str| match sign {
                    At(events) => wait_shares::is_of(kind, event, events),
                    Within(_) | Spilling(_) => false,
                };
                waiting(evidence, run, (share, saw), is)
                    .seen(format!(
                        "sessions wait for it in {} of {}",
                        tenths(share),
                        run.whole()
                    ))
                    .all_seen(wait_shares::who(run, is))
            }
            (Seen::Statements(share), _) => {
                Observation::measured(Basis::Statements, Some(share), saw)
                    .seen(format!(
                        "statements that do so take {} of {}",
                        tenths(share),
                        run.whole()
                    ))
                    .most_in(weighty(run).find(|s| spills(s, BUILDS)))
            }
        };
        let change = match self.instead {
            Default => format!("RESET {}", self.setting),
            Instead::Value(value) => format!("SET {} = '{value}'", self.setting),
        };
        let mut seen = seen
            .severity(Severity::High)
            .confidence(Confidence::High)
            .sql(format!("ALTER SYSTEM {change}; SELECT pg_reload_conf();"));
        if !self.more.is_empty() {
            seen = seen.advice(self.more);
        }
        Some(Named {
            entry: FELT,
            subject: Some(self.setting.to_owned()),
            title: format!("{} = {value}", self.setting),
            seen,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Finding;
    use crate::detect::tests::made::{found_in_samples, found_on_cpus};

    fn felt(findings: &[Finding]) -> Vec<&str> {
        let ids = findings.iter().map(|f| f.id.as_str());
        ids.filter(|id| id.starts_with(FELT)).collect()
    }

    const FILE: &str = "configuration file";
    const ESCAPED: &str = "    30.00%  postgres  postgres  [.] byteaout\n    70.00%  postgres  postgres  [.] ExecScan\n";

    #[test]
    fn a_setting_is_found_where_its_sign_is_in_the_load() {
        let found = found_in_samples(ESCAPED, &[("bytea_output", "escape", FILE)]);
        let finding = found
            .iter()
            .find(|f| f.id == "setting-felt/bytea_output")
            .unwrap();
        assert!(
            finding.saw.starts_with("bytea_output = escape: each byte"),
            "{finding:?}"
        );
        assert_eq!(
            finding.remedy[0].text,
            "ALTER SYSTEM SET bytea_output = 'hex'; SELECT pg_reload_conf();"
        );
        // The role has it: there it is taken back.
        let of_role = found_in_samples(ESCAPED, &[("bytea_output", "escape", "user")]);
        let finding = of_role
            .iter()
            .find(|f| f.id == "setting-felt/bytea_output")
            .unwrap();
        assert!(
            finding.remedy[0]
                .text
                .starts_with("ALTER ROLE app RESET bytea_output"),
            "{finding:?}"
        );
    }

    #[test]
    fn a_setting_that_costs_nothing_here_is_none() {
        const QUIET: &str = "    100.00%  postgres  postgres  [.] ExecScan\n";
        assert!(
            felt(&found_in_samples(
                QUIET,
                &[("bytea_output", "escape", FILE)]
            ))
            .is_empty()
        );
        assert!(felt(&found_in_samples(ESCAPED, &[("bytea_output", "hex", FILE)])).is_empty());
        // As the server comes.
        assert!(
            felt(&found_in_samples(
                ESCAPED,
                &[("bytea_output", "escape", "default")]
            ))
            .is_empty()
        );
    }

    #[test]
    fn waits_and_values_with_units_are_signs_too() {
        const INIT: &[(&str, &str, f64)] = &[("IO", "WALInitWrite", 3.0)];
        let none = found_on_cpus(0.2, INIT, "", |_| {});
        assert!(felt(&none).is_empty(), "{:?}", felt(&none));
        assert_eq!(number("32MB"), Some(32.0 * 1024.0 * 1024.0));
        assert_eq!(number("20s"), Some(20_000.0));
        assert_eq!(number("1min"), Some(60_000.0));
        assert_eq!(number("-1"), Some(-1.0));
        assert_eq!(number("lz4"), None);
    }

    #[test]
    fn each_value_of_a_setting_has_one_row() {
        for (i, row) in ROWS.iter().enumerate() {
            let others = ROWS[i + 1..].iter().filter(|r| r.setting == row.setting);
            assert!(
                others.clone().all(|other| other.does != row.does),
                "{}",
                row.setting
            );
        }
    }
}

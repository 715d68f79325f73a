//! REPLICA IDENTITY FULL: the whole old row in the log, for each update and delete.

use crate::detect::common::statement_text::verb;
use crate::detect::prelude::*;
use pgassay_evidence::observed::statements::StatementTime;
use pgassay_evidence::profile::{Class, Work};
use pgassay_model::observed::growth::Grown;

/// Updates and deletes below which a table is hardly changed.
const FEW_CHANGES: f64 = 1000.0;
/// The same within a run.
const FEW_IN_A_RUN: f64 = 100.0;
/// Bytes of a row from which on logging it whole is dear.
const WIDE: f64 = 500.0;
/// The part of a run's log that must be old rows.
const MUCH: f64 = 0.3;
/// Bytes of log for each change from which on a flush takes longer for what it has to write, and the part of the wait
/// that is then taken to be for that: with 44 KiB each, half of the throughput's loss came from there.
const LONG: f64 = 16.0 * 1024.0;
const OF_LONG: f64 = 0.5;
/// No more of the log than this is theirs: the new rows are in it, too.
const MOST: f64 = 0.95;

/// Bytes of an average row, with what of it lies out of line.
fn row_bytes(row: &Row) -> f64 {
    let get = |key| number(row, key).unwrap_or(0.0);
    get("bytes") / get("rows").max(1.0)
}

/// How a table gets an identity that is logged in a few bytes.
fn narrower(table: &str, primary: bool, key: Option<&str>) -> String {
    match (primary, key) {
        (true, _) => format!("ALTER TABLE {table} REPLICA IDENTITY DEFAULT;   -- its primary key"),
        (false, Some(key)) => format!("ALTER TABLE {table} REPLICA IDENTITY USING INDEX {key};"),
        (false, None) => format!(
            "ALTER TABLE {table} ADD PRIMARY KEY (…); ALTER TABLE {table} REPLICA IDENTITY DEFAULT;   -- without a \
             key its subscribers search each row, too"
        ),
    }
}

pub fn audit(seen: &FactView) -> Judged {
    let rows = seen.rows("identity_full")?;
    let level = seen.value("wal_level")?;
    let changed = |row: &Row| number(row, "changed").unwrap_or(0.0);
    if rows.is_empty() {
        return passed("no table has REPLICA IDENTITY FULL");
    }
    if level != "logical" {
        return not_applicable(format!(
            "wal_level = {level}: old rows are not logged whole"
        ));
    }
    let busy: Vec<&Row> = rows
        .iter()
        .filter(|row| changed(row) >= FEW_CHANGES)
        .collect();
    let Some(first) = busy.first() else {
        return passed(format!(
            "{} tables have REPLICA IDENTITY FULL, and are hardly updated",
            rows.len()
        ));
    };
    let name = |row: &Row| word(row, "table").unwrap_or("?").to_owned();
    let is = |key: &str| first.get(key).and_then(serde_json::Value::as_bool) == Some(true);
    let wide = busy.iter().any(|row| row_bytes(row) >= WIDE);
    let mut found = Observation::new(
        medium_if(wide),
        Confidence::High,
        format!(
            "Each update and delete of {} logs its whole old row, about {} (REPLICA IDENTITY FULL): {:.0} of them \
             since its counters began.",
            name(first),
            shown(row_bytes(first) as u64),
            changed(first)
        ),
    );
    for row in busy.iter().skip(1).take(4) {
        found = found.seen(format!(
            "also {}: {:.0} updates and deletes, about {} each",
            name(row),
            changed(row),
            shown(row_bytes(row) as u64)
        ));
    }
    if !is("published") {
        found = found.seen(format!(
            "{} is in no publication of this database",
            name(first)
        ));
    }
    found
        .sql(narrower(
            &name(first),
            is("has_primary_key"),
            word(first, "key"),
        ))
        .found()
}

/// A table with that identity which a run changes, and what its old rows take.
struct Logged<'a> {
    table: &'a Grown,
    /// Bytes of an old row.
    row: f64,
    /// Bytes of log for each change.
    log: f64,
    /// The part of the run's log that old rows are.
    part: f64,
}

fn changes(table: &Grown) -> f64 {
    table.by("n_tup_upd") + table.by("n_tup_del")
}

fn most<'a>(run: &RunEvidence<'a>) -> Option<Logged<'a>> {
    if run.setting("wal_level") != Some("logical") {
        return None;
    }
    let observed = run.observed?;
    let wal = &observed.counters.as_ref()?.wal;
    // How far the log grew is exact; what backends count of it may come late.
    let all = *wal.get("lsn").or_else(|| wal.get("wal_bytes"))?;
    let block: f64 = run
        .setting("block_size")
        .and_then(|b| b.parse().ok())
        .unwrap_or(8192.0);
    let tables = observed.growth.as_ref()?.tables.iter();
    let logged = tables.filter_map(|table| {
        let full = table.stands("identity_full").is_some_and(|full| full > 0.0);
        let rows = table.stands("reltuples").filter(|rows| *rows >= 1.0)?;
        let pages = table.stands("relpages")? + table.stands("toast_pages").unwrap_or(0.0);
        let row = pages * block / rows;
        let done = changes(table);
        (full && done >= FEW_IN_A_RUN).then(|| Logged {
            table,
            row: row.min(all / done),
            log: all / done,
            part: (row * done / all).min(MOST),
        })
    });
    logged
        .max_by(|a, b| a.part.total_cmp(&b.part))
        .filter(|logged| logged.part >= MUCH)
}

/// Statements that change a table's rows.
fn changing<'a>(run: &RunEvidence<'a>, table: &'a str) -> impl Iterator<Item = &'a StatementTime> {
    let statements = run.observed.and_then(|o| o.statements.as_ref());
    let bare = table.rsplit('.').next().unwrap_or(table).trim_matches('"');
    let all = statements.into_iter().flat_map(|s| &s.statements);
    all.filter(move |s| {
        let mut words = s.text.split(|c: char| !(c.is_alphanumeric() || c == '_'));
        matches!(verb(&s.text).as_str(), "UPDATE" | "DELETE" | "MERGE")
            && words.any(|word| word.eq_ignore_ascii_case(bare))
    })
}

pub fn in_run(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let logged = most(&run)?;
    let name = logged.table.name.as_str();
    let at_log = |_: &str, event: &str| event.to_ascii_lowercase().starts_with("wal");
    // A flush takes its time however little it writes.
    let flush = |_: &str, event: &str| {
        let event = event.to_ascii_lowercase();
        event == "walwrite" || event == "walsync"
    };
    let waiting = run.share_without(at_log)? * logged.part;
    let writing = run.share_without(|k, e| at_log(k, e) && !flush(k, e))? * logged.part;
    let flushing = match logged.log >= LONG {
        true => run.share_without(flush)? * logged.part * OF_LONG,
        false => 0.0,
    };
    let cpu = evidence.profile.map_or(0.0, |profile| {
        let log = profile.class(Class::Wal) + profile.class(Class::Io);
        log * logged.part + profile.within(Work::Detoasting).unwrap_or(0.0)
    });
    let running = run.budget().map_or(1.0, |budget| budget.running());
    let share = (waiting + cpu * running).min(1.0);
    let saw = format!(
        "Each update and delete of {name} logs its whole old row, about {}, of {} of log each (REPLICA IDENTITY FULL).",
        shown(logged.row as u64),
        shown(logged.log as u64)
    );
    let mut statements: Vec<&StatementTime> = changing(&run, name).collect();
    statements.sort_by(|a, b| b.share.total_cmp(&a.share));
    let seen = Observation::measured(Basis::Statements, Some(share), saw)
        .of_cpu(cpu.min(1.0))
        .expects(
            ((writing + flushing + cpu * running) / share.max(f64::MIN_POSITIVE)).min(1.0),
            match flushing > 0.0 {
                true => "the CPU time of fetching and logging old rows, waits for room in the log, and half of the waits for flushes, which have much to write",
                false => "the CPU time of fetching and logging old rows, and waits for room in the log; the flushes of commits stay",
            },
        )
        .severity(if share >= 0.3 {
            Severity::High
        } else {
            Severity::Medium
        })
        .confidence(Confidence::High)
        .seen(format!("old rows are about {} of the log", tenths(logged.part)))
        .seen(format!(
            "{:.0} rows of {name} were updated or deleted in the measured time",
            changes(logged.table)
        ))
        .of_statements(statements.first().copied())
        .all_seen(statements.first().map(|statement| {
            format!(
                "{} of {} goes to: {}",
                tenths(statement.share),
                run.whole(),
                statement.named()
            )
        }))
        .seen("wal_level = logical");
    Some(
        seen.sql(format!(
            "ALTER TABLE {name} REPLICA IDENTITY DEFAULT;   -- its primary key; USING INDEX names another unique one"
        ))
        .advice(
            "where whoever reads the changes needs old values, keep large columns in a table of their own: what the \
             identity leaves out is logged only where it changes",
        ),
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::Finding;
    use crate::detect::tests::made::{found_with_settings, one};
    use pgassay_evidence::observed::counters::ServerCounters;
    use pgassay_model::observed::growth::GrowthRecord;

    /// 500 rows on so many pages, 1000 of which were updated, with so many bytes of log.
    fn found(
        level: &'static [(&'static str, &'static str, &'static str)],
        full: f64,
        pages: f64,
        log: f64,
    ) -> Vec<Finding> {
        let state = [
            ("identity_full", full),
            ("reltuples", 500.0),
            ("relpages", 10.0),
            ("toast_pages", pages),
        ];
        let table = Grown {
            name: "public.player".into(),
            grown: BTreeMap::from([("n_tup_upd".to_owned(), 1000.0)]),
            state: state.map(|(k, v)| (k.to_owned(), v)).into(),
            ..Grown::default()
        };
        found_with_settings(level, move |observed| {
            observed.growth = Some(GrowthRecord {
                tables: vec![table],
                ..GrowthRecord::default()
            });
            observed.counters = Some(ServerCounters {
                seconds: 4.0,
                wal: BTreeMap::from([("lsn".to_owned(), log)]),
                ..ServerCounters::default()
            });
        })
    }

    const LOGICAL: &[(&str, &str, &str)] = &[("wal_level", "logical", "configuration file")];
    const REPLICA: &[(&str, &str, &str)] = &[("wal_level", "replica", "default")];

    #[test]
    fn old_rows_that_are_most_of_the_log_are_named_in_bytes() {
        let findings = found(LOGICAL, 1.0, 3740.0, 66e6);
        let full = one(&findings, "replica-identity-full");
        assert!(
            full.saw.contains("about 60 KiB, of 64 KiB of log each"),
            "{}",
            full.saw
        );
        assert!(full.remedy[0].text.contains("REPLICA IDENTITY DEFAULT"));
    }

    #[test]
    fn other_identities_levels_and_logs_are_no_finding() {
        for findings in [
            found(LOGICAL, 0.0, 3740.0, 66e6),
            found(REPLICA, 1.0, 3740.0, 66e6),
            // 164 bytes of a row, of 66 KB of log each.
            found(LOGICAL, 1.0, 0.0, 66e6),
        ] {
            assert!(
                findings.iter().all(|f| f.id != "replica-identity-full"),
                "{findings:#?}"
            );
        }
    }
}

//! Commands that a load sends all the time and that are meant for now and then: a table of how they begin, or what they ask
//! of, with what they have the server do.

use super::hits::{Named, weighty};
use super::{beside, tenths};
use crate::evidence::Evidence;
use crate::finding::{Basis, Confidence, Observation, Severity};
use pgassay_evidence::observed::statements::StatementTime;

/// The entry.
pub(super) const OFTEN: &str = "command-often";

/// The share of the sessions' time from which on it is worth a finding.
const NOTABLE: f64 = 0.1;

/// Fewer calls in the measured time are a job's.
const OFTEN_CALLS: f64 = 10.0;

/// How a statement is known.
enum By {
    /// It begins with the first words, and has the others, in capitals.
    Words(&'static [&'static str], &'static [&'static str]),
    /// It reads, and has one of these, in small letters.
    Asks(&'static [&'static str]),
}

struct Row {
    name: &'static str,
    by: By,
    does: &'static str,
    instead: &'static str,
}

use By::{Asks, Words};

const fn row(name: &'static str, by: By, does: &'static str, instead: &'static str) -> Row {
    Row {
        name,
        by,
        does,
        instead,
    }
}

const CATALOGUES: &str = "it changes the catalogues: locks the object for all others until the transaction ends, leaves dead rows in the catalogues, \
                          and has all sessions drop what they keep of it and plan their statements anew";
const AT_DEPLOYMENT: &str =
    "do it once, when the application is deployed, and not in its transactions";

/// The first that fits counts.
#[rustfmt::skip]
const ROWS: &[Row] = &[
    row("MOVE", Words(&["MOVE"], &[]),
        "the cursor's rows are all computed on the way, only to be passed over or counted",
        "take MOVE out: fetch the page that is shown by a condition on the key (WHERE key > the last one ORDER BY key LIMIT n, without a SCROLL cursor); \
         for the number of rows, count(*) asked once and kept, or the planner's estimate (EXPLAIN)"),
    row("FETCH-from-the-end", Words(&["FETCH"], &["LAST"]),
        "the cursor computes all rows to come to the last one", "ask for it by ORDER BY … DESC LIMIT 1, with an index on that order"),
    row("FETCH-absolute", Words(&["FETCH"], &["ABSOLUTE"]),
        "the cursor computes all rows before that position", "ask for the page by a condition on the key: WHERE key > the last one ORDER BY key LIMIT n"),
    row("PREPARE", Words(&["PREPARE"], &["AS"]),
        "a statement is prepared for each execution, which parses and plans it each time and sends two commands more",
        "prepare it once for each session, and execute it many times; drivers do so by themselves (JDBC: prepareThreshold and a PreparedStatement that is kept), \
         and pools must keep what was prepared (PgBouncer from 1.21: max_prepared_statements)"),
    row("CHECKPOINT", Words(&["CHECKPOINT"], &[]),
        "all changed pages are written out and flushed, and each page goes whole into the log at its next change",
        "take CHECKPOINT out of the application: checkpoint_timeout and max_wal_size have checkpoints come, spread over time"),
    row("REFRESH", Words(&["REFRESH"], &[]),
        "the materialized view is computed anew, all of it, and readers wait unless it is CONCURRENTLY",
        "refresh it by a job, every few minutes, or keep a summary table that each change brings up to date"),
    row("indexes", Words(&["CREATE", "INDEX"], &[]), "the table is read and sorted, and its writers wait (unless CONCURRENTLY)", AT_DEPLOYMENT),
    row("indexes", Words(&["CREATE", "UNIQUE"], &[]), "the table is read and sorted, and its writers wait (unless CONCURRENTLY)", AT_DEPLOYMENT),
    row("indexes", Words(&["DROP", "INDEX"], &[]), CATALOGUES, AT_DEPLOYMENT),
    row("REINDEX", Words(&["REINDEX"], &[]), "the index is built anew while others wait", "leave it to a job at a quiet time, CONCURRENTLY"),
    row("ALTER", Words(&["ALTER"], &[]), CATALOGUES,
        "do it once, at deployment; for a trigger that is to be quiet in some transactions let it ask a setting \
         (current_setting('app.quiet', true)) or its WHEN condition in the place of DISABLE TRIGGER; for numbers setval() or a sequence of their own in the \
         place of ALTER SEQUENCE"),
    row("GRANT", Words(&["GRANT"], &[]), CATALOGUES, "grant once, to a role that the others are members of; ALTER DEFAULT PRIVILEGES for what is created later"),
    row("GRANT", Words(&["REVOKE"], &[]), CATALOGUES, "grant once, to a role that the others are members of"),
    row("CREATE", Words(&["CREATE", "FUNCTION"], &[]), CATALOGUES, AT_DEPLOYMENT),
    row("CREATE", Words(&["CREATE", "OR"], &[]), CATALOGUES, AT_DEPLOYMENT),
    row("CREATE", Words(&["CREATE", "VIEW"], &[]), CATALOGUES, AT_DEPLOYMENT),
    row("CREATE", Words(&["CREATE", "SCHEMA"], &[]), CATALOGUES, AT_DEPLOYMENT),
    row("COMMENT", Words(&["COMMENT"], &[]), CATALOGUES, AT_DEPLOYMENT),
    row("LISTEN", Words(&["LISTEN"], &[]),
        "the session enters itself into the list of those that listen, under a lock of all databases",
        "LISTEN once, in a session of its own that hands on to the others"),
    row("LISTEN", Words(&["UNLISTEN"], &[]),
        "the session takes itself out of the list of those that listen, under a lock of all databases",
        "LISTEN once, in a session of its own that hands on to the others"),
    row("sizes", Asks(&["pg_database_size(", "pg_total_relation_size(", "pg_relation_size(", "pg_table_size(", "pg_indexes_size(", "pg_tablespace_size(", "pg_ls_waldir(", "pg_ls_dir("]),
        "it asks the file system for each file of what it measures",
        "ask every few minutes and keep the answer; pg_class.relpages * 8192 is near enough for a table, without a look at files"),
    row("monitoring", Asks(&["pg_stat_activity", "pg_locks", "pg_stat_statements", "pg_buffercache", "pg_stat_all_", "pg_stat_user_", "pg_statio_", "pgstattuple", "pg_blocking_pids("]),
        "it reads the state of all sessions, locks, statements or pages, some of it under locks that they need",
        "ask from a monitor once a minute, and not in the application's transactions; to see whether something is at work already, take pg_try_advisory_lock(key) \
         or a row of a table"),
    row("metadata", Asks(&["information_schema.", "pg_get_constraintdef(", "pg_get_indexdef(", "pg_get_viewdef(", "pg_attribute", "pg_constraint", "pg_index "]),
        "the catalogues are asked for what tables, columns and keys there are; views of information_schema join a dozen of them",
        "ask once, when the application starts, and keep the answer in its memory (object mappers and data layers: switch on their cache of metadata, or give them the \
         mapping: declared columns and keys); where it must be asked each time, from pg_attribute and pg_index by attrelid = 'schema.table'::regclass"),
];

impl Row {
    fn fits(&self, text: &str) -> bool {
        match &self.by {
            Words(begins, has) => {
                let upper = text.to_ascii_uppercase();
                let mut words = upper
                    .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
                    .filter(|word| !word.is_empty());
                let begins = begins.iter().all(|word| words.next() == Some(*word));
                let rest: Vec<&str> = words.collect();
                begins && has.iter().all(|word| rest.contains(word))
                    // A transaction that is prepared commits in two phases, and other entries know of temporary tables.
                    && !(self.name == "PREPARE" && rest.first() == Some(&"TRANSACTION"))
            }
            Asks(of) => {
                let lower = text.trim_start().to_ascii_lowercase();
                (lower.starts_with("select") || lower.starts_with("with"))
                    && of.iter().any(|part| lower.contains(part))
            }
        }
    }
}

/// The rows that the load's statements fit, the one with the most time first.
pub(super) fn look(evidence: &Evidence) -> Vec<Named> {
    let Some(run) = evidence.run else {
        return Vec::new();
    };
    let mut found: Vec<(&Row, Vec<&StatementTime>)> = Vec::new();
    for statement in weighty(&run) {
        let Some(row) = ROWS.iter().find(|row| row.fits(&statement.text)) else {
            continue;
        };
        // Once is what such a command is for.
        let calls = statement.counters.as_ref().map(|c| c.calls);
        if calls.is_some_and(|calls| calls < OFTEN_CALLS) || super::hits::asks_catalogues(statement)
        {
            continue;
        }
        match found.iter_mut().find(|(known, _)| known.name == row.name) {
            Some((_, statements)) => statements.push(statement),
            None => found.push((row, vec![statement])),
        }
    }
    let named = found.into_iter().filter_map(|(row, statements)| {
        let share = statements.iter().map(|s| s.share).sum::<f64>().min(1.0);
        let of_cpu = statements.iter().map(|s| s.cpu_share).sum::<f64>().min(1.0);
        if share < NOTABLE {
            return None;
        }
        let saw = format!(
            "{} of {} goes to {}: {}.",
            tenths(share),
            run.whole(),
            beside::short(&statements[0].text),
            row.does
        );
        let calls = |s: &StatementTime| Some(s.counters.as_ref()?.calls);
        let seen = Observation::measured(Basis::Statements, Some(share), saw)
            .of_cpu(of_cpu)
            .severity(Severity::High)
            .confidence(match row.by {
                Words(..) if statements.iter().any(|s| s.counters.is_some()) => Confidence::High,
                _ => Confidence::Medium,
            })
            .all_seen(statements.iter().copied().filter_map(|s| {
                calls(s).map(|calls| {
                    format!("sent {calls:.0} times in the measured time: {}", s.named())
                })
            }))
            .advice(row.instead);
        Some(Named {
            entry: OFTEN,
            subject: Some(row.name.to_owned()),
            title: format!(
                "A command that is not meant for each transaction: {}",
                row.name
            ),
            seen,
        })
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::made::found_with;
    use super::*;
    use crate::Finding;
    use pgassay_evidence::observed::statements::StatementAnalysis;

    fn of(text: &str, share: f64) -> Vec<Finding> {
        let statement = StatementTime {
            text: text.into(),
            share,
            cpu_share: share,
            sightings: 400,
            ..StatementTime::default()
        };
        let mut found = found_with(vec![], move |observed| {
            observed.statements = Some(StatementAnalysis {
                statements: vec![statement],
                ..StatementAnalysis::default()
            });
        });
        found.retain(|f| f.id.starts_with(OFTEN));
        found
    }

    #[test]
    fn commands_are_known_by_their_words() {
        for (text, name, says) in [
            ("MOVE FORWARD ALL IN c", "MOVE", "take MOVE out"),
            (
                "prepare q (int) as select $1",
                "PREPARE",
                "once for each session",
            ),
            (
                "ALTER TABLE t DISABLE TRIGGER ALL",
                "ALTER",
                "WHEN condition",
            ),
            ("CREATE OR REPLACE VIEW v AS SELECT 1", "CREATE", "deployed"),
            (
                "SELECT column_name FROM information_schema.columns WHERE table_name = $1",
                "metadata",
                "cache of metadata",
            ),
            ("SELECT pg_total_relation_size($1)", "sizes", "relpages"),
            (
                "SELECT count(*) FROM pg_stat_activity",
                "monitoring",
                "once a minute",
            ),
        ] {
            let found = of(text, 0.6);
            assert_eq!(found.len(), 1, "{text}");
            assert_eq!(found[0].id, format!("{OFTEN}/{name}"), "{text}");
            assert!(
                found[0].remedy[0].text.contains(says),
                "{:?}",
                found[0].remedy
            );
        }
    }

    #[test]
    fn what_a_load_is_for_is_none() {
        for text in [
            "PREPARE TRANSACTION $1",
            "SELECT id FROM account WHERE id = $1",
            "INSERT INTO pg_class_of_1998 VALUES ($1)",
            "FETCH 50 FROM c",
            "CREATE TEMP TABLE w AS SELECT 1",
            "DELETE FROM moves WHERE id = $1",
        ] {
            assert!(of(text, 0.6).is_empty(), "{text}");
        }
        assert!(of("MOVE FORWARD ALL IN c", 0.04).is_empty());
    }
}

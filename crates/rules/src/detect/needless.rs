//! Writing and locking that comes to nothing: locks on rows that nobody changes, rows written again as they were,
//! and statements that rules multiply.

use pgassay_model::observed::growth::Grown;

use super::hits::{Hit, Part, joined, weighty, with_plans};
use super::waits::{WAL_FLUSH, is_of};
use super::writes::written;
use super::{Detector, run, tenths};
use crate::evidence::Evidence;
use crate::finding::{Confidence, Observation, StepKind};
use pgassay_evidence::profile::Class;

pub(super) const DETECTORS: &[Detector] = &[
    run("rows-locked-unchanged", locked),
    run("rows-written-unchanged", unchanged),
    run("rewritten-by-rules", rules),
    run("truncate-often", truncates),
];

fn changes(grown: &Grown) -> f64 {
    grown.by("n_tup_ins") + grown.by("n_tup_upd") + grown.by("n_tup_del")
}

/// How a statement locks rows.
fn locks(text: &str) -> Option<&'static str> {
    const WAYS: &[&str] = &[
        "FOR UPDATE",
        "FOR NO KEY UPDATE",
        "FOR SHARE",
        "FOR KEY SHARE",
    ];
    let upper = text.to_ascii_uppercase();
    WAYS.iter().copied().find(|way| upper.contains(way))
}

/// CPU time that a transaction which writes nothing does without, by what it is spent on.
const LOGGING: &[Class] = &[
    Class::Io,
    Class::KernelWakeUp,
    Class::Lwlock,
    Class::Transaction,
    Class::Wal,
];
/// Changes for each locking statement below which the locks are for none.
const HARDLY_ANY: f64 = 0.01;

fn locked(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let growth = run.observed?.growth.as_ref()?;
    // Where views could not be read, nothing says that nothing was changed.
    if growth.tables.is_empty() {
        return None;
    }
    let written: f64 = growth.tables.iter().map(changes).sum();
    let hits = with_plans(&run, |statement, plan| {
        let way = locks(&statement.text)?;
        let all = plan.root.all();
        let (_, node) = all.iter().find(|(_, n)| n.kind == "LockRows")?;
        let name = node
            .all()
            .into_iter()
            .find_map(|(_, n)| n.relation.as_deref())?;
        let read = run.table(name)?;
        let scans = read.scans();
        let calls = statement.counters.as_ref().map_or(scans, |c| c.calls);
        if calls < 100.0 || written > HARDLY_ANY * calls {
            return None;
        }
        let flushes = Part::of_waits(statement, |wait| {
            let (kind, event) = wait.split_once(':').unwrap_or_default();
            is_of(kind, event, WAL_FLUSH)
        });
        // Writing the log, flushing it, and sleeping until that is done take CPU time, too.
        let spent: f64 = evidence.profile.map_or(0.0, |profile| {
            let of = LOGGING.iter().map(|class| profile.class(*class));
            of.sum()
        });
        let part = match spent > 0.0 {
            true => flushes.and(Part::of_samples(statement, spent)),
            false => flushes,
        };
        let logged = statement.counters.as_ref().and_then(|c| c.wal_bytes);
        Some(Hit {
            statement,
            part,
            left: None,
            saw: format!(
                "Rows of {name} are read with {way}, and nothing is changed: each lock writes the row's page and the log, and its \
                 transaction waits for the flush at commit."
            ),
            confidence: Confidence::High,
            evidence: [
                Some(format!("{calls:.0} such statements, and {written:.0} rows inserted, updated or deleted in all tables")),
                logged.map(|bytes| format!("{bytes:.0} bytes of log a call")),
                (flushes.time > 0.0).then(|| format!("{} of its time waits for the log's flush", tenths(flushes.time))),
            ]
            .into_iter()
            .flatten()
            .collect(),
            steps: vec![(
                StepKind::Advice,
                format!(
                    "read without {way} where the row is only shown, and lock in the transactions that change it; with an object mapper, \
                     take the lock mode off the query or repository"
                ),
            )],
        })
    });
    joined(&run, hits)
}

/// Rows a call from which on it is no statement for one row.
const SEVERAL: f64 = 10.0;
/// The part of the updates that keep all indexes as they are (HOT) from which on a column of one stays as it was.
const MOSTLY: f64 = 0.5;

/// The columns that ON CONFLICT DO UPDATE takes over from the row that was to be inserted; none where it sets another
/// value, or has a condition.
fn taken_over(text: &str) -> Option<Vec<String>> {
    let lower = text.to_ascii_lowercase();
    let (_, set) = lower.split_once(" do update set ")?;
    let set = set.split(" returning ").next()?;
    if set.contains(" where ") || set.contains('…') {
        return None;
    }
    let pairs = set.split(',').map(|pair| {
        let (column, value) = pair.split_once('=')?;
        let column = column.trim().trim_matches('"');
        let from = value.trim().strip_prefix("excluded.")?.trim_matches('"');
        (column == from).then(|| column.to_owned())
    });
    pairs.collect()
}

fn unchanged(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let hits = with_plans(&run, |statement, plan| {
        let (node, name, facts) = written(plan, &["Insert"])?;
        if node.conflict.as_deref() != Some("UPDATE")
            || node.conditions.contains_key("Conflict Filter")
        {
            return None;
        }
        let columns = taken_over(&statement.text)?;
        let grown = run.table(name)?;
        let (inserted, updated, hot) = (
            grown.by("n_tup_ins"),
            grown.by("n_tup_upd"),
            grown.by("n_tup_hot_upd"),
        );
        let calls = statement
            .counters
            .as_ref()
            .map(|c| c.calls)
            .filter(|calls| *calls >= 1.0)?;
        if updated < SEVERAL * calls || inserted > 0.1 * updated || hot < MOSTLY * updated {
            return None;
        }
        // An update is HOT only if no column of an index has another value.
        let (column, index) = columns.iter().find_map(|column| {
            let mut of = facts
                .indexes
                .iter()
                .filter(|i| i.valid && i.columns.contains(column));
            Some((column, of.next()?))
        })?;
        let list = |of: &str| -> String {
            let named: Vec<String> = columns.iter().map(|c| format!("{of}.{c}")).collect();
            named.join(", ")
        };
        let short = name.rsplit('.').next().unwrap_or(name);
        Some(Hit {
            statement,
            part: Part::of_work(evidence, statement, hot / updated),
            left: None,
            saw: format!(
                "ON CONFLICT DO UPDATE writes rows of {name} again, {:.0} a call, most of them with the {column} that they have: a row \
                 that has not changed gets a new version, too.",
                updated / calls
            ),
            confidence: Confidence::Medium,
            evidence: vec![
                format!(
                    "{updated:.0} rows updated and {inserted:.0} inserted in the measured time"
                ),
                format!(
                    "{} of the updates are HOT, though {column} is set and {} has it: its value stayed the same",
                    tenths(hot / updated),
                    index.name
                ),
            ],
            steps: vec![(
                StepKind::Advice,
                format!(
                    "write what has changed only: … DO UPDATE SET … WHERE ({}) IS DISTINCT FROM ({}); or leave out of the source what the \
                     table has already (NOT EXISTS), which saves the row's lock, too",
                    list(short),
                    list("EXCLUDED")
                ),
            )],
        })
    });
    joined(&run, hits)
}

/// Fewer rules are no burden.
const FEW_RULES: u32 = 3;

fn rules(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let hits = with_plans(&run, |statement, plan| {
        let (node, name, facts) = written(plan, &["Insert", "Update", "Delete"])?;
        let operation = node.operation.as_deref()?;
        let rules = facts
            .rules
            .get(operation)
            .copied()
            .filter(|rules| *rules > FEW_RULES)?;
        let parts = f64::from(rules) + 1.0;
        let verb = operation.to_ascii_uppercase();
        Some(Hit {
            statement,
            part: Part::of_work(evidence, statement, 1.0 - 1.0 / parts),
            left: None,
            saw: format!(
                "{name} has {rules} rules for {verb}: the statement is rewritten into one for each of them and one more, and each of \
                 these goes through all rows."
            ),
            confidence: Confidence::High,
            evidence: statement
                .counters
                .as_ref()
                .map(|c| format!("pg_stat_statements counts {:.0} executions, those of the rewritten statements among them", c.calls))
                .into_iter()
                .collect(),
            steps: vec![(
                StepKind::Advice,
                format!(
                    "declarative partitioning (from 10 on: CREATE TABLE … PARTITION BY RANGE), which finds a row's partition by its key; or \
                     one BEFORE {verb} trigger in the place of the rules; or write into the table meant"
                ),
            )],
        })
    });
    joined(&run, hits)
}

/// Calls of a statement in the measured time from which on they are often.
const OFTEN: f64 = 10.0;

/// Tables that are emptied again and again by TRUNCATE.
fn truncates(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let emptied = weighty(&run).filter(|statement| {
        let verb = statement.text.split_whitespace().next();
        let is = verb.is_some_and(|verb| verb.eq_ignore_ascii_case("TRUNCATE"));
        // One that waits for its lock is no work.
        let locked = Part::of_waits(statement, |event| event.starts_with("Lock:")).time > 0.5;
        let calls = statement.counters.as_ref().map(|counters| counters.calls);
        is && !locked && calls.is_none_or(|calls| calls >= OFTEN)
    });
    let hits = emptied.map(|statement| Hit {
        statement,
        part: Part::of_all(1.0),
        left: None,
        saw: "Tables are emptied by TRUNCATE all the time: each makes and removes the files of the table, its indexes and its TOAST table."
            .to_owned(),
        confidence: match &statement.counters {
            Some(_) => Confidence::High,
            None => Confidence::Medium,
        },
        evidence: Vec::new(),
        steps: vec![(
            StepKind::Advice,
            "DELETE FROM them, if they are small (a few thousand rows), or roll back the transaction that filled them; TRUNCATE for large \
             ones"
                .to_owned(),
        )],
    });
    joined(&run, hits.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_taken_over_as_it_is_may_be_unchanged() {
        let of = |set: &str| {
            taken_over(&format!(
                "INSERT INTO t SELECT 1 ON CONFLICT (k) DO UPDATE SET {set}"
            ))
        };
        let columns = |of: &[&str]| Some(of.iter().map(|c| (*c).to_owned()).collect::<Vec<_>>());
        assert_eq!(
            of("a = EXCLUDED.a, b = excluded.b RETURNING k"),
            columns(&["a", "b"])
        );
        assert_eq!(of("n = t.n + $1"), None);
        assert_eq!(of("a = EXCLUDED.a, at = now()"), None);
        assert_eq!(of("a = EXCLUDED.a WHERE t.a <> EXCLUDED.a"), None);
        assert_eq!(of("a = EXCLUDED.b"), None);
    }

    #[test]
    fn locks_are_told_by_their_clause() {
        assert_eq!(
            locks("SELECT a FROM t WHERE id = $1 for update"),
            Some("FOR UPDATE")
        );
        assert_eq!(
            locks("SELECT a FROM t FOR NO KEY UPDATE SKIP LOCKED"),
            Some("FOR NO KEY UPDATE")
        );
        assert_eq!(locks("SELECT a FROM t"), None);
    }
}

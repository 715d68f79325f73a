//! Workers that all want the first row of a queue: each waits for the one before, and takes the next row only then.

use super::super::tenths;
use super::super::wait_shares::who;
use super::super::waiting::waiting;
use super::queue::{NOTABLE, Queue};
use super::rows::of_rows;
use super::transactions::with_thinking;
use crate::evidence::{Evidence, RunEvidence};
use crate::finding::{Confidence, Observation, Severity};
use pgassay_evidence::observed::statements::StatementTime;

/// The part of the time in the queue for rows that such statements must have.
const MOSTLY: f64 = 0.5;

/// Whether a statement takes the first rows of an order and locks them, without passing over locked ones.
fn takes_the_first(text: &str) -> bool {
    let words: Vec<String> = text
        .split(|c: char| !(c.is_alphanumeric() || c == '_'))
        .filter(|word| !word.is_empty())
        .map(str::to_ascii_uppercase)
        .collect();
    let has = |wanted: &[&str]| {
        words
            .windows(wanted.len())
            .any(|seen| seen.iter().zip(wanted).all(|(seen, wanted)| seen == wanted))
    };
    let first = has(&["LIMIT"]) || has(&["FETCH", "FIRST"]) || has(&["FETCH", "NEXT"]);
    let locks = has(&["FOR", "UPDATE"]) || has(&["FOR", "NO", "KEY", "UPDATE"]);
    let writes = words
        .first()
        .is_some_and(|verb| verb == "UPDATE" || verb == "DELETE");
    let ordered = has(&["ORDER", "BY"]);
    let passes = has(&["SKIP", "LOCKED"]) || has(&["NOWAIT"]);
    first && (locks || writes && ordered) && !passes
}

/// Sessions of a statement that wait for rows.
fn queueing(statement: &StatementTime) -> f64 {
    let waits = statement.waits.iter().filter(|w| {
        let (kind, event) = w.name.split_once(':').unwrap_or_default();
        of_rows(kind, event)
    });
    waits.map(|w| w.sessions).sum()
}

/// The statement of the queue with the most time, where such statements are most of the queue for rows.
fn first<'a>(run: &RunEvidence<'a>) -> Option<&'a StatementTime> {
    if run.wait_share(of_rows)? < NOTABLE {
        return None;
    }
    let statements = &run.observed?.statements.as_ref()?.statements;
    let all: f64 = statements.iter().map(queueing).sum();
    let takers = || statements.iter().filter(|s| takes_the_first(&s.text));
    let theirs: f64 = takers().map(queueing).sum();
    let most = takers().max_by(|a, b| queueing(a).total_cmp(&queueing(b)))?;
    (theirs >= MOSTLY * all && all > 0.0).then_some(most)
}

/// Whether that is what makes the queue for rows.
pub(in crate::detect) fn is_it(run: &RunEvidence) -> bool {
    first(run).is_some()
}

pub(super) fn queued(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let statement = first(&run)?;
    let share = run.wait_share(of_rows)?;
    let saw = format!(
        "Workers queue for the same first row instead of taking the next one: {} of {}.",
        tenths(share),
        run.whole()
    );
    let seen = waiting(evidence, &run, (share, saw), of_rows)
        .severity(Severity::High)
        .confidence(Confidence::High)
        .all_seen(who(&run, of_rows))
        .advice(format!(
            "add SKIP LOCKED, so that each worker takes the first row that no other has: … LIMIT n FOR UPDATE SKIP LOCKED, \
             in: {}",
            statement.named()
        ));
    let advice = "mark the row as taken and commit, and do the work after that: no row is locked for as long as the work takes (what a \
                  worker that dies has marked must be given back)";
    Some(match Queue::of(&run) {
        Some(queue) => with_thinking(seen, &queue, |_| true, advice),
        None => seen,
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::tests::made::{found_with, one};
    use super::*;
    use crate::Finding;
    use pgassay_evidence::observed::statements::{StatementAnalysis, StatementWait};

    fn of(text: &str) -> Vec<Finding> {
        let statement = StatementTime {
            text: text.into(),
            sightings: 90,
            share: 0.9,
            waits: vec![StatementWait {
                name: "Lock:transactionid".into(),
                sessions: 5.0,
            }],
            ..StatementTime::default()
        };
        found_with(vec![("Lock", "transactionid", 5.0)], move |observed| {
            observed.statements = Some(StatementAnalysis {
                statements: vec![statement],
                ..StatementAnalysis::default()
            });
        })
    }

    #[test]
    fn a_queue_whose_workers_wait_for_each_other_is_told_to_pass_over_locked_rows() {
        for text in [
            "SELECT id FROM job WHERE open ORDER BY id LIMIT $1 FOR UPDATE",
            "UPDATE job SET open = false WHERE id = (SELECT id FROM job ORDER BY id FETCH FIRST ROW ONLY FOR NO KEY UPDATE)",
            "DELETE FROM job WHERE id = (SELECT id FROM job ORDER BY at LIMIT $1) RETURNING id",
        ] {
            let found = of(text);
            let queue = one(&found, "skip-locked");
            assert!(queue.remedy[0].text.contains("SKIP LOCKED"), "{queue:#?}");
            assert!(found.iter().all(|f| f.id != "hot-row"), "{found:#?}");
            assert!(
                found.iter().all(|f| !f.id.starts_with("wait-event")),
                "{found:#?}"
            );
        }
    }

    #[test]
    fn other_queues_for_rows_are_none_of_a_work_queue() {
        for text in [
            "SELECT id FROM job ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED",
            "SELECT balance FROM account WHERE id = $1 FOR UPDATE",
            "UPDATE counter SET n = n + $1 WHERE id = $2",
            "SELECT id FROM job ORDER BY id LIMIT $1",
        ] {
            let found = of(text);
            one(&found, "hot-row");
            assert!(found.iter().all(|f| f.id != "skip-locked"), "{found:#?}");
        }
    }
}

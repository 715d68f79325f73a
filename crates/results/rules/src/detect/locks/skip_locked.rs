//! Workers that all want the first row of a queue: each waits for the one before, and takes the next row only then.

use crate::detect::common::wait_shares::{of_rows, who};
use crate::detect::common::waiting::waiting;
use crate::detect::locks::first_row::first;
use crate::detect::locks::holders::with_thinking;
use crate::detect::locks::queue::Queue;
use crate::detect::prelude::*;

pub fn in_run(evidence: &Evidence) -> Option<Observation> {
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
    use crate::Finding;
    use crate::detect::tests::made::{found_with, one};
    use pgassay_evidence::observed::statements::{StatementAnalysis, StatementTime, StatementWait};

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

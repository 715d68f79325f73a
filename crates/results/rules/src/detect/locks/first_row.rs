//! Queues of workers that all want the first row of an order.

use crate::detect::common::wait_shares::of_rows;
use crate::detect::locks::queue::NOTABLE;
use crate::evidence::RunEvidence;
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
pub fn first<'a>(run: &RunEvidence<'a>) -> Option<&'a StatementTime> {
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
pub fn is_it(run: &RunEvidence) -> bool {
    first(run).is_some()
}

//! Commits that queue to notify.

use crate::detect::common::wait_shares;
use crate::detect::common::waiting::waiting;
use crate::detect::prelude::*;
use pgassay_evidence::observed::statements::StatementTime;
use pgassay_model::observed::blockers::{Holder, NOTIFY};

/// Pairs of who waits and who holds whose lock is that of NOTIFY, and all whose object was seen.
fn objects(run: &RunEvidence) -> Option<(f64, f64)> {
    let holders = &run.observed?.blockers.as_ref()?.holders;
    let named = || {
        holders
            .iter()
            .filter(|h| h.awaited == "object" && !h.object.is_empty())
    };
    let pairs = |pick: fn(&Holder) -> bool| -> f64 {
        named().filter(|h| pick(h)).map(|h| h.pairs as f64).sum()
    };
    let all = pairs(|_| true);
    (all > 0.0).then(|| (pairs(|h| h.object == NOTIFY), all))
}

/// The triggers of what a statement writes: of them one notifies, where the statement does not.
fn triggers_of(statement: &StatementTime) -> Option<String> {
    let plan = statement.plan.as_ref()?;
    let nodes = plan.root.all().into_iter();
    let written = nodes
        .filter(|(_, n)| n.operation.is_some())
        .find_map(|(_, n)| n.relation.as_ref())?;
    let triggers = &plan.relations.get(written)?.triggers;
    let names = triggers
        .iter()
        .map(|t| format!("{} (function {})", t.name, t.function));
    let names: Vec<String> = names.collect();
    (!names.is_empty()).then(|| format!("triggers on {written}: {}", names.join(", ")))
}

pub fn in_run(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let is = |kind: &str, event: &str| kind == "Lock" && event == "object";
    let share = run.wait_share(is).filter(|share| *share >= 0.1)?;
    let seen = run.observed?.statements.as_ref()?;
    // Whoever has notified takes the lock of all databases at commit.
    let at = |s: &StatementTime| -> f64 {
        s.waits
            .iter()
            .filter(|w| w.name == "Lock:object")
            .map(|w| w.sessions)
            .sum()
    };
    let ends = |s: &StatementTime| {
        let verb = s
            .text
            .split(|c: char| !c.is_alphabetic())
            .next()
            .unwrap_or_default();
        ["COMMIT", "END", "NOTIFY"]
            .iter()
            .any(|v| v.eq_ignore_ascii_case(verb))
            || s.text.contains("pg_notify")
    };
    let all: f64 = seen.statements.iter().map(at).sum();
    let committing: f64 = seen.statements.iter().filter(|s| ends(s)).map(at).sum();
    // What is locked tells for sure; a statement that commits by itself does not look like one.
    let is_its = match objects(&run) {
        Some((its, of)) => its >= 0.5 * of,
        None => committing >= 0.5 * all && all > 0.0,
    };
    if !is_its {
        return None;
    }
    let saw = format!(
        "Transactions that notify commit one after another: {} of {} is spent in the queue for the lock that NOTIFY takes.",
        tenths(share),
        run.whole()
    );
    Some(
        waiting(evidence, &run, (share, saw), is)
            .severity(Severity::High)
            .confidence(Confidence::High)
            .all_seen(wait_shares::who(&run, is))
            .all_seen(
                seen.statements
                    .iter()
                    .filter(|s| at(s) > 0.2 * all)
                    .find_map(triggers_of),
            ),
    )
}

#[cfg(test)]
mod tests {
    use pgassay_model::observed::blockers::BlockerRecord;

    use super::*;
    use crate::Finding;
    use crate::detect::tests::made::{found_with, one};
    use pgassay_evidence::observed::statements::{StatementAnalysis, StatementWait};

    /// A statement that waits for a lock on this.
    fn of(text: &str, object: &str) -> Vec<Finding> {
        let holder = Holder {
            awaited: "object".into(),
            object: object.into(),
            pairs: 500,
            ..Holder::default()
        };
        let statement = StatementTime {
            text: text.into(),
            sightings: 90,
            share: 0.9,
            waits: vec![StatementWait {
                name: "Lock:object".into(),
                sessions: 4.0,
            }],
            ..StatementTime::default()
        };
        found_with(vec![("Lock", "object", 4.0)], move |observed| {
            observed.statements = Some(StatementAnalysis {
                statements: vec![statement],
                ..StatementAnalysis::default()
            });
            observed.blockers = Some(BlockerRecord {
                looks: 5,
                holders: vec![holder],
                unread: None,
            });
        })
    }

    #[test]
    fn what_is_locked_tells_who_notifies() {
        // A statement that commits by itself, whose trigger notifies.
        one(&of("INSERT INTO chat VALUES ($1)", NOTIFY), "notify-queue");
        let other = of("COMMIT", "role app");
        assert!(other.iter().all(|f| f.id != "notify-queue"), "{other:#?}");
        let wait = one(&other, "wait-event/Lock:object");
        assert!(
            wait.evidence.iter().any(|e| e.contains("role app")),
            "{wait:#?}"
        );
    }

    #[test]
    fn where_it_is_not_seen_commits_tell() {
        let findings = of("COMMIT", "");
        assert!(one(&findings, "notify-queue").gain_at_most.unwrap() > 0.3);
        assert!(
            findings.iter().all(|f| !f.id.starts_with("wait-event")),
            "{findings:#?}"
        );
        let other = of("DROP TABLE x", "");
        assert!(other.iter().all(|f| f.id != "notify-queue"));
    }
}

//! Statements that PostgreSQL carries out elsewhere than they stand: cursors that outlive their transaction, and
//! slots that are read without moving.

use super::hits::{Hit, Part, joined, weighty};
use super::{Detector, run};
use crate::evidence::Evidence;
use crate::finding::{Confidence, Observation, StepKind};
use pgassay_evidence::observed::statements::StatementTime;

pub(super) const DETECTORS: &[Detector] = &[
    run("cursor-with-hold", holdable),
    run("cursor-tuple-fraction", planned_whole),
    run("slot-peeked", peeked),
];

/// The part of its time that a COMMIT that computes something is running.
const COMPUTES: f64 = 0.5;

fn declares(statement: &StatementTime) -> bool {
    let lower = statement.text.to_ascii_lowercase();
    lower.contains("declare ") && lower.contains("cursor with hold")
}

/// What computes the rows, and what throws them away.
fn ends(statement: &StatementTime) -> bool {
    let verb = statement.text.split([' ', ';']).next().unwrap_or_default();
    ["commit", "end", "close"]
        .iter()
        .any(|end| verb.eq_ignore_ascii_case(end))
}

/// What is computed at the end of a transaction for a cursor that is to outlive it.
fn holdable(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let seen = run.observed?.statements.as_ref()?;
    let declared = seen.statements.iter().find(|s| declares(s))?;
    let hits = weighty(&run).filter(|s| (ends(s) || declares(s)) && s.running >= COMPUTES);
    let hits = hits.map(|statement| Hit {
        statement,
        part: Part::of_cpu(statement, 1.0),
        left: None,
        saw: "A cursor is declared WITH HOLD: when its transaction ends, all rows of its query are computed and stored, however few are \
              fetched."
            .to_owned(),
        confidence: Confidence::High,
        evidence: vec![format!("the cursor: {}", declared.named())],
        steps: vec![
            (
                StepKind::Advice,
                "declare the cursor without HOLD and fetch within the transaction (JDBC: ResultSet.CLOSE_CURSORS_AT_COMMIT)".to_owned(),
            ),
            (
                StepKind::Advice,
                "or ask for a page at a time: … WHERE (key) > (the last one) ORDER BY key LIMIT n".to_owned(),
            ),
        ],
    });
    joined(&run, hits.collect())
}

const FRACTION: &str = "cursor_tuple_fraction";
/// What the server comes with (PostgreSQL manual, "Query Planning").
const COMES_WITH: f64 = 0.1;

/// FETCHes of one cursor from which on it is taken to be read to its end.
const OFTEN: f64 = 3.0;

/// Cursors that are planned as if more of their rows were fetched than the server takes by default.
fn planned_whole(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let value = run.setting(FRACTION)?;
    let fraction = value.parse::<f64>().ok()?;
    if fraction <= COMES_WITH {
        return None;
    }
    let fetches = |s: &&StatementTime| super::commits::verb(&s.text) == "FETCH";
    let seen = run.observed?.statements.as_ref()?;
    let declared = seen.statements.iter().find(|s| {
        let lower = s.text.to_ascii_lowercase();
        lower.starts_with("declare ") && lower.contains(" cursor ")
    });
    // What is fetched from often is read to the end.
    let calls = |s: &StatementTime| Some(s.counters.as_ref()?.calls);
    let opened = declared.and_then(calls);
    let read_on = |s: &StatementTime| {
        let fetched = calls(s).zip(opened);
        fetched.is_some_and(|(fetched, opened)| fetched > OFTEN * opened)
    };
    let hits = weighty(&run).filter(fetches).filter(|s| !read_on(s));
    let hits = hits.map(|statement| Hit {
        statement,
        part: Part::of_all(1.0),
        left: None,
        saw: format!(
            "Cursors are planned for {:.0} % of their rows ({FRACTION}): where only the first are fetched, the whole is sorted or joined before \
             the first one comes.",
            100.0 * fraction
        ),
        confidence: match opened {
            Some(_) => Confidence::Medium,
            None => Confidence::Low,
        },
        evidence: declared
            .map(|declared| format!("the cursor: {}", declared.named()))
            .into_iter()
            .chain([format!("{FRACTION} = {value}, 0.1 by default")])
            .collect(),
        steps: vec![
            (
                StepKind::Sql,
                format!("ALTER SYSTEM SET {FRACTION} = 0.1; SELECT pg_reload_conf();"),
            ),
            (
                StepKind::Advice,
                format!(
                    "set it only for what reads its cursors to the end (SET LOCAL {FRACTION} = 1, ALTER ROLE … SET); or say LIMIT in statements of which \
                     only the first rows are wanted"
                ),
            ),
        ],
    });
    joined(&run, hits.collect())
}

/// A logical slot that is read again from where it stood.
fn peeked(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let growth = run.observed?.growth.as_ref();
    let hits = weighty(&run).filter(|s| s.text.contains("pg_logical_slot_peek_"));
    let hits = hits.map(|statement| {
        let held = growth.into_iter().flat_map(|growth| &growth.horizon);
        let slots = held.filter(|held| held.kind == "replication slot");
        Hit {
            statement,
            part: Part::of_all(1.0),
            left: None,
            saw: "A logical slot is read by pg_logical_slot_peek_…, which confirms nothing: each call decodes all of the log since the slot's \
                  last confirmed position."
                .to_owned(),
            confidence: Confidence::Medium,
            evidence: slots
                .map(|slot| format!("slot {}, {:.0} transactions behind", slot.name, slot.transactions))
                .collect(),
            steps: vec![(
                StepKind::Advice,
                "pg_logical_slot_get_changes in the place of peek; or, after the changes have been handed on, SELECT \
                 pg_replication_slot_advance(slot_name, lsn) with the position of the last one (from 11 on)"
                    .to_owned(),
            )],
        }
    });
    joined(&run, hits.collect())
}

#[cfg(test)]
mod tests {
    use super::super::database::tests::statement;
    use super::super::tests::made::found_with_settings;
    use crate::finding::{Confidence, Finding};
    use pgassay_evidence::observed::statements::Counters;

    /// Returns the finding about a cursor that was opened a hundred times; its DECLARE was seen or not.
    fn fetched(fraction: &'static str, fetches: f64, declared: bool) -> Option<Finding> {
        let settings = vec![("cursor_tuple_fraction", fraction, "configuration file")];
        let counted = |text: &str, calls: f64| {
            let mut of = statement(text, None);
            of.statements[0].counters = Some(Counters {
                calls,
                ..Counters::default()
            });
            of
        };
        let found = found_with_settings(settings.leak(), |observed| {
            let mut all = counted("FETCH $1 FROM page", fetches);
            let text = "DECLARE page CURSOR FOR SELECT * FROM orders ORDER BY total";
            let declare = counted(text, 100.0).statements.remove(0);
            let declare = super::StatementTime {
                share: 0.003,
                sightings: 1,
                ..declare
            };
            all.statements.extend(declared.then_some(declare));
            observed.statements = Some(all);
        });
        found.into_iter().find(|f| f.id == "cursor-tuple-fraction")
    }

    #[test]
    fn a_cursor_planned_for_all_rows_and_read_for_a_page_is_found() {
        let finding = fetched("1", 100.0, true).unwrap();
        assert!(
            finding
                .saw
                .starts_with("Cursors are planned for 100 % of their rows"),
            "{}",
            finding.saw
        );
        assert_eq!(finding.confidence, Confidence::Medium);
        assert!(
            finding
                .evidence
                .iter()
                .any(|e| e.contains("the cursor: DECLARE page")),
            "{finding:#?}"
        );
        assert_eq!(
            finding.remedy[0].text,
            "ALTER SYSTEM SET cursor_tuple_fraction = 0.1; SELECT pg_reload_conf();"
        );
        // How often it was opened is unknown.
        let alone = fetched("1", 100.0, false).unwrap();
        assert_eq!(alone.confidence, Confidence::Low);
        assert_eq!(fetched("0.1", 100.0, true), None);
        // Ten FETCHes for each DECLARE read it to the end.
        assert_eq!(fetched("1", 1000.0, true), None);
    }
}

//! What the source of a trigger does that is dear, and what to write in its place, as a table.

use pgassay_model::observed::plans::TriggerFacts;

use crate::finding::StepKind;

/// What a trigger does, and what instead.
pub(super) struct Body {
    pub does: String,
    pub steps: Vec<(StepKind, String)>,
    /// Whether it matters for a trigger that is called once a statement, too.
    pub for_statements: bool,
}

const BODIES: &[fn(&TriggerFacts, &str) -> Option<Body>] =
    &[refreshes, locks, walks, recounts, counts, executes];

/// What is dear of a trigger on a table.
pub(super) fn body(trigger: &TriggerFacts, table: &str) -> Option<Body> {
    BODIES.iter().find_map(|body| body(trigger, table))
}

fn advice(text: String) -> (StepKind, String) {
    (StepKind::Advice, text)
}

fn refreshes(trigger: &TriggerFacts, table: &str) -> Option<Body> {
    let view = trigger.body.refreshes.first()?;
    Some(Body {
        does: format!(
            "it refreshes the materialized view {view}, all of it, for each statement that writes"
        ),
        steps: vec![
            advice(format!(
                "have a job send REFRESH MATERIALIZED VIEW CONCURRENTLY {view} every few minutes (it needs a unique index); where so old a view will do: DROP TRIGGER {} ON {table}",
                trigger.name
            )),
            advice(format!(
                "or keep {view} as a table, and have the trigger add the difference of the rows written: INSERT … ON CONFLICT (key) DO UPDATE SET n = t.n + excluded.n"
            )),
        ],
        for_statements: true,
    })
}

fn locks(trigger: &TriggerFacts, table: &str) -> Option<Body> {
    let locked = trigger.body.locks.first()?;
    Some(Body {
        does: format!(
            "it locks the table {locked} until the transaction ends, so that only one session writes at a time"
        ),
        steps: vec![advice(format!(
            "let a constraint check it, which locks nothing: UNIQUE; for ranges that must not overlap EXCLUDE USING gist (key WITH =, range \
             WITH &&), with the extension btree_gist; or pg_advisory_xact_lock(key) for the key concerned in the place of LOCK TABLE. Once that is there: DROP TRIGGER {} ON {table}",
            trigger.name
        ))],
        for_statements: true,
    })
}

fn walks(trigger: &TriggerFacts, table: &str) -> Option<Body> {
    trigger.body.walks_columns.then(|| Body {
        does: "it goes through the columns of the table by the catalogue, for each row".to_owned(),
        steps: vec![
            advice(format!(
                "compare the rows as documents, in one statement, in {}: SELECT n.key, o.value, n.value FROM jsonb_each_text(to_jsonb(OLD)) o JOIN jsonb_each_text(to_jsonb(NEW)) n \
                 USING (key) WHERE o.value IS DISTINCT FROM n.value; or keep to_jsonb(OLD) as a whole",
                trigger.function
            )),
            advice(format!(
                "CREATE TRIGGER … ON {table} … WHEN (OLD.* IS DISTINCT FROM NEW.*), so that it is not called for rows that stay as they are"
            )),
        ],
        for_statements: false,
    })
}

/// A row that another trigger or statement updates by sums of others.
fn recounts(trigger: &TriggerFacts, _: &str) -> Option<Body> {
    let aggregate = trigger
        .body
        .aggregates
        .first()
        .filter(|_| trigger.for_each_row)?;
    let updates = trigger
        .body
        .writes
        .iter()
        .find_map(|write| write.strip_prefix("update "));
    Some(match updates {
        Some(updated) => Body {
            does: format!(
                "it computes {aggregate}() over the rows of the group again, for each row, and writes it to {updated}"
            ),
            steps: vec![
                advice(format!(
                    "add the difference in {}: UPDATE {updated} SET total = total + NEW.value (− OLD.value), in the place of a {aggregate}() over all rows of the group",
                    trigger.function
                )),
                advice(format!(
                    "or once a statement: FOR EACH STATEMENT with REFERENCING NEW TABLE AS added, and UPDATE {updated} … FROM (SELECT key, {aggregate}(value) FROM added GROUP BY key)"
                )),
            ],
            for_statements: false,
        },
        None => Body {
            does: format!("it computes {aggregate}() by a query over other rows, for each row"),
            steps: vec![advice(format!(
                "keep what {}() gives: a column or a row with the current value, to which {} adds the difference of the row; or check once a statement: FOR EACH STATEMENT with \
                 REFERENCING NEW TABLE, over the keys that it has",
                aggregate, trigger.function
            ))],
            for_statements: false,
        },
    })
}

/// A counter that all rows add to.
fn counts(trigger: &TriggerFacts, table: &str) -> Option<Body> {
    let updated = trigger
        .body
        .writes
        .iter()
        .find_map(|write| write.strip_prefix("update "))?;
    let own = table.rsplit('.').next()?.trim_matches('"');
    (updated != own && trigger.for_each_row).then(|| Body {
        does: format!("it updates {updated} for each row"),
        steps: vec![advice(format!(
            "once a statement: FOR EACH STATEMENT with REFERENCING NEW TABLE AS added, and one UPDATE {updated} … FROM (SELECT key, count(*) FROM added GROUP BY key); where all write \
             the same row of {updated}, INSERT a row with the difference in its place, which a job adds up"
        ))],
        for_statements: false,
    })
}

fn executes(trigger: &TriggerFacts, _: &str) -> Option<Body> {
    trigger.body.executes.then(|| Body {
        does: "it puts a statement together and executes it (EXECUTE), which is parsed and planned each time".to_owned(),
        steps: vec![advice(format!(
            "write the statement in {} as it is, without EXECUTE: its plan is then kept for the session; where the table differs, a trigger function for each table",
            trigger.function
        ))],
        for_statements: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgassay_model::observed::plans::LoopFacts;

    #[test]
    fn each_body_has_a_remedy_of_its_own() {
        let says = |facts: LoopFacts, what: &str| {
            let trigger = TriggerFacts {
                name: "tg".into(),
                function: "f".into(),
                language: "plpgsql".into(),
                for_each_row: true,
                body: facts,
                ..TriggerFacts::default()
            };
            let steps = body(&trigger, "public.t")
                .map(|body| body.steps)
                .unwrap_or_default();
            assert!(
                steps.iter().any(|(_, text)| text.contains(what)),
                "{steps:?}"
            );
        };
        let words = |word: &str| vec![word.to_owned()];
        says(
            LoopFacts {
                refreshes: words("v"),
                ..LoopFacts::default()
            },
            "a job send REFRESH MATERIALIZED VIEW CONCURRENTLY v",
        );
        says(
            LoopFacts {
                locks: words("t"),
                ..LoopFacts::default()
            },
            "EXCLUDE USING gist",
        );
        says(
            LoopFacts {
                walks_columns: true,
                executes: true,
                ..LoopFacts::default()
            },
            "jsonb_each_text",
        );
        let sums = LoopFacts {
            aggregates: words("sum"),
            writes: words("update cart"),
            ..LoopFacts::default()
        };
        says(sums, "UPDATE cart SET total = total + NEW.value");
        says(
            LoopFacts {
                writes: words("update n"),
                ..LoopFacts::default()
            },
            "REFERENCING NEW TABLE",
        );
        says(
            LoopFacts {
                executes: true,
                ..LoopFacts::default()
            },
            "without EXECUTE",
        );
        let nothing = TriggerFacts {
            for_each_row: true,
            ..TriggerFacts::default()
        };
        assert!(body(&nothing, "public.t").is_none());
    }
}

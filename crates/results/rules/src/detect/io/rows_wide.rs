//! Tables whose rows take far more room than what is read of them.

use crate::detect::common::conditions::words;
use crate::detect::common::hits::{Hit, Left, Part, joined, of_pages, with_plans};
use crate::detect::{Detector, run};
use crate::evidence::Evidence;
use crate::finding::{Confidence, Observation, StepKind};
use pgassay_model::observed::plans::{Node, NodeType, Plan, RelationFacts};
use pgassay_text::quote::quote_ident;

pub const DETECTORS: &[Detector] = &[run("rows-wide", wide)];

/// The part of a plan below which a scan does not matter.
const MINOR: f64 = 0.3;
/// Pages below which a table is read in no time, whatever its rows take.
const FEW_PAGES: f64 = 500.0;
const PAGE: f64 = 8192.0;
/// Bytes of a header and a pointer for each row.
const OF_A_ROW: f64 = 28.0;
/// Bytes from which on the server moves values out of the row, unless it was told otherwise (TOAST_TUPLE_TARGET).
const TOASTED: f64 = 2032.0;

/// A table that is gone through for the most part of a statement's time.
fn scanned(plan: &Plan) -> Option<(&Node, &str, &RelationFacts)> {
    let all = plan.root.all().into_iter();
    let scans = all.filter_map(|(_, node)| {
        let kinds = [NodeType::SeqScan, NodeType::BitmapHeapScan];
        let table = node
            .relation
            .as_deref()
            .filter(|_| kinds.contains(&node.kind))?;
        Some((node, table, plan.relations.get(table)?))
    });
    scans.max_by(|a, b| plan.part(a.0).total_cmp(&plan.part(b.0)))
}

/// Why rows take so much room: what is said, bytes that a row would need, and what mends it.
struct Why {
    why: String,
    needed: f64,
    steps: Vec<(StepKind, String)>,
}

fn wide(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let hits = with_plans(&run, |statement, plan| {
        let (node, table, facts) = scanned(plan)?;
        let (rows, pages) = (facts.rows?.max(1.0), facts.pages?);
        let part = plan.part(node);
        if pages < FEW_PAGES || part < MINOR {
            return None;
        }
        let each = pages * PAGE / rows;
        let named = |column: &str| {
            let text = statement.text.to_ascii_lowercase();
            text.contains('*') && !text.contains("(*)") || words(&text).any(|word| word == column)
        };
        let why = filled(table, facts, each)
            .or_else(|| padded(table, facts, each))
            .or_else(|| kept_within(table, facts, each, &named))?;
        Some(Hit {
            statement,
            part: Part::of_work(evidence, statement, part),
            left: Left::new(
                1.0 - of_pages(evidence, statement) * (1.0 - (why.needed / each).min(1.0)),
                format!(
                    "a row takes {each:.0} bytes of the table's pages, and would need {:.0}",
                    why.needed
                ),
            ),
            saw: format!(
                "{table} has {pages:.0} pages for {rows:.0} rows, which are gone through: {}.",
                why.why
            ),
            confidence: Confidence::High,
            evidence: Vec::new(),
            steps: why.steps,
        })
    });
    joined(&run, hits)
}

/// Pages that are filled for a small part only.
fn filled(table: &str, facts: &RelationFacts, each: f64) -> Option<Why> {
    let filled: f64 = facts.options.get("fillfactor")?.parse().ok()?;
    (filled <= 50.0).then(|| Why {
        why: format!("its fillfactor is {filled:.0}, so that the rest of each page stays empty"),
        needed: each * filled / 90.0,
        steps: vec![(
            StepKind::Sql,
            format!(
                "ALTER TABLE {table} SET (fillfactor = 90); VACUUM (FULL, ANALYZE) {table};   -- locks it until it is rewritten; 90 leaves room for updates in the same page"
            ),
        )],
    })
}

/// Columns of a fixed length that are filled with blanks.
fn padded(table: &str, facts: &RelationFacts, each: f64) -> Option<Why> {
    let columns = facts.wide.iter();
    let padded = columns.filter(|(_, wide)| wide.kind.starts_with("character("));
    let padded: Vec<(&String, f64)> = padded.map(|(name, wide)| (name, wide.bytes)).collect();
    let bytes: f64 = padded.iter().map(|(_, bytes)| bytes).sum();
    if bytes < 0.5 * each {
        return None;
    }
    let named: Vec<String> = padded.iter().map(|(name, _)| quote_ident(name)).collect();
    let alter: Vec<String> = named
        .iter()
        .map(|name| format!("ALTER COLUMN {name} TYPE text"))
        .collect();
    Some(Why {
        why: format!(
            "{} are of type character(n), which is filled up with blanks to its length in each row",
            named.join(", ")
        ),
        needed: each - bytes + 20.0 * padded.len() as f64,
        steps: vec![
            (
                StepKind::Sql,
                format!(
                    "ALTER TABLE {table} {};   -- rewrites the table without the blanks; varchar(n) where the length matters",
                    alter.join(", ")
                ),
            ),
            (StepKind::Sql, format!("ANALYZE {table};")),
        ],
    })
}

/// Values that stay within the row, though the statement does not ask for them.
fn kept_within(
    table: &str,
    facts: &RelationFacts,
    each: f64,
    named: &dyn Fn(&str) -> bool,
) -> Option<Why> {
    let target = facts.options.get("toast_tuple_target");
    let raised = target
        .and_then(|target| target.parse::<f64>().ok())
        .is_some_and(|target| target > TOASTED);
    let kept = |storage: &str| raised || matches!(storage, "plain" | "main");
    let columns = facts.wide.iter();
    let held: Vec<_> = columns
        .filter(|(name, wide)| kept(&wide.storage) && wide.bytes >= 0.3 * each && !named(name))
        .collect();
    if each < 0.5 * TOASTED || held.is_empty() {
        return None;
    }
    let names: Vec<String> = held.iter().map(|(name, _)| quote_ident(name)).collect();
    let bytes: f64 = held.iter().map(|(_, wide)| wide.bytes).sum();
    let stored: Vec<String> = held
        .iter()
        .filter(|(_, wide)| wide.storage != "extended")
        .map(|(name, wide)| {
            format!(
                "{} STORAGE {}",
                quote_ident(name),
                wide.storage.to_uppercase()
            )
        })
        .collect();
    let mut said = stored;
    said.extend(target.map(|target| format!("toast_tuple_target = {target}")));
    let reset = match raised {
        true => format!("ALTER TABLE {table} RESET (toast_tuple_target); "),
        false => String::new(),
    };
    let storage: Vec<String> = names
        .iter()
        .map(|name| format!("ALTER COLUMN {name} SET STORAGE EXTERNAL"))
        .collect();
    Some(Why {
        why: format!(
            "{} of {bytes:.0} bytes on average stays within the row ({}), and the statement does not ask for it",
            names.join(", "),
            said.join(", ")
        ),
        needed: (each - bytes + 20.0).max(OF_A_ROW),
        steps: vec![(
            StepKind::Sql,
            format!(
                "{reset}ALTER TABLE {table} {}; VACUUM (FULL, ANALYZE) {table};   -- locks and rewrites it; EXTENDED where it is compressible: what makes a row longer than 2 kB \
                 then lies in the TOAST table, which is read for those that are asked for",
                storage.join(", ")
            ),
        )],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Finding;
    use crate::detect::tests::made::found_with;
    use crate::detect::tests::made::statement;
    use pgassay_model::observed::plans::{Clause, Execution, WideColumn, Work};

    fn found(id: &str, text: &str, facts: RelationFacts, rows: f64) -> Option<Finding> {
        let root = Node {
            kind: "Seq Scan".into(),
            relation: Some("public.t".into()),
            conditions: [(Clause::Filter, "(t.a = $1)".into())].into(),
            rows,
            actual_rows: Some(500.0),
            work: Some(Work {
                loops: 1.0,
                ms: 9.0,
                ..Work::default()
            }),
            ..Node::default()
        };
        let plan = Plan {
            root,
            executed: Some(Execution {
                ms: 10.0,
                ..Execution::default()
            }),
            relations: [("public.t".to_owned(), facts)].into(),
            ..Plan::default()
        };
        let found = found_with(vec![], |observed| {
            observed.statements = Some(statement(text, Some(plan)));
        });
        found.into_iter().find(|f| f.id == id)
    }

    fn facts(rows: f64, pages: f64) -> RelationFacts {
        RelationFacts {
            rows: Some(rows),
            pages: Some(pages),
            ..RelationFacts::default()
        }
    }

    fn with_column(name: &str, kind: &str, storage: &str, bytes: f64) -> RelationFacts {
        let wide = WideColumn {
            bytes,
            kind: kind.into(),
            storage: storage.into(),
        };
        RelationFacts {
            wide: [(name.to_owned(), wide)].into(),
            ..facts(10_000.0, 10_000.0)
        }
    }

    #[test]
    fn rows_that_take_too_much_room_are_told_why() {
        let mut of = facts(60_000.0, 3334.0);
        assert!(found("rows-wide", "SELECT n FROM t", of.clone(), 500.0).is_none());
        of.options.insert("fillfactor".into(), "10".into());
        let seen = found("rows-wide", "SELECT n FROM t", of, 500.0).unwrap();
        assert!(seen.remedy[0].text.contains("fillfactor = 90"), "{seen:#?}");

        let padded = with_column("town", "character(6000)", "extended", 6000.0);
        let seen = found("rows-wide", "SELECT n FROM t", padded, 500.0).unwrap();
        assert!(
            seen.remedy[0].text.contains("ALTER COLUMN town TYPE text"),
            "{seen:#?}"
        );

        let plain = |storage| with_column("body", "text", storage, 6000.0);
        let seen = found("rows-wide", "SELECT n FROM t", plain("plain"), 500.0).unwrap();
        assert!(
            seen.remedy[0]
                .text
                .contains("ALTER COLUMN body SET STORAGE EXTERNAL"),
            "{seen:#?}"
        );
        // What is asked for must be read; and what is not kept within the row is elsewhere.
        assert!(found("rows-wide", "SELECT body FROM t", plain("plain"), 500.0).is_none());
        assert!(found("rows-wide", "SELECT n FROM t", plain("extended"), 500.0).is_none());
    }
}

//! Indexes that hold all that a statement asks for, and do not do alone, since the table's visibility map is empty.

use crate::detect::common::conditions::{index_named, words};
use crate::detect::common::shapes::{At, Shown, advice, shape};
use crate::detect::{Detector, run};
use crate::finding::{Confidence, StepKind};
use pgassay_model::observed::plans::{IndexFacts, NodeType};

pub const DETECTORS: &[Detector] = &[run("visibility-map", |e| shape(e, unmapped))];

/// Rows and blocks below which a look at the table for each row is no burden.
const MANY: f64 = 100.0;
/// The part of its pages that a table's map must have for an index to do alone.
const MAPPED: f64 = 0.5;
/// Rows that change in the measured time, as a part of all, from which on no vacuum keeps up a map.
const CHANGES: f64 = 0.05;
const THRESHOLD: &str = "autovacuum_vacuum_insert_threshold";

/// Whether an index has all columns of its table that a statement names.
fn holds_all(index: &IndexFacts, columns: &[String], text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let whole_row = lower.contains("select *") || lower.contains(".*") || lower.contains(", *");
    let mut asked = columns
        .iter()
        .filter(|column| words(&lower).any(|word| word == column.as_str()));
    // Others don't give their columns back, or not with every operator class.
    matches!(index.method.as_str(), "btree" | "")
        && index.valid
        && !index.partial
        && !whole_row
        && asked.all(|column| index.columns.contains(column))
}

/// A scan that looks at its table for each row, though an index has all that is asked for.
fn unmapped(at: &At) -> Option<Shown> {
    let node = at.node;
    let scans = [
        NodeType::BitmapHeapScan,
        NodeType::IndexScan,
        NodeType::IndexOnlyScan,
    ];
    let (table, facts) = (node.relation.as_ref()?, at.facts(node)?);
    let work = node.work.filter(|_| scans.contains(&node.kind))?;
    let below = node.all().into_iter().find_map(|(_, n)| n.index.as_deref());
    let name = node.index.as_deref().or(below)?;
    let index = index_named(facts, name)?;
    let grown = at.run.table(table)?;
    let (pages, mapped) = (grown.stands("relpages")?, grown.stands("relallvisible")?);
    let changed = grown.by("n_tup_upd") + grown.by("n_tup_del");
    let rows = facts.rows?;
    let given = node.actual_rows? * work.loops;
    if pages < MANY || mapped >= MAPPED * pages || changed > CHANGES * rows {
        return None;
    }
    if work.blocks < MANY || given < MANY || !holds_all(index, &facts.columns, &at.statement.text) {
        return None;
    }
    let all = at.plan.root.all();
    let total: f64 = all.iter().filter_map(|(_, n)| Some(n.work?.ms)).sum();
    let off = at.run.setting(THRESHOLD) == Some("-1");
    let mut steps = Vec::new();
    if off {
        let text = format!("ALTER SYSTEM SET {THRESHOLD} = DEFAULT; SELECT pg_reload_conf();");
        steps.push((StepKind::Sql, text));
    }
    steps.push((
        StepKind::Sql,
        format!("VACUUM (ANALYZE) {table};   -- writes the map; the index then does alone"),
    ));
    steps.push(advice(
        "see that autovacuum comes to tables that are only inserted into: from 13 on by autovacuum_vacuum_insert_threshold and …_scale_factor, for the \
         server or the table; before, VACUUM after each load",
    ));
    Some(Shown {
        cost: work.ms / total.max(f64::MIN_POSITIVE) * at.plan.root.cost,
        left: None,
        saw: format!(
            "{name} has all that is asked of {table}, but {mapped:.0} of {pages:.0} pages are known to be visible to all: the table is looked at for \
             each of {given:.0} rows, {:.0} blocks.",
            work.blocks
        ),
        steps,
        seen: off
            .then(|| format!("{THRESHOLD} = -1: inserts alone bring no vacuum"))
            .into_iter()
            .collect(),
        confidence: Confidence::High,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Finding;
    use crate::detect::tests::made::statement;
    use crate::detect::tests::made::{found_with_settings, one};
    use pgassay_model::observed::growth::Grown;
    use pgassay_model::observed::plans::{Node, Plan, RelationFacts, Work};

    /// Plan of PostgreSQL 15 for a covering index on an insert-only table with so many all-visible pages of 1911.
    fn read(visible: f64) -> Vec<Finding> {
        let node = |kind: &str, (rows, cost): (f64, f64), (ms, blocks): (f64, f64)| Node {
            kind: kind.into(),
            rows,
            actual_rows: Some(rows),
            work: Some(Work {
                loops: 1.0,
                ms,
                blocks,
                ..Work::default()
            }),
            cost,
            ..Node::default()
        };
        let bitmap = Node {
            index: Some("hit_site".into()),
            ..node("Bitmap Index Scan", (6000.0, 70.7), (0.302, 8.0))
        };
        let scan = Node {
            relation: Some("public.hit".into()),
            nodes: vec![bitmap],
            ..node("Bitmap Heap Scan", (6000.0, 2060.36), (2.06, 1911.0))
        };
        let root = Node {
            nodes: vec![scan],
            ..node("Aggregate", (1.0, 2091.22), (0.349, 0.0))
        };
        let facts = RelationFacts {
            rows: Some(300_000.0),
            columns: ["id", "site", "ms", "agent"].map(str::to_owned).to_vec(),
            indexes: vec![IndexFacts {
                name: "public.hit_site".into(),
                method: "btree".into(),
                columns: vec!["site".into(), "ms".into()],
                valid: true,
                ..IndexFacts::default()
            }],
            ..RelationFacts::default()
        };
        let plan = Plan {
            root,
            relations: [("public.hit".to_owned(), facts)].into(),
            ..Plan::default()
        };
        found_with_settings(&[(THRESHOLD, "-1", "configuration file")], |observed| {
            let text = "SELECT count(*), sum(ms) FROM hit WHERE site = $1";
            observed.statements = Some(statement(text, Some(plan)));
            observed.growth.get_or_insert_default().tables = vec![Grown {
                name: "public.hit".into(),
                state: [("relpages", 1911.0), ("relallvisible", visible)]
                    .map(|(name, value)| (name.to_owned(), value))
                    .into(),
                ..Grown::default()
            }];
        })
    }

    #[test]
    fn a_covering_index_without_a_visibility_map_is_found() {
        let found = read(0.0);
        let finding = one(&found, "visibility-map");
        assert!(
            finding.saw.starts_with(
                "hit_site has all that is asked of public.hit, but 0 of 1911 pages are known to be visible to all"
            ),
            "{}",
            finding.saw
        );
        assert_eq!(finding.confidence, Confidence::High);
        let steps: Vec<&str> = finding.remedy.iter().map(|s| s.text.as_str()).collect();
        assert!(
            steps[0].starts_with("ALTER SYSTEM SET autovacuum_vacuum_insert_threshold = DEFAULT;")
                && steps[1].starts_with("VACUUM (ANALYZE) public.hit;"),
            "{steps:?}"
        );
        assert!(read(1911.0).iter().all(|f| f.id != "visibility-map"));
    }

    #[test]
    fn an_index_holds_what_is_asked_for_or_not() {
        let index = IndexFacts {
            columns: vec!["site".into(), "ms".into()],
            valid: true,
            ..IndexFacts::default()
        };
        let columns = ["id", "site", "ms", "agent"].map(str::to_owned);
        let holds = |text: &str| holds_all(&index, &columns, text);
        assert!(holds("SELECT count(*), sum(ms) FROM hit WHERE site = $1"));
        assert!(!holds(
            "SELECT count(*) FROM hit WHERE site = $1 AND agent LIKE $2"
        ));
        assert!(!holds("SELECT * FROM hit WHERE site = $1"));
        assert!(!holds("SELECT h.* FROM hit h WHERE site = $1"));
    }
}

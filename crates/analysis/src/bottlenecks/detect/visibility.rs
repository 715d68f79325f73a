//! Indexes that hold all that a statement asks for, and do not do alone, since the table's visibility map is empty.

use pgassay_model::observed::plans::IndexFacts;

use super::conditions::words;
use super::shapes::{At, Shown, advice};
use crate::bottlenecks::finding::{Confidence, StepKind};

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
pub(super) fn unmapped(at: &At) -> Option<Shown> {
    let node = at.node;
    let scans = ["Bitmap Heap Scan", "Index Scan", "Index Only Scan"];
    let (table, facts) = (node.relation.as_ref()?, at.facts(node)?);
    let work = node.work.filter(|_| scans.contains(&node.kind.as_str()))?;
    let below = node.all().into_iter().find_map(|(_, n)| n.index.as_deref());
    let name = node.index.as_deref().or(below)?;
    let of = |index: &&IndexFacts| {
        index.name.rsplit('.').next().map(|n| n.trim_matches('"')) == Some(name)
    };
    let index = facts.indexes.iter().find(of)?;
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

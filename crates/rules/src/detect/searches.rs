//! Texts that are parsed again for each hit of a search.

use super::shapes::{At, Shown, advice};
use crate::finding::Confidence;

const PARSES: &str = "to_tsvector(";
/// What spares parsing a text again.
pub(super) const STORED: &str = "keep the lexemes in a column: ALTER TABLE … ADD COLUMN words tsvector GENERATED ALWAYS AS (to_tsvector('configuration', \
                                 column)) STORED (from 12 on; a trigger before), with the GIN index on it, and search and rank by that column: an index on \
                                 the expression keeps no lexemes for ts_rank";

/// A sort by what to_tsvector makes of a column: `ORDER BY ts_rank(to_tsvector('english', body), query)`.
pub(super) fn ranked(at: &At) -> Option<Shown> {
    let node = at.node;
    let key = node.sort_key.iter().find(|key| key.contains(PARSES))?;
    let own = |n: &pgassay_model::observed::plans::Node| n.work.map_or(0.0, |work| work.ms);
    let all = at.plan.root.all();
    let total: f64 = all.iter().map(|(_, n)| own(n)).sum();
    // The node below computes what it hands to the sort.
    let below = node.nodes.first()?;
    let ms = own(node) + own(below);
    let hits = below.actual_rows?;
    Some(Shown {
        cost: ms / total.max(f64::MIN_POSITIVE) * at.plan.root.cost,
        left: None,
        saw: format!(
            "to_tsvector parses the text of each of {hits:.0} hits again, to order them by {key}: {ms:.1} ms of {total:.1} ms."
        ),
        steps: vec![
            advice(STORED),
            advice(
                "or rank fewer hits: the newest, or those of an exact condition, before ts_rank",
            ),
        ],
        seen: Vec::new(),
        confidence: Confidence::High,
    })
}

#[cfg(test)]
mod tests {
    use pgassay_model::observed::plans::{Execution, Node, Plan, Work};

    use super::super::database::tests::statement;
    use super::super::tests::made::found_with;

    #[test]
    fn a_text_that_is_taken_apart_for_each_hit_is_told() {
        let told = |key: &str| {
            let node = |kind: &str, ms: f64, nodes: Vec<Node>| Node {
                kind: kind.into(),
                rows: 144.0,
                actual_rows: Some(144.0),
                work: Some(Work {
                    loops: 1.0,
                    ms,
                    ..Work::default()
                }),
                cost: 20.0,
                nodes,
                ..Node::default()
            };
            let mut sort = node("Sort", 0.1, vec![node("Nested Loop", 25.0, vec![])]);
            sort.sort_key = vec![key.to_owned()];
            let plan = Plan {
                root: node("Limit", 0.1, vec![sort]),
                executed: Some(Execution::default()),
                ..Plan::default()
            };
            let found = found_with(vec![], |observed| {
                observed.statements = Some(statement("SELECT id FROM paper", Some(plan)));
            });
            found.into_iter().any(|f| f.id == "text-search-per-hit")
        };
        assert!(told(
            "(ts_rank(to_tsvector($1::regconfig, paper.body), q.q)) DESC"
        ));
        assert!(!told("(ts_rank(paper.words, q.q)) DESC"));
    }
}

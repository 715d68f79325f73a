//! Rows that are paired with rows that they have nothing to do with: two children of one parent in one join, and
//! loops that read the same rows again for each row of a side of which one row was expected.

use pgassay_model::observed::plans::{Node, RelationFacts};
use pgassay_text::quote::quote_ident;

use super::conditions::{Compared, aliases, compared, conjuncts};
use super::counts;
use super::late::source;
use super::plans::FEW_ROWS;
use super::shapes::{At, Shown, advice};
use super::stale::Stale;
use crate::finding::{Confidence, StepKind};

/// Rows of a product from which on it is a burden.
const MANY: f64 = 0.1 * FEW_ROWS;
/// How often something is read again at least, where it was to be read once.
const AGAIN: f64 = 10.0;

fn bare(alias: &str) -> &str {
    alias.trim_matches('"')
}

/// What makes a deferrable unique constraint of a table one that proves something.
fn deferrable(at: &At, table: &str) -> Option<String> {
    let facts = at.plan.relations.get(table)?;
    let unique = || {
        facts
            .indexes
            .iter()
            .filter(|index| index.constraint && index.valid && !index.partial)
    };
    let index = unique().find(|index| index.deferrable)?;
    let columns: Vec<String> = index
        .columns
        .iter()
        .map(|column| quote_ident(column))
        .collect();
    let name = index.name.rsplit('.').next()?;
    Some(format!(
        "ALTER TABLE {table} DROP CONSTRAINT {name}, ADD UNIQUE ({});",
        columns.join(", ")
    ))
}

/// Outer joins that are carried out though nothing of them is used.
pub(super) fn unneeded(at: &At) -> Option<Shown> {
    if at.parent.is_some() {
        return None;
    }
    let all = at.node.all();
    let joins: Vec<&Node> = all.iter().map(|(_, n)| *n).filter(|n| n.unused).collect();
    let sides = || joins.iter().filter_map(|join| Some((join, join.sides()?)));
    // What the joins cost beyond the sides that stay.
    let own = sides().map(|(join, (stays, _))| (at.cost(join) - at.cost(stays)).max(0.0));
    let cost = own.sum();
    let relation = |side: &'_ Node| {
        side.all()
            .into_iter()
            .find_map(|(_, node)| node.relation.clone())
    };
    let tables: Vec<String> = sides()
        .filter_map(|(_, (_, side))| relation(side))
        .collect();
    if tables.is_empty() {
        return None;
    }
    let (listed, first) = (tables.join(", "), &tables[0]);
    let late: Vec<String> = tables
        .iter()
        .filter_map(|table| deferrable(at, table))
        .collect();
    let steps = match late.as_slice() {
        [] => vec![advice(format!(
            "if the columns by which they are joined are unique, declare it: ALTER TABLE {first} ADD PRIMARY KEY (…), or UNIQUE, and so for the others; then the \
             planner knows that these joins add no rows, and leaves them out; or leave them out of the statement (ask the table, not the view)"
        ))],
        late => vec![
            (
                StepKind::Sql,
                format!(
                    "{}   -- not deferrable: a constraint that may be checked at the end of a transaction proves nothing to the planner, and the joins stay",
                    late.join(" ")
                ),
            ),
            advice("or leave them out of the statement (ask the table, not the view)"),
        ],
    };
    Some(Shown {
        cost,
        left: None,
        saw: format!(
            "Nothing of {listed} is used, and the outer joins with them are carried out all the same."
        ),
        steps,
        seen: Vec::new(),
        confidence: match at.plan.executed {
            Some(_) => Confidence::High,
            None => Confidence::Medium,
        },
    })
}

/// The relations of which an aggregate counts different values: `t` and `f` of `count(DISTINCT t.id), count(DISTINCT f.id)`.
fn counted(output: &str) -> Vec<&str> {
    let mut found: Vec<&str> = Vec::new();
    for (at, word) in output.match_indices("(DISTINCT ") {
        let behind = &output[at + word.len()..];
        let inner = &behind[..behind.find(')').unwrap_or(behind.len())];
        for alias in aliases(inner) {
            if !found.contains(&alias) {
                found.push(alias);
            }
        }
    }
    found
}

/// Whether one of two relations is found by its key from the other: then no row of the other comes twice.
fn by_key(at: &At, one: &Node, other: &Node) -> bool {
    let key = |node: &Node, text: &str| {
        let facts = at.facts(node);
        facts.is_some_and(|facts| {
            let of = compared(&format!("{text} = $1"), facts);
            let mut keys = facts.indexes.iter().filter(|i| i.valid && i.constraint);
            matches!(of, Some(Compared::Column(column))
                if keys.any(|i| i.columns.len() == 1 && i.columns[0] == column.trim_matches('"')))
        })
    };
    let names = |text: &str, node: &Node| {
        let alias = node.alias.as_deref().map(bare);
        aliases(text).iter().any(|a| Some(bare(a)) == alias)
    };
    let all = at.plan.root.all();
    let conditions = all.iter().flat_map(|(_, n)| n.conditions.iter());
    let mut parts = conditions
        .filter(|(name, _)| *name != "Output")
        .flat_map(|(_, text)| conjuncts(text));
    parts.any(|part| {
        let Some((left, right)) = part.split_once(" = ") else {
            return false;
        };
        [(left, right), (right, left)]
            .iter()
            .any(|(a, b)| names(a, one) && names(b, other) && (key(one, a) || key(other, b)))
    })
}

/// Two children of one parent, each paired with each, and counted apart again.
pub(super) fn children(at: &At) -> Option<Shown> {
    let node = at.node;
    if node.kind != "Aggregate" {
        return None;
    }
    let counted = counted(node.conditions.get("Output")?);
    let below = node.all();
    let scan = |alias: &&str| -> Option<&Node> {
        let mut scans = below.iter().map(|(_, n)| *n);
        scans.find(|n| n.relation.is_some() && n.alias.as_deref().map(bare) == Some(bare(alias)))
    };
    let scans_of: Vec<&Node> = counted.iter().filter_map(scan).collect();
    let pairs = scans_of.iter().enumerate().flat_map(|(i, one)| {
        let others = scans_of[i + 1..].iter();
        others.map(move |other| (*one, *other))
    });
    let (one, other) = { pairs }.find(|(one, other)| !by_key(at, one, other))?;
    let (a, b) = (one.relation.as_deref()?, other.relation.as_deref()?);
    let calls = counts::calls(at.statement);
    let a_call = |name: &str| {
        let table = at.run.table(name)?;
        Some((table.scans() / calls?, table.rows_read() / calls?))
    };
    let most = [(a, a_call(a)), (b, a_call(b))]
        .into_iter()
        .filter_map(|(name, seen)| Some((name, seen?)))
        .max_by(|x, y| x.1.1.total_cmp(&y.1.1));
    let expected = node.nodes.first().map_or(0.0, |input| input.rows);
    let read = most.map_or(0.0, |(_, (_, rows))| rows);
    if expected.max(read) < MANY {
        return None;
    }
    Some(Shown {
        cost: at.cost(node),
        left: None,
        saw: format!(
            "Rows of {a} and of {b}, which have only their parent in common, are joined with each other: each is paired with each, and \
             DISTINCT takes the copies away."
        ),
        steps: vec![advice(format!(
            "count each by itself: (SELECT count(*) FROM {a} WHERE …) and (SELECT count(*) FROM {b} WHERE …) in the select list, or each \
             grouped in a subquery before the join"
        ))],
        seen: most
            .map(|(name, (scans, rows))| {
                format!("{name} is scanned {scans:.0} times a call, {rows:.0} rows")
            })
            .into_iter()
            .collect(),
        confidence: match most {
            Some((_, (scans, _))) if scans >= AGAIN => Confidence::High,
            _ => Confidence::Medium,
        },
    })
}

/// Columns that a scan compares with values for equality.
fn equal(scan: &Node, facts: &RelationFacts) -> Vec<String> {
    let all = scan.all();
    let conditions = all.iter().flat_map(|(_, n)| n.conditions.iter());
    let mut found: Vec<String> = Vec::new();
    for (_, text) in conditions.filter(|(name, _)| *name != "Output" && *name != "Recheck Cond") {
        for part in conjuncts(text) {
            let Some(Compared::Column(column)) = compared(part, facts) else {
                continue;
            };
            let column = column.trim_matches('"').to_owned();
            if !found.contains(&column) {
                found.push(column);
            }
        }
    }
    found
}

/// How often the plans of all statements scan a table.
fn mentioned(at: &At, table: &str) -> usize {
    let seen = at.run.observed.and_then(|o| o.statements.as_ref());
    let plans = seen
        .into_iter()
        .flat_map(|s| &s.statements)
        .filter_map(|s| s.plan.as_ref());
    let nodes = plans.flat_map(|plan| plan.root.all());
    nodes
        .filter(|(_, n)| n.relation.as_deref() == Some(table))
        .count()
}

/// A loop over a side of which one row was expected, that reads the same rows of the other each time.
pub(super) fn looped(at: &At) -> Option<Shown> {
    let node = at.node;
    let (outer, inner) = (node.nodes.first()?, node.nodes.get(1)?);
    if node.kind != "Nested Loop" {
        return None;
    }
    let (driving, driven) = (outer.relation.as_deref()?, inner.relation.as_deref()?);
    let alias = outer.alias.as_deref().map(bare)?;
    let asks = inner.all().into_iter().any(|(_, n)| {
        let conditions = n.conditions.iter().filter(|(name, _)| *name != "Output");
        conditions
            .flat_map(|(_, text)| aliases(text))
            .any(|a| bare(a) == alias)
    });
    // Nobody else's scans are counted.
    if asks || driving == driven || mentioned(at, driving) != 1 || mentioned(at, driven) != 1 {
        return None;
    }
    let (of_outer, of_inner) = (at.run.table(driving)?, at.run.table(driven)?);
    let again = of_inner.scans() / of_outer.scans().max(1.0);
    let each = of_inner.rows_read() / of_inner.scans().max(1.0);
    let expected = outer.rows.max(1.0);
    if of_outer.scans() < 1.0 || again < AGAIN * expected || again * each < MANY {
        return None;
    }
    let statistics = |name: &str, scan: &Node| -> Option<(StepKind, String)> {
        let columns = equal(scan, at.facts(scan)?);
        (columns.len() >= 2).then(|| {
            let listed: Vec<String> = columns.iter().map(|c| quote_ident(c)).collect();
            let own = format!(
                "{}_together",
                name.rsplit('.').next().unwrap_or(name).trim_matches('"')
            );
            (
                StepKind::Sql,
                format!(
                    "CREATE STATISTICS {} (dependencies) ON {} FROM {name}; ANALYZE {name};",
                    quote_ident(&own),
                    listed.join(", ")
                ),
            )
        })
    };
    let mut steps: Vec<(StepKind, String)> =
        [statistics(driving, outer), statistics(driven, inner)]
            .into_iter()
            .flatten()
            .collect();
    let stale: Vec<Stale> = [(driving, outer), (driven, inner)]
        .into_iter()
        .filter_map(|(name, scan)| Stale::of(at, name, scan))
        .collect();
    if !stale.is_empty() {
        // The other side's rows decide, too.
        let mut first = vec![(StepKind::Sql, format!("ANALYZE {driving}, {driven};"))];
        let mut kept: Vec<_> = stale.iter().map(Stale::kept).collect();
        kept.dedup();
        first.extend(kept);
        first.append(&mut steps);
        steps = first;
    }
    if steps.is_empty() {
        steps.push((
            StepKind::Sql,
            format!(
                "ANALYZE {driving};   -- if that is not enough, with a higher statistics target"
            ),
        ));
    }
    let by = equal(outer, at.facts(outer)?);
    let (condition, independent) = match by.len() {
        0 => ("other conditions than equality".to_owned(), ""),
        1 => (by.join(", "), ""),
        _ => (
            by.join(", "),
            ", which the planner takes to be independent of each other",
        ),
    };
    Some(Shown {
        cost: at.cost(node),
        left: None,
        saw: format!(
            "A nested loop reads the same rows of {driven} about {again:.0} times: the planner expects {expected:.0} row{} of {driving}.",
            if expected > 1.5 { "s" } else { "" }
        ),
        steps,
        seen: [
            format!(
                "{:.0} scans of {driven} and {:.0} of {driving} in the measured time",
                of_inner.scans(),
                of_outer.scans()
            ),
            format!(
                "{each:.0} rows of {driven} a scan; {driving} is picked by {condition}{independent}"
            ),
        ]
        .into_iter()
        .chain(stale.iter().map(Stale::said))
        .collect(),
        confidence: Confidence::High,
    })
}

/// Rows that a join makes of each that is left, from which on it multiplies them.
const MULTIPLIED: f64 = 3.0;

/// Columns of one table, made distinct after joins with others that only multiply its rows.
pub(super) fn made_distinct(at: &At) -> Option<Shown> {
    let node = at.node;
    let output = node.conditions.get("Output");
    let aggregates =
        output.is_some_and(|output| output.contains("count(") || output.contains("sum("));
    let text = at.statement.text.to_ascii_uppercase();
    let is_distinct = match node.kind.as_str() {
        // DISTINCT ON shows columns of the joined table, too: those of its first row for each key.
        "Unique" => !text.contains("DISTINCT ON"),
        "Aggregate" => !node.group_key.is_empty() && !aggregates && text.contains("DISTINCT"),
        _ => false,
    };
    let below = source(node.nodes.first()?);
    let joins = matches!(
        below.kind.as_str(),
        "Hash Join" | "Merge Join" | "Nested Loop"
    );
    let keys = match node.group_key.as_slice() {
        [] => node.nodes.first()?.sort_key.as_slice(),
        keys => keys,
    };
    if !is_distinct || !joins || keys.is_empty() {
        return None;
    }
    let (entering, leaving) = (below.actual_rows?, node.actual_rows?);
    if entering < 0.1 * MANY || entering < MULTIPLIED * leaving.max(1.0) {
        return None;
    }
    let own = aliases(keys.first()?)
        .first()
        .map(|alias| bare(alias))?
        .to_owned();
    let all_own = keys
        .iter()
        .chain(output)
        .all(|shown| aliases(shown).iter().all(|alias| bare(alias) == own));
    let others: Vec<&str> = below
        .all()
        .into_iter()
        .map(|(_, n)| n)
        .filter(|n| n.alias.as_deref().is_some_and(|alias| bare(alias) != own))
        .filter_map(|n| n.relation.as_deref())
        .collect();
    if !all_own || others.is_empty() {
        return None;
    }
    // Rows of its own may be alike, too.
    let column = |key: &String| {
        let name = key.rsplit('.').next().unwrap_or(key);
        name.trim_matches(['"', '(', ')']).to_owned()
    };
    let shown: Vec<String> = keys.iter().map(column).collect();
    let tables = below.all().into_iter().map(|(_, n)| n);
    let mut tables = tables.filter(|n| n.alias.as_deref().is_some_and(|a| bare(a) == own));
    let is_key = tables
        .find_map(|n| at.plan.relations.get(n.relation.as_ref()?))
        .is_some_and(|facts| {
            let keys = facts
                .indexes
                .iter()
                .filter(|i| i.valid && i.constraint && !i.partial);
            keys.into_iter()
                .any(|i| !i.columns.is_empty() && i.columns.iter().all(|c| shown.contains(c)))
        });
    // EXISTS would remove the rows without a match, which an outer join keeps.
    let mut kept = below;
    while let Some((stays, _)) = kept.sides() {
        kept = source(stays);
    }
    let outer = kept.alias.as_deref().map(bare) == Some(&own);
    let step = match outer {
        true => format!(
            "leave the outer join with {} out{}: it removes no row of {own}, and nothing of it is shown",
            others.join(" and "),
            if is_key { ", and DISTINCT with it" } else { "" }
        ),
        false => format!(
            "SELECT … FROM … {own} WHERE EXISTS (SELECT FROM {} WHERE …), {}in the place of the join: it stops at the first match \
             of each row, and nothing is multiplied; with an index on what is compared",
            others.join(" JOIN "),
            if is_key { "without DISTINCT, " } else { "" }
        ),
    };
    Some(Shown {
        cost: at.cost(node),
        left: None,
        saw: format!(
            "{entering:.0} joined rows are made distinct, and {leaving:.0} are left: the columns are all of {own}, and the join with {} only \
             multiplies its rows.",
            others.join(" and ")
        ),
        steps: vec![advice(step)],
        seen: Vec::new(),
        confidence: Confidence::High,
    })
}

#[cfg(test)]
mod tests {
    use super::super::database::tests::statement;
    use super::super::tests::made::{found_with, one};
    use super::*;
    use crate::Finding;
    use pgassay_model::observed::growth::Grown;
    use pgassay_model::observed::plans::{IndexFacts, Plan};

    /// Returns the finding about DISTINCT over customers joined with 89000 orders. The plan is that of PostgreSQL 15.
    fn distinct(text: &str, kind: &str, shown: &[&str], join: &str) -> Option<Finding> {
        let node = |kind: &str, (rows, cost): (f64, f64), nodes: Vec<Node>| Node {
            kind: kind.into(),
            rows,
            actual_rows: Some(rows),
            cost,
            nodes,
            ..Node::default()
        };
        let scan = |table: &str, alias: &str, figures: (f64, f64)| Node {
            relation: Some(format!("public.{table}")),
            alias: Some(alias.into()),
            ..node("Seq Scan", figures, vec![])
        };
        let customers = scan("customer", "c", (2000.0, 31.0));
        let sides = vec![
            scan("orders", "o", (89_000.0, 1791.0)),
            node("Hash", (2000.0, 31.0), vec![customers]),
        ];
        let joined = Node {
            join: Some(join.into()),
            ..node("Hash Join", (89_000.0, 2081.04), sides)
        };
        let keys = shown.iter().filter(|column| !column.contains('('));
        let keys: Vec<String> = keys.map(|key| (*key).to_owned()).collect();
        let root = match kind {
            "Unique" => {
                let mut sort = node("Sort", (89_000.0, 9617.54), vec![joined]);
                sort.sort_key = keys;
                node(kind, (1780.0, 10_062.4), vec![sort])
            }
            _ => Node {
                conditions: [("Output".to_owned(), shown.join(", "))].into(),
                group_key: keys,
                ..node(kind, (1780.0, 2545.91), vec![joined])
            },
        };
        let key = IndexFacts {
            columns: vec!["id".into()],
            valid: true,
            constraint: true,
            ..IndexFacts::default()
        };
        let facts = RelationFacts {
            indexes: vec![key],
            ..RelationFacts::default()
        };
        let plan = Plan {
            root,
            relations: [("public.customer".to_owned(), facts)].into(),
            ..Plan::default()
        };
        let found = found_with(vec![], |observed| {
            observed.statements = Some(statement(text, Some(plan)));
        });
        found.into_iter().find(|f| f.id == "join-made-distinct")
    }

    #[test]
    fn a_join_that_distinct_undoes_is_found() {
        let text = "SELECT DISTINCT c.id, c.name FROM customer c JOIN orders o ON o.customer = c.id WHERE o.total > $1";
        let own = ["c.id", "c.name"];
        for kind in ["Aggregate", "Unique"] {
            let finding = distinct(text, kind, &own, "Inner").expect(kind);
            assert!(
                finding.saw.starts_with(
                    "89000 joined rows are made distinct, and 1780 are left: the columns are all of c, and the join with public.orders"
                ),
                "{}",
                finding.saw
            );
            assert_eq!(finding.confidence, Confidence::High);
            let step = &finding.remedy[0].text;
            assert!(
                step.contains("EXISTS (SELECT FROM public.orders WHERE …), without DISTINCT"),
                "{step}"
            );
            // A column of the orders is selected, too.
            assert!(distinct(text, kind, &["c.id", "o.customer"], "Inner").is_none());
        }
        let first = "SELECT DISTINCT ON (c.id) c.id, o.total FROM customer c JOIN orders o ON o.customer = c.id";
        assert!(distinct(first, "Unique", &["c.id"], "Inner").is_none());
        let largest = "SELECT count(DISTINCT m) FROM (SELECT c.id, max(o.total) m FROM customer c JOIN orders o ON o.customer = c.id GROUP BY c.id) s";
        assert!(distinct(largest, "Aggregate", &["c.id", "max(o.total)"], "Inner").is_none());
    }

    /// An outer join keeps a customer without orders, and EXISTS does not.
    #[test]
    fn an_outer_join_that_distinct_undoes_is_not_replaced_by_exists() {
        let text =
            "SELECT DISTINCT c.id, c.name FROM customer c LEFT JOIN orders o ON o.customer = c.id";
        let finding = distinct(text, "Aggregate", &["c.id", "c.name"], "Right").unwrap();
        let step = &finding.remedy[0].text;
        assert!(
            step.starts_with("leave the outer join with public.orders out, and DISTINCT with it"),
            "{step}"
        );
    }

    /// A loop over `public.p` that reads `public.s` a thousand times, after so many rows changed; what is told, joined.
    fn told(condition: &str, changed: f64, off: bool) -> (String, String) {
        let scan = |table: &str, alias: &str| Node {
            kind: "Index Scan".into(),
            relation: Some(format!("public.{table}")),
            alias: Some(alias.into()),
            conditions: [("Index Cond".to_owned(), condition.replace('t', alias))].into(),
            rows: 1.0,
            cost: 2.5,
            ..Node::default()
        };
        let options = off.then(|| ("autovacuum_enabled".to_owned(), "off".to_owned()));
        let facts = RelationFacts {
            rows: Some(100_000.0),
            columns: vec!["a".into(), "b".into()],
            options: options.into_iter().collect(),
            ..RelationFacts::default()
        };
        let root = Node {
            kind: "Nested Loop".into(),
            rows: 1.0,
            cost: 5.0,
            nodes: vec![scan("p", "p"), scan("s", "s")],
            ..Node::default()
        };
        let plan = Plan {
            root,
            relations: ["public.p", "public.s"]
                .map(|table| (table.to_owned(), facts.clone()))
                .into(),
            ..Plan::default()
        };
        let grown = |table: &str, scans: f64, changed: f64| Grown {
            name: format!("public.{table}"),
            grown: [("idx_scan", scans), ("idx_tup_fetch", 3000.0 * scans)]
                .map(|(k, v)| (k.to_owned(), v))
                .into(),
            state: [("n_mod_since_analyze", changed), ("since_analyze", 20.0)]
                .map(|(k, v)| (k.to_owned(), v))
                .into(),
            ..Grown::default()
        };
        let found = found_with(vec![], |observed| {
            observed.statements = Some(statement("SELECT 1", Some(plan)));
            let growth = observed.growth.get_or_insert_default();
            growth.tables = vec![grown("p", 10.0, changed), grown("s", 10_000.0, 0.0)];
        });
        let finding = one(&found, "loop-misestimated");
        let steps: Vec<&str> = finding.remedy.iter().map(|s| s.text.as_str()).collect();
        (steps.join(" | "), finding.evidence.join(" | "))
    }

    /// Rows that an import had loaded were told as columns that depend on each other, and one table of two to be analysed.
    #[test]
    fn statistics_that_are_old_are_said_to_be() {
        let (steps, seen) = told("(t.a = $1)", 103_000.0, true);
        assert!(
            steps.starts_with("ANALYZE public.p, public.s; | "),
            "{steps}"
        );
        assert!(
            steps.contains("ALTER TABLE public.p RESET (autovacuum_enabled)"),
            "{steps}"
        );
        assert!(
            !steps.contains("public.s RESET"),
            "nothing changed there: {steps}"
        );
        assert!(!steps.contains("statistics target"), "{steps}");
        assert!(seen.contains("103000 of its rows changed"), "{seen}");
        assert!(!seen.contains("independent"), "{seen}");
        let (steps, _) = told("(t.a = $1)", 103_000.0, false);
        assert!(!steps.contains("RESET"), "{steps}");
    }

    #[test]
    fn columns_that_depend_on_each_other_are_said_where_several_are_compared() {
        let both = "((t.a = $1) AND (t.b = $2))";
        let (steps, seen) = told(both, 5.0, false);
        assert!(steps.starts_with("CREATE STATISTICS"), "{steps}");
        assert!(
            seen.contains("independent") && !seen.contains("old"),
            "{seen}"
        );
        let (steps, _) = told(both, 103_000.0, false);
        assert!(
            steps.starts_with("ANALYZE public.p, public.s;") && steps.contains("CREATE STATISTICS"),
            "{steps}"
        );
    }
}

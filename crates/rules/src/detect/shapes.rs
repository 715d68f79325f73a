//! Shapes of plans that do more than the result is worth, as a table: where a shape is looked for, what it means,
//! and what is written instead. A new shape is a function and a row of [`SHAPES`], beside its page of the catalogue.

use pgassay_model::observed::plans::{Node, Plan, RelationFacts};

use super::bodies::{not_inlined, unsaid};
use super::brin::unsummarized;
use super::conditions::{aliases, conjuncts, words};
use super::ctes::materialized;
use super::default_partition::scanned;
use super::existence::counted;
use super::hits::{Hit, Left, Part, joined, with_plans};
use super::limits::{groups, order};
use super::nearest::computed;
use super::plans::{FEW_ROWS, MINOR, by_index};
use super::products::{children, looped, made_distinct, unneeded};
use super::repeats::{attributes, branches, recursion};
use super::searches::ranked;
use super::spilling::more_memory;
use super::statistics::targeted;
use super::visibility::unmapped;
use super::walks::walked;
use super::whole::{distinct, random, sort, union, window};
use super::windows::moving;
use super::{Detector, run};
use crate::evidence::{Evidence, RunEvidence};
use crate::finding::{Confidence, Observation, StepKind};
use pgassay_evidence::observed::statements::StatementTime;

/// A node of a statement's plan, with what is around it.
pub(super) struct At<'a> {
    pub run: &'a RunEvidence<'a>,
    pub statement: &'a StatementTime,
    pub plan: &'a Plan,
    pub parent: Option<&'a Node>,
    pub node: &'a Node,
}

/// What a shape means here.
pub(super) struct Shown {
    /// What it costs, in the planner's units, over the whole plan.
    pub cost: f64,
    /// What the remedy leaves of that; none where only the bound is known.
    pub left: Option<Left>,
    pub saw: String,
    pub steps: Vec<(StepKind, String)>,
    pub seen: Vec<String>,
    pub confidence: Confidence,
}

/// A shape of a plan.
struct Shape {
    /// Its page of the catalogue.
    entry: &'static str,
    /// Whether a node is its topmost one, and what it means there.
    look: fn(&At) -> Option<Shown>,
}

const SHAPES: &[Shape] = &[
    Shape {
        entry: "distinct-over-many",
        look: distinct,
    },
    Shape {
        entry: "join-unneeded",
        look: unneeded,
    },
    Shape {
        entry: "join-made-distinct",
        look: made_distinct,
    },
    Shape {
        entry: "function-not-inlined",
        look: not_inlined,
    },
    Shape {
        entry: "union-of-many",
        look: union,
    },
    Shape {
        entry: "window-below-limit",
        look: window,
    },
    Shape {
        entry: "sort-below-limit",
        look: sort,
    },
    Shape {
        entry: "groups-before-limit",
        look: groups,
    },
    Shape {
        entry: "order-unneeded",
        look: order,
    },
    Shape {
        entry: "sort-by-random",
        look: random,
    },
    Shape {
        entry: "index-walked",
        look: walked,
    },
    Shape {
        entry: "cte-materialized",
        look: materialized,
    },
    Shape {
        entry: "children-joined",
        look: children,
    },
    Shape {
        entry: "loop-misestimated",
        look: looped,
    },
    Shape {
        entry: "function-rows-unsaid",
        look: unsaid,
    },
    Shape {
        entry: "count-for-existence",
        look: counted,
    },
    Shape {
        entry: "subplan-per-row",
        look: subplan,
    },
    Shape {
        entry: "sort-by-expression",
        look: computed,
    },
    Shape {
        entry: "default-partition",
        look: scanned,
    },
    Shape {
        entry: "statistics-target",
        look: targeted,
    },
    Shape {
        entry: "window-recomputed",
        look: moving,
    },
    Shape {
        entry: "text-search-per-hit",
        look: ranked,
    },
    Shape {
        entry: "visibility-map",
        look: unmapped,
    },
    Shape {
        entry: "brin-unsummarized",
        look: unsummarized,
    },
    Shape {
        entry: "bitmap-lossy",
        look: lossy,
    },
    Shape {
        entry: "security-barrier",
        look: barrier,
    },
    Shape {
        entry: "recursion-repeats",
        look: recursion,
    },
    Shape {
        entry: "same-table-repeatedly",
        look: branches,
    },
    Shape {
        entry: "same-table-repeatedly",
        look: attributes,
    },
];

/// A detector for each page that shapes have.
pub(super) const DETECTORS: &[Detector] = &[
    run("distinct-over-many", |e| shape(e, "distinct-over-many")),
    run("join-unneeded", |e| shape(e, "join-unneeded")),
    run("join-made-distinct", |e| shape(e, "join-made-distinct")),
    run("function-not-inlined", |e| shape(e, "function-not-inlined")),
    run("union-of-many", |e| shape(e, "union-of-many")),
    run("window-below-limit", |e| shape(e, "window-below-limit")),
    run("sort-below-limit", |e| shape(e, "sort-below-limit")),
    run("groups-before-limit", |e| shape(e, "groups-before-limit")),
    run("order-unneeded", |e| shape(e, "order-unneeded")),
    run("sort-by-random", |e| shape(e, "sort-by-random")),
    run("index-walked", |e| shape(e, "index-walked")),
    run("cte-materialized", |e| shape(e, "cte-materialized")),
    run("children-joined", |e| shape(e, "children-joined")),
    run("loop-misestimated", |e| shape(e, "loop-misestimated")),
    run("function-rows-unsaid", |e| shape(e, "function-rows-unsaid")),
    run("count-for-existence", |e| shape(e, "count-for-existence")),
    run("subplan-per-row", |e| shape(e, "subplan-per-row")),
    run("sort-by-expression", |e| shape(e, "sort-by-expression")),
    run("default-partition", |e| shape(e, "default-partition")),
    run("statistics-target", |e| shape(e, "statistics-target")),
    run("window-recomputed", |e| shape(e, "window-recomputed")),
    run("text-search-per-hit", |e| shape(e, "text-search-per-hit")),
    run("visibility-map", |e| shape(e, "visibility-map")),
    run("brin-unsummarized", |e| shape(e, "brin-unsummarized")),
    run("bitmap-lossy", |e| shape(e, "bitmap-lossy")),
    run("security-barrier", |e| shape(e, "security-barrier")),
    run("recursion-repeats", |e| shape(e, "recursion-repeats")),
    run("same-table-repeatedly", |e| {
        shape(e, "same-table-repeatedly")
    }),
];

/// What statements show the shapes of a page.
fn shape(evidence: &Evidence, entry: &str) -> Option<Observation> {
    let run = evidence.run?;
    let hits = with_plans(&run, |statement, plan| {
        let of_entry = SHAPES.iter().filter(|shape| shape.entry == entry);
        let hits = of_entry.flat_map(|shape| {
            let all = plan.root.all().into_iter();
            all.filter_map(|(parent, node)| {
                let at = At {
                    run: &run,
                    statement,
                    plan,
                    parent,
                    node,
                };
                hit(evidence, statement, plan, (shape.look)(&at)?)
            })
        });
        hits.max_by(|a, b| a.part.time.total_cmp(&b.part.time))
    });
    joined(&run, hits)
}

fn hit<'s>(
    evidence: &Evidence,
    statement: &'s StatementTime,
    plan: &Plan,
    shown: Shown,
) -> Option<Hit<'s>> {
    let part = (shown.cost / plan.root.cost.max(shown.cost).max(f64::MIN_POSITIVE)).min(1.0);
    (part >= MINOR).then(|| Hit {
        statement,
        part: Part::of_work(evidence, statement, part),
        left: shown.left,
        saw: shown.saw,
        confidence: shown.confidence,
        evidence: shown.seen,
        steps: shown.steps,
    })
}

impl At<'_> {
    /// What a node costs over the whole plan.
    pub(super) fn cost(&self, node: &Node) -> f64 {
        self.plan.root.times(node).unwrap_or(1.0) * node.cost
    }

    pub(super) fn facts(&self, node: &Node) -> Option<&RelationFacts> {
        self.plan.relations.get(node.relation.as_ref()?)
    }
}

pub(super) fn advice(text: impl Into<String>) -> (StepKind, String) {
    (StepKind::Advice, text.into())
}

/// A column of a table by an expression that is no more than that: `r.at DESC` is `at`.
pub(super) fn column<'f>(expression: &str, facts: &'f RelationFacts) -> Option<&'f str> {
    let bare = expression.split(' ').next()?.trim_matches(['(', ')']);
    let name = bare.rsplit('.').next()?.trim_matches('"');
    let mut columns = facts.columns.iter().map(String::as_str);
    columns.find(|column| *column == name)
}

/// Whether a valid index of all rows begins with these columns.
pub(super) fn is_served(facts: &RelationFacts, columns: &[&str]) -> bool {
    let mut whole = facts.indexes.iter().filter(|i| i.valid && !i.partial);
    whole.any(|index| {
        let own = index.columns.iter().map(String::as_str);
        index.columns.len() >= columns.len() && own.zip(columns).all(|(own, name)| own == *name)
    })
}

/// Rows below which a subquery for each of them is no burden, if all together cost little.
const FEW_DRIVING: f64 = 1000.0;
/// A row that an anti-join finds by an index costs about so much, in the planner's units.
const BY_INDEX_COST: f64 = 8.0;

/// Whether a statement asks for what is not in a list that it selects.
fn excludes(text: &str) -> bool {
    let words: Vec<String> = text
        .split_whitespace()
        .map(str::to_ascii_uppercase)
        .collect();
    let text = words.join(" ").replace("( ", "(");
    [
        "NOT IN (SELECT",
        "NOT IN(SELECT",
        "<> ALL (SELECT",
        "<> ALL(SELECT",
    ]
    .iter()
    .any(|sign| text.contains(sign))
}

/// A subplan that is executed for each row.
fn subplan(at: &At) -> Option<Shown> {
    let node = at.node;
    let parent = at.parent?;
    if node.relationship.as_deref() != Some("SubPlan") || parent.hashes(node) {
        return None;
    }
    let inside = node.all();
    let own: Vec<&str> = inside
        .iter()
        .filter_map(|(_, n)| n.alias.as_deref())
        .collect();
    let conditions = inside.iter().flat_map(|(_, n)| n.conditions.iter());
    let conditions = conditions.filter(|(name, _)| *name != "Output");
    let correlated = conditions
        .flat_map(|(_, text)| aliases(text))
        .any(|alias| !own.iter().any(|own| *own == alias.trim_matches('"')));
    let scan = inside
        .iter()
        .map(|(_, n)| *n)
        .filter(|n| n.relation.is_some());
    let scan = scan.max_by(|a, b| a.rows.total_cmp(&b.rows))?;
    let table = scan.relation.as_ref()?;
    let facts = at.facts(scan)?;
    let (rows, pages) = (facts.rows?, facts.pages?);
    let counted = node.work.filter(|_| at.plan.executed.is_some());
    let counted = counted.map(|work| work.loops);
    let times = counted.or_else(|| at.plan.root.times(node))?;
    let mut conditions = parent.conditions.values();
    let condition = conditions.find(|text| parent.calls(text, node, ""));
    // A list that does not depend on the row: x NOT IN (SELECT …). Each row goes through half of it.
    if !correlated {
        let negated = match condition {
            Some(text) => text.contains("NOT ") || text.contains("ALL ("),
            None => excludes(&at.statement.text),
        };
        let listed = node.kind == "Materialize"
            || condition.is_some_and(|text| text.contains("ANY (") || text.contains("ALL ("));
        if !listed || node.rows < FEW_DRIVING {
            return None;
        }
        // The planner takes half of the rows to pass, and what passes for what drives it.
        let driving = counted.unwrap_or(times / 0.5).max(1.0);
        let instead = (driving * BY_INDEX_COST).min(pages + 0.03 * rows);
        let mut steps = vec![advice(match negated {
            true => format!(
                "NOT EXISTS (SELECT FROM {table} x WHERE x.… = …) in the place of NOT IN (SELECT …): it becomes an anti-join, which an \
                 index on the compared column serves"
            ),
            false => format!(
                "EXISTS (SELECT FROM {table} x WHERE x.… = …) in the place of IN (SELECT …), or a join: either goes by a hash table or an \
                 index, and not through the list"
            ),
        })];
        if negated {
            steps.push(advice(
                "the two differ where a NULL is: with one in its list NOT IN lets no row through, and a row whose own column is NULL passes \
                 NOT EXISTS; say IS NOT NULL where that is not meant",
            ));
        }
        // What the parent costs beyond its own input is the list's.
        return Some(Shown {
            cost: at.cost(parent),
            left: Left::new(
                instead / at.cost(parent).max(1.0),
                format!("the planner's cost, and {instead:.0} for an anti-join"),
            ),
            saw: format!(
                "For each row a list of {:.0} rows of {table} is gone through: {} is not hashed.",
                node.rows,
                if negated {
                    "NOT IN (SELECT …)"
                } else {
                    "the subquery"
                }
            ),
            steps,
            seen: condition
                .map(|text| format!("condition: {text}"))
                .into_iter()
                .collect(),
            confidence: Confidence::High,
        });
    }
    // Executed once for all keys, it would read its table whole.
    let (cost, instead) = (times * node.cost, pages + 0.03 * rows);
    if times < FEW_DRIVING || instead > 0.3 * cost {
        return None;
    }
    Some(Shown {
        cost,
        left: Left::new(
            instead / cost,
            format!("the planner's cost, and {instead:.0} for reading {table} once"),
        ),
        saw: format!("A subquery over {table} is executed for each of about {times:.0} rows."),
        steps: vec![advice(format!(
            "join with it once: LEFT JOIN (SELECT key, … FROM {table} GROUP BY key) in the place of a subquery for each row; if a LIMIT \
             follows, put it below the select list first"
        ))],
        seen: Vec::new(),
        confidence: Confidence::Medium,
    })
}

/// Bytes that a bitmap takes for a page that is remembered row by row: an entry and two pointers for its place
/// (`tbm_calculate_entries`, tidbitmap.c).
const BITMAP_ENTRY: f64 = 64.0;

/// A bitmap that is larger than work_mem.
fn lossy(at: &At) -> Option<Shown> {
    let node = at.node;
    if node.kind != "Bitmap Heap Scan" {
        return None;
    }
    let (facts, table) = (at.facts(node)?, node.relation.as_ref()?);
    let (rows, pages) = (facts.rows?, facts.pages?.max(1.0));
    let memory = at.plan.work_mem_bytes?;
    let holds = (memory / BITMAP_ENTRY).max(16.0);
    let found = node.all().into_iter().map(|(_, n)| n);
    let found = found
        .filter(|n| n.kind == "Bitmap Index Scan")
        .map(|n| n.actual_rows.unwrap_or(n.rows));
    let matching = found.fold(0.0, f64::max);
    // Pages that so many rows lie in, if they lie anywhere (Mackert and Lohman, as the planner has it).
    let visited = (2.0 * pages * matching / (2.0 * pages + matching)).min(pages);
    // The same rounding as the planner's, which drops entries until half of them are free.
    if visited < 1.5 * holds {
        return None;
    }
    let exact = (0.5 * holds / visited).min(1.0);
    let rechecked = (1.0 - exact) * visited * rows / pages;
    if rechecked < 2.0 * matching || rechecked < 0.1 * FEW_ROWS {
        return None;
    }
    let condition = node.conditions.get("Recheck Cond")?;
    let blocks = at.statement.counters.as_ref().and_then(|c| c.blocks);
    Some(Shown {
        cost: at.cost(node),
        left: Left::new(
            (visited + matching) / (visited + rechecked),
            format!("about {rechecked:.0} rows are looked at again for {matching:.0} that match"),
        ),
        saw: format!(
            "work_mem = {} holds a bitmap of {holds:.0} pages, and the scan of {table} by index needs about {visited:.0}: {condition} \
             is computed again for about {rechecked:.0} rows.",
            super::shown(memory as u64)
        ),
        steps: vec![more_memory(at.run, (visited * BITMAP_ENTRY * 2.0).max(4_194_304.0))],
        seen: vec!["EXPLAIN (ANALYZE) shows it as \"Heap Blocks: lossy\" and \"Rows Removed by Index Recheck\"".to_owned()],
        confidence: match blocks {
            Some(blocks) if blocks < 0.5 * visited => return None,
            Some(_) => Confidence::High,
            None => Confidence::Medium,
        },
    })
}

/// Below which part of the table's rows a scan is no matter of a condition that came too late.
const FEW_LET_THROUGH: f64 = 0.1;

/// A condition with an operator that must not see a row before a policy does, beside an index that would serve it.
pub(super) fn barrier(at: &At) -> Option<Shown> {
    let node = at.node;
    let (facts, filter) = (at.facts(node)?, node.conditions.get("Filter")?);
    let rows = facts.rows.filter(|rows| *rows >= FEW_ROWS)?;
    if facts.policies.is_empty() {
        return None;
    }
    let (leaky, index) = conjuncts(filter).into_iter().find_map(|part| {
        let mut leaky = facts.leaky.iter();
        let leaky = leaky.find(|leaky| {
            let operator = format!(" {} ", leaky.operator);
            part.contains(&operator) && words(part).any(|word| word == leaky.column)
        })?;
        let mut indexes = facts.indexes.iter().filter(|i| i.valid && !i.partial);
        let index = indexes.find(|i| i.first.as_deref() == Some(&leaky.column))?;
        let used = node
            .all()
            .into_iter()
            .any(|(_, n)| n.index.as_deref() == index.name.rsplit('.').next());
        (!used).then_some((leaky, index))
    })?;
    // What is read before the condition is looked at.
    let inputs = node.all().into_iter().skip(1).map(|(_, n)| n.rows);
    let entering = match node.kind.as_str() {
        "Seq Scan" => rows,
        _ => inputs.fold(node.rows, f64::max),
    };
    if entering < FEW_LET_THROUGH * rows || node.rows > 0.1 * entering {
        return None;
    }
    let policies: Vec<&str> = facts.policies.keys().map(String::as_str).collect();
    let table = node.relation.as_ref()?;
    Some(Shown {
        cost: at.cost(node),
        left: by_index(entering, node.rows),
        saw: format!(
            "{} on {table} looks at {filter} in about {entering:.0} rows: the operator {} is not leakproof, so that {} can't serve it \
             under the table's row-level security ({}).",
            node.kind,
            leaky.operator,
            index.name,
            policies.join(", ")
        ),
        steps: vec![
            advice(format!(
                "search in a SECURITY DEFINER function whose owner the policies do not concern (the table's owner, or BYPASSRLS), and have \
                 it compare what the policy compares: there {} serves the condition",
                index.name
            )),
            (
                StepKind::Sql,
                format!(
                    "ALTER FUNCTION {} LEAKPROOF;   -- as superuser, for the whole database, and only if its errors may show values of hidden rows",
                    leaky.function
                ),
            ),
        ],
        seen: Vec::new(),
        confidence: Confidence::High,
    })
}

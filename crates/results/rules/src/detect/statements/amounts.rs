//! More work than a statement's result is worth: rows read and thrown away, indexes written that nobody
//! reads, processes started for a few rows.

use crate::detect::common::conditions::{Compared, compared, index_named, names_column};
use crate::detect::common::counts;
use crate::detect::common::hits::{Hit, Left, Part, joined, with_plans};
use crate::detect::common::wait_shares::waits_for_workers;
use crate::detect::statements::plans::reads_whole;
use crate::detect::statements::unread_indexes;
use crate::detect::{Detector, run, tenths};
use crate::evidence::{Evidence, RunEvidence};
use crate::finding::{Confidence, Observation, StepKind};
use pgassay_evidence::observed::statements::StatementTime;
use pgassay_evidence::profile::Work;
use pgassay_model::observed::growth::Grown;
use pgassay_model::observed::plans::{
    Clause, Expr, IndexFacts, Node, NodeType, Operation, Plan, RelationFacts,
};
use pgassay_plan::expr::{bare_name, unquoted};
use pgassay_text::quote::quote_ident;

pub const DETECTORS: &[Detector] = &[
    run("rows-discarded", discarded),
    run("indexes-unread", unread),
    run("parallel-for-little", parallel),
];

/// Rows read by each scan below which it does not matter how many are thrown away.
const FEW_READ: f64 = 200.0;
/// So many times as many rows read as needed are too many.
const TOO_MANY: f64 = 20.0;

/// Rows of a table that each scan by an index fetched.
fn fetched(table: &Grown) -> Option<f64> {
    let scans = table.by("idx_scan");
    (scans >= 10.0).then(|| table.by("idx_tup_fetch") / scans)
}

fn discarded(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let mut passed_over = false;
    let hits = with_plans(&run, |statement, plan| {
        let skipped = skipped(evidence, statement, plan);
        passed_over |= skipped.is_some();
        skipped.or_else(|| filtered(evidence, statement, plan))
    });
    joined(&run, hits).map(|seen| match passed_over {
        true => seen.means(OFFSET),
        false => seen.means(FILTER),
    })
}

/// What happens in either case.
const OFFSET: &str = "OFFSET reads every row that it passes over.";
const FILTER: &str = "Rows are found by an index that serves a part of what the statement asks for, or nothing of it, and a filter throws nearly all of them away.";

/// Rows that an OFFSET passes over.
fn skipped<'a>(evidence: &Evidence, statement: &'a StatementTime, plan: &Plan) -> Option<Hit<'a>> {
    let run = &evidence.run?;
    let all = plan.root.all();
    let (_, limit) = all.iter().find(|(_, node)| node.kind == NodeType::Limit)?;
    let mut words = statement.text.split(|c: char| !c.is_alphanumeric());
    if !words.any(|word| word.eq_ignore_ascii_case("offset")) {
        return None;
    }
    let (name, each) = limit.all().into_iter().find_map(|(_, node)| {
        let name = node.relation.as_deref()?;
        let table = run.table(name)?;
        Some((name, table.rows_read() / table.scans().max(1.0)))
    })?;
    let given = statement.counters.as_ref().and_then(|c| c.rows);
    let wanted = given.unwrap_or(limit.rows).max(1.0);
    let part = plan.part(limit);
    (each >= FEW_READ && each >= TOO_MANY * wanted).then(|| Hit {
        statement,
        part: Part::of_work(evidence, statement, part),
        left: Left::new(wanted / each, format!("{each:.0} rows are read for {wanted:.0} that are wanted")),
        saw: format!("A page of {name} reads {each:.0} rows and gives {wanted:.0}: OFFSET passes over the others."),
        confidence: if given.is_some() { Confidence::High } else { Confidence::Medium },
        evidence: Vec::new(),
        steps: vec![(
            StepKind::Advice,
            "go on behind the last row of the page before: WHERE key > last key ORDER BY key LIMIT n (keyset \
             pagination), without OFFSET; with < for DESC, and over all columns of the order: (a, b) < (last a, last b)"
                .to_owned(),
        )],
    })
}

/// Rows that an index finds and a filter throws away, of the table of which most are read.
fn filtered<'a>(evidence: &Evidence, statement: &'a StatementTime, plan: &Plan) -> Option<Hit<'a>> {
    let run = &evidence.run?;
    let scans = plan.root.all().into_iter().filter_map(|(_, node)| {
        let by_index = matches!(node.kind, NodeType::IndexScan | NodeType::BitmapHeapScan);
        let name = node.relation.as_deref().filter(|_| by_index)?;
        node.filter()?;
        if let Some((each, _)) = counts::executed(node) {
            let all = each * node.work?.loops;
            // Workers share one scan.
            let each = match plan.root.is_partial(node) {
                true => all,
                false => each,
            };
            return Some((all, each, name, node));
        }
        let table = run.table(name)?;
        Some((table.by("idx_tup_fetch"), fetched(table)?, name, node))
    });
    let (_, each, name, node) = scans.max_by(|a, b| a.0.total_cmp(&b.0))?;
    let filter = node.filter()?;
    let facts = plan.relations.get(name)?;
    let shared = plan.root.is_partial(node) && plan.executed.is_some();
    let of_workers = counts::gave(node).filter(|_| shared);
    let (wanted, confidence) = match of_workers.or_else(|| counts::kept(run, statement, plan, node))
    {
        Some(kept) => (kept.max(1.0), Confidence::High),
        // By the statistics of the one column that it compares; of all else the planner guesses.
        None => {
            let one = filter.conjuncts().len() == 1 && filter.disjuncts().len() == 1;
            let column = matches!(compared(filter, facts), Some(Compared::Column(_)));
            if !one || !column {
                return None;
            }
            (node.rows.max(1.0), Confidence::Medium)
        }
    };
    if each < FEW_READ || each < TOO_MANY * wanted {
        return None;
    }
    let index = used(node);
    // One that finds the rows does not give the order in which the first are wanted.
    let serving = served_by(filter, facts, index).filter(|_| !stops(&plan.root, node));
    let mut evidence_of = Vec::new();
    let steps = match serving {
        Some(serving) => {
            evidence_of = costs(run);
            not_taken(name, serving, &evidence_of)
        }
        None => vec![better_index(name, index, filter, facts)],
    };
    let bounded = node.all().iter().any(|(_, n)| {
        let mut bounds = n.any_of(&[Clause::IndexCond, Clause::RecheckCond]);
        bounds.next().is_some()
    });
    let index = index.unwrap_or("An index");
    let part = plan.part(node);
    let matching = match confidence {
        Confidence::High => format!("{wanted:.0} match {filter}, as counted"),
        _ => format!("about {wanted:.0} match {filter}, as the column's statistics say"),
    };
    Some(Hit {
        statement,
        part: Part::of_work(evidence, statement, part),
        left: Left::new(
            wanted / each,
            format!("{each:.0} rows are read for {wanted:.0} that are wanted"),
        ),
        saw: match (bounded, serving) {
            (true, _) => {
                format!(
                    "{index} finds {each:.0} rows of {name} for each scan, of which {matching}."
                )
            }
            (false, None) => format!(
                "{index} is gone through without a condition: {each:.0} rows of {name} for each scan, of which {matching}."
            ),
            (false, Some(serving)) => format!(
                "{index} is gone through without a condition, and {} not used: {each:.0} rows of {name} for each scan, of which \
                 {matching}.",
                serving.name
            ),
        },
        confidence,
        evidence: evidence_of,
        steps,
    })
}

/// Whether a LIMIT stops a scan when it has its rows: nothing between them must have all of them first.
fn stops(root: &Node, scan: &Node) -> bool {
    let path = counts::path(root, scan).unwrap_or_default();
    let all_first = [
        NodeType::Limit,
        NodeType::Sort,
        NodeType::Aggregate,
        NodeType::Group,
        NodeType::Hash,
        NodeType::WindowAgg,
    ];
    let mut nearest = path.iter().rev().map(|node| &node.kind);
    nearest.find(|kind| all_first.contains(kind)) == Some(&NodeType::Limit)
}

/// The index that a scan goes by.
fn used(node: &Node) -> Option<&str> {
    let own = node.index.as_deref();
    own.or_else(|| node.nodes.iter().find_map(|n| n.index.as_deref()))
}

/// An index other than the one that is used that begins with a column which the filter compares for equality.
fn served_by<'f>(
    filter: &Expr,
    facts: &'f RelationFacts,
    used: Option<&str>,
) -> Option<&'f IndexFacts> {
    let columns: Vec<String> = equal(filter, facts)
        .map(|column| unquoted(&column))
        .collect();
    facts.indexes.iter().find(|index| {
        let serves = matches!(index.method.as_str(), "" | "btree" | "hash");
        let other = used != Some(&*bare_name(&index.name));
        let first = index
            .first
            .as_ref()
            .is_some_and(|first| columns.contains(first));
        serves && other && first && index.valid && !index.partial
    })
}

/// The columns that a filter compares for equality as they are, as SQL quotes them.
fn equal(filter: &Expr, facts: &RelationFacts) -> impl Iterator<Item = String> {
    let parts = filter.conjuncts().into_iter();
    let one = parts.filter(|part| part.disjuncts().len() == 1 && !matches!(part, Expr::Not(_)));
    one.filter_map(|part| match compared(part, facts) {
        Some(Compared::Column(column)) => Some(column),
        _ => None,
    })
}

/// The settings that say what going by an index costs.
fn costs(run: &RunEvidence) -> Vec<String> {
    let named = |name: &&str| Some(format!("{name} = {}", run.setting(name)?));
    ["random_page_cost", "effective_cache_size"]
        .iter()
        .filter_map(named)
        .collect()
}

/// What to do where an index is there that the planner does not take.
fn not_taken(table: &str, index: &IndexFacts, costs: &[String]) -> Vec<(StepKind, String)> {
    let costs = match costs {
        [] => "random_page_cost and effective_cache_size".to_owned(),
        known => known.join(" and "),
    };
    vec![
        (
            StepKind::Advice,
            format!(
                "{} {} finds them, and the planner takes it for dearer: see whether its costs are those of this machine ({costs}); where data \
                 lies on SSDs or in memory, random_page_cost is about 1.1, and effective_cache_size what shared buffers and the \
                 kernel's cache hold together; try with SET and EXPLAIN (ANALYZE) first",
                index.name,
                match index.columns.as_slice() {
                    [] => String::new(),
                    columns => format!("({})", columns.join(", ")),
                }
            ),
        ),
        (
            StepKind::Sql,
            format!("ANALYZE {table};   -- where the planner expects many more rows than match"),
        ),
    ]
}

/// The step that makes an index which needs no filter: of the columns that the filter compares
/// for equality as they are. No other condition is sure to have a plain index.
fn better_index(
    table: &str,
    used: Option<&str>,
    filter: &Expr,
    facts: &RelationFacts,
) -> (StepKind, String) {
    let first = used.and_then(|name| index_named(facts, name)?.first.clone());
    let mut columns: Vec<String> = Vec::new();
    for column in equal(filter, facts) {
        if !columns.contains(&column) && first != Some(unquoted(&column)) {
            columns.push(column);
        }
    }
    // A range goes behind what is compared for equality.
    let range = filter
        .conjuncts()
        .into_iter()
        .find_map(|part| ranged(part, facts));
    if let (true, Some(first), Some(range)) = (columns.is_empty(), &first, range) {
        let step = format!(
            "CREATE INDEX CONCURRENTLY ON {table} ({}, {range});",
            quote_ident(first)
        );
        return (StepKind::Sql, step);
    }
    match (columns.is_empty(), first) {
        (false, Some(first)) => (
            StepKind::Sql,
            format!(
                "CREATE INDEX CONCURRENTLY ON {table} ({}, {});",
                columns.join(", "),
                quote_ident(&first)
            ),
        ),
        _ if filter.disjuncts().len() > 1 => (
            StepKind::Advice,
            format!(
                "write {filter} so that an index begins where it does: what goes on behind a row as a comparison of rows, (a, b) \
                 < (x, y), over the columns of the index in their order; other alternatives as a UNION of statements"
            ),
        ),
        _ => (
            StepKind::Advice,
            format!(
                "have the rows found by an index alone: one on an expression of {filter}, or a form of the condition that \
                 compares columns as they are"
            ),
        ),
    }
}

/// The column of which a condition bounds a range by what is none of the row: `at` of `(t.at >= ($1 - $2))`.
fn ranged(part: &Expr, facts: &RelationFacts) -> Option<String> {
    let mut operators = [">=", "<=", ">", "<"].iter();
    let (left, right) = operators.find_map(|operator| part.operands(operator))?;
    let name = left.column()?;
    let plain = facts.columns.contains(&unquoted(name)) && part.disjuncts().len() == 1;
    (plain && !names_column(right, facts)).then(|| name.to_owned())
}

/// Indexes that nobody reads below which they are no burden.
const FEW_INDEXES: usize = 3;
/// The share of the CPU time in writing indexes below which it is no matter.
const IN_INDEXES: f64 = 0.05;

fn unread(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let spent = evidence.profile.and_then(|p| p.within(Work::IndexEntries));
    let hits = with_plans(&run, |statement, plan| {
        let all = plan.root.all();
        let (_, node) = all
            .iter()
            .find(|(_, n)| matches!(n.operation, Some(Operation::Insert | Operation::Update)))?;
        let name = node.relation.as_deref()?;
        let facts = plan.relations.get(name)?;
        let idle: Vec<&IndexFacts> = facts
            .indexes
            .iter()
            .filter(|i| !i.constraint && i.scans.is_some_and(|n| n < 1.0))
            .collect();
        let share = spent.filter(|share| *share >= IN_INDEXES);
        if idle.len() < FEW_INDEXES || (spent.is_some() && share.is_none()) {
            return None;
        }
        let of_all = idle.len() as f64 / facts.indexes.len() as f64;
        let part = share.map_or(Part::UNKNOWN, |share| {
            Part::of_samples(statement, share * of_all)
        });
        Some(Hit {
            statement,
            part,
            left: Left::new(
                0.0,
                "CPU samples in writing indexes, as many of them as are not read",
            ),
            saw: format!(
                "{} of the {} indexes of {name} are written and were never read since their counters began.",
                idle.len(),
                facts.indexes.len()
            ),
            confidence: Confidence::Medium,
            evidence: share
                .map(|share| {
                    format!(
                        "{} of the CPU samples are in writing indexes",
                        tenths(share)
                    )
                })
                .into_iter()
                .collect(),
            steps: unread_indexes::steps(idle.iter().map(|i| i.name.as_str())),
        })
    });
    joined(&run, hits)
}

/// A statement that takes longer may be worth its workers, milliseconds.
const LONG_MS: f64 = 100.0;
/// A plan of less cost would not have been made parallel by the settings that the server comes with.
const LITTLE_COST: f64 = 10_000.0;

/// Settings by which the planner takes workers for cheap, with the values that the server comes with.
const LURES: &[(&str, &str)] = &[
    ("parallel_setup_cost", "1000"),
    ("parallel_tuple_cost", "0.1"),
    ("min_parallel_table_scan_size", "8MB"),
    ("min_parallel_index_scan_size", "512kB"),
];

fn parallel(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let hits: Vec<Hit> = with_plans(&run, |statement, plan| {
        let all = plan.root.all();
        let gathers = all.iter().any(|(_, n)| n.gathers());
        let took = statement.counters.as_ref().and_then(|c| c.execution_ms);
        let short = took.map_or(plan.root.cost < LITTLE_COST, |ms| ms < LONG_MS);
        // An index would do away with the workers, too.
        if !gathers || !short || reads_whole(evidence, statement, plan) {
            return None;
        }
        let at = |name: &str| {
            let event = name.split_once(':').map_or(name, |(_, event)| event);
            waits_for_workers(event)
        };
        let waiting = Part::of_waits(statement, at);
        let part = waiting.time;
        // Starting, feeding and ending them takes CPU time, too.
        let workers = evidence
            .profile
            .and_then(|profile| profile.within(Work::Workers));
        let of_processes = workers.map_or(Part::UNKNOWN, |share| Part {
            time: (1.0 - part) * share,
            cpu: share,
            ..Part::UNKNOWN
        });
        // Workers of a statement that seldom waits for them are worth it.
        (part >= 0.1).then(|| Hit {
            statement,
            part: waiting.and(of_processes),
            left: None,
            saw: match took {
                Some(ms) => format!("Parallel workers are started for a statement of {ms:.1} ms."),
                None => format!("Parallel workers are started for a plan that costs {:.0}.", plan.root.cost),
            },
            confidence: Confidence::High,
            evidence: LURES
                .iter()
                .filter_map(|(name, _)| Some(format!("{name} = {}", run.setting(name)?)))
                .chain([format!("in {} of its time it waits for its workers", tenths(part))])
                .chain(workers.map(|share| format!("{} of the CPU samples are in starting and ending them", tenths(share))))
                .collect(),
            steps: LURES
                .iter()
                .filter(|(name, comes_with)| run.setting(name).is_some_and(|v| v != *comes_with))
                .map(|(name, _)| (StepKind::Sql, format!("ALTER SYSTEM RESET {name}; SELECT pg_reload_conf();")))
                .chain([(
                    StepKind::Sql,
                    "SET max_parallel_workers_per_gather = 0;   -- for the role that sends short statements: ALTER ROLE".to_owned(),
                )])
                .collect(),
        })
    });
    joined(&run, hits)
}

#[cfg(test)]
#[path = "amounts/tests.rs"]
mod tests;

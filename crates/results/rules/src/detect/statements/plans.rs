//! What the plans of the statements show on which the sessions spent their time.

use crate::detect::common::conditions::{Compared, Served, compared, served};
use crate::detect::common::forms;
use crate::detect::common::hits::{Hit, Part, joined, weighty, with_plans};
use crate::detect::common::scans::{FEW_ROWS, MINOR, SELECTIVE, by_index, read_by_scans, stable};
use crate::detect::{Detector, run};
use crate::evidence::{Evidence, RunEvidence};
use crate::finding::{Confidence, Observation, StepKind};
use pgassay_evidence::observed::statements::StatementTime;
use pgassay_model::observed::plans::{Expr, Node, NodeType, Plan, RelationFacts};
use pgassay_plan::expr::unquoted;

pub const DETECTORS: &[Detector] = &[
    run("sequential-scan", sequential_scans),
    run("planning-longer", planning),
];

fn sequential_scans(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let hits = with_plans(&run, |statement, plan| {
        let scans = plan.root.all().into_iter();
        scans
            .filter_map(|(parent, node)| scan(evidence, statement, plan, (parent, node)))
            .max_by(|a, b| a.part.time.total_cmp(&b.part.time))
    });
    joined(&run, hits)
}

fn scan<'a>(
    evidence: &Evidence,
    statement: &'a StatementTime,
    plan: &Plan,
    (parent, node): (Option<&Node>, &Node),
) -> Option<Hit<'a>> {
    let run = &evidence.run?;
    let counted = counted(statement, plan, (parent, node));
    let matching = counted.unwrap_or(node.rows);
    let filter = node.filter().filter(|_| node.kind == NodeType::SeqScan)?;
    let table = node.relation.as_ref()?;
    let facts = plan.relations.get(table)?;
    let rows = facts.rows.filter(|rows| *rows >= FEW_ROWS)?;
    // Workers are there for the scan's sake, and what they cost goes with it.
    let gathered = parent.filter(|parent| parent.gathers());
    let part = plan.part(gathered.unwrap_or(node));
    // Under a limit a scan may stop early.
    let may_stop = parent.is_some_and(|parent| parent.kind == NodeType::Limit);
    // Of a function the planner takes a third of the rows to match (DEFAULT_INEQ_SEL, selfuncs.h).
    let form = forms::known(filter);
    let guessed = counted.is_none() && (node.rows - rows / 3.0).abs() <= 1.0 + 0.001 * rows;
    let searches = guessed && form.as_ref().is_some_and(|form| form.searches);
    if !searches && matching > SELECTIVE * rows || part < MINOR || may_stop {
        return None;
    }
    let read = read_by_scans(run, table);
    // Its plan under other values, or another statement's, was executed.
    let calls = statement.counters.as_ref().map_or(0.0, |c| c.calls);
    if read.is_none() && calls >= 10.0 && run.table(table).is_some() {
        return None;
    }
    let by = served(filter, facts);
    // With the values at hand the planner does without the alternatives that do not hold.
    if by == Served::ByValues && read.is_none() {
        return None;
    }
    let column = match by {
        Served::Part(part) => compared(part, facts),
        _ => None,
    };
    let saw = match searches {
        true => format!("{table} is read whole, {rows:.0} rows, for those that match {filter}."),
        false => format!(
            "{table} is read whole, {rows:.0} rows, for about {matching:.0} that match {filter}."
        ),
    };
    let part = Part::of_work(evidence, statement, part);
    let mut evidence = Vec::new();
    if let Some((scans, each)) = read {
        evidence.push(format!(
            "{scans:.0} sequential scans of {table} in the measured time, {each:.0} rows each"
        ));
    }
    let forbidden = match by {
        Served::ByValues => generic(run),
        _ => forbidden(run, column.as_ref(), filter, facts),
    };
    evidence.extend(
        forbidden
            .iter()
            .map(|name| format!("{name} = {}", run.setting(name).unwrap_or_default())),
    );
    // Fitted afterwards to where they are set.
    let mut steps: Vec<(StepKind, String)> = match forbidden.as_slice() {
        [] => Vec::new(),
        names => vec![(
            StepKind::Sql,
            names
                .iter()
                .map(|name| format!("ALTER SYSTEM RESET {name}; "))
                .chain(["SELECT pg_reload_conf();".to_owned()])
                .collect::<String>(),
        )],
    };
    let volatile = volatile_in(plan, filter);
    match (&by, volatile) {
        (Served::Part(_), Some((name, signature))) if forbidden.is_empty() => steps.push((
            StepKind::Sql,
            stable(name, signature) + ", and no index serves a comparison with it",
        )),
        // An index on such an expression can't be made, or would serve this value alone.
        (Served::Part(_), _)
            if form.is_some() && !matches!(column, Some(Compared::Column(_))) =>
        {
            steps.extend(form.map(|form| (StepKind::Advice, form.instead.to_owned())));
        }
        (Served::Part(_), _) if forbidden.is_empty() => {
            steps.push(remedy(table, filter, column.as_ref(), facts));
        }
        (Served::Part(_), _) => {}
        (Served::Alternatives(ways), _) => steps.extend(each_way(table, ways, facts)),
        (Served::ByValues, _) => steps.push((
            StepKind::Advice,
            format!(
                "leave the conditions that are not set out of the statement: in {filter} an alternative looks at no \
                 column, so that no index can serve a plan that is made without the values (a generic plan)"
            ),
        )),
        (Served::Nothing, _) => steps.push((
            StepKind::Advice,
            match form {
                Some(form) => form.instead.to_owned(),
                None => format!(
                    "no index serves {filter}: write it as a comparison of a column with a value, or NOT EXISTS in the \
                     place of NOT IN"
                ),
            },
        )),
    }
    Some(Hit {
        statement,
        part,
        left: by_index(rows, matching).filter(|_| !searches),
        saw,
        confidence: match read {
            _ if searches => Confidence::Medium,
            _ if counted.is_none() && is_guess(node.rows, rows, column.as_ref()) => Confidence::Low,
            Some((_, each)) if each >= 0.3 * rows => Confidence::High,
            _ => Confidence::Medium,
        },
        evidence,
        steps,
    })
}

/// Rows that a node gives, as they were counted: where it is all of the plan, they are the statement's.
pub fn counted(
    statement: &StatementTime,
    plan: &Plan,
    (parent, node): (Option<&Node>, &Node),
) -> Option<f64> {
    let is_all = match parent {
        Some(above) => above.gathers() && std::ptr::eq(above, &plan.root),
        None => std::ptr::eq(node, &plan.root),
    };
    let counters = statement.counters.as_ref();
    // Of few calls the average is chance.
    let counters = counters.filter(|counters| is_all && counters.calls >= 10.0);
    let counted = counters.and_then(|counters| counters.rows);
    counted.or_else(|| {
        // Each worker gives a part of the rows.
        let loops = match plan.root.is_partial(node) {
            true => node.work.map_or(1.0, |work| work.loops),
            false => 1.0,
        };
        let executed = plan.executed.as_ref()?;
        node.actual_rows
            .filter(|_| executed.ms > 0.0)
            .map(|rows| rows * loops)
    })
}

/// A random read does not cost so many times a sequential one on any device.
const ABSURD_RANDOM_COST: f64 = 20.0;

/// Settings that keep the planner from an index that there is.
fn forbidden(
    run: &RunEvidence,
    compared: Option<&Compared>,
    filter: &Expr,
    facts: &RelationFacts,
) -> Vec<&'static str> {
    // These access methods give bitmaps only.
    let by_bitmap = facts.indexes.iter().any(|i| {
        let named = |first: &String| filter.columns().contains(first);
        ["gin", "brin"].contains(&i.method.as_str())
            && i.valid
            && !i.partial
            && i.first.as_ref().is_some_and(named)
    });
    if by_bitmap && run.setting("enable_bitmapscan") == Some("off") {
        return vec!["enable_bitmapscan"];
    }
    let Some(Compared::Column(column)) = compared else {
        return Vec::new();
    };
    let first = Some(unquoted(column));
    let mut indexes = facts.indexes.iter();
    if !indexes.any(|i| i.valid && !i.partial && i.first == first) {
        return Vec::new();
    }
    let off = |name: &&&str| run.setting(name) == Some("off");
    let methods: Vec<&str> = ["enable_indexscan", "enable_bitmapscan"]
        .iter()
        .filter(off)
        .copied()
        .collect();
    if methods.len() == 2 {
        return methods;
    }
    let cost = |name: &str| run.setting(name).and_then(|v| v.parse::<f64>().ok());
    match (cost("random_page_cost"), cost("seq_page_cost")) {
        // Both may be low where all is in memory.
        (Some(random), Some(sequential)) if sequential < 1.0 && random > 4.0 * sequential => {
            vec!["seq_page_cost"]
        }
        (Some(random), Some(sequential)) if random > ABSURD_RANDOM_COST * sequential => {
            vec!["random_page_cost"]
        }
        _ => Vec::new(),
    }
}

/// The setting that has plans made without the values.
fn generic(run: &RunEvidence) -> Vec<&'static str> {
    const MODE: &str = "plan_cache_mode";
    match run.setting(MODE) {
        Some("force_generic_plan") => vec![MODE],
        _ => Vec::new(),
    }
}

/// A function that is called in an expression and is VOLATILE, and how ALTER FUNCTION names it.
fn volatile_in<'p>(plan: &'p Plan, expression: &Expr) -> Option<(&'p str, &'p str)> {
    let called = expression.calls();
    let mut volatile = plan.volatile.iter();
    let found = volatile.find(|(name, _)| called.contains(name));
    found.map(|(name, signature)| (name.as_str(), signature.as_str()))
}

/// Indexes for alternatives that each have one of their own; a bitmap joins them.
fn each_way(table: &str, ways: &[&Expr], facts: &RelationFacts) -> Vec<(StepKind, String)> {
    let lacking = ways.iter().filter_map(|way| match compared(way, facts) {
        Some(Compared::Column(column)) => {
            let name = Some(unquoted(&column));
            let mut indexes = facts.indexes.iter();
            let served = indexes.any(|i| i.valid && !i.partial && i.first == name);
            let sql = format!("CREATE INDEX CONCURRENTLY ON {table} ({column});");
            (!served).then_some((StepKind::Sql, sql))
        }
        Some(Compared::Expression(expression)) => Some(index_on(table, &expression)),
        _ => None,
    });
    let lacking: Vec<(StepKind, String)> = lacking.collect();
    if lacking.is_empty() {
        let union = "write the alternatives as statements of their own, joined by UNION, so that each takes its index";
        return vec![(StepKind::Advice, union.to_owned())];
    }
    lacking
}

/// An index on an expression. Plans are recorded without literals: where the expression has one, the statement is advice.
fn index_on(table: &str, expression: &str) -> (StepKind, String) {
    let sql = format!("CREATE INDEX CONCURRENTLY ON {table} (({expression}));");
    match expression.contains('$') {
        false => (StepKind::Sql, sql),
        true => (
            StepKind::Advice,
            format!("{sql}   -- with the statement's own constant in place of each parameter"),
        ),
    }
}

/// Whether a statement's plan reads a table whole for a few rows.
pub fn reads_whole(evidence: &Evidence, statement: &StatementTime, plan: &Plan) -> bool {
    let mut all = plan.root.all().into_iter();
    all.any(|at| scan(evidence, statement, plan, at).is_some())
}

/// Whether the planner had nothing to go by: of an expression without statistics of its own it takes
/// one row in 200 to match (DEFAULT_EQ_SEL, selfuncs.h), however many do.
fn is_guess(expected: f64, rows: f64, compared: Option<&Compared>) -> bool {
    let of_column = matches!(compared, Some(Compared::Column(_)));
    !of_column && (expected - 0.005 * rows).abs() <= 1.0 + 0.0001 * rows
}

/// What makes the scan unnecessary.
pub fn remedy(
    table: &str,
    filter: &Expr,
    compared: Option<&Compared>,
    facts: &RelationFacts,
) -> (StepKind, String) {
    let of = |column: &str| {
        let name = unquoted(column);
        let mut indexes = facts.indexes.iter();
        indexes.find(move |index| index.first.as_deref() == Some(&name))
    };
    let advice = StepKind::Advice;
    match compared {
        Some(Compared::Column(column)) => match of(column) {
            Some(index) if !index.valid => (
                StepKind::Sql,
                format!(
                    "REINDEX INDEX CONCURRENTLY {};   -- from 12 on: it is invalid, so no query uses it{}",
                    index.name,
                    match index.constraint {
                        true => {
                            "; it is unique: remove duplicates first (SELECT … GROUP BY … HAVING count(*) > 1)"
                        }
                        false => "",
                    }
                ),
            ),
            Some(index) if index.partial => (
                advice,
                format!(
                    "{} covers only some rows: create an index on {table} ({column}) for all of \
                     them, or add its condition to the statement",
                    index.name
                ),
            ),
            Some(index) if index.method == "brin" => (
                StepKind::Sql,
                format!(
                    "CREATE INDEX CONCURRENTLY ON {table} ({column});   -- {} is a BRIN index, which leads to ranges of blocks: useful only \
                     where the values follow the order of the rows",
                    index.name
                ),
            ),
            Some(index) => (
                advice,
                format!(
                    "{} begins with {column} and is not used: compare its definition (type, \
                     collation, operator class) with {filter}, the planner's costs (random_page_cost of the \
                     server and of its tablespace), and ANALYZE {table}",
                    index.name
                ),
            ),
            None => (
                StepKind::Sql,
                format!("CREATE INDEX CONCURRENTLY ON {table} ({column});"),
            ),
        },
        Some(Compared::Cast(column)) => (
            advice,
            format!(
                "pass the value in the type of the column: {column} is converted in each \
                 row ({filter}), so that an index on it can't be used"
            ),
        ),
        Some(Compared::Expression(expression)) => index_on(table, expression),
        None => (
            advice,
            format!("create an index on {table} that serves the condition {filter}"),
        ),
    }
}

fn planning(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let hits = weighty(&run)
        .filter_map(|statement| {
            let counters = statement.counters.as_ref()?;
            let (planning, execution) = (counters.planning_ms?, counters.execution_ms?);
            (planning > execution).then(|| Hit {
                statement,
                part: Part::of_all(planning / (planning + execution)),
                left: None,
                saw: format!(
                    "Planning takes {planning:.3} ms a call, and execution {execution:.3} ms."
                ),
                confidence: Confidence::High,
                evidence: Vec::new(),
                steps: Vec::new(),
            })
        })
        .collect();
    joined(&run, hits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Finding;
    use crate::detect::tests::made::statement;
    use crate::detect::tests::made::{found_with, one};
    use pgassay_evidence::observed::statements::Counters;

    /// A join of a table with 200 partitions, planned for each call or once per session.
    #[test]
    fn planning_that_takes_longer_than_execution_is_found() {
        let of = |planning_ms: f64| -> Vec<Finding> {
            found_with(vec![], |observed| {
                let text = "SELECT count(*) FROM p a JOIN p b ON a.v = b.k WHERE a.k = $1";
                let mut statements = statement(text, None);
                statements.statements[0].counters = Some(Counters {
                    calls: 890.0,
                    planning_ms: Some(planning_ms),
                    execution_ms: Some(0.029),
                    ..Counters::default()
                });
                observed.statements = Some(statements);
            })
        };
        let found = of(2.606);
        let finding = one(&found, "planning-longer");
        assert_eq!(
            finding.saw,
            "Planning takes 2.606 ms a call, and execution 0.029 ms."
        );
        assert_eq!(finding.confidence, Confidence::High);
        let share = 0.8 * 2.606 / 2.635;
        assert!((finding.budget_share.unwrap() - share).abs() < 1e-9);
        assert!(of(0.003).iter().all(|f| f.id != "planning-longer"));
    }

    #[test]
    fn a_guess_of_the_planner_is_no_evidence() {
        let expression = Compared::Expression("(id % $1)".to_owned());
        assert!(is_guess(100.0, 20_000.0, Some(&expression)));
        assert!(is_guess(100.0, 20_000.0, None));
        assert!(!is_guess(1.0, 20_000.0, Some(&expression)));
        let column = Compared::Column("id".to_owned());
        assert!(!is_guess(100.0, 20_000.0, Some(&column)));
    }
}

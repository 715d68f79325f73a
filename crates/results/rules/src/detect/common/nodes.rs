//! Where the time of a statement goes within its plan: what no rule knows is named by the node that takes most of it, as an
//! execution shows it, or else as the planner estimates its cost.

use crate::detect::common::counts;
use crate::detect::common::hits::{Hit, Named, Part, asks_catalogues, is_about, joined, weighty};
use crate::detect::tenths;
use crate::evidence::{Evidence, RunEvidence};
use crate::finding::{Basis, Confidence, Finding, Observation, Severity, StepKind};
use pgassay_evidence::observed::statements::StatementTime;
use pgassay_model::observed::plans::{
    Clause, Expr, Node, NodeType, Operation, Plan, TriggerRun, Work,
};
use pgassay_text::number::counted;

/// The entry.
pub const NODE: &str = "plan-node";

/// A trigger, or a statement within a function, with a smaller part of the execution is not named by itself.
const MOST: f64 = 0.5;
/// Rows that a node goes through below which it does nothing that is much,
const FEW_ROWS: f64 = 1000.0;
/// unless it takes as long as this, in milliseconds.
const LONG_MS: f64 = 1.0;
/// So many times as many rows as the statement gives are too many, from so many rows on.
const TOO_MANY: f64 = 100.0;
const MANY_ROWS: f64 = 10_000.0;
/// Blocks from which on they are many for few rows.
const MANY_BLOCKS: f64 = 100.0;
/// Executions from which on it is these that are many.
const OFTEN: f64 = 100.0;
/// The share of all time from which on what was not executed is named.
const LEAST: f64 = 0.05;
/// Nodes that are named where all are.
const NAMED: usize = 3;
/// What is done where no rule and no form of the node says it.
const NO_REMEDY: &str = "no specific remedy is known: run EXPLAIN (ANALYZE, BUFFERS) with values that the application sends, and look for a form of the statement \
                         that reads fewer rows there";

/// A node, and its part of its plan.
struct Busy<'p> {
    parent: Option<&'p Node>,
    node: &'p Node,
    /// What it did; all zero where the plan was not executed.
    work: Work,
    /// Its part of the execution's time, or of the plan's cost, 0 to 1.
    part: f64,
}

impl Busy<'_> {
    /// Rows that it gave each time.
    fn given(&self) -> f64 {
        self.node.actual_rows.unwrap_or(0.0)
    }

    /// Rows that it looked at, of all times.
    fn gone_through(&self) -> f64 {
        (self.given() + self.work.removed) * self.work.loops
    }

    /// Whether it looks up far more blocks than a row takes. Who writes a row looks up its place in the table and in each
    /// index, and gives none.
    fn reads_many_blocks(&self) -> bool {
        !self.node.writes()
            && self.work.blocks >= MANY_BLOCKS
            && self.work.blocks >= 20.0 * self.given() * self.work.loops
    }

    /// Whether what it does is much.
    fn does_much(&self) -> bool {
        self.gone_through() >= FEW_ROWS
            || self.work.loops >= OFTEN
            || self.work.ms >= LONG_MS && !self.node.writes()
            || self.reads_many_blocks()
    }

    /// It, and what it did.
    fn described(&self) -> String {
        let mut text = called(self.node);
        if let Some(index) = &self.node.index {
            text += &format!(" using {index}");
        }
        text += &match self.work.loops {
            0.0 => format!(", {} expected", rows(self.node.rows)),
            loops if loops > 1.0 => {
                format!(", executed {loops:.0} times, {} each", rows(self.given()))
            }
            _ => format!(", {}", rows(self.given())),
        };
        if self.reads_many_blocks() {
            text += &format!(", {:.0} blocks looked up", self.work.blocks);
        }
        if self.work.removed >= 1.0 {
            text += &format!(", {:.0} more taken away", self.work.removed);
            if let Some(condition) = condition(self.node) {
                text += &format!(" by {condition}");
            }
        }
        text
    }
}

fn rows(number: f64) -> String {
    match number.round() {
        1.0 => "1 row".to_owned(),
        number => format!("{number:.0} rows"),
    }
}

/// What a node is called.
fn called(node: &Node) -> String {
    let of = node
        .relation
        .as_ref()
        .or(node.function.as_ref())
        .or(node.cte.as_ref());
    match of {
        Some(of) => format!("{} on {of}", node.kind),
        None => node.kind.to_string(),
    }
}

fn condition(node: &Node) -> Option<&Expr> {
    node.any_of(&[Clause::Filter, Clause::JoinFilter, Clause::RecheckCond])
        .next()
}

/// The nodes of a plan that was executed, the busiest first.
fn busy(plan: &Plan) -> Option<Vec<Busy<'_>>> {
    let executed = plan.executed.as_ref()?;
    let of_triggers: f64 = executed.triggers.iter().map(|t| t.ms).sum();
    Some(nodes(&plan.root, of_triggers))
}

/// The same below a node, beside other milliseconds.
fn nodes(root: &Node, beside: f64) -> Vec<Busy<'_>> {
    let all = root.all().into_iter();
    let ran: Vec<_> = all
        .filter_map(|(parent, node)| Some((parent, node, node.work?)))
        .collect();
    let total = ran.iter().map(|(_, _, work)| work.ms).sum::<f64>() + beside;
    let of = |(parent, node, work): (_, _, Work)| Busy {
        parent,
        node,
        work,
        part: work.ms / total.max(f64::MIN_POSITIVE),
    };
    sorted(ran.into_iter().map(of).collect())
}

/// The nodes of a plan by their estimated cost, without that of their inputs, the most expensive first.
fn estimated(plan: &Plan) -> Vec<Busy<'_>> {
    let total = plan.root.cost.max(f64::MIN_POSITIVE);
    let cost = |node: &Node| plan.root.times(node).unwrap_or(1.0) * node.cost;
    let all = plan.root.all().into_iter().map(|(parent, node)| {
        let inputs: f64 = node.nodes.iter().map(cost).sum();
        Busy {
            parent,
            node,
            work: Work::default(),
            part: ((cost(node) - inputs).max(0.0) / total).min(1.0),
        }
    });
    sorted(all.collect())
}

fn sorted(mut all: Vec<Busy<'_>>) -> Vec<Busy<'_>> {
    all.sort_by(|a, b| b.part.total_cmp(&a.part));
    all
}

/// The part of an execution that goes to scans of a relation which look up far more blocks than their rows take.
pub fn through(plan: &Plan, relation: &str) -> Option<f64> {
    let all = busy(plan)?;
    let scans = all
        .iter()
        .filter(|busy| busy.node.relation.as_deref() == Some(relation) && busy.reads_many_blocks());
    let parts: Vec<f64> = scans.map(|busy| busy.part).collect();
    (!parts.is_empty()).then(|| parts.iter().sum())
}

/// The busiest nodes of a plan that was executed, in words.
pub fn busiest(plan: &Plan) -> Option<String> {
    let all = busy(plan)?;
    let named = all.iter().filter(|busy| busy.part >= 0.05).take(NAMED);
    let named: Vec<String> = named
        .map(|busy| format!("{} {}", tenths(busy.part), busy.described()))
        .collect();
    let ms = plan.executed.as_ref()?.ms;
    (!named.is_empty()).then(|| {
        format!(
            "in an execution of {ms:.2} ms its plan's busiest nodes were: {}",
            named.join("; ")
        )
    })
}

/// Statements whose time goes to one node of their plan, or to a trigger, as far as no rule says what is wrong with them.
pub fn look(evidence: &Evidence, findings: &[Finding]) -> Vec<Named> {
    let Some(run) = &evidence.run else {
        return Vec::new();
    };
    let mut named = Vec::new();
    let mut whole = Vec::new();
    for statement in weighty(run) {
        if asks_catalogues(statement) || is_told(statement, findings) {
            continue;
        }
        let at = At {
            evidence,
            run,
            statement,
        };
        let found = match &statement.plan {
            Some(plan) if plan.executed.is_some() => at
                .inner(plan)
                .or_else(|| at.trigger(plan))
                .or_else(|| at.node(plan)),
            Some(plan) => at.estimated(plan).or_else(|| {
                whole.push(statement);
                None
            }),
            None => {
                whole.push(statement);
                None
            }
        };
        named.extend(found);
    }
    named.extend(statements(evidence, run, whole));
    named.extend(catalogue::asked(evidence, run));
    named
}

/// Statements of which no plan says which step takes the time, as one finding.
fn statements(evidence: &Evidence, run: &RunEvidence, those: Vec<&StatementTime>) -> Option<Named> {
    let hits = those.into_iter().filter_map(|statement| {
        let part = spared(evidence, statement, 1.0);
        (statement.share * part.time >= LEAST).then(|| Hit {
            statement,
            part,
            left: None,
            saw: "No plan says which step of a statement takes its time.".to_owned(),
            confidence: Confidence::Medium,
            evidence: Vec::new(),
            steps: vec![(StepKind::Advice, NO_REMEDY.to_owned())],
        })
    });
    let seen = joined(run, hits.collect())?;
    Some(Named {
        entry: NODE,
        subject: Some("whole-statement".to_owned()),
        title: "Statements without a plan take much of the time".to_owned(),
        // That a statement takes much of the time of a load is nothing wrong by itself.
        seen: seen.open().severity(Severity::Info),
    })
}

/// The part of a statement that less work in a part of it would spare. Waits that have causes of their own are findings of
/// their own, wherever in the plan they happen.
fn spared(evidence: &Evidence, statement: &StatementTime, part: f64) -> Part {
    let work = Part::of_work(evidence, statement, part);
    let beside = Part::of_waits(statement, of_others);
    Part {
        time: work.time.min(1.0 - beside.time),
        ..work
    }
}

/// Whether a rule says what is wrong with a statement.
fn is_told(statement: &StatementTime, findings: &[Finding]) -> bool {
    let mut rules = findings.iter().filter(|finding| {
        finding.basis == Basis::Statements
            // An estimate that is wrong is often the fault of what the statement asks for.
            && finding.id != "rows-misestimated"
            && finding.severity >= Severity::Medium
            && finding.confidence >= Confidence::Medium
    });
    rules.any(|finding| is_about(finding, statement))
}

/// A statement that takes much of the time.
struct At<'a> {
    evidence: &'a Evidence<'a>,
    run: &'a RunEvidence<'a>,
    statement: &'a StatementTime,
}

impl At<'_> {
    /// The node that takes most of the time.
    fn node(&self, plan: &Plan) -> Option<Named> {
        let all =
            busy(plan).filter(|_| !counts::changed_nothing(self.run, self.statement, plan))?;
        let first = all.first()?;
        // What a function does is said by what ran within it, or not at all.
        if !first.does_much() || calls(first.node, plan).is_some() || finds(first, plan) {
            return None;
        }
        let given = plan.root.actual_rows.unwrap_or(0.0).max(1.0);
        let through = all.iter().map(Busy::gone_through).fold(0.0, f64::max);
        // Rows that it writes are not given, and of a sum or a count none but one.
        let root = &plan.root;
        let sums = root.sums();
        let gives = !root.writes() && !sums;
        let wastes = through >= MANY_ROWS && through >= TOO_MANY * given && gives
            || first.reads_many_blocks();
        let saw = format!(
            "{} of the time of a statement goes to one node of its plan: {}.",
            tenths(first.part),
            first.described()
        );
        let mut seen = self.about(first.part, saw).severity(match wastes {
            true => Severity::Medium,
            false => Severity::Low,
        });
        if through >= TOO_MANY * given && gives {
            seen = seen.seen(format!(
                "{through:.0} rows are gone through for {given:.0} that it gives"
            ));
        }
        if first.work.loops > 1.0 || first.node.rows < first.given() {
            seen = seen.seen(format!(
                "the planner expected {:.0} rows each time",
                first.node.rows
            ));
        }
        Some(named(first, seen.advice(step(first, plan))))
    }

    /// The most expensive node of a plan that was not executed.
    fn estimated(&self, plan: &Plan) -> Option<Named> {
        let all = estimated(plan);
        let first = all.first()?;
        let part = spared(self.evidence, self.statement, first.part);
        if self.statement.share * part.time < LEAST {
            return None;
        }
        let calls = calls(first.node, plan);
        let saw = format!(
            "{} of the estimated cost of a statement is that of one node of its plan: {}{}.",
            tenths(first.part),
            first.described(),
            calls.map_or_else(String::new, |function| format!(", which calls {function}"))
        );
        let step = match calls {
            Some(function) => format!(
                "see what {function} does: SET auto_explain.log_nested_statements = on; SET auto_explain.log_min_duration = 0; SET client_min_messages = log, after LOAD \
                 'auto_explain', then send the statement"
            ),
            None => NO_REMEDY.to_owned(),
        };
        let seen = self.about(first.part, saw).severity(Severity::Medium);
        let seen = seen.confidence(Confidence::Medium).advice(step);
        Some(named(first, seen))
    }

    /// A statement within a function or trigger that takes most of the time.
    fn inner(&self, plan: &Plan) -> Option<Named> {
        let executed = plan.executed.as_ref()?;
        let first = executed.inner.first()?;
        let all = executed.ms.max(first.ms).max(f64::MIN_POSITIVE);
        let often = f64::from(first.calls) >= OFTEN;
        let part = (first.ms / all).clamp(0.0, 1.0);
        if part < MOST {
            return None;
        }
        let saw = format!(
            "{} of the time of a statement goes to one within its functions or triggers, {} of {:.3} ms: {}",
            tenths(part),
            counted(u64::from(first.calls), "call"),
            first.ms / f64::from(first.calls.max(1)),
            first.text
        );
        let mut seen = self.about(part, saw);
        let busiest = first
            .root
            .as_ref()
            .map(|root| nodes(root, 0.0))
            .unwrap_or_default();
        let wastes = busiest
            .first()
            .is_some_and(|busy| busy.gone_through() >= MANY_ROWS);
        seen = seen.severity(if often || wastes {
            Severity::Medium
        } else {
            Severity::Low
        });
        if often {
            seen = seen.advice(
                "have the function do it in one statement for all rows, in place of one for each",
            );
        }
        if let Some(busy) = busiest.first() {
            seen = seen.seen(format!(
                "{} of that in its plan's busiest node: {}",
                tenths(busy.part),
                busy.described()
            ));
            if busy.does_much() {
                seen = seen.advice(step(busy, plan));
            }
        }
        Some(Named {
            entry: NODE,
            subject: Some("within-functions".to_owned()),
            title: "A statement within a function takes most of the time".to_owned(),
            seen,
        })
    }

    /// A trigger that takes most of the time.
    fn trigger(&self, plan: &Plan) -> Option<Named> {
        let executed = plan.executed.as_ref()?;
        let slowest = executed
            .triggers
            .iter()
            .max_by(|a, b| a.ms.total_cmp(&b.ms))?;
        let part = slowest.ms / executed.ms.max(slowest.ms).max(f64::MIN_POSITIVE);
        if part < MOST {
            return None;
        }
        let name = trigger(slowest);
        let each = slowest.ms / slowest.calls.max(1.0);
        let saw = format!(
            "{} of the time of a statement goes to {name}: {:.0} calls of {each:.3} ms.",
            tenths(part),
            slowest.calls,
        );
        let inserts = plan.root.operation == Some(Operation::Insert);
        // The key that is referred to always has an index: what finds a row by it is what a sound key costs.
        let is_sound = slowest.constraint.is_some() && inserts && each < LONG_MS;
        let advice = match &slowest.constraint {
            Some(_) if inserts => {
                "each row that is written looks up the row that it refers to and locks it: write several rows a statement, and see whether the time is \
                 a wait for that row, which another transaction may hold (FOR UPDATE, or a change of its key); for many rows at a time, the constraint \
                 added after they are loaded"
            }
            Some(_) => {
                "an index on the columns of the foreign key, on the side that is searched; for many rows at a time, the \
                 constraint added after they are loaded"
            }
            None => {
                "have it fire only where it is needed: UPDATE OF the columns that it works on, WHEN (OLD.column IS DISTINCT FROM \
                 NEW.column); or its work done once for a statement (FOR EACH STATEMENT with REFERENCING)"
            }
        };
        Some(Named {
            entry: NODE,
            subject: Some(name.replace(' ', "-")),
            title: format!("Most of a statement's time goes to {name}"),
            seen: self
                .about(part, saw)
                .severity(match is_sound {
                    true => Severity::Low,
                    false => Severity::Medium,
                })
                .advice(advice),
        })
    }

    /// A part of a statement's execution. What mending it wins may be more: other nodes work for this one.
    fn about(&self, part: f64, saw: String) -> Observation {
        let part = spared(self.evidence, self.statement, part);
        let share = self.statement.share * part.time;
        let plan = self.statement.plan.as_ref();
        let executed = plan.and_then(|plan| plan.executed.as_ref());
        Observation::measured(Basis::Statements, Some(share), saw)
            .of_cpu((self.statement.cpu_share * part.cpu).min(1.0))
            .open()
            .of_statements([self.statement])
            .seen(format!(
                "{} of {} goes to: {}",
                tenths(self.statement.share),
                self.run.whole(),
                self.statement.named()
            ))
            .all_seen(executed.map(|executed| {
                format!(
                    "an execution with values that the load sends took {:.2} ms",
                    executed.ms
                )
            }))
    }
}

/// A finding about a node, under its name.
fn named(busy: &Busy, seen: Observation) -> Named {
    let name = called(busy.node);
    Named {
        entry: NODE,
        subject: Some(name.replace(' ', "-")),
        title: format!("The most expensive node of a plan: {name}"),
        seen: seen.of_relations(busy.node.relation.clone()),
    }
}

/// Whether a node only finds the rows that the statement changes, all of them and no others.
fn finds(busy: &Busy, plan: &Plan) -> bool {
    let root = &plan.root;
    let feeds = busy.parent.is_some_and(|parent| std::ptr::eq(parent, root));
    feeds && root.writes() && busy.work.removed < 1.0 && !busy.reads_many_blocks()
}

/// Whether less work would not spare a wait: for other sessions, for the log, for the client, for a time; for files to be
/// written or made longer.
fn of_others(name: &str) -> bool {
    let (kind, event) = name.split_once(':').unwrap_or((name, ""));
    let event = event.to_ascii_lowercase();
    match kind {
        "Lock" | "Client" | "Timeout" => true,
        "IPC" => event == "syncrep",
        "LWLock" => event.starts_with("wal"),
        "IO" => {
            event.starts_with("wal")
                || event.starts_with("datafile")
                    && !event.ends_with("read")
                    && !event.ends_with("prefetch")
        }
        _ => false,
    }
}

fn trigger(of: &TriggerRun) -> String {
    match (&of.constraint, &of.trigger) {
        (Some(constraint), _) => format!("the constraint {constraint} on {}", of.relation),
        (None, Some(trigger)) => format!("the trigger {trigger} on {}", of.relation),
        (None, None) => format!("a trigger on {}", of.relation),
    }
}

/// What to look at, by what the node does.
fn step(busy: &Busy, plan: &Plan) -> String {
    let node = busy.node;
    let table = node.relation.as_deref().unwrap_or(node.kind.as_str());
    if busy.work.temporary_blocks > 0.0 {
        return format!(
            "it wrote {:.0} blocks of temporary files: more work_mem for this statement, or fewer and narrower rows",
            busy.work.temporary_blocks
        );
    }
    let searches = node.relation.is_some() || node.conditions.contains_key(&Clause::JoinFilter);
    if searches && busy.work.removed >= 10.0 * busy.given().max(1.0) {
        let by = condition(node).map_or_else(|| "its condition".to_owned(), ToString::to_string);
        return format!(
            "an index that finds the rows which {by} keeps: on what it compares, and in a form that compares columns as they are"
        );
    }
    if busy.reads_many_blocks() {
        return format!(
            "{:.0} blocks for {:.0} rows: an index whose leading columns bound the scan, in the order of the conditions; VACUUM or \
             REINDEX where dead or empty pages are in the way; rows that lie together (CLUSTER)",
            busy.work.blocks,
            busy.given() * busy.work.loops
        );
    }
    let is_inner = busy.parent.is_some_and(|parent| {
        parent.kind == NodeType::NestedLoop
            && parent
                .nodes
                .get(1)
                .is_some_and(|inner| std::ptr::eq(inner, node))
    });
    if busy.work.loops >= OFTEN && within_subplan(&plan.root, node) {
        return "write the subquery, which is executed for each row, as a join, or as an aggregate that is joined; where it goes over the rows \
             before or after the current one, as a window function: sum(…) OVER (ORDER BY …)"
            .to_owned();
    }
    if busy.work.loops >= OFTEN {
        let drives = match is_inner {
            true => busy
                .parent
                .and_then(|parent| parent.nodes.first())
                .map(called),
            false => None,
        };
        let drives = drives.map_or_else(
            || "what is above it".to_owned(),
            |name| format!("each row of {name}"),
        );
        return format!(
            "it is executed for {drives}: have fewer rows there (conditions, or the aggregate before the join), or a join by hash \
             (see whether the planner expects so many rows)"
        );
    }
    match node.kind {
        NodeType::Sort | NodeType::IncrementalSort => format!(
            "an index in the order of {}, so that nothing is sorted; or a condition that leaves fewer rows",
            Expr::List(node.sort_key.clone())
        ),
        NodeType::Aggregate | NodeType::WindowAgg | NodeType::Group | NodeType::Unique | NodeType::SetOp => {
            "fewer rows below it, or its result kept: a summary table, a materialized view, a counter".to_owned()
        }
        NodeType::FunctionScan | NodeType::ProjectSet | NodeType::Result | NodeType::TableFunctionScan => format!(
            "{:.0} rows are made by a function each time: have it make fewer, or keep them in a table",
            busy.given()
        ),
        NodeType::ModifyTable => format!(
            "fewer rows or columns written, fewer indexes on {table}; see whether its updates are HOT"
        ),
        _ if busy.gone_through() <= 2.0 * plan.root.actual_rows.unwrap_or(0.0) => {
            "it gives what the statement asks for: fewer rows or columns asked for, or the result kept, in a summary table or by the client"
                .to_owned()
        }
        _ => format!(
            "{:.0} rows of {table} go up each time, and the statement gives {:.0}; {NO_REMEDY}",
            busy.given(),
            plan.root.actual_rows.unwrap_or(0.0)
        ),
    }
}

/// A function in an interpreted language that a node calls.
fn calls<'p>(node: &Node, plan: &'p Plan) -> Option<&'p str> {
    let mut called: Vec<String> = node.conditions.values().flat_map(Expr::calls).collect();
    called.extend(node.function.clone());
    let mut names = plan.functions.keys();
    names.find(|name| called.contains(name)).map(String::as_str)
}

/// Whether a node is a part of a subquery that expressions call.
fn within_subplan(root: &Node, node: &Node) -> bool {
    let path = counts::path(root, node).unwrap_or_default();
    path.iter().any(|above| above.is_subplan())
}

mod catalogue;

#[cfg(test)]
mod tests;

//! Where the time of a statement goes within its plan, as an execution shows it: what no rule knows is named by the node
//! that takes most of it.

use pgassay_model::observed::plans::{Node, Plan, TriggerRun, Work};
use pgassay_text::number::counted;

use super::functions::calls_in;
use super::hits::{Named, Part, asks_catalogues, is_about, weighty};
use super::rewrites::rewrite;
use super::{counts, forms, inner, tenths};
use crate::evidence::{Evidence, RunEvidence};
use crate::finding::{Basis, Confidence, Finding, Observation, Severity, StepKind};
use pgassay_evidence::observed::statements::StatementTime;

/// The entry.
pub(super) const NODE: &str = "plan-node";

/// A node with a smaller part of the execution is not named by itself.
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
/// Nodes that are named where all are.
const NAMED: usize = 3;

/// A node that was executed.
struct Busy<'p> {
    parent: Option<&'p Node>,
    node: &'p Node,
    work: Work,
    /// Its part of the execution's time, 0 to 1.
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
        self.node.kind != "ModifyTable"
            && self.work.blocks >= MANY_BLOCKS
            && self.work.blocks >= 20.0 * self.given() * self.work.loops
    }

    /// Whether what it does is much.
    fn does_much(&self) -> bool {
        self.gone_through() >= FEW_ROWS
            || self.work.loops >= OFTEN
            || self.work.ms >= LONG_MS && self.node.kind != "ModifyTable"
            || self.reads_many_blocks()
    }

    /// It, and what it did.
    fn described(&self) -> String {
        let mut text = called(self.node);
        if let Some(index) = &self.node.index {
            text += &format!(" using {index}");
        }
        text += &match self.work.loops {
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
        None => node.kind.clone(),
    }
}

fn condition(node: &Node) -> Option<&str> {
    let keys = ["Filter", "Join Filter", "Recheck Cond"].iter();
    let mut found = keys.filter_map(|key| node.conditions.get(*key));
    found.next().map(String::as_str)
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
    let mut all: Vec<Busy> = ran.into_iter().map(of).collect();
    all.sort_by(|a, b| b.part.total_cmp(&a.part));
    all
}

/// The part of an execution that goes to scans of a relation which look up far more blocks than their rows take.
pub(super) fn through(plan: &Plan, relation: &str) -> Option<f64> {
    let all = busy(plan)?;
    let scans = all
        .iter()
        .filter(|busy| busy.node.relation.as_deref() == Some(relation) && busy.reads_many_blocks());
    let parts: Vec<f64> = scans.map(|busy| busy.part).collect();
    (!parts.is_empty()).then(|| parts.iter().sum())
}

/// The busiest nodes of a plan that was executed, in words.
pub(super) fn busiest(plan: &Plan) -> Option<String> {
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

/// Statements whose time goes to one node of their plan, or to a trigger, as far as no rule has told what is wrong
/// with them.
pub(super) fn look(evidence: &Evidence, findings: &[Finding]) -> Vec<Named> {
    let Some(run) = &evidence.run else {
        return Vec::new();
    };
    let catalogues = catalogue::asked(evidence, run);
    weighty(run)
        .filter(|statement| !asks_catalogues(statement) && !is_told(statement, findings))
        .filter_map(|statement| {
            let plan = statement.plan.as_ref()?;
            let at = At {
                evidence,
                run,
                statement,
                plan,
            };
            at.inner().or_else(|| at.trigger()).or_else(|| at.node())
        })
        .chain(catalogues)
        .collect()
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

/// A statement that was executed.
struct At<'a> {
    evidence: &'a Evidence<'a>,
    run: &'a RunEvidence<'a>,
    statement: &'a StatementTime,
    plan: &'a Plan,
}

impl At<'_> {
    /// A node that takes most of the time.
    fn node(&self) -> Option<Named> {
        let all = busy(self.plan)
            .filter(|_| !counts::changed_nothing(self.run, self.statement, self.plan))?;
        let first = all.first().filter(|busy| busy.part >= MOST)?;
        // What a function does is said by what ran within it, or not at all.
        if !first.does_much() || calls(first.node, self.plan).is_some() || self.finds(first) {
            return None;
        }
        let given = self.plan.root.actual_rows.unwrap_or(0.0).max(1.0);
        let through = all.iter().map(Busy::gone_through).fold(0.0, f64::max);
        // Rows that it writes are not given, and of a sum or a count none but one.
        let root = &self.plan.root;
        let sums = root.kind == "Aggregate" && root.group_key.is_empty();
        let gives = root.kind != "ModifyTable" && (!sums || told::only_counts(self.plan));
        let wastes = through >= MANY_ROWS && through >= TOO_MANY * given && gives
            || first.reads_many_blocks();
        let saw = format!(
            "{} of the time of a statement goes to one node of its plan: {}.",
            tenths(first.part),
            first.described()
        );
        let lower = self.statement.text.to_ascii_lowercase();
        let is_known = told::known(&told::Seen {
            busy: first,
            plan: self.plan,
            text: &lower,
        })
        .is_some();
        let severity = match wastes || is_known {
            true => Severity::Medium,
            false => Severity::Low,
        };
        let mut seen = self.about(first.part, saw).severity(severity);
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
        let name = called(first.node);
        Some(Named {
            entry: NODE,
            subject: Some(name.replace(' ', "-")),
            title: format!("One node of a plan takes most of its time: {name}"),
            seen: seen.of_relations(first.node.relation.clone()).told(steps(
                first,
                self.plan,
                &self.statement.text,
            )),
        })
    }

    /// Whether a node only finds the rows that the statement changes, all of them and no others.
    fn finds(&self, busy: &Busy) -> bool {
        let root = &self.plan.root;
        let feeds = busy.parent.is_some_and(|parent| std::ptr::eq(parent, root));
        feeds && root.kind == "ModifyTable" && busy.work.removed < 1.0 && !busy.reads_many_blocks()
    }

    /// A statement within a function or trigger that takes most of the time.
    fn inner(&self) -> Option<Named> {
        let executed = self.plan.executed.as_ref()?;
        let first = executed.inner.first()?;
        let all = executed.ms.max(first.ms).max(f64::MIN_POSITIVE);
        let often = f64::from(first.calls) >= OFTEN;
        // What a loop takes around each of its statements goes with these.
        let own = match often && self.looping().is_some() {
            true => {
                all - executed.inner[1..]
                    .iter()
                    .map(|inner| inner.ms)
                    .sum::<f64>()
            }
            false => first.ms,
        };
        let part = (own / all).clamp(0.0, 1.0);
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
        let known = inner::step(&first.text, first.root.as_ref());
        let wastes = known.is_some()
            || busiest
                .first()
                .is_some_and(|busy| busy.gone_through() >= MANY_ROWS);
        seen = seen.severity(if often || wastes {
            Severity::Medium
        } else {
            Severity::Low
        });
        seen = seen.told(self.by_body(first));
        if let Some((kind, text)) = known {
            seen = seen.step(kind, text);
        } else if often {
            seen = seen.advice(self.in_one(first));
        }
        if let Some(busy) = busiest.first() {
            seen = seen.seen(format!(
                "{} of that in its plan's busiest node: {}",
                tenths(busy.part),
                busy.described()
            ));
            if busy.does_much() {
                seen = seen.told(steps(busy, self.plan, &first.text));
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
    fn trigger(&self) -> Option<Named> {
        let executed = self.plan.executed.as_ref()?;
        let slowest = executed
            .triggers
            .iter()
            .max_by(|a, b| a.ms.total_cmp(&b.ms))?;
        let part = slowest.ms / executed.ms.max(slowest.ms).max(f64::MIN_POSITIVE);
        if part < MOST {
            return None;
        }
        let name = named_trigger(slowest);
        let each = slowest.ms / slowest.calls.max(1.0);
        let saw = format!(
            "{} of the time of a statement goes to {name}: {:.0} calls of {each:.3} ms.",
            tenths(part),
            slowest.calls,
        );
        let inserts = self.plan.root.operation.as_deref() == Some("Insert");
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
        let work = Part::of_work(self.evidence, self.statement, part);
        // Waits that have causes of their own are findings of their own, wherever in the plan they happen.
        let beside = Part::of_waits(self.statement, of_others);
        let share = self.statement.share * work.time.min(1.0 - beside.time);
        let executed = self.plan.executed.as_ref();
        Observation::measured(Basis::Statements, Some(share), saw)
            .of_cpu((self.statement.cpu_share * work.cpu).min(1.0))
            .open()
            .of_statements([self.statement])
            .seen(format!(
                "{} of {} goes to: {}",
                tenths(self.statement.share),
                self.run.whole(),
                self.statement.named()
            ))
            .seen(format!(
                "an execution with values that the load sends took {:.2} ms",
                executed.map_or(0.0, |executed| executed.ms)
            ))
    }
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

fn named_trigger(of: &TriggerRun) -> String {
    match (&of.constraint, &of.trigger) {
        (Some(constraint), _) => format!("the constraint {constraint} on {}", of.relation),
        (None, Some(trigger)) => format!("the trigger {trigger} on {}", of.relation),
        (None, None) => format!("a trigger on {}", of.relation),
    }
}

impl Observation {
    /// The same with what is done about a node.
    fn told(self, steps: Vec<(StepKind, String)>) -> Self {
        steps
            .into_iter()
            .fold(self, |seen, (kind, text)| seen.step(kind, text))
    }
}

/// What to do, by what the node does: a condition that can be written otherwise before all else.
fn steps(busy: &Busy, plan: &Plan, text: &str) -> Vec<(StepKind, String)> {
    let node = busy.node;
    let seen = told::Seen {
        busy,
        plan,
        text: &text.to_ascii_lowercase(),
    };
    if let Some(known) = told::known(&seen) {
        return known;
    }
    let discards = busy.work.removed >= 10.0 * busy.given().max(1.0);
    let filter = node.conditions.get("Filter").filter(|_| discards);
    let of_table = node.relation.as_deref().and_then(|table| {
        let facts = plan.relations.get(table)?;
        rewrite(filter?, table, facts, text)
    });
    match of_table {
        Some(otherwise) => otherwise.steps,
        None => vec![(StepKind::Advice, step(busy, plan))],
    }
}

/// What to look at, by what the node does.
fn step(busy: &Busy, plan: &Plan) -> String {
    let node = busy.node;
    let table = node.relation.as_deref().unwrap_or(&node.kind);
    if busy.work.temporary_blocks > 0.0 {
        return format!(
            "it wrote {:.0} blocks of temporary files: more work_mem for this statement, or fewer and narrower rows",
            busy.work.temporary_blocks
        );
    }
    let wrapper = plan
        .relations
        .get(table)
        .and_then(|facts| facts.wrapper.as_deref());
    if wrapper == Some("file_fdw") {
        return format!(
            "{table} is a file (file_fdw), which has no index and is read and taken apart anew for each scan: load it into a table with a key as often as \
             it comes (COPY, INSERT … SELECT from the foreign table), or keep it in a materialized view with an index"
        );
    }
    if node.kind == "Foreign Scan" && busy.work.removed >= 10.0 * busy.given().max(1.0) {
        let by = condition(node).unwrap_or("its condition");
        return format!(
            "{by} is not sent to the foreign server, which gives all rows: make what it compares with a value before, as functions that are \
             not IMMUTABLE (now()) and operators of other extensions are not sent: column >= (SELECT now() - interval '1 hour'), or a parameter"
        );
    }
    // A form that no index serves is told of what to write.
    let filter = ["Filter", "Join Filter"]
        .iter()
        .find_map(|key| node.conditions.get(*key));
    if let Some(form) = filter.and_then(|filter| forms::known(filter))
        && busy.work.removed >= 10.0 * busy.given().max(1.0)
        && form.searches
    {
        return form.instead.to_owned();
    }
    let searches = node.relation.is_some() || node.conditions.contains_key("Join Filter");
    if searches && busy.work.removed >= 10.0 * busy.given().max(1.0) {
        let by = condition(node).unwrap_or("its condition");
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
        parent.kind == "Nested Loop"
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
    match node.kind.as_str() {
        "Sort" | "Incremental Sort" => format!(
            "an index in the order of {}, so that nothing is sorted; or a condition that leaves fewer rows",
            node.sort_key.join(", ")
        ),
        "Aggregate" | "WindowAgg" | "Group" | "Unique" | "SetOp" => {
            "fewer rows below it, or its result kept: a summary table, a materialized view, a counter".to_owned()
        }
        "Function Scan" | "ProjectSet" | "Result" | "Table Function Scan" => format!(
            "{:.0} rows are made by a function each time: have it make fewer, or keep them in a table",
            busy.given()
        ),
        "ModifyTable" => format!(
            "fewer rows or columns written, fewer indexes on {table}; see whether its updates are HOT"
        ),
        _ if busy.gone_through() <= 2.0 * plan.root.actual_rows.unwrap_or(0.0) => {
            "it gives what the statement asks for: fewer rows or columns asked for, or the result kept, in a summary table or by the client"
                .to_owned()
        }
        _ if calls(node, plan).is_none() => format!(
            "{:.0} rows of {table} go up each time, and the statement gives {:.0}: a condition that reaches it, an index in the order that a \
             LIMIT asks for, or the result kept in a summary table",
            busy.given(),
            plan.root.actual_rows.unwrap_or(0.0)
        ),
        _ => "the functions that it calls for each row: see whether they are needed for so many".to_owned(),
    }
}

/// A function in an interpreted language that a node calls.
fn calls<'p>(node: &Node, plan: &'p Plan) -> Option<&'p str> {
    let mut names = plan.functions.keys();
    let name = names.find(|name| {
        node.conditions
            .values()
            .any(|text| calls_in(text, name) > 0)
            || node.function.as_ref() == Some(name)
    });
    name.map(String::as_str)
}

/// Whether a node is a part of a subquery that expressions call.
fn within_subplan(root: &Node, node: &Node) -> bool {
    let path = counts::path(root, node).unwrap_or_default();
    path.iter()
        .any(|above| above.relationship.as_deref() == Some("SubPlan"))
}

mod catalogue;
mod told;
mod within;

#[cfg(test)]
mod tests;

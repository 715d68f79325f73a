//! More work than a statement's result is worth: rows read and thrown away, indexes written that nobody
//! reads, processes started for a few rows.

use super::conditions::{Compared, compared, conjuncts, disjuncts};
use super::hits::{Hit, Left, Part, joined, with_plans};
use super::plans::reads_whole;
use super::{Detector, counts, run, tenths};
use crate::bottlenecks::evidence::{Evidence, RunEvidence};
use crate::bottlenecks::finding::{Confidence, Observation, StepKind};
use crate::observed::statements::StatementTime;
use crate::profile::Work;
use pgassay_model::observed::growth::Grown;
use pgassay_model::observed::plans::{IndexFacts, Node, Plan, RelationFacts};
use pgassay_text::quote::quote_ident;

pub(super) const DETECTORS: &[Detector] = &[
    run("rows-discarded", discarded),
    run("indexes-unread", unread),
    run("parallel-for-little", parallel),
];

/// Rows read by each scan below which it does not matter how many are thrown away.
const FEW_READ: f64 = 200.0;
/// So many times as many rows read as needed are too many.
const TOO_MANY: f64 = 20.0;

fn grown<'a>(run: &RunEvidence<'a>, name: &str) -> Option<&'a Grown> {
    run.observed?
        .growth
        .as_ref()?
        .tables
        .iter()
        .find(|t| t.name == name)
}

/// Rows of a table that each scan by an index fetched.
fn fetched(table: &Grown) -> Option<f64> {
    let scans = table.by("idx_scan");
    (scans >= 10.0).then(|| table.by("idx_tup_fetch") / scans)
}

fn discarded(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let hits = with_plans(&run, |statement, plan| {
        skipped(evidence, statement, plan).or_else(|| filtered(evidence, statement, plan))
    });
    joined(&run, hits)
}

/// Rows that an OFFSET passes over.
fn skipped<'a>(evidence: &Evidence, statement: &'a StatementTime, plan: &Plan) -> Option<Hit<'a>> {
    let run = &evidence.run?;
    let all = plan.root.all();
    let (_, limit) = all.iter().find(|(_, node)| node.kind == "Limit")?;
    let mut words = statement.text.split(|c: char| !c.is_alphanumeric());
    if !words.any(|word| word.eq_ignore_ascii_case("offset")) {
        return None;
    }
    let (name, each) = limit.all().into_iter().find_map(|(_, node)| {
        let name = node.relation.as_deref()?;
        let table = grown(run, name)?;
        let scans = table.by("idx_scan") + table.by("seq_scan");
        // Scans of an index alone fetch no rows of the table.
        let read = table.by("idx_tup_fetch") + table.by("seq_tup_read");
        Some((name, read / scans.max(1.0)))
    })?;
    let given = statement.counters.as_ref().and_then(|c| c.rows);
    let wanted = given.unwrap_or(limit.rows).max(1.0);
    let part = limit.cost / plan.root.cost.max(limit.cost).max(f64::MIN_POSITIVE);
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
             pagination), without OFFSET"
                .to_owned(),
        )],
    })
}

/// Rows that an index finds and a filter throws away, of the table of which most are read.
fn filtered<'a>(evidence: &Evidence, statement: &'a StatementTime, plan: &Plan) -> Option<Hit<'a>> {
    let run = &evidence.run?;
    let scans = plan.root.all().into_iter().filter_map(|(_, node)| {
        let by_index = matches!(node.kind.as_str(), "Index Scan" | "Bitmap Heap Scan");
        let name = node.relation.as_deref().filter(|_| by_index)?;
        let table = grown(run, name)?;
        node.conditions.get("Filter")?;
        Some((table.by("idx_tup_fetch"), fetched(table)?, name, node))
    });
    let (_, each, name, node) = scans.max_by(|a, b| a.0.total_cmp(&b.0))?;
    let filter = node.conditions.get("Filter")?;
    let facts = plan.relations.get(name)?;
    let (wanted, confidence) = match counts::kept(run, statement, plan, node) {
        Some(kept) => (kept.max(1.0), Confidence::High),
        // By the statistics of the one column that it compares; of all else the planner guesses.
        None => {
            let one = conjuncts(filter).len() == 1 && disjuncts(filter).len() == 1;
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
    let (index, step) = better_index(name, node, filter, facts);
    let times = plan.root.times(node).unwrap_or(1.0);
    let cost = times * node.cost;
    let part = cost / plan.root.cost.max(cost).max(f64::MIN_POSITIVE);
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
        saw: format!("{index} finds {each:.0} rows of {name} for each scan, of which {matching}."),
        confidence,
        evidence: Vec::new(),
        steps: vec![step],
    })
}

/// The index that was used, and the step that makes one which needs no filter: of the columns that the filter compares
/// for equality as they are. No other condition is sure to have a plain index.
fn better_index(
    table: &str,
    node: &Node,
    filter: &str,
    facts: &RelationFacts,
) -> (String, (StepKind, String)) {
    let used = node
        .index
        .clone()
        .or_else(|| node.nodes.iter().find_map(|n| n.index.clone()));
    let first = |name: &String| -> Option<String> {
        let known = facts
            .indexes
            .iter()
            .find(|i| i.name.rsplit('.').next() == Some(name.as_str()));
        known.and_then(|i: &IndexFacts| i.first.clone())
    };
    let first = used.as_ref().and_then(first);
    let mut columns: Vec<String> = Vec::new();
    for part in conjuncts(filter) {
        let is_one = disjuncts(part).len() == 1 && !part.starts_with("NOT ");
        if let (true, Some(Compared::Column(column))) = (is_one, compared(part, facts))
            && !columns.contains(&column)
            && first.as_deref() != Some(column.trim_matches('"'))
        {
            columns.push(column);
        }
    }
    let step = match (columns.is_empty(), first) {
        (false, Some(first)) => (
            StepKind::Sql,
            format!(
                "CREATE INDEX CONCURRENTLY ON {table} ({}, {});",
                columns.join(", "),
                quote_ident(&first)
            ),
        ),
        _ if disjuncts(filter).len() > 1 => (
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
    };
    (used.unwrap_or_else(|| "An index".to_owned()), step)
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
            .find(|(_, n)| matches!(n.operation.as_deref(), Some("Insert" | "Update")))?;
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
            left: Left::new(0.0, "CPU samples in writing indexes, as many of them as are not read"),
            saw: format!(
                "{} of the {} indexes of {name} are written and were never read since their counters began.",
                idle.len(),
                facts.indexes.len()
            ),
            confidence: Confidence::Medium,
            evidence: share
                .map(|share| format!("{} of the CPU samples are in writing indexes", tenths(share)))
                .into_iter()
                .collect(),
            steps: vec![
                (
                    StepKind::Sql,
                    idle.iter().map(|i| format!("DROP INDEX CONCURRENTLY {};", i.name)).collect::<Vec<_>>().join(" "),
                ),
                (
                    StepKind::Advice,
                    "first see since when its counters count (pg_stat_database.stats_reset), and that no standby reads them"
                        .to_owned(),
                ),
            ],
        })
    });
    joined(&run, hits)
}

/// Waits of a session for its parallel workers (PostgreSQL manual, "Wait Events of Type IPC").
const FOR_WORKERS: &[&str] = &[
    "BgworkerStartup",
    "BgWorkerStartup",
    "BgworkerShutdown",
    "BgWorkerShutdown",
    "ExecuteGather",
    "ParallelFinish",
    "MessageQueueInternal",
    "MessageQueueReceive",
    "MessageQueuePutMessage",
    "MessageQueueSend",
];
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
        let gathers = all
            .iter()
            .any(|(_, n)| matches!(n.kind.as_str(), "Gather" | "Gather Merge"));
        let took = statement.counters.as_ref().and_then(|c| c.execution_ms);
        let short = took.map_or(plan.root.cost < LITTLE_COST, |ms| ms < LONG_MS);
        // An index would do away with the workers, too.
        if !gathers || !short || reads_whole(evidence, statement, plan) {
            return None;
        }
        let at = |name: &str| {
            let event = name.split_once(':').map_or(name, |(_, event)| event);
            FOR_WORKERS
                .iter()
                .any(|known| known.eq_ignore_ascii_case(event))
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
mod tests {
    use std::collections::BTreeMap;

    use super::super::tests::budget::{found_on_full_cpus, found_with, one};
    use super::*;
    use crate::bottlenecks::Finding;
    use crate::observed::PointObserved;
    use crate::observed::statements::{Counters, StatementAnalysis, StatementWait};
    use pgassay_model::observed::growth::GrowthRecord;

    fn found(
        text: &str,
        root: Node,
        facts: RelationFacts,
        rows: f64,
        (waits, at): (Vec<(&'static str, &'static str, f64)>, &str),
        grown: &[(&str, f64)],
    ) -> Vec<Finding> {
        found_beside(text, root, facts, rows, (waits, at), grown, &[])
    }

    /// The same with counters of another table, `public.u`.
    fn found_beside(
        text: &str,
        root: Node,
        facts: RelationFacts,
        rows: f64,
        (waits, at): (Vec<(&'static str, &'static str, f64)>, &str),
        grown: &[(&str, f64)],
        other: &[(&str, f64)],
    ) -> Vec<Finding> {
        found_with(waits, beside(text, root, facts, (rows, at), grown, other))
    }

    /// Puts that into what was observed.
    fn beside(
        text: &str,
        root: Node,
        facts: RelationFacts,
        (rows, at): (f64, &str),
        grown: &[(&str, f64)],
        other: &[(&str, f64)],
    ) -> impl FnOnce(&mut PointObserved) + use<> {
        let plan = Plan {
            root,
            relations: BTreeMap::from([("public.t".to_owned(), facts)]),
            ..Plan::default()
        };
        let statement = StatementTime {
            text: text.into(),
            sightings: 90,
            share: 0.9,
            cpu_share: 0.9,
            running: 1.0,
            sessions: 6.0,
            waits: vec![StatementWait {
                name: at.to_owned(),
                sessions: 4.0,
            }],
            counters: Some(Counters {
                calls: 100.0,
                execution_ms: Some(5.0),
                rows: Some(rows),
                ..Counters::default()
            }),
            plan: Some(plan),
            ..StatementTime::default()
        };
        let table = |name: &str, grown: &[(&str, f64)]| Grown {
            name: name.into(),
            grown: grown.iter().map(|(k, v)| ((*k).to_owned(), *v)).collect(),
            ..Grown::default()
        };
        let tables = vec![table("public.t", grown), table("public.u", other)];
        move |observed| {
            observed.statements = Some(StatementAnalysis {
                looks: 100,
                sightings: 100,
                statements: vec![statement],
                other_sessions: 0.0,
                elsewhere: None,
            });
            observed.growth = Some(GrowthRecord {
                tables,
                ..GrowthRecord::default()
            });
        }
    }

    fn scan(kind: &str, filter: &str) -> Node {
        let conditions = match filter {
            "" => BTreeMap::new(),
            filter => BTreeMap::from([("Filter".to_owned(), filter.to_owned())]),
        };
        Node {
            kind: kind.into(),
            relation: Some("public.t".into()),
            index: Some("t_a".into()),
            conditions,
            rows: 10.0,
            cost: 9.0,
            ..Node::default()
        }
    }

    #[test]
    fn workers_that_a_scan_brings_go_with_it() {
        let filtered = Node {
            cost: 3400.0,
            ..scan("Seq Scan", "(t.a = $1)")
        };
        let root = Node {
            kind: "Gather".into(),
            cost: 4400.0,
            nodes: vec![filtered],
            ..Node::default()
        };
        let facts = RelationFacts {
            rows: Some(200_000.0),
            columns: vec!["a".into()],
            ..RelationFacts::default()
        };
        let read = [("seq_scan", 100.0), ("seq_tup_read", 2e7)];
        let findings = found(
            "SELECT 1 FROM t WHERE a = $1",
            root,
            facts,
            1.0,
            NONE,
            &read,
        );
        let scan = one(&findings, "sequential-scan");
        assert!((scan.budget_share.unwrap() - 0.9).abs() < 1e-9, "{scan:#?}");
    }

    const NONE: (Vec<(&str, &str, f64)>, &str) = (Vec::new(), "");

    #[test]
    fn an_offset_that_passes_over_thousands_is_told_how_to_page() {
        let root = || Node {
            kind: "Limit".into(),
            rows: 20.0,
            nodes: vec![scan("Index Scan", "")],
            ..Node::default()
        };
        let counted = [("idx_scan", 100.0), ("idx_tup_fetch", 5e6)];
        let text = "SELECT a FROM t ORDER BY a LIMIT $1 OFFSET $2";
        let findings = found(text, root(), RelationFacts::default(), 20.0, NONE, &counted);
        assert!(
            one(&findings, "rows-discarded").remedy[0]
                .text
                .contains("keyset")
        );
        let few = [("idx_scan", 100.0), ("idx_tup_fetch", 4000.0)];
        let findings = found(text, root(), RelationFacts::default(), 20.0, NONE, &few);
        assert!(findings.iter().all(|f| f.id != "rows-discarded"));
    }

    #[test]
    fn an_index_that_finds_far_more_than_the_filter_leaves_is_completed() {
        let facts = RelationFacts {
            columns: vec!["a".into(), "b".into()],
            indexes: vec![IndexFacts {
                name: "public.t_a".into(),
                first: Some("a".into()),
                valid: true,
                ..IndexFacts::default()
            }],
            ..RelationFacts::default()
        };
        let counted = [("idx_scan", 100.0), ("idx_tup_fetch", 4e6)];
        let findings = found(
            "SELECT",
            scan("Index Scan", "(t.b = $1)"),
            facts,
            1.0,
            NONE,
            &counted,
        );
        let text = &one(&findings, "rows-discarded").remedy[0].text;
        assert_eq!(text, "CREATE INDEX CONCURRENTLY ON public.t (b, a);");
    }

    /// A guess of the planner's is no count, and no index can be made on a column of type json.
    #[test]
    fn what_a_filter_leaves_is_counted_or_not_told() {
        let facts = || RelationFacts {
            columns: vec!["doc".into(), "carrier".into()],
            indexes: vec![IndexFacts {
                name: "public.t_a".into(),
                first: Some("carrier".into()),
                valid: true,
                ..IndexFacts::default()
            }],
            ..RelationFacts::default()
        };
        let filter =
            "(((t.doc ->> $1::text) = $2::text) AND (NOT ((t.doc ->> $3::text))::boolean))";
        let scan = || Node {
            rows: 1.0,
            ..scan("Bitmap Heap Scan", filter)
        };
        let counted = [("idx_scan", 100.0), ("idx_tup_fetch", 40_000.0)];
        let grouped = Node {
            kind: "Aggregate".into(),
            rows: 1.0,
            nodes: vec![scan()],
            ..Node::default()
        };
        let findings = found("SELECT", grouped, facts(), 1.5, NONE, &counted);
        assert!(
            findings.iter().all(|f| f.id != "rows-discarded"),
            "{findings:#?}"
        );
        let findings = found("SELECT", scan(), facts(), 2.0, NONE, &counted);
        let discarded = one(&findings, "rows-discarded");
        assert!(discarded.saw.contains("of which 2 match"), "{discarded:#?}");
        assert!(
            !discarded.remedy[0].text.contains("CREATE INDEX"),
            "{discarded:#?}"
        );
    }

    /// A nested loop's scans of its inner side say how many rows of the outer the filter left.
    #[test]
    fn a_loop_counts_what_the_filter_leaves() {
        let facts = || RelationFacts {
            columns: vec!["a".into(), "b".into()],
            ..RelationFacts::default()
        };
        let of = |matching: f64| {
            let outer = Node {
                rows: 1.0,
                ..scan("Bitmap Heap Scan", "(t.b = $1)")
            };
            let inner = Node {
                relation: Some("public.u".into()),
                ..scan("Index Scan", "")
            };
            let root = Node {
                kind: "Aggregate".into(),
                rows: 1.0,
                nodes: vec![Node {
                    kind: "Nested Loop".into(),
                    nodes: vec![outer, inner],
                    rows: 1.0,
                    ..Node::default()
                }],
                ..Node::default()
            };
            let counted = [("idx_scan", 100.0), ("idx_tup_fetch", 20_000.0)];
            let more = [("idx_scan", 100.0 * matching)];
            found_beside("SELECT", root, facts(), 1.0, NONE, &counted, &more)
        };
        let all = of(200.0);
        assert!(all.iter().all(|f| f.id != "rows-discarded"), "{all:#?}");
        let estimate = one(&all, "rows-misestimated");
        assert!(
            estimate.saw.contains("1 rows where 200 come"),
            "{estimate:#?}"
        );
        let few = of(2.0);
        assert!(one(&few, "rows-discarded").saw.contains("of which 2 match"));
    }

    /// The side that is read most is the one that the evidence names, by the counters and not by the plan.
    #[test]
    fn the_busiest_nodes_are_counted() {
        let side = |name: &str, rows: f64| Node {
            relation: Some(name.into()),
            rows,
            ..scan("Index Scan", "")
        };
        let root = || Node {
            kind: "Nested Loop".into(),
            nodes: vec![side("public.t", 500.0), side("public.u", 80.0)],
            rows: 1.0,
            cost: 200.0,
            ..Node::default()
        };
        let of = |t: f64, u: f64| {
            let counted = |rows: f64| [("idx_scan", 1000.0), ("idx_tup_fetch", rows)];
            let edit = beside(
                "SELECT",
                root(),
                RelationFacts::default(),
                (1.0, ""),
                &counted(t),
                &counted(u),
            );
            let found = found_on_full_cpus(edit);
            one(&found, "cpu-saturated").evidence.join("; ")
        };
        let told = of(100_000.0, 800_000.0);
        assert!(
            told.contains("as counted: Index Scan on public.u 8000, Index Scan on public.t 1000"),
            "{told}"
        );
        // What was counted and is little is not replaced by a guess.
        assert!(
            !of(1000.0, 2000.0).contains("busiest"),
            "{}",
            of(1000.0, 2000.0)
        );
    }

    #[test]
    fn indexes_that_are_only_written_are_listed() {
        let index = |name: &str, scans: f64, constraint: bool| IndexFacts {
            name: name.into(),
            valid: true,
            constraint,
            scans: Some(scans),
            ..IndexFacts::default()
        };
        let of = |read: f64| {
            let facts = RelationFacts {
                indexes: vec![
                    index("t_pkey", 0.0, true),
                    index("t_b", read, false),
                    index("t_c", 0.0, false),
                    index("t_d", 0.0, false),
                ],
                ..RelationFacts::default()
            };
            let root = Node {
                kind: "ModifyTable".into(),
                operation: Some("Insert".into()),
                relation: Some("public.t".into()),
                ..Node::default()
            };
            found("INSERT", root, facts, 1.0, NONE, &[])
        };
        let findings = of(0.0);
        let text = &one(&findings, "indexes-unread").remedy[0].text;
        assert!(text.contains("t_b") && !text.contains("t_pkey"), "{text}");
        assert!(of(7.0).iter().all(|f| f.id != "indexes-unread"));
    }

    #[test]
    fn workers_for_a_few_milliseconds_are_not_worth_it() {
        let root = Node {
            kind: "Gather".into(),
            nodes: vec![scan("Seq Scan", "")],
            ..Node::default()
        };
        let waits = (
            vec![("IPC", "BgworkerShutdown", 4.0)],
            "IPC:BgworkerShutdown",
        );
        let findings = found("SELECT", root, RelationFacts::default(), 1.0, waits, &[]);
        assert!(
            one(&findings, "parallel-for-little").remedy[0]
                .text
                .contains("max_parallel_workers_per_gather")
        );
    }
}

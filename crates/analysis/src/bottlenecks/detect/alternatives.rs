//! Plans under other settings that the planner takes to be much cheaper.

use std::collections::BTreeMap;

use pgassay_model::observed::plans::{Alternative, DISABLE_COST, Node, Plan};
use pgassay_text::number::memory_bytes;

use super::hits::{Hit, Left, Part, joined, with_plans};
use super::plans::read_by_scans;
use super::spilling::{fitting, more_memory, temporary_bytes};
use super::{Detector, run};
use crate::bottlenecks::evidence::{Evidence, RunEvidence};
use crate::bottlenecks::finding::{Confidence, Observation, StepKind};
use crate::observed::statements::StatementTime;

pub(super) const DETECTORS: &[Detector] = &[
    run("plan-by-settings", |evidence| {
        cheaper(evidence, |setting| setting != MEMORY && setting != COMPILES)
    }),
    run("jit-small-queries", |evidence| {
        cheaper(evidence, |setting| setting == COMPILES)
    }),
    run("plan-by-memory", |evidence| {
        cheaper(evidence, |setting| setting == MEMORY)
    }),
];

/// The part of a plan's cost below which another is clearly cheaper.
const CLEARLY: f64 = 2.0 / 3.0;
/// A plan that costs less is not worth another.
const CHEAP: f64 = 100.0;
/// The setting that bounds the memory of a node.
const MEMORY: &str = "work_mem";
/// The setting that leaves out partitions which hold nothing that is asked for.
const PRUNES: &str = "enable_partition_pruning";
/// The setting that has expressions compiled.
const COMPILES: &str = "jit";

/// The statements that have a cheaper plan under one of these settings.
fn cheaper(evidence: &Evidence, of: fn(&str) -> bool) -> Option<Observation> {
    let run = evidence.run?;
    let hits = with_plans(&run, |statement, plan| {
        let others = plan.alternatives.iter().filter(|a| of(&a.setting));
        let hits = others.filter_map(|other| hit(evidence, &run, statement, plan, other));
        let mut hits: Vec<Hit> = hits.collect();
        // One that is surer before one that promises more.
        let left = |hit: &Hit| hit.left.as_ref().map_or(1.0, |left| left.of_part);
        hits.sort_by(|a, b| {
            let surer = b.confidence.cmp(&a.confidence);
            surer.then(left(a).total_cmp(&left(b)))
        });
        // Of several that were executed each by itself is faster: none of them is as it should be.
        let sure = hits
            .iter()
            .skip(1)
            .filter(|hit| hit.confidence == Confidence::High);
        let also: Vec<_> = sure.flat_map(|hit| hit.steps.clone()).collect();
        let mut first = hits.into_iter().next()?;
        first.steps.extend(also);
        Some(first)
    });
    // Statements may each have a setting of their own.
    let steps: Vec<_> = hits.iter().flat_map(|hit| hit.steps.clone()).collect();
    let mut seen = joined(&run, hits)?;
    for (kind, text) in steps {
        if of(MEMORY) || seen.remedy.iter().any(|step| step.text == text) {
            continue;
        }
        seen = seen.step(kind, text);
    }
    Some(seen)
}

fn hit<'s>(
    evidence: &Evidence,
    run: &RunEvidence,
    statement: &'s StatementTime,
    plan: &Plan,
    other: &Alternative,
) -> Option<Hit<'s>> {
    let (from, to) = (
        plan.root.cost % DISABLE_COST,
        other.root.cost % DISABLE_COST,
    );
    let ratio = to / from.max(f64::MIN_POSITIVE);
    if let Some(times) = other.times_ms {
        return timed(evidence, run, statement, plan, other, times);
    }
    if from < CHEAP || ratio > CLEARLY {
        return None;
    }
    let Alternative { setting, value, .. } = other;
    let (gone, instead) = differences(&plan.root, &other.root);
    let mut seen = Vec::new();
    let listed = hashed_list(&other.root).filter(|_| hashed_list(&plan.root).is_none());
    if let Some(list) = &listed {
        seen.push(format!(
            "{list} is hashed then, once; now it is gone through for each row"
        ));
    } else if !gone.is_empty() && !instead.is_empty() {
        seen.push(format!(
            "in the place of {}: {}",
            gone.join(", "),
            instead.join(", ")
        ));
    }
    seen.push("costs are the planner's estimates, not times".to_owned());
    let confidence;
    let step;
    if setting == MEMORY {
        let written = temporary_bytes(statement);
        // A sort is taken to be dear where it would go to a file, and nobody saw one.
        confidence = match (written.is_some(), listed.is_some()) {
            (true, _) => Confidence::High,
            (false, true) => Confidence::Medium,
            _ => Confidence::Low,
        };
        // What makes the plan cheaper may still spill.
        let fits = written.map_or(0.0, fitting);
        step = more_memory(run, fits.max(memory_bytes(&other.tried)? as f64));
    } else {
        // Whole reads that the other plan does not have, and that were counted.
        let whole = gone
            .iter()
            .filter_map(|node| node.strip_prefix("Seq Scan on "));
        let counted = whole.clone().any(|table| {
            let rows = plan.relations.get(table).and_then(|facts| facts.rows);
            let read = read_by_scans(run, table);
            read.zip(rows)
                .is_some_and(|((_, each), rows)| each >= 0.3 * rows)
        });
        confidence = match counted {
            true => Confidence::High,
            false => Confidence::Medium,
        };
        step = set(other);
    }
    Some(Hit {
        statement,
        part: Part::of_work(evidence, statement, 1.0),
        left: Left::new(
            ratio,
            format!(
                "the planner's cost, {from:.0} with {setting} = {value} and {to:.0} with {}",
                other.tried
            ),
        ),
        saw: format!(
            "{setting} = {value} is likely to make a plan dear: it costs {from:.0} by the planner's estimate, and {to:.0} with {setting} = {}.",
            other.tried
        ),
        confidence,
        evidence: seen,
        steps: vec![step],
    })
}

/// The processes that execute a plan at the same time.
fn processes(root: &Node) -> f64 {
    let all = root.all().into_iter();
    let of_gather = all.filter(|(_, node)| matches!(node.kind.as_str(), "Gather" | "Gather Merge"));
    let loops = |node: &Node| node.work.map_or(1.0, |work| work.loops.max(1.0));
    of_gather
        .filter_map(|(_, node)| Some(loops(node.nodes.first()?) / loops(node)))
        .fold(1.0, f64::max)
}

/// The CPUs that a plan has when it is executed alone. Where the load has a session for each, sessions with workers have no
/// more of them than without.
fn cpus_alone(run: &RunEvidence, root: &Node) -> f64 {
    let cpus = run.host.cpus.map_or(1.0, f64::from);
    match f64::from(run.point.point.clients) >= cpus {
        true => processes(root).min(cpus),
        false => 1.0,
    }
}

/// A plan that was executed, too: what the server comes with of a setting of costs makes it faster.
fn timed<'s>(
    evidence: &Evidence,
    run: &RunEvidence,
    statement: &'s StatementTime,
    plan: &Plan,
    other: &Alternative,
    (own, others): (f64, f64),
) -> Option<Hit<'s>> {
    let Alternative { setting, value, .. } = other;
    let (cpus, cpus_then) = (cpus_alone(run, &plan.root), cpus_alone(run, &other.root));
    let ratio = others * cpus_then / (own * cpus).max(f64::MIN_POSITIVE);
    // Compiled or not, the plan is the same.
    if ratio > CLEARLY && setting != COMPILES {
        return None;
    }
    let (gone, instead) = differences(&plan.root, &other.root);
    let mut seen = Vec::new();
    if !gone.is_empty() && !instead.is_empty() {
        let (gone, instead) = (gone.join(", "), instead.join(", "));
        seen.push(format!("in the place of {gone}: {instead}"));
    }
    let with = match other.is_default {
        true => "its default",
        false => other.tried.as_str(),
    };
    let on = |cpus: f64| match cpus > 1.0 {
        true => format!(" on {cpus:.0} CPUs"),
        false => String::new(),
    };
    let times = format!(
        "{own:.2} ms{} with {setting} = {value}, {others:.2} ms{} with {with}",
        on(cpus),
        on(cpus_then)
    );
    if setting == "random_page_cost" {
        seen.push(
            "the default of 4 is meant for disks that turn; on SSDs, and for data in memory, a page anywhere costs little \
             more than the next one"
                .to_owned(),
        );
    }
    let saw = match setting == COMPILES {
        true => {
            seen.clear();
            format!(
                "Compiling the expressions of a statement takes longer than it saves: executed, it took {times}."
            )
        }
        false => format!(
            "{setting} = {value} has the planner choose a plan that is slower: executed, it took {times}."
        ),
    };
    Some(Hit {
        statement,
        part: match setting == PRUNES {
            // What is left out is not planned either.
            true => Part::of_text(evidence, statement),
            false => Part::of_work(evidence, statement, 1.0),
        },
        left: Left::new(ratio, format!("an execution of each plan: {times}")),
        saw,
        confidence: Confidence::High,
        evidence: seen,
        steps: vec![set(other)],
    })
}

/// What gives the other plan: the value that the server comes with, or another for all. More orders of joins take longer
/// to plan, too: those are for who sends the statement.
fn set(other: &Alternative) -> (StepKind, String) {
    let Alternative { setting, tried, .. } = other;
    let of_joins = setting.ends_with("_collapse_limit") || setting.starts_with("geqo");
    let text = if other.is_default {
        format!("ALTER SYSTEM RESET {setting}; SELECT pg_reload_conf();")
    } else if of_joins {
        format!(
            "SET {setting} = {tried};   -- in the sessions that send it, for good by ALTER ROLE"
        )
    } else {
        format!("ALTER SYSTEM SET {setting} = {tried}; SELECT pg_reload_conf();")
    };
    (StepKind::Sql, text)
}

/// The list that a plan hashes, of a subplan, in words.
fn hashed_list(root: &Node) -> Option<String> {
    let all = root.all().into_iter();
    let (_, list) = all
        .filter_map(|(parent, node)| Some((parent?, node)))
        .find(|(parent, node)| parent.hashes(node))?;
    let table = list.all().into_iter().find_map(|(_, n)| n.relation.clone());
    let of = table.map_or_else(String::new, |table| format!(" of {table}"));
    Some(format!("the list of {:.0} rows{of}", list.rows))
}

/// Nodes that are named on either side.
const NAMED: usize = 3;

/// The nodes of a plan that the other does not have, and those that it has instead.
fn differences(from: &Node, to: &Node) -> (Vec<String>, Vec<String>) {
    let (from, to) = (nodes(from), nodes(to));
    let beyond = |these: &BTreeMap<String, (u32, f64)>, those: &BTreeMap<String, (u32, f64)>| {
        let known = |name: &String| those.get(name).map_or(0, |(count, _)| *count);
        let more = these
            .iter()
            .filter(|(name, (count, _))| *count > known(name));
        let mut more: Vec<(&String, f64)> = more.map(|(name, (_, cost))| (name, *cost)).collect();
        more.sort_by(|a, b| b.1.total_cmp(&a.1));
        let named = more.into_iter().take(NAMED);
        named.map(|(name, _)| name.clone()).collect::<Vec<_>>()
    };
    (beyond(&from, &to), beyond(&to, &from))
}

/// The nodes of a plan in words, how often each is there and what it costs; scans before joins.
fn nodes(root: &Node) -> BTreeMap<String, (u32, f64)> {
    let mut named: BTreeMap<String, (u32, f64)> = BTreeMap::new();
    for (_, node) in root.all() {
        // What hands on, or is a part of the scan above it.
        if matches!(
            node.kind.as_str(),
            "Hash" | "Materialize" | "Bitmap Index Scan"
        ) {
            continue;
        }
        let mut name = node.kind.clone();
        if let Some(relation) = &node.relation {
            name = format!("{name} on {relation}");
        }
        let entry = named.entry(name).or_default();
        entry.0 += 1;
        let scans = f64::from(u8::from(node.relation.is_some()));
        entry.1 = entry.1.max(node.cost % DISABLE_COST + scans * DISABLE_COST);
    }
    named
}

#[cfg(test)]
mod tests {
    use super::super::database::tests::statement;
    use super::super::tests::made::{found_with_settings, one};
    use super::*;
    use crate::bottlenecks::Finding;
    use crate::bottlenecks::finding::Severity;
    use pgassay_model::observed::plans::{RelationFacts, Work};

    fn node(kind: &str, relation: &str, cost: f64, nodes: Vec<Node>) -> Node {
        Node {
            kind: kind.into(),
            relation: (!relation.is_empty()).then(|| relation.to_owned()),
            cost,
            rows: 10.0,
            nodes,
            ..Node::default()
        }
    }

    fn whole(cost: f64) -> Node {
        let scan = |table: &str| node("Seq Scan", table, cost / 2.0, vec![]);
        node(
            "Hash Join",
            "",
            cost,
            vec![scan("public.a"), scan("public.b")],
        )
    }

    fn few(cost: f64) -> Node {
        let scan = |table: &str| node("Index Scan", table, cost / 2.0, vec![]);
        node(
            "Nested Loop",
            "",
            cost,
            vec![scan("public.a"), scan("public.b")],
        )
    }

    fn found(base: Node, setting: &str, tried: &str, is_default: bool, root: Node) -> Vec<Finding> {
        let plan = Plan {
            root: base,
            relations: [("public.a".to_owned(), RelationFacts::default())].into(),
            alternatives: vec![Alternative {
                setting: setting.into(),
                value: "1".into(),
                tried: tried.into(),
                is_default,
                root,
                times_ms: None,
            }],
            ..Plan::default()
        };
        found_with_settings(&[("join_collapse_limit", "1", "user")], |observed| {
            observed.statements = Some(statement("SELECT 1", Some(plan)));
        })
    }

    #[test]
    fn a_setting_is_taken_back_where_it_was_set() {
        let limit = "join_collapse_limit";
        let found = found(whole(9000.0), limit, "8", true, few(30.0));
        let finding = one(&found, "plan-by-settings");
        assert_eq!(
            finding.remedy[0].text,
            "ALTER ROLE app RESET join_collapse_limit;   -- for new sessions"
        );
        assert!(
            finding
                .saw
                .contains("costs 9000 by the planner's estimate, and 30 with")
        );
        assert_eq!(finding.confidence, Confidence::Medium);
        assert!(
            finding
                .evidence
                .iter()
                .any(|e| e.contains("in the place of Seq Scan on public.a")),
            "{:?}",
            finding.evidence
        );
    }

    #[test]
    fn a_plan_that_was_executed_too_is_told_by_its_time() {
        let of = |times| {
            let plan = Plan {
                root: whole(30.0),
                alternatives: vec![Alternative {
                    setting: "cpu_index_tuple_cost".into(),
                    value: "100".into(),
                    tried: "0.005".into(),
                    is_default: true,
                    root: few(9000.0),
                    times_ms: Some(times),
                }],
                ..Plan::default()
            };
            let set = &[("cpu_index_tuple_cost", "100", "configuration file")];
            found_with_settings(set, |observed| {
                observed.statements = Some(statement("SELECT 1", Some(plan)));
            })
        };
        let found = of((9.0, 0.9));
        let finding = one(&found, "plan-by-settings");
        assert!(
            finding
                .saw
                .contains("took 9.00 ms with cpu_index_tuple_cost = 100, 0.90 ms")
        );
        assert_eq!(finding.confidence, Confidence::High);
        assert!(
            finding.remedy[0]
                .text
                .starts_with("ALTER SYSTEM SET cpu_index_tuple_cost = 0.005")
        );
        assert!(of((9.0, 8.0)).iter().all(|f| f.id != "plan-by-settings"));
    }

    fn executed_alternatives(own: Node, others: Vec<Alternative>) -> Vec<Finding> {
        let plan = Plan {
            root: own,
            alternatives: others,
            ..Plan::default()
        };
        found_with_settings(&[], |observed| {
            observed.statements = Some(statement("SELECT 1", Some(plan)));
        })
    }

    fn timed_at(setting: &str, times: (f64, f64)) -> Alternative {
        Alternative {
            setting: setting.into(),
            value: "0".into(),
            tried: "1".into(),
            is_default: true,
            root: few(9000.0),
            times_ms: Some(times),
        }
    }

    #[test]
    fn of_several_settings_each_that_is_faster_by_itself_is_a_step() {
        let names = ["seq_page_cost", "cpu_tuple_cost", "cpu_operator_cost"];
        let times = [(9.0, 0.5), (9.0, 0.4), (9.0, 8.5)];
        let others = names.iter().zip(times);
        let others = others.map(|(name, times)| timed_at(name, times)).collect();
        let found = executed_alternatives(whole(9000.0), others);
        let finding = one(&found, "plan-by-settings");
        let steps: Vec<&str> = finding.remedy.iter().map(|s| s.text.as_str()).collect();
        assert!(steps[0].contains("cpu_tuple_cost"), "{steps:?}");
        assert!(steps[1].contains("seq_page_cost"), "{steps:?}");
        assert!(
            steps.iter().all(|s| !s.contains("cpu_operator")),
            "{steps:?}"
        );
    }

    /// 8.9 ms on three processes, alone, was 30 ms beside three others on two CPUs.
    #[test]
    fn workers_take_cpus_that_other_sessions_have_under_load() {
        let loops = |loops: f64, node: Node| Node {
            work: Some(Work {
                loops,
                removed: 0.0,
                ms: 1.0,
                blocks: 0.0,
                temporary_blocks: 0.0,
            }),
            ..node
        };
        let scan = loops(3.0, node("Seq Scan", "public.a", 900.0, vec![]));
        let gather = loops(1.0, node("Gather", "", 9000.0, vec![scan]));
        assert!((processes(&gather) - 3.0).abs() < 1e-9);
        let found =
            executed_alternatives(gather, vec![timed_at("parallel_setup_cost", (9.0, 4.0))]);
        let finding = one(&found, "plan-by-settings");
        let rests_on = finding.gain_rests_on.as_deref().unwrap();
        assert!(rests_on.contains("9.00 ms on 2 CPUs with"), "{rests_on}");
        let left = 1.0 - finding.gain_expected.unwrap() / finding.gain_at_most.unwrap();
        assert!((left - 4.0 / 18.0).abs() < 1e-9, "{left}");
    }

    #[test]
    fn settings_that_an_execution_was_slower_with_are_given_the_value_that_was_tried() {
        let of = |setting: &str, value: &str, tried: &str| {
            let plan = Plan {
                root: whole(9000.0),
                alternatives: vec![Alternative {
                    setting: setting.into(),
                    value: value.into(),
                    tried: tried.into(),
                    is_default: false,
                    root: whole(9000.0),
                    times_ms: Some((120.0, 20.0)),
                }],
                ..Plan::default()
            };
            found_with_settings(&[], |observed| {
                observed.statements = Some(statement("SELECT 1", Some(plan)));
            })
        };
        let found = of("random_page_cost", "4", "1.1");
        let pages = one(&found, "plan-by-settings");
        assert!(pages.saw.contains("20.00 ms with 1.1"), "{}", pages.saw);
        assert!(
            pages.remedy[0]
                .text
                .starts_with("ALTER SYSTEM SET random_page_cost = 1.1")
        );
        // Compiling makes no other plan.
        let found = of("jit", "on", "off");
        let compiled = one(&found, "jit-small-queries");
        assert!(
            compiled.saw.contains("20.00 ms with off"),
            "{}",
            compiled.saw
        );
        assert!(
            compiled.remedy[0]
                .text
                .starts_with("ALTER SYSTEM SET jit = off")
        );
        let left = 1.0 - compiled.gain_expected.unwrap() / compiled.gain_at_most.unwrap();
        assert!((left - 20.0 / 120.0).abs() < 1e-9, "{compiled:#?}");
        assert!(found.iter().all(|f| f.id != "plan-by-settings"));
    }

    #[test]
    fn what_is_hardly_cheaper_is_no_finding() {
        let has = |from: f64, to: f64| {
            let found = found(whole(from), "enable_nestloop", "on", true, few(to));
            found.iter().any(|f| f.id == "plan-by-settings")
        };
        assert!(has(9000.0, 3000.0));
        assert!(!has(9000.0, 7000.0));
        assert!(!has(50.0, 1.0));
        // What a forbidden node is said to cost does not count.
        assert!(!has(DISABLE_COST + 9000.0, 8500.0));
        assert!(has(DISABLE_COST + 9000.0, 850.0));
    }

    #[test]
    fn memory_without_a_file_seen_weighs_little() {
        let sorted = |cost: f64| {
            node(
                "Sort",
                "",
                cost,
                vec![node("Seq Scan", "public.a", 100.0, vec![])],
            )
        };
        let found = found(sorted(9000.0), MEMORY, "64MB", false, sorted(3000.0));
        assert_eq!(one(&found, "plan-by-memory").severity, Severity::Low);
    }

    /// A side effect was named in its place: another scan of the table whose rows are looked for in the list.
    #[test]
    fn a_list_that_is_hashed_with_more_memory_is_said_to_be() {
        let of = |scan: &str, condition: &str, cost: f64| {
            let list = Node {
                relationship: Some("SubPlan".into()),
                subplan: Some("SubPlan 1".into()),
                rows: 100_000.0,
                ..node("Seq Scan", "public.b", 1443.0, vec![])
            };
            Node {
                conditions: [("Filter".to_owned(), condition.to_owned())].into(),
                ..node(scan, "public.a", cost, vec![list])
            }
        };
        let gone_through = of("Index Scan", "(NOT (SubPlan $1))", 9000.0);
        let hashed = of("Bitmap Heap Scan", "(NOT (hashed SubPlan $1))", 900.0);
        let found = found(gone_through, MEMORY, "16MB", false, hashed);
        let finding = one(&found, "plan-by-memory");
        let said = finding.evidence.iter();
        let said: Vec<&String> = said
            .filter(|e| e.contains("hashed") || e.contains("in the place"))
            .collect();
        assert_eq!(
            said,
            [
                "the list of 100000 rows of public.b is hashed then, once; now it is gone through for each row"
            ]
        );
        assert_eq!(finding.confidence, Confidence::Medium);
    }
}

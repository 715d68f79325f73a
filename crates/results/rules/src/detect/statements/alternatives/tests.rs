//! What is said of plans under other settings.

use super::*;
use crate::Finding;
use crate::detect::tests::made::{found_with_settings, one, statement};
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
    let found = executed_alternatives(gather, vec![timed_at("parallel_setup_cost", (9.0, 4.0))]);
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

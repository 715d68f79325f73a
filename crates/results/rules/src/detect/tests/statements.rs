//! Statements whose plans tell what is wrong: what their findings say, and what stands behind them.

use std::collections::BTreeMap;

use super::made::{found_in_samples, found_on_full_cpus, found_with, found_with_settings, one};
use crate::detect::tests::made::statement;
use crate::finding::{Basis, Circumstances, Confidence, Finding, Observation, Severity};
use crate::order;
use pgassay_evidence::observed::PointObserved;
use pgassay_model::observed::growth::{Grown, GrowthRecord};
use pgassay_model::observed::plans::{Clause, IndexFacts, Node, Plan, RelationFacts};

/// A plan that reads `public.t` of 100000 rows whole for 10 that match.
fn scan(filter: &str) -> Plan {
    let index = |first: &str| IndexFacts {
        name: format!("t_{first}"),
        first: Some(first.to_owned()),
        valid: true,
        ..IndexFacts::default()
    };
    Plan {
        root: Node {
            kind: "Seq Scan".into(),
            relation: Some("public.t".into()),
            conditions: BTreeMap::from([(Clause::Filter, filter.into())]),
            rows: 10.0,
            cost: 4000.0,
            ..Node::default()
        },
        relations: BTreeMap::from([(
            "public.t".to_owned(),
            RelationFacts {
                rows: Some(100_000.0),
                columns: ["a", "b", "c"].map(str::to_owned).to_vec(),
                indexes: vec![index("a"), index("b")],
                ..RelationFacts::default()
            },
        )]),
        ..Plan::default()
    }
}

/// With this many sequential scans in the run.
fn seen(plan: Plan, scans: f64) -> impl FnOnce(&mut PointObserved) {
    move |observed| {
        observed.statements = Some(statement("SELECT 1 FROM t", Some(plan)));
        let counters = [("seq_scan", scans), ("seq_tup_read", 1e5 * scans)];
        let grown = counters.iter().filter(|(_, by)| *by > 0.0);
        observed.growth = Some(GrowthRecord {
            tables: vec![Grown {
                name: "public.t".into(),
                grown: grown.map(|(k, v)| ((*k).to_owned(), *v)).collect(),
                ..Grown::default()
            }],
            ..GrowthRecord::default()
        });
    }
}

fn steps(plan: Plan) -> Vec<String> {
    let findings = found_with(vec![], seen(plan, 300.0));
    let steps = &one(&findings, "sequential-scan").remedy;
    steps.iter().map(|step| step.text.clone()).collect()
}

const BY_VALUES: &str = "((($1 = $2) OR (t.a = $3)) AND (($4 = $5) OR (t.b = $6)))";

#[test]
fn no_index_is_advised_that_could_not_serve() {
    let of = |filter: &str| steps(scan(filter)).join("; ");
    for filter in [BY_VALUES, "(NOT (hashed SubPlan 1))"] {
        assert!(
            !of(filter).contains("CREATE INDEX"),
            "{filter}: {}",
            of(filter)
        );
    }
    // None of all rows: one of those that meet the condition.
    for filter in ["(t.c <> $1)", "(t.c = t.a)"] {
        let told = of(filter);
        let of_some = told.matches("CREATE INDEX").count() == told.matches("(…) WHERE ").count();
        assert!(of_some, "{filter}: {told}");
    }
    assert!(
        of(BY_VALUES).contains("without the values"),
        "{}",
        of(BY_VALUES)
    );
    // One that has the column needs none; the part that no index serves yet gets one.
    assert_eq!(
        of("((t.a = $1) OR (t.c = $2))"),
        "CREATE INDEX CONCURRENTLY ON public.t (c);"
    );
    assert!(of("((t.a = $1) OR (t.b = $2))").contains("UNION"));
    assert_eq!(
        of("((($1 = $2) OR (t.a = $3)) AND (t.c = $4))"),
        "CREATE INDEX CONCURRENTLY ON public.t (c);"
    );
}

#[test]
fn generic_plans_are_taken_back_where_they_were_forced() {
    let settings = &[("plan_cache_mode", "force_generic_plan", "database user")];
    let findings = found_with_settings(settings, seen(scan(BY_VALUES), 300.0));
    let step = &one(&findings, "sequential-scan").remedy[0].text;
    assert_eq!(
        step,
        "ALTER ROLE app IN DATABASE shop RESET plan_cache_mode;   -- for new sessions"
    );
    // The plan that is asked for is generic; with the values at hand another one is made.
    let never = found_with(vec![], seen(scan(BY_VALUES), 0.0));
    assert!(
        never.iter().all(|f| f.id != "sequential-scan"),
        "{never:#?}"
    );
}

#[test]
fn a_volatile_function_in_a_comparison_is_told_of_stable() {
    let mut plan = scan("(t.a = today())");
    plan.volatile = BTreeMap::from([("today".to_owned(), "public.today()".to_owned())]);
    let steps = steps(plan);
    assert!(
        steps[0].starts_with("ALTER FUNCTION public.today() STABLE;"),
        "{steps:?}"
    );
}

#[test]
fn full_cpus_name_the_statement_and_stand_behind_its_cause() {
    let mut findings = found_on_full_cpus(seen(scan("(t.c = $1)"), 300.0));
    order(&mut findings, None);
    let ids: Vec<&str> = findings.iter().map(|f| f.id.as_str()).collect();
    let at = |id: &str| ids.iter().position(|known| *known == id).unwrap();
    assert!(at("sequential-scan") < at("cpu-saturated"), "{ids:?}");
    let full = one(&findings, "cpu-saturated");
    assert!(
        full.symptom_of
            .as_deref()
            .unwrap()
            .contains("sequential-scan"),
        "{full:#?}"
    );
    assert_eq!(full.confidence, Confidence::Medium);
    let evidence = full.evidence.join("; ");
    assert!(evidence.contains("SELECT 1 FROM t"), "{evidence}");
    assert!(
        evidence.contains("rows as the planner expects: Seq Scan on public.t 100000"),
        "{evidence}"
    );
    // Without a cause they are what is found.
    let alone = found_on_full_cpus(|_| {});
    assert_eq!(one(&alone, "cpu-saturated").symptom_of, None);
}

#[test]
fn a_gain_below_a_tenth_is_light_unless_the_cpus_make_it_so() {
    let of = |share: f64, busy: f64| {
        let seen = Observation::measured(Basis::WaitTime, Some(share), "seen");
        let under = Circumstances {
            busy: Some(busy),
            ..Circumstances::default()
        };
        Finding::new(crate::find("hot-row").unwrap(), seen, under).severity
    };
    assert_eq!(of(0.05, 0.2), Severity::Low);
    assert!(of(0.3, 0.2) > Severity::Low);
    assert!(of(0.6, 0.95) > Severity::Low);
}

/// Its own functions hold little of the planner's time: it calls estimates, allocates, and faults.
#[test]
fn planning_is_known_by_what_the_planner_calls_and_its_settings_are_named() {
    let listing = "    70.00%  postgres  postgres  [.] texteq\n            |\n            ---standard_planner\n               \
                   texteq\n    30.00%  postgres  postgres  [.] ExecScan\n";
    let file = "configuration file";
    let findings = found_in_samples(
        listing,
        Box::leak(Box::new([
            ("default_statistics_target", "3000", file),
            ("join_collapse_limit", "8", file),
            ("geqo", "off", file),
        ])),
    );
    let planning = one(&findings, "parse-and-plan");
    assert!(
        planning
            .evidence
            .iter()
            .any(|e| e == "70.0 % within the planner"),
        "{planning:#?}"
    );
    // Nearly all of it goes with the settings: no less is expected.
    assert_eq!(planning.gain_expected, None);
    let steps: Vec<&str> = planning.remedy.iter().map(|s| s.text.as_str()).collect();
    assert!(
        steps[0].contains("SET default_statistics_target = 100") && steps[0].contains("ANALYZE"),
        "{steps:?}"
    );
    assert!(steps[1].contains("SET geqo = on;"), "{steps:?}");
    assert!(
        steps.iter().all(|s| !s.contains("join_collapse_limit")),
        "{steps:?}"
    );
}

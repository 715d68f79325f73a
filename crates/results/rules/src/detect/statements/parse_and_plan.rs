//! Parsing and planning that take more than executing, and what makes planning dear.

use crate::detect::common::cpu_samples::{of_samples, planning_and_parsing};
use crate::detect::common::message_log::trees;
use crate::detect::prelude::*;
use pgassay_evidence::profile::{Class, Work};

pub fn in_samples(evidence: &Evidence) -> Option<Observation> {
    let profile = evidence.profile?;
    let planning = profile.within(Work::Planning).unwrap_or(0.0);
    // What the planner calls counts as its own: memory, the kernel, estimates of any type.
    let within = planning_and_parsing(profile);
    // The functions that print trees for the log count in this class, and run outside of the planner.
    let own = (profile.class(Class::ParseAndPlan) - trees(evidence)).max(0.0);
    let share = own.max(within);
    let executor = profile.class(Class::Executor);
    let most = share >= executor || within >= 0.5;
    (profile.shows(share, 0.15) && most).then(|| {
        let saw = format!(
            "Parsing and planning take {}, more than executing.",
            of_samples(share)
        );
        let seen = Observation::of_samples(share, saw);
        let planner = evidence.run.filter(|_| planning >= 0.5 * share);
        let dear = planner.map_or_else(Vec::new, |run| dear_settings(&run));
        let seen = match profile.within(Work::Parsing) {
            // Without such settings most of the planning is gone, too.
            Some(parsing) if dear.is_empty() => seen.expects(
                parsing / share,
                "parsing; planning is spared, too, where one plan does for all values",
            ),
            _ => seen,
        };
        let seen = seen
            .seen(format!(
                "{} in parser, planner and catalog look-ups",
                tenths(share)
            ))
            .seen(format!("{} in the executor", tenths(executor)));
        let seen = match planner {
            Some(run) => dear_plans(&run, &dear, planning, seen),
            None => seen,
        };
        match evidence.run.filter(RunEvidence::prepares) {
            Some(run) if dear.is_empty() => planned_anew(&run, seen),
            _ => seen,
        }
    })
}

/// Settings that make planning dearer above these values, which the server comes with.
const DEAR: &[(&str, f64)] = &[
    ("default_statistics_target", 100.0),
    ("from_collapse_limit", 8.0),
    ("geqo_threshold", 12.0),
    ("join_collapse_limit", 8.0),
];

/// Switches of the planner, and the position in which they make it dear, which is not the one that the server comes with.
const SWITCHES: &[(&str, &str)] = &[
    ("geqo", "off"),
    ("enable_partitionwise_aggregate", "on"),
    ("enable_partitionwise_join", "on"),
];

fn dear_settings(run: &RunEvidence) -> Vec<&'static str> {
    let raised = DEAR.iter().filter_map(|(name, comes_with)| {
        let value: f64 = run.setting(name)?.parse().ok()?;
        (value > *comes_with).then_some(*name)
    });
    let switched = SWITCHES
        .iter()
        .filter_map(|(name, dear)| (run.setting(name) == Some(*dear)).then_some(*name));
    raised.chain(switched).collect()
}

/// Where planning itself takes the time, what makes it so dear.
fn dear_plans(run: &RunEvidence, dear: &[&str], planning: f64, seen: Observation) -> Observation {
    let seen = seen.seen(format!("{} within the planner", tenths(planning)));
    let seen = dear.iter().fold(seen, |seen, name| {
        let value = run.setting(name).unwrap_or_default();
        let then = match *name {
            "default_statistics_target" => {
                "   -- then ANALYZE: plans compare the lists of common values"
            }
            "enable_partitionwise_join" | "enable_partitionwise_aggregate" => {
                "   -- for reports alone: SET LOCAL, or ALTER ROLE … SET"
            }
            _ => "",
        };
        seen.seen(format!("{name} = {value}")).sql(format!(
            "ALTER SYSTEM RESET {name}; SELECT pg_reload_conf();{then}"
        ))
    });
    if run.prepares() {
        return seen;
    }
    seen.advice(
        "Use prepared statements, so that a plan is kept; ask for the tables that are needed only",
    )
}

/// Statements that are prepared are parsed once, but planned each time where the planner expects a plan
/// for the values at hand to be cheaper than one for all (choose_custom_plan, plancache.c).
fn planned_anew(run: &RunEvidence, seen: Observation) -> Observation {
    let mode = run.setting("plan_cache_mode");
    if mode == Some("force_custom_plan") {
        return seen
            .means(
                "The load prepares its statements, which spares parsing them. They are planned for each execution all the same, since \
                 plan_cache_mode = force_custom_plan forbids plans that are kept.",
            )
            .seen("plan_cache_mode = force_custom_plan")
            .sql("ALTER SYSTEM RESET plan_cache_mode; SELECT pg_reload_conf();")
            .advice(
                "where one statement needs plans for its values, set it for that one: SET LOCAL, ALTER ROLE, or in the function that sends it",
            );
    }
    seen.severity(Severity::Low)
        .means(
            "The load prepares its statements, which spares parsing them. They are planned for each execution all \
             the same, since the planner expects a plan for the values at hand to be cheaper than a generic one.",
        )
        .all_seen(mode.map(|mode| format!("plan_cache_mode = {mode}")))
        .sql(
            "SET plan_cache_mode = force_generic_plan;   -- in a session: compare the plan and the time with EXPLAIN \
             (ANALYZE) EXECUTE",
        )
}

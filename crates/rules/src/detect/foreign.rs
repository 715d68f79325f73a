//! Foreign tables whose server is asked for estimates each time that a statement is planned.

use super::hits::{Hit, Part, joined, with_plans};
use super::samples::planning_and_parsing;
use super::{Detector, run, tenths};
use crate::evidence::Evidence;
use crate::finding::{Confidence, Observation, StepKind};
use pgassay_text::quote::quote_ident;

pub(super) const DETECTORS: &[Detector] = &[run("remote-estimates", estimated)];

/// The part of a statement that planning must be.
const NOTABLE: f64 = 0.2;

fn estimated(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let sampled = evidence.profile.map_or(0.0, planning_and_parsing);
    let hits = with_plans(&run, |statement, plan| {
        let server = plan.remote_estimates.first()?;
        let (planning, executing) = (plan.planning_ms?, plan.executed.as_ref()?.ms);
        let part = planning / (planning + executing).max(f64::MIN_POSITIVE);
        // A plan that is kept is planned once.
        if part < NOTABLE || sampled < 0.5 * NOTABLE && run.prepares() {
            return None;
        }
        let server = quote_ident(server);
        Some(Hit {
            statement,
            part: Part::of_all(part),
            left: None,
            saw: format!(
                "Foreign tables are planned by asking their server (use_remote_estimate): each planning sends EXPLAINs to {server} and waits for them, {planning:.2} ms \
                 beside {executing:.2} ms of execution."
            ),
            confidence: Confidence::High,
            evidence: vec![format!("planning is {} of the two", tenths(part))],
            steps: vec![
                (
                    StepKind::Sql,
                    format!("ALTER SERVER {server} OPTIONS (SET use_remote_estimate 'false');   -- or ALTER FOREIGN TABLE, where that has it"),
                ),
                (
                    StepKind::Advice,
                    "ANALYZE the foreign tables, so that estimates go by statistics that are kept here".to_owned(),
                ),
                (
                    StepKind::Advice,
                    "set it for single foreign tables of large joins; statements that stay prepared keep their plan".to_owned(),
                ),
            ],
        })
    });
    joined(&run, hits)
}

#[cfg(test)]
mod tests {
    use pgassay_model::observed::plans::{Execution, Plan};

    use super::super::database::tests::statement;
    use super::super::tests::made::found_with;

    #[test]
    fn estimates_that_a_server_is_asked_for_are_told_where_they_cost() {
        let told = |remote_estimates: bool, planning: f64| {
            let plan = Plan {
                planning_ms: Some(planning),
                executed: Some(Execution {
                    ms: 0.5,
                    ..Execution::default()
                }),
                remote_estimates: remote_estimates
                    .then(|| "Branch".to_owned())
                    .into_iter()
                    .collect(),
                ..Plan::default()
            };
            let found = found_with(vec![], |observed| {
                observed.statements = Some(statement("SELECT 1 FROM branch.item", Some(plan)));
            });
            found.into_iter().find(|f| f.id == "remote-estimates")
        };
        let found = told(true, 2.0).unwrap();
        assert!(
            found.remedy[0]
                .text
                .starts_with("ALTER SERVER \"Branch\" OPTIONS"),
            "{found:?}"
        );
        assert!(told(false, 2.0).is_none());
        assert!(told(true, 0.05).is_none());
    }
}

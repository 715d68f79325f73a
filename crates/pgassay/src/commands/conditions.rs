//! What must hold in the tables after a load.

use anyhow::bail;

use super::subject::Subject;
use pgassay_engine::workload::setup;
use pgassay_model::Failure;
use pgassay_model::workload::WorkloadPlan;

/// Asks the server whether the workload's conditions hold.
///
/// # Errors
/// Naming those that do not; or where the server can't be asked.
pub fn check(subject: &mut Subject, plan: &WorkloadPlan) -> anyhow::Result<()> {
    let broken = setup::broken_conditions(subject.session()?, plan)?;
    if broken.is_empty() {
        return Ok(());
    }
    bail!(
        Failure::target(format!(
            "after the load the tables of {} contradict themselves on {}: consistency {} not hold",
            plan.name,
            subject.shown,
            in_words(&broken, "does", "do")
        ))
        .with_remedy(
            "transactions were lost or half done: look at the server's log, and at fsync, \
             full_page_writes and triggers of others"
        )
    )
}

/// That they hold, in words; none where a workload has none.
pub fn held(plan: &WorkloadPlan) -> Option<String> {
    let names: Vec<String> = plan.conditions.iter().map(|c| c.name.clone()).collect();
    (!names.is_empty()).then(|| {
        format!(
            "consistency {} after the load",
            in_words(&names, "holds", "hold")
        )
    })
}

fn in_words(names: &[String], one: &str, several: &str) -> String {
    match names {
        [only] => format!("condition {only} {one}"),
        _ => format!("conditions {} {several}", names.join(", ")),
    }
}

//! What was typed for the arms of a comparison, and what of it can't be done.

use anyhow::{Context, bail};
use pgassay_model::Failure;
use pgassay_model::comparison::Typed;
use pgassay_model::workload::WorkloadPlan;
use pgassay_server::TargetSpec;

use super::LABELS;
use super::servers::check_settings;
use crate::cli::compare::CompareArgs;
use crate::commands::copies;
use crate::commands::record::shown;
use crate::exit::explain;

/// What was typed for each arm, checked as far as it goes without a server.
///
/// # Errors
/// Naming the flag or the target, and the remedy.
pub fn typed(args: &CompareArgs) -> anyhow::Result<Vec<Typed>> {
    match args.targets.len() {
        0 | 1 => bail!(
            Failure::usage("a comparison needs two targets or more")
                .with_remedy("pgassay compare A B, such as: pgassay compare temp:15 temp:17")
        ),
        n if n > LABELS.len() => bail!(Failure::usage(format!(
            "{n} targets: at most {} are compared at once",
            LABELS.len()
        ))),
        _ => {}
    }
    check_settings("--set", &args.sides.given.settings)?;
    let own = [
        &args.sides.given.set_a,
        &args.sides.given.set_b,
        &args.sides.given.set_c,
    ];
    for (flag, settings) in ["--set-a", "--set-b", "--set-c"].iter().zip(own) {
        check_settings(flag, settings)?;
    }
    args.targets
        .iter()
        .enumerate()
        .map(|(index, target)| {
            let spec: TargetSpec = target.parse().map_err(explain)?;
            let own = own.get(index).map(|s| s.as_slice()).unwrap_or_default();
            let each = args.set_each.get(index).into_iter().flatten();
            Ok(Typed {
                target: target.clone(),
                settings: args
                    .sides
                    .given
                    .settings
                    .iter()
                    .chain(own)
                    .chain(each)
                    .cloned()
                    .collect(),
                confinement: args.sides.given.of_arm(index),
                copy_of: args
                    .sides
                    .from_database
                    .as_deref()
                    .filter(|_| spec.is_launched())
                    .map(shown),
                ..Typed::default()
            })
        })
        .collect()
}

/// Refuses what a running server can't have.
///
/// # Errors
/// Naming the arm and the remedy.
pub fn refuse_load(args: &CompareArgs, arms: &[(String, Typed)]) -> anyhow::Result<()> {
    for (label, typed) in arms {
        let spec: TargetSpec = typed.target.parse().map_err(explain)?;
        if !spec.is_launched() && !args.paired.load {
            bail!(
                Failure::usage(format!(
                    "{label}: a running server is not loaded without --load"
                ))
                .with_remedy("add --load, or compare launched targets")
            );
        }
        if !typed.confinement.is_empty() && !spec.is_launched() {
            bail!(Failure::usage(format!(
                "{label} runs already: --env, --cpus-all and --wrap are for launched servers"
            )));
        }
        if !spec.is_launched() && args.paired.launches.is_some_and(|n| n > 1) {
            bail!(
                Failure::usage(format!(
                    "{label} runs already: --launches can't start it anew"
                ))
                .with_remedy("name installations or temp targets")
            );
        }
    }
    Ok(())
}

/// Refuses to change somebody's own tables in servers that run already, unless they are copies.
///
/// # Errors
/// Naming the arm.
pub fn refuse_writes(
    workload: &WorkloadPlan,
    arms: &[(String, Typed)],
    is_copy: bool,
) -> anyhow::Result<()> {
    for (label, typed) in arms {
        let spec: TargetSpec = typed.target.parse().map_err(explain)?;
        copies::refuse_writes(workload, &spec, is_copy).with_context(|| label.clone())?;
    }
    Ok(())
}

/// The functions are loaded into servers of our own only.
///
/// # Errors
/// Where one runs already.
pub fn refuse_guests(typed: &[Typed], name: &str) -> anyhow::Result<()> {
    for typed in typed {
        let spec: TargetSpec = typed.target.parse().map_err(explain)?;
        if !spec.is_launched() {
            bail!(
                Failure::usage(format!(
                    "{name} loads a library into the server, which pgassay does only in a server \
                     of its own"
                ))
                .with_remedy("name temp or an installation")
            );
        }
    }
    Ok(())
}

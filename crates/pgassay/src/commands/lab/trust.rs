//! What a plan of somebody else would have executed, and what of that needs a word of the user.

use anyhow::bail;
use pgassay_analysis::lab::LabPlan;
use pgassay_analysis::lab::check::is_script;
use pgassay_far::Place;
use pgassay_model::Failure;
use pgassay_server::TargetSpec;

use crate::exit::explain;

/// Settings by which a server runs programs or loads libraries.
const RUN_PROGRAMS: &[&str] = &[
    "archive_cleanup_command",
    "archive_command",
    "archive_library",
    "dynamic_library_path",
    "extension_control_path",
    "jit_provider",
    "local_preload_libraries",
    "recovery_end_command",
    "restore_command",
    "session_preload_libraries",
    "shared_preload_libraries",
    "ssl_passphrase_command",
];

/// Refuses a recorded command that no plan is lowered to: a lab's directory may be somebody else's. Of the machines
/// of the load those that were typed now (`machines`, flag by flag) are allowed.
///
/// # Errors
/// Naming the command.
pub fn refuse_command(
    command: &[String],
    plan: &LabPlan,
    machines: &[(&'static str, String)],
) -> anyhow::Result<()> {
    let named = |word: &String| {
        plan.arms
            .iter()
            .any(|arm| arm.target.as_ref() == Some(word))
    };
    let other = |word: &&String| Place::is_meant(word) && !named(word);
    let typed = |n: usize| {
        let mut flags = machines.iter();
        flags.any(|(name, value)| command[n] == *name && command.get(n + 1) == Some(value))
    };
    let measures = ["compare", "run"].contains(&command.first().map_or("", String::as_str));
    let odd = |word: &String| {
        [
            "--load",
            "--allow-shell",
            "--drop-caches",
            "--from",
            "--far-program",
            "--on=",
            "--listen",
            "--html",
            "--output",
        ]
        .iter()
        .any(|flag| word.starts_with(flag))
            || word == "--on"
    };
    let mut words = command.iter().enumerate();
    let elsewhere = command.iter().enumerate();
    let mut elsewhere = elsewhere.filter(|(n, word)| other(word) && (*n == 0 || !typed(n - 1)));
    if measures && elsewhere.next().is_none() && !words.any(|(n, word)| odd(word) && !typed(n)) {
        return Ok(());
    }
    bail!(Failure::usage(format!(
        "the lab's record holds a command that no plan has: {}",
        command.join(" ")
    )))
}

/// The target on another machine, where one is named.
fn there(target: &str) -> anyhow::Result<Option<String>> {
    if !Place::is_meant(target) {
        return Ok(None);
    }
    let (_, left) = Place::of_target(target).map_err(|error| Failure::usage(error.to_string()))?;
    Ok(Some(match left.as_str() {
        "" => "temp".to_owned(),
        _ => left,
    }))
}

/// Refuses a plan from a file that executes what is not pgassay's own, unless that is allowed.
///
/// # Errors
/// Naming what it would execute; or that it wants to load a server that runs already.
pub fn refuse(plan: &LabPlan, from_file: bool, allowed: bool) -> anyhow::Result<()> {
    for arm in &plan.arms {
        let Some(target) = &arm.target else { continue };
        let there = there(target)?;
        let spec: TargetSpec = there.as_ref().unwrap_or(target).parse().map_err(explain)?;
        if !spec.is_launched() {
            bail!(
                Failure::usage(format!(
                    "arm `{}`: a lab launches its servers; it does not load one that runs already",
                    arm.name
                ))
                .with_remedy("name temp, temp:17, build:NAME or an installation")
            );
        }
    }
    // No built-in plan has a server elsewhere: a record that says so is somebody else's.
    let elsewhere = plan.arms.iter().any(|arm| arm.machine().is_some());
    if allowed || !(from_file || elsewhere) {
        return Ok(());
    }
    let mut commands = Vec::new();
    for arm in &plan.arms {
        if let Some(machine) = arm.machine() {
            commands.push(format!("arm `{}`: a server on {machine}", arm.name));
        }
        if let Some(target) = &arm.target
            && let Ok(TargetSpec::Prefix(path)) = target.parse()
        {
            commands.push(format!(
                "arm `{}`: the programs in {}",
                arm.name,
                path.display()
            ));
        }
        for (what, value) in arm.confinement().executed() {
            let how = if what == "command" { "through" } else { "with" };
            commands.push(format!("arm `{}`: a server {how} {value}", arm.name));
        }
        if let Some(variant) = &arm.variant
            && variant.contains('=')
        {
            commands.push(format!("arm `{}`: a build with {variant}", arm.name));
        }
    }
    for stage in &plan.stages {
        if is_script(&stage.workload) {
            commands.push(format!(
                "stage `{}`: the SQL in {}, as the server's superuser",
                stage.id, stage.workload
            ));
        }
    }
    let settings = plan.arms.iter().flat_map(|arm| &arm.settings);
    let settings = settings.chain(plan.stages.iter().flat_map(|stage| &stage.settings));
    for setting in settings {
        let name = setting.split('=').next().unwrap_or_default().trim();
        if RUN_PROGRAMS
            .iter()
            .any(|runs| runs.eq_ignore_ascii_case(name))
        {
            commands.push(format!("the setting {setting}"));
        }
    }
    if commands.is_empty() {
        return Ok(());
    }
    let list: String = commands.iter().map(|line| format!("\n  {line}")).collect();
    bail!(
        Failure::usage(format!("the plan has programs of its own run:{list}"))
            .with_remedy("if you know whose plan it is and want them to run: --allow-commands")
    )
}

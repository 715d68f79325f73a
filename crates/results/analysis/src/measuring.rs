//! The command that would measure what a cause costs: the server compared with its counterpart.

use std::collections::BTreeMap;

use pgassay_model::server::Origin;
use pgassay_model::workload::{Dials, WorkloadPlan};

use crate::analysis::{Analysis, StageAnalysis};
use crate::bottlenecks::{Cause, Counterpart, Differs, Finding, Values, major};
use crate::elsewhere;
use crate::measured::{ArmAnalysis, ServerSummary};

/// The words of the command; none where no comparison would measure this, or not on this server.
///
/// A running server is compared in the likeness of a launched one of its version.
pub fn command(analysis: &Analysis, cause: &Cause, finding: &Finding) -> Option<Vec<String>> {
    let counterpart = finding.counterpart.as_ref()?;
    let [arm] = analysis.arms.as_slice() else {
        return None;
    };
    let server = arm.server.as_ref()?;
    let a = target(arm, server)?;
    let b = match &counterpart.differs {
        Differs::Settings(_) => a.clone(),
        Differs::Release(major) => format!("temp:{major}"),
        Differs::Build(variant) => format!("build:{}-{variant}", release(server)?),
    };
    let mut words = vec!["pgassay".to_owned(), "compare".to_owned(), a, b];
    if let Origin::Launched { stand_in: true, .. } = server.origin {
        words.push("--stand-in".to_owned());
    }
    words.extend(settings(counterpart, arm, server)?);
    let load = load(analysis, cause, counterpart)?;
    // Another load may be one that no other machine gives.
    let same = load.get(1) == Some(&analysis.main().plan.workload.name);
    words.extend(load);
    words.extend(elsewhere::flags(&analysis.run.command_line, same));
    Some(words)
}

/// A as it is typed.
fn target(arm: &ArmAnalysis, server: &ServerSummary) -> Option<String> {
    let of_version = || Some(format!("temp:{}", major(server.version_num?)));
    match (&server.origin, arm.typed.as_str()) {
        // Which version is the newest here may change.
        (Origin::Running, _) | (_, "" | "temp") => of_version(),
        (_, typed) => Some(typed.to_owned()),
    }
}

/// `15.20` of `PostgreSQL 15.20 (Debian …) on …`.
fn release(server: &ServerSummary) -> Option<&str> {
    server.version.split_whitespace().nth(1)
}

/// Flags for what differs in settings, and for those that both sides were given; none where nothing
/// would differ.
fn settings(
    counterpart: &Counterpart,
    arm: &ArmAnalysis,
    server: &ServerSummary,
) -> Option<Vec<String>> {
    static NONE: BTreeMap<String, Values> = BTreeMap::new();
    let differing = match &counterpart.differs {
        Differs::Settings(settings) => settings,
        _ => &NONE,
    };
    let asked = |name: &str| arm.settings.iter().any(|(own, _)| own == name);
    let given = |flag: &str, name: &str, value: &str| [flag.to_owned(), format!("{name}={value}")];
    let mut words = Vec::new();
    for (name, value) in &arm.settings {
        if !differing.contains_key(name) {
            words.extend(given("--set", name, value));
        }
    }
    let mut differ = differing.is_empty();
    for (name, values) in differing {
        let own = server.all_settings.iter().find(|s| s.name == *name);
        let own = own.map(|setting| setting.value.as_str());
        // A launched server has its own value again, unless that was asked for.
        let again = server.origin != Origin::Running && !asked(name) && values.b.is_some();
        let a = values.a.as_deref().or(own.filter(|_| !again));
        let (in_force, b) = (values.a.as_deref().or(own), values.b.as_deref());
        if in_force == b || (a.is_none() && b.is_none()) {
            continue;
        }
        differ = true;
        words.extend(
            a.into_iter()
                .flat_map(|value| given("--set-a", name, value)),
        );
        words.extend(
            b.into_iter()
                .flat_map(|value| given("--set-b", name, value)),
        );
    }
    differ.then_some(words)
}

/// Flags for the load: the one that showed it, at its peak, unless another shows it better.
fn load(analysis: &Analysis, cause: &Cause, counterpart: &Counterpart) -> Option<Vec<String>> {
    let of = |name: &str| {
        let mut stages = analysis.stages.iter();
        stages.find(|stage| stage.plan.workload.name == name)
    };
    let stage = match (&counterpart.workload, &cause.workload) {
        (Some(name), _) => match of(name) {
            Some(stage) => stage,
            None => return Some(vec!["--workload".to_owned(), name.clone()]),
        },
        (None, Some(name)) => of(name)?,
        (None, None) => analysis.main(),
    };
    as_measured(stage)
}

/// The load of a stage; none where a name does not stand for all of it.
fn as_measured(stage: &StageAnalysis) -> Option<Vec<String>> {
    let workload = &stage.plan.workload;
    let [arm] = stage.arms.as_slice() else {
        return None;
    };
    let clients = arm.peak()?.point.clients;
    if !has_a_name(workload) {
        return None;
    }
    let mut words = vec!["--workload".to_owned(), workload.name.clone()];
    words.extend(["--clients".to_owned(), clients.to_string()]);
    if workload.scale > 0 {
        words.extend(["--scale".to_owned(), workload.scale.to_string()]);
    }
    if !matches!(workload.protocol.as_str(), "" | "prepared") {
        words.extend(["--protocol".to_owned(), workload.protocol.clone()]);
    }
    Some(words)
}

/// Whether it is one of ours with its own dials: files of scripts may be gone.
fn has_a_name(workload: &WorkloadPlan) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let dials = Dials {
        per_statement: false,
        client_cpus: Vec::new(),
        ..workload.dials.clone()
    };
    workload.name.starts_with(|c: char| c.is_ascii_lowercase())
        && workload.name.chars().all(plain)
        && !workload.is_on_own_tables()
        && dials == Dials::default()
}

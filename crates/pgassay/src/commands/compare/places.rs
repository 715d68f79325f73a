//! A comparison over more than clients: a server for each target at each combination of values, and what each
//! of them is launched and loaded with.

use anyhow::{Context as _, bail};
use pgassay_analysis::host::HostSummary;
use pgassay_engine::workload;
use pgassay_model::axis::{self, AxisValue};
use pgassay_model::comparison::Typed;
use pgassay_model::{Failure, Plan};
use pgassay_server::TargetSpec;
use pgassay_sys::affinity;

use super::LABELS;
use super::load::Load;
use crate::cli::compare::CompareArgs;
use crate::cli::measure::Concurrency;
use crate::commands::buffers::refuse_buffers;
use crate::commands::given::{
    Machine, asked, given, placed, refuse_many, refuse_numa_wrapped, refuse_running,
};
use crate::exit::explain;
use crate::terminal::Terminal;

/// The arms of a comparison.
pub struct Placed {
    /// What each is launched with, the targets of one place side by side.
    pub typed: Vec<Typed>,
    /// How many places there are.
    pub places: u32,
}

/// What was typed for the targets, at every combination of what is varied beside clients.
///
/// # Errors
/// Where a target runs already, the machine does not have what was asked for, or flags contradict each other.
pub fn place(
    args: &CompareArgs,
    load: &Load,
    targets: Vec<Typed>,
    host: &HostSummary,
) -> anyhow::Result<Placed> {
    let axes = asked(&args.axes, args.sides.slices.scale.as_ref());
    if axes.is_empty() {
        let mut typed = targets;
        keep_apart(args, load, &mut typed, host)?;
        return Ok(Placed { typed, places: 1 });
    }
    for typed in &targets {
        let spec: TargetSpec = typed.target.parse().map_err(explain)?;
        refuse_running(&spec)?;
    }
    if !matches!(load, Load::Wire(_)) {
        bail!(
            Failure::usage(
                "what is varied beside clients is for clients over the wire, such as select-only"
            )
            .with_remedy("--cpus-all 0,1 keeps every server on these CPUs")
        );
    }
    if args.sequential {
        bail!(
            Failure::usage("--sequential decides one question: two targets at one client count")
                .with_remedy("leave it out, or what is varied beside clients")
        );
    }
    let varied = |id: &str| axes.iter().flatten().any(|value| value.axis == id);
    let on_cpus = args.sides.given.keeps_on_cpus();
    if on_cpus && ["cpus", "smt", "numa"].into_iter().any(varied) {
        bail!(
            Failure::usage("--cpus, --smt and --numa choose the CPUs of every server, and --cpus-a and --cpus-all do, too")
                .with_remedy("leave out the one or the other")
        );
    }
    refuse_numa_wrapped(&axes, args.sides.given.wraps())?;
    if args.sides.dials.pin.is_some() {
        bail!(
            Failure::usage(
                "--pin: in a comparison over more than clients the load shares the CPUs"
            )
            .with_remedy("leave it out; pgassay run takes both")
        );
    }
    refuse_many(&axes, targets.len())?;
    let machine = Machine::here(&[], host.cpu_quota)?;
    let mut typed = Vec::new();
    let combinations = axis::product(&axes);
    let places = combinations.len() as u32;
    for values in combinations {
        let given = given(&values, &machine)?;
        typed.extend(targets.iter().map(|target| {
            let mut typed = target.clone();
            typed.settings.extend(given.settings.iter().cloned());
            given.confine(&mut typed.confinement);
            typed.axes.clone_from(&values);
            typed.scale = given.scale;
            typed.client_cpus.clone_from(&given.client_cpus);
            typed
        }));
    }
    let mut settings: Vec<Vec<String>> = typed.iter().map(|typed| typed.settings.clone()).collect();
    // A's like is up, too.
    settings.extend(settings.first().cloned());
    refuse_buffers(&settings, host.usable_memory_bytes())?;
    Ok(Placed { typed, places })
}

/// Gives the clients CPUs of their own, and launched servers the others, as `--pin` asks.
fn keep_apart(
    args: &CompareArgs,
    load: &Load,
    targets: &mut [Typed],
    host: &HostSummary,
) -> anyhow::Result<()> {
    let Some(pin) = &args.sides.dials.pin else {
        return Ok(());
    };
    if !matches!(load, Load::Wire(_)) {
        bail!(
            Failure::usage("--pin is for clients over the wire, such as select-only")
                .with_remedy("--cpus-all 0,1 keeps every server on these CPUs")
        );
    }
    if args.sides.given.keeps_on_cpus() || args.sides.given.wraps() {
        bail!(
            Failure::usage(
                "--pin gives every server the CPUs that the clients leave, and --cpus-a, --cpus-all and --wrap choose them, too"
            )
            .with_remedy("leave out the one or the other")
        );
    }
    let allowed = affinity::allowed_cpus().context("the CPUs that we may use")?;
    let flags = args.sides.slices.measured(&[], false);
    let threads = Concurrency::of(&flags, host.cpus.unwrap_or(1)).threads;
    let clients = pin.client_cpus(&allowed, threads as usize)?;
    for typed in targets {
        let spec: TargetSpec = typed.target.parse().map_err(explain)?;
        if spec.is_launched() {
            let left = allowed.iter().filter(|cpu| !clients.contains(cpu));
            typed.confinement.cpus = left.copied().collect();
        }
        typed.client_cpus.clone_from(&clients);
    }
    Ok(())
}

/// Every arm's name: `B`, or `B, 2 CPUs` where more than clients is varied.
pub fn labels(typed: &[Typed], places: u32) -> Vec<String> {
    let targets = targets(typed, places);
    let each = typed.iter().enumerate().map(|(arm, typed)| {
        let letter = LABELS[arm % targets];
        match typed.axes.is_empty() {
            true => letter.to_owned(),
            false => format!("{letter}, {}", axis::in_words(&typed.axes)),
        }
    });
    each.collect()
}

/// How many targets there are.
pub fn targets(typed: &[Typed], places: u32) -> usize {
    (typed.len() / places.max(1) as usize).max(1)
}

/// An arm's values as they are recorded: the target stands among them, so that over an axis each has a course of
/// its own.
pub fn values(typed: &Typed, label: &str) -> Vec<AxisValue> {
    let letter = label.split(',').next().unwrap_or_default();
    match typed.axes.as_slice() {
        [] => Vec::new(),
        // For the noise floor alone.
        _ if !LABELS.contains(&letter) => Vec::new(),
        axes => {
            let target = AxisValue {
                axis: axis::SERVER.to_owned(),
                value: letter.to_owned(),
                number: None,
            };
            [&[target], axes].concat()
        }
    }
}

/// Says on which CPUs and through which command servers run, where an axis or `--pin` chose it.
pub fn announce(arms: &[(String, Typed)], terminal: &mut Terminal) {
    let chosen = |typed: &Typed| !(typed.axes.is_empty() && typed.client_cpus.is_empty());
    for (label, typed) in arms.iter().filter(|(_, typed)| chosen(typed)) {
        let where_to = placed(&typed.confinement.cpus, &typed.confinement.wrap);
        if !where_to.is_empty() {
            terminal.announce(&format!("  {label}{where_to}"));
        }
    }
    let pinned = arms.iter().find(|(_, typed)| typed.axes.is_empty());
    if let Some(clients) = pinned.map(|(_, typed)| &typed.client_cpus)
        && !clients.is_empty()
    {
        terminal.announce(&format!("load threads on CPUs {clients:?}"));
    }
}

/// The plan as one arm has it.
pub fn of_arm(plan: &Plan, typed: &Typed) -> Plan {
    let mut plan = plan.clone();
    if let Some(scale) = typed.scale {
        plan.workload.scale = scale;
    }
    if !typed.client_cpus.is_empty() {
        plan.workload
            .dials
            .client_cpus
            .clone_from(&typed.client_cpus);
    }
    plan
}

/// Bytes of the tables of all arms, each with the scale that it has.
pub fn bytes(plan: &Plan, arms: &[(String, Typed)]) -> Vec<u64> {
    let each = arms.iter().map(|(_, typed)| of_arm(plan, typed));
    each.map(|plan| workload::bytes(&plan.workload)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(cpus: &str) -> Typed {
        Typed {
            axes: vec![AxisValue {
                axis: "cpus".into(),
                value: cpus.into(),
                number: cpus.parse().ok(),
            }],
            ..Typed::default()
        }
    }

    #[test]
    fn arms_are_named_by_target_and_place() {
        let typed = [at("1"), at("1"), at("4"), at("4")];
        let names = labels(&typed, 2);
        assert_eq!(names, ["A, 1 CPU", "B, 1 CPU", "A, 4 CPUs", "B, 4 CPUs"]);
        assert_eq!(labels(&[Typed::default(), Typed::default()], 1), ["A", "B"]);
        let of = |label: &str| axis::in_words(&values(&typed[3], label));
        assert_eq!(of("B, 4 CPUs"), "B, 4 CPUs");
        assert_eq!(of("A again"), "");
    }
}

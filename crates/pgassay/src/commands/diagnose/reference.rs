//! `diagnose RUN --reference`: the run's server beside a throw-away one of the same version with
//! ordinary settings, under the run's load; then the settings that differ, tried at the throw-away one.
//!
//! Both are comparisons like any other, and recorded as such.

use std::path::{Path, PathBuf};

use anyhow::bail;
use pgassay_analysis::compare::Compare;
use pgassay_analysis::reference::Reference;
use pgassay_analysis::{Analysis, against_reference};
use pgassay_engine::runner::Ended;
use pgassay_model::Failure;
use pgassay_model::plan::{Arm, DriverConfig, Plan};
use pgassay_model::record::RecordedRun;
use pgassay_model::stage::StageId;
use pgassay_observe::host;
use pgassay_server::TargetSpec;
use pgassay_sys::stop::Stop;

use crate::cli::args::GlobalArgs;
use crate::cli::compare::CompareArgs;
use crate::cli::diagnose::DiagnoseArgs;
use crate::cli::given::GivenArgs;
use crate::cli::observe::{ObserveArgs, Observer};
use crate::cli::sides::{PairsArgs, SidesArgs};
use crate::cli::slices::SliceArgs;
use crate::commands::compare::measure;
use crate::commands::recorded_scripts;
use crate::exit::explain;
use crate::terminal::Terminal;

/// Pairs of each comparison: the fewest that can show anything at 95 %, and some to spare.
const PAIRS: u32 = 8;
/// Counted seconds of a slice, unless the run's were shorter.
const SLICE: f64 = 1.0;
/// Settings that are tried by themselves, the likeliest first.
const ALONE: usize = 6;
/// Of them at once, each on a server of its own.
const AT_ONCE: usize = 3;

/// Measures the run's server beside a reference, and tries what differs.
///
/// # Errors
/// Where the run's load can't be run again here, or nothing could be measured.
pub fn reference(
    run: &RecordedRun,
    analysis: &Analysis,
    args: &DiagnoseArgs,
    global: &GlobalArgs,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Reference> {
    let (arm, plan) = subject(run, analysis)?;
    recorded_scripts::confirm(&run.header.id, &[plan], args.allow_shell, terminal, stop)?;
    let server = match arm.typed.as_str() {
        "" => "temp",
        typed => typed,
    };
    let target = target(analysis, server)?;
    terminal.announce(&format!(
        "{} beside a reference, {target} with ordinary settings, under {}",
        arm.target, plan.workload.name
    ));
    let measuring = Measuring {
        arm,
        plan,
        args,
        load: args.load || arm.load,
        global,
    };
    let targets = vec![server.to_owned(), target.clone()];
    let set = vec![typed(&arm.settings), Vec::new()];
    let given = GivenArgs::of_first(&arm.confinement);
    let compared = measuring.compare(targets, (set, given), true, terminal, stop)?;
    let Some(mut reference) = against_reference::of(&compared) else {
        bail!(Failure::partial(
            "no pair of server and reference was measured"
        ));
    };
    measuring.try_settings(&mut reference, &target, terminal, stop)?;
    Ok(reference)
}

/// The one server of a run and its load, where both can be had again on this machine.
fn subject<'r>(run: &'r RecordedRun, analysis: &Analysis) -> anyhow::Result<(&'r Arm, &'r Plan)> {
    let id = &run.header.id;
    let experiment = &run.header.experiment;
    let stage = experiment.stages.first();
    let wire = stage.filter(|s| s.id == StageId::Load && s.driver == DriverConfig::Wire);
    if experiment.has_axes() {
        bail!(
            Failure::usage(format!(
                "{id} chose its servers' CPUs, memory or scale by axes: a reference would not have the same"
            ))
            .with_remedy("name a run that varies clients alone, or compare both with pgassay compare")
        );
    }
    let ([arm], Some(stage)) = (experiment.arms.as_slice(), wire) else {
        bail!(
            Failure::usage(format!(
                "{id} has no load that could be run again on a reference: that takes one server, loaded over the wire"
            ))
            .with_remedy("name a run of pgassay assay or pgassay run; pgassay runs lists them")
        );
    };
    let here = pgassay_analysis::host::summarise(&host::facts(None));
    let there = &analysis.host;
    let same = (&here.cpu_model, here.cpus, here.memory_bytes)
        == (&there.cpu_model, there.cpus, there.memory_bytes);
    if !same {
        bail!(
            Failure::usage(format!(
                "{id} was measured on a machine with other CPUs or memory: a reference here would differ by the machine"
            ))
            .with_remedy("measure on this machine, then diagnose that run")
        );
    }
    Ok((arm, &stage.plan))
}

/// What the reference is launched from: the installation of the server's executable, else another of
/// the same major version.
fn target(analysis: &Analysis, server: &str) -> anyhow::Result<String> {
    let spec: TargetSpec = server.parse().map_err(explain)?;
    if spec.is_launched() {
        return Ok(server.to_owned());
    }
    let known = analysis.arms.first().and_then(|arm| arm.server.as_ref());
    if let Some(bin) = known.and_then(|known| launchable(Path::new(&known.executable))) {
        return Ok(bin.display().to_string());
    }
    let version = known.and_then(|known| known.version_num);
    let Some(version) = version else {
        bail!(Failure::usage(
            "the version of the run's server is not known: there is no reference for it"
        ));
    };
    Ok(match version / 10_000 {
        major @ 10.. => format!("temp:{major}"),
        nine => format!("temp:{nine}.{}", version / 100 % 100),
    })
}

/// The directory of an executable, where a cluster can be made with what lies there.
fn launchable(executable: &Path) -> Option<PathBuf> {
    let bin = executable.parent()?;
    let here = |name: &str| bin.join(name).is_file();
    (bin.is_absolute() && here("postgres") && here("initdb")).then(|| bin.to_owned())
}

fn typed(settings: &[(String, String)]) -> Vec<String> {
    let typed = |(name, value): &(String, String)| format!("{name}={value}");
    settings.iter().map(typed).collect()
}

/// What all comparisons share.
struct Measuring<'a> {
    /// The server.
    arm: &'a Arm,
    plan: &'a Plan,
    args: &'a DiagnoseArgs,
    load: bool,
    global: &'a GlobalArgs,
}

impl Measuring<'_> {
    /// Compares targets under the run's load at its largest number of clients.
    fn compare(
        &self,
        targets: Vec<String>,
        (set_each, given): (Vec<Vec<String>>, GivenArgs),
        observed: bool,
        terminal: &mut Terminal,
        stop: &Stop,
    ) -> anyhow::Result<Compare> {
        let plan = self.plan;
        let point = plan.points.iter().max_by_key(|point| point.clients);
        let seconds = |ms: u64| ms as f64 / 1e3;
        let compare = CompareArgs {
            targets,
            set_each,
            recorded_load: Some(Box::new(plan.workload.clone())),
            sides: SidesArgs {
                given,
                slices: SliceArgs {
                    slice: Some(seconds(plan.window_ms).min(SLICE)),
                    warmup: Some(seconds(plan.warmup_ms).min(SLICE / 2.0)),
                    threads: point.map(|point| point.threads.max(1)),
                    ..SliceArgs::default().with_clients(Some(plan.max_clients().max(1)))
                },
                scratch: self.args.scratch.clone(),
                stand_in: self.args.stand_in,
                ..SidesArgs::default()
            },
            paired: PairsArgs {
                pairs: Some(PAIRS),
                noise_pairs: Some(2),
                load: self.load,
                ..PairsArgs::default()
            },
            delta: 0.01,
            observe: ObserveArgs {
                observe: match observed {
                    true => vec![Observer::All],
                    false => Vec::new(),
                },
            },
            ..CompareArgs::default()
        };
        let measured = measure(&compare, self.global, terminal, stop)?;
        match measured.ended? {
            Ended::Complete => {}
            Ended::Interrupted => return Err(Failure::interrupted().into()),
            Ended::ServerDied(why) => {
                bail!(Failure::target(format!("a server was lost: {why}")))
            }
        }
        measured.finished?;
        Ok(measured.concluded)
    }

    /// Gives the reference the server's settings: all at first, then, if those cost throughput, one by
    /// one.
    fn try_settings(
        &self,
        reference: &mut Reference,
        target: &str,
        terminal: &mut Terminal,
        stop: &Stop,
    ) -> anyhow::Result<()> {
        if let Some(words) = self.arm.confinement.words() {
            reference.not_seen.push(format!(
                "not tried by itself: that the server is started {words}, and the reference is not. pgassay bisect tries it"
            ));
        }
        let candidates = reference.candidates();
        if candidates.is_empty() {
            return Ok(());
        }
        if reference.faster.low <= 1.0 {
            let why = "settings were not tried: the reference was not shown to be faster";
            reference.not_seen.push(why.to_owned());
            return Ok(());
        }
        if candidates.len() > 1 {
            terminal.announce(&format!(
                "giving the reference all {} settings that differ",
                candidates.len()
            ));
            let all = [candidates.clone()];
            self.try_each(&all, reference, target, terminal, stop)?;
            // Where a server with all of them does not start, each is tried all the same.
            if reference.tried.last().is_some_and(|all| !all.costs()) {
                return Ok(());
            }
        }
        let alone = &candidates[..candidates.len().min(ALONE)];
        for some in alone.chunks(AT_ONCE) {
            let names: Vec<&str> = some.iter().map(|(name, _)| name.as_str()).collect();
            terminal.announce(&format!("giving the reference {}", names.join(", ")));
            let each: Vec<_> = some.iter().map(|one| vec![one.clone()]).collect();
            self.try_each(&each, reference, target, terminal, stop)?;
        }
        if let Some(rest) = candidates.get(ALONE..).filter(|rest| !rest.is_empty()) {
            let names: Vec<&str> = rest.iter().map(|(name, _)| name.as_str()).collect();
            reference.not_seen.push(format!(
                "not tried by themselves: {}. pgassay bisect finds which of many settings makes a difference",
                names.join(", ")
            ));
        }
        Ok(())
    }

    /// Compares the reference with one that has these settings, for each of the groups. A group with
    /// which no server starts is left out, and said to be.
    fn try_each(
        &self,
        groups: &[Vec<(String, String)>],
        reference: &mut Reference,
        target: &str,
        terminal: &mut Terminal,
        stop: &Stop,
    ) -> anyhow::Result<()> {
        let targets = vec![target.to_owned(); groups.len() + 1];
        let set = std::iter::once(Vec::new()).chain(groups.iter().map(|group| typed(group)));
        let set = (set.collect(), GivenArgs::default());
        match self.compare(targets, set, false, terminal, stop) {
            Ok(compared) => against_reference::add(reference, &compared, groups),
            Err(error) if stop.asked() => return Err(error),
            Err(_) if groups.len() > 1 => {
                for group in groups {
                    let one = std::slice::from_ref(group);
                    self.try_each(one, reference, target, terminal, stop)?;
                }
            }
            Err(error) => {
                let names: Vec<&str> = groups.iter().flatten().map(|(n, _)| n.as_str()).collect();
                reference.not_seen.push(format!(
                    "not to be tried at the reference: {}: {error:#}",
                    names.join(", ")
                ));
            }
        }
        Ok(())
    }
}

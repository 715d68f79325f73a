//! From a recorded run to what it says.

mod commits;
mod disturbed;
mod failed;
mod headline;
mod machines;
mod points;
mod reads;
mod scope;

pub use failed::ALL_FAILED;
pub use headline::remarks;
pub(crate) use scope::Scope;

use std::collections::BTreeMap;

use pgassay_inspect::cpu::{self, Features, Verdict};
use pgassay_inspect::{Binary, ProcessFacts};
use pgassay_model::plan::{DriverConfig, Stage};
use pgassay_model::primitives::{Compiled, PrimitivesPlan};
use pgassay_model::reading::Reading;
use pgassay_model::record::RecordedRun;
use pgassay_model::run::{EventKind, RunState};
use pgassay_model::scattered::ScatteredPlan;
use pgassay_model::server::{Origin, ServerFacts};
use pgassay_model::stage::StageId;
use pgassay_model::trial::Trial;
use pgassay_model::warning::Warning;
use pgassay_readings::samples;

use crate::analysis::{Analysis, SCHEMA, ScatteredAnalysis, StageAnalysis};
use crate::check::{self, CheckReport};
use crate::host::{self, HostSummary};
use crate::measured::{ArmAnalysis, CommitCheck, RunInfo, ServerSummary, StageArm};
use crate::pgio::{self, PgioAnalysis};
use crate::quality::Quality;
use crate::storage::{kinds, plateau, volume};
use crate::trial_view::Server;
use crate::{
    axes, causes, checkpoints, diagnose, metrics, number, observed, primitives, query_cost,
    scattered, server,
};

/// Concludes what a run says. The same run gives the same answer on any machine.
pub fn analyse(run: &RecordedRun) -> Analysis {
    analyse_within(&Scope::whole(run))
}

/// Concludes what a part of a run says.
pub(crate) fn analyse_within(scope: &Scope) -> Analysis {
    let run = scope.run;
    let host = host::summarise(&run.host);
    let info = run_info(scope);
    let no_server = run.main_stage() == StageId::Kernels;
    let arms: Vec<ArmAnalysis> = scope
        .arms()
        .filter(|_| !no_server)
        .map(|(index, arm)| {
            let binary = run
                .binaries
                .get(&index)
                .cloned()
                .unwrap_or_else(|| Err("the server's executable was not inspected".to_owned()));
            ArmAnalysis {
                label: arm.label.clone(),
                target: arm.target.clone(),
                typed: arm.typed.clone(),
                settings: arm.settings.clone(),
                confinement: arm.confinement.clone(),
                axes: arm.axes.clone(),
                server: run.servers.get(&index).map(summarise_server),
                verdict: binary.as_ref().ok().map(|b| verdict(b, run, &host)),
                binary,
                commit_check: commit_check(scope, index),
            }
        })
        .collect();
    let mut stages: Vec<StageAnalysis> = run
        .header
        .experiment
        .stages
        .iter()
        .filter(|stage| stage.driver != DriverConfig::Ceiling)
        .map(|stage| analyse_stage(scope, stage, &host))
        .collect();
    for stage in &mut stages {
        stage.diagnosis = diagnose::of_stage(&info.id, &host, &arms, &stage.plan, &stage.arms);
    }
    let stages_of_primitives = [StageId::Primitives, StageId::Kernels];
    let of_primitives = stages_of_primitives.iter().find_map(|id| run.stage(*id));
    let (variants, compiled) = match of_primitives.map(|stage| &stage.driver) {
        Some(DriverConfig::InServer(plan)) => (plan.variants.as_slice(), compiled(plan, run)),
        Some(DriverConfig::Kernels(plan)) => (plan.variants.as_slice(), None),
        _ => (&[][..], None),
    };
    let mut analysis = Analysis {
        axes: stages
            .first()
            .map_or_else(Vec::new, |load| axes::courses(&arms, &load.arms)),
        primitives: of_primitives
            .map(|stage| {
                let trials = scope.trials_on(stage.id, 0);
                primitives::analyse(variants, &stage.plan, trials, &host)
            })
            .unwrap_or_default(),
        primitives_compiled: compiled,
        query_cost: run
            .query_cost
            .as_ref()
            .map(|record| query_cost::analyse(scope.trials_of(StageId::QueryCost), record)),
        kernel_counts: run.kernel_counts.clone(),
        check: audit(run),
        pgio: pgio(scope),
        scattered_read: scattered(scope),
        schema: SCHEMA.to_owned(),
        headline: Vec::new(),
        warnings: warnings(scope, &info, &arms, &stages),
        run: info,
        host,
        arms,
        stages,
        causes: Vec::new(),
        quality: None,
    };
    let arms = analysis.stages.iter().flat_map(|stage| &stage.arms);
    let points = arms.flat_map(|arm| &arm.points);
    let of_volume = volume_warnings(&analysis);
    let (run, warnings) = (&analysis.run, &analysis.warnings);
    analysis.quality = Quality::of(points, run, warnings)
        .or_else(|| Quality::of_primitives(&analysis.primitives, run, warnings))
        .or_else(|| Quality::of_pgio(&analysis.pgio.as_ref()?.points, run, warnings));
    analysis.warnings.extend(of_volume);
    analysis.causes = causes::causes(&analysis);
    analysis.headline = headline::write(&analysis);
    analysis
}

/// What one load showed of each server, from its own trials.
fn analyse_stage(scope: &Scope, stage: &Stage, host: &HostSummary) -> StageAnalysis {
    let run = scope.run;
    let plan = scope.plan(stage);
    let skipped = skipped_points(run, stage.id);
    let alone: Vec<&Trial> = match stage.id {
        StageId::Load => scope.trials_of(StageId::Ceiling).collect(),
        _ => Vec::new(),
    };
    let wire = matches!(stage.driver, DriverConfig::Wire | DriverConfig::OwnLoad);
    let arms = scope.arms().map(|(index, arm)| {
        let of_arm = scope.trials_on(stage.id, index);
        let trials: Vec<&Trial> = of_arm.filter(|t| t.counts()).collect();
        let facts = run.servers.get(&index);
        let server = Server::of(run, index);
        let (trials, left_out) = disturbed::left(&plan, trials, server);
        let said = points::Said {
            skipped: &skipped,
            left_out: &left_out,
        };
        // What is told of transactions.
        let by_clients: &[&Trial] = if wire { &trials } else { &[] };
        StageArm {
            label: arm.label.clone(),
            points: points::analyse(
                &plan,
                by_clients,
                server,
                &alone,
                &said,
                stage.driver == DriverConfig::OwnLoad,
            ),
            reads: reads::analyse(by_clients, server),
            checkpoints: checkpoints::analyse(by_clients, facts),
            observed: observed::analysis::analyse(
                stage,
                &trials,
                run.symbols.get(&index),
                host.cpus,
                run.storage.get(&index),
            ),
        }
    });
    StageAnalysis {
        id: stage.id,
        arms: arms.collect(),
        plan,
        diagnosis: None,
    }
}

/// What this host makes of a server's executable: seen where the process showed its flag byte, else
/// inferred.
fn verdict(binary: &Binary, run: &RecordedRun, host: &HostSummary) -> Verdict {
    let cpuinfo = run.host.get("/proc/cpuinfo").and_then(Reading::text);
    let architecture = host.architecture.as_deref().unwrap_or("unknown");
    let features = Features::of_host(architecture, cpuinfo.unwrap_or_default());
    let flag = binary.process.as_ref().and_then(ProcessFacts::flag);
    cpu::verdict(binary, &features.seen_by(binary), flag)
}

/// The audit, of the facts that a run wrote down for it.
fn audit(run: &RecordedRun) -> Option<CheckReport> {
    let mut facts = run.check.clone()?;
    // The binary is a fact of the run itself, written once.
    facts.binary = facts.binary.or_else(|| run.binaries.get(&0).cloned());
    Some(check::check(&facts))
}

/// PGIO's workload, where it was run.
fn pgio(scope: &Scope) -> Option<PgioAnalysis> {
    let run = scope.run;
    let stage = run.stage(StageId::Pgio)?;
    let DriverConfig::Pgio(plan) = &stage.driver else {
        return None;
    };
    // After a resume the counters belong to another server.
    let counters = run
        .pgio_counters
        .as_ref()
        .filter(|_| scope.counters && !resumed(run));
    let trials = scope.trials_on(StageId::Pgio, 0);
    let storage = run.storage.get(&0);
    Some(pgio::analyse(
        plan,
        &stage.plan.points,
        trials,
        counters,
        storage,
    ))
}

/// The plan of scattered reads, where there were any.
fn scattered_plan(run: &RecordedRun) -> Option<&ScatteredPlan> {
    match &run.stage(StageId::ScatteredRead)?.driver {
        DriverConfig::ScatteredRead(plan) => Some(plan),
        _ => None,
    }
}

/// The scattered reads of a run, where one was recorded.
fn scattered(scope: &Scope) -> Option<ScatteredAnalysis> {
    let run = scope.run;
    let plan = scattered_plan(run)?;
    let storage = run.storage.get(&0);
    let settings = run
        .servers
        .get(&0)
        .map(server::settings)
        .unwrap_or_default();
    let direct = settings
        .iter()
        .any(|s| s.name == "debug_io_direct" && server::reads_directly(&s.value));
    let trials = scope.trials_on(StageId::ScatteredRead, 0);
    let variants = scattered::analyse(plan, trials, storage, direct);
    Some(ScatteredAnalysis {
        plan: plan.clone(),
        remedies: scattered::remedies::remedies(plan, &variants),
        variants,
        storage: storage.cloned(),
    })
}

/// How the functions inside the server were compiled, with what inspect finds
/// different from the server.
fn compiled(plan: &PrimitivesPlan, run: &RecordedRun) -> Option<Compiled> {
    let mut compiled = plan.compiled.clone()?;
    if let (Some(library), Some(Ok(server))) = (&compiled.binary, run.binaries.get(&0)) {
        let found = primitives::code::differences(library, server);
        compiled.deviations.extend(found);
    }
    Some(compiled)
}

/// What loads that read from the device say of its volume's limits.
fn volume_warnings(analysis: &Analysis) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if let Some(pgio) = &analysis.pgio {
        let rates = pgio.points.iter().filter_map(|point| {
            let bytes = point.device_bytes_per_second.as_ref()?.estimate;
            let requests = point.device_requests_per_second.as_ref()?.estimate;
            let name = number::counted(point.sessions, "session");
            Some((name, bytes, requests))
        });
        let rates: Vec<(String, f64, f64)> = rates.collect();
        warnings.extend(volume::warnings(pgio.storage.as_ref(), &rates));
        let steps = pgio.points.iter().filter_map(|point| {
            Some(plateau::Step {
                sessions: point.sessions,
                bytes: point.device_bytes_per_second.as_ref()?.estimate,
                requests: point.device_requests_per_second.as_ref()?.estimate,
                in_flight: point.device_requests_in_flight?,
            })
        });
        let steps: Vec<plateau::Step> = steps.collect();
        let found = plateau::find(&steps);
        warnings.extend(found.map(|found| Warning::new("device-limit", found.words())));
    }
    if let Some(scattered) = &analysis.scattered_read {
        let rates = scattered.variants.iter().filter_map(|way| {
            let seconds = way.cold.as_ref()?.execution_ms.estimate / 1e3;
            let bytes = way.device_sectors.as_ref()?.estimate * 512.0;
            let requests = way.requests_per_block.as_ref()?.estimate * way.blocks_read as f64;
            (seconds > 0.0).then(|| (way.title.clone(), bytes / seconds, requests / seconds))
        });
        let rates: Vec<(String, f64, f64)> = rates.collect();
        warnings.extend(volume::warnings(scattered.storage.as_ref(), &rates));
    }
    warnings
}

/// Whether a trial is one of those that were planned, rather than repeated to know them better.
fn is_planned(trial: &Trial) -> bool {
    let warm = trial.execution().is_some_and(|execution| !execution.cold);
    trial.counts() && trial.stage.is_promised() && !warm
}

fn run_info(scope: &Scope) -> RunInfo {
    let run = scope.run;
    let header = &run.header;
    let state = match &run.end {
        _ if run.running => RunState::Running,
        Some(end) => end.state.into(),
        None => RunState::Interrupted,
    };
    let reason = match &run.end {
        Some(end) => end.reason.clone(),
        None if run.running => None,
        None => Some("pgassay was killed, or could not write any more".to_owned()),
    };
    RunInfo {
        id: header.id.clone(),
        command: header.command.clone(),
        command_line: header.command_line.clone(),
        pgassay_version: header.pgassay_version.clone(),
        started: header.started.clone(),
        from: header.experiment.from.clone(),
        round_trips: machines::round_trips(scope.trials()),
        state,
        reason,
        elapsed_seconds: run.end.as_ref().map(|end| end.elapsed_seconds),
        trials_measured: scope.trials().filter(|t| is_planned(t)).count() as u32,
        trials_planned: scope.planned() as u32,
        max_rss_bytes: run
            .end
            .as_ref()
            .map(|end| end.max_rss_bytes)
            .filter(|b| *b > 0),
    }
}

fn summarise_server(facts: &ServerFacts) -> ServerSummary {
    let text = |reading: &Reading| match reading {
        Reading::Text(text) => text.trim().to_owned(),
        Reading::Unavailable(why) => format!("not seen: {why}"),
    };
    ServerSummary {
        origin: facts.origin.clone(),
        version: text(&facts.version),
        version_num: facts.version_num,
        executable: text(&facts.executable),
        settings: server::relevant_settings(facts),
        all_settings: server::settings(facts),
        place: server::SettingsOf {
            role: facts.role.clone(),
            database: facts.database.clone(),
        },
    }
}

/// Points of a stage that were left out, with the reason.
fn skipped_points(run: &RecordedRun, id: StageId) -> BTreeMap<u32, String> {
    run.events
        .iter()
        .filter_map(|event| match &event.what {
            EventKind::PointSkipped {
                stage,
                point,
                reason,
            } if *stage == id => Some((*point, reason.clone())),
            _ => None,
        })
        .collect()
}

/// Says that trials lie further apart than they were planned to.
fn paused(run: &RecordedRun) -> Option<Warning> {
    let pauses = run.events.iter().filter_map(|event| match &event.what {
        EventKind::Unpaused { seconds } => Some(*seconds),
        _ => None,
    });
    let pauses: Vec<f64> = pauses.collect();
    let all: f64 = pauses.iter().sum();
    let times = match pauses.len() {
        0 => return None,
        1 => "once".to_owned(),
        n => format!("{n} times"),
    };
    let text = format!("Measuring was paused {times}, for {all:.0} s in all, between trials.");
    Some(Warning::new("paused", text))
}

fn resumed(run: &RecordedRun) -> bool {
    let mut events = run.events.iter();
    events.any(|event| event.what == EventKind::Resumed)
}

/// The server's count of commits against the client's, where both are whole.
fn commit_check(scope: &Scope, arm: u32) -> Option<CommitCheck> {
    let run = scope.run;
    let before = run.servers.get(&arm)?.database_before.as_ref()?;
    let after = run.events.iter().find_map(|event| match &event.what {
        EventKind::DatabaseAfter { arm: of, row } if *of == arm => Some(row),
        _ => None,
    })?;
    // After a resume the counters belong to another server.
    if !scope.counters || resumed(run) {
        return None;
    }
    let sent = scope.trials_on(StageId::Load, arm);
    let client_transactions = sent.map(|t| t.transactions_sent).sum();
    let all = samples::counter(after, "xact_commit")?
        .checked_sub(samples::counter(before, "xact_commit")?)?;
    let others = samples::database_growth(before, after, "xact_commit")?;
    Some(CommitCheck {
        client_transactions,
        server_commits: match commits::ours_subtracted(run, arm) {
            true => others,
            // What the server has not counted of our observers' yet is not missing from the client's.
            false => others.max(all.min(client_transactions)),
        },
    })
}

/// What qualifies the run as a whole.
fn warnings(
    scope: &Scope,
    info: &RunInfo,
    arms: &[ArmAnalysis],
    stages: &[StageAnalysis],
) -> Vec<Warning> {
    let run = scope.run;
    let servers = || {
        run.servers
            .range(..scope.arms as u32)
            .map(|(_, facts)| facts)
    };
    let mut warnings: Vec<Warning> = Vec::new();
    if let Some(plan) = scattered_plan(run) {
        let storage = run.storage.get(&0);
        warnings.extend(scattered::bursts::warnings(
            plan,
            scope.trials_on(StageId::ScatteredRead, 0),
            storage,
        ));
        warnings.extend(kinds::limits_unknown(&run.host, storage));
    }
    // Servers side by side share a volume or have one each: of one alone it is known.
    if scope.arms == 1 {
        warnings.extend(volume::credits_left(run.storage.get(&0), scope.trials()));
    }
    warnings.extend(stand_in(servers));
    let elsewhere = |s: &&ServerFacts| {
        s.origin == Origin::Running && matches!(s.executable, Reading::Unavailable(_))
    };
    if let Some(server) = servers().find(elsewhere)
        && let Reading::Unavailable(why) = &server.executable
    {
        warnings.push(
            Warning::new(
                "server-not-seen",
                format!(
                    "The server's executable can't be seen ({why}). If the server runs on another \
                     machine, the machine described here is pgassay's and not the server's."
                ),
            )
            .with_remedy("run pgassay on the server's machine, over its Unix socket, as root or as the server's user"),
        );
    }
    if info.state != RunState::Complete && info.trials_planned > 0 {
        let reason = info
            .reason
            .as_deref()
            .unwrap_or("it is still being measured");
        let warning = Warning::new(
            "incomplete",
            format!(
                "{} of {} trials were measured: {reason}.",
                info.trials_measured, info.trials_planned
            ),
        );
        warnings.push(match info.state {
            RunState::Running => warning,
            _ => warning.with_remedy(format!(
                "go on with: pgassay {} --resume {}",
                info.command, info.id
            )),
        });
    }
    warnings.extend(failed::warnings(run));
    let events = || run.events.iter().map(|event| &event.what);
    warnings.extend(paused(run));
    let said = events().filter_map(|event| match event {
        EventKind::Warned { warning } => Some(warning.clone()),
        _ => None,
    });
    for warning in events()
        .filter_map(|event| left_out(run, event))
        .chain(said)
    {
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }
    let steal = stages
        .iter()
        .flat_map(|stage| &stage.arms)
        .flat_map(|arm| &arm.points)
        .filter_map(|point| point.estimate(metrics::STEAL))
        .map(|share| share.estimate)
        .fold(0.0, f64::max);
    if steal > 0.02 {
        warnings.push(Warning::new(
            "steal",
            format!(
                "The hypervisor gave up to {:.0} % of the machine's time to other guests: \
                 absolute figures are too low, and the spread is theirs too.",
                steal * 100.0
            ),
        ));
    }
    let checks = arms.iter().map(|arm| arm.commit_check.as_ref());
    for (arm, check) in (0u32..).zip(checks) {
        warnings.extend(check.and_then(|check| commits::commits_differ(scope, arm, check)));
    }
    warnings.extend(
        run.damage
            .iter()
            .map(|text| Warning::new("damaged", text.clone())),
    );
    let comparison = run.comparison.as_ref();
    let unknown = comparison.and_then(|plan| metrics::MetricId::find(&plan.metric).err());
    warnings.extend(
        unknown.map(|why| Warning::new("damaged", format!("facts/comparison.json: {why}"))),
    );
    warnings
}

/// That a point of a stage was left out.
fn left_out(run: &RecordedRun, event: &EventKind) -> Option<Warning> {
    let EventKind::PointSkipped {
        stage,
        point,
        reason,
    } = event
    else {
        return None;
    };
    let point = *point as usize;
    match stage {
        StageId::Load | StageId::WriteLoad => {
            let plan = &run.stage(*stage)?.plan;
            let clients = plan.points.get(point)?.clients;
            let of_which = match stage {
                StageId::Load => String::new(),
                _ => format!("{}: ", plan.workload.name),
            };
            let what = match clients {
                1 => "1 client was".to_owned(),
                n => format!("{n} clients were"),
            };
            let text = format!("{of_which}{what} not measured: {reason}");
            Some(Warning::new("point-skipped", text))
        }
        StageId::ScatteredRead => {
            let variant = scattered_plan(run)?.variants.get(point)?;
            let text = format!("\"{}\" was left out: {reason}.", variant.title);
            Some(Warning::new("variant-left-out", text))
        }
        _ => None,
    }
}

/// Where an archived build was measured, as nothing was installed.
fn stand_in<'r, I>(servers: impl Fn() -> I) -> Option<Warning>
where
    I: Iterator<Item = &'r ServerFacts>,
{
    let stood_in = |s: &&ServerFacts| matches!(s.origin, Origin::Launched { stand_in: true, .. });
    let first = servers().find(stood_in)?;
    let text = if servers().all(|s| stood_in(&s)) {
        "Not the build you run: this PostgreSQL was not installed, so an archived build stood in. Its compiler \
         and flags are not those of your packages."
            .to_owned()
    } else {
        let version = first.version_num.map_or(String::new(), |num| {
            format!(" {}", crate::bottlenecks::major(num))
        });
        format!(
            "Not all are builds you run: PostgreSQL{version} was not installed, so an archived build stood in. \
             A difference is of the versions and of how they were built, together."
        )
    };
    Some(
        Warning::new("not-your-build", text)
            .with_remedy("install the packages that you use in production and assay again"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archived_build_is_told_from_one_beside_an_installed_one() {
        let server = |stand_in, version_num| ServerFacts {
            origin: Origin::Launched {
                bin_dir: "/usr/bin".to_owned(),
                stand_in,
                prepared: false,
            },
            version: Reading::Unavailable(String::new()),
            version_num: Some(version_num),
            pooler: None,
            settings: Reading::Unavailable(String::new()),
            executable: Reading::Unavailable(String::new()),
            database_before: None,
            role: None,
            database: None,
        };
        let mut run = RecordedRun::default();
        run.servers.insert(0, server(false, 150_020));
        let stand_in = |run: &RecordedRun| stand_in(|| run.servers.values());
        assert!(stand_in(&run).is_none());
        run.servers.insert(1, server(true, 180_006));
        let text = stand_in(&run).unwrap().text;
        assert!(text.contains("PostgreSQL 18 was not installed"), "{text}");
        run.servers.insert(0, server(true, 150_020));
        let text = stand_in(&run).unwrap().text;
        assert!(text.contains("this PostgreSQL was not installed"), "{text}");
    }
}

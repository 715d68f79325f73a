//! What `assay` and `run` share: open the server, write down what it is, load it, conclude.

use pgassay_analysis::number::counted;
use std::time::Duration;

use anyhow::Context;
use pgassay_analysis::analyse::ALL_FAILED;
use pgassay_analysis::host::HostSummary;
use pgassay_analysis::{Analysis, analyse};
use pgassay_engine::drivers::ceiling;
use pgassay_engine::rundir::{self, RunWriter};
use pgassay_engine::runner::Ended;
use pgassay_engine::workload::{self, guest, setup};
use pgassay_model::plan::{Experiment, Stage};
use pgassay_model::record::RecordedRun;
use pgassay_model::run::EventKind;
use pgassay_model::server::Origin;
use pgassay_model::stage::StageId;
use pgassay_model::workload::{Pace, ReplayPlan};
use pgassay_model::{Failure, Plan};
use pgassay_observe::host;
use pgassay_server::TargetSpec;
use pgassay_server::extension::Extension;
use pgassay_sys::affinity;
use pgassay_sys::stop::Stop;

use super::alone::{self, Company};
use super::pooler::Passage;
use super::progress::{Progress, minutes};
use super::request::Request;
use super::show::conclude;
use super::subject::Subject;
use super::sweep::load;
use super::{check, copies, from, inside, ordinary, pooler, quiet, record, room, second};
use crate::cli::args::GlobalArgs;
use crate::cli::measure::{self, Concurrency, Machine};
use crate::cli::target::TargetArgs;
use crate::exit::Exit;
use crate::terminal::Terminal;

/// Connections beside the load: the control session and a few to spare.
const BESIDE: u32 = 4;

/// Bytes of tables that are filled in a second, about.
const FILLED_A_SECOND: f64 = 60e6;

/// Carries the request out, from the target to the report.
///
/// # Errors
/// What kept it from measuring; what was measured before is kept.
pub fn measure(
    request: &Request,
    global: &GlobalArgs,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Exit> {
    let root = rundir::root(global.runs.as_deref())?;
    let spec = request.target.spec()?;
    let loads = spec.is_launched() || request.target.load;
    if !loads && !request.may_only_look {
        return Err(
            Failure::usage("a running server is not loaded without --load")
                .with_remedy("add --load, or measure a temp target")
                .into(),
        );
    }
    if loads {
        let recorded = request.again.experiment().into_iter();
        let recorded = recorded.flat_map(|experiment| &experiment.stages);
        let planned = recorded.map(|stage| &stage.plan.workload);
        for workload in planned.chain([&request.workload]) {
            copies::refuse_writes(workload, &spec, request.target.is_copy)?;
        }
        quiet::look(request.measure.wait_quiet, terminal, stop)?;
    }
    let machines = request.again.from(request.measure.from.as_ref())?;
    let from = machines.as_ref().filter(|_| loads);
    let agents = request.agents(from, global, terminal, stop)?;
    let target = TargetArgs {
        outside: from::ways(
            machines.as_ref().zip(agents.as_ref()),
            &request.measure.ways,
            from::Servers {
                launched: spec.is_launched(),
                running: !spec.is_launched(),
            },
            terminal,
        )?,
        ..request.target.clone()
    };
    let machine = pgassay_analysis::host::summarise(&host::facts(None));
    let cpus = machine.cpus.unwrap_or(1);
    let mut concurrency =
        Concurrency::of(request.measure, cpus).replaying(request.workload.replay.as_ref())?;
    if let Some(agents) = &agents {
        concurrency = concurrency.driven_by(request.measure, agents.cpus());
    }
    let most = match request.again.experiment() {
        None => concurrency.most(),
        Some(experiment) => experiment.plan().max_clients(),
    };
    let apart = apart(request, &concurrency)?;
    let mut subject = open(
        request,
        (&spec, &target),
        &machine,
        most,
        &apart,
        terminal,
        stop,
    )?;
    if loads && subject.origin == Origin::Running {
        subject.keep(stop);
        if pooler::enter(&mut subject, &Passage::of(request))? {
            terminal.announce("a connection pooler answers in the server's place");
        } else {
            concurrency = concurrency.within(subject.admit(None)?.most_clients);
            if setup::remove_noted(subject.session()?)? {
                terminal.announce("removed the schema pgassay that a killed run had left");
            }
        }
    }
    if let Some(agents) = &agents {
        let recorded = request.again.experiment();
        let recorded = recorded.map(|experiment| &experiment.plan().workload);
        let workload = recorded.unwrap_or(&request.workload);
        from::find(agents, &mut subject, workload)?;
    }
    // Compiled before the load, so that it is known what there is to measure.
    let extension = inside::extension_beside_a_load(request, &subject);
    let experiment = match request.again.experiment() {
        Some(experiment) => experiment.clone(),
        None => {
            let mut plan = make_plan(request, &mut subject, &machine, &concurrency, loads)?;
            plan.workload.dials.client_cpus = apart.client;
            let arm = record::arm(request.target, &subject);
            let primitives = extension.as_ref().and_then(|made| made.as_ref().ok());
            let stages = stages(request, plan, primitives, cpus, loads)?;
            Experiment {
                arms: vec![arm],
                stages,
                observe: request.measure.observe.names(),
                from: machines.as_ref().map(from::names).unwrap_or_default(),
            }
        }
    };
    let plan = experiment.plan();
    if !plan.workload.dials.client_cpus.is_empty() {
        let server = match spec.is_launched() {
            true => format!("the server on {:?}", apart.server),
            false => "the server, which runs already, where it is".to_owned(),
        };
        let ours = &plan.workload.dials.client_cpus;
        terminal.announce(&format!("load threads on CPUs {ours:?}, {server}"));
    }
    if loads {
        room::check(&subject, &plan.workload, terminal)?;
    }
    let mut header = record::header(request.command, global, experiment.clone());
    let mut writer = request.again.open(&root, &mut header)?;
    // A server that was there before has a history, which no load shows.
    if request.command == "assay" || (loads && subject.origin == Origin::Running) {
        // Before the counters of the load are read, since it asks the server, too.
        writer.write_fact("check", &check::gather::beside_a_run(&mut subject))?;
    }
    record::write_facts(&mut writer, &mut subject)?;
    if let Some(facts) = &subject.pooler {
        let warning = pooler::warning(facts, None);
        writer.append_event(EventKind::Warned { warning })?;
    }

    // Kept to the end, so that others see that we measure.
    let company = if loads {
        alone::look()
    } else {
        Company::Unknown
    };
    alone::record(&company, &mut writer, terminal)?;
    let ended = if loads {
        announce_load(request, &subject, &experiment, terminal);
        match load(
            request,
            &experiment,
            &mut subject,
            &mut writer,
            agents.as_ref(),
            terminal,
            stop,
        ) {
            Ok(Ended::Complete) => inside::beside_a_load(
                extension,
                &experiment,
                &mut subject,
                &mut writer,
                terminal,
                stop,
            ),
            ended => ended,
        }
    } else {
        terminal.announce(
            "looking only: no load without --load, so this says what the server is, not how fast",
        );
        Ok(Ended::Complete)
    };
    if let (Ok(Ended::ServerDied(_)), Some(cluster)) = (&ended, &subject.cluster) {
        let said = cluster.log_tail(20);
        if !said.is_empty() {
            terminal.warn(&format!("the server's last words:\n{}", said.trim_end()));
        }
    }
    finish(request, ended, writer, (subject, company), loads, terminal)
}

/// Ends the run, gives up the servers and what else was held for it, and shows the result.
///
/// # Errors
/// Where nothing was measured although load was given, or measuring ended in an error.
pub(super) fn finish<T>(
    request: &Request,
    ended: anyhow::Result<Ended>,
    mut writer: RunWriter,
    held: T,
    loads: bool,
    terminal: &mut Terminal,
) -> anyhow::Result<Exit> {
    let ended = kept_in_part(ended);
    let finished = writer.finish(&record::end_of(&ended, request.started));
    let dir = writer.dir().to_owned();
    // The lock is given up first, so that the run does not count as running.
    drop(writer);
    drop(held);
    let run = rundir::read(&dir)?;
    let left_out = left_out(&run);
    let analysis = analyse(&run);
    if analysis.run.trials_measured == 0 && loads {
        return Err(nothing_measured(ended, left_out));
    }
    let concluded = conclude(&analysis, (request.json, request.open), &dir, terminal);
    let ended = ended.map_err(|error| ordinary::in_part(error, request.command, &run.header.id))?;
    concluded?;
    finished?;
    exit_of(&ended, &analysis, left_out.is_some())
}

/// What was measured before a session or the server was lost is kept, and said to be a part.
fn kept_in_part(ended: anyhow::Result<Ended>) -> anyhow::Result<Ended> {
    ended.or_else(|error| match ordinary::is_loss(&error) {
        true => Ok(Ended::ServerDied(format!("{error:#}"))),
        false => Err(error),
    })
}

/// Why a load has no trial at all.
fn nothing_measured(ended: anyhow::Result<Ended>, left_out: Option<String>) -> anyhow::Error {
    match ended {
        Ok(Ended::Interrupted) => Failure::interrupted().into(),
        Ok(Ended::ServerDied(why)) => Failure::target(format!(
            "the server was lost before anything was measured: {why}"
        ))
        .into(),
        Ok(Ended::Complete) => Failure::target(match left_out {
            Some(why) => format!("nothing was measured: {why}"),
            None => "nothing was measured".to_owned(),
        })
        .with_remedy("ask for fewer clients with --clients, or raise the limit")
        .into(),
        Err(error) => error,
    }
}

/// Whether all that was asked for was measured.
fn exit_of(ended: &Ended, analysis: &Analysis, left_out: bool) -> anyhow::Result<Exit> {
    let mut failed = analysis.warnings.iter().filter(|w| w.id == ALL_FAILED);
    let first = failed.next();
    if let Some(first) = first
        && analysis.main().arms.iter().all(|arm| arm.points.is_empty())
    {
        let why = first.text.trim_end_matches('.').to_owned();
        let remedy = first.remedy.clone().unwrap_or_default();
        return Err(Failure::partial(why).with_remedy(remedy).into());
    }
    Ok(match ended {
        Ended::Complete if !left_out && first.is_none() => Exit::Done,
        Ended::Complete | Ended::Interrupted | Ended::ServerDied(_) => Exit::Partial,
    })
}

/// Why a part of the schedule was left out although it was gone through; none where it was not.
fn left_out(run: &RecordedRun) -> Option<String> {
    let stages = run.header.experiment.stages.iter();
    let mut wire = stages.filter(|stage| [StageId::Load, StageId::WriteLoad].contains(&stage.id));
    let arms = run.header.experiment.arms.len();
    let whole = |stage: &Stage| run.measured(stage.id).len() >= stage.trials(arms);
    if wire.all(whole) {
        return None;
    }
    let skipped = run.events.iter().find_map(|event| match &event.what {
        EventKind::PointSkipped { reason, .. } => Some(reason.clone()),
        _ => None,
    });
    Some(skipped.unwrap_or_else(|| "a part of the schedule was left out".to_owned()))
}

/// The CPUs of the client and of the server; none where both run anywhere.
#[derive(Debug, Default)]
struct Apart {
    client: Vec<usize>,
    server: Vec<usize>,
}

fn apart(request: &Request, concurrency: &Concurrency) -> anyhow::Result<Apart> {
    let allowed = affinity::allowed_cpus().context("the CPUs that we may use")?;
    let client = match (request.again.experiment(), &request.pin) {
        (Some(experiment), _) => experiment.plan().workload.dials.client_cpus.clone(),
        (None, Some(pin)) => pin.client_cpus(&allowed, concurrency.threads as usize)?,
        (None, None) => Vec::new(),
    };
    if client.is_empty() {
        return Ok(Apart::default());
    }
    let server = allowed.into_iter().filter(|cpu| !client.contains(cpu));
    Ok(Apart {
        server: server.collect(),
        client,
    })
}

/// Launches the server or connects to it, with connections for so many clients.
fn open(
    request: &Request,
    (spec, target): (&TargetSpec, &TargetArgs),
    machine: &HostSummary,
    clients: u32,
    apart: &Apart,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Subject> {
    let progress = Progress::new(terminal, 100);
    progress.say(match spec.is_launched() {
        true => "making and starting a throw-away PostgreSQL",
        false => "connecting",
    });
    let memory = machine.usable_memory_bytes();
    let connections = clients
        .saturating_add(request.workload.further_connections())
        .saturating_add(BESIDE);
    // The server inherits where we may run while we start it.
    let everywhere = affinity::allowed_cpus().unwrap_or_default();
    let confined = !apart.server.is_empty() && spec.is_launched();
    if confined {
        affinity::pin_current_thread(&apart.server).context("keeping the server off our CPUs")?;
    }
    let opened = Subject::open(spec, target, memory.unwrap_or(1 << 30), connections, stop);
    if confined {
        affinity::pin_current_thread(&everywhere).context("using all CPUs again")?;
    }
    progress.clear();
    let subject = opened?;
    for leftover in subject.cluster.iter().flat_map(|c| c.leftovers()) {
        let dir = leftover.dir.display();
        match &leftover.failed {
            None => terminal.announce(&format!("removed what a killed run had left: {dir}")),
            Some(why) => terminal.warn(&format!("a killed run left {dir}: {why}")),
        }
    }
    terminal.announce(&format!("server: {}", subject.shown));
    for differs in &subject.copy_differs {
        terminal.warn(differs);
    }
    Ok(subject)
}

fn make_plan(
    request: &Request,
    subject: &mut Subject,
    machine: &HostSummary,
    concurrency: &Concurrency,
    loads: bool,
) -> anyhow::Result<Plan> {
    let shared_buffers = subject.session()?.value(setup::SHARED_BUFFERS)?;
    let machine = Machine {
        cache_bytes: machine.last_level_cache_total_bytes.unwrap_or(0),
        shared_buffers: shared_buffers
            .and_then(|b| b.parse().ok())
            .unwrap_or(128 << 20),
    };
    let mut plan = measure::plan(
        request.workload.clone(),
        request.measure,
        concurrency,
        1,
        &machine,
        request.budget,
        rundir::random_seed()?,
    )?;
    if !loads {
        plan.points.clear();
    }
    Ok(plan)
}

/// The stages of a new run, the load first.
fn stages(
    request: &Request,
    plan: Plan,
    extension: Option<&(Extension, u32)>,
    cpus: u32,
    loads: bool,
) -> anyhow::Result<Vec<Stage>> {
    let mut further = Vec::new();
    if request.second && loads {
        further.push(Stage::wire(StageId::WriteLoad, second::plan(&plan)?));
    }
    if request.ceiling {
        further.push(ceiling::stage(&plan));
    }
    if let Some(extension) = extension {
        // Another than those of the loads, and known from them.
        let seed = plan.seed.wrapping_add(2);
        further.push(inside::stage_beside_a_load(extension, cpus, seed)?);
    }
    further.insert(0, Stage::wire(StageId::Load, plan));
    Ok(further)
}

fn announce_load(
    request: &Request,
    subject: &Subject,
    experiment: &Experiment,
    terminal: &mut Terminal,
) {
    let plan = experiment.plan();
    let second = experiment.stage(StageId::WriteLoad);
    let second = second.map(|stage| &stage.plan);
    let seconds = plan.load_seconds();
    if subject.origin == Origin::Running {
        let mut workload = plan.workload.clone();
        workload.writes |= second.is_some_and(|second| second.workload.writes);
        let both = seconds + second.map_or(0.0, Plan::load_seconds);
        let connections = plan.max_clients();
        terminal.announce(&match subject.pooler {
            None => guest::announcement(&subject.shown, &workload, connections, both),
            Some(_) => pooler::announcement(&subject.shown, &workload, connections, both),
        });
    }
    let counts: Vec<String> = plan.points.iter().map(|p| p.clients.to_string()).collect();
    terminal.announce(&format!(
        "{}: {} of {:.2} s at {}, {}: about {}",
        request.workload.name,
        counted(plan.trials, "trial"),
        plan.window_ms as f64 / 1000.0,
        match counts.as_slice() {
            [one] if one == "1" => "1 client".to_owned(),
            [one] => format!("{one} clients"),
            several => format!("each of {} clients", several.join(", ")),
        },
        workload::scale_in_words(&plan.workload),
        // Set-up, the time between trials and the report come on top.
        minutes(Duration::from_secs_f64(
            seconds * 1.03 + 4.0 + workload::bytes(&plan.workload) as f64 / FILLED_A_SECOND
        )),
    ));
    for script in &plan.workload.scripts {
        if let Some(clients) = script.clients {
            let clients = counted(clients, "client");
            terminal.announce(&format!("concurrently, {clients} of {}", script.name));
        }
    }
    if let Some(replay) = &plan.workload.replay {
        terminal.announce(&replayed(replay));
        let again = replay.seconds().is_some_and(|whole| seconds > whole + 0.01);
        if again && plan.workload.writes {
            terminal.warn(
                "the recording begins anew during the trials: what it inserts then may be there already",
            );
        }
    }
    if let Some(second) = second {
        terminal.announce(&format!(
            "then {}: {} at each: about {}",
            second.workload.name,
            counted(second.trials, "trial"),
            minutes(Duration::from_secs_f64(second.load_seconds() * 1.1)),
        ));
    }
}

/// What is replayed, and how.
fn replayed(replay: &ReplayPlan) -> String {
    let pace = match replay.pace {
        Pace::Original => format!("each when it began, at {} times the pace", replay.speed),
        Pace::ThinkTimes => format!("with the pauses between them divided by {}", replay.speed),
        Pace::Closed => "without the pauses between them".to_owned(),
    };
    format!(
        "replays {} of {}, {:.1} s as recorded, {pace}",
        counted(replay.transactions, "transaction"),
        counted(replay.sessions, "session"),
        replay.length_ms as f64 / 1000.0,
    )
}

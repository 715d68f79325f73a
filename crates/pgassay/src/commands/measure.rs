//! What `assay` and `run` share: open the server, write down what it is, load it, conclude.

use super::alone::{self, Company};
use super::files::page_of_run;
use super::progress::{Progress, minutes};
use super::subject::{Subject, explain};
use super::sweep::load;
use super::{check, inside, ordinary, record, second, show};
use crate::cli::args::{GlobalArgs, MeasureArgs, TargetArgs};
use crate::cli::load::Pin;
use crate::cli::measure::{self, Budget, Machine};
use crate::cli::show::Format;
use crate::exit::Exit;
use crate::terminal::Terminal;
use anyhow::Context;
use pgassay_analysis::host::HostSummary;
use pgassay_analysis::plan::WorkloadPlan;
use pgassay_analysis::record::{EventKind, Origin, RecordedRun, RunHeader, StageId};
use pgassay_analysis::warning::Warning;
use pgassay_analysis::{Analysis, Plan, analyse};
use pgassay_engine::rundir::{self, RunWriter};
use pgassay_engine::runner::Ended;
use pgassay_engine::workload::{guest, setup};
use pgassay_model::Failure;
use pgassay_observe::host;
use pgassay_server::TargetSpec;
use pgassay_sys::affinity;
use pgassay_sys::stop::Stop;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Connections beside the load: the control session and a few to spare.
const BESIDE: u32 = 4;

/// What a command asks for.
#[derive(Debug)]
pub struct Request<'a> {
    /// The command's name, for the record.
    pub command: &'static str,
    /// What the clients do.
    pub workload: WorkloadPlan,
    /// The server.
    pub target: &'a TargetArgs,
    /// The trials.
    pub measure: &'a MeasureArgs,
    /// What the defaults add up to.
    pub budget: Budget,
    /// Whether a recorded run is gone on with, or repeated.
    pub again: Again,
    /// The workload as typed and the flags of the load, for the record of how to repeat it.
    pub typed: (String, Vec<String>),
    /// Whether client and server get CPUs of their own.
    pub pin: Option<Pin>,
    /// Whether the client is measured alone as well.
    pub ceiling: bool,
    /// The primitives inside the server are measured after the load.
    pub primitives: bool,
    /// The server is loaded a second time, by transactions that write.
    pub second: bool,
    /// A server that we may not load is looked at all the same.
    pub may_only_look: bool,
    /// Results as JSON.
    pub json: bool,
}

/// Whether the run is a new one.
#[derive(Debug)]
pub enum Again {
    /// A new plan.
    New,
    /// The run in this directory goes on.
    Resume(PathBuf, RunHeader),
    /// The plan of a recorded run is run once more.
    Repeat(RunHeader),
}

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
    let started = Instant::now();
    let root = rundir::root(global.runs.as_deref())?;
    let spec: TargetSpec = request
        .target
        .target
        .as_deref()
        .unwrap_or("temp")
        .parse()
        .map_err(explain)?;
    let loads = spec.is_launched() || request.target.load;
    if !loads && !request.may_only_look {
        return Err(
            Failure::usage("a running server is not loaded without --load")
                .with_remedy("add --load, or measure a temp target")
                .into(),
        );
    }
    let facts = host::facts(None);
    let machine = pgassay_analysis::host::summarise(&facts);
    let cpus = machine.cpus.unwrap_or(1);
    let most = match &request.again {
        Again::New => {
            let counts = measure::client_counts(request.measure, cpus, u32::MAX);
            counts.iter().max().copied().unwrap_or(1)
        }
        Again::Resume(_, header) | Again::Repeat(header) => header.plan.max_clients(),
    };
    let connections = most
        .saturating_add(request.workload.idle)
        .saturating_add(BESIDE);

    let progress = Progress::new(terminal, 100);
    progress.say(match spec.is_launched() {
        true => "making and starting a throw-away PostgreSQL",
        false => "connecting",
    });
    let memory = machine
        .memory_limit_bytes
        .or(machine.memory_bytes)
        .unwrap_or(1 << 30);
    let (client_cpus, server_cpus) = pinned(request, cpus)?;
    // The server inherits where we may run while we start it.
    let everywhere = affinity::allowed_cpus().unwrap_or_default();
    if !server_cpus.is_empty() && spec.is_launched() {
        affinity::pin_current_thread(&server_cpus).context("keeping the server off our CPUs")?;
    }
    let opened = Subject::open(&spec, request.target, memory, connections, stop);
    if !server_cpus.is_empty() && spec.is_launched() {
        affinity::pin_current_thread(&everywhere).context("using all CPUs again")?;
    }
    progress.clear();
    let mut subject = opened?;
    for leftover in subject.cluster.iter().flat_map(|c| c.leftovers()) {
        let dir = leftover.dir.display();
        match &leftover.failed {
            None => terminal.announce(&format!("removed what a killed run had left: {dir}")),
            Some(why) => terminal.warn(&format!("a killed run left {dir}: {why}")),
        }
    }
    terminal.announce(&format!("server: {}", subject.shown));

    let mut most_clients = u32::MAX;
    if loads && subject.origin == Origin::Running {
        subject.keep(stop);
        most_clients = subject.admit()?.most_clients;
        if setup::remove_noted(subject.session()?)? {
            terminal.announce("removed the schema pgassay that a killed run had left");
        }
    }
    let plan = match &request.again {
        Again::Resume(_, header) | Again::Repeat(header) => header.plan.clone(),
        Again::New => {
            let mut plan = make_plan(request, &mut subject, &machine, most_clients, loads)?;
            plan.workload.dials.client_cpus = client_cpus;
            plan
        }
    };
    if !plan.workload.dials.client_cpus.is_empty() {
        let server = match spec.is_launched() {
            true => format!("the server on {server_cpus:?}"),
            false => "the server, which runs already, where it is".to_owned(),
        };
        let ours = &plan.workload.dials.client_cpus;
        terminal.announce(&format!("load threads on CPUs {ours:?}, {server}"));
    }
    let second = second_plan(request, &plan, loads)?;
    let mut writer = open_run(request, &root, &plan)?;
    if let Some(second) = &second {
        writer.write_fact("second", second)?;
    }
    if request.command == "assay" {
        // Before the counters of the load are read, since it asks the server, too.
        writer.write_fact("check", &check::gather::beside_a_run(&mut subject))?;
    }
    record::write_facts(&mut writer, &mut subject)?;

    // Kept to the end, so that others see that we measure.
    let company = if loads {
        alone::look()
    } else {
        Company::Unknown
    };
    if let Company::Another = company {
        let warning = Warning::new(
            "not-alone",
            "Another pgassay measured on this machine at the same time: they disturbed each other.",
        )
        .with_remedy("measure again when it is done");
        terminal.warn("another pgassay measures on this machine: they disturb each other");
        writer.append_event(EventKind::Warned { warning })?;
    }
    let ended = if loads {
        announce_load(request, &subject, &plan, second.as_ref(), terminal);
        let plans = (&plan, second.as_ref());
        match load(request, plans, &mut subject, &mut writer, terminal, stop) {
            Ok(Ended::Complete) if request.primitives => {
                let target = request.target;
                inside::beside_a_load(target, cpus, &mut subject, &mut writer, terminal, stop)
            }
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
    // What was measured before is kept, and said to be a part.
    let ended = ended.or_else(|error| match ordinary::is_loss(&error) {
        true => Ok(Ended::ServerDied(format!("{error:#}"))),
        false => Err(error),
    });
    let end = record::end_of(&ended, started);
    let finished = writer.finish(&end);
    let dir = writer.dir().to_owned();
    // The lock is given up first, so that the run does not count as running.
    drop(writer);
    drop(subject);
    drop(company);
    let run = rundir::read(&dir)?;
    let left_out = left_out(&run);
    let analysis = analyse(&run);
    if analysis.run.trials_measured == 0 && loads {
        let error = match ended {
            Ok(Ended::Interrupted) => Failure::interrupted().into(),
            Ok(Ended::ServerDied(why)) => Failure::target(format!(
                "the server was lost before anything was measured: {why}"
            ))
            .into(),
            Ok(Ended::Complete) => Failure::target(match &left_out {
                Some(why) => format!("nothing was measured: {why}"),
                None => "nothing was measured".to_owned(),
            })
            .with_remedy("ask for fewer clients with --clients, or raise the limit")
            .into(),
            Err(error) => error,
        };
        return Err(error);
    }
    conclude(&analysis, request.json, &dir, terminal)?;
    let ended = ended?;
    finished?;
    match ended {
        Ended::Complete => Ok(match left_out {
            Some(_) => Exit::Partial,
            None => Exit::Done,
        }),
        Ended::Interrupted | Ended::ServerDied(_) => Ok(Exit::Partial),
    }
}

/// Why a part of the schedule was left out although it was gone through; none where it was not.
fn left_out(run: &RecordedRun) -> Option<String> {
    let second = run.second_plan.iter();
    let planned =
        second.map(|plan| plan.schedule().len()).sum::<usize>() + run.header.plan.schedule().len();
    let measured = |stage| run.measured(stage).len();
    if measured(StageId::Load) + measured(StageId::WriteLoad) >= planned {
        return None;
    }
    let skipped = run.events.iter().find_map(|event| match &event.what {
        EventKind::PointSkipped { reason, .. } => Some(reason.clone()),
        _ => None,
    });
    Some(skipped.unwrap_or_else(|| "a part of the schedule was left out".to_owned()))
}

/// The CPUs of the client and of the server, where they are to be kept apart.
fn pinned(request: &Request, cpus: u32) -> anyhow::Result<(Vec<usize>, Vec<usize>)> {
    let allowed = affinity::allowed_cpus().context("the CPUs that we may use")?;
    let client = match (&request.again, &request.pin) {
        (Again::Resume(_, header) | Again::Repeat(header), _) => {
            header.plan.workload.dials.client_cpus.clone()
        }
        (Again::New, Some(pin)) => {
            let threads = request.measure.threads.unwrap_or(cpus.div_ceil(4)).max(1);
            pin.client_cpus(&allowed, threads as usize)?
        }
        (Again::New, None) => Vec::new(),
    };
    if client.is_empty() {
        return Ok((client, Vec::new()));
    }
    let server = allowed.into_iter().filter(|cpu| !client.contains(cpu));
    let server: Vec<usize> = server.collect();
    Ok((client, server))
}

fn make_plan(
    request: &Request,
    subject: &mut Subject,
    machine: &HostSummary,
    most_clients: u32,
    loads: bool,
) -> anyhow::Result<Plan> {
    let shared_buffers = subject.session()?.value(
        "SELECT setting::bigint * current_setting('block_size')::bigint \
         FROM pg_catalog.pg_settings WHERE name = 'shared_buffers'",
    )?;
    let arm = record::arm(request.target, subject);
    let machine = Machine {
        cpus: machine.cpus.unwrap_or(1),
        cache_bytes: machine.last_level_cache_total_bytes.unwrap_or(0),
        shared_buffers: shared_buffers
            .and_then(|b| b.parse().ok())
            .unwrap_or(128 << 20),
        most_clients,
    };
    let mut plan = measure::plan(
        request.workload.clone(),
        request.measure,
        vec![arm],
        &machine,
        request.budget,
        rundir::random_seed()?,
    )?;
    if !loads {
        plan.points.clear();
    }
    Ok(plan)
}

/// The plan of the second load, where there is to be one.
fn second_plan(request: &Request, plan: &Plan, loads: bool) -> anyhow::Result<Option<Plan>> {
    match &request.again {
        Again::Resume(dir, _) => Ok(rundir::read(dir)?.second_plan),
        _ if request.second && loads => Ok(Some(second::plan(plan)?)),
        _ => Ok(None),
    }
}

fn open_run(request: &Request, root: &Path, plan: &Plan) -> anyhow::Result<RunWriter> {
    if let Again::Resume(dir, header) = &request.again {
        let mut writer = RunWriter::reopen(dir, header)?;
        writer.append_event(EventKind::Resumed)?;
        return Ok(writer);
    }
    let mut header = record::header(request.command, command_line(request), plan.clone());
    RunWriter::create(root, &mut header)
}

/// The command that repeats the run.
fn command_line(request: &Request) -> Vec<String> {
    if let Again::Repeat(header) = &request.again {
        return header.command_line.clone();
    }
    let mut words = vec![request.command];
    if request.command == "run" {
        words.push(&request.typed.0);
    }
    let mut line = record::command_line(&words, request.target);
    line.extend(request.typed.1.iter().cloned());
    if request.command == "assay" && !request.primitives {
        line.push("--quick".to_owned());
    }
    line
}

fn announce_load(
    request: &Request,
    subject: &Subject,
    plan: &Plan,
    second: Option<&Plan>,
    terminal: &mut Terminal,
) {
    let seconds = plan.load_seconds();
    if subject.origin == Origin::Running {
        let mut workload = plan.workload.clone();
        workload.writes |= second.is_some_and(|second| second.workload.writes);
        let both = seconds + second.map_or(0.0, Plan::load_seconds);
        terminal.announce(&guest::announcement(
            &subject.shown,
            &workload,
            plan.max_clients(),
            both,
        ));
    }
    let counts: Vec<String> = plan.points.iter().map(|p| p.clients.to_string()).collect();
    terminal.announce(&format!(
        "{}: {} trials of {:.2} s at each of {} clients, scale {}: about {}",
        request.workload.name,
        plan.trials,
        plan.window_ms as f64 / 1000.0,
        counts.join(", "),
        plan.workload.scale,
        // Set-up, the time between trials and the report come on top.
        minutes(Duration::from_secs_f64(
            seconds * 1.03 + 4.0 + f64::from(plan.workload.scale) * 0.25
        )),
    ));
    if let Some(second) = second {
        terminal.announce(&format!(
            "then {}: {} trials at each: about {}",
            second.workload.name,
            second.trials,
            minutes(Duration::from_secs_f64(second.load_seconds() * 1.1)),
        ));
    }
}

/// Writes the report into the run and prints it.
pub(super) fn conclude(
    analysis: &Analysis,
    json: bool,
    dir: &Path,
    terminal: &mut Terminal,
) -> anyhow::Result<()> {
    let written = page_of_run(dir, &pgassay_report::html(analysis));
    let format = if json { Format::Json } else { Format::Text };
    let text = show::render(analysis, format, terminal, true)?;
    let printed = terminal.print(&text);
    terminal.announce(&format!("report: {}", written?.display()));
    printed
}

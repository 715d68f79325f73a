//! `pgassay run` over more than clients: a launched server for each value of each axis, all of them up
//! at once and loaded in turn, so that drift of the machine falls on all alike.

use std::time::Duration;

use anyhow::bail;
use pgassay_analysis::host::HostSummary;
use pgassay_analysis::number::counted;
use pgassay_engine::agents::Agents;
use pgassay_engine::drivers::wire::{Wire, WireArm};
use pgassay_engine::rundir::{self, RunWriter};
use pgassay_engine::runner::Ended;
use pgassay_engine::workload::sessions::Recordings;
use pgassay_engine::workload::{self, setup};
use pgassay_model::axis::{self, AxisValue};
use pgassay_model::comparison::Typed;
use pgassay_model::plan::{Arm, Experiment, Stage};
use pgassay_model::run::EventKind;
use pgassay_model::stage::StageId;
use pgassay_model::warning::Warning;
use pgassay_model::{Failure, Plan};
use pgassay_observe::{Choice, host};
use pgassay_server::TargetSpec;
use pgassay_sys::affinity;
use pgassay_sys::stop::Stop;

use super::alone::{self, Company};
use super::buffers::refuse_buffers;
use super::compare::servers::{Servers, Surroundings};
use super::given::{self, Given, Machine, given};
use super::measure::finish;
use super::progress::{Progress, minutes};
use super::recorder::Recorder;
use super::request::Request;
use super::{conditions, copies, from, inspect_server, observing, quiet, record, sweep};
use crate::cli::args::{GlobalArgs, RunArgs};
use crate::cli::from::Ways;
use crate::cli::measure::{self, Concurrency};
use crate::cli::target::TargetArgs;
use crate::exit::{Exit, explain};
use crate::terminal::Terminal;

/// Connections beside the load: two control sessions and a few to spare.
const BESIDE: u32 = 6;
/// Seconds that making and starting a server takes, about.
const TO_START: f64 = 3.0;
/// Bytes of tables that are filled in a second, about.
const FILLED_A_SECOND: f64 = 60e6;

/// Whether something beside clients is varied.
pub fn are_asked(args: &RunArgs, recorded: Option<&Experiment>) -> bool {
    match recorded {
        Some(experiment) => experiment.has_axes(),
        None => !given::asked(&args.axes, args.measure.scale.as_ref()).is_empty(),
    }
}

/// A server to be, by what it has of each axis.
struct Wanted {
    label: String,
    values: Vec<AxisValue>,
    given: Given,
}

/// Carries the request out, from the servers to the report.
///
/// # Errors
/// What kept it from measuring; what was measured before is kept.
pub fn run(
    args: &RunArgs,
    request: &Request,
    global: &GlobalArgs,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Exit> {
    let root = rundir::root(global.runs.as_deref())?;
    let target = request
        .target
        .target
        .as_deref()
        .unwrap_or("temp")
        .to_owned();
    let spec: TargetSpec = target.parse().map_err(explain)?;
    given::refuse_running(&spec)?;
    if request.ceiling {
        bail!(
            Failure::usage("--ceiling measures the client beside one server, and here are several")
                .with_remedy("leave it out")
        );
    }
    let recorded = request.again.experiment();
    let machines = request.again.from(request.measure.from.as_ref())?;
    let host = pgassay_analysis::host::summarise(&host::facts(None));
    let mut concurrency = Concurrency::of(request.measure, host.cpus.unwrap_or(1))
        .replaying(request.workload.replay.as_ref())?;
    // Before anything is launched: what this machine does not have is refused at once.
    let client = client_cpus(request, &concurrency)?;
    let wanted = wanted(args, recorded, &Machine::here(&client, host.cpu_quota)?)?;
    let settings: Vec<Vec<String>> = wanted
        .iter()
        .map(|server| [&request.target.settings[..], &server.given.settings].concat())
        .collect();
    refuse_buffers(&settings, host.usable_memory_bytes())?;
    quiet::look(request.measure.wait_quiet, terminal, stop)?;
    let agents = request.agents(machines.as_ref(), global, terminal, stop)?;
    let launched = from::Servers {
        launched: true,
        running: false,
    };
    let named = machines.as_ref().zip(agents.as_ref());
    let outside = from::ways(named, &request.measure.ways, launched, terminal)?;
    if let Some(agents) = &agents {
        concurrency = concurrency.driven_by(request.measure, agents.cpus());
    }
    let most = recorded.map_or(concurrency.most(), |experiment| {
        experiment.plan().max_clients()
    });
    announce_servers(&wanted, terminal);
    let on = (target.as_str(), outside);
    let mut servers = open(request, on, &wanted, &host, most, terminal, stop)?;
    if let Some(agents) = &agents {
        servers.find_from(agents, &request.workload)?;
    }
    let experiment = match recorded {
        Some(experiment) => experiment.clone(),
        None => {
            let machine = measure::Machine {
                cache_bytes: host.last_level_cache_total_bytes.unwrap_or(0),
                shared_buffers: servers.shared_buffers()?,
            };
            let mut plan = measure::plan(
                request.workload.clone(),
                request.measure,
                &concurrency,
                wanted.len(),
                &machine,
                request.budget,
                rundir::random_seed()?,
            )?;
            // Those of all servers: what each leaves out of them follows from its values.
            plan.workload.dials.client_cpus = client;
            Experiment {
                arms: arms(request, &wanted, &mut servers),
                stages: vec![Stage::wire(StageId::Load, plan)],
                observe: request.measure.observe.names(),
                from: machines.as_ref().map(from::names).unwrap_or_default(),
            }
        }
    };
    let plans: Vec<Plan> = wanted
        .iter()
        .map(|server| of_server(experiment.plan(), &server.given))
        .collect();
    announce_load(experiment.plan(), &plans, terminal);
    let bytes: Vec<u64> = plans
        .iter()
        .map(|plan| workload::bytes(&plan.workload))
        .collect();
    servers.refuse_full_disk(&bytes)?;
    let mut header = record::header(request.command, global, experiment.clone());
    let mut writer = request.again.open(&root, &mut header)?;
    let deferred = stop.defer();
    let company = alone::look();
    note(&mut writer, &mut servers, &company, terminal)?;
    let mut progress = Progress::new(terminal, 100).in_lines(terminal);
    let mut measuring = Measuring {
        request,
        experiment: &experiment,
        plans: &plans,
        servers: &mut servers,
        writer: &mut writer,
        agents: agents.as_ref(),
        stop,
    };
    let ended = measuring.run(&mut progress);
    progress.clear();
    if let Some(words) = servers.last_words() {
        terminal.warn(&format!("the server's last words:\n{}", words.trim_end()));
    }
    let held = (servers, deferred, company);
    finish(request, ended, writer, held, true, terminal)
}

/// The CPUs that the load threads have to themselves; none where they have none.
fn client_cpus(request: &Request, concurrency: &Concurrency) -> anyhow::Result<Vec<usize>> {
    Ok(match (request.again.experiment(), &request.pin) {
        (Some(experiment), _) => experiment.plan().workload.dials.client_cpus.clone(),
        (None, Some(pin)) => {
            pin.client_cpus(&affinity::allowed_cpus()?, concurrency.threads as usize)?
        }
        (None, None) => Vec::new(),
    })
}

/// The servers that are asked for, or that were recorded.
fn wanted(
    args: &RunArgs,
    recorded: Option<&Experiment>,
    machine: &Machine,
) -> anyhow::Result<Vec<Wanted>> {
    let all: Vec<Vec<AxisValue>> = match recorded {
        Some(experiment) => experiment.arms.iter().map(|arm| arm.axes.clone()).collect(),
        None => {
            let axes = given::asked(&args.axes, args.measure.scale.as_ref());
            given::refuse_many(&axes, 1)?;
            given::refuse_numa_wrapped(&axes, args.target.confined.wrap.is_some())?;
            axis::product(&axes)
        }
    };
    let each = all.into_iter().map(|values| {
        Ok(Wanted {
            label: axis::in_words(&values),
            given: given(&values, machine)?,
            values,
        })
    });
    each.collect()
}

fn announce_servers(wanted: &[Wanted], terminal: &mut Terminal) {
    terminal.announce(&match wanted.len() {
        1 => "1 server:".to_owned(),
        several => format!("{several} servers, all up at once and loaded in turn:"),
    });
    for server in wanted {
        let Given { cpus, wrap, .. } = &server.given;
        let where_to = given::placed(cpus, wrap);
        terminal.announce(&format!("  {}{where_to}", server.label));
    }
}

/// Launches them.
fn open(
    request: &Request,
    (target, outside): (&str, Ways),
    wanted: &[Wanted],
    host: &HostSummary,
    clients: u32,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Servers> {
    let arms: Vec<(String, Typed)> = wanted
        .iter()
        .map(|server| {
            let mut settings = request.target.settings.clone();
            settings.extend(server.given.settings.iter().cloned());
            let mut typed = Typed {
                target: target.to_owned(),
                settings,
                confinement: request.target.confined.plan(),
                ..Typed::default()
            };
            server.given.confine(&mut typed.confinement);
            (server.label.clone(), typed)
        })
        .collect();
    let mut common = TargetArgs {
        outside,
        ..request.target.clone()
    };
    if let Some(original) = &common.from_database {
        let spec: TargetSpec = target.parse().map_err(explain)?;
        let scratch = common.scratch.as_deref();
        common.dump = Some(copies::dump(original, &[spec], scratch, stop)?);
    }
    let around = Surroundings {
        passage: Default::default(),
        common,
        memory_bytes: host.usable_memory_bytes().unwrap_or(1 << 30),
        connections: clients
            .saturating_add(request.workload.further_connections())
            .saturating_add(BESIDE),
    };
    let order: Vec<usize> = (0..arms.len()).collect();
    terminal.progress("making and starting the servers");
    let mut servers = Servers::open(&arms, &order, &around, stop)?;
    let shown = servers.subject(0).shown.clone();
    terminal.announce(&format!("the first of them: {shown}"));
    Ok(servers)
}

/// The servers as they are recorded.
fn arms(request: &Request, wanted: &[Wanted], servers: &mut Servers) -> Vec<Arm> {
    let each = wanted.iter().enumerate().map(|(index, server)| Arm {
        label: server.label.clone(),
        axes: server.values.clone(),
        ..record::arm(request.target, servers.subject(index))
    });
    each.collect()
}

/// The plan as one server has it.
fn of_server(plan: &Plan, given: &Given) -> Plan {
    let mut plan = plan.clone();
    if let Some(scale) = given.scale {
        plan.workload.scale = scale;
    }
    plan.workload
        .dials
        .client_cpus
        .clone_from(&given.client_cpus);
    plan
}

fn announce_load(plan: &Plan, plans: &[Plan], terminal: &mut Terminal) {
    let counts: Vec<String> = plan.points.iter().map(|p| p.clients.to_string()).collect();
    let bytes: u64 = plans
        .iter()
        .map(|plan| workload::bytes(&plan.workload))
        .sum();
    let servers = plans.len();
    let seconds =
        servers as f64 * (plan.load_seconds() * 1.05 + TO_START) + bytes as f64 / FILLED_A_SECOND;
    terminal.announce(&format!(
        "{} at {} clients on {}: {}, {} of {:.2} s at each: about {}",
        plan.workload.name,
        counts.join(", "),
        counted(servers as u32, "server"),
        counted((servers * plan.points.len()) as u32, "point"),
        counted(plan.trials, "trial"),
        plan.window_ms as f64 / 1000.0,
        minutes(Duration::from_secs_f64(seconds)),
    ));
}

/// Writes down what the servers are, and who else measures.
fn note(
    writer: &mut RunWriter,
    servers: &mut Servers,
    company: &Company,
    terminal: &mut Terminal,
) -> anyhow::Result<()> {
    let data_dir = servers.subject(0).data_dir();
    writer.write_fact("host", &host::facts(data_dir.as_deref()))?;
    // They are launched from one installation: it is the same file.
    let binary = inspect_server::inspect(servers.subject(0));
    for arm in 0..servers.arms_up() {
        let subject = servers.subject(arm);
        writer.write_fact(&format!("server-{arm}"), &subject.facts()?)?;
        writer.write_fact(&format!("storage-{arm}"), &subject.scene.storage)?;
        writer.write_fact(&format!("binary-{arm}"), &binary)?;
        for mismatch in servers.not_in_force(arm)? {
            let text = format!("A setting is not in force as asked for: {mismatch}.");
            let warning = Warning::new("setting-not-in-force", text);
            writer.append_event(EventKind::Warned { warning })?;
        }
    }
    alone::record(company, writer, terminal)?;
    Ok(())
}

/// What is measured, on which servers.
struct Measuring<'a> {
    request: &'a Request<'a>,
    experiment: &'a Experiment,
    plans: &'a [Plan],
    servers: &'a mut Servers,
    writer: &'a mut RunWriter,
    agents: Option<&'a Agents>,
    stop: &'a Stop,
}

impl Measuring<'_> {
    /// Fills the tables, and runs the slices that are not yet measured.
    fn run(&mut self, progress: &mut Progress) -> anyhow::Result<Ended> {
        let count = self.plans.len();
        for (arm, plan) in self.plans.iter().enumerate() {
            progress.say(format!("filling the tables, server {} of {count}", arm + 1));
            let subject = self.servers.subject(arm);
            let mut share = |done: f64| progress.share((arm as f64 + done) / count as f64);
            subject.make_tables(&plan.workload, &mut share, self.stop)?;
            setup::read_in(subject.session()?)?;
            subject.session()?.execute("CHECKPOINT")?;
            if self.stop.asked() {
                return Ok(Ended::Interrupted);
            }
        }
        let Some(stage) = self.experiment.stages.first() else {
            bail!("the run has no stage");
        };
        let ended = self.sweep(stage, progress)?;
        if matches!(ended, Ended::Complete) {
            for (arm, plan) in self.plans.iter().enumerate() {
                let label = self.experiment.arms.get(arm).map(|arm| arm.label.as_str());
                let subject = self.servers.subject(arm);
                sweep::verify(subject, plan, label, self.writer)?;
                if !plan.workload.conditions.is_empty() {
                    conditions::check(subject, &plan.workload)?;
                }
            }
        }
        Ok(ended)
    }

    fn sweep(&mut self, stage: &Stage, progress: &mut Progress) -> anyhow::Result<Ended> {
        let default = Choice {
            waits: true,
            sched: true,
            perf: false,
            pmu: false,
            apart: true,
        };
        let typed = self.request.again.observe(&self.request.measure.observe);
        let observers = observing::choice(&typed, default);
        let mut arms = Vec::new();
        let recordings = Recordings::default();
        for (index, plan) in (0u32..).zip(self.plans) {
            let at = index as usize;
            self.writer
                .append_event(EventKind::Launched { arm: index })?;
            let watched = self.servers.watched(at, observers)?;
            let subject = self.servers.subject(at);
            let source = from::source(self.agents, subject.outside.as_ref(), &recordings);
            let conninfo = &subject.conninfo;
            let mut arm = WireArm::new(plan, conninfo, watched, true, source, self.stop)?;
            arm.label = self.experiment.arms.get(at).map(|arm| arm.label.clone());
            arms.push(arm);
        }
        let count = arms.len();
        let mut driver = Wire {
            arms,
            plan: stage.plan.clone(),
            // One that writes something out while another is measured would disturb it.
            checkpoints: stage.plan.workload.writes,
            launches: Default::default(),
            stop: self.stop.clone(),
        };
        let recorder = Recorder::new(self.writer);
        let ended = recorder.run(stage, count, &mut driver, progress, self.stop);
        let written = observing::write_all_symbols(self.writer, &mut driver);
        drop(driver.close());
        written?;
        for arm in 0..count {
            let row = sweep::settled_counters(&mut self.servers.subject(arm).scene);
            let arm = arm as u32;
            self.writer
                .append_event(EventKind::DatabaseAfter { arm, row })?;
        }
        ended
    }
}

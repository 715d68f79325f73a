//! `pgassay lines --sample` and `--sampled`: what the processor's sampling saw of the same lines.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::bail;
use pgassay_engine::workload::{self, setup};
use pgassay_lines::account::Account;
use pgassay_lines::sampled::gather::{Gathering, Subject as Of};
use pgassay_lines::sampled::perf::{self, Way};
use pgassay_lines::sampled::places::Places;
use pgassay_lines::sampled::{SCHEMA, Sampled};
use pgassay_lines::session::{Process, Server, map_of, surveyed};
use pgassay_load::script::Value;
use pgassay_load::{Edge, Engine, Length, Options, SliceSpec};
use pgassay_model::Failure;
use pgassay_model::workload::WorkloadPlan;
use pgassay_server::{TargetSpec, clock};
use pgassay_sys::stop::Stop;
use pgassay_sys::{input, memory};

use super::progress::Progress;
use super::show::{next, show};
use super::subject::Subject;
use crate::cli::lines::LinesArgs;
use crate::cli::target::TargetArgs;
use crate::exit::{Exit, explain};
use crate::terminal::Terminal;

/// The largest document that is read.
const MOST: u64 = 64 << 20;
/// How long our load may go on while perf starts and writes its file.
const MARGIN: Duration = Duration::from_secs(600);
/// The longest that `--sample` takes, in seconds.
const LONGEST: u64 = 3600;

/// What the samples are taken from.
pub enum Source {
    /// perf, now.
    Now {
        /// The program.
        program: std::path::PathBuf,
        /// How it is used here.
        way: Way,
        /// For how long.
        seconds: u32,
        /// Clients of ours, if the load is ours.
        clients: u32,
    },
    /// The text of `perf script` about this server.
    Text(File),
    /// What was sampled and named elsewhere.
    Elsewhere(Box<Sampled>),
}

impl Source {
    /// What the arguments ask for, if anything; what can't be had is said before a server is opened.
    ///
    /// # Errors
    /// Why this machine can't sample, or what is wrong with the file.
    pub fn of(args: &LinesArgs) -> anyhow::Result<Option<Self>> {
        let source = match (args.sample, &args.sampled) {
            (None, None) => return Ok(None),
            (Some(seconds), _) => {
                let (program, way) = perf::ready()?;
                let cpus = thread::available_parallelism().map_or(1, usize::from);
                Self::Now {
                    program,
                    way,
                    seconds,
                    clients: args.sample_clients.unwrap_or(cpus as u32),
                }
            }
            (None, Some(path)) => read(path)?,
        };
        let target = args.targets.first().map_or("temp", String::as_str);
        let spec: TargetSpec = target.parse().map_err(explain)?;
        if args.targets.len() > 1 {
            bail!(Failure::usage("samples are of one server").with_remedy("name one target"));
        }
        if matches!(source, Self::Text(_)) && spec.is_launched() {
            bail!(
                Failure::usage(
                    "a text of perf script holds addresses of the server that was sampled"
                )
                .with_remedy("name that server, while it runs: its connection string")
            );
        }
        Ok(Some(source))
    }

    /// Whether nothing is counted beside it: a server of somebody's that is to get no load.
    pub fn is_alone(&self, args: &LinesArgs) -> bool {
        let of_ours = args.targets.first().is_none_or(|target| {
            target
                .parse::<TargetSpec>()
                .map_or(true, |spec| spec.is_launched())
        });
        !of_ours && !args.load && !matches!(self, Self::Elsewhere(_))
    }

    /// Clients that it needs.
    pub fn clients(&self) -> u32 {
        match self {
            Self::Now { clients, .. } => *clients,
            _ => 0,
        }
    }
}

/// A document of ours, or perf's text.
fn read(path: &Path) -> anyhow::Result<Source> {
    let named = |why: String| Failure::usage(format!("--sampled {}: {why}", path.display()));
    let file = input::open(path).map_err(|error| named(error.to_string()))?;
    let mut first = [0];
    let begins = (&file).read(&mut first).map_err(|e| named(e.to_string()))?;
    if begins == 0 {
        bail!(named("it is empty".to_owned()));
    }
    if first != *b"{" {
        return Ok(Source::Text(
            input::open(path).map_err(|error| named(error.to_string()))?,
        ));
    }
    let text = input::read(path, MOST).map_err(|error| named(error.to_string()))?;
    let remedy = "a file of pgassay lines --sample --json, or the text of perf script";
    let wrong = |why: String| named(why).with_remedy(remedy);
    let document: serde_json::Value =
        serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
    let sampled = match document["schema"].as_str() {
        Some(SCHEMA) => &document,
        Some(pgassay_lines::account::SCHEMA) => &document["beside"]["sampled"],
        _ => bail!(wrong("it is another document".to_owned())),
    };
    if sampled.is_null() {
        bail!(wrong("it holds no samples".to_owned()));
    }
    let sampled: Sampled =
        serde_json::from_value(sampled.clone()).map_err(|error| wrong(error.to_string()))?;
    Ok(Source::Elsewhere(Box::new(sampled)))
}

/// The load that is given while perf samples.
pub struct Load<'a> {
    /// Which.
    pub plan: &'a WorkloadPlan,
    /// Its seed.
    pub seed: u64,
}

/// Shows what was sampled of a server without counting anything.
///
/// # Errors
/// What kept it from sampling.
pub fn alone(
    args: &LinesArgs,
    source: Source,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Exit> {
    let target = args.targets.first().map_or("temp", String::as_str);
    let spec: TargetSpec = target.parse().map_err(explain)?;
    let flags = TargetArgs {
        target: Some(target.to_owned()),
        ..TargetArgs::default()
    };
    let mut subject = Subject::open(&spec, &flags, 1 << 30, 4, stop)?;
    terminal.announce(&format!("server: {}", subject.shown));
    let postmaster = subject.scene.postmaster.clone().map_err(|why| {
        Failure::target(format!("its memory can't be read: {why}"))
            .with_remedy("run pgassay on the server's machine, over its Unix socket")
    })?;
    let own_pid = subject.session()?.backend_pid().unsigned_abs();
    let process = Process::find(postmaster, own_pid)?;
    if let Source::Now { seconds, .. } = &source {
        terminal.announce(&format!(
            "sampling its sessions for {seconds} s, as they are; all CPUs are sampled meanwhile"
        ));
    }
    let bytes = args.line_size.or_else(line_of_this_machine).unwrap_or(64);
    let progress = Progress::new(terminal, 1000);
    let sampled = sampled(
        &mut subject,
        (postmaster, process),
        source,
        None,
        bytes,
        &progress,
        stop,
    );
    progress.clear();
    show(&sampled?, &args.show, terminal)?;
    let shown = pgassay_text::shell(&[crate::secrets::shown(target)]);
    let step = format!("pgassay lines {shown} --load --sampled FILE, to count the same lines");
    next(&args.show, &[step], terminal);
    Ok(Exit::Done)
}

/// Samples beside an account of the same server, or of one like it.
///
/// # Errors
/// What kept it from sampling.
pub fn beside(
    subject: &mut Subject,
    (postmaster, process): (u32, Process),
    account: &mut Account,
    source: Source,
    load: &Load<'_>,
    progress: &Progress,
    stop: &Stop,
) -> anyhow::Result<()> {
    let of_this = !matches!(source, Source::Elsewhere(_));
    let sampled = sampled(
        subject,
        (postmaster, process),
        source,
        Some(load),
        account.line_bytes,
        progress,
        stop,
    )?;
    account.put_beside(sampled, of_this);
    Ok(())
}

fn sampled(
    subject: &mut Subject,
    (postmaster, process): (u32, Process),
    source: Source,
    load: Option<&Load<'_>>,
    line_bytes: u64,
    progress: &Progress,
    stop: &Stop,
) -> anyhow::Result<Sampled> {
    let places = RefCell::new(Places::default());
    let mut of = Of {
        recorded: clock::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        target: subject.shown.clone(),
        processor: processor(),
        line_bytes,
        ..Of::default()
    };
    match source {
        Source::Elsewhere(sampled) => Ok(*sampled),
        Source::Text(file) => {
            see(&mut places.borrow_mut(), postmaster);
            others(&mut places.borrow_mut());
            of.method = "text of perf script".to_owned();
            // Who sampled it knows on which machine.
            of.processor = String::new();
            progress.say("reading perf's text");
            let places = places.into_inner();
            let gathering = RefCell::new(Gathering::new(&places));
            perf::lines_of(file, stop.flag(), &mut |line| {
                gathering.borrow_mut().line(line);
            })?;
            named(subject, process, &places, gathering.into_inner(), of)
        }
        Source::Now {
            program,
            way,
            seconds,
            clients,
        } => {
            progress.say(format!("sampling for {seconds} s"));
            of.method = format!("{} ({})", way.name, version(&program));
            of.seconds = Some(f64::from(seconds));
            let mut look = || see(&mut places.borrow_mut(), postmaster);
            let recorded = match load {
                None => perf::record(&program, &way, seconds, stop.flag(), &mut look)?,
                Some(load) => {
                    of.clients = clients;
                    of.workload.clone_from(&load.plan.name);
                    let giver = Giver::new(subject, load, clients)?;
                    giver.during(load.seed, || {
                        perf::record(&program, &way, seconds, stop.flag(), &mut look)
                    })?
                }
            };
            see(&mut places.borrow_mut(), postmaster);
            progress.say("reading what perf recorded");
            let places = places.into_inner();
            let gathering = RefCell::new(Gathering::new(&places));
            recorded.text(
                stop.flag(),
                &mut |line| gathering.borrow_mut().line(line),
                &mut || *gathering.borrow_mut() = Gathering::new(&places),
            )?;
            named(subject, process, &places, gathering.into_inner(), of)
        }
    }
}

/// The samples with names, by what lies in the server's memory now.
fn named(
    subject: &mut Subject,
    process: Process,
    places: &Places,
    mut gathering: Gathering<'_>,
    mut of: Of,
) -> anyhow::Result<Sampled> {
    gathering.end();
    let server = Server::ask(subject.session()?)?;
    of.version.clone_from(&server.version);
    let exe = format!("/proc/{}/exe", process.pid);
    let program =
        fs::read_link(&exe).map_err(|error| Failure::target(format!("{exe}: {error}")))?;
    readable(process)?;
    let mut parts = Some((gathering, of));
    let found = surveyed(
        process,
        &server,
        &program,
        places.segments(),
        &mut |survey, images| {
            parts.take().map(|(gathering, of)| {
                gathering.named(
                    of,
                    &mut |address| survey.name(address),
                    &mut |ip| {
                        let function = images.function(ip);
                        (function.name, function.named)
                    },
                    survey.doubts.clone(),
                )
            })
        },
    )?;
    found.ok_or_else(|| Failure::target("the samples were not named").into())
}

/// Whether we may read the server's memory at all: without, nothing has a name.
fn readable(process: Process) -> Result<(), Failure> {
    let parts = map_of(process.pid)?.shared();
    let main = parts.iter().find(|part| part.segment() == "main segment");
    let Some(main) = main else {
        return Ok(());
    };
    memory::read(process.pid, main.range.start, &mut [0; 8]).map_err(|error| {
        Failure::target(format!("the server's memory can't be read: {error}"))
            .with_remedy("run as root, or as the server's user")
    })
}

/// Notes what the server's processes have mapped now.
fn see(places: &mut Places, postmaster: u32) {
    let path = format!("/proc/{postmaster}/task/{postmaster}/children");
    let children = fs::read_to_string(path).unwrap_or_default();
    let children = children
        .split_ascii_whitespace()
        .filter_map(|pid| pid.parse().ok());
    for pid in children.chain([postmaster]) {
        // One that has ended meanwhile had been seen before, or did little.
        if let Ok(map) = map_of(pid) {
            places.see(pid, &map);
        }
    }
}

/// Notes which processes are not the server's; those that have ended since may have been.
fn others(places: &mut Places) {
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids: HashSet<u32> = pids
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    places.believe_ended(pids);
}

/// Our clients, who load the server while it is sampled.
struct Giver {
    engine: Engine,
    over: Arc<AtomicBool>,
}

impl Giver {
    fn new(subject: &Subject, load: &Load<'_>, clients: u32) -> anyhow::Result<Self> {
        let over = Arc::new(AtomicBool::new(false));
        let options = Options {
            variables: vec![("scale".to_owned(), Value::Int(i64::from(load.plan.scale)))],
            texts: load.plan.dials.define.clone(),
            stop: Arc::clone(&over),
            ..Options::default()
        };
        let conninfo = subject.conninfo.with_options(setup::FIND_OURS);
        let conninfo = conninfo.with_application_name("pgassay lines, sampled");
        let mut engine = Engine::new(conninfo, workload::program(load.plan)?, options);
        engine.resize(clients as usize)?;
        Ok(Self { engine, over })
    }

    /// Loads the server for as long as something else goes on.
    fn during<T>(
        mut self,
        seed: u64,
        what: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let spec = SliceSpec {
            length: Length::Time(Duration::from_secs(LONGEST) + MARGIN),
            seed,
            ..SliceSpec::default()
        };
        let over = Arc::clone(&self.over);
        let (done, result) = thread::scope(|scope| {
            let load = scope.spawn(move || self.engine.run_slice(&spec, &mut |_: Edge| {}));
            let done = what();
            over.store(true, Ordering::Relaxed);
            (done, load.join())
        });
        let done = done?;
        let result = result.map_err(|_| Failure::target("the load broke down"))?;
        if result.transactions > 0 {
            return Ok(done);
        }
        let example = result.failure_examples.values().next().cloned();
        let why = example.or(result.died).unwrap_or_default();
        Err(Failure::target(format!(
            "no transaction ended well while it was sampled: {why}"
        )))
    }
}

/// `perf version 6.1.187`.
fn version(program: &Path) -> String {
    let output = pgassay_sys::programs::command(program)
        .arg("--version")
        .output();
    let text = output.map(|output| output.stdout).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.lines().next().unwrap_or("perf").trim().to_owned()
}

/// The processor in the kernel's words: its name, or on Arm who made which part.
fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let of = |key: &str| {
        text.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            (name.trim() == key).then(|| value.trim().to_owned())
        })
    };
    of("model name")
        .or_else(|| of("cpu"))
        .or_else(|| {
            let (implementer, part) = (of("CPU implementer")?, of("CPU part")?);
            Some(format!("Arm, implementer {implementer}, part {part}"))
        })
        .unwrap_or_default()
}

/// Bytes of a cache line (sysfs-devices-system-cpu).
pub fn line_of_this_machine() -> Option<u64> {
    let path = "/sys/devices/system/cpu/cpu0/cache/index0/coherency_line_size";
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

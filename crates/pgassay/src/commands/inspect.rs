//! `pgassay inspect`: what the locks of binaries, packages and live servers compile to.

use super::cpu_names::unknown_cpu;
use crate::cli::args::InspectArgs;
use crate::commands::inspect_server;
use crate::commands::progress::Progress;
use crate::commands::show::{next, show};
use crate::exit::{Exit, explain};
use crate::secrets;
use crate::terminal::Terminal;
use anyhow::bail;
use pgassay_inspect::cpu::{self, Features};
use pgassay_inspect::diff::diff;
use pgassay_inspect::inspection::{Demand, Entry, Inspection, Problem};
use pgassay_inspect::require::{REQUIREMENTS, Requirement};
use pgassay_inspect::{Binary, Machine, ProcessFacts};
use pgassay_model::Failure;
use pgassay_pgwire::{Conninfo, connect};
use pgassay_server::inspection::gather::{self, Source};
use pgassay_server::inspection::live;
use pgassay_server::{Installations, TargetSpec};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::LazyLock;

/// Inspects what was named and says what was found.
///
/// # Errors
/// Where the command line is wrong, a target can't be had, or nothing named could be read.
pub fn inspect(args: &InspectArgs, terminal: &mut Terminal) -> anyhow::Result<Exit> {
    if args.list_cpus {
        terminal.print(&cpu_list())?;
        return Ok(Exit::Done);
    }
    let cpus = args
        .cpu
        .iter()
        .map(|name| features(name))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let requirements = requirements(&args.require)?;
    if args.inputs.is_empty() {
        bail!(
            Failure::usage("nothing to inspect is named").with_remedy(
                "name a file, a package, a directory, a target (temp) or a process id"
            )
        );
    }
    let mut problems = Vec::new();
    let mut sources = Vec::new();
    let mut modules = Vec::new();
    for input in &args.inputs {
        let found = resolve(input, &mut problems)?;
        if is_target(input)
            && let Some(server) = found.first()
        {
            modules.extend(inspect_server::modules(server, &mut problems));
        }
        sources.extend(found);
    }
    let progress = Progress::new(terminal, 1000);
    let all = sources.len();
    if all > 1 {
        progress.step(0.0, format!("inspecting {all} files"));
    }
    let gathered = gather::inspect_each(&sources, &mut |done| {
        progress.step(
            done as f64 / all as f64,
            format!("inspecting file {done} of {all}"),
        );
    });
    progress.clear();
    problems.extend(gathered.problems);
    if gathered.files.is_empty() && problems.is_empty() {
        problems.push(Problem {
            path: args.inputs.join(" "),
            error: "holds no linked ELF file".into(),
            named: true,
        });
    }
    let diff = match (args.diff, gathered.files.as_slice()) {
        (false, _) => None,
        (true, [a, b]) => Some(diff(a, b)),
        (true, all) => {
            let servers: Vec<&Binary> = all.iter().filter(|b| b.postgres.is_some()).collect();
            match servers.as_slice() {
                [a, b] => Some(diff(a, b)),
                _ => bail!(Failure::usage(format!(
                    "--diff wants two files, or two packages with one server each; {} files with {} servers were found",
                    all.len(),
                    servers.len()
                ))),
            }
        }
    };
    let demands = requirements
        .iter()
        .map(|r| hold(r, &gathered.files, &problems))
        .collect();
    let mut files = gathered.files;
    if !args.addresses {
        files.iter_mut().for_each(|b| b.atomics.forget_addresses());
    }
    let inspection = Inspection {
        schema: Inspection::SCHEMA,
        files: files.into_iter().map(|b| entry(b, &cpus)).collect(),
        modules,
        problems,
        requirements: demands,
        diff,
    };
    show(&inspection, &args.show, terminal)?;
    if inspection.diff.is_none() && inspection.problems.is_empty() {
        let mut steps = vec!["pgassay build --recommend".to_owned()];
        if let [one] = args.inputs.as_slice() {
            let one = secrets::shown(one);
            steps.insert(0, format!("pgassay inspect '{one}' OTHER --diff"));
        }
        next(&args.show, &steps, terminal);
    }
    Ok(exit(&inspection, terminal))
}

/// Unmet demands before unreadable files: CI asks for the first.
fn exit(inspection: &Inspection, terminal: &mut Terminal) -> Exit {
    let mut exit = Exit::Done;
    for problem in inspection.problems.iter().filter(|p| p.named) {
        terminal.complain(&format!("{}: {}", problem.path, problem.error));
        exit = Exit::Usage;
    }
    if inspection.requirements.iter().any(|d| !d.met) {
        exit = Exit::Found;
    }
    exit
}

fn cpu_list() -> String {
    let mut text = String::new();
    let yes = |known: Option<bool>| match known {
        Some(true) => "yes",
        Some(false) => "no",
        None => "?",
    };
    let _ = writeln!(
        text,
        "{:<13} {:<9} {:<5} {:<5} {:<6} products and other names",
        "cpu", "machine", "LSE", "LSE2", "GCC"
    );
    for cpu in cpu::CPUS {
        let arm = cpu.machine == Machine::Aarch64;
        let mut names = cpu.products.to_string();
        if !cpu.aliases.is_empty() {
            names = format!("{names} [{}]", cpu.aliases.join(", "));
        }
        let _ = writeln!(
            text,
            "{:<13} {:<9} {:<5} {:<5} {:<6} {names}",
            cpu.id,
            cpu.machine.name(),
            if arm { yes(cpu.lse) } else { "-" },
            if arm { yes(cpu.lse2) } else { "-" },
            cpu.gcc,
        );
    }
    text.push_str("GCC: the first that knows -mcpu or -march by that name. `host` is the CPU of this machine.\n");
    text
}

/// A CPU by name; `host` is read off this machine.
fn features(name: &str) -> anyhow::Result<Features> {
    if name == "host" {
        return Ok(HOST.clone());
    }
    match cpu::find(name) {
        Some(cpu) => Ok(cpu.into()),
        None => bail!(unknown_cpu(name)),
    }
}

/// The CPU of this machine.
static HOST: LazyLock<Features> = LazyLock::new(host);

/// Reads it: its name from /proc/cpuinfo, LSE from the kernel's HWCAP.
fn host() -> Features {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let architecture = match std::env::consts::ARCH {
        "powerpc64" => "ppc64le",
        other => other,
    };
    let features = Features::of_host(architecture, &cpuinfo);
    Features {
        lse: live::host_has_lse().or(features.lse),
        ..features
    }
}

fn requirements(typed: &[String]) -> anyhow::Result<Vec<Requirement>> {
    typed
        .iter()
        .flat_map(|t| t.split(','))
        .filter(|t| !t.is_empty())
        .map(|id| match Requirement::find(id) {
            Some(requirement) => Ok(requirement),
            None => {
                let known: Vec<&str> = REQUIREMENTS.iter().map(|r| r.id.as_ref()).collect();
                bail!(
                    Failure::usage(format!("--require {id}: no such requirement")).with_remedy(
                        format!(
                            "one of {}, or runs-on-CPU with a name of --list-cpus",
                            known.join(", ")
                        )
                    )
                )
            }
        })
        .collect()
}

/// Holds all files against a demand. What could not be read may be what does not meet it.
fn hold(requirement: &Requirement, files: &[Binary], unread: &[Problem]) -> Demand {
    let concerned: Vec<&Binary> = files.iter().filter(|b| requirement.concerns(b)).collect();
    let unmet: Vec<(String, String)> = concerned
        .iter()
        .filter_map(|b| requirement.check(b).err().map(|why| (b.path.clone(), why)))
        .chain(
            unread
                .iter()
                .map(|p| (p.path.clone(), format!("could not be read: {}", p.error))),
        )
        .collect();
    Demand {
        requirement: requirement.id.to_string(),
        met: unmet.is_empty() && !concerned.is_empty(),
        files: concerned.len(),
        unread: unread.len(),
        unmet,
    }
}

/// Adds the verdicts: for the CPUs asked for; else for this host where it can run the file; else,
/// for an Arm file, with and without LSE.
fn entry(binary: Binary, cpus: &[Features]) -> Entry {
    let flag = binary.process.as_ref().and_then(ProcessFacts::flag);
    let host = &*HOST;
    let verdicts = if !cpus.is_empty() {
        // What was read off a process says nothing of another CPU.
        cpus.iter()
            .map(|c| cpu::verdict(&binary, c, flag.filter(|_| c.name == host.name)))
            .collect()
    } else if binary.machine == host.machine || binary.process.is_some() {
        vec![cpu::verdict(&binary, &host.clone().seen_by(&binary), flag)]
    } else if binary.machine == Machine::Aarch64 {
        ["armv8.1-a", "armv8.0-a"]
            .iter()
            .filter_map(|id| cpu::find(id))
            .map(|c| cpu::verdict(&binary, &c.into(), None))
            .collect()
    } else {
        Vec::new()
    };
    Entry { binary, verdicts }
}

/// Whether an argument names a server or an installation: no path, no process.
fn is_target(input: &str) -> bool {
    let path = Path::new(input).symlink_metadata().is_ok();
    !path && input.parse::<u32>().is_err() && looks_like_target(input)
}

fn looks_like_target(input: &str) -> bool {
    input.starts_with("temp")
        || input.starts_with("build:")
        || input.contains("://")
        || TargetSpec::is_mistyped_uri(input)
        || input.contains('=')
}

/// What an argument names: a path if there is one, a process id, else a target.
fn resolve(input: &str, problems: &mut Vec<Problem>) -> anyhow::Result<Vec<Source>> {
    let path = Path::new(input);
    if path.symlink_metadata().is_ok() {
        return Ok(gather::sources(path, problems));
    }
    if let Ok(pid) = input.parse::<u32>() {
        return process(pid);
    }
    if !looks_like_target(input) {
        problems.push(Problem {
            // It may have been meant to be a connection string.
            path: secrets::shown(input),
            error: "no such file, process or target".into(),
            named: true,
        });
        return Ok(Vec::new());
    }
    let spec: TargetSpec = input.parse().map_err(explain)?;
    if let TargetSpec::Server(conninfo) = &spec {
        return server(conninfo);
    }
    // A cross-build can be inspected, though not asked for its version.
    if let TargetSpec::Build(name) = &spec
        && let Some(server) = super::build::server_of(name)
    {
        return Ok(gather::sources(&server, problems));
    }
    let Some(installation) = spec.installation(&Installations::search())? else {
        return Ok(Vec::new());
    };
    Ok(gather::sources(&installation.tool("postgres"), problems))
}

fn process(pid: u32) -> anyhow::Result<Vec<Source>> {
    gather::process_sources(pid).map_err(|e| unreadable(pid, &e))
}

fn unreadable(pid: u32, error: &std::io::Error) -> anyhow::Error {
    let failure = Failure::target(format!("process {pid} can't be read: {error}"));
    match error.kind() {
        std::io::ErrorKind::PermissionDenied => {
            failure.with_remedy("run as the server's user or as root")
        }
        _ => failure.with_remedy("name a process that runs on this machine"),
    }
    .into()
}

/// The files of the server behind a connection, where its processes run on this machine: over a Unix
/// socket the kernel names the postmaster, over TCP the own backend's title and parent do.
fn server(conninfo: &str) -> anyhow::Result<Vec<Source>> {
    let conninfo = Conninfo::parse(conninfo).map_err(|e| Failure::usage(e.to_string()))?;
    let mut session = connect(&conninfo).map_err(|e| Failure::target(e.to_string()))?;
    let postmaster = match session.peer_pid() {
        Some(pid) if live::is_postmaster(pid) => Some(pid),
        Some(pid) if Path::new(&format!("/proc/{pid}/stat")).exists() => bail!(
            Failure::target(
                "a pooler or proxy listens on the socket, not PostgreSQL itself: its program is \
                 not the server's"
            )
            .with_remedy("connect to the server's own socket or port, past the pooler")
        ),
        Some(_) => None,
        None => {
            let port = session
                .value("SELECT pg_catalog.inet_client_port()")
                .map_err(|e| Failure::target(e.to_string()))?;
            u32::try_from(session.backend_pid())
                .ok()
                .zip(port)
                .filter(|(pid, port)| live::serves_port(*pid, port))
                .and_then(|(pid, _)| live::parent_of(pid))
        }
    };
    let Some(pid) = postmaster else {
        bail!(
            Failure::target(
                "the server's processes are not seen on this machine, so its binary can't be read"
            )
            .with_remedy("run pgassay inspect on the server's machine, or on its postgres file")
        )
    };
    // The session stays while the server's processes, its own backend among them, are read.
    let sources = gather::server_sources(pid).map_err(|e| unreadable(pid, &e));
    session.close();
    sources
}

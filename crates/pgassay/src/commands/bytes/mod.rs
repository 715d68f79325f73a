//! `pgassay run pgio` and `pgassay run scattered-read`: where the bytes come
//! from. What the two share: the server, the run directory, the end.

pub mod pgio;
mod pgio_output;
pub mod scattered_read;

use std::path::Path;
use std::time::Instant;

use pgassay_analysis::plan::{Arm, WorkloadPlan};
use pgassay_analysis::record::{EndState, EventKind, FORMAT, Origin, RunEnd, RunHeader};
use pgassay_analysis::warning::Warning;
use pgassay_analysis::{Analysis, Plan, analyse};

use super::inspect_server;
use super::measure::{conclude, max_rss_bytes};
use super::progress::Progress;
use super::subject::{Subject, explain};
use crate::bench::Ended;
use crate::cli::args::{RunArgs, TargetArgs};
use crate::exit::{Exit, Failure};
use crate::host;
use crate::pg;
use crate::stop::Stop;
use crate::store::{self, RunWriter};
use crate::target::TargetSpec;
use crate::terminal::Terminal;
use crate::workload::guest;

/// Settings of a launched server under the user's own.
fn with_defaults(target: &TargetArgs, defaults: &[(&str, String)]) -> TargetArgs {
    let mut target = target.clone();
    for (name, value) in defaults {
        let set = |setting: &String| {
            setting
                .split('=')
                .next()
                .is_some_and(|set| set.trim().eq_ignore_ascii_case(name))
        };
        if !target.settings.iter().any(set) {
            target.settings.push(format!("{name}={value}"));
        }
    }
    target
}

/// Launches or visits the server; on one that was there `--load` is needed, and
/// what a killed run of ours left is removed.
fn open(
    args: &RunArgs,
    defaults: &[(&str, String)],
    connections: u32,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Subject> {
    let spec: TargetSpec = args
        .target
        .target
        .as_deref()
        .unwrap_or("temp")
        .parse()
        .map_err(explain)?;
    if !spec.is_launched() && !args.target.load {
        return Err(
            Failure::usage("a running server is not loaded without --load")
                .with_remedy("add --load, or measure a temp target")
                .into(),
        );
    }
    let progress = Progress::new(terminal, 100);
    progress.say(match spec.is_launched() {
        true => "making and starting a throw-away PostgreSQL",
        false => "connecting",
    });
    let target = match spec.is_launched() {
        true => with_defaults(&args.target, defaults),
        false => args.target.clone(),
    };
    let opened = Subject::open(&spec, &target, 1 << 30, connections, stop);
    progress.clear();
    let mut subject = opened?;
    terminal.announce(&format!("server: {}", subject.shown));
    if subject.origin == Origin::Running {
        let session = subject.session()?;
        let admitted = guest::admit(session)?;
        if connections > admitted.most_clients {
            return Err(Failure::target(format!(
                "{connections} connections are needed, and half of the server's free ones are {}",
                admitted.most_clients
            ))
            .with_remedy("take fewer sessions with --clients")
            .into());
        }
        guest::end_with_us(session);
    }
    Ok(subject)
}

/// Refuses what does not fit on the file system of the data directory, with the
/// figure. A server elsewhere can't be asked.
fn check_room(data_dir: Option<&Path>, bytes: u64, flag: &str) -> anyhow::Result<()> {
    let Some(dir) = data_dir else { return Ok(()) };
    let Ok(stat) = rustix::fs::statvfs(dir) else {
        return Ok(());
    };
    let free = stat.f_bavail * stat.f_frsize;
    // WAL, indexes and others' work need room beside the tables.
    let needed = bytes + bytes / 4;
    if needed > free {
        let gb = |bytes: u64| bytes as f64 / 1e9;
        return Err(Failure::usage(format!(
            "the tables take {:.1} GB and their making about {:.1} GB; {} has {:.1} GB free",
            gb(bytes),
            gb(needed),
            dir.display(),
            gb(free)
        ))
        .with_remedy(format!(
            "ask for less with {flag}, or for another place with --scratch"
        ))
        .into());
    }
    Ok(())
}

/// Makes the run directory and writes down what is measured.
fn begin(
    args: &RunArgs,
    root: &Path,
    subject: &mut Subject,
    trials: u32,
    window_ms: u64,
    seed: u64,
) -> anyhow::Result<RunWriter> {
    let settings = subject.cluster.as_ref().map_or_else(Vec::new, |cluster| {
        let settings = cluster.settings().iter();
        settings
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    });
    let mut header = RunHeader {
        schema: "pgassay/run/1".to_owned(),
        format: FORMAT,
        id: String::new(),
        command: "run".to_owned(),
        command_line: command_line(args),
        pgassay_version: env!("CARGO_PKG_VERSION").to_owned(),
        started: store::now(),
        plan: Plan {
            workload: WorkloadPlan {
                name: args.workload.clone(),
                scale: 1,
                protocol: "simple".to_owned(),
                ..WorkloadPlan::default()
            },
            arms: vec![Arm {
                label: args
                    .target
                    .target
                    .as_ref()
                    .map_or("temp", |_| "target")
                    .to_owned(),
                target: subject.shown.clone(),
                settings,
            }],
            // The load is not pgbench's: the points are the workload's own.
            points: Vec::new(),
            trials,
            warmup_ms: 0,
            window_ms,
            seed,
        },
    };
    let mut writer = RunWriter::create(root, &mut header)?;
    let data_dir = subject.data_dir();
    writer.write_fact("host", &host::facts(data_dir.as_deref()))?;
    writer.write_fact("server-0", &subject.facts()?)?;
    writer.write_fact("storage-0", &subject.scene.storage)?;
    writer.write_fact("binary-0", &inspect_server::inspect(subject))?;
    for mismatch in subject.settings_not_in_force()? {
        let warning = Warning::new(
            "setting-not-in-force",
            format!("A setting is not in force as asked for: {mismatch}."),
        );
        writer.append_event(EventKind::Warned { warning })?;
    }
    Ok(writer)
}

/// The command that repeats the run; a password in the target is left out.
fn command_line(args: &RunArgs) -> Vec<String> {
    let mut line = vec![
        "pgassay".to_owned(),
        "run".to_owned(),
        args.workload.clone(),
    ];
    if let Some(target) = &args.target.target {
        line.push(match pg::Conninfo::parse(target) {
            Ok(conninfo) if pg::Conninfo::looks_like(target) => conninfo.redacted(),
            _ => target.clone(),
        });
    }
    for setting in &args.target.settings {
        line.extend(["--set".to_owned(), setting.clone()]);
    }
    if args.target.load {
        line.push("--load".to_owned());
    }
    line.extend(args.io.words());
    line
}

/// The report goes into the run also where something else is printed.
fn write_report(analysis: &Analysis, dir: &Path, terminal: &mut Terminal) {
    let path = dir.join("report.html");
    match std::fs::write(&path, crate::report::html(analysis)) {
        Ok(()) => terminal.announce(&format!("report: {}", path.display())),
        Err(e) => terminal.warn(&format!("cannot write {}: {e}", path.display())),
    }
}

/// Ends the run and shows what it says; `measured` tells whether there is anything.
fn end(
    args: &RunArgs,
    (started, ended): (Instant, anyhow::Result<Ended>),
    mut writer: RunWriter,
    subject: Subject,
    terminal: &mut Terminal,
    measured: fn(&Analysis) -> bool,
    show: impl FnOnce(&Analysis, &Path, &mut Terminal) -> anyhow::Result<()>,
) -> anyhow::Result<Exit> {
    let (state, reason) = match &ended {
        Ok(Ended::Complete) => (EndState::Complete, None),
        Ok(Ended::Interrupted) => (EndState::Interrupted, Some("stopped by Ctrl-C".to_owned())),
        Ok(Ended::ServerDied(why)) => (EndState::ServerDied, Some(why.clone())),
        Err(error) => (EndState::Failed, Some(format!("{error:#}"))),
    };
    let finished = writer.finish(&RunEnd {
        state,
        reason,
        at: store::now(),
        elapsed_seconds: started.elapsed().as_secs_f64(),
        max_rss_bytes: max_rss_bytes(),
    });
    let dir = writer.dir().to_owned();
    // The lock is given up first, so that the run does not count as running.
    drop(writer);
    drop(subject);
    let analysis = analyse(&store::read(&dir)?);
    if !measured(&analysis) {
        return Err(match ended {
            Ok(Ended::ServerDied(why)) => Failure::target(format!(
                "the server died before anything was measured: {why}"
            ))
            .into(),
            Ok(_) => Failure::interrupted().into(),
            Err(error) => error,
        });
    }
    if args.io.pgio_output {
        show(&analysis, &dir, terminal)?;
        write_report(&analysis, &dir, terminal);
    } else {
        conclude(&analysis, args.json, &dir, terminal)?;
    }
    let ended = ended?;
    finished?;
    Ok(match ended {
        Ended::Complete => Exit::Done,
        Ended::Interrupted | Ended::ServerDied(_) => Exit::Partial,
    })
}

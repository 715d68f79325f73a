//! `pgassay run scattered-read --relation` and `--query`: what reads of somebody's own database cost in
//! bytes from the device. Nothing is made in the server, and nothing changed.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::bail;
use pgassay_analysis::number;
use pgassay_engine::rundir;
use pgassay_engine::workload::scattered_read::own::{self, Found};
use pgassay_engine::workload::scattered_read::{self, ways};
use pgassay_model::plan::{DriverConfig, Stage};
use pgassay_model::scattered::ScatteredPlan;
use pgassay_model::server::Origin;
use pgassay_model::stage::StageId;
use pgassay_model::{Failure, Plan};
use pgassay_observe::cache::TableFiles;
use pgassay_pgwire::Connector;
use pgassay_server::TargetSpec;
use pgassay_sys::stop::Stop;

use super::begin;
use super::executions::{Asked, Prepared, may_drop_caches, refuse_old, run_plan, was_measured};
use crate::cli::args::{GlobalArgs, RunArgs};
use crate::cli::io::IoArgs;
use crate::cli::target::TargetArgs;
use crate::commands::again::Again;
use crate::commands::ending::end;
use crate::commands::progress::Progress;
use crate::commands::subject::Subject;
use crate::commands::{quiet, record};
use crate::exit::Exit;
use crate::terminal::Terminal;

/// Connections: the session of an execution, that of the observers, and our own.
const CONNECTIONS: u32 = 4;
/// Executions of each way where nothing was asked for.
const TRIALS: u32 = 6;

/// Whether a database of somebody's own is read.
pub fn is_asked(io: &IoArgs, planned: Option<&ScatteredPlan>) -> bool {
    match planned {
        Some(plan) => plan.own.is_some(),
        None => io.relation.is_some() || io.query.is_some(),
    }
}

/// Measures it, or what an interrupted run of it has not measured.
///
/// # Errors
/// What kept it from measuring; what was measured before is kept.
pub fn run(
    args: &RunArgs,
    (target, again): (&TargetArgs, &Again),
    planned: Option<(&ScatteredPlan, &Plan)>,
    global: &GlobalArgs,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Exit> {
    let started = Instant::now();
    let recorded = planned.and_then(|(plan, _)| plan.own.as_ref());
    let (relation, query) = match recorded {
        Some(own) => (own.relation.as_deref(), own.query.as_deref()),
        None => (args.io.relation.as_deref(), args.io.query.as_deref()),
    };
    let drop_caches = planned.map_or(args.io.drop_caches, |(plan, _)| plan.drop_caches);
    if drop_caches {
        may_drop_caches()?;
    }
    let spec = target.spec()?;
    refuse(&spec, target, args)?;
    let root = rundir::root(global.runs.as_deref())?;
    quiet::look(args.measure.wait_quiet, terminal, stop)?;
    let mut subject = open(&spec, target, terminal, stop)?;
    let session = subject.session()?;
    let mut found = match (relation, query) {
        (Some(name), _) => own::relation(session, name)?,
        (None, Some(text)) => own::query(session, text)?,
        (None, None) => bail!("the recorded run reads neither a relation nor a query"),
    };
    let block = session.value("SHOW block_size")?;
    let block = block.and_then(|block| block.parse().ok()).unwrap_or(8192);
    found.own.evicted = match recorded {
        Some(own) => own.evicted,
        None => subject.origin != Origin::Running || args.io.evict || drop_caches,
    };
    let files = files(&subject, &found, block);
    if let (true, Err(why)) = (found.own.evicted, &files) {
        return Err(Failure::usage(format!(
            "the relations' files can't be taken out of the page cache: {why}"
        ))
        .with_remedy(
            "run pgassay as root or as the server's user on its machine, or leave out --evict",
        )
        .into());
    }
    let plan = match planned {
        Some((plan, _)) => plan.clone(),
        None => {
            let version = subject.session()?.value("SHOW server_version_num")?;
            let version = version.and_then(|version| version.parse().ok());
            plan(args, &found, block, version.unwrap_or(0))?
        }
    };
    let trials = planned.map_or(args.measure.trials.unwrap_or(TRIALS), |(_, plan)| {
        plan.trials
    });
    let seed = record::seed(planned.map(|(_, plan)| plan), args.measure.seed)?;
    announce(&subject, &found, &plan, trials, terminal);
    let stage = Stage {
        id: StageId::ScatteredRead,
        driver: DriverConfig::ScatteredRead(plan.clone()),
        plan: Plan {
            points: plan.points(),
            ..record::without_clients(scattered_read::NAME, trials, 0, seed)
        },
    };
    let (mut writer, header) = begin((args, global), (target, again), &root, &mut subject, stage)?;
    let asked = Asked {
        io: &args.io,
        observe: again.observe(&args.measure.observe),
        rows: 0,
        drop_caches,
        planned: planned.map(|(plan, _)| plan),
        header,
    };
    // Sessions find what the user's own find.
    let prepared = Prepared {
        connector: Connector::new(&subject.conninfo),
        files,
        warm: plan.own.as_ref().is_some_and(|own| own.evicted),
        plan,
    };
    let mut progress = Progress::new(terminal, 100);
    let ended = run_plan(
        prepared,
        &asked,
        &mut subject,
        &mut writer,
        &mut progress,
        stop,
    );
    progress.clear();
    end(
        args,
        (started, ended),
        writer,
        subject,
        terminal,
        was_measured,
    )
}

/// Refuses targets without a database of somebody's own.
fn refuse(spec: &TargetSpec, target: &TargetArgs, args: &RunArgs) -> Result<(), Failure> {
    if args.io.data.size.is_some() {
        return Err(Failure::usage(
            "--size is of the table that pgassay makes, and here your own is read",
        )
        .with_remedy("leave it out"));
    }
    match spec {
        TargetSpec::Server(_) if !target.load => Err(Failure::usage(
            "a running server is not loaded without --load, not even with reads",
        )
        .with_remedy("add --load, or measure a copy: temp with --from-database")),
        TargetSpec::Server(_) => Ok(()),
        _ if target.from_database.is_none() => Err(Failure::usage(
            "a launched server has no relation of yours",
        )
        .with_remedy(
            "name a running server and --load, or have it hold a copy with --from-database CONNINFO",
        )),
        _ => Ok(()),
    }
}

/// Launches a server with a copy, or visits the one that runs.
fn open(
    spec: &TargetSpec,
    target: &TargetArgs,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Subject> {
    let progress = Progress::new(terminal, 100);
    progress.say(match spec.is_launched() {
        true => "making and starting a throw-away PostgreSQL, with a copy of the database",
        false => "connecting",
    });
    let opened = Subject::open(spec, target, 1 << 30, CONNECTIONS, stop);
    progress.clear();
    let mut subject = opened?;
    terminal.announce(&format!("server: {}", subject.shown));
    for differs in &subject.copy_differs {
        terminal.warn(differs);
    }
    match subject.origin {
        Origin::Running => {
            subject.keep(stop);
            subject.admit_reader()?;
        }
        // A restored copy has no hint bits, which the first read of each block would write; and without
        // statistics the planner chooses other plans than the original's.
        _ => subject.session()?.execute("VACUUM ANALYZE")?,
    }
    refuse_old(subject.session()?)?;
    let options = own::options(subject.session()?)?;
    subject.start_sessions_with(&options)?;
    Ok(subject)
}

/// The files, as they are seen from here.
fn files(subject: &Subject, found: &Found, block: u64) -> Result<TableFiles, String> {
    let data_dir = match (subject.data_dir(), &subject.scene.postmaster) {
        (Some(dir), _) => dir,
        // The postmaster's working directory is the data directory.
        (None, Ok(pid)) => PathBuf::from(format!("/proc/{pid}/cwd")),
        (None, Err(why)) => {
            return Err(format!("{why}; run pgassay on the server's machine"));
        }
    };
    let firsts: Vec<PathBuf> = found.paths.iter().map(|path| data_dir.join(path)).collect();
    for first in &firsts {
        if let Err(e) = std::fs::File::open(first) {
            return Err(format!(
                "{}: {e}; run pgassay as root or as the server's user",
                first.display()
            ));
        }
    }
    Ok(TableFiles::of_several(firsts, block))
}

/// How it is read.
fn plan(args: &RunArgs, found: &Found, block: u64, version: u32) -> anyhow::Result<ScatteredPlan> {
    let own = &found.own;
    let read_ahead = args.io.read_ahead.as_slice();
    let mut variants = match (&own.query, own.relations.first()) {
        (Some(text), _) => ways::of_query(text, own.evicted, read_ahead),
        (None, Some(_)) => ways::of_relation(found.blocks, own.sample, version, read_ahead),
        (None, None) => bail!("nothing that is read"),
    };
    let names: Vec<String> = variants.iter().map(|way| way.id.clone()).collect();
    if !args.io.only.is_empty() {
        variants.retain(|way| args.io.only.contains(&way.id));
    }
    if variants.is_empty() {
        return Err(
            Failure::usage("--only names no way of reading that there is here")
                .with_remedy(format!("there are: {}", names.join(", ")))
                .into(),
        );
    }
    Ok(ScatteredPlan {
        rows: 0,
        blocks: found.blocks,
        block_size_bytes: block,
        page_size_bytes: rustix::param::page_size() as u64,
        variants,
        eviction: match (own.evicted, args.io.drop_caches) {
            (false, _) => "nothing: read as it was found".to_owned(),
            (true, true) => "all of the page cache was dropped".to_owned(),
            (true, false) => "the relations' files by POSIX_FADV_DONTNEED".to_owned(),
        },
        drop_caches: args.io.drop_caches,
        until_stable: false,
        own: Some(own.clone()),
    })
}

/// Says beforehand what will be read, and that nothing else is done.
fn announce(
    subject: &Subject,
    found: &Found,
    plan: &ScatteredPlan,
    trials: u32,
    terminal: &mut Terminal,
) {
    let what = match &found.own.query {
        Some(_) => format!("a query that reads {}", found.own.relations.join(", ")),
        None => found.own.relations.join(", "),
    };
    let runs = plan.variants.len() as u32 * trials;
    let part = plan.own.as_ref().and_then(|own| own.sample);
    let part = part.map_or_else(String::new, |part| format!(", {}", part.words()));
    terminal.announce(&format!(
        "{what} ({}{part}): {} in read-only transactions, each with EXPLAIN ANALYZE, on one connection; nothing is \
         created or changed",
        number::bytes(found.bytes),
        number::counted(runs, "execution"),
    ));
    if found.own.evicted && subject.origin == Origin::Running {
        terminal.announce(&match plan.drop_caches {
            true => "before each execution all of the machine's page cache is dropped".to_owned(),
            false => "before each execution these relations' files are taken out of the page cache: the server's \
                 other clients read them from the device again"
                .to_owned(),
        });
    }
}

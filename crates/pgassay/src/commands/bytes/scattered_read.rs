//! `pgassay run scattered-read`: what the kernel reads where the server asks for
//! scattered blocks.

use std::path::PathBuf;
use std::time::Instant;

use pgassay_engine::rundir::{self, RunWriter};
use pgassay_engine::runner::Ended;
use pgassay_engine::workload::scattered_read::{self, Choice, FEWEST_BLOCKS, TABLE};
use pgassay_engine::workload::schema::SCHEMA;
use pgassay_engine::workload::{guest, setup};
use pgassay_model::plan::{DriverConfig, Stage};
use pgassay_model::scattered::ScatteredPlan;
use pgassay_model::server::Origin;
use pgassay_model::stage::StageId;
use pgassay_model::{Failure, Plan};
use pgassay_observe::cache::TableFiles;
use pgassay_observe::host;
use pgassay_pgwire::Connector;
use pgassay_sys::stop::Stop;

use super::executions::{
    Asked, Prepared, may_drop_caches, refuse_old, run_plan, serves, was_measured,
};
use super::{begin, check_room, open, own};
use crate::cli::args::{GlobalArgs, RunArgs};
use crate::cli::target::TargetArgs;
use crate::commands::again::Again;
use crate::commands::ending::end;
use crate::commands::progress::Progress;
use crate::commands::subject::Subject;
use crate::commands::{quiet, record, sweep};
use crate::exit::Exit;
use crate::terminal::Terminal;

/// The table where nothing else was asked for and memory allows.
const DEFAULT_BYTES: u64 = 1 << 30;
/// The server's block size unless it says otherwise.
const BLOCK: u64 = 8192;
/// Cold executions of each variant where nothing was asked for.
const TRIALS: u32 = 6;
/// Connections: the session of an execution and a few to spare.
const CONNECTIONS: u32 = 6;

/// Measures scattered reads, or what an interrupted run of them has not measured.
///
/// # Errors
/// What kept it from measuring; what was measured before is kept.
pub fn run(
    args: &RunArgs,
    target: &TargetArgs,
    again: &Again,
    global: &GlobalArgs,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Exit> {
    let started = Instant::now();
    let planned = planned(again)?;
    if own::is_asked(&args.io, planned.map(|(scattered, _)| scattered)) {
        return own::run(args, (target, again), planned, global, terminal, stop);
    }
    if args.io.evict {
        return Err(Failure::usage(
            "--evict is for your own database: the table that pgassay makes is always read cold",
        )
        .with_remedy("leave it out, or name --relation or --query")
        .into());
    }
    let drop_caches = planned.map_or(args.io.drop_caches, |(scattered, _)| scattered.drop_caches);
    if drop_caches {
        may_drop_caches()?;
    }
    let root = rundir::root(global.runs.as_deref())?;
    quiet::look(args.measure.wait_quiet, terminal, stop)?;
    let machine = pgassay_analysis::host::summarise(&host::facts(None));
    let memory = machine.usable_memory_bytes();
    let bytes = match planned {
        Some((scattered, _)) => scattered.rows * BLOCK,
        None => args
            .io
            .data
            .size
            .unwrap_or(DEFAULT_BYTES.min(memory.unwrap_or(1 << 30) / 4)),
    };
    let defaults = settings(bytes);
    // Known before its server refuses a setting.
    let named = target.spec();
    let wanted = named.ok().and_then(|spec| spec.wanted());
    serves(wanted.and_then(|wanted| Some(wanted.version()?.num())))?;
    let mut subject = open(target, &defaults, CONNECTIONS, terminal, stop)?;
    check_room(subject.data_dir().as_deref(), bytes, "--size")?;
    let before = planned.map(|(_, plan)| plan);
    let trials = before.map_or(args.measure.trials.unwrap_or(TRIALS), |plan| plan.trials);
    let seed = record::seed(before, args.measure.seed)?;
    // What lies in the table and how it is read is known when it is made.
    let unknown = Stage {
        id: StageId::ScatteredRead,
        driver: DriverConfig::Wire,
        plan: record::without_clients(scattered_read::NAME, trials, 0, seed),
    };
    let first = match planned {
        Some((scattered, plan)) => Stage {
            driver: DriverConfig::ScatteredRead(scattered.clone()),
            plan: plan.clone(),
            ..unknown
        },
        None => unknown,
    };
    let (mut writer, header) = begin((args, global), (target, again), &root, &mut subject, first)?;
    let asked = Asked {
        io: &args.io,
        observe: again.observe(&args.measure.observe),
        rows: (bytes / BLOCK).max(FEWEST_BLOCKS),
        drop_caches,
        planned: planned.map(|(scattered, _)| scattered),
        header,
    };
    let ended = measure(&asked, &mut subject, &mut writer, terminal, stop);
    end(
        args,
        (started, ended),
        writer,
        subject,
        terminal,
        was_measured,
    )
}

/// Settings of a launched server for a table of that size: what keeps other work out of the figures.
pub fn settings(bytes: u64) -> Vec<(&'static str, String)> {
    // A tenth of the table is read at once: more than shared buffers hold.
    let shared_buffers = (bytes / 16).clamp(1 << 20, 1 << 30);
    vec![
        ("shared_buffers", format!("{}kB", shared_buffers / 1024)),
        ("autovacuum", "off".to_owned()),
        ("jit", "off".to_owned()),
        ("checkpoint_timeout", "1h".to_owned()),
        ("max_wal_size", "16GB".to_owned()),
        // The table is made without WAL.
        ("wal_level", "minimal".to_owned()),
        ("max_wal_senders", "0".to_owned()),
    ]
}

/// What a recorded run of it planned; none where the run is a new one.
fn planned(again: &Again) -> anyhow::Result<Option<(&ScatteredPlan, &Plan)>> {
    let Some(experiment) = again.experiment() else {
        return Ok(None);
    };
    let stage = experiment.stage(StageId::ScatteredRead);
    match stage.map(|stage| (&stage.driver, &stage.plan)) {
        Some((DriverConfig::ScatteredRead(scattered), plan)) => Ok(Some((scattered, plan))),
        _ => anyhow::bail!("the recorded run is of another kind"),
    }
}

fn measure(
    asked: &Asked,
    subject: &mut Subject,
    writer: &mut RunWriter,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Ended> {
    let rows = asked.rows;
    let table = scattered_read::plan(rows);
    refuse_old(subject.session()?)?;
    if subject.origin == Origin::Running {
        if setup::remove_noted(subject.session()?)? {
            terminal.announce("removed the schema pgassay that a killed run had left");
        }
        terminal.announce(&guest::announcement(&subject.shown, &table, 2, 120.0));
    }
    let mut progress = Progress::new(terminal, 100);
    progress.say(format!("making a table of {} MiB", (rows * BLOCK) >> 20));
    let made = subject.make_tables(&table, &mut |share| progress.share(share), stop)?;
    let ended = executions(asked, subject, writer, &mut progress, stop);
    progress.clear();
    if subject.cluster.is_none() {
        match sweep::clean_up(subject, &made) {
            Ok(()) => terminal.announce("removed the schema pgassay and its table"),
            Err(e) => terminal.warn(&setup::still_there(&e)),
        }
    }
    ended
}

fn executions(
    asked: &Asked,
    subject: &mut Subject,
    writer: &mut RunWriter,
    progress: &mut Progress,
    stop: &Stop,
) -> anyhow::Result<Ended> {
    let io = asked.io;
    progress.say("writing a checkpoint");
    let origin = subject.origin.clone();
    let session = subject.session()?;
    let checkpointed = session.execute("CHECKPOINT");
    if origin != Origin::Running {
        checkpointed?;
    }
    let version = session.value("SHOW server_version_num")?;
    let block = session.value("SHOW block_size")?;
    let bytes = session.value(&format!(
        "SELECT pg_catalog.pg_relation_size('{SCHEMA}.{TABLE}')"
    ))?;
    let number = |value: Option<String>| value.and_then(|v| v.parse::<u64>().ok());
    let block = number(block).unwrap_or(BLOCK);
    let files = files(subject)?;
    let mut plan = ScatteredPlan {
        rows: asked.rows,
        blocks: number(bytes).map_or(asked.rows, |bytes| bytes / block.max(1)),
        block_size_bytes: block,
        page_size_bytes: rustix::param::page_size() as u64,
        variants: scattered_read::variants(&Choice {
            version: number(version).unwrap_or(0) as u32,
            restarts: subject.cluster.is_some(),
            read_ahead_kb: io.read_ahead.clone(),
            only: io.only.clone(),
        }),
        eviction: match (&files, asked.drop_caches) {
            (Err(why), _) => format!("not possible: {why}"),
            (Ok(_), true) => "all of the page cache was dropped".to_owned(),
            (Ok(_), false) => "the table's file by POSIX_FADV_DONTNEED".to_owned(),
        },
        drop_caches: asked.drop_caches,
        until_stable: io.until_stable,
        own: None,
    };
    if let Some(planned) = asked.planned {
        plan.variants.clone_from(&planned.variants);
        plan.until_stable = planned.until_stable;
    }
    if plan.variants.is_empty() {
        let all = scattered_read::variants(&Choice {
            version: u32::MAX,
            restarts: true,
            ..Choice::default()
        });
        let names: Vec<&str> = all.iter().map(|v| v.id.as_str()).collect();
        return Err(
            Failure::usage("--only names no way of reading that this server has")
                .with_remedy(format!("there are: {}", names.join(", ")))
                .into(),
        );
    }
    let prepared = Prepared {
        connector: Connector::new(&subject.conninfo.with_options(setup::FIND_OURS)),
        files,
        warm: true,
        plan,
    };
    run_plan(prepared, asked, subject, writer, progress, stop)
}

/// The table's files, or why they can't be seen.
///
/// # Errors
/// Where the session broke.
pub fn files(subject: &mut Subject) -> anyhow::Result<Result<TableFiles, String>> {
    let session = subject.session()?;
    let block = session.value("SHOW block_size")?;
    let path = session.value(&format!(
        "SELECT pg_catalog.pg_relation_filepath('{SCHEMA}.{TABLE}')"
    ))?;
    let block = block.and_then(|block| block.parse().ok()).unwrap_or(BLOCK);
    Ok(table_files(subject, path, block))
}

/// The table's files as they are seen from here.
fn table_files(subject: &Subject, path: Option<String>, block: u64) -> Result<TableFiles, String> {
    let path = path.ok_or("the server does not tell the table's file")?;
    let data_dir = match (subject.data_dir(), &subject.scene.postmaster) {
        (Some(dir), _) => dir,
        // The postmaster's working directory is the data directory.
        (None, Ok(pid)) => PathBuf::from(format!("/proc/{pid}/cwd")),
        (None, Err(why)) => {
            return Err(format!(
                "{why}: the table's file is not visible from here; run pgassay on the server's machine"
            ));
        }
    };
    let first = data_dir.join(path);
    match std::fs::File::open(&first) {
        Ok(_) => Ok(TableFiles::new(first, block)),
        Err(e) => Err(format!(
            "{}: {e}; run pgassay as root or as the server's user",
            first.display()
        )),
    }
}

//! `pgassay run scattered-read`: what the kernel reads where the server asks for
//! scattered blocks.

use std::path::PathBuf;
use std::time::Instant;

use pgassay_analysis::record::{EventKind, Origin};
use pgassay_analysis::scattered::{ScatteredPlan, ScatteredTrial, ScatteredVariant};
use pgassay_analysis::storage::Storage;
use pgassay_analysis::warning::Warning;

use super::{begin, check_room, end, open};
use crate::bench::Ended;
use crate::bench::scattered_read::{self as bench, Bench, Keep, ReadAhead};
use crate::cli::args::{GlobalArgs, RunArgs};
use crate::commands::progress::Progress;
use crate::commands::subject::Subject;
use crate::exit::{Exit, Failure};
use crate::host;
use crate::observe::cache::TableFiles;
use crate::pg::Connector;
use crate::stop::Stop;
use crate::store::{self, RunWriter};
use crate::terminal::Terminal;
use crate::workload::scattered_read::{self, Choice, FEWEST_BLOCKS, TABLE};
use crate::workload::{guest, setup};

/// The table where nothing else was asked for and memory allows.
const DEFAULT_BYTES: u64 = 1 << 30;
/// The server's block size unless it says otherwise.
const BLOCK: u64 = 8192;
/// Cold executions of each variant where nothing was asked for.
const TRIALS: u32 = 6;
/// Connections: the session of an execution and a few to spare.
const CONNECTIONS: u32 = 6;

/// Measures scattered reads.
///
/// # Errors
/// What kept it from measuring; what was measured before is kept.
pub fn run(
    args: &RunArgs,
    global: &GlobalArgs,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Exit> {
    let started = Instant::now();
    args.io.check(scattered_read::NAME)?;
    refuse_flags(args)?;
    let root = store::root(global.runs.as_deref())?;
    let machine = pgassay_analysis::host::summarise(&host::facts(None));
    let memory = machine.memory_limit_bytes.or(machine.memory_bytes);
    let bytes = args
        .io
        .size
        .unwrap_or(DEFAULT_BYTES.min(memory.unwrap_or(1 << 30) / 4));
    // A tenth of the table is read at once: more than shared buffers hold.
    let shared_buffers = (bytes / 16).clamp(1 << 20, 1 << 30);
    let defaults = [
        ("shared_buffers", format!("{}kB", shared_buffers / 1024)),
        ("autovacuum", "off".to_owned()),
        ("jit", "off".to_owned()),
        ("checkpoint_timeout", "1h".to_owned()),
        ("max_wal_size", "16GB".to_owned()),
        // The table is made without WAL.
        ("wal_level", "minimal".to_owned()),
        ("max_wal_senders", "0".to_owned()),
    ];
    let mut subject = open(args, &defaults, CONNECTIONS, terminal, stop)?;
    check_room(subject.data_dir().as_deref(), bytes, "--size")?;
    let seed = match args.measure.seed {
        Some(seed) => seed,
        None => store::random_seed()?,
    };
    let trials = args.measure.trials.unwrap_or(TRIALS);
    let mut writer = begin(args, &root, &mut subject, trials, 0, seed)?;
    let ended = measure(
        args,
        bytes,
        trials,
        seed,
        &mut subject,
        &mut writer,
        terminal,
        stop,
    );
    end(
        args,
        (started, ended),
        writer,
        subject,
        terminal,
        |analysis| {
            let scattered = analysis.scattered_read.as_ref();
            scattered.is_some_and(|s| !s.variants.is_empty())
        },
        |_, _, _| Ok(()),
    )
}

/// Flags that say nothing about it.
fn refuse_flags(args: &RunArgs) -> Result<(), Failure> {
    let measure = &args.measure;
    let given = [
        ("--threads", measure.threads.is_some()),
        ("--scale", measure.scale.is_some()),
        ("--warmup", measure.warmup.is_some()),
        ("--time", measure.time.is_some()),
        ("--clients", measure.clients.is_some()),
    ];
    match given.iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((flag, _)) => Err(Failure::usage(format!(
            "{flag} has no meaning for scattered-read, which runs one query at a time"
        ))
        .with_remedy("leave it out; --size and --trials say how much is read")),
    }
}

#[allow(clippy::too_many_arguments)] // what a run needs, once
fn measure(
    args: &RunArgs,
    bytes: u64,
    trials: u32,
    seed: u64,
    subject: &mut Subject,
    writer: &mut RunWriter,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Ended> {
    let rows = (bytes / BLOCK).max(FEWEST_BLOCKS);
    let table = scattered_read::plan(rows);
    if subject.origin == Origin::Running {
        let session = subject.session()?;
        if guest::remove_leftover(session)? {
            terminal.announce("removed the schema pgassay that a killed run had left");
        }
        terminal.announce(&guest::announcement(&subject.shown, &table, 2, 120.0));
    }
    let mut progress = Progress::new(terminal, 100);
    progress.say(format!("making a table of {} MiB", (rows * BLOCK) >> 20));
    let made = setup::create(
        subject.session()?,
        &table,
        &mut |share| progress.share(share),
        stop,
    )?;
    let ended = executions(
        args,
        rows,
        trials,
        seed,
        subject,
        writer,
        &mut progress,
        stop,
    );
    progress.clear();
    if subject.cluster.is_none() {
        match setup::remove(subject.session()?, &made) {
            Ok(()) => terminal.announce("removed the schema pgassay and its table"),
            Err(e) => terminal.warn(&format!("the schema pgassay is still there: {e:#}")),
        }
    }
    ended
}

#[allow(clippy::too_many_arguments)] // likewise
fn executions(
    args: &RunArgs,
    rows: u64,
    trials: u32,
    seed: u64,
    subject: &mut Subject,
    writer: &mut RunWriter,
    progress: &mut Progress,
    stop: &Stop,
) -> anyhow::Result<Ended> {
    progress.say("writing a checkpoint");
    let origin = subject.origin.clone();
    let session = subject.session()?;
    let checkpointed = session.execute("CHECKPOINT");
    if origin != Origin::Running {
        checkpointed?;
    }
    let version = session.value("SHOW server_version_num")?;
    let block = session.value("SHOW block_size")?;
    let blocks = session.value(&format!(
        "SELECT pg_catalog.pg_relation_size('{TABLE}') / current_setting('block_size')::bigint"
    ))?;
    let path = session.value(&format!(
        "SELECT pg_catalog.pg_relation_filepath('{TABLE}')"
    ))?;
    let number = |value: Option<String>| value.and_then(|v| v.parse::<u64>().ok());
    let block = number(block).unwrap_or(BLOCK);
    let files = table_files(subject, path, block);
    let plan = ScatteredPlan {
        rows,
        blocks: number(blocks).unwrap_or(rows),
        block_size_bytes: block,
        page_size_bytes: rustix::param::page_size() as u64,
        variants: scattered_read::variants(&Choice {
            version: number(version).unwrap_or(0) as u32,
            restarts: subject.cluster.is_some(),
            read_ahead_kb: args.io.read_ahead.clone(),
            only: args.io.only.clone(),
        }),
        trials,
        eviction: match (&files, args.io.drop_caches) {
            (Err(why), _) => format!("not possible: {why}"),
            (Ok(_), true) => "all of the page cache was dropped".to_owned(),
            (Ok(_), false) => "the table's file by POSIX_FADV_DONTNEED".to_owned(),
        },
        seed,
    };
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
    writer.write_fact("scattered-read", &plan)?;
    let read_ahead = match args.io.read_ahead.is_empty() {
        true => None,
        false => Some(ReadAhead::take(read_ahead_file(&subject.scene.storage)?)?),
    };
    let mut keeper = Recorder {
        writer,
        progress,
        plan: &plan,
    };
    let mut bench = Bench {
        connector: Connector::new(&subject.conninfo),
        scene: &mut subject.scene,
        cluster: subject.cluster.as_mut(),
        files,
        read_ahead,
        drop_caches: args.io.drop_caches,
    };
    bench::run(&plan, &mut bench, &mut keeper, stop)
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

/// Where the read-ahead of the device under the file system is set.
fn read_ahead_file(storage: &Storage) -> anyhow::Result<PathBuf> {
    let top = storage.layers.iter().find(|layer| {
        let device = PathBuf::from(format!("/sys/class/block/{}", layer.name));
        device.exists()
    });
    let Some(top) = top else {
        return Err(Failure::usage(
            "--read-ahead: the device under the data directory is not visible",
        )
        .with_remedy("leave the flag out")
        .into());
    };
    let device = std::fs::canonicalize(format!("/sys/class/block/{}", top.name))?;
    // A partition's queue is its disk's, one directory up.
    let file = [device.join("queue"), device.join("../queue")]
        .into_iter()
        .map(|queue| queue.join("read_ahead_kb"))
        .find(|file| file.exists());
    file.ok_or_else(|| {
        Failure::usage(format!(
            "--read-ahead: {} has no read-ahead to set",
            top.name
        ))
        .with_remedy("leave the flag out")
        .into()
    })
}

/// The run directory and the progress bar as the bench sees them.
struct Recorder<'a> {
    writer: &'a mut RunWriter,
    progress: &'a Progress,
    plan: &'a ScatteredPlan,
}

impl Keep for Recorder<'_> {
    fn keep(&mut self, trial: ScatteredTrial, done: usize, all: usize) -> anyhow::Result<()> {
        self.progress.share(done as f64 / all as f64);
        if let Some(variant) = self.plan.variants.get(trial.variant as usize) {
            self.progress
                .say(format!("execution {done} of {all}: {}", variant.title));
        }
        self.writer.append_line("scattered.jsonl", &trial)
    }

    fn left_out(&mut self, variant: &ScatteredVariant, why: &str) -> anyhow::Result<()> {
        let warning = Warning::new(
            "variant-left-out",
            format!(
                "\"{}\" was left out: {}.",
                variant.title,
                why.replace('\n', " ")
            ),
        );
        self.writer.append_event(EventKind::Warned { warning })
    }
}

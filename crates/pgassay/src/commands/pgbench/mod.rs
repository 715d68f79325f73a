//! `pgassay pgbench`: pgbench's own command line, summary, logs and exit codes over the load
//! engine, so that an existing wrapper switches by changing one word.

mod args;
mod help;
mod init;
mod journal;
mod options;
mod summary;
mod words;

use std::ffi::OsString;
use std::io::Read as _;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail};

use args::Asks;
pub use args::{PgbenchArgs, Source};
use words::{Refusal, complain, failed_query, inform, warn};

use crate::exit::Exit;
use crate::terminal::{ClosedPipe, Terminal};
use pgassay_load::script::{BUILTINS, Builtin, Program, Value, find_builtin, with_rows};
use pgassay_load::{
    Edge, Engine, Event, Gaps, Length, OnError, Options, Progress, Says, Schedule, Serving,
    SliceSpec, Tone,
};
use pgassay_pgwire::{Conninfo, Session, connect};
use pgassay_sys::stop::Stop;

/// pgbench's exit code for a run that never began.
const NOT_BEGUN: Exit = Exit::Found;
/// pgbench's exit code for a run in which a client stopped.
const INCOMPLETE: Exit = Exit::Usage;

/// Runs what stands after `pgassay pgbench`.
///
/// # Errors
/// Only where the terminal can't be written to: other errors are told here, with pgbench's codes.
pub fn pgbench(words: &[OsString], terminal: &mut Terminal, stop: &Stop) -> Result<Exit> {
    let outcome = match PgbenchArgs::parse_words(words) {
        Ok(args) => match args.asks {
            Some(asks) => answer(asks, &args, terminal),
            None => run(&args, terminal, stop),
        },
        Err(refusal) => Err(refusal.into()),
    };
    match outcome {
        Ok(exit) => Ok(exit),
        Err(error) if error.is::<ClosedPipe>() => Err(error),
        Err(error) => {
            words::tell(&error, terminal);
            Ok(NOT_BEGUN)
        }
    }
}

/// What needs neither server nor run.
fn answer(asks: Asks, args: &PgbenchArgs, terminal: &mut Terminal) -> Result<Exit> {
    match asks {
        Asks::Help => terminal.print(help::HELP)?,
        Asks::Version => terminal.print(&help::version())?,
        // Where pgbench writes them, too: standard output is for results.
        Asks::Builtins => terminal.verbatim(&builtins()),
        Asks::Script => {
            let builtin = named(args.show_script.as_deref().unwrap_or_default())?;
            let text = format!("-- {}: {}\n{}", builtin.name, builtin.title, builtin.text);
            terminal.verbatim(&text);
        }
    }
    Ok(Exit::Done)
}

fn builtins() -> String {
    let mut text = "Available builtin scripts:\n".to_owned();
    for builtin in BUILTINS {
        text += &format!("  {:>13}: {}\n", builtin.name, builtin.title);
    }
    text
}

/// The built-in script that `name` begins.
fn named(name: &str) -> Result<&'static Builtin, Refusal> {
    let count = BUILTINS
        .iter()
        .filter(|builtin| builtin.name.starts_with(name))
        .count();
    let refuse = |what| Refusal::error(what).line(builtins());
    find_builtin(name).map_err(|_| match count {
        0 => refuse(format!("no builtin script found for name \"{name}\"")),
        _ => refuse(format!(
            "ambiguous builtin name: {count} builtin scripts found for prefix \"{name}\""
        )),
    })
}

fn run(args: &PgbenchArgs, terminal: &mut Terminal, stop: &Stop) -> Result<Exit> {
    let seed = seed(args)?;
    if args.random_seed.is_some() {
        inform(terminal, &format!("setting random seed to {seed}"));
    }
    let (program, has_builtin) = scripts(args)?;
    if let Some(contradiction) = args.contradiction() {
        bail!(Refusal::error(contradiction));
    }
    let conninfo = Conninfo::parse(&args.conninfo()).map_err(Refusal::error)?;
    for warning in &conninfo.warnings {
        warn(terminal, warning);
    }
    if args.initialize {
        let mut session = connect(&conninfo)?;
        init::initialize(args, &mut session, terminal, stop)?;
        return Ok(Exit::Done);
    }
    if args.debug {
        inform(terminal, &what_for(args, &conninfo));
    }
    let mut session = connect(&conninfo)?;
    let scale = scale(args, has_builtin, &conninfo, &mut session, terminal)?;
    if has_builtin && !args.no_vacuum {
        vacuum(args, &mut session, terminal);
    }
    drop(session);
    let job = Job {
        args,
        conninfo,
        program,
        scale,
        seed,
    };
    measure(&job, terminal, stop)
}

/// The first line of `--debug`.
fn what_for(args: &PgbenchArgs, conninfo: &Conninfo) -> String {
    let host = args.host.clone().or_else(|| std::env::var("PGHOST").ok());
    let port = args.port.clone().or_else(|| std::env::var("PGPORT").ok());
    let length = match args.time {
        Some(seconds) => format!("duration: {seconds}"),
        None => format!("nxacts: {}", args.transactions.unwrap_or(10)),
    };
    format!(
        "pghost: {} pgport: {} nclients: {} {length} dbName: {}",
        host.unwrap_or_default(),
        port.unwrap_or_default(),
        args.clients,
        conninfo.dbname
    )
}

/// The scripts of the command line: compiled, and whether a built-in is among them.
fn scripts(args: &PgbenchArgs) -> Result<(Program, bool)> {
    let tpcb_like = [Source::Builtin("tpcb-like".to_owned())];
    let sources: &[Source] = if args.scripts.is_empty() {
        &tpcb_like
    } else {
        &args.scripts
    };
    let mut program = Program::new();
    for source in sources {
        match source {
            Source::Builtin(typed) => {
                let (name, weight) = weighted(typed)?;
                let found = named(name)?;
                program
                    .add_deferring(found.title, found.text, weight)
                    .map_err(Refusal::from)?;
            }
            Source::File(typed) => {
                let (path, weight) = weighted(typed)?;
                let text = read_script(path)?;
                let directory = Path::new(path).parent().unwrap_or(Path::new(""));
                let text = with_rows(&text, directory)
                    .map_err(|why| Refusal::error(format!("{path}: {why}")))?;
                program
                    .add_deferring(path, &text, weight)
                    .map_err(Refusal::from)?;
            }
        }
    }
    if program.total_weight() == 0 {
        bail!(Refusal::error("total script weight must not be zero"));
    }
    let has_builtin = sources.iter().any(|s| matches!(s, Source::Builtin(_)));
    Ok((program, has_builtin))
}

fn read_script(path: &str) -> Result<String, Refusal> {
    let mut text = String::new();
    let read = match path {
        "-" => std::io::stdin().read_to_string(&mut text).map(drop),
        _ => std::fs::read_to_string(path).map(|read| text = read),
    };
    read.map(|()| text).map_err(|error| {
        let why = error.to_string();
        let why = why.split(" (os error").next().unwrap_or_default();
        let doing = match error.kind() {
            std::io::ErrorKind::InvalidData => "read",
            _ => "open",
        };
        Refusal::error(format!("could not {doing} file \"{path}\": {why}"))
    })
}

/// Splits `name@weight`.
fn weighted(typed: &str) -> Result<(&str, u32), Refusal> {
    let Some((name, weight)) = typed.rsplit_once('@') else {
        return Ok((typed, 1));
    };
    let digits = weight.strip_prefix(['-', '+']).unwrap_or(weight);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Refusal::error(format!(
            "invalid weight specification: @{weight}"
        )));
    }
    let parsed = weight.parse().ok().and_then(|n: i32| u32::try_from(n).ok());
    let Some(weight) = parsed else {
        return Err(Refusal::error(format!(
            "weight specification out of range (0 .. {}): {weight}",
            i32::MAX
        )));
    };
    Ok((name, weight))
}

/// The scale that scripts see: with a built-in script that of the tables, else that of -s.
fn scale(
    args: &PgbenchArgs,
    has_builtin: bool,
    conninfo: &Conninfo,
    session: &mut Session,
    terminal: &mut Terminal,
) -> Result<i64> {
    if !has_builtin {
        return Ok(i64::from(args.scale.unwrap_or(1)));
    }
    let statement = "select count(*) from pgbench_branches";
    let branches = session.value(statement).map_err(|error| {
        let why = failed_query(&error, Some(statement));
        let refusal = Refusal::error(format!("could not count number of branches: {why}"));
        match error.sqlstate() {
            // undefined_table
            Some("42P01") => refusal.hint(format!(
                "Perhaps you need to do initialization (\"pgbench -i\") in database \"{}\".",
                conninfo.dbname
            )),
            _ => refusal,
        }
    })?;
    let branches = branches.unwrap_or_default();
    let scale = branches.parse().unwrap_or(0);
    if scale < 1 {
        bail!(
            Refusal::error(format!(
                "invalid count(*) from pgbench_branches: \"{branches}\""
            ))
            .hint("Initialize the database with \"pgbench -i\".")
        );
    }
    if args.scale.is_some() {
        warn(
            terminal,
            &format!("scale option ignored, using count from pgbench_branches table ({scale})"),
        );
    }
    Ok(scale)
}

fn vacuum(args: &PgbenchArgs, session: &mut Session, terminal: &mut Terminal) {
    let small = [
        "vacuum pgbench_branches",
        "vacuum pgbench_tellers",
        "truncate pgbench_history",
    ];
    let mut run = |statements: &[&str], what: &str| {
        for statement in statements {
            // pgbench goes on as well: another's tables need not be ours to vacuum.
            if let Err(error) = session.execute(statement) {
                complain(terminal, &failed_query(&error, Some(statement)));
                terminal.verbatim("pgbench: detail: (ignoring this error and continuing anyway)");
            }
            for notice in session.take_notices() {
                terminal.verbatim(&notice.in_libpqs_words(None));
            }
        }
        terminal.verbatim(&format!("starting vacuum{what}...end."));
    };
    run(&small, "");
    if args.vacuum_all {
        run(&["vacuum analyze pgbench_accounts"], " pgbench_accounts");
    }
}

fn seed(args: &PgbenchArgs) -> Result<u64, Refusal> {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    match args.random_seed.as_deref() {
        None | Some("time" | "rand") => Ok(now.as_nanos() as u64),
        Some(text) => text
            .parse::<i64>()
            .map(|n| n as u64)
            .or_else(|_| text.parse())
            .map_err(|_| {
                Refusal::error(format!("unrecognized random seed option \"{text}\""))
                    .detail("Expecting an unsigned integer, \"time\" or \"rand\".")
                    .and_error("error while setting random seed from --random-seed option")
            }),
    }
}

/// All that a run needs.
struct Job<'a> {
    args: &'a PgbenchArgs,
    conninfo: Conninfo,
    program: Program,
    scale: i64,
    seed: u64,
}

fn measure(job: &Job<'_>, terminal: &mut Terminal, stop: &Stop) -> Result<Exit> {
    let args = job.args;
    let (say, said) = mpsc::channel::<String>();
    let log_failure = journal::LogFailure::default();
    // The first client that stopped, where that is to end the run.
    let aborting: Arc<Mutex<Option<u32>>> = Arc::default();
    let listener = {
        let (say, aborting) = (Mutex::new(say), aborting.clone());
        let (stop, exit_on_abort) = (stop.flag().clone(), args.exit_on_abort);
        move |event: Event<'_>| match event {
            Event::Stopped { client, .. } if exit_on_abort => {
                let mut first = aborting.lock().unwrap_or_else(PoisonError::into_inner);
                first.get_or_insert(client);
                stop.store(true, Ordering::Relaxed);
            }
            Event::Stopped { .. } => {}
            Event::Said(tone, text) => {
                let line = match tone {
                    Tone::Error => format!("pgbench: error: {text}"),
                    Tone::Info => format!("pgbench: {text}"),
                    Tone::Quoted => text.to_owned(),
                };
                let say = say.lock().unwrap_or_else(PoisonError::into_inner);
                // Nobody listens any more once the run is over.
                let _ = say.send(line);
            }
        }
    };
    let threads = args.jobs.min(args.clients) as usize;
    let options = Options {
        pauses: Vec::new(),
        own_clients: Vec::new(),
        replay: None,
        protocol: args.protocol,
        threads: Some(threads),
        variables: vec![("scale".to_owned(), Value::Int(job.scale))],
        texts: args.defines.clone(),
        on_error: if args.continue_on_error {
            OnError::Continue
        } else {
            OnError::Abort
        },
        max_tries: args.max_tries,
        latency_limit: args
            .latency_limit
            .map(|ms| Duration::from_secs_f64(ms / 1e3)),
        reconnect: args.connect,
        timed_once_connected: true,
        per_statement: args.per_command,
        says: Says {
            failures: args.verbose_errors,
            steps: args.debug,
            notices: true,
        },
        prepare_apart: true,
        drain: Duration::from_secs(3600),
        cpus: Vec::new(),
        stop: stop.flag().clone(),
        listener: Some(Arc::new(listener)),
        journal: args
            .log
            .then(|| journal::journals(args, job.seed, log_failure.clone(), stop.flag().clone())),
        serving: Serving::default(),
    };
    let connecting = Instant::now();
    let mut engine = Engine::new(job.conninfo.clone(), job.program.clone(), options);
    engine.resize(args.clients as usize)?;
    let connect_ms = connecting.elapsed().as_secs_f64() * 1e3;
    // The summary and the logs are kept.
    let _kept = stop.defer();
    let spec = SliceSpec {
        warmup: Duration::ZERO,
        length: match args.time {
            Some(seconds) => Length::Time(Duration::from_secs(seconds)),
            None => Length::Transactions(args.transactions.unwrap_or(10)),
        },
        seed: job.seed,
        // Scripts are chosen as pgbench chooses them.
        share: None,
        schedule: match args.rate {
            Some(per_second) => Schedule::Paced {
                per_second,
                gaps: Gaps::Exponential,
            },
            None => Schedule::Closed,
        },
        replay_from: Duration::ZERO,
        interval: None,
        keep: 1,
        // Messages are passed on between reports as well.
        tick: Some(Duration::from_millis(
            args.progress.map_or(200, |s| u64::from(s) * 1000),
        )),
        follow: None,
    };
    let mut last = Progress::default();
    let result = engine.run_slice(&spec, &mut |edge| {
        while let Ok(line) = said.try_recv() {
            terminal.verbatim(&line);
        }
        if let (Edge::Tick(now), Some(_)) = (edge, args.progress) {
            terminal.verbatim(&progress_line(args, &last, &now));
            last = now;
        }
    });
    drop(engine);
    for line in said.try_iter() {
        terminal.verbatim(&line);
    }
    let frame = summary::Frame {
        args,
        program: &job.program,
        scale: job.scale,
        connect_ms,
        threads,
    };
    terminal.show(&summary::summary(&frame, &result))?;
    if let Some(failure) = log_failure
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take()
    {
        bail!(Refusal::error(failure));
    }
    let first = *aborting.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(client) = first {
        let thread = thread_of(client as usize, args.clients as usize, threads);
        complain(
            terminal,
            &format!("Run was aborted due to an error in thread {thread}"),
        );
        return Ok(INCOMPLETE);
    }
    if result.lost_count > 0 {
        complain(
            terminal,
            "Run was aborted; the above results are incomplete.",
        );
        return Ok(INCOMPLETE);
    }
    if result.interrupted {
        return Ok(Exit::Interrupted);
    }
    Ok(Exit::Done)
}

/// The thread that has a client: each takes its share of those that are left.
fn thread_of(client: usize, clients: usize, threads: usize) -> usize {
    let mut first = 0;
    for thread in 0..threads {
        let left = threads - thread;
        first += (clients - first).div_ceil(left);
        if client < first {
            return thread;
        }
    }
    threads.saturating_sub(1)
}

fn progress_line(args: &PgbenchArgs, last: &Progress, now: &Progress) -> String {
    let seconds = (now.elapsed_ns - last.elapsed_ns).max(1) as f64 / 1e9;
    let done = (now.transactions - last.transactions) as f64;
    let per = done.max(1.0);
    let mean = (now.latency_sum_ns - last.latency_sum_ns) / per;
    let squares = (now.latency_sum_squares - last.latency_sum_squares) / per;
    let deviation = (squares - mean * mean).max(0.0).sqrt();
    let time = if args.progress_timestamp {
        let unix = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        format!("{:.3} s", unix.as_secs_f64())
    } else {
        format!("{:.1} s", now.elapsed_ns as f64 / 1e9)
    };
    let mut line = format!(
        "progress: {time}, {:.1} tps, lat {:.3} ms stddev {:.3}, {} failed",
        done / seconds,
        mean / 1e6,
        deviation / 1e6,
        now.failures - last.failures
    );
    if args.rate.is_some() {
        line += &format!(
            ", lag {:.3} ms",
            (now.lag_sum_ns - last.lag_sum_ns) / per / 1e6
        );
        if args.latency_limit.is_some() {
            line += &format!(", {} skipped", now.skipped - last.skipped);
        }
    }
    if args.max_tries != 1 {
        line += &format!(
            ", {} retried, {} retries",
            now.retried - last.retried,
            now.retries - last.retries
        );
    }
    line
}

//! `pgassay pgbench`: pgbench's own command line, summary, logs and exit codes over the load
//! engine, so that an existing wrapper switches by changing one word.

mod args;
mod init;
mod journal;
mod summary;

use std::ffi::OsString;
use std::io::Read as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, anyhow, bail};
use clap::error::ErrorKind;

pub use args::{PgbenchArgs, Source};

use crate::exit::Exit;
use crate::terminal::Terminal;
use pgassay_load::script::{BUILTINS, Program, Value, find_builtin, valid_name};
use pgassay_load::{
    Edge, Engine, Event, Gaps, Length, OnError, Options, Progress, Protocol, Says, Schedule,
    SliceSpec,
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
    let args = match PgbenchArgs::parse_words(words) {
        Ok(args) => args,
        Err(answer) => {
            let text = answer.render().to_string();
            if matches!(
                answer.kind(),
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
            ) {
                terminal.print(&text)?;
                return Ok(Exit::Done);
            }
            terminal.complain(text.trim_start_matches("error: ").trim_end());
            return Ok(NOT_BEGUN);
        }
    };
    match run(&args, terminal, stop) {
        Ok(exit) => Ok(exit),
        Err(error) if error.is::<crate::terminal::ClosedPipe>() => Err(error),
        Err(error) => {
            terminal.complain(&format!("{error:#}"));
            Ok(NOT_BEGUN)
        }
    }
}

fn run(args: &PgbenchArgs, terminal: &mut Terminal, stop: &Stop) -> Result<Exit> {
    if args.builtins.iter().any(|name| name == "list") {
        // Where pgbench writes it, too: standard output is for results.
        terminal.announce("Available builtin scripts:");
        for builtin in BUILTINS {
            terminal.announce(&format!("  {:>13}: {}", builtin.name, builtin.title));
        }
        return Ok(Exit::Done);
    }
    if let Some(name) = &args.show_script {
        let builtin = find_builtin(name).map_err(|error| anyhow!(error))?;
        terminal.announce(&format!(
            "-- {}: {}\n{}",
            builtin.name, builtin.title, builtin.text
        ));
        return Ok(Exit::Done);
    }
    if let Some(contradiction) = args.contradiction() {
        bail!(contradiction);
    }
    let conninfo = Conninfo::parse(&args.conninfo())?;
    for warning in &conninfo.warnings {
        terminal.warn(warning);
    }
    if args.initialize {
        let mut session = connect(&conninfo)?;
        init::initialize(args, &mut session, terminal, stop)?;
        return Ok(Exit::Done);
    }
    let seed = seed(args)?;
    if args.random_seed.is_some() {
        terminal.announce(&format!("setting random seed to {seed}"));
    }
    let (program, has_builtin) = scripts(args)?;
    let variables = defined(args)?;
    let mut session = connect(&conninfo)?;
    let scale = scale(args, has_builtin, &mut session, terminal)?;
    if has_builtin && !args.no_vacuum {
        vacuum(args, &mut session, terminal);
    }
    drop(session);
    measure(
        &Job {
            args,
            conninfo,
            program,
            variables,
            scale,
            seed,
        },
        terminal,
        stop,
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
    let mut wanted: Vec<(String, String, u32)> = Vec::new();
    for source in sources {
        match source {
            Source::Builtin(typed) => {
                let (name, weight) = weighted(typed)?;
                let found = find_builtin(name).map_err(|error| anyhow!(error))?;
                wanted.push((found.title.to_owned(), found.text.to_owned(), weight));
            }
            Source::File(typed) => {
                let (path, weight) = weighted(typed)?;
                let mut text = String::new();
                if path == "-" {
                    std::io::stdin()
                        .read_to_string(&mut text)
                        .context("standard input")?;
                } else {
                    text = std::fs::read_to_string(path)
                        .with_context(|| format!("could not open file \"{path}\""))?;
                }
                wanted.push((path.to_owned(), text, weight));
            }
        }
    }
    let has_builtin = sources.iter().any(|s| matches!(s, Source::Builtin(_)));
    let mut program = Program::new();
    for (name, text, weight) in wanted {
        program.add(&name, &text, weight)?;
    }
    if program.total_weight() == 0 {
        bail!("total script weight must not be zero");
    }
    Ok((program, has_builtin))
}

/// Splits `name@weight`.
fn weighted(typed: &str) -> Result<(&str, u32)> {
    match typed.rsplit_once('@') {
        None => Ok((typed, 1)),
        Some((name, weight)) => {
            let weight = weight
                .parse()
                .map_err(|_| anyhow!("invalid weight specification: \"@{weight}\""))?;
            if name.is_empty() {
                bail!("empty script name: \"{typed}\"");
            }
            Ok((name, weight))
        }
    }
}

fn defined(args: &PgbenchArgs) -> Result<Vec<(String, String)>> {
    let mut variables = Vec::new();
    for typed in &args.defines {
        let Some((name, value)) = typed
            .split_once('=')
            .filter(|(name, value)| valid_name(name) && !value.is_empty())
        else {
            bail!("invalid variable definition: \"{typed}\"; -D takes NAME=VALUE");
        };
        variables.push((name.to_owned(), value.to_owned()));
    }
    Ok(variables)
}

/// The scale that scripts see: with a built-in script that of the tables, else that of -s.
fn scale(
    args: &PgbenchArgs,
    has_builtin: bool,
    session: &mut Session,
    terminal: &mut Terminal,
) -> Result<i64> {
    if !has_builtin {
        return Ok(i64::from(args.scale.unwrap_or(1)));
    }
    let branches = session.value("select count(*) from pgbench_branches").context(
        "could not count number of branches; perhaps you need to do initialization (\"pgassay pgbench -i\") in this database",
    )?;
    let scale: i64 = branches.as_deref().unwrap_or("").parse().unwrap_or(0);
    if scale < 1 {
        bail!(
            "the table pgbench_branches is empty: initialize the database with \"pgassay pgbench -i\""
        );
    }
    if args.scale.is_some_and(|typed| i64::from(typed) != scale) {
        terminal.warn(&format!(
            "scale option ignored, using count from pgbench_branches table ({scale})"
        ));
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
                terminal.warn(&format!(
                    "{error} (ignoring this error and continuing anyway)"
                ));
            }
        }
        terminal.announce(&format!("starting vacuum{what}...end."));
    };
    run(&small, "");
    if args.vacuum_all {
        run(&["vacuum analyze pgbench_accounts"], " pgbench_accounts");
    }
}

fn seed(args: &PgbenchArgs) -> Result<u64> {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    match args.random_seed.as_deref() {
        None | Some("time" | "rand") => Ok(now.as_nanos() as u64),
        Some(text) => text.parse::<i64>().map(|n| n as u64).or_else(|_| text.parse()).map_err(|_| {
            anyhow!("unrecognized random seed option \"{text}\": expecting an unsigned integer, \"time\" or \"rand\"")
        }),
    }
}

/// All that a run needs.
struct Job<'a> {
    args: &'a PgbenchArgs,
    conninfo: Conninfo,
    program: Program,
    variables: Vec<(String, String)>,
    scale: i64,
    seed: u64,
}

fn measure(job: &Job<'_>, terminal: &mut Terminal, stop: &Stop) -> Result<Exit> {
    let args = job.args;
    let (say, said) = mpsc::channel::<String>();
    let log_failure = journal::LogFailure::default();
    let aborting = Arc::new(AtomicBool::new(false));
    let listener = {
        let (say, aborting) = (Mutex::new(say), aborting.clone());
        let (stop, exit_on_abort) = (stop.flag().clone(), args.exit_on_abort);
        move |event: Event<'_>| match event {
            Event::Stopped { .. } if exit_on_abort => {
                aborting.store(true, Ordering::Relaxed);
                stop.store(true, Ordering::Relaxed);
            }
            Event::Stopped { .. } => {}
            Event::Said(line) => {
                let say = say.lock().unwrap_or_else(PoisonError::into_inner);
                // Nobody listens any more once the run is over.
                let _ = say.send(line.to_owned());
            }
        }
    };
    let threads = args.jobs.min(args.clients) as usize;
    let options = Options {
        protocol: match args.protocol.as_str() {
            "extended" => Protocol::Extended,
            "prepared" => Protocol::Prepared,
            _ => Protocol::Simple,
        },
        threads: Some(threads),
        variables: vec![("scale".to_owned(), Value::Int(job.scale))],
        texts: job.variables.clone(),
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
        per_statement: args.per_command,
        says: if args.debug {
            Says::Everything
        } else if args.verbose_errors {
            Says::Errors
        } else {
            Says::Aborts
        },
        drain: Duration::from_secs(3600),
        cpus: Vec::new(),
        stop: stop.flag().clone(),
        listener: Some(Arc::new(listener)),
        journal: args
            .log
            .then(|| journal::journals(args, job.seed, log_failure.clone(), stop.flag().clone())),
        gather: true,
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
        schedule: match args.rate {
            Some(per_second) => Schedule::Paced {
                per_second,
                gaps: Gaps::Exponential,
            },
            None => Schedule::Closed,
        },
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
            terminal.announce(&line);
        }
        if let (Edge::Tick(now), Some(_)) = (edge, args.progress) {
            terminal.announce(&progress_line(args, &last, &now));
            last = now;
        }
    });
    drop(engine);
    for line in said.try_iter() {
        terminal.announce(&line);
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
        bail!(failure);
    }
    if result.lost_count > 0 || aborting.load(Ordering::Relaxed) {
        for lost in &result.lost {
            terminal.detail(&format!("client {} stopped: {}", lost.client, lost.reason));
        }
        if let Some(first) = result.lost.first() {
            terminal.complain(&format!(
                "client {} stopped: {}",
                first.client, first.reason
            ));
        }
        terminal.complain("Run was aborted; the above results are incomplete.");
        return Ok(INCOMPLETE);
    }
    if result.interrupted {
        return Ok(Exit::Interrupted);
    }
    Ok(Exit::Done)
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
        line += &format!(", {} retries", now.retries - last.retries);
    }
    line
}

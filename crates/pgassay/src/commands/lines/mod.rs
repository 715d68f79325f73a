//! `pgassay lines`: which shared cache lines a transaction takes.

use std::panic::resume_unwind;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use pgassay_analysis::number;
use pgassay_engine::workload::{self, guest, inserver, setup};
use pgassay_lines::account::{Account, Subject as Of, account};
use pgassay_lines::difference::Difference;
use pgassay_lines::record::{Bound, Limit};
use pgassay_lines::replay::Replay;
use pgassay_lines::sequence::Sequence;
use pgassay_lines::session::{self, Process, Server};
use pgassay_lines::transfers::Transfers;
use pgassay_lines::walls::Processor;
use pgassay_load::script::Value;
use pgassay_load::{Edge, Engine, Length, Options, SliceSpec};
use pgassay_model::Failure;
use pgassay_model::workload::WorkloadPlan;
use pgassay_pgwire::Session;
use pgassay_server::{TargetSpec, clock};
use pgassay_sys::stop::Stop;

use super::progress::Progress;
use super::show::{next, show};
use super::subject::Subject;
use super::sweep::clean_up;
use super::{record, sampled};
use crate::cli::lines::LinesArgs;
use crate::cli::target::TargetArgs;
use crate::exit::{Exit, explain};
use crate::secrets;
use crate::terminal::Terminal;

mod emulated;
mod inside;

use emulated::Emulated;

/// Transactions of each recorded session where nobody said how many: at most, and at least however long they are.
const TRANSACTIONS: u32 = 20;
const FEWEST_TRANSACTIONS: u32 = 2;
/// Transactions before the session is stepped, at most: caches of the session, hint bits, pages.
const WARMING: u64 = 200;
/// Transactions over which CPU time is measured, at most.
const TIMED: u64 = 2000;
/// In so many rounds, of which the least counts: a clock that rises and caches that fill only add to it.
const ROUNDS: u64 = 5;
/// Transactions that show how long one takes.
const FIRST: u64 = 5;
/// Seconds that warming and timing may take each, of long transactions.
const WARMING_SECONDS: f64 = 10.0;
/// How much slower a session is while it is stepped: 100 selects of 9 µs of CPU time took 94 s.
const SLOWER: f64 = 100_000.0;
/// Seconds of stepping, of all sessions together, where nobody said how many transactions.
const PATIENCE_SECONDS: f64 = 120.0;
/// How long a session of a running server is stepped inside one transaction, which keeps VACUUM from removing row versions
/// until it ends.
const LIMIT: Duration = Duration::from_secs(2);
/// How long a slice waits for answers at its end: a stepped transaction may take that long.
const DRAIN: Duration = Duration::from_secs(3600);

/// Accounts for the lines of one server, or of two.
///
/// # Errors
/// What kept it from recording.
pub fn lines(args: &LinesArgs, terminal: &mut Terminal, stop: &Stop) -> anyhow::Result<Exit> {
    of_work(args, Work::named(args)?, terminal, stop)
}

/// The same of a workload that was made otherwise than from its name.
///
/// # Errors
/// As for [`lines`].
pub fn of_plan(
    args: &LinesArgs,
    plan: WorkloadPlan,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Exit> {
    of_work(args, Work::of(args, plan), terminal, stop)
}

/// What the session executes.
enum Work {
    /// Transactions that a client sends.
    Load(Box<WorkloadPlan>),
    /// A loop inside the server, by its name.
    Loop(String),
}

impl Work {
    fn of(args: &LinesArgs, mut plan: WorkloadPlan) -> Self {
        plan.scale = args.scale;
        Self::Load(Box::new(plan))
    }

    fn named(args: &LinesArgs) -> anyhow::Result<Self> {
        match inserver::find(&args.workload, u32::MAX)? {
            Some(_) => Ok(Self::Loop(args.workload.clone())),
            None => Ok(Self::of(args, workload::find(&[&args.workload])?)),
        }
    }
}

fn of_work(
    args: &LinesArgs,
    work: Work,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Exit> {
    let seed = record::seed(None, args.seed)?;
    let sampling = sampled::Source::of(args)?;
    match args.targets.as_slice() {
        [a, b] => {
            let mut recorded = |target, settings| {
                record(
                    Some(target),
                    settings,
                    &work,
                    seed,
                    How::of(args),
                    terminal,
                    stop,
                )
            };
            let (a, b) = (recorded(a, &args.set_a)?, recorded(b, &args.set_b)?);
            show(&Difference::of(a, b), &args.show, terminal)?;
        }
        targets => {
            if let Some(flag) = [("--set-a", &args.set_a), ("--set-b", &args.set_b)]
                .iter()
                .find(|(_, settings)| !settings.is_empty())
            {
                bail!(
                    Failure::usage(format!("{} is for one of two targets", flag.0))
                        .with_remedy("--set, or name two targets")
                );
            }
            let target = targets.first();
            let sampling = match sampling {
                Some(source) if source.is_alone(args) => {
                    return sampled::alone(args, source, terminal, stop);
                }
                sampling => sampling,
            };
            let how = How {
                sampling,
                ..How::of(args)
            };
            let account = record(target, &[], &work, seed, how, terminal, stop)?;
            show(&account, &args.show, terminal)?;
        }
    }
    next(&args.show, &[next_of(args)], terminal);
    Ok(Exit::Done)
}

/// What the lines come to: two servers measured against each other, one at more sessions.
fn next_of(args: &LinesArgs) -> String {
    let targets: Vec<String> = args.targets.iter().map(|t| secrets::shown(t)).collect();
    let (targets, workload) = (
        pgassay_text::shell(&targets),
        pgassay_text::shell_word(&args.workload),
    );
    match args.targets.len() {
        0 => format!("pgassay walls --workload {workload} --cpu CPU"),
        1 => format!("pgassay walls {targets} --workload {workload} --cpu CPU"),
        _ => format!("pgassay compare {targets} --workload {workload}"),
    }
}

/// The account of one server, for what is made of it; replayed also with the times of a processor.
///
/// # Errors
/// As for [`lines`].
pub fn one(
    args: &LinesArgs,
    on: Option<&Processor>,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Account> {
    if args.sample.is_some() || args.sampled.is_some() {
        bail!(
            Failure::usage("samples are shown beside counted lines, and change nothing of what is made of these")
                .with_remedy("pgassay lines with --sample or --sampled")
        );
    }
    let (work, seed) = (Work::named(args)?, record::seed(None, args.seed)?);
    let (target, how) = (
        args.targets.first(),
        How {
            on,
            ..How::of(args)
        },
    );
    record(target, &[], &work, seed, how, terminal, stop)
}

/// How an account is made, beside the target.
struct How<'a> {
    args: &'a LinesArgs,
    /// Replayed also with the times of a processor.
    on: Option<&'a Processor>,
    /// Samples to stand beside it.
    sampling: Option<sampled::Source>,
}

impl<'a> How<'a> {
    fn of(args: &'a LinesArgs) -> Self {
        Self {
            args,
            on: None,
            sampling: None,
        }
    }
}

/// The account of one server.
#[allow(clippy::too_many_arguments)] // two targets differ in two of them
fn record(
    target: Option<&String>,
    settings: &[String],
    work: &Work,
    seed: u64,
    how: How<'_>,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Account> {
    let How { args, on, sampling } = how;
    let spec: TargetSpec = target
        .map_or("temp", String::as_str)
        .parse()
        .map_err(explain)?;
    let emulated = Emulated::of(&spec, args)?;
    let spec = emulated.as_ref().map_or(spec, Emulated::spec);
    if emulated.is_some() && matches!(work, Work::Loop(_)) {
        bail!(Failure::usage(
            "a loop inside the server is compiled for it, which pgassay does for this machine's processor only"
        )
        .with_remedy("a workload that a client sends, such as select-only"));
    }
    let has_sampling = sampling.is_some();
    if has_sampling && (emulated.is_some() || matches!(work, Work::Loop(_))) {
        bail!(
            Failure::usage(
                "samples stand beside a load that clients send to a server of this processor"
            )
            .with_remedy("a workload such as select-only, and no server under an emulator")
        );
    }
    if !spec.is_launched() && !cfg!(target_arch = "x86_64") {
        bail!(
            Failure::usage(
                "on this processor lines steps no session of a running server: if pgassay were killed meanwhile, the \
                 session could die of the next step, and the server would end all others"
            )
            .with_remedy("name an installation, or temp:VERSION: lines launches a server of its own; or --sample, without --load")
        );
    }
    if !spec.is_launched() && !args.load {
        bail!(
            Failure::usage("lines puts a load on a running server, and steps a session of its own")
                .with_remedy("add --load: it makes the schema pgassay, and removes it afterwards")
        );
    }
    let flags = TargetArgs {
        target: target.cloned(),
        settings: args.settings.iter().chain(settings).cloned().collect(),
        load: args.load,
        scratch: args.scratch.clone(),
        stand_in: args.stand_in,
        ..TargetArgs::default()
    };
    // Launched for this: nothing else is to touch its memory.
    let flags = match spec.is_launched() {
        true => flags.with_defaults(&[("autovacuum", "off"), ("shared_buffers", "128MB")]),
        false => flags,
    };
    let progress = Progress::new(terminal, 1000);
    progress.say("opening the server");
    let clients = sampling.as_ref().map_or(0, sampled::Source::clients);
    let connections = args.sessions + clients + 4;
    let opened = Subject::open(&spec, &flags, 1 << 30, connections, stop);
    progress.clear();
    let mut subject = opened?;
    // Its sockets lie in the server's directory: they are closed before it goes.
    let mut emulated = emulated;
    if let Some((emulated, cluster)) = emulated.as_ref().zip(subject.cluster.as_ref()) {
        subject.shown = emulated.shown(cluster);
    }
    terminal.announce(&format!("server: {}", subject.shown));
    let postmaster = subject.scene.postmaster.clone().map_err(|why| {
        Failure::target(format!("its sessions can't be stepped: {why}"))
            .with_remedy("run pgassay on the server's machine, over its Unix socket")
    })?;
    let plan = match work {
        Work::Load(plan) => plan,
        Work::Loop(which) => {
            subject.keep(stop);
            let recorded = inside::recorded(
                &mut subject,
                postmaster,
                which,
                seed,
                (args, on),
                &progress,
                stop,
            );
            progress.clear();
            return recorded;
        }
    };
    if subject.cluster.is_none() {
        subject.keep(stop);
        let admission = subject.admit(None)?;
        if setup::remove_noted(subject.session()?)? {
            terminal.announce("removed the schema pgassay that a killed run had left");
        }
        let needed = args.sessions + clients;
        if needed > admission.most_clients {
            let flag = match clients {
                0 => format!("--sessions {}", admission.most_clients),
                _ => format!(
                    "--sample-clients {}",
                    admission.most_clients.saturating_sub(args.sessions).max(1)
                ),
            };
            bail!(
                Failure::usage(format!(
                    "{needed} sessions are more than half of the server's free connections"
                ))
                .with_remedy(flag)
            );
        }
        let shown = subject.shown.clone();
        terminal.announce(&guest::announcement(&shown, plan, needed, 60.0));
        terminal.announce(&format!(
            "a session of ours will be stepped, at most {} s in each transaction; others wait for the locks that it holds",
            LIMIT.as_secs()
        ));
    }
    subject.keep(stop);
    progress.say(format!(
        "filling the tables, {}",
        workload::scale_in_words(plan)
    ));
    let made = subject.make_tables(plan, &mut |share| progress.share(share), stop)?;
    let recorded = recorded(
        &mut subject,
        (postmaster, emulated.as_mut()),
        plan,
        seed,
        How { args, on, sampling },
        (terminal, &progress),
        stop,
    );
    progress.clear();
    let removed = clean_up(&mut subject, &made);
    if let Err(error) = &removed {
        terminal.warn(&setup::still_there(error));
    }
    recorded
}

/// What is done between making the tables and removing them.
fn recorded(
    subject: &mut Subject,
    (postmaster, mut emulated): (u32, Option<&mut Emulated>),
    plan: &WorkloadPlan,
    seed: u64,
    how: How<'_>,
    (terminal, progress): (&mut Terminal, &Progress),
    stop: &Stop,
) -> anyhow::Result<Account> {
    let How { args, on, sampling } = how;
    let mut last = None;
    if subject.cluster.is_some() {
        let session = subject.session()?;
        // Hint bits and freezing are work that the first reader would do for all.
        session.execute("VACUUM (FREEZE, ANALYZE)")?;
        session.execute("CHECKPOINT")?;
    }
    if !plan.without_pgbench_tables || plan.data.is_some() {
        setup::read_in(subject.session()?)?;
    }
    let mut conninfo = subject.conninfo.with_options(setup::FIND_OURS);
    let mut transactions = args.transactions.unwrap_or(TRANSACTIONS);
    let mut seen = Seen::default();
    // Open until all are recorded: each has a place of its own in shared memory.
    let mut engines = Vec::new();
    for number in 0..args.sessions {
        let name = format!("pgassay lines {}", number + 1);
        conninfo = conninfo.with_application_name(&name);
        let options = Options {
            threads: Some(1),
            variables: vec![("scale".to_owned(), Value::Int(i64::from(plan.scale)))],
            texts: plan.dials.define.clone(),
            stop: stop.flag().clone(),
            drain: DRAIN,
            ..Options::default()
        };
        let to = match (&mut emulated, &subject.cluster) {
            (Some(emulated), Some(cluster)) => emulated.next_gate(&conninfo, cluster)?,
            _ => conninfo.clone(),
        };
        let mut engine = Engine::new(to, workload::program(plan)?, options);
        engine.resize(1)?;
        let own_pid = backend_of(subject.session()?, &name)?;
        let process = Process::find(postmaster, own_pid)?;
        last = Some(process);
        let seed = seed.wrapping_add(u64::from(number));
        let began = Instant::now();
        execute(&mut engine, FIRST, !seed, stop)?;
        let each = began.elapsed().as_secs_f64() / FIRST as f64;
        let in_time = |most: u64| most.min((WARMING_SECONDS / each) as u64).max(1);
        execute(&mut engine, in_time(WARMING), !seed, stop)?;
        if number == 0 && emulated.is_none() {
            let timed = in_time(TIMED).div_ceil(ROUNDS);
            for round in 0..ROUNDS {
                let before = cpu_ns(process.pid);
                execute(&mut engine, timed, !seed.wrapping_add(round), stop)?;
                if let Some((a, b)) = before.zip(cpu_ns(process.pid)) {
                    seen.takes(b.saturating_sub(a) as f64 / timed as f64 / 1e3);
                }
            }
            let stepped = seen.cpu_us.map(|cpu_us| cpu_us * SLOWER / 1e6);
            if let Some(stepped) = stepped {
                transactions = args
                    .transactions
                    .unwrap_or_else(|| in_patience(stepped, args.sessions));
                let seconds = stepped * f64::from(transactions) * f64::from(args.sessions);
                progress.clear();
                terminal.announce(&format!(
                    "stepping {} through {}: about {} (a transaction takes {:.0} µs of CPU time, {} stepped)",
                    number::counted(args.sessions, "session"),
                    number::counted(transactions, "transaction"),
                    number::duration(seconds),
                    stepped / SLOWER * 1e6,
                    number::duration(stepped),
                ));
                if subject.cluster.is_none() && stepped > LIMIT.as_secs_f64() {
                    terminal.warn(&format!(
                        "these transactions are probably too long: on a server that pgassay did not launch, stepping stops \
                         after {} s in one",
                        LIMIT.as_secs()
                    ));
                }
            }
        }
        let server = Server::ask(subject.session()?)?;
        progress.step(
            f64::from(number) / f64::from(args.sessions),
            format!(
                "stepping session {} of {} through {transactions} transactions",
                number + 1,
                args.sessions,
            ),
        );
        let transactions = u64::from(transactions);
        let bound = subject.cluster.is_none();
        let bound = bound.then(|| Bound::new(Limit::Time(LIMIT)));
        let client = &mut || match &bound {
            // Numbers of their own for each transaction, which no other session draws.
            Some(bound) => bound.run(transactions, &mut |number| {
                execute(&mut engine, 1, seed.wrapping_add(number << 32), stop)
            }),
            None => execute(&mut engine, transactions, seed, stop),
        };
        let (sequence, found) = match &emulated {
            Some(emulated) => emulated.record(process, &server, transactions, stop, client)?,
            None => {
                let bound = bound.as_ref();
                session::step(process, &server, transactions, bound, stop.flag(), client)?
            }
        };
        seen.doubts.extend(found);
        seen.sequences.push(sequence);
        engines.push(engine);
    }
    if let Some(emulated) = emulated {
        seen.emulated = Some((emulated.method(), emulated.line_bytes()));
    }
    let mut account = seen.told(subject, &plan.name, seed, (args, on), progress)?;
    if let Some((source, process)) = sampling.zip(last) {
        let (of, load) = ((postmaster, process), sampled::Load { plan, seed: !seed });
        sampled::beside(subject, of, &mut account, source, &load, progress, stop)?;
    }
    Ok(account)
}

/// Transactions of each of so many sessions, so that stepping them all takes no more than some minutes.
fn in_patience(stepped: f64, sessions: u32) -> u32 {
    let each = PATIENCE_SECONDS / stepped / f64::from(sessions);
    (each as u32).clamp(FEWEST_TRANSACTIONS, TRANSACTIONS)
}

/// What was recorded.
#[derive(Default)]
struct Seen {
    sequences: Vec<Sequence>,
    doubts: Vec<String>,
    cpu_us: Option<f64>,
    /// How another processor's sessions were recorded, and its bytes of a line.
    emulated: Option<(String, u64)>,
}

impl Seen {
    /// A round of transactions took so much CPU time each.
    fn takes(&mut self, cpu_us: f64) {
        self.cpu_us = Some(self.cpu_us.map_or(cpu_us, |least| least.min(cpu_us)));
    }

    /// The account of it, replayed at as many sessions as were asked for.
    fn told(
        mut self,
        subject: &mut Subject,
        workload: &str,
        seed: u64,
        (args, on): (&LinesArgs, Option<&Processor>),
        progress: &Progress,
    ) -> anyhow::Result<Account> {
        self.doubts.sort();
        self.doubts.dedup();
        let server = Server::ask(subject.session()?)?;
        progress.say("replaying");
        let (method, line_of_it) = match self.emulated {
            Some((method, bytes)) => (method, Some(bytes)),
            None => (
                "Sessions of the server stepped by ptrace".to_owned(),
                sampled::line_of_this_machine(),
            ),
        };
        let line_bytes = args.line_size.or(line_of_it).unwrap_or(64);
        let replay = Replay::new(&self.sequences, line_bytes);
        let mut counts = args.at.0.clone();
        counts.sort_unstable();
        counts.dedup();
        // Of long transactions each takes as long as stepping them did.
        let (replay, cpu_us) = (&replay, self.cpu_us);
        let transfers = thread::scope(|scope| {
            let each = counts.iter().map(|sessions| *sessions as usize);
            let keep = on.map(|processor| processor.within_a_transfer());
            let each = each.map(|sessions| {
                scope.spawn(move || Transfers {
                    timed: on
                        .and_then(|processor| processor.costs(sessions, cpu_us))
                        .and_then(|costs| replay.timed(sessions, seed, costs)),
                    ..replay.keeping(sessions, seed, keep)
                })
            });
            let all: Vec<_> = each.collect();
            let all = all.into_iter().map(|one| one.join());
            all.map(|one| one.unwrap_or_else(|panic| resume_unwind(panic)))
                .collect()
        });
        let of = Of {
            recorded: clock::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            target: subject.shown.clone(),
            version: server.version,
            workload: workload.to_owned(),
            method,
            seed,
            line_bytes,
            cpu_us: self.cpu_us,
            doubts: self.doubts,
        };
        Ok(account(&self.sequences, of, transfers))
    }
}

/// CPU time of a process in nanoseconds (/proc/PID/schedstat).
fn cpu_ns(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
    text.split_ascii_whitespace().next()?.parse().ok()
}

/// The process of our session of this name.
fn backend_of(session: &mut Session, name: &str) -> anyhow::Result<u32> {
    let question = format!(
        "SELECT pid FROM pg_catalog.pg_stat_activity WHERE application_name = '{name}' \
         AND pid <> pg_catalog.pg_backend_pid() ORDER BY backend_start DESC LIMIT 1"
    );
    let pid = session
        .catalog_value(&question)?
        .and_then(|pid| pid.parse().ok());
    pid.context("the server does not list our session")
}

fn execute(engine: &mut Engine, transactions: u64, seed: u64, stop: &Stop) -> Result<(), Failure> {
    let spec = SliceSpec {
        length: Length::Transactions(transactions),
        seed,
        ..SliceSpec::default()
    };
    let result = engine.run_slice(&spec, &mut |_: Edge| {});
    if stop.asked() {
        return Err(Failure::interrupted());
    }
    if result.transactions == transactions {
        return Ok(());
    }
    let example = result.failure_examples.values().next().cloned();
    Err(Failure::target(format!(
        "{} of {transactions} transactions ended well: {}",
        result.transactions,
        example.or(result.died).unwrap_or_default()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_transactions_are_stepped_fewer_times() {
        // A select, some statements, and a report, by their CPU time.
        assert_eq!(in_patience(9e-6 * SLOWER, 2), TRANSACTIONS);
        assert_eq!(in_patience(60e-6 * SLOWER, 2), 10);
        assert_eq!(in_patience(1.0 * SLOWER, 2), FEWEST_TRANSACTIONS);
    }
}

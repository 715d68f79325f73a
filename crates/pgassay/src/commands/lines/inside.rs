//! The lines that a loop inside the server takes, an operation.

use anyhow::{Context, bail};
use pgassay_engine::workload::inserver::{self, Arena, Knobs};
use pgassay_engine::workload::setup;
use pgassay_lines::account::Account;
use pgassay_lines::loops;
use pgassay_lines::session::{self, Process, Server};
use pgassay_lines::walls::Processor;
use pgassay_model::Failure;
use pgassay_pgwire::{Session, connect};
use pgassay_server::extension::Extension;
use pgassay_sys::stop::Stop;

use super::{ROUNDS, Seen, WARMING, backend_of};
use crate::cli::lines::LinesArgs;
use crate::commands::progress::Progress;
use crate::commands::subject::Subject;
use crate::exit::explain;

/// Operations of each recorded session where nobody said how many.
const OPERATIONS: u32 = 200;
/// The fewest by whose number an operation is recognised.
const FEWEST: u32 = 10;
/// The longest call that is timed, in microseconds.
const TIMED_US: u32 = 200_000;

/// The account of a loop on a launched server.
///
/// # Errors
/// What kept it from recording.
pub fn recorded(
    subject: &mut Subject,
    postmaster: u32,
    which: &str,
    seed: u64,
    (args, on): (&LinesArgs, Option<&Processor>),
    progress: &Progress,
    stop: &Stop,
) -> anyhow::Result<Account> {
    let count = args.transactions.unwrap_or(OPERATIONS);
    if count < FEWEST {
        bail!(
            Failure::usage(format!("{count} operations of a loop are not told apart"))
                .with_remedy(format!("-n {FEWEST} or more"))
        );
    }
    let Some(cluster) = &subject.cluster else {
        bail!(
            Failure::usage(format!(
                "{} loads a library into the server, which pgassay does only in a server of its own",
                which
            ))
            .with_remedy("name temp or an installation")
        );
    };
    progress.say("compiling the functions for this server");
    let installation = cluster.installation().clone();
    let call = inserver::find(which, installation.version.num())?;
    let call = call.with_context(|| format!("this server can't execute {which}"))?;
    let extension =
        Extension::compiled_for(&installation, args.scratch.as_deref()).map_err(explain)?;
    let keeper = subject.session()?;
    let buffers = keeper.value(setup::SHARED_BUFFERS)?;
    let buffers = buffers
        .and_then(|bytes| bytes.parse().ok())
        .unwrap_or(128 << 20);
    let definitions = extension.definitions(inserver::SCHEMA);
    let calls = std::slice::from_ref(&call);
    inserver::create(keeper, &definitions, calls, &Knobs::default(), buffers)?;
    keeper.execute("CHECKPOINT")?;
    // One session at a time goes through its gate.
    let arena = Arena::create(keeper, 1, 1)?;

    let mut seen = Seen::default();
    // Open until all are recorded: each has a place of its own in shared memory.
    let mut sessions: Vec<Session> = Vec::new();
    for number in 0..args.sessions {
        let name = format!("pgassay lines {}", number + 1);
        let conninfo = subject.conninfo.clone().with_application_name(&name);
        let mut session = connect(&conninfo)?;
        let own_pid = backend_of(subject.session()?, &name)?;
        let process = Process::find(postmaster, own_pid)?;
        let seed = seed.wrapping_add(u64::from(number));
        session.rows(&call.counted(arena.handle, !seed, WARMING))?;
        if number == 0 {
            let timed = call.statement(arena.handle, 0, !seed, TIMED_US);
            for _ in 0..ROUNDS {
                let outcome = inserver::outcome(&session.rows(&timed)?)?;
                seen.takes(outcome.cpu_ns as f64 / outcome.operations.max(1) as f64 / 1e3);
            }
        }
        let server = Server::ask(subject.session()?)?;
        progress.step(
            f64::from(number) / f64::from(args.sessions),
            format!(
                "stepping session {} of {} through {count} operations",
                number + 1,
                args.sessions
            ),
        );
        let statement = call.counted(arena.handle, seed, u64::from(count));
        let (sequence, doubts) =
            session::step(process, &server, 1, None, stop.flag(), &mut || {
                let outcome = session.rows(&statement).map_err(failed);
                let done = outcome.and_then(|rows| inserver::outcome(&rows).map_err(failed));
                match done?.operations {
                    done if done == u64::from(count) => Ok(()),
                    done => Err(Failure::target(format!(
                        "{done} of {count} operations were done"
                    ))),
                }
            })?;
        seen.doubts.extend(doubts);
        seen.sequences
            .push(loops::operations(sequence, u64::from(count))?);
        sessions.push(session);
    }
    seen.told(subject, &call.name(), seed, (args, on), progress)
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::target(format!("the call failed: {error}"))
}

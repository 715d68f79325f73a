//! The lines that a loop inside the server takes, an operation.

use anyhow::bail;
use pgassay_engine::workload::inserver::{self, Arena, Call, Knobs};
use pgassay_engine::workload::setup;
use pgassay_lines::account::Account;
use pgassay_lines::loops;
use pgassay_lines::session::{self, Process, Server};
use pgassay_model::Failure;
use pgassay_pgwire::{Session, connect};
use pgassay_server::extension::Extension;
use pgassay_sys::stop::Stop;

use super::{Keep, Seen, WARMING, backend_of};
use crate::cli::lines::LinesArgs;
use crate::commands::progress::Progress;
use crate::commands::subject::{Subject, explain};

/// Operations of each recorded session where nobody said how many.
const OPERATIONS: u32 = 200;
/// The fewest by whose number an operation is recognised.
const FEWEST: u32 = 10;
/// The longest call that is timed, in microseconds.
const TIMED_US: u32 = 500_000;

/// A loop and the way in which it is called: `buffer-hit:hot block`.
#[derive(Debug, Clone)]
pub struct Loop {
    primitive: String,
    variant: Option<String>,
}

impl Loop {
    /// The loop of this name; none where the name is no loop's.
    pub fn find(name: &str) -> Option<Self> {
        let (primitive, variant) = match name.split_once(':') {
            Some((primitive, variant)) => (primitive, Some(variant.trim().to_owned())),
            None => (name, None),
        };
        let known = inserver::names().contains(&primitive) && primitive != inserver::ALL;
        known.then(|| Self {
            primitive: primitive.to_owned(),
            variant,
        })
    }

    /// The call on a server of this version.
    fn call(&self, version_num: u32) -> Result<Call, Failure> {
        let mut calls = inserver::calls(&self.primitive, version_num, &Knobs::default());
        calls.retain(|call| call.company.sessions() == 0);
        let names: Vec<String> = calls
            .iter()
            .map(|call| format!("`{}:{}`", self.primitive, call.variant))
            .collect();
        let found = match &self.variant {
            None if calls.len() == 1 => calls.pop(),
            None => None,
            Some(variant) => calls.into_iter().find(|call| call.variant == *variant),
        };
        found.ok_or_else(|| {
            Failure::usage(format!(
                "{} is called in {} ways on this server",
                self.primitive,
                names.len()
            ))
            .with_remedy(format!("one of {}", names.join(", ")))
        })
    }
}

/// The account of a loop on a launched server.
///
/// # Errors
/// What kept it from recording.
pub fn recorded(
    subject: &mut Subject,
    postmaster: u32,
    which: &Loop,
    seed: u64,
    (args, keep): (&LinesArgs, Keep<'_>),
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
                which.primitive
            ))
            .with_remedy("name temp or an installation")
        );
    };
    progress.say("compiling the functions for this server");
    let installation = cluster.installation().clone();
    let call = which.call(installation.version.num())?;
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
            let outcome = inserver::outcome(&session.rows(&timed)?)?;
            seen.cpu_us = Some(outcome.cpu_ns as f64 / outcome.operations.max(1) as f64 / 1e3);
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
        let (sequence, doubts) = session::step(process, &server, 1, stop.flag(), &mut || {
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
    let name = match call.variant.as_str() {
        "" => which.primitive.clone(),
        variant => format!("{}:{variant}", which.primitive),
    };
    seen.told(subject, &name, seed, (args, keep), progress)
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::target(format!("the call failed: {error}"))
}

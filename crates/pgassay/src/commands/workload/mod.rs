//! `pgassay workload`: a workload file from what a server ran, and from it what other programs run.

mod described;
mod export;
mod from_log;
mod from_statements;
mod sessions;
mod statistics;
mod synthetic;
mod tables;

use std::path::Path;

use pgassay_model::Failure;
use pgassay_statements::anonymise;
use pgassay_statements::made::Made;
use pgassay_statements::write::{About, Draft, write};
use pgassay_sys::stop::Stop;

use self::sessions::Writing;
use super::files::to_file;
use super::show::{next, show};
use crate::cli::workload::{From, IntoArgs, WorkloadArgs};
use crate::exit::Exit;
use crate::terminal::Terminal;

/// Makes a workload.
///
/// # Errors
/// Where there is nothing to make it from, or it can't be written.
pub fn workload(args: &WorkloadArgs, terminal: &mut Terminal, stop: &Stop) -> anyhow::Result<Exit> {
    match &args.from {
        From::FromLog(args) => from_log::from_log(args, terminal, stop),
        From::FromStatements(args) => from_statements::from_statements(args, terminal, stop),
        From::Statistics(args) => statistics::statistics(args, terminal, stop),
        From::Export(args) => export::export(args, terminal),
    }
}

/// Refuses a file that is there, before anything is read.
fn refuse_there(into: &IntoArgs) -> Result<(), Failure> {
    match into.to.exists() && !into.force {
        true => Err(
            Failure::usage(format!("{} exists already", into.to.display()))
                .with_remedy("name another with --to, or overwrite it with --force"),
        ),
        false => Ok(()),
    }
}

/// How the values are described.
fn values(into: &IntoArgs, origin: &str) -> String {
    match into.anonymise {
        true => format!("{origin}; each text replaced by a hash"),
        false => origin.to_owned(),
    }
}

/// Writes the workload, with its sessions where there are some, and says what is in it.
fn finish(
    mut drafts: Vec<Draft>,
    about: &About,
    mut made: Made,
    sessions: Option<Writing>,
    into: &IntoArgs,
    terminal: &mut Terminal,
) -> anyhow::Result<Exit> {
    if into.anonymise {
        anonymise::drafts(&mut drafts, into.seed);
    }
    let text = write(&drafts, about, &mut made);
    check(&into.to, &text)?;
    if let Some(sessions) = sessions {
        sessions.finish(&drafts, &mut made)?;
    }
    to_file(&into.to, "--to", &text)?;
    made.left_out
        .sort_by_key(|one| std::cmp::Reverse(one.statements));
    terminal.announce(&format!("workload: {}", into.to.display()));
    show(&made, &into.show, terminal)?;
    let step = format!(
        "pgassay run '{}' TARGET --load, where TARGET is a copy of your database",
        into.to.display()
    );
    next(&into.show, &[step], terminal);
    Ok(Exit::Done)
}

/// A file that run would refuse is none.
fn check(path: &Path, text: &str) -> anyhow::Result<()> {
    pgassay_engine::workload::check(&path.display().to_string(), text)?;
    Ok(())
}

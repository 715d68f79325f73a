//! The machines that a load comes from, reached and ready.

use std::thread;

use anyhow::Context;
use pgassay_engine::agents::{Agents, Side};
use pgassay_engine::drivers::wire::{self, Source as Load};
use pgassay_far::Link;
use pgassay_model::workload::WorkloadPlan;
use pgassay_model::{Failure, FailureKind};
use pgassay_sys::stop::Stop;

use super::far::{self, LOAD};
use super::subject::Subject;
use crate::cli::args::GlobalArgs;
use crate::cli::from::{FromList, Source};
use crate::secrets;
use crate::terminal::Terminal;

/// Reaches all machines.
///
/// # Errors
/// Naming the first that can't be reached, and what to do.
pub fn open(
    list: &FromList,
    global: &GlobalArgs,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Agents> {
    let names = named_apart(&names(list));
    let mut sides = Vec::with_capacity(names.len());
    for (source, name) in list.0.iter().zip(&names) {
        terminal.progress(&format!("reaching {name}"));
        sides.push(match source {
            Source::Local => here(name)?,
            Source::Far(place) => {
                let side = far::give_load(place, global, terminal)?;
                Side {
                    name: name.clone(),
                    channel: side.link()?.channel(LOAD),
                    link: Box::new(side),
                }
            }
        });
    }
    let agents = Agents::open(sides, stop)?;
    terminal.announce(&format!("load from {}", names.join(", ")));
    Ok(agents)
}

/// The machines as they are recorded and spoken of: as typed, without passwords.
pub fn names(list: &FromList) -> Vec<String> {
    list.names()
        .iter()
        .map(|name| secrets::shown(name))
        .collect()
}

/// An agent in this process.
fn here(name: &str) -> anyhow::Result<Side> {
    let (near, agent) = Link::pair();
    thread::Builder::new()
        .name("agent".to_owned())
        // It ends with the link.
        .spawn(move || drop(wire::serve(&agent.channel(LOAD), &Stop::new())))
        .context("a thread for the load from this machine")?;
    Ok(Side {
        name: name.to_owned(),
        channel: near.channel(LOAD),
        link: Box::new(near),
    })
}

/// Names that each mean one of them.
fn named_apart(names: &[String]) -> Vec<String> {
    let named = |(at, name): (usize, &String)| {
        let before = names[..at].iter().filter(|other| *other == name).count();
        match before {
            0 => name.clone(),
            n => format!("{name} ({})", n + 1),
        }
    };
    names.iter().enumerate().map(named).collect()
}

/// Refuses what several machines can't do together.
///
/// # Errors
/// Naming it.
pub fn refuse(workload: &WorkloadPlan, pin: bool, ceiling: bool) -> Result<(), Failure> {
    let refused = |flag: &str, why: &str| {
        Err(
            Failure::usage(format!("{flag} {why}, and --from names machines"))
                .with_remedy(format!("leave out {flag} or --from")),
        )
    };
    if workload.replay.is_some() {
        return refused("--replay", "goes through recorded sessions in this process");
    }
    if pin {
        return refused("--pin", "is about the CPUs of this process");
    }
    if ceiling {
        return refused("--ceiling", "measures the client in this process");
    }
    Ok(())
}

/// Looks whether every machine finds the server.
///
/// # Errors
/// Naming the one that does not.
pub fn find(agents: &Agents, subject: &mut Subject) -> anyhow::Result<()> {
    let started = wire::started(subject.session()?)?;
    Ok(agents.find(&subject.conninfo, None, &started)?)
}

/// Where an arm's load comes from.
pub fn source(agents: Option<&Agents>) -> Load<'_> {
    match agents {
        Some(agents) => Load::Agents(agents, None),
        None => Load::Here,
    }
}

/// What ended a run whose finished trials are kept: a part, with how to go on.
pub fn in_part(error: anyhow::Error, command: &str, run: &str) -> anyhow::Error {
    match Failure::of(&error) {
        Some(failure) if failure.kind == FailureKind::Target => Failure {
            kind: FailureKind::Partial,
            message: format!("measured in part: {}", failure.message),
            remedy: Some(format!(
                "pgassay {command} --resume {run} measures the trials that are missing"
            )),
        }
        .into(),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_of_one_name_are_told_apart() {
        let names = ["a", "b", "a", "a"].map(str::to_owned);
        assert_eq!(named_apart(&names), ["a", "b", "a (2)", "a (3)"]);
    }

    #[test]
    fn what_several_machines_cannot_do_is_refused() {
        let plan = WorkloadPlan::default();
        assert!(refuse(&plan, false, false).is_ok());
        for (pin, ceiling) in [(true, false), (false, true)] {
            let failure = refuse(&plan, pin, ceiling).unwrap_err();
            assert!(failure.remedy.unwrap().contains("--from"));
        }
    }
}

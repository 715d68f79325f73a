//! The machines that a load comes from, reached and ready.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::thread;

use anyhow::{Context, bail};
use pgassay_engine::agents::{Agents, Outside, Side, SshSession};
use pgassay_engine::drivers::wire::{self, Source as Load};
use pgassay_engine::workload::sessions::Recordings;
use pgassay_far::{Link, Place};
use pgassay_model::Failure;
use pgassay_model::workload::WorkloadPlan;
use pgassay_pgwire::Conninfo;
use pgassay_server::Listen;
use pgassay_sys::addresses;
use pgassay_sys::stop::Stop;

use super::far::{self, LOAD};
use super::subject::Subject;
use crate::cli::args::GlobalArgs;
use crate::cli::from::{FromList, ListenAt, Source, WayArgs, Ways};
use crate::secrets;
use crate::session;
use crate::terminal::Terminal;

/// Reaches all machines.
///
/// # Errors
/// Naming the first that can't be reached, and what to do.
pub fn open(
    list: &FromList,
    ways: &WayArgs,
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
            Source::Here => match far::near_side()? {
                Some(link) => Side {
                    name: name.clone(),
                    channel: link.channel(LOAD),
                    link: Box::new(link),
                    by_address: true,
                },
                None if session::gives_near_load() => bail!(
                    Failure::usage("--from names here more than once")
                        .with_remedy("name each machine once")
                ),
                None => here(name)?,
            },
            Source::Far(place) => {
                let side = far::give_load(place, global, terminal, stop)?;
                Side {
                    name: name.clone(),
                    channel: side.link()?.channel(LOAD),
                    link: Box::new(side),
                    // Whoever names the address means it to be used.
                    by_address: ways.listen.is_some(),
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
        by_address: false,
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

/// What the servers of a command are.
#[derive(Debug, Clone, Copy)]
pub struct Servers {
    /// One is launched.
    pub launched: bool,
    /// One runs already.
    pub running: bool,
}

/// How the machines reach the servers from outside; launched servers listen where that is needed.
///
/// # Errors
/// Where what was typed does not fit, or no address is known.
pub fn ways(
    machines: Option<(&FromList, &Agents)>,
    typed: &WayArgs,
    servers: Servers,
    terminal: &mut Terminal,
) -> anyhow::Result<Ways> {
    let Some((list, agents)) = machines else {
        let flag = match (&typed.listen, &typed.load_conninfo) {
            (Some(_), _) => "--listen",
            (None, Some(_)) => "--load-conninfo",
            (None, None) => return Ok(Ways::default()),
        };
        bail!(
            Failure::usage(format!("{flag} is for load that comes from other machines"))
                .with_remedy("name them with --from LIST")
        );
    };
    let conninfo = match &typed.load_conninfo {
        Some(_) if !servers.running => bail!(
            Failure::usage("--load-conninfo is for a running server").with_remedy(
                "leave it out: --listen says where a launched server is reached from outside"
            )
        ),
        Some(text) => Some(settings(text)?),
        None => None,
    };
    let listen = match servers.launched {
        true => listen(list, agents, typed.listen)?,
        false if typed.listen.is_some() => bail!(
            Failure::usage("--listen is for a launched server").with_remedy(
                "leave it out: --load-conninfo says how a running server is reached from outside"
            )
        ),
        false => None,
    };
    if let Some(listen) = &listen {
        let from: Vec<String> = listen.from.iter().map(ToString::to_string).collect();
        terminal.announce(&format!(
            "while it runs the server listens at {} for {}",
            listen.address,
            from.join(", ")
        ));
    }
    Ok(Ways { listen, conninfo })
}

/// What was typed behind `--load-conninfo`, as keywords and values.
fn settings(text: &str) -> Result<String, Failure> {
    let refused = |why: String| {
        Failure::usage(format!("--load-conninfo: {why}"))
            .with_remedy("write keywords and values: --load-conninfo 'host=10.0.0.5 port=5433'")
    };
    let pairs = Conninfo::pairs(text).map_err(|error| refused(error.to_string()))?;
    if pairs.iter().any(|(name, _)| name.contains("password")) {
        return Err(Failure::usage("--load-conninfo: a password is not sent")
            .with_remedy("each machine uses its own ~/.pgpass"));
    }
    let pairs = pairs
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()));
    Ok(Conninfo::of_pairs(pairs))
}

/// Where launched servers listen, and for whom; none if no machine comes from outside.
fn listen(
    list: &FromList,
    agents: &Agents,
    typed: Option<ListenAt>,
) -> anyhow::Result<Option<Listen>> {
    let strangers = agents.strangers();
    if strangers.is_empty() {
        return match typed {
            None => Ok(None),
            Some(_) => Err(Failure::usage(
                "--listen is for machines of --from that come from outside, and none does",
            )
            .with_remedy("leave it out, or name such machines: --from here, --from ssh://HOST")
            .into()),
        };
    }
    let names = named_apart(&names(list));
    let source = |name: &str| {
        let place = names.iter().position(|known| known == name)?;
        list.0.get(place)
    };
    let by_ssh = session::came_by_ssh().then(SshSession::of_this).flatten();
    let mut known = BTreeSet::new();
    let mut from: BTreeSet<IpAddr> = BTreeSet::new();
    for stranger in &strangers {
        // Of the machine where the command was typed we know how it came here; of those that were reached
        // from here, how they see us.
        let address = match source(&stranger.name) {
            Some(Source::Here) => by_ssh.map(|session| {
                from.insert(session.client);
                session.server
            }),
            Some(Source::Far(Place::Ssh { .. })) => stranger.session.map(|session| session.client),
            _ => None,
        };
        known.insert(address);
    }
    let mut known = known.into_iter();
    let address = match (typed, known.next().flatten(), known.next()) {
        (Some(typed), _, _) => typed.address,
        (None, Some(address), None) => address,
        (None, ..) => {
            let names: Vec<&str> = strangers.iter().map(|s| s.name.as_str()).collect();
            bail!(
                Failure::usage(format!(
                    "it is not known by which address of the server's machine {} can reach a launched server",
                    names.join(" and ")
                ))
                .with_remedy("name one that it listens at while it runs: --listen ADDRESS")
            )
        }
    };
    let address = own(address, typed.is_some())?;
    let port = typed.and_then(|typed| typed.port);
    from.extend(agents.addresses(SocketAddr::new(address, port.unwrap_or(5432)))?);
    Ok(Some(Listen {
        address,
        port,
        from: from.into_iter().collect(),
    }))
}

/// One address of this machine, at which a launched server may listen: where none was typed, another machine has
/// named it.
fn own(address: IpAddr, is_typed: bool) -> Result<IpAddr, Failure> {
    let address = address.to_canonical();
    let names_many = match address {
        IpAddr::V4(address) => address.is_broadcast(),
        IpAddr::V6(_) => false,
    } || address.is_unspecified()
        || address.is_multicast();
    // A system may let programs have addresses that it does not have (ip_nonlocal_bind).
    let is_own =
        || address.is_loopback() || addresses::own().map_or(true, |all| all.contains(&address));
    if !names_many && TcpListener::bind((address, 0)).is_ok() && is_own() {
        return Ok(address);
    }
    let whence = match is_typed {
        true => "--listen names",
        false => "the load's machines know the server's machine as",
    };
    Err(Failure::usage(format!(
        "{whence} {address}, which is no address of this machine"
    ))
    .with_remedy("name one that it has and that the load's machines reach: --listen ADDRESS"))
}

/// Looks whether every machine finds the server, in sessions like those of its load.
///
/// # Errors
/// Naming the one that does not.
pub fn find(agents: &Agents, subject: &mut Subject, plan: &WorkloadPlan) -> anyhow::Result<()> {
    let mut wanted = wire::identity(subject.session()?)?;
    let conninfo = subject.conninfo_of_load(plan);
    wanted.read_only |= subject.only_reads(plan);
    Ok(agents.find(&conninfo, subject.outside.as_ref(), &wanted)?)
}

/// Where an arm's load comes from: from here with these recordings, where it replays any.
pub fn source<'a>(
    agents: Option<&'a Agents>,
    outside: Option<&'a Outside>,
    recordings: &'a Recordings,
) -> Load<'a> {
    match agents {
        Some(agents) => Load::Agents(agents, outside),
        None => Load::Here(recordings),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A load machine says by which address it came, and would have a server listen at all of them.
    #[test]
    fn a_launched_server_listens_at_an_address_of_this_machine_only() {
        assert!(own([127, 0, 0, 1].into(), false).is_ok());
        let mapped = "::ffff:127.0.0.1".parse().unwrap();
        assert_eq!(own(mapped, false).unwrap(), IpAddr::from([127, 0, 0, 1]));
        for other in [
            "0.0.0.0",
            "::",
            "::ffff:0.0.0.0",
            "224.0.0.1",
            "ff02::1",
            "255.255.255.255",
            "192.0.2.1",
            "2001:db8::1",
        ] {
            for is_typed in [false, true] {
                let refused = own(other.parse().unwrap(), is_typed).expect_err(other);
                assert!(refused.remedy.unwrap().contains("--listen ADDRESS"));
            }
        }
    }

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

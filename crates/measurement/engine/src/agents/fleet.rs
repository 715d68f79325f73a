//! The machines that load comes from, as the near side knows them.

use std::any::Any;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use pgassay_far::{Channel, Lost};
use pgassay_model::{Failure, Plan};
use pgassay_pgwire::{Conninfo, Place};
use pgassay_sys::stop::Stop;

use super::clock::{self, Offset, RoundTrip};
use super::message::{Answer, Ask, Found, Identity, Machine, Preparation, Server, SshSession};
use super::serve::machine;
use super::several::{Several, Trouble};

/// Round trips of which the shortest tells how a clock stands.
const ROUND_TRIPS: usize = 8;
/// How long an answer may take that needs no server.
const PROMPT: Duration = Duration::from_secs(20);
/// How long an answer is waited for after a stop was asked for.
const AFTER_STOP: Duration = Duration::from_secs(3);
/// Stack of the threads that close links.
const STACK: usize = 128 << 10;
/// How often a stop is looked for while an answer is waited for.
const ATTENTION: Duration = Duration::from_millis(40);

/// A machine that can give load.
pub struct Side {
    /// As it was typed.
    pub name: String,
    /// Where an agent listens.
    pub channel: Channel,
    /// What holds the link, and ends it when it is dropped.
    pub link: Box<dyn Any + Send>,
    /// It goes to servers as [`Outside`] says, also where it could use a socket of this machine.
    pub by_address: bool,
}

/// How machines other than this one reach a server.
#[derive(Clone, Default)]
pub struct Outside {
    /// Settings that win over those of the connection string that is used here.
    pub settings: String,
    /// The password of a server that we launched, made for it.
    pub password: Option<String>,
}

impl Outside {
    /// The role as which they connect, where it is named.
    pub fn user(&self) -> Option<String> {
        let pairs = Conninfo::pairs(&self.settings).ok()?;
        pairs
            .into_iter()
            .find(|(name, _)| name == "user")
            .map(|(_, user)| user)
    }
}

impl fmt::Debug for Outside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outside")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// A machine that goes to servers from outside.
#[derive(Debug, Clone)]
pub struct Stranger {
    /// As it was typed.
    pub name: String,
    /// The addresses of the ssh session in which its agent runs, as it says.
    pub session: Option<SshSession>,
}

/// The machines that load comes from. Clones are the same ones; the links end with the last.
#[derive(Clone)]
pub struct Agents {
    fleet: Arc<Mutex<Fleet>>,
}

impl fmt::Debug for Agents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Agents").field(&self.names()).finish()
    }
}

/// All agents, and what was given to them.
pub(super) struct Fleet {
    pub agents: Vec<Agent>,
    pub stop: Stop,
    /// The machine whose CPUs are looked at beside the load.
    server: Machine,
    /// Loads that were prepared.
    loads: u32,
}

/// One agent.
pub(super) struct Agent {
    pub name: String,
    pub channel: Channel,
    pub offset: Option<Offset>,
    pub machine: Machine,
    by_address: bool,
    /// To the servers that it found, by their hosts.
    round_trips: Vec<(String, u64)>,
    link: Box<dyn Any + Send>,
}

/// All links are closed at once: each may take as long as its machine takes to tidy up.
impl Drop for Fleet {
    fn drop(&mut self) {
        let close = |agent: Agent| {
            let thread = thread::Builder::new().stack_size(STACK);
            // Where there is none it is closed here.
            thread.spawn(move || drop(agent.link)).ok()
        };
        let closing: Vec<_> = self.agents.drain(..).map(close).collect();
        for closed in closing.into_iter().flatten() {
            drop(closed.join());
        }
    }
}

impl Agents {
    /// Asks every machine who it is, and how its clock stands.
    ///
    /// # Errors
    /// Naming the machine that does not answer.
    pub fn open(sides: Vec<Side>, stop: &Stop) -> Result<Self, Failure> {
        let agent = |side: Side| Agent {
            name: side.name,
            channel: side.channel,
            offset: None,
            machine: Machine::default(),
            by_address: side.by_address,
            round_trips: Vec::new(),
            link: side.link,
        };
        let mut fleet = Fleet {
            agents: sides.into_iter().map(agent).collect(),
            stop: stop.clone(),
            server: machine(),
            loads: 0,
        };
        for agent in &mut fleet.agents {
            agent.machine = match agent.ask(&Ask::Machine, stop, Some(PROMPT)) {
                Ok(Answer::Machine(machine)) => machine,
                Ok(_) => return Err(agent.senseless()),
                Err(trouble) => return Err(trouble.into_failure()),
            };
        }
        fleet.look_at_clocks().map_err(Trouble::into_failure)?;
        let fleet = Arc::new(Mutex::new(fleet));
        Ok(Self { fleet })
    }

    /// Their names, as typed.
    pub fn names(&self) -> Vec<String> {
        let fleet = self.fleet();
        fleet
            .agents
            .iter()
            .map(|agent| agent.name.clone())
            .collect()
    }

    /// The CPUs of the machine that has fewest.
    pub fn cpus(&self) -> u32 {
        let fleet = self.fleet();
        let cpus = fleet.agents.iter().map(|agent| agent.machine.cpus);
        cpus.min().unwrap_or(1)
    }

    /// The machines that go to servers from outside.
    pub fn strangers(&self) -> Vec<Stranger> {
        let fleet = self.fleet();
        let strangers = fleet.agents.iter().filter(|agent| fleet.is_stranger(agent));
        strangers
            .map(|agent| Stranger {
                name: agent.name.clone(),
                session: agent.machine.session,
            })
            .collect()
    }

    /// The addresses by which those would come to one of this machine.
    ///
    /// # Errors
    /// Naming the machine from which no way leads there.
    pub fn addresses(&self, to: SocketAddr) -> Result<Vec<IpAddr>, Failure> {
        let fleet = &*self.fleet();
        let strangers = fleet.agents.iter().filter(|agent| fleet.is_stranger(agent));
        let mut addresses = Vec::new();
        for agent in strangers {
            match agent.ask(&Ask::Address(to), &fleet.stop, Some(PROMPT)) {
                Ok(Answer::Address(Some(address))) => addresses.push(address),
                Ok(Answer::Address(None)) => {
                    return Err(Failure::target(format!(
                        "no way leads from {} to {}",
                        agent.name,
                        to.ip()
                    )));
                }
                Ok(_) => return Err(agent.senseless()),
                Err(trouble) => return Err(trouble.into_failure()),
            }
        }
        Ok(addresses)
    }

    /// Looks whether every machine finds this server, and not another one under the same name; `wanted` is
    /// what a session here says of it.
    ///
    /// # Errors
    /// Naming the machine that does not, and what to do.
    pub fn find(
        &self,
        conninfo: &Conninfo,
        outside: Option<&Outside>,
        wanted: &Identity,
    ) -> Result<(), Failure> {
        let fleet = &mut *self.fleet();
        let hosts = hosts(conninfo);
        let servers: Vec<Server> = fleet
            .agents
            .iter()
            .map(|agent| fleet.server(agent, conninfo, outside))
            .collect();
        let socket = conninfo.hosts.iter().find_map(|host| match &host.place {
            Place::Socket(directory) => Some(directory.clone()),
            _ => None,
        });
        let here = fleet.server.boot.clone();
        for (agent, server) in fleet.agents.iter_mut().zip(servers) {
            if let Some(socket) = &socket
                && agent.machine.boot != here
                && !agent.by_address
                && outside.is_none()
            {
                return Err(Failure::usage(format!(
                    "the server listens on a Unix socket ({socket}), which {} on another machine can't reach",
                    agent.name
                ))
                .with_remedy(
                    "name a server by an address that every machine reaches: host=ADDRESS",
                ));
            }
            match agent.ask(&Ask::Reach(server), &fleet.stop, None) {
                Ok(Answer::Server(found)) => {
                    if let Some(other) = other_than(wanted, &found.identity, conninfo) {
                        return Err(other.named(&agent.name));
                    }
                    agent.got_to(&hosts, &found);
                }
                Ok(_) => return Err(agent.senseless()),
                Err(trouble) => return Err(trouble.into_failure()),
            }
        }
        Ok(())
    }

    /// Has every machine make clients that run a plan on a server, connected to nothing yet.
    ///
    /// # Errors
    /// Naming the machine that can't.
    pub fn prepare(
        &self,
        plan: &Plan,
        conninfo: &Conninfo,
        outside: Option<&Outside>,
    ) -> Result<Several, Trouble> {
        let fleet = &mut *self.fleet();
        fleet.loads += 1;
        let load = fleet.loads;
        for agent in &fleet.agents {
            let preparation = Preparation {
                plan: plan.clone(),
                server: fleet.server(agent, conninfo, outside),
            };
            let preparation = Box::new(preparation);
            match agent.ask(&Ask::Prepare { load, preparation }, &fleet.stop, None)? {
                Answer::Done => {}
                _ => return Err(Trouble::Failure(agent.senseless())),
            }
        }
        let threads = plan.points.iter().map(|point| point.threads).max();
        let hosts = hosts(conninfo);
        let round_trips = fleet.agents.iter().map(|agent| agent.round_trip(&hosts));
        let round_trips = round_trips.collect();
        Ok(Several::new(
            self.clone(),
            load,
            (threads.unwrap_or(1), plan.workload.own_clients()),
            round_trips,
        ))
    }

    pub(super) fn fleet(&self) -> MutexGuard<'_, Fleet> {
        self.fleet.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// In what a machine's session is not as it has to be.
struct Other {
    what: String,
    remedy: &'static str,
}

impl Other {
    fn named(self, machine: &str) -> Failure {
        Failure::usage(format!("{machine} {}", self.what)).with_remedy(self.remedy)
    }
}

fn other_than(wanted: &Identity, found: &Identity, conninfo: &Conninfo) -> Option<Other> {
    if found.started != wanted.started {
        return Some(Other {
            what: format!(
                "finds another server under {} than this machine does",
                conninfo.redacted()
            ),
            remedy: "name the server by an address that means the same everywhere",
        });
    }
    if found.database != wanted.database {
        return Some(Other {
            what: format!(
                "comes to the database {} of the server, and this machine to {}",
                pgassay_text::line(&found.database),
                pgassay_text::line(&wanted.database)
            ),
            remedy: "leave dbname out of the settings of the load's machines",
        });
    }
    (wanted.read_only && !found.read_only).then(|| Other {
        what: "can write where the load is to be read-only".to_owned(),
        remedy: "leave options out of the settings of the load's machines, or add \
                 -c default_transaction_read_only=on",
    })
}

/// The servers of a connection string, by which it is known.
fn hosts(conninfo: &Conninfo) -> String {
    let hosts: Vec<String> = conninfo.hosts.iter().map(ToString::to_string).collect();
    hosts.join(",")
}

impl Fleet {
    /// Whether an agent goes to servers from outside.
    fn is_stranger(&self, agent: &Agent) -> bool {
        agent.by_address || agent.machine.boot != self.server.boot
    }

    /// How an agent reaches a server.
    fn server(&self, agent: &Agent, conninfo: &Conninfo, outside: Option<&Outside>) -> Server {
        let own = conninfo.without_secrets();
        match outside.filter(|_| self.is_stranger(agent)) {
            None => Server {
                conninfo: own,
                password: None,
            },
            Some(outside) => Server {
                conninfo: format!("{own} {}", outside.settings),
                password: outside.password.clone(),
            },
        }
    }

    /// Asks for the time of each machine of which it is not known well any more.
    pub fn look_at_clocks(&mut self) -> Result<(), Trouble> {
        for agent in &mut self.agents {
            let known = agent.offset.as_ref();
            if known.is_some_and(|offset| !offset.is_stale(clock::now())) {
                continue;
            }
            let mut trips = Vec::with_capacity(ROUND_TRIPS);
            for _ in 0..ROUND_TRIPS {
                let asked = clock::now();
                let answer = agent.ask(&Ask::Time, &self.stop, Some(PROMPT))?;
                let answered = clock::now();
                let Answer::Time(theirs) = answer else {
                    return Err(Trouble::Failure(agent.senseless()));
                };
                trips.push(RoundTrip {
                    asked,
                    theirs,
                    answered,
                });
            }
            agent.offset = Offset::best(&trips);
        }
        Ok(())
    }

    /// Whether an agent shares the CPUs that are looked at beside the load.
    pub fn is_beside_server(&self, agent: &Agent) -> bool {
        agent.machine.boot == self.server.boot
    }
}

impl Agent {
    fn got_to(&mut self, hosts: &str, found: &Found) {
        self.round_trips.retain(|(known, _)| known != hosts);
        self.round_trips
            .push((hosts.to_owned(), found.round_trip_ns));
    }

    fn round_trip(&self, hosts: &str) -> Option<u64> {
        let known = self.round_trips.iter().find(|(known, _)| known == hosts)?;
        Some(known.1)
    }

    /// Asks, and waits for the answer: at most so long, else until a stop is asked for.
    pub fn ask(
        &self,
        ask: &Ask,
        stop: &Stop,
        patience: Option<Duration>,
    ) -> Result<Answer, Trouble> {
        self.say(ask)?;
        self.answer(stop, patience)
    }

    /// Sends what is answered later, or not at all.
    pub fn say(&self, ask: &Ask) -> Result<(), Trouble> {
        self.channel.send(ask).map_err(|lost| self.is_lost(&lost))
    }

    /// The answer to what was asked; parts of slices that were given up are passed over.
    pub fn answer(&self, stop: &Stop, patience: Option<Duration>) -> Result<Answer, Trouble> {
        self.answer_beside(std::slice::from_ref(self), stop, patience, &mut None)
    }

    /// The same where all of `asked` were asked the same: all are told of a stop at once, and have the same
    /// time for their last words, which ends when `last` says.
    pub fn answer_beside(
        &self,
        asked: &[Self],
        stop: &Stop,
        patience: Option<Duration>,
        last: &mut Option<Instant>,
    ) -> Result<Answer, Trouble> {
        let until = patience.map(|patience| Instant::now() + patience);
        loop {
            if stop.asked() && last.is_none() {
                *last = Some(Instant::now() + AFTER_STOP);
                for agent in asked {
                    // Whoever is lost is told of when its answer is waited for.
                    drop(agent.say(&Ask::Cancel));
                }
            }
            let (stopped, until) = (last.is_some(), last.or(until));
            match self.channel.recv(ATTENTION) {
                Ok(Some(Answer::Passed(_) | Answer::Slice(_))) => {}
                Ok(Some(Answer::Refused(_))) if stopped => return Err(Trouble::Interrupted),
                Ok(Some(Answer::Refused(refusal))) => return Err(self.refused(&refusal)),
                Ok(Some(answer)) => return Ok(answer),
                Ok(None) if until.is_some_and(|until| Instant::now() >= until) => {
                    return Err(match stopped {
                        true => Trouble::Interrupted,
                        false => Trouble::lost(&self.name, "it does not answer"),
                    });
                }
                Ok(None) => {}
                Err(lost) => return Err(self.is_lost(&lost)),
            }
        }
    }

    pub fn is_lost(&self, lost: &Lost) -> Trouble {
        Trouble::lost(&self.name, lost)
    }

    pub fn refused(&self, refusal: &super::Refusal) -> Trouble {
        Trouble::refused(&self.name, refusal)
    }

    /// It answered what was not asked.
    pub fn senseless(&self) -> Failure {
        Failure::target(format!("{} answered what was not asked", self.name))
            .with_remedy("use the same version of pgassay on all machines")
    }
}

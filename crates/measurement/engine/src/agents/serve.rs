//! The agent's side: clients that run here, and a near side that says when.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use pgassay_far::{Channel, Lost};
use pgassay_load::{Edge, SliceResult, SliceSpec};
use pgassay_sys::stop::Stop;

use super::bounds::{self, MOST_BYTES, MOST_CLIENTS, MOST_LOADS, MOST_MEMORY};
use super::clock;
use super::message::{
    Answer, Ask, Found, Given, Machine, Preparation, Refusal, Server, SshSession,
};

/// How long it may take until a stop from outside is seen.
const ATTENTION: Duration = Duration::from_millis(100);
/// How long a wait for the begin of a slice may go without looking whether it is cancelled.
const NAP: Duration = Duration::from_millis(20);

/// Bytes of memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    /// As long as there are the clients.
    pub kept: u64,
    /// While a slice runs, and no other does.
    pub at_work: u64,
}

/// Clients of one server.
pub trait Clients: Send {
    /// Opens or closes connections until there are so many.
    ///
    /// # Errors
    /// Why there are fewer.
    fn resize(&mut self, clients: u32) -> Result<(), Refusal>;

    /// About how much memory so many of them need.
    fn memory(&self, clients: u32) -> Memory;

    /// Runs a slice with all of them.
    fn run_slice(&mut self, spec: &SliceSpec, at_edge: &mut dyn FnMut(Edge)) -> SliceResult;
}

/// Who makes clients: the load engine's, or in a simulation some that only answer.
pub trait Maker {
    /// Which server is found there.
    ///
    /// # Errors
    /// Why it can't be reached.
    fn reach(&self, server: &Server) -> Result<Found, Refusal>;

    /// Clients that run a plan, connected to nothing yet. They end a slice early when `cancelled` is set.
    ///
    /// # Errors
    /// What is wrong with the plan.
    fn clients(
        &self,
        preparation: &Preparation,
        cancelled: &Arc<AtomicBool>,
    ) -> Result<Box<dyn Clients>, Refusal>;
}

/// Gives load as the near side on this channel says, until the link is lost or `stop` is asked for.
/// Then whatever runs is ended and all connections are closed.
///
/// # Errors
/// Why the link was lost; closed by the near side, too.
pub fn serve_with(channel: &Channel, maker: &dyn Maker, stop: &Stop) -> Result<(), Lost> {
    let mut agent = Agent {
        channel,
        maker,
        cancelled: Arc::default(),
        loads: BTreeMap::new(),
        taken: BTreeMap::new(),
        running: None,
    };
    let ended = loop {
        if stop.asked() {
            break Ok(());
        }
        match channel.recv(ATTENTION) {
            Ok(None) => {}
            Ok(Some(ask)) => {
                if let Err(lost) = agent.hear(ask) {
                    break Err(lost);
                }
            }
            Err(lost) => break Err(lost),
        }
    };
    agent.cancelled.store(true, Ordering::Relaxed);
    agent.rejoin();
    ended
}

struct Agent<'a> {
    channel: &'a Channel,
    maker: &'a dyn Maker,
    cancelled: Arc<AtomicBool>,
    loads: BTreeMap<u32, Box<dyn Clients>>,
    /// What each of them takes.
    taken: BTreeMap<u32, Taken>,
    running: Option<Running>,
}

/// Clients that are at work, in a thread that gives them back.
struct Running {
    load: u32,
    /// They have ended, and what they answer is sent or about to be.
    answers: Arc<AtomicBool>,
    /// Nobody wants them when they are given back.
    is_forgotten: bool,
    thread: JoinHandle<Box<dyn Clients>>,
}

/// What a load takes of this machine.
struct Taken {
    bytes: usize,
    clients: u32,
    memory: Memory,
}

impl Agent<'_> {
    /// Makes clients, where there is room for more. The ones of the same number, if any, are let go.
    fn prepare(&mut self, load: u32, preparation: &Preparation) -> Result<(), Refusal> {
        self.loads.remove(&load);
        self.taken.remove(&load);
        if self.taken.len() >= MOST_LOADS {
            return Err(bounds::too_much("one load more", MOST_LOADS, "loads"));
        }
        let bytes = bounds::of_preparation(preparation)?;
        let others: usize = self.taken.values().map(|taken| taken.bytes).sum();
        if bytes + others > MOST_BYTES {
            return Err(bounds::too_much("one plan more", MOST_BYTES, "bytes"));
        }
        let clients = self.maker.clients(preparation, &self.cancelled)?;
        self.loads.insert(load, clients);
        let taken = Taken {
            bytes,
            clients: 0,
            memory: Memory::default(),
        };
        self.taken.insert(load, taken);
        Ok(())
    }

    /// Notes that a load is to have so many clients, where there is room for them.
    fn make_room(&mut self, load: u32, clients: u32) -> Result<(), Refusal> {
        let own = self.loads.get(&load).ok_or_else(unknown)?;
        let memory = own.memory(clients);
        let others = self.taken.iter().filter(|(other, _)| **other != load);
        let (all, needed) = others.fold((clients, memory), |(all, needed), (_, taken)| {
            let needed = Memory {
                kept: needed.kept.saturating_add(taken.memory.kept),
                // Slices run one at a time.
                at_work: needed.at_work.max(taken.memory.at_work),
            };
            (all.saturating_add(taken.clients), needed)
        });
        if all > MOST_CLIENTS {
            let what = format!("a load of {clients} clients");
            return Err(bounds::too_much(&what, MOST_CLIENTS, "clients"));
        }
        if needed.kept.saturating_add(needed.at_work) > MOST_MEMORY {
            let what = format!("what {clients} clients need for its scripts");
            return Err(bounds::too_much(&what, MOST_MEMORY, "bytes"));
        }
        if let Some(taken) = self.taken.get_mut(&load) {
            (taken.clients, taken.memory) = (clients, memory);
        }
        Ok(())
    }

    fn hear(&mut self, ask: Ask) -> Result<(), Lost> {
        if let Ask::Cancel = ask {
            self.cancelled.store(true, Ordering::Relaxed);
            return Ok(());
        }
        let running = self.running.as_ref();
        if running.is_some_and(|running| running.answers.load(Ordering::Acquire)) {
            self.rejoin();
        }
        let answer = match ask {
            Ask::Machine => Answer::Machine(machine()),
            Ask::Time => Answer::Time(clock::now()),
            Ask::Address(of) => Answer::Address(own_address(of)),
            Ask::Forget { load } => {
                self.forget(load);
                return Ok(());
            }
            // To wait until it is free would be to hear nothing meanwhile, nor that it is to stop.
            _ if self.running.is_some() => Answer::Refused(Refusal::other(
                "it is at work, and was asked for something else meanwhile",
            )),
            Ask::Reach(server) => match self.maker.reach(&server) {
                Ok(found) => Answer::Server(found),
                Err(refusal) => Answer::Refused(refusal),
            },
            Ask::Prepare { load, preparation } => match self.prepare(load, &preparation) {
                Ok(()) => Answer::Done,
                Err(refusal) => Answer::Refused(refusal),
            },
            Ask::Resize { load, clients } => {
                let resize = move |own: &mut dyn Clients, _: &Channel, _: &AtomicBool| {
                    let resized = own.resize(clients);
                    resized.map_or_else(Answer::Refused, |()| Answer::Done)
                };
                let room = self.make_room(load, clients);
                match room.and_then(|()| self.start(load, resize)) {
                    Ok(()) => return Ok(()),
                    Err(refusal) => Answer::Refused(refusal),
                }
            }
            Ask::Slice { spec, .. } if !bounds::is_sound(&spec) => {
                Answer::Refused(Refusal::other("a slice that nobody measures was asked for"))
            }
            Ask::Slice {
                load,
                begin_ns,
                spec,
            } => {
                let slice = move |own: &mut dyn Clients, near: &Channel, cancelled: &AtomicBool| {
                    wait_until(begin_ns, cancelled);
                    Answer::Slice(Box::new(slice(own, &spec, near)))
                };
                match self.start(load, slice) {
                    Ok(()) => return Ok(()),
                    Err(refusal) => Answer::Refused(refusal),
                }
            }
            Ask::Cancel => return Ok(()),
        };
        self.channel.send(&answer)
    }

    /// Has clients do something that takes its time, while the near side can cancel it; the answer is sent
    /// when it is done.
    fn start(
        &mut self,
        load: u32,
        what: impl FnOnce(&mut dyn Clients, &Channel, &AtomicBool) -> Answer + Send + 'static,
    ) -> Result<(), Refusal> {
        let mut clients = self.loads.remove(&load).ok_or_else(unknown)?;
        self.cancelled.store(false, Ordering::Relaxed);
        let channel = self.channel.clone();
        let cancelled = Arc::clone(&self.cancelled);
        let answers = Arc::new(AtomicBool::new(false));
        let about_to = Arc::clone(&answers);
        let run = move || {
            let answer = what(clients.as_mut(), &channel, &cancelled);
            about_to.store(true, Ordering::Release);
            // Where it can't be sent the link is lost, which is seen where asks are received.
            drop(channel.send(&answer));
            clients
        };
        let thread = thread::Builder::new().name("agent-load".to_owned());
        let thread = thread.spawn(run).map_err(Refusal::other)?;
        self.running = Some(Running {
            load,
            answers,
            is_forgotten: false,
            thread,
        });
        Ok(())
    }

    /// Lets clients go; those that are at work when they have ended, which is soon.
    fn forget(&mut self, load: u32) {
        match &mut self.running {
            Some(running) if running.load == load => {
                running.is_forgotten = true;
                self.cancelled.store(true, Ordering::Relaxed);
            }
            _ => {
                self.loads.remove(&load);
                self.taken.remove(&load);
            }
        }
    }

    /// Waits for what runs.
    fn rejoin(&mut self) {
        let Some(running) = self.running.take() else {
            return;
        };
        match running.thread.join() {
            Ok(clients) if !running.is_forgotten => {
                self.loads.insert(running.load, clients);
            }
            _ => {
                self.taken.remove(&running.load);
            }
        }
    }
}

/// Runs a slice, and tells of its parts as they pass.
fn slice(clients: &mut dyn Clients, spec: &SliceSpec, near: &Channel) -> Given {
    let mut begin_ns = 0;
    let result = clients.run_slice(spec, &mut |edge| match edge {
        Edge::Start => begin_ns = clock::now(),
        Edge::Passed(passed) => drop(near.send(&Answer::Passed(*passed))),
        Edge::Tick(_) | Edge::End => {}
    });
    Given { begin_ns, result }
}

fn unknown() -> Refusal {
    Refusal::other("there are no such clients: a fault of pgassay")
}

/// Sleeps until this machine's clock shows so much; comes back early where that is cancelled.
fn wait_until(at: u64, cancelled: &AtomicBool) {
    loop {
        let left = at.saturating_sub(clock::now());
        if left == 0 || cancelled.load(Ordering::Relaxed) {
            return;
        }
        thread::sleep(Duration::from_nanos(left).min(NAP));
    }
}

/// This machine.
pub(super) fn machine() -> Machine {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    Machine {
        boot: boot.trim().to_owned(),
        cpus: u32::try_from(cpus).unwrap_or(u32::MAX),
        session: SshSession::of_this(),
    }
}

/// The address of ours from which packets would go to another. None is sent.
fn own_address(to: SocketAddr) -> Option<IpAddr> {
    let any: SocketAddr = match to {
        SocketAddr::V4(_) => (std::net::Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (std::net::Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(to).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

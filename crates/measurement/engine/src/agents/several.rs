//! One server's clients on several machines.

use std::collections::VecDeque;
use std::fmt;
use std::thread;
use std::time::Duration;

use pgassay_far::Channel;
use pgassay_load::{Edge, Length, Passed, SliceResult, SliceSpec};
use pgassay_model::Failure;
use pgassay_model::machines::MachineRecord;

use super::clock;
use super::fleet::{Agents, Fleet};
use super::merge::{Part, merge};
use super::message::{Answer, Ask, Given, Refusal, RefusalKind};
use super::shares::{part, shares};
use crate::workload;

/// How far ahead a slice is announced, beside what the ways to the machines take.
const LEAD_NS: u64 = 5_000_000;
/// How much longer for each machine that it has to be told to.
const LEAD_EACH_NS: u64 = 300_000;
/// How often agents are listened to while a slice runs.
const LISTEN: Duration = Duration::from_millis(20);
/// How long results may take after the window and what clients wait for answers.
const PATIENCE_NS: u64 = 20_000_000_000;
/// By how much a window may be longer than it has been here, or begin elsewhere.
const OFF_NS: u64 = 60_000_000_000;
/// Answers of one machine that are taken in one go.
const IN_ONE_GO: usize = 64;
/// Parts of the window that one machine may be ahead of the others.
const AHEAD: usize = 3600;
/// The same after a slice was cancelled.
const AFTER_CANCEL_NS: u64 = 3_000_000_000;
/// What a lost machine asks of the user.
const AFTER_LOSS: &str =
    "see why it ended, and go on with --resume: trials that were finished are kept";

/// What keeps several machines from giving load.
#[derive(Debug)]
pub enum Trouble {
    /// There are no connections for so many clients.
    OutOfReach(String),
    /// Somebody asked for a stop.
    Interrupted,
    /// No machine has a client left.
    ServerDied(String),
    /// Anything else, with what to do.
    Failure(Failure),
}

impl Trouble {
    /// A machine is gone, or its clients are.
    pub(super) fn lost(name: &str, why: impl fmt::Display) -> Self {
        let lost = format!("the load machine {name} was lost: {why}");
        Self::Failure(Failure::target(lost).with_remedy(AFTER_LOSS))
    }

    pub(super) fn refused(name: &str, refusal: &Refusal) -> Self {
        let text = format!("{name}: {}", refusal.text);
        match refusal.kind {
            RefusalKind::TooMany => Self::OutOfReach(text),
            RefusalKind::Stopped => Self::Interrupted,
            RefusalKind::Pooler => Self::Failure(Failure::target(text).with_remedy(
                "have the load's machines connect to the server itself: its own host and port, not the pooler's",
            )),
            RefusalKind::Unreachable => Self::Failure(
                Failure::target(format!("{name} could not connect: {}", refusal.text)).with_remedy(
                    format!(
                        "let the server listen where {name} reaches it (listen_addresses), let it in \
                         (pg_hba.conf), and give it the password there (~/.pgpass, PGPASSWORD)"
                    ),
                ),
            ),
            RefusalKind::Other => Self::Failure(Failure::target(text)),
        }
    }

    /// The same for who knows of no slices.
    pub fn into_failure(self) -> Failure {
        match self {
            Self::OutOfReach(text) | Self::ServerDied(text) => Failure::target(text),
            Self::Interrupted => Failure::interrupted(),
            Self::Failure(failure) => failure,
        }
    }
}

/// Clients of one server, each on one of several machines.
pub struct Several {
    agents: Agents,
    load: u32,
    clients: u32,
    /// Threads of each machine, as far as it has clients.
    threads: u32,
    /// Clients with a script of their own, among all.
    own_clients: u32,
    /// What it takes each machine to ask the server and hear its answer, in nanoseconds, where that was measured.
    round_trips: Vec<Option<u64>>,
}

/// What has come from an agent in a slice.
#[derive(Default)]
struct Heard {
    passed: VecDeque<Passed>,
    given: Option<Box<Given>>,
}

impl Several {
    pub(super) fn new(
        agents: Agents,
        load: u32,
        (threads, own_clients): (u32, u32),
        round_trips: Vec<Option<u64>>,
    ) -> Self {
        Self {
            agents,
            load,
            clients: 0,
            threads,
            own_clients,
            round_trips,
        }
    }

    /// Opens or closes connections until there are so many clients in all.
    ///
    /// # Errors
    /// Naming the machine that has too few.
    pub fn resize(&mut self, clients: u32) -> Result<(), Trouble> {
        let fleet = &*self.agents.fleet();
        let shares = shares(clients, fleet.agents.len(), self.threads);
        for (agent, (_, own)) in fleet.agents.iter().zip(&shares) {
            agent.say(&Ask::Resize {
                load: self.load,
                clients: *own,
            })?;
        }
        self.clients = clients;
        let mut outcome = Ok(());
        let mut last = None;
        for agent in &fleet.agents {
            let answer = agent.answer_beside(&fleet.agents, &fleet.stop, None, &mut last);
            let answer = match answer {
                Ok(Answer::Done) => Ok(()),
                Ok(_) => Err(Trouble::Failure(agent.senseless())),
                Err(trouble) => Err(trouble),
            };
            // All answers are heard, the first trouble is told.
            outcome = outcome.and(answer);
        }
        outcome
    }

    /// Runs a slice on all machines. `at_edge` is called on this thread as the announced window begins and ends.
    ///
    /// # Errors
    /// Naming the machine that was lost; the others are told to end the slice.
    pub fn run_slice(
        &mut self,
        spec: &SliceSpec,
        at_edge: &mut dyn FnMut(Edge),
    ) -> Result<(SliceResult, Vec<MachineRecord>), Trouble> {
        let fleet = &mut *self.agents.fleet();
        fleet.look_at_clocks()?;
        let mut slice = Slice::announce(
            fleet,
            self.load,
            (self.clients, self.own_clients),
            self.threads,
            spec,
        )?;
        let outcome = slice.run(spec, at_edge);
        if !matches!(outcome, Ok(false)) {
            slice.cancel();
        }
        outcome?;
        let (result, mut machines) = slice.conclude(spec, at_edge)?;
        for machine in &mut machines {
            let place = fleet
                .agents
                .iter()
                .position(|agent| agent.name == machine.name);
            machine.round_trip_ns = place.and_then(|place| self.round_trips[place]);
        }
        Ok((result, machines))
    }
}

impl Drop for Several {
    fn drop(&mut self) {
        for agent in &self.agents.fleet().agents {
            // One that is lost has let its clients go.
            drop(agent.say(&Ask::Forget { load: self.load }));
        }
    }
}

/// A slice that was announced.
struct Slice<'f> {
    fleet: &'f Fleet,
    /// The agents that have clients in it, by their places.
    taking_part: Vec<usize>,
    heard: Vec<Heard>,
    /// Whether they were told to end it.
    cancelled: bool,
    /// When the load begins, on the clock here.
    begin: u64,
    /// Clients of all machines.
    clients: u32,
}

impl<'f> Slice<'f> {
    fn announce(
        fleet: &'f Fleet,
        load: u32,
        (clients, own_clients): (u32, u32),
        threads: u32,
        spec: &SliceSpec,
    ) -> Result<Self, Trouble> {
        let shares = shares(clients, fleet.agents.len(), threads);
        let taking_part: Vec<usize> = (0..shares.len()).filter(|n| shares[*n].1 > 0).collect();
        let now = clock::now();
        let offsets = fleet.agents.iter().filter_map(|agent| agent.offset);
        let farthest = offsets.map(|offset| offset.error(now)).max().unwrap_or(0);
        let lead = LEAD_NS + 8 * farthest + LEAD_EACH_NS * taking_part.len() as u64;
        let begin = now + lead;
        for place in &taking_part {
            let agent = &fleet.agents[*place];
            let (share, own) = shares[*place];
            agent.say(&Ask::Slice {
                load,
                begin_ns: agent.offset.map_or(begin, |offset| offset.theirs(begin)),
                spec: Box::new(SliceSpec {
                    share: Some(share),
                    schedule: part(spec.schedule, &share, own, own_clients),
                    ..*spec
                }),
            })?;
        }
        Ok(Self {
            fleet,
            heard: taking_part.iter().map(|_| Heard::default()).collect(),
            taking_part,
            cancelled: false,
            begin,
            clients,
        })
    }

    /// Follows the slice to its end; whether it was stopped.
    fn run(&mut self, spec: &SliceSpec, at_edge: &mut dyn FnMut(Edge)) -> Result<bool, Trouble> {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 4);
        let (start, end) = match spec.length {
            Length::Time(time) => {
                let start = self.begin + nanos(spec.warmup);
                (start, start + nanos(time))
            }
            Length::Transactions(_) => (self.begin, u64::MAX),
        };
        if self.wait_until(start, at_edge)? {
            return Ok(true);
        }
        at_edge(Edge::Start);
        if self.wait_until(end, at_edge)? {
            return Ok(true);
        }
        at_edge(Edge::End);
        let patience = end.saturating_add(PATIENCE_NS);
        if self.wait_until(patience, at_edge)? {
            return Ok(true);
        }
        match self.missing() {
            None => Ok(false),
            Some(name) => Err(Trouble::lost(name, "it sent no result")),
        }
    }

    /// Listens until a time, or until all results are there; whether a stop was asked for.
    fn wait_until(&mut self, at: u64, at_edge: &mut dyn FnMut(Edge)) -> Result<bool, Trouble> {
        loop {
            if self.fleet.stop.asked() {
                return Ok(true);
            }
            self.listen()?;
            while let Some(passed) = self.passed() {
                at_edge(Edge::Passed(Box::new(passed)));
            }
            let now = clock::now();
            if now >= at || self.missing().is_none() {
                return Ok(false);
            }
            let nap = Duration::from_nanos(at - now).min(LISTEN);
            match self.first_missing() {
                // Whose result comes wakes us; the others are listened to in the next round.
                Some(channel) if at - now > 2 * LISTEN.as_nanos() as u64 => {
                    self.hear_from(channel, nap)?;
                }
                _ => thread::sleep(nap),
            }
        }
    }

    /// Takes what has come from all.
    fn listen(&mut self) -> Result<(), Trouble> {
        for of in 0..self.taking_part.len() {
            for _ in 0..IN_ONE_GO {
                if self.heard[of].given.is_some() || !self.hear_from(of, Duration::ZERO)? {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Takes the next that comes from one of them; whether anything did.
    fn hear_from(&mut self, of: usize, patience: Duration) -> Result<bool, Trouble> {
        let agent = &self.fleet.agents[self.taking_part[of]];
        let channel: &Channel = &agent.channel;
        match channel.recv(patience) {
            Ok(None) => return Ok(false),
            Ok(Some(Answer::Passed(passed))) if self.heard[of].passed.len() < AHEAD => {
                self.heard[of].passed.push_back(passed);
            }
            Ok(Some(Answer::Slice(given))) if given.result.interrupted && !self.cancelled => {
                return Err(Trouble::lost(&agent.name, "it was stopped there"));
            }
            Ok(Some(Answer::Slice(given))) if self.is_possible(of, &given) => {
                self.heard[of].given = Some(given);
            }
            Ok(Some(Answer::Refused(refusal))) => return Err(agent.refused(&refusal)),
            Ok(Some(_)) => return Err(Trouble::Failure(agent.senseless())),
            Err(lost) => return Err(agent.is_lost(&lost)),
        }
        Ok(true)
    }

    /// Whether a machine can have measured what it says.
    fn is_possible(&self, of: usize, given: &Given) -> bool {
        let longest = clock::now()
            .saturating_sub(self.begin)
            .saturating_add(OFF_NS);
        let offset = self.fleet.agents[self.taking_part[of]].offset;
        let begin = offset.map_or(given.begin_ns, |offset| offset.ours(given.begin_ns));
        let began = self.begin.saturating_sub(OFF_NS)..=self.begin.saturating_add(longest);
        // A slice that was cancelled has no window.
        let begins = given.result.window_ns == 0 || began.contains(&begin);
        begins && given.result.clients <= self.clients && given.result.is_possible(longest)
    }

    /// The same part of the window of all, where all have told of it.
    fn passed(&mut self) -> Option<Passed> {
        if self.heard.iter().any(|heard| heard.passed.is_empty()) {
            return None;
        }
        let parts = self.heard.iter_mut();
        Some(together(parts.filter_map(|heard| heard.passed.pop_front())))
    }

    fn first_missing(&self) -> Option<usize> {
        self.heard.iter().position(|heard| heard.given.is_none())
    }

    /// The name of an agent whose result has not come.
    fn missing(&self) -> Option<&'f str> {
        let of = self.first_missing()?;
        Some(&self.fleet.agents[self.taking_part[of]].name)
    }

    /// Has all end the slice, and hears their last words of it, as far as they come.
    fn cancel(&mut self) {
        self.cancelled = true;
        let until = clock::now() + AFTER_CANCEL_NS;
        for place in &self.taking_part {
            drop(self.fleet.agents[*place].say(&Ask::Cancel));
        }
        for of in 0..self.taking_part.len() {
            while self.heard[of].given.is_none() && clock::now() < until {
                match self.hear_from(of, LISTEN) {
                    Ok(_) => {}
                    Err(_) => break,
                }
            }
        }
    }

    fn conclude(
        self,
        spec: &SliceSpec,
        at_edge: &mut dyn FnMut(Edge),
    ) -> Result<(SliceResult, Vec<MachineRecord>), Trouble> {
        let now = clock::now();
        let mut parts = Vec::with_capacity(self.heard.len());
        let rest = together(self.heard.iter().map(|heard| in_turn(&heard.passed)));
        for (place, heard) in self.taking_part.iter().zip(self.heard) {
            let agent = &self.fleet.agents[*place];
            let Some(given) = heard.given else {
                continue;
            };
            let offset = agent.offset;
            parts.push(Part {
                name: agent.name.clone(),
                begin_ns: offset.map_or(given.begin_ns, |offset| offset.ours(given.begin_ns)),
                clock_error_ns: offset.map_or(0, |offset| offset.error(now)),
                beside_server: self.fleet.is_beside_server(agent),
                result: given.result,
            });
        }
        if rest.covered_ns > 0 {
            at_edge(Edge::Passed(Box::new(rest)));
        }
        let died = |part: &&Part| part.result.died.is_some();
        let interrupted = self.fleet.stop.asked();
        if let Some(part) = parts.iter().find(died)
            && !interrupted
        {
            if let Some(why) = &part.result.script_error {
                return Err(Trouble::Failure(workload::stopped(why)));
            }
            let why = part.result.died.clone().unwrap_or_default();
            return Err(match parts.iter().all(|part| died(&part)) {
                true => Trouble::ServerDied(why),
                false => Trouble::lost(&part.name, format!("it has no client left: {why}")),
            });
        }
        let warmup = match spec.length {
            Length::Time(_) => spec.warmup,
            Length::Transactions(_) => Duration::ZERO,
        };
        let announced = self.begin + u64::try_from(warmup.as_nanos()).unwrap_or(0);
        let (mut result, machines) = merge(parts, announced, spec);
        result.interrupted |= interrupted;
        Ok((result, machines))
    }
}

/// What passed on several machines at the same time.
fn together(parts: impl Iterator<Item = Passed>) -> Passed {
    let mut sum = Passed::default();
    for part in parts {
        let covered = sum.covered_ns.max(part.covered_ns);
        sum.add(&part);
        sum.covered_ns = covered;
    }
    sum
}

/// What passed on one machine, one after the other.
fn in_turn(parts: &VecDeque<Passed>) -> Passed {
    let mut sum = Passed::default();
    parts.iter().for_each(|part| sum.add(part));
    sum
}

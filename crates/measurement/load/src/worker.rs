//! A load thread: its clients' sockets, timers and the loop that serves them.
//!
//! The loop asks the kernel for as little as it can: one recv and one send a statement, one
//! epoll_wait for as many answers as have come meanwhile, one reading of the clock a transaction.
//! Edge-triggered epoll makes that possible: an answer that has been read to its ReadyForQuery needs
//! no further recv to find out that there is no more. Clients whose answers came together send
//! together, by io_uring where the kernel allows it (`outbox`). Where plain sockets can be served by a
//! ring altogether (`streams`), one call a round does it all. Without a ring, a thread with a single client over
//! a plain socket needs no epoll either and blocks in recv.

mod outbox;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::BytesMut;
use rustix::event::epoll;
use rustix::fd::OwnedFd;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::time::{ClockId, clock_gettime};

use self::outbox::Outbox;
use super::client::{Client, Phase, Wait};
use super::encode::Run;
use super::live::{Handed, Live};
use super::options::{Entry, Event, Journal, Length, Options, Outcome, Serving, SliceSpec};
use super::replay::Replayer;
use super::result::{CONNECTION, Calls, SliceResult};
use super::schedule::Starts;
use super::tally::{Ended, Tally};
use super::wire::TxStatus;
use crate::script::{Program, Random, Value};
use pgassay_pgwire::Connector;
use pgassay_sys::streams::Streams;

/// How long a thread may sleep without looking at the stop flag.
pub(super) const ATTENTION: Duration = Duration::from_millis(40);
/// How many missed starts are counted at the end of a window; a rate far above what the server can
/// do would have hours of them.
const BEHIND_LIMIT: u64 = 10_000_000;
/// Room for replies, shared by a thread's clients.
const BUFFER: usize = 64 * 1024;
/// Events taken from epoll at once.
const EVENTS: usize = 256;
/// The timer's place among epoll's user data.
pub(super) const TIMER: u64 = u64::MAX;

/// What the threads of an engine share.
pub(super) struct Shared {
    /// Makes connections; it reads certificates once.
    pub connector: Connector,
    pub program: Program,
    /// Names of the prepared statements, by script and command; empty for other commands.
    pub names: Vec<Vec<Statement>>,
    pub options: Options,
    /// What is replayed, and where.
    pub replayer: Option<Replayer>,
    /// Where the engine's clock begins, on the system's monotonic clock.
    pub epoch: u64,
}

/// A statement's name in the server, its place among a client's prepared statements, and the
/// messages that run it.
#[derive(Clone, Debug, Default)]
pub(super) struct Statement {
    pub name: String,
    pub index: usize,
    pub run: Run,
}

impl Shared {
    /// Nanoseconds on the engine's clock.
    pub fn now(&self) -> u64 {
        monotonic() - self.epoch
    }
}

/// The system's monotonic clock in nanoseconds: it is read once a transaction, and `Instant` would
/// go by way of seconds and 128 bits.
pub(super) fn monotonic() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// What the coordinating thread tells the others during a slice. Times are on the engine's clock.
pub(super) struct Control {
    /// When the slice began.
    pub begin: u64,
    /// When the window began; `u64::MAX` before.
    pub start: AtomicU64,
    /// When it ended; `u64::MAX` before.
    pub end: AtomicU64,
    /// When it will end, for sleeps not to outlast it.
    pub planned_end: u64,
    /// Set to make the threads leave at once.
    pub stop: Arc<AtomicBool>,
}

/// A load thread during a slice.
pub(super) struct Worker<'a> {
    pub shared: &'a Shared,
    pub control: &'a Control,
    pub live: &'a Live,
    pub clients: &'a mut [Client],
    pub spec: SliceSpec,
    pub starts: Option<Starts>,
    /// When the window is to begin, until what was due before and has not begun is dropped.
    pub(super) drops_before: Option<u64>,
    pub choose: Random,
    pub tally: Tally,
    pub(super) journal: Option<Box<dyn Journal>>,
    /// What the client being driven sends.
    pub out: BytesMut,
    /// Room for a statement's text.
    pub text: Vec<u8>,
    /// Room for an expression's operands.
    pub stack: Vec<Value>,
    pub(super) timers: BinaryHeap<Reverse<(u64, u32)>>,
    /// The clock, where it has been read since the last event.
    pub(super) now: Option<u64>,
    /// Clients that are neither parked nor gone.
    pub(super) active: usize,
    pub(super) calls: Calls,
    pub(super) epoll: Option<OwnedFd>,
    /// What is sent together, while events are handled.
    pub(super) outbox: Option<Outbox>,
    /// The ring that serves the sockets in place of epoll.
    pub(super) streams: Option<Streams>,
    pub(super) timer: Option<OwnedFd>,
    pub(super) timer_at: u64,
    pub(super) buffer: Vec<u8>,
}

/// What a worker needs besides its clients.
pub(super) struct Assignment<'a> {
    pub shared: &'a Shared,
    pub control: &'a Control,
    pub live: &'a Live,
    pub spec: SliceSpec,
    pub starts: Option<Starts>,
    pub choose: Random,
    pub journal: Option<Box<dyn Journal>>,
    /// Where its intervals go as they end.
    pub handed: Option<Handed>,
}

impl<'a> Worker<'a> {
    pub fn new(assignment: Assignment<'a>, clients: &'a mut [Client]) -> Self {
        let Assignment {
            shared,
            control,
            live,
            spec,
            starts,
            choose,
            journal,
            handed,
        } = assignment;
        let options = &shared.options;
        let scripts: Vec<usize> = shared
            .program
            .scripts()
            .iter()
            .map(|s| s.commands.len())
            .collect();
        let nanos = |d: Duration| d.as_nanos() as u64;
        let mut tally = Tally::new(
            &scripts,
            options.per_statement,
            starts.is_some() || shared.replayer.as_ref().is_some_and(Replayer::is_paced),
            options.latency_limit.map(nanos),
            spec.interval.map(|d| nanos(d).max(1)),
            spec.keep,
            handed,
        );
        tally.own_clients.clone_from(&options.own_clients);
        // The backlog of the warm-up is no part of the window.
        let drops_before = match spec.length {
            Length::Time(_) if !spec.warmup.is_zero() => Some(control.begin + nanos(spec.warmup)),
            _ => None,
        };
        Worker {
            shared,
            control,
            live,
            clients,
            spec,
            starts,
            drops_before,
            choose,
            tally,
            journal,
            out: BytesMut::with_capacity(4096),
            text: Vec::new(),
            stack: Vec::new(),
            timers: BinaryHeap::new(),
            now: None,
            active: 0,
            calls: Calls::default(),
            epoll: None,
            outbox: None,
            streams: None,
            timer: None,
            timer_at: 0,
            buffer: vec![0; BUFFER],
        }
    }

    /// Serves the clients until the slice is over.
    pub fn run(mut self) -> SliceResult {
        let outcome = match self.ring() {
            Some(streams) => self.run_ring(streams),
            None if self.may_block() => self.run_blocking(),
            None => self.run_epoll(),
        };
        if let Err(error) = outcome {
            // Without that nobody can be served.
            let reason = format!("the load thread can't wait for its sockets: {error}");
            for i in 0..self.clients.len() {
                self.lose(i, &reason);
            }
        }
        let end = self.control.end.load(Ordering::Relaxed);
        let end = if end == u64::MAX {
            self.shared.now()
        } else {
            end
        };
        self.tally.close(self.calls);
        self.count_behind(end);
        for client in self.clients.iter() {
            if matches!(
                client.phase,
                Phase::Waiting(_) | Phase::Sleeping | Phase::Pausing
            ) {
                self.tally.result.unfinished += 1;
            }
        }
        let clients = self.clients.len() as u32;
        self.tally.into_result(clients)
    }

    fn may_block(&self) -> bool {
        let [client] = &*self.clients else {
            return false;
        };
        client.transport.as_ref().is_some_and(|t| !t.is_tls()) && !self.shared.options.reconnect
    }

    /// The clock. It is read at most once for each event.
    pub fn now(&mut self) -> u64 {
        if let Some(now) = self.now {
            return now;
        }
        let now = self.shared.now();
        self.now = Some(now);
        if !self.tally.open && !self.tally.closed {
            let start = self.control.start.load(Ordering::Relaxed);
            if now >= start {
                self.tally.open(start, self.calls);
            }
        }
        if !self.tally.closed && now >= self.control.end.load(Ordering::Relaxed) {
            self.tally.close(self.calls);
        }
        now
    }

    /// Makes the next `now` read the clock: time has passed.
    pub fn forget_now(&mut self) {
        self.now = None;
    }

    /// Whether no transaction is to begin any more.
    pub fn is_over(&self) -> bool {
        self.tally.closed || self.control.stop.load(Ordering::Relaxed)
    }

    /// Whether this client has done its share.
    pub fn has_done_its_share(&self, i: usize) -> bool {
        matches!(self.spec.length, Length::Transactions(n) if self.clients[i].done >= n)
    }

    pub(super) fn begin(&mut self) {
        for i in 0..self.clients.len() {
            let client = &mut self.clients[i];
            if !client.is_usable(self.shared.options.reconnect) {
                continue;
            }
            self.active += 1;
            client.done = 0;
            if let Some(replayer) = &self.shared.replayer {
                replayer.seek(&mut client.place, client.id);
            }
            let leftovers = client.wire.expected() > 0;
            client.phase = if leftovers {
                Phase::Waiting(Wait::Leftovers)
            } else {
                Phase::Next
            };
            if !leftovers && client.status != TxStatus::Idle {
                self.rollback(i, false);
            }
            let arrived = std::mem::take(&mut self.clients[i].arrived);
            if arrived.is_empty() {
                self.drive(i);
            } else {
                self.take_in(i, &arrived);
            }
            self.send(i);
        }
    }

    fn run_blocking(&mut self) -> io::Result<()> {
        if let Some(transport) = &self.clients[0].transport {
            rustix::io::ioctl_fionbio(transport.as_fd(), false)?;
            // A signal's flag is looked at between two time-outs.
            set_socket_timeout(transport.as_fd(), Timeout::Recv, Some(ATTENTION))?;
            set_socket_timeout(transport.as_fd(), Timeout::Send, Some(ATTENTION))?;
        }
        self.begin();
        while self.active > 0 && !self.must_leave() {
            self.now = None;
            match self.clients[0].phase {
                Phase::Waiting(_) => {
                    if !self.clients[0].unsent.is_empty() {
                        self.send(0);
                    }
                    self.readable(0, false);
                }
                _ => {
                    let now = self.now();
                    let wake = self.clients[0].wake_at;
                    if wake > now {
                        let left = Duration::from_nanos(wake - now).min(ATTENTION);
                        self.calls.wait += 1;
                        std::thread::sleep(left);
                    } else {
                        self.timers.clear();
                        self.wake(0);
                    }
                    self.now = None;
                }
            }
            // Without an event the edges of the window still have to be seen.
            self.now();
        }
        if let Some(transport) = &self.clients[0].transport {
            rustix::io::ioctl_fionbio(transport.as_fd(), true)?;
        }
        Ok(())
    }

    fn run_epoll(&mut self) -> io::Result<()> {
        self.epoll = Some(epoll::create(epoll::CreateFlags::CLOEXEC)?);
        for i in 0..self.clients.len() {
            self.watch(i)?;
        }
        let mut outbox = Outbox::new(self.shared.options.serving != Serving::Calls);
        self.begin();
        let mut events: Vec<epoll::Event> = Vec::with_capacity(EVENTS);
        while self.active > 0 && !self.must_leave() {
            self.now = None;
            let wait = self.arm_timer()?;
            self.calls.wait += 1;
            events.clear();
            let Some(epoll) = &self.epoll else { break };
            match epoll::wait(
                epoll,
                rustix::buffer::spare_capacity(&mut events),
                Some(&wait),
            ) {
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            // A single answer's successor needs no company.
            if events.len() > 1 {
                self.outbox = outbox.take();
            }
            for event in &events {
                let place = event.data.u64();
                if place == TIMER {
                    continue; // the timers below are due
                }
                self.now = None;
                let i = place as usize;
                let flags = event.flags;
                if flags.contains(epoll::EventFlags::OUT) {
                    self.send(i);
                }
                let ended = flags.intersects(
                    epoll::EventFlags::RDHUP | epoll::EventFlags::HUP | epoll::EventFlags::ERR,
                );
                if ended || flags.contains(epoll::EventFlags::IN) {
                    self.readable(i, ended);
                }
            }
            if self.outbox.is_some() {
                self.flush();
                outbox = self.outbox.take();
            }
            self.fire_timers();
        }
        self.epoll = None;
        self.timer = None;
        Ok(())
    }

    /// Whether to leave what is under way: on a stop, or when the time for answers is up.
    pub(super) fn must_leave(&mut self) -> bool {
        if self.control.stop.load(Ordering::Relaxed) {
            return true;
        }
        if !self.tally.closed {
            return false;
        }
        let end = self.control.end.load(Ordering::Relaxed);
        let until = end.saturating_add(self.shared.options.drain.as_nanos() as u64);
        self.now() > until || self.only_pauses_until(until)
    }

    /// The client's connection is gone, and with it the client.
    pub fn lose(&mut self, i: usize, reason: &str) {
        if self.clients[i].phase == Phase::Gone {
            return;
        }
        if matches!(
            self.clients[i].phase,
            Phase::Waiting(_) | Phase::Command | Phase::Sleeping | Phase::Pausing
        ) {
            self.count_failure(i, CONNECTION, || reason.to_owned());
        }
        self.remove(i, reason);
    }

    /// Takes a client whose connection is of no use any more out of the slice and of those that follow.
    pub fn remove(&mut self, i: usize, reason: &str) {
        self.take_out(i, reason, false);
    }

    /// Takes a client whose script can't go on out of the slice and of those that follow.
    pub fn stop_in_script(&mut self, i: usize, reason: &str) {
        self.take_out(i, reason, true);
    }

    fn take_out(&mut self, i: usize, reason: &str, in_script: bool) {
        let at = self.now().saturating_sub(self.control.begin);
        let client = &mut self.clients[i];
        if !matches!(client.phase, Phase::Gone | Phase::Parked) {
            self.active -= 1;
        }
        client.phase = Phase::Gone;
        if let Some(streams) = &mut self.streams {
            // Where it fails, the next wait does.
            let _ = streams.cancel(i as u32);
        }
        client.detach();
        let id = client.id;
        if let Some(listener) = &self.shared.options.listener {
            listener(Event::Stopped { client: id, reason });
        }
        self.tally.lose(id, at, reason.to_owned(), in_script);
    }

    /// The client has no more to do in this slice.
    pub fn park(&mut self, i: usize) {
        self.clients[i].phase = Phase::Parked;
        self.active -= 1;
    }

    /// Counts a transaction that ended well.
    pub fn count_success(&mut self, i: usize) {
        let at = self.now();
        let ended = self.ended(i, at);
        self.tally.success(&ended);
        self.enter(i, &ended, Outcome::Done);
        if self.spec.tick.is_none() {
            return; // nobody looks while the slice runs
        }
        let latency = at.saturating_sub(ended.intended) as f64;
        Live::bump(&self.live.transactions, 1);
        Live::bump_sum(&self.live.latency, latency);
        Live::bump_sum(&self.live.latency_squares, latency * latency);
        if self.is_paced() {
            let lag = ended.started.saturating_sub(ended.intended) as f64;
            Live::bump_sum(&self.live.lag, lag);
        }
        self.count_live_retries(&ended);
    }

    fn count_live_retries(&self, ended: &Ended) {
        if ended.retries > 0 {
            Live::bump(&self.live.retries, u64::from(ended.retries));
            Live::bump(&self.live.retried, 1);
        }
    }

    /// Counts a transaction that failed.
    pub fn count_failure(&mut self, i: usize, code: &str, example: impl FnOnce() -> String) {
        let at = self.now();
        let ended = self.ended(i, at);
        self.tally.failure(&ended, code, example);
        self.enter(i, &ended, Outcome::Failed(code));
        Live::bump(&self.live.failures, 1);
        self.count_live_retries(&ended);
    }

    /// Counts a start that was left out.
    pub fn count_skip(&mut self, i: usize, intended: u64) {
        let at = self.now();
        let script = self.clients[i].script;
        self.tally.skip(script);
        let ended = Ended {
            intended,
            ..self.ended(i, at)
        };
        self.enter(i, &ended, Outcome::Skipped);
        Live::bump(&self.live.skipped, 1);
    }

    /// Tells the journal.
    fn enter(&mut self, i: usize, ended: &Ended, outcome: Outcome<'_>) {
        let Some(journal) = &mut self.journal else {
            return;
        };
        journal.ended(&Entry {
            client: self.clients[i].id,
            number: self.clients[i].done,
            script: ended.script,
            outcome,
            at_ns: ended.at.saturating_sub(self.control.begin),
            latency_ns: ended.at.saturating_sub(ended.intended),
            lag_ns: ended.started.saturating_sub(ended.intended),
            retries: ended.retries,
        });
    }

    /// How the client's transaction ended, at `at`.
    pub fn ended(&self, i: usize, at: u64) -> Ended {
        let client = &self.clients[i];
        Ended {
            script: client.script,
            intended: client.intended,
            started: client.started,
            at,
            retries: client.tries.saturating_sub(1),
            first: client.fresh,
        }
    }

    /// Counts the starts that were meant to lie before the window's end and have not begun.
    /// Leaves out the starts of the warm-up that have not begun at its end.
    pub(super) fn drop_backlog(&mut self, now: u64) {
        if let (Some(starts), Some(begin)) = (&mut self.starts, self.drops_before)
            && now >= begin
        {
            starts.skip_to(begin);
            self.drops_before = None;
        }
    }

    fn count_behind(&mut self, end: u64) {
        if self.control.start.load(Ordering::Relaxed) == u64::MAX {
            return;
        }
        let waiting = self
            .clients
            .iter()
            .filter(|c| c.role.only.is_none())
            .filter(|c| matches!(c.phase, Phase::Scheduled | Phase::Begin) && c.intended < end)
            .count() as u64;
        // None is to begin after the planned end, and the window's edge may come late.
        let missed = self.missed(end.min(self.control.planned_end));
        self.drop_backlog(end);
        let Some(starts) = &mut self.starts else {
            if self.is_paced() {
                self.tally.result.behind += waiting + missed;
            }
            return;
        };
        let mut behind = waiting;
        if !matches!(self.spec.length, Length::Transactions(_)) {
            // The start that a client drew and gave back when it was parked is among `missed`.
            behind += self.tally.result.behind;
            while behind < BEHIND_LIMIT && starts.next() < end {
                behind += 1;
            }
        }
        self.tally.result.behind = behind;
    }
}

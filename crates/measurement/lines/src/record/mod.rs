//! A session's process, stepped through what its client has it do.
//!
//! The session behaves as it does unstepped, but for its speed. Two things would not: a client that
//! answers while the server is being stepped is always too quick for it, so each read of the socket
//! that was not waited for is told that nothing has come, and the server goes the way on which it
//! waits; and a second would pass in each transaction, so time passes by the instructions executed,
//! and timers ring when the session is let go.

mod bound;
mod calls;
mod clock;
#[cfg(any(target_arch = "aarch64", target_arch = "powerpc64"))]
mod exclusive;
mod refusal;

use std::collections::HashMap;
use std::fs;
use std::io;
use std::ops::Range;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pgassay_model::Failure;
use pgassay_sys::affinity::OneCpu;
use pgassay_sys::registers::Registers;
use pgassay_sys::step::{Stepped, Stopped};

use self::bound::Transaction;
pub use self::bound::{Bound, Limit};
use self::calls::{Use, changes_map, is_read_of_socket, is_wait, sleeps};
use self::clock::{Clock, Vdso};
#[cfg(any(target_arch = "aarch64", target_arch = "powerpc64"))]
use self::exclusive::{Done, Exclusives};
use self::refusal::{refusal, refuse_emulated};
#[cfg(any(target_arch = "aarch64", target_arch = "powerpc64"))]
use crate::code::Exclusive;
use crate::code::{Decode, Effect, Flow, LONGEST, Operand};
use crate::map::Map;
use crate::recording::{Access, Kind, Recording, Site};

/// Callers kept with an access.
const CALLERS: usize = 8;
/// A session that waits so long after its client has ended has nothing left to do.
const SETTLED: Duration = Duration::from_millis(20);
/// Accesses that a recording may hold: some 3 GB.
const MOST: usize = 100_000_000;

/// Where the session stands to its client.
#[derive(Debug, Default)]
pub struct Signals {
    /// Set here once the session waits for its client, under our eyes.
    pub ready: AtomicBool,
    /// Set by whoever drives the client, once it has all its answers.
    pub done: AtomicBool,
}

/// Seizes the process `pid`, a session's, and records it from the first wait for its client to the
/// one after the last answer, or to the end of the last transaction within `bound`. `stop` ends it early.
///
/// # Errors
/// Where the process can't be stepped, with the remedy; where it ended; where it was stopped.
pub fn record(
    pid: u32,
    signals: &Signals,
    bound: Option<&Bound>,
    stop: &AtomicBool,
) -> Result<Recording, Failure> {
    refuse_emulated(pid)?;
    // For speed alone: where it is refused, the session is stepped all the same.
    let _near = OneCpu::with(pid).ok().flatten();
    let stepped = Stepped::seize(pid).map_err(|error| refusal(pid, &error))?;
    let mut recorder = Recorder::new(pid, stepped, bound)?;
    let recorded = recorder.run(signals, stop);
    let Recorder {
        stepped,
        recording,
        transaction,
        ..
    } = recorder;
    stepped
        .let_go()
        .map_err(|error| Failure::target(format!("the session's process {pid}: {error}")))?;
    recorded?;
    Ok(match transaction {
        Some(transaction) => transaction.cut(recording),
        None => recording,
    })
}

struct Recorder<'a> {
    pid: u32,
    stepped: Stepped,
    map: Map,
    /// Shared mappings, and where each is recorded to begin.
    shared: Vec<(Range<u64>, u64)>,
    decode: Decode,
    effects: HashMap<u64, Rc<Effect<Operand>>>,
    #[cfg(any(target_arch = "aarch64", target_arch = "powerpc64"))]
    exclusives: Exclusives,
    clock: Clock,
    /// Stack pointers and return addresses of the calls that were seen.
    calls: Vec<(u64, u64)>,
    sites: HashMap<Site, u32>,
    recording: Recording,
    /// The one that the session is in, where stepping it is bounded.
    transaction: Option<Transaction<'a>>,
    /// Whether the last system call waited for the client.
    waited: bool,
    counting: bool,
}

impl<'a> Recorder<'a> {
    fn new(pid: u32, mut stepped: Stepped, bound: Option<&'a Bound>) -> Result<Self, Failure> {
        let registers = stepped.registers().map_err(|error| refusal(pid, &error))?;
        if !registers.is_64_bit() {
            return Err(Failure::target(format!(
                "process {pid} executes 32-bit code, which is not decoded"
            )));
        }
        let map = read_map(pid)?;
        let vdso = Vdso::read(pid, &map)?;
        #[cfg(any(target_arch = "x86_64", target_arch = "powerpc64"))]
        stepped.guard(vdso.ret, vdso.syscall).map_err(|error| {
            Failure::target(format!(
                "process {pid} can't be protected against an end of pgassay: {error}"
            ))
        })?;
        // What came meanwhile, such as pg_terminate_backend, is not to wait for the last transaction.
        stepped.send_held(ALARM);
        let mut recorder = Self {
            pid,
            stepped,
            map,
            shared: Vec::new(),
            decode: Decode::default(),
            effects: HashMap::new(),
            #[cfg(any(target_arch = "aarch64", target_arch = "powerpc64"))]
            exclusives: Exclusives::default(),
            clock: Clock::new(vdso),
            calls: Vec::new(),
            sites: HashMap::new(),
            recording: Recording::default(),
            transaction: bound.map(Transaction::new),
            waited: false,
            counting: false,
        };
        recorder.look_at_map();
        Ok(recorder)
    }

    fn look_at_map(&mut self) {
        self.shared = Vec::new();
        for mapping in self.map.shared() {
            let start = mapping.canonical();
            if start != mapping.range.start {
                let segments = &mut self.recording.segments;
                segments.insert(start, mapping.path.clone());
            }
            self.shared.push((mapping.range, start));
        }
    }

    fn failed(&self, error: &io::Error) -> Failure {
        if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) {
            return self.ended();
        }
        Failure::target(format!("stepping process {}: {error}", self.pid))
    }

    fn ended(&self) -> Failure {
        Failure::target(format!(
            "the session's process {} ended while it was stepped",
            self.pid
        ))
        .with_remedy("look into the server's log for why")
    }

    fn run(&mut self, signals: &Signals, stop: &AtomicBool) -> Result<(), Failure> {
        let mut began = Instant::now();
        loop {
            if stop.load(Ordering::Relaxed) {
                return Err(Failure::interrupted());
            }
            if self.reaches_limit() {
                return Ok(());
            }
            let registers = self.stepped.registers().map_err(|e| self.failed(&e))?;
            if let Some((bytes, address)) =
                self.clock.answer(&registers, self.recording.instructions)
            {
                let done = self.stepped.return_from(&bytes, address);
                done.map_err(|e| self.failed(&e))?;
                self.calls.pop();
                continue;
            }
            let effect = self.before(&registers)?;
            #[cfg(any(target_arch = "aarch64", target_arch = "powerpc64"))]
            if let Some(half) = effect.exclusive {
                self.exclusive(half, registers.pc())?;
                self.recording.instructions += 1;
                continue;
            }
            if effect.flow == Flow::System {
                let number = registers.call_number();
                if is_wait(number) {
                    if !self.counting {
                        self.counting = true;
                        began = Instant::now();
                        self.recording = Recording::default();
                        self.look_at_map();
                        self.sites.clear();
                        signals.ready.store(true, Ordering::Release);
                    }
                    self.recording.pauses.push(self.recording.accesses.len());
                }
                let reads = is_read_of_socket(number);
                if reads && !std::mem::take(&mut self.waited) {
                    self.stepped.refuse_call().map_err(|e| self.failed(&e))?;
                    self.stepped.send_held(ALARM);
                    self.recording.instructions += 1;
                    self.recording.system_calls += 1;
                    continue;
                }
                self.waited = is_wait(number);
                if self.system_call(number, signals, stop)? {
                    self.recording.seconds = began.elapsed().as_secs_f64();
                    return Ok(());
                }
                if let Some(transaction) = self.transaction.as_mut().filter(|_| self.waited) {
                    transaction.wait_is_over(&self.recording, began.elapsed().as_secs_f64());
                }
            } else {
                self.step()?;
            }
            self.recording.instructions += 1;
        }
    }

    fn reaches_limit(&self) -> bool {
        let transaction = self.transaction.as_ref();
        transaction.is_some_and(|one| one.reaches_limit(self.recording.instructions))
    }

    /// One instruction that does not wait.
    fn step(&mut self) -> Result<(), Failure> {
        let mut signal = 0;
        loop {
            self.stepped.go(signal).map_err(|e| self.failed(&e))?;
            match self.stepped.wait().map_err(|e| self.failed(&e))? {
                Stopped::Step => return Ok(()),
                stopped => signal = self.stopped(stopped)?,
            }
        }
    }

    /// What to deliver after a stop that is not a step's.
    fn stopped(&mut self, stopped: Stopped) -> Result<i32, Failure> {
        match stopped {
            Stopped::Ended => Err(self.ended()),
            Stopped::Signal(signal) if signal == ALARM => {
                self.stepped.hold(signal);
                Ok(0)
            }
            Stopped::Signal(signal) => Ok(signal),
            Stopped::Step | Stopped::Other => Ok(0),
        }
    }

    /// A system call, which may wait. Whether it is the last one: the wait after the client's end, or one in which the
    /// limit was reached.
    fn system_call(
        &mut self,
        number: u64,
        signals: &Signals,
        stop: &AtomicBool,
    ) -> Result<bool, Failure> {
        self.recording.system_calls += 1;
        let began = Instant::now();
        self.stepped.call().map_err(|e| self.failed(&e))?;
        let mut pause = Duration::from_micros(20);
        let mut settled: Option<Instant> = None;
        loop {
            match self.stepped.poll().map_err(|e| self.failed(&e))? {
                Some(Stopped::Step) => break,
                Some(other) => {
                    let gone = match self.stopped(other)? {
                        0 => self.stepped.call(),
                        signal => self.stepped.go(signal),
                    };
                    gone.map_err(|e| self.failed(&e))?;
                }
                None => {
                    if stop.load(Ordering::Relaxed) {
                        return Err(Failure::interrupted());
                    }
                    if self.reaches_limit() {
                        return Ok(true);
                    }
                    if is_wait(number) && signals.done.load(Ordering::Acquire) {
                        let since = *settled.get_or_insert_with(Instant::now);
                        if since.elapsed() > SETTLED {
                            return Ok(true);
                        }
                    }
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(Duration::from_millis(1));
                }
            }
        }
        if is_wait(number) || sleeps(number) {
            self.clock.slept(began.elapsed());
        }
        if changes_map(number) {
            self.map = read_map(self.pid)?;
            self.look_at_map();
            self.effects.clear();
            #[cfg(any(target_arch = "aarch64", target_arch = "powerpc64"))]
            self.exclusives.map_changed();
        }
        Ok(false)
    }

    /// Half of a pair that can't be executed step by step.
    #[cfg(any(target_arch = "aarch64", target_arch = "powerpc64"))]
    fn exclusive(&mut self, half: Exclusive, pc: u64) -> Result<(), Failure> {
        let shared = self.map.shared().into_iter();
        let ranges = shared.map(|part| (part.range, part.offset));
        let done = self
            .exclusives
            .execute((self.pid, &self.stepped), half, ranges)?;
        match done {
            Done::Loaded(address) if self.counting => {
                if let Some(address) = self.shared(address) {
                    self.exclusives.noted(self.recording.accesses.len());
                    self.access(pc, address, half.size, Kind::Load);
                }
            }
            Done::Stored(Some(noted)) => {
                if let Some(access) = self.recording.accesses.get_mut(noted) {
                    access.kind = Kind::Atomic;
                }
            }
            Done::Loaded(_) | Done::Stored(None) | Done::Failed => {}
        }
        Ok(())
    }

    /// Notes what the instruction ahead will do.
    fn before(&mut self, registers: &Registers) -> Result<Rc<Effect<Operand>>, Failure> {
        let pc = registers.pc();
        let effect = match self.effects.get(&pc) {
            Some(known) => Rc::clone(known),
            None => {
                let effect = Rc::new(self.fetch(pc)?);
                let stays = self.map.at(pc).is_some_and(|part| part.is_file());
                if stays || self.clock.vdso.range.contains(&pc) {
                    self.effects.insert(pc, Rc::clone(&effect));
                }
                effect
            }
        };
        if self.counting {
            self.note(&effect, registers);
        }
        let sp = registers.sp();
        match taken(&effect, registers) {
            Flow::Call => {
                self.calls.retain(|(at, _)| *at >= sp);
                self.calls.push((sp.wrapping_sub(PUSHED), effect.next));
            }
            Flow::Return => {
                while self.calls.last().is_some_and(|(at, _)| *at <= sp) {
                    self.calls.pop();
                }
            }
            Flow::System => {
                if self.counting {
                    self.note_call(registers);
                }
            }
            Flow::On => {}
        }
        Ok(effect)
    }

    fn note(&mut self, effect: &Effect<Operand>, registers: &Registers) {
        self.recording.unresolved += u64::from(effect.unresolved);
        if effect.operands.is_empty() || (effect.repeated && registers.get(COUNT) == 0) {
            return;
        }
        for operand in &effect.operands {
            let address = operand.address(|n| registers.get(n), registers.segment_bases());
            let (Some(address), Some(size)) =
                (self.shared(address), operand.size(|n| registers.get(n)))
            else {
                continue;
            };
            if operand.loads {
                self.access(registers.pc(), address, size, Kind::Load);
            }
            if let Some(kind) = operand.stores {
                self.access(registers.pc(), address, size, kind);
            }
        }
    }

    /// Where an address in shared memory is recorded to lie.
    fn shared(&self, address: u64) -> Option<u64> {
        let (range, start) = self
            .shared
            .iter()
            .find(|(range, _)| range.contains(&address))?;
        Some(address - range.start + start)
    }

    fn access(&mut self, pc: u64, address: u64, size: u32, kind: Kind) {
        let callers = self.calls.iter().rev().take(CALLERS);
        let site = Site {
            address: pc,
            callers: callers.map(|(_, back)| *back).collect(),
        };
        let site = match self.sites.get(&site) {
            Some(known) => *known,
            None => {
                let index = self.recording.sites.len() as u32;
                self.recording.sites.push(site.clone());
                self.sites.insert(site, index);
                index
            }
        };
        self.recording.accesses.push(Access {
            step: self.recording.instructions,
            address,
            size,
            kind,
            site,
        });
    }

    /// What a system call does to shared memory.
    fn note_call(&mut self, registers: &Registers) {
        let (address, length) = (registers.argument(1), registers.argument(2));
        let (kind, parts) = match calls::memory(registers.call_number()) {
            Use::Buffer(kind) => (kind, vec![(address, length)]),
            Use::Vector(kind) => (kind, self.vector(address, length)),
            Use::Word => (Kind::KernelLoad, vec![(registers.argument(0), 4)]),
            Use::Unseen => {
                self.recording.unseen_calls += 1;
                return;
            }
            Use::None => return,
        };
        for (address, length) in parts {
            if let Some(address) = self.shared(address).filter(|_| length > 0) {
                let length = u32::try_from(length).unwrap_or(u32::MAX);
                self.access(registers.pc(), address, length, kind);
            }
        }
    }

    /// The parts of a struct iovec array.
    fn vector(&self, at: u64, count: u64) -> Vec<(u64, u64)> {
        let mut bytes = vec![0; count.min(1024) as usize * 16];
        if self.stepped.read(at, &mut bytes).is_err() {
            return Vec::new();
        }
        let pairs = bytes.as_chunks::<16>().0.iter();
        pairs
            .map(|pair| (word(&pair[..8]), word(&pair[8..])))
            .collect()
    }

    fn fetch(&mut self, pc: u64) -> Result<Effect<Operand>, Failure> {
        if self.recording.accesses.len() > MOST {
            return Err(
                Failure::usage("the transactions are too long to be recorded")
                    .with_remedy("fewer --transactions"),
            );
        }
        let mut bytes = [0; LONGEST];
        let mut length = LONGEST;
        // The last instruction of a part of memory may have nothing behind it.
        while let Err(error) = self.stepped.read(pc, &mut bytes[..length]) {
            length -= 1;
            if length == 0 {
                return Err(self.failed(&error));
            }
        }
        self.decode
            .effect(&bytes[..length], pc)
            .ok_or_else(|| Failure::target(format!("the instruction at {pc:#x} can't be decoded")))
    }
}

/// Bytes that a call puts on the stack: the return address, which arm64 and POWER keep in a register.
const PUSHED: u64 = if cfg!(target_arch = "x86_64") { 8 } else { 0 };
/// rcx, the count of repeated string instructions; of no meaning elsewhere.
const COUNT: usize = 1;

/// What becomes of the chain of callers: nothing by a branch that is not taken.
fn taken(effect: &Effect<Operand>, registers: &Registers) -> Flow {
    let (condition, counter) = registers.conditions();
    match effect.condition {
        Some(when) if !when.holds(condition, counter) => Flow::On,
        _ => effect.flow,
    }
}

/// SIGALRM, by which the server's timers ring.
const ALARM: i32 = 14;

fn word(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_ne_bytes)
}

fn read_map(pid: u32) -> Result<Map, Failure> {
    let path = format!("/proc/{pid}/maps");
    let text =
        fs::read_to_string(&path).map_err(|error| Failure::target(format!("{path}: {error}")))?;
    Ok(Map::parse(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_is_not_there() {
        let error = record(
            u32::MAX >> 2,
            &Signals::default(),
            None,
            &AtomicBool::new(false),
        );
        assert!(error.unwrap_err().message.contains("not there"));
    }
}

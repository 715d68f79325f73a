//! Recorded transactions replayed with time: how many a second N sessions get through, where each has a
//! processor of its own and lines take time to come.
//!
//! A closed queueing network, simulated. An instruction takes a transaction's CPU time over its
//! instructions. A session that reads a line which it does not hold, or atomically changes one that it
//! does not hold alone, waits until it has come: a line is sent to one session after the other, in the
//! order of their requests. Until it leaves, the session that has it goes on using it. A plain store
//! waits in the store buffer, which the next atomic empties first. An atomic that follows a load of the
//! same word fails if the word was written meanwhile, and is tried again at once.
//!
//! Sent to one who asks while nobody else does, a line takes half of the hand-over that `core-to-core`
//! measures: that is a read of what another processor wrote, and before it the write, which first takes
//! the line from those who read it. Sent on to one who has waited behind others, it takes a whole one. A
//! read behind which a write to the line soon follows fetches it for both. `pgassay run kernels --form
//! word --think 200` shows all three (docs/walls.md). Since hand-overs differ from pair to pair, the
//! replay is also done with a quarter less and a quarter more.
//!
//! What is not in it: waiting for locks (the recorded session never had to), what processors share other
//! than lines (the units of a core, its clock, the bandwidth to memory), and lines that one recorded
//! transaction alone uses, whose misses are in the CPU time. Nothing is said of operations that are not
//! much longer than a hand-over, such as one pin: what a processor does before it loses the line, and
//! how locks are taken under contention, is most of their time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::replay::{Held, REPETITIONS, Replay, Touch};
use crate::transfers::{Interval, LineWait, Timed};

/// Transactions of all sessions before the clock is looked at, and counted; a session has two and four at
/// least.
const WARMING: u64 = 200;
const COUNTED: u64 = 1000;
/// Touches of all sessions' transactions together beyond which none are replayed: it would take minutes.
const MOST_TOUCHES: f64 = 4e6;
/// Instructions from a failed compare-and-swap to the next try: a loop of PostgreSQL's pins and locks.
const RETRY: u64 = 8;
/// Lines named.
const NAMED: usize = 4;
/// What a line takes, of a hand-over, to one who asks while nobody else waits.
const ALONE: f64 = 0.5;
/// Hand-overs: at best, likely, at worst, of the time given.
const SPREAD: [f64; 3] = [0.75, 1.0, 1.25];
/// An operation of which something is said takes so many hand-overs at least.
const LONG: f64 = 10.0;

/// What a processor's time goes to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    /// Nanoseconds of a hand-over of a line from one processor to another.
    pub transfer_ns: f64,
    /// Microseconds of CPU time of a transaction when no line has to come.
    pub cpu_us: f64,
}

/// Picoseconds.
type Time = u64;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A line has come to the one who asked first.
    Arrives(u64),
    /// A session is at its next touch.
    Ready(usize),
}

/// A session wants a line.
#[derive(Clone, Copy)]
struct Request {
    session: usize,
    since: Time,
    writes: bool,
    /// A store that waits in its buffer, while the session goes on.
    buffered: bool,
}

#[derive(Default)]
struct Line {
    held: Held,
    /// Who asked for it, the one whom it is on its way to first.
    asked: VecDeque<Request>,
    name: u32,
    waited: Time,
}

#[derive(Default)]
struct Player {
    transaction: usize,
    at: usize,
    done: u64,
    /// Words that were read, and how often they had been written then.
    read: HashMap<u64, u64>,
    /// Lines for which stores wait in the buffer.
    stores: Vec<u64>,
    /// Since when an atomic waits for the buffer.
    empties: Option<Time>,
}

impl Replay {
    /// What so many sessions get through, by a seed; nothing of operations that are short beside a hand-over.
    pub fn timed(&self, sessions: usize, seed: u64, costs: Costs) -> Option<Timed> {
        let short = costs.cpu_us * 1e3 < costs.transfer_ns * LONG;
        let endless = self.mean_touches() * sessions as f64 > MOST_TOUCHES;
        let unknown = !(costs.cpu_us > 0.0 && costs.transfer_ns > 0.0);
        if self.is_empty() || unknown || short || endless {
            return None;
        }
        let [best, likely, worst] = SPREAD.map(|part| {
            let costs = Costs {
                transfer_ns: costs.transfer_ns * part,
                ..costs
            };
            let repetitions = if part == 1.0 { REPETITIONS } else { 1 };
            self.replayed(sessions, seed, costs, repetitions)
        });
        Some(Timed {
            tps: Interval {
                estimate: likely.0.estimate,
                low: worst.0.estimate.min(likely.0.low),
                high: best.0.estimate.max(likely.0.high),
            },
            waits: likely.1,
        })
    }

    fn replayed(
        &self,
        sessions: usize,
        seed: u64,
        costs: Costs,
        repetitions: u64,
    ) -> (Interval, Vec<LineWait>) {
        let runs: Vec<(f64, Vec<(u32, f64)>)> = (0..repetitions)
            .map(|number| Simulation::new(self, sessions, seed.wrapping_add(number), costs).run())
            .collect();
        let tps: Vec<f64> = runs.iter().map(|(tps, _)| *tps).collect();
        let mut shares: HashMap<u32, f64> = HashMap::new();
        for (name, share) in runs.iter().flat_map(|(_, waits)| waits) {
            *shares.entry(*name).or_default() += share / runs.len() as f64;
        }
        let mut shares: Vec<(u32, f64)> = shares.into_iter().collect();
        shares.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        shares.truncate(NAMED);
        let waits = shares.into_iter().map(|(name, share)| LineWait {
            name: self.name(name).to_owned(),
            share,
        });
        (Interval::of(&tps), waits.collect())
    }
}

struct Simulation<'a> {
    replay: &'a Replay,
    /// To one who asks for a line that nobody else waits for.
    transfer: Time,
    /// To one who has waited behind others.
    contended: Time,
    /// Picoseconds of an instruction.
    instruction: f64,
    random: Xoshiro256PlusPlus,
    players: Vec<Player>,
    queue: BinaryHeap<Reverse<(Time, Event)>>,
    lines: HashMap<u64, Line>,
    /// How often each word was written.
    written: HashMap<u64, u64>,
}

impl<'a> Simulation<'a> {
    fn new(replay: &'a Replay, sessions: usize, seed: u64, costs: Costs) -> Self {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed ^ (sessions as u64) << 32);
        let mut simulation = Self {
            replay,
            transfer: (costs.transfer_ns * ALONE * 1e3) as Time,
            contended: (costs.transfer_ns * 1e3) as Time,
            instruction: costs.cpu_us * 1e6 / replay.mean_length(),
            players: Vec::new(),
            queue: BinaryHeap::new(),
            lines: HashMap::new(),
            written: HashMap::new(),
            random: random.clone(),
        };
        for number in 0..sessions {
            simulation.players.push(Player {
                transaction: replay.draw(&mut random),
                ..Player::default()
            });
            let begins = random.random_range(0..=(costs.cpu_us * 1e6) as Time);
            let ready = Event::Ready(number);
            simulation.queue.push(Reverse((begins, ready)));
        }
        simulation.random = random;
        simulation
    }

    /// Transactions a second, and the share of all sessions' time for which each name was waited.
    fn run(mut self) -> (f64, Vec<(u32, f64)>) {
        let sessions = self.players.len() as u64;
        let warming = (WARMING / sessions).max(2) * sessions;
        let all = warming + (COUNTED / sessions).max(4) * sessions;
        let (mut finished, mut began, mut now) = (0u64, None, 0);
        while let Some(Reverse((time, event))) = self.queue.pop() {
            now = time;
            match event {
                Event::Arrives(line) => self.arrives(line, time),
                Event::Ready(number) => finished += u64::from(self.ready(number, time)),
            }
            if began.is_none() && finished >= warming {
                began = Some((time, finished));
                self.lines.values_mut().for_each(|line| line.waited = 0);
            }
            if finished >= all {
                break;
            }
        }
        let (from, before) = began.unwrap_or_default();
        let took = now.saturating_sub(from).max(1) as f64;
        let mut waits: HashMap<u32, f64> = HashMap::new();
        for line in self.lines.values() {
            *waits.entry(line.name).or_default() += line.waited as f64 / took / sessions as f64;
        }
        (
            (finished - before) as f64 * 1e12 / took,
            waits.into_iter().collect(),
        )
    }

    /// The session's next touch, if the line is there; whether a transaction ended.
    fn ready(&mut self, number: usize, now: Time) -> bool {
        let player = &mut self.players[number];
        let Some(touch) = self.replay.touch(player.transaction, player.at).copied() else {
            player.done += 1;
            player.transaction = self.replay.draw(&mut self.random);
            player.at = 0;
            self.queue.push(Reverse((now, Event::Ready(number))));
            return true;
        };
        if touch.atomic && !player.stores.is_empty() {
            player.empties = Some(now);
            return false;
        }
        let at = touch.of(number) / self.replay.line();
        let stored = player.stores.contains(&at);
        let line = self.lines.entry(at).or_default();
        line.name = touch.name;
        if touch.cold || stored || line.held.has(number, touch.writes) {
            self.touches(number, touch, now);
            return false;
        }
        let buffered = touch.writes && !touch.atomic;
        self.asks(at, number, touch.writes || touch.claims, buffered, now);
        if buffered {
            self.players[number].stores.push(at);
            self.touches(number, touch, now);
        }
        false
    }

    fn asks(&mut self, at: u64, session: usize, writes: bool, buffered: bool, now: Time) {
        let line = self.lines.entry(at).or_default();
        line.asked.push_back(Request {
            session,
            since: now,
            writes,
            buffered,
        });
        if line.asked.len() == 1 {
            let arrives = now + self.transfer;
            self.queue.push(Reverse((arrives, Event::Arrives(at))));
        }
    }

    /// A line has come: to one who writes it, or to all who read it and stand before the next who does.
    fn arrives(&mut self, at: u64, now: Time) {
        let mut first = true;
        while let Some(line) = self.lines.get_mut(&at) {
            let Some(request) = line.asked.front().copied() else {
                return;
            };
            if !first && request.writes {
                break;
            }
            line.asked.pop_front();
            line.held.touch(request.session, request.writes);
            let player = &mut self.players[request.session];
            if request.buffered {
                player.stores.retain(|stored| *stored != at);
                if let (true, Some(since)) = (player.stores.is_empty(), player.empties) {
                    player.empties = None;
                    line.waited += now - since;
                    let ready = Event::Ready(request.session);
                    self.queue.push(Reverse((now, ready)));
                }
            } else {
                line.waited += now - request.since;
                let touch = self.replay.touch(player.transaction, player.at).copied();
                if let Some(touch) = touch {
                    self.touches(request.session, touch, now);
                }
            }
            first = false;
            if request.writes {
                break;
            }
        }
        // The one who waits next gets it under contention.
        let more = self
            .lines
            .get(&at)
            .is_some_and(|line| !line.asked.is_empty());
        if more {
            let arrives = now + self.contended;
            self.queue.push(Reverse((arrives, Event::Arrives(at))));
        }
    }

    /// The session does its touch, and goes on.
    fn touches(&mut self, number: usize, touch: Touch, now: Time) {
        let player = &mut self.players[number];
        let address = touch.of(number);
        let at = address / self.replay.line();
        let waits = player.stores.contains(&at);
        if !touch.cold && !waits {
            let line = self.lines.entry(at).or_default();
            line.held.touch(number, touch.writes);
        }
        let written = self.written.entry(address).or_default();
        let mut next = self.replay.after(player.transaction, player.at);
        if touch.writes {
            let read = player.read.remove(&address);
            if touch.atomic && read.is_some_and(|read| read != *written) {
                player.read.insert(address, *written);
                next = RETRY;
            } else {
                *written += 1;
                player.at += 1;
            }
        } else {
            player.read.insert(address, *written);
            player.at += 1;
        }
        let ready = now + (next as f64 * self.instruction) as Time;
        self.queue.push(Reverse((ready, Event::Ready(number))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::{Name, Own};
    use crate::recording::Kind;
    use crate::sequence::{CodeSite, Sequence, Use};

    /// A transaction that does these in ten thousand instructions.
    fn once(uses: &[(u64, u64, Kind, Option<Own>)]) -> Replay {
        let names = uses.iter().map(|(_, address, _, own)| Name {
            own: *own,
            ..Name::unknown(format!("{address}"))
        });
        let end = uses.len();
        let once = uses
            .iter()
            .enumerate()
            .map(|(at, (step, address, kind, _))| Use {
                step: *step,
                address: *address,
                size: 4,
                kind: *kind,
                name: at as u32,
                site: 0,
            });
        // The next transaction tells how long the first one is.
        let after = Use {
            step: 10_000,
            address: 1 << 40,
            size: 4,
            kind: Kind::Load,
            name: 0,
            site: 0,
        };
        let sequence = Sequence {
            names: names.collect(),
            uses: once.chain([after]).collect(),
            sites: vec![CodeSite::default()],
            transactions: 1,
            boundaries: vec![0, end],
            ..Sequence::default()
        };
        Replay::new(&[sequence], 64)
    }

    /// What sessions get through, a microsecond a transaction, where a hand-over takes 100 ns.
    fn replayed(uses: &[(u64, u64, Kind, Option<Own>)], sessions: usize) -> Timed {
        let costs = Costs {
            transfer_ns: 100.0,
            cpu_us: 1.0,
        };
        once(uses).timed(sessions, 1, costs).unwrap()
    }

    fn tps(uses: &[(u64, u64, Kind, Option<Own>)], sessions: usize) -> f64 {
        replayed(uses, sessions).tps.estimate
    }

    #[track_caller]
    fn near(value: f64, expected: f64) {
        assert!(
            (value / expected - 1.0).abs() < 0.05,
            "{value} for {expected}"
        );
    }

    #[test]
    fn alone_a_session_takes_its_cpu_time() {
        near(tps(&[(0, 6400, Kind::Atomic, None)], 1), 1e6);
    }

    #[test]
    fn a_hot_word_lets_one_through_at_a_time() {
        let word = [(0, 6400, Kind::Atomic, None)];
        let timed = replayed(&word, 64).tps;
        near(timed.low, 1e7 / 1.25);
        near(timed.estimate, 1e7);
        near(timed.high, 1e7 / 0.75);
        // Below, each waits for its own line only.
        let at_2 = tps(&word, 2);
        assert!((1.8e6..2.0e6).contains(&at_2), "{at_2}");
        let waits = replayed(&word, 64).waits;
        assert!(waits[0].name == "6400" && waits[0].share > 0.8, "{waits:?}");
    }

    /// A read brings the line; a write long after it has to make it the session's own.
    #[test]
    fn a_read_for_a_write_that_follows_takes_one_sending() {
        let word = [(0, 6400, Kind::Atomic, None)];
        let read = (0, 6400, Kind::Load, None);
        let soon = [read, (20, 6400, Kind::Atomic, None)];
        let late = [read, (2000, 6400, Kind::Atomic, None)];
        near(tps(&soon, 2), tps(&word, 2));
        assert!(tps(&late, 2) < 0.97 * tps(&word, 2));
    }

    /// Nobody waits for a store, but an atomic does for the stores before it.
    #[test]
    fn a_store_waits_in_its_buffer() {
        let store = (0, 6400, Kind::Store, None);
        near(tps(&[store], 2), 2e6);
        let own = Own {
            base: 12_800,
            stride: 64,
            shared_by: None,
        };
        let atomic = (20, 12_800, Kind::Atomic, Some(own));
        assert!(tps(&[store, atomic], 2) < 1.97e6);
    }

    #[test]
    fn what_is_only_read_or_ones_own_costs_nothing() {
        near(tps(&[(0, 6400, Kind::Load, None)], 64), 64e6);
        let own = Own {
            base: 6400,
            stride: 64,
            shared_by: None,
        };
        near(tps(&[(0, 6400, Kind::Atomic, Some(own))], 64), 64e6);
    }

    #[test]
    fn the_same_seed_gives_the_same() {
        let word = [(0, 6400, Kind::Atomic, None), (50, 6464, Kind::Store, None)];
        assert_eq!(replayed(&word, 16), replayed(&word, 16));
    }

    #[test]
    fn nothing_is_said_without_transactions_or_time() {
        let none = Replay::new(&[], 64);
        let costs = Costs {
            transfer_ns: 100.0,
            cpu_us: 1.0,
        };
        assert_eq!(none.timed(2, 1, costs), None);
        // One that is short beside a hand-over.
        let short = Costs {
            cpu_us: 0.9,
            ..costs
        };
        assert_eq!(
            once(&[(0, 6400, Kind::Atomic, None)]).timed(2, 1, short),
            None
        );
    }
}

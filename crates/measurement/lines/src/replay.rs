//! N sessions from a few: recorded transactions replayed in random interleavings through a model of
//! coherent caches.
//!
//! Each session has a cache without limits. A line is held by one session alone, who may write it,
//! or by any number that read it (MSI). A read of a line that the session does not hold, and a write
//! of one that it does not hold alone, is a transfer: another processor's cache, or its permission,
//! is asked. Sessions execute one instruction in a unit of time, transactions drawn at random from
//! those recorded, each beginning at a random point of its first. Nothing waits: contention itself
//! would add retries, which are not counted. A transfer takes no time in it, either; in that time a
//! processor goes on using what it has, which is why transfers that stay even if it keeps a line for
//! so long are counted apart ([`LineOwners::visits`]).

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::recording::Kind;
use crate::sequence::Sequence;
use crate::transfers::{Interval, LineOwners, LineTransfers, Transfers};

/// Sessions at most.
pub const MOST: usize = 1024;
/// Transactions of each session before counting, and counted.
const WARMING: usize = 2;
/// Counted transactions of all sessions together, at least.
const COUNTED: usize = 64;
/// Repetitions behind an interval.
pub(crate) const REPETITIONS: u64 = 5;
/// Recorded transactions of which it can't be said yet that one alone uses a line.
const FEW: usize = 4;
/// Instructions from a read to the write that it is for: a loop around compare-and-swap.
const SOON: u64 = 32;
/// Lines named at each number of sessions.
const NAMED: usize = 8;

/// A step of a transaction that may need a line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Touch {
    /// Instructions since the one before.
    after: u64,
    /// The line, where it is the same for all sessions; else the address in the recorded session.
    address: u64,
    /// Distance to the same part of the next session, and of how many there are.
    own: Option<(u64, u64, u64)>,
    pub(crate) writes: bool,
    pub(crate) atomic: bool,
    /// On a line that one of the recorded transactions alone uses.
    pub(crate) cold: bool,
    /// Soon followed by a write to the line: processors fetch it for that at once.
    pub(crate) claims: bool,
    pub(crate) name: u32,
}

impl Touch {
    /// The address that a session uses.
    pub(crate) fn of(&self, session: usize) -> u64 {
        match self.own {
            Some((start, stride, of)) => start + (session as u64 % of) * stride,
            None => self.address,
        }
    }
}

/// Recorded transactions, made ready to be replayed.
pub struct Replay {
    transactions: Vec<Vec<Touch>>,
    /// Instructions after the last touch of each.
    tails: Vec<u64>,
    names: Vec<String>,
    line: u64,
}

impl Replay {
    /// Prepares the transactions of several sessions for lines of `line` bytes.
    pub fn new(sequences: &[Sequence], line: u64) -> Self {
        let mut replay = Self {
            transactions: Vec::new(),
            tails: Vec::new(),
            names: Vec::new(),
            line,
        };
        let mut names: HashMap<String, u32> = HashMap::new();
        for sequence in sequences {
            for window in sequence.boundaries.windows(2) {
                let uses = &sequence.uses[window[0]..window[1]];
                let mut before = uses.first().map_or(0, |first| first.step);
                let mut touches = Vec::with_capacity(uses.len());
                for one in uses {
                    let name = sequence.name(one);
                    let text = name.whole();
                    let number = names.len() as u32;
                    let index = *names.entry(text).or_insert(number);
                    let own = name.own.map(|own| {
                        let mine = (one.address - own.base) / own.stride.max(1);
                        let start = one.address - mine * own.stride;
                        (start, own.stride, own.shared_by.unwrap_or(u64::MAX))
                    });
                    let last = one.address + u64::from(one.size.max(1)) - 1;
                    let mut address = one.address;
                    loop {
                        touches.push(Touch {
                            after: one.step - before,
                            address,
                            own: own.map(|(start, stride, of)| {
                                (start + (address - one.address), stride, of)
                            }),
                            writes: one.kind.owns(),
                            atomic: one.kind == Kind::Atomic,
                            cold: false,
                            claims: false,
                            name: index,
                        });
                        before = one.step;
                        // One that crosses into further lines touches those, too.
                        address = (address / line + 1) * line;
                        if address > last {
                            break;
                        }
                    }
                }
                let next = sequence.uses.get(window[1]).map(|next| next.step);
                replay
                    .tails
                    .push(next.map_or(1, |next| next.saturating_sub(before).max(1)));
                replay.transactions.push(touches);
            }
        }
        replay.mark_cold();
        replay.mark_claims();
        replay.names = vec![String::new(); names.len()];
        for (name, index) in names {
            replay.names[index as usize] = name;
        }
        replay
    }

    /// Marks what one of several transactions alone uses, of lines that all sessions share.
    fn mark_cold(&mut self) {
        if self.transactions.len() < FEW {
            return;
        }
        let mut users: HashMap<u64, (usize, bool)> = HashMap::new();
        for (number, touches) in self.transactions.iter().enumerate() {
            for touch in touches.iter().filter(|touch| touch.own.is_none()) {
                let line = touch.address / self.line;
                let (user, several) = users.entry(line).or_insert((number, false));
                *several |= *user != number;
            }
        }
        let line = self.line;
        for touch in self.transactions.iter_mut().flatten() {
            let user = users.get(&(touch.address / line));
            touch.cold = touch.own.is_none() && user.is_some_and(|(_, several)| !several);
        }
    }

    /// Marks the reads behind which the session soon writes to the same line.
    fn mark_claims(&mut self) {
        let line = self.line;
        for touches in &mut self.transactions {
            for at in 0..touches.len() {
                let here = touches[at].address / line;
                let mut apart = 0;
                let soon = touches[at + 1..].iter().take_while(|next| {
                    apart += next.after;
                    apart <= SOON
                });
                touches[at].claims = soon
                    .into_iter()
                    .any(|next| next.writes && next.address / line == here);
            }
        }
    }

    /// Whether there is anything to replay.
    pub fn is_empty(&self) -> bool {
        self.transactions.iter().all(Vec::is_empty)
    }

    /// One of the transactions.
    pub(crate) fn draw(&self, random: &mut Xoshiro256PlusPlus) -> usize {
        random.random_range(0..self.transactions.len())
    }

    /// A touch of a transaction.
    pub(crate) fn touch(&self, transaction: usize, at: usize) -> Option<&Touch> {
        self.transactions[transaction].get(at)
    }

    /// Instructions from a touch to the next one, or to the end.
    pub(crate) fn after(&self, transaction: usize, at: usize) -> u64 {
        self.touch(transaction, at + 1)
            .map_or_else(|| self.tails[transaction], |next| next.after.max(1))
    }

    /// Instructions of a transaction, on average.
    pub(crate) fn mean_length(&self) -> f64 {
        let length = |transaction: usize| {
            (0..self.transactions[transaction].len())
                .map(|at| self.after(transaction, at))
                .sum::<u64>()
        };
        let all: u64 = (0..self.transactions.len()).map(length).sum();
        all as f64 / self.transactions.len().max(1) as f64
    }

    /// Touches of a transaction, on average.
    pub(crate) fn mean_touches(&self) -> f64 {
        let all: usize = self.transactions.iter().map(Vec::len).sum();
        all as f64 / self.transactions.len().max(1) as f64
    }

    /// The name of a number.
    pub(crate) fn name(&self, number: u32) -> &str {
        &self.names[number as usize]
    }

    /// Bytes of a line.
    pub(crate) fn line(&self) -> u64 {
        self.line
    }

    /// Transfers at so many sessions, by a seed.
    pub fn at(&self, sessions: usize, seed: u64) -> Transfers {
        self.keeping(sessions, seed, None)
    }

    /// The same, and how many remain of those after which a line is written if a session that used
    /// it no more than `keep` instructions before still has it ([`LineOwners::visits`]).
    pub fn keeping(&self, sessions: usize, seed: u64, keep: Option<u64>) -> Transfers {
        let sessions = sessions.clamp(1, MOST);
        let runs: Vec<Run> = (0..REPETITIONS)
            .map(|number| self.once(sessions, seed.wrapping_add(number), keep))
            .collect();
        let totals: Vec<f64> = runs.iter().map(|run| run.total).collect();
        let by_name = most(runs.iter().map(|run| &run.by_name));
        let lines = by_name.into_iter().map(|(name, counts)| LineTransfers {
            name: self.names[name as usize].clone(),
            per_transaction: Interval::of(&counts),
        });
        let owners = match keep {
            None => most(runs.iter().map(|run| &run.owned)),
            Some(_) => most(runs.iter().map(|run| &run.visits)),
        };
        let over = |line: u64, of: fn(&Run) -> &HashMap<u64, f64>| {
            let counts = runs.iter().map(|run| of(run).get(&line).copied());
            Interval::of(&counts.map(Option::unwrap_or_default).collect::<Vec<f64>>())
        };
        let owners = owners.into_iter().map(|(line, _)| LineOwners {
            name: runs
                .iter()
                .find_map(|run| run.names.get(&line))
                .map(|name| self.names[*name as usize].clone())
                .unwrap_or_default(),
            owned: over(line, |run| &run.owned),
            visits: keep.map(|_| over(line, |run| &run.visits)),
        });
        Transfers {
            sessions,
            per_transaction: Interval::of(&totals),
            lines: lines.collect(),
            owners: owners.collect(),
            timed: None,
        }
    }

    /// One interleaving.
    fn once(&self, sessions: usize, seed: u64, keep: Option<u64>) -> Run {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed ^ (sessions as u64) << 32);
        if self.is_empty() {
            return Run::default();
        }
        let counted = COUNTED.div_ceil(sessions).max(2);
        let mut players: Vec<Player> = Vec::new();
        let mut queue = BinaryHeap::new();
        for number in 0..sessions {
            let transaction = self.draw(&mut random);
            let length = self.transactions[transaction].len();
            let at = random.random_range(0..length.max(1));
            let time = random.random_range(0..1000u64);
            players.push(Player {
                transaction,
                at,
                done: 0,
            });
            queue.push(Reverse((time, number)));
        }
        let mut lines: HashMap<u64, Held> = HashMap::new();
        // When each session last used a line, and whether it has not owned it since it came back.
        let mut visits: HashMap<(u64, usize), (u64, bool)> = HashMap::new();
        let mut run = Run::default();
        let (mut transfers, mut finished) = (0u64, 0u64);
        while let Some(Reverse((time, number))) = queue.pop() {
            let player = &mut players[number];
            let touches = &self.transactions[player.transaction];
            let Some(touch) = touches.get(player.at) else {
                player.done += 1;
                finished += u64::from(player.done > WARMING && player.done <= WARMING + counted);
                player.transaction = self.draw(&mut random);
                player.at = 0;
                // Those who are done play on until all are: the others would be alone.
                let all = players
                    .iter()
                    .all(|player| player.done >= WARMING + counted);
                if all {
                    break;
                }
                queue.push(Reverse((time, number)));
                continue;
            };
            player.at += 1;
            let counts = (WARMING..WARMING + counted).contains(&player.done);
            let next = self.after(player.transaction, player.at - 1);
            let line = touch.of(number) / self.line;
            let held = lines.entry(line).or_default();
            // Whether it is the first write since the session came back to the line.
            let comes = keep.is_some_and(|keep| {
                let visit = visits.entry((line, number)).or_insert((time, true));
                visit.1 |= time - visit.0 > keep;
                visit.0 = time;
                touch.writes && std::mem::replace(&mut visit.1, false)
            });
            if held.touch(number, touch.writes) && counts {
                transfers += 1;
                *run.by_name.entry(touch.name).or_default() += 1.0;
                let common = touch.own.is_none_or(|(_, _, of)| of != u64::MAX);
                if touch.writes && common {
                    *run.owned.entry(line).or_default() += 1.0;
                    *run.visits.entry(line).or_default() += f64::from(u8::from(comes));
                    run.names.entry(line).or_insert(touch.name);
                }
            }
            queue.push(Reverse((time + next, number)));
        }
        let all = finished.max(1) as f64;
        run.total = transfers as f64 / all;
        let by_line = run.owned.values_mut().chain(run.visits.values_mut());
        for count in run.by_name.values_mut().chain(by_line) {
            *count /= all;
        }
        run
    }
}

/// What an interleaving came to, a transaction.
#[derive(Default)]
struct Run {
    total: f64,
    by_name: HashMap<u32, f64>,
    /// By line.
    owned: HashMap<u64, f64>,
    /// The same, of lines that the session had not used for a while.
    visits: HashMap<u64, f64>,
    names: HashMap<u64, u32>,
}

/// The keys with the largest sums, and their counts in each run.
fn most<'a, K: Copy + Ord + std::hash::Hash + 'a>(
    runs: impl Iterator<Item = &'a HashMap<K, f64>> + Clone,
) -> Vec<(K, Vec<f64>)> {
    let mut sums: HashMap<K, f64> = HashMap::new();
    for run in runs.clone() {
        for (key, count) in run {
            *sums.entry(*key).or_default() += count;
        }
    }
    let mut sums: Vec<(K, f64)> = sums.into_iter().collect();
    sums.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    sums.truncate(NAMED);
    let counts = |key| {
        runs.clone()
            .map(|run| run.get(&key).copied().unwrap_or(0.0))
            .collect()
    };
    sums.into_iter()
        .map(|(key, _)| (key, counts(key)))
        .collect()
}

struct Player {
    transaction: usize,
    at: usize,
    done: usize,
}

/// Who has a line.
#[derive(Clone, Default)]
pub(crate) struct Held {
    readers: [u64; MOST / 64],
    /// Held by one, who has written it or may.
    alone: Option<u32>,
    known: bool,
}

impl Held {
    /// Whether a session can use the line without asking another one's cache. A line that nobody has
    /// used yet comes from memory, whose time is in the transaction's.
    pub(crate) fn has(&self, session: usize, writes: bool) -> bool {
        let (word, bit) = (session / 64, 1u64 << (session % 64));
        let is_mine = self.alone == Some(session as u32);
        let reads = self.readers[word] & bit != 0;
        let only = || self.readers.iter().map(|of| of.count_ones()).sum::<u32>() == 1;
        !self.known || is_mine || (reads && (!writes || only()))
    }

    /// A session uses the line; whether another one's cache is asked.
    pub(crate) fn touch(&mut self, session: usize, writes: bool) -> bool {
        let (word, bit) = (session / 64, 1u64 << (session % 64));
        let is_mine = self.alone == Some(session as u32);
        let has = is_mine || self.readers[word] & bit != 0;
        let known = std::mem::replace(&mut self.known, true);
        if writes {
            let others = self
                .readers
                .iter()
                .enumerate()
                .any(|(at, readers)| readers & !(if at == word { bit } else { 0 }) != 0);
            let asks = known && !is_mine && (others || !has);
            self.readers = [0; MOST / 64];
            self.readers[word] = bit;
            self.alone = Some(session as u32);
            asks
        } else {
            if !has {
                self.readers[word] |= bit;
                self.alone = None;
            }
            known && !has
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::{Name, Own};
    use crate::recording::Kind;
    use crate::sequence::{CodeSite, Use};

    /// A session that does these in each of its transactions.
    fn sequence(uses: &[(u64, Kind, Option<Own>)]) -> Sequence {
        let names = uses.iter().map(|(address, _, own)| Name {
            own: *own,
            ..Name::unknown(format!("{address}"))
        });
        Sequence {
            names: names.collect(),
            uses: uses
                .iter()
                .enumerate()
                .map(|(at, (address, kind, _))| Use {
                    step: at as u64 * 10,
                    address: *address,
                    size: 4,
                    kind: *kind,
                    name: at as u32,
                    site: 0,
                })
                .collect(),
            sites: vec![CodeSite::default()],
            transactions: 1,
            boundaries: vec![0, uses.len()],
            ..Sequence::default()
        }
    }

    fn transfers(uses: &[(u64, Kind, Option<Own>)], sessions: usize) -> f64 {
        let replay = Replay::new(&[sequence(uses)], 64);
        replay.at(sessions, 1).per_transaction.estimate
    }

    #[test]
    fn a_hot_word_moves_each_time_and_a_private_one_never() {
        let hot = [(6400, Kind::Atomic, None)];
        assert_eq!(transfers(&hot, 1), 0.0);
        let at_64 = transfers(&hot, 64);
        assert!((0.9..=1.0).contains(&at_64), "{at_64}");
        let owners = Replay::new(&[sequence(&hot)], 64).at(64, 1).owners;
        assert!((owners[0].owned.estimate - at_64).abs() < 1e-9 && owners[0].name == "6400");
        let own = Own {
            base: 6400,
            stride: 64,
            shared_by: None,
        };
        assert_eq!(transfers(&[(6400, Kind::Store, Some(own))], 64), 0.0);
        // Read by all, written by none.
        assert_eq!(transfers(&[(6400, Kind::Load, None)], 64), 0.0);
    }

    /// Two atomics close together are one visit; a loop without a pause never lets the line go.
    #[test]
    fn a_line_that_is_used_again_soon_may_have_stayed() {
        let pair = [
            (6408, Kind::Load, None),
            (6400, Kind::Atomic, None),
            (6404, Kind::Atomic, None),
            (9999, Kind::Load, None),
        ];
        let mut apart = sequence(&pair);
        for (one, step) in apart.uses.iter_mut().zip([0, 5, 10, 5000]) {
            one.step = step;
        }
        let replay = Replay::new(&[apart], 64);
        let at = |keep| {
            let owners = replay.keeping(64, 1, Some(keep)).owners;
            (owners[0].owned.estimate, owners[0].visits.unwrap().estimate)
        };
        let (owned, visits) = at(100);
        assert!(
            (0.9..=1.0).contains(&visits) && owned > visits,
            "{owned} {visits}"
        );
        assert_eq!(at(10_000).1, 0.0);
        assert_eq!(replay.at(64, 1).owners[0].visits, None);
    }

    #[test]
    fn neighbours_on_a_line_share_it_falsely() {
        let packed = Own {
            base: 6400,
            stride: 8,
            shared_by: None,
        };
        let at_8 = transfers(&[(6400, Kind::Atomic, Some(packed))], 8);
        assert!(at_8 > 0.5, "{at_8}");
        // Of eight locks, each session has its own up to eight sessions.
        let few = Own {
            base: 6400,
            stride: 128,
            shared_by: Some(8),
        };
        assert_eq!(transfers(&[(6400, Kind::Atomic, Some(few))], 8), 0.0);
        assert!(transfers(&[(6400, Kind::Atomic, Some(few))], 16) > 0.3);
    }

    #[test]
    fn readers_beside_a_writer_lose_the_line() {
        let uses = [(6400, Kind::Load, None), (6408, Kind::Store, None)];
        let at_8 = transfers(&uses, 8);
        assert!(at_8 > 0.9 && at_8 <= 2.0, "{at_8}");
    }

    #[test]
    fn the_same_seed_gives_the_same() {
        let uses = [
            (6400, Kind::Load, None),
            (6408, Kind::Store, None),
            (9999, Kind::Atomic, None),
        ];
        let replay = Replay::new(&[sequence(&uses)], 64);
        assert_eq!(replay.at(7, 3), replay.at(7, 3));
        let transfers = replay.at(384, 3);
        assert!(transfers.per_transaction.low <= transfers.per_transaction.high);
        assert_eq!(transfers.lines.len(), 3);
    }
}

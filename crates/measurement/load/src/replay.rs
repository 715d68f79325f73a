//! Sessions as they were recorded: which transactions, with which values, when.
//!
//! At the original pace each session has a lane, a connection of its own while it lasts, and a transaction begins when
//! it began then. In a closed loop each client takes the next session when it is done with one, so that the mix stays what
//! it was however fast the server is. Both begin anew where the recording ends.
//!
//! Where in the recording a slice begins is part of its specification: servers that are compared are asked the same,
//! whatever each of them did before.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::script::Drawn;

const MILLISECOND: u64 = 1_000_000;

/// A transaction of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Execution {
    /// When it began, in nanoseconds from the recording's begin.
    pub at_ns: u64,
    /// How long it took then, its pauses included.
    pub took_ns: u64,
    /// Its script, by its place in the program.
    pub script: usize,
    /// The values of its `\draw`.
    pub row: Box<[Drawn]>,
    /// How long the client waited before each of its statements, in nanoseconds; empty where it never did.
    pub pauses_ns: Box<[u64]>,
}

impl Execution {
    /// When it ended then.
    fn end_ns(&self) -> u64 {
        self.at_ns.saturating_add(self.took_ns)
    }
}

/// When transactions begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// As they did, whatever the server does.
    #[default]
    Original,
    /// As long after the one before as they did.
    ThinkTimes,
    /// At once.
    Closed,
}

/// What is replayed, and how.
#[derive(Clone, Debug)]
pub struct Replay {
    /// Each session's transactions, in their order; the sessions in the order in which they began.
    sessions: Vec<Vec<Execution>>,
    /// The sessions of each lane, in their order.
    lanes: Vec<Vec<usize>>,
    /// The same, transaction by transaction: session and place in it.
    lane_executions: Vec<Vec<(u32, u32)>>,
    length_ns: u64,
    pace: Pace,
    speed: f64,
}

/// Which lane each session is in: the first that is free when it begins. The sessions, begin and end of each, are in the
/// order in which they begin.
pub fn lanes(sessions: &[(u64, u64)]) -> Vec<usize> {
    let mut busy: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
    let mut free: BinaryHeap<Reverse<usize>> = BinaryHeap::new();
    let mut count = 0;
    let mut of = Vec::with_capacity(sessions.len());
    for (begin, end) in sessions {
        while let Some(Reverse((until, lane))) = busy.peek().copied() {
            if until > *begin {
                break;
            }
            busy.pop();
            free.push(Reverse(lane));
        }
        let lane = match free.pop() {
            Some(Reverse(lane)) => lane,
            None => {
                count += 1;
                count - 1
            }
        };
        busy.push(Reverse(((*end).max(begin.saturating_add(1)), lane)));
        of.push(lane);
    }
    of
}

impl Replay {
    /// Of sessions, each with its transactions in their order; empty ones are left out. A speed of 2 halves all times.
    pub fn new(mut sessions: Vec<Vec<Execution>>, pace: Pace, speed: f64) -> Self {
        sessions.retain(|session| !session.is_empty());
        sessions.sort_by_key(|session| session.first().map_or(0, |first| first.at_ns));
        let spans: Vec<(u64, u64)> = sessions.iter().map(|session| span(session)).collect();
        let of = lanes(&spans);
        let mut lanes = vec![Vec::new(); of.iter().max().map_or(0, |most| most + 1)];
        for (session, lane) in of.into_iter().enumerate() {
            lanes[lane].push(session);
        }
        let lane_executions = match pace {
            Pace::Original => lanes.iter().map(|lane| flat(lane, &sessions)).collect(),
            Pace::ThinkTimes | Pace::Closed => Vec::new(),
        };
        Self {
            length_ns: length(&spans, speed),
            sessions,
            lanes,
            lane_executions,
            pace,
            speed,
        }
    }

    /// How many sessions there are.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// How many connections there were at once.
    pub fn connections(&self) -> usize {
        self.lanes.len()
    }

    /// Whether its times are those of the recording, whatever the server does.
    pub fn is_paced(&self) -> bool {
        self.pace == Pace::Original
    }

    fn scaled(&self, nanoseconds: u64) -> u64 {
        match self.pace {
            Pace::Closed => 0,
            Pace::Original | Pace::ThinkTimes => (nanoseconds as f64 / self.speed) as u64,
        }
    }
}

/// From the begin to the end, and a millisecond of the clock more: a window as long as the recording, in whole
/// milliseconds, has it once.
fn length(spans: &[(u64, u64)], speed: f64) -> u64 {
    let end = spans.iter().map(|(_, end)| *end).max().unwrap_or(0);
    let whole = end.div_ceil(MILLISECOND).saturating_mul(MILLISECOND);
    whole.saturating_add(((MILLISECOND as f64 * speed) as u64).max(1))
}

fn span(session: &[Execution]) -> (u64, u64) {
    let begin = session.first().map_or(0, |first| first.at_ns);
    let ends = session.iter().map(Execution::end_ns);
    (begin, ends.max().unwrap_or(begin))
}

fn flat(lane: &[usize], sessions: &[Vec<Execution>]) -> Vec<(u32, u32)> {
    let of = |session: &usize| {
        let number = *session as u32;
        (0..sessions[*session].len() as u32).map(move |place| (number, place))
    };
    lane.iter().flat_map(of).collect()
}

/// Where a client is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// Its session, in a closed loop.
    session: Option<u32>,
    /// Its next transaction, in the session or the lane.
    next: u32,
    /// How often the recording was over.
    round: u64,
    /// When the next one is due, in nanoseconds from the slice's begin: of a session under way then.
    due: Option<u64>,
    /// The transaction that it runs: session and place.
    runs: Option<(u32, u32)>,
    /// The command whose pause is over.
    pub paused: Option<usize>,
}

/// A replay under way.
#[derive(Debug)]
pub(super) struct Replayer {
    replay: std::sync::Arc<Replay>,
    /// Where the slice begins in the recording, in its own nanoseconds.
    position: u64,
    /// The sessions under way there, each with its next transaction, the soonest first. Clients of a closed loop take
    /// these, and then those that begin later.
    under_way: Vec<(u32, u32)>,
    /// The first session that begins later.
    later: usize,
    /// How many sessions clients have taken in the slice.
    taken: AtomicUsize,
}

impl Replayer {
    pub fn new(replay: std::sync::Arc<Replay>) -> Self {
        Self {
            replay,
            position: 0,
            under_way: Vec::new(),
            later: 0,
            taken: AtomicUsize::new(0),
        }
    }

    pub fn is_paced(&self) -> bool {
        self.replay.is_paced()
    }

    /// A slice of so many clients begins there in the recording; after its end it begins anew.
    pub fn begin(&mut self, from: Duration, clients: usize) {
        let length = u128::from(self.replay.length_ns.max(1));
        let position = (from.as_nanos() % length) as u64;
        self.position = position;
        self.under_way.clear();
        if self.is_paced() {
            return;
        }
        let sessions = &self.replay.sessions;
        self.later = sessions.partition_point(|session| span(session).0 < position);
        for (number, session) in (0..).zip(&sessions[..self.later]) {
            let next = session.partition_point(|one| one.at_ns < position);
            if next < session.len() {
                self.under_way.push((number, next as u32));
            }
        }
        let at = |found: &(u32, u32)| sessions[found.0 as usize][found.1 as usize].at_ns;
        self.under_way.sort_by_key(at);
        // Each client has its first one by its number.
        *self.taken.get_mut() = clients;
    }

    /// Puts a client where it begins the slice.
    pub fn seek(&self, place: &mut Place, client: u32) {
        *place = Place::default();
        if self.is_paced() {
            let lane = self.lane(client);
            let next = lane.partition_point(|at| self.at(*at).at_ns < self.position);
            place.next = next as u32;
        } else {
            self.enter(place, client as usize);
        }
    }

    /// Puts a client of a closed loop into the `n`-th session of the slice.
    fn enter(&self, place: &mut Place, n: usize) {
        let count = self.replay.sessions.len();
        if count == 0 {
            return;
        }
        if let Some(found) = self.under_way.get(n) {
            let left = self.at(*found).at_ns - self.position;
            place.due = Some(self.replay.scaled(left));
            (place.session, place.next) = (Some(found.0), found.1);
        } else {
            let session = (self.later + n - self.under_way.len()) % count;
            (place.session, place.next, place.due) = (Some(session as u32), 0, None);
        }
    }

    fn lane(&self, client: u32) -> &[(u32, u32)] {
        let lanes = &self.replay.lane_executions;
        lanes.get(client as usize).map_or(&[], Vec::as_slice)
    }

    fn at(&self, (session, place): (u32, u32)) -> &Execution {
        &self.replay.sessions[session as usize][place as usize]
    }

    /// The client's next transaction, and when it is to begin, `begin` being when the slice began; none where it has none.
    pub fn next(
        &self,
        place: &mut Place,
        client: u32,
        begin: u64,
        now: u64,
    ) -> Option<((u32, u32), u64)> {
        if self.is_paced() {
            let lane = self.lane(client);
            if lane.is_empty() {
                return None;
            }
            if place.next as usize >= lane.len() {
                (place.next, place.round) = (0, place.round + 1);
            }
            let found = lane[place.next as usize];
            let passed = place.round.saturating_mul(self.replay.length_ns);
            let in_recording = passed.saturating_add(self.at(found).at_ns);
            let from_here = in_recording.saturating_sub(self.position);
            return Some((found, begin.saturating_add(self.replay.scaled(from_here))));
        }
        let over =
            |session: u32| place.next as usize >= self.replay.sessions[session as usize].len();
        if place.session.is_none_or(over) {
            let n = self.taken.fetch_add(1, Ordering::Relaxed);
            self.enter(place, n);
        }
        let found = (place.session?, place.next);
        if let Some(due) = place.due {
            return Some((found, begin.saturating_add(due).max(now)));
        }
        let think = match place.next.checked_sub(1) {
            None => 0,
            Some(before) => {
                let before = self.at((found.0, before));
                self.at(found).at_ns.saturating_sub(before.end_ns())
            }
        };
        Some((found, now.saturating_add(self.replay.scaled(think))))
    }

    /// The client begins with what came next.
    pub fn take(&self, place: &mut Place, found: (u32, u32)) -> &Execution {
        place.next += 1;
        place.due = None;
        place.runs = Some(found);
        place.paused = None;
        self.at(found)
    }

    /// The transaction that a client runs.
    pub fn runs(&self, place: &Place) -> Option<&Execution> {
        place.runs.map(|found| self.at(found))
    }

    /// How long a client waits before the `n`-th statement of what it runs.
    pub fn pause(&self, place: &Place, n: usize) -> u64 {
        let pause = self.runs(place).and_then(|runs| runs.pauses_ns.get(n));
        pause.map_or(0, |pause| self.replay.scaled(*pause))
    }

    /// How many transactions of a client were to begin before `end` and have not been taken.
    pub fn missed(&self, mut place: Place, client: u32, begin: u64, end: u64, most: u64) -> u64 {
        let mut missed = 0;
        while missed < most
            && let Some((_, start)) = self.next(&mut place, client, begin, end)
            && start < end
        {
            place.next += 1;
            missed += 1;
        }
        missed
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn session(times: &[(u64, u64)]) -> Vec<Execution> {
        let one = |(at_ns, took_ns): &(u64, u64)| Execution {
            at_ns: *at_ns * MILLISECOND,
            took_ns: *took_ns * MILLISECOND,
            ..Execution::default()
        };
        times.iter().map(one).collect()
    }

    #[test]
    fn a_lane_is_used_again_when_its_session_is_over() {
        assert_eq!(lanes(&[(0, 10), (5, 20), (10, 12), (13, 30)]), [0, 1, 0, 0]);
        assert_eq!(lanes(&[(3, 3), (3, 3), (4, 4)]), [0, 1, 0]);
    }

    #[test]
    fn the_original_pace_is_kept_from_slice_to_slice_and_begins_anew() {
        let sessions = vec![
            session(&[(0, 10), (100, 10), (990, 10)]),
            session(&[(50, 10)]),
            Vec::new(),
        ];
        let replay = Arc::new(Replay::new(sessions, Pace::Original, 2.0));
        assert_eq!((replay.connections(), replay.sessions()), (2, 2));
        let mut replayer = Replayer::new(replay);
        fn starts(replayer: &Replayer, client: u32, count: usize) -> Vec<u64> {
            let mut place = Place::default();
            replayer.seek(&mut place, client);
            let one = |_| {
                let (found, start) = replayer.next(&mut place, client, 7, 7).unwrap();
                replayer.take(&mut place, found);
                (start - 7) / MILLISECOND
            };
            (0..count).map(one).collect()
        }
        assert_eq!(starts(&replayer, 0, 4), [0, 50, 495, 501]);
        assert_eq!(starts(&replayer, 1, 2), [25, 526]);
        replayer.begin(Duration::from_millis(600), 2);
        assert_eq!(starts(&replayer, 0, 2), [195, 201]);
        assert_eq!(starts(&replayer, 1, 1), [226]);
        let mut place = Place::default();
        replayer.seek(&mut place, 0);
        let end = 201 * MILLISECOND + 1;
        assert_eq!(replayer.missed(place, 0, 0, end, 99), 2);
        assert_eq!(replayer.missed(place, 9, 0, end, 99), 0);
    }

    #[test]
    fn a_closed_loop_takes_session_after_session_with_its_think_times() {
        let sessions = || {
            vec![
                session(&[(0, 10), (100, 10)]),
                session(&[(50, 10)]),
                session(&[(60, 10)]),
            ]
        };
        for (pace, thinks) in [(Pace::ThinkTimes, 45 * MILLISECOND), (Pace::Closed, 0)] {
            let mut replayer = Replayer::new(Arc::new(Replay::new(sessions(), pace, 2.0)));
            let (mut one, mut other) = (Place::default(), Place::default());
            replayer.begin(Duration::ZERO, 2);
            replayer.seek(&mut one, 0);
            replayer.seek(&mut other, 1);
            let next = |place: &mut Place| {
                let (found, start) = replayer.next(place, 0, 0, 1000).unwrap();
                replayer.take(place, found);
                (found, start)
            };
            assert_eq!(next(&mut one), ((0, 0), 1000));
            assert_eq!(next(&mut other), ((1, 0), 1000));
            assert_eq!(next(&mut one), ((0, 1), 1000 + thinks));
            assert_eq!(next(&mut other), ((2, 0), 1000));
            assert_eq!(next(&mut other), ((0, 0), 1000), "from the beginning");
        }
    }

    /// What each of so many clients runs in a slice that begins there, until a time.
    fn slice(replayer: &mut Replayer, from_ms: u64, clients: u32) -> Vec<Vec<((u32, u32), u64)>> {
        replayer.begin(Duration::from_millis(from_ms), clients as usize);
        let mut places = vec![Place::default(); clients as usize];
        for (client, place) in (0..).zip(&mut places) {
            replayer.seek(place, client);
        }
        let (begin, mut ran) = (5 * MILLISECOND, vec![Vec::new(); clients as usize]);
        for _ in 0..3 {
            for (client, place) in (0..).zip(&mut places) {
                let now = begin;
                let (found, start) = replayer.next(place, client, begin, now).unwrap();
                replayer.take(place, found);
                ran[client as usize].push((found, (start - begin) / MILLISECOND));
            }
        }
        ran
    }

    #[test]
    fn a_slice_is_the_same_whatever_its_engine_did_before() {
        let sessions = || {
            let every = |from: u64| (from..from + 9).map(|n| (n * 100, 10)).collect::<Vec<_>>();
            vec![session(&every(0)), session(&every(1)), session(&every(7))]
        };
        for pace in [Pace::Original, Pace::ThinkTimes, Pace::Closed] {
            let replay = Arc::new(Replay::new(sessions(), pace, 1.0));
            let (mut one, mut other) =
                (Replayer::new(replay.clone()), Replayer::new(replay.clone()));
            for from in [0, 350, 700] {
                slice(&mut one, from, 2);
            }
            let (one, other) = (slice(&mut one, 850, 2), slice(&mut other, 850, 2));
            assert_eq!(one, other, "{pace:?}");
            let first = slice(&mut Replayer::new(replay), 0, 2);
            assert_ne!(one, first, "{pace:?}");
        }
    }

    #[test]
    fn a_think_time_longer_than_a_slice_goes_on_in_the_next_one() {
        let sessions = vec![
            session(&[(0, 10), (100_000, 10)]),
            session(&[(200_000, 10)]),
        ];
        let mut replayer = Replayer::new(Arc::new(Replay::new(sessions, Pace::ThinkTimes, 2.0)));
        let mut first = |from_ms: u64| slice(&mut replayer, from_ms, 1)[0][0];
        assert_eq!(first(0), ((0, 0), 0));
        assert_eq!(first(2_000), ((0, 1), 49_000));
        assert_eq!(first(98_000), ((0, 1), 1_000));
        assert_eq!(first(100_001), ((1, 0), 0), "the next session begins");
    }
}

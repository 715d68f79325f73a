//! Another machine's clock, as far as round trips tell.
//!
//! What the other side's clock shows is asked for several times. In the shortest round trip the answer
//! was given at its middle, give or take half of it: so NTP does it, and so far the estimate can be wrong.

use rustix::time::{ClockId, clock_gettime};

/// By how much two clocks may drift apart in a nanosecond: a crystal is better, and slewed clocks are as far off as this.
const DRIFT: f64 = 1e-4;
/// After so long an estimate is made anew, in nanoseconds.
const FRESH_NS: u64 = 10_000_000_000;

/// This machine's monotonic clock, in nanoseconds.
pub(super) fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// A question and its answer: what the clock here showed before and after, and the other between.
#[derive(Debug, Clone, Copy)]
pub(super) struct RoundTrip {
    pub asked: u64,
    pub theirs: u64,
    pub answered: u64,
}

/// How another clock stands against this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Offset {
    /// What the other shows more, in nanoseconds.
    ahead: i64,
    /// By how much that can be wrong.
    error: u64,
    /// When it was estimated, on the clock here.
    at: u64,
}

impl Offset {
    /// The estimate of the shortest round trip; none without any.
    pub fn best(trips: &[RoundTrip]) -> Option<Self> {
        let took = |trip: &RoundTrip| trip.answered.saturating_sub(trip.asked);
        let best = trips.iter().min_by_key(|trip| took(trip))?;
        let half = took(best).div_ceil(2);
        let middle = best.asked.saturating_add(half);
        Some(Self {
            ahead: best.theirs.wrapping_sub(middle) as i64,
            error: half,
            at: best.answered,
        })
    }

    /// Whether it is too old to go by.
    pub fn is_stale(&self, now: u64) -> bool {
        now.saturating_sub(self.at) > FRESH_NS
    }

    /// By how much it can be wrong now.
    pub fn error(&self, now: u64) -> u64 {
        self.error + (now.saturating_sub(self.at) as f64 * DRIFT) as u64
    }

    /// What the other clock shows when this one shows `ours`.
    pub fn theirs(&self, ours: u64) -> u64 {
        ours.wrapping_add_signed(self.ahead)
    }

    /// What this clock shows when the other one shows `theirs`.
    pub fn ours(&self, theirs: u64) -> u64 {
        theirs.wrapping_sub(self.ahead as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine whose clock is `ahead`, over a way of so many nanoseconds there and back.
    fn trip(asked: u64, ahead: i64, there: u64, back: u64) -> RoundTrip {
        RoundTrip {
            asked,
            theirs: (asked + there).wrapping_add_signed(ahead),
            answered: asked + there + back,
        }
    }

    #[test]
    fn the_shortest_round_trip_decides_and_its_half_bounds_the_error() {
        for ahead in [-7_000_000_000i64, 0, 42, 1 << 40] {
            let start = 1u64 << 42;
            let trips = [
                trip(start, ahead, 900_000, 100_000),
                trip(start + 10_000_000, ahead, 60_000, 40_000),
                trip(start + 20_000_000, ahead, 2_000_000, 10_000),
            ];
            let offset = Offset::best(&trips).expect("an estimate");
            let at = start + 30_000_000;
            let truth = at.wrapping_add_signed(ahead);
            assert!(offset.theirs(at).abs_diff(truth) <= 50_000, "{ahead}");
            assert_eq!(offset.error, 50_000);
            assert_eq!(offset.ours(offset.theirs(at)), at);
        }
        assert_eq!(Offset::best(&[]), None);
    }

    #[test]
    fn an_estimate_ages() {
        let offset = Offset::best(&[trip(0, 5, 1_000, 1_000)]).expect("an estimate");
        assert_eq!(offset.error(2_000), 1_000);
        assert_eq!(offset.error(1_000_002_000), 101_000);
        assert!(!offset.is_stale(9_000_000_000));
        assert!(offset.is_stale(11_000_000_000));
    }
}

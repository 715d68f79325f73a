//! When transactions are meant to start.
//!
//! A schedule yields one intended start after the other and never leaves one out: where the server
//! falls behind, the starts it missed are made up late, and their latency counts from when they were
//! meant to be. (Leaving them out is coordinated omission: the worst moments would be the ones not
//! measured.)

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::script::Random;

/// When transactions start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum Schedule {
    /// Each client starts its next transaction when the last one has ended.
    #[default]
    Closed,
    /// So many a second over all clients, whatever the server does.
    Paced {
        /// starts a second
        per_second: f64,
        /// how the gaps between them vary
        gaps: Gaps,
    },
    /// A rate that grows or falls evenly, over all clients, whatever the server does; the gaps are exponential.
    Ramp {
        /// starts a second until the ramp begins
        from: f64,
        /// starts a second from its end on
        to: f64,
        /// when it begins, from the start of the slice
        after: Duration,
        /// how long it is
        over: Duration,
    },
    /// So many at once, again and again.
    Burst {
        /// starts at one time
        size: u32,
        /// time from one burst to the next
        every: Duration,
    },
}

/// How the gaps between paced starts vary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Gaps {
    /// As independent users arrive (a Poisson process), and as pgbench's `--rate` does.
    #[default]
    Exponential,
    /// All the same.
    Fixed,
}

/// The mean of the gaps of a process that is stretched over a ramp, so that they are drawn finely enough.
const UNIT: f64 = 1e12;

/// One thread's share of a schedule that is not closed. Times are in nanoseconds of the engine's
/// clock.
#[derive(Debug)]
pub(super) struct Starts {
    kind: Kind,
    random: Random,
}

#[derive(Debug)]
enum Kind {
    Exponential {
        at: u64,
        mean: f64,
    },
    Fixed {
        begin: u64,
        count: u64,
        gap: f64,
    },
    Burst {
        begin: u64,
        count: u64,
        size: u64,
        every: u64,
    },
    Ramp {
        begin: u64,
        /// Starts that were expected until the last one.
        due: f64,
        ramp: Ramp,
    },
}

/// A rate over time. A Poisson process of rate 1 over the expected number of starts is one of this rate over time.
#[derive(Debug)]
struct Ramp {
    /// Starts a nanosecond.
    from: f64,
    to: f64,
    /// Nanoseconds.
    after: f64,
    over: f64,
}

impl Ramp {
    /// When so many starts are expected.
    fn when(&self, due: f64) -> f64 {
        let before = self.from * self.after;
        if due < before {
            return due / self.from;
        }
        let rest = due - before;
        let within = 0.5 * (self.from + self.to) * self.over;
        if rest > within {
            return self.after + self.over + (rest - within) / self.to;
        }
        // The root of from·x + slope·x²/2 = rest, in the form that loses no digits where the slope is small.
        let slope = (self.to - self.from) / self.over;
        let root = (self.from * self.from + 2.0 * slope * rest).max(0.0).sqrt();
        self.after + 2.0 * rest / (self.from + root)
    }

    /// How many starts are expected until then.
    fn due(&self, at: f64) -> f64 {
        let within = (at - self.after).clamp(0.0, self.over);
        let slope = (self.to - self.from) / self.over;
        self.from * at.min(self.after)
            + (self.from + 0.5 * slope * within) * within
            + self.to * (at - self.after - self.over).max(0.0)
    }
}

impl Starts {
    /// The share of thread `thread` of `threads`, from `begin` on; `None` for a closed loop.
    pub fn new(
        schedule: Schedule,
        thread: usize,
        threads: usize,
        begin: u64,
        random: Random,
    ) -> Option<Self> {
        let kind = match schedule {
            Schedule::Closed => return None,
            Schedule::Paced { per_second, gaps } => {
                let gap = threads as f64 * 1e9 / per_second;
                match gaps {
                    Gaps::Exponential => Kind::Exponential {
                        at: begin,
                        mean: gap,
                    },
                    Gaps::Fixed => {
                        // The threads take turns.
                        let offset = (gap * thread as f64 / threads as f64) as u64;
                        Kind::Fixed {
                            begin: begin + offset,
                            count: 0,
                            gap,
                        }
                    }
                }
            }
            Schedule::Ramp {
                from,
                to,
                after,
                over,
            } => {
                let share = threads as f64 * 1e9;
                Kind::Ramp {
                    begin,
                    due: 0.0,
                    ramp: Ramp {
                        from: from / share,
                        to: to / share,
                        after: after.as_nanos() as f64,
                        over: (over.as_nanos() as f64).max(1.0),
                    },
                }
            }
            Schedule::Burst { size, every } => {
                let share = (size as usize + threads - 1 - thread) / threads;
                Kind::Burst {
                    begin,
                    count: 0,
                    size: share as u64,
                    every: every.as_nanos().max(1) as u64,
                }
            }
        };
        Some(Starts { kind, random })
    }

    /// The next intended start; `u64::MAX` where this thread has none.
    pub fn next(&mut self) -> u64 {
        match &mut self.kind {
            Kind::Exponential { at, mean } => {
                *at = at.saturating_add(self.random.poisson_gap(*mean).max(0) as u64);
                *at
            }
            Kind::Fixed { begin, count, gap } => {
                // From the count, so that rounding does not add up.
                let start = *begin + (*count as f64 * *gap) as u64;
                *count += 1;
                start
            }
            Kind::Ramp { begin, due, ramp } => {
                *due += self.random.poisson_gap(UNIT) as f64 / UNIT;
                begin.saturating_add(ramp.when(*due) as u64)
            }
            Kind::Burst { size: 0, .. } => u64::MAX,
            Kind::Burst {
                begin,
                count,
                size,
                every,
            } => {
                let start = *begin + *count / *size * *every;
                *count += 1;
                start
            }
        }
    }

    /// Leaves out those before a time that have not been asked for yet.
    pub fn skip_to(&mut self, time: u64) {
        match &mut self.kind {
            // What comes next does not depend on what was.
            Kind::Exponential { at, .. } => *at = time.max(*at),
            Kind::Fixed { begin, count, gap } => {
                let missed = time.saturating_sub(*begin) as f64 / *gap;
                *count = (missed.ceil() as u64).max(*count);
            }
            Kind::Ramp { begin, due, ramp } => {
                *due = ramp.due(time.saturating_sub(*begin) as f64).max(*due);
            }
            Kind::Burst {
                begin,
                count,
                size,
                every,
            } => {
                let missed = time.saturating_sub(*begin).div_ceil(*every);
                *count = missed.saturating_mul(*size).max(*count);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn starts(schedule: Schedule, threads: usize, until: u64) -> Vec<u64> {
        let mut all = Vec::new();
        for thread in 0..threads {
            let random = Random::new(thread as u64);
            let mut starts = Starts::new(schedule, thread, threads, 1_000, random).unwrap();
            loop {
                let start = starts.next();
                if start >= until {
                    break;
                }
                all.push(start);
            }
        }
        all.sort_unstable();
        all
    }

    const MINUTE: u64 = 60_000_000_000;

    #[test]
    fn the_rate_is_the_sum_over_threads() {
        for gaps in [Gaps::Exponential, Gaps::Fixed] {
            let n = starts(
                Schedule::Paced {
                    per_second: 2_000.0,
                    gaps,
                },
                3,
                MINUTE,
            )
            .len() as f64;
            // 120,000 expected; four standard deviations of a Poisson count are 1,386.
            assert!((n - 120_000.0).abs() < 1_400.0, "{gaps:?}: {n}");
        }
    }

    #[test]
    fn fixed_gaps_are_even_over_all_threads() {
        let all = starts(
            Schedule::Paced {
                per_second: 1_000.0,
                gaps: Gaps::Fixed,
            },
            4,
            1_000 + 1_000_000_000,
        );
        assert_eq!(all.len(), 1_000);
        assert!(
            all.windows(2)
                .all(|pair| (pair[1] - pair[0]).abs_diff(1_000_000) <= 1)
        );
    }

    #[test]
    fn exponential_gaps_have_an_exponential_spread() {
        let all = starts(
            Schedule::Paced {
                per_second: 1_000.0,
                gaps: Gaps::Exponential,
            },
            1,
            MINUTE,
        );
        let gaps: Vec<f64> = all
            .windows(2)
            .map(|pair| (pair[1] - pair[0]) as f64)
            .collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let above = gaps.iter().filter(|g| **g > mean).count() as f64 / gaps.len() as f64;
        assert!((above - (-1f64).exp()).abs() < 0.01, "{above}");
    }

    fn ramp(from: f64, to: f64) -> Schedule {
        Schedule::Ramp {
            from,
            to,
            after: Duration::from_secs(10),
            over: Duration::from_secs(40),
        }
    }

    #[test]
    fn a_ramp_keeps_its_rate_at_every_moment() {
        const SECOND: u64 = 1_000_000_000;
        for (from, to) in [(500.0, 4_000.0), (4_000.0, 500.0), (1_000.0, 1_000.0)] {
            let all = starts(ramp(from, to), 3, 1_000 + MINUTE);
            assert!(all.iter().all(|start| *start >= 1_000));
            // Five seconds each; the rate in the middle is the mean of a straight line.
            for part in 0..12u64 {
                let middle = part as f64 * 5.0 + 2.5;
                let rate = from + (to - from) * ((middle - 10.0) / 40.0).clamp(0.0, 1.0);
                let within = 1_000 + part * 5 * SECOND..1_000 + (part + 1) * 5 * SECOND;
                let n = all.iter().filter(|start| within.contains(start)).count() as f64;
                let expected = 5.0 * rate;
                // Five standard deviations of a Poisson count.
                assert!(
                    (n - expected).abs() < 5.0 * expected.sqrt(),
                    "{from}..{to}, part {part}: {n}, not {expected}"
                );
            }
        }
    }

    #[test]
    fn what_is_due_when_is_due_then() {
        for (from, to) in [
            (1e-9, 1e-5),
            (1e-5, 1e-9),
            (2e-6, 2e-6),
            (1e-6, 1.000_001e-6),
        ] {
            let ramp = Ramp {
                from,
                to,
                after: 1e9,
                over: 5e9,
            };
            for at in [0.0, 1.0, 9.9e8, 1e9, 1.1e9, 3e9, 5.999e9, 6e9, 7e9, 1e12] {
                let back = ramp.when(ramp.due(at));
                assert!(
                    (back - at).abs() <= 1e-6 * at + 1.0,
                    "{from}..{to}: {at}, {back}"
                );
            }
        }
    }

    #[test]
    fn those_before_a_time_are_left_out_and_no_others() {
        let fixed = Schedule::Paced {
            per_second: 1_000.0,
            gaps: Gaps::Fixed,
        };
        let paced = Schedule::Paced {
            per_second: 1_000.0,
            gaps: Gaps::Exponential,
        };
        let burst = Schedule::Burst {
            size: 7,
            every: Duration::from_millis(100),
        };
        for schedule in [fixed, paced, burst, ramp(900.0, 1_100.0)] {
            let mut starts = Starts::new(schedule, 0, 1, 1_000, Random::new(3)).unwrap();
            starts.next();
            let time = 1_000 + 20_000_000_000;
            starts.skip_to(time);
            let begun = starts.next();
            let gap = begun.checked_sub(time);
            // 100 ms for the bursts; e^-50 for the others.
            assert!(
                gap.is_some_and(|gap| gap <= 100_000_000),
                "{schedule:?}: {gap:?}"
            );
            let next = starts.next();
            starts.skip_to(time);
            assert!(starts.next() >= next, "{schedule:?}");
        }
    }

    #[test]
    fn bursts_come_whole_and_on_time() {
        let schedule = Schedule::Burst {
            size: 10,
            every: Duration::from_millis(100),
        };
        let all = starts(schedule, 3, 1_000 + 300_000_000);
        assert_eq!(all.len(), 30);
        for (burst, starts) in all.chunks(10).enumerate() {
            assert!(
                starts
                    .iter()
                    .all(|s| *s == 1_000 + burst as u64 * 100_000_000)
            );
        }
    }
}

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

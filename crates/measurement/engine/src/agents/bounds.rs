//! How much a near side may have an agent do: it may be somebody else's, and what it asks for is this
//! machine's memory and time.

use std::io;
use std::time::Duration;

use pgassay_load::{Length, Schedule, SliceSpec};
use pgassay_model::Plan;

use super::message::{Preparation, Refusal};

/// Loads that are prepared at the same time.
pub(super) const MOST_LOADS: usize = 64;
/// Bytes of the plans of all of them, as they are sent.
pub(super) const MOST_BYTES: usize = 16 << 20;
/// Clients of all of them.
pub(super) const MOST_CLIENTS: u32 = 1 << 16;
/// Bytes of memory that all of them may need beyond that, while the one that needs most is at work.
pub(super) const MOST_MEMORY: u64 = 2 << 30;
/// Threads of one.
const MOST_THREADS: u32 = 4096;

/// The longest window or warm-up.
const LONGEST: Duration = Duration::from_secs(7 * 86_400);
/// The parts in which a window is counted.
const MOST_PARTS: u128 = 1_000_000;
/// The shortest part of a window whose end is not known beforehand.
const SHORTEST_PART: Duration = Duration::from_secs(1);
/// How often somebody may want to hear how far a slice is.
const OFTEN: Duration = Duration::from_millis(1);
/// Starts a second: more than one machine makes.
const FASTEST: f64 = 1e9;
/// Clients of all machines together.
const MOST_OF_ALL: u32 = 1 << 24;

/// The bytes of what is to be prepared.
///
/// # Errors
/// Where it can be no measurement's.
pub(super) fn of_preparation(preparation: &Preparation) -> Result<usize, Refusal> {
    if !is_possible(&preparation.plan) {
        return Err(Refusal::other(
            "its plan has a latency limit, or threads, that no measurement has",
        ));
    }
    let mut size = Size(0);
    serde_json::to_writer(&mut size, preparation).map_err(Refusal::other)?;
    match size.0 <= MOST_BYTES {
        true => Ok(size.0),
        false => Err(too_much("the plan", MOST_BYTES, "bytes")),
    }
}

/// It was asked for more than there may be.
pub(super) fn too_much(what: &str, most: impl std::fmt::Display, of: &str) -> Refusal {
    Refusal::other(format!(
        "{what} is too much for a machine that gives load: at most {most} {of} in all"
    ))
}

fn is_possible(plan: &Plan) -> bool {
    let limit = plan.workload.dials.latency_limit_ms;
    let limit = limit.is_none_or(|ms| (0.0..=LONGEST.as_secs_f64() * 1e3).contains(&ms));
    limit
        && plan
            .points
            .iter()
            .all(|point| point.threads <= MOST_THREADS)
}

/// Whether a slice takes no more memory and time than a measurement does.
pub(super) fn is_sound(spec: &SliceSpec) -> bool {
    let interval = spec.interval.map(|interval| interval.as_nanos().max(1));
    let kept = interval.unwrap_or(0) * u128::from(spec.keep.max(1));
    let (time, in_parts) = match spec.length {
        Length::Time(time) => (time, interval.map_or(0, |each| time.as_nanos() / each)),
        Length::Transactions(_) => {
            let fine = interval.is_some_and(|each| each < SHORTEST_PART.as_nanos());
            (Duration::ZERO, if fine { u128::MAX } else { 0 })
        }
    };
    let times = [time, spec.warmup, spec.replay_from];
    let often = [spec.tick, spec.follow];
    let share = spec.share.is_none_or(|share| {
        share.clients <= MOST_OF_ALL
            && share.first_client <= share.clients
            && share.first_thread <= share.clients
    });
    times.into_iter().all(|time| time <= LONGEST)
        && in_parts <= MOST_PARTS
        && kept <= LONGEST.as_nanos()
        && often.into_iter().flatten().all(|time| time >= OFTEN)
        && share
        && can_be_kept(&spec.schedule)
}

fn can_be_kept(schedule: &Schedule) -> bool {
    match schedule {
        Schedule::Closed => true,
        // Nothing is written as 0, which never comes.
        Schedule::Paced { per_second, .. } => (0.0..=FASTEST).contains(per_second),
        Schedule::Ramp {
            from,
            to,
            after,
            over,
        } => {
            let kept = |rate: &f64| (0.0..=FASTEST).contains(rate);
            [from, to].into_iter().all(kept) && *after <= LONGEST && *over <= LONGEST
        }
        Schedule::Burst { every, .. } => (OFTEN..=LONGEST).contains(every),
    }
}

/// Counts what is written.
struct Size(usize);

impl io::Write for Size {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.saturating_add(bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use pgassay_load::{Gaps, Share};
    use pgassay_model::point::Point;

    use super::*;

    /// Lengths of time from none to the longest that can be written, and those that are used.
    const TIMES: [Duration; 9] = [
        Duration::ZERO,
        Duration::from_nanos(1),
        Duration::from_millis(1),
        Duration::from_millis(100),
        Duration::from_secs(1),
        Duration::from_secs(60),
        Duration::from_secs(7 * 86_400),
        Duration::from_secs(u32::MAX as u64),
        Duration::MAX,
    ];
    const NUMBERS: [u32; 6] = [0, 1, 100, 1 << 16, 1 << 25, u32::MAX];
    const RATES: [f64; 7] = [-1.0, 0.0, 1e-300, 1000.0, 1e12, f64::INFINITY, f64::NAN];

    /// What is taken takes part in sums and products of nanoseconds, none of which may overflow, and in
    /// loops, each of which has to end.
    #[test]
    fn of_absurd_slices_only_those_are_taken_that_can_be_counted() {
        let schedules = |every: Duration, size: u32, per_second: f64| {
            let gaps = Gaps::Exponential;
            [
                Schedule::Closed,
                Schedule::Paced { per_second, gaps },
                Schedule::Ramp {
                    from: per_second,
                    to: 1.0,
                    after: every,
                    over: every,
                },
                Schedule::Burst { size, every },
            ]
        };
        let (mut taken, mut all) = (0, 0);
        for length in TIMES
            .map(Length::Time)
            .into_iter()
            .chain([Length::Transactions(u64::MAX)])
        {
            for interval in TIMES.map(Some).into_iter().chain([None]) {
                for keep in NUMBERS {
                    for (at, time) in TIMES.into_iter().enumerate() {
                        for schedule in schedules(time, keep, RATES[at % RATES.len()]) {
                            let spec = SliceSpec {
                                length,
                                interval,
                                keep,
                                schedule,
                                warmup: time,
                                follow: (at % 2 == 0).then_some(time),
                                share: Some(Share {
                                    first_client: keep / 2,
                                    clients: keep,
                                    first_thread: 0,
                                }),
                                ..SliceSpec::default()
                            };
                            all += 1;
                            if !is_sound(&spec) {
                                continue;
                            }
                            taken += 1;
                            let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap();
                            let interval = nanos(interval.unwrap_or_default());
                            interval.checked_mul(u64::from(keep)).unwrap();
                            let window = match length {
                                Length::Time(time) => nanos(time),
                                Length::Transactions(_) => 0,
                            };
                            let end = nanos(time).checked_add(window).unwrap();
                            end.checked_add(1 << 62).unwrap();
                            assert!(window / interval.max(1) <= 1_000_000 || interval == 0);
                        }
                    }
                }
            }
        }
        assert!(taken > 0 && taken < all, "{taken} of {all}");
        assert!(is_sound(&SliceSpec::default()));
    }

    #[test]
    fn a_plan_that_no_measurement_has_is_refused() {
        let of = |limit: Option<f64>, threads: u32| {
            let mut plan = Plan::default();
            plan.workload.dials.latency_limit_ms = limit;
            plan.points.push(Point {
                clients: 1,
                threads,
                variant: 0,
            });
            is_possible(&plan)
        };
        assert!(of(None, 1) && of(Some(0.0), 64) && of(Some(250.0), 1));
        for limit in [-1.0, -1e-9, 1e300, f64::INFINITY, f64::NAN] {
            assert!(!of(Some(limit), 1), "{limit}");
        }
        assert!(!of(None, u32::MAX));
    }
}

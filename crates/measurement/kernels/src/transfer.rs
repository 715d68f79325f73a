//! What a cache line takes from one CPU to another: two threads, each on its CPU, hand a word to and fro.
//!
//! Each pair gets pages of its own, several one after the other, since where a line's home lies can decide
//! (nviennot/core-to-core-latency#156). A round is as many hand-overs as give the clock no share; the time
//! of one hand-over is half a round trip. The median over rounds is what is told, with the quartiles.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pgassay_sys::affinity::pin_current_thread;
use pgassay_sys::stop::Stop;
use serde::{Deserialize, Serialize};

use crate::placement::Cpu;
use crate::trial::KernelError;

/// Hand-overs there and back in a round.
const TRIPS: u64 = 500;
/// Rounds of a pair, on as many pages.
const ROUNDS: usize = 30;
/// A pair that takes longer than this gives what it has: a CPU may be taken from it at any time.
const PATIENCE: Duration = Duration::from_secs(3);
/// Turns between two looks at whether the other one has given up.
const TURNS: u32 = 1 << 14;

/// The times between all pairs of CPUs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CoreToCore {
    /// The CPUs, and where they are.
    pub cpus: Vec<Cpu>,
    /// Each pair once.
    pub pairs: Vec<Pair>,
}

/// The time between two CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pair {
    /// One CPU's number.
    pub a: usize,
    /// The other's.
    pub b: usize,
    /// Nanoseconds of one hand-over, one way: the median over rounds.
    pub ns: f64,
    /// A quarter of the rounds took at most this.
    pub lower_ns: f64,
    /// And a quarter at least this.
    pub upper_ns: f64,
    /// Rounds.
    pub rounds: usize,
}

/// Hears how many of the pairs are done.
pub type Progress<'a> = &'a mut dyn FnMut(usize, usize);

/// Measures every pair of these CPUs.
///
/// # Errors
/// If a thread can't be had or pinned, or a stop was asked for before the first pair was done; after it
/// what there is is given back.
pub fn core_to_core(
    cpus: &[Cpu],
    stop: &Stop,
    progress: Progress<'_>,
) -> Result<CoreToCore, KernelError> {
    let pairs: Vec<(usize, usize)> = cpus
        .iter()
        .enumerate()
        .flat_map(|(i, a)| cpus[i + 1..].iter().map(move |b| (a.cpu, b.cpu)))
        .collect();
    let mut measured = Vec::with_capacity(pairs.len());
    for (done, &(a, b)) in pairs.iter().enumerate() {
        progress(done, pairs.len());
        match pair(a, b, stop)? {
            Some(pair) => measured.push(pair),
            None if stop.asked() => break,
            None => {}
        }
    }
    if measured.is_empty() && stop.asked() {
        return Err(KernelError::Interrupted);
    }
    Ok(CoreToCore {
        cpus: cpus.to_vec(),
        pairs: measured,
    })
}

/// A word alone on its page.
#[repr(align(4096))]
struct Page(AtomicU64);

/// `None` if no round came to an end.
fn pair(a: usize, b: usize, stop: &Stop) -> Result<Option<Pair>, KernelError> {
    let pages: Vec<Page> = (0..=ROUNDS).map(|_| Page(AtomicU64::new(0))).collect();
    let given_up = AtomicBool::new(false);
    let until = Instant::now() + PATIENCE;
    let rounds = std::thread::scope(|scope| {
        let answering = std::thread::Builder::new()
            .spawn_scoped(scope, || -> Result<(), KernelError> {
                let pinned = pin(b);
                if pinned.is_err() {
                    given_up.store(true, Ordering::Relaxed);
                }
                pinned?;
                for page in &pages {
                    for trip in 0..TRIPS {
                        if !await_word(&page.0, 2 * trip + 1, &given_up) {
                            return Ok(());
                        }
                        page.0.store(2 * trip + 2, Ordering::Release);
                    }
                }
                Ok(())
            })
            .map_err(|error| KernelError::NoThread {
                number: 2,
                threads: 2,
                error,
            })?;
        let asking =
            std::thread::Builder::new().spawn_scoped(scope, || -> Result<Vec<f64>, KernelError> {
                let pinned = pin(a);
                let mut rounds = Vec::with_capacity(ROUNDS);
                if pinned.is_ok() {
                    // The first page is not counted: both have to arrive.
                    for (number, page) in pages.iter().enumerate() {
                        if stop.asked() || Instant::now() > until {
                            break;
                        }
                        let began = Instant::now();
                        if !ask(&page.0, &given_up, until) {
                            break;
                        }
                        if number > 0 {
                            rounds.push(began.elapsed().as_nanos() as f64 / (2 * TRIPS) as f64);
                        }
                    }
                }
                given_up.store(true, Ordering::Relaxed);
                pinned.map(|()| rounds)
            });
        let asking = asking.map_err(|error| {
            given_up.store(true, Ordering::Relaxed);
            KernelError::NoThread {
                number: 1,
                threads: 2,
                error,
            }
        })?;
        let rounds = joined(asking);
        joined(answering)?;
        rounds
    })?;
    Ok(summary(a, b, rounds))
}

fn joined<T>(thread: std::thread::ScopedJoinHandle<'_, T>) -> T {
    thread
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn pin(cpu: usize) -> Result<(), KernelError> {
    pin_current_thread(&[cpu]).map_err(|error| KernelError::NotPinned { cpu, error })
}

/// One round; whether it came to its end.
fn ask(word: &AtomicU64, given_up: &AtomicBool, until: Instant) -> bool {
    for trip in 0..TRIPS {
        word.store(2 * trip + 1, Ordering::Release);
        if !await_word(word, 2 * trip + 2, given_up) || (trip % 64 == 63 && Instant::now() > until)
        {
            return false;
        }
    }
    true
}

/// Waits for a value; not if the other one has given up.
fn await_word(word: &AtomicU64, value: u64, given_up: &AtomicBool) -> bool {
    let mut turns = 0u32;
    while word.load(Ordering::Acquire) != value {
        std::hint::spin_loop();
        turns += 1;
        if turns == TURNS {
            turns = 0;
            if given_up.load(Ordering::Relaxed) {
                return word.load(Ordering::Acquire) == value;
            }
            // The other may need this CPU: two threads on one, or a machine that is busy.
            std::thread::yield_now();
        }
    }
    true
}

fn summary(a: usize, b: usize, mut rounds: Vec<f64>) -> Option<Pair> {
    rounds.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let place = (rounds.len().checked_sub(1)?) as f64 * share;
        let (low, high) = (
            rounds[place.floor() as usize],
            rounds[place.ceil() as usize],
        );
        Some(low + (high - low) * place.fract())
    };
    Some(Pair {
        a,
        b,
        ns: at(0.5)?,
        lower_ns: at(0.25)?,
        upper_ns: at(0.75)?,
        rounds: rounds.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_is_measured_once() {
        let cpus = crate::placement::here().unwrap();
        let few = &cpus[..cpus.len().min(3)];
        let mut heard = 0;
        let map = core_to_core(few, &Stop::new(), &mut |_, _| heard += 1).unwrap();
        assert_eq!(heard, few.len() * (few.len() - 1) / 2);
        assert_eq!(map.pairs.len(), heard);
        for pair in &map.pairs {
            assert!(
                pair.lower_ns <= pair.ns && pair.ns <= pair.upper_ns,
                "{pair:?}"
            );
            assert!(pair.ns > 0.0 && pair.rounds > 0, "{pair:?}");
        }
    }

    #[test]
    fn two_threads_on_one_cpu_come_to_an_end() {
        let cpu = crate::placement::here().unwrap()[0].cpu;
        // Each hand-over then waits for the scheduler; what does not end is left out.
        let _ = pair(cpu, cpu, &Stop::new()).unwrap();
    }

    #[test]
    fn a_cpu_that_is_not_there_is_named() {
        let error = pair(0, 1022, &Stop::new()).unwrap_err();
        assert!(error.to_string().contains("CPU 1022"), "{error}");
    }

    #[test]
    fn quartiles_are_of_the_rounds() {
        let pair = summary(0, 1, vec![4.0, 1.0, 3.0, 2.0, 5.0]).unwrap();
        assert_eq!((pair.lower_ns, pair.ns, pair.upper_ns), (2.0, 3.0, 4.0));
        assert_eq!(summary(0, 1, vec![]), None);
    }
}

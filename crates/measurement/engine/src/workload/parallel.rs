//! Work on a server divided among several connections.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::Builder;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};

use pgassay_model::Failure;
use pgassay_pgwire::{Connector, Session};
use pgassay_sys::stop::Stop;

/// Backends that write at once, at most: beyond that they wait for each other's WAL.
const MOST_WORKERS: usize = 8;
/// How often progress is told.
const TICK: Duration = Duration::from_millis(25);

/// How far the work has come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Loaded {
    /// Rows sent.
    pub rows: u64,
    /// Rows to be sent.
    pub all: u64,
    /// Since the beginning.
    pub elapsed: Duration,
}

impl Loaded {
    /// How long the rest takes at the pace so far.
    pub fn left(&self) -> Option<Duration> {
        (self.rows > 0).then(|| {
            let each = self.elapsed.as_secs_f64() / self.rows as f64;
            Duration::from_secs_f64(each * self.all.saturating_sub(self.rows) as f64)
        })
    }
}

/// How many connections do so many jobs on so many processors: two for each, since one of them
/// waits for the WAL to reach the disk about as long as it computes.
pub fn workers(jobs: usize, processors: usize) -> usize {
    (2 * processors).clamp(2, MOST_WORKERS).min(jobs.max(1))
}

/// What a job sees of the whole.
pub struct Underway<'a> {
    rows: AtomicU64,
    failed: AtomicBool,
    next: AtomicUsize,
    stop: &'a Stop,
}

impl Underway<'_> {
    /// Counts rows that were sent.
    pub fn sent(&self, rows: u64) {
        self.rows.fetch_add(rows, Ordering::Relaxed);
    }

    /// Whether the work is to be left as it is: a stop was asked for, or another job has failed.
    pub fn must_end(&self) -> bool {
        self.stop.asked() || self.failed.load(Ordering::Relaxed)
    }
}

/// Does one job; says how many rows it wrote.
pub type DoJob<'a, T> = &'a (dyn Fn(&mut Session, &T, &Underway<'_>) -> anyhow::Result<u64> + Sync);

/// Jobs, and how each is done.
#[derive(Clone, Copy)]
pub struct Work<'a, T> {
    /// Makes the connections.
    pub connector: &'a Connector,
    /// How many.
    pub workers: usize,
    /// What is to be done, in this order.
    pub jobs: &'a [T],
    /// Does one of them.
    pub job: DoJob<'a, T>,
    /// What each connection does when no job is left.
    pub last: &'a (dyn Fn(&mut Session) -> anyhow::Result<()> + Sync),
    /// Rows of all jobs.
    pub rows: u64,
}

impl<T: Sync> Work<'_, T> {
    /// Does all jobs; says how many rows they wrote.
    ///
    /// # Errors
    /// The first of theirs, or that a stop was asked for; what was done stays.
    pub fn run(&self, progress: &mut dyn FnMut(Loaded), stop: &Stop) -> anyhow::Result<u64> {
        let underway = Underway {
            rows: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            next: AtomicUsize::new(0),
            stop,
        };
        let begin = Instant::now();
        let outcomes: Vec<anyhow::Result<u64>> = std::thread::scope(|scope| {
            let load = || {
                let outcome = self.work(&underway);
                if outcome.is_err() {
                    underway.failed.store(true, Ordering::Relaxed);
                }
                outcome
            };
            let mut threads = Vec::new();
            for _ in 0..self.workers.clamp(1, self.jobs.len().max(1)) {
                match Builder::new().spawn_scoped(scope, load) {
                    Ok(thread) => threads.push(thread),
                    // Where no more threads can be had, those that are there do it all.
                    Err(_) if !threads.is_empty() => break,
                    Err(error) => return vec![Err(error).context("cannot start a loading thread")],
                }
            }
            while !threads
                .iter()
                .all(std::thread::ScopedJoinHandle::is_finished)
            {
                progress(Loaded {
                    rows: underway.rows.load(Ordering::Relaxed),
                    all: self.rows,
                    elapsed: begin.elapsed(),
                });
                std::thread::sleep(TICK);
            }
            threads
                .into_iter()
                .map(|thread| match thread.join() {
                    Ok(outcome) => outcome,
                    Err(_) => Err(anyhow!("a loading thread failed")),
                })
                .collect()
        });
        if stop.asked() {
            bail!(Failure::interrupted());
        }
        let mut rows = 0;
        for outcome in outcomes {
            rows += outcome?;
        }
        progress(Loaded {
            rows,
            all: self.rows,
            elapsed: begin.elapsed(),
        });
        Ok(rows)
    }

    /// What one connection does.
    fn work(&self, underway: &Underway<'_>) -> anyhow::Result<u64> {
        let connected = self.connector.connect();
        let mut session = connected.context("a connection for loading")?;
        let mut rows = 0;
        while let Some(job) = self.jobs.get(underway.next.fetch_add(1, Ordering::Relaxed)) {
            if underway.must_end() {
                return Ok(rows);
            }
            rows += (self.job)(&mut session, job, underway)?;
        }
        (self.last)(&mut session)?;
        Ok(rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_says_what_is_left() {
        let loaded = Loaded {
            rows: 250,
            all: 1000,
            elapsed: Duration::from_secs(1),
        };
        assert_eq!(loaded.left(), Some(Duration::from_secs(3)));
        assert_eq!(Loaded { rows: 0, ..loaded }.left(), None);
        assert_eq!(
            (workers(1, 64), workers(100, 2), workers(100, 64)),
            (1, 4, 8)
        );
    }
}

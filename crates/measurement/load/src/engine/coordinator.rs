//! The thread that starts and ends the window of a slice and reports progress to the caller.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::nanos;
use crate::live::{Follower, Live};
use crate::options::{Edge, Length, Progress, SliceSpec};
use crate::worker::{Control, Shared};

/// The coordinating thread's part of a slice.
pub(crate) struct Coordinator<'a> {
    pub shared: &'a Shared,
    pub control: &'a Control,
    pub live: &'a [Live],
    pub running: &'a AtomicUsize,
    pub spec: &'a SliceSpec,
    pub follower: Option<&'a mut Follower>,
}

/// When progress is reported next.
struct Next {
    tick: Option<u64>,
    follow: Option<u64>,
}

impl Coordinator<'_> {
    pub fn run(mut self, at_edge: &mut dyn FnMut(Edge)) {
        let begin = self.control.begin;
        let mut next = Next {
            tick: self.spec.tick.map(|tick| begin + nanos(tick)),
            follow: None,
        };
        let start_at = begin + nanos(self.spec.warmup);
        if !matches!(self.spec.length, Length::Transactions(_))
            && !self.wait_until(start_at, &mut next, at_edge)
        {
            return;
        }
        let start = match self.spec.length {
            Length::Time(_) => self.shared.now(),
            Length::Transactions(_) => begin,
        };
        self.control.start.store(start, Ordering::Relaxed);
        at_edge(Edge::Start);
        let end_at = match self.spec.length {
            Length::Time(time) => start + nanos(time),
            Length::Transactions(_) => u64::MAX,
        };
        next.follow = match (&self.follower, self.spec.follow) {
            (Some(_), Some(every)) => Some(start + nanos(every)),
            _ => None,
        };
        self.wait_until(end_at, &mut next, at_edge);
        self.control.end.store(self.shared.now(), Ordering::Relaxed);
        at_edge(Edge::End);
    }

    /// Waits until a time; false where the threads have ended or are to stop before it.
    fn wait_until(&mut self, at: u64, next: &mut Next, at_edge: &mut dyn FnMut(Edge)) -> bool {
        loop {
            if self.running.load(Ordering::Acquire) == 0
                || self.control.stop.load(Ordering::Relaxed)
            {
                return false;
            }
            let now = self.shared.now();
            if let (Some(due), Some(tick)) = (next.tick, self.spec.tick)
                && now >= due
            {
                at_edge(Edge::Tick(self.progress(now)));
                next.tick = Some(due + nanos(tick).max(1));
                continue;
            }
            if let (Some(due), Some(every), Some(follower)) =
                (next.follow, self.spec.follow, &mut self.follower)
                && now >= due
            {
                let start = self.control.start.load(Ordering::Relaxed);
                let passed = follower.by(now.saturating_sub(start));
                at_edge(Edge::Passed(Box::new(passed)));
                next.follow = Some(due + nanos(every).max(1));
                continue;
            }
            if now >= at {
                return true;
            }
            let mut wait = at - now;
            for due in [next.tick, next.follow].into_iter().flatten() {
                wait = wait.min(due.saturating_sub(now));
            }
            // The stop flag has no way to wake us.
            thread::park_timeout(Duration::from_nanos(wait).min(Duration::from_millis(40)));
        }
    }

    fn progress(&self, now: u64) -> Progress {
        let mut sum = Progress {
            elapsed_ns: now - self.control.begin,
            counting: self.control.start.load(Ordering::Relaxed) != u64::MAX,
            ..Progress::default()
        };
        let float = |value: &AtomicU64| f64::from_bits(value.load(Ordering::Relaxed));
        for live in self.live {
            sum.transactions += live.transactions.load(Ordering::Relaxed);
            sum.failures += live.failures.load(Ordering::Relaxed);
            sum.retries += live.retries.load(Ordering::Relaxed);
            sum.retried += live.retried.load(Ordering::Relaxed);
            sum.skipped += live.skipped.load(Ordering::Relaxed);
            sum.latency_sum_ns += float(&live.latency);
            sum.latency_sum_squares += float(&live.latency_squares);
            sum.lag_sum_ns += float(&live.lag);
        }
        sum
    }
}

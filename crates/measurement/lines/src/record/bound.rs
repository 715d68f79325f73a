//! How long a session may be stepped inside one transaction, on a server that serves others, too.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pgassay_model::Failure;

use crate::recording::Recording;

/// The most that a session is stepped inside one transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Time from its first statement on.
    Time(Duration),
    /// Instructions.
    Instructions(u64),
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time(time) => write!(f, "{} s", time.as_secs_f64()),
            Self::Instructions(count) => write!(f, "{count} instructions"),
        }
    }
}

/// The limit of one session, and how far its client and its recorder are.
#[derive(Debug)]
pub struct Bound {
    limit: Limit,
    /// Transactions whose answers the client has.
    answered: AtomicU64,
    reached: AtomicBool,
}

impl Bound {
    /// No transaction has run yet.
    pub fn new(limit: Limit) -> Self {
        Self {
            limit,
            answered: AtomicU64::new(0),
            reached: AtomicBool::new(false),
        }
    }

    /// Runs the client through up to so many transactions, each by a call with its number. None is begun after the
    /// limit was reached: it would not be recorded.
    ///
    /// # Errors
    /// That of a call.
    pub fn run(
        &self,
        transactions: u64,
        one: &mut dyn FnMut(u64) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        for number in 0..transactions {
            if self.reached.load(Ordering::Acquire) {
                break;
            }
            one(number)?;
            self.answered.fetch_add(1, Ordering::Release);
        }
        Ok(())
    }

    /// Says of a record that it holds so many whole transactions of those asked for.
    ///
    /// # Errors
    /// Where it holds none.
    pub(crate) fn cut(&self, whole: u64, asked: u64) -> Result<String, Failure> {
        let why = format!(
            "on a server that pgassay did not launch, stepping stops after {} in one transaction",
            self.limit
        );
        match whole {
            0 => Err(Failure::target(format!(
                "no transaction was recorded whole: {why}"
            ))
            .with_remedy(
                "name temp or an installation, where lines launches a server of its own; or sample this one: \
                 --sample SECONDS, without --load",
            )),
            _ => Ok(format!(
                "{whole} of {asked} transactions were recorded whole: {why}"
            )),
        }
    }
}

/// The transaction that a session is in, and what was recorded before it.
pub(super) struct Transaction<'a> {
    bound: &'a Bound,
    /// Transactions before it; none until the first one begins.
    whole: Option<u64>,
    began: Instant,
    /// The counts before it; its lists are empty.
    before: Recording,
    pauses: usize,
}

impl<'a> Transaction<'a> {
    pub(super) fn new(bound: &'a Bound) -> Self {
        Self {
            bound,
            whole: None,
            began: Instant::now(),
            before: Recording::default(),
            pauses: 0,
        }
    }

    /// A wait is over, which has lasted until the next transaction if the client has all answers of the last one: it
    /// counts them before it sends anything.
    pub(super) fn wait_is_over(&mut self, recording: &Recording, seconds: f64) {
        let answered = self.bound.answered.load(Ordering::Acquire);
        if self.whole == Some(answered) {
            return;
        }
        self.whole = Some(answered);
        self.began = Instant::now();
        self.pauses = recording.pauses.len();
        self.before = Recording {
            instructions: recording.instructions,
            system_calls: recording.system_calls,
            unresolved: recording.unresolved,
            unseen_calls: recording.unseen_calls,
            seconds,
            ..Recording::default()
        };
    }

    /// Whether the limit is reached, after so many instructions in all. A session whose client has all answers is in no
    /// transaction.
    pub(super) fn reaches_limit(&self, instructions: u64) -> bool {
        let inside = self.whole == Some(self.bound.answered.load(Ordering::Acquire));
        let reached = inside
            && match self.bound.limit {
                Limit::Time(time) => self.began.elapsed() > time,
                Limit::Instructions(most) => instructions - self.before.instructions > most,
            };
        if reached {
            self.bound.reached.store(true, Ordering::Release);
        }
        reached
    }

    /// The record without the transaction in which the limit was reached; the whole record if it was not.
    pub(super) fn cut(self, mut recording: Recording) -> Recording {
        if !self.bound.reached.load(Ordering::Acquire) {
            return recording;
        }
        recording.pauses.truncate(self.pauses);
        let end = recording.pauses.last().copied().unwrap_or(0);
        recording.accesses.truncate(end);
        Recording {
            accesses: recording.accesses,
            segments: recording.segments,
            sites: recording.sites,
            pauses: recording.pauses,
            whole: self.whole,
            ..self.before
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_ends_before_the_transaction_that_reaches_the_limit() {
        let bound = Bound::new(Limit::Instructions(10));
        let mut transaction = Transaction::new(&bound);
        let mut recording = Recording {
            pauses: vec![0],
            system_calls: 1,
            ..Recording::default()
        };
        transaction.wait_is_over(&recording, 0.0);
        recording.instructions = 10;
        assert!(!transaction.reaches_limit(10));
        assert!(transaction.reaches_limit(11));
        // The client has its answers: no transaction is open.
        let bound = Bound::new(Limit::Instructions(10));
        let mut transaction = Transaction::new(&bound);
        transaction.wait_is_over(&recording, 0.0);
        bound.answered.store(1, Ordering::Release);
        assert!(!transaction.reaches_limit(99));
        recording.pauses.push(0);
        transaction.wait_is_over(&recording, 0.5);
        // Waits inside a transaction begin none.
        recording.pauses.push(0);
        recording.instructions = 30;
        recording.system_calls = 7;
        transaction.wait_is_over(&recording, 1.0);
        assert!(transaction.reaches_limit(30));
        let cut = transaction.cut(recording);
        assert_eq!((cut.whole, cut.pauses.len()), (Some(1), 2));
        assert_eq!((cut.instructions, cut.system_calls), (10, 1));
        assert_eq!(cut.seconds, 0.5);
    }

    #[test]
    fn nothing_is_run_after_the_limit() {
        let bound = Bound::new(Limit::Time(Duration::from_secs(2)));
        let mut numbers = Vec::new();
        let ran = bound.run(5, &mut |number| {
            numbers.push(number);
            bound.reached.store(number == 2, Ordering::Release);
            Ok(())
        });
        assert_eq!((ran, numbers), (Ok(()), vec![0, 1, 2]));
        assert!(bound.cut(2, 5).unwrap().contains("2 of 5 transactions"));
        let none = bound.cut(0, 5).unwrap_err();
        assert!(none.message.contains("after 2 s in one"), "{none:?}");
        assert!(none.remedy.unwrap().contains("--sample SECONDS"));
    }
}

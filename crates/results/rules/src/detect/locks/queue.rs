//! The queue for locks, as it was seen: who holds them, and its share of the time.

#[cfg(test)]
mod tests;

use crate::detect::common::waiting::waiting;
use crate::detect::tenths;
use crate::evidence::{Evidence, RunEvidence};
use crate::finding::{Confidence, Observation, Severity};
use pgassay_model::observed::blockers::{BlockerRecord, Holder};

/// The share of the sessions' time in a queue from which on it is worth a finding.
pub const NOTABLE: f64 = 0.1;

/// Pairs of one who waits and one who holds below which it is chance.
pub const FEW_PAIRS: u64 = 5;

/// The part of what was seen that a cause must be behind.
pub const MOSTLY: f64 = 0.5;

/// The queue for locks: what was seen of who holds them, and its share of the time.
pub struct Queue<'a> {
    pub record: &'a BlockerRecord,
    share: f64,
}

/// Waits for heavyweight locks, those to extend a table aside: nobody holds these for long.
fn any(kind: &str, event: &str) -> bool {
    kind == "Lock" && event != "extend"
}

impl<'a> Queue<'a> {
    pub fn of(run: &RunEvidence<'a>) -> Option<Self> {
        let record = run.observed?.blockers.as_ref()?;
        let share = run.wait_share(any)?;
        (share >= NOTABLE && record.pairs() >= FEW_PAIRS).then_some(Self { record, share })
    }

    /// The part of the pairs, of those who hold others up without waiting for a lock themselves, whose
    /// holder is picked.
    pub fn part(&self, pick: impl Fn(&Holder) -> bool) -> f64 {
        let count = |pick: &dyn Fn(&Holder) -> bool| -> u64 {
            let roots = self.record.holders.iter().filter(|h| !h.is_link());
            roots.filter(|h| pick(h)).map(|h| h.pairs).sum()
        };
        let all = count(&|_| true);
        if all == 0 {
            0.0
        } else {
            count(&pick) as f64 / all as f64
        }
    }

    /// The one that holds up most.
    pub fn first(&self, pick: impl Fn(&Holder) -> bool) -> Option<&'a Holder> {
        self.record.holders.iter().find(|holder| pick(holder))
    }

    /// `82.0 % of the sessions' time in transactions`: of the whole queue.
    pub fn takes(&self, run: &RunEvidence) -> String {
        format!("{} of {}", tenths(self.share), run.whole())
    }

    /// A finding of the whole queue.
    pub fn seen(&self, evidence: &Evidence, run: &RunEvidence, saw: String) -> Observation {
        self.seen_at(evidence, run, (self.share, saw), any)
    }

    /// A finding of a part of it: its share of the time, what was seen, and its events.
    pub fn seen_at(
        &self,
        evidence: &Evidence,
        run: &RunEvidence,
        (share, saw): (f64, String),
        pick: impl Fn(&str, &str) -> bool,
    ) -> Observation {
        waiting(evidence, run, (share, saw), pick)
            .severity(Severity::High)
            .confidence(Confidence::High)
            .seen(format!(
                "{} looks at who holds whom up, with {}",
                self.record.looks,
                run.clients()
            ))
    }
}

/// ` (application cron)`; nothing where it has no name.
pub fn from(holder: &Holder) -> String {
    match holder.application.as_str() {
        "" => String::new(),
        name => format!(" (application {name})"),
    }
}

//! Commits that sleep before they flush the log (`commit_delay`).

use super::waits::{self, MUCH, WAL_FLUSH, commits_sleep};
use super::{Detector, run, tenths};
use crate::bottlenecks::evidence::Evidence;
use crate::bottlenecks::finding::{Basis, Observation};

pub(super) const DETECTORS: &[Detector] = &[run("commit-delay", delayed)];

/// Settings that belong to the evidence.
const SETTINGS: &[&str] = &["commit_delay", "commit_siblings", "synchronous_commit"];

/// XLogFlush (xlog.c): the session that flushes for a group sleeps first, at no wait event, and the others
/// of the group wait for it.
fn delayed(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let sampled = run.waits()?;
    if !commits_sleep(&run) {
        return None;
    }
    let flushes = |kind: &str, event: &str| waits::is_of(kind, event, WAL_FLUSH);
    let waiting = run.wait_share(flushes)?;
    let off = run
        .budget()
        .and_then(|b| Some(b.share(b.off.as_ref()?.unnamed)));
    let asleep = off.unwrap_or(0.0);
    let share = (waiting + asleep).min(1.0);
    let seen = sampled.share(|e| flushes(&e.kind, &e.event)) + asleep;
    if share < MUCH || !sampled.shows(seen.min(1.0), MUCH) {
        return None;
    }
    let saw = format!(
        "Commits sleep before they flush the log, and others wait for them: {} of {}.",
        tenths(share),
        run.whole()
    );
    let flushing = run.wait_share(|kind, event| kind == "IO" && flushes(kind, event))?;
    let won = without_sleep(asleep, waiting, flushing);
    let mut observation = Observation::measured(Basis::WaitTime, Some(share), saw);
    if asleep > 0.0 {
        observation = observation.expects(
            won / share,
            "the time that commits sleep, and that others wait for these",
        );
    }
    let settings = SETTINGS.iter().filter_map(|name| {
        let value = run.setting(name)?;
        Some(format!("{name} = {value}"))
    });
    Some(
        observation
            .all_seen((asleep > 0.0).then(|| {
                format!(
                    "{} of it at no wait event, as sleeping commits are",
                    tenths(asleep)
                )
            }))
            .all_seen(waits::who(&run, flushes))
            .all_seen(settings),
    )
}

/// What is won of the time in which sessions sleep, wait for the log to be flushed, and of the latter flush
/// it themselves: who waits for the one that flushes waits for its sleep and for its flush.
fn without_sleep(asleep: f64, waiting: f64, flushing: f64) -> f64 {
    let of_sleep = asleep / (asleep + flushing).max(f64::MIN_POSITIVE);
    asleep + (waiting - flushing).max(0.0) * of_sleep
}

#[cfg(test)]
mod tests {
    use super::without_sleep;

    #[test]
    fn who_waits_for_a_sleeper_waits_for_its_flush_too() {
        assert!((without_sleep(0.2, 0.65, 0.05) - (0.2 + 0.6 * 0.8)).abs() < 1e-9);
        assert_eq!(without_sleep(0.0, 0.5, 0.1), 0.0);
    }
}

//! What goes with a wait: the sessions that were woken from it and queue for a CPU, and the CPU time of
//! queueing, sleeping and waking.

use crate::detect::common::wait_shares;
use crate::evidence::{Evidence, RunEvidence};
use crate::finding::{Basis, Observation};
use pgassay_evidence::profile::Work;

/// Wait events by type and names, all of the type where none is named.
type Events = &'static [(&'static str, &'static [&'static str])];

/// Waits, and the work within which the server takes CPU time for them.
const SPENT: &[(Events, Work)] = &[
    (wait_shares::WAL_FLUSH, Work::LogFlush),
    (&[("Lock", &[])], Work::LockQueues),
    (&[("IPC", &["SyncRep"])], Work::Standbys),
];

/// A finding of the waits that `pick` picks by type and name, which are this share of the time. What is won
/// without them is more: nobody is woken from them, and queues for a CPU then.
pub fn waiting(
    evidence: &Evidence,
    run: &RunEvidence,
    (share, saw): (f64, String),
    pick: impl Fn(&str, &str) -> bool,
) -> Observation {
    let gone = run
        .share_without(&pick)
        .unwrap_or(share)
        .max(share)
        .min(1.0);
    let seen = Observation::measured(Basis::WaitTime, Some(gone), saw);
    // Without a budget it accounts for nothing that could be said.
    let seen = match run.budget() {
        Some(_) => seen.covers(share),
        None => seen,
    };
    match cpu(evidence, run, pick) {
        Some(cpu) => seen.of_cpu(cpu),
        None => seen,
    }
}

/// The share of the server's CPU time that goes with these waits, as far as CPU samples tell: of waits of which
/// only some are picked as much as these are of them.
fn cpu(evidence: &Evidence, run: &RunEvidence, pick: impl Fn(&str, &str) -> bool) -> Option<f64> {
    let profile = evidence.profile?;
    let parts = SPENT.iter().filter_map(|(events, work)| {
        let within = profile.within(*work)?;
        let of_work = |kind: &str, event: &str| wait_shares::is_of(kind, event, events);
        let all = run.wait_share(of_work)?;
        let picked = run.wait_share(|kind, event| of_work(kind, event) && pick(kind, event))?;
        (picked > 0.0).then(|| within * (picked / all).min(1.0))
    });
    parts.reduce(|a, b| a + b).map(|cpu| cpu.min(1.0))
}

#[cfg(test)]
mod tests {
    use crate::Finding;
    use crate::detect::tests::made::{found_on_cpus, one};

    const FLUSH: &[(&str, &str, f64)] = &[("LWLock", "WALWrite", 5.0), ("IO", "WALSync", 1.0)];

    #[test]
    fn who_is_woken_from_a_wait_would_not_queue_for_a_cpu_without_it() {
        let of = |woken: f64| -> Finding {
            let found = found_on_cpus(0.2, FLUSH, "", move |observed| {
                let budget = observed.budget.as_mut().unwrap();
                // They are on a CPU, or wait for one, while samples still see them at the event.
                budget.ready += woken;
                budget.sessions += woken;
                budget.off.as_mut().unwrap().waits[0].woken = woken;
            });
            one(&found, "wal-flush").clone()
        };
        let (none, some) = (of(0.0), of(0.8));
        // 6 of 6.2 sessions, and 6.8 of 7 with those that were woken; 8 clients in all.
        assert!((none.budget_share.unwrap() - 6.0 / 6.2).abs() < 1e-9);
        assert!((none.gain_at_most.unwrap() - 6.0 / 8.0).abs() < 1e-9);
        assert!((some.budget_share.unwrap() - 6.0 / 7.0).abs() < 1e-9);
        assert!((some.gain_at_most.unwrap() - 6.8 / 8.0).abs() < 1e-9);
    }

    /// On CPUs that are three quarters full, a wait's own sleeping and waking makes room.
    #[test]
    fn what_a_wait_takes_of_the_cpus_is_room_for_others() {
        let gain = |listing: &'static str| {
            let found = found_on_cpus(1.5, FLUSH, listing, |_| {});
            let flush = one(&found, "wal-flush");
            (flush.gain_at_most.unwrap(), flush.limited_by_cpus)
        };
        let (without, limited) = gain("    100.00%  postgres  postgres  [.] ExecScan\n");
        assert!((without - 0.25).abs() < 1e-9 && limited, "{without}");
        // 60 % of the server's time on CPUs, which is 1.4 of 1.5 that are busy.
        let (with, _) = gain(
            "    60.00%  postgres  postgres  [.] PGSemaphoreLock\n            |\n            \
             ---XLogFlush\n               PGSemaphoreLock\n\n    40.00%  postgres  postgres  [.] ExecScan\n",
        );
        assert!(
            (with - (1.0 - 0.75 * (1.0 - 0.6 * 1.4 / 1.5))).abs() < 1e-9,
            "{with}"
        );
    }
}

//! The scaling law joined with what was seen at each client count: which lock it is
//! that bends the curve.
//!
//! The law alone says how much of the work only one at a time can do, not what that
//! is; a lock's share alone does not say that it holds scaling back. A finding needs
//! both: a contention that the fit's interval tells from nothing, and a lock or wait
//! whose share is notable at the largest client count and grew towards it.

use crate::detect::prelude::*;
use pgassay_evidence::number;
use pgassay_evidence::observed::PointObserved;
use pgassay_evidence::profile::lock::Lock;
use pgassay_stats::scaling::Scaling;

/// The least share of work done by one at a time (its interval's lower end) that
/// is worth a finding: with it 50 times one client's throughput is the most.
const NOTABLE_SIGMA: f64 = 0.02;
/// A suspect's least share at the largest client count.
const NOTABLE: f64 = 0.05;
/// By how much it must have grown from the smallest.
const GREW: f64 = 2.0;

/// What may bend the curve, and its share at a client count.
struct Suspect {
    name: String,
    /// What its share is of.
    basis: Basis,
    key: Key,
}

impl Suspect {
    fn of(&self) -> &'static str {
        match self.basis {
            Basis::CpuSamples => "of the samples",
            _ => "of the time of sessions in a statement",
        }
    }
}

/// How a suspect is found again at another client count.
enum Key {
    Lock(Lock),
    Wait(String),
}

pub fn in_run(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let scaling = run.scaling?;
    let (sigma, kappa) = (&scaling.sigma.value, &scaling.kappa.value);
    let shown = sigma.low >= NOTABLE_SIGMA || (kappa.low > 0.0 && falls_within_reach(scaling));
    if !shown {
        return None;
    }
    let (suspect, first, last) = suspect(&run)?;
    let largest = run.point.point.clients;
    let coefficient = |value: f64, low: f64, high: f64, name: &str| {
        format!("{name}: {value:.4} ({low:.4} to {high:.4}, 95 %)")
    };
    let saw = format!(
        "Contention at {} bends the curve over clients: {} of the work is done by one at a time.",
        suspect.name,
        tenths(sigma.estimate)
    );
    // Growing together is no proof of cause.
    let found = Observation::measured(suspect.basis, Some(last), saw)
        .confidence(Confidence::Medium)
        .seen(coefficient(
            sigma.estimate,
            sigma.low,
            sigma.high,
            "sigma, contention",
        ))
        .seen(coefficient(
            kappa.estimate,
            kappa.low,
            kappa.high,
            "kappa, coherence",
        ))
        .seen(format!(
            "fitted over {} clients, {} from the points on average",
            shown_counts(&scaling.fitted),
            tenths(scaling.relative_error)
        ))
        .seen(format!(
            "{}: {} {} at {}, {} at {}",
            suspect.name,
            tenths(first.1),
            suspect.of(),
            number::counted(first.0, "client"),
            tenths(last),
            number::counted(largest, "client")
        ));
    Some(match scaling.peak.as_ref().filter(|_| kappa.low > 0.0) {
        Some(peak) => found.seen(format!(
            "throughput is highest at about {:.0} clients",
            peak.estimate
        )),
        None => found,
    })
}

/// Whether the law's peak lies no further out than twice what was measured.
fn falls_within_reach(scaling: &Scaling) -> bool {
    let largest = scaling.fitted.last().copied().unwrap_or(1);
    scaling
        .peak
        .as_ref()
        .is_some_and(|peak| peak.estimate <= 2.0 * f64::from(largest))
}

fn shown_counts(counts: &[u32]) -> String {
    let counts: Vec<String> = counts.iter().map(u32::to_string).collect();
    counts.join(", ")
}

/// The lock or wait with the largest share at the largest count that grew towards it;
/// with the smallest count and its share there, and its share at the largest.
fn suspect(run: &RunEvidence) -> Option<(Suspect, (u32, f64), f64)> {
    let at_largest = run.observed?;
    let points = &run.load.observed.as_ref()?.points;
    let at_smallest = points.iter().min_by_key(|p| p.clients)?;
    if at_smallest.clients >= at_largest.clients {
        return None;
    }
    let mut suspects: Vec<Suspect> = Vec::new();
    let locks = at_largest.profile.iter().flat_map(|p| &p.locks);
    for lock in locks.map(|l| l.lock).filter(|l| *l != Lock::Unknown) {
        suspects.push(Suspect {
            name: format!("the lock {:?}", lock.title()),
            basis: Basis::CpuSamples,
            key: Key::Lock(lock),
        });
    }
    let waits = at_largest.waits.iter().flat_map(|w| &w.events);
    // Waiting for the client or for I/O is no queue for what one at a time can do.
    let queues = waits.filter(|e| e.kind.starts_with("LWLock") || e.kind == "Lock");
    for event in queues {
        suspects.push(Suspect {
            name: event.name(),
            basis: Basis::WaitTime,
            key: Key::Wait(event.name()),
        });
    }
    suspects
        .into_iter()
        .filter_map(|suspect| {
            let last = share_of(at_largest, &suspect.key)?;
            let first = share_of(at_smallest, &suspect.key)?;
            let shown = match suspect.key {
                Key::Lock(_) => at_largest.profile.as_ref()?.shows(last, NOTABLE),
                Key::Wait(_) => at_largest.waits.as_ref()?.shows(last, NOTABLE),
            };
            let grew = shown && last >= GREW * first;
            grew.then_some((suspect, (at_smallest.clients, first), last))
        })
        .max_by(|a, b| a.2.total_cmp(&b.2))
}

fn share_of(point: &PointObserved, key: &Key) -> Option<f64> {
    match key {
        Key::Lock(lock) => Some(point.profile.as_ref()?.lock(*lock)),
        Key::Wait(name) => Some(point.waits.as_ref()?.share(|e| e.name() == *name)),
    }
}

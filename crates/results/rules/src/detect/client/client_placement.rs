//! Steps of a sweep that no lock or full CPU makes: clients and their sessions were placed worse before.

use crate::detect::prelude::*;
use pgassay_evidence::measured::PointAnalysis;
use pgassay_evidence::number;

/// By how much throughput must have grown more than the clients, by the near ends of both intervals.
const NOTABLE: f64 = 1.05;
/// Clients for each CPU beyond which there are no idle CPUs to choose from.
const OF_EACH_CPU: u32 = 2;

pub fn in_run(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    if !run.is_closed() {
        return None;
    }
    let mut points: Vec<&PointAnalysis> = run.load.points.iter().collect();
    points.sort_by_key(|point| point.point.clients);
    let most = run
        .host
        .cpus
        .map_or(u32::MAX, |cpus| cpus.saturating_mul(OF_EACH_CPU));
    let steps = points.windows(2).filter_map(|two| {
        let [fewer, more] = two else { return None };
        let (a, b) = (&fewer.throughput_tps, &more.throughput_tps);
        let clients = f64::from(more.point.clients) / f64::from(fewer.point.clients.max(1));
        let one_level = fewer.levels.is_none() && more.levels.is_none();
        let comparable =
            a.n.min(b.n) > 1 && a.high > 0.0 && more.point.clients <= most && one_level;
        let least = b.low / a.high / clients;
        (comparable && least >= NOTABLE).then_some((fewer, more, clients, least))
    });
    let (fewer, more, clients, _) = steps.max_by(|a, b| a.3.total_cmp(&b.3))?;
    let (a, b) = (&fewer.throughput_tps, &more.throughput_tps);
    let (from, to) = (fewer.point.clients, more.point.clients);
    let saw = format!(
        "From {} to {to} throughput grows {:.2} times, and clients only {clients:.2} times.",
        number::counted(from, "client"),
        b.estimate / a.estimate,
    );
    let found = Observation::measured(Basis::Counters, None, saw)
        // A CPU that saves power looks the same.
        .confidence(Confidence::Medium)
        .seen(format!(
            "{:.2} to {:.2} times by the ends of the intervals",
            b.low / a.high,
            b.high / a.low
        ))
        .seen(format!(
            "a client got {} transactions a second with {from}, and {} with {to}",
            number::count((a.estimate / f64::from(from.max(1))) as u64),
            number::count((b.estimate / f64::from(to.max(1))) as u64)
        ));
    Some(match run.host.cpus {
        Some(cpus) => found.seen(format!("the machine has {}", number::counted(cpus, "CPU"))),
        None => found,
    })
}

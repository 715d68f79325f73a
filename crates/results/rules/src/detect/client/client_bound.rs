//! The load's own client is the limit.

use crate::detect::prelude::*;
use pgassay_evidence::metrics;

pub fn in_run(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    // What holds some points back and not the largest bends the curve, and is no limit.
    let point = run.point;
    let warning = point.warnings.iter().find(|w| w.id == "client-bound")?;
    let saw = format!(
        "The load's own client is the limit with {}: the server could do more.",
        run.clients()
    );
    let mut found = Observation::measured(Basis::Counters, None, saw).seen(warning.text.clone());
    let cpus = point.estimate(metrics::CLIENT_CPUS);
    if let Some((server, client)) = point.estimate(metrics::SERVER_CPUS).zip(cpus) {
        found = found.seen(format!(
            "the client kept {:.2} CPUs busy, the server {:.2}",
            client.estimate, server.estimate
        ));
    }
    if let Some(waits) = run.waits() {
        found = found.seen(format!(
            "of the server's sessions {:.2} were in a statement on average, and {:.2} waited for the client's next one",
            waits.active_sessions, waits.idle_sessions
        ));
    }
    Some(found)
}

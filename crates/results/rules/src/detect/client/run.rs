//! What a run shows apart from waits and samples: its client, the host, the build.

use crate::detect::common::wait_shares;
use crate::detect::common::waiting::waiting;
use crate::detect::{Detector, run, tenths};
use crate::evidence::Evidence;
use crate::finding::{Basis, Confidence, Observation};
use pgassay_evidence::{metrics, number};
use pgassay_inspect::cpu::Path;

pub const DETECTORS: &[Detector] = &[
    run("client-bound", client_bound),
    run("snapshot-scalability", many_connections),
    run("shared-buffers-small", wait_shares::misses_by_counts),
    run("cpu-steal", stolen),
    run("cpu-quota", cpu_quota),
    run("memory-limit", memory_limit),
    run("swap", swapping),
    run("lse-server", exclusive_loops),
    run("assertions", assertions),
    run("unoptimised-server", unoptimised),
];

fn client_bound(evidence: &Evidence) -> Option<Observation> {
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

fn many_connections(evidence: &Evidence) -> Option<Observation> {
    if !evidence.is_before(140_000) {
        return None;
    }
    let waits = evidence.run?.waits()?;
    let sessions = waits.active_sessions + waits.idle_sessions;
    let snapshots = evidence
        .profile
        .map(|p| p.function("GetSnapshotData").map_or(0.0, |f| f.total_share));
    // Seen, and not there: then it is not that.
    if sessions < 200.0 || snapshots.is_some_and(|share| share < 0.02) {
        return None;
    }
    let saw = format!(
        "{sessions:.0} connections are open on a version whose snapshots cost by their number."
    );
    let found = match snapshots {
        Some(share) => Observation::of_samples(share, saw).seen(format!(
            "{} of the CPU samples in GetSnapshotData",
            tenths(share)
        )),
        None => Observation::measured(Basis::Counters, None, saw).confidence(Confidence::Medium),
    };
    Some(found.seen(format!(
        "{sessions:.0} client sessions on average, {:.0} of them idle",
        waits.idle_sessions
    )))
}

fn stolen(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let share = run.point.estimate(metrics::STEAL)?.estimate;
    (share >= 0.05).then(|| {
        let saw = format!(
            "The hypervisor gave {} of the machine's time to other guests.",
            tenths(share)
        );
        Observation::measured(Basis::MachineTime, Some(share), saw).seen(format!(
            "steal in /proc/stat: {} with {}",
            tenths(share),
            run.clients()
        ))
    })
}

fn cpu_quota(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let cpus = f64::from(run.host.cpus?);
    let of_server = run.held_back().map(|throttled| {
        format!(
            "the server's control group was held back for {throttled:.2} s of CPU time a second"
        )
    });
    // The quota that we know is the one that we run under, too.
    let ours = run.host.cpu_quota.filter(|quota| *quota < cpus);
    let used = run
        .point
        .estimate(metrics::CLIENT_CPUS)
        .map_or(0.0, |client| client.estimate)
        + run.point.estimate(metrics::SERVER_CPUS)?.estimate;
    let used_up = ours.filter(|quota| used >= 0.85 * quota);
    let (saw, gain) = match (ours, &of_server) {
        (Some(quota), _) if used_up.is_some() || of_server.is_some() => (
            format!(
                "A quota of {quota:.2} CPUs holds the server back, not the machine's {cpus:.0}."
            ),
            Some(1.0 - quota / cpus),
        ),
        (None, Some(_)) => (
            "A CPU quota of its control group holds the server back.".to_owned(),
            run.budget().map(|budget| {
                // The clients are not in the server's group.
                let client = used - run.server_cpus();
                let free = cpus - run.other_cpus().unwrap_or(0.0) - client;
                let wanted = (budget.on_cpu + budget.ready).min(free);
                (1.0 - run.server_cpus() / wanted.max(f64::MIN_POSITIVE)).max(0.0)
            }),
        ),
        _ => return None,
    };
    let seen = Observation::measured(Basis::MachineTime, gain, saw).all_seen(of_server);
    let seen = match run.budget() {
        Some(budget) => seen.covers(budget.share(budget.ready)),
        None => seen,
    };
    Some(match used_up {
        Some(quota) => seen.seen(format!(
            "server and client together kept {used:.2} CPUs busy of a quota of {quota:.2}"
        )),
        None => seen,
    })
}

/// Pages a second that come back, from which on a memory limit is worth a look.
const MANY_BACK: f64 = 50.0;

/// A memory limit of the control group that takes the page cache away: blocks are read from the device again that
/// would have stayed.
fn memory_limit(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let limit = run.point.estimate(metrics::MEMORY_LIMIT)?.estimate;
    let back = run.point.estimate(metrics::MEMORY_REFAULTS)?.estimate;
    let reads = |kind: &str, event: &str| {
        kind == "IO" && matches!(event, "DataFileRead" | "AioIoCompletion")
    };
    let waits = run.wait_share(reads).unwrap_or(0.0);
    if back < MANY_BACK || waits < 0.1 {
        return None;
    }
    let bytes = |figure: f64| number::bytes(figure as u64);
    let saw = format!(
        "A memory limit of {}, page cache included, throws pages out that the server reads again, {back:.0} a second: {} \
         of {}.",
        bytes(limit),
        tenths(waits),
        run.whole()
    );
    let seen = waiting(evidence, &run, (waits, saw), reads).confidence(Confidence::High);
    let machine = run
        .host
        .memory_bytes
        .map(|all| format!("the machine has {}", bytes(all as f64)));
    Some(seen.all_seen(machine).seen(wait_shares::blocks_read(&run)))
}

fn swapping(evidence: &Evidence) -> Option<Observation> {
    let scheduling = &evidence.run?.observed?.scheduling;
    let pages = scheduling.swap_pages_per_second?;
    let pressure = scheduling.memory_pressure;
    (pages >= 50.0).then(|| {
        let saw = "The machine swaps while the load runs.";
        let found = Observation::measured(Basis::MachineTime, pressure, saw)
            .seen(format!("{pages:.0} pages a second swapped in and out"));
        match pressure {
            Some(share) => found.seen(format!(
                "some task waited for memory in {} of the time",
                tenths(share)
            )),
            None => found,
        }
    })
}

fn exclusive_loops(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let verdict = run.arm.verdict.as_ref()?;
    let binary = run.arm.binary.as_ref().ok()?;
    if binary.machine != pgassay_inspect::Machine::Aarch64
        || !matches!(verdict.path, Path::InlineLlsc | Path::OutlineLlsc)
        || verdict.advice.is_empty()
    {
        return None;
    }
    let saw =
        "The build takes locks by load- and store-exclusive loops on a CPU that has better ones.";
    let mut found = Observation::measured(Basis::State, None, saw)
        .seen(format!("{}: {}", verdict.cpu, verdict.runs))
        .means(verdict.cost.clone())
        .advice(verdict.advice.join("; "));
    found.sources.extend(verdict.sources.iter().cloned());
    Some(found)
}

fn assertions(evidence: &Evidence) -> Option<Observation> {
    let on = evidence.run?.setting("debug_assertions") == Some("on");
    on.then(|| {
        Observation::measured(Basis::State, None, "The server was built with assertions.")
            .seen("debug_assertions = on")
    })
}

fn unoptimised(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let flags = run.arm.binary.as_ref().ok()?.build.flags.iter();
    let unoptimised = flags.filter(|f| {
        // The last -O decides.
        let words = f.flags.split_ascii_whitespace();
        words.rev().find(|w| w.starts_with("-O")) == Some("-O0")
    });
    let seen: Vec<String> = unoptimised
        .take(2)
        .map(|f| format!("-O0 in the flags recorded in {}", f.source))
        .collect();
    (!seen.is_empty()).then(|| {
        let saw = "The server was built without optimisation.";
        Observation::measured(Basis::State, None, saw).all_seen(seen)
    })
}

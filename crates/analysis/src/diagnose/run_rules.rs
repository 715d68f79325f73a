//! Rules over what a run shows beside waits and samples: its client, the host, the build.

use pgassay_inspect::cpu::Path;

use super::finding::{Finding, Sureness};
use super::{Evidence, RunEvidence, known, major};

/// `32.1 %`.
pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

pub(super) fn clients(n: u32) -> String {
    match n {
        1 => "1 client".to_owned(),
        n => format!("{n} clients"),
    }
}

pub(super) fn setting<'a>(run: &RunEvidence<'a>, name: &str) -> Option<&'a str> {
    let settings = &run.arm.server.as_ref()?.settings;
    let found = settings.iter().find(|s| s.name == name)?;
    Some(&found.value)
}

/// With the server's version as evidence, where it is known.
pub(super) fn version(finding: Finding, version: Option<u32>) -> Finding {
    match version {
        Some(version) => finding.seen(format!("the server is PostgreSQL {}", major(version))),
        None => finding,
    }
}

pub fn client_bound(evidence: &Evidence) -> Option<Finding> {
    let run = evidence.run?;
    let bound: Vec<u32> = run
        .arm
        .points
        .iter()
        .filter(|p| p.warnings.iter().any(|w| w.id == "client-bound"))
        .map(|p| p.point.clients)
        .collect();
    // What holds some points back and not the largest bends the curve, and is no limit.
    let point = run.point;
    if !bound.contains(&point.point.clients) {
        return None;
    }
    let warning = point.warnings.iter().find(|w| w.id == "client-bound")?;
    let mut finding = Finding::new(
        "client-bound",
        format!(
            "The load's own client is the limit at {}: the server could do more.",
            clients(point.point.clients)
        ),
    )
    .seen(warning.text.clone());
    if let Some(server) = &point.server_cpus {
        finding = finding.seen(format!(
            "the client kept {:.2} CPUs busy, the server {:.2}",
            point.client_cpus.estimate, server.estimate
        ));
    }
    if let Some(waits) = run.waits() {
        finding = finding.seen(format!(
            "of the server's sessions {:.2} were in a statement on average, and {:.2} waited for the client's next one",
            waits.active_sessions, waits.idle_sessions
        ));
    }
    Some(
        finding
            .means("A load thread had no time left: throughput, latency and the scaling curve are the client's from there on.")
            .remedy("give the client more threads (--threads) and CPUs of its own, or run the load inside the server: pgassay run query-loop")
            .source("Khandekar, PostgreSQL on ARM, 2020: the client took about 20 % of the CPU and bent the curves"),
    )
}

pub fn many_connections(evidence: &Evidence) -> Option<Finding> {
    let change = &known::SCALABLE_SNAPSHOTS;
    if change.lacking(evidence.version) != Some(true) {
        return None;
    }
    let run = evidence.run?;
    let waits = run.waits()?;
    let sessions = waits.active_sessions + waits.idle_sessions;
    if sessions < 200.0 {
        return None;
    }
    let snapshots = evidence
        .profile
        .map(|p| p.function("GetSnapshotData").map_or(0.0, |f| f.total_share));
    // Seen, and not there: then it is not that.
    if snapshots.is_some_and(|share| share < 0.02) {
        return None;
    }
    let mut finding = Finding::new(
        "old-version-many-connections",
        format!(
            "{sessions:.0} connections are open on a version whose snapshots cost by their number."
        ),
    )
    .seen(format!(
        "{sessions:.0} client sessions on average, {:.0} of them idle",
        waits.idle_sessions
    ));
    if let Some(share) = snapshots {
        finding = finding
            .seen(format!(
                "{} of the CPU samples in GetSnapshotData",
                percent(share)
            ))
            .gain(share);
    }
    Some(
        version(finding, evidence.version)
            .means("Up to 13 every snapshot visits every connection, idle ones too.")
            .remedy(format!(
                "upgrade to PostgreSQL 14 or later ({}); until then a connection pool",
                change.what
            ))
            .sure(if snapshots.is_some() {
                Sureness::Sure
            } else {
                Sureness::Likely
            })
            .source(change.source()),
    )
}

pub fn stolen(evidence: &Evidence) -> Option<Finding> {
    let run = evidence.run?;
    let share = run.point.steal_share.as_ref()?.estimate;
    (share >= 0.05).then(|| {
        Finding::new(
            "stolen-time",
            format!("The hypervisor gave {} of the machine's time to other guests.", percent(share)),
        )
        .seen(format!("steal in /proc/stat: {} at {}", percent(share), clients(run.point.point.clients)))
        .means("The virtual machine's CPUs are not its own; figures are too low and spread with the neighbours' load.")
        .remedy("a machine with dedicated CPUs, or another host")
        .gain(share)
        .source("Linux, Documentation/filesystems/proc.rst, steal")
    })
}

pub fn cpu_quota(evidence: &Evidence) -> Option<Finding> {
    let run = evidence.run?;
    let host = run.host;
    let quota = host.cpu_quota?;
    let cpus = f64::from(host.cpus?);
    let used = run.point.server_cpus.as_ref()?.estimate + run.point.client_cpus.estimate;
    (quota < cpus && used >= 0.85 * quota).then(|| {
        Finding::new(
            "cpu-quota",
            format!("A quota of {quota:.2} CPUs holds the server back, not the machine's {cpus:.0}."),
        )
        .seen(format!("server and client together kept {used:.2} CPUs busy of a quota of {quota:.2}"))
        .means("A control group that has used up its quota stands still until the next period: throughput stops and latency jumps.")
        .remedy("raise the quota (cpu.max, the container's CPU limit), or size clients and parallel workers by it")
        .gain(1.0 - quota / cpus)
        .source("Linux, Documentation/admin-guide/cgroup-v2.rst, cpu.max")
    })
}

pub fn swapping(evidence: &Evidence) -> Option<Finding> {
    let run = evidence.run?;
    let scheduling = &run.observed?.scheduling;
    let pages = scheduling.swap_pages_per_second?;
    let pressure = scheduling.memory_pressure;
    (pages >= 50.0).then(|| {
        let mut finding = Finding::new("swapping", "The machine swaps while the load runs.".to_owned())
            .seen(format!("{pages:.0} pages a second swapped in and out"));
        if let Some(pressure) = pressure {
            finding = finding
                .seen(format!("some task waited for memory in {} of the time", percent(pressure)))
                .gain(pressure);
        }
        finding
            .means("Memory is overcommitted: shared_buffers, work_mem times sessions, or others on the machine.")
            .remedy("lower shared_buffers or work_mem, fewer sessions, or more memory; huge pages are not swapped")
            .source("PostgreSQL documentation, 19.4.4 Linux memory overcommit")
    })
}

pub fn exclusive_loops(evidence: &Evidence) -> Option<Finding> {
    let run = evidence.run?;
    let verdict = run.arm.verdict.as_ref()?;
    let binary = run.arm.binary.as_ref().ok()?;
    if binary.machine != pgassay_inspect::Machine::Aarch64
        || !matches!(verdict.path, Path::InlineLlsc | Path::OutlineLlsc)
        || verdict.advice.is_empty()
    {
        return None;
    }
    let mut finding = Finding::new(
        "exclusive-loops",
        "The build takes locks by load- and store-exclusive loops on a CPU that has better."
            .to_owned(),
    )
    .seen(format!("{}: {}", verdict.cpu, verdict.runs))
    .means(verdict.cost.clone())
    .remedy(verdict.advice.join("; "));
    for source in &verdict.sources {
        finding = finding.source(source.clone());
    }
    (!finding.sources.is_empty()).then_some(finding)
}

pub fn debug_build(evidence: &Evidence) -> Option<Finding> {
    let run = evidence.run?;
    let assertions = setting(&run, "debug_assertions") == Some("on");
    let flags = run
        .arm
        .binary
        .as_ref()
        .ok()
        .into_iter()
        .flat_map(|b| &b.build.flags);
    let unoptimised = flags.filter(|f| {
        // The last -O decides.
        let mut levels = f
            .flags
            .split_ascii_whitespace()
            .filter(|w| w.starts_with("-O"));
        levels.next_back().is_some_and(|level| level == "-O0")
    });
    let unoptimised: Vec<_> = unoptimised.collect();
    if !assertions && unoptimised.is_empty() {
        return None;
    }
    let mut finding = Finding::new(
        "debug-build",
        match (assertions, unoptimised.is_empty()) {
            (true, true) => "The server was built with assertions.",
            (true, false) => "The server was built with assertions and without optimisation.",
            _ => "The server was built without optimisation.",
        },
    );
    if assertions {
        finding = finding.seen("debug_assertions = on");
    }
    for flags in unoptimised.iter().take(2) {
        finding = finding.seen(format!("-O0 in the flags recorded in {}", flags.source));
    }
    Some(
        finding
            .means("Such a build is for developing PostgreSQL; its figures say nothing about another.")
            .remedy("build with -O2 (configure drops its default once CFLAGS is set) and without --enable-cassert")
            .source("PostgreSQL documentation, 17.3.3 configure options"),
    )
}

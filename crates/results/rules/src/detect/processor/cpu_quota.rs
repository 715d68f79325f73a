//! CPU quota smaller than the machine.

use crate::detect::prelude::*;
use pgassay_evidence::metrics;

pub fn in_run(evidence: &Evidence) -> Option<Observation> {
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

pub fn audit(seen: &FactView) -> Judged {
    let cpus = seen.cpus()?;
    let Ok(quota) = seen.of_host("a quota", |h| h.cpu_quota) else {
        return not_applicable("no quota of CPU time is set");
    };
    let workers = seen.number("max_parallel_workers").unwrap_or(0).max(0) as f64;
    let gather = seen
        .number("max_parallel_workers_per_gather")
        .unwrap_or(0)
        .max(0) as f64;
    let saw = format!("A quota of {quota:.2} CPUs on a machine that shows {cpus}");
    if quota >= f64::from(cpus) {
        return passed(format!("{saw}: it is never reached"));
    }
    let whole = quota.floor().max(1.0);
    if quota < 1.0 {
        return Observation::new(
            Severity::High,
            Confidence::Medium,
            format!(
                "{saw}: no session runs without interruption; each is stopped for the rest of the period, usually 100 ms, once all together have used it up."
            ),
        )
        .advice("raise the group's quota (cpu.max; cpu.cfs_quota_us in version 1; a container's or unit's limit of CPUs), or give it whole CPUs by its cpuset instead")
        .found();
    }
    let mut finding = Observation::new(
        Severity::Medium,
        Confidence::Medium,
        format!(
            "{saw}; max_parallel_workers = {workers}, max_parallel_workers_per_gather = {gather}: once the quota is used up, every process of the server stops until the period ends."
        ),
    );
    if workers > whole {
        finding = finding.sql(format!(
            "ALTER SYSTEM SET max_parallel_workers = {whole}; SELECT pg_reload_conf();"
        ));
    }
    if gather + 1.0 > whole {
        finding = finding.sql(format!(
            "ALTER SYSTEM SET max_parallel_workers_per_gather = {}; SELECT pg_reload_conf();",
            (whole - 1.0).max(0.0)
        ));
    }
    finding
        .advice("give the group whole CPUs by its cpuset (docker --cpuset-cpus, Kubernetes' static CPU policy) instead of a quota")
        .found()
}

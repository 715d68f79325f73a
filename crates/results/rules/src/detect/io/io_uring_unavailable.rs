//! io_uring not permitted by the kernel or its limits.

use crate::detect::prelude::*;

/// From this kernel on rings are charged to the control group, and not to RLIMIT_MEMLOCK.
const NO_MEMLOCK: (u32, u32) = (5, 12);

/// What a ring of io_max_concurrency (64 at most by default) takes: its queues in whole pages.
const RING_BYTES: u64 = 16 << 10;

pub fn audit(seen: &FactView) -> Judged {
    let method = seen.value("io_method")?;
    let saw = format!("io_method = {method}");
    // Up to Linux 6.5 there is no such switch.
    let switch = seen.text("/proc/sys/kernel/io_uring_disabled");
    let refusal = match switch {
        Ok("2") => Some("kernel.io_uring_disabled = 2: no process may use io_uring".to_owned()),
        Ok("1") => Some(
            "kernel.io_uring_disabled = 1: only processes with CAP_SYS_ADMIN or of \
             kernel.io_uring_group may use io_uring"
                .to_owned(),
        ),
        _ => memlock_refusal(seen)?,
    };
    let Some(refusal) = refusal else {
        return match switch {
            Ok(value) => passed(format!("{saw}, kernel.io_uring_disabled = {value}")),
            Err(_) => passed(format!("{saw}, and the kernel does not restrict io_uring")),
        };
    };
    // A server that runs with it has got it; what changed since shows at its next start.
    let (severity, happens) = if method == "io_uring" {
        (Severity::Medium, "the next start may fail")
    } else {
        (Severity::Info, "io_method = io_uring would not start")
    };
    Observation::new(
        severity,
        Confidence::Medium,
        format!("{refusal}; {saw}: {happens}."),
    )
    .shell("sysctl kernel.io_uring_disabled kernel.io_uring_group; grep 'Max locked memory' /proc/PID/limits")
    .shell("sysctl -w kernel.io_uring_disabled=0   # or =1 and kernel.io_uring_group=GID of the server's group")
    .shell("systemctl edit postgresql@…   # LimitMEMLOCK=infinity, on kernels before 5.12")
    .found()
}

/// Whether the rings of all processes exceed what may be locked.
fn memlock_refusal(seen: &FactView) -> Result<Option<String>, NotJudged> {
    let kernel = seen.of_host("the kernel's version", |h| h.kernel.clone())?;
    let mut numbers = kernel.split(['.', '-']).map(|n| n.parse::<u32>().ok());
    let (Some(Some(major)), Some(Some(minor))) = (numbers.next(), numbers.next()) else {
        return could_not_see(format!("the kernel's version is {kernel}"));
    };
    if (major, minor) >= NO_MEMLOCK {
        return Ok(None);
    }
    // `Max locked memory         65536                65536                bytes`
    let limits = seen.process("limits")?;
    let line = limits
        .lines()
        .find_map(|l| l.strip_prefix("Max locked memory"));
    let soft = line.and_then(|line| line.split_whitespace().next());
    let limit: u64 = match soft.map(str::parse) {
        Some(Ok(limit)) => limit,
        Some(Err(_)) => return Ok(None),
        None => return could_not_see("the process's limits have no line of locked memory"),
    };
    let rings = seen.number("max_connections")?.max(0).unsigned_abs();
    let need = rings.saturating_mul(RING_BYTES);
    Ok((limit < need).then(|| {
        format!(
            "Linux {kernel} charges rings to RLIMIT_MEMLOCK, which is {} and would have to be {} \
             for max_connections = {rings}",
            shown(limit),
            shown(need)
        )
    }))
}

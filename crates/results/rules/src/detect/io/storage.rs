//! The data device, its file system, and how the server reads.

use crate::detect::{Detector, facts, shown};
use crate::fact_view::FactView;
use crate::finding::{
    Confidence, Judged, NotJudged, Observation, Severity, could_not_see, not_applicable, passed,
};

pub const DETECTORS: &[Detector] = &[
    facts("data-file-system", data_file_system),
    facts("read-ahead", read_ahead),
    facts("io-scheduler", scheduler),
    facts("random-page-cost", random_cost),
    facts("io-concurrency", concurrency),
    facts("io-method", io_method),
    facts("io-uring-unavailable", io_uring),
    facts("io-limit", io_limit),
];

/// A file of the data device's queue.
fn queue<'a>(seen: &FactView<'a>, file: &str) -> Result<&'a str, NotJudged> {
    let device = seen.text("device of the data")?;
    seen.text(&format!("/sys/block/{device}/queue/{file}"))
}

/// The type of the file system under the data.
fn file_system<'a>(seen: &FactView<'a>) -> Result<&'a str, NotJudged> {
    // `… - TYPE SOURCE OPTIONS`, after optional fields (proc(5), mountinfo).
    let line = seen.text("mountinfo of the data")?;
    match line
        .split_once(" - ")
        .and_then(|(_, rest)| rest.split(' ').next())
    {
        Some(kind) => Ok(kind),
        None => could_not_see("the mount's line has no type"),
    }
}

fn data_file_system(seen: &FactView) -> Judged {
    let kind = file_system(seen)?;
    let (severity, what) = match kind {
        "ext4" | "xfs" | "zfs" | "btrfs" | "ext3" | "f2fs" | "bcachefs" => {
            return passed(format!(
                "{kind} on {}",
                seen.text("device of the data")
                    .unwrap_or("an unknown device")
            ));
        }
        "overlay" | "aufs" => (Severity::High, "the container's layers"),
        "tmpfs" | "ramfs" => (Severity::High, "memory, lost at a restart"),
        "nfs" | "nfs4" | "cifs" | "smb3" | "ceph" | "glusterfs" | "lustre" => {
            (Severity::Medium, "a network file system")
        }
        "9p" | "virtiofs" => (Severity::High, "the host's, through a protocol"),
        _ if kind.starts_with("fuse") => (Severity::High, "in user space"),
        other => return passed(format!("{other}; no problem with it is known")),
    };
    Observation::new(severity, Confidence::High, format!("The data is on {kind}: {what}."))
        .advice("put the data directory on a volume with ext4 or XFS (Docker: -v NAME:/var/lib/postgresql; Kubernetes: a block volume)")
        .found()
}

fn read_ahead(seen: &FactView) -> Judged {
    let kilobytes: u64 = match queue(seen, "read_ahead_kb")?.parse() {
        Ok(kilobytes) => kilobytes,
        Err(_) => return could_not_see("read_ahead_kb is no number"),
    };
    let device = seen.text("device of the data")?;
    let saw = format!("read-ahead of {device} is {kilobytes} KiB");
    let found = |what: &str| {
        Observation::new(Severity::Low, Confidence::Low, format!("{saw}: {what}"))
            .shell(format!(
                "echo 128 > /sys/block/{device}/queue/read_ahead_kb   # keep it by a udev rule"
            ))
            .shell("pgassay run scattered-read")
            .found()
    };
    match kilobytes {
        0..16 => found("sequential scans wait for each read."),
        4097.. => found("clustered random reads fetch mostly unused data."),
        _ => passed(saw),
    }
}

fn scheduler(seen: &FactView) -> Judged {
    let text = queue(seen, "scheduler")?;
    let chosen = text
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'))
        .map_or(text, |(chosen, _)| chosen);
    let device = seen.text("device of the data")?;
    let saw = format!("scheduler of {device}: {chosen}");
    if queue(seen, "rotational")? == "1" && !device.starts_with("nvme") {
        return passed(format!("{saw}; it claims to rotate"));
    }
    if !matches!(chosen, "bfq" | "cfq") {
        return passed(saw);
    }
    Observation::new(
        Severity::Low,
        Confidence::Medium,
        format!("The scheduler of {device} is {chosen}, and nothing in it rotates."),
    )
    .shell(format!(
        "echo none > /sys/block/{device}/queue/scheduler   # keep it by a udev rule"
    ))
    .found()
}

fn random_cost(seen: &FactView) -> Judged {
    let cost = seen.decimal("random_page_cost")?;
    let sequential = seen.decimal("seq_page_cost").unwrap_or(1.0).max(0.01);
    if queue(seen, "rotational")? == "1" {
        if cost / sequential > 6.0 {
            return Observation::new(
                Severity::Low,
                Confidence::Low,
                format!(
                    "random_page_cost = {cost}, seq_page_cost = {sequential}: more than 4, which \
                     stands for a disk with moving heads."
                ),
            )
            .sql("ALTER SYSTEM RESET random_page_cost; SELECT pg_reload_conf();")
            .found();
        }
        return not_applicable(
            "the device claims to rotate (virtual disks often do): 4 is meant for that",
        );
    }
    let saw = format!(
        "random_page_cost = {cost}, seq_page_cost = {sequential}, on a device that does not rotate"
    );
    if cost / sequential < 3.0 {
        return passed(saw);
    }
    Observation::new(Severity::Low, Confidence::Low, format!("{saw}."))
        .sql("ALTER SYSTEM SET random_page_cost = 1.1; SELECT pg_reload_conf();")
        .found()
}

fn concurrency(seen: &FactView) -> Judged {
    let ahead = seen.number("effective_io_concurrency")?;
    let saw = format!("effective_io_concurrency = {ahead}");
    let rotates = queue(seen, "rotational").is_ok_and(|r| r == "1");
    match ahead {
        0 => Observation::new(
            Severity::Low,
            Confidence::Medium,
            format!("{saw}: bitmap scans do not prefetch."),
        ),
        1 if !rotates => Observation::new(
            Severity::Info,
            Confidence::Low,
            format!("{saw}, the default up to 17, meant for one disk."),
        ),
        _ => return passed(saw),
    }
    .sql("ALTER SYSTEM SET effective_io_concurrency = 16; SELECT pg_reload_conf();")
    .found()
}

fn io_method(seen: &FactView) -> Judged {
    let method = seen.value("io_method")?;
    let workers = seen.number("io_workers").unwrap_or(3);
    let cpus = seen.cpus().unwrap_or(1);
    match method {
        "sync" => Observation::new(
            Severity::Low,
            Confidence::Medium,
            "io_method = sync: each read waits.",
        )
        .sql("ALTER SYSTEM SET io_method = 'worker';   -- then restart")
        .found(),
        "worker" if cpus >= 32 && workers <= 3 => Observation::new(
            Severity::Info,
            Confidence::Low,
            format!("io_method = worker with {workers} workers for {cpus} CPUs."),
        )
        .sql(format!(
            "ALTER SYSTEM SET io_workers = {}; SELECT pg_reload_conf();",
            (cpus / 4).min(32)
        ))
        .found(),
        other => passed(format!("io_method = {other}")),
    }
}

/// From this kernel on rings are charged to the control group, and not to RLIMIT_MEMLOCK.
const NO_MEMLOCK: (u32, u32) = (5, 12);
/// What a ring of io_max_concurrency (64 at most by default) takes: its queues in whole pages.
const RING_BYTES: u64 = 16 << 10;

fn io_uring(seen: &FactView) -> Judged {
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

fn io_limit(seen: &FactView) -> Judged {
    let mut limits = Vec::new();
    let mut files = 0;
    // Version 2: `MAJ:MIN rbps=N wbps=max riops=max wiops=max`.
    for (_, text) in seen.texts("/sys/fs/cgroup", "/io.max")? {
        files += 1;
        for line in text.lines() {
            limits.extend(
                line.split_whitespace()
                    .skip(1)
                    .filter(|word| !word.ends_with("=max"))
                    .map(str::to_owned),
            );
        }
    }
    // Version 1: a file each, `MAJ:MIN N`.
    for (source, text) in seen.texts("/sys/fs/cgroup", "_device")? {
        let Some((_, what)) = source.split_once("/blkio.throttle.") else {
            continue;
        };
        files += 1;
        let values = text.lines().filter_map(|line| line.split_once(' '));
        limits
            .extend(values.map(|(_, limit)| {
                format!("{} {}", what.trim_end_matches("_device"), limit.trim())
            }));
    }
    if files == 0 {
        return could_not_see("no control group with limits of I/O is seen");
    }
    if limits.is_empty() {
        return passed("no limit of bytes or requests is set");
    }
    Observation::new(
        Severity::Medium,
        Confidence::High,
        format!("The server's control group limits its device: {}.", limits.join(", ")),
    )
    .shell("systemctl set-property UNIT IOReadIOPSMax= IOWriteIOPSMax= IOReadBandwidthMax= IOWriteBandwidthMax=   # or the container's --device-read-iops and its like")
    .found()
}

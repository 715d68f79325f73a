//! The data device, its file system, and how the server reads.

use super::shown;
use crate::check::rule::{
    Aside, Family, Finding, Judged, Need, Rule, Severity, Sure, could_not_see, not_applicable,
    passed,
};
use crate::check::seen::Seen;

/// A file of the data device's queue.
fn queue<'a>(seen: &Seen<'a>, file: &str) -> Result<&'a str, Aside> {
    let device = seen.text("device of the data")?;
    seen.text(&format!("/sys/block/{device}/queue/{file}"))
}

/// The type of the file system under the data.
fn file_system<'a>(seen: &Seen<'a>) -> Result<&'a str, Aside> {
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

/// Data where it should not be.
pub static FILE_SYSTEM: Rule = Rule {
    id: "data-file-system",
    title: "The data lies on a local file system of its own",
    family: Family::Storage,
    needs: &[Need::Host],
    why: "An overlay copies a whole file up at its first write; FUSE and 9p take a turn through user space for each read; tmpfs loses everything; a network file system adds a round trip to each read and fsync.",
    effect: "From a copy of up to 1 GiB at a first write (overlay) to milliseconds for each fsync (network). Figures from tmpfs say nothing about a durable server.",
    remedy: "A volume with ext4 or XFS, mounted where the data is.",
    sources: &[
        "Linux, Documentation/filesystems/overlayfs.rst",
        "PostgreSQL manual, \"Creating a Database Cluster\": File Systems",
    ],
    judge: data_file_system,
};

fn data_file_system(seen: &Seen) -> Judged {
    let kind = file_system(seen)?;
    let (severity, what) = match kind {
        "ext4" | "xfs" | "zfs" | "btrfs" | "ext3" | "f2fs" | "bcachefs" => {
            return passed(format!(
                "{kind} on {}",
                seen.text("device of the data")
                    .unwrap_or("a device that is not seen")
            ));
        }
        "overlay" | "aufs" => (Severity::High, "the container's layers"),
        "tmpfs" | "ramfs" => (Severity::High, "memory, and lost at a restart"),
        "nfs" | "nfs4" | "cifs" | "smb3" | "ceph" | "glusterfs" | "lustre" => {
            (Severity::Medium, "a network file system")
        }
        "9p" | "virtiofs" => (Severity::High, "the host's, by way of a protocol"),
        _ if kind.starts_with("fuse") => (Severity::High, "in user space"),
        other => return passed(format!("{other}; nothing is known against it")),
    };
    Finding::new(severity, Sure::Certain, format!("The data lies on {kind}: {what}."))
        .advice("put the data directory on a volume with ext4 or XFS (Docker: -v NAME:/var/lib/postgresql; Kubernetes: a block volume)")
        .found()
}

/// Read-ahead of the device.
pub static READ_AHEAD: Rule = Rule {
    id: "read-ahead",
    title: "The device's read-ahead is neither off nor huge",
    family: Family::Storage,
    needs: &[Need::Host],
    why: "The kernel reads ahead where it believes in a sequence: it doubles a sequential scan's speed on slow devices, and reads what nobody wants where half of the blocks of a region are read at random.",
    effect: "Seen by trial: 20,000 of 32,768 random blocks read 1.5 times their bytes with the default of 128 KiB, 1.0 times with random advice. With 0 a sequential scan waits for each block.",
    remedy: "128 KiB to 1 MiB; measure with pgassay run scattered-read.",
    sources: &["Linux, Documentation/admin-guide/abi-stable, queue/read_ahead_kb"],
    judge: read_ahead,
};

fn read_ahead(seen: &Seen) -> Judged {
    let kilobytes: u64 = match queue(seen, "read_ahead_kb")?.parse() {
        Ok(kilobytes) => kilobytes,
        Err(_) => return could_not_see("read_ahead_kb is no number"),
    };
    let device = seen.text("device of the data")?;
    let saw = format!("read-ahead of {device} is {kilobytes} KiB");
    let found = |what: &str| {
        Finding::new(Severity::Low, Sure::Possible, format!("{saw}: {what}"))
            .shell(format!(
                "echo 128 > /sys/block/{device}/queue/read_ahead_kb   # keep it by a udev rule"
            ))
            .shell("pgassay run scattered-read")
            .found()
    };
    match kilobytes {
        0..16 => found("sequential scans wait for each read."),
        4097.. => found("random reads near each other read much that nobody wants."),
        _ => passed(saw),
    }
}

/// The I/O scheduler of the device.
pub static SCHEDULER: Rule = Rule {
    id: "io-scheduler",
    title: "A fast device is not scheduled as a slow one",
    family: Family::Storage,
    needs: &[Need::Host],
    why: "BFQ and CFQ order requests for fairness and for heads that move; on a device without heads that costs CPU time and a lock for each request.",
    effect: "CPU time for each request; the kernel's documents recommend none or mq-deadline (kyber) for fast devices.",
    remedy: "none for NVMe and virtual disks, mq-deadline for SATA SSDs.",
    sources: &["Linux, Documentation/block/bfq-iosched.rst, switching-sched.rst"],
    judge: scheduler,
};

fn scheduler(seen: &Seen) -> Judged {
    let text = queue(seen, "scheduler")?;
    let chosen = text
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'))
        .map_or(text, |(chosen, _)| chosen);
    let device = seen.text("device of the data")?;
    let saw = format!("scheduler of {device}: {chosen}");
    if queue(seen, "rotational")? == "1" && !device.starts_with("nvme") {
        return passed(format!("{saw}; it says it rotates"));
    }
    if !matches!(chosen, "bfq" | "cfq") {
        return passed(saw);
    }
    Finding::new(
        Severity::Low,
        Sure::Likely,
        format!("The scheduler of {device} is {chosen}, and nothing in it rotates."),
    )
    .shell(format!(
        "echo none > /sys/block/{device}/queue/scheduler   # keep it by a udev rule"
    ))
    .found()
}

/// The planner's belief in random reads.
pub static RANDOM_COST: Rule = Rule {
    id: "random-page-cost",
    title: "random_page_cost fits the device",
    family: Family::Storage,
    needs: &[Need::Sql, Need::Host],
    why: "4 stands for a disk whose head moves, most of its reads cached. On a device without heads the planner then prefers sequential scans where an index would read less.",
    effect: "Through the plan: none, or large. The manual names lower values for solid-state drives.",
    remedy: "1.1 to 2 on solid-state storage, 4 on others.",
    sources: &["PostgreSQL manual, \"Query Planning\": random_page_cost"],
    judge: random_cost,
};

fn random_cost(seen: &Seen) -> Judged {
    let cost = seen.decimal("random_page_cost")?;
    let sequential = seen.decimal("seq_page_cost").unwrap_or(1.0).max(0.01);
    if queue(seen, "rotational")? == "1" {
        if cost / sequential > 6.0 {
            return Finding::new(
                Severity::Low,
                Sure::Possible,
                format!(
                    "random_page_cost = {cost}, seq_page_cost = {sequential}: more than 4, which \
                     stands for a disk whose head moves."
                ),
            )
            .sql("ALTER SYSTEM RESET random_page_cost; SELECT pg_reload_conf();")
            .found();
        }
        return not_applicable(
            "the device says it rotates (virtual disks often do): 4 is meant for that",
        );
    }
    let saw = format!(
        "random_page_cost = {cost}, seq_page_cost = {sequential}, on a device that does not rotate"
    );
    if cost / sequential < 3.0 {
        return passed(saw);
    }
    Finding::new(Severity::Low, Sure::Possible, format!("{saw}."))
        .sql("ALTER SYSTEM SET random_page_cost = 1.1; SELECT pg_reload_conf();")
        .found()
}

/// Prefetching.
pub static CONCURRENCY: Rule = Rule {
    id: "io-concurrency",
    title: "Bitmap scans prefetch",
    family: Family::Storage,
    needs: &[Need::Sql],
    why: "effective_io_concurrency is how many blocks a bitmap scan (from 18 every stream) asks for ahead. With 0 each read waits for the one before.",
    effect: "On devices that take many requests at once a cold bitmap scan goes up to as many times faster as requests fit; none where the data is cached.",
    remedy: "16 (18's default) to 200 on solid-state and cloud storage.",
    sources: &[
        "PostgreSQL manual, \"Resource Consumption\": effective_io_concurrency; its default went from 1 to 16 with 18",
    ],
    judge: concurrency,
};

fn concurrency(seen: &Seen) -> Judged {
    let ahead = seen.number("effective_io_concurrency")?;
    let saw = format!("effective_io_concurrency = {ahead}");
    let rotates = queue(seen, "rotational").is_ok_and(|r| r == "1");
    match ahead {
        0 => Finding::new(
            Severity::Low,
            Sure::Likely,
            format!("{saw}: bitmap scans do not prefetch."),
        ),
        1 if !rotates => Finding::new(
            Severity::Info,
            Sure::Possible,
            format!("{saw}, the default up to 17, meant for one disk."),
        ),
        _ => return passed(saw),
    }
    .sql("ALTER SYSTEM SET effective_io_concurrency = 16; SELECT pg_reload_conf();")
    .found()
}

/// How reads are carried out, from 18 on.
pub static IO_METHOD: Rule = Rule {
    id: "io-method",
    title: "Reads are asynchronous where the version can",
    family: Family::Storage,
    needs: &[Need::Sql, Need::Host],
    why: "18 can hand reads to I/O workers or io_uring and go on meanwhile; io_method = sync reads as before. Three workers, the default, serve all backends.",
    effect: "For cold sequential and bitmap scans; none for cached data. The release notes name no figure.",
    remedy: "worker with io_workers near a quarter of the CPUs, or io_uring where the kernel and the container allow it; measure.",
    sources: &[
        "PostgreSQL commits 02844012b3, c325a7633f (18)",
        "PostgreSQL manual, \"Resource Consumption\": io_method, io_workers",
    ],
    judge: io_method,
};

fn io_method(seen: &Seen) -> Judged {
    let method = seen.value("io_method")?;
    let workers = seen.number("io_workers").unwrap_or(3);
    let cpus = seen.cpus().unwrap_or(1);
    match method {
        "sync" => Finding::new(
            Severity::Low,
            Sure::Likely,
            "io_method = sync: each read waits.",
        )
        .sql("ALTER SYSTEM SET io_method = 'worker';   -- then restart")
        .found(),
        "worker" if cpus >= 32 && workers <= 3 => Finding::new(
            Severity::Info,
            Sure::Possible,
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

/// Direct I/O, a developer's option.
pub static DIRECT_IO: Rule = Rule {
    id: "direct-io",
    title: "Direct I/O is off outside of experiments",
    family: Family::Storage,
    needs: &[Need::Sql],
    why: "debug_io_direct reads and writes past the page cache, without read-ahead by the kernel: what shared_buffers does not hold is read from the device each time.",
    effect: "Slower wherever the page cache helped; the manual calls it a developer option.",
    remedy: "Off; to see what 64 KiB pages cost it is a useful comparison.",
    sources: &[
        "PostgreSQL commit d4e71df6d7 (16)",
        "PostgreSQL manual, \"Developer Options\": debug_io_direct",
    ],
    judge: direct_io,
};

fn direct_io(seen: &Seen) -> Judged {
    let value = match seen.value("debug_io_direct") {
        Ok(value) => value,
        Err(Aside::NotApplicable(_)) => seen.value("io_direct")?,
        Err(aside) => return Err(aside),
    };
    if value.is_empty() {
        return passed("off");
    }
    Finding::new(
        Severity::Medium,
        Sure::Certain,
        format!(
            "debug_io_direct = {value}, with {} of shared_buffers.",
            seen.bytes("shared_buffers")
                .map_or_else(|_| "an unknown amount".to_owned(), shown)
        ),
    )
    .sql("ALTER SYSTEM RESET debug_io_direct;   -- then restart")
    .found()
}

/// A control group's limit on the device.
pub static IO_LIMIT: Rule = Rule {
    id: "io-limit",
    title: "No control group limits the device",
    family: Family::Storage,
    needs: &[Need::Cgroup],
    why: "A limit of bytes or requests makes each read and fsync beyond it wait, whatever the device could do, and whatever lock the waiting backend holds.",
    effect: "The limit itself: 100 write requests a second are at most 100 commits a second that do not share a flush.",
    remedy: "Raise it, or know it: figures are the limit's, not the device's.",
    sources: &[
        "Linux, Documentation/admin-guide/cgroup-v2.rst: io.max; cgroup-v1/blkio-controller.rst",
    ],
    judge: io_limit,
};

fn io_limit(seen: &Seen) -> Judged {
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
    Finding::new(
        Severity::Medium,
        Sure::Certain,
        format!("The server's control group limits its device: {}.", limits.join(", ")),
    )
    .shell("systemctl set-property UNIT IOReadIOPSMax= IOWriteIOPSMax= IOReadBandwidthMax= IOWriteBandwidthMax=   # or the container's --device-read-iops and its like")
    .found()
}

//! What the server's version lacks, where its use would feel it.
//!
//! The rows are those of `docs/` and of PostgreSQL's own history; a newer version
//! than the newest row is passed.

use crate::check::rule::{
    Aside, Family, Finding, Judged, Need, Rule, Severity, Sure, could_not_see, not_applicable,
    passed,
};
use crate::check::seen::{Seen, number, word};

/// `server_version_num` as people write it.
fn written(version: u32) -> String {
    if version >= 100_000 {
        format!("{}.{}", version / 10_000, version % 10_000)
    } else {
        format!(
            "{}.{}.{}",
            version / 10_000,
            version / 100 % 100,
            version % 100
        )
    }
}

/// Sessions of clients: all, and those that are active.
fn sessions(seen: &Seen) -> Result<(f64, f64), Aside> {
    let rows = seen.rows("sessions")?;
    let clients = rows.iter().filter(|r| {
        matches!(word(r, "backend_type"), Some("client backend"))
            // Other users' rows show nothing but that they exist.
            || word(r, "backend_type") == Some("")
    });
    let (mut all, mut active) = (0.0, 0.0);
    for row in clients {
        let n = number(row, "sessions").unwrap_or(0.0);
        all += n;
        if word(row, "state") == Some("active") {
            active += n;
        }
    }
    Ok((all, active))
}

/// Snapshots that cost by connection.
pub static SNAPSHOTS: Rule = Rule {
    id: "version-snapshots",
    title: "Taking a snapshot does not cost by the number of connections",
    family: Family::Version,
    needs: &[Need::Sql],
    why: "Up to 13 each snapshot visits every connection's entry, idle ones included; every statement takes one or more. 14 keeps what it needs in dense arrays and reuses snapshots that nothing has changed.",
    effect: "Seen by pgassay on one machine: a snapshot on 13 falls from 21 million a second to 0.31 with 500 idle sessions; on 15 from 32 to 26 where it is reused. Published, POWER8: 13.75 % of the CPU in GetSnapshotData once the buffer header's spinlock was gone.",
    remedy: "Upgrade to 14 or later; until then a pooler, so that few connections stand idle.",
    sources: &[
        "PostgreSQL commits dc7420c2c9, 73487a60fc, 623a9ba79b (14)",
        "Postgres Professional, \"Scaling at multicore POWER8\", 2015",
    ],
    judge: snapshots,
};

fn snapshots(seen: &Seen) -> Judged {
    let version = seen.version()?;
    if version >= 140_000 {
        return passed(format!(
            "{}: snapshots are scalable from 14 on",
            written(version)
        ));
    }
    let (all, active) = sessions(seen)?;
    let saw = format!(
        "PostgreSQL {} with {all} sessions, {active} of them active",
        written(version)
    );
    if all < 100.0 {
        return passed(format!("{saw}: too few for the effect"));
    }
    let severity = if all >= 300.0 {
        Severity::High
    } else {
        Severity::Medium
    };
    Finding::new(
        severity,
        Sure::Likely,
        format!("{saw}: up to 13 each snapshot visits all of them, idle ones too."),
    )
    .advice("upgrade to 14 or later")
    .advice("until then put PgBouncer in transaction mode before it, and lower max_connections")
    .found()
}

/// The buffer header's spinlock.
pub static PINS: Rule = Rule {
    id: "version-buffer-pins",
    title: "Pinning a buffer takes no spinlock",
    family: Family::Version,
    needs: &[Need::Sql, Need::Host],
    why: "Up to 9.5 each pin and unpin takes the buffer header's spinlock; on hot pages (an index's root) all backends meet there.",
    effect: "Published, POWER8 with 256 threads: 32 % of the CPU in s_lock, no growth beyond 100 to 150 clients; with atomics it grew up to 400.",
    remedy: "Upgrade to 9.6 or later (now to a supported version).",
    sources: &[
        "PostgreSQL commit 48354581a4 (9.6)",
        "Postgres Professional, \"Scaling at multicore POWER8\", 2015",
    ],
    judge: pins,
};

fn pins(seen: &Seen) -> Judged {
    let version = seen.version()?;
    if version >= 90_600 {
        return passed(format!(
            "{}: pins are compare-and-swap from 9.6 on",
            written(version)
        ));
    }
    let cpus = seen.cpus().unwrap_or(0);
    Finding::new(
        if cpus == 0 || cpus >= 8 {
            Severity::High
        } else {
            Severity::Medium
        },
        Sure::Likely,
        format!(
            "PostgreSQL {}: every pin of a buffer takes a spinlock.",
            written(version)
        ),
    )
    .advice("upgrade")
    .found()
}

/// WAL insertion positions under a lock.
pub static WAL_INSERTION: Rule = Rule {
    id: "version-wal-insertion",
    title: "WAL insertion positions are kept by atomics",
    family: Family::Version,
    needs: &[Need::Sql, Need::Host],
    why: "Up to 16 who waits for WAL to be inserted takes each insertion lock's spinlock-protected state in turn; 17 uses atomics.",
    effect: "Reported with the change: 119,000 to 333,000 tps at 512 clients of a writing test.",
    remedy: "Upgrade to 17 or later.",
    sources: &["PostgreSQL commit 71e4cc6b8e (17)"],
    judge: wal_insertion,
};

fn wal_insertion(seen: &Seen) -> Judged {
    let version = seen.version()?;
    if version >= 170_000 {
        return passed(format!("{}: by atomics from 17 on", written(version)));
    }
    let cpus = seen.cpus()?;
    let (_, active) = sessions(seen)?;
    let row = seen.row("databases")?;
    let (commits, written_rows) = (number(&row, "commits"), number(&row, "tup_written"));
    let (Some(commits), Some(written_rows)) = (commits, written_rows) else {
        return could_not_see("the server's counters of rows written are empty");
    };
    let writes = written_rows / commits.max(1.0);
    let saw = format!(
        "{} with {active} active sessions on {cpus} CPUs and {writes:.1} rows written for each transaction",
        written(version)
    );
    if cpus < 32 || active < 64.0 || writes < 0.2 {
        return passed(format!(
            "{saw}: not where the effect was seen (hundreds of writers)"
        ));
    }
    Finding::new(
        Severity::Medium,
        Sure::Possible,
        format!("PostgreSQL {saw}: WAL insertion meets at locks that 17 replaced by atomics."),
    )
    .advice("upgrade to 17 or later")
    .shell("pgassay run wal-insert --clients 1..64*2   # on both versions")
    .found()
}

/// Long lists of lock waiters.
pub static WAIT_LISTS: Rule = Rule {
    id: "version-lwlock-wait-lists",
    title: "Leaving an LWLock's wait list does not cost by its length",
    family: Family::Version,
    needs: &[Need::Sql],
    why: "A waiter that got the lock after all searched the whole wait list for itself, under the list's spinlock: quadratic in the waiters.",
    effect: "Reported as collapse with thousands of connections waiting for one lock; no effect with few.",
    remedy: "Take the current minor release: the change is in 16, and went back to 12 to 15 in 2024.",
    sources: &["PostgreSQL commits a4adc31f69 (16), 92daeca45d; back-patched to 12 in 2024"],
    judge: wait_lists,
};

fn wait_lists(seen: &Seen) -> Judged {
    let version = seen.version()?;
    let (major, minor) = (version / 10_000, version % 10_000);
    // The minor releases of February 2024.
    let fixed = match major {
        16.. => true,
        15 => minor >= 6,
        14 => minor >= 11,
        13 => minor >= 14,
        12 => minor >= 18,
        _ => false,
    };
    if fixed {
        return passed(format!("{} has the change", written(version)));
    }
    let (all, _) = sessions(seen)?;
    if all < 200.0 {
        return passed(format!(
            "{} lacks the change, but {all} sessions can't form long lists",
            written(version)
        ));
    }
    Finding::new(Severity::Medium, Sure::Possible, format!("PostgreSQL {} with {all} sessions: an LWLock's long wait lists are left in quadratic time.", written(version)))
        .advice(match major {
            12..=15 => "update to the current minor release",
            _ => "upgrade to 16 or later",
        })
        .found()
}

/// Waiting and spinning on Arm.
pub static ARM_SPIN: Rule = Rule {
    id: "version-arm-spinlocks",
    title: "Spinlocks wait as Arm's cores want it",
    family: Family::Version,
    needs: &[Need::Sql, Need::Host],
    why: "Up to 14 a spinning backend on arm64 does not pause; 15 delays by ISB. Up to 17 it tries the exclusive write each time; 18 looks before it writes, so that the line stays shared.",
    effect: "Reported gains under contention on machines with 32 cores and more; none below.",
    remedy: "Upgrade to 15, better 18.",
    sources: &["PostgreSQL commits a82a5eee31 (15), 3d0b4b1068 (18)"],
    judge: arm_spin,
};

fn arm_spin(seen: &Seen) -> Judged {
    let machine = seen.machine()?;
    if machine != "aarch64" {
        return not_applicable(format!("the machine is {machine}"));
    }
    let version = seen.version()?;
    if version >= 180_000 {
        return passed(format!(
            "{}: ISB, and looks before it writes",
            written(version)
        ));
    }
    let cpus = seen.cpus()?;
    if cpus < 16 {
        return passed(format!(
            "{} on {cpus} CPUs: too few for the effect",
            written(version)
        ));
    }
    let (severity, lacks) = if version < 150_000 {
        (
            Severity::Medium,
            "neither pauses (15) nor looks before it writes (18)",
        )
    } else {
        (Severity::Low, "writes without looking first (18 looks)")
    };
    Finding::new(
        severity,
        Sure::Possible,
        format!(
            "PostgreSQL {} on {cpus} Arm cores: a spinning backend {lacks}.",
            written(version)
        ),
    )
    .advice("upgrade to 18 or later")
    .shell("pgassay run spinlock --clients 1..64*2   # on both versions")
    .found()
}

/// Fast-path lock slots.
pub static FAST_PATH: Rule = Rule {
    id: "fast-path-locks",
    title: "Relation locks fit the fast path",
    family: Family::Version,
    needs: &[Need::Sql],
    why: "A backend keeps its first weak relation locks to itself: 16 of them up to 17, from 18 as many as max_locks_per_transaction allows. Each partition and index that a statement touches is one more, and those that do not fit go through the shared lock table's 16 partitions.",
    effect: "Reported as the bottleneck of many small queries on tables with many partitions and cores (wait event LockManager); no effect with few relations.",
    remedy: "18 and a larger max_locks_per_transaction; before that fewer partitions and indexes in a statement, prepared plans that prune.",
    sources: &["PostgreSQL commit c4d5cb71d2 (18)"],
    judge: fast_path,
};

fn fast_path(seen: &Seen) -> Judged {
    let version = seen.version()?;
    let row = seen.row("relation locks")?;
    let fast = number(&row, "fast").unwrap_or(0.0);
    let shared = number(&row, "shared").unwrap_or(0.0);
    let backends = number(&row, "backends").unwrap_or(0.0);
    let saw = format!(
        "At this moment {fast} weak relation locks are held by the fast path and {shared} in the shared table, by {backends} backends"
    );
    if shared < 50.0 || backends < 4.0 || shared < fast {
        return passed(saw);
    }
    let finding = Finding::new(
        Severity::Low,
        Sure::Possible,
        format!("{saw}: statements touch more relations than the fast path holds."),
    );
    if version >= 180_000 {
        finding.sql("ALTER SYSTEM SET max_locks_per_transaction = 256;   -- then restart")
    } else {
        finding.advice("18 has as many slots as max_locks_per_transaction; before it touch fewer partitions and indexes in a statement")
    }
    .found()
}

/// Versions that get no fixes any more.
pub static SUPPORT: Rule = Rule {
    id: "version-supported",
    title: "The version is supported",
    family: Family::Version,
    needs: &[Need::Sql],
    why: "A major version gets fixes for five years; what later versions do faster it never gets, nor fixes for data loss.",
    effect: "None by itself.",
    remedy: "Upgrade.",
    sources: &[
        "PostgreSQL versioning policy: five years from the first release, then a last one in November",
    ],
    judge: support,
};

/// The year in whose November a major version's last release comes.
fn last_year(major: u32) -> u32 {
    // 10 came in 2017, and one each year since; five years later is the last.
    2017 + major.saturating_sub(10) + 5
}

fn support(seen: &Seen) -> Judged {
    let version = seen.version()?;
    let date = seen.collected();
    let (Some(year), Some(month), Some(day)) = (
        date.get(..4).and_then(|y| y.parse::<u32>().ok()),
        date.get(5..7).and_then(|m| m.parse::<u32>().ok()),
        date.get(8..10).and_then(|d| d.parse::<u32>().ok()),
    ) else {
        return could_not_see("the facts carry no date");
    };
    let major = version / 10_000;
    let over = if major < 10 {
        true
    } else {
        // The last release comes in the month's second week.
        let last = last_year(major);
        year > last || (year == last && (month > 11 || (month == 11 && day > 14)))
    };
    if !over {
        return passed(format!(
            "{}: until November {}",
            written(version),
            last_year(major)
        ));
    }
    Finding::new(
        Severity::Low,
        Sure::Certain,
        format!("PostgreSQL {} gets no fixes any more.", written(version)),
    )
    .advice("upgrade to a supported version")
    .found()
}

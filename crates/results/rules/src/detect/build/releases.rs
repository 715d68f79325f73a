//! What the server's release lacks, if its use would feel it.

use crate::detect::{Detector, facts, high_if};
use crate::fact_view::{FactView, number, word};
use crate::find;
use crate::finding::{
    Confidence, Judged, NotJudged, Observation, Severity, could_not_see, not_applicable, passed,
};
use crate::version::written;

pub const DETECTORS: &[Detector] = &[
    facts("snapshot-scalability", snapshots),
    facts("buffer-header-spinlock", pins),
    facts("wal-insertion-locks", wal_insertion),
    facts("lwlock-wait-list", wait_lists),
    facts("arm-spinlocks", arm_spin),
    facts("fast-path-locks", fast_path),
    facts("version-supported", support),
];

/// Sessions of clients: all, and those that are active.
fn sessions(seen: &FactView) -> Result<(f64, f64), NotJudged> {
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

fn snapshots(seen: &FactView) -> Judged {
    let version = written(seen.version()?);
    let (all, active) = sessions(seen)?;
    let saw = format!("PostgreSQL {version} with {all} sessions, {active} of them active");
    if all < 100.0 {
        return passed(format!("{saw}: too few for the effect"));
    }
    let severity = high_if(all >= 300.0);
    Observation::new(
        severity,
        Confidence::Medium,
        format!("{saw}: up to 13 each snapshot visits all of them, idle ones too."),
    )
    .found()
}

fn pins(seen: &FactView) -> Judged {
    let version = written(seen.version()?);
    let severity = match seen.cpus() {
        Ok(1..8) => Severity::Medium,
        _ => Severity::High,
    };
    Observation::new(
        severity,
        Confidence::Medium,
        format!("PostgreSQL {version}: every pin of a buffer takes a spinlock."),
    )
    .found()
}

fn wal_insertion(seen: &FactView) -> Judged {
    let version = seen.version()?;
    let release = written(version);
    if version >= 170_000 {
        return passed(format!(
            "{release}: insertingAt is atomic from 17 on; the eight locks are seen under load"
        ));
    }
    let cpus = seen.cpus()?;
    let (_, active) = sessions(seen)?;
    let row = seen.row("databases")?;
    let (commits, rows) = (number(&row, "commits"), number(&row, "tup_written"));
    let (Some(commits), Some(rows)) = (commits, rows) else {
        return could_not_see("the server's counters of rows written are empty");
    };
    let writes = rows / commits.max(1.0);
    let saw = format!(
        "{release} with {active} active sessions on {cpus} CPUs and {writes:.1} rows written per transaction"
    );
    if cpus < 32 || active < 64.0 || writes < 0.2 {
        return passed(format!(
            "{saw}: the effect was seen with hundreds of writers only"
        ));
    }
    Observation::new(
        Severity::Medium,
        Confidence::Low,
        format!("PostgreSQL {saw}: who inserts and who flushes meet at the wait-list locks of eight locks."),
    )
    .shell("pgassay run wal-insert --clients 1..64*2   # on both versions")
    .found()
}

fn wait_lists(seen: &FactView) -> Judged {
    let version = seen.version()?;
    let release = written(version);
    let changes = find("lwlock-wait-list").map_or(&[][..], |entry| entry.changes);
    if changes.iter().all(|change| change.is_in(version)) {
        return passed(format!("{release}: leaving a wait list is not quadratic"));
    }
    let (all, _) = sessions(seen)?;
    if all < 200.0 {
        return passed(format!(
            "{release} lacks the change, but {all} sessions cannot form long lists"
        ));
    }
    Observation::new(
        Severity::Medium,
        Confidence::Low,
        format!("PostgreSQL {release} with {all} sessions: an LWLock's long wait lists are left in quadratic time."),
    )
    .found()
}

fn arm_spin(seen: &FactView) -> Judged {
    let machine = seen.machine()?;
    if machine != "aarch64" {
        return not_applicable(format!("the machine is {machine}"));
    }
    let version = seen.version()?;
    let release = written(version);
    let cpus = seen.cpus()?;
    if cpus < 16 {
        return passed(format!("{release} on {cpus} CPUs: too few for the effect"));
    }
    let (severity, lacks) = if version < 150_000 {
        (
            Severity::Medium,
            "neither pauses (15) nor tests before it writes (18)",
        )
    } else {
        (Severity::Low, "writes without testing first (18 tests)")
    };
    Observation::new(
        severity,
        Confidence::Low,
        format!("PostgreSQL {release} on {cpus} Arm cores: a spinning backend {lacks}."),
    )
    .shell("pgassay run spinlock --clients 1..64*2   # on both versions")
    .found()
}

fn fast_path(seen: &FactView) -> Judged {
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
    let found = Observation::new(
        Severity::Low,
        Confidence::Low,
        format!("{saw}: statements touch more relations than the fast path holds."),
    );
    if version >= 180_000 {
        found.sql(
            "ALTER SYSTEM SET max_locks_per_transaction = 256;   -- then restart; on standbys first, as a standby must not have less than \
             its primary",
        )
    } else {
        found.advice("touch fewer partitions and indexes per statement")
    }
    .found()
}

/// The year in whose November a major version's last release comes.
fn last_year(major: u32) -> u32 {
    // 10 came in 2017, and one each year since; five years later is the last.
    2017 + major.saturating_sub(10) + 5
}

fn support(seen: &FactView) -> Judged {
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
    Observation::new(
        Severity::Low,
        Confidence::High,
        format!("PostgreSQL {} no longer gets fixes.", written(version)),
    )
    .advice("upgrade to a supported version")
    .found()
}

//! The rules, by family, and their registry.

mod build;
mod memory;
mod pages;
mod processor;
mod sessions;
mod standbys;
mod statements;
mod storage;
mod version;
mod wal;

use super::Rule;

/// Every rule, in the order of lists.
pub static RULES: &[&Rule] = &[
    &pages::BASE_PAGE,
    &pages::HUGE_PAGES,
    &pages::HUGE_PAGES_IDLE,
    &pages::PAGE_TABLES,
    &pages::TRANSPARENT,
    &memory::BUFFERS_SMALL,
    &memory::BUFFERS_LARGE,
    &memory::WORK_MEM,
    &memory::CACHE_SIZE,
    &memory::SWAP,
    &memory::NUMA_BALANCING,
    &memory::NUMA_PLACEMENT,
    &memory::ZONE_RECLAIM,
    &memory::DIRTY,
    &memory::OVERCOMMIT,
    &processor::QUOTA,
    &processor::THROTTLED,
    &processor::STEAL,
    &processor::CLOCK,
    &processor::TIMING,
    &processor::GOVERNOR,
    &processor::PREEMPTION,
    &processor::EMULATED,
    &processor::PRESSURE,
    &build::ASSERTIONS,
    &build::UNOPTIMISED,
    &build::NO_SPINLOCKS,
    &build::LSE_SERVER,
    &build::LSE_LIBRARIES,
    &build::OLDER_CPU,
    &build::CRC,
    &build::REPLACED,
    &version::SNAPSHOTS,
    &version::PINS,
    &version::WAL_INSERTION,
    &version::WAIT_LISTS,
    &version::ARM_SPIN,
    &version::FAST_PATH,
    &version::SUPPORT,
    &sessions::MAX_CONNECTIONS,
    &sessions::IDLE,
    &sessions::IN_TRANSACTION,
    &sessions::HORIZON,
    &sessions::ACTIVE,
    &storage::FILE_SYSTEM,
    &storage::READ_AHEAD,
    &storage::IO_LIMIT,
    &storage::SCHEDULER,
    &storage::RANDOM_COST,
    &storage::CONCURRENCY,
    &storage::IO_METHOD,
    &storage::DIRECT_IO,
    &wal::FSYNC,
    &wal::FULL_PAGES,
    &wal::COMMIT,
    &wal::COMMIT_DELAY,
    &standbys::SYNCHRONOUS,
    &standbys::ARCHIVING,
    &standbys::DECODING,
    &wal::CHECKPOINTS,
    &wal::MAX_WAL_SIZE,
    &wal::CHECKPOINT_SPREAD,
    &wal::WAL_BUFFERS,
    &wal::BACKEND_WRITES,
    &statements::JIT,
    &statements::LOGGING,
    &statements::LIBRARIES,
    &statements::PLAN_CACHE,
    &statements::ISOLATION,
    &statements::DEVELOPER,
    &statements::AUTOVACUUM,
    &statements::PENDING,
];

/// Bytes as people read them: `5.9 GiB`.
fn shown(bytes: u64) -> String {
    const UNITS: &[&str] = &["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} bytes");
    }
    let mut value = bytes as f64;
    let mut unit = "bytes";
    for next in UNITS {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    if value < 10.0 && value.fract() > 0.05 {
        format!("{value:.1} {unit}")
    } else {
        format!("{value:.0} {unit}")
    }
}

/// A share as people read it: `3.2 %`.
fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent >= 10.0 || percent.fract().abs() < 0.05 {
        format!("{percent:.0} %")
    } else {
        format!("{percent:.1} %")
    }
}

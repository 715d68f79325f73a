//! What PostgreSQL changed about scaling, in which version, by which commit.
//!
//! Commits are those of PostgreSQL's public repository
//! (<https://git.postgresql.org/gitweb/?p=postgresql.git>).

/// A change that a rule cites.
#[derive(Debug, Clone, Copy)]
pub struct Change {
    /// First version that has it, as `server_version_num`.
    pub since: u32,
    /// The version as people say it.
    pub version: &'static str,
    /// What changed.
    pub what: &'static str,
    /// The commits.
    pub commits: &'static [&'static str],
}

impl Change {
    /// The citation.
    pub fn source(&self) -> String {
        format!(
            "PostgreSQL {}: {} (commit {})",
            self.version,
            self.what,
            self.commits.join(", ")
        )
    }

    /// Whether a server lacks it; none where its version is not known.
    pub fn lacking(&self, version: Option<u32>) -> Option<bool> {
        version.map(|v| v < self.since)
    }
}

pub const PIN_WITHOUT_LOCK: Change = Change {
    since: 90_600,
    version: "9.6",
    what: "pinning and unpinning a buffer is lock-free (compare-and-swap on its state)",
    commits: &["48354581a4"],
};

pub const CLOCK_SWEEP: Change = Change {
    since: 90_500,
    version: "9.5",
    what: "the clock hand moves without a lock",
    commits: &["d72731a704"],
};

pub const NO_FREE_LIST: Change = Change {
    since: 190_000,
    version: "19",
    what: "no free list: a buffer to replace is found without a lock",
    commits: &["2c78940527"],
};

pub const SCALABLE_SNAPSHOTS: Change = Change {
    since: 140_000,
    version: "14",
    what: "GetSnapshotData made scalable: dense arrays, and an unchanged snapshot is reused",
    commits: &["dc7420c2c9", "73487a60fc", "623a9ba79b"],
};

pub const WAIT_LIST_REMOVAL: Change = Change {
    since: 160_000,
    version: "16",
    what: "removing a waiter from an LWLock's list is no longer quadratic (back-patched to 12 in 2024)",
    commits: &["a4adc31f69"],
};

pub const WAL_POSITIONS: Change = Change {
    since: 170_000,
    version: "17",
    what: "positions of WAL insertion are published by atomics (119k to 333k tps reported with 512 clients)",
    commits: &["71e4cc6b8e"],
};

pub const MAPPING_PARTITIONS: Change = Change {
    since: 90_500,
    version: "9.5",
    what: "128 buffer mapping partitions instead of 16",
    commits: &["3acc10c997"],
};

pub const FAST_PATH: Change = Change {
    since: 180_000,
    version: "18",
    what: "more fast-path lock slots, by max_locks_per_transaction",
    commits: &["c4d5cb71d2"],
};

pub const ARM_CRC: Change = Change {
    since: 110_000,
    version: "11",
    what: "CRC-32C by the ARMv8 instructions, checked at run time",
    commits: &["f044d71e33"],
};

/// All of them, for the documentation.
#[cfg(test)]
pub const ALL: &[&Change] = &[
    &PIN_WITHOUT_LOCK,
    &CLOCK_SWEEP,
    &NO_FREE_LIST,
    &SCALABLE_SNAPSHOTS,
    &WAIT_LIST_REMOVAL,
    &WAL_POSITIONS,
    &MAPPING_PARTITIONS,
    &FAST_PATH,
    &ARM_CRC,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_is_the_version() {
        for change in ALL {
            assert_eq!(
                super::super::version_number(change.version),
                Some(change.since),
                "{}",
                change.version
            );
            assert!(
                change.commits.iter().all(|c| c.len() == 10),
                "{}",
                change.what
            );
        }
        assert_eq!(FAST_PATH.lacking(Some(170_002)), Some(true));
        assert_eq!(FAST_PATH.lacking(None), None);
    }
}

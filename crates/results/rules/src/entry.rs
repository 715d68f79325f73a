//! An entry of the catalogue: what is known of a bottleneck, whoever detects it.

use serde::{Deserialize, Serialize};

use super::severity::Severity;

/// A bottleneck: a page among the rules, as `build.rs` reads it.
#[derive(Debug, PartialEq, Eq)]
pub struct Entry {
    /// Stable name: in scripts, in `--explain`, and of its page.
    pub id: &'static str,
    /// The bottleneck in a few words.
    pub title: &'static str,
    /// Its family, which is the folder of its page.
    pub family: Family,
    /// How much it weighs, unless a detector knows better.
    pub severity: Severity,
    /// What the audit must be able to see, the indispensable first.
    pub needs: &'static [Need],
    /// The first version that can have it, as `server_version_num`.
    pub since: Option<u32>,
    /// The first version that cannot have it any more.
    pub until: Option<u32>,
    /// No release cures it.
    pub open: bool,
    /// With it, every other figure is that of something else.
    pub invalidates_results: bool,
    /// What releases changed about it, the oldest first.
    pub changes: &'static [Change],
    /// Entries of the audit whose cost this one measures when a load shows it.
    pub supersedes: &'static [&'static str],
    /// Entries by which it shows itself: their findings rank below its own.
    pub symptoms: &'static [&'static str],
    /// Our loads that show it on a well-configured server, too.
    pub expected_under: &'static [&'static str],
    /// Our loads that cause it themselves.
    pub caused_by_workload: &'static [&'static str],
    /// Where its cost would be seen if it had one: a load's time there bounds what it can be.
    pub costs: &'static [Part],
    /// Workloads of pgassay that measure it by itself.
    pub measured_by: &'static [&'static str],
    /// What a comparison changes to measure it, the first that is possible; none where none can.
    pub compare: &'static [Compared],
    /// The workload under which such a comparison shows it, if not under that which found it.
    pub compare_under: Option<&'static str>,
    /// Where this is from.
    pub sources: &'static [&'static str],
    /// The mechanism.
    pub why: &'static str,
    /// How much it has been seen to matter, or that no figure is known.
    pub impact: &'static str,
    /// What is done about it in general.
    pub remedy: &'static str,
}

/// What a comparison changes to measure a bottleneck.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compared {
    /// The settings that the remedy changes.
    Settings,
    /// One setting, whatever the remedy says: B's value, and A's if that is not the server's own.
    Setting {
        /// Its name.
        name: &'static str,
        /// A's value.
        a: Option<&'static str>,
        /// B's value.
        b: &'static str,
    },
    /// The release that changed something about it.
    Release,
    /// A build of the same source, by its variant.
    Build(&'static str),
}

/// What a release changed about a bottleneck.
#[derive(Debug, PartialEq, Eq)]
pub struct Change {
    /// First version that has it, as `server_version_num`.
    pub since: u32,
    /// Minor releases by which older versions got it.
    pub back_patched: &'static [u32],
    /// The version as people write it.
    pub version: &'static str,
    /// Commits in PostgreSQL's public repository.
    pub commits: &'static [&'static str],
    /// What changed.
    pub what: &'static str,
}

impl Entry {
    /// Whether a version can have this bottleneck; an unknown one can.
    pub fn concerns(&self, version: Option<u32>) -> bool {
        version.is_none_or(|v| {
            self.since.is_none_or(|since| v >= since) && self.until.is_none_or(|until| v < until)
        })
    }
}

impl Change {
    /// Whether a server of this version has it.
    pub fn is_in(&self, version: u32) -> bool {
        let same_major = |with: u32| with / 10_000 == version / 10_000;
        version >= self.since
            || self
                .back_patched
                .iter()
                .any(|with| same_major(*with) && version >= *with)
    }

    /// The citation.
    pub fn source(&self) -> String {
        format!(
            "PostgreSQL {}: {} (commit {})",
            self.version,
            self.what,
            self.commits.join(", ")
        )
    }
}

/// A part of the sessions' time in transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// On a CPU.
    Cpu,
    /// Reading blocks that are not in shared buffers.
    Reads,
}

/// A folder of rules, by their subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// Base pages, huge pages, page tables.
    Pages,
    /// Amounts of memory, NUMA, swap.
    Memory,
    /// CPU time, clocks, frequency, quotas, preemption.
    Processor,
    /// How the server and its libraries were compiled, and which release it is.
    Build,
    /// Locks of the server, and who queues for them.
    Locks,
    /// How many sessions there are, and what the idle ones hold.
    Sessions,
    /// Data device, file system, reads.
    Io,
    /// WAL, checkpoints, durability.
    Wal,
    /// What each statement pays for.
    Statements,
    /// The client that puts the load on the server.
    Client,
}

impl Family {
    /// The heading that it has in lists.
    pub fn title(self) -> &'static str {
        match self {
            Self::Pages => "Memory pages",
            Self::Memory => "Memory",
            Self::Processor => "Processor",
            Self::Build => "Build and release",
            Self::Locks => "Contention",
            Self::Sessions => "Sessions",
            Self::Io => "Storage",
            Self::Wal => "WAL and durability",
            Self::Statements => "Statements",
            Self::Client => "Client",
        }
    }
}

/// Something that an audit must be able to see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Need {
    /// The host's /proc and /sys.
    Host,
    /// Files of the host that only root may read.
    HostAsRoot,
    /// The control group's files.
    Cgroup,
    /// The server's answers to plain SQL.
    Sql,
    /// Answers that take `pg_monitor` or `pg_read_all_settings`.
    SqlAsMonitor,
    /// /proc/PID of the server's processes, as their owner or root.
    Process,
    /// The server's executable.
    Binary,
}

impl Need {
    /// In a table.
    pub fn title(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::HostAsRoot => "host as root",
            Self::Cgroup => "control group",
            Self::Sql => "SQL",
            Self::SqlAsMonitor => "SQL as pg_monitor",
            Self::Process => "server's /proc/PID",
            Self::Binary => "executable",
        }
    }
}

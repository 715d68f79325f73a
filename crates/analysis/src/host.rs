//! The machine, out of the recorded texts of `/proc` and `/sys`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::record::Reading;

/// What bears on the figures, as far as it could be seen; none means not seen.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HostSummary {
    /// `x86_64`, `aarch64` …
    pub architecture: Option<String>,
    /// The CPU's name, from /proc/cpuinfo or its MIDR.
    pub cpu_model: Option<String>,
    /// Logical CPUs that this process may use.
    pub cpus: Option<u32>,
    /// Physical cores.
    pub cores: Option<u32>,
    /// Sockets.
    pub sockets: Option<u32>,
    /// NUMA nodes.
    pub numa_nodes: Option<u32>,
    /// CPU features that bear on atomics, CRC and vector code, by /proc/cpuinfo's names.
    pub cpu_features: Vec<String>,
    /// Size of one last-level cache in bytes.
    pub last_level_cache_bytes: Option<u64>,
    /// Size of all last-level caches together in bytes.
    pub last_level_cache_total_bytes: Option<u64>,
    /// Memory in bytes.
    pub memory_bytes: Option<u64>,
    /// The container's memory limit in bytes, where there is one.
    pub memory_limit_bytes: Option<u64>,
    /// The container's CPU quota in CPUs, where there is one.
    pub cpu_quota: Option<f64>,
    /// Base page size of the kernel in bytes.
    pub page_size_bytes: Option<u64>,
    /// Default huge page size in bytes.
    pub huge_page_size_bytes: Option<u64>,
    /// Huge pages reserved and free.
    pub huge_pages_total: Option<u64>,
    /// Huge pages free.
    pub huge_pages_free: Option<u64>,
    /// Transparent huge pages: `always`, `madvise` or `never`.
    pub transparent_huge_pages: Option<String>,
    /// Kernel release.
    pub kernel: Option<String>,
    /// The distribution's name and version.
    pub distribution: Option<String>,
    /// Hypervisor or virtual machine type; `none` on bare metal.
    pub virtualisation: Option<String>,
    /// Container type, where it runs in one.
    pub container: Option<String>,
    /// Clock source of the kernel.
    pub clock_source: Option<String>,
    /// CPU frequency governor, where the kernel has one.
    pub cpu_governor: Option<String>,
}

/// Reads the recorded texts; what is missing or not understood stays none.
pub fn summarise(texts: &BTreeMap<String, Reading>) -> HostSummary {
    let text = |path: &str| texts.get(path).and_then(Reading::text);
    HostSummary {
        kernel: text("/proc/sys/kernel/osrelease").map(|t| t.trim().to_owned()),
        ..HostSummary::default()
    }
}

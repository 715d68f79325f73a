//! The machine, out of the recorded texts of `/proc` and `/sys`.
//!
//! The texts are keyed by their source: a path, a path with `*` where the CPUs'
//! own files are put together (a line `CPU-LIST: TEXT` for each different
//! text), or the name of a system call. Nothing here fails: what is missing or
//! not understood stays none.

mod arm;
mod cpu;
mod limits;
mod surroundings;

pub use cpu::cpus_of;

use std::collections::BTreeMap;

use pgassay_model::reading::Reading;
use procfs_core::{FromRead, Meminfo};
use serde::{Deserialize, Serialize};

use crate::number;

/// Which machine it is, as a text that tells it from others and nothing about it.
pub const IDENTITY: &str = "identity of the machine";

/// What bears on the figures, as far as it could be seen; none means not seen.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// The clock of the fastest CPU in Hz: the highest that cpufreq names; without cpufreq, as on most
    /// virtual machines, what /proc/cpuinfo said when it was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_hz: Option<u64>,
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
    /// File system and device under the data directory: `ext4 on nvme0n1`.
    pub data_device: Option<String>,
}

impl HostSummary {
    /// `2 CPUs (AMD EPYC)`; `None` where their number is not known.
    pub fn processors(&self) -> Option<String> {
        let cpus = number::counted(self.cpus?, "CPU");
        Some(match &self.cpu_model {
            Some(model) => format!("{cpus} ({model})"),
            None => cpus,
        })
    }

    /// The memory that a server may use: the machine's, or the container's
    /// limit where that is less.
    pub fn usable_memory_bytes(&self) -> Option<u64> {
        match (self.memory_bytes, self.memory_limit_bytes) {
            (Some(memory), Some(limit)) => Some(memory.min(limit)),
            (memory, limit) => memory.or(limit),
        }
    }

    /// CPUs whose time can be had at once: no more than a container's quota pays for.
    pub fn usable_cpus(&self) -> Option<u32> {
        let paid = self.cpu_quota.map(|quota| quota.max(1.0) as u32);
        match (self.cpus, paid) {
            (Some(cpus), Some(paid)) => Some(cpus.min(paid)),
            (cpus, paid) => cpus.or(paid),
        }
    }
}

/// The recorded texts, and the ways to look into them.
#[derive(Clone, Copy)]
struct Texts<'a>(&'a BTreeMap<String, Reading>);

impl<'a> Texts<'a> {
    /// A source's text, without the white space around it.
    fn get(self, source: &str) -> Option<&'a str> {
        self.0.get(source).and_then(Reading::text).map(str::trim)
    }

    /// A source's text, where it is not empty.
    fn filled(self, source: &str) -> Option<&'a str> {
        self.get(source).filter(|text| !text.is_empty())
    }

    /// The lines of what was put together for the CPUs: their list, the text.
    fn grouped(self, source: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.get(source)
            .unwrap_or_default()
            .lines()
            .filter_map(|line| line.split_once(": "))
    }

    /// All sources with this beginning and end.
    fn sources(self, start: &'a str, end: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.0
            .range(start.to_owned()..)
            .take_while(move |(source, _)| source.starts_with(start))
            .filter(move |(source, _)| source.ends_with(end))
            .filter_map(|(source, reading)| Some((source.as_str(), reading.text()?.trim())))
    }
}

/// Reads the recorded texts; what is missing or not understood stays none.
pub fn summarise(texts: &BTreeMap<String, Reading>) -> HostSummary {
    let texts = Texts(texts);
    let architecture = texts.filled("uname machine").map(str::to_owned);
    let processors = cpu::processors(texts);
    let caches = cpu::last_level_cache(texts);
    let meminfo = texts
        .get("/proc/meminfo")
        .and_then(|text| Meminfo::from_read(text.as_bytes()).ok());
    let nodes = texts
        .sources("/sys/devices/system/node/node", "/cpulist")
        .count();
    let memory_bytes = meminfo.as_ref().map(|m| m.mem_total);
    // A limit that memory does not reach limits nothing.
    let limit = limits::memory(texts).filter(|limit| memory_bytes.is_none_or(|all| *limit < all));
    HostSummary {
        architecture,
        cpu_model: processors.model,
        cpus: processors.allowed,
        cores: processors.cores,
        sockets: processors.sockets,
        cpu_hz: cpu::clock(texts),
        numa_nodes: u32::try_from(nodes).ok().filter(|&nodes| nodes > 0),
        cpu_features: processors.features,
        last_level_cache_bytes: caches.map(|caches| caches.one),
        last_level_cache_total_bytes: caches.map(|caches| caches.all),
        memory_bytes,
        memory_limit_bytes: limit,
        cpu_quota: limits::cpu_quota(texts),
        page_size_bytes: texts
            .get("getconf PAGESIZE")
            .and_then(|text| text.parse().ok()),
        huge_page_size_bytes: meminfo.as_ref().and_then(|m| m.hugepagesize),
        huge_pages_total: meminfo.as_ref().and_then(|m| m.hugepages_total),
        huge_pages_free: meminfo.as_ref().and_then(|m| m.hugepages_free),
        transparent_huge_pages: texts
            .get("/sys/kernel/mm/transparent_hugepage/enabled")
            .and_then(chosen)
            .map(str::to_owned),
        kernel: texts
            .filled("/proc/sys/kernel/osrelease")
            .map(str::to_owned),
        distribution: texts
            .get("/etc/os-release")
            .and_then(surroundings::distribution),
        virtualisation: surroundings::virtualisation(texts),
        container: surroundings::container(texts),
        clock_source: texts
            .filled("/sys/devices/system/clocksource/clocksource0/current_clocksource")
            .map(str::to_owned),
        cpu_governor: cpu::governor(texts),
        data_device: surroundings::data_device(texts),
    }
}

/// The chosen one of a kernel's list: `madvise` of `always [madvise] never`.
fn chosen(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('[')?;
    let (chosen, _) = rest.split_once(']')?;
    Some(chosen)
}

#[cfg(test)]
mod tests;

//! Facts of the machine, read once and kept raw.
//!
//! What is recorded is text by its source: a path of /proc or /sys, or the name
//! of a system call. What it means is read out of it by
//! `pgassay_analysis::host`, so that an old run can be understood by a newer
//! program. What can't be read is recorded with the reason.
//!
//! A large machine has the same text hundreds of times over: files that exist
//! for each CPU are recorded once under a name with `*`, one line for each
//! different text, `CPU-LIST: TEXT`; and /proc/cpuinfo keeps one block for each
//! kind of CPU.

mod cgroup;
mod counters;
mod cpus;
mod directories;
mod identity;
mod mount;
mod place;
mod reader;
mod storage;

use std::collections::BTreeMap;
use std::path::Path;

pub use directories::of_server as directories;
use pgassay_model::reading::Reading;
use reader::Reader;
pub use storage::storage;

/// Recorded facts: source to text, or why there is none.
pub type HostFacts = BTreeMap<String, Reading>;

/// Files that are read as they stand.
const FILES: &[&str] = &[
    // The kernel
    "/proc/version",
    "/proc/cmdline",
    "/proc/sys/kernel/osrelease",
    "/proc/sys/kernel/numa_balancing",
    "/proc/sys/kernel/perf_event_paranoid",
    "/proc/sys/kernel/io_uring_disabled",
    "/proc/sys/kernel/io_uring_group",
    "/proc/sys/kernel/sched_autogroup_enabled",
    "/sys/kernel/debug/sched/preempt",
    "/etc/os-release",
    "/etc/ld.so.preload",
    // Memory
    "/proc/meminfo",
    "/proc/swaps",
    "/proc/sys/vm/nr_hugepages",
    "/proc/sys/vm/nr_overcommit_hugepages",
    "/proc/sys/vm/hugetlb_shm_group",
    "/proc/sys/vm/swappiness",
    "/proc/sys/vm/overcommit_memory",
    "/proc/sys/vm/overcommit_ratio",
    "/proc/sys/vm/zone_reclaim_mode",
    "/proc/sys/vm/dirty_ratio",
    "/proc/sys/vm/dirty_bytes",
    "/proc/sys/vm/dirty_background_ratio",
    "/proc/sys/vm/dirty_background_bytes",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/kernel/mm/transparent_hugepage/defrag",
    "/sys/kernel/mm/transparent_hugepage/shmem_enabled",
    // Processors as a whole
    "/sys/devices/system/cpu/online",
    "/sys/devices/system/cpu/possible",
    "/sys/devices/system/cpu/isolated",
    "/sys/devices/system/cpu/smt/active",
    "/sys/devices/system/cpu/cpufreq/boost",
    "/sys/devices/system/cpu/intel_pstate/no_turbo",
    "/sys/devices/system/cpu/cpuidle/current_driver",
    "/sys/devices/system/clocksource/clocksource0/current_clocksource",
    "/sys/devices/system/clocksource/clocksource0/available_clocksource",
    // How busy it is
    "/proc/loadavg",
    "/proc/pressure/cpu",
    "/proc/pressure/memory",
    "/proc/pressure/io",
    // What it may run in
    "/proc/self/cgroup",
    "/proc/1/comm",
    "/run/systemd/container",
    "/.dockerenv",
    "/run/.containerenv",
    "/sys/hypervisor/type",
    "/sys/class/dmi/id/sys_vendor",
    "/sys/class/dmi/id/product_name",
    "/sys/class/dmi/id/product_version",
    "/sys/class/dmi/id/bios_vendor",
    "/sys/class/dmi/id/board_vendor",
    "/sys/class/dmi/id/board_name",
    "/proc/device-tree/model",
    "/proc/device-tree/compatible",
    "/proc/device-tree/hypervisor/compatible",
];

/// Directories of which each entry's file is read: the directory, the entries'
/// names (with one `*`), the file within them.
const EACH: &[(&str, &str, &str)] = &[
    ("/sys/devices/system/node", "node*", "cpulist"),
    ("/sys/devices/system/node", "node*", "distance"),
    ("/sys/devices/system/node", "node*", "meminfo"),
    ("/sys/devices/system/cpu/vulnerabilities", "*", ""),
    ("/sys/kernel/mm/hugepages", "hugepages-*", "nr_hugepages"),
    ("/sys/kernel/mm/hugepages", "hugepages-*", "free_hugepages"),
    (
        "/sys/kernel/mm/hugepages",
        "hugepages-*",
        "nr_overcommit_hugepages",
    ),
    (
        "/sys/kernel/mm/transparent_hugepage",
        "hugepages-*",
        "enabled",
    ),
];

/// Reads the facts of this machine; with those of the file system and device
/// under `data_dir`, where there is one.
pub fn facts(data_dir: Option<&Path>) -> HostFacts {
    facts_for(data_dir, None)
}

/// The same, with the control groups of this process instead of our own.
pub fn facts_for(data_dir: Option<&Path>, process: Option<u32>) -> HostFacts {
    let process = process.map_or_else(|| "self".to_owned(), |pid| pid.to_string());
    let mut facts = of_root(&Reader::new("/"), &process);
    if let Some(dir) = data_dir {
        place::record(&Reader::new("/"), dir, &mut facts);
    }
    // What the kernel and the processor tell this process directly.
    let uname = rustix::system::uname();
    facts.insert(
        "uname machine".into(),
        Reading::Text(uname.machine().to_string_lossy().into_owned()),
    );
    facts.insert(
        identity::SOURCE.to_owned(),
        identity::of(&Reader::new("/"), uname.nodename().to_bytes()),
    );
    facts.insert(
        "getconf PAGESIZE".into(),
        Reading::Text(rustix::param::page_size().to_string()),
    );
    facts.insert("/proc/self/auxv".into(), auxv());
    facts.insert(
        "sched_getaffinity".into(),
        match pgassay_sys::affinity::allowed_cpus() {
            Ok(cpus) => Reading::Text(cpus::list(&cpus)),
            Err(error) => Reading::Unavailable(error.to_string()),
        },
    );
    facts.insert(
        "clock_gettime ns".into(),
        Reading::Text(format!("{:.1}", counters::clock_cost_ns())),
    );
    facts.insert(
        "cpuid hypervisor".into(),
        match pgassay_sys::cpuid::hypervisor_signature() {
            Some(signature) => Reading::Text(signature),
            None => Reading::Unavailable("no CPUID, or its hypervisor bit is not set".into()),
        },
    );
    facts
}

/// The facts that are files, below a root directory.
fn of_root(reader: &Reader, process: &str) -> HostFacts {
    let mut facts = HostFacts::new();
    for path in FILES {
        facts.insert((*path).to_owned(), reader.read(path));
    }
    for (dir, names, file) in EACH {
        for name in reader.entries(dir, names) {
            let path = if file.is_empty() {
                format!("{dir}/{name}")
            } else {
                format!("{dir}/{name}/{file}")
            };
            let reading = reader.read(&path);
            facts.insert(path, reading);
        }
    }
    cpus::record(reader, &mut facts);
    cgroup::record(reader, process, &mut facts);
    counters::record(reader, &mut facts);
    facts
}

/// The auxiliary vector's entries that tell of the processor, one `TYPE VALUE`
/// a line: AT_PAGESZ 6, AT_HWCAP 16, AT_HWCAP2 26, AT_HWCAP3 29, AT_HWCAP4 30
/// (linux/auxvec.h). The others are addresses within this process.
fn auxv() -> Reading {
    const KEPT: &[usize] = &[6, 16, 26, 29, 30];
    const WORD: usize = size_of::<usize>();
    match std::fs::read("/proc/self/auxv") {
        Err(error) => Reading::Unavailable(error.to_string()),
        Ok(bytes) => {
            let words: Vec<usize> = bytes
                .chunks_exact(WORD)
                .filter_map(|chunk| chunk.try_into().ok().map(usize::from_ne_bytes))
                .collect();
            let lines: Vec<String> = words
                .chunks_exact(2)
                .filter(|pair| KEPT.contains(&pair[0]))
                .map(|pair| format!("{} {:#x}", pair[0], pair[1]))
                .collect();
            Reading::Text(lines.join("\n"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machines_facts_are_there_and_small() {
        let facts = facts(Some(Path::new("/var/tmp")));
        let text = |key: &str| facts.get(key).and_then(Reading::text).unwrap_or_default();
        for key in [
            "/proc/cpuinfo",
            "/proc/meminfo",
            "/proc/version",
            "uname machine",
            "sched_getaffinity",
        ] {
            assert!(!text(key).is_empty(), "{key}: {:?}", facts.get(key));
        }
        assert!(
            text("/proc/self/auxv")
                .lines()
                .any(|line| line.starts_with("16 0x"))
        );
        assert!(
            text("getconf PAGESIZE")
                .parse::<u64>()
                .unwrap()
                .is_power_of_two()
        );
        let size: usize = facts
            .iter()
            .map(|(key, value)| key.len() + value.text().unwrap_or_default().len())
            .sum();
        assert!(size < 100_000, "{size} bytes");
        // What is not there says why.
        assert!(
            facts
                .values()
                .any(|r| matches!(r, Reading::Unavailable(why) if !why.is_empty()))
        );
    }
}

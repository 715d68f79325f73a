//! Facts that exist for each CPU, recorded once for all CPUs that share them.

use std::collections::{BTreeMap, BTreeSet};

use pgassay_model::reading::Reading;

use super::HostFacts;
use super::reader::Reader;

/// The directory of the CPUs' own directories.
const CPUS: &str = "/sys/devices/system/cpu";

/// Files of each CPU's directory.
const OF_EACH: &[&str] = &[
    "topology/core_cpus_list",
    // Its name before Linux 5.1.
    "topology/thread_siblings_list",
    "topology/physical_package_id",
    "topology/cluster_cpus_list",
    "cpufreq/scaling_governor",
    "cpufreq/scaling_driver",
    "cpufreq/cpuinfo_max_freq",
    "cpu_capacity",
    "regs/identification/midr_el1",
];

/// Files of each of a CPU's caches.
const OF_CACHE: &[&str] = &[
    "level",
    "type",
    "size",
    "shared_cpu_list",
    "coherency_line_size",
];

/// Fields of /proc/cpuinfo in which CPUs of one kind differ; where a CPU
/// belongs is recorded from /sys.
const OWN_FIELDS: &[&str] = &[
    "processor",
    "cpu mhz",
    "clock",
    "core id",
    "physical id",
    "apicid",
    "initial apicid",
    "bogomips",
    "cpu number",
];

/// Records what there is of each CPU.
pub(super) fn record(reader: &Reader, facts: &mut HostFacts) {
    facts.insert(
        "/proc/cpuinfo".into(),
        match reader.read("/proc/cpuinfo") {
            Reading::Text(text) => Reading::Text(one_of_each_kind(&text)),
            unavailable => unavailable,
        },
    );
    let cpus: Vec<usize> = {
        let numbers = reader.entries(CPUS, "cpu*");
        let mut numbers: Vec<usize> = numbers
            .iter()
            .filter_map(|name| name.strip_prefix("cpu")?.parse().ok())
            .collect();
        numbers.sort_unstable();
        numbers
    };
    for file in OF_EACH {
        grouped(reader, &cpus, file, facts);
    }
    let caches: BTreeSet<String> = cpus
        .iter()
        .take(1)
        .flat_map(|cpu| reader.entries(&format!("{CPUS}/cpu{cpu}/cache"), "index*"))
        .collect();
    for cache in &caches {
        for file in OF_CACHE {
            grouped(reader, &cpus, &format!("cache/{cache}/{file}"), facts);
        }
    }
}

/// Records a file of each CPU under one name, a line for each different text.
fn grouped(reader: &Reader, cpus: &[usize], file: &str, facts: &mut HostFacts) {
    let mut by_text: Vec<(String, Vec<usize>)> = Vec::new();
    let mut index: BTreeMap<String, usize> = BTreeMap::new();
    for &cpu in cpus {
        if let Some(text) = reader.value(&format!("{CPUS}/cpu{cpu}/{file}")) {
            let at = *index.entry(text.clone()).or_insert_with(|| {
                by_text.push((text, Vec::new()));
                by_text.len() - 1
            });
            by_text[at].1.push(cpu);
        }
    }
    let reading = if by_text.is_empty() {
        Reading::Unavailable("no CPU has it".into())
    } else {
        let lines: Vec<String> = by_text
            .iter()
            .map(|(text, cpus)| format!("{}: {text}", list(cpus)))
            .collect();
        Reading::Text(lines.join("\n"))
    };
    facts.insert(format!("{CPUS}/cpu*/{file}"), reading);
}

/// The kernel's way to write a set of CPUs: `0-3,8`. The numbers ascend.
pub(super) fn list(cpus: &[usize]) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for &cpu in cpus {
        match ranges.last_mut() {
            Some((_, end)) if *end + 1 == cpu => *end = cpu,
            _ => ranges.push((cpu, cpu)),
        }
    }
    let ranges: Vec<String> = ranges
        .into_iter()
        .map(|(start, end)| {
            if start == end {
                start.to_string()
            } else {
                format!("{start}-{end}")
            }
        })
        .collect();
    ranges.join(",")
}

/// /proc/cpuinfo with the blocks left out that say what an earlier one said;
/// what is kept is as it was read.
fn one_of_each_kind(text: &str) -> String {
    let mut seen = BTreeSet::new();
    let mut kept = Vec::new();
    for block in text.split("\n\n") {
        let kind: Vec<&str> = block
            .lines()
            .filter(|line| {
                let field = line.split(':').next().unwrap_or_default().trim();
                !OWN_FIELDS.iter().any(|own| own.eq_ignore_ascii_case(field))
            })
            .collect();
        if seen.insert(kind.join("\n")) {
            kept.push(block);
        }
    }
    kept.join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;
    use std::fs;

    #[test]
    fn sets_are_written_as_the_kernel_does() {
        assert_eq!(list(&[]), "");
        assert_eq!(list(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
    }

    #[test]
    fn a_machine_of_192_cores_stays_small() {
        let root = std::env::temp_dir().join(format!("pgassay-cpus-{}", std::process::id()));
        let mut cpuinfo = String::new();
        for cpu in 0..192 {
            // Two kinds, as where one socket's CPUs have another revision.
            let revision = cpu / 96;
            writeln!(
                cpuinfo,
                "processor\t: {cpu}\nBogoMIPS\t: 2000.{cpu:02}\nFeatures\t: fp asimd {}\nCPU revision\t: {revision}\n",
                "feature ".repeat(60)
            )
            .unwrap();
            let dir = root.join(format!("sys/devices/system/cpu/cpu{cpu}"));
            for (file, text) in [
                ("topology/core_cpus_list", cpu.to_string()),
                ("topology/physical_package_id", (cpu / 96).to_string()),
                ("cache/index0/level", "1".into()),
                ("cache/index0/size", "64K".into()),
                ("cache/index0/shared_cpu_list", cpu.to_string()),
                ("cache/index3/level", "3".into()),
                ("cache/index3/size", "36864K".into()),
                (
                    "cache/index3/shared_cpu_list",
                    format!("{}-{}", cpu / 96 * 96, cpu / 96 * 96 + 95),
                ),
            ] {
                let path = dir.join(file);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text + "\n").unwrap();
            }
        }
        fs::create_dir_all(root.join("proc")).unwrap();
        fs::write(root.join("proc/cpuinfo"), &cpuinfo).unwrap();
        let mut facts = HostFacts::new();
        record(&Reader::new(&root), &mut facts);
        fs::remove_dir_all(&root).unwrap();

        let text = |key: &str| facts[key].text().unwrap();
        assert_eq!(text("/proc/cpuinfo").matches("processor").count(), 2);
        assert_eq!(
            text("/sys/devices/system/cpu/cpu*/topology/physical_package_id"),
            "0-95: 0\n96-191: 1"
        );
        assert_eq!(
            text("/sys/devices/system/cpu/cpu*/cache/index3/shared_cpu_list"),
            "0-95: 0-95\n96-191: 96-191"
        );
        let size: usize = facts.values().filter_map(Reading::text).map(str::len).sum();
        assert!(size < 10_000, "{size} bytes out of {}", cpuinfo.len());
        let summary = pgassay_analysis::host::summarise(&facts);
        assert_eq!(summary.cores, Some(192));
        assert_eq!(summary.sockets, Some(2));
        assert_eq!(summary.last_level_cache_bytes, Some(36 << 20));
        assert_eq!(summary.last_level_cache_total_bytes, Some(72 << 20));
    }
}

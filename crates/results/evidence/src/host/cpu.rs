//! Processors: what they are, how many, and their last-level cache.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use procfs_core::{CpuInfo, FromBufRead};

use super::{Texts, arm};

/// Features worth showing, by the kernel's names: those that decide which path
/// PostgreSQL, libc or a compiler's run-time check takes for atomics, CRC,
/// popcount and vectors.
const FEATURES: &[&str] = &[
    // x86
    "cx16",
    "sse4_2",
    "popcnt",
    "pclmulqdq",
    "avx",
    "avx2",
    "avx512f",
    "avx512bw",
    "avx512vl",
    "avx512_vpopcntdq",
    "vpclmulqdq",
    "erms",
    "fsrm",
    "rtm",
    "pku",
    // arm64
    "atomics",
    "uscat",
    "lrcpc",
    "ilrcpc",
    "lse128",
    "lrcpc3",
    "crc32",
    "pmull",
    "asimd",
    "sve",
    "sve2",
    "wfxt",
    "mops",
];

/// What is known of the processors.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Processors {
    pub(super) model: Option<String>,
    pub(super) allowed: Option<u32>,
    pub(super) cores: Option<u32>,
    pub(super) sockets: Option<u32>,
    pub(super) features: Vec<String>,
}

/// Size of one last-level cache, and of all of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct LastLevel {
    pub(super) one: u64,
    pub(super) all: u64,
}

pub(super) fn processors(texts: Texts<'_>) -> Processors {
    let info = texts.get("/proc/cpuinfo").and_then(parse);
    let allowed = texts.filled("sched_getaffinity").and_then(cpus_of);
    let online = texts
        .filled("/sys/devices/system/cpu/online")
        .and_then(cpus_of);
    let directory = "/sys/devices/system/cpu/cpu*/topology";
    let sharing = ["core_cpus_list", "thread_siblings_list"]
        .iter()
        .map(|file| distinct(texts, &format!("{directory}/{file}")))
        .find(|&count| count > 0);
    let packages = distinct(texts, &format!("{directory}/physical_package_id"));
    Processors {
        model: info.as_ref().and_then(|info| model(info, texts)),
        allowed: allowed.or(online),
        cores: sharing,
        sockets: Some(packages).filter(|&count| count > 0),
        features: info.as_deref().map(features).unwrap_or_default(),
    }
}

/// The clock of the fastest CPU in Hz.
pub(super) fn clock(texts: Texts<'_>) -> Option<u64> {
    let khz = texts
        .grouped("/sys/devices/system/cpu/cpu*/cpufreq/cpuinfo_max_freq")
        .filter_map(|(_, text)| text.trim().parse::<u64>().ok());
    let by_cpufreq = khz.max().map(|khz| khz * 1_000);
    by_cpufreq.or_else(|| {
        // x86 says `cpu MHz`, POWER `clock : 3000.000000MHz`; arm64 nothing.
        let lines = texts.get("/proc/cpuinfo")?.lines();
        let mhz = lines.filter_map(|line| {
            let (key, value) = line.split_once(':')?;
            let value = value.trim();
            match key.trim() {
                "cpu MHz" => value.parse::<f64>().ok(),
                "clock" => value.strip_suffix("MHz")?.parse().ok(),
                _ => None,
            }
        });
        let fastest = mhz.filter(|mhz| mhz.is_finite() && *mhz > 0.0);
        fastest
            .max_by(f64::total_cmp)
            .map(|mhz| (mhz * 1e6).round() as u64)
    })
}

/// /proc/cpuinfo's blocks, one for each kind of CPU.
///
/// The library panics on a text without any block, so that is looked at first.
fn parse(text: &str) -> Option<Vec<HashMap<String, String>>> {
    let has_block = text.lines().any(|line| {
        line.split(':')
            .next()
            .is_some_and(|key| key.trim() == "processor")
    });
    if !has_block {
        return None;
    }
    let info = CpuInfo::from_buf_read(text.as_bytes()).ok()?;
    Some(
        (0..info.cpus.len())
            .filter_map(|cpu| {
                let fields = info.get_info(cpu)?;
                Some(
                    fields
                        .into_iter()
                        .map(|(key, value)| (key.to_owned(), value.to_owned()))
                        .collect(),
                )
            })
            .collect(),
    )
}

/// The processors' name; of several kinds each once, as in `A + B`.
fn model(kinds: &[HashMap<String, String>], texts: Texts<'_>) -> Option<String> {
    let mut names: Vec<String> = Vec::new();
    for kind in kinds {
        if let Some(name) = model_of(kind)
            && !names.contains(&name)
        {
            names.push(name);
        }
    }
    // s390x names its machine in another form; its vendor is a field of all.
    if names.is_empty() {
        let machine = texts.get("/proc/cpuinfo")?.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == "vendor_id").then(|| value.trim().to_owned())
        });
        names.extend(machine);
    }
    (!names.is_empty()).then(|| names.join(" + "))
}

fn model_of(kind: &HashMap<String, String>) -> Option<String> {
    let hex = |key: &str| {
        let text = kind.get(key)?;
        u32::from_str_radix(text.trim_start_matches("0x"), 16).ok()
    };
    if let (Some(implementer), Some(part)) = (hex("CPU implementer"), hex("CPU part")) {
        return Some(match arm::name(implementer, part) {
            Some(name) => name.to_owned(),
            None => format!("Arm implementer {implementer:#04x} part {part:#05x}"),
        });
    }
    // x86's `model name`; POWER's `cpu` with its revision apart; RISC-V's `uarch`.
    ["model name", "cpu", "uarch"]
        .iter()
        .find_map(|key| kind.get(*key))
        .map(|name| name.split_whitespace().collect::<Vec<_>>().join(" "))
        .filter(|name| !name.is_empty())
}

/// Those of [`FEATURES`] that every kind of CPU has.
fn features(kinds: &[HashMap<String, String>]) -> Vec<String> {
    let sets: Vec<BTreeSet<&str>> = kinds
        .iter()
        .filter_map(|kind| kind.get("flags").or_else(|| kind.get("Features")))
        .map(|text| text.split_whitespace().collect())
        .collect();
    if sets.is_empty() {
        return Vec::new();
    }
    FEATURES
        .iter()
        .filter(|feature| sets.iter().all(|set| set.contains(*feature)))
        .map(|feature| (*feature).to_owned())
        .collect()
}

/// How many CPUs a kernel's list names: 6 for `0-3,8,10`.
pub fn cpus_of(list: &str) -> Option<u32> {
    let mut total: u32 = 0;
    for range in list.split(',') {
        let (start, end) = range.split_once('-').unwrap_or((range, range));
        let (start, end): (u32, u32) = (start.trim().parse().ok()?, end.trim().parse().ok()?);
        total = total.checked_add(end.checked_sub(start)?.checked_add(1)?)?;
    }
    Some(total)
}

/// How many different texts the CPUs have for a file.
fn distinct(texts: Texts<'_>, source: &str) -> u32 {
    let values: BTreeSet<&str> = texts.grouped(source).map(|(_, value)| value).collect();
    u32::try_from(values.len()).unwrap_or(u32::MAX)
}

/// The data or unified cache of the highest level.
pub(super) fn last_level_cache(texts: Texts<'_>) -> Option<LastLevel> {
    const CACHES: &str = "/sys/devices/system/cpu/cpu*/cache/";
    let mut by_level: BTreeMap<u32, &str> = BTreeMap::new();
    for (source, text) in texts.sources(CACHES, "/level") {
        let index = source.strip_suffix("/level")?;
        let kind = texts
            .grouped(&format!("{index}/type"))
            .next()
            .map(|(_, kind)| kind);
        if kind != Some("Instruction")
            && let Some(level) = text
                .lines()
                .next()
                .and_then(|line| line.split_once(": ")?.1.parse().ok())
        {
            by_level.insert(level, index);
        }
    }
    let index = by_level.last_entry()?;
    let index = index.get();
    let sizes: Vec<(&str, u64)> = texts
        .grouped(&format!("{index}/size"))
        .filter_map(|(cpus, size)| Some((cpus, bytes(size)?)))
        .collect();
    let one = sizes.iter().map(|(_, size)| *size).max()?;
    let sharing = u64::from(distinct(texts, &format!("{index}/shared_cpu_list")));
    Some(LastLevel {
        one,
        all: one.saturating_mul(sharing.max(1)),
    })
}

/// A cache's size as sysfs writes it: `36864K`, `1M`.
fn bytes(text: &str) -> Option<u64> {
    let split = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let number: u64 = text[..split].parse().ok()?;
    let factor: u64 = match &text[split..] {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(factor).filter(|&bytes| bytes > 0)
}

/// The frequency governor; of several each once.
pub(super) fn governor(texts: Texts<'_>) -> Option<String> {
    let governors: BTreeSet<&str> = texts
        .grouped("/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor")
        .map(|(_, governor)| governor)
        .collect();
    (!governors.is_empty()).then(|| governors.into_iter().collect::<Vec<_>>().join(", "))
}

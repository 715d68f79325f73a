//! What a host is like, as names and values that can be held against each other.

use std::collections::{BTreeMap, BTreeSet};

use pgassay_model::facts::Facts;
use pgassay_model::server::Origin;

use crate::bottlenecks::{FactView, written};
use crate::host::HostSummary;
use crate::number;
use crate::server::settings_in;

/// Settings of one server that are kept: there are 400.
const MOST_SETTINGS: usize = 1500;

/// Settings that name or place a server, or hold for our own session: they differ by their nature.
const OWN: &[&str] = &[
    "application_name",
    "client_encoding",
    "cluster_name",
    "config_file",
    "data_directory",
    "event_source",
    "external_pid_file",
    "hba_file",
    "ident_file",
    "listen_addresses",
    "log_directory",
    "log_filename",
    "lock_timeout",
    "port",
    "primary_conninfo",
    "primary_slot_name",
    "search_path",
    "server_version",
    "server_version_num",
    "shared_memory_size",
    "shared_memory_size_in_huge_pages",
    "statement_timeout",
    "stats_temp_directory",
    "transaction_deferrable",
    "transaction_isolation",
    "transaction_read_only",
    "in_hot_standby",
    "unix_socket_directories",
];

/// Sources of a setting that hold for a session only.
const OF_SESSION: &[&str] = &["session", "client", "interactive"];

/// Reads a trait.
type Of = fn(&FactView) -> Option<String>;

/// What is read beside settings, by the words of reports.
const TRAITS: &[(&str, Of)] = &[
    ("architecture", |seen| Some(seen.machine().ok()?.to_owned())),
    ("cores", |seen| of(seen, |h| Some(h.cores?.to_string()))),
    ("sockets", |seen| of(seen, |h| Some(h.sockets?.to_string()))),
    ("NUMA nodes", |seen| {
        of(seen, |h| Some(h.numa_nodes?.to_string()))
    }),
    ("CPU features", |seen| {
        of(seen, |h| {
            (!h.cpu_features.is_empty()).then(|| h.cpu_features.join(" "))
        })
    }),
    ("last-level cache", |seen| {
        of(seen, |h| {
            Some(number::bytes(h.last_level_cache_total_bytes?))
        })
    }),
    ("memory", |seen| {
        // To the GiB: what the kernel keeps for itself changes with every release.
        of(seen, |h| {
            let gib = h.usable_memory_bytes()? as f64 / f64::from(1 << 30);
            Some(format!("{} GiB", gib.round()))
        })
    }),
    ("CPU quota", |seen| {
        of(seen, |h| {
            Some(format!("{} CPUs", number::short(h.cpu_quota?)))
        })
    }),
    ("frequency governor", |seen| {
        of(seen, |h| h.cpu_governor.clone())
    }),
    ("turbo", |seen| {
        let boost = text(seen, "/sys/devices/system/cpu/cpufreq/boost").map(|on| on == "1");
        let off = || text(seen, "/sys/devices/system/cpu/intel_pstate/no_turbo");
        let on = boost.or_else(|| Some(off()? == "0"))?;
        Some(if on { "on" } else { "off" }.to_owned())
    }),
    ("SMT", |seen| {
        text(seen, "/sys/devices/system/cpu/smt/active")
    }),
    ("isolated CPUs", |seen| {
        text(seen, "/sys/devices/system/cpu/isolated")
    }),
    ("kernel", |seen| of(seen, |h| h.kernel.clone())),
    ("distribution", |seen| of(seen, |h| h.distribution.clone())),
    ("virtualisation", |seen| {
        of(seen, |h| h.virtualisation.clone())
    }),
    ("container", |seen| of(seen, |h| h.container.clone())),
    ("clock source", |seen| of(seen, |h| h.clock_source.clone())),
    ("base page size", |seen| {
        of(seen, |h| Some(number::bytes(h.page_size_bytes?)))
    }),
    ("huge pages reserved", |seen| {
        of(seen, |h| Some(number::count(h.huge_pages_total?)))
    }),
    ("transparent huge pages", |seen| {
        of(seen, |h| h.transparent_huge_pages.clone())
    }),
    ("preemption", |seen| {
        chosen(&text(seen, "/sys/kernel/debug/sched/preempt")?, '(', ')')
    }),
    ("file system of the data", |seen| {
        of(seen, |h| {
            Some(h.data_device.as_ref()?.split(' ').next()?.to_owned())
        })
    }),
    ("I/O scheduler", |seen| {
        of_disks(seen, "/queue/scheduler", |text| chosen(text, '[', ']'))
    }),
    ("read-ahead KiB", |seen| {
        of_disks(seen, "/queue/read_ahead_kb", |text| Some(text.to_owned()))
    }),
    ("PostgreSQL release", |seen| {
        seen.version().ok().map(written)
    }),
    ("compiler", |seen| {
        let build = &seen.binary().ok()?.build;
        (!build.compilers.is_empty()).then(|| build.compilers.join(", "))
    }),
    ("build id", |seen| {
        seen.binary().ok()?.build.build_id.clone()
    }),
    ("CFLAGS", |seen| seen.built("CFLAGS").ok()),
    ("configure options", |seen| seen.built("CONFIGURE").ok()),
    ("atomics", |seen| {
        let atomics = &seen.binary().ok()?.atomics;
        let ways = [
            (atomics.outline_calls(), "outline helpers"),
            (atomics.inline_lse(), "inline LSE"),
            (atomics.inline_llsc(), "inline exclusives"),
        ];
        let ways = ways.iter().filter(|(n, _)| *n > 0).map(|(_, way)| *way);
        let ways: Vec<&str> = ways.collect();
        (!ways.is_empty()).then(|| ways.join(", "))
    }),
    ("extensions", |seen| {
        let rows = seen.rows("extensions").ok()?;
        let names = rows.iter().filter_map(|row| {
            let word = |key: &str| row.get(key)?.as_str();
            Some(format!("{} {}", word("name")?, word("version")?))
        });
        let names: BTreeSet<String> = names.collect();
        (!names.is_empty()).then(|| names.into_iter().collect::<Vec<_>>().join(", "))
    }),
];

/// Settings of the kernel, by the last parts of their path.
const SYSCTLS: &[&str] = &[
    "vm/swappiness",
    "vm/overcommit_memory",
    "vm/overcommit_ratio",
    "vm/zone_reclaim_mode",
    "vm/dirty_ratio",
    "vm/dirty_bytes",
    "vm/dirty_background_ratio",
    "vm/dirty_background_bytes",
    "kernel/numa_balancing",
    "kernel/sched_autogroup_enabled",
    "kernel/io_uring_disabled",
];

/// Where the kernel says what it does about each flaw of the processor.
const FLAWS: &str = "/sys/devices/system/cpu/vulnerabilities/";

/// All that is known of a host.
pub(super) fn traits(facts: &Facts, seen: &FactView) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for (name, of) in TRAITS {
        if let Some(value) = of(seen) {
            all.insert((*name).to_owned(), cut(&value));
        }
    }
    for name in SYSCTLS {
        if let Some(value) = text(seen, &format!("/proc/sys/{name}")) {
            all.insert(name.replace('/', "."), cut(&value));
        }
    }
    if let Ok(flaws) = seen.texts(FLAWS, "") {
        for (path, value) in flaws {
            let name = path.trim_start_matches(FLAWS);
            all.insert(cut(&format!("mitigation of {name}")), cut(value));
        }
    }
    // Of a server that was made to be looked at they are nobody's.
    if !matches!(facts.origin, Some(Origin::Launched { .. })) {
        all.extend(of_server(facts));
    }
    all
}

/// The settings of a server, but those that are its own by nature.
fn of_server(facts: &Facts) -> impl Iterator<Item = (String, String)> {
    let answer = facts.server.get("settings");
    let all = answer.map(settings_in).unwrap_or_default();
    let kept = all.into_iter().filter(|setting| {
        !OWN.contains(&setting.name.as_str()) && !OF_SESSION.contains(&setting.source.as_str())
    });
    kept.take(MOST_SETTINGS)
        .map(|setting| (cut(&setting.name), cut(&setting.value)))
}

/// One of the facts that the host's summary holds.
fn of(seen: &FactView, pick: impl FnOnce(&HostSummary) -> Option<String>) -> Option<String> {
    seen.of_host("", pick).ok()
}

/// A recorded text that is not empty.
fn text(seen: &FactView, source: &str) -> Option<String> {
    let text = seen.text(source).ok()?;
    (!text.is_empty()).then(|| text.to_owned())
}

/// What all disks under the data have, where they have the same.
fn of_disks(seen: &FactView, file: &str, value: impl Fn(&str) -> Option<String>) -> Option<String> {
    let texts = seen.texts("/sys/block/", file).ok()?;
    let values: BTreeSet<String> = texts.filter_map(|(_, text)| value(text)).collect();
    match values.len() {
        1 => values.into_iter().next(),
        _ => None,
    }
}

/// The chosen one of a kernel's list: `mq-deadline` of `none [mq-deadline]`; the only one of a list
/// without a mark.
fn chosen(text: &str, open: char, close: char) -> Option<String> {
    match text.split_once(open) {
        Some((_, rest)) => Some(rest.split_once(close)?.0.to_owned()),
        None => Some(text.to_owned()),
    }
}

/// Characters of a text that are kept.
const LONGEST: usize = 240;

/// As much of a text as is kept of a host; two long ones that differ stay different.
pub fn cut(text: &str) -> String {
    let kept = pgassay_text::cut(text, LONGEST);
    if kept == text {
        return kept;
    }
    // FNV-1a: nothing rests on it but that equal texts stay equal.
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{kept} (#{:08x})", hash as u32)
}

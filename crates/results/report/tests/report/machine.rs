//! The invented machine that the fixtures were measured on, its server and its binary.

use std::collections::BTreeMap;

use pgassay_analysis::host::HostSummary;
use pgassay_analysis::measured::ServerSummary;
use pgassay_analysis::server::{Setting, SettingsOf};
use pgassay_inspect::model::{
    Atomics, BuildFacts, Class, FileKind, FunctionAtomics, FunctionBounds, Hardening, HotFunction,
    HotPath, Machine, Outline, OutlineHelper, PostgresFacts, RecordedFlags, Technique,
};
use pgassay_inspect::{Binary, FlagByte, ProcessFacts};
use pgassay_model::server::Origin;

/// Eight cores of Neoverse-N1.
pub fn host() -> HostSummary {
    HostSummary {
        architecture: Some("aarch64".to_owned()),
        cpu_model: Some("Neoverse-N1".to_owned()),
        cpus: Some(8),
        cores: Some(8),
        sockets: Some(1),
        numa_nodes: Some(1),
        cpu_features: ["atomics", "crc32", "asimd", "asimddp"]
            .map(str::to_owned)
            .to_vec(),
        last_level_cache_bytes: Some(32 << 20),
        last_level_cache_total_bytes: Some(32 << 20),
        memory_bytes: Some(32 << 30),
        page_size_bytes: Some(4096),
        huge_page_size_bytes: Some(2 << 20),
        huge_pages_total: Some(0),
        huge_pages_free: Some(0),
        transparent_huge_pages: Some("madvise".to_owned()),
        kernel: Some("6.1.0-28-arm64".to_owned()),
        distribution: Some("Debian GNU/Linux 12 (bookworm)".to_owned()),
        virtualisation: Some("kvm".to_owned()),
        clock_source: Some("arch_sys_counter".to_owned()),
        ..HostSummary::default()
    }
}

/// A packaged PostgreSQL 15.
pub fn server() -> ServerSummary {
    let setting = |name: &str, value: &str, source: &str| Setting {
        name: name.to_owned(),
        value: value.to_owned(),
        source: source.to_owned(),
    };
    ServerSummary {
        origin: Origin::Launched {
            bin_dir: "/usr/lib/postgresql/15/bin".to_owned(),
            stand_in: false,
            prepared: false,
        },
        version: "PostgreSQL 15.18 (Debian 15.18-0+deb12u1) on aarch64-unknown-linux-gnu, \
                  compiled by gcc (Debian 12.2.0-14+deb12u1) 12.2.0, 64-bit"
            .to_owned(),
        version_num: Some(150_018),
        executable: "/usr/lib/postgresql/15/bin/postgres".to_owned(),
        settings: vec![
            setting("shared_buffers", "8GB", "command line"),
            setting("huge_pages", "try", "default"),
            setting("max_connections", "150", "configuration file"),
            setting("fsync", "on", "default"),
            setting("jit", "on", "default"),
            setting("block_size", "8192", "default"),
        ],
        all_settings: Vec::new(),
        place: SettingsOf::default(),
    }
}

/// Its executable, built with outline atomics.
pub fn binary() -> Binary {
    let function = |name: &str, class: Class, count: u64| FunctionAtomics {
        name: Some(name.to_owned()),
        address: 0x1000,
        size_bytes: 128,
        counts: BTreeMap::from([(class, count)]),
        ..FunctionAtomics::default()
    };
    let hot = |id: &str, title: &str, technique, functions: &[&str], detail: &str| HotPath {
        id: id.to_owned(),
        title: title.to_owned(),
        technique,
        functions: functions
            .iter()
            .map(|name| HotFunction {
                name: (*name).to_owned(),
                address: 0x1000,
                counts: BTreeMap::new(),
                outline_calls: BTreeMap::new(),
                named_by_callers: false,
                inlined_into: None,
            })
            .collect(),
        detail: detail.to_owned(),
    };
    Binary {
        path: "/usr/lib/postgresql/15/bin/postgres".to_owned(),
        machine: Machine::Aarch64,
        kind: FileKind::PieExecutable,
        size_bytes: 9_123_456,
        build: BuildFacts {
            compilers: vec!["GCC: (Debian 12.2.0-14+deb12u1) 12.2.0".to_owned()],
            flags: vec![RecordedFlags {
                source: "pg_config".to_owned(),
                flags: "-O2 -moutline-atomics -march=armv8-a".to_owned(),
            }],
            build_id: Some("0123456789abcdef0123456789abcdef01234567".to_owned()),
            debuglink: None,
            stripped: true,
            has_dwarf: false,
        },
        postgres: Some(PostgresFacts {
            version: "15.18".to_owned(),
            block_size_bytes: Some(8192),
            ..PostgresFacts::default()
        }),
        hardening: Hardening {
            pie: true,
            relro: "full".to_owned(),
            stack_protector: true,
            fortified: true,
            ..Hardening::default()
        },
        bounds: FunctionBounds {
            functions: 15_012,
            named: 31,
            by_source: BTreeMap::from([("eh-frame".to_owned(), 15_012)]),
            covered_bytes: 5_400_000,
            text_bytes: 5_410_000,
        },
        loading: Default::default(),
        atomics: Atomics {
            counts: BTreeMap::from([(Class::LoadExclusive, 9), (Class::LseLdadd, 3)]),
            functions: vec![
                function("s_lock", Class::LoadExclusive, 9),
                function("LWLockAttemptLock", Class::LseLdadd, 3),
            ],
            outline: Some(Outline {
                helpers: vec![OutlineHelper {
                    name: "__aarch64_ldadd4_acq_rel".to_owned(),
                    named_by_symbol: false,
                    address: 0x70_0000,
                    flag_address: 0x90_0000,
                    bti: true,
                    call_sites: 327,
                }],
                flag_addresses: vec![0x90_0000],
                lse_in_helpers: 3,
                exclusive_in_helpers: 9,
                ..Outline::default()
            }),
            ..Atomics::default()
        },
        hints: vec![],
        hot_paths: vec![
            hot(
                "spinlock",
                "spinlock (contended)",
                Technique::Outline,
                &["s_lock"],
                "calls an outline helper, which takes LSE where the CPU has it",
            ),
            hot(
                "lwlock",
                "LWLock acquire and release",
                Technique::Outline,
                &[
                    "LWLockAttemptLock",
                    "LWLockAcquire",
                    "LWLockRelease",
                    "LWLockConditionalAcquire",
                    "LWLockWakeup",
                ],
                "compare and swap by outline helpers",
            ),
        ],
        process: Some(ProcessFacts {
            pid: 4711,
            hwcap: Some("0x119fff".to_owned()),
            hwcap_lse: Some(true),
            flag_bytes: vec![FlagByte {
                address: 0xAAAA_AB32_0000,
                value: 1,
            }],
            unavailable: vec![],
        }),
        warnings: vec!["the file is stripped; functions are known by their frames only".to_owned()],
    }
}

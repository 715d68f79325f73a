//! Recorded texts of machines of three architectures.

use std::collections::BTreeMap;

use super::*;

fn recorded(texts: &[(&str, &str)]) -> BTreeMap<String, Reading> {
    texts
        .iter()
        .map(|(source, text)| ((*source).to_owned(), Reading::Text((*text).to_owned())))
        .collect()
}

const MEMINFO: &str = "MemTotal:       24684096 kB\nMemFree:        20000000 kB\nMemAvailable:   22000000 kB\n\
             Buffers:           10000 kB\nCached:          1000000 kB\nSwapCached:            0 kB\n\
             Active:          1000000 kB\nInactive:         500000 kB\nSwapTotal:             0 kB\n\
             SwapFree:              0 kB\nDirty:                40 kB\nWriteback:             0 kB\n\
             Mapped:           100000 kB\nSlab:             100000 kB\nCommitted_AS:    1000000 kB\n\
             VmallocTotal:   34359738367 kB\nVmallocUsed:       10000 kB\nVmallocChunk:          0 kB\n\
             HugePages_Total:     512\nHugePages_Free:      500\nHugePages_Rsvd:        0\n\
             HugePages_Surp:        0\nHugepagesize:       2048 kB\nHugetlb:         1048576 kB\n";

/// A virtual machine on an AMD EPYC; the flags shortened.
#[test]
fn an_x86_guest_in_a_limited_container() {
    let host = summarise(&recorded(&[
        ("uname machine", "x86_64"),
        (
            "/proc/cpuinfo",
            "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: AMD EPYC\n\
             flags\t\t: fpu cx16 sse4_1 sse4_2 popcnt hypervisor avx2 erms avx512f fsrm\nbugs\t\t: spectre_v1\n\n",
        ),
        ("sched_getaffinity", "0-1"),
        ("cpuid hypervisor", "KVMKVMKVM"),
        (
            "/sys/devices/system/cpu/cpu*/topology/core_cpus_list",
            "0: 0\n1: 1",
        ),
        (
            "/sys/devices/system/cpu/cpu*/topology/physical_package_id",
            "0-1: 0",
        ),
        ("/sys/devices/system/cpu/cpu*/cache/index0/level", "0-1: 1"),
        (
            "/sys/devices/system/cpu/cpu*/cache/index0/type",
            "0-1: Data",
        ),
        ("/sys/devices/system/cpu/cpu*/cache/index0/size", "0-1: 32K"),
        ("/sys/devices/system/cpu/cpu*/cache/index3/level", "0-1: 3"),
        (
            "/sys/devices/system/cpu/cpu*/cache/index3/type",
            "0-1: Unified",
        ),
        (
            "/sys/devices/system/cpu/cpu*/cache/index3/size",
            "0-1: 32768K",
        ),
        (
            "/sys/devices/system/cpu/cpu*/cache/index3/shared_cpu_list",
            "0-1: 0-1",
        ),
        ("/sys/devices/system/node/node0/cpulist", "0-1"),
        ("/proc/meminfo", MEMINFO),
        ("getconf PAGESIZE", "4096"),
        (
            "/sys/kernel/mm/transparent_hugepage/enabled",
            "always [madvise] never\n",
        ),
        ("/proc/self/cgroup", "0::/docker/0123\n"),
        ("/sys/fs/cgroup/memory.max", "max\n"),
        ("/sys/fs/cgroup/docker/0123/memory.max", "4294967296\n"),
        ("/sys/fs/cgroup/docker/0123/cpu.max", "150000 100000\n"),
        ("/sys/fs/cgroup/cpu.max", "max 100000\n"),
        ("/proc/sys/kernel/osrelease", "6.18.44\n"),
        (
            "/etc/os-release",
            "NAME=\"Debian GNU/Linux\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n",
        ),
        (
            "/sys/devices/system/clocksource/clocksource0/current_clocksource",
            "tsc\n",
        ),
        (
            "mountinfo of the data",
            "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard",
        ),
        ("device of the data", "vda"),
    ]));
    let expected = HostSummary {
        architecture: Some("x86_64".into()),
        cpu_model: Some("AMD EPYC".into()),
        cpus: Some(2),
        cores: Some(2),
        sockets: Some(1),
        numa_nodes: Some(1),
        cpu_features: [
            "cx16", "sse4_2", "popcnt", "avx2", "avx512f", "erms", "fsrm",
        ]
        .map(String::from)
        .to_vec(),
        last_level_cache_bytes: Some(32 << 20),
        last_level_cache_total_bytes: Some(32 << 20),
        memory_bytes: Some(24_684_096 << 10),
        memory_limit_bytes: Some(4 << 30),
        cpu_quota: Some(1.5),
        page_size_bytes: Some(4096),
        huge_page_size_bytes: Some(2 << 20),
        huge_pages_total: Some(512),
        huge_pages_free: Some(500),
        transparent_huge_pages: Some("madvise".into()),
        kernel: Some("6.18.44".into()),
        distribution: Some("Debian GNU/Linux 12 (bookworm)".into()),
        virtualisation: Some("kvm".into()),
        container: Some("docker".into()),
        clock_source: Some("tsc".into()),
        cpu_governor: None,
        cpu_hz: None,
        data_device: Some("ext4 on vda".into()),
    };
    assert_eq!(host, expected);
    assert_eq!(host.usable_memory_bytes(), Some(4 << 30));
}

#[test]
fn the_clock_is_what_cpufreq_names_else_what_cpuinfo_says() {
    let clock = |texts: &[(&str, &str)]| summarise(&recorded(texts)).cpu_hz;
    let file = "/sys/devices/system/cpu/cpu*/cpufreq/cpuinfo_max_freq";
    let now = ("/proc/cpuinfo", "processor\t: 0\ncpu MHz\t\t: 1197.500\n");
    assert_eq!(clock(&[now]), Some(1_197_500_000));
    // Of fast and slow cores the fast ones.
    let both = [now, (file, "0-3: 2000000\n4-7: 3500000")];
    assert_eq!(clock(&both), Some(3_500_000_000));
    let power = (
        "/proc/cpuinfo",
        "processor\t: 0\nclock\t\t: 3425.000000MHz\n",
    );
    assert_eq!(clock(&[power]), Some(3_425_000_000));
    assert_eq!(clock(&[("/proc/cpuinfo", GRAVITON2)]), None);
    assert_eq!(clock(&[("/proc/cpuinfo", "cpu MHz : much\n")]), None);
}

/// /proc/cpuinfo of an Amazon m6g (Graviton2): no name, only numbers.
const GRAVITON2: &str = "processor\t: 0\nBogoMIPS\t: 243.75\nFeatures\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 \
     atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp ssbs\nCPU implementer\t: 0x41\nCPU architecture: 8\n\
     CPU variant\t: 0x3\nCPU part\t: 0xd0c\nCPU revision\t: 1\n\n";

#[test]
fn arm_processors_are_named_by_their_numbers() {
    let ec2 = [
        ("/proc/cpuinfo", GRAVITON2),
        ("/sys/class/dmi/id/sys_vendor", "Amazon EC2\n"),
        ("/sys/class/dmi/id/product_name", "m6g.4xlarge\n"),
        ("/sys/devices/system/cpu/online", "0-15\n"),
        // 64-bit Arm kernels before 5.1.
        (
            "/sys/devices/system/cpu/cpu*/topology/thread_siblings_list",
            "0: 0\n1: 1",
        ),
    ];
    let host = summarise(&recorded(&ec2));
    assert_eq!(host.cpu_model.as_deref(), Some("Arm Neoverse-N1"));
    assert_eq!(
        host.cpu_features,
        ["atomics", "lrcpc", "crc32", "pmull", "asimd"]
    );
    assert_eq!(host.virtualisation.as_deref(), Some("kvm (Amazon EC2)"));
    assert_eq!(
        (host.cpus, host.cores, host.sockets),
        (Some(16), Some(2), None)
    );

    let mut metal = recorded(&ec2);
    metal.insert(
        "/sys/class/dmi/id/product_name".into(),
        Reading::Text("m6g.metal\n".into()),
    );
    assert_eq!(summarise(&metal).virtualisation.as_deref(), Some("none"));

    // A big and a little kind: both named, and only what both can is a feature.
    let little = GRAVITON2.replace("0xd0c", "0xd05").replace(" atomics", "");
    let both = summarise(&recorded(&[(
        "/proc/cpuinfo",
        &format!("{GRAVITON2}{little}"),
    )]));
    assert_eq!(
        both.cpu_model.as_deref(),
        Some("Arm Neoverse-N1 + Arm Cortex-A55")
    );
    assert!(!both.cpu_features.contains(&"atomics".to_owned()));

    let unknown = GRAVITON2.replace("0xd0c", "0xfff");
    let host = summarise(&recorded(&[("/proc/cpuinfo", &unknown)]));
    assert_eq!(
        host.cpu_model.as_deref(),
        Some("Arm implementer 0x41 part 0xfff")
    );
    assert_eq!(host.virtualisation, None);
    let tree = [
        ("/proc/cpuinfo", GRAVITON2),
        ("/proc/device-tree/compatible", "linux,dummy-virt\n"),
    ];
    assert_eq!(
        summarise(&recorded(&tree)).virtualisation.as_deref(),
        Some("kvm or qemu")
    );
}

/// /proc/cpuinfo of a POWER9 partition (IBM 9008-22L) and of one under QEMU.
#[test]
fn power_names_its_platform_at_the_end() {
    let partition = "processor\t: 127\ncpu\t\t: POWER9 (architected), altivec supported\nclock\t\t: 3000.000000MHz\n\
         revision\t: 2.2 (pvr 004e 0202)\n\ntimebase\t: 512000000\nplatform\t: pSeries\nmodel\t\t: IBM,9008-22L\n\
         machine\t\t: CHRP IBM,9008-22L\nMMU\t\t: Radix\n";
    let host = summarise(&recorded(&[
        ("/proc/cpuinfo", partition),
        ("uname machine", "ppc64le"),
        ("getconf PAGESIZE", "65536"),
        (
            "/sys/devices/system/cpu/cpu*/topology/core_cpus_list",
            "0-7: 0-7\n8-15: 8-15",
        ),
        ("sched_getaffinity", "0-15"),
    ]));
    assert_eq!(
        host.cpu_model.as_deref(),
        Some("POWER9 (architected), altivec supported")
    );
    assert_eq!(host.virtualisation.as_deref(), Some("powervm"));
    assert_eq!((host.cpus, host.cores), (Some(16), Some(2)));
    assert_eq!(host.page_size_bytes, Some(65536));

    let qemu = partition.replace("IBM,9008-22L", "IBM pSeries (emulated by qemu)");
    let host = summarise(&recorded(&[("/proc/cpuinfo", &qemu)]));
    assert_eq!(host.virtualisation.as_deref(), Some("kvm or qemu"));
}

#[test]
fn version_1_limits_and_the_strictest_level() {
    let host = summarise(&recorded(&[
        (
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "9223372036854771712",
        ),
        (
            "/sys/fs/cgroup/memory/a/memory.limit_in_bytes",
            "8589934592",
        ),
        (
            "/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes",
            "17179869184",
        ),
        ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1"),
        ("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000"),
        ("/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "50000"),
        ("/sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000"),
    ]));
    assert_eq!(host.memory_limit_bytes, Some(8 << 30));
    assert_eq!(host.cpu_quota, Some(0.5));
    assert_eq!(host.usable_memory_bytes(), Some(8 << 30));
}

#[test]
fn a_limit_beyond_the_memory_is_none() {
    let host = summarise(&recorded(&[
        ("/proc/meminfo", MEMINFO),
        ("/sys/fs/cgroup/memory.max", "137438953472"),
    ]));
    assert_eq!(host.memory_bytes, Some(24_684_096 << 10));
    assert_eq!(host.memory_limit_bytes, None);
    assert_eq!(host.usable_memory_bytes(), host.memory_bytes);
}

#[test]
fn two_sockets_with_caches_of_their_own() {
    let host = summarise(&recorded(&[
        (
            "/sys/devices/system/cpu/cpu*/topology/core_cpus_list",
            "0,4: 0,4\n1,5: 1,5\n2,6: 2,6\n3,7: 3,7",
        ),
        (
            "/sys/devices/system/cpu/cpu*/topology/physical_package_id",
            "0-1,4-5: 0\n2-3,6-7: 1",
        ),
        ("/sys/devices/system/cpu/cpu*/cache/index2/level", "0-7: 2"),
        (
            "/sys/devices/system/cpu/cpu*/cache/index2/type",
            "0-7: Unified",
        ),
        ("/sys/devices/system/cpu/cpu*/cache/index2/size", "0-7: 1M"),
        (
            "/sys/devices/system/cpu/cpu*/cache/index2/shared_cpu_list",
            "0-1,4-5: 0-1,4-5\n2-3,6-7: 2-3,6-7",
        ),
        ("/sys/devices/system/node/node0/cpulist", "0-1,4-5"),
        ("/sys/devices/system/node/node1/cpulist", "2-3,6-7"),
        ("sched_getaffinity", "0-3,6"),
        (
            "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
            "0-3: powersave\n4-7: performance",
        ),
    ]));
    assert_eq!(
        (host.cpus, host.cores, host.sockets, host.numa_nodes),
        (Some(5), Some(4), Some(2), Some(2))
    );
    assert_eq!(host.last_level_cache_bytes, Some(1 << 20));
    assert_eq!(host.last_level_cache_total_bytes, Some(2 << 20));
    assert_eq!(host.cpu_governor.as_deref(), Some("performance, powersave"));
}

/// Whatever was recorded, it is read without a panic, and nothing is made up.
#[test]
fn garbage_stays_none() {
    assert_eq!(summarise(&BTreeMap::new()), HostSummary::default());
    for garbage in [
        "",
        "\n\n",
        ":",
        "processor",
        "processor\n\n\n",
        "a: b: c",
        "4294967296-",
        "5-2",
        "[",
        "\u{0}",
        "- - -",
    ] {
        let sources = [
            "/proc/cpuinfo",
            "/proc/meminfo",
            "sched_getaffinity",
            "/sys/devices/system/cpu/online",
            "/sys/devices/system/cpu/cpu*/cache/index0/level",
            "/sys/devices/system/cpu/cpu*/cache/index0/size",
            "/sys/fs/cgroup/memory.max",
            "/sys/fs/cgroup/cpu.max",
            "getconf PAGESIZE",
            "/sys/kernel/mm/transparent_hugepage/enabled",
            "mountinfo of the data",
            "/etc/os-release",
        ];
        let texts = recorded(&sources.map(|source| (source, garbage)));
        let host = summarise(&texts);
        assert_eq!(
            (
                host.memory_bytes,
                host.memory_limit_bytes,
                host.page_size_bytes
            ),
            (None, None, None)
        );
        assert_eq!(host.last_level_cache_bytes, None, "{garbage:?}");
    }
}

#[test]
fn lists_of_cpus_are_counted() {
    for (list, expected) in [
        ("0", Some(1)),
        ("0-3,8", Some(5)),
        ("2-1", None),
        ("0-4294967295", None),
        ("", None),
        ("a", None),
    ] {
        assert_eq!(super::cpus_of(list), expected, "{list}");
    }
}

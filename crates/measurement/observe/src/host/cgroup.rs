//! The limits that a container or slice puts on this process, or on the server's.
//!
//! A limit can stand at each level of a control group's path, and inside a
//! container the visible root may already be the container's own group; so every
//! level that is visible is recorded, and the strictest counts when analysed.

use pgassay_model::reading::Reading;
use procfs_core::{FromBufRead, ProcessCGroups};

use super::HostFacts;
use super::place::mounts;
use super::reader::Reader;

/// Files of a group: version 2, then version 1 (Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/).
const FILES: &[&str] = &[
    "memory.max",
    "memory.high",
    "cpu.max",
    "cpu.weight",
    "cpu.shares",
    "cpuset.cpus.effective",
    "memory.limit_in_bytes",
    "cpu.cfs_quota_us",
    "cpu.cfs_period_us",
    "cpu.stat",
    "io.max",
    "blkio.throttle.read_bps_device",
    "blkio.throttle.write_bps_device",
    "blkio.throttle.read_iops_device",
    "blkio.throttle.write_iops_device",
    "cpuset.effective_cpus",
    "hugetlb.2MB.max",
    "hugetlb.2MB.rsvd.max",
    "hugetlb.1GB.max",
    "hugetlb.1GB.rsvd.max",
    "hugetlb.2MB.limit_in_bytes",
    "hugetlb.2MB.rsvd.limit_in_bytes",
    "hugetlb.1GB.limit_in_bytes",
    "hugetlb.1GB.rsvd.limit_in_bytes",
    // Arm: 64 KiB base pages have 512 MiB huge pages, and 16 KiB base pages 32 MiB ones.
    "hugetlb.32MB.max",
    "hugetlb.32MB.rsvd.max",
    "hugetlb.512MB.max",
    "hugetlb.512MB.rsvd.max",
    // POWER
    "hugetlb.16MB.max",
    "hugetlb.16MB.rsvd.max",
];

/// Records the limits of each group that a process is in: its id, or `self`.
pub(super) fn record(reader: &Reader, process: &str, facts: &mut HostFacts) {
    let Some(text) = reader.value(&format!("/proc/{process}/cgroup")) else {
        return;
    };
    let Ok(groups) = ProcessCGroups::from_buf_read(text.as_bytes()) else {
        return;
    };
    let mounts = mounts(reader);
    for group in &groups.0 {
        // Version 2 has the hierarchy 0 and names no controllers.
        let mount = mounts.iter().find(|mount| {
            if group.controllers.iter().all(String::is_empty) {
                mount.fs_type == "cgroup2"
            } else {
                mount.fs_type == "cgroup"
                    && group
                        .controllers
                        .iter()
                        .all(|name| mount.super_options.contains_key(name))
            }
        });
        let Some(mount) = mount else { continue };
        let point = mount.mount_point.to_string_lossy();
        // A mount can begin below the hierarchy's root: a container's own group.
        let path = group.pathname.as_str();
        let path = if mount.root == "/" {
            path
        } else {
            path.strip_prefix(&mount.root).unwrap_or("")
        };
        let mut path = path.trim_end_matches('/');
        loop {
            for file in FILES {
                let source = format!("{point}{path}/{file}");
                // A group has the files of its own controllers only: the
                // others' absence says nothing.
                if let reading @ Reading::Text(_) = reader.read(&source) {
                    facts.insert(source, reading);
                }
            }
            match path.rfind('/') {
                Some(end) => path = &path[..end],
                None => break,
            }
        }
    }
}

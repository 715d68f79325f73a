//! The file system and the device under a directory.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use pgassay_model::reading::Reading;
use procfs_core::FromBufRead;
use procfs_core::process::{MountInfo, MountInfos};

use super::HostFacts;
use super::reader::Reader;

/// Files of a block device's queue that bear on what a database reads.
const QUEUE: &[&str] = &[
    "rotational",
    "scheduler",
    "read_ahead_kb",
    "logical_block_size",
    "physical_block_size",
    "max_sectors_kb",
    "nr_requests",
    "write_cache",
];

/// The mounts of this process; empty where they can't be read.
pub(super) fn mounts(reader: &Reader) -> Vec<MountInfo> {
    reader
        .value("/proc/self/mountinfo")
        .and_then(|text| MountInfos::from_buf_read(text.as_bytes()).ok())
        .map(|infos| infos.0)
        .unwrap_or_default()
}

/// Records what lies under `dir`: its line of mountinfo, and its device's queue.
pub(super) fn record(reader: &Reader, dir: &Path, facts: &mut HostFacts) {
    let text = reader.value("/proc/self/mountinfo").unwrap_or_default();
    let line = std::fs::canonicalize(dir)
        .ok()
        .and_then(|dir| mount_line(&text, &dir));
    facts.insert(
        "mountinfo of the data".into(),
        match line {
            Some(line) => Reading::Text(line),
            None => Reading::Unavailable(format!("no mount of {} is seen", dir.display())),
        },
    );
    let Ok(meta) = std::fs::metadata(dir) else {
        return;
    };
    let (major, minor) = (rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev()));
    let Some(device) = reader.resolve(&format!("/sys/dev/block/{major}:{minor}")) else {
        facts.insert(
            "device of the data".into(),
            Reading::Unavailable(format!("{major}:{minor} is no block device that is seen")),
        );
        return;
    };
    // A partition's queue is its disk's, one directory up.
    let disk = match device.rfind('/') {
        Some(end) if reader.value(&format!("{device}/partition")).is_some() => &device[..end],
        _ => &device,
    };
    let name = disk.rsplit('/').next().unwrap_or(disk);
    facts.insert("device of the data".into(), Reading::Text(name.to_owned()));
    for file in QUEUE {
        let reading = reader.read(&format!("{disk}/queue/{file}"));
        facts.insert(format!("/sys/block/{name}/queue/{file}"), reading);
    }
    for file in ["model", "vendor"] {
        let reading = reader.read(&format!("{disk}/device/{file}"));
        facts.insert(format!("/sys/block/{name}/device/{file}"), reading);
    }
}

/// The line of mountinfo whose mount point is the longest above `dir`; of two
/// mounted on one point the later is the visible one.
pub(super) fn mount_line(text: &str, dir: &Path) -> Option<String> {
    let mut best: Option<(usize, &str)> = None;
    for line in text.lines() {
        let Some(point) = line.split(' ').nth(4) else {
            continue;
        };
        let point = unescaped(point);
        let depth = Path::new(&point).components().count();
        if dir.starts_with(&point) && best.is_none_or(|(deepest, _)| depth >= deepest) {
            best = Some((depth, line));
        }
    }
    best.map(|(_, line)| line.to_owned())
}

/// A field of mountinfo, its octal escapes (`\040` for a space) undone.
pub(super) fn unescaped(field: &str) -> String {
    let mut plain = String::new();
    let mut rest = field;
    while let Some((before, after)) = rest.split_once('\\') {
        plain.push_str(before);
        let code = after.get(..3).and_then(|c| u8::from_str_radix(c, 8).ok());
        match code {
            Some(code) => {
                plain.push(char::from(code));
                rest = &after[3..];
            }
            None => {
                plain.push('\\');
                rest = after;
            }
        }
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deepest_and_latest_mount_is_the_one() {
        let text = "27 1 254:0 / / rw - ext4 /dev/vda rw\n\
                    30 27 0:27 / /var/tmp rw - tmpfs tmpfs rw\n\
                    31 27 254:1 / /var/tmp rw - xfs /dev/vdb rw\n\
                    32 27 254:2 / /var/tmpfoo rw - xfs /dev/vdc rw\n\
                    33 27 254:3 / /var/my\\040data rw - xfs /dev/vdd rw";
        let line = mount_line(text, Path::new("/var/my data/15")).unwrap();
        assert!(line.contains("/dev/vdd"), "{line}");
        let line = mount_line(text, Path::new("/var/tmp/pgassay-0")).unwrap();
        assert!(line.contains("/dev/vdb"), "{line}");
        assert!(
            mount_line(text, Path::new("/home"))
                .unwrap()
                .contains("/dev/vda")
        );
    }
}

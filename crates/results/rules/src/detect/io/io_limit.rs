//! A control group limits the device.

use crate::detect::prelude::*;

pub fn audit(seen: &FactView) -> Judged {
    let mut limits = Vec::new();
    let mut files = 0;
    // Version 2: `MAJ:MIN rbps=N wbps=max riops=max wiops=max`.
    for (_, text) in seen.texts("/sys/fs/cgroup", "/io.max")? {
        files += 1;
        for line in text.lines() {
            limits.extend(
                line.split_whitespace()
                    .skip(1)
                    .filter(|word| !word.ends_with("=max"))
                    .map(str::to_owned),
            );
        }
    }
    // Version 1: a file each, `MAJ:MIN N`.
    for (source, text) in seen.texts("/sys/fs/cgroup", "_device")? {
        let Some((_, what)) = source.split_once("/blkio.throttle.") else {
            continue;
        };
        files += 1;
        let values = text.lines().filter_map(|line| line.split_once(' '));
        limits
            .extend(values.map(|(_, limit)| {
                format!("{} {}", what.trim_end_matches("_device"), limit.trim())
            }));
    }
    if files == 0 {
        return could_not_see("no control group with limits of I/O is seen");
    }
    if limits.is_empty() {
        return passed("no limit of bytes or requests is set");
    }
    Observation::new(
        Severity::Medium,
        Confidence::High,
        format!("The server's control group limits its device: {}.", limits.join(", ")),
    )
    .shell("systemctl set-property UNIT IOReadIOPSMax= IOWriteIOPSMax= IOReadBandwidthMax= IOWriteBandwidthMax=   # or the container's --device-read-iops and its like")
    .found()
}

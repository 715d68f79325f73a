//! Gigabytes of dirty pages before writeback starts.

use crate::detect::prelude::*;

pub fn audit(seen: &FactView) -> Judged {
    let memory = seen.of_host("the memory's size", |h| h.memory_bytes)?;
    let bytes: u64 = seen
        .text("/proc/sys/vm/dirty_background_bytes")?
        .parse()
        .unwrap_or(0);
    let ratio: u64 = seen
        .text("/proc/sys/vm/dirty_background_ratio")?
        .parse()
        .unwrap_or(10);
    let threshold = if bytes > 0 {
        bytes
    } else {
        (memory / 100).saturating_mul(ratio)
    };
    let flushed = seen.bytes("checkpoint_flush_after").unwrap_or(0) > 0;
    let saw = format!(
        "writing starts at {} of dirty pages ({})",
        shown(threshold),
        if bytes > 0 {
            "dirty_background_bytes".to_owned()
        } else {
            format!("dirty_background_ratio = {ratio}")
        }
    );
    if threshold <= 4 << 30 {
        return passed(saw);
    }
    Observation::new(
        if flushed { Severity::Info } else { Severity::Low },
        Confidence::Low,
        format!("With {} of memory {saw}.", shown(memory)),
    )
    .shell("sysctl -w vm.dirty_background_bytes=268435456 vm.dirty_bytes=1073741824   # 256 MiB and 1 GiB")
    .found()
}

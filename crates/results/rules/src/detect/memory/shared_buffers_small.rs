//! Working set larger than shared_buffers.

use crate::detect::common::cpu_samples::of_samples;
use crate::detect::common::wait_shares;
use crate::detect::memory::sizes::quarter_of_memory;
use crate::detect::prelude::*;
use pgassay_evidence::profile::Class;

pub const DETECTORS: &[Detector] = &[
    facts("shared-buffers-small", buffers_small),
    samples("shared-buffers-small", misses),
    run("shared-buffers-small", wait_shares::misses_by_counts),
];

/// shared_buffers so far below the default of 128 MB (initdb's since 9.3, where the kernel
/// allows it) that somebody set them for another age.
const TINY: u64 = 32 << 20;

fn buffers_small(seen: &FactView) -> Judged {
    let buffers = seen.bytes("shared_buffers")?;
    let row = seen.row("databases")?;
    let (Some(hits), Some(reads)) = (number(&row, "blks_hit"), number(&row, "blks_read")) else {
        return could_not_see("the server's counters of block reads are empty");
    };
    let misses = reads / (hits + reads).max(1.0);
    let memory = seen.memory();
    let size = seen.row("size").ok().and_then(|row| number(&row, "bytes"));
    let saw = format!(
        "shared_buffers is {}{}; {} of {:.0} block accesses were misses",
        shown(buffers),
        memory
            .as_ref()
            .map_or(String::new(), |m| format!(" of {} of memory", shown(*m))),
        percent(misses),
        hits + reads
    );
    // The data that it must hold decides: a small database fits small buffers.
    if let Some(size) = size
        && size <= buffers as f64
    {
        return passed(format!(
            "{saw}; all databases together have {}",
            shown(size as u64)
        ));
    }
    let share = memory.as_ref().map(|m| buffers as f64 / (*m).max(1) as f64);
    let room = share
        .as_ref()
        .map_or(buffers <= 256 << 20, |share| *share < 0.15);
    if !room {
        return passed(saw);
    }
    if hits + reads < 100_000.0 {
        if buffers > TINY {
            return could_not_see(format!("{saw}: too few to judge by"));
        }
        let found = Observation::new(
            Severity::Medium,
            Confidence::Low,
            format!("{saw}: too few to judge by, but the default is 128 MB."),
        );
        return quarter_of_memory(seen, found).found();
    }
    if misses < 0.01 {
        return passed(saw);
    }
    let found = Observation::new(
        medium_if(misses > 0.05),
        Confidence::Medium,
        format!(
            "{saw}{}.",
            size.map_or(String::new(), |s| format!(
                "; all databases together have {}",
                shown(s as u64)
            ))
        ),
    );
    quarter_of_memory(seen, found)
        .shell(
            "pgassay compare TARGET TARGET --set-a shared_buffers=OLD --set-b shared_buffers=NEW",
        )
        .found()
}

/// Misses that cost CPU time rather than waits: blocks copied from the kernel's cache.
fn misses(evidence: &Evidence) -> Option<Observation> {
    let profile = evidence.profile?;
    let run = evidence.run?;
    let missed = wait_shares::missed(&run)?;
    let share = profile.class(Class::Io);
    (profile.shows(share, 0.1) && missed >= 0.05).then(|| {
        let saw = format!(
            "Reading blocks that are not in shared buffers takes {}.",
            of_samples(share)
        );
        Observation::of_samples(share, saw)
            .seen(format!(
                "{} of the samples in the kernel's file and device code",
                tenths(share)
            ))
            .seen(wait_shares::blocks_read(&run))
            .confidence(Confidence::Medium)
    })
}

//! Checkpoints forced by the amount of WAL.

use crate::detect::prelude::*;
use crate::detect::wal::max_wal_size::{ENOUGH_WAL, MUCH_WAL, Needs, SECONDS};
use crate::detect::wal::rate::{covered_seconds, needs, wal_rate};
use crate::detect::wal::requested::{
    FEWEST, TOO_NEAR_SECONDS, evidence_in_words, gain, log_for_each,
};
use pgassay_evidence::checkpoints::forced_after;
use pgassay_evidence::number;
use pgassay_text::number::memory_bytes;

pub fn in_run(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let seen = run.load.checkpoints.as_ref()?;
    let apart = seen.seconds / seen.requested.max(1) as f64;
    if seen.requested < FEWEST || apart > TOO_NEAR_SECONDS {
        return None;
    }
    let enough = log_for_each(seen).map(|(log, room)| log / room);
    if enough.is_some_and(|share| share < ENOUGH_WAL) {
        return None;
    }
    let saw = format!(
        "{} checkpoints fell into the measured windows, {} of them forced by the volume of the \
         log: one every {apart:.1} seconds.",
        seen.timed + seen.requested,
        seen.requested,
    );
    let (gain, basis) = gain(seen, &run);
    let confidence = match (basis, enough) {
        (Basis::Throughput, Some(share)) if share >= MUCH_WAL => Confidence::High,
        (_, Some(_)) => Confidence::Medium,
        (_, None) => Confidence::Low,
    };
    let found = Observation::measured(basis, gain, saw)
        .all_seen(evidence_in_words(seen, &run))
        .confidence(confidence);
    let storage = run.load.reads.as_ref().map(|reads| &reads.storage);
    let needs = Needs {
        now: run.setting("max_wal_size").and_then(memory_bytes),
        rate: seen.wal_bytes_per_second,
        directories: storage.map_or(&[], |storage| &storage.directories),
    };
    Some(
        needs
            .recommend(found)
            .advice("checkpoint_timeout of 5 minutes or more"),
    )
}

pub fn audit(seen: &FactView) -> Judged {
    let row = match seen.row("checkpointer") {
        Ok(row) => row,
        Err(_) => seen.row("bgwriter")?,
    };
    let either = |name, old| number(&row, name).or_else(|| number(&row, old));
    let (Some(timed), Some(forced)) = (
        either("num_timed", "checkpoints_timed"),
        either("num_requested", "checkpoints_req"),
    ) else {
        return could_not_see("the server counts no checkpoints under the names that are known");
    };
    let size = seen.bytes("max_wal_size")?;
    let timeout = seen.millis("checkpoint_timeout")?.unwrap_or(300_000) / 1000;
    let covered = covered_seconds(&row);
    let over = match covered {
        Some(seconds) => format!(
            "in the {} since these counters were reset, one requested every {} on average",
            number::duration(seconds),
            number::duration((seconds / forced.max(1.0)).round())
        ),
        None => "since a reset that is less than a minute ago, or not known".to_owned(),
    };
    let saw = format!(
        "{forced} checkpoints were requested and {timed} came by time {over} (max_wal_size {}, checkpoint_timeout {timeout} s)",
        shown(size)
    );
    // A few are requested by hand: backups, CREATE DATABASE, shutdown.
    if forced < 10.0 || forced < timed {
        return passed(saw);
    }
    let rate = wal_rate(seen);
    let target = seen.decimal("checkpoint_completion_target").ok();
    let after = target.and_then(|target| forced_after(size, target, seen.version().ok()));
    let each = covered
        .zip(rate)
        .map(|(seconds, rate)| rate * seconds / forced);
    let known = each.zip(after.filter(|after| *after > 0));
    let filled = known.map(|(each, after)| each / after as f64);
    let evidence = known.map(|(each, after)| {
        format!(
            "{} of WAL for each of them; max_wal_size requests one after {}",
            shown(each as u64),
            shown(after)
        )
    });
    if let Some(evidence) = evidence.as_ref().filter(|_| filled < Some(ENOUGH_WAL)) {
        return passed(format!(
            "{saw}; {evidence}: commands requested them (CHECKPOINT, backups, CREATE DATABASE)"
        ));
    }
    // Without the WAL of the same time it is not known whether that, or a command, requested them.
    let confidence = match filled {
        Some(filled) if filled >= MUCH_WAL => Confidence::High,
        Some(_) => Confidence::Medium,
        None => Confidence::Low,
    };
    let near = covered.is_some_and(|seconds| seconds / forced < SECONDS);
    let severity = medium_if(near && filled.is_some());
    let found = Observation::new(severity, confidence, format!("{saw}.")).all_seen(evidence);
    needs(seen)?.recommend(found).found()
}

//! Checkpoints that were requested within a run.

use crate::detect::prelude::*;
use pgassay_evidence::checkpoints::Checkpoints;

/// Forced checkpoints nearer together than this are too near: from there on the server warns
/// in its log (the default of checkpoint_warning).
pub const TOO_NEAR_SECONDS: f64 = 30.0;

/// Fewer may be chance.
pub const FEWEST: u64 = 3;

/// Bytes of log for each requested checkpoint, and those that have one come.
pub fn log_for_each(seen: &Checkpoints) -> Option<(f64, f64)> {
    let room = seen.forced_after_bytes.filter(|room| *room > 0)? as f64;
    Some((seen.wal_bytes? as f64 / seen.requested as f64, room))
}

pub fn evidence_in_words(seen: &Checkpoints, run: &RunEvidence) -> Vec<String> {
    let mut words = vec![format!(
        "{} checkpoints were requested and {} began by time in {} windows of {:.0} s in all",
        seen.requested, seen.timed, seen.windows, seen.seconds
    )];
    if let Some((log, room)) = log_for_each(seen) {
        let size = run
            .setting("max_wal_size")
            .map_or(String::new(), |v| format!(" = {v}"));
        words.push(format!(
            "{} of log for each; max_wal_size{size} asks for one after {}, or when the one before it has ended",
            mebibytes(log),
            mebibytes(room)
        ));
    }
    if let Some(each) = seen.wal_bytes_per_transaction {
        let whole = seen.full_page_share.map_or(String::new(), |share| {
            format!(", at most {} of it whole pages", tenths(share))
        });
        words.push(format!(
            "{:.1} KiB of log a transaction{whole}",
            each / 1024.0
        ));
    }
    if let Some(share) = seen.at_work_share {
        words.push(format!(
            "the checkpointer was at work in {} of the looks",
            tenths(share)
        ));
    }
    match &seen.throughput_ratio {
        Some(ratio) => words.push(format!(
            "with a checkpoint under way throughput was {} of that without ({} to {})",
            tenths(ratio.estimate),
            tenths(ratio.low),
            tenths(ratio.high)
        )),
        None => {
            if let Some(share) = at_log(run) {
                words.push(format!(
                    "sessions waited for the log in {} of {}",
                    tenths(share),
                    run.whole()
                ));
            }
        }
    }
    words
}

/// The part of all time that would be won without them, and what that rests on:
/// windows with and without one, else the time at the log and how much of that is whole
/// pages. What the checkpoint's own writes take from the load's flushes is not in the latter.
pub fn gain(seen: &Checkpoints, run: &RunEvidence) -> (Option<f64>, Basis) {
    if let Some(ratio) = seen.throughput_ratio.as_ref().filter(|r| r.high < 1.0) {
        return (Some(1.0 - ratio.estimate), Basis::Throughput);
    }
    let by_waits = at_log(run).zip(seen.full_page_share);
    (
        by_waits.map(|(waiting, whole)| waiting * whole),
        Basis::WaitTime,
    )
}

/// The share of the sessions' time in which they waited for the log.
fn at_log(run: &RunEvidence) -> Option<f64> {
    run.wait_share(|_, event| event.to_ascii_lowercase().starts_with("wal"))
}

fn mebibytes(bytes: f64) -> String {
    format!("{:.0} MiB", bytes / (1 << 20) as f64)
}

#[cfg(test)]
mod tests {
    use pgassay_model::record::RecordedRun;
    use pgassay_model::storage::{Directory, Holds, Storage};
    use pgassay_model::trial::Trial;

    use pgassay_analysis::analyse;
    use pgassay_analysis::bottlenecks::{Basis, Confidence, Finding};
    use pgassay_evidence::fixtures::{experiment, latency, server, trial};

    fn made(max_wal_size: &str, trials: Vec<Trial>) -> RecordedRun {
        let mut run = RecordedRun::default();
        run.header.experiment = experiment(&[8], trials.len() as u32);
        run.trials = trials;
        for trial in &mut run.trials {
            trial.latency = latency();
        }
        run.servers.insert(0, server(max_wal_size));
        run
    }

    fn found(max_wal_size: &str, trials: Vec<Trial>) -> Option<Finding> {
        let run = made(max_wal_size, trials);
        let diagnosis = analyse(&run).stages.remove(0).diagnosis.unwrap();
        let mut findings = diagnosis.findings.into_iter();
        findings.find(|f| f.id == "forced-checkpoints")
    }

    #[test]
    fn those_that_neither_time_nor_log_ask_for_are_somebodys() {
        let of = |max: &str, trials| {
            let (run, id) = (made(max, trials), "checkpoints-commanded");
            let diagnosis = analyse(&run).stages.remove(0).diagnosis.unwrap();
            diagnosis.findings.into_iter().find(|f| f.id == id)
        };
        // A GiB of room, and a checkpoint after each 20 MiB.
        let seen = of("1024", windows(|i| trial(i, 1000, 2, 20)));
        assert_eq!(seen.map(|f| f.confidence), Some(Confidence::High));
        assert_eq!(of("32", windows(|i| trial(i, 1000, 2, 20))), None);
        assert_eq!(of("1024", windows(|i| trial(i, 1000, 0, 20))), None);
    }

    fn windows(of: fn(u32) -> Trial) -> Vec<Trial> {
        (0..12).map(of).collect()
    }

    #[test]
    fn checkpoints_forced_by_the_log_are_found_with_what_they_cost() {
        let half = |i| {
            let tps = if i % 2 == 0 { 500 } else { 1000 };
            trial(
                i,
                tps + u64::from(i),
                u64::from(i % 2 == 0),
                20 * ((i + 1) % 2),
            )
        };
        let finding = found("32", windows(half)).unwrap();
        assert!(
            finding
                .saw
                .starts_with("6 checkpoints fell into the measured windows, 6 of them"),
            "{}",
            finding.saw
        );
        assert!((0.4..0.6).contains(&finding.gain_at_most.unwrap()));
        assert_eq!(
            (finding.confidence, finding.basis),
            (Confidence::High, Basis::Throughput)
        );
        // 40 MiB a second for ten minutes, and nothing is known of the disk.
        let step = &finding.remedy[0].text;
        assert!(
            step.contains("'4GB'")
                && step.contains("is 24 GiB")
                && step.contains("not known")
                && !step.contains("ALTER SYSTEM"),
            "{step}"
        );
        let evidence = finding.evidence.join("\n");
        assert!(
            evidence
                .contains("80 MiB of log for each; max_wal_size = 32MB asks for one after 17 MiB"),
            "{evidence}"
        );
        assert!(evidence.contains("80.0 % of it whole pages"), "{evidence}");
    }

    #[test]
    fn the_size_that_a_load_asks_for_fits_the_disk() {
        let step = |free_bytes: Option<u64>| {
            let mut run = made("64", windows(|i| trial(i, 1000, 1, 20)));
            let directories = vec![Directory {
                holds: Holds::Wal,
                free_bytes,
                ..Directory::default()
            }];
            let storage = Storage {
                directories,
                ..Storage::default()
            };
            run.storage.insert(0, storage);
            let diagnosis = analyse(&run).stages.remove(0).diagnosis.unwrap();
            let mut findings = diagnosis.findings.into_iter();
            let found = findings.find(|f| f.id == "forced-checkpoints").unwrap();
            found.remedy[0].text.clone()
        };
        let gib = 1u64 << 30;
        for (free, says) in [
            (Some(72 * gib), "'16GB'"),
            (Some(6 * gib), "'3GB'"),
            (Some(100 << 20), "do not raise max_wal_size"),
            (None, "'4GB'"),
        ] {
            assert!(step(free).contains(says), "{free:?}: {}", step(free));
        }
    }

    #[test]
    fn always_under_way_is_told_by_the_log() {
        let finding = found("32", windows(|i| trial(i, 1000, 2, 20))).unwrap();
        // Nothing to hold it against, and nobody was seen to wait.
        assert_eq!(
            (finding.gain_at_most, finding.confidence),
            (Some(0.0), Confidence::Medium)
        );
    }

    #[test]
    fn few_or_by_command_is_no_finding() {
        let two = windows(|i| trial(i, 1000, u64::from(i < 2), 20));
        assert_eq!(found("32", two), None);
        // A GiB of room, and a checkpoint after each 20 MiB: somebody asks for them.
        assert_eq!(found("1024", windows(|i| trial(i, 1000, 2, 20))), None);
        assert!(found("128", windows(|i| trial(i, 1000, 1, 20))).is_some());
    }
}

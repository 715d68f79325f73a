//! A volume's limits that its provider names, against what the devices read under a load.

use crate::detect::prelude::*;
use pgassay_evidence::metrics;
use pgassay_evidence::storage::volume::{Bound, VolumeUse, lasting};

pub const DETECTORS: &[Detector] = &[
    run("volume-throughput", |evidence| {
        bound(evidence, Bound::Throughput)
    }),
    run("volume-requests", |evidence| {
        bound(evidence, Bound::Requests)
    }),
    run("volume-burst", burst),
];

/// What is read of what the volume allows, where that is known.
fn used<'a>(run: &RunEvidence<'a>) -> Option<VolumeUse<'a>> {
    let bytes = run.point.estimate(metrics::DEVICE_READS)?.estimate;
    let requests = run.point.estimate(metrics::DEVICE_REQUESTS)?.estimate;
    VolumeUse::on(Some(&run.load.reads.as_ref()?.storage), bytes, requests)
}

fn bound(evidence: &Evidence, which: Bound) -> Option<Observation> {
    let run = evidence.run?;
    let used = used(&run)?;
    (used.bound()? == which).then(|| {
        let saw = format!(
            "Reads with {} are {}.",
            run.clients(),
            used.says().unwrap_or_default()
        );
        // Writes are not in it, and may be what really fills the volume.
        Observation::measured(Basis::Counters, None, saw)
            .confidence(Confidence::Medium)
            .seen(format!("read: {}", used.words()))
    })
}

fn burst(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let used = used(&run)?;
    let seconds = used.credits_last()?;
    let saw = format!(
        "Reads with {} spend burst credits: full ones end after {}.",
        run.clients(),
        lasting(seconds)
    );
    Some(
        Observation::measured(Basis::Counters, None, saw)
            .confidence(Confidence::Medium)
            .seen(format!("read: {}", used.words())),
    )
}

#[cfg(test)]
mod tests {
    use pgassay_model::reading::{Reading, Sample};
    use pgassay_model::samplers::HOST_DISKSTATS;
    use pgassay_model::storage::{Storage, VolumeLimits};

    use pgassay_analysis::analyse;
    use pgassay_evidence::fixtures;

    const GP3: VolumeLimits = VolumeLimits {
        iops: Some(3000),
        bytes_per_second: Some(125_000_000),
        base_iops: None,
        credits: None,
        found_in: None,
    };

    /// What is found where each second so many requests read so many sectors of a volume.
    fn found(limits: Option<VolumeLimits>, requests: u64, sectors: u64) -> Vec<(String, String)> {
        let mut run = fixtures::run(0.0, |_| 0.0);
        let storage = Storage {
            counted: vec!["vda".into()],
            volume: limits,
            ..Storage::default()
        };
        run.storage.insert(0, storage);
        let line = |n: u64, s: u64| Reading::Text(format!("254 0 vda {n} 0 {s} 0 0 0 0 0 0 0 0"));
        for trial in &mut run.trials {
            let sample = Sample {
                before: line(0, 0),
                after: line(requests, sectors),
                elapsed_ns: 1_000_000_000,
            };
            trial.samples.insert(HOST_DISKSTATS.to_owned(), sample);
        }
        let diagnosis = analyse(&run).stages.remove(0).diagnosis;
        let findings = diagnosis.into_iter().flat_map(|d| d.findings);
        let of_volume = findings.filter(|f| f.id.starts_with("volume-"));
        of_volume.map(|f| (f.id, f.saw)).collect()
    }

    #[test]
    fn the_nearer_of_two_limits_is_named() {
        // 64 KiB a request.
        let large = found(Some(GP3), 1900, 1900 * 128);
        assert_eq!(large.len(), 1, "{large:?}");
        assert_eq!(large[0].0, "volume-throughput");
        assert!(
            large[0].1.contains("throughput, not by its requests"),
            "{large:?}"
        );
        // 8 KiB a request.
        let small = found(Some(GP3), 2950, 2950 * 16);
        assert_eq!(small.len(), 1, "{small:?}");
        assert_eq!(small[0].0, "volume-requests");
        assert!(found(Some(GP3), 1000, 1000 * 16).is_empty());
        assert!(found(None, 9000, 9000 * 128).is_empty());
    }

    #[test]
    fn what_lives_on_credits_says_until_when() {
        let gp2 = VolumeLimits {
            iops: Some(3000),
            base_iops: Some(600),
            credits: Some(5_400_000),
            ..VolumeLimits::default()
        };
        let found = found(Some(gp2), 1600, 1600 * 16);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].0, "volume-burst");
        assert!(found[0].1.contains("after about 90 minutes"), "{found:?}");
    }
}

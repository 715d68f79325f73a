//! Checksums of WAL computed without the CPU's CRC instruction.

use crate::detect::common::cpu_samples::of_samples;
use crate::detect::prelude::*;
use pgassay_inspect::model::Hint;

pub fn audit(seen: &FactView) -> Judged {
    let machine = seen.machine()?.to_owned();
    let feature = match machine.as_str() {
        "x86_64" => "sse4_2",
        "aarch64" => "crc32",
        other => {
            return not_applicable(format!(
                "PostgreSQL has no CRC instruction's code for {other}"
            ));
        }
    };
    let features = seen.of_host("the CPU's features", |h| {
        Some(h.cpu_features.clone()).filter(|f| !f.is_empty())
    })?;
    if !features.iter().any(|f| f == feature) {
        return not_applicable("this CPU has no CRC-32C instruction");
    }
    let count = seen
        .binary()?
        .hints
        .iter()
        .find(|h| h.hint == Hint::Crc32c)
        .map_or(0, |h| h.count);
    if count > 0 {
        return passed(format!("{count} CRC-32C instructions in the executable"));
    }
    Observation::new(
        Severity::Low,
        Confidence::High,
        "The CPU has a CRC-32C instruction and the executable has none: checksums go by table.",
    )
    .advice("upgrade (arm64: 11 or later), or rebuild with a compiler and assembler that know the instruction")
    .found()
}

pub fn in_samples(evidence: &Evidence) -> Option<Observation> {
    let profile = evidence.profile?;
    let share = profile.function("pg_comp_crc32c_sb8")?.own_share;
    profile.shows(share, 0.01).then(|| {
        let saw = format!(
            "Checksums of the log are computed by table: {}.",
            of_samples(share)
        );
        Observation::of_samples(share, saw)
            .of_functions(["pg_comp_crc32c_sb8"])
            .seen(format!("{} in pg_comp_crc32c_sb8", tenths(share)))
    })
}

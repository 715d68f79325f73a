//! Build for an older CPU than it runs on.

use crate::detect::prelude::*;

/// POWER generations by the compiler's name and by /proc/cpuinfo's.
const POWER: &[&str] = &["power7", "power8", "power9", "power10", "power11"];

pub fn audit(seen: &FactView) -> Judged {
    let binary = seen.binary()?;
    let configured = configured_flags(seen);
    let flags: Vec<&str> = binary
        .build
        .flags
        .iter()
        .flat_map(|f| f.flags.split_whitespace())
        .chain(configured.iter().map(String::as_str))
        .collect();
    let named = |name: &str| {
        flags
            .iter()
            .rev()
            .find_map(|f| f.strip_prefix(name)?.strip_prefix('='))
            .map(|v| v.split('+').next().unwrap_or(v))
    };
    let Some(cpu) = named("-mcpu")
        .or_else(|| named("-march"))
        .map(str::to_owned)
    else {
        return if flags.is_empty() {
            could_not_see(
                "the build's flags are recorded neither in the executable nor by the server",
            )
        } else {
            passed("the build names no CPU: the compiler's baseline, and tests at run time")
        };
    };
    let model = seen.of_host("the CPU", |h| h.cpu_model.clone())?;
    let lower = model.to_lowercase();
    let older = if let Some(built) = POWER.iter().position(|p| *p == cpu) {
        POWER
            .iter()
            .rposition(|p| lower.contains(p))
            .is_some_and(|runs| runs > built)
    } else {
        let arm =
            |name: &str| pgassay_inspect::cpu::find(name).and_then(|c| Some((c.lse?, c.lse2?)));
        let runs = seen.of_host("the CPU's features", |h| Some(h.cpu_features.clone()))?;
        let has = |feature: &str| runs.iter().any(|f| f == feature);
        arm(&cpu)
            .is_some_and(|(lse, lse2)| (!lse && has("atomics")) || (!lse2 && lse && has("uscat")))
    };
    if !older {
        return passed(format!("built for {cpu}, runs on {model}"));
    }
    Observation::new(
        Severity::Info,
        Confidence::Low,
        format!("Built for {cpu}; it runs on {model}, which is newer."),
    )
    .shell("pgassay build --recommend")
    .advice("build a variant for this CPU and compare the two; no gain is claimed beforehand")
    .found()
}

/// CFLAGS by the server's own word.
fn configured_flags(seen: &FactView) -> Vec<String> {
    let flags = seen.built("CFLAGS").unwrap_or_default();
    flags.split_whitespace().map(str::to_owned).collect()
}

//! Server does not use the CPU's LSE atomics.

use crate::detect::build::lse::cpu_has_lse;
use crate::detect::prelude::*;
use pgassay_inspect::cpu::Path;

/// CPUs for which published measurements show no gain from LSE.
fn no_gain_claimed(seen: &FactView) -> bool {
    let model = seen.of_host("the CPU", |h| h.cpu_model.clone());
    model.is_ok_and(|m| m.contains("Kunpeng") || m.contains("Apple"))
}

pub fn audit(seen: &FactView) -> Judged {
    cpu_has_lse(seen)?;
    let atomics = &seen.binary()?.atomics;
    let (lse, loops) = (atomics.inline_lse(), atomics.inline_llsc() / 2);
    let outline = atomics.outline_calls();
    if [lse, outline, loops] == [0; 3] {
        return could_not_see("no atomic instruction was found in the executable");
    }
    // The process's own word: outline helpers that chose the loops all the same.
    let chose_loops = seen
        .binary()?
        .process
        .as_ref()
        .and_then(|process| process.flag())
        .is_some_and(|flag| flag == 0);
    if outline > 0 && chose_loops {
        return Observation::new(
            Severity::Medium,
            Confidence::High,
            "The CPU has LSE atomics and the server's outline helpers chose the exclusive loops: the flag byte in the process is 0.",
        )
        .advice("find what hides LSE from the process: an emulator, a container's filter, an old libgcc")
        .found();
    }
    if outline > 0 || lse > loops {
        return passed(if outline > 0 {
            "outline helpers choose LSE at run time".to_owned()
        } else {
            format!("{lse} inline LSE instructions")
        });
    }
    let cpus = seen.cpus().unwrap_or(1);
    let (severity, sure) = match (no_gain_claimed(seen), cpus) {
        (true, _) => (Severity::Info, Confidence::Low),
        (false, 16..) => (Severity::High, Confidence::Medium),
        (false, 4..) => (Severity::Medium, Confidence::Medium),
        (false, _) => (Severity::Low, Confidence::Low),
    };
    Observation::new(
        severity,
        sure,
        format!(
            "The CPU has LSE atomics and the server cannot use them: its {loops} atomic operations are loops of exclusive loads and stores, on {cpus} CPUs."
        ),
    )
    .advice("take a package with outline atomics (Debian's, Ubuntu's, PGDG's current ones), or rebuild with GCC 10.1 or later, or with -march=armv8.2-a")
    .shell("pgassay compare THIS-BUILD OTHER-BUILD   # shows what it is worth here")
    .found()
}

pub fn in_run(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let verdict = run.arm.verdict.as_ref()?;
    let binary = run.arm.binary.as_ref().ok()?;
    if binary.machine != pgassay_inspect::Machine::Aarch64
        || !matches!(verdict.path, Path::InlineLlsc | Path::OutlineLlsc)
        || verdict.advice.is_empty()
    {
        return None;
    }
    let saw =
        "The build takes locks by load- and store-exclusive loops on a CPU that has better ones.";
    let mut found = Observation::measured(Basis::State, None, saw)
        .seen(format!("{}: {}", verdict.cpu, verdict.runs))
        .means(verdict.cost.clone())
        .advice(verdict.advice.join("; "));
    found.sources.extend(verdict.sources.iter().cloned());
    Some(found)
}

//! libc or extensions do not use the CPU's LSE atomics.

use crate::detect::build::lse::cpu_has_lse;
use crate::detect::prelude::*;

pub fn audit(seen: &FactView) -> Judged {
    cpu_has_lse(seen)?;
    let libraries = seen.libraries()?;
    let without: Vec<&str> = libraries
        .iter()
        .filter(|l| l.inline_llsc >= 8 && l.outline_calls == 0 && l.inline_lse == 0)
        .map(|l| l.path.as_str())
        .collect();
    if without.is_empty() {
        return passed(format!("{} libraries looked at", libraries.len()));
    }
    let libc = without
        .iter()
        .any(|path| path.contains("libc.so") || path.contains("libc-"));
    Observation::new(
        medium_if(libc),
        Confidence::Low,
        format!("Exclusive loops only, although the CPU has LSE: {}.", without.join(", ")),
    )
    .advice("take them from a distribution that builds with outline atomics, or rebuild them with GCC 10.1 or later")
    .found()
}

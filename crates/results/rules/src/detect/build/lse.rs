//! The large system extensions of Armv8.1.

use crate::detect::prelude::*;

/// Whether the question of LSE arises: an Arm machine whose CPU has it.
pub fn cpu_has_lse(seen: &FactView) -> Result<(), NotJudged> {
    let machine = seen.machine()?;
    if machine != "aarch64" {
        return not_applicable(format!("{machine} has one way to do atomics"));
    }
    let features = seen.of_host("the CPU's features", |h| {
        Some(h.cpu_features.clone()).filter(|f| !f.is_empty())
    })?;
    if features.iter().any(|f| f == "atomics") {
        Ok(())
    } else {
        not_applicable("this CPU has no LSE")
    }
}

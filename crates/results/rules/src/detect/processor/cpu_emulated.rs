//! Emulated processor.

use crate::detect::prelude::*;

pub fn audit(seen: &FactView) -> Judged {
    let kind = seen.of_host("a hypervisor", |h| h.virtualisation.clone())?;
    let model = seen
        .of_host("the CPU", |h| h.cpu_model.clone())
        .unwrap_or_default();
    if !kind.contains("emulated") && !model.contains("QEMU TCG") {
        return passed(format!("virtualisation: {kind}"));
    }
    Observation::new(
        Severity::High,
        Confidence::High,
        format!("The processor is emulated ({kind})."),
    )
    .advice("do not use times from this machine; instruction counts and bytes read are valid")
    .found()
}

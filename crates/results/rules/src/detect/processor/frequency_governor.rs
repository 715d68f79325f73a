//! The frequency governor keeps the clock low.

use crate::detect::prelude::*;

pub fn audit(seen: &FactView) -> Judged {
    let Ok(governor) = seen.of_host("a governor", |h| h.cpu_governor.clone()) else {
        seen.text("uname machine")?;
        return not_applicable(
            "the kernel does not govern the CPUs' frequency here (a virtual machine, or firmware does)",
        );
    };
    let driver = seen
        .text("/sys/devices/system/cpu/cpu*/cpufreq/scaling_driver")
        .unwrap_or_default();
    // These drivers' powersave follows the load by themselves.
    let judges = ["intel_pstate", "amd-pstate-epp", "amd_pstate_epp"]
        .iter()
        .any(|d| driver.contains(d));
    let slow = governor.split(", ").any(|g| match g {
        "powersave" => !judges,
        "conservative" | "ondemand" | "userspace" => true,
        _ => false,
    });
    if !slow {
        return passed(format!("governor {governor}"));
    }
    Observation::new(
        high_if(governor.contains("powersave")),
        Confidence::Medium,
        format!("The CPUs' governor is {governor}."),
    )
    .shell("cpupower frequency-set -g performance   # or tuned-adm profile throughput-performance")
    .found()
}

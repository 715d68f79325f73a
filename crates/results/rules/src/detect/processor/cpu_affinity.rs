//! The server is bound to some of the CPUs.

use crate::detect::prelude::*;
use pgassay_evidence::host::cpus_of;

pub fn audit(seen: &FactView) -> Judged {
    let status = seen.process("status")?;
    seen.runs_by_itself()?;
    let allowed = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .map(str::trim);
    let online = seen.text("/sys/devices/system/cpu/online")?;
    let (Some(list), Some(all)) = (allowed, cpus_of(online)) else {
        return could_not_see("the CPUs that the server may run on are unavailable");
    };
    let Some(own) = cpus_of(list) else {
        return could_not_see(format!("the CPUs {list} can't be read"));
    };
    let saw = format!("the server may run on {own} of {all} CPUs ({list})");
    if own >= all {
        return passed(saw);
    }
    // A container or slice is given its CPUs; who binds single processes is seldom meant to bind a server.
    let mut sets = seen
        .texts("/sys/fs/cgroup", "cpuset.cpus.effective")?
        .chain(seen.texts("/sys/fs/cgroup", "cpuset.effective_cpus")?);
    if let Some((file, _)) = sets.find(|(_, cpus)| cpus_of(cpus) == Some(own)) {
        return passed(format!("{saw}, which its control group has ({file})"));
    }
    let isolated = seen
        .text("/sys/devices/system/cpu/isolated")
        .unwrap_or_default();
    if cpus_of(isolated).is_some_and(|isolated| own >= all.saturating_sub(isolated)) {
        return passed(format!(
            "{saw}; the kernel keeps {isolated} apart (isolcpus)"
        ));
    }
    Observation::new(
        Severity::Medium,
        Confidence::High,
        format!("By CPU affinity {saw}, and its control group would let it run on more."),
    )
    .shell(format!(
        "for pid in $(pgrep -x postgres); do taskset -cp {online} $pid; done   # now; and take CPUAffinity= out of its unit, or \
         taskset and numactl out of what starts it"
    ))
    .found()
}

//! Lazy preemption during page faults under a spinlock.

use crate::detect::prelude::*;

pub fn audit(seen: &FactView) -> Judged {
    let kernel = seen.of_host("the kernel's version", |h| h.kernel.clone())?;
    let major: u32 = kernel
        .split('.')
        .next()
        .and_then(|n| n.parse().ok())
        .unwrap_or(0);
    let mode = match seen.text("/sys/kernel/debug/sched/preempt") {
        // `none voluntary (full) lazy`
        Ok(text) => text
            .split_once('(')
            .and_then(|(_, rest)| rest.split_once(')'))
            .map(|(mode, _)| mode.to_owned()),
        Err(_) => {
            let command_line = seen.text("/proc/cmdline").unwrap_or_default();
            command_line
                .split_whitespace()
                .find_map(|word| word.strip_prefix("preempt=").map(str::to_owned))
        }
    };
    let lazy = match mode.as_deref() {
        Some(mode) => mode == "lazy",
        None => major >= 7,
    };
    if !lazy {
        return passed(format!(
            "Linux {kernel}{}",
            mode.map_or(String::new(), |m| format!(", preemption {m}"))
        ));
    }
    if let Ok("on") = seen.value("huge_pages_status") {
        return passed(format!(
            "Linux {kernel}, lazy preemption, and shared memory in huge pages"
        ));
    }
    let buffers = seen.bytes("shared_buffers")?;
    let cpus = seen.cpus()?;
    let huge = seen.process("smaps of shared memory").is_ok_and(|smaps| {
        smaps.lines().any(|l| {
            l.starts_with("KernelPageSize:")
                && !l.contains(" 4 kB")
                && !l.contains(" 64 kB")
                && !l.contains(" 16 kB")
        })
    });
    if huge {
        return passed(format!(
            "Linux {kernel}, lazy preemption, and shared memory in huge pages"
        ));
    }
    let saw = format!(
        "Linux {kernel} with lazy preemption, {cpus} CPUs, {} of shared_buffers in base pages",
        shown(buffers)
    );
    if cpus < 16 || buffers < 8 << 30 {
        return passed(format!("{saw}: too few or too little for the effect"));
    }
    Observation::new(
        high_if(cpus >= 64),
        if mode.is_some() {
            Confidence::Medium
        } else {
            Confidence::Low
        },
        format!("{saw}: first touches of buffers are preempted while they hold a spinlock."),
    )
    .shell("pgassay check --explain huge-pages")
    .found()
}

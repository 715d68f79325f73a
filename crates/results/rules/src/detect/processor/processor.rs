//! CPU time: quotas, steal, clocks, frequency, preemption.

use crate::detect::{Detector, facts, high_if, medium_if, percent, shown};
use crate::fact_view::FactView;
use crate::finding::{
    Confidence, Judged, Observation, Severity, could_not_see, not_applicable, passed,
};

pub const DETECTORS: &[Detector] = &[
    facts("cpu-quota", quota),
    facts("cpu-throttled", throttled),
    facts("cpu-steal", steal),
    facts("clock-source", clock),
    facts("timing-cost", timing),
    facts("frequency-governor", governor),
    facts("lazy-preemption", preemption),
    facts("cpu-emulated", emulated),
    facts("pressure", pressure),
];

fn quota(seen: &FactView) -> Judged {
    let cpus = seen.cpus()?;
    let Ok(quota) = seen.of_host("a quota", |h| h.cpu_quota) else {
        return not_applicable("no quota of CPU time is set");
    };
    let workers = seen.number("max_parallel_workers").unwrap_or(0).max(0) as f64;
    let gather = seen
        .number("max_parallel_workers_per_gather")
        .unwrap_or(0)
        .max(0) as f64;
    let saw = format!("A quota of {quota:.2} CPUs on a machine that shows {cpus}");
    if quota >= f64::from(cpus) {
        return passed(format!("{saw}: it is never reached"));
    }
    let whole = quota.floor().max(1.0);
    if quota < 1.0 {
        return Observation::new(
            Severity::High,
            Confidence::Medium,
            format!(
                "{saw}: no session runs without interruption; each is stopped for the rest of the period, usually 100 ms, once all together have used it up."
            ),
        )
        .advice("raise the group's quota (cpu.max; cpu.cfs_quota_us in version 1; a container's or unit's limit of CPUs), or give it whole CPUs by its cpuset instead")
        .found();
    }
    let mut finding = Observation::new(
        Severity::Medium,
        Confidence::Medium,
        format!(
            "{saw}; max_parallel_workers = {workers}, max_parallel_workers_per_gather = {gather}: once the quota is used up, every process of the server stops until the period ends."
        ),
    );
    if workers > whole {
        finding = finding.sql(format!(
            "ALTER SYSTEM SET max_parallel_workers = {whole}; SELECT pg_reload_conf();"
        ));
    }
    if gather + 1.0 > whole {
        finding = finding.sql(format!(
            "ALTER SYSTEM SET max_parallel_workers_per_gather = {}; SELECT pg_reload_conf();",
            (whole - 1.0).max(0.0)
        ));
    }
    finding
        .advice("give the group whole CPUs by its cpuset (docker --cpuset-cpus, Kubernetes' static CPU policy) instead of a quota")
        .found()
}

fn throttled(seen: &FactView) -> Judged {
    let mut worst: Option<(u64, u64)> = None;
    for (_, text) in seen.texts("/sys/fs/cgroup", "/cpu.stat")? {
        let field = |name: &str| {
            text.lines().find_map(|line| {
                let (key, value) = line.split_once(' ')?;
                (key == name).then(|| value.trim().parse::<u64>().ok())?
            })
        };
        if let (Some(periods), Some(throttled)) = (field("nr_periods"), field("nr_throttled"))
            && periods > 0
            && worst.is_none_or(|(p, t)| {
                u128::from(throttled) * u128::from(p) > u128::from(t) * u128::from(periods)
            })
        {
            worst = Some((periods, throttled));
        }
    }
    let Some((periods, throttled)) = worst else {
        return match seen.of_host("a quota", |h| h.cpu_quota) {
            Ok(_) => could_not_see("the group has a quota, and no cpu.stat that counts"),
            Err(_) => not_applicable("no quota of CPU time is set"),
        };
    };
    let share = throttled as f64 / periods as f64;
    let saw = format!(
        "{throttled} of {periods} periods were throttled ({})",
        percent(share)
    );
    if share < 0.01 || throttled < 10 {
        return passed(saw);
    }
    Observation::new(
        high_if(share > 0.1),
        Confidence::High,
        format!(
            "{saw} since the group was created: in each the server was stopped until the end of the period."
        ),
    )
    .shell(
        "systemctl set-property UNIT CPUQuota=   # or the container's --cpus, a Kubernetes limit",
    )
    .found()
}

fn steal(seen: &FactView) -> Judged {
    let line = seen.text("/proc/stat")?;
    let ticks: Vec<u64> = line
        .lines()
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .skip(1)
        .filter_map(|n| n.parse().ok())
        .collect();
    // user nice system idle iowait irq softirq steal guest guest_nice; guest is in user.
    let Some(&steal) = ticks.get(7) else {
        return could_not_see("/proc/stat has no column of stolen time");
    };
    let total: u64 = ticks.iter().take(8).sum();
    let busy = total.saturating_sub(ticks[3] + ticks[4]).max(1);
    // Stolen time can only come while there is something to run.
    let share = steal as f64 / busy as f64;
    let saw = format!("{} of the busy time since boot was stolen", percent(share));
    if share < 0.02 {
        return passed(saw);
    }
    Observation::new(
        high_if(share > 0.1),
        Confidence::Medium,
        format!("{saw} by the hypervisor."),
    )
    .advice("ask for dedicated CPUs, or move to another host; measure when it is quiet")
    .found()
}

/// Clock sources read in user space.
const FAST: &[&str] = &[
    "tsc",
    "arch_sys_counter",
    "kvm-clock",
    "timebase",
    "tod",
    "riscv_clocksource",
    "hyperv_clocksource_tsc_page",
];

fn clock(seen: &FactView) -> Judged {
    let source = seen.of_host("the clock source", |h| h.clock_source.clone())?;
    let cost: Option<f64> = seen
        .text("clock_gettime ns")
        .ok()
        .and_then(|t| t.parse().ok());
    let shown = cost.map_or(String::new(), |ns| format!(", {ns:.0} ns a reading"));
    let slow = cost.is_some_and(|ns| ns > 200.0);
    let known = FAST.contains(&source.as_str());
    match (slow, known, cost) {
        (false, true, _) | (false, false, Some(_)) => passed(format!("{source}{shown}")),
        _ => {
            let available = seen
                .text("/sys/devices/system/clocksource/clocksource0/available_clocksource")
                .unwrap_or_default();
            let better = FAST
                .iter()
                .find(|f| **f != source && available.split_whitespace().any(|a| a == **f));
            let sure = if slow {
                Confidence::High
            } else {
                Confidence::Medium
            };
            let severity = medium_if(cost.is_none_or(|ns| ns > 400.0));
            let finding = Observation::new(
                severity,
                sure,
                format!("The kernel's clock source is {source}{shown}."),
            );
            match better {
                Some(better) => finding.shell(format!(
                    "echo {better} > /sys/devices/system/clocksource/clocksource0/current_clocksource"
                )),
                None => finding.advice("the kernel's log shows why tsc was rejected; in a virtual machine ask for the hypervisor's clock"),
            }
            .shell("pg_test_timing")
            .found()
        }
    }
}

fn timing(seen: &FactView) -> Judged {
    let mut on = Vec::new();
    for name in ["track_io_timing", "track_wal_io_timing"] {
        if seen.on(name).unwrap_or(false) {
            on.push(name);
        }
    }
    // Without the settings there is no answer at all.
    seen.value("track_io_timing")?;
    if on.is_empty() {
        return passed("track_io_timing is off");
    }
    let cost: f64 = match seen.text("clock_gettime ns")?.parse() {
        Ok(cost) => cost,
        Err(_) => return could_not_see("the cost of reading the clock is no number"),
    };
    let saw = format!("{} on, {cost:.0} ns a reading of the clock", on.join(", "));
    if cost <= 150.0 {
        return passed(saw);
    }
    Observation::new(medium_if(cost > 500.0), Confidence::High, format!("{saw}."))
        .shell("pgassay check --explain clock-source")
        .sql("ALTER SYSTEM SET track_io_timing = off; SELECT pg_reload_conf();")
        .found()
}

fn governor(seen: &FactView) -> Judged {
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

fn preemption(seen: &FactView) -> Judged {
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

fn emulated(seen: &FactView) -> Judged {
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

fn pressure(seen: &FactView) -> Judged {
    let mut high = Vec::new();
    let mut said = Vec::new();
    let mut why = None;
    for (resource, limit) in [("cpu", 40.0), ("memory", 5.0), ("io", 40.0)] {
        let text = match seen.text(&format!("/proc/pressure/{resource}")) {
            Ok(text) => text,
            Err(aside) => {
                why = Some(aside);
                continue;
            }
        };
        let share = text
            .lines()
            .find(|line| line.starts_with("some"))
            .and_then(|line| {
                line.split_once("avg300=")?
                    .1
                    .split(' ')
                    .next()?
                    .parse::<f64>()
                    .ok()
            });
        if let Some(share) = share {
            said.push(format!("{resource} {share:.0} %"));
            if share > limit {
                high.push(format!("{resource} {share:.0} %"));
            }
        }
    }
    match (high.is_empty(), said.is_empty(), why) {
        (_, true, Some(aside)) => Err(aside),
        (_, true, None) => could_not_see("the kernel counts no pressure (CONFIG_PSI)"),
        (true, _, _) => passed(format!(
            "stalled in the last five minutes: {}",
            said.join(", ")
        )),
        (false, _, _) => Observation::new(
            Severity::Low,
            Confidence::High,
            format!(
                "Tasks were stalled in the last five minutes: {}.",
                high.join(", ")
            ),
        )
        .shell("cat /proc/pressure/*; top")
        .found(),
    }
}

//! How the server's processes are run: traced, niced, confined to some CPUs, with libraries put before their own.

use crate::detect::{Detector, facts, medium_if};
use crate::fact_view::FactView;
use crate::finding::{Confidence, Judged, Observation, Severity, could_not_see, passed};
use pgassay_evidence::host::cpus_of;

pub const DETECTORS: &[Detector] = &[
    facts("traced", traced),
    facts("server-niced", niced),
    facts("cpu-weight", weight),
    facts("cpu-affinity", affinity),
    facts("preloaded-library", preloaded),
];

/// A value of a fact's lines `NAME VALUE`.
fn value<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let mut lines = text.lines();
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
}

fn traced(seen: &FactView) -> Judged {
    let lines: Vec<&str> = seen.process("tracers")?.lines().collect();
    let Some(first) = lines.first() else {
        return passed("no process of the server is traced");
    };
    let words: Vec<&str> = first.split(' ').collect();
    let [_, tracer, name, user, ..] = words.as_slice() else {
        return could_not_see("who traces the server's processes can't be read");
    };
    let saw = format!(
        "{} of the server's processes are traced, by {name} (process {tracer}) of {user}: each stops at every system call or \
         signal until the tracer lets it go on.",
        lines.len()
    );
    Observation::new(Severity::High, Confidence::High, saw)
        .shell(format!(
            "ps -o user,lstart,args -p {tracer}   # look first at who traces, and whether it is still needed"
        ))
        .shell(format!(
            "kill {tracer}   # {name} lets go of them as it ends; SIGKILL is no way to end a debugger that has stopped them"
        ))
        .advice("look with perf trace or eBPF instead (bpftrace, bcc), which do not stop the process, and for a short time")
        .found()
}

/// Scheduling policies in which a process gives way to all others (sched(7)).
const GIVE_WAY: &[(&str, &str)] = &[("3", "SCHED_BATCH"), ("5", "SCHED_IDLE")];
/// A machine is busy from this share of its CPUs on.
const BUSY: f64 = 0.8;

fn niced(seen: &FactView) -> Judged {
    let text = seen.process("scheduling")?;
    seen.runs_by_itself()?;
    let number = |name: &str| value(text, name).and_then(|n| n.parse::<i32>().ok());
    let (nice, group) = (
        number("nice").unwrap_or(0),
        number("autogroup").unwrap_or(0),
    );
    // Nice values are compared within an autogroup only, and it has one of its own.
    let grouped = value(text, "autogroup").is_some()
        && seen
            .text("/proc/sys/kernel/sched_autogroup_enabled")
            .unwrap_or("0")
            == "1";
    let policy = GIVE_WAY
        .iter()
        .find(|(number, _)| value(text, "policy") == Some(*number));
    let mut said = Vec::new();
    if let Some((_, policy)) = policy {
        said.push(format!("the scheduling policy {policy}"));
    }
    if nice > 0 {
        said.push(format!("nice {nice}"));
    }
    if grouped && group > 0 {
        said.push(format!("nice {group} for its autogroup"));
    }
    if said.is_empty() {
        return passed(format!("nice {nice}, an ordinary scheduling policy"));
    }
    let busy = seen.moment().is_ok_and(|moment| moment.busy >= BUSY);
    let saw = format!(
        "The server runs with {}: on busy CPUs it gives way to every other program.",
        said.join(", ")
    );
    let mut found = Observation::new(medium_if(busy), Confidence::High, saw);
    if nice > 0 {
        found = found.shell(
            "renice -n 0 -p $(pgrep -x postgres)   # now; and without nice, or with Nice=0, in the unit or script that starts it",
        );
    }
    if policy.is_some() {
        found = found.shell("for pid in $(pgrep -x postgres); do chrt -o -p 0 $pid; done   # CPUSchedulingPolicy= of its unit");
    }
    if grouped && group > 0 {
        found = found.shell("echo 0 > /proc/$(pgrep -xo postgres)/autogroup");
    }
    found.found()
}

/// Files of a control group that say what it weighs beside its neighbours, and what is usual (cgroup-v2.rst, `cpu.weight`; sched-design-CFS.rst,
/// `cpu.shares`).
const WEIGHTS: &[(&str, f64)] = &[("cpu.weight", 100.0), ("cpu.shares", 1024.0)];
/// The part of what is usual below which a group gives way. Kubernetes gives 39 of 100 for a request of one CPU, to
/// its neighbours likewise: a fifth is what half a CPU has.
const LIGHT: f64 = 0.2;

fn weight(seen: &FactView) -> Judged {
    let mut known = Vec::new();
    for (file, usual) in WEIGHTS {
        for (path, text) in seen.texts("/sys/fs/cgroup", &format!("/{file}"))? {
            let value: f64 = match text.parse() {
                Ok(value) => value,
                Err(_) => continue,
            };
            known.push((value / usual, path, value, *file, *usual));
        }
    }
    let Some((part, path, value, file, usual)) =
        known.into_iter().min_by(|a, b| a.0.total_cmp(&b.0))
    else {
        return could_not_see("the weight of the server's control group");
    };
    let saw = format!(
        "{file} of {} is {value:.0}",
        path.trim_end_matches(file).trim_end_matches('/')
    );
    if part >= LIGHT {
        return passed(saw);
    }
    let busy = seen.moment().is_ok_and(|moment| moment.busy >= BUSY);
    Observation::new(
        if busy {
            Severity::High
        } else {
            Severity::Medium
        },
        Confidence::High,
        format!("{saw}, where {usual:.0} is usual: on busy CPUs the server gets that much less than its neighbours."),
    )
    .shell(format!(
        "systemctl set-property UNIT CPUWeight=100   # in Kubernetes requests.cpu as large as what the server needs; docker update --cpu-shares 1024 ({file})"
    ))
    .advice("keep batch jobs off this machine, or give them less weight than the server")
    .found()
}

fn affinity(seen: &FactView) -> Judged {
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

/// Allocators that are preloaded on purpose.
const ALLOCATORS: &[&str] = &["jemalloc", "tcmalloc", "mimalloc", "hoard", "snmalloc"];
/// Variables by which the C library checks or prints what it does, each at a cost for every call.
const CHECKS: &[&str] = &["LD_AUDIT", "LD_DEBUG", "MALLOC_CHECK_", "MALLOC_PERTURB_"];

/// Variables, and parts of GLIBC_TUNABLES, by which the C library's allocator goes to the kernel more often than it does by itself. A larger
/// pad or threshold does the opposite.
const TUNES: &[(&str, f64)] = &[
    ("MALLOC_MMAP_THRESHOLD_", 131_072.0),
    ("MALLOC_TRIM_THRESHOLD_", 131_072.0),
    ("MALLOC_TOP_PAD_", 131_072.0),
    ("glibc.malloc.mmap_threshold", 131_072.0),
    ("glibc.malloc.trim_threshold", 131_072.0),
    ("glibc.malloc.top_pad", 131_072.0),
];

/// What of these is set to less than the allocator's own value.
fn tuned(variables: &[(&str, &str)]) -> Vec<String> {
    let tunables = variables
        .iter()
        .filter(|(name, _)| *name == "GLIBC_TUNABLES")
        .flat_map(|(_, value)| value.split(':'))
        .filter_map(|one| one.split_once('='));
    let all = variables.iter().copied().chain(tunables);
    let less = all.filter(|(name, value)| {
        let Ok(number) = value.trim().parse::<f64>() else {
            return false;
        };
        let mut known = TUNES.iter().filter(|(known, _)| known == name);
        known.any(|(_, usual)| number < *usual)
    });
    less.map(|(name, value)| format!("{name}={value}"))
        .collect()
}

fn preloaded(seen: &FactView) -> Judged {
    let environment = seen.process("environment")?;
    let variables: Vec<(&str, &str)> = environment
        .lines()
        .filter_map(|line| line.split_once('='))
        .filter(|(_, value)| !value.is_empty())
        .collect();
    let checks: Vec<String> = variables
        .iter()
        .filter(|(name, value)| {
            CHECKS.contains(name) || *name == "GLIBC_TUNABLES" && value.contains("malloc.check")
        })
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let tuned = tuned(&variables);
    if !tuned.is_empty() {
        return Observation::new(
            Severity::High,
            Confidence::High,
            format!(
                "The server's processes are started with {}: the C library takes memory from the kernel, and gives it back, at nearly each larger \
                 allocation, and each page of it is cleared anew.",
                tuned.join(", ")
            ),
        )
        .advice(
            "take these variables out of the environment that the server is started in (its unit, or the file `environment` of Debian's clusters), and \
             restart it",
        )
        .found();
    }
    // Where the file is missing nothing is preloaded by it.
    let by_file = seen.text("/etc/ld.so.preload").unwrap_or_default();
    let by_variable = variables.iter().filter(|(name, _)| *name == "LD_PRELOAD");
    let libraries: Vec<&str> = by_variable
        .flat_map(|(_, value)| value.split([':', ' ']))
        .chain(
            by_file
                .lines()
                .filter(|line| !line.starts_with('#'))
                .flat_map(str::split_whitespace),
        )
        .filter(|library| !library.is_empty())
        .collect();
    let foreign: Vec<&str> = libraries
        .iter()
        .copied()
        .filter(|library| !ALLOCATORS.iter().any(|known| library.contains(known)))
        .collect();
    if checks.is_empty() && foreign.is_empty() {
        return passed(match libraries.as_slice() {
            [] => "no library is preloaded into the server, and the C library checks nothing"
                .to_owned(),
            some => format!("preloaded: {}, an allocator", some.join(", ")),
        });
    }
    let mut said = Vec::new();
    if !foreign.is_empty() {
        said.push(format!(
            "libraries are put before the server's own: {}",
            foreign.join(", ")
        ));
    }
    if !checks.is_empty() {
        said.push(format!(
            "the C library is told to check or print what it does: {}",
            checks.join(", ")
        ));
    }
    let mut found = Observation::new(
        medium_if(!checks.is_empty()),
        if checks.is_empty() {
            Confidence::Low
        } else {
            Confidence::High
        },
        format!("In the server's processes {}.", said.join("; ")),
    );
    if !checks.is_empty() {
        found = found.advice("take these variables out of the environment that the server is started in (its unit, or the \
                              file `environment` of Debian's clusters), and restart it");
    }
    if !foreign.is_empty() {
        found = found.advice(
            "find out what needs them; how much of the CPU time is theirs, CPU samples say (pgassay diagnose, by program and \
             library)",
        );
    }
    found.found()
}

//! The doctor's look at the machine: what the kernel allows, which tools are there, and whether
//! it is quiet.

use std::fs;
use std::io;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit};

use super::finding::{Finding, State};
use pgassay_server::huge_pages;
use pgassay_server::packages::{self, Part};
use pgassay_server::settings::default_shared_buffers;
use pgassay_sys::gather::Gathered;
use pgassay_sys::perf::{Event, Options, Rate, Ring, Whose, paranoid};
use pgassay_sys::programs::in_path;
use pgassay_sys::streams::Streams;
use pgassay_sys::tracing;

/// All of them. Takes a second, in which it is seen how busy the machine is.
pub fn findings() -> Vec<Finding> {
    vec![
        perf(),
        io_uring(),
        huge_pages(),
        ptrace(),
        valgrind(),
        qemu(),
        limits(),
        quiet(),
    ]
}

fn read(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

const CONTAINER: &str = "in a container: start it with --cap-add PERFMON, and with a seccomp \
                         profile that allows perf_event_open";

fn perf() -> Finding {
    let options = Options {
        event: Event::CPU_CLOCK,
        rate: Rate::Hz(99),
        stack_bytes: 0,
        kernel: true,
        pages: 8,
    };
    let open = |whose| Ring::open(0, whose, options).map(drop);
    let own = Whose::Process(std::process::id());
    perf_by(
        open(Whose::Everybody),
        open(own),
        paranoid(),
        rustix::process::geteuid().is_root(),
    )
}

fn perf_by(
    everybody: io::Result<()>,
    own: io::Result<()>,
    paranoid: Option<i32>,
    root: bool,
) -> Finding {
    const ID: &str = "perf";
    let refusal = match (everybody, own) {
        (Ok(()), _) => return Finding::ok(ID, "CPU samples of all processes and the kernel"),
        // Ours, not the kernel's: a kernel without perf events refuses the program perf, too.
        (Err(refusal), Err(_))
            if refusal.kind() == io::ErrorKind::Unsupported && refusal.raw_os_error().is_none() =>
        {
            return match in_path("perf") {
                Some(program) => Finding::ok(ID, format!("by {}", program.display())),
                None => Finding::lacking(
                    ID,
                    State::Limited,
                    "this build takes CPU samples by the program perf, which is not here",
                    "--observe perf, and the causes that only CPU samples show",
                ),
            };
        }
        (Err(_), Ok(())) => {
            return Finding::ok(ID, "CPU samples of launched servers");
        }
        (Err(refusal), Err(_)) => refusal,
    };
    let level = paranoid.map_or_else(
        || "kernel.perf_event_paranoid can't be read".to_owned(),
        |level| format!("kernel.perf_event_paranoid is {level}"),
    );
    let finding = Finding::lacking(
        ID,
        State::Limited,
        format!("no CPU samples: {refusal}; {level}"),
        "--observe perf, and the causes that only CPU samples show",
    )
    .advised(CONTAINER);
    match paranoid {
        // Root is refused by something else.
        Some(level) if level > 1 && !root => {
            finding.fixed_by("sysctl -w kernel.perf_event_paranoid=1")
        }
        _ => finding,
    }
}

fn io_uring() -> Finding {
    io_uring_by(
        Gathered::new().map(drop),
        Streams::new().map(drop),
        read("/proc/sys/kernel/io_uring_disabled").as_deref(),
    )
}

/// By whether the ring that sends and the one that receives could be made.
fn io_uring_by(sends: io::Result<()>, receives: io::Result<()>, disabled: Option<&str>) -> Finding {
    const ID: &str = "io_uring";
    const USE: &str = "the clients use more CPU time per transaction";
    match (sends, receives, disabled) {
        (Ok(()), Ok(()), _) => Finding::ok(ID, "available for sending and receiving"),
        (Ok(()), Err(error), _) => {
            let state = format!("for sending only; receiving: {error}");
            Finding::lacking(ID, State::Limited, state, USE)
                .advised("kernels before 6.1 lack what receiving by a ring needs")
        }
        (Err(error), _, disabled) => {
            let state = format!("not available: {error}");
            let finding = Finding::lacking(ID, State::Limited, state, USE);
            match disabled {
                Some("1" | "2") => finding.fixed_by("sysctl -w kernel.io_uring_disabled=0"),
                _ => finding.advised(
                    "kernels before 5.6 lack it, and containers often forbid it by seccomp",
                ),
            }
        }
    }
}

fn huge_pages() -> Finding {
    let meminfo = read("/proc/meminfo").unwrap_or_default();
    huge_pages_by(&meminfo, rustix::process::geteuid().is_root())
}

/// A number of /proc/meminfo.
fn of_meminfo(meminfo: &str, key: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

fn huge_pages_by(meminfo: &str, root: bool) -> Finding {
    const ID: &str = "huge_pages";
    const USE: &str = "servers with huge_pages=on";
    let (Some(free), Some(page_kb), Some(memory_kb)) = (
        of_meminfo(meminfo, "HugePages_Free:"),
        of_meminfo(meminfo, "Hugepagesize:"),
        of_meminfo(meminfo, "MemTotal:"),
    ) else {
        let (state, why) = match meminfo.is_empty() {
            true => (State::Unknown, "/proc/meminfo can't be read"),
            false => (State::Optional, "this kernel has none"),
        };
        return Finding::lacking(ID, state, why, USE);
    };
    let needed = huge_pages::estimated_pages(default_shared_buffers(memory_kb * 1024), page_kb);
    if free >= needed {
        return Finding::ok(ID, format!("{free} of {page_kb} kB are free"));
    }
    if root {
        return Finding::ok(
            ID,
            format!(
                "{free} of {page_kb} kB are free; --set huge_pages=on reserves more for its server"
            ),
        );
    }
    Finding::lacking(
        ID,
        State::Optional,
        format!("{free} of {page_kb} kB are free, a launched server takes {needed}"),
        USE,
    )
    .fixed_by(format!("sysctl -w vm.nr_hugepages={needed}"))
}

fn ptrace() -> Finding {
    ptrace_by(
        tracing::try_child(),
        read("/proc/sys/kernel/yama/ptrace_scope").as_deref(),
    )
}

fn ptrace_by(child: io::Result<()>, scope: Option<&str>) -> Finding {
    const ID: &str = "ptrace";
    const USE: &str = "lines and walls, which step a session of the server";
    match (child, scope) {
        (Ok(()), None | Some("0")) => Finding::ok(ID, "allowed"),
        (Ok(()), Some(scope)) => Finding::ok(
            ID,
            format!("allowed for children (kernel.yama.ptrace_scope is {scope})"),
        ),
        (Err(error), scope) => {
            let finding =
                Finding::lacking(ID, State::Optional, format!("not allowed: {error}"), USE);
            match scope {
                // 3 stays until the next boot.
                Some("3") => finding.advised("kernel.yama.ptrace_scope is 3: boot with another"),
                _ => finding.advised("in a container: start it with --cap-add SYS_PTRACE"),
            }
        }
    }
}

fn valgrind() -> Finding {
    tool(
        "valgrind",
        &["valgrind"],
        "compare --by instructions",
        Part::Valgrind,
    )
}

fn qemu() -> Finding {
    const EMULATORS: &[&str] = match cfg!(target_arch = "aarch64") {
        true => &["qemu-x86_64", "qemu-x86_64-static"],
        false => &["qemu-aarch64", "qemu-aarch64-static"],
    };
    tool(
        "qemu",
        EMULATORS,
        "trying builds for other processors; no figure comes from emulation",
        Part::QemuUser,
    )
}

fn tool(id: &'static str, programs: &[&str], affects: &str, part: Part<'_>) -> Finding {
    match programs.iter().find_map(|program| in_path(program)) {
        Some(path) => Finding::ok(id, path.display().to_string()),
        None => Finding::lacking(id, State::Optional, "not installed", affects)
            .fixed_by(packages::how(part)),
    }
}

fn limits() -> Finding {
    limits_by(
        getrlimit(Resource::Nofile),
        getrlimit(Resource::Nproc),
        rustix::process::geteuid().is_root(),
    )
}

/// Open files and processes that a sweep to a thousand clients takes.
const FILES: u64 = 2048;
const PROCESSES: u64 = 1200;

fn limits_by(files: Rlimit, processes: Rlimit, root: bool) -> Finding {
    const ID: &str = "limits";
    let shown = |limit: Option<u64>| limit.map_or_else(|| "any".to_owned(), |n| n.to_string());
    let found = format!(
        "open files {} (at most {}), processes {}",
        shown(files.current),
        shown(files.maximum),
        shown(processes.current)
    );
    let few = |limit: Option<u64>, needed: u64| limit.is_some_and(|limit| limit < needed);
    // The kernel does not count root's processes.
    if few(files.maximum, FILES) || (!root && few(processes.current, PROCESSES)) {
        return Finding::lacking(ID, State::Limited, found, "sweeps to many hundred clients")
            .advised("ulimit -n 4096; ulimit -u 4096, or nofile and nproc in limits.conf");
    }
    Finding::ok(ID, found)
}

/// CPU time of all processors by /proc/stat, in ticks: all, and that without work.
fn ticks(stat: &str) -> Option<(u64, u64)> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let fields: Vec<u64> = line
        .split_ascii_whitespace()
        .map_while(|field| field.parse().ok())
        .collect();
    // The guests' time, after the eighth field, is part of the users'.
    let all = fields.iter().take(8).sum();
    Some((all, fields.get(3)? + fields.get(4)?))
}

fn quiet() -> Finding {
    const STAT: &str = "/proc/stat";
    let before = read(STAT);
    thread::sleep(Duration::from_secs(1));
    let governor = read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    quiet_by(
        before.as_deref().and_then(ticks),
        read(STAT).as_deref().and_then(ticks),
        governor.as_deref(),
    )
}

/// The share of CPU time above which a machine is not quiet.
const BUSY: f64 = 0.05;

fn quiet_by(
    before: Option<(u64, u64)>,
    after: Option<(u64, u64)>,
    governor: Option<&str>,
) -> Finding {
    const ID: &str = "quiet";
    const SPREAD: &str = "figures spread more, and differences take longer to show";
    let (Some(before), Some(after)) = (before, after) else {
        return Finding::lacking(ID, State::Unknown, "/proc/stat can't be read", SPREAD);
    };
    let all = after.0.saturating_sub(before.0).max(1) as f64;
    let busy = (1.0 - after.1.saturating_sub(before.1) as f64 / all).clamp(0.0, 1.0);
    let found = format!(
        "{:.0} % of the CPU time of one second was in use",
        100.0 * busy
    );
    if busy > BUSY {
        return Finding::lacking(ID, State::Limited, found, SPREAD)
            .advised("stop other programs; top names them");
    }
    match governor {
        Some(slow) if slow != "performance" => Finding::lacking(
            ID,
            State::Limited,
            format!("{found}; the frequency governor is {slow}"),
            SPREAD,
        )
        .fixed_by(
            "for f in /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor; do echo performance \
             > $f; done",
        ),
        _ => Finding::ok(ID, found),
    }
}

/// The kernel's own files, without which most of the above is blind.
pub fn proc_mounted() -> Option<Finding> {
    (!Path::new("/proc/self/stat").exists()).then(|| {
        Finding::lacking(
            "proc",
            State::Limited,
            "/proc is not mounted",
            "the server's processes and their CPU time, the machine's facts, and this audit",
        )
        .fixed_by("mount -t proc proc /proc")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused() -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    #[test]
    fn perf_names_the_setting_only_if_it_is_the_cause() {
        let finding = perf_by(refused(), refused(), Some(3), false);
        assert_eq!(finding.state, State::Limited);
        assert_eq!(
            finding.fix.as_deref(),
            Some("sysctl -w kernel.perf_event_paranoid=1")
        );
        let finding = perf_by(refused(), refused(), Some(3), true);
        assert!(finding.fix.is_none() && finding.advice.unwrap().contains("seccomp"));
        assert_eq!(perf_by(refused(), Ok(()), Some(1), false).state, State::Ok);
        assert_eq!(perf_by(Ok(()), refused(), None, true).state, State::Ok);
        // ENOSYS: a program perf that happens to be installed is refused in the same way.
        let without = || Err(io::Error::from_raw_os_error(38));
        let finding = perf_by(without(), without(), None, true);
        assert_eq!(finding.state, State::Limited);
        assert!(
            finding.found.contains("not implemented"),
            "{}",
            finding.found
        );
    }

    #[test]
    fn io_uring_is_switched_on_where_it_was_switched_off() {
        assert_eq!(io_uring_by(Ok(()), Ok(()), Some("2")).state, State::Ok);
        let off = io_uring_by(refused(), refused(), Some("2"));
        assert_eq!(
            off.fix.as_deref(),
            Some("sysctl -w kernel.io_uring_disabled=0")
        );
        assert!(io_uring_by(refused(), refused(), None).fix.is_none());
    }

    #[test]
    fn a_kernel_that_only_sends_by_a_ring_is_told() {
        let sends = io_uring_by(Ok(()), refused(), None);
        assert_eq!(sends.state, State::Limited);
        assert!(
            sends.found.starts_with("for sending only"),
            "{}",
            sends.found
        );
        assert!(sends.advice.is_some_and(|advice| advice.contains("6.1")));
    }

    #[test]
    fn huge_pages_are_counted_for_the_server_that_would_be_launched() {
        let meminfo = "MemTotal:  4194304 kB\nHugePages_Free:    10\nHugepagesize:    2048 kB\n";
        let finding = huge_pages_by(meminfo, false);
        // 1 GiB of shared buffers, a tenth more, in pages of 2 MiB.
        assert_eq!(
            finding.fix.as_deref(),
            Some("sysctl -w vm.nr_hugepages=566")
        );
        assert_eq!(huge_pages_by(meminfo, true).state, State::Ok);
        assert_eq!(huge_pages_by("", true).state, State::Unknown);
        let enough = meminfo.replace("    10", "   600");
        assert_eq!(huge_pages_by(&enough, false).state, State::Ok);
        assert_eq!(
            huge_pages_by("MemTotal: 1 kB\n", false).state,
            State::Optional
        );
    }

    #[test]
    fn few_files_or_processes_are_limits() {
        let limit = |current, maximum| Rlimit { current, maximum };
        let any = limit(None, None);
        assert_eq!(limits_by(any, any, false).state, State::Ok);
        // The soft limit is raised to the hard one by pgassay itself.
        let soft = limit(Some(1024), Some(4096));
        assert_eq!(limits_by(soft, any, false).state, State::Ok);
        let hard = limit(Some(1024), Some(1024));
        assert_eq!(limits_by(hard, any, true).state, State::Limited);
        let processes = limit(Some(100), Some(100));
        assert_eq!(limits_by(any, processes, false).state, State::Limited);
        assert_eq!(limits_by(any, processes, true).state, State::Ok);
    }

    #[test]
    fn a_busy_machine_and_a_slow_governor_are_said() {
        let stat = "cpu  100 0 50 800 50 0 0 0 7 0\ncpu0 1 2 3 4\n";
        assert_eq!(ticks(stat), Some((1000, 850)));
        assert_eq!(ticks("no such file"), None);
        let second = Some((1200, 950));
        let busy = quiet_by(ticks(stat), second, Some("performance"));
        assert_eq!(busy.state, State::Limited);
        assert!(busy.found.starts_with("50 %"), "{}", busy.found);
        let idle = Some((1200, 1049));
        assert_eq!(quiet_by(ticks(stat), idle, None).state, State::Ok);
        let slow = quiet_by(ticks(stat), idle, Some("powersave"));
        assert!(slow.found.contains("powersave") && slow.fix.is_some());
        assert_eq!(quiet_by(None, idle, None).state, State::Unknown);
    }
}

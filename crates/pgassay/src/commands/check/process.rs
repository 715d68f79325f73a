//! What /proc tells of the server's processes.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};
use std::{fs, thread};

use pgassay_model::facts;
use pgassay_model::reading::Reading;
use pgassay_observe::status_field as field;
use pgassay_sys::trust::user_name;

/// Mappings smaller than this are not the server's main shared memory.
const SHARED_AT_LEAST_KB: u64 = 1024;

/// Reads what detectors look at; what cannot be read says why. Processes may vanish
/// while they are read: those are left out.
pub fn read(postmaster: u32, processes: &[u32]) -> BTreeMap<String, Reading> {
    let mut facts = BTreeMap::new();
    let mut put = |name: &str, reading| facts.insert(name.to_owned(), reading);
    put("status", file(&format!("/proc/{postmaster}/status")));
    put("limits", file(&format!("/proc/{postmaster}/limits")));
    put("cgroup", file(&format!("/proc/{postmaster}/cgroup")));
    put(
        "executable",
        match fs::read_link(format!("/proc/{postmaster}/exe")) {
            Ok(path) => Reading::Text(path.display().to_string()),
            Err(e) => Reading::Unavailable(format!("/proc/{postmaster}/exe: {e}")),
        },
    );
    put(
        "smaps of shared memory",
        match file(&format!("/proc/{postmaster}/smaps")) {
            Reading::Text(text) => match shared_entries(&text) {
                entries if entries.is_empty() => {
                    Reading::Unavailable("the server has no large shared mapping".into())
                }
                entries => Reading::Text(entries),
            },
            unavailable => unavailable,
        },
    );
    put(
        "numa_maps of shared memory",
        match file(&format!("/proc/{postmaster}/numa_maps")) {
            Reading::Text(text) => Reading::Text(shared_lines(&text)),
            unavailable => unavailable,
        },
    );
    put("tracers", tracers(processes));
    put("scheduling", scheduling(postmaster));
    put("environment", environment(postmaster));
    for field in ["VmPTE", "VmSwap"] {
        put(
            &format!("{field} of the processes"),
            of_each(processes, field),
        );
    }
    facts
}

/// Who traces the server's processes by ptrace(2): a line `PID TRACER NAME USER` each, none where nobody does.
fn tracers(processes: &[u32]) -> Reading {
    let mut text = String::new();
    let mut failure = None;
    let mut seen = false;
    for pid in processes {
        match fs::read_to_string(format!("/proc/{pid}/status")) {
            Ok(status) => {
                seen = true;
                let tracer = field(&status, "TracerPid").and_then(|pid| pid.parse::<u32>().ok());
                if let Some(tracer) = tracer.filter(|tracer| *tracer != 0) {
                    let (name, user) = who(tracer);
                    let _ = writeln!(text, "{pid} {tracer} {name} {user}");
                }
            }
            Err(e) => failure = Some(format!("/proc/{pid}/status: {e}")),
        }
    }
    match (seen, failure) {
        (false, Some(why)) => Reading::Unavailable(why),
        (false, None) => Reading::Unavailable("the server has no process".into()),
        (true, _) => Reading::Text(text),
    }
}

/// A process' name and its user's, `?` where it has gone.
fn who(pid: u32) -> (String, String) {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let name = field(&status, "Name").unwrap_or("?").to_owned();
    let uid = field(&status, "Uid").and_then(|ids| ids.split_whitespace().next()?.parse().ok());
    let user = uid.map(|uid| user_name(uid).unwrap_or_else(|| format!("uid {uid}")));
    (name, user.unwrap_or_else(|| "?".to_owned()))
}

/// How the kernel schedules the server's first process, and so all others: lines `nice N`, `policy N` (proc_pid_stat(5),
/// sched(7)), and `autogroup N` where there is one with a nice value of its own.
fn scheduling(postmaster: u32) -> Reading {
    let stat = match fs::read_to_string(format!("/proc/{postmaster}/stat")) {
        Ok(stat) => stat,
        Err(e) => return Reading::Unavailable(format!("/proc/{postmaster}/stat: {e}")),
    };
    // The name may hold anything, blanks and brackets too; the fields after it are counted from the third on.
    let fields: Vec<&str> = stat
        .rsplit_once(')')
        .map_or("", |(_, rest)| rest)
        .split_whitespace()
        .collect();
    let (Some(nice), Some(policy)) = (fields.get(19 - 3), fields.get(41 - 3)) else {
        return Reading::Unavailable(format!("/proc/{postmaster}/stat has too few fields"));
    };
    let mut text = format!("nice {nice}\npolicy {policy}\n");
    // `/autogroup-42 nice 0`
    let group = fs::read_to_string(format!("/proc/{postmaster}/autogroup")).unwrap_or_default();
    if let Some((_, nice)) = group.trim().rsplit_once(" nice ") {
        let _ = writeln!(text, "autogroup {nice}");
    }
    Reading::Text(text)
}

/// Variables of the environment that change how libraries and memory work; others may be secrets.
const VARIABLES: &[&str] = &[
    "LD_PRELOAD",
    "LD_AUDIT",
    "LD_DEBUG",
    "LD_BIND_NOW",
    "GLIBC_TUNABLES",
    "MALLOC_ARENA_MAX",
    "MALLOC_CHECK_",
    "MALLOC_MMAP_THRESHOLD_",
    "MALLOC_PERTURB_",
    "MALLOC_TOP_PAD_",
    "MALLOC_TRIM_THRESHOLD_",
];

/// What of them the server was started with, `NAME=VALUE` a line (proc_pid_environ(5)).
fn environment(postmaster: u32) -> Reading {
    match fs::read(format!("/proc/{postmaster}/environ")) {
        Ok(bytes) => Reading::Text(variables(&bytes)),
        Err(e) => Reading::Unavailable(format!("/proc/{postmaster}/environ: {e}")),
    }
}

fn variables(environ: &[u8]) -> String {
    let text = String::from_utf8_lossy(environ);
    let kept = text.split('\0').filter(|pair| {
        let name = pair.split('=').next().unwrap_or_default();
        VARIABLES.contains(&name)
    });
    kept.map(|pair| pair.replace('\n', " "))
        .collect::<Vec<_>>()
        .join("\n")
}

/// How long the CPUs of a running server are looked at.
const MOMENT: Duration = Duration::from_secs(1);

/// What the CPUs did for about a second: the accounts of the machine and of the server's
/// processes before it and after it. It waits for that second.
pub fn over_a_moment(postmaster: u32) -> BTreeMap<String, Reading> {
    let begun = Instant::now();
    let ended = pgassay_observe::ended_ticks(postmaster);
    let (machine, processes) = pgassay_observe::cpu_accounts(postmaster);
    let log = pgassay_observe::log_bytes(postmaster);
    thread::sleep(MOMENT);
    let log_later = pgassay_observe::log_bytes(postmaster);
    let (machine_later, processes_later) = pgassay_observe::cpu_accounts(postmaster);
    let ended_later = pgassay_observe::ended_ticks(postmaster);
    let elapsed = begun.elapsed().as_nanos().to_string();
    let named = |name: &str, reading| (name.to_owned(), reading);
    BTreeMap::from([
        named(facts::MACHINE_AT_FIRST, machine),
        named(facts::MACHINE_LATER, machine_later),
        named(facts::PROCESSES_AT_FIRST, processes),
        named(facts::PROCESSES_LATER, processes_later),
        named(facts::ENDED_AT_FIRST, ended),
        named(facts::ENDED_LATER, ended_later),
        named(facts::LOG_AT_FIRST, log),
        named(facts::LOG_LATER, log_later),
        named(facts::NANOSECONDS_BETWEEN, Reading::Text(elapsed)),
    ])
}

fn file(path: &str) -> Reading {
    match fs::read(path) {
        Ok(bytes) => Reading::Text(String::from_utf8_lossy(&bytes).into_owned()),
        Err(e) => Reading::Unavailable(format!("{path}: {e}")),
    }
}

/// The entries of /proc/PID/smaps (proc(5)) that are shared and large.
fn shared_entries(smaps: &str) -> String {
    let mut kept = String::new();
    let mut entry: Vec<&str> = Vec::new();
    let mut flush = |entry: &mut Vec<&str>| {
        let size = entry
            .iter()
            .find_map(|l| l.strip_prefix("Size:")?.split_whitespace().next())
            .and_then(|n| n.parse::<u64>().ok())
            .unwrap_or(0);
        let shared = entry
            .first()
            .and_then(|head| head.split(' ').nth(1))
            .is_some_and(|permissions| permissions.contains('s'));
        if shared && size >= SHARED_AT_LEAST_KB {
            for line in entry.iter() {
                let _ = writeln!(kept, "{line}");
            }
        }
        entry.clear();
    };
    for line in smaps.lines() {
        // A head is `start-end perms offset dev inode path`; all else is `Name: value`.
        let is_head = line
            .split(' ')
            .next()
            .is_some_and(|w| w.contains('-') && !w.ends_with(':'));
        if is_head {
            flush(&mut entry);
        }
        entry.push(line);
    }
    flush(&mut entry);
    kept
}

/// The lines of /proc/PID/numa_maps (Documentation/filesystems/proc.rst) of mappings
/// that PostgreSQL's main shared memory can be.
fn shared_lines(numa_maps: &str) -> String {
    let lines: Vec<&str> = numa_maps
        .lines()
        .filter(|line| {
            line.contains("/dev/zero") || line.contains("/anon_hugepage") || line.contains("/SYSV")
        })
        .collect();
    lines.join("\n")
}

/// `PID kB` for each process that has the field in its status.
fn of_each(processes: &[u32], field: &str) -> Reading {
    let mut text = String::new();
    let mut failure = "the server has no process".to_owned();
    for pid in processes {
        match fs::read_to_string(format!("/proc/{pid}/status")) {
            Ok(status) => {
                let kilobytes = status.lines().find_map(|line| {
                    let value = line.strip_prefix(field)?.strip_prefix(':')?;
                    value.split_whitespace().next()
                });
                if let Some(kilobytes) = kilobytes {
                    let _ = writeln!(text, "{pid} {kilobytes}");
                }
            }
            Err(e) => failure = format!("/proc/{pid}/status: {e}"),
        }
    }
    if text.is_empty() {
        Reading::Unavailable(failure)
    } else {
        Reading::Text(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shared_mapping_is_found_and_the_others_are_not() {
        let smaps = "\
55d0c0000000-55d0c0600000 r-xp 00010000 fe:00 42    /usr/lib/postgresql/15/bin/postgres
Size:               6080 kB
KernelPageSize:        4 kB
7f0000000000-7f0009000000 rw-s 00000000 00:01 7     /dev/zero (deleted)
Size:             147456 kB
KernelPageSize:        4 kB
VmFlags: rd wr sh mr mw me ms sd
7f0010000000-7f0010001000 rw-s 00000000 00:01 8     /dev/shm/PostgreSQL.1
Size:                  4 kB
";
        let kept = shared_entries(smaps);
        assert!(kept.starts_with("7f0000000000-"), "{kept}");
        assert_eq!(kept.lines().count(), 4);
        assert_eq!(shared_entries(""), "");
    }

    #[test]
    fn of_the_environment_only_what_changes_libraries_and_memory_is_kept() {
        let environ =
            b"PATH=/bin\0PGPASSWORD=secret\0LD_PRELOAD=/x/libjemalloc.so\0MALLOC_CHECK_=3\0";
        assert_eq!(
            variables(environ),
            "LD_PRELOAD=/x/libjemalloc.so\nMALLOC_CHECK_=3"
        );
        assert_eq!(variables(b""), "");
    }

    #[test]
    fn this_process_is_scheduled_and_traced_as_the_kernel_says() {
        let own = std::process::id();
        let scheduling = scheduling(own);
        let text = scheduling.text().unwrap();
        assert!(
            text.starts_with("nice ") && text.contains("\npolicy "),
            "{text}"
        );
        let (name, user) = who(own);
        assert!(name != "?" && user != "?", "{name} {user}");
        assert!(tracers(&[own]).text().is_some());
        assert!(tracers(&[u32::MAX]).text().is_none());
    }

    #[test]
    fn a_vanished_process_is_left_out() {
        let own = std::process::id();
        let facts = read(own, &[own, u32::MAX]);
        let pte = facts["VmPTE of the processes"].text().unwrap();
        assert_eq!(pte.lines().count(), 1, "{pte}");
        let none = read(u32::MAX, &[u32::MAX]);
        assert!(
            none.values().all(|r| r.text().is_none()),
            "a process that is not there has no facts: {none:?}"
        );
    }
}

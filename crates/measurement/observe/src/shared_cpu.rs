//! Whether the server's sessions run on the CPUs of the load threads.
//!
//! A client and its session wake each other for every statement. On one CPU they take turns; on two each wakes
//! an idle CPU. The same server then has two levels of throughput, and the scheduler chooses between them.

use std::collections::HashMap;
use std::fs;

use pgassay_model::observed::waits::SharedCpu;
use pgassay_text::own::LOAD_THREAD;

use super::server;

/// With more processes nothing is read: the CPUs are full, and placement no longer varies.
const MOST: usize = 64;

/// Compares the CPU on which each of the server's processes last ran with those of the load threads.
#[derive(Default)]
pub struct SharedCpuSampler {
    /// The load threads of this process, found at the first sample of a window.
    threads: Vec<String>,
    /// The schedstat of each process at the previous sample: a process whose schedstat is unchanged did not run.
    before: HashMap<u32, String>,
}

impl SharedCpuSampler {
    /// Begins a window. Each window has new load threads.
    pub fn begin(&mut self) {
        *self = Self::default();
    }

    /// Counts the processes that ran since the previous sample, except those that observe. None at the first sample,
    /// without load threads in this process, and where the server has more than [`MOST`] processes.
    pub fn sample(&mut self, postmaster: u32, observes: impl Fn(u32) -> bool) -> Option<SharedCpu> {
        if self.threads.is_empty() {
            self.threads = load_threads();
        }
        let processes = server::processes(postmaster);
        if self.threads.is_empty() || processes.len() > MOST {
            return None;
        }
        let load: Vec<u32> = self.threads.iter().filter_map(|t| last_cpu(t)).collect();
        let first = self.before.is_empty();
        let mut seen = SharedCpu::default();
        for pid in processes.into_iter().filter(|pid| !observes(*pid)) {
            let Ok(now) = fs::read_to_string(format!("/proc/{pid}/schedstat")) else {
                continue;
            };
            let ran = self.before.get(&pid).is_some_and(|before| *before != now);
            self.before.insert(pid, now);
            if ran && let Some(cpu) = last_cpu(&format!("/proc/{pid}")) {
                seen.ran += 1;
                seen.shared += u32::from(load.contains(&cpu));
            }
        }
        (!first).then_some(seen)
    }
}

/// The load threads of this process, as directories in /proc.
fn load_threads() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten();
    let of_load = |task: &String| {
        fs::read_to_string(format!("{task}/comm")).is_ok_and(|name| name.trim_end() == LOAD_THREAD)
    };
    tasks
        .flatten()
        .map(|task| task.path().to_string_lossy().into_owned())
        .filter(of_load)
        .collect()
}

/// The CPU on which a task last ran: `processor` of proc(5)'s stat.
fn last_cpu(task: &str) -> Option<u32> {
    let stat = fs::read_to_string(format!("{task}/stat")).ok()?;
    // The name, in parentheses, may hold blanks; the state behind it is field 3, the CPU field 39.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_ascii_whitespace().nth(36)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use pgassay_sys::affinity::pin_command;

    use super::*;

    #[test]
    fn a_task_is_seen_on_the_cpu_that_it_is_bound_to() {
        let allowed = pgassay_sys::affinity::allowed_cpus().unwrap();
        let cpu = *allowed.last().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "while :; do :; done"]);
        pin_command(&mut command, &[cpu]).unwrap();
        let mut child = command.spawn().unwrap();
        let task = format!("/proc/{}", child.id());
        let seen = last_cpu(&task);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(seen, u32::try_from(cpu).ok());
        assert_eq!(last_cpu("/proc/0"), None);
    }
}

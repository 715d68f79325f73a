//! Whether the server's sessions run on the CPUs of the threads that give the load.
//!
//! A client and its session wake each other for every statement. On one CPU they take turns, on two each must be woken
//! from idle: the same server has two throughputs, and only the scheduler chooses between them.

use std::collections::HashMap;
use std::fs;

use pgassay_model::observed::waits::SharedCpu;
use pgassay_text::own::LOAD_THREAD;

use super::server;

/// Beyond this number of processes nothing is read: with as many the scheduler has no choice left.
const MOST: usize = 64;

/// The CPU on which each of the server's processes last ran, held against those of the load threads.
#[derive(Default)]
pub struct Looks {
    /// The load threads of this process; looked for at the first look of a window.
    threads: Vec<String>,
    /// The schedstat of each process at the look before: one that is the same did not run.
    before: HashMap<u32, String>,
}

impl Looks {
    /// A window begins: load threads are started anew for each.
    pub fn begin(&mut self) {
        *self = Self::default();
    }

    /// What ran since the look before, and where. None at the first look, without load threads in this process, and
    /// where the server has many processes. `except` are backends that observe.
    pub fn look(&mut self, postmaster: u32, except: impl Fn(u32) -> bool) -> Option<SharedCpu> {
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
        for pid in processes.into_iter().filter(|pid| !except(*pid)) {
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

/// The directories of this process' load threads in /proc.
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

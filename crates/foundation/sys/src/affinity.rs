//! Which CPUs a thread may run on.

use std::io;
use std::marker::PhantomData;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The CPUs that the calling thread may run on, ascending.
///
/// This is what a container or `taskset` left us, and can be fewer than the
/// machine has. CPUs numbered beyond the kernel interface's fixed set
/// ([`CpuSet::MAX_CPU`], 1024) are not seen.
///
/// # Errors
/// What `sched_getaffinity(2)` gave.
pub fn allowed_cpus() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU)
        .filter(|&cpu| set.is_set(cpu))
        .collect())
}

/// Lets the calling thread run on `cpus` only.
///
/// # Errors
/// `InvalidInput` for a CPU number beyond [`CpuSet::MAX_CPU`] or an empty
/// list; otherwise what `sched_setaffinity(2)` gave.
pub fn pin_current_thread(cpus: &[usize]) -> io::Result<()> {
    Ok(sched_setaffinity(None, &set_of(cpus)?)?)
}

/// Has a command's process, and whatever it starts, run on `cpus` only, from its first instruction on.
///
/// # Errors
/// `InvalidInput` for a CPU number beyond [`CpuSet::MAX_CPU`]. What `sched_setaffinity(2)` gives is
/// an error of the command's spawn.
pub fn pin_command(command: &mut Command, cpus: &[usize]) -> io::Result<()> {
    let set = set_of(cpus)?;
    // SAFETY: the closure runs in the child between fork and exec, where only async-signal-safe
    // things may be done: it makes one raw system call and allocates nothing.
    unsafe {
        command.pre_exec(move || Ok(sched_setaffinity(None, &set)?));
    }
    Ok(())
}

fn set_of(cpus: &[usize]) -> io::Result<CpuSet> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        if cpu >= CpuSet::MAX_CPU {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("CPU {cpu} is beyond {}", CpuSet::MAX_CPU - 1),
            ));
        }
        set.set(cpu);
    }
    Ok(set)
}

/// The calling thread and a process on one CPU, until this is dropped.
///
/// Two that wake each other all the time, such as a tracer and what it steps, take less time for it on
/// one CPU than on two. Belongs to the thread that made it.
#[derive(Debug)]
pub struct OneCpu {
    process: Pid,
    before: (CpuSet, CpuSet),
    _here: PhantomData<*const ()>,
}

impl OneCpu {
    /// Has both run on one of the CPUs that either may use, which depends on the process so that several pairs do not
    /// all meet on one; `None` where they have none in common.
    ///
    /// # Errors
    /// What `sched_getaffinity(2)` and `sched_setaffinity(2)` gave, as for a process of another user.
    pub fn with(pid: u32) -> io::Result<Option<Self>> {
        let process = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let process = process.ok_or(io::ErrorKind::InvalidInput)?;
        let before = (sched_getaffinity(None)?, sched_getaffinity(Some(process))?);
        let both = |cpu: &usize| before.0.is_set(*cpu) && before.1.is_set(*cpu);
        let cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(both).collect();
        let Some(nth) = (pid as usize).checked_rem(cpus.len()) else {
            return Ok(None);
        };
        let mut one = CpuSet::new();
        one.set(cpus[nth]);
        let pinned = Self {
            process,
            before,
            _here: PhantomData,
        };
        sched_setaffinity(Some(process), &one)?;
        sched_setaffinity(None, &one)?;
        Ok(Some(pinned))
    }
}

impl Drop for OneCpu {
    fn drop(&mut self) {
        // The process may have ended.
        let _ = sched_setaffinity(Some(self.process), &self.before.1);
        let _ = sched_setaffinity(None, &self.before.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_sees_only_its_cpu() {
        let before = allowed_cpus().unwrap();
        assert!(!before.is_empty());
        let last = *before.last().unwrap();
        std::thread::spawn(move || {
            pin_current_thread(&[last]).unwrap();
            assert_eq!(allowed_cpus().unwrap(), vec![last]);
        })
        .join()
        .unwrap();
        assert_eq!(allowed_cpus().unwrap(), before);
        assert!(pin_current_thread(&[]).is_err());
        assert!(pin_current_thread(&[usize::MAX]).is_err());
    }

    #[test]
    fn a_pinned_command_begins_on_its_cpus() {
        let last = *allowed_cpus().unwrap().last().unwrap();
        let mut command = Command::new("grep");
        command.args(["Cpus_allowed_list", "/proc/self/status"]);
        pin_command(&mut command, &[last]).unwrap();
        let said = String::from_utf8(command.output().unwrap().stdout).unwrap();
        assert_eq!(said.split_whitespace().last(), Some(&*last.to_string()));
        assert!(pin_command(&mut command, &[usize::MAX]).is_err());
    }

    #[test]
    fn both_are_on_one_cpu_and_then_where_they_were() {
        let before = allowed_cpus().unwrap();
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let pid = Pid::from_raw(child.id().cast_signed());
        let first = sched_getaffinity(pid).unwrap();
        let shared = OneCpu::with(child.id()).unwrap().expect("a CPU in common");
        let cpu = before[child.id() as usize % before.len()];
        assert_eq!(allowed_cpus().unwrap(), [cpu]);
        assert_eq!(sched_getaffinity(pid).unwrap().count(), 1);
        drop(shared);
        assert_eq!(allowed_cpus().unwrap(), before);
        assert_eq!(sched_getaffinity(pid).unwrap(), first);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(OneCpu::with(u32::MAX).is_err());
    }
}

//! Which CPUs a thread may run on.

use std::io;

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
    sched_setaffinity(None, &set)?;
    Ok(())
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
}

//! Whether this process may trace another one: ptrace(2), which debuggers use.

use std::io;

/// Seizes a child of our own for a moment.
///
/// # Errors
/// The kernel's refusal: a seccomp filter, a security module, `kernel.yama.ptrace_scope` of 3.
pub fn try_child() -> io::Result<()> {
    // SAFETY: the child calls nothing but prctl, pause and _exit, which are safe after fork in a
    // process with several threads (signal-safety(7)), and never returns from this block.
    let child = unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            libc::pause();
            libc::_exit(0);
        }
        child
    };
    if child < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: PTRACE_SEIZE takes a process, an unused address and options; no memory is touched.
    let seized = unsafe { libc::syscall(libc::SYS_ptrace, libc::PTRACE_SEIZE as i64, child, 0, 0) };
    let result = match seized {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    };
    // SAFETY: the child is ours and not yet waited for, so the number is still its own; waitpid
    // accepts a null status.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        while libc::waitpid(child, std::ptr::null_mut(), libc::__WALL) < 0
            && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
        {}
    }
    result
}

#[cfg(test)]
mod tests {
    #[test]
    fn an_answer_comes_and_leaves_no_child() {
        let answer = super::try_child();
        if let Err(error) = answer {
            assert!(error.raw_os_error().is_some(), "{error}");
        }
        let own = format!("/proc/self/task/{}/children", std::process::id());
        let children = std::fs::read_to_string(own).unwrap_or_default();
        assert_eq!(children.trim(), "");
    }
}

//! Requests to ptrace(2), of [`crate::step`] and [`crate::registers`].

use std::io;

#[cfg(target_env = "musl")]
use libc::c_int;
use libc::{c_void, pid_t};

/// What the C library takes a request for.
#[cfg(target_env = "musl")]
type Request = c_int;
#[cfg(not(target_env = "musl"))]
type Request = libc::c_uint;

/// Makes one.
///
/// `data` is a number, or the address of a live structure of the kind that the request reads or writes.
///
/// # Errors
/// What the kernel says.
pub(crate) fn request(what: Request, pid: pid_t, address: usize, data: usize) -> io::Result<()> {
    // SAFETY: only the requests of this module and of `registers` are made; of those only GETREGS, GETREGSET
    // and GETSIGINFO write to what `data` leads to, and their callers pass the address of a live structure of
    // the right kind. SETREGS and SETREGSET read from one.
    let done = unsafe { libc::ptrace(what, pid, address as *mut c_void, data as *mut c_void) };
    match done {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

//! Memory of another process.

use std::io;

use libc::{c_void, pid_t};

/// Reads the memory of a process that we may trace.
///
/// # Errors
/// EPERM where we may not, EFAULT where not all of it is there.
pub fn read(pid: u32, address: u64, into: &mut [u8]) -> io::Result<()> {
    let (local, remote) = vectors(address, into.as_mut_ptr().cast(), into.len());
    // SAFETY: the kernel writes at most `into.len()` bytes to `into` through `local`.
    let done = unsafe {
        libc::process_vm_readv(pid as pid_t, &raw const local, 1, &raw const remote, 1, 0)
    };
    whole(done, into.len())
}

/// Where so many bytes lie here and there.
pub(crate) fn vectors(
    address: u64,
    local: *mut c_void,
    length: usize,
) -> (libc::iovec, libc::iovec) {
    let iovec = |base, length| libc::iovec {
        iov_base: base,
        iov_len: length,
    };
    (iovec(local, length), iovec(address as *mut c_void, length))
}

/// Whether all of it was moved.
pub(crate) fn whole(done: isize, wanted: usize) -> io::Result<()> {
    match usize::try_from(done) {
        Ok(done) if done == wanted => Ok(()),
        Ok(_) => Err(io::Error::from_raw_os_error(libc::EFAULT)),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

//! A file that becomes shorter while it is mapped: touching what is gone raises SIGBUS.
//!
//! Nothing can be returned from there, as the fault is in whatever code reads the map. The program
//! ends, with a word that says why.

/// What is said; a handler may only write, not format.
const WORDS: &[u8] = b"error: a file was truncated while it was read\n\
    \x20 help: run pgassay again once nobody writes the file\n";

/// The exit code for a file on the command line that is wrong.
const EXIT: libc::c_int = 2;

/// Has the program say so and end where a mapped file was truncated, rather than die without a word.
///
/// # Errors
/// What sigaction(2) gave.
pub fn explain_truncated_files() -> std::io::Result<()> {
    // SAFETY: `sigaction` is plain data for which zeros are valid: no flags, an empty mask. The
    // handler calls write(2) and _exit(2) only, which are async-signal-safe, and reads constants.
    // It never returns, so that the faulting instruction is not run again.
    let outcome = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = truncated as extern "C" fn(libc::c_int) as libc::sighandler_t;
        libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut())
    };
    match outcome {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

extern "C" fn truncated(_: libc::c_int) {
    // SAFETY: the pointer and length are of a constant; write(2) and _exit(2) may be called in a
    // signal handler. What write returns does not matter: there is nobody else to tell.
    unsafe {
        libc::write(2, WORDS.as_ptr().cast(), WORDS.len());
        libc::_exit(EXIT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::Mapped;
    use std::fs::{self, File};
    use std::path::Path;

    /// What the test below has a process of its own do, as the signal ends it.
    #[test]
    fn helper_that_reads_what_is_cut() {
        let Some(path) = std::env::var_os("PGASSAY_SHRUNK_HELPER") else {
            return;
        };
        explain_truncated_files().unwrap();
        let path = Path::new(&path);
        let mapped = Mapped::open(path).unwrap();
        File::options()
            .write(true)
            .open(path)
            .unwrap()
            .set_len(10)
            .unwrap();
        let sum: u64 = mapped.iter().map(|byte| u64::from(*byte)).sum();
        unreachable!("the map's pages are gone, and yet they add up to {sum}");
    }

    /// Attack D19: a file truncated while it was inspected ended the program by SIGBUS, without a
    /// word.
    #[test]
    fn a_file_that_is_cut_while_it_is_read_is_told() {
        let path = std::env::temp_dir().join(format!("pgassay-shrunk-{}", std::process::id()));
        fs::write(&path, vec![1; 1 << 20]).unwrap();
        let done = std::process::Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "shrunk::tests::helper_that_reads_what_is_cut",
                "--nocapture",
            ])
            .env("PGASSAY_SHRUNK_HELPER", &path)
            .output()
            .unwrap();
        fs::remove_file(&path).unwrap();
        assert_eq!(done.status.code(), Some(EXIT), "{done:?}");
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(said.contains("truncated while it was read"), "{said}");
    }
}

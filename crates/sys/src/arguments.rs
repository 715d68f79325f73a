//! The command line as others see it: a password in it is overwritten.

use std::fs;
use std::io;

/// Overwrites an argument of this process, so that `ps` and /proc/PID/cmdline
/// show `shown` in its place, cut or padded with spaces to the same length.
/// False where no argument reads `original`.
///
/// Programs that start before the argument is overwritten can have seen it.
///
/// # Errors
/// Where /proc/self/stat can't be read or does not tell where the arguments lie.
pub fn overwrite(original: &str, shown: &str) -> io::Result<bool> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let unclear = || io::Error::other("/proc/self/stat does not say where the arguments lie");
    // The name in parentheses may hold anything; arg_start and arg_end are the
    // fields 48 and 49 of proc_pid_stat(5), of which the third follows the name.
    let (_, after_name) = stat.rsplit_once(')').ok_or_else(unclear)?;
    let mut fields = after_name.split_ascii_whitespace().skip(48 - 3);
    let mut address = || fields.next()?.parse::<usize>().ok();
    let (start, end) = address().zip(address()).ok_or_else(unclear)?;
    if start == 0 || end <= start {
        return Err(unclear());
    }
    let length = end - start;
    // SAFETY: the kernel put the argument strings at [start, end) of this
    // process's stack, writable, for its whole life. The standard library
    // copies arguments out when they are asked for and keeps no reference of
    // Rust's to these bytes, so that no other reference is alive here.
    let area = unsafe { std::slice::from_raw_parts_mut(start as *mut u8, length) };
    let mut found = false;
    let mut offset = 0;
    while offset < area.len() {
        let rest = &mut area[offset..];
        let size = rest
            .iter()
            .position(|byte| *byte == 0)
            .unwrap_or(rest.len());
        if &rest[..size] == original.as_bytes() {
            for (i, byte) in rest[..size].iter_mut().enumerate() {
                *byte = shown.as_bytes().get(i).copied().unwrap_or(b' ');
            }
            found = true;
        }
        offset += size + 1;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::overwrite;

    #[test]
    fn what_is_no_argument_is_left_alone() {
        let before = std::fs::read("/proc/self/cmdline").unwrap();
        assert!(!overwrite("postgres://no-such-argument", "x").unwrap());
        assert_eq!(std::fs::read("/proc/self/cmdline").unwrap(), before);
    }
}

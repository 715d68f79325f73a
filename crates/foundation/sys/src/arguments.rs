//! The command line as others see it: what must not be seen in it is overwritten.

use std::fs;
use std::io;

/// Rewrites the arguments of this process where they lie, so that `ps` and /proc/PID/cmdline show
/// something else. `change` gets each argument, the program's name first, and may overwrite it but
/// not make it longer.
///
/// The standard library reads the arguments from the same place: copy them before. Programs that
/// start before the arguments are rewritten can have seen them.
///
/// # Errors
/// Where /proc/self/stat can't be read or does not tell where the arguments lie.
pub fn rewrite(change: &mut dyn FnMut(&mut [u8])) -> io::Result<()> {
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
    for argument in area.split_mut(|byte| *byte == 0) {
        change(argument);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::rewrite;

    #[test]
    fn each_argument_is_offered_once_and_stays_as_it_is_left() {
        let before = std::fs::read("/proc/self/cmdline").unwrap();
        let mut seen = Vec::new();
        rewrite(&mut |argument| {
            seen.extend_from_slice(argument);
            seen.push(0);
        })
        .unwrap();
        seen.pop();
        assert_eq!(seen, before);
        assert_eq!(std::fs::read("/proc/self/cmdline").unwrap(), before);
    }
}

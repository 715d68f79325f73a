//! The server's processes, and reading one file of /proc for each of them.

use std::fmt::Write as _;
use std::fs;

use pgassay_analysis::record::Reading;

use super::Scene;

/// A line `PID …` for the postmaster and all its children: what `line` makes of the
/// text of /proc/PID/`file`, where it makes anything.
///
/// A process that ends between the list and its reading is passed over; only where no
/// process gives a line the reading is unavailable, for the reason that the last one gave.
pub(super) fn lines(scene: &Scene, file: &str, line: impl Fn(&str) -> Option<String>) -> Reading {
    let processes = match scene.postmaster.clone().and_then(all) {
        Ok(processes) => processes,
        Err(why) => return Reading::Unavailable(why),
    };
    match text(&processes, file, line) {
        Ok(text) => Reading::Text(text),
        Err(why) => Reading::Unavailable(why),
    }
}

/// The same for these processes.
pub(super) fn text(
    processes: &[u32],
    file: &str,
    line: impl Fn(&str) -> Option<String>,
) -> Result<String, String> {
    let mut text = String::new();
    let mut failure = None;
    for pid in processes {
        let path = format!("/proc/{pid}/{file}");
        match fs::read_to_string(&path) {
            Ok(read) => match line(&read) {
                Some(line) => {
                    let _ = writeln!(text, "{pid} {line}");
                }
                None => failure = Some(format!("{path} does not hold what is looked for")),
            },
            Err(e) => failure = Some(format!("{path}: {e}")),
        }
    }
    match failure {
        Some(why) if text.is_empty() => Err(why),
        _ => Ok(text),
    }
}

/// The value of a line `name:\tvalue` of /proc/PID/status.
pub(super) fn field<'t>(status: &'t str, name: &str) -> Option<&'t str> {
    let value = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(value.strip_prefix(':')?.trim())
}

/// The postmaster and all its children.
pub(super) fn all(postmaster: u32) -> Result<Vec<u32>, String> {
    let children = children_of(postmaster)?;
    Ok(std::iter::once(postmaster).chain(children).collect())
}

/// The postmaster and its children, as far as they can be seen.
pub fn processes(postmaster: u32) -> Vec<u32> {
    all(postmaster).unwrap_or_else(|_| vec![postmaster])
}

pub(super) fn children_of(pid: u32) -> Result<Vec<u32>, String> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    match fs::read_to_string(&path) {
        Ok(text) => Ok(text
            .split_ascii_whitespace()
            .filter_map(|p| p.parse().ok())
            .collect()),
        // A kernel without CONFIG_PROC_CHILDREN: every process is asked for its parent.
        Err(_) if fs::exists(format!("/proc/{pid}")).unwrap_or(false) => Ok(children_by_scan(pid)),
        Err(e) => Err(format!("{path}: {e}")),
    }
}

fn children_by_scan(parent: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| parent_of(*pid) == Some(parent))
        .collect()
}

/// A process' parent; none where it is gone.
pub(super) fn parent_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything; the parent is the second field after it.
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_is_gone_is_passed_over() {
        let own = std::process::id();
        let switches = |status: &str| field(status, "voluntary_ctxt_switches").map(str::to_owned);
        let text = text(&[u32::MAX, own], "status", switches).unwrap();
        let mut words = text.split_ascii_whitespace();
        assert_eq!(words.next(), Some(own.to_string().as_str()));
        assert!(words.next().unwrap().parse::<u64>().is_ok(), "{text}");
        assert_eq!(words.next(), None);
        let gone = super::text(&[u32::MAX], "status", switches).unwrap_err();
        assert!(gone.contains("/proc/4294967295/status"), "{gone}");
        let other = super::text(&[own], "stat", switches).unwrap_err();
        assert!(other.contains("does not hold"), "{other}");
    }

    #[test]
    fn a_childs_parent_is_found() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let own = std::process::id();
        assert_eq!(parent_of(child.id()), Some(own));
        assert!(children_by_scan(own).contains(&child.id()));
        // Its parent is this thread, not the first one, whose children the kernel lists.
        assert_eq!(processes(own).first(), Some(&own));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(parent_of(u32::MAX), None);
    }
}

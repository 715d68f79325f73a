//! How much the server has written into its log.

use std::fs;

use pgassay_model::reading::Reading;

use super::{Scene, server};

/// The logging collector is one of the first processes that a server starts.
const FIRST: usize = 16;

/// Bytes that the server has written so far: its logging collector by proc_pid_io(5), or where there is none the size
/// of the file that its standard error goes to.
pub fn log_bytes(postmaster: u32) -> Reading {
    let mut children = server::processes(postmaster);
    children.sort_unstable();
    let is_collector = |pid: &&u32| {
        let title = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let title = title.trim_end_matches(['\0', ' ']);
        title.starts_with("postgres:") && title.ends_with("logger")
    };
    if let Some(collector) = children.iter().take(FIRST).find(is_collector) {
        let path = format!("/proc/{collector}/io");
        return match fs::read_to_string(&path) {
            Ok(io) => match written(&io) {
                Some(bytes) => Reading::Text(bytes.to_string()),
                None => Reading::Unavailable(format!("{path} has no wchar")),
            },
            Err(e) => Reading::Unavailable(format!("{path}: {e}")),
        };
    }
    let path = format!("/proc/{postmaster}/fd/2");
    match fs::metadata(&path) {
        Ok(is) if is.is_file() => Reading::Text(is.len().to_string()),
        Ok(_) => Reading::Unavailable("the server's standard error is no file".to_owned()),
        Err(e) => Reading::Unavailable(format!("{path}: {e}")),
    }
}

/// What a process has written, files and pipes alike.
fn written(io: &str) -> Option<u64> {
    let mut lines = io.lines();
    let bytes = lines.find_map(|line| line.strip_prefix("wchar: "))?;
    bytes.trim().parse().ok()
}

/// The same of the server that is looked at.
pub(super) fn of_server(scene: &mut Scene) -> Reading {
    match &scene.postmaster {
        Ok(postmaster) => log_bytes(*postmaster),
        Err(why) => Reading::Unavailable(why.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_what_is_not_there_is_said() {
        assert_eq!(written("rchar: 7\nwchar: 4096\nsyscr: 1\n"), Some(4096));
        assert_eq!(written("rchar: 7\n"), None);
        assert!(log_bytes(u32::MAX).text().is_none());
    }
}

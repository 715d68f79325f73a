//! Following what the server's processes read while a statement runs.
//!
//! Parallel workers end with it. What a process read is added to its parent's account when the parent
//! has waited for it (Linux, kernel/exit.c, wait_task_zombie), so the sum over the processes that are there
//! loses nothing but for the moment between; it is the largest sum that counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use pgassay_model::reading::Reading;
use pgassay_readings::io::ProcessIo;

use super::{io, server};

/// How often the counters are read.
const EVERY: Duration = Duration::from_millis(10);

/// A thread that reads the counters until it is asked for the sum.
#[derive(Debug)]
pub struct Follow {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<u64, String>>>,
}

impl Follow {
    /// Starts with the counters of now.
    pub fn start(postmaster: &Result<u32, String>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let postmaster = postmaster.clone();
        let flag = Arc::clone(&stop);
        let (ready, started) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("follow".to_owned())
            .spawn(move || {
                let first = postmaster.and_then(|pid| Ok((pid, read_so_far(pid)?)));
                let _ = ready.send(());
                let (postmaster, first) = first?;
                follow(postmaster, first, &flag)
            })
            .ok();
        // The statement begins after the first reading.
        let _ = started.recv();
        Self { stop, thread }
    }

    /// Ends it: the bytes that devices read for the processes since the start.
    pub fn finish(mut self) -> Reading {
        self.stop.store(true, Ordering::Relaxed);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(Ok(bytes))) => Reading::Text(bytes.to_string()),
            Some(Ok(Err(why))) => Reading::Unavailable(why),
            Some(Err(_)) | None => Reading::Unavailable("no thread could follow them".to_owned()),
        }
    }
}

impl Drop for Follow {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Bytes that devices read for the postmaster and all its children, those that ended included.
fn read_so_far(postmaster: u32) -> Result<u64, String> {
    let text = server::text(&server::all(postmaster)?, "io", io::counters)?;
    let found = ProcessIo::parse(&text);
    Ok(found.values().map(|io| io.read_bytes).sum())
}

fn follow(postmaster: u32, first: u64, stop: &AtomicBool) -> Result<u64, String> {
    let mut most = first;
    let mut after = 0;
    // Once more after the end: who ended last is waited for by then.
    while after < 2 {
        after += u32::from(stop.load(Ordering::Relaxed));
        most = most.max(read_so_far(postmaster)?);
        if after < 2 {
            std::thread::sleep(EVERY);
        }
    }
    Ok(most - first)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sum over a parent and its children stands while a child ends, which moves what it read to its parent.
    #[test]
    fn what_a_child_read_is_counted_once() {
        let file = std::env::temp_dir().join(format!("pgassay-follow-{}", std::process::id()));
        std::fs::write(&file, vec![7u8; 4 << 20]).unwrap();
        let script = format!(
            "read go; sync {0}; dd if={0} of=/dev/null bs=1M iflag=direct 2>/dev/null; read end",
            file.display()
        );
        let mut parent = std::process::Command::new("sh")
            .args(["-c", &script])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let pid = parent.id();
        let follow = Follow::start(&Ok(pid));
        let mut input = parent.stdin.take().unwrap();
        std::io::Write::write_all(&mut input, b"go\n").unwrap();
        // Both children have come and gone when the shell waits for input again.
        let waited = |pid: u32| {
            let status = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap();
            ProcessIo::parse(&io::counters(&status).map(|c| format!("{pid} {c}")).unwrap())[&pid]
                .read_bytes
        };
        let until = std::time::Instant::now() + Duration::from_secs(30);
        let in_parent = loop {
            let read = waited(pid);
            let on_disk = read >= 4 << 20;
            if on_disk || std::time::Instant::now() > until {
                break read;
            }
            std::thread::sleep(EVERY);
        };
        let seen = follow.finish();
        drop(input);
        parent.wait().unwrap();
        std::fs::remove_file(&file).unwrap();
        // A file system without a device reads nothing from one.
        if in_parent >= 4 << 20 {
            let bytes: u64 = seen.text().unwrap().parse().unwrap();
            assert!(
                (4 << 20..6 << 20).contains(&bytes),
                "{bytes} of {}",
                4 << 20
            );
        }
    }

    #[test]
    fn a_process_that_can_not_be_seen_says_why() {
        let hidden = Follow::start(&Err("over TCP".to_owned())).finish();
        assert_eq!(hidden, Reading::Unavailable("over TCP".to_owned()));
        let gone = Follow::start(&Ok(u32::MAX)).finish();
        assert!(matches!(gone, Reading::Unavailable(_)), "{gone:?}");
        let own = Follow::start(&Ok(std::process::id())).finish();
        assert!(matches!(own, Reading::Text(_)), "{own:?}");
    }
}

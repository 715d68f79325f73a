//! Following what the server's processes read while a statement runs: parallel
//! workers end with it, and their counters with them.

use std::collections::HashMap;
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
                let first = postmaster.and_then(counters);
                let _ = ready.send(());
                follow(first?, &flag)
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

/// The postmaster and the counters of it and of all its children.
type Counters = (u32, HashMap<u32, u64>);

fn counters(postmaster: u32) -> Result<Counters, String> {
    let text = server::text(&server::all(postmaster)?, "io", io::counters)?;
    let found = ProcessIo::parse(&text);
    Ok((
        postmaster,
        found
            .into_iter()
            .map(|(pid, io)| (pid, io.read_bytes))
            .collect(),
    ))
}

fn follow((postmaster, first): Counters, stop: &AtomicBool) -> Result<u64, String> {
    let mut last = first.clone();
    loop {
        let ending = stop.load(Ordering::Relaxed);
        // A process that is gone keeps what was seen of it last.
        last.extend(counters(postmaster)?.1);
        if ending {
            break;
        }
        std::thread::sleep(EVERY);
    }
    Ok(last
        .iter()
        .map(|(pid, bytes)| bytes.saturating_sub(first.get(pid).copied().unwrap_or(0)))
        .sum())
}

#[cfg(test)]
mod tests {
    use super::*;

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

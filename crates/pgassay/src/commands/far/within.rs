//! A load engine on the near side for a command on the far side: their conversation is carried within the
//! stream that there is already, so that nothing else has to be reached.
//!
//! ```text
//! near: engine -- Link -- channel ---- carrier ---- channel -- relay -- socket (stdin) -- Link: the command
//! ```

use std::fs::File;
use std::io;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::Context;
use pgassay_engine::agents::serve_with;
use pgassay_far::{Channel, Link};
use pgassay_sys::stop::Stop;

use super::load::LOAD;
use super::rules::Guarded;

/// The channel of the two sides on which it is carried.
pub const WITHIN: u16 = 4;

/// The command's end, as long as nobody has asked for it.
static STREAM: Mutex<Option<UnixStream>> = Mutex::new(None);

/// The far side: what comes and goes on a channel, as a socket for the command.
///
/// # Errors
/// Where there is none, or no thread.
pub fn relayed(channel: &Channel) -> io::Result<OwnedFd> {
    let (ours, theirs) = UnixStream::pair()?;
    let (mut incoming, mut outgoing) = channel.streams();
    let mut to_command = ours.try_clone()?;
    let mut from_command = ours;
    thread::Builder::new()
        .name("to-command".to_owned())
        .spawn(move || {
            // A command that is gone is seen where its end is read.
            drop(io::copy(&mut incoming, &mut to_command));
            drop(to_command.shutdown(Shutdown::Write));
        })?;
    thread::Builder::new()
        .name("from-command".to_owned())
        .spawn(move || drop(io::copy(&mut from_command, &mut outgoing)))?;
    Ok(theirs.into())
}

/// The command: puts the socket away that it was given as standard input, so that nothing which it starts
/// reads from it.
///
/// # Errors
/// Where the system has no descriptors left.
pub fn keep() -> io::Result<()> {
    let stream = rustix::io::fcntl_dupfd_cloexec(io::stdin(), 3)?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    let mut kept = STREAM.lock().unwrap_or_else(PoisonError::into_inner);
    *kept = Some(stream.into());
    Ok(())
}

/// The command: the conversation with the load engine on the near side; none where there is no near side that
/// gives load.
///
/// # Errors
/// Where no thread can be had.
pub fn near_side() -> anyhow::Result<Option<Link>> {
    let mut kept = STREAM.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(stream) = kept.take() else {
        return Ok(None);
    };
    let reader = stream.try_clone()?;
    Ok(Some(Link::new(reader, Closing(stream))?))
}

/// Closes the socket when nothing more is written: its other half would keep it open.
struct Closing(UnixStream);

impl io::Write for Closing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

/// The near side: gives load as the command says and these rules allow, until either of the two ends.
///
/// # Errors
/// Where no thread can be had.
pub fn give(link: &Link, rules: Guarded) -> anyhow::Result<()> {
    let (incoming, outgoing) = link.channel(WITHIN).streams();
    let within = Link::new(incoming, outgoing)?;
    thread::Builder::new()
        .name("load".to_owned())
        // Ctrl-C here is the command's business, which has us end what runs.
        .spawn(move || drop(serve_with(&within.channel(LOAD), &rules, &Stop::new())))
        .context("a thread for the load from this machine")?;
    Ok(())
}

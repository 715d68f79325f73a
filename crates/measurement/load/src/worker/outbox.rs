//! What the clients of a thread send together.
//!
//! Clients whose answers one epoll_wait has reported send their next statements in one system call,
//! at most `MOST` at a time. Their transactions have begun by then, so what one waits for another is
//! in its latency, and it is no more than the reading of a few answers that have come. Each send
//! wakes a server process, and at the end of each call the scheduler may put that in the place of
//! this thread: fewer calls are fewer such changes.

use std::io;

use bytes::BytesMut;
use pgassay_sys::gather::{Gathered, MOST};

use super::Worker;
use pgassay_pgwire::Transport;

/// Messages that wait for the end of the events.
pub(crate) struct Outbox {
    ring: Gathered,
    bytes: Vec<u8>,
    /// Whose message ends where in `bytes`.
    ends: Vec<(usize, usize)>,
    sent: Vec<io::Result<usize>>,
}

impl Outbox {
    /// None where it isn't wanted or the kernel refuses.
    pub fn new(wanted: bool) -> Option<Self> {
        let ring = wanted.then(Gathered::new)?.ok()?;
        Some(Outbox {
            ring,
            bytes: Vec::with_capacity(4096),
            ends: Vec::with_capacity(MOST),
            sent: Vec::with_capacity(MOST),
        })
    }

    /// Takes over what client `i` has written, as it goes over its connection.
    pub fn put(
        &mut self,
        i: usize,
        transport: &mut Transport,
        out: &mut BytesMut,
    ) -> io::Result<()> {
        let before = self.bytes.len();
        if let Err(error) = transport.seal(out, &mut self.bytes) {
            self.bytes.truncate(before);
            return Err(error);
        }
        self.ends.push((i, self.bytes.len()));
        out.clear();
        Ok(())
    }

    pub fn is_full(&self) -> bool {
        self.ends.len() == MOST
    }
}

impl Worker<'_> {
    /// Sends what the outbox holds. What a socket does not take now waits for room there; a socket
    /// that fails is read to its end.
    pub(crate) fn flush(&mut self) {
        let Some(mut outbox) = self.outbox.take() else {
            return;
        };
        let handed = if outbox.ends.len() > 1 {
            self.gather(&mut outbox)
        } else {
            Ok(()) // the plain send below does as well
        };
        let mut start = 0;
        for (place, &(i, end)) in outbox.ends.iter().enumerate() {
            let message = &outbox.bytes[start..end];
            start = end;
            if let Err(error) = &handed {
                // Whether it has gone out is unknown.
                self.lose(i, &format!("io_uring failed: {error}"));
                continue;
            }
            // After an error the plain send finds out, and tells, what is wrong.
            let sent = match outbox.sent.get(place) {
                Some(Ok(n)) => *n,
                Some(Err(_)) | None => 0,
            };
            let Some(transport) = &mut self.clients[i].transport else {
                continue;
            };
            let rest = transport.sent(&message[sent..]);
            if !rest.is_empty() || transport.wants_write() {
                self.out.extend_from_slice(rest);
                self.send(i);
            }
        }
        outbox.bytes.clear();
        outbox.ends.clear();
        outbox.sent.clear();
        if handed.is_ok() {
            self.outbox = Some(outbox);
        }
    }

    fn gather(&mut self, outbox: &mut Outbox) -> io::Result<()> {
        let mut messages = Vec::with_capacity(MOST);
        let mut start = 0;
        for &(i, end) in &outbox.ends {
            // Nothing takes a client's connection between its statement and this.
            let transport = self.clients[i].transport.as_ref();
            let transport = transport.ok_or(io::ErrorKind::NotConnected)?;
            messages.push((transport.as_fd(), &outbox.bytes[start..end]));
            start = end;
        }
        self.calls.enter += 1;
        self.calls.gathered += messages.len() as u64;
        outbox.ring.send(&messages, &mut outbox.sent)
    }
}

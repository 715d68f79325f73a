//! A load thread's sockets: one send and one recv a statement.

use std::io;

use pgassay_sys::streams::LONGEST;
use rustix::event::epoll;
use rustix::net::Shutdown;

use super::wire::{Fed, WireError};
use super::worker::Worker;

/// A longer message goes by itself: copying it, and having others wait for it, costs more than a call.
const LONGEST_GATHERED: usize = 4096;

impl Worker<'_> {
    /// Adds a client's socket to epoll.
    pub fn watch(&mut self, i: usize) -> io::Result<()> {
        let (Some(epoll), Some(transport)) = (&self.epoll, &self.clients[i].transport) else {
            return Ok(());
        };
        let data = epoll::EventData::new_u64(i as u64);
        epoll::add(epoll, transport.as_fd(), data, Self::interest(false))?;
        self.clients[i].watches_room = false;
        Ok(())
    }

    fn interest(room: bool) -> epoll::EventFlags {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        if room {
            flags | epoll::EventFlags::OUT
        } else {
            flags
        }
    }

    /// Sends what the client being driven has written, and what it could not send before.
    pub fn send(&mut self, i: usize) {
        let client = &mut self.clients[i];
        let Some(transport) = &mut client.transport else {
            self.out.clear();
            return;
        };
        let waiting = !client.unsent.is_empty();
        if !waiting && self.streams.is_some() && (1..=LONGEST).contains(&self.out.len()) {
            self.send_by_ring(i);
            return;
        }
        if !waiting
            && (1..=LONGEST_GATHERED).contains(&self.out.len())
            && transport.can_seal()
            && let Some(outbox) = &mut self.outbox
        {
            if let Err(error) = outbox.put(i, transport, &mut self.out) {
                self.out.clear();
                self.lose(i, &format!("the connection failed: {error}"));
            } else if outbox.is_full() {
                self.flush();
            }
            return;
        }
        if waiting {
            client.unsent.extend_from_slice(&self.out);
            self.out.clear();
        }
        let bytes: &[u8] = if waiting { &client.unsent } else { &self.out };
        let mut sent = 0;
        let mut failed = false;
        while sent < bytes.len() {
            self.calls.send += 1;
            match transport.write(&bytes[sent..]) {
                Ok(n) => sent += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => {
                    failed = true;
                    break;
                }
            }
        }
        if waiting {
            client.unsent.drain(..sent);
        } else {
            client.unsent.extend_from_slice(&self.out[sent..]);
            self.out.clear();
        }
        let mut wants_room = !client.unsent.is_empty();
        if !failed && transport.wants_write() {
            match transport.flush() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => wants_room = true,
                flushed => failed = flushed.is_err(),
            }
        }
        if failed {
            // Why is in what the server sent before it went.
            client.unsent.clear();
            if self.streams.is_some() {
                // The ring reads that, and then comes to the end that this makes.
                let _ = rustix::net::shutdown(transport.as_fd(), Shutdown::Both);
                return;
            }
            self.readable(i, true);
            return;
        }
        if self.streams.is_some() {
            if wants_room {
                self.await_room(i);
            }
            return;
        }
        if wants_room != client.watches_room
            && let Some(epoll) = &self.epoll
        {
            let data = epoll::EventData::new_u64(i as u64);
            client.watches_room =
                epoll::modify(epoll, transport.as_fd(), data, Self::interest(wants_room)).is_ok()
                    && wants_room;
        }
    }

    /// Reads what has come for a client and lets it go on. After the end was signalled it is read
    /// to the end.
    pub fn readable(&mut self, i: usize, to_the_end: bool) {
        let mut buffer = std::mem::take(&mut self.buffer);
        while let Some(transport) = &mut self.clients[i].transport {
            self.calls.receive += 1;
            match transport.read(&mut buffer) {
                Ok(0) => {
                    self.end_of_stream(i, "the server closed the connection");
                    break;
                }
                Ok(n) => {
                    self.now = None;
                    let more = transport.has_buffered_plaintext();
                    self.take_in(i, &buffer[..n]);
                    if n < buffer.len() && !more && !to_the_end {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => {
                    self.end_of_stream(i, &format!("the connection failed: {error}"));
                    break;
                }
            }
        }
        self.buffer = buffer;
        if !self.out.is_empty() {
            self.send(i);
        }
    }

    pub(super) fn take_in(&mut self, i: usize, mut bytes: &[u8]) {
        // All that has come is read before the client goes on: what follows the last answer that
        // was asked for is no answer to what is asked next.
        loop {
            match self.clients[i].wire.feed(bytes) {
                Ok(Fed::More) => break,
                Ok(Fed::Ready(used)) => {
                    bytes = &bytes[used..];
                    let wire = &mut self.clients[i].wire;
                    let status = wire.status();
                    let exchange = wire.take(status);
                    self.clients[i].status = status;
                    self.answered(i, exchange);
                    if bytes.is_empty() || self.clients[i].transport.is_none() {
                        break;
                    }
                }
                Ok(Fed::Notice(used)) => {
                    bytes = &bytes[used..];
                    if let Some(notice) = self.clients[i].wire.notice() {
                        self.pass_on(&notice.in_full(None));
                    }
                }
                Err(WireError::Copy) => {
                    self.say_why("COPY is not supported in pgbench, aborting");
                    self.lose(i, &WireError::Copy.to_string());
                    return;
                }
                Err(error) => {
                    self.say_lost(i, &error.to_string());
                    self.lose(i, &error.to_string());
                    return;
                }
            }
        }
        self.drive(i);
    }

    pub(super) fn end_of_stream(&mut self, i: usize, how: &str) {
        let reason = match self.clients[i].wire.pending_failure() {
            Some(failure) => {
                let client = &self.clients[i];
                self.say_why(&format!(
                    "client {} script {} aborted in command {} query 0: {}",
                    client.id,
                    client.script,
                    client.command,
                    failure.in_full(None)
                ));
                format!("{how}: {failure}")
            }
            None => {
                self.say_lost(i, "perhaps the backend died while processing");
                how.to_owned()
            }
        };
        self.lose(i, &reason);
    }
}

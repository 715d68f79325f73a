//! A load thread whose sockets are served by a ring.
//!
//! Each round is one system call: it hands over what the answers of the last round led to, at most
//! `MOST` messages, and waits for what comes next. Their transactions have begun by then, so what one waits
//! for another is in its latency, and it is no more than the reading of a few answers that have come.
//! What the ring has taken out of a socket when the slice is over waits for the next slice in
//! `Client::arrived`.

use std::io;

use pgassay_sys::streams::{Happened, MOST, Streams};

use super::options::Serving;
use super::worker::{ATTENTION, Worker};

/// How long the end of what was cancelled is waited for, in nanoseconds. It comes at once, some twenty
/// sockets a call.
const PATIENCE: u64 = 10_000_000_000;

impl Worker<'_> {
    /// A ring, where it is wanted, the kernel allows it, and all clients' bytes are their sockets'.
    pub(super) fn ring(&self) -> Option<Streams> {
        let options = &self.shared.options;
        if options.serving != Serving::Ring || options.reconnect {
            return None;
        }
        let mut transports = self.clients.iter().filter_map(|c| c.transport.as_ref());
        if transports.any(|transport| transport.is_tls()) {
            return None;
        }
        Streams::new().ok()
    }

    pub(super) fn run_ring(&mut self, streams: Streams) -> io::Result<()> {
        self.streams = Some(streams);
        for i in 0..self.clients.len() {
            self.clients[i].watches_room = false;
            self.receive(i)?;
        }
        self.begin();
        while self.active > 0 && !self.must_leave() {
            self.now = None;
            let most = self.longest_wait();
            self.count_call();
            let Some(streams) = &mut self.streams else {
                break;
            };
            streams.wait(most)?;
            self.handle()?;
            if !self.timers.is_empty() {
                self.hand_over()?;
                self.handle()?;
            }
            self.fire_timers();
        }
        self.leave_ring()
    }

    fn receive(&mut self, i: usize) -> io::Result<()> {
        match (&mut self.streams, &self.clients[i].transport) {
            (Some(streams), Some(transport)) => streams.receive(i as u32, transport.as_fd()),
            _ => Ok(()),
        }
    }

    /// Handles what has happened at the sockets.
    fn handle(&mut self) -> io::Result<()> {
        while let Some(happened) = self.streams.as_mut().and_then(Streams::pop) {
            self.now = None;
            match happened {
                Happened::Came(place, held) => {
                    let i = place as usize;
                    let mut buffer = std::mem::take(&mut self.buffer);
                    let length = match &mut self.streams {
                        Some(streams) => streams.take(held, &mut buffer),
                        None => 0,
                    };
                    if self.clients[i].transport.is_some() {
                        self.take_in(i, &buffer[..length]);
                    }
                    self.buffer = buffer;
                    if !self.out.is_empty() {
                        self.send(i);
                    }
                }
                Happened::Ended(place, error) => {
                    let i = place as usize;
                    if self.clients[i].transport.is_some() {
                        match error {
                            None => self.end_of_stream(i, "the server closed the connection"),
                            Some(error) => {
                                self.end_of_stream(i, &format!("the connection failed: {error}"));
                            }
                        }
                    }
                }
                Happened::Paused(place) => self.receive(place as usize)?,
                Happened::Room(place) => {
                    self.clients[place as usize].watches_room = false;
                    self.send(place as usize);
                }
                Happened::Unsent(place, rest) => {
                    // After an error the plain send finds out, and tells, what is wrong.
                    let i = place as usize;
                    self.clients[i].unsent.splice(..0, rest);
                    self.send(i);
                }
            }
        }
        Ok(())
    }

    /// Lets what the client being driven has written go out with the next call.
    pub(super) fn send_by_ring(&mut self, i: usize) {
        let place = i as u32;
        let length = self.out.len();
        let mut sent = Ok(());
        if !self
            .streams
            .as_ref()
            .is_some_and(|s| s.has_room(place, length))
        {
            sent = self.hand_over();
            // The rest of its own last message goes first.
            if let Some(rest) = self.streams.as_mut().and_then(|s| s.unsent(place)) {
                self.clients[i].unsent = rest;
                self.send(i);
                return;
            }
        }
        if let (Some(streams), Some(transport)) = (&mut self.streams, &self.clients[i].transport) {
            sent = sent.and_then(|()| streams.send(place, transport.as_fd(), &self.out));
            self.out.clear();
            if sent.is_ok() && streams.messages() == MOST {
                sent = self.hand_over();
            }
        }
        if let Err(error) = sent {
            // Whether it has gone out is unknown.
            self.lose(i, &format!("io_uring failed: {error}"));
        }
    }

    /// Sends what waits for the next call, now.
    fn hand_over(&mut self) -> io::Result<()> {
        if self.streams.as_ref().is_some_and(|s| s.messages() > 0) {
            self.count_call();
        }
        match &mut self.streams {
            Some(streams) if streams.messages() > 0 => streams.hand_over(),
            _ => Ok(()),
        }
    }

    /// Counts the call that follows by what it does: it waits, sends one message, or sends several.
    fn count_call(&mut self) {
        match self.streams.as_ref().map_or(0, Streams::messages) {
            0 => self.calls.wait += 1,
            1 => self.calls.send += 1,
            several => {
                self.calls.enter += 1;
                self.calls.gathered += several as u64;
            }
        }
    }

    /// Lets the client go on sending when there is room.
    pub(super) fn await_room(&mut self, i: usize) {
        let client = &mut self.clients[i];
        let (Some(streams), Some(transport)) = (&mut self.streams, &client.transport) else {
            return;
        };
        if !client.watches_room {
            client.watches_room = true;
            if let Err(error) = streams.await_room(i as u32, transport.as_fd()) {
                self.lose(i, &format!("io_uring failed: {error}"));
            }
        }
    }

    /// Gives the sockets back. What has been taken out of them is kept for the next slice.
    fn leave_ring(&mut self) -> io::Result<()> {
        let Some(mut streams) = self.streams.take() else {
            return Ok(());
        };
        streams.cancel_all()?;
        let until = self.shared.now() + PATIENCE;
        loop {
            while let Some(happened) = streams.pop() {
                match happened {
                    Happened::Came(place, held) => {
                        let length = streams.take(held, &mut self.buffer);
                        let client = &mut self.clients[place as usize];
                        client.arrived.extend_from_slice(&self.buffer[..length]);
                    }
                    Happened::Unsent(place, rest) => {
                        self.clients[place as usize].unsent.splice(..0, rest);
                    }
                    // The next slice finds the end again.
                    Happened::Ended(..) | Happened::Paused(_) | Happened::Room(_) => {}
                }
            }
            if !streams.is_busy() {
                return Ok(());
            }
            if self.shared.now() > until {
                return Err(io::ErrorKind::TimedOut.into());
            }
            streams.wait(ATTENTION)?;
        }
    }
}

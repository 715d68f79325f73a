//! Many sockets of one thread served by one ring of io_uring: what arrives at any of them, and what
//! is sent to any of them, with one system call a round.
//!
//! The kernel puts what arrives into buffers that it was given for all sockets together, so that a
//! receive is asked for once and goes on until it is cancelled. It does so only inside of this
//! thread's own calls (deferred task work). Every send is told not to wait, so its result is there
//! when the call returns, and the kernel holds none of its bytes from then on.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use io_uring::types::{BufRingEntry, CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};
use memmap2::MmapMut;

/// Most messages of one call. Those behind wait for those in front, so it is kept small.
pub const MOST: usize = 16;
/// The longest message that is sent this way.
pub const LONGEST: usize = 4096;

/// Buffers that the kernel fills, a power of two: as many receives as one call brings, and some.
const BUFFERS: u16 = 64;
/// How much one takes.
const BUFFER: usize = 16 * 1024;
/// From one to the next: a little more than a power of two, so that their beginnings, which is
/// where short answers are, do not share the same lines of the processor's cache.
const STRIDE: usize = BUFFER + 192;
/// Where the first one begins, behind the list of those that the kernel may fill.
const FIRST: usize = BUFFERS as usize * size_of::<BufRingEntry>();
/// The buffers' group. There is no other in the ring.
const GROUP: u16 = 0;
/// Requests that are handed over at once.
const REQUESTS: u32 = 64;
/// Results that have room until they are looked at.
const RESULTS: u32 = 1024;

const RECEIVE: u64 = 0;
const ROOM: u64 = 1 << 32;
const SEND: u64 = 2 << 32;
const CANCEL: u64 = 3 << 32;

/// A ring for the sockets of one thread, each known by its place.
pub struct Streams {
    ring: IoUring,
    incoming: Incoming,
    /// The messages that are handed over next, one after the other: the kernel reads them here.
    outgoing: Box<[u8]>,
    filled: usize,
    /// The places and ends of those messages, and how many results have been seen.
    messages: Vec<(u32, usize)>,
    results: usize,
    /// Receives and waits for room that the kernel has not ended.
    under_way: usize,
    happened: VecDeque<Happened>,
}

/// What happened at a socket.
#[derive(Debug)]
pub enum Happened {
    /// Bytes came; `Streams::take` gives them, and has to be asked.
    Came(u32, Held),
    /// The end of the stream, or an error in place of it. Nothing more will come.
    Ended(u32, Option<io::Error>),
    /// The receive is over and the stream is not: it has to be asked for again.
    Paused(u32),
    /// There is room to send.
    Room(u32),
    /// This rest of a message was not taken: there was no room, or the socket has failed.
    Unsent(u32, Vec<u8>),
}

/// Bytes that came, in one of the buffers.
#[derive(Debug)]
#[must_use = "the buffer is to be given back by `Streams::take`"]
pub struct Held {
    buffer: u16,
    length: usize,
}

impl Streams {
    /// Asks the kernel for a ring. It refuses in many containers, and where it is older than 6.1,
    /// which brought deferred task work.
    pub fn new() -> io::Result<Self> {
        let ring = IoUring::builder()
            .dontfork()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_submit_all()
            .setup_cqsize(RESULTS)
            .build(REQUESTS)?;
        let incoming = Incoming::new(&ring)?;
        Ok(Streams {
            ring,
            incoming,
            outgoing: vec![0; MOST * LONGEST].into_boxed_slice(),
            filled: 0,
            messages: Vec::with_capacity(MOST),
            results: 0,
            under_way: 0,
            happened: VecDeque::with_capacity(RESULTS as usize),
        })
    }

    /// Asks for all that arrives at the socket from now on. It has to stay open until its end is
    /// told, or `cancel` has returned.
    pub fn receive(&mut self, place: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        let request = opcode::RecvMulti::new(Fd(socket.as_raw_fd()), GROUP).build();
        self.ask(request.user_data(RECEIVE | u64::from(place)))?;
        self.under_way += 1;
        Ok(())
    }

    /// Asks to be told once when the socket has room to send.
    pub fn await_room(&mut self, place: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        let request = opcode::PollAdd::new(Fd(socket.as_raw_fd()), libc::POLLOUT as u32).build();
        self.ask(request.user_data(ROOM | u64::from(place)))?;
        self.under_way += 1;
        Ok(())
    }

    /// Lets go of a socket, which may be closed then. What has come from it may still be told.
    pub fn cancel(&mut self, place: u32) -> io::Result<()> {
        for kind in [RECEIVE, ROOM] {
            let whose = kind | u64::from(place);
            let request = opcode::AsyncCancel::new(whose).build();
            self.ask(request.user_data(CANCEL))?;
        }
        // With what was asked for it and not handed over.
        self.hand_over()
    }

    /// Lets go of all sockets. When `is_busy` says no, nothing more will be told.
    pub fn cancel_all(&mut self) -> io::Result<()> {
        let request = opcode::AsyncCancel2::new(CancelBuilder::any()).build();
        self.ask(request.user_data(CANCEL))?;
        self.hand_over()
    }

    /// Whether anything may still be told.
    pub fn is_busy(&self) -> bool {
        self.under_way > 0 || !self.messages.is_empty() || !self.happened.is_empty()
    }

    /// Whether a message of that length has room among those that are handed over next, at most one
    /// of each socket.
    pub fn has_room(&self, place: u32, length: usize) -> bool {
        self.messages.len() < MOST
            && self.outgoing.len() - self.filled >= length
            && self.messages.iter().all(|(other, _)| *other != place)
    }

    /// How many messages are to be handed over.
    pub fn messages(&self) -> usize {
        self.messages.len()
    }

    /// Takes a message that goes out with the next call. Until then its socket has to stay open.
    ///
    /// # Errors
    /// Where there is no room for it.
    pub fn send(&mut self, place: u32, socket: BorrowedFd<'_>, message: &[u8]) -> io::Result<()> {
        if !self.has_room(place, message.len()) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let end = self.filled + message.len();
        let room = &mut self.outgoing[self.filled..end];
        room.copy_from_slice(message);
        let length = u32::try_from(room.len()).map_err(io::Error::other)?;
        let request = opcode::Send::new(Fd(socket.as_raw_fd()), room.as_ptr(), length)
            .flags(libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT)
            .build();
        let number = self.messages.len() as u64;
        self.ask(request.user_data(SEND | number))?;
        self.filled = end;
        self.messages.push((place, end));
        Ok(())
    }

    /// Hands over what waits for it, and waits for nothing.
    pub fn hand_over(&mut self) -> io::Result<()> {
        self.incoming.publish();
        forgiven(self.ring.submit())?;
        self.collect()
    }

    /// Hands over what waits for it, and waits until something happens, at most so long.
    pub fn wait(&mut self, most: Duration) -> io::Result<()> {
        if !self.happened.is_empty() {
            return self.hand_over();
        }
        self.incoming.publish();
        let most = Timespec::from(most);
        let arguments = SubmitArgs::new().timespec(&most);
        // The results of the sends come at once and are nothing to wait for.
        let wanted = self.messages.len() + 1;
        forgiven(self.ring.submitter().submit_with_args(wanted, &arguments))?;
        self.collect()
    }

    /// What has happened, one after the other.
    pub fn pop(&mut self) -> Option<Happened> {
        self.happened.pop_front()
    }

    /// The rest of the socket's last message, where that was not taken: in place of `Unsent`.
    pub fn unsent(&mut self, place: u32) -> Option<Vec<u8>> {
        let is_its = |h: &Happened| matches!(h, Happened::Unsent(whose, _) if *whose == place);
        let at = self.happened.iter().position(is_its)?;
        match self.happened.remove(at)? {
            Happened::Unsent(_, rest) => Some(rest),
            _ => None,
        }
    }

    /// Copies what came to the beginning of `into`, which has to have room for 16 KiB, and gives the
    /// buffer back; returns how much it was.
    pub fn take(&mut self, held: Held, into: &mut [u8]) -> usize {
        self.incoming.take(held, into)
    }

    fn ask(&mut self, request: squeue::Entry) -> io::Result<()> {
        if self.ring.submission().is_full() {
            forgiven(self.ring.submit())?;
        }
        // SAFETY: what a request points to, the bytes of a send, is this structure's own and is
        // neither moved nor changed before the send's result has been seen (`collect`); where that
        // can't be had, it is given up to the kernel for good (`drop`).
        unsafe { self.ring.submission().push(&request) }.map_err(io::Error::other)
    }

    /// Takes the results in.
    fn collect(&mut self) -> io::Result<()> {
        self.look();
        // Sends end within the call that hands them over, so this is never entered.
        while self.results < self.messages.len() {
            forgiven(self.ring.submit_and_wait(1))?;
            self.look();
        }
        self.results = 0;
        self.messages.clear();
        self.filled = 0;
        Ok(())
    }

    fn look(&mut self) {
        for completion in self.ring.completion() {
            let (data, result, flags) = (
                completion.user_data(),
                completion.result(),
                completion.flags(),
            );
            let place = data as u32;
            let error = || io::Error::from_raw_os_error(-result);
            match data & !u64::from(u32::MAX) {
                SEND => {
                    self.results += 1;
                    let number = place as usize;
                    let Some((place, end)) = self.messages.get(number).copied() else {
                        continue;
                    };
                    let start = match number.checked_sub(1) {
                        Some(before) => self.messages[before].1,
                        None => 0,
                    };
                    let sent = usize::try_from(result).unwrap_or(0);
                    if start + sent < end {
                        let rest = self.outgoing[start + sent..end].to_vec();
                        self.happened.push_back(Happened::Unsent(place, rest));
                    }
                }
                RECEIVE => {
                    let goes_on = cqueue::more(flags);
                    if !goes_on {
                        self.under_way = self.under_way.saturating_sub(1);
                    }
                    let buffer = cqueue::buffer_select(flags);
                    match (usize::try_from(result), buffer) {
                        (Ok(length @ 1..), Some(buffer)) => {
                            let held = Held { buffer, length };
                            self.happened.push_back(Happened::Came(place, held));
                            if !goes_on {
                                self.happened.push_back(Happened::Paused(place));
                            }
                        }
                        (Ok(_), buffer) => {
                            self.incoming.give(buffer);
                            self.happened.push_back(Happened::Ended(place, None));
                        }
                        (Err(_), buffer) => {
                            self.incoming.give(buffer);
                            self.happened.push_back(match -result {
                                // All buffers are full.
                                libc::ENOBUFS | libc::EINTR | libc::EAGAIN => {
                                    Happened::Paused(place)
                                }
                                libc::ECANCELED => continue,
                                _ => Happened::Ended(place, Some(error())),
                            });
                        }
                    }
                }
                ROOM => {
                    self.under_way = self.under_way.saturating_sub(1);
                    if result != -libc::ECANCELED {
                        self.happened.push_back(Happened::Room(place));
                    }
                }
                _ => {} // whether there was anything to cancel
            }
        }
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        let until = Instant::now() + Duration::from_secs(2);
        let mut works = self.cancel_all().is_ok();
        // What is cancelled is told at once, but not all in one call.
        while works && self.under_way > 0 && Instant::now() < until {
            self.happened.clear();
            works = self.wait(Duration::from_millis(10)).is_ok();
        }
        if !works || self.under_way > 0 || !self.messages.is_empty() {
            // The kernel might still write into the one and read from the other.
            std::mem::forget(self.incoming.memory.take());
            std::mem::forget(std::mem::take(&mut self.outgoing));
        }
    }
}

/// The buffers that the kernel fills, and the list of those that it may fill next.
struct Incoming {
    /// There until it is dropped or given up.
    memory: Option<MmapMut>,
    base: *mut u8,
    /// How many buffers have been given, of which the kernel knows when it is published.
    tail: u16,
}

impl Incoming {
    fn new(ring: &IoUring) -> io::Result<Self> {
        let mut memory = MmapMut::map_anon(FIRST + usize::from(BUFFERS) * STRIDE)?;
        let base = memory.as_mut_ptr();
        let mut incoming = Incoming {
            memory: Some(memory),
            base,
            tail: 0,
        };
        for buffer in 0..BUFFERS {
            incoming.give(Some(buffer));
        }
        incoming.publish();
        // SAFETY: the list lies at the beginning of the map, which is aligned to a page and has room
        // for so many entries, and stays until the ring has no request under way that could use it
        // (`Streams::drop`).
        unsafe {
            ring.submitter()
                .register_buf_ring_with_flags(base as u64, BUFFERS, GROUP, 0)?;
        }
        Ok(incoming)
    }

    /// Puts a buffer at the end of the list.
    fn give(&mut self, buffer: Option<u16>) {
        let Some(buffer) = buffer.filter(|buffer| *buffer < BUFFERS) else {
            return;
        };
        let at = usize::from(self.tail % BUFFERS);
        // SAFETY: both lie within the map. The kernel reads no entry from the tail on, which is
        // published after this.
        unsafe {
            let address = self.base.add(FIRST + usize::from(buffer) * STRIDE);
            let entry = &mut *self.base.cast::<BufRingEntry>().add(at);
            entry.set_addr(address as u64);
            entry.set_len(BUFFER as u32);
            entry.set_bid(buffer);
        }
        self.tail = self.tail.wrapping_add(1);
    }

    /// Lets the kernel see what was given.
    fn publish(&self) {
        // SAFETY: the tail lies within the list's first entry, aligned as a u16, and only this thread
        // writes it.
        let tail = unsafe { &*BufRingEntry::tail(self.base.cast()).cast::<AtomicU16>() };
        tail.store(self.tail, Ordering::Release);
    }

    fn take(&mut self, held: Held, into: &mut [u8]) -> usize {
        let length = held.length.min(BUFFER).min(into.len());
        let at = FIRST + usize::from(held.buffer % BUFFERS) * STRIDE;
        // SAFETY: the buffer lies within the map and does not overlap `into`; the kernel has filled it
        // and won't write to it before it is given again.
        unsafe { std::ptr::copy_nonoverlapping(self.base.add(at), into.as_mut_ptr(), length) };
        self.give(Some(held.buffer));
        length
    }
}

/// What a call gave, where the time being over, a signal, or results that wait to be taken in are no
/// errors.
fn forgiven(outcome: io::Result<usize>) -> io::Result<()> {
    match outcome {
        Err(error)
            if !matches!(
                error.raw_os_error(),
                Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN)
            ) =>
        {
            Err(error)
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;

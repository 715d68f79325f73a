//! A conversation over two streams, divided into channels.
//!
//! A reader thread distributes what comes, a writer thread writes what is sent, the channels in turn, and a
//! heartbeat a second, so that neither side waits for the other longer than it wants to. Whoever hears nothing
//! for [`SILENCE`] seconds of its own takes the link for lost, and so does who takes nothing of what has come for
//! as long while there is no room for more.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::frame::{self, Frame, MAX_BODY};

mod lost;
mod preamble;
mod stream;
#[cfg(test)]
mod tests;

pub use lost::Lost;
use preamble::PREAMBLE;
pub use stream::{Incoming, Outgoing};

/// How often a side that has nothing to say says so.
pub const HEARTBEAT: Duration = Duration::from_secs(1);

/// After so many seconds without a sign of life the link is lost.
pub const SILENCE: u32 = 5;

/// The link's own channel: heartbeats, which are empty, and what [`crate::hello`] says.
pub(crate) const OWN: u16 = 0;

/// The longest message on the link's own channel.
const LONGEST_HELLO: usize = 64 << 10;

/// How many seconds the other side has after a request to stop; then the link is lost.
pub const STOPPING: u32 = 20;

/// What is received and not yet asked for; then the other side has to wait.
const INBOX_BYTES: usize = 64 << 20;

/// The same of channels that nobody has opened here; then the link is broken off.
const UNOPENED_BYTES: usize = 32 << 20;

/// What is sent and not yet written on one channel; then the sender has to wait.
const OUTBOX_BYTES: usize = 1 << 20;

/// How long what was sent may take to be written when the link is closed.
const CLOSING: Duration = Duration::from_secs(2);

/// Stack of the two threads, which call little.
const STACK: usize = 128 << 10;

/// A conversation with another process. Dropped, it writes what was sent and closes the stream.
#[derive(Debug)]
pub struct Link {
    shared: Arc<Shared>,
}

/// One numbered part of the conversation. Clones are the same channel.
#[derive(Debug, Clone)]
pub struct Channel {
    number: u16,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Something in it is different.
    changed: Condvar,
    /// The other end, where it is in this process.
    peer: OnceLock<Weak<Shared>>,
    /// Set by who asks the work on this link to stop.
    stop: OnceLock<Arc<AtomicBool>>,
}

#[derive(Debug, Default)]
struct State {
    inbox: BTreeMap<u16, Inbox>,
    /// Bytes in all of them, and in those that are not opened.
    received: usize,
    unopened: usize,
    outbox: Outbox,
    /// The writer holds a frame that is in the outbox no more.
    writing: bool,
    /// The other side has begun to speak.
    greeted: bool,
    /// The one message that there is on the link's own channel has come.
    hello_came: bool,
    /// Seconds since a stop was asked for.
    stopping: u32,
    /// Seconds without a sign of life.
    silent: u32,
    /// The reader waits for room.
    stalled: bool,
    lost: Option<Lost>,
}

/// What is to be written. Channels take turns, so that a word need not wait for the whole of a file.
#[derive(Debug, Default)]
struct Outbox {
    /// Those with something to write, and how many bytes.
    channels: BTreeMap<u16, (VecDeque<Vec<u8>>, usize)>,
    /// The channel that wrote last.
    last: u16,
}

impl Outbox {
    fn is_empty(&self) -> bool {
        self.channels.is_empty()
    }

    fn unwritten(&self, channel: u16) -> usize {
        self.channels.get(&channel).map_or(0, |(_, bytes)| *bytes)
    }

    fn push(&mut self, channel: u16, body: Vec<u8>) {
        let (bodies, bytes) = self.channels.entry(channel).or_default();
        *bytes += body.len();
        bodies.push_back(body);
    }

    /// The first of the channel whose turn it is.
    fn pop(&mut self) -> Option<Frame> {
        let behind = (Bound::Excluded(self.last), Bound::Unbounded);
        let next = self.channels.range(behind).next();
        let channel = *next.or_else(|| self.channels.iter().next())?.0;
        let (bodies, bytes) = self.channels.get_mut(&channel)?;
        let body = bodies.pop_front()?;
        *bytes -= body.len();
        if bodies.is_empty() {
            self.channels.remove(&channel);
        }
        self.last = channel;
        Some(Frame { channel, body })
    }
}

#[derive(Debug, Default)]
struct Inbox {
    opened: bool,
    bodies: VecDeque<Vec<u8>>,
}

/// What a received message takes; an empty one takes some, too.
fn room(body: &[u8]) -> usize {
    body.len() + 64
}

impl Link {
    /// Speaks over these streams. The other side may take its time until it begins; from then on it
    /// has to show signs of life.
    ///
    /// # Errors
    /// Where no thread can be started.
    pub fn new(
        reader: impl Read + Send + 'static,
        writer: impl Write + Send + 'static,
    ) -> io::Result<Self> {
        let link = Self::idle();
        let shared = Arc::clone(&link.shared);
        start("far-reader", move || receive(&shared, reader))?;
        let shared = Arc::clone(&link.shared);
        start("far-writer", move || deliver(&shared, writer))?;
        watch_over(&link.shared)?;
        Ok(link)
    }

    /// Two ends in this process, for tests and simulations. They have no threads and show no signs of life.
    pub fn pair() -> (Self, Self) {
        let (a, b) = (Self::idle(), Self::idle());
        for (one, other) in [(&a, &b), (&b, &a)] {
            let _ = one.shared.peer.set(Arc::downgrade(&other.shared));
            one.shared.state().greeted = true;
        }
        (a, b)
    }

    fn idle() -> Self {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            changed: Condvar::new(),
            peer: OnceLock::new(),
            stop: OnceLock::new(),
        });
        Self { shared }
    }

    /// A channel by its number, from 1 on. What came on it before is kept for it.
    pub fn channel(&self, number: u16) -> Channel {
        self.shared.open(number);
        Channel {
            number,
            shared: Arc::clone(&self.shared),
        }
    }

    /// Has the link lost [`STOPPING`] seconds after this flag is set, so that nothing which waits for the other
    /// side waits longer.
    pub fn end_after(&self, stop: &Arc<AtomicBool>) {
        let _ = self.shared.stop.set(Arc::clone(stop));
    }

    /// Whether the link stands.
    ///
    /// # Errors
    /// Why it does not.
    pub fn check(&self) -> Result<(), Lost> {
        self.shared.state().lost.clone().map_or(Ok(()), Err)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let until = Instant::now() + CLOSING;
        let shared = &self.shared;
        let mut state = shared.state();
        while shared.peer.get().is_none()
            && state.lost.is_none()
            && (state.writing || !state.outbox.is_empty())
        {
            let Some(left) = until.checked_duration_since(Instant::now()) else {
                break;
            };
            state = shared.wait(state, left);
        }
        drop(state);
        shared.lose(Lost::Closed);
        if let Some(peer) = shared.peer.get().and_then(Weak::upgrade) {
            peer.lose(Lost::Ended);
        }
    }
}

impl Channel {
    /// Its number.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Sends a message, and waits only while many others are not yet written.
    ///
    /// # Errors
    /// Where the link is lost, or the message is longer than a frame may be.
    pub fn send<T: Serialize + ?Sized>(&self, message: &T) -> Result<(), Lost> {
        let body = serde_json::to_vec(message).map_err(|e| Lost::Unsayable(e.to_string()))?;
        self.send_bytes(body)
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    /// Like [`Self::send`].
    pub fn send_bytes(&self, body: Vec<u8>) -> Result<(), Lost> {
        self.shared.send(self.number, body)
    }

    /// The next message; none if the time is over before one comes. What came before the link was
    /// lost is received still.
    ///
    /// # Errors
    /// Where the link is lost, or what came is not what was expected; then the link is given up.
    pub fn recv<T: DeserializeOwned>(&self, timeout: Duration) -> Result<Option<T>, Lost> {
        let Some(body) = self.recv_bytes(timeout)? else {
            return Ok(None);
        };
        serde_json::from_slice(&body).map(Some).map_err(|error| {
            let lost = Lost::Nonsense(format!("on channel {}: {error}", self.number));
            self.shared.lose(lost.clone());
            lost
        })
    }

    /// The next message as bytes.
    ///
    /// # Errors
    /// Where the link is lost.
    pub fn recv_bytes(&self, timeout: Duration) -> Result<Option<Vec<u8>>, Lost> {
        self.shared.receive(self.number, timeout)
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>, time: Duration) -> MutexGuard<'a, State> {
        let waited = self.changed.wait_timeout(state, time);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// The first reason stays.
    fn lose(&self, why: Lost) {
        self.state().lost.get_or_insert(why);
        self.changed.notify_all();
    }

    fn open(&self, number: u16) {
        let mut state = self.state();
        let inbox = state.inbox.entry(number).or_default();
        if !inbox.opened {
            inbox.opened = true;
            let waiting: usize = inbox.bodies.iter().map(|body| room(body)).sum();
            state.unopened -= waiting;
        }
    }

    fn send(&self, number: u16, body: Vec<u8>) -> Result<(), Lost> {
        if body.len() > MAX_BODY {
            let why = format!("{} bytes, and at most {MAX_BODY} are allowed", body.len());
            return Err(Lost::Unsayable(why));
        }
        if let Some(peer) = self.peer.get() {
            if let Some(lost) = &self.state().lost {
                return Err(lost.clone());
            }
            return match peer.upgrade() {
                Some(peer) if peer.take_in(number, body) => Ok(()),
                _ => Err(Lost::Ended),
            };
        }
        let mut state = self.state();
        while state.outbox.unwritten(number) > OUTBOX_BYTES && state.lost.is_none() {
            state = self.wait(state, HEARTBEAT);
        }
        if let Some(lost) = &state.lost {
            return Err(lost.clone());
        }
        state.outbox.push(number, body);
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    fn receive(&self, number: u16, timeout: Duration) -> Result<Option<Vec<u8>>, Lost> {
        let until = Instant::now().checked_add(timeout);
        let mut state = self.state();
        loop {
            let inbox = state.inbox.entry(number).or_default();
            if let Some(body) = inbox.bodies.pop_front() {
                state.received -= room(&body);
                let stalled = state.stalled;
                if stalled {
                    // The other side is not silent: it waits for us.
                    state.silent = 0;
                }
                drop(state);
                if stalled {
                    self.changed.notify_all();
                }
                return Ok(Some(body));
            }
            if let Some(lost) = &state.lost {
                return Err(lost.clone());
            }
            let left = match until {
                Some(until) => until.saturating_duration_since(Instant::now()),
                None => HEARTBEAT,
            };
            if left.is_zero() {
                return Ok(None);
            }
            state = self.wait(state, left);
        }
    }

    /// Puts away what came, when there is room for it; whether somebody is still there to want it.
    fn take_in(&self, number: u16, body: Vec<u8>) -> bool {
        let mut state = self.state();
        state.silent = 0;
        if number == OWN && body.is_empty() {
            return state.lost.is_none();
        }
        // Nobody reads that channel after the hello.
        if number == OWN
            && (std::mem::replace(&mut state.hello_came, true) || body.len() > LONGEST_HELLO)
        {
            drop(state);
            self.lose(Lost::Nonsense(
                "more than a hello on the link's own channel".to_owned(),
            ));
            return false;
        }
        while state.received > INBOX_BYTES && state.lost.is_none() {
            state.stalled = true;
            state = self.wait(state, HEARTBEAT);
        }
        state.stalled = false;
        if state.lost.is_some() {
            return false;
        }
        let room = room(&body);
        state.received += room;
        let inbox = state.inbox.entry(number).or_default();
        inbox.bodies.push_back(body);
        if !inbox.opened {
            state.unopened += room;
            if state.unopened > UNOPENED_BYTES || state.inbox.len() > 1024 {
                drop(state);
                self.lose(Lost::Nonsense(format!(
                    "too much on channel {number}, which nobody listens to"
                )));
                return false;
            }
        }
        drop(state);
        self.changed.notify_all();
        true
    }
}

/// Bytes that come, each of them a sign of life: a long message takes its time on a slow way.
struct Alive<'a, R> {
    shared: &'a Shared,
    reader: R,
}

impl<R: Read> Read for Alive<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let got = self.reader.read(into)?;
        self.shared.state().silent = 0;
        Ok(got)
    }
}

/// The reader thread.
fn receive(shared: &Shared, reader: impl Read) {
    let mut reader = BufReader::with_capacity(64 << 10, Alive { shared, reader });
    let why = match preamble::find(&mut reader) {
        Err(lost) => lost,
        Ok(()) => {
            shared.state().greeted = true;
            loop {
                match frame::read(&mut reader) {
                    Ok(Some(frame)) => {
                        if !shared.take_in(frame.channel, frame.body) {
                            return;
                        }
                    }
                    Ok(None) => break Lost::Ended,
                    Err(frame::Broken::Io(error)) => break Lost::Broken(error.to_string()),
                    Err(frame::Broken::Cut) => break Lost::Ended,
                    Err(broken) => break Lost::Nonsense(broken.to_string()),
                }
            }
        }
    };
    shared.lose(why);
}

/// The writer thread. It ends, and closes its stream, when the link is lost or closed.
fn deliver(shared: &Shared, writer: impl Write) {
    let mut writer = BufWriter::with_capacity(64 << 10, writer);
    let mut written = writer.write_all(PREAMBLE).and_then(|()| writer.flush());
    let mut state = shared.state();
    loop {
        if let Err(error) = written {
            // The reader knows better where the stream has ended on both sides.
            drop(state);
            if error.kind() == io::ErrorKind::BrokenPipe {
                thread::sleep(Duration::from_millis(100));
                return shared.lose(Lost::Ended);
            }
            return shared.lose(Lost::Broken(error.to_string()));
        }
        if state.lost.is_some() {
            // Its end is what the other side sees now; a stuck one would hold it up.
            drop(state);
            drop(writer.into_parts().0);
            return;
        }
        let frame = state.outbox.pop();
        state.writing = true;
        let last = state.outbox.is_empty();
        drop(state);
        written = match &frame {
            Some(frame) => frame::write(&mut writer, frame.channel, &frame.body),
            None => frame::write(&mut writer, OWN, &[]),
        };
        if last && written.is_ok() {
            written = writer.flush();
        }
        state = shared.state();
        state.writing = false;
        shared.changed.notify_all();
        let until = Instant::now() + HEARTBEAT;
        while state.outbox.is_empty() && state.lost.is_none() {
            let Some(left) = until.checked_duration_since(Instant::now()) else {
                break;
            };
            state = shared.wait(state, left);
        }
    }
}

fn start(name: &str, what: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let thread = thread::Builder::new().name(name.to_owned());
    thread.stack_size(STACK).spawn(what).map(drop)
}

/// All links of this process that need signs of life.
static WATCHED: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());

/// Counts a link's seconds of silence from here on, in a thread that never waits for a stream. A
/// process that is itself held up counts none of that time.
fn watch_over(shared: &Arc<Shared>) -> io::Result<()> {
    static TICKS: OnceLock<()> = OnceLock::new();
    let watched = || WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
    let mut links = watched();
    links.push(Arc::downgrade(shared));
    if TICKS.get().is_none() {
        start("far-silence", move || {
            loop {
                thread::sleep(HEARTBEAT);
                watched().retain(|link| link.upgrade().is_some_and(|link| link.tick()));
            }
        })?;
        let _ = TICKS.set(());
    }
    Ok(())
}

impl Shared {
    /// A second has passed; whether the link is still to be watched.
    fn tick(&self) -> bool {
        let mut state = self.state();
        if state.lost.is_some() {
            return false;
        }
        // Also while the reader waits for room: nobody here takes anything then.
        if state.greeted {
            state.silent += 1;
        }
        if self
            .stop
            .get()
            .is_some_and(|stop| stop.load(Ordering::SeqCst))
        {
            state.stopping += 1;
        }
        let lost = match (state.silent >= SILENCE, state.stopping > STOPPING) {
            (_, true) => Lost::Unstopped,
            (true, false) => Lost::Silent,
            (false, false) => return true,
        };
        drop(state);
        self.lose(lost);
        false
    }
}

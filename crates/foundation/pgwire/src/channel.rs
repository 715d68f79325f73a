//! Whole messages over a transport, with deadlines and bounds: what a server
//! sends can't make us wait for ever, grow without limit or panic.

use super::transport::Transport;
use bytes::BytesMut;
use postgres_protocol::message::backend::{self, Message};
use std::io;
use std::time::Instant;

/// The longest message taken; a row or a copied block may be that large.
pub(super) const LONG_MESSAGE: usize = 64 << 20;

/// The longest message of a kind that is always short. libpq draws the same
/// line to notice that it has lost the thread (fe-protocol3.c, 30,000 bytes).
const SHORT_MESSAGE: usize = 30_000;

/// Bytes read at a time.
const CHUNK: usize = 16 * 1024;

/// Why no message came.
#[derive(Debug)]
pub(super) enum ChannelError {
    /// The peer closed; in the middle of a message if true.
    Closed { midway: bool },
    /// The deadline passed.
    Timeout,
    /// The bytes are no message.
    Protocol(String),
    /// The socket failed.
    Io(io::Error),
}

/// A transport and what was read from it ahead.
pub(super) struct Channel {
    /// `None` once it was handed over or given up.
    transport: Option<Transport>,
    inbox: BytesMut,
}

impl Channel {
    pub fn new(transport: Transport) -> Channel {
        Channel {
            transport: Some(transport),
            inbox: BytesMut::new(),
        }
    }

    pub fn transport(&self) -> Option<&Transport> {
        self.transport.as_ref()
    }

    /// Hands the transport over with what was read and not used.
    pub fn take(&mut self) -> Option<(Transport, Vec<u8>)> {
        let unread = self.inbox.split().to_vec();
        self.transport.take().map(|transport| (transport, unread))
    }

    fn open(&mut self) -> Result<&mut Transport, ChannelError> {
        self.transport
            .as_mut()
            .ok_or(ChannelError::Closed { midway: false })
    }

    /// Sends all of it. What the server sends meanwhile is taken in, so that
    /// neither side blocks the other.
    pub fn send(
        &mut self,
        mut bytes: &[u8],
        deadline: Option<Instant>,
    ) -> Result<(), ChannelError> {
        self.send_on(&mut bytes, deadline)
    }

    /// As `send`; after `Timeout`, `bytes` is what is left to be sent, and it can be gone on with.
    pub fn send_on(
        &mut self,
        bytes: &mut &[u8],
        deadline: Option<Instant>,
    ) -> Result<(), ChannelError> {
        while !bytes.is_empty() || self.open()?.wants_write() {
            let transport = self.open()?;
            let outcome = if bytes.is_empty() {
                transport.flush().map(|()| 0)
            } else {
                transport.write(bytes)
            };
            match outcome {
                Ok(n) => *bytes = &bytes[n..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let with_read = self.inbox.len() < LONG_MESSAGE;
                    if !self
                        .open()?
                        .wait(with_read, true, deadline)
                        .map_err(ChannelError::Io)?
                    {
                        return Err(ChannelError::Timeout);
                    }
                    if with_read {
                        self.take_in()?;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.lost(error)),
            }
        }
        Ok(())
    }

    /// Sends what fits at once, for a farewell.
    pub fn send_best_effort(&mut self, bytes: &[u8]) {
        if let Some(transport) = &mut self.transport {
            let _ = transport.write(bytes);
        }
    }

    /// One byte that is no message: the answer to an SSLRequest. Nothing may
    /// follow it in the clear, as that would be taken for encrypted data
    /// (CVE-2021-23222).
    pub fn one_byte(&mut self, deadline: Option<Instant>) -> Result<u8, ChannelError> {
        while self.inbox.is_empty() {
            self.fill(deadline)?;
        }
        match (self.inbox[0], self.inbox.len()) {
            // An error from a server that knows no SSLRequest: leave it to `message`.
            (b'E', _) => Ok(b'E'),
            (byte, 1) => {
                self.inbox.clear();
                Ok(byte)
            }
            _ => Err(ChannelError::Protocol(
                "unencrypted data follows the answer to the request for TLS".to_owned(),
            )),
        }
    }

    /// The next message, before the deadline.
    pub fn message(&mut self, deadline: Option<Instant>) -> Result<Message, ChannelError> {
        loop {
            if let Some(message) = self.buffered_message()? {
                return Ok(message);
            }
            self.fill(deadline)?;
        }
    }

    /// A message that has already been read whole, if there is one.
    pub fn buffered_message(&mut self) -> Result<Option<Message>, ChannelError> {
        let protocol = |error: io::Error| ChannelError::Protocol(error.to_string());
        let Some(header) = backend::Header::parse(&self.inbox).map_err(protocol)? else {
            return Ok(None);
        };
        let limit = limit(header.tag());
        let length = usize::try_from(header.len()).unwrap_or(usize::MAX);
        if length > limit {
            return Err(ChannelError::Protocol(format!(
                "a message of type {:?} announces {length} bytes, at most {limit} are taken",
                char::from(header.tag())
            )));
        }
        if self.inbox.len() <= length {
            return Ok(None);
        }
        Message::parse(&mut self.inbox).map_err(protocol)
    }

    /// Whether an error is among the messages that have been read whole.
    pub fn has_error_buffered(&self) -> bool {
        let mut rest: &[u8] = &self.inbox;
        while let Ok(Some(header)) = backend::Header::parse(rest) {
            if header.tag() == backend::ERROR_RESPONSE_TAG {
                return true;
            }
            let Some(after) = rest.get(1 + usize::try_from(header.len()).unwrap_or(0)..) else {
                return false;
            };
            rest = after;
        }
        false
    }

    /// Takes in what has arrived, without waiting.
    pub fn take_in(&mut self) -> Result<(), ChannelError> {
        let mut chunk = [0; CHUNK];
        match self.open()?.read(&mut chunk) {
            Ok(0) => Err(ChannelError::Closed {
                midway: !self.inbox.is_empty(),
            }),
            Ok(n) => {
                self.inbox.extend_from_slice(&chunk[..n]);
                Ok(())
            }
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(()),
                _ => Err(self.lost(error)),
            },
        }
    }

    /// Reads at least one byte, waiting for it.
    fn fill(&mut self, deadline: Option<Instant>) -> Result<(), ChannelError> {
        loop {
            let before = self.inbox.len();
            self.take_in()?;
            if self.inbox.len() > before {
                return Ok(());
            }
            if !self
                .open()?
                .wait(true, false, deadline)
                .map_err(ChannelError::Io)?
            {
                return Err(ChannelError::Timeout);
            }
        }
    }

    /// A reset by the peer is as good as a close; the rest is an I/O error.
    fn lost(&self, error: io::Error) -> ChannelError {
        match error.kind() {
            io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionAborted => ChannelError::Closed {
                midway: !self.inbox.is_empty(),
            },
            _ => ChannelError::Io(error),
        }
    }
}

/// How long a message of that type may be.
fn limit(tag: u8) -> usize {
    match tag {
        b'T' | b'D' | b'd' | b'V' | b'E' | b'N' | b'A' => LONG_MESSAGE,
        _ => SHORT_MESSAGE,
    }
}

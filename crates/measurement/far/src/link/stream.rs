//! A channel as streams of bytes, for a conversation that is carried within another.

use std::io::{self, Read, Write};

use super::{Channel, HEARTBEAT, Lost};

/// Bytes of a message at most.
const MOST: usize = 64 << 10;

/// What comes on a channel. An empty message is the end.
#[derive(Debug)]
pub struct Incoming {
    channel: Channel,
    body: Vec<u8>,
    at: usize,
    ended: bool,
}

/// What goes out on a channel. Dropped, it says that this is the end.
#[derive(Debug)]
pub struct Outgoing {
    channel: Channel,
}

impl Channel {
    /// The two directions. Nothing else may be sent or received on the channel then.
    pub fn streams(&self) -> (Incoming, Outgoing) {
        let incoming = Incoming {
            channel: self.clone(),
            body: Vec::new(),
            at: 0,
            ended: false,
        };
        let channel = self.clone();
        (incoming, Outgoing { channel })
    }
}

impl Read for Incoming {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.at == self.body.len() && !self.ended {
            match self.channel.recv_bytes(HEARTBEAT) {
                Ok(None) => {}
                Ok(Some(body)) => {
                    self.ended = body.is_empty();
                    (self.body, self.at) = (body, 0);
                }
                Err(Lost::Closed | Lost::Ended) => self.ended = true,
                Err(lost) => return Err(io::Error::other(lost)),
            }
        }
        let left = &self.body[self.at..];
        let count = left.len().min(into.len());
        into[..count].copy_from_slice(&left[..count]);
        self.at += count;
        Ok(count)
    }
}

impl Write for Outgoing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = &bytes[..bytes.len().min(MOST)];
        if !piece.is_empty() {
            self.channel
                .send_bytes(piece.to_vec())
                .map_err(|lost| io::Error::new(io::ErrorKind::BrokenPipe, lost))?;
        }
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        drop(self.channel.send_bytes(Vec::new()));
    }
}

//! `COPY … FROM STDIN`: bytes in, in large messages.

use super::{ResultSet, Session};
use crate::error::{QueryError, ServerError};
use crate::interrupt::Hearing;
use bytes::BytesMut;
use postgres_protocol::message::backend::Message;
use postgres_protocol::message::frontend;
use std::io;

/// How much data goes into one message: large enough that the message's
/// header and the system call cost nothing beside the copying.
const BATCH: usize = 128 * 1024;

/// Header of a CopyData message: its tag and length.
const HEADER: usize = 5;

/// A copy under way. Write the data into it, then `finish`; dropped before
/// that, it tells the server to undo the copy.
pub struct CopyIn<'a> {
    session: &'a mut Session,
    /// A CopyData message whose header is filled in when it is sent.
    message: Vec<u8>,
    finished: bool,
}

impl<'a> CopyIn<'a> {
    pub(super) fn new(session: &'a mut Session) -> CopyIn<'a> {
        let mut message = Vec::with_capacity(HEADER + BATCH);
        message.resize(HEADER, 0);
        CopyIn {
            session,
            message,
            finished: false,
        }
    }

    /// Adds data; it is sent when a batch is full.
    pub fn put(&mut self, mut data: &[u8]) -> Result<(), QueryError> {
        while !data.is_empty() {
            let room = HEADER + BATCH - self.message.len();
            let (now, later) = data.split_at(room.min(data.len()));
            self.message.extend_from_slice(now);
            data = later;
            if self.message.len() == HEADER + BATCH {
                self.send_batch()?;
            }
        }
        Ok(())
    }

    /// Ends the copy and returns how many rows the server took.
    pub fn finish(mut self) -> Result<u64, QueryError> {
        self.send_batch()?;
        self.finished = true;
        let mut out = BytesMut::new();
        frontend::copy_done(&mut out);
        self.session.send(&out)?;
        let result = self.conclude()?;
        Ok(result.affected().unwrap_or(0))
    }

    fn send_batch(&mut self) -> Result<(), QueryError> {
        let length = self.message.len() - 1;
        if length == HEADER - 1 {
            return Ok(());
        }
        self.message[0] = b'd';
        self.message[1..HEADER].copy_from_slice(&u32::try_from(length).unwrap_or(0).to_be_bytes());
        let outcome = self.session.send(&self.message);
        self.message.truncate(HEADER);
        outcome?;
        self.look_for_an_error()
    }

    /// The server says at once when a row is wrong; there is no point in
    /// sending it the rest.
    fn look_for_an_error(&mut self) -> Result<(), QueryError> {
        if let Err(error) = self.session.channel.take_in() {
            return Err(self.session.lost(error));
        }
        if !self.session.channel.has_error_buffered() {
            return Ok(());
        }
        self.finished = true;
        // After an error the server ignores what is left of the copy.
        match self.conclude() {
            Err(error) => Err(error),
            Ok(_) => Err(self.session.garbled("a COPY that ended before its data")),
        }
    }

    /// Reads up to ReadyForQuery.
    fn conclude(&mut self) -> Result<ResultSet, QueryError> {
        let mut result = ResultSet::default();
        let mut failure = None;
        let mut hearing = Hearing::begin();
        loop {
            match self.session.receive(&mut hearing)? {
                Message::CommandComplete(body) => {
                    let tag = body.tag().map(str::to_owned);
                    result.tag = self.session.parsed(tag)?;
                }
                Message::ErrorResponse(body) => {
                    let error = ServerError::read(body.fields());
                    failure = Some(QueryError::Server(Box::new(self.session.parsed(error)?)));
                }
                Message::ReadyForQuery(body) => {
                    self.session.ready(body.status())?;
                    return failure.map_or(Ok(result), Err);
                }
                _ => return Err(self.session.garbled("a message out of place in a COPY")),
            }
        }
    }
}

impl io::Write for CopyIn<'_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.put(buf).map_err(io::Error::other)?;
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send_batch().map_err(io::Error::other)
    }
}

impl Drop for CopyIn<'_> {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        let mut out = BytesMut::new();
        if frontend::copy_fail("the copy was abandoned", &mut out).is_ok()
            && self.session.send(&out).is_ok()
        {
            // The error that this provokes is expected.
            let _ = self.conclude();
        }
    }
}

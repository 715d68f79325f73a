//! What a server's bytes mean to a client under load: a state machine without I/O.
//!
//! It is fed bytes as they come, cut anywhere, and looks at headers only: the body of a row that no
//! script wants is skipped unread. What is kept: the end of each exchange (ReadyForQuery), errors,
//! and the columns and last row of a result that `\gset` or `\aset` asked for. Lengths are held
//! against what libpq believes, and messages against what can come at all, so that a server that
//! sends garbage is found out rather than followed.
//!
//! Source: PostgreSQL's manual, "Message Formats"; the limits on lengths as in libpq.

use bytes::{BufMut, BytesMut};
use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend::Message;
use thiserror::Error;

use super::failure::Failure;

/// The transaction status that ReadyForQuery tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TxStatus {
    /// Outside of a transaction block.
    #[default]
    Idle,
    /// Inside of one.
    InBlock,
    /// Inside of one that has failed.
    Failed,
}

/// Why the conversation can't go on.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum WireError {
    /// A message with a length that it can't have.
    #[error("the server sent a message of type {kind:?} with a length of {length}")]
    Length {
        /// the type byte
        kind: char,
        /// the length field
        length: i64,
    },
    /// A message that has no place here.
    #[error("the server sent an unexpected message of type {0:?}")]
    Unexpected(char),
    /// A body that does not parse.
    #[error("the server sent a malformed message of type {0:?}")]
    Malformed(char),
    /// COPY, which a load script can't feed.
    #[error("COPY is not supported in a load script")]
    Copy,
}

/// One statement's rows, as far as a capture needs them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// The columns' names; empty for a statement without rows.
    pub columns: Vec<String>,
    /// The last row's values, NULL as `None`.
    pub last_row: Vec<Option<String>>,
    /// How many rows there were.
    pub rows: u64,
    /// Whether it returns rows at all.
    pub has_rows: bool,
}

/// What ended with a ReadyForQuery.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Exchange {
    /// The transaction status now.
    pub status: TxStatus,
    /// The first error in it.
    pub failure: Option<Box<Failure>>,
    /// How many statements had ended before the error, where they were counted.
    pub ended: u32,
    /// The statements' results, where asked for.
    pub captured: Vec<Captured>,
}

/// What became of the bytes.
#[derive(Debug, PartialEq, Eq)]
pub enum Fed {
    /// All are used; the exchange goes on.
    More,
    /// So many are used, and an exchange has ended.
    Ready(usize),
    /// So many are used, and the server has said something that [`Wire::notice`] gives.
    Notice(usize),
}

/// What is kept of an exchange besides its end and its first error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// Nothing.
    #[default]
    Nothing,
    /// How many statements have ended: which of several failed.
    Count,
    /// The columns and the last row of each statement.
    Rows,
}

const HEADER: usize = 5;
/// Messages that are never long are believed up to here (as in libpq).
const SHORT_LIMIT: usize = 30_000;
/// No message is longer than what the server can allocate.
const LONG_LIMIT: usize = 0x3fff_ffff;

/// The state of one connection's incoming bytes.
#[derive(Debug, Default)]
pub struct Wire {
    header: [u8; HEADER],
    header_length: u8,
    /// The type of the message whose body is being read.
    kind: u8,
    in_body: bool,
    remaining: usize,
    /// The body of a message that is wanted, and only of that.
    body: Vec<u8>,
    expected: u32,
    keep: Keep,
    /// Whether notices are wanted.
    hears_notices: bool,
    failure: Option<Box<Failure>>,
    notice: Option<Box<Failure>>,
    /// Statements that have ended in this exchange, where they are counted.
    ended: u32,
    captured: Vec<Captured>,
    current: Option<Captured>,
}

impl Wire {
    /// Announces a request whose end the server marks by ReadyForQuery.
    pub fn expect(&mut self, keep: Keep) {
        self.expected += 1;
        self.keep = keep;
    }

    /// Sets whether notices are wanted; they are skipped otherwise.
    pub fn hear_notices(&mut self, wanted: bool) {
        self.hears_notices = wanted;
    }

    /// Whether notices are wanted.
    pub(super) fn hears_notices(&self) -> bool {
        self.hears_notices
    }

    /// The notice that has just come.
    pub fn notice(&mut self) -> Option<Box<Failure>> {
        self.notice.take()
    }

    /// How many ends are still to come.
    pub fn expected(&self) -> u32 {
        self.expected
    }

    /// The error that came outside of any exchange, or in one that has not ended: why the server
    /// closed the connection.
    pub fn pending_failure(&mut self) -> Option<Box<Failure>> {
        self.failure.take()
    }

    /// Takes bytes up to the next ReadyForQuery.
    pub fn feed(&mut self, input: &[u8]) -> Result<Fed, WireError> {
        let mut at = 0;
        loop {
            if !self.in_body && self.header_length == 0 {
                at += self.skip(&input[at..]);
            }
            if self.in_body {
                let take = self.remaining.min(input.len() - at);
                let chunk = &input[at..at + take];
                at += take;
                self.remaining -= take;
                if self.wanted() {
                    if self.remaining > 0 || !self.body.is_empty() {
                        self.body.extend_from_slice(chunk);
                        if self.remaining > 0 {
                            return Ok(Fed::More);
                        }
                        let body = std::mem::take(&mut self.body);
                        let ready = self.finish(&body)?;
                        // The room is kept for the next message, unless it grew large.
                        if body.capacity() <= 1024 {
                            self.body = body;
                            self.body.clear();
                        }
                        if ready {
                            return Ok(Fed::Ready(at));
                        }
                    } else if self.finish(chunk)? {
                        return Ok(Fed::Ready(at));
                    }
                    if self.notice.is_some() {
                        return Ok(Fed::Notice(at));
                    }
                } else if self.remaining > 0 {
                    return Ok(Fed::More);
                } else {
                    self.in_body = false;
                }
            }
            let rest = &input[at..];
            if self.header_length == 0 && rest.len() >= HEADER {
                let header = [rest[0], rest[1], rest[2], rest[3], rest[4]];
                at += HEADER;
                self.begin(header)?;
            } else {
                let have = usize::from(self.header_length);
                let take = (HEADER - have).min(rest.len());
                self.header[have..have + take].copy_from_slice(&rest[..take]);
                self.header_length += take as u8;
                at += take;
                if usize::from(self.header_length) < HEADER {
                    return Ok(Fed::More);
                }
                self.header_length = 0;
                self.begin(self.header)?;
            }
        }
    }

    /// How many bytes at the beginning are whole messages that nobody wants: nearly all there is in
    /// an answer. What is odd about a message is left for `begin` to find out.
    fn skip(&self, input: &[u8]) -> usize {
        let mut at = 0;
        if self.keep != Keep::Nothing || self.expected == 0 {
            return at;
        }
        while let Some([kind, length @ ..]) = input[at..].first_chunk::<HEADER>() {
            // ParseComplete, BindComplete, RowDescription, DataRow, CommandComplete
            if !matches!(kind, b'1' | b'2' | b'T' | b'D' | b'C') {
                break;
            }
            let length = u32::from_be_bytes(*length) as usize;
            if !(4..=SHORT_LIMIT).contains(&length) || length >= input.len() - at {
                break;
            }
            at += 1 + length;
        }
        at
    }

    /// What the exchange that has just ended came to.
    pub fn take(&mut self, status: TxStatus) -> Exchange {
        Exchange {
            status,
            failure: self.failure.take(),
            ended: std::mem::take(&mut self.ended),
            captured: std::mem::take(&mut self.captured),
        }
    }

    /// The status that the last ReadyForQuery told.
    pub fn status(&self) -> TxStatus {
        match self.kind {
            b'T' => TxStatus::InBlock,
            b'E' => TxStatus::Failed,
            _ => TxStatus::Idle,
        }
    }

    fn wanted(&self) -> bool {
        match self.kind {
            b'Z' | b'E' => true,
            b'T' | b'D' => self.keep == Keep::Rows,
            b'C' | b'I' => self.keep != Keep::Nothing,
            b'N' => self.hears_notices,
            _ => false,
        }
    }

    fn begin(&mut self, header: [u8; HEADER]) -> Result<(), WireError> {
        let [kind, length @ ..] = header;
        let length = i32::from_be_bytes(length);
        let limit = match kind {
            // RowDescription, DataRow, CopyData, FunctionCallResponse, ErrorResponse,
            // NoticeResponse, NotificationResponse
            b'T' | b'D' | b'd' | b'V' | b'E' | b'N' | b'A' => LONG_LIMIT,
            // ReadyForQuery
            b'Z' => 1,
            // CommandComplete, EmptyQueryResponse, ParseComplete, BindComplete, CloseComplete,
            // NoData, ParameterDescription, PortalSuspended, ParameterStatus
            b'C' | b'I' | b'1' | b'2' | b'3' | b'n' | b't' | b's' | b'S' => SHORT_LIMIT,
            b'G' | b'H' | b'W' => return Err(WireError::Copy),
            other => return Err(WireError::Unexpected(char::from(other))),
        };
        let body = usize::try_from(length)
            .ok()
            .and_then(|length| length.checked_sub(4))
            .filter(|body| *body <= limit && (kind != b'Z' || *body == 1))
            .ok_or_else(|| WireError::Length {
                kind: char::from(kind),
                length: i64::from(length),
            })?;
        let asynchronous = matches!(kind, b'S' | b'N' | b'A' | b'E');
        if self.expected == 0 && !asynchronous {
            return Err(WireError::Unexpected(char::from(kind)));
        }
        self.kind = kind;
        self.in_body = true;
        self.remaining = body;
        Ok(())
    }

    /// Ends the message; true after a ReadyForQuery.
    fn finish(&mut self, body: &[u8]) -> Result<bool, WireError> {
        self.in_body = false;
        match self.kind {
            b'Z' => {
                let status = body.first().copied().unwrap_or(0);
                if !matches!(status, b'I' | b'T' | b'E') {
                    return Err(WireError::Malformed('Z'));
                }
                self.expected -= 1;
                self.current = None;
                // `status` reads it from here until the next message begins.
                self.kind = status;
                return Ok(true);
            }
            b'E' => {
                // The first error is the cause of those after it.
                self.failure
                    .get_or_insert_with(|| Box::new(Failure::read(b'E', body)));
            }
            b'N' => self.notice = Some(Box::new(Failure::read(b'N', body))),
            _ => {
                if matches!(self.kind, b'C' | b'I') && self.failure.is_none() {
                    self.ended += 1;
                }
                if self.keep == Keep::Rows {
                    self.capture(body)?;
                }
            }
        }
        Ok(false)
    }

    /// Keeps what a captured result is made of; the library parses the bodies.
    fn capture(&mut self, body: &[u8]) -> Result<(), WireError> {
        let malformed = |_| WireError::Malformed(char::from(self.kind));
        let mut message = BytesMut::with_capacity(HEADER + body.len());
        message.put_u8(self.kind);
        message.put_i32(body.len() as i32 + 4);
        message.put_slice(body);
        let parsed = Message::parse(&mut message)
            .map_err(malformed)?
            .ok_or(WireError::Malformed(char::from(self.kind)))?;
        match parsed {
            Message::RowDescription(description) => {
                let columns = description
                    .fields()
                    .map(|field| Ok(field.name().to_owned()))
                    .collect()
                    .map_err(malformed)?;
                self.current = Some(Captured {
                    columns,
                    has_rows: true,
                    ..Captured::default()
                });
            }
            Message::DataRow(row) => {
                let buffer = row.buffer();
                let values: Vec<Option<String>> = row
                    .ranges()
                    .map(
                        |range| Ok(range.map(|r| String::from_utf8_lossy(&buffer[r]).into_owned())),
                    )
                    .collect()
                    .map_err(malformed)?;
                let current = self.current.get_or_insert_default();
                current.rows += 1;
                current.last_row = values;
            }
            Message::CommandComplete(_) | Message::EmptyQueryResponse => {
                self.captured.push(self.current.take().unwrap_or_default());
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let mut out = vec![kind];
        out.put_i32(body.len() as i32 + 4);
        out.extend_from_slice(body);
        out
    }

    fn select_reply() -> Vec<u8> {
        let mut description = Vec::new();
        description.put_i16(1);
        description.extend_from_slice(b"abalance\0");
        description.extend_from_slice(&[0; 18]);
        let mut row = Vec::new();
        row.put_i16(1);
        row.put_i32(3);
        row.extend_from_slice(b"-42");
        [
            message(b'2', b""),
            message(b'T', &description),
            message(b'D', &row),
            message(b'C', b"SELECT 1\0"),
            message(b'Z', b"I"),
        ]
        .concat()
    }

    #[test]
    fn a_reply_cut_anywhere_is_the_same_reply() {
        let reply = [select_reply(), select_reply()].concat();
        for cut in 0..reply.len() {
            let mut wire = Wire::default();
            wire.expect(Keep::Rows);
            wire.expect(Keep::Rows);
            let mut done = Vec::new();
            for piece in [&reply[..cut], &reply[cut..]] {
                let mut rest = piece;
                while let Fed::Ready(used) = wire.feed(rest).unwrap() {
                    rest = &rest[used..];
                    done.push(wire.take(wire.status()));
                }
            }
            assert_eq!(done.len(), 2, "cut at {cut}");
            for exchange in done {
                assert_eq!(exchange.status, TxStatus::Idle);
                assert_eq!(exchange.captured.len(), 1);
                assert_eq!(exchange.captured[0].columns, ["abalance"]);
                assert_eq!(exchange.captured[0].last_row, [Some("-42".to_owned())]);
                assert_eq!(exchange.captured[0].rows, 1);
            }
            assert_eq!(wire.expected(), 0);
        }
    }

    #[test]
    fn byte_by_byte_with_an_error() {
        let error = message(b'E', b"SERROR\0VERROR\0C40001\0Mcould not serialize\0\0");
        let reply = [message(b'N', b"SNOTICE\0\0"), error, message(b'Z', b"E")].concat();
        let mut wire = Wire::default();
        wire.expect(Keep::Nothing);
        let mut ends = 0;
        for byte in &reply {
            if wire.feed(std::slice::from_ref(byte)).unwrap() == Fed::Ready(1) {
                ends += 1;
            }
        }
        assert_eq!(ends, 1);
        let exchange = wire.take(wire.status());
        assert_eq!(exchange.status, TxStatus::Failed);
        let failure = exchange.failure.unwrap();
        assert_eq!((failure.code(), failure.is_fatal()), ("40001", false));
        assert_eq!(failure.message, "could not serialize");
    }

    #[test]
    fn rows_that_nobody_wants_are_not_kept() {
        let mut wire = Wire::default();
        wire.expect(Keep::Nothing);
        let big = message(b'D', &vec![7; 1 << 20]);
        for chunk in big.chunks(1000) {
            assert_eq!(wire.feed(chunk), Ok(Fed::More));
        }
        assert_eq!(wire.body.capacity(), 0);
        assert_eq!(wire.feed(&message(b'Z', b"T")), Ok(Fed::Ready(6)));
        assert_eq!(wire.status(), TxStatus::InBlock);
    }

    #[test]
    fn garbage_is_found_out() {
        let fed = |bytes: &[u8]| {
            let mut wire = Wire::default();
            wire.expect(Keep::Nothing);
            wire.feed(bytes)
        };
        assert_eq!(fed(b"HTTP/1.1 400"), Err(WireError::Copy));
        assert_eq!(fed(b"xyzzy"), Err(WireError::Unexpected('x')));
        assert!(matches!(
            fed(b"C\x7f\xff\xff\xff"),
            Err(WireError::Length { .. })
        ));
        assert!(matches!(fed(b"C\0\0\0\x03"), Err(WireError::Length { .. })));
        assert!(matches!(
            fed(b"D\xff\xff\xff\xff"),
            Err(WireError::Length { .. })
        ));
        assert_eq!(fed(b"Z\0\0\0\x05X"), Err(WireError::Malformed('Z')));
        assert!(matches!(
            fed(b"Z\0\0\0\x06II"),
            Err(WireError::Length { .. })
        ));
    }

    #[test]
    fn answers_that_were_not_asked_for_are_found_out() {
        let mut wire = Wire::default();
        assert_eq!(
            wire.feed(&message(b'Z', b"I")),
            Err(WireError::Unexpected('Z'))
        );
        let mut wire = Wire::default();
        let fatal = message(b'E', b"SFATAL\0VFATAL\0C57P01\0Mterminating\0\0");
        assert_eq!(wire.feed(&fatal), Ok(Fed::More));
        let failure = wire.pending_failure().unwrap();
        assert!(failure.is_fatal());
        assert_eq!(failure.code(), "57P01");
    }

    mod properties {
        use super::*;
        use proptest::prelude::*;

        /// What comes of pieces fed one after the other.
        fn play(
            pieces: &[&[u8]],
            requests: u32,
            capture: bool,
        ) -> (Vec<Exchange>, Option<WireError>) {
            let mut wire = Wire::default();
            for _ in 0..requests {
                wire.expect(if capture { Keep::Rows } else { Keep::Nothing });
            }
            let mut ended = Vec::new();
            for piece in pieces {
                let mut rest = *piece;
                loop {
                    match wire.feed(rest) {
                        Ok(Fed::More) => break,
                        Ok(Fed::Ready(used)) => {
                            rest = &rest[used..];
                            ended.push(wire.take(wire.status()));
                        }
                        Ok(Fed::Notice(used)) => rest = &rest[used..],
                        Err(error) => return (ended, Some(error)),
                    }
                }
            }
            (ended, None)
        }

        /// Messages that could come, with bodies that may be anything.
        fn messages() -> impl Strategy<Value = Vec<u8>> {
            let kind = prop::sample::select(b"ZZZCTDEN12tnSIsAx3GK\0".to_vec());
            let one = (
                kind,
                prop::collection::vec(any::<u8>(), 0..40),
                any::<bool>(),
            )
                .prop_map(|(kind, body, honest)| {
                    if kind == b'Z' && honest {
                        message(b'Z', b"I")
                    } else {
                        message(kind, &body)
                    }
                });
            prop::collection::vec(one, 0..8).prop_map(|all| all.concat())
        }

        proptest! {
            #[test]
            fn where_bytes_are_cut_does_not_matter(
                mut bytes in messages(),
                garbage in prop::collection::vec(any::<u8>(), 0..20),
                cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
                requests in 0u32..4,
                capture: bool,
            ) {
                bytes.extend_from_slice(&garbage);
                let mut places: Vec<usize> =
                    cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
                places.extend([0, bytes.len()]);
                places.sort_unstable();
                let pieces: Vec<&[u8]> =
                    places.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
                prop_assert_eq!(
                    play(&[&bytes], requests, capture),
                    play(&pieces, requests, capture)
                );
            }
        }
    }
}

//! A session with simple queries, for set-up, checks and sampling; the load
//! itself runs on the transport alone.

mod copy;

pub use self::copy::CopyIn;
use super::cancel::CancelKey;
use super::channel::{Channel, ChannelError};
use super::connector::Connector;
use super::error::{QueryError, ServerError};
use super::greeting::{Greeting, NOTICE_LIMIT, keep_parameter};
use super::interrupt::{Hearing, is_wish_to_stop};
use super::kept::Kept;
use super::own::Own;
use super::transport::Transport;
use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use pgassay_text::own::tagged;
use postgres_protocol::message::backend::{DataRowBody, Message};
use postgres_protocol::message::frontend;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// For the transaction, nothing but PostgreSQL's own is found without its schema.
const ONLY_CATALOGS: &str = "SELECT pg_catalog.set_config('search_path', 'pg_catalog', true)";

/// Bytes of values that one query may return unless set otherwise.
const RESULT_LIMIT: usize = 256 << 20;

/// How long a server may be silent before it is asked whether it is still there.
const SILENCE: Duration = Duration::from_secs(30);

/// How long the request may take that cancels a statement whose answer nobody waits for.
const CANCELLED_WITHIN: Duration = Duration::from_secs(1);

/// Memory that a row takes beside the bytes of its values, and each value of it.
const ROW_BYTES: usize = 64;
const VALUE_BYTES: usize = 32;

/// What one statement returned.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResultSet {
    /// Names of the columns; empty where the statement returns no rows.
    pub columns: Vec<String>,
    /// The rows, values in text form, `None` for NULL.
    pub rows: Vec<Vec<Option<String>>>,
    /// The command tag, such as `SELECT 3`; empty for an empty statement.
    pub tag: String,
}

impl ResultSet {
    /// The value in the first row under that name; `None` where there is no
    /// row, no such column, or it is NULL.
    pub fn first(&self, column: &str) -> Option<&str> {
        let at = self.columns.iter().position(|name| name == column)?;
        self.rows.first()?.get(at)?.as_deref()
    }

    /// Rows affected or returned, from the tag.
    pub fn affected(&self) -> Option<u64> {
        self.tag.rsplit(' ').next()?.parse().ok()
    }
}

/// Whether a transaction is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransactionStatus {
    /// None is.
    Idle,
    /// One is.
    Open,
    /// One is and has failed: only ROLLBACK helps.
    Failed,
}

/// A connection taken out of its session, for a loop of one's own.
pub struct RawConnection {
    /// The socket or TLS over it, non-blocking.
    pub transport: Transport,
    /// What the server sent and nobody has read yet; read this first.
    pub unread: Vec<u8>,
    /// What cancels its running statement.
    pub cancel: CancelKey,
    /// Process id of its backend.
    pub backend_pid: i32,
    /// The parameters that the server reported.
    pub parameters: BTreeMap<String, String>,
}

/// Why a session can't be used any more.
struct Loss {
    reason: String,
    error: Option<Box<ServerError>>,
}

/// A session with a server.
pub struct Session {
    pub(super) channel: Channel,
    cancel: CancelKey,
    backend_pid: i32,
    parameters: BTreeMap<String, String>,
    notices: Vec<ServerError>,
    notice_limit: usize,
    status: TransactionStatus,
    read_timeout: Option<Duration>,
    result_limit: usize,
    lost: Option<Loss>,
    server: String,
    pub(super) connector: Option<Connector>,
    pub(super) kept: Kept,
    /// What an observing session has done; none of any other.
    pub(super) own: Option<Own>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Session({}, backend {})", self.server, self.backend_pid)
    }
}

impl Session {
    pub(super) fn new(
        channel: Channel,
        greeting: Greeting,
        cancel: CancelKey,
        server: String,
    ) -> Session {
        Session {
            own: Own::of(&cancel.conninfo, &server),
            channel,
            cancel,
            backend_pid: greeting.process_id,
            parameters: greeting.parameters,
            notices: greeting.notices,
            notice_limit: NOTICE_LIMIT,
            status: TransactionStatus::Idle,
            read_timeout: None,
            result_limit: RESULT_LIMIT,
            lost: None,
            server,
            connector: None,
            kept: Kept::default(),
        }
    }

    /// Runs one or several statements and returns what each returned, in
    /// order. Where one fails the error is returned; the statements before it
    /// are undone unless they committed themselves, as they are one implicit
    /// transaction.
    pub fn query(&mut self, sql: &str) -> Result<Vec<ResultSet>, QueryError> {
        self.begin(sql)?;
        self.answer()
    }

    /// Runs a text that must be a single statement without a result: sent in a form in which the
    /// server refuses several. For texts that somebody else wrote.
    pub fn execute_single(&mut self, sql: &str) -> Result<(), QueryError> {
        self.check_alive()?;
        let mut out = BytesMut::new();
        let written = frontend::parse("", &self.sent_as(sql), [], &mut out)
            .and_then(|()| {
                let none = || std::iter::empty::<i16>();
                let values = std::iter::empty::<()>();
                let bound = frontend::bind(
                    "",
                    "",
                    none(),
                    values,
                    |(), _| Ok(postgres_protocol::IsNull::Yes),
                    none(),
                    &mut out,
                );
                bound.map_err(|error| match error {
                    frontend::BindError::Serialization(error) => error,
                    frontend::BindError::Conversion(error) => std::io::Error::other(error),
                })
            })
            .and_then(|()| frontend::execute("", 0, &mut out));
        written.map_err(|error| {
            QueryError::Misused(format!("the statement can't be sent: {error}"))
        })?;
        frontend::sync(&mut out);
        self.send(&out)?;
        self.answer().map(drop)
    }

    /// Has the server parse and analyse a statement, with the types of `$1`, `$2` … left to it, and execute nothing.
    pub fn parse(&mut self, sql: &str) -> Result<(), QueryError> {
        self.check_alive()?;
        let mut out = BytesMut::new();
        frontend::parse("", sql, [], &mut out).map_err(|error| {
            QueryError::Misused(format!("the statement can't be sent: {error}"))
        })?;
        frontend::sync(&mut out);
        self.send(&out)?;
        self.answer().map(drop)
    }

    /// Takes the answer in, up to where the server is ready for the next query.
    fn answer(&mut self) -> Result<Vec<ResultSet>, QueryError> {
        let mut results = Vec::new();
        let mut current = ResultSet::default();
        let mut failure = None;
        let mut bytes = 0_usize;
        let mut hearing = Hearing::begin();
        loop {
            let message = self.receive(&mut hearing)?;
            // Messages without content take memory, too: each gives a row or a result.
            bytes = bytes.saturating_add(ROW_BYTES);
            if bytes > self.result_limit {
                return Err(self.give_up(QueryError::TooLarge(self.result_limit)));
            }
            match message {
                Message::RowDescription(body) => {
                    let fields = body
                        .fields()
                        .map(|field| Ok(field.name().to_owned()))
                        .collect();
                    current.columns = self.parsed(fields)?;
                    bytes += current
                        .columns
                        .iter()
                        .map(|c| c.len() + VALUE_BYTES)
                        .sum::<usize>();
                }
                Message::DataRow(body) => {
                    bytes += body.buffer().len() + VALUE_BYTES * current.columns.len();
                    if bytes > self.result_limit {
                        return Err(self.give_up(QueryError::TooLarge(self.result_limit)));
                    }
                    let row = row(&body);
                    let row = self.parsed(row)?;
                    if row.len() != current.columns.len() {
                        return Err(self.garbled("a row without or beside its description"));
                    }
                    current.rows.push(row);
                }
                Message::CommandComplete(body) => {
                    let tag = body.tag().map(str::to_owned);
                    current.tag = self.parsed(tag)?;
                    if let Some(own) = &mut self.own
                        && current.tag == "ROLLBACK"
                    {
                        own.failed();
                    }
                    results.push(std::mem::take(&mut current));
                }
                Message::EmptyQueryResponse => results.push(std::mem::take(&mut current)),
                Message::ErrorResponse(body) => {
                    let error = ServerError::read(body.fields());
                    failure = Some(QueryError::Server(Box::new(self.parsed(error)?)));
                }
                Message::CopyInResponse(_) => {
                    let mut out = BytesMut::new();
                    let fail = frontend::copy_fail("no data: use copy_in", &mut out);
                    self.parsed(fail)?;
                    self.send(&out)?;
                }
                Message::CopyOutResponse(_) => {
                    failure = Some(QueryError::Misused(
                        "COPY … TO STDOUT can't be run as a plain query".to_owned(),
                    ));
                }
                // Not kept; but a table of terabytes is not waited for.
                Message::CopyData(body) if failure.is_some() => bytes += body.data().len(),
                Message::CopyDone if failure.is_some() => {}
                Message::ParseComplete | Message::BindComplete => {}
                Message::ReadyForQuery(body) => {
                    self.ready(body.status())?;
                    return failure.map_or(Ok(results), Err);
                }
                _ => return Err(self.garbled("a message out of place in a simple query")),
            }
        }
    }

    /// Runs statements of which only the last one's result matters.
    pub fn rows(&mut self, sql: &str) -> Result<ResultSet, QueryError> {
        Ok(self.query(sql)?.pop().unwrap_or_default())
    }

    /// The first value of the first row of the last statement; `None` for NULL
    /// and where there is no row.
    pub fn value(&mut self, sql: &str) -> Result<Option<String>, QueryError> {
        let result = self.rows(sql)?;
        Ok(result
            .rows
            .into_iter()
            .next()
            .and_then(|row| row.into_iter().next())
            .flatten())
    }

    /// [`Self::rows`] of a question to the system catalogs: every name and operator in it is
    /// PostgreSQL's, whatever search_path the role or the database has, which whoever owns them may
    /// set to a schema with operators of theirs. Outside of a transaction block that holds for this
    /// message only, within one to its end. Nothing asked in this way may read settings: search_path and
    /// jit are ours in it.
    pub fn catalog_rows(&mut self, sql: &str) -> Result<ResultSet, QueryError> {
        self.rows(&format!("{}{ONLY_CATALOGS}; {sql}", self.uncompiled()))
    }

    /// [`Self::value`] of a question to the system catalogs, as [`Self::catalog_rows`] asks it.
    pub fn catalog_value(&mut self, sql: &str) -> Result<Option<String>, QueryError> {
        self.value(&format!("{}{ONLY_CATALOGS}; {sql}", self.uncompiled()))
    }

    /// What, before a question in the same transaction or message, keeps the server from compiling it
    /// (JIT, from 11 on): where a server compiles whatever it is asked, each question takes a second.
    pub fn uncompiled(&self) -> &'static str {
        match self.major() {
            Some(11..) => "SET LOCAL jit = off; ",
            _ => "",
        }
    }

    /// The server's version up to the first point: 15, and 9 of 9.6; none where it did not say.
    pub fn major(&self) -> Option<u32> {
        let version = self.parameter("server_version")?;
        let major = version.split(|c: char| !c.is_ascii_digit()).next();
        major.and_then(|major| major.parse().ok())
    }

    /// A search_path that finds what is in `schema` first, and then what this session finds now.
    pub fn search_path_behind(&mut self, schema: &str) -> Result<String, QueryError> {
        // Quoted by the server as it has to be.
        let found = self.value("SHOW search_path")?.unwrap_or_default();
        Ok(match found.trim() {
            "" => schema.to_owned(),
            found => format!("{schema}, {found}"),
        })
    }

    /// Runs statements for their effect.
    pub fn execute(&mut self, sql: &str) -> Result<(), QueryError> {
        self.query(sql).map(drop)
    }

    /// Starts a `COPY … FROM STDIN`; the data goes into what is returned.
    pub fn copy_in(&mut self, sql: &str) -> Result<CopyIn<'_>, QueryError> {
        self.begin(sql)?;
        let mut failure = None;
        let mut hearing = Hearing::begin();
        loop {
            match self.receive(&mut hearing)? {
                Message::CopyInResponse(_) if failure.is_none() => return Ok(CopyIn::new(self)),
                Message::ErrorResponse(body) => {
                    let error = ServerError::read(body.fields());
                    failure = Some(QueryError::Server(Box::new(self.parsed(error)?)));
                }
                Message::ReadyForQuery(body) => {
                    self.ready(body.status())?;
                    return Err(failure.unwrap_or_else(|| {
                        QueryError::Misused("the statement is not COPY … FROM STDIN".to_owned())
                    }));
                }
                Message::CopyInResponse(_) => return Err(self.garbled("a COPY after an error")),
                // Rows of something that is no COPY at all.
                Message::RowDescription(_)
                | Message::DataRow(_)
                | Message::CommandComplete(_)
                | Message::EmptyQueryResponse
                | Message::CopyOutResponse(_)
                | Message::CopyData(_)
                | Message::CopyDone => {}
                _ => return Err(self.garbled("a message out of place before a COPY")),
            }
        }
    }

    /// The value of a parameter that the server reports by itself, such as
    /// `server_version`, as it stands now.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.get(name).map(String::as_str)
    }

    /// All that the server reports by itself.
    pub fn parameters(&self) -> &BTreeMap<String, String> {
        &self.parameters
    }

    /// The process id of our backend as the server names it. A pooler invents one.
    pub fn backend_pid(&self) -> i32 {
        self.backend_pid
    }

    /// The process id of the server's main process as the kernel knows it,
    /// on a Unix socket.
    pub fn peer_pid(&self) -> Option<u32> {
        self.channel.transport()?.peer_pid()
    }

    /// Which of the servers it is, as `host port n` or the socket's path.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// `TLSv1.3, TLS13_AES_256_GCM_SHA384` and the like; `None` without TLS.
    pub fn tls(&self) -> Option<String> {
        self.channel.transport()?.tls_description()
    }

    /// Whether a transaction is open, after the last statement.
    pub fn transaction_status(&self) -> TransactionStatus {
        self.status
    }

    /// What cancels a statement that runs in this session, from any thread.
    pub fn cancel_key(&self) -> CancelKey {
        self.cancel.clone()
    }

    /// Sets how long the server may be silent before a statement counts as
    /// lost; `None` waits as long as the server answers new connections.
    pub fn set_read_timeout(&mut self, timeout: Option<Duration>) {
        self.read_timeout = timeout;
    }

    /// Sets how many bytes of values one query may return.
    pub fn set_result_limit(&mut self, bytes: usize) {
        self.result_limit = bytes;
    }

    /// Sets how many notices are kept between two calls of [`Self::take_notices`]; a hundred at first.
    pub fn set_notice_limit(&mut self, notices: usize) {
        self.notice_limit = notices;
    }

    /// The notices that came since the last call, the first of them.
    pub fn take_notices(&mut self) -> Vec<ServerError> {
        std::mem::take(&mut self.notices)
    }

    /// Makes further connections to the same host, in the same way.
    pub fn connector(&self) -> Option<&Connector> {
        self.connector.as_ref()
    }

    /// Says good-bye. Dropping a session does the same.
    pub fn close(self) {}

    /// Takes the transport out, idle and non-blocking, for a loop of one's own.
    pub fn into_transport(mut self) -> Result<RawConnection, QueryError> {
        self.check_alive()?;
        let (transport, unread) = self.channel.take().ok_or(QueryError::Closed(None))?;
        Ok(RawConnection {
            transport,
            unread,
            cancel: self.cancel.clone(),
            backend_pid: self.backend_pid,
            parameters: std::mem::take(&mut self.parameters),
        })
    }

    /// Sends a simple query.
    fn begin(&mut self, sql: &str) -> Result<(), QueryError> {
        self.check_alive()?;
        let mut out = BytesMut::new();
        frontend::query(&self.sent_as(sql), &mut out).map_err(|error| {
            QueryError::Misused(format!("the statement can't be sent: {error}"))
        })?;
        self.send(&out)
    }

    /// The text as it is sent: those of a session that observes are tagged.
    fn sent_as<'t>(&self, sql: &'t str) -> Cow<'t, str> {
        match self.own {
            Some(_) => Cow::Owned(tagged(sql)),
            None => Cow::Borrowed(sql),
        }
    }

    pub(super) fn send(&mut self, bytes: &[u8]) -> Result<(), QueryError> {
        let mut left = bytes;
        loop {
            let deadline = self.deadline();
            match self.channel.send_on(&mut left, deadline) {
                Err(ChannelError::Timeout) if self.may_wait_on() => {}
                outcome => return outcome.map_err(|error| self.lost(error)),
            }
        }
    }

    /// The next message that is not asynchronous. `hearing` is that of the whole answer: a server that
    /// sends without end never lets the wait for a single message come to its end.
    pub(super) fn receive(&mut self, hearing: &mut Hearing<'_>) -> Result<Message, QueryError> {
        let mut deadline = self.deadline();
        loop {
            if let Err(error) = hearing.slice() {
                return Err(self.abandoned(ChannelError::Io(error)));
            }
            let message = match self.channel.message(deadline) {
                Err(ChannelError::Timeout) if self.may_wait_on() => {
                    deadline = self.deadline();
                    continue;
                }
                outcome => outcome.map_err(|error| self.abandoned(error))?,
            };
            match message {
                Message::NoticeResponse(body) => {
                    let notice = ServerError::read(body.fields());
                    let notice = self.parsed(notice)?;
                    if self.notices.len() < self.notice_limit {
                        self.notices.push(notice);
                    }
                }
                Message::ParameterStatus(body) => {
                    let pair = body.name().and_then(|name| Ok((name, body.value()?)));
                    let (name, value) = self.parsed(pair)?;
                    keep_parameter(&mut self.parameters, name, value);
                }
                Message::NotificationResponse(_) => {}
                Message::ErrorResponse(body) => {
                    // An error that ends the session has nothing after it.
                    let error = ServerError::read(body.fields());
                    let error = self.parsed(error)?;
                    if matches!(error.severity.as_str(), "FATAL" | "PANIC") {
                        return Err(self.give_up(QueryError::Closed(Some(Box::new(error)))));
                    }
                    if let Some(own) = &mut self.own {
                        own.failed();
                    }
                    return Ok(Message::ErrorResponse(body));
                }
                other => return Ok(other),
            }
        }
    }

    /// Takes a ReadyForQuery in.
    pub(super) fn ready(&mut self, status: u8) -> Result<(), QueryError> {
        self.status = match status {
            b'I' => {
                if let Some(own) = &mut self.own {
                    own.ended();
                }
                TransactionStatus::Idle
            }
            b'T' => TransactionStatus::Open,
            b'E' => TransactionStatus::Failed,
            _ => return Err(self.garbled("an unknown transaction status")),
        };
        Ok(())
    }

    fn deadline(&self) -> Option<Instant> {
        Instant::now().checked_add(self.read_timeout.unwrap_or(SILENCE))
    }

    /// Whether a server that has been silent for long only works: building an index takes hours.
    fn may_wait_on(&self) -> bool {
        self.read_timeout.is_none() && self.cancel.server_answers()
    }

    /// A value read from a message, or the session is broken.
    pub(super) fn parsed<T>(&mut self, value: std::io::Result<T>) -> Result<T, QueryError> {
        value.map_err(|error| self.garbled(&error.to_string()))
    }

    pub(super) fn garbled(&mut self, what: &str) -> QueryError {
        self.give_up(QueryError::Protocol(what.to_owned()))
    }

    /// Keeps why the session can't be used any more, so that later statements can name the reason:
    /// whoever met it first may have had no use for it.
    fn give_up(&mut self, error: QueryError) -> QueryError {
        self.lost.get_or_insert_with(|| Loss {
            reason: error.to_string(),
            error: error.server().cloned().map(Box::new),
        });
        error
    }

    fn check_alive(&self) -> Result<(), QueryError> {
        match &self.lost {
            None => Ok(()),
            Some(Loss { reason, error }) => Err(QueryError::Lost {
                reason: reason.clone(),
                error: error.clone(),
            }),
        }
    }

    /// The same for the wait for an answer. One that the user has ended is cancelled: a server that does not
    /// look whether its client is there, as none did before version 14, would go on with the statement.
    fn abandoned(&mut self, error: ChannelError) -> QueryError {
        if let ChannelError::Io(why) = &error
            && is_wish_to_stop(why)
        {
            let _ = self.cancel.cancel(CANCELLED_WITHIN);
        }
        self.lost(error)
    }

    pub(super) fn lost(&mut self, error: ChannelError) -> QueryError {
        let error = match error {
            ChannelError::Closed { .. } => QueryError::Closed(self.last_words()),
            ChannelError::Timeout => QueryError::Timeout(self.read_timeout.unwrap_or(SILENCE)),
            ChannelError::Protocol(what) => QueryError::Protocol(what),
            ChannelError::Io(error) => QueryError::Io(error),
        };
        self.give_up(error)
    }

    /// Why the server closed, if it said so before: sending fails first when
    /// it was shut down while the session was idle, and a crash elsewhere in
    /// the server comes as a warning only (SQLSTATE class 57P).
    fn last_words(&mut self) -> Option<Box<ServerError>> {
        let _ = self.channel.take_in();
        while let Ok(Some(message)) = self.channel.buffered_message() {
            match message {
                Message::ErrorResponse(body) => {
                    return ServerError::read(body.fields()).ok().map(Box::new);
                }
                Message::NoticeResponse(body) if self.notices.len() < 2 * NOTICE_LIMIT => {
                    self.notices.extend(ServerError::read(body.fields()))
                }
                _ => {}
            }
        }
        self.notices
            .pop_if(|notice| notice.sqlstate.starts_with("57P"))
            .map(Box::new)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let mut out = BytesMut::new();
        frontend::terminate(&mut out);
        self.channel.send_best_effort(&out);
    }
}

/// The values of a row as text.
fn row(body: &DataRowBody) -> std::io::Result<Vec<Option<String>>> {
    let buffer = body.buffer();
    body.ranges()
        .map(|range| Ok(range.map(|range| String::from_utf8_lossy(&buffer[range]).into_owned())))
        .collect()
}

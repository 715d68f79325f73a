//! What can go wrong between us and a server, typed so that the program can
//! choose exit codes and the load engine can count failures by SQLSTATE.

use super::conninfo::ConninfoError;
use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend::ErrorFields;
use std::fmt;
use std::io;
use std::time::Duration;

/// The fields of an error or notice that a server sent (PostgreSQL manual,
/// "Error and Notice Message Fields").
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerError {
    /// ERROR, FATAL, PANIC, or NOTICE and the like; never translated where the
    /// server is 9.6 or newer.
    pub severity: String,
    /// Five letters, such as `40001`.
    pub sqlstate: String,
    /// The primary message.
    pub message: String,
    /// More about it.
    pub detail: Option<String>,
    /// What to do, as the server sees it.
    pub hint: Option<String>,
    /// Where in the query, in characters from 1.
    pub position: Option<u32>,
    /// Call stack of PL/pgSQL and the like.
    pub context: Option<String>,
}

impl ServerError {
    /// Reads the fields; unknown ones are skipped, broken ones are an error.
    pub(super) fn read(mut fields: ErrorFields<'_>) -> io::Result<ServerError> {
        let mut error = ServerError::default();
        let mut severity_untranslated = false;
        while let Some(field) = fields.next()? {
            let text = shortened(field.value_bytes());
            match field.type_() {
                b'V' => {
                    error.severity = text;
                    severity_untranslated = true;
                }
                b'S' if !severity_untranslated => error.severity = text,
                b'C' => error.sqlstate = text,
                b'M' => error.message = text,
                b'D' => error.detail = Some(text),
                b'H' => error.hint = Some(text),
                b'P' => error.position = text.parse().ok(),
                b'W' => error.context = Some(text),
                _ => {}
            }
        }
        Ok(error)
    }
}

/// The longest text of a field that is kept; a server's own are shorter, and nobody reads more.
const LONGEST_TEXT: usize = 8 * 1024;

/// A field's text; what is cut off is told.
fn shortened(bytes: &[u8]) -> String {
    match bytes.get(..LONGEST_TEXT) {
        Some(kept) if bytes.len() > LONGEST_TEXT => format!(
            "{}… ({} more bytes)",
            String::from_utf8_lossy(kept),
            bytes.len() - LONGEST_TEXT
        ),
        _ => String::from_utf8_lossy(bytes).into_owned(),
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} (SQLSTATE {})",
            self.severity, self.message, self.sqlstate
        )?;
        for (label, text) in [("DETAIL", &self.detail), ("HINT", &self.hint)] {
            if let Some(text) = text {
                write!(f, "; {label}: {text}")?;
            }
        }
        Ok(())
    }
}

/// A statement that failed, or a connection that failed under it.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// The server refused the statement; the session goes on.
    #[error("{0}")]
    Server(Box<ServerError>),
    /// The server ended the session, with its reason where it gave one.
    #[error("the server closed the connection{}", reason(.0))]
    Closed(Option<Box<ServerError>>),
    /// Nothing came within the time set for reading. The session can't be used
    /// again, as the answer may still come.
    #[error("no answer from the server within {0:?}")]
    Timeout(Duration),
    /// The server sent what the protocol does not allow.
    #[error("the server's messages break the protocol: {0}")]
    Protocol(String),
    /// The socket failed.
    #[error("the connection failed: {0}")]
    Io(#[from] io::Error),
    /// The result is larger than the session was set to take.
    #[error("the result is larger than {0} bytes")]
    TooLarge(usize),
    /// The session was lost by an earlier statement.
    #[error("the session was lost: {reason}")]
    Lost {
        /// The error that ended it, in words.
        reason: String,
        /// What the server said, if it did.
        error: Option<Box<ServerError>>,
    },
    /// The statement can't be run in this way.
    #[error("{0}")]
    Misused(String),
}

fn reason(error: &Option<Box<ServerError>>) -> String {
    error
        .as_ref()
        .map_or_else(String::new, |error| format!(": {error}"))
}

impl QueryError {
    /// The server's error, where there is one.
    pub fn server(&self) -> Option<&ServerError> {
        match self {
            QueryError::Server(error)
            | QueryError::Closed(Some(error))
            | QueryError::Lost {
                error: Some(error), ..
            } => Some(error),
            _ => None,
        }
    }

    /// Its SQLSTATE, where the server gave one.
    pub fn sqlstate(&self) -> Option<&str> {
        self.server().map(|error| error.sqlstate.as_str())
    }

    /// Whether the session is lost.
    pub fn is_fatal(&self) -> bool {
        !matches!(self, QueryError::Server(_) | QueryError::Misused(_))
    }
}

/// Why a server can't be had. Each message says what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The connection string or what completes it is wrong.
    #[error(transparent)]
    Conninfo(#[from] ConninfoError),
    /// No socket of that name, or the host name is unknown.
    #[error("no server at {server}: {why}")]
    NotFound {
        /// What was tried.
        server: String,
        /// What is missing and what to look at.
        why: String,
    },
    /// Nobody listens there.
    #[error(
        "{server} refused the connection; is the server running there and does it accept \
         connections of this kind (listen_addresses, port)?"
    )]
    Refused {
        /// What was tried.
        server: String,
    },
    /// We may not open the socket.
    #[error("no permission to connect to {server}: {error}")]
    Forbidden {
        /// What was tried.
        server: String,
        /// What the system says.
        error: io::Error,
    },
    /// Wrong password, no such role, no entry in pg_hba.conf, missing password.
    #[error("{server} does not let us in: {why}")]
    Auth {
        /// What was tried.
        server: String,
        /// Reason and remedy.
        why: String,
        /// What the server said, if it did.
        error: Option<Box<ServerError>>,
    },
    /// The database does not exist.
    #[error("{server}: {error}; psql -l lists the databases, dbname=… chooses one")]
    NoDatabase {
        /// What was tried.
        server: String,
        /// What the server said.
        error: Box<ServerError>,
    },
    /// sslmode asks for TLS and the server has none.
    #[error(
        "{server} does not offer TLS, but sslmode requires it; set ssl=on in the server or a \
         weaker sslmode"
    )]
    TlsRequired {
        /// What was tried.
        server: String,
    },
    /// The TLS handshake or the verification of the certificate failed.
    #[error("TLS with {server} failed: {why}")]
    Tls {
        /// What was tried.
        server: String,
        /// Reason and remedy.
        why: String,
    },
    /// All connection slots are in use.
    #[error(
        "{server} takes no more connections: {error}; use fewer clients or raise max_connections"
    )]
    TooManyConnections {
        /// What was tried.
        server: String,
        /// What the server said.
        error: Box<ServerError>,
    },
    /// The server starts up, shuts down or recovers.
    #[error("{server} is not ready: {error}; wait until it accepts connections")]
    ServerStarting {
        /// What was tried.
        server: String,
        /// What the server said.
        error: Box<ServerError>,
    },
    /// No answer in time.
    #[error(
        "{server} did not answer within {} s while {doing}; is it reachable, or frozen? \
         connect_timeout=… sets the time", .after.as_secs_f64()
    )]
    Timeout {
        /// What was tried.
        server: String,
        /// What was waited for.
        doing: &'static str,
        /// How long.
        after: Duration,
    },
    /// The server is there, but not what target_session_attrs asks for.
    #[error("{server} is not what target_session_attrs={wanted} asks for: {found}")]
    WrongSessionAttrs {
        /// What was tried.
        server: String,
        /// What was asked for.
        wanted: &'static str,
        /// What the server is.
        found: String,
    },
    /// Not PostgreSQL, or a broken one.
    #[error("{server} does not speak PostgreSQL's protocol: {why}")]
    Protocol {
        /// What was tried.
        server: String,
        /// What it sent.
        why: String,
    },
    /// Any other error that the server sent.
    #[error("{server} refused the session: {error}")]
    Server {
        /// What was tried.
        server: String,
        /// What the server said.
        error: Box<ServerError>,
    },
    /// The socket failed, or the server closed it.
    #[error("the connection to {server} broke off while {doing}: {error}")]
    Io {
        /// What was tried.
        server: String,
        /// What we were at.
        doing: &'static str,
        /// What the system says.
        error: io::Error,
    },
    /// Several servers or addresses were tried and each failed.
    #[error("none of {} servers could be used: {}", .0.len(), each(.0))]
    All(Vec<ConnectError>),
}

fn each(errors: &[ConnectError]) -> String {
    errors
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("; ")
}

impl ConnectError {
    /// Whether it may work a moment later: the server starts, or is full.
    pub fn is_transient(&self) -> bool {
        match self {
            ConnectError::TooManyConnections { .. } | ConnectError::ServerStarting { .. } => true,
            ConnectError::All(errors) => errors.iter().any(ConnectError::is_transient),
            _ => false,
        }
    }

    /// Sorts an error that the server sent during start-up by its SQLSTATE
    /// (PostgreSQL manual, appendix A).
    pub(super) fn from_server(server: &str, error: ServerError) -> ConnectError {
        let server = server.to_owned();
        let error = Box::new(error);
        match error.sqlstate.as_str() {
            "08P01" => ConnectError::from_pooler(server, error),
            "28P01" | "28000" => {
                let remedy = if error.message.contains("pg_hba.conf") {
                    "the server's pg_hba.conf has to admit this user, database, address and kind \
                     of connection"
                } else if error.message.contains("password") {
                    "check user and password (PGPASSWORD, ~/.pgpass)"
                } else {
                    "check the user name and how pg_hba.conf lets it authenticate"
                };
                ConnectError::Auth {
                    server,
                    why: format!("{error}; {remedy}"),
                    error: Some(error),
                }
            }
            "3D000" => ConnectError::NoDatabase { server, error },
            "53300" => ConnectError::TooManyConnections { server, error },
            "57P03" => ConnectError::ServerStarting { server, error },
            _ => ConnectError::Server { server, error },
        }
    }

    /// PgBouncer up to 1.18 reports everything under one SQLSTATE, so its
    /// wording has to tell (its sources: client.c, objects.c).
    fn from_pooler(server: String, error: Box<ServerError>) -> ConnectError {
        let says = |part: &str| error.message.contains(part);
        if says("no such database") {
            ConnectError::NoDatabase { server, error }
        } else if says("no more connections allowed") {
            ConnectError::TooManyConnections { server, error }
        } else if says("server login has been failing") || says("server_login_retry") {
            ConnectError::ServerStarting { server, error }
        } else if says("authentication failed") || says("auth failed") || says("no such user") {
            let why = format!("{error}; check user and password (PGPASSWORD, ~/.pgpass)");
            ConnectError::Auth {
                server,
                why,
                error: Some(error),
            }
        } else {
            ConnectError::Server { server, error }
        }
    }
}

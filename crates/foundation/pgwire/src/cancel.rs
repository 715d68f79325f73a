//! Cancelling what a session runs, over a connection of its own.

use super::channel::{Channel, ChannelError};
use super::conninfo::Conninfo;
use super::dial::{Endpoint, dial};
use super::error::ConnectError;
use super::start_error::broken;
use super::tls::{Asked, Tls};
use bytes::BytesMut;
use postgres_protocol::message::frontend;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A server that takes longer to answer a new connection is frozen.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);

/// What it takes to cancel a session's statement. It may be cloned and used
/// from any thread while the session waits.
#[derive(Clone)]
pub struct CancelKey {
    pub(super) conninfo: Arc<Conninfo>,
    pub(super) endpoint: Endpoint,
    pub(super) server: String,
    pub(super) process_id: i32,
    pub(super) secret_key: i32,
    pub(super) tls: Option<Tls>,
}

impl std::fmt::Debug for CancelKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CancelKey({}, backend {})", self.server, self.process_id)
    }
}

impl CancelKey {
    /// Whether the server answers anybody: a new connection is asked whether it has TLS, which takes
    /// no authentication and leaves no line in the server's log. A frozen server does not answer.
    pub(super) fn server_answers(&self) -> bool {
        let deadline = Instant::now().checked_add(ANSWERS_WITHIN);
        let ask = || -> Result<bool, ConnectError> {
            let transport = dial(&self.endpoint, &self.server, &self.conninfo, deadline)?;
            let mut channel = Channel::new(transport);
            let mut out = BytesMut::new();
            frontend::ssl_request(&mut out);
            let answer = channel
                .send(&out, deadline)
                .and_then(|()| channel.one_byte(deadline));
            Ok(match answer {
                Ok(_) | Err(ChannelError::Closed { .. } | ChannelError::Protocol(_)) => true,
                Err(ChannelError::Timeout | ChannelError::Io(_)) => false,
            })
        };
        ask().unwrap_or(false)
    }

    /// Asks the server to cancel the running statement, if there is one. That
    /// the request was taken says not that anything was cancelled: the
    /// session's statement then fails with SQLSTATE 57014, or it had ended.
    pub fn cancel(&self, timeout: Duration) -> Result<(), ConnectError> {
        let deadline = Instant::now().checked_add(timeout);
        let transport = dial(&self.endpoint, &self.server, &self.conninfo, deadline)?;
        let mut channel = Channel::new(transport);
        if let Some(tls) = &self.tls {
            channel = match tls.ask(channel, &self.server, &self.conninfo, deadline)? {
                Asked::Secured(channel, _) => channel,
                Asked::Plain(_) => {
                    return Err(ConnectError::TlsRequired {
                        server: self.server.clone(),
                    });
                }
            };
        }
        let mut out = BytesMut::new();
        frontend::cancel_request(self.process_id, self.secret_key, &mut out);
        let fault = |error| broken(error, &self.server, &self.conninfo, "cancelling");
        channel.send(&out, deadline).map_err(fault)?;
        // The server closes once it has sent the signal.
        match channel.message(deadline) {
            Err(ChannelError::Closed { .. }) => Ok(()),
            Err(error) => Err(fault(error)),
            Ok(_) => Err(ConnectError::Protocol {
                server: self.server.clone(),
                why: "an answer to a request to cancel".to_owned(),
            }),
        }
    }
}

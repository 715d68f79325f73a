//! From a `Conninfo` to a session: which servers to try, in which order, with
//! and without TLS, and when to stop trying (PostgreSQL manual, "Database
//! Connection Control Functions").

use super::cancel::CancelKey;
use super::channel::Channel;
use super::connector::Connector;
use super::conninfo::{ChannelBinding, Conninfo, Host, SessionAttrs, SslMode};
use super::dial::{Endpoint, dial, resolve};
use super::error::{ConnectError, QueryError};
use super::session::Session;
use super::startup::Startup;
use super::tls::{Asked, Tls};
use rand::seq::SliceRandom;
use std::sync::Arc;
use std::time::Instant;

/// Connects to the first server that can be had. For many connections a
/// `Connector` is cheaper: it reads certificates once.
pub fn connect(conninfo: &Conninfo) -> Result<Session, ConnectError> {
    Connector::new(conninfo).connect()
}

/// What is tried first and, where the server refuses that, second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cover {
    Plain,
    Tls,
}

impl Connector {
    /// Connects to the first server that can be had.
    pub fn connect(&self) -> Result<Session, ConnectError> {
        let wanted = self.conninfo.session_attrs;
        let mut errors = Vec::new();
        let passes: &[SessionAttrs] = match wanted {
            SessionAttrs::PreferStandby => &[SessionAttrs::Standby, SessionAttrs::Any],
            _ => &[wanted],
        };
        for attrs in passes {
            errors.clear();
            match self.try_all(*attrs, &mut errors) {
                Some(session) => return Ok(session),
                None if errors.iter().any(|error| !goes_on(error)) => break,
                None => {}
            }
        }
        Err(match errors.pop() {
            Some(only) if errors.is_empty() => only,
            last => {
                errors.extend(last);
                ConnectError::All(errors)
            }
        })
    }

    /// Tries each address of each host once. A server that is there but does
    /// not let us in ends the search, as in libpq.
    fn try_all(&self, attrs: SessionAttrs, errors: &mut Vec<ConnectError>) -> Option<Session> {
        let mut order: Vec<usize> = (0..self.conninfo.hosts.len()).collect();
        if self.conninfo.load_balance {
            order.shuffle(&mut rand::rng());
        }
        for i in order {
            let host = &self.conninfo.hosts[i];
            let mut endpoints = match resolve(host) {
                Ok(endpoints) => endpoints,
                Err(error) => {
                    errors.push(error);
                    continue;
                }
            };
            if self.conninfo.load_balance {
                endpoints.shuffle(&mut rand::rng());
            }
            for endpoint in endpoints {
                let attempt = Attempt {
                    connector: self,
                    host,
                    tls: self.tls[i].as_ref(),
                    endpoint,
                };
                match attempt.session(attrs) {
                    Ok(mut session) => {
                        session.connector = Some(self.to_host(i));
                        return Some(session);
                    }
                    Err(error) => {
                        let stop = !goes_on(&error);
                        errors.push(error);
                        if stop {
                            return None;
                        }
                    }
                }
            }
        }
        None
    }

    /// The same way to one of the hosts only.
    fn to_host(&self, i: usize) -> Connector {
        if self.conninfo.hosts.len() == 1 {
            return self.clone();
        }
        let conninfo = Conninfo {
            hosts: vec![self.conninfo.hosts[i].clone()],
            ..(*self.conninfo).clone()
        };
        Connector {
            conninfo: Arc::new(conninfo),
            tls: Arc::new([self.tls[i].clone()]),
        }
    }
}

/// Whether the next server is tried after this error.
fn goes_on(error: &ConnectError) -> bool {
    matches!(
        error,
        ConnectError::NotFound { .. }
            | ConnectError::Refused { .. }
            | ConnectError::Forbidden { .. }
            | ConnectError::Timeout { .. }
            | ConnectError::Io { .. }
            | ConnectError::ServerStarting { .. }
            | ConnectError::WrongSessionAttrs { .. }
    )
}

/// One address of one host.
struct Attempt<'a> {
    connector: &'a Connector,
    host: &'a Host,
    tls: Option<&'a Result<Tls, String>>,
    endpoint: Endpoint,
}

impl Attempt<'_> {
    /// A session that is what target_session_attrs asks for.
    fn session(&self, attrs: SessionAttrs) -> Result<Session, ConnectError> {
        let mode = self.connector.conninfo.tls.mode;
        let (first, second) = match (self.tls, mode) {
            (None, _) => (Cover::Plain, None),
            (Some(_), SslMode::Allow) => (Cover::Plain, Some(Cover::Tls)),
            (Some(_), SslMode::Prefer) => (Cover::Tls, Some(Cover::Plain)),
            (Some(_), _) => (Cover::Tls, None),
        };
        let mut session = match (self.open(first), second) {
            (Ok(session), _) => session,
            (Err(error), Some(second)) if another_cover_may_help(&error) => {
                match (self.open(second), error) {
                    (Ok(session), _) => session,
                    // Of two refusals the one over TLS tells more; a failed
                    // handshake tells less than a refusal without it.
                    (Err(plain), ConnectError::Tls { .. }) => return Err(plain),
                    (Err(ConnectError::TlsRequired { .. }), first) => return Err(first),
                    (Err(over_tls), _) if second == Cover::Tls => return Err(over_tls),
                    (Err(_), first) => return Err(first),
                }
            }
            (Err(error), _) => return Err(error),
        };
        self.check_attrs(&mut session, attrs)?;
        Ok(session)
    }

    fn open(&self, cover: Cover) -> Result<Session, ConnectError> {
        let conninfo = &self.connector.conninfo;
        let server = self.host.to_string();
        let deadline = Instant::now().checked_add(conninfo.patience());
        let tls = match (cover, self.tls) {
            (Cover::Tls, Some(Ok(tls))) => Some(tls),
            (Cover::Tls, Some(Err(why))) => {
                return Err(ConnectError::Tls {
                    server,
                    why: why.clone(),
                });
            }
            _ => None,
        };
        let mut channel = Channel::new(dial(&self.endpoint, &server, conninfo, deadline)?);
        let mut binding = None;
        let mut secured = None;
        if let Some(tls) = tls {
            match tls.ask(channel, &server, conninfo, deadline)? {
                Asked::Secured(over_tls, hash) => {
                    channel = over_tls;
                    binding = hash;
                    secured = Some(tls.clone());
                }
                Asked::Plain(_) if conninfo.tls.mode >= SslMode::Require => {
                    return Err(ConnectError::TlsRequired { server });
                }
                Asked::Plain(plain) if conninfo.tls.mode == SslMode::Prefer => channel = plain,
                Asked::Plain(_) => return Err(ConnectError::TlsRequired { server }),
            }
        }
        let greeting = Startup {
            channel: &mut channel,
            conninfo,
            server: &server,
            password: self.host.password.as_ref(),
            binding: binding.filter(|_| conninfo.channel_binding != ChannelBinding::Disable),
            deadline,
        }
        .run()?;
        let cancel = CancelKey {
            conninfo: conninfo.clone(),
            endpoint: self.endpoint.clone(),
            server: server.clone(),
            process_id: greeting.process_id,
            secret_key: greeting.secret_key,
            tls: secured,
        };
        Ok(Session::new(channel, greeting, cancel, server))
    }

    fn check_attrs(&self, session: &mut Session, attrs: SessionAttrs) -> Result<(), ConnectError> {
        let about = |error: QueryError| match error {
            QueryError::Server(error) => ConnectError::Server {
                server: self.host.to_string(),
                error,
            },
            error => ConnectError::Io {
                server: self.host.to_string(),
                doing: "asking whether it is a primary",
                error: std::io::Error::other(error),
            },
        };
        let (wanted, read_only_wanted) = match attrs {
            SessionAttrs::Any | SessionAttrs::PreferStandby => return Ok(()),
            SessionAttrs::ReadWrite => ("read-write", false),
            SessionAttrs::ReadOnly => ("read-only", true),
            SessionAttrs::Primary => ("primary", false),
            SessionAttrs::Standby => ("standby", true),
        };
        let by_role = matches!(attrs, SessionAttrs::Primary | SessionAttrs::Standby);
        // Servers from 14 on report both; older ones and poolers are asked.
        let on = |session: &Session, name| session.parameter(name).map(|value| value == "on");
        let standby = on(session, "in_hot_standby");
        let read_only = on(session, "default_transaction_read_only");
        session.set_read_timeout(Some(self.connector.conninfo.patience()));
        let is = match (by_role, standby, read_only) {
            (true, Some(standby), _) => standby,
            (false, Some(standby), Some(read_only)) => standby || read_only,
            (true, ..) => {
                let answer = session.value("SELECT pg_catalog.pg_is_in_recovery()");
                answer.map_err(about)?.as_deref() == Some("t")
            }
            (false, ..) => {
                let answer = session.value("SHOW transaction_read_only");
                answer.map_err(about)?.as_deref() == Some("on")
            }
        };
        session.set_read_timeout(None);
        if is == read_only_wanted {
            return Ok(());
        }
        let found = match (by_role, is) {
            (true, true) => "it is a standby",
            (true, false) => "it is a primary",
            (false, true) => "its transactions are read-only",
            (false, false) => "its transactions can write",
        };
        Err(ConnectError::WrongSessionAttrs {
            server: self.host.to_string(),
            wanted,
            found: found.to_owned(),
        })
    }
}

/// Whether the server might let us in with TLS instead of without, or the
/// other way round: it refused the kind of connection, or TLS failed. A wrong
/// password is not tried twice.
fn another_cover_may_help(error: &ConnectError) -> bool {
    match error {
        ConnectError::Tls { .. } => true,
        ConnectError::Auth {
            error: Some(error), ..
        } => error.sqlstate == "28000",
        _ => false,
    }
}

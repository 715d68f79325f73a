//! From a `Conninfo` to a session: which servers to try, in which order, with
//! and without TLS, and when to stop trying (libpq, "Connection Control
//! Functions": target_session_attrs, several hosts, sslmode).

use super::cancel::CancelKey;
use super::channel::Channel;
use super::conninfo::{Conninfo, Host};
use super::dial::{Endpoint, dial, resolve};
use super::error::ConnectError;
use super::session::Session;
use super::startup::Startup;
use std::sync::Arc;
use std::time::Instant;

/// Connects to the first server that can be had.
pub fn connect(conninfo: &Conninfo) -> Result<Session, ConnectError> {
    let conninfo = Arc::new(conninfo.clone());
    let mut errors = Vec::new();
    for host in &conninfo.hosts {
        let endpoints = match resolve(host) {
            Ok(endpoints) => endpoints,
            Err(error) => {
                errors.push(error);
                continue;
            }
        };
        for endpoint in endpoints {
            match open(&conninfo, host, &endpoint) {
                Ok(session) => return Ok(session),
                Err(error) => errors.push(error),
            }
        }
    }
    Err(match errors.pop() {
        Some(only) if errors.is_empty() => only,
        Some(last) => {
            errors.push(last);
            ConnectError::All(errors)
        }
        None => ConnectError::All(errors),
    })
}

fn open(
    conninfo: &Arc<Conninfo>,
    host: &Host,
    endpoint: &Endpoint,
) -> Result<Session, ConnectError> {
    let server = host.to_string();
    let deadline = conninfo
        .connect_timeout
        .and_then(|timeout| Instant::now().checked_add(timeout));
    let mut channel = Channel::new(dial(endpoint, &server, conninfo, deadline)?);
    let greeting = Startup {
        channel: &mut channel,
        conninfo,
        server: &server,
        password: host.password.as_ref(),
        binding: None,
        deadline,
    }
    .run()?;
    let cancel = CancelKey {
        conninfo: conninfo.clone(),
        endpoint: endpoint.clone(),
        server: server.clone(),
        process_id: greeting.process_id,
        secret_key: greeting.secret_key,
    };
    Ok(Session::new(channel, greeting, cancel, server))
}

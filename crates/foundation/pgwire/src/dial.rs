//! From a host to a connected, non-blocking socket.

use super::conninfo::{Conninfo, Host, Place};
use super::error::ConnectError;
use super::interrupt::Hearing;
use super::transport::{Transport, wait};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::{Duration, Instant};

/// One address at which a server may be found, resolved once so that a cancel
/// request goes to the same server as the session.
#[derive(Debug, Clone)]
pub(super) enum Endpoint {
    Unix(SocketAddrUnix),
    Tcp(SocketAddr),
}

/// Looks a host up. A name may have several addresses.
pub(super) fn resolve(host: &Host) -> Result<Vec<Endpoint>, ConnectError> {
    let server = host.to_string();
    match &host.place {
        Place::Socket(directory) => {
            let path = host.to_string();
            let address = match directory.strip_prefix('@') {
                Some(_) => SocketAddrUnix::new_abstract_name(&path.as_bytes()[1..]),
                None => SocketAddrUnix::new(path.as_str()),
            };
            let address = address.map_err(|_| ConnectError::NotFound {
                why: format!(
                    "the socket's path has {} bytes, a Unix socket's at most 107; use a shorter \
                     directory",
                    path.len()
                ),
                server,
            })?;
            Ok(vec![Endpoint::Unix(address)])
        }
        Place::Address(address, _) => Ok(vec![Endpoint::Tcp(SocketAddr::new(*address, host.port))]),
        Place::Name(name) => match (name.as_str(), host.port).to_socket_addrs() {
            Ok(addresses) => Ok(addresses.map(Endpoint::Tcp).collect()),
            Err(error) => Err(ConnectError::NotFound {
                server,
                why: format!("the name \"{name}\" does not resolve ({error}); is it spelt right?"),
            }),
        },
    }
}

/// Connects before the deadline.
pub(super) fn dial(
    endpoint: &Endpoint,
    server: &str,
    conninfo: &Conninfo,
    deadline: Option<Instant>,
) -> Result<Transport, ConnectError> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let open = |family| {
        rustix::net::socket_with(family, SocketType::STREAM, flags, None).map_err(|errno| {
            ConnectError::Io {
                server: server.to_owned(),
                doing: "opening a socket",
                error: io::Error::from(errno),
            }
        })
    };
    let failed = |errno| fault(errno, server);
    let broken_off = |error| ConnectError::Io {
        server: server.to_owned(),
        doing: "connecting",
        error,
    };
    match endpoint {
        Endpoint::Unix(address) => {
            let fd = open(AddressFamily::UNIX)?;
            // A full backlog is EAGAIN here, and no event tells when it is
            // not: try again a little later, as a blocking connect would wait.
            let give_up = deadline.unwrap_or_else(|| Instant::now() + conninfo.patience());
            let mut hearing = Hearing::begin();
            loop {
                match rustix::net::connect(&fd, address) {
                    Ok(()) => return Ok(Transport::Unix(fd)),
                    Err(Errno::INTR) => {}
                    Err(Errno::AGAIN) if Instant::now() < give_up => {
                        hearing.slice().map_err(&broken_off)?;
                        std::thread::sleep(Duration::from_millis(2));
                    }
                    Err(Errno::AGAIN) => return Err(timeout(server, conninfo)),
                    Err(errno) => return Err(failed(errno)),
                }
            }
        }
        Endpoint::Tcp(address) => {
            let fd = open(match address {
                SocketAddr::V4(_) => AddressFamily::INET,
                SocketAddr::V6(_) => AddressFamily::INET6,
            })?;
            match rustix::net::connect(&fd, address) {
                Ok(()) => {}
                Err(Errno::INPROGRESS | Errno::INTR) => {
                    let ready = wait(fd.as_fd(), false, true, deadline).map_err(&broken_off)?;
                    if !ready {
                        return Err(timeout(server, conninfo));
                    }
                    sockopt::socket_error(&fd)
                        .and_then(|outcome| outcome)
                        .map_err(failed)?;
                }
                Err(errno) => return Err(failed(errno)),
            }
            tune(&fd, conninfo).map_err(failed)?;
            Ok(Transport::Tcp(fd))
        }
    }
}

/// The options of a TCP socket: no delay always, as libpq; keepalives and the
/// user timeout as asked for.
fn tune(fd: &OwnedFd, conninfo: &Conninfo) -> rustix::io::Result<()> {
    sockopt::set_tcp_nodelay(fd, true)?;
    let keepalives = &conninfo.keepalives;
    sockopt::set_socket_keepalive(fd, keepalives.on)?;
    if keepalives.on {
        let seconds = |s: u32| Duration::from_secs(s.into());
        if let Some(idle) = keepalives.idle_s {
            sockopt::set_tcp_keepidle(fd, seconds(idle))?;
        }
        if let Some(interval) = keepalives.interval_s {
            sockopt::set_tcp_keepintvl(fd, seconds(interval))?;
        }
        if let Some(count) = keepalives.count {
            sockopt::set_tcp_keepcnt(fd, count)?;
        }
    }
    if let Some(timeout) = conninfo.tcp_user_timeout {
        sockopt::set_tcp_user_timeout(fd, u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX))?;
    }
    Ok(())
}

fn timeout(server: &str, conninfo: &Conninfo) -> ConnectError {
    ConnectError::Timeout {
        server: server.to_owned(),
        doing: "connecting",
        after: conninfo.patience(),
    }
}

/// What a failed connect means to the user.
fn fault(errno: Errno, server: &str) -> ConnectError {
    let server = server.to_owned();
    match errno {
        Errno::NOENT => ConnectError::NotFound {
            server,
            why: "there is no such socket; is a server running, and does its \
                  unix_socket_directories name this directory (host=…) and its port this number \
                  (port=…)?"
                .to_owned(),
        },
        Errno::CONNREFUSED => ConnectError::Refused { server },
        Errno::ACCESS | Errno::PERM => ConnectError::Forbidden {
            server,
            error: errno.into(),
        },
        Errno::HOSTUNREACH | Errno::NETUNREACH => ConnectError::NotFound {
            server,
            why: format!(
                "{}; check the address and the network",
                io::Error::from(errno)
            ),
        },
        _ => ConnectError::Io {
            server,
            doing: "connecting",
            error: errno.into(),
        },
    }
}

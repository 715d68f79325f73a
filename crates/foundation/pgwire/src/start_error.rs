//! A connection's error before its session has begun.

use super::channel::ChannelError;
use super::conninfo::Conninfo;
use super::error::ConnectError;

/// A channel's error during start-up.
pub(super) fn broken(
    error: ChannelError,
    server: &str,
    conninfo: &Conninfo,
    doing: &'static str,
) -> ConnectError {
    let server = server.to_owned();
    match error {
        ChannelError::Timeout => ConnectError::Timeout {
            server,
            doing,
            after: conninfo.patience(),
        },
        ChannelError::Protocol(why) => ConnectError::Protocol { server, why },
        // In TLS 1.3 the server judges our certificate after our handshake.
        ChannelError::Io(error) if is_alert(&error) => ConnectError::Tls {
            server,
            why: format!("{error}; does the server trust the client certificate, or ask for one?"),
        },
        ChannelError::Io(error) => ConnectError::Io {
            server,
            doing,
            error,
        },
        ChannelError::Closed { midway } => ConnectError::Io {
            server,
            doing,
            error: std::io::Error::new(
                std::io::ErrorKind::UnexpectedEof,
                if midway {
                    "the server closed it in the middle of a message"
                } else {
                    "the server closed it; its log says why"
                },
            ),
        },
    }
}

fn is_alert(error: &std::io::Error) -> bool {
    let inner = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>());
    matches!(inner, Some(rustls::Error::AlertReceived(_)))
}

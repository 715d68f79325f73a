//! Whether a server that was just launched takes connections yet.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use postgres_protocol::message::{backend, frontend};

/// What a probe of the socket found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Readiness {
    /// A session was opened and closed.
    Ready,
    /// No socket yet, or the server says that it is starting (57P03).
    Starting,
    /// The server refused for another reason: its message.
    Refused(String),
}

/// Opens a session as the cluster's superuser and closes it again.
///
/// Done by the wire protocol and not by the pid file's status line, which
/// versions before 10 do not write.
pub(super) fn probe(socket: &Path) -> Readiness {
    match session(socket) {
        Ok(readiness) => readiness,
        // No listener yet, or one that closed while starting: asked again,
        // and the launcher's time limit ends it.
        Err(_) => Readiness::Starting,
    }
}

fn session(socket: &Path) -> io::Result<Readiness> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.set_write_timeout(Some(Duration::from_secs(5)))?;
    let mut out = BytesMut::new();
    let parameters = [
        ("user", "postgres"),
        ("database", "postgres"),
        ("application_name", "pgassay"),
    ];
    frontend::startup_message(parameters, &mut out)?;
    stream.write_all(&out)?;
    let mut received = BytesMut::new();
    let mut chunk = [0_u8; 4096];
    loop {
        while let Some(message) = backend::Message::parse(&mut received)? {
            match message {
                backend::Message::ReadyForQuery(_) => {
                    out.clear();
                    frontend::terminate(&mut out);
                    stream.write_all(&out)?;
                    // Waits for the backend to be gone: it is not to be among
                    // the sessions that a first trial counts.
                    while stream.read(&mut chunk)? > 0 {}
                    return Ok(Readiness::Ready);
                }
                backend::Message::ErrorResponse(body) => {
                    let (mut code, mut text) = (String::new(), String::new());
                    let mut fields = body.fields();
                    while let Some(field) = fields.next()? {
                        let value = String::from_utf8_lossy(field.value_bytes()).into_owned();
                        match field.type_() {
                            b'C' => code = value,
                            b'M' => text = value,
                            _ => {}
                        }
                    }
                    // cannot_connect_now
                    return Ok(if code == "57P03" {
                        Readiness::Starting
                    } else {
                        Readiness::Refused(text)
                    });
                }
                _ => {}
            }
        }
        let count = stream.read(&mut chunk)?;
        if count == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        received.extend_from_slice(&chunk[..count]);
    }
}

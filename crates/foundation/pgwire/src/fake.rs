//! A scripted peer that plays a PostgreSQL server, well or badly, for tests:
//! garbage, half messages, oversized and misplaced ones, silence, hanging up.
//! It is part of the library because the tests of several modules, and those
//! outside the crate, play against it.

use super::conninfo::{Conninfo, Host, Place};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;
use std::time::Duration;

/// One thing that the peer does.
#[derive(Debug, Clone)]
pub enum Step {
    /// Reads the client's start-up packet (an SSLRequest is declined with `N`
    /// first) and ignores what it says.
    ReadStartup,
    /// Reads one message from the client and ignores it.
    ReadMessage,
    /// Reads messages until one with that tag has been read.
    ReadUntil(u8),
    /// Sends these bytes at once.
    Send(Vec<u8>),
    /// Sends these bytes one at a time, with that pause after each.
    Drip(Vec<u8>, Duration),
    /// Does nothing for that long.
    Sleep(Duration),
    /// Stays connected and silent until the client closes.
    Freeze,
    /// Closes its side for sending; the client sees the end of the stream.
    HangUp,
    /// Closes with unread data pending, so that the client sees a reset where
    /// the kernel sends one.
    Reset,
}

/// Messages as a server sends them.
pub mod say {
    /// Any message: tag, length, body.
    pub fn message(tag: u8, body: &[u8]) -> Vec<u8> {
        let mut bytes = vec![tag];
        let length = u32::try_from(body.len() + 4).unwrap_or(u32::MAX);
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes.extend_from_slice(body);
        bytes
    }

    /// A header that announces `length` (counted as the protocol does, itself
    /// included) with nothing after it.
    pub fn header(tag: u8, length: u32) -> Vec<u8> {
        let mut bytes = vec![tag];
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes
    }

    /// AuthenticationOk.
    pub fn auth_ok() -> Vec<u8> {
        message(b'R', &[0, 0, 0, 0])
    }

    /// A request for SASL with these mechanisms.
    pub fn auth_sasl(mechanisms: &[&str]) -> Vec<u8> {
        let mut body = vec![0, 0, 0, 10];
        for mechanism in mechanisms {
            body.extend_from_slice(mechanism.as_bytes());
            body.push(0);
        }
        body.push(0);
        message(b'R', &body)
    }

    /// ParameterStatus.
    pub fn parameter(name: &str, value: &str) -> Vec<u8> {
        message(b'S', format!("{name}\0{value}\0").as_bytes())
    }

    /// BackendKeyData.
    pub fn key(process_id: u32, secret: u32) -> Vec<u8> {
        message(
            b'K',
            &[process_id.to_be_bytes(), secret.to_be_bytes()].concat(),
        )
    }

    /// ReadyForQuery; `I`, `T` or `E`.
    pub fn ready(status: u8) -> Vec<u8> {
        message(b'Z', &[status])
    }

    /// All that a server says to let a client in without asking anything.
    pub fn welcome() -> Vec<u8> {
        [
            auth_ok(),
            parameter("server_version", "15.0"),
            key(4711, 42),
            ready(b'I'),
        ]
        .concat()
    }

    /// RowDescription of text columns.
    pub fn columns(names: &[&str]) -> Vec<u8> {
        let mut body = u16::try_from(names.len())
            .unwrap_or(u16::MAX)
            .to_be_bytes()
            .to_vec();
        for name in names {
            body.extend_from_slice(name.as_bytes());
            // Table, column number, type text (25), length, modifier, format.
            body.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0]);
            body.extend_from_slice(&[0, 0, 0, 25, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0]);
        }
        message(b'T', &body)
    }

    /// DataRow.
    pub fn row(values: &[Option<&str>]) -> Vec<u8> {
        let mut body = u16::try_from(values.len())
            .unwrap_or(u16::MAX)
            .to_be_bytes()
            .to_vec();
        for value in values {
            match value {
                None => body.extend_from_slice(&[0xff; 4]),
                Some(text) => {
                    let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
                    body.extend_from_slice(&length.to_be_bytes());
                    body.extend_from_slice(text.as_bytes());
                }
            }
        }
        message(b'D', &body)
    }

    /// CommandComplete.
    pub fn complete(tag: &str) -> Vec<u8> {
        message(b'C', format!("{tag}\0").as_bytes())
    }

    /// ErrorResponse.
    pub fn error(severity: &str, sqlstate: &str, text: &str) -> Vec<u8> {
        message(
            b'E',
            format!("S{severity}\0V{severity}\0C{sqlstate}\0M{text}\0\0").as_bytes(),
        )
    }

    /// NoticeResponse.
    pub fn notice(text: &str) -> Vec<u8> {
        message(
            b'N',
            format!("SNOTICE\0VNOTICE\0C00000\0M{text}\0\0").as_bytes(),
        )
    }
}

/// A peer under way. It serves one connection after another with one script
/// each; dropping it waits for the last to end.
pub struct FakeServer {
    port: u16,
    thread: Option<JoinHandle<()>>,
}

impl FakeServer {
    /// Listens on a TCP port of the loopback interface and serves as many
    /// connections as there are scripts, in turn. A connection that is refused
    /// or left early by the client ends its script.
    pub fn listen(scripts: Vec<Vec<Step>>) -> io::Result<FakeServer> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let port = listener.local_addr()?.port();
        let thread = std::thread::spawn(move || {
            for script in scripts {
                let Ok((stream, _)) = listener.accept() else {
                    return;
                };
                // A client that leaves in the middle is part of the play.
                let _ = play(Peer::Tcp(stream), &script);
            }
        });
        Ok(FakeServer {
            port,
            thread: Some(thread),
        })
    }

    /// The same with as many connections at a time as there are scripts.
    pub fn crowd(scripts: Vec<Vec<Step>>) -> io::Result<FakeServer> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let port = listener.local_addr()?.port();
        let thread = std::thread::spawn(move || {
            std::thread::scope(|scope| {
                for script in &scripts {
                    let Ok((stream, _)) = listener.accept() else {
                        return;
                    };
                    scope.spawn(move || play(Peer::Tcp(stream), script));
                }
            });
        });
        Ok(FakeServer {
            port,
            thread: Some(thread),
        })
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// A connection string to it, without TLS.
    pub fn conninfo(&self) -> Conninfo {
        let mut conninfo = Conninfo::on_socket("/", self.port, "tester", "test");
        let address = std::net::Ipv4Addr::LOCALHOST.into();
        conninfo.hosts = vec![Host {
            place: Place::Address(address, None),
            port: self.port,
            password: None,
        }];
        conninfo
    }
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            // Scripts that no client came for are used up by ourselves.
            while !thread.is_finished() {
                let _ = TcpStream::connect(("127.0.0.1", self.port));
                std::thread::sleep(Duration::from_millis(1));
            }
            let _ = thread.join();
        }
    }
}

/// One end of a socket pair whose other end plays the script in a thread, for
/// tests that begin after the start-up.
pub fn pair(script: Vec<Step>) -> io::Result<(UnixStream, JoinHandle<()>)> {
    let (ours, theirs) = UnixStream::pair()?;
    let thread = std::thread::spawn(move || {
        let _ = play(Peer::Unix(theirs), &script);
    });
    Ok((ours, thread))
}

enum Peer {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Peer {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<()> {
        match self {
            Peer::Tcp(stream) => stream.read_exact(buf),
            Peer::Unix(stream) => stream.read_exact(buf),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Peer::Tcp(stream) => stream.write_all(bytes),
            Peer::Unix(stream) => stream.write_all(bytes),
        }
    }

    fn hang_up(&self) -> io::Result<()> {
        match self {
            Peer::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Peer::Unix(stream) => stream.shutdown(Shutdown::Write),
        }
    }

    /// Reads a length and what it announces.
    fn skip_body(&mut self) -> io::Result<Vec<u8>> {
        let mut length = [0; 4];
        self.read(&mut length)?;
        let rest = u32::from_be_bytes(length).saturating_sub(4);
        let mut body = vec![0; usize::try_from(rest.min(1 << 30)).unwrap_or(0)];
        self.read(&mut body)?;
        Ok(body)
    }
}

/// The code in place of a protocol version that asks for TLS.
const SSL_REQUEST: [u8; 4] = 80_877_103_u32.to_be_bytes();

fn play(mut peer: Peer, script: &[Step]) -> io::Result<()> {
    if let Peer::Tcp(stream) = &peer {
        stream.set_nodelay(true)?;
    }
    for step in script {
        match step {
            Step::ReadStartup => {
                while peer.skip_body()?.starts_with(&SSL_REQUEST) {
                    peer.write(b"N")?;
                }
            }
            Step::ReadMessage => {
                peer.read(&mut [0])?;
                peer.skip_body()?;
            }
            Step::ReadUntil(tag) => {
                let mut seen = [0];
                while seen[0] != *tag {
                    peer.read(&mut seen)?;
                    peer.skip_body()?;
                }
            }
            Step::Send(bytes) => peer.write(bytes)?,
            Step::Drip(bytes, pause) => {
                for byte in bytes {
                    peer.write(&[*byte])?;
                    std::thread::sleep(*pause);
                }
            }
            Step::Sleep(time) => std::thread::sleep(*time),
            Step::Freeze => while peer.read(&mut [0]).is_ok() {},
            Step::HangUp => {
                peer.hang_up()?;
                while peer.read(&mut [0]).is_ok() {}
            }
            Step::Reset => return Ok(()),
        }
    }
    Ok(())
}

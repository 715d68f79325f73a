//! A peer that answers at once: what a client can do when the server costs nothing.
//!
//! It takes the place of a server on a Unix socket, admits everybody, and gives each statement one
//! small row without looking at it. What the engine reaches against it is the ceiling of the client
//! on this machine; points of a measurement that come near it say more about the client than about
//! the server. Tests put ten thousand clients on it.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use rustix::event::{Timespec, epoll};

use pgassay_pgwire::Conninfo;

const PORT: u16 = 5432;
const LISTENER: u64 = u64::MAX;
/// AuthenticationOk, ParameterStatus, BackendKeyData, ReadyForQuery.
const WELCOME: &[u8] = b"R\0\0\0\x08\0\0\0\0S\0\0\0\x18server_version\x0015.0\0K\0\0\0\x0c\0\0\0\x01\0\0\0\x02Z\0\0\0\x05I";
/// RowDescription of one int4 column named a.
const DESCRIPTION: &[u8] = b"T\0\0\0\x1a\0\x01a\0\0\0\0\0\0\0\0\0\0\x17\0\x04\xff\xff\xff\xff\0\0";
/// DataRow with the text 1, CommandComplete.
const ROW: &[u8] = b"D\0\0\0\x0b\0\x01\0\0\0\x011C\0\0\0\x0dSELECT 1\0";
const READY: &[u8] = b"Z\0\0\0\x05I";
/// SSLRequest and GSSENCRequest, in place of a protocol version.
const ENCRYPTION: [i32; 2] = [80_877_103, 80_877_104];
/// No statement of a load script is longer; a longer one ends its connection.
const LONGEST: usize = 64 << 20;

/// A peer under way; dropping it ends it.
pub struct Peer {
    directory: PathBuf,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Peer {
    /// Serves on a socket in `directory`, in a thread of its own.
    pub fn listen(directory: &Path) -> io::Result<Peer> {
        let listener = UnixListener::bind(directory.join(format!(".s.PGSQL.{PORT}")))?;
        listener.set_nonblocking(true)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let data = epoll::EventData::new_u64(LISTENER);
        epoll::add(&epoll, &listener, data, epoll::EventFlags::IN)?;
        let stop = Arc::new(AtomicBool::new(false));
        let thread = std::thread::Builder::new().name("peer".to_owned()).spawn({
            let stop = stop.clone();
            move || {
                let mut server = Serving {
                    listener,
                    epoll,
                    peers: Vec::new(),
                    free: Vec::new(),
                };
                while !stop.load(Ordering::Relaxed) && server.turn().is_ok() {}
            }
        })?;
        Ok(Peer {
            directory: directory.to_owned(),
            stop,
            thread: Some(thread),
        })
    }

    /// How to connect to it.
    pub fn conninfo(&self) -> Conninfo {
        Conninfo::on_socket(&self.directory.to_string_lossy(), PORT, "load", "load")
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has nothing to add here.
            let _ = thread.join();
        }
        let _ = std::fs::remove_file(self.directory.join(format!(".s.PGSQL.{PORT}")));
    }
}

struct Serving {
    listener: UnixListener,
    epoll: rustix::fd::OwnedFd,
    peers: Vec<Option<Connection>>,
    free: Vec<usize>,
}

struct Connection {
    stream: UnixStream,
    admitted: bool,
    /// The beginning of a message whose end has not come.
    partial: Vec<u8>,
}

impl Serving {
    fn turn(&mut self) -> io::Result<()> {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(256);
        let wait = Timespec {
            tv_sec: 0,
            tv_nsec: 50_000_000,
        };
        match epoll::wait(
            &self.epoll,
            rustix::buffer::spare_capacity(&mut events),
            Some(&wait),
        ) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut input = vec![0; 64 * 1024];
        let mut output = Vec::new();
        for event in &events {
            if event.data.u64() == LISTENER {
                self.admit();
                continue;
            }
            let place = event.data.u64() as usize;
            let Some(Some(connection)) = self.peers.get_mut(place) else {
                continue;
            };
            output.clear();
            if !connection.serve(&mut input, &mut output) {
                self.peers[place] = None; // closing it takes it out of epoll
                self.free.push(place);
            }
        }
        Ok(())
    }

    fn admit(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            let place = self.free.pop().unwrap_or_else(|| {
                self.peers.push(None);
                self.peers.len() - 1
            });
            let data = epoll::EventData::new_u64(place as u64);
            if epoll::add(&self.epoll, &stream, data, epoll::EventFlags::IN).is_ok() {
                self.peers[place] = Some(Connection {
                    stream,
                    admitted: false,
                    partial: Vec::new(),
                });
            }
        }
    }
}

impl Connection {
    /// Answers what has come; false ends the connection.
    fn serve(&mut self, input: &mut [u8], output: &mut Vec<u8>) -> bool {
        let n = match self.stream.read(input) {
            Ok(0) | Err(_) => return false,
            Ok(n) => n,
        };
        if self.partial.is_empty() {
            let Some(used) = self.answer(&input[..n], output) else {
                return false;
            };
            self.partial.extend_from_slice(&input[used..n]);
        } else {
            let mut bytes = std::mem::take(&mut self.partial);
            bytes.extend_from_slice(&input[..n]);
            let Some(used) = self.answer(&bytes, output) else {
                return false;
            };
            bytes.drain(..used);
            self.partial = bytes;
        }
        self.stream.write_all(output).is_ok()
    }

    /// Answers whole messages; how many bytes they were, or none for an end.
    fn answer(&mut self, bytes: &[u8], output: &mut Vec<u8>) -> Option<usize> {
        let mut used = 0;
        loop {
            let rest = &bytes[used..];
            let header = if self.admitted { 1 } else { 0 };
            let Some(length) = rest.get(header..header + 4) else {
                return Some(used);
            };
            let length = usize::try_from(i32::from_be_bytes(length.try_into().ok()?)).ok()?;
            if !(4..LONGEST).contains(&length) {
                return None;
            }
            let Some(message) = rest.get(..header + length) else {
                return Some(used);
            };
            used += message.len();
            if !self.admitted {
                let version = i32::from_be_bytes(message.get(4..8)?.try_into().ok()?);
                if ENCRYPTION.contains(&version) {
                    output.push(b'N');
                } else {
                    self.admitted = true;
                    output.extend_from_slice(WELCOME);
                }
                continue;
            }
            match message[0] {
                b'Q' => {
                    for part in [DESCRIPTION, ROW, READY] {
                        output.extend_from_slice(part);
                    }
                }
                b'P' => output.extend_from_slice(b"1\0\0\0\x04"),
                b'B' => output.extend_from_slice(b"2\0\0\0\x04"),
                b'C' => output.extend_from_slice(b"3\0\0\0\x04"),
                b'D' => output.extend_from_slice(DESCRIPTION),
                b'E' => output.extend_from_slice(ROW),
                b'S' => output.extend_from_slice(READY),
                b'H' => {}
                _ => return None,
            }
        }
    }
}

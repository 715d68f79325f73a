//! The bytes' way to the server: a Unix or TCP socket, or TLS over one.
//!
//! Every socket is non-blocking. Whoever must wait does it with `wait` here or
//! with an epoll of its own. One contract serves an edge-triggered loop on all
//! kinds: **a read that returns fewer bytes than asked for, or `WouldBlock`,
//! has drained the socket**, so the next thing to do is to wait for an event.
//! On a plain socket a read is exactly one `recv` and a write one `send`; for sends that go out
//! otherwise, several connections' in one system call, see `seal`.
//! (The end of the stream may hide behind a short read: register for
//! `EPOLLRDHUP` and read once more when it is reported.)

use super::interrupt::Hearing;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::{RecvFlags, SendFlags};
use std::io::{self, IoSlice, Read, Write};
use std::time::Instant;

/// How much TLS ciphertext is taken from the socket in one call: a full TLS
/// record (16 KiB and its header) fits.
const CIPHERTEXT_CHUNK: usize = 18 * 1024;

/// Plaintext waiting to be sent over TLS beyond which `write` refuses more.
const PLAINTEXT_LIMIT: usize = 64 * 1024;

/// A connected, non-blocking way to the server.
pub enum Transport {
    /// A Unix stream socket.
    Unix(OwnedFd),
    /// A TCP socket.
    Tcp(OwnedFd),
    /// TLS, nearly always over TCP.
    Tls(Box<TlsTransport>),
}

/// A TLS session and the socket below it.
pub struct TlsTransport {
    fd: OwnedFd,
    session: rustls::ClientConnection,
    /// Ciphertext received and not yet taken by the session.
    incoming: Vec<u8>,
    taken: usize,
    filled: usize,
    /// The last read ended at the caller's buffer, not at the end of the
    /// plaintext.
    more_plaintext: bool,
    /// Records are with the caller of `seal`: none may overtake them.
    handed_over: bool,
    /// Those of them that the socket did not take; they go first.
    returned: Vec<u8>,
}

impl Transport {
    /// Reads what has arrived; 0 is the end of the stream.
    pub fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Transport::Unix(fd) | Transport::Tcp(fd) => receive(fd, buf),
            Transport::Tls(tls) => tls.read(buf),
        }
    }

    /// Writes as much as fits. Over TLS the bytes accepted may still wait for
    /// the socket: see `wants_write`.
    pub fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match self {
            Transport::Unix(fd) | Transport::Tcp(fd) => {
                Ok(rustix::net::send(fd, buf, SendFlags::NOSIGNAL)?)
            }
            Transport::Tls(tls) => tls.write(buf),
        }
    }

    /// Sends what TLS holds back; `WouldBlock` while some remains. Nothing to
    /// do on a plain socket.
    pub fn flush(&mut self) -> io::Result<()> {
        match self {
            Transport::Unix(_) | Transport::Tcp(_) => Ok(()),
            Transport::Tls(tls) => tls.flush(),
        }
    }

    /// Whether `flush` has something to send when the socket takes it.
    pub fn wants_write(&self) -> bool {
        match self {
            Transport::Unix(_) | Transport::Tcp(_) => false,
            Transport::Tls(tls) => tls.wants_write(),
        }
    }

    /// Appends to `out` what the socket is to be sent for `plain`, at most 64 KiB: over TLS the
    /// records, else the bytes themselves. The caller sends it and says with `sent` what became of
    /// it; until then nothing else goes out. An error if something waits to be sent already (see
    /// `can_seal`).
    pub fn seal(&mut self, plain: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        match self {
            Transport::Unix(_) | Transport::Tcp(_) => {
                out.extend_from_slice(plain);
                Ok(())
            }
            Transport::Tls(tls) => tls.seal(plain, out),
        }
    }

    /// Whether nothing waits to be sent or is with the caller of `seal`.
    pub fn can_seal(&self) -> bool {
        match self {
            Transport::Unix(_) | Transport::Tcp(_) => true,
            Transport::Tls(tls) => !tls.handed_over && !tls.wants_write(),
        }
    }

    /// What `seal` gave has been sent, except `rest`. TLS keeps that for `flush`; a plain socket
    /// keeps nothing, and `rest` remains to be written.
    pub fn sent<'a>(&mut self, rest: &'a [u8]) -> &'a [u8] {
        match self {
            Transport::Unix(_) | Transport::Tcp(_) => rest,
            Transport::Tls(tls) => {
                tls.handed_over = false;
                tls.returned.extend_from_slice(rest);
                &[]
            }
        }
    }

    /// The socket, for epoll.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Transport::Unix(fd) | Transport::Tcp(fd) => fd.as_fd(),
            Transport::Tls(tls) => tls.fd.as_fd(),
        }
    }

    /// Whether bytes were taken from the socket that no `read` has returned
    /// yet: epoll will not report them. Always false on a plain socket, and
    /// false after a read that was short.
    pub fn has_buffered_plaintext(&self) -> bool {
        match self {
            Transport::Unix(_) | Transport::Tcp(_) => false,
            Transport::Tls(tls) => tls.has_buffered(),
        }
    }

    /// Whether the bytes are encrypted.
    pub fn is_tls(&self) -> bool {
        matches!(self, Transport::Tls(_))
    }

    /// `TLSv1.3, TLS13_AES_256_GCM_SHA384` and the like, or `None`.
    pub fn tls_description(&self) -> Option<String> {
        let Transport::Tls(tls) = self else {
            return None;
        };
        let version = tls.session.protocol_version()?;
        let suite = tls.session.negotiated_cipher_suite()?;
        let version = version.as_str().unwrap_or("TLS").replace('_', ".");
        Some(format!(
            "{version}, {}",
            suite.suite().as_str().unwrap_or("?")
        ))
    }

    /// The process id of the server's main process, where the kernel knows it:
    /// on a Unix socket it is the one that called listen().
    pub fn peer_pid(&self) -> Option<u32> {
        let Transport::Unix(fd) = self else {
            return None;
        };
        let peer = rustix::net::sockopt::socket_peercred(fd).ok()?;
        u32::try_from(peer.pid.as_raw_nonzero().get()).ok()
    }

    /// Waits until the socket can be read, or written if `for_write` too, or
    /// until the deadline. False when the deadline passed.
    pub(super) fn wait(
        &self,
        for_read: bool,
        for_write: bool,
        deadline: Option<Instant>,
    ) -> io::Result<bool> {
        wait(self.as_fd(), for_read, for_write, deadline)
    }

    /// Completes a TLS handshake over a connected socket before the deadline.
    pub(super) fn handshake(
        fd: OwnedFd,
        session: rustls::ClientConnection,
        deadline: Option<Instant>,
    ) -> io::Result<TlsTransport> {
        let incoming = vec![0; CIPHERTEXT_CHUNK];
        let mut tls = TlsTransport {
            fd,
            session,
            incoming,
            taken: 0,
            filled: 0,
            more_plaintext: false,
            handed_over: false,
            returned: Vec::new(),
        };
        tls.session.set_buffer_limit(Some(PLAINTEXT_LIMIT));
        while tls.session.is_handshaking() {
            let mut blocked_on_write = false;
            match tls.flush() {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => blocked_on_write = true,
                Err(error) => return Err(error),
            }
            if !tls.session.is_handshaking() {
                break;
            }
            match tls.take_in() {
                Ok(TakenIn::End) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if !wait(tls.fd.as_fd(), true, blocked_on_write, deadline)? {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                }
                Err(error) => {
                    // The alert that says why we break off is queued; the
                    // server's log should have it.
                    let _ = tls.flush();
                    return Err(error);
                }
            }
        }
        match tls.flush() {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(tls),
        }
    }
}

/// What one attempt to take ciphertext in came to.
enum TakenIn {
    /// The socket may have more.
    Full,
    /// The socket is empty.
    Drained,
    /// The peer closed.
    End,
}

impl TlsTransport {
    /// The certificate chain that the server showed, its own first.
    pub(super) fn server_certificate(&self) -> Option<&[u8]> {
        self.session.peer_certificates()?.first().map(AsRef::as_ref)
    }

    /// The application protocol that the server confirmed.
    pub(super) fn alpn(&self) -> Option<&[u8]> {
        self.session.alpn_protocol()
    }

    fn has_buffered(&self) -> bool {
        // `taken < filled` is ciphertext that the session would not take
        // before its plaintext is read.
        self.more_plaintext || self.taken < self.filled
    }

    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let mut n = 0;
        let mut drained = false;
        self.more_plaintext = false;
        loop {
            while n < buf.len() {
                match self.session.reader().read(&mut buf[n..]) {
                    Ok(0) => return Ok(n),
                    Ok(more) => n += more,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    // No close_notify before the end: PostgreSQL's crash or a
                    // cut line; for us the end of the stream.
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(n),
                    Err(error) => return Err(error),
                }
            }
            if n == buf.len() {
                // An error here comes again with the next read.
                let state = self.session.process_new_packets();
                self.more_plaintext = state.is_ok_and(|state| state.plaintext_bytes_to_read() > 0);
                return Ok(n);
            }
            if drained {
                return if n > 0 {
                    Ok(n)
                } else {
                    Err(io::ErrorKind::WouldBlock.into())
                };
            }
            match self.take_in() {
                Ok(TakenIn::Full) => {}
                Ok(TakenIn::Drained) => drained = true,
                Ok(TakenIn::End) => return Ok(n),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => drained = true,
                Err(error) if n == 0 => return Err(error),
                Err(_) => return Ok(n),
            }
            if self.session.wants_write() {
                // Answers to key updates and the like.
                let _ = self.flush();
            }
        }
    }

    /// At most one `recv`, given to the session as far as it takes it.
    fn take_in(&mut self) -> io::Result<TakenIn> {
        let mut state = TakenIn::Full;
        if self.taken == self.filled {
            self.taken = 0;
            self.filled = 0;
            let n = receive(&self.fd, &mut self.incoming)?;
            if n == 0 {
                // Lets the session tell a clean end from a cut one.
                self.session.read_tls(&mut io::empty())?;
                return Ok(TakenIn::End);
            }
            self.filled = n;
            if n < self.incoming.len() {
                state = TakenIn::Drained;
            }
        }
        while self.taken < self.filled {
            let mut rest = &self.incoming[self.taken..self.filled];
            match self.session.read_tls(&mut rest) {
                Ok(0) => break,
                Ok(n) => self.taken += n,
                // The session's plaintext buffer is full: read that first.
                Err(error) => {
                    let state = self.session.process_new_packets().map_err(broken)?;
                    if state.plaintext_bytes_to_read() == 0 {
                        return Err(error);
                    }
                    return Ok(TakenIn::Full);
                }
            }
            self.session.process_new_packets().map_err(broken)?;
        }
        Ok(state)
    }

    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.flush()?;
        let n = self.session.writer().write(buf)?;
        match self.flush() {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(n),
        }
    }

    fn seal(&mut self, plain: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        if self.handed_over || self.wants_write() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.session.writer().write_all(plain)?;
        while self.session.wants_write() {
            self.session.write_tls(out)?;
        }
        self.handed_over = true;
        Ok(())
    }

    fn wants_write(&self) -> bool {
        !self.returned.is_empty() || self.session.wants_write()
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.handed_over {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        while !self.returned.is_empty() {
            let n = Socket(&self.fd).write(&self.returned)?;
            self.returned.drain(..n);
        }
        while self.session.wants_write() {
            self.session.write_tls(&mut Socket(&self.fd))?;
        }
        Ok(())
    }
}

/// A TLS error as the I/O error that carries it.
fn broken(error: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// A socket as rustls writes to one: all its records in one system call.
struct Socket<'a>(&'a OwnedFd);

impl Write for Socket<'_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(self.0, buf, SendFlags::NOSIGNAL)?)
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        if let [only] = bufs {
            return self.write(only);
        }
        let mut control = rustix::net::SendAncillaryBuffer::default();
        Ok(rustix::net::sendmsg(
            self.0,
            bufs,
            &mut control,
            SendFlags::NOSIGNAL,
        )?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// One `recv`.
fn receive(fd: &OwnedFd, buf: &mut [u8]) -> io::Result<usize> {
    let (n, _) = rustix::net::recv(fd, buf, RecvFlags::empty())?;
    Ok(n)
}

/// Waits for a socket; false when the deadline passed.
pub(super) fn wait(
    fd: BorrowedFd<'_>,
    for_read: bool,
    for_write: bool,
    deadline: Option<Instant>,
) -> io::Result<bool> {
    let mut flags = PollFlags::empty();
    flags.set(PollFlags::IN, for_read);
    flags.set(PollFlags::OUT, for_write);
    let mut hearing = Hearing::begin();
    loop {
        let mut slice = hearing.slice()?;
        if let Some(deadline) = deadline {
            slice = slice.min(deadline.saturating_duration_since(Instant::now()));
        }
        let slice = rustix::event::Timespec::try_from(slice).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(&fd, flags)], Some(&slice)) {
            Ok(0) if deadline.is_none_or(|deadline| Instant::now() < deadline) => {}
            Ok(0) => return Ok(false),
            Ok(_) => return Ok(true),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

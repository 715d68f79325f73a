//! Messages for several sockets in one system call, by io_uring.
//!
//! A send that wakes a server process is a system call after which the scheduler may take the
//! processor away. Sends handed over together share one call, and so one such occasion. Nothing is
//! ever left under way: every send is told not to wait, so its result is there when the call
//! returns.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::{IoUring, Probe, opcode, types};

/// Most messages of one call. Those behind wait for those in front, so it is kept small.
pub const MOST: usize = 16;

/// A ring for the sends of one thread.
pub struct Gathered {
    ring: IoUring,
    /// The messages of the call, one after the other: the kernel reads them here.
    bytes: Vec<u8>,
    /// Whether sends may be queued or under way that no call has seen the end of.
    broken: bool,
}

impl Gathered {
    /// Asks the kernel for a ring. It refuses in many containers, and where it is older than 5.6,
    /// which brought the sends.
    pub fn new() -> io::Result<Self> {
        let ring = IoUring::builder().dontfork().build(MOST as u32)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        if !probe.is_supported(opcode::Send::CODE) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        Ok(Gathered {
            ring,
            bytes: Vec::with_capacity(4096),
            broken: false,
        })
    }

    /// Sends each message as far as its socket takes it at once; puts into `sent` how many bytes
    /// that were, in the messages' order. More than `MOST` messages are an error, as is a ring that
    /// fails; what of the messages has gone out is then unknown, and every later call fails as well.
    pub fn send(
        &mut self,
        messages: &[(BorrowedFd<'_>, &[u8])],
        sent: &mut Vec<io::Result<usize>>,
    ) -> io::Result<()> {
        if messages.len() > MOST || self.broken {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        sent.clear();
        self.bytes.clear();
        for (_, message) in messages {
            self.bytes.extend_from_slice(message);
        }
        self.broken = true;
        let mut start = 0;
        for (place, (fd, message)) in messages.iter().enumerate() {
            let length = u32::try_from(message.len()).map_err(io::Error::other)?;
            let entry = opcode::Send::new(
                types::Fd(fd.as_raw_fd()),
                self.bytes[start..].as_ptr(),
                length,
            )
            .flags(libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT)
            .build()
            .user_data(place as u64);
            start += message.len();
            // SAFETY: the bytes are this structure's own and are neither moved nor changed before
            // `complete` has seen the end of every send; where it can't, they are given up to the
            // kernel for good.
            let pushed = unsafe { self.ring.submission().push(&entry) };
            pushed.map_err(io::Error::other)?;
            sent.push(Err(io::ErrorKind::WouldBlock.into()));
        }
        self.complete(sent).inspect_err(|_| {
            // A send might still read them.
            std::mem::forget(std::mem::take(&mut self.bytes));
        })?;
        self.broken = false;
        Ok(())
    }

    /// Hands the queue over and takes the results in.
    fn complete(&mut self, sent: &mut [io::Result<usize>]) -> io::Result<()> {
        let mut missing = sent.len();
        while missing > 0 {
            match self.ring.submit_and_wait(missing) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            for completion in self.ring.completion() {
                let result = match completion.result() {
                    n if n >= 0 => Ok(n as usize),
                    error => Err(io::Error::from_raw_os_error(-error)),
                };
                let place = completion.user_data() as usize;
                if let Some(slot) = sent.get_mut(place) {
                    *slot = result;
                }
                missing = missing.saturating_sub(1);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    /// A kernel that refuses rings has nothing to be tested; that it refuses is said.
    fn ring() -> Option<Gathered> {
        match Gathered::new() {
            Ok(ring) => Some(ring),
            Err(error) => {
                assert!(
                    matches!(
                        error.raw_os_error(),
                        Some(libc::EPERM | libc::ENOSYS | libc::EACCES)
                    ) || error.kind() == io::ErrorKind::Unsupported,
                    "{error}"
                );
                None
            }
        }
    }

    #[test]
    fn each_message_reaches_its_socket() {
        let Some(mut ring) = ring() else { return };
        let pairs: Vec<_> = (0..MOST).map(|_| UnixStream::pair().unwrap()).collect();
        let texts: Vec<String> = (0..MOST).map(|i| "x".repeat(i) + "end").collect();
        let messages: Vec<_> = pairs
            .iter()
            .zip(&texts)
            .map(|((near, _), text)| (near.as_fd(), text.as_bytes()))
            .collect();
        let mut sent = Vec::new();
        for _ in 0..3 {
            ring.send(&messages, &mut sent).unwrap();
            for (((_, far), text), sent) in pairs.iter().zip(&texts).zip(&sent) {
                assert_eq!(*sent.as_ref().unwrap(), text.len());
                let mut got = vec![0; text.len()];
                (&*far).read_exact(&mut got).unwrap();
                assert_eq!(got, text.as_bytes());
            }
        }
    }

    #[test]
    fn a_full_socket_and_a_closed_one_hold_nobody_up() {
        let Some(mut ring) = ring() else { return };
        let (full, _far) = UnixStream::pair().unwrap();
        full.set_nonblocking(true).unwrap();
        while (&full).write(&[0; 4096]).is_ok() {}
        // The ring must not wait even where the socket would.
        full.set_nonblocking(false).unwrap();
        let (closed, far) = UnixStream::pair().unwrap();
        drop(far);
        let (open, mut other) = UnixStream::pair().unwrap();
        let messages = [
            (full.as_fd(), &b"a"[..]),
            (closed.as_fd(), &b"b"[..]),
            (open.as_fd(), &b"c"[..]),
        ];
        let mut sent = Vec::new();
        ring.send(&messages, &mut sent).unwrap();
        let kind = |i: usize| sent[i].as_ref().unwrap_err().kind();
        assert_eq!(kind(0), io::ErrorKind::WouldBlock);
        assert_eq!(kind(1), io::ErrorKind::BrokenPipe);
        assert_eq!(*sent[2].as_ref().unwrap(), 1);
        let mut got = [0; 1];
        other.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"c");
    }
}

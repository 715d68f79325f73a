//! A connection as hyper sees it: one that stops taking what it asked for is given up.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::rt::{ReadBufCursor, Sleep, Timer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// A TCP connection whose writes may stand still for so long only.
pub(crate) struct Patient {
    tcp: TcpStream,
    patience: Duration,
    stalled: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl Patient {
    pub(crate) fn new(tcp: TcpStream, patience: Duration) -> Self {
        Self {
            tcp,
            patience,
            stalled: None,
        }
    }
}

impl hyper::rt::Read for Patient {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut room: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let mut bytes = [0u8; 4096];
        let most = bytes.len().min(room.remaining());
        let mut buffer = ReadBuf::new(&mut bytes[..most]);
        match Pin::new(&mut self.get_mut().tcp).poll_read(cx, &mut buffer) {
            Poll::Ready(Ok(())) => {
                room.put_slice(buffer.filled());
                Poll::Ready(Ok(()))
            }
            other => other,
        }
    }
}

impl hyper::rt::Write for Patient {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if let ready @ Poll::Ready(_) = Pin::new(&mut this.tcp).poll_write(cx, bytes) {
            this.stalled = None;
            return ready;
        }
        let patience = this.patience;
        let stalled = this
            .stalled
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        match stalled.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().tcp).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().tcp).poll_shutdown(cx)
    }
}

/// hyper's clock: tokio's.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock;

/// A wait of hyper's.
struct Wait(Pin<Box<tokio::time::Sleep>>);

impl Future for Wait {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.0.as_mut().poll(cx)
    }
}

impl Sleep for Wait {}

impl Timer for Clock {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        Box::pin(Wait(Box::pin(tokio::time::sleep(duration))))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(Wait(Box::pin(tokio::time::sleep_until(deadline.into()))))
    }
}

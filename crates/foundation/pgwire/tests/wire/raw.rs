//! The bare transport as a load loop uses it: edge-triggered epoll, one read
//! and one write a transaction.

use pgassay_pgwire::{RawConnection, Transport};
use postgres_protocol::message::frontend;
use rustix::event::epoll;
use std::io;

/// Runs queries of growing answers over an edge-triggered epoll and checks
/// that the transport's contract holds: after a short read or `WouldBlock`
/// waiting for an event is right, so nothing hangs and nothing is lost.
pub fn ping_pong(mut raw: RawConnection) {
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC).expect("epoll");
    let flags = epoll::EventFlags::IN
        | epoll::EventFlags::OUT
        | epoll::EventFlags::RDHUP
        | epoll::EventFlags::ET;
    epoll::add(
        &poll,
        raw.transport.as_fd(),
        epoll::EventData::new_u64(7),
        flags,
    )
    .expect("add");
    assert!(raw.unread.is_empty(), "{:?}", raw.unread);
    for bytes in [0, 1, 100, 16_300, 16_384, 20_000, 70_000, 1_000_000, 3] {
        // A buffer of every awkward size, so that TLS records straddle it.
        for buffer in [16_384, 1_000, 65_536] {
            let mut out = bytes::BytesMut::new();
            frontend::query(&format!("select repeat('y', {bytes})"), &mut out).expect("query");
            if buffer == 1_000 {
                send_sealed(&mut raw.transport, &out);
            } else {
                assert_eq!(raw.transport.write(&out).expect("write"), out.len());
            }
            assert!(!raw.transport.wants_write());
            let answer = read_answer(&poll, &mut raw.transport, buffer);
            assert_eq!(answer.iter().filter(|byte| **byte == b'y').count(), bytes);
            assert!(!raw.transport.has_buffered_plaintext());
        }
    }
}

/// Sends a message past the transport, as far as a socket that is nearly full takes it; the
/// transport sends the rest. Over TLS nothing overtakes the records meanwhile.
fn send_sealed(transport: &mut Transport, message: &[u8]) {
    let mut sealed = b"others' ".to_vec();
    assert!(transport.can_seal());
    transport.seal(message, &mut sealed).expect("sealed");
    let sealed = &sealed[b"others' ".len()..];
    let tls = transport.is_tls();
    assert_eq!(tls, sealed != message);
    if tls {
        assert!(!transport.can_seal());
        let error = transport.write(b"early").expect_err("it would overtake");
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }
    let half = rustix::net::send(
        transport.as_fd(),
        &sealed[..sealed.len() / 2],
        rustix::net::SendFlags::NOSIGNAL,
    )
    .expect("half of it");
    let rest = transport.sent(&sealed[half..]).to_vec();
    assert_eq!(rest.is_empty(), tls);
    assert_eq!(transport.wants_write(), tls);
    if !rest.is_empty() {
        assert_eq!(transport.write(&rest).expect("the rest"), rest.len());
    }
    transport.flush().expect("flushed");
    assert!(transport.can_seal());
}

/// Reads up to the ReadyForQuery that ends every answer.
fn read_answer(poll: &rustix::fd::OwnedFd, transport: &mut Transport, buffer: usize) -> Vec<u8> {
    const READY: &[u8] = b"Z\0\0\0\x05I";
    let mut answer = Vec::new();
    let mut chunk = vec![0; buffer];
    loop {
        let drained = match transport.read(&mut chunk) {
            Ok(0) => panic!("closed"),
            Ok(n) => {
                answer.extend_from_slice(&chunk[..n]);
                if n < chunk.len() {
                    assert!(!transport.has_buffered_plaintext());
                }
                n < chunk.len() && !transport.has_buffered_plaintext()
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => true,
            Err(error) => panic!("{error}"),
        };
        if answer.ends_with(READY) {
            return answer;
        }
        if drained {
            let mut events = Vec::with_capacity(4);
            let timeout = rustix::event::Timespec {
                tv_sec: 20,
                tv_nsec: 0,
            };
            let n = epoll::wait(
                poll,
                rustix::buffer::spare_capacity(&mut events),
                Some(&timeout),
            );
            assert!(
                n.expect("wait") > 0,
                "no event came though the answer is not complete"
            );
        }
    }
}

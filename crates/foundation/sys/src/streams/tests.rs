use super::*;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

/// A kernel that refuses rings has nothing to be tested; that it refuses is said.
fn streams() -> Option<Streams> {
    match Streams::new() {
        Ok(streams) => Some(streams),
        Err(error) => {
            assert!(
                matches!(
                    error.raw_os_error(),
                    Some(libc::EPERM | libc::ENOSYS | libc::EACCES | libc::EINVAL)
                ),
                "{error}"
            );
            None
        }
    }
}

/// What has come by place, until so many bytes are there or a stream ends.
fn gather(streams: &mut Streams, sockets: &[UnixStream], wanted: usize) -> Vec<Vec<u8>> {
    let mut came = vec![Vec::new(); sockets.len()];
    let mut buffer = vec![0; BUFFER];
    while came.iter().map(Vec::len).sum::<usize>() < wanted {
        streams.wait(Duration::from_secs(10)).unwrap();
        while let Some(happened) = streams.pop() {
            match happened {
                Happened::Came(place, held) => {
                    let length = streams.take(held, &mut buffer);
                    came[place as usize].extend_from_slice(&buffer[..length]);
                }
                Happened::Paused(place) => {
                    let socket = sockets[place as usize].as_fd();
                    streams.receive(place, socket).unwrap();
                }
                other => panic!("{other:?}"),
            }
        }
    }
    came
}

#[test]
fn messages_go_and_come_at_each_socket() {
    let Some(mut streams) = streams() else { return };
    let pairs: Vec<_> = (0..MOST).map(|_| UnixStream::pair().unwrap()).collect();
    let (near, far): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
    for (place, socket) in near.iter().enumerate() {
        streams.receive(place as u32, socket.as_fd()).unwrap();
    }
    for round in 0..50 {
        let texts: Vec<String> = (0..MOST).map(|i| format!("{round} of {i}")).collect();
        for (place, (socket, text)) in near.iter().zip(&texts).enumerate() {
            assert!(streams.has_room(place as u32, text.len()));
            streams
                .send(place as u32, socket.as_fd(), text.as_bytes())
                .unwrap();
            assert!(!streams.has_room(place as u32, 1), "one of each");
        }
        streams.hand_over().unwrap();
        assert_eq!(streams.messages(), 0);
        let mut total = 0;
        for (socket, text) in far.iter().zip(&texts) {
            let mut got = vec![0; text.len()];
            (&*socket).read_exact(&mut got).unwrap();
            assert_eq!(got, text.as_bytes());
            (&*socket).write_all(text.as_bytes()).unwrap();
            total += text.len();
        }
        let came = gather(&mut streams, &near, total);
        for (came, text) in came.iter().zip(&texts) {
            assert_eq!(came, text.as_bytes());
        }
    }
}

/// More than all buffers hold comes in order and whole.
#[test]
fn more_than_the_buffers_hold_arrives_whole() {
    let Some(mut streams) = streams() else { return };
    let (near, mut far) = UnixStream::pair().unwrap();
    let length = 3 * BUFFER * usize::from(BUFFERS);
    let all: Vec<u8> = (0..length).map(|i| (i / 7 % 251) as u8).collect();
    let expected = all.clone();
    let writer = std::thread::spawn(move || far.write_all(&all).map(|()| far));
    streams.receive(0, near.as_fd()).unwrap();
    let came = gather(&mut streams, &[near], length);
    assert!(came[0] == expected);
    drop(writer.join().unwrap().unwrap());
}

#[test]
fn a_full_socket_and_a_closed_one_hold_nobody_up() {
    let Some(mut streams) = streams() else { return };
    let (full, drain) = UnixStream::pair().unwrap();
    full.set_nonblocking(true).unwrap();
    let mut waiting = 0;
    while let Ok(n) = (&full).write(&[0; 4096]) {
        waiting += n;
    }
    // The ring must not wait even where the socket would.
    full.set_nonblocking(false).unwrap();
    let (closed, far) = UnixStream::pair().unwrap();
    drop(far);
    let (open, mut other) = UnixStream::pair().unwrap();
    for (place, socket) in [&full, &closed, &open].into_iter().enumerate() {
        streams.send(place as u32, socket.as_fd(), b"abc").unwrap();
    }
    streams.hand_over().unwrap();
    let mut got = [0; 3];
    other.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"abc");
    for expected in 0..2 {
        match streams.pop() {
            Some(Happened::Unsent(place, rest)) => {
                assert_eq!((place, rest.as_slice()), (expected, &b"abc"[..]));
            }
            other => panic!("{other:?}"),
        }
    }
    streams.await_room(0, full.as_fd()).unwrap();
    streams.receive(1, closed.as_fd()).unwrap();
    streams.hand_over().unwrap();
    io::copy(&mut (&drain).take(waiting as u64), &mut io::sink()).unwrap();
    let (mut room, mut ended) = (false, false);
    while !(room && ended) {
        streams.wait(Duration::from_secs(10)).unwrap();
        while let Some(happened) = streams.pop() {
            match happened {
                Happened::Room(0) => room = true,
                Happened::Ended(1, None) => ended = true,
                other => panic!("{other:?}"),
            }
        }
    }
    assert!(!streams.is_busy());
}

/// What has been received when all is cancelled is told; what has not stays in the socket.
#[test]
fn cancelling_loses_no_byte() {
    let pairs: Vec<_> = (0..100).map(|_| UnixStream::pair().unwrap()).collect();
    let mut expected = vec![Vec::new(); pairs.len()];
    let mut came = vec![Vec::new(); pairs.len()];
    let mut buffer = vec![0; BUFFER];
    for round in 0..30 {
        let Some(mut streams) = streams() else { return };
        for (place, (near, far)) in pairs.iter().enumerate() {
            streams.receive(place as u32, near.as_fd()).unwrap();
            if (place + round) % 3 == 0 {
                streams.wait(Duration::ZERO).unwrap();
            }
            let text = format!("round {round} at {place};");
            (&*far).write_all(text.as_bytes()).unwrap();
            expected[place].extend_from_slice(text.as_bytes());
        }
        streams.cancel_all().unwrap();
        while streams.is_busy() {
            while let Some(happened) = streams.pop() {
                if let Happened::Came(place, held) = happened {
                    let length = streams.take(held, &mut buffer);
                    came[place as usize].extend_from_slice(&buffer[..length]);
                }
            }
            if streams.is_busy() {
                streams.wait(Duration::from_secs(10)).unwrap();
            }
        }
        drop(streams);
        if round % 2 == 0 {
            // What a later slice would find.
            for (place, (near, _)) in pairs.iter().enumerate() {
                near.set_nonblocking(true).unwrap();
                if let Ok(length) = (&*near).read(&mut buffer) {
                    came[place].extend_from_slice(&buffer[..length]);
                }
            }
            assert_eq!(came, expected);
        }
    }
}

#[test]
fn a_socket_that_was_let_go_can_be_closed() {
    let Some(mut streams) = streams() else { return };
    let (near, mut far) = UnixStream::pair().unwrap();
    streams.receive(7, near.as_fd()).unwrap();
    streams.cancel(7).unwrap();
    drop(near);
    while streams.is_busy() {
        streams.wait(Duration::from_secs(10)).unwrap();
        assert!(streams.pop().is_none());
    }
    // The ring does not keep it open.
    assert_eq!(far.read(&mut [0; 1]).unwrap(), 0);
}

/// Dropped with more receives under way than it has room for results, the ring lets go of all.
#[test]
fn a_dropped_ring_lets_go() {
    let Some(mut streams) = streams() else { return };
    let (near, mut far) = UnixStream::pair().unwrap();
    for place in 0..2 * RESULTS {
        streams.receive(place, near.as_fd()).unwrap();
    }
    streams.hand_over().unwrap();
    drop(streams);
    drop(near);
    assert_eq!(far.read(&mut [0; 1]).unwrap(), 0);
}

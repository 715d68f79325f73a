use super::*;
use std::net::{TcpListener, TcpStream};

const SOON: Duration = Duration::from_secs(20);

/// Two ends of a socket.
fn sockets() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (one, listener.accept().unwrap().0)
}

/// Closes the whole socket when the writer is dropped.
struct Closing(TcpStream);

impl Write for Closing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        let _ = self.0.shutdown(std::net::Shutdown::Write);
    }
}

fn link(stream: &TcpStream) -> Link {
    let (reader, writer) = (stream.try_clone().unwrap(), stream.try_clone().unwrap());
    Link::new(reader, Closing(writer)).unwrap()
}

fn linked() -> (Link, Link) {
    let (a, b) = sockets();
    (link(&a), link(&b))
}

#[test]
fn channels_keep_their_order_and_do_not_mix() {
    for (a, b) in [linked(), Link::pair()] {
        // Sent before it is opened there, and by several threads.
        let sender = a.channel(7);
        thread::scope(|scope| {
            for part in 0..4_u32 {
                let sender = sender.clone();
                scope.spawn(move || {
                    for n in 0..250_u32 {
                        sender.send(&(part, n)).unwrap();
                    }
                });
            }
            a.channel(9).send("other").unwrap();
        });
        let receiver = b.channel(7);
        let mut seen = [0; 4];
        for _ in 0..1_000 {
            let (part, n): (usize, u32) = receiver.recv(SOON).unwrap().unwrap();
            assert_eq!(seen[part], n);
            seen[part] += 1;
        }
        let other: Option<String> = b.channel(9).recv(SOON).unwrap();
        assert_eq!(other.as_deref(), Some("other"));
        let none: Option<u8> = receiver.recv(Duration::from_millis(1)).unwrap();
        assert_eq!(none, None);
    }
}

#[test]
fn what_was_sent_before_the_end_is_received_before_it() {
    for (a, b) in [linked(), Link::pair()] {
        a.channel(1).send_bytes(vec![7; 3 << 20]).unwrap();
        a.channel(1).send("last").unwrap();
        drop(a);
        let channel = b.channel(1);
        assert_eq!(channel.recv_bytes(SOON).unwrap().unwrap().len(), 3 << 20);
        assert_eq!(channel.recv(SOON).unwrap(), Some("last".to_owned()));
        assert_eq!(channel.recv::<String>(SOON), Err(Lost::Ended));
        let until = Instant::now() + SOON;
        while channel.send("x").is_ok() {
            assert!(Instant::now() < until);
        }
    }
}

#[test]
fn noise_before_the_beginning_is_passed_over_and_told_if_nothing_follows() {
    let (mut a, b) = sockets();
    let b = link(&b);
    a.write_all(b"Last login: never\r\n").unwrap();
    a.write_all(PREAMBLE).unwrap();
    frame::write(&mut a, 3, b"\"hello\"").unwrap();
    assert_eq!(b.channel(3).recv(SOON).unwrap(), Some("hello".to_owned()));

    let (mut a, b) = sockets();
    let b = link(&b);
    a.write_all(b"bash: pgassay:\n command not found\n")
        .unwrap();
    a.shutdown(std::net::Shutdown::Both).unwrap();
    let lost = b.channel(3).recv::<String>(SOON).unwrap_err();
    assert_eq!(
        lost,
        Lost::NoGreeting("bash: pgassay: command not found".into())
    );
}

#[test]
fn what_makes_no_sense_ends_the_link() {
    let nonsense: [&dyn Fn(&mut TcpStream); 3] = [
        // A length that nobody has.
        &|s| s.write_all(&[0xff; 6]).unwrap(),
        // What is no text of ours.
        &|s| frame::write(s, 1, b"{\"x\": ").unwrap(),
        // Much for nobody: here the reader may go before all is written.
        &|s| {
            let body = vec![0; 100 << 10];
            while frame::write(s, 99, &body).is_ok() {}
        },
    ];
    for say in nonsense {
        let (mut a, b) = sockets();
        let link = {
            let reader = b.try_clone().unwrap();
            Link::new(reader, Closing(b.try_clone().unwrap())).unwrap()
        };
        drop(b);
        a.write_all(PREAMBLE).unwrap();
        a.set_write_timeout(Some(Duration::from_millis(500)))
            .unwrap();
        say(&mut a);
        let lost = link.channel(1).recv::<u8>(SOON).unwrap_err();
        assert!(matches!(lost, Lost::Nonsense(_)), "{lost}");
        assert!(link.check().is_err());
    }
}

/// A far side flooded the channel of the hello, which nobody reads after it.
#[test]
fn only_heartbeats_come_on_the_own_channel_after_the_hello() {
    for (bodies, is_right) in [
        (vec![b"{}".to_vec(), Vec::new(), Vec::new()], true),
        (vec![b"{}".to_vec(), b"{}".to_vec()], false),
        (vec![vec![b' '; LONGEST_HELLO + 1]], false),
    ] {
        let (mut a, b) = sockets();
        let link = link(&b);
        a.write_all(PREAMBLE).unwrap();
        for body in bodies {
            frame::write(&mut a, OWN, &body).unwrap();
        }
        frame::write(&mut a, 1, b"1").unwrap();
        match (is_right, link.channel(1).recv::<u8>(SOON)) {
            (true, came) => assert_eq!(came, Ok(Some(1))),
            (false, came) => assert!(matches!(came, Err(Lost::Nonsense(_))), "{came:?}"),
        }
    }
}

#[test]
fn what_nobody_takes_is_waited_for_no_longer_than_silence() {
    let (mut a, b) = sockets();
    let link = link(&b);
    let (words, _untaken) = (link.channel(1), link.channel(5));
    thread::spawn(move || {
        let body = vec![0; 1 << 20];
        let said = a.write_all(PREAMBLE);
        while said.is_ok() && frame::write(&mut a, 5, &body).is_ok() {}
    });
    assert_eq!(words.recv::<u8>(SOON * 3), Err(Lost::Silent));
}

#[test]
fn a_stop_ends_every_wait_for_the_other_side() {
    // The other side shows signs of life, and reads nothing.
    let (mut a, b) = sockets();
    let link = link(&b);
    let stop = Arc::new(AtomicBool::new(false));
    link.end_after(&stop);
    thread::spawn(move || {
        let said = a.write_all(PREAMBLE);
        while said.is_ok() && frame::write(&mut a, OWN, &[]).is_ok() {
            thread::sleep(Duration::from_millis(100));
        }
    });
    let (words, files) = (link.channel(1), link.channel(2));
    assert_eq!(words.recv::<u8>(Duration::from_millis(10)), Ok(None));
    stop.store(true, Ordering::SeqCst);
    let sent = (0..100).find_map(|_| files.send_bytes(vec![0; 1 << 20]).err());
    assert_eq!(sent, Some(Lost::Unstopped));
    assert_eq!(words.recv::<u8>(SOON), Err(Lost::Unstopped));
}

#[test]
fn who_shows_no_sign_of_life_is_lost_and_who_does_is_not() {
    let (mut silent, b) = sockets();
    let lost = link(&b);
    silent.write_all(PREAMBLE).unwrap();
    let (c, d) = linked();
    assert_eq!(lost.channel(1).recv::<u8>(SOON), Err(Lost::Silent));
    // These two had as little to say, but said so.
    assert_eq!(c.check(), Ok(()));
    d.channel(1).send(&1).unwrap();
    assert_eq!(c.channel(1).recv(SOON), Ok(Some(1)));
}

#[test]
fn a_conversation_is_carried_within_another_and_ends_with_either() {
    for outer_ends in [false, true] {
        let (a, b) = linked();
        let within = |outer: &Link| {
            let (incoming, outgoing) = outer.channel(4).streams();
            Link::new(incoming, outgoing).unwrap()
        };
        let (near, far) = (within(&a), within(&b));
        let long = vec![5; 300 << 10];
        near.channel(3).send_bytes(long.clone()).unwrap();
        far.channel(3).send("answer").unwrap();
        a.channel(1).send("beside").unwrap();
        assert_eq!(far.channel(3).recv_bytes(SOON).unwrap(), Some(long));
        assert_eq!(near.channel(3).recv(SOON), Ok(Some("answer".to_owned())));
        assert_eq!(b.channel(1).recv(SOON), Ok(Some("beside".to_owned())));
        match outer_ends {
            true => drop(a),
            false => drop(near),
        }
        assert_eq!(far.channel(3).recv::<u8>(SOON), Err(Lost::Ended));
        assert_eq!(b.check().is_err(), outer_ends);
    }
}

/// Writes as slowly as a narrow way carries.
struct Narrow {
    to: Closing,
    bytes_a_second: usize,
}

impl Write for Narrow {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = &bytes[..bytes.len().min(4 << 10)];
        thread::sleep(Duration::from_secs(1) * piece.len() as u32 / self.bytes_a_second as u32);
        self.to.write(piece)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Two ends, of which the second writes so much a second.
fn narrow(bytes_a_second: usize) -> (Link, Link) {
    let (a, b) = sockets();
    let to = Closing(b.try_clone().unwrap());
    let writer = Narrow { to, bytes_a_second };
    (link(&a), Link::new(b, writer).unwrap())
}

#[test]
fn a_conversation_goes_on_beside_a_file_that_takes_longer_than_silence_may() {
    let (a, b) = narrow(256 << 10);
    let within = |outer: &Link| {
        let (incoming, outgoing) = outer.channel(4).streams();
        Link::new(incoming, outgoing).unwrap()
    };
    let (near, far) = (within(&a), within(&b));
    let pieces = 32;
    let file = b.channel(2);
    let sender = thread::spawn(move || {
        for _ in 0..pieces {
            file.send_bytes(vec![7; 64 << 10]).unwrap();
        }
    });
    let (asked, answers) = (near.channel(3), far.channel(3));
    let came = a.channel(2);
    let mut left = pieces;
    while left > 0 {
        // Each is answered while the file is under way.
        asked.send(&left).unwrap();
        let number: u32 = answers.recv(SOON).unwrap().unwrap();
        answers.send(&number).unwrap();
        assert_eq!(asked.recv(SOON), Ok(Some(left)));
        let body = came.recv_bytes(SOON).unwrap().unwrap();
        assert_eq!(body.len(), 64 << 10);
        left -= 1;
        assert_eq!((near.check(), far.check()), (Ok(()), Ok(())));
    }
    sender.join().unwrap();
}

#[test]
fn a_message_that_takes_longer_than_silence_may_is_a_sign_of_life() {
    let (a, b) = narrow(128 << 10);
    b.channel(1).send_bytes(vec![7; 900 << 10]).unwrap();
    let body = a.channel(1).recv_bytes(SOON).unwrap().unwrap();
    assert_eq!(body.len(), 900 << 10);
}

#[test]
fn channels_take_turns_and_keep_their_own_order() {
    let mut outbox = Outbox::default();
    for (channel, bodies) in [(1, 3), (2, 1), (9, 2)] {
        for body in 0..bodies {
            outbox.push(channel, vec![body; 10]);
        }
    }
    assert_eq!(outbox.unwritten(1), 30);
    let mut written = Vec::new();
    while let Some(frame) = outbox.pop() {
        written.push((frame.channel, frame.body[0]));
    }
    assert_eq!(written, [(1, 0), (2, 0), (9, 0), (1, 1), (9, 1), (1, 2)]);
    assert!(outbox.is_empty() && outbox.unwritten(1) == 0);
}

//! The server from outside, over sockets: who is let in, and what nobody can do to it.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pgassay_http::{Answer, Bound, Cannot, Feed, Forms, Next, Request, Site};

/// A server that ends with its test.
struct Server {
    port: u16,
    key: String,
    forms: Forms,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    fn start() -> Self {
        Self::of(Arc::new(Echo::default()))
    }

    fn of(site: Arc<Echo>) -> Self {
        let bound = Bound::listen(0).unwrap();
        let port = bound.port();
        let (key, forms) = (bound.root()[1..].to_owned(), bound.forms());
        assert_eq!(
            bound.address("now"),
            format!("http://127.0.0.1:{port}/{key}/now")
        );
        let ended = Arc::new(AtomicBool::new(false));
        let end = Arc::clone(&ended);
        let thread = std::thread::spawn(move || {
            bound.serve(site, || end.load(Ordering::SeqCst)).unwrap();
        });
        Self {
            port,
            key,
            forms,
            ended,
            thread: Some(thread),
        }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(90)))
            .unwrap();
        stream
    }

    /// A request with the key and more headers; all that came back.
    fn ask(&self, target: &str, more: &str) -> String {
        let mut stream = self.connect();
        let (port, key) = (self.port, &self.key);
        write!(
            stream,
            "GET /{key}{target} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{more}\r\n"
        )
        .unwrap();
        all(&mut stream)
    }

    /// What came back for these bytes.
    fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect();
        // It may close before all is sent.
        let _ = stream.write_all(bytes);
        all(&mut stream)
    }

    /// The same from a client that has no more to say, and may not hear the answer.
    fn only(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect();
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(Shutdown::Write);
        all(&mut stream)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        self.thread.take().unwrap().join().unwrap();
    }
}

/// All until the end; also where the connection is reset.
fn all(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    let mut bytes = [0; 65536];
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => break,
            Ok(n) => text.extend_from_slice(&bytes[..n]),
            Err(e) if e.kind() == ErrorKind::WouldBlock => panic!("no answer and no end"),
            Err(_) => break,
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

fn status(answer: &str) -> u16 {
    let status = answer.split(' ').nth(1).unwrap_or("0");
    status.parse().unwrap_or(0)
}

/// Says back what it was asked.
#[derive(Default)]
struct Echo {
    feeds: Arc<AtomicUsize>,
    takes_forms: bool,
}

impl Site for Echo {
    fn answer(&self, request: &Request) -> Answer {
        match request.path.first().map(String::as_str) {
            Some("panic") => panic!("a page that fails (this is the test's)"),
            Some("large") => Answer::text(200, vec![b'x'; 32 << 20]),
            Some("on") => Answer::go_to("//evil.example/\r\nX: y"),
            Some("form") => Answer::text(200, format!("{:?}", request.form)),
            Some("file") => Answer::text(200, "a").saved_as("a\"\r\nX: y/../é.html"),
            _ => Answer::text(200, format!("{:?}", request.path)),
        }
    }

    fn takes_forms(&self) -> bool {
        self.takes_forms
    }

    fn feed(&self, request: &Request) -> Option<Box<dyn Feed>> {
        (request.path == ["feed"]).then(|| {
            self.feeds.fetch_add(1, Ordering::SeqCst);
            Box::new(Counting(0)) as Box<dyn Feed>
        })
    }
}

struct Counting(u32);

impl Feed for Counting {
    fn next(&mut self) -> Next {
        self.0 += 1;
        match self.0 {
            1 => Next::Event("first\nline".to_owned()),
            _ => Next::Same,
        }
    }
}

#[test]
fn the_key_lets_in_as_the_begin_of_the_address_and_no_cookie_holds_it() {
    let server = Server::start();
    let (port, key) = (server.port, server.key.clone());
    let host = format!("Host: localhost:{port}\r\n");
    // A cookie would go to every port of this machine.
    for target in ["", "/", "/a?b=1", "/on", "/nothing"] {
        for answer in [
            server.ask(target, ""),
            server.raw(format!("GET /{target} HTTP/1.1\r\n{host}\r\n").as_bytes()),
        ] {
            assert!(!answer.to_lowercase().contains("set-cookie"), "{answer}");
        }
    }
    let answer = server.ask("/a/../b%2F..?x=1", "");
    assert_eq!(status(&answer), 200);
    assert!(answer.ends_with(r#"["a", "..", "b/.."]"#), "{answer}");
    for header in [
        "content-security-policy: default-src 'none'",
        "x-content-type-options: nosniff",
        "referrer-policy: same-origin",
        "cache-control: no-store",
        "x-frame-options: deny",
        "cross-origin-resource-policy: same-origin",
        "connection: close",
    ] {
        assert!(answer.to_lowercase().contains(header), "{header}: {answer}");
    }
    // Without it, nothing but how to come by it.
    let cookie = format!("Cookie: pgassay-{port}={key}; key={key}\r\n");
    for target in ["/", "/a", "/feed", "/?k=", "//a"] {
        let head = format!("GET {target} HTTP/1.1\r\n{host}{cookie}\r\n");
        let answer = server.raw(head.as_bytes());
        assert_eq!(status(&answer), 403, "{answer}");
        assert!(answer.contains("Open the address that pgassay serve printed"));
        assert!(!answer.contains(&key));
    }
    let bearer = format!("GET /a HTTP/1.1\r\n{host}Authorization: Bearer {key}\r\n\r\n");
    assert!(server.raw(bearer.as_bytes()).ends_with(r#"["a"]"#));
    let head = format!("HEAD /{key}/ HTTP/1.1\r\n{host}\r\n");
    let answer = server.raw(head.as_bytes());
    assert!(
        status(&answer) == 200 && answer.ends_with("\r\n\r\n"),
        "{answer}"
    );
}

#[test]
fn other_names_methods_and_sites_are_refused() {
    let server = Server::start();
    let key = &server.key;
    for (first, more, expected) in [
        ("GET / HTTP/1.1", "Host: evil.example\r\n", 421),
        ("GET / HTTP/1.1", "", 421),
        (
            "GET http://evil.example/ HTTP/1.1",
            "Host: evil.example\r\n",
            421,
        ),
        (
            "POST / HTTP/1.1",
            "Host: localhost\r\nContent-Length: 2\r\n",
            405,
        ),
        ("DELETE / HTTP/1.1", "Host: localhost\r\n", 405),
        (
            "GET / HTTP/1.1",
            "Host: localhost\r\nOrigin: http://evil.example\r\n",
            403,
        ),
    ] {
        let first = first.replacen("/ HTTP", &format!("/{key}/ HTTP"), 1);
        let answer = server.raw(format!("{first}\r\n{more}\r\n").as_bytes());
        assert_eq!(status(&answer), expected, "{first} {more}: {answer}");
    }
}

#[test]
fn a_form_is_taken_whole_and_small_where_the_site_takes_any() {
    let site = Echo {
        takes_forms: true,
        ..Echo::default()
    };
    let server = Server::of(Arc::new(site));
    let (port, key) = (server.port, server.key.clone());
    let send = |origin: &str, length: usize, sent: &str| {
        let text = format!(
            "POST /{key}/form HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{origin}\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {length}\r\n\r\n{sent}"
        );
        match sent.len() == length {
            true => server.raw(text.as_bytes()),
            false => server.only(text.as_bytes()),
        }
    };
    let own = format!("Origin: http://127.0.0.1:{port}\r\n");
    let token = |to: &str, run: &str| {
        let (name, token) = server.forms.token(to, [("run", run), ("x", " ")]);
        format!("&{name}={token}")
    };
    let form = |token: &str| format!("run=a%26b&x=+{token}");
    let right = form(&token("/form", "a&b"));
    let answer = send(&own, right.len(), &right);
    assert_eq!(status(&answer), 200, "{answer}");
    assert!(
        answer.ends_with(r#"Some([("run", "a&b"), ("x", " ")])"#),
        "{answer}"
    );
    // Without a token, with that of another form, or with two.
    let foreign = [token("/other", "a&b"), token("/form", "b")];
    let twice = token("/form", "a&b").repeat(2);
    for wrong in ["", "&token=", &foreign[0], &foreign[1], &twice] {
        let wrong = form(wrong);
        assert_eq!(status(&send(&own, wrong.len(), &wrong)), 403, "{wrong}");
    }
    // Of another page, cut short, too large.
    assert_eq!(status(&send("Origin: null\r\n", 1, "a")), 403);
    assert_eq!(status(&send("", 1, "a")), 403);
    assert_ne!(status(&send(&own, 100, "run=a")), 200);
    let large = "x".repeat(17 << 10);
    assert_eq!(status(&send(&own, large.len(), &large)), 413);
    // Whatever a site sends a browser on to, it is this site.
    let on = server.ask("/on", "");
    assert_eq!(status(&on), 303, "{on}");
    assert!(
        !on.to_lowercase().contains("location: //") && !on.contains("\r\nX: y"),
        "{on}"
    );
}

#[test]
fn a_page_that_fails_is_an_error_of_that_page() {
    let server = Server::start();
    assert_eq!(status(&server.ask("/panic", "")), 500);
    assert_eq!(status(&server.ask("/", "")), 200);
}

#[test]
fn a_file_name_adds_no_header() {
    let server = Server::start();
    let answer = server.ask("/file", "");
    assert!(
        answer.contains("filename=\"a---X--y-..--.html\""),
        "{answer}"
    );
    assert!(!answer.to_lowercase().contains("\r\nx:"), "{answer}");
}

/// Bytes that are no request, or too much of one, end their own connection and nothing else.
#[test]
fn no_bytes_take_it_down() {
    let server = Server::start();
    let good = format!(
        "GET /{}/a?b=c HTTP/1.1\r\nHost: localhost:{}\r\nAccept: text/html\r\n\r\n",
        server.key, server.port
    );
    let long = "x".repeat(1 << 20);
    let wrong = [
        format!("GET /{long} HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {long}\r\n\r\n"),
        format!("GET / HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(5000)),
        "GET / HTTP/9.9\r\n\r\n".to_owned(),
        "\0\0\0\0".to_owned(),
        "GET".to_owned(),
        String::new(),
        "\u{16}\u{3}\u{1}\0hello of TLS".to_owned(),
        "GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n".to_owned(),
    ];
    for bytes in wrong {
        let answer = server.only(bytes.as_bytes());
        assert_ne!(status(&answer), 200, "{:?}", &bytes[..bytes.len().min(60)]);
    }
    // A good request with a byte changed, at every place, by a fixed walk.
    let mut state = 0x9e37_79b9_u32;
    for at in 0..good.len() {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let mut bytes = good.clone().into_bytes();
        bytes[at] = (state >> 24) as u8;
        server.only(&bytes);
    }
    assert_eq!(status(&server.raw(good.as_bytes())), 200);
}

/// Ten times as many connections as there may be, each with half a request, and none of them ends.
#[test]
fn idle_connections_do_not_keep_others_out() {
    let server = Server::start();
    let idle: Vec<TcpStream> = (0..900)
        .map(|_| {
            let mut stream = server.connect();
            let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost:");
            stream
        })
        .collect();
    assert_eq!(status(&server.ask("/", "")), 200);
    drop(idle);
    assert_eq!(status(&server.ask("/", "")), 200);
}

/// A request that never ends has its connection closed.
#[test]
fn half_a_request_is_not_waited_for() {
    let server = Server::start();
    for half in ["", "GET / HT", "GET / HTTP/1.1\r\nHost: localhost\r\n"] {
        let mut stream = server.connect();
        stream.write_all(half.as_bytes()).unwrap();
        let answer = all(&mut stream);
        assert_ne!(status(&answer), 200, "{half:?}");
    }
}

/// A reader that takes nothing holds up nobody else.
#[test]
fn who_does_not_read_holds_up_nobody() {
    let server = Server::start();
    let key = &server.key;
    let stuck: Vec<TcpStream> = (0..8)
        .map(|_| {
            let mut stream = server.connect();
            write!(
                stream,
                "GET /{key}/large HTTP/1.1\r\nHost: localhost\r\n\r\n"
            )
            .unwrap();
            stream
        })
        .collect();
    assert_eq!(status(&server.ask("/", "")), 200);
    drop(stuck);
}

#[test]
fn events_come_to_all_who_follow_and_to_a_bounded_number() {
    let site = Arc::new(Echo::default());
    let feeds = Arc::clone(&site.feeds);
    let server = Server::of(site);
    let key = server.key.clone();
    let open = |target: &str| {
        let mut stream = server.connect();
        let head = "Host: localhost\r\nAccept: text/event-stream";
        write!(stream, "GET /{key}{target} HTTP/1.1\r\n{head}\r\n\r\n").unwrap();
        let mut text = String::new();
        let mut bytes = [0; 4096];
        // The head, and the first event.
        while !text.contains("data: line\n\n") {
            match stream.read(&mut bytes) {
                Ok(0) | Err(_) => break,
                Ok(n) => text += &String::from_utf8_lossy(&bytes[..n]),
            }
            if status(&text) != 200 {
                break;
            }
        }
        (stream, text)
    };
    // What is followed nowhere says so in the way that keeps a browser from asking again.
    assert_eq!(status(&open("/nothing").1), 204);
    let mut followers = Vec::new();
    let mut refused = 0;
    for _ in 0..60 {
        let (stream, text) = open("/feed");
        match status(&text) {
            200 => {
                assert!(
                    text.contains("event: message\ndata: first\ndata: line\n\n"),
                    "{text}"
                );
                followers.push(stream);
            }
            503 => refused += 1,
            other => panic!("{other}: {text}"),
        }
    }
    assert_eq!((followers.len(), refused), (48, 12));
    assert_eq!(feeds.load(Ordering::SeqCst), 1, "read once for all");
    assert_eq!(status(&server.ask("/", "")), 200);
    // Who goes makes room.
    drop(followers);
    let until = Instant::now() + Duration::from_secs(30);
    while status(&open("/feed").1) != 200 {
        assert!(Instant::now() < until, "no room after all have gone");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_port_that_is_taken_is_told() {
    let first = Bound::listen(0).unwrap();
    match Bound::listen(first.port()) {
        Err(Cannot::Taken(port)) => assert_eq!(port, first.port()),
        other => panic!("{other:?}"),
    }
}

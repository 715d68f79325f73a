//! The server: listens, lets few in at a time, asks the site.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use hyper::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use tokio::task::{self, AbortHandle};
use tokio::time::timeout;

use crate::body::Body;
use crate::feeds::{Feeds, Refused};
use crate::forms::Forms;
use crate::guard::{self, Entry};
use crate::key::Key;
use crate::stream::{Clock, Patient};
use crate::{Answer, Request, STRICT, Site};

/// Connections at a time. Beyond them those without the key are closed, the oldest first.
const MOST_CONNECTIONS: usize = 96;
/// How long the head of a request may take.
const HEAD_TAKES: Duration = Duration::from_secs(5);
/// Largest head, in bytes.
const LARGEST_HEAD: usize = 16 << 10;
/// Largest form, in bytes.
const LARGEST_FORM: usize = 16 << 10;
/// How long a client may take nothing of what it asked for.
const STANDS_STILL: Duration = Duration::from_secs(20);
/// Threads that answer; each may hold a whole run.
const ANSWERING: usize = 2;
/// How often the end is looked for.
const EACH: Duration = Duration::from_millis(250);

/// Why it can't listen.
#[derive(Debug)]
pub enum Cannot {
    /// Another program has the port.
    Taken(u16),
    /// Anything else.
    Listen(io::Error),
}

/// A server that listens and answers nothing yet.
#[derive(Debug)]
pub struct Bound {
    listeners: Vec<TcpListener>,
    port: u16,
    key: Key,
    forms: Forms,
}

impl Bound {
    /// Listens on that port of 127.0.0.1, and of `::1` where this machine has it; 0 is a port that
    /// is free.
    ///
    /// # Errors
    /// Where that can't be had.
    pub fn listen(port: u16) -> Result<Self, Cannot> {
        let taken = |error: io::Error| match error.kind() {
            io::ErrorKind::AddrInUse => Cannot::Taken(port),
            _ => Cannot::Listen(error),
        };
        let first = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        let first = first.map_err(taken)?;
        let port = first.local_addr().map_err(Cannot::Listen)?.port();
        let mut listeners = vec![first];
        // The address that we name is the first: a machine without the second lacks nothing.
        listeners.extend(TcpListener::bind(SocketAddr::from((
            Ipv6Addr::LOCALHOST,
            port,
        ))));
        for listener in &listeners {
            listener.set_nonblocking(true).map_err(Cannot::Listen)?;
        }
        Ok(Self {
            listeners,
            port,
            key: Key::random().map_err(Cannot::Listen)?,
            forms: Forms::random().map_err(Cannot::Listen)?,
        })
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The address to open in a browser; `path` is what follows the key and a slash.
    pub fn address(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{}/{path}", self.port, self.root())
    }

    /// What stands before every address of the site: a slash and the key.
    pub fn root(&self) -> String {
        format!("/{}", self.key.digits())
    }

    /// What makes tokens for forms.
    pub fn forms(&self) -> Forms {
        self.forms.clone()
    }

    /// Serves until `ended` says so, which is asked four times a second.
    ///
    /// # Errors
    /// Where the kernel refuses what that needs.
    pub fn serve(self, site: Arc<dyn Site>, ended: impl Fn() -> bool) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(ANSWERING)
            .thread_keep_alive(Duration::from_secs(2))
            .build()?;
        let served: io::Result<()> = runtime.block_on(async {
            let shared = Arc::new(Shared {
                site,
                feeds: Feeds::default(),
                key: self.key,
                forms: self.forms,
                doors: Doors::default(),
            });
            for listener in self.listeners {
                let listener = tokio::net::TcpListener::from_std(listener)?;
                task::spawn(accept(listener, Arc::clone(&shared)));
            }
            while !ended() {
                tokio::time::sleep(EACH).await;
            }
            Ok(())
        });
        // Whoever still renders or reads is not waited for.
        runtime.shutdown_background();
        served
    }
}

/// What all connections share.
struct Shared {
    site: Arc<dyn Site>,
    feeds: Feeds,
    key: Key,
    forms: Forms,
    doors: Doors,
}

async fn accept(listener: tokio::net::TcpListener, shared: Arc<Shared>) {
    loop {
        match listener.accept().await {
            Ok((tcp, _)) => {
                let _ = tcp.set_nodelay(true);
                let admitted = Arc::new(AtomicBool::new(false));
                let connection = talk(tcp, Arc::clone(&shared), Arc::clone(&admitted));
                let task = task::spawn(connection);
                shared.doors.enter(Visitor {
                    admitted,
                    task: task.abort_handle(),
                });
            }
            // No file descriptor is left: those that are open end by themselves.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

/// One request: each has a connection of its own.
async fn talk(tcp: tokio::net::TcpStream, shared: Arc<Shared>, admitted: Arc<AtomicBool>) {
    let service = service_fn(move |request| {
        let (shared, admitted) = (Arc::clone(&shared), Arc::clone(&admitted));
        async move { Ok::<_, Infallible>(respond(request, &shared, &admitted).await) }
    });
    let connection = http1::Builder::new()
        .timer(Clock)
        .header_read_timeout(HEAD_TAKES)
        .max_buf_size(LARGEST_HEAD)
        .keep_alive(false)
        .serve_connection(Patient::new(tcp, STANDS_STILL), service);
    // What went wrong is the client's to see: it closed, was too slow or sent no HTTP.
    let _ = connection.await;
}

async fn respond(
    request: hyper::Request<Incoming>,
    shared: &Arc<Shared>,
    admitted: &AtomicBool,
) -> Response<Body> {
    let takes = shared.site.takes_forms();
    let mut asked = match guard::judge(&request, &shared.key, takes) {
        Entry::Refused(status, why) => return refused(status, why, takes),
        Entry::Admitted(target) => Request::of(target),
    };
    admitted.store(true, Ordering::Relaxed);
    let followed = request.headers().get(header::ACCEPT);
    if followed.is_some_and(|accept| accept == "text/event-stream")
        && request.method() == Method::GET
    {
        return follow(asked, shared).await;
    }
    if request.method() == Method::POST {
        match timeout(HEAD_TAKES, all_of(request.into_body())).await {
            Ok(Some(text)) => {
                let fields = crate::pairs(&String::from_utf8_lossy(&text));
                asked.form = shared.forms.checked(&asked.target, fields);
                if asked.form.is_none() {
                    return plain(
                        403,
                        "This form is not of the page that it names: load the page again.",
                    );
                }
            }
            Ok(None) => return plain(413, "The form is too large or was cut short."),
            Err(_) => return plain(408, "The form did not come in time."),
        }
    }
    let site = Arc::clone(&shared.site);
    match task::spawn_blocking(move || site.answer(&asked)).await {
        Ok(mut answer) => {
            let below =
                |to: String| format!("/{}/{}", shared.key.digits(), to.trim_start_matches('/'));
            answer.to = answer.to.map(below);
            response(answer)
        }
        Err(_) => plain(500, "This page failed; pgassay said why where it runs."),
    }
}

/// What was sent; none where it is larger than [`LARGEST_FORM`] or the connection broke.
async fn all_of(mut body: Incoming) -> Option<Vec<u8>> {
    let mut all = Vec::new();
    loop {
        let next = poll_fn(|cx| http_body::Body::poll_frame(Pin::new(&mut body), cx)).await;
        match next {
            None => return Some(all),
            Some(frame) => {
                let data = frame.ok()?.into_data().unwrap_or_default();
                if all.len() + data.len() > LARGEST_FORM {
                    return None;
                }
                all.extend_from_slice(&data);
            }
        }
    }
}

fn refused(status: u16, why: &'static str, takes_forms: bool) -> Response<Body> {
    let mut response = plain(status, why);
    if status == 405 {
        let allowed = if takes_forms {
            "GET, HEAD, POST"
        } else {
            "GET, HEAD"
        };
        set(&mut response, header::ALLOW, allowed);
    }
    response
}

async fn follow(asked: Request, shared: &Arc<Shared>) -> Response<Body> {
    let address = asked.target.clone();
    let mut events = shared.feeds.join(&address);
    if let Err(Refused::Nothing) = events {
        let site = Arc::clone(&shared.site);
        // It may read files.
        if let Ok(Some(feed)) = task::spawn_blocking(move || site.feed(&asked)).await {
            events = shared.feeds.open(&address, feed);
        }
    }
    match events {
        Ok(events) => {
            let mut response = plain(200, "");
            *response.body_mut() = Body::Events(events);
            set(&mut response, header::CONTENT_TYPE, "text/event-stream");
            response
        }
        Err(Refused::TooMany) => plain(503, "Too many pages follow measurements: close some."),
        // By the standard a browser does not ask again.
        Err(Refused::Nothing) => plain(204, ""),
    }
}

fn plain(status: u16, text: &'static str) -> Response<Body> {
    response(Answer::text(status, Bytes::from_static(text.as_bytes())))
}

fn response(answer: Answer) -> Response<Body> {
    let mut response = Response::new(Body::Whole(Some(answer.content)));
    *response.status_mut() =
        StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in [
        (header::CONTENT_TYPE, &*answer.media_type),
        (header::CONTENT_SECURITY_POLICY, &*answer.policy),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        // The address, which holds the key, goes to no other site or port. With none at all a browser would
        // not say that a form is of our own page.
        (header::REFERRER_POLICY, "same-origin"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        set(&mut response, name, value);
    }
    for (name, value) in [
        ("cross-origin-resource-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
    ] {
        set(&mut response, HeaderName::from_static(name), value);
    }
    if let Some(to) = answer.to {
        set(&mut response, header::LOCATION, &to);
    }
    if let Some(name) = answer.file_name {
        let plain = |c: char| match c.is_ascii_alphanumeric() || "-_.".contains(c) {
            true => c,
            false => '-',
        };
        let name: String = name.chars().map(plain).collect();
        let disposition = format!("attachment; filename=\"{name}\"");
        set(&mut response, header::CONTENT_DISPOSITION, &disposition);
    }
    response
}

/// Sets a header; a page whose policy can't be sent gets the strictest.
fn set(response: &mut Response<Body>, name: HeaderName, value: &str) {
    let value = HeaderValue::from_str(value).unwrap_or(HeaderValue::from_static(STRICT));
    response.headers_mut().insert(name, value);
}

/// Those who are in.
#[derive(Default)]
struct Doors(Mutex<VecDeque<Visitor>>);

struct Visitor {
    /// Whether its request had the key.
    admitted: Arc<AtomicBool>,
    task: AbortHandle,
}

impl Doors {
    /// Lets another in; where there are too many, the oldest without the key goes, or the newcomer.
    fn enter(&self, newcomer: Visitor) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|visitor| !visitor.task.is_finished());
        all.push_back(newcomer);
        if all.len() > MOST_CONNECTIONS {
            let stranger = |visitor: &Visitor| !visitor.admitted.load(Ordering::Relaxed);
            let goes = all.iter().position(stranger);
            if let Some(visitor) = goes.and_then(|at| all.remove(at)) {
                visitor.task.abort();
            }
        }
    }
}

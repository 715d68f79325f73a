//! Serves pages to a browser on this machine, and to nobody else.
//!
//! It listens on the loopback addresses only, and answers below a random key: `/KEY/…`, an address that whoever
//! started it is shown. No cookie holds it, as browsers send cookies to every port. Programs send the key as a bearer
//! token. Nothing can be sent to it but questions (GET and HEAD), and forms of its own pages
//! where the site takes them, each with a token of its own. All that a client can use up is bounded: the number of connections, the size of a request, the time that it
//! takes to say it and to take the answer.
//!
//! What is served is a [`Site`]. It may take its time: it is asked on a thread of its own.

mod body;
mod feeds;
mod forms;
mod guard;
mod key;
mod server;
mod stream;

pub use forms::Forms;
pub use key::Key;
pub use server::{Bound, Cannot};

use std::borrow::Cow;

use bytes::Bytes;
use percent_encoding::percent_decode_str;

/// What is served.
pub trait Site: Send + Sync + 'static {
    /// Answers a request that had the key. A panic becomes status 500.
    fn answer(&self, request: &Request) -> Answer;

    /// Whether forms may be sent to it.
    fn takes_forms(&self) -> bool {
        false
    }

    /// What is followed at this address; `None` where nothing is (any more).
    fn feed(&self, request: &Request) -> Option<Box<dyn Feed>>;
}

/// Something that changes while it is looked at.
pub trait Feed: Send {
    /// What is new. Asked at most once a second, for all who look together, and not while nobody does.
    fn next(&mut self) -> Next;
}

/// What is new of a [`Feed`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Nothing.
    Same,
    /// This replaces what was before.
    Event(String),
    /// The same, and nothing will follow.
    Last(String),
}

/// A request that had the key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    /// The parts of the path, decoded; none of `/`. They may be any text, `..` too.
    pub path: Vec<String>,
    /// Names and values of the query, decoded, in their order.
    pub query: Vec<(String, String)>,
    /// Path and query as they came, without the key.
    pub target: String,
    /// What was sent by a form of ours, decoded, in its order; `None` where something was only asked.
    pub form: Option<Vec<(String, String)>>,
}

impl Request {
    fn of(target: String) -> Self {
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let parts = path.split('/').filter(|part| !part.is_empty());
        Self {
            path: parts.map(decoded).collect(),
            query: pairs(query),
            target,
            form: None,
        }
    }

    /// The first value of that name in the query.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.values(name).next()
    }

    /// The first value of that name in the form.
    pub fn sent(&self, name: &str) -> Option<&str> {
        self.all_sent(name).next()
    }

    /// All values of that name in the form.
    pub fn all_sent(&self, name: &str) -> impl Iterator<Item = &str> {
        let named = self.form.iter().flatten().filter(move |(n, _)| n == name);
        named.map(|(_, value)| value.as_str())
    }

    /// All values of that name in the query.
    pub fn values(&self, name: &str) -> impl Iterator<Item = &str> {
        let named = self.query.iter().filter(move |(n, _)| n == name);
        named.map(|(_, value)| value.as_str())
    }
}

/// Names and values in the form of a query, which is that of a form, too.
fn pairs(text: &str) -> Vec<(String, String)> {
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let plain = |text: &str| decoded(&text.replace('+', " "));
        (plain(name), plain(value))
    };
    pairs.map(pair).collect()
}

/// Bytes that are no text become U+FFFD.
fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// What a request is answered with.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status, such as 200.
    pub status: u16,
    /// The media type.
    pub media_type: Cow<'static, str>,
    /// What a page may do, as a Content-Security-Policy.
    pub policy: Cow<'static, str>,
    /// The name under which a browser saves it, where it is not to be shown.
    pub file_name: Option<String>,
    /// The address of this site to go on to.
    pub to: Option<String>,
    /// The content.
    pub content: Bytes,
}

/// A page that may load and do nothing.
pub const STRICT: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; \
                          form-action 'none'; frame-ancestors 'none'";

impl Answer {
    /// A page with what it may do.
    pub fn page(policy: impl Into<Cow<'static, str>>, content: impl Into<Bytes>) -> Self {
        Self {
            status: 200,
            media_type: "text/html; charset=utf-8".into(),
            policy: policy.into(),
            file_name: None,
            to: None,
            content: content.into(),
        }
    }

    /// Plain text.
    pub fn text(status: u16, content: impl Into<Bytes>) -> Self {
        Self {
            status,
            media_type: "text/plain; charset=utf-8".into(),
            ..Self::page(STRICT, content)
        }
    }

    /// Sends a browser on to another address of this site, as after a form.
    pub fn go_to(to: impl Into<String>) -> Self {
        Self {
            to: Some(to.into()),
            ..Self::text(303, "")
        }
    }

    /// The same as a file to be saved.
    #[must_use]
    pub fn saved_as(mut self, name: impl Into<String>) -> Self {
        self.file_name = Some(name.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_taken_apart() {
        let of = |target: &str| Request::of(target.to_owned());
        let request = of("/run/a%2Fb/?q=x+y%20z&run=1&run=2&&flag&=&q");
        assert_eq!(request.path, ["run", "a/b"]);
        assert_eq!(request.value("q"), Some("x y z"));
        assert_eq!(request.values("run").collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(request.value("flag"), Some(""));
        assert_eq!(of("/").path, Vec::<String>::new());
        assert_eq!(of("/%2e%2e/..%2f/%ff%00").path, ["..", "../", "\u{fffd}\0"]);
    }
}

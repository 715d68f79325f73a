//! Who is let in: the checks that every request passes before the site hears of it.

use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, ORIGIN};
use http::{HeaderMap, Method, Request};

use crate::key::Key;

/// What other sites hear.
const OTHERS: &str = "Other sites can't use this one.";

/// What is said to who does not have the key.
const CLOSED: &str = "Open the address that pgassay serve printed: it holds the key.";

/// What a request is, by its head.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// It has the key: path and query without it.
    Admitted(String),
    /// It is refused, with a status and the reason.
    Refused(u16, &'static str),
}

/// Judges the head of a request.
///
/// The Host must be a name of the loopback, as a page of another site can make its own name lead here
/// (DNS rebinding); its port is left open, so that a port forwarded by SSH works. An Origin must be
/// the same host. `takes` says that forms may be sent here: only by a page that came from here, which
/// its browser says (Origin, Fetch Metadata), and below the key.
pub(crate) fn judge<B>(request: &Request<B>, key: &Key, takes: bool) -> Entry {
    let headers = request.headers();
    let hosts: Vec<_> = headers.get_all(HOST).iter().collect();
    let host = match hosts.as_slice() {
        [one] => one.to_str().ok(),
        _ => None,
    };
    let Some(host) = host.filter(|host| is_loopback(host)) else {
        return Entry::Refused(421, "Open the address that pgassay printed.");
    };
    let sends = request.method() == Method::POST && takes;
    if request.method() != Method::GET && request.method() != Method::HEAD && !sends {
        return Entry::Refused(405, "Nothing can be sent here.");
    }
    if request.uri().path().len() > 4096 {
        return Entry::Refused(414, "The address is too long.");
    }
    for origin in headers.get_all(ORIGIN) {
        let own = origin.to_str().ok().and_then(|o| o.strip_prefix("http://"));
        if own != Some(host) {
            return Entry::Refused(403, OTHERS);
        }
    }
    if sends && !is_form(headers) {
        return Entry::Refused(415, "Only a form can be sent here.");
    }
    if sends && (is_of_another_page(headers) || !headers.contains_key(ORIGIN)) {
        return Entry::Refused(403, OTHERS);
    }
    match below_key(request, key) {
        Some(target) => Entry::Admitted(target),
        None if bears(headers, key) && !sends => {
            Entry::Admitted(target_of(request.uri().path(), request))
        }
        None => Entry::Refused(403, CLOSED),
    }
}

/// Whether a Host header names the loopback, with any port or none.
fn is_loopback(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    };
    name == "127.0.0.1" || name == "[::1]" || name.eq_ignore_ascii_case("localhost")
}

fn is_form(headers: &HeaderMap) -> bool {
    let types: Vec<_> = headers.get_all(CONTENT_TYPE).iter().collect();
    let [one] = types.as_slice() else {
        return false;
    };
    let name = one.to_str().ok().and_then(|text| text.split(';').next());
    name.is_some_and(|name| name.trim() == "application/x-www-form-urlencoded")
}

/// Whether the browser says that another page asks; older ones say nothing.
fn is_of_another_page(headers: &HeaderMap) -> bool {
    let mut sites = headers.get_all("sec-fetch-site").iter();
    sites.any(|site| site != "same-origin")
}

/// Whether a program brings the key as a bearer token (RFC 6750), as Prometheus does. A page of another site can't:
/// browsers ask first whether they may send that header, and are refused.
fn bears(headers: &HeaderMap, key: &Key) -> bool {
    let mut said = headers
        .get_all(AUTHORIZATION)
        .iter()
        .flat_map(|said| said.to_str());
    said.any(|said| match said.split_once(' ') {
        Some((scheme, token)) => scheme.eq_ignore_ascii_case("bearer") && key.is(token.trim()),
        None => false,
    })
}

/// What stands behind the key in the address, where that begins with the right one.
fn below_key<B>(request: &Request<B>, key: &Key) -> Option<String> {
    let path = request.uri().path().strip_prefix('/')?;
    let (first, rest) = path.split_at(path.find('/').unwrap_or(path.len()));
    key.is(first).then(|| target_of(rest, request))
}

/// A path with the query of a request.
fn target_of<B>(path: &str, request: &Request<B>) -> String {
    let path = if path.is_empty() { "/" } else { path };
    match request.uri().query() {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(method: &str, target: &str, headers: &[(&str, String)], key: &Key) -> Entry {
        let mut request = Request::builder().method(method).uri(target);
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        judge(&request.body(()).unwrap(), key, false)
    }

    #[test]
    fn only_the_loopback_is_a_host() {
        for host in [
            "127.0.0.1",
            "127.0.0.1:7654",
            "localhost:1",
            "LocalHost",
            "[::1]:7654",
            "[::1]",
        ] {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "127.0.0.1.evil.example",
            "localhost.evil.example:7654",
            "127.0.0.1:80:80",
            "127.0.0.1:",
            "127.0.0.1:7654@evil",
            "10.0.0.1:7654",
            "::1",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[test]
    fn every_request_is_judged_by_host_method_origin_and_key() {
        let key = Key::random().unwrap();
        let k = key.digits();
        let own = format!("/{k}/run/a?x=1");
        let host = || ("host", "127.0.0.1:1".to_owned());
        let admitted = |target: &str| Entry::Admitted(target.to_owned());
        let status = |entry| match entry {
            Entry::Refused(status, _) => status,
            other => panic!("{other:?}"),
        };
        for method in ["GET", "HEAD"] {
            assert_eq!(ask(method, &own, &[host()], &key), admitted("/run/a?x=1"));
        }
        for (target, rest) in [("", "/"), ("/", "/"), ("?q=a", "/?q=a"), ("//e/", "//e/")] {
            let target = format!("/{k}{target}");
            assert_eq!(ask("GET", &target, &[host()], &key), admitted(rest));
        }
        // No host, another, or two of them.
        assert_eq!(status(ask("GET", &own, &[], &key)), 421);
        let rebound = ("host", "evil.example:1".to_owned());
        assert_eq!(status(ask("GET", &own, &[rebound], &key)), 421);
        assert_eq!(status(ask("GET", &own, &[host(), host()], &key)), 421);
        for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE"] {
            assert_eq!(status(ask(method, &own, &[host()], &key)), 405);
        }
        for origin in [
            "null",
            "http://evil.example",
            "https://127.0.0.1:1",
            "http://127.0.0.1:2",
        ] {
            let origin = ("origin", origin.to_owned());
            assert_eq!(status(ask("GET", &own, &[host(), origin], &key)), 403);
        }
        let origin = ("origin", "http://127.0.0.1:1".to_owned());
        let from_own = ask("GET", &own, &[host(), origin], &key);
        assert_eq!(from_own, admitted("/run/a?x=1"));
        // A program has it in a header.
        let bearer = |token: &str| ("authorization", format!("Bearer {token}"));
        let scraped = ask("GET", "/metrics?x", &[host(), bearer(k)], &key);
        assert_eq!(scraped, admitted("/metrics?x"));
        assert_eq!(status(ask("POST", "/", &[host(), bearer(k)], &key)), 405);
        assert_eq!(status(ask("GET", "/", &[host(), bearer("0")], &key)), 403);
        // Without the key, with another, or with it elsewhere.
        let cookie = || ("cookie", format!("pgassay-1={k}; k={k}"));
        for target in [
            "/".to_owned(),
            "/run/a".to_owned(),
            "/metrics".to_owned(),
            format!("/{}/", "0".repeat(32)),
            format!("/{k}0/"),
            format!("/{}/", &k[..31]),
            format!("/?k={k}"),
            format!("//{k}/"),
            format!("/run/{k}"),
        ] {
            assert_eq!(status(ask("GET", &target, &[host(), cookie()], &key)), 403);
        }
    }

    #[test]
    fn a_form_is_taken_from_our_own_pages_only() {
        let key = Key::random().unwrap();
        let k = key.digits();
        let post = |target: &str, changed: &[(&str, Option<&str>)]| {
            let mut headers = vec![
                ("host", "127.0.0.1:1"),
                ("origin", "http://127.0.0.1:1"),
                ("content-type", "application/x-www-form-urlencoded"),
                ("sec-fetch-site", "same-origin"),
            ];
            for (name, value) in changed {
                headers.retain(|(n, _)| n != name);
                headers.extend(value.map(|value| (*name, value)));
            }
            let mut request = Request::builder().method("POST").uri(target);
            for (name, value) in headers {
                request = request.header(name, value);
            }
            match judge(&request.body(()).unwrap(), &key, true) {
                Entry::Admitted(_) => 200,
                Entry::Refused(status, _) => status,
            }
        };
        let own = format!("/{k}/pause");
        assert_eq!(post(&own, &[]), 200);
        assert_eq!(post(&own, &[("sec-fetch-site", None)]), 200);
        for (name, value, status) in [
            ("origin", None, 403),
            ("origin", Some("null"), 403),
            ("origin", Some("http://evil.example"), 403),
            ("origin", Some("http://127.0.0.1:2"), 403),
            ("sec-fetch-site", Some("cross-site"), 403),
            ("sec-fetch-site", Some("same-site"), 403),
            ("sec-fetch-site", Some("none"), 403),
            ("content-type", None, 415),
            ("content-type", Some("text/plain"), 415),
            ("content-type", Some("application/json"), 415),
            ("host", Some("evil.example"), 421),
        ] {
            assert_eq!(post(&own, &[(name, value)]), status, "{name}: {value:?}");
        }
        // The key elsewhere is not enough to send something.
        let (cookie, bearer) = (format!("pgassay-1={k}"), format!("Bearer {k}"));
        let elsewhere = [
            ("cookie", Some(cookie.as_str())),
            ("authorization", Some(bearer.as_str())),
        ];
        for target in ["/pause".to_owned(), format!("/pause?k={k}")] {
            assert_eq!(post(&target, &elsewhere), 403);
        }
    }
}

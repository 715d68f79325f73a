//! Who is let in: the checks that every request passes before the site hears of it.

use http::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE, HOST, ORIGIN};
use http::{HeaderMap, Method, Request};

use crate::key::Key;

/// What other sites hear.
const OTHERS: &str = "Other sites can't use this one.";

/// What a request is, by its head.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// It has the key.
    Admitted,
    /// It brings the key in its address: the browser is told to keep it, and sent to the address
    /// without.
    Keyed(String),
    /// It is refused, with a status and the reason.
    Refused(u16, &'static str),
}

/// Judges the head of a request. `cookie` is the name under which browsers keep the key.
///
/// The Host must be a name of the loopback, as a page of another site can make its own name lead here
/// (DNS rebinding); its port is left open, so that a port forwarded by SSH works. An Origin must be
/// the same host. `takes` says that forms may be sent here: only by a page that came from here, which
/// its browser says (Origin, Fetch Metadata), and with the key that the browser keeps.
pub(crate) fn judge<B>(request: &Request<B>, key: &Key, cookie: &str, takes: bool) -> Entry {
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
    if sends {
        return match (headers.contains_key(ORIGIN), has_key(headers, key, cookie)) {
            _ if !is_form(headers) => Entry::Refused(415, "Only a form can be sent here."),
            _ if is_of_another_page(headers) => Entry::Refused(403, OTHERS),
            (false, _) => Entry::Refused(403, OTHERS),
            (true, true) => Entry::Admitted,
            (true, false) => Entry::Refused(403, "Open the address that pgassay printed first."),
        };
    }
    if has_key(headers, key, cookie) || bears(headers, key) {
        return match in_address(request, key) {
            Some(without) => Entry::Keyed(without),
            None => Entry::Admitted,
        };
    }
    match in_address(request, key) {
        Some(without) => Entry::Keyed(without),
        None => Entry::Refused(
            403,
            "This address needs its key: open the one that pgassay printed, with ?k= in it.",
        ),
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

fn has_key(headers: &HeaderMap, key: &Key, name: &str) -> bool {
    let texts = headers.get_all(COOKIE).iter().flat_map(|c| c.to_str());
    let mut cookies = texts.flat_map(|text| text.split(';'));
    cookies.any(|cookie| match cookie.trim().split_once('=') {
        Some((n, value)) => n == name && key.is(value),
        None => false,
    })
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

/// The address without the key, where it holds the right one.
fn in_address<B>(request: &Request<B>, key: &Key) -> Option<String> {
    let uri = request.uri();
    let mut found = false;
    let mut rest: Vec<&str> = Vec::new();
    for pair in uri.query()?.split('&') {
        match pair.strip_prefix("k=") {
            Some(said) => found |= key.is(said),
            None => rest.push(pair),
        }
    }
    // A second slash would make it the name of another host.
    let path = format!("/{}", uri.path().trim_start_matches('/'));
    found.then(|| match rest.is_empty() {
        true => path,
        false => format!("{path}?{}", rest.join("&")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(method: &str, target: &str, headers: &[(&str, String)], key: &Key) -> Entry {
        let mut request = Request::builder().method(method).uri(target);
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        judge(&request.body(()).unwrap(), key, "pgassay-1", false)
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
        let host = || ("host", "127.0.0.1:1".to_owned());
        let cookie = || ("cookie", format!("a=b; pgassay-1={k}"));
        let status = |entry| match entry {
            Entry::Refused(status, _) => status,
            other => panic!("{other:?}"),
        };
        assert_eq!(ask("GET", "/", &[host(), cookie()], &key), Entry::Admitted);
        assert_eq!(ask("HEAD", "/", &[host(), cookie()], &key), Entry::Admitted);
        // No host, another, or two of them.
        assert_eq!(status(ask("GET", "/", &[cookie()], &key)), 421);
        let rebound = ("host", "evil.example:1".to_owned());
        assert_eq!(status(ask("GET", "/", &[rebound, cookie()], &key)), 421);
        let twice = [host(), host(), cookie()];
        assert_eq!(status(ask("GET", "/", &twice, &key)), 421);
        for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE"] {
            assert_eq!(status(ask(method, "/", &[host(), cookie()], &key)), 405);
        }
        for origin in [
            "null",
            "http://evil.example",
            "https://127.0.0.1:1",
            "http://127.0.0.1:2",
        ] {
            let origin = ("origin", origin.to_owned());
            assert_eq!(
                status(ask("GET", "/", &[host(), cookie(), origin], &key)),
                403
            );
        }
        let own = ("origin", "http://127.0.0.1:1".to_owned());
        assert_eq!(
            ask("GET", "/", &[host(), cookie(), own], &key),
            Entry::Admitted
        );
        // A program has it in a header.
        let bearer = |token: &str| ("authorization", format!("Bearer {token}"));
        assert_eq!(ask("GET", "/", &[host(), bearer(k)], &key), Entry::Admitted);
        let forms = ask("POST", "/", &[host(), bearer(k)], &key);
        assert_eq!(status(forms), 405);
        assert_eq!(status(ask("GET", "/", &[host(), bearer("0")], &key)), 403);
        // Without the key, or with another.
        assert_eq!(status(ask("GET", "/", &[host()], &key)), 403);
        let wrong = ("cookie", format!("pgassay-1={}", "0".repeat(32)));
        assert_eq!(status(ask("GET", "/", &[host(), wrong], &key)), 403);
        let other = ("cookie", format!("pgassay-2={k}"));
        assert_eq!(status(ask("GET", "/", &[host(), other], &key)), 403);
        assert_eq!(
            status(ask("GET", &format!("/{k}?x={k}"), &[host()], &key)),
            403
        );
    }

    #[test]
    fn a_form_is_taken_from_our_own_pages_only() {
        let key = Key::random().unwrap();
        let k = key.digits();
        let post = |target: &str, changed: &[(&str, Option<&str>)]| {
            let cookie = format!("pgassay-1={k}");
            let mut headers = vec![
                ("host", "127.0.0.1:1"),
                ("cookie", cookie.as_str()),
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
            match judge(&request.body(()).unwrap(), &key, "pgassay-1", true) {
                Entry::Admitted => 200,
                Entry::Keyed(to) => panic!("{to}"),
                Entry::Refused(status, _) => status,
            }
        };
        assert_eq!(post("/pause", &[]), 200);
        assert_eq!(post("/pause", &[("sec-fetch-site", None)]), 200);
        for (name, value, status) in [
            ("cookie", None, 403),
            ("cookie", Some("pgassay-1=0"), 403),
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
            assert_eq!(
                post("/pause", &[(name, value)]),
                status,
                "{name}: {value:?}"
            );
        }
        // The key in an address, as in another site's link, is not enough to send something.
        assert_eq!(post(&format!("/pause?k={k}"), &[("cookie", None)]), 403);
    }

    #[test]
    fn the_key_is_taken_out_of_the_address() {
        let key = Key::random().unwrap();
        let k = key.digits();
        let host = [("host", "localhost:1".to_owned())];
        let keyed = |target: &str| match ask("GET", target, &host, &key) {
            Entry::Keyed(to) => to,
            other => panic!("{target}: {other:?}"),
        };
        assert_eq!(keyed(&format!("/?k={k}")), "/");
        assert_eq!(keyed(&format!("/run/a?q=1&k={k}&r=2")), "/run/a?q=1&r=2");
        // Never to another host.
        assert_eq!(keyed(&format!("//evil.example/?k={k}")), "/evil.example/");
    }
}

//! Downloading an archive from Maven Central, or from a mirror of it.

use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::{Duration, Instant};

use ureq::Agent;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use super::TargetError;
use crate::packages::{self, Part};

/// Where the archives are published.
const MAVEN_CENTRAL: &str = "https://repo1.maven.org/maven2";

/// Names another Maven repository with the same layout.
const MIRROR: &str = "PGASSAY_MAVEN_URL";

/// How long a download may take; the archives have some 15 MB.
const PATIENCE: Duration = Duration::from_secs(300);

/// How long the other side may be silent.
const SILENCE: Duration = Duration::from_secs(30);

/// How often a download is begun, because networks and servers fail for a moment.
const ATTEMPTS: u32 = 3;

/// The repository that archives are downloaded from, without a slash at the end.
pub(super) fn repository() -> String {
    let mirror = std::env::var(MIRROR).ok().filter(|url| !url.is_empty());
    let url = mirror.as_deref().unwrap_or(MAVEN_CENTRAL);
    url.trim_end_matches('/').to_owned()
}

/// Downloads a file of exactly `size` bytes; its checksum is the caller's to look at. Proxies are
/// those of `ALL_PROXY`, `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`.
///
/// # Errors
/// `Interrupted` if `stop` was raised; else `NotFound` with what failed and what to do.
pub(super) fn download(url: &str, size: u64, stop: &AtomicBool) -> Result<Vec<u8>, TargetError> {
    let until = Instant::now() + PATIENCE;
    let (sender, results) = channel();
    let asked = url.to_owned();
    // On a thread of its own: a name look-up that hangs must not hold the program.
    let spawned = thread::Builder::new()
        .name("download".into())
        .spawn(move || sender.send(attempts(&asked, size)).ok());
    if let Err(error) = spawned {
        return Err(failed(url, &error.to_string()));
    }
    loop {
        if stop.load(Ordering::Relaxed) {
            return Err(TargetError::Interrupted);
        }
        match results.recv_timeout(Duration::from_millis(50)) {
            Ok(result) => return result.map_err(|why| failed(url, &why)),
            Err(RecvTimeoutError::Timeout) if Instant::now() < until => {}
            Err(RecvTimeoutError::Timeout) => {
                return Err(failed(url, &format!("not within {} s", PATIENCE.as_secs())));
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(failed(url, "the download ended unexpectedly"));
            }
        }
    }
}

fn failed(url: &str, why: &str) -> TargetError {
    TargetError::NotFound(format!(
        "cannot download {url}: {why}. Install PostgreSQL ({}), name the directory of an \
         installation, or set HTTPS_PROXY to a proxy or {MIRROR} to a Maven mirror",
        packages::how(Part::Server)
    ))
}

/// Why an attempt failed, and whether another may succeed.
struct Trouble {
    why: String,
    passing: bool,
}

fn attempts(url: &str, size: u64) -> Result<Vec<u8>, String> {
    let mut pause = Duration::from_millis(500);
    for _ in 1..ATTEMPTS {
        match attempt(url, size) {
            Ok(bytes) => return Ok(bytes),
            Err(trouble) if !trouble.passing => return Err(trouble.why),
            Err(_) => {}
        }
        thread::sleep(pause);
        pause *= 4;
    }
    attempt(url, size).map_err(|trouble| trouble.why)
}

fn attempt(url: &str, size: u64) -> Result<Vec<u8>, Trouble> {
    let agent = match url.starts_with("https:") {
        true => AGENT.as_ref().map_err(|why| Trouble {
            why: why.clone(),
            passing: false,
        })?,
        // Without TLS the checksum still decides what is used.
        false => &agent(TlsConfig::default()),
    };
    let answer = agent.get(url).call().map_err(|error| Trouble {
        passing: match &error {
            ureq::Error::StatusCode(status) => *status >= 500 || *status == 429,
            ureq::Error::Io(_) | ureq::Error::Timeout(_) | ureq::Error::ConnectionFailed => true,
            _ => false,
        },
        why: error.to_string(),
    })?;
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
    let read = answer
        .into_body()
        .into_reader()
        .take(size.saturating_add(1))
        .read_to_end(&mut bytes);
    let got = bytes.len() as u64;
    match read {
        Err(error) => Err(Trouble {
            why: format!("it broke off after {got} of {size} bytes: {error}"),
            passing: error.kind() != io::ErrorKind::InvalidData,
        }),
        Ok(_) if got > size => Err(Trouble {
            why: format!("there are more than the {size} bytes of the archive"),
            passing: false,
        }),
        Ok(_) if got < size => Err(Trouble {
            why: format!("it ended after {got} of {size} bytes"),
            passing: true,
        }),
        Ok(_) => Ok(bytes),
    }
}

/// Made at the first download, because reading the system's certificates takes a while.
static AGENT: LazyLock<Result<Agent, String>> = LazyLock::new(|| {
    let found = rustls_native_certs::load_native_certs();
    if found.certs.is_empty() {
        return Err(format!(
            "the operating system has no root certificates: {}",
            packages::how(Part::Certificates)
        ));
    }
    let roots: Vec<_> = found
        .certs
        .iter()
        .map(|certificate| Certificate::from_der(certificate).to_owned())
        .collect();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    Ok(agent(
        TlsConfig::builder()
            .root_certs(RootCerts::Specific(Arc::new(roots)))
            .unversioned_rustls_crypto_provider(provider)
            .build(),
    ))
});

fn agent(tls: TlsConfig) -> Agent {
    Agent::config_builder()
        .tls_config(tls)
        .user_agent(concat!("pgassay/", env!("CARGO_PKG_VERSION")))
        .timeout_global(Some(PATIENCE))
        .timeout_resolve(Some(SILENCE))
        .timeout_connect(Some(SILENCE))
        .timeout_recv_response(Some(SILENCE))
        .timeout_per_read(Some(SILENCE))
        .build()
        .new_agent()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;

    /// A server that gives each connection the next of these answers, and counts them.
    fn serving(answers: Vec<Vec<u8>>) -> (String, thread::JoinHandle<usize>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/archive.jar", listener.local_addr().unwrap());
        let thread = thread::spawn(move || {
            for answer in &answers {
                let (mut stream, _) = listener.accept().unwrap();
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                while lines.next().is_some_and(|l| l.is_ok_and(|l| !l.is_empty())) {}
                stream.write_all(answer).ok();
            }
            answers.len()
        });
        (url, thread)
    }

    fn answer(status: &str, length: usize, body: &[u8]) -> Vec<u8> {
        let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n");
        [head.as_bytes(), body].concat()
    }

    fn go() -> AtomicBool {
        AtomicBool::new(false)
    }

    #[test]
    fn what_breaks_off_or_fails_for_a_moment_is_tried_again() {
        let (url, served) = serving(vec![
            answer("200 OK", 10, b"half "),
            answer("503 Service Unavailable", 0, b""),
            answer("200 OK", 10, b"whole file"),
        ]);
        assert_eq!(download(&url, 10, &go()).unwrap(), b"whole file");
        assert_eq!(served.join().unwrap(), 3);
    }

    #[test]
    fn what_is_not_there_or_another_size_is_refused_at_once() {
        let chunked =
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nendles\r\n6\r\nendles\r\n";
        for (sent, says) in [
            (answer("404 Not Found", 0, b""), "404"),
            (
                answer("200 OK", 12, b"other thing!"),
                "more than the 10 bytes",
            ),
            (chunked.to_vec(), "more than the 10 bytes"),
        ] {
            let (url, served) = serving(vec![sent]);
            let error = download(&url, 10, &go()).unwrap_err().to_string();
            assert!(error.contains(says) && error.contains(&url), "{error}");
            assert!(
                error.contains("HTTPS_PROXY") && error.contains(MIRROR),
                "{error}"
            );
            assert_eq!(served.join().unwrap(), 1);
        }
    }

    #[test]
    fn a_server_that_is_silent_does_not_hold_an_interrupted_download() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let stop = Arc::new(go());
        let raise = Arc::clone(&stop);
        let raised = thread::spawn(move || {
            let held = listener.accept();
            raise.store(true, Ordering::Relaxed);
            held
        });
        let error = download(&url, 10, &stop).unwrap_err();
        assert!(matches!(error, TargetError::Interrupted), "{error}");
        drop(raised.join());
    }

    #[test]
    fn a_refused_connection_says_what_to_do() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        drop(listener);
        let error = download(&url, 10, &go()).unwrap_err().to_string();
        assert!(error.contains("refused"), "{error}");
    }
}

//! TLS towards a server: libpq's files and modes made into a rustls
//! configuration, and the handshake.

use super::certificate::Certificate;
use super::channel::Channel;
use super::conninfo::{Conninfo, Host, Place, RootCert, SslMode};
use super::error::{ConnectError, ServerError};
use super::start_error::broken;
use super::transport::Transport;
use super::verifier::{Trust, Verifier};
use bytes::BytesMut;
use postgres_protocol::message::backend::Message;
use postgres_protocol::message::frontend;
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, ServerName};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{CertificateError, ClientConfig, ClientConnection, RootCertStore, version};
use std::fs::File;
use std::io::{self, Read as _};

use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// How to speak TLS with one host.
#[derive(Clone)]
pub(super) struct Tls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    direct: bool,
}

/// What came of asking a server for TLS.
pub(super) enum Asked {
    /// It is on; the hash of the certificate is for channel binding.
    Secured(Channel, Option<Vec<u8>>),
    /// The server has none; the connection goes on without.
    Plain(Channel),
}

/// What all hosts of a connection string share: files read once.
pub(super) struct TlsFiles {
    trust: Option<Arc<Trust>>,
    identity: Option<Arc<CertifiedKey>>,
    provider: Arc<CryptoProvider>,
}

impl TlsFiles {
    /// Reads root certificates, revocation lists, certificate and key. The
    /// error says which file is wrong and what to do.
    pub fn read(conninfo: &Conninfo) -> Result<TlsFiles, String> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let trust = trust(conninfo, &provider)?;
        let identity = identity(conninfo, &provider)?.map(Arc::new);
        Ok(TlsFiles {
            trust,
            identity,
            provider,
        })
    }
}

impl Tls {
    /// TLS for one host.
    pub fn new(conninfo: &Conninfo, host: &Host, files: &TlsFiles) -> Result<Tls, String> {
        let settings = &conninfo.tls;
        let name = match &host.place {
            Place::Name(name) => Some(name.clone()),
            Place::Address(_, name) => name.clone(),
            Place::Socket(_) => None,
        };
        let must_match = if settings.mode == SslMode::VerifyFull {
            Some(name.clone().ok_or(
                "sslmode=verify-full needs a host name to verify; give host=… beside hostaddr=…",
            )?)
        } else {
            None
        };
        let verifier = Verifier::new(files.trust.clone(), must_match, &files.provider);
        let versions: Vec<_> = [(12, &version::TLS12), (13, &version::TLS13)]
            .into_iter()
            .filter(|(number, _)| (settings.min_version..=settings.max_version).contains(number))
            .map(|(_, version)| version)
            .collect();
        let builder = ClientConfig::builder_with_provider(files.provider.clone())
            .with_protocol_versions(&versions)
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let mut config = match &files.identity {
            Some(identity) => builder
                .with_client_cert_resolver(Arc::new(SingleCertAndKey::from(identity.clone()))),
            None => builder.with_no_client_auth(),
        };
        // libpq resumes no sessions, so neither do we: reconnecting costs what
        // it costs an application.
        config.resumption = Resumption::disabled();
        config.enable_sni = settings.sni;
        config.alpn_protocols = vec![ALPN.to_vec()];
        // A name that can't go into SNI is no reason not to connect.
        let name = name
            .and_then(|name| ServerName::try_from(name).ok())
            .unwrap_or_else(|| ServerName::IpAddress(IpAddr::from([0, 0, 0, 0]).into()));
        Ok(Tls {
            config: Arc::new(config),
            name,
            direct: settings.direct,
        })
    }

    /// Asks the server for TLS and completes the handshake where it has it.
    pub fn ask(
        &self,
        mut channel: Channel,
        server: &str,
        conninfo: &Conninfo,
        deadline: Option<Instant>,
    ) -> Result<Asked, ConnectError> {
        let fault = |error| broken(error, server, conninfo, "asking for TLS");
        if !self.direct {
            let mut out = BytesMut::new();
            frontend::ssl_request(&mut out);
            channel.send(&out, deadline).map_err(fault)?;
            match channel.one_byte(deadline).map_err(fault)? {
                b'S' => {}
                b'N' => return Ok(Asked::Plain(channel)),
                // It can't even begin, for want of memory or processes.
                b'E' => return Err(refusal(&mut channel, server, conninfo, deadline)),
                other => {
                    return Err(ConnectError::Protocol {
                        server: server.to_owned(),
                        why: format!(
                            "it answers a request for TLS with byte {other:#04x}; is this a \
                             PostgreSQL server's port?"
                        ),
                    });
                }
            }
        }
        let failed = |why: String| ConnectError::Tls {
            server: server.to_owned(),
            why,
        };
        let fd = match channel.take() {
            Some((Transport::Tcp(fd) | Transport::Unix(fd), _)) => fd,
            _ => return Err(failed("there is no plain connection to secure".to_owned())),
        };
        let session = ClientConnection::new(self.config.clone(), self.name.clone())
            .map_err(|error| failed(error.to_string()))?;
        let tls = Transport::handshake(fd, session, deadline).map_err(|error| {
            if error.kind() == io::ErrorKind::TimedOut {
                return ConnectError::Timeout {
                    server: server.to_owned(),
                    doing: "securing the connection",
                    after: conninfo.patience(),
                };
            }
            failed(explain(&error, conninfo))
        })?;
        if self.direct && tls.alpn() != Some(ALPN) {
            return Err(failed(
                "it does not confirm PostgreSQL as the protocol (ALPN), which \
                 sslnegotiation=direct needs; that takes PostgreSQL 17"
                    .to_owned(),
            ));
        }
        let binding = tls
            .server_certificate()
            .and_then(Certificate::parse)
            .and_then(|certificate| certificate.end_point_binding());
        Ok(Asked::Secured(
            Channel::new(Transport::Tls(Box::new(tls))),
            binding,
        ))
    }
}

/// The error that a server sends in place of an answer.
fn refusal(
    channel: &mut Channel,
    server: &str,
    conninfo: &Conninfo,
    deadline: Option<Instant>,
) -> ConnectError {
    let why = match channel.message(deadline) {
        Ok(Message::ErrorResponse(body)) => match ServerError::read(body.fields()) {
            Ok(error) => return ConnectError::from_server(server, error),
            Err(error) => error.to_string(),
        },
        Ok(_) => "no answer to a request for TLS".to_owned(),
        Err(error) => return broken(error, server, conninfo, "asking for TLS"),
    };
    ConnectError::Protocol {
        server: server.to_owned(),
        why,
    }
}

/// The protocol's registered name (IANA, TLS ALPN protocol ids).
const ALPN: &[u8] = b"postgresql";

/// A handshake's error in the user's terms.
fn explain(error: &io::Error, conninfo: &Conninfo) -> String {
    let tls = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let Some(tls) = tls else {
        return error.to_string();
    };
    match tls {
        rustls::Error::InvalidCertificate(fault) => {
            let roots = match &conninfo.tls.root {
                Some(RootCert::File { path, .. }) => path.display().to_string(),
                _ => "system".to_owned(),
            };
            match fault {
                CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                    "the server's certificate has expired; renew it".to_owned()
                }
                CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                    "the server's certificate is not valid yet; compare the clocks".to_owned()
                }
                CertificateError::Revoked => {
                    "the server's certificate is revoked; renew it".to_owned()
                }
                CertificateError::UnknownIssuer => format!(
                    "no authority in sslrootcert={roots} has signed the server's certificate; \
                     name the file with its authority's certificate"
                ),
                _ => format!(
                    "the server's certificate is not accepted ({tls}), with sslrootcert={roots}"
                ),
            }
        }
        rustls::Error::General(why) => format!("the server's certificate is not accepted: {why}"),
        rustls::Error::AlertReceived(alert) => format!(
            "the server broke off with {alert:?}; its log says why (a client certificate that it \
             does not accept, or no common TLS version)"
        ),
        other => other.to_string(),
    }
}

/// The authorities to trust. As in libpq a root file that is there is used in
/// every mode, and only verify-ca and verify-full insist on it.
fn trust(
    conninfo: &Conninfo,
    provider: &Arc<CryptoProvider>,
) -> Result<Option<Arc<Trust>>, String> {
    let settings = &conninfo.tls;
    let mut authorities = Vec::new();
    match &settings.root {
        Some(RootCert::System) => {
            let found = rustls_native_certs::load_native_certs();
            if found.certs.is_empty() {
                return Err(format!(
                    "sslrootcert=system, but the operating system has no root certificates{}; \
                     install the package ca-certificates",
                    found
                        .errors
                        .first()
                        .map_or_else(String::new, |error| format!(" ({error})"))
                ));
            }
            authorities = found.certs;
        }
        Some(RootCert::File { path, .. }) if path.exists() => {
            authorities = certificates(path, "root certificate")?;
        }
        Some(RootCert::File { path, .. }) if settings.mode >= SslMode::VerifyCa => {
            return Err(format!(
                "the root certificate file {} does not exist; provide it, name another with \
                 sslrootcert=…, use the system's with sslrootcert=system, or choose a weaker \
                 sslmode",
                path.display()
            ));
        }
        Some(RootCert::File { .. }) => {}
        None if settings.mode >= SslMode::VerifyCa => {
            return Err("this sslmode needs root certificates; give sslrootcert=…".to_owned());
        }
        None => {}
    }
    if authorities.is_empty() {
        return Ok(None);
    }
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(authorities.iter().cloned());
    if roots.is_empty() {
        return Err("none of the root certificates can be read as X.509".to_owned());
    }
    let lists = revocation_lists(conninfo)?;
    let revocation = !lists.is_empty();
    let chains = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .with_crls(lists)
        .build()
        .map_err(|error| format!("the root certificates or revocation lists: {error}"))?;
    let authorities = authorities
        .iter()
        .filter_map(|der| Certificate::parse(der))
        .collect();
    Ok(Some(Arc::new(Trust {
        chains,
        authorities,
        revocation,
    })))
}

fn revocation_lists(
    conninfo: &Conninfo,
) -> Result<Vec<CertificateRevocationListDer<'static>>, String> {
    match &conninfo.tls.crl {
        Some((path, given)) if *given || path.exists() => pem_objects(path, "revocation list"),
        _ => Ok(Vec::new()),
    }
}

/// The client's certificate and key, where there are any.
fn identity(
    conninfo: &Conninfo,
    provider: &CryptoProvider,
) -> Result<Option<CertifiedKey>, String> {
    let Some((path, given)) = &conninfo.tls.certificate else {
        return Ok(None);
    };
    if !given && !path.exists() {
        return Ok(None);
    }
    let chain = certificates(path, "client certificate")?;
    let Some(key_path) = &conninfo.tls.key else {
        return Err(format!("{} needs its key; give sslkey=…", path.display()));
    };
    check_key_file(key_path)?;
    let key = pem_file(key_path, "private key")?;
    let key = PrivateKeyDer::from_pem_slice(&key).map_err(|error| {
        format!(
            "{}; it must be a PEM key without passphrase (openssl pkey -in KEY -out PLAIN)",
            unreadable(key_path, "private key", &error)
        )
    })?;
    let key = provider
        .key_provider
        .load_private_key(key)
        .map_err(|error| {
            format!(
                "the private key {} can't be used: {error}",
                key_path.display()
            )
        })?;
    let identity = CertifiedKey::new(chain, key);
    match identity.keys_match() {
        Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::KeyMismatch)) => {
            Err(format!(
                "the certificate {} and the key {} do not belong together",
                path.display(),
                key_path.display()
            ))
        }
        // Other errors are about the certificate's form, which is for the
        // server to judge.
        _ => Ok(Some(identity)),
    }
}

/// libpq's rule: nobody else may read the key; root's may be readable by its group.
fn check_key_file(path: &Path) -> Result<(), String> {
    let metadata = std::fs::metadata(path)
        .map_err(|error| format!("can't read the private key {}: {error}", path.display()))?;
    let forbidden = if metadata.uid() == 0 { 0o037 } else { 0o077 };
    if metadata.is_file() && metadata.mode() & forbidden != 0 {
        return Err(format!(
            "the private key {} may be read by others; chmod 600 it (640 if root owns it)",
            path.display()
        ));
    }
    Ok(())
}

fn certificates(path: &Path, what: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates: Vec<_> = pem_objects(path, what)?;
    if certificates.is_empty() {
        return Err(format!(
            "the {what} file {} holds no PEM certificate",
            path.display()
        ));
    }
    Ok(certificates)
}

/// More than this of a PEM file is not read: the root certificates of a whole operating system are
/// some 200 KiB, and a mistaken path must not fill the memory.
const PEM_LIMIT: u64 = 16 << 20;

/// The content of a PEM file.
fn pem_file(path: &Path, what: &str) -> Result<Vec<u8>, String> {
    let mut content = Vec::new();
    let read = File::open(path).and_then(|file| file.take(PEM_LIMIT + 1).read_to_end(&mut content));
    match read {
        Err(error) => Err(unreadable(path, what, &pem::Error::Io(error))),
        Ok(_) if content.len() as u64 > PEM_LIMIT => Err(format!(
            "the {what} file {} is no PEM file: it has more than {} MiB",
            path.display(),
            PEM_LIMIT >> 20
        )),
        Ok(_) => Ok(content),
    }
}

/// All objects of one kind in a PEM file.
fn pem_objects<T: PemObject>(path: &Path, what: &str) -> Result<Vec<T>, String> {
    let content = pem_file(path, what)?;
    let objects: Result<_, _> = T::pem_slice_iter(&content).collect();
    objects.map_err(|error| unreadable(path, what, &error))
}

fn unreadable(path: &Path, what: &str, error: &pem::Error) -> String {
    format!("can't read the {what} file {}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Attack, roles: sslrootcert=/dev/zero was read until memory was full.
    #[test]
    fn a_certificate_file_without_end_is_refused() {
        let refused = certificates(Path::new("/dev/zero"), "root certificate");
        let why = refused.unwrap_err();
        assert!(why.contains("more than 16 MiB"), "{why}");
    }
}

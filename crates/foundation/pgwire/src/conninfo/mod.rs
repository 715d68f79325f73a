//! Where and as whom to connect: a connection string, completed from the
//! service file, the environment, the password file and libpq's defaults, in
//! that order of precedence.

mod files;
mod keywords;
mod resolve;
mod surroundings;
#[cfg(test)]
mod tests;
mod text;

pub use surroundings::{FileSeen, NoSurroundings, Surroundings, ThisProcess};

use super::secret::Secret;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// What is wrong with a connection string or with what completes it. No
/// variant carries the text of a value that may be a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConninfoError {
    /// A keyword without `=`.
    #[error("connection string: there is no \"=\" after \"{keyword}\"; write keyword=value")]
    MissingEquals {
        /// The word in question.
        keyword: String,
    },
    /// A `=` without a keyword before it.
    #[error("connection string: a \"=\" has no keyword before it")]
    MissingKeyword,
    /// A quote that is never closed.
    #[error("connection string: the quote that starts the value of \"{keyword}\" is not closed")]
    UnterminatedQuote {
        /// Whose value it is.
        keyword: String,
    },
    /// A word after a password that is no `keyword=value`; it is not shown.
    #[error(
        "connection string: what follows the password is not keyword=value; put a password that \
         has blanks into single quotes"
    )]
    UnquotedSecret,
    /// A malformed URI.
    #[error("connection URI: {0}")]
    Uri(String),
    /// A keyword that libpq does not know.
    #[error("{place}: unknown keyword \"{keyword}\"{}", did_you_mean(.nearest))]
    UnknownKeyword {
        /// Where it was written.
        place: String,
        /// The word in question.
        keyword: String,
        /// The known keyword that comes nearest.
        nearest: Option<&'static str>,
    },
    /// A value that its keyword does not take.
    #[error("{place}: {keyword} can't be \"{value}\": {expected}")]
    InvalidValue {
        /// Where it was written.
        place: String,
        /// The keyword.
        keyword: &'static str,
        /// The value as given; never a password.
        value: String,
        /// What would be accepted.
        expected: String,
    },
    /// A keyword whose meaning pgassay can't honour and must not ignore.
    #[error("{place}: {keyword} is not supported by pgassay and is not ignored silently; {remedy}")]
    Unsupported {
        /// Where it was written.
        place: String,
        /// The keyword.
        keyword: &'static str,
        /// What to do.
        remedy: String,
    },
    /// Lists that do not fit one another.
    #[error("{0}")]
    Mismatch(String),
    /// A service that is not defined, or a broken service file.
    #[error("{0}")]
    Service(String),
    /// No user name was given and the operating system names none.
    #[error(
        "no user name is given and the operating system has none for this user id; give user=…"
    )]
    NoUser,
}

fn did_you_mean(nearest: &Option<&'static str>) -> String {
    nearest.map_or_else(String::new, |known| format!("; did you mean \"{known}\"?"))
}

/// libpq's `sslmode`, from the weakest to the strictest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SslMode {
    /// Never TLS.
    Disable,
    /// TLS only where the server refuses without.
    Allow,
    /// TLS where the server has it.
    Prefer,
    /// TLS; the certificate is verified only where a root certificate is there.
    Require,
    /// TLS, the certificate signed by a known authority.
    VerifyCa,
    /// As `VerifyCa`, and issued for the host that was asked for.
    VerifyFull,
}

/// Where trusted certificates come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RootCert {
    /// The operating system's.
    System,
    /// A file of PEM certificates. `given` is false for libpq's default
    /// `~/.postgresql/root.crt`, which may be absent.
    File {
        /// Where.
        path: PathBuf,
        /// Asked for by name.
        given: bool,
    },
}

/// Everything about TLS.
#[derive(Debug, Clone)]
pub struct TlsSettings {
    /// Whether, and how strictly.
    pub mode: SslMode,
    /// TLS from the first byte (PostgreSQL 17 on) instead of on request.
    pub direct: bool,
    /// Trust.
    pub root: Option<RootCert>,
    /// Certificate revocation list: path, and whether it was asked for by name.
    pub crl: Option<(PathBuf, bool)>,
    /// Client certificate: path, and whether it was asked for by name.
    pub certificate: Option<(PathBuf, bool)>,
    /// The key of the client certificate.
    pub key: Option<PathBuf>,
    /// Send the server's name in the clear when greeting (SNI).
    pub sni: bool,
    /// Lowest TLS version, 12 for 1.2 and 13 for 1.3.
    pub min_version: u8,
    /// Highest TLS version.
    pub max_version: u8,
}

/// libpq's `channel_binding`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChannelBinding {
    /// Do not.
    Disable,
    /// Where the server offers it.
    Prefer,
    /// Or fail.
    Require,
}

/// A way by which a server can ask who we are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthMethod {
    /// Clear text password.
    Password,
    /// MD5 hashed password.
    Md5,
    /// SCRAM-SHA-256, with or without channel binding.
    Scram,
    /// Nothing asked (trust, peer, client certificate).
    None,
    /// GSSAPI, SSPI, OAuth: known by name only.
    Other,
}

/// libpq's `require_auth`: the methods the server may, or may not, use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequireAuth {
    /// The methods listed.
    pub methods: Vec<AuthMethod>,
    /// The list was written with `!`: these are refused, all others accepted.
    pub negated: bool,
    /// As it was written, for messages.
    pub text: String,
}

impl RequireAuth {
    /// Whether the server may use that method.
    pub fn permits(&self, method: AuthMethod) -> bool {
        self.methods.contains(&method) != self.negated
    }
}

/// libpq's `target_session_attrs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionAttrs {
    /// Any server.
    Any,
    /// Transactions can write.
    ReadWrite,
    /// Transactions can't write.
    ReadOnly,
    /// Not in recovery.
    Primary,
    /// In recovery.
    Standby,
    /// In recovery if one is, else any.
    PreferStandby,
}

/// TCP keepalive settings; zero or absent leaves the system's default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keepalives {
    /// Whether at all.
    pub on: bool,
    /// Seconds of silence before the first probe.
    pub idle_s: Option<u32>,
    /// Seconds between probes.
    pub interval_s: Option<u32>,
    /// Probes before the connection counts as dead.
    pub count: Option<u32>,
}

/// Where one server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// The directory of a Unix socket, or `@name` for an abstract one.
    Socket(String),
    /// A name to resolve.
    Name(String),
    /// An address, and the name it goes by where one was given too.
    Address(IpAddr, Option<String>),
}

/// One server to try.
#[derive(Debug, Clone)]
pub struct Host {
    /// Where it listens.
    pub place: Place,
    /// On which port; for a Unix socket the number in the socket's name.
    pub port: u16,
    /// The password for it, from the string, the environment or the password file.
    pub password: Option<Secret>,
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Socket(directory) => write!(f, "{directory}/.s.PGSQL.{}", self.port),
            Place::Name(name) => write!(f, "{name} port {}", self.port),
            Place::Address(address, None) => write!(f, "{address} port {}", self.port),
            Place::Address(address, Some(name)) => {
                write!(f, "{name} ({address}) port {}", self.port)
            }
        }
    }
}

/// A connection string, completed and checked.
#[derive(Debug, Clone)]
pub struct Conninfo {
    /// The servers to try, at least one, in the order given.
    pub hosts: Vec<Host>,
    /// Role to connect as.
    pub user: String,
    /// Database to connect to.
    pub dbname: String,
    /// TLS.
    pub tls: TlsSettings,
    /// Binding the authentication to the TLS channel.
    pub channel_binding: ChannelBinding,
    /// Which ways of authentication are accepted.
    pub require_auth: Option<RequireAuth>,
    /// What the server must be like.
    pub session_attrs: SessionAttrs,
    /// Try the hosts in random order.
    pub load_balance: bool,
    /// Time for each address to connect and authenticate, where it was set.
    pub connect_timeout: Option<Duration>,
    /// What pg_stat_activity shows.
    pub application_name: String,
    /// Command line options for the backend.
    pub options: Option<String>,
    /// Whether it is one that takes none, as a pooler: what [`Self::with_options`] adds is left out.
    pub takes_no_options: bool,
    /// Encoding of all text; other than UTF8 only when asked for.
    pub client_encoding: String,
    /// Further settings of the session from PGTZ, PGDATESTYLE and PGGEQO.
    pub session_settings: Vec<(&'static str, String)>,
    /// TCP keepalives.
    pub keepalives: Keepalives,
    /// How long sent data may stay unacknowledged.
    pub tcp_user_timeout: Option<Duration>,
    /// What the user should know, such as a password file that others can read.
    pub warnings: Vec<String>,
}

/// How long each address is waited for unless connect_timeout says otherwise.
const PATIENCE: Duration = Duration::from_secs(30);

impl Conninfo {
    /// Time for each address to connect and authenticate.
    pub fn patience(&self) -> Duration {
        self.connect_timeout.unwrap_or(PATIENCE)
    }

    /// Whether a command line argument is a connection string (a URI or
    /// `key=value`) rather than a path or a name.
    pub fn looks_like(text: &str) -> bool {
        text::is_uri(text) || text.contains('=')
    }

    /// Parses a connection string and completes it from this process's
    /// environment and files as libpq would.
    pub fn parse(text: &str) -> Result<Conninfo, ConninfoError> {
        Conninfo::parse_in(text, &ThisProcess)
    }

    /// As `parse`, in the surroundings given.
    pub fn parse_in(text: &str, around: &dyn Surroundings) -> Result<Conninfo, ConninfoError> {
        let pairs = if text::is_uri(text) {
            text::uri(text)?
        } else {
            text::key_values(text)?
        };
        resolve::complete(pairs, around)
    }

    /// The keywords and values of a connection string as they are written, in their order; nothing is completed.
    ///
    /// # Errors
    /// Where it can't be taken apart.
    pub fn pairs(text: &str) -> Result<Vec<(String, String)>, ConninfoError> {
        match text::is_uri(text) {
            true => text::uri(text),
            false => text::key_values(text),
        }
    }

    /// The connection string of such pairs, of which a later one of the same keyword wins.
    pub fn of_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
        let pair = |(name, value)| format!("{name}={}", quote(value));
        let pairs: Vec<String> = pairs.into_iter().map(pair).collect();
        pairs.join(" ")
    }

    /// A server on a Unix socket whose every parameter is known, as one that
    /// we launched: nothing comes from the environment, so a PGOPTIONS or
    /// PGHOST that happens to be set can't change what is measured.
    pub fn on_socket(directory: &str, port: u16, user: &str, dbname: &str) -> Conninfo {
        let host = Host {
            place: Place::Socket(directory.to_owned()),
            port,
            password: None,
        };
        resolve::bare(host, user, dbname)
    }

    /// The same server and user, another database.
    pub fn with_dbname(&self, dbname: &str) -> Conninfo {
        Conninfo {
            dbname: dbname.to_owned(),
            ..self.clone()
        }
    }

    /// The same under another application name.
    pub fn with_application_name(&self, name: &str) -> Conninfo {
        Conninfo {
            application_name: name.to_owned(),
            ..self.clone()
        }
    }

    /// The same for a session that observes: what it does is not the application's.
    pub fn observing(&self) -> Conninfo {
        self.with_application_name(pgassay_text::own::OBSERVER)
    }

    /// The same with further command line options for the backend, which win over those before them.
    pub fn with_options(&self, more: &str) -> Conninfo {
        if self.takes_no_options {
            return self.clone();
        }
        let options = match &self.options {
            Some(options) => format!("{options} {more}"),
            None => more.to_owned(),
        };
        Conninfo {
            options: Some(options),
            ..self.clone()
        }
    }

    /// The same without further command line options, whatever is added to them: a pooler does not pass them on.
    pub fn without_options(&self) -> Conninfo {
        Conninfo {
            takes_no_options: true,
            ..self.clone()
        }
    }

    /// What may be printed, logged or stored: a connection string without any
    /// password, that names the servers, the user, the database and the TLS mode.
    pub fn redacted(&self) -> String {
        let list = |part: &dyn Fn(&Host) -> String| {
            self.hosts.iter().map(part).collect::<Vec<_>>().join(",")
        };
        let mut text = format!(
            "host={} port={} user={} dbname={}",
            quote(&list(&|host| match &host.place {
                Place::Socket(name) | Place::Name(name) => name.clone(),
                Place::Address(address, name) =>
                    name.clone().unwrap_or_else(|| address.to_string()),
            })),
            list(&|host| host.port.to_string()),
            quote(&self.user),
            quote(&self.dbname),
        );
        if self
            .hosts
            .iter()
            .any(|host| !matches!(host.place, Place::Socket(_)))
        {
            text += match self.tls.mode {
                SslMode::Disable => " sslmode=disable",
                SslMode::Allow => " sslmode=allow",
                SslMode::Prefer => " sslmode=prefer",
                SslMode::Require => " sslmode=require",
                SslMode::VerifyCa => " sslmode=verify-ca",
                SslMode::VerifyFull => " sslmode=verify-full",
            };
        }
        text
    }

    /// What another machine needs to reach the same server as the same user, which has passwords,
    /// certificates and keys of its own: a connection string without any of them.
    pub fn without_secrets(&self) -> String {
        let mut text = self.redacted();
        let mut put = |name: &str, value: &str| {
            text += &format!(" {name}={}", quote(value));
        };
        put("application_name", &self.application_name);
        if let Some(options) = &self.options {
            put("options", options);
        }
        put("client_encoding", &self.client_encoding);
        put(
            "channel_binding",
            match self.channel_binding {
                ChannelBinding::Disable => "disable",
                ChannelBinding::Prefer => "prefer",
                ChannelBinding::Require => "require",
            },
        );
        if let Some(required) = &self.require_auth {
            put("require_auth", &required.text);
        }
        put(
            "target_session_attrs",
            match self.session_attrs {
                SessionAttrs::Any => "any",
                SessionAttrs::ReadWrite => "read-write",
                SessionAttrs::ReadOnly => "read-only",
                SessionAttrs::Primary => "primary",
                SessionAttrs::Standby => "standby",
                SessionAttrs::PreferStandby => "prefer-standby",
            },
        );
        if self.tls.root == Some(RootCert::System) {
            put("sslrootcert", "system");
        }
        if self.load_balance {
            put("load_balance_hosts", "random");
        }
        if let Some(timeout) = self.connect_timeout {
            put("connect_timeout", &timeout.as_secs().to_string());
        }
        text
    }
}

/// Quotes a value for a `key=value` string where it must be.
fn quote(value: &str) -> String {
    let plain = |c: char| !c.is_ascii_whitespace() && c != '\'' && c != '\\';
    if !value.is_empty() && value.chars().all(plain) {
        return value.to_owned();
    }
    format!("'{}'", value.replace('\\', "\\\\").replace('\'', "\\'"))
}

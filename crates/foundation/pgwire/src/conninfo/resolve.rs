//! From keyword and value pairs to a `Conninfo`: what was written, then the
//! service, then the environment, then libpq's defaults.

use super::files::{self, PasswordFile};
use super::keywords::{self, KEYWORDS, Use};
use super::surroundings::Surroundings;
use super::text::Pairs;
use super::{
    AuthMethod, ChannelBinding, Conninfo, ConninfoError, Host, Keepalives, Place, RequireAuth,
    RootCert, Secret, SessionAttrs, SslMode, TlsSettings,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// libpq's port when nothing names one.
const DEFAULT_PORT: u16 = 5432;

/// Where servers put their sockets: the distributions' directory, then
/// PostgreSQL's own default.
const SOCKET_DIRS: [&str; 2] = ["/var/run/postgresql", "/tmp"];

/// What pgassay calls itself in pg_stat_activity.
const APPLICATION_NAME: &str = "pgassay";

/// One setting and where it was written.
struct Setting {
    value: String,
    place: String,
}

/// All settings that were given in some way.
struct Settings(BTreeMap<&'static str, Setting>);

impl Settings {
    /// Adds what is not there yet; an earlier source takes precedence, within
    /// one string the later spelling does.
    fn add(&mut self, pairs: Pairs, place: &str) -> Result<(), ConninfoError> {
        let mut from_here: BTreeMap<&'static str, Setting> = BTreeMap::new();
        for (name, value) in pairs {
            let Some(keyword) = keywords::find(&name) else {
                return Err(ConninfoError::UnknownKeyword {
                    place: place.to_owned(),
                    nearest: keywords::nearest(&name),
                    keyword: name,
                });
            };
            from_here.insert(
                keyword.name,
                Setting {
                    value,
                    place: place.to_owned(),
                },
            );
        }
        for (name, setting) in from_here {
            self.0.entry(name).or_insert(setting);
        }
        Ok(())
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0
            .get(name)
            .map(|setting| setting.value.as_str())
            .filter(|value| !value.is_empty())
    }

    /// A path, and whether it was given at all.
    fn path(&self, name: &str, default: Option<PathBuf>) -> Option<(PathBuf, bool)> {
        match self.text(name) {
            Some(path) => Some((path.into(), true)),
            None => default.map(|path| (path, false)),
        }
    }

    fn invalid(&self, name: &'static str, expected: &str) -> ConninfoError {
        let (value, place) = self.0.get(name).map_or_else(Default::default, |setting| {
            (setting.value.clone(), setting.place.clone())
        });
        ConninfoError::InvalidValue {
            place,
            keyword: name,
            value,
            expected: expected.to_owned(),
        }
    }

    /// One of a list of words, or the default.
    fn choice<T: Copy>(
        &self,
        name: &'static str,
        default: T,
        choices: &[(&str, T)],
    ) -> Result<T, ConninfoError> {
        let Some(text) = self.text(name) else {
            return Ok(default);
        };
        choices
            .iter()
            .find(|(word, _)| *word == text)
            .map(|(_, value)| *value)
            .ok_or_else(|| {
                let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
                self.invalid(name, &format!("it takes {}", words.join(", ")))
            })
    }

    fn number(&self, name: &'static str) -> Result<Option<i64>, ConninfoError> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        match text.trim().parse::<i32>() {
            Ok(number) => Ok(Some(number.into())),
            Err(_) => Err(self.invalid(name, "it takes a whole number")),
        }
    }

    /// A number where zero and less mean the system's default.
    fn positive(&self, name: &'static str) -> Result<Option<u32>, ConninfoError> {
        Ok(self
            .number(name)?
            .and_then(|n| u32::try_from(n).ok())
            .filter(|n| *n > 0))
    }
}

/// Completes what was written.
pub(super) fn complete(pairs: Pairs, around: &dyn Surroundings) -> Result<Conninfo, ConninfoError> {
    let mut settings = Settings(BTreeMap::new());
    settings.add(pairs, "connection string")?;

    let service = settings
        .text("service")
        .map(str::to_owned)
        .or(around.var("PGSERVICE"));
    if let Some(service) = service {
        settings.add(
            files::service(&service, around)?,
            &format!("service \"{service}\""),
        )?;
    }
    for keyword in KEYWORDS {
        if let Some(variable) = keyword.variable
            && let Some(value) = around.var(variable)
        {
            settings.add(vec![(keyword.name.to_owned(), value)], variable)?;
        }
    }
    refuse_unsupported(&settings)?;

    let user = match settings.text("user") {
        Some(user) => user.to_owned(),
        None => around.user_name().ok_or(ConninfoError::NoUser)?,
    };
    let dbname = settings.text("dbname").unwrap_or(&user).to_owned();
    let tls = tls_settings(&settings, around)?;
    let mut warnings = Vec::new();
    let hosts = hosts(&settings, around, &user, &dbname, &mut warnings)?;

    let channel_binding = settings.choice(
        "channel_binding",
        ChannelBinding::Prefer,
        &[
            ("disable", ChannelBinding::Disable),
            ("prefer", ChannelBinding::Prefer),
            ("require", ChannelBinding::Require),
        ],
    )?;
    let session_attrs = settings.choice(
        "target_session_attrs",
        SessionAttrs::Any,
        &[
            ("any", SessionAttrs::Any),
            ("read-write", SessionAttrs::ReadWrite),
            ("read-only", SessionAttrs::ReadOnly),
            ("primary", SessionAttrs::Primary),
            ("standby", SessionAttrs::Standby),
            ("prefer-standby", SessionAttrs::PreferStandby),
        ],
    )?;
    let load_balance = settings.choice(
        "load_balance_hosts",
        false,
        &[("disable", false), ("random", true)],
    )?;
    let mut session_settings = Vec::new();
    for (name, variable) in [
        ("timezone", "PGTZ"),
        ("datestyle", "PGDATESTYLE"),
        ("geqo", "PGGEQO"),
    ] {
        session_settings.extend(around.var(variable).map(|value| (name, value)));
    }

    Ok(Conninfo {
        hosts,
        user,
        dbname,
        tls,
        channel_binding,
        require_auth: require_auth(&settings)?,
        session_attrs,
        load_balance,
        connect_timeout: settings
            .positive("connect_timeout")?
            .map(|seconds| Duration::from_secs(seconds.into())),
        application_name: settings
            .text("application_name")
            .or(settings.text("fallback_application_name"))
            .unwrap_or(APPLICATION_NAME)
            .to_owned(),
        options: settings.text("options").map(str::to_owned),
        takes_no_options: false,
        client_encoding: match settings.text("client_encoding") {
            // "auto" asks for the locale's encoding; ours is always UTF-8.
            None | Some("auto") => "UTF8".to_owned(),
            Some(other) => other.to_owned(),
        },
        session_settings,
        keepalives: Keepalives {
            on: settings.number("keepalives")? != Some(0),
            idle_s: settings.positive("keepalives_idle")?,
            interval_s: settings.positive("keepalives_interval")?,
            count: settings.positive("keepalives_count")?,
        },
        tcp_user_timeout: settings
            .positive("tcp_user_timeout")?
            .map(|milliseconds| Duration::from_millis(milliseconds.into())),
        warnings,
    })
}

/// A `Conninfo` of which all is known.
pub(super) fn bare(host: Host, user: &str, dbname: &str) -> Conninfo {
    Conninfo {
        hosts: vec![host],
        user: user.to_owned(),
        dbname: dbname.to_owned(),
        tls: TlsSettings {
            mode: SslMode::Disable,
            direct: false,
            root: None,
            crl: None,
            certificate: None,
            key: None,
            sni: true,
            min_version: 12,
            max_version: 13,
        },
        channel_binding: ChannelBinding::Prefer,
        require_auth: None,
        session_attrs: SessionAttrs::Any,
        load_balance: false,
        connect_timeout: None,
        application_name: APPLICATION_NAME.to_owned(),
        options: None,
        takes_no_options: false,
        client_encoding: "UTF8".to_owned(),
        session_settings: Vec::new(),
        keepalives: Keepalives {
            on: true,
            idle_s: None,
            interval_s: None,
            count: None,
        },
        tcp_user_timeout: None,
        warnings: Vec::new(),
    }
}

/// Refuses what must not be ignored. The value of a secret is not shown.
fn refuse_unsupported(settings: &Settings) -> Result<(), ConninfoError> {
    for keyword in KEYWORDS {
        if let Use::RefusedUnless(harmless) = keyword.role
            && let Some(value) = settings.text(keyword.name)
            && !harmless.contains(&value)
        {
            let place = settings
                .0
                .get(keyword.name)
                .map_or("", |setting| &setting.place);
            let remedy = if keyword.name == "sslpassword" {
                "give a key without a passphrase (openssl pkey -in KEY -out PLAIN)".to_owned()
            } else if harmless.is_empty() {
                "remove it".to_owned()
            } else {
                format!("remove it or set it to {}", harmless.join(" or "))
            };
            return Err(ConninfoError::Unsupported {
                place: place.to_owned(),
                keyword: keyword.name,
                remedy,
            });
        }
    }
    Ok(())
}

fn tls_settings(
    settings: &Settings,
    around: &dyn Surroundings,
) -> Result<TlsSettings, ConninfoError> {
    let in_home = |name: &str| {
        around
            .home()
            .map(|home| home.join(".postgresql").join(name))
    };
    let mut mode = settings.choice(
        "sslmode",
        SslMode::Prefer,
        &[
            ("disable", SslMode::Disable),
            ("allow", SslMode::Allow),
            ("prefer", SslMode::Prefer),
            ("require", SslMode::Require),
            ("verify-ca", SslMode::VerifyCa),
            ("verify-full", SslMode::VerifyFull),
        ],
    )?;
    let root = match settings.text("sslrootcert") {
        Some("system") => {
            // Any certificate of a public authority would do for a weaker mode,
            // so libpq raises the default and refuses the rest.
            if settings.text("sslmode").is_none() {
                mode = SslMode::VerifyFull;
            } else if mode != SslMode::VerifyFull {
                return Err(settings.invalid(
                    "sslmode",
                    "with sslrootcert=system only verify-full is safe",
                ));
            }
            Some(RootCert::System)
        }
        Some(path) => Some(RootCert::File {
            path: path.into(),
            given: true,
        }),
        None => in_home("root.crt").map(|path| RootCert::File { path, given: false }),
    };
    let direct = settings.choice(
        "sslnegotiation",
        false,
        &[("postgres", false), ("direct", true)],
    )?;
    if direct && matches!(mode, SslMode::Disable | SslMode::Allow | SslMode::Prefer) {
        return Err(settings.invalid(
            "sslnegotiation",
            "direct needs an sslmode of require, verify-ca or verify-full",
        ));
    }
    let version = |name, default| {
        let versions = [
            ("TLSv1", 12),
            ("TLSv1.1", 12),
            ("TLSv1.2", 12),
            ("TLSv1.3", 13),
        ];
        settings.choice(name, default, &versions)
    };
    let (min_version, max_version) = (
        version("ssl_min_protocol_version", 12)?,
        version("ssl_max_protocol_version", 13)?,
    );
    if min_version > max_version {
        return Err(settings.invalid(
            "ssl_min_protocol_version",
            "it is above ssl_max_protocol_version",
        ));
    }
    if matches!(
        settings.text("ssl_max_protocol_version"),
        Some("TLSv1" | "TLSv1.1")
    ) {
        return Err(settings.invalid(
            "ssl_max_protocol_version",
            "pgassay speaks TLS 1.2 and 1.3 only",
        ));
    }
    let certificate = if settings.text("sslcertmode") == Some("disable") {
        None
    } else {
        settings.path("sslcert", in_home("postgresql.crt"))
    };
    Ok(TlsSettings {
        mode,
        direct,
        root,
        crl: settings.path("sslcrl", in_home("root.crl")),
        certificate,
        key: settings
            .path("sslkey", in_home("postgresql.key"))
            .map(|(path, _)| path),
        sni: settings.number("sslsni")? != Some(0),
        min_version,
        max_version,
    })
}

/// Brings host, hostaddr and port lists together and finds each a password.
fn hosts(
    settings: &Settings,
    around: &dyn Surroundings,
    user: &str,
    dbname: &str,
    warnings: &mut Vec<String>,
) -> Result<Vec<Host>, ConninfoError> {
    let list = |name: &str| -> Vec<&str> {
        settings
            .text(name)
            .map_or_else(Vec::new, |text| text.split(',').map(str::trim).collect())
    };
    let (names, addresses, ports) = (list("host"), list("hostaddr"), list("port"));
    if !names.is_empty() && !addresses.is_empty() && names.len() != addresses.len() {
        return Err(ConninfoError::Mismatch(format!(
            "{} host names but {} hostaddr values are given; give as many of each",
            names.len(),
            addresses.len()
        )));
    }
    let count = names.len().max(addresses.len()).max(1);
    if ports.len() > 1 && ports.len() != count {
        return Err(ConninfoError::Mismatch(format!(
            "{} ports are given for {count} hosts; give one port for all or one for each",
            ports.len()
        )));
    }

    let password = settings.text("password");
    let mut from_file = None;
    let mut hosts = Vec::with_capacity(count);
    for i in 0..count {
        let port = port(
            settings,
            ports.get(i).or(ports.last().filter(|_| ports.len() == 1)),
        )?;
        let name = names.get(i).copied().unwrap_or("");
        let place = match addresses.get(i).copied().unwrap_or("") {
            "" if name.is_empty() => Place::Socket(default_socket_dir(port, around)),
            "" if name.starts_with(['/', '@']) => Place::Socket(name.to_owned()),
            "" => Place::Name(name.to_owned()),
            address => Place::Address(
                address.parse().map_err(|_| {
                    settings.invalid("hostaddr", "it takes numeric addresses, host takes names")
                })?,
                (!name.is_empty() && !name.starts_with('/')).then(|| name.to_owned()),
            ),
        };
        let password = match password {
            Some(password) => Some(Secret::new(password)),
            None => {
                let file = from_file.get_or_insert_with(|| {
                    PasswordFile::read(settings.text("passfile"), around, warnings)
                });
                let key = match &place {
                    Place::Socket(dir) if SOCKET_DIRS.contains(&dir.as_str()) => "localhost".into(),
                    Place::Socket(name) | Place::Name(name) => name.clone(),
                    Place::Address(address, name) => {
                        name.clone().unwrap_or_else(|| address.to_string())
                    }
                };
                file.lookup(&key, port, dbname, user).map(Secret::new)
            }
        };
        hosts.push(Host {
            place,
            port,
            password,
        });
    }
    Ok(hosts)
}

fn port(settings: &Settings, text: Option<&&str>) -> Result<u16, ConninfoError> {
    match text.copied().filter(|text| !text.is_empty()) {
        None => Ok(DEFAULT_PORT),
        // What is no number may be the end of a password with a "/" in it.
        Some(text) if !text.bytes().all(|byte| byte.is_ascii_digit()) => {
            Err(ConninfoError::Mismatch(
                "the port is not a number from 1 to 65535 (in a URI, write a \"/\" in the password \
                 as %2F)"
                    .to_owned(),
            ))
        }
        Some(text) => text.parse().ok().filter(|port| *port > 0).ok_or_else(|| {
            settings.invalid("port", "ports are numbers from 1 to 65535, separated by commas")
        }),
    }
}

/// The directory in which a server's socket with that port lies, else the
/// first one that exists.
fn default_socket_dir(port: u16, around: &dyn Surroundings) -> String {
    let socket = format!(".s.PGSQL.{port}");
    let holds_it = |dir: &&&str| around.exists(&Path::new(dir).join(&socket));
    let is_there = |dir: &&&str| around.exists(Path::new(dir));
    let dir = SOCKET_DIRS
        .iter()
        .find(holds_it)
        .or_else(|| SOCKET_DIRS.iter().find(is_there));
    dir.copied().unwrap_or(SOCKET_DIRS[1]).to_owned()
}

/// `require_auth`: a comma-separated list, all with `!` or none.
fn require_auth(settings: &Settings) -> Result<Option<RequireAuth>, ConninfoError> {
    let Some(text) = settings.text("require_auth") else {
        return Ok(None);
    };
    let mut methods = Vec::new();
    let mut negated = None;
    for word in text.split(',').map(str::trim) {
        let (not, word) = match word.strip_prefix('!') {
            Some(word) => (true, word),
            None => (false, word),
        };
        if *negated.get_or_insert(not) != not {
            return Err(settings.invalid("require_auth", "either all methods have a ! or none"));
        }
        let method = match word {
            "password" => AuthMethod::Password,
            "md5" => AuthMethod::Md5,
            "scram-sha-256" => AuthMethod::Scram,
            "none" => AuthMethod::None,
            "gss" | "sspi" | "oauth" => AuthMethod::Other,
            _ => {
                return Err(settings.invalid(
                    "require_auth",
                    "it takes a list of password, md5, scram-sha-256, none, gss, sspi, oauth",
                ));
            }
        };
        methods.push(method);
    }
    let negated = negated.unwrap_or(false);
    Ok(Some(RequireAuth {
        methods,
        negated,
        text: text.to_owned(),
    }))
}

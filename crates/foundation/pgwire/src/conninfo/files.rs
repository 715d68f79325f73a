//! The two files that libpq reads: the service file and the password file.

use super::surroundings::Surroundings;
use super::text::Pairs;
use super::{ConninfoError, keywords};
use std::io;
use std::path::{Path, PathBuf};

/// Where the distributions keep the service file that is for all users, tried
/// where PGSYSCONFDIR names no directory: Debian's, then PGDG's RPMs'.
const SYSTEM_CONFIG_DIRS: &[&str] = &["/etc/postgresql-common", "/etc/sysconfig/pgsql"];

/// The settings of a service: from PGSERVICEFILE or else
/// `~/.pg_service.conf`, then from the system's file.
pub(super) fn service(name: &str, around: &dyn Surroundings) -> Result<Pairs, ConninfoError> {
    let mut places: Vec<PathBuf> = Vec::new();
    match around.var("PGSERVICEFILE") {
        Some(path) => places.push(path.into()),
        None => places.extend(around.home().map(|home| home.join(".pg_service.conf"))),
    }
    match around.var("PGSYSCONFDIR") {
        Some(directory) => places.push(Path::new(&directory).join("pg_service.conf")),
        None => places.extend(
            SYSTEM_CONFIG_DIRS
                .iter()
                .map(|dir| Path::new(dir).join("pg_service.conf")),
        ),
    }
    for place in &places {
        match around.read(place) {
            Ok(file) => {
                if let Some(pairs) = section(name, &file.text, place)? {
                    return Ok(pairs);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(ConninfoError::Service(format!(
                    "can't read the service file {}: {error}",
                    place.display()
                )));
            }
        }
    }
    let looked: Vec<String> = places
        .iter()
        .map(|place| place.display().to_string())
        .collect();
    Err(ConninfoError::Service(format!(
        "there is no service \"{name}\"; looked for a section [{name}] in {}",
        looked.join(", ")
    )))
}

/// The first section of that name, or `None`.
fn section(name: &str, text: &str, path: &Path) -> Result<Option<Pairs>, ConninfoError> {
    let mut found: Option<Pairs> = None;
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(header) = line.strip_prefix('[') {
            if found.is_some() {
                break;
            }
            if header.split(']').next() == Some(name) {
                found = Some(Pairs::new());
            }
            continue;
        }
        let Some(pairs) = &mut found else { continue };
        let place = format!("{}, line {}", path.display(), number + 1);
        if line.starts_with("ldap") {
            return Err(ConninfoError::Service(format!(
                "{place}: looking services up by LDAP is not supported; write the parameters here"
            )));
        }
        let Some((key, value)) = line.split_once('=') else {
            return Err(ConninfoError::Service(format!(
                "{place}: not of the form keyword=value"
            )));
        };
        if key == "service" {
            return Err(ConninfoError::Service(format!(
                "{place}: a service can't refer to another service"
            )));
        }
        if keywords::find(key).is_none() {
            return Err(ConninfoError::UnknownKeyword {
                place,
                keyword: key.to_owned(),
                nearest: keywords::nearest(key),
            });
        }
        pairs.push((key.to_owned(), value.to_owned()));
    }
    Ok(found)
}

/// The lines of a password file, or nothing with a reason where it must not be
/// used. A file that is not there is no reason for a warning.
pub(super) struct PasswordFile {
    lines: Vec<[String; 5]>,
}

impl PasswordFile {
    /// Reads the file that is named, or `~/.pgpass`.
    pub fn read(
        named: Option<&str>,
        around: &dyn Surroundings,
        warnings: &mut Vec<String>,
    ) -> PasswordFile {
        let mut lines = Vec::new();
        let path = named
            .map(PathBuf::from)
            .or_else(|| Some(around.home()?.join(".pgpass")));
        if let Some(path) = path
            && let Ok(file) = around.read(&path)
        {
            if !file.is_file {
                warnings.push(format!(
                    "the password file {} is not used: it is not a plain file",
                    path.display()
                ));
            } else if file.mode & 0o077 != 0 {
                warnings.push(format!(
                    "the password file {} is not used: others than its owner may access it; \
                     chmod 600 makes it usable",
                    path.display()
                ));
            } else {
                lines = file.text.lines().filter_map(fields).collect();
            }
        }
        PasswordFile { lines }
    }

    /// The password of the first line that fits. `host` is "localhost" for the
    /// default socket directory, as libpq writes it.
    pub fn lookup(&self, host: &str, port: u16, dbname: &str, user: &str) -> Option<String> {
        let wanted = [host, &port.to_string(), dbname, user].map(str::to_owned);
        self.lines
            .iter()
            .find(|line| {
                line.iter()
                    .zip(&wanted)
                    .all(|(given, want)| given == "*" || unescape(given) == *want)
            })
            .map(|line| unescape(&line[4]))
    }
}

/// The five fields of a line; escapes are kept so that `\*` is no wildcard.
fn fields(line: &str) -> Option<[String; 5]> {
    if line.starts_with('#') {
        return None;
    }
    let mut fields: [String; 5] = Default::default();
    let mut at = 0;
    let mut letters = line.trim_end_matches(['\r', '\n']).chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => {
                fields[at].push('\\');
                fields[at].extend(letters.next());
            }
            ':' if at < 4 => at += 1,
            ':' => break,
            other => fields[at].push(other),
        }
    }
    (at == 4).then_some(fields)
}

/// Takes the backslashes away that protect what follows them.
fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        plain.extend(if letter == '\\' {
            letters.next()
        } else {
            Some(letter)
        });
    }
    plain
}

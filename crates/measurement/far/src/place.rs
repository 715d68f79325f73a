//! Where a far side is: `ssh://[user@]host[:port]`, or `exec:COMMAND` for any command that carries
//! standard input and output there.

use std::fmt;

/// Between the command of an `exec:` place and the target there.
const BETWEEN: &str = " // ";

/// How another machine is reached.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// By OpenSSH, with the user's configuration.
    Ssh {
        /// `[user@]host`, as ssh takes it.
        destination: String,
        /// Where no other is configured, 22.
        port: Option<u16>,
    },
    /// By a command, which is given a command line to run there: `kubectl exec -i pod --`.
    Exec {
        /// The command and its arguments.
        words: Vec<String>,
    },
}

/// A place that is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadPlace(String);

impl fmt::Display for BadPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadPlace {}

impl Place {
    /// Whether a text begins as a place does.
    pub fn is_meant(text: &str) -> bool {
        text.starts_with("ssh://") || text.starts_with("exec:")
    }

    /// A place alone.
    ///
    /// # Errors
    /// Why it is none.
    pub fn parse(text: &str) -> Result<Self, BadPlace> {
        match Self::of_target(text)? {
            (place, target) if target.is_empty() => Ok(place),
            (place, target) => Err(BadPlace(format!(
                "a machine is wanted here, without a target: {place}, not {target} on it"
            ))),
        }
    }

    /// A place and the target there, which may be empty: `ssh://db1/temp:18`,
    /// `ssh://db1//opt/pgsql`, `exec:docker exec -i c // temp`. A target that begins with `?` is a running
    /// server's: `ssh://db1/?dbname=app`.
    ///
    /// # Errors
    /// Why there is no such place.
    pub fn of_target(text: &str) -> Result<(Self, String), BadPlace> {
        let (place, target) = if let Some(rest) = text.strip_prefix("ssh://") {
            let (authority, target) = rest.split_once('/').unwrap_or((rest, ""));
            (ssh(authority)?, target)
        } else if let Some(rest) = text.strip_prefix("exec:") {
            let (words, target) = split(rest, true)?;
            if words.is_empty() {
                return Err(BadPlace(
                    "exec: names no command; exec:docker exec -i NAME does".to_owned(),
                ));
            }
            (Self::Exec { words }, target.unwrap_or_default())
        } else {
            return Err(BadPlace(format!(
                "'{text}' is no other machine: ssh://[user@]host[:port] and exec:COMMAND are"
            )));
        };
        let target = target.trim();
        Ok(match target.starts_with('?') {
            true => (place, format!("postgresql:///{target}")),
            false => (place, target.to_owned()),
        })
    }

    /// A target there, as it is typed here.
    pub fn with_target(&self, target: &str) -> String {
        let target = match target.strip_prefix("postgresql:///") {
            Some(rest) if rest.starts_with('?') => rest,
            _ => target,
        };
        match self {
            Self::Ssh { .. } => format!("{self}/{target}"),
            Self::Exec { .. } => format!("{self}{BETWEEN}{target}"),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ssh { destination, port } => {
                let (user, host) = match destination.rsplit_once('@') {
                    Some((user, host)) => (format!("{user}@"), host),
                    None => (String::new(), destination.as_str()),
                };
                match host.contains(':') {
                    true => write!(f, "ssh://{user}[{host}]")?,
                    false => write!(f, "ssh://{user}{host}")?,
                }
                match port {
                    Some(port) => write!(f, ":{port}"),
                    None => Ok(()),
                }
            }
            Self::Exec { words } => {
                let quoted: Vec<_> = words.iter().map(|word| quoted(word)).collect();
                write!(f, "exec:{}", quoted.join(" "))
            }
        }
    }
}

fn ssh(authority: &str) -> Result<Place, BadPlace> {
    let bad = |why: &str| {
        let form = "ssh://[user@]host[:port]/TARGET";
        Err(BadPlace(format!("{why}: {form}")))
    };
    let (user, rest) = match authority.rsplit_once('@') {
        Some((user, rest)) => (Some(user), rest),
        None => (None, authority),
    };
    if user.is_some_and(|user| user.contains(':')) {
        return bad("a password has no place here; keys and passwords are ssh's own business");
    }
    let (host, port) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, "")) => (host, None),
        Some((host, port)) => (host, Some(port.strip_prefix(':').unwrap_or(port))),
        None => match rest.rsplit_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (rest, None),
        },
    };
    let port = match port.map(str::parse) {
        Some(Ok(port)) => Some(port),
        Some(Err(_)) => return bad("the port is no number from 1 to 65535"),
        None => None,
    };
    let plain = |text: &str| {
        let kept = |c: char| c.is_ascii_alphanumeric() || "-_.:%\\".contains(c) || !c.is_ascii();
        !text.is_empty() && !text.starts_with('-') && text.chars().all(kept)
    };
    if !plain(host) || user.is_some_and(|user| !plain(user)) {
        return bad("that names no host");
    }
    let destination = match user {
        Some(user) => format!("{user}@{host}"),
        None => host.to_owned(),
    };
    Ok(Place::Ssh { destination, port })
}

/// The words of a command, with quotes and backslashes as in a shell; nothing is expanded.
///
/// # Errors
/// Where a quote is not closed.
pub fn words(text: &str) -> Result<Vec<String>, BadPlace> {
    split(text, false).map(|(words, _)| words)
}

/// The words of a command, if `marked` those before the first mark that stands outside of quotes, and what is
/// behind it.
fn split(text: &str, marked: bool) -> Result<(Vec<String>, Option<&str>), BadPlace> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => word
                .get_or_insert_default()
                .extend(chars.next().map(|(_, c)| c)),
            (None, c) if c.is_whitespace() => {
                words.extend(word.take());
                if let Some(behind) = behind_mark(&text[at..]).filter(|_| marked) {
                    return Ok((words, Some(behind)));
                }
            }
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return Err(BadPlace(format!("a quote is not closed in: {text}")));
    }
    words.extend(word);
    Ok((words, None))
}

/// What stands behind the mark, if a text begins with it; the text may end with it, too.
fn behind_mark(text: &str) -> Option<&str> {
    match text.strip_prefix(BETWEEN) {
        None if text == BETWEEN.trim_end() => Some(""),
        behind => behind,
    }
}

/// A word that a POSIX shell, and [`words`], read back.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+./:,@%".contains(c);
    // The mark before a target is no word of a command.
    match !word.is_empty() && word != BETWEEN.trim() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_and_the_target_there_are_told_apart() {
        let ssh = |destination: &str, port| Place::Ssh {
            destination: destination.into(),
            port,
        };
        let cases = [
            ("ssh://db1", ssh("db1", None), ""),
            ("ssh://db1/", ssh("db1", None), ""),
            ("ssh://db1/temp:18", ssh("db1", None), "temp:18"),
            (
                "ssh://me@db1:2222/build:x",
                ssh("me@db1", Some(2222)),
                "build:x",
            ),
            ("ssh://db1//opt/pgsql", ssh("db1", None), "/opt/pgsql"),
            (
                "ssh://[fe80::1%eth0]:22/temp",
                ssh("fe80::1%eth0", Some(22)),
                "temp",
            ),
            (
                "ssh://db1/?dbname=app",
                ssh("db1", None),
                "postgresql:///?dbname=app",
            ),
        ];
        for (text, place, target) in cases {
            let (found, there) = Place::of_target(text).unwrap();
            assert_eq!((&found, there.as_str()), (&place, target), "{text}");
            let again = Place::of_target(&found.with_target(&there)).unwrap();
            assert_eq!(again, (found, there), "{text}");
        }
        for (text, words, target) in [
            (
                "exec:docker exec -i c // temp:18",
                vec!["docker", "exec", "-i", "c"],
                "temp:18",
            ),
            ("exec:srun -n1", vec!["srun", "-n1"], ""),
            ("exec:srun //", vec!["srun"], ""),
            (
                "exec:env A='b c' // host=/tmp",
                vec!["env", "A=b c"],
                "host=/tmp",
            ),
            ("exec:x '//' y // temp", vec!["x", "//", "y"], "temp"),
            ("exec:x 'a // b' // temp", vec!["x", "a // b"], "temp"),
            (
                "exec:x \"a' // \"// temp",
                vec!["x", "a' // //", "temp"],
                "",
            ),
            ("exec:x // postgresql://h/d", vec!["x"], "postgresql://h/d"),
        ] {
            let (found, there) = Place::of_target(text).unwrap();
            let words: Vec<String> = words.into_iter().map(Into::into).collect();
            assert_eq!(found, Place::Exec { words }, "{text}");
            assert_eq!(there, target, "{text}");
            let again = Place::of_target(&found.with_target(&there)).unwrap();
            assert_eq!(again, (found, there), "{text}");
        }
        assert!(Place::parse("ssh://c1").is_ok() && Place::parse("ssh://c1/temp").is_err());
    }

    #[test]
    fn what_is_no_place_is_refused() {
        for text in [
            "ssh://",
            "ssh:///temp",
            "ssh://-oProxyCommand=x/temp",
            "ssh://-l@db1",
            "ssh://u:geheim@db1/temp",
            "ssh://db1:x/temp",
            "ssh://a b/temp",
            "exec:",
            "exec: // temp",
            "exec:docker 'exec",
            "temp",
        ] {
            assert!(Place::of_target(text).is_err(), "{text}");
        }
    }
}

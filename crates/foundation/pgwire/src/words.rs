//! What libpq's programs say of a server's errors and of connections that fail: scripts read it.

use super::error::{ConnectError, ServerError};

/// An error or a notice of a server.
#[derive(Clone, Copy, Debug, Default)]
pub struct Saying<'a> {
    /// ERROR, WARNING and the like, as the server calls it.
    pub severity: &'a str,
    /// The primary message.
    pub message: &'a str,
    /// The statement that it is about, and where in it, in characters from 1.
    pub place: Option<(&'a str, usize)>,
    /// More about it.
    pub detail: Option<&'a str>,
    /// What can be done.
    pub hint: Option<&'a str>,
    /// A statement that the server ran by itself.
    pub query: Option<&'a str>,
    /// The functions and statements in which it happened.
    pub context: Option<&'a str>,
}

impl Saying<'_> {
    /// The lines in which libpq shows it, without a break after the last.
    pub fn lines(&self) -> String {
        let mut lines = format!("{}:  {}", self.severity, self.message);
        if let Some((statement, position)) = self.place {
            lines += &pointed_at(statement, position);
        }
        for (label, text) in [
            ("DETAIL", self.detail),
            ("HINT", self.hint),
            ("QUERY", self.query),
            ("CONTEXT", self.context),
        ] {
            if let Some(text) = text {
                lines += &format!("\n{label}:  {text}");
            }
        }
        lines
    }
}

impl ServerError {
    /// The lines in which libpq shows it; `statement` is what was sent, where it is known.
    pub fn in_libpqs_words(&self, statement: Option<&str>) -> String {
        Saying {
            severity: &self.severity,
            message: &self.message,
            place: statement.zip(self.position.map(|p| p as usize)),
            detail: self.detail.as_deref(),
            hint: self.hint.as_deref(),
            query: None,
            context: self.context.as_deref(),
        }
        .lines()
    }
}

impl ConnectError {
    /// What libpq says of it, in one or more lines.
    pub fn in_libpqs_words(&self) -> String {
        use ConnectError as E;
        match self {
            E::Conninfo(error) => error.to_string(),
            E::All(errors) => {
                let each: Vec<String> = errors.iter().map(E::in_libpqs_words).collect();
                each.join("\n")
            }
            E::NotFound { server, why } if why.contains("does not resolve") => {
                let name = server
                    .split_once(" port ")
                    .map_or(server.as_str(), |(n, _)| n);
                format!(
                    "could not translate host name \"{name}\" to address: Name or service not known"
                )
            }
            E::NotFound { server, why } => {
                let what = match is_socket(server) {
                    true => "No such file or directory",
                    false => system_words(why),
                };
                unreachable(server, what)
            }
            E::Refused { server } => unreachable(server, "Connection refused"),
            E::Forbidden { server, error } => unreachable(server, system_words(&error.to_string())),
            E::Auth {
                server,
                why,
                error: None,
            } if why.contains("password") => failed(server, "fe_sendauth: no password supplied"),
            E::Auth {
                server,
                error: Some(error),
                ..
            }
            | E::NoDatabase { server, error }
            | E::TooManyConnections { server, error }
            | E::ServerStarting { server, error }
            | E::Server { server, error } => failed(server, &error.in_libpqs_words(None)),
            E::TlsRequired { server } => {
                failed(server, "server does not support SSL, but SSL was required")
            }
            E::Timeout { server, .. } => failed(server, "timeout expired"),
            E::Auth { server, why, .. } | E::Tls { server, why } | E::Protocol { server, why } => {
                failed(server, why)
            }
            E::WrongSessionAttrs { server, found, .. } => failed(server, found),
            E::Io { server, error, .. } => failed(server, system_words(&error.to_string())),
        }
    }
}

fn is_socket(server: &str) -> bool {
    server.starts_with(['/', '@'])
}

fn failed(server: &str, what: &str) -> String {
    let place = match server.rsplit_once(" port ") {
        Some((host, port)) if !is_socket(server) => match host.split_once(" (") {
            Some((name, address)) => format!("at \"{name}\" ({address}, port {port}"),
            None => format!("at \"{host}\", port {port}"),
        },
        _ => format!("on socket \"{server}\""),
    };
    format!("connection to server {place} failed: {what}")
}

fn unreachable(server: &str, what: &str) -> String {
    let question = match is_socket(server) {
        true => "Is the server running locally and accepting connections on that socket?",
        false => "Is the server running on that host and accepting TCP/IP connections?",
    };
    format!("{}\n\t{question}", failed(server, what))
}

/// The system's words for an error, without its number.
fn system_words(text: &str) -> &str {
    text.split(" (os error").next().unwrap_or(text)
}

/// How many characters of a line are shown.
const SHOWN: usize = 60;
/// How many characters are kept after the place, at least.
const AFTER: usize = 10;

/// The line of a statement in which a character is, cut to what a terminal shows, and a caret
/// below. Nothing where there is no such character.
fn pointed_at(statement: &str, position: usize) -> String {
    let characters: Vec<char> = statement.chars().collect();
    let Some(at) = position.checked_sub(1).filter(|n| *n <= characters.len()) else {
        return String::new();
    };
    let is_break = |c: &char| matches!(c, '\n' | '\r');
    let mut begin = characters[..at]
        .iter()
        .rposition(is_break)
        .map_or(0, |n| n + 1);
    let mut end = characters[at..]
        .iter()
        .position(is_break)
        .map_or(characters.len(), |n| at + n);
    let before: String = characters[..begin].iter().collect();
    // A carriage return and its line feed are one end of a line.
    let number = before.replace("\r\n", "\n").matches(['\n', '\r']).count() + 1;
    let (mut cut_before, mut cut_after) = (false, false);
    if end - begin > SHOWN {
        if at + AFTER <= begin + SHOWN {
            end = begin + SHOWN;
            cut_after = true;
        } else {
            if at + AFTER < end {
                end = at + AFTER;
                cut_after = true;
            }
            if end - begin > SHOWN {
                begin = end - SHOWN;
                cut_before = true;
            }
        }
    }
    let dots = |cut: bool| if cut { "..." } else { "" };
    let label = format!("LINE {number}: {}", dots(cut_before));
    let line: String = characters[begin..end]
        .iter()
        .map(|c| if *c == '\t' { ' ' } else { *c })
        .collect();
    let column = label.len() + at - begin;
    format!("\n{label}{line}{}\n{:column$}^", dots(cut_after), "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_connections_are_told_as_libpq_tells_them() {
        // Recorded from pgbench 15.
        let refused = ConnectError::Refused {
            server: "127.0.0.1 port 1".to_owned(),
        };
        assert_eq!(
            refused.in_libpqs_words(),
            "connection to server at \"127.0.0.1\", port 1 failed: Connection refused\n\tIs the server running on that host and accepting TCP/IP connections?"
        );
        let error = ServerError {
            severity: "FATAL".to_owned(),
            sqlstate: "3D000".to_owned(),
            message: "database \"nodb\" does not exist".to_owned(),
            ..ServerError::default()
        };
        assert_eq!(
            ConnectError::from_server("/tmp/.s.PGSQL.6544", error).in_libpqs_words(),
            "connection to server on socket \"/tmp/.s.PGSQL.6544\" failed: FATAL:  database \"nodb\" does not exist"
        );
    }

    #[test]
    fn a_place_in_a_statement_is_shown_as_libpq_shows_it() {
        // Recorded from pgbench 15.
        let long = "update pgbench_accounts set abalance = abalance + aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.bbbbbbbbbbbbbbbbbbbbbbbbbbb + :nosuch where aid = 1;";
        let many = "update pgbench_accounts\n set abalance = abalance + aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa + bbbbbbbbbbbbbbbbbbbbbbbbbbb + \n\ta.nosuch where aid = 1;";
        let position = |text: &str, part: &str| text.find(part).unwrap() + 1;
        for (statement, position, shown) in [
            ("selekt 1;", 1, "\nLINE 1: selekt 1;\n        ^"),
            (
                long,
                position(long, ":nosuch"),
                "\nLINE 1: ...aaaaaaaaaaaaaaaaaaa.bbbbbbbbbbbbbbbbbbbbbbbbbbb + :nosuch wh...\n                                                             ^",
            ),
            (
                many,
                position(many, "aaaa"),
                "\nLINE 2:  set abalance = abalance + aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...\n                                   ^",
            ),
            ("a\r\n\tb é c", 7, "\nLINE 2:  b é c\n           ^"),
            ("short", 7, ""),
            ("short", 0, ""),
        ] {
            assert_eq!(pointed_at(statement, position), shown);
        }
    }
}

//! `log_line_prefix`: what the server writes before each message of a log to stderr.
//!
//! A prefix becomes a pattern that ends at the severity, so a field may hold what its neighbours hold: blanks in an
//! application's name, or colons between all fields, as in RDS's `%t:%r:%u@%d:[%p]:`.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::clock;
use super::languages::severities;
use super::transport::{self, Inner, compiled};

/// Debian's and Ubuntu's prefix.
pub const DEBIAN: &str = "%m [%p] %q%u@%d ";
/// PostgreSQL's own since 10.
pub const OWN: &str = "%m [%p] ";

/// Prefixes that packages and providers set, the more informative first.
const KNOWN: &[&str] = &[
    DEBIAN,
    OWN,
    // Amazon RDS and Aurora
    "%t:%r:%u@%d:[%p]:",
    "%m:%r:%u@%d:[%p]:%l:%e:%s:%v:%x:%c:%q%a:",
    // Azure
    "%t-%c-",
    // Google Cloud SQL
    "%m [%p]: [%l-1] db=%d,user=%u ",
    // pgBadger's manual
    "%t [%p]: [%l-1] user=%u,db=%d,app=%a,client=%h ",
    "%t [%p]: user=%u,db=%d,app=%a,client=%h ",
    "%m [%p] %q%u@%d %a ",
    // Heroku
    "sql_error_code = %e time_ms = \"%m\" pid=\"%p\" proc_start_time=\"%s\" session_id=\"%c\" vtid=\"%v\" tid=\"%x\" \
     log_line=\"%l\" %qdatabase=\"%d\" connection_source=\"%r\" user=\"%u\" application_name=\"%a\" ",
];

/// Prefixes of entries whose time and process syslog has: none, and Heroku's.
const KNOWN_IN_SYSLOG: &[&str] = &["", "sql_error_code = %e "];

/// A time stamp with the name or the offset of its zone.
const STAMP: &str = r"[0-9]{4}-[0-9][0-9]-[0-9][0-9][ T][0-9][0-9]:[0-9][0-9]:[0-9][0-9](?:\.[0-9]+)?(?: (?:[A-Z]{2,6}|[+-][0-9][0-9](?::?[0-9][0-9])?)|[+-][0-9][0-9](?::?[0-9][0-9])?|Z)?";

/// A severity, and the two blanks that the server writes behind it.
static SEVERITY: LazyLock<Regex> = LazyLock::new(|| compiled(&format!("(?:{}) ?:  ?", *WORDS)));

/// All severities as alternatives of a pattern.
static WORDS: LazyLock<String> = LazyLock::new(|| severities().collect::<Vec<_>>().join("|"));

/// The contents by which a field of a prefix is recognised.
static FIELD: LazyLock<Regex> = LazyLock::new(|| {
    compiled(&format!(
        r"(?x)^(?: (?<m>{STAMP}) | (?<n>[0-9]{{10}}\.[0-9]{{3}}\b)
        | (?<host>(?i:client|host|remote|addr|ip|h|r)\w*)=(?:\[\w+\]|[^,;\s\]|]*)
        | (?<key>[A-Za-z_]+)=(?:\[\w+\]|[^,;:\s\]|]*) | (?<u>[\w.\[\]-]+)@(?<d>[\w.\[\]-]+)
        | \[(?<p>[0-9]+)\] | \[(?<l>[0-9]+)-(?<part>[0-9]+)\]
        | (?<c>[0-9a-f]{{8}}\.[0-9a-f]+)\b | (?<r>[0-9a-fA-F.:]*[0-9]\([0-9]+\)|\[local\])
        | (?<v>[0-9]+/[0-9]+) | (?<number>[0-9]+) | (?<word>\w+) )",
        STAMP = STAMP.replace(' ', r"\x20"),
    ))
});

/// A prefix, read.
#[derive(Debug, Clone)]
pub struct Prefix {
    text: String,
    /// Its time and process are syslog's.
    of_syslog: bool,
    /// Ends at a severity.
    pattern: Regex,
    /// Ends anywhere: for entries whose severity is in another language or lost.
    loose: Regex,
}

impl PartialEq for Prefix {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

/// What a line's prefix says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Fields<'a> {
    pub at_us: i64,
    pub session: &'a str,
    pub user: &'a str,
    pub database: &'a str,
    pub application: &'a str,
    /// What follows the prefix.
    pub rest: &'a str,
}

impl Prefix {
    /// Reads a value of `log_line_prefix`.
    ///
    /// # Errors
    /// Where it has no time, or nothing that tells sessions apart.
    pub fn read(text: &str) -> Result<Self, String> {
        let fields = pattern(text);
        let lacks = match (
            fields.contains("<time>"),
            fields.contains("<p") || fields.contains("<c"),
        ) {
            (true, true) => {
                let compile = |end: &str| Regex::new(&format!("^{fields}(?<rest>{end})"));
                // Not the whole line: a message may be long.
                let severity = format!("(?:{}) ?:", *WORDS);
                return match (compile(&severity), compile("")) {
                    (Ok(pattern), Ok(loose)) => Ok(Self {
                        text: text.to_owned(),
                        of_syslog: false,
                        pattern,
                        loose,
                    }),
                    // Only where it is too long.
                    (Err(error), _) | (_, Err(error)) => {
                        Err(format!("the prefix `{text}` can't be read: {error}"))
                    }
                };
            }
            (false, _) => "no time (%m, %t or %n)",
            (_, false) => "nothing that tells sessions apart (%p or %c)",
        };
        Err(format!("the prefix `{text}` has {lacks}"))
    }

    /// The prefix of a log by its first lines; `None` if none is found that most entries begin with.
    pub fn detect<'l>(lines: impl Iterator<Item = &'l str>) -> Option<Self> {
        let lines: Vec<&str> = lines.filter(|line| SEVERITY.is_match(line)).collect();
        let inner = |headed: bool| -> Vec<Cow<str>> {
            let lines = lines.iter().map(|line| transport::inner(line, headed));
            lines
                .map(|(Inner::Line(text) | Inner::Part(text))| text)
                .collect()
        };
        let entries = inner(false);
        let fits = |prefix: &Self| {
            entries
                .iter()
                .filter(|line| prefix.pattern.is_match(line))
                .count()
        };
        // A name that would hold a blank is two fields.
        let plain = |prefix: &Self| {
            let mut fields = entries.iter().map(|line| prefix.of(line));
            !entries.is_empty()
                && fields.all(|of| {
                    of.is_some_and(|f| !f.user.contains(' ') && !f.database.contains(' '))
                })
        };
        let known = KNOWN.iter().filter_map(|text| Self::read(text).ok());
        if let Some(of_all) =
            { known }.find(|prefix| fits(prefix) == entries.len() && plain(prefix))
        {
            return Some(of_all);
        }
        let texts = entries.iter().take(20).filter_map(|line| guess(line));
        let guessed = texts.filter_map(|text| Self::read(&text).ok());
        if let Some(best) = guessed
            .max_by_key(fits)
            .filter(|best| 2 * fits(best) > entries.len())
        {
            return Some(best);
        }
        let headed = inner(true);
        let known = KNOWN_IN_SYSLOG
            .iter()
            .filter_map(|text| Self::read_in_syslog(text).ok());
        { known }.find(|prefix| {
            let fits = headed.iter().filter(|line| prefix.pattern.is_match(line));
            2 * fits.count() > headed.len()
        })
    }

    /// Reads a value of `log_line_prefix` that may leave time and process to syslog.
    ///
    /// # Errors
    /// Where it is too long.
    pub fn read_in_syslog(text: &str) -> Result<Self, String> {
        Self::read(text).or_else(|_| {
            let headed = Self::read(&format!("%t [%p] {text}"))?;
            Ok(Self {
                text: text.to_owned(),
                of_syslog: true,
                ..headed
            })
        })
    }

    /// Whether its time and process are syslog's.
    pub(super) fn is_of_syslog(&self) -> bool {
        self.of_syslog
    }

    /// The value of `log_line_prefix`.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Reads the prefix of a line; `None` where the line does not begin with it.
    pub(super) fn of<'a>(&self, line: &'a str) -> Option<Fields<'a>> {
        let found = self
            .pattern
            .captures(line)
            .or_else(|| self.loose.captures(line))?;
        let of = |name: &str| found.name(name).map_or("", |value| value.as_str().trim());
        let session = |found: &Captures<'a>| {
            found
                .name("c")
                .or(found.name("p"))
                .map(|value| value.as_str())
        };
        Some(Fields {
            at_us: clock::micros(found.name("time")?.as_str())?,
            session: session(&found).unwrap_or_default(),
            user: of("u"),
            database: of("d"),
            application: of("a"),
            rest: &line[found.name("rest")?.start()..],
        })
    }
}

/// A prefix as a regular expression with groups `time`, `p`, `c`, `u`, `d` and `a`.
fn pattern(text: &str) -> String {
    let mut pattern = String::new();
    let (mut named, mut stops) = (Vec::new(), 0);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '%' {
            pattern += &regex::escape(c.encode_utf8(&mut [0; 4]));
            continue;
        }
        let mut padded = false;
        while chars.next_if(|c| c.is_ascii_digit() || *c == '-').is_some() {
            padded = true;
        }
        let escape = chars.next().unwrap_or('%');
        let (name, value) = match escape {
            '%' => {
                pattern.push('%');
                continue;
            }
            // Processes without a session end here.
            'q' => {
                pattern += "(?:";
                stops += 1;
                continue;
            }
            'm' | 't' => ("time", STAMP),
            'n' => ("time", r"[0-9]{9,}\.[0-9]+"),
            'p' => ("p", r"[0-9]+"),
            'c' => ("c", r"[0-9a-f]+\.[0-9a-f]+"),
            'u' => ("u", ".*?"),
            'd' => ("d", ".*?"),
            'a' => ("a", ".*?"),
            's' => ("", STAMP),
            'l' | 'x' => ("", r"[0-9]+"),
            'e' => ("", "[0-9A-Z]{5}"),
            _ => ("", ".*?"),
        };
        let blanks = if padded { " *" } else { "" };
        // A field may stand twice.
        let group = if name.is_empty() || named.contains(&name) {
            "?:".to_owned()
        } else {
            format!("?<{name}>")
        };
        named.push(name);
        pattern += &format!("{blanks}({group}{value}){blanks}");
    }
    // Lazily: what follows at once is a severity where there is one.
    pattern + &")??".repeat(stops)
}

/// The prefix that a line seems to have.
fn guess(line: &str) -> Option<String> {
    let head = &line[..SEVERITY.find(line)?.start()];
    let (mut prefix, mut rest) = (String::new(), head);
    let (mut timed, mut pid) = (false, false);
    while !rest.is_empty() {
        let Some(found) = FIELD.captures(rest) else {
            let c = rest.chars().next()?;
            prefix.push(c);
            if c == '%' {
                prefix.push(c);
            }
            rest = &rest[c.len_utf8()..];
            continue;
        };
        let has = |name: &str| found.name(name).is_some();
        if has("m") || has("n") {
            prefix += if timed {
                "%s"
            } else if has("n") {
                "%n"
            } else {
                "%m"
            };
            timed = true;
        } else if let Some(key) = found.name("key") {
            let escape = match key.as_str().to_ascii_lowercase().as_str() {
                "user" | "usr" | "u" => "%u",
                "db" | "database" | "dbname" | "d" => "%d",
                "app" | "application" | "appname" | "a" => "%a",
                "pid" | "p" => "%p",
                _ => "%r",
            };
            pid |= escape == "%p";
            prefix += &format!("{}={escape}", key.as_str());
        } else if let Some(host) = found.name("host") {
            prefix += &format!("{}=%r", host.as_str());
        } else if has("u") {
            prefix += "%u@%d";
        } else if has("p") {
            prefix += if pid { "[%l]" } else { "[%p]" };
            pid = true;
        } else if let Some(part) = found.name("part") {
            prefix += &format!("[%l-{}]", part.as_str());
        } else if has("c") {
            prefix += "%c";
        } else if has("number") {
            prefix += if pid { "%l" } else { "%p" };
            pid = true;
        } else {
            // A remote host, a transaction, a word: whatever stands there.
            prefix += "%r";
        }
        rest = &rest[found[0].len()..];
    }
    // A name of several words is one field.
    while let Some(at) = ["%a %r", "%r %r"].iter().find_map(|two| prefix.find(two)) {
        prefix.replace_range(at + 2..at + 5, "");
    }
    Some(prefix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_ends_before_what_is_not_ascii() {
        let prefix = Prefix::read(OWN).unwrap();
        for behind in ["€€€€", "é", "+01€", "\u{202e}"] {
            let line = format!("2026-11-28 03:00:00.000{behind} UTC [7] LOG:  y");
            assert!(prefix.of(&line).is_none(), "{line}");
        }
        let said = prefix.of("2026-11-28 03:00:00.000+0530 [7] LOG:  y");
        assert_eq!(said.unwrap().rest, "LOG:  y");
    }

    #[test]
    fn prefixes_of_the_wild() {
        let line = "2026-11-23 09:05:07.123 UTC [4711] app@shop LOG:  duration: 1 ms";
        let said = Prefix::read(DEBIAN)
            .unwrap()
            .of(line)
            .unwrap()
            .rest
            .to_owned();
        assert_eq!(said, "LOG:  duration: 1 ms");
        let said = Prefix::read(DEBIAN).unwrap();
        let said = said.of(line).unwrap();
        assert_eq!(
            (said.session, said.user, said.database),
            ("4711", "app", "shop")
        );
        let background = "2026-11-23 09:05:07.123 UTC [4711] LOG:  checkpoint starting: time";
        let prefix = Prefix::read(DEBIAN).unwrap();
        assert_eq!(
            prefix.of(background).unwrap().rest,
            "LOG:  checkpoint starting: time"
        );

        let badger = Prefix::read("%t [%p]: [%l-1] user=%u,db=%d,app=%a,client=%h ").unwrap();
        let line =
            "2026-11-23 09:05:07 CET [12]: [3-1] user=me,db=d b,app=psql x,client=::1 ERROR:  no";
        let said = badger.of(line).unwrap();
        assert_eq!(
            (said.session, said.user, said.database),
            ("12", "me", "d b")
        );
        assert_eq!((said.application, said.rest), ("psql x", "ERROR:  no"));

        let epoch = Prefix::read("%n %c %u ").unwrap();
        let said = epoch.of("1700000000.123 65.7 x LOG:  y").unwrap();
        assert_eq!((said.session, said.at_us), ("65.7", 1_700_000_000_123_000));
        for line in [
            "",
            "\tmore",
            "Nov 23 09:05:07 host sshd[1]: hello",
            "2026-11-23 09:05:07.123 UTC [x] LOG:  y",
        ] {
            assert!(prefix.of(line).is_none(), "{line}");
        }
        assert!(Prefix::read("%u ").is_err() && Prefix::read("%m ").is_err());

        let cloud = Prefix::read("%t:%r:%u@%d:[%p]:").unwrap();
        let line = "2026-11-23 09:05:07 UTC:10.0.0.1(53211):app@shop:[4711]:LOG:  y";
        let said = cloud.of(line).unwrap();
        assert_eq!(
            (said.user, said.database, said.session, said.rest),
            ("app", "shop", "4711", "LOG:  y")
        );
    }

    #[test]
    fn a_field_may_stand_right_before_the_severity_and_hold_blanks() {
        let azure =
            Prefix::read("%m [%p]: [%l-1] xact=%x,user=%u,db=%d,client=%h, app=%a").unwrap();
        let line = "2023-08-17 10:00:08.448 UTC [28218]: [61567-1] xact=0,user=app,db=shop,client=[local], app=[unknown]LOG:  y";
        let fields = azure.of(line).unwrap();
        assert_eq!((fields.application, fields.rest), ("[unknown]", "LOG:  y"));
        let jdbc = Prefix::read("%m [%p] %u@%d %a ").unwrap();
        let line = "2025-05-01 03:00:34.000 UTC [8] app@shop PostgreSQL JDBC Driver LOG:  y";
        let fields = jdbc.of(line).unwrap();
        assert_eq!(
            (fields.application, fields.rest),
            ("PostgreSQL JDBC Driver", "LOG:  y")
        );
        let padded = Prefix::read("%m [%6p] %-10u|%10d|").unwrap();
        let fields = padded
            .of("2025-05-01 03:00:34.000 UTC [     8] app       |      shop|LOG:  y")
            .unwrap();
        assert_eq!(
            (fields.session, fields.user, fields.database),
            ("8", "app", "shop")
        );
        // Its zone has no name here, and its session ends with a minus.
        let dashes = Prefix::read("%t-%p-").unwrap();
        assert_eq!(
            dashes
                .of("2025-05-01 03:00:34 UTC-4711-LOG:  y")
                .unwrap()
                .session,
            "4711"
        );
    }

    #[test]
    fn the_prefix_is_detected_from_the_lines() {
        let detect = |lines: &[&str]| {
            Prefix::detect(lines.iter().copied()).map(|prefix| prefix.text().to_owned())
        };
        let stamp = "2023-08-17 10:00:08.448 UTC";
        let of = |head: &str| {
            [
                format!("{stamp}{head}LOG:  a"),
                format!("{stamp}{head}LOG:  b"),
                "\tmore".to_owned(),
            ]
        };
        for (head, prefix) in [
            (" [7] app@shop ", DEBIAN),
            // Debian's is that, too, where nobody is logged in.
            (" [7] ", DEBIAN),
            (":10.0.0.7(49654):app@shop:[1371]:", "%t:%r:%u@%d:[%p]:"),
            (
                " [28218]: [61567-1] xact=0,user=app,db=shop,client=[local], app=[unknown]",
                "%m [%p]: [%l-1] xact=%r,user=%u,db=%d,client=%r, app=%a",
            ),
            (
                " [7] app@shop PostgreSQL JDBC Driver ",
                "%m [%p] %q%u@%d %a ",
            ),
            (" <7> (app) ", "%m <%p> (%r) "),
        ] {
            let lines = of(head);
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            assert_eq!(detect(&lines).as_deref(), Some(prefix), "{head}");
        }
        assert_eq!(detect(&["nothing", "of a server"]), None);
        assert_eq!(detect(&["LOG:  no time and no session"]), None);
    }
}

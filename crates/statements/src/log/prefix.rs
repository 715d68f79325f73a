//! `log_line_prefix`: what stands before each message of a log to stderr.

use super::clock;

/// Debian's and Ubuntu's prefix.
pub const DEBIAN: &str = "%m [%p] %q%u@%d ";
/// PostgreSQL's own since 10.
pub const OWN: &str = "%m [%p] ";

/// What stands in one place of the prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    /// A character that is always there.
    Text(char),
    /// `%m`, `%t` or `%n`.
    Time,
    /// `%p`, or `%c` before it counts for more.
    Pid,
    /// `%c`
    Session,
    /// `%u`
    User,
    /// `%d`
    Database,
    /// `%a`
    Application,
    /// Anything else.
    Other,
    /// `%q`: processes that are no sessions stop here.
    Stop,
}

/// A prefix, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prefix {
    pieces: Vec<Piece>,
}

/// What a line's prefix said.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Said<'a> {
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
    /// Where it has neither a time nor what tells sessions apart.
    pub fn read(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            if c != '%' {
                pieces.push(Piece::Text(c));
                continue;
            }
            // Padding, such as %-10u.
            while chars.next_if(|c| c.is_ascii_digit() || *c == '-').is_some() {}
            pieces.push(match chars.next() {
                Some('m' | 't' | 'n') => Piece::Time,
                Some('p') => Piece::Pid,
                Some('c') => Piece::Session,
                Some('u') => Piece::User,
                Some('d') => Piece::Database,
                Some('a') => Piece::Application,
                Some('q') => Piece::Stop,
                Some('%') | None => Piece::Text('%'),
                Some(_) => Piece::Other,
            });
        }
        let prefix = Self { pieces };
        let lacks = match (
            prefix.has(&Piece::Time),
            prefix.has(&Piece::Pid) || prefix.has(&Piece::Session),
        ) {
            (true, true) => return Ok(prefix),
            (false, _) => "no time (%m, %t or %n)",
            (_, false) => "nothing that tells sessions apart (%p or %c)",
        };
        Err(format!("the prefix `{text}` has {lacks}"))
    }

    fn has(&self, piece: &Piece) -> bool {
        self.pieces.contains(piece)
    }

    /// Reads the prefix of a line; none where the line does not begin with it.
    pub(super) fn of<'a>(&self, line: &'a str) -> Option<Said<'a>> {
        let mut said = Said::default();
        let mut rest = line;
        let by_id = self.has(&Piece::Session);
        for (n, piece) in self.pieces.iter().enumerate() {
            match piece {
                Piece::Text(c) => match rest.strip_prefix(*c) {
                    Some(after) => rest = after,
                    // A padded field ends with blanks.
                    None if *c == ' ' => {}
                    None => return None,
                },
                Piece::Stop => {
                    // The background's lines go on with their severity.
                    if super::stderr::severity(rest).is_some() {
                        break;
                    }
                }
                Piece::Time => {
                    let length = time_length(rest)?;
                    said.at_us = clock::micros(&rest[..length])?;
                    rest = &rest[length..];
                }
                field => {
                    let value = self.value(n, rest)?;
                    rest = &rest[value.len()..];
                    let value = value.trim();
                    match field {
                        Piece::Session => said.session = value,
                        Piece::Pid if !by_id => {
                            value.bytes().all(|b| b.is_ascii_digit()).then_some(())?;
                            said.session = value;
                        }
                        Piece::User => said.user = value,
                        Piece::Database => said.database = value,
                        Piece::Application => said.application = value,
                        _ => {}
                    }
                }
            }
        }
        said.rest = rest;
        Some(said)
    }

    /// The value at a place: up to the text that stands behind it.
    fn value<'a>(&self, at: usize, rest: &'a str) -> Option<&'a str> {
        let behind: String = self.pieces[at + 1..]
            .iter()
            .skip_while(|piece| matches!(piece, Piece::Stop))
            .map_while(|piece| match piece {
                Piece::Text(c) => Some(*c),
                _ => None,
            })
            .collect();
        let end = match behind.trim_end() {
            // Nothing but a blank, or nothing: the value has none in it.
            "" => rest.find([' ', '\t']).unwrap_or(rest.len()),
            text => rest.find(text)?,
        };
        Some(&rest[..end])
    }
}

/// Bytes of the time stamp with which a text begins, the zone's name included.
fn time_length(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let digits = |from: usize, more: &[u8]| {
        let rest = bytes.get(from..).unwrap_or_default();
        rest.iter()
            .take_while(|b| b.is_ascii_digit() || more.contains(b))
            .count()
    };
    let first = digits(0, b"-.");
    if first == 0 || !text[..first].contains('-') {
        return (first > 0).then_some(first);
    }
    // Date, blank, time, and a zone: " UTC", "+01", " +0530". All of it is ASCII.
    let mut length = first + 1 + digits(first + 1, b":.");
    let rest = text.get(length..)?;
    let zone = match rest.strip_prefix(' ') {
        Some(named) => {
            // No name of a zone has a colon; in a prefix such as `%t:%r:` one follows it.
            let word = named.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '+' | '-')));
            let word = word.unwrap_or(named.len());
            let is_zone = word >= 2 && named[..word].chars().all(|c| !c.is_ascii_lowercase());
            if is_zone { word + 1 } else { 0 }
        }
        None => rest
            .bytes()
            .take(8)
            .take_while(|b| b.is_ascii_alphanumeric() || b"+-:".contains(b))
            .count(),
    };
    length += zone;
    Some(length)
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
}

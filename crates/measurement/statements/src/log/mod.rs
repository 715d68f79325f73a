//! PostgreSQL's logs, record by record: csvlog, jsonlog, and stderr by its `log_line_prefix`.
//!
//! Lines are pushed in one at a time, so that a log of any size is read in bounded memory. A record that is
//! none, another program's line, and one that is longer than [`LONGEST`] are counted and passed over. A record
//! that may not be whole says why: [`doubt`].

pub mod clock;
mod csv;
pub mod doubt;
mod json;
mod languages;
pub mod message;
pub mod plan;
pub mod prefix;
mod stderr;
mod transport;

use doubt::Doubt;
use prefix::Prefix;

/// Longest record that is read, in bytes; a longer one is passed over.
pub const LONGEST: usize = 4 << 20;

/// A record of the log, as far as it is used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    /// When it was written, in microseconds; only differences between them are used.
    pub at_us: i64,
    /// What tells the session from others.
    pub session: String,
    /// Its user, or empty.
    pub user: String,
    /// Its database, or empty.
    pub database: String,
    /// Its `application_name`, or empty.
    pub application: String,
    /// `LOG`, `ERROR`, `FATAL` …
    pub severity: String,
    /// The message.
    pub message: String,
    /// The detail, or empty.
    pub detail: String,
    /// Why it may not be whole.
    pub doubt: Option<Doubt>,
    /// Its line breaks and indentation may not be those that were sent.
    pub reflowed: bool,
    /// Nothing marks its end: lines at its end may be missing unnoticed (stderr).
    pub open_ended: bool,
}

/// What was read, and what was not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Records of the format.
    pub records: u64,
    /// Lines or records that are none.
    pub foreign: u64,
    /// Of these, records of which a part is missing.
    pub cut: u64,
    /// Records that were too long.
    pub too_long: u64,
    /// Durations in what was not read, in microseconds.
    pub unread_us: u64,
}

/// How a log is written.
#[derive(Debug, Clone, PartialEq)]
pub enum Format {
    /// `log_destination = csvlog`
    Csv,
    /// Objects: `log_destination = jsonlog`, or a collector's; with the prefix of lines within them
    Json(Option<Prefix>),
    /// `log_destination = stderr`, with its prefix
    Stderr(Prefix),
}

/// Reads a log line by line.
pub struct Reader {
    lines: Lines,
    /// What was read so far.
    pub counts: Counts,
}

enum Lines {
    Csv(Box<csv::Lines>),
    Json(Box<json::Objects>),
    Stderr(Box<stderr::Lines>),
}

impl Reader {
    /// A reader of that format.
    pub fn new(format: &Format) -> Self {
        let lines = match format {
            Format::Csv => Lines::Csv(Box::default()),
            Format::Json(prefix) => Lines::Json(Box::new(json::Objects::new(prefix.as_ref()))),
            Format::Stderr(prefix) => Lines::Stderr(Box::new(stderr::Lines::new(prefix.clone()))),
        };
        Self {
            lines,
            counts: Counts::default(),
        }
    }

    /// Takes a line without its end; each record that ends with it goes to `found`.
    pub fn line(&mut self, line: &[u8], found: &mut dyn FnMut(Record)) {
        let counts = &mut self.counts;
        match &mut self.lines {
            Lines::Csv(lines) => lines.line(line, counts, found),
            Lines::Json(objects) => objects.line(line, counts, found),
            Lines::Stderr(lines) => lines.line(line, counts, found),
        }
    }

    /// Says that a line was too long to be read.
    pub fn too_long(&mut self) {
        self.counts.too_long += 1;
        match &mut self.lines {
            Lines::Csv(lines) => lines.forget(&mut self.counts),
            Lines::Json(objects) => objects.forget(&mut self.counts),
            // It may be a line of the statement before it.
            Lines::Stderr(lines) => lines.doubt(Doubt::LongLine),
        }
    }

    /// The file is over: what is half a record is none.
    pub fn end(&mut self, found: &mut dyn FnMut(Record)) {
        match &mut self.lines {
            Lines::Csv(lines) => lines.forget(&mut self.counts),
            Lines::Json(objects) => objects.end(&mut self.counts, found),
            Lines::Stderr(lines) => lines.end(&mut self.counts, found),
        }
    }
}

/// The format of a file by its name and its first lines, and of a log to stderr by its prefix where that is known.
///
/// # Errors
/// Where the lines begin with no prefix that is known or can be guessed.
pub fn format_of(name: &str, begin: &[u8], prefix: Option<Prefix>) -> Result<Format, Unknown> {
    let begin = String::from_utf8_lossy(begin);
    let bare = begin.trim_start_matches(['\u{feff}', ' ', '\r', '\n', '[']);
    if bare.starts_with('{') {
        return Ok(json_of(begin.as_bytes(), prefix));
    }
    if let Some(prefix) = prefix {
        return Ok(Format::Stderr(prefix));
    }
    let first: Vec<&str> = begin
        .lines()
        .next()
        .unwrap_or_default()
        .split(',')
        .collect();
    let timed = first
        .first()
        .is_some_and(|field| clock::micros(field).is_some());
    if timed && (name.ends_with(".csv") || first.len() > 10) {
        return Ok(Format::Csv);
    }
    // The last line may be cut.
    let lines = begin.lines().take(1000);
    Prefix::detect(lines).map(Format::Stderr).ok_or(Unknown)
}

/// Objects of a file, with the prefix of the lines within them: the given one, or what the first objects have.
pub fn json_of(begin: &[u8], prefix: Option<Prefix>) -> Format {
    let detect = || {
        let lines = json::lines_within(&String::from_utf8_lossy(begin));
        Prefix::detect(lines.iter().map(String::as_str))
    };
    Format::Json(prefix.or_else(detect))
}

/// Whether syslog or journald wrote a file, by its first lines.
pub fn is_syslog(begin: &[u8]) -> bool {
    let begin = String::from_utf8_lossy(begin);
    begin.lines().take(20).any(transport::is_syslog)
}

/// No log of PostgreSQL by its first lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unknown;

#[cfg(test)]
#[path = "tests/collectors.rs"]
mod collectors;
#[cfg(test)]
#[path = "tests/truncated.rs"]
mod truncated;

#[cfg(test)]
mod tests {
    use super::*;

    /// A record of csvlog.
    fn csv(second: u32, message: &str) -> String {
        format!(
            "2026-11-23 09:00:{second:02}.000 UTC,\"a\",\"b\",1,\"x\",s1,1,\"SELECT\",2026-11-23 09:00:00 UTC,3/1,0,LOG,00000,\
             \"{}\",,,,,,,,,\"app\"",
            message.replace('"', "\"\"")
        )
    }

    fn messages(reader: &mut Reader, bytes: &[u8]) -> Vec<String> {
        let mut found = Vec::new();
        for line in bytes.split(|b| *b == b'\n') {
            reader.line(line, &mut |record| found.push(record.message));
        }
        reader.end(&mut |record| found.push(record.message));
        found
    }

    #[test]
    fn a_record_that_is_cut_costs_no_other() {
        let two_lines = csv(1, "statement: SELECT \"x\",\n 'a, b'");
        let whole = csv(2, "statement: SELECT 2");
        for cut in 1..two_lines.len() {
            // Its end is lost, as after a crash, or its begin, as where a file was cut off behind the server's back.
            for part in [&two_lines[..cut], &two_lines[cut..]] {
                let text = format!("{part}\n{whole}\n{whole}");
                let mut reader = Reader::new(&Format::Csv);
                let found = messages(&mut reader, text.as_bytes());
                let last = found.iter().rev().take(2);
                assert!(
                    last.eq(["statement: SELECT 2"; 2].iter()),
                    "{cut}: {found:?}"
                );
            }
        }
    }

    #[test]
    fn a_file_that_begins_within_a_record_loses_that_one() {
        let prefix = Prefix::read(prefix::DEBIAN).unwrap();
        let text = "\tFROM t WHERE\n\ta = 1\n\
            2026-11-23 09:00:00.000 UTC [7] a@b DETAIL:  parameters: $1 = '2'\n\
            2026-11-23 09:00:01.000 UTC [7] a@b LOG:  statement: SELECT 1\r\n\
            \t  + 1\r\n\
            2026-11-23 09:00:01.000 UTC [7] a@b LOG:  statement: SELECT 0\n\
            Nov 23 09:00:01 host kernel: oom \"\n\
            2026-11-23 09:00:02.000 UTC [7] a@b STATEMENT:  SELECT 3\n\
            2026-11-23 09:00:02.000 UTC [7] a@b LOG:  statement: SELECT 2\n\
            2026-11-23 09:00:02.0";
        let mut reader = Reader::new(&Format::Stderr(prefix));
        assert_eq!(
            messages(&mut reader, text.as_bytes()),
            [
                "statement: SELECT 1\n  + 1",
                "statement: SELECT 0",
                "statement: SELECT 2"
            ]
        );
        assert_eq!((reader.counts.records, reader.counts.foreign), (3, 2));
    }

    #[test]
    fn lines_of_other_programs_are_counted() {
        let record = r#"{"timestamp":"2026-11-23 09:00:00.000 UTC","session_id":"1","error_severity":"LOG","message":"m"}"#;
        let text = format!(
            "{record}\n{{\"level\":\"info\"}}\nhello\n\n{}\n{record}",
            &record[..40]
        );
        let mut reader = Reader::new(&Format::Json(None));
        assert_eq!(messages(&mut reader, text.as_bytes()), ["m", "m"]);
        assert_eq!((reader.counts.records, reader.counts.foreign), (2, 3));
        let text = format!(
            "{}\nNov 23 host app[1]: it's 5\" wide\n{}\n",
            csv(1, "one"),
            csv(2, "two")
        );
        let mut reader = Reader::new(&Format::Csv);
        assert_eq!(messages(&mut reader, text.as_bytes()), ["one", "two"]);
        assert_eq!((reader.counts.records, reader.counts.foreign), (2, 2));
    }

    #[test]
    fn long_statements_and_bytes_of_any_encoding_are_read() {
        let long = format!("statement: SELECT '{}'", "x".repeat(1 << 20));
        let mut latin: Vec<u8> = csv(2, "statement: SELECT 'caf#'").into_bytes();
        let at = latin.iter().position(|b| *b == b'#').unwrap();
        latin[at] = 0xe9;
        let mut text = csv(1, &long).into_bytes();
        text.push(b'\n');
        text.extend(latin);
        let mut reader = Reader::new(&Format::Csv);
        let found = messages(&mut reader, &text);
        assert_eq!(found[0], long);
        assert_eq!(found[1], "statement: SELECT 'caf\u{fffd}'");
    }
}

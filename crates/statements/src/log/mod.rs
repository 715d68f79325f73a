//! PostgreSQL's logs, record by record: csvlog, jsonlog, and stderr by its `log_line_prefix`.
//!
//! Lines are pushed in one at a time, so that a log of any size is read in bounded memory. A record that is
//! none, another program's line, and one that is longer than [`LONGEST`] are counted and passed over.

pub mod clock;
mod csv;
mod json;
pub mod message;
pub mod plan;
pub mod prefix;
mod stderr;

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
}

/// What was read, and what was not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Records of the format.
    pub records: u64,
    /// Lines or records that are none.
    pub foreign: u64,
    /// Records that were too long.
    pub too_long: u64,
}

/// How a log is written.
#[derive(Debug, Clone, PartialEq)]
pub enum Format {
    /// `log_destination = csvlog`
    Csv,
    /// `log_destination = jsonlog`
    Json,
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
    Csv(csv::Lines),
    Json,
    Stderr(Box<stderr::Lines>),
}

impl Reader {
    /// A reader of that format.
    pub fn new(format: &Format) -> Self {
        let lines = match format {
            Format::Csv => Lines::Csv(csv::Lines::default()),
            Format::Json => Lines::Json,
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
            Lines::Json => json::line(line, counts, found),
            Lines::Stderr(lines) => lines.line(line, counts, found),
        }
    }

    /// Says that a line was too long to be read.
    pub fn too_long(&mut self) {
        self.counts.too_long += 1;
        self.forget();
    }

    /// The file is over: what is half a record is none.
    pub fn end(&mut self, found: &mut dyn FnMut(Record)) {
        if let Lines::Stderr(lines) = &mut self.lines {
            lines.end(&mut self.counts, found);
        }
        self.forget();
    }

    fn forget(&mut self) {
        if let Lines::Csv(lines) = &mut self.lines {
            lines.forget(&mut self.counts);
        }
    }
}

/// The format of a file by its name and its first lines; none where they are of stderr, whose prefix has to
/// be known.
pub fn format_of(name: &str, begin: &[u8]) -> Option<Format> {
    if begin.starts_with(b"{") {
        return Some(Format::Json);
    }
    let first = begin.split(|b| *b == b'\n').next().unwrap_or_default();
    let first = String::from_utf8_lossy(first);
    let fields: Vec<&str> = first.split(',').collect();
    let timed = fields
        .first()
        .is_some_and(|field| clock::micros(field).is_some());
    if timed && (name.ends_with(".csv") || fields.len() > 10) {
        return Some(Format::Csv);
    }
    None
}

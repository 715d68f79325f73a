//! csvlog: comma-separated, a record over several lines where a field has line breaks.

use super::message::duration_within;
use super::{Counts, LONGEST, Record, clock};

/// The fields that are used, by their place (manual, "Using CSV-Format Log Output"); later releases
/// added theirs at the end.
mod field {
    pub const LOG_TIME: usize = 0;
    pub const USER: usize = 1;
    pub const DATABASE: usize = 2;
    pub const SESSION_ID: usize = 5;
    pub const SEVERITY: usize = 11;
    pub const MESSAGE: usize = 13;
    pub const DETAIL: usize = 14;
    pub const APPLICATION: usize = 22;
    /// As many have all releases since 9.0.
    pub const LEAST: usize = 23;
}

/// Lines of a record that is not whole.
#[derive(Default)]
pub(super) struct Lines {
    parser: Parser,
    part: Vec<u8>,
    /// Whether a quote is open at its end.
    open: bool,
}

impl Lines {
    pub fn line(&mut self, line: &[u8], counts: &mut Counts, found: &mut dyn FnMut(Record)) {
        let quotes = line.iter().filter(|b| **b == b'"').count();
        if self.open && begins_record(line) {
            self.forget(counts);
        }
        if self.open {
            self.part.push(b'\n');
        } else {
            self.part.clear();
        }
        self.part.extend_from_slice(line);
        self.open ^= !quotes.is_multiple_of(2);
        if self.open {
            // A quote that never closes would take the rest of the file.
            if self.part.len() > LONGEST {
                counts.too_long += 1;
                self.open = false;
            }
            return;
        }
        match self.parser.record(&self.part) {
            Some(mut record) => {
                counts.records += 1;
                // The whole file may have been given other line ends.
                record.reflowed = self.part.ends_with(b"\r");
                found(record);
            }
            None => {
                counts.foreign += 1;
                counts.cut += u64::from(begins_record(&self.part));
                counts.unread_us += duration_within(&String::from_utf8_lossy(&self.part));
            }
        }
    }

    /// Gives up what is not whole.
    pub fn forget(&mut self, counts: &mut Counts) {
        counts.foreign += u64::from(self.open);
        counts.cut += u64::from(self.open);
        self.open = false;
    }
}

/// Whether a line is the first of a record: a time, and a user in quotes or none. Within a field the user's quotes
/// would be doubled.
fn begins_record(line: &[u8]) -> bool {
    let Some(comma) = line.iter().take(64).position(|b| *b == b',') else {
        return false;
    };
    let user = matches!(&line[comma + 1..], [b',', ..] | [b'"', b'"', b',', ..])
        || matches!(&line[comma + 1..], [b'"', next, ..] if *next != b'"');
    let time = std::str::from_utf8(&line[..comma]).ok();
    user && line[0].is_ascii_digit() && time.is_some_and(|time| clock::micros(time).is_some())
}

/// The library's reader, which is kept from record to record: making one takes longer than a record does.
#[derive(Default)]
struct Parser {
    reader: Option<csv::Reader<Fed>>,
    fields: csv::ByteRecord,
    /// Bytes that were given to the reader.
    given: u64,
}

/// What the reader reads: one record and the line break behind it.
#[derive(Default)]
struct Fed {
    bytes: Vec<u8>,
    at: usize,
    /// Whether more was asked for than there was.
    ended: bool,
}

impl std::io::Read for Fed {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let read = std::io::Read::read(&mut &self.bytes[self.at..], into)?;
        self.at += read;
        self.ended |= read == 0;
        Ok(read)
    }
}

impl Parser {
    /// The first record in these bytes.
    fn record(&mut self, bytes: &[u8]) -> Option<Record> {
        let reader = self.reader.get_or_insert_with(|| {
            let mut reader = csv::ReaderBuilder::new();
            let reader = reader.has_headers(false).flexible(true);
            self.given = 0;
            reader.from_reader(Fed::default())
        });
        let fed = reader.get_mut();
        fed.bytes.clear();
        fed.bytes.extend_from_slice(bytes);
        fed.bytes.push(b'\n');
        fed.at = 0;
        self.given += fed.bytes.len() as u64;
        let read = reader.read_byte_record(&mut self.fields);
        // It stands at its end, or before what is left of these bytes: the next begins anew.
        if reader.get_ref().ended || reader.position().byte() != self.given {
            self.reader = None;
        }
        match read {
            Ok(true) if self.fields.len() >= field::LEAST => of_fields(&self.fields),
            _ => None,
        }
    }
}

fn of_fields(fields: &csv::ByteRecord) -> Option<Record> {
    let text = |at: usize| {
        let bytes = fields.get(at).unwrap_or_default();
        String::from_utf8_lossy(bytes).into_owned()
    };
    Some(Record {
        at_us: clock::micros(&text(field::LOG_TIME))?,
        session: text(field::SESSION_ID),
        user: text(field::USER),
        database: text(field::DATABASE),
        application: text(field::APPLICATION),
        severity: text(field::SEVERITY),
        message: text(field::MESSAGE),
        detail: text(field::DETAIL),
        ..Record::default()
    })
}

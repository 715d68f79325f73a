//! csvlog: comma-separated, a record over several lines where a field has line breaks.

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
    part: Vec<u8>,
    /// Whether a quote is open at its end.
    open: bool,
}

impl Lines {
    pub fn line(&mut self, line: &[u8], counts: &mut Counts, found: &mut dyn FnMut(Record)) {
        let quotes = line.iter().filter(|b| **b == b'"').count();
        if self.open && quotes.is_multiple_of(2) && is_whole(line) {
            // What was before it was cut: within a field its quotes would be doubled.
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
        match record(&self.part) {
            Some(record) => {
                counts.records += 1;
                found(record);
            }
            None => counts.foreign += 1,
        }
    }

    /// Gives up what is not whole.
    pub fn forget(&mut self, counts: &mut Counts) {
        counts.foreign += u64::from(self.open);
        self.open = false;
    }
}

/// Whether a line is a record by itself.
fn is_whole(line: &[u8]) -> bool {
    line.first().is_some_and(u8::is_ascii_digit) && record(line).is_some()
}

fn record(bytes: &[u8]) -> Option<Record> {
    let mut reader = csv::ReaderBuilder::new();
    let mut reader = reader.has_headers(false).flexible(true).from_reader(bytes);
    let mut fields = csv::ByteRecord::new();
    if !reader.read_byte_record(&mut fields).ok()? || fields.len() < field::LEAST {
        return None;
    }
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
    })
}

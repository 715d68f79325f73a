//! A log to stderr: a prefix, the severity, the message.
//!
//! The server begins each further line of a message with a tab. Copies of a log may have blanks in its place, or nothing.
//! Lines with a tab or blanks continue the entry before them. What a line with neither belongs to is not known: it may
//! be another program's, and the statement before it is in doubt.

use super::doubt::{Doubt, is_collector_limit};
use super::languages;
use super::message::{duration_within, is_duration};
use super::prefix::Prefix;
use super::transport::{Inner, inner};
use super::{Counts, LONGEST, Record};

/// Blanks that stand for the server's tab.
const TAB: usize = 8;

/// The severity with which a text begins, and what follows.
pub(super) fn severity(text: &str) -> Option<(&'static str, &str)> {
    let (word, rest) = text.split_once(':')?;
    Some((
        languages::severity(word.trim())?,
        rest.trim_start_matches(' '),
    ))
}

/// Whether a line that could not be read may be the first one of an entry: what it said of a session is lost.
fn begins_entry(text: &str) -> bool {
    ["LOG:", "duration:", "statement:"]
        .iter()
        .any(|word| text.contains(word))
}

/// Lines of a record, to which more may belong.
pub(super) struct Lines {
    prefix: Prefix,
    record: Option<Record>,
    /// Further lines belong to its detail.
    in_detail: bool,
    /// They belong to something that is not kept.
    passing: bool,
    /// That is of another session.
    of_another: bool,
    /// How the lines of the record are laid out.
    layout: Layout,
}

/// How the lines of a record are laid out.
#[derive(Default)]
struct Layout {
    tabs: bool,
    blanks: bool,
    /// Empty lines without a tab since the last line: of the record only where more of it follows.
    empty: usize,
    /// The last line ended with a carriage return.
    carriage_return: bool,
}

impl Lines {
    pub fn new(prefix: Prefix) -> Self {
        Self {
            prefix,
            record: None,
            in_detail: false,
            passing: true,
            of_another: false,
            layout: Layout::default(),
        }
    }

    pub fn line(&mut self, line: &[u8], counts: &mut Counts, found: &mut dyn FnMut(Record)) {
        let whole = String::from_utf8_lossy(line);
        let text = match inner(whole.trim_end_matches('\r'), self.prefix.is_of_syslog()) {
            Inner::Line(text) => text,
            Inner::Part(more) => return self.append(&more, counts),
        };
        let text = &*text;
        if let Some(more) = text.strip_prefix('\t') {
            self.goes_on(more, true, counts);
        } else if text.trim().is_empty() {
            self.layout.empty += 1;
            return;
        } else if let Some(said) = self.prefix.of(text) {
            match severity(said.rest) {
                Some(("DETAIL", message)) => {
                    let same = self
                        .record
                        .as_mut()
                        .filter(|record| record.session == said.session);
                    self.passing = same.is_none();
                    self.of_another = same.is_none();
                    self.in_detail = true;
                    if let Some(record) = same {
                        message.clone_into(&mut record.detail);
                    }
                }
                Some((
                    "HINT" | "STATEMENT" | "CONTEXT" | "QUERY" | "LOCATION" | "BACKTRACE",
                    _,
                )) => {
                    self.passing = true;
                    let open = self.record.as_ref();
                    self.of_another = open.is_some_and(|record| record.session != said.session);
                }
                Some((severity, message)) => {
                    let record = Record {
                        at_us: said.at_us,
                        session: said.session.to_owned(),
                        user: said.user.to_owned(),
                        database: said.database.to_owned(),
                        application: said.application.to_owned(),
                        severity: severity.to_owned(),
                        message: message.to_owned(),
                        open_ended: true,
                        ..Record::default()
                    };
                    self.begin(Some(record), counts, found);
                }
                // An entry all the same: its lines are not those of the one before.
                None => {
                    // A damaged severity has its message in English.
                    let translated = |(severity, message): &(&str, &str)| {
                        severity.trim_end().chars().all(char::is_alphabetic)
                            && !message.contains("duration: ")
                            && is_duration(message)
                    };
                    let other = said.rest.split_once(':').filter(translated);
                    if let Some((severity, message)) = other {
                        let record = Record {
                            at_us: said.at_us,
                            session: said.session.to_owned(),
                            severity: severity.trim().to_owned(),
                            message: message.trim_start().to_owned(),
                            ..Record::default()
                        };
                        return self.begin(Some(record), counts, found);
                    }
                    counts.foreign += 1;
                    // A severity in another language has its colon.
                    counts.cut += u64::from(!said.rest.contains(':') || begins_entry(said.rest));
                    counts.unread_us += duration_within(said.rest);
                    self.begin(None, counts, found);
                }
            }
            self.layout.empty = 0;
        } else if text.starts_with(' ') {
            let blanks = text.bytes().take_while(|b| *b == b' ').count();
            self.goes_on(&text[blanks.min(TAB)..], false, counts);
        } else {
            counts.foreign += 1;
            counts.cut += u64::from(begins_entry(text));
            counts.unread_us += duration_within(text);
            self.doubt(Doubt::Unprefixed);
        }
        if is_collector_limit(line.len()) {
            self.doubt(Doubt::CollectorLimit);
        }
        self.layout.carriage_return = whole.ends_with('\r');
    }

    fn begin(&mut self, next: Option<Record>, counts: &mut Counts, found: &mut dyn FnMut(Record)) {
        if let Some(record) = self.record.take() {
            counts.records += 1;
            found(record);
        }
        self.passing = next.is_none();
        self.of_another = false;
        self.in_detail = false;
        self.layout = Layout::default();
        self.record = next;
    }

    /// Joins a part to the line before it.
    fn append(&mut self, more: &str, counts: &mut Counts) {
        let Some(record) = self.record.as_mut().filter(|_| !self.passing) else {
            return;
        };
        let into = if self.in_detail {
            &mut record.detail
        } else {
            &mut record.message
        };
        into.push_str(more);
        if into.len() > LONGEST {
            counts.too_long += 1;
            (self.record, self.passing) = (None, true);
        }
    }

    /// Joins a line to the entry before it.
    fn goes_on(&mut self, more: &str, tab: bool, counts: &mut Counts) {
        let layout = &mut self.layout;
        let empty = std::mem::take(&mut layout.empty);
        let Some(record) = self.record.as_mut() else {
            return;
        };
        if self.passing {
            if self.of_another {
                record.doubt.get_or_insert(Doubt::Interleaved);
            }
            return;
        }
        layout.tabs |= tab;
        layout.blanks |= !tab;
        if layout.tabs && layout.blanks {
            record.doubt.get_or_insert(Doubt::MixedIndentation);
        }
        if record.doubt.is_some() {
            return;
        }
        record.reflowed |= !tab || empty > 0 || layout.carriage_return;
        let into = if self.in_detail {
            &mut record.detail
        } else {
            &mut record.message
        };
        into.extend(std::iter::repeat_n('\n', empty + 1));
        into.push_str(more);
        if into.len() > LONGEST {
            counts.too_long += 1;
            (self.record, self.passing) = (None, true);
        }
    }

    /// Says why the record that is open may not be whole.
    pub fn doubt(&mut self, doubt: Doubt) {
        if let Some(record) = &mut self.record {
            record.doubt.get_or_insert(doubt);
        }
    }

    /// The file is over: whether more belongs to its last record is not known.
    pub fn end(&mut self, counts: &mut Counts, found: &mut dyn FnMut(Record)) {
        if let Some(record) = &mut self.record {
            record.doubt.get_or_insert(Doubt::LastOfFile);
        }
        self.begin(None, counts, found);
    }
}

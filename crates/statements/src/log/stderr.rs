//! A log to stderr: a prefix, the severity, the message; lines that go on begin with a tab.

use super::prefix::Prefix;
use super::{Counts, LONGEST, Record};

/// What a line may begin with behind its prefix.
const SEVERITIES: &[&str] = &[
    "LOG",
    "ERROR",
    "FATAL",
    "PANIC",
    "WARNING",
    "NOTICE",
    "INFO",
    "DETAIL",
    "HINT",
    "STATEMENT",
    "CONTEXT",
    "QUERY",
    "LOCATION",
    "DEBUG1",
    "DEBUG2",
    "DEBUG3",
    "DEBUG4",
    "DEBUG5",
];

/// The severity with which a text begins, and what follows.
pub(super) fn severity(text: &str) -> Option<(&'static str, &str)> {
    let (word, rest) = text.split_once(':')?;
    let known = SEVERITIES.iter().find(|known| **known == word.trim())?;
    Some((known, rest.trim_start_matches(' ')))
}

/// Lines of a record, to which more may belong.
pub(super) struct Lines {
    prefix: Prefix,
    record: Option<Record>,
    /// Lines that go on belong to its detail.
    in_detail: bool,
    /// They belong to something that is not kept.
    passing: bool,
}

impl Lines {
    pub fn new(prefix: Prefix) -> Self {
        Self {
            prefix,
            record: None,
            in_detail: false,
            passing: true,
        }
    }

    pub fn line(&mut self, line: &[u8], counts: &mut Counts, found: &mut dyn FnMut(Record)) {
        let text = String::from_utf8_lossy(line);
        let text = text.trim_end_matches('\r');
        if let Some(more) = text.strip_prefix('\t') {
            self.goes_on(more, counts);
            return;
        }
        let Some(said) = self.prefix.of(text) else {
            counts.foreign += u64::from(!text.is_empty());
            return;
        };
        let Some((severity, message)) = severity(said.rest) else {
            counts.foreign += 1;
            return;
        };
        match severity {
            "DETAIL" => {
                let same = self
                    .record
                    .as_mut()
                    .filter(|record| record.session == said.session);
                self.passing = same.is_none();
                self.in_detail = true;
                if let Some(record) = same {
                    message.clone_into(&mut record.detail);
                }
            }
            "HINT" | "STATEMENT" | "CONTEXT" | "QUERY" | "LOCATION" => self.passing = true,
            _ => {
                self.end(counts, found);
                self.passing = false;
                self.in_detail = false;
                self.record = Some(Record {
                    at_us: said.at_us,
                    session: said.session.to_owned(),
                    user: said.user.to_owned(),
                    database: said.database.to_owned(),
                    application: said.application.to_owned(),
                    severity: severity.to_owned(),
                    message: message.to_owned(),
                    detail: String::new(),
                });
            }
        }
    }

    fn goes_on(&mut self, more: &str, counts: &mut Counts) {
        let Some(record) = self.record.as_mut().filter(|_| !self.passing) else {
            return;
        };
        let into = if self.in_detail {
            &mut record.detail
        } else {
            &mut record.message
        };
        into.push('\n');
        into.push_str(more);
        if into.len() > LONGEST {
            counts.too_long += 1;
            (self.record, self.passing) = (None, true);
        }
    }

    pub fn end(&mut self, counts: &mut Counts, found: &mut dyn FnMut(Record)) {
        if let Some(record) = self.record.take() {
            counts.records += 1;
            found(record);
        }
    }
}

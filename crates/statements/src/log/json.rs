//! jsonlog: an object a line (PostgreSQL 15 and later).

use serde::Deserialize;

use super::{Counts, Record, clock};

#[derive(Deserialize)]
struct Line {
    timestamp: String,
    #[serde(default)]
    user: String,
    #[serde(default)]
    dbname: String,
    #[serde(default)]
    session_id: String,
    #[serde(default)]
    error_severity: String,
    #[serde(default)]
    message: String,
    #[serde(default)]
    detail: String,
    #[serde(default)]
    application_name: String,
}

pub(super) fn line(line: &[u8], counts: &mut Counts, found: &mut dyn FnMut(Record)) {
    let text = String::from_utf8_lossy(line);
    let read: Result<Line, _> = serde_json::from_str(&text);
    let cut = matches!(&read, Err(error) if error.is_eof() && text.starts_with('{'));
    let record = read.ok().and_then(|line| {
        Some(Record {
            at_us: clock::micros(&line.timestamp)?,
            session: line.session_id,
            user: line.user,
            database: line.dbname,
            application: line.application_name,
            severity: line.error_severity,
            message: line.message,
            detail: line.detail,
            ..Record::default()
        })
    });
    match record {
        Some(record) => {
            counts.records += 1;
            found(record);
        }
        None => {
            counts.foreign += u64::from(!text.trim().is_empty());
            counts.cut += u64::from(cut);
        }
    }
}

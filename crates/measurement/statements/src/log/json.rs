//! Logs of JSON: the server's own jsonlog, csvlog's fields as CloudNativePG writes them, and what collectors make of a
//! log to stderr, whose lines stand in a field.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::message::duration_within;
use super::prefix::Prefix;
use super::transport::with_logplex_head;
use super::{Counts, LONGEST, Record, clock, stderr};

/// A record by jsonlog's names or csvlog's.
#[derive(Deserialize)]
struct Entry {
    #[serde(alias = "log_time")]
    timestamp: String,
    #[serde(default, alias = "user_name")]
    user: String,
    #[serde(default, alias = "database_name")]
    dbname: String,
    #[serde(default)]
    session_id: String,
    error_severity: String,
    #[serde(default)]
    message: String,
    #[serde(default)]
    detail: String,
    #[serde(default)]
    application_name: String,
}

/// Fields with a line as the server wrote it: Google Cloud, journald, Docker and Kubernetes, Azure, OpenTelemetry, Loki,
/// Elastic, RDS's API, others.
const LINES: &[&str] = &[
    "textPayload",
    "MESSAGE",
    "log",
    "message",
    "msg",
    "body",
    "line",
    "original",
    "@message",
    "LogFileData",
    "text",
];
/// How deep in an object an entry may stand: `record` of CloudNativePG, `properties` of Azure.
const DEEPEST: u32 = 6;

/// Objects of a file, whatever its line breaks.
pub(super) struct Objects {
    /// Of the lines within fields.
    lines: Option<stderr::Lines>,
    /// An object that is not over.
    part: String,
    depth: u32,
    in_text: bool,
    escaped: bool,
}

impl Objects {
    pub fn new(prefix: Option<&Prefix>) -> Self {
        Self {
            lines: prefix.map(|prefix| stderr::Lines::new(prefix.clone())),
            part: String::new(),
            depth: 0,
            in_text: false,
            escaped: false,
        }
    }

    pub fn line(&mut self, line: &[u8], counts: &mut Counts, found: &mut dyn FnMut(Record)) {
        if let Some(object) = self.whole(&String::from_utf8_lossy(line), counts) {
            self.object(&object, counts, found);
        }
    }

    /// The object that is over with this line.
    fn whole(&mut self, text: &str, counts: &mut Counts) -> Option<String> {
        // A record a line: one that is cut ends with its line.
        if self.depth > 0 && text.starts_with("{\"") {
            self.forget(counts);
        }
        let mut text = text;
        if self.depth == 0 {
            // Between the objects of an array.
            text = text.trim_start_matches([' ', '\t', '\r', ',', '[', ']', '\u{feff}']);
            if !text.starts_with('{') {
                counts.foreign += u64::from(!text.is_empty());
                return None;
            }
        }
        let whole = self.scan(text);
        self.part += text;
        self.part.push('\n');
        if whole {
            let part = std::mem::take(&mut self.part);
            return Some(
                part.trim_end_matches([' ', '\t', '\r', '\n', ',', ']'])
                    .to_owned(),
            );
        }
        if self.part.len() > LONGEST {
            counts.too_long += 1;
            self.reset();
        }
        None
    }

    /// Whether the object is over at the end of a line.
    fn scan(&mut self, text: &str) -> bool {
        for b in text.bytes() {
            match b {
                _ if std::mem::take(&mut self.escaped) => {}
                b'\\' => self.escaped = self.in_text,
                b'"' => self.in_text = !self.in_text,
                b'{' if !self.in_text => self.depth += 1,
                b'}' if !self.in_text => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
        self.depth == 0 && !self.in_text
    }

    fn object(&mut self, text: &str, counts: &mut Counts, found: &mut dyn FnMut(Record)) {
        let Ok(Value::Object(object)) = serde_json::from_str(text) else {
            counts.foreign += 1;
            counts.cut += 1;
            counts.unread_us += duration_within(text);
            return;
        };
        let held = holds(object);
        counts.foreign += u64::from(held.is_empty());
        for held in held {
            match (held, &mut self.lines) {
                (Holds::Entry(record), _) => {
                    counts.records += 1;
                    found(*record);
                }
                (Holds::Lines(text), Some(lines)) => {
                    for line in text.trim_end_matches('\n').split('\n') {
                        lines.line(line.as_bytes(), counts, found);
                    }
                }
                (Holds::Lines(_), None) => counts.foreign += 1,
            }
        }
    }

    /// Gives up an object that is not whole.
    pub fn forget(&mut self, counts: &mut Counts) {
        counts.foreign += u64::from(self.depth > 0);
        counts.cut += u64::from(self.depth > 0);
        self.reset();
    }

    fn reset(&mut self) {
        self.part.clear();
        (self.depth, self.in_text, self.escaped) = (0, false, false);
    }

    pub fn end(&mut self, counts: &mut Counts, found: &mut dyn FnMut(Record)) {
        self.forget(counts);
        if let Some(lines) = &mut self.lines {
            lines.end(counts, found);
        }
    }
}

/// What an object holds.
enum Holds {
    Entry(Box<Record>),
    Lines(String),
}

/// What an object holds: entries by their names wherever they stand, else the server's lines.
fn holds(object: Map<String, Value>) -> Vec<Holds> {
    let object = Value::Object(object);
    let mut held = Vec::new();
    entries(&object, DEEPEST, &mut held);
    if held.is_empty() {
        lines(&object, DEEPEST, &mut held);
    }
    held
}

/// The objects and lists within a value.
fn within(value: &Value) -> Vec<&Value> {
    let all: Vec<&Value> = match value {
        Value::Object(object) => object.values().collect(),
        Value::Array(list) => list.iter().collect(),
        _ => Vec::new(),
    };
    let nested = all
        .into_iter()
        .filter(|inner| inner.is_object() || inner.is_array());
    nested.collect()
}

fn entries(value: &Value, depth: u32, held: &mut Vec<Holds>) {
    if value.get("error_severity").is_some() {
        let entry = Entry::deserialize(value).ok().and_then(record);
        held.extend(entry.map(|record| Holds::Entry(Box::new(record))));
        return;
    }
    for inner in within(value).into_iter().filter(|_| depth > 0) {
        entries(inner, depth - 1, held);
    }
}

fn lines(value: &Value, depth: u32, held: &mut Vec<Holds>) {
    if let Some(text) = LINES.iter().find_map(|name| value.get(name)?.as_str()) {
        let fields = value.as_object().into_iter().flat_map(Map::values);
        let fields: Vec<&str> = fields.filter_map(Value::as_str).collect();
        let time = fields.iter().find(|field| {
            field.as_bytes().get(10) == Some(&b'T') && clock::micros(field).is_some()
        });
        let process = fields.iter().find(|field| {
            let number = field.strip_prefix("postgres.");
            number.is_some_and(|number| number.bytes().all(|b| b.is_ascii_digit()))
        });
        let text = with_logplex_head(text.to_owned(), time.copied(), process.copied());
        held.push(Holds::Lines(text));
        return;
    }
    for inner in within(value).into_iter().filter(|_| depth > 0) {
        lines(inner, depth - 1, held);
    }
}

fn record(entry: Entry) -> Option<Record> {
    Some(Record {
        at_us: clock::micros(&entry.timestamp)?,
        session: entry.session_id,
        user: entry.user,
        database: entry.dbname,
        application: entry.application_name,
        severity: entry.error_severity,
        message: entry.message,
        detail: entry.detail,
        ..Record::default()
    })
}

/// The server's lines within the fields of the first objects of a file.
pub(super) fn lines_within(begin: &str) -> Vec<String> {
    let mut objects = Objects::new(None);
    let mut found = Vec::new();
    for line in begin.lines() {
        let whole = objects.whole(line, &mut Counts::default());
        let object = whole.and_then(|text| serde_json::from_str(&text).ok());
        for held in object.map(holds).unwrap_or_default() {
            if let Holds::Lines(text) = held {
                found.extend(text.split('\n').map(str::to_owned));
            }
        }
    }
    if found.is_empty() {
        // The first object goes on: what may be its lines is enough to know their prefix.
        let texts = begin.split('"').filter(|text| text.contains(":  "));
        found.extend(texts.flat_map(|text| text.split("\\n").map(str::to_owned)));
    }
    found
}

//! Sessions one by one, as they are written beside a workload file.
//!
//! The first line is a [`Header`]; each other line is a [`Line`], a transaction. The lines of a session are in its order;
//! those of different sessions stand in the order in which their transactions ended.

use serde::{Deserialize, Serialize};

use crate::sessions::Executed;
use crate::template::Seen;

/// The form of the file.
pub const SCHEMA: &str = "pgassay/sessions/1";

/// What the file is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// `pgassay/sessions/1`.
    pub schema: String,
    /// How many sessions there are.
    pub sessions: u64,
    /// How many there were at once.
    pub connections: u32,
    /// How many transactions there are.
    pub transactions: u64,
    /// From the first to the last, in microseconds.
    pub length_us: u64,
    /// The workload's scripts by name; the lines have their places here.
    pub scripts: Vec<String>,
}

/// A transaction of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// The session.
    #[serde(rename = "s")]
    pub session: u64,
    /// When it began, in microseconds from the first of all.
    #[serde(rename = "at")]
    pub at_us: u64,
    /// How long it took, in microseconds.
    #[serde(rename = "took")]
    pub took_us: u64,
    /// Its script.
    #[serde(rename = "n")]
    pub script: u32,
    /// Its values, as they stand in `\draw`.
    #[serde(rename = "p", default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
    /// Microseconds before each of its statements.
    #[serde(rename = "w", default, skip_serializing_if = "Vec::is_empty")]
    pub pauses_us: Vec<u64>,
}

/// A transaction of which it is not known yet whether its kind becomes a script, and which.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// The kind.
    pub kind: usize,
    /// When it began, by the log.
    pub at_us: i64,
    /// The rest of it; its script and its time are not those of the file.
    pub line: Line,
}

impl Waiting {
    /// What a session executed.
    pub fn of(executed: &Executed) -> Self {
        let pauses = &executed.pauses_us;
        Self {
            kind: executed.kind,
            at_us: executed.at_us,
            line: Line {
                session: executed.session,
                at_us: 0,
                took_us: executed.took_us,
                script: 0,
                values: executed.values.iter().map(Seen::written).collect(),
                pauses_us: match pauses.iter().any(|pause| *pause > 0) {
                    true => pauses.clone(),
                    false => Vec::new(),
                },
            },
        }
    }

    /// The line of the file, where the log begins at `begin_us`. A script without variables has no values.
    pub fn line(self, begin_us: i64, script: u32, has_values: bool) -> Line {
        Line {
            at_us: u64::try_from(self.at_us.saturating_sub(begin_us)).unwrap_or(0),
            script,
            values: match has_values {
                true => self.line.values,
                false => Vec::new(),
            },
            ..self.line
        }
    }
}

/// From when to when each session went: how many there were at once.
#[derive(Debug, Clone, Default)]
pub struct Spans(std::collections::HashMap<u64, (u64, u64)>);

impl Spans {
    /// Takes a line in.
    pub fn add(&mut self, line: &Line) {
        let end = line.at_us.saturating_add(line.took_us);
        let span = self.0.entry(line.session).or_insert((line.at_us, end));
        *span = (span.0.min(line.at_us), span.1.max(end));
    }

    /// How many sessions there were.
    pub fn sessions(&self) -> u64 {
        self.0.len() as u64
    }

    /// The end of the last one.
    pub fn length_us(&self) -> u64 {
        self.0.values().map(|(_, end)| *end).max().unwrap_or(0)
    }

    /// How many there were at once.
    pub fn connections(&self) -> u32 {
        let mut spans: Vec<(u64, u64)> = self.0.values().copied().collect();
        spans.sort_unstable();
        let lanes = pgassay_load::lanes(&spans);
        lanes.into_iter().max().map_or(0, |most| most as u32 + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_becomes_a_line_and_comes_back() {
        let executed = Executed {
            session: 3,
            at_us: 1_000_500,
            took_us: 40,
            kind: 9,
            values: vec![
                Seen::Null,
                Seen::Number("7".to_owned()),
                Seen::Text("it's\n".to_owned()),
            ],
            pauses_us: vec![0, 12],
        };
        let line = Waiting::of(&executed).line(1_000_000, 2, true);
        let text = serde_json::to_string(&line).unwrap();
        assert_eq!(
            text,
            r#"{"s":3,"at":500,"took":40,"n":2,"p":["NULL","7","E'it\\'s\\n'"],"w":[0,12]}"#
        );
        assert_eq!(serde_json::from_str::<Line>(&text).unwrap(), line);
        let mut spans = Spans::default();
        spans.add(&line);
        spans.add(&Line {
            session: 4,
            at_us: 539,
            ..line.clone()
        });
        assert_eq!(
            (spans.sessions(), spans.connections(), spans.length_us()),
            (2, 2, 579)
        );
    }
}

//! The lines in which engines answer: the columns, an array a row, and an end.
//!
//! `engines/query/src/main.rs` describes them; the script for DuckDB's module writes the same.

use pgassay_model::Failure;
use pgassay_records::TABLES;
use serde::Deserialize;
use serde_json::Value;

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    Text,
    Int,
    Float,
    Bool,
    /// A day as text.
    Date,
    /// Microseconds since 1970.
    Time,
}

/// A column of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Column {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: Kind,
}

/// A piece of an answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Piece {
    Columns(Vec<Column>),
    Row(Vec<Value>),
}

/// A line.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Line {
    Row(Vec<Value>),
    Begin { columns: Vec<Column> },
    Refused { error: String, kind: String },
    End { rows: u64 },
}

/// An answer that comes line by line.
#[derive(Debug, Default)]
pub(super) struct Answer {
    columns: Option<usize>,
    rows: u64,
    /// Why there is none.
    pub refused: Option<Refused>,
    /// Whether all of it came.
    pub whole: bool,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refused {
    pub kind: String,
    pub why: String,
}

impl Answer {
    /// Takes a line; what is to be shown comes back.
    ///
    /// # Errors
    /// Where no engine answers so.
    pub fn take(&mut self, line: &[u8]) -> anyhow::Result<Option<Piece>> {
        let strange =
            || anyhow::anyhow!("the engine answers in a form that this pgassay does not know");
        let line: Line = serde_json::from_slice(line).map_err(|_| strange())?;
        match (line, self.columns) {
            (Line::Begin { columns }, None) => {
                self.columns = Some(columns.len());
                Ok(Some(Piece::Columns(columns)))
            }
            (Line::Row(values), Some(columns)) if values.len() == columns => {
                self.rows += 1;
                Ok(Some(Piece::Row(values)))
            }
            (Line::Refused { error, kind }, _) => {
                self.refused = Some(Refused { kind, why: error });
                Ok(None)
            }
            (Line::End { rows }, Some(_)) if rows == self.rows => {
                self.whole = true;
                Ok(None)
            }
            _ => Err(strange()),
        }
    }
}

impl Refused {
    /// The same for the user, with what to do about it.
    pub fn explained(&self, memory: u64) -> anyhow::Error {
        let why = self.why.trim();
        let failure = match self.kind.as_str() {
            "sql" => Failure::usage(why).with_remedy(
                "docs/records.md has the tables and their columns; pgassay query --list has questions",
            ),
            "table" => {
                let names: Vec<&str> = TABLES.iter().rev().map(|table| table.name).collect();
                Failure::usage(format!("there is no table {why}"))
                    .with_remedy(format!("there are {}", names.join(", ")))
            }
            "damaged" => Failure::usage(format!("cannot read {why}")).with_remedy(
                "move that file away, and export the runs of that day again",
            ),
            "none" => Failure::usage("that table has no files here")
                .with_remedy("export the runs again: pgassay export RUNS --parquet DIR"),
            "memory" => Failure::usage(format!(
                "the answer takes more memory than {} MiB",
                memory >> 20
            ))
            .with_remedy("allow more, such as --memory 8GB, or ask for less: WHERE date >= DATE '2026-01-01'"),
            _ => return anyhow::anyhow!("the engine failed: {why}"),
        };
        failure.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_answer_is_taken_whole_or_not() {
        let mut answer = Answer::default();
        let columns = answer.take(br#"{"engine":"x","columns":[{"name":"a","type":"int"}]}"#);
        let column = Column {
            name: "a".to_owned(),
            kind: Kind::Int,
        };
        assert_eq!(columns.unwrap(), Some(Piece::Columns(vec![column])));
        assert_eq!(
            answer.take(b"[1]").unwrap(),
            Some(Piece::Row(vec![json!(1)]))
        );
        assert!(!answer.whole);
        assert!(answer.take(b"[1,2]").is_err() && answer.take(b"{\"rows\":7}").is_err());
        assert!(answer.take(b"[1").is_err());
        answer.take(br#"{"rows":1}"#).unwrap();
        assert!(answer.whole && answer.refused.is_none());
    }

    #[test]
    fn rows_without_columns_are_none() {
        assert!(Answer::default().take(b"[]").is_err());
        assert!(Answer::default().take(b"{\"rows\":0}").is_err());
    }
}

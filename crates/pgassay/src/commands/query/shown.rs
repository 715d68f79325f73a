//! An answer as it is shown: columns for the terminal, comma-separated values, or JSON.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use pgassay_analysis::number::NONE;
use pgassay_model::Failure;
use pgassay_text::{cell, line};
use serde_json::Value;

use super::lines::{Column, Kind, Piece};
use crate::cli::query::AnswerFormat;
use crate::terminal::Terminal;

/// Rows that a table shows: their widths are known when all are there.
const MOST_ROWS: usize = 1_000;
/// Bytes that are printed at a time.
const BATCH: usize = 1 << 16;

/// An answer that is being shown.
pub(super) struct Shown<'a> {
    terminal: &'a mut Terminal,
    format: AnswerFormat,
    columns: Vec<Column>,
    rows: usize,
    /// Of a table.
    kept: Vec<Vec<String>>,
    text: String,
}

impl<'a> Shown<'a> {
    pub fn new(format: AnswerFormat, terminal: &'a mut Terminal) -> Self {
        Self {
            terminal,
            format,
            columns: Vec::new(),
            rows: 0,
            kept: Vec::new(),
            text: String::new(),
        }
    }

    /// Takes a piece of it.
    ///
    /// # Errors
    /// Where it can't be printed.
    pub fn take(&mut self, piece: Piece) -> anyhow::Result<()> {
        match piece {
            Piece::Columns(columns) => {
                if self.format == AnswerFormat::Json {
                    refuse_twice(&columns)?;
                }
                self.begin(columns);
            }
            Piece::Row(values) => self.row(&values),
        }
        match self.text.len() >= BATCH {
            true => self.flush(),
            false => Ok(()),
        }
    }

    fn begin(&mut self, columns: Vec<Column>) {
        match self.format {
            AnswerFormat::Table => {}
            AnswerFormat::Csv => {
                let names = columns.iter().map(|column| field(&cell(&column.name)));
                self.text += &(names.collect::<Vec<_>>().join(",") + "\n");
            }
            AnswerFormat::Json => self.text.push('['),
        }
        self.columns = columns;
    }

    fn row(&mut self, values: &[Value]) {
        let places = self.columns.iter().zip(values);
        match self.format {
            AnswerFormat::Table if self.rows < MOST_ROWS => {
                let cells = places.map(|(column, value)| line(&rounded(column.kind, value)));
                self.kept.push(cells.collect());
            }
            AnswerFormat::Table => {}
            AnswerFormat::Csv => {
                let fields = places.map(|(column, value)| match value {
                    Value::Null => String::new(),
                    Value::String(text) => field(&cell(text)),
                    value => whole(column.kind, value),
                });
                self.text += &(fields.collect::<Vec<_>>().join(",") + "\n");
            }
            AnswerFormat::Json => {
                let members = places.map(|(column, value)| {
                    let name = Value::from(column.name.as_str());
                    let value = match (column.kind, value) {
                        (Kind::Time, Value::Number(_)) => Value::from(whole(column.kind, value)),
                        (_, value) => value.clone(),
                    };
                    format!("{name}: {value}")
                });
                let members = members.collect::<Vec<_>>().join(", ");
                let before = if self.rows == 0 { "\n" } else { ",\n" };
                self.text += before;
                self.text += &pgassay_text::json(&format!("  {{{members}}}"));
            }
        }
        self.rows += 1;
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        let text = std::mem::take(&mut self.text);
        self.terminal.print(&text)
    }

    /// Shows what is left, after the last row.
    ///
    /// # Errors
    /// Where it can't be printed.
    pub fn end(mut self) -> anyhow::Result<()> {
        match self.format {
            AnswerFormat::Csv => {}
            AnswerFormat::Json => self.text += if self.rows == 0 { "]\n" } else { "\n]\n" },
            AnswerFormat::Table => {
                self.text = self.table();
                if self.rows > MOST_ROWS {
                    self.terminal.warn(&format!(
                        "the first 1,000 of {} are shown; --format csv has all",
                        pgassay_analysis::number::counted(self.rows as u64, "row")
                    ));
                }
            }
        }
        self.flush()?;
        let rows = pgassay_analysis::number::counted(self.rows as u64, "row");
        self.terminal.progress(&rows);
        Ok(())
    }

    fn table(&self) -> String {
        let mut table = Table::new();
        table
            .load_style(presets::NOTHING)
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(u16::try_from(self.terminal.width).unwrap_or(u16::MAX))
            .set_header(self.columns.iter().map(|column| line(&column.name)));
        for row in &self.kept {
            table.add_row(row);
        }
        for (column, shown) in self.columns.iter().zip(table.column_iter_mut()) {
            if matches!(column.kind, Kind::Int | Kind::Float) {
                shown.set_cell_alignment(CellAlignment::Right);
            }
        }
        let lines: Vec<String> = table
            .lines()
            .map(|line| line.trim_end().to_owned())
            .collect();
        lines.join("\n") + "\n"
    }
}

/// Refuses names that two columns have: an object can't.
fn refuse_twice(columns: &[Column]) -> Result<(), Failure> {
    let names: Vec<&str> = columns.iter().map(|c| c.name.as_str()).collect();
    let twice = (1..names.len()).find(|at| names[..*at].contains(&names[*at]));
    twice.map_or(Ok(()), |at| {
        Err(
            Failure::usage(format!("two columns are named {}", line(names[at]))).with_remedy(
                "give them names of their own: SELECT a.run AS before, b.run AS after",
            ),
        )
    })
}

/// A value in full.
fn whole(kind: Kind, value: &Value) -> String {
    let at = match kind {
        Kind::Time => value
            .as_i64()
            .and_then(|at| jiff::Timestamp::from_microsecond(at).ok()),
        _ => None,
    };
    match (at, value) {
        (Some(at), _) => at.to_string(),
        (None, Value::String(text)) => text.clone(),
        (None, value) => value.to_string(),
    }
}

/// A value to be looked at: a figure to six digits.
fn rounded(kind: Kind, value: &Value) -> String {
    match (kind, value) {
        (_, Value::Null) => NONE.to_owned(),
        (Kind::Float, value) => value
            .as_f64()
            .map_or_else(|| whole(kind, value), six_digits),
        _ => whole(kind, value),
    }
}

fn six_digits(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 {
        return "0".to_owned();
    }
    if !(1e-6..1e15).contains(&size) {
        return format!("{value:.5e}");
    }
    let decimals = (5 - size.log10().floor() as i32).clamp(0, 11);
    let text = format!("{value:.*}", decimals as usize);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// A field of comma-separated values (RFC 4180).
fn field(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_keep_six_digits() {
        for (value, text) in [
            (0.0, "0"),
            (1.0, "1"),
            (12_345.678, "12345.7"),
            (-0.051_234_567, "-0.0512346"),
            (1_234_567.8, "1234568"),
            (0.25, "0.25"),
            (1e-9, "1.00000e-9"),
        ] {
            assert_eq!(six_digits(value), text);
        }
    }

    #[test]
    fn fields_are_quoted_where_they_must() {
        assert_eq!(field("a b"), "a b");
        assert_eq!(field("a,\"b\""), "\"a,\"\"b\"\"\"");
    }
}

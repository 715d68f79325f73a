//! DuckDB: as a module of Python, by a script that answers in our lines, and as a program, by its JSON.

use std::path::Path;
use std::process::{Command, Stdio};

use pgassay_sys::stop::Stop;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::engine::{Ended, Input, Question, Show, run};
use super::lines::{Column, Kind, Piece, Refused};

/// The script.
const SCRIPT: &str = include_str!("ask_duckdb.py");
/// What is written to disk, at most so many times the memory; engines/query has the same.
const SPILLED: u64 = 8;
/// Starts a program in a directory, as paths within SQL are patterns. When our end of its standard input is closed, all
/// that it started ends, too: what pip installs as duckdb starts another program.
const PROGRAM: &str = "\
cd \"$1\" && shift || exit
exec 3<&0
{ cat <&3; kill -9 0; } >/dev/null 2>&1 &
exec 3<&-
\"$@\" </dev/null";
/// Whether the module is there. A file of that name in the working directory is none.
const IS_THERE: &str = "\
import sys
sys.path[:] = [place for place in sys.path if place]
import importlib.util
sys.exit(importlib.util.find_spec('duckdb') is None)";

/// Whether a Python has the module.
pub(super) fn is_in(python: &Path) -> bool {
    let looked = Command::new(python)
        .args(["-c", IS_THERE])
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    looked.is_ok_and(|status| status.success())
}

/// The script, for a question.
pub(super) fn script(python: &Path, question: &Question) -> Command {
    let mut command = Command::new(python);
    command
        .args(["-c", SCRIPT])
        .arg(&question.dir)
        .arg((question.memory >> 20).max(1).to_string())
        .args(&question.tables);
    command
}

/// What is said to the program before a question: the script says the same.
fn setup(question: &Question) -> String {
    let spill = question
        .spill
        .path()
        .display()
        .to_string()
        .replace('\'', "''");
    let mib = (question.memory >> 20).max(1);
    let most = mib.saturating_mul(SPILLED);
    let mut text = format!(
        "SET memory_limit = '{mib}MiB'; SET TimeZone = 'UTC'; SET temp_directory = '{spill}'; \
         SET max_temp_directory_size = '{most}MiB'; SET enable_progress_bar = false; "
    );
    for table in &question.tables {
        text += &format!(
            "CREATE VIEW {table} AS SELECT * FROM read_parquet('{table}/date=*/{table}.parquet', \
             hive_partitioning = true, hive_types = {{'date': DATE}}, union_by_name = true); "
        );
    }
    let names: Vec<String> = question
        .tables
        .iter()
        .map(|table| format!("'{table}'"))
        .collect();
    text += &format!(
        "SET allowed_directories = [{}]; SET enable_external_access = false; \
         SET lock_configuration = true; ",
        names.join(", ")
    );
    text
}

/// A column, as DESCRIBE says it.
#[derive(Deserialize)]
struct Described {
    column_name: String,
    column_type: String,
}

/// What a type of DuckDB's is.
fn kind(of: &str) -> Kind {
    let name = of.split('(').next().unwrap_or_default();
    match name {
        _ if of.ends_with("[]") => Kind::Text,
        "BOOLEAN" => Kind::Bool,
        "FLOAT" | "DOUBLE" | "DECIMAL" => Kind::Float,
        "DATE" => Kind::Date,
        name if name.starts_with("TIMESTAMP") => Kind::Time,
        name if name.ends_with("INT") || name == "INTEGER" || name == "UINTEGER" => Kind::Int,
        _ => Kind::Text,
    }
}

/// Asks the program: once for the columns, once for the rows.
///
/// # Errors
/// Where it does not answer.
pub(super) fn ask_program(
    path: &Path,
    question: &Question,
    stop: &Stop,
    show: &mut Show,
) -> anyhow::Result<()> {
    let setup = setup(question);
    let start = |mode: &str, sql: &str| {
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", PROGRAM, "sh"])
            .arg(&question.dir)
            .arg(path)
            .args([
                "-batch",
                "-bail",
                "-init",
                "/dev/null",
                mode,
                ":memory:",
                "-c",
            ])
            .arg(format!("{setup}{sql}"));
        command
    };
    let refused = |ended: &Ended| match ended.said.trim() {
        "" => ended.early().explained(question.memory),
        said => refused(said).explained(question.memory),
    };
    let mut described = Vec::new();
    let ended = run(
        start("-jsonlines", &format!("DESCRIBE {}", question.sql)),
        Input::Nothing,
        question,
        stop,
        &mut |line| {
            described.push(serde_json::from_slice::<Described>(line)?);
            Ok(())
        },
    )?;
    if !ended.status.success() || described.is_empty() {
        return Err(refused(&ended));
    }
    let columns = described.into_iter().map(|column| Column {
        kind: kind(&column.column_type),
        name: column.column_name,
    });
    let columns: Vec<Column> = columns.collect();
    show(Piece::Columns(columns.clone()))?;
    let ended = run(
        start("-jsonlines", &question.sql),
        Input::Nothing,
        question,
        stop,
        &mut |line| {
            let mut row: Map<String, Value> = serde_json::from_slice(line)?;
            let values = columns.iter().map(|column| {
                let value = row.remove(&column.name).unwrap_or_default();
                in_our_form(value, column.kind)
            });
            show(Piece::Row(values.collect()))
        },
    )?;
    match ended.status.success() {
        true => Ok(()),
        false => Err(refused(&ended)),
    }
}

/// Times are texts there, and numbers of other types than it has are, too.
fn in_our_form(value: Value, kind: Kind) -> Value {
    match (kind, value) {
        (Kind::Time, Value::String(text)) => {
            let spelt = text.replacen(' ', "T", 1);
            let zoned = match spelt.strip_suffix("+00") {
                Some(start) => format!("{start}Z"),
                None => format!("{spelt}Z"),
            };
            let at: Result<jiff::Timestamp, _> = zoned.parse();
            at.map_or(Value::String(text), |at| at.as_microsecond().into())
        }
        (Kind::Text, value @ (Value::Array(_) | Value::Object(_))) => value.to_string().into(),
        (_, value) => value,
    }
}

/// What it complains of, in our words.
pub(super) fn refused(said: &str) -> Refused {
    let text = said.trim();
    let table = text.strip_prefix("Catalog Error: Table with name ");
    let table = table.and_then(|rest| rest.split_once(" does not exist"));
    let of_sql = [
        "Parser Error",
        "Binder Error",
        "Catalog Error",
        "Conversion Error",
        "Permission Error",
    ];
    let (kind, why) = match table {
        Some((name, _)) => ("table", name),
        None if text.starts_with("Out of Memory Error") => ("memory", text),
        None if of_sql.iter().any(|begin| text.starts_with(begin)) => ("sql", text),
        None if text.contains(".parquet") => ("damaged", text),
        None if text.starts_with("INTERNAL Error") => ("fault", text),
        None => ("sql", text),
    };
    Refused {
        kind: kind.to_owned(),
        why: why.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn types_times_and_complaints_are_understood() {
        for (of, is) in [
            ("BIGINT", Kind::Int),
            ("HUGEINT", Kind::Int),
            ("INTEGER", Kind::Int),
            ("DECIMAL(18,3)", Kind::Float),
            ("DOUBLE", Kind::Float),
            ("DOUBLE[]", Kind::Text),
            ("TIMESTAMP WITH TIME ZONE", Kind::Time),
            ("TIMESTAMP_NS", Kind::Time),
            ("DATE", Kind::Date),
            ("VARCHAR", Kind::Text),
            ("BOOLEAN", Kind::Bool),
        ] {
            assert_eq!(kind(of), is, "{of}");
        }
        let second = json!(1_704_240_000_000_000_i64);
        assert_eq!(
            in_our_form(json!("2024-01-03 00:00:00+00"), Kind::Time),
            second
        );
        assert_eq!(
            in_our_form(json!("2024-01-03 00:00:00"), Kind::Time),
            second
        );
        assert_eq!(in_our_form(json!(null), Kind::Time), Value::Null);
        let table = refused("Catalog Error: Table with name nothing does not exist!\nDid you mean");
        assert_eq!(
            (table.kind.as_str(), table.why.as_str()),
            ("table", "nothing")
        );
        let file =
            refused("Invalid Input Error: No magic bytes found at end of file 'runs/x.parquet'");
        assert_eq!(file.kind, "damaged");
    }
}

//! DuckDB as a module of Python, by a script that answers in our lines.

use std::path::Path;
use std::process::{Command, Stdio};

use super::lines::Refused;
use super::question::Question;

/// The script.
const SCRIPT: &str = include_str!("ask_duckdb.py");
/// Whether the module is there. A file of that name in the working directory is none.
const IS_THERE: &str = "\
import sys
sys.path[:] = [place for place in sys.path if place]
import importlib.util
sys.exit(importlib.util.find_spec('duckdb') is None)";

/// Whether a Python has the module.
pub(super) fn is_in(python: &Path) -> bool {
    let looked = pgassay_sys::programs::command(python)
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
    let mut command = pgassay_sys::programs::command(python);
    command
        .args(["-c", SCRIPT])
        .arg(&question.dir)
        .arg((question.memory >> 20).max(1).to_string())
        .args(&question.tables);
    command
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
        None if text.contains("No files found") => ("none", text),
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

    #[test]
    fn complaints_are_understood() {
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

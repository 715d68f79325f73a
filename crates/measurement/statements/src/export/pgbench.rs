//! Scripts that pgbench itself runs.
//!
//! It has no variables of texts and no rows of values. Rows of whole numbers become `\set`s in a tree of `\if`s; where a row has
//! anything else, each of its statements stands in each branch with the values in it.

use std::fmt::Write as _;

use pgassay_load::script::{Command, Draw, Drawn, Script};

use super::{among, text};

/// The variable by which a branch is chosen.
const CHOICE: &str = "pgassay_row";

/// A script as pgbench takes it, with at most so many rows of each `\draw`.
///
/// # Errors
/// What is in it that can't be put so.
pub fn script(script: &Script, rows: usize) -> Result<String, String> {
    let mut written = String::new();
    let mut inlined: Vec<&Draw> = Vec::new();
    let mut body: Vec<(&Command, &str)> = Vec::new();
    for (command, line) in script.commands.iter().zip(&script.lines) {
        match command {
            Command::Draw(draw) if draw.in_order => {
                return Err("pgbench takes no rows in order (\\draw … in order)".to_owned());
            }
            Command::Draw(draw) if is_settable(draw, rows) => numbers(&mut written, draw, rows),
            Command::Draw(draw) => inlined.push(draw),
            Command::Sql(_) => body.push((command, line)),
            other if line.trim_end().ends_with('\\') => {
                return Err(format!("\\{} over several lines", other.name()));
            }
            other => body.push((other, line)),
        }
    }
    let count = inlined
        .iter()
        .map(|draw| draw.rows())
        .max()
        .unwrap_or(1)
        .min(rows.max(1));
    if inlined.is_empty() {
        statements(&mut written, &body, &|_| None);
        return Ok(written);
    }
    for (command, line) in &body {
        let is_sql = matches!(command, Command::Sql(_));
        if !is_sql && inlined.iter().any(|draw| takes(line, draw)) {
            let name = command.name();
            return Err(format!("\\{name} takes a value that is no whole number"));
        }
    }
    let row = |n: usize| {
        let drawn: Vec<(&Draw, &[Drawn])> = inlined
            .iter()
            .map(|draw| (*draw, draw.row(n % draw.rows())))
            .collect();
        move |slot| {
            let mut values = drawn
                .iter()
                .filter_map(|(draw, row)| among(&draw.slots, row, slot));
            values.next().map(literal)
        }
    };
    choose(&mut written, count, &|written, n| {
        statements(written, &body, &row(n))
    });
    Ok(written)
}

/// Whether pgbench writes all values as they stand here: it computes with 64 bits, and writes what it read anew.
fn is_settable(draw: &Draw, rows: usize) -> bool {
    let mut seen = (0..draw.rows().min(rows.max(1))).flat_map(|n| draw.row(n));
    let is_kept = |text: &str| text.parse::<i64>().is_ok_and(|n| n.to_string() == text);
    seen.all(|value| value.text.as_deref().is_some_and(is_kept))
}

/// Whether a line takes one of a row's variables.
fn takes(line: &str, draw: &Draw) -> bool {
    let is_of_name = |c: char| c.is_alphanumeric() || c == '_';
    draw.names.iter().any(|name| {
        line.split(':').skip(1).any(|rest| {
            let rest = rest.strip_prefix(name.as_str());
            rest.is_some_and(|rest| !rest.starts_with(is_of_name))
        })
    })
}

fn numbers(written: &mut String, draw: &Draw, rows: usize) {
    let names: Vec<&str> = draw.names.iter().map(String::as_str).collect();
    choose(written, draw.rows().min(rows.max(1)), &|written, n| {
        for (name, value) in names.iter().zip(draw.row(n)) {
            let value = value.text.as_deref().unwrap_or("0");
            let _ = writeln!(written, "\\set {name} {value}");
        }
    });
}

fn statements(
    written: &mut String,
    body: &[(&Command, &str)],
    value: &dyn Fn(pgassay_load::script::Slot) -> Option<String>,
) {
    for (command, line) in body {
        match command {
            Command::Sql(sql) => {
                let _ = writeln!(written, "{};", text(sql, value));
            }
            _ => {
                let _ = writeln!(written, "{line}");
            }
        }
    }
}

/// One of so many branches, each as likely as the others.
fn choose(written: &mut String, count: usize, branch: &dyn Fn(&mut String, usize)) {
    if count > 1 {
        let _ = writeln!(written, "\\set {CHOICE} random(0, {})", count - 1);
    }
    halves(written, 0, count, branch);
}

fn halves(written: &mut String, from: usize, to: usize, branch: &dyn Fn(&mut String, usize)) {
    if to - from <= 1 {
        branch(written, from);
        return;
    }
    let middle = from + (to - from) / 2;
    let _ = writeln!(written, "\\if :{CHOICE} < {middle}");
    halves(written, from, middle, branch);
    written.push_str("\\else\n");
    halves(written, middle, to, branch);
    written.push_str("\\endif\n");
}

/// A value in a statement's text, in which pgbench sees no variable.
fn literal(value: &Drawn) -> String {
    let Some(text) = value.text.as_deref() else {
        return "NULL".to_owned();
    };
    if !text.contains([':', '\\', '\n', '\r']) {
        return value.literal.to_string();
    }
    let mut escaped = String::from("E'");
    for c in text.chars() {
        match c {
            '\\' => escaped.push_str("\\\\"),
            '\'' => escaped.push_str("''"),
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            ':' => escaped.push_str("\\072"),
            c => escaped.push(c),
        }
    }
    escaped.push('\'');
    escaped
}

#[cfg(test)]
mod tests {
    use pgassay_load::script::Program;

    use super::*;

    fn exported(text: &str, rows: usize) -> String {
        let mut program = Program::new();
        program.add("s", text, 1).unwrap();
        let made = script(&program.scripts()[0], rows).unwrap();
        assert!(!made.contains("\\draw"));
        Program::new()
            .add("made", &made, 1)
            .unwrap_or_else(|e| panic!("{e}\n{made}"));
        made
    }

    #[test]
    fn rows_of_numbers_are_set() {
        let made = exported(
            "\\draw a b from 1 2 3 -4 5 6\n\\set c :a + 1\nSELECT :a, :b, :c;\n",
            2,
        );
        assert_eq!(
            made,
            "\\set pgassay_row random(0, 1)\n\\if :pgassay_row < 1\n\\set a 1\n\\set b 2\n\\else\n\\set a 3\n\\set b -4\n\
             \\endif\n\\set c :a + 1\nSELECT :a, :b, :c;\n"
        );
        assert_eq!(
            exported("SELECT 1;\nSELECT 2;\n", 9),
            "SELECT 1;\nSELECT 2;\n"
        );
    }

    #[test]
    fn numbers_that_pgbench_would_write_otherwise_stand_in_their_statements() {
        for number in ["1.50", "007", "+1", "1e3", "12345678901234567890"] {
            let made = exported(&format!("\\draw a from {number}\nSELECT :a;\n"), 9);
            assert_eq!(made, format!("SELECT {number};\n"));
        }
        let mut program = Program::new();
        let text = "\\draw a from 1.5\n\\set b :a * 2\nSELECT :b;\n";
        program.add("s", text, 1).unwrap();
        let why = script(&program.scripts()[0], 9).unwrap_err();
        assert!(why.contains("no whole number"), "{why}");
    }

    #[test]
    fn rows_of_texts_stand_in_their_statements() {
        let made = exported(
            "\\draw a b from 1 'it''s' 2 'x:y' 3 NULL\nBEGIN;\nSELECT :a WHERE b = :b;\nEND;\n",
            9,
        );
        for line in [
            "SELECT 1 WHERE b = 'it''s';",
            "SELECT 2 WHERE b = E'x\\072y';",
            "SELECT 3 WHERE b = NULL;",
            "\\set pgassay_row random(0, 2)",
        ] {
            assert!(made.contains(line), "{line}\n{made}");
        }
        assert_eq!(made.matches("BEGIN;").count(), 3);
    }
}

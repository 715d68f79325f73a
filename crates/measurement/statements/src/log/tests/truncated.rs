//! Statements from logs that lost tabs, line ends and parts: each is the one that was sent, or none.

use std::sync::LazyLock;

use super::doubt::Doubt;
use super::message::{Said, Statement, said};
use super::prefix::{DEBIAN, Prefix};
use super::{Counts, Format, Reader, Record};
use crate::sessions::{Sessions, Wanted};

/// None holds `statement: `.
const SENT: &[&str] = &[
    "SELECT 1",
    "DELETE FROM orders\nWHERE id = 72",
    "UPDATE orders SET closed = true\n    WHERE id = 71;",
    "SELECT 'a\n  \"b' FROM t\nWHERE x = 1",
    "SELECT a -- (\n\nFROM \"t\"",
    "DO $$\nBEGIN\n  DELETE FROM t;\nEND $$",
    "INSERT INTO t VALUES (1,\n2), ('it''s', 3)",
    "UPDATE t SET a = 1;\nDELETE FROM t;",
    "DELETE FROM t /* all\nof it */ WHERE a IN (\n\t1)\n",
];

/// How many of them have a literal of several lines.
const LONG_LITERALS: usize = 2;

/// What stands between two lines of a message.
const LAYOUTS: &[&str] = &[
    "\n\t",
    "\r\n\t",
    "\n        ",
    "\n    ",
    "\r\n  ",
    "\n",
    "\r\n",
];

/// A log to stderr of all of them, and an entry behind them.
fn stderr(between: &str) -> String {
    let end = if between.starts_with('\r') {
        "\r\n"
    } else {
        "\n"
    };
    let entry = |n: usize, message: &str| {
        let message = message.replace('\n', between);
        format!("2026-11-23 09:00:{n:02}.000 UTC [7] a@b LOG:  {message}{end}")
    };
    let of =
        |(n, sent): (usize, &&str)| entry(n, &format!("duration: 1.000 ms  statement: {sent}"));
    let statements: String = SENT.iter().enumerate().map(of).collect();
    statements + &entry(59, "checkpoint starting: time")
}

/// The statements of a log, in doubt or not, and what was counted.
fn read(format: &Format, text: &str) -> (Vec<Statement>, Counts) {
    let mut statements = Vec::new();
    let mut take = |record: Record| {
        if let Some(Said::Ended(statement, _)) = said(&record) {
            statements.push(statement);
        }
    };
    let mut reader = Reader::new(format);
    for line in text.as_bytes().split(|b| *b == b'\n') {
        reader.line(line, &mut take);
    }
    reader.end(&mut take);
    (statements, reader.counts)
}

fn debian() -> Format {
    static DEBIANS: LazyLock<Prefix> = LazyLock::new(|| Prefix::read(DEBIAN).unwrap());
    Format::Stderr(DEBIANS.clone())
}

/// Whether a text is one of those that were sent; without tabs its indentation is not known.
fn is_sent(text: &str, tabs: bool) -> bool {
    let lines = |text: &str| -> Vec<String> {
        let lines = text.trim_end().lines();
        lines.map(|line| line.trim_start().to_owned()).collect()
    };
    let same = |sent: &str| match tabs {
        true => sent == text,
        false => lines(sent) == lines(text),
    };
    SENT.iter().any(|sent| same(sent))
}

fn whole(statements: &[Statement]) -> Vec<&Statement> {
    statements
        .iter()
        .filter(|one| one.doubt.is_none())
        .collect()
}

#[test]
fn lines_without_tabs_are_joined_or_their_statement_is_dropped() {
    for between in LAYOUTS {
        let (statements, counts) = read(&debian(), &stderr(between));
        assert_eq!(statements.len(), SENT.len(), "{between:?}");
        // One has an indentation of its own in all of its lines.
        let several = SENT.iter().filter(|sent| sent.contains('\n')).count() - 1;
        let dropped = match *between {
            "\n\t" => 0,
            "\n" | "\r\n" => several,
            _ => LONG_LITERALS,
        };
        let whole = whole(&statements);
        assert_eq!(whole.len(), SENT.len() - dropped, "{between:?}: {whole:#?}");
        for one in whole {
            assert!(
                is_sent(&one.text, *between == "\n\t"),
                "{between:?}: {one:?}"
            );
        }
        assert_eq!(counts.foreign > 0, dropped == several, "{between:?}");
    }
}

#[test]
fn a_file_that_ends_or_begins_anywhere_has_whole_statements_only() {
    for between in LAYOUTS {
        let text = stderr(between);
        for cut in 0..=text.len() {
            for part in [&text[..cut], &text[cut..]] {
                let (statements, _) = read(&debian(), part);
                let begun = part.matches("  statement: ").count();
                assert!(statements.len() <= begun, "{between:?} {cut}");
                // At the file's begin the first entry may not be known as one.
                let lost = begun - statements.len();
                assert!(
                    lost == 0 || lost == 1 && part.len() < text.len(),
                    "{between:?} {cut}"
                );
                for one in whole(&statements) {
                    let is = is_sent(&one.text, *between == "\n\t");
                    assert!(is, "{between:?} {cut}: {one:?}");
                }
            }
        }
    }
}

#[test]
fn what_is_dropped_is_counted_with_the_reason() {
    for between in LAYOUTS {
        let text = stderr(between);
        for cut in (0..=text.len()).rev().step_by(7) {
            let mut sessions = Sessions::new(Wanted::default(), 1, 10);
            let mut reader = Reader::new(&debian());
            for line in text.as_bytes()[..cut].split(|b| *b == b'\n') {
                reader.line(line, &mut |record| sessions.record(&record));
            }
            reader.end(&mut |record| sessions.record(&record));
            sessions.end();
            let entries = sessions.mix.entries();
            let taken: u64 = entries.iter().map(|entry| entry.count).sum();
            let dropped: u64 = sessions
                .left_out
                .values()
                .map(|unused| unused.statements)
                .sum();
            assert_eq!(taken + dropped, sessions.statements, "{between:?} {cut}");
        }
    }
}

#[test]
fn lines_of_others_and_long_lines_put_the_statement_before_them_in_doubt() {
    let entry = "2026-11-23 09:00:00.000 UTC [7] a@b LOG:  ";
    let statement = format!("{entry}duration: 1.000 ms  statement: DELETE FROM orders");
    let behind = |lines: &str| {
        let text = format!("{statement}\n{lines}{entry}checkpoint starting: time\n");
        let (statements, _) = read(&debian(), &text);
        let [one] = statements.as_slice() else {
            panic!("{statements:?}");
        };
        one.doubt
    };
    assert_eq!(behind(""), Some(Doubt::NoWhere));
    assert_eq!(behind("\n\n"), Some(Doubt::NoWhere));
    assert_eq!(behind(" \tWHERE a = 1\n"), None);
    for (lines, doubt) in [
        ("cp: cannot stat 'x'\n", Doubt::Unprefixed),
        ("2026-11-23 09:00:0\n", Doubt::Unprefixed),
        (
            "Nov 23 09:00:01 host kernel: oom\n\tWHERE a = 1\n",
            Doubt::Unprefixed,
        ),
        ("\tWHERE a = 1\n    AND b = 2\n", Doubt::MixedIndentation),
        ("\tWHERE (a = 1\n", Doubt::Unclosed),
        ("\tWHERE a = 'b...\n", Doubt::Unclosed),
    ] {
        assert_eq!(behind(lines), Some(doubt), "{lines}");
    }
    // An entry that can't be read ends the one before it, and has lines of its own.
    let other = "2026-11-23 09:00:00.000 UTC [7] a@b JOURNAL:  x\n\ty\n";
    assert_eq!(behind(other), Some(Doubt::NoWhere));
    let line = format!("\tWHERE a = {:>1$}", 1, 8192 - 11);
    assert_eq!(behind(&format!("{line}\n")), Some(Doubt::CollectorLimit));

    let mut reader = Reader::new(&debian());
    let mut found = Vec::new();
    reader.line(statement.as_bytes(), &mut |record| found.push(record));
    reader.too_long();
    reader.line(statement.as_bytes(), &mut |record| found.push(record));
    assert_eq!(found[0].doubt, Some(Doubt::LongLine));
}

/// `grep LOG:` leaves the first line of each entry.
#[test]
fn a_log_of_first_lines_has_no_update_or_delete_of_all_rows() {
    let sent = [
        "DELETE FROM orders\n\tWHERE id = 72",
        "/* shop */ UPDATE orders SET closed = true\n\tWHERE id = 71;",
        "WITH old AS (SELECT 1)\n\tDELETE FROM orders WHERE id = 1",
        "UPDATE orders SET closed = true WHERE id = 71",
        "SELECT 1 FROM orders FOR UPDATE",
        "DELETE FROM carts;",
    ];
    let entry = |sent: &str| {
        let line = sent.lines().next().unwrap();
        format!("2026-11-23 09:00:00.000 UTC [7] a@b LOG:  duration: 1.000 ms  statement: {line}\n")
    };
    let log: String = sent.iter().map(|sent| entry(sent)).collect();
    let (statements, _) = read(&debian(), &(log + &entry("SELECT 2")));
    let doubts: Vec<_> = statements.iter().map(|one| one.doubt).collect();
    let no_where = Some(Doubt::NoWhere);
    let last = Some(Doubt::LastOfFile);
    assert_eq!(doubts, [no_where, no_where, None, None, None, None, last]);
    // Records of csvlog have an end.
    let (statements, _) = read(&Format::Csv, &format!("{}\n", csv(1, "DELETE FROM orders")));
    assert_eq!(statements[0].doubt, None);
}

#[test]
fn lines_of_another_session_between_those_of_a_statement_put_it_in_doubt() {
    let at = "2026-11-23 09:00:00.000 UTC";
    let with = |between: &str, more: &str| {
        let text = format!(
            "{at} [7] a@b LOG:  duration: 1.000 ms  statement: SELECT a FROM orders\n{at} {between}\n{more}\n\
             {at} [7] a@b LOG:  checkpoint starting: time\n"
        );
        let (statements, _) = read(&debian(), &text);
        let [one] = statements.as_slice() else {
            panic!("{statements:?}");
        };
        one.doubt
    };
    for entry in [
        "STATEMENT:  SELECT 2",
        "HINT:  x",
        "CONTEXT:  x",
        "DETAIL:  x",
    ] {
        let other = format!("[8] a@b {entry}");
        let more = "\tWHERE id = 72";
        assert_eq!(with(&other, more), Some(Doubt::Interleaved), "{entry}");
        let more = "WHERE id = 72";
        assert_eq!(with(&other, more), Some(Doubt::Unprefixed), "{entry}");
        let more = format!("{at} [8] a@b HINT:  y");
        assert_eq!(with(&other, &more), None, "{entry}");
    }
    // Its own entry has lines, too.
    let own = with("[7] a@b CONTEXT:  SQL statement \"SELECT", "\t1\"");
    assert_eq!(own, None);
}

#[test]
fn damaged_first_lines_of_entries_count_as_cut() {
    for (line, cut) in [
        ("[7] a@b LOG:  duration: 1.000 ms  statement: SELECT 1", 1),
        ("2026-11-23 09:00:00.000 UTC [7] a@b LO", 1),
        (
            "2026-11-23 09:00:00.000 UTC [7] a@b L?G:  duration: 1.0 ms",
            1,
        ),
        ("2026-11-23 09:00:00.000 UTC [7] a@b FEHLER:  nichts", 0),
        ("cp: cannot stat 'x'", 0),
        ("2026-11-23 09:00:00.000 UTC [7] a@b LOG:  x", 0),
    ] {
        let (_, counts) = read(&debian(), line);
        assert_eq!(counts.cut, cut, "{line}");
    }
}

/// A record of csvlog.
fn csv(n: usize, sent: &str) -> String {
    let sent = sent.replace('"', "\"\"");
    format!(
        "2026-11-23 09:00:{n:02}.000 UTC,\"a\",\"b\",1,\"x\",s1,1,\"SELECT\",2026-11-23 09:00:00 UTC,3/1,0,LOG,00000,\
         \"duration: 1.000 ms  statement: {sent}\",,,,,,,,,\"app\""
    )
}

#[test]
fn records_of_csvlog_and_jsonlog_that_end_early_are_dropped_and_counted() {
    let json = |n: usize, sent: &str| {
        let message = format!("duration: 1.000 ms  statement: {sent}");
        let message = serde_json::Value::from(message);
        format!(
            "{{\"timestamp\":\"2026-11-23 09:00:{n:02}.000 UTC\",\"session_id\":\"1\",\"error_severity\":\"LOG\",\
             \"message\":{message}}}"
        )
    };
    type Write = dyn Fn(usize, &str) -> String;
    let formats: [(Format, &Write); 2] = [(Format::Csv, &csv), (Format::Json(None), &json)];
    for (format, write) in formats {
        for (n, sent) in SENT.iter().enumerate() {
            let record = write(n, sent);
            let next = SENT[(n + 1) % SENT.len()];
            let next = write(n + 1, next);
            for cut in 1..record.len() {
                for (head, part) in [(true, &record[..cut]), (false, &record[cut..])] {
                    let text = format!("{part}\n{next}\n{next}\n");
                    let (statements, counts) = read(&format, &text);
                    assert!(statements.len() >= 2, "{text}: {statements:?}");
                    for one in &statements {
                        assert!(
                            one.doubt.is_none() && is_sent(&one.text, true),
                            "{text}: {one:?}"
                        );
                    }
                    let dropped = head && cut > 40 && statements.len() == 2;
                    assert!(!dropped || counts.cut > 0, "{text}: {counts:?}");
                }
            }
        }
    }
    // Its lines were given other ends: a literal of several lines may have been, too.
    let text = format!("{}\r\n", csv(1, "SELECT 'a\r\nb'"));
    let (statements, _) = read(&Format::Csv, &text);
    assert_eq!(statements[0].doubt, Some(Doubt::LiteralLayout));
}

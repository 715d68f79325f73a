//! `\draw name … from file FILE [header] [in order]`: the rows of a CSV file (RFC 4180) next to the script.
//!
//! They are put into the script where it is read, so that whatever records, sends or repeats it needs no further
//! file. They stand in the command's own line: the lines that follow keep their numbers.

use std::borrow::Cow;
use std::fs::File;
use std::io::Read;
use std::path::{Component, Path};

use super::draw::{quoted, tokens};
use super::split::{Piece, split};
use super::words::words;

/// The longest file, in bytes: its rows are recorded with each run.
const LONGEST: u64 = 4 << 20;
/// The most values.
const MOST: usize = 500_000;

/// A `\draw` from a file.
struct FromFile {
    /// What stands for the rows, by its bytes in the script.
    begin: usize,
    end: usize,
    line: usize,
    names: Vec<String>,
    file: String,
    header: bool,
}

/// The script with the rows of its files, which lie below `directory`.
///
/// # Errors
/// A file that can't be read or has other rows than the command takes, with the script's line.
pub fn with_rows<'t>(text: &'t str, directory: &Path) -> Result<Cow<'t, str>, String> {
    let draws = from_files(text);
    if draws.is_empty() {
        return Ok(Cow::Borrowed(text));
    }
    let mut whole = String::with_capacity(text.len());
    let mut kept = 0;
    for draw in draws {
        let rows = read(directory, &draw.file).and_then(|read| rows(&draw, &read));
        let rows = rows.map_err(|why| format!("line {}: {}: {why}", draw.line, draw.file))?;
        whole.push_str(&text[kept..draw.begin]);
        whole.push_str(&rows);
        kept = draw.end;
    }
    whole.push_str(&text[kept..]);
    Ok(Cow::Owned(whole))
}

/// The files whose rows a script takes, as it names them.
pub fn row_files(text: &str) -> Vec<String> {
    from_files(text).into_iter().map(|draw| draw.file).collect()
}

fn from_files(text: &str) -> Vec<FromFile> {
    // Most scripts have none.
    if !text.contains("file") {
        return Vec::new();
    }
    let pieces = split(text).into_iter();
    pieces
        .filter_map(|piece| match piece {
            Piece::Backslash { offset, end } => from_file(text, offset, end),
            Piece::Sql { .. } => None,
        })
        .collect()
}

/// What is no such command, or a wrong one, is left to the compiler.
fn from_file(text: &str, offset: usize, end: usize) -> Option<FromFile> {
    let command = *words(text, offset + 1, end).first()?;
    if !command.text.eq_ignore_ascii_case("draw") {
        return None;
    }
    let tokens = tokens(text, command.offset + command.text.len(), end).ok()?;
    let from = tokens.iter().position(|token| token.text == "from")?;
    let [file, name, rest @ ..] = &tokens[from + 1..] else {
        return None;
    };
    if file.text != "file" {
        return None;
    }
    let header = rest.first().filter(|token| token.text == "header");
    let last = header.unwrap_or(name);
    let bare = name.text.strip_prefix('\'');
    let bare = bare.and_then(|name| name.strip_suffix('\''));
    Some(FromFile {
        begin: file.offset,
        end: last.offset + last.text.len(),
        line: 1 + text[..offset].matches('\n').count(),
        names: tokens[..from].iter().map(|t| t.text.to_owned()).collect(),
        file: bare.map_or_else(|| name.text.to_owned(), |name| name.replace("''", "'")),
        header: header.is_some(),
    })
}

fn read(directory: &Path, name: &str) -> Result<String, String> {
    let mut parts = Path::new(name).components().peekable();
    let below = parts.peek().is_some() && parts.all(|part| matches!(part, Component::Normal(_)));
    if !below {
        return Err("is not the name of a file in the script's directory".to_owned());
    }
    let path = directory.join(name);
    if path.exists() && !path.is_file() {
        return Err("is not a file".to_owned());
    }
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(LONGEST + 1).read_to_end(&mut bytes))
        .map_err(|error| format!("can't be read: {error}"))?;
    if bytes.len() as u64 > LONGEST {
        return Err(format!(
            "is longer than {} MiB: take a sample of its rows",
            LONGEST >> 20
        ));
    }
    String::from_utf8(bytes).map_err(|_| "is not UTF-8".to_owned())
}

/// The rows as they stand in a script.
fn rows(draw: &FromFile, text: &str) -> Result<String, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(draw.header)
        // Rows of another length are reported in our words.
        .flexible(true)
        .from_reader(text.as_bytes());
    let columns = columns(draw, &mut reader)?;
    let mut values: Vec<Vec<String>> = vec![Vec::new(); columns.len()];
    for record in reader.records() {
        let record = record.map_err(|error| error.to_string())?;
        let line = record.position().map_or(0, csv::Position::line);
        if !draw.header && record.len() != columns.len() {
            return Err(format!(
                "line {line} has {} values, and \\draw takes {}",
                record.len(),
                columns.len()
            ));
        }
        for (column, values) in columns.iter().zip(&mut values) {
            let value = record
                .get(*column)
                .ok_or_else(|| format!("line {line} has {} values only", record.len()))?;
            if value.contains('\0') {
                return Err(format!("line {line} has a zero byte"));
            }
            values.push(value.to_owned());
        }
        if values.iter().map(Vec::len).sum::<usize>() > MOST {
            return Err(format!(
                "has more than {MOST} values: take a sample of its rows"
            ));
        }
    }
    let count = values.first().map_or(0, Vec::len);
    if count == 0 {
        return Err("has no rows".to_owned());
    }
    let numbers: Vec<bool> = values.iter().map(|values| are_numbers(values)).collect();
    let mut written = String::with_capacity(text.len() + text.len() / 4);
    for row in 0..count {
        for (values, number) in values.iter().zip(&numbers) {
            if !written.is_empty() {
                written.push(' ');
            }
            match values[row].as_str() {
                "" => written.push_str("NULL"),
                value if *number => written.push_str(value),
                value => written.push_str(&quoted(value)),
            }
        }
    }
    Ok(written)
}

/// The places of the variables' columns: those of their names in the header, else one after the other.
fn columns(draw: &FromFile, reader: &mut csv::Reader<&[u8]>) -> Result<Vec<usize>, String> {
    if !draw.header {
        return Ok((0..draw.names.len()).collect());
    }
    let header = reader.headers().map_err(|error| error.to_string())?;
    let place = |name: &String| {
        let place = header.iter().position(|column| column.trim() == name);
        place.ok_or_else(|| {
            let columns: Vec<&str> = header.iter().take(20).collect();
            format!(
                "its header has no column `{name}`; it has {}",
                columns.join(", ")
            )
        })
    };
    draw.names.iter().map(place).collect()
}

/// Whether a column holds only numbers and NULL: by the simple protocol these stand in a statement
/// without quotes. `007` and `+49` are texts.
fn are_numbers(values: &[String]) -> bool {
    values.iter().filter(|v| !v.is_empty()).all(|value| {
        let value = value.strip_prefix('-').unwrap_or(value);
        let (whole, fraction) = match value.split_once('.') {
            Some((whole, fraction)) => (whole, Some(fraction)),
            None => (value, None),
        };
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        digits(whole) && (whole == "0" || !whole.starts_with('0')) && fraction.is_none_or(digits)
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Command, Draw, Program};
    use super::*;

    /// What `\draw … from file x.csv …` comes to, with this file.
    fn drawn(command: &str, csv: &[u8]) -> Result<Draw, String> {
        let place = pgassay_sys::private::Directory::make(&std::env::temp_dir(), "pgassay-rows");
        let place = place.unwrap();
        std::fs::write(place.path().join("x.csv"), csv).unwrap();
        let script = format!("-- head\n{command}\nSELECT 1;\n");
        let whole = with_rows(&script, place.path())?;
        assert_eq!(whole.lines().count(), 3, "lines keep their numbers");
        let mut program = Program::new();
        program.add("s", &whole, 1).map_err(|e| e.to_string())?;
        match &program.scripts()[0].commands[0] {
            Command::Draw(draw) => Ok((**draw).clone()),
            other => panic!("{other:?}"),
        }
    }

    fn texts(draw: &Draw) -> Vec<Vec<Option<&str>>> {
        let row = |row| draw.row(row).iter().map(|v| v.text.as_deref()).collect();
        (0..draw.rows()).map(row).collect()
    }

    #[test]
    fn rows_are_those_of_the_file() {
        let csv = b"1,\"it's, \"\"so\"\"\nand on\",007\r\n-2.50,,\n3,back\\slash,\"+49 30\"\n";
        let draw = drawn("\\draw a b c from file x.csv", csv).unwrap();
        assert!(!draw.in_order);
        assert_eq!(
            texts(&draw),
            [
                [Some("1"), Some("it's, \"so\"\nand on"), Some("007")],
                [Some("-2.50"), None, None],
                [Some("3"), Some("back\\slash"), Some("+49 30")],
            ]
        );
        let literals: Vec<&str> = draw.row(1).iter().map(|v| &*v.literal).collect();
        assert_eq!(literals, ["(-2.50)", "NULL", "NULL"]);
        assert_eq!(&*draw.row(0)[2].literal, "'007'", "not 7");
    }

    #[test]
    fn a_header_names_the_columns() {
        let csv = "\u{feff}id,note,Zip code,price\n1,a,0123,2\n2,b,4567,\n".as_bytes();
        let draw = drawn("\\DRAW price id from file 'x.csv' header in order", csv).unwrap();
        assert!(draw.in_order);
        assert_eq!(texts(&draw), [[Some("2"), Some("1")], [None, Some("2")]]);
        let missing = drawn("\\draw ID from file x.csv header", csv).unwrap_err();
        assert!(
            missing.contains("no column `ID`") && missing.contains("Zip code"),
            "{missing}"
        );
    }

    #[test]
    fn what_has_no_such_rows_is_refused_with_its_line() {
        for (command, csv, said) in [
            (
                "\\draw a b from file x.csv",
                &b"1,2\n3\n"[..],
                "line 2 has 1 values",
            ),
            ("\\draw a from file x.csv", b"1,2\n", "line 1 has 2 values"),
            ("\\draw a from file x.csv", b"", "no rows"),
            ("\\draw a from file x.csv header", b"a\n", "no rows"),
            (
                "\\draw b from file x.csv header",
                b"a,b\n1,2\n1\n",
                "line 3 has 1 values only",
            ),
            ("\\draw a from file x.csv", b"\xff\n", "UTF-8"),
            ("\\draw a from file x.csv", b"a\0b\n", "zero byte"),
            ("\\draw a from file y.csv", b"1\n", "can't be read"),
            ("\\draw a from file ../x.csv", b"1\n", "script's directory"),
            (
                "\\draw a from file /etc/passwd",
                b"1\n",
                "script's directory",
            ),
            ("\\draw a from file .", b"1\n", "script's directory"),
        ] {
            let why = drawn(command, csv).unwrap_err();
            assert!(why.contains(said), "{command}: {why}");
            assert!(why.starts_with("line 2: "), "{command}: {why}");
        }
        let long = vec![b'1'; LONGEST as usize + 1];
        assert!(
            drawn("\\draw a from file x.csv", &long)
                .unwrap_err()
                .contains("MiB")
        );
        let many = "1\n".repeat(MOST + 1);
        let why = drawn("\\draw a from file x.csv", many.as_bytes()).unwrap_err();
        assert!(why.contains("500000 values"), "{why}");
    }

    #[test]
    fn other_commands_stay_as_they_are() {
        for text in [
            "SELECT 'from file x';\n",
            "\\draw a from 'file' 'x'\nSELECT :a;\n",
            "-- \\draw a from file x.csv\nSELECT 1;\n",
            "SELECT $$\n\\draw a from file x.csv\n$$;\n",
            "\\draw a from file\nSELECT :a;\n",
            "\\draw a from 'x file y\nSELECT :a;\n",
        ] {
            let nowhere = Path::new("/nonexistent");
            assert_eq!(with_rows(text, nowhere).as_deref(), Ok(text), "{text}");
        }
    }

    #[test]
    fn the_files_of_a_script_are_named() {
        let text = "\\draw a from file a.csv\n\\draw b from file 'b c/it''s.csv' header \\\n in order\nSELECT 1;";
        assert_eq!(row_files(text), ["a.csv", "b c/it's.csv"]);
    }
}

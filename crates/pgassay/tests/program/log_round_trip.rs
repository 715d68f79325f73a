//! A log that a real server writes yields the statements that were sent: prefixes of a grammar of escapes, stderr, csvlog
//! and jsonlog, statements of several lines, encodings, and the languages of the server's messages.
//!
//! The cases are drawn from a fixed seed. A language is that of the installed message catalogs; without them the server
//! writes English.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use pgassay_load::script::{Program, Random, quoted};
use pgassay_load::{Engine, Length, Options, SliceSpec};
use pgassay_pgwire::connect;
use pgassay_statements::log::message::{Said, said};
use pgassay_statements::log::prefix::Prefix;
use pgassay_statements::log::{Reader, format_of};

use crate::own_workload::{HBA, log_with};
use crate::pg_support::{OWNER, Server};

/// The languages of the message catalogs, and C.
const LANGUAGES: [&str; 7] = ["", "de", "fr", "ru", "ja", "ko", "zh_CN"];
/// Prefixes that each of their servers is given.
const PREFIXES: usize = 4;
/// Statements of a session.
const STATEMENTS: usize = 12;
/// What ends each log.
const END: &str = "SELECT 'end of the log'";

/// A statement, its parameters, and how it was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Sent {
    text: String,
    parameters: Vec<Option<String>>,
}

/// Draws cases.
struct Cases(Random);

impl Cases {
    fn one_of<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.0.uniform(0, from.len() as i64 - 1) as usize]
    }

    fn below(&mut self, limit: i64) -> i64 {
        self.0.uniform(0, limit - 1)
    }

    /// A value of log_line_prefix: a time, a process or a session, and further fields, in any order.
    fn prefix(&mut self) -> String {
        let mut fields = vec![
            self.one_of(&["%m", "%t", "%n", "%m"]).to_owned(),
            self.one_of(&["%p", "[%p]", "%c", "pid=%p", "%8p", "<%p>"])
                .to_owned(),
        ];
        for _ in 0..self.below(5) {
            let field = self.one_of(&[
                "%u@%d",
                "user=%u,db=%d",
                "app=%a",
                "%r",
                "client=%h",
                "[%l-1]",
                "%e",
                "%v",
                "%x",
                "%s",
                "%i",
                "%b",
                "%-14u|%10d",
                "(%a)",
                "%%",
                "q=%Q",
            ]);
            fields.push(field.to_owned());
        }
        // Fisher and Yates
        for last in (1..fields.len()).rev() {
            let other = self.below(last as i64 + 1) as usize;
            fields.swap(last, other);
        }
        if self.below(3) == 0 {
            let at = self.below(fields.len() as i64) as usize;
            // What follows is not there for processes without a session.
            let needed = fields[at..].iter().any(|f| {
                f.contains("%p")
                    || f.contains("%c")
                    || f.contains("%m")
                    || f.contains("%t")
                    || f.contains("%n")
            });
            if !needed {
                fields[at].insert_str(0, "%q");
            }
        }
        let separator = self.one_of(&[" ", ":", " - ", "|", ", ", ";"]);
        let end = self.one_of(&[" ", ": ", ":", "", "> ", " : "]);
        format!("{}{end}", fields.join(separator))
    }

    /// A piece of SQL text that may be a part of a literal, a comment or between tokens.
    fn piece(&mut self, others: &[&'static str]) -> String {
        const PIECES: [&str; 12] = [
            "plain",
            "two\n\tlines",
            "\n\n",
            "  blanks",
            "LOG:  duration: 1.0 ms  statement: SELECT 7",
            "\nDETAIL:  parameters: $1 = '2'",
            "100 %",
            "(a, b",
            "x\ty",
            "\n    indented",
            "-- no comment",
            "\"quoted\"",
        ];
        let mut all = PIECES.to_vec();
        all.extend(others);
        self.one_of(&all).to_owned()
    }

    fn statement(&mut self, others: &[&'static str]) -> Sent {
        let literal = quoted_in_sql(&format!("{}{}", self.piece(others), self.piece(others)));
        let number = self.below(1000);
        let (text, parameters) = match self.below(6) {
            0 => (
                format!(
                    "SELECT {literal} AS a,\n       {number} AS b\n  FROM t\n WHERE id = {number}"
                ),
                None,
            ),
            1 => (
                format!(
                    "INSERT INTO t (id, note)\nVALUES ({number}, {literal})\nON CONFLICT DO NOTHING"
                ),
                None,
            ),
            2 => (
                format!(
                    "/* page: {number}\n * {literal} */ SELECT $${}$$",
                    self.piece(others)
                ),
                None,
            ),
            3 => (
                format!("UPDATE t\n\tSET note = {literal}\n\n\tWHERE id = {number}\n"),
                None,
            ),
            4 => (
                "SELECT note\n  FROM t WHERE id = $1 AND note = $2".to_owned(),
                Some(vec![Some(number.to_string()), Some(self.piece(others))]),
            ),
            _ => (
                "UPDATE t SET note = $1\n WHERE id = $2".to_owned(),
                Some(vec![Some(self.piece(others)), Some(number.to_string())]),
            ),
        };
        Sent {
            text,
            parameters: parameters.unwrap_or_default(),
        }
    }
}

/// A text as a literal that stands on several lines where it has several.
fn quoted_in_sql(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Sends statements, those with parameters by the extended protocol.
fn send(server: &Server, database: &str, all: &[Sent]) {
    let dir = server.socket_dir.to_str().unwrap();
    let owner = pgassay_pgwire::Conninfo::on_socket(dir, server.port, OWNER, database);
    let owner = owner.with_application_name("PostgreSQL JDBC Driver");
    let mut session = connect(&owner).unwrap();
    for sent in all {
        if sent.parameters.is_empty() {
            session.execute(&sent.text).unwrap();
            continue;
        }
        let values: Vec<String> = sent
            .parameters
            .iter()
            .flatten()
            .map(|v| quoted(v))
            .collect();
        let names: Vec<String> = (1..=values.len()).map(|n| format!("p{n}")).collect();
        let text = sent.text.replace('$', ":p");
        let script = format!(
            "\\draw {} from {}\n{text};\n",
            names.join(" "),
            values.join(" ")
        );
        let mut program = Program::new();
        program.add("sent", &script, 1).unwrap();
        let mut engine = Engine::new(owner.clone(), program, Options::default());
        engine.resize(1).unwrap();
        let spec = SliceSpec {
            length: Length::Transactions(1),
            ..SliceSpec::default()
        };
        let result = engine.run_slice(&spec, &mut |_| {});
        assert_eq!(result.transactions, 1, "{script}: {result:?}");
    }
}

/// The statements of a log without those that stand in doubt, and why the others do.
fn read(bytes: &[u8], name: &str, prefix: Option<&str>) -> Option<(Vec<Sent>, Vec<String>)> {
    let prefix = prefix.map(|text| Prefix::read(text).unwrap());
    let format = format_of(name, &bytes[..bytes.len().min(64 << 10)], prefix).ok()?;
    let mut reader = Reader::new(&format);
    let mut records = Vec::new();
    for line in bytes.split(|b| *b == b'\n') {
        reader.line(line, &mut |record| records.push(record));
    }
    reader.end(&mut |record| records.push(record));
    let (mut statements, mut doubts) = (Vec::new(), Vec::new());
    // What the test itself asks of the server.
    let own = ["reload_conf", "SHOW log_line_prefix", "'nothing'"];
    let is_own = |message: &str| own.iter().any(|words| message.contains(words));
    for record in records.iter().filter(|record| !is_own(&record.message)) {
        match said(record) {
            Some(Said::Ended(statement, _)) => match statement.doubt {
                None => statements.push(Sent {
                    // The load engine sends its statement with the semicolon.
                    text: match statement.parameters.is_empty() {
                        true => statement.text,
                        false => statement.text.trim_end_matches(';').to_owned(),
                    },
                    parameters: statement.parameters,
                }),
                Some(doubt) => doubts.push(doubt.words().to_owned()),
            },
            Some(Said::NotUnderstood) => doubts.push("not understood".to_owned()),
            _ => {}
        }
    }
    Some((statements, doubts))
}

/// Has the server write another file with this prefix, and waits until it does.
fn turn(server: &Server, n: usize, prefix: &str) -> PathBuf {
    server.run(&format!("ALTER SYSTEM SET log_line_prefix = '{prefix}'"));
    server.run(&format!("ALTER SYSTEM SET log_filename = 'own{n}'"));
    server.run("SELECT pg_reload_conf()");
    let log = server.dir.join(format!("data/log/own{n}"));
    for _ in 0..400 {
        let mut session = connect(&server.owner()).unwrap();
        let in_force = session.value("SHOW log_line_prefix").unwrap();
        if log.exists() && in_force.as_deref() == Some(prefix) {
            return log;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("{prefix} is not in force");
}

/// The lines from where the statements of a case begin: those before may have another prefix.
fn tail(bytes: &[u8], from: usize) -> &[u8] {
    &bytes[from.min(bytes.len())..]
}

fn of_language(language: &str, seed: u64) {
    let server = Server::start_in(
        language,
        HBA,
        &[
            ("logging_collector", "on"),
            ("log_destination", "stderr,csvlog,jsonlog"),
            ("log_directory", "log"),
            ("log_min_duration_statement", "0"),
            (
                "lc_messages",
                if language.is_empty() { "C" } else { "C.UTF-8" },
            ),
        ],
        |_| {},
    );
    server.run(
        "CREATE DATABASE western ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0",
    );
    for database in ["postgres", "western"] {
        let dir = server.socket_dir.to_str().unwrap();
        let owner = pgassay_pgwire::Conninfo::on_socket(dir, server.port, OWNER, database);
        let mut session = connect(&owner).unwrap();
        session
            .execute("CREATE TABLE t (id int PRIMARY KEY, note text)")
            .unwrap();
    }
    let mut cases = Cases(Random::new(seed));
    for n in 1..=PREFIXES {
        let prefix = cases.prefix();
        // LATIN1 has no words of these languages.
        let western = n == PREFIXES && matches!(language, "" | "de" | "fr");
        let (database, others): (_, &[&str]) = match western {
            true => ("western", &["Kaffee für zwei", "¿qué?"]),
            false => (
                "postgres",
                &["Kaffee für zwei", "漢字\n仮名", "🦀 and ligatures ﬁ"],
            ),
        };
        let log = turn(&server, n, &prefix);
        let size = |path: &Path| std::fs::read(path).unwrap_or_default().len();
        let paths = [
            log.clone(),
            log.with_extension("csv"),
            log.with_extension("json"),
        ];
        let begins: Vec<usize> = paths.iter().map(|path| size(path)).collect();
        let mut all: Vec<Sent> = (0..STATEMENTS).map(|_| cases.statement(others)).collect();
        all.push(Sent {
            text: END.to_owned(),
            parameters: Vec::new(),
        });
        send(&server, database, &all);
        server.run("SELECT 'nothing'");
        for (path, begin) in paths.iter().zip(begins) {
            let name = path.file_name().unwrap().to_str().unwrap();
            let ending = name.strip_prefix("own").unwrap();
            read_back(
                &server,
                (path, ending, begin),
                (&prefix, language),
                western,
                &all,
            );
        }
    }
}

/// Reads a log of these statements, with the prefix and without it.
fn read_back(
    server: &Server,
    (path, ending, begin): (&Path, &str, usize),
    (prefix, language): (&str, &str),
    western: bool,
    all: &[Sent],
) {
    let name = path.file_name().unwrap().to_str().unwrap();
    wait_for(server, ending, path);
    let bytes = std::fs::read(path).unwrap();
    let bytes = tail(&bytes, begin);
    let is_text = !name.ends_with("csv") && !name.ends_with("json");
    let prefix_of_text = Some(prefix).filter(|_| is_text);
    let decoded: Vec<u8>;
    let bytes = match western {
        true => {
            let (read, doubts) = read(bytes, name, prefix_of_text).unwrap();
            let of_encoding = read.iter().all(|sent| all.contains(sent));
            assert!(
                of_encoding && !doubts.is_empty(),
                "{prefix} {name}: {doubts:?}"
            );
            // As iconv does it.
            decoded = bytes
                .iter()
                .map(|b| char::from(*b))
                .collect::<String>()
                .into_bytes();
            &decoded[..]
        }
        false => bytes,
    };
    for given in [prefix_of_text, None] {
        let read = read(bytes, name, given);
        let (found, doubts) = read.unwrap_or_else(|| panic!("{prefix} {name}: not read"));
        let what = format!(
            "seed case `{prefix}` {language} {name}, prefix given: {}",
            given.is_some()
        );
        assert_eq!(found, all, "{what}, in doubt: {doubts:?}");
    }
}

fn wait_for(server: &Server, ending: &str, path: &Path) {
    for _ in 0..400 {
        let bytes = std::fs::read(path).unwrap_or_default();
        if String::from_utf8_lossy(&bytes).contains("'nothing'") {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    log_with(server, ending, "'nothing'");
}

#[test]
fn a_log_yields_the_statements_that_were_sent() {
    // Two servers at a time.
    thread::scope(|scope| {
        for half in [0, 1] {
            scope.spawn(move || {
                for (n, language) in LANGUAGES.iter().enumerate().filter(|(n, _)| n % 2 == half) {
                    of_language(language, 20_261_128 + n as u64);
                }
            });
        }
    });
}

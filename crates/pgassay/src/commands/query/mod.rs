//! `pgassay query`: a question in SQL to the tables that `pgassay export` wrote.
//!
//! The engine is another program, because one that knows SQL takes several times as long to build as all of
//! pgassay; each is told the same question and answers in the same lines ([`lines`]), so that what is shown does not
//! depend on which it was.

mod duckdb;
mod engine;
mod lines;
mod question;
mod shown;
mod statement;

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::bail;
use pgassay_model::Failure;
use pgassay_records::{QUERIES, is_archive, understood};
use pgassay_sys::input;
use pgassay_sys::private::Directory;
use pgassay_sys::stop::Stop;
use pgassay_text::suggestion::did_you_mean;

use super::export;
use crate::cli::query::QueryArgs;
use crate::exit::Exit;
use crate::terminal::Terminal;
use engine::Engine;
use question::Question;
use shown::Shown;

/// No question in SQL is longer.
const LONGEST: u64 = 100_000;

/// Asks an engine, and shows its answer.
///
/// # Errors
/// Where the question, the directory or a file of it is wrong, or there is no engine.
pub fn query(args: &QueryArgs, terminal: &mut Terminal, stop: &Stop) -> anyhow::Result<Exit> {
    if args.list {
        return list(terminal);
    }
    let (sql, dir) = asked(args)?;
    let sql = statement::single(&sql)?;
    if !is_archive(&dir) {
        bail!(
            Failure::usage(format!("no tables are in {}", dir.display()))
                .with_remedy("write them there: pgassay export RUNS --parquet DIR")
        );
    }
    understood(&dir).map_err(export::explain)?;
    let dir = fs::canonicalize(&dir)
        .map_err(|error| Failure::usage(format!("{}: {error}", dir.display())))?;
    let question = Question {
        tables: statement::tables(&sql),
        sql,
        dir,
        memory: args.memory,
        spill: spill()?,
    };
    let engine = Engine::find(args.engine)?;
    terminal.detail(&format!("asked: {}", engine.in_words()));
    let mut shown = Shown::new(args.format, terminal);
    engine.ask(&question, stop, &mut |piece| shown.take(piece))?;
    shown.end()?;
    Ok(Exit::Done)
}

/// A directory for what does not fit into memory.
fn spill() -> anyhow::Result<Directory> {
    let base = std::env::temp_dir();
    Ok(Directory::make(&base, "pgassay-query").map_err(|error| {
        Failure::usage(format!(
            "no directory can be made in {}: {error}",
            base.display()
        ))
        .with_remedy("name another directory for temporary files: TMPDIR=/var/tmp pgassay query …")
    })?)
}

/// The question and the directory.
fn asked(args: &QueryArgs) -> anyhow::Result<(String, PathBuf)> {
    let given = match (&args.name, &args.file) {
        (Some(name), _) => Some(by_name(name)?.to_owned()),
        (None, Some(path)) => Some(read(path)?),
        (None, None) => None,
    };
    let mut named = args.named.iter();
    let sql = match (given, args.named.as_slice()) {
        (Some(_), [sql, _, ..]) => bail!(
            Failure::usage(format!(
                "the question is given twice: {sql} is one too many"
            ))
            .with_remedy("beside --name or --file, name the directory only")
        ),
        (Some(sql), _) => sql,
        (None, _) => match named.next() {
            Some(sql) => sql.clone(),
            None => bail!(Failure::usage("no question was given").with_remedy(
                "pgassay query 'SELECT …' DIR, or --name NAME DIR; pgassay query --list shows names"
            )),
        },
    };
    let dir = named.next().map_or(".", String::as_str);
    Ok((sql, PathBuf::from(dir)))
}

fn by_name(name: &str) -> Result<&'static str, Failure> {
    let found = QUERIES.iter().find(|query| query.name == name);
    found.map(|query| query.sql).ok_or_else(|| {
        let names: Vec<&str> = QUERIES.iter().map(|query| query.name).collect();
        Failure::usage(format!(
            "no question is named {name}{}",
            did_you_mean(name, names.iter().copied())
        ))
        .with_remedy(format!("there are {}", names.join(", ")))
    })
}

fn read(path: &Path) -> anyhow::Result<String> {
    let refused = |why: &dyn std::fmt::Display| {
        Failure::usage(format!("--file {}: {why}", path.display()))
            .with_remedy("name a file with one SELECT in it, of up to 100 kB")
    };
    let bytes = match path.as_os_str() == "-" {
        true => {
            let mut bytes = Vec::new();
            let mut stdin = io::stdin().lock().take(LONGEST + 1);
            stdin.read_to_end(&mut bytes).map(|_| bytes)
        }
        false => input::read(path, LONGEST),
    };
    let bytes = bytes.map_err(|error| refused(&error))?;
    if bytes.len() as u64 > LONGEST {
        bail!(refused(&"it is longer"));
    }
    Ok(String::from_utf8(bytes).map_err(|_| refused(&"it is no text in UTF-8"))?)
}

fn list(terminal: &mut Terminal) -> anyhow::Result<Exit> {
    let mut text = String::new();
    for query in QUERIES {
        text += &format!("{:<12} {}\n", query.name, query.question());
    }
    terminal.print(&text)?;
    terminal.next(&["pgassay query --name versions DIR"]);
    Ok(Exit::Done)
}

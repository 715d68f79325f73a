//! Answers one question in SQL to the tables that `pgassay export` wrote.
//!
//! ```text
//! pgassay-query DIR [--memory MIB] < QUESTION.sql
//! ```
//! `pgassay query` runs it, and shows what it answers. Written are lines of JSON: first the engine and the
//! columns, `{"engine": …, "columns": [{"name": …, "type": …}]}`; then an array a row; last `{"rows": N}`. Where
//! something is wrong, the last is `{"error": …, "kind": …}`, and the exit code 1. Nothing is written elsewhere but
//! what does not fit into memory, below the directory for temporary files.

mod answer;
mod damage;
mod tables;

use std::io::{self, Read, Write};
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use datafusion::error::DataFusionError;
use datafusion::execution::context::SQLOptions;
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};

/// What an answer may take of memory unless `--memory` says otherwise.
const MEMORY: usize = 1024;
/// Stack of a thread: expressions of machines are nested deeply.
const STACK: usize = 8 << 20;
/// What is written to disk, at most so many times the memory.
const SPILLED: u64 = 8;
/// Threads that read files.
const READERS: usize = 16;

/// Why there is no answer, and of which kind that is.
pub(crate) struct Refused {
    kind: &'static str,
    why: String,
}

impl Refused {
    fn new(kind: &'static str, why: impl ToString) -> Self {
        let why = why.to_string();
        Self { kind, why }
    }
}

struct Asked {
    dir: PathBuf,
    sql: String,
    memory: usize,
}

fn asked() -> Result<Asked, String> {
    let mut args = std::env::args_os().skip(1);
    let usage = "pgassay-query DIR [--memory MIB] < QUESTION.sql";
    let dir = PathBuf::from(args.next().ok_or(usage)?);
    let mut memory = MEMORY;
    while let Some(flag) = args.next() {
        let value = args.next().and_then(|value| value.to_str()?.parse().ok());
        match (flag.to_str(), value) {
            (Some("--memory"), Some(mib)) if mib > 0 => memory = mib,
            _ => return Err(usage.to_owned()),
        }
    }
    let mut sql = String::new();
    let read = io::stdin().read_to_string(&mut sql);
    read.map_err(|error| format!("the question can't be read: {error}"))?;
    let dir = dir
        .canonicalize()
        .map_err(|error| format!("{}: {error}", dir.display()))?;
    Ok(Asked { dir, sql, memory })
}

fn main() -> ExitCode {
    let asked = match asked() {
        Ok(asked) => asked,
        Err(why) => return end(&Refused::new("usage", why)),
    };
    // What a damaged file makes a library panic at is said below.
    panic::set_hook(Box::new(|_| {}));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_stack_size(STACK)
        .max_blocking_threads(READERS)
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return end(&Refused::new("fault", error)),
    };
    let mut named = Vec::new();
    let answered = panic::catch_unwind(AssertUnwindSafe(|| {
        runtime.block_on(answer(&asked, &mut named))
    }));
    let error = match answered {
        Ok(Ok(())) => return ExitCode::SUCCESS,
        Ok(Err(error)) => error,
        Err(_) => DataFusionError::Internal("DataFusion panicked".to_owned()),
    };
    let refused = refused(&asked.dir, &named, &error);
    end(&refused)
}

/// Answers on standard output. The tables that the question names are written down as they are found.
async fn answer(asked: &Asked, named: &mut Vec<String>) -> Result<(), DataFusionError> {
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(FairSpillPool::new(asked.memory << 20)))
        .with_max_temp_directory_size(SPILLED * ((asked.memory as u64) << 20))
        .build_arc()?;
    let config = SessionConfig::new().with_information_schema(false);
    let context = SessionContext::new_with_config_rt(config, runtime);
    let state = context.state();
    let dialect = state.config().options().sql_parser.dialect;
    let statement = state.sql_to_statement(&asked.sql, &dialect)?;
    for reference in state.resolve_table_references(&statement)? {
        named.push(reference.table().to_owned());
    }
    for name in named.iter() {
        tables::register(&context, &asked.dir, name).await?;
    }
    let plan = context.state().statement_to_plan(statement).await?;
    // Questions only: nothing is made or written.
    SQLOptions::new()
        .with_allow_ddl(false)
        .with_allow_dml(false)
        .with_allow_statements(false)
        .verify_plan(&plan)?;
    let frame = context.execute_logical_plan(plan).await?;
    answer::write(frame).await
}

/// An error in words, with the file that caused it if one did.
fn refused(dir: &Path, named: &[String], error: &DataFusionError) -> Refused {
    let root = error.find_root();
    let text = root.strip_backtrace();
    match root {
        DataFusionError::SQL(..)
        | DataFusionError::Plan(_)
        | DataFusionError::SchemaError(..)
        | DataFusionError::NotImplemented(_)
        | DataFusionError::Diagnostic(..)
        | DataFusionError::Collection(_) => {
            match named
                .iter()
                .find(|name| !tables::TABLES.contains(&name.as_str()))
            {
                Some(unknown) if text.contains(unknown.as_str()) => Refused::new("table", unknown),
                _ => Refused::new("sql", text),
            }
        }
        DataFusionError::ResourcesExhausted(_) => Refused::new("memory", text),
        _ => match damage::first(dir, named) {
            Some(damaged) => Refused::new("damaged", damaged),
            None => match root {
                DataFusionError::Internal(_) | DataFusionError::ExecutionJoin(_) => {
                    Refused::new("fault", text)
                }
                // Division by zero, a cast that fails …
                _ => Refused::new("sql", text),
            },
        },
    }
}

/// Says why there is no answer.
fn end(refused: &Refused) -> ExitCode {
    let line = serde_json::json!({ "error": refused.why, "kind": refused.kind });
    // Nobody is left to tell where the reader has gone.
    let _ = writeln!(io::stdout(), "{line}");
    ExitCode::FAILURE
}

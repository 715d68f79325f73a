//! The flags of `pgassay query`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};

use super::io::size;

/// Arguments of `pgassay query`.
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
Examples:
  pgassay query 'SELECT work, clients, max(throughput) FROM points JOIN runs USING (run) GROUP BY 1, 2' years/
  pgassay query --list                         ten questions that come with pgassay
  pgassay query --name versions years/         one of them
  pgassay query -f mine.sql years/ --format csv > mine.csv
  pgassay query 'SELECT state, count(*) AS runs FROM runs GROUP BY state' years/ --format json | jq

The tables are those that pgassay export wrote: runs, servers, settings, points, trials, metrics, pairs,
findings and lines; each has the column date. docs/records.md describes them.

It is answered by pgassay-query beside pgassay or in PATH (make query-engine builds it); else by DuckDB, as a
module of python3 (pip install duckdb). Only one SELECT is answered.
Exit codes: 0 answered; 2 wrong SQL, directory or file; 3 no engine is there")]
pub struct QueryArgs {
    /// The question, one SELECT in quotes, unless --file or --name gives it; then the directory that
    /// pgassay export wrote [default: this one]
    #[arg(value_name = "SQL] [DIR", num_args = 0..=2)]
    pub named: Vec<String>,
    /// Read the question from a file; - is standard input
    #[arg(long, short, value_name = "FILE", conflicts_with = "name")]
    pub file: Option<PathBuf>,
    /// One of the questions that --list shows
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// List the questions that come with pgassay
    #[arg(long, conflicts_with_all = ["name", "file"])]
    pub list: bool,
    /// How to show the answer
    #[arg(long, value_enum, default_value_t = AnswerFormat::Table)]
    pub format: AnswerFormat,
    /// What answers [default: the first that is there]
    #[arg(long, value_enum)]
    pub engine: Option<EngineName>,
    /// Memory that the engine may take before it writes to disk; it is ended at twice as much
    #[arg(long, value_name = "SIZE", default_value = "2GB", value_parser = size)]
    pub memory: u64,
}

/// How an answer is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AnswerFormat {
    /// Columns for the terminal, figures rounded, 1,000 rows at most
    Table,
    /// Comma-separated values, with a header
    Csv,
    /// An array of objects
    Json,
}

/// What answers questions in SQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EngineName {
    /// pgassay-query, which is DataFusion
    Datafusion,
    /// DuckDB, as a module of python3
    Duckdb,
}

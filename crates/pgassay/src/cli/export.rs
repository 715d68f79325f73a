//! The flags of `pgassay export`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

/// Arguments of `pgassay export`.
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
Examples:
  pgassay export last --parquet years/
  pgassay export ~/.local/state/pgassay/runs --parquet years/ --host ci-3
  pgassay export ci-runs/ --new --parquet years/     only what is not there yet
  pgassay lines --json > lines.json; pgassay export lines.json --parquet years/
  duckdb -c \"SELECT workload, median(throughput) FROM read_parquet('years/points/*/*.parquet') GROUP BY 1\"

Nine tables, one file a table and day: years/points/date=2026-11-23/points.parquet. Exporting a run again
replaces its rows, or changes nothing. docs/records.md describes the columns, with ten questions in SQL.
Exit codes: 0 all were exported; 4 some could not be read; 2 the directory can't be written")]
pub struct ExportArgs {
    /// Directories of runs, runs by name, unique prefix or path, or files of `pgassay lines --json`
    #[arg(value_name = "RUN|DIR|FILE", required = true)]
    pub named: Vec<String>,
    /// The directory of the tables; made where it is not there
    #[arg(long, value_name = "DIR")]
    pub parquet: PathBuf,
    /// A name for the host on which these were measured, for tables of many
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// Leave out, without reading them, complete runs that the tables have
    #[arg(long)]
    pub new: bool,
}

//! `pgassay workload statistics`: a database's schema and statistics, without a row of it.

use std::fs;

use anyhow::bail;
use pgassay_model::Failure;
use pgassay_pgwire::Conninfo;
use pgassay_server::TargetSpec;
use pgassay_server::copies::Wanted;
use pgassay_server::schema::Schema;
use pgassay_synthetic::anonymise;
use pgassay_synthetic::described::Described;
use pgassay_sys::stop::Stop;
use pgassay_text::number::{count, counted};

use super::described::describe;
use crate::cli::workload::StatisticsArgs;
use crate::commands::files::to_file;
use crate::commands::record;
use crate::exit::{Exit, explain};
use crate::held::statistics::{AFTER, BEFORE, DATABASE, STATISTICS};
use crate::terminal::Terminal;

/// Reads a database's schema and statistics into a directory.
///
/// # Errors
/// Where the database can't be read or has no statistics, or the directory can't be written.
pub fn statistics(
    args: &StatisticsArgs,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Exit> {
    if args.to.exists() && !args.force {
        return Err(
            Failure::usage(format!("{} exists already", args.to.display()))
                .with_remedy("name another with --to, or overwrite it with --force")
                .into(),
        );
    }
    let spec: TargetSpec = args.target.parse().map_err(explain)?;
    let TargetSpec::Server(text) = spec else {
        bail!(
            Failure::usage("statistics are taken from a running server")
                .with_remedy("name its URI or conninfo: 'host=/var/run/postgresql dbname=app'")
        );
    };
    let conninfo = Conninfo::parse(&text).map_err(|error| Failure::usage(error.to_string()))?;
    let kept = match args.anonymise {
        true => "texts among them replaced",
        false => "texts among them as they are (--anonymise replaces them)",
    };
    terminal.announce(&format!(
        "to {}: the schema, and of each column what pg_stats says, which holds values of the data, {kept}; no row is read",
        args.to.display()
    ));
    let mut session = pgassay_pgwire::connect(&conninfo.observing())?;
    let mut described = describe(&mut session, stop)?;
    drop(session);
    described.original = record::shown(&text);
    described.share = args.share;
    described.seed = args.seed;
    if described.tables.is_empty() {
        bail!(
            Failure::target("the database has no table with statistics that this role may read")
                .with_remedy(
                    "ANALYZE it first, and connect as a role that may SELECT from its tables"
                )
        );
    }
    if args.anonymise {
        anonymise::texts(&mut described);
    }
    let wanted = Wanted {
        original: &text,
        servers: &[],
        installations: &[],
        scratch: None,
        stop: stop.flag(),
    };
    let schema = Schema::take(&wanted).map_err(explain)?;
    write(args, &described, &schema)?;
    terminal.print(&said(&described))?;
    Ok(Exit::Done)
}

fn write(args: &StatisticsArgs, described: &Described, schema: &Schema) -> anyhow::Result<()> {
    fs::create_dir_all(&args.to).map_err(|error| {
        Failure::usage(format!("cannot make {}: {error}", args.to.display()))
            .with_remedy("name another directory with --to")
    })?;
    let mut json = serde_json::to_string_pretty(described)?;
    json.push('\n');
    let mut database = serde_json::to_string_pretty(&schema.database)?;
    database.push('\n');
    for (name, text) in [
        (BEFORE, &schema.before),
        (AFTER, &schema.after),
        (STATISTICS, &json),
        (DATABASE, &database),
    ] {
        to_file(&args.to.join(name), "--to", text)?;
    }
    Ok(())
}

fn said(described: &Described) -> String {
    let points = || {
        described
            .tables
            .iter()
            .flat_map(|table| &table.columns)
            .flat_map(|column| &column.points)
    };
    let common = points().filter(|point| point.share.is_some()).count() as u64;
    let bounds = points().filter(|point| point.bounds > 0).count() as u64;
    let columns: u64 = described
        .tables
        .iter()
        .map(|table| table.columns.len() as u64)
        .sum();
    let rows: u64 = described
        .tables
        .iter()
        .map(|table| table.scaled(described.share))
        .sum();
    let bytes: f64 = described
        .tables
        .iter()
        .map(|table| made_bytes(described, table))
        .sum();
    let mut text = format!(
        "stored: {} with {}, {} of them among the most common and {} bounds of histograms\n\
         made from it: {} rows in {}, about {} MB with indexes\n",
        counted(columns, "column"),
        counted(points().count() as u64, "value"),
        count(common),
        count(bounds),
        count(rows),
        counted(described.tables.len() as u64, "table"),
        count((bytes / 1e6).ceil() as u64),
    );
    for lack in &described.lacks {
        text.push_str(&format!("not like the original: {lack}\n"));
    }
    text
}

/// About as many bytes as a table's rows will take.
fn made_bytes(described: &Described, table: &pgassay_synthetic::described::Table) -> f64 {
    table.bytes as f64 * table.scaled(described.share) as f64 / table.rows.max(1) as f64
}

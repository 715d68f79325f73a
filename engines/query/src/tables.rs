//! The tables of a directory: `TABLE/date=YYYY-MM-DD/TABLE.parquet`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{
    ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl,
};
use datafusion::error::{DataFusionError, Result};
use datafusion::prelude::SessionContext;
use url::Url;

/// The tables that `pgassay export` writes; crates/results/records describes them.
pub(crate) const TABLES: [&str; 12] = [
    "runs", "servers", "settings", "points", "trials", "metrics", "pairs", "findings", "hosts", "audits", "traits", "lines",
];

/// The files of a table, a day each, in their order.
pub(crate) fn files(dir: &Path, table: &str) -> Vec<PathBuf> {
    let days = fs::read_dir(dir.join(table))
        .into_iter()
        .flatten()
        .flatten();
    let dated = days.filter(|day| day.file_name().as_encoded_bytes().starts_with(b"date="));
    let mut files: Vec<PathBuf> = dated
        .map(|day| day.path().join(format!("{table}.parquet")))
        .filter(|file| file.exists())
        .collect();
    files.sort();
    files
}

/// Makes a table known by its name, if it is one of ours: all columns that any of its files has.
pub(crate) async fn register(context: &SessionContext, dir: &Path, name: &str) -> Result<()> {
    if !TABLES.contains(&name) || context.table_exist(name)? {
        return Ok(());
    }
    let files = files(dir, name);
    if files.is_empty() {
        return Err(DataFusionError::Plan(format!(
            "no file of the table {name} is in {}",
            dir.display()
        )));
    }
    // DataFusion passes over empty files, of which there are none unless something went wrong.
    if let Some(empty) = files
        .iter()
        .find(|file| file.metadata().is_ok_and(|of| of.len() == 0))
    {
        return Err(DataFusionError::Execution(format!(
            "{} is empty",
            empty.display()
        )));
    }
    let of = Url::from_directory_path(dir.join(name));
    let of = of.map_err(|()| DataFusionError::Plan(format!("{}: no path", dir.display())))?;
    let url = ListingTableUrl::try_new(of, None)?.with_glob(&format!("{name}.parquet"))?;
    let options = ListingOptions::new(Arc::new(ParquetFormat::default()))
        .with_file_extension(".parquet")
        .with_table_partition_cols(vec![("date".to_owned(), DataType::Date32)]);
    let schema = options.infer_schema(&context.state(), &url).await?;
    let config = ListingTableConfig::new(url)
        .with_listing_options(options)
        .with_schema(schema);
    context.register_table(name, Arc::new(ListingTable::try_new(config)?))?;
    Ok(())
}

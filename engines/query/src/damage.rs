//! Which file of the tables can't be read: engines say what is wrong, and often not with which.

use std::fs::File;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;

use datafusion::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::tables;

/// Rows that are in memory at a time.
const ROWS: usize = 1024;

/// The first damaged file of the tables that were named, and what is wrong with it.
pub(crate) fn first(dir: &Path, named: &[String]) -> Option<String> {
    let known = named
        .iter()
        .filter(|name| tables::TABLES.contains(&name.as_str()));
    let mut files = known.flat_map(|name| tables::files(dir, name));
    files.find_map(|path| {
        let read = panic::catch_unwind(AssertUnwindSafe(|| read(&path)));
        let why = match read {
            Ok(Ok(())) => return None,
            Ok(Err(why)) => why,
            Err(_) => "its contents contradict its header".to_owned(),
        };
        let place = path.strip_prefix(dir).unwrap_or(&path);
        Some(format!("{}: {why}", place.display()))
    })
}

fn read(path: &Path) -> Result<(), String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let reader =
        ParquetRecordBatchReaderBuilder::try_new(file).map_err(|error| error.to_string())?;
    let batches = reader
        .with_batch_size(ROWS)
        .build()
        .map_err(|error| error.to_string())?;
    for batch in batches {
        batch.map_err(|error| error.to_string())?;
    }
    Ok(())
}

//! One Parquet file of one table: written a row group at a time, and read back so.

use std::collections::HashSet;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::column::reader::ColumnReader;
use parquet::data_type::{BoolType, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{Type, TypePtr};
use pgassay_sys::input;

use crate::columns::{Columns, Data};
use crate::decoding::decoding;
use crate::pages;
use crate::rows::VERSION;
use crate::schema::{Column, Kind, TableSpec, Value};

/// Rows of a row group: what is kept in memory of a table.
const GROUP: usize = 1 << 16;
/// Rows of a row group that are read: one is held in memory as a whole.
const MOST: usize = 16 * GROUP;
/// The key of the tables' version in a file's metadata.
const KEY: &str = "pgassay.records";
/// The key of the table's name.
const TABLE: &str = "pgassay.table";

fn field(column: &Column) -> Result<TypePtr> {
    let (physical, logical) = match column.kind {
        Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        Kind::Int => (Physical::INT64, None),
        Kind::Float => (Physical::DOUBLE, None),
        Kind::Bool => (Physical::BOOLEAN, None),
        Kind::Time => (
            Physical::INT64,
            Some(LogicalType::timestamp(true, TimeUnit::MICROS)),
        ),
    };
    let repetition = match column.nullable {
        true => Repetition::OPTIONAL,
        false => Repetition::REQUIRED,
    };
    let made = Type::primitive_type_builder(column.name, physical)
        .with_repetition(repetition)
        .with_logical_type(logical);
    Ok(Arc::new(made.build()?))
}

/// A file of a table that is being written.
pub(crate) struct Writing {
    file: SerializedFileWriter<File>,
    columns: Columns,
}

impl Writing {
    pub fn begin(file: File, spec: TableSpec) -> Result<Self> {
        let fields = spec.columns.iter().map(field).collect::<Result<_>>()?;
        let schema = Type::group_type_builder(spec.name).with_fields(fields);
        let known = |key: &str, value: String| KeyValue::new(key.to_owned(), value);
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            // By row group is what engines skip by; by page is a tenth of a small file.
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_offset_index_disabled(true)
            .set_created_by(concat!("pgassay version ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_key_value_metadata(Some(vec![
                known(KEY, VERSION.to_string()),
                known(TABLE, spec.name.to_owned()),
            ]));
        Ok(Self {
            file: SerializedFileWriter::new(
                file,
                Arc::new(schema.build()?),
                Arc::new(properties.build()),
            )?,
            columns: Columns::new(spec),
        })
    }

    /// Adds rows by what fills them in.
    pub fn add(&mut self, fill: impl FnOnce(&mut Columns)) -> Result<()> {
        fill(&mut self.columns);
        match self.columns.rows >= GROUP {
            true => self.flush(),
            false => Ok(()),
        }
    }

    /// Adds those rows of others whose run is to be kept.
    pub fn take(&mut self, others: &Columns, kept: &HashSet<String>) -> Result<()> {
        let run = others.spec.columns.iter().position(|c| c.name == "run");
        let mut taken = Ok(());
        others.each(|row| {
            let stays = match run.and_then(|run| row.get(run)) {
                Some(Value::Text(run)) => kept.contains(*run),
                _ => false,
            };
            if stays && taken.is_ok() {
                taken = self.add(|columns| columns.push(row));
            }
        });
        taken
    }

    fn flush(&mut self) -> Result<()> {
        if self.columns.rows == 0 {
            return Ok(());
        }
        let mut group = self.file.next_row_group()?;
        for column in &self.columns.columns {
            let Some(mut writer) = group.next_column()? else {
                return Err(ParquetError::General("a column too many".to_owned()));
            };
            let levels = column.levels();
            match &column.data {
                Data::Text(values) => writer
                    .typed::<ByteArrayType>()
                    .write_batch(values, levels, None)?,
                Data::Int(values) => writer
                    .typed::<Int64Type>()
                    .write_batch(values, levels, None)?,
                Data::Float(values) => writer
                    .typed::<DoubleType>()
                    .write_batch(values, levels, None)?,
                Data::Bool(values) => writer
                    .typed::<BoolType>()
                    .write_batch(values, levels, None)?,
            };
            writer.close()?;
        }
        group.close()?;
        self.columns = Columns::new(self.columns.spec);
        Ok(())
    }

    /// Writes what is left and the metadata; the file is whole then, though not synced.
    pub fn end(mut self) -> Result<()> {
        self.flush()?;
        self.file.close()?;
        Ok(())
    }
}

/// The version of the tables that a file was written with; none where it is no file of ours.
fn version(reader: &SerializedFileReader<File>) -> Option<i64> {
    let known = reader.metadata().file_metadata().key_value_metadata()?;
    let version = known.iter().find(|one| one.key == KEY)?;
    version.value.as_ref()?.parse().ok()
}

/// Why a file was not read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unread {
    /// It can't be opened or is damaged.
    #[error("{0}")]
    Damaged(String),
    /// A newer program wrote it.
    #[error("it has version {0} of the tables, and this program knows {VERSION}")]
    Newer(i64),
}

impl From<ParquetError> for Unread {
    fn from(error: ParquetError) -> Self {
        Self::Damaged(error.to_string())
    }
}

/// Opens a table's file, if this program knows its version of the tables.
fn open(path: &Path) -> std::result::Result<(SerializedFileReader<File>, File), Unread> {
    let refused = |error: std::io::Error| Unread::Damaged(error.to_string());
    let file = input::open(path).map_err(refused)?;
    let again = file.try_clone().map_err(refused)?;
    let reader = decoding(|| SerializedFileReader::new(again));
    let reader =
        reader.ok_or_else(|| Unread::Damaged("its metadata can't be decoded".to_owned()))??;
    match version(&reader) {
        Some(version) if version > VERSION => Err(Unread::Newer(version)),
        Some(_) => Ok((reader, file)),
        None => Err(Unread::Damaged("pgassay did not write it".to_owned())),
    }
}

/// Whether a file's header is one that this program knows.
pub(crate) fn understood(path: &Path) -> std::result::Result<(), Unread> {
    open(path).map(|_| ())
}

/// Reads the rows of a column in a row group, and says how many there were; none where it is of another type.
fn fill(
    group: &dyn RowGroupReader,
    at: usize,
    rows: usize,
    levels: Option<&mut Vec<i16>>,
    data: &mut Data,
) -> Result<Option<usize>> {
    let (read, ..) = match (group.get_column_reader(at)?, data) {
        (ColumnReader::ByteArrayColumnReader(mut of), Data::Text(values)) => {
            of.read_records(rows, levels, None, values)?
        }
        (ColumnReader::Int64ColumnReader(mut of), Data::Int(values)) => {
            of.read_records(rows, levels, None, values)?
        }
        (ColumnReader::DoubleColumnReader(mut of), Data::Float(values)) => {
            of.read_records(rows, levels, None, values)?
        }
        (ColumnReader::BoolColumnReader(mut of), Data::Bool(values)) => {
            of.read_records(rows, levels, None, values)?
        }
        _ => return Ok(None),
    };
    Ok(Some(read))
}

/// Reads a table's file, a row group at a time. Columns are found by name; those that the file has not
/// stay empty, if they may.
pub(crate) fn read(
    path: &Path,
    spec: TableSpec,
    mut each: impl FnMut(&Columns) -> std::result::Result<(), Unread>,
) -> std::result::Result<(), Unread> {
    let (reader, file) = open(path)?;
    let schema = reader.metadata().file_metadata().schema_descr_ptr();
    let names: Vec<&str> = schema
        .columns()
        .iter()
        .map(|column| column.name())
        .collect();
    for number in 0..reader.num_row_groups() {
        let group = reader.get_row_group(number)?;
        let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
        if rows > MOST {
            return Err(Unread::Damaged(format!("it has {rows} rows in a group")));
        }
        let mut columns = Columns::new(spec);
        columns.rows = rows;
        let mut left = pages::MOST_OF_GROUP;
        for (column, filled) in spec.columns.iter().zip(&mut columns.columns) {
            let Some(at) = names.iter().position(|name| *name == column.name) else {
                if !column.nullable {
                    return Err(Unread::Damaged(format!("it has no column {}", column.name)));
                }
                filled.levels = vec![0; rows];
                continue;
            };
            let described = schema.column(at);
            let levels = match (described.max_def_level(), described.max_rep_level()) {
                (0, 0) => None,
                (1, 0) => Some(&mut filled.levels),
                _ => {
                    let said = format!("its column {} is nested", column.name);
                    return Err(Unread::Damaged(said));
                }
            };
            pages::check(&file, group.metadata().column(at), &mut left).map_err(Unread::Damaged)?;
            let read = decoding(|| fill(group.as_ref(), at, rows, levels, &mut filled.data));
            let read = read.ok_or_else(|| {
                Unread::Damaged(format!("its column {} can't be decoded", column.name))
            })??;
            let Some(read) = read else {
                let said = format!("its column {} is of another type", column.name);
                return Err(Unread::Damaged(said));
            };
            if read != rows || (!column.nullable && filled.data.len() != rows) {
                let said = format!("its column {} is cut short", column.name);
                return Err(Unread::Damaged(said));
            }
            // A column that once could not be missing has no levels.
            if column.nullable && filled.levels.is_empty() {
                filled.levels = vec![1; rows];
            }
        }
        each(&columns)?;
    }
    Ok(())
}

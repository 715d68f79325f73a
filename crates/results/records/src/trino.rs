//! The tables as statements for Trino's Hive connector, which has to be told what DuckDB and Spark read from the files.

use crate::schema::{Kind, TableSpec};
use crate::tables::TABLES;

/// A column's type there. Hive's times have no zone; these are UTC.
fn type_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Time => "TIMESTAMP(6)",
        other => other.sql(),
    }
}

fn table(spec: &TableSpec) -> String {
    let name = spec.name;
    let columns: String = spec
        .columns
        .iter()
        .map(|column| format!("    {} {},\n", column.name, type_of(column.kind)))
        .collect();
    format!(
        "CREATE TABLE hive.pgassay.{name} (\n{columns}    date DATE\n) WITH (external_location = 'LOCATION/{name}', \
         format = 'PARQUET', partitioned_by = ARRAY['date']);\n\
         CALL hive.system.sync_partition_metadata('pgassay', '{name}', 'FULL');\n\n"
    )
}

/// What makes all tables of a directory there, with LOCATION for that.
pub fn trino() -> String {
    let mut text = "\
-- The tables of pgassay export, for Trino's Hive connector. LOCATION stands for the directory:
--
--     sed 's|LOCATION|s3://bucket/years|' trino.sql | trino
--
-- The catalog is named hive here, and has hive.timestamp-precision=MICROSECONDS. After each export the
-- calls of sync_partition_metadata make new days known.

CREATE SCHEMA IF NOT EXISTS hive.pgassay;

"
    .to_owned();
    for spec in TABLES {
        text += &table(spec);
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

//! Recorded runs as flat tables in Parquet files, for engines that read years of them.
//!
//! A table is a struct whose fields are its columns ([`tables`]); [`Rows`] are those of one run,
//! [`Rows::of`] takes them from its analysis, and [`Archive`] keeps them in a directory: one file a
//! table and day, replaced as a whole. `docs/records.md` is made from the same structs.

mod archive;
mod columns;
mod content;
mod decoding;
mod file;
mod hosts;
mod measured;
mod pages;
mod past;
mod queries;
mod rows;
mod schema;
pub mod tables;
mod trino;
mod values;

pub use archive::{Added, Archive, Error};
pub use hosts::{HOST_TABLES, Hosts, hosts};
pub use past::{Past, is_archive, past, understood};
pub use queries::{QUERIES, Query};
pub use rows::{Of, Rows, VERSION};
pub use schema::{Column, Kind, Table, TableSpec};
pub use tables::{TABLES, markdown};
pub use trino::trino;

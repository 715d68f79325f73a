//! What is known of a database without its rows.

use serde::{Deserialize, Serialize};

/// The document's schema.
pub const SCHEMA: &str = "pgassay/statistics/1";
/// Tables of no more rows keep all of them, whatever the share: they are what others refer to.
const SMALL: u64 = 1000;

/// A database's statistics, as of one moment.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
pub struct Described {
    /// [`SCHEMA`].
    pub schema: String,
    /// The database, without a password.
    pub original: String,
    /// Its server's version, as `server_version_num`.
    pub version_num: u32,
    /// Rows to be made, as a share of the original's.
    pub share: f64,
    /// Of what is drawn.
    pub seed: u64,
    /// Whether texts were replaced.
    pub anonymised: bool,
    /// The tables.
    pub tables: Vec<Table>,
    /// Partitioned tables that are not among them: their partitions are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partitioned: Vec<Partitioned>,
    /// What the data will not have, in sentences.
    pub lacks: Vec<String>,
}

/// A table.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
pub struct Table {
    /// Its schema.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// Rows of the original.
    pub rows: u64,
    /// Bytes of the original, with indexes.
    pub bytes: u64,
    /// The columns that are written.
    pub columns: Vec<Column>,
    /// The columns of each unique index that is neither partial nor on expressions.
    pub keys: Vec<Vec<String>>,
    /// Its foreign keys.
    pub foreign: Vec<Foreign>,
}

impl Table {
    /// Rows that are made of it.
    pub fn scaled(&self, share: f64) -> u64 {
        let scaled = (self.rows as f64 * share).round() as u64;
        scaled.max(self.rows.min(SMALL))
    }

    /// A column's place.
    pub fn place(&self, column: &str) -> Option<usize> {
        self.columns.iter().position(|c| c.name == column)
    }
}

/// A table whose rows are those of other tables.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
pub struct Partitioned {
    /// Its schema.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// Schema and name of each partition that has rows of its own.
    pub leaves: Vec<(String, String)>,
}

/// A column, as `pg_stats` has it.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type, as `format_type` has it; of a domain its base type.
    pub type_name: String,
    /// Whether it is an enumeration, whose values are part of the schema.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub enumerated: bool,
    /// NOT NULL.
    pub not_null: bool,
    /// The share of NULL.
    pub null_fraction: f64,
    /// `n_distinct`: a number, or if negative a share of the rows.
    pub distinct: f64,
    /// `avg_width`.
    pub width: f64,
    /// `correlation` of values and places of rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation: Option<f64>,
    /// Known values, in the order of the type.
    pub points: Vec<Point>,
    /// Of a text: the characters of known values in the order of its collation.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub alphabet: String,
}

/// A value that is known.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
pub struct Point {
    /// As text.
    pub value: String,
    /// The share of the rows that have it, if it is one of the most common.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// How often it is a bound of the histogram. One that is neither is known from a column that refers to this one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub bounds: u32,
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// A foreign key.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
pub struct Foreign {
    /// Its columns.
    pub columns: Vec<String>,
    /// The schema of the table that it refers to.
    pub schema: String,
    /// That table.
    pub table: String,
    /// The columns there.
    pub referenced: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_tables_keep_their_rows() {
        let of = |rows| Table {
            rows,
            ..Table::default()
        };
        assert_eq!(of(50).scaled(0.01), 50);
        assert_eq!(of(20_000).scaled(0.01), 1000);
        assert_eq!(of(1_000_000).scaled(0.01), 10_000);
        assert_eq!(of(7).scaled(1.0), 7);
    }
}

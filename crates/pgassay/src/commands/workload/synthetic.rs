//! What tables will hold whose data is made from statistics.

use std::collections::BTreeMap;
use std::path::Path;

use pgassay_statements::draw::{Column, Table};
use pgassay_synthetic::described;
use pgassay_synthetic::tables::SyntheticData;

use super::from_statements::{Name, Wanted};
use crate::held::statistics::Statistics;

/// What values are drawn from, of the tables that are described: rows as they will be.
///
/// # Errors
/// Where there are no statistics.
pub(super) fn tables(
    dir: &Path,
    wanted: &Wanted,
    samples: u32,
) -> anyhow::Result<BTreeMap<Name, Table>> {
    let statistics = Statistics::read(dir)?;
    let synthetic = SyntheticData::new(statistics.described());
    let mut tables = BTreeMap::new();
    for (at, table) in synthetic.tables().iter().enumerate() {
        let name = (table.schema.clone(), table.name.clone());
        let Some(columns) = wanted.get(&name) else {
            continue;
        };
        let rows = synthetic.count(at);
        let places: Vec<usize> = columns
            .iter()
            .filter_map(|column| table.place(column))
            .collect();
        let sample = synthetic.some(at, u64::from(samples)).into_iter();
        let sample = sample
            .map(|row| places.iter().map(|place| row[*place].clone()).collect())
            .collect();
        let known = places.iter().map(|place| &table.columns[*place]);
        let found = known.map(|column| (column.name.clone(), drawn(table, column, rows)));
        let known = Table {
            rows: rows as f64,
            columns: found.collect(),
            unique: table.keys.clone(),
            sample,
        };
        tables.insert(name, known);
    }
    Ok(tables)
}

/// Numbers are drawn from the whole range where it has no holes; else those of the sample are there for sure.
fn drawn(table: &described::Table, column: &described::Column, rows: u64) -> Column {
    let bounds = column
        .points
        .iter()
        .filter(|point| point.bounds > 0)
        .map(|point| point.value.clone());
    let bounds: Vec<String> = bounds.collect();
    let number = |bound: Option<&String>| bound.and_then(|bound| bound.parse::<i64>().ok());
    let range = number(bounds.first()).zip(number(bounds.last()));
    let unique = table.keys.iter().any(|key| *key == [column.name.clone()]);
    let is_dense = range.is_some_and(|(low, high)| {
        high.saturating_sub(low) < i64::try_from(rows).unwrap_or(i64::MAX)
    });
    Column {
        type_name: column
            .type_name
            .split('(')
            .next()
            .unwrap_or_default()
            .to_owned(),
        bounds: if unique && is_dense {
            bounds
        } else {
            Vec::new()
        },
        has_common: false,
    }
}

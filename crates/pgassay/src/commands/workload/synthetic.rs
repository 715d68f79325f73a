//! What tables will hold whose data is made from statistics.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use pgassay_statements::draw::{Column, Table};
use pgassay_synthetic::described;
use pgassay_synthetic::tables::SyntheticData;

use super::tables::{Name, Wanted};
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
    let described = statistics.described();
    let mut tables = BTreeMap::new();
    let mut places = BTreeMap::new();
    for (at, table) in synthetic.tables().iter().enumerate() {
        let name = (table.schema.clone(), table.name.clone());
        if let Some(columns) = wanted.get(&name) {
            let samples = u64::from(samples);
            tables.insert(name.clone(), known(&synthetic, at, columns, samples));
        }
        places.insert(name, at);
    }
    for whole in &described.partitioned {
        let name = (whole.schema.clone(), whole.name.clone());
        let Some(columns) = wanted.get(&name) else {
            continue;
        };
        let leaves: Vec<usize> = whole
            .leaves
            .iter()
            .filter_map(|leaf| places.get(leaf).copied())
            .collect();
        let all: u64 = leaves.iter().map(|at| synthetic.count(*at)).sum();
        let parts = leaves.into_iter().map(|at| {
            let rows = u128::from(synthetic.count(at)) * u128::from(samples);
            let rows = rows.div_ceil(u128::from(all.max(1)));
            known(&synthetic, at, columns, rows as u64)
        });
        if let Some(together) = parts.reduce(joined) {
            tables.insert(name, together);
        }
    }
    Ok(tables)
}

fn known(
    synthetic: &SyntheticData<'_>,
    at: usize,
    columns: &BTreeSet<String>,
    samples: u64,
) -> Table {
    let table = &synthetic.tables()[at];
    let rows = synthetic.count(at);
    let places: Vec<usize> = columns
        .iter()
        .filter_map(|column| table.place(column))
        .collect();
    let sample = synthetic.some(at, samples).into_iter();
    let sample = sample
        .map(|row| places.iter().map(|place| row[*place].clone()).collect())
        .collect();
    let known = places.iter().map(|place| &table.columns[*place]);
    let found = known.map(|column| (column.name.clone(), drawn(table, column, rows)));
    Table {
        rows: rows as f64,
        columns: found.collect(),
        unique: table.keys.clone(),
        sample,
    }
}

/// The rows of two partitions. A range of numbers is one partition's own.
fn joined(mut one: Table, other: Table) -> Table {
    one.rows += other.rows;
    one.sample.extend(other.sample);
    for column in one.columns.iter_mut().map(|(_, column)| column) {
        column.bounds.clear();
    }
    one
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

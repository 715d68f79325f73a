//! Rows divided among values so that no value has more of them than it may.

use crate::domain::Domain;

/// How many of a group's rows each value of a domain gets: as its frequency says, but no more than `most`.
#[derive(Debug, Clone)]
pub struct Spread {
    /// For each cell: where it begins, the rows of each of its values, and its first value.
    cells: Vec<(f64, f64, u64, u64)>,
    all: f64,
}

/// Where a row of a group falls.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fallen {
    /// The value, by number.
    pub value: u64,
    /// The how manieth row of this value it is in the group.
    pub nth: u64,
    /// How many rows of the group the value has.
    pub of: u64,
}

impl Spread {
    /// Of a group of so many rows.
    pub fn new(domain: &Domain, group: u64, most: f64) -> Self {
        let weight = |rows: u64, count: u64| rows as f64 / count.max(1) as f64;
        let mut weights: Vec<(f64, f64)> = domain
            .cells()
            .iter()
            .map(|cell| (weight(cell.rows, cell.count), cell.count as f64))
            .collect();
        weights.sort_by(|a, b| b.0.total_cmp(&a.0));
        // Those that are at the most leave the rest to the others, in proportion.
        let mut left = group as f64;
        let mut mass: f64 = weights.iter().map(|(weight, count)| weight * count).sum();
        let mut factor = 0.0;
        for (weight, count) in weights {
            factor = if mass > 0.0 { left / mass } else { 0.0 };
            if weight * factor <= most {
                break;
            }
            left -= most * count;
            mass -= weight * count;
            factor = f64::INFINITY;
        }
        let mut at = 0.0;
        let mut cells = Vec::with_capacity(domain.cells().len());
        for cell in domain.cells() {
            let weight = weight(cell.rows, cell.count);
            let each = if weight > 0.0 {
                (weight * factor).min(most)
            } else {
                0.0
            };
            cells.push((at, each, cell.first, cell.count));
            at += each * cell.count as f64;
        }
        Self { cells, all: at }
    }

    /// Where the row falls, with `start` between 0 and 1 as the place of the first; none where the values
    /// can't hold so many.
    pub fn at(&self, row: u64, start: f64) -> Option<Fallen> {
        let place = row as f64 + start;
        if place >= self.all {
            return None;
        }
        let at = self
            .cells
            .partition_point(|(begin, ..)| *begin <= place)
            .checked_sub(1)?;
        // Of cells without rows, which begin where the next does, the last is meant.
        let (begin, each, first, count) = self.cells[at];
        let n = (((place - begin) / each) as u64).min(count.saturating_sub(1));
        // The first row at or after a place.
        let row_at = |place: f64| (place - start).ceil().max(0.0) as u64;
        let from = row_at(begin + each * n as f64);
        let to = row_at((begin + each * (n + 1) as f64).min(self.all));
        Some(Fallen {
            value: first + n,
            nth: row.saturating_sub(from),
            of: to.saturating_sub(from).max(1),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::described::Point;
    use crate::parts::Wanted;
    use crate::scale::{Number, Scale};

    fn lines() -> Domain {
        // As many lines an order as 5 to 15, each equally often: line n has P(lines >= n) / 10 of the rows.
        let points = (1..=15u32).map(|n| Point {
            value: format!("{n:02}"),
            share: Some(f64::from((16 - n).min(11)) / 11.0 / 10.0),
            bounds: 0,
        });
        let wanted = Wanted {
            points: points.collect(),
            scale: Scale::Number(Number::Integer),
            all_rows: 110_000,
            rows: 110_000,
            distinct: 15,
            unique: false,
        };
        Domain::new(wanted, None)
    }

    #[test]
    fn in_a_group_no_value_comes_twice_and_frequencies_are_kept() {
        let domain = lines();
        let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
        let spread = Spread::new(&domain, 10, 1.0);
        for group in 0..1000u64 {
            let start = 0.05 + 0.9 * crate::order::share(group);
            let mut values: Vec<u64> = (0..10)
                .map(|row| spread.at(row, start).unwrap().value)
                .collect();
            values
                .iter()
                .for_each(|value| *counts.entry(*value).or_default() += 1);
            values.dedup();
            assert_eq!(values.len(), 10);
        }
        for (value, count) in counts {
            let expected = 1000.0 * (15.0 - value as f64).min(11.0) / 11.0;
            assert!(
                (count as f64 - expected).abs() < 60.0,
                "{value}: {count} for {expected}"
            );
        }
    }

    #[test]
    fn a_full_product_is_filled() {
        let domain = lines();
        let spread = Spread::new(&domain, 15, 1.0);
        let values: Vec<u64> = (0..15)
            .map(|row| spread.at(row, 0.4).unwrap().value)
            .collect();
        assert_eq!(values, (0..15).collect::<Vec<_>>());
        assert_eq!(Spread::new(&domain, 20, 1.0).at(15, 0.4), None);
        let runs = Spread::new(&domain, 150, 10.0);
        for row in 0..150 {
            let fallen = runs.at(row, 0.5).unwrap();
            assert_eq!(
                (fallen.value, fallen.nth, fallen.of),
                (row / 10, row % 10, 10)
            );
        }
    }
}

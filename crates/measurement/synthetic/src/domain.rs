//! The values of a column: the known ones in their order, made-up ones between them, and how many rows each has.

use std::collections::HashMap;
use std::sync::Arc;

use crate::described::Point;
use crate::order::of_texts;
use crate::parts::{Wanted, parts, prepare};
use crate::scale::{Number, Scale};

/// A column's values, by number from 0 in the order of its type.
#[derive(Debug, Clone)]
pub struct Domain {
    scale: Scale,
    /// The domain whose values these are, for a column that refers to another; the own ones are numbers there.
    parent: Option<Arc<Domain>>,
    cells: Vec<Cell>,
    distinct: u64,
    rows: u64,
    known: HashMap<String, u64>,
    /// The domains that this one is put together of, each with the number of its first value.
    joined: Vec<(u64, Arc<Domain>)>,
}

/// One known value, or made-up ones between two.
#[derive(Debug, Clone)]
pub struct Cell {
    low: String,
    /// `None` for the known value itself.
    high: Option<String>,
    /// The number of its first value.
    pub first: u64,
    /// How many values.
    pub count: u64,
    /// The rank of its first row.
    pub start: u64,
    /// How many rows, of all its values.
    pub rows: u64,
}

impl Domain {
    /// Makes it.
    pub fn new(mut wanted: Wanted, parent: Option<Arc<Domain>>) -> Self {
        prepare(&mut wanted);
        let parts = parts(&wanted);
        let (mut first, mut start, mut sum) = (0, 0, 0.0);
        let mut cells = Vec::with_capacity(parts.len());
        for part in parts {
            let end = if wanted.unique {
                start + part.count
            } else {
                sum += part.rows;
                (sum.round() as u64).min(wanted.rows)
            };
            cells.push(Cell {
                low: part.low,
                high: part.high,
                first,
                count: part.count,
                start,
                rows: end - start,
            });
            first += part.count;
            start = end;
        }
        let mut domain = Self {
            scale: wanted.scale,
            parent,
            cells,
            distinct: first,
            rows: start,
            known: HashMap::new(),
            joined: Vec::new(),
        };
        let ones = domain.cells.iter().filter(|cell| cell.high.is_none());
        domain.known = ones
            .map(|cell| (domain.value(cell.first), cell.first))
            .collect();
        domain
    }

    /// The values of several, one domain behind the other: of a column of all partitions of a table. What more than
    /// one of them has is there more than once.
    pub fn joined(mut parts: Vec<Arc<Domain>>) -> Arc<Self> {
        if parts.len() == 1 {
            return parts.remove(0);
        }
        let scale = parts
            .first()
            .map_or(Scale::Number(Number::Integer), |part| {
                part.root().scale.clone()
            });
        // In the order of their values, where they have one.
        parts.sort_by(|a, b| {
            let (a, b) = (a.value(0), b.value(0));
            match scale.distance(&b, &a) {
                Some(ahead) => ahead.total_cmp(&0.0),
                None => a.cmp(&b),
            }
        });
        let mut whole = Self {
            scale,
            parent: None,
            cells: Vec::new(),
            distinct: 0,
            rows: 0,
            known: HashMap::new(),
            joined: Vec::with_capacity(parts.len()),
        };
        for part in parts {
            let moved = |cell: &Cell| Cell {
                first: cell.first + whole.distinct,
                start: cell.start + whole.rows,
                ..cell.clone()
            };
            whole.cells.extend(part.cells.iter().map(moved));
            let first = whole.distinct;
            whole.distinct += part.distinct;
            whole.rows += part.rows;
            whole.joined.push((first, part));
        }
        Arc::new(whole)
    }

    /// The number of a value of one of the domains that this one is put together of.
    pub fn number_in(&self, part: &Arc<Domain>, number: u64) -> u64 {
        let of = |(_, one): &&(u64, Arc<Domain>)| Arc::ptr_eq(one, part);
        self.joined.iter().find(of).map_or(0, |(first, _)| *first) + number
    }

    /// What tells a value from others: its number, or where values may be there more than once its text's hash.
    pub fn identity(&self, number: u64) -> u64 {
        match self.root().joined.is_empty() {
            true => number,
            false => of_texts(std::iter::once(self.value(number))),
        }
    }

    fn root(&self) -> &Self {
        let mut root = self;
        while let Some(parent) = &root.parent {
            root = parent;
        }
        root
    }

    /// So many numbers, each as often as another.
    pub fn numbers(count: u64, rows: u64) -> Self {
        let bound = |n: u64| Point {
            value: n.to_string(),
            share: None,
            bounds: 1,
        };
        let wanted = Wanted {
            points: if count > 1 {
                vec![bound(0), bound(count - 1)]
            } else {
                vec![bound(0)]
            },
            scale: Scale::Number(Number::Integer),
            all_rows: rows,
            rows,
            distinct: count,
            unique: false,
        };
        Self::new(wanted, None)
    }

    /// How many values it has.
    pub fn distinct(&self) -> u64 {
        self.distinct
    }

    /// How many rows have one of them.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Its cells.
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// The value of a rank, by number; none where there are fewer.
    pub fn of_rank(&self, rank: u64) -> Option<u64> {
        let at = self
            .cells
            .partition_point(|cell| cell.start + cell.rows <= rank);
        let cell = self.cells.get(at)?;
        let within =
            u128::from(rank - cell.start) * u128::from(cell.count) / u128::from(cell.rows.max(1));
        Some(cell.first + within as u64)
    }

    /// A value.
    pub fn value(&self, number: u64) -> String {
        if !self.joined.is_empty() {
            let at = self.joined.partition_point(|(first, _)| *first <= number);
            let (first, part) = &self.joined[at.saturating_sub(1)];
            return part.value(number - first);
        }
        let at = self
            .cells
            .partition_point(|cell| cell.first + cell.count <= number);
        let Some(cell) = self.cells.get(at) else {
            return String::new();
        };
        let own = match &cell.high {
            None => cell.low.clone(),
            Some(high) => self
                .scale
                .between(&cell.low, high, number - cell.first, cell.count),
        };
        match &self.parent {
            None => own,
            Some(parent) => parent.value(own.parse().unwrap_or(0)),
        }
    }

    /// The number of a value, or of one near it.
    pub fn near(&self, value: &str) -> u64 {
        if let Some(number) = self.known.get(value) {
            return *number;
        }
        if !self.joined.is_empty() {
            return self.near_of_joined(value);
        }
        let root = self.root();
        let is_before = |number: u64| {
            let there = self.value(number);
            match root.scale.distance(&there, value) {
                Some(distance) => distance > 0.0,
                None => there.as_str() < value,
            }
        };
        let (mut low, mut high) = (0, self.distinct.saturating_sub(1));
        while low < high {
            let middle = low + (high - low) / 2;
            match is_before(middle) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }

    /// The nearest of what each of the joined domains has; of texts the last that does not lie behind it.
    fn near_of_joined(&self, value: &str) -> u64 {
        let mut nearest: Option<(f64, u64)> = None;
        for (first, part) in &self.joined {
            let number = part.near(value);
            let there = part.value(number);
            let apart = match self.scale.distance(&there, value) {
                _ if there == value => 0.0,
                Some(distance) => distance.abs(),
                None if part.value(0).as_str() <= value => 1.0,
                None => 2.0,
            };
            if nearest.is_none_or(|(least, _)| apart <= least) {
                nearest = Some((apart, first + number));
            }
        }
        nearest.map_or(0, |(_, number)| number)
    }

    /// The shares of the rows that values have: each with how many have it.
    pub fn shares(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        let rows = self.rows.max(1) as f64;
        let with = self.cells.iter().filter(|cell| cell.count > 0);
        with.map(move |cell| {
            (
                cell.rows as f64 / cell.count as f64 / rows,
                cell.count as f64,
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(value: &str, share: Option<f64>, bounds: u32) -> Point {
        Point {
            value: value.to_owned(),
            share,
            bounds,
        }
    }

    fn wanted(points: Vec<Point>, rows: u64, distinct: u64, unique: bool) -> Wanted {
        Wanted {
            points,
            scale: Scale::Number(Number::Integer),
            all_rows: rows,
            rows,
            distinct,
            unique,
        }
    }

    fn made(wanted: Wanted) -> Domain {
        Domain::new(wanted, None)
    }

    fn values(domain: &Domain) -> Vec<String> {
        (0..domain.rows())
            .map(|rank| domain.value(domain.of_rank(rank).unwrap()))
            .collect()
    }

    #[test]
    fn unique_values_fill_their_range_and_go_beyond_a_sample() {
        let bounds = vec![
            point("3", None, 1),
            point("500", None, 1),
            point("998", None, 1),
        ];
        let domain = made(wanted(bounds, 1000, 0, true));
        let mut made: Vec<u64> = values(&domain).iter().map(|v| v.parse().unwrap()).collect();
        assert!(made.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(
            (made.remove(0), made.pop(), domain.distinct()),
            (1, Some(1000), 1000)
        );
    }

    #[test]
    fn common_values_have_their_share_and_bounds_are_quantiles() {
        let points = vec![
            point("0", None, 1),
            point("5", Some(0.25), 0),
            point("100", None, 1),
            point("1000", None, 1),
            point("1001", Some(0.35), 0),
        ];
        let domain = made(wanted(points, 10_000, 52, false));
        let made: Vec<i64> = values(&domain).iter().map(|v| v.parse().unwrap()).collect();
        let count = |value| made.iter().filter(|v| **v == value).count();
        assert_eq!((made.len(), count(5), count(1001)), (10_000, 2500, 3500));
        let below = made.iter().filter(|v| **v < 100 && **v != 5).count();
        assert!((1950..=2050).contains(&below), "{below}");
        let mut different = made.clone();
        different.dedup();
        assert_eq!(different.len(), 52);
        assert!(made.windows(2).all(|pair| pair[0] <= pair[1]));
    }

    #[test]
    fn a_narrow_gap_leaves_its_values_to_others() {
        let points = ["1", "2", "3", "1000"]
            .map(|value| point(value, None, 1))
            .to_vec();
        let domain = made(wanted(points, 3000, 303, false));
        assert_eq!(domain.distinct(), 303);
        let of_one = values(&domain).iter().filter(|value| *value == "1").count();
        assert_eq!(of_one, 1000);
    }

    #[test]
    fn those_that_refer_have_values_that_are_there() {
        let keys = vec![
            point("10", None, 1),
            point("77", None, 0),
            point("2000", None, 1),
        ];
        let keys = Arc::new(made(wanted(keys, 100, 0, true)));
        let at = keys.near("77");
        assert_eq!(keys.value(at), "77");
        let child = wanted(
            vec![
                point("0", None, 1),
                point(&at.to_string(), Some(0.5), 0),
                point("99", None, 1),
            ],
            1000,
            21,
            false,
        );
        let child = Domain::new(child, Some(Arc::clone(&keys)));
        let there: Vec<String> = (0..100).map(|n| keys.value(n)).collect();
        let made = values(&child);
        assert!(made.iter().all(|value| there.contains(value)));
        assert_eq!(made.iter().filter(|value| *value == "77").count(), 500);
        assert_eq!(child.distinct(), 21);
        assert!(child.near("1990") > 15);
    }

    #[test]
    fn nothing_known_is_made_up_and_too_few_are_thinned() {
        assert_eq!(made(wanted(Vec::new(), 50, 0, true)).distinct(), 50);
        let points: Vec<Point> = (0..10).map(|n| point(&n.to_string(), None, 1)).collect();
        let domain = made(wanted(points, 100, 3, false));
        assert_eq!((domain.distinct(), domain.rows()), (3, 100));
        let numbers = Domain::numbers(7, 21);
        let made = values(&numbers);
        assert_eq!(
            (made.len(), numbers.distinct(), made[3].as_str()),
            (21, 7, "1")
        );
    }
}

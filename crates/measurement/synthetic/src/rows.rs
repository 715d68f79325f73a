//! The rows of a table.
//!
//! A column has its own order, so that columns are independent but for keys: of a key of several columns each
//! row is one combination that no other has, and of a foreign key of several one that is there.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::described::Table;
use crate::domain::Domain;
use crate::order::{Order, hash, kept, of_texts, share};
use crate::spread::Spread;

/// The combinations that a foreign key of several columns refers to.
#[derive(Debug)]
pub struct Tuples {
    /// The domain of each column.
    pub domains: Vec<Arc<Domain>>,
    /// The values' numbers in them.
    pub rows: Vec<Vec<u64>>,
}

/// A foreign key of several columns, by their places.
#[derive(Debug, Clone)]
pub struct Reference {
    /// The columns.
    pub places: Vec<usize>,
    /// What they refer to.
    pub tuples: Arc<Tuples>,
}

/// What the rows of a table are made of.
#[derive(Debug, Clone)]
pub struct Made<'a> {
    /// The table.
    pub table: &'a Table,
    /// Its rows.
    pub rows: u64,
    /// The values of each column.
    pub domains: Vec<Arc<Domain>>,
    /// Foreign keys of several columns.
    pub references: Vec<Reference>,
    /// Of what is drawn.
    pub seed: u64,
}

/// The rows of a table, in their order.
#[derive(Debug)]
pub struct Rows<'a> {
    made: Made<'a>,
    key: Option<Key>,
    /// References that the key does not fill, each with the combinations by the values that are there before.
    later: Vec<Later>,
    singles: Vec<Single>,
    /// Unique keys that nothing else keeps so, and what was seen of them.
    watched: Vec<(Vec<usize>, HashSet<u64>)>,
    next: u64,
    /// Rows that were left out, as no combination was left for them.
    pub left_out: u64,
}

/// A unique key of several columns.
#[derive(Debug)]
struct Key {
    order: Order,
    levels: Vec<Level>,
}

/// One column of a key, or several that refer to a combination.
#[derive(Debug)]
struct Level {
    domain: Arc<Domain>,
    /// The column; or all columns of a reference, by its number.
    fills: Fills,
    /// Rows of one value at most, within a group.
    most: f64,
    spreads: HashMap<u64, Spread>,
}

#[derive(Debug, Clone)]
enum Fills {
    Column(usize),
    Reference(usize),
}

#[derive(Debug)]
struct Later {
    reference: usize,
    /// Places of the reference's columns that have values already, and of those that get them.
    given: Vec<usize>,
    open: Vec<usize>,
    by_given: HashMap<u64, Vec<u32>>,
    order: Order,
}

/// A column by itself.
#[derive(Debug)]
struct Single {
    column: usize,
    order: Order,
    /// Rows with a value that are still to come, of so many rows.
    left: u64,
    passed: u64,
}

/// Sizes of groups whose division is remembered, of each level.
const REMEMBERED: usize = 4096;

impl<'a> Rows<'a> {
    /// The rows.
    pub fn new(mut made: Made<'a>) -> Self {
        let table = made.table;
        let mut filled: Vec<usize> = Vec::new();
        let single: Vec<usize> = table
            .keys
            .iter()
            .filter(|key| key.len() == 1)
            .filter_map(|key| table.place(&key[0]))
            .collect();
        let several: Vec<Vec<usize>> = table
            .keys
            .iter()
            .filter(|key| key.len() > 1)
            .filter_map(|key| {
                key.iter()
                    .map(|column| table.place(column))
                    .collect::<Option<Vec<_>>>()
            })
            .filter(|key| !key.iter().any(|column| single.contains(column)))
            .collect();
        let key = several.first().map(|columns| Key::new(&made, columns));
        if let Some(key) = &key {
            for level in &key.levels {
                match level.fills {
                    Fills::Column(column) => filled.push(column),
                    Fills::Reference(at) => made.take_over(at, &mut filled),
                }
            }
        }
        let mut later = Vec::new();
        for at in 0..made.references.len() {
            if !key.as_ref().is_some_and(|key| key.has(at)) {
                later.push(Later::new(&made, at, &filled));
                made.take_over(at, &mut filled);
            }
        }
        // What a reference decides is not unique by itself.
        let by_reference = |column: &usize| {
            made.references
                .iter()
                .any(|reference| reference.places.contains(column))
        };
        let mut watched: Vec<Vec<usize>> = several.iter().skip(1).cloned().collect();
        watched.extend(
            single
                .iter()
                .filter(|column| by_reference(column))
                .map(|column| vec![*column]),
        );
        let open = (0..table.columns.len()).filter(|column| !filled.contains(column));
        let singles = open.map(|column| Single::new(&made, column)).collect();
        Self {
            key,
            later,
            singles,
            watched: watched
                .into_iter()
                .map(|columns| (columns, HashSet::new()))
                .collect(),
            next: 0,
            left_out: 0,
            made,
        }
    }

    /// The values of each column, of which rows have the numbers.
    pub fn domains(&self) -> &[Arc<Domain>] {
        &self.made.domains
    }

    /// The values' numbers of the next row, in the columns' domains; `None` for NULL.
    pub fn next_numbers(&mut self) -> Option<Vec<Option<u64>>> {
        while self.next < self.made.rows {
            let row = self.next;
            self.next += 1;
            let mut numbers = vec![None; self.made.table.columns.len()];
            for single in &mut self.singles {
                let seed = self.made.seed ^ hash(single.column as u64) ^ hash(row).rotate_left(7);
                numbers[single.column] = single.next(&self.made, row, seed);
            }
            if self.fill(row, &mut numbers) && self.is_whole(&numbers) && self.is_new(&numbers) {
                return Some(numbers);
            }
            self.left_out += 1;
        }
        None
    }

    /// Values of a row that could be one of these, without those before it.
    pub fn some_row(&mut self, row: u64) -> Option<Vec<Option<String>>> {
        let mut numbers = vec![None; self.made.table.columns.len()];
        for single in &self.singles {
            let (domain, rows) = (&self.made.domains[single.column], self.made.rows.max(1));
            let with = domain.rows();
            let is_null = share(hash(row) ^ single.column as u64) >= with as f64 / rows as f64;
            let at = (u128::from(row) * u128::from(with) / u128::from(rows)) as u64;
            numbers[single.column] = (!is_null)
                .then(|| domain.of_rank(single.order.rank(at)))
                .flatten();
        }
        (self.fill(row, &mut numbers) && self.is_whole(&numbers)).then(|| self.texts(&numbers))
    }

    /// The values themselves.
    pub fn texts(&self, numbers: &[Option<u64>]) -> Vec<Option<String>> {
        let columns = numbers.iter().zip(&self.made.domains);
        columns
            .map(|(number, domain)| number.map(|number| domain.value(number)))
            .collect()
    }

    /// Keys of several columns; false where no combination is left for the row.
    fn fill(&mut self, row: u64, numbers: &mut [Option<u64>]) -> bool {
        if let Some(key) = &mut self.key
            && !key.fill(row, &self.made, numbers)
        {
            return false;
        }
        self.later
            .iter()
            .all(|later| later.fill(row, &self.made, numbers))
    }

    fn is_whole(&self, numbers: &[Option<u64>]) -> bool {
        let columns = numbers.iter().zip(&self.made.table.columns);
        columns
            .into_iter()
            .all(|(number, column)| number.is_some() || !column.not_null)
    }

    fn is_new(&mut self, numbers: &[Option<u64>]) -> bool {
        let (seed, domains) = (self.made.seed, &self.made.domains);
        self.watched.iter_mut().all(|(columns, seen)| {
            let mut sum = seed;
            for column in columns.iter() {
                // A key with NULL is equal to none.
                let Some(number) = numbers[*column] else {
                    return true;
                };
                sum = hash(sum ^ domains[*column].identity(number));
            }
            seen.insert(sum)
        })
    }
}

impl Iterator for Rows<'_> {
    type Item = Vec<Option<String>>;

    fn next(&mut self) -> Option<Self::Item> {
        let numbers = self.next_numbers()?;
        Some(self.texts(&numbers))
    }
}

impl Made<'_> {
    /// The columns of a reference that have no values yet get those of what it refers to, by the same numbers.
    fn take_over(&mut self, reference: usize, filled: &mut Vec<usize>) {
        let Reference { places, tuples } = &self.references[reference];
        for (place, domain) in places.iter().zip(&tuples.domains) {
            if !filled.contains(place) {
                filled.push(*place);
                self.domains[*place] = Arc::clone(domain);
            }
        }
    }
}

impl Key {
    fn new(made: &Made<'_>, columns: &[usize]) -> Self {
        let mut levels: Vec<(f64, Level)> = Vec::new();
        let mut left: Vec<usize> = columns.to_vec();
        let level = |domain: Arc<Domain>, fills: Fills| Level {
            domain,
            fills,
            most: 1.0,
            spreads: HashMap::new(),
        };
        let correlation = |column: usize| made.table.columns[column].correlation.unwrap_or(0.0);
        for (at, reference) in made.references.iter().enumerate() {
            if reference.places.iter().all(|place| left.contains(place)) {
                left.retain(|column| !reference.places.contains(column));
                let count = reference.tuples.rows.len() as u64;
                let domain = Arc::new(Domain::numbers(count, made.rows.max(count)));
                levels.push((
                    correlation(reference.places[0]),
                    level(domain, Fills::Reference(at)),
                ));
            }
        }
        for column in left {
            levels.push((
                correlation(column),
                level(Arc::clone(&made.domains[column]), Fills::Column(column)),
            ));
        }
        // The one that the rows lie in the order of comes first, the one with the most values before others.
        levels.sort_by(|a, b| {
            let key =
                |one: &(f64, Level)| ((one.0.abs() * 20.0).round() as i64, one.1.domain.distinct());
            key(b).cmp(&key(a))
        });
        let (first, shares) = (levels[0].0, levels[0].1.domain.shares());
        let order = Order::new(made.rows, kept(first, shares), hash(made.seed ^ 0x6b65));
        let mut most = 1.0;
        for (_, level) in levels.iter_mut().rev() {
            level.most = most;
            most *= level.domain.distinct().max(1) as f64;
        }
        Self {
            order,
            levels: levels.into_iter().map(|(_, level)| level).collect(),
        }
    }

    fn has(&self, reference: usize) -> bool {
        self.levels
            .iter()
            .any(|level| matches!(level.fills, Fills::Reference(at) if at == reference))
    }

    fn fill(&mut self, row: u64, made: &Made<'_>, numbers: &mut [Option<u64>]) -> bool {
        let (mut nth, mut of) = (self.order.rank(row), made.rows);
        let mut seed = made.seed;
        for level in &mut self.levels {
            if level.spreads.len() > REMEMBERED {
                level.spreads.clear();
            }
            let spread = level
                .spreads
                .entry(of)
                .or_insert_with(|| Spread::new(&level.domain, of, level.most));
            // Off the ends, where rounding would decide.
            let start = 0.05 + 0.9 * share(seed);
            let Some(fallen) = spread.at(nth, start) else {
                return false;
            };
            match level.fills {
                Fills::Column(column) => numbers[column] = Some(fallen.value),
                Fills::Reference(at) => {
                    let reference = &made.references[at];
                    let Some(tuple) = reference.tuples.rows.get(fallen.value as usize) else {
                        return false;
                    };
                    for (place, number) in reference.places.iter().zip(tuple) {
                        numbers[*place] = Some(*number);
                    }
                }
            }
            seed = hash(seed ^ fallen.value);
            (nth, of) = (fallen.nth, fallen.of);
        }
        true
    }
}

impl Later {
    fn new(made: &Made<'_>, reference: usize, filled: &[usize]) -> Self {
        let Reference { places, tuples } = &made.references[reference];
        let (given, open): (Vec<usize>, Vec<usize>) =
            (0..places.len()).partition(|at| filled.contains(&places[*at]));
        let mut by_given: HashMap<u64, Vec<u32>> = HashMap::new();
        for (n, tuple) in tuples.rows.iter().enumerate() {
            let texts = given.iter().map(|at| tuples.domains[*at].value(tuple[*at]));
            by_given.entry(of_texts(texts)).or_default().push(n as u32);
        }
        let correlation = made.table.columns[places[0]].correlation.unwrap_or(0.0);
        let seed = hash(made.seed ^ hash(reference as u64 + 99));
        let kept = match given.is_empty() {
            true => kept(correlation, std::iter::empty()),
            false => 0.0,
        };
        Self {
            reference,
            given,
            open,
            by_given,
            order: Order::new(made.rows, kept, seed),
        }
    }

    fn fill(&self, row: u64, made: &Made<'_>, numbers: &mut [Option<u64>]) -> bool {
        let Reference { places, tuples } = &made.references[self.reference];
        let column = |at: &usize| &made.table.columns[places[*at]];
        // One NULL, and the key refers to nothing.
        let nulls = self
            .open
            .iter()
            .map(|at| column(at).null_fraction)
            .fold(0.0, f64::max);
        let nullable = self.open.iter().any(|at| !column(at).not_null);
        if nullable && share(hash(row) ^ made.seed ^ self.reference as u64) < nulls {
            return true;
        }
        let mut given = Vec::with_capacity(self.given.len());
        for at in &self.given {
            match numbers[places[*at]] {
                Some(number) => given.push(made.domains[places[*at]].value(number)),
                None => return true,
            }
        }
        let Some(candidates) = self.by_given.get(&of_texts(given.into_iter())) else {
            return nullable;
        };
        let rank = u128::from(self.order.rank(row));
        let at = (rank * candidates.len() as u128 / u128::from(made.rows.max(1))) as usize;
        let Some(tuple) = candidates
            .get(at)
            .and_then(|n| tuples.rows.get(*n as usize))
        else {
            return false;
        };
        for at in &self.open {
            numbers[places[*at]] = Some(tuple[*at]);
        }
        true
    }
}

impl Single {
    fn new(made: &Made<'_>, column: usize) -> Self {
        let domain = &made.domains[column];
        let correlation = made.table.columns[column].correlation.unwrap_or(0.0);
        let seed = hash(made.seed ^ hash(column as u64));
        Self {
            column,
            order: Order::new(domain.rows(), kept(correlation, domain.shares()), seed),
            left: domain.rows(),
            passed: 0,
        }
    }

    /// So that exactly as many rows have a value as have to.
    fn next(&mut self, made: &Made<'_>, row: u64, seed: u64) -> Option<u64> {
        let rows = made.rows - row;
        if self.left == 0 || (self.left < rows && share(seed) * rows as f64 >= self.left as f64) {
            return None;
        }
        self.left -= 1;
        self.passed += 1;
        made.domains[self.column].of_rank(self.order.rank(self.passed - 1))
    }
}

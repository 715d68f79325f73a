//! A database's tables made from what is known of it, with the values that foreign keys refer to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::described::{Described, Foreign, Point, Table};
use crate::domain::Domain;
use crate::order::hash;
use crate::parts::Wanted;
use crate::rows::{Made, Reference, Rows, Tuples};
use crate::scale::Scale;

/// Rows of a table whose combinations are kept in memory, as a foreign key of several columns refers to them.
const MOST_REFERRED: u64 = 20_000_000;

const UNKNOWN: &str = "the table that the foreign key refers to is not known, or is empty";

/// All tables.
#[derive(Debug)]
pub struct SyntheticData<'a> {
    described: &'a Described,
    made: Vec<Made<'a>>,
    /// Foreign keys that are not respected, in sentences.
    pub lacks: Vec<String>,
}

type Name<'a> = (&'a str, &'a str);

struct Making<'a> {
    described: &'a Described,
    /// The tables of each name: one, or the partitions of a table.
    tables: BTreeMap<Name<'a>, Vec<usize>>,
    domains: BTreeMap<(usize, usize), Arc<Domain>>,
    lacks: Vec<String>,
}

impl<'a> SyntheticData<'a> {
    /// Makes the values of all columns, and the combinations that are referred to.
    pub fn new(described: &'a Described) -> Self {
        let named = described.tables.iter().enumerate();
        let mut tables: BTreeMap<Name<'a>, Vec<usize>> = named
            .map(|(at, table)| ((table.schema.as_str(), table.name.as_str()), vec![at]))
            .collect();
        for whole in &described.partitioned {
            let leaves = whole.leaves.iter();
            let leaves = leaves.filter_map(|(schema, name)| tables.get(&(&**schema, &**name)));
            // An empty one has no value to refer to.
            let leaves = leaves
                .flatten()
                .copied()
                .filter(|at| described.tables[*at].scaled(described.share) > 0);
            let leaves: Vec<usize> = leaves.collect();
            tables.insert((whole.schema.as_str(), whole.name.as_str()), leaves);
        }
        let mut making = Making {
            described,
            tables,
            domains: BTreeMap::new(),
            lacks: Vec::new(),
        };
        for table in &described.tables {
            let single = table
                .foreign
                .iter()
                .filter(|foreign| foreign.columns.len() == 1);
            for foreign in single {
                if making.of(foreign).is_empty() {
                    making.lacks.push(lack(table, foreign, UNKNOWN));
                }
            }
        }
        let mut made: Vec<Made<'a>> = Vec::new();
        for (at, table) in described.tables.iter().enumerate() {
            let domains =
                (0..table.columns.len()).map(|column| making.domain(at, column, &mut Vec::new()));
            made.push(Made {
                table,
                rows: table.scaled(described.share),
                domains: domains.collect(),
                references: Vec::new(),
                seed: hash(described.seed ^ hash(at as u64 + 1)),
            });
        }
        let mut state = vec![State::Open; made.len()];
        for at in 0..made.len() {
            making.refer(at, &mut made, &mut state);
        }
        Self {
            described,
            made,
            lacks: making.lacks,
        }
    }

    /// The tables.
    pub fn tables(&self) -> &'a [Table] {
        &self.described.tables
    }

    /// How many rows a table gets.
    pub fn count(&self, table: usize) -> u64 {
        self.made[table].rows
    }

    /// The rows of a table.
    pub fn rows(&self, table: usize) -> Rows<'a> {
        Rows::new(self.made[table].clone())
    }

    /// Some rows of a table, spread over it.
    pub fn some(&self, table: usize, rows: u64) -> Vec<Vec<Option<String>>> {
        let (all, mut made) = (self.count(table), self.rows(table));
        let wanted = rows.min(all);
        let at = |n: u64| (u128::from(n) * u128::from(all) / u128::from(wanted.max(1))) as u64;
        (0..wanted).filter_map(|n| made.some_row(at(n))).collect()
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    Open,
    Underway,
    Done,
}

impl<'a> Making<'a> {
    /// The tables that have the rows that a foreign key refers to.
    fn of(&self, foreign: &'a Foreign) -> &[usize] {
        let name = (foreign.schema.as_str(), foreign.table.as_str());
        self.tables.get(&name).map_or(&[], Vec::as_slice)
    }

    /// The columns of that name of these tables, if all have one.
    fn columns(&self, tables: &[usize], name: &str) -> Option<Vec<(usize, usize)>> {
        let place = |at: &usize| Some((*at, self.described.tables[*at].place(name)?));
        let columns: Option<Vec<_>> = tables.iter().map(place).collect();
        columns.filter(|columns| !columns.is_empty())
    }

    /// The values of a column; `path` is of those that refer to it and are being made.
    fn domain(
        &mut self,
        table: usize,
        column: usize,
        path: &mut Vec<(usize, usize)>,
    ) -> Arc<Domain> {
        if let Some(domain) = self.domains.get(&(table, column)) {
            return Arc::clone(domain);
        }
        path.push((table, column));
        let of = &self.described.tables[table];
        let described = &of.columns[column];
        let referred = of.foreign.iter().find_map(|foreign| {
            let [name] = foreign.columns.as_slice() else {
                return None;
            };
            let there = self.of(foreign);
            let columns = (*name == described.name)
                .then(|| self.columns(there, &foreign.referenced[0]))
                .flatten()?;
            let is_underway = columns.iter().any(|column| path.contains(column));
            (!is_underway).then_some(columns)
        });
        let parent = referred.map(|columns| {
            let parts = columns
                .into_iter()
                .map(|(there, place)| self.domain(there, place, path));
            Domain::joined(parts.collect())
        });
        path.pop();
        let all_rows = of.scaled(self.described.share);
        let nulls = if described.not_null {
            0.0
        } else {
            described.null_fraction.clamp(0.0, 1.0)
        };
        let rows = all_rows - (all_rows as f64 * nulls).round() as u64;
        let distinct = match described.distinct {
            share if share < 0.0 => (-share * all_rows as f64).round() as u64,
            number if number > 0.0 => number as u64,
            _ => rows,
        };
        let unique = of
            .keys
            .iter()
            .any(|key| key.len() == 1 && key[0] == described.name);
        let (points, scale) = match &parent {
            None => (described.points.clone(), Scale::of(described)),
            Some(parent) => (
                as_numbers(&described.points, parent),
                Scale::Number(crate::scale::Number::Integer),
            ),
        };
        let distinct = parent
            .as_ref()
            .map_or(distinct, |parent| distinct.min(parent.distinct()));
        let wanted = Wanted {
            points,
            scale,
            all_rows,
            rows,
            distinct,
            unique,
        };
        let made = Arc::new(Domain::new(wanted, parent));
        self.domains.insert((table, column), Arc::clone(&made));
        made
    }

    /// The combinations that a table's foreign keys of several columns refer to.
    fn refer(&mut self, at: usize, made: &mut [Made<'a>], state: &mut [State]) {
        if state[at] != State::Open {
            return;
        }
        state[at] = State::Underway;
        let table = &self.described.tables[at];
        for foreign in table
            .foreign
            .iter()
            .filter(|foreign| foreign.columns.len() > 1)
        {
            let lack = |why: &str| lack(table, foreign, why);
            let there = self.of(foreign).to_vec();
            if there.is_empty() {
                self.lacks.push(lack(UNKNOWN));
                continue;
            }
            let places: Option<Vec<usize>> = foreign
                .columns
                .iter()
                .map(|column| table.place(column))
                .collect();
            let referred: Option<Vec<Vec<(usize, usize)>>> = foreign
                .referenced
                .iter()
                .map(|column| self.columns(&there, column))
                .collect();
            let (Some(places), Some(referred)) = (places, referred) else {
                self.lacks
                    .push(lack("the foreign key has columns that are not made"));
                continue;
            };
            if there.iter().map(|at| made[*at].rows).sum::<u64>() > MOST_REFERRED {
                self.lacks.push(lack("a foreign key of several columns refers to too many rows; make a smaller share"));
                continue;
            }
            if there.iter().any(|at| state[*at] == State::Underway) {
                self.lacks
                    .push(lack("foreign keys of several columns go in a circle"));
                continue;
            }
            for at in &there {
                self.refer(*at, made, state);
            }
            let mut parts: Vec<Rows<'_>> = there
                .iter()
                .map(|at| Rows::new(made[*at].clone()))
                .collect();
            let domains: Vec<Arc<Domain>> = referred
                .iter()
                .map(|columns| {
                    let of = |(part, (_, place)): (&Rows<'_>, &(usize, usize))| {
                        Arc::clone(&part.domains()[*place])
                    };
                    Domain::joined(parts.iter().zip(columns).map(of).collect())
                })
                .collect();
            let mut tuples = Vec::new();
            for (n, part) in parts.iter_mut().enumerate() {
                while let Some(numbers) = part.next_numbers() {
                    let number = |(columns, domain): (&Vec<(usize, usize)>, &Arc<Domain>)| {
                        let place = columns[n].1;
                        Some(domain.number_in(&part.domains()[place], numbers[place]?))
                    };
                    let tuple: Option<Vec<u64>> =
                        referred.iter().zip(&domains).map(number).collect();
                    tuples.extend(tuple);
                }
            }
            let tuples = fewer(&made[at], &places, tuples);
            made[at].references.push(Reference {
                places,
                tuples: Arc::new(Tuples {
                    domains,
                    rows: tuples,
                }),
            });
        }
        state[at] = State::Done;
    }
}

fn lack(table: &Table, foreign: &Foreign, why: &str) -> String {
    let columns = foreign.columns.join(", ");
    format!("{}.{} ({columns}): {why}", table.schema, table.name)
}

/// Of the combinations as many as the referring table has different ones, by its column with the most values.
fn fewer(made: &Made<'_>, places: &[usize], tuples: Vec<Vec<u64>>) -> Vec<Vec<u64>> {
    let there = |at: usize| {
        tuples
            .iter()
            .map(|tuple| tuple[at])
            .collect::<BTreeSet<u64>>()
    };
    let Some(lead) = (0..places.len()).max_by_key(|at| there(*at).len()) else {
        return tuples;
    };
    let (values, wanted) = (there(lead), made.domains[places[lead]].distinct() as usize);
    if wanted >= values.len() {
        return tuples;
    }
    let is_kept = |at: usize| (at + 1) * wanted / values.len() > at * wanted / values.len();
    let kept: BTreeSet<u64> = values
        .iter()
        .enumerate()
        .filter(|(at, _)| is_kept(*at))
        .map(|(_, value)| *value)
        .collect();
    // Where the combination is part of a key, its rows have to have room.
    let column = |at: &usize| &made.table.columns[*at].name;
    let others = |key: &Vec<String>| {
        let others = key
            .iter()
            .filter(|name| !places.iter().any(|place| column(place) == *name));
        let others = others.filter_map(|name| made.table.place(name));
        others
            .map(|place| made.domains[place].distinct() as f64)
            .product::<f64>()
    };
    let is_in = |key: &&Vec<String>| places.iter().all(|place| key.contains(column(place)));
    let room = made
        .table
        .keys
        .iter()
        .filter(is_in)
        .map(others)
        .fold(f64::INFINITY, f64::min);
    let fewer: Vec<Vec<u64>> = tuples
        .iter()
        .filter(|tuple| kept.contains(&tuple[lead]))
        .cloned()
        .collect();
    match fewer.len() as f64 * room >= made.rows as f64 {
        true => fewer,
        false => tuples,
    }
}

/// Known values as numbers of the domain that they refer to.
fn as_numbers(points: &[Point], parent: &Domain) -> Vec<Point> {
    let mut numbers: BTreeMap<u64, Point> = BTreeMap::new();
    for point in points {
        let number = parent.near(&point.value);
        let there = numbers.entry(number).or_insert_with(|| Point {
            value: number.to_string(),
            ..Point::default()
        });
        there.bounds += point.bounds;
        if let Some(share) = point.share {
            there.share = Some(there.share.unwrap_or(0.0) + share);
        }
    }
    numbers.into_values().collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::described::Column;

    fn column(name: &str, distinct: f64, bounds: &[&str]) -> Column {
        Column {
            name: name.to_owned(),
            type_name: "integer".to_owned(),
            not_null: true,
            distinct,
            width: 4.0,
            correlation: Some(0.0),
            points: bounds
                .iter()
                .map(|value| Point {
                    value: (*value).to_owned(),
                    share: None,
                    bounds: 1,
                })
                .collect(),
            ..Column::default()
        }
    }

    fn table(
        name: &str,
        rows: u64,
        columns: Vec<Column>,
        keys: &[&[&str]],
        foreign: &[(&[&str], &str)],
    ) -> Table {
        let names = |names: &[&str]| {
            names
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<Vec<_>>()
        };
        Table {
            schema: "s".to_owned(),
            name: name.to_owned(),
            rows,
            columns,
            keys: keys.iter().map(|key| names(key)).collect(),
            foreign: foreign
                .iter()
                .map(|(columns, table)| Foreign {
                    columns: names(columns),
                    schema: "s".to_owned(),
                    table: (*table).to_owned(),
                    referenced: names(columns),
                })
                .collect(),
            ..Table::default()
        }
    }

    /// Warehouses, their districts, customers of these, orders of customers, lines of orders.
    fn shop() -> Described {
        let w = || column("w", 4.0, &["1", "4"]);
        let d = || column("d", 10.0, &["1", "10"]);
        let c = || column("c", 30.0, &["1", "30"]);
        let o = || column("o", 40.0, &["1", "40"]);
        let mut noted = column("note", 3.0, &["7", "9"]);
        (noted.not_null, noted.null_fraction) = (false, 0.25);
        let tables = vec![
            table(
                "line",
                14_000,
                vec![w(), d(), o(), column("n", 15.0, &["1", "15"]), noted],
                &[&["w", "d", "o", "n"]],
                &[(&["w", "d", "o"], "orders")],
            ),
            table(
                "orders",
                1600,
                vec![w(), d(), o(), c()],
                &[&["w", "d", "o"]],
                &[(&["w", "d", "c"], "customer")],
            ),
            table(
                "customer",
                1200,
                vec![w(), d(), c()],
                &[&["w", "d", "c"]],
                &[(&["w", "d"], "district")],
            ),
            table(
                "district",
                40,
                vec![w(), d()],
                &[&["w", "d"]],
                &[(&["w"], "warehouse")],
            ),
            table(
                "warehouse",
                4,
                vec![column("w", -1.0, &["1", "4"])],
                &[&["w"]],
                &[],
            ),
        ];
        Described {
            share: 1.0,
            seed: 5,
            tables,
            ..Described::default()
        }
    }

    fn all(synthetic: &SyntheticData<'_>, table: usize) -> Vec<Vec<Option<String>>> {
        let mut rows = synthetic.rows(table);
        let made: Vec<_> = rows.by_ref().collect();
        assert_eq!(rows.left_out, 0, "{table}");
        made
    }

    #[test]
    fn keys_are_unique_and_refer_to_what_is_there() {
        let described = shop();
        let synthetic = SyntheticData::new(&described);
        assert_eq!(synthetic.lacks, Vec::<String>::new());
        let some = |row: &Vec<Option<String>>, places: &[usize]| -> Vec<String> {
            places.iter().map(|at| row[*at].clone().unwrap()).collect()
        };
        let set = |table: usize, places: &[usize]| -> HashSet<Vec<String>> {
            all(&synthetic, table)
                .iter()
                .map(|row| some(row, places))
                .collect()
        };
        assert_eq!(all(&synthetic, 0).len(), 14_000);
        assert_eq!(set(0, &[0, 1, 2, 3]).len(), 14_000);
        assert_eq!(set(1, &[0, 1, 2]).len(), 1600);
        assert_eq!(set(2, &[0, 1, 2]).len(), 1200);
        assert_eq!(set(3, &[0, 1]).len(), 40);
        assert!(set(0, &[0, 1, 2]).is_subset(&set(1, &[0, 1, 2])));
        assert!(set(1, &[0, 1, 3]).is_subset(&set(2, &[0, 1, 2])));
        assert!(set(2, &[0, 1]).is_subset(&set(3, &[0, 1])));
        assert!(set(3, &[0]).is_subset(&set(4, &[0])));
        let nulls = all(&synthetic, 0)
            .iter()
            .filter(|row| row[4].is_none())
            .count();
        assert_eq!(nulls, 3500);
        let whole = all(&synthetic, 0);
        let known: HashSet<&Vec<Option<String>>> = whole.iter().collect();
        let picked = synthetic.some(0, 100);
        let keys: HashSet<Vec<String>> = known.iter().map(|row| some(row, &[0, 1, 2, 3])).collect();
        assert!(
            picked.len() == 100
                && picked
                    .iter()
                    .all(|row| keys.contains(&some(row, &[0, 1, 2, 3])))
        );
    }

    #[test]
    fn the_same_seed_gives_the_same_rows() {
        let (described, mut other) = (shop(), shop());
        assert_eq!(
            all(&SyntheticData::new(&described), 1),
            all(&SyntheticData::new(&shop()), 1)
        );
        other.seed = 6;
        assert_ne!(
            all(&SyntheticData::new(&described), 1),
            all(&SyntheticData::new(&other), 1)
        );
    }
}

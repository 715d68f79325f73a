//! Texts replaced by others of the same length, in the same order.

use std::collections::BTreeMap;

use crate::described::{Column, Described};
use crate::scale::Scale;
use crate::text::filler;

const LETTERS: &str = "abcdefghijklmnopqrstuvwxyz";
/// In the order of bytes; other collations have these differently.
const MORE: &str = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

type Names = BTreeMap<String, String>;

/// Replaces all known texts. Equal ones stay equal where a column refers to another. Numbers, dates, times, UUIDs, truth values and
/// enumerations stay; of other types no value is kept.
pub fn texts(described: &mut Described) {
    let mut names: BTreeMap<(String, String, String), Names> = BTreeMap::new();
    for table in &described.tables {
        for column in table
            .columns
            .iter()
            .filter(|column| matches!(Scale::of(column), Scale::Text(_)))
        {
            let at = (
                table.schema.clone(),
                table.name.clone(),
                column.name.clone(),
            );
            names.insert(at, replaced(column));
        }
    }
    for table in &mut described.tables {
        for column in &mut table.columns {
            let mut at = (
                table.schema.clone(),
                table.name.clone(),
                column.name.clone(),
            );
            // As often as there are tables: keys may refer in a circle.
            for foreign in table
                .foreign
                .iter()
                .filter(|foreign| foreign.columns == [at.2.clone()])
            {
                let there = (
                    foreign.schema.clone(),
                    foreign.table.clone(),
                    foreign.referenced[0].clone(),
                );
                if names.contains_key(&there) {
                    at = there;
                    break;
                }
            }
            match Scale::of(column) {
                Scale::Text(_) if column.type_name != "bytea" => {
                    let Some(names) = names.get(&at) else {
                        continue;
                    };
                    column
                        .points
                        .retain_mut(|point| match names.get(&point.value) {
                            Some(name) => {
                                point.value.clone_from(name);
                                true
                            }
                            None => false,
                        });
                    column.alphabet = LETTERS.to_owned();
                }
                Scale::Number(_) => {}
                _ if column.enumerated || is_plain(column) => {}
                _ => column.points.clear(),
            }
        }
    }
    described.anonymised = true;
}

/// Truth values, and what is written by figures alone: addresses, intervals.
fn is_plain(column: &Column) -> bool {
    let figures = |value: &str| {
        value
            .chars()
            .all(|c| c.is_ascii_digit() || " -:.+/".contains(c))
    };
    column.type_name == "boolean"
        || column.type_name == "interval"
        || column.points.iter().all(|point| figures(&point.value))
}

fn replaced(column: &Column) -> Names {
    let count = column.points.len() as u128 + 1;
    let limit = column
        .type_name
        .split_once('(')
        .and_then(|(_, rest)| rest.trim_end_matches(')').parse::<u32>().ok());
    let needed = |base: u128| {
        (1..=8u32)
            .find(|width| base.pow(*width) >= count)
            .unwrap_or(8)
    };
    let fits = limit.is_none_or(|limit| needed(26) <= limit);
    let letters: Vec<char> = if fits { LETTERS } else { MORE }.chars().collect();
    let base = letters.len() as u128;
    let width = needed(base).min(limit.unwrap_or(u32::MAX)).max(1);
    let mut names = Names::new();
    for (at, point) in column.points.iter().enumerate() {
        let mut code = (at as u128 + 1) * base.pow(width) / count;
        let mut name = vec![letters[0]; width as usize];
        for letter in name.iter_mut().rev() {
            *letter = letters[(code % base) as usize];
            code /= base;
        }
        let mut name: String = name.into_iter().collect();
        let length = point.value.chars().count();
        name.push_str(&filler(at as u64, length.saturating_sub(width as usize)));
        names.insert(point.value.clone(), name);
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::described::{Foreign, Point, Table};

    fn column(name: &str, type_name: &str, values: &[&str]) -> Column {
        let point = |value: &&str| Point {
            value: (*value).to_owned(),
            share: None,
            bounds: 1,
        };
        Column {
            name: name.to_owned(),
            type_name: type_name.to_owned(),
            points: values.iter().map(point).collect(),
            ..Column::default()
        }
    }

    #[test]
    fn no_text_is_left_and_keys_still_refer() {
        let parent = Table {
            schema: "s".to_owned(),
            name: "p".to_owned(),
            columns: vec![
                column("k", "text", &["Berlin", "Köln", "Paris"]),
                column("doc", "jsonb", &["{\"name\": \"Anna\"}"]),
                column("n", "integer", &["4711"]),
                column("flag", "character(1)", &["A", "N", "R"]),
                column("tags", "text[]", &["{secret}"]),
            ],
            ..Table::default()
        };
        let child = Table {
            schema: "s".to_owned(),
            name: "c".to_owned(),
            columns: vec![column("k", "text", &["Köln"])],
            foreign: vec![Foreign {
                columns: vec!["k".to_owned()],
                schema: "s".to_owned(),
                table: "p".to_owned(),
                referenced: vec!["k".to_owned()],
            }],
            ..Table::default()
        };
        let mut described = Described {
            tables: vec![parent, child],
            ..Described::default()
        };
        texts(&mut described);
        let values = |table: usize, column: usize| -> Vec<&str> {
            described.tables[table].columns[column]
                .points
                .iter()
                .map(|point| point.value.as_str())
                .collect()
        };
        let cities = values(0, 0);
        assert!(
            cities.windows(2).all(|pair| pair[0] < pair[1]),
            "{cities:?}"
        );
        assert_eq!(
            cities.iter().map(|city| city.len()).collect::<Vec<_>>(),
            [6, 4, 5]
        );
        assert_eq!(values(1, 0), [cities[1]]);
        assert_eq!(
            (values(0, 1).len(), values(0, 2), values(0, 4).len()),
            (0, vec!["4711"], 0)
        );
        assert!(values(0, 3).iter().all(|flag| flag.len() == 1));
        let all = format!("{described:?}");
        for secret in ["Berlin", "Köln", "Paris", "Anna", "secret"] {
            assert!(!all.contains(secret), "{secret}");
        }
    }
}

//! Values for parameters of which only the role is known: as the tables hold them.

use std::collections::BTreeMap;

use crate::conditions::{ColumnName, Comparison, Role};
use crate::template::Seen;
use crate::write::Source;

/// Values of an `= ANY` list at most.
const LONGEST_LIST: usize = 100;
/// Characters of a value that a LIKE pattern keeps.
const LIKE: usize = 3;
/// The share of a table in a range of which nothing is known: what the planner takes
/// (DEFAULT_RANGE_INEQ_SEL in PostgreSQL's selfuncs.h).
const RANGE: f64 = 0.005;
/// New keys begin here, above what generated tables have.
const NEW_KEYS: (i64, i64) = (1_500_000_000, 2_147_483_647);
/// The same of 64 bits.
const NEW_BIG_KEYS: (i64, i64) = (1 << 40, 1 << 60);

/// What is known of a table.
#[derive(Debug, Clone, Default)]
pub struct Table {
    /// About as many rows as it has.
    pub rows: f64,
    /// Its columns by name.
    pub columns: BTreeMap<String, Column>,
    /// The columns of each unique index.
    pub unique: Vec<Vec<String>>,
    /// Rows of it, each with the values of all columns in the order of their names.
    pub sample: Vec<Vec<Option<String>>>,
}

/// What is known of a column.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Column {
    /// Its type, as `format_type` has it.
    pub type_name: String,
    /// Bounds of its histogram, as texts; empty without statistics.
    pub bounds: Vec<String>,
    /// It has most common values.
    pub has_common: bool,
}

impl Column {
    fn whole(&self) -> Option<(i64, i64)> {
        match self.type_name.as_str() {
            "integer" => Some(NEW_KEYS),
            "bigint" => Some(NEW_BIG_KEYS),
            _ => None,
        }
    }
}

/// A statement whose parameters are to be drawn.
#[derive(Debug)]
pub struct Asked<'a> {
    /// The parameters' types, by number from 1.
    pub types: &'a [String],
    /// Their roles.
    pub roles: &'a BTreeMap<u32, Role>,
    /// Rows that an execution found, on average; none where it aggregates them.
    pub rows: Option<f64>,
    /// The tables by schema and name.
    pub tables: &'a BTreeMap<(String, String), Table>,
}

/// What the values are drawn from.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Drawing {
    /// The sources.
    pub sources: Vec<Source>,
    /// Parameters that have the same value in each execution, as nothing is known of them.
    pub constants: usize,
}

/// Why a statement's parameters can't be drawn.
pub type Unknown = String;

/// Draws values for all parameters.
///
/// # Errors
/// A parameter for which there is no value, or a key that would have to be new.
pub fn values(asked: &Asked<'_>) -> Result<Drawing, Unknown> {
    let mut drawing = Drawing::default();
    // By table, so that values of one row stay together.
    let mut together: BTreeMap<(String, String), Vec<(usize, String)>> = BTreeMap::new();
    let mut ranges: BTreeMap<ColumnName, (Vec<usize>, Vec<usize>)> = BTreeMap::new();
    let new_keys = new_keys(asked);
    for (n, type_name) in asked.types.iter().enumerate() {
        let role = asked.roles.get(&(n as u32 + 1));
        match role {
            Some(Role::Compared(column, how)) => match how {
                Comparison::Equal => take(&mut together, column, n),
                Comparison::Below => ranges.entry(column.clone()).or_default().1.push(n),
                Comparison::Above => ranges.entry(column.clone()).or_default().0.push(n),
                Comparison::Any => drawing.sources.push(list(asked, column, n)?),
                Comparison::Like => drawing.sources.push(like(asked, column, n)?),
                Comparison::Other => constant(&mut drawing, n, type_name)?,
            },
            Some(Role::Inserted(column)) if new_keys.contains(column) => {
                let (low, high) = table(asked, column)?
                    .columns
                    .get(&column.column)
                    .and_then(Column::whole)
                    .ok_or_else(|| format!("a new key of type {type_name} in {}", column.table))?;
                drawing.sources.push(Source::Expression {
                    variable: n,
                    text: format!("random({low}, {high})"),
                });
            }
            Some(Role::Inserted(column) | Role::Assigned(column)) => take(&mut together, column, n),
            Some(Role::Limit) => drawing.sources.push(Source::Expression {
                variable: n,
                text: (asked.rows.unwrap_or(1.0).ceil().max(1.0) as u64).to_string(),
            }),
            Some(Role::Offset) => drawing.sources.push(Source::Expression {
                variable: n,
                text: "0".to_owned(),
            }),
            None => constant(&mut drawing, n, type_name)?,
        }
    }
    for (name, variables) in together {
        drawing.sources.push(rows(asked, &name, &variables)?);
    }
    for (column, (above, below)) in ranges {
        range(asked, &column, &above, &below, &mut drawing)?;
    }
    Ok(drawing)
}

/// Columns of which a new row needs a value that no other has: one of each unique index that is given whole.
fn new_keys(asked: &Asked<'_>) -> Vec<ColumnName> {
    let inserted: Vec<&ColumnName> = asked
        .roles
        .values()
        .filter_map(|role| match role {
            Role::Inserted(column) => Some(column),
            _ => None,
        })
        .collect();
    let Some(first) = inserted.first() else {
        return Vec::new();
    };
    let Ok(table) = table(asked, first) else {
        return Vec::new();
    };
    let mut keys: Vec<ColumnName> = Vec::new();
    for index in &table.unique {
        let given: Vec<&&ColumnName> = inserted
            .iter()
            .filter(|column| index.contains(&column.column))
            .collect();
        let whole = |column: &&&&ColumnName| {
            table
                .columns
                .get(&column.column)
                .is_some_and(|c| c.whole().is_some())
        };
        if given.len() == index.len()
            && let Some(key) = given.iter().rfind(whole).or(given.last())
        {
            keys.push((**key).clone());
        }
    }
    keys
}

fn take(
    together: &mut BTreeMap<(String, String), Vec<(usize, String)>>,
    column: &ColumnName,
    variable: usize,
) {
    let of = together
        .entry((column.schema.clone(), column.table.clone()))
        .or_default();
    of.push((variable, column.column.clone()));
}

fn table<'a>(asked: &Asked<'a>, column: &ColumnName) -> Result<&'a Table, Unknown> {
    let key = (column.schema.clone(), column.table.clone());
    asked
        .tables
        .get(&key)
        .ok_or_else(|| format!("nothing is known of the table {}", column.table))
}

/// A column's values in the sample, without NULL.
fn sampled<'a>(asked: &Asked<'a>, column: &ColumnName) -> Result<Vec<&'a str>, Unknown> {
    let table = table(asked, column)?;
    let at = table.columns.keys().position(|name| *name == column.column);
    let at = at.ok_or_else(|| format!("{} has no column {}", column.table, column.column))?;
    let values: Vec<&str> = table
        .sample
        .iter()
        .filter_map(|row| row.get(at)?.as_deref())
        .collect();
    match values.is_empty() {
        true => Err(format!(
            "{} has no values in {}",
            column.table, column.column
        )),
        false => Ok(values),
    }
}

/// The ranges of a histogram of whole numbers, one of them as likely as another.
fn histogram(column: &Column) -> Option<Vec<(i64, i64)>> {
    column.whole()?;
    let bounds: Vec<i64> = column
        .bounds
        .iter()
        .map(|bound| bound.parse().ok())
        .collect::<Option<_>>()?;
    let ranges: Vec<(i64, i64)> = bounds.windows(2).map(|pair| (pair[0], pair[1])).collect();
    (!ranges.is_empty() && !column.has_common).then_some(ranges)
}

fn rows(
    asked: &Asked<'_>,
    name: &(String, String),
    variables: &[(usize, String)],
) -> Result<Source, Unknown> {
    let table = asked
        .tables
        .get(name)
        .ok_or_else(|| format!("nothing is known of the table {}", name.1))?;
    if let [(variable, column)] = variables
        && let Some(ranges) = table.columns.get(column).and_then(histogram)
    {
        return Ok(Source::Ranges {
            variable: *variable,
            ranges,
        });
    }
    let mut places = Vec::new();
    for (_, column) in variables {
        let at = table.columns.keys().position(|name| name == column);
        places.push(at.ok_or_else(|| format!("{} has no column {column}", name.1))?);
    }
    let row = |row: &Vec<Option<String>>| -> Vec<Seen> {
        let value = |at: &usize| Seen::parameter(row.get(*at).and_then(Option::as_deref));
        places.iter().map(value).collect()
    };
    // A comparison with NULL finds nothing.
    let is_compared = |variable: &usize| {
        matches!(
            asked.roles.get(&(*variable as u32 + 1)),
            Some(Role::Compared(..))
        )
    };
    let compared: Vec<bool> = variables
        .iter()
        .map(|(variable, _)| is_compared(variable))
        .collect();
    let finds = |row: &Vec<Seen>| {
        !row.iter()
            .zip(&compared)
            .any(|(value, compared)| *compared && *value == Seen::Null)
    };
    let rows: Vec<Vec<Seen>> = table.sample.iter().map(row).filter(finds).collect();
    if rows.is_empty() {
        return Err(format!("the table {} has no row to draw from", name.1));
    }
    Ok(Source::Rows {
        variables: variables.iter().map(|(variable, _)| *variable).collect(),
        rows,
    })
}

fn list(asked: &Asked<'_>, column: &ColumnName, variable: usize) -> Result<Source, Unknown> {
    let values = sampled(asked, column)?;
    let length =
        (asked.rows.unwrap_or(1.0).round() as usize).clamp(1, LONGEST_LIST.min(values.len()));
    let quoted = |value: &&str| format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""));
    let lists = values.windows(length).map(|list| {
        let list: Vec<String> = list.iter().map(quoted).collect();
        vec![Seen::Text(format!("{{{}}}", list.join(",")))]
    });
    Ok(Source::Rows {
        variables: vec![variable],
        rows: lists.collect(),
    })
}

fn like(asked: &Asked<'_>, column: &ColumnName, variable: usize) -> Result<Source, Unknown> {
    let values = sampled(asked, column)?;
    let pattern = |value: &&str| -> Vec<Seen> {
        let begin: String = value
            .chars()
            .filter(|c| !"%_\\".contains(*c))
            .take(LIKE)
            .collect();
        vec![Seen::Text(format!("{begin}%"))]
    };
    Ok(Source::Rows {
        variables: vec![variable],
        rows: values.iter().map(pattern).collect(),
    })
}

/// Bounds around as large a share of the column as the statement's rows are of the table.
fn range(
    asked: &Asked<'_>,
    column: &ColumnName,
    above: &[usize],
    below: &[usize],
    drawing: &mut Drawing,
) -> Result<(), Unknown> {
    let known = table(asked, column)?;
    let share = asked
        .rows
        .map_or(RANGE, |rows| rows / known.rows.max(1.0))
        .clamp(0.0, 1.0);
    let facts = known.columns.get(&column.column);
    if let (Some(facts), [low], [high]) = (facts, above, below)
        && let Some(ranges) = histogram(facts)
        && let (Some(first), Some(last)) = (ranges.first(), ranges.last())
    {
        let width = ((last.1 - first.0) as f64 * share).round() as i64;
        drawing.sources.push(Source::Ranges {
            variable: *low,
            ranges,
        });
        drawing.sources.push(Source::Expression {
            variable: *high,
            text: format!(":p{} + {width}", low + 1),
        });
        return Ok(());
    }
    // The sample comes sorted by nothing: ordered as numbers if they are, else as texts, which dates allow.
    let mut values = sampled(asked, column)?;
    let number = |text: &str| text.parse::<f64>().ok();
    if values.iter().all(|value| number(value).is_some()) {
        values.sort_by(|a, b| {
            number(a)
                .unwrap_or(0.0)
                .total_cmp(&number(b).unwrap_or(0.0))
        });
    } else {
        values.sort_unstable();
    }
    let width = (share * values.len() as f64).round() as usize;
    let pairs = values
        .iter()
        .enumerate()
        .map(|(at, low)| (*low, values[(at + width).min(values.len() - 1)]));
    let (mut variables, mut rows): (Vec<usize>, Vec<Vec<Seen>>) = (Vec::new(), Vec::new());
    variables.extend(above.iter().chain(below));
    for (low, high) in pairs {
        let low = above.iter().map(|_| Seen::parameter(Some(low)));
        let high = below.iter().map(|_| Seen::parameter(Some(high)));
        rows.push(low.chain(high).collect());
    }
    drawing.sources.push(Source::Rows { variables, rows });
    Ok(())
}

/// One value for a parameter that no column explains.
fn constant(drawing: &mut Drawing, variable: usize, type_name: &str) -> Result<(), Unknown> {
    let value = match type_name {
        "smallint" | "integer" | "bigint" | "numeric" | "real" | "double precision" | "oid" => {
            Seen::Number("1".to_owned())
        }
        "text" | "character varying" | "character" | "name" | "unknown" => {
            Seen::Text("x".to_owned())
        }
        "boolean" => Seen::Text("t".to_owned()),
        "interval" => Seen::Text("1 day".to_owned()),
        "date" | "timestamp without time zone" | "timestamp with time zone" => {
            Seen::Text("now".to_owned())
        }
        "json" | "jsonb" => Seen::Text("{}".to_owned()),
        other => {
            return Err(format!(
                "a parameter of type {other} that is compared with no column"
            ));
        }
    };
    drawing.constants += 1;
    drawing.sources.push(Source::Rows {
        variables: vec![variable],
        rows: vec![vec![value]],
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked_of(
        roles: &BTreeMap<u32, Role>,
        types: &[&str],
        rows: f64,
    ) -> Result<Drawing, Unknown> {
        let column = |type_name: &str, bounds: &[&str]| Column {
            type_name: type_name.to_owned(),
            bounds: bounds.iter().map(|b| (*b).to_owned()).collect(),
            has_common: false,
        };
        let table = Table {
            rows: 1000.0,
            columns: [
                ("city".to_owned(), column("text", &[])),
                ("id".to_owned(), column("integer", &["0", "100", "1000"])),
                ("name".to_owned(), column("text", &[])),
            ]
            .into(),
            unique: vec![vec!["id".to_owned()]],
            sample: (0..10)
                .map(|n| {
                    vec![
                        Some(format!("city {}", n % 2)),
                        Some((n * 7).to_string()),
                        (n > 0).then(|| format!("n{n}")),
                    ]
                })
                .collect(),
        };
        let tables = [(("public".to_owned(), "t".to_owned()), table)].into();
        let types: Vec<String> = types.iter().map(|t| (*t).to_owned()).collect();
        values(&Asked {
            types: &types,
            roles,
            rows: Some(rows),
            tables: &tables,
        })
    }

    fn name(column: &str) -> ColumnName {
        ColumnName {
            schema: "public".to_owned(),
            table: "t".to_owned(),
            column: column.to_owned(),
        }
    }

    #[test]
    fn keys_by_histogram_and_values_of_one_row_together() {
        let one = [(1, Role::Compared(name("id"), Comparison::Equal))].into();
        let drawn = asked_of(&one, &["integer"], 1.0).unwrap();
        assert_eq!(
            drawn.sources,
            [Source::Ranges {
                variable: 0,
                ranges: vec![(0, 100), (100, 1000)]
            }]
        );
        let two = [
            (1, Role::Compared(name("name"), Comparison::Equal)),
            (2, Role::Compared(name("city"), Comparison::Equal)),
        ]
        .into();
        let drawn = asked_of(&two, &["text", "text"], 1.0).unwrap();
        let [Source::Rows { variables, rows }] = &drawn.sources[..] else {
            panic!("{drawn:?}");
        };
        assert_eq!(variables, &[0, 1]);
        assert_eq!(rows.len(), 9, "without the NULL");
        assert_eq!(
            rows[2],
            [Seen::Text("n3".to_owned()), Seen::Text("city 1".to_owned())]
        );
    }

    #[test]
    fn ranges_are_as_wide_as_the_statement_has_rows() {
        let between = [
            (1, Role::Compared(name("id"), Comparison::Above)),
            (2, Role::Compared(name("id"), Comparison::Below)),
        ]
        .into();
        let drawn = asked_of(&between, &["integer", "integer"], 50.0).unwrap();
        assert_eq!(
            drawn.sources[1],
            Source::Expression {
                variable: 1,
                text: ":p1 + 50".to_owned()
            }
        );
        let texts = [
            (1, Role::Compared(name("name"), Comparison::Above)),
            (2, Role::Compared(name("name"), Comparison::Below)),
        ]
        .into();
        let drawn = asked_of(&texts, &["text", "text"], 222.0).unwrap();
        let [Source::Rows { rows, .. }] = &drawn.sources[..] else {
            panic!("{drawn:?}");
        };
        assert_eq!(
            rows[0],
            [Seen::Text("n1".to_owned()), Seen::Text("n3".to_owned())]
        );
    }

    #[test]
    fn new_rows_have_new_keys_and_lists_their_length() {
        let new = [
            (1, Role::Inserted(name("id"))),
            (2, Role::Inserted(name("city"))),
        ]
        .into();
        let drawn = asked_of(&new, &["integer", "text"], 1.0).unwrap();
        assert!(drawn.sources.contains(&Source::Expression {
            variable: 0,
            text: "random(1500000000, 2147483647)".to_owned()
        }));
        let any = [(1, Role::Compared(name("id"), Comparison::Any))].into();
        let drawn = asked_of(&any, &["integer[]"], 3.0).unwrap();
        let [Source::Rows { rows, .. }] = &drawn.sources[..] else {
            panic!("{drawn:?}");
        };
        assert_eq!(rows[0], [Seen::Text("{\"0\",\"7\",\"14\"}".to_owned())]);
        let nothing = BTreeMap::new();
        assert_eq!(asked_of(&nothing, &["integer"], 1.0).unwrap().constants, 1);
        assert!(asked_of(&nothing, &["point"], 1.0).is_err());
    }
}

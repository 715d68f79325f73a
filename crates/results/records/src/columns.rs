//! Rows of a table, kept by column until there are enough for a row group.

use parquet::data_type::ByteArray;

use crate::schema::{Kind, TableSpec, Value};

/// The values of a column that are there.
#[derive(Debug)]
pub(crate) enum Data {
    Text(Vec<ByteArray>),
    Int(Vec<i64>),
    Float(Vec<f64>),
    Bool(Vec<bool>),
}

/// A column of some rows.
#[derive(Debug)]
pub(crate) struct Filled {
    /// What is there.
    pub data: Data,
    /// For each row whether it is there, where it may be missing: 1 or 0, as Parquet has it.
    pub levels: Vec<i16>,
    nullable: bool,
}

/// Some rows of a table.
#[derive(Debug)]
pub(crate) struct Columns {
    pub spec: TableSpec,
    pub rows: usize,
    pub columns: Vec<Filled>,
}

impl Filled {
    fn new(kind: Kind, nullable: bool) -> Self {
        Self {
            data: match kind {
                Kind::Text => Data::Text(Vec::new()),
                Kind::Int | Kind::Time => Data::Int(Vec::new()),
                Kind::Float => Data::Float(Vec::new()),
                Kind::Bool => Data::Bool(Vec::new()),
            },
            levels: Vec::new(),
            nullable,
        }
    }

    /// Which rows are there, where some may be missing.
    pub fn levels(&self) -> Option<&[i16]> {
        self.nullable.then_some(self.levels.as_slice())
    }

    fn push(&mut self, value: Value<'_>) {
        match (&mut self.data, value) {
            (Data::Text(texts), Value::Text(text)) => {
                // Most texts of a column are those of the row before, and share its memory.
                let same = texts.last().filter(|last| last.data() == text.as_bytes());
                let text = same.cloned();
                texts.push(text.unwrap_or_else(|| ByteArray::from(value_text(value).to_vec())));
            }
            (Data::Int(numbers), Value::Int(number)) => numbers.push(number),
            (Data::Float(numbers), Value::Float(number)) => numbers.push(number),
            (Data::Bool(all), Value::Bool(is)) => all.push(is),
            _ => {
                // A row's type has seen to it that only what may be missing is.
                self.levels.push(0);
                return;
            }
        }
        if self.nullable {
            self.levels.push(1);
        }
    }

    /// The value of each row.
    fn values(&self) -> Vec<Value<'_>> {
        let mut present = 0;
        let rows = match self.nullable {
            true => self.levels.len(),
            false => self.data.len(),
        };
        let there = |row: usize| !self.nullable || self.levels.get(row) == Some(&1);
        (0..rows)
            .map(|row| {
                if !there(row) {
                    return Value::Null;
                }
                let value = self.data.at(present);
                present += 1;
                value
            })
            .collect()
    }
}

fn value_text(value: Value<'_>) -> &[u8] {
    match value {
        Value::Text(text) => text.as_bytes(),
        _ => &[],
    }
}

impl Data {
    pub fn len(&self) -> usize {
        match self {
            Self::Text(all) => all.len(),
            Self::Int(all) => all.len(),
            Self::Float(all) => all.len(),
            Self::Bool(all) => all.len(),
        }
    }

    fn at(&self, index: usize) -> Value<'_> {
        let found = match self {
            Self::Text(all) => all
                .get(index)
                .and_then(|text| std::str::from_utf8(text.data()).ok())
                .map(Value::Text),
            Self::Int(all) => all.get(index).copied().map(Value::Int),
            Self::Float(all) => all.get(index).copied().map(Value::Float),
            Self::Bool(all) => all.get(index).copied().map(Value::Bool),
        };
        found.unwrap_or(Value::Null)
    }
}

impl Columns {
    pub fn new(spec: TableSpec) -> Self {
        let columns = spec.columns.iter();
        Self {
            columns: columns
                .map(|column| Filled::new(column.kind, column.nullable))
                .collect(),
            rows: 0,
            spec,
        }
    }

    pub fn push(&mut self, values: &[Value<'_>]) {
        for (column, value) in self.columns.iter_mut().zip(values) {
            column.push(*value);
        }
        self.rows += 1;
    }

    /// The rows one by one.
    pub fn each(&self, mut of: impl FnMut(&[Value<'_>])) {
        let columns: Vec<Vec<Value<'_>>> = self.columns.iter().map(Filled::values).collect();
        let mut row = Vec::with_capacity(columns.len());
        for n in 0..self.rows {
            row.clear();
            row.extend(
                columns
                    .iter()
                    .map(|c| c.get(n).copied().unwrap_or(Value::Null)),
            );
            of(&row);
        }
    }
}

//! An answer as lines of JSON.

use std::io::{self, BufWriter, Write};
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array, StringArray, UInt64Array,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, Float64Type, Int64Type, TimeUnit, TimestampMicrosecondType, UInt64Type,
};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::dataframe::DataFrame;
use datafusion::error::{DataFusionError, Result};
use futures::StreamExt;
use serde_json::{Value, json};

/// The type of a column, as the answer names it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Int,
    Float,
    Bool,
    /// A day, as text: YYYY-MM-DD.
    Date,
    /// Microseconds since 1970.
    Time,
}

impl Kind {
    fn of(of: &DataType) -> Self {
        match of {
            DataType::Boolean => Self::Bool,
            DataType::Float16 | DataType::Float32 | DataType::Float64 => Self::Float,
            DataType::Decimal32(..)
            | DataType::Decimal64(..)
            | DataType::Decimal128(..)
            | DataType::Decimal256(..) => Self::Float,
            DataType::Date32 | DataType::Date64 => Self::Date,
            DataType::Timestamp(..) => Self::Time,
            of if of.is_integer() => Self::Int,
            _ => Self::Text,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Int => "int",
            Self::Float => "float",
            Self::Bool => "bool",
            Self::Date => "date",
            Self::Time => "time",
        }
    }
}

/// A column of a batch, ready to be written.
enum Column {
    Text(StringArray),
    Int(Int64Array),
    Large(UInt64Array),
    Float(Float64Array),
    Bool(BooleanArray),
    Other(Vec<Option<String>>),
}

impl Column {
    fn of(array: &ArrayRef, kind: Kind) -> std::result::Result<Self, ArrowError> {
        let to = |of: &DataType| cast(array, of);
        Ok(match kind {
            Kind::Text | Kind::Date => match to(&DataType::Utf8) {
                Ok(text) => Self::Text(text.as_string::<i32>().clone()),
                Err(_) => Self::Other(shown(array)?),
            },
            Kind::Int if *array.data_type() == DataType::UInt64 => {
                Self::Large(array.as_primitive::<UInt64Type>().clone())
            }
            Kind::Int => Self::Int(to(&DataType::Int64)?.as_primitive::<Int64Type>().clone()),
            Kind::Float => Self::Float(
                to(&DataType::Float64)?
                    .as_primitive::<Float64Type>()
                    .clone(),
            ),
            Kind::Bool => Self::Bool(array.as_boolean().clone()),
            Kind::Time => {
                let zone = match array.data_type() {
                    DataType::Timestamp(_, zone) => zone.clone(),
                    _ => None,
                };
                let micros = to(&DataType::Timestamp(TimeUnit::Microsecond, zone))?;
                let micros = micros.as_primitive::<TimestampMicrosecondType>();
                Self::Int(micros.reinterpret_cast::<Int64Type>())
            }
        })
    }

    fn value(&self, row: usize) -> Value {
        fn there<A: Array, T: Into<Value>>(
            array: &A,
            row: usize,
            value: impl Fn(&A) -> T,
        ) -> Value {
            match array.is_null(row) {
                true => Value::Null,
                false => value(array).into(),
            }
        }
        match self {
            Self::Text(array) => there(array, row, |array| array.value(row).to_owned()),
            Self::Int(array) => there(array, row, |array| array.value(row)),
            Self::Large(array) => there(array, row, |array| array.value(row)),
            // What is no number is missing.
            Self::Float(array) => there(array, row, |array| array.value(row)),
            Self::Bool(array) => there(array, row, |array| array.value(row)),
            Self::Other(values) => values.get(row).cloned().flatten().into(),
        }
    }
}

/// Values of any other type as text.
fn shown(array: &ArrayRef) -> std::result::Result<Vec<Option<String>>, ArrowError> {
    let options = FormatOptions::default();
    let formatter = ArrayFormatter::try_new(array, &options)?;
    let value = |row| (!array.is_null(row)).then(|| formatter.value(row).to_string());
    Ok((0..array.len()).map(value).collect())
}

/// Writes the answer as it comes.
pub(crate) async fn write(frame: DataFrame) -> Result<()> {
    let fields = Arc::clone(frame.schema().inner());
    let kinds: Vec<Kind> = fields
        .fields()
        .iter()
        .map(|field| Kind::of(field.data_type()))
        .collect();
    let columns: Vec<Value> = fields
        .fields()
        .iter()
        .zip(&kinds)
        .map(|(field, kind)| json!({ "name": field.name(), "type": kind.name() }))
        .collect();
    let mut stream = frame.execute_stream().await?;
    let mut out = BufWriter::new(io::stdout().lock());
    let engine = format!("DataFusion {}", datafusion::DATAFUSION_VERSION);
    line(&mut out, &json!({ "engine": engine, "columns": columns }))?;
    let mut rows = 0;
    while let Some(batch) = stream.next().await {
        let batch = batch?;
        let columns = batch.columns().iter().zip(&kinds);
        let columns = columns.map(|(array, kind)| Column::of(array, *kind));
        let columns: Vec<Column> = columns.collect::<std::result::Result<_, _>>()?;
        for row in 0..batch.num_rows() {
            line(
                &mut out,
                &columns.iter().map(|column| column.value(row)).collect(),
            )?;
        }
        rows += batch.num_rows();
    }
    line(&mut out, &json!({ "rows": rows }))?;
    Ok(out.flush()?)
}

fn line(out: &mut impl Write, value: &Value) -> Result<()> {
    let mut text =
        serde_json::to_vec(value).map_err(|error| DataFusionError::External(error.into()))?;
    text.push(b'\n');
    Ok(out.write_all(&text)?)
}

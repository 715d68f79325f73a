//! A hash of rows, by which it is known whether a run came out otherwise.

use std::hash::Hasher;

use twox_hash::XxHash64;

use crate::schema::{TableSpec, Value};

/// What was hashed so far.
pub(crate) struct Content(XxHash64);

impl Content {
    pub fn new() -> Self {
        Self(XxHash64::with_seed(0))
    }

    /// Adds a row. Lengths and kinds are part of it, so that no two rows give the same bytes.
    pub fn row(&mut self, spec: &TableSpec, values: &[Value<'_>]) {
        self.bytes(spec.name.as_bytes());
        for (column, value) in spec.columns.iter().zip(values) {
            self.bytes(column.name.as_bytes());
            match value {
                Value::Null => self.0.write(&[0]),
                Value::Text(text) => {
                    self.0.write(&[1]);
                    self.bytes(text.as_bytes());
                }
                Value::Int(number) => {
                    self.0.write(&[2]);
                    self.0.write(&number.to_le_bytes());
                }
                Value::Float(number) => {
                    self.0.write(&[3]);
                    self.0.write(&number.to_bits().to_le_bytes());
                }
                Value::Bool(is) => self.0.write(&[4, u8::from(*is)]),
            }
        }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.0.write(&(bytes.len() as u64).to_le_bytes());
        self.0.write(bytes);
    }

    pub fn text(&self) -> String {
        format!("{:016x}", self.0.finish())
    }
}

//! What analyses have, as columns have it.

use serde::Serialize;

use crate::tables::Time;

/// The microseconds since 1970 of a time in RFC 3339.
pub(crate) fn time(text: &str) -> Option<Time> {
    let at: jiff::Timestamp = text.parse().ok()?;
    Some(Time(at.as_microsecond()))
}

/// The word that JSON has for a value of an enum, with hyphens.
pub(crate) fn word(of: impl Serialize) -> String {
    match serde_json::to_value(of) {
        Ok(serde_json::Value::String(word)) => word.replace('_', "-"),
        _ => String::new(),
    }
}

/// A number that may be missing, where it is one.
pub(crate) fn finite(number: f64) -> Option<f64> {
    Some(number).filter(|number| number.is_finite())
}

pub(crate) fn int(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}

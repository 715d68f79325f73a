//! What analyses have, as columns have it.

use serde::Serialize;
use serde::de::DeserializeOwned;

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

/// The value of an enum that a word stands for, where there is one.
pub(crate) fn of_word<T: DeserializeOwned>(word: &str) -> Option<T> {
    serde_json::from_value(serde_json::Value::String(word.to_owned())).ok()
}

/// A time as runs have it.
pub(crate) fn written(time: Time) -> String {
    let at = jiff::Timestamp::from_microsecond(time.0).unwrap_or_default();
    at.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

/// A list as JSON; none of an empty one.
pub(crate) fn json<T: Serialize>(list: &[T]) -> Option<String> {
    serde_json::to_string(list)
        .ok()
        .filter(|_| !list.is_empty())
}

/// A number that may be missing, where it is one.
pub(crate) fn finite(number: f64) -> Option<f64> {
    Some(number).filter(|number| number.is_finite())
}

pub(crate) fn int(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}

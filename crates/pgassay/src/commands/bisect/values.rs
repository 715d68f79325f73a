//! Values of settings that are written differently and mean the same.

/// Units of PostgreSQL's settings (guc.c) in bytes and milliseconds.
const UNITS: &[(&str, Kind, f64)] = &[
    ("B", Kind::Bytes, 1.0),
    ("kB", Kind::Bytes, 1024.0),
    ("MB", Kind::Bytes, 1024.0 * 1024.0),
    ("GB", Kind::Bytes, 1024.0 * 1024.0 * 1024.0),
    ("TB", Kind::Bytes, 1024.0 * 1024.0 * 1024.0 * 1024.0),
    ("us", Kind::Milliseconds, 0.001),
    ("ms", Kind::Milliseconds, 1.0),
    ("s", Kind::Milliseconds, 1000.0),
    ("min", Kind::Milliseconds, 60_000.0),
    ("h", Kind::Milliseconds, 3_600_000.0),
    ("d", Kind::Milliseconds, 86_400_000.0),
];

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Bytes,
    Milliseconds,
}

/// What a value says, as far as its text alone tells.
#[derive(Debug, PartialEq)]
enum Meaning {
    Switch(bool),
    Number(f64),
    Quantity(Kind, f64),
    Text(String),
}

/// Whether two values of a setting are the same: `1GB` and `1024MB`, `on` and `true`. A number without a unit is
/// another value than one with it, as the text does not tell its unit.
pub(super) fn same(a: &str, b: &str) -> bool {
    meaning(a) == meaning(b)
}

fn meaning(value: &str) -> Meaning {
    let value = value.trim();
    match value.to_ascii_lowercase().as_str() {
        "on" | "true" | "yes" => return Meaning::Switch(true),
        "off" | "false" | "no" => return Meaning::Switch(false),
        _ => {}
    }
    if let Ok(number) = value.parse() {
        return Meaning::Number(number);
    }
    let digits = value.find(|c: char| !(c.is_ascii_digit() || "+-.".contains(c)));
    let (number, unit) = value.split_at(digits.unwrap_or(value.len()));
    let unit = UNITS.iter().find(|(name, ..)| *name == unit.trim());
    match (number.parse::<f64>(), unit) {
        (Ok(number), Some((_, kind, of))) => Meaning::Quantity(*kind, number * of),
        _ => Meaning::Text(value.to_owned()),
    }
}

/// The value that pg_settings shows of a setting in its unit, as one that can be set: `131072` in units of `8kB` is
/// `1048576kB`.
pub(super) fn with_unit(setting: &str, unit: Option<&str>) -> String {
    let Some(unit) = unit else {
        return setting.to_owned();
    };
    let digits = unit.bytes().take_while(u8::is_ascii_digit).count();
    let (times, name) = unit.split_at(digits);
    let whole = setting.parse::<i64>().ok();
    let scaled = whole.and_then(|n| n.checked_mul(times.parse().unwrap_or(1)));
    match scaled {
        // Negative numbers and nought stand for a choice, not for a quantity.
        Some(scaled) if scaled > 0 => format!("{scaled}{name}"),
        _ => setting.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_compared_by_what_they_mean() {
        for (a, b, equal) in [
            ("1GB", "1024MB", true),
            ("1048576kB", "1GB", true),
            ("5min", "300s", true),
            ("0.5s", "500ms", true),
            ("on", "TRUE", true),
            ("1.10", "1.1", true),
            ("1GB", "1GBx", false),
            ("4096", "4096kB", false),
            ("1s", "1kB", false),
            ("off", "on", false),
            ("replica", "logical", false),
            ("a, b", "a, b", true),
        ] {
            assert_eq!(same(a, b), equal, "{a} {b}");
        }
    }

    #[test]
    fn a_collected_value_has_its_unit() {
        assert_eq!(with_unit("131072", Some("8kB")), "1048576kB");
        assert_eq!(with_unit("300", Some("s")), "300s");
        assert_eq!(with_unit("-1", Some("kB")), "-1");
        assert_eq!(with_unit("0", Some("ms")), "0");
        assert_eq!(with_unit("0.5", None), "0.5");
        assert_eq!(
            with_unit(&i64::MAX.to_string(), Some("8kB")),
            i64::MAX.to_string()
        );
    }
}

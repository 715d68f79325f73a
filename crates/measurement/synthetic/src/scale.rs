//! Values of a type as places on a line: how many there are between two of them, and which.

use jiff::civil::{Date, DateTime, Time};
use jiff::{Span, Unit};

use crate::described::Column;
use crate::order::scaled;
use crate::text::TextScale;

const DAY: i128 = 86_400_000_000;
/// Digits after the point of numeric at most.
const DIGITS: u32 = 12;

/// How values are made between known ones.
#[derive(Debug, Clone)]
pub enum Scale {
    /// Numbers, and what counts like numbers.
    Number(Number),
    /// Texts.
    Text(TextScale),
    /// Documents: any number of different ones, in no order.
    Json(f64),
    /// None can be made; where none is known, all have this one.
    Fixed(Option<&'static str>),
}

/// What counts like numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// Whole numbers.
    Integer,
    /// Numbers with so many digits after the point.
    Decimal(u32),
    /// Floating point: by their bits, which are ordered as they are.
    Float,
    /// Days.
    Date,
    /// Microseconds since 1970, in steps of so many; with a time zone or without.
    Timestamp(i128, bool),
    /// Microseconds of a day, in such steps.
    Time(i128),
    /// 128 bits.
    Uuid,
}

impl Scale {
    /// The scale of a column.
    pub fn of(column: &Column) -> Self {
        let name = column.type_name.as_str();
        let base = name.split('(').next().unwrap_or(name).trim();
        let base = base.rsplit('.').next().unwrap_or(base);
        let values = || column.points.iter().map(|point| point.value.as_str());
        let number = match base {
            "smallint" | "integer" | "bigint" | "oid" => Number::Integer,
            "numeric" => Number::Decimal(decimals(values())),
            "real" | "double precision" => Number::Float,
            "date" => Number::Date,
            "uuid" => Number::Uuid,
            _ if name.starts_with("timestamp") => {
                let zone = name.ends_with("with time zone");
                Number::Timestamp(
                    step(values(), &|text| Number::Timestamp(1, zone).place(text)),
                    zone,
                )
            }
            _ if name.starts_with("time") && name.ends_with("without time zone") => {
                Number::Time(step(values(), &|text| Number::Time(1).place(text)))
            }
            "text" | "character varying" | "character" | "bpchar" | "name" | "citext" | "bytea" => {
                return Self::Text(TextScale::of(column));
            }
            "json" | "jsonb" => return Self::Json(column.width),
            _ => return Self::Fixed(plain(base)),
        };
        Self::Number(number)
    }

    /// How many values there are between two, at most so many as are wanted.
    pub fn room(&self, low: &str, high: &str, wanted: u64) -> u64 {
        match self {
            Self::Number(number) => {
                let (Some(low), Some(high)) = (number.place(low), number.place(high)) else {
                    return 0;
                };
                let room = high.saturating_sub(low) / number.step() - 1;
                u64::try_from(room)
                    .map_or(if room > 0 { wanted } else { 0 }, |room| room.min(wanted))
            }
            Self::Text(scale) => scale.room(low, high, wanted),
            Self::Json(_) => wanted,
            Self::Fixed(_) => 0,
        }
    }

    /// How far two are apart, where that is known.
    pub fn distance(&self, low: &str, high: &str) -> Option<f64> {
        let Self::Number(number) = self else {
            return None;
        };
        Some(number.place(high)?.saturating_sub(number.place(low)?) as f64)
    }

    /// One of `count` values between two, of which there is [`room`](Self::room) for so many.
    pub fn between(&self, low: &str, high: &str, at: u64, count: u64) -> String {
        match self {
            Self::Number(number) => {
                let (from, to) = (
                    number.place(low).unwrap_or(0),
                    number.place(high).unwrap_or(0),
                );
                let step = number.step();
                let units = to.saturating_sub(from) / step;
                let place = scaled(units, at + 1, count + 1);
                number.text(from + place * step)
            }
            Self::Text(scale) => scale.between(low, high, at, count),
            Self::Json(width) => {
                let head = format!("{{\"n\": {at}, \"v\": \"");
                let rest = (*width as usize)
                    .saturating_sub(head.len() + 2)
                    .min(100_000);
                format!("{head}{}\"}}", crate::text::filler(at, rest))
            }
            Self::Fixed(_) => low.to_owned(),
        }
    }

    /// The value that is so many steps beyond another, where there is one.
    pub fn beyond(&self, value: &str, steps: u64) -> Option<String> {
        let Self::Number(number) = self else {
            return None;
        };
        Some(number.text(number.place(value)? + i128::from(steps) * number.step()))
    }

    /// A first and a last value, where none is known of so many.
    pub fn ends(&self, count: u64) -> Option<(String, String)> {
        let (low, high) = match self {
            Self::Number(Number::Uuid) => (0, i128::MAX),
            // Days and microseconds from 2020 on.
            Self::Number(number @ Number::Date) => {
                (18_262, 18_262 + i128::from(count) * number.step())
            }
            Self::Number(number @ Number::Timestamp(..)) => (
                18_262 * DAY,
                18_262 * DAY + i128::from(count) * number.step(),
            ),
            Self::Number(Number::Time(_)) => (0, DAY - 1),
            Self::Number(Number::Float) => (0, (count as f64).to_bits().into()),
            Self::Number(number) => {
                let unit = 10_i128.pow(if let Number::Decimal(digits) = number {
                    *digits
                } else {
                    0
                });
                (unit, i128::from(count.max(1)) * unit)
            }
            Self::Text(scale) => return Some(scale.ends()),
            Self::Json(_) => return Some(("{}".to_owned(), "{}".to_owned())),
            Self::Fixed(plain) => return plain.map(|plain| (plain.to_owned(), plain.to_owned())),
        };
        let Self::Number(number) = self else {
            return None;
        };
        Some((number.text(low), number.text(high)))
    }
}

impl Number {
    fn step(self) -> i128 {
        match self {
            Self::Timestamp(step, _) | Self::Time(step) => step,
            _ => 1,
        }
    }

    /// Where a value is on the line.
    fn place(self, text: &str) -> Option<i128> {
        match self {
            Self::Integer => text.parse().ok(),
            Self::Decimal(digits) => {
                let (whole, part) = text.split_once('.').unwrap_or((text, ""));
                let part = format!("{part:0<width$}", width = digits as usize);
                format!("{whole}{}", part.get(..digits as usize)?)
                    .parse()
                    .ok()
            }
            Self::Float => {
                let value: f64 = text.parse().ok().filter(|value: &f64| value.is_finite())?;
                let bits = value.to_bits() as i64;
                Some(i128::from(if bits < 0 {
                    i64::MIN.wrapping_sub(bits)
                } else {
                    bits
                }))
            }
            Self::Date => {
                let date: Date = text.parse().ok()?;
                days(date)
            }
            Self::Timestamp(_, zone) => {
                let text = if zone {
                    text.strip_suffix("+00")?
                } else {
                    text
                };
                let at: DateTime = text.parse().ok()?;
                Some(days(at.date())? * DAY + of_day(at.time()))
            }
            Self::Time(_) => text.parse().ok().map(of_day),
            Self::Uuid => {
                let figures: String = text.chars().filter(|c| *c != '-').collect();
                let number = u128::from_str_radix(&figures, 16).ok()?;
                // Without its last bit, so that it fits.
                Some((number >> 1) as i128)
            }
        }
    }

    fn text(self, place: i128) -> String {
        match self {
            Self::Integer => place.to_string(),
            Self::Decimal(0) => place.to_string(),
            Self::Decimal(digits) => {
                let unit = 10_u128.pow(digits);
                let size = place.unsigned_abs();
                let sign = if place < 0 { "-" } else { "" };
                format!(
                    "{sign}{}.{:0width$}",
                    size / unit,
                    size % unit,
                    width = digits as usize
                )
            }
            Self::Float => {
                let bits = place as i64;
                let bits = if bits < 0 {
                    i64::MIN.wrapping_sub(bits)
                } else {
                    bits
                };
                f64::from_bits(bits as u64).to_string()
            }
            Self::Date => date(place).to_string(),
            Self::Timestamp(_, zone) => {
                let at = date(place.div_euclid(DAY)).to_datetime(time(place.rem_euclid(DAY)));
                let end = if zone { "+00" } else { "" };
                format!("{at}{end}").replacen('T', " ", 1)
            }
            Self::Time(_) => time(place).to_string(),
            Self::Uuid => {
                let number = (place as u128) << 1;
                let figures = format!("{number:032x}");
                let parts = [
                    &figures[..8],
                    &figures[8..12],
                    &figures[12..16],
                    &figures[16..20],
                    &figures[20..],
                ];
                parts.join("-")
            }
        }
    }
}

const EPOCH: Date = jiff::civil::date(1970, 1, 1);

fn days(date: Date) -> Option<i128> {
    let span = EPOCH.until((Unit::Day, date)).ok()?;
    Some(i128::from(span.get_days()))
}

fn date(days: i128) -> Date {
    let days = i32::try_from(days).unwrap_or(0);
    EPOCH.checked_add(Span::new().days(days)).unwrap_or(EPOCH)
}

fn of_day(time: Time) -> i128 {
    let seconds =
        i128::from(time.hour()) * 3600 + i128::from(time.minute()) * 60 + i128::from(time.second());
    seconds * 1_000_000 + i128::from(time.subsec_nanosecond()) / 1000
}

fn time(micros: i128) -> Time {
    let seconds = micros / 1_000_000;
    let part = |n: i128| i8::try_from(n).unwrap_or(0);
    Time::new(
        part(seconds / 3600),
        part(seconds / 60 % 60),
        part(seconds % 60),
        i32::try_from(micros % 1_000_000 * 1000).unwrap_or(0),
    )
    .unwrap_or(Time::midnight())
}

/// A value of a type between whose values none are made.
fn plain(base: &str) -> Option<&'static str> {
    Some(match base {
        _ if base.ends_with("[]") => "{}",
        "boolean" => "f",
        "interval" => "1 day",
        "inet" | "cidr" => "10.0.0.0",
        "macaddr" => "00:00:00:00:00:00",
        "money" => "1",
        "tsvector" | "hstore" | "ltree" => "",
        "xml" => "<x/>",
        "point" => "(0,0)",
        "bit" | "bit varying" => "0",
        _ if base.ends_with("range") => "empty",
        _ => return None,
    })
}

fn decimals<'a>(values: impl Iterator<Item = &'a str>) -> u32 {
    let digits = values.map(|value| {
        value
            .split_once('.')
            .map_or(0, |(_, part)| part.len() as u32)
    });
    digits.max().unwrap_or(0).min(DIGITS)
}

/// The largest usual unit of time that all values are multiples of.
fn step<'a>(values: impl Iterator<Item = &'a str>, place: &dyn Fn(&str) -> Option<i128>) -> i128 {
    let places: Vec<i128> = values.filter_map(place).collect();
    if places.len() < 2 {
        return 1_000_000;
    }
    let units = [DAY, 3_600_000_000, 60_000_000, 1_000_000, 1000, 1];
    let all = |unit: &&i128| places.iter().all(|place| place.rem_euclid(**unit) == 0);
    units.iter().find(all).copied().unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(number: Number, low: &str, high: &str, count: u64, some: &str) {
        let scale = Scale::Number(number);
        assert!(scale.room(low, high, count) >= count, "{low} {high}");
        let place = |text: &str| number.place(text).unwrap();
        let mut before = place(low);
        for at in 0..count {
            let text = scale.between(low, high, at, count);
            assert!(
                place(&text) > before && place(&text) < place(high),
                "{text}"
            );
            assert_eq!(number.text(place(&text)), text);
            before = place(&text);
        }
        assert_eq!(scale.between(low, high, 0, count), some);
    }

    #[test]
    fn values_lie_between() {
        check(Number::Integer, "-3", "5", 7, "-2");
        check(Number::Decimal(2), "-0.50", "0.5", 3, "-0.25");
        check(
            Number::Float,
            "-1.5",
            "2.25",
            100,
            &Number::Float.text(
                Number::Float.place("-1.5").unwrap()
                    + scaled(
                        Number::Float.place("2.25").unwrap() - Number::Float.place("-1.5").unwrap(),
                        1,
                        101,
                    ),
            ),
        );
        check(Number::Date, "1969-12-30", "1970-01-02", 2, "1969-12-31");
        check(Number::Date, "0099-01-01", "2024-02-29", 1000, "0100-12-04");
        check(
            Number::Timestamp(1, true),
            "2024-01-01 00:00:00+00",
            "2024-01-01 00:00:01.5+00",
            2,
            "2024-01-01 00:00:00.5+00",
        );
        check(
            Number::Timestamp(1_000_000, false),
            "1960-01-01 00:00:00",
            "1960-01-01 00:00:03",
            2,
            "1960-01-01 00:00:01",
        );
        check(
            Number::Time(1),
            "08:00:00",
            "08:00:00.000004",
            3,
            "08:00:00.000001",
        );
        check(
            Number::Uuid,
            "00000000-0000-0000-0000-000000000000",
            "ffffffff-ffff-ffff-ffff-ffffffffffff",
            3,
            "3fffffff-ffff-ffff-ffff-fffffffffffe",
        );
    }

    #[test]
    fn there_is_no_room_between_neighbours() {
        let integers = Scale::Number(Number::Integer);
        assert_eq!(integers.room("1", "2", 5), 0);
        assert_eq!(integers.room("1", "4", 5), 2);
        assert_eq!(
            Scale::Number(Number::Date).room("infinity", "2024-01-01", 5),
            0
        );
        assert_eq!(Scale::Fixed(None).room("a", "z", 5), 0);
    }

    #[test]
    fn times_keep_their_unit() {
        let column = |values: &[&str]| Column {
            type_name: "timestamp with time zone".to_owned(),
            points: values
                .iter()
                .map(|value| crate::described::Point {
                    value: (*value).to_owned(),
                    bounds: 1,
                    share: None,
                })
                .collect(),
            ..Column::default()
        };
        let of = |values: &[&str]| match Scale::of(&column(values)) {
            Scale::Number(Number::Timestamp(step, true)) => step,
            other => panic!("{other:?}"),
        };
        assert_eq!(
            of(&["2024-01-01 00:00:00+00", "2024-02-01 00:00:00+00"]),
            DAY
        );
        assert_eq!(
            of(&["2024-01-01 00:00:00+00", "2024-02-01 00:00:07+00"]),
            1_000_000
        );
        assert_eq!(
            of(&["2024-01-01 00:00:00+00", "2024-02-01 00:00:07.000001+00"]),
            1
        );
    }
}

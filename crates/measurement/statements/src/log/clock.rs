//! Time stamps of log lines.

use std::str::FromStr;

/// The microseconds of `2026-11-23 09:05:07.123 UTC` since 1970 in the zone that is written, or of a `%n` epoch
/// `1700000000.123`. The zone's name is passed over: only differences within one log are used.
pub fn micros(text: &str) -> Option<i64> {
    let text = text.trim();
    match text.split_once(['-', ' ']) {
        None => epoch(text),
        Some(_) => civil(text),
    }
}

fn epoch(text: &str) -> Option<i64> {
    let (seconds, fraction) = text.split_once('.')?;
    if seconds.len() < 9 {
        return None;
    }
    number::<i64>(seconds)?
        .checked_mul(1_000_000)?
        .checked_add(fraction_us(fraction)?)
}

fn civil(text: &str) -> Option<i64> {
    let (date, time) = text.split_once([' ', 'T'])?;
    let mut parts = date.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    if year.len() != 4 || parts.next().is_some() {
        return None;
    }
    let time = time.split([' ', '+', 'Z']).next()?;
    let mut parts = time.splitn(3, ':');
    let (hour, minute, second) = (parts.next()?, parts.next()?, parts.next()?);
    let (second, fraction) = second.split_once('.').unwrap_or((second, "0"));
    let [hour, minute, second] = [hour, minute, second].map(number::<i64>);
    let (hour, minute, second) = (hour?, minute?, second?);
    let (month, day): (i64, i64) = (number(month)?, number(day)?);
    let is_time = hour < 24 && minute < 60 && second <= 60;
    if !is_time || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let seconds = days(number(year)?, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
    Some(seconds * 1_000_000 + fraction_us(fraction)?)
}

/// A number of digits alone.
fn number<T: FromStr>(text: &str) -> Option<T> {
    let digits = !text.is_empty() && text.len() <= 12 && text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

fn fraction_us(text: &str) -> Option<i64> {
    let digits = text.get(..text.len().min(6))?;
    let value: i64 = number(digits)?;
    Some(value * 10_i64.pow(6 - digits.len() as u32))
}

/// Days since 1970-01-01 of the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> i64 {
    // Years that begin in March have their leap day last.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let leap = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap + (month * 153 + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::micros;

    #[test]
    fn stamps_of_every_kind() {
        assert_eq!(micros("1970-01-01 00:00:00 UTC"), Some(0));
        assert_eq!(
            micros("2026-11-23 09:05:07.123 UTC"),
            Some(1_795_424_707_123_000)
        );
        assert_eq!(
            micros("2024-02-29 00:00:00.000001+01"),
            Some(1_709_164_800_000_001)
        );
        assert_eq!(micros("1700000000.5"), Some(1_700_000_000_500_000));
        for none in [
            "",
            "2026",
            "2026-13-01 00:00:00",
            "x-y-z 1:2:3",
            "12.5",
            "2026-11-23",
            "-- a: b",
            "2026-11-23 é",
            "2026-11-23 999999999999:00:00",
        ] {
            assert_eq!(micros(none), None, "{none}");
        }
    }
}

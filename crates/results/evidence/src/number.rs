//! Figures as text: as many digits as the interval supports, and no more.
//!
//! The last digit shown follows the half-width of the interval, by the rule of
//! the Particle Data Group (Review of Particle Physics, introduction, section
//! 5.3): two digits of it where it begins with 100 to 354, else one. A figure
//! never loses its first two digits and never shows more than five of its own.

use pgassay_text::number::grouped;
pub use pgassay_text::number::{count, counted};

use pgassay_stats::Estimate;

/// An estimate ready to be printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// The estimate.
    pub value: String,
    /// Its interval; none where it has none (one trial, or no number).
    pub interval: Option<ShownInterval>,
}

/// An interval in the two forms that tables use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownInterval {
    /// Both ends, such as `18,120–18,740`.
    pub ends: String,
    /// The end further from the estimate, relative to it and rounded up: `±2%`; beyond a half both ends, in parentheses.
    pub short: String,
}

/// What stands where there is no figure.
pub const NONE: &str = "–";

/// Formats an estimate with its interval.
pub fn shown(e: &Estimate) -> Shown {
    if !e.estimate.is_finite() {
        return Shown {
            value: NONE.to_owned(),
            interval: None,
        };
    }
    let place = last_place(e.estimate, e.high - e.low);
    let has_interval = e.n > 1 && e.low.is_finite() && e.high.is_finite();
    Shown {
        value: at_place(e.estimate, place),
        interval: has_interval.then(|| {
            let ends = range(e.low, e.high, place);
            ShownInterval {
                short: percent(e).unwrap_or_else(|| format!("({ends})")),
                ends,
            }
        }),
    }
}

/// A single observation without an interval of its own, to three digits.
pub fn single(value: f64) -> String {
    if !value.is_finite() {
        return NONE.to_owned();
    }
    at_place(value, last_place(value, 0.0))
}

/// A difference with its sign, which is a minus and no hyphen where it is negative.
pub fn signed(value: f64, decimals: usize) -> String {
    format!("{value:+.decimals$}").replace('-', pgassay_text::number::MINUS)
}

/// A known quantity that needs no more than two decimals, such as a quota of CPUs.
pub fn short(value: f64) -> String {
    if !value.is_finite() {
        return NONE.to_owned();
    }
    trimmed(format!("{value:.2}"))
}

/// A share of 0 to 1 as a percentage.
pub fn share(value: f64) -> String {
    format!("{} %", short(value * 100.0))
}

/// A measured share as a whole percentage: its spread leaves no decimals standing.
pub fn percent_of_one(value: f64) -> String {
    if !value.is_finite() {
        return NONE.to_owned();
    }
    format!("{:.0} %", value * 100.0)
}

/// A size in the largest binary unit that keeps it at or above 1.
pub fn bytes(value: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut unit = 0;
    let mut scaled = value as f64;
    while scaled >= 1024.0 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    format!("{} {}", trimmed(format!("{scaled:.1}")), UNITS[unit])
}

/// A duration given in seconds: `850 ms`, `2.5 s`, `3 min 4 s`, `2 h 5 min`.
pub fn duration(seconds: f64) -> String {
    if !seconds.is_finite() || seconds < 0.0 {
        return NONE.to_owned();
    }
    if seconds < 1.0 {
        return format!("{} ms", trimmed(format!("{:.1}", seconds * 1e3)));
    }
    if seconds < 60.0 {
        return format!("{} s", trimmed(format!("{seconds:.1}")));
    }
    let whole = seconds.round() as u64;
    let (large, small, names) = if whole < 3600 {
        (whole / 60, whole % 60, ("min", "s"))
    } else {
        (whole / 3600, whole % 3600 / 60, ("h", "min"))
    };
    match small {
        0 => format!("{large} {}", names.0),
        _ => format!("{large} {} {small} {}", names.0, names.1),
    }
}

/// The power of ten of the last digit worth showing.
fn last_place(estimate: f64, width: f64) -> i32 {
    let magnitude = exponent(estimate);
    let half = width / 2.0;
    if !half.is_finite() || half <= 0.0 {
        return magnitude - 2;
    }
    let leading = half / 10f64.powi(exponent(half));
    let by_interval = exponent(half) - i32::from(leading < 3.545);
    by_interval.clamp(magnitude - 4, magnitude - 1)
}

/// Power of ten of the first digit; 0 for 0.
fn exponent(value: f64) -> i32 {
    match value.abs() {
        v if v > 0.0 => v.log10().floor() as i32,
        _ => 0,
    }
}

fn at_place(value: f64, place: i32) -> String {
    if place > 0 {
        let unit = 10f64.powi(place);
        grouped(&format!("{:.0}", (value / unit).round() * unit))
    } else {
        grouped(&format!("{value:.*}", place.unsigned_abs().min(9) as usize))
    }
}

/// `low–high`; in words where a sign could be taken for the dash.
fn range(low: f64, high: f64, place: i32) -> String {
    let between = if low < 0.0 { " to " } else { "–" };
    format!("{}{between}{}", at_place(low, place), at_place(high, place))
}

/// The end further from the estimate, relative to it; none beyond a half, where ± would suggest ends that are not there.
fn percent(e: &Estimate) -> Option<String> {
    let furthest = (e.high - e.estimate).max(e.estimate - e.low);
    let percent = match furthest {
        0.0 => 0.0,
        furthest => (furthest / e.estimate.abs() * 100.0).max(0.0),
    };
    if percent > 50.0 {
        return None;
    }
    // a hair below a whole per cent is that per cent, not the next
    let up = |x: f64| (x - 1e-9).ceil().max(0.0) + 0.0; // no -0
    Some(if up(percent * 10.0) == 0.0 {
        "±0%".to_owned()
    } else if up(percent * 10.0) < 10.0 {
        format!("±{:.1}%", up(percent * 10.0) / 10.0)
    } else {
        format!("±{:.0}%", up(percent))
    })
}

/// Thousands separators in the whole part.
fn trimmed(number: String) -> String {
    match number.contains('.') {
        true => grouped(number.trim_end_matches('0').trim_end_matches('.')),
        false => grouped(&number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(estimate: f64, low: f64, high: f64, n: usize) -> Estimate {
        Estimate {
            estimate,
            low,
            high,
            level: 0.95,
            n,
            warnings: vec![],
        }
    }

    #[test]
    fn digits_follow_the_interval() {
        let cases = [
            // (estimate, low, high) -> value, ends, percent
            (
                (18432.4, 18120.2, 18744.0),
                "18,430",
                "18,120–18,740",
                "±2%",
            ),
            ((54.271, 53.46, 55.08), "54.3", "53.5–55.1", "±2%"),
            ((54.271, 54.25, 54.28), "54.271", "54.250–54.280", "±0.1%"),
            (
                (123456.0, 60000.0, 190000.0),
                "120,000",
                "60,000–190,000",
                "(60,000–190,000)",
            ),
            (
                (0.0123, 0.0120, 0.0126),
                "0.01230",
                "0.01200–0.01260",
                "±3%",
            ),
            ((-1.26, -3.1, 0.6), "−1.3", "−3.1 to 0.6", "(−3.1 to 0.6)"),
            ((100.0, 98.0, 102.0), "100.0", "98.0–102.0", "±2%"),
            ((0.0, 0.0, 0.0), "0.00", "0.00–0.00", "±0%"),
            ((0.997, 0.997, 0.997), "0.997", "0.997–0.997", "±0%"),
            ((1.0, 0.0, 40.0), "1.0", "0.0–40.0", "(0.0–40.0)"),
        ];
        for ((value, low, high), text, ends, percent) in cases {
            let shown = shown(&estimate(value, low, high, 5));
            assert_eq!(shown.value, text);
            let interval = shown.interval.expect("five trials have an interval");
            assert_eq!(
                (interval.ends.as_str(), interval.short.as_str()),
                (ends, percent)
            );
        }
    }

    #[test]
    fn one_trial_has_no_interval_and_no_number_is_a_dash() {
        let one = shown(&estimate(18432.4, 18432.4, 18432.4, 1));
        assert_eq!((one.value.as_str(), one.interval), ("18,400", None));
        let none = shown(&estimate(f64::NAN, 0.0, 1.0, 3));
        assert_eq!((none.value.as_str(), none.interval), (NONE, None));
        let endless = shown(&estimate(5.0, f64::NEG_INFINITY, f64::INFINITY, 2));
        assert_eq!((endless.value.as_str(), endless.interval), ("5.00", None));
    }

    #[test]
    fn sizes_times_and_counts() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(4096), "4 KiB");
        assert_eq!(
            bytes(24 * 1024 * 1024 * 1024 + 600 * 1024 * 1024),
            "24.6 GiB"
        );
        assert_eq!(bytes(u64::MAX), "16,384 PiB");
        assert_eq!(duration(0.25), "250 ms");
        assert_eq!(duration(2.0), "2 s");
        assert_eq!(duration(184.2), "3 min 4 s");
        assert_eq!(duration(7500.0), "2 h 5 min");
        assert_eq!(duration(f64::NAN), NONE);
        assert_eq!(count(1234567), "1,234,567");
        assert_eq!(share(0.0123), "1.23 %");
        assert_eq!(
            (short(1.5), short(12345.0)),
            ("1.5".to_owned(), "12,345".to_owned())
        );
        assert_eq!(single(-0.0001), "−0.000100");
    }
}

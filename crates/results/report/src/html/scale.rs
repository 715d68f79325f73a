//! From values to places: axes, their ranges and their ticks.

use crate::document::{Axis, Scale};

/// An axis laid on a stretch of the picture.
#[derive(Debug, Clone)]
pub struct Placed {
    scale: Scale,
    log: bool,
    /// Range in values.
    low: f64,
    high: f64,
    /// Range in the picture's units.
    from: f64,
    to: f64,
    /// Where labels stand.
    pub ticks: Vec<f64>,
}

impl Placed {
    /// Lays an axis that must show `values`; about `wanted` labels fit on it.
    pub fn new(axis: &Axis, values: &[f64], (from, to): (f64, f64), wanted: usize) -> Self {
        let log = matches!(axis.scale, Scale::Log | Scale::Duration);
        let usable = |v: &&f64| v.is_finite() && (!log || **v > 0.0);
        let low = values.iter().filter(usable).copied().reduce(f64::min);
        let high = values.iter().filter(usable).copied().reduce(f64::max);
        let (low, high) = match (low, high) {
            (Some(low), Some(high)) => (low, high),
            _ => (1.0, 2.0),
        };
        let (low, high, ticks) = match (axis.ticks.as_slice(), axis.scale) {
            ([], Scale::Log | Scale::Duration) => by_ratio(low, high, wanted),
            ([], Scale::FromZero) => evenly(0.0, high, wanted),
            ([], Scale::Linear) => evenly(low, high, wanted),
            (given, _) => {
                let (low, high) = widened(low, high, log);
                (low, high, given.to_vec())
            }
        };
        Self {
            scale: axis.scale,
            log,
            low,
            high,
            from,
            to,
            ticks,
        }
    }

    /// A tick's label.
    pub fn label(&self, tick: f64) -> String {
        if self.scale != Scale::Duration {
            return tick_label(tick);
        }
        let (unit, name) = match tick {
            us if us < 999.0 => (1.0, "µs"),
            us if us < 999e3 => (1e3, "ms"),
            _ => (1e6, "s"),
        };
        format!("{} {name}", tick_label(tick / unit))
    }

    /// Where a value lies in the picture.
    pub fn at(&self, value: f64) -> f64 {
        let share = if self.log {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + share * (self.to - self.from)
    }

    /// Whether a value lies on the axis; a hair beyond its ends counts.
    pub fn holds(&self, value: f64) -> bool {
        let hair = if self.log {
            value.abs()
        } else {
            self.high - self.low
        };
        let slack = hair * 1e-9;
        value.is_finite() && value >= self.low - slack && value <= self.high + slack
    }

    /// The largest value on it.
    pub fn high(&self) -> f64 {
        self.high
    }
}

/// A range of one value gets room around it.
fn widened(low: f64, high: f64, log: bool) -> (f64, f64) {
    match (high > low, log) {
        (true, _) => (low, high),
        (false, true) => (low / 2.0, high * 2.0),
        (false, false) => (low - 1.0, high + 1.0),
    }
}

/// Ticks at 1, 2 or 5 times a power of ten, the range ending on them.
fn evenly(low: f64, high: f64, wanted: usize) -> (f64, f64, Vec<f64>) {
    let (low, high) = if high > low {
        (low, high)
    } else {
        (low, low + 1.0)
    };
    let rough = (high - low) / wanted.max(1) as f64;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .map(|m| m * power)
        .into_iter()
        .find(|step| *step >= rough * (1.0 - 1e-9))
        .unwrap_or(10.0 * power);
    let first = (low / step + 1e-9).floor();
    let last = (high / step - 1e-9).ceil();
    let count = (last - first).clamp(1.0, 100.0) as u32;
    let tick = |i: u32| (first + f64::from(i)) * step;
    (first * step, tick(count), (0..=count).map(tick).collect())
}

/// Ticks at powers of ten, with 2 and 5 between where there is room.
fn by_ratio(low: f64, high: f64, wanted: usize) -> (f64, f64, Vec<f64>) {
    let (low, high) = widened(low, high, true);
    let decades = (low.log10().floor() as i32)..=(high.log10().ceil() as i32);
    let ticks = |multiples: &[f64]| -> Vec<f64> {
        decades
            .clone()
            .flat_map(|d| multiples.iter().map(move |m| m * 10f64.powi(d)))
            .collect()
    };
    let rich = ticks(&[1.0, 2.0, 5.0]);
    // the range ends on a tick of the rich set on either side
    let start = rich.iter().rev().find(|t| **t <= low * 1.000_001);
    let end = rich.iter().find(|t| **t >= high * 0.999_999);
    let (start, end) = (*start.unwrap_or(&low), *end.unwrap_or(&high));
    let inside = |ticks: Vec<f64>| -> Vec<f64> {
        let within = |t: &f64| *t >= start * 0.999_999 && *t <= end * 1.000_001;
        ticks.into_iter().filter(within).collect()
    };
    let rich = inside(rich);
    let ticks = if rich.len() <= wanted * 3 / 2 + 1 {
        rich
    } else {
        inside(ticks(&[1.0]))
    };
    (start, end, ticks)
}

/// `20,000` and `−5` as they are; from a million on `1.5 M`.
pub fn tick_label(value: f64) -> String {
    if value < 0.0 {
        return format!("−{}", tick_label(-value));
    }
    let grouped = |value: f64| {
        let places = match value {
            v if v == 0.0 || v >= 10.0 || v.fract() == 0.0 => 0,
            v if v >= 1.0 => 1,
            v => (-v.log10()).ceil().min(6.0) as usize,
        };
        let text = format!("{value:.places$}");
        match value >= 1000.0 {
            true => crate::number::count(value.round() as u64),
            false => text,
        }
    };
    match value {
        v if v >= 1e6 => format!("{} M", grouped(value / 1e6)),
        _ => grouped(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_labelled_in_their_unit() {
        let placed = Placed::new(&axis(Scale::Duration), &[20.0, 2e6], (300.0, 0.0), 30);
        let labels: Vec<String> = placed.ticks.iter().map(|t| placed.label(*t)).collect();
        assert_eq!(labels[..2], ["20 µs", "50 µs"]);
        assert!(labels.contains(&"1 ms".to_owned()) && labels.contains(&"500 ms".to_owned()));
        assert_eq!(labels.last().map(String::as_str), Some("2 s"));
    }

    fn axis(scale: Scale) -> Axis {
        Axis {
            label: String::new(),
            scale,
            ticks: vec![],
        }
    }

    #[test]
    fn ranges_end_on_ticks_and_hold_the_values() {
        let placed = Placed::new(&axis(Scale::FromZero), &[310.0, 18744.0], (300.0, 0.0), 5);
        assert_eq!(placed.ticks, [0.0, 5000.0, 10000.0, 15000.0, 20000.0]);
        assert_eq!((placed.at(0.0), placed.at(20000.0)), (300.0, 0.0));

        let placed = Placed::new(&axis(Scale::Log), &[43.0, 9100.0], (300.0, 0.0), 8);
        assert_eq!(
            placed.ticks,
            [
                20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0, 10000.0
            ]
        );
        assert!(placed.holds(43.0) && !placed.holds(11000.0));

        let placed = Placed::new(&axis(Scale::Linear), &[-4.2, 3.1], (0.0, 1.0), 4);
        assert_eq!(placed.ticks, [-6.0, -4.0, -2.0, 0.0, 2.0, 4.0]);
    }

    #[test]
    fn odd_ranges_stay_drawable() {
        let nothing = Placed::new(&axis(Scale::Log), &[f64::NAN, -1.0, 0.0], (0.0, 1.0), 4);
        assert!(nothing.at(1.0).is_finite());
        let flat = Placed::new(&axis(Scale::FromZero), &[0.0, 0.0], (0.0, 1.0), 4);
        assert!(flat.at(0.0).is_finite() && flat.ticks.len() > 1);
        let one = Placed::new(&axis(Scale::Log), &[64.0], (0.0, 1.0), 4);
        assert!(one.at(64.0) > 0.0 && one.at(64.0) < 1.0);
        let wide = Placed::new(&axis(Scale::Log), &[20.0, 1e12], (0.0, 1.0), 4);
        assert!(wide.holds(20.0) && wide.holds(1e12) && !wide.holds(0.0));
        let given = Axis {
            ticks: vec![8.0],
            ..axis(Scale::Log)
        };
        assert_eq!(Placed::new(&given, &[8.0], (0.0, 1.0), 4).at(8.0), 0.5);
    }
}

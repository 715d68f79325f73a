//! Pictures as data: what is drawn, not where on the page.

use super::Rating;

/// A course over an axis, as data.
#[derive(Debug, Clone)]
pub struct Chart {
    /// Stable name, unique in the document.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// The same in words, for who can't see it.
    pub alternative: String,
    /// How to read it.
    pub caption: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// What is drawn.
    pub series: Vec<Series>,
    /// Faint lines to compare with.
    pub guides: Vec<Guide>,
}

/// An axis of a chart.
#[derive(Debug, Clone)]
pub struct Axis {
    /// What it measures, with the unit.
    pub label: String,
    /// How values lie on it.
    pub scale: Scale,
    /// Where labels stand; empty leaves the choice to the drawing.
    pub ticks: Vec<f64>,
}

/// How values lie on an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// In proportion.
    Linear,
    /// In proportion and beginning at zero.
    FromZero,
    /// By ratio.
    Log,
    /// By ratio, microseconds, labelled in the unit that suits each.
    Duration,
}

/// What belongs together in a chart: one colour, one marker.
#[derive(Debug, Clone)]
pub struct Series {
    /// Its name in the legend.
    pub label: String,
    /// Which of the palette's looks (colour and marker together) it takes.
    pub look: usize,
    /// Which of how many lanes side by side it keeps to, where several series
    /// share their positions and would hide each other.
    pub lane: (usize, usize),
    /// Where the evidence of its points is, but for the number at its end, which is that on the
    /// horizontal axis.
    pub evidence: Option<String>,
    /// Estimates with their intervals, joined by a line.
    pub estimates: Vec<Interval>,
    /// Single trials.
    pub dots: Vec<Dot>,
}

/// An estimate as drawn.
#[derive(Debug, Clone)]
pub struct Interval {
    /// Position.
    pub x: f64,
    /// Estimate.
    pub y: f64,
    /// Lower end; not a number where there is no interval.
    pub low: f64,
    /// Upper end; likewise.
    pub high: f64,
    /// What a pointer resting on it reads.
    pub tip: String,
}

/// A trial as drawn.
#[derive(Debug, Clone)]
pub struct Dot {
    /// Position.
    pub x: f64,
    /// Value.
    pub y: f64,
    /// Sideways offset that keeps trials of one position apart, -1 to 1.
    pub offset: f64,
    /// What a pointer resting on it reads.
    pub tip: String,
}

/// A line to compare with.
#[derive(Debug, Clone)]
pub struct Guide {
    /// Its name in the legend.
    pub label: String,
    /// Its course; drawn as far as the chart's range goes, which it does not widen.
    pub points: Vec<(f64, f64)>,
    /// Whether the chart's range must reach it.
    pub in_range: bool,
}

/// Wholes that are divided into the same parts, as data: one bar each.
#[derive(Debug, Clone)]
pub struct Bars {
    /// Stable name, unique in the document.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// The same in words, for who can't see it.
    pub alternative: String,
    /// How to read it.
    pub caption: String,
    /// What a bar's length stands for.
    pub axis: String,
    /// The unit of the parts.
    pub unit: String,
    /// Names of the parts, in their order.
    pub parts: Vec<String>,
    /// The bars, from top to bottom.
    pub rows: Vec<Bar>,
    /// Whether bars are as long as their parts together; else all are of one length, the whole that
    /// each divides.
    pub absolute: bool,
}

/// A bar.
#[derive(Debug, Clone)]
pub struct Bar {
    /// What is divided.
    pub label: String,
    /// How much each part is, one value a name.
    pub parts: Vec<f64>,
    /// Where its evidence is.
    pub evidence: Option<String>,
}

/// How latencies lie over time, as data.
#[derive(Debug, Clone)]
pub struct HeatMap {
    /// Stable name, unique in the document.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// The same in words, for who can't see it.
    pub alternative: String,
    /// How to read it.
    pub caption: String,
    /// The shortest latency drawn, microseconds.
    pub low: f64,
    /// The longest.
    pub high: f64,
    /// Between them, rows of equal ratio.
    pub rows: usize,
    /// Stretches of time, in order.
    pub columns: Vec<HeatColumn>,
}

/// A stretch of time in a heat map.
#[derive(Debug, Clone)]
pub struct HeatColumn {
    /// Where it begins, in seconds of load.
    pub begin: f64,
    /// Its length in seconds.
    pub length: f64,
    /// Whether another trial begins with it.
    pub new_trial: bool,
    /// Median, microseconds.
    pub p50: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// The longest.
    pub max: Option<f64>,
    /// In which row how many transactions ended, ascending.
    pub cells: Vec<(usize, u64)>,
    /// What a pointer resting on it reads.
    pub tip: String,
}

/// Memory by what lies where, as data: a strip for each part, the lines that are used marked in it.
#[derive(Debug, Clone)]
pub struct MemoryMap {
    /// Stable name, unique in the document.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// The same in words, for who can't see it.
    pub alternative: String,
    /// How to read it.
    pub caption: String,
    /// What the kinds of marks are, in the order of [`MemoryMark::kind`].
    pub kinds: [&'static str; 3],
    /// From the lowest address on.
    pub strips: Vec<MemoryStrip>,
}

/// A part of the memory, as long as any other.
#[derive(Debug, Clone)]
pub struct MemoryStrip {
    /// What lies there, and how long it is.
    pub label: String,
    /// What a pointer resting on it reads.
    pub tip: String,
    /// Where its lines are told.
    pub evidence: String,
    /// Lines that are used.
    pub marks: Vec<MemoryMark>,
}

/// A line of memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MemoryMark {
    /// Where it lies in the part, 0 to 1.
    pub at: f64,
    /// How high it stands, above 0 to 1.
    pub height: f64,
    /// Which of the map's kinds it is.
    pub kind: usize,
}

/// Ratios with their intervals, one under the other, beside what would be no difference: a forest
/// plot, as data.
#[derive(Debug, Clone)]
pub struct Forest {
    /// Stable name, unique in the document.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// The same in words, for who can't see it.
    pub alternative: String,
    /// How to read it.
    pub caption: String,
    /// What the ratios are of.
    pub axis: String,
    /// The relative difference that was said to matter, 0.01 for 1 %; 0 for none.
    pub delta: f64,
    /// From top to bottom.
    pub rows: Vec<Compared>,
}

/// A row of a forest plot.
#[derive(Debug, Clone)]
pub struct Compared {
    /// What is compared.
    pub label: String,
    /// Estimate, lower and upper end; the ends are 0 and infinite where they could not be told.
    pub ratio: (f64, f64, f64),
    /// How far equal servers lie apart, 0.01 for 1 %.
    pub floor: Option<f64>,
    /// The estimate in words.
    pub change: String,
    /// The interval in words.
    pub ends: String,
    /// What was concluded, in a word.
    pub verdict: String,
    /// How a reader is to take it; none where nothing was shown.
    pub rating: Option<Rating>,
}

/// The range of a forest plot's axis, which is that of a logarithm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reach {
    /// The smallest ratio on it.
    pub low: f64,
    /// The largest.
    pub high: f64,
}

impl Forest {
    /// As far as the estimates, the differences that matter and the noise go, and the intervals
    /// unless they are out of all proportion: of these the ends are cut.
    pub fn reach(&self) -> Reach {
        let usable = |v: &f64| v.is_finite() && *v > 0.0;
        let mut must = vec![self.delta.max(0.001)];
        must.extend(self.rows.iter().filter_map(|row| row.floor).filter(usable));
        let (mut low, mut high) = (0.0_f64, 0.0_f64);
        for reach in must.iter().map(|d| d.ln_1p()) {
            (low, high) = (low.min(-reach), high.max(reach));
        }
        let estimates = self.rows.iter().map(|row| row.ratio.0).filter(usable);
        for estimate in estimates.map(f64::ln) {
            (low, high) = (low.min(estimate), high.max(estimate));
        }
        let most = 2.0 * (high - low);
        let ends = self.rows.iter().flat_map(|row| [row.ratio.1, row.ratio.2]);
        let (mut wide_low, mut wide_high) = (low, high);
        for end in ends.filter(usable).map(f64::ln) {
            wide_low = wide_low.min(end.max(low - most));
            wide_high = wide_high.max(end.min(high + most));
        }
        let margin = 0.04 * (wide_high - wide_low);
        Reach {
            low: (wide_low - margin).exp(),
            high: (wide_high + margin).exp(),
        }
    }
}

impl Compared {
    /// `+3.1 % (+2.0 % to +4.2 %)`.
    pub fn figures(&self) -> String {
        format!("{} ({})", self.change, self.ends)
    }
}

impl Reach {
    /// Where a ratio lies, 0 to 1; beyond the ends it stands at them.
    pub fn at(self, ratio: f64) -> f64 {
        let share = (ratio / self.low).ln() / (self.high / self.low).ln();
        match share.is_nan() {
            true => 0.5,
            false => share.clamp(0.0, 1.0),
        }
    }

    /// Whether a ratio lies on the axis.
    pub fn holds(self, ratio: f64) -> bool {
        (self.low..=self.high).contains(&ratio)
    }

    /// Ratios for labels in round percentages, at most so many, no difference among them.
    pub fn ticks(self, most: usize) -> Vec<f64> {
        let percent = |ratio: f64| 100.0 * (ratio - 1.0);
        let (low, high) = (percent(self.low), percent(self.high));
        let steps = (-1..9).flat_map(|power| [1.0, 2.0, 5.0].map(|m| m * 10_f64.powi(power)));
        let count = |step: f64| (high / step).floor() - (low / step).ceil() + 1.0;
        let step = steps
            .into_iter()
            .find(|step| count(*step) <= most.max(1) as f64);
        let step = step.unwrap_or(high - low);
        let (first, last) = ((low / step).ceil() as i64, (high / step).floor() as i64);
        let ticks = (first..=last).map(|i| 1.0 + i as f64 * step / 100.0);
        ticks.filter(|ratio| *ratio > 0.0).collect()
    }
}

/// A ratio as a label: `+2 %`, `0`.
pub fn percent_label(ratio: f64) -> String {
    let percent = (100_000.0 * (ratio - 1.0)).round() / 1000.0;
    match percent {
        0.0 => "0".to_owned(),
        percent => format!("{percent:+}%").replace('-', "\u{2212}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub fn forest(rows: &[(f64, f64, f64)]) -> Forest {
        Forest {
            id: String::new(),
            title: String::new(),
            alternative: String::new(),
            caption: String::new(),
            axis: String::new(),
            delta: 0.01,
            rows: rows
                .iter()
                .map(|ratio| Compared {
                    label: String::new(),
                    ratio: *ratio,
                    floor: None,
                    change: String::new(),
                    ends: String::new(),
                    verdict: String::new(),
                    rating: None,
                })
                .collect(),
        }
    }

    #[test]
    fn twice_and_half_lie_equally_far_from_no_difference() {
        let reach = forest(&[(2.0, 1.9, 2.1), (0.5, 0.45, 0.55)]).reach();
        let middle = reach.at(1.0);
        assert!((reach.at(2.0) - middle - (middle - reach.at(0.5))).abs() < 1e-9);
        assert!(reach.holds(0.45) && reach.holds(2.1) && !reach.holds(3.0));
    }

    #[test]
    fn an_interval_without_bound_is_cut() {
        let reach = forest(&[(1.02, 0.0, f64::INFINITY), (1.0, 1e-9, 1e9)]).reach();
        assert!(reach.low > 0.8 && reach.high < 1.2, "{reach:?}");
        let odd = forest(&[(f64::NAN, f64::NAN, f64::NAN)]).reach();
        assert!(odd.holds(1.0) && odd.at(f64::NAN) == 0.5);
    }

    #[test]
    fn labels_are_round_and_hold_no_difference() {
        let reach = forest(&[(1.031, 1.02, 1.042), (0.991, 0.98, 1.002)]).reach();
        let ticks = reach.ticks(6);
        let labels: Vec<String> = ticks.iter().map(|t| percent_label(*t)).collect();
        assert_eq!(labels, ["−2%", "0", "+2%", "+4%"]);
    }
}

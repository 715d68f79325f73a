//! Pictures as data: what is drawn, not where on the page.

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
}

/// A bar.
#[derive(Debug, Clone)]
pub struct Bar {
    /// What is divided.
    pub label: String,
    /// How much each part is, one value a name.
    pub parts: Vec<f64>,
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

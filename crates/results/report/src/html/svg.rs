//! Drawing: a chart's data as SVG elements.
//!
//! Written with `maud` rather than a plotting library, because the marks must
//! carry classes (colours by CSS variable, for dark pages and print) and a
//! `<title>` each (what a pointer reads), which plotting libraries that write
//! fixed colours can't give.

use maud::{Markup, html};

use super::scale::Placed;
use super::text;
use crate::document::{Chart, Dot, Guide, Interval, Series};

/// Markers and colours that the style sheet tells apart; further series begin again.
pub const LOOKS: usize = 4;

/// The measures of a picture in its own units, which are CSS pixels at full size.
pub struct Size {
    /// Suffix of ids within the page.
    name: &'static str,
    width: f64,
    height: f64,
    /// Width of a character of a label, about.
    character: f64,
    /// Labels that fit on the vertical axis.
    rows: usize,
    /// Half the width over which trials of one position are spread.
    spread: f64,
    /// Height of a bar with the space below it.
    bar: f64,
}

impl Size {
    /// Suffix of ids within the page.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Width and height.
    pub fn measures(&self) -> (f64, f64) {
        (self.width, self.height)
    }

    /// Width of a character of a label, about.
    pub fn character(&self) -> f64 {
        self.character
    }

    /// Where the middle of a tick's label stands: at `x`, unless the picture's edge would cut it.
    pub fn beside_edges(&self, x: f64, label: &str) -> f64 {
        let half = widest(label) / 2.0;
        x.clamp(half, self.width - half)
    }

    /// Labels that fit on the vertical axis.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Height of a bar with the space below it.
    pub fn bar(&self) -> f64 {
        self.bar
    }
}

/// Where a picture begins whose vertical axis has its labels at its left, ending 8 before it.
pub fn beside(y: &Placed) -> f64 {
    let labels = y.ticks.iter().map(|tick| widest(&y.label(*tick)));
    labels.fold(0.0, f64::max).ceil() + 12.0
}

/// The width of a tick's label in the widest font that is common (DejaVu Sans, at the size that
/// style.css gives to labels), in CSS pixels.
fn widest(label: &str) -> f64 {
    const SIZE: f64 = 13.0;
    let width = |c: char| match c {
        '%' => 0.95,
        '+' | '\u{2212}' | '×' => 0.84,
        '.' | ',' | ' ' => 0.32,
        'm' | 'M' | 'W' => 0.99,
        _ => 0.64,
    };
    SIZE * label.chars().map(width).sum::<f64>()
}

/// For pages of a desk or of paper.
pub const WIDE: Size = Size {
    name: "wide",
    width: 880.0,
    height: 420.0,
    character: 7.6,
    rows: 6,
    spread: 18.0,
    bar: 34.0,
};

/// For two side by side on a desk.
pub const HALF: Size = Size {
    name: "half",
    width: 540.0,
    height: 280.0,
    character: 7.6,
    rows: 5,
    spread: 12.0,
    bar: 34.0,
};

/// For a phone held upright.
pub const NARROW: Size = Size {
    name: "narrow",
    width: 330.0,
    height: 300.0,
    character: 7.6,
    rows: 5,
    spread: 9.0,
    bar: 34.0,
};

/// For the first screen of a phone.
pub const COMPACT: Size = Size {
    name: "compact",
    width: 330.0,
    height: 132.0,
    character: 7.6,
    rows: 3,
    spread: 9.0,
    bar: 15.0,
};

/// For several side by side.
pub const SMALL: Size = Size {
    name: "small",
    width: 290.0,
    height: 210.0,
    character: 7.6,
    rows: 4,
    spread: 7.0,
    bar: 34.0,
};

/// The room that a figure has on a desk and on a phone.
pub struct Room {
    /// The picture's size on a desk.
    pub wide: &'static Size,
    /// On a phone.
    pub narrow: &'static Size,
    /// Whether the caption is folded.
    pub folded: bool,
}

/// Among the text.
pub const IN_TEXT: Room = Room {
    wide: &WIDE,
    narrow: &NARROW,
    folded: false,
};

/// The only one of the first screen.
pub const ALONE: Room = Room {
    wide: &WIDE,
    narrow: &COMPACT,
    folded: true,
};

/// One of two of the first screen.
pub const BESIDE: Room = Room {
    wide: &HALF,
    ..ALONE
};

const TOP: f64 = 26.0;
const RIGHT: f64 = 12.0;
const BOTTOM: f64 = 48.0;

/// The names of what says a picture in words; a copy of another size has no words of its own.
pub fn words(id: &str) -> String {
    format!("{id}-t {id}-d")
}

/// The picture with its text alternative and what a pointer reads at its marks, unless it is a
/// `copy` of one that has them.
pub fn picture(chart: &Chart, size: &Size, copy: bool) -> Markup {
    let plot = Plot::new(chart, size, copy);
    let id = &chart.id;
    html! {
        svg.chart role="img" aria-labelledby=(words(id))
            viewBox={ "0 0 " (size.width) " " (size.height) } {
            @if !copy {
                title id={ (id) "-t" } { (text(&chart.title)) }
                desc id={ (id) "-d" } { (text(&chart.alternative)) }
            }
            (plot.axes(chart))
            @for guide in &chart.guides { (plot.guide(guide)) }
            @for series in &chart.series { (plot.dots(series)) }
            @for series in &chart.series { (plot.estimates(series)) }
        }
    }
}

struct Plot<'a> {
    size: &'a Size,
    /// Whether its marks say nothing: those of another size do.
    copy: bool,
    /// Where the plot begins, right of the vertical axis's labels.
    left: f64,
    x: Placed,
    y: Placed,
}

impl<'a> Plot<'a> {
    fn new(chart: &Chart, size: &'a Size, copy: bool) -> Self {
        let (mut xs, mut ys) = (chart.x.ticks.clone(), Vec::new());
        for series in &chart.series {
            xs.extend(series.estimates.iter().map(|e| e.x));
            xs.extend(series.dots.iter().map(|d| d.x));
            ys.extend(series.estimates.iter().flat_map(|e| [e.y, e.low, e.high]));
            ys.extend(series.dots.iter().map(|d| d.y));
        }
        let reached = chart.guides.iter().filter(|g| g.in_range);
        ys.extend(reached.flat_map(|g| g.points.iter().map(|p| p.1)));
        // a margin on either side, where trials are spread around the outermost points
        let inset = size.spread + 7.0;
        let y = Placed::new(&chart.y, &ys, (size.height - BOTTOM, TOP), size.rows);
        let left = beside(&y);
        let columns = ((size.width - left) / 70.0) as usize;
        let ends = (left + inset, size.width - RIGHT - inset);
        Self {
            size,
            copy,
            left,
            x: Placed::new(&chart.x, &xs, ends, columns),
            y,
        }
    }

    fn axes(&self, chart: &Chart) -> Markup {
        let (size, left) = (self.size, r(self.left));
        let (right, bottom) = (size.width - RIGHT, size.height - BOTTOM);
        html! {
            g.axes aria-hidden="true" {
                @for tick in &self.y.ticks {
                    @let y = r(self.y.at(*tick));
                    path.grid d={ "M" (left) " " (y) "H" (right) } {}
                    text.end x=(r(self.left - 8.0)) y=(y + 4.0) { (self.y.label(*tick)) }
                }
                text x="0" y="12" { (text(&chart.y.label)) }
                path.base d={ "M" (left) " " (bottom) "H" (right) } {}
                @for (x, label) in self.x_labels() {
                    path.tick d={ "M" (r(x)) " " (bottom) "v5" } {}
                    text.middle x=(r(x)) y=(bottom + 20.0) { (label) }
                }
                text.middle x=(r((left + right) / 2.0)) y=(size.height - 6.0) {
                    (text(&chart.x.label))
                }
            }
        }
    }

    /// Labels of the horizontal axis that don't run into each other.
    fn x_labels(&self) -> Vec<(f64, String)> {
        let mut labels: Vec<(f64, String)> = Vec::new();
        let mut free_from = f64::NEG_INFINITY;
        for tick in self.x.ticks.iter().filter(|t| self.x.holds(**t)) {
            let (x, label) = (self.x.at(*tick), self.x.label(*tick));
            let half = label.chars().count() as f64 * self.size.character / 2.0;
            if x - half > free_from {
                free_from = x + half + self.size.character * 0.6;
                labels.push((x, label));
            }
        }
        labels
    }

    fn guide(&self, guide: &Guide) -> Markup {
        let mut within = Vec::new();
        let mut before: Option<(f64, f64)> = None;
        for point in &guide.points {
            if self.y.holds(point.1) {
                within.push((self.x.at(point.0), self.y.at(point.1)));
            } else if let Some(last) = before.filter(|b| self.y.holds(b.1)) {
                // ends where it leaves the picture
                let share = (self.y.high() - last.1) / (point.1 - last.1);
                let x = self.x.at(last.0) + share * (self.x.at(point.0) - self.x.at(last.0));
                within.push((x, self.y.at(self.y.high())));
            }
            before = Some(*point);
        }
        html! { path.guide d=(path(&within)) {} }
    }

    /// Where a series has its marks for a value of x: in its lane.
    fn place(&self, series: &Series, x: f64) -> f64 {
        let (lane, lanes) = series.lane;
        let middle = lanes.saturating_sub(1) as f64 / 2.0;
        let apart = 2.0 * self.size.spread / lanes.max(1) as f64;
        self.x.at(x) + (lane as f64 - middle) * apart
    }

    fn dots(&self, series: &Series) -> Markup {
        let spread = self.size.spread / series.lane.1.max(1) as f64;
        let drawable = |d: &&Dot| d.y.is_finite() && self.y.holds(d.y);
        let shown: Vec<&Dot> = series.dots.iter().filter(drawable).collect();
        let marks = shown.iter().map(|dot| {
            let x = self.place(series, dot.x) + aside(dot.offset) * spread;
            format!("M{} {}h0", r(x), r(self.y.at(dot.y)))
        });
        let marks: String = marks.collect();
        html! {
            @if !shown.is_empty() {
                g class={ "look-" (series.look % LOOKS) } {
                    path.dots d=(marks) data-tips=[self.tips(shown.iter().map(|d| d.tip.as_str()))] {}
                }
            }
        }
    }

    fn estimates(&self, series: &Series) -> Markup {
        let look = series.look % LOOKS;
        let drawable = |e: &&Interval| self.x.holds(e.x) && self.y.holds(e.y);
        let shown: Vec<&Interval> = series.estimates.iter().filter(drawable).collect();
        let course: Vec<(f64, f64)> = shown
            .iter()
            .map(|e| (self.place(series, e.x), self.y.at(e.y)))
            .collect();
        let bounded = shown
            .iter()
            .filter(|e| self.y.holds(e.low) && self.y.holds(e.high));
        let whiskers = bounded.map(|e| {
            let x = self.place(series, e.x);
            whisker(x, self.y.at(e.low), self.y.at(e.high))
        });
        let whiskers: String = whiskers.collect();
        let marks: String = course.iter().map(|at| shape(look, *at)).collect();
        let evidence = series.evidence.as_ref().filter(|_| !self.copy);
        let evidence = evidence.map(|prefix| {
            let names: Vec<String> = shown.iter().map(|e| format!("{prefix}{}", e.x)).collect();
            names.join(" ")
        });
        html! {
            @if !shown.is_empty() {
                g class={ "look-" (look) } {
                    @if course.len() > 1 { path.course d=(path(&course)) {} }
                    @if !whiskers.is_empty() { path.interval d=(whiskers) {} }
                    path.estimates d=(marks) data-tips=[self.tips(shown.iter().map(|e| e.tip.as_str()))]
                        data-evidence=[evidence] {}
                }
            }
        }
    }

    /// What a pointer reads at the marks that one path draws, a line each: the script divides it.
    fn tips<'t>(&self, tips: impl Iterator<Item = &'t str>) -> Option<String> {
        let tips: Vec<String> = tips.map(text).collect();
        (!self.copy).then(|| tips.join("\n"))
    }
}

/// Leaves the middle to the estimate: -1 to 1 becomes -1 to -0.4 and 0.4 to 1.
fn aside(offset: f64) -> f64 {
    if offset == 0.0 {
        return 0.0;
    }
    offset.signum() * (0.4 + 0.6 * offset.abs())
}

/// The mark of an estimate, by itself.
pub fn marker(look: usize, x: f64, y: f64, tip: &str) -> Markup {
    html! {
        path.estimate d=(shape(look, (x, y))) { @if !tip.is_empty() { title { (text(tip)) } } }
    }
}

/// The mark of a single trial, by itself.
pub fn dot_marker(x: f64, y: f64) -> Markup {
    html! { path.dots d={ "M" (x) " " (y) "h0" } {} }
}

/// Circle, square, triangle or diamond of about the same area, around a place.
fn shape(look: usize, (x, y): (f64, f64)) -> String {
    match look {
        0 => format!("M{} {}a4.5 4.5 0 109 0 4.5 4.5 0 10-9 0z", r(x - 4.5), r(y)),
        1 => format!("M{} {}h8.2v8.2h-8.2z", r(x - 4.1), r(y - 4.1)),
        2 => format!("M{} {}l5.8 10h-11.6z", r(x), r(y - 5.8)),
        _ => format!("M{} {}l5.8 5.8-5.8 5.8-5.8-5.8z", r(x), r(y - 5.8)),
    }
}

fn whisker(x: f64, low: f64, high: f64) -> String {
    let (x, low, high) = (r(x), r(low), r(high));
    format!(
        "M{} {low}h10M{x} {low}V{high}M{} {high}h10",
        x - 5.0,
        x - 5.0
    )
}

fn path(points: &[(f64, f64)]) -> String {
    let mut d = String::new();
    for (i, (x, y)) in points.iter().enumerate() {
        d.push(if i == 0 { 'M' } else { 'L' });
        d.push_str(&format!("{} {}", r(*x), r(*y)));
    }
    d
}

/// A place in tenths of a pixel: finer than that nobody sees.
pub(super) fn r(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

//! A heat map of latency over time as SVG: cells by opacity, three lines on top.

use maud::{Markup, html};

use super::scale::Placed;
use super::svg::{Size, tick_label};
use super::{svg, text};
use crate::document::{Axis, HeatColumn, HeatMap, Scale};

const TOP: f64 = 26.0;
const RIGHT: f64 = 12.0;
const BOTTOM: f64 = 48.0;

/// The figure with legend and caption.
pub fn figure(map: &HeatMap) -> Markup {
    html! {
        figure id={ "figure-" (map.id) } {
            h3 { (text(&map.title)) }
            ul.legend {
                @for (class, label) in LINES {
                    li {
                        svg.swatch viewBox="0 0 28 14" aria-hidden="true" {
                            path class={ "over " (class) } d="M1 7H27" {}
                        }
                        " " (label)
                    }
                }
            }
            div.wide { (picture(map, &svg::WIDE)) }
            div.narrow { (picture(map, &svg::NARROW)) }
            figcaption { (text(&map.caption)) }
        }
    }
}

const LINES: [(&str, &str); 3] = [("half", "median"), ("most", "p99"), ("longest", "longest")];

/// The picture with its text alternative.
fn picture(map: &HeatMap, size: &Size) -> Markup {
    let end = map.columns.last().map_or(1.0, |c| c.begin + c.length);
    let log = Axis {
        label: String::new(),
        scale: Scale::Duration,
        ticks: vec![],
    };
    let time = Axis {
        scale: Scale::FromZero,
        ..log.clone()
    };
    let (width, height) = size.measures();
    let y = Placed::new(
        &log,
        &[map.low, map.high],
        (height - BOTTOM, TOP),
        size.rows(),
    );
    let labels = y.ticks.iter().map(|t| y.label(*t).chars().count());
    let left = labels.max().unwrap_or(0) as f64 * size.character() + 12.0;
    let right = width - RIGHT;
    let columns = ((width - left) / 70.0) as usize;
    let x = Placed::new(&time, &[0.0, end], (left, right), columns);
    // The axis may end on a round figure beyond the last trial; the picture does not.
    let at = |seconds: f64| left + (right - left) * seconds / end.max(1e-9);
    let bottom = height - BOTTOM;
    let most = |column: &HeatColumn| column.cells.iter().map(|c| c.2).max().unwrap_or(1);
    let id = format!("{}-{}", map.id, size.name());
    let line = |value: &dyn Fn(&HeatColumn) -> Option<f64>| course(map, &at, &y, value);
    html! {
        svg.chart role="img" aria-labelledby={ (id) "-t " (id) "-d" }
            viewBox={ "0 0 " (width) " " (height) } {
            title id={ (id) "-t" } { (text(&map.title)) }
            desc id={ (id) "-d" } { (text(&map.alternative)) }
            g.axes aria-hidden="true" {
                @for tick in &y.ticks {
                    @let place = r(y.at(*tick));
                    path.grid d={ "M" (r(left)) " " (place) "H" (r(right)) } {}
                    text.end x=(r(left - 8.0)) y=(place + 4.0) { (y.label(*tick)) }
                }
                text x="0" y="12" { "latency" }
                path.base d={ "M" (r(left)) " " (bottom) "H" (r(right)) } {}
                @for tick in x.ticks.iter().filter(|t| **t <= end * 1.001) {
                    path.tick d={ "M" (r(at(*tick))) " " (bottom) "v5" } {}
                    text.middle x=(r(at(*tick))) y=(bottom + 20.0) { (tick_label(*tick)) }
                }
                text.middle x=(r((left + right) / 2.0)) y=(height - 6.0) { "seconds of load" }
            }
            g.heat {
                @for column in &map.columns {
                    @let (from, to) = (at(column.begin), at(column.begin + column.length));
                    g {
                        title { (text(&column.tip)) }
                        @for (low, high, count) in &column.cells {
                            rect x=(r(from)) width=(r(to - from + 0.2)) y=(r(y.at(*high)))
                                height=(r(y.at(*low) - y.at(*high) + 0.2))
                                fill-opacity=(opacity(*count, most(column))) {}
                        }
                    }
                }
            }
            g aria-hidden="true" {
                @for column in map.columns.iter().filter(|c| c.new_trial) {
                    path.seam d={ "M" (r(at(column.begin))) " " (TOP) "V" (bottom) } {}
                }
                path.over.longest d=(line(&|c| c.max)) {}
                path.over.most d=(line(&|c| c.p99)) {}
                path.over.half d=(line(&|c| c.p50)) {}
            }
        }
    }
}

/// By the cube root: a single slow transaction among thousands must still be seen.
fn opacity(count: u64, most: u64) -> f64 {
    let share = count as f64 / most.max(1) as f64;
    (share.cbrt().clamp(0.08, 1.0) * 100.0).round() / 100.0
}

/// A line through the middles of the columns, broken where a trial begins or nothing ended.
fn course(
    map: &HeatMap,
    at: &dyn Fn(f64) -> f64,
    y: &Placed,
    value: &dyn Fn(&HeatColumn) -> Option<f64>,
) -> String {
    let mut path = String::new();
    let mut pen = 'M';
    for column in &map.columns {
        if column.new_trial {
            pen = 'M';
        }
        match value(column).filter(|v| y.holds(*v)) {
            Some(value) => {
                let x = r(at(column.begin + column.length / 2.0));
                path.push_str(&format!("{pen}{x} {}", r(y.at(value))));
                pen = 'L';
            }
            None => pen = 'M',
        }
    }
    path
}

/// A tenth of a pixel is fine enough.
fn r(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

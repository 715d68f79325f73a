//! A heat map of latency over time as SVG: cells in shades, three lines on top.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::scale::{Placed, tick_label};
use super::svg::{Size, r};
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
            div.wide { (picture(map, &svg::WIDE, true)) }
            div.narrow { (picture(map, &svg::NARROW, false)) }
            figcaption { (text(&map.caption)) }
        }
    }
}

const LINES: [(&str, &str); 3] = [("half", "median"), ("most", "p99"), ("longest", "longest")];

/// The picture with its text alternative. The cells are in the first of a map; others refer to them.
fn picture(map: &HeatMap, size: &Size, first: bool) -> Markup {
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
    let left = svg::beside(&y);
    let right = width - RIGHT;
    let columns = ((width - left) / 70.0) as usize;
    let x = Placed::new(&time, &[0.0, end], (left, right), columns);
    // The axis may end on a round figure beyond the last trial; the picture does not.
    let at = |seconds: f64| left + (right - left) * seconds / end.max(1e-9);
    let bottom = height - BOTTOM;
    let id = &map.id;
    html! {
        svg.chart role="img" aria-labelledby=(svg::words(id))
            viewBox={ "0 0 " (width) " " (height) } {
            @if first {
                title id={ (id) "-t" } { (text(&map.title)) }
                desc id={ (id) "-d" } { (text(&map.alternative)) }
            }
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
            (cells(map, first, &at, &y))
        }
    }
}

/// Shades of a cell.
const SHADES: usize = 12;

/// The cells and the lines over them, in columns and rows: one path for each shade, which takes a
/// tenth of the room that a box a cell takes. What a column says is in a line of an attribute, and
/// where it begins in another: the script makes areas of them.
fn cells(map: &HeatMap, first: bool, at: &dyn Fn(f64) -> f64, y: &Placed) -> Markup {
    let unit = map.columns.iter().map(|c| c.length).fold(1e-9, f64::max);
    let begin = |column: &HeatColumn| thousandth(column.begin / unit);
    let length = |column: &HeatColumn| thousandth(column.length / unit);
    let (left, low) = (at(0.0), y.at(map.low));
    let (wide, high) = (
        at(unit) - left,
        (low - y.at(map.high)) / map.rows.max(1) as f64,
    );
    let shades: Vec<BTreeMap<usize, usize>> = map.columns.iter().map(shades).collect();
    let mut paths = vec![String::new(); SHADES];
    for row in 0..map.rows {
        // Neighbours of one shade are one stroke.
        let mut shaded = shades.iter().map(|column| column.get(&row)).enumerate();
        let mut next = shaded.next();
        while let Some((first, shade)) = next {
            let mut last = first;
            next = shaded.next();
            while let Some((column, _)) = next.filter(|(_, other)| *other == shade) {
                last = column;
                next = shaded.next();
            }
            if let Some(shade) = shade {
                let (from, last) = (begin(&map.columns[first]), &map.columns[last]);
                let long = thousandth(begin(last) + length(last) - from);
                paths[*shade].push_str(&format!("M{from} {row}h{long}"));
            }
        }
    }
    let row = |value: f64| hundredth((low - y.at(value)) / high - 0.5);
    let line = |value: &dyn Fn(&HeatColumn) -> Option<f64>| {
        let middle = |c: &HeatColumn| hundredth(begin(c) + length(c) / 2.0);
        course(map, &middle, &|us| y.holds(us).then(|| row(us)), value)
    };
    let seams = map.columns.iter().filter(|c| c.new_trial);
    let seams = seams.map(|c| format!("M{} -.5v{}", begin(c), map.rows));
    let seams: String = seams.collect();
    let begins: Vec<String> = map.columns.iter().map(|c| begin(c).to_string()).collect();
    let tips: Vec<String> = map.columns.iter().map(|c| text(&c.tip)).collect();
    let drawn = paths
        .iter()
        .enumerate()
        .filter(|(_, path)| !path.is_empty());
    html! {
        // Upwards, as the latency grows; a row's number is its middle.
        g.heat transform={
            "translate(" (r(left)) " " (r(low - high / 2.0)) ") scale(" (thousandth(wide)) " -" (thousandth(high)) ")"
        } {
            @if first {
                g id={ (map.id) "-cells" } {
                    g.cells data-rows=(map.rows) data-begins=(begins.join(" ")) data-tips=(tips.join("\n")) {
                        @for (shade, path) in drawn {
                            path stroke-opacity=(thousandth((shade + 1) as f64 / SHADES as f64)) d=(path) {}
                        }
                    }
                    path.seam d=(seams) {}
                    path.over.longest d=(line(&|c| c.max)) {}
                    path.over.most d=(line(&|c| c.p99)) {}
                    path.over.half d=(line(&|c| c.p50)) {}
                }
            } @else {
                use href={ "#" (map.id) "-cells" } {}
            }
        }
    }
}

/// The shades of a column's cells, by row.
fn shades(column: &HeatColumn) -> BTreeMap<usize, usize> {
    let most = column.cells.iter().map(|c| c.1).max().unwrap_or(1);
    let cells = column.cells.iter();
    cells
        .map(|(row, count)| (*row, shade(*count, most)))
        .collect()
}

/// By the cube root: a single slow transaction among thousands must still be seen.
fn shade(count: u64, most: u64) -> usize {
    let share = (count as f64 / most.max(1) as f64).cbrt();
    ((share * SHADES as f64).ceil() as usize).clamp(1, SHADES) - 1
}

fn hundredth(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

fn thousandth(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

/// A line through the middles of the columns, broken where a trial begins or nothing ended.
fn course(
    map: &HeatMap,
    middle: &dyn Fn(&HeatColumn) -> f64,
    row: &dyn Fn(f64) -> Option<f64>,
    value: &dyn Fn(&HeatColumn) -> Option<f64>,
) -> String {
    let mut path = String::new();
    let mut pen = 'M';
    for column in &map.columns {
        if column.new_trial {
            pen = 'M';
        }
        match value(column).and_then(row) {
            Some(row) => {
                path.push_str(&format!("{pen}{} {row}", middle(column)));
                pen = 'L';
            }
            None => pen = 'M',
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(columns: usize, rows: usize, count: impl Fn(usize, usize) -> u64) -> HeatMap {
        let column = |at: usize| HeatColumn {
            begin: at as f64 * 0.2,
            length: 0.2,
            new_trial: false,
            p50: Some(100.0),
            p99: Some(200.0),
            max: Some(900.0),
            cells: (0..rows).map(|row| (row, count(at, row))).collect(),
            tip: format!("trial 1, {at} s: half within 100 µs, the longest 900 µs"),
        };
        HeatMap {
            id: "t".to_owned(),
            title: String::new(),
            alternative: String::new(),
            caption: String::new(),
            low: 10.0,
            high: 1000.0,
            rows,
            columns: (0..columns).map(column).collect(),
        }
    }

    #[test]
    fn neighbours_of_one_shade_are_one_stroke() {
        // two columns alike, then one in which the second row has less
        let page = figure(&map(
            3,
            2,
            |at, row| if at == 2 && row == 1 { 1 } else { 9 },
        ));
        let page = page.into_string();
        assert!(page.contains("d=\"M0 0h3M0 1h2\""), "{page}");
        assert!(page.contains("d=\"M2 1h1\""), "{page}");
        assert!(page.contains("data-begins=\"0 1 2\""), "{page}");
    }

    /// A box a cell took 75 bytes: heat maps were two thirds of a page.
    #[test]
    fn a_cell_takes_few_bytes() {
        let unlike = |at: usize, row: usize| 1 + ((at * 31 + row * 17) % 97) as u64;
        let cells = 160 * 30;
        let page = figure(&map(160, 30, unlike)).into_string();
        let without = figure(&map(160, 0, unlike)).into_string();
        let drawn = page.len() - without.len();
        assert!(drawn < 2 * cells * 14, "{} bytes a cell", drawn / 2 / cells);
    }

    #[test]
    fn a_single_slow_transaction_is_seen() {
        assert_eq!(shade(1, 1), SHADES - 1);
        assert_eq!(shade(1, 1_000_000), 0);
        assert!(shade(1, 1000) > 0);
    }
}

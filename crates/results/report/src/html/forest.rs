//! A forest plot as SVG: a row a comparison, with what equal servers show behind it.

use maud::{Markup, html};

use super::svg::{self, Size, r};
use super::text;
use crate::document::{Compared, Forest, Rating, Reach, percent_label};

const TOP: f64 = 10.0;
const BOTTOM: f64 = 48.0;
const RIGHT: f64 = 14.0;
/// Height of a row whose words stand beside it, and of one whose words stand above it.
const ROW: f64 = 30.0;
const TALL: f64 = 50.0;
/// Of the latter, what is below the words.
const BAND: f64 = 26.0;

/// The figure with legend and caption.
pub fn figure(forest: &Forest) -> Markup {
    let noise = forest.rows.iter().any(|row| row.floor.is_some());
    html! {
        figure id={ "figure-" (forest.id) } {
            h3 { (text(&forest.title)) }
            ul.legend {
                @if noise {
                    li { (swatch(&html! { path.noise d="M2 1h24v12h-24z" {} })) " noise: equal servers" }
                }
                @if forest.delta > 0.0 {
                    li {
                        (swatch(&html! { path.guide d="M14 0V14" {} }))
                        " ±" (crate::compare::percent(forest.delta)) ", the difference that matters"
                    }
                }
            }
            div.wide { (picture(forest, &svg::WIDE, true)) }
            div.narrow { (picture(forest, &svg::NARROW, false)) }
            figcaption { (text(&forest.caption)) }
        }
    }
}

fn swatch(drawn: &Markup) -> Markup {
    html! { svg.swatch viewBox="0 0 28 14" aria-hidden="true" { (drawn) } }
}

/// Where the rows stand.
struct Layout {
    left: f64,
    right: f64,
    row: f64,
    beside: bool,
    reach: Reach,
}

impl Layout {
    fn at(&self, ratio: f64) -> f64 {
        r(self.left + self.reach.at(ratio) * (self.right - self.left))
    }
}

fn picture(forest: &Forest, size: &Size, beside: bool) -> Markup {
    let (width, _) = size.measures();
    let longest = |of: &dyn Fn(&Compared) -> usize| {
        let most = forest.rows.iter().map(of).max().unwrap_or(0);
        most as f64 * size.character() + 14.0
    };
    let row = if beside { ROW } else { TALL };
    let mut layout = Layout {
        left: RIGHT,
        right: width - RIGHT,
        row,
        beside,
        reach: forest.reach(),
    };
    if beside {
        layout.left = longest(&|row| row.label.chars().count()).min(width * 0.3);
        layout.right = width - longest(&|row| said(row).chars().count()).min(width * 0.42);
    }
    let bottom = TOP + row * forest.rows.len() as f64;
    let height = bottom + BOTTOM;
    let id = format!("{}-{}", forest.id, size.name());
    let middle = r((layout.left + layout.right) / 2.0);
    let ticks = layout
        .reach
        .ticks(((layout.right - layout.left) / 75.0) as usize);
    html! {
        svg.chart.forest role="img" aria-labelledby={ (id) "-t " (id) "-d" }
            viewBox={ "0 0 " (width) " " (height) } {
            title id={ (id) "-t" } { (text(&forest.title)) }
            desc id={ (id) "-d" } { (text(&forest.alternative)) }
            g.axes aria-hidden="true" {
                @for ratio in ticks {
                    path.grid d={ "M" (layout.at(ratio)) " " (TOP) "V" (bottom) } {}
                    @let label = percent_label(ratio);
                    text.middle x=(r(size.beside_edges(layout.at(ratio), &label))) y=(bottom + 18.0) { (label) }
                }
                text.middle x=(middle) y=(height - 8.0) { (text(&forest.axis)) }
            }
            @for (i, row) in forest.rows.iter().enumerate() {
                @if let Some(floor) = row.floor { (noise(floor, i, &layout)) }
            }
            g aria-hidden="true" {
                @if forest.delta > 0.0 {
                    @for ratio in [(1.0 - forest.delta).max(0.0), 1.0 + forest.delta] {
                        path.guide d={ "M" (layout.at(ratio)) " " (TOP) "V" (bottom) } {}
                    }
                }
                path.base d={ "M" (layout.at(1.0)) " " (TOP) "V" (bottom) } {}
            }
            @for (i, row) in forest.rows.iter().enumerate() { (drawn(row, i, width, &layout)) }
        }
    }
}

/// `faster +3.1 % (+2.0 % to +4.2 %)`.
fn said(row: &Compared) -> String {
    format!("{} {}", row.verdict, row.figures())
}

fn noise(floor: f64, row: usize, layout: &Layout) -> Markup {
    let (from, to) = (layout.at(1.0 / (1.0 + floor)), layout.at(1.0 + floor));
    let high = if layout.beside { layout.row } else { BAND };
    let top = TOP + layout.row * (row + 1) as f64 - high;
    html! { path.noise d={ "M" (from) " " (r(top)) "H" (to) "v" (high) "H" (from) "z" } {} }
}

fn drawn(row: &Compared, index: usize, width: f64, layout: &Layout) -> Markup {
    let top = TOP + layout.row * index as f64;
    let y = match layout.beside {
        true => top + layout.row / 2.0,
        false => top + layout.row - BAND / 2.0,
    };
    let words = if layout.beside { y + 4.0 } else { top + 18.0 };
    let (look, class) = match row.rating {
        Some(Rating::Good) => (2, "look-2"),
        Some(Rating::Bad) => (1, "look-1"),
        _ => (0, "look-none"),
    };
    let (estimate, low, high) = row.ratio;
    let tip = format!("{}: {}", row.label, said(row));
    html! {
        g class=(class) {
            @if layout.beside {
                text.end x=(r(layout.left - 10.0)) y=(words) { (text(&row.label)) }
                text x=(r(layout.right + 12.0)) y=(words) { tspan.verdict { (text(&row.verdict)) } " " (text(&row.figures())) }
            } @else {
                text x="0" y=(words) { (text(&row.label)) }
                text.end x=(r(width)) y=(words) { tspan.verdict { (text(&row.verdict)) } " " (text(&row.change)) }
            }
            @if low <= high { path.interval d=(whisker(low, high, y, layout)) {} }
            @if estimate.is_finite() { (svg::marker(look, layout.at(estimate), y, &tip)) }
        }
    }
}

/// The interval; an end that is on the axis has a stop, one beyond it an arrow.
fn whisker(low: f64, high: f64, y: f64, layout: &Layout) -> String {
    let (from, to) = (layout.at(low), layout.at(high));
    let end = |x: f64, inside: bool, towards: f64| match inside {
        true => format!("M{x} {}v10", y - 5.0),
        false => format!(
            "M{} {}L{x} {y}L{} {}",
            x - towards,
            y - 5.0,
            x - towards,
            y + 5.0
        ),
    };
    format!(
        "M{from} {y}H{to}{}{}",
        end(from, layout.reach.holds(low), -6.0),
        end(to, layout.reach.holds(high), 6.0)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `−50%` is 40 px wide in DejaVu Sans.
    #[test]
    fn a_label_at_an_edge_is_not_cut() {
        for size in [&svg::WIDE, &svg::NARROW] {
            let (width, _) = size.measures();
            assert!((19.8..22.0).contains(&size.beside_edges(3.0, "\u{2212}50%")));
            assert!((19.8..22.0).contains(&(width - size.beside_edges(width, "\u{2212}50%"))));
            assert_eq!(size.beside_edges(150.0, "\u{2212}50%"), 150.0);
        }
    }

    #[test]
    fn a_row_has_its_noise_its_interval_and_its_words() {
        let row = |label: &str, ratio, floor, rating| Compared {
            label: label.to_owned(),
            ratio,
            floor,
            change: "+4.0 %".to_owned(),
            ends: "+3.0 % to +5.0 %".to_owned(),
            verdict: "faster<".to_owned(),
            rating,
        };
        let forest = Forest {
            id: "f".to_owned(),
            title: "t".to_owned(),
            alternative: String::new(),
            caption: String::new(),
            axis: String::new(),
            delta: 0.01,
            rows: vec![
                row(
                    "1 client",
                    (1.04, 1.03, 1.05),
                    Some(0.02),
                    Some(Rating::Good),
                ),
                row("2 clients", (f64::NAN, f64::NAN, f64::NAN), None, None),
            ],
        };
        let page = figure(&forest).into_string();
        // in two sizes, and one in the legend
        assert_eq!(page.matches("class=\"noise\"").count(), 3);
        assert_eq!(page.matches("class=\"interval\"").count(), 2);
        assert_eq!(page.matches("class=\"estimate\"").count(), 2);
        assert!(page.contains("<title>1 client: faster&lt; +4.0% (+3.0% to +5.0%)</title>"));
        assert!(!page.contains("NaN"), "{page}");
    }
}

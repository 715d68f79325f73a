//! Stacked bars as SVG: one bar a row, its parts in their order, widths to scale.

use maud::{Markup, html};

use super::scale::{Placed, tick_label};
use super::svg::{Room, Size, r, words};
use super::{caption, text};
use crate::document::{Axis, Bars, Scale};

/// Fills that the style sheet tells apart: five that are strong, three that are pale.
const STRONG: usize = 5;
const PALE: usize = 3;

/// As much of a row as the bar takes.
const BAR: f64 = 0.65;
const TOP: f64 = 8.0;
const BOTTOM: f64 = 44.0;
const RIGHT: f64 = 14.0;
/// The part of the width that names beside the bars may take.
const BESIDE: f64 = 0.45;
/// What a name above its bar takes.
const NAME_HIGH: f64 = 18.0;

/// The figure with its legend and caption.
pub fn figure(bars: &Bars, room: &Room) -> Markup {
    html! {
        figure id={ "figure-" (bars.id) } {
            h3 { (text(&bars.title)) }
            ul.legend {
                @for (i, part) in bars.parts.iter().enumerate() {
                    li {
                        svg.swatch viewBox="0 0 28 14" aria-hidden="true" {
                            rect class=(fill(i, bars.parts.len())) x="2" y="1" width="24" height="12" {}
                        }
                        " " (text(part))
                    }
                }
            }
            div.wide { (picture(bars, room.wide, false)) }
            div.narrow { (picture(bars, room.narrow, true)) }
            (caption(&bars.caption, room.folded))
        }
    }
}

/// The last parts are the rest and have the pale fills, however many stand before them.
fn fill(part: usize, parts: usize) -> String {
    let from_end = parts.saturating_sub(part);
    let fill = match from_end {
        0..=PALE if parts > PALE => STRONG + PALE - from_end.max(1),
        _ => part.min(STRONG - 1),
    };
    format!("fill-{fill}")
}

/// The picture with its text alternative, unless it is a copy of one that has it: every bar is as long as the whole that it divides.
fn picture(bars: &Bars, size: &Size, copy: bool) -> Markup {
    let (width, _) = size.measures();
    let row_high = size.bar();
    let bar = (BAR * row_high).round();
    let height = TOP + row_high * bars.rows.len() as f64 + BOTTOM;
    let labels = bars.rows.iter().map(|row| row.label.chars().count());
    let left = labels.max().unwrap_or(0) as f64 * size.character() + 12.0;
    // Long names stand above their bars where they would leave no room beside.
    let above = left > BESIDE * width;
    let (left, name_high) = if above { (8.0, NAME_HIGH) } else { (left, 0.0) };
    let row_high = row_high + name_high;
    let height = height + name_high * bars.rows.len() as f64;
    let right = width - RIGHT;
    // Under the bars, unless that would cut it.
    let half = bars.axis.chars().count() as f64 * size.character() / 2.0;
    let middle = ((left + right) / 2.0).min(width - half);
    let longest = bars.rows.iter().map(|row| row.parts.iter().sum());
    let longest = longest.fold(0.0, f64::max);
    let (most, ticks) = match bars.absolute {
        true => ticks_to(longest),
        false => (1.0, vec![0.0, 0.25, 0.5, 0.75, 1.0]),
    };
    let at = |value: f64| left + (right - left) * value / most;
    let tick_text = |tick: f64| match bars.absolute {
        true => tick_label(tick),
        false => tick_label(100.0 * tick),
    };
    let tick_at = |tick: f64| size.beside_edges(at(tick), &tick_text(tick));
    let id = &bars.id;
    let bottom = height - BOTTOM;
    html! {
        svg.chart.bars role="img" aria-labelledby=(words(id))
            viewBox={ "0 0 " (width) " " (height) } {
            @if !copy {
                title id={ (id) "-t" } { (text(&bars.title)) }
                desc id={ (id) "-d" } { (text(&bars.alternative)) }
            }
            g.axes aria-hidden="true" {
                @for tick in ticks {
                    path.grid d={ "M" (r(at(tick))) " " (TOP) "V" (r(bottom)) } {}
                    text.middle x=(r(tick_at(tick))) y=(r(bottom + 16.0)) { (tick_text(tick)) }
                }
                text.middle x=(r(middle)) y=(r(height - 6.0)) { (text(&bars.axis)) }
            }
            @for (i, row) in bars.rows.iter().enumerate() {
                @let top = TOP + row_high * i as f64 + name_high + (row_high - name_high - bar) / 2.0;
                g {
                    @if above {
                        text x="0" y=(r(top - 6.0)) { (text(&row.label)) }
                    } @else {
                        text.end x=(r(left - 8.0)) y=(r(top + bar / 2.0 + 4.0)) { (text(&row.label)) }
                    }
                    @for (part, from, to) in spans(&row.parts, bars.absolute) {
                        rect class=(fill(part, bars.parts.len())) data-evidence=[row.evidence.as_ref().filter(|_| !copy)]
                            x=(r(at(from))) y=(r(top))
                            width=(r(at(to) - at(from))) height=(bar) {
                            @if !copy {
                                title {
                                    (text(&row.label)) ", " (text(&bars.parts[part])) ": "
                                    (format!("{:.2}", row.parts[part])) " " (text(&bars.unit))
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The end of a scale that holds a value, and its ticks.
fn ticks_to(longest: f64) -> (f64, Vec<f64>) {
    let axis = Axis {
        label: String::new(),
        scale: Scale::FromZero,
        ticks: Vec::new(),
    };
    let placed = Placed::new(&axis, &[longest], (0.0, 1.0), 5);
    (placed.high(), placed.ticks)
}

/// Where each part begins and ends, as values or on a scale from 0 to 1; those of nothing are left out.
fn spans(parts: &[f64], absolute: bool) -> Vec<(usize, f64, f64)> {
    let sum: f64 = parts.iter().sum();
    if sum <= 0.0 {
        return Vec::new();
    }
    let whole = if absolute { 1.0 } else { sum };
    let mut from = 0.0;
    let mut spans = Vec::new();
    for (part, value) in parts.iter().enumerate() {
        let to = from + value / whole;
        if *value > 0.0 {
            spans.push((part, from, to));
        }
        from = to;
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_each_other_and_fill_the_bar() {
        assert_eq!(
            spans(&[1.0, 0.0, 3.0], false),
            [(0, 0.0, 0.25), (2, 0.25, 1.0)]
        );
        assert_eq!(spans(&[0.0, 0.0], false), []);
        assert_eq!(spans(&[1.0, 0.5], true), [(0, 0.0, 1.0), (1, 1.0, 1.5)]);
        let fills = |parts: usize| {
            (0..parts)
                .map(|i| fill(i, parts))
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(fills(5), "fill-0 fill-1 fill-5 fill-6 fill-7");
        assert_eq!(fills(2), "fill-0 fill-1");
        assert!(fills(8).starts_with("fill-0 fill-1 fill-2 fill-3 fill-4 fill-5"));
    }
}

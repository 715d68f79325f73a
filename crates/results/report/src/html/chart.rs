//! A chart as a figure: its title, its legend, the picture in two sizes.
//!
//! The wide and the narrow picture hold the same; a style sheet shows the one
//! that suits the page, so that labels are legible on a phone, too.

use maud::{Markup, html};

use super::svg::{self, LOOKS, Room};
use super::{caption, text};
use crate::document::{Chart, Series};

/// The figure with its legend and caption.
pub fn figure(chart: &Chart, room: &Room) -> Markup {
    html! {
        figure id={ "figure-" (chart.id) } {
            h3 { (text(&chart.title)) }
            (legend(chart))
            div.wide { (svg::picture(chart, room.wide, false)) }
            div.narrow { (svg::picture(chart, room.narrow, true)) }
            (caption(&chart.caption, room.folded))
        }
    }
}

/// Several small figures side by side, under one legend.
pub fn small_figures(charts: &[Chart]) -> Markup {
    html! {
        @if let Some(first) = charts.first() { (legend(first)) }
        div.small-figures {
            @for chart in charts {
                figure id={ "figure-" (chart.id) } {
                    h3 { (text(&chart.title)) }
                    (svg::picture(chart, &svg::SMALL, false))
                    figcaption { (text(&chart.caption)) }
                }
            }
        }
    }
}

fn legend(chart: &Chart) -> Markup {
    html! {
        ul.legend {
            @for series in chart.series.iter().filter(|s| !s.label.is_empty()) {
                li { (swatch(series)) " " (text(&series.label)) }
            }
            @for guide in chart.guides.iter().filter(|g| !g.label.is_empty()) {
                li {
                    svg.swatch viewBox="0 0 28 14" aria-hidden="true" {
                        path.guide d="M1 7H27" {}
                    }
                    " " (text(&guide.label))
                }
            }
        }
    }
}

fn swatch(series: &Series) -> Markup {
    let look = series.look % LOOKS;
    let lined = series.estimates.len() > 1;
    html! {
        svg.swatch viewBox="0 0 28 14" aria-hidden="true" {
            g class={ "look-" (look) } {
                @if lined { path.course d="M1 7H27" {} }
                @if series.estimates.is_empty() {
                    (svg::dot_marker(14.0, 7.0))
                } @else {
                    (svg::marker(look, 14.0, 7.0, ""))
                }
            }
        }
    }
}

//! What lies where in memory as SVG: a strip for each part, a stroke for each line that is used; a
//! strip leads to its lines.

use std::collections::BTreeMap;

use maud::{Markup, html};
use pgassay_text::cut;

use super::svg::{Size, r};
use super::{svg, text};
use crate::document::{MemoryMap, MemoryMark, MemoryStrip};

/// Height of a strip.
const STRIP: f64 = 18.0;
/// From one to the next where names stand beside them.
const ROW: f64 = 26.0;
/// What a name above its strip takes.
const NAME_HIGH: f64 = 20.0;
/// The part of the width that names beside the strips may take.
const BESIDE: f64 = 0.45;
/// At the left and the right of a strip, so that no chosen one's frame is cut.
const MARGIN: f64 = 2.0;
/// The shortest stroke.
const LEAST: f64 = 4.0;
/// The looks of the kinds, as the style sheet has them.
const LOOKS: [&str; 3] = ["look-1", "look-0", "look-none"];

/// The figure with legend and caption.
pub fn figure(map: &MemoryMap) -> Markup {
    html! {
        figure id={ "figure-" (map.id) } {
            h3 { (text(&map.title)) }
            ul.legend {
                @for (kind, look) in map.kinds.iter().zip(LOOKS) {
                    li {
                        svg.swatch.memory viewBox="0 0 28 14" aria-hidden="true" {
                            path class={ "line " (look) } d="M10 14V1M18 14V6" {}
                        }
                        " " (kind)
                    }
                }
            }
            div.wide { (picture(map, &svg::WIDE)) }
            div.narrow { (picture(map, &svg::NARROW)) }
            figcaption { (text(&map.caption)) }
        }
    }
}

/// The picture with its text alternative.
fn picture(map: &MemoryMap, size: &Size) -> Markup {
    let (width, _) = size.measures();
    let labels = map.strips.iter().map(|strip| strip.label.chars().count());
    let beside = labels.max().unwrap_or(0) as f64 * size.character() + 12.0;
    let above = beside > BESIDE * width;
    let (left, row) = match above {
        true => (MARGIN, STRIP + NAME_HIGH + 6.0),
        false => (beside, ROW),
    };
    let long = width - MARGIN - left;
    let height = row * map.strips.len() as f64 + 2.0 * MARGIN;
    let most = ((width - 2.0 * MARGIN) / size.character()) as usize;
    let id = format!("{}-{}", map.id, size.name());
    html! {
        svg.chart.memory role="img" aria-labelledby={ (id) "-t " (id) "-d" }
            viewBox={ "0 0 " (width) " " (r(height)) } {
            title id={ (id) "-t" } { (text(&map.title)) }
            desc id={ (id) "-d" } { (text(&map.alternative)) }
            @for (number, strip) in map.strips.iter().enumerate() {
                @let top = MARGIN + row * number as f64 + if above { NAME_HIGH } else { (ROW - STRIP) / 2.0 };
                g aria-hidden="true" {
                    @if above {
                        text x=(MARGIN) y=(r(top - 6.0)) { (text(&cut(&strip.label, most))) }
                    } @else {
                        text.end x=(r(left - 8.0)) y=(r(top + STRIP / 2.0 + 4.0)) { (text(&strip.label)) }
                    }
                    rect.strip x=(r(left)) y=(r(top)) width=(r(long)) height=(STRIP) {}
                    @for (kind, path) in strokes(strip, left, long, top + STRIP) {
                        path class={ "line " (LOOKS[kind]) } d=(path) {}
                    }
                }
                rect.area data-evidence=(strip.evidence) x=(MARGIN) width=(r(width - 2.0 * MARGIN))
                    y=(r(if above { top - NAME_HIGH } else { top - 2.0 }))
                    height=(r(if above { STRIP + NAME_HIGH + 2.0 } else { STRIP + 4.0 })) {
                    title { (text(&strip.tip)) }
                }
            }
        }
    }
}

/// One path a kind; of lines that would be drawn upon one another, the highest. The first kind is
/// drawn last.
fn strokes(strip: &MemoryStrip, left: f64, long: f64, bottom: f64) -> Vec<(usize, String)> {
    let mut highest: BTreeMap<(usize, i64), f64> = BTreeMap::new();
    let usable = |mark: &&MemoryMark| mark.kind < LOOKS.len() && mark.height.is_finite();
    for mark in strip.marks.iter().filter(usable) {
        // Two strokes of two pixels have a gap between them from three on.
        let place = (mark.at.clamp(0.0, 1.0) * (long - 2.0) / 1.5).round() as i64;
        let height = highest.entry((mark.kind, place)).or_default();
        *height = height.max(mark.height);
    }
    let mut paths: BTreeMap<usize, String> = BTreeMap::new();
    for ((kind, place), height) in highest {
        let tall = LEAST + (STRIP - LEAST) * height.clamp(0.0, 1.0);
        let x = left + 1.0 + place as f64 * 1.5;
        paths
            .entry(kind)
            .or_default()
            .push_str(&format!("M{} {}v-{}", r(x), r(bottom), r(tall)));
    }
    paths.into_iter().rev().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(marks: Vec<MemoryMark>) -> MemoryMap {
        MemoryMap {
            id: "m".to_owned(),
            title: "t".to_owned(),
            alternative: "a".to_owned(),
            caption: String::new(),
            kinds: ["taken", "own", "read"],
            strips: vec![MemoryStrip {
                label: "Buffer Descriptors, 1 MiB".to_owned(),
                tip: "<b>".to_owned(),
                evidence: "point-region-0".to_owned(),
                marks,
            }],
        }
    }

    #[test]
    fn a_strip_leads_to_its_lines_and_says_what_it_is() {
        let page = figure(&map(Vec::new())).into_string();
        assert_eq!(page.matches("data-evidence=\"point-region-0\"").count(), 2);
        assert!(page.contains("<title>&lt;b&gt;</title>"), "{page}");
        assert!(page.contains("role=\"img\""));
    }

    #[test]
    fn of_lines_upon_one_another_the_highest_is_drawn() {
        let mark = |at, height, kind| MemoryMark { at, height, kind };
        let strip = &map(vec![
            mark(0.5, 0.1, 0),
            mark(0.500_01, 1.0, 0),
            mark(0.5, 0.5, 2),
            mark(2.0, f64::NAN, 1),
        ])
        .strips[0];
        let drawn = strokes(strip, 0.0, 302.0, 20.0);
        assert_eq!(
            drawn,
            [(2, "M151 20v-11".to_owned()), (0, "M151 20v-18".to_owned())]
        );
    }
}

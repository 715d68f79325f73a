//! A flame graph as SVG: a box a function, as wide as its share of the samples, above
//! those that called it.
//!
//! Written here and not by `inferno`, which brings fixed colours and its own page and
//! script: a report's colours follow light, dark and print, and it is whole without a script.

use maud::{Markup, html};
use pgassay_analysis::profile::flame::{Flame, Node, ROWS};

use super::svg::r;
use super::text;
use crate::document::FlameGraph;
use crate::number;
use crate::profiles::family;

/// Height of a row and of its text.
const ROW: f64 = 18.0;
/// Width of a character, about.
const CHARACTER: f64 = 6.6;

/// Width of the picture; the script draws it anew at the width of the page.
const WIDTH: f64 = 880.0;
/// Boxes that are narrower are not drawn; the script draws them.
const NARROWEST: f64 = 10.0;
/// Share from which outermost functions that do nothing but call one other are one box.
const STEM: f64 = 0.99;

/// A flame graph with what its script needs to know: which profiles it shows.
pub fn figure(graph: &FlameGraph, id: &str) -> Markup {
    let (flame, title) = (&graph.flame, &graph.title);
    let compared = flame.roots.iter().any(|n| n.before.is_some());
    let (stem, roots) = stem(flame);
    let deep = depth(&flame.roots) >= ROWS;
    html! {
        figure.flamegraph id={ "figure-" (id) } data-group=(text(&graph.group))
            data-against=[graph.against.as_deref().map(text)] {
            h3 { (text(title)) }
            (legend(compared))
            div.scroll tabindex="0" role="region" aria-label=(text(title)) { (picture(&stem, roots, title, id)) }
            figcaption {
                "Each box is a function, as wide as its share of the CPU samples, what it called \
                 included; what it called stands above it, side by side, the widest first. \
                 Point at a box to read its share; click it to zoom in."
                @if compared { " Shares are those of the second profile; colour says how they changed." }
                @if flame.left_out > 0.005 {
                    (format!(" Functions below 0.2 % by themselves are left out, {:.1} % of the samples in all.", 100.0 * flame.left_out))
                }
                @if deep { (format!(" Chains are cut at {ROWS} functions.")) }
            }
        }
    }
}

fn depth(nodes: &[Node]) -> usize {
    // Not by recursion: a chain may be hundreds deep.
    let mut deepest = 0;
    let mut open: Vec<(&Node, usize)> = nodes.iter().map(|n| (n, 1)).collect();
    while let Some((node, at)) = open.pop() {
        deepest = deepest.max(at);
        open.extend(node.called.iter().map(|n| (n, at + 1)));
    }
    deepest
}

/// The outermost functions that nearly all samples have in common, and what stands above them.
fn stem(flame: &Flame) -> (Vec<&Node>, &[Node]) {
    let (mut stem, mut above) = (Vec::new(), flame.roots.as_slice());
    while let [node] = above
        && node.share >= STEM
        && node.called.iter().map(|n| n.share).fold(0.0, f64::max) >= STEM
        && node.before.is_none()
    {
        stem.push(node);
        above = &node.called;
    }
    // One by itself has a box of its own.
    match stem.len() {
        0 | 1 => (Vec::new(), &flame.roots),
        _ => (stem, above),
    }
}

/// A box as it is drawn.
struct Placed<'a> {
    node: &'a Node,
    x: f64,
    width: f64,
    row: usize,
}

fn place(roots: &[Node], first: usize) -> Vec<Placed<'_>> {
    let mut placed = Vec::new();
    let mut open: Vec<(&[Node], f64, usize)> = vec![(roots, 0.0, first)];
    while let Some((nodes, mut x, row)) = open.pop() {
        let mut nodes: Vec<&Node> = nodes.iter().collect();
        nodes.sort_by(|a, b| b.share.total_cmp(&a.share));
        for node in nodes {
            let width = node.share * WIDTH;
            if width >= NARROWEST && row < ROWS {
                placed.push(Placed {
                    node,
                    x,
                    width,
                    row,
                });
                open.push((&node.called, x, row + 1));
            }
            x += width;
        }
    }
    placed
}

fn picture(stem: &[&Node], roots: &[Node], title: &str, id: &str) -> Markup {
    let boxes = place(roots, usize::from(!stem.is_empty()));
    let rows = boxes.iter().map(|b| b.row + 1).max().unwrap_or(1);
    let height = rows as f64 * ROW + 2.0;
    let mut widest: Vec<&Placed> = boxes.iter().collect();
    widest.sort_by(|a, b| b.width.total_cmp(&a.width));
    let spoken: Vec<String> = widest
        .iter()
        .take(12)
        .map(|b| format!("{} {}", b.node.symbol, percent(b.node.share)))
        .collect();
    html! {
        svg.chart.flame role="img" aria-labelledby={ (id) "-t " (id) "-d" }
            viewBox={ "0 0 " (WIDTH) " " (height) } {
            title id={ (id) "-t" } { (text(title)) }
            desc id={ (id) "-d" } { "The widest boxes: " (text(&spoken.join("; "))) "." }
            @if let Some(outermost) = stem.first() {
                @let names: Vec<&str> = stem.iter().map(|n| n.symbol.as_str()).collect();
                g.look-none {
                    rect x="0" y=(r(height - ROW)) width=(WIDTH) height=(ROW - 1.0) {
                        title { (text(&format!("{}: {}", names.join(" › "), percent(outermost.share)))) }
                    }
                    @let room = ((WIDTH - 4.0) / CHARACTER) as usize;
                    @if let Some(label) = shortened(&names.join(" › "), room) {
                        text x="3" y=(r(height - ROW + 12.5)) { (text(&label)) }
                    }
                }
            }
            @for b in &boxes { (drawn(b, height)) }
        }
    }
}

fn drawn(placed: &Placed, height: f64) -> Markup {
    let y = height - (placed.row + 1) as f64 * ROW;
    let (look, opacity) = colour(placed.node);
    let room = ((placed.width - 4.0) / CHARACTER) as usize;
    let label = shortened(&placed.node.symbol, room);
    html! {
        g class=(look) {
            rect x=(r(placed.x)) y=(r(y)) width=(r((placed.width - 0.6).max(0.8))) height=(ROW - 1.0)
                fill-opacity=[opacity] {
                title { (text(&tip(placed.node))) }
            }
            @if let Some(label) = label {
                text x=(r(placed.x + 3.0)) y=(r(y + 12.5)) { (text(&label)) }
            }
        }
    }
}

fn tip(node: &Node) -> String {
    let before = node.before.map_or(String::new(), |before| {
        format!(
            ", before {} ({} points)",
            percent(before),
            number::signed(100.0 * (node.share - before), 1)
        )
    });
    format!(
        "{}: {}{before}; {}",
        node.symbol,
        percent(node.share),
        node.class.title()
    )
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// The name as far as it fits; none where not even a few letters do.
fn shortened(name: &str, room: usize) -> Option<String> {
    let length = name.chars().count();
    match room {
        room if room >= length => Some(name.to_owned()),
        room if room >= 4 => Some(pgassay_text::cut(name, room)),
        _ => None,
    }
}

/// Families of classes that have a colour.
const FAMILIES: [(&str, &str); 5] = [
    ("look-1", "locks and buffers"),
    ("look-0", "executing, planning, snapshots"),
    ("look-2", "protocol, transaction, WAL, memory"),
    ("look-3", "kernel"),
    ("look-none", "other"),
];

/// The colour of a box, and how strong it is where that says something.
fn colour(node: &Node) -> (&'static str, Option<f64>) {
    let Some(before) = node.before else {
        return (family(node.class), None);
    };
    let change = node.share - before;
    let strength = (change.abs() * 4.0).min(0.6);
    let (look, opacity) = match change {
        c if c > 0.002 => ("look-1", 0.12 + strength),
        c if c < -0.002 => ("look-0", 0.12 + strength),
        _ => ("look-none", 0.12),
    };
    (look, Some((opacity * 100.0).round() / 100.0))
}

fn legend(compared: bool) -> Markup {
    let entries: Vec<(&str, &str)> = if compared {
        vec![
            ("look-1", "more than before"),
            ("look-0", "less"),
            ("look-none", "as before"),
        ]
    } else {
        FAMILIES.to_vec()
    };
    html! {
        ul.legend {
            @for (look, label) in entries {
                li {
                    svg.swatch viewBox="0 0 28 14" aria-hidden="true" {
                        g class=(look) { rect x="2" y="1" width="24" height="12" fill-opacity="0.4" {} }
                    }
                    " " (label)
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgassay_analysis::profile::flame;
    use pgassay_readings::profile::{Frame, Profile};

    fn graph(flame: flame::Flame) -> FlameGraph {
        FlameGraph {
            flame,
            title: "Samples".to_owned(),
            group: "a load".to_owned(),
            against: None,
        }
    }

    #[test]
    fn what_all_samples_have_in_common_is_one_box() {
        let mut profile = Profile::new(pgassay_readings::profile::Unit::Samples);
        for (chain, weight) in [
            ("_start;main;ServerLoop;x", 1.0),
            ("_start;main;ServerLoop;y", 3.0),
        ] {
            let frames = chain.split(';').map(|name| Frame::new(name, "postgres"));
            profile.add(frames, weight);
        }
        let page = figure(&graph(flame::fold(&profile)), "t").into_string();
        assert!(page.contains("_start › main: 100.0%"), "{page}");
        // The widest stands to the left.
        assert!(page.find("y: 75.0%").unwrap() < page.find("x: 25.0%").unwrap());
    }

    #[test]
    fn boxes_stand_above_their_callers_and_say_their_share() {
        let text = "\
    60.00%  postgres  postgres  [.] s_lock
            |
            ---s_lock
               PinBuffer
    40.00%  postgres  postgres  [.] <evil&>
";
        let profile = Profile::parse(text).unwrap();
        let page = figure(&graph(flame::fold(&profile)), "t").into_string();
        assert!(page.contains("PinBuffer: 60.0%; buffer pin"), "{page}");
        assert!(page.contains("s_lock: 60.0%; spinlock"));
        assert!(page.contains("&lt;evil&amp;&gt;") && !page.contains("<evil"));
        // the callee is drawn higher up
        let y = |name: &str| -> f64 {
            let at = page.find(&format!("{name}: ")).unwrap();
            let rect = &page[..at];
            let y = rect.rfind(" y=\"").unwrap() + 4;
            rect[y..].split('"').next().unwrap().parse().unwrap()
        };
        assert!(y("s_lock") < y("PinBuffer"));
    }

    #[test]
    fn a_comparison_is_coloured_by_change() {
        let before = Profile::parse("80.00% postgres [.] a\n20.00% postgres [.] b\n").unwrap();
        let after = Profile::parse("50.00% postgres [.] a\n50.00% postgres [.] b\n").unwrap();
        let page = figure(&graph(flame::difference(&before, &after)), "t").into_string();
        assert!(page.contains("before 80.0% (−30.0 points)"), "{page}");
        assert!(page.contains("before 20.0% (+30.0 points)"));
    }
}

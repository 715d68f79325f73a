//! The form in which a page's script reads profiles: small, and safe to stand in markup.

use std::io::Write as _;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use pgassay_analysis::profile::tree::CallTree;
use serde::Serialize;
use serde_json::Number;

use crate::plain;
use crate::profiles::family;

/// Share of a profile's samples below which a function is gathered with its like.
const RARE: f64 = 0.001;

/// The data of a page's flame graphs.
#[derive(Serialize)]
struct Data {
    /// What it is of.
    name: String,
    /// Which program wrote it.
    exporter: String,
    /// Names of classes, and the look of each.
    classes: Vec<(&'static str, &'static str)>,
    /// Name, program or library, and index of the class of each function.
    functions: Vec<(String, String, usize)>,
    /// Two figures a node: how many nodes back its caller stands, 0 for none; its function.
    nodes: Vec<u32>,
    views: Vec<View>,
}

#[derive(Serialize)]
struct View {
    group: String,
    at: String,
    /// Two figures a node that was sampled itself: its distance from the one before, its weight.
    own: Vec<Number>,
}

/// The profiles for a script element: JSON, compressed by zlib (RFC 1950), in base64.
pub fn page(tree: &CallTree, name: &str) -> String {
    let tree = tree.without_rarer_than(RARE);
    let classes = tree.classes();
    let index = |class| classes.iter().position(|c| *c == class).unwrap_or(0);
    let functions = tree.functions.iter().map(|function| {
        let frame = &function.frame;
        let object = plain::clean(&frame.object);
        (plain::clean(&frame.symbol), object, index(function.class))
    });
    let nodes = (0u32..)
        .zip(&tree.nodes)
        .flat_map(|(at, node)| [node.parent.map_or(0, |parent| at - parent), node.function]);
    let views = tree.views.iter().map(|view| {
        let mut last = 0;
        let own = view.own.iter().flat_map(|(node, weight)| {
            let step = node - last;
            last = *node;
            [Number::from(step), figure(*weight)]
        });
        View {
            group: plain::clean(&view.group),
            at: plain::clean(&view.at),
            own: own.collect(),
        }
    });
    let data = Data {
        name: plain::clean(name),
        exporter: format!("pgassay {}", env!("CARGO_PKG_VERSION")),
        classes: classes
            .iter()
            .map(|class| (class.title(), family(*class)))
            .collect(),
        functions: functions.collect(),
        nodes: nodes.collect(),
        views: views.collect(),
    };
    let mut compressed = ZlibEncoder::new(Vec::new(), Compression::best());
    let written = compressed.write_all(crate::compact(&data).as_bytes());
    let finished = written.and_then(|()| compressed.finish());
    BASE64_STANDARD.encode(finished.expect("writing to memory does not fail"))
}

/// In thousandths; without a point where it is whole.
fn figure(weight: f64) -> Number {
    let whole = weight.fract() == 0.0;
    let rounded = Number::from_f64((weight * 1000.0).round() / 1000.0);
    match rounded {
        Some(number) if !whole => number,
        _ => Number::from(weight as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profiles::tests::hostile;

    #[test]
    fn nothing_in_it_ends_the_element_and_no_sample_is_lost() {
        let text = page(&hostile(), "a <run>");
        assert!(!text.contains('<'), "{text}");
        let compressed = BASE64_STANDARD.decode(text).unwrap();
        let json = flate2::read::ZlibDecoder::new(compressed.as_slice());
        let data: serde_json::Value = serde_json::from_reader(json).unwrap();
        assert_eq!(data["name"], "a <run>");
        assert_eq!(data["functions"][1][0], "</script><b>\"evil\\");
        let own = data["views"][0]["own"].as_array().unwrap();
        let weights = own.iter().skip(1).step_by(2);
        assert_eq!(weights.map(|w| w.as_f64().unwrap()).sum::<f64>(), 5.0);
    }
}

//! A profile as a tree of callers and callees: what a flame graph draws.

use pgassay_readings::profile::Profile;
use serde::{Deserialize, Serialize};

use super::{Class, class};

/// Boxes narrower than this share are left out: on a page a thousand pixels wide they
/// would be two pixels.
const NARROWEST: f64 = 0.002;
/// Most boxes.
const MOST: usize = 2000;

/// Functions on top of each other: a page shows no more, and readers of JSON take no more than
/// twice as many levels.
pub const ROWS: usize = 44;

/// A function as called by those below it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Node {
    /// The function.
    pub symbol: String,
    /// What it is about by its name, or by those that called it.
    pub class: Class,
    /// Share of all samples in it or in what it called, 0 to 1.
    pub share: f64,
    /// The share in the profile that this one is compared with, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<f64>,
    /// What it called, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub called: Vec<Node>,
}

/// A whole flame graph.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Flame {
    /// Samples that it stands for; per cent where the profile was a listing.
    pub total: f64,
    /// The outermost functions.
    pub roots: Vec<Node>,
    /// Share of the samples in boxes too narrow to be kept, where they would be outermost.
    pub left_out: f64,
}

/// Folds a profile into its flame graph.
pub fn fold(profile: &Profile) -> Flame {
    build(profile, None)
}

/// The flame graph of `after`, each box with its share in `before`.
pub fn difference(before: &Profile, after: &Profile) -> Flame {
    build(after, Some(before))
}

/// A flame graph that is at hand against another one, each box with its share there.
///
/// [`difference`] of the profiles says the same, but for boxes that were too narrow in
/// `before` to be kept: they count as none there.
pub fn against(after: &Flame, before: &Flame) -> Flame {
    Flame {
        roots: beside(&after.roots, &before.roots),
        ..after.clone()
    }
}

fn beside(after: &[Node], before: &[Node]) -> Vec<Node> {
    let join = |node: &Node| {
        let there = before.iter().find(|b| b.symbol == node.symbol);
        Node {
            symbol: node.symbol.clone(),
            class: node.class,
            share: node.share,
            before: Some(there.map_or(0.0, |b| b.share)),
            called: beside(&node.called, there.map_or(&[], |b| &b.called)),
        }
    };
    after.iter().map(join).collect()
}

/// A tree while it grows: children by name.
#[derive(Default)]
struct Growing {
    weight: f64,
    before: f64,
    class: Option<Class>,
    children: std::collections::BTreeMap<String, Growing>,
}

fn build(profile: &Profile, before: Option<&Profile>) -> Flame {
    let mut root = Growing::default();
    grow(&mut root, profile, profile.total, |node, share| {
        node.weight += share
    });
    if let Some(before) = before {
        grow(&mut root, before, before.total, |node, share| {
            node.before += share
        });
    }
    let mut left = MOST;
    let roots = prune(root.children, before.is_some(), ROWS, &mut left);
    let shown: f64 = roots.iter().map(|n| n.share).sum();
    Flame {
        total: profile.total,
        left_out: (1.0 - shown).max(0.0),
        roots,
    }
}

fn grow(root: &mut Growing, profile: &Profile, total: f64, add: impl Fn(&mut Growing, f64)) {
    if total <= 0.0 {
        return;
    }
    for (frames, weight) in profile.stacks() {
        let share = weight / total;
        let mut node = &mut *root;
        for (above, frame) in frames.iter().enumerate() {
            node = node.children.entry(frame.symbol.clone()).or_default();
            add(node, share);
            if node.class.is_none() {
                node.class = Some(class::of(&frames[..=above]));
            }
        }
    }
}

fn prune(
    children: std::collections::BTreeMap<String, Growing>,
    compared: bool,
    rows: usize,
    left: &mut usize,
) -> Vec<Node> {
    let mut kept = Vec::new();
    for (symbol, node) in children {
        if node.weight < NARROWEST || *left == 0 || rows == 0 {
            continue;
        }
        *left -= 1;
        kept.push(Node {
            symbol,
            class: node.class.unwrap_or(Class::Other),
            share: node.weight,
            before: compared.then_some(node.before),
            called: prune(node.children, compared, rows.saturating_sub(1), left),
        });
    }
    kept
}

#[cfg(test)]
mod tests {
    use pgassay_readings::profile::{Frame, Unit};

    use super::*;

    fn profile(chains: &[(&str, f64)]) -> Profile {
        let mut profile = Profile::new(Unit::Samples);
        for (chain, weight) in chains {
            profile.add(chain.split(';').map(|s| Frame::new(s, "postgres")), *weight);
        }
        profile
    }

    #[test]
    fn shares_stand_for_what_was_called_too() {
        let flame = fold(&profile(&[
            ("main;ExecScan;palloc", 30.0),
            ("main;ExecScan", 20.0),
            ("main;s_lock", 49.99),
            ("rare", 0.01),
        ]));
        assert_eq!(flame.roots.len(), 1, "the rare one is too narrow");
        let main = &flame.roots[0];
        assert!((main.share - 0.9999).abs() < 1e-9);
        let names: Vec<&str> = main.called.iter().map(|n| n.symbol.as_str()).collect();
        assert_eq!(names, ["ExecScan", "s_lock"]);
        assert!((main.called[0].share - 0.5).abs() < 1e-9);
        assert!((main.called[0].called[0].share - 0.3).abs() < 1e-9);
        assert_eq!(main.called[1].class, Class::Spinlock);
        assert!((flame.left_out - 0.0001).abs() < 1e-9);
    }

    #[test]
    fn graphs_at_hand_are_compared_as_their_profiles_are() {
        let before = profile(&[("main;a;b", 3.0), ("main;b", 1.0), ("other", 4.0)]);
        let after = profile(&[("main;a;b", 1.0), ("main;a;c", 1.0), ("main;b", 5.0)]);
        let joined = against(&fold(&after), &fold(&before));
        assert_eq!(joined, difference(&before, &after));
        assert_eq!(joined.roots[0].before, Some(0.5));
        assert_eq!(joined.roots[0].called[0].called[1].before, Some(0.0));
    }

    #[test]
    fn a_difference_keeps_both_shares() {
        let flame = difference(
            &profile(&[("main;a", 3.0), ("main;b", 1.0)]),
            &profile(&[("main;a", 1.0), ("main;c", 1.0)]),
        );
        let main = &flame.roots[0];
        assert_eq!(main.before, Some(1.0));
        assert_eq!(
            (main.called[0].share, main.called[0].before),
            (0.5, Some(0.75))
        );
        assert_eq!(
            (main.called[1].share, main.called[1].before),
            (0.5, Some(0.0))
        );
    }

    #[test]
    fn very_deep_chains_are_drawn() {
        let chain = vec!["f"; 400].join(";");
        let flame = fold(&profile(&[(&chain, 1.0)]));
        let text = serde_json::to_string(&flame).unwrap();
        assert_eq!(serde_json::from_str::<Flame>(&text).unwrap(), flame);
        assert_eq!(text.matches("\"symbol\"").count(), ROWS);
    }
}

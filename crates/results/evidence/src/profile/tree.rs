//! Several profiles as one tree of callers and callees: what is explored by hand, and exported.
//!
//! A flame graph is drawn from shares and leaves out what is too narrow to be seen. Here every
//! sample counts: what is too rare to have a node of its own is kept under a name that says so.

use std::collections::{BTreeMap, HashMap, HashSet};

use pgassay_readings::profile::{Frame, Profile};

use super::Class;
use super::class::{self, CLASSES};

/// What stands for functions that are too rare to be told apart.
pub const RARE: &str = "[rarer functions]";

/// A function in a tree.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Function {
    /// Its name, and the program or library that it is of.
    pub frame: Frame,
    /// What it is about by its name, or by those that called it.
    pub class: Class,
}

/// A function as called by those above it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node {
    /// Index of its caller, always a smaller one; none of the outermost.
    pub parent: Option<u32>,
    /// Index of the function.
    pub function: u32,
}

/// A profile as part of a tree.
#[derive(Debug, Clone, PartialEq)]
pub struct View {
    /// What was profiled: a server, a load.
    pub group: String,
    /// At which number of clients; empty where there is no telling.
    pub at: String,
    /// Nodes that were sampled themselves, ascending, and the weight of each.
    pub own: Vec<(u32, f64)>,
}

impl View {
    /// Weight of all samples.
    pub fn total(&self) -> f64 {
        // The sum of nothing is -0.
        self.own.iter().map(|(_, weight)| weight).sum::<f64>() + 0.0
    }

    /// `select-only, 8 clients`.
    pub fn name(&self) -> String {
        let parts = [self.group.as_str(), self.at.as_str()];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        parts.join(", ")
    }
}

/// Several profiles over the same tree.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CallTree {
    /// The different functions.
    pub functions: Vec<Function>,
    /// Their places; callers come before those whom they called.
    pub nodes: Vec<Node>,
    /// The profiles.
    pub views: Vec<View>,
}

impl CallTree {
    /// Takes a profile in.
    pub fn add(&mut self, group: &str, at: &str, profile: &Profile) {
        let mut functions = HashMap::new();
        for (index, function) in (0u32..).zip(&self.functions) {
            functions.insert(function.clone(), index);
        }
        let mut nodes = HashMap::new();
        for (index, node) in (0u32..).zip(&self.nodes) {
            nodes.insert((node.parent, node.function), index);
        }
        let mut own: BTreeMap<u32, f64> = BTreeMap::new();
        for (frames, weight) in profile.stacks() {
            let mut parent = None;
            for (above, frame) in frames.iter().enumerate() {
                let function = Function {
                    frame: (*frame).clone(),
                    class: class::of(&frames[..=above]),
                };
                let function = *functions.entry(function).or_insert_with_key(|function| {
                    self.functions.push(function.clone());
                    self.functions.len() as u32 - 1
                });
                parent = Some(*nodes.entry((parent, function)).or_insert_with(|| {
                    self.nodes.push(Node { parent, function });
                    self.nodes.len() as u32 - 1
                }));
            }
            if let Some(node) = parent {
                *own.entry(node).or_default() += weight;
            }
        }
        self.views.push(View {
            group: group.to_owned(),
            at: at.to_owned(),
            own: own.into_iter().collect(),
        });
    }

    /// The same with nodes that hold less than this share of every view's samples gathered
    /// under [`RARE`]: no sample is lost.
    pub fn without_rarer_than(&self, share: f64) -> Self {
        let mut widest = vec![0.0f64; self.nodes.len()];
        for view in &self.views {
            let total = view.total();
            if total <= 0.0 {
                continue;
            }
            let mut weights = vec![0.0; self.nodes.len()];
            for (node, weight) in &view.own {
                weights[*node as usize] += weight;
            }
            // Those whom a node called come after it.
            for index in (0..self.nodes.len()).rev() {
                widest[index] = widest[index].max(weights[index] / total);
                if let Some(parent) = self.nodes[index].parent {
                    weights[parent as usize] += weights[index];
                }
            }
        }
        let mut kept = Self::default();
        let mut functions: HashMap<u32, u32> = HashMap::new();
        let mut rare: HashMap<Option<u32>, u32> = HashMap::new();
        let mut gathering: HashSet<u32> = HashSet::new();
        let mut rare_function = None;
        let mut places: Vec<u32> = Vec::with_capacity(self.nodes.len());
        for (node, widest) in self.nodes.iter().zip(&widest) {
            let parent = node.parent.map(|parent| places[parent as usize]);
            if let Some(gathered) = parent.filter(|parent| gathering.contains(parent)) {
                places.push(gathered);
                continue;
            }
            if *widest >= share {
                let function = *functions.entry(node.function).or_insert_with(|| {
                    kept.functions
                        .push(self.functions[node.function as usize].clone());
                    kept.functions.len() as u32 - 1
                });
                kept.nodes.push(Node { parent, function });
                places.push(kept.nodes.len() as u32 - 1);
                continue;
            }
            let place = *rare.entry(parent).or_insert_with(|| {
                let function = *rare_function.get_or_insert_with(|| {
                    kept.functions.push(Function {
                        frame: Frame {
                            symbol: RARE.to_owned(),
                            object: String::new(),
                        },
                        class: Class::Other,
                    });
                    kept.functions.len() as u32 - 1
                });
                kept.nodes.push(Node { parent, function });
                kept.nodes.len() as u32 - 1
            });
            gathering.insert(place);
            places.push(place);
        }
        for view in &self.views {
            let mut own: BTreeMap<u32, f64> = BTreeMap::new();
            for (node, weight) in &view.own {
                *own.entry(places[*node as usize]).or_default() += weight;
            }
            kept.views.push(View {
                own: own.into_iter().collect(),
                ..view.clone()
            });
        }
        kept
    }

    /// The functions down to a node, outermost caller first, as indices.
    pub fn chain(&self, node: u32) -> Vec<u32> {
        let mut chain = Vec::new();
        let mut at = Some(node);
        while let Some(node) = at.and_then(|index| self.nodes.get(index as usize)) {
            chain.push(node.function);
            at = node.parent;
        }
        chain.reverse();
        chain
    }

    /// The classes that occur, in the order of reports.
    pub fn classes(&self) -> Vec<Class> {
        let occurs = |class: &&Class| self.functions.iter().any(|f| f.class == **class);
        CLASSES.iter().filter(occurs).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use pgassay_readings::profile::Unit;

    use super::*;

    fn profile(chains: &[(&str, f64)]) -> Profile {
        let mut profile = Profile::new(Unit::Samples);
        for (chain, weight) in chains {
            profile.add(chain.split(';').map(|s| Frame::new(s, "postgres")), *weight);
        }
        profile
    }

    fn tree() -> CallTree {
        let mut tree = CallTree::default();
        tree.add(
            "A",
            "1 client",
            &profile(&[("main;a;b", 3.0), ("main;a", 996.0), ("z;y;x", 1.0)]),
        );
        tree.add("A", "8 clients", &profile(&[("main;a;c", 5.0)]));
        tree
    }

    /// Chains by name with their weights.
    fn told(tree: &CallTree, view: usize) -> Vec<(String, f64)> {
        let name = |function: &u32| {
            let function = &tree.functions[*function as usize];
            function.frame.symbol.clone()
        };
        let own = tree.views[view].own.iter();
        own.map(|(node, weight)| {
            let chain: Vec<String> = tree.chain(*node).iter().map(name).collect();
            (chain.join(";"), *weight)
        })
        .collect()
    }

    #[test]
    fn profiles_share_a_tree_and_keep_their_samples() {
        let tree = tree();
        assert_eq!(tree.views[0].total(), 1000.0);
        assert_eq!(tree.views[1].name(), "A, 8 clients");
        assert_eq!(told(&tree, 1), [("main;a;c".to_owned(), 5.0)]);
        assert!(told(&tree, 0).contains(&("main;a;b".to_owned(), 3.0)));
        for (index, node) in tree.nodes.iter().enumerate() {
            assert!(node.parent.is_none_or(|parent| (parent as usize) < index));
        }
    }

    #[test]
    fn what_is_rare_is_gathered_and_not_lost() {
        let kept = tree().without_rarer_than(0.01);
        assert_eq!(kept.views[0].total(), 1000.0);
        assert_eq!(kept.views[1].total(), 5.0);
        assert_eq!(
            told(&kept, 0),
            [
                ("main;a".to_owned(), 996.0),
                (format!("main;a;{RARE}"), 3.0),
                (RARE.to_owned(), 1.0)
            ]
        );
        // What is rare in one view and not in another keeps its place.
        assert_eq!(told(&kept, 1), [("main;a;c".to_owned(), 5.0)]);
        assert_eq!(tree().without_rarer_than(0.0), tree());
    }
}

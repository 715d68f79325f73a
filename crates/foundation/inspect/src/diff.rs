//! What changed between two builds, function by function.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::{Binary, Counts, FunctionAtomics};

/// The atomics and outline calls of one side.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Side {
    /// Instructions by class.
    pub counts: Counts,
    /// Outline calls by helper.
    pub outline_calls: BTreeMap<String, u64>,
}

/// A function that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FunctionDiff {
    /// Its name.
    pub name: String,
    /// In the first file; none where it has no atomics or is not there.
    pub a: Option<Side>,
    /// In the second.
    pub b: Option<Side>,
}

/// The difference of two files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Diff {
    /// Name of the first.
    pub a: String,
    /// Name of the second.
    pub b: String,
    /// Totals of the first and the second, by class; only classes that differ.
    pub totals: BTreeMap<String, (u64, u64)>,
    /// Named functions that differ, by name.
    pub functions: Vec<FunctionDiff>,
    /// Unnamed functions with atomics in the first and the second: they can't be paired.
    pub unnamed: (u64, u64),
    /// Build facts and hot paths that differ: what, in the first, in the second.
    pub facts: Vec<(String, String, String)>,
}

impl Diff {
    /// No difference was found.
    pub fn is_empty(&self) -> bool {
        self.totals.is_empty() && self.functions.is_empty() && self.facts.is_empty()
    }
}

/// Compares two files.
pub fn diff(a: &Binary, b: &Binary) -> Diff {
    let mut totals = BTreeMap::new();
    let sum = |binary: &Binary| {
        let mut sums: BTreeMap<String, u64> = binary
            .atomics
            .counts
            .iter()
            .map(|(c, n)| (c.name().to_string(), *n))
            .collect();
        if let Some(outline) = &binary.atomics.outline {
            sums.insert("outline helpers".into(), outline.helpers.len() as u64);
            sums.insert("outline calls".into(), binary.atomics.outline_calls());
        }
        if binary.atomics.outside_count > 0 {
            sums.insert(
                "outside function bounds".into(),
                binary.atomics.outside_count,
            );
        }
        sums
    };
    let (sums_a, sums_b) = (sum(a), sum(b));
    for key in sums_a.keys().chain(sums_b.keys()) {
        let pair = (
            sums_a.get(key).copied().unwrap_or(0),
            sums_b.get(key).copied().unwrap_or(0),
        );
        if pair.0 != pair.1 {
            totals.insert(key.clone(), pair);
        }
    }
    let (named_a, unnamed_a) = sides(a);
    let (named_b, unnamed_b) = sides(b);
    let mut names: Vec<&String> = named_a.keys().chain(named_b.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let functions = names
        .into_iter()
        .filter(|name| named_a.get(*name) != named_b.get(*name))
        .map(|name| FunctionDiff {
            name: name.clone(),
            a: named_a.get(name).cloned(),
            b: named_b.get(name).cloned(),
        })
        .collect();
    Diff {
        a: a.path.clone(),
        b: b.path.clone(),
        totals,
        functions,
        unnamed: (unnamed_a, unnamed_b),
        facts: facts(a, b),
    }
}

/// Named functions with the sum of those of one name (static functions of several files), and how
/// many have no name.
fn sides(binary: &Binary) -> (BTreeMap<String, Side>, u64) {
    let mut named: BTreeMap<String, Side> = BTreeMap::new();
    let mut unnamed = 0;
    for function in &binary.atomics.functions {
        let FunctionAtomics {
            name: Some(name),
            counts,
            outline_calls,
            ..
        } = function
        else {
            unnamed += 1;
            continue;
        };
        // A compiler's clones (`.isra.0`, `.part.0`) count with the function they come from.
        let stem = name
            .split('.')
            .next()
            .filter(|s| !s.is_empty())
            .unwrap_or(name);
        let side = named.entry(stem.to_string()).or_default();
        for (class, n) in counts {
            *side.counts.entry(*class).or_insert(0) += n;
        }
        for (helper, n) in outline_calls {
            *side.outline_calls.entry(helper.clone()).or_insert(0) += n;
        }
    }
    (named, unnamed)
}

fn facts(a: &Binary, b: &Binary) -> Vec<(String, String, String)> {
    let mut rows = Vec::new();
    let mut row = |what: &str, a: String, b: String| {
        if a != b {
            rows.push((what.to_string(), a, b));
        }
    };
    row("machine", a.machine.name().into(), b.machine.name().into());
    row(
        "compiler",
        a.build.compilers.join("; "),
        b.build.compilers.join("; "),
    );
    let flags = |x: &Binary| {
        x.build
            .flags
            .iter()
            .map(|f| f.flags.clone())
            .collect::<Vec<_>>()
            .join("; ")
    };
    row("flags", flags(a), flags(b));
    let version = |x: &Binary| {
        x.postgres
            .as_ref()
            .map(|p| p.version.clone())
            .unwrap_or_default()
    };
    row("PostgreSQL", version(a), version(b));
    let block = |x: &Binary| {
        x.postgres
            .as_ref()
            .and_then(|p| p.block_size_bytes)
            .map(|n| n.to_string())
            .unwrap_or_default()
    };
    row("block size", block(a), block(b));
    let hardening = |x: &Binary| {
        let h = &x.hardening;
        format!(
            "RELRO {}, PIE {}, branch targets {}, return addresses {}",
            h.relro, h.pie, h.branch_targets, h.return_addresses
        )
    };
    row("hardening", hardening(a), hardening(b));
    for path in &a.hot_paths {
        if let Some(other) = b.hot_paths.iter().find(|p| p.id == path.id) {
            row(
                &path.title,
                path.technique.name().into(),
                other.technique.name().into(),
            );
        }
    }
    rows
}

//! Binaries: which extensions functions use, and whether the file asks for them first.

use std::collections::{BTreeMap, BTreeSet};

use pgassay_inspect::extensions::{Extensions, Special, is_baseline};

use crate::porting::{Extension, Finding, Needs};
use crate::rules::rule;

/// Functions named for one extension.
const NAMED: usize = 6;

/// What an ELF file needs, and what is wrong with that.
pub fn judge(path: &str, found: &Extensions) -> (Needs, Vec<Finding>) {
    let mut by_extension: BTreeMap<&str, (u64, Vec<&Special>)> = BTreeMap::new();
    for special in &found.special {
        for (extension, instructions) in &special.extensions {
            let entry = by_extension.entry(extension).or_default();
            entry.0 += instructions;
            entry.1.push(special);
        }
    }
    let extensions = by_extension
        .iter()
        .map(|(name, (instructions, functions))| Extension {
            name: (*name).to_owned(),
            baseline: is_baseline(name),
            instructions: *instructions,
            functions: functions.len() as u64,
            named: functions
                .iter()
                .take(NAMED)
                .map(|special| shown(special))
                .collect(),
        });
    let needs = Needs {
        path: path.to_owned(),
        machine: found.machine.name().to_owned(),
        checks: found.checks.iter().take(NAMED).cloned().collect(),
        extensions: extensions.collect(),
    };
    let findings = findings(path, found);
    (needs, findings)
}

fn shown(special: &Special) -> String {
    special
        .name
        .clone()
        .unwrap_or_else(|| format!("{:#x}", special.address))
}

fn findings(path: &str, found: &Extensions) -> Vec<Finding> {
    let beyond: Vec<(&Special, Vec<&str>)> = found
        .special
        .iter()
        .map(|special| {
            (
                special,
                special
                    .extensions
                    .keys()
                    .copied()
                    .filter(|name| !is_baseline(name))
                    .collect::<Vec<_>>(),
            )
        })
        .filter(|(_, names)| !names.is_empty())
        .collect();
    let finding = |id: &'static str, within: Option<String>, code: String, more: usize| Finding {
        rule: id,
        effect: rule(id).effect,
        path: path.to_owned(),
        line: None,
        within,
        code,
        more: u32::try_from(more).unwrap_or(u32::MAX),
        condition: None,
    };
    let Some((first, _)) = beyond.first() else {
        return Vec::new();
    };
    if found.checks.is_empty() {
        let names: BTreeSet<&str> = beyond
            .iter()
            .flat_map(|(_, names)| names.iter().copied())
            .collect();
        let names: Vec<&str> = names.into_iter().collect();
        let code = format!(
            "{} in {} of {} functions",
            names.join(", "),
            beyond.len(),
            found.functions
        );
        return vec![finding(
            "needs-feature",
            Some(shown(first)),
            code,
            beyond.len() - 1,
        )];
    }
    let unchecked = beyond
        .iter()
        .filter(|(special, _)| !special.called_from.is_empty());
    unchecked
        .map(|(special, names)| {
            let code = format!(
                "{}, called from {}",
                names.join(", "),
                special.called_from.join(", ")
            );
            finding("unchecked-call", Some(shown(special)), code, 0)
        })
        .collect()
}

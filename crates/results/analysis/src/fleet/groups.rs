//! Hosts by processor, kernel, version and build.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::document::{Group, Grouping};
use super::member::{Member, Words};
use crate::bottlenecks::Severity;

/// By what hosts are grouped; each is a trait but the first.
const BY: &[&str] = &[
    "CPU",
    "kernel",
    "distribution",
    "PostgreSQL release",
    "compiler",
    "build id",
    "virtualisation",
    "base page size",
];
/// Findings of a group that are named.
const MOST: usize = 5;

pub(super) fn of(members: &[Member], words: &Words) -> Vec<Grouping> {
    let all = BY.iter().map(|by| grouping(by, members, words));
    // What nobody tells is no table.
    all.filter(|all| all.groups.iter().any(|group| group.value.is_some()))
        .collect()
}

fn grouping(by: &str, members: &[Member], words: &Words) -> Grouping {
    let name = words.find(by);
    let value = |member: &Member| match by {
        "CPU" => member.host.kind.cpu.clone(),
        _ => {
            let name = name?;
            let at = member.traits.binary_search_by_key(&name, |(name, _)| *name);
            Some(words.text(member.traits[at.ok()?].1).to_owned())
        }
    };
    let mut by_value: BTreeMap<Option<String>, Vec<&Member>> = BTreeMap::new();
    for member in members {
        by_value.entry(value(member)).or_default().push(member);
    }
    let mut groups: Vec<Group> = by_value
        .into_iter()
        .map(|(value, of)| group(value, &of))
        .collect();
    groups.sort_by_key(|group| (group.value.is_none(), Reverse(group.hosts)));
    Grouping {
        by: by.to_owned(),
        groups,
    }
}

fn group(value: Option<String>, of: &[&Member]) -> Group {
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for found in of.iter().flat_map(|member| &member.host.found) {
        if found.severity >= Severity::Low {
            *counts.entry(&found.id).or_default() += 1;
        }
    }
    let mut most: Vec<(String, u32)> = counts
        .into_iter()
        .map(|(id, n)| (id.to_owned(), n))
        .collect();
    most.sort_by_key(|(_, n)| Reverse(*n));
    most.truncate(MOST);
    let weighty = |member: &&&Member| {
        let mut found = member.host.found.iter();
        found.any(|found| found.severity >= Severity::Medium)
    };
    Group {
        value,
        hosts: of.len() as u32,
        weighty: of.iter().filter(weighty).count() as u32,
        findings: of.iter().map(|member| member.host.found.len() as u32).sum(),
        most,
    }
}

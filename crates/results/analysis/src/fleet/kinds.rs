//! Hosts that are alike, and who of them is not.
//!
//! What is compared are values as they are, not figures that vary, so that no test of chance is
//! needed to tell two of them apart. What has to be told is whether a value is *usual*: so many have
//! it that the rest deviates from something. It is where at least nine of ten hosts have it, or all
//! but one, and by Wilson's bound more than half of such hosts would (95 %, one-sided). The smallest
//! kind in which that can be is one of seven.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use super::document::{Divided, Kind, OddTrait, Share};
use super::host::KindKey;
use super::measured;
use super::member::{Member, Words};
use crate::stats::share::at_least;

/// The share of a kind that makes a value usual.
const NEARLY_ALL: f64 = 0.9;
/// Values of a divided trait that are told.
const MOST_VALUES: usize = 8;

/// The kinds, the largest first.
pub(super) fn of(members: &[Member], words: &Words) -> Vec<Kind> {
    let mut by_key: BTreeMap<&KindKey, Vec<&Member>> = BTreeMap::new();
    for member in members {
        by_key.entry(&member.host.kind).or_default().push(member);
    }
    let mut groups: Vec<(&KindKey, Vec<&Member>)> = by_key.into_iter().collect();
    groups.sort_by_key(|(key, of)| (Reverse(of.len()), *key));
    let mut kinds: Vec<Kind> = groups
        .into_iter()
        .map(|(key, of)| kind(key, &of, words))
        .collect();
    let nearest: Vec<_> = (0..kinds.len()).map(|n| nearest(&kinds, n)).collect();
    for (kind, nearest) in kinds.iter_mut().zip(nearest) {
        kind.nearest = nearest;
    }
    kinds
}

/// Whether a value that so many of so many have is what the others deviate from.
fn is_usual(n: usize, of: usize) -> bool {
    let share = n as f64 / of as f64;
    (share >= NEARLY_ALL || n + 1 == of) && n < of && at_least(share, of as u64) > 0.5
}

fn kind(key: &KindKey, of: &[&Member], words: &Words) -> Kind {
    // Trait to value to the hosts that have it.
    let mut values: HashMap<u32, HashMap<u32, Vec<&Member>>> = HashMap::new();
    for member in of {
        for (name, value) in &member.traits {
            let of_trait = values.entry(*name).or_default();
            of_trait.entry(*value).or_default().push(member);
        }
    }
    let mut odd = Vec::new();
    let mut divided = Vec::new();
    for (name, values) in values {
        if values.len() < 2 {
            continue;
        }
        let known: usize = values.values().map(Vec::len).sum();
        let mut values: Vec<(&str, Vec<&Member>)> = values
            .into_iter()
            .map(|(value, on)| (words.text(value), on))
            .collect();
        values.sort_by_key(|(value, on)| (Reverse(on.len()), *value));
        let name = words.text(name).to_owned();
        let (usual, on) = (values[0].0.to_owned(), values[0].1.len());
        if is_usual(on, known) {
            let rest = values.into_iter().skip(1);
            odd.extend(rest.map(|(value, of_value)| OddTrait {
                name: name.clone(),
                value: value.to_owned(),
                on: of_value.iter().map(|m| m.host.name.clone()).collect(),
                usual: usual.clone(),
                usual_on: Share {
                    n: on as u32,
                    of: known as u32,
                },
            }));
        } else if on > 1 || known == 2 {
            // Where all have a value of their own there is nothing to be alike in.
            divided.push(Divided {
                name,
                values: values
                    .iter()
                    .take(MOST_VALUES)
                    .map(|(value, on)| ((*value).to_owned(), on.len() as u32))
                    .collect(),
            });
        }
    }
    odd.sort_by(|a, b| {
        let key = |odd: &OddTrait| (odd.on.len(), odd.name.clone(), odd.value.clone());
        key(a).cmp(&key(b))
    });
    divided.sort_by(|a: &Divided, b| a.name.cmp(&b.name));
    Kind {
        of: key.clone(),
        hosts: of.len() as u32,
        judged: is_usual(of.len().saturating_sub(1), of.len()),
        nearest: None,
        odd,
        odd_measured: measured::odd(of),
        divided,
    }
}

/// The larger kind that differs from a small one in the least: a host of another size, or of another
/// version than all others with its CPU, is alone in its kind.
fn nearest(kinds: &[Kind], n: usize) -> Option<(usize, Vec<String>)> {
    let own = &kinds[n];
    if own.judged {
        return None;
    }
    let larger = kinds[..n]
        .iter()
        .enumerate()
        .filter(|(_, kind)| kind.judged);
    let differing = larger.map(|(at, kind)| (at, differences(&own.of, &kind.of)));
    let nearest = differing.min_by_key(|(_, differences)| differences.len());
    nearest.filter(|(_, differences)| differences.len() == 1)
}

fn differences(a: &KindKey, b: &KindKey) -> Vec<String> {
    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".to_owned());
    let cpus = |key: &KindKey| text(&key.cpus.map(|n| n.to_string()));
    let all = [
        ("CPU", text(&a.cpu), text(&b.cpu)),
        ("CPUs", cpus(a), cpus(b)),
        ("PostgreSQL", text(&a.postgres), text(&b.postgres)),
        ("role", a.role.words().to_owned(), b.role.words().to_owned()),
    ];
    let all = all.into_iter().filter(|(_, a, b)| a != b);
    all.map(|(what, a, b)| format!("{what} {a}, not {b}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::is_usual;

    #[test]
    fn a_value_is_usual_by_share_and_by_number() {
        // All but one: of six that could be chance, of seven not.
        assert!(!is_usual(5, 6));
        assert!(is_usual(6, 7));
        assert!(is_usual(9, 10));
        assert!(!is_usual(8, 10));
        assert!(is_usual(90, 100));
        assert!(!is_usual(89, 100));
        // Nobody deviates.
        assert!(!is_usual(50, 50));
    }
}

//! What the ratios over all scenarios come to, in sentences.

use super::scenario::Family;
use super::{Scenario, Side};
use crate::number;

/// Two families whose means lie closer together than this move alike.
const ALIKE: f64 = 1.15;

/// What a side gains over the first in a family of scenarios: the geometric mean, and the range.
#[derive(Debug, Clone, Copy)]
struct Mean {
    family: Family,
    ratio: f64,
    low: f64,
    high: f64,
}

pub(super) fn pattern(sides: &[Side], scenarios: &[Scenario]) -> Vec<String> {
    let mut said = Vec::new();
    for (n, side) in sides.iter().enumerate().skip(1) {
        let means = means(scenarios, n - 1);
        if means.is_empty() {
            said.push(format!(
                "No scenario was measured in the same way on {} and A.",
                side.label
            ));
            continue;
        }
        said.extend(overall(&side.label, &means));
        let mut gains = scenarios
            .iter()
            .filter_map(|s| s.gains.get(n - 1)?.as_ref());
        match gains.any(|gain| gain.clear) {
            true => said.extend(reasons(&sides[0], side, &means)),
            false if [0, n].iter().any(|at| disturbed(scenarios, *at).is_some()) => {}
            false => said.push(format!(
                "No scenario shows a difference between {} and A.",
                side.label
            )),
        }
        said.extend(limited(scenarios, n, &side.label));
    }
    let poor = sides.iter().enumerate();
    let poor =
        poor.filter_map(|(n, side)| Some(format!("{} ({})", side.label, disturbed(scenarios, n)?)));
    let poor: Vec<String> = poor.collect();
    if !poor.is_empty() {
        said.push(format!(
            "Nothing of a run that is graded as poor is called better or worse: {}. Measure again on a quiet \
             machine (--wait-quiet).",
            poor.join("; ")
        ));
    }
    said
}

fn means(scenarios: &[Scenario], other: usize) -> Vec<Mean> {
    let of = |family: Family| {
        let of_family = scenarios.iter().filter(|s| s.family == family);
        // What the client's limit shows is not the server's.
        let free = of_family.filter(|s| {
            let sides = [s.values.first(), s.values.get(other + 1)];
            sides
                .into_iter()
                .flatten()
                .flatten()
                .all(|v| v.limited.is_none())
        });
        let gains: Vec<_> = free.filter_map(|s| s.gains.get(other)?.as_ref()).collect();
        if gains.is_empty() {
            return None;
        }
        let logs: f64 = gains.iter().map(|gain| gain.ratio.estimate.ln()).sum();
        let ends = |f: fn(f64, f64) -> f64, start, of: fn(&super::Gain) -> f64| {
            gains.iter().map(|gain| of(gain)).fold(start, f)
        };
        Some(Mean {
            family,
            ratio: (logs / gains.len() as f64).exp(),
            low: ends(f64::min, f64::INFINITY, |gain| gain.ratio.low),
            high: ends(f64::max, 0.0, |gain| gain.ratio.high),
        })
    };
    Family::ALL.into_iter().filter_map(of).collect()
}

/// `B against A: 1.83 times with many clients that read (1.7 to 1.9); …`, the most first.
fn overall(label: &str, means: &[Mean]) -> Option<String> {
    let mut sorted = means.to_vec();
    sorted.sort_by(|a, b| b.ratio.total_cmp(&a.ratio));
    let parts: Vec<String> = sorted
        .iter()
        .map(|mean| {
            format!(
                "{} times {} ({} to {})",
                number::short(mean.ratio),
                mean.family.words(),
                number::short(mean.low),
                number::short(mean.high)
            )
        })
        .collect();
    (!parts.is_empty()).then(|| format!("{label} against A: {}.", parts.join("; ")))
}

/// What the differences between families say of the two machines.
fn reasons(a: &Side, b: &Side, means: &[Mean]) -> Vec<String> {
    let of = |family: Family| means.iter().find(|mean| mean.family == family);
    let label = &b.label;
    let mut said = Vec::new();
    let (least, most) = means
        .iter()
        .fold((f64::INFINITY, 0.0_f64), |(low, high), m| {
            (low.min(m.ratio), high.max(m.ratio))
        });
    let core = of(Family::OneSession).or(of(Family::OneClient));
    let cores = a.cores.zip(b.cores).filter(|(a, _)| *a > 0);
    // With other numbers of cores, what moves alike is what should not.
    let same_cores = cores.is_none_or(|(a, b)| a == b);
    if means.len() > 1 && most < least * ALIKE && same_cores {
        said.push(format!(
            "All kinds of load move alike, within {}: one factor explains them, and nothing points to locks, \
             memory or the network.",
            number::percent_of_one(most / least - 1.0)
        ));
        return said;
    }
    if let (Some(core), Some(many), Some((of_a, of_b))) = (core, of(Family::ManyClients), cores) {
        let expected = core.ratio * f64::from(of_b) / f64::from(of_a);
        if many.ratio * ALIKE < expected && many.high < expected {
            said.push(format!(
                "With {of_b} cores against {of_a}, and a core worth {} of A's, {} would be expected with \
                 many clients: {label} loses {:.0} % of that to what its cores share (locks, caches, the \
                 client's CPU).",
                number::short(core.ratio),
                number::short(expected),
                100.0 * (1.0 - many.ratio / expected)
            ));
        } else if many.ratio > expected * ALIKE && many.low > expected {
            said.push(format!(
                "With many clients {label} gains more than its {of_b} cores against {of_a} and their speed \
                 explain ({}): A is held back by something that {label} is not, such as its client's CPU \
                 or a shared cache line.",
                number::short(expected)
            ));
        }
    }
    let mut contrast = |one: Family, other: Family, less: &str, more: &str| {
        let (Some(one), Some(other)) = (of(one), of(other)) else {
            return;
        };
        let text = match (
            one.ratio * ALIKE < other.ratio,
            one.ratio > other.ratio * ALIKE,
        ) {
            (true, _) => less,
            (_, true) => more,
            _ => return,
        };
        said.push(format!(
            "{} ({} against {}).",
            text.replace("{label}", label),
            number::short(one.ratio),
            number::short(other.ratio)
        ));
    };
    contrast(
        Family::OneClient,
        Family::OneSession,
        "{label} gains less over the wire than inside the server: kernel and network path take the difference",
        "{label} gains more over the wire than inside the server: its kernel and network path are the better \
         part",
    );
    contrast(
        Family::SharedLines,
        Family::ManyClients,
        "{label} gains least where many sessions want one cache line: its locks cost more, and \
         lock-bound work will feel it",
        "{label} gains most where many sessions want one cache line: lock-bound work profits beyond the rest",
    );
    contrast(
        Family::Memory,
        Family::ManyClients,
        "{label} gains less where blocks are read in bulk: memory bandwidth or page size hold it back",
        "{label} gains more where blocks are read in bulk: its memory is the better part",
    );
    contrast(
        Family::Writes,
        Family::ManyClients,
        "{label} gains less with writes: the log's device or its flushes hold it back",
        "{label} gains more with writes: the log's device is the better part",
    );
    said
}

/// Scenarios that say nothing of the servers.
fn limited(scenarios: &[Scenario], side: usize, label: &str) -> Option<String> {
    let names: Vec<&str> = scenarios
        .iter()
        .filter(|s| {
            let both = [s.values.first(), s.values.get(side)];
            both.into_iter()
                .flatten()
                .flatten()
                .any(|v| v.limited.is_some())
        })
        .map(|s| s.name.as_str())
        .collect();
    (!names.is_empty()).then(|| {
        format!(
            "Left out of this for {label}, since the client was the limit: {}.",
            names.join("; ")
        )
    })
}

/// What disturbed a side's run too much for a judgement.
fn disturbed(scenarios: &[Scenario], side: usize) -> Option<&str> {
    let mut values = scenarios
        .iter()
        .filter_map(|s| s.values.get(side)?.as_ref());
    values.find_map(|value| value.disturbed.as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosts::{Gain, Value};
    use crate::stats::{Direction, Estimate};

    fn estimate(of: f64) -> Estimate {
        Estimate {
            estimate: of,
            low: of * 0.97,
            high: of * 1.03,
            level: 0.95,
            n: 6,
            warnings: Vec::new(),
        }
    }

    fn side(label: &str, cores: u32) -> Side {
        Side {
            lab: None,
            label: label.to_owned(),
            runs: Vec::new(),
            started: String::new(),
            processors: None,
            cores: Some(cores),
            ghz: None,
            price: None,
            server: None,
            build: None,
            quality: None,
        }
    }

    fn scenario(family: Family, ratio: f64, limited: bool) -> Scenario {
        let value = Value {
            value: estimate(100.0),
            sessions: None,
            limited: limited.then(|| "its client".to_owned()),
            disturbed: None,
        };
        Scenario {
            family,
            name: format!("{family:?}"),
            unit: "tps".to_owned(),
            better: Direction::HigherIsBetter,
            values: vec![Some(value.clone()), Some(value)],
            gains: vec![Some(Gain {
                ratio: estimate(ratio),
                per_core: None,
                per_ghz: None,
                per_price: None,
                clear: true,
            })],
        }
    }

    fn said(of: &[(Family, f64, bool)]) -> String {
        said_of(of, 16)
    }

    fn said_of(of: &[(Family, f64, bool)], cores: u32) -> String {
        let scenarios: Vec<Scenario> = of
            .iter()
            .map(|&(family, ratio, limited)| scenario(family, ratio, limited))
            .collect();
        pattern(&[side("A", 4), side("B", cores)], &scenarios).join("\n")
    }

    #[test]
    fn one_factor_is_called_one() {
        let alike = [
            (Family::OneClient, 1.30, false),
            (Family::OneSession, 1.25, false),
            (Family::ManyClients, 1.28, false),
        ];
        let text = said_of(&alike, 4);
        assert!(text.contains("one factor explains them"), "{text}");
        // Four times the cores that bring nothing are no such thing.
        let text = said_of(&alike, 16);
        assert!(text.contains("5 would be expected"), "{text}");
    }

    #[test]
    fn cores_that_do_not_add_up_are_said_with_what_was_expected() {
        let text = said(&[
            (Family::OneSession, 1.0, false),
            (Family::ManyClients, 2.0, false),
            (Family::SharedLines, 0.5, false),
        ]);
        assert!(
            text.contains("4 would be expected with many clients: B loses 50 %"),
            "{text}"
        );
        assert!(text.contains("its locks cost more"), "{text}");
        let text = said(&[
            (Family::OneSession, 1.0, false),
            (Family::ManyClients, 4.0, false),
        ]);
        assert!(!text.contains("expected"), "{text}");
    }

    #[test]
    fn a_disturbed_run_is_not_judged() {
        let mut scenarios = vec![scenario(Family::OneClient, 2.0, false)];
        for scenario in &mut scenarios {
            scenario.gains[0].as_mut().unwrap().clear = false;
            let of_b = scenario.values[1].as_mut().unwrap();
            of_b.disturbed = Some("other work took up to 48 % of the CPU time".to_owned());
        }
        let text = pattern(&[side("A", 4), side("B", 4)], &scenarios).join("\n");
        assert!(
            text.contains("better or worse: B (other work took up to 48 %"),
            "{text}"
        );
        assert!(!text.contains("shows a difference"), "{text}");
    }

    #[test]
    fn what_the_client_limits_explains_nothing() {
        let text = said(&[
            (Family::OneSession, 1.0, false),
            (Family::ManyClients, 2.0, true),
        ]);
        assert!(
            text.contains("since the client was the limit: ManyClients"),
            "{text}"
        );
        assert!(!text.contains("expected"), "{text}");
        assert!(
            said(&[]).contains("No scenario"),
            "nothing in common is said"
        );
    }
}

//! Whether values gather at more than one level.
//!
//! Sorted values are divided in two where the means of the parts differ most by the standard deviation within them. They
//! are of two levels if that separation is larger than one in a hundred samples of a single level has, of whichever of five
//! shapes has the largest (normal, uniform, exponential, and Student's t with 2 and 3 degrees of freedom). With 20 values or fewer it finds
//! more than Hartigan's dip does, above all where one level has few of them (scripts/oracles/levels.py has both).

use serde::{Deserialize, Serialize};

use super::estimate::{Estimate, summarize_positive};

/// The fewest values that are tested, and the fewest of a level; in more than 24, a level has an eighth of them.
const FEWEST: usize = 6;
const FEWEST_OF_LEVEL: usize = 3;

/// Levels that are closer than this, as a ratio, count as one: whatever stands between them is off by less than half of it.
const NOTABLE: f64 = 1.1;

/// The separation that one in a hundred samples of one level exceeds, by their number; from scripts/oracles/levels.py.
const CRITICAL: [(usize, f64); 14] = [
    (6, 9.56),
    (7, 9.118),
    (8, 8.54),
    (9, 7.923),
    (10, 7.481),
    (12, 7.045),
    (15, 6.786),
    (20, 6.583),
    (30, 5.948),
    (50, 5.247),
    (100, 4.84),
    (200, 4.558),
    (500, 4.285),
    (1000, 4.158),
];

/// Values that lie close together, and away from the others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Level {
    /// Where they lie.
    pub estimate: Estimate,
    /// Which of the values they are, by their places in the order measured.
    pub members: Vec<usize>,
}

/// The levels of positive values, the lowest first; none where one level explains them, where they are fewer than 6, and
/// where one of them is not positive.
pub fn levels(values: &[f64]) -> Option<Vec<Level>> {
    if !values.iter().all(|v| v.is_finite() && *v > 0.0) {
        return None;
    }
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let logs: Vec<f64> = order.iter().map(|i| values[*i].ln()).collect();
    let mut parts = Vec::new();
    split(&logs, 0, &mut parts);
    let level = |&(start, end): &(usize, usize)| {
        let mut members = order[start..end].to_vec();
        members.sort_unstable();
        let here: Vec<f64> = members.iter().map(|i| values[*i]).collect();
        let estimate = summarize_positive(&here)?;
        Some(Level { estimate, members })
    };
    let found: Vec<Level> = parts.iter().filter_map(level).collect();
    (found.len() > 1).then_some(found)
}

/// Divides sorted values where they lie at two levels, and each part again; `parts` receives their limits.
fn split(sorted: &[f64], start: usize, parts: &mut Vec<(usize, usize)>) {
    match divide(sorted) {
        Some(at) => {
            split(&sorted[..at], start, parts);
            split(&sorted[at..], start + at, parts);
        }
        None => parts.push((start, start + sorted.len())),
    }
}

/// Where sorted logarithms are divided in two levels. None where they may be of one, or the levels are too close to
/// matter.
fn divide(sorted: &[f64]) -> Option<usize> {
    let (at, separation) = separation(sorted)?;
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    let apart = mean(&sorted[at..]) - mean(&sorted[..at]);
    (separation > critical(sorted.len()) && apart >= NOTABLE.ln()).then_some(at)
}

/// Where sorted values are best divided, and by how many standard deviations within the parts these are apart. None of
/// too few values, and of values that are all the same.
fn separation(sorted: &[f64]) -> Option<(usize, f64)> {
    let n = sorted.len();
    let least = FEWEST_OF_LEVEL.max(n.div_ceil(8));
    if n < FEWEST || sorted.first() == sorted.last() {
        return None;
    }
    let all = sorted.iter().sum::<f64>() / n as f64;
    let squares: f64 = sorted.iter().map(|v| (v - all) * (v - all)).sum();
    let mut sum = 0.0;
    let mut best: Option<(usize, f64)> = None;
    for (at, value) in sorted.iter().enumerate() {
        if (least..=n - least).contains(&at) {
            let (left, right) = (at as f64, (n - at) as f64);
            // Of the deviations from the mean of all, which sum to nothing.
            let within = squares - sum * sum / left - sum * sum / right;
            let apart = -sum / right - sum / left;
            let separation = apart / (within.max(0.0) / (n - 2) as f64).sqrt();
            if best.is_none_or(|(_, most)| separation > most) {
                best = Some((at, separation));
            }
        }
        sum += value - all;
    }
    best
}

/// The critical value for n, between those of the table by the logarithm of n; beyond it, of its last.
fn critical(n: usize) -> f64 {
    let upper = CRITICAL.partition_point(|(of, _)| *of < n);
    match (
        upper.checked_sub(1).map(|i| CRITICAL[i]),
        CRITICAL.get(upper),
    ) {
        (Some((a, low)), Some((b, high))) => {
            let [a, b, n] = [a, *b, n].map(|n| (n as f64).ln());
            low + (high - low) * (n - a) / (b - a)
        }
        (None, Some((_, first))) => *first,
        (Some((_, last)), None) => last,
        (None, None) => f64::INFINITY,
    }
}

#[cfg(test)]
mod tests {
    use super::super::oracles::{number, numbers, rows};
    use super::*;

    const ORACLE: &str = include_str!("oracles/levels.tsv");

    #[test]
    fn divisions_are_those_of_trying_every_one() {
        let mut cases = 0;
        for row in rows(ORACLE, "separation") {
            let (at, separation) = separation(&numbers(row[1])).unwrap();
            assert_eq!(at as f64, number(row[2]));
            let want = number(row[3]);
            assert!(
                (separation - want).abs() < 1e-6 * want,
                "{separation}, not {want}"
            );
            cases += 1;
        }
        assert_eq!(cases, 10);
        for (row, (n, critical)) in rows(ORACLE, "critical").zip(CRITICAL) {
            assert_eq!((number(row[1]), number(row[2])), (n as f64, critical));
        }
    }

    #[test]
    fn two_levels_are_found_with_their_trials() {
        // One client in an assay: eight trials at 44,000 to 50,000, twelve at 13,000 to 17,600, none between.
        let values = [
            13_000.0, 47_000.0, 15_500.0, 44_000.0, 50_000.0, 14_100.0, 16_200.0, 17_600.0,
            46_100.0, 13_900.0, 48_800.0, 15_000.0, 45_300.0, 16_900.0, 14_600.0, 49_200.0,
            15_800.0, 13_300.0, 47_700.0, 17_100.0,
        ];
        let found = levels(&values).unwrap();
        let sizes: Vec<usize> = found.iter().map(|level| level.members.len()).collect();
        assert_eq!(sizes, [12, 8]);
        assert_eq!(found[1].members, [1, 3, 4, 8, 10, 12, 15, 18]);
        assert!((46_000.0..48_500.0).contains(&found[1].estimate.estimate));
        assert!((14_000.0..16_500.0).contains(&found[0].estimate.estimate));
    }

    #[test]
    fn close_levels_few_values_and_values_of_no_logarithm_are_one_level() {
        let close: Vec<f64> = (0..20)
            .map(|i| 100.0 + f64::from(i % 2) * 5.0 + f64::from(i) * 0.001)
            .collect();
        let mut sorted = close.clone();
        sorted.sort_by(f64::total_cmp);
        assert!(separation(&sorted).unwrap().1 > critical(20));
        assert_eq!(levels(&close), None);
        assert_eq!(levels(&[1.0, 1.1, 1.2, 9.0, 9.1]), None);
        assert_eq!(levels(&[0.0, 1.0, 1.1, 1.2, 9.0, 9.1, 9.2]), None);
        assert_eq!(levels(&[7.0; 30]), None);
        assert_eq!(levels(&[]), None);
    }
}

//! Several comparisons that answer one question: Holm's correction.

use super::caveat::Caveat;
use super::estimate::LEVEL;
use super::paired::Comparison;
use super::verdict::Verdict;

/// Holm's step-down adjustment (Scandinavian J. Statistics 6, 1979): the chance
/// that any of the family is called different where none is stays under α.
/// Values that are not numbers count as 1.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let value = |i: usize| {
        if p[i].is_nan() {
            1.0
        } else {
            p[i].clamp(0.0, 1.0)
        }
    };
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| value(*a).total_cmp(&value(*b)));
    let mut adjusted = vec![1.0; p.len()];
    let mut largest = 0.0f64;
    for (step, i) in order.into_iter().enumerate() {
        largest = largest.max((p.len() - step) as f64 * value(i)).min(1.0);
        adjusted[i] = largest;
    }
    adjusted
}

/// Judges comparisons as one family (client counts, workloads): each keeps its own
/// interval, and a difference that does not survive the correction becomes
/// inconclusive, with a warning. "Equivalent" needs no correction: that all are
/// equivalent is claimed only where each was shown to be.
pub fn judge_family(family: &mut [Comparison]) {
    let p: Vec<f64> = family.iter().map(|c| c.p).collect();
    for (comparison, p) in family.iter_mut().zip(holm(&p)) {
        comparison.p_family = Some(p);
        let decided = matches!(comparison.verdict, Verdict::Faster | Verdict::Slower);
        if decided && p > 1.0 - LEVEL + 1e-12 {
            comparison.verdict = Verdict::Inconclusive;
            comparison.warn(Caveat::NotInFamily);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::paired::compare;
    use super::super::verdict::{Direction, Rule};
    use super::*;

    #[test]
    fn a_family_asks_for_more() {
        let rule = Rule::new(0.01, Direction::HigherIsBetter).expect("a rule");
        // 6 pairs all to one side: p = 0.03125, shown alone
        let clear: Vec<_> = (0..6)
            .map(|i| (100.0, 104.0 + f64::from(i) / 10.0))
            .collect();
        let alone = compare(&clear, rule).expect("pairs");
        assert_eq!(alone.verdict, Verdict::Faster);
        let mut family = vec![alone.clone(), alone.clone()];
        judge_family(&mut family);
        assert_eq!(family[0].verdict, Verdict::Inconclusive);
        assert_eq!(family[0].p_family, Some(0.0625));
        assert!(
            family[0]
                .ratio
                .warnings
                .iter()
                .any(|w| *w == Caveat::NotInFamily)
        );
        let mut single = vec![alone];
        judge_family(&mut single);
        assert_eq!(single[0].verdict, Verdict::Faster);
    }

    #[test]
    fn odd_p_values_do_no_harm() {
        assert_eq!(holm(&[]), Vec::<f64>::new());
        assert_eq!(holm(&[f64::NAN, 0.01]), [1.0, 0.02]);
    }
}

//! What the two rank statistics do when there is no difference.
//!
//! Under the null the signs of paired differences are coin flips (the order
//! within each pair was drawn), so the signed-rank statistic T+ is the sum of a
//! random subset of 1..n. Up to [`EXACT_PAIRS`] pairs the whole distribution is
//! computed, which is the full enumeration of the 2^n sign flips counted by their
//! sum; beyond, the normal approximation with continuity correction, which at
//! that size differs from it by less than 3e-4 in the tails used here (tested).
//! The same is done for the Mann–Whitney statistic of two unpaired samples.
//!
//! Sources: Wilcoxon, Biometrics Bulletin 1 (1945); Mann and Whitney, Annals of
//! Mathematical Statistics 18 (1947); Hollander, Wolfe and Chicken, Nonparametric
//! Statistical Methods, 3rd ed., chapters 3 and 4.

use statrs::distribution::{ContinuousCDF, Normal};

/// Signed-rank distributions are exact up to this many pairs.
pub const EXACT_PAIRS: usize = 128;

/// Mann–Whitney distributions are exact up to this many values on each side.
pub const EXACT_SIDE: usize = 50;

/// The distribution, symmetric over 0..=`total`, of a rank statistic.
#[derive(Debug, Clone)]
pub struct RankNull {
    total: u64,
    sd: f64,
    /// P(T ≤ k) for the lower half, where it was computed.
    exact: Option<Vec<f64>>,
}

impl RankNull {
    /// Of T+ over n pairs.
    pub fn signed_rank(n: usize) -> Self {
        Self::stratified(&[(n, 1)])
    }

    /// Of Σ w·T+ over runs of n pairs each, (n, w) of each run. Exact up to [`EXACT_PAIRS`] pairs
    /// in all.
    pub fn stratified(runs: &[(usize, u64)]) -> Self {
        let of = |f: &dyn Fn(f64, f64) -> f64| {
            let runs = runs.iter();
            runs.map(|(n, weight)| f(*n as f64, *weight as f64))
                .sum::<f64>()
        };
        let variance = of(&|n, w| w * w * n * (n + 1.0) * (2.0 * n + 1.0) / 24.0);
        let flips: Vec<usize> = runs
            .iter()
            .flat_map(|(n, weight)| (1..=*n).map(move |rank| rank * *weight as usize))
            .collect();
        let total: usize = flips.iter().sum();
        Self {
            total: total as u64,
            sd: variance.sqrt(),
            exact: (flips.len() <= EXACT_PAIRS).then(|| {
                let mut p = vec![0.0; total + 1];
                p[0] = 1.0;
                let mut reached = 0;
                for flip in flips {
                    reached += flip;
                    for k in (0..=reached).rev() {
                        let with = if k >= flip { p[k - flip] } else { 0.0 };
                        p[k] = (p[k] + with) / 2.0;
                    }
                }
                lower_half(p)
            }),
        }
    }

    /// Of U over samples of n and m values.
    pub fn mann_whitney(n: usize, m: usize) -> Self {
        let (fn_, fm) = (n as f64, m as f64);
        let total = n as u64 * m as u64;
        Self {
            total,
            sd: (fn_ * fm * (fn_ + fm + 1.0) / 12.0).sqrt(),
            exact: (n <= EXACT_SIDE && m <= EXACT_SIDE).then(|| {
                // the generating function prod (1 - q^(m+i)) / (1 - q^i), i = 1..n,
                // with each factor divided by its value at q = 1
                let size = total as usize + 1;
                let mut p = vec![0.0; size];
                p[0] = 1.0;
                for i in 1..=n {
                    for k in (m + i..size).rev() {
                        p[k] -= p[k - m - i];
                    }
                    for k in i..size {
                        p[k] += p[k - i];
                    }
                    let factor = i as f64 / (m + i) as f64;
                    p.iter_mut().for_each(|v| *v *= factor);
                }
                lower_half(p)
            }),
        }
    }

    /// P(T ≤ k).
    pub fn at_most(&self, k: u64) -> f64 {
        if k >= self.total {
            return 1.0;
        }
        match &self.exact {
            Some(lower) => match lower.get(k as usize) {
                Some(p) => *p,
                // by symmetry 1 − P(T ≤ total − k − 1)
                None => {
                    1.0 - lower
                        .get((self.total - k - 1) as usize)
                        .copied()
                        .unwrap_or(0.0)
                }
            },
            None => normal_cdf((k as f64 + 0.5 - self.total as f64 / 2.0) / self.sd),
        }
    }

    /// The p-value, two-sided, of a statistic with `below` averages (or
    /// differences) under the value tested and `above` over it. Those equal to
    /// it count for neither side, which can only enlarge p, so that p ≤ α exactly
    /// where the interval of level 1 − α leaves the value out.
    pub fn p_two_sided(&self, below: u64, above: u64) -> f64 {
        let rest = self.total - below.max(above).min(self.total);
        (2.0 * self.at_most(rest)).min(1.0)
    }

    /// How many order statistics an interval of at least this level leaves off on
    /// each side; `None` where even the whole range covers less.
    pub fn trim(&self, level: f64) -> Option<u64> {
        let tail = (1.0 - level) / 2.0 + 1e-12; // 0.975 and its like are not exact in binary
        if self.at_most(0) > tail {
            return None;
        }
        let (mut fits, mut too_far) = (0, self.total / 2 + 1);
        while too_far - fits > 1 {
            let k = fits + (too_far - fits) / 2;
            if self.at_most(k) <= tail {
                fits = k;
            } else {
                too_far = k;
            }
        }
        Some(fits)
    }

    /// The coverage of the whole range: 1 − 2 P(T = 0).
    pub fn coverage_of_range(&self) -> f64 {
        (1.0 - 2.0 * self.at_most(0)).max(0.0)
    }
}

/// The cumulative lower half of a symmetric distribution, middle included.
fn lower_half(mut p: Vec<f64>) -> Vec<f64> {
    p.truncate(p.len() / 2 + 1);
    let mut sum = 0.0;
    for v in &mut p {
        sum += *v;
        *v = sum;
    }
    p
}

/// Φ(z).
pub fn normal_cdf(z: f64) -> f64 {
    Normal::standard().cdf(z)
}

/// Φ⁻¹(p), p clamped to the open interval (0, 1).
pub fn normal_quantile(p: f64) -> f64 {
    Normal::standard().inverse_cdf(p.clamp(1e-300, 1.0 - 1e-16))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_the_enumeration_of_all_sign_flips() {
        for n in 1..=16usize {
            let total = n * (n + 1) / 2;
            let mut counts = vec![0u64; total + 1];
            for signs in 0u32..1 << n {
                let t: usize = (0..n).filter(|i| signs >> i & 1 == 1).map(|i| i + 1).sum();
                counts[t] += 1;
            }
            let null = RankNull::signed_rank(n);
            let mut sum = 0;
            for (k, count) in counts.iter().enumerate() {
                sum += count;
                let want = sum as f64 / (1u64 << n) as f64;
                assert!((null.at_most(k as u64) - want).abs() < 1e-12, "n {n} k {k}");
            }
        }
    }

    #[test]
    fn mann_whitney_equals_the_enumeration_of_all_labellings() {
        for (n, m) in [(1, 1), (1, 4), (3, 3), (4, 6), (6, 4), (7, 7)] {
            let mut counts = vec![0u64; n * m + 1];
            for chosen in (0u32..1 << (n + m)).filter(|c| c.count_ones() as usize == n) {
                // U: pairs in which the value of the other sample is the smaller
                let mut others = 0;
                let mut u = 0;
                for at in 0..n + m {
                    if chosen >> at & 1 == 1 {
                        u += others;
                    } else {
                        others += 1;
                    }
                }
                counts[u] += 1;
            }
            let all: u64 = counts.iter().sum();
            let null = RankNull::mann_whitney(n, m);
            let mut sum = 0;
            for (k, count) in counts.iter().enumerate() {
                sum += count;
                let want = sum as f64 / all as f64;
                assert!((null.at_most(k as u64) - want).abs() < 1e-10, "{n} {m} {k}");
            }
        }
    }

    #[test]
    fn the_normal_takes_over_without_a_step() {
        let exact = RankNull::signed_rank(EXACT_PAIRS);
        let mut normal = exact.clone();
        normal.exact = None;
        for level in [0.9, 0.95, 0.99] {
            let k = exact.trim(level).expect("many pairs");
            assert!(
                (exact.at_most(k) - normal.at_most(k)).abs() < 3e-4,
                "{level}"
            );
        }
        let exact = RankNull::mann_whitney(EXACT_SIDE, EXACT_SIDE);
        let mut normal = exact.clone();
        normal.exact = None;
        for level in [0.9, 0.95, 0.99] {
            let k = exact.trim(level).expect("many values");
            assert!(
                (exact.at_most(k) - normal.at_most(k)).abs() < 3e-4,
                "{level}"
            );
        }
    }

    #[test]
    fn six_pairs_are_the_least_for_95_percent() {
        assert_eq!(RankNull::signed_rank(5).trim(0.95), None);
        assert_eq!(RankNull::signed_rank(6).trim(0.95), Some(0));
        assert!((RankNull::signed_rank(5).p_two_sided(0, 15) - 0.0625).abs() < 1e-12);
        assert!((RankNull::signed_rank(6).p_two_sided(0, 21) - 0.03125).abs() < 1e-12);
        assert!((RankNull::signed_rank(5).coverage_of_range() - 0.9375).abs() < 1e-12);
        assert_eq!(RankNull::signed_rank(1).coverage_of_range(), 0.0);
        assert_eq!(RankNull::signed_rank(0).coverage_of_range(), 0.0);
    }
}

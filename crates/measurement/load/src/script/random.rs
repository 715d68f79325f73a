//! pgbench's random numbers, hashes and permutation.
//!
//! The generator is xoroshiro128** seeded by splitmix64, as PostgreSQL's `pg_prng` is from release
//! 15 on, and the draws are made in pgbench's order: with the same `--random-seed` a script draws
//! the same numbers here as there. Ranges and parameters are checked by the caller, which knows
//! the error to give.

use rand_xoshiro::Xoroshiro128StarStar;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

/// Least parameter of `random_gaussian`.
pub const MIN_GAUSSIAN: f64 = 2.0;
/// Least parameter of `random_zipfian`.
pub const MIN_ZIPFIAN: f64 = 1.001;
/// Greatest parameter of `random_zipfian`.
pub const MAX_ZIPFIAN: f64 = 1000.0;

/// A seeded stream of random numbers. It is cheap to copy, which a retried transaction does to
/// draw the same numbers again.
#[derive(Clone, Debug)]
pub struct Random(Xoroshiro128StarStar);

impl Random {
    /// The stream that pgbench has for this seed.
    pub fn new(seed: u64) -> Self {
        Random(Xoroshiro128StarStar::seed_from_u64(seed))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Leaves so many draws of 64 bits out.
    pub fn skip(&mut self, draws: u32) {
        for _ in 0..draws {
            self.bits();
        }
    }

    /// Uniform over [0, 1), in steps of 2^-52.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 12) as f64 / (1u64 << 52) as f64
    }

    /// Uniform over `low..=high`, by rejection over the smallest covering power of two.
    pub fn uniform(&mut self, low: i64, high: i64) -> i64 {
        low.wrapping_add(self.below_or_at(high.wrapping_sub(low) as u64) as i64)
    }

    fn below_or_at(&mut self, range: u64) -> u64 {
        if range == 0 {
            return 0;
        }
        let shift = range.leading_zeros();
        loop {
            let draw = self.bits() >> shift;
            if draw <= range {
                return draw;
            }
        }
    }

    /// Exponentially falling over `low..=high`; the density at `high` is e^-parameter of that at
    /// `low`.
    pub fn exponential(&mut self, low: i64, high: i64, parameter: f64) -> i64 {
        let cut = (-parameter).exp();
        let uniform = 1.0 - self.unit();
        let at = -(cut + (1.0 - cut) * uniform).ln() / parameter;
        scale(low, high, at)
    }

    /// Bell-shaped over `low..=high`, cut at `parameter` standard deviations on both sides.
    pub fn gaussian(&mut self, low: i64, high: i64, parameter: f64) -> i64 {
        let deviation = loop {
            let draw = self.normal();
            if draw >= -parameter && draw < parameter {
                break draw;
            }
        };
        scale(low, high, (deviation + parameter) / (parameter * 2.0))
    }

    /// Standard normal, by the Box-Muller transform.
    fn normal(&mut self) -> f64 {
        let radius = 1.0 - self.unit();
        let angle = 1.0 - self.unit();
        (-2.0 * radius.ln()).sqrt() * (2.0 * std::f64::consts::PI * angle).sin()
    }

    /// Zipf-distributed over `low..=high`: the k-th value has a weight of k^-s. By rejection
    /// (Devroye, Non-Uniform Random Variate Generation, 1986, page 550).
    pub fn zipfian(&mut self, low: i64, high: i64, s: f64) -> i64 {
        let count = high - low + 1;
        if count <= 1 {
            return low;
        }
        let b = 2f64.powf(s - 1.0);
        loop {
            let u = self.unit();
            let v = self.unit();
            let x = u.powf(-1.0 / (s - 1.0)).floor();
            let t = (1.0 + 1.0 / x).powf(s - 1.0);
            if v * x * (t - 1.0) / (b - 1.0) <= t / b && x <= count as f64 {
                return low - 1 + x as i64;
            }
        }
    }

    /// An exponential gap with this mean, rounded: what lies between two starts under a rate.
    pub fn poisson_gap(&mut self, mean: f64) -> i64 {
        (-(1.0 - self.unit()).ln() * mean + 0.5) as i64
    }
}

fn scale(low: i64, high: i64, at: f64) -> i64 {
    low.wrapping_add((high.wrapping_sub(low).wrapping_add(1) as f64 * at) as i64)
}

/// FNV-1a over the eight bytes of the value, least significant first.
pub fn hash_fnv1a(value: i64, seed: i64) -> i64 {
    const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let mut hash = OFFSET_BASIS ^ seed as u64;
    for byte in value.to_le_bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(PRIME);
    }
    hash as i64
}

/// MurmurHash2 (the 64-bit form, 64A) of an eight-byte value.
pub fn hash_murmur2(value: i64, seed: i64) -> i64 {
    const MULTIPLIER: u64 = 0xc6a4_a793_5bd1_e995;
    const ROTATION: u32 = 47;
    let mut word = (value as u64).wrapping_mul(MULTIPLIER);
    word ^= word >> ROTATION;
    word = word.wrapping_mul(MULTIPLIER);
    let mut hash = seed as u64 ^ MULTIPLIER.wrapping_mul(8);
    hash = (hash ^ word).wrapping_mul(MULTIPLIER);
    hash = (hash ^ (hash >> ROTATION)).wrapping_mul(MULTIPLIER);
    (hash ^ (hash >> ROTATION)) as i64
}

/// The place of `value` (taken modulo `size`) in the permutation of `0..size` that `seed` names.
///
/// Six rounds of: multiply by an odd number, mix and rotate the lower half (the largest power of
/// two that fits), the same for the upper half, then add an offset over the whole range.
pub fn permute(value: i64, size: i64, seed: i64) -> i64 {
    if size < 2 {
        return 0;
    }
    let mut random = Random::new(seed as u64);
    let size = size as u64;
    let mut at = value as u64 % size;
    let bits = size.ilog2();
    let mask = (1u64 << bits) - 1;
    let mix = |x: u64, factor: u64, flip: u64| {
        let x = (x.wrapping_mul(factor) ^ flip) & mask;
        ((x << 1) & mask) | (x >> (bits - 1))
    };
    for _ in 0..6 {
        let factor = (random.bits() & mask) | 1;
        let flip = random.bits() & mask;
        if at <= mask {
            at = mix(at, factor, flip);
        }
        let factor = (random.bits() & mask) | 1;
        let flip = random.bits() & mask;
        let mirrored = size - 1 - at;
        if mirrored <= mask {
            at = size - 1 - mix(mirrored, factor, flip);
        }
        let offset = random.below_or_at(size - 1);
        at = (at + offset) % size;
    }
    at as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permutations_are_permutations() {
        for size in [1i64, 2, 3, 4, 7, 16, 100, 1000] {
            for seed in [0, 1, -5, i64::MAX] {
                let mut seen: Vec<i64> = (0..size).map(|v| permute(v, size, seed)).collect();
                seen.sort_unstable();
                assert_eq!(
                    seen,
                    (0..size).collect::<Vec<_>>(),
                    "size {size} seed {seed}"
                );
            }
        }
    }

    /// Chi-square of the counts against expected shares, for 100,000 draws.
    fn chi_square(draws: &[i64], shares: &[f64]) -> f64 {
        let mut counts = vec![0f64; shares.len()];
        for &draw in draws {
            counts[draw as usize] += 1.0;
        }
        let n = draws.len() as f64;
        counts
            .iter()
            .zip(shares)
            .map(|(c, s)| (c - n * s).powi(2) / (n * s))
            .sum()
    }

    /// 99.99th percentile of chi-square with 9 degrees of freedom.
    const LIMIT_9: f64 = 33.7;

    #[test]
    fn uniform_is_uniform() {
        let mut random = Random::new(1);
        let draws: Vec<i64> = (0..100_000).map(|_| random.uniform(0, 9)).collect();
        assert!(chi_square(&draws, &[0.1; 10]) < LIMIT_9);
        assert_eq!(random.uniform(i64::MIN, i64::MIN), i64::MIN);
    }

    #[test]
    fn zipfian_weights_fall_by_the_power_law() {
        let mut random = Random::new(2);
        let s = 1.5;
        let draws: Vec<i64> = (0..100_000).map(|_| random.zipfian(1, 10, s) - 1).collect();
        let weights: Vec<f64> = (1..=10).map(|k| f64::from(k).powf(-s)).collect();
        let sum: f64 = weights.iter().sum();
        let shares: Vec<f64> = weights.iter().map(|w| w / sum).collect();
        assert!(chi_square(&draws, &shares) < LIMIT_9);
    }

    /// The manual's formula: f(x) = e^(-p (x-min)/(max-min+1)) / (1 - e^-p), and the share of value i
    /// is f(i) - f(i+1).
    #[test]
    fn exponential_shares_follow_the_manual() {
        let mut random = Random::new(3);
        let p = 2.5f64;
        let draws: Vec<i64> = (0..100_000).map(|_| random.exponential(0, 9, p)).collect();
        let f = |x: f64| (-p * x / 10.0).exp() / (1.0 - (-p).exp());
        let shares: Vec<f64> = (0..10)
            .map(|i| f(f64::from(i)) - f(f64::from(i) + 1.0))
            .collect();
        assert!(chi_square(&draws, &shares) < LIMIT_9);
    }

    /// The manual's promise: about 67 % of values in the middle 1.0/parameter, 95 % in the middle
    /// 2.0/parameter.
    #[test]
    fn gaussian_middle_holds_the_promised_share() {
        let mut random = Random::new(4);
        let p = 4.0;
        let n = 100_000;
        let draws: Vec<i64> = (0..n).map(|_| random.gaussian(0, 999_999, p)).collect();
        let middle = |width: f64| {
            let half = (1e6 * width / 2.0) as i64;
            let inside = draws
                .iter()
                .filter(|d| (**d - 500_000).abs() <= half)
                .count();
            inside as f64 / f64::from(n)
        };
        assert!(
            (middle(1.0 / p) - 0.683).abs() < 0.01,
            "{}",
            middle(1.0 / p)
        );
        assert!((middle(2.0 / p) - 0.954).abs() < 0.01);
        assert!(draws.iter().all(|d| (0..1_000_000).contains(d)));
    }

    #[test]
    fn gaps_have_the_mean_asked_for() {
        let mut random = Random::new(5);
        let sum: i64 = (0..100_000).map(|_| random.poisson_gap(250.0)).sum();
        assert!((sum as f64 / 1e5 - 250.0).abs() < 4.0);
    }
}

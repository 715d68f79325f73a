//! Which rank a row has: permutations that need no memory.

/// Positions after which the pattern of rows that keep their place begins anew.
const PATTERN: u64 = 1000;
const ROUNDS: usize = 4;

/// A number drawn by another: SplitMix64's finaliser.
pub fn hash(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The same as a share, 0 to 1 without 1.
pub fn share(z: u64) -> f64 {
    (hash(z) >> 11) as f64 / (1u64 << 53) as f64
}

/// `units` times `part` by `whole`, rounded down.
pub fn scaled(units: i128, part: u64, whole: u64) -> i128 {
    let (part, whole) = (i128::from(part), i128::from(whole));
    units / whole * part + units % whole * part / whole
}

/// A permutation of 0..n: a Feistel network over the next power of four, walked until it falls within.
#[derive(Debug, Clone)]
pub struct Permutation {
    n: u64,
    half: u32,
    keys: [u64; ROUNDS],
}

impl Permutation {
    /// One of n numbers, by a seed.
    pub fn new(n: u64, seed: u64) -> Self {
        let bits = 64 - n.saturating_sub(1).leading_zeros();
        let mut keys = [0; ROUNDS];
        for (at, key) in keys.iter_mut().enumerate() {
            *key = hash(seed ^ hash(at as u64 + 1));
        }
        Self {
            n,
            half: bits.div_ceil(2).max(1),
            keys,
        }
    }

    /// Where a number goes.
    pub fn at(&self, i: u64) -> u64 {
        if self.n < 2 {
            return i;
        }
        let mask = (1u64 << self.half) - 1;
        let mut x = i;
        loop {
            let (mut left, mut right) = (x >> self.half, x & mask);
            for key in self.keys {
                (left, right) = (right, left ^ (hash(right ^ key) & mask));
            }
            x = (left << self.half) | right;
            if x < self.n {
                return x;
            }
        }
    }
}

/// The order of a column: a share of the rows is where its value's rank puts it, the others are anywhere.
#[derive(Debug, Clone)]
pub struct Order {
    n: u64,
    /// Positions of the pattern whose rows are shuffled, and how many there are before each position.
    shuffled: Vec<u64>,
    before: Vec<u64>,
    permutation: Permutation,
    reversed: bool,
}

impl Order {
    /// The order of n rows, of which the share `kept` lies in order of the ranks; in reverse if it is negative.
    pub fn new(n: u64, kept: f64, seed: u64) -> Self {
        let moved = ((1.0 - kept.abs().min(1.0)) * PATTERN as f64).round() as u64;
        let scatter = Permutation::new(PATTERN, hash(seed));
        let (mut shuffled, mut before) = (Vec::new(), vec![0]);
        for position in 0..PATTERN {
            if scatter.at(position) < moved {
                shuffled.push(position);
            }
            before.push(shuffled.len() as u64);
        }
        let all = n / PATTERN * moved + before[(n % PATTERN) as usize];
        Self {
            n,
            shuffled,
            before,
            permutation: Permutation::new(all, seed),
            reversed: kept < 0.0,
        }
    }

    /// The rank of a row.
    pub fn rank(&self, row: u64) -> u64 {
        let (whole, rest) = (row / PATTERN, (row % PATTERN) as usize);
        let moved = self.shuffled.len() as u64;
        let rank = if self.before[rest + 1] == self.before[rest] {
            row
        } else {
            let to = self.permutation.at(whole * moved + self.before[rest]);
            to / moved * PATTERN + self.shuffled[(to % moved) as usize]
        };
        match self.reversed {
            true => self.n - 1 - rank,
            false => rank,
        }
    }
}

/// The share of rows to keep in order for a correlation as ANALYZE counts it; of the values, so many have such a
/// share of the rows each. ANALYZE takes rows of the same value as being in order, so that even shuffled ones
/// seem to lie in order.
pub fn kept(correlation: f64, values: impl Iterator<Item = (f64, f64)>) -> f64 {
    let (mut squares, mut cubes) = (0.0, 0.0);
    for (share, values) in values {
        squares += values * share * share;
        cubes += values * share * share * share;
    }
    let kept = if correlation >= squares {
        (correlation - squares) / (1.0 - squares).max(1e-9)
    } else {
        (correlation - squares) / (1.0 + squares - 2.0 * cubes).max(1e-9)
    };
    kept.clamp(-1.0, 1.0)
}

/// A hash of texts.
pub fn of_texts(texts: impl Iterator<Item = String>) -> u64 {
    texts.fold(0, |sum, text| {
        text.bytes()
            .fold(hash(sum), |sum, byte| hash(sum ^ u64::from(byte)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permutations_reach_all() {
        for n in [1, 2, 3, 7, 64, 65, 1000, 5000] {
            let permutation = Permutation::new(n, 7);
            let mut seen: Vec<u64> = (0..n).map(|i| permutation.at(i)).collect();
            seen.sort_unstable();
            assert_eq!(seen, (0..n).collect::<Vec<_>>());
        }
    }

    #[test]
    fn an_order_has_the_correlation_that_it_is_for() {
        for n in [100u64, 1000, 12_345] {
            for kept in [0.0, 0.3, 0.9, 1.0, -0.5, -1.0] {
                let order = Order::new(n, kept, 3);
                let ranks: Vec<u64> = (0..n).map(|row| order.rank(row)).collect();
                let mut seen = ranks.clone();
                seen.sort_unstable();
                assert_eq!(seen, (0..n).collect::<Vec<_>>());
                let mean = (n - 1) as f64 / 2.0;
                let (mut both, mut one) = (0.0, 0.0);
                for (row, rank) in ranks.iter().enumerate() {
                    both += (row as f64 - mean) * (*rank as f64 - mean);
                    one += (row as f64 - mean).powi(2);
                }
                let chance = 3.5 / (n as f64).sqrt();
                assert!(
                    (both / one - kept).abs() < chance,
                    "{n} {kept}: {}",
                    both / one
                );
            }
        }
    }
}

//! Order statistics of pairwise sums and differences without forming the pairs.
//!
//! The Hodges–Lehmann estimate and the intervals that invert the rank tests are
//! order statistics of the n(n+1)/2 Walsh averages, or of the n·m differences of
//! two samples. A long run has thousands of slices, so the pairs are counted,
//! never stored: the k-th value is found by bisection over the floating-point
//! numbers themselves, at most 64 counts of O(n) each, and is exact.

/// A number whose unsigned order is the order of the finite floats.
fn key(x: f64) -> u64 {
    let bits = x.to_bits();
    if bits >> 63 == 1 {
        !bits
    } else {
        bits | 1 << 63
    }
}

fn unkey(key: u64) -> f64 {
    if key >> 63 == 1 {
        f64::from_bits(key & !(1 << 63))
    } else {
        f64::from_bits(!key)
    }
}

/// The smallest number in `low..=high` for which `count` reaches `rank`.
pub fn smallest(low: f64, high: f64, rank: u64, count: impl Fn(f64) -> u64) -> f64 {
    let (mut low, mut high) = (key(low), key(high));
    while low < high {
        let middle = low + (high - low) / 2;
        if count(unkey(middle)) >= rank {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    unkey(low) + 0.0 // turns -0.0 into 0.0
}

/// The averages (x_i + x_j) / 2, i ≤ j, of a sample that is sorted and finite.
#[derive(Debug, Clone, Copy)]
pub struct Walsh<'a>(pub &'a [f64]);

impl Walsh<'_> {
    /// How many averages there are.
    pub fn number(self) -> u64 {
        let n = self.0.len() as u64;
        n * (n + 1) / 2
    }

    /// How many pairs have a sum for which `low_enough` holds; it must hold for
    /// every smaller sum too.
    fn count(self, low_enough: impl Fn(f64) -> bool) -> u64 {
        let x = self.0;
        let mut end = x.len();
        let mut count = 0;
        for i in 0..x.len() {
            while end > i && !low_enough(x[i] + x[end - 1]) {
                end -= 1;
            }
            if end <= i {
                break;
            }
            count += (end - i) as u64;
        }
        count
    }

    /// The average of the given rank, from 1. The sample must not be empty.
    pub fn nth(self, rank: u64) -> f64 {
        let x = self.0;
        let (first, last) = (x[0], x[x.len() - 1]);
        smallest(first + first, last + last, rank, |s| {
            self.count(|sum| sum <= s)
        }) / 2.0
    }

    /// The median average: the Hodges–Lehmann pseudo-median.
    pub fn median(self) -> f64 {
        let len = self.number();
        let upper = self.nth(len / 2 + 1);
        if len % 2 == 1 {
            upper
        } else {
            middle(self.nth(len / 2), upper)
        }
    }

    /// How many averages are below and how many above a value.
    pub fn around(self, value: f64) -> (u64, u64) {
        let twice = value + value;
        let below = self.count(|sum| sum < twice);
        let above = self.number() - self.count(|sum| sum <= twice);
        (below, above)
    }
}

/// The differences b_j − a_i of two samples that are sorted and finite.
#[derive(Debug, Clone, Copy)]
pub struct Differences<'a> {
    pub a: &'a [f64],
    pub b: &'a [f64],
}

impl Differences<'_> {
    pub fn number(self) -> u64 {
        self.a.len() as u64 * self.b.len() as u64
    }

    fn count(self, low_enough: impl Fn(f64) -> bool) -> u64 {
        let mut end = 0;
        let mut count = 0;
        for &a in self.a {
            while end < self.b.len() && low_enough(self.b[end] - a) {
                end += 1;
            }
            count += end as u64;
        }
        count
    }

    /// The difference of the given rank, from 1. Neither sample may be empty.
    pub fn nth(self, rank: u64) -> f64 {
        let low = self.b[0] - self.a[self.a.len() - 1];
        let high = self.b[self.b.len() - 1] - self.a[0];
        smallest(low, high, rank, |d| self.count(|x| x <= d))
    }

    pub fn median(self) -> f64 {
        let len = self.number();
        let upper = self.nth(len / 2 + 1);
        if len % 2 == 1 {
            upper
        } else {
            middle(self.nth(len / 2), upper)
        }
    }

    pub fn around(self, value: f64) -> (u64, u64) {
        let below = self.count(|d| d < value);
        (below, self.number() - self.count(|d| d <= value))
    }
}

/// Halfway, exactly that value where both are the same.
fn middle(a: f64, b: f64) -> f64 {
    a + (b - a) / 2.0
}

/// The values sorted, without those that are not finite, and whether any was not.
pub fn sorted_finite(values: &[f64]) -> (Vec<f64>, bool) {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let dropped = sorted.len() < values.len();
    (sorted, dropped)
}

/// The median of a sorted sample; `None` where it is empty.
pub fn median_of_sorted(x: &[f64]) -> Option<f64> {
    let n = x.len();
    match (n, n % 2) {
        (0, _) => None,
        (_, 1) => Some(x[n / 2]),
        _ => Some(middle(x[n / 2 - 1], x[n / 2])),
    }
}

/// The quantile of a sorted sample, between neighbours by straight line.
pub fn quantile_of_sorted(x: &[f64], q: f64) -> Option<f64> {
    let last = x.len().checked_sub(1)?;
    let at = q.clamp(0.0, 1.0) * last as f64;
    let (below, above) = (x[at.floor() as usize], x[at.ceil() as usize]);
    Some(below + (above - below) * at.fract())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn some_values(most: usize) -> impl Strategy<Value = Vec<f64>> {
        // a coarse grid, so that ties and zeros are frequent
        proptest::collection::vec((-40i32..40).prop_map(|v| f64::from(v) / 4.0), 1..most)
    }

    proptest! {
        #[test]
        fn walsh_averages_agree_with_forming_them(values in some_values(25)) {
            let (x, _) = sorted_finite(&values);
            let mut all: Vec<f64> = (0..x.len())
                .flat_map(|i| (i..x.len()).map(move |j| (i, j)))
                .map(|(i, j)| (x[i] + x[j]) / 2.0)
                .collect();
            all.sort_by(f64::total_cmp);
            let walsh = Walsh(&x);
            prop_assert_eq!(walsh.number() as usize, all.len());
            for (at, value) in all.iter().enumerate() {
                prop_assert_eq!(walsh.nth(at as u64 + 1), *value);
            }
            prop_assert_eq!(Some(walsh.median()), median_of_sorted(&all));
            let below = all.iter().filter(|w| **w < 0.0).count() as u64;
            let above = all.iter().filter(|w| **w > 0.0).count() as u64;
            prop_assert_eq!(walsh.around(0.0), (below, above));
        }

        #[test]
        fn differences_agree_with_forming_them(a in some_values(15), b in some_values(15)) {
            let ((a, _), (b, _)) = (sorted_finite(&a), sorted_finite(&b));
            let mut all: Vec<f64> =
                a.iter().flat_map(|a| b.iter().map(move |b| b - a)).collect();
            all.sort_by(f64::total_cmp);
            let differences = Differences { a: &a, b: &b };
            for (at, value) in all.iter().enumerate() {
                prop_assert_eq!(differences.nth(at as u64 + 1), *value);
            }
            prop_assert_eq!(Some(differences.median()), median_of_sorted(&all));
            let below = all.iter().filter(|d| **d < 0.0).count() as u64;
            let above = all.iter().filter(|d| **d > 0.0).count() as u64;
            prop_assert_eq!(differences.around(0.0), (below, above));
        }
    }

    #[test]
    fn quantiles_run_between_neighbours() {
        assert_eq!(quantile_of_sorted(&[1.0, 2.0, 4.0], 0.75), Some(3.0));
        assert_eq!(quantile_of_sorted(&[], 0.5), None);
    }
}

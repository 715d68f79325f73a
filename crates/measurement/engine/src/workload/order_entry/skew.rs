//! Skewed keys and last names, by the TPC-C specification's clauses 2.1.6 and 4.3.2.3.

use pgassay_load::script::Random;

/// The constant of last names while tables are filled. The one of the running load, 208, stands in
/// workloads/order-entry.sql; clause 2.1.6.1 has the two 65 to 119 apart, and neither 96 nor 112.
pub const FILLING: i64 = 123;

/// The syllables of last names, by digit.
pub const SYLLABLES: [&str; 10] = [
    "BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING",
];

/// A number of `low..=high`, some far more often than others: those with many bits in common with
/// what is drawn from `0..=spread`. `constant` says which those are.
pub fn skewed(random: &mut Random, spread: i64, low: i64, high: i64, constant: i64) -> i64 {
    let bits = random.uniform(0, spread) | random.uniform(low, high);
    (bits + constant) % (high - low + 1) + low
}

/// The last name of that number, 0 to 999: a syllable for each of its three digits.
pub fn last_name(number: usize) -> [&'static str; 3] {
    [number / 100, number / 10, number].map(|digit| SYLLABLES[digit % 10])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_a_syllable_for_each_digit() {
        // The specification's own example, and both ends.
        assert_eq!(last_name(371).concat(), "PRICALLYOUGHT");
        assert_eq!(last_name(0).concat(), "BARBARBAR");
        assert_eq!(last_name(999).concat(), "EINGEINGEING");
        let mut all: Vec<String> = (0..1000).map(|n| last_name(n).concat()).collect();
        assert_eq!(all.iter().map(String::len).max(), Some(15));
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 1000);
    }

    #[test]
    fn keys_keep_their_bounds_and_are_skewed() {
        let mut random = Random::new(7);
        let mut counts = vec![0_u32; 3000];
        for _ in 0..300_000 {
            let id = skewed(&mut random, 1023, 1, 3000, 259);
            counts[(id - 1) as usize] += 1;
        }
        counts.sort_unstable_by(|a, b| b.cmp(a));
        // By the exact distribution, all pairs counted, a tenth of the keys gets 0.613 of the draws.
        let first: u32 = counts[..300].iter().sum();
        let share = f64::from(first) / 300_000.0;
        assert!((0.60..0.63).contains(&share), "{share}");
        assert!((0..1000).all(|_| {
            let n = skewed(&mut random, 255, 0, 999, FILLING);
            (0..1000).contains(&n)
        }));
        // A constant only moves the same numbers.
        let draws = |constant| skewed(&mut Random::new(3), 255, 0, 999, constant);
        assert_eq!((draws(0) + 208) % 1000, draws(208));
    }

    #[test]
    fn the_two_constants_of_last_names_are_as_far_apart_as_they_must_be() {
        let scripts = include_str!("../../../workloads/order-entry.sql");
        let drawn = r"\set name ((random(0, 255) | random(0, 999)) + 208) % 1000";
        assert_eq!(scripts.matches(drawn).count(), 2);
        let apart = (208 - FILLING).abs();
        assert!((65..=119).contains(&apart) && apart != 96 && apart != 112);
    }
}

//! Counted instructions of two servers, concluded: for machines too noisy for time.
//!
//! The same transactions, drawn from the same seed, run in one session of each server; what is
//! counted is the session's process. Of two lengths the difference is taken, so that connecting and
//! the first use of everything drop out. What is left varies by parts in ten thousand, from timers
//! and hash tables, which the repetition of A shows beside each pair.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::stats::Verdict;

/// Name and version of the serialized form.
pub const SCHEMA: &str = "pgassay/counts/1";

/// A comparison by counted instructions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Counts {
    /// [`SCHEMA`].
    pub schema: String,
    /// The targets, as named.
    pub targets: (String, String),
    /// The servers' versions.
    pub versions: (String, String),
    /// The processors that they were emulated on; none where they ran on this machine's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<(String, String)>,
    /// The workload.
    pub workload: String,
    /// How it was counted.
    pub method: String,
    /// The seed of the first round.
    pub seed: u64,
    /// The conclusion.
    pub counted: Counted,
    /// Functions that differ most, per transaction.
    pub functions: Vec<FunctionCount>,
    /// The counts themselves.
    pub rounds: Vec<Round>,
}

/// What a function itself executes per transaction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FunctionCount {
    /// Its name.
    pub name: String,
    /// In A.
    pub a: f64,
    /// In B.
    pub b: f64,
}

/// The functions that differ most, at most `shown`, by the size of the difference; those that differ by less
/// than one instruction are left out.
pub fn differing(
    a: &BTreeMap<String, f64>,
    b: &BTreeMap<String, f64>,
    shown: usize,
) -> Vec<FunctionCount> {
    let of = |side: &BTreeMap<String, f64>, name: &str| side.get(name).copied().unwrap_or(0.0);
    let mut names: Vec<&String> = a.keys().chain(b.keys()).collect();
    names.sort();
    names.dedup();
    let mut all: Vec<FunctionCount> = names
        .into_iter()
        .map(|name| FunctionCount {
            name: name.clone(),
            a: of(a, name),
            b: of(b, name),
        })
        .filter(|f| (f.a - f.b).abs() >= 1.0)
        .collect();
    all.sort_by(|x, y| (y.a - y.b).abs().total_cmp(&(x.a - x.b).abs()));
    all.truncate(shown);
    all
}

/// What one session of one server executed between a shorter and a longer run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Count {
    /// Transactions that the counts are of: the longer run's less the shorter's.
    pub transactions: u64,
    /// Instructions in user mode.
    pub instructions: u64,
    /// Instructions with a bus lock, where the tool tells them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locked: Option<u64>,
    /// Exclusive or reserving loads, the first halves of atomic operations, where the tool tells them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclusive: Option<u64>,
    /// Atomic operations that are one instruction, such as those of LSE, where the tool tells them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub single: Option<u64>,
}

impl Count {
    /// Instructions of one transaction.
    pub fn per_transaction(&self) -> f64 {
        self.instructions as f64 / self.transactions.max(1) as f64
    }

    /// What was counted of one kind, for one transaction.
    fn of_one(&self, counted: Option<u64>) -> Option<f64> {
        Some(counted? as f64 / self.transactions.max(1) as f64)
    }
}

/// One round: both servers with one seed, A twice.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Round {
    /// The seed.
    pub seed: u64,
    /// A.
    pub a: Count,
    /// B.
    pub b: Count,
    /// A once more: what counting itself varies by.
    pub a_again: Count,
}

/// A share with the range that the rounds gave.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Share {
    /// The median of the rounds, as B's excess over A: 0.01 is one per cent more.
    pub estimate: f64,
    /// The lowest round, less the noise.
    pub low: f64,
    /// The highest round, and the noise.
    pub high: f64,
}

/// What the counts come to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Counted {
    /// Instructions per transaction of A and B, medians.
    pub instructions: (f64, f64),
    /// Locked instructions per transaction, where the tool tells them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locked: Option<(f64, f64)>,
    /// Exclusive or reserving loads per transaction, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclusive: Option<(f64, f64)>,
    /// Atomics of one instruction per transaction, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub single: Option<(f64, f64)>,
    /// B's instructions against A's.
    pub difference: Share,
    /// The most that A differed from itself, as a share.
    pub noise: f64,
    /// The difference that matters.
    pub delta: f64,
    /// `faster` stands for fewer instructions, `slower` for more.
    pub verdict: Verdict,
    /// What can't be concluded from counts, and what is odd.
    pub warnings: Vec<String>,
}

/// More than this between two counts of one server means that something else than the code varies.
const QUIET: f64 = 0.001;

/// Concludes; `None` where there is no round.
pub fn conclude(rounds: &[Round], delta: f64) -> Option<Counted> {
    let column = |pick: &dyn Fn(&Round) -> f64| rounds.iter().map(pick).collect::<Vec<_>>();
    let a = median(column(&|round| round.a.per_transaction()))?;
    let b = median(column(&|round| round.b.per_transaction()))?;
    let shares = column(&|round| round.b.per_transaction() / round.a.per_transaction() - 1.0);
    let noise =
        column(&|round| (round.a_again.per_transaction() / round.a.per_transaction() - 1.0).abs())
            .into_iter()
            .fold(0.0, f64::max);
    let lowest = shares.iter().copied().fold(f64::INFINITY, f64::min);
    let highest = shares.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let difference = Share {
        estimate: median(shares)?,
        low: lowest - noise,
        high: highest + noise,
    };
    let both = |of: fn(&Count) -> Option<u64>| -> Option<(f64, f64)> {
        let each = rounds.iter().map(|round| {
            let [a, b] = [&round.a, &round.b].map(|count| count.of_one(of(count)));
            Some((a?, b?))
        });
        let (a, b) = each.collect::<Option<Vec<_>>>()?.into_iter().unzip();
        Some((median(a)?, median(b)?))
    };
    let locked = both(|count| count.locked);
    let exclusive = both(|count| count.exclusive);
    let single = both(|count| count.single);
    let mut warnings = vec![
        "counts do not show cache misses, branch misses, waiting for locks, or the kernel's part"
            .to_owned(),
    ];
    if noise > QUIET {
        warnings.push(format!(
            "A differs from itself by {:.2} %: this workload does not do the same work each time",
            noise * 100.0
        ));
    }
    if rounds.len() < 3 {
        warnings.push("fewer than 3 rounds: their range says little".to_owned());
    }
    let verdict = if difference.low > delta {
        Verdict::Slower
    } else if difference.high < -delta {
        Verdict::Faster
    } else if difference.low >= -delta && difference.high <= delta {
        Verdict::Equivalent
    } else {
        Verdict::Inconclusive
    };
    Some(Counted {
        instructions: (a, b),
        locked,
        exclusive,
        single,
        difference,
        noise,
        delta,
        verdict,
        warnings,
    })
}

/// The median; none of no values.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        n if n % 2 == 1 => values.get(middle).copied(),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(instructions: u64) -> Count {
        Count {
            transactions: 1000,
            instructions,
            locked: Some(instructions / 1000),
            exclusive: None,
            single: Some(7),
        }
    }

    fn rounds(b_over_a: f64, jitter: u64) -> Vec<Round> {
        (0..5)
            .map(|n| {
                let a = 43_000_000 + n * 10_000;
                Round {
                    seed: n,
                    a: count(a),
                    b: count((a as f64 * b_over_a) as u64 + n % 2 * jitter),
                    a_again: count(a + (n + 1) % 2 * jitter),
                }
            })
            .collect()
    }

    #[test]
    fn a_change_beyond_delta_is_told_and_none_is_not() {
        let verdict = |ratio, delta| conclude(&rounds(ratio, 2000), delta).unwrap().verdict;
        assert_eq!(verdict(1.01, 0.005), Verdict::Slower);
        assert_eq!(verdict(0.99, 0.005), Verdict::Faster);
        assert_eq!(verdict(1.0, 0.001), Verdict::Equivalent);
        assert_eq!(verdict(1.01, 0.05), Verdict::Equivalent);
        // Right at the border nothing is decided.
        assert_eq!(verdict(1.01, 0.01), Verdict::Inconclusive);
    }

    #[test]
    fn the_noise_is_a_against_itself_and_widens_the_range() {
        let quiet = conclude(&rounds(1.01, 0), 0.005).unwrap();
        let noisy = conclude(&rounds(1.01, 100_000), 0.005).unwrap();
        assert!(quiet.noise == 0.0 && quiet.warnings.len() == 1);
        assert!(noisy.noise > 0.002 && noisy.warnings.len() == 2);
        assert!(noisy.difference.low < quiet.difference.low);
        assert!((quiet.locked.unwrap().0 - 43.02).abs() < 0.01);
        assert_eq!(
            (quiet.single, quiet.exclusive),
            (Some((0.007, 0.007)), None)
        );
        assert!(conclude(&[], 0.01).is_none());
    }
}

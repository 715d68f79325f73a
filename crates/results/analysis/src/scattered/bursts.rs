//! A device whose speed changes in steps while the table is read.
//!
//! Ways of reading differ in their rate, so each execution's is held against the
//! median of its own way; what then changes is the device.

use std::collections::BTreeMap;

use pgassay_model::scattered::ScatteredPlan;
use pgassay_model::storage::Storage;
use pgassay_model::trial::Trial;
use pgassay_model::warning::Warning;

use crate::pgio;
use crate::storage::figures;

/// A rate by itself says nothing to the search for steps; this is what the median stands for.
const LEVEL: f64 = 100e6;

/// The rate at which the device read for a cold execution, in bytes a second, where both
/// can be seen and it read anything.
pub fn rate(trial: &Trial, storage: Option<&Storage>, block_size: u64) -> Option<f64> {
    let raw = trial.execution().filter(|raw| raw.cold)?;
    let seconds = raw.explained()?.execution_ms / 1e3;
    let figures = figures(&trial.samples, storage, block_size);
    let bytes = figures.device.seen()?.bytes as f64;
    (bytes > 0.0 && seconds > 0.0).then(|| bytes / seconds)
}

/// Whether the newest of the rates, each with its variant, have been at one level for
/// long enough.
pub fn is_stable(rates: &[(u32, f64)]) -> bool {
    pgio::is_stable(&relative(rates))
}

/// What changed, for the run as a whole.
pub fn warnings<'a>(
    plan: &ScatteredPlan,
    trials: impl IntoIterator<Item = &'a Trial>,
    storage: Option<&Storage>,
) -> Vec<Warning> {
    let rates: Vec<(u32, f64)> = trials
        .into_iter()
        .filter_map(|t| Some((t.slice.point, rate(t, storage, plan.block_size_bytes)?)))
        .collect();
    let steps = pgio::steps(&relative(&rates));
    steps
        .iter()
        .map(|step| {
            Warning::new(
                "device-stepped",
                format!(
                    "The device's rate changed at the {}th cold execution to {:.0} % of what it was before, \
                     as that of a volume with burst credits does: times before and after are not alike. \
                     Counts are.",
                    step.trial + 1,
                    100.0 * step.after / step.before
                ),
            )
            .with_remedy("measure with --until-stable")
        })
        .collect()
}

fn relative(rates: &[(u32, f64)]) -> Vec<f64> {
    let mut of_variant: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for (variant, rate) in rates {
        of_variant.entry(*variant).or_default().push(*rate);
    }
    let middle: BTreeMap<u32, f64> = of_variant
        .into_iter()
        .map(|(variant, mut rates)| {
            rates.sort_by(f64::total_cmp);
            (variant, rates[rates.len() / 2])
        })
        .collect();
    rates
        .iter()
        .map(|(variant, rate)| LEVEL * rate / middle[variant])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three ways of reading, of very different rates, in turn; the device is throttled to a
    /// fifth after `fast` of them.
    fn made(fast: usize, all: usize) -> Vec<(u32, f64)> {
        (0..all)
            .map(|i| {
                let variant = (i % 3) as u32;
                let own = [400e6, 90e6, 30e6][i % 3];
                let jitter = 1.0 + 0.02 * ((i * 7919) % 11) as f64 / 11.0;
                let share = if i < fast { 1.0 } else { 0.2 };
                (variant, own * jitter * share)
            })
            .collect()
    }

    #[test]
    fn ways_of_reading_are_no_steps_and_a_throttled_device_is_one() {
        let steady = made(36, 36);
        assert!(pgio::steps(&relative(&steady)).is_empty());
        assert!(is_stable(&steady));
        let stepped = made(18, 36);
        let steps = pgio::steps(&relative(&stepped));
        assert_eq!(steps.len(), 1, "{steps:?}");
        assert_eq!(steps[0].trial, 18);
        let share = steps[0].after / steps[0].before;
        assert!((share - 0.2).abs() < 0.02, "{share}");
        assert!(is_stable(&stepped));
        // Five slow ones are a change, and not yet a level.
        assert!(!is_stable(&made(18, 23)));
        assert!(!is_stable(&[]));
    }
}

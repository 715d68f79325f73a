//! Hosts whose throughput is far from that of their kind under the same work.

use std::collections::BTreeMap;

use super::document::OddMeasured;
use super::host::Measured;
use super::member::Member;
use crate::hosts::APART;

/// Fewer hosts have no median from which one is far.
const FEWEST: usize = 7;
/// From this modified z-score on a value is an outlier (Iglewicz and Hoaglin, How to Detect and
/// Handle Outliers, 1993).
const FAR: f64 = 3.5;
/// What makes the median of absolute deviations that of a normal distribution's standard deviation.
const OF_NORMAL: f64 = 0.6745;

/// Hosts whose score is far, and whose whole interval lies beyond what two runs of one server may
/// differ by.
pub(super) fn odd(of: &[&Member]) -> Vec<OddMeasured> {
    let mut by_work: BTreeMap<(&str, &str), Vec<(&str, &Measured)>> = BTreeMap::new();
    for member in of {
        if let Some(measured) = &member.host.measured
            && measured.rate.estimate > 0.0
            && measured.rate.estimate.is_finite()
        {
            let work = (measured.work.as_str(), measured.unit.as_str());
            let of_work = by_work.entry(work).or_default();
            of_work.push((&member.host.name, measured));
        }
    }
    let mut odd = Vec::new();
    for ((work, unit), of_work) in by_work {
        if of_work.len() < FEWEST {
            continue;
        }
        let logs = of_work.iter().map(|(_, m)| m.rate.estimate.ln());
        let middle = median(logs.clone().collect());
        let spread = median(logs.map(|log| (log - middle).abs()).collect());
        let apart = APART.ln_1p();
        for (host, measured) in &of_work {
            let far = measured.rate.estimate.ln() - middle;
            // Where more than half are equal every other is infinitely far: `apart` decides then.
            let score = OF_NORMAL * far / spread.max(f64::EPSILON);
            let end = match far > 0.0 {
                true => measured.rate.low.ln() - middle,
                false => middle - measured.rate.high.ln(),
            };
            if score.abs() > FAR && end > apart {
                odd.push(OddMeasured {
                    host: (*host).to_owned(),
                    run: measured.run.clone(),
                    work: work.to_owned(),
                    rate: measured.rate.clone(),
                    unit: unit.to_owned(),
                    median: middle.exp(),
                    of: of_work.len() as u32,
                    score,
                });
            }
        }
    }
    odd
}

/// The median; 0 of nothing.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        n if n % 2 == 1 => values[n / 2],
        n => values[n / 2 - 1].midpoint(values[n / 2]),
    }
}

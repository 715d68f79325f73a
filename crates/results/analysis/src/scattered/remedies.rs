//! Which of the ways that were tried make a query, or scattered reads, cost fewer bytes.

use pgassay_model::scattered::ScatteredPlan;
use serde::{Deserialize, Serialize};

use super::VariantAnalysis;
use crate::stats::Estimate;

/// A way that was tried against the one as it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Remedy {
    /// The way: the id of a variant.
    pub id: String,
    /// The same in words.
    pub title: String,
    /// The way that it is held against.
    pub against: String,
    /// Bytes read from the device for an execution, divided by those of the other way; the interval
    /// is that of both intervals' ends.
    pub bytes: Ratio,
    /// The same of the time of an execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Ratio>,
    /// Whether it reads less.
    pub outcome: Outcome,
}

/// One figure divided by another.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ratio {
    /// The ratio.
    pub estimate: f64,
    /// At least.
    pub low: f64,
    /// At most.
    pub high: f64,
}

/// What became of a remedy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It reads less, by the whole interval and by 2 % or more.
    Helped,
    /// It reads more, likewise.
    Worse,
    /// Neither was shown.
    NoDifferenceShown,
}

impl Outcome {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Helped => "reads less",
            Self::Worse => "reads more",
            Self::NoDifferenceShown => "no difference shown",
        }
    }
}

/// The smallest difference of bytes that is called one.
const MATTERS: f64 = 0.02;

/// Every way that was tried of what is somebody's own, against the way as it is.
pub fn remedies(plan: &ScatteredPlan, ways: &[VariantAnalysis]) -> Vec<Remedy> {
    let Some(own) = plan.own.as_ref().filter(|own| own.evicted) else {
        return Vec::new();
    };
    let base = |way: &VariantAnalysis| match (&own.query, way.id.rsplit_once("-ra")) {
        (Some(_), _) => ways.first(),
        // Blocks in another pattern are other blocks.
        (None, Some((base, _))) => ways.iter().find(|other| other.id == base),
        (None, None) => None,
    };
    let each = ways.iter().filter_map(|way| {
        let against = base(way).filter(|base| base.id != way.id)?;
        let bytes = ratio(way.read_bytes.as_ref()?, against.read_bytes.as_ref()?)?;
        let of_time = |way: &VariantAnalysis| way.cold.as_ref().map(|c| c.execution_ms.clone());
        Some(Remedy {
            id: way.id.clone(),
            title: way.title.clone(),
            against: against.title.clone(),
            bytes,
            time: of_time(way)
                .zip(of_time(against))
                .and_then(|(a, b)| ratio(&a, &b)),
            outcome: match bytes {
                b if b.high < 1.0 && b.estimate <= 1.0 - MATTERS => Outcome::Helped,
                b if b.low > 1.0 && b.estimate >= 1.0 + MATTERS => Outcome::Worse,
                _ => Outcome::NoDifferenceShown,
            },
        })
    });
    each.collect()
}

fn ratio(above: &Estimate, below: &Estimate) -> Option<Ratio> {
    let ends = below.low > 0.0 && above.low.is_finite() && above.high.is_finite();
    ends.then(|| Ratio {
        estimate: above.estimate / below.estimate,
        low: above.low / below.high,
        high: above.high / below.low,
    })
}

/// What helped, in a sentence.
pub fn sentence(remedies: &[Remedy]) -> Option<String> {
    if remedies.is_empty() {
        return None;
    }
    let helped = remedies.iter().filter(|r| r.outcome == Outcome::Helped);
    let best = helped.min_by(|a, b| a.bytes.estimate.total_cmp(&b.bytes.estimate));
    Some(match best {
        Some(best) => format!(
            "Of the {} ways tried, \"{}\" reads least: {:.2} times the bytes of \"{}\" ({:.2} to {:.2}).",
            remedies.len(),
            best.title,
            best.bytes.estimate,
            best.against,
            best.bytes.low,
            best.bytes.high
        ),
        None => format!(
            "None of the {} ways tried was shown to read less.",
            remedies.len()
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(value: f64, half: f64) -> Estimate {
        Estimate {
            estimate: value,
            low: value - half,
            high: value + half,
            level: 0.95,
            n: 6,
            warnings: Vec::new(),
        }
    }

    #[test]
    fn an_interval_that_leaves_both_open_shows_nothing() {
        let base = estimate(100.0, 1.0);
        let by = |way: &Estimate| ratio(way, &base).unwrap();
        let sharp = by(&estimate(50.0, 1.0));
        assert!(sharp.high < 1.0 && (sharp.estimate - 0.5).abs() < 1e-9);
        let vague = by(&estimate(90.0, 20.0));
        assert!(vague.low < 1.0 && vague.high > 1.0);
        assert!(ratio(&base, &estimate(0.0, 0.0)).is_none());
    }

    #[test]
    fn what_helped_is_told_and_that_nothing_did() {
        let remedy = |outcome, estimate| Remedy {
            id: "x".into(),
            title: "prefetch 64".into(),
            against: "as it is".into(),
            bytes: Ratio {
                estimate,
                low: estimate,
                high: estimate,
            },
            time: None,
            outcome,
        };
        assert_eq!(sentence(&[]), None);
        let none = sentence(&[remedy(Outcome::NoDifferenceShown, 1.0)]).unwrap();
        assert!(none.starts_with("None of the 1 ways"));
        let told = sentence(&[remedy(Outcome::Worse, 2.0), remedy(Outcome::Helped, 0.5)]).unwrap();
        assert!(
            told.contains("0.50 times the bytes of \"as it is\""),
            "{told}"
        );
    }
}

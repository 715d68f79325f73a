//! A metric as a flag's value.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use pgassay_analysis::metrics::{METRICS, MetricId};

/// The ids of all metrics, each with what it means.
pub fn metric() -> impl TypedValueParser<Value = MetricId> {
    let values = METRICS
        .iter()
        .map(|metric| PossibleValue::new(metric.id).help(metric.explanation));
    PossibleValuesParser::new(values).try_map(|id| MetricId::find(&id))
}

//! The metrics of order entry's transactions, each by the name of its script.

use super::Values::Positive;
use super::{Metric, MetricId};
use pgassay_stats::Direction::{HigherIsBetter, LowerIsBetter};

/// New orders completed per minute, those rolled back for an unknown item included.
pub const NEW_ORDERS: MetricId = MetricId(&Metric {
    id: "new-orders",
    heading: "new orders",
    unit: "1/min",
    better: HigherIsBetter,
    explanation: "New orders completed per minute, those rolled back for an unknown item included.",
    values: Positive,
    of: |t| Some(t.script("new-order")?.transactions as f64 / t.seconds * 60.0),
});

/// A percentile of one transaction's latency.
macro_rules! percentile {
    ($name:ident, $id:literal, $script:literal, $percent:literal) => {
        #[doc = concat!("Latency of ", $script, " transactions, percentile ", $percent, ".")]
        pub const $name: MetricId = MetricId(&Metric {
            id: $id,
            heading: concat!($id, " latency"),
            unit: "µs",
            better: LowerIsBetter,
            explanation: concat!(
                "Percentile ",
                $percent,
                " of the latency of order entry's ",
                $script,
                " transactions."
            ),
            values: Positive,
            of: |t| t.script_percentile_us($script, $percent),
        });
    };
}

percentile!(NEW_ORDER_P50, "new-order-p50", "new-order", 50.0);
percentile!(NEW_ORDER_P90, "new-order-p90", "new-order", 90.0);
percentile!(NEW_ORDER_P99, "new-order-p99", "new-order", 99.0);
percentile!(PAYMENT_P50, "payment-p50", "payment", 50.0);
percentile!(PAYMENT_P90, "payment-p90", "payment", 90.0);
percentile!(PAYMENT_P99, "payment-p99", "payment", 99.0);
percentile!(ORDER_STATUS_P50, "order-status-p50", "order-status", 50.0);
percentile!(ORDER_STATUS_P90, "order-status-p90", "order-status", 90.0);
percentile!(ORDER_STATUS_P99, "order-status-p99", "order-status", 99.0);
percentile!(DELIVERY_P50, "delivery-p50", "delivery", 50.0);
percentile!(DELIVERY_P90, "delivery-p90", "delivery", 90.0);
percentile!(DELIVERY_P99, "delivery-p99", "delivery", 99.0);
percentile!(STOCK_LEVEL_P50, "stock-level-p50", "stock-level", 50.0);
percentile!(STOCK_LEVEL_P90, "stock-level-p90", "stock-level", 90.0);
percentile!(STOCK_LEVEL_P99, "stock-level-p99", "stock-level", 99.0);

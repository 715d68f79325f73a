//! Every metric that can be shown, followed or compared: what it is called, in which unit, which way
//! is better, and how it comes out of a trial.
//!
//! A new metric is an entry here and its name in [`METRICS`].

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;

use pgassay_model::samplers;
use pgassay_model::trial::Trial;
use serde::{Deserialize, Serialize};

pub mod order_entry;
pub mod pmu;

use pgassay_readings::growth::Growth;
use pgassay_readings::samples;

use self::Values::{Counted, Measured, Positive};
use crate::trial_view::{Server, TrialView};
use pgassay_stats::Direction::{self, HigherIsBetter, LowerIsBetter};
use pgassay_stats::{Caveat, Estimate, summarize, summarize_positive};

/// One metric.
#[derive(Debug)]
pub struct Metric {
    /// Its name for flags and JSON.
    pub id: &'static str,
    /// Its heading in tables and charts.
    pub heading: &'static str,
    /// The unit of its values; empty for plain numbers, `share` for 0 to 1.
    pub unit: &'static str,
    /// Whether more is better.
    pub better: Direction,
    /// What it means, in one sentence.
    pub explanation: &'static str,
    /// What kind of values it has.
    values: Values,
    /// Its value in one trial; none where that trial does not show it.
    of: fn(&TrialView) -> Option<f64>,
}

/// How the values of trials become an estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Values {
    /// Positive by nature: summarised on the logarithms.
    Positive,
    /// May be zero.
    Measured,
    /// Exact: where each trial has the same, nothing is left unresolved.
    Counted,
}

/// Transactions, or other units of work, completed per second.
pub const THROUGHPUT: MetricId = MetricId(&Metric {
    id: "throughput",
    heading: "throughput",
    unit: "tps",
    better: HigherIsBetter,
    explanation: "Transactions, or other units of work, completed per second.",
    values: Positive,
    of: |t| Some(t.rate()),
});

/// CPU time of the server's processes per transaction.
pub const SERVER_CPU: MetricId = MetricId(&Metric {
    id: "server-cpu",
    heading: "server CPU",
    unit: "µs/tx",
    better: LowerIsBetter,
    explanation: "CPU time of the server's processes per transaction.",
    values: Measured,
    of: |t| t.per_transaction_us(t.server_cpus?),
});

/// Share of the server's processes that ran on a CPU of the load.
pub const SHARED_CPU: MetricId = MetricId(&Metric {
    id: "shared-cpu",
    heading: "CPU shared with the client",
    unit: "share",
    better: LowerIsBetter,
    explanation: "Share of the server's processes, of those that ran between two samples, that last ran on the CPU of a load thread.",
    values: Measured,
    of: |t| {
        let observed = t.record.observed.as_ref()?;
        let seen = observed.waits.as_ref()?.shared_cpu?;
        (seen.ran > 0).then(|| f64::from(seen.shared) / f64::from(seen.ran))
    },
});

/// Median latency from the scheduled start.
pub const P50: MetricId = MetricId(&Metric {
    id: "p50",
    heading: "p50 latency",
    unit: "µs",
    better: LowerIsBetter,
    explanation: "Median latency from the scheduled start.",
    values: Positive,
    of: |t| t.percentile_us(50.0),
});

/// 90th percentile of the latency from the scheduled start.
pub const P90: MetricId = MetricId(&Metric {
    id: "p90",
    heading: "p90 latency",
    unit: "µs",
    better: LowerIsBetter,
    explanation: "90th percentile of the latency from the scheduled start.",
    values: Positive,
    of: |t| t.percentile_us(90.0),
});

/// 99th percentile of the latency from the scheduled start.
pub const P99: MetricId = MetricId(&Metric {
    id: "p99",
    heading: "p99 latency",
    unit: "µs",
    better: LowerIsBetter,
    explanation: "99th percentile of the latency from the scheduled start.",
    values: Positive,
    of: |t| t.percentile_us(99.0),
});

/// 99.9th percentile of the latency from the scheduled start.
pub const P99_9: MetricId = MetricId(&Metric {
    id: "p99.9",
    heading: "p99.9 latency",
    unit: "µs",
    better: LowerIsBetter,
    explanation: "99.9th percentile of the latency from the scheduled start.",
    values: Positive,
    of: |t| t.percentile_us(99.9),
});

/// How long after its intended start a transaction began, on average, where there is a schedule.
pub const START_LAG: MetricId = MetricId(&Metric {
    id: "start-lag",
    heading: "late by",
    unit: "µs",
    better: LowerIsBetter,
    explanation: "How long after its intended start a transaction began, on average, where there is a schedule.",
    values: Measured,
    of: |t| {
        let transactions = t.record.transactions;
        let sum = t.record.lag_sum_ns.filter(|_| transactions > 0)?;
        Some(sum / transactions as f64 / 1000.0)
    },
});

/// The longest time between an intended and an actual start, where there is a schedule.
pub const START_LAG_MAX: MetricId = MetricId(&Metric {
    id: "start-lag-max",
    heading: "late by at most",
    unit: "µs",
    better: LowerIsBetter,
    explanation: "The longest time between an intended and an actual start, where there is a schedule.",
    values: Measured,
    of: |t| Some(t.record.lag_max_ns? as f64 / 1000.0),
});

/// Transactions that were to begin within the window and had not when it ended, where there is a schedule.
pub const NOT_BEGUN: MetricId = MetricId(&Metric {
    id: "not-begun",
    heading: "not begun",
    unit: "",
    better: LowerIsBetter,
    explanation: "Transactions that were to begin within the window and had not when it ended, where there is a schedule.",
    values: Measured,
    of: |t| t.record.lag_sum_ns.map(|_| t.record.behind as f64),
});

/// CPU time of pgassay's load threads per transaction.
pub const CLIENT_CPU: MetricId = MetricId(&Metric {
    id: "client-cpu",
    heading: "client CPU",
    unit: "µs/tx",
    better: LowerIsBetter,
    explanation: "CPU time of pgassay's load threads per transaction.",
    values: Measured,
    of: |t| t.per_transaction_us(t.client_cpus()),
});

/// CPU time of pgassay's load threads in user mode per transaction.
pub const CLIENT_USER_CPU: MetricId = MetricId(&Metric {
    id: "client-user-cpu",
    heading: "client CPU, user mode",
    unit: "µs/tx",
    better: LowerIsBetter,
    explanation: "CPU time of pgassay's load threads in user mode per transaction.",
    values: Measured,
    of: |t| t.per_transaction_us(t.client_user_cpus()),
});

/// CPUs that pgassay's load threads kept busy.
pub const CLIENT_CPUS: MetricId = MetricId(&Metric {
    id: "client-cpus",
    heading: "client CPUs busy",
    unit: "",
    better: LowerIsBetter,
    explanation: "CPUs that pgassay's load threads kept busy.",
    values: Measured,
    of: |t| Some(t.client_cpus()),
});

/// CPUs that the server kept busy.
pub const SERVER_CPUS: MetricId = MetricId(&Metric {
    id: "server-cpus",
    heading: "server CPUs busy",
    unit: "",
    better: LowerIsBetter,
    explanation: "CPUs that the server kept busy.",
    values: Measured,
    of: |t| t.server_cpus,
});

/// CPUs that the whole machine kept busy, other work included.
pub const MACHINE_CPUS: MetricId = MetricId(&Metric {
    id: "machine-cpus",
    heading: "CPUs busy",
    unit: "",
    better: LowerIsBetter,
    explanation: "CPUs that the whole machine kept busy, other work included.",
    values: Measured,
    of: |t| t.host?.busy_cpus(),
});

/// Share of CPU time that the hypervisor gave to others.
pub const STEAL: MetricId = MetricId(&Metric {
    id: "steal",
    heading: "steal",
    unit: "share",
    better: LowerIsBetter,
    explanation: "Share of CPU time that the hypervisor gave to others.",
    values: Measured,
    of: |t| t.host.filter(|h| h.total > 0.0).map(|h| h.steal / h.total),
});

/// Shared-buffer hits per transaction.
pub const BUFFER_HITS: MetricId = MetricId(&Metric {
    id: "buffer-hits",
    heading: "buffer hits",
    unit: "1/tx",
    better: LowerIsBetter,
    explanation: "Shared-buffer hits per transaction.",
    values: Counted,
    of: |t| t.per_commit(t.counter("blks_hit")),
});

/// Blocks read into shared buffers per transaction.
pub const BUFFER_MISSES: MetricId = MetricId(&Metric {
    id: "buffer-misses",
    heading: "buffer misses",
    unit: "1/tx",
    better: LowerIsBetter,
    explanation: "Blocks read into shared buffers per transaction.",
    values: Counted,
    of: |t| t.per_commit(t.counter("blks_read")),
});

/// Blocks looked up in shared buffers per transaction.
pub const LOGICAL_READS: MetricId = MetricId(&Metric {
    id: "logical-reads",
    heading: "logical reads",
    unit: "1/tx",
    better: LowerIsBetter,
    explanation: "Blocks looked up in shared buffers per transaction.",
    values: Counted,
    of: |t| t.per_commit(t.reads.logical_reads),
});

/// Bytes per second that the storage devices read, for any process.
pub const DEVICE_READS: MetricId = MetricId(&Metric {
    id: "device-reads",
    heading: "device reads",
    unit: "B/s",
    better: LowerIsBetter,
    explanation: "Bytes per second that the storage devices read, for any process.",
    values: Measured,
    of: |t| t.device()?.per_second(|reads| reads.bytes),
});

/// Read requests per second that the storage devices completed, for any process.
pub const DEVICE_REQUESTS: MetricId = MetricId(&Metric {
    id: "device-requests",
    heading: "device read requests",
    unit: "1/s",
    better: LowerIsBetter,
    explanation: "Read requests per second that the storage devices completed, for any process.",
    values: Measured,
    of: |t| t.device()?.per_second(|reads| reads.requests),
});

/// CPUs that a quota kept from the server.
pub const CPU_THROTTLED: MetricId = MetricId(&Metric {
    id: "cpu-throttled",
    heading: "held back by quota",
    unit: "CPUs",
    better: LowerIsBetter,
    explanation: "Time per second for which the server's control group was held back by its CPU quota, \
                  summed over CPUs.",
    values: Measured,
    of: |t| {
        let sample = t.sample(samplers::CGROUP_CPU)?;
        let before = samples::throttled_us(sample.before.text()?)?;
        let after = samples::throttled_us(sample.after.text()?)?;
        Growth::of(sample, after.checked_sub(before)? as f64 / 1e6).per_second()
    },
});

/// The memory limit that was reached.
pub const MEMORY_LIMIT: MetricId = MetricId(&Metric {
    id: "memory-limit",
    heading: "memory limit reached",
    unit: "B",
    better: HigherIsBetter,
    explanation: "What the server's control group may use of memory, page cache included, where that limit was reached \
                  during the measurement.",
    values: Measured,
    of: |t| Some(samples::memory_limit(t.sample(samplers::CGROUP_MEMORY)?)?.bytes as f64),
});

/// Pages that a memory limit threw out and that were read again.
pub const MEMORY_REFAULTS: MetricId = MetricId(&Metric {
    id: "memory-refaults",
    heading: "pages read again",
    unit: "1/s",
    better: LowerIsBetter,
    explanation: "Pages of files per second that the server's control group read again after its memory limit had \
                  thrown them out of the page cache.",
    values: Measured,
    of: |t| {
        let sample = t.sample(samplers::CGROUP_MEMORY)?;
        let limit = samples::memory_limit(sample)?;
        Growth::of(sample, limit.refaults as f64).per_second()
    },
});

/// Average size of a device's read request.
pub const DEVICE_REQUEST_SIZE: MetricId = MetricId(&Metric {
    id: "device-request-size",
    heading: "device request size",
    unit: "B",
    better: HigherIsBetter,
    explanation: "Average size of a device's read request.",
    values: Measured,
    of: |t| t.device()?.average_request_bytes(),
});

/// Bytes per second that devices read for the server's processes, read-ahead included.
pub const SERVER_READS: MetricId = MetricId(&Metric {
    id: "server-reads",
    heading: "server's device reads",
    unit: "B/s",
    better: LowerIsBetter,
    explanation: "Bytes per second that devices read for the server's processes, read-ahead included.",
    values: Measured,
    of: |t| t.reads.processes_bytes.seen()?.per_second(),
});

/// Bytes per second that the server's cgroup read from the devices.
pub const CGROUP_READS: MetricId = MetricId(&Metric {
    id: "cgroup-reads",
    heading: "cgroup's device reads",
    unit: "B/s",
    better: LowerIsBetter,
    explanation: "Bytes per second that the server's cgroup read from the devices.",
    values: Measured,
    of: |t| t.reads.cgroup.seen()?.per_second(|reads| reads.bytes),
});

/// Memory of the page tables of the server's processes.
pub const PAGE_TABLES: MetricId = MetricId(&Metric {
    id: "page-tables",
    heading: "page tables",
    unit: "B",
    better: LowerIsBetter,
    explanation: "Memory of the page tables of the server's processes.",
    values: Measured,
    of: |t| t.page_tables(),
});

/// All metrics, the usual ones first.
pub const METRICS: &[MetricId] = &[
    THROUGHPUT,
    SERVER_CPU,
    P50,
    P90,
    P99,
    P99_9,
    CLIENT_CPU,
    CLIENT_USER_CPU,
    CLIENT_CPUS,
    SERVER_CPUS,
    MACHINE_CPUS,
    STEAL,
    SHARED_CPU,
    BUFFER_HITS,
    BUFFER_MISSES,
    LOGICAL_READS,
    DEVICE_READS,
    DEVICE_REQUESTS,
    DEVICE_REQUEST_SIZE,
    SERVER_READS,
    CGROUP_READS,
    PAGE_TABLES,
    CPU_THROTTLED,
    MEMORY_LIMIT,
    MEMORY_REFAULTS,
    pmu::IPC,
    pmu::CYCLES,
    pmu::INSTRUCTIONS,
    pmu::KERNEL_INSTRUCTIONS,
    pmu::BRANCH_MISSES,
    pmu::BRANCH_MISS_SHARE,
    pmu::L1I_MISSES,
    pmu::ITLB_MISSES,
    pmu::LLC_MISSES,
    pmu::CACHE_MISSES,
    pmu::STALLED_FRONTEND,
    pmu::STALLED_BACKEND,
    pmu::RETIRING,
    pmu::BAD_SPECULATION,
    pmu::FRONTEND_BOUND,
    pmu::BACKEND_BOUND,
    pmu::TASK_CLOCK,
    pmu::PAGE_FAULTS,
    pmu::CONTEXT_SWITCHES,
    pmu::CPU_MIGRATIONS,
    order_entry::NEW_ORDERS,
    order_entry::NEW_ORDER_P50,
    order_entry::NEW_ORDER_P90,
    order_entry::NEW_ORDER_P99,
    order_entry::PAYMENT_P50,
    order_entry::PAYMENT_P90,
    order_entry::PAYMENT_P99,
    order_entry::ORDER_STATUS_P50,
    order_entry::ORDER_STATUS_P90,
    order_entry::ORDER_STATUS_P99,
    order_entry::DELIVERY_P50,
    order_entry::DELIVERY_P90,
    order_entry::DELIVERY_P99,
    order_entry::STOCK_LEVEL_P50,
    order_entry::STOCK_LEVEL_P90,
    order_entry::STOCK_LEVEL_P99,
    START_LAG,
    START_LAG_MAX,
    NOT_BEGUN,
];

impl Metric {
    /// Its heading with the unit, as in `throughput, tps`.
    pub fn label(&self) -> String {
        match self.unit {
            "" => self.heading.to_owned(),
            unit => format!("{}, {unit}", self.heading),
        }
    }

    /// Its estimate over the trials that show it; none where half of them do not.
    pub fn over(&self, trials: &[TrialView]) -> Option<Estimate> {
        let seen: Vec<f64> = trials.iter().filter_map(self.of).collect();
        if seen.len() * 2 <= trials.len() {
            return None;
        }
        if self.values == Positive {
            return summarize_positive(&seen);
        }
        let mut estimate = summarize(&seen)?;
        // Nothing stolen and nothing read is what one hopes for, not a lack of resolution.
        if seen.iter().all(|value| *value == 0.0) {
            estimate.warnings.clear();
        }
        if self.values == Counted {
            estimate
                .warnings
                .retain(|caveat| *caveat != Caveat::IdenticalValues);
        }
        Some(estimate)
    }
}

/// The value of every metric that a trial shows.
pub fn of_trial(trial: &TrialView) -> BTreeMap<MetricId, f64> {
    let shown = METRICS.iter();
    shown
        .filter_map(|metric| Some((*metric, (metric.of)(trial)?)))
        .collect()
}

/// The estimate of every metric that these trials show.
pub fn over_trials(trials: &[TrialView]) -> BTreeMap<MetricId, Estimate> {
    let shown = METRICS.iter();
    shown
        .filter_map(|metric| Some((*metric, metric.over(trials)?)))
        .collect()
}

/// A metric of [`METRICS`], by its id in flags and JSON.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
pub struct MetricId(&'static Metric);

impl MetricId {
    /// The metric of that id.
    ///
    /// # Errors
    /// Where there is none.
    pub fn find(id: &str) -> Result<Self, UnknownMetric> {
        let found = METRICS.iter().find(|metric| metric.id == id);
        found.copied().ok_or_else(|| UnknownMetric(id.to_owned()))
    }

    /// Its value in a trial by itself; `None` where the trial does not show it. What needs the server's
    /// facts or storage is not shown by a trial alone.
    pub fn in_trial(self, trial: &Trial) -> Option<f64> {
        (self.of)(&TrialView::of(trial, Server::default()))
    }

    /// Its value in a trial; `None` where the trial does not show it.
    pub fn in_view(self, trial: &TrialView) -> Option<f64> {
        (self.of)(trial)
    }

    /// What is followed unless something else is asked for.
    pub fn usual() -> Vec<Self> {
        METRICS[..2].to_vec()
    }
}

impl Default for MetricId {
    fn default() -> Self {
        THROUGHPUT
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for MetricId {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "MetricId".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let ids: Vec<&str> = METRICS.iter().map(|metric| metric.id).collect();
        schemars::json_schema!({
            "description": "A metric, by its id.", "type": "string", "enum": ids
        })
    }
}

impl Deref for MetricId {
    type Target = Metric;

    fn deref(&self) -> &Metric {
        self.0
    }
}

impl PartialEq for MetricId {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for MetricId {}

impl PartialOrd for MetricId {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for MetricId {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.id.cmp(other.id)
    }
}

impl fmt::Debug for MetricId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id)
    }
}

impl fmt::Display for MetricId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id)
    }
}

impl From<MetricId> for &'static str {
    fn from(metric: MetricId) -> Self {
        metric.0.id
    }
}

impl TryFrom<String> for MetricId {
    type Error = UnknownMetric;

    fn try_from(id: String) -> Result<Self, UnknownMetric> {
        Self::find(&id)
    }
}

/// A name that no metric has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a metric; known: {known}", known = known())]
pub struct UnknownMetric(String);

fn known() -> String {
    let ids: Vec<&str> = METRICS.iter().map(|metric| metric.id).collect();
    ids.join(", ")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ids_are_unique_and_found() {
        let ids: BTreeSet<&str> = METRICS.iter().map(|metric| metric.id).collect();
        assert_eq!(ids.len(), METRICS.len(), "an id stands twice");
        for metric in METRICS {
            let found = MetricId::find(metric.id).expect("it is in the table");
            assert_eq!(found.explanation, metric.explanation);
            assert!(metric.explanation.ends_with('.'), "{}", metric.id);
        }
        let usual: Vec<&str> = MetricId::usual().iter().map(|metric| metric.id).collect();
        assert_eq!(usual, ["throughput", "server-cpu"]);
    }

    #[test]
    fn an_unknown_name_is_refused_with_those_that_are_known() {
        let refused = serde_json::from_str::<MetricId>("\"p42\"").unwrap_err();
        let text = refused.to_string();
        assert!(text.contains("p42") && text.contains("p99.9"), "{text}");
        let json = serde_json::to_string(&P99).unwrap();
        assert_eq!(json, "\"p99\"");
        assert_eq!(serde_json::from_str::<MetricId>(&json).unwrap(), P99);
    }
}

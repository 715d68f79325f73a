//! Every metric that can be followed or compared, in one table: what it is called, in which
//! unit, which way is better, and where an analysis has it.

use std::fmt;
use std::ops::Deref;

use serde::{Deserialize, Serialize};

use crate::analysis::{PointAnalysis, PointReads, StageArm};
use crate::stats::Direction::{self, HigherIsBetter, LowerIsBetter};
use crate::stats::Estimate;

/// One metric.
#[derive(Debug)]
pub struct Metric {
    /// Its name for flags and JSON.
    pub id: &'static str,
    /// Its heading in tables and charts.
    pub heading: &'static str,
    /// The unit of its values; empty for counts and shares.
    pub unit: &'static str,
    /// Whether more is better.
    pub better: Direction,
    /// What it means, in one sentence.
    pub explanation: &'static str,
    /// Where it is.
    from: fn(&Measured) -> Option<Estimate>,
}

/// How one server did at one client count.
#[derive(Debug, Clone, Copy)]
pub struct Measured<'a> {
    /// Throughput, latency and CPU time.
    pub point: &'a PointAnalysis,
    /// Where the bytes came from, where that was read.
    pub reads: Option<&'a PointReads>,
}

impl<'a> Measured<'a> {
    /// What a server did at a client count; none where it was not measured there.
    pub fn at(arm: &'a StageArm, clients: u32) -> Option<Self> {
        let point = arm.points.iter().find(|p| p.point.clients == clients)?;
        let reads = arm.reads.as_ref().map(|reads| &reads.points);
        Some(Self {
            point,
            reads: reads.and_then(|points| points.iter().find(|p| p.clients == clients)),
        })
    }
}

/// All metrics, the usual ones first.
pub static METRICS: &[Metric] = &[
    Metric {
        id: "throughput",
        heading: "throughput",
        unit: "tps",
        better: HigherIsBetter,
        explanation: "Transactions completed per second.",
        from: |m| Some(m.point.throughput_tps.clone()),
    },
    Metric {
        id: "server-cpu",
        heading: "server CPU",
        unit: "µs/tx",
        better: LowerIsBetter,
        explanation: "CPU time of the server's processes per transaction.",
        from: |m| m.point.server_cpu_us_per_transaction.clone(),
    },
    Metric {
        id: "p50",
        heading: "p50 latency",
        unit: "µs",
        better: LowerIsBetter,
        explanation: "Median latency from the scheduled start.",
        from: |m| Some(m.point.latency_us.p50.clone()),
    },
    Metric {
        id: "p90",
        heading: "p90 latency",
        unit: "µs",
        better: LowerIsBetter,
        explanation: "90th percentile of the latency from the scheduled start.",
        from: |m| Some(m.point.latency_us.p90.clone()),
    },
    Metric {
        id: "p99",
        heading: "p99 latency",
        unit: "µs",
        better: LowerIsBetter,
        explanation: "99th percentile of the latency from the scheduled start.",
        from: |m| Some(m.point.latency_us.p99.clone()),
    },
    Metric {
        id: "p99.9",
        heading: "p99.9 latency",
        unit: "µs",
        better: LowerIsBetter,
        explanation: "99.9th percentile of the latency from the scheduled start.",
        from: |m| Some(m.point.latency_us.p99_9.clone()),
    },
    Metric {
        id: "client-cpu",
        heading: "client CPU",
        unit: "µs/tx",
        better: LowerIsBetter,
        explanation: "CPU time of pgassay's load threads per transaction.",
        from: |m| Some(m.point.client_cpu_us_per_transaction.clone()),
    },
    Metric {
        id: "client-cpus",
        heading: "client CPUs busy",
        unit: "",
        better: LowerIsBetter,
        explanation: "CPUs that pgassay's load threads kept busy.",
        from: |m| Some(m.point.client_cpus.clone()),
    },
    Metric {
        id: "server-cpus",
        heading: "server CPUs busy",
        unit: "",
        better: LowerIsBetter,
        explanation: "CPUs that the server kept busy.",
        from: |m| m.point.server_cpus.clone(),
    },
    Metric {
        id: "machine-cpus",
        heading: "CPUs busy",
        unit: "",
        better: LowerIsBetter,
        explanation: "CPUs that the whole machine kept busy, other work included.",
        from: |m| m.point.machine_cpus.clone(),
    },
    Metric {
        id: "steal",
        heading: "steal",
        unit: "",
        better: LowerIsBetter,
        explanation: "Share of CPU time that the hypervisor gave to others.",
        from: |m| m.point.steal_share.clone(),
    },
    Metric {
        id: "buffer-hits",
        heading: "buffer hits",
        unit: "1/tx",
        better: LowerIsBetter,
        explanation: "Shared-buffer hits per transaction.",
        from: |m| m.point.buffer_hits_per_transaction.clone(),
    },
    Metric {
        id: "buffer-misses",
        heading: "buffer misses",
        unit: "1/tx",
        better: LowerIsBetter,
        explanation: "Blocks read into shared buffers per transaction.",
        from: |m| m.point.buffer_reads_per_transaction.clone(),
    },
    Metric {
        id: "device-reads",
        heading: "device reads",
        unit: "B/s",
        better: LowerIsBetter,
        explanation: "Bytes per second that the storage devices read, for any process.",
        from: |m| m.reads?.device_bytes_per_second.clone(),
    },
    Metric {
        id: "page-tables",
        heading: "page tables",
        unit: "B",
        better: LowerIsBetter,
        explanation: "Memory of the page tables of the server's processes.",
        from: |m| m.reads?.page_table_bytes.clone(),
    },
];

impl Metric {
    /// Its heading with the unit, as in `throughput, tps`.
    pub fn label(&self) -> String {
        match self.unit {
            "" => self.heading.to_owned(),
            unit => format!("{}, {unit}", self.heading),
        }
    }

    /// Its value at one client count; none where it was not seen.
    pub fn of(&self, measured: &Measured) -> Option<Estimate> {
        (self.from)(measured)
    }
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
        found.map(Self).ok_or_else(|| UnknownMetric(id.to_owned()))
    }

    /// What is followed unless something else is asked for.
    pub fn usual() -> Vec<Self> {
        METRICS[..2].iter().map(Self).collect()
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

impl fmt::Debug for MetricId {
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
    use super::*;

    #[test]
    fn ids_are_unique_and_found() {
        for metric in METRICS {
            let found = MetricId::find(metric.id).expect("it is in the table");
            assert!(std::ptr::eq(found.0, metric), "{} stands twice", metric.id);
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
        let p99 = MetricId::find("p99").unwrap();
        let json = serde_json::to_string(&p99).unwrap();
        assert_eq!(json, "\"p99\"");
        assert_eq!(serde_json::from_str::<MetricId>(&json).unwrap(), p99);
    }
}

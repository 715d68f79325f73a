//! What observers saw of one server, by client count: what reports show.

use serde::{Deserialize, Serialize};

use super::cost::{self, CostAnalysis};
use super::stacks::{self, SymbolTable};
use super::waits::{self, WaitAnalysis};
use super::{Observed, Unavailable};
use crate::profile::flame::{self, Flame};
use crate::profile::{Summary, summarise};
use crate::record::{RecordedRun, TrialRecord};
use crate::samples;

/// What observers saw of one server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmObserved {
    /// One entry a client count, ascending.
    pub points: Vec<PointObserved>,
    /// CPU samples of all client counts together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<Summary>,
    /// The same as a flame graph.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flame: Option<Flame>,
    /// How callers were found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callers: Option<String>,
    /// What observing cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<CostAnalysis>,
    /// Observers that were asked for and saw nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unavailable: Vec<Unavailable>,
}

/// What observers saw at one client count.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PointObserved {
    /// Clients.
    pub clients: u32,
    /// What sessions were doing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<WaitAnalysis>,
    /// How the kernel scheduled the server.
    pub scheduling: Scheduling,
    /// CPU samples by class, function and lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<Summary>,
}

/// How the kernel scheduled the server, averaged over the trials of a point; none
/// where it could not be seen.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Scheduling {
    /// Server processes that were ready to run and waited for a CPU, on average.
    pub run_queue: Option<f64>,
    /// Times a transaction that a server process gave its CPU up by itself.
    pub voluntary_switches_per_transaction: Option<f64>,
    /// Times a transaction that it was taken away.
    pub involuntary_switches_per_transaction: Option<f64>,
    /// Page faults of the machine a transaction.
    pub page_faults_per_transaction: Option<f64>,
    /// Share of time in which some task waited for a CPU (PSI), 0 to 1.
    pub cpu_pressure: Option<f64>,
    /// For I/O.
    pub io_pressure: Option<f64>,
    /// For memory.
    pub memory_pressure: Option<f64>,
    /// Pages swapped in and out of the machine a second.
    pub swap_pages_per_second: Option<f64>,
}

/// What the observers of an arm saw; none where none ran.
pub fn analyse(run: &RecordedRun, arm: u32, cpus: Option<u32>) -> Option<ArmObserved> {
    let trials: Vec<&TrialRecord> = run
        .trials
        .iter()
        .filter(|t| t.slice.arm == arm && t.cut_short.is_none() && t.window_ns > 0)
        .collect();
    let seen = || {
        trials
            .iter()
            .filter_map(|t| Some((t.observed.as_ref()?, t.window_ns)))
    };
    seen().next()?;
    let nothing = SymbolTable::default();
    let symbols = run.symbols.get(&arm).unwrap_or(&nothing);
    let mut points: Vec<PointObserved> = (0u32..)
        .zip(&run.header.plan.points)
        .filter_map(|(index, point)| {
            let of: Vec<&TrialRecord> = trials
                .iter()
                .filter(|t| t.slice.point == index)
                .copied()
                .collect();
            (!of.is_empty()).then(|| analyse_point(point.clients, &of, symbols))
        })
        .collect();
    points.sort_by_key(|p| p.clients);
    let profile = stacks::profile(seen().filter_map(|(o, _)| o.stacks.as_ref()), symbols);
    let mut unavailable: Vec<Unavailable> = seen()
        .flat_map(|(o, _)| o.unavailable.iter().cloned())
        .collect();
    unavailable.sort();
    unavailable.dedup();
    Some(ArmObserved {
        points,
        flame: profile.as_ref().map(flame::fold),
        callers: seen()
            .find_map(|(o, _)| o.stacks.as_ref())
            .map(|s| s.callers.clone()),
        profile: profile.as_ref().map(summarise),
        cost: cost::analyse(seen(), cpus),
        unavailable,
    })
}

fn analyse_point(clients: u32, trials: &[&TrialRecord], symbols: &SymbolTable) -> PointObserved {
    let observed = || trials.iter().filter_map(|t| t.observed.as_ref());
    let windows = |pick: &dyn Fn(&Observed) -> bool| -> f64 {
        trials
            .iter()
            .filter(|t| t.observed.as_ref().is_some_and(pick))
            .map(|t| t.window_ns as f64 / 1e9)
            .sum()
    };
    let seconds = windows(&|o| o.waits.is_some());
    PointObserved {
        clients,
        waits: waits::analyse(observed().filter_map(|o| o.waits.as_ref()), seconds),
        scheduling: scheduling(trials),
        profile: stacks::profile(observed().filter_map(|o| o.stacks.as_ref()), symbols)
            .as_ref()
            .map(summarise),
    }
}

fn scheduling(trials: &[&TrialRecord]) -> Scheduling {
    // Sums over the trials that show both, so that long and short ones weigh by their length.
    let ratio = |of: &dyn Fn(&TrialRecord) -> Option<(f64, f64)>| -> Option<f64> {
        let parts: Vec<(f64, f64)> = trials.iter().filter_map(|t| of(t)).collect();
        let (above, below) = parts
            .iter()
            .fold((0.0, 0.0), |sum, part| (sum.0 + part.0, sum.1 + part.1));
        (below > 0.0).then(|| above / below)
    };
    let per_transaction = |value: &dyn Fn(&TrialRecord) -> Option<f64>| {
        ratio(&|t| Some((value(t)?, t.transactions as f64)))
    };
    let switches = |t: &TrialRecord| samples::switches(t.samples.get(samples::SERVER_SWITCHES)?);
    let stalled = |id: &'static str| {
        ratio(&|t: &TrialRecord| {
            let sample = t.samples.get(id)?;
            Some((samples::stalled_us(sample)? * 1e3, sample.elapsed_ns as f64))
        })
    };
    let vmstat =
        |t: &TrialRecord, name: &str| samples::vmstat(t.samples.get(samples::HOST_VMSTAT)?, name);
    Scheduling {
        run_queue: ratio(&|t| {
            let sample = t.samples.get(samples::SERVER_SCHEDSTAT)?;
            Some((
                samples::run_queue_ns(sample)? as f64,
                sample.elapsed_ns as f64,
            ))
        }),
        voluntary_switches_per_transaction: per_transaction(&|t| Some(switches(t)?.0 as f64)),
        involuntary_switches_per_transaction: per_transaction(&|t| Some(switches(t)?.1 as f64)),
        page_faults_per_transaction: per_transaction(&|t| Some(vmstat(t, "pgfault")? as f64)),
        cpu_pressure: stalled(samples::HOST_PRESSURE_CPU),
        io_pressure: stalled(samples::HOST_PRESSURE_IO),
        memory_pressure: stalled(samples::HOST_PRESSURE_MEMORY),
        swap_pages_per_second: ratio(&|t| {
            let sample = t.samples.get(samples::HOST_VMSTAT)?;
            let pages = samples::vmstat(sample, "pswpin")? + samples::vmstat(sample, "pswpout")?;
            Some((pages as f64, sample.elapsed_ns as f64 / 1e9))
        }),
    }
}

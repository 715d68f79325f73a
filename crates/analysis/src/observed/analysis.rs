//! What observers saw of one server, by client count: what reports show.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::backends::{self, Backends};
use super::cost::{self, CostAnalysis};
use super::stacks::{self, SymbolTable};
use super::waits::{self, WaitAnalysis};
use super::{Observed, Unavailable};
use crate::pgio::PgioTrial;
use crate::plan::Plan;
use crate::primitives::PrimitiveTrial;
use crate::profile::flame::{self, Flame};
use crate::profile::{Summary, summarise};
use crate::record::{Reading, RecordedRun, Sample, TrialRecord};
use crate::samples;
use crate::scattered::ScatteredTrial;

/// What observers saw of one server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmObserved {
    /// One entry a load and client count, ascending.
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
    /// Which of the run's loads: `lwlock, exclusive`; none where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<String>,
    /// Clients.
    pub clients: u32,
    /// What sessions were doing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<WaitAnalysis>,
    /// How the kernel scheduled the server.
    pub scheduling: Scheduling,
    /// What each of its processes got of the CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backends: Option<Backends>,
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

/// A stretch of load that was observed, whatever the load was.
struct Window<'r> {
    /// Which of a run's loads it was; none where there is one.
    load: Option<String>,
    clients: u32,
    window_ns: u64,
    /// Transactions, or what the load calls its unit of work.
    operations: u64,
    samples: &'r BTreeMap<String, Sample>,
    observed: Option<&'r Observed>,
}

impl<'r> Window<'r> {
    fn of_trial(trial: &'r TrialRecord, plan: &Plan) -> Option<Self> {
        let point = plan.points.get(trial.slice.point as usize)?;
        Some(Self {
            load: None,
            clients: point.clients,
            window_ns: trial.window_ns,
            operations: trial.transactions,
            samples: &trial.samples,
            observed: trial.observed.as_ref(),
        })
    }

    fn of_pgio(trial: &'r PgioTrial) -> Self {
        Self {
            load: None,
            clients: trial.sessions.len() as u32,
            window_ns: trial.window_ns,
            operations: trial.sessions.iter().map(|s| s.selects + s.updates).sum(),
            samples: &trial.samples,
            observed: trial.observed.as_ref(),
        }
    }

    fn of_primitive(trial: &'r PrimitiveTrial, run: &RecordedRun) -> Option<Self> {
        let plan = run.primitives_plan.as_ref()?;
        Some(Self {
            load: Some(plan.variants.get(trial.variant as usize)?.title()),
            clients: trial.sessions.len() as u32,
            window_ns: trial.sessions.iter().map(|s| s.elapsed_ns).max()?,
            operations: trial.sessions.iter().map(|s| s.operations).sum(),
            samples: &trial.samples,
            observed: trial.observed.as_ref(),
        })
    }

    fn of_scattered(trial: &'r ScatteredTrial, run: &RecordedRun) -> Option<Self> {
        let plan = run.scattered_plan.as_ref()?;
        // Whichever sampler stood nearest to the statement.
        let window_ns = trial.samples.values().map(|s| s.elapsed_ns).min()?;
        let title = &plan.variants.get(trial.variant as usize)?.title;
        let cache = if trial.cold { "cold" } else { "warm" };
        Some(Self {
            load: Some(format!("{title}, {cache}")),
            clients: 1,
            window_ns,
            operations: 1,
            samples: &trial.samples,
            observed: trial.observed.as_ref(),
        })
    }
}

/// All windows of an arm, of whichever kind its load was.
fn windows(run: &RecordedRun, arm: u32) -> Vec<Window<'_>> {
    let plan = &run.header.plan;
    let trials = run.trials.iter();
    let trials = trials.filter(|t| t.slice.arm == arm && t.cut_short.is_none() && t.window_ns > 0);
    let mut windows: Vec<Window> = trials.filter_map(|t| Window::of_trial(t, plan)).collect();
    if arm == 0 {
        windows.extend(run.pgio.iter().map(Window::of_pgio));
        let primitives = run.primitives.iter();
        windows.extend(primitives.filter_map(|t| Window::of_primitive(t, run)));
        let scattered = run.scattered.iter();
        windows.extend(scattered.filter_map(|t| Window::of_scattered(t, run)));
    }
    windows.retain(|w| w.observed.is_some());
    windows
}

/// What the observers of an arm saw; none where none ran.
pub fn analyse(run: &RecordedRun, arm: u32, cpus: Option<u32>) -> Option<ArmObserved> {
    let windows = windows(run, arm);
    let seen = || {
        windows
            .iter()
            .filter_map(|w| Some((w.observed?, w.window_ns)))
    };
    seen().next()?;
    let nothing = SymbolTable::default();
    let symbols = run.symbols.get(&arm).unwrap_or(&nothing);
    let mut by_point: BTreeMap<(Option<&str>, u32), Vec<&Window>> = BTreeMap::new();
    for window in &windows {
        let point = (window.load.as_deref(), window.clients);
        by_point.entry(point).or_default().push(window);
    }
    let points: Vec<PointObserved> = by_point
        .into_iter()
        .map(|((load, clients), of)| analyse_point(load, clients, &of, symbols))
        .collect();
    let profile = stacks::profile(seen().filter_map(|(o, _)| o.stacks.as_ref()), symbols);
    let mut unavailable: Vec<Unavailable> = seen()
        .flat_map(|(o, _)| o.unavailable.iter().cloned())
        .chain(windows.iter().flat_map(|w| unread(w.samples)))
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

/// What the observer of scheduling could not read in a window, one entry a thing: the server's
/// processes, the kernel's pressure, memory's traffic.
fn unread(read: &BTreeMap<String, Sample>) -> Vec<Unavailable> {
    if !read.contains_key(samples::SERVER_SWITCHES) {
        return Vec::new();
    }
    let things: [&[&str]; 3] = [
        &[samples::SERVER_SCHEDSTAT, samples::SERVER_SWITCHES],
        &[
            samples::HOST_PRESSURE_CPU,
            samples::HOST_PRESSURE_IO,
            samples::HOST_PRESSURE_MEMORY,
        ],
        &[samples::HOST_VMSTAT],
    ];
    let why = |id: &&str| {
        let sample = read.get(*id)?;
        [&sample.before, &sample.after]
            .into_iter()
            .find_map(|reading| match reading {
                Reading::Unavailable(why) => Some(why.clone()),
                Reading::Text(_) => None,
            })
    };
    let first = things.iter().filter_map(|ids| ids.iter().find_map(why));
    first
        .map(|why| Unavailable {
            observer: "sched".to_owned(),
            why,
        })
        .collect()
}

fn analyse_point(
    load: Option<&str>,
    clients: u32,
    windows: &[&Window],
    symbols: &SymbolTable,
) -> PointObserved {
    let observed = || windows.iter().filter_map(|w| w.observed);
    let seconds = windows
        .iter()
        .filter(|w| w.observed.is_some_and(|o| o.waits.is_some()))
        .map(|w| w.window_ns as f64 / 1e9)
        .sum();
    PointObserved {
        load: load.map(str::to_owned),
        clients,
        waits: waits::analyse(observed().filter_map(|o| o.waits.as_ref()), seconds),
        scheduling: scheduling(windows),
        backends: backends::analyse(windows.iter().map(|w| w.samples)),
        profile: stacks::profile(observed().filter_map(|o| o.stacks.as_ref()), symbols)
            .as_ref()
            .map(summarise),
    }
}

fn scheduling(windows: &[&Window]) -> Scheduling {
    // Sums over the windows that show both, so that long and short ones weigh by their length.
    let ratio = |of: &dyn Fn(&Window) -> Option<(f64, f64)>| -> Option<f64> {
        let parts: Vec<(f64, f64)> = windows.iter().filter_map(|t| of(t)).collect();
        let (above, below) = parts
            .iter()
            .fold((0.0, 0.0), |sum, part| (sum.0 + part.0, sum.1 + part.1));
        (below > 0.0).then(|| above / below)
    };
    let per_transaction =
        |value: &dyn Fn(&Window) -> Option<f64>| ratio(&|t| Some((value(t)?, t.operations as f64)));
    let switches = |t: &Window| samples::switches(t.samples.get(samples::SERVER_SWITCHES)?);
    let stalled = |id: &'static str| {
        ratio(&|t: &Window| {
            let sample = t.samples.get(id)?;
            Some((samples::stalled_us(sample)? * 1e3, sample.elapsed_ns as f64))
        })
    };
    // A server that can't be seen may be on another machine than these figures.
    let here = windows.iter().any(|w| {
        let times = w.samples.get(samples::SERVER_SCHEDSTAT);
        times.is_some_and(|sample| sample.after.text().is_some())
    });
    let of_machine = |value: Option<f64>| value.filter(|_| here);
    let vmstat =
        |t: &Window, name: &str| samples::vmstat(t.samples.get(samples::HOST_VMSTAT)?, name);
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
        page_faults_per_transaction: of_machine(per_transaction(&|t| {
            Some(vmstat(t, "pgfault")? as f64)
        })),
        cpu_pressure: of_machine(stalled(samples::HOST_PRESSURE_CPU)),
        io_pressure: of_machine(stalled(samples::HOST_PRESSURE_IO)),
        memory_pressure: of_machine(stalled(samples::HOST_PRESSURE_MEMORY)),
        swap_pages_per_second: of_machine(ratio(&|t| {
            let sample = t.samples.get(samples::HOST_VMSTAT)?;
            let pages = samples::vmstat(sample, "pswpin")? + samples::vmstat(sample, "pswpout")?;
            Some((pages as f64, sample.elapsed_ns as f64 / 1e9))
        })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_does_not_tell_is_said_once() {
        let sample = |reading: Reading| Sample {
            before: reading.clone(),
            after: reading,
            elapsed_ns: 1,
        };
        let text = || sample(Reading::Text("1 2 3".to_owned()));
        let none = |why: &str| sample(Reading::Unavailable(why.to_owned()));
        let mut read = BTreeMap::from([
            (samples::SERVER_SCHEDSTAT.to_owned(), text()),
            (samples::HOST_PRESSURE_CPU.to_owned(), none("no PSI")),
            (samples::HOST_PRESSURE_IO.to_owned(), none("no PSI, either")),
        ]);
        // Without the observer of scheduling nobody asked.
        assert_eq!(unread(&read), []);
        read.insert(samples::SERVER_SWITCHES.to_owned(), text());
        let missing = unread(&read);
        assert_eq!(missing.len(), 1, "{missing:?}");
        assert_eq!(
            (missing[0].observer.as_str(), missing[0].why.as_str()),
            ("sched", "no PSI")
        );
    }
}

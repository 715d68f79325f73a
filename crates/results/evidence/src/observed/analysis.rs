//! What observers saw of one server, by client count: what reports show.

use std::borrow::Cow;
use std::collections::BTreeMap;

use pgassay_model::observed::blockers::BlockerRecord;
use pgassay_model::observed::growth::{Grown, GrowthRecord};
use pgassay_model::observed::plans::Plan;
use pgassay_model::observed::stacks::SymbolTable;
use pgassay_model::observed::{COUNTERS, Observed, Unavailable};
use pgassay_model::plan::{DriverConfig, Stage};
use pgassay_model::reading::{Reading, Sample};
use pgassay_model::samplers;
use pgassay_model::storage::Storage;
use pgassay_model::trial::Trial;
use pgassay_readings::growth::Growth;
use pgassay_readings::profile::Profile;
use pgassay_readings::samples;
use serde::{Deserialize, Serialize};

use super::backends::{self, Backends};
use super::beside::{self, Beside};
use super::blockers;
use super::budget::{self, Budget};
use super::cost::{self, CostAnalysis};
use super::counters::{self, ServerCounters};
use super::pmu::{self, EventClasses};
use super::statements::{self, StatementAnalysis};
use super::waits::{self, WaitAnalysis};
use super::{growth, stacks};
use crate::metrics::MetricId;
use crate::number;
use crate::profile::flame::{self, Flame};
use crate::profile::{Summary, summarise};
use pgassay_stats::Estimate;

/// What observers saw of one server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PointObserved {
    /// Which of the run's loads: `lwlock, exclusive`; none where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<String>,
    /// Clients; of a server's own load as many as there were sessions on average.
    pub clients: u32,
    /// Nobody of ours loaded the server.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub own_load: bool,
    /// What sessions were doing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<WaitAnalysis>,
    /// Where the sessions' time went; none where it could not be accounted for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// Why there is no budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_budget: Option<String>,
    /// What the time went to, by statement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statements: Option<StatementAnalysis>,
    /// What others did beside the load, those most seen first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<Beside>,
    /// What the server's counters of tables, indexes and caches grew by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub growth: Option<GrowthRecord>,
    /// The same of the database and the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counters: Option<ServerCounters>,
    /// Who held up the sessions that waited for locks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blockers: Option<BlockerRecord>,
    /// How the kernel scheduled the server.
    pub scheduling: Scheduling,
    /// What each of its processes got of the CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backends: Option<Backends>,
    /// What processor and kernel counted, by metric.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counted: BTreeMap<MetricId, Estimate>,
    /// The smallest share of time in which an event had a counter, 0 to 1; none where nothing was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub least_counted: Option<f64>,
    /// Where events of processor and kernel happened, by class.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<EventClasses>,
    /// CPU samples by class, function and lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<Summary>,
    /// The samples with their call chains; not in JSON, there are formats of their own for them.
    #[serde(skip)]
    pub stacks: Option<Profile>,
}

impl PointObserved {
    /// Time over which the counters of tables, indexes and statements grew.
    pub fn growth_seconds(&self) -> Option<f64> {
        let own = self.growth.iter().map(|g| g.elapsed_ns as f64 / 1e9);
        let counters = self.counters.iter().map(|counters| counters.seconds);
        own.chain(counters).find(|seconds| *seconds > 0.0)
    }

    /// `8 clients`, or of a server's own load `8 sessions`: how many there were.
    pub fn how_many(&self) -> String {
        let what = if self.own_load { "session" } else { "client" };
        number::counted(self.clients, what)
    }
}

/// How the kernel scheduled the server, averaged over the trials of a point; none
/// where it could not be seen.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    trial: &'r Trial,
    /// Which of a run's loads it was; none where there is one.
    load: Option<String>,
    clients: u32,
    window_ns: u64,
    /// Transactions, or what the load calls its unit of work.
    operations: u64,
    samples: Cow<'r, BTreeMap<String, Sample>>,
    observed: Option<&'r Observed>,
}

impl<'r> Window<'r> {
    fn of(trial: &'r Trial, stage: &Stage) -> Option<Self> {
        let point = trial.slice.point as usize;
        // Which load it was; and its length, where another clock tells better.
        let at = stage.plan.points.get(point)?;
        let (load, window_ns) = match &stage.driver {
            DriverConfig::Wire | DriverConfig::OwnLoad | DriverConfig::Pgio(_) => (None, None),
            DriverConfig::InServer(plan) => {
                let variant = plan.variants.get(at.variant as usize)?;
                (Some(variant.title()), None)
            }
            DriverConfig::ScatteredRead(plan) => {
                let title = &plan.variants.get(at.variant as usize)?.title;
                let cold = trial.execution()?.cold;
                let cache = if cold { "cold" } else { "warm" };
                // Whichever sampler stood nearest to the statement.
                let window_ns = trial.samples.values().map(|s| s.elapsed_ns).min()?;
                (Some(format!("{title}, {cache}")), Some(window_ns))
            }
            DriverConfig::Kernels(_) | DriverConfig::QueryWays { .. } | DriverConfig::Ceiling => {
                return None;
            }
        };
        let clients = at.clients;
        Some(Self {
            trial,
            load,
            clients,
            window_ns: window_ns.unwrap_or(trial.window_ns),
            operations: trial.transactions,
            samples: samples::of_trial(trial),
            observed: trial.observed.as_ref(),
        })
    }
}

/// What the observers of a server saw under one load; none where none ran. `symbols` are the names
/// of what its CPU samples hit.
pub fn analyse(
    stage: &Stage,
    trials: &[&Trial],
    symbols: Option<&SymbolTable>,
    cpus: Option<u32>,
    storage: Option<&Storage>,
) -> Option<ArmObserved> {
    let seen = trials.iter().filter(|t| t.observed.is_some());
    let windows: Vec<Window> = seen.filter_map(|trial| Window::of(trial, stage)).collect();
    let seen = || {
        windows
            .iter()
            .filter_map(|w| Some((w.observed?, w.window_ns)))
    };
    seen().next()?;
    let nothing = SymbolTable::default();
    let symbols = symbols.unwrap_or(&nothing);
    let plans: BTreeMap<String, Result<Plan, String>> = seen()
        .flat_map(|(observed, _)| &observed.plans)
        .map(|record| (record.statement.clone(), record.plan.clone()))
        .collect();
    let mut by_point: BTreeMap<(Option<&str>, u32), Vec<&Window>> = BTreeMap::new();
    for window in &windows {
        let point = (window.load.as_deref(), window.clients);
        by_point.entry(point).or_default().push(window);
    }
    let points: Vec<PointObserved> = by_point
        .into_iter()
        .map(|((load, clients), of)| {
            let own_load = stage.driver == DriverConfig::OwnLoad;
            analyse_point((load, own_load), clients, &of, (symbols, storage), &plans)
        })
        .collect();
    let profile = stacks::profile(seen().filter_map(|(o, _)| o.stacks.as_ref()), symbols);
    let mut unavailable: Vec<Unavailable> = seen()
        .flat_map(|(o, _)| o.unavailable.iter().cloned().chain(unanswered(o)))
        .chain(windows.iter().flat_map(|w| unread(&w.samples)))
        .chain(windows.iter().flat_map(|w| {
            let events = w.samples.get(samplers::SERVER_EVENTS);
            events.map(pmu::unavailable).unwrap_or_default()
        }))
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

/// The questions to the server that failed in a window.
fn unanswered(observed: &Observed) -> impl Iterator<Item = Unavailable> {
    let growth = observed.growth.iter().flat_map(|growth| &growth.unread);
    let blockers = observed
        .blockers
        .iter()
        .filter_map(|blockers| blockers.unread.as_ref());
    let of = |observer: &'static str| {
        move |why: &String| Unavailable {
            observer: observer.to_owned(),
            why: why.clone(),
        }
    };
    growth.map(of(COUNTERS)).chain(blockers.map(of("blockers")))
}

/// What the observer of scheduling could not read in a window, one entry a thing: the server's
/// processes, the kernel's pressure, memory's traffic.
fn unread(read: &BTreeMap<String, Sample>) -> Vec<Unavailable> {
    if !read.contains_key(samplers::SERVER_SWITCHES) {
        return Vec::new();
    }
    let things: [&[&str]; 3] = [
        &[samplers::SERVER_SCHEDSTAT, samplers::SERVER_SWITCHES],
        &[
            samplers::HOST_PRESSURE_CPU,
            samplers::HOST_PRESSURE_IO,
            samplers::HOST_PRESSURE_MEMORY,
        ],
        &[samplers::HOST_VMSTAT],
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
    (load, own_load): (Option<&str>, bool),
    clients: u32,
    windows: &[&Window],
    (symbols, storage): (&SymbolTable, Option<&Storage>),
    plans: &BTreeMap<String, Result<Plan, String>>,
) -> PointObserved {
    let observed = || windows.iter().filter_map(|w| w.observed);
    let seconds = windows
        .iter()
        .filter(|w| w.observed.is_some_and(|o| o.waits.is_some()))
        .map(|w| w.window_ns as f64 / 1e9)
        .sum();
    let waits = waits::analyse(observed().filter_map(|o| o.waits.as_ref()), seconds);
    let budget = budget::analyse(
        windows.iter().map(|w| &*w.samples),
        waits.as_ref(),
        !own_load,
    );
    let grown = grown(observed().filter_map(|o| o.growth.as_ref()));
    let statements = statements::analyse(
        observed().filter_map(|o| o.statements.as_ref()),
        grown.as_ref().map_or(&[], |g| g.statements.as_slice()),
        plans,
        budget.as_ref().ok(),
    );
    let stacks = stacks::profile(observed().filter_map(|o| o.stacks.as_ref()), symbols);
    let trials = windows.iter().map(|w| w.trial);
    let (counted, least_counted) = pmu::counted(trials);
    PointObserved {
        load: load.map(str::to_owned),
        clients,
        own_load,
        no_budget: budget.as_ref().err().cloned(),
        budget: budget.ok(),
        statements,
        beside: beside::joined(observed().filter_map(|o| o.beside.as_ref())),
        growth: grown,
        counters: counters::analyse(windows.iter().map(|w| &*w.samples), storage),
        blockers: blockers::joined(observed().filter_map(|o| o.blockers.as_ref())),
        waits,
        scheduling: scheduling(windows),
        backends: backends::analyse(windows.iter().map(|w| &*w.samples)),
        counted,
        least_counted,
        events: pmu::by_class(
            observed().flat_map(|o| &o.events),
            symbols,
            windows.iter().map(|w| w.operations).sum(),
        ),
        profile: stacks.as_ref().map(summarise),
        stacks,
    }
}

/// What counters grew by over all windows.
fn grown<'r>(records: impl Iterator<Item = &'r GrowthRecord>) -> Option<GrowthRecord> {
    let records: Vec<&GrowthRecord> = records.collect();
    let last = records.last()?;
    let all = |of: fn(&GrowthRecord) -> &[Grown]| growth::joined(records.iter().map(|r| of(r)));
    Some(GrowthRecord {
        elapsed_ns: records.iter().map(|record| record.elapsed_ns).sum(),
        statements: all(|r| &r.statements),
        tables: all(|r| &r.tables),
        indexes: all(|r| &r.indexes),
        slru: all(|r| &r.slru),
        functions: all(|r| &r.functions),
        catalogs: all(|r| &r.catalogs),
        // What was still there when the last window ended.
        horizon: last.horizon.clone(),
        unread: last.unread.clone(),
    })
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
    // What grew between the readings, brought to the window in which transactions were counted.
    let per_transaction = |value: &dyn Fn(&Window) -> Option<Growth>| {
        ratio(&|t| {
            Some((
                value(t)?.over(t.window_ns as f64 / 1e9)?,
                t.operations as f64,
            ))
        })
    };
    let switches = |t: &Window, of: fn((f64, f64)) -> f64| {
        let times = t.samples.get(samplers::SERVER_SCHEDSTAT);
        let sample = t.samples.get(samplers::SERVER_SWITCHES)?;
        Some(Growth::of(sample, of(samples::switches(sample, times)?)))
    };
    let stalled = |id: &'static str| {
        ratio(&|t: &Window| {
            let sample = t.samples.get(id)?;
            Some((samples::stalled_us(sample)? * 1e3, sample.elapsed_ns as f64))
        })
    };
    // A server that can't be seen may be on another machine than these figures.
    let here = windows.iter().any(|w| {
        let times = w.samples.get(samplers::SERVER_SCHEDSTAT);
        times.is_some_and(|sample| sample.after.text().is_some())
    });
    let of_machine = |value: Option<f64>| value.filter(|_| here);
    Scheduling {
        run_queue: ratio(&|t| {
            let sample = t.samples.get(samplers::SERVER_SCHEDSTAT)?;
            Some((
                samples::run_queue_ns(sample)? as f64,
                sample.elapsed_ns as f64,
            ))
        }),
        voluntary_switches_per_transaction: per_transaction(&|t| switches(t, |s| s.0)),
        involuntary_switches_per_transaction: per_transaction(&|t| switches(t, |s| s.1)),
        page_faults_per_transaction: of_machine(per_transaction(&|t| {
            let sample = t.samples.get(samplers::HOST_VMSTAT)?;
            let faults = samples::vmstat(sample, "pgfault")?;
            Some(Growth::of(sample, faults as f64))
        })),
        cpu_pressure: of_machine(stalled(samplers::HOST_PRESSURE_CPU)),
        io_pressure: of_machine(stalled(samplers::HOST_PRESSURE_IO)),
        memory_pressure: of_machine(stalled(samplers::HOST_PRESSURE_MEMORY)),
        swap_pages_per_second: of_machine(ratio(&|t| {
            let sample = t.samples.get(samplers::HOST_VMSTAT)?;
            let pages = samples::vmstat(sample, "pswpin")? + samples::vmstat(sample, "pswpout")?;
            Some((pages as f64, sample.elapsed_ns as f64 / 1e9))
        })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_that_failed_are_named() {
        let observed = Observed {
            growth: Some(GrowthRecord {
                unread: vec!["counters of tables: no".to_owned()],
                ..GrowthRecord::default()
            }),
            blockers: Some(BlockerRecord {
                unread: Some("no answer".to_owned()),
                ..BlockerRecord::default()
            }),
            ..Observed::default()
        };
        let named: Vec<String> = unanswered(&observed)
            .map(|missing| format!("{}: {}", missing.observer, missing.why))
            .collect();
        assert_eq!(
            named,
            ["counters: counters of tables: no", "blockers: no answer"]
        );
        assert_eq!(unanswered(&Observed::default()).count(), 0);
    }

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
            (samplers::SERVER_SCHEDSTAT.to_owned(), text()),
            (samplers::HOST_PRESSURE_CPU.to_owned(), none("no PSI")),
            (
                samplers::HOST_PRESSURE_IO.to_owned(),
                none("no PSI, either"),
            ),
        ]);
        // Without the observer of scheduling nobody asked.
        assert_eq!(unread(&read), []);
        read.insert(samplers::SERVER_SWITCHES.to_owned(), text());
        let missing = unread(&read);
        assert_eq!(missing.len(), 1, "{missing:?}");
        assert_eq!(
            (missing[0].observer.as_str(), missing[0].why.as_str()),
            ("sched", "no PSI")
        );
    }
}

//! The observers that run beside a load, each on or off, and what they cost.

use std::collections::BTreeMap;

use pgassay_analysis::observed::{Cost, Observed, SymbolTable, Unavailable};
use pgassay_analysis::record::Sample;

use super::cpu::thread_ns;
use super::perf::PerfSampler;
use super::sched;
use super::waits::{self, WaitSampler};
use super::{Readings, Scene};
use crate::pg::Conninfo;

/// Which observers run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Choice {
    /// Wait events of all sessions.
    pub waits: bool,
    /// Context switches, pressure, memory's traffic.
    pub sched: bool,
    /// CPU samples with call chains.
    pub perf: bool,
}

/// The observers of one server.
#[derive(Default)]
pub struct Observers {
    choice: Choice,
    waits: Option<WaitSampler>,
    perf: Option<PerfSampler>,
    unavailable: Vec<Unavailable>,
    readings: Option<Readings>,
    /// CPU time of the readings before the window, nanoseconds.
    spent: u64,
}

impl Observers {
    /// Starts what was chosen; what can't be had is noted and left out.
    pub fn start(choice: Choice, conninfo: &Conninfo, scene: &Scene) -> Self {
        let mut observers = Self {
            choice,
            ..Self::default()
        };
        if choice.waits {
            let beside = scene.session.iter().map(|s| s.backend_pid()).collect();
            let local = scene.postmaster.is_ok();
            match WaitSampler::start(conninfo, waits::RATE_HZ, beside, local) {
                Ok(sampler) => observers.waits = Some(sampler),
                Err(why) => observers.missing("waits", why),
            }
        }
        if choice.perf {
            let started = scene.postmaster.clone().and_then(PerfSampler::start);
            match started {
                Ok(sampler) => observers.perf = Some(sampler),
                Err(why) => observers.missing("perf", why),
            }
        }
        observers
    }

    /// The names of the functions that CPU samples hit, where any did. Ends sampling.
    pub fn symbols(&mut self) -> Option<SymbolTable> {
        self.perf.take().map(PerfSampler::finish)
    }

    fn missing(&mut self, observer: &str, why: String) {
        let observer = observer.to_owned();
        self.unavailable.push(Unavailable { observer, why });
    }

    /// Reads what stands at the border of a window, the load's own readings included, and
    /// begins to observe.
    pub fn begin(&mut self, scene: &mut Scene) -> Readings {
        let before = thread_ns();
        self.readings = self
            .choice
            .sched
            .then(|| Readings::before_by(sched::SAMPLERS, scene));
        let readings = Readings::before(scene);
        self.spent = thread_ns().saturating_sub(before);
        if let Some(waits) = &self.waits {
            waits.begin();
        }
        if let Some(perf) = &self.perf {
            perf.begin();
        }
        readings
    }

    /// Ends observing and reads again: the load's own readings, those of the observers, and what
    /// was seen between.
    pub fn end(
        &mut self,
        scene: &mut Scene,
    ) -> (Readings, BTreeMap<String, Sample>, Option<Observed>) {
        let mut observed = Observed {
            unavailable: self.unavailable.clone(),
            ..Observed::default()
        };
        if let Some(perf) = &self.perf {
            match perf.end() {
                Ok((record, cost)) => {
                    observed.stacks = Some(record);
                    observed.costs.push(cost);
                }
                Err(why) => observed.unavailable.push(Unavailable {
                    observer: "perf".to_owned(),
                    why,
                }),
            }
        }
        if let Some(waits) = &self.waits {
            match waits.end() {
                Ok((record, cost)) => {
                    observed.waits = Some(record);
                    observed.costs.push(cost);
                }
                Err(why) => observed.unavailable.push(Unavailable {
                    observer: "waits".to_owned(),
                    why,
                }),
            }
        }
        let before = thread_ns();
        let readings = Readings::after(scene);
        let samples = match self.readings.take() {
            Some(first) => first.until(Readings::after_by(sched::SAMPLERS, scene)),
            None => BTreeMap::new(),
        };
        let spent = thread_ns().saturating_sub(before);
        observed.costs.push(Cost {
            observer: "samplers".to_owned(),
            own_ns: self.spent + spent,
            server_ns: 0,
            statements: 0,
        });
        let any = self.choice != Choice::default();
        (readings, samples, any.then_some(observed))
    }
}

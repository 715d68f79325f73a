//! The observers that run beside a load, each on or off, and what they cost.

use std::collections::{BTreeMap, HashSet};

use pgassay_model::observed::blockers::BlockerRecord;
use pgassay_model::observed::plans::PlanRecord;
use pgassay_model::observed::stacks::{EventStacks, StackRecord, SymbolTable};
use pgassay_model::observed::statements::{SeenStatement, StatementRecord};
use pgassay_model::observed::{COUNTERS, Cost, Observed, Unavailable};
use pgassay_model::reading::Sample;
use pgassay_pgwire::{Conninfo, Session};

use super::cpu::{process_ns, thread_ns};
use super::executed::{OfLoad, Sent};
use super::growth::Stood;
use super::logged::{Log, Logged};
use super::perf::PerfSampler;
use super::perf_program::PerfProgram;
use super::waits::{self, WaitSampler};
use super::{Readings, Sampler, Scene, plans, pmu, sched};

/// Statements whose plans are asked for, in all.
const EXPLAINED: usize = 10;
/// The observer of events.
const PMU: &str = "pmu";
/// What is named where plans of the server's log can't be read.
const LOGGED: &str = "auto_explain";
/// What is named where a plan, or something about it, was not observed.
const PLANS: &str = "plans";
/// A statement with a smaller share of the sightings is not worth its plan.
const WORTH_A_PLAN: f64 = 0.05;
/// The same for fewer sightings in a window.
const LEAST_SIGHTINGS: u64 = 5;

/// Which observers run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Choice {
    /// Wait events of all sessions.
    pub waits: bool,
    /// Context switches, pressure, memory's traffic.
    pub sched: bool,
    /// CPU samples with call chains.
    pub perf: bool,
    /// Events that processor and kernel count.
    pub pmu: bool,
    /// Whether a load of ours runs, from which sessions of other programs are told apart.
    pub apart: bool,
}

impl Choice {
    /// The samplers of observers that read at the borders of a window.
    fn samplers(self) -> Vec<&'static [Sampler]> {
        let sched = self.sched.then_some(sched::SAMPLERS);
        let pmu = self.pmu.then_some(pmu::SAMPLERS);
        sched.into_iter().chain(pmu).collect()
    }
}

/// Who samples the CPUs: we, or where we may not the `perf` program.
enum CpuSamples {
    Own(PerfSampler),
    Program(PerfProgram),
}

impl CpuSamples {
    fn start(postmaster: u32) -> Result<Self, String> {
        match PerfSampler::start(postmaster) {
            Ok(own) => Ok(Self::Own(own)),
            Err(own) => match PerfProgram::start(postmaster) {
                Ok(program) => Ok(Self::Program(program)),
                Err(program) => Err(format!("{own}; {program}")),
            },
        }
    }

    fn begin(&mut self) {
        match self {
            Self::Own(own) => own.begin(),
            Self::Program(program) => program.begin(),
        }
    }

    /// The window is over; what was seen is asked for by [`Self::end`].
    fn stop(&mut self) {
        match self {
            Self::Own(own) => own.stop_window(),
            Self::Program(program) => program.stop_window(),
        }
    }

    fn end(&mut self) -> Result<(StackRecord, Cost), String> {
        match self {
            Self::Own(own) => own.end(),
            Self::Program(program) => program.end(),
        }
    }

    fn finish(self) -> SymbolTable {
        match self {
            Self::Own(own) => own.finish(),
            Self::Program(program) => program.finish(),
        }
    }
}

/// The observers of one server.
#[derive(Default)]
pub struct Observers {
    choice: Choice,
    waits: Option<WaitSampler>,
    perf: Option<CpuSamples>,
    /// Who samples where events happen, by their names.
    events: Vec<(String, PerfSampler)>,
    unavailable: Vec<Unavailable>,
    /// What stood at the window's beginning: by the load's own samplers, and by those of observers in the
    /// order of [`Choice::samplers`].
    first: Option<(Readings, Vec<Readings>)>,
    /// What stood in the server's statistics views.
    stood: Option<Stood>,
    /// CPU time of the readings before the window, nanoseconds.
    spent: u64,
    /// CPU time of reading the views before it, ours and the server's.
    counting: (u64, u64),
    /// Statements whose plan was asked for.
    explained: HashSet<String>,
    /// The server's log where it holds plans; none until it was looked for.
    log: Option<Option<Log>>,
    /// The statements of the load, where it is ours.
    of_load: OfLoad,
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
            let postmaster = scene.postmaster.as_ref().ok().copied();
            match WaitSampler::start(conninfo, waits::RATE_HZ, beside, postmaster, choice.apart) {
                Ok(sampler) => observers.waits = Some(sampler),
                Err(why) => observers.missing("waits", why),
            }
        }
        if choice.perf {
            let started = scene.postmaster.clone().and_then(CpuSamples::start);
            match started {
                Ok(sampler) => observers.perf = Some(sampler),
                Err(why) => observers.missing("perf", why),
            }
        }
        if choice.pmu
            && let Ok(postmaster) = scene.postmaster
        {
            observers.sample_events(postmaster);
        }
        observers
    }

    /// Takes in what the load sends: the weightiest of these statements are executed once more, to see what their
    /// plans do.
    pub fn learn(&mut self, conninfo: &Conninfo, sent: impl IntoIterator<Item = Sent>) {
        if self.choice.waits {
            self.of_load = OfLoad::new(conninfo.observing());
            sent.into_iter().for_each(|sent| self.of_load.add(sent));
        }
    }

    /// Starts to sample the events that are to be had; why others are not is told with their counts.
    fn sample_events(&mut self, postmaster: u32) {
        for (name, event) in pmu::sampled(postmaster) {
            match PerfSampler::start_of(event, postmaster, pmu::rate(&name)) {
                Ok(sampler) => self.events.push((name, sampler)),
                Err(why) => self.missing(PMU, format!("{name} by class: {why}")),
            }
        }
    }

    /// The names of the functions that samples hit, where any did. Ends sampling.
    pub fn symbols(&mut self) -> Option<SymbolTable> {
        let of_cpus = self.perf.take().map(CpuSamples::finish);
        let of_events = self.events.drain(..).map(|(_, sampler)| sampler.finish());
        of_cpus
            .into_iter()
            .chain(of_events)
            .reduce(|mut all, more| {
                all.merge(&more);
                all
            })
    }

    /// Notes once that something was not observed.
    fn missing(&mut self, observer: &str, why: String) {
        let observer = observer.to_owned();
        let missing = Unavailable { observer, why };
        if !self.unavailable.contains(&missing) {
            self.unavailable.push(missing);
        }
    }

    /// Whether any was chosen.
    pub fn any(&self) -> bool {
        let Choice {
            waits,
            sched,
            perf,
            pmu,
            apart: _,
        } = self.choice;
        waits || sched || perf || pmu
    }

    /// Reads everything once before the first window: of thousands of sessions that do nothing
    /// the first reading is long, and no later one is, so it shall meet no load.
    pub fn acquaint(&self, scene: &mut Scene) {
        scene.known.look(&scene.postmaster);
        for samplers in self.choice.samplers() {
            drop(Readings::before_by(samplers, scene));
        }
        drop(Readings::before(scene));
    }

    /// Reads what stands at the border of a window, the load's own readings included, and
    /// begins to observe.
    pub fn begin(&mut self, scene: &mut Scene) {
        // What costs most comes first, furthest from the window.
        self.stood = self.stand(scene);
        self.begin_log(scene);
        let before = thread_ns();
        scene.known.look(&scene.postmaster);
        let further = self.choice.samplers().into_iter();
        let further = further
            .map(|samplers| Readings::before_by(samplers, scene))
            .collect();
        self.first = Some((Readings::before(scene), further));
        self.spent = thread_ns().saturating_sub(before);
        if let Some(waits) = &self.waits {
            waits.begin();
        }
        if let Some(perf) = &mut self.perf {
            perf.begin();
        }
        for (_, sampler) in &self.events {
            sampler.begin();
        }
    }

    /// Reads the server's statistics views, and what that costs.
    fn stand(&mut self, scene: &mut Scene) -> Option<Stood> {
        if !self.choice.waits {
            return None;
        }
        self.counted(scene, Stood::read)
    }

    /// Asks the server something, and notes what that costs.
    fn counted<T>(&mut self, scene: &mut Scene, ask: impl FnOnce(&mut Session) -> T) -> Option<T> {
        let local = scene.postmaster.is_ok();
        let session = scene.session.as_mut()?;
        let backend = u32::try_from(session.backend_pid()).ok();
        let backend = backend.filter(|_| local);
        let spent = || (thread_ns(), backend.and_then(process_ns).unwrap_or(0));
        let before = spent();
        let answer = ask(session);
        let after = spent();
        self.counting.0 += after.0.saturating_sub(before.0);
        self.counting.1 += after.1.saturating_sub(before.1);
        Some(answer)
    }

    /// Looks once whether the server logs plans, and where the log ends now.
    fn begin_log(&mut self, scene: &mut Scene) {
        if !self.choice.waits {
            return;
        }
        if self.log.is_none() {
            let postmaster = scene.postmaster.clone().ok();
            let found = self.counted(scene, |session| Log::find(session, postmaster));
            self.log = Some(match found {
                Some(Ok(log)) => log,
                Some(Err(why)) => {
                    self.missing(LOGGED, why);
                    None
                }
                None => None,
            });
        }
        if let Some(Some(log)) = &mut self.log {
            log.begin();
        }
    }

    /// The plans that the server logged in the window.
    fn logged(&mut self) -> Logged {
        let Some(Some(log)) = &self.log else {
            return Logged::default();
        };
        let before = thread_ns();
        let logged = log.end();
        self.counting.0 += thread_ns().saturating_sub(before);
        match logged {
            Ok(logged) => {
                if logged.unread > 0 && !self.unavailable.iter().any(|u| u.observer == LOGGED) {
                    self.missing(
                        LOGGED,
                        format!(
                            "{} plans stand in the server's log in a format that is not read: set \
                         auto_explain.log_format to json or text",
                            logged.unread
                        ),
                    );
                }
                logged
            }
            Err(why) => {
                self.missing(LOGGED, why);
                self.log = Some(None);
                Logged::default()
            }
        }
    }

    /// The plans of the window's weightiest statements, each once: the logged one, of what ran, before
    /// one that is asked for.
    fn explain(&mut self, scene: &mut Scene, seen: Option<&StatementRecord>) -> Vec<PlanRecord> {
        let logged = self.logged();
        let Some(seen) = seen else {
            return Vec::new();
        };
        let own: u64 = seen.statements.iter().map(SeenStatement::sightings).sum();
        let least = (WORTH_A_PLAN * (own + seen.others) as f64).max(LEAST_SIGHTINGS as f64);
        let mut plans = Vec::new();
        let mut not_observed = Vec::new();
        for statement in &seen.statements {
            let worth = statement.sightings() as f64 >= least;
            if !worth || self.explained.len() >= EXPLAINED || self.explained.contains(&statement.id)
            {
                continue;
            }
            if let Some(of) = logged.plans.get(&statement.id) {
                self.explained.insert(statement.id.clone());
                let logged = |session: &mut Session| plans::logged(session, of, &mut not_observed);
                let plan = self.counted(scene, logged);
                plans.extend(plan.map(|plan| PlanRecord {
                    statement: statement.id.clone(),
                    plan: Ok(plan),
                }));
                continue;
            }
            let example = self.waits.as_ref().and_then(|w| w.example(&statement.id));
            let Some(example) = example else {
                continue;
            };
            self.explained.insert(statement.id.clone());
            let executed = self.of_load.execute(&statement.id, &example);
            let ask =
                |session: &mut Session| plans::ask(session, &example, executed, &mut not_observed);
            if let Some(plan) = self.counted(scene, ask) {
                plans.push(PlanRecord {
                    statement: statement.id.clone(),
                    plan,
                });
            }
        }
        for why in not_observed {
            self.missing(PLANS, why);
        }
        plans
    }

    /// Ends observing and reads again: all readings of both borders, and what was seen between.
    pub fn end(&mut self, scene: &mut Scene) -> (BTreeMap<String, Sample>, Option<Observed>) {
        let mut observed = Observed {
            ..Observed::default()
        };
        if let Some(perf) = &mut self.perf {
            perf.stop();
        }
        for (_, sampler) in &self.events {
            sampler.stop_window();
        }
        if let Some(waits) = &self.waits {
            match waits.end() {
                Ok(seen) => {
                    observed.waits = Some(seen.waits);
                    observed.statements = Some(seen.statements);
                    observed.beside = Some(seen.beside).filter(|b| !b.statements.is_empty());
                    observed.blockers =
                        Some(seen.blockers).filter(|b| *b != BlockerRecord::default());
                    observed.costs.push(seen.cost);
                    if let Some(why) = seen.unread {
                        self.missing("waits", format!("texts of statements: {why}"));
                    }
                }
                Err(why) => observed.unavailable.push(Unavailable {
                    observer: "waits".to_owned(),
                    why,
                }),
            }
        }
        let before = thread_ns();
        let after = Readings::after(scene);
        let mut samples = BTreeMap::new();
        if let Some((first, further)) = self.first.take() {
            samples = first.until(after);
            // What stood nearest to the window is read first.
            for (further, by) in further.into_iter().zip(self.choice.samplers()).rev() {
                samples.extend(further.until(Readings::after_by(by, scene)));
            }
        }
        let spent = thread_ns().saturating_sub(before);
        if let Some(then) = self.stood.take()
            && let Some(now) = self.stand(scene)
        {
            observed.growth = Some(then.until(now));
        }
        observed.plans = self.explain(scene, observed.statements.as_ref());
        observed
            .unavailable
            .extend(self.unavailable.iter().cloned());
        let (own_ns, server_ns) = std::mem::take(&mut self.counting);
        if observed.growth.is_some() {
            observed.costs.push(Cost {
                observer: COUNTERS.to_owned(),
                own_ns,
                server_ns,
                statements: 0,
            });
        }
        // What takes its time comes after the readings, which stand for the window.
        if let Some(perf) = &mut self.perf {
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
        for (event, sampler) in &self.events {
            match sampler.end() {
                Ok((stacks, cost)) => {
                    let observer = PMU.to_owned();
                    observed.costs.push(Cost { observer, ..cost });
                    let event = event.clone();
                    observed.events.push(EventStacks { event, stacks });
                }
                Err(why) => observed.unavailable.push(Unavailable {
                    observer: PMU.to_owned(),
                    why: format!("{event} by class: {why}"),
                }),
            }
        }
        observed.costs.push(Cost {
            observer: "samplers".to_owned(),
            own_ns: self.spent + spent,
            server_ns: 0,
            statements: 0,
        });
        (samples, self.any().then_some(observed))
    }
}

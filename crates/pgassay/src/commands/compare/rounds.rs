//! The rounds of a comparison: launch by launch, first the noise floor, then the pairs.

use pgassay_analysis::number::counted;
use std::collections::HashSet;
use std::time::{Duration, Instant};

use anyhow::bail;
use pgassay_analysis::compare;
use pgassay_analysis::metrics::MetricId;
use pgassay_analysis::stats::forecast::{difference_within_reach, more_in_launches};
use pgassay_engine::agents::Agents;
use pgassay_engine::drivers::in_server::InServer;
use pgassay_engine::drivers::pgio::Pgio;
use pgassay_engine::drivers::scattered_read::ScatteredRead;
use pgassay_engine::drivers::wire::Wire;
use pgassay_engine::rundir::{self, RunWriter};
use pgassay_engine::runner::{self, Driver, Ended, Schedule};
use pgassay_engine::workload::sessions::Recordings;
use pgassay_engine::workload::{self, setup};
use pgassay_model::comparison::{ComparisonPlan, Phase, Typed, launch_order};
use pgassay_model::observed::stacks::SymbolTable;
use pgassay_model::point::Slice;
use pgassay_model::run::EventKind;
use pgassay_model::stage::StageId;
use pgassay_model::warning::Warning;
use pgassay_model::{Failure, Plan};
use pgassay_observe::{Choice, host};
use pgassay_sys::stop::Stop;

use super::budget::{FEWEST_OF_LAUNCH, FEWEST_PAIRS, LEAST_LAUNCHES, least_pairs};
use super::load::Load;
use super::servers::{Servers, Surroundings};
use super::{BETWEEN, POWER, about, io, places};
use crate::commands::alone::{self, Company};
use crate::commands::progress::Progress;
use crate::commands::recorder::Recorder;
use crate::commands::{conditions, inspect_server, observing};
use crate::terminal::Terminal;

/// A comparison being measured.
pub struct Measuring {
    /// Where it is written down.
    pub writer: RunWriter,
    /// Arms, points and slices.
    pub plan: Plan,
    /// Launches, pairs and δ.
    pub comparison: ComparisonPlan,
    /// What the servers are loaded with.
    pub load: Load,
    /// The stage of its trials.
    pub stage: StageId,
    /// Every arm's label and target, A's like among them.
    pub arms: Vec<(String, Typed)>,
    /// What opening needs beside the targets.
    pub around: Surroundings,
    /// When the command began.
    pub started: Instant,
    /// How long the whole may take.
    pub budget: Duration,
    /// What looks at the servers beside their clients.
    pub observers: Choice,
    /// The machines that clients over the wire are on, where it is not this process.
    pub agents: Option<Agents>,
    /// The sessions that are replayed, for all launches.
    pub recordings: Recordings,
    /// Raised by Ctrl-C.
    pub stop: Stop,
}

impl Measuring {
    /// Writes down what the arms are, and who else measures.
    ///
    /// # Errors
    /// Where the run directory can't be written, or a session broke.
    pub fn note_first(
        &mut self,
        servers: &mut Servers,
        company: &Company,
        terminal: &mut Terminal,
    ) -> anyhow::Result<()> {
        let data_dir = servers.subject(0).data_dir();
        self.writer
            .write_fact("host", &host::facts(data_dir.as_deref()))?;
        for arm in 0..self.arms.len() {
            let subject = servers.subject(arm);
            self.writer
                .write_fact(&format!("server-{arm}"), &subject.facts()?)?;
            self.writer
                .write_fact(&format!("storage-{arm}"), &subject.scene.storage)?;
            let binary = inspect_server::inspect(subject);
            self.writer.write_fact(&format!("binary-{arm}"), &binary)?;
        }
        for arm in 0..self.arms.len() {
            let label = self.arms[arm].0.clone();
            for mismatch in servers.not_in_force(arm)? {
                let text =
                    format!("in {label} a setting is not in force as asked for: {mismatch}.");
                self.warn(Warning::new("setting-not-in-force", text))?;
            }
        }
        alone::record(company, &mut self.writer, terminal)?;
        if self.comparison.same {
            terminal.announce("both targets are the same: an A/A run, which shows the noise floor");
        }
        if self.comparison.delta == 0.0 {
            terminal.announce(
                "delta is 0: nothing can be called equivalent, only faster, slower or inconclusive",
            );
        }
        let launches = self.comparison.launches;
        if (2..6).contains(&launches) {
            terminal.warn(&format!(
                "{launches} launches can't show anything at 95 %, however many pairs each holds: \
                 the smallest p is {:.3}; take 6 or more",
                2f64.powi(1 - launches as i32)
            ));
        }
        if let Some(pairs) = self.comparison.pairs
            && pairs < 6
            && launches == 1
        {
            terminal.warn(&format!(
                "{} can't show anything at 95 %: the smallest p is {:.3}; take 6 or more",
                counted(pairs, "pair"),
                2f64.powi(1 - pairs as i32)
            ));
        }
        Ok(())
    }

    fn warn(&mut self, warning: Warning) -> anyhow::Result<()> {
        self.writer.append_event(EventKind::Warned { warning })
    }

    /// Runs all launches; the first on the servers given.
    ///
    /// # Errors
    /// Where a slice fails for a reason of our own, or nothing can be written.
    pub fn run(&mut self, servers: Servers, terminal: &mut Terminal) -> anyhow::Result<Ended> {
        let mut opened = Some(servers);
        self.announce(terminal);
        for launch in 0..self.comparison.launches {
            let measured = self.measured()?;
            let left = |slices: &[Slice]| slices.iter().any(|s| !measured.contains(&s.index));
            let pairs = self.comparison.pairs.unwrap_or(self.comparison.most_pairs);
            let all = [
                self.comparison
                    .slices(&self.plan, launch, Phase::Noise, pairs),
                self.comparison
                    .slices(&self.plan, launch, Phase::Pairs, pairs),
            ];
            if !all.iter().any(|slices| left(slices)) {
                continue;
            }
            if self.stop.asked() {
                return Ok(Ended::Interrupted);
            }
            let mut servers = match opened.take() {
                Some(servers) => servers,
                None => {
                    // A's like is for the noise floor alone.
                    let all = self.comparison.noise_rounds_of(launch) > 0;
                    let compared = self.comparison.compared() as usize;
                    let arms = if all { self.arms.len() } else { compared };
                    let order = launch_order(self.plan.seed, launch, arms);
                    Servers::open(&self.arms, &order, &self.around, &self.stop)?
                }
            };
            let mut ended = self.launch(launch, &mut servers, &measured, terminal);
            if let Ok(Ended::Complete) = ended {
                let held = (0..servers.arms_up())
                    .zip(self.plans())
                    .try_for_each(|(arm, plan)| {
                        conditions::check(servers.subject(arm), &plan.workload)
                    });
                ended = held.map(|()| Ended::Complete);
            }
            let cleaned = servers.clean_up();
            if let Some(words) = servers.last_words() {
                terminal.warn(&format!("the server's last words:\n{}", words.trim_end()));
            }
            // If it ended badly, that is the error; the user has to know this one, too.
            if let (Err(error), false) = (&cleaned, matches!(ended, Ok(Ended::Complete))) {
                terminal.warn(&setup::still_there(error));
            }
            match ended? {
                Ended::Complete => cleaned?,
                Ended::ServerDied(why) => {
                    return Ok(Ended::ServerDied(match servers.cause_of_death() {
                        Some(cause) => format!("{why}; the server's log: {cause}"),
                        None => why,
                    }));
                }
                Ended::Interrupted => return Ok(Ended::Interrupted),
            }
        }
        Ok(Ended::Complete)
    }

    fn announce(&self, terminal: &mut Terminal) {
        let plan = &self.plan;
        let counts: Vec<String> = plan.points.iter().map(|p| p.clients.to_string()).collect();
        let who = match self.load {
            Load::Wire(_) => format!("clients, {}", workload::scale_in_words(&plan.workload)),
            _ => "sessions".to_owned(),
        };
        let slices = match self.load {
            Load::ScatteredRead(_) => "one execution a slice".to_owned(),
            _ => format!("slices of {:.2} s", plan.window_ms as f64 / 1000.0),
        };
        terminal.announce(&format!(
            "{} at {} {who}: {slices}, first {} of A vs. A",
            plan.workload.name,
            counts.join(", "),
            counted(self.comparison.noise_rounds, "pair"),
        ));
    }

    fn measured(&self) -> anyhow::Result<HashSet<u32>> {
        let run = rundir::read(self.writer.dir())?;
        Ok(run.measured(self.stage))
    }

    /// One launch: fill, the noise floor, the pairs.
    fn launch(
        &mut self,
        launch: u32,
        servers: &mut Servers,
        measured: &HashSet<u32>,
        terminal: &mut Terminal,
    ) -> anyhow::Result<Ended> {
        let mut progress = Progress::new(terminal, 100);
        let (plan, stop) = (&self.plan, &self.stop);
        let plans = self.plans();
        if let Some(agents) = &self.agents {
            servers.find_from(agents, &plan.workload)?;
        }
        match &self.load {
            Load::Wire(_) => servers.fill(&plans, &progress, stop)?,
            Load::InServer(call) => {
                progress.say("compiling the functions for the servers");
                servers.fill_inside(call, self.around.common.scratch.as_deref())?;
            }
            Load::Pgio(config) => servers.fill_pgio(config, plan.seed, &progress, stop)?,
            Load::ScatteredRead(_) => servers.fill_scattered(&plan.workload, &progress, stop)?,
        }
        for (arm, plan) in (0..servers.arms_up()).zip(&plans) {
            self.writer
                .append_event(EventKind::Launched { arm: arm as u32 })?;
            if launch == 0 && matches!(self.load, Load::Wire(_)) {
                let facts = servers.arm_facts(arm, &plan.workload)?;
                self.writer.write_fact(&format!("arm-{arm}"), &facts)?;
            }
        }
        let labels: Vec<String> = self.arms.iter().map(|(label, _)| label.clone()).collect();
        let mut driver = self.driver(servers, &labels)?;
        let driver = driver.as_mut();
        let none = HashSet::new();
        let slices = self.each_once(servers.arms_up());
        let ended = self.slices(&slices, &none, driver, false, &mut progress)?;
        let Ended::Complete = ended else {
            return Ok(ended);
        };
        let noise = self.comparison.slices(&self.plan, launch, Phase::Noise, 0);
        let (begun, paused) = (Instant::now(), self.stop.paused());
        let ended = self.slices(&noise, measured, driver, true, &mut progress)?;
        let Ended::Complete = ended else {
            return Ok(ended);
        };
        progress.clear();
        if launch == 0 {
            // What a slice takes here with all that lies around it; after a resume there
            // may have been too few to tell.
            let run = noise
                .iter()
                .filter(|s| !measured.contains(&s.index))
                .count();
            let noise = begun.elapsed() - (self.stop.paused() - paused).min(begun.elapsed());
            let each = (run >= 4).then(|| noise.as_secs_f64() / run as f64);
            let before = (begun - self.started).saturating_sub(paused);
            self.decide(each, (before, noise), terminal)?;
        }
        if servers.arms_up() > self.comparison.compared() as usize {
            // A's like has done its part; its memory and wake-ups go.
            let symbols = driver.drop_last();
            self.symbols(self.arms.len() - 1, symbols)?;
            servers.drop_last();
        }
        let mut progress = Progress::new(terminal, 100);
        let ended = self.pairs(launch, measured, driver, &mut progress);
        progress.clear();
        for (arm, symbols) in driver.symbols().into_iter().enumerate() {
            self.symbols(arm, symbols)?;
        }
        ended
    }

    /// The plan as each arm has it.
    fn plans(&self) -> Vec<Plan> {
        let each = self.arms.iter();
        each.map(|(_, typed)| places::of_arm(&self.plan, typed))
            .collect()
    }

    /// What runs the slices of all arms.
    fn driver(&self, servers: &mut Servers, labels: &[String]) -> anyhow::Result<Box<dyn Driver>> {
        let (plan, stop) = (self.plan.clone(), self.stop.clone());
        Ok(match &self.load {
            Load::Wire(_) => Box::new(Wire {
                arms: servers.arms(
                    &self.plans(),
                    labels,
                    self.observers,
                    (self.agents.as_ref(), &self.recordings),
                    &stop,
                )?,
                // Else the checkpointer of the one would write while the other is measured.
                checkpoints: plan.workload.writes,
                launches: self.comparison.rounds(),
                plan,
                stop,
            }),
            Load::InServer(call) => Box::new(InServer {
                calls: vec![call.clone()],
                call_us: u32::try_from(plan.window_ms.saturating_mul(1000)).unwrap_or(u32::MAX),
                seed: plan.seed,
                points: plan.points,
                arms: servers.sessions(labels, self.observers)?,
                stop,
            }),
            Load::Pgio(config) => Box::new(Pgio {
                pgio: io::pgio_plan(config),
                config: (**config).clone(),
                arms: servers.pgio_arms(labels, self.observers)?,
                plan,
                stop,
            }),
            Load::ScatteredRead(scattered) => Box::new(ScatteredRead {
                plan: scattered.plan.clone(),
                arms: servers.scattered_arms(labels, self.observers)?,
                read_ahead: None,
                drop_caches: false,
                warm: false,
                last: None,
                stop,
            }),
        })
    }

    /// Writes down the names of the functions of an arm that CPU samples hit.
    fn symbols(&mut self, arm: usize, symbols: Option<SymbolTable>) -> anyhow::Result<()> {
        match symbols {
            Some(symbols) => observing::write_symbols(&mut self.writer, arm as u32, &symbols),
            None => Ok(()),
        }
    }

    /// One slice of each arm at each point, not counted: connections, plans and
    /// caches are warm on all when the first pair begins.
    fn each_once(&self, arms: usize) -> Vec<Slice> {
        let points = 0..self.plan.points.len() as u32;
        points
            .flat_map(|point| {
                (0..arms as u32).map(move |arm| Slice {
                    index: u32::MAX,
                    round: 0,
                    arm,
                    point,
                })
            })
            .collect()
    }

    fn slices(
        &mut self,
        slices: &[Slice],
        measured: &HashSet<u32>,
        driver: &mut dyn Driver,
        keep: bool,
        progress: &mut Progress,
    ) -> anyhow::Result<Ended> {
        let schedule = Schedule {
            stage: self.stage,
            slices,
            measured,
        };
        let mut recorder = Recorder {
            keep,
            ..Recorder::new(&mut self.writer)
        };
        runner::run(&schedule, driver, &mut recorder, progress, &self.stop)
    }

    /// The pairs of a launch; a sequential comparison stops at a look that allows it.
    fn pairs(
        &mut self,
        launch: u32,
        measured: &HashSet<u32>,
        driver: &mut dyn Driver,
        progress: &mut Progress,
    ) -> anyhow::Result<Ended> {
        let pairs = self.comparison.pairs.unwrap_or(self.comparison.most_pairs);
        let slices = self
            .comparison
            .slices(&self.plan, launch, Phase::Pairs, pairs);
        if self.comparison.looks.is_empty() {
            return self.slices(&slices, measured, driver, true, progress);
        }
        let of_round = (self.comparison.compared() as usize) * self.plan.points.len();
        let mut from = 0;
        for look in self.comparison.looks.clone() {
            let to = (look as usize * of_round).min(slices.len());
            let part = &slices[from.min(to)..to];
            match self.slices(part, measured, driver, true, progress)? {
                Ended::Complete => {}
                ended => return Ok(ended),
            }
            from = to;
            if compare::may_stop(&rundir::read(self.writer.dir())?)? {
                break;
            }
        }
        Ok(Ended::Complete)
    }

    /// How many pairs it takes, by the noise floor that was just measured; said
    /// and written down before the first of them. What went before the noise floor, each further
    /// launch will take as well; neither time holds what the run was paused.
    fn decide(
        &mut self,
        slice: Option<f64>,
        (before, noise): (Duration, Duration),
        terminal: &mut Terminal,
    ) -> anyhow::Result<()> {
        let run = rundir::read(self.writer.dir())?;
        let metric = MetricId::find(&self.comparison.metric)?;
        if compare::shows_metric(&run) == Some(false) {
            bail!(
                Failure::usage(format!(
                    "{} can't be compared by {metric}: no trial shows it here",
                    self.plan.workload.name
                ))
                .with_remedy(
                    "latency is known of clients over the wire only, CPU time and reads where the \
                     server's processes can be seen; name another metric"
                )
            );
        }
        let Some(spread) = compare::spread_so_far(&run) else {
            return Ok(());
        };
        let slices = self.comparison.compared() as f64 * self.plan.points.len() as f64;
        let round = slice.map_or_else(
            || self.comparison.round_seconds(&self.plan, BETWEEN),
            |each| each * slices,
        );
        let delta = 100.0 * self.comparison.delta;
        let by = match metric == MetricId::default() {
            true => String::new(),
            false => format!(" in {}", metric.heading),
        };
        let floor = format!(
            "pairs of equal servers spread by {:.1} %{by} here",
            100.0 * spread
        );
        let forecast = compare::forecast_so_far(&run);
        let needed = forecast.map(|f| f.pairs_promised.max(f.pairs_equivalence));
        let mut each_start = before.as_secs_f64();
        if self.comparison.noise_each_launch {
            each_start += noise.as_secs_f64();
        }
        let starts = |launches: u32| f64::from(launches - 1) * each_start;
        let left = (self.budget + self.stop.paused())
            .saturating_sub(self.started.elapsed())
            .as_secs_f64();
        if self.comparison.pairs.is_none() && self.comparison.launches > 1 {
            let launches = self.comparison.launches;
            let each = each_start + f64::from(least_pairs(launches)) * round;
            let fit = ((left + each_start) / each) as u32;
            if fit < launches {
                let fit = if fit < LEAST_LAUNCHES { 1 } else { fit };
                terminal.announce(&format!(
                    "starting the servers takes longer than expected: {fit} of {launches} launches \
                     fit into the time"
                ));
                self.comparison.launches = fit;
            }
        }
        let launches = self.comparison.launches;
        let starting = starts(launches);
        let more = more_in_launches(launches);
        let needed = needed.map(|n| (n as f64 * more).ceil() as u64);
        if self.comparison.pairs.is_none() {
            let fewest = if launches > 1 {
                FEWEST_OF_LAUNCH
            } else {
                FEWEST_PAIRS
            };
            let affordable = ((left - starting) / f64::from(launches) / round) as u32;
            let least = least_pairs(launches);
            let most = self.comparison.most_pairs.min(affordable).max(least);
            let pairs = match needed {
                Some(needed) => {
                    let each = needed.div_ceil(u64::from(launches));
                    (each.min(u64::from(u32::MAX)) as u32).clamp(fewest.min(most), most)
                }
                None => most,
            };
            self.comparison.pairs = Some(pairs);
            self.writer.write_fact("comparison", &self.comparison)?;
        }
        let each = self.comparison.pairs.unwrap_or(FEWEST_PAIRS);
        let pairs = u64::from(each) * u64::from(launches);
        let time = about(pairs as f64 * round + starting);
        let reach = difference_within_reach(spread, (pairs as f64 / more) as u64, POWER);
        let promise = match needed {
            Some(needed) if needed <= pairs => format!(
                "enough to show a difference of {delta} %, or that there is none, 9 times in 10"
            ),
            Some(needed) => format!(
                "enough for a difference of {}; for {delta} % it would take {needed} pairs, {}",
                reach.map_or_else(|| "no size".to_owned(), |r| format!("{:.1} %", 100.0 * r)),
                about(needed as f64 * round + starting)
            ),
            None => format!(
                "enough for a difference of {}",
                reach.map_or_else(|| "no size".to_owned(), |r| format!("{:.1} %", 100.0 * r))
            ),
        };
        let at_most = if self.comparison.looks.is_empty() {
            ""
        } else {
            "at most "
        };
        let (of_launches, unless) = match launches {
            1 => (String::new(), ""),
            n => (format!(" in {n} launches"), ", as far as starts are alike"),
        };
        terminal.announce(&format!(
            "{floor}: {at_most}{pairs} pairs{of_launches} follow, {time}, {promise}{unless}"
        ));
        Ok(())
    }
}

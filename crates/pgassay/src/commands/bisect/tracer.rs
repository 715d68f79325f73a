//! The search that measures: builds what it asks for, counts or compares, and keeps what was found.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::bail;
use pgassay_analysis::search::steps::{
    Cost, CountedAt, Measure, Next, Searched, Step, StepBlock, Traced,
};
use pgassay_analysis::search::{Interval, Outcome};
use pgassay_engine::rundir::RunWriter;
use pgassay_engine::runner::Ended;
use pgassay_model::comparison::Typed;
use pgassay_model::{Failure, Plan};
use pgassay_server::pgbuild::BuildRecord;
use pgassay_server::pgbuild::commits::{self, Commit, History};

use super::exit_of;
use super::measure::{Bench, Measured};
use super::positions::{Had, Positions};
use crate::cli::bisect::{BisectArgs, ByArg};
use crate::commands::alone;
use crate::commands::files::page_of_run;
use crate::commands::opened;
use crate::commands::progress::minutes;
use crate::commands::record;
use crate::commands::search::STEPS;
use crate::commands::show::show;
use crate::exit::Exit;
use crate::terminal::Terminal;

/// The least effect that matters where nobody named one: of counts, of a metric.
const DELTAS: (f64, f64) = (0.005, 0.02);

/// What a search goes by that is not recorded.
pub(super) struct Asked {
    by: ByArg,
    delta: Option<f64>,
    metric: bool,
}

impl Asked {
    pub(super) fn of(args: &BisectArgs) -> Self {
        Self {
            by: args.by,
            delta: args.delta,
            metric: args.metric.is_some(),
        }
    }
}

/// A search that measures.
pub(super) struct Tracer {
    pub(super) positions: Positions,
    pub(super) bench: Bench,
    pub(super) asked: Asked,
    /// Of each search.
    pub(super) histories: Vec<History>,
    pub(super) traced: Traced,
    pub(super) plan: Plan,
    pub(super) writer: RunWriter,
    pub(super) started: Instant,
    /// Seconds that it took before it was gone on with.
    pub(super) before: f64,
    /// Builds that are there, by search and position.
    pub(super) built: BTreeMap<(usize, usize), BuildRecord>,
}

/// Whether a search goes on.
enum Flow {
    On,
    Over(Ended),
}

impl Tracer {
    /// Searches to the end and shows what was found.
    pub(super) fn finish(
        mut self,
        args: &BisectArgs,
        terminal: &mut Terminal,
    ) -> anyhow::Result<Exit> {
        let company = alone::look();
        alone::warn(&company, terminal);
        let dir = self.writer.dir().to_owned();
        let ended = self.run(args.minutes, terminal);
        let kept = self.keep();
        let end = record::end_of(&ended, self.started);
        let finished = self.writer.finish(&end);
        let traced = self.traced;
        drop(self.writer);
        let run = dir.file_name().unwrap_or_default().to_string_lossy();
        let main = &traced.searches[0];
        if main.counted.is_empty() && main.blocks.is_empty() {
            return Err(match ended {
                Err(error) => error,
                Ok(_) => Failure::interrupted()
                    .with_remedy(format!("pgassay bisect --resume {run} goes on"))
                    .into(),
            });
        }
        let page = page_of_run(&dir, &pgassay_report::html(&traced));
        show(&traced, &args.show, terminal)?;
        opened::announce(&page?, false, terminal);
        let ended = ended?;
        kept?;
        finished?;
        Ok(match ended {
            Ended::Complete => exit_of(main.conclusion.outcome, main.is_worse(traced.metric)),
            _ => {
                terminal.note(&format!("pgassay bisect --resume {run} goes on"));
                Exit::Partial
            }
        })
    }

    fn run(&mut self, longest: f64, terminal: &mut Terminal) -> anyhow::Result<Ended> {
        let until = Duration::from_secs_f64(longest * 60.0);
        let mut at = 0;
        while at < self.traced.searches.len() {
            if let Flow::Over(ended) = self.search(at, until, terminal)? {
                return Ok(ended);
            }
            if at == 0 && !self.traced.first_parent && self.traced.searches.len() == 1 {
                self.enter_merges(terminal)?;
            }
            at += 1;
        }
        Ok(Ended::Complete)
    }

    /// Adds a search for each merge that is a cause.
    fn enter_merges(&mut self, terminal: &mut Terminal) -> anyhow::Result<()> {
        let main = &self.traced.searches[0];
        let causes = main.conclusion.causes.iter();
        let merges: Vec<Step> = causes
            .filter(|cause| main.conclusion.outcome == Outcome::Found && cause.first == cause.last)
            .map(|cause| main.at(cause.first).clone())
            .filter(|step| step.merge)
            .collect();
        for merge in merges {
            let whole = &self.histories[0];
            let inner = self
                .positions
                .builder
                .run(|| commits::merged(whole, &merge.id))?;
            let Some(inner) = inner else { continue };
            terminal.announce(&format!(
                "{} merges {} commits: the search goes on among them",
                &merge.id[..9],
                inner.commits.len()
            ));
            let mut search = searched(&inner);
            search.of_merge = Some(merge.id.clone());
            search.by = self.traced.searches[0].by;
            search.delta = self.traced.searches[0].delta;
            self.traced.searches.push(search);
            self.histories.push(inner);
        }
        self.keep()
    }

    fn search(
        &mut self,
        at: usize,
        until: Duration,
        terminal: &mut Terminal,
    ) -> anyhow::Result<Flow> {
        let every = self.traced.each;
        let last = self.traced.searches[at].steps.len();
        loop {
            if self.bench.stop.asked() {
                return Ok(Flow::Over(Ended::Interrupted));
            }
            let search = &self.traced.searches[at];
            let begun = search.counted.len() > 1 || !search.blocks.is_empty();
            let paused = self.bench.stop.paused();
            if begun && self.started.elapsed().saturating_sub(paused) > until {
                terminal.announce("the time is up");
                return Ok(Flow::Over(Ended::Complete));
            }
            let next = match search.by {
                None => self.decide(at, terminal)?,
                Some(_) => Some(self.traced.searches[at].look(every)),
            };
            let flow = match next {
                None => Flow::On,
                Some(Next::Done) => {
                    self.keep()?;
                    return Ok(Flow::On);
                }
                Some(Next::Count(position)) => {
                    if position != 0 && position != last {
                        self.foretell(at, terminal);
                    }
                    self.count(at, position, terminal)?
                }
                Some(Next::Compare(low, high)) => {
                    if (low, high) != (0, last) {
                        self.foretell(at, terminal);
                    }
                    self.compare(at, low, high, terminal)?
                }
            };
            if let Flow::Over(ended) = flow {
                return Ok(Flow::Over(ended));
            }
            self.keep()?;
        }
    }

    /// Decides what the search goes by, where that is known; else what has to be counted first.
    fn decide(&mut self, at: usize, terminal: &mut Terminal) -> anyhow::Result<Option<Next>> {
        let reads = !self.plan.workload.writes;
        let counts = match self.asked.by {
            ByArg::Instructions => true,
            ByArg::Time => false,
            ByArg::Auto => reads && !self.asked.metric,
        };
        let each = self.traced.each;
        let search = &mut self.traced.searches[at];
        if counts {
            let last = search.steps.len();
            let missing = [0, last]
                .into_iter()
                .find(|p| !search.counted.contains_key(p));
            if let Some(position) = missing {
                return Ok(Some(Next::Count(position)));
            }
            let delta = self.asked.delta.unwrap_or(DELTAS.0);
            let shown = search
                .counted_ends()
                .is_some_and(|ends| !ends.within(delta));
            if shown || each || self.asked.by == ByArg::Instructions {
                search.by = Some(Measure::Instructions);
                search.delta = delta;
                return Ok(None);
            }
            let told = search.counted_ends().as_ref().map_or_else(String::new, |ends| {
                format!(
                    "Counted instructions differ by {}, which is less than matters: the ends are \
                     compared by time.",
                    pgassay_report::change(ends)
                )
            });
            terminal.announce(&told);
            self.traced.notes.push(told);
        }
        let search = &mut self.traced.searches[at];
        search.by = Some(Measure::Time);
        search.delta = self.asked.delta.unwrap_or(DELTAS.1);
        Ok(None)
    }

    /// Builds a position; where that can't be, the search passes it over.
    fn build(
        &mut self,
        at: usize,
        position: usize,
        terminal: &mut Terminal,
    ) -> anyhow::Result<Option<BuildRecord>> {
        if let Some(record) = self.built.get(&(at, position)) {
            return Ok(Some(record.clone()));
        }
        let history = &self.histories[at];
        let commit = history.at(position).clone();
        terminal.progress(&format!("building {}", brief(&commit)));
        match self.positions.build(history, &commit.id, terminal)? {
            Had::This(record) => {
                let search = &mut self.traced.searches[at];
                search.builds += 1;
                self.built.insert((at, position), record.clone());
                Ok(Some(record))
            }
            Had::Unusable(why) => self.pass_over(at, position, why, terminal).map(|()| None),
        }
    }

    /// Notes that a position can't be had.
    fn pass_over(
        &mut self,
        at: usize,
        position: usize,
        why: String,
        terminal: &mut Terminal,
    ) -> anyhow::Result<()> {
        let commit = brief(self.histories[at].at(position));
        let search = &mut self.traced.searches[at];
        let end = match position {
            0 => Some("--good"),
            n if n == search.steps.len() && !self.traced.each => Some("--bad"),
            _ => None,
        };
        if let Some(flag) = end {
            bail!(
                Failure::target(format!("{flag} {commit} can't be built or started: {why}"))
                    .with_remedy("name a commit beside it that can")
            );
        }
        terminal.announce(&format!(
            "{commit} is passed over: {}",
            why.lines().next().unwrap_or_default()
        ));
        search.unbuildable.insert(position, why);
        Ok(())
    }

    fn count(
        &mut self,
        at: usize,
        position: usize,
        terminal: &mut Terminal,
    ) -> anyhow::Result<Flow> {
        let built = match self.build(at, position, terminal) {
            Err(_) if self.bench.stop.asked() => return Ok(Flow::Over(Ended::Interrupted)),
            built => built?,
        };
        let Some(record) = built else {
            return Ok(Flow::On);
        };
        let commit = brief(self.histories[at].at(position));
        terminal.progress(&format!("counting {commit}"));
        if let Some(counted) = self.counted_elsewhere(at, position) {
            self.traced.searches[at].counted.insert(position, counted);
            return Ok(Flow::On);
        }
        let there = self.traced.searches[at].counted.get(&position).cloned();
        let counted = match self.positions.count(&record, there.as_ref(), terminal) {
            Err(_) if self.bench.stop.asked() => return Ok(Flow::Over(Ended::Interrupted)),
            counted => counted?,
        };
        match counted {
            Had::This(counted) => {
                self.traced.searches[at].counted.insert(position, counted);
                Ok(Flow::On)
            }
            Had::Unusable(why) => {
                self.pass_over(at, position, why, terminal)?;
                Ok(Flow::On)
            }
        }
    }

    /// What another search counted of the same commit; none where this one did, too.
    fn counted_elsewhere(&self, at: usize, position: usize) -> Option<CountedAt> {
        let search = &self.traced.searches[at];
        if search.counted.contains_key(&position) {
            return None;
        }
        let id = &search.at(position).id;
        self.traced.searches.iter().find_map(|other| {
            let there = other.counted.iter().find(|(p, _)| other.at(**p).id == *id);
            there.map(|(_, counted)| counted.clone())
        })
    }

    /// Compares two positions by time, in one block.
    fn compare(
        &mut self,
        at: usize,
        low: usize,
        high: usize,
        terminal: &mut Terminal,
    ) -> anyhow::Result<Flow> {
        let mut arms = Vec::new();
        for (label, position) in [("low", low), ("high", high)] {
            let built = match self.build(at, position, terminal) {
                Err(_) if self.bench.stop.asked() => return Ok(Flow::Over(Ended::Interrupted)),
                built => built?,
            };
            let Some(record) = built else {
                return Ok(Flow::On);
            };
            let typed = Typed {
                target: format!("build:{}", record.name),
                settings: self.traced.settings.clone(),
                ..Typed::default()
            };
            arms.push((label.to_owned(), typed));
        }
        let Ok(arms) = <[_; 2]>::try_from(arms) else {
            bail!("two positions make two servers");
        };
        let blocks: usize = self.traced.searches.iter().map(|s| s.blocks.len()).sum();
        let history = &self.histories[at];
        terminal.progress(&format!(
            "block {}: {} against {}",
            blocks + 1,
            brief(history.at(high)),
            brief(history.at(low))
        ));
        let seed = self.plan.seed.wrapping_add(blocks as u64);
        let plan = Plan {
            seed,
            ..self.plan.clone()
        };
        let writer = &mut self.writer;
        match self.bench.block(&arms, &plan, seed, writer, terminal) {
            Err(_) if self.bench.stop.asked() => Ok(Flow::Over(Ended::Interrupted)),
            Err(error) => Err(error),
            Ok(Measured::Interrupted) => Ok(Flow::Over(Ended::Interrupted)),
            Ok(Measured::NotStarted(error)) => {
                for ((_, typed), position) in arms.iter().zip([low, high]) {
                    if let Some(why) = self.bench.refuses(typed)? {
                        self.pass_over(at, position, why, terminal)?;
                        return Ok(Flow::On);
                    }
                }
                Err(error)
            }
            Ok(Measured::Pairs(pairs)) => {
                let search = &mut self.traced.searches[at];
                search.blocks.push(StepBlock { low, high, pairs });
                Ok(Flow::On)
            }
        }
    }

    /// Says once how long the search is expected to take, now that its ends are measured.
    fn foretell(&mut self, at: usize, terminal: &mut Terminal) {
        let so_far = self.seconds();
        let blocks = self.traced.searches[at].blocks.len();
        let build = self.positions.build_seconds;
        let (each, seed) = (self.traced.each, self.traced.seed);
        let search = &mut self.traced.searches[at];
        if search.forecast.is_some() || (each && search.counted.len() + blocks < 2) {
            return;
        }
        let by_time = search.by == Some(Measure::Time);
        let one = match by_time {
            // The builds came before the first block.
            true => (so_far - 2.0 * build).max(0.0) / blocks.max(1) as f64,
            false => self.positions.count_seconds,
        };
        if by_time && one > 0.0 {
            search.build_cost = build / one;
        }
        let (builds, measured) = search.foretell(each, seed);
        let done = if by_time {
            blocks
        } else {
            search.counted.len()
        };
        let built = search.builds as f64;
        let left = (builds - built).max(0.0) * build + (measured - done as f64).max(0.0) * one;
        search.forecast = Some(Cost {
            builds,
            seconds: so_far + left,
        });
        let unit = match by_time {
            true => self.traced.metric.heading,
            false => "instructions per transaction",
        };
        let total: &Interval = &search.conclusion.total;
        let told = match each {
            true => String::new(),
            false => format!(
                "the ends differ by {} in {unit}; ",
                pgassay_report::change(total)
            ),
        };
        terminal.announce(&format!(
            "{told}about {:.0} more builds, about {} more with one cause",
            (builds - built).max(0.0),
            minutes(Duration::from_secs_f64(left)),
        ));
    }

    fn seconds(&self) -> f64 {
        let passed = self.started.elapsed();
        self.before
            + passed
                .saturating_sub(self.bench.stop.paused())
                .as_secs_f64()
    }

    /// Writes down what was measured, and what follows.
    fn keep(&mut self) -> anyhow::Result<()> {
        let seconds = self.seconds();
        let every = self.traced.each;
        let mut earlier = 0.0;
        let last = self.traced.searches.len() - 1;
        for (n, search) in self.traced.searches.iter_mut().enumerate() {
            search.look(every);
            if n == last {
                search.seconds = seconds - earlier;
            }
            earlier += search.seconds;
        }
        self.writer.write_fact(STEPS, &self.traced)
    }
}

fn step(commit: &Commit) -> Step {
    Step {
        id: commit.id.clone(),
        title: commit.subject.clone(),
        merge: commit.merge,
    }
}

/// A search along a history, of which nothing is measured yet.
pub(super) fn searched(history: &History) -> Searched {
    Searched::new(
        step(&history.good),
        history.commits.iter().map(step).collect(),
    )
}

/// A commit for messages.
pub(super) fn brief(commit: &Commit) -> String {
    let id = commit.id.get(..9).unwrap_or(&commit.id);
    format!("{id} ({})", commit.subject)
}

//! Which commit of a range, or which patches of a series, make the difference.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::bail;
use pgassay_analysis::comparison::Typed;
use pgassay_analysis::record::RecordedRun;
use pgassay_analysis::search::steps::{
    Cost, CountedAt, Measure, Next, SCHEMA, Searched, Step, StepBlock, Traced,
};
use pgassay_analysis::search::{Interval, Outcome};
use pgassay_engine::rundir::{self, RunWriter};
use pgassay_engine::runner::Ended;
use pgassay_model::plan::{Arm, Experiment, Stage};
use pgassay_model::run::EventKind;
use pgassay_model::stage::StageId;
use pgassay_model::{Failure, Plan};
use pgassay_observe::host;
use pgassay_server::pgbuild::commits::{self, Commit, History};
use pgassay_server::pgbuild::maker::native_machine;
use pgassay_server::pgbuild::{BuildRecord, Builder, Place, Variant};
use pgassay_sys::stop::Stop;

use super::measure::{Bench, Measured};
use super::positions::{Had, Positions};
use super::setup::{plan, surroundings, usual_clients};
use super::{STEPS, exit_of};
use crate::cli::args::GlobalArgs;
use crate::cli::bisect::{BisectArgs, ByArg};
use crate::commands::again::refuse_whole;
use crate::commands::alone::{self, Company};
use crate::commands::files::page_of_run;
use crate::commands::progress::minutes;
use crate::commands::show::show;
use crate::commands::{build, record};
use crate::exit::Exit;
use crate::terminal::Terminal;

/// The least effect that matters where nobody named one: of counts, of a metric.
const DELTAS: (f64, f64) = (0.005, 0.02);
/// Bytes of shared buffers that servers have by default.
const SHARED_BUFFERS: u64 = 128 << 20;

/// Searches for the commit, or measures the patches.
///
/// # Errors
/// What kept it from measuring; what was measured before is kept.
pub fn bisect(
    args: &BisectArgs,
    global: &GlobalArgs,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Exit> {
    let workload = args.dials.workload(&args.workload)?;
    if workload.writes && args.by == ByArg::Instructions {
        bail!(
            Failure::usage(format!(
                "--by instructions needs a workload that only reads, and {} writes",
                workload.name
            ))
            .with_remedy("leave --by out, or name select-only or a script without writes")
        );
    }
    let variant = variant(&args.variant)?;
    let builder = Builder::find()?;
    build::announce(&builder, terminal);
    let place = builder.run(Place::open)?;
    let (history, kind) = builder.run(|| range(args, &place))?;
    for note in &history.notes {
        terminal.announce(note);
    }
    let root = rundir::root(global.runs.as_deref())?;
    let clients = args.clients.unwrap_or_else(usual_clients);
    let seed = match args.slices.seed {
        Some(seed) => seed,
        None => rundir::random_seed()?,
    };
    let search = searched(&history);
    let traced = Traced {
        schema: SCHEMA.to_owned(),
        source: history.given.clone(),
        kind: kind.to_owned(),
        repository: history.repository.display().to_string(),
        variant: args.variant.clone(),
        settings: args.settings.clone(),
        first_parent: args.first_parent,
        each: args.each || kind == PATCHES,
        workload: workload.name.clone(),
        clients,
        metric: args.metric.unwrap_or_default(),
        pairs: args.pairs,
        seed,
        notes: history.notes.clone(),
        searches: vec![search],
    };
    let plan = plan(args, workload, clients, SHARED_BUFFERS, seed)?;
    let steps = history.commits.len();
    let arms = [("A", 0), ("B", steps)].map(|(label, position)| Arm {
        label: label.to_owned(),
        target: history.at(position).id.clone(),
        typed: history.given.clone(),
        load: false,
        settings: record::pairs(&args.settings),
    });
    let experiment = Experiment::single(arms.into(), Stage::wire(StageId::Load, plan.clone()));
    let kept = stop.defer();
    let mut header = record::header(STEPS, global, experiment);
    let writer = RunWriter::create(&root, &mut header)?;
    writer.write_fact("host", &host::facts(None))?;
    writer.write_fact(STEPS, &traced)?;
    let to_build = match traced.each {
        true => steps + 1,
        false => (steps + 1).min(3 + (steps as f64).log2().ceil() as usize),
    };
    terminal.announce(&format!(
        "{steps} {kind} from {} to {}; about {to_build} have to be built, of which the first compiles \
         everything; the search ends after {} at the latest",
        brief(&history.good),
        brief(history.at(steps)),
        minutes(Duration::from_secs_f64(args.minutes * 60.0)),
    ));
    let tracer = Tracer {
        positions: positions(args, builder, place, variant, &plan, &traced, stop),
        bench: bench(args, &plan, &traced, stop),
        asked: Asked::of(args),
        histories: vec![history],
        traced,
        plan,
        writer,
        started: Instant::now(),
        before: 0.0,
        built: BTreeMap::new(),
    };
    let exit = tracer.finish(args, terminal);
    drop(kept);
    exit
}

/// Goes on with a search.
///
/// # Errors
/// Like [`bisect`]; where nothing is left to do.
pub fn resume(
    args: &BisectArgs,
    dir: PathBuf,
    run: RecordedRun,
    traced: Traced,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Exit> {
    let whole = traced.searches.iter().all(|search| search.complete);
    refuse_whole(&run.header.id, run.end.as_ref(), whole)?;
    let builder = Builder::find()?;
    build::announce(&builder, terminal);
    let place = builder.run(Place::open)?;
    let histories = traced
        .searches
        .iter()
        .map(|search| history(&traced, search));
    let histories: Vec<History> = histories.collect();
    let kept = stop.defer();
    let mut writer = RunWriter::reopen(&dir, &run.header)?;
    writer.append_event(EventKind::Resumed)?;
    let plan = run.header.experiment.plan().clone();
    let variant = variant(&traced.variant)?;
    let tracer = Tracer {
        positions: positions(args, builder, place, variant, &plan, &traced, stop),
        bench: bench(args, &plan, &traced, stop),
        asked: Asked::of(args),
        before: traced.searches.iter().map(|search| search.seconds).sum(),
        histories,
        traced,
        plan,
        writer,
        started: Instant::now(),
        built: BTreeMap::new(),
    };
    let exit = tracer.finish(args, terminal);
    drop(kept);
    exit
}

/// The kinds of steps.
const COMMITS: &str = "commits";
const PATCHES: &str = "patches";

/// The range that was asked for.
fn range(args: &BisectArgs, place: &Place) -> anyhow::Result<(History, &'static str)> {
    let is_patch = |path: &Path| {
        path.extension()
            .is_some_and(|e| e == "patch" || e == "diff")
    };
    let (mut patches, mut others): (Vec<PathBuf>, Vec<PathBuf>) = args
        .subjects
        .iter()
        .map(PathBuf::from)
        .partition(|path| is_patch(path) && args.good.is_none());
    if let Some(dir) = &args.series {
        let entries = std::fs::read_dir(dir)
            .map_err(|error| Failure::usage(format!("--series {}: {error}", dir.display())))?;
        let mut found: Vec<PathBuf> = entries
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| is_patch(path))
            .collect();
        found.sort();
        if found.is_empty() {
            bail!(
                Failure::usage(format!("--series {}: holds no patch", dir.display()))
                    .with_remedy("patches are its files that end in .patch or .diff")
            );
        }
        patches.extend(found);
    }
    let source = match others.len() {
        0 => ".".to_owned(),
        1 => others.remove(0).display().to_string(),
        _ => bail!(
            Failure::usage("one source is searched, and several were named")
                .with_remedy("pgassay bisect --good REF --bad REF SOURCE")
        ),
    };
    match (&args.good, &args.bad) {
        (Some(good), Some(bad)) => Ok((commits::history(&source, good, bad, place)?, COMMITS)),
        _ => {
            let git_ref = args.git_ref.as_deref();
            Ok((commits::series(&source, git_ref, &patches, place)?, PATCHES))
        }
    }
}

/// How all are built; where nothing is asked for, as usual.
fn variant(spec: &str) -> anyhow::Result<Variant> {
    let spec = match spec.trim() {
        "" => "plain",
        spec => spec,
    };
    Ok(Variant::parse(
        &format!("bisect {spec}"),
        &native_machine(),
        false,
    )?)
}

fn positions(
    args: &BisectArgs,
    builder: Builder,
    place: Place,
    variant: Variant,
    plan: &Plan,
    traced: &Traced,
    stop: &Stop,
) -> Positions {
    Positions {
        builder,
        place,
        variant,
        jobs: args.jobs,
        settings: traced.settings.clone(),
        workload: pgassay_model::workload::WorkloadPlan {
            scale: args.slices.scale.unwrap_or(1),
            ..plan.workload.clone()
        },
        scratch: args.scratch.clone(),
        seed: traced.seed,
        stop: stop.clone(),
        build_seconds: 0.0,
        count_seconds: 0.0,
    }
}

fn bench(args: &BisectArgs, plan: &Plan, traced: &Traced, stop: &Stop) -> Bench {
    Bench {
        around: surroundings(args, traced.clients.saturating_add(plan.workload.idle)),
        metric: traced.metric,
        pairs: traced.pairs,
        stop: stop.clone(),
    }
}

fn step(commit: &Commit) -> Step {
    Step {
        id: commit.id.clone(),
        title: commit.subject.clone(),
        merge: commit.merge,
    }
}

fn searched(history: &History) -> Searched {
    Searched::new(
        step(&history.good),
        history.commits.iter().map(step).collect(),
    )
}

/// The history that a recorded search went along.
fn history(traced: &Traced, search: &Searched) -> History {
    let commit = |step: &Step| Commit {
        id: step.id.clone(),
        subject: step.title.clone(),
        merge: step.merge,
    };
    History {
        repository: PathBuf::from(&traced.repository),
        given: traced.source.clone(),
        good: commit(&search.good),
        commits: search.steps.iter().map(commit).collect(),
        notes: Vec::new(),
    }
}

/// A commit for messages.
fn brief(commit: &Commit) -> String {
    let id = &commit.id[..commit.id.len().min(9)];
    format!("{id} ({})", commit.subject)
}

/// What a search goes by that is not recorded.
struct Asked {
    by: ByArg,
    delta: Option<f64>,
    metric: bool,
}

impl Asked {
    fn of(args: &BisectArgs) -> Self {
        Self {
            by: args.by,
            delta: args.delta,
            metric: args.metric.is_some(),
        }
    }
}

/// A search that measures.
struct Tracer {
    positions: Positions,
    bench: Bench,
    asked: Asked,
    /// Of each search.
    histories: Vec<History>,
    traced: Traced,
    plan: Plan,
    writer: RunWriter,
    started: Instant,
    /// Seconds that it took before it was gone on with.
    before: f64,
    /// Builds that are there, by search and position.
    built: BTreeMap<(usize, usize), BuildRecord>,
}

/// Whether a search goes on.
enum Flow {
    On,
    Over(Ended),
}

impl Tracer {
    /// Searches to the end and shows what was found.
    fn finish(mut self, args: &BisectArgs, terminal: &mut Terminal) -> anyhow::Result<Exit> {
        let company = alone::look();
        if let Company::Another = company {
            terminal.warn("another pgassay measures on this machine: they disturb each other");
        }
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
        terminal.announce(&format!("report: {}", page?.display()));
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

//! `pgassay bisect`: which of the settings in which two configurations differ make the difference.
//!
//! The search itself is `analysis::search`; here servers are started with what it asks for, and all that
//! was measured is kept in the run directory (`facts/bisect.json`), from which a killed search goes on.

mod config;
mod measure;

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::bail;
use pgassay_analysis::Plan;
use pgassay_analysis::compare::plan::Typed;
use pgassay_analysis::plan::{Arm, Experiment, Stage};
use pgassay_analysis::record::{EndState, EventKind, RunHeader, StageId};
use pgassay_analysis::search::differences::{Set, SetBlock};
use pgassay_analysis::search::document::{Bisected, Refused, SCHEMA};
use pgassay_analysis::search::{Outcome, Range, forecast, noise};

use self::config::configs;
use self::measure::{Bench, Measured};
use super::alone::{self, Company};
use super::compare::BESIDE;
use super::compare::servers::Surroundings;
use super::files::page_of_run;
use super::progress::minutes;
use super::record::{self, shown};
use super::show::show;
use super::subject::explain;
use crate::cli::args::{GlobalArgs, MeasureArgs, TargetArgs};
use crate::cli::bisect::BisectArgs;
use crate::cli::clients::ClientList;
use crate::cli::measure::{self as resolved, Budget, Concurrency, Machine};
use crate::exit::Exit;
use crate::terminal::Terminal;
use pgassay_engine::rundir::{self, RunWriter, catalogue};
use pgassay_engine::runner::Ended;
use pgassay_model::{Failure, FailureKind};
use pgassay_observe::host;
use pgassay_server::TargetSpec;
use pgassay_sys::stop::Stop;

/// The name of the facts that a search writes down.
const FACTS: &str = "bisect";

/// Searches for the settings that make the difference.
///
/// # Errors
/// What kept it from measuring; what was measured before is kept.
pub fn bisect(
    args: &BisectArgs,
    global: &GlobalArgs,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Exit> {
    let started = Instant::now();
    let root = rundir::root(global.runs.as_deref())?;
    let resumed = args
        .resume
        .as_deref()
        .map(|name| resume(&root, name))
        .transpose()?;
    let kept = stop.defer();
    let mut search = match resumed {
        Some((dir, header, document)) => {
            let mut writer = RunWriter::reopen(&dir, &header)?;
            writer.append_event(EventKind::Resumed)?;
            let plan = header.experiment.plan().clone();
            let around = surroundings(args, plan.points.first().map_or(1, |p| p.clients));
            Search {
                bench: bench(around, &document, stop),
                before: document.seconds,
                document,
                plan,
                writer,
                started,
            }
        }
        None => new(args, global, &root, started, terminal, stop)?,
    };
    let company = alone::look();
    if let Company::Another = company {
        terminal.warn("another pgassay measures on this machine: they disturb each other");
    }
    let dir = search.writer.dir().to_owned();
    let ended = search.run(args.minutes, terminal);
    let end = record::end_of(&ended, started);
    let finished = search.writer.finish(&end);
    let document = search.document;
    drop(search.writer);
    drop(kept);
    if document.blocks.is_empty() {
        return Err(match ended {
            Err(error) => error,
            Ok(_) => Failure::interrupted().into(),
        });
    }
    let page = page_of_run(&dir, &pgassay_report::html(&document));
    show(&document, &args.show, terminal)?;
    terminal.announce(&format!("report: {}", page?.display()));
    let ended = ended?;
    finished?;
    Ok(match ended {
        Ended::Complete => exit_of(&document),
        _ => {
            let run = dir.file_name().unwrap_or_default().to_string_lossy();
            terminal.note(&format!("pgassay bisect --resume {run} goes on"));
            Exit::Partial
        }
    })
}

/// The search of a recorded run; none where it is another kind of run.
///
/// # Errors
/// Where its record is damaged.
pub fn recorded(dir: &Path) -> anyhow::Result<Option<Bisected>> {
    let path = dir.join("facts").join(format!("{FACTS}.json"));
    let Ok(bytes) = std::fs::read(&path) else {
        return Ok(None);
    };
    match serde_json::from_slice(&bytes) {
        Ok(document) => Ok(Some(document)),
        Err(error) => bail!(Failure::usage(format!(
            "{} is damaged: {error}",
            path.display()
        ))),
    }
}

fn exit_of(document: &Bisected) -> Exit {
    match (document.conclusion.outcome, document.is_worse()) {
        (Outcome::Open, _) => Exit::Inconclusive,
        (_, Some(true)) => Exit::Found,
        _ => Exit::Done,
    }
}

fn resume(root: &Path, name: &str) -> anyhow::Result<(PathBuf, RunHeader, Bisected)> {
    let dir = catalogue::find(root, name)?;
    let run = rundir::read(&dir)?;
    let id = &run.header.id;
    let Some(document) = recorded(&dir)? else {
        bail!(
            Failure::usage(format!("{id} is no search of pgassay bisect"))
                .with_remedy("pgassay runs lists what there is")
        );
    };
    let complete = |end: &_| matches!(end, EndState::Complete);
    if document.complete && run.end.as_ref().is_some_and(|end| complete(&end.state)) {
        bail!(
            Failure::usage(format!("{id} is complete; nothing is left to do"))
                .with_remedy("pgassay report renders it")
        );
    }
    Ok((dir, run.header, document))
}

/// What all servers of the search have in common.
fn surroundings(args: &BisectArgs, clients: u32) -> Surroundings {
    let machine = pgassay_analysis::host::summarise(&host::facts(None));
    Surroundings {
        common: TargetArgs {
            target: None,
            settings: Vec::new(),
            load: false,
            scratch: args.scratch.clone(),
            stand_in: args.stand_in,
        },
        memory_bytes: machine
            .memory_limit_bytes
            .or(machine.memory_bytes)
            .unwrap_or(1 << 30),
        connections: clients.saturating_add(BESIDE),
    }
}

fn bench(around: Surroundings, document: &Bisected, stop: &Stop) -> Bench {
    Bench {
        around,
        metric: document.metric,
        pairs: document.pairs,
        stop: stop.clone(),
    }
}

/// A search that begins.
fn new(
    args: &BisectArgs,
    global: &GlobalArgs,
    root: &Path,
    started: Instant,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Search> {
    let spec: TargetSpec = args.server.parse().map_err(explain)?;
    if !spec.is_launched() {
        bail!(
            Failure::usage(
                "--server: the search starts servers of its own with each set of settings"
            )
            .with_remedy("name temp, build:NAME or an installation")
        );
    }
    let workload = args.dials.workload(&args.workload)?;
    let configs = configs(args, terminal)?;
    let machine = pgassay_analysis::host::summarise(&host::facts(None));
    let cpus = machine.cpus.unwrap_or(1);
    let clients = args.clients.unwrap_or(cpus.saturating_mul(2));
    let mut document = Bisected {
        schema: SCHEMA.to_owned(),
        target: shown(&args.server),
        common: configs.common,
        differences: configs.differences,
        workload: workload.name.clone(),
        clients,
        metric: args.metric.unwrap_or_default(),
        delta: args.delta,
        pairs: args.pairs,
        blocks: Vec::new(),
        refused: Vec::new(),
        forecast: None,
        conclusion: pgassay_analysis::search::look(&Range::new(1), &[], &Default::default())
            .conclusion,
        causes: Vec::new(),
        complete: false,
        seconds: 0.0,
    };
    let around = surroundings(args, clients.saturating_add(workload.idle));
    let bench = bench(around, &document, stop);
    let all: Set = (0..document.differences.len()).collect();
    let ends = [arm(&document, "A", &Set::new()), arm(&document, "B", &all)];
    terminal.progress("starting A and B");
    for (label, typed) in &ends {
        if let Err(why) = bench.starts(typed)? {
            return Err(Failure::target(format!("{label} does not start: {why}"))
                .with_remedy(
                    "--ignore NAME leaves a setting out, --set NAME=VALUE gives both another value",
                )
                .into());
        }
    }
    let writes = workload.writes;
    let flags = MeasureArgs {
        clients: Some(ClientList(vec![clients])),
        time: args.time.or(Some(if writes { 0.5 } else { 0.2 })),
        warmup: args.warmup.or(Some(0.05)),
        trials: Some(1),
        threads: args.threads,
        scale: args.scale,
        seed: args.seed,
        ..MeasureArgs::default()
    };
    let seed = match args.seed {
        Some(seed) => seed,
        None => rundir::random_seed()?,
    };
    let machine = Machine {
        cache_bytes: machine.last_level_cache_total_bytes.unwrap_or(0),
        shared_buffers: bench.shared_buffers(&ends)?,
    };
    let plan = resolved::plan(
        workload,
        &flags,
        &Concurrency::of(&flags, cpus),
        2,
        &machine,
        Budget::RUN,
        seed,
    )?;
    let arms = ends.iter().map(|(label, typed)| Arm {
        label: label.clone(),
        target: document.target.clone(),
        typed: document.target.clone(),
        load: false,
        settings: record::pairs(&typed.settings),
    });
    let experiment = Experiment::single(arms.collect(), Stage::wire(StageId::Load, plan.clone()));
    let mut header = record::header(FACTS, global, experiment);
    let writer = RunWriter::create(root, &mut header)?;
    writer.write_fact("host", &host::facts(None))?;
    document.look();
    writer.write_fact(FACTS, &document)?;
    terminal.announce(&format!(
        "{} settings differ; {} at {clients} clients, {} pairs a block. A and B are compared first, \
         until they are known to differ; the search ends after {} at the latest",
        document.differences.len(),
        document.workload,
        document.pairs,
        minutes(std::time::Duration::from_secs_f64(args.minutes * 60.0)),
    ));
    Ok(Search {
        bench,
        document,
        plan,
        writer,
        started,
        before: 0.0,
    })
}

/// A server with B's value of the differences in `set`, and A's of the others.
fn arm(document: &Bisected, label: &str, set: &Set) -> (String, Typed) {
    let own = document.differences.iter().enumerate();
    let own = own.filter_map(|(n, difference)| {
        let value = if set.contains(&n) {
            &difference.b
        } else {
            &difference.a
        };
        Some(format!("{}={}", difference.name, value.as_ref()?))
    });
    let typed = Typed {
        target: document.target.clone(),
        settings: document.common.iter().cloned().chain(own).collect(),
    };
    (label.to_owned(), typed)
}

/// A search that measures.
struct Search {
    bench: Bench,
    document: Bisected,
    plan: Plan,
    writer: RunWriter,
    started: Instant,
    /// Seconds that it took before it was gone on with.
    before: f64,
}

impl Search {
    fn run(&mut self, longest: f64, terminal: &mut Terminal) -> anyhow::Result<Ended> {
        let all: Set = (0..self.document.differences.len()).collect();
        let mut known_to_start: Vec<Set> = vec![Set::new(), all.clone()];
        while let Some((low, high)) = self.document.look() {
            if self.bench.stop.asked() {
                return Ok(Ended::Interrupted);
            }
            let over = self.started.elapsed().as_secs_f64() > longest * 60.0;
            if over && !self.document.blocks.is_empty() {
                terminal.announce("the time is up");
                return self.keep().map(|()| Ended::Complete);
            }
            let ends = low.is_empty() && high == all;
            if !ends && self.document.forecast.is_none() {
                self.foretell(terminal);
            }
            if let Some(set) = [&low, &high]
                .into_iter()
                .find(|s| !known_to_start.contains(s))
            {
                let (_, typed) = arm(&self.document, "", set);
                match self.bench.starts(&typed)? {
                    Ok(()) => known_to_start.push(set.clone()),
                    Err(_) if self.bench.stop.asked() => return Ok(Ended::Interrupted),
                    Err(why) => {
                        terminal.detail(&format!("{} is passed over: {why}", self.words(set)));
                        let set = set.clone();
                        self.document.refused.push(Refused { set, why });
                        self.keep()?;
                    }
                }
                continue;
            }
            terminal.progress(&format!(
                "block {}: {} against {}",
                self.document.blocks.len() + 1,
                self.words(&high),
                self.words(&low)
            ));
            let arms = [
                arm(&self.document, "low", &low),
                arm(&self.document, "high", &high),
            ];
            let seed = self
                .plan
                .seed
                .wrapping_add(self.document.blocks.len() as u64);
            let plan = Plan {
                seed,
                ..self.plan.clone()
            };
            let measured = match self.bench.block(&arms, &plan, seed, terminal) {
                Err(_) if self.bench.stop.asked() => return Ok(Ended::Interrupted),
                Err(error) => {
                    return match Failure::of(&error) {
                        Some(failure) if failure.kind == FailureKind::Target => {
                            Ok(Ended::ServerDied(format!("{error:#}")))
                        }
                        _ => Err(error),
                    };
                }
                Ok(measured) => measured,
            };
            let Measured::Pairs(pairs) = measured else {
                return Ok(Ended::Interrupted);
            };
            self.document.blocks.push(SetBlock { low, high, pairs });
            self.keep()?;
        }
        self.keep().map(|()| Ended::Complete)
    }

    /// Writes down what was measured, and what follows.
    fn keep(&mut self) -> anyhow::Result<()> {
        self.document.look();
        self.document.seconds = self.before + self.started.elapsed().as_secs_f64();
        self.writer.write_fact(FACTS, &self.document)
    }

    /// Says how long the rest is expected to take, now that the ends are known to differ.
    fn foretell(&mut self, terminal: &mut Terminal) {
        let document = &self.document;
        let blocks: Vec<noise::Block> = document
            .blocks
            .iter()
            .map(|block| noise::Block {
                low: 0,
                high: 1,
                ratios: block
                    .pairs
                    .iter()
                    .map(|(low, high)| (high / low).ln())
                    .collect(),
            })
            .collect();
        let seen = noise::observations(&blocks);
        let mean = seen.iter().map(|o| o.effect).sum::<f64>() / seen.len() as f64;
        let apart: f64 = seen.iter().map(|o| (o.effect - mean).powi(2)).sum();
        let within = seen.iter().map(|o| o.variance).sum::<f64>() / seen.len() as f64;
        let variance = within.max(apart / (seen.len().max(2) - 1) as f64);
        let mut range = Range::new(document.differences.len());
        range.built = (0..=range.steps).collect();
        let size = document.conclusion.total.estimate.ln_1p();
        let expected = forecast(&range, size, variance, &document.rules(), self.plan.seed);
        let each = (self.before + self.started.elapsed().as_secs_f64()) / seen.len() as f64;
        let left = |blocks: f64| {
            let seconds = (blocks - seen.len() as f64).max(1.0) * each;
            minutes(std::time::Duration::from_secs_f64(seconds))
        };
        terminal.announce(&format!(
            "B against A: {}; with one cause about {} more ({} in 9 of 10 searches), with several longer",
            pgassay_report::change(&document.conclusion.total),
            left(expected.blocks),
            left(expected.most_blocks)
        ));
        self.document.forecast = Some(expected);
    }

    fn words(&self, set: &Set) -> String {
        let all = self.document.differences.len();
        match set.len() {
            0 => "A".to_owned(),
            n if n == all => "B".to_owned(),
            1 => set
                .first()
                .and_then(|n| self.document.differences.get(*n))
                .map_or_else(String::new, |d| format!("A with B's {}", d.name)),
            n => format!("A with {n} of B's settings"),
        }
    }
}

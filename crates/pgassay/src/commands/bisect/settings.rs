//! Which of the things in which two servers differ make the difference.

use pgassay_analysis::number::counted;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pgassay_analysis::search::conclusion::nothing;
use pgassay_analysis::search::differences::{Set, SetBlock};
use pgassay_analysis::search::document::{Bisected, DifferenceKind, Refused, SCHEMA};
use pgassay_analysis::search::noise::{self, Block};
use pgassay_analysis::search::{Range, forecast};
use pgassay_engine::rundir::{self, RunWriter};
use pgassay_engine::runner::Ended;
use pgassay_model::comparison::Typed;
use pgassay_model::plan::{Arm, Experiment, Stage};
use pgassay_model::record::RecordedRun;
use pgassay_model::run::EventKind;
use pgassay_model::stage::StageId;
use pgassay_model::{Failure, FailureKind, Plan};
use pgassay_observe::host;
use pgassay_server::TargetSpec;
use pgassay_sys::stop::Stop;

use super::config::{give, sides};
use super::exit_of;
use super::measure::{Bench, Measured};
use super::setup::{clients, plan, surroundings};
use crate::cli::args::GlobalArgs;
use crate::cli::bisect::BisectArgs;
use crate::commands::again::refuse_whole;
use crate::commands::alone;
use crate::commands::copies::dump_of;
use crate::commands::files::page_of_run;
use crate::commands::opened;
use crate::commands::progress::minutes;
use crate::commands::record::{self, shown};
use crate::commands::search::SETTINGS;
use crate::commands::show::show;
use crate::exit::{Exit, explain};
use crate::terminal::Terminal;

/// The least effect that matters where nobody named one.
const DELTA: f64 = 0.02;

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
    let root = rundir::root(global.runs.as_deref())?;
    let kept = stop.defer();
    let search = new(args, global, &root, terminal, stop)?;
    let exit = search.finish(args, terminal);
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
    document: Bisected,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Exit> {
    refuse_whole(&run.header.id, run.end.as_ref(), document.complete)?;
    let b = document
        .differences
        .iter()
        .find(|d| d.kind == DifferenceKind::Server);
    let mut servers = vec![document.target.clone()];
    servers.extend(b.and_then(|d| d.b.clone()));
    let dump = dump_of(
        &args.sides,
        document.copy_of.as_deref(),
        servers.iter(),
        terminal,
        stop,
    )?;
    let kept = stop.defer();
    let mut writer = RunWriter::reopen(&dir, &run.header)?;
    writer.append_event(EventKind::Resumed)?;
    let plan = run.header.experiment.plan().clone();
    let clients = plan.points.first().map_or(1, |p| p.clients);
    let search = Search {
        bench: Bench {
            around: surroundings(args, clients, dump),
            metric: document.metric,
            pairs: document.pairs,
            stop: stop.clone(),
        },
        before: document.seconds,
        document,
        plan,
        writer,
        started: Instant::now(),
    };
    let exit = search.finish(args, terminal);
    drop(kept);
    exit
}

/// A search that begins.
fn new(
    args: &BisectArgs,
    global: &GlobalArgs,
    root: &Path,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Search> {
    refuse_running(&args.server)?;
    args.sides.dials.refuse_replay()?;
    let workload = args.sides.dials.workload(&args.workload)?;
    let sides = sides(args, terminal)?;
    let mut servers = vec![sides.server.clone()];
    let named = sides
        .differences
        .iter()
        .filter(|d| d.kind == DifferenceKind::Server);
    servers.extend(named.filter_map(|d| d.b.clone()));
    let dump = dump_of(&args.sides, None, servers.iter(), terminal, stop)?;
    let started = Instant::now();
    let clients = clients(args)?;
    let mut document = Bisected {
        schema: SCHEMA.to_owned(),
        target: sides.server,
        common: sides.settings,
        confinement: sides.confinement,
        copy_of: args.sides.from_database.as_deref().map(shown),
        differences: sides.differences,
        workload: workload.name.clone(),
        clients,
        metric: args.metric.unwrap_or_default(),
        delta: args.delta.unwrap_or(DELTA),
        pairs: args.pairs,
        blocks: Vec::new(),
        refused: Vec::new(),
        forecast: None,
        conclusion: nothing(0),
        causes: Vec::new(),
        complete: false,
        seconds: 0.0,
    };
    let bench = Bench {
        around: surroundings(
            args,
            clients.saturating_add(workload.further_connections()),
            dump,
        ),
        metric: document.metric,
        pairs: document.pairs,
        stop: stop.clone(),
    };
    let all: Set = (0..document.differences.len()).collect();
    let ends = [arm(&document, "A", &Set::new()), arm(&document, "B", &all)];
    terminal.progress("starting A and B");
    let shared_buffers = bench.shared_buffers(&ends).map_err(|error| {
        let why = ends.iter().find_map(|(label, typed)| {
            let why = bench.refuses(typed).ok()??;
            Some(format!("{label} does not start: {why}"))
        });
        match why {
            Some(why) => Failure::target(why)
                .with_remedy(
                    "--ignore NAME leaves a setting out, --set NAME=VALUE gives both another value",
                )
                .into(),
            None => error,
        }
    })?;
    let seed = record::seed(None, args.sides.slices.seed)?;
    let plan = plan(args, workload, clients, shared_buffers, seed)?;
    let arms = ends.iter().map(|(label, typed)| Arm {
        label: label.clone(),
        target: shown(&typed.target),
        typed: shown(&typed.target),
        load: false,
        settings: record::pairs(&typed.settings),
        confinement: typed.confinement.clone(),
        ..Arm::default()
    });
    let experiment = Experiment::single(arms.collect(), Stage::wire(StageId::Load, plan.clone()));
    let mut header = record::header(SETTINGS, global, experiment);
    let writer = RunWriter::create(root, &mut header)?;
    writer.write_fact("host", &host::facts(None))?;
    document.look();
    writer.write_fact(SETTINGS, &document)?;
    terminal.announce(&format!(
        "{} {}; {} at {}, {} pairs a block. A and B are compared first, \
         until they are known to differ; the search ends after {} at the latest",
        counted(document.differences.len() as u64, document.noun()),
        match document.differences.len() {
            1 => "differs",
            _ => "differ",
        },
        document.workload,
        counted(clients, "client"),
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

/// Refuses a server that can't be started with each set of differences.
fn refuse_running(server: &str) -> anyhow::Result<()> {
    let spec: TargetSpec = server.parse().map_err(explain)?;
    match spec.is_launched() {
        true => Ok(()),
        false => Err(Failure::usage(
            "--server: the search starts servers of its own with each set of differences",
        )
        .with_remedy("name temp, build:NAME or an installation")
        .into()),
    }
}

/// A server with B's value of the differences in `set`, and A's of the others.
fn arm(document: &Bisected, label: &str, set: &Set) -> (String, Typed) {
    let mut typed = Typed {
        target: document.target.clone(),
        settings: document.common.clone(),
        confinement: document.confinement.clone(),
        copy_of: document.copy_of.clone(),
        ..Typed::default()
    };
    for (n, difference) in document.differences.iter().enumerate() {
        let value = match set.contains(&n) {
            true => &difference.b,
            false => &difference.a,
        };
        if let Some(value) = value {
            give(&mut typed, difference, value);
        }
    }
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
    /// Searches to the end and shows what was found.
    fn finish(mut self, args: &BisectArgs, terminal: &mut Terminal) -> anyhow::Result<Exit> {
        let company = alone::look();
        alone::warn(&company, terminal);
        let dir = self.writer.dir().to_owned();
        let ended = self.run(args.minutes, terminal);
        let end = record::end_of(&ended, self.started);
        let finished = self.writer.finish(&end);
        let document = self.document;
        drop(self.writer);
        if document.blocks.is_empty() {
            return Err(match ended {
                Err(error) => error,
                Ok(_) => Failure::interrupted().into(),
            });
        }
        let page = page_of_run(&dir, &pgassay_report::html(&document));
        show(&document, &args.show, terminal)?;
        opened::announce(&page?, false, terminal);
        let ended = ended?;
        finished?;
        Ok(match ended {
            Ended::Complete => exit_of(document.conclusion.outcome, document.is_worse()),
            _ => {
                let run = dir.file_name().unwrap_or_default().to_string_lossy();
                terminal.note(&format!("pgassay bisect --resume {run} goes on"));
                Exit::Partial
            }
        })
    }

    /// How long the search has been at work.
    fn passed(&self) -> Duration {
        let passed = self.started.elapsed();
        passed.saturating_sub(self.bench.stop.paused())
    }

    fn run(&mut self, longest: f64, terminal: &mut Terminal) -> anyhow::Result<Ended> {
        let all: Set = (0..self.document.differences.len()).collect();
        while let Some((low, high)) = self.document.look() {
            if self.bench.stop.asked() {
                return Ok(Ended::Interrupted);
            }
            let over = self.passed().as_secs_f64() > longest * 60.0;
            if over && !self.document.blocks.is_empty() {
                terminal.announce("the time is up");
                return self.keep().map(|()| Ended::Complete);
            }
            let ends = low.is_empty() && high == all;
            if !ends && self.document.forecast.is_none() {
                self.foretell(terminal);
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
            let writer = &mut self.writer;
            let measured = match self.bench.block(&arms, &plan, seed, writer, terminal) {
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
            let pairs = match measured {
                Measured::Pairs(pairs) => pairs,
                Measured::Interrupted => return Ok(Ended::Interrupted),
                Measured::NotStarted(error) => {
                    self.pass_over([low, high], error, terminal)?;
                    continue;
                }
            };
            self.document.blocks.push(SetBlock { low, high, pairs });
            self.keep()?;
        }
        self.keep().map(|()| Ended::Complete)
    }

    /// Notes which of two sets a server does not start with.
    fn pass_over(
        &mut self,
        sets: [Set; 2],
        error: anyhow::Error,
        terminal: &mut Terminal,
    ) -> anyhow::Result<()> {
        for set in sets {
            let (_, typed) = arm(&self.document, "", &set);
            if let Some(why) = self.bench.refuses(&typed)? {
                terminal.detail(&format!("{} is passed over: {why}", self.words(&set)));
                self.document.refused.push(Refused { set, why });
                return self.keep();
            }
        }
        Err(error)
    }

    /// Writes down what was measured, and what follows.
    fn keep(&mut self) -> anyhow::Result<()> {
        self.document.look();
        self.document.seconds = self.before + self.passed().as_secs_f64();
        self.writer.write_fact(SETTINGS, &self.document)
    }

    /// Says how long the rest is expected to take, now that the ends are known to differ.
    fn foretell(&mut self, terminal: &mut Terminal) {
        let document = &self.document;
        let blocks: Vec<Block> = document
            .blocks
            .iter()
            .map(|block| Block::of_pairs(0, 1, &block.pairs))
            .collect();
        let seen = noise::observations(&blocks);
        let variance = noise::expected(&seen);
        let mut range = Range::new(document.differences.len());
        range.built = (0..=range.steps).collect();
        let size = document.conclusion.total.estimate.ln_1p();
        let expected = forecast(&range, size, variance, &document.rules(), self.plan.seed);
        let each = (self.before + self.passed().as_secs_f64()) / seen.len() as f64;
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
            n => format!("A with {n} of B's {}s", self.document.noun()),
        }
    }
}

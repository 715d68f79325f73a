//! `pgassay guard`: HEAD against BASE within minutes, held against thresholds.

use pgassay_analysis::number::counted;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::bail;
use pgassay_analysis::guard::{self, Guarded, Judged, SCHEMA};
use pgassay_analysis::metrics::MetricId;
use pgassay_engine::runner::Ended;
use pgassay_model::{Failure, FailureKind};
use pgassay_report::tracked;
use pgassay_server::pgbuild::commits;
use pgassay_server::pgbuild::maker::native_machine;
use pgassay_server::pgbuild::shared::CommitMade;
use pgassay_server::pgbuild::{Builder, Place, Variant};
use pgassay_sys::input;
use pgassay_sys::stop::Stop;

use super::bisect;
use super::build;
use super::compare::{Measured, measure, metric};
use super::counts;
use super::files::{page_of_run, to_file};
use super::progress::minutes;
use super::record::shown;
use super::show::{next, refuse_page, show};
use crate::cli::args::GlobalArgs;
use crate::cli::bisect::{BisectArgs, ByArg};
use crate::cli::compare::{By, CompareArgs};
use crate::cli::guard::GuardArgs;
use crate::cli::show::{Format, ShowArgs};
use crate::cli::sides::SidesArgs;
use crate::exit::Exit;
use crate::terminal::Terminal;

/// How much worse throughput may become where nothing was said.
const USUAL: f64 = 0.03;
/// The same of the 99th percentile.
const USUAL_LATENCY: f64 = 0.1;
/// Fewest minutes that a workload is measured, whatever is left.
const LEAST: f64 = 0.3;
/// The part of a workload's time that counting may take.
const COUNTING: f64 = 0.5;

/// Compares under each workload and holds the result against the thresholds.
///
/// # Errors
/// What kept it from measuring anything.
pub fn guard(
    args: &GuardArgs,
    global: &GlobalArgs,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Exit> {
    let started = Instant::now();
    refuse_page(&args.show, terminal)?;
    let workloads = match args.workloads.as_slice() {
        [] => vec!["select-only".to_owned()],
        named => named.to_vec(),
    };
    if args.bisect.is_some() || args.instructions.is_some() {
        args.sides.dials.refuse_replay()?;
    }
    if args.instructions.is_some() {
        args.sides.given.refuse_counted()?;
    }
    args.sides.slices.one_scale()?;
    args.sides.given.refuse_beyond(2)?;
    // Checked before the first of them is measured.
    let mut usual = (MetricId::default(), USUAL);
    for workload in &workloads {
        let plan = args.sides.dials.workload(workload)?;
        let by_default = metric(None, plan.replay.as_ref())?;
        if by_default != MetricId::default() {
            usual = (by_default, USUAL_LATENCY);
        }
        for (named, _) in &args.thresholds {
            metric(Some(*named), plan.replay.as_ref())?;
        }
    }
    let thresholds = match args.thresholds.as_slice() {
        [] => vec![usual],
        named => named.to_vec(),
    };
    let announced = minutes(Duration::from_secs_f64(args.minutes * 60.0));
    terminal.announce(&format!(
        "{announced} for everything: {}{} of {}{}",
        if args.source.is_some() {
            "two builds, "
        } else {
            ""
        },
        "starts and pairs",
        counted(workloads.len() as u64, "workload"),
        match args.instructions {
            Some(_) => ", and counting, which takes at most half of the time of each",
            None => "",
        }
    ));
    let mut guarding = Guarding {
        args,
        global,
        thresholds,
        deadline: started + Duration::from_secs_f64(args.minutes * 60.0),
        guarded: Guarded {
            schema: SCHEMA.to_owned(),
            base: shown(&args.base),
            head: shown(&args.head),
            commit: None,
            checks: Vec::new(),
            warnings: Vec::new(),
            complete: true,
            stopped: None,
            budget_seconds: args.minutes * 60.0,
            seconds: 0.0,
        },
    };
    // CI gets its files whatever kept it from measuring, unless that is the command line.
    let kept = guarding.all(&workloads, terminal, stop);
    let mut guarded = guarding.guarded;
    if let Err(error) = &kept {
        let kind = Failure::of(error).map(|failure| failure.kind);
        if matches!(kind, Some(FailureKind::Usage | FailureKind::Interrupted)) {
            return kept.map(|()| Exit::Done);
        }
        guarded.complete = false;
        guarded.stopped = Some(format!("{error:#}"));
    }
    guarded.seconds = started.elapsed().as_secs_f64();
    if guarded.seconds > 1.1 * guarded.budget_seconds {
        guarded.warnings.push(format!(
            "It took {} instead of {announced}: each workload is measured for a while, whatever builds and \
             starts have taken.",
            minutes(Duration::from_secs_f64(guarded.seconds))
        ));
    }
    if let Some(path) = &args.junit {
        to_file(path, "--junit", &pgassay_report::junit(&guarded))?;
    }
    if let Some(path) = &args.markdown {
        to_file(path, "--markdown", &pgassay_report::markdown(&guarded))?;
    }
    if let Some(path) = &args.bencher {
        to_file(path, "--bencher", &tracked::bencher(&guarded))?;
    }
    if let Some(dir) = &args.otava {
        track(dir, &guarded)?;
    }
    show(&guarded, &args.show, terminal)?;
    kept?;
    let step = next_of(args, &guarded);
    next(&args.show, step.as_slice(), terminal);
    if let (Some(file), Some(source)) = (&args.bisect, &args.source) {
        search(args, source, file, &guarded, global, terminal, stop)?;
    }
    Ok(exit_of(&guarded))
}

/// The command that a failed or an unclear check leads to.
fn next_of(args: &GuardArgs, guarded: &Guarded) -> Option<String> {
    let (base, head) = (&guarded.base, &guarded.head);
    if guarded.count(Judged::Failed) > 0 {
        return Some(match (&args.bisect, &args.source) {
            (Some(_), _) => return None,
            (None, Some(source)) => {
                format!("pgassay bisect --good {base} --bad {head} {source}")
            }
            (None, None) => "pgassay report last".to_owned(),
        });
    }
    let unclear = guarded.count(Judged::Unclear) > 0;
    unclear.then(|| {
        let minutes = (3.0 * args.minutes).ceil();
        format!("the same with --minutes {minutes}, for what is unclear")
    })
}

fn exit_of(guarded: &Guarded) -> Exit {
    if guarded.count(Judged::Failed) > 0 {
        Exit::Found
    } else if !guarded.complete {
        Exit::Partial
    } else if guarded.count(Judged::NotComparable) > 0 {
        Exit::NotComparable
    } else if guarded.count(Judged::Unclear) > 0 {
        Exit::Inconclusive
    } else {
        Exit::Done
    }
}

/// What is known while workloads are measured.
struct Guarding<'a> {
    args: &'a GuardArgs,
    global: &'a GlobalArgs,
    thresholds: Vec<(MetricId, f64)>,
    deadline: Instant,
    guarded: Guarded,
}

impl Guarding<'_> {
    /// Measures each workload, until one can't be finished.
    fn all(
        &mut self,
        workloads: &[String],
        terminal: &mut Terminal,
        stop: &Stop,
    ) -> anyhow::Result<()> {
        let targets = self.targets(terminal, stop)?;
        for (done, workload) in workloads.iter().enumerate() {
            if !self.guarded.complete {
                break;
            }
            terminal.announce(&format!("workload {workload}"));
            self.one(&targets, workload, workloads.len() - done, terminal, stop)?;
        }
        Ok(())
    }

    /// What is compared: as named, or the builds of two refs.
    fn targets(&mut self, terminal: &mut Terminal, stop: &Stop) -> anyhow::Result<[String; 2]> {
        let args = self.args;
        let Some(source) = &args.source else {
            return Ok([args.base.clone(), args.head.clone()]);
        };
        let builder = Builder::find()?;
        build::announce(&builder, terminal);
        let place = builder.run(Place::open)?;
        let spec = match args.variant.trim() {
            "" => "plain",
            spec => spec,
        };
        let variant = Variant::parse(&format!("bisect {spec}"), &native_machine(), false)?;
        let history = builder.run(|| commits::pair(source, &args.base, &args.head, &place))?;
        let head = history.at(1).id.clone();
        self.guarded.commit = Some(head.clone());
        let mut made = |name: &str, commit: &str| -> anyhow::Result<String> {
            terminal.progress(&format!("building {name}"));
            let made = builder.run(|| {
                build::making(&place, args.jobs, terminal, stop, |maker| {
                    maker.make_commit(&history, commit, &variant)
                })
            })?;
            match made {
                CommitMade::Made(record, ..) => Ok(format!("build:{}", record.name)),
                CommitMade::Unbuildable(why) => {
                    bail!(Failure::target(format!("{name} can't be built: {why}")))
                }
            }
        };
        Ok([
            made(&args.base, &history.good.id)?,
            made(&args.head, &head)?,
        ])
    }

    /// Minutes that one of the workloads that are left may take.
    fn share(&self, left: usize) -> f64 {
        let seconds = self.deadline.saturating_duration_since(Instant::now());
        seconds.as_secs_f64() / 60.0 / left.max(1) as f64
    }

    /// compare's arguments for a workload.
    fn compare(&self, targets: &[String; 2], workload: &str, minutes: f64) -> CompareArgs {
        let args = self.args;
        let (metric, threshold) = self.thresholds.first().copied().unwrap_or_default();
        CompareArgs {
            targets: targets.to_vec(),
            workload: workload.to_owned(),
            sides: args.sides.clone(),
            paired: args.paired.clone(),
            metric: Some(metric),
            // Pairs enough to show a difference as large as the threshold.
            delta: threshold,
            minutes: Some(minutes),
            ..CompareArgs::default()
        }
    }

    /// Counts a workload within a part of its time.
    fn count(
        &mut self,
        targets: &[String; 2],
        workload: &str,
        threshold: f64,
        minutes: f64,
        terminal: &mut Terminal,
        stop: &Stop,
    ) -> anyhow::Result<()> {
        let until = Instant::now() + Duration::from_secs_f64(COUNTING * minutes * 60.0);
        let mut compare = self.compare(targets, workload, minutes);
        compare.by = By::Instructions;
        compare.sides.slices = compare.sides.slices.with_clients(None);
        compare.paired.pairs = None;
        let counts = counts::count(&compare, Some(until), terminal, stop)?;
        self.guarded
            .checks
            .push(guard::check_of_counts(&counts, threshold));
        self.guarded.warnings.extend(counts.counted.warnings);
        Ok(())
    }

    /// Measures one workload, of so many that are left.
    fn one(
        &mut self,
        targets: &[String; 2],
        workload: &str,
        left: usize,
        terminal: &mut Terminal,
        stop: &Stop,
    ) -> anyhow::Result<()> {
        let until = Instant::now() + Duration::from_secs_f64(self.share(left) * 60.0);
        if let Some(threshold) = self.args.instructions
            && !self.args.sides.dials.workload(workload)?.writes
        {
            self.count(
                targets,
                workload,
                threshold,
                self.share(left),
                terminal,
                stop,
            )?;
        }
        let rest = until.saturating_duration_since(Instant::now());
        let compare = self.compare(targets, workload, (rest.as_secs_f64() / 60.0).max(LEAST));
        let Measured {
            concluded,
            run,
            dir,
            ended,
            finished,
        } = match measure(&compare, self.global, terminal, stop) {
            // What other workloads showed is told all the same.
            Err(error) if !self.guarded.checks.is_empty() => {
                self.stopped(workload, &error, terminal);
                return Ok(());
            }
            measured => measured?,
        };
        let page = page_of_run(&dir, &pgassay_report::html(&concluded))?;
        terminal.announce(&format!("report: {}", page.display()));
        self.guarded
            .checks
            .extend(guard::checks(&concluded, &run, &self.thresholds));
        for warning in concluded.warnings.iter().map(|w| &w.text) {
            if !self.guarded.warnings.contains(warning) {
                self.guarded.warnings.push(warning.clone());
            }
        }
        self.guarded.complete = matches!(ended, Ok(Ended::Complete));
        if let Err(error) = &ended {
            self.stopped(workload, error, terminal);
        }
        finished
    }

    fn stopped(&mut self, workload: &str, error: &anyhow::Error, terminal: &mut Terminal) {
        let why = format!("{workload}: {error:#}");
        terminal.complain(&why);
        self.guarded.complete = false;
        self.guarded.stopped = Some(why);
    }
}

/// Adds a line to the CSV file of each workload and client count, and describes the files.
fn track(dir: &Path, guarded: &Guarded) -> anyhow::Result<()> {
    let failed = |error: std::io::Error| {
        Failure::usage(format!("--otava {}: {error}", dir.display()))
            .with_remedy("name a directory that can be written to")
    };
    std::fs::create_dir_all(dir).map_err(failed)?;
    let time = pgassay_engine::rundir::now();
    for series in tracked::series(guarded) {
        let path = dir.join(format!("{}.csv", series.name));
        let before = match input::open(&path).and_then(std::io::read_to_string) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            read => read.map_err(failed)?,
        };
        let header = series.header();
        if !before.is_empty() && before.lines().next() != Some(header.trim_end()) {
            bail!(
                Failure::usage(format!(
                    "{}: holds other columns than {header}",
                    path.display()
                ))
                .with_remedy(
                    "name another directory with --otava, or the same thresholds as before"
                )
            );
        }
        let start = if before.is_empty() { header } else { before };
        to_file(&path, "--otava", &(start + &series.line(&time)))?;
    }
    to_file(&dir.join("otava.yaml"), "--otava", &tracked::otava(guarded))
}

/// Searches for the commit that had the first check fail.
fn search(
    args: &GuardArgs,
    source: &str,
    file: &Path,
    guarded: &Guarded,
    global: &GlobalArgs,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<()> {
    let Some((failed, by_time)) = guard::searched(&guarded.checks) else {
        return Ok(());
    };
    let workloads = args.workloads.iter();
    let workload = workloads
        .clone()
        .find(|typed| {
            args.sides
                .dials
                .workload(typed)
                .is_ok_and(|w| w.name == failed.workload)
        })
        .cloned()
        .unwrap_or_else(|| failed.workload.clone());
    terminal.announce(&format!("{workload} failed: searching for the commit"));
    let counted = failed.metric == "instructions";
    let at = Some(failed.clients).filter(|_| !counted);
    let bisect = BisectArgs {
        subjects: vec![source.to_owned()],
        good: Some(args.base.clone()),
        bad: Some(args.head.clone()),
        variant: args.variant.clone(),
        jobs: args.jobs,
        workload,
        // Counted under valgrind, as the check was; a metric of that name takes the processor's counter.
        by: match (counted, by_time) {
            (true, _) => ByArg::Instructions,
            (false, true) => ByArg::Time,
            (false, false) => ByArg::default(),
        },
        metric: MetricId::find(&failed.metric)
            .ok()
            .filter(|m| !counted && *m != MetricId::default()),
        minutes: args.bisect_minutes,
        pairs: 30,
        sides: SidesArgs {
            dials: args.sides.dials.clone(),
            given: args.sides.given.settings_of_all(),
            slices: args.sides.slices.with_clients(at),
            scratch: args.sides.scratch.clone(),
            ..SidesArgs::default()
        },
        show: ShowArgs {
            format: Format::Markdown,
            output: Some(file.to_path_buf()),
            ..ShowArgs::default()
        },
        ..BisectArgs::default()
    };
    bisect::bisect(&bisect, global, terminal, stop)?;
    terminal.place("written:", file);
    Ok(())
}
